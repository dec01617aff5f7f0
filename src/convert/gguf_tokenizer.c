/* tokenizer.json and its companions of what GGUF stores of a tokenizer. */
#include "convert/gguf_tokenizer.h"

#include "base/alloc.h"
#include "base/base64.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/json_write.h"
#include "base/map.h"
#include "base/utf8.h"
#include "convert/gguf_pre.h"

#include <mica/file.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a token that may be merged: finding its merges takes the square of it. Those of Gemma
 * have fewer than 100. */
enum { MAX_MERGED = 1024 };

#define TOKENS "tokenizer.ggml.tokens"

#define SCORES "tokenizer.ggml.scores"
#define MERGES "tokenizer.ggml.merges"
#define BLANK "\xe2\x96\x81" /* U+2581, which SentencePiece has for a blank */

typedef enum kind_of {
    BYTE_LEVEL, /* merges of bytes, which are spelt as characters */
    BLANKS,     /* merges of characters, with U+2581 for blanks */
    SCORED,     /* the same of scores: SentencePiece's BPE */
    WORDS,      /* merges of characters within words, without the blanks between these */
    WORDPIECE,
    UNIGRAM
} kind_of;

static const struct {
    const char *model; /* tokenizer.ggml.model */
    kind_of kind;
    bool bos, eos;          /* a text begins, ends with one, if the file does not say it */
    int64_t bos_id, eos_id; /* -1: only what the file says */
} models[] = {
    {"gpt2", BYTE_LEVEL, false, false, -1, -1}, {"gemma4", BLANKS, true, false, -1, -1},
    {"llama", SCORED, true, false, 1, 2},       {"bert", WORDPIECE, true, true, 101, 102},
    {"t5", UNIGRAM, false, true, -1, 1},        {"whitespace", WORDS, false, false, -1, -1},
};

typedef struct tokenizer {
    const mc_gguf *gguf;
    kind_of kind;
    const mc_gguf_pre *pre; /* of BYTE_LEVEL */
    mc_buffer texts;        /* mc_str[] of the tokens */
    uint8_t *types;         /* [tokens] */
    size_t n;
    bool bos, eos; /* a text begins with the BOS token, ends with the EOS token */
    bool prefix;   /* and a blank is put before it */
    bool strips;   /* added tokens take the blanks behind them */
    int64_t bos_id, eos_id, last_id, unk_id; /* last_id: ends a text if eos is set. -1: none */
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

static mc_str text_of(const tokenizer *t, size_t id) {
    return MC_BUFFER_AT(&t->texts, mc_str)[id];
}

/* Byte-level tokenizers, the only ones whose added tokens stand beside the vocabulary. */
static bool is_bytes(const tokenizer *t) {
    return t->kind == BYTE_LEVEL;
}

/* Whether tokenizer.json's vocabulary holds a token. */
static bool is_written(const tokenizer *t, size_t id) {
    return !is_bytes(t) || t->types[id] != MC_GGUF_UNUSED;
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

static mica_status find_pre(tokenizer *t) {
    mc_str name = MC_STR("default");
    mc_gguf_str(t->gguf, "tokenizer.ggml.pre", &name);
    t->pre = mc_gguf_pre_find(name);
    if (!t->pre)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tokenizer.ggml.pre '%.*s': mica does not know how this tokenizer "
                       "splits words",
                       mc_gguf_path(t->gguf), name.len < 40 ? (int)name.len : 40, name.ptr);
    if (t->pre->blanks) t->kind = BLANKS;
    t->bos = t->pre->bos;
    t->eos = t->pre->sep;
    return MICA_OK;
}

static mica_status find_kind(tokenizer *t) {
    mc_str model = MC_STR("");
    mc_gguf_str(t->gguf, "tokenizer.ggml.model", &model);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (!mc_str_is(model, models[i].model)) continue;
        t->kind = models[i].kind;
        t->bos = models[i].bos;
        t->eos = models[i].eos;
        t->bos_id = models[i].bos_id;
        t->eos_id = models[i].eos_id;
        return is_bytes(t) ? find_pre(t) : MICA_OK;
    }
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: tokenizer.ggml.model '%.*s': mica converts gpt2, gemma4, llama, bert, t5 "
                   "and whitespace",
                   mc_gguf_path(t->gguf), model.len < 40 ? (int)model.len : 40, model.ptr);
}

