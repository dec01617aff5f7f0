/* Evaluation: laziness, plans that replay, memory taken over in place, moving, limits. */
#include "device/device.h"
#include "exec/cache.h"

#include "graph/fixture.h"

#include <mica/ops.h>
#include <mica/signal.h>

#include <math.h>
#include <string.h>

/* [n] f32: 1, 2, 3 ... */
static mica_array counting(mica_scope *s, int64_t n) {
    float values[64];
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(i + 1);
    return mica_from_data(s, values, MICA_F32, &n, 1);
}

static void expect(mica_array x, const float *want, size_t n) {
    float got[64];
    assert_int_equal(mica_read(x, got, n * sizeof *got), MICA_OK);
    for (size_t i = 0; i < n; i++)
        assert_float_equal(got[i], want[i], 1e-6);
}

static void test_only_what_is_asked_for_is_kept(void **state) {
    fixture *f = *state;
    mica_array x = counting(f->s, 4);
    mica_array y = mica_negative(f->s, x);
    mica_array z = mica_abs(f->s, y);
    expect(z, (float[]){1, 2, 3, 4}, 4);
    assert_null(mc_data(y));
    assert_non_null(mc_data(z));
    expect(y, (float[]){-1, -2, -3, -4}, 4); /* computed again, from x */
}

static void test_several_targets_share_one_run(void **state) {
    fixture *f = *state;
    mica_array x = counting(f->s, 4);
    mica_array y = mica_negative(f->s, x), z = mica_square(f->s, y);
    mica_array t = mica_reshape(f->s, y, (int64_t[]){2, 2}, 2);
    mica_array xs[] = {z, y, t, y, x};
    assert_int_equal(mica_eval_n(f->s, xs, 5), MICA_OK);
    expect(z, (float[]){1, 4, 9, 16}, 4);
    expect(y, (float[]){-1, -2, -3, -4}, 4);
    expect(t, (float[]){-1, -2, -3, -4}, 4);
    assert_ptr_equal(mc_data(t), mc_data(y)); /* a view of the same memory */
    assert_int_equal(mica_eval_n(f->s, NULL, 0), MICA_OK);
}

static void test_views_of_one_number_have_memory(void **state) {
    fixture *f = *state;
    int64_t shape[] = {2, 3};
    expect(mica_broadcast_to(f->s, mica_f32(f->s, 7), shape, 2), (float[]){7, 7, 7, 7, 7, 7}, 6);
    expect(mica_zeros(f->s, shape, 2, MICA_F32), (float[]){0, 0, 0, 0, 0, 0}, 6);
    double item = 0;
    assert_int_equal(mica_item_f64(mica_i32(f->s, -5), &item), MICA_OK);
    assert_float_equal(item, -5, 0);
}

static void test_equal_structure_replays_whatever_the_values(void **state) {
    fixture *f = *state;
    uint64_t misses = 0;
    for (int i = 0; i < 5; i++) {
        mica_array x = counting(f->s, 3);
        mica_array y =
            mica_add(f->s, mica_exp(f->s, mica_negative(f->s, x)), mica_f32(f->s, (float)i));
        assert_int_equal(mica_eval(f->s, y), MICA_OK);
        if (i == 0) misses = mc_graph_cache_of(f->device)->misses;
        expect(y, (float[]){0.36787944f + (float)i, 0.13533528f + (float)i, 0.04978707f + (float)i},
               3);
        mc_scope_reset(f->s);
    }
    assert_int_equal(mc_graph_cache_of(f->device)->misses, misses);
    assert_true(mc_graph_cache_of(f->device)->hits >= 4);
    /* Another shape, another dtype: another plan. */
    assert_int_equal(mica_eval(f->s, mica_negative(f->s, counting(f->s, 5))), MICA_OK);
    assert_true(mc_graph_cache_of(f->device)->misses > misses);
}

