/* Quantised weights: every mode and width compared with the decomposition, and round trips. A row's
 * bits do not depend on the rows beside it. */
#include "op/fused.h"

#include "device/device.h"
#include "op/quant.h"

static const mica_quant formats[] = {
    {MICA_QUANT_AFFINE, 2, 32},  {MICA_QUANT_AFFINE, 3, 64},  {MICA_QUANT_AFFINE, 4, 32},
    {MICA_QUANT_AFFINE, 4, 64},  {MICA_QUANT_AFFINE, 4, 128}, {MICA_QUANT_AFFINE, 5, 32},
    {MICA_QUANT_AFFINE, 6, 128}, {MICA_QUANT_AFFINE, 8, 32},  {MICA_QUANT_AFFINE, 8, 64},
    {MICA_QUANT_MXFP4, 4, 32},   {MICA_QUANT_MXFP8, 8, 32},   {MICA_QUANT_NVFP4, 4, 16},
};
#define FORMATS ((int)(sizeof formats / sizeof *formats))

typedef struct weights {
    mica_array codes, scales, biases;
} weights;

static weights quantized(bench *b, mica_quant quant, mica_array w) {
    weights q;
    if (mica_quantize(b->s, w, quant, &q.codes, &q.scales, &q.biases) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return q;
}

/* Max error. Affine: half a step, and what is cut off when a smaller step represents 0 exactly.
 * Others: half the coarsest spacing of E2M1 and E4M3. */
static void round_trip(void **state) {
    (void)state;
    bench b = bench_open();
    const double loss[] = {[MICA_QUANT_AFFINE] = 0,
                           [MICA_QUANT_MXFP4] = 0.26,
                           [MICA_QUANT_MXFP8] = 0.07,
                           [MICA_QUANT_NVFP4] = 0.26};
    for (int i = 0; i < FORMATS; i++) {
        mica_array w = noise(b.s, 1, MICA_F32, SHAPE(6, 384));
        weights q = quantized(&b, formats[i], w);
        expect_shape(q.codes, MICA_U32, SHAPE(6, 384 * formats[i].bits / 32));
        double slack = formats[i].mode == MICA_QUANT_AFFINE ? 2.05 / (1 << formats[i].bits)
                                                            : loss[formats[i].mode];
        expect_near(b.s, mica_dequantize(b.s, q.codes, q.scales, q.biases, formats[i], MICA_F32), w,
                    slack);
    }
    bench_close(&b);
}

static void as_decomposed(void **state) {
    (void)state;
    bench b = bench_open();
    for (int i = 0; i < FORMATS; i++) {
        weights q = quantized(&b, formats[i], noise(b.s, 2, MICA_BF16, SHAPE(21, 256)));
        mica_array w = mica_dequantize(b.s, q.codes, q.scales, q.biases, formats[i], MICA_F32);
        expect_near(b.s, w, decomposed(b.s, w), 1e-6);
        for (int64_t rows = 1; rows <= 9; rows += 4) {
            mica_array x = noise(b.s, 3, MICA_F32, SHAPE(rows, 256));
            mica_array y =
                mica_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, formats[i], true);
            expect_shape(y, MICA_F32, SHAPE(rows, 21));
            expect_near(b.s, y, decomposed(b.s, y), 4e-6);
            x = noise(b.s, 4, MICA_F16, SHAPE(rows, 21));
            y = mica_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, formats[i], false);
            expect_shape(y, MICA_F16, SHAPE(rows, 256));
            expect_near(b.s, y, decomposed(b.s, y), 1e-3);
        }
    }
    bench_close(&b);
}

static mc_backend plain; /* the cpu backend without kernels for ops that have a decomposition */

static mc_support supports_plain(const void *state, mc_op op, const void *attr,
                                 const mc_layout *const *in, int n_in, const mc_layout *out,
                                 int n_out) {
    if (mc_op_get(op)->decompose != NULL) return (mc_support){.yes = false};
    return mc_backend_cpu.supports(state, op, attr, in, n_in, out, n_out);
}

