/* tokenizer.json and its companions as GGUF's metadata. */
#include "convert/gguf_describe.h"

#include "base/alloc.h"
#include "base/base64.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/json.h"
#include "base/map.h"
#include "convert/gguf_pre.h"
#include "convert/gguf_tokenizer.h"

#include <mica/file.h>
#include <mica/tokenizer.h>

#include <stdio.h>
#include <string.h>

/* The score of a token that no merge makes: below all others. */
#define UNMERGED (-1e6F)

typedef enum kind_of {
    BYTE_LEVEL, /* merges of bytes, which are spelt as characters */
    SCORED,     /* SentencePiece's way: scores instead of merges */
    WORDPIECE,
    UNIGRAM
} kind_of;

static const char *const models[] = {"gpt2", "llama", "bert", "t5"}; /* tokenizer.ggml.model */

typedef struct vocab {
    const mc_source *source;
    mc_json_doc *doc, *config, *generation, *chat; /* the last three may be absent */
    mc_json root, model;
    mica_tokenizer *tok;
    kind_of kind;
    bool prefix;            /* of SCORED and UNIGRAM: a blank is put before a text, */
    bool squeezes;          /* of UNIGRAM: and several are one */
    const mc_gguf_pre *pre; /* of BYTE_LEVEL */
    int64_t rows;
    mc_arena arena;
    mc_str *texts;  /* [rows]; ptr NULL: no token */
    uint8_t *types; /* [rows] */
    float *scores;  /* [rows], of SCORED and UNIGRAM */
    int64_t bos, eos, eot, unk;
    bool adds_bos, adds_eos; /* to a text, at its two ends */
    size_t between;          /* tokens between the two of a pair */
} vocab;

static mica_status no_memory(void) {
    return mc_fail_nomem("the tokenizer of a GGUF file");
}

static mica_status refuse(const char *why) {
    return mc_fail(MICA_EUNSUPPORTED, "tokenizer.json: mica knows no such tokenizer of GGUF: %s",
                   why);
}

/* The root of a document that may be absent. */
static mc_json root_of(const mc_json_doc *doc) {
    return doc ? mc_json_root(doc) : (mc_json){0};
}

static bool is_type(mc_json object, const char *type) {
    mc_str text;
    return mc_json_get_str(mc_json_find(object, "type"), &text) && mc_str_is(text, type);
}

/* ---- its kind ---- */

enum { MAX_SPLITS = 8 };

/* The pattern of one step of a pre-tokeniser; false: GGUF has none. */
static bool read_split(mc_json step, mc_str *pattern) {
    bool each = false, words = true;
    if (is_type(step, "Split"))
        return mc_json_get_str(mc_json_find(mc_json_find(step, "pattern"), "Regex"), pattern);
    mc_json_get_bool(mc_json_find(step, "individual_digits"), &each);
    if (is_type(step, "Digits") && each) *pattern = MC_STR(MC_GGUF_DIGIT);
    mc_json_get_bool(mc_json_find(step, "use_regex"), &words);
    if (is_type(step, "ByteLevel") && words) *pattern = MC_STR(MC_GGUF_GPT2);
    return (is_type(step, "Digits") && each) || is_type(step, "ByteLevel");
}

typedef struct split_list {
    mc_str patterns[MAX_SPLITS];
    int n;
    bool spells; /* the last step spells bytes */
} split_list;

static bool add_split(split_list *list, mc_json step) {
    mc_str pattern = {NULL, 0};
    if (list->spells || list->n == MAX_SPLITS || !read_split(step, &pattern)) return false;
    list->spells = is_type(step, "ByteLevel");
    if (pattern.ptr) list->patterns[list->n++] = pattern;
    return true;
}

/* The patterns by which a pre-tokeniser splits that spells bytes at last; false: it is another. */
static bool read_splits(mc_json pre, split_list *list) {
    bool done = true;
    *list = (split_list){0};
    if (!is_type(pre, "Sequence")) return add_split(list, pre) && list->spells;
    for (mc_json_iter it = mc_json_begin(mc_json_find(pre, "pretokenizers"));
         done && mc_json_next(&it);)
        done = add_split(list, it.value);
    return done && list->spells;
}

