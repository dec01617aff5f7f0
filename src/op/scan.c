/* Scans along the last axis: cumulative sum, product, max, min and logsumexp. */
#include <mica/ops.h>

#include <math.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/dtype.h"
#include "op/gradient.h"

static mica_status scan_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    if (in[0]->ndim < 1) return mc_fail(MICA_EINVAL, "scan: a 0-dimensional array has no axis");
    *out = *in[0];
    return MICA_OK;
}

static mica_status logcumsumexp_infer(const void *attr, const mc_layout *const *in, int n_in,
                                      mc_layout *out) {
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "logcumsumexp: %s is not a float", mc_layout_text(in[0], text));
    return scan_infer(attr, in, n_in, out);
}

static mica_array record(mica_scope *s, mc_op op, const char *name, mica_array x, int axis,
                         bool reverse, bool inclusive) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    int at;
    if (!mc_find_axis(s, name, mc_layout_of(x), axis, &at)) return mc_invalid(s);
    bool adds = op == MC_OP_CUMSUM || op == MC_OP_CUMPROD;
    if (adds && mica_array_dtype(x) == MICA_BOOL) x = mc_cast(s, x, MICA_I32);
    if (op == MC_OP_LOGCUMSUMEXP) x = mc_cast(s, x, mc_inexact(mica_array_dtype(x)));
    x = mica_swapaxes(s, x, at, -1);
    mica_array y = mc_record(s, op, &(mc_attr_scan){reverse, inclusive}, &x, 1);
    return mica_swapaxes(s, y, at, -1);
}

#define SCAN(ENUM, name, infer_fn)                                                                \
    const mc_op_def mc_op_##name = {#name,         .min_in = 1,       .max_in = 1,                \
                                    MC_ATTR(scan), .infer = infer_fn, .in_place = 1};             \
    mica_array mica_##name(mica_scope *s, mica_array x, int axis, bool reverse, bool inclusive) { \
        return record(s, MC_OP_##ENUM, #name, x, axis, reverse, inclusive);                       \
    }
SCAN(CUMSUM, cumsum, scan_infer)
SCAN(CUMPROD, cumprod, scan_infer)
SCAN(CUMMAX, cummax, scan_infer)
SCAN(CUMMIN, cummin, scan_infer)
SCAN(LOGCUMSUMEXP, logcumsumexp, logcumsumexp_infer)

/* ---- gradients ---- */

static const mc_attr_scan *attr_of(const mc_gradient_node *n) {
    return n->attr;
}

/* The scan that the op is, or the one in the other direction, of x. */
static mica_array scan(const mc_gradient_node *n, mc_op op, mica_array x, bool back) {
    const mc_attr_scan *a = attr_of(n);
    return mc_record(n->s, op, &(mc_attr_scan){(a->reverse != 0) != back, a->inclusive}, &x, 1);
}

static bool cumsum_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    *dx = scan(n, MC_OP_CUMSUM, *dy, true);
    return true;
}
MC_GRADIENT(cumsum, cumsum_vjp, mc_linear_jvp);

/* For products: x with 1 for its zeros, and for the first zero of each row alone, by which the
 * products behind it are still to be differentiated. */
typedef struct factors {
    mica_array x, y;          /* wide */
    mica_array nonzero;       /* x, 1 where it is 0 */
    mica_array first;         /* bool: the first zero */
    mica_array without_first; /* the products without it */
} factors;

static factors factors_of(const mc_gradient_node *n) {
    mica_scope *s = n->s;
    factors f = {.x = mc_wide(s, n->in[0]), .y = mc_wide(s, n->out[0])};
    mica_array one = mica_f32(s, 1), zero = mica_equal(s, f.x, mica_f32(s, 0));
    mica_array count = mica_astype(s, zero, MICA_I32);
    count = mc_record(s, MC_OP_CUMSUM, &(mc_attr_scan){attr_of(n)->reverse, 1}, &count, 1);
    f.first = mica_logical_and(s, zero, mica_equal(s, count, mica_i32(s, 1)));
    f.nonzero = mica_where(s, zero, one, f.x);
    f.without_first = scan(n, MC_OP_CUMPROD, mica_where(s, f.first, one, f.x), false);
    return f;
}

static bool cumprod_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_scope *s = n->s;
    factors f = factors_of(n);
    mica_array d = mc_wide(s, *dy);
    mica_array before = scan(n, MC_OP_CUMSUM, mica_multiply(s, d, f.y), true);
    mica_array at = scan(n, MC_OP_CUMSUM, mica_multiply(s, d, f.without_first), true);
    *dx = mica_where(s, f.first, at, mica_divide(s, before, f.nonzero));
    return true;
}

static bool cumprod_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    mica_scope *s = n->s;
    factors f = factors_of(n);
    mica_array d = mc_wide(s, *dx);
    mica_array before = scan(n, MC_OP_CUMSUM, mica_divide(s, d, f.nonzero), false);
    mica_array at = mica_where(s, f.first, d, mica_f32(s, 0));
    at = scan(n, MC_OP_CUMSUM, at, false);
    *dy = mica_add(s, mica_multiply(s, before, f.y), mica_multiply(s, at, f.without_first));
    return true;
}
MC_GRADIENT(cumprod, cumprod_vjp, cumprod_jvp);

