/* Times selective scan (Mamba): the op, and the same as a program of plain ops, step by step, as a
 * graph without the op would have it.
 *
 *     scan [STEPS [CHANNELS [THREADS]]]
 *
 * Prints the median of five runs. Both are compiled before; their results are compared. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "timing.h"

enum { N = 16, ROUNDS = 5, X = 0, DELTA, A, B, C, OPERANDS };

static mica_array noise(mica_scope *s, uint64_t seed, double lo, double hi, const int64_t *shape,
                        int ndim) {
    mica_array key = mica_random_key(s, seed);
    return mica_random_uniform(s, key, shape, ndim, MICA_F32, lo, hi);
}

static mica_status by_op(void *user, mica_scope *s, const mica_array *in, size_t n_in,
                         mica_array *results, size_t n_results) {
    (void)user, (void)n_in, (void)n_results;
    results[0] = mica_selective_scan(s, in[X], in[DELTA], in[A], in[B], in[C], NULL, NULL);
    return mica_scope_status(s);
}

/* Step t of [1, L, n] as [n, 1] or [1, n]. */
static mica_array step_of(mica_scope *s, mica_array x, int64_t t, bool column) {
    const int64_t n = mica_array_dim(x, 2), shape[2] = {column ? n : 1, column ? 1 : n};
    return mica_reshape(s, mica_slice_axis(s, x, 1, t, t + 1), shape, 2);
}

static mica_status by_steps(void *user, mica_scope *s, const mica_array *in, size_t n_in,
                            mica_array *results, size_t n_results) {
    (void)user, (void)n_in, (void)n_results;
    const int64_t length = mica_array_dim(in[X], 1), shape[3] = {1, 1, mica_array_dim(in[X], 2)};
    const int last = -1;
    mica_array h = mica_zeros(s, mica_array_shape(in[A]), 2, MICA_F32);
    mica_array *ys = malloc((size_t)length * sizeof *ys);
    if (!ys) return MICA_ENOMEM;
    for (int64_t t = 0; t < length; t++) {
        mica_array delta = step_of(s, in[DELTA], t, true), x = step_of(s, in[X], t, true);
        mica_array w = mica_exp(s, mica_multiply(s, delta, in[A]));
        mica_array u = mica_multiply(s, mica_multiply(s, delta, x), step_of(s, in[B], t, false));
        h = mica_add(s, mica_multiply(s, w, h), u);
        mica_array y = mica_multiply(s, h, step_of(s, in[C], t, false));
        ys[t] = mica_reshape(s, mica_sum(s, y, &last, 1, false), shape, 3);
    }
    results[0] = mica_concatenate(s, ys, (int)length, 1);
    free(ys);
    return mica_scope_status(s);
}

/* The median of the runs' seconds, negative after an error; the result's elements go to y. */
static double time_runs(mica_device *device, mica_compile_fn fn, const mica_array *in, float *y,
                        size_t bytes) {
    mica_function *function = NULL;
    double seconds[ROUNDS];
    mica_status status = mica_compile(device, fn, NULL, NULL, &function);
    for (int round = -1; status == MICA_OK && round < ROUNDS; round++) {
        mica_scope *s = NULL;
        mica_array result;
        status = mica_scope_open(device, &s);
        if (status != MICA_OK) break;
        double start = seconds_of(CLOCK_MONOTONIC);
        status = mica_function_call(function, s, in, OPERANDS, &result, 1);
        if (status == MICA_OK) status = mica_eval(s, result);
        if (round >= 0) seconds[round] = seconds_of(CLOCK_MONOTONIC) - start;
        if (status == MICA_OK) status = mica_read(result, y, bytes);
        mica_scope_close(&s);
    }
    mica_function_close(&function);
    if (status != MICA_OK) return -1;
    return median(seconds, ROUNDS);
}

static int measure(mica_device *device, int64_t length, int64_t channels) {
    const int64_t rows[3] = {1, length, channels}, vectors[3] = {1, length, N};
    const int64_t matrix[2] = {channels, N};
    mica_scope *home = NULL;
    size_t n = (size_t)(length * channels);
    float *y[2] = {malloc(n * sizeof(float)), malloc(n * sizeof(float))};
    mica_status status = y[0] && y[1] ? mica_scope_open(device, &home) : MICA_ENOMEM;
    if (status != MICA_OK) return 1;
    mica_array in[OPERANDS] = {noise(home, 1, -1, 1, rows, 3), noise(home, 2, 0, 0.1, rows, 3),
                               noise(home, 3, -8, -1, matrix, 2), noise(home, 4, -1, 1, vectors, 3),
                               noise(home, 5, -1, 1, vectors, 3)};
    double op = -1, steps = -1, off = 0;
    if (mica_eval_n(home, in, OPERANDS) == MICA_OK) {
        op = time_runs(device, by_op, in, y[0], n * sizeof(float));
        steps = time_runs(device, by_steps, in, y[1], n * sizeof(float));
    }
    for (size_t i = 0; op >= 0 && steps >= 0 && i < n; i++)
        off = fmax(off, fabs((double)(y[0][i] - y[1][i])));
    mica_scope_close(&home);
    free(y[0]);
    free(y[1]);
    if (op < 0 || steps < 0) return 1;
    printf("%lld steps, %lld channels, %d states: op %.2f ms, step by step %.2f ms, %.1f times; "
           "off by %.1e\n",
           (long long)length, (long long)channels, N, op * 1e3, steps * 1e3, steps / op, off);
    return 0;
}

int main(int argc, char **argv) {
    int64_t length = argc > 1 ? atoll(argv[1]) : 4096, channels = argc > 2 ? atoll(argv[2]) : 768;
    mica_device_options options = {.threads = argc > 3 ? atoi(argv[3]) : 0};
    mica_device *device = NULL;
    if (length < 1 || channels < 1) {
        fprintf(stderr, "usage: scan [STEPS [CHANNELS [THREADS]]]\n");
        return 2;
    }
    int failed = mica_device_open("cpu", &options, &device) != MICA_OK;
    if (!failed) failed = measure(device, length, channels);
    if (failed) fprintf(stderr, "scan: %s\n", mica_last_error());
    mica_device_close(&device);
    return failed;
}
