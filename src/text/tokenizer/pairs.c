#include "text/tokenizer/pairs.h"

#include "base/alloc.h"
#include "base/system.h"

#include <string.h>

static void place(mc_pair *slots, size_t mask, mc_pair pair) {
    size_t i = (size_t)mc_pair_hash(pair.key) & mask;
    while (slots[i].key != UINT64_MAX)
        i = (i + 1) & mask;
    slots[i] = pair;
}

bool mc_pairs_reserve(mc_pairs *m, size_t count) {
    size_t have = m->slots ? m->mask + 1 : 0, want = have ? have : 16;
    while (want / 2 < count) {
        if (want > SIZE_MAX / 4) return false;
        want *= 2;
    }
    if (want <= have) return true;
    if (want > SIZE_MAX / sizeof(mc_pair)) return false;
    mc_pair *slots = mc_table_alloc(want * sizeof *slots);
    if (!slots) return false;
    memset(slots, 0xFF, want * sizeof *slots);
    for (size_t i = 0; i < have; i++) {
        if (m->slots[i].key != UINT64_MAX) place(slots, want - 1, m->slots[i]);
    }
    mc_free(m->slots);
    m->slots = slots;
    m->mask = want - 1;
    return true;
}

bool mc_pairs_put(mc_pairs *m, uint64_t key, uint64_t value) {
    if (!mc_pairs_reserve(m, m->count + 1)) return false;
    size_t i = (size_t)mc_pair_hash(key) & m->mask;
    while (m->slots[i].key != UINT64_MAX && m->slots[i].key != key)
        i = (i + 1) & m->mask;
    m->count += m->slots[i].key != key;
    m->slots[i] = (mc_pair){key, value};
    return true;
}

void mc_pairs_deinit(mc_pairs *m) {
    mc_free(m->slots);
    *m = (mc_pairs){0};
}
