/* The registry of engines, and engines that a program registers. */
#include "support/support.h"

#include "engine/parrot.h"
#include "support/info.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *folder; /* of the default model */

static int find_default(void **state) {
    (void)state;
    folder = test_format("%s/default", test_models_dir());
    return 0;
}

static int free_folder(void **state) {
    (void)state;
    free(folder);
    return 0;
}

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static void assert_error(mica_status status, mica_status want, const char *text) {
    assert_int_equal(status, want);
    if (!strstr(mica_last_error(), text)) fail_msg("%s: no \"%s\"", mica_last_error(), text);
}

static void add_parrot(const char *name, parrot *p, int64_t preference) {
    mica_engine engine = parrot_engine(name, p);
    engine.preference = preference;
    must(mica_engine_register(&engine));
}

static mica_model *open_parrot(void) {
    mica_model *model = NULL;
    must(mica_model_open(folder, &(mica_model_options){.engine = "parrot"}, &model));
    return model;
}

/* All text of a stream, which it closes. */
static char *read_all(mica_stream *stream) {
    char *text = test_format("%s", "");
    for (mica_token token; mica_stream_next(stream, &token);) {
        char *longer = test_format("%s%s", text, token.text);
        free(text);
        text = longer;
    }
    return text;
}

/* ---- the registry ---- */

static void test_names(void **state) {
    (void)state;
    parrot p = {.missing = NULL};
    mica_engine engine = parrot_engine("parrot", &p);
    static const char *const bad[] = {NULL,  "",    "Parrot",
                                      "a b", "a/b", "a-name-that-is-as-long-as-32-byte"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        engine.name = bad[i];
        assert_error(mica_engine_register(&engine), MICA_EINVAL, "lower-case");
    }
    engine.name = "native";
    assert_error(mica_engine_register(&engine), MICA_EINVAL, "already");
    assert_error(mica_engine_register(NULL), MICA_EINVAL, "NULL");
    assert_error(mica_engine_unregister("native"), MICA_EINVAL, "built in");
    assert_error(mica_engine_unregister("parrot"), MICA_EINVAL, "the engines are: native");
    assert_error(mica_engine_unregister(NULL), MICA_EINVAL, "NULL");
    assert_error(mica_engine_get("parrot", NULL), MICA_EINVAL, "the engines are: native");
    assert_error(mica_engine_get(NULL, NULL), MICA_EINVAL, "NULL");
}

