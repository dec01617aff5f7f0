/* Products on the device cuda, by the emulated driver: weights of all forms with few and many rows,
 * beside sums in double of the weights that the CPU unpacks. A row has the same bits in all. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/matmul.h"
#include "op/quant.h"
#include "support/support.h"

enum { ROWS = 70, N = 37, MOST_K = 1152, JOINT = 3 };

typedef struct format {
    mica_quant quant; /* bits 0: bf16 */
    int64_t k;
    double fast; /* the largest error of a fast product, of the sum of its terms' sizes */
    bool f16;    /* scales and biases are of f16, not bf16 */
} format;

static const format formats[] = {
    {{MICA_QUANT_AFFINE, 4, 64}, 576, 1e-4, false},
    {{MICA_QUANT_AFFINE, 4, 128}, 1152, 1e-4, false},
    {{MICA_QUANT_AFFINE, 4, 64}, 1024, 1e-4, false},
    {{MICA_QUANT_AFFINE, 4, 32}, 288, 1e-4, false},
    {{MICA_QUANT_AFFINE, 2, 64}, 320, 1e-4, false},
    {{MICA_QUANT_AFFINE, 3, 32}, 96, 1e-4, false},
    {{MICA_QUANT_AFFINE, 5, 64}, 384, 1e-4, false},
    {{MICA_QUANT_AFFINE, 6, 128}, 640, 1e-4, false},
    {{MICA_QUANT_AFFINE, 8, 64}, 576, 1e-4, false},
    {{MICA_QUANT_AFFINE, 8, 128}, 128, 1e-4, false},
    {{MICA_QUANT_AFFINE, 8, 32}, 512, 1e-4, true},
    {{MICA_QUANT_MXFP4, 4, 32}, 544, 1e-4, false},
    {{MICA_QUANT_MXFP4, 4, 32}, 1088, 1e-4, false}, /* rows of scales that begin anywhere */
    {{MICA_QUANT_AFFINE, 0, 0}, 300, 0x1p-8, false},
    {{MICA_QUANT_AFFINE, 0, 0}, 37, 0x1p-8, false},
    {{MICA_QUANT_AFFINE, 0, 0}, 424, 0x1p-8, false},
    {{MICA_QUANT_AFFINE, 0, 0}, 1152, 0x1p-8, false},
    {{MICA_QUANT_AFFINE, 4, 64}, 448, 1e-4, true},
};

/* Weights of the device cuda, and what they stand for. */
typedef struct weights {
    mica_array codes, scales, biases;
    float *values; /* [N, k] */
} weights;

static float next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)*seed * 0x1p-31f;
}

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* An array of a scope as one of another. */
static mica_array moved(mica_scope *to, mica_array x) {
    if (!mica_valid(x)) return MICA_NONE;
    size_t bytes = (size_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
    void *data = malloc(bytes);
    must(mica_read(x, data, bytes));
    mica_array y =
        mica_from_data(to, data, mica_array_dtype(x), mica_array_shape(x), mica_array_ndim(x));
    must(mica_eval(to, y));
    free(data);
    return y;
}

static weights weights_of(mica_scope *s, mica_scope *cpu, const format *f, uint32_t seed) {
    weights w = {.values = malloc((size_t)(N * f->k) * sizeof(float))};
    const int64_t shape[] = {N, f->k};
    for (int64_t i = 0; i < N * f->k; i++)
        w.values[i] = next(&seed);
    mica_array x = mica_astype(cpu, mica_from_data(cpu, w.values, MICA_F32, shape, 2),
                               f->f16 ? MICA_F16 : MICA_BF16);
    mica_array codes = x, scales = MICA_NONE, biases = MICA_NONE;
    if (f->quant.bits > 0) {
        must(mica_quantize(cpu, x, f->quant, &codes, &scales, &biases));
        mica_array s32 = scales, b32 = biases; /* bf16 would round the weights */
        if (mica_valid(biases)) {
            s32 = mica_astype(cpu, scales, MICA_F32);
            b32 = mica_astype(cpu, biases, MICA_F32);
        }
        x = mica_dequantize(cpu, codes, s32, b32, f->quant, MICA_F32);
    }
    must(mica_read(mica_astype(cpu, x, MICA_F32), w.values, (size_t)(N * f->k) * sizeof(float)));
    w.codes = moved(s, codes);
    w.scales = moved(s, scales);
    w.biases = moved(s, biases);
    return w;
}

static mica_array product(mica_scope *s, const format *f, const weights *w, mica_array x,
                          bool fast) {
    if (f->quant.bits == 0) return mc_matmul_rows(s, x, w->codes, fast);
    return mc_quantized_matmul(s, x, w->codes, w->scales, w->biases, f->quant, fast);
}

/* y [ROWS, n] are the sums of x [ROWS, k] and w [n, k]. */
static void expect_sums(const float *y, const float *x, const float *w, int64_t columns, int64_t k,
                        double slack) {
    for (int64_t m = 0; m < ROWS; m++)
        for (int64_t n = 0; n < columns; n++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < k; i++) {
                double term = (double)x[m * k + i] * (double)w[n * k + i];
                sum += term;
                size += fabs(term);
            }
            double got = (double)y[m * columns + n];
            if (!(fabs(got - sum) <= slack * size))
                fail_msg("row %lld, column %lld: %.9g, not %.9g", (long long)m, (long long)n, got,
                         sum);
        }
}

