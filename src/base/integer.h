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

/* x without its fraction, the nearest int64 where it is out of range, 0 for NaN. */
static inline int64_t mc_to_i64(double x) {
    if (!(x > -0x1p63)) return x <= -0x1p63 ? INT64_MIN : 0;
    return x < 0x1p63 ? (int64_t)x : INT64_MAX;
}

/* x >= 0 rounded up to a multiple of step > 0. The result must fit int64. */
static inline int64_t mc_round_up(int64_t x, int64_t step) {
    return (x + step - 1) / step * step;
}

#endif
