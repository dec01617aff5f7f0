/* Optimisers, by the parameters that MLX's, and PyTorch's, come to (tools/make_tune_goldens.py). */
#include "support/support.h"

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 3, STEPS = 3 };

#define TOLERANCE 3e-6

typedef struct goldens {
    mica_device *device;
    mica_scope *s;
    mica_named_array *arrays;
    size_t n;
    mc_json_doc *doc;
} goldens;

static void open_goldens(goldens *g) {
    char *tensors = test_format("%s/tune/optimizers.safetensors", test_cases_dir());
    char *facts = test_format("%s/tune/optimizers.json", test_cases_dir());
    g->doc = test_load_json(facts);
    if (test_device_open(NULL, &g->device) != MICA_OK ||
        mica_scope_open(g->device, &g->s) != MICA_OK ||
        mica_load_safetensors(tensors, g->s, &g->arrays, &g->n) != MICA_OK)
        fail_msg("%s", mica_last_error());
    free(tensors);
    free(facts);
}

static void close_goldens(goldens *g) {
    mica_free(g->arrays);
    mica_scope_close(&g->s);
    mica_device_close(&g->device);
    mc_json_close(&g->doc);
}

static mica_array find(const goldens *g, const char *name) {
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->arrays[i].name, name) == 0) return g->arrays[i].array;
    fail_msg("no array %s", name);
    return MICA_NONE;
}

static double number(mc_json v, const char *key) {
    double value = 0.0;
    (void)mc_json_get_float(mc_json_find(v, key), &value);
    return value;
}

static bool flag(mc_json v, const char *key) {
    bool value = false;
    (void)mc_json_get_bool(mc_json_find(v, key), &value);
    return value;
}

static void compare(mica_array got, mica_array want, const char *what, int i) {
    float a[32], b[32];
    size_t n = (size_t)mica_array_size(want);
    assert_true(n <= 32 && mica_array_size(got) == (int64_t)n);
    if (mica_read(got, a, n * sizeof *a) != MICA_OK || mica_read(want, b, n * sizeof *b) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (size_t k = 0; k < n; k++)
        if (!(a[k] - b[k] <= TOLERANCE && b[k] - a[k] <= TOLERANCE))
            fail_msg("%s.%d[%zu]: %.9g, want %.9g", what, i, k, (double)a[k], (double)b[k]);
}

static void check_case(const goldens *g, const char *name, const mica_optimizer_options *options) {
    mica_optimizer *o;
    mica_array params[PARAMETERS], grads[PARAMETERS];
    char text[96];
    if (mica_optimizer_open(g->device, options, &o) != MICA_OK) fail_msg("%s", mica_last_error());
    for (int round = 0; round < 2; round++) { /* again after a reset: the same */
        for (int i = 0; i < PARAMETERS; i++) {
            snprintf(text, sizeof text, "init.%d", i);
            params[i] = find(g, text);
        }
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < PARAMETERS; i++) {
                snprintf(text, sizeof text, "grad.%d.%d", step, i);
                grads[i] = find(g, text);
            }
            if (mica_optimizer_update(o, g->s, params, grads, PARAMETERS, mica_optimizer_rate(o),
                                      params) != MICA_OK)
                fail_msg("%s: %s", name, mica_last_error());
        }
        for (int i = 0; i < PARAMETERS; i++) {
            snprintf(text, sizeof text, "%s.%d", name, i);
            compare(params[i], find(g, text), name, i);
        }
        mica_optimizer_reset(o);
    }
    mica_optimizer_close(&o);
}

static void test_goldens(void **state) {
    (void)state;
    goldens g;
    size_t checked = 0;
    open_goldens(&g);
    mc_json root = mc_json_root(g.doc);
    assert_int_equal((int)number(root, "steps"), STEPS);
    for (mc_json_iter it = mc_json_begin(mc_json_find(root, "cases")); mc_json_next(&it);) {
        char name[64], optimizer[64];
        mc_str text;
        assert_true(mc_json_get_str(mc_json_find(it.value, "name"), &text));
        snprintf(name, sizeof name, "%.*s", MC_STR_ARG(it.key));
        snprintf(optimizer, sizeof optimizer, "%.*s", MC_STR_ARG(text));
        const mica_optimizer_options options = {
            .name = optimizer,
            .learning_rate = number(root, "learning_rate"),
            .beta1 = number(it.value, "beta1"),
            .weight_decay = number(it.value, "weight_decay"),
            .momentum = number(it.value, "momentum"),
            .bias_correction = flag(it.value, "bias_correction"),
            .nesterov = flag(it.value, "nesterov"),
            .no_nesterov = flag(it.value, "no_nesterov"),
            .relative_step = flag(it.value, "relative_step"),
        };
        check_case(&g, name, &options);
        checked++;
    }
    assert_true(checked > 0);
    close_goldens(&g);
}

