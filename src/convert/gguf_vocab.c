/* tokenizer.json and its companions as GGUF's metadata. */
#include "convert/gguf_describe.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/json.h"
#include "base/map.h"

#include <mica/file.h>
#include <mica/tokenizer.h>

#include <stdio.h>
#include <string.h>

/* The score of a token that no merge makes: below all others. */
#define UNMERGED (-1e6F)

typedef struct vocab {
    const mc_source *source;
    mc_json_doc *doc, *config, *generation, *chat; /* the last three may be absent */
    mc_json root, model;
    mica_tokenizer *tok;
    bool scored;            /* SentencePiece's way: scores instead of merges */
    const mc_gguf_pre *pre; /* of others */
    int64_t rows;
    mc_arena arena;
    mc_str *texts;  /* [rows]; ptr NULL: no token */
    uint8_t *types; /* [rows] */
    float *scores;  /* [rows], of scored ones */
    int64_t bos, eos, eot;
} vocab;

static mica_status no_memory(void) {
    return mc_fail_nomem("the tokenizer of a GGUF file");
}

static mica_status refuse(const char *why) {
    return mc_fail(MICA_EUNSUPPORTED,
                   "tokenizer.json: GGUF has no such tokenizer: %s; mica writes those of Llama 3, "
                   "Qwen and Gemma",
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

/* The pattern of a pre-tokeniser that splits by it and then spells bytes. */
static bool find_pattern(mc_json pre, mc_str *pattern) {
    mc_json list = mc_json_find(pre, "pretokenizers");
    mc_json_iter it = mc_json_begin(list);
    if (!is_type(pre, "Sequence") || mc_json_count(list) != 2 || !mc_json_next(&it) ||
        !is_type(it.value, "Split") ||
        !mc_json_get_str(mc_json_find(mc_json_find(it.value, "pattern"), "Regex"), pattern))
        return false;
    return mc_json_next(&it) && is_type(it.value, "ByteLevel");
}

/* Whether the tokenizer adds its first token to a text. */
static mica_status adds_bos(const vocab *v, bool *adds) {
    int32_t *ids;
    size_t n;
    MC_TRY(mica_tokenizer_encode(v->tok, "", 0, true, &ids, &n));
    *adds = n > 0 && ids[0] == v->bos;
    mica_free(ids);
    return MICA_OK;
}

static mica_status find_pre(vocab *v) {
    char words[256];
    mc_str pattern;
    bool merges = true, bos;
    mc_json normalizer = mc_json_find(v->root, "normalizer");
    bool nfc = is_type(normalizer, "NFC");
    if (!find_pattern(mc_json_find(v->root, "pre_tokenizer"), &pattern))
        return refuse("it does not split words by one pattern");
    if (mc_json_exists(normalizer) && !nfc) return refuse("another normaliser");
    MC_TRY(adds_bos(v, &bos));
    merges = false;
    mc_json_get_bool(mc_json_find(v->model, "ignore_merges"), &merges);
    for (size_t i = 0; mc_gguf_pre_at(i); i++) {
        const mc_gguf_pre *pre = mc_gguf_pre_at(i);
        mc_gguf_pre_pattern(pre, words, sizeof words);
        bool fits = mc_str_is(pattern, words) && pre->nfc == nfc && pre->ignore_merges == merges;
        if (fits && (!v->pre || (v->pre->bos != bos && pre->bos == bos))) v->pre = pre;
    }
    return v->pre ? MICA_OK : refuse("another pattern of words");
}

static mica_status find_kind(vocab *v, const mc_gguf_arch *arch) {
    mc_str blank;
    if (!is_type(v->model, "BPE")) return refuse("its model is not BPE");
    mc_json_get_bool(mc_json_find(v->model, "byte_fallback"), &v->scored);
    if (!v->scored) return find_pre(v);
    mc_json normalizer = mc_json_find(v->root, "normalizer");
    if (!arch->gemma) return refuse("SentencePiece's way with another model than Gemma");
    if (!is_type(normalizer, "Replace") ||
        !mc_json_get_str(mc_json_find(normalizer, "content"), &blank) ||
        !mc_str_is(blank, "\xe2\x96\x81"))
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

static mica_status put_tokens(vocab *v) {
    mc_str unknown = MC_STR(""), text;
    mc_json_get_str(mc_json_find(v->model, "unk_token"), &unknown);
    for (mc_json_iter it = mc_json_begin(mc_json_find(v->model, "vocab")); mc_json_next(&it);) {
        int64_t id = -1;
        mc_json_get_int(it.value, &id);
        bool byte = v->scored && is_byte(it.key);
        MC_TRY(put_token(v, it.key, id, byte ? MC_GGUF_BYTE : MC_GGUF_NORMAL));
    }
    for (mc_json_iter it = mc_json_begin(mc_json_find(v->root, "added_tokens"));
         mc_json_next(&it);) {
        int64_t id = -1;
        bool special = false;
        mc_json_get_int(mc_json_find(it.value, "id"), &id);
        mc_json_get_bool(mc_json_find(it.value, "special"), &special);
        if (!mc_json_get_str(mc_json_find(it.value, "content"), &text)) continue;
        if (id >= v->rows) continue; /* of images: text models of Gemma 3 have no row for it */
        bool none = v->scored && unknown.len && mc_str_eq(text, unknown);
        MC_TRY(put_token(v, text, id,
                         none      ? MC_GGUF_UNKNOWN
                         : special ? MC_GGUF_CONTROL
                                   : MC_GGUF_USER_DEFINED));
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
    v->scores = mc_arena_calloc(&v->arena, (size_t)v->rows * sizeof *v->scores);
    bool done = v->scores && mc_map_reserve(&ids, (size_t)v->rows);
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
    if (!v->scored) return done;
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

static mica_status put_all(const vocab *v, mc_gguf_pairs *out) {
    bool bos;
    int64_t unknown = mica_tokenizer_unk(v->tok);
    mc_str text;
    if (mc_json_get_str(mc_json_find(v->model, "unk_token"), &text))
        unknown = mica_tokenizer_find(v->tok, text.ptr, text.len);
    MC_TRY(adds_bos(v, &bos));
    bool done = mc_gguf_put_str(out, "tokenizer.ggml.model",
                                v->scored ? MC_STR("llama") : MC_STR("gpt2")) &&
                (v->scored ? mc_gguf_put_str(out, "tokenizer.ggml.pre", MC_STR("default")) &&
                                 mc_gguf_put_bool(out, "tokenizer.ggml.add_space_prefix", false)
                           : mc_gguf_put_str(out, "tokenizer.ggml.pre", mc_str_of(v->pre->name))) &&
                put_lists(v, out) && put_id(v, "tokenizer.ggml.bos_token_id", v->bos, out) &&
                put_id(v, "tokenizer.ggml.eos_token_id", v->eos, out) &&
                put_id(v, "tokenizer.ggml.eot_token_id", v->eot, out) &&
                put_id(v, "tokenizer.ggml.unknown_token_id", unknown, out) &&
                put_id(v, "tokenizer.ggml.padding_token_id", mica_tokenizer_pad(v->tok), out) &&
                mc_gguf_put_bool(out, "tokenizer.ggml.add_bos_token", bos);
    if (!done) return no_memory();
    if (!v->scored) MC_TRY(put_merges(v, out));
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
    return MICA_OK;
}

static mica_status describe(vocab *v, const mc_gguf_arch *arch, const char *path,
                            mc_gguf_pairs *out) {
    MC_TRY(load_all(v, path));
    MC_TRY(find_kind(v, arch));
    v->texts = mc_arena_calloc(&v->arena, (size_t)v->rows * sizeof *v->texts);
    v->types = mc_arena_calloc(&v->arena, (size_t)v->rows + 1);
    if (!v->texts || !v->types) return no_memory();
    MC_TRY(put_tokens(v));
    MC_TRY(fill_gaps(v));
    if (v->scored) MC_TRY(find_scores(v));
    return put_all(v, out);
}

mica_status mc_gguf_describe_tokenizer(const mc_gguf_arch *arch, const mc_source *source,
                                       int64_t rows, mc_gguf_pairs *out) {
    vocab v = {.source = source, .rows = rows};
    char *path = mc_path_join(source->folder, "tokenizer.json");
    mica_status status = path ? MICA_OK : no_memory();
    if (status == MICA_OK && !mc_path_is_file(path)) {
        bool done = mc_gguf_put_str(out, "tokenizer.ggml.model", MC_STR("none"));
        status = done ? MICA_OK : no_memory();
    } else if (status == MICA_OK) {
        status = describe(&v, arch, path, out);
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
