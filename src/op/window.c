#include "op/window.h"

#include <string.h>

mica_status mc_window_check(const char *op, const mc_window *w, int axis) {
    static const struct {
        const char *name;
        int64_t min;
    } numbers[] = {{"length", 0},
                   {"window", 1},
                   {"stride", 1},
                   {"dilation", 1},
                   {"base dilation", 1},
                   {"padding", -MC_WINDOW_LIMIT + 1},
                   {"padding", -MC_WINDOW_LIMIT + 1}};
    const int64_t values[] = {w->length, w->size, w->stride, w->dilation, w->base, w->lo, w->hi};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (mc_dim_less(values[i], numbers[i].min) || mc_dim_less(MC_WINDOW_LIMIT - 1, values[i]))
            return mc_fail(MICA_EINVAL, "%s: axis %d: %s %lld, %lld to 2^30 - 1 are possible", op,
                           axis, numbers[i].name, (long long)values[i], (long long)numbers[i].min);
    return MICA_OK;
}

mica_array mc_window_pad(mica_scope *s, mica_array x, const mc_window *w, int n, int first,
                         double value) {
    if (!mica_valid(x)) return mc_invalid(s);
    int ndim = mica_array_ndim(x);
    int64_t shape[MICA_MAX_NDIM], step[MICA_MAX_NDIM],
        before[MICA_MAX_NDIM] = {0}, after[MICA_MAX_NDIM] = {0}, start[MICA_MAX_NDIM] = {0},
        stop[MICA_MAX_NDIM];
    bool dilated = false, padded = false, cut = false;
    for (int k = 0; k < ndim; k++) {
        shape[k] = mica_array_dim(x, k);
        step[k] = 1;
        stop[k] = MICA_END_OF_AXIS;
    }
    for (int k = 0; k < n; k++) {
        int axis = first + k;
        shape[axis] = mc_window_base(&w[k]);
        step[axis] = w[k].base;
        dilated |= w[k].base > 1 && w[k].length > 1;
        bool cut_lo = mc_dim_sign(w[k].lo) < 0, cut_hi = mc_dim_sign(w[k].hi) < 0;
        before[axis] = cut_lo ? 0 : w[k].lo;
        after[axis] = cut_hi ? 0 : w[k].hi;
        start[axis] = cut_lo ? mc_dim_sub(0, w[k].lo) : 0;
        int64_t end = mc_dim_add(mc_dim_add(shape[axis], before[axis]), w[k].hi);
        if (cut_hi) stop[axis] = mc_dim_at_least(end, start[axis]);
        padded |= before[axis] > 0 || after[axis] > 0;
        cut |= cut_lo || cut_hi;
    }
    mica_array fill = mica_scalar(s, value, mica_array_dtype(x));
    if (dilated) x = mica_slice_update(s, mica_full(s, shape, ndim, fill), x, NULL, NULL, step);
    if (padded) x = mica_pad(s, x, before, after, fill);
    return cut ? mica_slice(s, x, start, stop, NULL) : x;
}

mica_array mc_window_view(mica_scope *s, mica_array padded, const mc_window *w, int n, int first) {
    if (!mica_valid(padded)) return mc_invalid(s);
    int ndim = mica_array_ndim(padded), at = 0;
    int64_t dense[MICA_MAX_NDIM], shape[MICA_MAX_NDIM], strides[MICA_MAX_NDIM], step = 1;
    for (int k = ndim - 1; k >= 0; k--) {
        dense[k] = step;
        step = mc_dim_mul(step, mica_array_dim(padded, k));
    }
    for (int k = 0; k < first; k++, at++) {
        shape[at] = mica_array_dim(padded, k);
        strides[at] = dense[k];
    }
    for (int k = 0; k < n; k++, at++) {
        shape[at] = mc_window_count(&w[k]);
        strides[at] = mc_dim_mul(dense[first + k], w[k].stride);
    }
    for (int k = 0; k < n; k++, at++) {
        shape[at] = w[k].size;
        strides[at] = mc_dim_mul(dense[first + k], w[k].dilation);
    }
    for (int k = first + n; k < ndim; k++, at++) {
        shape[at] = mica_array_dim(padded, k);
        strides[at] = dense[k];
    }
    return mica_as_strided(s, padded, shape, strides, at, 0);
}
