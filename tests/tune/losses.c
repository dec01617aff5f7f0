/* Losses of preferences by trl, DoRA by PEFT: values and every gradient, of one batch through a
 * model (tools/make_tune_goldens.py). Losses as formulas. */
#include "model/fixture.h"
#include "tune/step.h"

#include <mica/grad.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct golden {
    model_fixture f; /* the base model, with the tensors of the golden */
    mc_weights *factors;
    mc_json_doc *doc;
    mc_batch batch;
} golden;

static double number(const golden *g, const char *key) {
    double value;
    if (!mc_json_get_float(mc_json_find(mc_json_root(g->doc), key), &value)) fail_msg("%s", key);
    return value;
}

static void open_golden(golden *g) {
    char *tensors = test_format("%s/tune/preferences.safetensors", test_cases_dir());
    char *facts = test_format("%s/tune/preferences.json", test_cases_dir());
    char *factors = test_format("%s/train/lora_qwen3/golden.safetensors", test_cases_dir());
    const int64_t *shape;
    size_t count;
    fixture_open("qwen3_tied", &g->f);
    mc_weights_close(&g->f.tensors);
    g->doc = test_load_json(facts);
    if (mc_weights_open(tensors, NULL, &g->f.tensors) != MICA_OK ||
        mc_weights_open(factors, NULL, &g->factors) != MICA_OK)
        fail_msg("%s", mica_last_error());
    g->batch.mask = fixture_floats(&g->f, &shape, "mask");
    g->batch.ids = fixture_ints(&g->f, &count, "ids");
    g->batch.rows = shape[0];
    g->batch.length = shape[1] + 1;
    free(tensors);
    free(facts);
    free(factors);
}

static void close_golden(golden *g) {
    mc_weights_close(&g->factors);
    mc_json_close(&g->doc);
    fixture_close(&g->f);
}

/* The factors of the golden; magnitudes stay as they are made. */
static void set_factors(const golden *g, mc_trainable *t) {
    for (size_t i = 0; i < mc_trainable_count(t); i++) {
        mc_parameter *p = mc_trainable_at(t, i);
        char *name = test_format("init.%s", p->name);
        const mc_weight_tensor *x = mc_weights_find(g->factors, name);
        free(name);
        if (!x && p->part == MC_PART_M) continue;
        assert_non_null(x);
        p->value = mica_from_data(t->scope, x->data, MICA_F32, x->shape, x->ndim);
        assert_int_equal(mica_eval(t->scope, p->value), MICA_OK);
    }
}

static void compare_gradients(const golden *g, const mc_trainable *t, const mc_steps *steps,
                              const char *prefix) {
    size_t wanted = 0;
    char *begins = test_format("%s.grad.", prefix);
    for (size_t i = 0; i < mc_weights_count(g->f.tensors); i++)
        wanted += !strncmp(mc_weights_at(g->f.tensors, i)->name, begins, strlen(begins));
    assert_int_equal(wanted, mc_trainable_count(t));
    for (size_t i = 0; i < wanted; i++) {
        const char *name = mc_trainable_at(t, i)->name;
        mica_array grad = mc_steps_grad(steps, i);
        size_t n = (size_t)mica_array_size(grad);
        const float *want = fixture_floats(&g->f, NULL, "%s%s", begins, name);
        float *got = malloc(n * sizeof *got);
        if (!want || !got) fail_msg("no %s%s", begins, name);
        assert_int_equal(mica_read(grad, got, n * sizeof *got), MICA_OK);
        fixture_compare(got, want, n, 1e-4, "%s%s", begins, name);
        free(got);
    }
    free(begins);
}

static void check(const char *prefix, const char *loss, mica_tune_kind kind, bool checkpoint) {
    golden g;
    memset(&g, 0, sizeof g);
    open_golden(&g);
    static const char *const modules[] = {"q_proj", "v_proj", "down_proj"};
    const mica_lora_options lora = {.kind = kind,
                                    .modules = modules,
                                    .n_modules = 3,
                                    .layers = 2,
                                    .rank = (int64_t)number(&g, "rank"),
                                    .scale = (float)number(&g, "scale")};
    const mc_steps_options options = {.loss = loss,
                                      .loss_options = {.beta = number(&g, "beta")},
                                      .checkpoint = checkpoint,
                                      .chunk_rows = checkpoint ? 16 : 0};
    mc_trainable t;
    mc_steps *steps;
    double value = 0, weight;
    if (kind == MICA_TUNE_DORA) g.batch.rows = 2; /* the chosen texts alone */
    if (mc_trainable_init(&t, g.f.lm, g.f.device, &lora) != MICA_OK)
        fail_msg("%s", mica_last_error());
    set_factors(&g, &t);
    if (mc_steps_open(&t, g.f.device, &options, &steps) != MICA_OK ||
        mc_steps_gradient(steps, &g.batch, &value, &weight) != MICA_OK)
        fail_msg("%s", mica_last_error());
    char *key = test_format("%s_loss", prefix);
    double want = number(&g, key);
    if (!(fabs(value - want) <= 1e-5 * fmax(1.0, want)))
        fail_msg("%s: the loss is %.9g, want %.9g", prefix, value, want);
    compare_gradients(&g, &t, steps, prefix);
    free(key);
    mc_steps_close(&steps);
    mc_trainable_deinit(&t);
    close_golden(&g);
}

