/* Opening damaged or unusual models, and opening models without memory. */
#include "model/fixture.h"

#include <mica/io.h>

#include <stdlib.h>
#include <string.h>

static mica_device *device;

/* Opens a changed copy of a fixture. The error must have this status and these words. */
static void expect_error(const char *model, const char *file, const char *from, const char *to,
                         mica_status status, const char *word, const char *other) {
    char *dir = fixture_copy(model, file, from, to);
    mc_lm *lm;
    mica_status got = mc_lm_open(dir, device, NULL, &lm);
    assert_null(lm);
    if (got != status || !strstr(mica_last_error(), word) || !strstr(mica_last_error(), other))
        fail_msg("%s with %s: %s: %s; want %s with \"%s\" and \"%s\"", model, to,
                 mica_status_name(got), mica_last_error(), mica_status_name(status), word, other);
    assert_int_equal(mica_device_active_bytes(device), 0);
    test_temp_dir_remove(dir);
}

#define TENSORS "model.safetensors"
#define CONFIG "config.json"

static void test_missing_tensors(void **state) {
    (void)state;
    const char *model = "gemma3_text_bf16_nohd";
    expect_error(model, TENSORS, "layers.0.mlp.up_proj", "layers.0.mlp.ap_proj", MICA_ENOENT,
                 "model.layers.0.mlp.up_proj.weight", "1 tensors");
    expect_error(model, TENSORS, "embed_tokens", "embedtokens_", MICA_ENOENT,
                 "model.embed_tokens.weight", "1 tensors");
    expect_error(model, CONFIG, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 5", MICA_ENOENT,
                 "26 tensors", "model.layers.3.self_attn.q_proj.weight");
    expect_error(model, CONFIG, "\"attention_bias\": false", "\"attention_bias\": true",
                 MICA_ENOENT, "12 tensors", "model.layers.0.self_attn.o_proj.bias");
    expect_error(model, CONFIG, "{", "{\"tie_word_embeddings\": false,", MICA_ENOENT, "1 tensors",
                 "lm_head");
}

static void test_wrong_tensors(void **state) {
    (void)state;
    const char *model = "gemma3_text_bf16_nohd"; /* hidden 24, MLP 56, heads 2 of 256 */
    expect_error(model, CONFIG, "\"hidden_size\": 24", "\"hidden_size\": 25", MICA_ESHAPE,
                 "model.embed_tokens.weight is BF16[128,24]", "[128,25]");
    expect_error(model, CONFIG, "\"vocab_size\": 128", "\"vocab_size\": 129", MICA_ESHAPE,
                 "model.embed_tokens.weight is BF16[128,24]", "[129,24]");
    expect_error(model, CONFIG, "\"intermediate_size\": 56", "\"intermediate_size\": 16777216",
                 MICA_ESHAPE, "mlp.", "16777216");
    expect_error(model, CONFIG, "{", "{\"head_dim\": 128,", MICA_ESHAPE, "q_proj.weight", TENSORS);
    expect_error(model, CONFIG, "\"num_attention_heads\": 2", "\"num_attention_heads\": 16777216",
                 MICA_ESHAPE, "q_proj.weight", "[4294967296,24]");
    /* f16 has as many bytes as i16, so the file stays valid. */
    expect_error(model, TENSORS, "\"model.layers.0.mlp.up_proj.weight\":{\"dtype\":\"BF16\"",
                 "\"model.layers.0.mlp.up_proj.weight\":{\"dtype\":\"I16\"", MICA_EDTYPE,
                 "model.layers.0.mlp.up_proj.weight is I16[56,24]", "BF16");
    expect_error(model, TENSORS, "\"model.norm.weight\":{\"dtype\":\"BF16\"",
                 "\"model.norm.weight\":{\"dtype\":\"I16\"", MICA_EDTYPE,
                 "model.norm.weight is I16[24]", "floats");
    expect_error(model, TENSORS, "\"shape\":[24]", "\"shape\":[12,2]", MICA_ESHAPE, "12,2",
                 "floats [24]");
}

static void test_wrong_packing(void **state) {
    (void)state;
    const char *model = "q4g64_gemma3_mm";
    expect_error(model, CONFIG, "\"hidden_size\": 64", "\"hidden_size\": 72", MICA_ESHAPE,
                 "4 bits in groups of 64 does not fit rows of 72", "embed_tokens.weight");
    expect_error(model, TENSORS, "embed_tokens.biases", "embed_tokens.beeses", MICA_ENOENT,
                 "language_model.model.embed_tokens.biases", "where the index has it");
}

