#include "exec/any_op.h"

#include "op/integer.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))
#define LIST(...) ((const int64_t[]){__VA_ARGS__})

/* splitmix64 (Steele, Lea & Flood 2014). */
int any_below(any_op *g, int n) {
    uint64_t z = g->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (int)((z ^ (z >> 31)) % (uint64_t)n);
}

#define below(n) any_below(g, n)

/* ---- operands ---- */

static int64_t size_of(const int64_t *shape, int ndim) {
    int64_t size = 1;
    for (int k = 0; k < ndim; k++)
        size *= shape[k];
    return size;
}

/* The elements of x, again from the first one where there are too few, under a shape; a view of x
 * where it has as many. */
static mica_array shaped(any_op *g, mica_array x, const int64_t *shape, int ndim) {
    int64_t size = size_of(shape, ndim), have = mica_array_size(x);
    mica_scope *s = g->s;
    if (have == 0) return mica_zeros(s, shape, ndim, mica_array_dtype(x));
    if (have < size) {
        mica_array at = mica_arange(s, 0, (double)size, 1, MICA_I32);
        at = mica_remainder(s, at, mica_i32(s, (int32_t)have));
        x = mica_take(s, mica_reshape(s, x, &have, 1), at, 0);
    } else if (have > size) {
        x = mica_slice_axis(s, mica_reshape(s, x, &have, 1), 0, 0, size);
    }
    return mica_reshape(s, x, shape, ndim);
}
#define SHAPED(x, ...) shaped(g, x, LIST(__VA_ARGS__), COUNT(LIST(__VA_ARGS__)))

/* Finite numbers of at most 4 in a float dtype. */
static mica_array floats(any_op *g, mica_array x) {
    mica_dtype dtype = mica_array_dtype(x);
    if (!mica_dtype_is_float(dtype)) x = mica_astype(g->s, x, MICA_F32);
    x = mica_where(g->s, mica_isnan(g->s, x), mica_scalar(g->s, 0.5, MICA_F32), x);
    x = mica_clip(g->s, x, mica_f32(g->s, -4), mica_f32(g->s, 4));
    return mica_dtype_is_float(dtype) ? mica_astype(g->s, x, dtype) : x;
}

/* Numbers from 1/4 on. */
static mica_array positive(any_op *g, mica_array x) {
    x = floats(g, x);
    return mica_astype(g->s, mica_add(g->s, mica_abs(g->s, x), mica_f32(g->s, 0.25f)),
                       mica_array_dtype(x));
}

static mica_array ints(any_op *g, mica_array x, int64_t below_n, mica_dtype dtype) {
    x = mica_remainder(g->s, mica_astype(g->s, floats(g, x), MICA_I32),
                       mica_i32(g->s, (int32_t)below_n));
    return mica_astype(g->s, x, dtype);
}

/* Whether y broadcasts to x's shape. */
static bool fits(mica_array x, mica_array y) {
    int n = mica_array_ndim(x), m = mica_array_ndim(y);
    for (int k = 1; k <= m; k++)
        if (k > n || (mica_array_dim(y, -k) != 1 && mica_array_dim(y, -k) != mica_array_dim(x, -k)))
            return false;
    return true;
}

/* y, or its elements in x's shape. */
static mica_array like(any_op *g, mica_array x, mica_array y) {
    return fits(x, y) ? y : shaped(g, y, mica_array_shape(x), mica_array_ndim(x));
}

static mica_dtype any_dtype(any_op *g) {
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F32, MICA_F16, MICA_BF16, MICA_I32,
                                        MICA_U8,  MICA_I8,  MICA_I64, MICA_U32,  MICA_BOOL};
    return dtypes[below(COUNT(dtypes))];
}

/* An axis that is there; false: x has none, or an empty one. */
static bool find_axis(any_op *g, mica_array x, int *axis) {
    int ndim = mica_array_ndim(x);
    *axis = ndim > 0 ? below(ndim) : 0;
    return ndim > 0 && mica_array_size(x) > 0;
}

static mica_array with_axis(any_op *g, mica_array x, int *axis) {
    if (find_axis(g, x, axis)) return x;
    *axis = below(2);
    return SHAPED(x, 2, 3);
}

#define MAKER(name) \
    static mica_array make_##name(any_op *g, mica_array x, mica_array y, mica_array z)
