/* A family whose MLP is a mixture of experts, of which each token picks some: the k best of a
 * softmax over all, their weights made to sum up to 1. Experts' matrices have an axis of their own.
 */
#include "model/own_family.h"

#include "model/pass.h"

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the block and the family ---- */

enum { EXPERTS, PICKS, WIDTH }; /* its numbers */
enum { ROUTER = MC_BLOCK_SLOTS, GATE, UP, DOWN, SLOTS };

static int64_t experts(const mc_block_spec *b) {
    return b->own[EXPERTS];
}

static int64_t width(const mc_block_spec *b) {
    return b->own[WIDTH];
}

static int64_t kept(const mc_block_spec *b) {
    return 4 * b->hidden + 2 * b->own[EXPERTS] + 4 * b->own[PICKS] * b->own[WIDTH];
}

static const mc_slot slots[SLOTS] = {
    [MC_BLOCK_NORM] = {.kind = MC_SLOT_NORM, .name = "mlp_norm", .rows = mc_block_hidden},
    [MC_BLOCK_POST_NORM] = {.kind = MC_SLOT_NORM,
                            .name = "mlp_post_norm",
                            .optional = true,
                            .rows = mc_block_hidden},
    [ROUTER] = {.name = "mlp.gate", .rows = experts, .columns = mc_block_hidden},
    [GATE] = {.name = "mlp.switch_mlp.gate_proj",
              .rows = width,
              .columns = mc_block_hidden,
              .experts = experts},
    [UP] = {.name = "mlp.switch_mlp.up_proj",
            .rows = width,
            .columns = mc_block_hidden,
            .experts = experts},
    [DOWN] = {.name = "mlp.switch_mlp.down_proj",
              .rows = mc_block_hidden,
              .columns = width,
              .experts = experts},
};

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_scope *s = p->s;
    int64_t hidden = at->spec->hidden, length = mica_array_dim(x, 1), rows = p->batch * length;
    mica_array picks, flat = mica_reshape(s, x, (int64_t[]){rows, 1, hidden}, 3);
    mica_array scores = mica_squeeze(s, mc_block_apply(p, at, ROUTER, flat), 1);
    mica_array weights = mica_softmax(s, scores, -1);
    weights = mica_topk_indices(s, weights, at->spec->own[PICKS], -1, &picks);
    weights = mica_divide(s, weights, mica_sum(s, weights, (int[]){1}, 1, true));
    mica_array y = mica_silu(s, mc_block_pick(p, at, GATE, flat, picks));
    y = mica_multiply(s, y, mc_block_pick(p, at, UP, flat, picks));
    y = mica_multiply(s, mc_block_pick(p, at, DOWN, y, picks), mica_expand_dims(s, weights, 2));
    y = mica_sum(s, y, (int[]){1}, 1, false);
    return mica_reshape(s, y, (int64_t[]){p->batch, length, hidden}, 3);
}

static const mc_block block_experts = {
    .name = "own_experts", .slots = slots, .n_slots = SLOTS, .forward = forward, .kept = kept};

static const char *const listed_names[SLOTS] = {[GATE] = "mlp.experts.*.gate_proj",
                                                [UP] = "mlp.experts.*.up_proj",
                                                [DOWN] = "mlp.experts.*.down_proj"};

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    int64_t n = 0, picks = 0;
    bool listed = false;
    spec->norm_eps = 1e-6;
    spec->context = 512;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_int(root, "num_experts", MC_REQUIRED, 1, 64, &n));
    MC_TRY(mc_config_int(root, "num_experts_per_tok", MC_REQUIRED, 1, n, &picks));
    MC_TRY(mc_config_bool(root, "listed", MC_OPTIONAL, &listed));
    int block = mc_spec_add(spec, &block_experts);
    spec->blocks[block].own[EXPERTS] = n;
    spec->blocks[block].own[PICKS] = picks;
    spec->blocks[block].own[WIDTH] = spec->intermediate;
    for (int i = GATE; listed && i <= DOWN; i++)
        spec->blocks[block].names[i] = listed_names[i];
    for (int i = 1; i < spec->n_layers; i += 2) /* the other layers are dense */
        spec->layers[i].blocks[1] = (uint8_t)block;
    return MICA_OK;
}

static const mc_family family = {
    .name = "own_experts",
    .model_types = (const char *const[]){"own_experts", NULL},
    .architectures = (const char *const[]){NULL},
    .tensors = (const char *const[]){"mlp.switch_mlp.up_proj.weight", NULL},
    .chat = "chatml",
    .read = read_spec,
};

enum { EXPERTS_HERE = 12 };

#define CONFIG(experts, picks)                                                           \
    "{\"model_type\": \"own_experts\", \"hidden_size\": 64, \"intermediate_size\": 32, " \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"num_experts\": " experts ", \"num_experts_per_tok\": " picks                      \
    ", \"vocab_size\": 448, \"tie_word_embeddings\": true, \"rms_norm_eps\": 1e-6}"