/* Whether a row splits by the same patterns. */
static bool has_splits(const mc_gguf_pre *pre, const split_list *list) {
    for (int i = 0; i < list->n; i++)
        if (!pre->splits[i] || !mc_str_is(list->patterns[i], pre->splits[i])) return false;
    return !pre->splits[list->n];
}

typedef struct id_list {
    int32_t *of;
    size_t n;
} id_list;

/* Finds a run of tokens at or behind a place; n: it is not there. */
static size_t find_run(const id_list *in, size_t from, const id_list *run) {
    for (size_t at = from; at + run->n <= in->n; at++)
        if (memcmp(in->of + at, run->of, run->n * sizeof *run->of) == 0) return at;
    return in->n;
}

/* Takes what is before and behind a text, and between two, from their tokens. */
static mica_status take_around(vocab *v, const id_list *bare, const id_list *whole,
                               const id_list *pair) {
    size_t first = find_run(whole, 0, bare), behind = first + bare->n;
    if (!bare->n || first == whole->n) return MICA_OK;
    size_t second = find_run(pair, behind, bare);
    v->between = second < pair->n ? second - behind : 0;
    if (first > 1 || whole->n - behind > 1)
        return refuse("it puts several tokens before or behind a text");
    v->adds_bos = first == 1;
    v->adds_eos = whole->n == behind + 1;
    if (v->adds_bos) v->bos = whole->of[0];
    if (!v->adds_eos || v->eos == whole->of[behind]) return MICA_OK;
    if (v->eot < 0) v->eot = v->eos;
    v->eos = whole->of[behind];
    return MICA_OK;
}

static mica_status find_around(vocab *v) {
    id_list bare = {0}, whole = {0}, pair = {0};
    int32_t *types = NULL;
    mica_status status = mica_tokenizer_encode(v->tok, "a", 1, false, &bare.of, &bare.n);
    if (status == MICA_OK)
        status = mica_tokenizer_encode(v->tok, "a", 1, true, &whole.of, &whole.n);
    if (status == MICA_OK)
        status = mica_tokenizer_encode_pair(v->tok, "a", 1, "a", 1, &pair.of, &types, &pair.n);
    if (status == MICA_EUNSUPPORTED) status = MICA_OK; /* it has no form for pairs */
    if (status == MICA_OK) status = take_around(v, &bare, &whole, &pair);
    mica_free(bare.of);
    mica_free(whole.of);
    mica_free(pair.of);
    mica_free(types);
    return status;
}

/* Of several rows that fit the one is chosen that says the same of the first token. */
static mica_status find_pre(vocab *v) {
    split_list splits;
    bool merges = false, bos = v->adds_bos;
    mc_json normalizer = mc_json_find(v->root, "normalizer");
    bool nfc = is_type(normalizer, "NFC");
    if (!read_splits(mc_json_find(v->root, "pre_tokenizer"), &splits))
        return refuse("it does not split words by patterns, and spell bytes");
    if (mc_json_exists(normalizer) && !nfc) return refuse("another normaliser");
    mc_json_get_bool(mc_json_find(v->model, "ignore_merges"), &merges);
    for (size_t i = 0; mc_gguf_pre_at(i); i++) {
        const mc_gguf_pre *pre = mc_gguf_pre_at(i);
        bool fits = !pre->blanks && has_splits(pre, &splits) && pre->nfc == nfc &&
                    pre->ignore_merges == merges;
        if (fits && (!v->pre || (v->pre->bos != bos && pre->bos == bos))) v->pre = pre;
    }
    return v->pre ? MICA_OK : refuse("another pattern of words");
}

/* Whether SentencePiece's normaliser puts a blank before a text; false: it is another. */
static bool read_prefix(mc_json normalizer, bool *prefix) {
    mc_str blank;
    mc_json_iter it = mc_json_begin(mc_json_find(normalizer, "normalizers"));
    *prefix = is_type(normalizer, "Sequence") && mc_json_next(&it) && is_type(it.value, "Prepend");
    if (*prefix && mc_json_next(&it)) normalizer = it.value;
    return is_type(normalizer, "Replace") &&
           mc_json_get_str(mc_json_find(normalizer, "content"), &blank) &&
           mc_str_is(blank, "\xe2\x96\x81");
}

static bool is_true(mc_json object, const char *key) {
    bool is = false;
    mc_json_get_bool(mc_json_find(object, key), &is);
    return is;
}

