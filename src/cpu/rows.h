/* Rows of operands as kernels need them: f32, contiguous. */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H

#include "cpu/cpu.h"

/* The element at which row `index` begins. The index counts the first n_axes axes in logical
 * order. */
int64_t mc_row_offset(const mc_layout *l, int n_axes, int64_t index);

/* Walks through rows in logical order: w = mc_row_walk_begin(l, n_axes, index), then
 * mc_row_walk_next(&w) advances to the next row. */
typedef struct mc_row_walk {
    const mc_layout *layout;
    int n_axes;
    int64_t offset; /* of the row, in elements */
    int64_t coords[MICA_MAX_NDIM];
} mc_row_walk;

mc_row_walk mc_row_walk_begin(const mc_layout *l, int n_axes, int64_t index);

static inline void mc_row_walk_next(mc_row_walk *w) {
    for (int axis = w->n_axes - 1; axis >= 0; axis--) {
        w->offset += w->layout->strides[axis];
        if (++w->coords[axis] < w->layout->shape[axis]) return;
        w->offset -= w->layout->strides[axis] * w->layout->shape[axis];
        w->coords[axis] = 0;
    }
}

/* Prefetches n contiguous elements of the row that is MC_PREFETCH_ROWS further along the walk's
 * last axis. Hardware does not predict rows that are far apart, such as a head's rows of many
 * tokens. */
#define MC_PREFETCH_ROWS 4
static inline void mc_row_walk_fetch(const mc_row_walk *w, const void *data, int64_t n) {
    int axis = w->n_axes - 1;
    if (axis < 0 || w->coords[axis] + MC_PREFETCH_ROWS >= w->layout->shape[axis]) return;
    int64_t item = (int64_t)mica_dtype_bytes(w->layout->dtype);
    int64_t offset = w->offset + MC_PREFETCH_ROWS * w->layout->strides[axis];
    const char *row = (const char *)data + offset * item;
    for (int64_t i = 0; i < n * item; i += 64)
        __builtin_prefetch(row + i);
}

/* The number of rows: the product of the first n_axes lengths. */
int64_t mc_row_count(const mc_layout *l, int n_axes);

/* Converts n floats of dtype, `stride` elements apart, to f32. */
void mc_widen(const mk_kernels *kern, mica_dtype dtype, const void *data, int64_t offset,
              int64_t stride, int64_t n, float *y);

/* The same floats as contiguous f32: in place if they are that, else widened to y. */
const float *mc_row_see(const mk_kernels *kern, mica_dtype dtype, const void *data, int64_t offset,
                        int64_t stride, int64_t n, float *y);

/* Converts n f32 to contiguous floats of dtype, rounded once. Does nothing if they are there
 * already. */
void mc_narrow(const mk_kernels *kern, mica_dtype dtype, const float *x, int64_t n, void *data,
               int64_t offset);

/* Where a kernel writes n f32 for mc_narrow at `offset`: there if dtype is f32, else y. */
static inline float *mc_row_aim(mica_dtype dtype, void *data, int64_t offset, float *y) {
    return dtype == MICA_F32 ? (float *)data + offset : y;
}

/* A float operand [..., K] as f32 rows. */
typedef struct mc_rows {
    const float *data;
    int64_t stride; /* elements from a row to the next */
    int64_t count;
    int64_t length; /* K */
} mc_rows;

/* Floats of scratch that mc_rows_get needs for the operand; 0: it is read in place. */
int64_t mc_rows_scratch(const mc_operand *x);
/* The operand's rows, in logical order. If necessary they are widened into scratch, on the pool. */
mc_rows mc_rows_get(const mc_call *call, const mc_operand *x, float *scratch);

static inline mk_type mc_mk_type(mica_dtype dtype) {
    return dtype == MICA_F16 ? MK_F16 : dtype == MICA_BF16 ? MK_BF16 : MK_F32;
}

/* A grain: fewer than about 32,000 operations are done by the caller alone. */
#define MC_SMALL_WORK 32768
static inline int64_t mc_grain(int64_t work_each) {
    return work_each >= MC_SMALL_WORK ? 1 : MC_SMALL_WORK / (work_each < 1 ? 1 : work_each);
}

#endif
