/* reduce_window and pools: kernels against decompositions and against sums written out, dtypes,
 * layouts, NaN, threads, empty arrays, what is refused. Their goldens are those of
 * tests/op/golden_window.c. */
#include <mica/signal.h>

#include "op/fused.h"

static const mica_window_kind kinds[] = {MICA_WINDOW_MAX, MICA_WINDOW_MIN, MICA_WINDOW_SUM,
                                         MICA_WINDOW_PROD, MICA_WINDOW_MEAN};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Numbers of every kind for two axes. */
static mica_window_options random_options(uint32_t *seed) {
    mica_window_options o = {.window = {1}};
    int64_t *const numbers[] = {o.window,        o.stride,     o.dilation,
                                o.base_dilation, o.padding_lo, o.padding_hi};
    for (int i = 0; i < 6; i++)
        for (int k = 1; k < 3; k++) {
            *seed = *seed * 1664525u + 1013904223u;
            numbers[i][k] = i < 4 ? 1 + (*seed >> 20) % 3 : (int64_t)(*seed >> 20) % 5 - 1;
        }
    return o;
}

/* x [n, m] and what a window of row `at`, columns from `left`, makes of it; in double. */
static double reduce(const float *x, const int64_t shape[2], const mica_window_options *o,
                     mica_window_kind kind, const int64_t at[2]) {
    double y = kind == MICA_WINDOW_MAX   ? -INFINITY
               : kind == MICA_WINDOW_MIN ? INFINITY
                                         : kind == MICA_WINDOW_PROD;
    for (int64_t p = 0; p < o->window[1]; p++)
        for (int64_t q = 0; q < o->window[2]; q++) {
            int64_t row = at[0] * o->stride[1] + p * o->dilation[1] - o->padding_lo[1];
            int64_t column = at[1] * o->stride[2] + q * o->dilation[2] - o->padding_lo[2];
            if (row < 0 || column < 0 || row % o->base_dilation[1] || column % o->base_dilation[2])
                continue;
            row /= o->base_dilation[1];
            column /= o->base_dilation[2];
            if (row >= shape[0] || column >= shape[1]) continue;
            double v = (double)x[row * shape[1] + column];
            y = kind == MICA_WINDOW_MAX    ? fmax(y, v)
                : kind == MICA_WINDOW_MIN  ? fmin(y, v)
                : kind == MICA_WINDOW_PROD ? y * v
                                           : y + v;
        }
    double volume = (double)(o->window[1] * o->window[2]);
    return kind == MICA_WINDOW_MEAN ? y / volume : y;
}

static int64_t count_of(int64_t length, const mica_window_options *o, int axis) {
    int64_t room = (length - 1) * o->base_dilation[axis] + o->padding_lo[axis] +
                   o->padding_hi[axis] - (o->window[axis] - 1) * o->dilation[axis];
    return room < 0 ? 0 : room / o->stride[axis] + 1;
}

static void every_option(void **state) {
    (void)state;
    bench b = bench_open();
    uint32_t seed = 5;
    for (int round = 0; round < 40; round++) {
        const mica_window_options o = random_options(&seed);
        const int64_t shape[2] = {4 + round % 5, 3 + round % 7};
        mica_array x = noise(b.s, (uint64_t)round, MICA_F32, SHAPE(2, shape[0], shape[1]));
        float *xs = floats_of(b.s, x);
        int64_t rows = count_of(shape[0], &o, 1), columns = count_of(shape[1], &o, 2);
        float *want = calloc((size_t)(2 * rows * columns) + 1, sizeof *want);
        assert_non_null(want);
        for (int k = 0; k < KINDS; k++) {
            int64_t n = 0;
            for (int64_t i = 0; i < 2; i++)
                for (int64_t p = 0; p < rows; p++)
                    for (int64_t q = 0; q < columns; q++)
                        want[n++] = (float)reduce(xs + i * shape[0] * shape[1], shape, &o, kinds[k],
                                                  (int64_t[]){p, q});
            mica_array y = mica_reduce_window(b.s, x, kinds[k], &o);
            expect_shape(y, MICA_F32, SHAPE(2, rows, columns));
            float *got = floats_of(b.s, y);
            for (int64_t i = 0; i < n; i++)
                if (!(got[i] == want[i] || fabsf(got[i] - want[i]) < 4e-6f))
                    fail_msg("round %d, kind %d, element %lld: %g, not %g", round, k, (long long)i,
                             (double)got[i], (double)want[i]);
            free(got);
        }
        free(xs);
        free(want);
    }
    bench_close(&b);
}

