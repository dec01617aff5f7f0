/* GGUF files written: every model of the fixtures that GGUF can describe has its logits after it
 * became a file and a folder again; files of another program have the same bytes. What llama.cpp
 * makes of them, tools/check_gguf.py shows. */
#include <mica/convert.h>

#include "convert/gguf_describe.h"
#include "convert/scratch.h"
#include "io/gguf.h"
#include "io/gguf_write.h"
#include "model/fixture.h"

#include <mica/tokenizer.h>

#include <stdlib.h>
#include <string.h>

static void renew(void) {
    remove_folder(NULL);
    make_folder(NULL);
}

static void convert(const char *from, const char *to, const mica_convert_options *options,
                    mica_convert_result *result) {
    if (mica_convert(from, to, options, result) != MICA_OK)
        fail_msg("%s: %s", from, mica_last_error());
}

/* ---- a file of another program, to a folder and back ---- */

static const char *const families[] = {"llama", "qwen2", "qwen3", "gemma2", "gemma3"};
enum { N_FAMILIES = sizeof families / sizeof *families };

static void check_tensors(const mc_gguf *a, const mc_gguf *b) {
    assert_int_equal(mc_gguf_count(a), mc_gguf_count(b));
    for (size_t i = 0; i < mc_gguf_count(a); i++) {
        const mc_gguf_tensor *x = mc_gguf_at(a, i), *y = mc_gguf_find(b, x->name);
        if (!y) fail_msg("%s: tensor %s is missing", mc_gguf_path(b), x->name);
        assert_string_equal(x->type->name, y->type->name);
        assert_int_equal(x->ndim, y->ndim);
        assert_memory_equal(x->shape, y->shape, sizeof x->shape);
        assert_int_equal(x->bytes, y->bytes);
        if (memcmp(x->data, y->data, x->bytes) != 0) fail_msg("%s differs", x->name);
    }
}

static void check_texts(const mc_gguf *a, const mc_gguf *b, const char *key) {
    mc_gguf_iter x = mc_gguf_begin(a, key), y = mc_gguf_begin(b, key);
    while (mc_gguf_next(&x)) {
        assert_true(mc_gguf_next(&y));
        if (!mc_str_eq(x.text, y.text)) fail_msg("%s: element %zu differs", key, x.index);
    }
    assert_false(mc_gguf_next(&y));
}

static void check_numbers(const mc_gguf *a, const mc_gguf *b, const char *family) {
    static const char *const keys[] = {"block_count",
                                       "context_length",
                                       "embedding_length",
                                       "feed_forward_length",
                                       "attention.head_count",
                                       "attention.head_count_kv",
                                       "attention.key_length",
                                       "attention.layer_norm_rms_epsilon",
                                       "rope.freq_base",
                                       "attention.sliding_window",
                                       "attn_logit_softcapping",
                                       "final_logit_softcapping"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *key = test_format("%s.%s", family, keys[i]);
        double x = -1, y = -1;
        mc_gguf_number(a, key, &x);
        mc_gguf_number(b, key, &y);
        if (x != y) fail_msg("%s is %g, was %g", key, y, x);
        free(key);
    }
    static const char *const ids[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                      "tokenizer.ggml.unknown_token_id"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int64_t x = -1, y = -1;
        mc_gguf_int(a, ids[i], &x);
        mc_gguf_int(b, ids[i], &y);
        assert_int_equal(x, y);
    }
}

static void test_there_and_back(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        char *from = test_format("%s/gguf/%s/model.gguf", test_cases_dir(), families[i]);
        mica_convert_result result = {.struct_bytes = sizeof result};
        mc_gguf *a, *b;
        renew();
        convert(from, made, NULL, NULL);
        convert(made, file, NULL, &result);
        assert_int_equal(result.dequantised, 0);
        assert_int_equal(mc_gguf_open(from, &a), MICA_OK);
        if (mc_gguf_open(file, &b) != MICA_OK) fail_msg("%s", mica_last_error());
        check_tensors(a, b);
        check_numbers(a, b, families[i]);
        check_texts(a, b, "tokenizer.ggml.tokens");
        check_texts(a, b, "tokenizer.ggml.merges");
        mc_gguf_close(&a);
        mc_gguf_close(&b);
        free(from);
    }
}

