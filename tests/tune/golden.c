/* Training as the reference implementations do it: train/ of the fixtures. Those with a base model
 * are LoRA: the loss, every gradient, and the parameters after five steps of AdamW, with and
 * without bias correction. The others are full training, of every family: the loss, and the
 * gradients of all that the layers hold. */
#include "model/fixture.h"
#include "tune/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEYS = 16, STEPS = 5 };

typedef struct training {
    model_fixture f;
    mc_json_doc *doc;
    mica_lora_options lora;
    mica_optimizer_options optimizer;
    const char *keys[MAX_KEYS];
    char names[MAX_KEYS][64];
    mc_trainable trainable;
    mc_batch batch;
} training;

static mc_json member(const training *t, const char *object, const char *key) {
    mc_json root = mc_json_root(t->doc);
    return mc_json_find(object ? mc_json_find(root, object) : root, key);
}

static double number(const training *t, const char *object, const char *key) {
    double value;
    if (!mc_json_get_float(member(t, object, key), &value)) fail_msg("%s: no %s", t->f.name, key);
    return value;
}

static void read_lora(training *t) {
    size_t n = 0;
    for (mc_json_iter it = mc_json_begin(member(t, "lora", "keys")); mc_json_next(&it); n++) {
        mc_str key;
        assert_true(n < MAX_KEYS && mc_json_get_str(it.value, &key));
        snprintf(t->names[n], sizeof t->names[n], "%.*s", MC_STR_ARG(key));
        t->keys[n] = t->names[n];
    }
    t->lora = (mica_lora_options){
        .modules = t->keys,
        .n_modules = n,
        .rank = (int64_t)number(t, "lora", "rank"),
        .scale = (float)number(t, "lora", "scale"),
        .layers = (int64_t)number(t, "lora", "num_layers"),
    };
    t->optimizer = (mica_optimizer_options){
        .name = "adamw",
        .learning_rate = number(t, "optimizer", "lr"),
        .weight_decay = number(t, "optimizer", "weight_decay"),
    };
    assert_int_equal((int)number(t, "optimizer", "steps"), STEPS);
}

/* Opens a case. t->lora.kind says which of the two it is. */
static void open_case(training *t, const char *dir, const char *name) {
    *t = (training){.f.name = name, .lora.kind = MICA_TUNE_FULL};
    char *golden = test_format("%s/train/%s/golden.json", dir, name);
    char *tensors = test_format("%s/train/%s/golden.safetensors", dir, name);
    char *path = test_format("%s/train/%s", dir, name);
    mc_str base;
    t->doc = test_load_json(golden);
    if (mc_json_get_str(member(t, NULL, "base"), &base)) {
        free(path);
        path = test_format("%s/%.*s", dir, MC_STR_ARG(base));
        read_lora(t);
    }
    if (mc_weights_open(tensors, NULL, &t->f.tensors) != MICA_OK ||
        test_device_open(NULL, &t->f.device) != MICA_OK ||
        mc_lm_open(path, t->f.device, NULL, &t->f.lm) != MICA_OK)
        fail_msg("%s: %s", name, mica_last_error());
    const int64_t *shape;
    size_t count;
    t->batch.mask = fixture_floats(&t->f, &shape, "mask");
    t->batch.ids = fixture_ints(&t->f, &count, "ids");
    t->batch.rows = shape[0];
    t->batch.length = shape[1] + 1;
    assert_int_equal(count, t->batch.rows * t->batch.length);
    free(golden);
    free(tensors);
    free(path);
}

static void close_case(training *t) {
    mc_lm_close(&t->f.lm);
    mc_weights_close(&t->f.tensors);
    mica_device_close(&t->f.device);
    mc_json_close(&t->doc);
}

/* Makes the parameters: as many as the golden has tensors that begin so. */
static void make_parameters(training *t, const char *prefix) {
    if (mc_trainable_init(&t->trainable, t->f.lm, t->f.device, &t->lora) != MICA_OK)
        fail_msg("%s: %s", t->f.name, mica_last_error());
    size_t wanted = 0;
    for (size_t i = 0; i < mc_weights_count(t->f.tensors); i++)
        wanted += !strncmp(mc_weights_at(t->f.tensors, i)->name, prefix, strlen(prefix));
    assert_int_equal(mc_trainable_count(&t->trainable), wanted);
}

/* Sets the parameters to the golden's first values. All that it has are there. */
static void begin(training *t) {
    make_parameters(t, "init.");
    size_t wanted = mc_trainable_count(&t->trainable);
    for (size_t i = 0; i < wanted; i++) {
        mc_parameter *p = mc_trainable_at(&t->trainable, i);
        const int64_t *shape;
        const float *values = fixture_floats(&t->f, &shape, "init.%s", p->name);
        if (!values) fail_msg("%s: no golden of %s", t->f.name, p->name);
        assert_memory_equal(shape, mica_array_shape(p->value), 2 * sizeof *shape);
        p->value = mica_from_data(t->trainable.scope, values, MICA_F32, shape, 2);
        assert_int_equal(mica_eval(t->trainable.scope, p->value), MICA_OK);
    }
}

static void compare(const training *t, mica_array x, double tolerance, const char *what,
                    const char *name) {
    const float *want = fixture_floats(&t->f, NULL, "%s.%s", what, name);
    size_t n = (size_t)mica_array_size(x);
    float *got = malloc(n * sizeof *got);
    if (!want || !got) fail_msg("%s: no %s.%s", t->f.name, what, name);
    if (mica_read(x, got, n * sizeof *got) != MICA_OK) fail_msg("%s", mica_last_error());
    fixture_compare(got, want, n, tolerance, "%s: %s.%s", t->f.name, what, name);
    free(got);
}

