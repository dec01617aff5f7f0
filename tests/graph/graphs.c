#include "graph/graphs.h"

#include <mica/group.h>

#include "op/integer.h"
#include "op/require.h"

#include "support/support.h"

#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define SHAPE(...) LIST(__VA_ARGS__), (int)(sizeof(LIST(__VA_ARGS__)) / sizeof(int64_t))

typedef mica_array (*unary)(mica_scope *s, mica_array x);
typedef mica_array (*binary)(mica_scope *s, mica_array a, mica_array b);

static void result(test_graph *g, mica_array x) {
    if (!mica_valid(x)) fail_msg("%s", mica_last_error());
    assert_true(g->ports.n_results < TEST_GRAPH_RESULTS);
    g->results[g->ports.n_results++] = x.node;
}

static mica_array data(mica_scope *s, mica_dtype dtype, const int64_t *shape, int ndim,
                       float step) {
    static float values[1024];
    int64_t size = 1;
    for (int k = 0; k < ndim; k++)
        size *= shape[k];
    assert_true(size <= 1024);
    for (int64_t i = 0; i < size; i++)
        values[i] = (float)(i * 7 % 23) * step - 0.9f;
    mica_array x = mica_from_data(s, values, MICA_F32, shape, ndim);
    if (dtype == MICA_F32) return x;
    return mica_detach(s, mica_astype(s, x, dtype));
}

static void record_unary(test_graph *g) {
    static const unary of_floats[] = {
        mica_abs,        mica_negative, mica_square,      mica_sign,     mica_floor,
        mica_ceil,       mica_round,    mica_exp,         mica_expm1,    mica_log,
        mica_log2,       mica_log10,    mica_log1p,       mica_sqrt,     mica_rsqrt,
        mica_reciprocal, mica_sin,      mica_cos,         mica_tan,      mica_sinh,
        mica_cosh,       mica_tanh,     mica_arcsin,      mica_arccos,   mica_arctan,
        mica_arcsinh,    mica_arccosh,  mica_arctanh,     mica_erf,      mica_erfinv,
        mica_sigmoid,    mica_isnan,    mica_isinf,       mica_isfinite, mica_logical_not,
        mica_silu,       mica_gelu,     mica_gelu_approx,
    };
    for (size_t i = 0; i < sizeof of_floats / sizeof *of_floats; i++)
        result(g, of_floats[i](g->s, g->x));
    result(g, mica_bitwise_invert(g->s, g->k));
}

static void record_gradient(test_graph *g) {
    mica_scope *s = g->s;
    result(g, mica_stop_gradient(s, g->x));
    result(g, mc_record(s, MC_OP_IDENTITY, NULL, &g->x, 1));
    mica_array heads = mica_reshape(s, g->w, SHAPE(1, 4, 8, 8)), dq;
    mica_array keys = mica_slice_axis(s, heads, 1, 0, 2);
    const mica_sdpa_options o = {.causal = true, .window = 5, .softcap = 5};
    mica_array y = mica_sdpa(s, heads, keys, mica_flip(s, keys, 2), &o);
    assert_int_equal(mica_grad(s, y, mica_multiply(s, heads, y), &heads, 1, &dq), MICA_OK);
    result(g, dq);
    const int32_t targets[4] = {3, 0, -1, 5};
    mica_array at = mica_from_data(s, targets, MICA_I32, SHAPE(4)), loss, dx;
    result(g, loss = mica_cross_entropy(s, g->x, at));
    assert_int_equal(mica_grad(s, loss, mica_cos(s, loss), &g->x, 1, &dx), MICA_OK);
    result(g, dx);
    mica_array weight = mica_slice_axis(s, mica_reshape(s, g->w, SHAPE(256)), 0, 0, 6);
    for (int centred = 0; centred < 2; centred++) {
        y = centred ? mica_layer_norm(s, g->x, weight, weight, 1e-3f)
                    : mica_rms_norm(s, g->x, MICA_NONE, 1e-3f);
        assert_int_equal(mica_grad(s, y, mica_sin(s, y), &g->x, 1, &dx), MICA_OK);
        result(g, dx);
    }
}