#define UNUSED (void)y, (void)z

/* ---- element by element ---- */

typedef mica_array (*unary_fn)(mica_scope *s, mica_array x);
typedef mica_array (*binary_fn)(mica_scope *s, mica_array a, mica_array b);

static const unary_fn smooth_ones[] = {mica_square,      mica_exp,      mica_expm1,  mica_sin,
                                       mica_cos,         mica_tanh,     mica_arctan, mica_arcsinh,
                                       mica_erf,         mica_sigmoid,  mica_silu,   mica_gelu,
                                       mica_gelu_approx, mica_negative, mica_sinh,   mica_cosh};

MAKER(function) {
    UNUSED;
    static const unary_fn others[] = {mica_abs,   mica_sign,   mica_floor, mica_ceil,
                                      mica_round, mica_isnan,  mica_isinf, mica_isfinite,
                                      mica_tan,   mica_degrees};
    static const unary_fn of_positive[] = {mica_log,  mica_log2,  mica_log10,   mica_log1p,
                                           mica_sqrt, mica_rsqrt, mica_arccosh, mica_reciprocal};
    static const unary_fn of_units[] = {mica_arcsin, mica_arccos, mica_arctanh, mica_erfinv};
    mica_scope *s = g->s;
    switch (below(5)) {
    case 0:
        return others[below(COUNT(others))](s, floats(g, x));
    case 1: {
        unary_fn fn = of_positive[below(COUNT(of_positive))];
        x = positive(g, x);
        return fn(s, fn == mica_arccosh ? mica_add(s, x, mica_f32(s, 1)) : x);
    }
    case 2:
        return of_units[below(COUNT(of_units))](s,
                                                mica_multiply(s, floats(g, x), mica_f32(s, 0.23f)));
    default:
        return smooth_ones[below(COUNT(smooth_ones))](s, floats(g, x));
    }
}

MAKER(integers) {
    UNUSED;
    static const mica_dtype dtypes[] = {MICA_I32, MICA_U8, MICA_I8, MICA_I64, MICA_U32, MICA_I16};
    static const binary_fn fns[] = {mica_add,          mica_subtract,    mica_multiply,
                                    mica_floor_divide, mica_remainder,   mica_bitwise_and,
                                    mica_bitwise_or,   mica_bitwise_xor, mica_left_shift,
                                    mica_right_shift,  mica_power,       mica_maximum};
    mica_scope *s = g->s;
    mica_dtype dtype = dtypes[below(COUNT(dtypes))];
    x = mica_astype(s, floats(g, x), dtype);
    switch (below(4)) {
    case 0:
        return mica_bitwise_invert(s, x);
    case 1:
        return mica_sign(s, mica_abs(s, x));
    default:
        return fns[below(COUNT(fns))](s, x, ints(g, like(g, x, y), 5, dtype));
    }
}

MAKER(pair) {
    (void)z;
    static const binary_fn fns[] = {mica_add,     mica_subtract,  mica_multiply, mica_maximum,
                                    mica_minimum, mica_logaddexp, mica_arctan2};
    mica_scope *s = g->s;
    x = floats(g, x);
    switch (below(5)) {
    case 0:
        return mica_divide(s, x, positive(g, like(g, x, y)));
    case 1:
        return mica_power(s, positive(g, x), floats(g, like(g, x, y)));
    case 2:
        y = positive(g, like(g, x, y));
        return below(2) ? mica_remainder(s, x, y) : mica_floor_divide(s, x, y);
    default:
        return fns[below(COUNT(fns))](s, x, floats(g, like(g, x, y)));
    }
}

MAKER(choice) {
    static const binary_fn compare[] = {mica_equal,      mica_not_equal, mica_less,
                                        mica_less_equal, mica_greater,   mica_greater_equal};
    mica_scope *s = g->s;
    mica_array a = compare[below(6)](s, x, like(g, x, y));
    switch (below(4)) {
    case 0:
        return a;
    case 1: {
        mica_array b = mica_logical_not(s, like(g, x, z));
        return below(2) ? mica_logical_and(s, a, b) : mica_logical_or(s, a, b);
    }
    case 2:
        return mica_clip(s, x, mica_scalar(s, 1, mica_array_dtype(x)), MICA_NONE);
    default:
        return mica_where(s, a, x, like(g, x, z));
    }
}