/* From here on the device uses decompositions. */
static void take_kernels(bench *b) {
    plain = mc_backend_cpu;
    plain.supports = supports_plain;
    b->device->backend = &plain;
    test_forget_plans(b->device);
}

static void as_lowered(void **state) {
    (void)state;
    const double slack[] = {1e-6, 4e-6, 1e-3};
    for (int i = 0; i < FORMATS; i++) {
        bench b = bench_open_cpu(NULL);
        weights q = quantized(&b, formats[i], noise(b.s, 16, MICA_BF16, SHAPE(21, 256)));
        mica_array x = noise(b.s, 17, MICA_F32, SHAPE(5, 256));
        mica_array z = noise(b.s, 18, MICA_F16, SHAPE(5, 21)), y[6];
        mica_array leaves[] = {x, z, q.codes, q.scales, q.biases};
        assert_int_equal(mica_eval_n(b.s, leaves, mica_valid(q.biases) ? 5 : 4), MICA_OK);
        for (int k = 0; k < 6; k += 3) {
            y[k] = mica_dequantize(b.s, q.codes, q.scales, q.biases, formats[i], MICA_F32);
            y[k + 1] = mica_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, formats[i], true);
            y[k + 2] =
                mica_quantized_matmul(b.s, z, q.codes, q.scales, q.biases, formats[i], false);
            if (mica_eval_n(b.s, y + k, 3) != MICA_OK) fail_msg("%s", mica_last_error());
            take_kernels(&b);
        }
        for (int k = 0; k < 3; k++)
            expect_near(b.s, y[3 + k], y[k], slack[k]);
        bench_close(&b);
    }
}

/* A vector meets each matrix of a batch: one row for each. */
static void vector_by_batch_as_lowered(void **state) {
    (void)state;
    bench b = bench_open_cpu(NULL);
    const mica_quant quant = {MICA_QUANT_AFFINE, 4, 32};
    weights q = quantized(&b, quant, noise(b.s, 20, MICA_F32, SHAPE(4, 10, 64)));
    mica_array x = noise(b.s, 21, MICA_F32, SHAPE(64)), y[2];
    assert_int_equal(mica_eval_n(b.s, (mica_array[]){x, q.codes, q.scales, q.biases}, 4), MICA_OK);
    for (int k = 0; k < 2; k++) {
        y[k] = mica_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, quant, true);
        if (mica_eval(b.s, y[k]) != MICA_OK) fail_msg("%s", mica_last_error());
        expect_shape(y[k], MICA_F32, SHAPE(4, 1, 10));
        take_kernels(&b);
    }
    expect_near(b.s, y[1], y[0], 4e-6);
    bench_close(&b);
}

/* The fp modes: all scales, each with random codes. */
static void every_scale_as_lowered(void **state) {
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        const mica_quant quant = formats[i];
        if (quant.mode == MICA_QUANT_AFFINE) continue;
        bench b = bench_open_cpu(NULL);
        mica_array key = mica_random_key(b.s, 19);
        mica_array codes =
            mica_random_bits(b.s, key, SHAPE(256, quant.bits * quant.group_size / 32), 4);
        mica_array scales = mica_arange(b.s, 0, 256, 1, MICA_U8);
        scales = mica_reshape(b.s, scales, SHAPE(256, 1));
        assert_int_equal(mica_eval_n(b.s, (mica_array[]){codes, scales}, 2), MICA_OK);
        float *values[2];
        for (int k = 0; k < 2; k++) {
            values[k] =
                floats_of(b.s, mica_dequantize(b.s, codes, scales, MICA_NONE, quant, MICA_F32));
            take_kernels(&b);
        }
        for (int k = 0; k < 256 * quant.group_size; k++) {
            float want = values[0][k], got = values[1][k];
            if (memcmp(&got, &want, sizeof got) != 0 && !(isnan(got) && isnan(want)))
                fail_msg("scale %d: %.9g, not %.9g", k / quant.group_size, (double)got,
                         (double)want);
        }
        free(values[0]);
        free(values[1]);
        bench_close(&b);
    }
}