/* Where the config contradicts the tensors, their shapes are right. */
static void test_contradicted_packing(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"\"bits\": 4", "\"bits\": 8"},
        {"\"group_size\": 64", "\"group_size\": 32"},
        {"\"group_size\": 64", "\"group_size\": 100"},
        {"\"mode\": \"affine\"", "\"mode\": \"mxfp4\""},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *dir = fixture_copy("q4g64_gemma3_mm", CONFIG, changes[i][0], changes[i][1]);
        mc_lm *lm;
        if (mc_lm_open(dir, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
        assert_string_equal(lm->quantization, "4 bit, groups of 64 (affine)");
        mc_lm_close(&lm);
        test_temp_dir_remove(dir);
    }
}

/* The shapes of affine weights give what a config does not. */
static void test_unsaid_packing(void **state) {
    (void)state;
    char *dir = fixture_copy("q8g64_gemma3", CONFIG, "\"quantization\"", "\"quantasation\"");
    char *path = test_format("%s/config.json", dir);
    size_t size;
    char *text = test_read_file(path, &size), *key = strstr(text, "\"quantization_config\"");
    assert_non_null(key);
    key[1] = 'Q';
    test_write_file(path, text, size);
    mc_lm *lm;
    if (mc_lm_open(dir, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_string_equal(lm->quantization, "8 bit, groups of 64 (affine)");
    mc_lm_close(&lm);
    free(text);
    free(path);
    test_temp_dir_remove(dir);
}

/* The rows of q_proj give the head_dim that a config does not: of floats, and of codes. */
static void test_unsaid_head_dim(void **state) {
    (void)state;
    static const struct {
        const char *model, *from;
        int64_t head_dim; /* the default is 128, or 256 */
    } cases[] = {
        {"qwen3_tied", "\"head_dim\": 24,", 24},
        {"q4g64_qwen3", "\"head_dim\": 16,", 16},
        {"gemma2_f32", "\"head_dim\": 16,", 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = fixture_copy(cases[i].model, CONFIG, cases[i].from, "");
        mc_lm *lm;
        if (mc_lm_open(dir, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
        assert_int_equal(lm->spec.head_dim, cases[i].head_dim);
        mc_lm_close(&lm);
        test_temp_dir_remove(dir);
    }
}

static void test_not_models(void **state) {
    (void)state;
    mc_lm *lm;
    char *dir = test_temp_dir();
    assert_int_equal(mc_lm_open(dir, device, NULL, &lm), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), CONFIG));
    assert_int_equal(mc_lm_open("/nowhere/at/all", device, NULL, &lm), MICA_ENOENT);
    test_temp_dir_remove(dir);
}

static void test_description(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("q4g64_gemma3_mm", &f);
    assert_string_equal(f.lm->quantization, "4 bit, groups of 64 (affine)");
    assert_string_equal(f.lm->model_type, "gemma3");
    assert_int_equal(f.lm->dtype, MICA_BF16);
    /* In each layer q and o are 64 x 64, k and v 32 x 64, three matrices 128 x 64, the norms 4 x 64
     * + 2 x 16. */
    uint64_t layer = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 4 * 64 + 2 * 16;
    assert_int_equal(f.lm->parameters, 151 * 64 + 4 * layer + 64);
    fixture_close(&f);
}

static void expect_note(const char *model, const char *from, const char *to, const char *note,
                        const char *end) {
    mc_lm *lm;
    char *dir = fixture_copy(model, CONFIG, from, to);
    if (mc_lm_open(dir, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    const char *found = lm->notes.len ? lm->notes.data : "";
    if (strncmp(found, note, strlen(note)) != 0 || !strstr(found, end) || (*found && !*note))
        fail_msg("%s with %s: \"%s\", want \"%s ... %s\"", model, to, found, note, end);
    mc_lm_close(&lm);
    test_temp_dir_remove(dir);
}

/* All tensors are read, but those of other parts of the model. */
static void check_silent(const model_fixture *f) {
    static const char *const allowed[] = {"left out: ", "published as "};
    const char *notes = f->lm->notes.len ? f->lm->notes.data : "";
    if (*notes && strncmp(notes, allowed[0], strlen(allowed[0])) != 0 &&
        strncmp(notes, allowed[1], strlen(allowed[1])) != 0)
        fail_msg("%s: %s", f->name, notes);
}

static void test_unused_tensors(void **state) {
    (void)state;
    fixture_each(check_silent);
    expect_note("gemma3_mm_lmprefix", "\"model_type\": \"gemma3\"", "\"model_type\": \"gemma3\"",
                "left out: images, ", " tensors");
    expect_note("qwen2_tied", "\"model_type\": \"qwen2\"", "\"model_type\": \"llama\"",
                "nothing reads 9 of the tensors: model.layers.0.self_attn.k_proj.bias, "
                "model.layers.0.self_attn.q_proj.",
                ".bias ...");
    expect_note("qwen3_tied", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2",
                "nothing reads 11 of the tensors: model.layers.2.", " ...");
}

#define UNTIED "\"tie_word_embeddings\": false"
#define TIED "\"tie_word_embeddings\": true"

/* A head in the files that differs from the embedding wins over the config, with a note. */
static void test_own_head(void **state) {
    (void)state;
    static const int32_t ids[] = {5, 9, 30, 2};
    const char *models[] = {"llama_untied_f32", "q4g32_llama"};
    for (size_t i = 0; i < 2; i++) {
        model_fixture f;
        mc_lm *lm;
        fixture_open(models[i], &f);
        char *dir = fixture_copy(models[i], CONFIG, UNTIED, TIED);
        expect_note(models[i], UNTIED, TIED, "config.json says tie_word_embeddings, but",
                    "lm_head.weight");
        if (mc_lm_open(dir, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
        assert_false(lm->tied);
        float *want = fixture_logits(f.device, f.lm, ids, 4);
        float *got = fixture_logits(device, lm, ids, 4);
        assert_memory_equal(got, want, 4 * (size_t)lm->spec.vocab * sizeof *got);
        free(want);
        free(got);
        mc_lm_close(&lm);
        fixture_close(&f);
        test_temp_dir_remove(dir);
    }
}

/* A head in the files that is the embedding is none of its own. */
static void test_equal_head(void **state) {
    (void)state;
    char *dir = fixture_copy("qwen3_tied", CONFIG, NULL, NULL);
    char *path = test_format("%s/" TENSORS, dir);
    mica_scope *s;
    mica_named_array *arrays, all[64];
    size_t n;
    mc_lm *lm;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_load_safetensors(path, s, &arrays, &n), MICA_OK);
    assert_true(n < 64);
    for (size_t i = 0; i < n; i++) {
        all[i] = arrays[i];
        if (strcmp(arrays[i].name, "model.embed_tokens.weight") == 0)
            all[n] = (mica_named_array){"lm_head.weight", arrays[i].array};
    }
    assert_int_equal(mica_save_safetensors(path, all, n + 1, NULL, 0), MICA_OK);
    mica_free(arrays);
    mica_scope_close(&s);
    if (mc_lm_open(dir, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_true(lm->tied);
    assert_int_equal(lm->notes.len, 0);
    mc_lm_close(&lm);
    free(path);
    test_temp_dir_remove(dir);
}

/* Compared with numbers computed from the published rule: kept, blended and divided frequencies. */
static void test_llama3_frequencies(void **state) {
    (void)state;
    static const float want[] = {1.0f,    5.62341325f, 31.6227766f, 197.027732f,
                                 8000.0f, 44987.306f,  252982.213f, 1422623.53f};
    char *dir = fixture_copy("gemma3_text_f32", CONFIG, "\"rope_scaling\": null",
                             "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
                             "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                             "\"original_max_position_embeddings\": 4096}");
    mc_lm *lm;
    float got[8];
    if (mc_lm_open(dir, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_false(mica_valid(lm->ropes[1].freqs)); /* of the layers with a window: plain RoPE */
    assert_int_equal(mica_read(lm->ropes[0].freqs, got, sizeof got), MICA_OK);
    for (int i = 0; i < 8; i++)
        assert_true(got[i] > want[i] * (1 - 1e-6f) && got[i] < want[i] * (1 + 1e-6f));
    mc_lm_close(&lm);
    test_temp_dir_remove(dir);
}

static bool open_once(void *arg) {
    mc_lm *lm;
    mica_device *own;
    bool done = false;
    if (test_device_open(&(mica_device_options){.threads = 1}, &own) != MICA_OK) return false;
    done = mc_lm_open(arg, own, NULL, &lm) == MICA_OK;
    mc_lm_close(&lm);
    assert_int_equal(mica_device_active_bytes(own), 0);
    mica_device_close(&own);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    char *path = fixture_path("q8g64_gemma3");
    test_fail_each_allocation(open_once, path);
    free(path);
}

static int open_device(void **state) {
    (void)state;
    return test_device_open(&(mica_device_options){.threads = 1}, &device) != MICA_OK;
}

static int close_device(void **state) {
    (void)state;
    mica_device_close(&device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_tensors),    cmocka_unit_test(test_wrong_tensors),
        cmocka_unit_test(test_wrong_packing),      cmocka_unit_test(test_contradicted_packing),
        cmocka_unit_test(test_unsaid_packing),     cmocka_unit_test(test_not_models),
        cmocka_unit_test(test_llama3_frequencies), cmocka_unit_test(test_description),
        cmocka_unit_test(test_unused_tensors),     cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_unsaid_head_dim),    cmocka_unit_test(test_own_head),
        cmocka_unit_test(test_equal_head),
    };
    return cmocka_run_group_tests_name("model/lm_load", tests, open_device, close_device);
}
