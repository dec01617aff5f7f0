/* The engine mlx_lm over a bridge to nothing (fake_bridge.h): what it asks, answers and refuses. */
#define _DEFAULT_SOURCE
#include "support/support.h"

#include "engine/fake_bridge.h"
#include "support/info.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *folder;  /* of the default model */
static char *program; /* this one, which plays Python */
static const int32_t ids[] = {305, 306, 307};

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static void expect_error(mica_status status, mica_status want, const char *text) {
    if (!strstr(mica_last_error(), text)) fail_msg("%s: no \"%s\"", mica_last_error(), text);
    assert_int_equal(status, want);
}

static mica_model *open_model(void) {
    mica_model *model;
    must(mica_model_open(folder, &(mica_model_options){.engine = "mlx_lm"}, &model));
    return model;
}

static mica_session *open_session(const mica_model *model) {
    mica_session *session;
    must(mica_session_open(model, NULL, &session));
    return session;
}

/* The tokens of a stream, until its end. */
static size_t read_tokens(mica_stream *stream, int32_t *out, size_t room) {
    size_t count = 0;
    for (mica_token token; mica_stream_next(stream, &token);)
        if (token.id >= 0 && count < room) out[count++] = token.id;
    must(mica_stream_status(stream));
    return count;
}

/* ---- answers ---- */

static void test_info(void **state) {
    (void)state;
    mica_model *model = open_model();
    mica_model_info info = test_model_info(model);
    assert_string_equal(info.engine, "mlx_lm");
    assert_string_equal(info.architecture, "fake?"); /* what is no character is not shown */
    assert_string_equal(info.family, "gemma3");
    assert_string_equal(info.dtype, "bf16");
    assert_string_equal(info.quantization, "4 bit, groups of 64 (affine)");
    assert_int_equal(info.bits, 4);
    assert_int_equal(info.group_size, 64);
    assert_int_equal(info.arithmetic, MICA_ARITHMETIC_EXACT);
    assert_true(info.layers == 3 && info.vocab_size == 8192 && info.weight_bytes == 5000);
    assert_null(info.note);
    assert_null(mica_model_device(model));
    mica_model_close(&model);
    must(mica_model_open(folder, &(mica_model_options){.engine = "mlx_lm", .accelerator_layers = 3},
                         &model));
    assert_non_null(strstr(test_model_info(model).note, "accelerator_layers 3 has no effect"));
    mica_model_close(&model);
}

static void test_answers(void **state) {
    (void)state;
    mica_model *model = open_model();
    mica_session *session = open_session(model);
    mica_stream *stream;
    int32_t got[8];
    must(mica_generate_ids(session, ids, 3, &(mica_generate_options){.max_tokens = 5}, &stream));
    assert_int_equal(read_tokens(stream, got, 8), 5);
    assert_memory_equal(got, ((int32_t[]){305, 306, 307, 305, 306}), 5 * sizeof *got);
    assert_int_equal(mica_stream_finish(stream), MICA_FINISH_LENGTH);
    mica_metrics m = test_metrics(stream);
    assert_true(m.prompt_tokens == 3 && m.generated_tokens == 5 && m.reused_tokens == 1);
    assert_true(m.prefill_seconds == 2.5 && m.decode_seconds == 0.5);
    assert_true(m.prefill_rate == 2.0 / 2.5 && m.decode_rate == 4.0 / 0.5);
    assert_true(m.active_bytes == 1000 && m.peak_bytes == 2000);
    mica_stream_close(&stream);

    must(mica_chat(session, &(mica_message){.role = "user", .content = "ahoy"}, 1, NULL, &stream));
    assert_true(read_tokens(stream, got, 8) > 3);
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
}

static void test_alternatives(void **state) {
    (void)state;
    mica_model *model = open_model();
    mica_session *session = open_session(model);
    mica_stream *stream;
    mica_token token;
    must(mica_generate_ids(session, ids, 3, &(mica_generate_options){.top_logprobs = 2}, &stream));
    for (int i = 0; i < 3; i++) {
        assert_true(mica_stream_next(stream, &token));
        assert_true(token.id == ids[i] && token.logprob == -0.25f);
        assert_int_equal(token.alternative_count, 2);
        assert_true(token.alternatives[0].id == ids[i] && token.alternatives[1].id == 7);
        assert_true(token.alternatives[1].logprob == -2.0f);
    }
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
}