/* One step of a decoder, as far as memory is concerned. */
static void step(mica_scope *s, mica_scope *keeper, mica_array *cache, int i) {
    mica_array update = mica_full(s, (int64_t[]){1}, 1, mica_f32(s, (float)i));
    mica_array next = mica_slice_update_at(s, mica_move(s, *cache), update, mica_i32(s, i), 0);
    mica_array y = mica_softmax(s, mica_add(s, next, mica_square(s, next)), -1);
    mica_array xs[] = {next, y};
    assert_int_equal(mica_eval_n(s, xs, 2), MICA_OK);
    *cache = mica_materialize(keeper, next);
    mc_scope_reset(s);
}

static void test_a_replay_allocates_nothing(void **state) {
    fixture *f = *state;
    mica_scope *keeper = NULL;
    assert_int_equal(mica_scope_open(f->device, &keeper), MICA_OK);
    mica_array cache = counting(keeper, 40);
    for (int i = 0; i < 4; i++)
        step(f->s, keeper, &cache, i);
    mc_alloc_fail_at(1);
    for (int i = 4; i < 36; i++)
        step(f->s, keeper, &cache, i);
    mc_alloc_fail_at(0);
    float got[40];
    assert_int_equal(mica_read(cache, got, sizeof got), MICA_OK);
    for (int i = 0; i < 40; i++)
        assert_float_equal(got[i], (float)(i < 36 ? i : i + 1), 0);
    mica_scope_close(&keeper);
}

static void test_graphs_are_forgotten_oldest_first(void **state) {
    fixture *f = *state;
    mc_graph_cache *cache = mc_graph_cache_of(f->device);
    for (int64_t n = 1; n <= 40; n++) {
        mica_array x = mica_zeros(f->s, &n, 1, MICA_F32);
        assert_int_equal(mica_eval(f->s, mica_negative(f->s, x)), MICA_OK);
        mc_scope_reset(f->s);
    }
    assert_true(cache->count >= 40);
    mc_graph_cache_set_limit(cache, cache->bytes / 2);
    assert_true(cache->count > 10 && cache->count < 30 && cache->bytes <= cache->limit_bytes);
    uint64_t misses = cache->misses;
    for (int64_t n = 40; n >= 1; n -= 39) { /* the last is there, the first is not */
        mica_array x = mica_zeros(f->s, &n, 1, MICA_F32);
        assert_int_equal(mica_eval(f->s, mica_negative(f->s, x)), MICA_OK);
        mc_scope_reset(f->s);
        assert_true(cache->misses == misses || n == 1);
    }
    assert_true(cache->misses > misses);
    assert_true(cache->bytes <= cache->limit_bytes);
}

static void test_a_moved_array_is_updated_in_place(void **state) {
    fixture *f = *state;
    mica_scope *keeper = NULL;
    assert_int_equal(mica_scope_open(f->device, &keeper), MICA_OK);
    mica_array cache = counting(keeper, 6);
    const void *place = mc_data(cache);
    for (int i = 0; i < 3; i++) {
        mica_array moved = mica_move(f->s, cache);
        mica_array update = mica_full(f->s, (int64_t[]){1}, 1, mica_f32(f->s, (float)(10 * i)));
        mica_array next = mica_slice_update_at(f->s, moved, update, mica_i32(f->s, i), 0);
        mica_array sum = mica_sum(f->s, next, NULL, 0, false);
        mica_array xs[] = {next, sum};
        assert_int_equal(mica_eval_n(f->s, xs, 2), MICA_OK);
        assert_ptr_equal(mc_data(next), place);
        assert_int_equal(mica_eval(f->s, mica_exp(f->s, sum)), MICA_OK);
        cache = mica_materialize(keeper, next);
        assert_true(mica_valid(cache));
        /* What was moved and overwritten is gone, and says so. */
        assert_false(mica_valid(mica_exp(f->s, moved)));
        assert_non_null(strstr(mica_last_error(), "moved"));
        mc_scope_reset(f->s);
    }
    expect(cache, (float[]){0, 10, 20, 4, 5, 6}, 6);
    assert_ptr_equal(mc_data(cache), place);
    mica_scope_close(&keeper);
}

