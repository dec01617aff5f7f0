/* Embedders and cross-encoders against sentence-transformers and transformers: tokens, hidden
 * states, vectors, scores of every folder in the fixtures; a text alone and among others. */
#include "task/encode.h"
#include "model/load/load.h"
#include "model/sentence.h"
#include "support/support.h"
#include "task/embed.h"
#include "task/encode_text.h"

#include <mica/convert.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct folder {
    const char *name;
    mica_device *device;
    mc_lm *lm;
    mica_tokenizer *tok;
    mc_json_doc *doc;
    mc_json golden;
    mc_weights *arrays;
    mc_session_model model;
} folder;

static char *path_of(const char *name) {
    return test_format("%s/embedders/%s", test_fixtures_dir(), name);
}

static void must(const folder *f, mica_status status) {
    if (status != MICA_OK) fail_msg("%s: %s", f->name, mica_last_error());
}

static void open_at(const char *name, const char *path, folder *f) {
    char *golden = test_format("%s/golden.json", path),
         *arrays = test_format("%s/golden.safetensors", path);
    *f = (folder){.name = name};
    must(f, test_device_open(NULL, &f->device));
    must(f, mc_lm_open(path, f->device, NULL, &f->lm));
    must(f, mica_tokenizer_open(path, &f->tok));
    f->doc = test_load_json(golden);
    f->golden = mc_json_root(f->doc);
    must(f, mc_weights_open(arrays, NULL, &f->arrays));
    f->model = (mc_session_model){.lm = f->lm, .device = f->device, .tokenizer = f->tok};
    free(golden);
    free(arrays);
}

static void open_folder(const char *name, folder *f) {
    char *path = path_of(name);
    open_at(name, path, f);
    free(path);
}

static void close_folder(folder *f) {
    mc_weights_close(&f->arrays);
    mc_json_close(&f->doc);
    mica_tokenizer_close(&f->tok);
    mc_lm_close(&f->lm);
    mica_device_close(&f->device);
}

static const mc_weight_tensor *array(const folder *f, const char *what, size_t i,
                                     const char *part) {
    char name[64];
    snprintf(name, sizeof name, *part ? "%s%zu.%s" : "%s", what, i, part);
    return mc_weights_find(f->arrays, name);
}

static mc_str text_at(mc_json list, size_t index) {
    mc_json_iter it = mc_json_begin(list);
    mc_str text = {0};
    for (size_t i = 0; i <= index; i++)
        assert_true(mc_json_next(&it));
    assert_true(mc_json_get_str(it.value, &text));
    return text;
}

