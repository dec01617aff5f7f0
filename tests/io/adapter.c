/* Adapter folders: the pairs in them, and folders that are none. */
#include "support/support.h"

#include "io/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *golden(const char *name) {
    return test_format("%s/lora/%s", test_cases_dir(), name);
}

static mc_adapter *open_adapter(const char *dir) {
    mc_adapter *adapter;
    if (mc_adapter_open(dir, &adapter) != MICA_OK) fail_msg("%s", mica_last_error());
    return adapter;
}

static const mc_adapter_pair *find(const mc_adapter *adapter, const char *module) {
    for (size_t i = 0; i < mc_adapter_count(adapter); i++)
        if (strcmp(mc_adapter_at(adapter, i)->module, module) == 0)
            return mc_adapter_at(adapter, i);
    fail_msg("no pair for %s", module);
    return NULL;
}

static void test_mlx(void **state) {
    (void)state;
    char *dir = golden("mlx_qwen3");
    mc_adapter *adapter = open_adapter(dir);
    assert_string_equal(mc_adapter_path(adapter), dir);
    assert_int_equal(mc_adapter_count(adapter), 8);
    const mc_adapter_pair *pair = find(adapter, "model.layers.2.mlp.down_proj");
    assert_int_equal(pair->kind, MC_ADAPTER_MLX);
    assert_int_equal(pair->rank, 8);
    assert_true(pair->scale == 10.0);
    assert_string_equal(pair->a->name, "model.layers.2.mlp.down_proj.lora_a");
    assert_string_equal(pair->b->name, "model.layers.2.mlp.down_proj.lora_b");

    assert_int_equal(mc_adapter_first_layer(adapter, 3), 1);
    assert_int_equal(mc_adapter_first_layer(adapter, 2), 0);
    assert_int_equal(mc_adapter_first_layer(adapter, 1), 0);
    static const char v0[] = "model.layers.0.self_attn.v_proj", v[] = "self_attn.v_proj";
    assert_false(mc_adapter_expects(adapter, 0, 3, v0, v));
    assert_true(mc_adapter_expects(adapter, 1, 3, v0, v));
    assert_false(mc_adapter_expects(adapter, 1, 3, v0, "v_proj"));
    mc_adapter_close(&adapter);
    mc_adapter_close(&adapter);
    free(dir);
}

static void test_peft(void **state) {
    (void)state;
    char *dir = golden("peft_qwen3");
    mc_adapter *adapter = open_adapter(dir);
    assert_int_equal(mc_adapter_count(adapter), 12);
    const mc_adapter_pair *pair = find(adapter, "model.layers.1.self_attn.o_proj");
    assert_int_equal(pair->kind, MC_ADAPTER_PEFT);
    assert_int_equal(pair->rank, 4);
    assert_true(pair->scale == 3.0);
    assert_string_equal(pair->a->name,
                        "base_model.model.model.layers.1.self_attn.o_proj.lora_A.weight");
    assert_int_equal(mc_adapter_first_layer(adapter, 3), 0);
    assert_true(mc_adapter_expects(adapter, 0, 3, "model.layers.0.mlp.up_proj", "mlp.up_proj"));
    assert_true(mc_adapter_expects(adapter, -1, 3, "up_proj", "up_proj"));
    assert_false(mc_adapter_expects(adapter, 0, 3, "model.layers.0.mlp.sup_proj", "mlp.sup_proj"));
    mc_adapter_close(&adapter);
    free(dir);
}

/* ---- changed copies ---- */

/* An adapter's folder with the text `from` of its config, or all of it where from is NULL, made
 * `to`. */
static char *changed(const char *name, const char *from, const char *to) {
    char *source = golden(name), *dir = test_temp_dir();
    test_list files = test_list_files(source, "");
    for (size_t i = 0; i < files.count; i++) {
        char *a = test_format("%s/%s", source, files.names[i]);
        char *b = test_format("%s/%s", dir, files.names[i]);
        test_copy_file(a, b);
        free(a);
        free(b);
    }
    char *path = test_format("%s/adapter_config.json", dir), *text = test_read_file(path, NULL);
    char *at = from ? strstr(text, from) : NULL;
    if (from && !at) fail_msg("%s: no %s", path, from);
    char *all = from ? test_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from))
                     : test_format("%s", to);
    test_write_file(path, all, strlen(all));
    free(all);
    free(text);
    free(path);
    test_list_free(&files);
    free(source);
    return dir;
}

