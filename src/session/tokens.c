#include "session/tokens.h"

#include "base/integer.h"

#include <string.h>

void mc_tokens_deinit(mc_tokens *t) {
    mc_buffer_deinit(&t->ids);
}

void mc_tokens_clear(mc_tokens *t) {
    mc_buffer_clear(&t->ids);
    t->start = 0;
    t->hash = 0;
}

static int64_t kept(const mc_tokens *t) {
    return (int64_t)MC_BUFFER_COUNT(&t->ids, int32_t);
}

int64_t mc_tokens_count(const mc_tokens *t) {
    return t->start + kept(t);
}

int32_t mc_tokens_last(const mc_tokens *t) {
    return MC_BUFFER_AT(&t->ids, int32_t)[kept(t) - 1];
}

/* The hash of the text's first `end` tokens, start <= end <= count. */
static uint64_t hash_to(const mc_tokens *t, int64_t end) {
    const int32_t *ids = MC_BUFFER_AT(&t->ids, int32_t);
    uint64_t hash = t->hash;
    for (int64_t i = 0; i < end - t->start; i++) {
        hash = (hash + (uint32_t)ids[i] + 1) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

static void forget(mc_tokens *t, int64_t n) {
    size_t bytes = (size_t)n * sizeof(int32_t);
    t->hash = hash_to(t, t->start + n);
    t->start += n;
    t->ids.len -= bytes;
    memmove(t->ids.data, t->ids.data + bytes, t->ids.len);
}

bool mc_tokens_reserve(mc_tokens *t, int64_t n) {
    int64_t old = kept(t) - t->limit;
    if (t->limit && old > 0 && kept(t) + n > 2 * t->limit) forget(t, old);
    return mc_buffer_reserve(&t->ids, (size_t)n * sizeof(int32_t));
}

bool mc_tokens_add(mc_tokens *t, const int32_t *ids, int64_t n) {
    return mc_tokens_reserve(t, n) && mc_buffer_add(&t->ids, ids, (size_t)n * sizeof *ids);
}

void mc_tokens_cut(mc_tokens *t, int64_t to) {
    t->ids.len = (size_t)(to - t->start) * sizeof(int32_t);
}

int64_t mc_tokens_common(const mc_tokens *a, const mc_tokens *b) {
    int64_t at = mc_max(a->start, b->start);
    int64_t end = mc_min(mc_tokens_count(a), mc_tokens_count(b));
    if (at > end || hash_to(a, at) != hash_to(b, at)) return 0;
    const int32_t *x = MC_BUFFER_AT(&a->ids, int32_t), *y = MC_BUFFER_AT(&b->ids, int32_t);
    while (at < end && x[at - a->start] == y[at - b->start])
        at++;
    return at;
}
