/* Products by known weights of 2, 4 and 8 bits that were dequantised: they stay codes, in groups
 * along the rows with a scale and a bias each, as mica's kernels read them. What a product does not
 * read so is dequantised at each run. */
#include "onnx/import.h"

#include "op/quant.h"

#include <mica/ops.h>

/* How weights become rows of codes. */
typedef struct layout {
    const mc_onnx_steps *from;
    bool rows; /* they are [N, K], not [K, N] */
    int64_t N, K;
    int64_t width; /* K, and what fills the last group */
    int64_t group;
    int bits;
} layout;

static bool is_known(const mc_onnx_node *n, mica_array x) {
    return !x.scope || x.scope == n->import->constants;
}

/* The layout of a product's weights. false: mica has none for it. */
static bool find_layout(const mc_onnx_node *n, bool w_rows, layout *l) {
    const mc_onnx_steps *w = n->in[1].steps;
    if (!w || mica_array_ndim(w->q) != 2 || w->q.scope != n->import->constants ||
        !is_known(n, w->scale) || !is_known(n, w->zero) ||
        !mica_dtype_is_float(mica_array_dtype(n->in[0].x)))
        return false;
    int k_axis = w_rows ? 1 : 0;
    bool along_k = w->axis == k_axis;
    if (w->axis >= 0 && along_k != (w->block > 0)) return false;
    *l = (layout){.from = w, .rows = w_rows, .bits = w->bits};
    l->K = mica_array_dim(w->q, k_axis);
    l->N = mica_array_dim(w->q, 1 - k_axis);
    if (l->N < 1 || l->K < 32) return false;
    l->group = 128;
    while (l->group > 32 && (w->block > 0 ? w->block % l->group != 0 : l->K < l->group))
        l->group /= 2;
    if (w->block > 0 && w->block % l->group != 0) return false;
    int64_t each = w->block > 0 ? w->block : l->group;
    l->width = (l->K + each - 1) / each * each;
    return true;
}

/* Codes from 0 on, as u32 [N, width * bits / 32]. */
static mica_array codes_of(mica_scope *s, const layout *l) {
    mica_array x = l->from->q;
    bool is_signed = mica_array_dtype(x) == MICA_I8;
    if (!l->rows) x = mica_transpose(s, x, NULL);
    x = mica_view(s, mica_contiguous(s, x), MICA_U8);
    int64_t before[2] = {0}, after[2] = {0, l->width - l->K}, each = 8 / l->bits;
    mica_array zero = mica_scalar(s, 0, MICA_U8),
               half = mica_scalar(s, 1 << (l->bits - 1), MICA_U8);
    if (is_signed) x = mica_add(s, x, half); /* beyond 255 it begins anew */
    if (l->width > l->K) x = mica_pad(s, x, before, after, zero);
    x = mica_reshape(s, x, (int64_t[]){l->N, l->width / each, each}, 3);
    mica_array y = mica_slice_axis(s, x, 2, 0, 1);
    for (int64_t i = 1; i < each; i++) {
        mica_array by = mica_scalar(s, (double)(i * l->bits), MICA_U8);
        mica_array part = mica_left_shift(s, mica_slice_axis(s, x, 2, i, i + 1), by);
        y = mica_bitwise_or(s, y, part);
    }
    y = mica_reshape(s, y, (int64_t[]){l->N, l->width / each}, 2);
    return mica_view(s, mica_contiguous(s, y), MICA_U32);
}

/* A scale or zero point of each group: f32 [N, groups]. */
static mica_array of_groups(mica_scope *s, const layout *l, mica_array x) {
    const int64_t shape[] = {l->N, l->width / l->group};
    x = mica_astype(s, x, MICA_F32);
    if (l->from->block > 0) {
        if (!l->rows) x = mica_transpose(s, x, NULL);
        return mica_repeat(s, x, l->from->block / l->group, 1);
    }
    if (l->from->axis >= 0) x = mica_expand_dims(s, x, 1);
    return mica_broadcast_to(s, x, shape, 2);
}

