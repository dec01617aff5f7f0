/* convert: every tensor of quantised and dequantised models compared with mlx-lm's, models with
 * fused adapters compared with the goldens of the adapters, and what is refused. */
#include "io/config.h"
#include "io/safetensors.h"
#include "model/fixture.h"

#include "model/packing.h"
#include "model/sentence.h"
#include <mica/convert.h>
#include <mica/io.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *dir, *made; /* a temporary folder, and the model in it */

static int make_folder(void **state) {
    (void)state;
    dir = test_temp_dir();
    made = test_format("%s/model", dir);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    free(made);
    test_temp_dir_remove(dir);
    return 0;
}

static void convert(const char *model, const mica_convert_options *options,
                    mica_convert_result *result) {
    char *from = fixture_path(model);
    if (mica_convert(from, made, options, result) != MICA_OK)
        fail_msg("%s: %s", model, mica_last_error());
    free(from);
}

/* Removes the converted model, for the next one. */
static void discard(void) {
    test_temp_dir_remove(dir);
    free(made);
    make_folder(NULL);
}

/* ---- goldens of mlx-lm ---- */

/* 64-bit FNV-1a, as in tools/make_convert_goldens.py. */
static uint64_t hash(const void *data, size_t n) {
    const unsigned char *bytes = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

static mc_str text_at(mc_json list, size_t i) {
    mc_str text = MC_STR("");
    size_t k = 0;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); k++)
        if (k == i) mc_json_get_str(it.value, &text);
    return text;
}

static void check_tensor(const char *model, const mc_weights *w, mc_str name, mc_json want) {
    static const struct {
        const char *mlx, *kind;
    } kinds[] = {{"float32", "F32"},
                 {"float16", "F16"},
                 {"bfloat16", "BF16"},
                 {"uint32", "U32"},
                 {"uint8", "U8"}};
    char text[17], *key = test_format("%.*s", MC_STR_ARG(name));
    const mc_weight_tensor *t = mc_weights_find(w, key);
    if (!t) fail_msg("%s is missing", key);
    const char *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mc_str_is(text_at(want, 0), kinds[i].mlx)) kind = kinds[i].kind;
    assert_non_null(kind);
    assert_string_equal(t->kind, kind);
    snprintf(text, sizeof text, "%016" PRIx64, hash(t->data, t->bytes));
    if (!mc_str_is(text_at(want, 2), text)) fail_msg("%s: %s differs from mlx-lm's", model, key);
    free(key);
}

/* Compares how modules are quantised: `want` lists the exceptions, and perhaps others. */
static void check_config(mc_json want) {
    mc_config *config;
    mc_packing packing;
    mica_quant quant;
    int64_t bits = 0, group_size = 0;
    assert_int_equal(mc_config_load(made, "config.json", MC_REQUIRED, &config), MICA_OK);
    mc_config_scope root = mc_config_root(config);
    assert_int_equal(mc_packing_read(&root, &packing), MICA_OK);
    assert_int_equal(packing.stated, mc_json_exists(want));
    if (packing.stated) {
        mc_json_get_int(mc_json_find(want, "bits"), &bits);
        mc_json_get_int(mc_json_find(want, "group_size"), &group_size);
        assert_int_equal(packing.common.bits, bits);
        assert_int_equal(packing.common.group_size, group_size);
    }
    for (mc_json_iter it = mc_json_begin(want); mc_json_next(&it);) {
        if (mc_json_get_type(it.value) != MC_JSON_OBJECT) continue;
        char *module = test_format("%.*s", MC_STR_ARG(it.key));
        assert_int_equal(mc_packing_of(&packing, module, module, &quant), MICA_OK);
        mc_json_get_int(mc_json_find(it.value, "bits"), &bits);
        mc_json_get_int(mc_json_find(it.value, "group_size"), &group_size);
        assert_int_equal(quant.bits, bits);
        assert_int_equal(quant.group_size, group_size);
        free(module);
    }
    mc_config_close(&config);
}

static const char *text_of(mc_json v, const char *key, char room[64]) {
    mc_str text;
    if (!mc_json_get_str(mc_json_find(v, key), &text)) return NULL;
    snprintf(room, 64, "%.*s", MC_STR_ARG(text));
    return room;
}