/* The weights of a layer, with their own batch axis or without one. */
static void batches(void **state) {
    (void)state;
    bench b = bench_open();
    for (int i = 0; i < FORMATS; i += 3) {
        weights q = quantized(&b, formats[i], noise(b.s, 5, MICA_F32, SHAPE(4, 10, 128)));
        mica_array x = noise(b.s, 6, MICA_F32, SHAPE(3, 1, 5, 128));
        mica_array y = mica_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, formats[i], true);
        expect_shape(y, MICA_F32, SHAPE(3, 4, 5, 10));
        expect_near(b.s, y, decomposed(b.s, y), 4e-6);
        for (int fast = 0; fast < 2; fast++) { /* one vector times all of them */
            x = noise(b.s, 6, fast ? MICA_BF16 : MICA_F32, SHAPE(128));
            y = mc_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, formats[i], fast);
            mica_array rows = mica_broadcast_to(b.s, x, SHAPE(4, 1, 128));
            expect_shape(y, fast ? MICA_BF16 : MICA_F32, SHAPE(4, 1, 10));
            expect_same_sums(
                b.s, y,
                mc_quantized_matmul(b.s, rows, q.codes, q.scales, q.biases, formats[i], fast),
                fast ? 8e-3 : 4e-6);
        }
        q = quantized(&b, formats[i], noise(b.s, 7, MICA_F32, SHAPE(10, 128)));
        y = mica_quantized_matmul(
            b.s, mica_swapaxes(b.s, noise(b.s, 8, MICA_BF16, SHAPE(5, 2, 128)), 0, 1), q.codes,
            q.scales, q.biases, formats[i], true);
        expect_shape(y, MICA_BF16, SHAPE(2, 5, 10));
        expect_near(b.s, y, decomposed(b.s, y), 8e-3);
    }
    bench_close(&b);
}

static void rows_do_not_depend_on_their_number(void **state) {
    (void)state;
    bench b = bench_open();
    const int64_t more = 2 * test_case_step();
    for (int i = 0; i < 2 * FORMATS; i++) {
        const mica_quant quant = formats[i / 2];
        const int64_t k = i % 2 ? 1024 : 256; /* rows of whole pages, or not */
        weights q = quantized(&b, quant, noise(b.s, 9, MICA_BF16, SHAPE(133, k)));
        mica_array x = noise(b.s, 10, MICA_F32, SHAPE(40, k));
        mica_array all = mica_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, quant, true);
        for (int64_t rows = 1; rows <= 9; rows += more) {
            mica_array part = mica_slice_axis(b.s, x, 0, 17, 17 + rows);
            part = mica_quantized_matmul(b.s, part, q.codes, q.scales, q.biases, quant, true);
            expect_same_sums(b.s, part, mica_slice_axis(b.s, all, 0, 17, 17 + rows), 4e-6);
        }
    }
    bench_close(&b);
}

/* The same for fast matmuls, which are near the exact ones, with rows in any layout. With two codes
 * for an element of x they are nearer. */
static void check_fast_rows(int fast) {
    bench b = bench_open();
    const int64_t more = 4 * test_case_step();
    for (int i = 0; i < 3 * FORMATS; i++) {
        const mica_quant quant = formats[i / 3];
        const mica_dtype dtype = i % 3 == 1 ? MICA_BF16 : MICA_F32;
        const int64_t k = i % 3 == 2 ? 2048 : 256;             /* rows of whole pages, or not */
        const int64_t n = i == 0 ? 3300 : k == 256 ? 133 : 37; /* several runs, or a part of one */
        weights q = quantized(&b, quant, noise(b.s, 9, MICA_BF16, SHAPE(2, n, k)));
        mica_array x = mica_swapaxes(b.s, noise(b.s, 10, dtype, SHAPE(40, 2, k)), 0, 1);
        mica_array all = mc_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, quant, fast);
        mica_array exact = mc_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, quant, 0);
        bool near = fast == 2 && dtype == MICA_F32 && quant.mode != MICA_QUANT_MXFP8;
        expect_near(b.s, all, exact, near && !test_device_is_other() ? 1e-4 : 0.02);
        mica_array dense = mica_negative(b.s, mica_negative(b.s, x));
        dense = mc_quantized_matmul(b.s, dense, q.codes, q.scales, q.biases, quant, fast);
        expect_same_sums(b.s, dense, all, 0.02);
        for (int64_t rows = 1; rows <= 21; rows += more) {
            mica_array part = mica_slice_axis(b.s, x, 1, 17, 17 + rows);
            part = mc_quantized_matmul(b.s, part, q.codes, q.scales, q.biases, quant, fast);
            expect_same_sums(b.s, part, mica_slice_axis(b.s, all, 1, 17, 17 + rows), 0.02);
        }
    }
    bench_close(&b);
}

