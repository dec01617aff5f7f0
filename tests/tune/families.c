/* Five steps of LoRA as PEFT takes them over transformers' models, of each family's golden: the
 * losses, and the size of the second factors behind the last step. tools/make_lora_goldens.py says
 * what is trained, with which first values. */
#include "model/fixture.h"
#include "tune/step.h"
#include "tune/tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEYS = 64, NAME = 80, RANK = 2 };

#define SCALE 2.0f

typedef struct keys {
    char names[MAX_KEYS][NAME];
    const char *list[MAX_KEYS];
    size_t n;
} keys;

static void add_key(keys *k, const char *name, size_t len) {
    for (size_t i = 0; i < k->n; i++)
        if (strlen(k->names[i]) == len && memcmp(k->names[i], name, len) == 0) return;
    assert_true(k->n < MAX_KEYS && len < NAME);
    memcpy(k->names[k->n], name, len);
    k->list[k->n] = k->names[k->n];
    k->n++;
}

/* Stacked experts, which files may hold one by one, are told by the last part of their name. */
static const mc_slot *slot_of(mc_str name) {
    static const struct {
        const char *end;
        int slot;
    } ends[] = {{".gate_up_proj", MC_EXPERTS_GATE_UP},
                {".up_proj", MC_EXPERTS_UP},
                {".down_proj", MC_EXPERTS_DOWN}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (mc_str_ends(name, mc_str_of(ends[i].end))) return &mc_block_experts.slots[ends[i].slot];
    fail_msg("no experts are called %.*s", MC_STR_ARG(name));
    return NULL;
}

static void add_experts(keys *k, const mc_lm *lm, mc_json list) {
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        mc_str name;
        const mc_lm_slot *w;
        assert_true(mc_json_get_str(it.value, &name));
        size_t before = k->n;
        for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));)
            if (w->slot == slot_of(name)) add_key(k, w->module, strlen(w->module));
        if (k->n == before) fail_msg("no experts for %.*s", MC_STR_ARG(name));
    }
}

static void read_keys(keys *k, const mc_lm *lm, mc_json golden) {
    for (mc_json_iter it = mc_json_begin(mc_json_find(golden, "modules")); mc_json_next(&it);) {
        mc_str name;
        assert_true(mc_json_get_str(it.value, &name));
        add_key(k, name.ptr, name.len);
    }
    add_experts(k, lm, mc_json_find(golden, "experts"));
}

/* Number k of A, in rows of `in` numbers. */
static float first_number(uint64_t k, int64_t in) {
    double x = (double)(uint32_t)(k * UINT64_C(0x9e3779b1)) / 0x1p32;
    return (float)((2 * x - 1) / sqrt((double)in));
}

/* Of experts A has rows of `in` numbers, otherwise columns. */
static void begin(const mc_trainable *t, mc_parameter *p) {
    const mc_linear *linear = &t->lm->slots[p->at].linear;
    size_t n = (size_t)mica_array_size(p->value), in = (size_t)linear->in;
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        size_t k = linear->experts ? i : i % RANK * in + i / RANK;
        x[i] = first_number(k, linear->in);
    }
    p->value = mica_from_data(t->scope, x, MICA_F32, mica_array_shape(p->value),
                              mica_array_ndim(p->value));
    assert_int_equal(mica_eval(t->scope, p->value), MICA_OK);
    free(x);
}

static double size_of_b(const mc_trainable *t) {
    double sum = 0;
    for (size_t k = 0; k < mc_trainable_count(t); k++) {
        const mc_parameter *p = mc_trainable_at(t, k);
        size_t n = (size_t)mica_array_size(p->value);
        float *x = malloc(n * sizeof *x);
        assert_non_null(x);
        if (mica_read(p->value, x, n * sizeof *x) != MICA_OK) fail_msg("%s", mica_last_error());
        for (size_t i = 0; p->part == MC_PART_B && i < n; i++)
            sum += (double)x[i] * (double)x[i];
        free(x);
    }
    return sqrt(sum);
}

static double number(const model_fixture *f, mc_json golden, const char *key) {
    double value;
    if (!mc_json_get_float(mc_json_find(golden, key), &value)) fail_msg("%s: no %s", f->name, key);
    return value;
}

static const int32_t *text_ids(const model_fixture *f, mc_json golden, size_t *n) {
    mc_str text;
    assert_true(mc_json_get_str(mc_json_find(golden, "text"), &text));
    return fixture_ints(f, n, "%.*s.ids", MC_STR_ARG(text));
}

