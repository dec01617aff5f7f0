/* Evaluating again with other values of the leaves: what it takes, what it leaves, when it fails.
 * That it computes what a fresh evaluation does shows tests/device/random_graph.c. */
#include "device/device.h"
#include "exec/eval.h"
#include "exec/plan_cache.h"

#include "support/support.h"

#include <mica/ops.h>

#include <string.h>

enum { N = 8 };

/* One step of a decoder, as far as memory is concerned: writes `value` at `at` into a cache. */
typedef struct step {
    mica_scope *s;
    mica_array cache, at, value; /* leaves: [N] f32 moved in, i32 [], f32 [1] */
    mica_array next, sum;        /* [N], [] f32 */
} step;

typedef struct fixture {
    mica_device *device;
    mica_scope *outer; /* where the cache comes from */
    step step;
} fixture;

static int open_scopes(void **state) {
    static fixture f;
    f = (fixture){0};
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &f.device), 0);
    assert_int_equal(mica_scope_open(f.device, &f.outer), MICA_OK);
    assert_int_equal(mica_scope_open(f.device, &f.step.s), MICA_OK);
    *state = &f;
    return 0;
}

static int close_scopes(void **state) {
    fixture *f = *state;
    mica_scope_close(&f->step.s);
    mica_scope_close(&f->outer);
    assert_int_equal(mica_device_active_bytes(f->device), 0);
    mica_device_close(&f->device);
    return 0;
}

static mica_array zeros(mica_scope *s) {
    const float values[N] = {0};
    return mica_from_data(s, values, MICA_F32, (int64_t[]){N}, 1);
}

/* Records the step that writes 1 at 0, and computes it. */
static mica_status first(fixture *f) {
    step *t = &f->step;
    mica_scope *s = t->s;
    t->cache = mica_move(s, zeros(f->outer));
    t->at = mica_i32(s, 0);
    t->value = mica_from_data(s, (float[]){1}, MICA_F32, (int64_t[]){1}, 1);
    t->next = mica_slice_update_at(s, t->cache, t->value, t->at, 0);
    t->sum = mica_sum(s, mica_square(s, t->next), NULL, 0, false);
    return mc_eval_keep(s, (mica_array[]){t->next, t->sum}, 2);
}

static mica_status again(fixture *f, int32_t at, float value) {
    step *t = &f->step;
    mica_status status = mc_leaf_take(t->cache, t->next);
    if (status == MICA_OK) status = mc_leaf_set(t->at, &at);
    if (status == MICA_OK) status = mc_leaf_set(t->value, &value);
    return status == MICA_OK ? mc_eval_again(t->s) : status;
}

/* That the cache begins with 1, 2, ... n, and the rest are zeros. */
static void expect_steps(const fixture *f, int n) {
    float got[N], sum, want = 0;
    assert_int_equal(mica_read(f->step.next, got, sizeof got), MICA_OK);
    assert_int_equal(mica_read(f->step.sum, &sum, sizeof sum), MICA_OK);
    for (int i = 0; i < N; i++) {
        assert_float_equal(got[i], i < n ? (float)(i + 1) : 0, 0);
        want += got[i] * got[i];
    }
    assert_float_equal(sum, want, 0);
}

static void test_steps_neither_look_plans_up_nor_allocate(void **state) {
    fixture *f = *state;
    assert_int_equal(first(f), MICA_OK);
    assert_true(mc_eval_kept(f->step.s));
    const void *place = mc_data(f->step.next);
    uint64_t looked_up = mc_plan_cache_of(f->device)->hits + mc_plan_cache_of(f->device)->misses;
    uint64_t active = mica_device_active_bytes(f->device);
    uint32_t nodes = mc_scope_count(f->step.s);
    mc_alloc_fail_at(1);
    for (int i = 1; i < N; i++) {
        assert_int_equal(again(f, i, (float)(i + 1)), MICA_OK);
        expect_steps(f, i + 1);
        assert_ptr_equal(mc_data(f->step.next), place); /* written in place */
        assert_int_equal(mica_device_active_bytes(f->device), active);
    }
    mc_alloc_fail_at(0);
    assert_int_equal(mc_plan_cache_of(f->device)->hits + mc_plan_cache_of(f->device)->misses, looked_up);
    assert_int_equal(mc_scope_count(f->step.s), nodes);
    assert_int_equal(mc_graph_verify(f->step.s), MICA_OK);
}

