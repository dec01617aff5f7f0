#include "cpu/rows.h"
#include "cpu/region.h"

#include <string.h>

int64_t mc_row_offset(const mc_layout *l, int n_axes, int64_t index) {
    return mc_row_walk_begin(l, n_axes, index).offset;
}

mc_row_walk mc_row_walk_begin(const mc_layout *l, int n_axes, int64_t index) {
    mc_row_walk w = {.layout = l, .n_axes = n_axes};
    for (int axis = n_axes - 1; axis >= 0; axis--) {
        w.coords[axis] = index % l->shape[axis];
        w.offset += w.coords[axis] * l->strides[axis];
        index /= l->shape[axis];
    }
    return w;
}

int64_t mc_row_count(const mc_layout *l, int n_axes) {
    int64_t count = 1;
    for (int axis = 0; axis < n_axes; axis++)
        count *= l->shape[axis];
    return count;
}

void mc_widen(const mk_kernels *kern, mica_dtype dtype, const void *data, int64_t offset,
              int64_t stride, int64_t n, float *y) {
    if (n == 0) return; /* data may be NULL */
    if (dtype == MICA_F32) {
        const float *x = (const float *)data + offset;
        if (stride == 1)
            memcpy(y, x, (size_t)n * sizeof *y);
        else
            for (int64_t i = 0; i < n; i++)
                y[i] = x[i * stride];
        return;
    }
    const uint16_t *x = (const uint16_t *)data + offset;
    mk_type type = mc_mk_type(dtype);
    if (stride != 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = mk_load(x + i * stride, type, 0);
    else if (dtype == MICA_BF16)
        kern->widen_bf16(n, x, y);
    else
        kern->widen_f16(n, x, y);
}

const float *mc_row_see(const mk_kernels *kern, mica_dtype dtype, const void *data, int64_t offset,
                        int64_t stride, int64_t n, float *y) {
    if (dtype == MICA_F32 && stride == 1) return (const float *)data + offset;
    mc_widen(kern, dtype, data, offset, stride, n, y);
    return y;
}

void mc_narrow(const mk_kernels *kern, mica_dtype dtype, const float *x, int64_t n, void *data,
               int64_t offset) {
    if (dtype == MICA_F32) {
        float *y = (float *)data + offset;
        if (x != y) memcpy(y, x, (size_t)n * sizeof *x);
    } else if (dtype == MICA_BF16) {
        kern->narrow_bf16(n, x, (uint16_t *)data + offset);
    } else {
        kern->narrow_f16(n, x, (uint16_t *)data + offset);
    }
}

/* Whether the rows are f32, contiguous, and equally far apart. */
static bool are_f32_rows(const mc_layout *l, int64_t *stride) {
    int last = l->ndim - 1;
    if (l->dtype != MICA_F32 || (l->strides[last] != 1 && l->shape[last] != 1)) return false;
    int64_t step = 0, count = 1;
    for (int axis = last - 1; axis >= 0; axis--) {
        if (l->shape[axis] == 1) continue;
        if (count == 1)
            step = l->strides[axis];
        else if (l->strides[axis] != step * count)
            return false;
        count *= l->shape[axis];
    }
    *stride = step;
    return true;
}

int64_t mc_rows_scratch(const mc_operand *x) {
    int64_t stride;
    return are_f32_rows(x->layout, &stride) ? 0 : mc_layout_size(x->layout);
}

typedef struct rows_work {
    const mk_kernels *kern;
    const mc_operand *x;
    float *y;
} rows_work;

static void widen_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const rows_work *work = context;
    const mc_layout *l = work->x->layout;
    int last = l->ndim - 1;
    int64_t n = l->shape[last];
    mc_row_walk walk = mc_row_walk_begin(l, last, begin);
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&walk))
        mc_widen(work->kern, l->dtype, work->x->data, walk.offset, l->strides[last], n,
                 work->y + r * n);
}

mc_rows mc_rows_get(const mc_call *call, const mc_operand *x, float *scratch) {
    const mc_layout *l = x->layout;
    int last = l->ndim - 1;
    mc_rows rows = {.count = mc_row_count(l, last), .length = l->shape[last]};
    if (are_f32_rows(l, &rows.stride)) {
        rows.data = x->data;
        return rows;
    }
    rows_work work = {mc_cpu_of(call)->kern, x, scratch};
    if (rows.length > 0) /* without rows there may be no scratch */
        mc_cpu_for(call, rows.count, mc_grain(rows.length), widen_rows, &work);
    rows.data = scratch;
    rows.stride = rows.length;
    return rows;
}
