/* Convolutions: the kernel against the decomposition and against sums written out, layouts of the
 * operands, halves, lengths of 0 and 1, negative padding, numbers of threads, errors. */
#include <mica/signal.h>

#include "graph/attr.h"
#include "op/fused.h"

static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16};
static const double slack[] = {4e-6, 2e-3, 2e-2};

/* y[n, p, o] in double, one loop a letter: one spatial axis. */
static void one_axis(const float *x, const float *w, const int64_t *sizes,
                     const mica_conv_options *o, int64_t places, float *y) {
    int64_t n = sizes[0], length = sizes[1], c = sizes[2], outs = sizes[3], taps = sizes[4];
    int64_t each = c / o->groups, base = o->input_dilation[0];
    for (int64_t b = 0; b < n; b++)
        for (int64_t p = 0; p < places; p++)
            for (int64_t k = 0; k < outs; k++) {
                double sum = 0;
                int64_t group = k / (outs / o->groups);
                for (int64_t q = 0; q < taps; q++) {
                    int64_t at = p * o->stride[0] + q * o->kernel_dilation[0] - o->padding_lo[0];
                    if (at < 0 || at % base || at / base >= length) continue;
                    for (int64_t j = 0; j < each; j++)
                        sum += (double)x[(b * length + at / base) * c + group * each + j] *
                               (double)w[(k * taps + (o->flip ? taps - 1 - q : q)) * each + j];
                }
                y[(b * places + p) * outs + k] = (float)sum;
            }
}

/* Random numbers of every kind, by sums. */
static void every_option(void **state) {
    (void)state;
    bench b = bench_open();
    uint32_t seed = 7;
    for (int round = 0; round < 60; round++) {
        int64_t r[12];
        for (int i = 0; i < 12; i++) {
            seed = seed * 1664525u + 1013904223u;
            r[i] = seed >> 20;
        }
        mica_conv_options o = {.stride = {1 + r[0] % 3},
                               .padding_lo = {r[1] % 6 - 2},
                               .padding_hi = {r[2] % 6 - 2},
                               .kernel_dilation = {1 + r[3] % 3},
                               .input_dilation = {1 + r[4] % 3},
                               .groups = 1 + r[5] % 3,
                               .flip = r[6] % 2 != 0};
        int64_t sizes[5] = {1 + r[7] % 2, 5 + r[8] % 9, o.groups * (1 + r[9] % 4),
                            o.groups * (1 + r[10] % 5), 1 + r[11] % 4};
        if (round % 3 == 0) /* a filter for each channel */
            sizes[2] = sizes[3] = o.groups = 1 + r[5] % 70;
        int64_t room = (sizes[1] - 1) * o.input_dilation[0] + o.padding_lo[0] + o.padding_hi[0] -
                       (sizes[4] - 1) * o.kernel_dilation[0];
        int64_t places = room < 0 ? 0 : room / o.stride[0] + 1;
        mica_array x = noise(b.s, 1, MICA_F32, SHAPE(sizes[0], sizes[1], sizes[2]));
        mica_array w = noise(b.s, 2, MICA_F32, SHAPE(sizes[3], sizes[4], sizes[2] / o.groups));
        mica_array y = mica_conv_general(b.s, x, w, &o);
        expect_shape(y, MICA_F32, SHAPE(sizes[0], places, sizes[3]));
        float *xs = floats_of(b.s, x), *ws = floats_of(b.s, w);
        float *want = calloc((size_t)(sizes[0] * places * sizes[3]) + 1, sizeof *want);
        assert_non_null(want);
        one_axis(xs, ws, sizes, &o, places, want);
        expect_near(b.s, y, mica_from_data(b.s, want, MICA_F32, SHAPE(sizes[0], places, sizes[3])),
                    4e-6);
        expect_near(b.s, decomposed(b.s, y), y, 4e-6);
        free(xs);
        free(ws);
        free(want);
    }
    bench_close(&b);
}