static void note(void *user, uint64_t done, uint64_t total) {
    uint64_t *last = user;
    assert_int_equal(total, 3);
    *last = done;
}

static void test_progress(void **state) {
    (void)state;
    uint64_t done = 0;
    mica_model *model = open_model();
    mica_session *session = open_session(model);
    mica_stream *stream;
    must(mica_generate_ids(session, ids, 3,
                           &(mica_generate_options){.progress = note, .progress_user = &done},
                           &stream));
    (void)read_tokens(stream, NULL, 0);
    assert_int_equal(done, 3);
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
}

static void test_batch(void **state) {
    (void)state;
    mica_model *model = open_model();
    mica_batch_results *results;
    const mica_batch_item items[] = {{.prompt = "one two"}, {.prompt = "three four five"}};
    must(mica_batch_generate(model, items, 2, NULL, &results));
    assert_string_equal(results->rows[0].text, "one two");
    assert_string_equal(results->rows[1].text, "three four five");
    mica_batch_free(&results);
    mica_model_close(&model);
}

/* ---- turns ---- */

enum { ANSWERS = 20 };

typedef struct talker {
    pthread_t thread;
    const mica_model *model;
    int32_t first;
    int right;
} talker;

static void *talk(void *arg) {
    talker *t = arg;
    mica_session *session = NULL;
    if (mica_session_open(t->model, NULL, &session) != MICA_OK) return NULL;
    for (int i = 0; i < ANSWERS; i++) {
        const int32_t prompt[] = {t->first, t->first + i, t->first + 2 * i};
        mica_stream *stream = NULL;
        mica_token token;
        int given = 0;
        if (mica_generate_ids(session, prompt, 3, NULL, &stream) != MICA_OK) break;
        while (mica_stream_next(stream, &token))
            if (token.id >= 0) given += token.id == prompt[given % 3];
        t->right += given == 3 && mica_stream_status(stream) == MICA_OK;
        mica_stream_close(&stream);
    }
    mica_session_close(&session);
    return NULL;
}

/* The bridge ends if it gets a request while it answers another. */
static void test_two_threads(void **state) {
    (void)state;
    mica_model *model = open_model();
    talker talkers[] = {{.model = model, .first = 300}, {.model = model, .first = 400}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(talkers[i].thread, NULL), 0);
    assert_int_equal(talkers[0].right, ANSWERS);
    assert_int_equal(talkers[1].right, ANSWERS);
    mica_model_close(&model);
}

/* An answer that nobody reads on does not block others, and loses nothing. */
static void test_unread_answer(void **state) {
    (void)state;
    mica_model *model = open_model();
    mica_session *session = open_session(model), *other = open_session(model);
    mica_stream *stream, *second, *third;
    mica_token token;
    int32_t got[8];
    must(mica_generate_ids(session, ids, 3, &(mica_generate_options){.max_tokens = 6}, &stream));
    assert_true(mica_stream_next(stream, &token));
    must(mica_generate_ids(other, ids + 1, 2, NULL, &second));
    assert_int_equal(read_tokens(second, got, 8), 2);
    assert_int_equal(read_tokens(stream, got, 8), 5);
    assert_int_equal(got[4], ids[2]);
    assert_true(test_metrics(stream).prefill_seconds == 2.5);
    /* One that was never begun, and one that is closed in the middle. */
    must(mica_generate_ids(session, ids, 3, &(mica_generate_options){.max_tokens = 6}, &third));
    mica_stream_close(&third);
    must(mica_generate_ids(session, ids, 3, &(mica_generate_options){.max_tokens = 6}, &third));
    assert_true(mica_stream_next(third, &token));
    mica_stream_close(&third);
    mica_stream_close(&second);
    must(mica_generate_ids(other, ids, 3, NULL, &second));
    assert_int_equal(read_tokens(second, got, 8), 3);
    mica_stream_close(&second);
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_session_close(&other);
    mica_model_close(&model);
}

/* ---- what is asked ---- */

static char *log_path(void) {
    char *dir = test_temp_dir();
    char *path = test_format("%s/log", dir);
    setenv("FAKE_BRIDGE_LOG", path, 1);
    free(path);
    return dir;
}

