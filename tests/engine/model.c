/* Models, sessions and streams as callers use them: the default model's golden answers, text,
 * memory, refusals. */
#define _POSIX_C_SOURCE 200809L

#include "engine/default_model.h"
#include "model/fixture.h"
#include "support/info.h"

#include "base/buffer.h"
#include "device/device.h"
#include "support/witness.h"

#include <mica/mica.h>

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mica_session *open_session(const mica_model *model) {
    mica_session *session;
    if (mica_session_open(model, NULL, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

/* ---- the default model's golden answers ---- */

enum { MAX = 16 };

static size_t read_messages(mc_json list, mica_message *messages, char *texts[2 * MAX]) {
    size_t n = 0;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); n++) {
        mc_str role, content;
        assert_true(n < MAX && mc_json_get_str(mc_json_find(it.value, "role"), &role) &&
                    mc_json_get_str(mc_json_find(it.value, "content"), &content));
        texts[2 * n] = test_format("%.*s", MC_STR_ARG(role));
        texts[2 * n + 1] = test_format("%.*s", MC_STR_ARG(content));
        messages[n] = (mica_message){.role = texts[2 * n], .content = texts[2 * n + 1]};
    }
    return n;
}

/* Compares an answer with the golden's ids, the last of which stops it, and text. */
static void check_answer(mica_stream *stream, mc_json golden, size_t number) {
    mc_buffer text = {0};
    mc_str want;
    int64_t id = -1;
    mica_token token;
    mc_json_iter it = mc_json_begin(mc_json_find(golden, "greedy_ids"));
    while (mica_stream_next(stream, &token)) {
        assert_true(mc_buffer_add(&text, token.text, token.len));
        if (token.id < 0) continue;
        assert_true(mc_json_next(&it) && mc_json_get_int(it.value, &id));
        if (token.id != id)
            fail_msg("answer %zu: token %d, want %lld", number, (int)token.id, (long long)id);
    }
    if (mica_stream_status(stream) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_stream_finish(stream), MICA_FINISH_STOP);
    assert_true(mc_json_next(&it) && mc_json_get_int(it.value, &id));
    assert_true(id == 1 || id == 5);
    assert_false(mc_json_next(&it));
    assert_true(mc_json_get_str(mc_json_find(golden, "text"), &want));
    assert_int_equal(text.len, want.len);
    assert_memory_equal(text.data, want.ptr, want.len);
    mc_buffer_deinit(&text);
}

static void check_conversation(mc_json golden, size_t number) {
    mica_message messages[MAX];
    char *texts[2 * MAX];
    mica_session *session = open_session(pebble);
    size_t n = read_messages(mc_json_find(golden, "messages"), messages, texts);
    mica_stream *stream;
    if (mica_chat(session, messages, n, NULL, &stream) != MICA_OK)
        fail_msg("%s", mica_last_error());
    check_answer(stream, golden, number);
    assert_int_equal(test_metrics(stream).prompt_tokens,
                     mc_json_count(mc_json_find(golden, "prompt_ids")));
    mica_stream_close(&stream);

    /* In a session that has had the conversation's beginning, only the new turn is computed. */
    for (size_t turn = 1; n > 1 && turn <= n; turn += 2) {
        mica_token token;
        if (turn == 1) mica_session_reset(session);
        assert_int_equal(mica_chat(session, messages, turn, NULL, &stream), MICA_OK);
        if (turn == n) {
            check_answer(stream, golden, number);
            assert_true(test_metrics(stream).reused_tokens > 20);
        } else {
            while (mica_stream_next(stream, &token)) {}
        }
        mica_stream_close(&stream);
    }
    for (size_t i = 0; i < 2 * n; i++)
        free(texts[i]);
    mica_session_close(&session);
}

static void test_default_model(void **state) {
    (void)state;
    mc_json_doc *doc;
    size_t number = 0;
    char *path = test_format("%s/golden.json", default_path);
    doc = test_load_json(path);
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it);)
        check_conversation(it.value, number++);
    printf("default model: %zu answers checked\n", number);
    assert_true(number > 0);
    mc_json_close(&doc);
    free(path);
}