/* Computes arrays in a pass that writes to a cache, as one of a session does. */
static void compute_prompt(mica_scope *s, const mica_array *x, int n) {
    const float zeros[8] = {0};
    mica_array all[JOINT + 1];
    mica_array cache = mica_from_data(s, zeros, MICA_F32, (int64_t[]){4, 2}, 2);
    mica_array row = mica_from_data(s, zeros, MICA_F32, (int64_t[]){1, 2}, 2);
    for (int i = 0; i < n; i++)
        all[i] = x[i];
    all[n] = mica_slice_update_at(s, cache, row, mica_i32(s, 1), 0);
    must(mica_eval_n(s, all, (size_t)n + 1));
}

/* Rows of a text that a session reads, which are rounded to bf16: near the sums, and the same bits
 * where weights are multiplied one by one, or the text is shorter. Rows of a batch, and of a text
 * without a cache, have those that they have alone. */
static void check_prompts(mica_scope *s, const format *f, const weights *w, const float *rows) {
    enum { FIRST = 66 };
    bool in_bf16 = f->quant.mode == MICA_QUANT_AFFINE && f->quant.bits == 4;
    float *y = malloc(ROWS * N * sizeof *y), *other = malloc(ROWS * N * sizeof *other);
    mica_array x = mica_from_data(s, rows, MICA_F32, (int64_t[]){1, ROWS, f->k}, 3), out[JOINT];
    for (int i = 0; i < JOINT; i++)
        out[i] = product(s, f, &w[i], x, true);
    compute_prompt(s, out, JOINT);
    w += JOINT - 1;
    must(mica_read(out[JOINT - 1], y, ROWS * N * sizeof *y));
    expect_sums(y, rows, w->values, N, f->k, in_bf16 ? 0x1p-7 : f->fast);
    out[0] = product(s, f, w, x, true);
    compute_prompt(s, out, 1);
    must(mica_read(out[0], other, ROWS * N * sizeof *y));
    assert_memory_equal(y, other, ROWS * N * sizeof *y);
    out[0] = product(s, f, w, mica_slice_axis(s, x, 1, 0, FIRST), true);
    compute_prompt(s, out, 1);
    must(mica_read(out[0], other, FIRST * N * sizeof *y));
    assert_memory_equal(y, other, FIRST * N * sizeof *y);

    mica_array two = mica_from_data(s, rows, MICA_F32, (int64_t[]){2, ROWS / 2, f->k}, 3);
    mica_array each = mica_from_data(s, rows, MICA_F32, (int64_t[]){ROWS, 1, f->k}, 3);
    must(mica_read(product(s, f, w, each, true), y, ROWS * N * sizeof *y));
    must(mica_read(product(s, f, w, x, true), other, ROWS * N * sizeof *y));
    assert_memory_equal(y, other, ROWS * N * sizeof *y);
    out[0] = product(s, f, w, two, true);
    compute_prompt(s, out, 1);
    must(mica_read(out[0], other, ROWS * N * sizeof *y));
    assert_memory_equal(y, other, ROWS * N * sizeof *y);
    free(y);
    free(other);
}