/* ---- what it does ---- */

static char *folder;

static int make(void **state) {
    (void)state;
    folder = own_model(&family, CONFIG("12", "3"));
    return 0;
}

static int discard(void **state) {
    (void)state;
    test_temp_dir_remove(folder);
    return 0;
}

/* The first expert's matrix in the place of all others'. */
static void make_alike(mc_lm *lm) {
    for (size_t i = 0; i < lm->n_slots; i++) {
        mc_linear *l = &lm->slots[i].linear;
        if (!l->experts) continue;
        mica_array one = mica_slice_axis(lm->scope, l->weight, 0, 0, 1);
        const int64_t shape[] = {l->experts, l->out, l->in};
        l->weight = mica_contiguous(lm->scope, mica_broadcast_to(lm->scope, one, shape, 3));
        assert_int_equal(mica_eval(lm->scope, l->weight), MICA_OK);
    }
}

/* Sets what tokens pick: all, or one. */
static void set_picks(mc_lm *lm, int64_t picks) {
    for (int i = 0; i < lm->spec.n_blocks; i++)
        if (lm->spec.blocks[i].kind == &block_experts) lm->spec.blocks[i].own[PICKS] = picks;
}

/* If all experts are alike, it does not matter how many are picked; otherwise it does. */
static void test_alike(void **state) {
    (void)state;
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *lm = own_open(device, folder);
    const size_t n = OWN_TEXT * (size_t)lm->spec.vocab;
    for (int alike = 0; alike < 2; alike++) {
        if (alike) make_alike(lm);
        set_picks(lm, 1);
        float *one = fixture_logits(device, lm, own_text, OWN_TEXT);
        set_picks(lm, EXPERTS_HERE);
        float *all = fixture_logits(device, lm, own_text, OWN_TEXT);
        if (alike)
            fixture_compare(all, one, n, 1e-3, "experts that are alike");
        else
            assert_memory_not_equal(all, one, n * sizeof *one);
        free(one);
        free(all);
    }
    mc_lm_close(&lm);
    mica_device_close(&device);
}

static void test_listed(void **state) {
    (void)state;
    own_check_listed(folder, "own_experts", EXPERTS_HERE, "layers.1.mlp.experts.7.up_proj");
}

static void test_sharded(void **state) {
    (void)state;
    char *two = own_model(&family, CONFIG("2", "1"));
    own_check_sharded(two, "own_experts", "layers.1.mlp.experts.1.up_proj");
    test_temp_dir_remove(two);
}

/* Experts that are tensors of their own are not replaced: neither one of them nor all at once. */
static void test_list_replaced(void **state) {
    (void)state;
    const int64_t shape[] = {EXPERTS_HERE, 32, 64};
    char *listed = own_list_experts(folder, "own_experts", EXPERTS_HERE);
    mica_device *device;
    mica_scope *s;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    for (int ndim = 2; ndim <= 3; ndim++) {
        const mica_named_array array = {"model.layers.1.mlp.experts.7.up_proj.weight",
                                        mica_ones(s, shape + 3 - ndim, ndim, MICA_F32)};
        char *dir = test_temp_dir(), *path = test_format("%s/adapters.safetensors", dir);
        mc_lm *lm = own_open(device, listed);
        assert_int_equal(mica_save_safetensors(path, &array, 1, NULL, 0), MICA_OK);
        test_write_below(dir, "adapter_config.json", "{\"fine_tune_type\": \"full\"}");
        assert_int_equal(mc_lm_adapt(lm, dir), MICA_EUNSUPPORTED);
        if (!strstr(mica_last_error(), array.name)) fail_msg("%s", mica_last_error());
        mc_lm_close(&lm);
        free(path);
        test_temp_dir_remove(dir);
    }
    mica_scope_close(&s);
    mica_device_close(&device);
    test_temp_dir_remove(listed);
}

static void test_passes(void **state) {
    (void)state;
    own_check_passes(folder);
    own_check_sessions(folder);
}

static void test_weights(void **state) {
    (void)state;
    own_check_quantised(folder, "layers.1.mlp.switch_mlp.down_proj", NULL);
    own_check_tuned(folder, "layers.3.mlp.gate");
    own_check_tuned(folder, "layers.2.mlp.up_proj");
    own_check_tuned(folder, "layers.1.mlp.switch_mlp.down_proj");
}

