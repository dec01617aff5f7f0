/* What a program says that it will take, and what the device then counts. */
#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/expect.h"
#include "graph/graphs.h"

#define SHAPE(...)                    \
    ((const int64_t[]){__VA_ARGS__}), \
        (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static mica_device *device;

static int open_device(void **state) {
    (void)state;
    return test_device_open(&(mica_device_options){.threads = 2}, &device) != MICA_OK;
}

static int close_device(void **state) {
    (void)state;
    mica_device_close(&device);
    return 0;
}

/* Bytes that a run adds at most. Arguments are evaluated arrays of `into`. */
static uint64_t measure_run(const mica_program *p, mica_scope *into, const mica_array *args,
                            mica_array *results) {
    mica_device_reset_peak(device);
    uint64_t before = mica_device_active_bytes(device);
    must(mica_program_run(p, into, args, results));
    return mica_device_peak_bytes(device) - before;
}

/* within: what may be predicted too much, as a part. */
static void expect_told(const mica_program *p, const mica_array *args, mica_scope *into,
                        mica_array *results, double within, const char *name) {
    mica_program_memory told = {.struct_bytes = sizeof told};
    bool control = strcmp(name, "control") == 0; /* no less than it takes */
    if (test_device_is_other()) {
        expect_refused(mica_program_get_memory(p, &told), MICA_EUNSUPPORTED, "before a run");
        return;
    }
    must(mica_program_get_memory(p, &told));
    uint64_t active = mica_device_active_bytes(device);
    uint64_t real = measure_run(p, into, args, results);
    if (real > told.peak_bytes || (double)told.peak_bytes > (double)real * (1 + within))
        fail_msg("%s: %llu bytes are told, %llu were taken", name,
                 (unsigned long long)told.peak_bytes, (unsigned long long)real);
    uint64_t kept = mica_device_active_bytes(device) - active;
    if (control ? kept > told.peak_bytes : kept != told.result_bytes)
        fail_msg("%s: results of %llu bytes are told, %llu are there", name,
                 (unsigned long long)told.result_bytes, (unsigned long long)kept);
}

/* Every op, a part of the graph at a time. */
static void every_op(void **state) {
    (void)state;
    for (size_t i = 0; i < test_graph_n_parts; i++) {
        test_graph g;
        mica_scope *into;
        mica_program *p;
        mica_array results[TEST_GRAPH_RESULTS];
        test_graph_open(&g, device, &test_graph_parts[i]);
        for (size_t k = 0; k < g.ports.n_results; k++)
            results[k] = (mica_array){g.s, g.results[k]};
        const mica_param params[] = {
            {"x", g.x, false}, {"k", g.k, false}, {"cache", g.cache, false}};
        must(mica_program_build(g.s, params, 3, results, g.ports.n_results, NULL, &p));
        must(mica_scope_open(device, &into));
        const mica_array args[] = {mica_zeros(into, SHAPE(4, 6), MICA_F32),
                                   mica_ones(into, SHAPE(4, 6), MICA_I32),
                                   mica_zeros(into, SHAPE(8, 6), MICA_F32)};
        mica_array dense[3];
        for (int k = 0; k < 3; k++) {
            dense[k] = mica_contiguous(into, args[k]);
            must(mica_eval(into, dense[k]));
        }
        bool control = strcmp(test_graph_parts[i].name, "control") == 0;
        expect_told(p, dense, into, results, control ? 3 : 0, test_graph_parts[i].name);
        mica_scope_close(&into);
        mica_program_close(&p);
        test_graph_close(&g);
    }
}

/* A step of training whose kernels take scratch, and keep tables of angles: x [1, L, D] by w. */
static mica_program *build_step(int64_t length) {
    enum { HEADS = 4, D = 64 };
    mica_scope *s;
    mica_program *p;
    mica_array grads[2];
    must(mica_scope_open(device, &s));
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(1, length, HEADS * D));
    mica_array w = mica_program_param(s, MICA_F32, SHAPE(HEADS * D, HEADS * D));
    mica_array q = mica_reshape(s, mica_matmul(s, x, w), SHAPE(1, length, HEADS, D));
    q = mica_rope(s, mica_swapaxes(s, mica_rms_norm(s, q, MICA_NONE, 1e-6f), 1, 2), mica_i32(s, 0),
                  MICA_NONE, NULL);
    mica_array y = mica_sdpa(s, q, q, q, &(mica_sdpa_options){.causal = true});
    mica_array loss = mica_sum(s, mica_square(s, mica_softmax(s, y, -1)), NULL, 0, false);
    must(mica_grad(s, loss, MICA_NONE, (mica_array[]){x, w}, 2, grads));
    const mica_param params[] = {{"x", x, false}, {"w", w, false}};
    must(mica_program_build(s, params, 2, (mica_array[]){loss, grads[0], grads[1]}, 3, NULL, &p));
    mica_scope_close(&s);
    return p;
}

