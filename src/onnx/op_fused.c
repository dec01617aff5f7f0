/* onnxruntime's fused operators of floats (com.microsoft), and the rotary embedding of both
 * domains. Source: onnxruntime's ContribOperators.md. */
#include "onnx/import.h"

#include "graph/dim.h"

#include <mica/nn.h>
#include <mica/ops.h>

#include <math.h>

/* ---- activations ---- */

/* f of the operand, to which a bias may be added. */
static mica_status biased(mc_onnx_node *n, mc_onnx_unary f) {
    mica_array x = n->in[0].x;
    if (mc_onnx_has(n, 1)) x = mica_add(n->s, x, n->in[1].x);
    return mc_onnx_give(n, 0, f(n->s, x));
}

mica_status mc_onnx_bias_gelu(mc_onnx_node *n) {
    return biased(n, mica_gelu);
}
mica_status mc_onnx_fast_gelu(mc_onnx_node *n) {
    return biased(n, mica_gelu_approx);
}

mica_status mc_onnx_quick_gelu(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    mica_array alpha = mica_scalar(n->s, mc_onnx_real(n, "alpha", 1.702f), mica_array_dtype(x));
    mica_array gate = mica_sigmoid(n->s, mica_multiply(n->s, x, alpha));
    return mc_onnx_give(n, 0, mica_multiply(n->s, x, gate));
}

/* ---- products ---- */

mica_status mc_onnx_fused_matmul(mc_onnx_node *n) {
    mica_array a = n->in[0].x, b = n->in[1].x;
    double alpha = mc_onnx_real(n, "alpha", 1);
    if (mc_onnx_int(n, "transBatchA", 0) || mc_onnx_int(n, "transBatchB", 0))
        return mc_onnx_refuse("transposed batches");
    if (mc_onnx_int(n, "transA", 0) && mica_array_ndim(a) > 1) a = mica_swapaxes(n->s, a, -1, -2);
    if (mc_onnx_int(n, "transB", 0) && mica_array_ndim(b) > 1) b = mica_swapaxes(n->s, b, -1, -2);
    mica_array y = mica_matmul(n->s, a, b);
    if (alpha != 1) y = mica_multiply(n->s, y, mica_scalar(n->s, alpha, mica_array_dtype(y)));
    return mc_onnx_give(n, 0, y);
}

/* ---- norms of sums ---- */

/* x + skip + bias, normed; its sum is result 3. */
static mica_status skip_norm(mc_onnx_node *n, bool centred) {
    size_t bias = centred ? 4 : 3;
    mica_array x = mica_add(n->s, n->in[0].x, n->in[1].x);
    float eps = (float)mc_onnx_real(n, "epsilon", 1e-12f);
    if (mc_onnx_has(n, bias)) x = mica_add(n->s, x, n->in[bias].x);
    mica_array y = centred ? mica_layer_norm(n->s, x, n->in[2].x, mc_onnx_x(n, 3), eps)
                           : mica_rms_norm(n->s, x, n->in[2].x, eps);
    for (size_t i = 1; i < 3 && i < n->n_out; i++)
        if (*n->proto->output[i]) return mc_onnx_refuse("the moments of this norm");
    MC_TRY(mc_onnx_give(n, 3, x));
    return mc_onnx_give(n, 0, y);
}

mica_status mc_onnx_skip_layer_norm(mc_onnx_node *n) {
    return skip_norm(n, true);
}
mica_status mc_onnx_skip_rms_norm(mc_onnx_node *n) {
    return skip_norm(n, false);
}

/* Rows of a table, operand i, of bytes (and scales) where it has a scale, operand 8 + `table`. */
static mica_array embedded(mc_onnx_node *n, size_t i, int table, mica_array at) {
    mica_array x = mica_take(n->s, n->in[i].x, at, 0);
    if (table < 0) return x;
    mica_array scale = n->in[8 + table].x, zero = mc_onnx_x(n, 13 + (size_t)table);
    scale = mica_reshape(n->s, scale, NULL, 0);
    if (zero.scope) zero = mica_reshape(n->s, zero, NULL, 0);
    return mc_onnx_dequantised(n, x, scale, zero);
}

