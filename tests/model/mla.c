/* MLA: adapters of its matrices against merged weights, matrices of experts with rows of their own,
 * what is kept of a token, and layers behind the last. */
#include "model/fixture.h"

#include "session/plan.h"

#include <mica/convert.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 3 };

static int checked;

static mica_device *open_device(void) {
    mica_device *device;
    if (mica_device_open("cpu", NULL, &device) != MICA_OK) fail_msg("%s", mica_last_error());
    return device;
}

static mica_array computed(mica_array x) {
    if (mica_eval(x.scope, x) != MICA_OK) fail_msg("%s", mica_last_error());
    return x;
}

static mica_array noise(mica_scope *s, const int64_t *shape, int ndim, uint64_t seed) {
    mica_array key = mica_random_key(s, seed);
    return computed(mica_random_normal(s, key, shape, ndim, MICA_F32, 0, 0.2));
}

/* Factors and, of a matrix without experts, DoRA's magnitudes. */
static void adapt(mica_scope *s, mc_linear *linear, uint64_t seed) {
    int64_t n = linear->experts, in = linear->in, out = linear->out;
    if (n) {
        linear->lora_a = noise(s, (int64_t[]){n, RANK, in}, 3, seed);
        linear->lora_b = noise(s, (int64_t[]){n, out, RANK}, 3, seed + 1);
        return;
    }
    linear->lora_a = noise(s, (int64_t[]){in, RANK}, 2, seed);
    linear->lora_b = noise(s, (int64_t[]){RANK, out}, 2, seed + 1);
    linear->dora = computed(mica_add(s, noise(s, &out, 1, seed + 2), mica_f32(s, 1.0f)));
}

/* The same as weights in f32. */
static void merge(mica_scope *s, mc_linear *linear) {
    mica_array w = linear->weight, a = linear->lora_a, b = linear->lora_b;
    if (linear->quantised)
        w = mica_dequantize(s, w, mica_astype(s, linear->scales, MICA_F32),
                            mica_astype(s, linear->biases, MICA_F32), linear->quant, MICA_F32);
    mica_array more =
        linear->experts ? mica_matmul(s, b, a) : mica_transpose(s, mica_matmul(s, a, b), NULL);
    w = mica_add(s, mica_astype(s, w, MICA_F32), more);
    if (mica_valid(linear->dora)) w = mica_multiply(s, w, mica_expand_dims(s, linear->dora, 1));
    linear->weight = computed(mica_contiguous(s, w));
    linear->scales = linear->biases = linear->lora_a = linear->lora_b = linear->dora = MICA_NONE;
    linear->quantised = false;
}

/* Adapts the matrices of MLA in all layers, or merges what they have. Returns their number. */
static int each_matrix(const mc_lm *lm, mica_scope *s, bool adapted) {
    int n = 0;
    const mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));) {
        mc_linear *linear = &lm->slots[i - 1].linear;
        if (mc_spec_block(&lm->spec, w->layer, w->block)->kind != &mc_block_mla) continue;
        adapted ? adapt(s, linear, 10 * i) : merge(s, linear);
        n++;
    }
    return n;
}