MAKER(convert) {
    UNUSED;
    mica_scope *s = g->s;
    switch (below(4)) {
    case 0:
        x = SHAPED(floats(g, x), 3, 5);
        return mica_from_fp8(s, mica_to_fp8(s, x), MICA_F32);
    case 1:
        x = SHAPED(floats(g, x), 2, 40);
        return mica_from_q8(s, mica_to_q8(s, x), 40, below(2) ? MICA_F32 : MICA_BF16);
    case 2:
        return mica_view(s, mica_astype(s, floats(g, x), MICA_I32), MICA_U32);
    default:
        return mica_astype(s, floats(g, x), any_dtype(g));
    }
}

/* ---- along axes ----
 *
 * Products are of numbers up to 1: whether a part of them overflows, and is NaN by a zero, would
 * depend on their order. */

typedef mica_array (*reduce_fn)(mica_scope *s, mica_array x, const int *axes, int n, bool keepdims);

MAKER(reduce) {
    UNUSED;
    static const reduce_fn fns[] = {mica_sum, mica_prod, mica_max,       mica_min,   mica_all,
                                    mica_any, mica_mean, mica_logsumexp, mica_median};
    mica_scope *s = g->s;
    int axis, kind = below(COUNT(fns) + 3);
    x = with_axis(g, x, &axis);
    if (kind >= 6 || kind == 1) x = floats(g, x);
    if (kind == 1) x = mica_tanh(s, x);
    bool keep = below(2);
    if (kind == COUNT(fns)) return mica_var(s, x, &axis, 1, keep, 0);
    if (kind > COUNT(fns))
        return kind % 2 ? mica_argmax(s, x, axis, keep) : mica_argmin(s, x, axis, keep);
    return fns[kind](s, x, &axis, below(3) ? 1 : 0, keep);
}

MAKER(scan_along) {
    UNUSED;
    typedef mica_array (*scan_fn)(mica_scope *, mica_array, int, bool, bool);
    static const scan_fn fns[] = {mica_cumsum, mica_cummax, mica_cummin, mica_cumprod,
                                  mica_logcumsumexp};
    int axis, kind = below(COUNT(fns));
    x = with_axis(g, x, &axis);
    if (kind > 2) x = floats(g, x);
    if (kind == 3) x = mica_tanh(g->s, x);
    return fns[kind](g->s, x, axis, below(2), below(2));
}

MAKER(order) {
    UNUSED;
    mica_scope *s = g->s;
    int axis;
    x = with_axis(g, x, &axis);
    int64_t k = 1 + below((int)mica_array_dim(x, axis));
    mica_array at;
    switch (below(5)) {
    case 0:
        return mica_sort(s, x, axis);
    case 1:
        return mica_argsort(s, x, axis);
    case 2:
        return mica_topk(s, x, k, axis);
    case 3:
        x = mica_topk_indices(s, x, k, axis, &at);
        return mica_add(s, mica_astype(s, at, MICA_I32), mica_astype(s, floats(g, x), MICA_I32));
    default:
        return mica_softmax(s, floats(g, x), axis);
    }
}

/* ---- views and moves ---- */

MAKER(view) {
    UNUSED;
    mica_scope *s = g->s;
    int axis, ndim = mica_array_ndim(x);
    int64_t steps[MICA_MAX_NDIM], size = mica_array_size(x);
    switch (below(7)) {
    case 0:
        return mica_transpose(s, x, NULL);
    case 1:
        for (int k = 0; k < ndim; k++)
            steps[k] = below(2) ? -1 : 1 + below(2);
        return mica_slice(s, x, NULL, NULL, steps);
    case 2:
        return mica_reshape(s, x, &size, 1);
    case 3:
        x = SHAPED(x, 1, 5, 1);
        return mica_broadcast_to(s, x, LIST(3, 5, 2), 3);
    case 4:
        x = SHAPED(x, 14);
        return mica_as_strided(s, x, LIST(4, 3), LIST(1, 2 + below(3)), 2, below(2));
    case 5:
        x = with_axis(g, x, &axis);
        return mica_contiguous(s, mica_flip(s, x, axis));
    default:
        x = with_axis(g, x, &axis);
        return mica_narrow(s, x, axis, 0, 1 + below((int)mica_array_dim(x, axis)));
    }
}