static mica_quant quant_of(mc_json options) {
    static const char *const modes[] = {"affine", "mxfp4", "mxfp8", "nvfp4"};
    char room[64];
    const char *mode = text_of(options, "q_mode", room);
    int64_t bits = 0, group_size = 0;
    mica_quant quant = {0};
    mc_json_get_int(mc_json_find(options, "q_bits"), &bits);
    mc_json_get_int(mc_json_find(options, "q_group_size"), &group_size);
    for (int i = 0; mode && i < 4; i++)
        if (strcmp(mode, modes[i]) == 0) quant.mode = (mica_quant_mode)i;
    quant.bits = (int)bits;
    quant.group_size = (int)group_size;
    return quant;
}

static void check_case(mc_json golden) {
    char model[64], recipe[64], dtype[64];
    mica_convert_options options = {.quant = quant_of(golden),
                                    .recipe = text_of(golden, "quant_predicate", recipe),
                                    .dtype = text_of(golden, "dtype", dtype)};
    mica_convert_result result = {.struct_bytes = sizeof result};
    mc_weights *w;
    size_t n = 0, matrices = 0;
    mc_json_get_bool(mc_json_find(golden, "quantize"), &options.quantise);
    mc_json_get_bool(mc_json_find(golden, "dequantize"), &options.dequantise);
    convert(text_of(golden, "model", model), &options, &result);
    assert_int_equal(mc_weights_open(made, NULL, &w), MICA_OK);
    mc_json want = mc_json_find(golden, "tensors");
    for (mc_json_iter it = mc_json_begin(want); mc_json_next(&it); n++)
        check_tensor(model, w, it.key, it.value);
    uint64_t bytes = 0;
    for (size_t i = 0; i < mc_weights_count(w); i++) {
        matrices += mc_weights_at(w, i)->ndim == 2;
        bytes += mc_weights_at(w, i)->bytes;
    }
    assert_int_equal(matrices, n);
    assert_int_equal(result.bytes, bytes);
    check_config(mc_json_find(golden, "quantization"));
    mc_weights_close(&w);
    discard();
}

static void test_mlx_lm(void **state) {
    (void)state;
    char *path = test_format("%s/convert/quantized.json", test_cases_dir());
    mc_json_doc *doc = test_load_json(path);
    size_t n = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); n++)
        check_case(it.value);
    print_message("%zu conversions, every matrix as mlx-lm's\n", n);
    assert_true(n >= 19);
    mc_json_close(&doc);
    free(path);
}

/* ---- fused adapters ---- */

/* The fused model alone has the logits that another program computed with model and adapter. f has
 * both, so only its goldens and its base's name are used. */