static void test_memory_that_others_hold_is_not_overwritten(void **state) {
    fixture *f = *state;
    mica_array x = counting(f->s, 3);
    mica_array other = mica_detach(f->s, x); /* shares the memory */
    mica_array moved = mica_move(f->s, x);
    mica_array y = mica_negative(f->s, moved);
    expect(y, (float[]){-1, -2, -3}, 3);
    expect(other, (float[]){1, 2, 3}, 3);
    assert_ptr_not_equal(mc_data(y), mc_data(other));
    /* Not moved: never overwritten, though nobody else needs it. */
    mica_array z = counting(f->s, 3);
    mica_array w = mica_negative(f->s, z);
    expect(w, (float[]){-1, -2, -3}, 3);
    expect(z, (float[]){1, 2, 3}, 3);
}

static void test_what_is_asked_for_is_not_overwritten(void **state) {
    fixture *f = *state;
    mica_array moved = mica_move(f->s, counting(f->s, 3));
    mica_array y = mica_negative(f->s, moved);
    mica_array xs[] = {y, moved};
    assert_int_equal(mica_eval_n(f->s, xs, 2), MICA_OK);
    expect(moved, (float[]){1, 2, 3}, 3);
    expect(y, (float[]){-1, -2, -3}, 3);
}

static void test_reading_what_is_there_allocates_nothing(void **state) {
    fixture *f = *state;
    mica_array x = counting(f->s, 3), y = mica_negative(f->s, x);
    assert_int_equal(mica_eval(f->s, y), MICA_OK);
    mica_scope *other = NULL;
    assert_int_equal(mica_scope_open(f->device, &other), MICA_OK);
    mica_array weight = counting(other, 3);
    mc_alloc_fail_at(1);
    expect(y, (float[]){-1, -2, -3}, 3);
    expect(weight, (float[]){1, 2, 3}, 3); /* of a scope in which nothing was evaluated */
    mc_alloc_fail_at(0);
    mica_scope_close(&other);
}

static void test_an_update_from_its_own_array_reads_before_it_writes(void **state) {
    fixture *f = *state;
    mica_array x = mica_move(f->s, counting(f->s, 6));
    mica_array tail = mica_slice_axis(f->s, x, 0, 1, 6);
    mica_array y = mica_slice_update(f->s, x, tail, (int64_t[]){0}, (int64_t[]){5}, NULL);
    expect(y, (float[]){2, 3, 4, 5, 6, 6}, 6);
    /* The same on a temporary. */
    mica_array t = mica_negative(f->s, counting(f->s, 6));
    tail = mica_slice_axis(f->s, t, 0, 0, 5);
    y = mica_slice_update(f->s, t, tail, (int64_t[]){1}, (int64_t[]){6}, NULL);
    expect(y, (float[]){-1, -1, -2, -3, -4, -5}, 6);
    /* An older reader, recorded after the update, still sees the old values. */
    mica_array a = mica_move(f->s, counting(f->s, 2));
    mica_array b = mica_negative(f->s, a);
    mica_array c = mica_add(f->s, a, b);
    expect(c, (float[]){0, 0}, 2);
    mica_array d = mica_exp(f->s, counting(f->s, 2));
    mica_array e =
        mica_add(f->s, mica_transpose(f->s, mica_reshape(f->s, d, (int64_t[]){1, 2}, 2), NULL),
                 mica_reshape(f->s, d, (int64_t[]){2, 1}, 2));
    expect(e, (float[]){5.4365637f, 14.778112f}, 2);
}

/* Longer than the blocks that a kernel computes at a time, so that writing over either shows. */
static void test_operands_that_overlap_are_not_overwritten(void **state) {
    fixture *f = *state;
    enum { N = 20000 };
    static float got[N - 1];
    for (int order = 0; order < 2; order++) {
        mica_array x = mica_square(f->s, mica_arange(f->s, 0, N, 1, MICA_F32));
        mica_array head = mica_slice_axis(f->s, x, 0, 0, -1);
        mica_array tail = mica_slice_axis(f->s, x, 0, 1, N);
        mica_array y = order == 0 ? mica_maximum(f->s, head, tail) : mica_minimum(f->s, tail, head);
        assert_int_equal(mica_read(y, got, sizeof got), MICA_OK);
        for (int i = 0; i < N - 1; i++) {
            float want = (float)(order == 0 ? i + 1 : i);
            assert_float_equal(got[i], want * want, 0);
        }
    }
}

