/* Recording: what a scope keeps, refuses and says. */
#include "graph/attr.h"
#include "graph/graph.h"

#include "graph/fixture.h"

#include <mica/ops.h>

#include <string.h>

static mica_array vector(mica_scope *s, int64_t n) {
    float values[16] = {0};
    for (int i = 0; i < n; i++)
        values[i] = (float)(i + 1);
    return mica_from_data(s, values, MICA_F32, &n, 1);
}

static void test_ops_record_and_nothing_runs(void **state) {
    fixture *f = *state;
    mica_array x = vector(f->s, 3);
    mica_array y = mica_add(f->s, x, mica_f32(f->s, 1));
    assert_true(mica_valid(y));
    assert_null(mc_data(y));
    assert_int_equal(mica_array_ndim(y), 1);
    assert_int_equal(mica_array_dim(y, -1), 3);
    assert_int_equal(mica_array_dim(y, 1), 0);
    assert_int_equal(mica_array_size(y), 3);
    assert_int_equal(mc_graph_verify(f->s), MICA_OK);
}

static void test_the_first_error_stays_and_surfaces_at_eval(void **state) {
    fixture *f = *state;
    mica_array bad = mica_add(f->s, vector(f->s, 3), vector(f->s, 4));
    assert_false(mica_valid(bad));
    assert_false(mica_valid(mica_exp(f->s, bad)));
    mica_array good = mica_from_data(f->s, "", MICA_U8, (int64_t[]){-2}, 1);
    assert_false(mica_valid(good));
    assert_int_equal(mica_eval(f->s, bad), MICA_ESHAPE);
    assert_non_null(strstr(mica_last_error(), "add"));
    assert_non_null(strstr(mica_last_error(), "f32[3]"));
    assert_int_equal(mica_scope_status(f->s), MICA_ESHAPE);
    mc_scope_reset(f->s);
    assert_int_equal(mica_scope_status(f->s), MICA_OK);
}

static void test_what_is_refused_leaves_no_node(void **state) {
    fixture *f = *state;
    mica_array x = vector(f->s, 3);
    uint32_t count = mc_scope_count(f->s);
    const mc_attr_shape two = {.ndim = 1, .shape = {2}};
    assert_false(mica_valid(mc_record(f->s, MC_OP_RESHAPE, &two, &x, 1)));
    assert_int_equal(mica_scope_status(f->s), MICA_ESHAPE);
    assert_int_equal(mc_scope_count(f->s), count);
}

/* The thread's text is that of adding vectors of 3 and 4, and is another afterwards. */
static void expect_first_text(void) {
    assert_non_null(strstr(mica_last_error(), "add: f32[3] and f32[4]"));
    mc_fail(MICA_EINVAL, "another error of this thread");
}

static void expect_first_error(mica_status status) {
    assert_int_equal(status, MICA_ESHAPE);
    expect_first_text();
}

/* Reading what an op failed to make, or an array recorded behind it, gives the first error. */
static void test_reading_what_failed_gives_the_first_error(void **state) {
    fixture *f = *state;
    float value;
    double real;
    int64_t whole;
    mica_array x = vector(f->s, 3), bad = mica_add(f->s, x, vector(f->s, 4));
    expect_first_error(mica_read(bad, &value, sizeof value));
    expect_first_error(mica_item_f64(bad, &real));
    expect_first_error(mica_item_i64(bad, &whole));
    mica_iter it = {0};
    assert_false(mica_next(bad, &it));
    expect_first_error(it.status);
    mica_array good = mica_exp(f->s, x);
    assert_false(mica_valid(good));
    expect_first_text();
    expect_first_error(mica_read(good, &value, sizeof value));
    assert_false(mica_valid(mica_f32(f->s, 1)));
    expect_first_text();
    assert_false(mica_valid(vector(f->s, 3)));
    expect_first_text();
    expect_first_error(mica_eval(f->s, good));
    assert_int_equal(mica_read(MICA_NONE, &value, sizeof value), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "read: the invalid array"));
    expect_first_error(mica_scope_status(f->s));
}

/* In another scope too, also where the operand may be absent. */
static void test_what_failed_is_no_operand_elsewhere(void **state) {
    fixture *f = *state;
    mica_scope *other = NULL;
    assert_int_equal(mica_scope_open(f->device, &other), MICA_OK);
    mica_array bad = mica_add(other, vector(other, 3), vector(other, 4));
    mica_array x = vector(f->s, 3);
    for (int i = 0; i < 5; i++) {
        mc_scope_reset(f->s);
        x = vector(f->s, 3);
        mica_array y = i == 0   ? mica_exp(f->s, bad)
                       : i == 1 ? mica_rms_norm(f->s, x, bad, 1e-6f)
                       : i == 2 ? mica_clip(f->s, x, bad, MICA_NONE)
                       : i == 3 ? mica_move(f->s, bad)
                                : mica_detach(f->s, bad);
        assert_false(mica_valid(y));
        expect_first_error(mica_scope_status(f->s));
    }
    expect_first_error(mica_eval(f->s, bad));
    mica_scope_close(&other);
}

