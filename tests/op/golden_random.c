/* Goldens of op/random.c. */
#include <stdlib.h>

#include "op/golden.h"

/* Reads the argument "shape"; returns its length. */
static int shape_of(const golden *g, int64_t shape[MICA_MAX_NDIM]) {
    int ndim = golden_ints(g, "shape", shape, MICA_MAX_NDIM);
    return ndim < 0 ? 0 : ndim;
}

static bool run_key(golden *g) {
    char seed[64];
    assert_true(golden_text(g, "seed", seed));
    g->out[0] = mica_random_key(g->s, strtoull(seed, NULL, 10));
    return true;
}

static bool run_split(golden *g) {
    g->out[0] = mica_random_split(g->s, golden_in(g, "key"), golden_int(g, "num", 2));
    return true;
}

static bool run_uniform(golden *g) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = shape_of(g, shape);
    g->out[0] = mica_random_uniform(g->s, golden_in(g, "key"), shape, ndim,
                                    golden_dtype(g, "dtype", MICA_F32), golden_float(g, "low", 0),
                                    golden_float(g, "high", 1));
    return true;
}

static bool run_normal(golden *g) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = shape_of(g, shape);
    g->out[0] = mica_random_normal(g->s, golden_in(g, "key"), shape, ndim,
                                   golden_dtype(g, "dtype", MICA_F32), golden_float(g, "loc", 0),
                                   golden_float(g, "scale", 1));
    g->ulps = 1;
    return true;
}

static bool run_truncated_normal(golden *g) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = shape_of(g, shape);
    g->out[0] =
        mica_random_truncated_normal(g->s, golden_in(g, "key"), shape, ndim,
                                     golden_float(g, "low", -1), golden_float(g, "high", 1));
    return true;
}

static bool run_randint(golden *g) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = shape_of(g, shape);
    g->out[0] = mica_random_randint(g->s, golden_in(g, "key"), shape, ndim, golden_int(g, "low", 0),
                                    golden_int(g, "high", 1));
    return true;
}

static bool run_bernoulli(golden *g) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = shape_of(g, shape);
    g->out[0] =
        mica_random_bernoulli(g->s, golden_in(g, "key"), shape, ndim, golden_float(g, "p", 0.5));
    return true;
}

static bool run_gumbel(golden *g) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = shape_of(g, shape);
    g->out[0] = mica_random_gumbel(g->s, golden_in(g, "key"), shape, ndim, MICA_F32);
    return true;
}

static bool run_laplace(golden *g) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = shape_of(g, shape);
    g->out[0] = mica_random_laplace(g->s, golden_in(g, "key"), shape, ndim, MICA_F32);
    return true;
}

static bool run_permutation(golden *g) {
    g->out[0] = mica_random_permutation(g->s, golden_in(g, "key"), golden_int(g, "n", 1));
    return true;
}

/* With a shape, the logits are broadcast to it first. */
static bool run_categorical(golden *g) {
    mica_array logits = golden_in(g, "logits");
    int64_t shape[MICA_MAX_NDIM];
    int ndim = shape_of(g, shape);
    if (ndim > 0) {
        shape[ndim] = mica_array_dim(logits, -1);
        logits = mica_broadcast_to(g->s, logits, shape, ndim + 1);
    }
    g->out[0] =
        mica_random_categorical(g->s, golden_in(g, "key"), logits, golden_int(g, "num_samples", 0));
    return true;
}

/* Calls without a key: MLX takes the next one of a global stream. */
static bool run_global_stream(golden *g) {
    mica_random_state state = mica_random_seed((uint64_t)golden_int(g, "seed", 0));
    const int64_t four = 4, three = 3, zeros[2] = {2, 9};
    mica_array key = mica_random_next(g->s, &state);
    g->out[0] = mica_random_uniform(g->s, key, &four, 1, MICA_F32, 0, 1);
    key = mica_random_next(g->s, &state);
    g->out[1] = mica_random_normal(g->s, key, &three, 1, MICA_F32, 0, 1);
    key = mica_random_next(g->s, &state);
    g->out[2] = mica_random_categorical(g->s, key, mica_zeros(g->s, zeros, 2, MICA_F32), 0);
    return true;
}

#define ROW(name) \
    { .op = #name, .run = run_##name }
static const golden_row rows[] = {
    ROW(key),         ROW(split),        ROW(uniform), ROW(normal),  ROW(truncated_normal),
    ROW(randint),     ROW(bernoulli),    ROW(gumbel),  ROW(laplace), ROW(permutation),
    ROW(categorical), ROW(global_stream)};

const golden_group golden_random = {"random", rows, sizeof rows / sizeof *rows, NULL};