static void test_info(void **state) {
    (void)state;
    mica_model_info info = test_model_info(pebble);
    assert_string_equal(info.path, default_path);
    assert_string_equal(info.engine, "native");
    assert_string_equal(info.family, "gemma3");
    assert_string_equal(info.architecture, "gemma3_text");
    assert_string_equal(info.dtype, "bf16");
    assert_string_equal(info.quantization, "4 bit, groups of 32 (affine)");
    assert_int_equal(info.bits, 4);
    assert_int_equal(info.group_size, 32);
    assert_int_equal(info.parameters, 20460928); /* its card's */
    assert_int_equal(info.layers, 8);
    assert_int_equal(info.vocab_size, 8192);
    assert_int_equal(info.context_length, 2048);
    assert_int_equal(info.sliding_window, 128);
    assert_int_equal(info.sliding_layers, 6);
    assert_true(info.weight_bytes > 12u << 20 && info.weight_bytes < 13u << 20);
    assert_int_equal(mica_model_cache_bytes(pebble, 256),
                     UINT64_C(8) * 256 * 2 * 2 * 64 * sizeof(float));
    assert_int_equal(mica_model_cache_bytes(pebble, 0), 0);
    assert_non_null(mica_model_tokenizer(pebble));
    assert_non_null(mica_model_device(pebble));
}

/* ---- text ---- */

/* The pieces of an answer are, together, what the tokenizer makes of all its ids. */
static void test_pieces(void **state) {
    (void)state;
    mica_session *session = open_session(pebble);
    mica_stream *stream;
    mc_buffer text = {0}, ids = {0};
    mica_token token;
    char *whole;
    size_t len;
    assert_int_equal(
        mica_generate(session, "GNU", 0,
                      &(mica_generate_options){
                          .max_tokens = 60, .temperature = 2.0f, .seed = 5, .ignore_eos = true},
                      &stream),
        MICA_OK);
    while (mica_stream_next(stream, &token)) {
        assert_int_equal(token.text[token.len], 0);
        assert_true(mc_buffer_add(&text, token.text, token.len));
        if (token.id >= 0) assert_true(MC_BUFFER_PUSH(&ids, int32_t, token.id));
    }
    assert_int_equal(MC_BUFFER_COUNT(&ids, int32_t), 60);
    assert_int_equal(mica_tokenizer_decode(mica_model_tokenizer(pebble),
                                           MC_BUFFER_AT(&ids, int32_t), 60, true, &whole, &len),
                     MICA_OK);
    assert_int_equal(text.len, len);
    assert_memory_equal(text.data, whole, len);
    mica_free(whole);
    mc_buffer_deinit(&ids);
    mc_buffer_deinit(&text);
    mica_stream_close(&stream);
    mica_session_close(&session);
}

