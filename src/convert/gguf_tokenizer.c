/* tokenizer.json and its companions of what GGUF stores of a tokenizer. */
#include "convert/gguf_model.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/json_write.h"
#include "base/map.h"
#include "base/utf8.h"

#include <mica/file.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a token that may be merged: finding its merges takes the square of it. Those of Gemma
 * have fewer than 100. */
enum { MAX_MERGED = 1024 };

#define TOKENS "tokenizer.ggml.tokens"

/* %s: how many digits are a word. */
#define WORDS                                                                                   \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}%s| ?[^\\s\\p{L}\\p{N}]+" \
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const mc_gguf_pre kinds[] = {
    {"llama-bpe", "{1,3}", false, true, true},
    {"llama3", "{1,3}", false, true, true},
    {"qwen2", "", true, false, false},
    {"deepseek-r1-qwen", "", true, false, true},
};

const mc_gguf_pre *mc_gguf_pre_at(size_t i) {
    return i < sizeof kinds / sizeof *kinds ? &kinds[i] : NULL;
}

void mc_gguf_pre_pattern(const mc_gguf_pre *pre, char *out, size_t bytes) {
    snprintf(out, bytes, WORDS, pre->digits);
}

typedef struct tokenizer {
    const mc_gguf *gguf;
    const mc_gguf_pre *kind; /* NULL: it has scores instead of merges (SentencePiece) */
    mc_buffer texts;         /* mc_str[] of the tokens */
    uint8_t *types;          /* [tokens] */
    size_t n;
    bool bos; /* a text begins with the BOS token */
    int64_t bos_id, eos_id;
} tokenizer;

static mica_status no_memory(void) {
    return mc_fail_nomem("the tokenizer of a GGUF file");
}

/* ---- reading ---- */

static mica_status read_tokens(tokenizer *t) {
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, TOKENS); mc_gguf_next(&it);) {
        if (it.text.len == 0 || !mc_utf8_valid(it.text.ptr, it.text.len))
            return mc_fail(MICA_EFORMAT, "%s: " TOKENS ": token %zu is empty or not UTF-8",
                           mc_gguf_path(t->gguf), it.index);
        if (!mc_buffer_add(&t->texts, &it.text, sizeof it.text)) return no_memory();
    }
    t->n = MC_BUFFER_COUNT(&t->texts, mc_str);
    t->types = mc_alloc(t->n + 1);
    if (!t->types) return no_memory();
    memset(t->types, MC_GGUF_NORMAL, t->n + 1);
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, "tokenizer.ggml.token_type"); mc_gguf_next(&it);)
        if (it.index < t->n) t->types[it.index] = (uint8_t)it.integer;
    return MICA_OK;
}

/* Whether tokenizer.json's vocabulary holds a token. */
static bool is_written(const tokenizer *t, size_t id) {
    return !t->kind || t->types[id] != MC_GGUF_UNUSED;
}

/* A vocabulary is an object: of two equal tokens it would lose one. */
static mica_status check_twins(const tokenizer *t) {
    mc_map ids = {0};
    uint64_t twin = 0;
    size_t i = 0;
    bool done = mc_map_reserve(&ids, t->n), found = false;
    for (; done && !found && i < t->n; i++) {
        mc_str text = MC_BUFFER_AT(&t->texts, mc_str)[i];
        if (!is_written(t, i)) continue;
        found = mc_map_find(&ids, text, &twin);
        if (!found) done = mc_map_put(&ids, text, i);
    }
    mc_map_deinit(&ids);
    if (!done) return no_memory();
    if (!found) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: " TOKENS ": tokens %llu and %zu are the same text",
                   mc_gguf_path(t->gguf), (unsigned long long)twin, i - 1);
}

static mica_status find_kind(tokenizer *t) {
    mc_str model = MC_STR(""), pre = MC_STR("");
    mc_gguf_str(t->gguf, "tokenizer.ggml.model", &model);
    mc_gguf_str(t->gguf, "tokenizer.ggml.pre", &pre);
    for (size_t i = 0; mc_str_is(model, "gpt2") && i < sizeof kinds / sizeof *kinds; i++)
        if (mc_str_is(pre, kinds[i].name)) t->kind = &kinds[i];
    t->bos = t->kind ? t->kind->bos : true;
    if (t->kind || mc_str_is(model, "llama")) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: tokenizer.ggml.model '%.*s' with pre '%.*s': mica converts gpt2 with "
                   "llama-bpe, qwen2 or deepseek-r1-qwen, and llama of Gemma",
                   mc_gguf_path(t->gguf), model.len < 40 ? (int)model.len : 40, model.ptr,
                   pre.len < 40 ? (int)pre.len : 40, pre.ptr);
}