/* The kernel and the decomposition of the op, along one axis, over every dtype and layout. */
static void kernel_is_the_decomposition(void **state) {
    (void)state;
    bench b = bench_open();
    static const mica_dtype dtypes[] = {MICA_BOOL, MICA_U8,  MICA_I8,   MICA_U16, MICA_I32,
                                        MICA_I64,  MICA_F16, MICA_BF16, MICA_F32};
    const mica_window_options o = {
        .window = {1, 3}, .stride = {1, 2}, .padding_lo = {0, 2}, .padding_hi = {0, 1}};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int k = 0; k < 4; k++) {
            mica_array x = noise(b.s, d, MICA_F32, SHAPE(3, 9, 70));
            x = mica_astype(b.s, mica_multiply(b.s, x, mica_f32(b.s, 3)), dtypes[d]);
            mica_array y = mica_reduce_window(b.s, x, kinds[k], &o);
            mica_array other =
                mica_swapaxes(b.s, mica_contiguous(b.s, mica_swapaxes(b.s, x, 0, 2)), 0, 2);
            expect_same_sums(b.s, mica_reduce_window(b.s, other, kinds[k], &o), y, 1e-5);
            if (mc_node_of(y)->op == MC_OP_REDUCE_WINDOW)
                expect_near(b.s, decomposed(b.s, y), y, 1e-5);
        }
    bench_close(&b);
}

