/* Which family a config belongs to, and the specs that the families read. */
#include "model/fixture.h"

#include "model/family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mc_config *config;
static mc_decoder_spec spec; /* static for its size */

static mica_status read_spec(const char *json) {
    const mc_family *family;
    mc_config_close(&config);
    assert_int_equal(mc_config_parse(json, strlen(json), "test.json", &config), MICA_OK);
    mc_config_scope root = mc_config_root(config);
    memset(&spec, 0, sizeof spec);
    mica_status status = mc_family_find(&root, NULL, &family);
    return status == MICA_OK ? family->read(&root, &spec) : status;
}

static const mc_attention_spec *attention(int layer) {
    return mc_spec_attention(&spec, layer);
}

static void expect_error(const char *json, mica_status status, const char *text) {
    assert_int_equal(read_spec(json), status);
    if (!strstr(mica_last_error(), text))
        fail_msg("%s: the error \"%s\" lacks \"%s\"", json, mica_last_error(), text);
}

/* The config of google/gemma-3-4b-it has little more than this. */
static void test_gemma3_defaults(void **state) {
    (void)state;
    assert_int_equal(read_spec("{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": "
                               "2560, \"intermediate_size\": 10240, \"num_hidden_layers\": 34, "
                               "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}, "
                               "\"sliding_window\": 1024}}"),
                     MICA_OK);
    assert_int_equal(spec.heads, 8);
    assert_int_equal(spec.kv_heads, 4);
    assert_int_equal(spec.head_dim, 256);
    assert_int_equal(spec.vocab, 0);
    assert_int_equal(spec.context, 131072);
    assert_int_equal(spec.n_layers, 34);
    assert_int_equal(spec.blocks[MC_PLAIN_MLP].gated.activation, MC_GELU_APPROX);
    assert_int_equal(spec.tied, MC_TIED_UNSAID);
    assert_true(attention(0)->scale == 1.0 / 16.0);
    assert_true(spec.embed_scale == sqrt(2560.0));
    assert_true(spec.norm_eps == 1e-6 && spec.norm_offset == 1.0);
    for (int i = 0; i < spec.n_layers; i++) {
        bool global = i % 6 == 5;
        const mc_rope_spec *rope = &spec.ropes[attention(i)->rope];
        assert_int_equal(attention(i)->window, global ? 0 : 1024);
        assert_true(rope->base == (global ? 1e6 : 1e4));
        assert_true(rope->factor == (global ? 8.0 : 1.0));
    }
}

static void test_layer_types_go_first(void **state) {
    (void)state;
    assert_int_equal(
        read_spec("{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 3, \"sliding_window\": "
                  "7, \"sliding_window_pattern\": 2, \"layer_types\": [\"full_attention\", "
                  "\"sliding_attention\", \"sliding_attention\"], \"rope_parameters\": "
                  "{\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": "
                  "5e4}, \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": "
                  "2000}}}"),
        MICA_OK);
    assert_int_equal(attention(0)->window, 0);
    assert_int_equal(attention(1)->window, 7);
    assert_int_equal(attention(2)->window, 7);
    assert_true(spec.ropes[attention(0)->rope].base == 5e4);
    assert_true(spec.ropes[attention(0)->rope].factor == 4.0);
    assert_true(spec.ropes[attention(1)->rope].base == 2000.0);
    assert_true(spec.ropes[attention(1)->rope].factor == 1.0);
}

static void test_found_by_architecture(void **state) {
    (void)state;
    assert_int_equal(read_spec("{\"architectures\": [\"Gemma3ForCausalLM\"]}"), MICA_OK);
    expect_error("{\"architectures\": [\"MambaForCausalLM\"]}", MICA_EUNSUPPORTED,
                 "MambaForCausalLM");
    expect_error("{\"model_type\": \"mamba\"}", MICA_EUNSUPPORTED, "gemma3");
}