/* Gemma's tokenizer puts no blank before a text; Llama 2's does, and is another kind. */
static mica_status check_gemma(const tokenizer *t, const mc_gguf_arch *arch) {
    if (t->kind || arch->gemma) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: a SentencePiece tokenizer of the architecture %s; mica converts Gemma's",
                   mc_gguf_path(t->gguf), arch->name);
}

static mica_status lacks(const tokenizer *t, const char *key, const char *what) {
    return mc_fail(MICA_EFORMAT, "%s: %s is missing, or is no list of %s", mc_gguf_path(t->gguf),
                   key, what);
}

/* Without merges or scores a tokenizer would give letter by letter. */
static mica_status check_lists(const tokenizer *t) {
    const char *scores = "tokenizer.ggml.scores", *merges = "tokenizer.ggml.merges";
    size_t n = mc_gguf_array(t->gguf, TOKENS);
    if (!mc_gguf_has_strs(t->gguf, TOKENS) || n == 0) return lacks(t, TOKENS, "texts");
    if (t->kind) return mc_gguf_has_strs(t->gguf, merges) ? MICA_OK : lacks(t, merges, "texts");
    if (!mc_gguf_has_numbers(t->gguf, scores)) return lacks(t, scores, "numbers");
    if (mc_gguf_array(t->gguf, scores) == n) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: %s: has %zu numbers, and there are %zu tokens",
                   mc_gguf_path(t->gguf), scores, mc_gguf_array(t->gguf, scores), n);
}

static mica_status open_tokenizer(tokenizer *t, const mc_gguf_arch *arch) {
    MC_TRY(find_kind(t));
    MC_TRY(check_gemma(t, arch));
    MC_TRY(check_lists(t));
    MC_TRY(read_tokens(t));
    MC_TRY(check_twins(t));
    t->bos_id = t->eos_id = -1;
    mc_gguf_int(t->gguf, "tokenizer.ggml.bos_token_id", &t->bos_id);
    mc_gguf_int(t->gguf, "tokenizer.ggml.eos_token_id", &t->eos_id);
    mc_gguf_bool(t->gguf, "tokenizer.ggml.add_bos_token", &t->bos);
    if (t->bos_id < 0 || (uint64_t)t->bos_id >= t->n) t->bos = false;
    return MICA_OK;
}

static mc_str text_of(const tokenizer *t, size_t id) {
    return MC_BUFFER_AT(&t->texts, mc_str)[id];
}

/* ---- merges of a tokenizer with scores ---- */

/* Two tokens that make a third. */
typedef struct merge {
    uint32_t left, right;
    double score;         /* of the third */
    uint32_t left_length; /* in characters, as are lengths below */
    uint32_t right_length;
    size_t place;
} merge;

/* Merges are applied by score; among equals those of longer parts come first, as in the converter
 * of transformers. */
static int by_score(const void *a, const void *b) {
    const merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->left_length != y->left_length) return x->left_length > y->left_length ? -1 : 1;
    if (x->right_length != y->right_length) return x->right_length > y->right_length ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static uint32_t characters(mc_str text) {
    uint32_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += ((uint8_t)text.ptr[i] & 0xc0) != 0x80;
    return n;
}

/* Adds the merges that make one token. */
static bool add_splits(const tokenizer *t, const mc_map *ids, size_t id, double score,
                       mc_buffer *merges) {
    mc_str text = text_of(t, id);
    for (size_t at = 1; at < text.len; at++) {
        uint64_t left, right;
        mc_str a = {text.ptr, at}, b = {text.ptr + at, text.len - at};
        if (((uint8_t)text.ptr[at] & 0xc0) == 0x80) continue;
        if (!mc_map_find(ids, a, &left) || !mc_map_find(ids, b, &right)) continue;
        const merge m = {(uint32_t)left, (uint32_t)right, score,
                         characters(a),  characters(b),   MC_BUFFER_COUNT(merges, merge)};
        if (!mc_buffer_add(merges, &m, sizeof m)) return false;
    }
    return true;
}