static void test_peft_scales(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        int64_t rank; /* of k_proj in block 2 */
        double scale;
    } cases[] = {
        {"\"use_rslora\": false", "\"use_rslora\": true", 4, 6.0},
        {"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"k_proj\": 2}", 4, 0.5},
        {"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"layers.1.self_attn.k_proj\": 2}", 4, 3.0},
        {"\"alpha_pattern\": {}",
         "\"alpha_pattern\": {\"q_proj\": 7, \".*[12].*\": 2, \"k_proj\": 5}", 4, 0.5},
        {"\"rank_pattern\": {}", "\"rank_pattern\": {\"self_attn.k_proj\": 3}", 3, 4.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = changed("peft_qwen3", cases[i].from, cases[i].to);
        mc_adapter *adapter = open_adapter(dir);
        const mc_adapter_pair *pair = find(adapter, "model.layers.2.self_attn.k_proj");
        if (pair->rank != cases[i].rank || pair->scale != cases[i].scale)
            fail_msg("%s: rank %d, scale %g", cases[i].to, (int)pair->rank, pair->scale);
        mc_adapter_close(&adapter);
        test_temp_dir_remove(dir);
    }
}

/* Gives a tensor of the adapter another name, with blanks behind its quote for what is shorter. */
static void rename_tensor(const char *dir, const char *from, const char *to) {
    char *path = test_format("%s/adapter_model.safetensors", dir);
    char *old = test_format("%s\"", from), *name = test_format("%s\"", to);
    size_t size, length = strlen(old);
    char *bytes = test_read_file(path, &size), *at = bytes + 8;
    while (at + length <= bytes + size && memcmp(at, old, length) != 0)
        at++;
    assert_true(at + length <= bytes + size);
    memset(at, ' ', length);
    memcpy(at, name, strlen(name));
    test_write_file(path, bytes, size);
    free(bytes);
    free(name);
    free(old);
    free(path);
}

static void expect_error(const char *dir, mica_status status, const char *word, const char *other) {
    mc_adapter *adapter;
    mica_status got = mc_adapter_open(dir, &adapter);
    assert_null(adapter);
    if (got != status || !strstr(mica_last_error(), word) || !strstr(mica_last_error(), other))
        fail_msg("%s: %s; want %s with \"%s\" and \"%s\"", mica_status_name(got), mica_last_error(),
                 mica_status_name(status), word, other);
}

static void expect_changed(const char *name, const char *from, const char *to, mica_status status,
                           const char *word, const char *other) {
    char *dir = changed(name, from, to);
    expect_error(dir, status, word, other);
    test_temp_dir_remove(dir);
}

static void test_other_kinds(void **state) {
    (void)state;
    static const char mlx[] = "mlx_qwen3", peft[] = "peft_qwen3";
    expect_changed(mlx, "\"lora\"", "\"dora\"", MICA_ENOENT, "lora_a", "magnitudes");
    expect_changed(mlx, "\"lora\"", "\"ia3\"", MICA_EUNSUPPORTED, "adapter_config.json", "ia3");
    expect_changed(peft, "\"LORA\"", "\"IA3\"", MICA_EUNSUPPORTED, "peft_type", "IA3");
    expect_changed(peft, "\"bias\": \"none\"", "\"bias\": \"some\"", MICA_EUNSUPPORTED,
                   "bias: ", "some");
    expect_changed(peft, "\"use_qalora\": false", "\"use_qalora\": true", MICA_EUNSUPPORTED,
                   "use_qalora", "is set");
    expect_changed("peft_tokens_llama", "140", "140, 7", MICA_ESHAPE, "trainable_tokens_delta",
                   "does not fit the 3 ids of trainable_token_indices");
    expect_changed("peft_tokens_llama", "140", "-1", MICA_EFORMAT, "trainable_token_indices",
                   "want token ids");
    expect_changed("peft_saves_llama", "\"modules_to_save\"", "\"modules_two_save\"",
                   MICA_EUNSUPPORTED, "do not have the names", "down_proj.weight");
    expect_changed(peft, "\"use_dora\": false", "\"use_dora\": true", MICA_ENOENT, "lora_A",
                   "magnitudes");
    char *dir = changed(peft, "\"modules_to_save\": null", "\"modules_to_save\": []");
    mc_adapter *adapter = open_adapter(dir);
    assert_int_equal(mc_adapter_substitute_count(adapter), 0);
    mc_adapter_close(&adapter);
    test_temp_dir_remove(dir);
    dir = changed("peft_ends_llama", "\"r\": 4", "\"r\": 4"); /* a vocabulary that was resized */
    rename_tensor(dir, "embed_tokens.base_layer.weight", "embed_tokens.weight");
    adapter = open_adapter(dir);
    const mc_adapter_substitute *resized = mc_adapter_substitute_at(adapter, 1);
    assert_string_equal(resized->name, "model.embed_tokens.weight");
    assert_true(resized->copy);
    mc_adapter_close(&adapter);
    test_temp_dir_remove(dir);
    dir = changed(mlx, "\"lora\"", "\"full\""); /* tensors in the place of the model's */
    adapter = open_adapter(dir);
    assert_int_equal(mc_adapter_count(adapter), 0);
    assert_int_equal(mc_adapter_substitute_count(adapter), 16);
    assert_true(mc_adapter_is_full(adapter));
    mc_adapter_close(&adapter);
    test_temp_dir_remove(dir);
}