static mica_status find_wordpiece(vocab *v) {
    mc_json normalizer = mc_json_find(v->root, "normalizer");
    mc_str mark = MC_STR("");
    v->kind = WORDPIECE;
    mc_json_get_str(mc_json_find(v->model, "continuing_subword_prefix"), &mark);
    if (!mc_str_is(mark, "##")) return refuse("another mark of the parts of words");
    if (!is_type(mc_json_find(v->root, "pre_tokenizer"), "BertPreTokenizer"))
        return refuse("it does not split words as BERT does");
    if (!is_type(normalizer, "BertNormalizer") || !is_true(normalizer, "clean_text") ||
        !is_true(normalizer, "handle_chinese_chars"))
        return refuse("another normaliser");
    return MICA_OK;
}

/* One step of a Unigram's normaliser: the map of characters, or that which makes one blank of
 * several. */
static bool read_step(vocab *v, mc_json step) {
    mc_str text = MC_STR("");
    mc_json_get_str(mc_json_find(mc_json_find(step, "pattern"), "Regex"), &text);
    if (is_type(step, "Replace") && mc_str_is(text, " {2,}")) return v->squeezes = true;
    return is_type(step, "Precompiled") || is_type(step, "Strip");
}

/* One of its pre-tokeniser. */
static bool read_space(vocab *v, mc_json step) {
    mc_str scheme = MC_STR("always");
    bool prefix = true;
    if (is_type(step, "WhitespaceSplit")) return v->squeezes = true;
    mc_json_get_str(mc_json_find(step, "prepend_scheme"), &scheme);
    mc_json_get_bool(mc_json_find(step, "add_prefix_space"), &prefix);
    v->prefix = prefix && !mc_str_is(scheme, "never");
    return is_type(step, "Metaspace");
}

/* Whether all steps of a Sequence, or the one that there is, are known. */
static bool each_step(vocab *v, mc_json steps, const char *list, bool (*read)(vocab *, mc_json)) {
    bool known = true;
    if (!is_type(steps, "Sequence")) return read(v, steps);
    for (mc_json_iter it = mc_json_begin(mc_json_find(steps, list)); known && mc_json_next(&it);)
        known = read(v, it.value);
    return known;
}

static mica_status find_unigram(vocab *v) {
    mc_json normalizer = mc_json_find(v->root, "normalizer");
    bool plain = !mc_json_exists(normalizer) || mc_json_get_type(normalizer) == MC_JSON_NULL;
    v->kind = UNIGRAM;
    if (is_true(v->model, "byte_fallback")) return refuse("a Unigram that spells bytes");
    if (!plain && !each_step(v, normalizer, "normalizers", read_step))
        return refuse("another normaliser");
    if (!each_step(v, mc_json_find(v->root, "pre_tokenizer"), "pretokenizers", read_space))
        return refuse("it does not split words as SentencePiece does");
    return MICA_OK;
}

static mica_status find_kind(vocab *v) {
    if (is_type(v->model, "WordPiece")) return find_wordpiece(v);
    if (is_type(v->model, "Unigram")) return find_unigram(v);
    if (!is_type(v->model, "BPE")) return refuse("its model is none of BPE, WordPiece and Unigram");
    if (!is_true(v->model, "byte_fallback")) return find_pre(v);
    v->kind = SCORED;
    if (!read_prefix(mc_json_find(v->root, "normalizer"), &v->prefix))
        return refuse("another normaliser");
    return MICA_OK;
}

/* ---- tokens ---- */

static mica_status put_token(vocab *v, mc_str text, int64_t id, uint8_t type) {
    if (id < 0 || id >= v->rows)
        return mc_fail(MICA_EFORMAT, "tokenizer.json: token %lld, the embedding has %lld rows",
                       (long long)id, (long long)v->rows);
    v->texts[id] = text;
    v->types[id] = type;
    return MICA_OK;
}

/* "<0x0A>" */
static bool is_byte(mc_str text) {
    return text.len == 6 && memcmp(text.ptr, "<0x", 3) == 0 && text.ptr[5] == '>';
}

static mica_status put_vocab(vocab *v) {
    for (mc_json_iter it = mc_json_begin(mc_json_find(v->model, "vocab")); mc_json_next(&it);) {
        int64_t id = -1;
        mc_json_get_int(it.value, &id);
        bool byte = v->kind == SCORED && is_byte(it.key);
        MC_TRY(put_token(v, it.key, id, byte ? MC_GGUF_BYTE : MC_GGUF_NORMAL));
    }
    return MICA_OK;
}