/* A window of padding alone is the neutral element: the lowest and greatest number of the dtype. */
static void neutral_elements(void **state) {
    (void)state;
    bench b = bench_open();
    static const struct {
        mica_dtype dtype;
        double low, high;
    } rows[] = {{MICA_BOOL, 0, 1},
                {MICA_U8, 0, 255},
                {MICA_I8, -128, 127},
                {MICA_U16, 0, 65535},
                {MICA_I16, -32768, 32767},
                {MICA_I32, -2147483648.0, 2147483647.0},
                {MICA_F32, -INFINITY, INFINITY}};
    const mica_window_options o = {.window = {2}, .stride = {2}, .padding_lo = {2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mica_array x = mica_ones(b.s, SHAPE(2), rows[i].dtype);
        mica_array low = mica_reduce_window(b.s, x, MICA_WINDOW_MAX, &o);
        mica_array high = mica_reduce_window(b.s, x, MICA_WINDOW_MIN, &o);
        mica_array wanted[2] = {mica_scalar(b.s, rows[i].low, rows[i].dtype),
                                mica_scalar(b.s, rows[i].high, rows[i].dtype)};
        mica_array one = mica_slice_axis(b.s, x, 0, 0, 1);
        for (int k = 0; k < 2; k++)
            wanted[k] = mica_concatenate(
                b.s, (mica_array[]){mica_reshape(b.s, wanted[k], SHAPE(1)), one}, 2, 0);
        expect_same(b.s, low, wanted[0]);
        expect_same(b.s, high, wanted[1]);
    }
    bench_close(&b);
}

static void corners_and_nan(void **state) {
    (void)state;
    bench b = bench_open();
    const float square[] = {1, 2, 3, 4}, row[] = {1, NAN, 3, 0.5f};
    const float padded[] = {0.25f, 0.75f, 0.5f, 1, 2.5f, 1.5f, 0.75f, 1.75f, 1};
    const float alone[] = {1, 1.5f, 2, 2, 2.5f, 3, 3, 3.5f, 4};
    mica_array x = mica_from_data(b.s, square, MICA_F32, SHAPE(1, 1, 2, 2));
    mica_pool_options o = {.kernel = {2, 2}, .padding_lo = {1, 1}, .padding_hi = {1, 1}};
    expect_same(b.s, mica_pool(b.s, x, 2, MICA_WINDOW_MEAN, MICA_CHANNELS_FIRST, &o),
                mica_from_data(b.s, padded, MICA_F32, SHAPE(1, 1, 3, 3)));
    o.exclude_padding = true;
    expect_same(b.s, mica_pool(b.s, x, 2, MICA_WINDOW_MEAN, MICA_CHANNELS_FIRST, &o),
                mica_from_data(b.s, alone, MICA_F32, SHAPE(1, 1, 3, 3)));
    x = mica_from_data(b.s, row, MICA_F32, SHAPE(4));
    const mica_window_options two = {.window = {2}};
    const bool nan[] = {true, true, false};
    for (int k = 0; k < 2; k++)
        expect_same(b.s, mica_isnan(b.s, mica_reduce_window(b.s, x, kinds[k], &two)),
                    mica_from_data(b.s, nan, MICA_BOOL, SHAPE(3)));
    bench_close(&b);
}

static void empty_ones(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_pool_options o = {.kernel = {3}}, padded = {.kernel = {3}, .padding_lo = {2}};
    for (int k = 0; k < KINDS; k++) {
        mica_array none = mica_zeros(b.s, SHAPE(2, 3, 0), MICA_F32), dx;
        mica_array y = mica_pool(b.s, none, 1, kinds[k], MICA_CHANNELS_FIRST, &o);
        expect_shape(y, MICA_F32, SHAPE(2, 3, 0));
        assert_int_equal(mica_eval(b.s, y), MICA_OK);
        y = mica_pool(b.s, mica_zeros(b.s, SHAPE(0, 3, 5), MICA_F32), 1, kinds[k],
                      MICA_CHANNELS_FIRST, &padded);
        expect_shape(y, MICA_F32, SHAPE(0, 3, 5));
        assert_int_equal(mica_eval(b.s, y), MICA_OK);
        mica_array x = mica_zeros(b.s, SHAPE(2, 3, 2), MICA_F32);
        y = mica_pool(b.s, x, 1, kinds[k], MICA_CHANNELS_FIRST, &o);
        expect_shape(y, MICA_F32, SHAPE(2, 3, 0)); /* the window is longer */
        assert_int_equal(mica_grad(b.s, mica_sum(b.s, y, NULL, 0, false), MICA_NONE, &x, 1, &dx),
                         MICA_OK);
        expect_same(b.s, dx, mica_zeros(b.s, SHAPE(2, 3, 2), MICA_F32));
    }
    bench_close(&b);
}

static void threads_change_nothing(void **state) {
    (void)state;
    float *first[KINDS] = {NULL};
    const mica_pool_options o = {.kernel = {3, 3}, .padding_lo = {1, 1}, .padding_hi = {1, 1}};
    for (int threads = 1; threads < 5; threads++) {
        bench b = bench_open_cpu(&(mica_device_options){.threads = threads});
        mica_array x = noise(b.s, 1, MICA_F32, SHAPE(2, 30, 25, 70));
        for (int k = 0; k < KINDS; k++) {
            mica_array y = mica_pool(b.s, x, 2, kinds[k], MICA_CHANNELS_LAST, &o);
            float *got = floats_of(b.s, y);
            if (first[k])
                assert_memory_equal(got, first[k], (size_t)mica_array_size(y) * sizeof *got);
            free(first[k]);
            first[k] = got;
        }
        bench_close(&b);
    }
    for (int k = 0; k < KINDS; k++)
        free(first[k]);
}

static void errors(void **state) {
    (void)state;
    bench b = bench_open();
#define F32(...) mica_zeros(b.s, SHAPE(__VA_ARGS__), MICA_F32)
#define POOL(part, status, axes, ...)                                                       \
    expect_failure(&b,                                                                      \
                   mica_pool(b.s, F32(1, 2, 6), axes, MICA_WINDOW_MAX, MICA_CHANNELS_FIRST, \
                             &(mica_pool_options){__VA_ARGS__}),                            \
                   status, part)
    POOL("kernel 0 must be 1 or more", MICA_EINVAL, 1, .kernel = {0});
    POOL("kernel -1 must be", MICA_EINVAL, 1, .kernel = {-1});
    POOL("stride -1", MICA_EINVAL, 1, .kernel = {2}, .stride = {-1});
    POOL("padding -1 and 0", MICA_EINVAL, 1, .kernel = {2}, .padding_lo = {-1});
    POOL("padding 2 and 0", MICA_EINVAL, 1, .kernel = {2}, .padding_lo = {2});
    POOL("padding 0 and 4", MICA_EINVAL, 1, .kernel = {2}, .dilation = {3}, .padding_hi = {4});
    POOL("pool: spatial axis 0", MICA_EINVAL, 1, .kernel = {2}, .dilation = {-2});
    POOL("has not the 4 axes", MICA_ESHAPE, 2, .kernel = {2, 2});
    POOL("1 to 3 spatial axes", MICA_EINVAL, 4, .kernel = {2});
    POOL("1 to 3 spatial axes", MICA_EINVAL, 0, .kernel = {2});
    POOL("kernel 1073741824", MICA_EINVAL, 1, .kernel = {1 << 30});
    expect_failure(&b, mica_pool(b.s, F32(1, 2, 6), 1, MICA_WINDOW_MAX, MICA_CHANNELS_FIRST, NULL),
                   MICA_EINVAL, "options are needed");
#define WINDOW(part, status, ...)                                                                 \
    expect_failure(                                                                               \
        &b,                                                                                       \
        mica_reduce_window(b.s, F32(2, 6), MICA_WINDOW_SUM, &(mica_window_options){__VA_ARGS__}), \
        status, part)
    WINDOW("axis 1: window -3", MICA_EINVAL, .window = {1, -3});
    WINDOW("axis 1: stride -1", MICA_EINVAL, .stride = {1, -1});
    WINDOW("axis 0: dilation -1", MICA_EINVAL, .dilation = {-1});
    WINDOW("axis 0: base dilation -2", MICA_EINVAL, .base_dilation = {-2});
    WINDOW("axis 1: padding 1073741824", MICA_EINVAL, .padding_lo = {0, 1 << 30});
    WINDOW("axis 1: padding -1073741824", MICA_EINVAL, .padding_hi = {0, -(1 << 30)});
    expect_failure(&b, mica_reduce_window(b.s, F32(2), MICA_WINDOW_SUM, NULL), MICA_EINVAL,
                   "options is NULL");
    const mica_window_options none = {.ceil = false};
    expect_failure(&b, mica_reduce_window(b.s, F32(2), (mica_window_kind)5, &none), MICA_EINVAL,
                   "there is no kind 5");
    expect_failure(
        &b, mica_reduce_window(b.s, mica_zeros(b.s, SHAPE(2), MICA_C64), MICA_WINDOW_SUM, &none),
        MICA_EDTYPE, "complex");
    bench_close(&b);
}

/* Pools, convolutions and transforms, and their gradients. */
static bool compute(void *arg) {
    bench *b = arg;
    mica_scope *s = NULL;
    if (mica_scope_open(b->device, &s) != MICA_OK) return false;
    mica_array x = mica_reshape(s, mica_arange(s, 0, 2, 0.0625, MICA_F32), SHAPE(1, 2, 4, 4));
    const mica_pool_options o = {.kernel = {2, 2}, .padding_lo = {1}, .ceil = true};
    const mica_conv_options conv = {.padding_lo = {1, 1}, .stride = {2, 1}, .groups = 2};
    mica_array w = mica_slice_axis(s, mica_reshape(s, x, SHAPE(4, 1, 4, 2)), 2, 0, 2), y[6];
    y[0] = mica_pool(s, x, 2, MICA_WINDOW_MEAN, MICA_CHANNELS_FIRST, &o);
    y[1] = mica_pool(s, x, 2, MICA_WINDOW_MAX, MICA_CHANNELS_LAST, &o);
    y[2] = mica_conv2d(s, x, w, MICA_CHANNELS_FIRST, &conv);
    y[3] = mica_irfft(s, mica_rfft(s, x, 7, 2, MICA_FFT_ORTHO), 0, 2, MICA_FFT_ORTHO);
    mica_array codes = mica_astype(s, x, MICA_I8), codes_w = mica_astype(s, w, MICA_I8), dx[2];
    y[4] = mica_qconv2d(s, codes, codes_w, MICA_NONE, &conv, NULL);
    const mica_array xs[2] = {x, w};
    mica_array sum = MICA_NONE;
    for (int i = 0; i < 4; i++) {
        mica_array part = mica_sum(s, y[i], NULL, 0, false);
        sum = i == 0 ? part : mica_add(s, sum, part);
    }
    bool good = mica_grad(s, sum, MICA_NONE, xs, 2, dx) == MICA_OK;
    y[5] = dx[0];
    good = good && mica_eval_n(s, y, 6) == MICA_OK && mica_eval(s, dx[1]) == MICA_OK;
    mica_scope_close(&s);
    test_forget_plans(b->device);
    return good;
}

static void each_allocation_fails(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    bench b = bench_open_with(&(mica_device_options){.threads = 1});
    assert_true(test_fail_each_allocation(compute, &b) > 20);
    bench_close(&b);
}

/* The largest and smallest of bytes are those of the same numbers as floats. */
static void bytes_as_floats(void **state) {
    (void)state;
    bench b = bench_open();
    const mica_window_options o = {.window = {1, 3, 2, 1},
                                   .stride = {1, 2, 1, 1},
                                   .padding_lo = {0, 1, 3, 0},
                                   .padding_hi = {0, 1, 0, 0}};
    static const mica_dtype dtypes[] = {MICA_U8, MICA_I8};
    for (int k = 0; k < 8; k++) {
        const mica_dtype dtype = dtypes[k & 1];
        const mica_window_kind kind = k & 2 ? MICA_WINDOW_MAX : MICA_WINDOW_MIN;
        mica_array x = noise(b.s, (uint64_t)k, MICA_F32, SHAPE(2, 7, 5, k & 4 ? 67 : 16));
        x = mica_astype(b.s, mica_multiply(b.s, x, mica_f32(b.s, 200)), dtype);
        mica_array y = mica_reduce_window(b.s, x, kind, &o);
        mica_array want = mica_reduce_window(b.s, mica_astype(b.s, x, MICA_F32), kind, &o);
        want = mica_astype(b.s, want, dtype);
        const size_t n = mica_array_bytes(y);
        uint8_t *bytes = malloc(2 * n);
        assert_non_null(bytes);
        assert_int_equal(mica_read(y, bytes, n), MICA_OK);
        assert_int_equal(mica_read(want, bytes + n, n), MICA_OK);
        assert_memory_equal(bytes, bytes + n, n);
        free(bytes);
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_as_floats),
        cmocka_unit_test(every_option),
        cmocka_unit_test(kernel_is_the_decomposition),
        cmocka_unit_test(neutral_elements),
        cmocka_unit_test(corners_and_nan),
        cmocka_unit_test(empty_ones),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(errors),
        cmocka_unit_test(each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