static double cosine(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static void same_ids(const folder *f, const char *what, size_t i, const char *part,
                     const int32_t *ids, size_t n) {
    const mc_weight_tensor *want = array(f, what, i, part);
    if (!want) return;
    assert_int_equal(want->shape[0], n);
    if (memcmp(want->data, ids, n * sizeof *ids) != 0)
        fail_msg("%s: %s%zu.%s differs", f->name, what, i, part);
}

static void check_states(const folder *f, size_t i, const mc_encode_text *text) {
    const mc_weight_tensor *want = array(f, "text", i, "hidden");
    size_t count = text->n * (size_t)f->lm->spec.hidden;
    double tolerance = 0, worst = 0;
    if (!want) return;
    assert_true(mc_json_get_float(
        mc_json_find(mc_json_find(f->golden, "tolerance"), "hidden_max_abs_f32_compute"),
        &tolerance));
    float *got = malloc(count * sizeof *got);
    assert_non_null(got);
    must(f, mc_encode_states(&f->model, text, got));
    for (size_t k = 0; k < count; k++)
        worst = fmax(worst, fabs((double)got[k] - (double)((const float *)want->data)[k]));
    if (!(worst <= tolerance)) fail_msg("%s: text%zu.hidden differs by %g", f->name, i, worst);
    free(got);
}

enum { MAX_TEXTS = 16 };

typedef struct texts {
    mc_encode_text rows[MAX_TEXTS];
    size_t count;
} texts;

static void free_texts(texts *t) {
    for (size_t i = 0; i < t->count; i++) {
        mica_free((void *)(uintptr_t)t->rows[i].ids);
        mica_free((void *)(uintptr_t)t->rows[i].types);
    }
}

static void encode_texts(const folder *f, mc_json list, mc_str prompt, texts *t) {
    mc_text_reader reader;
    t->count = mc_json_count(list);
    assert_true(t->count <= MAX_TEXTS);
    must(f, mc_text_reader_init(f->tok, f->lm, prompt, &reader));
    for (size_t i = 0; i < t->count; i++) {
        int32_t *ids;
        must(f, mc_encode_ids(&reader, text_at(list, i), &ids, &t->rows[i].n, &t->rows[i].skip));
        t->rows[i].ids = ids;
        t->rows[i].types = NULL;
    }
}

/* Vectors of all texts in one pass, and of each alone. */
static void check_vectors(const folder *f, const texts *t, const char *name) {
    const mc_weight_tensor *want = mc_weights_find(f->arrays, name);
    const mica_embed_options options = {0};
    size_t width = (size_t)mc_encode_width(f->lm);
    assert_non_null(want);
    assert_int_equal(want->shape[1], width);
    float *all = malloc((t->count + 1) * width * sizeof *all), *alone = all + t->count * width;
    assert_non_null(all);
    must(f, mc_encode_vectors(&f->model, t->rows, t->count, &options, all, NULL, NULL));
    for (size_t i = 0; i < t->count; i++) {
        double near = cosine(all + i * width, (const float *)want->data + i * width, width);
        if (!(near >= 0.99999)) fail_msg("%s: %s %zu: cosine %.7f", f->name, name, i, near);
        must(f, mc_encode_vectors(&f->model, &t->rows[i], 1, &options, alone, NULL, NULL));
        for (size_t j = 0; j < width; j++)
            if (!(fabs((double)alone[j] - (double)all[i * width + j]) <= 2e-6))
                fail_msg("%s: %s %zu differs alone", f->name, name, i);
    }
    free(all);
}

enum { MANY = 32, MANY_LENGTH = 32 }; /* a long pass */

/* Sets the flag between two layers. */
static void stop_within(void *user, uint64_t done, uint64_t total) {
    assert_int_equal(done, 0);
    assert_int_equal(total, MANY);
    mica_cancel_set(user);
}

/* A pass over so many tokens that it is computed layer by layer, and can be ended there. */
static void check_long_pass(const folder *f) {
    int32_t ids[MANY_LENGTH];
    mc_encode_text rows[MANY];
    size_t n = MANY_LENGTH, width = (size_t)mc_encode_width(f->lm);
    mica_embed_options options = {0};
    mica_cancel *cancel;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 7 + 3) % (size_t)f->lm->spec.vocab);
    for (size_t i = 0; i < MANY; i++)
        rows[i] = (mc_encode_text){.ids = ids, .n = n};
    float *all = malloc((MANY + 1) * width * sizeof *all), *alone = all + MANY * width;
    assert_non_null(all);
    must(f, mc_encode_vectors(&f->model, rows, MANY, &options, all, NULL, NULL));
    must(f, mc_encode_vectors(&f->model, rows, 1, &options, alone, NULL, NULL));
    for (size_t i = 0; i < MANY * width; i++)
        if (!(fabs((double)all[i] - (double)alone[i % width]) <= 2e-6))
            fail_msg("%s: text %zu differs in a long pass", f->name, i / width);
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    options =
        (mica_embed_options){.progress = stop_within, .progress_user = cancel, .cancel = cancel};
    assert_int_equal(mc_encode_vectors(&f->model, rows, MANY, &options, all, NULL, NULL),
                     MICA_ECANCELLED);
    mica_cancel_close(&cancel);
    free(all);
}

static void check_embedder(const folder *f) {
    mc_json queries = mc_json_find(f->golden, "queries");
    texts t;
    encode_texts(f, mc_json_find(f->golden, "texts"), (mc_str){0}, &t);
    for (size_t i = 0; i < t.count; i++) {
        same_ids(f, "text", i, "ids", t.rows[i].ids, t.rows[i].n);
        check_states(f, i, &t.rows[i]);
    }
    check_vectors(f, &t, "embeddings");
    free_texts(&t);
    check_long_pass(f);
    if (!mc_json_exists(queries)) return;
    encode_texts(f, queries, MC_STR("query"), &t);
    check_vectors(f, &t, "query_embeddings");
    free_texts(&t);
}