static mica_status lacks(const tokenizer *t, const char *key, const char *what) {
    return mc_fail(MICA_EFORMAT, "%s: %s is missing, or is no list of %s", mc_gguf_path(t->gguf),
                   key, what);
}

/* Without merges or scores a tokenizer would give letter by letter. */
/* Merges are sorted by them. */
static mica_status check_scores(const tokenizer *t) {
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, SCORES); mc_gguf_next(&it);)
        if (!isfinite(it.number))
            return mc_fail(MICA_EFORMAT, "%s: " SCORES ": that of token %zu is no number",
                           mc_gguf_path(t->gguf), it.index);
    return MICA_OK;
}

static mica_status check_lists(const tokenizer *t) {
    size_t n = mc_gguf_array(t->gguf, TOKENS);
    if (!mc_gguf_has_strs(t->gguf, TOKENS) || n == 0) return lacks(t, TOKENS, "texts");
    if (is_bytes(t) || t->kind == BLANKS || t->kind == WORDS)
        return mc_gguf_has_strs(t->gguf, MERGES) ? MICA_OK : lacks(t, MERGES, "texts");
    if (t->kind == WORDPIECE) return MICA_OK;
    if (!mc_gguf_has_numbers(t->gguf, SCORES)) return lacks(t, SCORES, "numbers");
    if (mc_gguf_array(t->gguf, SCORES) == n) return check_scores(t);
    return mc_fail(MICA_EFORMAT, "%s: " SCORES ": has %zu numbers, and there are %zu tokens",
                   mc_gguf_path(t->gguf), mc_gguf_array(t->gguf, SCORES), n);
}

/* Reads the id of a token; -1 if it is none. */
static void read_id(const tokenizer *t, const char *key, int64_t *id) {
    mc_gguf_int(t->gguf, key, id);
    if (*id < 0 || (uint64_t)*id >= t->n) *id = -1;
}

static void read_ids(tokenizer *t) {
    if (t->kind == WORDPIECE) mc_gguf_int(t->gguf, "tokenizer.ggml.cls_token_id", &t->bos_id);
    t->unk_id = t->kind == SCORED ? 0 : t->kind == WORDPIECE ? 100 : t->kind == UNIGRAM ? 2 : -1;
    read_id(t, "tokenizer.ggml.bos_token_id", &t->bos_id);
    read_id(t, "tokenizer.ggml.eos_token_id", &t->eos_id);
    read_id(t, "tokenizer.ggml.unknown_token_id", &t->unk_id);
    t->last_id = t->eos_id;
    read_id(t, "tokenizer.ggml.seperator_token_id", &t->last_id); /* spelt so in files */
}

/* Gemma's tokenizers put no blank before a text, and old files do not say it. */
static bool is_gemma(const mc_gguf *gguf) {
    mc_str arch = MC_STR("");
    mc_gguf_str(gguf, "general.architecture", &arch);
    return mc_str_starts(arch, MC_STR("gemma"));
}

/* Of llama.cpp's conversions of Phi 3 only the name tells that its tokens take blanks. */
static bool is_phi3(const mc_gguf *gguf) {
    mc_str name = MC_STR("");
    mc_gguf_str(gguf, "general.name", &name);
    for (size_t i = 0; i + 4 <= name.len; i++) {
        const char *at = name.ptr + i;
        if ((at[0] | 32) != 'p' || (at[1] | 32) != 'h' || (at[2] | 32) != 'i') continue;
        if (at[3] == '3' || (at[3] == '-' && i + 5 <= name.len && at[4] == '3')) return true;
    }
    return false;
}