/* A raw prompt that begins with its own <bos> is the same as one without. */
static void test_own_bos(void **state) {
    (void)state;
    static const char *const prompts[] = {"GNU is", "<bos>GNU is"};
    const mica_generate_options options = {.max_tokens = 1, .echo = true};
    mica_session *session = open_session(pebble);
    int32_t ids[2][8];
    size_t n[2] = {0};
    for (int i = 0; i < 2; i++) {
        mica_stream *stream;
        mica_score_result *score;
        mica_token token;
        assert_int_equal(mica_generate(session, prompts[i], 0, &options, &stream), MICA_OK);
        while (mica_stream_next(stream, &token) && n[i] < 8)
            ids[i][n[i]++] = token.id;
        mica_stream_close(&stream);
        assert_int_equal(mica_score(pebble, prompts[i], 0, NULL, &score), MICA_OK);
        assert_int_equal(score->count, n[i] - 1); /* all but the answer's */
        mica_score_free(&score);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(ids[0], ids[1], n[0] * sizeof ids[0][0]);
    mica_session_close(&session);
}

/* A session has one answer at a time: the first token of another ends the first one. */
static void test_another_answer(void **state) {
    (void)state;
    mica_session *session = open_session(pebble);
    mica_stream *first, *second;
    mica_token token;
    assert_int_equal(mica_generate(session, "GNU is", 0, NULL, &first), MICA_OK);
    assert_true(mica_stream_next(first, &token));
    assert_int_equal(mica_generate(session, "curl is", 0, NULL, &second), MICA_OK);
    assert_true(mica_stream_next(first, &token));
    assert_true(mica_stream_next(second, &token));
    assert_false(mica_stream_next(first, &token));
    assert_non_null(strstr(mica_last_error(), "another answer of it has begun"));
    assert_int_equal(mica_stream_status(first), MICA_EINVAL);
    assert_true(mica_stream_next(second, &token));
    mica_stream_close(&first);
    mica_stream_close(&second);
    mica_session_close(&session);
}

/* ---- refusals ---- */

static void expect_open(const char *path, const mica_model_options *options, mica_status status,
                        const char *word) {
    mica_model *model = pebble;
    assert_int_equal(mica_model_open(path, options, &model), status);
    assert_null(model);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
}

static void test_bad_models(void **state) {
    (void)state;
    char *empty = test_temp_dir();
    expect_open("/nowhere/at/all", NULL, MICA_ENOENT, "/nowhere/at/all");
    expect_open(empty, NULL, MICA_ENOENT, "config.json");
    expect_open(NULL, NULL, MICA_EINVAL, "path");
    expect_open(default_path, &(mica_model_options){.engine = "steam"}, MICA_EINVAL, "native");
    expect_open(default_path, &(mica_model_options){.device_name = "gpu"}, MICA_EDEVICE,
                "there is no device \"gpu\"; there are: cpu, mlx, cuda");
    expect_open(default_path, &(mica_model_options){.device_name = "mlx:tpu"}, MICA_EDEVICE, "mlx");
    expect_open(default_path, &(mica_model_options){.context_length = -1}, MICA_EINVAL,
                "context_length");
    expect_open(default_path, &(mica_model_options){.chat_template = "{% if %}"}, MICA_EFORMAT,
                "the given chat template, line 1");
    assert_int_equal(mica_model_open(default_path, NULL, NULL), MICA_EINVAL);
    test_temp_dir_remove(empty);

    char *dir = fixture_copy("gemma3_text_f32", "config.json", "gemma3_text", "mamba");
    expect_open(dir, NULL, MICA_EUNSUPPORTED, "mamba");
    test_temp_dir_remove(dir);
}

static void test_bad_prompts(void **state) {
    (void)state;
    mica_session *session = open_session(pebble);
    mica_stream *stream = NULL;
    int32_t many[3000] = {0};
    assert_int_equal(mica_generate(session, "", 0, NULL, &stream), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "empty"));
    assert_int_equal(mica_generate(session, "\xff", 1, NULL, &stream), MICA_EFORMAT);
    assert_int_equal(mica_generate(session, NULL, 0, NULL, &stream), MICA_EINVAL);
    assert_int_equal(mica_generate(NULL, "a", 0, NULL, &stream), MICA_EINVAL);
    assert_int_equal(mica_generate(session, "a", 0, NULL, NULL), MICA_EINVAL);
    assert_int_equal(mica_generate_ids(session, NULL, 3, NULL, &stream), MICA_EINVAL);
    assert_int_equal(mica_generate_ids(session, many, 0, NULL, &stream), MICA_EINVAL);
    assert_int_equal(mica_generate_ids(session, many, 3000, NULL, &stream), MICA_ECONTEXT);
    assert_non_null(strstr(mica_last_error(), "3000"));
    assert_non_null(strstr(mica_last_error(), "2048"));
    assert_int_equal(mica_chat(session, NULL, 0, NULL, &stream), MICA_EINVAL);
    assert_int_equal(
        mica_chat(session, &(mica_message){.role = "oracle", .content = "a"}, 1, NULL, &stream),
        MICA_EINVAL);
    assert_int_equal(
        mica_chat(session, &(mica_message){.role = "user", .content = NULL}, 1, NULL, &stream),
        MICA_EINVAL);
    assert_null(stream);
    mica_session_close(&session);
    assert_int_equal(
        mica_session_open(pebble, &(mica_session_options){.prefill_chunk = -1}, &session),
        MICA_EINVAL);
    assert_null(session);
}