static void test_missing_functions(void **state) {
    (void)state;
    parrot p = {.missing = NULL};
    const mica_engine whole = parrot_engine("parrot", &p);
    mica_engine engine;
#define WITHOUT(member)   \
    engine = whole;       \
    engine.member = NULL; \
    assert_error(mica_engine_register(&engine), MICA_EINVAL, #member)
    WITHOUT(model_open);
    WITHOUT(model_close);
    WITHOUT(session_open);
    WITHOUT(session_close);
    WITHOUT(answer_open);
    WITHOUT(answer_next);
    WITHOUT(answer_close);
    engine = whole;
    engine.struct_bytes = 8192;
    assert_error(mica_engine_register(&engine), MICA_EINVAL, "struct_bytes");
}

static size_t position(const char *name) {
    mica_engine_info info = {.struct_bytes = sizeof info};
    for (size_t i = 0; mica_engine_list(i, &info); i++)
        if (strcmp(info.name, name) == 0) return i;
    return SIZE_MAX;
}

static void test_listing(void **state) {
    (void)state;
    parrot p = {.missing = "it has no beak: give it one"};
    mica_engine_info info = {.struct_bytes = sizeof info};
    add_parrot("last", &p, -1000);
    add_parrot("first", &p, 1);
    add_parrot("second", &p, 0);
    assert_int_equal(position("first"), 0);
    assert_int_equal(position("native"), 1);
    assert_int_equal(position("second"), 2);
    assert_true(position("last") > 2);
    assert_false(mica_engine_list(position("last") + 1, &info));
    assert_int_equal(*info.name, 0);

    must(mica_engine_get("native", &info));
    assert_true(info.built_in && info.asked && info.available && !*info.reason);
    assert_true(mica_engine_list(0, &info));
    assert_true(!info.built_in && !info.asked && !info.available && !*info.reason);
    assert_string_equal(info.description, "says what it is told");
    must(mica_engine_get("first", &info));
    assert_true(info.asked && !info.available);
    assert_string_equal(info.reason, p.missing);
    info.reason[0] = 0;
    assert_true(mica_engine_list(0, &info)); /* the reason is kept */
    assert_string_equal(info.reason, p.missing);
    p.missing = NULL;
    must(mica_engine_get("first", &info));
    assert_true(info.available && !*info.reason && info.users == 0);
    must(mica_engine_unregister("last"));
    must(mica_engine_unregister("first"));
    must(mica_engine_unregister("second"));
    assert_int_equal(position("first"), SIZE_MAX);
}

static void test_default(void **state) {
    (void)state;
    parrot p = {.missing = NULL};
    mica_engine_info info = {.struct_bytes = sizeof info};
    must(mica_engine_default(NULL, &info));
    assert_string_equal(info.name, "native");
    add_parrot("parrot", &p, 5);
    must(mica_engine_default(NULL, &info));
    assert_string_equal(info.name, "parrot");
    must(mica_engine_default(folder, &info)); /* it does not take the folder */
    assert_string_equal(info.name, "native");
    atomic_store(&p.takes, 1);
    must(mica_engine_default(folder, &info));
    assert_string_equal(info.name, "parrot");
    p.missing = "no beak";
    must(mica_engine_default(folder, &info));
    assert_string_equal(info.name, "native");
    assert_true(mica_engine_list(0, &info));
    assert_string_equal(info.reason, "no beak");
    must(mica_engine_unregister("parrot"));
    assert_error(mica_engine_default("/nowhere", NULL), MICA_ENOENT, "/nowhere");
}

/* A model of a family that mica does not know goes to the engine that takes it. */
static void test_unknown_family(void **state) {
    (void)state;
    parrot p = {.takes = 1};
    char *dir = test_temp_dir();
    mica_model *model = NULL;
    mica_engine_info info = {.struct_bytes = sizeof info};
    char *from = test_format("%s/tokenizer.json", folder);
    char *to = test_format("%s/tokenizer.json", dir);
    test_copy_file(from, to);
    test_write_below(dir, "config.json", "{\"model_type\": \"phoenix\"}");
    char *weights = test_format("%s/model.safetensors", dir);
    test_write_file(weights, "\2\0\0\0\0\0\0\0{}", 10);
    assert_error(mica_model_open(dir, NULL, &model), MICA_EUNSUPPORTED, "phoenix");
    add_parrot("parrot", &p, -5);
    must(mica_engine_default(dir, &info));
    assert_string_equal(info.name, "parrot");
    must(mica_model_open(dir, NULL, &model));
    assert_string_equal(test_model_info(model).engine, "parrot");
    assert_string_equal(test_model_info(model).architecture, "bird");
    mica_model_close(&model);
    p.missing = "no beak";
    assert_error(mica_model_open(dir, NULL, &model), MICA_EUNSUPPORTED, "phoenix");
    assert_error(mica_model_open(dir, NULL, &model), MICA_EUNSUPPORTED,
                 "the engine \"parrot\" may open it, but is not available: no beak");
    assert_error(mica_engine_default(dir, NULL), MICA_EUNSUPPORTED, "no beak");
    must(mica_engine_unregister("parrot"));
    free(from);
    free(to);
    free(weights);
    test_temp_dir_remove(dir);
}

static void test_not_available(void **state) {
    (void)state;
    parrot p = {.missing = "no beak: buy one"};
    mica_model *model;
    add_parrot("parrot", &p, 0);
    assert_error(mica_model_open(folder, &(mica_model_options){.engine = "parrot"}, &model),
                 MICA_EDEVICE, "the engine \"parrot\" is not available: no beak: buy one");
    assert_null(model);
    must(mica_engine_unregister("parrot"));
    assert_error(mica_model_open(folder, &(mica_model_options){.engine = "parrot"}, &model),
                 MICA_EINVAL, "the engines are: native");
}

/* An engine in use stays. */
static void test_in_use(void **state) {
    (void)state;
    parrot p = {.missing = NULL};
    mica_session *session;
    mica_stream *stream;
    mica_engine_info info = {.struct_bytes = sizeof info};
    add_parrot("parrot", &p, 0);
    mica_model *model = open_parrot();
    assert_error(mica_engine_unregister("parrot"), MICA_EINVAL, "1 users");
    must(mica_session_open(model, NULL, &session));
    must(mica_generate(session, "The sea is", 0, NULL, &stream));
    mica_model_close(&model);
    mica_session_close(&session);
    assert_int_equal(atomic_load(&p.models), 1);
    assert_error(mica_engine_unregister("parrot"), MICA_EINVAL, "close the models");
    must(mica_engine_get("parrot", &info));
    assert_int_equal(info.users, 1);
    char *text = read_all(stream);
    assert_string_equal(text, "The sea is");
    free(text);
    mica_stream_close(&stream);
    assert_int_equal(atomic_load(&p.models) + atomic_load(&p.sessions) + atomic_load(&p.answers),
                     0);
    must(mica_engine_unregister("parrot"));
}

/* ---- answers ---- */

static void test_answers(void **state) {
    (void)state;
    parrot p = {.missing = NULL};
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    int tokens = 0, echoed = 0;
    add_parrot("parrot", &p, 0);
    mica_model *model = open_parrot();
    mica_model_info info = test_model_info(model);
    assert_string_equal(info.engine, "parrot");
    assert_int_equal(info.vocab_size,
                     (int64_t)mica_tokenizer_vocab_size(mica_model_tokenizer(model)));
    assert_null(mica_model_device(model));
    assert_int_equal(mica_model_cache_bytes(model, 10), 0);
    assert_false(mica_model_get_kernels(model, 0, NULL));
    must(mica_session_open(model, NULL, &session));

    must(mica_generate(session, "one two three four", 0,
                       &(mica_generate_options){.max_tokens = 2, .echo = true, .logprobs = true},
                       &stream));
    while (mica_stream_next(stream, &token)) {
        if (token.prompt)
            echoed++;
        else if (token.id >= 0)
            tokens++, assert_true(token.logprob == -0.5f);
    }
    assert_int_equal(tokens, 2);
    assert_int_equal(mica_stream_finish(stream), MICA_FINISH_LENGTH);
    mica_metrics metrics = test_metrics(stream);
    assert_int_equal(metrics.generated_tokens, 2);
    assert_int_equal(metrics.prompt_tokens, echoed);
    assert_true(p.got.max_tokens == 2 && !p.got.echo && p.got.logprobs);
    mica_stream_close(&stream);

    /* The library looks for stop strings and tells the engine that it is enough. */
    must(mica_generate(
        session, "one two three four", 0,
        &(mica_generate_options){.stop_strings = &(const char *){"three"}, .stop_string_count = 1},
        &stream));
    assert_true(p.got.stop_count > 0 && !p.got.stop_strings);
    int cancels = atomic_load(&p.cancels);
    char *text = read_all(stream);
    assert_string_equal(text, "one two ");
    free(text);
    assert_int_equal(mica_stream_finish(stream), MICA_FINISH_STOP);
    assert_int_equal(mica_stream_status(stream), MICA_OK);
    assert_int_equal(atomic_load(&p.cancels), cancels + 1);
    mica_stream_close(&stream);

    must(mica_chat(session, &(mica_message){.role = "user", .content = "ahoy"}, 1, NULL, &stream));
    text = read_all(stream);
    if (!strstr(text, "ahoy")) fail_msg("%s", text);
    free(text);
    assert_int_equal(mica_stream_finish(stream), MICA_FINISH_STOP);
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    must(mica_engine_unregister("parrot"));
}

static void test_metrics_of_the_engine(void **state) {
    (void)state;
    const mica_metrics told = {.struct_bytes = sizeof told,
                               .prompt_tokens = 99,
                               .reused_tokens = 1,
                               .prefill_seconds = 2.0,
                               .decode_rate = 7.0,
                               .peak_bytes = 5};
    parrot p = {.metrics = &told};
    mica_session *session;
    mica_stream *stream;
    add_parrot("parrot", &p, 0);
    mica_model *model = open_parrot();
    must(mica_session_open(model, NULL, &session));
    must(mica_generate_ids(session, (const int32_t[]){305, 306, 307}, 3, NULL, &stream));
    free(read_all(stream));
    mica_metrics m = test_metrics(stream);
    assert_int_equal(m.prompt_tokens, 3); /* the library counts */
    assert_int_equal(m.generated_tokens, 3);
    assert_int_equal(m.reused_tokens, 1);
    assert_true(m.prefill_seconds == 2.0 && m.prefill_rate == 1.0 && m.decode_rate == 7.0);
    assert_int_equal(m.peak_bytes, 5);
    assert_true(m.total_seconds > 0 && m.total_seconds < 2.0); /* of the library's clock */
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    must(mica_engine_unregister("parrot"));
}

static mica_status finish(mica_stream **stream) {
    free(read_all(*stream));
    mica_status status = mica_stream_status(*stream);
    mica_stream_close(stream);
    return status;
}

static void test_errors(void **state) {
    (void)state;
    parrot p = {.fails_at = 2};
    mica_session *session, *with_draft;
    mica_stream *stream, *other;
    mica_token token;
    add_parrot("parrot", &p, 0);
    mica_model *model = open_parrot();
    must(mica_session_open(model, NULL, &session));
    must(mica_generate(session, "one two three", 0, NULL, &stream));
    assert_error(finish(&stream), MICA_EIO, "engine parrot: lost its voice");
    p.fails_at = 0;
    p.odd = INT32_MAX;
    must(mica_generate(session, "one two three", 0, NULL, &stream));
    assert_error(finish(&stream), MICA_EINTERNAL, "engine parrot: token 2147483647");
    p.odd = 0;
    assert_error(
        mica_generate(session, "one", 0, &(mica_generate_options){.temperature = 1}, &stream),
        MICA_EUNSUPPORTED, "engine parrot: temperature");
    assert_error(mica_generate(session, "one", 0, &(mica_generate_options){.top_p = 2}, &stream),
                 MICA_EINVAL, "top_p");
    assert_error(
        mica_session_open(model, &(mica_session_options){.draft_model = model}, &with_draft),
        MICA_EUNSUPPORTED, "draft_model");
    assert_error(mica_session_save(session, "nowhere"), MICA_EUNSUPPORTED, "parrot");
    assert_error(mica_session_load(model, "nowhere", NULL, &with_draft), MICA_EUNSUPPORTED,
                 "parrot");

    /* A second answer, or a reset, ends the first. */
    must(mica_generate(session, "one two three", 0, NULL, &stream));
    assert_true(mica_stream_next(stream, &token));
    must(mica_generate(session, "four", 0, NULL, &other));
    assert_true(mica_stream_next(other, &token));
    assert_error(finish(&stream), MICA_EINVAL, "this one is over");
    mica_session_reset(session);
    assert_error(finish(&other), MICA_EINVAL, "this one is over");

    must(mica_generate(session, "one two three", 0, NULL, &stream));
    assert_true(mica_stream_next(stream, &token));
    mica_stream_cancel(stream);
    assert_int_equal(finish(&stream), MICA_ECANCELLED);
    mica_session_close(&session);
    mica_model_close(&model);
    must(mica_engine_unregister("parrot"));
}

static void test_context(void **state) {
    (void)state;
    parrot p = {.missing = NULL};
    mica_model *model;
    mica_session *session;
    mica_stream *stream;
    add_parrot("parrot", &p, 0);
    must(mica_model_open(folder, &(mica_model_options){.engine = "parrot", .context_length = 4},
                         &model));
    must(mica_session_open(model, NULL, &session));
    const int32_t ids[] = {305, 306, 307, 308, 309};
    assert_error(mica_generate_ids(session, ids, 5, NULL, &stream), MICA_ECONTEXT, "5 tokens");
    must(mica_generate_ids(session, ids, 3, NULL, &stream));
    assert_int_equal(p.got.max_tokens, 2);
    free(read_all(stream));
    assert_int_equal(mica_stream_finish(stream), MICA_FINISH_LENGTH);
    assert_int_equal(test_metrics(stream).generated_tokens, 2);
    mica_stream_close(&stream);
    must(mica_generate_ids(session, ids, 5, &(mica_generate_options){.truncate = true}, &stream));
    assert_int_equal(test_metrics(stream).truncated_tokens, 3);
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    must(mica_engine_unregister("parrot"));
}

/* ---- tasks ---- */

static bool no_more(void *user, size_t row, const mica_token *token) {
    (void)user, (void)token;
    return row != 2;
}

static void test_tasks(void **state) {
    (void)state;
    parrot p = {.missing = NULL};
    mica_batch_results *results;
    mica_classify_results *classes;
    mica_score_result *score;
    float *vector;
    size_t n;
    add_parrot("parrot", &p, 0);
    mica_model *model = open_parrot();
    const mica_generate_options two = {.max_tokens = 2, .top_logprobs = 1},
                                hot = {.temperature = 1};
    const mica_batch_item items[] = {{.prompt = "one two"},
                                     {.prompt = "\xff"},
                                     {.prompt = "three four five"},
                                     {.prompt = "six", .options = &hot},
                                     {.prompt = "seven eight nine", .options = &two}};
    must(mica_batch_generate(model, items, 5, &(mica_batch_options){.token = no_more}, &results));
    assert_string_equal(results->rows[0].text, "one two");
    assert_int_equal(results->rows[0].finish, MICA_FINISH_STOP);
    assert_int_equal(results->rows[1].status, MICA_EFORMAT);
    assert_int_equal(results->rows[2].status, MICA_ECANCELLED);
    assert_int_equal(results->rows[2].count, 1);
    assert_int_equal(results->rows[3].status, MICA_EUNSUPPORTED);
    assert_non_null(strstr(results->rows[3].error, "temperature"));
    assert_int_equal(results->rows[4].count, 2);
    assert_true(p.got.logprobs);
    assert_true(results->rows[4].logprobs[1] == -0.5f);
    assert_int_equal(results->rows[4].metrics->generated_tokens, 2);
    assert_int_equal(results->generated_tokens, 2 + 1 + results->rows[0].metrics->generated_tokens);
    mica_batch_free(&results);
    assert_error(
        mica_batch_generate(model, items, 1, &(mica_batch_options){.parallel = -1}, &results),
        MICA_EINVAL, "parallel");

    static const char said[] = "open the model with the engine native";
    assert_error(mica_classify(model, &(const char *){"one"}, 1, NULL, &classes), MICA_EUNSUPPORTED,
                 said);
    assert_error(mica_embed(model, "one", 0, NULL, &vector, &n), MICA_EUNSUPPORTED, said);
    assert_error(mica_score(model, "one two", 0, NULL, &score), MICA_EUNSUPPORTED, said);
    mica_model_close(&model);
    must(mica_engine_unregister("parrot"));
}

/* ---- memory and threads ---- */

static bool try_all(void *arg) {
    parrot *p = arg;
    mica_model *model = NULL;
    mica_batch_results *results = NULL;
    const mica_engine engine = parrot_engine("parrot", p);
    if (mica_engine_register(&engine) != MICA_OK) return false;
    mica_status status = mica_model_open(folder, &(mica_model_options){.engine = "parrot"}, &model);
    if (status == MICA_OK)
        status = mica_batch_generate(model, &(mica_batch_item){.prompt = "one"}, 1, NULL, &results);
    bool done = status == MICA_OK && results->rows[0].status == MICA_OK;
    mica_batch_free(&results);
    mica_model_close(&model);
    must(mica_engine_unregister("parrot"));
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    parrot p = {.missing = NULL};
    test_fail_each_allocation(try_all, &p);
    assert_int_equal(atomic_load(&p.models) + atomic_load(&p.sessions) + atomic_load(&p.answers),
                     0);
}

typedef struct racer {
    pthread_t thread;
    char name[16];
    parrot p;
    int opened;
} racer;

static void *race(void *arg) {
    racer *r = arg;
    for (int i = 0; i < 20; i++) {
        const mica_engine engine = parrot_engine(r->name, &r->p);
        mica_model *model = NULL;
        if (mica_engine_register(&engine) != MICA_OK) return NULL;
        mica_engine_info info = {.struct_bytes = sizeof info};
        for (size_t at = 0; mica_engine_list(at, &info); at++) {}
        if (mica_engine_get("racer0", &info) == MICA_OK) r->opened += info.available;
        if (i % 10 == 0) {
            if (mica_model_open(folder, &(mica_model_options){.engine = r->name}, &model) ==
                MICA_OK)
                r->opened++;
            mica_model_close(&model);
        }
        /* Refused while another thread asks this engine. */
        while (mica_engine_unregister(r->name) != MICA_OK) {}
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    enum { THREADS = 3 };
    racer racers[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        memcpy(racers[i].name, "racer0", sizeof "racer0");
        racers[i].name[5] = (char)('0' + i);
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
        assert_true(racers[i].opened >= 2);
        assert_int_equal(atomic_load(&racers[i].p.models), 0);
        assert_int_equal(position(racers[i].name), SIZE_MAX);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_missing_functions),
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_unknown_family),
        cmocka_unit_test(test_not_available),
        cmocka_unit_test(test_in_use),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_metrics_of_the_engine),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("engine/registry", tests, find_default, free_folder);
}