static mica_status open_tokenizer(tokenizer *t) {
    MC_TRY(find_kind(t));
    MC_TRY(check_lists(t));
    MC_TRY(read_tokens(t));
    MC_TRY(check_twins(t));
    read_ids(t);
    t->prefix = (t->kind == SCORED && !is_gemma(t->gguf)) || t->kind == UNIGRAM;
    t->strips = t->kind == SCORED && is_phi3(t->gguf);
    mc_gguf_bool(t->gguf, "tokenizer.ggml.add_space_prefix", &t->prefix);
    mc_gguf_bool(t->gguf, "tokenizer.ggml.add_bos_token", &t->bos);
    mc_gguf_bool(t->gguf, "tokenizer.ggml.add_eos_token", &t->eos);
    t->bos = t->bos && t->bos_id >= 0;
    t->eos = t->eos && t->last_id >= 0;
    return MICA_OK;
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
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, SCORES); done && mc_gguf_next(&it);)
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

/* Merges as they are stored, "left right": tokens of these vocabularies hold no blanks. */
static mica_status put_stored_merges(const tokenizer *t, mc_buffer *out) {
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, MERGES); mc_gguf_next(&it);) {
        const char *blank = it.text.len > 1 ? memchr(it.text.ptr + 1, ' ', it.text.len - 1) : NULL;
        if (!blank || !mc_utf8_valid(it.text.ptr, it.text.len))
            return mc_fail(MICA_EFORMAT, "%s: " MERGES ": merge %zu is ill-formed",
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
           (t->types[id] == MC_GGUF_UNKNOWN && !is_bytes(t));
}

/* A text as tokenizer.json has it. GGUF has a mark at the beginnings of WordPiece's words, and
 * none at their other parts. */
static bool put_text(const tokenizer *t, size_t id, mc_buffer *out) {
    mc_str text = text_of(t, id);
    const mc_str mark = MC_STR(BLANK);
    if (t->kind != WORDPIECE || t->types[id] == MC_GGUF_CONTROL) return mc_json_put_str(out, text);
    if (mc_str_starts(text, mark))
        return mc_json_put_str(out, (mc_str){text.ptr + mark.len, text.len - mark.len});
    if (text.ptr[0] == '[' && text.ptr[text.len - 1] == ']') return mc_json_put_str(out, text);
    size_t at = out->len;
    if (!mc_json_put_str(out, text) || !mc_buffer_add_text(out, "##")) return false;
    memmove(out->data + at + 3, out->data + at + 1, out->len - at - 3); /* behind the quote */
    memcpy(out->data + at + 1, "##", 2);
    return true;
}

/* A token that takes the blanks behind it: Phi 3's, but for three. */
static bool strips_right(const tokenizer *t, size_t id) {
    mc_str text = text_of(t, id);
    return t->strips && !mc_str_is(text, "<unk>") && !mc_str_is(text, "<s>") &&
           !mc_str_is(text, "<|endoftext|>");
}

/* A mask takes the blanks before it. */
static bool strips_left(const tokenizer *t, size_t id) {
    mc_str text = text_of(t, id);
    return t->types[id] == MC_GGUF_CONTROL &&
           (mc_str_is(text, "<mask>") || mc_str_is(text, "[MASK]")) && t->kind != WORDPIECE;
}

static const char *word_of(bool value) {
    return value ? "true" : "false";
}

static bool put_added(const tokenizer *t, mc_buffer *out) {
    bool first = true, done = true;
    for (size_t i = 0; done && i < t->n; i++) {
        if (!is_added(t, i)) continue;
        done = mc_buffer_printf(out, "%s\n    {\"id\": %zu, \"content\": ", first ? "" : ",", i) &&
               put_text(t, i, out) &&
               mc_buffer_printf(out,
                                ", \"single_word\": false, \"lstrip\": %s, \"rstrip\": %s, "
                                "\"normalized\": false, \"special\": %s}",
                                word_of(strips_left(t, i)), word_of(strips_right(t, i)),
                                word_of(t->types[i] != MC_GGUF_USER_DEFINED));
        first = false;
    }
    return done;
}

/* Byte-level vocabularies hold neither added tokens nor those that only pad the matrices. */
static bool put_vocab(const tokenizer *t, mc_buffer *out) {
    bool first = true, done = mc_buffer_add_byte(out, '{');
    for (size_t i = 0; done && i < t->n; i++) {
        if (!is_written(t, i) || (is_bytes(t) && is_added(t, i))) continue;
        done = mc_buffer_add_text(out, first ? "\n      " : ",\n      ") && put_text(t, i, out) &&
               mc_buffer_printf(out, ": %zu", i);
        first = false;
    }
    return done && mc_buffer_add_text(out, "\n    }");
}

/* Tokens with scores, in the order of their ids. */
static bool put_scores(const tokenizer *t, mc_buffer *out) {
    bool done = mc_buffer_add_byte(out, '[');
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, SCORES); done && mc_gguf_next(&it);)
        done = mc_buffer_add_text(out, it.index ? ",\n      [" : "\n      [") &&
               put_text(t, it.index, out) && mc_buffer_add_text(out, ", ") &&
               mc_json_put_number(out, it.number) && mc_buffer_add_byte(out, ']');
    return done && mc_buffer_add_text(out, "\n    ]");
}