static void expect_log(char *dir, const char *want) {
    char *path = test_format("%s/log", dir), *text = test_read_file(path, NULL);
    assert_string_equal(text, want);
    unsetenv("FAKE_BRIDGE_LOG");
    free(text);
    free(path);
    test_temp_dir_remove(dir);
}

static void ask(const mica_generate_options *options) {
    mica_model *model;
    mica_session *session;
    mica_stream *stream;
    must(mica_model_open(folder, &(mica_model_options){.engine = "mlx_lm", .adapter = "a \"b\""},
                         &model));
    must(mica_session_open(model, &(mica_session_options){.prefill_chunk = 9}, &session));
    must(mica_generate_ids(session, ids, 3, options, &stream));
    (void)read_tokens(stream, NULL, 0);
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
}

/* Each option has its name in the request. */
static void test_requests(void **state) {
    (void)state;
    const mica_logit_bias bias[] = {{5, 0.5f}, {6, -INFINITY}};
    const mica_generate_options options = {
        .max_tokens = 4,
        .min_tokens = 2,
        .temperature = 0.5f,
        .top_k = 40,
        .top_p = 0.75f,
        .min_p = 0.125f,
        .repetition_penalty = 1.5f,
        .presence_penalty = 0.25f,
        .frequency_penalty = -0.25f,
        .penalty_window = 30,
        .logit_bias = bias,
        .logit_bias_count = 2,
        .seed = UINT64_MAX,
        .stop_ids = (const int32_t[]){9, 10},
        .stop_count = 2,
        .ignore_eos = true,
        .logprobs = true,
        .top_logprobs = 3,
    };
    char *dir = log_path();
    ask(&options);
    char *want = test_format(
        "{\"cmd\": \"load\", \"path\": \"%s\", \"adapter\": \"a \\\"b\\\"\", \"id\": 1}\n"
        "{\"cmd\": \"generate\", \"prompt\": [305,306,307], \"stop_ids\": [9,10], "
        "\"max_tokens\": 4, \"min_tokens\": 2, \"temperature\": 0.5, \"top_k\": 40, "
        "\"top_p\": 0.75, \"min_p\": 0.125, \"repetition_penalty\": 1.5, "
        "\"presence_penalty\": 0.25, \"frequency_penalty\": -0.25, \"penalty_window\": 30, "
        "\"logit_bias\": [[5,0.5],[6,null]], \"seed\": 18446744073709551615, "
        "\"logprobs\": true, \"top_logprobs\": 3, \"prefill_chunk\": 9, \"id\": 2}\n"
        "{\"cmd\": \"quit\"}\n",
        folder);
    expect_log(dir, want);
    free(want);
}

/* The library's text side ends an answer: the bridge is told to stop. */
static void test_stop_strings(void **state) {
    (void)state;
    mica_model *model = open_model();
    mica_session *session = open_session(model);
    mica_stream *stream;
    setenv("FAKE_BRIDGE", "endless", 1);
    mica_model *endless = open_model();
    unsetenv("FAKE_BRIDGE");
    mica_session *on_endless = open_session(endless);
    const mica_generate_options options = {.stop_strings = &(const char *){"two"},
                                           .stop_string_count = 1};
    for (int i = 0; i < 3; i++) {
        must(mica_generate(on_endless, "one two", 0, &options, &stream));
        char text[32] = "";
        for (mica_token token; mica_stream_next(stream, &token);)
            strncat(text, token.text, sizeof text - strlen(text) - 1);
        must(mica_stream_status(stream));
        assert_string_equal(text, "one ");
        assert_int_equal(mica_stream_finish(stream), MICA_FINISH_STOP);
        mica_stream_close(&stream);
    }
    mica_session_close(&on_endless);
    mica_model_close(&endless);
    mica_session_close(&session);
    mica_model_close(&model);
}

/* ---- what it cannot do ---- */

static void expect_refused(const mica_model_options *options, const char *option) {
    mica_model *model;
    mica_model_options given = *options;
    given.engine = "mlx_lm";
    expect_error(mica_model_open(folder, &given, &model), MICA_EUNSUPPORTED, option);
    expect_error(MICA_EUNSUPPORTED, MICA_EUNSUPPORTED, "the engine native");
    assert_null(model);
}

