/* Families whose layers carry arrays from token to token. */
#include "model/own_family.h"

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct hybrid {
    const mc_family *family;
    const char *config;
    const char *quantised, *tuned; /* modules */
} hybrid;

#define SIZES                                                                       \
    "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 3, "    \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 448, " \
    "\"tie_word_embeddings\": true"

static const hybrid hybrids[] = {
    {&mc_family_lfm2,
     "{\"model_type\": \"lfm2\", \"full_attn_idxs\": [1], \"block_auto_adjust_ff_dim\": false, "
     "\"conv_bias\": true, \"conv_L_cache\": 4, " SIZES "}",
     "layers.0.conv.in_proj", "layers.2.conv.out_proj"},
    {&mc_family_lfm3,
     "{\"model_type\": \"lfm3\", \"head_dim\": 16, \"sliding_window\": 5, \"layer_types\": "
     "[\"conv\", \"sliding_attention\", \"full_attention\"], " SIZES "}",
     "layers.1.self_attn.g_proj", "layers.2.self_attn.q_proj"},
    {&mc_family_granitemoehybrid,
     "{\"model_type\": \"granitemoehybrid\", \"layer_types\": [\"mamba\", \"attention\", "
     "\"mamba\"], "
     "\"mamba_n_heads\": 4, \"mamba_d_head\": \"auto\", \"mamba_n_groups\": 2, \"mamba_d_state\": "
     "12, "
     "\"time_step_limit\": [0.1, {\"__float__\": \"Infinity\"}], \"num_local_experts\": 0, "
     "\"mamba_proj_bias\": true, \"residual_multiplier\": 0.5, \"attention_multiplier\": "
     "0.25, " SIZES "}",
     "layers.0.mamba.in_proj", "layers.2.mamba.out_proj"},
    {&mc_family_nemotron_h,
     "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M*-\", \"head_dim\": 16, "
     "\"mamba_num_heads\": 4, \"mamba_head_dim\": 16, \"n_groups\": 2, \"ssm_state_size\": "
     "8, " SIZES "}",
     "layers.0.mixer.in_proj", "layers.1.mixer.q_proj"},
    {&mc_family_qwen3_next,
     "{\"model_type\": \"qwen3_next\", \"full_attention_interval\": 2, \"head_dim\": 16, "
     "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 8, "
     "\"linear_value_head_dim\": 24, \"num_experts\": 4, \"num_experts_per_tok\": 4, "
     "\"moe_intermediate_size\": 32, \"shared_expert_intermediate_size\": 32, " SIZES "}",
     "layers.0.linear_attn.in_proj_qkvz", "layers.2.linear_attn.in_proj_ba"},
    {&mc_family_qwen3_5,
     "{\"model_type\": \"qwen3_5_text\", \"full_attention_interval\": 2, \"head_dim\": 16, "
     "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 8, "
     "\"linear_value_head_dim\": 24, " SIZES "}",
     "layers.0.linear_attn.in_proj_qkv", "layers.2.linear_attn.out_proj"},
};

/* ---- experts in tensors that are called as their modules ---- */

#define EXPERTS "mlp.switch_mlp."
enum { MAX_ARRAYS = 128 };

static mica_array find(const mica_named_array *arrays, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(arrays[i].name, name) == 0) return arrays[i].array;
    fail_msg("no tensor %s", name);
    return MICA_NONE;
}

/* Joins the gate and up of all experts, as the hub's files of Qwen 3.5 have them. */
static void join_experts(const char *folder, int layers) {
    mica_device *device;
    mica_scope *s;
    mica_named_array *arrays, all[MAX_ARRAYS];
    size_t n, made, count = 0;
    char *path = test_format("%s/model.safetensors", folder);
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_load_safetensors(folder, s, &arrays, &n), MICA_OK);
    for (int i = 0; i < layers; i++) {
        char *gate = test_format("model.layers.%d." EXPERTS "gate_proj.weight", i);
        char *up = test_format("model.layers.%d." EXPERTS "up_proj.weight", i);
        char *down = test_format("model.layers.%d." EXPERTS "down_proj.weight", i);
        const mica_array both[] = {find(arrays, n, gate), find(arrays, n, up)};
        all[count++] =
            (mica_named_array){test_format("model.layers.%d.mlp.experts.gate_up_proj", i),
                               mica_concatenate(s, both, 2, 1)};
        all[count++] = (mica_named_array){test_format("model.layers.%d.mlp.experts.down_proj", i),
                                          find(arrays, n, down)};
        free(gate);
        free(up);
        free(down);
    }
    made = count;
    assert_true(made + n <= MAX_ARRAYS);
    for (size_t i = 0; i < n; i++)
        if (!strstr(arrays[i].name, EXPERTS)) all[count++] = arrays[i];
    if (mica_save_safetensors(path, all, count, NULL, 0) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (size_t i = 0; i < made; i++)
        free((void *)(uintptr_t)all[i].name);
    mica_free(arrays);
    mica_scope_close(&s);
    mica_device_close(&device);
    free(path);
}

static void test_bare_experts(void **state) {
    (void)state;
    char *folder = own_model(
        &mc_family_qwen3_5_moe,
        "{\"model_type\": \"qwen3_5_moe_text\", \"full_attention_interval\": 2, \"head_dim\": "
        "16, \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, "
        "\"linear_key_head_dim\": 8, \"linear_value_head_dim\": 24, \"num_experts\": 4, "
        "\"num_experts_per_tok\": 4, \"moe_intermediate_size\": 32, "
        "\"shared_expert_intermediate_size\": 32, " SIZES "}");
    join_experts(folder, 3);
    own_check_quantised(folder, "layers.1.mlp.experts.gate_up_proj",
                        "layers.1.mlp.switch_mlp.gate_proj");
    own_check_quantised(folder, "layers.1.mlp.experts.down_proj",
                        "layers.1.mlp.switch_mlp.down_proj");
    own_check_tuned(folder, "layers.2.mlp.experts.gate_up_proj");
    own_check_tuned(folder, "layers.2.mlp.experts.down_proj");
    test_temp_dir_remove(folder);
}

/* Calls a function with a folder of each. */
static void each(void (*check)(const hybrid *h, const char *folder)) {
    for (size_t i = 0; i < sizeof hybrids / sizeof *hybrids; i++) {
        char *folder = own_model(hybrids[i].family, hybrids[i].config);
        printf("%s\n", hybrids[i].family->name);
        check(&hybrids[i], folder);
        test_temp_dir_remove(folder);
    }
}

static void passes(const hybrid *h, const char *folder) {
    (void)h;
    own_check_passes(folder);
}

static void sessions(const hybrid *h, const char *folder) {
    (void)h;
    own_check_sessions(folder);
}

static void weights(const hybrid *h, const char *folder) {
    own_check_quantised(folder, h->quantised, NULL);
    own_check_tuned(folder, h->tuned);
}

static void test_passes(void **state) {
    (void)state;
    each(passes);
}

static void test_sessions(void **state) {
    (void)state;
    each(sessions);
}

static void test_weights(void **state) {
    (void)state;
    each(weights);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bare_experts),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
