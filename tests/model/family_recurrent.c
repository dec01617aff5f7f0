/* A family with a recurrent mixer, which carries an array of one size from token to token:
 * h = h sigmoid(decay) + in x, out h. Every other layer has attention, and all have experts. */
#include "model/own_family.h"

#include "model/pass.h"
#include "task/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the block and the family ---- */

enum { WIDTH }; /* its number */
enum { IN = MC_BLOCK_SLOTS, DECAY, OUT, SLOTS };
enum { MAX_LENGTH = 512 };

static int64_t width(const mc_block_spec *b) {
    return b->own[WIDTH];
}

static int64_t kept(const mc_block_spec *b) {
    return 4 * b->hidden + 4 * b->own[WIDTH];
}

static const mc_slot slots[SLOTS] = {
    [MC_BLOCK_NORM] = {.kind = MC_SLOT_NORM, .name = "input_layernorm", .rows = mc_block_hidden},
    [MC_BLOCK_POST_NORM] = {.kind = MC_SLOT_NORM,
                            .name = "mixer.post_norm",
                            .optional = true,
                            .rows = mc_block_hidden},
    [IN] = {.name = "mixer.in_proj", .rows = width, .columns = mc_block_hidden},
    [DECAY] = {.kind = MC_SLOT_VECTOR, .name = "mixer.decay", .rows = width},
    [OUT] = {.name = "mixer.out_proj", .rows = mc_block_hidden, .columns = width},
};

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_scope *s = p->s;
    mica_array all[MAX_LENGTH], in = mc_block_apply(p, at, IN, x);
    mica_array h = mc_block_carried(p, at, 0), decay = mica_sigmoid(s, at->slots[DECAY].vector);
    if (p->length > MAX_LENGTH) fail_msg("a chunk of %d tokens", (int)p->length);
    for (int64_t i = 0; i < p->length; i++) {
        mica_array u = mica_squeeze(s, mica_slice_axis(s, in, 1, i, i + 1), 1);
        all[i] = h = mica_add(s, mica_multiply(s, h, decay), u);
    }
    mc_block_carry(p, at, 0, h);
    mica_array y = mica_stack(s, all + at->first, (int)(p->length - at->first), 1);
    return mc_block_apply(p, at, OUT, y);
}

static const mc_block block_recurrent = {
    .name = "own_recurrent",
    .slots = slots,
    .n_slots = SLOTS,
    .state = MC_STATE_CARRIED,
    .forward = forward,
    .kept = kept,
};

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->norm_eps = 1e-6;
    spec->context = 512;
    MC_TRY(mc_family_plain(root, spec));
    int block = mc_spec_add(spec, &block_recurrent);
    mc_block_spec *b = &spec->blocks[block];
    b->own[WIDTH] = spec->intermediate;
    b->n_carried = 1;
    b->carried[0] = (mc_carried){MICA_F32, 1, {spec->intermediate}};
    for (int i = 0; i < spec->n_layers; i += 2)
        spec->layers[i].blocks[0] = (uint8_t)block;
    int experts = mc_spec_add(spec, &mc_block_experts);
    spec->blocks[experts].experts = (mc_experts_spec){
        .count = 4, .picks = 2, .width = spec->intermediate, .renormalised = 1, .factor = 1};
    mc_family_all_sparse(spec, experts);
    return MICA_OK;
}

static const mc_family family = {
    .name = "own_recurrent",
    .model_types = (const char *const[]){"own_recurrent", NULL},
    .architectures = (const char *const[]){NULL},
    .tensors = (const char *const[]){"mixer.decay.weight", NULL},
    .chat = "chatml",
    .read = read_spec,
};

#define CONFIG                                                                             \
    "{\"model_type\": \"own_recurrent\", \"hidden_size\": 64, \"intermediate_size\": 32, " \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "   \
    "\"vocab_size\": 448, \"tie_word_embeddings\": true, \"rms_norm_eps\": 1e-6}"

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

static void test_passes(void **state) {
    (void)state;
    own_check_passes(folder);
}

static void test_sessions(void **state) {
    (void)state;
    own_check_sessions(folder);
}

/* A layer without attention has no queries. */
static void test_inspect(void **state) {
    (void)state;
    static const int64_t layers[] = {1};
    mica_device *device;
    mica_attention *found;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *lm = own_open(device, folder);
    const mc_session_model model = {.lm = lm, .device = device};
    const mica_task_options none = {0};
    assert_int_equal(mc_inspect(&model, own_text, OWN_TEXT, NULL, 0, &none, &found),
                     MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "layer 0 has no attention"));
    assert_int_equal(mc_inspect(&model, own_text, OWN_TEXT, layers, 1, &none, &found), MICA_OK);
    mica_attention_free(&found);
    mc_lm_close(&lm);
    mica_device_close(&device);
}

static void test_weights(void **state) {
    (void)state;
    own_check_quantised(folder, "layers.2.mixer.out_proj", NULL);
    own_check_quantised(folder, "layers.1.mlp.switch_mlp.up_proj", NULL);
    own_check_tuned(folder, "layers.0.mixer.in_proj");
    own_check_tuned(folder, "layers.2.mlp.switch_mlp.down_proj");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, make, discard);
}
