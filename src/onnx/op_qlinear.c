/* onnxruntime's operators of quantised values: what the operator of floats gives of dequantised
 * operands, quantised; and products of weights in blocks of few bits. */
#include "onnx/import.h"

#include "graph/dim.h"
#include "op/quant.h"

#include <mica/ops.h>

enum { MAX_OPERANDS = 64 };

/* A scale or zero point of one element as a number, which may be none. */
static mica_array number_of(mc_onnx_node *n, size_t i) {
    mica_array x = mc_onnx_x(n, i);
    if (!x.scope) return x;
    x = mica_astype(n->s, x, MICA_F32);
    return mica_array_size(x) == 1 ? mica_reshape(n->s, x, NULL, 0) : x;
}

/* Operand i, whose scale and zero point follow, as f32. */
static mc_onnx_value floats_of(mc_onnx_node *n, size_t i) {
    mica_array scale = number_of(n, i + 1), zero = number_of(n, i + 2);
    mc_onnx_value v = {.x = mc_onnx_dequantised(n, mc_onnx_x(n, i), scale, zero)};
    if (n->in[i].last.scope) v.last = mc_onnx_dequantised(n, n->in[i].last, scale, zero);
    return v;
}

static mica_status give_rounded(mc_onnx_node *n, const mc_onnx_value *y, size_t scale) {
    mica_array by = number_of(n, scale), zero = number_of(n, scale + 1);
    mica_dtype dtype =
        mc_onnx_has(n, scale + 1) ? mica_array_dtype(mc_onnx_x(n, scale + 1)) : MICA_U8;
    if (dtype != MICA_U8 && dtype != MICA_I8) return mc_onnx_refuse("quantising to this dtype");
    if (y->last.scope)
        return mc_onnx_give_last(n, 0, mc_onnx_quantised(n, y->last, by, zero, dtype));
    return mc_onnx_give(n, 0, mc_onnx_quantised(n, y->x, by, zero, dtype));
}

/* f over operands in[0, count), with the attributes of the node; its result is quantised by
 * operands `scale` and the next one. */
static mica_status through(mc_onnx_node *n, mc_onnx_build f, mc_onnx_value *in, size_t count,
                           size_t scale) {
    mc_onnx_value y = {.known = false};
    mc_onnx_node inner = *n;
    inner.in = in;
    inner.n_in = count;
    inner.out = &y;
    inner.n_out = 1;
    MC_TRY(f(&inner));
    return give_rounded(n, &y, scale);
}

/* Operands: x, its scale and zero point, those of the result. */
static mica_status unary(mc_onnx_node *n, mc_onnx_build f) {
    mc_onnx_value x = floats_of(n, 0);
    return through(n, f, &x, 1, 3);
}

static mica_status binary(mc_onnx_node *n, mc_onnx_build f) {
    mc_onnx_value in[] = {floats_of(n, 0), floats_of(n, 3)};
    return through(n, f, in, 2, 6);
}

mica_status mc_onnx_qlinear_add(mc_onnx_node *n) {
    return binary(n, mc_onnx_add);
}
mica_status mc_onnx_qlinear_mul(mc_onnx_node *n) {
    return binary(n, mc_onnx_mul);
}
mica_status mc_onnx_qlinear_sigmoid(mc_onnx_node *n) {
    return unary(n, mc_onnx_sigmoid);
}
mica_status mc_onnx_qlinear_leaky_relu(mc_onnx_node *n) {
    return unary(n, mc_onnx_leaky_relu);
}
mica_status mc_onnx_qlinear_softmax(mc_onnx_node *n) {
    mc_onnx_value x = floats_of(n, 0);
    int axis, ndim = mica_array_ndim(x.x);
    bool matrix = mc_onnx_int(n, "opset", 13) < 13;
    MC_TRY(mc_onnx_axis(n, matrix ? 1 : -1, ndim, &axis));
    if (matrix && axis != ndim - 1) return mc_onnx_refuse("this axis");
    mc_onnx_value y = {.x = mica_softmax(n->s, x.x, axis)};
    return give_rounded(n, &y, 3);
}
mica_status mc_onnx_qlinear_average_pool(mc_onnx_node *n) {
    if (mc_onnx_int(n, "channels_last", 0)) return mc_onnx_refuse("this layout");
    return unary(n, mc_onnx_average_pool);
}
mica_status mc_onnx_qlinear_global_average_pool(mc_onnx_node *n) {
    if (mc_onnx_int(n, "channels_last", 0)) return mc_onnx_refuse("this layout");
    return unary(n, mc_onnx_global_average_pool);
}