/* Pairs of a text and its score, in the order of ids. */
static mica_status put_pieces(vocab *v) {
    int64_t id = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_find(v->model, "vocab")); mc_json_next(&it);
         id++) {
        mc_str text;
        double score;
        mc_json_iter pair = mc_json_begin(it.value);
        if (!mc_json_next(&pair) || !mc_json_get_str(pair.value, &text) || !mc_json_next(&pair) ||
            !mc_json_get_float(pair.value, &score))
            return mc_fail(MICA_EFORMAT, "tokenizer.json: piece %lld is ill-formed", (long long)id);
        MC_TRY(put_token(v, text, id, id == v->unk ? MC_GGUF_UNKNOWN : MC_GGUF_NORMAL));
        v->scores[id] = (float)score;
    }
    return MICA_OK;
}

static mica_status put_added(vocab *v) {
    mc_str text;
    for (mc_json_iter it = mc_json_begin(mc_json_find(v->root, "added_tokens"));
         mc_json_next(&it);) {
        int64_t id = -1;
        mc_json_get_int(mc_json_find(it.value, "id"), &id);
        if (!mc_json_get_str(mc_json_find(it.value, "content"), &text)) continue;
        if (id >= v->rows) continue; /* of images: text models of Gemma 3 have no row for it */
        bool none = id == v->unk && (v->kind == SCORED || v->kind == UNIGRAM);
        MC_TRY(put_token(v, text, id,
                         none                           ? MC_GGUF_UNKNOWN
                         : is_true(it.value, "special") ? MC_GGUF_CONTROL
                                                        : MC_GGUF_USER_DEFINED));
    }
    return MICA_OK;
}

static mica_status put_tokens(vocab *v) {
    MC_TRY(v->kind == UNIGRAM ? put_pieces(v) : put_vocab(v));
    return put_added(v);
}

/* A mark for the beginnings of WordPiece's words, and none for their other parts: the other way
 * round in tokenizer.json. */
static mica_status mark_words(vocab *v) {
    for (int64_t i = 0; i < v->rows; i++) {
        mc_str *text = &v->texts[i];
        if (v->types[i] == MC_GGUF_CONTROL) continue;
        if (text->len > 2 && mc_str_starts(*text, MC_STR("##"))) {
            *text = (mc_str){text->ptr + 2, text->len - 2};
            continue;
        }
        char *marked = mc_arena_alloc(&v->arena, text->len + 3);
        if (!marked) return no_memory();
        memcpy(marked, "\xe2\x96\x81", 3);
        memcpy(marked + 3, text->ptr, text->len);
        *text = (mc_str){marked, text->len + 3};
    }
    return MICA_OK;
}

/* Rows of the embedding without a token get a name that no token has. */
static mica_status fill_gaps(vocab *v) {
    char name[32];
    for (int64_t i = 0; i < v->rows; i++) {
        if (v->texts[i].ptr) continue;
        int len = snprintf(name, sizeof name, "[PAD%lld]", (long long)i);
        const char *text = mc_arena_strndup(&v->arena, name, (size_t)len);
        if (!text) return no_memory();
        MC_TRY(put_token(v, (mc_str){text, (size_t)len}, i, MC_GGUF_UNUSED));
    }
    return MICA_OK;
}

/* The halves of a merge, which is a pair or a text with a blank. */
static bool read_merge(mc_json merge, mc_str *left, mc_str *right) {
    mc_str text;
    if (mc_json_get_str(merge, &text)) {
        const char *blank = text.len ? memchr(text.ptr, ' ', text.len) : NULL;
        if (!blank) return false;
        *left = (mc_str){text.ptr, (size_t)(blank - text.ptr)};
        *right = (mc_str){blank + 1, text.len - left->len - 1};
        return true;
    }
    mc_json_iter it = mc_json_begin(merge);
    return mc_json_next(&it) && mc_json_get_str(it.value, left) && mc_json_next(&it) &&
           mc_json_get_str(it.value, right);
}

static mica_status bad_merge(size_t i) {
    return mc_fail(MICA_EFORMAT, "tokenizer.json: merge %zu is ill-formed", i);
}