static void a_step_of_training(void **state) {
    (void)state;
    for (int64_t length = 1; length < 400; length = 3 * length + 1) {
        mica_scope *into;
        mica_array results[3];
        mica_program *p = build_step(length);
        must(mica_scope_open(device, &into));
        mica_array args[] = {
            mica_contiguous(into, mica_ones(into, SHAPE(1, length, 256), MICA_F32)),
            mica_contiguous(into, mica_ones(into, SHAPE(256, 256), MICA_F32))};
        must(mica_eval_n(into, args, 2));
        expect_told(p, args, into, results, 0, "a step");
        mica_program_memory told = {.struct_bytes = sizeof told};
        if (!test_device_is_other()) {
            must(mica_program_get_memory(p, &told));
            assert_int_equal(told.argument_bytes, (length + 256) * 256 * 4);
            assert_int_equal(told.constant_bytes, 0);
        }
        mica_scope_close(&into);
        mica_program_close(&p);
    }
}

/* What kernels make of constants is told as it is there while an executable is; weights that two
 * convolutions have are prepared once. */
static void prepared_constants(void **state) {
    (void)state;
    mica_scope *s;
    mica_program *p;
    mica_executable *executable;
    mica_program_memory told = {.struct_bytes = sizeof told};
    if (test_device_is_other()) skip(); /* others prepare nothing */
    must(mica_scope_open(device, &s));
    mica_array w = mica_contiguous(s, mica_ones(s, SHAPE(20, 1, 1, 20), MICA_F32));
    mica_array v = mica_contiguous(s, mica_ones(s, SHAPE(30, 3, 3, 20), MICA_F32));
    must(mica_eval_n(s, (mica_array[]){w, v}, 2));
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(1, 5, 5, 20));
    mica_array kernel = mica_program_param(s, MICA_F32, SHAPE(30, 1, 1, 30)); /* is none */
    mica_array y = mica_conv_general(s, mica_conv_general(s, x, w, NULL), w, NULL);
    y = mica_conv_general(s, mica_conv_general(s, y, v, NULL), kernel, NULL);
    const mica_param params[] = {{"x", x, false}, {"kernel", kernel, false}};
    must(mica_program_build(s, params, 2, &y, 1, NULL, &p));
    must(mica_program_get_memory(p, &told));
    assert_int_equal(told.constant_bytes, (20 * 20 + 30 * 9 * 20) * 4);
    assert_true(test_device_is_gpu() || told.prepared_bytes >= told.constant_bytes);
    uint64_t before = mica_device_active_bytes(device);
    const mica_executable_options options = {.struct_bytes = sizeof options,
                                             .mode = MICA_MODE_COMPILED};
    must(mica_executable_open(p, &options, &executable));
    assert_int_equal(told.prepared_bytes, mica_device_active_bytes(device) - before);
    mica_executable_close(&executable);
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* Padding is not copied for each line of an image, where it is most of that. */
static void wide_padding(void **state) {
    (void)state;
    mica_scope *s;
    mica_program *p;
    mica_program_memory told = {.struct_bytes = sizeof told};
    if (test_device_is_other() || test_device_is_gpu()) skip(); /* kernels of the cpu */
    must(mica_scope_open(device, &s));
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(1, 1000, 1, 1));
    mica_array w = mica_program_param(s, MICA_F32, SHAPE(1, 1, 1000, 1));
    const mica_conv_options options = {
        .stride = {1, 1000}, .padding_lo = {0, 999}, .padding_hi = {0, 999}};
    mica_array y = mica_conv_general(s, x, w, &options);
    const mica_param params[] = {{"x", x, false}, {"w", w, false}};
    must(mica_program_build(s, params, 2, &y, 1, NULL, &p));
    must(mica_program_get_memory(p, &told));
    if (told.peak_bytes > 2000000) fail_msg("%llu bytes", (unsigned long long)told.peak_bytes);
    mica_program_close(&p);
    mica_scope_close(&s);
}

static void refused(void **state) {
    (void)state;
    mica_program_memory told;
    mica_program *p = build_step(2);
    expect_refused(mica_program_get_memory(NULL, &told), MICA_EINVAL, "NULL");
    expect_refused(mica_program_get_memory(p, NULL), MICA_EINVAL, "NULL");
    mc_alloc_fail_at(1);
    mica_status status = mica_program_get_memory(p, &told);
    mc_alloc_fail_at(0);
    assert_int_equal(status, test_device_is_other() ? MICA_EUNSUPPORTED : MICA_ENOMEM);
    mica_program_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op),
        cmocka_unit_test(a_step_of_training),
        cmocka_unit_test(prepared_constants),
        cmocka_unit_test(wide_padding),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