/* ---- tokens around a text ---- */

typedef struct around {
    const tokenizer *t;
    mc_buffer *out;
    bool first;
} around;

static bool begin_part(around *a) {
    bool first = a->first;
    a->first = false;
    return first || mc_buffer_add_text(a->out, ", ");
}

static bool put_special(around *a, int64_t id, int type) {
    return begin_part(a) && mc_buffer_add_text(a->out, "{\"SpecialToken\": {\"id\": ") &&
           put_text(a->t, (size_t)id, a->out) &&
           mc_buffer_printf(a->out, ", \"type_id\": %d}}", type);
}

/* A text with what is before and behind it. */
static bool put_sequence(around *a, char name, int type, bool bos) {
    return (!bos || put_special(a, a->t->bos_id, type)) && begin_part(a) &&
           mc_buffer_printf(a->out, "{\"Sequence\": {\"id\": \"%c\", \"type_id\": %d}}", name,
                            type) &&
           (!a->t->eos || put_special(a, a->t->last_id, type));
}

static bool put_meaning(around *a, int64_t id) {
    return begin_part(a) && put_text(a->t, (size_t)id, a->out) &&
           mc_buffer_add_text(a->out, ": {\"id\": ") && put_text(a->t, (size_t)id, a->out) &&
           mc_buffer_printf(a->out, ", \"ids\": [%" PRId64 "], \"tokens\": [", id) &&
           put_text(a->t, (size_t)id, a->out) && mc_buffer_add_text(a->out, "]}");
}

/* Pairs are as BERT has them, RoBERTa with a second end between them, Llama with a second
 * beginning. */
static bool put_template(const tokenizer *t, mc_buffer *out) {
    around a = {t, out, true};
    bool both = t->bos && t->eos, bert = t->kind == WORDPIECE, two = !bert;
    mc_gguf_bool(t->gguf, "tokenizer.ggml.add_sep_token", &two);
    if (!t->bos && !t->eos) return mc_buffer_add_text(out, "null");
    bool done = mc_buffer_add_text(out, "{\"type\": \"TemplateProcessing\", \"single\": [") &&
                put_sequence(&a, 'A', 0, t->bos) && mc_buffer_add_text(out, "], \"pair\": [");
    a.first = true;
    done = done && put_sequence(&a, 'A', 0, t->bos) &&
           (!both || bert || !two || put_special(&a, t->last_id, 0)) &&
           put_sequence(&a, 'B', bert || !both, t->bos && !both) &&
           mc_buffer_add_text(out, "], \"special_tokens\": {");
    a.first = true;
    return done && (!t->bos || put_meaning(&a, t->bos_id)) &&
           (!t->eos || (t->bos && t->last_id == t->bos_id) || put_meaning(&a, t->last_id)) &&
           mc_buffer_add_text(out, "}}");
}