/* A token's score is that of the first merge that makes it: earlier ones are higher. */
static mica_status score_merges(vocab *v, const mc_map *ids, mc_buffer *both) {
    size_t i = 0;
    mc_str left, right;
    for (int64_t k = 0; k < v->rows; k++)
        v->scores[k] = v->types[k] == MC_GGUF_NORMAL ? UNMERGED : 0;
    for (mc_json_iter it = mc_json_begin(mc_json_find(v->model, "merges")); mc_json_next(&it);
         i++) {
        uint64_t id;
        mc_buffer_clear(both);
        if (!read_merge(it.value, &left, &right)) return bad_merge(i);
        if (!mc_buffer_add(both, left.ptr, left.len) || !mc_buffer_add(both, right.ptr, right.len))
            return no_memory();
        if (!mc_map_find(ids, (mc_str){both->data, both->len}, &id)) return bad_merge(i);
        if (v->scores[id] <= UNMERGED) v->scores[id] = -(float)i;
    }
    return MICA_OK;
}

static mica_status find_scores(vocab *v) {
    mc_map ids = {0};
    mc_buffer both = {0};
    bool done = mc_map_reserve(&ids, (size_t)v->rows);
    for (int64_t i = 0; done && i < v->rows; i++)
        done = mc_map_put(&ids, v->texts[i], (uint64_t)i);
    mica_status status = done ? score_merges(v, &ids, &both) : no_memory();
    mc_buffer_deinit(&both);
    mc_map_deinit(&ids);
    return status;
}

/* ---- writing ---- */

static mica_status put_merges(const vocab *v, mc_gguf_pairs *out) {
    mc_json merges = mc_json_find(v->model, "merges");
    mc_buffer both = {0};
    mica_status status = MICA_OK;
    size_t i = 0;
    bool done = mc_gguf_begin_strs(out, "tokenizer.ggml.merges", mc_json_count(merges));
    for (mc_json_iter it = mc_json_begin(merges); done && mc_json_next(&it); i++) {
        mc_str left, right;
        mc_buffer_clear(&both);
        if (!read_merge(it.value, &left, &right) || memchr(left.ptr, ' ', left.len)) {
            status = bad_merge(i);
            break;
        }
        done = mc_buffer_add(&both, left.ptr, left.len) && mc_buffer_add_byte(&both, ' ') &&
               mc_buffer_add(&both, right.ptr, right.len) &&
               mc_gguf_add_str(out, (mc_str){both.data, both.len});
    }
    mc_buffer_deinit(&both);
    return done ? status : no_memory();
}

static bool put_lists(const vocab *v, mc_gguf_pairs *out) {
    uint64_t n = (uint64_t)v->rows;
    bool done = mc_gguf_begin_strs(out, "tokenizer.ggml.tokens", n);
    for (int64_t i = 0; done && i < v->rows; i++)
        done = mc_gguf_add_str(out, v->texts[i]);
    done = done && mc_gguf_begin_i32s(out, "tokenizer.ggml.token_type", n);
    for (int64_t i = 0; done && i < v->rows; i++)
        done = mc_gguf_add_i32(out, v->types[i]);
    if (v->kind != SCORED && v->kind != UNIGRAM) return done;
    done = done && mc_gguf_begin_f32s(out, "tokenizer.ggml.scores", n);
    for (int64_t i = 0; done && i < v->rows; i++)
        done = mc_gguf_add_f32(out, v->scores[i]);
    return done;
}

static bool put_id(const vocab *v, const char *key, int64_t id, mc_gguf_pairs *out) {
    return id < 0 || id >= v->rows || mc_gguf_put_u32(out, key, (uint32_t)id);
}

/* The template of a "chat_template": a text, or the default one of a list. */
static bool find_chat(mc_json value, mc_str *text) {
    mc_str name;
    if (mc_json_get_str(value, text)) return true;
    for (mc_json_iter it = mc_json_begin(value); mc_json_next(&it);)
        if (mc_json_get_str(mc_json_find(it.value, "name"), &name) && mc_str_is(name, "default"))
            return mc_json_get_str(mc_json_find(it.value, "template"), text);
    return false;
}