static void record_convert(test_graph *g) {
    mica_scope *s = g->s;
    result(g, mica_astype(s, g->x, MICA_BF16));
    mica_array bytes = mica_to_fp8(s, g->x);
    result(g, mica_from_fp8(s, bytes, MICA_F16));
    result(g, mica_view(s, mica_slice_axis(s, bytes, 1, 1, 5), MICA_U32)); /* CONTIGUOUS too */
    mica_array rows = mica_to_q8(s, g->x);
    result(g, rows);
    result(g, mica_from_q8(s, rows, 6, MICA_F32));
}

static void record_binary(test_graph *g) {
    static const binary both[] = {
        mica_add,   mica_subtract,   mica_multiply, mica_floor_divide, mica_remainder,
        mica_power, mica_maximum,    mica_minimum,  mica_equal,        mica_not_equal,
        mica_less,  mica_less_equal, mica_greater,  mica_greater_equal};
    static const binary floats[] = {mica_divide, mica_logaddexp, mica_arctan2};
    static const binary integers[] = {mica_logical_and, mica_logical_or,  mica_bitwise_and,
                                      mica_bitwise_or,  mica_bitwise_xor, mica_left_shift,
                                      mica_right_shift};
    mica_scope *s = g->s;
    mica_array three = mica_i32(s, 3), half = mica_f32(s, 0.5f);
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        result(g, both[i](s, i % 2 ? g->k : g->x, three));
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        result(g, floats[i](s, g->x, half));
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        result(g, integers[i](s, g->k, three));
    result(g, mica_where(s, mica_less(s, g->x, half), g->x, g->k));
    result(g, mica_arange(s, -1.5, 7, 0.75, MICA_F16));
}

static void record_reduce(test_graph *g) {
    mica_scope *s = g->s;
    const int last = -1;
    result(g, mica_sum(s, g->x, NULL, 0, false));
    result(g, mica_prod(s, g->x, &last, 1, true));
    result(g, mica_max(s, g->x, &last, 1, false));
    result(g, mica_min(s, g->k, (const int[]){0}, 1, false));
    result(g, mica_all(s, g->k, &last, 1, false));
    result(g, mica_any(s, g->x, &last, 1, false));
    result(g, mica_logsumexp(s, g->x, &last, 1, true));
    result(g, mica_argmax(s, g->x, 0, false));
    result(g, mica_argmin(s, g->k, 1, true));
    result(g, mica_cumsum(s, g->x, 0, true, false));
    result(g, mica_cumprod(s, g->k, 1, false, true));
    result(g, mica_cummax(s, g->x, 1, false, true));
    result(g, mica_cummin(s, g->x, 1, true, true));
    result(g, mica_logcumsumexp(s, g->x, 0, false, true));
    result(g, mica_sort(s, g->x, 0));
    result(g, mica_argsort(s, g->x, 1));
    result(g, mica_topk(s, g->k, 2, 1));
    mica_array indices;
    result(g, mica_topk_indices(s, g->x, 3, 1, &indices));
    result(g, indices);
    result(g, mica_softmax(s, g->x, 0));
}

static void record_views(test_graph *g) {
    mica_scope *s = g->s;
    result(g, mica_reshape(s, g->x, SHAPE(2, 12)));
    result(g, mica_transpose(s, g->x, NULL));
    result(g, mica_broadcast_to(s, g->k, SHAPE(2, 4, 6)));
    result(g, mica_slice(s, g->x, LIST(3, 1), LIST(0, 6), LIST(-1, 2)));
    result(g, mica_as_strided(s, g->x, LIST(3, 3), LIST(2, 1), 2, 4));
}