/* ---- steps ---- */

static bool put_charsmap(const tokenizer *t, mc_buffer *out) {
    mc_buffer bytes = {0};
    bool done = true;
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, "tokenizer.ggml.precompiled_charsmap");
         done && mc_gguf_next(&it);)
        done = mc_buffer_add_byte(&bytes, (char)it.integer);
    if (done && bytes.len)
        done =
            mc_buffer_add_text(out, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"") &&
            mc_base64_encode(bytes.data, bytes.len, out) && mc_buffer_add_text(out, "\"}");
    else if (done)
        done = mc_buffer_add_text(out, "null");
    mc_buffer_deinit(&bytes);
    return done;
}

static bool put_bert_normalizer(const tokenizer *t, mc_buffer *out) {
    bool lower = true;
    mc_gguf_bool(t->gguf, "tokenizer.ggml.normalizer.lowercase", &lower);
    bool accents = lower;
    mc_gguf_bool(t->gguf, "tokenizer.ggml.normalizer.strip_accents", &accents);
    return mc_buffer_printf(out,
                            "{\"type\": \"BertNormalizer\", \"clean_text\": true, "
                            "\"handle_chinese_chars\": true, \"strip_accents\": %s, "
                            "\"lowercase\": %s}",
                            word_of(accents), word_of(lower));
}

static bool put_lowercase(const tokenizer *t, mc_buffer *out) {
    bool lower = false;
    mc_gguf_bool(t->gguf, "tokenizer.ggml.normalizer.lowercase", &lower);
    return mc_buffer_add_text(out, lower ? "{\"type\": \"Lowercase\"}" : "null");
}

static bool put_normalizer(const tokenizer *t, mc_buffer *out) {
    static const char replace[] =
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" BLANK "\"}";
    if (is_bytes(t)) return mc_buffer_add_text(out, t->pre->nfc ? "{\"type\": \"NFC\"}" : "null");
    if (t->kind == WORDPIECE) return put_bert_normalizer(t, out);
    if (t->kind == WORDS) return put_lowercase(t, out);
    if (t->kind == UNIGRAM) return put_charsmap(t, out);
    if (!t->prefix || t->kind == BLANKS) return mc_buffer_add_text(out, replace);
    return mc_buffer_printf(out,
                            "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", "
                            "\"prepend\": \"" BLANK "\"}, %s]}",
                            replace);
}

