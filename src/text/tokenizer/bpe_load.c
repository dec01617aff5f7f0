/* Reading the "model" of a tokenizer.json. */
#include "text/tokenizer/bpe.h"

#include "base/alloc.h"
#include "text/tokenizer/byte_level.h"
#include "text/unicode.h"

#include <string.h>

enum { BATCH = MC_VOCAB_BATCH / 3 };

/* Merges that are looked up together. */
typedef struct batch {
    mc_str texts[3 * BATCH]; /* left, right, and the two joined */
    size_t n;                /* number of merges */
    size_t rank;             /* rank of the first merge */
} batch;

mica_status mc_bpe_check(mc_json model) {
    static const char *const empty_fields[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    mc_str text;
    double dropout = 0;
    for (size_t i = 0; i < sizeof empty_fields / sizeof *empty_fields; i++) {
        if (mc_json_get_str(mc_json_find(model, empty_fields[i]), &text) && text.len > 0) {
            return mc_fail(MICA_EUNSUPPORTED, "model.%s: '%.*s' is not supported", empty_fields[i],
                           MC_STR_ARG(text));
        }
    }
    if (mc_json_get_float(mc_json_find(model, "dropout"), &dropout) && dropout != 0) {
        return mc_fail(MICA_EUNSUPPORTED, "model.dropout: %g is not supported, only none is",
                       dropout);
    }
    return MICA_OK;
}

static mica_status load_flag(mc_json model, const char *key, bool *out) {
    mc_json v = mc_json_find(model, key);
    if (!mc_json_exists(v) || mc_json_get_bool(v, out)) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "model.%s: not true or false", key);
}

static int32_t find_id(const mc_vocab *v, mc_str text) {
    return mc_vocab_find_model(v, text, mc_vocab_hash(text.ptr, text.len));
}

static mica_status load_unk(mc_bpe *bpe, const mc_vocab *v, mc_json unk) {
    mc_str text;
    bpe->unk_id = -1;
    if (!mc_json_exists(unk)) return MICA_OK;
    if (!mc_json_get_str(unk, &text)) return mc_fail(MICA_EFORMAT, "model.unk_token: not a string");
    bpe->unk_id = find_id(v, text);
    if (bpe->unk_id >= 0) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "model.unk_token: '%.*s' is not in the vocabulary",
                   MC_STR_ARG(text));
}

static void load_byte_ids(mc_bpe *bpe, const mc_vocab *v) {
    mc_vocab_byte_ids(v, bpe->byte_ids);
    for (unsigned byte = 0; byte < 256; byte++)
        bpe->level_ids[byte] = bpe->char_ids[mc_byte_to_char((uint8_t)byte)];
}

static mica_status load_char_ids(mc_bpe *bpe, const mc_vocab *v) {
    bpe->char_ids = mc_array_alloc(MC_BPE_CHARS, sizeof *bpe->char_ids);
    if (!bpe->char_ids) return mc_fail_nomem("vocabulary");
    memset(bpe->char_ids, 0xFF, MC_BPE_CHARS * sizeof *bpe->char_ids);
    for (size_t id = 0; id < v->size; id++) {
        const mc_token *token = &v->tokens[id];
        uint32_t c;
        if (!token->text || token->len == 0 || token->len > 3) continue;
        if (!(token->flags & MC_TOKEN_MODEL) || mc_next_char(token->text, &c) != token->len)
            continue;
        bpe->char_ids[c] = (int32_t)id;
    }
    return MICA_OK;
}

/* Reads a merge: ["a", "b"], or "a b" in older files. */
static mica_status read_merge(mc_json v, size_t index, mc_str sides[2]) {
    mc_str line;
    if (mc_json_get_str(v, &line)) {
        const char *space = memchr(line.ptr, ' ', line.len);
        size_t left = space ? (size_t)(space - line.ptr) : line.len;
        if (!space || memchr(space + 1, ' ', line.len - left - 1)) {
            return mc_fail(MICA_EFORMAT, "model.merges[%zu]: '%.*s' is not two tokens and a space",
                           index, MC_STR_ARG(line));
        }
        sides[0] = (mc_str){line.ptr, left};
        sides[1] = (mc_str){space + 1, line.len - left - 1};
        return MICA_OK;
    }
    mc_json_iter it = mc_json_begin(v);
    if (mc_json_get_type(v) != MC_JSON_ARRAY || mc_json_count(v) != 2 || !mc_json_next(&it) ||
        !mc_json_get_str(it.value, &sides[0]) || !mc_json_next(&it) ||
        !mc_json_get_str(it.value, &sides[1])) {
        return mc_fail(MICA_EFORMAT, "model.merges[%zu]: not a pair of strings", index);
    }
    return MICA_OK;
}

