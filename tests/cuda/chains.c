/* Chains on the device cuda, by the emulated driver, that have kernels of their own: a sum with its
 * norm, and heads on their way to attention. They have the bits of their ops one at a time, and
 * the CPU's numbers. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

enum { MOST = 1 << 15, LENGTH = 26, STEPS = 5 };

/* Numbers in [-2, 2), the same for the same seed. */
static const float *numbers(uint32_t seed, int64_t n) {
    static float x[MOST];
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-30f;
    }
    return x;
}

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static mica_array filled(mica_scope *s, uint32_t seed, const int64_t *shape, int ndim,
                         mica_dtype dtype) {
    int64_t n = 1;
    for (int k = 0; k < ndim; k++)
        n *= shape[k];
    assert_true(n <= MOST);
    mica_array x =
        mica_astype(s, mica_from_data(s, numbers(seed, n), MICA_F32, shape, ndim), dtype);
    must(mica_eval(s, x));
    return x;
}

/* An op that is computed before the next is known, or not. */
static mica_array done(mica_scope *s, mica_array x, bool apart) {
    if (apart) must(mica_eval(s, x));
    return x;
}

static int64_t read_floats(mica_scope *s, mica_array x, float *to) {
    int64_t n = mica_array_size(x);
    assert_true(n <= MOST);
    must(mica_read(mica_astype(s, x, MICA_F32), to, (size_t)n * sizeof *to));
    return n;
}

/* Whether a profile has a line of the kernel. */
static bool has_run(const char *path, const char *kernel) {
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = strlen(kernel);
    while (fgets(line, sizeof line, file))
        found = found || (strncmp(line, kernel, n) == 0 && line[n] == ' ');
    (void)fclose(file);
    return found;
}

/* ---- what is computed ---- */

typedef struct example {
    const char *kernel;
    int64_t rows, heads, kv_heads, d; /* rows: of a sum and its norm, which has a bias where there
                                         are heads; else 0 */
    int dims;
    mica_dtype weight, cache;
    bool norms_values; /* by a norm without a weight; of a sum: what is added, by one with one */
    int tokens;        /* of heads; 0: one. Norms of several come before their axes are swapped */
} example;

static const example examples[] = {
    {"mc_add_norm", 1, 0, 0, 1024, 0, MICA_BF16, 0, false, 0},
    {"mc_add_norm", 3, 0, 0, 1024, 0, MICA_F32, 0, false, 0},
    {"mc_add_norm", 1, 0, 0, 4096, 0, MICA_BF16, 0, false, 0},
    {"mc_add_norm", 2, 0, 0, 700, 0, MICA_BF16, 0, false, 0},
    {"mc_add_norm", 40, 0, 0, 516, 0, MICA_F32, 0, false, 0},
    {"mc_add_norm", 7, 0, 0, 4096, 0, MICA_F32, 0, false, 0},
    {"mc_add_norm", 1, 0, 0, 1152, 0, MICA_F32, 0, true, 0},
    {"mc_add_norm", 5, 0, 0, 700, 0, MICA_BF16, 0, true, 0},
    {"mc_add_norm", 1, 1, 0, 2880, 0, MICA_BF16, 0, false, 0},
    {"mc_add_norm", 6, 1, 0, 640, 0, MICA_F32, 0, false, 0},
    {"mc_heads", 0, 16, 8, 128, 128, MICA_BF16, MICA_BF16, false, 0},
    {"mc_heads", 0, 4, 2, 128, 64, MICA_F32, MICA_F16, false, 0},
    {"mc_heads", 0, 6, 3, 64, 64, MICA_BF16, MICA_F32, false, 0},
    {"mc_heads", 0, 4, 1, 256, 256, MICA_F32, MICA_BF16, false, 0},
    {"mc_heads", 0, 4, 2, 128, 128, MICA_F32, MICA_F16, true, 0},
    {"mc_heads", 0, 2, 1, 256, 128, MICA_BF16, MICA_F32, true, 0},
    {"mc_gated", 5, 0, 0, 300, 0, 0, 0, false, 0},
    {"mc_gated", 1, 0, 0, 1, 0, 0, 0, false, 0},
    {"mc_heads", 0, 16, 8, 128, 128, MICA_BF16, MICA_BF16, false, 3},
    {"mc_heads", 0, 4, 2, 64, 64, MICA_F32, MICA_F32, true, 4},
    {"mc_heads", 0, 5, 5, 128, 64, MICA_F32, MICA_F16, false, 5},
    {"mc_heads", 0, 1, 1, 256, 256, MICA_BF16, MICA_BF16, true, 2},
};

