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
            if (mica_optimizer_update(o, g->s, params, grads, PARAMETERS, 0.0, params) != MICA_OK)
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

static void test_refusals(void **state) {
    (void)state;
    mica_device *device;
    mica_optimizer *o;
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    const mica_optimizer_options rows[] = {
        {.name = "adan"}, {.beta1 = 1.5}, {.eps = 1e9}, {.momentum = 2.0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(mica_optimizer_open(device, &rows[i], &o), MICA_EINVAL);
        assert_null(o);
    }
    mica_optimizer_close(&o);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_all_have_goldens),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
