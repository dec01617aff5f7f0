/* The gradient of every parameter of tiny models, by the loss over a batch, compared with that of
 * the reference implementation: train/fullgrad_* of the fixtures, of every family. */
#include "model/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mica/mica.h>

#define LOSS_TOLERANCE 1e-5
#define GRADIENT_TOLERANCE 1e-4

enum { MAX_PARAMETERS = 256 };

typedef struct parameters {
    char names[MAX_PARAMETERS][MC_MODULE_BYTES + 16];
    mica_array arrays[MAX_PARAMETERS];
    size_t n;
} parameters;

static void add(parameters *p, mica_array x, const char *module, const char *part) {
    if (!x.scope) return;
    assert_true(p->n < MAX_PARAMETERS);
    snprintf(p->names[p->n], sizeof p->names[0], "%s.%s", module, part);
    p->arrays[p->n++] = x;
}

static void find_parameters(const mc_lm *lm, parameters *p) {
    char module[MC_MODULE_BYTES];
    p->n = 0;
    add(p, lm->embed.weight, "model.embed_tokens", "weight");
    if (!lm->tied) add(p, lm->head.weight, "lm_head", "weight");
    add(p, lm->norm, "model.norm", "weight");
    for (size_t i = 0; i < lm->n_slots; i++) {
        const mc_lm_slot *w = &lm->slots[i];
        if (!w->name) continue;
        mc_lm_module(lm, w, module);
        add(p, w->linear.weight, module, "weight");
        add(p, w->linear.bias, module, "bias");
        add(p, w->vector, module, "weight");
    }
}

/* The mean over the mask of the cross-entropy of the next tokens. */
static mica_array loss_of(const model_fixture *f, mica_scope *s) {
    const int64_t *shape;
    size_t n;
    const float *mask = fixture_floats(f, &shape, "mask");
    const int32_t *ids = fixture_ints(f, &n, "ids");
    assert_true(mask && ids && n == (size_t)(shape[0] * (shape[1] + 1)));
    const int64_t batch[] = {shape[0], shape[1] + 1};
    mica_array tokens = mica_from_data(s, ids, MICA_I32, batch, 2);
    mica_array weights = mica_from_data(s, mask, MICA_F32, shape, 2);
    mica_array logits = mc_lm_forward(s, f->lm, tokens, mica_i32(s, 0), NULL, MC_ALL_LOGITS);
    mica_array loss = mica_cross_entropy(s, mica_slice_axis(s, logits, 1, 0, shape[1]),
                                         mica_slice_axis(s, tokens, 1, 1, batch[1]));
    loss = mica_sum(s, mica_multiply(s, loss, weights), NULL, 0, false);
    return mica_divide(s, loss, mica_sum(s, weights, NULL, 0, false));
}

static void compare(const model_fixture *f, const parameters *p, mica_array *grads) {
    size_t compared = 0, wanted = 0;
    for (size_t i = 0; i < p->n; i++) {
        const int64_t *shape;
        const float *want = fixture_floats(f, &shape, "grad.%s", p->names[i]);
        if (!want) fail_msg("%s: no golden of %s", f->name, p->names[i]);
        size_t n = (size_t)mica_array_size(grads[i]);
        float *got = malloc(n * sizeof *got);
        assert_non_null(got);
        if (mica_read(grads[i], got, n * sizeof *got) != MICA_OK) fail_msg("%s", mica_last_error());
        fixture_compare(got, want, n, GRADIENT_TOLERANCE, "%s: the gradient of %s", f->name,
                        p->names[i]);
        free(got);
        compared++;
    }
    for (size_t i = 0; i < mc_weights_count(f->tensors); i++)
        wanted += !strncmp(mc_weights_at(f->tensors, i)->name, "grad.", 5);
    assert_int_equal(compared, wanted); /* all that the golden has */
}

static void check(const model_fixture *f) {
    static parameters p;
    mica_array grads[MAX_PARAMETERS];
    mica_scope *s;
    double loss = 0, want;
    find_parameters(f->lm, &p);
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array y = loss_of(f, s);
    if (mica_grad(s, y, MICA_NONE, p.arrays, p.n, grads) != MICA_OK ||
        mica_eval_n(s, grads, p.n) != MICA_OK || mica_item_f64(y, &loss) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    assert_true(mc_json_get_float(mc_json_find(mc_json_root(f->golden), "loss"), &want));
    if (!(loss - want <= LOSS_TOLERANCE && want - loss <= LOSS_TOLERANCE))
        fail_msg("%s: the loss is %.9g, want %.9g", f->name, loss, want);
    compare(f, &p, grads);
    print_message("  %s: %zu gradients\n", f->name, p.n);
    mica_scope_close(&s);
}

static void open_case(model_fixture *f, const char *dir, const char *name) {
    char *golden = test_format("%s/%s/golden.json", dir, name);
    char *tensors = test_format("%s/%s/golden.safetensors", dir, name);
    *f = (model_fixture){.name = name, .path = test_format("%s/%s", dir, name)};
    f->golden = test_load_json(golden);
    if (mc_weights_open(tensors, NULL, &f->tensors) != MICA_OK ||
        test_device_open(NULL, &f->device) != MICA_OK ||
        mc_lm_open(f->path, f->device, NULL, &f->lm) != MICA_OK)
        fail_msg("%s: %s", name, mica_last_error());
    free(golden);
    free(tensors);
}

static void test_every_parameter(void **state) {
    (void)state;
    char *dir = test_format("%s/train", test_fixtures_dir());
    test_list folders = test_list_folders(dir);
    int checked = 0;
    for (size_t i = 0; i < folders.count; i++) {
        model_fixture f;
        if (strncmp(folders.names[i], "fullgrad", 8) != 0) continue;
        open_case(&f, dir, folders.names[i]);
        check(&f);
        fixture_close(&f);
        checked++;
    }
    assert_true(checked > 0);
    test_list_free(&folders);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