static void check_scores(const folder *f, const texts *t, const char *name, bool logits) {
    const mc_weight_tensor *want = mc_weights_find(f->arrays, name);
    const mica_task_options task = {0};
    float got[MAX_TEXTS + 1];
    must(f, mc_encode_scores(&f->model, t->rows, t->count, logits, &task, got));
    for (size_t i = 0; i < t->count; i++) {
        double apart = fabs((double)got[i] - (double)((const float *)want->data)[i]);
        if (!(apart <= 1e-4)) fail_msg("%s: %s %zu differs by %g", f->name, name, i, apart);
        must(f, mc_encode_scores(&f->model, &t->rows[i], 1, logits, &task, &got[MAX_TEXTS]));
        assert_true(fabs((double)got[i] - (double)got[MAX_TEXTS]) <= 1e-5);
    }
}

static mica_status encode_pair(const folder *f, mc_str first, mc_str second, size_t max,
                               int32_t **ids, int32_t **types, size_t *n) {
    int32_t *a, *b;
    size_t n_a, n_b;
    must(f, mica_tokenizer_encode(f->tok, first.ptr, first.len, false, &a, &n_a));
    must(f, mica_tokenizer_encode(f->tok, second.ptr, second.len, false, &b, &n_b));
    mica_status status = mc_encode_pair(f->tok, a, n_a, b, n_b, max, ids, types, n);
    mica_free(a);
    mica_free(b);
    return status;
}

static void check_reranker(const folder *f, mc_json pairs) {
    texts t = {.count = mc_json_count(pairs)};
    size_t max = 0; /* what the reference cut pairs to, which its folder does not say */
    for (size_t i = 0; i < t.count; i++) {
        size_t n = (size_t)array(f, "pair", i, "ids")->shape[0];
        max = n > max ? n : max;
    }
    mc_json_iter it = mc_json_begin(pairs);
    assert_true(t.count <= MAX_TEXTS);
    for (size_t i = 0; mc_json_next(&it); i++) {
        int32_t *ids, *types;
        must(f, encode_pair(f, text_at(it.value, 0), text_at(it.value, 1), max, &ids, &types,
                            &t.rows[i].n));
        t.rows[i].ids = ids;
        t.rows[i].types = types;
        same_ids(f, "pair", i, "ids", ids, t.rows[i].n);
        same_ids(f, "pair", i, "type_ids", types, t.rows[i].n);
    }
    check_scores(f, &t, "logits", true);
    check_scores(f, &t, "scores", false);
    free_texts(&t);
}

static void test_goldens(void **state) {
    (void)state;
    char *dir = path_of("");
    test_list folders = test_list_folders(dir);
    assert_true(folders.count > 0);
    for (size_t i = 0; i < folders.count; i++) {
        folder f;
        open_folder(folders.names[i], &f);
        mc_json pairs = mc_json_find(f.golden, "pairs");
        mc_json_exists(pairs) ? check_reranker(&f, pairs) : check_embedder(&f);
        close_folder(&f);
    }
    test_list_free(&folders);
    free(dir);
}

static void copy_file(const char *from, const char *to, const char *name) {
    char *a = test_format("%s/%s", from, name), *b = test_format("%s/%s", to, name);
    test_copy_file(a, b);
    free(a);
    free(b);
}

/* Each as a GGUF file in f32, and a folder again. */
static void test_gguf(void **state) {
    (void)state;
    const mica_convert_options wide = {.dtype = "float32", .dequantise = true};
    char *all = path_of(""), *dir = test_temp_dir();
    test_list folders = test_list_folders(all);
    for (size_t i = 0; i < folders.count; i++) {
        folder f = {.name = folders.names[i]};
        char *from = path_of(f.name), *file = test_format("%s/%s.gguf", dir, f.name),
             *to = test_format("%s/%s", dir, f.name);
        must(&f, mica_convert(from, file, &wide, NULL));
        must(&f, mica_convert(file, to, NULL, NULL));
        copy_file(from, to, "golden.json");
        copy_file(from, to, "golden.safetensors");
        open_at(folders.names[i], to, &f);
        mc_json pairs = mc_json_find(f.golden, "pairs");
        mc_json_exists(pairs) ? check_reranker(&f, pairs) : check_embedder(&f);
        close_folder(&f);
        free(from);
        free(file);
        free(to);
    }
    assert_true(folders.count >= 6);
    test_list_free(&folders);
    test_temp_dir_remove(dir);
    free(all);
}