static void test_bad_configs(void **state) {
    (void)state;
    static const char mlx[] = "mlx_qwen3", peft[] = "peft_qwen3";
    expect_changed(mlx, NULL, "{", MICA_EFORMAT, "adapter_config.json", "");
    expect_changed(mlx, NULL, "[]", MICA_EFORMAT, "adapter_config.json", "object");
    expect_changed(mlx, NULL, "{}", MICA_EFORMAT, "lora_parameters", "peft_type");
    expect_changed(mlx, "\"num_layers\": 2", "\"num_layers\": \"two\"", MICA_EFORMAT, "num_layers",
                   "\"two\"");
    expect_changed(mlx, "\"num_layers\": 2,", "", MICA_ENOENT, "num_layers", "missing");
    expect_changed(mlx, "\"rank\": 8", "\"rank\": 0", MICA_EFORMAT, "lora_parameters.rank", "1..");
    expect_changed(mlx, "\"scale\": 10.0", "\"scale\": 1e300", MICA_EFORMAT,
                   "lora_parameters.scale", "1e+300");
    expect_changed(mlx, "\"keys\": [", "\"keys\": [1, ", MICA_EFORMAT, "lora_parameters.keys",
                   "texts");
    expect_changed(mlx, "\"keys\": [", "\"keys\": 7, \"kies\": [", MICA_EFORMAT,
                   "lora_parameters.keys", "texts");
    expect_changed(peft, "\"r\": 4", "\"r\": 4.5", MICA_EFORMAT, " r: ", "4.5");
    expect_changed(peft, "\"r\": 4", "\"r\": 1000000000000", MICA_EFORMAT, " r: ", "65536");
    expect_changed(peft, "\"lora_alpha\": 12", "\"lora_alpha\": []", MICA_EFORMAT, "lora_alpha",
                   "a list");
    expect_changed(peft, "\"rank_pattern\": {}", "\"rank_pattern\": {\"k_proj\": 0}", MICA_EFORMAT,
                   "rank_pattern.k_proj", "1..65536");
    expect_changed(peft, "\"rank_pattern\": {}", "\"rank_pattern\": {\"k_proj\": 4.5}",
                   MICA_EFORMAT, "rank_pattern.k_proj", "1..65536");
    expect_changed(peft, "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"(k_proj\": 2}",
                   MICA_EFORMAT, "alpha_pattern", "regular expression");
    expect_changed(peft, "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"k_proj\": \"2\"}",
                   MICA_EFORMAT, "alpha_pattern.k_proj", "number");
    expect_changed(peft, "\"rank_pattern\": {}", "\"rank_pattern\": {\"((((.+)+)+)+)[0-9]\": 2}",
                   MICA_EUNSUPPORTED, "adapter_config.json", "takes too much work");
    expect_changed(peft, "\"target_modules\": [", "\"target_modules\": [[], ", MICA_EFORMAT,
                   "target_modules", "texts");
}

/* `count` patterns of the form, with %d for its number, in the place of the key's. */
static void expect_too_many(const char *key, const char *form, int count, const char *why) {
    char *old = test_format("\"%s\": {}", key), *to = calloc((size_t)count + 2, 32), *at = to;
    assert_non_null(to);
    at += sprintf(at, "\"%s\": {", key);
    for (int i = 0; i < count; i++) {
        at += sprintf(at, i ? ", \"" : "\"");
        at += sprintf(at, form, i);
        at += sprintf(at, "\": 4");
    }
    strcpy(at, "}");
    expect_changed("peft_qwen3", old, to, MICA_EUNSUPPORTED, key, why);
    free(to);
    free(old);
}

/* Compiled patterns are much larger than their texts. */
static void test_many_patterns(void **state) {
    (void)state;
    expect_too_many("rank_pattern", "p%d", (1 << 16) + 1, "more than 65536 patterns");
    expect_too_many("alpha_pattern", "(?:ab){999}%d", 4000, "more than 16777216 bytes");
}

static void test_other_targets(void **state) {
    (void)state;
    static const char *const tos[] = {"\"all-linear\", \"x\": [", "[", "null, \"x\": ["};
    for (size_t i = 0; i < sizeof tos / sizeof *tos; i++) {
        char *to = test_format("\"exclude_modules\": [\"x\"], \"target_modules\": %s", tos[i]);
        char *dir = changed("peft_qwen3", "\"target_modules\": [", to);
        char *path = test_format("%s/adapter_config.json", dir);
        mc_adapter *adapter = open_adapter(dir);
        assert_int_equal(mc_adapter_count(adapter), 12);
        mc_adapter_close(&adapter);
        test_temp_dir_remove(dir);
        free(path);
        free(to);
    }
}

static void test_missing_files(void **state) {
    (void)state;
    expect_error("/nowhere/at/all", MICA_ENOENT, "/nowhere/at/all", "no such folder");
    char *dir = test_temp_dir();
    expect_error(dir, MICA_ENOENT, dir, "adapter_config.json");
    test_temp_dir_remove(dir);

    dir = changed("peft_qwen3", NULL,
                  "{\"fine_tune_type\": \"lora\", \"num_layers\": 3, "
                  "\"lora_parameters\": {\"rank\": 4, \"scale\": 1}}");
    expect_error(dir, MICA_ENOENT, dir, "/adapters.safetensors");
    char *path = test_format("%s/adapter_config.json", dir);
    expect_error(path, MICA_EINVAL, path, "is a file");
    free(path);
    char *from = test_format("%s/adapter_model.safetensors", dir);
    path = test_format("%s/adapters.safetensors", dir);
    test_copy_file(from, path);
    expect_error(dir, MICA_EUNSUPPORTED, "24 tensors", "lora_A.weight, base_model");

    size_t size;
    char *bytes = test_read_file(from, &size);
    test_write_file(path, bytes, size - 1);
    expect_error(dir, MICA_EFORMAT, path, "");
    static const char empty[] = "\2\0\0\0\0\0\0\0{}";
    test_write_file(path, empty, sizeof empty - 1);
    expect_error(dir, MICA_EFORMAT, dir, "no tensors");
    free(bytes);
    free(path);
    free(from);
    test_temp_dir_remove(dir);
}

static bool open_once(void *arg) {
    mc_adapter *adapter;
    bool done = mc_adapter_open(arg, &adapter) == MICA_OK;
    mc_adapter_close(&adapter);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    static const char *const names[] = {"peft_qwen3", "mlx_qwen3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *dir = golden(names[i]);
        test_fail_each_allocation(open_once, dir);
        free(dir);
    }
    char *dir = changed("peft_qwen3", "\"rank_pattern\": {}",
                        "\"rank_pattern\": {\"(q|k)_proj\": 4, \"[ov]_proj\": 4}");
    test_fail_each_allocation(open_once, dir);
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlx),           cmocka_unit_test(test_peft),
        cmocka_unit_test(test_peft_scales),   cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_bad_configs),   cmocka_unit_test(test_other_targets),
        cmocka_unit_test(test_missing_files), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_many_patterns),
    };
    return cmocka_run_group_tests_name("io/adapter", tests, NULL, NULL);
}