/* Computes y in a pass that trains: with the gradient of a loss. */
static void compute_training(mica_scope *s, mica_array y) {
    const float zeros[8] = {0};
    const int32_t targets[2] = {1, 3};
    const mica_array in[] = {mica_from_data(s, zeros, MICA_F32, (int64_t[]){2, 4}, 2),
                             mica_from_data(s, targets, MICA_I32, (int64_t[]){2}, 1),
                             mica_from_data(s, zeros, MICA_F32, (int64_t[]){2}, 1)};
    const mica_array all[] = {y, mc_record(s, MC_OP_CROSS_ENTROPY_GRADIENT, NULL, in, 3)};
    must(mica_eval_n(s, all, 2));
}

/* x [rows, n] by weights [n, k] as they lie, as a gradient by what they multiply. */
static mica_array product_across(mica_scope *s, const format *f, const weights *w, mica_array x) {
    const mica_array in[] = {x, w->codes, w->scales, w->biases};
    const mc_attr_quant attr = {
        .mode = f->quant.mode, .bits = f->quant.bits, .group_size = f->quant.group_size, .fast = 1};
    if (f->quant.bits > 0) return mc_record(s, MC_OP_QUANTIZED_MATMUL, &attr, in, 4);
    return mc_matmul_rows(s, x, mica_swapaxes(s, w->codes, 0, 1), true);
}

/* Rows of a batch that trains are rounded to bf16, and so are the weights of gradients. */
static void check_training(mica_scope *s, const format *f, const weights *w, const float *rows) {
    float *across = malloc((size_t)(f->k * N) * sizeof *across);
    float *y = malloc((size_t)(ROWS * f->k) * sizeof *y), *exact = malloc(ROWS * N * sizeof *y);
    float *rounded = malloc(ROWS * N * sizeof *y);
    for (int64_t i = 0; i < N * f->k; i++)
        across[i % f->k * N + i / f->k] = w->values[i];
    mica_array x = mica_from_data(s, rows, MICA_F32, (int64_t[]){2, ROWS / 2, f->k}, 3);
    mica_array forward = product(s, f, w, x, true);
    must(mica_read(forward, exact, ROWS * N * sizeof *y));
    forward = product(s, f, w, x, true);
    compute_training(s, forward);
    must(mica_read(forward, rounded, ROWS * N * sizeof *y));
    expect_sums(rounded, rows, w->values, N, f->k, 0x1p-7);
    if (f->quant.mode == MICA_QUANT_AFFINE && f->quant.bits == 4) /* else perhaps, by other sums */
        assert_true(memcmp(exact, rounded, ROWS * N * sizeof *y) != 0);

    mica_array dy = mica_from_data(s, rows, MICA_F32, (int64_t[]){2, ROWS / 2, N}, 3);
    mica_array dx = product_across(s, f, w, dy);
    compute_training(s, dx);
    must(mica_read(dx, y, (size_t)(ROWS * f->k) * sizeof *y));
    expect_sums(y, rows, across, f->k, N, 0x1p-7);
    free(across);
    free(exact);
    free(rounded);
    free(y);
}

/* Rows [first, first + count) alone have the bits that they have among all. */
static void expect_rows(mica_scope *s, const format *f, const weights *w, mica_array x,
                        const float *all, bool fast, int64_t first, int64_t count) {
    float part[16 * N];
    mica_array y = product(s, f, w, mica_slice_axis(s, x, 0, first, first + count), fast);
    must(mica_read(y, part, (size_t)(count * N) * sizeof *part));
    for (int64_t i = 0; i < count * N; i++)
        if (part[i] != all[first * N + i])
            fail_msg("%lld rows, element %lld: %.9g, not %.9g", (long long)count, (long long)i,
                     (double)part[i], (double)all[first * N + i]);
}