/* Who holds the memory of a target or of a leaf keeps the value that it had. */
static void test_what_others_hold_stays(void **state) {
    fixture *f = *state;
    assert_int_equal(first(f), MICA_OK);
    mica_array cache = mica_detach(f->outer, f->step.next);
    mica_array value = mica_detach(f->outer, f->step.value);
    mica_array sum = mica_detach(f->outer, f->step.sum);
    assert_int_equal(again(f, 1, 2), MICA_OK);
    expect_steps(f, 2);
    float got[N], one;
    assert_int_equal(mica_read(cache, got, sizeof got), MICA_OK);
    assert_true(got[0] == 1 && got[1] == 0);
    assert_int_equal(mica_read(value, &one, sizeof one), MICA_OK);
    assert_float_equal(one, 1, 0);
    assert_int_equal(mica_read(sum, &one, sizeof one), MICA_OK);
    assert_float_equal(one, 1, 0);
}

/* What was recorded behind the targets meanwhile sees their new values. */
static void test_later_nodes_see_the_new_values(void **state) {
    fixture *f = *state;
    assert_int_equal(first(f), MICA_OK);
    mica_array root = mica_sqrt(f->step.s, f->step.sum);
    assert_int_equal(again(f, 1, 2), MICA_OK);
    float got;
    assert_int_equal(mica_read(root, &got, sizeof got), MICA_OK);
    assert_float_equal(got, 2.236068f, 1e-6);
}

static void expect_nothing_kept(const fixture *f) {
    assert_false(mc_eval_kept(f->step.s));
    assert_int_equal(mc_eval_again(f->step.s), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "kept"));
}

static void test_one_evaluation_is_kept(void **state) {
    fixture *f = *state;
    expect_nothing_kept(f);
    assert_int_equal(first(f), MICA_OK);
    expect_steps(f, 1); /* reading what is there is no evaluation */
    assert_true(mc_eval_kept(f->step.s));
    mica_array x = mica_sqrt(f->step.s, f->step.sum);
    assert_int_equal(mica_eval(f->step.s, x), MICA_OK);
    expect_nothing_kept(f);
    mc_scope_reset(f->step.s);
    assert_int_equal(first(f), MICA_OK);
    x = mica_sqrt(f->step.s, f->step.sum);
    assert_int_equal(mica_eval_async(f->step.s, &x, 1), MICA_OK);
    expect_nothing_kept(f); /* waits, too */
    assert_non_null(mc_data(x));
    mc_scope_reset(f->step.s);
    assert_int_equal(first(f), MICA_OK);
    mc_scope_reset(f->step.s);
    expect_nothing_kept(f);
    assert_int_equal(mc_eval_keep(f->step.s, NULL, 0), MICA_OK); /* nothing to compute */
    expect_nothing_kept(f);
    assert_int_equal(mc_eval_again(NULL), MICA_EINVAL);
}

/* After what was kept comes an evaluation in the background, and what it leaves is kept again. */
static void test_background_evaluations_between(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(first(f), MICA_OK);
        mica_array x = mica_sqrt(f->step.s, f->step.sum);
        assert_int_equal(mica_eval_async(f->step.s, &x, 1), MICA_OK);
        assert_int_equal(mc_leaf_take(f->step.cache, f->step.next), MICA_OK); /* waits */
        float got;
        assert_int_equal(mica_read(x, &got, sizeof got), MICA_OK);
        assert_float_equal(got, 1, 0);
        mc_scope_reset(f->step.s);
    }
}