static mc_steps *open_steps(const model_fixture *f, mc_trainable *t) {
    mc_steps *steps;
    const mica_optimizer_options sgd = {.name = "sgd"};
    const mc_steps_options options = {.loss = "masked_cross_entropy", .optimizer = &sgd};
    if (mc_steps_open(t, f->device, &options, &steps) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    return steps;
}

/* The losses before each step, and behind the last. */
static void check_losses(const model_fixture *f, mc_json golden, mc_trainable *t) {
    size_t n;
    const int32_t *ids = text_ids(f, golden, &n);
    float *mask = malloc(n * sizeof *mask);
    mc_steps *steps = open_steps(f, t);
    double loss, weight, norm, want = 0, rate = number(f, golden, "rate");
    int step = 0;
    assert_non_null(mask);
    for (size_t i = 0; i < n; i++)
        mask[i] = 1;
    const mc_batch batch = {.ids = ids, .mask = mask, .rows = 1, .length = (int64_t)n};
    for (mc_json_iter it = mc_json_begin(mc_json_find(golden, "losses")); mc_json_next(&it);
         step++) {
        assert_true(mc_json_get_float(it.value, &want));
        if (step && mc_steps_update(steps, rate, &norm) != MICA_OK)
            fail_msg("%s: %s", f->name, mica_last_error());
        if (mc_steps_gradient(steps, &batch, &loss, &weight) != MICA_OK)
            fail_msg("%s: %s", f->name, mica_last_error());
        if (!(fabs(loss - want) <= 1e-3 * (step + 1)))
            fail_msg("%s: behind step %d the loss is %.9g, want %.9g", f->name, step, loss, want);
    }
    assert_int_equal(step, 6);
    mc_steps_close(&steps);
    free(mask);
}

static double loss_of(const float *logits, const int32_t *ids, size_t n, size_t vocab) {
    double sum = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        const float *row = logits + i * vocab;
        double all = 0;
        for (size_t k = 0; k < vocab; k++)
            all += exp((double)row[k]);
        sum += log(all) - (double)row[ids[i + 1]];
    }
    return sum / (double)(n - 1);
}

/* The logits with what was saved in a folder, whose loss is that behind the last step. */
static float *check_loaded(const model_fixture *f, mc_json golden, const char *folder,
                           size_t *count) {
    size_t n;
    mc_lm *lm = NULL;
    double want = 0;
    const int32_t *ids = text_ids(f, golden, &n);
    for (mc_json_iter it = mc_json_begin(mc_json_find(golden, "losses")); mc_json_next(&it);)
        assert_true(mc_json_get_float(it.value, &want));
    if (mc_lm_open(f->path, f->device, NULL, &lm) != MICA_OK || mc_lm_adapt(lm, folder) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    float *logits = fixture_logits(f->device, lm, ids, n);
    double loss = loss_of(logits, ids, n, (size_t)lm->spec.vocab);
    if (!(fabs(loss - want) <= 6e-3))
        fail_msg("%s: %s has loss %.9g, want %.9g", f->name, folder, loss, want);
    *count = n * (size_t)lm->spec.vocab;
    mc_lm_close(&lm);
    return logits;
}

/* PEFT's format has no names for experts as mlx-lm stacks them, and the error says so. */
static void check_nameless(const model_fixture *f) {
    const char *error = mica_last_error();
    if (!strstr(error, "PEFT's format has no name for factors of ") ||
        !strstr(error, "mlp.switch_mlp.") || !f->lm->quant.bits)
        fail_msg("%s: %s", f->name, error);
}

/* mlx-lm's format and PEFT's say the same. */
static void check_saved(const model_fixture *f, mc_json golden, const mc_trainable *t) {
    char *dir = test_temp_dir(), *folder = test_format("%s/mlx", dir);
    const mica_tuner tuner = {
        .device = f->device, .lm = f->lm, .path = f->path, .applied = true, .trainable = *t};
    size_t n;
    if (mica_tuner_save(&tuner, folder, MICA_ADAPTER_MLX) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    float *mlx = check_loaded(f, golden, folder, &n);
    free(folder);
    folder = test_format("%s/peft", dir);
    mica_status status = mica_tuner_save(&tuner, folder, MICA_ADAPTER_PEFT);
    if (status == MICA_OK) {
        float *peft = check_loaded(f, golden, folder, &n);
        fixture_compare(peft, mlx, n, 1e-4, "%s: saved in two formats", f->name);
        free(peft);
    } else {
        assert_int_equal(status, MICA_EUNSUPPORTED);
        check_nameless(f);
    }
    free(mlx);
    free(folder);
    test_temp_dir_remove(dir);
}

static void check_case(const model_fixture *f, mc_json golden) {
    keys k = {.n = 0};
    mc_trainable t;
    read_keys(&k, f->lm, golden);
    const mica_lora_options options = {
        .modules = k.list, .n_modules = k.n, .rank = RANK, .scale = SCALE};
    if (mc_trainable_init(&t, f->lm, f->device, &options) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    for (size_t i = 0; i < mc_trainable_count(&t); i++)
        if (mc_trainable_at(&t, i)->part == MC_PART_A) begin(&t, mc_trainable_at(&t, i));
    check_losses(f, golden, &t);
    double size = size_of_b(&t), want = number(f, golden, "norm");
    if (!(fabs(size - want) <= 1e-3 * want))
        fail_msg("%s: the size of B is %.9g, want %.9g", f->name, size, want);
    check_saved(f, golden, &t);
    mc_trainable_deinit(&t);
}

static mc_json_doc *goldens;
static int checked;

static void check_fixture(const model_fixture *f) {
    mc_json golden = mc_json_find(mc_json_root(goldens), f->name);
    if (!mc_json_exists(golden)) {
        if (strstr(f->path, "/families/")) fail_msg("%s has no golden steps", f->name);
        return;
    }
    check_case(f, golden);
    checked++;
}

static void test_five_steps(void **state) {
    (void)state;
    char *path = test_format("%s/tune/families.json", test_cases_dir());
    goldens = test_load_json(path);
    fixture_each(check_fixture);
    print_message("%d families\n", checked);
    assert_int_equal(checked, mc_json_count(mc_json_root(goldens)));
    mc_json_close(&goldens);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_steps),
    };
    return cmocka_run_group_tests_name("tune/families", tests, NULL, NULL);
}