/* Models of the fixtures that read no further than the token: texts that are refused. */
static void test_refused(void **state) {
    (void)state;
    const mica_embed_options options = {0};
    const mica_task_options task = {0};
    int32_t ids[4096] = {0};
    float vector[4096], score;
    folder f;
    mc_text_reader reader;
    open_folder("bert_minilm", &f);
    mc_encode_text text = {.ids = ids, .n = (size_t)f.lm->spec.context + 1};
    assert_int_equal(mc_encode_vectors(&f.model, &text, 1, &options, vector, NULL, NULL),
                     MICA_ECONTEXT);
    text.n = 0;
    assert_int_equal(mc_encode_vectors(&f.model, &text, 1, &options, vector, NULL, NULL),
                     MICA_EINVAL);
    text.n = 1;
    ids[0] = (int32_t)f.lm->spec.vocab;
    assert_int_equal(mc_encode_vectors(&f.model, &text, 1, &options, vector, NULL, NULL),
                     MICA_EINVAL);
    ids[0] = 0;
    assert_int_equal(mc_encode_scores(&f.model, &text, 1, false, &task, &score), MICA_EUNSUPPORTED);
    assert_int_equal(mc_text_reader_init(f.tok, f.lm, MC_STR("query"), &reader), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "'query'"));
    close_folder(&f);
}

/* ---- files that are written otherwise ---- */

static void copy_files(const char *from, const char *to) {
    test_list files = test_list_files(from, "");
    for (size_t i = 0; i < files.count; i++) {
        char *a = test_format("%s/%s", from, files.names[i]),
             *b = test_format("%s/%s", to, files.names[i]);
        test_copy_file(a, b);
        free(a);
        free(b);
    }
    test_list_free(&files);
}

/* A folder of the fixtures in a temporary one, without its modules' folders. */
static char *copy_folder(const char *name) {
    char *dir = test_temp_dir(), *path = path_of(name);
    copy_files(path, dir);
    free(path);
    return dir;
}

static void copy_module(const char *name, const char *module, const char *dir) {
    char *from = test_format("%s/embedders/%s/%s", test_fixtures_dir(), name, module),
         *to = test_format("%s/%s", dir, module), *file = test_format("%s/config.json", module);
    test_write_below(dir, file, "");
    copy_files(from, to);
    free(from);
    free(to);
    free(file);
}

static mica_status vector_of(const folder *f, float *vector, size_t room) {
    const mica_embed_options options = {0};
    int32_t ids[] = {5, 6, 7, 8};
    const mc_encode_text text = {.ids = ids, .n = 4};
    assert_true((size_t)mc_encode_width(f->lm) <= room);
    return mc_encode_vectors(&f->model, &text, 1, &options, vector, NULL, NULL);
}

enum { WIDTH = 1024 };

/* What the folder's files make of a text; `error` is in the text of the error. */
static void check_vector_of(const char *dir, const char *error, float *vector) {
    folder f;
    open_at("a copy", dir, &f);
    mica_status status = vector_of(&f, vector, WIDTH);
    if (!error)
        must(&f, status);
    else if (status == MICA_OK || !strstr(mica_last_error(), error))
        fail_msg("want '%s', got '%s'", error, status ? mica_last_error() : "a vector");
    close_folder(&f);
}

static void test_poolings(void **state) {
    (void)state;
    static const struct {
        const char *config, *error;
        mc_sentence_pooling pooling;
    } cases[] = {
        {"{\"embedding_dimension\": 32, \"pooling_mode\": \"mean\"}", NULL, MC_SENTENCE_MEAN},
        {"{\"pooling_mode\": [\"cls\"], \"include_prompt\": true}", NULL, MC_SENTENCE_CLS},
        {"{\"pooling_mode\": \"max\"}", NULL, MC_SENTENCE_MAX},
        {"{\"pooling_mode\": \"mean_sqrt_len_tokens\"}", NULL, MC_SENTENCE_MEAN_SQRT},
        {"{\"pooling_mode\": \"weightedmean\"}", NULL, MC_SENTENCE_WEIGHTED},
        {"{\"pooling_mode\": \"lasttoken\", \"pooling_mode_mean_tokens\": true}", NULL,
         MC_SENTENCE_LAST},
        {"{\"word_embedding_dimension\": 32}", NULL, MC_SENTENCE_MEAN},
        {"{\"pooling_mode_mean_tokens\": false, \"pooling_mode_cls_token\": true}", NULL,
         MC_SENTENCE_CLS},
        {"{\"pooling_mode\": [\"mean\", \"cls\"]}", "2 modes", MC_SENTENCE_MEAN},
        {"{\"pooling_mode\": \"median\"}", "\"median\"; mica knows cls, max", MC_SENTENCE_MEAN},
        {"{\"pooling_mode\": 1}", "pooling_mode: want a text", MC_SENTENCE_MEAN},
        {"{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": true}", "2 modes",
         MC_SENTENCE_MEAN},
    };
    char *dir = copy_folder("bert_minilm");
    float vector[WIDTH];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder f;
        test_write_below(dir, "1_Pooling/config.json", cases[i].config);
        check_vector_of(dir, cases[i].error, vector);
        open_at("a copy", dir, &f);
        if (!cases[i].error) assert_int_equal(f.lm->sentence->pooling, cases[i].pooling);
        close_folder(&f);
    }
    test_temp_dir_remove(dir);
}