/* A matrix with a dense one in its place has its experts in order. */
static void test_replaced(void **state) {
    (void)state;
    const mc_weight_tensor *t;
    mica_device *device;
    mc_weights *weights;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *lm = own_open(device, folder);
    assert_int_equal(mc_weights_open(folder, NULL, &weights), MICA_OK);
    t = mc_weights_find(weights, "model.layers.1.mlp.switch_mlp.up_proj.weight");
    mc_linear *linear = &mc_lm_find(lm, MC_STR("layers.1.mlp.switch_mlp.up_proj"))->linear;
    linear->places = mica_zeros(lm->scope, &linear->experts, 1, MICA_I32);
    assert_int_equal(mc_linear_replace(lm->scope, t, linear), MICA_OK);
    assert_false(mica_valid(linear->places));
    mc_lm_close(&lm);
    mc_weights_close(&weights);
    mica_device_close(&device);
}

/* A length that is a symbol, and more than one row for each. */
static void test_symbols(void **state) {
    (void)state;
    mica_device *device;
    mica_scope *s;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *lm = own_open(device, folder);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    const mc_linear *linear = &mc_lm_find(lm, MC_STR("layers.1.mlp.switch_mlp.down_proj"))->linear;
    int64_t n = mica_program_dim(s, "n");
    mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){n, 3, linear->in}, 3);
    mica_array picks = mica_program_param(s, MICA_U32, (int64_t[]){n, 3}, 2);
    mica_array y = mc_linear_pick(s, linear, x, picks);
    if (!mica_valid(y)) fail_msg("%s", mica_last_error());
    assert_true(mica_array_dim(y, 0) == n && mica_array_dim(y, 1) == 3 &&
                mica_array_dim(y, 2) == linear->out);
    mica_scope_close(&s);
    mc_lm_close(&lm);
    mica_device_close(&device);
}

/* Whole weights of experts are not trained. */
static void test_full(void **state) {
    (void)state;
    mica_tuner *tuner;
    if (mica_tuner_open(folder, &(mica_tuner_options){.threads = 1}, &tuner) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(mica_lora_apply(tuner, &(mica_lora_options){.kind = MICA_TUNE_FULL}),
                     MICA_EUNSUPPORTED);
    if (!strstr(mica_last_error(), "model.layers.1.mlp.switch_mlp.gate_proj"))
        fail_msg("%s", mica_last_error());
    mica_tuner_close(&tuner);
}

#define ADAPTER_CONFIG                                                                   \
    "{\"num_layers\": 4, \"lora_parameters\": {\"rank\": 2, \"scale\": 4.0, \"keys\": [" \
    "\"self_attn.q_proj\", \"mlp.switch_mlp.up_proj\"]}}"

/* An adapter whose config lists experts' matrices has to have factors of them. */
static void test_adapted(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/adapters.safetensors", dir);
    mica_device *device;
    mica_scope *s;
    mica_named_array arrays[12];
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    for (int i = 0; i < 8; i++) {
        const int64_t shape[] = {i % 2 ? 2 : 64, i % 2 ? 64 : 2};
        arrays[i].name =
            test_format("model.layers.%d.self_attn.q_proj.lora_%c", i / 2, 'a' + i % 2);
        arrays[i].array = mica_ones(s, shape, 2, MICA_F32);
    }
    for (int i = 0; i < 4; i++) {
        const int64_t shape[] = {EXPERTS_HERE, i % 2 ? 32 : 2, i % 2 ? 2 : 64};
        arrays[8 + i].name = test_format("model.layers.%d.mlp.switch_mlp.up_proj.lora_%c",
                                         2 * (i / 2) + 1, 'a' + i % 2);
        arrays[8 + i].array = mica_ones(s, shape, 3, MICA_F32);
    }
    test_write_below(dir, "adapter_config.json", ADAPTER_CONFIG);
    for (size_t n = 8; n <= 12; n += 4) {
        mc_lm *lm = own_open(device, folder);
        assert_int_equal(mica_save_safetensors(path, arrays, n, NULL, 0), MICA_OK);
        assert_int_equal(mc_lm_adapt(lm, dir), n == 8 ? MICA_ENOENT : MICA_OK);
        if (n == 8 && !strstr(mica_last_error(), "layers.3.mlp.switch_mlp.up_proj"))
            fail_msg("%s", mica_last_error());
        if (n == 12)
            assert_int_equal(lm->adapter_parameters, 4 * 2 * 128 + 2 * EXPERTS_HERE * 2 * 96);
        mc_lm_close(&lm);
    }
    for (int i = 0; i < 12; i++)
        free((void *)(uintptr_t)arrays[i].name);
    mica_scope_close(&s);
    mica_device_close(&device);
    free(path);
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),    cmocka_unit_test(test_listed),
        cmocka_unit_test(test_sharded),  cmocka_unit_test(test_list_replaced),
        cmocka_unit_test(test_passes),   cmocka_unit_test(test_weights),
        cmocka_unit_test(test_replaced), cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_full),     cmocka_unit_test(test_adapted),
    };
    return cmocka_run_group_tests(tests, make, discard);
}