/* A sum of embeddings, normed; tables are operands 2 to 6, of bytes where `bytes`. */
static mica_status embed_layer_norm(mc_onnx_node *n, bool bytes, mica_array positions) {
    mica_array ids = n->in[0].x;
    MC_TRY(mc_onnx_need(n, 2, 3));
    MC_TRY(mc_onnx_need(n, 5, 6));
    if (mica_array_ndim(ids) != 2) return mc_fail(MICA_ESHAPE, "its ids are no matrix");
    if (!positions.scope)
        positions = mica_arange(n->s, 0, (double)mica_array_dim(ids, 1), 1, MICA_I32);
    mica_array x = embedded(n, 2, bytes ? 0 : -1, ids), weights[2];
    if (mc_onnx_has(n, 1) && mc_onnx_has(n, 4))
        x = mica_add(n->s, x, embedded(n, 4, bytes ? 2 : -1, n->in[1].x));
    x = mica_add(n->s, x, embedded(n, 3, bytes ? 1 : -1, positions));
    for (size_t i = 0; i < 2; i++) {
        mica_array zero = mc_onnx_x(n, 16 + i);
        weights[i] = n->in[5 + i].x;
        if (bytes) weights[i] = mc_onnx_dequantised(n, weights[i], n->in[11 + i].x, zero);
    }
    if (n->n_out > 1 && *n->proto->output[1]) {
        int64_t rows = mica_array_dim(ids, 0);
        mica_array index = mica_zeros(n->s, &rows, 1, MICA_I32);
        if (mc_onnx_has(n, 7)) {
            mica_array mask = mica_astype(n->s, n->in[7].x, MICA_I32);
            index = mica_sum(n->s, mask, (int[]){1}, 1, false);
        }
        MC_TRY(mc_onnx_give(n, 1, mica_astype(n->s, index, MICA_I32)));
    }
    MC_TRY(mc_onnx_give(n, 2, x));
    float eps = (float)mc_onnx_real(n, "epsilon", 1e-12f);
    return mc_onnx_give(n, 0, mica_layer_norm(n->s, x, weights[0], weights[1], eps));
}

/* ids, segments, words, positions, segment embeddings, gamma, beta, mask, position ids */
mica_status mc_onnx_embed_layer_norm(mc_onnx_node *n) {
    return embed_layer_norm(n, false, mc_onnx_x(n, 8));
}

/* The same up to the mask, of bytes; then their scales, and zero points. */
mica_status mc_onnx_qembed_layer_norm(mc_onnx_node *n) {
    MC_TRY(mc_onnx_need(n, 8, 9));
    MC_TRY(mc_onnx_need(n, mc_onnx_has(n, 4) ? 10 : 11, 12));
    return embed_layer_norm(n, true, MICA_NONE);
}

/* ---- attention ---- */

mica_status mc_onnx_split_heads(mc_onnx_node *n, mica_array x, int64_t heads, mica_array *y) {
    if (mica_array_ndim(x) != 3 || heads < 1 || mc_dim_mod(mica_array_dim(x, 2), heads) != 0)
        return mc_fail(MICA_ESHAPE, "an operand has no %lld heads", (long long)heads);
    const int64_t shape[] = {mica_array_dim(x, 0), mica_array_dim(x, 1), heads,
                             mc_dim_div(mica_array_dim(x, 2), heads)};
    *y = mica_swapaxes(n->s, mica_reshape(n->s, x, shape, 4), 1, 2);
    return mica_scope_status(n->s);
}

mica_array mc_onnx_join_heads(mc_onnx_node *n, mica_array x) {
    const int64_t shape[] = {mica_array_dim(x, 0), mica_array_dim(x, 2),
                             mc_dim_mul(mica_array_dim(x, 1), mica_array_dim(x, 3))};
    return mica_reshape(n->s, mica_swapaxes(n->s, x, 1, 2), shape, 3);
}

/* What says which keys of k [B, heads, keys, D] are seen, as bool [B, 1, 1 or L, keys]: lengths of
 * rows [B], or numbers that are not 0 where a key is [B, keys] or [B, L, keys]. */
static mica_status seen_keys(mc_onnx_node *n, mica_array mask, mica_array k, mica_array *seen) {
    int ndim = mica_array_ndim(mask);
    int64_t rows = mica_array_dim(k, 0), keys = mica_array_dim(k, 2), want[] = {rows, keys, keys};
    for (int i = 0; i < ndim && i < 3; i++)
        if (mica_array_dim(mask, i) == 1) want[i] = 1;
    if (ndim == 3) want[1] = mica_array_dim(mask, 1);
    mask = ndim <= 3 ? mc_onnx_fit(n->s, mask, want, ndim, -1) : mask;
    if (ndim == 1) {
        mica_array at = mica_arange(n->s, 0, (double)keys, 1, MICA_I32);
        mica_array lengths = mica_expand_dims(n->s, mica_astype(n->s, mask, MICA_I32), -1);
        mask = mica_less(n->s, at, lengths);
    } else if (ndim == 2 || ndim == 3) {
        mask = mica_not_equal(n->s, mask, mica_scalar(n->s, 0, mica_array_dtype(mask)));
    } else {
        return mc_onnx_refuse("a mask of this shape");
    }
    *seen = mica_expand_dims(n->s, mask, 1);
    if (ndim != 3) *seen = mica_expand_dims(n->s, *seen, 2);
    return mica_scope_status(n->s);
}