/* Which elements the results of a running maximum or minimum are. An exclusive scan has a first
 * result, of n, that is none. */
typedef struct running {
    mica_array index; /* [.., m] i32: of the results begin .. begin + m - 1 */
    int64_t begin, n;
} running;

/* Of equal elements the one that the scan meets last. */
static running running_of(const mc_gradient_node *n) {
    mica_scope *s = n->s;
    const mc_attr_scan *a = attr_of(n);
    bool reverse = a->reverse != 0;
    const mica_array x = n->in[0];
    int64_t len = mica_array_dim(x, -1);
    mica_array extreme = mc_record(s, n->op, &(mc_attr_scan){a->reverse, 1}, &x, 1);
    mica_array place = mica_arange(s, 0, (double)len, 1, MICA_I32);
    mica_array none = mica_scalar(s, (double)(reverse ? len : -1), MICA_I32);
    mica_array last = mica_where(s, mica_equal(s, x, extreme), place, none);
    running r = {.n = len};
    r.index =
        reverse ? mica_cummin(s, last, -1, true, true) : mica_cummax(s, last, -1, false, true);
    mica_array end = mica_scalar(s, (double)(len > 0 ? mc_dim_sub(len, 1) : 0), MICA_I32);
    r.index = mica_clip(s, r.index, mica_i32(s, 0), end);
    if (a->inclusive != 0 || len == 0) return r;
    r.begin = reverse ? 0 : 1;
    r.index = mica_slice_axis(s, r.index, -1, reverse ? 1 : 0, reverse ? len : mc_dim_sub(len, 1));
    return r;
}

static bool running_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    running r = running_of(n);
    int64_t m = mica_array_dim(r.index, -1);
    mica_array d = mica_slice_axis(n->s, *dy, -1, r.begin, mc_dim_add(r.begin, m));
    *dx = mc_add_along_axis(n->s, n->in[0], r.index, d, mica_array_ndim(n->in[0]) - 1);
    return true;
}

static bool running_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    running r = running_of(n);
    int64_t m = mica_array_dim(r.index, -1), before[MICA_MAX_NDIM] = {0},
            after[MICA_MAX_NDIM] = {0};
    int last = mica_array_ndim(n->in[0]) - 1;
    before[last] = r.begin;
    after[last] = mc_dim_sub(r.n, mc_dim_add(m, r.begin));
    *dy = mica_pad(n->s, mica_take_along_axis(n->s, *dx, r.index, -1), before, after,
                   mica_f32(n->s, 0));
    return true;
}
MC_GRADIENT(cummax, running_vjp, running_jvp);
MC_GRADIENT(cummin, running_vjp, running_jvp);

/* log of the positive part of x, or of the negative one; of NaN, NaN */
static mica_array log_part(mica_scope *s, mica_array x, bool positive) {
    mica_array size = positive ? x : mica_negative(s, x);
    mica_array none = mica_less_equal(s, size, mica_f32(s, 0));
    mica_array log = mica_log(s, mica_where(s, none, mica_f32(s, 1), size));
    return mica_where(s, none, mica_f32(s, -INFINITY), log);
}

/* exp(plus + log of the scan of d exp(minus)), in the logarithms' range: d is divided into its
 * positive and its negative part. */
static mica_array scan_logs(const mc_gradient_node *n, mica_array plus, mica_array minus,
                            mica_array d, bool back) {
    mica_scope *s = n->s;
    mica_array parts[2];
    for (int i = 0; i < 2; i++) {
        mica_array log = mica_add(s, log_part(s, d, i == 0), minus);
        parts[i] = mica_exp(s, mica_add(s, scan(n, MC_OP_LOGCUMSUMEXP, log, back), plus));
    }
    return mica_subtract(s, parts[0], parts[1]);
}

/* The result, 0 where nothing but -inf was summed: there every x is -inf, and has no gradient. */
static mica_array above_nothing(const mc_gradient_node *n) {
    mica_scope *s = n->s;
    mica_array y = mc_wide(s, n->out[0]);
    return mica_where(s, mica_equal(s, y, mica_f32(s, -INFINITY)), mica_f32(s, 0), y);
}

static bool logcumsumexp_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_scope *s = n->s;
    mica_array x = mc_wide(s, n->in[0]), y = above_nothing(n);
    *dx = scan_logs(n, x, mica_negative(s, y), mc_wide(s, *dy), true);
    return true;
}

static bool logcumsumexp_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    mica_scope *s = n->s;
    mica_array x = mc_wide(s, n->in[0]), y = above_nothing(n);
    *dy = scan_logs(n, mica_negative(s, y), x, mc_wide(s, *dx), false);
    return true;
}
MC_GRADIENT(logcumsumexp, logcumsumexp_vjp, logcumsumexp_jvp);