static void kernel_is_the_decomposition(void **state) {
    (void)state;
    bench b = bench_open();
    static const mica_conv_options all[] = {
        {.groups = 1},
        {.stride = {2, 1, 2}, .padding_lo = {1, 2, 0}, .padding_hi = {0, 1, 1}},
        {.kernel_dilation = {2, 1, 1}, .input_dilation = {1, 2, 1}, .flip = true},
        {.groups = 4, .padding_lo = {1, 1, 1}, .padding_hi = {1, 1, 1}},
        {.groups = 8, .input_dilation = {2, 1, 2}, .padding_lo = {-1, 0, 1}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int d = 0; d < 3; d++)
            for (int64_t taps = 1; taps < 4; taps += 2) {
                int64_t each = 8 / (all[i].groups ? all[i].groups : 1);
                mica_array x = noise(b.s, 1, dtypes[d], SHAPE(2, 6, 5, 7, 8));
                mica_array w = noise(b.s, 2, dtypes[d], SHAPE(24, taps, taps, taps, each));
                mica_array y = mica_conv_general(b.s, x, w, &all[i]);
                expect_near(b.s, y, decomposed(b.s, y), slack[d]);
                /* f32 with a half, and both in other layouts */
                mica_array first =
                    mica_conv_general(b.s, mica_astype(b.s, x, MICA_F32), w, &all[i]);
                expect_near(b.s, mica_astype(b.s, first, dtypes[d]), y, slack[d]);
                mica_array other =
                    mica_moveaxis(b.s, mica_contiguous(b.s, mica_moveaxis(b.s, x, -1, 1)), 1, -1);
                mica_array turned =
                    mica_moveaxis(b.s, mica_contiguous(b.s, mica_moveaxis(b.s, w, -1, 1)), 1, -1);
                expect_same_sums(b.s, mica_conv_general(b.s, other, turned, &all[i]), y, slack[d]);
            }
    bench_close(&b);
}

/* A filter for each channel, in two and three axes. */
static void depthwise(void **state) {
    (void)state;
    bench b = bench_open();
    static const mica_conv_options all[] = {
        {.padding_lo = {1, 1, 1}, .padding_hi = {1, 1, 1}},
        {.stride = {2, 1, 2}, .padding_lo = {0, 2, 1}, .padding_hi = {-1, 0, 1}, .flip = true},
        {.kernel_dilation = {1, 2, 1}, .input_dilation = {2, 1, 2}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int d = 0; d < 3; d++)
            for (int64_t c = 4; c < 100; c += 23) {
                mica_conv_options o = all[i];
                o.groups = c;
                mica_array x = noise(b.s, 1, dtypes[d], SHAPE(2, 6, 5, 7, c));
                mica_array w = noise(b.s, 2, dtypes[d], SHAPE(c, 2, 3, 3, 1));
                mica_array y = mica_conv_general(b.s, x, w, &o);
                expect_near(b.s, y, decomposed(b.s, y), slack[d]);
                mica_array other =
                    mica_moveaxis(b.s, mica_contiguous(b.s, mica_moveaxis(b.s, x, -1, 1)), 1, -1);
                expect_same_sums(b.s, mica_conv_general(b.s, other, w, &o), y, slack[d]);
            }
    bench_close(&b);
}

/* Has the bits of `first`, unless that is NULL, which it frees. Returns its own, to be freed. */
static float *expect_again(mica_scope *s, mica_array y, float *first) {
    float *got = floats_of(s, y);
    if (first) assert_memory_equal(got, first, (size_t)mica_array_size(y) * sizeof *got);
    free(first);
    return got;
}

/* Many places and channels, so that there are several blocks, tiles and ranges; few places and
 * long sums, which are added in parts: of taps, of a tap's channels, of copied windows; and what
 * is added to them. */
static void threads_change_nothing(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {/* height, width, channels, taps of an axis */
                                        {15, 14, 130, 3},
                                        {7, 7, 300, 3},
                                        {2, 3, 3000, 1},
                                        {12, 11, 12, 11}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        float *first = NULL;
        const int64_t *r = shapes[i];
        for (int threads = 1; threads < 5; threads++) {
            bench b = bench_open_cpu(&(mica_device_options){.threads = threads});
            mica_array x = noise(b.s, 1, MICA_F32, SHAPE(1, r[0], r[1], r[2]));
            mica_array w = noise(b.s, 2, MICA_F32, SHAPE(70, r[3], r[3], r[2]));
            const mica_conv_options o = {.padding_lo = {1, 1}, .padding_hi = {1, 1}};
            mica_array conv = mica_conv_general(b.s, x, w, &o);
            mica_array more = noise(b.s, 3, MICA_F32, mica_array_shape(conv), 4);
            mica_array y = mica_maximum(b.s, mica_add(b.s, conv, more), mica_f32(b.s, 0));
            if (threads == 1) {
                mica_array want = mica_add(b.s, decomposed(b.s, conv), more);
                expect_near(b.s, y, mica_maximum(b.s, want, mica_f32(b.s, 0)), 1e-5);
            }
            first = expect_again(b.s, y, first);
            bench_close(&b);
        }
        free(first);
    }
}

/* Filters of 3 x 3, which many places compute by tiles: of any width, height and padding, with what
 * follows them; each image has the bits that it has alone. */
static void filters_of_three(void **state) {
    (void)state;
    static const struct {
        int64_t x[4], n, lo[2], hi[2];
    } all[] = {{{2, 15, 14, 17}, 37, {1, 1}, {1, 1}},
               {{1, 13, 11, 16}, 16, {2, 0}, {0, 3}},
               {{3, 12, 26, 33}, 130, {0, 1}, {0, 0}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        float *first = NULL;
        for (int threads = 1; threads < 5; threads++) {
            bench b = bench_open_cpu(&(mica_device_options){.threads = threads});
            const mica_conv_options o = {.padding_lo = {all[i].lo[0], all[i].lo[1]},
                                         .padding_hi = {all[i].hi[0], all[i].hi[1]}};
            mica_array x = noise(b.s, 1, MICA_F32, all[i].x, 4);
            mica_array w = noise(b.s, 2, MICA_F32, SHAPE(all[i].n, 3, 3, all[i].x[3]));
            mica_array conv = mica_conv_general(b.s, x, w, &o);
            mica_array bias = noise(b.s, 3, MICA_F32, SHAPE(all[i].n));
            mica_array more = noise(b.s, 4, MICA_F32, mica_array_shape(conv), 4);
            mica_array y = mica_silu(b.s, mica_add(b.s, mica_add(b.s, conv, bias), more));
            mica_array plain = mica_add(b.s, mica_add(b.s, decomposed(b.s, conv), bias), more);
            expect_near(b.s, y, mica_silu(b.s, plain), 1e-5);
            mica_array last = mica_slice_axis(b.s, x, 0, all[i].x[0] - 1, all[i].x[0]);
            expect_same(b.s, mica_conv_general(b.s, last, w, &o),
                        mica_slice_axis(b.s, conv, 0, all[i].x[0] - 1, all[i].x[0]));
            first = expect_again(b.s, y, first);
            bench_close(&b);
        }
        free(first);
    }
}

/* What is not finite stays in the windows that have it, also where these are computed together. */
static void windows_without_it_stay_finite(void **state) {
    (void)state;
    bench b = bench_open();
    enum { SIDE = 14, C = 16, OUT = SIDE - 2 };
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    mica_array x = noise(b.s, 1, MICA_F32, SHAPE(1, SIDE, SIDE, C));
    mica_array w = noise(b.s, 2, MICA_F32, SHAPE(16, 3, 3, C));
    float *want = floats_of(b.s, mica_conv_general(b.s, x, w, NULL)), *data = floats_of(b.s, x);
    for (int at = 0; at < 16 * 3; at++) {
        const int row = 4 + at % 4, column = 5 + at / 4 % 4, i = (row * SIDE + column) * C + at % C;
        const float before = data[i];
        data[i] = bad[at / 16];
        x = mica_from_data(b.s, data, MICA_F32, SHAPE(1, SIDE, SIDE, C));
        data[i] = before;
        float *got = floats_of(b.s, mica_conv_general(b.s, x, w, NULL));
        for (int k = 0; k < OUT * OUT * 16; k++) {
            int y = k / 16 / OUT, z = k / 16 % OUT;
            bool has = y <= row && row < y + 3 && z <= column && column < z + 3;
            assert_true(has ? !isfinite(got[k]) : got[k] == want[k]);
        }
        free(got);
    }
    free(want);
    free(data);
    bench_close(&b);
}

static void empty_ones(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array w = noise(b.s, 1, MICA_F32, SHAPE(4, 3, 2)), no_channels;
    mica_array none = mica_zeros(b.s, SHAPE(2, 0, 2), MICA_F32);
    expect_shape(mica_conv_general(b.s, none, w, NULL), MICA_F32, SHAPE(2, 0, 4));
    const mica_conv_options padded = {.padding_lo = {3}};
    mica_array zeros = mica_conv_general(b.s, none, w, &padded);
    expect_same(b.s, zeros, mica_zeros(b.s, SHAPE(2, 1, 4), MICA_F32));
    no_channels = mica_conv_general(b.s, mica_zeros(b.s, SHAPE(2, 5, 0), MICA_F32),
                                    mica_zeros(b.s, SHAPE(4, 3, 0), MICA_F32), NULL);
    expect_same(b.s, no_channels, mica_zeros(b.s, SHAPE(2, 3, 4), MICA_F32));
    const mica_conv_options all_around = {.padding_lo = {2, 2}, .padding_hi = {2, 2}};
    mica_array no_rows = mica_zeros(b.s, SHAPE(1, 0, 80, 16), MICA_F32); /* Winograd's */
    mica_array nine = noise(b.s, 3, MICA_F32, SHAPE(16, 3, 3, 16));
    expect_same(b.s, mica_conv_general(b.s, no_rows, nine, &all_around),
                mica_zeros(b.s, SHAPE(1, 2, 82, 16), MICA_F32));
    mica_array x = noise(b.s, 2, MICA_F32, SHAPE(0, 5, 2)), dw;
    mica_array y = mica_conv_general(b.s, x, w, NULL);
    expect_shape(y, MICA_F32, SHAPE(0, 3, 4));
    assert_int_equal(mica_grad(b.s, mica_sum(b.s, y, NULL, 0, false), MICA_NONE, &w, 1, &dw), 0);
    expect_same(b.s, dw, mica_zeros(b.s, SHAPE(4, 3, 2), MICA_F32));
    bench_close(&b);
}

static void errors(void **state) {
    (void)state;
    bench b = bench_open();
#define F32(...) mica_zeros(b.s, SHAPE(__VA_ARGS__), MICA_F32)
#define FAIL(status, part, ...) expect_failure(&b, __VA_ARGS__, status, part)
    const mica_conv_options three = {.groups = 3}, back = {.stride = {-1}},
                            far = {.padding_hi = {INT64_MAX}};
    FAIL(MICA_ESHAPE, "its last axis must have 4",
         mica_conv_general(b.s, F32(1, 5, 4), F32(6, 3, 3), NULL));
    FAIL(MICA_ESHAPE, "3 groups", mica_conv_general(b.s, F32(1, 5, 4), F32(6, 3, 4), &three));
    FAIL(MICA_ESHAPE, "3 groups", mica_conv_general(b.s, F32(1, 5, 6), F32(4, 3, 2), &three));
    FAIL(MICA_EINVAL, "stride -1", mica_conv_general(b.s, F32(1, 5, 4), F32(6, 3, 4), &back));
    FAIL(MICA_EINVAL, "padding", mica_conv_general(b.s, F32(1, 5, 4), F32(6, 3, 4), &far));
    FAIL(MICA_EINVAL, "window 0", mica_conv_general(b.s, F32(1, 5, 4), F32(6, 0, 4), NULL));
    FAIL(MICA_ESHAPE, "3, 4 or 5 axes", mica_conv_general(b.s, F32(1, 4), F32(6, 4), NULL));
    FAIL(MICA_ESHAPE, "3, 4 or 5 axes",
         mica_conv_general(b.s, F32(1, 1, 1, 1, 1, 4), F32(6, 1, 1, 1, 1, 4), NULL));
    FAIL(MICA_EDTYPE, "floats",
         mica_conv_general(b.s, mica_zeros(b.s, SHAPE(1, 5, 4), MICA_I32), F32(6, 3, 4), NULL));
    FAIL(MICA_ESHAPE, "conv2d: x f32[1,5,4] and w f32[6,3,4]: both need 4 axes",
         mica_conv2d(b.s, F32(1, 5, 4), F32(6, 3, 4), MICA_CHANNELS_FIRST, NULL));
    const mica_conv_transpose_options more = {.stride = {2}, .output_padding = {2}},
                                      odd = {.groups = 3};
    FAIL(MICA_EINVAL, "output_padding 2",
         mica_conv_transpose1d(b.s, F32(1, 4, 5), F32(4, 6, 3), MICA_CHANNELS_FIRST, &more));
    FAIL(MICA_ESHAPE, "3 groups",
         mica_conv_transpose1d(b.s, F32(1, 4, 5), F32(4, 6, 3), MICA_CHANNELS_FIRST, &odd));
    bench_close(&b);
}

/* Views of one number as kernels of which 2^64 bytes of scratch would be made, and so none. */
static void kernels_larger_than_any_memory(void **state) {
    (void)state;
    static const struct {
        int threads;
        int64_t groups, shape[4];
    } kernels[] = {{4, 4, {4, 1 << 29, 1 << 29, 1}}, {12, 1, {4, 1 << 28, 1 << 28, 4}}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        mica_device *cpu;
        mica_scope *s;
        const mica_device_options options = {.threads = kernels[i].threads};
        assert_int_equal(mica_device_open("cpu", &options, &cpu), MICA_OK);
        assert_int_equal(mica_scope_open(cpu, &s), MICA_OK);
        const int64_t *shape = kernels[i].shape;
        mica_array one = mica_scalar(s, 1, MICA_BF16);
        mica_array w = mica_broadcast_to(s, one, shape, 4);
        mica_array x = mica_zeros(s, SHAPE(1, 2, 2, 4), MICA_BF16);
        mica_array y =
            mica_conv_general(s, x, w,
                              &(mica_conv_options){.groups = kernels[i].groups,
                                                   .padding_lo = {shape[1] - 2, shape[2] - 2}});
        assert_true(mica_valid(y));
        assert_int_equal(mica_eval(s, y), MICA_ENOMEM);
        assert_non_null(strstr(mica_last_error(), "a kernel of"));
        mica_scope_close(&s);
        mica_device_close(&cpu);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option),
        cmocka_unit_test(kernel_is_the_decomposition),
        cmocka_unit_test(depthwise),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(filters_of_three),
        cmocka_unit_test(empty_ones),
        cmocka_unit_test(windows_without_it_stay_finite),
        cmocka_unit_test(errors),
        cmocka_unit_test(kernels_larger_than_any_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