static void fast_rows_do_not_depend_on_their_number(void **state) {
    (void)state;
    check_fast_rows(1);
    check_fast_rows(2);
}

/* The gradient of a fast matmul by x [rows, k], over weights [n, k]. */
static mica_array fast_gradient(bench *b, const weights *q, mica_quant quant, mica_array dy,
                                int64_t k, bool fast) {
    mica_array x = mica_zeros(b->s, SHAPE(mica_array_dim(dy, 0), k), MICA_F32), dx;
    assert_int_equal(mica_eval(b->s, x), MICA_OK);
    mica_array y = mc_quantized_matmul(b->s, x, q->codes, q->scales, q->biases, quant, fast);
    if (mica_grad(b->s, y, dy, &x, 1, &dx) != MICA_OK) fail_msg("%s", mica_last_error());
    return dx;
}

/* It is within what bf16 rounds of the exact one: of every mode, columns that end within a tile,
 * and sums of several parts. A row has its bits beside any others. */
static void fast_gradients(void **state) {
    (void)state;
    bench b = bench_open();
    for (int i = 0; i < 2 * FORMATS; i++) {
        const mica_quant quant = formats[i / 2];
        const int64_t k = 256 + (i % 2) * quant.group_size, n = i == 6 ? 4200 : 70;
        if (k * quant.bits % 32 != 0) continue;
        weights q = quantized(&b, quant, noise(b.s, 21, MICA_BF16, SHAPE(n, k)));
        mica_array dy = noise(b.s, 22, MICA_F32, SHAPE(9, n));
        mica_array dx = fast_gradient(&b, &q, quant, dy, k, true);
        expect_near(b.s, dx, fast_gradient(&b, &q, quant, dy, k, false), 0.01);
        for (int64_t rows = 1; rows <= 5; rows += 4)
            expect_same_sums(
                b.s,
                fast_gradient(&b, &q, quant, mica_slice_axis(b.s, dy, 0, 3, 3 + rows), k, true),
                mica_slice_axis(b.s, dx, 0, 3, 3 + rows), 0.01);
    }
    bench_close(&b);
}

/* Rows of x with gaps between them have the bits of contiguous rows. */
static void rows_that_lie_apart(void **state) {
    (void)state;
    bench b = bench_open();
    for (int i = 0; i < 2 * FORMATS; i++) {
        const mica_quant quant = formats[i / 2];
        weights q = quantized(&b, quant, noise(b.s, 14, MICA_BF16, SHAPE(40, 256)));
        mica_array wide = noise(b.s, 15, MICA_F32, SHAPE(5, 300));
        assert_int_equal(mica_eval(b.s, wide), MICA_OK);
        mica_array x = mica_slice_axis(b.s, wide, 1, 0, 256);
        mica_array dense = mica_negative(b.s, mica_negative(b.s, x));
        for (int64_t rows = 1; rows <= 5; rows += 4) {
            mica_array a = mica_slice_axis(b.s, x, 0, 0, rows);
            mica_array c = mica_slice_axis(b.s, dense, 0, 0, rows);
            a = mc_quantized_matmul(b.s, a, q.codes, q.scales, q.biases, quant, i % 2);
            c = mc_quantized_matmul(b.s, c, q.codes, q.scales, q.biases, quant, i % 2);
            expect_same_sums(b.s, a, c, i % 2 ? 0.02 : 4e-6);
        }
    }
    bench_close(&b);
}