/* The places of a template, in the order of text/chat/chat_template.h. */
static mica_status put_chat(const vocab *v, mc_gguf_pairs *out) {
    static const char key[] = "tokenizer.chat_template";
    mc_str text;
    mc_filemap map;
    mica_status status = MICA_OK;
    char *path = mc_path_join(v->source->folder, "chat_template.jinja");
    if (!path) return no_memory();
    bool there = mc_path_is_file(path), done = true;
    if (there) status = mc_filemap_open(path, MC_FILE_CHAT_TEMPLATE, &map);
    mc_free(path);
    MC_TRY(status);
    if (there) {
        done = mc_gguf_put_str(out, key, (mc_str){(const char *)map.data, map.size});
        mc_filemap_close(&map);
    } else if (find_chat(mc_json_find(root_of(v->config), "chat_template"), &text) ||
               find_chat(mc_json_find(root_of(v->chat), "chat_template"), &text)) {
        done = mc_gguf_put_str(out, key, text);
    }
    return done ? MICA_OK : no_memory();
}

/* The compiled map of a Unigram's normaliser. */
static mica_status put_charsmap(const vocab *v, mc_gguf_pairs *out) {
    mc_json normalizer = mc_json_find(v->root, "normalizer");
    mc_str text = MC_STR("");
    mc_buffer bytes = {0};
    mc_json_get_str(mc_json_find(normalizer, "precompiled_charsmap"), &text);
    for (mc_json_iter it = mc_json_begin(mc_json_find(normalizer, "normalizers"));
         mc_json_next(&it);)
        mc_json_get_str(mc_json_find(it.value, "precompiled_charsmap"), &text);
    mica_status status = mc_base64_decode(text, &bytes);
    if (status == MICA_OK && bytes.len &&
        !mc_gguf_put_bytes(out, "tokenizer.ggml.precompiled_charsmap", bytes.data, bytes.len))
        status = no_memory();
    mc_buffer_deinit(&bytes);
    return status;
}

static bool put_steps(const vocab *v, mc_gguf_pairs *out) {
    mc_json normalizer = mc_json_find(v->root, "normalizer");
    bool lower = is_true(normalizer, "lowercase"), accents = lower;
    mc_json_get_bool(mc_json_find(normalizer, "strip_accents"), &accents);
    if (v->kind == WORDPIECE)
        return mc_gguf_put_bool(out, "tokenizer.ggml.normalizer.lowercase", lower) &&
               mc_gguf_put_bool(out, "tokenizer.ggml.normalizer.strip_accents", accents);
    if (v->kind == BYTE_LEVEL) return true;
    return mc_gguf_put_bool(out, "tokenizer.ggml.add_space_prefix", v->prefix) &&
           (v->kind != UNIGRAM ||
            mc_gguf_put_bool(out, "tokenizer.ggml.remove_extra_whitespaces", v->squeezes));
}

static bool put_ids(const vocab *v, mc_gguf_pairs *out) {
    bool pairs = v->adds_bos && v->adds_eos;
    return put_id(v, "tokenizer.ggml.bos_token_id", v->bos, out) &&
           put_id(v, "tokenizer.ggml.eos_token_id", v->eos, out) &&
           put_id(v, "tokenizer.ggml.eot_token_id", v->eot, out) &&
           put_id(v, "tokenizer.ggml.unknown_token_id", v->unk, out) &&
           put_id(v, "tokenizer.ggml.padding_token_id", mica_tokenizer_pad(v->tok), out) &&
           (!pairs || put_id(v, "tokenizer.ggml.seperator_token_id", v->eos, out)) &&
           mc_gguf_put_bool(out, "tokenizer.ggml.add_bos_token", v->adds_bos) &&
           (!v->adds_eos || mc_gguf_put_bool(out, "tokenizer.ggml.add_eos_token", true)) &&
           (!pairs || mc_gguf_put_bool(out, "tokenizer.ggml.add_sep_token", v->between > 1));
}

static mica_status put_all(const vocab *v, mc_gguf_pairs *out) {
    mc_str pre = v->kind == BYTE_LEVEL ? mc_gguf_pre_name(v->pre) : MC_STR("default");
    bool done = mc_gguf_put_str(out, "tokenizer.ggml.model", mc_str_of(models[v->kind])) &&
                mc_gguf_put_str(out, "tokenizer.ggml.pre", pre) && put_steps(v, out) &&
                put_lists(v, out) && put_ids(v, out);
    if (!done) return no_memory();
    if (v->kind == BYTE_LEVEL) MC_TRY(put_merges(v, out));
    if (v->kind == UNIGRAM) MC_TRY(put_charsmap(v, out));
    return put_chat(v, out);
}

