/* Small integer functions. */
#ifndef BASE_INTEGER_H
#define BASE_INTEGER_H

#include <stdint.h>

static inline int64_t mc_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t mc_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* x >= 0 rounded up to a multiple of step > 0. The result must fit int64. */
static inline int64_t mc_round_up(int64_t x, int64_t step) {
    return (x + step - 1) / step * step;
}

#endif
