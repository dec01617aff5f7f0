/* What is found in sorted arrays: compositions. */
#include <mica/ops.h>

#include <string.h>

#include "op/build.h"
#include "op/dtype.h"

/* ---- axes as the last one ---- */

/* An array with some of its axes behind the others, as one. */
typedef struct gathered {
    mica_array x;                 /* invalid after an error */
    int order[MICA_MAX_NDIM];     /* of the axes, before they became one */
    int64_t shape[MICA_MAX_NDIM]; /* in that order */
    int64_t kept[MICA_MAX_NDIM];  /* [n_kept] the shape without them, or with length 1 for them */
    int n_kept;
} gathered;

static bool list_axes(mica_scope *s, const char *name, const mc_layout *l, const int *axes, int n,
                      bool *listed) {
    for (int k = 0; k < l->ndim; k++)
        listed[k] = n <= 0 || !axes;
    for (int i = 0; axes && i < n; i++) {
        int at;
        if (!mc_find_axis(s, name, l, axes[i], &at)) return false;
        if (listed[at]) {
            mc_scope_fail(s, MICA_EINVAL, "%s: axis %d is listed twice", name, at);
            return false;
        }
        listed[at] = true;
    }
    return true;
}

/* axes [n]; none: all. */
static gathered gather_axes(mica_scope *s, const char *name, mica_array x, const int *axes, int n,
                            bool keepdims) {
    const mc_layout *l = mc_layout_of(x);
    gathered g = {.x = mc_invalid(s)};
    bool listed[MICA_MAX_NDIM];
    int64_t flat[MICA_MAX_NDIM], length = 1;
    int at = 0, n_flat = 0;
    if (!list_axes(s, name, l, axes, n, listed)) return g;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < l->ndim; k++)
            if (listed[k] == (pass == 1)) g.order[at++] = k;
    for (int k = 0; k < l->ndim; k++) {
        g.shape[k] = l->shape[g.order[k]];
        if (listed[k])
            length = mc_dim_mul(length, l->shape[k]);
        else
            flat[n_flat++] = l->shape[k];
        if (!listed[k] || keepdims) g.kept[g.n_kept++] = listed[k] ? 1 : l->shape[k];
    }
    flat[n_flat++] = length;
    g.x = mica_reshape(s, mica_transpose(s, x, g.order), flat, n_flat);
    return g;
}

/* ---- softmax over several axes ---- */

mica_array mica_softmax_axes(mica_scope *s, mica_array x, const int *axes, int n_axes) {
    if (!mc_operands_ok(s, "softmax_axes", &x, 1)) return mc_invalid(s);
    int ndim = mica_array_ndim(x), back[MICA_MAX_NDIM];
    gathered g = gather_axes(s, "softmax_axes", x, axes, n_axes, false);
    if (!mica_valid(g.x)) return mc_invalid(s);
    for (int k = 0; k < ndim; k++)
        back[g.order[k]] = k;
    mica_array y = mica_reshape(s, mica_softmax(s, g.x, -1), g.shape, ndim);
    return mica_transpose(s, y, back);
}

/* ---- median ---- */

mica_array mica_median(mica_scope *s, mica_array x, const int *axes, int n_axes, bool keepdims) {
    if (!mc_operands_ok(s, "median", &x, 1)) return mc_invalid(s);
    mica_dtype dtype = mc_inexact(mica_array_dtype(x));
    gathered g = gather_axes(s, "median", x, axes, n_axes, keepdims);
    if (!mica_valid(g.x)) return mc_invalid(s);
    int64_t n = mica_array_dim(g.x, -1);
    if (n == 0) return mc_scope_fail(s, MICA_EINVAL, "median: of no elements");
    mica_array sorted = mica_sort(s, mc_cast(s, g.x, dtype), -1);
    mica_array y = mc_cast(s,
                           mica_slice_axis(s, sorted, -1, mc_dim_div(mc_dim_sub(n, 1), 2),
                                           mc_dim_add(mc_dim_div(n, 2), 1)),
                           MICA_F32);
    const int last = -1;
    y = mica_mean(s, y, &last, 1, true);
    mica_array end = mica_slice_axis(s, sorted, -1, mc_dim_sub(n, 1), n); /* NaN, if there is one */
    y = mica_where(s, mica_isnan(s, end), mc_cast(s, end, MICA_F32), y);
    return mica_reshape(s, mc_cast(s, y, dtype), g.kept, g.n_kept);
}

/* ---- searchsorted ---- */

/* a < b, where NaN is above all numbers. */
static mica_array below(mica_scope *s, mica_array a, mica_array b) {
    mica_array less = mica_less(s, a, b);
    if (!mica_dtype_is_float(mica_array_dtype(a))) return less;
    mica_array above = mica_logical_and(s, mica_isnan(s, b), mica_logical_not(s, mica_isnan(s, a)));
    return mica_logical_or(s, less, above);
}

/* Halves the range of all values at once: a step for each bit of the length. */
mica_array mica_searchsorted(mica_scope *s, mica_array x, mica_array values, bool right) {
    mica_array in[2] = {x, values};
    if (!mc_operands_ok(s, "searchsorted", in, 2)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    char text[MC_LAYOUT_TEXT];
    if (l->ndim == 1 && mc_dim_has_symbols(l->shape[0]))
        return mc_need_number(s, "searchsorted", l->shape[0]);
    if (l->ndim != 1 || l->shape[0] > UINT32_MAX)
        return mc_scope_fail(s, MICA_ESHAPE, "searchsorted: in %s; give one axis",
                             mc_layout_text(l, text));
    int64_t n = l->shape[0], shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(values);
    memcpy(shape, mica_array_shape(values), (size_t)ndim * sizeof *shape);
    mica_dtype dtype = mica_dtype_promote(l->dtype, mica_array_dtype(values));
    if (dtype == MICA_BOOL) dtype = MICA_U8;
    x = mc_cast(s, x, dtype);
    values = mc_cast(s, values, dtype);
    mica_array found = mica_zeros(s, shape, ndim, MICA_I64),
               all = mica_scalar(s, (double)n, MICA_I64);
    int64_t step = 1;
    while (step <= n / 2)
        step *= 2;
    for (; n > 0 && step > 0; step /= 2) { /* found elements are below, or not above, the value */
        mica_array next = mica_add(s, found, mica_scalar(s, (double)step, MICA_I64));
        mica_array last = mica_subtract(s, mica_minimum(s, next, all), mica_scalar(s, 1, MICA_I64));
        mica_array element = mica_take(s, x, last, 0);
        mica_array goes =
            right ? mica_logical_not(s, below(s, values, element)) : below(s, element, values);
        goes = mica_logical_and(s, goes, mica_less_equal(s, next, all));
        found = mica_where(s, goes, next, found);
    }
    return mica_astype(s, found, MICA_U32);
}