/* Each of the list has a golden. */
static void test_all_have_goldens(void **state) {
    (void)state;
    char *facts = test_format("%s/tune/optimizers.json", test_cases_dir());
    char *text = test_read_file(facts, NULL);
    for (size_t i = 0; i < mica_optimizer_count(); i++) {
        const char *summary;
        char *name = test_format("\"name\": \"%s\"", mica_optimizer_name(i, &summary));
        if (!strstr(text, name)) fail_msg("no golden has %s", name);
        assert_true(summary && *summary);
        free(name);
    }
    assert_null(mica_optimizer_name(mica_optimizer_count(), NULL));
    free(text);
    free(facts);
}

/* Learning rates, by mlx.optimizers' schedulers; those with a warmup as mlx-lm joins it. */
static void test_schedules(void **state) {
    (void)state;
    static const struct {
        mica_schedule schedule;
        int64_t step;
        double rate;
    } rows[] = {
        {{NULL, {0.5}, 1, 0, 0}, 7, 0.5},
        {{"linear_schedule", {0, 0.1, 100}, 3, 0, 0}, 101, 0.1},
        {{"linear_schedule", {0.1, 0, 10}, 3, 0, 0}, 5, 0.05},
        {{"cosine_decay", {0.1, 1000}, 2, 0, 0}, 0, 0.1},
        {{"cosine_decay", {0.1, 1000}, 2, 0, 0}, 5, 0.0999938},
        {{"cosine_decay", {0.1, 10, 0.01}, 3, 0, 0}, 20, 0.01},
        {{"exponential_decay", {0.1, 0.9}, 2, 0, 0}, 5, 0.059049},
        {{"step_decay", {0.1, 0.9, 10}, 3, 0, 0}, 21, 0.081},
        {{"cosine_decay", {0.1, 200}, 2, 10, 0.0}, 0, 0.0},
        {{"cosine_decay", {0.1, 200}, 2, 10, 0.0}, 10, 0.1},
        {{"cosine_decay", {0.1, 200}, 2, 10, 0.0}, 12, 0.0999938},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double rate;
        if (mica_schedule_rate(&rows[i].schedule, rows[i].step, &rate) != MICA_OK)
            fail_msg("%s", mica_last_error());
        if (!(rate - rows[i].rate <= 1e-6 && rows[i].rate - rate <= 1e-6))
            fail_msg("row %zu: %.9g, want %.9g", i, rate, rows[i].rate);
    }
    double rate;
    const mica_schedule bad = {"cosine_decay", {0.1, 0}, 2, 0, 0};
    assert_int_equal(mica_schedule_rate(&bad, 0, &rate), MICA_EINVAL);
    const mica_schedule far = {"exponential_decay", {1e30, 1e30}, 2, 0, 0},
                        warm = {"constant", {1.0}, 1, 2, (double)NAN};
    assert_int_equal(mica_schedule_rate(&far, 0, &rate), MICA_OK);
    assert_int_equal(mica_schedule_rate(&far, 1, &rate), MICA_EINVAL);
    assert_int_equal(mica_schedule_rate(&warm, 0, &rate), MICA_EINVAL);
}

/* ---- updates ---- */

typedef struct bench {
    mica_device *device;
    mica_scope *s;
    mica_optimizer *o;
    mica_array params[2], grads[2]; /* [3] and [2, 2] */
} bench;