static void test_found_by_tensors(void **state) {
    (void)state;
    static const char from[] = "\"model_type\"", to[] = "\"model_sort\"";
    char *once = fixture_copy("gemma3_text_bf16_nohd", "config.json", from, to);
    char *path = test_format("%s/config.json", once);
    size_t size;
    char *text = test_read_file(path, &size), *arch = strstr(text, "\"architectures\"");
    assert_non_null(arch);
    memcpy(arch, "\"architectonic\"", strlen("\"architectonic\""));
    test_write_file(path, text, size);

    mica_device *device;
    mc_lm *lm;
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    if (mc_lm_open(once, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_string_equal(lm->spec.family, "gemma3");
    assert_string_equal(lm->model_type, "");
    mc_lm_close(&lm);
    mica_device_close(&device);
    free(text);
    free(path);
    test_temp_dir_remove(once);
}

#define GEMMA "{\"model_type\": \"gemma3_text\", "

static void test_bad_values(void **state) {
    (void)state;
    expect_error(GEMMA "\"hidden_size\": \"abc\"}", MICA_EFORMAT, "hidden_size");
    expect_error(GEMMA "\"hidden_size\": 0}", MICA_EFORMAT, "hidden_size");
    expect_error(GEMMA "\"hidden_size\": 4611686018427387904}", MICA_EFORMAT, "hidden_size");
    expect_error(GEMMA "\"num_hidden_layers\": 1000000000}", MICA_EFORMAT, "num_hidden_layers");
    expect_error(GEMMA "\"head_dim\": 1e300}", MICA_EFORMAT, "head_dim");
    expect_error(GEMMA "\"head_dim\": 15}", MICA_EFORMAT, "head_dim");
    expect_error(GEMMA "\"num_key_value_heads\": 3}", MICA_EFORMAT, "num_key_value_heads");
    expect_error(GEMMA "\"vocab_size\": -1}", MICA_EFORMAT, "vocab_size");
    expect_error(GEMMA "\"rms_norm_eps\": 0}", MICA_EFORMAT, "rms_norm_eps");
    expect_error(GEMMA "\"hidden_activation\": \"tanh\"}", MICA_EUNSUPPORTED, "tanh");
    expect_error(GEMMA "\"layer_types\": [\"full_attention\"]}", MICA_EFORMAT, "layer_types");
    expect_error(GEMMA "\"num_hidden_layers\": 1, \"layer_types\": [\"linear_attention\"]}",
                 MICA_EUNSUPPORTED, "linear_attention");
    expect_error(GEMMA "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2}}",
                 MICA_EUNSUPPORTED, "dynamic");
    expect_error(GEMMA "\"rope_scaling\": {\"rope_type\": \"linear\"}}", MICA_ENOENT,
                 "rope_scaling.factor");
    expect_error(GEMMA "\"sliding_window_pattern\": 0}", MICA_EFORMAT, "sliding_window_pattern");
    expect_error(GEMMA "\"query_pre_attn_scalar\": 0}", MICA_EFORMAT, "query_pre_attn_scalar");
    expect_error("{\"model_type\": \"gemma3\", \"text_config\": []}", MICA_EFORMAT, "text_config");
    expect_error("{\"model_type\": 3}", MICA_EFORMAT, "model_type");
}

#define GEMMA4 "{\"model_type\": \"gemma4_text\", \"num_hidden_layers\": 3, "

static void test_bad_values_of_gemma4(void **state) {
    (void)state;
    expect_error(GEMMA4 "\"num_kv_shared_layers\": 3}", MICA_EFORMAT, "num_kv_shared_layers");
    expect_error(GEMMA4 "\"num_kv_shared_layers\": 1}", MICA_EFORMAT, "layer 2 shares");
    expect_error(GEMMA4 "\"global_head_dim\": 15}", MICA_EFORMAT, "global_head_dim");
    expect_error(GEMMA4 "\"attention_k_eq_v\": true, \"num_global_key_value_heads\": 3}",
                 MICA_EFORMAT, "num_global_key_value_heads");
    expect_error(GEMMA4 "\"hidden_size_per_layer_input\": -1}", MICA_EFORMAT,
                 "hidden_size_per_layer_input");
    expect_error(GEMMA4 "\"enable_moe_block\": true, \"num_experts\": 4}", MICA_EFORMAT,
                 "top_k_experts");
}

#define GEMMA3N "{\"model_type\": \"gemma3n_text\", \"num_hidden_layers\": 3, "

static void test_bad_values_of_gemma3n(void **state) {
    (void)state;
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 1, \"intermediate_size\": [8, 8]}",
                 MICA_EFORMAT, "intermediate_size");
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 0, \"intermediate_size\": [8, 8, 0]}",
                 MICA_EFORMAT, "intermediate_size");
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 0, \"activation_sparsity_pattern\": [0.5]}",
                 MICA_EFORMAT, "activation_sparsity_pattern");
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 0, \"activation_sparsity_pattern\": [0, 0, 1]}",
                 MICA_EFORMAT, "activation_sparsity_pattern");
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 0, \"altup_num_inputs\": 9}", MICA_EFORMAT,
                 "altup_num_inputs");
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 0, \"altup_active_idx\": 4}", MICA_EFORMAT,
                 "altup_active_idx");
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 0, \"hidden_size_per_layer_input\": 0}",
                 MICA_EFORMAT, "hidden_size_per_layer_input");
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 2, \"laurel_rank\": 0}", MICA_EFORMAT,
                 "laurel_rank");
    expect_error(GEMMA3N "\"num_kv_shared_layers\": 3}", MICA_EFORMAT, "num_kv_shared_layers");
}

