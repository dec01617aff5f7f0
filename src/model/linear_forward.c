#include "graph/graph.h"
#include "model/linear.h"
#include "op/matmul.h"
#include "op/quant.h"

#include <mica/grad.h>

/* y [..., out] or [experts, T, out] times factors of its elements, [out] or [experts, out];
 * MICA_NONE: ones. */
static mica_array multiply_rows(mica_scope *s, const mc_linear *linear, mica_array y,
                                mica_array factors) {
    if (!mica_valid(factors)) return y;
    return mica_multiply(s, y, linear->experts ? mica_expand_dims(s, factors, 1) : factors);
}

/* Elements [.., in] in the order of a weight's columns, and back. */
static mica_array in_order(mica_scope *s, const mc_linear *linear, mica_array x) {
    return mica_valid(linear->order) ? mica_take(s, x, linear->order, -1) : x;
}

static mica_array out_of_order(mica_scope *s, const mc_linear *linear, mica_array x) {
    if (!mica_valid(linear->order)) return x;
    return mica_take(s, x, mica_argsort(s, linear->order, -1), -1);
}

/* The product with the weight alone, without bias and adapter. */
static mica_array apply_weight(mica_scope *s, const mc_linear *linear, mica_array x) {
    x = in_order(s, linear, x);
    if (!linear->quantised) return mc_matmul_rows(s, x, linear->weight, linear->fast != 0);
    mica_array y = mc_quantized_matmul(s, x, linear->weight, linear->scales, linear->biases,
                                       linear->quant, linear->fast);
    return multiply_rows(s, linear, y, linear->gains);
}

/* Dropout: each element is 0 with the probability p, else divided by 1 - p. */
static mica_array drop(mica_scope *s, const mc_linear *linear, mica_array x) {
    if (!mica_valid(linear->dropout_key)) return x;
    double keep = 1.0 - (double)linear->dropout;
    mica_array kept = mica_random_bernoulli(s, linear->dropout_key, mica_array_shape(x),
                                            mica_array_ndim(x), keep);
    mica_array factors = mica_where(s, kept, mica_f32(s, (float)(1.0 / keep)), mica_f32(s, 0.0f));
    return mica_multiply(s, x, factors);
}

/* y [T, k, out], and the bias of each place's expert. */
static mica_array add_picked_bias(mica_scope *s, const mc_linear *linear, mica_array y,
                                  mica_array picks) {
    if (!mica_valid(linear->bias)) return y;
    return mica_add(s, y, mica_take(s, linear->bias, picks, 0));
}

/* y [T, k, out], and what the adapters of each place's expert give for rows [T, 1 or k, 1, in]. */
static mica_array add_picked_factors(mica_scope *s, const mc_linear *linear, mica_array y,
                                     mica_array rows, mica_array picks) {
    if (!mica_valid(linear->lora_a)) return y;
    int64_t places = mica_array_dim(picks, 0), k = mica_array_dim(picks, 1);
    mica_array low =
        mc_gather_rows(s, drop(s, linear, rows), linear->lora_a, MICA_NONE, picks, false);
    low = mc_gather_rows(s, low, linear->lora_b, MICA_NONE, picks, false); /* [T, k, 1, out] */
    return mica_add(s, y, mica_reshape(s, low, (int64_t[]){places, k, linear->out}, 3));
}

mica_array mc_linear_pick(mica_scope *s, const mc_linear *linear, mica_array x, mica_array picks) {
    mica_array at = picks, rows = mica_expand_dims(s, x, 2), y; /* which k picks broadcast */
    if (mica_valid(linear->places)) at = mica_take(s, linear->places, picks, 0);
    if (linear->quantised)
        y = mc_gather_qmm(s, rows, linear->weight, linear->scales, linear->biases, linear->quant,
                          MICA_NONE, at, linear->fast);
    else
        y = mc_gather_rows(s, rows, linear->weight, MICA_NONE, at, linear->fast != 0);
    y = mica_squeeze(s, y, 2);
    if (mica_valid(linear->gains)) y = mica_multiply(s, y, mica_take(s, linear->gains, at, 0));
    y = add_picked_bias(s, linear, y, picks);
    return add_picked_factors(s, linear, y, rows, picks);
}

mica_array mc_linear_apply(mica_scope *s, const mc_linear *linear, mica_array x) {
    bool dora = mica_valid(linear->dora), bias = mica_valid(linear->bias);
    mica_array y = apply_weight(s, linear, x);
    if (bias && !dora) y = mica_add(s, y, linear->bias);
    if (!mica_valid(linear->lora_a)) return y;
    mica_array low = mica_matmul(s, drop(s, linear, x), linear->lora_a); /* [..., rank] */
    y = mica_add(s, y, mica_matmul(s, low, linear->lora_b));
    if (dora) y = mica_multiply(s, y, linear->dora);
    return dora && bias ? mica_add(s, y, linear->bias) : y;
}

