/* A family whose MLP is a mixture of experts, of which each token picks some: the k best of a
 * softmax over all, their weights made to sum up to 1. Experts' matrices have an axis of their own.
 */
#include "model/own_family.h"

#include "model/pass.h"

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

#define CONFIG                                                                           \
    "{\"model_type\": \"own_experts\", \"hidden_size\": 64, \"intermediate_size\": 32, " \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"num_experts\": 12, \"num_experts_per_tok\": 3, \"vocab_size\": 448, "             \
    "\"tie_word_embeddings\": true, \"rms_norm_eps\": 1e-6}"

/* ---- what it does ---- */

static char *folder;

static int make(void **state) {
    (void)state;
    folder = own_model(&family, CONFIG);
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

static void test_passes(void **state) {
    (void)state;
    own_check_passes(folder);
    own_check_sessions(folder);
}

static void test_weights(void **state) {
    (void)state;
    own_check_quantised(folder, "layers.1.mlp.switch_mlp.down_proj");
    own_check_tuned(folder, "layers.3.mlp.gate");
    own_check_tuned(folder, "layers.2.mlp.up_proj");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_listed),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, make, discard);
}