MAKER(move) {
    (void)z;
    mica_scope *s = g->s;
    int axis;
    x = with_axis(g, x, &axis);
    int64_t n = mica_array_dim(x, axis);
    switch (below(5)) {
    case 0:
        if (2 * mica_array_size(x) > ANY_OP_MAX) return mica_roll(s, x, 2, axis);
        y = shaped(g, y, mica_array_shape(x), mica_array_ndim(x));
        return mica_concatenate(s, (mica_array[]){x, y}, 2, axis);
    case 1: {
        mica_array row = shaped(g, y, mica_array_shape(x), mica_array_ndim(x));
        row = mica_slice_axis(s, mica_astype(s, floats(g, row), mica_array_dtype(x)), axis, 0, 1);
        return mica_slice_update_at(s, x, row, mica_i32(s, below((int)n)), axis);
    }
    case 2: {
        int64_t start[MICA_MAX_NDIM] = {0}, stop[MICA_MAX_NDIM];
        for (int k = 0; k < mica_array_ndim(x); k++)
            stop[k] = MICA_END_OF_AXIS;
        start[axis] = below((int)n);
        return mica_slice_update(s, x, mica_f32(s, 3), start, stop, NULL);
    }
    case 3:
        return mica_roll(s, x, below(4), axis);
    default:
        return mica_tril(s, SHAPED(x, 4, 5), below(3) - 1);
    }
}

MAKER(index) {
    mica_scope *s = g->s;
    x = SHAPED(x, 5, 6);
    y = SHAPED(y, 3, 2);
    switch (below(7)) {
    case 0:
        return mica_take(s, x, ints(g, y, 5, MICA_I32), 0);
    case 1:
        return mica_take_along_axis(s, x, ints(g, SHAPED(y, 5, 2), 6, MICA_U8), 1);
    case 2: {
        mica_array at = mica_arange(s, 0, 6, 1, MICA_I32); /* each element once */
        at = mica_remainder(s, mica_add(s, mica_multiply(s, at, mica_i32(s, 5)), mica_i32(s, 1)),
                            mica_i32(s, 6));
        return mica_put_along_axis(s, x, mica_broadcast_to(s, at, LIST(5, 6), 2), SHAPED(z, 5, 6),
                                   1);
    }
    case 3: {
        mica_array at = ints(g, y, 5, MICA_I64);
        return mica_gather(s, x, &at, 1, (const int[]){0}, LIST(1, 4));
    }
    case 4: {
        mica_array at = ints(g, SHAPED(y, 3), 5, MICA_I32);
        mica_array updates = mica_astype(s, SHAPED(floats(g, z), 3, 1, 6), mica_array_dtype(x));
        return mica_scatter(s, x, &at, 1, (const int[]){0}, updates,
                            (mica_scatter_mode)(1 + below(4)));
    }
    case 5:
        return mica_gather_nd(s, x, ints(g, y, 5, MICA_I32), 0);
    default:
        return mica_searchsorted(s, mica_sort(s, SHAPED(x, 30), 0), y, below(2));
    }
}

/* ---- products ---- */

MAKER(product) {
    (void)z;
    mica_scope *s = g->s;
    int64_t n = 1 + below(4), k = 1 + below(40), m = 1 + below(5);
    x = floats(g, x), y = floats(g, y);
    switch (below(5)) {
    case 0:
        return mica_matmul(s, SHAPED(x, 2, n, k), mica_swapaxes(s, SHAPED(y, m, k), 0, 1));
    case 1: {
        const int a[2] = {0, 2}, b[2] = {1, 0};
        const mica_dot_axes axes = {a, b, 1, a + 1, b + 1, 1};
        return mica_dot_general(s, SHAPED(x, 2, n, k), SHAPED(y, k, 2, m), &axes);
    }
    case 2: {
        mica_array in[2] = {SHAPED(x, n, k, 2), SHAPED(y, 2, k, m)};
        return mica_einsum(s, "ikb,bkj->bij", in, 2);
    }
    case 3: {
        mica_array at = ints(g, SHAPED(z, 3), 3, MICA_U32);
        return mica_gather_mm(s, SHAPED(x, 3, 2, k), SHAPED(y, 3, k, m), MICA_NONE, at);
    }
    default:
        return mica_addmm(s, SHAPED(z, n, m), SHAPED(x, n, k), SHAPED(y, k, m), 0.5f, 2);
    }
}

