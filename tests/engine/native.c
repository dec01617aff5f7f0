/* What mica_model_open's options do to the native engine: adapters, layers on an accelerator, notes
 * on what was found. */
#include "model/fixture.h"
#include "support/info.h"

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_model *open_model(const char *path, const mica_model_options *options) {
    mica_model *model;
    if (mica_model_open(path, options, &model) != MICA_OK) fail_msg("%s", mica_last_error());
    return model;
}

static void expect_greedy(const mica_model *model, const model_fixture *f) {
    size_t n, count;
    const int32_t *ids = fixture_ints(f, &n, "prompt1.ids");
    const int32_t *want = fixture_ints(f, &count, "prompt1.greedy");
    const mica_generate_options options = {.max_tokens = (int64_t)count, .ignore_eos = true};
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    assert_int_equal(mica_session_open(model, NULL, &session), MICA_OK);
    assert_int_equal(mica_generate_ids(session, ids, n, &options, &stream), MICA_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(mica_stream_next(stream, &token));
        assert_int_equal(token.id, want[i]);
    }
    mica_stream_close(&stream);
    mica_session_close(&session);
}

static void check_adapter(const model_fixture *f) {
    mc_str base;
    assert_true(mc_json_get_str(mc_json_find(mc_json_root(f->golden), "base"), &base));
    char *path = test_format("%s/%.*s", test_fixtures_dir(), MC_STR_ARG(base));
    char *tokenizer = test_format("%s/tokenizer.json", path);
    FILE *there = fopen(tokenizer, "r");
    if (there) {
        fclose(there);
        mica_model *model = open_model(
            path, &(mica_model_options){.adapter = f->path, .arithmetic = MICA_ARITHMETIC_EXACT});
        mica_model_info info = test_model_info(model);
        assert_string_equal(info.adapter, f->path);
        assert_int_equal(info.adapter_parameters, f->lm->adapter_parameters);
        assert_int_equal(info.parameters, f->lm->parameters);
        assert_null(info.note);
        expect_greedy(model, f);
        mica_model_close(&model);
    }
    free(tokenizer);
    free(path);
}

static void test_adapters(void **state) {
    (void)state;
    fixture_each_adapter(check_adapter);
}

static void test_bad_adapters(void **state) {
    (void)state;
    mica_model *model;
    char *path = fixture_path("gemma3_text_f32"), *adapter = fixture_adapter_path("peft_qwen3");
    assert_int_equal(mica_model_open(path, &(mica_model_options){.adapter = adapter}, &model),
                     MICA_ESHAPE);
    assert_null(model);
    assert_non_null(strstr(mica_last_error(), adapter));
    assert_int_equal(mica_model_open(path, &(mica_model_options){.adapter = "/no/where"}, &model),
                     MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "/no/where"));
    free(adapter);
    free(path);
}

static void test_notes(void **state) {
    (void)state;
    char *path = fixture_path("qwen3_tied");
    mica_model *model = open_model(path, NULL);
    assert_null(test_model_info(model).note);
    assert_null(test_model_info(model).adapter);
    assert_int_equal(test_model_info(model).adapter_parameters, 0);
    assert_int_equal(test_model_info(model).bits, 0);
    assert_int_equal(test_model_info(model).group_size, 0);
    mica_model_close(&model);

    model = open_model(path, &(mica_model_options){.accelerator_layers = 2});
    assert_string_equal(test_model_info(model).note,
                        "accelerator_layers 2 has no effect: device cpu computes all 3 layers");
    mica_model_close(&model);
    assert_int_equal(
        mica_model_open(path, &(mica_model_options){.arithmetic = (mica_arithmetic)3}, &model),
        MICA_EINVAL);
    assert_int_equal(
        mica_model_open(path, &(mica_model_options){.cache = (mica_cache_type)5}, &model),
        MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "cache 5"));
    const mica_model_options halves[] = {
        {0}, {.cache = MICA_CACHE_F16}, {.cache = MICA_CACHE_BF16}};
    const mica_model_options floats[] = {{.arithmetic = MICA_ARITHMETIC_EXACT},
                                         {.cache = MICA_CACHE_F32}};
    model = open_model(path, &floats[0]);
    uint64_t bytes = mica_model_cache_bytes(model, 100);
    mica_model_close(&model);
    for (int i = 0; i < 3; i++) {
        model = open_model(path, &halves[i]);
        assert_int_equal(mica_model_cache_bytes(model, 100), bytes / 2);
        mica_model_close(&model);
    }
    model = open_model(path, &floats[1]);
    assert_int_equal(mica_model_cache_bytes(model, 100), bytes);
    mica_model_close(&model);
    model = open_model(path, &(mica_model_options){.cache = MICA_CACHE_INT8});
    uint64_t eighths = mica_model_cache_bytes(model, 100) * 4; /* and the scales' part */
    assert_true(eighths > bytes && eighths <= bytes / 4 * 5);
    mica_model_close(&model);
    assert_int_equal(mica_model_open(path, &(mica_model_options){.accelerator_layers = -2}, &model),
                     MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "accelerator_layers -2"));
    free(path);

    char *dir = fixture_copy("qwen3_tied", "config.json", "\"num_hidden_layers\": 3",
                             "\"num_hidden_layers\": 2");
    model = open_model(dir, &(mica_model_options){.accelerator_layers = 1});
    const char *note = test_model_info(model).note;
    assert_ptr_equal(strstr(note, "nothing reads 11 of the tensors: model.layers.2."), note);
    assert_non_null(strstr(note, " ...\naccelerator_layers 1 has no effect"));
    mica_model_close(&model);
    test_temp_dir_remove(dir);
}