/* What a caller has whose opening failed: nothing to close, and nothing to ask. */
static void test_nothing(void **state) {
    (void)state;
    mica_token token;
    assert_null(test_model_info(NULL).path);
    assert_int_equal(mica_model_cache_bytes(NULL, 1), 0);
    assert_null(mica_model_tokenizer(NULL));
    assert_null(mica_model_device(NULL));
    mica_session_reset(NULL);
    assert_false(mica_stream_next(NULL, &token));
    mica_stream_cancel(NULL);
    assert_int_equal(mica_stream_finish(NULL), MICA_FINISH_NONE);
    assert_string_equal(mica_finish_name(MICA_FINISH_NONE), "none");
    assert_string_equal(mica_finish_name(MICA_FINISH_ERROR), "error");
    assert_string_equal(mica_finish_name((mica_finish)99), "unknown");
    assert_int_equal(mica_stream_status(NULL), MICA_EINVAL);
    assert_int_equal(test_metrics(NULL).generated_tokens, 0);
    mica_stream_close(NULL);
    mica_session_close(NULL);
    mica_model_close(NULL);
}

/* ---- loading ---- */

static void count_progress(void *user, uint64_t done, uint64_t total) {
    uint64_t *last = user;
    assert_true(done >= last[0] && done <= total);
    last[0] = done;
    last[1] = total;
}

/* Threads of this process; 0: the system does not tell. */
static int count_threads(void) {
    DIR *dir = opendir("/proc/self/task");
    int count = 0;
    if (!dir) return 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Holds loading up until the thread that opens the tokenizer has ended. */
typedef struct holdup {
    int threads, calls;
} holdup;

static void wait_for_tokenizer(void *user, uint64_t done, uint64_t total) {
    holdup *h = user;
    (void)done, (void)total;
    h->calls++;
    while (count_threads() > h->threads)
        sched_yield();
}

/* A broken tokenizer ends loading, however the weights get into memory. */
static void test_broken_tokenizer(void **state) {
    (void)state;
    static const mica_model_options loadings[] = {{0}, {.no_mmap = true}, {.prefetch = true}};
    char *dir = test_temp_dir();
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char *from = test_format("%s/%s", default_path, files[i]);
        char *to = test_format("%s/%s", dir, files[i]);
        assert_int_equal(symlink(from, to), 0);
        free(from);
        free(to);
    }
    char *tokenizer = test_format("%s/tokenizer.json", dir);
    test_write_file(tokenizer, "{", 1);
    for (size_t i = 0; i < sizeof loadings / sizeof *loadings; i++) {
        holdup h = {.threads = count_threads()};
        mica_model_options options = loadings[i];
        mica_model *model;
        options.device = mica_model_device(pebble);
        options.progress = wait_for_tokenizer;
        options.progress_user = &h;
        assert_int_equal(mica_model_open(dir, &options, &model), MICA_EFORMAT);
        assert_non_null(strstr(mica_last_error(), "tokenizer.json"));
        if (h.threads) assert_int_equal(h.calls, 1);
    }
    free(tokenizer);
    test_temp_dir_remove(dir);
}

/* However the weights get into memory, they are the same. */
static void test_loading(void **state) {
    (void)state;
    static const mica_model_options loadings[] = {
        {0}, {.no_mmap = true}, {.prefetch = true}, {.no_mmap = true, .prefetch = true}};
    char first[256] = "";
    for (size_t i = 0; i < sizeof loadings / sizeof *loadings; i++) {
        uint64_t last[2] = {0};
        mica_model_options options = loadings[i];
        options.threads = 1;
        options.progress = count_progress;
        options.progress_user = last;
        mica_model *model;
        if (mica_model_open(default_path, &options, &model) != MICA_OK)
            fail_msg("%s", mica_last_error());
        assert_true(last[1] > 0 && last[0] == last[1]);
        mica_session *session = open_session(model);
        char text[sizeof first] = "";
        mica_stream *stream;
        assert_int_equal(mica_generate(session, "curl is", 0,
                                       &(mica_generate_options){.max_tokens = 8}, &stream),
                         MICA_OK);
        for (mica_token t; mica_stream_next(stream, &t);)
            strncat(text, t.text, sizeof text - strlen(text) - 1);
        assert_int_equal(mica_stream_status(stream), MICA_OK);
        if (i == 0) strcpy(first, text);
        assert_string_equal(text, first);
        mica_stream_close(&stream);
        mica_session_close(&session);
        mica_model_close(&model);
    }
    assert_true(strlen(first) > 8);
}

