/* Times the matmuls of a mixture of experts, each beside one matmul of the same work.
 *
 *     experts [THREADS]
 *
 * A prompt: 128 tokens, each of which picks 8 of 16 experts [512, 1024], so that 64 rows meet each;
 * beside a matmul of 1,024 rows by one matrix. A token: it picks 8 of 64 experts [768, 2048];
 * beside a matmul of one row by as many rows of weights. Tokens with other picks follow each other,
 * so that weights come from memory. Medians of rounds that take turns. One thread is timed by its
 * own clock, so that other programs matter less. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "op/matmul.h"
#include "op/quant.h"
#include "timing.h"

enum { ROUNDS = 21, PICKS = 8, TOKENS = 128, FEW = 16, MANY = 64, STEPS = 8 };

typedef struct format {
    const char *name;
    mica_quant quant;
    mica_dtype dtype; /* bits 0: of weights that are not quantised */
    bool fast;
} format;

static const format formats[] = {
    {"4 bits, fast", {MICA_QUANT_AFFINE, 4, 64}, MICA_BF16, true},
    {"4 bits, exact", {MICA_QUANT_AFFINE, 4, 64}, MICA_BF16, false},
    {"8 bits, fast", {MICA_QUANT_AFFINE, 8, 64}, MICA_BF16, true},
    {"6 bits, fast", {MICA_QUANT_AFFINE, 6, 64}, MICA_BF16, true},
    {"mxfp4, fast", {MICA_QUANT_MXFP4, 4, 32}, MICA_BF16, true},
    {"mxfp8, fast", {MICA_QUANT_MXFP8, 8, 32}, MICA_BF16, true},
    {"nvfp4, fast", {MICA_QUANT_NVFP4, 4, 16}, MICA_BF16, true},
    {"bf16, fast", {MICA_QUANT_AFFINE, 0, 0}, MICA_BF16, true},
    {"f32", {MICA_QUANT_AFFINE, 0, 0}, MICA_F32, false},
};

/* Matrices [experts, n, k] of a format, and the same rows as one matrix. */
typedef struct weights {
    const format *format;
    mica_array w[3]; /* codes, scales, biases; or floats alone */
    mica_array rows[3];
} weights;

static clockid_t clock_used = CLOCK_MONOTONIC;

static mica_array noise(mica_scope *s, uint64_t seed, const int64_t *dims, int n,
                        mica_dtype dtype) {
    mica_array x = mica_random_uniform(s, mica_random_key(s, seed), dims, n, MICA_F32, -1, 1);
    return mica_materialize(s, mica_astype(s, x, dtype));
}

static weights make(mica_scope *s, const format *f, int64_t experts, int64_t n, int64_t k) {
    const int64_t dims[] = {experts, n, k};
    weights w = {.format = f};
    w.w[0] = noise(s, 1, dims, 3, f->dtype);
    w.w[1] = w.w[2] = MICA_NONE;
    if (f->quant.bits > 0) must(mica_quantize(s, w.w[0], f->quant, &w.w[0], &w.w[1], &w.w[2]));
    for (int i = 0; i < 3; i++) {
        w.rows[i] = MICA_NONE;
        if (!w.w[i].scope) continue;
        w.w[i] = mica_materialize(s, w.w[i]);
        w.rows[i] = mica_materialize(s, mica_flatten(s, w.w[i], 0, 1));
    }
    must(mica_scope_status(s));
    return w;
}

static mica_array gather(mica_scope *s, const weights *w, mica_array x, mica_array picks) {
    const format *f = w->format;
    if (f->quant.bits == 0) return mc_gather_rows(s, x, w->w[0], MICA_NONE, picks, f->fast);
    return mc_gather_qmm(s, x, w->w[0], w->w[1], w->w[2], f->quant, MICA_NONE, picks, f->fast);
}

/* x times rows [first, first + n) of the weights. */
static mica_array multiply(mica_scope *s, const weights *w, mica_array x, int64_t first,
                           int64_t n) {
    const format *f = w->format;
    mica_array part[3];
    for (int i = 0; i < 3; i++)
        part[i] =
            w->rows[i].scope ? mica_slice_axis(s, w->rows[i], 0, first, first + n) : MICA_NONE;
    if (f->quant.bits == 0) return mc_matmul_rows(s, x, part[0], f->fast);
    return mc_quantized_matmul(s, x, part[0], part[1], part[2], f->quant, f->fast);
}

/* What step i of a case computes. */
typedef mica_array (*step_fn)(mica_scope *s, const weights *w, mica_array x, int64_t i);