/* A longer context than the model's is the model's, but it slides: nothing is too long for it. */
static void test_long_context(void **state) {
    (void)state;
    char *path = fixture_path("qwen3_tied");
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    mica_model *model = open_model(path, NULL);
    int64_t own = test_model_info(model).context_length;
    mica_model_close(&model);
    model = open_model(path, &(mica_model_options){.context_length = own});
    assert_null(test_model_info(model).note);
    mica_model_close(&model);

    model = open_model(path, &(mica_model_options){.context_length = own + 1});
    assert_int_equal(test_model_info(model).context_length, own);
    char *note = test_format("context_length %lld is more than the model's: of a longer text than "
                             "%lld tokens the oldest are forgotten",
                             (long long)own + 1, (long long)own);
    assert_string_equal(test_model_info(model).note, note);
    int32_t *ids = calloc((size_t)own + 1, sizeof *ids);
    assert_int_equal(mica_session_open(model, NULL, &session), MICA_OK);
    assert_int_equal(mica_generate_ids(session, ids, (size_t)own + 1, NULL, &stream), MICA_OK);
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    free(ids);
    free(note);
    free(path);
}

/* The context that is asked for says which divisors longrope takes. */
static void test_longrope(void **state) {
    (void)state;
    static const struct {
        int64_t asked, context;
        const char *note;
    } cases[] = {
        {0, 64, "longrope: a context_length above 64 makes the context 40960"},
        {64, 64, "longrope: a context_length above 64 makes the context 40960"},
        {65, 65, "longrope: the divisors for texts longer than 64 tokens, for all texts"},
        {50000, 40960,
         "longrope: the divisors for texts longer than 64 tokens, for all texts\n"
         "context_length 50000 is more than the model's"},
    };
    char *path = fixture_copy("qwen3_tied", "config.json", "\"rope_scaling\": null",
                              "\"rope_scaling\": {\"rope_type\": \"longrope\", "
                              "\"original_max_position_embeddings\": 64, "
                              "\"short_factor\": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], "
                              "\"long_factor\": [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mica_model *model =
            open_model(path, &(mica_model_options){.context_length = cases[i].asked});
        mica_model_info info = test_model_info(model);
        assert_int_equal(info.context_length, cases[i].context);
        assert_ptr_equal(strstr(info.note, cases[i].note), info.note);
        mica_model_close(&model);
    }
    test_temp_dir_remove(path);
}

/* A draft model changes no token; one of another vocabulary is refused, by both ways to a
 * session. */
static void test_draft_models(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    char *other_path = fixture_path("qwen3_tied"), *dir = test_temp_dir();
    char *path = test_format("%s/session", dir);
    const mica_model_options exact = {.arithmetic = MICA_ARITHMETIC_EXACT};
    mica_model *model = open_model(f.path, &exact), *draft = open_model(f.path, NULL);
    mica_model *other = open_model(other_path, NULL);
    const mica_session_options with_draft = {.draft_model = draft}, wrong = {.draft_model = other};
    mica_session *session;
    assert_int_equal(mica_session_open(model, &wrong, &session), MICA_EINVAL);
    assert_null(session);
    assert_non_null(strstr(mica_last_error(), "480 tokens, the model's 558"));

    size_t n, count;
    const int32_t *ids = fixture_ints(&f, &n, "prompt1.ids");
    const int32_t *want = fixture_ints(&f, &count, "prompt1.greedy");
    assert_int_equal(mica_session_open(model, &with_draft, &session), MICA_OK);
    for (int round = 0; round < 2; round++) {
        const mica_generate_options options = {.max_tokens = (int64_t)count, .ignore_eos = true};
        mica_stream *stream;
        mica_token token;
        assert_int_equal(mica_generate_ids(session, ids, n, &options, &stream), MICA_OK);
        for (size_t i = 0; i < count; i++) {
            assert_true(mica_stream_next(stream, &token));
            assert_int_equal(token.id, want[i]);
        }
        assert_true(test_metrics(stream).drafted_tokens > 0);
        mica_stream_close(&stream);
        assert_int_equal(mica_session_save(session, path), MICA_OK);
        mica_session_close(&session);
        assert_int_equal(mica_session_load(model, path, &wrong, &session), MICA_EINVAL);
        assert_null(session);
        assert_int_equal(mica_session_load(model, path, &with_draft, &session), MICA_OK);
    }
    mica_session_close(&session);
    mica_model_close(&other);
    mica_model_close(&draft);
    mica_model_close(&model);
    test_temp_dir_remove(dir);
    free(path);
    free(other_path);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapters), cmocka_unit_test(test_bad_adapters),
        cmocka_unit_test(test_notes),    cmocka_unit_test(test_long_context),
        cmocka_unit_test(test_longrope), cmocka_unit_test(test_draft_models),
    };
    return cmocka_run_group_tests_name("engine/native", tests, NULL, NULL);
}