static void test_mapped_memory_is_never_written(void **state) {
    fixture *f = *state;
    static const float values[3] = {1, 2, 3};
    mica_array x = mc_leaf_memory(f->s, values, MICA_F32, (int64_t[]){3}, 1, NULL, NULL);
    expect(mica_negative(f->s, mica_move(f->s, x)), (float[]){-1, -2, -3}, 3);
    assert_float_equal(values[0], 1, 0);
}

static void test_background_evaluation_gives_the_same(void **state) {
    fixture *f = *state;
    mica_array x = counting(f->s, 8);
    mica_array y = mica_softmax(f->s, x, -1);
    assert_int_equal(mica_eval_async(f->s, &y, 1), MICA_OK);
    mica_array z = mica_sum(f->s, y, NULL, 0, false); /* recording goes on meanwhile */
    assert_int_equal(mica_wait(f->s), MICA_OK);
    assert_non_null(mc_data(y));
    expect(z, (float[]){1}, 1);
    assert_int_equal(mica_wait(f->s), MICA_OK);
    mica_array w = mica_exp(f->s, x);
    assert_int_equal(mica_eval_async(f->s, &w, 1), MICA_OK);
    /* The close waits. */
}

static void test_an_error_in_the_background_comes_with_the_wait(void **state) {
    fixture *f = *state;
    mica_array index = mica_from_data(f->s, (int32_t[]){9}, MICA_I32, (int64_t[]){1}, 1);
    mica_array y = mica_take(f->s, counting(f->s, 3), index, 0);
    assert_int_equal(mica_eval_async(f->s, &y, 1), MICA_OK);
    assert_int_equal(mica_wait(f->s), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "take"));
    assert_null(mc_data(y));
}

static void test_passing_the_memory_limit_is_a_status(void **state) {
    fixture *f = *state;
    int64_t n = 1 << 20;
    mica_device_set_memory_limit(f->device, 1 << 20);
    mica_array x = mica_arange(f->s, 0, (double)n, 1, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_ENOMEM);
    assert_non_null(strstr(mica_last_error(), "limit"));
    assert_int_equal(mica_device_set_memory_limit(f->device, 0), 1 << 20);
    assert_int_equal(mica_eval(f->s, x), MICA_OK); /* nothing was lost */
}

static void test_absurd_temporaries_are_a_status(void **state) {
    fixture *f = *state;
    mica_device_set_memory_limit(f->device, 1 << 30); /* sanitizers mind asking for so much */
    for (int bits = 56; bits < 60; bits++) {
        int64_t n = (int64_t)1 << bits; /* of a number that is repeated: no memory yet */
        mica_array x = mica_zeros(f->s, &n, 1, MICA_F32);
        mica_array y = mica_add(f->s, mica_sin(f->s, x), mica_cos(f->s, x));
        assert_int_equal(mica_eval(f->s, mica_sum(f->s, y, NULL, 0, false)), MICA_ENOMEM);
    }
    assert_false(mica_valid(mica_zeros(f->s, (int64_t[]){INT64_MAX}, 1, MICA_U8)));
    assert_int_equal(mica_scope_status(f->s), MICA_EINVAL);
}

