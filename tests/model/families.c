/* The gradient through every block of every family, against differences of the loss. */
#include "model/fixture.h"

#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A number in [-1, 1). */
static double draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(*seed >> 32) / 0x1p31;
}

static float *draw_all(size_t n, uint64_t seed, double scale) {
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(scale * draw(&seed));
    return x;
}

/* x [1, L, hidden] embeddings -> logits [1, L, vocab]. */
static mica_array forward(const mc_lm *lm, mica_scope *s, mica_array x) {
    return mc_lm_forward(s, lm, x, mica_i32(s, 0), NULL, MC_ALL_LOGITS);
}

/* The sum of logits * weights, where the embeddings are x + step * d. */
static double loss_at(const model_fixture *f, const int64_t *shape, const float *x, const float *d,
                      double step, const float *weights) {
    size_t n = (size_t)(shape[1] * shape[2]), count = (size_t)(shape[1] * f->lm->spec.vocab);
    float *moved = malloc(n * sizeof *moved), *logits = malloc(count * sizeof *logits);
    mica_scope *s;
    double sum = 0;
    assert_true(moved && logits);
    for (size_t i = 0; i < n; i++)
        moved[i] = (float)((double)x[i] + step * (double)d[i]);
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array y = forward(f->lm, s, mica_from_data(s, moved, MICA_F32, shape, 3));
    if (mica_read(y, logits, count * sizeof *logits) != MICA_OK) fail_msg("%s", mica_last_error());
    for (size_t i = 0; i < count; i++)
        sum += (double)logits[i] * (double)weights[i];
    mica_scope_close(&s);
    free(moved);
    free(logits);
    return sum;
}

