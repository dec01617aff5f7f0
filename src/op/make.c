/* Ops that make arrays: filled ones and ranges. A filled array is a view of one element. */
#include <mica/ops.h>

#include <math.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/check.h"
#include "op/gradient.h"

/* ---- filled ---- */

mica_array mica_full(mica_scope *s, const int64_t *shape, int ndim, mica_array value) {
    if (!mc_operands_ok(s, "full", &value, 1)) return mc_invalid(s);
    return mica_broadcast_to(s, value, shape, ndim);
}

mica_array mica_zeros(mica_scope *s, const int64_t *shape, int ndim, mica_dtype dtype) {
    return mica_full(s, shape, ndim, mica_scalar(s, 0.0, dtype));
}

mica_array mica_ones(mica_scope *s, const int64_t *shape, int ndim, mica_dtype dtype) {
    return mica_full(s, shape, ndim, mica_scalar(s, 1.0, dtype));
}

/* ---- ranges ---- */

static mica_status arange_infer(const void *attr, const mc_layout *const *in, int n_in,
                                mc_layout *out) {
    (void)in, (void)n_in;
    const mc_attr_range *a = attr;
    if (a->dtype < 0 || a->dtype >= MICA_DTYPE_COUNT)
        return mc_fail(MICA_EDTYPE, "arange: %lld is not a dtype", (long long)a->dtype);
    if (!isfinite(a->start) || !isfinite(a->step))
        return mc_fail(MICA_EINVAL, "arange: from %g by %g", a->start, a->step);
    return mc_set_result("arange", out, (mica_dtype)a->dtype, &a->count, 1);
}

MC_OP(arange, 0, 0, MC_ATTR(range), .infer = arange_infer);
MC_NO_GRADIENT(arange, "it has no operands");

/* The dimension that a number is, if it is a whole one. */
static bool dim_of(double x, int64_t *dim) {
    *dim = mc_dim_of_real(x);
    if (*dim) return true;
    if (!(fabs(x) < 0x1p40) || floor(x) != x) return false;
    *dim = (int64_t)x;
    return true;
}

/* Between lengths with symbols. */
static mica_array arange_dims(mica_scope *s, double start, double stop, double step,
                              mica_dtype dtype) {
    int64_t from, to, by;
    if (!dim_of(start, &from) || !dim_of(stop, &to) || !dim_of(step, &by) || by == 0)
        return mc_scope_fail(s, MICA_EINVAL,
                             "arange: from %g to %g by %g: with the length of a symbol all are "
                             "whole numbers",
                             start, stop, step);
    bool back = mc_dim_sign(by) < 0;
    int64_t span = back ? mc_dim_sub(from, to) : mc_dim_sub(to, from);
    int64_t size = back ? mc_dim_sub(0, by) : by;
    int64_t count = mc_dim_sign(span) < 0 ? 0 : mc_dim_div_up(span, size);
    mc_attr_range attr = {start, step, count, (int64_t)dtype};
    return mc_record(s, MC_OP_ARANGE, &attr, NULL, 0);
}

mica_array mica_arange(mica_scope *s, double start, double stop, double step, mica_dtype dtype) {
    if (s && (mc_dim_of_real(start) || mc_dim_of_real(stop) || mc_dim_of_real(step)))
        return arange_dims(s, start, stop, step, dtype);
    double count = ceil((stop - start) / step);
    if (!isfinite(start) || !isfinite(stop) || !isfinite(step) || step == 0.0 || isnan(count))
        return mc_scope_fail(s, MICA_EINVAL, "arange: from %g to %g by %g never ends; give a step",
                             start, stop, step);
    if (count < 0.0) count = 0.0;
    if (count > (double)INT32_MAX)
        return mc_scope_fail(s, MICA_EINVAL,
                             "arange: from %g to %g by %g has %.0f elements, 2^31 - 1 is the limit",
                             start, stop, step, count);
    mc_attr_range attr = {start, step, (int64_t)count, (int64_t)dtype};
    return mc_record(s, MC_OP_ARANGE, &attr, NULL, 0);
}

mica_array mica_linspace(mica_scope *s, double start, double stop, int64_t n) {
    if (n < 1)
        return mc_scope_fail(s, MICA_EINVAL, "linspace: %lld values; 1 is the least", (long long)n);
    mica_array t = mica_arange(s, 0.0, (double)n, 1.0, MICA_F32);
    if (n > 1) t = mica_divide(s, t, mica_scalar(s, (double)mc_dim_sub(n, 1), MICA_F32));
    /* start (1 - t) + stop t: exact at both ends */
    mica_array rest = mica_subtract(s, mica_f32(s, 1.0f), t);
    return mica_add(s, mica_multiply(s, rest, mica_f32(s, (float)start)),
                    mica_multiply(s, t, mica_f32(s, (float)stop)));
}

mica_array mica_eye(mica_scope *s, int64_t rows, int64_t cols, int64_t k, mica_dtype dtype) {
    if (rows < 0 || cols < 0)
        return mc_scope_fail(s, MICA_EINVAL, "eye: shape [%lld,%lld]", (long long)rows,
                             (long long)cols);
    mica_array row = mica_arange(s, 0.0, (double)rows, 1.0, MICA_I64); /* [rows] */
    mica_array col = mica_arange(s, 0.0, (double)cols, 1.0, MICA_I64); /* [cols] */
    mica_array on = mica_add(s, mica_expand_dims(s, row, -1), mica_scalar(s, (double)k, MICA_I64));
    return mica_astype(s, mica_equal(s, col, on), dtype);
}
