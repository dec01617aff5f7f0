/* Adapters: logits compared with goldens of mlx-lm's and PEFT's arithmetic; adapters of every kind
 * of matrix compared with weights merged beforehand; adapters that do not fit. */
#include "model/fixture.h"

#include "base/buffer.h"
#include "model/family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_device *device;

static void check_golden(const model_fixture *f) {
    int checked = 0;
    for (int i = 0; i < 16; i++) {
        size_t n;
        const int64_t *shape;
        const int32_t *ids = fixture_ints(f, &n, "prompt%d.ids", i);
        const float *want = fixture_floats(f, &shape, "prompt%d.logits", i);
        if (!ids || !want) continue;
        assert_int_equal(shape[1], f->lm->spec.vocab);
        float *got = fixture_logits(f->device, f->lm, ids, n);
        fixture_compare(got, want, n * (size_t)shape[1], f->tolerance, "%s: prompt%d.logits",
                        f->name, i);
        free(got);
        checked++;
    }
    assert_true(checked >= 3);
    assert_string_equal(f->lm->adapter, f->path);
}

static void test_goldens(void **state) {
    (void)state;
    fixture_each_adapter(check_golden);
}

static void test_parameters(void **state) {
    (void)state;
    model_fixture f;
    char *adapter = fixture_adapter_path("mlx_qwen3");
    fixture_open("qwen3_tied", &f);
    assert_int_equal(mc_lm_adapt(f.lm, adapter), MICA_OK);
    /* rank 8; two layers of q (48 to 96), v (48 to 48), gate (48 to 80), down (80 to 48) */
    assert_int_equal(f.lm->adapter_parameters, 2 * 8 * (144 + 96 + 128 + 128));
    assert_int_equal(mc_lm_adapt(f.lm, adapter), MICA_EINVAL);
    free(adapter);
    fixture_close(&f);
}

/* ---- generated adapters ---- */

typedef struct made {
    char *dir;
    mc_buffer header, data;
} made;

static made make_begin(const char *config) {
    made m = {.dir = test_temp_dir()};
    char *path = test_format("%s/adapter_config.json", m.dir);
    test_write_file(path, config, strlen(config));
    free(path);
    return m;
}

/* Adds a tensor [rows, cols] f32. Returns its values, to be freed with free(). */
static float *make_tensor(made *m, const char *name, int64_t rows, int64_t cols) {
    size_t n = (size_t)(rows * cols), begin = m->data.len;
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++)
        values[i] = 0.25f * (float)sin((double)(i * 7 + begin) + (double)strlen(name));
    assert_true(mc_buffer_add(&m->data, values, n * sizeof *values));
    assert_true(mc_buffer_printf(&m->header,
                                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld],"
                                 "\"data_offsets\":[%zu,%zu]}",
                                 m->header.len ? "," : "", name, (long long)rows, (long long)cols,
                                 begin, m->data.len));
    return values;
}

static void make_none(made *m, const char *name, int64_t rows, int64_t cols) {
    free(make_tensor(m, name, rows, cols));
}

static void make_end(made *m, const char *file) {
    char *path = test_format("%s/%s", m->dir, file);
    mc_buffer all = {0};
    uint64_t len = m->header.len + 2;
    assert_true(mc_buffer_add(&all, &len, sizeof len) && mc_buffer_add_byte(&all, '{') &&
                mc_buffer_add(&all, m->header.data, m->header.len) &&
                mc_buffer_add_byte(&all, '}') && mc_buffer_add(&all, m->data.data, m->data.len));
    test_write_file(path, all.data, all.len);
    mc_buffer_deinit(&all);
    mc_buffer_deinit(&m->header);
    mc_buffer_deinit(&m->data);
    free(path);
}

#define MLX_FILE "adapters.safetensors"
#define PEFT_FILE "adapter_model.safetensors"
#define MLX_CONFIG(keys)                                                                           \
    "{\"num_layers\": 1, \"lora_parameters\": {\"rank\": 2, \"scale\": 4.0, \"keys\": [" keys "]}" \
    "}"