static double seconds(mica_device *device, const weights *w, mica_array x, step_fn step,
                      int64_t steps) {
    mica_array y[STEPS];
    mica_scope *s = NULL;
    must(mica_scope_open(device, &s));
    for (int64_t i = 0; i < steps; i++)
        y[i] = step(s, w, x, i);
    double begin = seconds_of(clock_used);
    must(mica_eval_n(s, y, (size_t)steps));
    double took = seconds_of(clock_used) - begin;
    mica_scope_close(&s);
    return took;
}

static void compare_steps(mica_device *device, const weights *w, mica_array x, step_fn ours,
                          step_fn whole, int64_t steps, double each[2], double *ratio) {
    double took[2][ROUNDS], ratios[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
        double a = seconds(device, w, x, ours, steps), b = seconds(device, w, x, whole, steps);
        if (round < 0) continue;
        took[0][round] = a;
        took[1][round] = b;
        ratios[round] = a / b;
    }
    for (int i = 0; i < 2; i++)
        each[i] = median(took[i], ROUNDS);
    *ratio = median(ratios, ROUNDS);
}

/* ---- a prompt ---- */

static mica_array prompt_picks(mica_scope *s) {
    const int64_t dims[] = {TOKENS, PICKS};
    int32_t picks[TOKENS * PICKS];
    for (int i = 0; i < TOKENS * PICKS; i++)
        picks[i] = 5 * i % FEW;
    return mica_from_data(s, picks, MICA_I32, dims, 2);
}

static mica_array prompt(mica_scope *s, const weights *w, mica_array x, int64_t i) {
    (void)i;
    const int64_t dims[] = {TOKENS, 1, 1, mica_array_dim(x, 1)};
    x = mica_slice_axis(s, x, 0, 0, TOKENS);
    return gather(s, w, mica_reshape(s, x, dims, 4), prompt_picks(s));
}

static mica_array prompt_whole(mica_scope *s, const weights *w, mica_array x, int64_t i) {
    return multiply(s, w, x, i, mica_array_dim(w->w[0], 1));
}

static void time_prompt(mica_device *device, const format *f) {
    const int64_t n = 512, k = 1024, dims[] = {TOKENS * PICKS, k};
    mica_scope *s = NULL;
    double each[2], ratio;
    must(mica_scope_open(device, &s));
    weights w = make(s, f, FEW, n, k);
    mica_array x = noise(s, 2, dims, 2, MICA_F32);
    compare_steps(device, &w, x, prompt, prompt_whole, 1, each, &ratio);
    printf("%-14s %8.2f %8.2f %6.2f", f->name, each[0] * 1e3, each[1] * 1e3, ratio);
    mica_scope_close(&s);
}

/* ---- a token ---- */

static mica_array token(mica_scope *s, const weights *w, mica_array x, int64_t i) {
    const int64_t dims[] = {PICKS}, row[] = {1, 1, mica_array_dim(x, 1)};
    int32_t picks[PICKS];
    for (int p = 0; p < PICKS; p++)
        picks[p] = (int32_t)((i * PICKS + p) * 37 % MANY);
    return gather(s, w, mica_reshape(s, x, row, 3), mica_from_data(s, picks, MICA_I32, dims, 1));
}

static mica_array token_whole(mica_scope *s, const weights *w, mica_array x, int64_t i) {
    int64_t n = PICKS * mica_array_dim(w->w[0], 1);
    return multiply(s, w, x, i * n, n);
}

static void time_token(mica_device *device, const format *f) {
    const int64_t n = 768, k = 2048, dims[] = {1, k};
    mica_scope *s = NULL;
    double each[2], ratio, bytes = 0;
    must(mica_scope_open(device, &s));
    weights w = make(s, f, MANY, n, k);
    for (int i = 0; i < 3; i++)
        if (w.w[i].scope)
            bytes += (double)mica_array_size(w.w[i]) *
                     (double)mica_dtype_bytes(mica_array_dtype(w.w[i]));
    mica_array x = noise(s, 2, dims, 2, MICA_F32);
    compare_steps(device, &w, x, token, token_whole, STEPS, each, &ratio);
    printf(" %9.1f %8.1f %6.2f\n", bytes / each[0] * 1e-9, bytes / each[1] * 1e-9, ratio);
    fflush(stdout);
    mica_scope_close(&s);
}

int main(int argc, char **argv) {
    mica_device *device = NULL;
    const mica_device_options options = {.threads = argc > 1 ? atoi(argv[1]) : 0};
    if (options.threads == 1) clock_used = CLOCK_PROCESS_CPUTIME_ID;
    must(mica_device_open("cpu", &options, &device));
    printf("                 prompt: ms    whole  ratio   token: GB/s   whole  ratio\n");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        time_prompt(device, &formats[i]);
        time_token(device, &formats[i]);
    }
    mica_device_close(&device);
    return 0;
}