/* Keys that are not seen, and what is added to scores, as one mask. */
static mica_array mask_of(mc_onnx_node *n, mica_array seen, mica_array bias) {
    if (!seen.scope || !bias.scope) return seen.scope ? seen : bias;
    mica_array low = mica_scalar(n->s, -INFINITY, mica_array_dtype(bias));
    return mica_where(n->s, seen, bias, low);
}

typedef struct attention {
    mica_array q, k, v; /* [B, heads, L, D] */
    mica_array seen, bias;
    bool causal;
} attention;

static mica_status give_attention(mc_onnx_node *n, const attention *a) {
    mica_sdpa_options options = {.scale = (float)mc_onnx_real(n, "scale", 0),
                                 .causal = a->causal,
                                 .mask = mask_of(n, a->seen, a->bias)};
    mica_array y = mica_sdpa(n->s, a->q, a->k, a->v, &options);
    return mc_onnx_give(n, 0, mica_astype(n->s, mc_onnx_join_heads(n, y), mica_array_dtype(a->q)));
}

/* Attention of queries, keys and values side by side, y [B, L, q + k + v]; operands: a mask, the
 * past (0: none). */
static mica_status attend_packed(mc_onnx_node *n, mica_array y, size_t mask, size_t past,
                                 mica_array bias) {
    attention a = {.causal = mc_onnx_int(n, "unidirectional", 0) != 0, .bias = bias};
    int64_t heads = mc_onnx_int(n, "num_heads", 0), sizes[3], at[2];
    int count;
    mica_array parts[3];
    MC_TRY(mc_onnx_ints(n, "qkv_hidden_sizes", 3, sizes, &count));
    if (mc_onnx_int(n, "do_rotary", 0) || mc_onnx_int(n, "past_present_share_buffer", 0))
        return mc_onnx_refuse("attention's shared caches and rotary embedding");
    int64_t width = mica_array_dim(y, -1);
    if (count != 3) sizes[0] = sizes[1] = sizes[2] = mc_dim_div(width, 3);
    bool fits = sizes[0] == sizes[1];
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        fits = fits && sizes[i] >= 1 && mc_dim_add_to(&sum, sizes[i]);
        if (i < 2) at[i] = sum;
    }
    if (!fits || sum != width) return mc_fail(MICA_ESHAPE, "its weights do not fit");
    MC_TRY(mica_split(n->s, y, at, 2, -1, parts));
    mica_array *const to[] = {&a.q, &a.k, &a.v};
    for (int i = 0; i < 3; i++)
        MC_TRY(mc_onnx_split_heads(n, parts[i], heads, to[i]));
    if (mc_onnx_has(n, past)) { /* [2, B, heads, past, D] */
        for (int i = 1; i < 3; i++) {
            mica_array old =
                mica_squeeze(n->s, mica_slice_axis(n->s, n->in[past].x, 0, i - 1, i), 0);
            *to[i] = mica_concatenate(n->s, (mica_array[]){old, *to[i]}, 2, 2);
        }
    }
    if (n->n_out > 1 && *n->proto->output[1])
        MC_TRY(mc_onnx_give(n, 1, mica_stack(n->s, (mica_array[]){a.k, a.v}, 2, 0)));
    if (mc_onnx_has(n, mask)) MC_TRY(seen_keys(n, n->in[mask].x, a.k, &a.seen));
    return give_attention(n, &a);
}

/* x, weights [D, q + k + v], bias, mask, past, attention_bias */
mica_status mc_onnx_ms_attention(mc_onnx_node *n) {
    if (mc_onnx_has(n, 6)) return mc_onnx_refuse("attention's shared caches and rotary embedding");
    mica_array y = mica_matmul(n->s, n->in[0].x, n->in[1].x);
    if (mc_onnx_has(n, 2)) y = mica_add(n->s, y, n->in[2].x);
    return attend_packed(n, y, 3, 4, mc_onnx_x(n, 5));
}