static void test_a_leaf_that_is_gone_must_get_a_value(void **state) {
    fixture *f = *state;
    assert_int_equal(first(f), MICA_OK);
    assert_int_equal(mc_eval_again(f->step.s), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "moved away or overwritten"));
    expect_nothing_kept(f);
    expect_steps(f, 1); /* what was computed is still there */
    mc_scope_reset(f->step.s);
    assert_int_equal(first(f), MICA_OK);
    const float three[N] = {1, 2, 3};
    assert_int_equal(mc_leaf_set(f->step.cache, three), MICA_OK);
    assert_int_equal(mc_eval_again(f->step.s), MICA_OK);
    expect_steps(f, 3);
}

/* The same for leaves that may not be overwritten: one that is moved away must get another value,
 * and is read where that lies. */
static void test_other_leaves_that_move(void **state) {
    fixture *f = *state;
    mica_scope *s = f->step.s;
    float got;
    mica_array x = mica_from_data(s, (float[N]){1, 2}, MICA_F32, (int64_t[]){N}, 1);
    mica_array y = mica_sum(s, x, NULL, 0, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mc_eval_keep(s, &y, 1), MICA_OK);
        mica_array away = i == 0   ? mica_move(f->outer, x)
                          : i == 1 ? mica_materialize(f->outer, x)
                                   : zeros(f->outer);
        if (i == 2) assert_int_equal(mc_leaf_take(away, x), MICA_OK);
        assert_int_equal(mc_eval_again(s), MICA_EINVAL);
        assert_int_equal(mica_read(y, &got, sizeof got), MICA_OK);
        assert_float_equal(got, 3, 0);
        assert_int_equal(mc_leaf_take(x, away), MICA_OK);
        y = mica_sum(s, x, NULL, 0, false);
    }
    assert_int_equal(mc_eval_keep(s, &y, 1), MICA_OK);
    mica_array other = mica_from_data(f->outer, (float[N]){5, 6}, MICA_F32, (int64_t[]){N}, 1);
    assert_int_equal(mc_leaf_take(x, other), MICA_OK);
    assert_int_equal(mc_eval_again(s), MICA_OK);
    assert_int_equal(mica_read(y, &got, sizeof got), MICA_OK);
    assert_float_equal(got, 11, 0);
    mica_array held = mica_detach(f->outer, x);
    assert_int_equal(mc_leaf_set(x, (float[N]){7, 8}), MICA_OK); /* elsewhere */
    assert_int_equal(mc_eval_again(s), MICA_OK);
    assert_int_equal(mica_read(y, &got, sizeof got), MICA_OK);
    assert_float_equal(got, 15, 0);
    assert_float_equal(*(const float *)mc_data(held), 5, 0);
}

static void test_an_error_of_a_step(void **state) {
    fixture *f = *state;
    assert_int_equal(first(f), MICA_OK);
    assert_int_equal(again(f, N, 9), MICA_EINVAL); /* behind the cache's end */
    assert_non_null(strstr(mica_last_error(), "slice_update_at"));
    expect_nothing_kept(f);
    assert_null(mc_data(f->step.next));
    assert_int_equal(mc_leaf_set(f->step.cache, (float[N]){1, 2}), MICA_OK);
    assert_int_equal(mc_leaf_set(f->step.at, &(int32_t){2}), MICA_OK);
    assert_int_equal(mc_leaf_set(f->step.value, &(float){3}), MICA_OK);
    expect_steps(f, 3); /* evaluated as what was just recorded */
    mc_scope_reset(f->step.s);
    assert_int_equal(first(f), MICA_OK);
    assert_int_equal(again(f, 1, 2), MICA_OK);
    expect_steps(f, 2);
}

