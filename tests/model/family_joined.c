/* A family of which some files have q, k and v in one tensor, and gate and up in another, under
 * names of their own, as others have parameters of one name: without ".weight". */
#include "model/own_family.h"

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const mc_form attention_forms[] = {
    {.names = {[MC_ATTENTION_Q] = MC_NO_SLOT,
               [MC_ATTENTION_K] = MC_NO_SLOT,
               [MC_ATTENTION_V] = MC_NO_SLOT,
               [MC_ATTENTION_QKV] = "self_attn.qkv_proj"}},
};
static const mc_form mlp_forms[] = {
    {.names = {[MC_GATED_GATE] = MC_NO_SLOT,
               [MC_GATED_UP] = MC_NO_SLOT,
               [MC_GATED_GATE_UP] = "mlp.gate_up",
               [MC_GATED_DOWN] = "mlp.down"},
     .bare = true,
     .transposed = 1 << MC_GATED_DOWN},
};

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->norm_eps = 1e-6;
    spec->context = 512;
    MC_TRY(mc_family_plain(root, spec));
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION],
                  *mlp = &spec->blocks[MC_PLAIN_MLP];
    attention->forms = attention_forms;
    mlp->forms = mlp_forms;
    attention->n_forms = mlp->n_forms = 1;
    return MICA_OK;
}

static const mc_family family = {
    .name = "own_joined",
    .model_types = (const char *const[]){"own_joined", NULL},
    .architectures = (const char *const[]){NULL},
    .tensors = (const char *const[]){"mlp.gate_up", NULL},
    .chat = "chatml",
    .read = read_spec,
};

#define CONFIG                                                                                 \
    "{\"model_type\": \"own_joined\", \"hidden_size\": 64, \"intermediate_size\": 96, "        \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "       \
    "\"head_dim\": 16, \"vocab_size\": 448, \"tie_word_embeddings\": true, \"rms_norm_eps\": " \
    "1e-6}"

/* ---- files with joined tensors ---- */

static char *apart, *joined;

enum { MAX_ARRAYS = 64 };

static mica_array find(const mica_named_array *arrays, size_t n, int layer, const char *name) {
    char *text = test_format("model.layers.%d.%s.weight", layer, name);
    size_t i = 0;
    while (i < n && strcmp(arrays[i].name, text) != 0)
        i++;
    assert_true(i < n);
    free(text);
    return arrays[i].array;
}

static mica_named_array join(mica_scope *s, const mica_named_array *arrays, size_t n, int layer,
                             const char *const *names, int count, const char *name) {
    mica_array parts[3];
    for (int i = 0; i < count; i++)
        parts[i] = find(arrays, n, layer, names[i]);
    return (mica_named_array){test_format("model.layers.%d.%s", layer, name),
                              mica_concatenate(s, parts, count, 0)};
}

static bool is_joined(const char *name) {
    static const char *const parts[] = {"q_proj",    "k_proj",  "v_proj",
                                        "gate_proj", "up_proj", "down_proj"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i])) return true;
    return false;
}

static void write_joined(const char *folder) {
    static const char *const qkv[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    static const char *const gate_up[] = {"mlp.gate_proj", "mlp.up_proj"};
    char *path = test_format("%s/model.safetensors", folder);
    mica_device *device;
    mica_scope *s;
    mica_named_array *arrays, all[MAX_ARRAYS];
    size_t n, count = 0;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_load_safetensors(folder, s, &arrays, &n), MICA_OK);
    for (int i = 0; i < 2; i++) {
        mica_array down = mica_transpose(s, find(arrays, n, i, "mlp.down_proj"), NULL);
        all[count++] = join(s, arrays, n, i, qkv, 3, "self_attn.qkv_proj.weight");
        all[count++] = join(s, arrays, n, i, gate_up, 2, "mlp.gate_up");
        all[count++] = (mica_named_array){test_format("model.layers.%d.mlp.down", i), down};
    }
    size_t made = count;
    for (size_t i = 0; i < n; i++)
        if (!is_joined(arrays[i].name)) all[count++] = arrays[i];
    if (mica_save_safetensors(path, all, count, NULL, 0) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (size_t i = 0; i < made; i++)
        free((void *)(uintptr_t)all[i].name);
    mica_free(arrays);
    mica_scope_close(&s);
    mica_device_close(&device);
    free(path);
}

static int make(void **state) {
    (void)state;
    apart = own_model(&family, CONFIG);
    joined = fixture_copy_folder(apart, "config.json", "1e-6", "1e-6");
    write_joined(joined);
    return 0;
}

static int discard(void **state) {
    (void)state;
    test_temp_dir_remove(apart);
    test_temp_dir_remove(joined);
    return 0;
}

/* ---- what it does ---- */

static void test_same(void **state) {
    (void)state;
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *a = own_open(device, apart), *b = own_open(device, joined);
    assert_non_null(mc_lm_find(a, MC_STR("layers.1.self_attn.k_proj")));
    assert_null(mc_lm_find(b, MC_STR("layers.1.self_attn.k_proj")));
    assert_int_equal(a->parameters, b->parameters);
    assert_int_equal(b->notes.len, 0);
    float *want = fixture_logits(device, a, own_text, OWN_TEXT);
    float *got = fixture_logits(device, b, own_text, OWN_TEXT);
    fixture_compare(got, want, OWN_TEXT * (size_t)a->spec.vocab, 0.0, "joined");
    free(want);
    free(got);
    mc_lm_close(&a);
    mc_lm_close(&b);
    mica_device_close(&device);
}

static void test_all(void **state) {
    (void)state;
    own_check_passes(joined);
    own_check_sessions(joined);
    own_check_quantised(joined, "layers.1.self_attn.qkv_proj", NULL);
    own_check_quantised(joined, "layers.1.mlp.gate_up", NULL);
    own_check_tuned(joined, "layers.0.self_attn.qkv_proj");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, make, discard);
}