/* The weight of a dense f32 matrix plus scale * a b, [out, in], as a leaf in the model. */
static mica_array merge(const mc_lm *lm, const mc_linear *linear, double scale, const float *a,
                        const float *b, int64_t rank, bool table) {
    int64_t out = linear->out, in = linear->in;
    const int64_t shape[] = {out, in};
    float *w = malloc((size_t)(out * in) * sizeof *w);
    mica_scope *s;
    assert_non_null(w);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array f32 = mica_astype(s, linear->weight, MICA_F32);
    assert_int_equal(mica_read(f32, w, (size_t)(out * in) * sizeof *w), MICA_OK);
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++) {
            double sum = 0.0;
            for (int64_t r = 0; r < rank; r++) /* an embedding: a [out, r], b [r, in] */
                sum += table ? (double)a[o * rank + r] * (double)b[r * in + i]
                             : (double)a[i * rank + r] * (double)b[r * out + o];
            w[o * in + i] += (float)(scale * sum);
        }
    mica_array merged = mica_from_data(lm->scope, w, MICA_F32, shape, 2);
    mica_scope_close(&s);
    free(w);
    return merged;
}

static mc_lm *open_lm(const char *name) {
    mc_lm *lm;
    char *path = fixture_path(name);
    if (mc_lm_open(path, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    free(path);
    return lm;
}

static const int32_t ids[] = {3, 14, 15, 92, 65, 35, 3};

enum { IDS = sizeof ids / sizeof *ids };

static void compare_models(const mc_lm *got, const mc_lm *want, const char *what) {
    size_t n = IDS * (size_t)want->spec.vocab;
    float *a = fixture_logits(device, got, ids, IDS), *b = fixture_logits(device, want, ids, IDS);
    fixture_compare(a, b, n, 1e-3, "%s", what);
    free(a);
    free(b);
}

static void adapt(mc_lm *lm, made *m) {
    if (mc_lm_adapt(lm, m->dir) != MICA_OK) fail_msg("%s", mica_last_error());
    test_temp_dir_remove(m->dir);
}

/* mlx-lm: an embedding's adapter also applies to the tied head. */
static void test_mlx_embedding(void **state) {
    (void)state;
    mc_lm *lm = open_lm("qwen3_tied"), *want = open_lm("qwen3_tied");
    int64_t vocab = lm->spec.vocab, hidden = lm->spec.hidden;
    made m = make_begin(MLX_CONFIG("\"model.embed_tokens\""));
    float *a = make_tensor(&m, "model.embed_tokens.lora_a", vocab, 2);
    float *b = make_tensor(&m, "model.embed_tokens.lora_b", 2, hidden);
    make_end(&m, MLX_FILE);
    adapt(lm, &m);
    want->embed.weight = merge(want, &want->embed, 4.0, a, b, 2, true);
    want->head = want->embed;
    compare_models(lm, want, "mlx-lm's embedding");
    free(a);
    free(b);
    mc_lm_close(&lm);
    mc_lm_close(&want);
}

static void transpose(const float *x, int64_t rows, int64_t cols, float *out) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            out[j * rows + i] = x[i * cols + j];
}

/* PEFT: embedding and head each have their own adapter, tied or not. rank and alpha follow the
 * patterns. */
static void check_peft(const char *config, const char *model, double embed_scale, double head_scale,
                       bool rows_too) {
    mc_lm *lm = open_lm(model), *want = open_lm(model);
    int64_t vocab = lm->spec.vocab, hidden = lm->spec.hidden;
    float *transposed = malloc((size_t)(vocab + hidden) * 2 * sizeof *transposed);
    float *transposed_b = transposed + 2 * hidden;
    made m = make_begin(config);
    assert_non_null(transposed);
    if (rows_too) {
        float *a =
            make_tensor(&m, "base_model.model.model.embed_tokens.lora_embedding_A", 2, vocab);
        float *b =
            make_tensor(&m, "base_model.model.model.embed_tokens.lora_embedding_B", hidden, 2);
        mica_array tied = want->embed.weight;
        transpose(b, hidden, 2, transposed);
        transpose(a, 2, vocab, transposed_b);
        want->embed.weight =
            merge(want, &want->embed, embed_scale, transposed_b, transposed, 2, true);
        if (lm->tied) want->head.weight = tied;
        free(a);
        free(b);
    }
    float *a = make_tensor(&m, "base_model.model.lm_head.lora_A.weight", 2, hidden);
    float *b = make_tensor(&m, "base_model.model.lm_head.lora_B.weight", vocab, 2);
    make_end(&m, PEFT_FILE);
    transpose(a, 2, hidden, transposed);
    transpose(b, vocab, 2, transposed_b);
    want->head.weight = merge(want, &want->head, head_scale, transposed, transposed_b, 2, false);
    adapt(lm, &m);
    compare_models(lm, want, config);
    free(a);
    free(b);
    free(transposed);
    mc_lm_close(&lm);
    mc_lm_close(&want);
}

#define PEFT_CONFIG(r, more) \
    "{\"peft_type\": \"LORA\", \"r\": " #r ", \"lora_alpha\": 3, \"bias\": \"none\"" more "}"

static void test_peft_places_and_scales(void **state) {
    (void)state;
    const double root = sqrt(2.0);
    check_peft(PEFT_CONFIG(2, ""), "qwen3_tied", 1.5, 1.5, true);
    check_peft(PEFT_CONFIG(2, ", \"use_rslora\": true"), "qwen3_tied", 3 / root, 3 / root, true);
    check_peft(PEFT_CONFIG(8, ", \"rank_pattern\": {\"lm_head\": 2, \"embed_tokens\": 2}"),
               "qwen3_tied", 1.5, 1.5, true);
    check_peft(PEFT_CONFIG(8, ", \"rank_pattern\": {\"(q_proj|lm_h[a-f]+d)\": 2}, "
                              "\"use_rslora\": true, \"alpha_pattern\": {\"^lm_head$\": 5}"),
               "qwen3_tied", 0.0, 5 / root, false);
}

/* ---- adapters that do not fit ---- */

/* Opens a model with a changed copy of an adapter. The error must have this status and these
 * words. */
static void expect_error(const char *adapter, const char *model, const char *file, const char *from,
                         const char *to, mica_status status, const char *word, const char *other) {
    char *source = fixture_adapter_path(adapter);
    char *dir = fixture_copy_folder(source, file, from, to);
    mc_lm *lm = open_lm(model);
    mica_status got = mc_lm_adapt(lm, dir);
    if (got != status || !strstr(mica_last_error(), word) || !strstr(mica_last_error(), other))
        fail_msg("%s with %s: %s: %s; want %s with \"%s\" and \"%s\"", adapter, to,
                 mica_status_name(got), mica_last_error(), mica_status_name(status), word, other);
    mc_lm_close(&lm);
    assert_int_equal(test_active_bytes(device), 0);
    test_temp_dir_remove(dir);
    free(source);
}

#define CONFIG "adapter_config.json"

static void test_other_models(void **state) {
    (void)state;
    expect_error("peft_qwen3", "gemma3_text_f32", NULL, NULL, NULL, MICA_ESHAPE, PEFT_FILE,
                 "lora_A.weight is F32[4,48]");
    expect_error("mlx_on_q4_qwen3", "qwen3_tied", NULL, NULL, NULL, MICA_ESHAPE, "F32[64,4]",
                 "[48,4]");
    expect_error("peft_qwen3", "qwen3_tied", PEFT_FILE, "layers.2.mlp.up_proj.lora_A",
                 "layers.7.mlp.up_proj.lora_A", MICA_ENOENT, "factor of its pair is missing",
                 "layers.");
    expect_error("mlx_qwen3", "qwen3_tied", MLX_FILE, "model.layers.1.mlp.down_proj.lora_a",
                 "model.layers.1.mlp.dawn_proj.lora_a", MICA_ENOENT,
                 "factor of its pair is missing", "dawn_proj.lora_a: the");
    expect_error("mlx_qwen3", "qwen3_tied", CONFIG, "\"num_layers\": 2", "\"num_layers\": 1",
                 MICA_EFORMAT, "num_layers", "block 1");
    expect_error("mlx_qwen3", "qwen3_tied", CONFIG, "\"num_layers\": 2", "\"num_layers\": 3",
                 MICA_ENOENT, "4 modules", "model.layers.0.self_attn.q_proj");
    expect_error("mlx_qwen3", "qwen3_tied", CONFIG, "self_attn.v_proj", "self_attn.k_proj",
                 MICA_ENOENT, "2 modules", "model.layers.1.self_attn.k_proj");
    expect_error("peft_qwen3", "qwen3_tied", CONFIG, "\"up_proj\"", "\"down_proj\"", MICA_ENOENT,
                 "3 modules", "model.layers.2.mlp.down_proj");
}

static void expect_made_error(made *m, const char *file, mica_status status, const char *word,
                              const char *other) {
    make_end(m, file);
    mc_lm *lm = open_lm("qwen3_tied");
    mica_status got = mc_lm_adapt(lm, m->dir);
    if (got != status || !strstr(mica_last_error(), word) || !strstr(mica_last_error(), other))
        fail_msg("%s: %s; want %s with \"%s\" and \"%s\"", mica_status_name(got), mica_last_error(),
                 mica_status_name(status), word, other);
    mc_lm_close(&lm);
    test_temp_dir_remove(m->dir);
}

static void test_strangers(void **state) {
    (void)state;
    static const char *const names[] = {
        "model.layers.3.mlp.up_proj",  "model.layers.99999999999999999999.mlp.up_proj",
        "model.layers.-1.mlp.up_proj", "model.layers.2.mlp.gate",
        "transformer.h.0.attn",        "lm_head",
    };
    made m = make_begin(MLX_CONFIG(""));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *a = test_format("%s.lora_a", names[i]), *b = test_format("%s.lora_b", names[i]);
        make_none(&m, a, 48, 2);
        make_none(&m, b, 2, 80);
        free(a);
        free(b);
    }
    expect_made_error(&m, MLX_FILE, MICA_ENOENT, "(qwen3, 3 blocks)? 6 modules",
                      "model.layers.3.mlp.up_proj, model.layers.999");

    m = make_begin(PEFT_CONFIG(2, ""));
    make_none(&m, "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", 2, 48);
    make_none(&m, "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight", 80, 2);
    make_none(&m, "model.layers.0.mlp.up_proj.lora_A.weight", 2, 48);
    expect_made_error(&m, PEFT_FILE, MICA_EUNSUPPORTED, "1 tensors", "model.layers.0.mlp.up_proj");

    m = make_begin(PEFT_CONFIG(2, ""));
    make_none(&m, "model.layers.0.mlp.up_proj.lora_A.weight", 2, 48);
    make_none(&m, "model.layers.0.mlp.up_proj.lora_B.weight", 80, 2);
    make_none(&m, "layers.0.mlp.up_proj.lora_A.weight", 2, 48);
    make_none(&m, "layers.0.mlp.up_proj.lora_B.weight", 80, 2);
    expect_made_error(&m, PEFT_FILE, MICA_EFORMAT, "second for its matrix", "mlp.up_proj");
}