/* google/gemma-3n-E4B has these in its config: every fifth layer is full, the first ten are sparse.
 * Widths that all differ need more kinds of blocks than there are. */
static void test_gemma3n(void **state) {
    (void)state;
    char widths[1024] = "", json[1200];
    assert_int_equal(read_spec("{\"model_type\": \"gemma3n_text\"}"), MICA_OK);
    assert_int_equal(spec.n_layers, 35);
    assert_int_equal(spec.streams, 4);
    for (int i = 0; i < spec.n_layers; i++) {
        assert_int_equal(attention(i)->window, i % 5 == 4 ? 0 : 512);
        assert_int_equal(mc_spec_source(&spec, i), i < 20 ? i : i % 5 == 4 ? 19 : 18);
        const mc_block_spec *mlp = mc_spec_block(&spec, i, 3);
        assert_true(mlp->kind == &mc_block_gated && mlp->gated.width == 16384);
        assert_true(mlp->gated.sparse == (i < 10 ? 0.95 : 0));
    }
    for (int i = 0; i < 70; i++)
        snprintf(widths + strlen(widths), sizeof widths - strlen(widths), "%s%d", i ? "," : "",
                 64 + i);
    snprintf(json, sizeof json,
             "{\"model_type\": \"gemma3n_text\", \"num_hidden_layers\": 70, "
             "\"intermediate_size\": [%s]}",
             widths);
    expect_error(json, MICA_EUNSUPPORTED, "kinds of blocks");
}

#define SIZES                                                                     \
    "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 4, " \
    "\"num_attention_heads\": 4"

/* A null acts like an absent key. */
static void test_nulls(void **state) {
    (void)state;
    assert_int_equal(read_spec("{\"model_type\": \"llama\", " SIZES
                               ", \"num_key_value_heads\": null, \"head_dim\": null, "
                               "\"rope_theta\": null, \"rope_scaling\": null, "
                               "\"rope_parameters\": null, \"hidden_act\": null, "
                               "\"attention_bias\": null, \"mlp_bias\": null, "
                               "\"tie_word_embeddings\": null, \"vocab_size\": null, "
                               "\"max_position_embeddings\": null, \"rms_norm_eps\": null}"),
                     MICA_OK);
    assert_int_equal(spec.kv_heads, 4);
    assert_int_equal(spec.head_dim, 16);
    assert_int_equal(spec.context, 2048);
    assert_int_equal(spec.vocab, 0);
    assert_int_equal(spec.blocks[MC_PLAIN_MLP].gated.activation, MC_SILU);
    assert_int_equal(spec.tied, MC_TIED_UNSAID);
    assert_true(spec.norm_eps == 1e-6);
    assert_true(spec.ropes[0].base == 1e4 && spec.ropes[0].factor == 1.0 &&
                spec.ropes[0].kind == MC_ROPE_PLAIN);
    for (int i = 0; i < spec.n_blocks; i++)
        assert_true(spec.blocks[i].biases == 0);
}