static void test_null_and_invalid_operands_are_errors(void **state) {
    fixture *f = *state;
    assert_false(mica_valid(mica_exp(NULL, MICA_NONE)));
    assert_false(mica_valid(mica_f32(NULL, 1)));
    assert_false(mica_valid(mica_exp(f->s, MICA_NONE)));
    assert_int_equal(mica_scope_status(f->s), MICA_EINVAL);
    assert_int_equal(mica_array_ndim(MICA_NONE), 0);
    assert_int_equal(mica_array_size(MICA_NONE), 0);
    assert_null(mica_array_shape(MICA_NONE));
    mica_scope *none = NULL;
    assert_int_equal(mica_scope_open(NULL, &none), MICA_EINVAL);
    assert_null(none);
    assert_int_equal(mica_scope_open(f->device, NULL), MICA_EINVAL);
}

static void test_operands_of_other_scopes_must_be_evaluated(void **state) {
    fixture *f = *state;
    mica_scope *other = NULL;
    assert_int_equal(mica_scope_open(f->device, &other), MICA_OK);
    mica_array pending = mica_exp(other, vector(other, 3));
    assert_false(mica_valid(mica_exp(f->s, pending)));
    assert_non_null(strstr(mica_last_error(), "not evaluated"));
    mc_scope_reset(f->s);
    assert_int_equal(mica_eval(other, pending), MICA_OK);
    mica_array y = mica_negative(f->s, pending);
    mica_scope_close(&other); /* y holds what it needs */
    float values[3];
    assert_int_equal(mica_read(y, values, sizeof values), MICA_OK);
    assert_float_equal(values[0], -2.7182818f, 1e-6);
}

static void test_printing_shows_the_graph(void **state) {
    fixture *f = *state;
    mica_array x = vector(f->s, 3);
    mica_array y = mica_multiply(f->s, x, x);
    mc_buffer text = {0};
    assert_true(mica_valid(y));
    assert_int_equal(mc_graph_print(f->s, NULL, &text), MICA_OK);
    assert_string_equal(mc_buffer_cstr(&text),
                        "%0 = leaf f32[3] ready\n%1 = multiply f32[3] %0 %0\n");
    mc_buffer_deinit(&text);
}

/* Breaks one thing, looks, and mends it. */
#define FINDS(T, place, broken, text)                            \
    do {                                                         \
        T whole = (place);                                       \
        (place) = (broken);                                      \
        assert_int_equal(mc_graph_verify(f->s), MICA_EINTERNAL); \
        assert_non_null(strstr(mica_last_error(), text));        \
        (place) = whole;                                         \
        assert_int_equal(mc_graph_verify(f->s), MICA_OK);        \
    } while (0)

static void test_verifying_finds_what_is_broken(void **state) {
    fixture *f = *state;
    mica_array x = vector(f->s, 3), y = mica_add(f->s, x, x), z = mica_sum(f->s, y, NULL, 0, false);
    assert_int_equal(mica_eval(f->s, y), MICA_OK);
    mc_node *leaf = mc_node_of(x), *sum = mc_node_of(y), *total = mc_node_of(z);
    FINDS(mc_storage *, leaf->storage, NULL, "leaf) is ready and has no data");
    FINDS(mc_node_state, leaf->state, MC_PENDING, "is pending and has data");
    FINDS(mc_node_state, leaf->state, MC_GONE, "is gone and has data");
    FINDS(uint32_t, sum->n_in, 1, "number of inputs");
    const uint32_t itself[] = {y.node, y.node};
    FINDS(const uint32_t *, sum->in, itself, "does not come before it");
    FINDS(uint32_t, sum->attr_bytes, 8, "attributes");
    FINDS(int64_t, sum->layout.shape[0], 4, "another shape");
    FINDS(mica_dtype, total->layout.dtype, MICA_F16, "another shape");
}

static void test_a_reset_scope_is_used_again(void **state) {
    fixture *f = *state;
    for (int round = 0; round < 3; round++) {
        mica_array x = vector(f->s, 3);
        for (int i = 0; i < 600; i++)
            x = mica_negative(f->s, x); /* over the first blocks */
        float values[3];
        assert_int_equal(mica_read(x, values, sizeof values), MICA_OK);
        assert_float_equal(values[2], 3, 0);
        mc_scope_reset(f->s);
        assert_int_equal(mc_scope_count(f->s), 0);
    }
    assert_int_equal(mica_device_active_bytes(f->device), 0);
}

static bool record_and_evaluate(void *arg) {
    fixture *f = arg;
    mica_scope *s = NULL;
    if (mica_scope_open(f->device, &s) != MICA_OK) return false;
    mica_array x = vector(s, 5);
    mica_array y = mica_softmax(s, mica_add(s, x, mica_f32(s, 2)), -1);
    mica_array z = mica_sum(s, y, NULL, 0, false);
    double sum = 0;
    bool ok = mica_item_f64(z, &sum) == MICA_OK;
    if (ok) assert_float_equal(sum, 1, 1e-6);
    mica_scope_close(&s);
    test_forget_plans(f->device); /* so that every round allocates anew */
    return ok;
}

static void test_every_failing_allocation_is_an_error(void **state) {
    fixture *f = *state;
    assert_true(test_fail_each_allocation(record_and_evaluate, f) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ops_record_and_nothing_runs, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_the_first_error_stays_and_surfaces_at_eval, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_what_is_refused_leaves_no_node, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_reading_what_failed_gives_the_first_error, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_what_failed_is_no_operand_elsewhere, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_null_and_invalid_operands_are_errors, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_operands_of_other_scopes_must_be_evaluated, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_printing_shows_the_graph, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_verifying_finds_what_is_broken, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_a_reset_scope_is_used_again, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_every_failing_allocation_is_an_error, open_scope,
                                        close_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