enum { MOST_RESULTS = 3 };

typedef struct results {
    int n;
    int64_t sizes[MOST_RESULTS];
    float *of[MOST_RESULTS];
} results;

static void free_results(results *r) {
    for (int i = 0; i < r->n; i++)
        free(r->of[i]);
}

static void keep(mica_scope *s, const mica_array *x, int n, results *r) {
    r->n = n;
    for (int i = 0; i < n; i++) {
        r->of[i] = malloc(MOST * sizeof(float));
        r->sizes[i] = read_floats(s, x[i], r->of[i]);
    }
}

static void add_and_norm(mica_scope *s, const example *e, uint32_t seed, bool apart, results *r) {
    const int64_t shape[] = {1, e->rows, e->d};
    mica_array x = filled(s, seed, shape, 3, MICA_F32), y = filled(s, seed + 1, shape, 3, MICA_F32);
    mica_array weight = filled(s, seed + 2, &e->d, 1, e->weight);
    if (e->norms_values)
        y = done(s, mica_rms_norm(s, y, filled(s, seed + 3, &e->d, 1, MICA_BF16), 1e-5f), apart);
    if (e->heads > 0) y = done(s, mica_add(s, y, filled(s, seed + 3, &e->d, 1, MICA_F32)), apart);
    mica_array sum = done(s, mica_add(s, x, y), apart);
    mica_array out[] = {sum, mica_rms_norm(s, sum, weight, 1e-6f), y};
    int n = e->norms_values || e->heads > 0 ? 3 : 2;
    must(mica_eval_n(s, out, (size_t)n));
    keep(s, out, n, r);
}

static int64_t tokens_of(const example *e) {
    return e->tokens > 0 ? e->tokens : 1;
}

/* [1, tokens, n d] of a product as heads [1, n, tokens, d], behind a norm. */
static mica_array as_heads(mica_scope *s, const example *e, uint32_t seed, int64_t n,
                           mica_array weight, bool normed, bool apart) {
    const int64_t flat[] = {1, tokens_of(e), n * e->d}, shape[] = {1, tokens_of(e), n, e->d};
    mica_array x = mica_reshape(s, filled(s, seed, flat, 3, MICA_F32), shape, 4);
    bool before = normed && e->tokens > 1;
    if (before) x = done(s, mica_rms_norm(s, x, weight, 1e-6f), apart);
    x = mica_swapaxes(s, x, 1, 2);
    return normed && !before ? done(s, mica_rms_norm(s, x, weight, 1e-6f), apart) : x;
}

static mica_array rotated(mica_scope *s, const example *e, uint32_t seed, int64_t n,
                          mica_array position, bool apart) {
    const mica_rope_options options = {
        .struct_bytes = sizeof options, .dims = e->dims, .base = 1e6f};
    mica_array weight = filled(s, seed + 9, &e->d, 1, e->weight);
    mica_array x = as_heads(s, e, seed, n, weight, true, apart);
    return done(s, mica_rope(s, x, position, MICA_NONE, &options), apart);
}

static mica_array cached(mica_scope *s, mica_array cache, mica_array x, int32_t at, bool apart) {
    x = done(s, mica_astype(s, x, mica_array_dtype(cache)), apart);
    return done(s, mica_slice_update_at(s, cache, x, mica_i32(s, at), 2), apart);
}

/* Query heads, and caches of keys and values after a token at each of some positions. */
static void prepare_heads(mica_device *device, const example *e, uint32_t seed, bool apart,
                          results *r) {
    const int64_t shape[] = {1, e->kv_heads, LENGTH, e->d};
    mica_scope *all;
    must(mica_scope_open(device, &all));
    mica_array k = filled(all, seed, shape, 4, e->cache), q = MICA_NONE;
    mica_array v = filled(all, seed + 1, shape, 4, e->cache);
    for (int32_t i = 0; i < STEPS; i++) {
        mica_scope *s;
        must(mica_scope_open(device, &s));
        uint32_t own = seed + 100 * (uint32_t)i;
        mica_array at = mica_i32(s, 1000 * i + 7);
        mica_array old_k = mica_move(s, k), old_v = mica_move(s, v);
        mica_array rows = rotated(s, e, own + 3, e->kv_heads, at, apart), out[3];
        out[0] = rotated(s, e, own + 2, e->heads, at, apart);
        int32_t to = i * (int32_t)tokens_of(e);
        out[1] = cached(s, old_k, rows, to, apart);
        mica_array values = as_heads(s, e, own + 4, e->kv_heads, MICA_NONE, e->norms_values, apart);
        out[2] = cached(s, old_v, values, to, apart);
        must(mica_eval_n(s, out, 3));
        q = mica_materialize(all, out[0]);
        k = mica_materialize(all, out[1]);
        v = mica_materialize(all, out[2]);
        mica_scope_close(&s);
    }
    keep(all, (mica_array[]){q, k, v}, 3, r);
    mica_scope_close(&all);
}