static void record_moving(test_graph *g) {
    mica_scope *s = g->s;
    const int32_t places[3] = {2, -1, 0}, columns[8] = {0, 1, 5, 5, 3, 3, -6, 2};
    mica_array at = mica_from_data(s, places, MICA_I32, SHAPE(3));
    mica_array along = mica_from_data(s, columns, MICA_I32, SHAPE(4, 2));
    result(g, mica_concatenate(s, (mica_array[]){g->x, g->cache, g->x}, 3, 0));
    result(g, mica_slice_update(s, g->cache, g->x, LIST(0, 0), LIST(8, 6), LIST(2, 1)));
    result(g, mica_slice_update_at(s, g->cache, g->x, mica_i32(s, 3), 0));
    result(g, mica_take(s, g->x, at, 1));
    result(g, mica_take_along_axis(s, g->x, along, 1));
    result(g, mica_put_along_axis(s, g->x, along, mica_f32(s, 9), 1));
    mica_array both[2] = {at, at};
    result(g, mica_gather(s, g->x, both, 2, (const int[]){0, 1}, LIST(1, 1)));
    mica_array updates = data(s, MICA_F32, SHAPE(3, 1, 2), 0.5f);
    result(g, mica_scatter(s, g->x, &at, 1, (const int[]){0}, updates, MICA_SCATTER_ADD));
    result(g, mica_scatter(s, g->x, &at, 1, (const int[]){0}, updates, MICA_SCATTER_SET));
}

static void record_matmul(test_graph *g) {
    mica_scope *s = g->s;
    const mica_quant quant = {MICA_QUANT_AFFINE, 4, 32}, mx = {MICA_QUANT_MXFP8, 8, 32};
    mica_array codes, scales, biases;
    result(g, mica_matmul(s, mica_transpose(s, g->x, NULL), g->w));
    assert_int_equal(mica_quantize(s, g->w, quant, &codes, &scales, &biases), MICA_OK);
    codes = mica_detach(s, codes);
    scales = mica_detach(s, scales);
    biases = mica_detach(s, biases);
    result(g, mica_dequantize(s, codes, scales, biases, quant, MICA_F32));
    mica_array x = mica_reshape(s, g->w, SHAPE(2, 2, 64));
    result(g, mica_quantized_matmul(s, x, codes, scales, biases, quant, true));
    result(g, mica_matmul(s, x, mica_transpose(s, g->w, NULL)));
    mica_array picked =
        mica_scalar(s, 1, MICA_U32); /* of the two matrices in w, and in the codes */
    const int64_t halves[3] = {2, mica_array_dim(g->w, 0) / 2, -1};
    mica_array pair = mica_reshape(s, g->w, halves, 3);
    result(g, mica_gather_mm(s, x, mica_swapaxes(s, pair, -1, -2), MICA_NONE, picked));
    codes = mica_reshape(s, codes, halves, 3), scales = mica_reshape(s, scales, halves, 3);
    biases = mica_reshape(s, biases, halves, 3);
    result(g, mica_gather_qmm(s, x, codes, scales, biases, quant, true, MICA_NONE, picked));
    assert_int_equal(mica_quantize(s, g->w, mx, &codes, &scales, &biases), MICA_OK);
    result(g, mica_quantized_matmul(s, x, codes, scales, MICA_NONE, mx, true));
}

static void record_fused(test_graph *g) {
    mica_scope *s = g->s;
    mica_array row = data(s, MICA_BF16, SHAPE(6), 0.125f);
    result(g, mica_rms_norm(s, g->x, row, 1e-6f));
    result(g, mica_layer_norm(s, g->x, MICA_NONE, row, 1e-5f));
    mica_array heads = mica_reshape(s, g->w, SHAPE(1, 4, 8, 8));
    mica_array offset = mica_i32(s, 7);
    result(g, mica_rope(s, heads, offset, MICA_NONE, &(mica_rope_options){.dims = 4}));
    mica_array keys = mica_slice_axis(s, heads, 1, 0, 2);
    const mica_sdpa_options o = {.causal = true, .window = 3, .keep = 1, .softcap = 5};
    result(g, mica_sdpa(s, heads, keys, keys, &o));
    mica_array lse;
    (void)mica_sdpa_lse(s, heads, keys, keys, &o, &lse); /* of two results one */
    result(g, lse);
    const int32_t table[3] = {3, 0, -3}, slots[8] = {31, 0, 9, 17, 1, 2, -5, 24};
    mica_array pool = mica_reshape(s, g->w, SHAPE(1, 4, 8, 8));
    pool = mica_kv_write(s, pool, mica_slice_axis(s, heads, 1, 0, 1),
                         mica_from_data(s, slots, MICA_I32, SHAPE(1, 8)));
    const mica_sdpa_options paged = {
        .causal = true, .offset = mica_i32(s, 9), .window = 5, .keep = 2};
    result(g, mica_paged_sdpa(s, heads, pool, pool, mica_from_data(s, table, MICA_I32, SHAPE(1, 3)),
                              &paged));
    result(g, mica_random_bits(s, mica_random_key(s, 42), SHAPE(3, 5), 2));
}