MAKER(quantised) {
    (void)z;
    static const mica_quant quants[] = {{MICA_QUANT_AFFINE, 4, 32},
                                        {MICA_QUANT_AFFINE, 8, 64},
                                        {MICA_QUANT_MXFP4, 4, 32},
                                        {MICA_QUANT_NVFP4, 4, 16}};
    mica_scope *s = g->s;
    const mica_quant q = quants[below(COUNT(quants))];
    mica_array codes, scales, biases, w = SHAPED(floats(g, y), 3, 4, 64);
    w = mica_astype(s, w, MICA_F32);
    if (mica_quantize(s, w, q, &codes, &scales, &biases) != MICA_OK) return MICA_NONE;
    x = mica_astype(s, SHAPED(floats(g, x), 2, 64), MICA_F32);
    switch (below(3)) {
    case 0:
        return mica_slice_axis(s, mica_dequantize(s, codes, scales, biases, q, MICA_F32), 0, 0, 2);
    case 1:
        return mica_quantized_matmul(s, x, codes, scales, biases, q, true);
    default:
        return mica_gather_qmm(s, SHAPED(x, 1, 2, 64), codes, scales, biases, q, true, MICA_NONE,
                               ints(g, SHAPED(z, 2), 3, MICA_I32));
    }
}

MAKER(int8) {
    mica_scope *s = g->s;
    mica_array a = mica_astype(s, mica_multiply(s, floats(g, x), mica_f32(s, 30)), MICA_I8);
    mica_array b = mica_astype(s, mica_multiply(s, floats(g, y), mica_f32(s, 30)), MICA_I8);
    const mica_qmatmul_options o = {
        .x_zero_point = 3, .w_zero_point = -2, .multiplier = mica_f32(s, 0.01f)};
    const mica_conv_options conv = {.padding_lo = {1, 1}, .stride = {2, 1}};
    const mica_fake_quantize_options fake = {.bits = 4};
    const mica_array bytes = mica_astype(s, mica_view(s, a, MICA_U8), MICA_U8);
    const mica_array sums =
        mica_sum(s, mica_astype(s, SHAPED(b, 4, 9), MICA_I32), (int[]){1}, 1, false);
    const mc_integer_rest rest = {
        .zero = mica_i32(s, 128), .sums = sums, .scale = below(2) ? mica_f32(s, 0.01f) : MICA_NONE};
    const mica_array taps = SHAPED(b, 4, 3, 1, 3);
    switch (below(6)) {
    case 4:
        return mc_integer_matmul(s, SHAPED(bytes, 2, 3, 9), SHAPED(b, 4, 9), &rest);
    case 5:
        return mc_integer_conv(s, SHAPED(bytes, 1, 3, 5, 3), taps, &conv, &rest);
    case 0:
        return mica_qmatmul(s, SHAPED(a, 3, 9), SHAPED(b, 9, 4), MICA_NONE, &o);
    case 1:
        return mica_qconv2d(s, SHAPED(a, 1, 2, 5, 4), SHAPED(b, 3, 2, 2, 3), MICA_NONE, &conv, &o);
    case 2:
        return mica_quantize_int8(s, floats(g, z), mica_f32(s, 0.05f), MICA_NONE, NULL);
    default:
        return mica_fake_quantize(s, floats(g, z), &fake, NULL);
    }
}

/* ---- layers ---- */

MAKER(norm) {
    mica_scope *s = g->s;
    x = SHAPED(floats(g, x), 3, 4, 8);
    switch (below(6)) {
    case 0:
        return mica_rms_norm(s, x, below(2) ? SHAPED(floats(g, y), 8) : MICA_NONE, 1e-3f);
    case 1:
        return mica_layer_norm(s, x, SHAPED(floats(g, y), 8), SHAPED(floats(g, z), 8), 1e-2f);
    case 2:
        return mica_group_norm(s, x, SHAPED(floats(g, y), 4), MICA_NONE, 2, 1e-2f);
    case 3:
        return mica_rope(s, x, mica_i32(s, below(5)), MICA_NONE,
                         &(mica_rope_options){.dims = 6, .traditional = below(2)});
    case 4:
        return mica_softmax_axes(s, x, (const int[]){0, 2}, 2);
    default:
        return mica_cross_entropy(s, SHAPED(x, 12, 8), ints(g, SHAPED(y, 12), 8, MICA_I32));
    }
}