/* What loading tells while it copies weights to a device. */
typedef struct upload {
    mica_device *device;
    mica_cancel *cancel; /* NULL, or ends loading at its third call */
    uint64_t done, copies;
    int calls;
} upload;

static void watch_upload(void *user, uint64_t done, uint64_t total) {
    upload *u = user;
    uint64_t copies = witness_count(u->device, WITNESS_COPY);
    assert_true(done <= total && (done > u->done || done == total));
    if (done < total) assert_true(copies > u->copies);
    u->done = done;
    u->copies = copies;
    if (++u->calls == 3 && u->cancel) mica_cancel_set(u->cancel);
}

/* On a device with memory of its own: they count, they keep to its limit, and loading tells how far
 * it is and can be ended. */
static void test_loading_to_a_device(void **state) {
    (void)state;
    upload u = {0};
    mica_model *model;
    assert_int_equal(mc_device_open_backend(&witness_backend, "", NULL, &u.device), MICA_OK);
    mica_model_options options = {
        .device = u.device, .progress = watch_upload, .progress_user = &u};
    assert_int_equal(mica_model_open(default_path, &options, &model), MICA_OK);
    uint64_t weights = test_model_info(model).weight_bytes;
    assert_true(u.calls > 3);
    assert_in_range(mica_device_active_bytes(u.device), weights, weights + weights / 8);
    mica_model_close(&model);
    assert_int_equal(mica_device_active_bytes(u.device), 0);
    mica_device_set_memory_limit(u.device, weights / 2);
    u = (upload){.device = u.device};
    options.accelerator_layers = INT32_MAX; /* all of them */
    assert_int_equal(mica_model_open(default_path, &options, &model), MICA_ENOMEM);
    assert_non_null(strstr(mica_last_error(), "memory limit"));
    assert_int_equal(mica_device_active_bytes(u.device), 0);
    options.accelerator_layers = 0; /* what fits */
    setenv("MICA_CALIBRATION", "off", 1);
    options.progress = NULL;
    assert_int_equal(mica_model_open(default_path, &options, &model), MICA_OK);
    unsetenv("MICA_CALIBRATION");
    assert_in_range(mica_device_active_bytes(u.device), 1, weights / 2);
    mica_model_close(&model);
    options.progress = watch_upload;
    assert_int_equal(mica_device_active_bytes(u.device), 0);
    mica_device_set_memory_limit(u.device, 0);
    u = (upload){.device = u.device};
    assert_int_equal(mica_cancel_open(&u.cancel), MICA_OK);
    options.cancel = u.cancel;
    assert_int_equal(mica_model_open(default_path, &options, &model), MICA_ECANCELLED);
    assert_int_equal(u.calls, 3);
    assert_int_equal(mica_device_active_bytes(u.device), 0);
    mica_cancel_close(&u.cancel);
    mica_device_close(&u.device);
}

static void test_loading_cancelled(void **state) {
    (void)state;
    mica_cancel *cancel;
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    mica_cancel_set(cancel);
    static const mica_model_options loadings[] = {{0}, {.no_mmap = true}, {.prefetch = true}};
    for (size_t i = 0; i < sizeof loadings / sizeof *loadings; i++) {
        mica_model_options options = loadings[i];
        options.cancel = cancel;
        expect_open(default_path, &options, MICA_ECANCELLED, "cancelled");
    }
    mica_cancel_close(&cancel);
}

/* ---- memory ---- */