/* The gradient of the same by x, times d, with or without checkpoints. */
static double slope_of(const model_fixture *f, bool checkpoint, const int64_t *shape,
                       const float *x, const float *d, const float *weights) {
    mc_lm lm = *f->lm;
    if (checkpoint) lm.checkpoint = mica_checkpoint;
    const int64_t out[] = {1, shape[1], f->lm->spec.vocab};
    size_t n = (size_t)(shape[1] * shape[2]);
    float *gradient = malloc(n * sizeof *gradient);
    mica_scope *s;
    mica_array grad;
    double sum = 0;
    assert_non_null(gradient);
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array at = mica_from_data(s, x, MICA_F32, shape, 3);
    mica_array dy = mica_from_data(s, weights, MICA_F32, out, 3);
    if (mica_grad(s, forward(&lm, s, at), dy, &at, 1, &grad) != MICA_OK ||
        mica_read(grad, gradient, n * sizeof *gradient) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    for (size_t i = 0; i < n; i++)
        sum += (double)gradient[i] * (double)d[i];
    mica_scope_close(&s);
    free(gradient);
    return sum;
}

static float *embed(const model_fixture *f, const int32_t *ids, const int64_t *shape) {
    size_t n = (size_t)(shape[1] * shape[2]);
    float *x = malloc(n * sizeof *x);
    mica_scope *s;
    assert_non_null(x);
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array y = mc_lm_embed(s, f->lm, mica_from_data(s, ids, MICA_I32, shape, 2));
    if (mica_read(y, x, n * sizeof *x) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return x;
}

/* Between the two ends of a difference a router may pick another expert: then there is a jump, and
 * a smaller step is taken. */
static void compare_slopes(const model_fixture *f, double slope, const int64_t *shape,
                           const float *x, const float *d, const float *weights) {
    double found = 0;
    for (double step = 1e-3; step > 5e-5; step /= 4) {
        found = (loss_at(f, shape, x, d, step, weights) - loss_at(f, shape, x, d, -step, weights)) /
                (2 * step);
        if (fabs(slope - found) <= 0.02 * (fabs(found) + 1)) return;
    }
    fail_msg("%s: the gradient's slope is %g, that of differences %g", f->name, slope, found);
}

static void check_gradient(const model_fixture *f) {
    size_t tokens;
    const int32_t *ids = fixture_ints(f, &tokens, "prompt1.ids");
    const int64_t shape[] = {1, (int64_t)tokens, f->lm->spec.hidden};
    size_t n = tokens * (size_t)shape[2], count = tokens * (size_t)f->lm->spec.vocab;
    float *x = embed(f, ids, shape), *weights = draw_all(count, 1, 1.0);
    double size = 0;
    for (size_t i = 0; i < n; i++)
        size += (double)x[i] * (double)x[i];
    float *d = draw_all(n, 2, sqrt(size / (double)n));
    double slope = slope_of(f, false, shape, x, d, weights);
    double again = slope_of(f, true, shape, x, d, weights);
    compare_slopes(f, slope, shape, x, d, weights);
    if (!(fabs(slope - again) <= 1e-3 * (fabs(slope) + 1)))
        fail_msg("%s: the gradient's slope is %g, with checkpoints %g", f->name, slope, again);
    free(x);
    free(d);
    free(weights);
}

static void test_gradients(void **state) {
    (void)state;
    fixture_each(check_gradient);
}

/* ---- counts ---- */

/* The first of some keys in a config, or in its text_config, that is a number; 0: none is. */
static int64_t count_in(mc_json root, const char *const *keys) {
    const mc_json both[] = {mc_json_find(root, "text_config"), root};
    int64_t n = 0;
    for (size_t i = 0; i < 2; i++)
        for (const char *const *key = keys; *key; key++)
            if (mc_json_get_int(mc_json_find(both[i], *key), &n)) return n;
    return 0;
}

static bool has_any(const char *name, const char *const *words) {
    while (*words && !strstr(name, *words))
        words++;
    return *words != NULL;
}

/* Whether a tensor is of a layer that takes the keys and values of another, which files of Gemma
 * have tensors for all the same. */
static bool is_of_others(const char *name, int64_t layers, int64_t shared) {
    static const char *const parts[] = {"self_attn.k_", "self_attn.v_", NULL};
    const char *number = strstr(name, "layers.");
    return number && has_any(name, parts) && atoll(number + strlen("layers.")) >= layers - shared;
}

/* Rows of the first MLP, or of the first beside experts; 0: there is none of these names. */
static int64_t mlp_rows(const mc_weights *weights) {
    static const char *const ends[] = {".mlp.up_proj.weight", ".shared_expert.up_proj.weight"};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        for (size_t i = 0; i < mc_weights_count(weights); i++) {
            const mc_weight_tensor *t = mc_weights_at(weights, i);
            if (mc_str_ends(mc_str_of(t->name), mc_str_of(ends[k]))) return t->shape[0];
        }
    return 0;
}

/* Widths and numbers of experts are those of config.json, and of tensors. */
static void check_widths(const model_fixture *f, const mica_model_info *info, mc_json config,
                         int64_t all, int64_t some) {
    static const char *const widths[] = {"moe_intermediate_size", "intermediate_size", NULL};
    int64_t mlp = mlp_rows(f->lm->weights), width = all ? count_in(config, widths) : 0;
    if (info->experts != all || info->experts_per_token != (all ? some : 0) ||
        info->expert_size != width || (mlp && info->intermediate_size != mlp))
        fail_msg("%s: %lld experts of %lld, %lld a token, MLP %lld; want %lld of %lld, %lld, %lld",
                 f->name, (long long)info->experts, (long long)info->expert_size,
                 (long long)info->experts_per_token, (long long)info->intermediate_size,
                 (long long)all, (long long)width, (long long)some, (long long)mlp);
}

static int counted;

/* Parameters are the elements of the files' tensors; a token is computed with the experts that it
 * picks, as config.json says it, and with a row of a table of inputs of layers. */
static void check_counts(const model_fixture *f) {
    static const char *const experts[] = {"n_routed_experts", "num_local_experts", "num_experts",
                                          NULL},
                             *const picks[] = {"num_experts_per_tok", "top_k_experts", NULL},
                             *const shared[] = {"num_kv_shared_layers", NULL},
                             *const of_experts[] = {".experts.", "block_sparse_moe.input_linear",
                                                    "block_sparse_moe.output_linear", NULL},
                             *const left_out[] = {"visual.",     "vision",   "audio", "mtp.",
                                                  "multi_modal", "inv_freq", NULL};
    if (strcmp(f->lm->quantization, "none") != 0) return;
    char *path = test_format("%s/config.json", f->path);
    mc_json_doc *config = test_load_json(path);
    int64_t all = count_in(mc_json_root(config), experts),
            some = count_in(mc_json_root(config), picks),
            taken = count_in(mc_json_root(config), shared);
    uint64_t sum = 0, idle = 0;
    for (size_t i = 0; i < mc_weights_count(f->lm->weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(f->lm->weights, i);
        uint64_t n = 1;
        if (has_any(t->name, left_out) || is_of_others(t->name, f->lm->spec.n_layers, taken))
            continue;
        for (int k = 0; k < t->ndim; k++)
            n *= (uint64_t)t->shape[k];
        sum += n;
        if (all && has_any(t->name, of_experts)) idle += n / (uint64_t)all * (uint64_t)(all - some);
        if (strstr(t->name, "embed_tokens_per_layer")) idle += n - n / (uint64_t)t->shape[0];
    }
    const mica_model_info info = mc_lm_describe(f->lm);
    if (info.parameters != sum || info.active_parameters != sum - idle)
        fail_msg("%s: %llu parameters, want %llu; %llu active, want %llu\n", f->name,
                 (unsigned long long)info.parameters, (unsigned long long)sum,
                 (unsigned long long)info.active_parameters, (unsigned long long)(sum - idle));
    check_widths(f, &info, mc_json_root(config), all, some);
    counted += idle > 0;
    mc_json_close(&config);
    free(path);
}

static void test_counts(void **state) {
    (void)state;
    counted = 0;
    fixture_each(check_counts);
    if (!getenv("MICA_FIXTURES")) assert_true(counted > 8);
}

/* Each tensor is read, or left out by its name. */
static void check_notes(const model_fixture *f) {
    if (f->lm->notes.len && strstr(f->lm->notes.data, "nothing reads"))
        fail_msg("%s: %s", f->name, f->lm->notes.data);
}

static void test_all_tensors_are_known(void **state) {
    (void)state;
    fixture_each(check_notes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_tensors_are_known),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests_name("model/families", tests, NULL, NULL);
}