/* An adapter of a model for images: modules for images are ignored. */
static void test_parts_for_images(void **state) {
    (void)state;
    made m = make_begin(MLX_CONFIG(""));
    make_none(&m, "model.layers.2.mlp.up_proj.lora_a", 48, 2);
    make_none(&m, "model.layers.2.mlp.up_proj.lora_b", 2, 80);
    make_none(&m, "model.vision_tower.layers.0.mlp.fc1.lora_a", 5, 2);
    make_none(&m, "model.vision_tower.layers.0.mlp.fc1.lora_b", 2, 5);
    make_end(&m, MLX_FILE);
    mc_lm *lm = open_lm("qwen3_tied");
    adapt(lm, &m);
    assert_int_equal(lm->adapter_parameters, 2 * (48 + 80));
    mc_lm_close(&lm);
}

/* mlx-lm takes keys as the last parts of names in the last layers, then as whole names anywhere. */
static void test_whole_names(void **state) {
    (void)state;
    made m = make_begin(MLX_CONFIG("\"model.layers.0.mlp.up_proj\""));
    make_none(&m, "model.layers.0.mlp.up_proj.lora_a", 48, 2);
    make_none(&m, "model.layers.0.mlp.up_proj.lora_b", 2, 80);
    make_end(&m, MLX_FILE);
    mc_lm *lm = open_lm("qwen3_tied");
    adapt(lm, &m);
    assert_true(mica_valid(mc_lm_find(lm, MC_STR("layers.0.mlp.up_proj"))->linear.lora_a));
    mc_lm_close(&lm);
}