/* ---- the fixtures ---- */

static int written, refused;
static uint64_t kept, dequantised;

/* A model with more than GGUF can tell is refused by the name of that; one of a family that mica
 * does not write by the family's. */
static bool is_refused(const model_fixture *f, mica_status status) {
    const mc_gguf_arch *arch;
    if (status == MICA_OK) return false;
    char *error = test_format("%s", mica_last_error());
    if (mc_gguf_arch_of(&f->lm->spec, &arch) != MICA_EUNSUPPORTED || status != MICA_EUNSUPPORTED ||
        strcmp(error, mica_last_error()) != 0)
        fail_msg("%s: %s", f->name, error);
    print_message("%s: %s\n", f->name, error);
    free(error);
    assert_int_equal(test_count_entries(dir), 0);
    refused++;
    return true;
}

static float *values_of(const model_fixture *f, const mc_linear *router, size_t *n) {
    mica_scope *s;
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array x = router->weight;
    if (router->quantised)
        x = mica_dequantize(s, x, router->scales, router->biases, router->quant, MICA_F32);
    x = mica_contiguous(s, mica_astype(s, x, MICA_F32));
    if (mica_eval(s, x) != MICA_OK) fail_msg("%s: %s", f->name, mica_last_error());
    *n = (size_t)mica_array_size(x);
    float *values = malloc(*n * sizeof *values);
    assert_non_null(values);
    assert_int_equal(mica_read(x, values, *n * sizeof *values), MICA_OK);
    mica_scope_close(&s);
    return values;
}

static const mc_lm_slot *next_router(const mc_lm *lm, size_t *i) {
    const mc_lm_slot *w;
    while ((w = mc_lm_next_matrix(lm, i)) && !w->slot->exact)
        ;
    return w;
}

static int routers;

