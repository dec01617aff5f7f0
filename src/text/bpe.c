#include "text/bpe.h"

#include "base/utf8.h"

/* Symbols of the piece, a doubly linked list in an array. */
typedef struct symbol {
    int32_t id;         /* -1: merged into the one before */
    int32_t prev, next; /* -1: none */
} symbol;

/* A merge that was possible when it was found. */
typedef struct candidate {
    uint64_t order; /* rank << 32 | index of the left symbol: least first */
    int32_t id;     /* what the two become */
} candidate;

static bool add_symbol(mc_buffer *symbols, int32_t id) {
    int32_t at = (int32_t)MC_BUFFER_COUNT(symbols, symbol);
    symbol s = {id, at - 1, at + 1};
    return mc_buffer_add(symbols, &s, sizeof s);
}

/* True where every byte of a character has a token; they are added then. */
static bool byte_symbols(const mc_bpe *bpe, mc_str c, mc_buffer *symbols, bool *no_memory) {
    for (size_t i = 0; i < c.len; i++) {
        if (bpe->byte_ids[(uint8_t)c.ptr[i]] < 0) return false;
    }
    for (size_t i = 0; i < c.len; i++) {
        *no_memory |= !add_symbol(symbols, bpe->byte_ids[(uint8_t)c.ptr[i]]);
    }
    return true;
}

static int32_t character_id(const mc_bpe *bpe, const mc_vocab *v, mc_str c) {
    if (c.len == 1) return bpe->ascii_ids[(uint8_t)c.ptr[0] & 0x7F];
    return mc_vocab_find_model(v, c, mc_vocab_hash(c.ptr, c.len));
}

/* Spells the piece. A run of unknown characters waits until a known one (or the end) comes; a
 * character that falls back to bytes does not end it, as in `tokenizers`. */
static bool spell(const mc_bpe *bpe, const mc_vocab *v, mc_str piece, mc_buffer *symbols) {
    bool unknown = false, no_memory = false;
    for (size_t at = 0; at < piece.len && !no_memory;) {
        uint32_t codepoint;
        size_t n = mc_utf8_decode(piece.ptr + at, piece.len - at, &codepoint);
        mc_str c = {piece.ptr + at, n ? n : 1};
        at += c.len;
        int32_t id = character_id(bpe, v, c);
        if (id >= 0) {
            no_memory = unknown && !add_symbol(symbols, bpe->unk_id);
            no_memory |= !add_symbol(symbols, id);
            unknown = false;
        } else if (bpe->byte_fallback && byte_symbols(bpe, c, symbols, &no_memory)) {
            continue;
        } else if (bpe->unk_id >= 0) {
            no_memory = unknown && !bpe->fuse_unk && !add_symbol(symbols, bpe->unk_id);
            unknown = true;
        }
    }
    if (unknown && !no_memory) no_memory = !add_symbol(symbols, bpe->unk_id);
    size_t n = MC_BUFFER_COUNT(symbols, symbol);
    if (n) MC_BUFFER_AT(symbols, symbol)[n - 1].next = -1;
    return !no_memory;
}

static void sift_down(candidate *heap, size_t n, size_t at) {
    candidate moving = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1].order < heap[child].order) child++;
        if (moving.order <= heap[child].order) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void sift_up(candidate *heap, size_t at) {
    candidate moving = heap[at];
    for (size_t parent; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (heap[parent].order <= moving.order) break;
        heap[at] = heap[parent];
    }
    heap[at] = moving;
}

static candidate pop(mc_buffer *buffer) {
    candidate *heap = MC_BUFFER_AT(buffer, candidate);
    candidate top = heap[0];
    buffer->len -= sizeof *heap;
    size_t n = MC_BUFFER_COUNT(buffer, candidate);
    if (n) {
        heap[0] = heap[n];
        sift_down(heap, n, 0);
    }
    return top;
}