/* The same bits with one thread and with three: exact, fast in int8, fast in pairs of bf16. */
static void threads_change_nothing(void **state) {
    (void)state;
    enum { ROWS = 40, COLS = 700 };
    static const struct {
        mica_quant quant;
        int fast;
        int64_t rows;
    } cases[] = {{{MICA_QUANT_AFFINE, 4, 64}, 0, 5},    {{MICA_QUANT_AFFINE, 4, 64}, 1, 5},
                 {{MICA_QUANT_AFFINE, 4, 64}, 1, ROWS}, {{MICA_QUANT_AFFINE, 4, 64}, 2, 3},
                 {{MICA_QUANT_AFFINE, 4, 64}, 2, ROWS}, {{MICA_QUANT_MXFP8, 8, 32}, 1, 5},
                 {{MICA_QUANT_MXFP8, 8, 32}, 1, ROWS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *results[2];
        for (int t = 0; t < 2; t++) {
            mica_device_options options = {.threads = t == 0 ? 1 : 3};
            bench b = bench_open_with(&options);
            weights q = quantized(&b, cases[i].quant, noise(b.s, 11, MICA_BF16, SHAPE(COLS, 512)));
            mica_array x = noise(b.s, 12, MICA_F32, SHAPE(cases[i].rows, 512));
            x = mc_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, cases[i].quant,
                                    cases[i].fast);
            results[t] = floats_of(b.s, x);
            bench_close(&b);
        }
        assert_memory_equal(results[0], results[1], (size_t)cases[i].rows * COLS * sizeof(float));
        free(results[0]);
        free(results[1]);
    }
}

/* x times several weights at once, fast and exact, of many formats, some computed in the same
 * evaluation, as is one x: the bits of each matmul alone. */
static void joint_matmuls(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 12; rows = rows * 3 + 1) {
        for (mica_dtype dtype = MICA_F16; dtype <= MICA_F32; dtype++) {
            bench b = bench_open();
            mica_array x = noise(b.s, 13, dtype, SHAPE(1, rows, 256)); /* as in models */
            weights w[FORMATS];
            for (int i = 0; i < FORMATS; i++) {
                w[i] = quantized(
                    &b, formats[i],
                    noise(b.s, 20 + (uint64_t)i, MICA_BF16, SHAPE(i % 2 == 0 ? 65 : 256, 256)));
                assert_int_equal(mica_eval(b.s, w[i].codes), MICA_OK);
            }
            mica_array alone[FORMATS], y[FORMATS + 1], later = x;
            for (int i = 0; i < FORMATS; i++) {
                alone[i] = mc_quantized_matmul(b.s, x, w[i].codes, w[i].scales, w[i].biases,
                                               formats[i], i % 5 == 4 ? 0 : 1 + i % 2);
                assert_int_equal(mica_eval(b.s, alone[i]), MICA_OK);
            }
            for (int i = 0; i < FORMATS; i++) {
                if (i == 3)
                    w[i] = quantized(&b, formats[i], noise(b.s, 23, MICA_BF16, SHAPE(256, 256)));
                y[i] = mc_quantized_matmul(b.s, x, w[i].codes, w[i].scales, w[i].biases, formats[i],
                                           i % 5 == 4 ? 0 : 1 + i % 2);
                if (i == 1) later = mica_tanh(b.s, y[i]);
            }
            y[FORMATS] = mc_quantized_matmul(b.s, later, w[2].codes, w[2].scales, w[2].biases,
                                             formats[2], true);
            mica_array twice[FORMATS]; /* so that the matmuls are temporaries */
            for (int i = 0; i < FORMATS; i++)
                twice[i] = mica_concatenate(b.s, (mica_array[]){y[i], y[i]}, 2, 0);
            mica_array all[FORMATS + 1];
            memcpy(all, twice, sizeof twice);
            all[FORMATS] = y[FORMATS];
            assert_int_equal(mica_eval_n(b.s, all, FORMATS + 1), MICA_OK);
            for (int i = 0; i < FORMATS; i++)
                expect_same_sums(b.s, twice[i],
                                 mica_concatenate(b.s, (mica_array[]){alone[i], alone[i]}, 2, 0),
                                 0.01);
            later = mica_tanh(b.s, alone[1]);
            assert_int_equal(mica_eval(b.s, later), MICA_OK);
            expect_same_sums(b.s, y[FORMATS],
                             mc_quantized_matmul(b.s, later, w[2].codes, w[2].scales, w[2].biases,
                                                 formats[2], true),
                             0.02);
            bench_close(&b);
        }
    }
}