static void check_fused(const model_fixture *f) {
    const mica_convert_options options = {
        .adapter = f->path, .dtype = "float32", .dequantise = true};
    mica_convert_result result = {.struct_bytes = sizeof result};
    mc_str base;
    mc_lm *lm;
    int checked = 0;
    assert_true(mc_json_get_str(mc_json_find(mc_json_root(f->golden), "base"), &base));
    char *from = test_format("%s/%.*s", test_fixtures_dir(), MC_STR_ARG(base));
    if (mica_convert(from, made, &options, &result) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_true(result.fused > 0);
    assert_int_equal(mc_lm_open(made, f->device, NULL, &lm), MICA_OK);
    assert_int_equal(lm->adapter_parameters, 0);
    for (int i = 0; i < 16; i++) {
        size_t n;
        const int32_t *ids = fixture_ints(f, &n, "prompt%d.ids", i);
        const float *want = fixture_floats(f, NULL, "prompt%d.logits", i);
        if (!ids || !want) continue;
        float *got = fixture_logits(f->device, lm, ids, n);
        fixture_compare(got, want, n * (size_t)lm->spec.vocab, f->tolerance, "%s: prompt%d.logits",
                        f->name, i);
        free(got);
        checked++;
    }
    assert_true(checked >= 3);
    mc_lm_close(&lm);
    free(from);
    discard();
}

static void test_fused(void **state) {
    (void)state;
    fixture_each_adapter(check_fused);
}

/* A quantised model stays quantised, and only the matrices of the adapter change. */
static void test_fused_quantised(void **state) {
    (void)state;
    char *adapter = fixture_adapter_path("mlx_on_q4_qwen3"), *from = fixture_path("q4g64_qwen3");
    const mica_convert_options options = {.adapter = adapter};
    mica_convert_result result = {.struct_bytes = sizeof result};
    mc_weights *before, *after;
    size_t changed = 0;
    convert("q4g64_qwen3", &options, &result);
    assert_int_equal(result.fused, 9);
    assert_int_equal(mc_weights_open(from, NULL, &before), MICA_OK);
    assert_int_equal(mc_weights_open(made, NULL, &after), MICA_OK);
    assert_int_equal(mc_weights_count(after), mc_weights_count(before));
    for (size_t i = 0; i < mc_weights_count(after); i++) {
        const mc_weight_tensor *t = mc_weights_at(after, i);
        const mc_weight_tensor *old = mc_weights_find(before, t->name);
        assert_int_equal(t->bytes, old->bytes);
        bool same = memcmp(t->data, old->data, t->bytes) == 0;
        bool named =
            strstr(t->name, "q_proj.") || strstr(t->name, "k_proj.") || strstr(t->name, "up_proj.");
        changed += !same;
        assert_true(same || named);
    }
    assert_int_equal(changed, 27); /* codes, scales and biases of nine matrices */
    mc_weights_close(&before);
    mc_weights_close(&after);
    free(adapter);
    free(from);
}

/* ---- files ---- */

static void test_files(void **state) {
    (void)state;
    char *from = fixture_copy("qwen3_tied", "config.json", NULL, NULL);
    const mica_convert_options options = {.shard_bytes = 30000, .dtype = "float16"};
    test_write_below(from, "chat_template.jinja", "{{ messages }}");
    test_write_below(from, "generation_config.json", "{\"top_k\": 3}");
    test_write_below(from, "pytorch_model.bin", "weights");
    test_write_below(from, ".hidden", "x");
    if (mica_convert(from, made, &options, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
    static const char *const there[] = {"config.json", "chat_template.jinja", "tokenizer.json",
                                        "generation_config.json", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        char *path = test_format("%s/%s", made, there[i]);
        if (access(path, R_OK) != 0) fail_msg("%s is missing", there[i]);
        free(path);
    }
    test_list shards = test_list_files(made, ".safetensors");
    assert_true(shards.count > 3);
    assert_int_equal(test_count_entries(made), shards.count + 5);
    char *config = test_format("%s/config.json", made), *text = test_read_file(config, NULL);
    assert_non_null(strstr(text, "\"torch_dtype\": \"float16\""));
    assert_non_null(strstr(text, "\"rms_norm_eps\": 1e-06"));
    assert_int_equal(test_count_entries(dir), 1);
    free(text);
    free(config);
    test_list_free(&shards);
    test_temp_dir_remove(from);
}

/* An embedder's modules go with it: it makes the same vectors. */
static void test_modules(void **state) {
    (void)state;
    static const char *const there[] = {"1_Pooling/config.json", "2_Dense/config.json",
                                        "2_Dense/model.safetensors", "3_Dense/model.safetensors"};
    mica_device *device;
    mc_lm *lm;
    char *from = fixture_path("../embedders/embeddinggemma");
    if (mica_convert(from, made, NULL, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        char *a = test_format("%s/%s", from, there[i]), *b = test_format("%s/%s", made, there[i]);
        size_t n, m;
        char *x = test_read_file(a, &n), *y = test_read_file(b, &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n);
        free(a);
        free(b);
        free(x);
        free(y);
    }
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    if (mc_lm_open(made, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(lm->sentence->n_dense, 2);
    mc_lm_close(&lm);
    mica_device_close(&device);
    free(from);
}

/* The common quantisation stays, also where only quantization_config says it. */
static void test_common(void **state) {
    (void)state;
    const mica_convert_options options = {
        .quantise = true, .recipe = "mixed_4_6", .quant = {.group_size = 32}};
    convert("qwen3_tied", &options, NULL);
    char *config = test_format("%s/config.json", made), *text = test_read_file(config, NULL);
    char *key = strstr(text, "\"quantization\""), *again = test_format("%s/again", dir);
    assert_true(key && strstr(text, "\"quantization_config\""));
    memcpy(key, "\"quantixation\"", 14);
    test_write_file(config, text, strlen(text));
    if (mica_convert(made, again, NULL, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
    char *copied = test_format("%s/config.json", again), *other = test_read_file(copied, NULL);
    const char *want = strstr(text, "\"bits\""),
               *got = strstr(strstr(other, "\"quantization\""), "\"bits\"");
    assert_memory_equal(got, want, 9);
    free(other);
    free(copied);
    free(again);
    free(text);
    free(config);
}

/* A head of its own is kept, and the new config no longer denies it, whatever its family calls the
 * embedding. */
static void test_own_head(void **state) {
    (void)state;
    static const char *const models[] = {"q4g32_llama", "../families/nemotron_h_hf"};
    for (int i = 0; i < 2; i++) {
        const mica_convert_options options = {.dequantise = i == 0};
        char *from = fixture_copy(models[i], "config.json", "\"tie_word_embeddings\": false",
                                  "\"tie_word_embeddings\": true");
        if (mica_convert(from, made, &options, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
        char *config = test_format("%s/config.json", made), *text = test_read_file(config, NULL);
        assert_non_null(strstr(text, "\"tie_word_embeddings\": false"));
        mc_weights *w;
        assert_int_equal(mc_weights_open(made, NULL, &w), MICA_OK);
        assert_non_null(mc_weights_find(w, "lm_head.weight"));
        mc_weights_close(&w);
        free(text);
        free(config);
        test_temp_dir_remove(from);
        discard();
    }
}

/* A nemotron_h whose head is its embedding, and PEFT's factors of the latter. */
static char *make_tied(const char *adapter) {
    char *from = fixture_copy("../families/nemotron_h_hf", "config.json",
                              "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    char *path = test_format("%s/model.safetensors", from);
    char *factors = test_format("%s/adapter_model.safetensors", adapter);
    mica_named_array *arrays,
        pair[2] = {{"base_model.model.backbone.embeddings.lora_embedding_A", MICA_NONE},
                   {"base_model.model.backbone.embeddings.lora_embedding_B", MICA_NONE}};
    mica_device *device;
    mica_scope *s;
    size_t n, kept = 0;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_load_safetensors(path, s, &arrays, &n), MICA_OK);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(arrays[i].name, "backbone.embeddings.weight") == 0)
            for (int k = 0; k < 2; k++) {
                int64_t size = mica_array_dim(arrays[i].array, k);
                pair[k].array =
                    mica_ones(s, k ? (int64_t[]){size, 2} : (int64_t[]){2, size}, 2, MICA_F32);
            }
        if (strcmp(arrays[i].name, "lm_head.weight") != 0) arrays[kept++] = arrays[i];
    }
    assert_true(kept == n - 1 && mica_valid(pair[0].array));
    test_write_below(adapter, "adapter_config.json",
                     "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 2}");
    assert_int_equal(mica_save_safetensors(factors, pair, 2, NULL, 0), MICA_OK);
    assert_int_equal(mica_save_safetensors(path, arrays, kept, NULL, 0), MICA_OK);
    mica_free(arrays);
    mica_scope_close(&s);
    mica_device_close(&device);
    free(factors);
    free(path);
    return from;
}

/* PEFT changes an embedding alone, which the head is then no longer, whatever it is called. */
static void test_fused_ends(void **state) {
    (void)state;
    char *adapter = test_temp_dir(), *from = make_tied(adapter);
    const mica_convert_options options = {.adapter = adapter};
    if (mica_convert(from, made, &options, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
    mc_weights *was, *w;
    assert_int_equal(mc_weights_open(from, NULL, &was), MICA_OK);
    assert_int_equal(mc_weights_open(made, NULL, &w), MICA_OK);
    const mc_weight_tensor *head = mc_weights_find(w, "lm_head.weight"),
                           *embed = mc_weights_find(w, "backbone.embeddings.weight"),
                           *old = mc_weights_find(was, "backbone.embeddings.weight");
    assert_non_null(head);
    assert_true(head->bytes == old->bytes && embed->bytes == old->bytes);
    assert_memory_equal(head->data, old->data, old->bytes);
    assert_memory_not_equal(embed->data, old->data, old->bytes);
    mc_weights_close(&was);
    mc_weights_close(&w);
    test_temp_dir_remove(adapter);
    test_temp_dir_remove(from);
}

/* ---- what is refused ---- */

static void refuse(const char *model, const mica_convert_options *options, mica_status want,
                   const char *says) {
    char *from = fixture_path(model);
    mica_status got = mica_convert(from, made, options, NULL);
    if (got != want) fail_msg("%s: %s", mica_status_name(got), mica_last_error());
    if (!strstr(mica_last_error(), says))
        fail_msg("'%s' does not say '%s'", mica_last_error(), says);
    assert_int_equal(test_count_entries(dir), 0);
    free(from);
}

static void test_refused(void **state) {
    (void)state;
    char *adapter = fixture_adapter_path("mlx_qwen3");
#define REFUSE(model, status, says, ...) \
    refuse(model, &(mica_convert_options){__VA_ARGS__}, status, says)
    REFUSE("none", MICA_ENOENT, "none", .quantise = true);
    REFUSE("q4g64_qwen3", MICA_EINVAL, "quantised already", .quantise = true);
    REFUSE("qwen3_tied", MICA_EINVAL, "not both", .quantise = true, .dequantise = true);
    REFUSE("qwen3_tied", MICA_EINVAL, "7 bits", .quantise = true, .quant.bits = 7);
    REFUSE("qwen3_tied", MICA_EINVAL, "groups of 48", .quantise = true, .quant.group_size = 48);
    REFUSE("qwen3_tied", MICA_EINVAL, "mxfp4 has no 8 bits", .quantise = true,
           .quant = {MICA_QUANT_MXFP4, 8, 0});
    REFUSE("qwen3_tied", MICA_EINVAL, "quant.mode", .quantise = true, .quant.mode = 9);
    REFUSE("qwen3_tied", MICA_EINVAL, "mixed_9", .quantise = true, .recipe = "mixed_9");
    REFUSE("qwen3_tied", MICA_EINVAL, "in nvfp4", .quantise = true, .recipe = "mixed_2_6",
           .quant.mode = MICA_QUANT_NVFP4);
    REFUSE("qwen3_tied", MICA_EINVAL, "not asked for", .recipe = "mixed_2_6");
    REFUSE("qwen3_tied", MICA_EINVAL, "float8", .dtype = "float8");
    REFUSE("qwen2_tied", MICA_EINVAL, "whole groups of 32", .quantise = true,
           .quant.group_size = 32);
    REFUSE("qwen3_tied", MICA_EINVAL, "of 64; groups of 32 would fit", .quantise = true);
    REFUSE("llama_untied_f32", MICA_ESHAPE, "does not fit", .adapter = adapter);
    REFUSE("qwen3_tied", MICA_ENOENT, "/none", .adapter = "/none");
#undef REFUSE
    assert_int_equal(mica_convert(NULL, made, NULL, NULL), MICA_EINVAL);
    free(adapter);
}

/* Two tensors of full training for one weight. */
static void test_twins(void **state) {
    (void)state;
    mica_device *device;
    mica_scope *s;
    char *adapter = test_temp_dir(), *file = test_format("%s/adapters.safetensors", adapter);
    char *golden = fixture_path("qwen3_tied"),
         *weights = test_format("%s/model.safetensors", golden);
    mica_array_file *f;
    size_t at;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_array_file_open(weights, &f), MICA_OK);
    assert_true(mica_array_file_find(f, "model.norm.weight", &at));
    mica_array norm = mica_array_file_load(f, at, s);
    const mica_named_array two[] = {{"model.norm.weight", norm}, {"norm.weight", norm}};
    assert_int_equal(mica_save_safetensors(file, two, 2, NULL, 0), MICA_OK);
    test_write_below(adapter, "adapter_config.json", "{\"fine_tune_type\": \"full\"}");
    const mica_convert_options options = {.adapter = adapter};
    refuse("qwen3_tied", &options, MICA_EFORMAT, "under two names");
    mc_lm *lm;
    assert_int_equal(mc_lm_open(golden, device, NULL, &lm), MICA_OK);
    assert_int_equal(mc_lm_adapt(lm, adapter), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "under two names"));
    mc_lm_close(&lm);
    assert_int_equal(mica_save_safetensors(file, two, 1, NULL, 0), MICA_OK);
    convert("qwen3_tied", &options, NULL);
    mica_array_file_close(&f);
    mica_scope_close(&s);
    mica_device_close(&device);
    free(weights);
    free(golden);
    free(file);
    test_temp_dir_remove(adapter);
}

static void test_existing(void **state) {
    (void)state;
    test_write_below(dir, "model/mine", "text");
    char *from = fixture_path("qwen3_tied"), *none = test_format("%s/none/model", dir);
    assert_int_equal(mica_convert(from, made, NULL, NULL), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "exists"));
    assert_int_equal(test_count_entries(made), 1);
    assert_int_equal(mica_convert(from, none, NULL, NULL), MICA_ENOENT);
    free(from);
    free(none);
}

/* ---- the end before the end ---- */

typedef struct ticks {
    mica_cancel *cancel;
    uint64_t count, at, done, total;
} ticks;

static void tick(void *user, uint64_t done, uint64_t total) {
    ticks *t = user;
    assert_true(done >= t->done && done <= total);
    *t = (ticks){t->cancel, t->count + 1, t->at, done, total};
    if (t->count == t->at) mica_cancel_set(t->cancel);
}

/* Codes without rows, whose scales may then have any length: the header is all of the file. */
static void refuse_scales(const char *config, const char *scales) {
    char *from = test_temp_dir(), *path = test_format("%s/model.safetensors", from);
    char *file = test_format("12345678{\"x.weight\":{\"dtype\":\"U32\",\"shape\":[0,1],"
                             "\"data_offsets\":[0,0]},\"x.scales\":{%s,\"data_offsets\":[0,0]}}",
                             scales);
    uint64_t header = strlen(file) - 8;
    for (int i = 0; i < 8; i++)
        file[i] = (char)(header >> 8 * i);
    test_write_file(path, file, header + 8);
    test_write_below(from, "config.json", config);
    mica_status got = mica_convert(from, made, &(mica_convert_options){.dequantise = true}, NULL);
    if (got != MICA_ESHAPE && got != MICA_EFORMAT)
        fail_msg("%s: %s", mica_status_name(got), mica_last_error());
    assert_non_null(strstr(mica_last_error(), "'x."));
    free(file);
    free(path);
    test_temp_dir_remove(from);
}

static void test_long_scales(void **state) {
    (void)state;
    static const char *const shapes[] = {
        "\"dtype\":\"F16\",\"shape\":[0,288230376151711744]",  /* 2^58 */
        "\"dtype\":\"U8\",\"shape\":[0,288230376151711744]",   /* of fewer bytes */
        "\"dtype\":\"F16\",\"shape\":[0,2305843009213693952]", /* 2^61 */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        refuse_scales("{\"quantization\": {\"group_size\": 64}}", shapes[i]);
        refuse_scales("{\"quantization\": {\"bits\": 8}}", shapes[i]);
    }
}

static void test_cancelled(void **state) {
    (void)state;
    char *from = fixture_path("qwen3_tied");
    ticks t = {0};
    mica_convert_options options = {.quantise = true,
                                    .quant.mode = MICA_QUANT_NVFP4,
                                    .progress = tick,
                                    .progress_user = &t,
                                    .shard_bytes = 1000};
    assert_int_equal(mica_convert(from, made, &options, NULL), MICA_OK);
    assert_int_equal(t.done, t.total);
    uint64_t all = t.count;
    discard();
    for (uint64_t at = 1; at <= all; at += 7) {
        t = (ticks){.at = at};
        assert_int_equal(mica_cancel_open(&t.cancel), MICA_OK);
        options.cancel = t.cancel;
        assert_int_equal(mica_convert(from, made, &options, NULL), MICA_ECANCELLED);
        assert_int_equal(test_count_entries(dir), 0);
        mica_cancel_close(&t.cancel);
    }
    free(from);
}

/* A conversion that is to leave nothing where it fails. */
typedef struct attempt {
    const char *from;
    mica_convert_options options;
} attempt;

static bool convert_once(void *arg) {
    const attempt *a = arg;
    mica_status status = mica_convert(a->from, made, &a->options, NULL);
    if (status == MICA_OK) {
        discard();
        return true;
    }
    assert_int_equal(status, MICA_ENOMEM);
    assert_int_equal(test_count_entries(dir), 0);
    return false;
}

static void test_out_of_memory(void **state) {
    (void)state;
    char *dense = fixture_copy("gemma2_f32", "config.json", NULL, NULL);
    char *quantised = fixture_copy("q4g64_qwen3", "config.json", NULL, NULL);
    char *adapter = fixture_adapter_path("mlx_on_q4_qwen3");
    attempt quantise = {dense, {.quantise = true}};
    attempt fuse = {quantised, {.adapter = adapter, .dequantise = true}};
    test_fail_each_allocation(convert_once, &quantise);
    test_fail_each_allocation(convert_once, &fuse);
    test_temp_dir_remove(dense);
    test_temp_dir_remove(quantised);
    free(adapter);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_mlx_lm),        TEST(test_fused),       TEST(test_fused_quantised),
        TEST(test_files),         TEST(test_modules),     TEST(test_refused),
        TEST(test_existing),      TEST(test_twins),       TEST(test_cancelled),
        TEST(test_out_of_memory), TEST(test_long_scales), TEST(test_common),
        TEST(test_own_head),      TEST(test_fused_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
