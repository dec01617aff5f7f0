#include "op/integer.h"

#include <mica/nn.h>

#include <string.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/window.h"
#include "op/work.h"

enum { X, W, ZERO, SUMS, SCALE, BIAS, OPERANDS };

/* Of a sum that is exact in f32: 255 * 128 * 512 < 2^24. */
enum { TERMS = 512 };

/* ---- shape rules ---- */

static mica_status fail_operand(const char *op, const char *what, const mc_layout *l) {
    char text[MC_LAYOUT_TEXT];
    return mc_fail(MICA_ESHAPE, "%s: %s %s does not fit", op, what, mc_layout_text(l, text));
}

/* w_lead: w's axes before those that are summed over. */
static mica_status check(const char *op, const mc_layout *const *in, int w_lead) {
    static const char *const names[] = {"x", "w", "zero point", "sums", "scale", "bias"};
    static const mica_dtype dtypes[] = {MICA_U8, MICA_I8, MICA_I32, MICA_I32, MICA_F32, MICA_F32};
    char text[MC_LAYOUT_TEXT];
    for (int i = 0; i < OPERANDS; i++)
        if (in[i] && in[i]->dtype != dtypes[i])
            return mc_fail(MICA_EDTYPE, "%s: %s %s is not %s", op, names[i],
                           mc_layout_text(in[i], text), mica_dtype_name(dtypes[i]));
    const mc_layout *zero = in[ZERO], *sums = in[SUMS], *scale = in[SCALE], *bias = in[BIAS];
    if (!zero != !sums || (bias && !scale))
        return mc_fail(MICA_EINVAL, "%s: a zero point needs sums, a bias a scale", op);
    int64_t n = in[W]->shape[w_lead - 1];
    if (zero && zero->ndim != 0) return fail_operand(op, names[ZERO], zero);
    if (sums &&
        (sums->ndim != w_lead || memcmp(sums->shape, in[W]->shape, (size_t)w_lead * sizeof n) != 0))
        return fail_operand(op, names[SUMS], sums);
    if (scale && scale->ndim != 0 && (scale->ndim != 1 || scale->shape[0] != n))
        return fail_operand(op, names[SCALE], scale);
    if (bias && (bias->ndim != 1 || bias->shape[0] != n))
        return fail_operand(op, names[BIAS], bias);
    return MICA_OK;
}

static mica_status integer_matmul_infer(const void *attr, const mc_layout *const *in, int n_in,
                                        mc_layout *out) {
    static const char *const op = "integer_matmul";
    (void)attr, (void)n_in;
    const mc_layout *x = in[X], *w = in[W];
    char text_x[MC_LAYOUT_TEXT], text_w[MC_LAYOUT_TEXT];
    bool fits = x->ndim >= 1 && w->ndim >= 2 && (w->ndim == 2 || w->ndim == x->ndim) &&
                x->shape[x->ndim - 1] == w->shape[w->ndim - 1];
    for (int k = 0; fits && w->ndim > 2 && k < w->ndim - 2; k++)
        fits = x->shape[k] == w->shape[k];
    if (!fits)
        return mc_fail(MICA_ESHAPE, "%s: x %s and w %s do not fit", op, mc_layout_text(x, text_x),
                       mc_layout_text(w, text_w));
    MC_TRY(check(op, in, w->ndim - 1));
    int64_t shape[MICA_MAX_NDIM];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = w->shape[w->ndim - 2];
    return mc_set_result(op, out, in[SCALE] ? MICA_F32 : MICA_I32, shape, x->ndim);
}