/* Routers are f32 in GGUF, with the very values that quantised ones stand for. */
static void check_routers(const model_fixture *f) {
    mc_lm *lm;
    const mc_lm_slot *a, *b;
    char *folder = test_format("%s/routers", dir);
    convert(file, folder, NULL, NULL);
    if (mc_lm_open(folder, f->device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    for (size_t i = 0, k = 0; (a = next_router(f->lm, &i)); routers++) {
        size_t m, n;
        b = next_router(lm, &k);
        assert_non_null(b);
        float *want = values_of(f, &a->linear, &m), *got = values_of(f, &b->linear, &n);
        assert_int_equal(m, n);
        fixture_compare(got, want, n, 0, "%s: %s", f->name, a->module);
        free(want);
        free(got);
    }
    mc_lm_close(&lm);
    free(folder);
}

static void check_fixture(const model_fixture *f) {
    const mica_convert_options wide = {.dtype = "float32", .dequantise = true};
    mica_convert_result result = {.struct_bytes = sizeof result};
    mc_lm *lm;
    renew();
    if (is_refused(f, mica_convert(f->path, file, NULL, &result))) return;
    kept += result.quantised;
    dequantised += result.dequantised;
    bool published = f->lm->notes.len && strstr(f->lm->notes.data, "published as ");
    if (!published) check_routers(f);
    if (result.dequantised || published) { /* to bf16, f16 or 8 bits, which rounds: f32 does not */
        renew();
        convert(f->path, file, &wide, NULL);
    }
    convert(file, made, &wide, NULL);
    if (mc_lm_open(made, f->device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    size_t n;
    const int32_t *ids = fixture_ints(f, &n, "prompt3.ids");
    const float *want = fixture_floats(f, NULL, "prompt3.logits");
    float *got = fixture_logits(f->device, lm, ids, n);
    fixture_compare(got, want, n * (size_t)lm->spec.vocab, f->tolerance, "%s", f->name);
    free(got);
    mc_lm_close(&lm);
    written++;
}

static void test_fixtures(void **state) {
    (void)state;
    fixture_each(check_fixture);
    print_message("%d models written, %d refused; %llu matrices kept, %llu dequantised\n", written,
                  refused, (unsigned long long)kept, (unsigned long long)dequantised);
    assert_true(written >= 50);
    assert_true(kept > 100);
    assert_true(routers > 20);
}

/* Layers that slide otherwise than every sixth, and the default model's tokenizer. */
static void test_default_model(void **state) {
    (void)state;
    static const char text[] = "The little dog  saw\n\n a b\xc3\xb6rd 123! \xe4\xb8\x96";
    mica_tokenizer *a, *b;
    int32_t *x, *y;
    size_t n, m;
    char *folder = test_format("%s/default", test_models_dir());
    convert(folder, file, NULL, NULL);
    convert(file, made, NULL, NULL);
    assert_int_equal(mica_tokenizer_open(folder, &a), MICA_OK);
    assert_int_equal(mica_tokenizer_open(made, &b), MICA_OK);
    assert_int_equal(mica_tokenizer_encode(a, text, strlen(text), true, &x, &n), MICA_OK);
    assert_int_equal(mica_tokenizer_encode(b, text, strlen(text), true, &y, &m), MICA_OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n * sizeof *x);
    mica_free(x);
    mica_free(y);
    mica_tokenizer_close(&a);
    mica_tokenizer_close(&b);
    free(folder);
}

/* A chat template, in each place that a folder may have it in. */
static void test_chat_templates(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
    } places[] = {
        {"chat_template.jinja", "a {{ x }}"},
        {"tokenizer_config.json", "{\"chat_template\": \"a {{ x }}\"}"},
        {"tokenizer_config.json",
         "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"b\"}, "
         "{\"name\": \"default\", \"template\": \"a {{ x }}\"}]}"},
        {"chat_template.json", "{\"chat_template\": \"a {{ x }}\"}"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *from = fixture_copy("qwen3_tied", "config.json", "silu", "silu");
        mc_str text = MC_STR("");
        mc_gguf *g;
        renew();
        test_write_below(from, places[i].name, places[i].text);
        convert(from, file, NULL, NULL);
        assert_int_equal(mc_gguf_open(file, &g), MICA_OK);
        mc_gguf_str(g, "tokenizer.chat_template", &text);
        if (!mc_str_is(text, "a {{ x }}")) fail_msg("%s, case %zu", places[i].name, i);
        mc_gguf_close(&g);
        test_temp_dir_remove(from);
    }
}

/* ---- what is refused ---- */

static void refuse(const char *from, const char *to, const mica_convert_options *options,
                   mica_status want, const char *says) {
    size_t before = test_count_entries(dir);
    mica_status got = mica_convert(from, to, options, NULL);
    if (got != want) fail_msg("%s: %s", mica_status_name(got), mica_last_error());
    if (!strstr(mica_last_error(), says))
        fail_msg("'%s' does not say '%s'", mica_last_error(), says);
    assert_int_equal(test_count_entries(dir), before);
}

static void test_refused(void **state) {
    (void)state;
    const mica_convert_options six = {.quantise = true, .quant = {MICA_QUANT_AFFINE, 6, 32}};
    const mica_convert_options eight = {.quantise = true, .quant = {MICA_QUANT_AFFINE, 8, 32}};
    const mica_convert_options four = {.quantise = true, .quant = {MICA_QUANT_AFFINE, 4, 32}};
    mica_convert_result result = {.struct_bytes = sizeof result};
    char *from = fixture_path("qwen3_tied"), *again = test_format("%s/again.gguf", dir);
    char *none = test_format("%s/none/model.gguf", dir);
    refuse(from, none, NULL, MICA_ENOENT, "none");
    refuse(from, file, &six, MICA_EUNSUPPORTED, "affine of 6 bits");
    refuse(from, file, &eight, MICA_EUNSUPPORTED, "affine of 8 bits");
    convert(from, file, &four, &result);
    assert_int_equal(result.dequantised, 0);
    assert_true(result.quantised > 0);
    refuse(from, file, NULL, MICA_EINVAL, "exists");
    refuse(file, file, NULL, MICA_EINVAL, "exists");
    refuse(file, again, NULL, MICA_EINVAL, "is a GGUF file");
    free(from);
    free(again);
    free(none);
}

/* Changes of a model's folder that GGUF cannot take. */
static void test_refused_models(void **state) {
    (void)state;
    static const struct {
        const char *model, *name, *from, *to, *says;
        mica_status status;
    } cases[] = {
        {"qwen3_tied", "config.json", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4",
         "lacks", MICA_EFORMAT},
        {"qwen3_tied", "config.json", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2",
         "no place for", MICA_EFORMAT},
        {"qwen3_tied", "config.json", "\"silu\"", "\"gelu\"", "activation", MICA_EUNSUPPORTED},
        {"qwen3_tied", "tokenizer.json", "\"NFC\"", "\"NFKC\"", "another normaliser",
         MICA_EUNSUPPORTED},
        {"qwen3_tied", "tokenizer.json", "s|'t|'re", "s|'t|'ra", "another pattern",
         MICA_EUNSUPPORTED},
        {"llama_untied_f32", "config.json", "\"intermediate_size\": ", "\"intermediate_size\": 1",
         "another shape", MICA_ESHAPE},
        {"../families/qwen3_moe_hf", "config.json", "\"norm_topk_prob\": true",
         "\"norm_topk_prob\": false", "norm_topk_prob", MICA_EUNSUPPORTED},
        {"../families/mixtral_hf", "config.json", "\"silu\"", "\"gelu\"", "activation",
         MICA_EUNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *from = fixture_copy(cases[i].model, cases[i].name, cases[i].from, cases[i].to);
        refuse(from, file, NULL, cases[i].status, cases[i].says);
        test_temp_dir_remove(from);
    }
}

/* Changed copies of an embedder, with the folders of its modules. */
static void refuse_embedder(const char *name, const char *at, const char *from, const char *to,
                            const char *says) {
    char *path = test_format("../embedders/%s", name), *source = fixture_path(path),
         *copy = fixture_copy_folder(source, at, from, to);
    renew();
    refuse(copy, file, NULL, MICA_EUNSUPPORTED, says);
    test_temp_dir_remove(copy);
    free(source);
    free(path);
}

/* What GGUF cannot tell of encoders is refused by its name. */
static void test_encoders(void **state) {
    (void)state;
    refuse_embedder("bert_minilm", "config.json", "\"gelu\"", "\"gelu_new\"", "another activation");
    refuse_embedder("xlmr_reranker", "tokenizer.json", "\"Precompiled\"", "\"Lowercase\"",
                    "another normaliser");
    refuse_embedder("nomic_bert", "config.json", "\"hidden_act\": \"silu\"",
                    "\"hidden_act\": \"silu\", \"mlp_fc1_bias\": true", "biases");
    refuse_embedder("modernbert_cls", "config.json", "\"norm_bias\": false", "\"norm_bias\": true",
                    "biases of norms");
    refuse_embedder("modernbert_cls", "modules.json", "models.Pooling", "models.Dancing",
                    "models.Dancing");
}

/* A RoPE whose config says that all of a head rotates is a plain one. */
static void test_whole_rope(void **state) {
    (void)state;
    char *from = fixture_copy("qwen3_tied", "config.json", "\"num_hidden_layers\"",
                              "\"partial_rotary_factor\": 1.0, \"num_hidden_layers\"");
    renew();
    convert(from, file, NULL, NULL);
    renew();
    test_temp_dir_remove(from);
    from = fixture_copy("llama_untied_f32", "config.json", "\"num_hidden_layers\"",
                        "\"partial_rotary_factor\": 0.5, \"num_hidden_layers\"");
    refuse(from, file, NULL, MICA_EUNSUPPORTED, "RoPE of another kind");
    test_temp_dir_remove(from);
}

/* A token without a row of the embedding, as text models of Gemma 3 have one, is left out. */
static void test_token_without_row(void **state) {
    (void)state;
    mc_gguf *g;
    char *from = fixture_copy("qwen3_tied", "tokenizer.json", "\"id\": 479", "\"id\": 480");
    convert(from, file, NULL, NULL);
    assert_int_equal(mc_gguf_open(file, &g), MICA_OK);
    assert_int_equal(mc_gguf_array(g, "tokenizer.ggml.tokens"), 480);
    mc_gguf_close(&g);
    test_temp_dir_remove(from);
}

/* ---- failures ---- */

static void cancel(void *user, uint64_t done, uint64_t total) {
    if (done > 0 && done < total) mica_cancel_set(user);
}

static void test_cancelled(void **state) {
    (void)state;
    mica_cancel *stop;
    char *from = fixture_path("q4g32_llama");
    assert_int_equal(mica_cancel_open(&stop), MICA_OK);
    const mica_convert_options options = {
        .cancel = stop, .progress = cancel, .progress_user = stop};
    assert_int_equal(mica_convert(from, file, &options, NULL), MICA_ECANCELLED);
    assert_int_equal(test_count_entries(dir), 0);
    mica_cancel_close(&stop);
    free(from);
}

static bool convert_once(void *from) {
    mica_status status = mica_convert(from, file, NULL, NULL);
    if (status != MICA_OK) {
        assert_int_equal(status, MICA_ENOMEM);
        assert_int_equal(test_count_entries(dir), 0);
    }
    return status == MICA_OK;
}

static void test_out_of_memory(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "gemma2"};
    for (size_t i = 0; i < 2; i++) {
        char *from = test_format("%s/gguf/%s/model.gguf", test_cases_dir(), names[i]);
        char *temp = test_temp_dir(), *folder = test_format("%s/model", temp);
        convert(from, folder, NULL, NULL);
        test_fail_each_allocation(convert_once, folder);
        renew();
        free(from);
        free(folder);
        test_temp_dir_remove(temp);
    }
}

/* ---- the writer ---- */

static void test_writer(void **state) {
    (void)state;
    const mc_gguf_tensor tensors[] = {{.name = "a", .ndim = 2, .shape = {2, 3}},
                                      {.name = "b", .ndim = 1, .shape = {32}}};
    const mc_ggml_type *f32 = mc_ggml_type_find(0), *q8 = mc_ggml_type_find(8);
    const uint8_t data[34] = {1, 2, 3};
    mc_gguf_pairs pairs = {0};
    mc_gguf_writer *w;
    mc_gguf *g;
    assert_true(mc_gguf_put_bool(&pairs, "yes", true));
    assert_int_equal(mc_gguf_writer_open(file, &pairs, tensors, 2, &w), MICA_OK);
    assert_int_equal(mc_gguf_writer_next(w, q8), MICA_EINVAL); /* rows of 3 */
    assert_int_equal(mc_gguf_writer_next(w, f32), MICA_OK);
    assert_int_equal(mc_gguf_writer_add(w, data, 25), MICA_EINVAL);
    assert_int_equal(mc_gguf_writer_add(w, data, 20), MICA_OK);
    assert_int_equal(mc_gguf_writer_next(w, q8), MICA_EINVAL); /* incomplete */
    assert_int_equal(mc_gguf_writer_add(w, data, 4), MICA_OK);
    assert_int_equal(mc_gguf_writer_next(w, q8), MICA_OK);
    assert_int_equal(mc_gguf_writer_add(w, data, 34), MICA_OK);
    assert_int_equal(mc_gguf_writer_next(w, f32), MICA_EINVAL); /* no more */
    assert_int_equal(mc_gguf_writer_close(&w, MICA_OK), MICA_OK);
    assert_int_equal(mc_gguf_open(file, &g), MICA_OK);
    const mc_gguf_tensor *b = mc_gguf_find(g, "b");
    assert_ptr_equal(b->type, q8);
    assert_memory_equal(b->data, data, 34);
    assert_int_equal((uintptr_t)b->data % 32, (uintptr_t)mc_gguf_find(g, "a")->data % 32);
    mc_gguf_close(&g);
    assert_int_equal(mc_gguf_writer_open(file, &pairs, tensors, 2, &w), MICA_OK);
    assert_int_equal(mc_gguf_writer_close(&w, MICA_OK), MICA_EINVAL); /* no data */
    assert_int_equal(test_count_entries(dir), 1);                     /* the old one stays */
    mc_gguf_pairs_deinit(&pairs);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_there_and_back), TEST(test_fixtures),       TEST(test_default_model),
        TEST(test_chat_templates), TEST(test_refused),        TEST(test_whole_rope),
        TEST(test_encoders),       TEST(test_refused_models), TEST(test_token_without_row),
        TEST(test_cancelled),      TEST(test_out_of_memory),  TEST(test_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
