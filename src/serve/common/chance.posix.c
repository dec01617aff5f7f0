#define _DEFAULT_SOURCE
#include "serve/common/chance.h"

#include "base/system.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

uint64_t mc_chance(void) {
    static atomic_uint_fast64_t count;
    uint64_t number;
    if (getentropy(&number, sizeof number) == 0) return number;
    /* A system that gives none: numbers that differ will do. */
    return (mc_now_us() << 16) ^ atomic_fetch_add(&count, 0x9e3779b97f4a7c15u);
}

bool mc_chance_bytes(void *bytes, size_t n) {
    return getentropy(bytes, n) == 0;
}

void mc_chance_name(const char *prefix, char out[MC_NAME_BYTES]) {
    snprintf(out, MC_NAME_BYTES, "%s-%016" PRIx64 "%08x", prefix, mc_chance(),
             (unsigned)mc_chance());
}