/* codes, scales and biases, evaluated. */
static mica_status pack(mc_onnx_node *n, const layout *l, mica_array made[3]) {
    mica_scope *s = n->import->constants;
    bool is_signed = mica_array_dtype(l->from->q) == MICA_I8;
    made[0] = codes_of(s, l);
    made[1] = of_groups(s, l, l->from->scale);
    mica_array zero = mica_scalar(s, is_signed ? 1 << (l->bits - 1) : 0, MICA_F32);
    if (l->from->zero.scope) zero = mica_add(s, of_groups(s, l, l->from->zero), zero);
    made[2] = mica_negative(s, mica_multiply(s, made[1], zero));
    for (int i = 0; i < 3; i++) {
        made[i] = mica_contiguous(s, made[i]);
        MC_TRY(mica_scope_status(s));
        MC_TRY(mc_onnx_charge(n->import, mica_array_bytes(made[i])));
        MC_TRY(mica_eval(s, made[i]));
        MC_TRY(mc_onnx_hold(n->import, made[i]));
    }
    return MICA_OK;
}

mica_status mc_onnx_packed_matmul(mc_onnx_node *n, bool w_rows, size_t bias, bool *done) {
    layout l;
    mica_array made[3], x = n->in[0].x;
    *done = find_layout(n, w_rows, &l);
    if (!*done) return MICA_OK;
    int ndim = mica_array_ndim(x);
    mica_dtype dtype = mica_array_dtype(x);
    if (ndim < 1 || mica_array_dim(x, -1) != l.K)
        return mc_fail(MICA_ESHAPE, "its operands do not fit");
    MC_TRY(pack(n, &l, made));
    int64_t before[MICA_MAX_NDIM] = {0}, after[MICA_MAX_NDIM] = {0};
    after[ndim - 1] = l.width - l.K;
    if (l.width > l.K) x = mica_pad(n->s, x, before, after, mica_scalar(n->s, 0, dtype));
    const mica_quant quant = {MICA_QUANT_AFFINE, l.bits, (int)l.group};
    mica_array y = mc_quantized_matmul(n->s, x, made[0], made[1], made[2], quant, false);
    y = mica_astype(n->s, y, dtype);
    if (bias > 0 && mc_onnx_has(n, bias)) y = mica_add(n->s, y, n->in[bias].x);
    return mc_onnx_give(n, 0, y);
}

/* Rows of a known table that was dequantised: they are taken first. Scales belong to rows, to
 * columns, or to blocks along a row. */
mica_status mc_onnx_packed_gather(mc_onnx_node *n, int axis, bool *done) {
    const mc_onnx_steps *t = n->in[0].steps;
    mica_scope *s = n->s;
    *done = t && axis == 0 && mica_array_ndim(t->q) == 2 && t->q.scope == n->import->constants &&
            (t->axis <= 0 || t->block > 0) && !(t->axis == 0 && t->block > 0);
    if (!*done) return MICA_OK;
    mica_array at = n->in[1].x, q = mica_take(s, t->q, at, 0), parts[] = {t->scale, t->zero};
    for (int i = 0; i < 2 && t->axis >= 0; i++) {
        if (!parts[i].scope) continue;
        parts[i] = mica_take(s, parts[i], at, 0);
        if (t->block == 0)
            parts[i] = mica_expand_dims(s, parts[i], -1);
        else
            parts[i] = mica_slice_axis(s, mica_repeat(s, parts[i], t->block, -1), -1, 0,
                                       mica_array_dim(t->q, 1));
    }
    mica_array y = mc_onnx_dequantised(n, q, parts[0], parts[1]);
    MC_TRY(mc_onnx_give(n, 0, mica_astype(s, y, mica_array_dtype(n->in[0].x))));
    mc_onnx_steps *taken = mc_arena_alloc(&n->import->arena, sizeof *taken);
    if (!taken) return mc_fail_nomem("a value");
    *taken = *t;
    taken->q = q;
    if (t->axis < 0 && t->block == 0) n->out[0].steps = taken;
    MC_TRY(mc_onnx_hold(n->import, t->scale));
    return mc_onnx_hold(n->import, t->zero);
}
