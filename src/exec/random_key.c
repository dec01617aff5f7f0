/* Keys of random numbers from seeds and states: see op/random.c.
 *
 * source  Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3". */
#include <mica/ops.h>

#include "graph/graph.h"

mica_array mica_random_key(mica_scope *s, uint64_t seed) {
    const uint32_t key[2] = {(uint32_t)(seed >> 32), (uint32_t)seed};
    return mica_from_data(s, key, MICA_U32, (const int64_t[]){2}, 1);
}

static uint32_t rotate(uint32_t x, int bits) {
    return x << bits | x >> (32 - bits);
}

/* Turns a pair of counters into a pair of random words, in place. */
static void threefry(const uint32_t key[2], uint32_t pair[2]) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t keys[3] = {key[0], key[1], 0x1BD11BDAu ^ key[0] ^ key[1]};
    pair[0] += keys[0];
    pair[1] += keys[1];
    for (uint32_t group = 1; group <= 5; group++) {
        for (int i = 0; i < 4; i++) {
            pair[0] += pair[1];
            pair[1] = rotate(pair[1], rotations[(group - 1) % 2][i]) ^ pair[0];
        }
        pair[0] += keys[group % 3];
        pair[1] += keys[(group + 1) % 3] + group;
    }
}

mica_random_state mica_random_seed(uint64_t seed) {
    return (mica_random_state){{(uint32_t)(seed >> 32), (uint32_t)seed}};
}

/* mica_random_split in two: words 0 and 1 are the state's next key, 2 and 3 the caller's. */
mica_array mica_random_next(mica_scope *s, mica_random_state *state) {
    uint32_t first[2] = {0, 2}, second[2] = {1, 3};
    if (!state) return mc_scope_fail(s, MICA_EINVAL, "random_next: state is NULL");
    threefry(state->key, first);
    threefry(state->key, second);
    const uint32_t key[2] = {first[1], second[1]};
    mica_array x = mica_from_data(s, key, MICA_U32, (const int64_t[]){2}, 1);
    if (mica_valid(x)) *state = (mica_random_state){{first[0], second[0]}};
    return x;
}
