/* Rotary position embedding. */
#include <mica/ops.h>

#include <math.h>

#include "base/options.h"
#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/work.h"

/* x [..., L, D], offset i32 [] or [B], freqs [dims / 2] or absent */
static mica_status rope_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)n_in;
    const mc_attr_rope *a = attr;
    const mc_layout *x = in[0], *offset = in[1], *freqs = in[2];
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(x->dtype))
        return mc_fail(MICA_EDTYPE, "rope: %s is not a float", mc_layout_text(x, text));
    if (x->ndim < 2)
        return mc_fail(MICA_ESHAPE, "rope: %s: the last two axes are positions and elements",
                       mc_layout_text(x, text));
    if (a->dims < 2 || mc_dim_has_symbols(a->dims) || a->dims % 2 != 0 ||
        mc_dim_less(x->shape[x->ndim - 1], a->dims))
        return mc_fail(MICA_EINVAL,
                       "rope: %lld elements of %s: must be even, and at most its last "
                       "axis",
                       (long long)a->dims, mc_layout_text(x, text));
    if (offset->dtype != MICA_I32)
        return mc_fail(MICA_EDTYPE, "rope: offset is %s, not i32", mc_layout_text(offset, text));
    if (offset->ndim > 1 || (offset->ndim == 1 && offset->shape[0] != x->shape[0]))
        return mc_fail(MICA_ESHAPE, "rope: offset is %s: one number, or one for each row of axis 0",
                       mc_layout_text(offset, text));
    if (freqs && (freqs->dtype != MICA_F32 || freqs->ndim != 1 || freqs->shape[0] != a->dims / 2))
        return mc_fail(MICA_ESHAPE, "rope: freqs is %s, not f32[%lld]", mc_layout_text(freqs, text),
                       (long long)(a->dims / 2));
    if (!(a->base > 0)) return mc_fail(MICA_EINVAL, "rope: base %g is not above 0", a->base);
    *out = *x;
    return MICA_OK;
}

/* The angles [L, dims / 2], or [B, 1.., L, dims / 2], in f32: accurate to about 2^-24 of the
 * position. */
static mica_array angles(mica_scope *s, const mc_attr_rope *a, const mica_array *in) {
    int ndim = mica_array_ndim(in[0]);
    int64_t len = mica_array_dim(in[0], -2), half = a->dims / 2;
    int64_t column[2] = {len, 1};
    mica_array position = mica_arange(s, 0, (double)len, 1, MICA_F32);
    position = mica_reshape(s, position, column, 2);
    mica_array offset = mc_cast(s, in[1], MICA_F32);
    if (mica_array_ndim(offset) == 1) {
        int64_t shape[MICA_MAX_NDIM] = {mica_array_dim(offset, 0)};
        for (int i = 1; i < ndim; i++)
            shape[i] = 1;
        offset = mica_reshape(s, offset, shape, ndim);
    }
    position = mica_add(s, position, offset);
    position = mica_multiply(s, position, mica_scalar(s, a->scale, MICA_F32));
    if (mica_valid(in[2])) return mica_divide(s, position, in[2]);
    mica_array exponent = mica_arange(s, 0, (double)half, 1, MICA_F32);
    double step = -log(a->base) / (double)half;
    mica_array rate = mica_exp(s, mica_multiply(s, exponent, mica_scalar(s, step, MICA_F32)));
    return mica_multiply(s, position, rate);
}

/* Splits the pairs of x [..., L, dims] into first and second elements, each [..., L, dims / 2]. */
static void take_pairs(mica_scope *s, mica_array x, bool traditional, int64_t half,
                       mica_array pair[2]) {
    if (!traditional) {
        pair[0] = mica_slice_axis(s, x, -1, 0, half);
        pair[1] = mica_slice_axis(s, x, -1, half, 2 * half);
        return;
    }
    int64_t split[2] = {half, 2};
    mica_array pairs = mica_unflatten(s, x, -1, split, 2);
    for (int i = 0; i < 2; i++)
        pair[i] = mica_squeeze(s, mica_slice_axis(s, pairs, -1, i, i + 1), -1);
}

static void rope_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                           mica_array *out) {
    (void)n_in;
    const mc_attr_rope *a = attr;
    int64_t width = mica_array_dim(in[0], -1);
    mica_array angle = angles(s, a, in);
    mica_array c = mica_cos(s, angle), d = mica_sin(s, angle);
    mica_array x = mc_cast(s, mica_slice_axis(s, in[0], -1, 0, a->dims), MICA_F32);
    mica_array pair[2];
    take_pairs(s, x, a->traditional != 0, a->dims / 2, pair);
    mica_array rotated[2] = {
        mica_subtract(s, mica_multiply(s, pair[0], c), mica_multiply(s, pair[1], d)),
        mica_add(s, mica_multiply(s, pair[0], d), mica_multiply(s, pair[1], c)),
    };
    mica_array y;
    if (a->traditional != 0)
        y = mica_flatten(s, mica_stack(s, rotated, 2, -1), -2, -1);
    else
        y = mica_concatenate(s, rotated, 2, -1);
    y = mc_cast(s, y, mica_array_dtype(in[0]));
    if (a->dims == width) {
        *out = y;
        return;
    }
    mica_array parts[2] = {y, mica_slice_axis(s, in[0], -1, a->dims, width)};
    *out = mica_concatenate(s, parts, 2, -1);
}

MC_OP(rope, 2, 3, MC_ATTR(rope), .infer = rope_infer, .decompose = rope_decompose,
      .work = mc_work_function, .in_place = 1);

/* The rotation of t by the node's angles, or back. */
static mica_array rotate(const mc_gradient_node *n, mica_array t, double sign) {
    mc_attr_rope attr = *(const mc_attr_rope *)n->attr;
    attr.scale *= sign;
    const mica_array in[3] = {t, n->in[1], n->in[2]};
    return mc_record(n->s, MC_OP_ROPE, &attr, in, 3);
}

static bool rope_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    if (n->wanted[2]) return false; /* the frequencies */
    dx[0] = rotate(n, *dy, -1);
    return true;
}

static bool rope_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    if (dx[2].scope) return false;
    *dy = rotate(n, dx[0], 1);
    return true;
}
MC_GRADIENT(rope, rope_vjp, rope_jvp);

mica_array mica_rope(mica_scope *s, mica_array x, mica_array offset, mica_array freqs,
                     const mica_rope_options *options) {
    mica_array in[3] = {x, offset, freqs};
    if (!mc_operands_ok(s, "rope", in, 2)) return mc_invalid(s);
    mica_rope_options o;
    mica_status status = MC_OPTIONS_COPY(mica_rope_options, scale, &o, options);
    if (status != MICA_OK) return mc_scope_fail(s, status, "%s", mica_last_error());
    int64_t width = mica_array_dim(x, -1);
    if (o.dims == 0 && mc_dim_has_symbols(width))
        return mc_need_number(s, "rope without dims", width);
    mc_attr_rope attr = {
        .dims = o.dims != 0 ? o.dims : mica_array_dim(x, -1),
        .traditional = o.traditional,
        .base = o.base != 0 ? (double)o.base : 10000.0,
        .scale = o.scale != 0 ? (double)o.scale : 1.0,
    };
    return mc_record(s, MC_OP_ROPE, &attr, in, 3);
}