/* x, weights, bias, x_scale, weight_scale, mask, x_zero, weight_zero, past */
mica_status mc_onnx_qattention(mc_onnx_node *n) {
    static const size_t from[] = {0, 1, 3, 4, 6, 7, 2}; /* those of MatMulIntegerToFloat */
    enum { OPERANDS = sizeof from / sizeof *from };
    mc_onnx_value in[OPERANDS], y = {.known = false};
    mc_onnx_node product = *n;
    for (size_t i = 0; i < OPERANDS; i++)
        in[i] = from[i] < n->n_in ? n->in[from[i]] : (mc_onnx_value){.x = MICA_NONE};
    product.in = in;
    product.n_in = OPERANDS;
    product.out = &y;
    product.n_out = 1;
    MC_TRY(mc_onnx_matmul_integer_to_float(&product));
    return attend_packed(n, y.x, 5, 8, MICA_NONE);
}

/* query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value */
mica_status mc_onnx_multi_head_attention(mc_onnx_node *n) {
    attention a = {.causal = mc_onnx_int(n, "unidirectional", 0) != 0, .bias = mc_onnx_x(n, 5)};
    int64_t heads = mc_onnx_int(n, "num_heads", 0);
    mica_array *const to[] = {&a.q, &a.k, &a.v};
    mica_array bias = mc_onnx_x(n, 3);
    int64_t from = 0;
    if (!mc_onnx_has(n, 1) || !mc_onnx_has(n, 2) || mica_array_ndim(n->in[0].x) != 3)
        return mc_onnx_refuse("queries, keys and values in one operand");
    for (int i = 0; i < 3; i++) {
        mica_array x = n->in[i].x;
        if (mica_array_ndim(x) == 4) { /* [B, heads, L, D], of a cache */
            *to[i] = x;
            continue;
        }
        if (bias.scope) {
            int64_t width = mica_array_dim(x, -1);
            x = mica_add(n->s, x, mica_slice_axis(n->s, bias, 0, from, from + width));
            from += width;
        }
        MC_TRY(mc_onnx_split_heads(n, x, heads, to[i]));
    }
    for (size_t i = 1; i < 3; i++) {
        if (mc_onnx_has(n, 5 + i))
            *to[i] = mica_concatenate(n->s, (mica_array[]){n->in[5 + i].x, *to[i]}, 2, 2);
        MC_TRY(mc_onnx_give(n, i, *to[i]));
    }
    if (mc_onnx_has(n, 4)) MC_TRY(seen_keys(n, n->in[4].x, a.k, &a.seen));
    return give_attention(n, &a);
}

/* ---- rotary embedding ---- */

/* x [B, heads, L, D] by cosines and sines [B or 1, 1, L, half] of its first 2 half elements. */
static mica_array rotated(mica_scope *s, mica_array x, mica_array cosines, mica_array sines,
                          bool interleaved) {
    int64_t half = mica_array_dim(cosines, -1), D = mica_array_dim(x, -1);
    mica_array rest = mica_slice_axis(s, x, -1, 2 * half, D), a, b;
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(x);
    for (int k = 0; k < ndim; k++)
        shape[k] = mica_array_dim(x, k);
    if (interleaved) {
        shape[ndim - 1] = half;
        shape[ndim] = 2;
        mica_array pairs = mica_reshape(s, mica_slice_axis(s, x, -1, 0, 2 * half), shape, ndim + 1);
        a = mica_squeeze(s, mica_slice_axis(s, pairs, -1, 0, 1), -1);
        b = mica_squeeze(s, mica_slice_axis(s, pairs, -1, 1, 2), -1);
    } else {
        a = mica_slice_axis(s, x, -1, 0, half);
        b = mica_slice_axis(s, x, -1, half, 2 * half);
    }
    mica_array u = mica_subtract(s, mica_multiply(s, a, cosines), mica_multiply(s, b, sines));
    mica_array v = mica_add(s, mica_multiply(s, a, sines), mica_multiply(s, b, cosines));
    shape[ndim - 1] = 2 * half;
    if (interleaved)
        u = mica_reshape(s, mica_stack(s, (mica_array[]){u, v}, 2, -1), shape, ndim);
    else
        u = mica_concatenate(s, (mica_array[]){u, v}, 2, -1);
    if (2 * half == D) return u;
    return mica_concatenate(s, (mica_array[]){u, rest}, 2, -1);
}