static bool find_merge(const mc_bpe *bpe, const symbol *symbols, int32_t left, candidate *out) {
    int32_t right = symbols[left].next;
    uint64_t merge;
    if (right < 0 ||
        !mc_pairs_find(&bpe->merges,
                       mc_pair_key((uint32_t)symbols[left].id, (uint32_t)symbols[right].id),
                       &merge)) {
        return false;
    }
    *out = (candidate){(merge & ~(uint64_t)UINT32_MAX) | (uint32_t)left, (int32_t)(uint32_t)merge};
    return true;
}

static bool push_merge(const mc_bpe *bpe, const symbol *symbols, int32_t left, mc_buffer *heap) {
    candidate c;
    if (left < 0 || !find_merge(bpe, symbols, left, &c)) return true;
    if (!mc_buffer_add(heap, &c, sizeof c)) return false;
    sift_up(MC_BUFFER_AT(heap, candidate), MC_BUFFER_COUNT(heap, candidate) - 1);
    return true;
}

static bool push_all_merges(const mc_bpe *bpe, const mc_buffer *symbols, mc_buffer *heap) {
    size_t n = MC_BUFFER_COUNT(symbols, symbol);
    for (size_t i = 0; i + 1 < n; i++) {
        candidate c;
        if (find_merge(bpe, MC_BUFFER_AT(symbols, symbol), (int32_t)i, &c) &&
            !mc_buffer_add(heap, &c, sizeof c)) {
            return false;
        }
    }
    n = MC_BUFFER_COUNT(heap, candidate);
    for (size_t i = n / 2; i-- > 0;)
        sift_down(MC_BUFFER_AT(heap, candidate), n, i);
    return true;
}

/* Candidates are not taken out of the heap when a neighbour changes: one that no longer gives the
 * same token is passed over when its turn comes. */
static bool merge_all(const mc_bpe *bpe, mc_buffer *list, mc_buffer *heap) {
    symbol *symbols = MC_BUFFER_AT(list, symbol);
    if (!push_all_merges(bpe, list, heap)) return false;
    while (heap->len) {
        candidate top = pop(heap), now;
        int32_t left = (int32_t)(uint32_t)top.order;
        if (symbols[left].id < 0 || !find_merge(bpe, symbols, left, &now) || now.id != top.id) {
            continue;
        }
        int32_t right = symbols[left].next, next = symbols[right].next;
        symbols[left].id = top.id;
        symbols[left].next = next;
        symbols[right].id = -1;
        if (next >= 0) symbols[next].prev = left;
        if (!push_merge(bpe, symbols, symbols[left].prev, heap)) return false;
        if (!push_merge(bpe, symbols, left, heap)) return false;
    }
    return true;
}

mica_status mc_bpe_encode(const mc_bpe *bpe, const mc_vocab *v, mc_str piece, mc_bpe_scratch *s,
                          mc_buffer *ids) {
    if (bpe->ignore_merges) {
        int32_t id = mc_vocab_find_model(v, piece, mc_vocab_hash(piece.ptr, piece.len));
        if (id >= 0) return MC_BUFFER_PUSH(ids, int32_t, id) ? MICA_OK : mc_fail_nomem("ids");
    }
    mc_buffer_clear(&s->symbols);
    mc_buffer_clear(&s->heap);
    if (!spell(bpe, v, piece, &s->symbols) || !merge_all(bpe, &s->symbols, &s->heap)) {
        return mc_fail_nomem("symbols of a piece of text");
    }
    const symbol *symbols = MC_BUFFER_AT(&s->symbols, symbol);
    for (int32_t i = s->symbols.len ? 0 : -1; i >= 0; i = symbols[i].next) {
        if (!MC_BUFFER_PUSH(ids, int32_t, symbols[i].id)) return mc_fail_nomem("ids");
    }
    return MICA_OK;
}

void mc_bpe_scratch_deinit(mc_bpe_scratch *s) {
    mc_buffer_deinit(&s->symbols);
    mc_buffer_deinit(&s->heap);
}