static bool put_splits(const tokenizer *t, mc_buffer *out) {
    bool done = mc_buffer_add_text(out, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    for (const char *const *split = t->pre->splits; done && *split; split++)
        done = mc_buffer_add_text(out, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ") &&
               mc_json_put_text(out, *split) &&
               mc_buffer_add_text(out, "}, \"behavior\": \"Isolated\", \"invert\": false}, ");
    return done && mc_buffer_add_text(out, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                           "\"trim_offsets\": true, \"use_regex\": false}]}");
}

static bool put_metaspace(const tokenizer *t, mc_buffer *out) {
    bool squeeze = true;
    mc_gguf_bool(t->gguf, "tokenizer.ggml.remove_extra_whitespaces", &squeeze);
    return mc_buffer_add_text(out, "{\"type\": \"Sequence\", \"pretokenizers\": [") &&
           (!squeeze || mc_buffer_add_text(out, "{\"type\": \"WhitespaceSplit\"}, ")) &&
           mc_buffer_printf(out,
                            "{\"type\": \"Metaspace\", \"replacement\": \"" BLANK
                            "\", \"prepend_scheme\": \"%s\", \"split\": true}]}",
                            t->prefix ? "always" : "never");
}

static bool put_pre_tokenizer(const tokenizer *t, mc_buffer *out) {
    if (is_bytes(t)) return put_splits(t, out);
    if (t->kind == UNIGRAM) return put_metaspace(t, out);
    if (t->kind == WORDPIECE) return mc_buffer_add_text(out, "{\"type\": \"BertPreTokenizer\"}");
    if (t->kind == WORDS) return mc_buffer_add_text(out, "{\"type\": \"WhitespaceSplit\"}");
    if (t->prefix && t->kind == SCORED) return mc_buffer_add_text(out, "null");
    return mc_buffer_add_text(out, "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, "
                                   "\"behavior\": \"MergedWithPrevious\", \"invert\": false}");
}

static bool put_decoder(const tokenizer *t, mc_buffer *out) {
    if (is_bytes(t))
        return mc_buffer_add_text(out, "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                                       "\"trim_offsets\": true, \"use_regex\": true}");
    if (t->kind == WORDPIECE)
        return mc_buffer_add_text(
            out, "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}");
    if (t->kind == WORDS) return mc_buffer_add_text(out, "{\"type\": \"Fuse\"}");
    if (t->kind == UNIGRAM)
        return mc_buffer_printf(out,
                                "{\"type\": \"Metaspace\", \"replacement\": \"" BLANK
                                "\", \"prepend_scheme\": \"%s\", \"split\": true}",
                                t->prefix ? "always" : "never");
    return mc_buffer_printf(
        out,
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": "
        "\"" BLANK
        "\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}%s]}",
        t->prefix && t->kind == SCORED
            ? ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"
            : "");
}

/* ---- the model ---- */

static bool put_unknown(const tokenizer *t, mc_buffer *out) {
    return t->unk_id < 0 ? mc_buffer_add_text(out, "null") : put_text(t, (size_t)t->unk_id, out);
}

/* Pieces of another kind of tokenizer than BPE. */
static bool put_pieces(const tokenizer *t, mc_buffer *out) {
    if (t->kind == UNIGRAM)
        return mc_buffer_printf(out,
                                "{\"type\": \"Unigram\", \"unk_id\": %" PRId64
                                ", \"byte_fallback\": false, \"vocab\": ",
                                t->unk_id) &&
               put_scores(t, out);
    return mc_buffer_add_text(out, "{\"type\": \"WordPiece\", \"unk_token\": ") &&
           put_unknown(t, out) &&
           mc_buffer_add_text(out, ", \"continuing_subword_prefix\": \"##\", "
                                   "\"max_input_chars_per_word\": 100, \"vocab\": ") &&
           put_vocab(t, out);
}

static mica_status put_model(const tokenizer *t, mc_buffer *out) {
    bool bytes = is_bytes(t);
    if (t->kind == UNIGRAM || t->kind == WORDPIECE)
        return put_pieces(t, out) ? MICA_OK : no_memory();
    bool done = mc_buffer_add_text(out, "{\"type\": \"BPE\", \"dropout\": null, \"unk_token\": ") &&
                (bytes ? mc_buffer_add_text(out, "null") : put_unknown(t, out)) &&
                mc_buffer_printf(out,
                                 ", \"continuing_subword_prefix\": null, \"end_of_word_suffix\": "
                                 "null, \"fuse_unk\": %s, \"byte_fallback\": %s, "
                                 "\"ignore_merges\": %s,\n    \"vocab\": ",
                                 word_of(!bytes), word_of(!bytes && t->kind != WORDS),
                                 word_of(bytes && t->pre->ignore_merges)) &&
                put_vocab(t, out) && mc_buffer_add_text(out, ",\n    \"merges\": [");
    if (!done) return no_memory();
    MC_TRY(t->kind == SCORED ? put_scored_merges(t, out) : put_stored_merges(t, out));
    return mc_buffer_add_text(out, "\n    ]") ? MICA_OK : no_memory();
}

static mica_status make_tokenizer(const tokenizer *t, mc_buffer *out) {
    bool done = mc_buffer_add_text(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                                        "  \"padding\": null,\n  \"added_tokens\": [") &&
                put_added(t, out) && mc_buffer_add_text(out, "\n  ],\n  \"normalizer\": ") &&
                put_normalizer(t, out) && mc_buffer_add_text(out, ",\n  \"pre_tokenizer\": ") &&
                put_pre_tokenizer(t, out) && mc_buffer_add_text(out, ",\n  \"post_processor\": ") &&
                put_template(t, out) && mc_buffer_add_text(out, ",\n  \"decoder\": ") &&
                put_decoder(t, out) && mc_buffer_add_text(out, ",\n  \"model\": ");
    if (!done) return no_memory();
    MC_TRY(put_model(t, out));
    return mc_buffer_add_text(out, "\n  }\n}\n") ? MICA_OK : no_memory();
}

/* ---- the other files ---- */

static bool put_token(const tokenizer *t, const char *name, mc_buffer *out) {
    static const char *const spelt[][2] = {{"unk_token", "unknown_token_id"},
                                           {"pad_token", "padding_token_id"},
                                           {"sep_token", "seperator_token_id"},
                                           {"mask_token", "mask_token_id"}};
    char key[64];
    int64_t id = strcmp(name, "bos_token") == 0   ? t->bos_id
                 : strcmp(name, "eos_token") == 0 ? t->eos_id
                                                  : -1;
    for (size_t i = 0; i < sizeof spelt / sizeof *spelt; i++) {
        if (strcmp(name, spelt[i][0]) != 0) continue;
        snprintf(key, sizeof key, "tokenizer.ggml.%s", spelt[i][1]);
        read_id(t, key, &id);
    }
    if (id < 0) return true;
    return mc_buffer_printf(out, ",\n  \"%s\": ", name) && put_text(t, (size_t)id, out);
}

/* A template by its key; false: there is none. */
static bool find_chat(const tokenizer *t, const char *key, mc_str *chat) {
    return mc_gguf_str(t->gguf, key, chat) && mc_utf8_valid(chat->ptr, chat->len);
}

static bool put_named_chat(mc_str name, mc_str chat, bool first, mc_buffer *out) {
    return mc_buffer_add_text(out, first ? "\n    {\"name\": " : ",\n    {\"name\": ") &&
           mc_json_put_str(out, name) && mc_buffer_add_text(out, ", \"template\": ") &&
           mc_json_put_str(out, chat) && mc_buffer_add_byte(out, '}');
}

/* Reads the template that a list of names has by this one; false: there is none. */
static bool find_named_chat(const tokenizer *t, mc_str name, mc_str *chat) {
    char key[128];
    snprintf(key, sizeof key, "tokenizer.chat_template.%.*s", name.len < 64 ? (int)name.len : 64,
             name.ptr);
    return mc_utf8_valid(name.ptr, name.len) && find_chat(t, key, chat);
}

/* The template of a model, or a list of several by their names. One without a default is left out:
 * programs do not open models that have it. */
static bool put_chat(const tokenizer *t, mc_buffer *out) {
    static const char names[] = "tokenizer.chat_templates";
    mc_str chat;
    if (!find_chat(t, "tokenizer.chat_template", &chat) &&
        !find_named_chat(t, MC_STR("default"), &chat))
        return true;
    if (!mc_gguf_has_strs(t->gguf, names) || !mc_gguf_array(t->gguf, names))
        return mc_buffer_add_text(out, ",\n  \"chat_template\": ") && mc_json_put_str(out, chat);
    bool done = mc_buffer_add_text(out, ",\n  \"chat_template\": [") &&
                put_named_chat(MC_STR("default"), chat, true, out);
    for (mc_gguf_iter it = mc_gguf_begin(t->gguf, names); done && mc_gguf_next(&it);)
        if (!mc_str_is(it.text, "default") && find_named_chat(t, it.text, &chat))
            done = put_named_chat(it.text, chat, false, out);
    return done && mc_buffer_add_text(out, "\n  ]");
}

static mica_status make_config(const tokenizer *t, mc_buffer *out) {
    static const char *const tokens[] = {"bos_token", "eos_token", "unk_token",
                                         "pad_token", "sep_token", "mask_token"};
    bool done =
        mc_buffer_printf(out,
                         "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                         "  \"add_bos_token\": %s,\n  \"clean_up_tokenization_spaces\": false",
                         word_of(t->bos));
    for (size_t i = 0; done && i < sizeof tokens / sizeof *tokens; i++)
        done = put_token(t, tokens[i], out);
    done = done && put_chat(t, out) && mc_buffer_add_text(out, "\n}\n");
    return done ? MICA_OK : no_memory();
}

enum { MAX_ENDS = 8 };

static void add_end(int64_t ends[MAX_ENDS], int *n, int64_t id) {
    bool known = id < 0;
    for (int i = 0; i < *n; i++)
        known = known || ends[i] == id;
    if (!known && *n < MAX_ENDS) ends[(*n)++] = id;
}

/* The tokens that end an answer: those that the file says, and of added tokens those that end a
 * turn of a chat in the models that have them: files often name one alone. */
static int find_ends(const tokenizer *t, int64_t ends[MAX_ENDS]) {
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    static const char *const texts[] = {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<end_of_turn>",
                                        "<turn|>",    "<|return|>", "<|call|>"};
    int n = 0;
    int64_t end = -1;
    bool harmony = false;
    add_end(ends, &n, t->eos_id);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t id = -1;
        read_id(t, keys[i], &id);
        add_end(ends, &n, id);
    }
    for (size_t i = 0; i < t->n; i++) {
        if (!is_added(t, i)) continue;
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            if (mc_str_is(text_of(t, i), texts[k])) add_end(ends, &n, (int64_t)i);
        if (mc_str_is(text_of(t, i), "<|end|>")) end = (int64_t)i;
        harmony = harmony || mc_str_is(text_of(t, i), "<|return|>");
    }
    if (!harmony) add_end(ends, &n, end); /* there it ends a channel */
    return n;
}

static mica_status make_generation(const tokenizer *t, mc_buffer *out) {
    int64_t ends[MAX_ENDS];
    int n = find_ends(t, ends);
    bool done = mc_buffer_add_text(out, "{\n");
    if (t->bos_id >= 0)
        done = done && mc_buffer_printf(out, "  \"bos_token_id\": %" PRId64 ",\n", t->bos_id);
    done = done && mc_buffer_add_text(out, "  \"eos_token_id\": [");
    for (int i = 0; done && i < n; i++)
        done = mc_buffer_printf(out, "%s%" PRId64, i ? ", " : "", ends[i]);
    return done && mc_buffer_add_text(out, "]\n}\n") ? MICA_OK : no_memory();
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

mica_status mc_gguf_write_tokenizer(const mc_gguf *gguf, const char *folder) {
    tokenizer t = {.gguf = gguf};
    mc_str model = MC_STR("");
    mc_gguf_str(gguf, "tokenizer.ggml.model", &model);
    if (mc_str_is(model, "none") || mc_str_is(model, "no_vocab"))
        return MICA_OK; /* it says that it has no tokenizer */
    mica_status status = open_tokenizer(&t);
    if (status == MICA_OK) status = write_file(&t, folder, "tokenizer.json", make_tokenizer);
    if (status == MICA_OK) status = write_file(&t, folder, "tokenizer_config.json", make_config);
    if (status == MICA_OK && t.eos_id >= 0)
        status = write_file(&t, folder, "generation_config.json", make_generation);
    mc_free(t.types);
    mc_buffer_deinit(&t.texts);
    return status;
}