/* The parameters after the steps. Where a gradient is nearly 0, its last bits decide where AdamW
 * moves the parameter: such elements show nothing that the losses do not. */
static void compare_parameters(const training *t, const char *what) {
    static const double noise = 1e-6;
    double tolerance = number(t, "tolerance", "params_after_5");
    for (size_t k = 0; k < mc_trainable_count(&t->trainable); k++) {
        const mc_parameter *p = mc_trainable_at(&t->trainable, k);
        const float *want = fixture_floats(&t->f, NULL, "%s.%s", what, p->name);
        const float *grad = fixture_floats(&t->f, NULL, "grad.%s", p->name);
        size_t n = (size_t)mica_array_size(p->value), compared = 0;
        float *got = malloc(n * sizeof *got);
        if (!want || !grad || !got) fail_msg("%s: no golden of %s", t->f.name, p->name);
        if (mica_read(p->value, got, n * sizeof *got) != MICA_OK) fail_msg("%s", mica_last_error());
        for (size_t i = 0; i < n; i++) {
            if (fabs((double)grad[i]) < noise) continue;
            fixture_compare(got + i, want + i, 1, tolerance, "%s: %s.%s[%zu]", t->f.name, what,
                            p->name, i);
            compared++;
        }
        if (!compared) print_message("  %s: all gradients of %s are noise\n", t->f.name, p->name);
        free(got);
    }
}

static mc_steps *open_steps(training *t, bool correction, bool checkpoint, int64_t rows) {
    mc_steps *steps;
    t->optimizer.bias_correction = correction;
    const mc_steps_options options = {.loss = "masked_cross_entropy",
                                      .optimizer = &t->optimizer,
                                      .checkpoint = checkpoint,
                                      .chunk_rows = rows};
    if (mc_steps_open(&t->trainable, t->f.device, &options, &steps) != MICA_OK)
        fail_msg("%s: %s", t->f.name, mica_last_error());
    return steps;
}

static void check_steps(training *t, bool correction, bool checkpoint, int64_t rows) {
    const char *what = correction ? "adamw_torch" : "adamw_mlx_nobias";
    double tolerance = number(t, "tolerance", "grad_max_abs"), rate = t->optimizer.learning_rate;
    double loss, weight, norm;
    begin(t);
    mc_steps *steps = open_steps(t, correction, checkpoint, rows);
    mc_json losses = correction ? member(t, NULL, "losses_before_each_step")
                                : member(t, "mlx", "mlx_nobias_losses");
    mc_json_iter it = mc_json_begin(losses);
    for (int step = 0; step < STEPS; step++) {
        double want = 0;
        assert_true(mc_json_next(&it) && mc_json_get_float(it.value, &want));
        if (mc_steps_gradient(steps, &t->batch, &loss, &weight) != MICA_OK)
            fail_msg("%s: %s", t->f.name, mica_last_error());
        if (fabs(loss - want) > (step ? 1e-3 : number(t, "tolerance", "loss")))
            fail_msg("%s: step %d: the loss is %.9g, want %.9g", t->f.name, step, loss, want);
        assert_true(weight == number(t, NULL, "ntokens"));
        for (size_t i = 0; step == 0 && i < mc_trainable_count(&t->trainable); i++)
            compare(t, mc_steps_grad(steps, i), tolerance, "grad",
                    mc_trainable_at(&t->trainable, i)->name);
        if (mc_steps_update(steps, rate, &norm) != MICA_OK)
            fail_msg("%s: %s", t->f.name, mica_last_error());
        double all = number(t, NULL, "grad_norm_all");
        if (step == 0 && fabs(norm - all) > 1e-4 * all)
            fail_msg("%s: the norm is %.9g, want %.9g", t->f.name, norm, all);
    }
    compare_parameters(t, what);
    mc_steps_close(&steps);
    mc_trainable_deinit(&t->trainable);
}

/* Full training trains the layers, as mlx-lm's does, and neither embedding, last norm nor head. */
static void check_full(training *t, bool checkpoint) {
    double loss, weight, want = number(t, NULL, "loss");
    make_parameters(t, "grad.model.layers.");
    mc_steps *steps = open_steps(t, false, checkpoint, checkpoint ? 16 : 0);
    if (mc_steps_gradient(steps, &t->batch, &loss, &weight) != MICA_OK)
        fail_msg("%s: %s", t->f.name, mica_last_error());
    if (fabs(loss - want) > number(t, "tolerance", "loss"))
        fail_msg("%s: the loss is %.9g, want %.9g", t->f.name, loss, want);
    for (size_t i = 0; i < mc_trainable_count(&t->trainable); i++)
        compare(t, mc_steps_grad(steps, i), number(t, "tolerance", "grad_max_abs"), "grad",
                mc_trainable_at(&t->trainable, i)->name);
    mc_steps_close(&steps);
    mc_trainable_deinit(&t->trainable);
}

static void test_goldens(void **state) {
    (void)state;
    char *dir = test_format("%s/train", test_fixtures_dir());
    test_list folders = test_list_folders(dir);
    int checked[2] = {0, 0};
    for (size_t i = 0; i < folders.count; i++) {
        training t;
        open_case(&t, test_fixtures_dir(), folders.names[i]);
        bool full = t.lora.kind == MICA_TUNE_FULL;
        if (full) {
            check_full(&t, false);
            check_full(&t, true);
        } else {
            check_steps(&t, true, false, 0);
            check_steps(&t, false, false, 0);
            check_steps(&t, true, true, 16);
        }
        print_message("  %s: %s\n", folders.names[i],
                      full ? "every gradient, two ways" : "five steps, three ways");
        checked[full]++;
        close_case(&t);
    }
    assert_true(checked[0] > 0 && checked[1] > 0);
    test_list_free(&folders);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