static void test_a_result_over_a_temporary_costs_nothing(void **state) {
    fixture *f = *state;
    mica_array x = mica_arange(f->s, 0, 1 << 16, 1, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_device_reset_peak(f->device);
    mica_array y = mica_exp(f->s, mica_negative(f->s, x));
    assert_int_equal(mica_eval(f->s, y), MICA_OK);
    assert_int_equal(mica_device_peak_bytes(f->device), mica_device_active_bytes(f->device));
    assert_int_equal(mica_device_active_bytes(f->device), 2 * 4 << 16);
}

/* Decompositions, copies before views, temporaries, a moved array, the background. */
static bool evaluate_in_many_ways(void *arg) {
    mica_device *device = arg;
    mica_scope *s = NULL, *outer = NULL;
    bool ok = mica_scope_open(device, &s) == MICA_OK && mica_scope_open(device, &outer) == MICA_OK;
    if (ok) {
        mica_array x = mica_reshape(s, mica_move(s, counting(outer, 6)), (int64_t[]){2, 3}, 2);
        mica_array update = mica_full(s, (int64_t[]){1, 3}, 2, mica_f32(s, 1));
        mica_array y = mica_slice_update_at(s, x, update, mica_i32(s, 1), 0);
        mica_array t = mica_flatten(s, mica_transpose(s, y, NULL), 0, -1); /* 1 1 2 1 3 1 */
        mica_array quotient = mica_divide(s, mica_cumsum(s, mica_sort(s, t, 0), 0, false, true), t);
        mica_array xs[] = {mica_sum(s, quotient, NULL, 0, false), y};
        double sum = 0;
        ok = mica_eval_async(s, xs, 2) == MICA_OK && mica_wait(s) == MICA_OK &&
             mica_valid(mica_materialize(outer, y)) && mica_item_f64(xs[0], &sum) == MICA_OK;
        if (ok) assert_float_equal(sum, 1 + 2 + 1.5 + 4 + 2 + 9, 1e-5);
    }
    mica_scope_close(&s);
    mica_scope_close(&outer);
    assert_int_equal(mica_device_active_bytes(device), 0);
    test_forget_plans(device); /* so that every round allocates anew */
    return ok;
}

static void test_every_failing_allocation_is_a_status(void **state) {
    fixture *f = *state;
    assert_true(test_fail_each_allocation(evaluate_in_many_ways, f->device) > 20);
}

static void test_what_fails_before_it_runs_takes_nothing(void **state) {
    fixture *f = *state;
    mica_array x = mica_move(f->s, counting(f->s, 4)); /* first of all to be bound */
    mica_array y = mica_negative(f->s, x);
    mica_array big =
        mica_sum(f->s, mica_exp(f->s, mica_arange(f->s, 0, 9999, 1, MICA_F32)), NULL, 0, false);
    mica_array xs[] = {y, big};
    const void *place = mc_data(x);
    uint64_t active = mica_device_active_bytes(f->device);
    for (uint64_t more = 0; more < 40000; more += 64) { /* each storage in turn is one too many */
        mica_device_set_memory_limit(f->device, active + more);
        if (mica_eval_n(f->s, xs, 2) == MICA_OK) break;
        assert_int_equal(mica_device_active_bytes(f->device), active);
        expect(x, (float[]){1, 2, 3, 4}, 4);
    }
    expect(y, (float[]){-1, -2, -3, -4}, 4);
    assert_ptr_equal(mc_data(y), place);
}

static void test_what_fails_while_it_runs_leaves_nothing_behind(void **state) {
    fixture *f = *state;
    mica_array x = mica_move(f->s, counting(f->s, 4)), update = counting(f->s, 2);
    uint64_t active = mica_device_active_bytes(f->device);
    mica_array y = mica_slice_update_at(f->s, x, update, mica_i32(f->s, 3), 0); /* does not fit */
    mica_array z = mica_exp(f->s, y);
    mica_array xs[] = {mica_sin(f->s, update), z};
    assert_int_equal(mica_eval_n(f->s, xs, 2), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "slice_update_at"));
    assert_true(mica_device_active_bytes(f->device) < active); /* x, half overwritten, is gone */
    assert_int_equal(mica_eval(f->s, x), MICA_EINVAL);
    assert_int_equal(mica_eval(f->s, z), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "moved away, overwritten or released"));
    assert_int_equal(mica_eval(f->s, xs[0]), MICA_OK);
}