/* x [1, 4, 3, 8] over y and z [1, 2, 5, 8], which are written into blocks. */
static mica_array attend_blocks(any_op *g, mica_array x, mica_array y, mica_array z) {
    mica_scope *s = g->s;
    mica_sdpa_options o = {.causal = true, .offset = mica_i32(s, below(4))};
    mica_array at = mica_arange(s, 0, 5, 1, MICA_I32);
    at = mica_reshape(s, mica_add(s, at, mica_i32(s, below(8))), LIST(1, 5), 2);
    mica_array pool = mica_zeros(s, LIST(2, 3, 4, 8), 4, mica_array_dtype(y));
    y = mica_kv_write(s, pool, y, at);
    z = mica_kv_write(s, mica_add(s, pool, mica_scalar(s, 1, mica_array_dtype(z))), z, at);
    if (below(2)) o.window = 3;
    mica_array table = mica_reshape(s, mica_arange(s, 2, -1, -1, MICA_I32), LIST(1, 3), 2);
    return mica_paged_sdpa(s, x, y, z, table, &o);
}

/* Of one dtype: with bf16 keys a device may round queries. */
static mica_array attend(any_op *g, mica_array x, mica_array y, mica_array z) {
    mica_sdpa_options o = {.causal = below(2), .softcap = below(2) ? 2 : 0};
    if (o.causal && below(2)) o.window = 3;
    x = SHAPED(floats(g, x), 1, 4, 3, 8);
    mica_dtype dtype = mica_array_dtype(x);
    y = mica_astype(g->s, SHAPED(floats(g, y), 1, 2, 5, 8), dtype);
    z = mica_astype(g->s, SHAPED(floats(g, z), 1, 2, 5, 8), dtype);
    mica_array lse;
    if (below(3) == 0) return attend_blocks(g, x, y, z);
    if (below(2)) return mica_sdpa(g->s, x, y, z, &o);
    x = mica_sdpa_lse(g->s, x, y, z, &o, &lse);
    x = mica_add(g->s, mica_sum(g->s, x, (const int[]){3}, 1, false), lse);
    return mica_astype(g->s, x, dtype);
}

MAKER(attention) {
    return attend(g, x, y, z);
}

MAKER(convolution) {
    mica_scope *s = g->s;
    int64_t groups = 1 + below(2);
    const mica_conv_options o = {.stride = {1 + below(2), 1},
                                 .padding_lo = {below(3), 1},
                                 .padding_hi = {1, below(2)},
                                 .kernel_dilation = {1, 1 + below(2)},
                                 .groups = groups};
    const mica_conv_transpose_options t = {.stride = {2}, .padding = {1}, .groups = groups};
    (void)z;
    x = floats(g, x), y = floats(g, y);
    if (below(3) == 0)
        return mica_conv_transpose1d(s, SHAPED(x, 2, 4, 6), SHAPED(y, 4, 3, 3), MICA_CHANNELS_FIRST,
                                     &t);
    return mica_conv_general(s, SHAPED(x, 1, 6, 5, 4), SHAPED(y, 6, 2, 3, 4 / groups), &o);
}

MAKER(window) {
    UNUSED;
    const mica_pool_options o = {.kernel = {2, 3},
                                 .stride = {1 + below(2), 2},
                                 .padding_lo = {1, below(3)},
                                 .padding_hi = {0, 1},
                                 .dilation = {1, 1 + below(2)},
                                 .exclude_padding = below(2),
                                 .ceil = below(2)};
    return mica_pool(g->s, SHAPED(floats(g, x), 1, 3, 7, 8), 2, (mica_window_kind)below(5),
                     below(2) ? MICA_CHANNELS_FIRST : MICA_CHANNELS_LAST, &o);
}