/* Operand i, whose scale and zero point follow, by the steps that operands 0 and 1 are. */
static mica_status integers_of(mc_onnx_node *n, size_t i, mc_onnx_value *v) {
    const mc_onnx_value *y = n->in;
    mica_dtype dtype = mc_onnx_has(n, 1) ? mica_array_dtype(mc_onnx_x(n, 1)) : MICA_U8;
    bool known = n->in[i + 1].known && (!mc_onnx_has(n, i + 2) || n->in[i + 2].known) &&
                 y[0].known && (!mc_onnx_has(n, 1) || y[1].known);
    mc_onnx_value x = floats_of(n, i);
    const mc_onnx_steps t = {.q = n->in[i].x,
                             .scale = n->in[i + 1].x,
                             .zero = mc_onnx_x(n, i + 2),
                             .axis = -1,
                             .bits = 8};
    if (dtype != MICA_U8 && dtype != MICA_I8) return mc_onnx_refuse("quantising to this dtype");
    if (known && mc_onnx_has_steps(n->import, &t, y[0].x, mc_onnx_x(n, 1), dtype)) {
        *v = (mc_onnx_value){.x = n->in[i].x, .last = n->in[i].last};
        return MICA_OK;
    }
    mica_array by = number_of(n, 0), zero = number_of(n, 1);
    *v = (mc_onnx_value){.x = mc_onnx_quantised(n, x.x, by, zero, dtype)};
    if (x.last.scope) v->last = mc_onnx_quantised(n, x.last, by, zero, dtype);
    return MICA_OK;
}

/* The result's scale and zero point, then operands with theirs: of other steps alone floats. */
mica_status mc_onnx_qlinear_concat(mc_onnx_node *n) {
    mc_onnx_value in[MAX_OPERANDS];
    size_t count = (n->n_in - 2) / 3;
    if (count > MAX_OPERANDS || n->n_in != 3 * count + 2) return mc_onnx_refuse("so many operands");
    for (size_t i = 0; i < count; i++) {
        if (!mc_onnx_has(n, 3 * i + 2) || !mc_onnx_has(n, 3 * i + 3))
            return mc_fail(MICA_EFORMAT, "an operand is absent");
        MC_TRY(integers_of(n, 3 * i + 2, &in[i]));
    }
    mc_onnx_node inner = *n;
    inner.in = in;
    inner.n_in = count;
    return mc_onnx_concat(&inner);
}

/* condition; operands with their scales and zero points */
mica_status mc_onnx_qlinear_where(mc_onnx_node *n) {
    mc_onnx_value in[] = {n->in[0], floats_of(n, 1), floats_of(n, 4)};
    return through(n, mc_onnx_where, in, 3, 7);
}

/* ---- weights in blocks of few bits ---- */

/* Numbers of `bits` each in bytes, [.., bytes], as f32 [.., count]. */
static mica_array unpacked(mica_scope *s, mica_array x, int bits, int64_t count) {
    mica_array parts[4];
    int each = 8 / bits;
    mica_array mask = mica_scalar(s, (double)((1 << bits) - 1), MICA_U8);
    for (int i = 0; i < each; i++) {
        mica_array by = mica_scalar(s, i * bits, MICA_U8);
        parts[i] = mica_bitwise_and(s, mica_right_shift(s, x, by), mask);
    }
    int64_t shape[] = {mica_array_dim(x, 0), mica_array_dim(x, 1) * each};
    mica_array all = mica_reshape(s, mica_stack(s, parts, each, -1), shape, 2);
    return mica_astype(s, mica_slice_axis(s, all, 1, 0, count), MICA_F32);
}

/* What MatMulNBits' attributes say. The last block of a row may be longer than what is left. */
typedef struct blocks {
    int64_t K, N, block, count;
    int bits;
} blocks;

