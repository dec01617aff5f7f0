/* Complex numbers in records, which are f32 [..., 2] in files. */
#ifndef OP_GOLDEN_COMPLEX_H
#define OP_GOLDEN_COMPLEX_H

#include <math.h>

#include "op/golden.h"

static inline mica_array golden_as_complex(mica_scope *s, mica_array pairs) {
    return mica_squeeze(s, mica_view(s, pairs, MICA_C64), -1);
}

/* Of another dtype: x itself. */
static inline mica_array golden_as_pairs(mica_scope *s, mica_array x) {
    if (!mica_valid(x) || mica_array_dtype(x) != MICA_C64) return x;
    return mica_view(s, mica_expand_dims(s, x, -1), MICA_F32);
}

/* The tolerance of a transform of n numbers near 1. */
static inline void golden_allow_points(golden *g, int64_t n) {
    g->absolute = 1e-6 * (1 + sqrt((double)n));
}

#endif