static void test_empty_arrays_are_arrays(void **state) {
    fixture *f = *state;
    mica_array x = mica_zeros(f->s, (int64_t[]){0, 3}, 2, MICA_F32);
    mica_array y = mica_exp(f->s, mica_add(f->s, x, x));
    assert_int_equal(mica_eval(f->s, y), MICA_OK);
    assert_int_equal(mica_read(y, (float[1]){0}, 0), MICA_OK);
    expect(mica_sum(f->s, y, (int[]){0}, 1, false), (float[]){0, 0, 0}, 3);
    mica_iter it = {0};
    assert_false(mica_next(y, &it));
    assert_int_equal(it.status, MICA_OK);
    /* mapped: at no address */
    x = mc_leaf_memory(f->s, NULL, MICA_F32, (int64_t[]){0, 3}, 2, NULL, NULL);
    y = mica_exp(f->s, mica_slice_axis(f->s, x, 1, 1, 2));
    const mica_array xs[] = {y, mica_transpose(f->s, x, NULL)};
    assert_int_equal(mica_eval_n(f->s, xs, 2), MICA_OK);
    assert_int_equal(mica_read(xs[1], (float[1]){0}, 0), MICA_OK);
    /* between two ops: at none either */
    y = mica_slice_axis(f->s, mica_exp(f->s, x), 1, 1, 3);
    expect(mica_sum(f->s, y, (int[]){0}, 1, false), (float[]){0, 0}, 2);
}

static void test_reading_and_iterating_follow_logical_order(void **state) {
    fixture *f = *state;
    mica_array x = mica_reshape(f->s, counting(f->s, 6), (int64_t[]){2, 3}, 2);
    mica_array t = mica_transpose(f->s, x, NULL);
    static const float want[] = {1, 4, 2, 5, 3, 6};
    expect(t, want, 6);
    int n = 0;
    for (mica_iter it = {0}; mica_next(t, &it); n++) {
        assert_int_equal(it.index, n);
        assert_float_equal(*(const float *)it.value, want[n], 0);
    }
    assert_int_equal(n, 6);
    float room[5];
    assert_int_equal(mica_read(t, room, sizeof room), MICA_EINVAL);
    double item;
    assert_int_equal(mica_item_f64(t, &item), MICA_ESHAPE);
    int64_t whole;
    assert_int_equal(mica_item_i64(mica_max(f->s, t, NULL, 0, false), &whole), MICA_OK);
    assert_int_equal(whole, 6);
    mica_iter bad = {0};
    assert_false(mica_next(MICA_NONE, &bad));
    assert_int_equal(bad.status, MICA_EINVAL);
}

static void test_scalars_take_every_dtype(void **state) {
    fixture *f = *state;
    for (int i = 0; i <= MICA_F32; i++) {
        double value = 0;
        assert_int_equal(mica_item_f64(mica_scalar(f->s, 1.0, (mica_dtype)i), &value), MICA_OK);
        assert_float_equal(value, 1, 0);
    }
    int64_t whole = 0;
    assert_int_equal(mica_item_i64(mica_scalar(f->s, -3.7, MICA_I8), &whole), MICA_OK);
    assert_int_equal(whole, -3);
    assert_int_equal(mica_item_i64(mica_scalar(f->s, 1e300, MICA_I64), &whole), MICA_OK);
    assert_true(whole == INT64_MAX);
    const uint64_t large = UINT64_MAX;
    mica_array most = mica_from_data(f->s, &large, MICA_U64, NULL, 0);
    assert_int_equal(mica_item_i64(most, &whole), MICA_OK);
    assert_true(whole == INT64_MAX);
    assert_int_equal(mica_item_i64(mica_scalar(f->s, NAN, MICA_F32), &whole), MICA_OK);
    assert_int_equal(whole, 0);
    mica_array complex = mica_complex(f->s, most, most);
    double real;
    assert_int_equal(mica_item_f64(complex, &real), MICA_EDTYPE);
    assert_int_equal(mica_item_i64(complex, &whole), MICA_EDTYPE);
    assert_int_equal(mica_item_f64(most, NULL), MICA_EINVAL);
    assert_int_equal(mica_item_i64(most, NULL), MICA_EINVAL);
    assert_false(mica_valid(mica_scalar(f->s, 1, (mica_dtype)MICA_DTYPE_COUNT)));
    assert_int_equal(mica_scope_status(f->s), MICA_EINVAL);
}