static void test_model_options(void **state) {
    (void)state;
    mica_device *device;
    mica_model *model;
    must(mica_device_open(NULL, NULL, &device));
    expect_refused(&(mica_model_options){.device = device}, "device");
    mica_device_close(&device);
    expect_refused(&(mica_model_options){.device_name = "cpu"}, "device");
    expect_refused(&(mica_model_options){.threads = 2}, "threads");
    expect_refused(&(mica_model_options){.cache = MICA_CACHE_F16}, "cache");
    expect_refused(&(mica_model_options){.context_length = 64}, "context_length");
    expect_refused(&(mica_model_options){.mlock = true}, "mlock");
    must(mica_model_open(/* it reads all weights into its memory whatever is asked */
                         folder,
                         &(mica_model_options){
                             .engine = "mlx_lm", .no_mmap = true, .prefetch = true},
                         &model));
    mica_model_close(&model);
    expect_error(
        mica_model_open(folder, &(mica_model_options){.engine = "mlx_lm", .cache = 77}, &model),
        MICA_EINVAL, "cache 77");
    expect_error(mica_model_open("nowhere", &(mica_model_options){.engine = "mlx_lm"}, &model),
                 MICA_ENOENT, "nowhere");
}

static void test_tasks(void **state) {
    (void)state;
    static const char native[] = "the engine native";
    mica_model *model = open_model();
    mica_session *session = open_session(model), *other;
    mica_classify_results *classes;
    mica_score_result *score;
    mica_attention *attention;
    mica_stream *stream;
    float *vector;
    size_t n;
    expect_error(mica_session_open(model, &(mica_session_options){.draft_model = model}, &other),
                 MICA_EUNSUPPORTED, "draft_model");
    expect_error(mica_session_open(model, &(mica_session_options){.prefill_chunk = -1}, &other),
                 MICA_EINVAL, "prefill_chunk");
    expect_error(
        mica_generate_ids(session, ids, 3, &(mica_generate_options){.draft_tokens = 3}, &stream),
        MICA_EUNSUPPORTED, "draft_tokens");
    expect_error(mica_generate_ids(session, ids, 3, &(mica_generate_options){.top_logprobs = 10001},
                                   &stream),
                 MICA_EUNSUPPORTED, "top_logprobs");
    expect_error(mica_session_save(session, "nowhere"), MICA_EUNSUPPORTED, "mlx_lm");
    expect_error(mica_classify(model, &(const char *){"one"}, 1, NULL, &classes), MICA_EUNSUPPORTED,
                 native);
    expect_error(mica_embed(model, "one", 0, NULL, &vector, &n), MICA_EUNSUPPORTED, native);
    expect_error(mica_score(model, "one two", 0, NULL, &score), MICA_EUNSUPPORTED, native);
    expect_error(mica_inspect_attention(model, "one", 0, NULL, 0, NULL, &attention),
                 MICA_EUNSUPPORTED, native);
    mica_session_close(&session);
    mica_model_close(&model);
}

/* ---- being chosen ---- */

/* A model of a kind that mica does not know is opened by this engine, or the error says how it
 * could be. */
static void test_unknown_family(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *weights = test_format("%s/model.safetensors", dir);
    char *from = test_format("%s/tokenizer.json", folder);
    char *to = test_format("%s/tokenizer.json", dir);
    mica_model *model;
    mica_engine_info info = {.struct_bytes = sizeof info};
    test_write_below(dir, "config.json", "{\"model_type\": \"phoenix\"}");
    test_write_file(weights, "\2\0\0\0\0\0\0\0{}", 10);
    test_copy_file(from, to);
    must(mica_model_open(dir, NULL, &model));
    assert_string_equal(test_model_info(model).engine, "mlx_lm");
    mica_model_close(&model);
    must(mica_engine_default(dir, &info));
    assert_string_equal(info.name, "mlx_lm");
    must(mica_engine_default(folder, &info));
    assert_string_equal(info.name, "native");

    setenv("FAKE_BRIDGE", "check-error", 1);
    expect_error(mica_model_open(dir, NULL, &model), MICA_EUNSUPPORTED, "phoenix");
    expect_error(mica_model_open(dir, NULL, &model), MICA_EUNSUPPORTED,
                 "the engine \"mlx_lm\" may open it, but is not available: no such thing");
    unsetenv("FAKE_BRIDGE");
    free(weights);
    free(from);
    free(to);
    test_temp_dir_remove(dir);
}

