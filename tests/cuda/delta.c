/* The gated delta rule, on the emulated driver: a text has the same bits whole and in parts, and a
 * row the same alone and beside others; all near what the processor gives. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

enum { MOST = 1 << 15 };

typedef struct shape {
    int64_t batch, steps, keys, heads, n, m;
    bool beta, state;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, true, true},    {2, 19, 1, 2, 16, 5, false, true},
    {1, 9, 2, 2, 70, 33, true, false}, {3, 8, 1, 3, 5, 40, true, true},
    {1, 3, 1, 1, 130, 4, true, true},
};

typedef struct results {
    float out[MOST], last[MOST];
} results;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static mica_array noise(mica_scope *s, uint32_t seed, float scale, const int64_t *dims, int ndim) {
    static float x[MOST];
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= dims[i];
    assert_true(n <= MOST);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f * scale;
    }
    return mica_from_data(s, x, MICA_F32, dims, ndim);
}

/* Steps from on, before `to`, of rows of the batch; NONE stays so. */
static mica_array part(mica_scope *s, mica_array x, int axis, int64_t from, int64_t to) {
    return mica_valid(x) ? mica_slice_axis(s, x, axis, from, to) : x;
}

/* The rows [row, end) of the batch, in parts that end at `cut` and at the last step. */
static void compute(mica_device *device, const shape *p, int64_t row, int64_t end, int64_t cut,
                    results *r) {
    mica_scope *s;
    must(mica_scope_open(device, &s));
    const int64_t k[] = {p->batch, p->steps, p->keys, p->n}, g[] = {p->batch, p->steps, p->heads};
    const int64_t v[] = {p->batch, p->steps, p->heads, p->m};
    const int64_t of[] = {p->batch, p->heads, p->n, p->m};
    mica_array in[] = {noise(s, 1, 1, k, 4), noise(s, 2, 1, k, 4), noise(s, 3, 1, v, 4),
                       mica_subtract(s, noise(s, 4, 0.5f, g, 3), mica_f32(s, 0.6f)),
                       p->beta ? noise(s, 5, 1, g, 3) : MICA_NONE},
               state = p->state ? noise(s, 6, 1, of, 4) : MICA_NONE, outs[2];
    const int64_t ends[] = {0, cut, p->steps};
    state = part(s, state, 0, row, end);
    for (int i = 0; i < 2; i++) {
        mica_array x[5];
        for (int j = 0; j < 5; j++)
            x[j] = part(s, part(s, in[j], 0, row, end), 1, ends[i], ends[i + 1]);
        outs[i] = mica_gated_delta(s, x[0], x[1], x[2], x[3], x[4], state, &state);
    }
    mica_array out = mica_concatenate(s, outs, 2, 1);
    memset(r, 0, sizeof *r);
    must(mica_read(out, r->out, (size_t)mica_array_size(out) * sizeof(float)));
    must(mica_read(state, r->last, (size_t)mica_array_size(state) * sizeof(float)));
    mica_scope_close(&s);
}

static void test_parts_and_rows(void **state) {
    (void)state;
    static results whole, cpu, other;
    mica_device *device, *processor;
    setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
    must(mica_device_open("cuda", NULL, &device));
    must(mica_device_open("cpu", NULL, &processor));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *p = &shapes[i];
        compute(device, p, 0, p->batch, 0, &whole);
        compute(processor, p, 0, p->batch, 0, &cpu);
        for (int k = 0; k < MOST; k++) {
            assert_true(fabsf(whole.out[k] - cpu.out[k]) <= 2e-5f * (1 + fabsf(cpu.out[k])));
            assert_true(fabsf(whole.last[k] - cpu.last[k]) <= 2e-5f * (1 + fabsf(cpu.last[k])));
        }
        for (int64_t cut = 1; cut < p->steps; cut += 7) {
            compute(device, p, 0, p->batch, cut, &other);
            assert_memory_equal(&other, &whole, sizeof whole);
        }
        size_t out = (size_t)(p->steps * p->heads * p->m), last = (size_t)(p->heads * p->n * p->m);
        for (int64_t row = 0; row < p->batch; row++) {
            compute(device, p, row, row + 1, 0, &other);
            assert_memory_equal(other.out, whole.out + (size_t)row * out, out * sizeof(float));
            assert_memory_equal(other.last, whole.last + (size_t)row * last, last * sizeof(float));
        }
    }
    assert_int_equal(mica_device_fallback_ops(device), 0);
    mica_device_close(&processor);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts_and_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
