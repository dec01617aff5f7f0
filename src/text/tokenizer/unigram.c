#include "text/tokenizer/unigram.h"

#include "base/alloc.h"
#include "text/unicode.h"

#include <string.h>

#define UNK_PENALTY 10.0

typedef struct node { /* the best path to a position in the piece */
    double score;
    size_t start; /* of its last token */
    int32_t id;   /* of its last token; -1: no path yet */
} node;

typedef struct span { /* a token of the best path, or a run of unknown ones */
    size_t start, end;
    int32_t id;
} span;

static mica_status load_unk(mc_unigram *u, size_t count, mc_json model) {
    mc_json v = mc_json_find(model, "unk_id");
    int64_t id = 0;
    if (!mc_json_exists(v))
        return mc_fail(MICA_EUNSUPPORTED, "model.unk_id: no unknown token is not supported");
    if (!mc_json_get_int(v, &id) || id < 0 || (uint64_t)id >= count)
        return mc_fail(MICA_EFORMAT, "model.unk_id: not an index of the vocabulary");
    u->unk_id = (int32_t)id;
    return MICA_OK;
}

/* The entries are pairs, as loading the vocabulary has checked. */
static mica_status load_scores(mc_unigram *u, mc_json vocab) {
    size_t i = 0;
    double least = 0;
    u->scores = mc_array_alloc(mc_json_count(vocab), sizeof *u->scores);
    if (!u->scores) return mc_fail_nomem("vocabulary");
    for (mc_json_iter it = mc_json_begin(vocab); mc_json_next(&it); i++) {
        mc_json_iter pair = mc_json_begin(it.value);
        mc_json_next(&pair);
        if (!mc_json_next(&pair) || !mc_json_get_float(pair.value, &u->scores[i]))
            return mc_fail(MICA_EFORMAT, "model.vocab[%zu]: not a token and its score", i);
        if (i == 0 || u->scores[i] < least) least = u->scores[i];
    }
    u->unk_score = least - UNK_PENALTY;
    return MICA_OK;
}

mica_status mc_unigram_load(mc_unigram *u, const mc_vocab *v, mc_json model) {
    mc_json vocab = mc_json_find(model, "vocab"), fallback = mc_json_find(model, "byte_fallback");
    MC_TRY(load_unk(u, mc_json_count(vocab), model));
    if (mc_json_exists(fallback) && !mc_json_get_bool(fallback, &u->byte_fallback))
        return mc_fail(MICA_EFORMAT, "model.byte_fallback: not true or false");
    mc_vocab_byte_ids(v, u->byte_ids);
    MC_TRY(load_scores(u, vocab));
    return mc_vocab_fill_tree(v, &u->tree);
}

void mc_unigram_deinit(mc_unigram *u) {
    mc_byte_tree_deinit(&u->tree);
    mc_free(u->scores);
}

static void offer(node *at, double score, size_t start, int32_t id) {
    if (at->id < 0 || score > at->score) *at = (node){score, start, id};
}

/* Offers every token that starts at `start` to the position where it ends. */
static void extend(const mc_unigram *u, mc_str piece, node *nodes, size_t start) {
    uint32_t c, at = 0;
    size_t char_end = start + mc_next_char(piece.ptr + start, &c);
    bool single = false;
    for (size_t i = start; i < piece.len && mc_byte_tree_step(&u->tree, &at, piece.ptr[i]); i++) {
        int32_t id = mc_byte_tree_value(&u->tree, at);
        if (id < 0) continue;
        offer(&nodes[i + 1], u->scores[id] + nodes[start].score, start, id);
        single |= i + 1 == char_end;
    }
    if (!single) offer(&nodes[char_end], u->unk_score + nodes[start].score, start, u->unk_id);
}

/* Fills the nodes from the beginning to the end of the piece. */
static bool search(const mc_unigram *u, mc_str piece, mc_buffer *room) {
    mc_buffer_clear(room);
    if (piece.len >= SIZE_MAX / sizeof(node) ||
        !mc_buffer_reserve(room, (piece.len + 1) * sizeof(node)))
        return false;
    node *nodes = MC_BUFFER_AT(room, node);
    for (size_t i = 0; i <= piece.len; i++)
        nodes[i] = (node){0, 0, -1};
    uint32_t c;
    for (size_t at = 0; at < piece.len; at += mc_next_char(piece.ptr + at, &c))
        extend(u, piece, nodes, at);
    return true;
}

/* The tokens of the best path, last first. Unknown ones side by side are one. */
static bool trace(const mc_unigram *u, const node *nodes, size_t len, mc_buffer *path) {
    mc_buffer_clear(path);
    for (size_t end = len; end > 0; end = nodes[end].start) {
        span now = {nodes[end].start, end, nodes[end].id};
        size_t count = MC_BUFFER_COUNT(path, span);
        span *last = count ? &MC_BUFFER_AT(path, span)[count - 1] : NULL;
        if (last && last->id == u->unk_id && now.id == u->unk_id) {
            last->start = now.start;
        } else if (!mc_buffer_add(path, &now, sizeof now)) {
            return false;
        }
    }
    return true;
}

/* Adds the tokens of the text's bytes; false: some byte has none, and nothing was added. */
static bool add_bytes(const mc_unigram *u, mc_str text, mc_buffer *ids, bool *no_memory) {
    for (size_t i = 0; i < text.len; i++) {
        if (u->byte_ids[(uint8_t)text.ptr[i]] < 0) return false;
    }
    for (size_t i = 0; i < text.len; i++)
        *no_memory |= !MC_BUFFER_PUSH(ids, int32_t, u->byte_ids[(uint8_t)text.ptr[i]]);
    return true;
}

static bool add_unknown(const mc_unigram *u, const mc_vocab *v, mc_str text, mc_buffer *ids) {
    bool no_memory = false;
    int32_t whole = mc_vocab_find_model(v, text, mc_vocab_hash(text.ptr, text.len));
    if (whole < 0 && u->byte_fallback && add_bytes(u, text, ids, &no_memory)) return !no_memory;
    return MC_BUFFER_PUSH(ids, int32_t, whole < 0 ? u->unk_id : whole);
}

static bool add_path(const mc_unigram *u, const mc_vocab *v, mc_str piece, const mc_buffer *path,
                     mc_buffer *ids) {
    for (size_t i = MC_BUFFER_COUNT(path, span); i-- > 0;) {
        span s = MC_BUFFER_AT(path, span)[i];
        mc_str text = {piece.ptr + s.start, s.end - s.start};
        bool ok =
            s.id == u->unk_id ? add_unknown(u, v, text, ids) : MC_BUFFER_PUSH(ids, int32_t, s.id);
        if (!ok) return false;
    }
    return true;
}

mica_status mc_unigram_encode(const mc_unigram *u, const mc_vocab *v, mc_str piece,
                              mc_unigram_scratch *s, mc_buffer *ids) {
    bool ok = search(u, piece, &s->nodes) &&
              trace(u, MC_BUFFER_AT(&s->nodes, node), piece.len, &s->path) &&
              add_path(u, v, piece, &s->path, ids);
    return ok ? MICA_OK : mc_fail_nomem("ids");
}

void mc_unigram_scratch_deinit(mc_unigram_scratch *s) {
    mc_buffer_deinit(&s->nodes);
    mc_buffer_deinit(&s->path);
}