static void test_preferences(void **state) {
    (void)state;
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        check("dpo", "dpo", MICA_TUNE_LORA, checkpoint);
        check("orpo", "orpo", MICA_TUNE_LORA, checkpoint);
    }
}

static void test_dora(void **state) {
    (void)state;
    check("dora", "masked_cross_entropy", MICA_TUNE_DORA, false);
    check("dora", "masked_cross_entropy", MICA_TUNE_DORA, true);
}

static double formula(mica_scope *s, const char *name, const mica_array *in, size_t n) {
    mica_array loss;
    double value = 0;
    if (mica_loss(s, name, in, n, NULL, &loss) != MICA_OK || mica_item_f64(loss, &value) != MICA_OK)
        fail_msg("%s: %s", name, mica_last_error());
    return value;
}

/* By hand: logits of two rows give log 2 and log(1 + e^-2). */
static void test_formulas(void **state) {
    (void)state;
    mica_device *device;
    mica_scope *s;
    static const float logits[] = {0, 0, 3, 1}, mask[] = {0, 1}, values[] = {1, -3};
    static const int32_t targets[] = {0, 0};
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    const mica_array in[] = {mica_from_data(s, logits, MICA_F32, (int64_t[]){2, 2}, 2),
                             mica_from_data(s, targets, MICA_I32, (int64_t[]){2}, 1),
                             mica_from_data(s, mask, MICA_F32, (int64_t[]){2}, 1)};
    const mica_array pair[] = {mica_from_data(s, values, MICA_F32, (int64_t[]){2}, 1), in[2]};
    double a = log(2.0), b = log(1.0 + exp(-2.0));
    assert_true(fabs(formula(s, "cross_entropy", in, 2) - (a + b) / 2) < 1e-6);
    assert_true(fabs(formula(s, "masked_cross_entropy", in, 3) - b) < 1e-6);
    assert_true(fabs(formula(s, "mse", pair, 2) - (1.0 + 16.0) / 2) < 1e-6);
    mica_array loss;
    assert_int_equal(mica_loss(s, "mse", pair, 1, NULL, &loss), MICA_EINVAL);
    assert_int_equal(mica_loss(s, "mae", pair, 2, NULL, &loss), MICA_EINVAL);
    for (size_t i = 0; i < mica_loss_count(); i++)
        assert_non_null(mica_loss_name(i, NULL));
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* An answer that is certain, as after many steps on few pairs, has a gradient still. */
static void test_certain(void **state) {
    (void)state;
    mica_device *device;
    mica_scope *s;
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    const float chosen[] = {0.0f, -1e-9f}, rejected[] = {-3.0f, 0.0f};
    const mica_array in[] = {mica_from_data(s, chosen, MICA_F32, (int64_t[]){2}, 1),
                             mica_from_data(s, rejected, MICA_F32, (int64_t[]){2}, 1),
                             mica_f32(s, 0.5f)};
    mica_array loss, grads[2];
    assert_int_equal(mica_loss(s, "orpo", in, 3, NULL, &loss), MICA_OK);
    assert_int_equal(mica_grad(s, loss, MICA_NONE, in, 2, grads), MICA_OK);
    double value;
    assert_int_equal(mica_item_f64(loss, &value), MICA_OK);
    assert_true(isfinite(value));
    for (int i = 0; i < 2; i++) {
        float out[2] = {NAN, NAN};
        if (mica_read(grads[i], out, sizeof out) != MICA_OK) fail_msg("%s", mica_last_error());
        assert_true(isfinite(out[0]) && isfinite(out[1]));
    }
    mica_scope_close(&s);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preferences),
        cmocka_unit_test(test_dora),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_certain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
