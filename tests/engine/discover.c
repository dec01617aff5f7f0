/* What mica_discover says of the models of the goldens, and where it looks for the cache. */
#define _POSIX_C_SOURCE 200809L

#include "model/fixture.h"

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const mica_found_model *find(const mica_model_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->models[i]->name, name) == 0) return list->models[i];
    fail_msg("%s is not in the list", name);
    return NULL;
}

/* What the open models say of themselves. */
static void check_model(const model_fixture *f) {
    mica_model_list *list;
    assert_int_equal(mica_discover(f->path, &list), MICA_OK);
    assert_int_equal(list->count, 1);
    assert_string_equal(list->models[0]->path, f->path);
    assert_string_equal(list->models[0]->name, f->name);
    if (!list->models[0]->family || strcmp(list->models[0]->family, f->lm->spec.family) != 0)
        fail_msg("%s: family %s", f->name,
                 list->models[0]->family ? list->models[0]->family : "unknown");
    if (*f->lm->model_type) assert_string_equal(list->models[0]->architecture, f->lm->model_type);
    if (!f->lm->notes.len || !strstr(f->lm->notes.data, "published as ")) {
        assert_string_equal(list->models[0]->quantization, f->lm->quantization);
        assert_true(list->models[0]->weight_bytes > f->lm->weight_bytes);
    }
    assert_true(list->models[0]->weight_files > 0);
    mica_model_list_free(&list);
    assert_null(list);
    mica_model_list_free(&list);
}

static void test_single(void **state) {
    (void)state;
    fixture_each(check_model);
}

static void test_sorted(void **state) {
    (void)state;
    mica_model_list *list;
    char *dir = test_format("%s/models", test_fixtures_dir());
    test_list folders = test_list_folders(dir);
    assert_int_equal(mica_discover(dir, &list), MICA_OK);
    assert_int_equal(list->count, folders.count);
    for (size_t i = 0; i < list->count; i++)
        assert_string_equal(list->models[i]->name, folders.names[i]);
    mica_model_list_free(&list);
    test_list_free(&folders);
    free(dir);
}

/* A folder below dir with this config. */
static void make_model(const char *dir, const char *name, const char *json) {
    char *folder = test_format("%s/%s", dir, name);
    char *config = test_format("%s/config.json", folder);
    char *weights = test_format("%s/model.safetensors", folder);
    mkdir(folder, 0700);
    test_write_file(config, json, strlen(json));
    test_write_file(weights, "x", 1);
    free(weights);
    free(config);
    free(folder);
}

static void expect(const mica_model_list *list, const char *name, const char *architecture,
                   const char *quantization) {
    const mica_found_model *model = find(list, name);
    assert_null(model->family);
    assert_string_equal(model->architecture, architecture);
    assert_string_equal(model->quantization, quantization);
    assert_int_equal(model->struct_bytes, sizeof *model);
    assert_int_equal(model->weight_bytes, 1);
    assert_int_equal(model->weight_files, 1);
}

/* The numbers of how most weights are quantised. */
static void expect_bits(const mica_model_list *list, const char *name, int bits, int group_size) {
    assert_int_equal(find(list, name)->bits, bits);
    assert_int_equal(find(list, name)->group_size, group_size);
}

static void test_configs(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    mica_model_list *list;
    make_model(dir, "mamba", "{\"model_type\": \"mamba\"}");
    make_model(dir, "unknown", "{\"architectures\": [\"A\", \"B\"]}");
    make_model(dir, "empty", "{}");
    make_model(dir, "gptq", "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}");
    make_model(dir, "ill", "{\"model_type\": 3, \"quantization\": {\"bits\": []}}");
    make_model(dir, "bare", "{\"quantization\": {\"mode\": \"affine\"}}");
    make_model(dir, "mixed", "{\"quantization\": {\"bits\": 4, \"group_size\": 64, \"a\": {}}}");
    make_model(dir, "list", "[]");
    make_model(dir, "broken", "{\"model_type\": ");
    assert_int_equal(mica_discover(dir, &list), MICA_OK);
    assert_int_equal(list->count, 7);
    expect(list, "mamba", "mamba", "none");
    expect(list, "unknown", "A", "none");
    expect(list, "empty", "", "none");
    expect(list, "gptq", "", "gptq");
    expect(list, "ill", "", "unknown");
    expect(list, "bare", "", "affine");
    expect(list, "mixed", "", "4 bit, groups of 64 (affine), mixed");
    expect_bits(list, "mixed", 4, 64);
    expect_bits(list, "mamba", 0, 0);
    expect_bits(list, "gptq", 0, 0);
    expect_bits(list, "ill", 0, 0);
    mica_model_list_free(&list);
    test_temp_dir_remove(dir);
}