/* K is 0: results are 0. */
/* The same elements, the last axis of which does not lie side by side. */
static mica_array transposed_twice(bench *b, mica_array x) {
    if (!mica_valid(x)) return x;
    mica_array y = mica_contiguous(b->s, mica_transpose(b->s, x, NULL));
    assert_int_equal(mica_eval(b->s, y), MICA_OK);
    y = mica_transpose(b->s, y, NULL);
    assert_int_equal(mica_eval(b->s, y), MICA_OK);
    return y;
}

static void weights_that_lie_otherwise(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, 16, MICA_F32, SHAPE(3, 256));
    for (int i = 0; i < FORMATS; i++) {
        const mica_quant quant = formats[i];
        weights q = quantized(&b, quant, noise(b.s, 17, MICA_BF16, SHAPE(21, 256)));
        mica_array want = mica_quantized_matmul(b.s, x, q.codes, q.scales, q.biases, quant, true);
        mica_array w = mica_dequantize(b.s, q.codes, q.scales, q.biases, quant, MICA_F32);
        for (int which = 1; which < 8; which++) { /* a bit an operand */
            mica_array c = which & 1 ? transposed_twice(&b, q.codes) : q.codes;
            mica_array s = which & 2 ? transposed_twice(&b, q.scales) : q.scales;
            mica_array z = which & 4 ? transposed_twice(&b, q.biases) : q.biases;
            expect_same_sums(b.s, mica_quantized_matmul(b.s, x, c, s, z, quant, true), want, 4e-6);
            expect_same(b.s, mica_dequantize(b.s, c, s, z, quant, MICA_F32), w);
        }
    }
    bench_close(&b);
}

static void empty_rows(void **state) {
    (void)state;
    bench b = bench_open();
    mica_quant quant = {MICA_QUANT_AFFINE, 4, 64};
    mica_array x = mica_zeros(b.s, SHAPE(2, 0), MICA_F32);
    mica_array codes = mica_zeros(b.s, SHAPE(4, 0), MICA_U32);
    mica_array scales = mica_zeros(b.s, SHAPE(4, 0), MICA_F32);
    for (int fast = 0; fast < 2; fast++)
        expect_same(b.s, mc_quantized_matmul(b.s, x, codes, scales, scales, quant, fast != 0),
                    mica_zeros(b.s, SHAPE(2, 4), MICA_F32));
    scales = mica_zeros(b.s, SHAPE(4, 0), MICA_U8);
    quant = (mica_quant){MICA_QUANT_MXFP8, 8, 32};
    for (int fast = 0; fast < 2; fast++)
        expect_same(b.s, mc_quantized_matmul(b.s, x, codes, scales, MICA_NONE, quant, fast != 0),
                    mica_zeros(b.s, SHAPE(2, 4), MICA_F32));
    bench_close(&b);
}