static void check_format(mica_device *device, mica_device *cpu_device, const format *f) {
    mica_scope *s, *cpu;
    uint32_t seed = 7;
    float *rows = malloc((size_t)(ROWS * f->k) * sizeof *rows), *y[JOINT];
    must(mica_scope_open(device, &s));
    must(mica_scope_open(cpu_device, &cpu));
    for (int64_t i = 0; i < ROWS * f->k; i++)
        rows[i] = next(&seed);
    weights w[JOINT];
    mica_array x = mica_from_data(s, rows, MICA_F32, (int64_t[]){ROWS, 1, f->k}, 3);
    must(mica_eval(s, x));
    for (uint32_t i = 0; i < JOINT; i++)
        w[i] = weights_of(s, cpu, f, 100 + i);
    for (int fast = 0; fast < 2; fast++) {
        mica_array joint[JOINT];
        for (int i = 0; i < JOINT; i++)
            joint[i] = product(s, f, &w[i], x, fast);
        must(mica_eval_n(s, joint, JOINT));
        for (int i = 0; i < JOINT; i++) {
            y[i] = malloc(ROWS * N * sizeof *y[i]);
            must(mica_read(joint[i], y[i], ROWS * N * sizeof *y[i]));
            expect_sums(y[i], rows, w[i].values, N, f->k, fast ? f->fast : 1e-6);
        }
        for (int64_t count = 1; count <= 9; count += count == 1 ? 4 : 2)
            expect_rows(s, f, &w[1], x, y[1], fast, 11, count);
        for (int i = 0; i < JOINT; i++)
            free(y[i]);
    }
    check_prompts(s, f, w, rows);
    check_training(s, f, w, rows);
    for (int i = 0; i < JOINT; i++)
        free(w[i].values);
    free(rows);
    mica_scope_close(&s);
    mica_scope_close(&cpu);
}

enum { TOKENS = 3, PICKS = 2, MANY_TOKENS = 105 };

static const int32_t some_picks[TOKENS * PICKS] = {2, 0, 1, 1, -3, 2};

/* Products of a number of tokens, for each of which matrices are picked, or of one row for each of
 * a token's picks. */
static mica_array picked(mica_scope *s, const format *f, const weights *all, mica_array x,
                         mica_array lhs, mica_array rhs, bool fast) {
    if (f->quant.bits == 0) return mc_gather_rows(s, x, all->codes, lhs, rhs, fast);
    return mc_gather_qmm(s, x, all->codes, all->scales, all->biases, f->quant, lhs, rhs, fast);
}

/* So many tokens that those which pick a matrix become rows of a tile: tokens and picks of xs that
 * are repeated have the bits of `want`, of TOKENS of them. */
static void expect_repeated(mica_scope *s, const format *f, const weights *all, mica_array xs,
                            int tokens, bool fast, const float *want) {
    int32_t rows[MANY_TOKENS], picks[MANY_TOKENS * PICKS];
    float *got = malloc((size_t)tokens * PICKS * N * sizeof *got);
    for (int i = 0; i < tokens * PICKS; i++) {
        rows[i / PICKS] = i / PICKS % TOKENS;
        picks[i] = some_picks[i % (TOKENS * PICKS)];
    }
    mica_array lhs = mica_from_data(s, rows, MICA_I32, (int64_t[]){tokens, 1}, 2);
    mica_array rhs = mica_from_data(s, picks, MICA_I32, (int64_t[]){tokens, PICKS}, 2);
    must(mica_read(picked(s, f, all, xs, lhs, rhs, fast), got,
                   (size_t)tokens * PICKS * N * sizeof *got));
    for (int i = 0; i < tokens * PICKS * N; i++)
        if (memcmp(&got[i], &want[i % (TOKENS * PICKS * N)], sizeof *got) != 0)
            fail_msg("%d tokens, element %d: %.9g, not %.9g", tokens, i, (double)got[i],
                     (double)want[i % (TOKENS * PICKS * N)]);
    free(got);
}

