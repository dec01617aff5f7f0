/* Attention on the device cuda, by the emulated driver, which has kernels of their own for one
 * query and for many: the bits of a query among others, and the CPU's numbers. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

typedef struct example {
    int64_t heads, kv_heads, d, keys; /* keys: that there is room for */
    int32_t position;                 /* of the query, and so the last key that it sees */
    mica_dtype dtype;                 /* of keys and values */
    int64_t window, keep;
    float softcap;
    bool sinks;
    int64_t entries; /* of a block of a pool; 0: there is none */
} example;

static const example examples[] = {
    {4, 2, 128, 40, 0, MICA_BF16, 0, 0, 0, false, 0},
    {4, 2, 128, 40, 31, MICA_F16, 0, 0, 0, false, 0},
    {2, 1, 128, 300, 255, MICA_F32, 0, 0, 0, false, 0},
    {8, 2, 64, 300, 199, MICA_BF16, 0, 0, 30, true, 0},
    {4, 1, 256, 200, 180, MICA_BF16, 0, 0, 0, false, 0},
    {3, 3, 64, 1500, 1333, MICA_F16, 0, 0, 0, false, 0},   /* more parts than a block has */
    {4, 2, 128, 700, 600, MICA_BF16, 100, 40, 0, true, 0}, /* a window, and keys that are kept */
    {2, 2, 64, 700, 650, MICA_F32, 400, 0, 0, false, 0},
    {4, 2, 128, 320, 300, MICA_BF16, 0, 0, 0, false, 16},
    {2, 1, 64, 480, 470, MICA_F16, 0, 0, 0, true, 48},
    {4, 2, 128, 320, 700, MICA_BF16, 100, 40, 0, false, 0}, /* the window is behind the keys */
    {16, 2, 256, 90, 70, MICA_BF16, 0, 0, 0, false, 0}, /* more heads than a block has room for */
    {7, 1, 64, 300, 260, MICA_BF16, 0, 0, 0, false, 0},
};

enum { MOST = 1 << 19, QUERIES = 48 };

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* Numbers in [-2, 2), the same for the same seed. */
static mica_array filled(mica_scope *s, uint32_t seed, const int64_t *shape, int ndim,
                         mica_dtype dtype) {
    static float x[MOST];
    int64_t n = 1;
    for (int k = 0; k < ndim; k++)
        n *= shape[k];
    assert_true(n <= MOST);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-30f;
    }
    return mica_astype(s, mica_from_data(s, x, MICA_F32, shape, ndim), dtype);
}

/* A table of M blocks, in another order than they lie in. */
static mica_array table_of(mica_scope *s, int64_t n) {
    int32_t blocks[64];
    assert_true(n <= 64);
    for (int64_t i = 0; i < n; i++)
        blocks[i] = (int32_t)((i * 7 + 3) % n);
    return mica_from_data(s, blocks, MICA_I32, (int64_t[]){1, n}, 2);
}

/* The results [heads, d] of the query at the position, the last of `queries`. */
static void attend(const char *name, const example *e, int64_t queries, float *to) {
    mica_device *device;
    mica_scope *s;
    must(mica_device_open(name, NULL, &device));
    must(mica_scope_open(device, &s));
    const int64_t all[] = {1, e->heads, QUERIES, e->d};
    const int64_t blocks = e->entries ? e->keys / e->entries : 0;
    const int64_t pool[] = {e->kv_heads, blocks, e->entries, e->d};
    const int64_t row[] = {1, e->kv_heads, e->keys, e->d};
    const int64_t *shape = e->entries ? pool : row;
    mica_array q = filled(s, 1, all, 4, MICA_F32);
    q = mica_slice(s, q, (int64_t[]){0, 0, QUERIES - queries, 0}, all, NULL);
    mica_array k = filled(s, 2, shape, 4, e->dtype), v = filled(s, 3, shape, 4, e->dtype);
    mica_sdpa_options options = {.struct_bytes = sizeof options,
                                 .causal = true,
                                 .window = e->window,
                                 .keep = e->keep,
                                 .softcap = e->softcap,
                                 .offset = mica_i32(s, e->position - (int32_t)queries + 1)};
    if (e->sinks) options.sinks = filled(s, 4, &e->heads, 1, MICA_F32);
    mica_array y = e->entries ? mica_paged_sdpa(s, q, k, v, table_of(s, blocks), &options)
                              : mica_sdpa(s, q, k, v, &options);
    y = mica_slice(s, y, (int64_t[]){0, 0, queries - 1, 0}, (int64_t[]){1, e->heads, queries, e->d},
                   NULL);
    y = mica_contiguous(s, mica_astype(s, y, MICA_F32));
    must(mica_read(y, to, (size_t)(e->heads * e->d) * sizeof *to));
    mica_scope_close(&s);
    mica_device_close(&device);
}

static void compare(const example *e, const char *what, const float *x, const float *y, float by) {
    for (int64_t i = 0; i < e->heads * e->d; i++)
        if (!(fabsf(x[i] - y[i]) <= by * fmaxf(fabsf(y[i]), 1)))
            fail_msg("%lld of %lld keys of %lld: %.9g, %.9g %s", (long long)i, (long long)e->keys,
                     (long long)e->d, (double)x[i], (double)y[i], what);
}

enum { FEW = 3, MANY = 33 };

static void check(const example *e) {
    float alone[4096], among[4096], many[4096], more[4096], cpu[4096];
    attend("cpu", e, 1, cpu);
    attend("cuda", e, 1, alone);
    attend("cuda", e, FEW < e->position + 1 ? FEW : e->position + 1, among);
    compare(e, "among others", alone, among, 0);
    compare(e, "on the CPU", alone, cpu, 0x1p-7f);
    if (e->position < QUERIES) return;
    attend("cuda", e, MANY, many);
    attend("cuda", e, QUERIES, more);
    compare(e, "among more", many, more, 0);
    compare(e, "on the CPU, among many", many, cpu, 0x1p-7f);
}

static void test_queries_have_the_same_bits_alone_and_among_others(void **state) {
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
        cmocka_unit_test(test_queries_have_the_same_bits_alone_and_among_others),
    };
    return cmocka_run_group_tests(tests, set_driver, NULL);
}