static mica_status read_blocks(const mc_onnx_node *n, blocks *b) {
    b->K = mc_onnx_int(n, "K", 0);
    b->N = mc_onnx_int(n, "N", 0);
    b->block = mc_onnx_int(n, "block_size", 0);
    b->bits = (int)mc_onnx_int(n, "bits", 4);
    if (b->K < 1 || b->N < 1 || b->K > INT32_MAX || b->N > INT32_MAX)
        return mc_fail(MICA_EFORMAT, "K or N is out of range");
    if (b->bits != 2 && b->bits != 4 && b->bits != 8) return mc_onnx_refuse("so many bits");
    if (b->block != 16 && b->block != 32 && b->block != 64 && b->block != 128 && b->block != 256)
        return mc_onnx_refuse("blocks of this size");
    b->count = (b->K + b->block - 1) / b->block;
    mica_array w = n->in[1].x, scales = n->in[2].x;
    if (mica_array_dtype(w) != MICA_U8 ||
        mica_array_size(w) != b->N * (b->count * b->block * b->bits / 8) ||
        mica_array_size(scales) != b->N * b->count)
        return mc_fail(MICA_ESHAPE, "its weights do not fit K and N");
    return MICA_OK;
}

/* -scale times the zero point: [N, count] f32 */
static mica_status biases_of(mc_onnx_node *n, mica_scope *s, const blocks *b, mica_array scales,
                             mica_array *biases) {
    mica_array zero = mc_onnx_x(n, 3);
    if (!zero.scope) {
        zero = mica_scalar(s, 1 << (b->bits - 1), MICA_F32);
    } else if (mica_array_dtype(zero) == MICA_U8) {
        int64_t bytes = (b->count * b->bits + 7) / 8;
        if (mica_array_size(zero) != b->N * bytes)
            return mc_fail(MICA_ESHAPE, "its zero points do not fit");
        zero = unpacked(s, mica_reshape(s, zero, (int64_t[]){b->N, bytes}, 2), b->bits, b->count);
    } else {
        zero = mica_reshape(s, mica_astype(s, zero, MICA_F32), (int64_t[]){b->N, b->count}, 2);
    }
    *biases = mica_negative(s, mica_multiply(s, scales, zero));
    return mica_scope_status(s);
}

/* The product where mica's weights have no such blocks: of 16, or that columns name (g_idx). */
static mica_status product_of_floats(mc_onnx_node *n, const blocks *b, mica_array codes,
                                     mica_array scales, mica_array biases, mica_array *y) {
    mica_scope *s = codes.scope;
    mica_array bytes = mica_view(s, codes, MICA_U8), x = n->in[0].x;
    mica_array w = unpacked(s, bytes, b->bits, b->K), group = mc_onnx_x(n, 4);
    if (!group.scope) {
        group = mica_arange(s, 0, (double)b->K, 1, MICA_I32);
        group = mica_floor_divide(s, group, mica_scalar(s, (double)b->block, MICA_I32));
    }
    w = mica_multiply(s, w, mica_take(s, scales, group, 1));
    w = mica_transpose(s, mica_add(s, w, mica_take(s, biases, group, 1)), NULL);
    if (s != n->s) {
        w = mica_contiguous(s, w);
        MC_TRY(mica_eval(s, w));
        MC_TRY(mc_onnx_hold(n->import, w));
    }
    *y = mica_matmul(n->s, mica_astype(n->s, x, MICA_F32), w);
    return mica_scope_status(n->s);
}