/* Checks the layers' windows of a Qwen 2 whose config has these keys too. */
static void expect_windows(const char *keys, const int64_t windows[4]) {
    char json[512];
    snprintf(json, sizeof json, "{\"model_type\": \"qwen2\", " SIZES ", %s}", keys);
    assert_int_equal(read_spec(json), MICA_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(attention(i)->window, windows[i]);
}

static void test_late_windows(void **state) {
    (void)state;
    const int64_t none[4] = {0}, late[4] = {0, 0, 7, 7}, named[4] = {7, 0, 0, 7};
    const int64_t usual[4] = {0, 4096, 4096, 4096};
    expect_windows("\"sliding_window\": 7, \"max_window_layers\": 2", none);
    /* from layer 28 on */
    expect_windows("\"use_sliding_window\": true, \"sliding_window\": 7", none);
    expect_windows("\"use_sliding_window\": true, \"sliding_window\": 7, \"max_window_layers\": 2",
                   late);
    expect_windows("\"use_sliding_window\": true, \"max_window_layers\": 1", usual);
    expect_windows("\"use_sliding_window\": true, \"sliding_window\": null, "
                   "\"max_window_layers\": 1",
                   none);
    expect_windows("\"use_sliding_window\": true, \"sliding_window\": 7, \"layer_types\": "
                   "[\"sliding_attention\", \"full_attention\", \"full_attention\", "
                   "\"sliding_attention\"]",
                   named);
}

/* Opens a copy of a case whose model_type is `other`, and in whose tensors' names `old` became
 * `new`, which is as long; NULL: none is another. */
static void expect_nearest_to(const char *other, const char *name, const char *type,
                              const char *old, const char *new, const char *says) {
    char *from = test_format("\"model_type\": \"%s\"", type);
    char *to = test_format("\"model_type\": \"%s\"", other);
    char *dir = fixture_copy(name, "config.json", from, to);
    char *path = test_format("%s/model.safetensors", dir);
    size_t size;
    char *text = test_read_file(path, &size);
    for (size_t i = 0; old && i + strlen(old) < size; i++)
        if (memcmp(text + i, old, strlen(old)) == 0) memcpy(text + i, new, strlen(old));
    test_write_file(path, text, size);
    mica_device *device;
    mc_lm *lm;
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mc_lm_open(dir, device, NULL, &lm), MICA_EUNSUPPORTED);
    if (!strstr(mica_last_error(), says)) fail_msg("%s", mica_last_error());
    mica_device_close(&device);
    test_temp_dir_remove(dir);
    free(text);
    free(path);
    free(from);
    free(to);
}

static void expect_nearest(const char *name, const char *type, const char *old, const char *new,
                           const char *says) {
    expect_nearest_to("zebra", name, type, old, new, says);
}

static void test_nearest(void **state) {
    (void)state;
    expect_nearest("qwen3_tied", "qwen3", NULL, NULL,
                   "\"zebra\"; the nearest that mica knows is qwen3, whose tensors these are");
    expect_nearest("gemma2_f32", "gemma2", NULL, NULL, "the nearest that mica knows is gemma2");
    expect_nearest("qwen3_tied", "qwen3", "up_proj", "up_prox",
                   "3 of its tensors are missing: mlp.up_proj ...; it has none of 3 "
                   "that are there: layers.0.mlp.up_prox ...");
    /* An encoder's layers have another name altogether. */
    expect_nearest("../families/deepseek_v3_hf", "deepseek_v3", "self_attn", "attention",
                   "the nearest that mica knows is deepseek_v3; ");
    /* Tensors do not tell these apart. */
    expect_nearest_to("granite9", "../families/granite_hf", "granite", NULL, NULL,
                      "knows is granite, whose tensors these are, and those of ");
    expect_nearest_to("glm4_moe", "../families/glm4_moe_lite_hf", "glm4_moe_lite", NULL, NULL,
                      "knows is glm4_moe_lite, whose tensors these are");
}

static void test_tied_in_both_places(void **state) {
    (void)state;
    assert_int_equal(read_spec("{\"model_type\": \"mistral3\", \"tie_word_embeddings\": false, "
                               "\"text_config\": {\"tie_word_embeddings\": true, " SIZES "}}"),
                     MICA_OK);
    assert_int_equal(spec.tied, MC_TIED_YES);
}

static void test_mistral(void **state) {
    (void)state;
    assert_int_equal(read_spec("{\"model_type\": \"mistral\", " SIZES "}"), MICA_OK);
    assert_int_equal(attention(3)->window, 4096); /* the default of transformers; null is none */
    assert_int_equal(
        read_spec("{\"model_type\": \"mistral\", \"sliding_window\": null, " SIZES "}"), MICA_OK);
    assert_int_equal(attention(0)->window, 0);

    static const char wrapped[] = "{\"model_type\": \"mistral3\", \"text_config\": "
                                  "{\"model_type\": \"%s\", %s " SIZES "}}";
    char *json = test_format(wrapped, "ministral3",
                             "\"rope_parameters\": {\"llama_4_scaling_beta\": 0.1, "
                             "\"original_max_position_embeddings\": 16, \"rope_theta\": 1e6},");
    assert_int_equal(read_spec(json), MICA_OK);
    assert_true(attention(0)->growth == 0.1 && attention(0)->period == 16);
    assert_int_equal(attention(0)->window, 0);
    free(json);
    json = test_format(wrapped, "mistral4", "");
    expect_error(json, MICA_EUNSUPPORTED, "mistral4");
    free(json);
}

