/* Reductions, scans, sorting. */
#include "mlx/emit.h"

#include <math.h>

/* ---- reductions: the axes keep length 1 ---- */

typedef __typeof__(&mlx_sum_axes) reduce_fn;

static mlx_array reduce(mc_mlx_call *c, reduce_fn function, mlx_array x) {
    const mc_attr_reduce *a = c->attr;
    int axes[MICA_MAX_NDIM];
    size_t n = 0;
    mlx_array y = {0};
    for (int k = 0; k < c->from[0]->ndim; k++)
        if (a->axes >> k & 1) axes[n++] = k;
    if (n == 0) return x;
    int failed = function(&y, mc_mlx_dense(c, x), axes, n, true, c->stream);
    return mc_mlx_keep(c, failed, y);
}

/* Sums and products in f32, or in the widened integer dtype of the result. */
static mlx_array widened(mc_mlx_call *c) {
    mica_dtype to = c->to->dtype;
    return mica_dtype_is_float(to) ? mc_mlx_wide(c, 0) : mc_mlx_cast(c, c->in[0], to);
}

void mc_mlx_emit_sum(mc_mlx_call *c) {
    mc_mlx_give(c, 0, reduce(c, mc_mlx.sum_axes, widened(c)));
}

void mc_mlx_emit_prod(mc_mlx_call *c) {
    mc_mlx_give(c, 0, reduce(c, mc_mlx.prod_axes, widened(c)));
}

static mlx_array without_bool(mc_mlx_call *c) {
    return c->from[0]->dtype == MICA_BOOL ? mc_mlx_cast(c, c->in[0], MICA_U8) : c->in[0];
}

void mc_mlx_emit_max(mc_mlx_call *c) {
    mc_mlx_give(c, 0, reduce(c, mc_mlx.max_axes, without_bool(c)));
}

void mc_mlx_emit_min(mc_mlx_call *c) {
    mc_mlx_give(c, 0, reduce(c, mc_mlx.min_axes, without_bool(c)));
}

void mc_mlx_emit_all(mc_mlx_call *c) {
    mc_mlx_give(c, 0, reduce(c, mc_mlx.all_axes, mc_mlx_cast(c, c->in[0], MICA_BOOL)));
}

void mc_mlx_emit_any(mc_mlx_call *c) {
    mc_mlx_give(c, 0, reduce(c, mc_mlx.any_axes, mc_mlx_cast(c, c->in[0], MICA_BOOL)));
}

typedef __typeof__(&mlx_argmax_axis) index_fn;

static mlx_array find_index(mc_mlx_call *c, index_fn function, mlx_array x, int axis) {
    mlx_array y = {0};
    int failed = function(&y, x, axis, true, c->stream);
    return mc_mlx_keep(c, failed, y);
}

/* The index of the largest or smallest. MLX would stop at a NaN in the first place: the worst value
 * stands for NaN, and where that is the best there is, the first that is no NaN is taken. */
static void find_best(mc_mlx_call *c, index_fn function, reduce_fn best_of, float worst) {
    const mc_attr_reduce *a = c->attr;
    int axis = __builtin_ctzll((unsigned long long)a->axes);
    mlx_array x = without_bool(c);
    if (!mica_dtype_is_float(c->from[0]->dtype)) {
        mc_mlx_give(c, 0, find_index(c, function, x, axis));
        return;
    }
    mlx_array nan = mc_mlx_apply(c, mc_mlx.isnan, x);
    mlx_array bad = mc_mlx_cast(c, mc_mlx_f32(c, worst), c->from[0]->dtype);
    x = mc_mlx_where(c, nan, bad, x);
    mlx_array none = mc_mlx_combine(c, mc_mlx.equal, reduce(c, best_of, x), bad);
    mlx_array first = find_index(c, mc_mlx.argmin_axis, mc_mlx_cast(c, nan, MICA_U8), axis);
    mc_mlx_give(c, 0, mc_mlx_where(c, none, first, find_index(c, function, x, axis)));
}

/* An array of no axes has one element. */
static bool is_number(mc_mlx_call *c) {
    if (c->from[0]->ndim > 0) return false;
    mc_mlx_give(c, 0, mc_mlx_int(c, 0, MICA_U32));
    return true;
}

void mc_mlx_emit_argmax(mc_mlx_call *c) {
    if (!is_number(c)) find_best(c, mc_mlx.argmax_axis, mc_mlx.max_axes, -INFINITY);
}

void mc_mlx_emit_argmin(mc_mlx_call *c) {
    if (!is_number(c)) find_best(c, mc_mlx.argmin_axis, mc_mlx.min_axes, INFINITY);
}

/* ---- scans and sorting: along the last axis ---- */

static int last_axis(const mc_mlx_call *c) {
    return c->from[0]->ndim - 1;
}

/* Running sums keep their dtype. */
static void accumulate(mc_mlx_call *c, __typeof__(&mlx_cumsum_axis) function) {
    const mc_attr_scan *a = c->attr;
    mlx_array y = {0};
    int failed = function(&y, mc_mlx_dense(c, mc_mlx_wide(c, 0)), last_axis(c), a->reverse != 0,
                          a->inclusive != 0, (mlx_optional_dtype){MLX_BOOL, false}, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_cumsum(mc_mlx_call *c) {
    accumulate(c, mc_mlx.cumsum_axis);
}

void mc_mlx_emit_cumprod(mc_mlx_call *c) {
    accumulate(c, mc_mlx.cumprod_axis);
}

static void scan(mc_mlx_call *c, __typeof__(&mlx_cummax_axis) function, mlx_array x) {
    const mc_attr_scan *a = c->attr;
    mlx_array y = {0};
    int failed = function(&y, mc_mlx_dense(c, x), last_axis(c), a->reverse != 0, a->inclusive != 0,
                          c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_cummax(mc_mlx_call *c) {
    scan(c, mc_mlx.cummax_axis, without_bool(c));
}

void mc_mlx_emit_cummin(mc_mlx_call *c) {
    scan(c, mc_mlx.cummin_axis, without_bool(c));
}

void mc_mlx_emit_logcumsumexp(mc_mlx_call *c) {
    scan(c, mc_mlx.logcumsumexp_axis, mc_mlx_wide(c, 0));
}

static void order(mc_mlx_call *c, __typeof__(&mlx_sort_axis) function) {
    mlx_array y = {0};
    int failed = function(&y, mc_mlx_dense(c, without_bool(c)), last_axis(c), c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_sort(mc_mlx_call *c) {
    order(c, mc_mlx.sort_axis);
}

void mc_mlx_emit_argsort(mc_mlx_call *c) {
    order(c, mc_mlx.argsort_axis);
}

void mc_mlx_emit_softmax(mc_mlx_call *c) {
    mlx_array y = {0};
    int failed = mc_mlx.softmax_axis(&y, mc_mlx_wide(c, 0), last_axis(c), true, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}
