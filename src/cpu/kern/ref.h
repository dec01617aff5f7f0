/* The reference's dot product, shared by its families: it fixes the order of summation. */
#ifndef CPU_KERN_REF_H
#define CPU_KERN_REF_H

#include <stdint.h>

#define MK_REF_LANES 8
#define MK_REF_BLOCK 64 /* a multiple of the lanes: blocks do not change the order */

typedef struct mk_ref_sum {
    float lanes[MK_REF_LANES];
} mk_ref_sum;

/* Adds n elements' products. n is a multiple of the lanes except in the last call. */
static inline void mk_ref_add(mk_ref_sum *sum, int64_t n, const float *x, const float *w) {
    int64_t i = 0;
    for (; i + MK_REF_LANES <= n; i += MK_REF_LANES)
        for (int64_t lane = 0; lane < MK_REF_LANES; lane++)
            sum->lanes[lane] += x[i + lane] * w[i + lane];
    for (int64_t lane = 0; i + lane < n; lane++)
        sum->lanes[lane] += x[i + lane] * w[i + lane];
}

static inline float mk_ref_total(const mk_ref_sum *sum) {
    const float *s = sum->lanes;
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static inline float mk_ref_dot(int64_t n, const float *x, const float *w) {
    mk_ref_sum sum = {{0}};
    mk_ref_add(&sum, n, x, w);
    return mk_ref_total(&sum);
}

#endif