static void wrong_operands(void **state) {
    (void)state;
    bench b = bench_open();
    mica_quant quant = {MICA_QUANT_AFFINE, 4, 64};
    mica_array out[3], w = mica_ones(b.s, SHAPE(2, 96), MICA_F32);
    assert_int_equal(mica_quantize(b.s, w, quant, &out[0], &out[1], &out[2]), MICA_ESHAPE);
    expect_failure(&b, out[0], MICA_ESHAPE, "not a multiple of 64");
    w = mica_ones(b.s, SHAPE(2, 128), MICA_F32);
    quant.bits = 7;
    assert_int_equal(mica_quantize(b.s, w, quant, &out[0], &out[1], &out[2]), MICA_EINVAL);
    expect_failure(&b, out[0], MICA_EINVAL, "affine with 7 bits");
    quant.bits = 4;

    mica_array codes = mica_zeros(b.s, SHAPE(3, 16), MICA_U32);
    mica_array scales = mica_ones(b.s, SHAPE(3, 2), MICA_F32);
    mica_array x = mica_ones(b.s, SHAPE(1, 64), MICA_F32);
    expect_failure(&b, mica_quantized_matmul(b.s, x, codes, scales, scales, quant, true),
                   MICA_ESHAPE, "the last axis of x is 64");
    codes = mica_zeros(b.s, SHAPE(3, 16), MICA_U32), scales = mica_ones(b.s, SHAPE(3, 3), MICA_F32);
    expect_failure(&b, mica_dequantize(b.s, codes, scales, scales, quant, MICA_F32), MICA_ESHAPE,
                   "do not fit");
    codes = mica_zeros(b.s, SHAPE(3, 16), MICA_U32), scales = mica_ones(b.s, SHAPE(3, 2), MICA_F32);
    expect_failure(&b, mica_dequantize(b.s, codes, scales, MICA_NONE, quant, MICA_F32), MICA_EINVAL,
                   "biases");
    codes = mica_zeros(b.s, SHAPE(3, 16), MICA_I32), scales = mica_ones(b.s, SHAPE(3, 2), MICA_F32);
    expect_failure(&b, mica_dequantize(b.s, codes, scales, scales, quant, MICA_F32), MICA_EDTYPE,
                   "not u32");
    bench_close(&b);
}

/* Rows that repeat one word, with more bits than an int64 counts. */
static void rows_too_long(void **state) {
    (void)state;
    bench b = bench_open();
    mica_quant quant = {MICA_QUANT_MXFP4, 4, 32};
    const int64_t words = INT64_MAX / 32 + 1;
    mica_array codes = mica_zeros(b.s, SHAPE(1, words), MICA_U32);
    mica_array scales = mica_zeros(b.s, SHAPE(1, 0), MICA_U8);
    expect_failure(&b, mica_dequantize(b.s, codes, scales, MICA_NONE, quant, MICA_F32), MICA_ESHAPE,
                   "dequantize: rows of codes u32[1,288230376151711744] are too long");
    codes = mica_zeros(b.s, SHAPE(1, 2 * words), MICA_U32);
    scales = mica_zeros(b.s, SHAPE(1, 0), MICA_U8);
    mica_array x = mica_zeros(b.s, SHAPE(1, 0), MICA_F32);
    expect_failure(&b, mica_quantized_matmul(b.s, x, codes, scales, MICA_NONE, quant, true),
                   MICA_ESHAPE, "too long");
    mica_array out[3], w = mica_zeros(b.s, SHAPE(4 * words), MICA_BF16);
    quant = (mica_quant){MICA_QUANT_MXFP8, 8, 32};
    assert_int_equal(mica_quantize(b.s, w, quant, &out[0], &out[1], &out[2]), MICA_EINVAL);
    expect_failure(&b, out[0], MICA_EINVAL, "2^62 bytes");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(as_decomposed),
        cmocka_unit_test(as_lowered),
        cmocka_unit_test(vector_by_batch_as_lowered),
        cmocka_unit_test(every_scale_as_lowered),
        cmocka_unit_test(batches),
        cmocka_unit_test(rows_do_not_depend_on_their_number),
        cmocka_unit_test(fast_rows_do_not_depend_on_their_number),
        cmocka_unit_test(fast_gradients),
        cmocka_unit_test(rows_that_lie_apart),
        cmocka_unit_test(weights_that_lie_otherwise),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(joint_matmuls),
        cmocka_unit_test(empty_rows),
        cmocka_unit_test(wrong_operands),
        cmocka_unit_test(rows_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