/* What is between the matrices of a gated MLP, and the same with a number of the launch. */
static void gate(mica_scope *s, const example *e, uint32_t seed, bool apart, results *r) {
    const int64_t shape[] = {1, e->rows, e->d};
    mica_array x = filled(s, seed, shape, 3, MICA_F32), y = filled(s, seed + 1, shape, 3, MICA_F32);
    mica_array out[3];
    out[0] = done(s, mica_multiply(s, done(s, mica_silu(s, x), apart), y), true);
    out[1] = done(s, mica_multiply(s, y, done(s, mica_gelu_approx(s, x), apart)), true);
    out[2] = done(s, mica_multiply(s, done(s, mica_silu(s, x), apart), mica_f32(s, 3.0f)), true);
    must(mica_eval_n(s, out, 3));
    keep(s, out, 3, r);
}

static void compute(mica_device *device, const example *e, bool apart, results *r) {
    if (e->rows == 0) {
        prepare_heads(device, e, 5, apart, r);
        return;
    }
    mica_scope *s;
    must(mica_scope_open(device, &s));
    if (strcmp(e->kernel, "mc_gated") == 0)
        gate(s, e, 5, apart, r);
    else
        add_and_norm(s, e, 5, apart, r);
    mica_scope_close(&s);
}

/* ---- comparing ---- */

/* slack: of a result's size, below 1 of 1. */
static void expect(const example *e, const results *x, const results *want, double slack) {
    assert_int_equal(x->n, want->n);
    for (int i = 0; i < x->n; i++) {
        assert_int_equal(x->sizes[i], want->sizes[i]);
        for (int64_t k = 0; k < x->sizes[i]; k++) {
            double got = (double)x->of[i][k], of = (double)want->of[i][k];
            if (!(fabs(got - of) <= slack * fmax(fabs(of), 1)))
                fail_msg("%s of %lld: result %d, element %lld: %.9g, not %.9g", e->kernel,
                         (long long)e->d, i, (long long)k, got, of);
        }
    }
}

static void check(const example *e) {
    char *dir = test_temp_dir(), *path = test_format("%s/profile", dir);
    results plain, one, many, cpu;
    mica_device *device;

    must(mica_device_open("cpu", NULL, &device));
    compute(device, e, false, &cpu);
    mica_device_close(&device);

    must(mica_device_open("cuda", NULL, &device));
    compute(device, e, true, &plain);
    compute(device, e, false, &many); /* of heads, some as graphs */
    mica_device_close(&device);

    setenv("MICA_CUDA_PROFILE", path, 1);
    must(mica_device_open("cuda", NULL, &device));
    compute(device, e, false, &one);
    mica_device_close(&device);
    unsetenv("MICA_CUDA_PROFILE");
    bool ran = has_run(path, e->kernel);
    free(path);
    test_temp_dir_remove(dir);

    if (!ran) fail_msg("%s of %lld did not run", e->kernel, (long long)e->d);
    expect(e, &one, &plain, 0);
    expect(e, &many, &plain, 0);
    bool rounds = e->cache == MICA_BF16 || e->cache == MICA_F16;
    expect(e, &one, &cpu, rounds && e->rows == 0 ? 0x1p-8 : 0x1p-20);
    free_results(&plain);
    free_results(&one);
    free_results(&many);
    free_results(&cpu);
}

static void test_chains_have_the_bits_of_their_ops(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check(&examples[i]);
}

static int set_driver(void **state) {
    (void)state;
    return setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_have_the_bits_of_their_ops),
    };
    return cmocka_run_group_tests(tests, set_driver, NULL);
}
