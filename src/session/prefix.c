#include "session/prefix.h"

#include "base/alloc.h"

/* ---- the list of entries without pins ---- */

static void link_newest(mc_prefixes *p, int32_t i) {
    mc_prefix_entry *e = &p->entries[i];
    e->newer = -1;
    e->older = p->newest;
    if (p->newest >= 0)
        p->entries[p->newest].newer = i;
    else
        p->oldest = i;
    p->newest = i;
}

static void unlink_entry(mc_prefixes *p, int32_t i) {
    const mc_prefix_entry *e = &p->entries[i];
    if (e->newer >= 0)
        p->entries[e->newer].older = e->older;
    else
        p->newest = e->older;
    if (e->older >= 0)
        p->entries[e->older].newer = e->newer;
    else
        p->oldest = e->newer;
}

/* ---- the table ---- */

static int32_t *bucket_of(const mc_prefixes *p, mc_prefix_hash hash) {
    return &p->buckets[hash.low & (p->n_buckets - 1)];
}

mica_status mc_prefixes_init(mc_prefixes *p, int32_t max, int32_t groups) {
    *p = (mc_prefixes){.max = max, .groups = groups, .newest = -1, .oldest = -1, .unused = -1};
    p->n_buckets = 16;
    while (p->n_buckets < (uint32_t)max)
        p->n_buckets *= 2;
    p->entries = mc_calloc((size_t)max, sizeof *p->entries);
    p->blocks = mc_calloc((size_t)max * (size_t)groups, sizeof *p->blocks);
    p->buckets = mc_array_alloc(p->n_buckets, sizeof *p->buckets);
    if (!p->entries || !p->blocks || !p->buckets) return mc_fail_nomem("a cache of prefixes");
    for (uint32_t i = 0; i < p->n_buckets; i++)
        p->buckets[i] = -1;
    for (int32_t i = max - 1; i >= 0; i--) {
        p->entries[i].next = p->unused;
        p->unused = i;
    }
    return MICA_OK;
}

void mc_prefixes_deinit(mc_prefixes *p) {
    mc_free(p->entries);
    mc_free(p->blocks);
    mc_free(p->buckets);
    *p = (mc_prefixes){.unused = -1, .newest = -1, .oldest = -1};
}

int32_t mc_prefix_find(const mc_prefixes *p, mc_prefix_hash hash) {
    int32_t i = *bucket_of(p, hash);
    while (i >= 0 && (p->entries[i].hash.low != hash.low || p->entries[i].hash.high != hash.high))
        i = p->entries[i].next;
    return i;
}

int32_t *mc_prefix_blocks(const mc_prefixes *p, int32_t entry) {
    return &p->blocks[(int64_t)entry * p->groups];
}

int32_t mc_prefix_add(mc_prefixes *p, mc_prefix_hash hash) {
    int32_t i = p->unused, *bucket = bucket_of(p, hash);
    if (i < 0) return -1;
    p->unused = p->entries[i].next;
    p->entries[i] = (mc_prefix_entry){.hash = hash, .pins = 1, .next = *bucket};
    *bucket = i;
    p->count++;
    for (int32_t g = 0; g < p->groups; g++)
        mc_prefix_blocks(p, i)[g] = -1;
    return i;
}

void mc_prefix_pin(mc_prefixes *p, int32_t entry) {
    if (p->entries[entry].pins++ == 0) unlink_entry(p, entry);
}

void mc_prefix_unpin(mc_prefixes *p, int32_t entry) {
    if (--p->entries[entry].pins == 0) link_newest(p, entry);
}

void mc_prefix_drop(mc_prefixes *p, int32_t i) {
    unlink_entry(p, i);
    int32_t *at = bucket_of(p, p->entries[i].hash);
    while (*at != i)
        at = &p->entries[*at].next;
    *at = p->entries[i].next;
    p->entries[i].next = p->unused;
    p->unused = i;
    p->count--;
}

int32_t mc_prefix_drop_oldest(mc_prefixes *p) {
    int32_t i = p->oldest;
    if (i >= 0) mc_prefix_drop(p, i);
    return i;
}
