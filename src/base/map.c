#include "base/map.h"

#include "base/alloc.h"

#include <string.h>

/* Odd constants with evenly spread bits: 2^64 divided by the golden ratio, and the fractions of the
 * square roots of 2 and 3, made odd. */
#define K0 UINT64_C(0x9E3779B97F4A7C15)
#define K1 UINT64_C(0x6A09E667F3BCC909)
#define K2 UINT64_C(0xBB67AE8584CAA73B)

#define MIN_CAP 16

struct mc_map_entry {
    mc_str key; /* ptr NULL: a free entry */
    uint64_t hash;
    uint64_t value;
};

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 32)) * K1;
    x = (x ^ (x >> 29)) * K2;
    return x ^ (x >> 32);
}

static uint64_t absorb(uint64_t h, uint64_t word) {
    h = (h ^ (word * K1)) * K0;
    return h ^ (h >> 29);
}

static uint64_t load64(const unsigned char *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint32_t load32(const unsigned char *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Packs n = 1..7 bytes into a word, some of them twice. The hash already includes the length. */
static uint64_t load_few(const unsigned char *p, size_t n) {
    if (n >= 4) return (uint64_t)load32(p) << 32 | load32(p + n - 4);
    return (uint64_t)p[0] << 16 | (uint64_t)p[n / 2] << 8 | p[n - 1];
}

uint64_t mc_hash(const void *bytes, size_t n, uint64_t seed) {
    const unsigned char *p = bytes;
    uint64_t h = ((seed + K1) * K0) ^ (n * K2);
    h ^= h >> 32;
    if (n >= 8) {
        const unsigned char *last = p + n - 8; /* overlaps the words before it */
        for (; p < last; p += 8)
            h = absorb(h, load64(p));
        h = absorb(h, load64(last));
    } else if (n > 0) {
        h = absorb(h, load_few(p, n));
    }
    return mix(h);
}

/* The key's entry, or the free entry for it. At most 3/4 of the entries are in use. */
static mc_map_entry *slot(const mc_map *m, mc_str key, uint64_t hash) {
    for (size_t i = (size_t)hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        mc_map_entry *e = &m->entries[i];
        if (!e->key.ptr || (e->hash == hash && mc_str_eq(e->key, key))) return e;
    }
}

bool mc_map_reserve(mc_map *m, size_t count) {
    if (count <= m->cap / 4 * 3) return true;
    mc_map bigger = {.count = m->count, .cap = m->cap ? m->cap : MIN_CAP};
    while (count > bigger.cap / 4 * 3) {
        if (bigger.cap > SIZE_MAX / 2) return false;
        bigger.cap *= 2;
    }
    bigger.entries = mc_calloc(bigger.cap, sizeof *bigger.entries);
    if (!bigger.entries) return false;
    for (size_t i = 0; i < m->cap; i++) {
        const mc_map_entry *e = &m->entries[i];
        if (e->key.ptr) *slot(&bigger, e->key, e->hash) = *e;
    }
    mc_free(m->entries);
    *m = bigger;
    return true;
}

bool mc_map_put(mc_map *m, mc_str key, uint64_t value) {
    if (!mc_map_reserve(m, m->count + 1)) return false;
    if (!key.ptr) key.ptr = ""; /* NULL marks a free entry */
    uint64_t hash = mc_hash(key.ptr, key.len, 0);
    mc_map_entry *e = slot(m, key, hash);
    if (!e->key.ptr) {
        e->key = key;
        e->hash = hash;
        m->count++;
    }
    e->value = value;
    return true;
}

bool mc_map_find(const mc_map *m, mc_str key, uint64_t *value) {
    if (m->cap == 0) return false;
    const mc_map_entry *e = slot(m, key, mc_hash(key.ptr, key.len, 0));
    if (!e->key.ptr) return false;
    *value = e->value;
    return true;
}

void mc_map_deinit(mc_map *m) {
    mc_free(m->entries);
    *m = (mc_map){0};
}