MAKER(transform) {
    (void)z;
    static const int64_t lengths[] = {4, 6, 7, 16, 17, 30};
    mica_scope *s = g->s;
    int64_t n = lengths[below(COUNT(lengths))];
    mica_fft_norm norm = (mica_fft_norm)below(4);
    x = mica_astype(s, SHAPED(floats(g, x), 2, n), MICA_F32);
    y = mica_astype(s, SHAPED(floats(g, y), 2, n), MICA_F32);
    switch (below(3)) {
    case 0:
        return mica_real(s, mica_fft(s, mica_complex(s, x, y), 0, 1, norm));
    case 1:
        return mica_imag(s, mica_rfft(s, x, 0, 1, norm));
    default:
        return mica_irfft(s, mica_multiply(s, mica_rfft(s, x, 0, 1, norm), mica_f32(s, 0.5f)), n, 1,
                          norm);
    }
}

MAKER(recurrence) {
    mica_scope *s = g->s;
    mica_array last = MICA_NONE;
    x = floats(g, x), y = floats(g, y), z = floats(g, z);
    if (below(2)) {
        const mica_selective_scan_options o = {.delta_softplus = below(2)};
        mica_array a = mica_negative(s, positive(g, SHAPED(z, 3, 4)));
        x = mica_selective_scan(s, SHAPED(x, 2, 6, 3), positive(g, SHAPED(y, 2, 6, 3)), a,
                                SHAPED(y, 2, 6, 4), SHAPED(z, 2, 6, 4), &o, &last);
    } else {
        mica_array k = mica_multiply(s, SHAPED(y, 1, 5, 2, 4), mica_f32(s, 0.1f));
        mica_array gate = mica_negative(s, positive(g, SHAPED(z, 1, 5, 2)));
        mica_array beta = below(2) ? mica_sigmoid(s, SHAPED(x, 1, 5, 2)) : MICA_NONE;
        if (below(2)) k = mica_slice_axis(s, k, 2, 0, 1), x = SHAPED(x, 1, 5, 1, 4);
        x = mica_gated_delta(s, SHAPED(x, 1, 5, mica_array_dim(k, 2), 4), k, SHAPED(z, 1, 5, 2, 3),
                             gate, beta, MICA_NONE, &last);
    }
    return below(2) ? x : last;
}

MAKER(random) {
    (void)y, (void)z;
    mica_scope *s = g->s;
    mica_array key = mica_random_key(s, (uint64_t)below(1000));
    mica_array logits = mica_astype(s, SHAPED(floats(g, x), 3, 9), MICA_F32);
    switch (below(4)) {
    case 0:
        return mica_random_bits(s, key, LIST(3, 5), 2, 4);
    case 1:
        return mica_random_uniform(s, key, LIST(3, 5), 2, MICA_F32, -1, 2);
    case 2:
        return mica_random_categorical(s, key, logits, 0);
    default: {
        const mica_sample_options o = {.top_k = mica_i32(s, below(4))};
        return mica_sample(s, key, logits, &o);
    }
    }
}

MAKER(solve) {
    (void)z;
    mica_scope *s = g->s;
    mica_array a = mica_add(s, SHAPED(floats(g, x), 2, 4, 4),
                            mica_multiply(s, mica_eye(s, 4, 4, 0, MICA_F32), mica_f32(s, 20)));
    return mica_solve(s, a, SHAPED(floats(g, y), 2, 4, 3));
}

/* ---- control flow and gradients ---- */

/* As any_op_make, an op of which derivatives are asked, so that it is smooth enough. */
static mica_array make_smooth(any_op *g, const mica_array in[3]) {
    mica_array x = in[0], y = in[1], z = in[2];
    switch (below(10)) {
    case 0:
        return make_product(g, x, y, z);
    case 1:
        return attend(g, x, y, z);
    case 2:
        return make_norm(g, x, y, z);
    case 3:
        return make_convolution(g, x, y, z);
    case 4:
        return make_window(g, x, y, z);
    case 5:
        return make_recurrence(g, x, y, z);
    case 6:
        return make_transform(g, x, y, z);
    case 7:
        return make_solve(g, x, y, z);
    case 8:
        return mica_cross_entropy(g->s, SHAPED(floats(g, x), 7, 9),
                                  ints(g, SHAPED(z, 7), 9, MICA_I32));
    default:
        return smooth_ones[below(COUNT(smooth_ones))](g->s, floats(g, x));
    }
}