static double apart(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static void check_adapters(const model_fixture *f) {
    size_t n;
    const int32_t *ids = fixture_ints(f, &n, "prompt2.ids");
    size_t count = n * (size_t)f->lm->spec.vocab;
    float *plain = fixture_logits(f->device, f->lm, ids, n);
    if (!each_matrix(f->lm, f->lm->scope, true)) {
        free(plain);
        return;
    }
    float *got = fixture_logits(f->device, f->lm, ids, n);
    each_matrix(f->lm, f->lm->scope, false);
    float *want = fixture_logits(f->device, f->lm, ids, n);
    assert_true(apart(plain, got, count) > 0.1);
    fixture_compare(got, want, count, 10 * f->tolerance, "%s: adapters", f->name);
    free(plain);
    free(got);
    free(want);
    checked++;
}

static void test_adapters(void **state) {
    (void)state;
    checked = 0;
    fixture_each(check_adapters);
    assert_true(checked > 1);
}

/* ---- matrices of experts ---- */

enum { EXPERTS = 2, ROWS = 2, WIDTH = 32 };

static void check_close(mica_array got, mica_array want) {
    mica_array apart = mica_abs(got.scope, mica_subtract(got.scope, got, want));
    float max;
    assert_int_equal(mica_read(mica_max(got.scope, apart, NULL, 0, false), &max, sizeof max),
                     MICA_OK);
    assert_true((double)max < 1e-5);
}

/* Stacked matrices as mlx-lm has them, published with factors of their rows. */
static void test_gains(void **state) {
    (void)state;
    mica_device *device = open_device();
    mica_scope *s;
    mica_quant quant = {MICA_QUANT_AFFINE, 8, WIDTH};
    mc_linear plain = {
        .quantised = true, .quant = quant, .experts = EXPERTS, .out = WIDTH, .in = WIDTH};
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array w = noise(s, (int64_t[]){EXPERTS, WIDTH, WIDTH}, 3, 1);
    assert_int_equal(mica_quantize(s, w, quant, &plain.weight, &plain.scales, &plain.biases),
                     MICA_OK);
    mica_array x = noise(s, (int64_t[]){EXPERTS, ROWS, WIDTH}, 3, 2);
    mc_linear with = plain;
    with.gains = noise(s, (int64_t[]){EXPERTS, WIDTH}, 2, 3);
    mica_array factors = mica_expand_dims(s, with.gains, 1);
    check_close(mc_linear_each(s, &with, x),
                mica_multiply(s, mc_linear_each(s, &plain, x), factors));
    check_close(mc_linear_each_back(s, &with, x),
                mc_linear_each_back(s, &plain, mica_multiply(s, x, factors)));
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* Each element is x, which the weight's 0 and the factors' 1 give, over the share that is kept; or
 * it was dropped. */
static void check_dropped(mica_array x, mica_array got) {
    enum { N = EXPERTS * ROWS * WIDTH };
    float given[N], left[N];
    int dropped = 0;
    assert_int_equal(mica_read(x, given, sizeof given), MICA_OK);
    assert_int_equal(mica_read(got, left, sizeof left), MICA_OK);
    for (int i = 0; i < N; i++) {
        dropped += left[i] == 0.0f;
        if (left[i] != 0.0f) assert_true(fabs((double)left[i] - 4.0 * (double)given[i]) < 1e-5);
    }
    assert_true(dropped > N / 2 && dropped < N); /* three of four */
}

static void test_dropout(void **state) {
    (void)state;
    mica_device *device = open_device();
    mica_scope *s;
    const int64_t shape[] = {EXPERTS, WIDTH, WIDTH};
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mc_linear linear = {.experts = EXPERTS, .out = WIDTH, .in = WIDTH, .dropout = 0.75f};
    linear.weight = mica_zeros(s, shape, 3, MICA_F32);
    linear.lora_a = linear.lora_b =
        mica_broadcast_to(s, mica_eye(s, WIDTH, WIDTH, 0, MICA_F32), shape, 3);
    linear.dropout_key = mica_random_key(s, 5);
    mica_array x = noise(s, (int64_t[]){EXPERTS, ROWS, WIDTH}, 3, 2);
    check_dropped(x, mc_linear_each(s, &linear, x));
    check_dropped(x, mc_linear_each_back(s, &linear, x));
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* ---- what is kept ---- */

static void check_entries(const model_fixture *f) {
    const mc_decoder_spec *spec = &f->lm->spec;
    const mc_attention_spec *a = mc_spec_attention(spec, 0);
    mc_state_plan plan;
    if (!a->latent) return;
    assert_int_equal(mc_state_plan_init(&plan, f->lm, NULL, 0, 512, 0), MICA_OK);
    assert_int_equal(plan.n, 1);
    assert_int_equal(plan.states[0].slots, spec->n_layers);
    const mc_state kept = mc_state_planned(&plan, 0, f->lm);
    uint64_t token = (uint64_t)a->head_dim * sizeof(float);
    assert_int_equal(kept.kind->bytes_after(&kept, 256), 256 * token * (uint64_t)spec->n_layers);
    mc_state_plan_deinit(&plan);
    checked++;
}

static void test_a_token_keeps_its_latent(void **state) {
    (void)state;
    checked = 0;
    fixture_each(check_entries);
    assert_true(checked > 1);
}

/* ---- layers ahead ---- */

static void check_layers_ahead(const model_fixture *f) {
    const mc_decoder_spec *spec = &f->lm->spec;
    mc_lm *lm;
    if (!spec->layers_ahead) return;
    char *from = test_format("\"num_hidden_layers\": %d", spec->n_layers);
    char *to = test_format("\"num_hidden_layers\": %d", spec->n_layers - 1);
    char *dir = fixture_copy_folder(f->path, "config.json", from, to);
    char *out = test_format("%s/8bit", dir);
    if (mc_lm_open(dir, f->device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_non_null(lm->notes.data);
    assert_non_null(strstr(lm->notes.data, "left out: tokens ahead"));
    assert_null(strstr(lm->notes.data, "nothing reads"));
    mc_lm_close(&lm);
    const mica_convert_options options = {.quantise = true, .quant = {MICA_QUANT_AFFINE, 8, 32}};
    if (!f->lm->quant.bits && mica_convert(dir, out, &options, NULL) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    free(from);
    free(to);
    free(out);
    test_temp_dir_remove(dir);
    checked++;
}

static void test_layers_ahead(void **state) {
    (void)state;
    checked = 0;
    fixture_each(check_layers_ahead);
    assert_true(checked > 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapters),     cmocka_unit_test(test_gains),
        cmocka_unit_test(test_dropout),      cmocka_unit_test(test_a_token_keeps_its_latent),
        cmocka_unit_test(test_layers_ahead),
    };
    return cmocka_run_group_tests_name("model/mla", tests, NULL, NULL);
}