/* ---- the whole ---- */

/* The tokens that end an answer: a list, or one, in generation_config.json, else config.json. The
 * first that is not the tokenizer's own ends a turn of a chat. */
static void find_ids(vocab *v) {
    mc_json configs[] = {root_of(v->generation), v->source->config};
    v->bos = mica_tokenizer_bos(v->tok);
    v->eos = mica_tokenizer_eos(v->tok);
    v->eot = -1;
    mc_str text;
    v->unk = mica_tokenizer_unk(v->tok);
    if (mc_json_get_str(mc_json_find(v->model, "unk_token"), &text))
        v->unk = mica_tokenizer_find(v->tok, text.ptr, text.len);
    mc_json_get_int(mc_json_find(v->model, "unk_id"), &v->unk);
    for (size_t i = 0; i < 2; i++) {
        mc_json ends = mc_json_find(configs[i], "eos_token_id");
        int64_t id = -1;
        if (v->bos < 0) mc_json_get_int(mc_json_find(configs[i], "bos_token_id"), &v->bos);
        if (mc_json_get_int(ends, &id) && v->eos < 0) v->eos = id;
        for (mc_json_iter it = mc_json_begin(ends); mc_json_next(&it);) {
            if (!mc_json_get_int(it.value, &id)) continue;
            if (v->eos < 0) v->eos = id;
            if (v->eot < 0 && id != v->eos) v->eot = id;
        }
    }
}

static mica_status load_optional(const char *folder, const char *name, mc_file_kind kind,
                                 mc_json_doc **doc) {
    char *path = mc_path_join(folder, name);
    if (!path) return no_memory();
    mica_status status = mc_path_is_file(path) ? mc_json_load(path, kind, doc) : MICA_OK;
    mc_free(path);
    return status;
}

static mica_status load_all(vocab *v, const char *path) {
    MC_TRY(mc_json_load(path, MC_FILE_TOKENIZER, &v->doc));
    const char *folder = v->source->folder;
    MC_TRY(load_optional(folder, "tokenizer_config.json", MC_FILE_TOKENIZER_CONFIG, &v->config));
    MC_TRY(
        load_optional(folder, "generation_config.json", MC_FILE_TOKENIZER_CONFIG, &v->generation));
    MC_TRY(load_optional(folder, "chat_template.json", MC_FILE_CHAT_TEMPLATE, &v->chat));
    MC_TRY(mica_tokenizer_open(folder, &v->tok));
    v->root = mc_json_root(v->doc);
    v->model = mc_json_find(v->root, "model");
    find_ids(v);
    return find_around(v);
}

static mica_status describe(vocab *v, const char *path, mc_gguf_pairs *out) {
    MC_TRY(load_all(v, path));
    MC_TRY(find_kind(v));
    v->texts = mc_arena_calloc(&v->arena, (size_t)v->rows * sizeof *v->texts);
    v->types = mc_arena_calloc(&v->arena, (size_t)v->rows + 1);
    v->scores = mc_arena_calloc(&v->arena, (size_t)v->rows * sizeof *v->scores + 1);
    if (!v->texts || !v->types || !v->scores) return no_memory();
    MC_TRY(put_tokens(v));
    MC_TRY(fill_gaps(v));
    if (v->kind == SCORED) MC_TRY(find_scores(v));
    if (v->kind == WORDPIECE) MC_TRY(mark_words(v));
    return put_all(v, out);
}

mica_status mc_gguf_describe_tokenizer(const mc_source *source, int64_t rows, mc_gguf_pairs *out) {
    vocab v = {.source = source, .rows = rows};
    char *path = mc_path_join(source->folder, "tokenizer.json");
    mica_status status = path ? MICA_OK : no_memory();
    if (status == MICA_OK && !mc_path_is_file(path)) {
        bool done = mc_gguf_put_str(out, "tokenizer.ggml.model", MC_STR("none"));
        status = done ? MICA_OK : no_memory();
    } else if (status == MICA_OK) {
        status = describe(&v, path, out);
    }
    mica_tokenizer_close(&v.tok);
    mc_json_close(&v.generation);
    mc_json_close(&v.chat);
    mc_json_close(&v.config);
    mc_json_close(&v.doc);
    mc_arena_deinit(&v.arena);
    mc_free(path);
    return status;
}