/* Rows of x, each by the matrices that are picked for it, have the bits of products by one. */
static void check_picks(mica_device *device, mica_device *cpu_device, const format *f) {
    static const int32_t rows[TOKENS] = {0, 1, -1};
    const int32_t *picks = some_picks;
    mica_scope *s, *cpu;
    uint32_t seed = 3;
    float x[TOKENS * MOST_K], got[TOKENS * PICKS * N], want[N];
    must(mica_scope_open(device, &s));
    must(mica_scope_open(cpu_device, &cpu));
    for (int64_t i = 0; i < TOKENS * f->k; i++)
        x[i] = next(&seed);
    weights w[JOINT], all;
    mica_array parts[3][JOINT];
    for (uint32_t i = 0; i < JOINT; i++) {
        w[i] = weights_of(s, cpu, f, 100 + i);
        parts[0][i] = w[i].codes, parts[1][i] = w[i].scales, parts[2][i] = w[i].biases;
        free(w[i].values);
    }
    mica_array *stacked[] = {&all.codes, &all.scales, &all.biases};
    for (int i = 0; i < 3; i++) {
        *stacked[i] = mica_valid(parts[i][0]) ? mica_stack(s, parts[i], JOINT, 0) : MICA_NONE;
        if (mica_valid(*stacked[i])) must(mica_eval(s, *stacked[i]));
    }
    mica_array xs = mica_from_data(s, x, MICA_F32, (int64_t[]){TOKENS, 1, f->k}, 3);
    mica_array rhs = mica_from_data(s, picks, MICA_I32, (int64_t[]){TOKENS, PICKS}, 2);
    mica_array lhs = mica_from_data(s, rows, MICA_I32, (int64_t[]){TOKENS, 1}, 2);
    for (int form = 0; form < 4; form++) {
        bool fast = form % 2, one = form / 2; /* one token, whose picks have a row each */
        mica_array y = picked(s, f, &all, xs, lhs, rhs, fast);
        if (one) {
            const int32_t own[TOKENS * PICKS] = {0, 0, 1, 1, 2, 2};
            int64_t shape[] = {1, TOKENS * PICKS};
            y = picked(s, f, &all, xs, mica_from_data(s, own, MICA_I32, shape, 2),
                       mica_from_data(s, picks, MICA_I32, shape, 2), fast);
        }
        must(mica_read(y, got, sizeof got));
        for (int i = 0; i < TOKENS * PICKS; i++) {
            mica_array row = mica_reshape(s, mica_slice_axis(s, xs, 0, i / PICKS, i / PICKS + 1),
                                          (int64_t[]){1, f->k}, 2);
            const weights *own = &w[picks[i] < 0 ? picks[i] + JOINT : picks[i]];
            must(mica_read(product(s, f, own, row, fast), want, sizeof want));
            assert_memory_equal(&got[i * N], want, sizeof want);
        }
        if (one) continue;
        expect_repeated(s, f, &all, xs, MANY_TOKENS / 3, fast, got);
        if (f->k < 600) expect_repeated(s, f, &all, xs, MANY_TOKENS, fast, got);
    }
    mica_scope_close(&s);
    mica_scope_close(&cpu);
}

/* How often kernels ran whose names begin so. */
static uint64_t runs_of(const char *prefix) {
    void *driver = dlopen(MICA_EMULATED_DRIVER, RTLD_NOW);
    uint64_t (*runs)(const char *prefix);
    assert_non_null(driver);
    void *symbol = dlsym(driver, "emulated_runs");
    memcpy(&runs, &symbol, sizeof symbol);
    return runs(prefix);
}

static void test_weights_of_all_forms(void **state) {
    (void)state;
    mica_device *device, *cpu;
    setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
    must(mica_device_open("cuda", NULL, &device));
    must(mica_device_open("cpu", NULL, &cpu));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        check_format(device, cpu, &formats[i]);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        check_picks(device, cpu, &formats[i]);
    assert_int_equal(mica_device_fallback_ops(device), 0);
    assert_true(runs_of("mc_gemv_q4") > 0);
    assert_true(runs_of("mc_gemv_codes") > 0);
    assert_true(runs_of("mc_gemv_bf16") > 0);
    mica_device_close(&device);
    mica_device_close(&cpu);
}

/* Tiles of all sizes, whole ones and parts, several of weights: x [rows, k] as it lies, and as a
 * part of wider rows. */
static void check_tiles(mica_scope *s, int64_t rows, int64_t n, int64_t k) {
    uint32_t seed = 11;
    float *x = malloc((size_t)(rows * (k + 8)) * sizeof *x), *y = malloc((size_t)(rows * n * 4));
    float *w = malloc((size_t)(n * k) * sizeof *w);
    for (int64_t i = 0; i < rows * (k + 8); i++)
        x[i] = next(&seed);
    for (int64_t i = 0; i < n * k; i++)
        w[i] = next(&seed);
    mica_array codes =
        mica_astype(s, mica_from_data(s, w, MICA_F32, (int64_t[]){n, k}, 2), MICA_BF16);
    must(mica_read(mica_astype(s, codes, MICA_F32), w, (size_t)(n * k) * sizeof *w));
    must(mica_eval(s, codes));
    mica_array wide = mica_from_data(s, x, MICA_F32, (int64_t[]){1, rows, k + 8}, 3);
    mica_array out = mc_matmul_rows(s, mica_slice_axis(s, wide, 2, 8, k + 8), codes, true);
    compute_prompt(s, &out, 1);
    must(mica_read(out, y, (size_t)(rows * n) * sizeof *y));
    for (int64_t m = 0; m < rows; m++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < k; i++) {
                double term = (double)x[m * (k + 8) + 8 + i] * (double)w[j * k + i];
                sum += term;
                size += fabs(term);
            }
            if (!(fabs((double)y[m * n + j] - sum) <= 0x1p-8 * size))
                fail_msg("row %lld, column %lld: %.9g, not %.9g", (long long)m, (long long)j,
                         (double)y[m * n + j], sum);
        }
    free(x);
    free(y);
    free(w);
}