static void begin(bench *b, const mica_optimizer_options *options) {
    static const float params[] = {1, -2, 3, 4}, grads[] = {0.5f, 0.25f, -1, 2};
    static const int64_t shapes[2][2] = {{3}, {2, 2}};
    assert_int_equal(test_device_open(NULL, &b->device), MICA_OK);
    assert_int_equal(mica_scope_open(b->device, &b->s), MICA_OK);
    if (mica_optimizer_open(b->device, options, &b->o) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (int i = 0; i < 2; i++) {
        b->params[i] = mica_from_data(b->s, params, MICA_F32, shapes[i], i + 1);
        b->grads[i] = mica_from_data(b->s, grads, MICA_F32, shapes[i], i + 1);
    }
}

static void end(bench *b) {
    mica_optimizer_close(&b->o);
    mica_scope_close(&b->s);
    mica_device_close(&b->device);
}

static void update(bench *b, size_t n, double rate) {
    if (mica_optimizer_update(b->o, b->s, b->params, b->grads, n, rate, b->params) != MICA_OK)
        fail_msg("%s", mica_last_error());
}

static void read_numbers(const bench *b, int i, float x[4]) {
    x[3] = 0;
    assert_int_equal(mica_read(b->params[i], x, (i ? 4 : 3) * sizeof *x), MICA_OK);
}

/* A rate of 0, as a schedule may have it, moves nothing; a negative one stands for nothing. */
static void test_rates(void **state) {
    (void)state;
    const mica_schedule schedule = {"cosine_decay", {0.5, 2}, 2, 1, 0.0};
    bench b;
    float before[4], after[4];
    double rate = -1.0;
    begin(&b, &(mica_optimizer_options){.name = "sgd", .learning_rate = 0.25});
    read_numbers(&b, 0, before);
    assert_int_equal(mica_schedule_rate(&schedule, 0, &rate), MICA_OK);
    assert_true(rate == 0.0);
    update(&b, 1, rate);
    read_numbers(&b, 0, after);
    assert_memory_equal(after, before, sizeof after);
    update(&b, 1, mica_optimizer_rate(b.o));
    read_numbers(&b, 0, after);
    assert_true(after[0] == 0.875f && after[1] == -2.0625f && after[2] == 3.25f);
    const double refused[] = {-1.0, (double)NAN, 1e40};
    for (int i = 0; i < 3; i++) {
        rate = refused[i];
        assert_int_equal(mica_optimizer_update(b.o, b.s, b.params, b.grads, 1, rate, b.params),
                         MICA_EINVAL);
        assert_non_null(strstr(mica_last_error(), "mica_optimizer_rate"));
    }
    end(&b);
}

/* In all options of an optimiser 0 is the default, and any negative number is 0. */
static void test_signs(void **state) {
    (void)state;
    bench b;
    begin(&b, NULL);
    assert_true(mica_optimizer_rate(b.o) == 1e-5);
    end(&b);
    begin(&b, &(mica_optimizer_options){.learning_rate = -3});
    assert_true(mica_optimizer_rate(b.o) == 0.0);
    assert_true(mica_optimizer_rate(NULL) == 0.0);
    end(&b);
    const mica_optimizer_options pairs[][2] = {
        {{.name = "muon"}, {.name = "muon", .momentum = 0.95}},
        {{.beta1 = -1}, {.beta1 = -1e-30}},
        {{.name = "adamw", .weight_decay = -2}, {.name = "adam", .weight_decay = 0}}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        float x[2][4];
        for (int k = 0; k < 2; k++) {
            begin(&b, &pairs[i][k]);
            update(&b, 2, 0.1);
            update(&b, 2, 0.1);
            read_numbers(&b, 1, x[k]);
            end(&b);
        }
        assert_memory_equal(x[0], x[1], sizeof x[0]);
    }
}

/* The parameters after updates of so many of them each. */
static void update_all(const size_t *counts, size_t n, float x[2][4]) {
    bench b;
    begin(&b, NULL);
    for (size_t i = 0; i < n; i++)
        update(&b, counts[i], 0.1);
    assert_int_equal(mica_optimizer_steps(b.o), n);
    read_numbers(&b, 0, x[0]);
    read_numbers(&b, 1, x[1]);
    end(&b);
}

/* A later update may have more parameters, or fewer: each has the states of its own updates. */
static void test_growth(void **state) {
    (void)state;
    float same[2][4], grown[2][4];
    update_all((size_t[]){2, 2, 2, 2}, 4, same);
    update_all((size_t[]){1, 2, 2, 2, 2}, 5, grown);
    assert_memory_equal(grown[1], same[1], sizeof same[1]);
    update_all((size_t[]){2, 1, 2, 1, 2, 2}, 6, grown);
    assert_memory_equal(grown[1], same[1], sizeof same[1]);
    update_all((size_t[]){1, 1, 1, 2}, 4, grown);
    assert_memory_equal(grown[0], same[0], sizeof same[0]);
}

static void expect_refusal(bench *b, mica_array param, mica_array grad, mica_status status) {
    const mica_array params[] = {b->params[0], param}, grads[] = {b->grads[0], grad};
    mica_array out[2] = {MICA_NONE, MICA_NONE};
    mica_status got = mica_optimizer_update(b->o, b->s, params, grads, 2, 0.1, out);
    if (got != status)
        fail_msg("%s: %s, want %s", mica_status_name(got), mica_last_error(),
                 mica_status_name(status));
    assert_true(!mica_valid(out[0]) && !mica_valid(out[1]));
}

/* What is refused changes nothing, though the parameter before it was all right: later updates
 * come to what they come to without it. */
static void test_all_or_nothing(void **state) {
    (void)state;
    bench good, bad;
    float want[4], got[4];
    const mica_optimizer_options adam = {.name = "adam", .bias_correction = true};
    begin(&good, &adam);
    begin(&bad, &adam);
    const int64_t one = 1, n = 4;
    const float x[4] = {1, 2, 3, 4};
    for (int step = 0; step < 2; step++) {
        expect_refusal(&bad, mica_from_data(bad.s, x, MICA_F32, &one, 1), bad.grads[0],
                       MICA_ESHAPE); /* [1] and [3] broadcast */
        expect_refusal(&bad, bad.params[1], bad.grads[0], MICA_ESHAPE);
        expect_refusal(&bad, MICA_NONE, bad.grads[1], MICA_EINVAL);
        expect_refusal(&bad, bad.params[1], MICA_NONE, MICA_EINVAL);
        expect_refusal(&bad, mica_astype(bad.s, bad.params[1], MICA_I32), bad.grads[1],
                       MICA_EDTYPE);
        mica_array flat = mica_from_data(bad.s, x, MICA_F32, &n, 1);
        if (step) expect_refusal(&bad, flat, flat, MICA_ESHAPE); /* its states are [2, 2] */
        assert_int_equal(mica_optimizer_steps(bad.o), step);
        update(&good, 2, 0.1);
        update(&bad, 2, 0.1);
    }
    for (int i = 0; i < 2; i++) {
        read_numbers(&good, i, want);
        read_numbers(&bad, i, got);
        assert_memory_equal(got, want, sizeof want);
    }
    end(&good);
    end(&bad);
}

/* An error of the caller's scope is its own: the optimiser goes on in another one. */
static void test_bad_scope(void **state) {
    (void)state;
    bench b;
    mica_scope *s;
    mica_array out;
    begin(&b, NULL);
    update(&b, 1, 0.1);
    assert_int_equal(mica_scope_open(b.device, &s), MICA_OK);
    assert_false(mica_valid(mica_matmul(s, b.params[0], b.params[1])));
    assert_int_not_equal(mica_optimizer_update(b.o, s, b.params, b.grads, 1, 0.1, &out), MICA_OK);
    mica_scope_close(&s);
    assert_int_equal(mica_optimizer_steps(b.o), 1);
    update(&b, 1, 0.1);
    assert_int_equal(mica_optimizer_steps(b.o), 2);
    end(&b);
}

/* A reset frees the states at once. After the first one a device has copied what it will. */
static void test_reset(void **state) {
    (void)state;
    bench b;
    begin(&b, NULL);
    mica_array params[2] = {b.params[0], b.params[1]}, out[2];
    mica_scope *s;
    uint64_t without = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mica_scope_open(b.device, &s), MICA_OK);
        assert_int_equal(mica_optimizer_update(b.o, s, params, b.grads, 2, 0.1, out), MICA_OK);
        mica_scope_close(&s);
        uint64_t with = mica_device_active_bytes(b.device);
        mica_optimizer_reset(b.o);
        assert_true(mica_device_active_bytes(b.device) < with);
        if (i > 0) assert_int_equal(mica_device_active_bytes(b.device), without);
        without = mica_device_active_bytes(b.device);
        assert_int_equal(mica_optimizer_steps(b.o), 0);
    }
    assert_int_equal(mica_optimizer_steps(NULL), 0);
    end(&b);
}

