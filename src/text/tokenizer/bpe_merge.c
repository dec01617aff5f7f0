/* Merging: few symbols by a linear scan, many by a heap. */
#include "text/tokenizer/bpe.h"

#include <string.h>

enum { FEW = 32 };

/* A symbol of the piece; symbols are a doubly linked list in an array. */
typedef struct symbol {
    int32_t id;         /* -1: merged into the one before */
    int32_t prev, next; /* -1: none */
} symbol;

/* A merge that was possible when it was found. */
typedef struct candidate {
    uint64_t order; /* rank << 32 | index of the left symbol: the least is merged first */
    int32_t id;     /* id of the merged token */
} candidate;

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

/* rank << 32 | merged id; UINT64_MAX: the two do not merge. The least is merged first. */
static uint64_t merge_of(const mc_bpe *bpe, int32_t left, int32_t right) {
    uint64_t merge;
    uint64_t key = mc_pair_key((uint32_t)left, (uint32_t)right);
    return mc_pairs_find(&bpe->merges, key, &merge) ? merge : UINT64_MAX;
}

static bool find_merge(const mc_bpe *bpe, const symbol *symbols, int32_t left, candidate *out) {
    int32_t right = symbols[left].next;
    uint64_t merge = right < 0 ? UINT64_MAX : merge_of(bpe, symbols[left].id, symbols[right].id);
    *out = (candidate){(merge & ~(uint64_t)UINT32_MAX) | (uint32_t)left, (int32_t)(uint32_t)merge};
    return merge != UINT64_MAX;
}

static bool push_merge(const mc_bpe *bpe, const symbol *symbols, int32_t left, mc_buffer *heap) {
    candidate c;
    if (left < 0 || !find_merge(bpe, symbols, left, &c)) return true;
    if (!mc_buffer_add(heap, &c, sizeof c)) return false;
    sift_up(MC_BUFFER_AT(heap, candidate), MC_BUFFER_COUNT(heap, candidate) - 1);
    return true;
}

static bool push_all_merges(const mc_bpe *bpe, const symbol *symbols, size_t n, mc_buffer *heap) {
    for (size_t i = 0; i + 1 < n; i++) {
        candidate c;
        if (find_merge(bpe, symbols, (int32_t)i, &c) && !mc_buffer_add(heap, &c, sizeof c)) {
            return false;
        }
    }
    n = MC_BUFFER_COUNT(heap, candidate);
    for (size_t i = n / 2; i-- > 0;)
        sift_down(MC_BUFFER_AT(heap, candidate), n, i);
    return true;
}

/* Candidates stay in the heap when a neighbour changes. One that no longer gives the same token is
 * skipped when it is taken out. */
static bool merge_list(const mc_bpe *bpe, symbol *symbols, size_t n, mc_buffer *heap) {
    mc_buffer_clear(heap);
    if (!push_all_merges(bpe, symbols, n, heap)) return false;
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

static mica_status merge_many(const mc_bpe *bpe, int32_t *ids, size_t *n, mc_bpe_scratch *s) {
    mc_buffer_clear(&s->symbols);
    if (!mc_buffer_reserve(&s->symbols, *n * sizeof(symbol))) return mc_fail_nomem("symbols");
    symbol *symbols = MC_BUFFER_AT(&s->symbols, symbol);
    for (size_t i = 0; i < *n; i++)
        symbols[i] = (symbol){ids[i], (int32_t)i - 1, i + 1 < *n ? (int32_t)i + 1 : -1};
    if (!merge_list(bpe, symbols, *n, &s->heap)) return mc_fail_nomem("symbols");
    *n = 0;
    for (int32_t i = 0; i >= 0; i = symbols[i].next)
        ids[(*n)++] = symbols[i].id;
    return MICA_OK;
}

/* merges[i] is of ids[i] and ids[i + 1]. */
static void merge_few(const mc_bpe *bpe, int32_t *ids, size_t *n) {
    uint64_t merges[FEW];
    size_t left = *n - 1; /* number of merges left */
    for (size_t i = 0; i < left; i++)
        merges[i] = merge_of(bpe, ids[i], ids[i + 1]);
    while (left) {
        size_t best = 0;
        for (size_t i = 1; i < left; i++)
            best = merges[i] < merges[best] ? i : best;
        if (merges[best] == UINT64_MAX) break;
        ids[best] = (int32_t)(uint32_t)merges[best];
        left--;
        memmove(ids + best + 1, ids + best + 2, (left - best) * sizeof *ids);
        memmove(merges + best, merges + best + 1, (left - best) * sizeof *merges);
        if (best > 0) merges[best - 1] = merge_of(bpe, ids[best - 1], ids[best]);
        if (best < left) merges[best] = merge_of(bpe, ids[best], ids[best + 1]);
    }
    *n = left + 1;
}

mica_status mc_bpe_merge(const mc_bpe *bpe, int32_t *ids, size_t *n, mc_bpe_scratch *s) {
    if (*n > FEW) return merge_many(bpe, ids, n, s);
    if (*n > 1) merge_few(bpe, ids, n);
    return MICA_OK;
}