static bool is_merged(const tokenizer *t, size_t id) {
    return t->types[id] == MC_GGUF_NORMAL || t->types[id] == MC_GGUF_USER_DEFINED;
}

static mica_status check_lengths(const tokenizer *t) {
    for (size_t i = 0; i < t->n; i++)
        if (is_merged(t, i) && text_of(t, i).len > MAX_MERGED)
            return mc_fail(MICA_EFORMAT, "%s: " TOKENS ": token %zu has %zu bytes, at most %d",
                           mc_gguf_path(t->gguf), i, text_of(t, i).len, MAX_MERGED);
    return MICA_OK;
}

static mica_status find_merges(const tokenizer *t, mc_buffer *merges) {
    mc_map ids = {0};
    MC_TRY(check_lengths(t));
    bool done = mc_map_reserve(&ids, t->n);
    for (size_t i = 0; done && i < t->n; i++)
        if (t->types[i] != MC_GGUF_CONTROL && t->types[i] != MC_GGUF_BYTE &&
            t->types[i] != MC_GGUF_UNKNOWN)
            done = mc_map_put(&ids, text_of(t, i), i);
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, "tokenizer.ggml.scores");
         done && mc_gguf_next(&it);)
        if (it.index < t->n && is_merged(t, it.index))
            done = add_splits(t, &ids, it.index, it.number, merges);
    mc_map_deinit(&ids);
    if (!done) return no_memory();
    qsort(merges->data, MC_BUFFER_COUNT(merges, merge), sizeof(merge), by_score);
    return MICA_OK;
}

static bool put_pair(mc_buffer *out, bool first, mc_str left, mc_str right) {
    return mc_buffer_add_text(out, first ? "\n      [" : ",\n      [") &&
           mc_json_put_str(out, left) && mc_buffer_add_text(out, ", ") &&
           mc_json_put_str(out, right) && mc_buffer_add_byte(out, ']');
}

static mica_status put_scored_merges(const tokenizer *t, mc_buffer *out) {
    mc_buffer merges = {0};
    mica_status status = find_merges(t, &merges);
    bool done = true;
    for (size_t i = 0; status == MICA_OK && done && i < MC_BUFFER_COUNT(&merges, merge); i++) {
        const merge *m = &MC_BUFFER_AT(&merges, merge)[i];
        done = put_pair(out, i == 0, text_of(t, m->left), text_of(t, m->right));
    }
    mc_buffer_deinit(&merges);
    return done ? status : no_memory();
}

/* Merges as they are stored, "left right": byte-level tokens hold no blanks. */
static mica_status put_stored_merges(const tokenizer *t, mc_buffer *out) {
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, "tokenizer.ggml.merges"); mc_gguf_next(&it);) {
        const char *blank = it.text.len ? memchr(it.text.ptr, ' ', it.text.len) : NULL;
        if (!blank || !mc_utf8_valid(it.text.ptr, it.text.len))
            return mc_fail(MICA_EFORMAT, "%s: tokenizer.ggml.merges: merge %zu is ill-formed",
                           mc_gguf_path(t->gguf), it.index);
        mc_str left = {it.text.ptr, (size_t)(blank - it.text.ptr)};
        mc_str right = {blank + 1, it.text.len - left.len - 1};
        if (!put_pair(out, it.index == 0, left, right)) return no_memory();
    }
    return MICA_OK;
}

/* ---- tokenizer.json ---- */

/* Tokens that are matched before anything else. */
static bool is_added(const tokenizer *t, size_t id) {
    return t->types[id] == MC_GGUF_CONTROL || t->types[id] == MC_GGUF_USER_DEFINED ||
           (t->types[id] == MC_GGUF_UNKNOWN && t->kind == NULL);
}

static bool put_added(const tokenizer *t, mc_buffer *out) {
    bool first = true, done = true;
    for (size_t i = 0; done && i < t->n; i++) {
        if (!is_added(t, i)) continue;
        done = mc_buffer_printf(out, "%s\n    {\"id\": %zu, \"content\": ", first ? "" : ",", i) &&
               mc_json_put_str(out, text_of(t, i)) &&
               mc_buffer_printf(out,
                                ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                                "\"normalized\": false, \"special\": %s}",
                                t->types[i] == MC_GGUF_USER_DEFINED ? "false" : "true");
        first = false;
    }
    return done;
}