/* Without a name it is adam, here as in mica_tune. */
static void test_default(void **state) {
    (void)state;
    const mica_optimizer_options named = {.name = "adam"};
    float x[2][4];
    for (int i = 0; i < 2; i++) {
        bench b;
        begin(&b, i ? &named : NULL);
        for (int step = 0; step < 3; step++)
            update(&b, 1, 0.5);
        read_numbers(&b, 0, x[i]);
        end(&b);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
}

static void test_refusals(void **state) {
    (void)state;
    mica_device *device;
    mica_optimizer *o;
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    const mica_optimizer_options rows[] = {
        {.name = "adan"}, {.beta1 = 1.5},    {.beta1 = 1.0},      {.beta2 = 1.0},
        {.eps = 1e9},     {.momentum = 2.0}, {.beta2 = 1 - 1e-9}, /* 1 in f32 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(mica_optimizer_open(device, &rows[i], &o), MICA_EINVAL);
        assert_null(o);
    }
    mica_optimizer_close(&o);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),   cmocka_unit_test(test_all_have_goldens),
        cmocka_unit_test(test_schedules), cmocka_unit_test(test_rates),
        cmocka_unit_test(test_growth),    cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_bad_scope), cmocka_unit_test(test_reset),
        cmocka_unit_test(test_signs),     cmocka_unit_test(test_default),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