static void test_smollm3(void **state) {
    (void)state;
    assert_int_equal(read_spec("{\"model_type\": \"smollm3\", " SIZES "}"), MICA_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(attention(i)->rope, i == 3 ? MC_NO_ROPE : 0);
    assert_true(spec.ropes[0].base == 2e6);
    assert_int_equal(read_spec("{\"model_type\": \"smollm3\", \"no_rope_layers\": [0, 1, 1, 0], "
                               "\"use_sliding_window\": true, \"sliding_window\": 7, " SIZES "}"),
                     MICA_OK);
    for (int i = 0; i < 4; i++) {
        bool rotates = i == 1 || i == 2;
        assert_int_equal(attention(i)->rope, rotates ? 0 : MC_NO_ROPE);
        assert_int_equal(attention(i)->window, rotates ? 0 : 7);
    }
    expect_error("{\"model_type\": \"smollm3\", \"no_rope_layers\": [1], " SIZES "}", MICA_EFORMAT,
                 "no_rope_layers");
}

static void test_olmo3(void **state) {
    (void)state;
    assert_int_equal(read_spec("{\"model_type\": \"olmo3\", \"rope_theta\": 7e5, \"rope_scaling\": "
                               "{\"rope_type\": \"yarn\", \"factor\": 8, "
                               "\"original_max_position_embeddings\": 8192}, " SIZES "}"),
                     MICA_OK);
    for (int i = 0; i < 4; i++) {
        const mc_rope_spec *rope = &spec.ropes[attention(i)->rope];
        assert_int_equal(attention(i)->window, i == 3 ? 0 : 4096);
        assert_int_equal(rope->kind, i == 3 ? MC_ROPE_YARN : MC_ROPE_PLAIN);
        assert_true(rope->base == 7e5 && attention(i)->wide_norms);
    }
    assert_null(spec.blocks[MC_PLAIN_ATTENTION].names[MC_BLOCK_NORM]);
}

/* Without frequencies for long texts, a context of longrope is the one before it was stretched. */
static void test_longrope_context(void **state) {
    (void)state;
    static const char json[] =
        "{\"model_type\": \"llama\", \"max_position_embeddings\": 131072, "
        "\"original_max_position_embeddings\": 512, \"rope_scaling\": {\"rope_type\": "
        "\"longrope\", \"short_factor\": [1, 1], \"long_factor\": [2, 2]}, "
        "\"partial_rotary_factor\": 0.25, " SIZES "}";
    mc_config_close(&config);
    assert_int_equal(mc_config_parse(json, strlen(json), "test.json", &config), MICA_OK);
    mc_config_scope root = mc_config_root(config);
    memset(&spec, 0, sizeof spec);
    assert_int_equal(mc_family_read(&root, NULL, &spec), MICA_OK);
    assert_int_equal(spec.context, 512);
}

/* lfm3 rotates a half only where its RoPE is proportional. */
static void test_lfm3_rope(void **state) {
    (void)state;
    assert_int_equal(read_spec("{\"model_type\": \"lfm3\", " SIZES "}"), MICA_OK);
    assert_true(spec.ropes[0].kind == MC_ROPE_PROPORTIONAL && spec.ropes[0].partial == 0.5);
    assert_int_equal(read_spec("{\"model_type\": \"lfm3\", \"rope_parameters\": "
                               "{\"full_attention\": {\"rope_type\": \"default\"}}, " SIZES "}"),
                     MICA_OK);
    assert_true(spec.ropes[0].kind == MC_ROPE_PLAIN);
    assert_int_equal(mc_rope_dims(&spec.ropes[0]), spec.ropes[0].head_dim);
}

/* Some kinds of layers have two names. */
static void test_layer_type_aliases(void **state) {
    (void)state;
    static const char json[] = "{\"model_type\": \"%s\", \"layer_types\": [\"%s\", \"%s\", "
                               "\"%s\", \"%s\"], \"num_local_experts\": 0, " SIZES "}";
    static const char *const names[][3] = {{"granitemoehybrid", "linear_attention", "mamba"},
                                           {"nemotron_h", "linear_attention", "mamba"},
                                           {"qwen3_5", "linear_attention", "mamba"},
                                           {"lfm2", "conv", "conv"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const *n = names[i];
        char *text = test_format(json, n[0], n[1], "full_attention", n[2], "attention");
        if (read_spec(text) != MICA_OK) fail_msg("%s: %s", n[0], mica_last_error());
        for (int layer = 0; layer < 4; layer++) {
            const mc_block *kind = mc_spec_block(&spec, layer, 0)->kind;
            assert_true((kind == &mc_block_attention) == (layer % 2 == 1));
        }
        free(text);
    }
}

/* A text may have a letter for each layer. */
static void test_layer_letters(void **state) {
    (void)state;
    static const char json[] =
        "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"%s\", " SIZES "}";
    const mc_block *const kinds[] = {&mc_block_mamba2, &mc_block_experts, &mc_block_attention,
                                     &mc_block_gated};
    char *text = test_format(json, "ME*-");
    if (read_spec(text) != MICA_OK) fail_msg("%s", mica_last_error());
    for (int layer = 0; layer < 4; layer++) {
        assert_true(mc_spec_block(&spec, layer, 0)->kind == kinds[layer]);
        assert_null(mc_spec_block(&spec, layer, 1));
    }
    free(text);
    static const struct {
        const char *letters, *error;
        mica_status status;
    } wrong[] = {{"M*X-", "layer 2 is \"X\"", MICA_EUNSUPPORTED},
                 {"M*m-", "layer 2 is \"m\"", MICA_EUNSUPPORTED},
                 {"M*-", "names 3 layers", MICA_EFORMAT},
                 {"M*-M*", "names 5 layers", MICA_EFORMAT}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        text = test_format(json, wrong[i].letters);
        expect_error(text, wrong[i].status, wrong[i].error);
        assert_non_null(strstr(mica_last_error(), "hybrid_override_pattern"));
        free(text);
    }
}

/* What mica does not compute is refused, not passed over. */
static void test_refused_values(void **state) {
    (void)state;
    expect_error("{\"model_type\": \"nemotron_h\", \"mlp_hidden_act\": \"silu\", " SIZES "}",
                 MICA_EUNSUPPORTED, "silu");
    expect_error("{\"model_type\": \"nomic_bert\", \"rotary_emb_interleaved\": true}",
                 MICA_EUNSUPPORTED, "rotary_emb_interleaved");
    expect_error("{\"model_type\": \"nomic_bert\", \"rotary_scaling_factor\": 2}",
                 MICA_EUNSUPPORTED, "rotary_scaling_factor");
    expect_error(
        "{\"model_type\": \"granite_swa\", \"layer_rope_theta\": [0, 1e4, 0.5, 1e4], " SIZES "}",
        MICA_EFORMAT, "0.5");
}

/* docs/families.md names each model_type. */
static void test_families_are_documented(void **state) {
    (void)state;
    char *path = test_format("%s/../../docs/families.md", test_cases_dir());
    char *page = test_read_file(path, NULL);
    const mc_family *family;
    for (size_t i = 0; (family = mc_family_at(i)); i++)
        for (const char *const *type = family->model_types; *type; type++) {
            char *text = test_format("`%s`", *type);
            if (!strstr(page, text)) fail_msg("%s does not name %s", path, text);
            free(text);
        }
    free(page);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_are_documented),
        cmocka_unit_test(test_gemma3_defaults),
        cmocka_unit_test(test_layer_types_go_first),
        cmocka_unit_test(test_found_by_architecture),
        cmocka_unit_test(test_found_by_tensors),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_bad_values_of_gemma4),
        cmocka_unit_test(test_bad_values_of_gemma3n),
        cmocka_unit_test(test_gemma3n),
        cmocka_unit_test(test_nulls),
        cmocka_unit_test(test_late_windows),
        cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_tied_in_both_places),
        cmocka_unit_test(test_smollm3),
        cmocka_unit_test(test_olmo3),
        cmocka_unit_test(test_longrope_context),
        cmocka_unit_test(test_lfm3_rope),
        cmocka_unit_test(test_layer_type_aliases),
        cmocka_unit_test(test_layer_letters),
        cmocka_unit_test(test_refused_values),
    };
    int failed = cmocka_run_group_tests_name("model/family", tests, NULL, NULL);
    mc_config_close(&config);
    return failed;
}