/* Each storage in turn is one too many; nothing was overwritten then. */
static void test_a_memory_limit(void **state) {
    fixture *f = *state;
    uint64_t more = 0;
    mica_status status;
    do {
        assert_int_equal(first(f), MICA_OK);
        assert_int_equal(mc_leaf_take(f->step.cache, f->step.next), MICA_OK);
        assert_int_equal(mc_leaf_set(f->step.at, &(int32_t){1}), MICA_OK);
        assert_int_equal(mc_leaf_set(f->step.value, &(float){2}), MICA_OK);
        mica_array held = mica_detach(f->outer, f->step.sum);
        mica_device_set_memory_limit(f->device, mica_device_active_bytes(f->device) + more);
        status = mc_eval_again(f->step.s);
        mica_device_set_memory_limit(f->device, 0);
        if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
        assert_int_equal(mc_eval_kept(f->step.s), status == MICA_OK);
        expect_steps(f, 2);
        assert_true(mica_valid(held));
        mc_scope_reset(f->step.s);
        mc_scope_reset(f->outer);
        more += 64;
    } while (status != MICA_OK);
    assert_true(more > 64);
}

static bool run_steps(void *arg) {
    mica_device *device = arg;
    fixture f = {.device = device};
    bool ok = mica_scope_open(device, &f.outer) == MICA_OK &&
              mica_scope_open(device, &f.step.s) == MICA_OK && first(&f) == MICA_OK;
    if (ok) { /* others hold what leaves and targets hold: all of it needs new memory */
        ok = mica_valid(mica_detach(f.outer, f.step.next)) &&
             mica_valid(mica_detach(f.outer, f.step.value)) &&
             mica_valid(mica_detach(f.outer, f.step.sum)) && again(&f, 1, 2) == MICA_OK;
        if (ok) expect_steps(&f, 2);
    }
    mica_scope_close(&f.step.s);
    mica_scope_close(&f.outer);
    assert_int_equal(mica_device_active_bytes(device), 0);
    test_forget_plans(device);
    return ok;
}

static void test_every_failing_allocation_is_a_status(void **state) {
    fixture *f = *state;
    assert_true(test_fail_each_allocation(run_steps, f->device) > 20);
}

static void test_refusals(void **state) {
    fixture *f = *state;
    assert_int_equal(first(f), MICA_OK);
    step *t = &f->step;
    const float one = 1;
    assert_int_equal(mc_leaf_set(t->next, &one), MICA_EINVAL); /* no leaf */
    assert_int_equal(mc_leaf_set(MICA_NONE, &one), MICA_EINVAL);
    assert_int_equal(mc_leaf_take(MICA_NONE, t->next), MICA_EINVAL);
    assert_int_equal(mc_leaf_take(t->cache, MICA_NONE), MICA_EINVAL);
    assert_int_equal(mc_leaf_take(t->next, zeros(t->s)), MICA_EINVAL);
    assert_int_equal(mc_leaf_take(t->cache, t->sum), MICA_EINVAL); /* another shape */
    assert_int_equal(mc_leaf_take(t->at, t->at), MICA_EINVAL);     /* a number */
    assert_int_equal(mc_leaf_take(t->cache, mica_negative(t->s, t->next)),
                     MICA_EINVAL); /* pending */
    mica_array reversed = mica_flip(t->s, t->next, 0), one_number = zeros(f->outer);
    assert_int_equal(mica_eval(t->s, reversed), MICA_OK);
    assert_int_equal(mc_leaf_take(t->cache, reversed), MICA_EINVAL);
    mica_array leaf = mica_detach(t->s, reversed);
    assert_int_equal(mc_leaf_set(leaf, (float[N]){0}), MICA_EINVAL); /* not dense */
    mica_device *device;
    mica_scope *other;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device), 0);
    assert_int_equal(mica_scope_open(device, &other), MICA_OK);
    assert_int_equal(mc_leaf_take(t->cache, zeros(other)), MICA_EINVAL); /* of another device */
    mica_scope_close(&other);
    mica_device_close(&device);
    assert_int_equal(mica_scope_status(t->s), MICA_OK);
    expect_steps(f, 1);                                              /* nothing was lost */
    assert_int_equal(mc_leaf_take(one_number, one_number), MICA_OK); /* to itself */
    assert_non_null(mc_data(one_number));
}