/* Byte-level vocabularies hold neither added tokens nor those that only pad the matrices. */
static bool put_vocab(const tokenizer *t, mc_buffer *out) {
    bool first = true, done = true;
    for (size_t i = 0; done && i < t->n; i++) {
        if (!is_written(t, i) || (t->kind && is_added(t, i))) continue;
        done = mc_buffer_add_text(out, first ? "\n      " : ",\n      ") &&
               mc_json_put_str(out, text_of(t, i)) && mc_buffer_printf(out, ": %zu", i);
        first = false;
    }
    return done;
}

static bool put_bos_template(const tokenizer *t, mc_buffer *out) {
    if (!t->bos) return mc_buffer_add_text(out, "null");
    mc_str bos = text_of(t, (size_t)t->bos_id);
    return mc_buffer_add_text(out, "{\"type\": \"TemplateProcessing\", \"single\": "
                                   "[{\"SpecialToken\": {\"id\": ") &&
           mc_json_put_str(out, bos) &&
           mc_buffer_add_text(out,
                              ", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": "
                              "0}}], \"pair\": [{\"SpecialToken\": {\"id\": ") &&
           mc_json_put_str(out, bos) &&
           mc_buffer_add_text(out,
                              ", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": "
                              "0}}, {\"SpecialToken\": {\"id\": ") &&
           mc_json_put_str(out, bos) &&
           mc_buffer_add_text(out,
                              ", \"type_id\": 1}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": "
                              "1}}], \"special_tokens\": {") &&
           mc_json_put_str(out, bos) && mc_buffer_add_text(out, ": {\"id\": ") &&
           mc_json_put_str(out, bos) &&
           mc_buffer_printf(out, ", \"ids\": [%" PRId64 "], \"tokens\": [", t->bos_id) &&
           mc_json_put_str(out, bos) && mc_buffer_add_text(out, "]}}}");
}

/* What is around the vocabulary of a byte-level tokenizer. */
static bool put_byte_level(const tokenizer *t, mc_buffer *out) {
    const mc_gguf_pre *k = t->kind;
    char pattern[256];
    mc_gguf_pre_pattern(k, pattern, sizeof pattern);
    return mc_buffer_printf(out, "\n  ],\n  \"normalizer\": %s,\n",
                            k->nfc ? "{\"type\": \"NFC\"}" : "null") &&
           mc_buffer_add_text(out,
                              "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
                              "[{\"type\": \"Split\", \"pattern\": {\"Regex\": ") &&
           mc_json_put_text(out, pattern) &&
           mc_buffer_add_text(out, "}, \"behavior\": \"Isolated\", \"invert\": false}, {\"type\": "
                                   "\"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
                                   "true, \"use_regex\": false}]},\n  \"post_processor\": ") &&
           put_bos_template(t, out) &&
           mc_buffer_printf(
               out,
               ",\n  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
               "\"trim_offsets\": true, \"use_regex\": true},\n"
               "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
               "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
               "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": %s,\n"
               "    \"vocab\": {",
               k->ignore_merges ? "true" : "false");
}

/* The same for Gemma's. */
static bool put_gemma(const tokenizer *t, mc_buffer *out) {
    int64_t unknown = -1;
    mc_gguf_int(t->gguf, "tokenizer.ggml.unknown_token_id", &unknown);
    bool has = unknown >= 0 && (uint64_t)unknown < t->n;
    return mc_buffer_add_text(
               out,
               "\n  ],\n  \"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" "
               "\"}, \"content\": \"\\u2581\"},\n  \"pre_tokenizer\": {\"type\": \"Split\", "
               "\"pattern\": {\"String\": \" \"}, \"behavior\": \"MergedWithPrevious\", "
               "\"invert\": false},\n  \"post_processor\": ") &&
           put_bos_template(t, out) &&
           mc_buffer_add_text(
               out,
               ",\n  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": "
               "\"Replace\", \"pattern\": {\"String\": \"\\u2581\"}, \"content\": \" \"}, "
               "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]},\n  \"model\": {\"type\": "
               "\"BPE\", \"dropout\": null, \"unk_token\": ") &&
           (has ? mc_json_put_str(out, text_of(t, (size_t)unknown))
                : mc_buffer_add_text(out, "null")) &&
           mc_buffer_add_text(out, ", \"continuing_subword_prefix\": null, \"end_of_word_suffix\": "
                                   "null, \"fuse_unk\": true, \"byte_fallback\": true, "
                                   "\"ignore_merges\": false,\n    \"vocab\": {");
}