/* Functions of control flow: each takes something from around it, which is *user. */
static mica_status halve(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                         size_t n_y) {
    (void)n, (void)n_y;
    mica_array half = mica_multiply(s, x[0], mica_scalar(s, 0.5, mica_array_dtype(x[0])));
    y[0] = mica_add(s, half, mica_min(s, *(mica_array *)user, NULL, 0, false));
    y[0] = mica_astype(s, y[0], mica_array_dtype(x[0]));
    return MICA_OK;
}

static mica_status keep(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    (void)user, (void)s, (void)n, (void)n_y;
    y[0] = x[0];
    return MICA_OK;
}

static mica_status is_large(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                            size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_greater(s, mica_max(s, x[0], NULL, 0, false), mica_f32(s, 0.5f));
    return MICA_OK;
}

/* With a branch within. */
static mica_status add_row(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                           size_t n_y) {
    (void)n, (void)n_y;
    y[0] = mica_add(s, x[0], x[1]);
    mica_array large;
    mica_status status = is_large(NULL, s, x, 1, &large, 1);
    return status ? status : mica_if(s, large, halve, keep, user, &y[0], 1, &y[1], 1);
}

static void record_control(test_graph *g) {
    mica_scope *s = g->s;
    mica_array row = mica_slice_axis(s, g->x, 0, 0, 1), y, rounds, ys;
    row = mica_reshape(s, row, SHAPE(6));
    mica_array pred = mica_less(s, mica_sum(s, g->k, NULL, 0, false), mica_i32(s, 4));
    assert_int_equal(mica_if(s, pred, halve, keep, &row, &g->x, 1, &y, 1), MICA_OK);
    result(g, y);
    const mica_while_options bound = {.max_rounds = 5};
    assert_int_equal(mica_while(s, is_large, halve, &row, &g->x, 1, &bound, &y, &rounds), MICA_OK);
    result(g, y);
    result(g, rounds);
    const mica_scan_options back = {.reverse = true, .checkpoints = 2};
    assert_int_equal(mica_scan(s, add_row, &row, &row, 1, &g->x, 1, &back, &y, &ys, 1), MICA_OK);
    result(g, y);
    result(g, ys);
}

/* y = number * a^2 - b, of two operands of one shape. */
static mica_status custom_infer(void *user, const int64_t *numbers, int n_numbers,
                                const mica_shape *in, int n_in, mica_shape *out) {
    (void)user, (void)numbers;
    if (n_numbers != 1 || n_in != 2 || in[0].dtype != MICA_F32 || in[1].dtype != MICA_F32)
        return MICA_EDTYPE;
    for (int k = 0; k < in[0].ndim; k++)
        if (in[1].ndim != in[0].ndim || in[0].shape[k] != in[1].shape[k]) return MICA_ESHAPE;
    *out = in[0];
    return MICA_OK;
}

static mica_status custom_run(void *user, const int64_t *numbers, int n_numbers,
                              const mica_shape *in, const void *const *data, int n_in,
                              const mica_shape *out, void *result) {
    (void)user, (void)n_numbers, (void)in, (void)n_in;
    const float *a = data[0], *b = data[1];
    float *y = result;
    int64_t n = 1;
    for (int k = 0; k < out->ndim; k++)
        n *= out->shape[k];
    for (int64_t i = 0; i < n; i++) {
        if (a[i] == 1e9f) return MICA_EIO;
        y[i] = (float)numbers[0] * a[i] * a[i] - b[i];
    }
    return MICA_OK;
}

static mica_status custom_vjp(void *user, mica_scope *s, const int64_t *numbers, int n_numbers,
                              const mica_array *in, int n_in, mica_array y, mica_array dy,
                              mica_array *dx) {
    (void)user, (void)n_numbers, (void)n_in, (void)y;
    mica_array slope = mica_multiply(s, in[0], mica_f32(s, (float)(2 * numbers[0])));
    dx[0] = mica_multiply(s, slope, dy);
    dx[1] = mica_negative(s, dy);
    return MICA_OK;
}

