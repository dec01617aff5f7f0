/* Embedders and cross-encoders against sentence-transformers and transformers: tokens, hidden
 * states, vectors, scores of every folder in the fixtures; a text alone and among others. */
#include "task/encode.h"
#include "model/load/load.h"
#include "support/support.h"
#include "task/encode_text.h"

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

static void open_folder(const char *name, folder *f) {
    char *path = path_of(name), *golden = test_format("%s/golden.json", path),
         *arrays = test_format("%s/golden.safetensors", path);
    *f = (folder){.name = name};
    must(f, test_device_open(NULL, &f->device));
    must(f, mc_lm_open(path, f->device, NULL, &f->lm));
    must(f, mica_tokenizer_open(path, &f->tok));
    f->doc = test_load_json(golden);
    f->golden = mc_json_root(f->doc);
    must(f, mc_weights_open(arrays, NULL, &f->arrays));
    f->model = (mc_session_model){.lm = f->lm, .device = f->device, .tokenizer = f->tok};
    free(path);
    free(golden);
    free(arrays);
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

static void encode_texts(const folder *f, mc_json list, const char *prompt, texts *t) {
    t->count = mc_json_count(list);
    assert_true(t->count <= MAX_TEXTS);
    for (size_t i = 0; i < t->count; i++) {
        int32_t *ids;
        must(f, mc_encode_ids(f->tok, f->lm, prompt, text_at(list, i), &ids, &t->rows[i].n,
                              &t->rows[i].skip));
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
    must(f, mc_encode_vectors(&f->model, t->rows, t->count, &options, all));
    for (size_t i = 0; i < t->count; i++) {
        double near = cosine(all + i * width, (const float *)want->data + i * width, width);
        if (!(near >= 0.99999)) fail_msg("%s: %s %zu: cosine %.7f", f->name, name, i, near);
        must(f, mc_encode_vectors(&f->model, &t->rows[i], 1, &options, alone));
        for (size_t j = 0; j < width; j++)
            if (!(fabs((double)alone[j] - (double)all[i * width + j]) <= 2e-6))
                fail_msg("%s: %s %zu differs alone", f->name, name, i);
    }
    free(all);
}

static void check_embedder(const folder *f) {
    mc_json queries = mc_json_find(f->golden, "queries");
    texts t;
    encode_texts(f, mc_json_find(f->golden, "texts"), NULL, &t);
    for (size_t i = 0; i < t.count; i++) {
        same_ids(f, "text", i, "ids", t.rows[i].ids, t.rows[i].n);
        check_states(f, i, &t.rows[i]);
    }
    check_vectors(f, &t, "embeddings");
    free_texts(&t);
    if (!mc_json_exists(queries)) return;
    encode_texts(f, queries, "query", &t);
    check_vectors(f, &t, "query_embeddings");
    free_texts(&t);
}

static void check_scores(const folder *f, const texts *t, const char *name, bool logits) {
    const mc_weight_tensor *want = mc_weights_find(f->arrays, name);
    float got[MAX_TEXTS + 1];
    must(f, mc_encode_scores(&f->model, t->rows, t->count, logits, NULL, got));
    for (size_t i = 0; i < t->count; i++) {
        double apart = fabs((double)got[i] - (double)((const float *)want->data)[i]);
        if (!(apart <= 1e-4)) fail_msg("%s: %s %zu differs by %g", f->name, name, i, apart);
        must(f, mc_encode_scores(&f->model, &t->rows[i], 1, logits, NULL, &got[MAX_TEXTS]));
        assert_true(fabs((double)got[i] - (double)got[MAX_TEXTS]) <= 1e-5);
    }
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
        must(f, mc_encode_pair(f->tok, f->lm, text_at(it.value, 0), text_at(it.value, 1), max, &ids,
                               &types, &t.rows[i].n));
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

/* Models of the fixtures that read no further than the token: texts that are refused. */
static void test_refused(void **state) {
    (void)state;
    const mica_embed_options options = {0};
    int32_t ids[4096] = {0};
    float vector[4096], score;
    folder f;
    size_t n, skip;
    int32_t *made;
    open_folder("bert_minilm", &f);
    mc_encode_text text = {.ids = ids, .n = (size_t)f.lm->spec.context + 1};
    assert_int_equal(mc_encode_vectors(&f.model, &text, 1, &options, vector), MICA_ECONTEXT);
    text.n = 0;
    assert_int_equal(mc_encode_vectors(&f.model, &text, 1, &options, vector), MICA_EINVAL);
    text.n = 1;
    ids[0] = (int32_t)f.lm->spec.vocab;
    assert_int_equal(mc_encode_vectors(&f.model, &text, 1, &options, vector), MICA_EINVAL);
    ids[0] = 0;
    assert_int_equal(mc_encode_scores(&f.model, &text, 1, false, NULL, &score), MICA_EUNSUPPORTED);
    assert_int_equal(mc_encode_ids(f.tok, f.lm, "query", MC_STR("a"), &made, &n, &skip),
                     MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "'query'"));
    close_folder(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