static void test_wrong_factors(void **state) {
    (void)state;
    expect_error("mlx_qwen3", "qwen3_tied", CONFIG, "\"rank\": 8", "\"rank\": 7", MICA_ESHAPE,
                 "is F32[", ",7]");
    expect_error("mlx_qwen3", "qwen3_tied", MLX_FILE, "\"dtype\":\"F32\"", "\"dtype\":\"I32\"",
                 MICA_EDTYPE, "is I32[", "F32, F16 or BF16 [");
    expect_error("peft_qwen3", "qwen3_tied", CONFIG, "\"rank_pattern\": {}",
                 "\"rank_pattern\": {\"k_proj\": 5}", MICA_ESHAPE, "k_proj.lora_A.weight",
                 "[5,48]");
}

static bool adapt_once(void *arg) {
    mc_lm *lm = NULL;
    mica_device *own;
    char *path = fixture_path("qwen3_tied");
    bool done = false;
    if (test_device_open(&(mica_device_options){.threads = 1}, &own) == MICA_OK) {
        uint64_t before = mica_device_active_bytes(own); /* others' where MLX counts */
        done = mc_lm_open(path, own, NULL, &lm) == MICA_OK && mc_lm_adapt(lm, arg) == MICA_OK;
        mc_lm_close(&lm);
        assert_int_equal(mica_device_active_bytes(own), before);
        mica_device_close(&own);
    }
    free(path);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    char *source = fixture_adapter_path("peft_qwen3");
    char *dir = fixture_copy_folder(source, CONFIG, "\"rank_pattern\": {}",
                                    "\"rank_pattern\": {\"layers[.]0.*_proj\": 4}");
    test_fail_each_allocation(adapt_once, dir);
    test_temp_dir_remove(dir);
    free(source);
}