static void test_tiles_of_prompts(void **state) {
    (void)state;
    mica_device *device;
    mica_scope *s;
    setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
    must(mica_device_open("cuda", NULL, &device));
    must(mica_scope_open(device, &s));
    check_tiles(s, 65, 300, 136);
    check_tiles(s, 128, 128, 64);
    check_tiles(s, 257, 40, 264);
    check_tiles(s, 256, 384, 8);
    assert_int_equal(mica_device_fallback_ops(device), 0);
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* ---- floats ---- */

enum { WIDE = 40, BATCH = 2 };

/* x [BATCH, WIDE, k] and w [BATCH, k, WIDE], of which products take the first rows and columns; w
 * may lie along k. */
typedef struct floats {
    mica_array x, w;
    float *y; /* [BATCH, WIDE, WIDE] */
} floats;

static mica_array numbers(mica_scope *s, mica_dtype dtype, int64_t m, int64_t n, uint32_t seed) {
    float *x = malloc((size_t)(BATCH * m * n) * sizeof *x);
    for (int64_t i = 0; i < BATCH * m * n; i++)
        x[i] = next(&seed);
    mica_array all = mica_from_data(s, x, MICA_F32, (int64_t[]){BATCH, m, n}, 3);
    all = mica_astype(s, all, dtype);
    must(mica_eval(s, all));
    free(x);
    return all;
}

/* Products of few rows, of few columns and of short rows have the bits of f->y. */
static void expect_part(mica_scope *s, const floats *f, int64_t m, int64_t n, bool dense) {
    float got[BATCH * WIDE * WIDE];
    mica_array x = mica_slice_axis(s, f->x, 1, WIDE - m, WIDE), y;
    mica_array w = mica_slice_axis(s, f->w, 2, WIDE - n, WIDE);
    if (dense) {
        x = mica_contiguous(s, x);
        w = mica_contiguous(s, w);
    }
    y = mica_astype(s, mica_matmul(s, x, w), MICA_F32);
    must(mica_read(y, got, (size_t)(BATCH * m * n) * sizeof *got));
    for (int64_t i = 0; i < BATCH * m * n; i++) {
        int64_t b = i / n / m, row = WIDE - m + i / n % m, column = WIDE - n + i % n;
        float want = f->y[(b * WIDE + row) * WIDE + column];
        if (memcmp(&got[i], &want, sizeof want) != 0)
            fail_msg("%lld by %lld, element %lld: %.9g, not %.9g", (long long)m, (long long)n,
                     (long long)i, (double)got[i], (double)want);
    }
}

static void check_floats(mica_scope *s, mica_dtype dtype, int64_t k, bool along_k) {
    static const int64_t sizes[][2] = {{1, 1},  {1, 37}, {2, 40}, {8, 1},   {9, 33}, {33, 1},
                                       {40, 3}, {40, 8}, {7, 9},  {17, 32}, {39, 33}};
    float y[BATCH * WIDE * WIDE];
    floats f = {.x = numbers(s, dtype, WIDE, k, 17), .y = y};
    f.w = mica_swapaxes(s, numbers(s, dtype, WIDE, k, 18), 1, 2);
    /* 40 by 40 numbers of f32 along k: tiles */
    mica_array w = mica_astype(s, mica_swapaxes(s, f.w, 1, 2), MICA_F32);
    must(mica_eval(s, w));
    mica_array all = mica_matmul(s, mica_astype(s, f.x, MICA_F32), mica_swapaxes(s, w, 1, 2));
    all = mica_astype(s, mica_astype(s, all, dtype), MICA_F32); /* rounded as results are */
    must(mica_read(all, y, sizeof y));
    if (!along_k) {
        f.w = mica_contiguous(s, f.w);
        must(mica_eval(s, f.w));
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        expect_part(s, &f, sizes[i][0], sizes[i][1], false);
        expect_part(s, &f, sizes[i][0], sizes[i][1], !along_k);
    }
}

static void test_few_numbers(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 31, 32, 33, 77, 1025};
    mica_device *device;
    mica_scope *s;
    setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
    must(mica_device_open("cuda", NULL, &device));
    uint64_t tiles = runs_of("mc_matmul_tiles"), rows = runs_of("mc_matmul_row");
    uint64_t few = runs_of("mc_matmul_short"), narrow = runs_of("mc_matmul_narrow");
    for (mica_dtype dtype = MICA_F16; dtype <= MICA_F32; dtype++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            must(mica_scope_open(device, &s));
            check_floats(s, dtype, lengths[i], false);
            if (dtype != MICA_BF16) check_floats(s, dtype, lengths[i], true); /* by planes */
            mica_scope_close(&s);
        }
    assert_int_equal(mica_device_fallback_ops(device), 0);
    assert_true(runs_of("mc_matmul_tiles") > tiles && runs_of("mc_matmul_row") > rows);
    assert_true(runs_of("mc_matmul_short") > few && runs_of("mc_matmul_narrow") > narrow);
    mica_device_close(&device);
}