void test_custom_register(void) {
    static bool done;
    const mica_custom_op op = {
        .name = "test.difference", .infer = custom_infer, .run = custom_run, .vjp = custom_vjp};
    if (!done) assert_int_equal(mica_custom_register(&op), MICA_OK);
    done = true;
}

static void record_recurrences(test_graph *g) {
    mica_scope *s = g->s;
    mica_array x = mica_reshape(s, g->x, SHAPE(2, 3, 4)), last; /* 2 rows, 3 steps, 4 channels */
    mica_array a = mica_reshape(s, mica_slice_axis(s, g->w, 1, 0, 5), SHAPE(4, 5));
    mica_array b = mica_reshape(s, mica_slice_axis(s, g->w, 1, 5, 20), SHAPE(2, 3, 10));
    mica_array c = mica_slice_axis(s, b, 2, 5, 10), first = mica_reshape(s, g->cache, SHAPE(48));
    b = mica_slice_axis(s, b, 2, 0, 5);
    first = mica_reshape(s, mica_slice_axis(s, first, 0, 0, 40), SHAPE(2, 4, 5));
    const mica_selective_scan_options o = {.initial = first};
    mica_array y = mica_selective_scan(s, x, mica_square(s, x), a, b, c, &o, &last), dx;
    result(g, y);
    result(g, last);
    y = mica_add(s, mica_sum(s, mica_square(s, y), NULL, 0, false),
                 mica_sum(s, mica_square(s, last), NULL, 0, false));
    assert_int_equal(mica_grad(s, y, MICA_NONE, &x, 1, &dx), MICA_OK);
    result(g, dx);
    mica_array q = mica_reshape(s, mica_slice_axis(s, g->w, 1, 0, 9), SHAPE(2, 3, 2, 3));
    mica_array v = mica_reshape(s, mica_slice_axis(s, g->w, 1, 9, 15), SHAPE(2, 3, 2, 2));
    mica_array gate = mica_squeeze(s, mica_slice_axis(s, v, 3, 0, 1), 3);
    mica_array state = mica_reshape(s, g->x, SHAPE(2, 2, 3, 2));
    mica_array square = mica_reshape(s, mica_slice_axis(s, g->w, 1, 0, 9), SHAPE(4, 3, 3));
    square = mica_add(s, square, mica_multiply(s, mica_eye(s, 3, 3, 0, MICA_F32), mica_f32(s, 4)));
    result(g, mica_solve(s, square, mica_slice_axis(s, square, 2, 0, 2)));
    result(g, mc_require(s, square, mica_less(s, square, mica_f32(s, 90)), MC_REQUIRE_SCALE));
    test_custom_register();
    const mica_array two[2] = {g->x, g->x};
    result(g, mica_custom(s, "test.difference", (int64_t[]){3}, 1, two, 2));
    result(g, mica_gated_delta(s, q, mica_flip(s, q, 3), v, gate, gate, state, &last));
    result(g, last);
}

/* Between the ranks of a group of one, which stays open: files name it by its number. */
static void record_collectives(test_graph *g) {
    static mica_group *group;
    mica_scope *s = g->s;
    mica_array order = MICA_NONE;
    if (!group) assert_int_equal(mica_group_open(NULL, &group), MICA_OK);
    result(g, mica_all_reduce(s, group, g->x, &order));
    result(g, mica_all_gather(s, group, g->x, 1, &order));
    result(g, mica_reduce_scatter(s, group, g->x, 0, &order));
    result(g, mica_broadcast(s, group, g->x, 0, &order));
    result(g, mica_send(s, group, g->x, 0, &order));
    result(g, mica_recv(s, group, g->x, 0, &order));
    result(g, order);
}

