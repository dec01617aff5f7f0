/* What transforms of a length need beside their numbers: factors, roots, chirps. They are kept by
 * the device for a few lengths, since they take about as long as a transform. */
#ifndef CPU_FFT_TABLES_H
#define CPU_FFT_TABLES_H

#include "cpu/kern/kern.h"

#include <mica/status.h>

typedef struct mc_fft_cache mc_fft_cache;

/* Complex numbers, their parts apart. */
typedef struct mc_parts {
    float *re, *im;
} mc_parts;

/* A transform by passes: one for each factor. */
#define MC_FFT_PASSES 64
typedef struct mc_fft_plan {
    int64_t n;
    int passes;
    int factors[MC_FFT_PASSES];
    mc_parts roots[MC_FFT_PASSES];     /* [factor - 1, m] of each pass (mk_fft_pass) */
    const float *units[MC_FFT_PASSES]; /* [factor, 2] of each pass */
} mc_fft_plan;

typedef struct mc_fft_tables {
    int64_t n;
    bool chirped;     /* Bluestein's algorithm: plan is that of the convolution */
    mc_fft_plan plan; /* of n, or of 2 n - 1 numbers at least */
    mc_parts chirp;   /* [n] exp(-pi i k^2 / n) */
    mc_parts filter;  /* [plan.n] the transform of the chirp's conjugate, / plan.n */

    /* of the cache */
    struct mc_fft_tables *next;
    size_t bytes;
    int users;
} mc_fft_tables;

/* Floats of a row of n: the length of the transforms by which it is computed. */
int64_t mc_fft_length(int64_t n);

/* The transform of x. Both are overwritten; returns the one that holds it. */
mc_parts mc_fft_transform(const mk_kernels *kern, const mc_fft_plan *plan, mc_parts x, mc_parts y);

/* Any thread. */
mica_status mc_fft_cache_open(mc_fft_cache **cache);
void mc_fft_cache_close(mc_fft_cache **cache);
/* The tables of n points, made where they are not there. errors  MICA_ENOMEM */
mica_status mc_fft_tables_get(mc_fft_cache *cache, const mk_kernels *kern, int64_t n,
                              mc_fft_tables **out);
/* Ends the use of tables. NULL does nothing. */
void mc_fft_tables_release(mc_fft_cache *cache, mc_fft_tables *tables);

#endif