/* ---- experts of many tokens, and of one ---- */

/* Rows [n, 1, k] of x, the picks of each of `experts` matrices [N, k] of bf16. */
static void check_experts(mica_scope *s, int experts, int n, int64_t k, const int32_t *picks) {
    uint32_t seed = 23;
    float *x = malloc((size_t)(n * k) * sizeof *x), *w = malloc((size_t)(experts * N * k) * 4);
    float *y = malloc((size_t)n * N * sizeof *y);
    for (int64_t i = 0; i < n * k; i++)
        x[i] = next(&seed);
    for (int64_t i = 0; i < experts * N * k; i++)
        w[i] = (float)((int32_t)(next(&seed) * 128)) / 128; /* which bf16 has */
    mica_array all =
        mica_astype(s, mica_from_data(s, w, MICA_F32, (int64_t[]){experts, N, k}, 3), MICA_BF16);
    must(mica_eval(s, all));
    mica_array xs = mica_from_data(s, x, MICA_F32, (int64_t[]){n, 1, k}, 3);
    mica_array rhs = mica_from_data(s, picks, MICA_I32, (int64_t[]){n}, 1);
    must(
        mica_read(mc_gather_rows(s, xs, all, MICA_NONE, rhs, false), y, (size_t)n * N * sizeof *y));
    for (int64_t i = 0; i < n * N; i++) {
        const float *row = x + i / N * k;
        const float *column = w + ((picks[i / N] + experts) % experts * N + i % N) * k;
        double sum = 0, size = 0;
        for (int64_t j = 0; j < k; j++) {
            sum += (double)row[j] * (double)column[j];
            size += fabs((double)row[j] * (double)column[j]);
        }
        if (!(fabs((double)y[i] - sum) <= 1e-6 * size))
            fail_msg("%d experts, row %lld: %.9g, not %.9g", experts, (long long)(i / N),
                     (double)y[i], sum);
    }
    free(x);
    free(w);
    free(y);
}

/* Rows that picks share in any way have the bits of a list in which each pick has its own. */
static void expect_shared(mica_scope *s, mica_array x, mica_array w, const int64_t *batch) {
    enum { MOST = 96, M = 2 };
    static float got[MOST * M * N], want[MOST * M * N];
    int64_t n = batch[0] * batch[1] * batch[2], m = mica_array_dim(x, 3), k = mica_array_dim(x, 4);
    int32_t picks[MOST];
    for (int32_t i = 0; i < n; i++)
        picks[i] = i % 5 % BATCH;
    mica_array rhs = mica_from_data(s, picks, MICA_I32, batch, 3);
    size_t bytes = (size_t)(n * m * N) * sizeof *got;
    must(mica_read(mc_gather_rows(s, x, w, MICA_NONE, rhs, false), got, bytes));
    mica_array all = mica_broadcast_to(s, x, (int64_t[]){batch[0], batch[1], batch[2], m, k}, 5);
    all = mica_reshape(s, mica_contiguous(s, all), (int64_t[]){n, m, k}, 3);
    must(mica_eval(s, all));
    rhs = mica_reshape(s, rhs, &n, 1);
    must(mica_read(mc_gather_rows(s, all, w, MICA_NONE, rhs, false), want, bytes));
    assert_memory_equal(got, want, bytes);
}