/* What a branch or a round does: a smooth op of the seed, in the shape of its first argument. */
static mica_status body(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    any_op inner = {s, *(const uint64_t *)user}, *g = &inner;
    const mica_array in[3] = {x[0], n > 1 ? x[1] : x[0], x[n - 1]};
    mica_array v = make_smooth(g, in);
    v = mica_tanh(
        s, mica_astype(s, shaped(g, v, mica_array_shape(x[0]), mica_array_ndim(x[0])), MICA_F32));
    for (size_t i = 0; i < n_y; i++)
        y[i] = i == 0 ? v : x[i];
    return mica_valid(v) ? MICA_OK : mica_scope_status(s);
}

static mica_status other_body(void *user, mica_scope *s, const mica_array *x, size_t n,
                              mica_array *y, size_t n_y) {
    const uint64_t seed = *(const uint64_t *)user + 77;
    return body((void *)&seed, s, x, n, y, n_y);
}

static mica_status is_small(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    (void)user, (void)n, (void)n_y;
    mica_array sum = mica_sum(s, mica_abs(s, x[0]), NULL, 0, false);
    y[0] = mica_less(s, sum, mica_f32(s, 3));
    return mica_valid(y[0]) ? MICA_OK : mica_scope_status(s);
}

MAKER(control) {
    mica_scope *s = g->s;
    uint64_t seed = (uint64_t)below(1 << 20);
    mica_array args[2] = {mica_astype(s, SHAPED(floats(g, x), 3, 4), MICA_F32),
                          mica_astype(s, floats(g, y), MICA_F32)};
    mica_array out[2] = {MICA_NONE, MICA_NONE}, rounds = MICA_NONE;
    const mica_while_options bound = {.max_rounds = 1 + below(4)};
    const mica_scan_options options = {.reverse = below(2)};
    switch (below(4)) {
    case 0: {
        mica_array sum = mica_sum(s, SHAPED(floats(g, z), 3), NULL, 0, false);
        mica_if(s, mica_greater(s, sum, mica_f32(s, 0)), body, other_body, &seed, args, 2, out, 1);
        return out[0];
    }
    case 1:
        mica_while(s, is_small, body, &seed, args, 2, &bound, out, &rounds);
        return mica_add(s, out[0], mica_astype(s, rounds, MICA_F32));
    case 2:
        args[1] = SHAPED(args[1], 3, 4);
        mica_scan(s, body, &seed, args, 1, args + 1, 1, &options, out, out + 1, 0);
        return out[0];
    default:
        mica_if_each(s, mica_less(s, args[0], mica_f32(s, 0)), body, other_body, &seed, args, 2,
                     out, 1);
        return out[0];
    }
}

MAKER(gradient) {
    mica_scope *s = g->s;
    mica_array in[3] = {mica_astype(s, floats(g, x), MICA_F32),
                        mica_astype(s, floats(g, y), MICA_F32), floats(g, z)};
    int which = below(2);
    if (below(8) == 0) in[1] = mica_stop_gradient(s, in[1]);
    bool branches = below(4) == 0;
    mica_array v = branches ? make_control(g, in[0], in[1], z) : make_smooth(g, in), dx;
    if (mica_array_dtype(v) == MICA_F32) v = mica_sin(s, v);
    v = mica_sum(s, v, NULL, 0, false);
    if (mica_grad(s, v, MICA_NONE, &in[which], 1, &dx) != MICA_OK) return MICA_NONE;
    return dx;
}

/* ---- all ---- */

static const struct maker {
    const char *name;
    mica_array (*make)(any_op *g, mica_array x, mica_array y, mica_array z);
} makers[] = {
#define ROW(name) {#name, make_##name},
    ROW(function) ROW(integers) ROW(pair) ROW(choice) ROW(convert) ROW(reduce) ROW(scan_along)
        ROW(order) ROW(view) ROW(move) ROW(index) ROW(product) ROW(quantised) ROW(int8) ROW(norm)
            ROW(attention) ROW(convolution) ROW(window) ROW(transform) ROW(recurrence) ROW(random)
                ROW(solve) ROW(gradient) ROW(control)};

int any_op_count(void) {
    return COUNT(makers);
}

const char *any_op_name(int kind) {
    return makers[kind].name;
}

mica_array any_op_make(any_op *g, int kind, const mica_array in[3]) {
    return makers[kind].make(g, in[0], in[1], in[2]);
}
