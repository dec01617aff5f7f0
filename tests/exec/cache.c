/* The cache of graphs: what makes a key, graphs forgotten while they run, threads that share it. */
#define _POSIX_C_SOURCE 200809L

#include "exec/cache.h"

#include "device/device.h"
#include "support/support.h"

#include <mica/ops.h>

#include <pthread.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 120, SIZES = 168 };

static mica_device *device;

static int open_device(void **state) {
    (void)state;
    return (int)mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device);
}

static int close_device(void **state) {
    (void)state;
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

/* 0 1 2 ... as data. */
static mica_array counting(mica_scope *s, int64_t n) {
    float values[SIZES];
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)i;
    return mica_from_data(s, values, MICA_F32, &n, 1);
}

/* ---- keys ---- */

typedef mica_array (*program)(mica_scope *s, mica_scope *outer);

static mica_array base(mica_scope *s, mica_scope *outer) {
    (void)outer;
    return mica_add(s, mica_exp(s, counting(s, 6)), mica_f32(s, 2));
}

static mica_array other_number(mica_scope *s, mica_scope *outer) {
    (void)outer;
    return mica_add(s, mica_exp(s, counting(s, 6)), mica_f32(s, 3));
}

static mica_array other_order(mica_scope *s, mica_scope *outer) {
    (void)outer;
    mica_array two = mica_f32(s, 2);
    return mica_add(s, two, mica_exp(s, counting(s, 6)));
}

static mica_array other_op(mica_scope *s, mica_scope *outer) {
    (void)outer;
    return mica_add(s, mica_sin(s, counting(s, 6)), mica_f32(s, 2));
}

static mica_array other_shape(mica_scope *s, mica_scope *outer) {
    (void)outer;
    return mica_add(s, mica_exp(s, counting(s, 7)), mica_f32(s, 2));
}

static mica_array other_strides(mica_scope *s, mica_scope *outer) {
    (void)outer;
    mica_array x = mica_flip(s, counting(s, 6), 0);
    assert_int_equal(mica_eval(s, x), MICA_OK);
    return mica_add(s, mica_exp(s, x), mica_f32(s, 2));
}

static mica_array other_dtype(mica_scope *s, mica_scope *outer) {
    (void)outer;
    mica_array x = mica_astype(s, counting(s, 6), MICA_I32);
    assert_int_equal(mica_eval(s, x), MICA_OK);
    return mica_add(s, mica_exp(s, x), mica_f32(s, 2));
}

static mica_array moved_leaf(mica_scope *s, mica_scope *outer) {
    return mica_add(s, mica_exp(s, mica_move(s, counting(outer, 6))), mica_f32(s, 2));
}

static mica_array other_attribute(mica_scope *s, mica_scope *outer) {
    (void)outer;
    return mica_cumsum(s, counting(s, 6), 0, false, true);
}

static mica_array yet_another_attribute(mica_scope *s, mica_scope *outer) {
    (void)outer;
    return mica_cumsum(s, counting(s, 6), 0, true, true);
}

/* Evaluates y, twice in one call where `twice`. True where that compiled a new graph. */
static bool misses(program y, bool twice) {
    mica_scope *s = NULL, *outer = NULL;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &outer), MICA_OK);
    mica_array x = y(s, outer), xs[] = {x, x};
    uint64_t before = mc_graph_cache_of(device)->misses;
    assert_int_equal(mica_eval_n(s, xs, twice ? 2 : 1), MICA_OK);
    bool missed = mc_graph_cache_of(device)->misses > before;
    mica_scope_close(&s);
    mica_scope_close(&outer);
    return missed;
}

static void test_what_makes_a_graph_another(void **state) {
    (void)state;
    static const program others[] = {
        other_order, other_op,   other_shape,     other_strides,
        other_dtype, moved_leaf, other_attribute, yet_another_attribute};
    assert_true(misses(base, false));
    assert_false(misses(base, false));
    assert_false(misses(other_number, false));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(misses(others[i], false));
        assert_false(misses(others[i], false));
    }
    assert_true(misses(base, true));
    assert_false(misses(base, false));
}

/* ---- forgetting and sharing ---- */

static void expect_twice(mica_array y, int64_t n) {
    float got[SIZES];
    assert_int_equal(mica_read(y, got, (size_t)n * sizeof *got), MICA_OK);
    for (int64_t i = 0; i < n; i++)
        assert_float_equal(got[i], 2 * (float)i, 0);
}

static void test_a_graph_that_runs_outlives_its_entry(void **state) {
    (void)state;
    mica_scope *running = NULL, *s = NULL;
    assert_int_equal(mica_scope_open(device, &running), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = counting(running, 5), y = mica_add(running, x, x);
    assert_int_equal(mica_eval_async(running, &y, 1), MICA_OK);
    mc_graph_cache_set_limit(mc_graph_cache_of(device), 1); /* nothing stays but what was last */
    for (int64_t n = 6; n < 12; n++) {
        assert_int_equal(mica_eval(s, mica_exp(s, counting(s, n))), MICA_OK);
        mc_scope_reset(s);
    }
    assert_int_equal(mc_graph_cache_of(device)->count, 1);
    expect_twice(y, 5);
    mica_scope_close(&s);
    mica_scope_close(&running);
}

typedef struct visitor {
    pthread_t thread;
    mica_array weight; /* [SIZES] of a scope that all share */
    int number;
    int wrong;
} visitor;

/* Sizes come in another order in each thread, more of them than the cache holds; asserts of cmocka
 * are for its own thread. */
static void *visit(void *context) {
    visitor *v = context;
    mica_scope *s = NULL;
    if (mica_scope_open(device, &s) != MICA_OK) v->wrong++;
    for (int round = 0; round < ROUNDS && v->wrong == 0; round++) {
        int64_t n = 1 + (round * (2 * v->number + 1)) % SIZES;
        mica_array part = mica_slice_axis(s, mica_detach(s, v->weight), 0, 0, n);
        mica_array moved = mica_move(s, mica_negative(s, part));
        mica_array y = mica_add(s, part, mica_abs(s, moved));
        if (round % 2 == 1 && mica_eval_async(s, &y, 1) != MICA_OK) v->wrong++;
        float got[SIZES];
        if (mica_read(y, got, (size_t)n * sizeof *got) != MICA_OK) v->wrong++;
        for (int64_t i = 0; v->wrong == 0 && i < n; i++)
            v->wrong += !(got[i] >= 2 * (float)i && got[i] <= 2 * (float)i);
        mc_scope_reset(s);
    }
    mica_scope_close(&s);
    return NULL;
}

static void test_threads_share_graphs_memory_and_weights(void **state) {
    (void)state;
    mica_scope *model = NULL;
    assert_int_equal(mica_scope_open(device, &model), MICA_OK);
    visitor visitors[THREADS] = {0};
    mc_graph_cache_set_limit(mc_graph_cache_of(device), 200 * 1024); /* some of them */
    mica_array weight = counting(model, SIZES);
    for (int i = 0; i < THREADS; i++) {
        visitors[i].weight = weight;
        visitors[i].number = i;
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(visitors[i].thread, NULL), 0);
        assert_int_equal(visitors[i].wrong, 0);
    }
    mica_scope_close(&model);
}

#define WITH_DEVICE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(test_what_makes_a_graph_another),
        WITH_DEVICE(test_a_graph_that_runs_outlives_its_entry),
        WITH_DEVICE(test_threads_share_graphs_memory_and_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