/* Bytes of addresses that this process uses; 0 where the system does not tell. */
static uint64_t address_bytes(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%llu", &pages) != 1) pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A sparse file of safetensors: one tensor of `bytes` bytes, which are a hole. */
static void make_weights(const char *dir, const char *name, const char *tensor, uint64_t bytes) {
    char *path = test_format("%s/%s", dir, name);
    char *header =
        test_format("{\"%s\": {\"dtype\": \"U8\", \"shape\": [%llu], \"data_offsets\": [0, %llu]}}",
                    tensor, (unsigned long long)bytes, (unsigned long long)bytes);
    uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        putc((int)(length >> 8 * i & 255), file);
    fputs(header, file);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(ftruncate(fileno(file), (off_t)(8 + length + bytes)), 0);
    fclose(file);
    free(header);
    free(path);
}

/* A family is told by the headers: where there are no addresses for the weights, too. */
static void test_weights_are_not_mapped(void **state) {
    (void)state;
    enum { SHARD = 1 << 28 };
    static const char *const tensors[] = {"embed_tokens", "layers.0.self_attn.q_norm",
                                          "layers.0.self_attn.k_norm"};
    char *dir = test_temp_dir();
    mica_model_list *list;
    test_write_below(dir, "big/config.json", "{}");
    for (int i = 0; i < 3; i++) {
        char *file = test_format("big/model-%d.safetensors", i);
        char *tensor = test_format("model.%s.weight", tensors[i]);
        make_weights(dir, file, tensor, SHARD);
        free(tensor);
        free(file);
    }
    struct rlimit limit, low;
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    low = limit;
    if (address_bytes()) low.rlim_cur = address_bytes() + SHARD / 2;
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    mica_status status = mica_discover(dir, &list);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(status, MICA_OK);
    assert_int_equal(list->count, 1);
    assert_string_equal(list->models[0]->family, "qwen3");
    assert_true(list->models[0]->weight_bytes > 3 * (uint64_t)SHARD);
    assert_int_equal(list->models[0]->weight_files, 3);
    mica_model_list_free(&list);
    test_temp_dir_remove(dir);
}

static void expect_cache(const char *name) {
    mica_model_list *list;
    assert_int_equal(mica_discover(NULL, &list), MICA_OK);
    assert_int_equal(list->count, name ? 1 : 0);
    if (name) assert_string_equal(list->models[0]->name, name);
    mica_model_list_free(&list);
}

static void make_cache(const char *root, const char *below, const char *name) {
    char *path = test_format("%s/%s/models--org--%s/snapshots/1/", root, below, name);
    for (char *at = path + strlen(root) + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    make_model(path, "", "{}");
    free(path);
}

static void test_cache(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *hub = test_format("%s/hub-cache", dir);
    char *nowhere = test_format("%s/nowhere", dir);
    make_cache(dir, ".cache/huggingface/hub", "home");
    make_cache(dir, "huggingface/hub", "xdg");
    make_cache(dir, "hub", "hf-home");
    make_cache(dir, "hub-cache", "hf-hub-cache");
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect_cache(NULL);
    setenv("HOME", dir, 1);
    expect_cache("org/home");
    setenv("XDG_CACHE_HOME", dir, 1);
    expect_cache("org/xdg");
    setenv("HF_HOME", dir, 1);
    expect_cache("org/hf-home");
    setenv("HF_HUB_CACHE", hub, 1);
    expect_cache("org/hf-hub-cache");
    setenv("HF_HUB_CACHE", "", 1);
    expect_cache("org/hf-home");
    setenv("HF_HUB_CACHE", nowhere, 1);
    expect_cache(NULL);
    free(nowhere);
    free(hub);
    test_temp_dir_remove(dir);
}

static void test_refusals(void **state) {
    (void)state;
    mica_model_list *list = (mica_model_list *)1;
    assert_int_equal(mica_discover("/no/where", &list), MICA_ENOENT);
    assert_null(list);
    assert_non_null(strstr(mica_last_error(), "/no/where"));
    assert_int_equal(mica_discover("x", NULL), MICA_EINVAL);
}

static bool discover_once(void *arg) {
    mica_model_list *list;
    setenv("HF_HUB_CACHE", arg, 1);
    bool done = mica_discover(NULL, &list) == MICA_OK;
    if (done) assert_int_equal(list->count, 2);
    mica_model_list_free(&list);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    make_model(dir, "a",
               "{\"model_type\": \"llama\", \"quantization\": {\"bits\": 4, "
               "\"group_size\": 64}}");
    make_model(dir, "b", "{\"architectures\": [\"Qwen2ForCausalLM\"]}");
    test_fail_each_allocation(discover_once, dir);
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),    cmocka_unit_test(test_sorted),
        cmocka_unit_test(test_configs),   cmocka_unit_test(test_weights_are_not_mapped),
        cmocka_unit_test(test_cache),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("engine/discover", tests, NULL, NULL);
}