/* ---- encoders, whose layers have names of their own ---- */

static const char *const embedders[] = {"bert_minilm", "embeddinggemma",  "modernbert_cls",
                                        "nomic_bert",  "qwen3_embedding", "xlmr_reranker"};

static mc_lm *open_embedder(const char *name) {
    mc_lm *lm;
    char *path = test_format("%s/embedders/%s", test_fixtures_dir(), name);
    if (mc_lm_open(path, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    free(path);
    return lm;
}

/* The file's own name of a slot's matrix. */
static const char *own_name(const mc_lm *lm, const mc_lm_slot *w, char text[512]) {
    char module[MC_MODULE_BYTES];
    mc_str end = mc_decoder_name(mc_str_of(mc_lm_module(lm, w, module)));
    for (size_t i = 0; i < mc_weights_count(lm->weights); i++) {
        mc_str name = mc_str_of(mc_weights_at(lm->weights, i)->name);
        if (!mc_str_ends(name, MC_STR(".weight"))) continue;
        name.len -= strlen(".weight");
        if (!mc_str_ends(name, end)) continue;
        snprintf(text, 512, "%.*s", MC_STR_ARG(name));
        return text;
    }
    fail_msg("no tensor of %s", module);
    return NULL;
}

/* The first matrix of the last layer. */
static const mc_lm_slot *last_layer(const mc_lm *lm) {
    const mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));)
        if (w->layer == lm->spec.n_layers - 1) return w;
    return NULL;
}

/* Gives a matrix an adapter: low-rank factors of PEFT's or mlx-lm's, or a whole weight. */
static void check_encoder(const char *name, bool peft, bool full) {
    char module[512];
    mc_lm *lm = open_embedder(name);
    const mc_lm_slot *w = last_layer(lm);
    int64_t in = w->linear.in, out = w->linear.out;
    const char *prefix = peft ? "base_model.model." : "";
    char *stem = test_format("%s%s", prefix, own_name(lm, w, module));
    char *a = test_format("%s%s", stem, full ? ".weight" : peft ? ".lora_A.weight" : ".lora_a");
    char *b = test_format("%s%s", stem, peft ? ".lora_B.weight" : ".lora_b");
    made m = make_begin(full   ? "{\"fine_tune_type\": \"full\"}"
                        : peft ? "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4}"
                               : MLX_CONFIG(""));
    make_none(&m, a, full ? out : peft ? 2 : in, full || peft ? in : 2);
    if (!full) make_none(&m, b, peft ? out : 2, peft ? 2 : out);
    make_end(&m, peft ? PEFT_FILE : MLX_FILE);
    mica_array before = w->linear.weight;
    adapt(lm, &m);
    assert_int_equal(mica_valid(w->linear.lora_a), !full);
    assert_int_equal(memcmp(&before, &w->linear.weight, sizeof before) != 0, full);
    assert_int_equal(lm->adapter_parameters, full ? in * out : 2 * (in + out));
    mc_lm_close(&lm);
    free(stem);
    free(a);
    free(b);
}

static void test_encoders(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof embedders / sizeof *embedders; i++) {
        check_encoder(embedders[i], true, false);
        check_encoder(embedders[i], false, false);
        check_encoder(embedders[i], false, true);
    }
}

/* A slot's whole name, which adapters are saved with, leads back to it. */
static void test_encoder_names(void **state) {
    (void)state;
    char module[MC_MODULE_BYTES], name[512];
    for (size_t i = 0; i < sizeof embedders / sizeof *embedders; i++) {
        mc_lm *lm = open_embedder(embedders[i]);
        const mc_lm_slot *w;
        for (size_t at = 0; (w = mc_lm_next_matrix(lm, &at));) {
            mc_lm_module(lm, w, module);
            assert_ptr_equal(mc_lm_find(lm, mc_decoder_name(mc_str_of(module))), w);
            own_name(lm, w, name);
        }
        mc_lm_close(&lm);
    }
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
        cmocka_unit_test(test_goldens),          cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_mlx_embedding),    cmocka_unit_test(test_peft_places_and_scales),
        cmocka_unit_test(test_other_models),     cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_parts_for_images), cmocka_unit_test(test_whole_names),
        cmocka_unit_test(test_wrong_factors),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_encoders),         cmocka_unit_test(test_encoder_names),
    };
    return cmocka_run_group_tests_name("model/adapter", tests, open_device, close_device);
}