static mica_status integer_conv_infer(const void *attr, const mc_layout *const *in, int n_in,
                                      mc_layout *out) {
    static const char *const op = "integer_conv";
    (void)n_in;
    const mc_attr_conv *a = attr;
    const mc_layout *x = in[X], *w = in[W];
    char text_x[MC_LAYOUT_TEXT], text_w[MC_LAYOUT_TEXT];
    mc_layout_text(x, text_x);
    mc_layout_text(w, text_w);
    if (x->ndim != w->ndim || x->ndim < 3 || x->ndim > 2 + MICA_MAX_SPATIAL ||
        a->spatial != x->ndim - 2 || a->groups < 1 || a->flip != 0)
        return mc_fail(MICA_EINVAL, "%s: x %s and w %s, %lld groups, attributes for %lld axes", op,
                       text_x, text_w, (long long)a->groups, (long long)a->spatial);
    int64_t c = x->shape[x->ndim - 1];
    if (mc_dim_mod(c, a->groups) != 0 || mc_dim_mod(w->shape[0], a->groups) != 0 ||
        w->shape[w->ndim - 1] != mc_dim_div(c, a->groups))
        return mc_fail(MICA_ESHAPE, "%s: w %s does not fit x %s in %lld groups", op, text_w, text_x,
                       (long long)a->groups);
    MC_TRY(check(op, in, 1));
    mc_window windows[MICA_MAX_SPATIAL];
    mc_conv_windows(a, x, w, windows);
    int64_t shape[MICA_MAX_NDIM] = {x->shape[0]};
    for (int k = 0; k < a->spatial; k++) {
        MC_TRY(mc_window_check(op, &windows[k], 1 + k));
        if (windows[k].base != 1) return mc_fail(MICA_EINVAL, "%s: it has an input dilation", op);
        shape[1 + k] = mc_window_count(&windows[k]);
    }
    shape[x->ndim - 1] = w->shape[0];
    return mc_set_result(op, out, in[SCALE] ? MICA_F32 : MICA_I32, shape, x->ndim);
}

/* ---- as plainer ops ---- */

/* [.., M, K] by [.., N, K] of integers in f32: i32 [.., M, N]. */
static mica_array exact(mica_scope *s, const char *op, mica_array x, mica_array w) {
    int64_t k = mica_array_dim(x, -1);
    mica_array sum = MICA_NONE;
    if (mc_dim_has_symbols(k)) return mc_need_number(s, op, k);
    for (int64_t at = 0; at == 0 || at < k; at += TERMS) {
        int64_t end = at + TERMS < k ? at + TERMS : k;
        mica_array a = mica_slice_axis(s, x, -1, at, end), b = mica_slice_axis(s, w, -1, at, end);
        mica_array y = mica_astype(s, mica_matmul(s, a, mica_swapaxes(s, b, -1, -2)), MICA_I32);
        sum = sum.scope ? mica_add(s, sum, y) : y;
        if (!mica_valid(sum)) break;
    }
    return sum;
}

/* sum [.., N] with what follows it. */
static mica_array finish(mica_scope *s, mica_array sum, const mica_array *in) {
    if (!in[SCALE].scope) return sum;
    mica_array y = mica_multiply(s, mica_astype(s, sum, MICA_F32), in[SCALE]);
    return in[BIAS].scope ? mica_add(s, y, in[BIAS]) : y;
}

static void integer_matmul_decompose(mica_scope *s, const void *attr, const mica_array *in,
                                     int n_in, mica_array *out) {
    (void)attr, (void)n_in;
    mica_array x = mica_astype(s, in[X], MICA_F32), w = mica_astype(s, in[W], MICA_F32);
    bool vector = mica_array_ndim(x) == 1;
    if (vector) x = mica_expand_dims(s, x, 0);
    mica_array sum = exact(s, "integer_matmul", x, w);
    if (vector) sum = mica_squeeze(s, sum, 0);
    if (in[ZERO].scope) {
        mica_array moved = mica_multiply(s, in[SUMS], in[ZERO]);
        if (mica_array_ndim(in[W]) > 2) moved = mica_expand_dims(s, moved, -2);
        sum = mica_subtract(s, sum, moved);
    }
    *out = finish(s, sum, in);
}

