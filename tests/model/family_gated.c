/* A family with one more matrix: attention whose results are gated, head by head, by the sigmoid of
 * a matmul of its input. What it takes to add one is this file's first half. */
#include "model/own_family.h"

#include "model/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the block and the family ---- */

enum { GATE = MC_ATTENTION_SLOTS, SLOTS };

static mc_slot slots[SLOTS];

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array gate = mc_block_apply(p, at, GATE, mc_block_rows_from(p, x, at->first));
    mica_array y = mica_multiply(p->s, mc_block_attend(p, at, x), mica_sigmoid(p->s, gate));
    return mc_block_apply(p, at, MC_ATTENTION_O, y);
}

static int64_t kept(const mc_block_spec *b) {
    return mc_block_attention.kept(b) + 4 * b->attention.heads * b->attention.head_dim;
}

static const mc_block block_gated_attention = {
    .name = "gated_attention",
    .slots = slots,
    .n_slots = SLOTS,
    .state = MC_STATE_KEYS,
    .forward = forward,
    .kept = kept,
};

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->norm_eps = 1e-6;
    spec->context = 512;
    MC_TRY(mc_family_plain(root, spec));
    spec->blocks[MC_PLAIN_ATTENTION].kind = &block_gated_attention;
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], GATE);
    return MICA_OK;
}

static const mc_family family = {
    .name = "own_gated",
    .model_types = (const char *const[]){"own_gated", NULL},
    .architectures = (const char *const[]){NULL},
    .tensors = (const char *const[]){"self_attn.gate_proj.weight", NULL},
    .chat = "chatml",
    .read = read_spec,
};

#define CONFIG(type)                                                                     \
    "{\"model_type\": \"" type "\", \"hidden_size\": 64, \"intermediate_size\": 96, "    \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"vocab_size\": 448, \"tie_word_embeddings\": true, \"rms_norm_eps\": 1e-6}"

/* ---- what it does ---- */

static char *folder;

static int make(void **state) {
    (void)state;
    memcpy(slots, mc_block_attention.slots, MC_ATTENTION_SLOTS * sizeof *slots);
    slots[GATE] = slots[MC_ATTENTION_Q];
    slots[GATE].name = "self_attn.gate_proj";
    slots[GATE].rotated = NULL;
    slots[GATE].gguf = NULL;
    folder = own_model(&family, CONFIG("own_gated"));
    return 0;
}

static int discard(void **state) {
    (void)state;
    test_temp_dir_remove(folder);
    return 0;
}

/* Sets the elements of a layer's matrices to what `change` makes of them. */
static void scale(mc_lm *lm, int slot, double factor) {
    for (int i = 0; i < lm->spec.n_layers; i++) {
        mica_array *w = &mc_lm_block(lm, i, 0)[slot].linear.weight;
        *w = mica_multiply(lm->scope, *w, mica_f32(lm->scope, (float)factor));
        assert_int_equal(mica_eval(lm->scope, *w), MICA_OK);
    }
}

/* With a gate of zeros and a last matrix of twice the size it is a Llama, to the bit; with its own
 * gate it is not. */
static void test_gate(void **state) {
    (void)state;
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    char *plain = fixture_copy_folder(folder, "config.json", "own_gated", "llama");
    mc_lm *gated = own_open(device, folder), *llama = own_open(device, plain);
    const size_t n = OWN_TEXT * (size_t)llama->spec.vocab;
    float *want = fixture_logits(device, llama, own_text, OWN_TEXT);
    float *other = fixture_logits(device, gated, own_text, OWN_TEXT);
    assert_memory_not_equal(want, other, n * sizeof *want);
    scale(gated, GATE, 0.0);
    scale(gated, MC_ATTENTION_O, 2.0);
    float *got = fixture_logits(device, gated, own_text, OWN_TEXT);
    fixture_compare(got, want, n, 0.0, "a gate of zeros");
    free(want);
    free(other);
    free(got);
    mc_lm_close(&gated);
    mc_lm_close(&llama);
    mica_device_close(&device);
    test_temp_dir_remove(plain);
}

/* What a folder lacks is told by the slot's name. */
static void test_missing(void **state) {
    (void)state;
    mica_device *device;
    mc_lm *lm;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    char *copy = fixture_copy_folder(folder, "model.safetensors", "layers.1.self_attn.gate_proj",
                                     "layers.1.self_attn.gate_pro_");
    assert_int_equal(mc_lm_open(copy, device, NULL, &lm), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "model.layers.1.self_attn.gate_proj.weight"));
    mica_device_close(&device);
    test_temp_dir_remove(copy);
}

static void test_passes(void **state) {
    (void)state;
    own_check_passes(folder);
}

static void test_sessions(void **state) {
    (void)state;
    own_check_sessions(folder);
}

static void test_weights(void **state) {
    (void)state;
    own_check_quantised(folder, "layers.2.self_attn.gate_proj", NULL);
    own_check_tuned(folder, "layers.1.self_attn.gate_proj");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate),    cmocka_unit_test(test_missing),
        cmocka_unit_test(test_passes),  cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, make, discard);
}