/* Joins the sides of each merge of a batch, in `room`. */
static bool join(batch *b, mc_buffer *room) {
    size_t bytes = 1;
    for (size_t i = 0; i < 3 * b->n; i += 3)
        bytes += b->texts[i].len + b->texts[i + 1].len;
    mc_buffer_clear(room);
    if (!mc_buffer_reserve(room, bytes)) return false;
    for (size_t i = 0; i < 3 * b->n; i += 3) {
        mc_str left = b->texts[i], right = b->texts[i + 1];
        b->texts[i + 2] = (mc_str){room->data + room->len, left.len + right.len};
        mc_buffer_add(room, left.ptr, left.len);
        mc_buffer_add(room, right.ptr, right.len);
    }
    return true;
}

static mica_status put_batch(mc_bpe *bpe, const mc_vocab *v, batch *b, mc_buffer *room) {
    int32_t ids[3 * BATCH];
    uint64_t keys[BATCH];
    if (!join(b, room)) return mc_fail_nomem("merges");
    mc_vocab_find_batch(v, b->texts, 3 * b->n, ids);
    for (size_t i = 0; i < 3 * b->n; i++) {
        if (ids[i] >= 0) continue;
        return mc_fail(MICA_EFORMAT, "model.merges[%zu]: '%.*s' is not in the vocabulary",
                       b->rank + i / 3, MC_STR_ARG(b->texts[i]));
    }
    for (size_t i = 0; i < b->n; i++) {
        keys[i] = mc_pair_key((uint32_t)ids[3 * i], (uint32_t)ids[3 * i + 1]);
        mc_pairs_prefetch(&bpe->merges, keys[i]);
    }
    for (size_t i = 0; i < b->n; i++) {
        uint64_t value = (uint64_t)(b->rank + i) << 32 | (uint32_t)ids[3 * i + 2];
        if (!mc_pairs_put(&bpe->merges, keys[i], value)) return mc_fail_nomem("merges");
    }
    b->rank += b->n;
    b->n = 0;
    return MICA_OK;
}

static mica_status load_merges(mc_bpe *bpe, const mc_vocab *v, mc_json merges, mc_buffer *room) {
    batch b = {.n = 0};
    if (mc_json_get_type(merges) != MC_JSON_ARRAY) {
        return mc_fail(MICA_EFORMAT, "model.merges: %s",
                       mc_json_exists(merges) ? "not an array" : "missing");
    }
    if (!mc_pairs_reserve(&bpe->merges, mc_json_count(merges))) return mc_fail_nomem("merges");
    for (mc_json_iter it = mc_json_begin(merges); mc_json_next(&it);) {
        MC_TRY(read_merge(it.value, b.rank + b.n, &b.texts[3 * b.n]));
        if (++b.n == BATCH) MC_TRY(put_batch(bpe, v, &b, room));
    }
    return put_batch(bpe, v, &b, room);
}

static bool has_all_bytes(const mc_bpe *bpe) {
    for (int byte = 0; byte < 256; byte++) {
        if (bpe->level_ids[byte] < 0) return false;
    }
    return true;
}

mica_status mc_bpe_load(mc_bpe *bpe, const mc_vocab *v, mc_json model, bool ends_in_bytes) {
    mc_buffer room = {0};
    MC_TRY(load_flag(model, "byte_fallback", &bpe->byte_fallback));
    MC_TRY(load_flag(model, "fuse_unk", &bpe->fuse_unk));
    MC_TRY(load_flag(model, "ignore_merges", &bpe->ignore_merges));
    MC_TRY(load_unk(bpe, v, mc_json_find(model, "unk_token")));
    MC_TRY(load_char_ids(bpe, v));
    load_byte_ids(bpe, v);
    bpe->takes_bytes = ends_in_bytes && has_all_bytes(bpe);
    if (!bpe->takes_bytes) MC_TRY(mc_bpe_learn_joins(bpe, v));
    mica_status status = load_merges(bpe, v, mc_json_find(model, "merges"), &room);
    mc_buffer_deinit(&room);
    return status;
}

void mc_bpe_deinit(mc_bpe *bpe) {
    mc_pairs_deinit(&bpe->merges);
    mc_free(bpe->char_ids);
    mc_free(bpe->joins);
}