static void check_shared(mica_scope *s, int64_t m) {
    static const int64_t batch[] = {4, 3, 2}, many[] = {4, 12, 2};
    static const int64_t shapes[][3] = {{4, 1, 2}, {4, 1, 1}, {1, 3, 2}, {1, 1, 1},
                                        {4, 3, 1}, {1, 1, 2}, {4, 3, 2}};
    const int64_t k = 40;
    mica_array w = numbers(s, MICA_BF16, N, k, 8);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *l = shapes[i];
        int64_t size = l[0] * l[1] * l[2] * m, shape[] = {l[0], l[1], l[2], m, k};
        mica_array x = mica_slice_axis(s, numbers(s, MICA_F32, size, k, 7), 0, 0, 1);
        x = mica_reshape(s, x, shape, 5);
        must(mica_eval(s, x));
        expect_shared(s, x, w, batch);
        if (l[1] == 1) expect_shared(s, x, w, many);
        if (l[0] != 4 || l[2] != 2) continue;
        /* batches that are not evenly apart, and rows that lie across */
        int64_t turned[] = {l[2], l[1], l[0], m, k}, across[] = {l[0], l[1], l[2], k, m};
        mica_array y = mica_swapaxes(s, mica_reshape(s, x, turned, 5), 0, 2);
        expect_shared(s, y, w, batch);
        y = mica_swapaxes(s, mica_reshape(s, x, across, 5), 3, 4);
        expect_shared(s, y, w, batch);
    }
}

static void test_experts(void **state) {
    (void)state;
    enum { MOST = 400 };
    mica_device *device;
    mica_scope *s;
    int32_t picks[MOST];
    setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
    must(mica_device_open("cuda", NULL, &device));
    uint64_t grouped = runs_of("mc_group_rows");
    for (int form = 0; form < 6; form++) {
        static const struct {
            int experts, n, each; /* each: rows of an expert, one behind the other */
        } forms[] = {{100, 100, 1}, {3, 400, 399}, {1, 64, 64},
                     {1024, 65, 1}, {1030, 65, 1}, {2, 257, 128}};
        int experts = forms[form].experts, n = forms[form].n;
        for (int i = 0; i < n; i++)
            picks[i] = -1 - i / forms[form].each * 7 % experts;
        must(mica_scope_open(device, &s));
        check_experts(s, experts, n, 40, picks);
        mica_scope_close(&s);
    }
    assert_int_equal(runs_of("mc_group_rows") - grouped, 5); /* of 1,030 there are too many */

    must(mica_scope_open(device, &s));
    check_shared(s, 1);
    check_shared(s, 2);

    /* Rows of no numbers, which picks share. */
    float sums[2 * 3 * N];
    mica_array none = mica_zeros(s, (int64_t[]){2, 1, 1, 0}, 4, MICA_F32);
    mica_array few =
        mica_from_data(s, (int32_t[]){0, 1, 1, 0, -1, 0}, MICA_I32, (int64_t[]){2, 3}, 2);
    mica_array empty = mica_zeros(s, (int64_t[]){2, N, 0}, 3, MICA_BF16);
    must(mica_read(mc_gather_rows(s, none, empty, MICA_NONE, few, false), sums, sizeof sums));
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        assert_true(sums[i] == 0);
    mica_scope_close(&s);

    must(mica_scope_open(device, &s));
    mica_array x = numbers(s, MICA_F32, 50, 40, 5), w = numbers(s, MICA_BF16, N, 40, 6);
    x = mica_reshape(s, x, (int64_t[]){100, 1, 40}, 3);
    for (int i = 0; i < 100; i++)
        picks[i] = i == 77 ? 2 : i % 2;
    float y[100 * N];
    mica_array rhs = mica_from_data(s, picks, MICA_I32, (int64_t[]){100}, 1);
    mica_array out = mc_gather_rows(s, x, w, MICA_NONE, rhs, false);
    assert_int_equal(mica_read(out, y, sizeof y), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "index 2"));
    mica_scope_close(&s);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_of_all_forms), cmocka_unit_test(test_tiles_of_prompts),
        cmocka_unit_test(test_few_numbers), cmocka_unit_test(test_experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