static void test_devices_outlive_what_they_made(void **state) {
    (void)state;
    mica_device *device = NULL;
    mica_scope *s = NULL;
    assert_int_equal(mica_device_open(NULL, NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mc_storage *storage = NULL;
    assert_int_equal(mc_storage_new(device, 100, &storage), MICA_OK);
    mica_scope_close(&s);
    mica_device_close(&device);
    memset(storage->host, 0, 100);
    mc_storage_release(storage);
    assert_int_equal(mica_device_open("abacus", NULL, &device), MICA_EDEVICE);
    assert_null(device);
    assert_int_equal(mica_device_open("cpu:fast", NULL, &device), MICA_EDEVICE);
    assert_string_equal(mica_last_error(), "cpu: the device has no variants, and so no \"fast\"");
    assert_int_equal(mica_device_open("cp", NULL, &device), MICA_EDEVICE);
    assert_int_equal(mica_device_open("cpu:", NULL, &device), MICA_OK);
    mica_device_close(&device);
    assert_int_equal(mica_device_open(NULL, NULL, NULL), MICA_EINVAL);
}

static void test_a_device_that_closes_first_ends_with_its_scopes(void **state) {
    (void)state;
    mica_device *device = NULL;
    mica_scope *s = NULL;
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_arange(s, 0, 3, 1, MICA_F32), index = mica_arange(s, 7, 9, 1, MICA_I32);
    mica_array y = mica_take(s, x, index, 0);
    assert_int_equal(mica_eval_async(s, &y, 1), MICA_OK);
    mica_device_close(&device);
    assert_int_equal(mica_wait(s), MICA_EINVAL); /* no storage of the run is left */
    expect(mica_exp(s, mica_zeros(s, (int64_t[]){2}, 1, MICA_F32)), (float[]){1, 1}, 2);
    mica_scope_close(&s);
}

#define IN_SCOPE(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCOPE(test_only_what_is_asked_for_is_kept),
        IN_SCOPE(test_several_targets_share_one_run),
        IN_SCOPE(test_views_of_one_number_have_memory),
        IN_SCOPE(test_equal_structure_replays_whatever_the_values),
        IN_SCOPE(test_a_replay_allocates_nothing),
        IN_SCOPE(test_graphs_are_forgotten_oldest_first),
        IN_SCOPE(test_a_moved_array_is_updated_in_place),
        IN_SCOPE(test_memory_that_others_hold_is_not_overwritten),
        IN_SCOPE(test_what_is_asked_for_is_not_overwritten),
        IN_SCOPE(test_reading_what_is_there_allocates_nothing),
        IN_SCOPE(test_an_update_from_its_own_array_reads_before_it_writes),
        IN_SCOPE(test_operands_that_overlap_are_not_overwritten),
        IN_SCOPE(test_mapped_memory_is_never_written),
        IN_SCOPE(test_background_evaluation_gives_the_same),
        IN_SCOPE(test_an_error_in_the_background_comes_with_the_wait),
        IN_SCOPE(test_passing_the_memory_limit_is_a_status),
        IN_SCOPE(test_absurd_temporaries_are_a_status),
        IN_SCOPE(test_a_result_over_a_temporary_costs_nothing),
        IN_SCOPE(test_every_failing_allocation_is_a_status),
        IN_SCOPE(test_what_fails_before_it_runs_takes_nothing),
        IN_SCOPE(test_what_fails_while_it_runs_leaves_nothing_behind),
        IN_SCOPE(test_empty_arrays_are_arrays),
        IN_SCOPE(test_reading_and_iterating_follow_logical_order),
        IN_SCOPE(test_scalars_take_every_dtype),
        cmocka_unit_test(test_devices_outlive_what_they_made),
        cmocka_unit_test(test_a_device_that_closes_first_ends_with_its_scopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