/* x u8 by weights i8, with all that may follow. */
static void record_integers(test_graph *g) {
    mica_scope *s = g->s;
    mica_array x = mica_astype(s, mica_multiply(s, mica_abs(s, g->w), mica_f32(s, 40)), MICA_U8);
    mica_array w = mica_astype(s, mica_multiply(s, g->w, mica_f32(s, 40)), MICA_I8);
    mica_array scale = data(s, MICA_F32, SHAPE(4), 0.01f);
    x = mica_reshape(s, x, SHAPE(2, 4, 4, 8));
    w = mica_reshape(s, w, SHAPE(4, 64));
    w = mica_slice_axis(s, w, 1, 0, 32);
    const int last = -1;
    mc_integer_rest rest = {.zero = mica_i32(s, 7),
                            .sums = mica_sum(s, mica_astype(s, w, MICA_I32), &last, 1, false)};
    result(g, mc_integer_matmul(s, mica_reshape(s, x, SHAPE(8, 32)), w, &rest));
    rest.scale = rest.bias = scale;
    const mica_conv_options o = {.padding_lo = {1}, .stride = {1, 2}};
    result(g, mc_integer_conv(s, x, mica_reshape(s, w, SHAPE(4, 2, 2, 8)), &o, &rest));
}

static void record_conv(test_graph *g) {
    mica_scope *s = g->s;
    mica_array x = mica_reshape(s, g->w, SHAPE(2, 8, 4, 4));
    mica_array w = mica_reshape(s, mica_slice_axis(s, g->w, 0, 0, 2), SHAPE(4, 4, 4, 2));
    const mica_conv_options o = {.stride = {2, 1},
                                 .padding_lo = {2, -1},
                                 .padding_hi = {1, 3},
                                 .kernel_dilation = {1, 2},
                                 .input_dilation = {2, 3},
                                 .groups = 2};
    result(g, mica_conv_general(s, x, w, &o));
    const mica_window_options window = {.window = {1, 3, 2},
                                        .stride = {1, 2},
                                        .dilation = {1, 1, 2},
                                        .base_dilation = {1, 2},
                                        .padding_lo = {0, 1, -1},
                                        .padding_hi = {0, 2, 1}};
    x = mica_reshape(s, g->w, SHAPE(4, 8, 8));
    for (int kind = MICA_WINDOW_MAX; kind <= MICA_WINDOW_MEAN; kind++)
        result(g, mica_reduce_window(s, x, (mica_window_kind)kind, &window));
    result(g, mica_abs(s, mica_fft(s, g->x, 5, 1, MICA_FFT_ORTHO)));
    result(g, mica_irfft(s, mica_complex(s, g->x, g->k), 0, 1, MICA_FFT_BACKWARD));
}

const test_graph_part test_graph_parts[] = {
    {"unary", record_unary},
    {"convert", record_convert},
    {"binary", record_binary},
    {"reduce", record_reduce},
    {"views", record_views},
    {"moving", record_moving},
    {"matmul", record_matmul},
    {"fused", record_fused},
    {"gradient", record_gradient},
    {"control", record_control},
    {"recurrences", record_recurrences},
    {"conv", record_conv},
    {"integers", record_integers},
    {"collectives", record_collectives},
};
const size_t test_graph_n_parts = sizeof test_graph_parts / sizeof *test_graph_parts;

static void add_param(test_graph *g, const char *name, mica_array x, bool donate) {
    assert_true(mica_valid(x));
    g->params[g->ports.n_params++] = (mc_graph_port){name, x.node, donate};
}

int test_graph_open_device(void **state) {
    static mica_device *device;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device), 0);
    *state = device;
    return 0;
}

int test_graph_close_device(void **state) {
    mica_device *device = *state;
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

void test_graph_open(test_graph *g, mica_device *device, const test_graph_part *part) {
    *g = (test_graph){.ports = {0}};
    assert_int_equal(mica_scope_open(device, &g->s), MICA_OK);
    g->x = data(g->s, MICA_F32, SHAPE(4, 6), 0.25f);
    g->k = data(g->s, MICA_I32, SHAPE(4, 6), 1);
    g->cache = data(g->s, MICA_F32, SHAPE(8, 6), 0.5f);
    g->w = data(g->s, MICA_F32, SHAPE(4, 64), 0.0625f);
    add_param(g, "x", g->x, false);
    add_param(g, "k", g->k, false);
    add_param(g, "cache", g->cache, true);
    for (size_t i = 0; i < test_graph_n_parts; i++)
        if (!part || part == &test_graph_parts[i]) test_graph_parts[i].record(g);
    g->ports.params = g->params;
    g->ports.results = g->results;
}

void test_graph_close(test_graph *g) {
    mica_scope_close(&g->s);
}