/* Modules that mica cannot follow are an error of vectors alone. */
static void test_modules(void **state) {
    (void)state;
    static const struct {
        const char *modules, *error;
    } cases[] = {
        {"[{\"type\": \"m.Transformer\", \"path\": \"\"}, {\"type\": \"m.LayerNorm\"}]",
         "'m.LayerNorm' is not supported"},
        {"[{\"type\": \"m.Transformer\", \"path\": \"0_Transformer\"}]", "0_Transformer"},
        {"[{\"type\": \"m.Transformer\"}, {\"type\": \"m.Pooling\", \"path\": \"9_Pooling\"}]",
         "9_Pooling"},
        {"{}", "not an array"},
        {"[", "modules.json"},
        {"[{\"type\": \"m.Transformer\"}, {\"type\": \"m.LogitScore\", \"path\": "
         "\"1_LogitScore\"}]",
         "has no vectors"},
    };
    char *dir = copy_folder("qwen3_embedding");
    test_write_below(dir, "1_LogitScore/config.json",
                     "{\"true_token_id\": 7, \"false_token_id\": 9}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float vector[WIDTH];
        test_write_below(dir, "modules.json", cases[i].modules);
        check_vector_of(dir, cases[i].error, vector);
    }
    folder f;
    open_at("a copy", dir, &f);
    assert_true(f.lm->sentence->answers);
    assert_int_equal(f.lm->sentence->yes, 7);
    assert_int_equal(f.lm->sentence->no, 9);
    close_folder(&f);
    test_temp_dir_remove(dir);
}

/* A matrix of a vector that was normalised is that of the vector, over its length. */
static void test_order(void **state) {
    (void)state;
    const char *const pooled = "{\"type\": \"m.Pooling\", \"path\": \"1_Pooling\"}",
                      *const unit = ", {\"type\": \"m.Normalize\", \"path\": \"\"}",
                      *const dense = ", {\"type\": \"m.Dense\", \"path\": \"2_Dense\"}";
    char *dir = copy_folder("embeddinggemma"), *modules;
    float plain[WIDTH], after[WIDTH], before[WIDTH];
    double square = 0.0;
    folder f;
    copy_module("embeddinggemma", "1_Pooling", dir);
    copy_module("embeddinggemma", "2_Dense", dir);
    modules = test_format("[%s]", pooled);
    test_write_below(dir, "modules.json", modules);
    free(modules);
    check_vector_of(dir, NULL, plain);
    modules = test_format("[%s%s]", pooled, dense);
    test_write_below(dir, "modules.json", modules);
    free(modules);
    check_vector_of(dir, NULL, after);
    modules = test_format("[%s%s%s]", pooled, unit, dense);
    test_write_below(dir, "modules.json", modules);
    free(modules);
    check_vector_of(dir, NULL, before);
    open_at("a copy", dir, &f);
    for (int64_t i = 0; i < f.lm->spec.hidden; i++)
        square += (double)plain[i] * (double)plain[i];
    for (int64_t i = 0; i < mc_encode_width(f.lm); i++)
        assert_true(fabs((double)before[i] - (double)after[i] / sqrt(square)) <= 1e-5);
    close_folder(&f);
    test_temp_dir_remove(dir);
}

