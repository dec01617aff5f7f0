/* Hashes of prefixes by xxhash, of which nothing is linked. */
#include "session/prefix.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

bool mc_prefix_available(void) {
    return true;
}

mc_prefix_hash mc_prefix_seed(const char *salt) {
    XXH128_hash_t hash = XXH3_128bits(salt, strlen(salt));
    return (mc_prefix_hash){hash.low64, hash.high64};
}

mc_prefix_hash mc_prefix_next(mc_prefix_hash before, const int32_t *ids, int64_t n) {
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &before, sizeof before);
    XXH3_128bits_update(&state, ids, (size_t)n * sizeof *ids);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return (mc_prefix_hash){hash.low64, hash.high64};
}