/* Rows of a table at positions, or its first ones: [B or 1, 1, L, half]. */
static mica_array rows_of(mica_scope *s, mica_array table, mica_array positions, int64_t length,
                          mica_dtype dtype) {
    table = mica_astype(s, table, dtype);
    if (!positions.scope && mica_array_ndim(table) == 2)
        table = mica_expand_dims(s, mica_slice_axis(s, table, 0, 0, length), 0);
    else if (positions.scope)
        table = mica_take(s, table, positions, 0);
    return mica_expand_dims(s, table, 1);
}

static mica_status give_rotated(mc_onnx_node *n, mica_array cosines, mica_array sines,
                                mica_array positions) {
    mica_array x = n->in[0].x, y;
    bool flat = mica_array_ndim(x) == 3;
    if (mc_dim_sign(mica_array_dim(cosines, -1)) < 1)
        return mc_fail(MICA_ESHAPE, "its cosines have no columns");
    int64_t dims = mc_onnx_int(n, "rotary_embedding_dim", 0),
            heads = mc_onnx_int(n, "num_heads", 0);
    if (flat && heads == 0)
        heads =
            mc_dim_div(mica_array_dim(x, -1), dims > 0 ? dims : 2 * mica_array_dim(cosines, -1));
    if (flat) MC_TRY(mc_onnx_split_heads(n, x, heads, &x));
    if (mica_array_ndim(x) != 4) return mc_fail(MICA_ESHAPE, "its operand has no heads");
    int64_t length = mica_array_dim(x, 2), half = mica_array_dim(cosines, -1);
    if (dims > 0 && dims / 2 < half) {
        cosines = mica_slice_axis(n->s, cosines, -1, 0, dims / 2);
        sines = mica_slice_axis(n->s, sines, -1, 0, dims / 2);
    }
    cosines = rows_of(n->s, cosines, positions, length, mica_array_dtype(x));
    sines = rows_of(n->s, sines, positions, length, mica_array_dtype(x));
    y = rotated(n->s, x, cosines, sines, mc_onnx_int(n, "interleaved", 0) != 0);
    return mc_onnx_give(n, 0, flat ? mc_onnx_join_heads(n, y) : y);
}

/* x, cosines, sines, positions */
mica_status mc_onnx_rotary_embedding(mc_onnx_node *n) {
    return give_rotated(n, n->in[1].x, n->in[2].x, mc_onnx_x(n, 3));
}

/* x, positions [B, L] or the first one [1], cosines, sines */
mica_status mc_onnx_ms_rotary_embedding(mc_onnx_node *n) {
    mica_array positions = n->in[1].x;
    if (mica_array_size(positions) == 1) {
        int64_t length = mica_array_dim(n->in[0].x, mica_array_ndim(n->in[0].x) == 3 ? 1 : 2);
        mica_array all = mica_arange(n->s, 0, (double)length, 1, MICA_I64);
        positions = mica_add(n->s, mica_reshape(n->s, positions, NULL, 0), all);
        positions = mica_expand_dims(n->s, positions, 0);
    }
    if (mc_onnx_real(n, "scale", 1) != 1 || mc_onnx_int(n, "is_packed_batching", 0))
        return mc_onnx_refuse("scaled or packed positions");
    return give_rotated(n, n->in[2].x, n->in[3].x, positions);
}

/* ---- attention with a cache ---- */

/* Keys or values of before [B, heads, P, D], of which row b has the first before[b], and x
 * [B, heads, L, D] behind these: [B, heads, P + L, D]. What follows is not seen. */
static mica_array appended(mica_scope *s, mica_array past, mica_array before, mica_array x) {
    if (!past.scope || mica_array_dim(past, 2) == 0) return x;
    int64_t P = mica_array_dim(past, 2), length = mc_dim_add(P, mica_array_dim(x, 2));
    mica_array all = mica_concatenate(s, (mica_array[]){past, x}, 2, 2);
    mica_array at = mc_onnx_along(s, mica_arange(s, 0, (double)length, 1, MICA_I32), 2, 4);
    mica_array ends = mc_onnx_along(s, before, 0, 4);
    mica_array to = mica_scalar(s, (double)mc_dim_sub(length, 1), MICA_I32);
    mica_array new = mica_add(s, mica_subtract(s, at, ends), mica_scalar(s, (double)P, MICA_I32));
    at = mica_where(s, mica_less(s, at, ends), at, mica_minimum(s, new, to));
    return mica_take_along_axis(s, all, at, 2);
}