static void test_cache_bytes(void **state) {
    (void)state;
    uint64_t max = mica_model_cache_bytes(pebble, INT32_MAX);
    assert_int_equal(mica_model_cache_bytes(pebble, INT64_MIN), 0);
    assert_int_equal(mica_model_cache_bytes(pebble, 0), 0);
    assert_true(mica_model_cache_bytes(pebble, 2048) < max);
    assert_int_equal(mica_model_cache_bytes(pebble, INT64_MAX), max);
}

typedef struct attempt {
    const char *path;
    mica_device *device;
} attempt;

/* Opens a model and says a few tokens. */
static bool talk(void *arg) {
    const attempt *a = arg;
    mica_model *model = NULL;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    mica_token token;
    const mica_model_options options = {.device = a->device};
    test_forget_plans(a->device);
    mica_status status = mica_model_open(a->path, &options, &model);
    if (status == MICA_OK) status = mica_session_open(model, NULL, &session);
    if (status == MICA_OK)
        status = mica_generate(
            session, "The old lighthouse", 0,
            &(mica_generate_options){.max_tokens = 2, .temperature = 1.0f, .ignore_eos = true},
            &stream);
    if (status == MICA_OK) {
        while (mica_stream_next(stream, &token)) {}
        status = mica_stream_status(stream);
    }
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    assert_int_equal(mica_device_active_bytes(a->device), 0);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    attempt a;
    char *path = fixture_path("gemma3_text_f32");
    a.path = path;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &a.device),
                     MICA_OK);
    uint64_t rounds = test_fail_each_allocation(talk, &a);
    printf("no memory: %llu allocations failed, one after the other\n", (unsigned long long)rounds);
    mica_device_close(&a.device);
    free(path);
}

static void generate(mica_session *session, int64_t tokens, mica_metrics *metrics) {
    mica_stream *stream;
    mica_token token;
    assert_int_equal(
        mica_generate(session, "GNU", 0,
                      &(mica_generate_options){.max_tokens = tokens, .ignore_eos = true}, &stream),
        MICA_OK);
    while (mica_stream_next(stream, &token)) {}
    assert_int_equal(mica_stream_status(stream), MICA_OK);
    *metrics = test_metrics(stream);
    assert_int_equal(metrics->generated_tokens, tokens);
    mica_stream_close(&stream);
}

/* Weights are read in place in the file; 1,000 tokens leave active what 100 leave, and the caches'
 * growth; closing leaves nothing. */
static void test_bounded_memory(void **state) {
    (void)state;
    mica_device *device;
    mica_model *model;
    mica_metrics after[4];
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_model_open(default_path, &(mica_model_options){.device = device}, &model),
                     MICA_OK);
    mica_session *session = open_session(model);
    uint64_t idle = mica_device_active_bytes(device);
    assert_true(mica_device_peak_bytes(device) < test_model_info(model).weight_bytes / 8);
    generate(session, 100, &after[0]);
    generate(session, 600, &after[1]);
    uint64_t grown = mica_model_cache_bytes(model, 600) - mica_model_cache_bytes(model, 100);
    assert_int_equal(after[1].active_bytes, after[0].active_bytes + grown);
    for (int i = 2; i < 4; i++) { /* a second and a third time: neither more nor a higher peak */
        generate(session, 600, &after[i]);
        assert_int_equal(after[i].active_bytes, after[1].active_bytes);
        assert_int_equal(after[i].peak_bytes, after[1].peak_bytes);
    }
    mica_session_reset(session);
    assert_int_equal(mica_device_active_bytes(device), idle);
    mica_session_close(&session);
    mica_model_close(&model);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_model),    cmocka_unit_test(test_info),
        cmocka_unit_test(test_pieces),           cmocka_unit_test(test_own_bos),
        cmocka_unit_test(test_another_answer),   cmocka_unit_test(test_bad_models),
        cmocka_unit_test(test_bad_prompts),      cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_loading),          cmocka_unit_test(test_loading_to_a_device),
        cmocka_unit_test(test_broken_tokenizer), cmocka_unit_test(test_loading_cancelled),
        cmocka_unit_test(test_cache_bytes),      cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_bounded_memory),
    };
    return cmocka_run_group_tests_name("engine/model", tests, open_default, close_default);
}