/* The weights are read as they lie: rows of codes, the low bits first, as mica has them. */
mica_status mc_onnx_matmul_n_bits(mc_onnx_node *n) {
    blocks b = {.bits = 4};
    MC_TRY(read_blocks(n, &b));
    bool known = n->in[1].known && n->in[2].known;
    for (size_t i = 3; i < 5; i++)
        known = known && (!mc_onnx_has(n, i) || n->in[i].known);
    mica_scope *s = known ? n->import->constants : n->s;
    mica_array x = n->in[0].x, biases;
    mica_dtype dtype = mica_array_dtype(x);
    int64_t width = b.count * b.block;
    mica_array codes = mica_reshape(s, n->in[1].x, (int64_t[]){b.N, width * b.bits / 8}, 2);
    codes = mica_view(s, codes, MICA_U32);
    mica_array scales = mica_astype(s, n->in[2].x, MICA_F32);
    scales = mica_reshape(s, scales, (int64_t[]){b.N, b.count}, 2);
    MC_TRY(biases_of(n, s, &b, scales, &biases));
    bool plain = b.block != 16 && !mc_onnx_has(n, 4);
    int group = (int)b.block;
    if (group == 256) { /* two groups of one scale */
        group = 128;
        scales = mica_repeat(s, scales, 2, 1);
        biases = mica_repeat(s, biases, 2, 1);
    }
    mica_array *const made[] = {&codes, &scales, &biases};
    for (int i = 0; known && i < 3; i++) {
        *made[i] = mica_contiguous(s, *made[i]);
        MC_TRY(mica_eval(s, *made[i]));
        MC_TRY(mc_onnx_hold(n->import, *made[i]));
    }
    const mica_quant quant = {MICA_QUANT_AFFINE, b.bits, group};
    bool fast = mc_onnx_int(n, "accuracy_level", 0) == 4; /* activations of 8 bits */
    int64_t pads[MICA_MAX_NDIM] = {0}, more[MICA_MAX_NDIM] = {0};
    more[mica_array_ndim(x) - 1] = plain ? width - b.K : 0;
    if (width > b.K && plain) x = mica_pad(n->s, x, pads, more, mica_scalar(n->s, 0, dtype));
    mica_array y;
    if (plain)
        y = mc_quantized_matmul(n->s, x, codes, scales, biases, quant, fast);
    else
        MC_TRY(product_of_floats(n, &b, codes, scales, biases, &y));
    if (mc_onnx_has(n, 5)) y = mica_add(n->s, y, n->in[5].x);
    return mc_onnx_give(n, 0, mica_astype(n->s, y, dtype));
}

/* Rows of a table in blocks of few bits: table [V, bytes], indices, scales, zero points. */
mica_status mc_onnx_gather_block_quantized(mc_onnx_node *n) {
    mica_array table = n->in[0].x, at = n->in[1].x, scales = n->in[2].x, zero = mc_onnx_x(n, 3);
    int64_t bits = mc_onnx_int(n, "bits", 4), block = mc_onnx_int(n, "block_size", 128);
    mica_scope *s = n->s;
    if (mica_array_dtype(table) != MICA_U8 || mica_array_ndim(table) != 2 ||
        mica_array_ndim(scales) != 2 || (bits != 4 && bits != 8) || block < 16 ||
        block > INT32_MAX || mc_onnx_int(n, "gather_axis", 0) != 0 ||
        (mc_onnx_int(n, "quantize_axis", 1) != 1 && mc_onnx_int(n, "quantize_axis", 1) != -1))
        return mc_onnx_refuse("tables of this kind");
    int64_t width = mica_array_dim(table, 1) * 8 / bits, count = mica_array_dim(scales, 1);
    if (count != (width + block - 1) / block ||
        mica_array_dim(scales, 0) != mica_array_dim(table, 0))
        return mc_fail(MICA_ESHAPE, "its scales do not fit");
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(at);
    for (int k = 0; k < ndim; k++)
        shape[k] = mica_array_dim(at, k);
    shape[ndim] = width;
    at = mica_reshape(s, at, (int64_t[]){-1}, 1);
    mica_array rows = unpacked(s, mica_take(s, table, at, 0), (int)bits, width);
    if (zero.scope)
        zero = unpacked(s, mica_take(s, zero, at, 0), (int)bits, count);
    else
        zero = mica_scalar(s, 1 << (bits - 1), MICA_F32);
    mica_array by = mica_astype(s, mica_take(s, scales, at, 0), MICA_F32);
    mica_array moved =
        mica_slice_axis(s, mica_repeat(s, mica_multiply(s, by, zero), block, 1), 1, 0, width);
    by = mica_slice_axis(s, mica_repeat(s, by, block, 1), 1, 0, width);
    mica_array y = mica_subtract(s, mica_multiply(s, rows, by), moved);
    y = mica_astype(s, y, mica_array_dtype(scales));
    return mc_onnx_give(n, 0, mica_reshape(s, y, shape, ndim + 1));
}
