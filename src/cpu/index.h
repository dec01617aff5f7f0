/* Reading index operands: integers of any dtype, where negative ones count from the end. */
#ifndef CPU_INDEX_H
#define CPU_INDEX_H

#include <string.h>

#include "exec/steps/step.h"

#define MC_INDEX_CASE(DTYPE, type)        \
    case DTYPE: {                         \
        type value;                       \
        memcpy(&value, at, sizeof value); \
        return (int64_t)value;            \
    }

/* Loads an integer of any dtype. u64 beyond int64 gives INT64_MAX, which is outside any axis. */
static inline int64_t mc_index_load(mica_dtype dtype, const void *at) {
    switch (dtype) {
        MC_INDEX_CASE(MICA_U8, uint8_t)
        MC_INDEX_CASE(MICA_U16, uint16_t)
        MC_INDEX_CASE(MICA_U32, uint32_t)
        MC_INDEX_CASE(MICA_I8, int8_t)
        MC_INDEX_CASE(MICA_I16, int16_t)
        MC_INDEX_CASE(MICA_I32, int32_t)
        MC_INDEX_CASE(MICA_I64, int64_t)
    default:
        break;
    }
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}
#undef MC_INDEX_CASE

/* Loads an index and resolves it to a distance from the front of an axis of `length` elements.
 *  errors  MICA_EINVAL "<op>: index 7 is outside an axis of 5 elements" */
static inline mica_status mc_index_resolve(const char *op, mica_dtype dtype, const void *at,
                                           int64_t length, int axis, int64_t *out) {
    int64_t given = mc_index_load(dtype, at);
    *out = given < 0 ? given + length : given;
    if (*out >= 0 && *out < length) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s: index %lld is outside axis %d, which has %lld elements", op,
                   (long long)given, axis, (long long)length);
}

/* Walks through index operands of one shape together, and gives the offset in x that each set of
 * indices stands for. Only for operands that are not empty:
 *     do { MC_TRY(mc_index_walk_offset(&w, &offset)); ... } while (mc_index_walk_next(&w)); */
typedef struct mc_index_walk {
    const char *op;
    const mc_operand *indices; /* [n] */
    int n;
    const int64_t *axes; /* [n] of x */
    const mc_layout *x;
    mc_walk walks[MICA_MAX_NDIM];
} mc_index_walk;

static inline mc_index_walk mc_index_walk_begin(const char *op, const mc_operand *indices, int n,
                                                const int64_t *axes, const mc_layout *x) {
    mc_index_walk w = {.op = op, .indices = indices, .n = n, .axes = axes, .x = x};
    for (int i = 0; i < n; i++)
        w.walks[i] = mc_walk_begin(indices[i].layout);
    return w;
}

/* The offset in x, in elements. errors  MICA_EINVAL an index is out of range */
static inline mica_status mc_index_walk_offset(const mc_index_walk *w, int64_t *offset) {
    *offset = 0;
    for (int i = 0; i < w->n; i++) {
        mica_dtype dtype = w->indices[i].layout->dtype;
        const char *at = (const char *)w->indices[i].data +
                         w->walks[i].offset * (int64_t)mica_dtype_bytes(dtype);
        int axis = (int)w->axes[i];
        int64_t index;
        MC_TRY(mc_index_resolve(w->op, dtype, at, w->x->shape[axis], axis, &index));
        *offset += index * w->x->strides[axis];
    }
    return MICA_OK;
}

static inline bool mc_index_walk_next(mc_index_walk *w) {
    bool more = false;
    for (int i = 0; i < w->n; i++)
        more = mc_walk_next(&w->walks[i]);
    return more;
}

#endif