/* Mapped memory is never written: the leaf gets memory of its own. */
static void test_mapped_leaves(void **state) {
    fixture *f = *state;
    static const float values[3] = {1, 2, 3};
    mica_scope *s = f->step.s;
    mica_array x = mc_leaf_memory(s, values, MICA_F32, (int64_t[]){3}, 1, NULL, NULL);
    mica_array y = mica_sum(s, x, NULL, 0, false);
    float got;
    assert_int_equal(mc_eval_keep(s, &y, 1), MICA_OK);
    assert_int_equal(mc_leaf_set(x, (float[]){7, 8, 9}), MICA_OK);
    assert_int_equal(mc_eval_again(s), MICA_OK);
    assert_int_equal(mica_read(y, &got, sizeof got), MICA_OK);
    assert_float_equal(got, 24, 0);
    assert_float_equal(values[0], 1, 0);
}

/* The plan is kept with the run, whatever else was planned since. */
static void test_its_plan_outlives_the_cache(void **state) {
    fixture *f = *state;
    assert_int_equal(first(f), MICA_OK);
    for (int64_t n = 1; n <= 2 * MC_PLANS; n++) {
        mica_array x = mica_zeros(f->outer, &n, 1, MICA_F32);
        assert_int_equal(mica_eval(f->outer, mica_negative(f->outer, x)), MICA_OK);
        mc_scope_reset(f->outer);
    }
    assert_int_equal(again(f, 1, 2), MICA_OK);
    expect_steps(f, 2);
}

static void test_a_scope_outlives_its_device(void **state) {
    fixture *f = *state;
    fixture own = {0};
    assert_int_equal(mica_device_open(NULL, NULL, &own.device), MICA_OK);
    assert_int_equal(mica_scope_open(own.device, &own.outer), MICA_OK);
    assert_int_equal(mica_scope_open(own.device, &own.step.s), MICA_OK);
    assert_int_equal(first(&own), MICA_OK);
    mica_device_close(&own.device);
    mica_scope_close(&own.outer);
    assert_int_equal(again(&own, 1, 2), MICA_OK);
    expect_steps(&own, 2);
    mica_scope_close(&own.step.s);
    (void)f;
}

/* What was computed before would stay as it is, whatever its leaves become: then nothing is
 * kept. */
static void test_parts_computed_before(void **state) {
    fixture *f = *state;
    mica_scope *s = f->step.s;
    mica_array squares = mica_square(s, zeros(s)), sum = mica_sum(s, squares, NULL, 0, false);
    assert_int_equal(mica_eval(s, squares), MICA_OK);
    assert_int_equal(mc_eval_keep(s, &sum, 1), MICA_OK);
    assert_false(mc_eval_kept(s));
    assert_int_equal(mc_eval_again(s), MICA_EINVAL);
}

#define IN_SCOPES(name) cmocka_unit_test_setup_teardown(name, open_scopes, close_scopes)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCOPES(test_parts_computed_before),
        IN_SCOPES(test_steps_neither_look_plans_up_nor_allocate),
        IN_SCOPES(test_what_others_hold_stays),
        IN_SCOPES(test_later_nodes_see_the_new_values),
        IN_SCOPES(test_one_evaluation_is_kept),
        IN_SCOPES(test_background_evaluations_between),
        IN_SCOPES(test_a_leaf_that_is_gone_must_get_a_value),
        IN_SCOPES(test_other_leaves_that_move),
        IN_SCOPES(test_an_error_of_a_step),
        IN_SCOPES(test_a_memory_limit),
        IN_SCOPES(test_every_failing_allocation_is_a_status),
        IN_SCOPES(test_refusals),
        IN_SCOPES(test_mapped_leaves),
        IN_SCOPES(test_its_plan_outlives_the_cache),
        IN_SCOPES(test_a_scope_outlives_its_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