/* Classes of which a part is called as another is. */
static void test_activations(void **state) {
    (void)state;
    static const char *const names[] = {"LeakyReLU", "PReLU", "QuickGELU"};
    char *dir = copy_folder("embeddinggemma");
    float vector[WIDTH];
    copy_module("embeddinggemma", "1_Pooling", dir);
    copy_module("embeddinggemma", "2_Dense", dir);
    test_write_below(dir, "modules.json",
                     "[{\"type\": \"m.Pooling\", \"path\": \"1_Pooling\"},"
                     "{\"type\": \"m.Dense\", \"path\": \"2_Dense\"}]");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *config = test_format("{\"in_features\": 32, \"out_features\": 64, \"bias\": false,"
                                   "\"activation_function\": \"torch.nn.modules.activation.%s\"}",
                                   names[i]);
        test_write_below(dir, "2_Dense/config.json", config);
        free(config);
        check_vector_of(dir, names[i], vector);
    }
    test_temp_dir_remove(dir);
}

static void write_config(const char *name, const char *dir, const char *keys) {
    char *path = test_format("%s/embedders/%s/config.json", test_fixtures_dir(), name);
    char *text = test_read_file(path, NULL), *config = test_format("{%s%s", keys, text + 1);
    assert_int_equal(text[0], '{');
    test_write_below(dir, "config.json", config);
    free(path);
    free(text);
    free(config);
}

/* The places that name what makes a score of a logit, the newest first. */
static void test_score_activations(void **state) {
    (void)state;
    const char *const none = "",
                      *const new_id = "\"activation_fn\": \"torch.nn.modules.linear.Identity\"",
                      *const new_sigmoid =
                          "\"activation_fn\": \"torch.nn.modules.activation.Sigmoid\"",
                      *const own_id = "\"sentence_transformers\": {\"activation_fn\": "
                                      "\"torch.nn.modules.linear.Identity\"},",
                      *const both = "\"sentence_transformers\": {\"activation_fn\": "
                                    "\"torch.nn.modules.linear.Identity\"},"
                                    "\"sbert_ce_default_activation_function\": "
                                    "\"torch.nn.modules.activation.Sigmoid\",",
                      *const tanh = "\"activation_fn\": \"torch.nn.modules.activation.Tanh\"";
    const struct {
        const char *settings, *keys;
        bool sigmoid;
    } cases[] = {{none, none, true},  {new_id, none, false},       {none, own_id, false},
                 {none, both, false}, {new_sigmoid, own_id, true}, {new_id, both, false}};
    char *dir = copy_folder("xlmr_reranker");
    folder f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *settings = test_format("{%s}", cases[i].settings);
        write_config("xlmr_reranker", dir, cases[i].keys);
        test_write_below(dir, "config_sentence_transformers.json", settings);
        free(settings);
        open_at("a copy", dir, &f);
        assert_int_equal(f.lm->ranker->sigmoid, cases[i].sigmoid);
        close_folder(&f);
    }
    char *settings = test_format("{%s}", tanh);
    test_write_below(dir, "config_sentence_transformers.json", settings);
    free(settings);
    must(&f, test_device_open(NULL, &f.device));
    assert_int_equal(mc_lm_open(dir, f.device, NULL, &f.lm), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "mica knows Sigmoid and Identity"));
    mica_device_close(&f.device);
    test_temp_dir_remove(dir);
}

static void test_types(void **state) {
    (void)state;
    const int32_t ids[] = {5, 6}, types[] = {0, 2};
    const mc_encode_text text = {.ids = ids, .types = types, .n = 2};
    float states[2 * WIDTH];
    folder f;
    open_folder("bert_minilm", &f);
    assert_int_equal(mc_encode_check(&f.model, &text), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "type 2"));
    close_folder(&f);
    open_folder("xlmr_reranker", &f);
    must(&f, mc_encode_check(&f.model, &text));
    must(&f, mc_encode_states(&f.model, &text, states));
    close_folder(&f);
}

static void test_default_prompt(void **state) {
    (void)state;
    char *dir = copy_folder("bert_minilm");
    mc_text_reader reader;
    folder f;
    copy_module("bert_minilm", "1_Pooling", dir);
    test_write_below(dir, "config_sentence_transformers.json",
                     "{\"default_prompt_name\": \"gone\", \"prompts\": {\"query\": \"q: \"}}");
    open_at("a copy", dir, &f);
    assert_int_equal(mc_text_reader_init(f.tok, f.lm, (mc_str){0}, &reader), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "'gone'"));
    assert_non_null(strstr(mica_last_error(), "config_sentence_transformers.json"));
    must(&f, mc_text_reader_init(f.tok, f.lm, MC_STR("query"), &reader));
    assert_true(mc_str_is(reader.prompt, "q: "));
    close_folder(&f);
    test_temp_dir_remove(dir);
}

