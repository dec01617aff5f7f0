/* A build without xxhash: a pool keeps no prefixes. */
#include "session/prefix.h"

bool mc_prefix_available(void) {
    return false;
}

mc_prefix_hash mc_prefix_seed(const char *salt) {
    (void)salt;
    return (mc_prefix_hash){0, 0};
}

mc_prefix_hash mc_prefix_next(mc_prefix_hash before, const int32_t *ids, int64_t n) {
    (void)ids, (void)n;
    return before;
}