static void test_availability(void **state) {
    (void)state;
    mica_engine_info info = {.struct_bytes = sizeof info};
    mica_model *model;
    must(mica_engine_get("mlx_lm", &info));
    assert_true(info.available && info.built_in && info.preference < 0);
    setenv("FAKE_BRIDGE", "check-error", 1); /* a missing package */
    must(mica_engine_get("mlx_lm", &info));
    assert_false(info.available);
    assert_string_equal(info.reason, "no such thing");
    expect_error(mica_model_open(folder, &(mica_model_options){.engine = "mlx_lm"}, &model),
                 MICA_ENOENT, "the engine \"mlx_lm\" is not available: no such thing");
    unsetenv("FAKE_BRIDGE");
}

static void test_no_python(void **state) {
    (void)state;
    mica_model *model;
    if (!test_spawn_tells()) skip();
    const mica_mlx_lm_options missing = {.python = "no-such-python"};
    const mica_model_options options = {.engine = "mlx_lm", .mlx_lm = &missing};
    expect_error(mica_model_open(folder, &options, &model), MICA_ENOENT,
                 "install Python 3 and mlx-lm");
    expect_error(MICA_ENOENT, MICA_ENOENT, "no-such-python");
}

static void test_engine_options(void **state) {
    (void)state;
    mica_model *model;
    const mica_mlx_lm_options bad = {.load_seconds = -1}, newer = {.struct_bytes = 8192},
                              good = {.struct_bytes = sizeof good,
                                      .python = program,
                                      .paths = "/nowhere:/none",
                                      .start_seconds = 100,
                                      .load_seconds = 100,
                                      .silence_seconds = 100};
    mica_model_options options = {.engine = "mlx_lm", .mlx_lm = &bad};
    expect_error(mica_model_open(folder, &options, &model), MICA_EINVAL,
                 "MICA_MLX_LM_LOAD_SECONDS");
    options.mlx_lm = &newer;
    expect_error(mica_model_open(folder, &options, &model), MICA_EINVAL, "mica_mlx_lm_options");
    setenv("MICA_MLX_LM_SILENCE_SECONDS", "5 minutes", 1);
    options.mlx_lm = NULL;
    expect_error(mica_model_open(folder, &options, &model), MICA_EINVAL,
                 "MICA_MLX_LM_SILENCE_SECONDS");
    setenv("MICA_MLX_LM_SILENCE_SECONDS", "99.5", 1);
    must(mica_model_open(folder, &options, &model));
    mica_model_close(&model);
    setenv("MICA_MLX_LM_PYTHON", "no-such-python", 1);
    options.mlx_lm = &good; /* goes before the environment */
    must(mica_model_open(folder, &options, &model));
    mica_model_close(&model);
    unsetenv("MICA_MLX_LM_SILENCE_SECONDS");
    setenv("MICA_MLX_LM_PYTHON", program, 1);
}

static int find_files(void **state) {
    (void)state;
    folder = test_format("%s/default", test_models_dir());
    return setenv("MICA_MLX_LM_PYTHON", program, 1);
}

static int free_files(void **state) {
    (void)state;
    free(folder);
    free(program);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),           cmocka_unit_test(test_answers),
        cmocka_unit_test(test_alternatives),   cmocka_unit_test(test_progress),
        cmocka_unit_test(test_batch),          cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_unread_answer),  cmocka_unit_test(test_requests),
        cmocka_unit_test(test_stop_strings),   cmocka_unit_test(test_model_options),
        cmocka_unit_test(test_tasks),          cmocka_unit_test(test_unknown_family),
        cmocka_unit_test(test_availability),   cmocka_unit_test(test_no_python),
        cmocka_unit_test(test_engine_options),
    };
    if (fake_bridge_is(argc, argv)) return fake_bridge_run(argc, argv);
    program = test_program(argv[0]);
    return cmocka_run_group_tests_name("engine/mlx_lm", tests, find_files, free_files);
}