static mica_status make_tokenizer(const tokenizer *t, mc_buffer *out) {
    bool done = mc_buffer_add_text(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                                        "  \"padding\": null,\n  \"added_tokens\": [") &&
                put_added(t, out) && (t->kind ? put_byte_level(t, out) : put_gemma(t, out)) &&
                put_vocab(t, out) && mc_buffer_add_text(out, "\n    },\n    \"merges\": [");
    if (!done) return no_memory();
    MC_TRY(t->kind ? put_stored_merges(t, out) : put_scored_merges(t, out));
    return mc_buffer_add_text(out, "\n    ]\n  }\n}\n") ? MICA_OK : no_memory();
}

/* ---- the other files ---- */

static bool put_token(const tokenizer *t, const char *key, int64_t id, mc_buffer *out) {
    if (id < 0 || (uint64_t)id >= t->n) return true;
    return mc_buffer_printf(out, ",\n  \"%s\": ", key) &&
           mc_json_put_str(out, text_of(t, (size_t)id));
}

static mica_status make_config(const tokenizer *t, mc_buffer *out) {
    mc_str chat = MC_STR("");
    bool has_chat =
        mc_gguf_str(t->gguf, "tokenizer.chat_template", &chat) && mc_utf8_valid(chat.ptr, chat.len);
    bool done =
        mc_buffer_printf(out,
                         "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                         "  \"add_bos_token\": %s,\n  \"clean_up_tokenization_spaces\": false",
                         t->bos ? "true" : "false") &&
        put_token(t, "bos_token", t->bos_id, out) && put_token(t, "eos_token", t->eos_id, out);
    if (done && has_chat)
        done = mc_buffer_add_text(out, ",\n  \"chat_template\": ") && mc_json_put_str(out, chat);
    return done && mc_buffer_add_text(out, "\n}\n") ? MICA_OK : no_memory();
}

/* A chat's turns may end with another token than a text. */
static mica_status make_generation(const tokenizer *t, mc_buffer *out) {
    int64_t eot = -1;
    mc_gguf_int(t->gguf, "tokenizer.ggml.eot_token_id", &eot);
    bool done = mc_buffer_printf(out, "{\n  \"bos_token_id\": %" PRId64 ",\n", t->bos_id);
    if (t->bos_id < 0) {
        mc_buffer_clear(out);
        done = mc_buffer_add_text(out, "{\n");
    }
    if (eot >= 0 && eot != t->eos_id)
        done = done && mc_buffer_printf(out, "  \"eos_token_id\": [%" PRId64 ", %" PRId64 "]\n}\n",
                                        t->eos_id, eot);
    else
        done = done && mc_buffer_printf(out, "  \"eos_token_id\": %" PRId64 "\n}\n", t->eos_id);
    return done ? MICA_OK : no_memory();
}

static mica_status write_file(const tokenizer *t, const char *folder, const char *name,
                              mica_status (*make)(const tokenizer *t, mc_buffer *out)) {
    mc_buffer text = {0};
    char *path = mc_path_join(folder, name);
    mica_status status = path ? make(t, &text) : no_memory();
    if (status == MICA_OK) status = mica_file_save(path, text.data, text.len);
    mc_buffer_deinit(&text);
    mc_free(path);
    return status;
}

mica_status mc_gguf_write_tokenizer(const mc_gguf *gguf, const mc_gguf_arch *arch,
                                    const char *folder) {
    tokenizer t = {.gguf = gguf};
    mc_str model = MC_STR("");
    mc_gguf_str(gguf, "tokenizer.ggml.model", &model);
    if (mc_str_is(model, "none")) return MICA_OK; /* it says that it has no tokenizer */
    mica_status status = open_tokenizer(&t, arch);
    if (status == MICA_OK) status = write_file(&t, folder, "tokenizer.json", make_tokenizer);
    if (status == MICA_OK) status = write_file(&t, folder, "tokenizer_config.json", make_config);
    if (status == MICA_OK && t.eos_id >= 0)
        status = write_file(&t, folder, "generation_config.json", make_generation);
    mc_free(t.types);
    mc_buffer_deinit(&t.texts);
    return status;
}