/* RoBERTa's pads take no position: where one stands changes nothing behind it. */
static void test_pads(void **state) {
    (void)state;
    const int32_t one[] = {0, 5, 1, 6, 2}, other[] = {0, 1, 5, 6, 2};
    const mc_encode_text a = {.ids = one, .n = 5}, b = {.ids = other, .n = 5};
    float x[5 * WIDTH], y[5 * WIDTH];
    folder f;
    open_folder("xlmr_reranker", &f);
    assert_int_equal(f.lm->spec.first_position, 2);
    must(&f, mc_encode_states(&f.model, &a, x));
    must(&f, mc_encode_states(&f.model, &b, y));
    for (int64_t i = 0, hidden = f.lm->spec.hidden; i < 2 * hidden; i++)
        assert_true(fabs((double)x[3 * hidden + i] - (double)y[3 * hidden + i]) <= 1e-5);
    close_folder(&f);
}

static void encode_with(const folder *f, const char *text, int32_t **ids, size_t *n) {
    mc_text_reader reader;
    size_t skip;
    must(f, mc_text_reader_init(f->tok, f->lm, MC_STR(""), &reader));
    must(f, mc_encode_ids(&reader, mc_str_of(text), ids, n, &skip));
}

/* Letters are lowered, and special tokens are not. */
static void test_lower(void **state) {
    (void)state;
    char *dir = copy_folder("modernbert_cls");
    int32_t *ids, *want;
    size_t n, n_want;
    folder f, plain;
    copy_module("modernbert_cls", "1_Pooling", dir);
    test_write_below(dir, "sentence_bert_config.json", "{\"do_lower_case\": true}");
    open_at("a copy", dir, &f);
    open_folder("modernbert_cls", &plain);
    encode_with(&f, "A \xc3\x80 B [SEP] \xd0\x96", &ids, &n);
    encode_with(&plain, "a \xc3\xa0 b [SEP] \xd0\xb6", &want, &n_want);
    assert_int_equal(n, n_want);
    assert_memory_equal(ids, want, n * sizeof *ids);
    mica_free(ids);
    mica_free(want);
    close_folder(&plain);
    close_folder(&f);
    test_temp_dir_remove(dir);
}

/* A prompt's tokens that are not pooled: the first token is the one behind them. */
static void test_skipped_prompt(void **state) {
    (void)state;
    const char *const modes[] = {"cls", "mean"};
    char *dir = copy_folder("bert_minilm");
    const mica_embed_options options = {0};
    test_write_below(dir, "modules.json", "[{\"type\": \"m.Pooling\", \"path\": \"1_Pooling\"}]");
    for (size_t i = 0; i < 2; i++) {
        float states[8 * WIDTH], *vector;
        int32_t ids[] = {2, 5, 6, 7, 8, 3};
        const mc_encode_text text = {.ids = ids, .n = 6};
        const mc_text row = {.ids = ids, .n = 6, .skip = 3};
        mica_embed_results *results;
        folder f;
        char *config =
            test_format("{\"pooling_mode\": \"%s\", \"include_prompt\": false}", modes[i]);
        test_write_below(dir, "1_Pooling/config.json", config);
        free(config);
        open_at("a copy", dir, &f);
        must(&f, mc_encode_states(&f.model, &text, states));
        must(&f, mc_embed(&f.model, &row, &options, &vector));
        must(&f, mc_embed_texts(&f.model, &row, 1, &options, &results));
        must(&f, results->rows[0].status);
        for (int64_t j = 0, hidden = f.lm->spec.hidden; j < hidden; j++) {
            double want = states[3 * hidden + j], next = (double)states[4 * hidden + j];
            if (i == 1) want = (want + next + (double)states[5 * hidden + j]) / 3;
            assert_true(fabs((double)vector[j] - want) <= 1e-5);
            assert_true(fabs((double)results->rows[0].vector[j] - want) <= 1e-5);
        }
        mica_embed_texts_free(&results);
        mica_free(vector);
        close_folder(&f);
    }
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_poolings),
        cmocka_unit_test(test_modules),        cmocka_unit_test(test_order),
        cmocka_unit_test(test_activations),    cmocka_unit_test(test_score_activations),
        cmocka_unit_test(test_types),          cmocka_unit_test(test_default_prompt),
        cmocka_unit_test(test_pads),           cmocka_unit_test(test_lower),
        cmocka_unit_test(test_skipped_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