/* x [B, heads, L, D] rotated to positions [B, L]. */
static mica_array rotated_to(mc_onnx_node *n, mica_array x, mica_array positions) {
    mica_dtype dtype = mica_array_dtype(x);
    mica_array cosines = rows_of(n->s, n->in[7].x, positions, 0, dtype);
    mica_array sines = rows_of(n->s, n->in[8].x, positions, 0, dtype);
    return rotated(n->s, x, cosines, sines, mc_onnx_int(n, "rotary_interleaved", 0) != 0);
}

/* Queries, keys and values, side by side in one operand where keys are absent. */
static mica_status split_grouped(mc_onnx_node *n, mica_array parts[3]) {
    int64_t heads = mc_onnx_int(n, "num_heads", 0), groups = mc_onnx_int(n, "kv_num_heads", 0);
    mica_array xs[3] = {n->in[0].x, mc_onnx_x(n, 1), mc_onnx_x(n, 2)};
    if (heads < 1 || groups < 1 || heads > INT32_MAX || groups > INT32_MAX || heads % groups != 0)
        return mc_fail(MICA_EFORMAT, "its numbers of heads do not fit");
    if (!xs[1].scope) {
        int64_t width = mica_array_dim(xs[0], -1), all = heads + 2 * groups;
        if (mc_dim_mod(width, all) != 0) return mc_fail(MICA_ESHAPE, "its heads do not fit");
        int64_t each = mc_dim_div(width, all);
        int64_t at[] = {mc_dim_mul(each, heads), mc_dim_mul(each, heads + groups)};
        MC_TRY(mica_split(n->s, xs[0], at, 2, -1, xs));
    }
    for (int i = 0; i < 3; i++) {
        if (!xs[i].scope) return mc_fail(MICA_EFORMAT, "its values are absent");
        MC_TRY(mc_onnx_split_heads(n, xs[i], i == 0 ? heads : groups, &parts[i]));
    }
    return MICA_OK;
}

/* query, key, value, past_key, past_value, lengths of rows - 1, total length, cosines, sines,
 * positions, attention_bias, sinks. What is given of past and present is as long as both. */
mica_status mc_onnx_group_query_attention(mc_onnx_node *n) {
    mica_array parts[3], positions = mc_onnx_x(n, 9), sinks = mc_onnx_x(n, 11);
    mica_scope *s = n->s;
    MC_TRY(mc_onnx_need(n, 5, 5));
    MC_TRY(split_grouped(n, parts));
    if (mc_onnx_has(n, 12) || (n->n_out > 3 && *n->proto->output[3]))
        return mc_onnx_refuse("caches of few bits, and scores as a result");
    int64_t L = mica_array_dim(parts[0], 2), window = mc_onnx_int(n, "local_window_size", -1);
    mica_array none = mica_scalar(s, 0, MICA_I32);
    mica_array before = mica_astype(s, mica_reshape(s, n->in[5].x, (int64_t[]){-1}, 1), MICA_I32);
    before = mica_subtract(s, before, mica_scalar(s, (double)mc_dim_sub(L, 1), MICA_I32));
    before = mica_maximum(s, before, none); /* less where a prompt's rows are shorter */
    if (mc_onnx_int(n, "do_rotary", 0)) {
        MC_TRY(mc_onnx_need(n, 7, 8));
        mica_array i = mica_arange(s, 0, (double)L, 1, MICA_I32);
        if (!positions.scope) positions = mica_add(s, mica_expand_dims(s, before, 1), i);
        for (int k = 0; k < 2; k++)
            parts[k] = rotated_to(n, parts[k], positions);
    }
    for (size_t k = 1; k < 3; k++) {
        parts[k] = appended(s, mc_onnx_x(n, 2 + k), before, parts[k]);
        MC_TRY(mc_onnx_give(n, k, parts[k]));
    }
    if (!sinks.scope && mc_onnx_int(n, "smooth_softmax", 0))
        sinks = mica_zeros(s, (int64_t[]){mica_array_dim(parts[0], 1)}, 1, MICA_F32);
    const mica_sdpa_options options = {.scale = (float)mc_onnx_real(n, "scale", 0),
                                       .causal = true,
                                       .window = window < 0 ? 0 : window,
                                       .softcap = (float)mc_onnx_real(n, "softcap", 0),
                                       .mask = mc_onnx_x(n, 10),
                                       .offset = before,
                                       .sinks = sinks};
    return mc_onnx_give(
        n, 0, mc_onnx_join_heads(n, mica_sdpa(s, parts[0], parts[1], parts[2], &options)));
}