mica_array mc_linear_each(mica_scope *s, const mc_linear *linear, mica_array x) {
    mica_array y = apply_weight(s, linear, x);
    if (!mica_valid(linear->lora_a)) return y;
    mica_array low = mica_matmul(s, drop(s, linear, x), mica_swapaxes(s, linear->lora_a, 1, 2));
    y = mica_add(s, y, mica_matmul(s, low, mica_swapaxes(s, linear->lora_b, 1, 2)));
    return multiply_rows(s, linear, y, linear->dora);
}

mica_array mc_linear_each_back(mica_scope *s, const mc_linear *linear, mica_array x) {
    x = multiply_rows(s, linear, x, linear->dora);
    mica_array w = multiply_rows(s, linear, x, linear->gains);
    mica_array y = linear->quantised ? mica_quantized_matmul(s, w, linear->weight, linear->scales,
                                                             linear->biases, linear->quant, false)
                                     : mica_matmul(s, w, linear->weight);
    y = out_of_order(s, linear, y);
    if (!mica_valid(linear->lora_a)) return y;
    mica_array more = mica_matmul(s, mica_matmul(s, x, linear->lora_b), linear->lora_a);
    return mica_add(s, y, drop(s, linear, more));
}

/* Rows [from, to) of each nth of x [rows, ...]: [n, to - from, ...]. */
static mica_array part_of(mica_scope *s, mica_array x, int64_t n, int64_t from, int64_t to) {
    if (!mica_valid(x)) return x;
    const int64_t shape[] = {n, mica_array_dim(x, 0) / n};
    return mica_slice_axis(s, mica_unflatten(s, x, 0, shape, 2), 1, from, to);
}

mc_linear mc_linear_part(mica_scope *s, const mc_linear *linear, int64_t n, int64_t from,
                         int64_t to) {
    mc_linear part = *linear;
    part.experts = n;
    part.out = to - from;
    part.weight = part_of(s, linear->weight, n, from, to);
    part.scales = part_of(s, linear->scales, n, from, to);
    part.biases = part_of(s, linear->biases, n, from, to);
    part.gains = part_of(s, linear->gains, n, from, to);
    if (!mica_valid(linear->lora_a)) return part;
    part.lora_a = mica_expand_dims(s, mica_transpose(s, linear->lora_a, NULL), 0);
    part.lora_b = part_of(s, mica_transpose(s, linear->lora_b, NULL), n, from, to);
    part.dora = part_of(s, linear->dora, n, from, to);
    return part;
}

mica_array mc_linear_row_squares(mica_scope *s, const mc_linear *linear) {
    mica_array w = linear->weight, scales = linear->scales, biases = linear->biases;
    if (linear->quantised && linear->quant.mode == MICA_QUANT_AFFINE) {
        scales = mica_astype(s, scales, MICA_F32); /* as weight_rows */
        biases = mica_astype(s, biases, MICA_F32);
    }
    if (linear->quantised) w = mica_dequantize(s, w, scales, biases, linear->quant, MICA_F32);
    w = mica_sum(s, mica_square(s, mica_astype(s, w, MICA_F32)), (int[]){1}, 1, false);
    return mica_valid(linear->gains) ? mica_multiply(s, w, mica_square(s, linear->gains)) : w;
}

mica_array mc_linear_dora(mica_scope *s, const mc_linear *linear, mica_array m,
                          mica_array squares) {
    mica_array a = mica_transpose(s, linear->lora_a, NULL), b = linear->lora_b;
    mica_array cross = mica_multiply(s, apply_weight(s, linear, a), mica_f32(s, 2.0f));
    mica_array square = mica_matmul(s, mica_matmul(s, a, linear->lora_a), b); /* [rank, out] */
    mica_array sum = mica_multiply(s, mica_add(s, cross, square), b);
    sum = mica_add(s, mica_sum(s, sum, (int[]){0}, 1, false), squares);
    return mica_divide(s, m, mica_stop_gradient(s, mica_sqrt(s, sum)));
}

static mica_array weight_rows(mica_scope *s, const mc_linear *linear, mica_array ids) {
    mica_array rows = mica_take(s, linear->weight, ids, 0);
    if (!linear->quantised) return mica_astype(s, rows, MICA_F32);
    mica_array scales = mica_take(s, linear->scales, ids, 0), biases = MICA_NONE;
    if (linear->quant.mode == MICA_QUANT_AFFINE) {
        /* Converted to f32 first, so that scale * code + bias is not rounded to the scales'
         * dtype. */
        scales = mica_astype(s, scales, MICA_F32);
        biases = mica_astype(s, mica_take(s, linear->biases, ids, 0), MICA_F32);
    }
    rows = mica_dequantize(s, rows, scales, biases, linear->quant, MICA_F32);
    rows = out_of_order(s, linear, rows);
    if (!mica_valid(linear->gains)) return rows;
    return mica_multiply(s, rows, mica_expand_dims(s, mica_take(s, linear->gains, ids, 0), -1));
}

mica_array mc_linear_rows(mica_scope *s, const mc_linear *linear, mica_array ids) {
    mica_array rows = weight_rows(s, linear, ids);
    if (!mica_valid(linear->lora_a)) return rows;
    mica_array low = mica_take(s, mica_transpose(s, linear->lora_b, NULL), ids, 0);
    return mica_add(s, rows, mica_matmul(s, low, mica_transpose(s, linear->lora_a, NULL)));
}