/* Windows of x - zero, copied, times w, for each group. */
static void integer_conv_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                   mica_array *out) {
    (void)n_in;
    const mc_attr_conv *a = attr;
    const mc_layout *l = mc_layout_of(in[X]), *w = mc_layout_of(in[W]);
    int spatial = (int)a->spatial;
    mc_window windows[MICA_MAX_SPATIAL];
    mc_conv_windows(a, l, w, windows);
    int64_t shape[MICA_MAX_NDIM] = {l->shape[0]}, places = l->shape[0], taps = 1;
    for (int k = 0; k < spatial; k++) {
        shape[1 + k] = mc_window_count(&windows[k]);
        places = mc_dim_mul(places, shape[1 + k]);
        taps = mc_dim_mul(taps, windows[k].size);
    }
    int64_t outs = w->shape[0], each = w->shape[w->ndim - 1], depth = mc_dim_mul(taps, each);
    shape[1 + spatial] = outs;
    mica_array sum;
    if (places == 0 || outs == 0 || depth == 0) {
        sum = mica_zeros(s, shape, 2 + spatial, MICA_I32);
    } else {
        mica_array x = mica_astype(s, in[X], MICA_F32);
        if (in[ZERO].scope) x = mica_subtract(s, x, mica_astype(s, in[ZERO], MICA_F32));
        x = mc_window_view(s, mc_window_pad(s, x, windows, spatial, 1, 0), windows, spatial, 1);
        const int64_t split[4] = {places, taps, a->groups, each};
        const int64_t flat[3] = {a->groups, places, depth};
        const int64_t rows[3] = {a->groups, mc_dim_div(outs, a->groups), depth};
        x = mica_transpose(s, mica_reshape(s, x, split, 4), (const int[]){2, 0, 1, 3});
        mica_array kernel = mica_reshape(s, mica_astype(s, in[W], MICA_F32), rows, 3);
        sum = exact(s, "integer_conv", mica_reshape(s, x, flat, 3), kernel);
        sum = mica_reshape(s, mica_swapaxes(s, sum, 0, 1), shape, 2 + spatial);
    }
    *out = finish(s, sum, in);
}

/* ---- descriptions ---- */

static MC_WORK_RULE(integer_matmul_work) {
    (void)attr, (void)n_in;
    const mc_layout *w = in[W];
    work->kind = MC_WORK_MATMUL;
    work->operations = 2 * (double)mc_layout_size(out) * (double)w->shape[w->ndim - 1];
}

static MC_WORK_RULE(integer_conv_work) {
    (void)attr, (void)n_in;
    const mc_layout *w = in[W];
    double filters = w->shape[0] > 0 ? (double)w->shape[0] : 1;
    work->kind = MC_WORK_CONV;
    work->operations = 2 * (double)mc_layout_size(out) * (double)mc_layout_size(w) / filters;
}

MC_OP(integer_matmul, 2, OPERANDS, .infer = integer_matmul_infer,
      .decompose = integer_matmul_decompose, .work = integer_matmul_work);

MC_OP(integer_conv, 2, OPERANDS, MC_ATTR(conv), .infer = integer_conv_infer,
      .decompose = integer_conv_decompose, .work = integer_conv_work);

/* ---- builders ---- */

static mica_array record(mica_scope *s, mc_op op, const void *attr, mica_array x, mica_array w,
                         const mc_integer_rest *r) {
    const mica_array in[OPERANDS] = {x, w, r->zero, r->sums, r->scale, r->bias};
    return mc_record(s, op, attr, in, OPERANDS);
}

mica_array mc_integer_matmul(mica_scope *s, mica_array x, mica_array w,
                             const mc_integer_rest *rest) {
    return record(s, MC_OP_INTEGER_MATMUL, NULL, x, w, rest);
}

mica_array mc_integer_conv(mica_scope *s, mica_array x, mica_array w, const mica_conv_options *o,
                           const mc_integer_rest *rest) {
    const mica_array in[2] = {x, w};
    if (!mc_operands_ok(s, "integer_conv", in, 2)) return mc_invalid(s);
    int spatial = mica_array_ndim(x) - 2;
    mc_attr_conv a = {.spatial = spatial, .groups = o->groups ? o->groups : 1};
    for (int k = 0; k < spatial && k < MICA_MAX_SPATIAL; k++) {
        a.stride[k] = o->stride[k] ? o->stride[k] : 1;
        a.padding_lo[k] = o->padding_lo[k];
        a.padding_hi[k] = o->padding_hi[k];
        a.kernel_dilation[k] = o->kernel_dilation[k] ? o->kernel_dilation[k] : 1;
        a.input_dilation[k] = 1;
    }
    return record(s, MC_OP_INTEGER_CONV, &a, x, w, rest);
}

MC_NO_GRADIENT(integer_matmul, "its operands are integers");
MC_NO_GRADIENT(integer_conv, "its operands are integers");
