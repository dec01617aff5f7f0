/* Times attention alone: the rate at which a decode step reads its caches, and the time of a
 * prompt's chunk. u8 are rows of int8 numbers (mica_to_q8). Where values are in the keys (MLA),
 * these are read twice, and counted once.
 *
 *     attention [DEPTH [THREADS]]
 *
 * The caches of many layers are used in rotation, so that they come from memory. Prints the best of
 * several rounds. One thread is timed by its own clock, so that other programs matter less. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "timing.h"

enum { LAYERS = 12, ROUNDS = 7, CHUNK = 512 };

typedef struct shape {
    const char *name;
    int64_t heads, kv_heads, head_dim;
    int64_t latent; /* values are the first so many elements of keys; 0: of their own */
} shape;

static clockid_t clock_used = CLOCK_MONOTONIC;

static mica_array noise(mica_scope *s, const int64_t *dims, uint64_t seed, mica_dtype dtype) {
    mica_array key = mica_random_key(s, seed);
    mica_array x = mica_random_uniform(s, key, dims, 4, MICA_F32, -1, 1);
    return mica_materialize(s, dtype == MICA_U8 ? mica_to_q8(s, x) : mica_astype(s, x, dtype));
}

/* Rows of int8 numbers are read whole. */
static mica_array values_in(mica_scope *s, mica_array k, int64_t latent) {
    if (mica_array_dtype(k) == MICA_U8) return k;
    return mica_materialize(s, mica_slice_axis(s, k, 3, 0, latent));
}

/* Returns the seconds of the best round, negative after an error. A round computes `layers` layers,
 * each for `queries` queries at the end of the caches. */
static double time_rounds(mica_device *device, const shape *sh, mica_dtype dtype, int64_t depth,
                          int64_t queries, int layers) {
    const int64_t cache[] = {1, sh->kv_heads, depth, sh->head_dim};
    const int64_t asked[] = {1, sh->heads, queries, sh->head_dim};
    mica_scope *home = NULL;
    mica_array k[LAYERS], v[LAYERS];
    double best = -1;
    if (mica_scope_open(device, &home) != MICA_OK) return -1;
    mica_array q = noise(home, asked, 1, MICA_F32);
    for (int i = 0; i < layers; i++) {
        k[i] = noise(home, cache, 2, dtype);
        v[i] = sh->latent ? values_in(home, k[i], sh->latent) : noise(home, cache, 3, dtype);
    }
    mica_status status = mica_scope_status(home);
    for (int round = 0; status == MICA_OK && round < ROUNDS; round++) {
        mica_scope *s = NULL;
        mica_array y[LAYERS];
        status = mica_scope_open(device, &s);
        if (status != MICA_OK) break;
        for (int i = 0; i < layers; i++)
            y[i] = mica_sdpa(s, q, k[i], v[i], &(mica_sdpa_options){.causal = true});
        double start = seconds_of(clock_used);
        status = mica_eval_n(s, y, (size_t)layers);
        double took = seconds_of(clock_used) - start;
        if (round > 0 && (best < 0 || took < best)) best = took;
        mica_scope_close(&s);
    }
    mica_scope_close(&home);
    return status == MICA_OK ? best : -1;
}

static int measure(mica_device *device, const shape *sh, mica_dtype dtype, int64_t depth) {
    double step = time_rounds(device, sh, dtype, depth, 1, LAYERS);
    double chunk = time_rounds(device, sh, dtype, depth, CHUNK, 2);
    if (step < 0 || chunk < 0) return 1;
    int64_t width = dtype == MICA_U8 ? mica_q8_bytes(sh->head_dim) : sh->head_dim;
    int64_t values = sh->latent && dtype != MICA_U8 ? sh->latent : sh->head_dim;
    double bytes = (double)(sh->kv_heads * depth * width * LAYERS) *
                   (double)mica_dtype_bytes(dtype) * (sh->latent ? 1.0 : 2.0);
    double seen = (double)(CHUNK * depth) - (double)CHUNK * (CHUNK - 1) / 2;
    double flop = 2.0 * seen * (double)(sh->heads * (sh->head_dim + values)) * 2;
    printf("%-15s  %-5s  %9.1f  %9.1f  %9.2f  %9.1f\n", sh->name, mica_dtype_name(dtype),
           step / LAYERS * 1e6, bytes / step / 1e9, chunk / 2 * 1e3, flop / chunk / 1e9);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv) {
    static const shape shapes[] = {{"Qwen3-0.6B", 16, 8, 128, 0},
                                   {"Gemma3-1B", 4, 1, 256, 0},
                                   {"Llama-3.2-1B", 32, 8, 64, 0},
                                   {"GLM-4.7-Flash", 20, 1, 576, 512},
                                   {"the same, whole", 20, 20, 256, 0}};
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16, MICA_U8};
    int64_t depth = argc > 1 ? atoll(argv[1]) : 2048;
    mica_device *device = NULL;
    const mica_device_options options = {.threads = argc > 2 ? atoi(argv[2]) : 0};
    if (options.threads == 1) clock_used = CLOCK_PROCESS_CPUTIME_ID;
    int failed = depth < CHUNK || mica_device_open("cpu", &options, &device) != MICA_OK;
    if (!failed)
        printf("%lld keys                 a query: us       GB/s   %d: ms     GFLOP/s\n",
               (long long)depth, CHUNK);
    for (size_t i = 0; !failed && i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; !failed && j < sizeof dtypes / sizeof *dtypes; j++)
            failed = measure(device, &shapes[i], dtypes[j], depth);
    if (failed) fprintf(stderr, "attention: %s\n", mica_last_error());
    mica_device_close(&device);
    return failed;
}
