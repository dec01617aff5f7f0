/* A hash map from byte strings to 64-bit values (open addressing, no removal).
 *
 * Keys are borrowed: their bytes must outlive the map (an arena, a mapped file). Zero is an empty
 * map. Threads: any number may find, one may put. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct mc_map_entry mc_map_entry;

typedef struct mc_map {
    mc_map_entry *entries;
    size_t count;
    size_t cap; /* a power of two, or 0 */
} mc_map;

bool mc_map_reserve(mc_map *m, size_t count); /* room for count keys in all; false: no memory */
bool mc_map_put(mc_map *m, mc_str key, uint64_t value);         /* replaces; false: no memory */
bool mc_map_find(const mc_map *m, mc_str key, uint64_t *value); /* false: no such key */
void mc_map_deinit(mc_map *m);

/* A 64-bit hash of bytes, the same on every little-endian machine: files hold it. Other tables use
 * it, too (plan cache). */
uint64_t mc_hash(const void *bytes, size_t n, uint64_t seed);

#endif
