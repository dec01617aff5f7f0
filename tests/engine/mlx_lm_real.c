/* The engine mlx_lm and its bridge over Python's own mlx-lm, against mica's engine. Skipped where
 * there is no mlx-lm: tools/setup-mlx-lm gets it. */
#define _DEFAULT_SOURCE
#include "support/support.h"

#include "base/system.h"
#include "engine/mlx_lm_python.h"
#include "engine/orphan.h"
#include "support/info.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX = 24, TOP = 3 };

static char *folder; /* of the default model */
static mica_model *native, *mlx_lm;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* One answer, by an engine. */
typedef struct answer {
    int32_t ids[MAX];
    float logprobs[MAX];
    int32_t top[MAX][TOP];
    size_t count;
    mica_finish finish;
    mica_metrics metrics;
    char text[1024];
} answer;

static void read_answer(mica_stream *stream, answer *out) {
    *out = (answer){.count = 0};
    for (mica_token token; mica_stream_next(stream, &token);) {
        strncat(out->text, token.text, sizeof out->text - strlen(out->text) - 1);
        if (token.id < 0) continue;
        assert_true(out->count < MAX);
        out->ids[out->count] = token.id;
        out->logprobs[out->count] = token.logprob;
        for (size_t i = 0; i < token.alternative_count && i < TOP; i++)
            out->top[out->count][i] = token.alternatives[i].id;
        out->count++;
    }
    must(mica_stream_status(stream));
    out->finish = mica_stream_finish(stream);
    out->metrics = test_metrics(stream);
    mica_stream_close(&stream);
}

static void expect_same(const answer *want, const answer *got) {
    assert_string_equal(got->text, want->text);
    assert_int_equal(got->count, want->count);
    assert_memory_equal(got->ids, want->ids, want->count * sizeof *want->ids);
    assert_int_equal(got->finish, want->finish);
    assert_int_equal(got->metrics.generated_tokens, want->metrics.generated_tokens);
    assert_int_equal(got->metrics.prompt_tokens, want->metrics.prompt_tokens);
}

/* ---- both engines ---- */

static void test_info(void **state) {
    (void)state;
    mica_model_info want = test_model_info(native), got = test_model_info(mlx_lm);
    assert_string_equal(got.engine, "mlx_lm");
    assert_string_equal(got.architecture, want.architecture);
    assert_string_equal(got.family, want.family);
    assert_string_equal(got.dtype, want.dtype);
    assert_string_equal(got.quantization, want.quantization);
    assert_int_equal(got.bits, want.bits);
    assert_int_equal(got.group_size, want.group_size);
    assert_true(got.layers == want.layers && got.hidden_size == want.hidden_size);
    assert_true(got.heads == want.heads && got.kv_heads == want.kv_heads);
    assert_true(got.head_dim == want.head_dim && got.vocab_size == want.vocab_size);
    assert_true(got.context_length == want.context_length);
    assert_true(got.parameters == want.parameters && got.weight_bytes == want.weight_bytes);
}

/* A conversation of two answers, the second reusing what the first computed. */
static void talk(const mica_model *model, answer answers[2]) {
    mica_session *session;
    mica_stream *stream;
    must(mica_session_open(model, NULL, &session));
    mica_message messages[] = {{.role = "user", .content = "What is nginx?"},
                               {.role = "assistant", .content = NULL},
                               {.role = "user", .content = "And what is curl?"}};
    for (int i = 0; i < 2; i++) {
        must(mica_chat(session, messages, i ? 3 : 1, &(mica_generate_options){.max_tokens = MAX},
                       &stream));
        read_answer(stream, &answers[i]);
        messages[1].content = answers[0].text;
    }
    mica_session_close(&session);
}

static void test_conversation(void **state) {
    (void)state;
    static answer want[2], got[2];
    talk(native, want);
    talk(mlx_lm, got);
    for (int i = 0; i < 2; i++) {
        expect_same(&want[i], &got[i]);
        assert_true(got[i].metrics.prefill_seconds > 0 && got[i].metrics.decode_seconds > 0);
        assert_true(got[i].metrics.active_bytes > 0 && got[i].metrics.peak_bytes > 0);
    }
    assert_true(got[1].metrics.reused_tokens >= got[0].metrics.prompt_tokens);
}

static void generate(const mica_model *model, const mica_generate_options *options, answer *out) {
    mica_session *session;
    mica_stream *stream;
    must(mica_session_open(model, NULL, &session));
    must(mica_chat(session, &(mica_message){.role = "user", .content = "What is nginx?"}, 1,
                   options, &stream));
    read_answer(stream, out);
    mica_session_close(&session);
}

/* Options that change a greedy answer change both in the same way. */
static void test_options(void **state) {
    (void)state;
    static answer plain, want, got;
    const mica_logit_bias bias[] = {{6820, -INFINITY}, {444, 2.5f}, {444, 2.5f}};
    const mica_generate_options cases[] = {
        {.max_tokens = 8, .logprobs = true, .top_logprobs = TOP},
        {.max_tokens = 12, .repetition_penalty = 9, .penalty_window = 30},
        {.max_tokens = MAX, .presence_penalty = 30},  /* an answer that repeats a token: */
        {.max_tokens = MAX, .frequency_penalty = 30}, /* the prompt's are not punished */
        {.max_tokens = 8, .logit_bias = bias, .logit_bias_count = 3, .logprobs = true},
        {.max_tokens = 8, .stop_ids = (const int32_t[]){422}, .stop_count = 1},
        {.max_tokens = 8, .min_tokens = 5, .stop_ids = (const int32_t[]){422}, .stop_count = 1},
        {.max_tokens = 8, .temperature = 0.7f, .top_k = 1, .top_p = 0.9f, .min_p = 0.1f, .seed = 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        generate(native, &(mica_generate_options){.max_tokens = cases[i].max_tokens}, &plain);
        generate(native, &cases[i], &want);
        generate(mlx_lm, &cases[i], &got);
        expect_same(&want, &got);
        bool changes = i > 0 && i + 1 < sizeof cases / sizeof *cases; /* or it shows nothing */
        assert_true(changes == (strcmp(plain.text, want.text) != 0));
        for (size_t t = 0; t < want.count && cases[i].logprobs; t++)
            assert_true(fabsf(got.logprobs[t] - want.logprobs[t]) < 0.05f);
        for (size_t t = 0; t < want.count && cases[i].top_logprobs; t++)
            assert_int_equal(got.top[t][0], want.top[t][0]);
    }
}

static void test_seeds(void **state) {
    (void)state;
    static answer first, second;
    const mica_generate_options hot = {.max_tokens = 6, .temperature = 3.0f, .seed = 11};
    generate(mlx_lm, &hot, &first);
    generate(mlx_lm, &hot, &second);
    expect_same(&first, &second);
}

/* ---- threads, cancelling, errors ---- */

typedef struct worker {
    pthread_t thread;
    const char *prompt;
    mica_stream *stream;
    mica_session *session;
    char text[256];
} worker;

static void *work(void *arg) {
    worker *w = arg;
    for (mica_token token; mica_stream_next(w->stream, &token);)
        strncat(w->text, token.text, sizeof w->text - strlen(w->text) - 1);
    return NULL;
}

static void run_workers(const mica_model *model, worker *workers) {
    for (int i = 0; i < 2; i++) {
        worker *w = &workers[i];
        *w = (worker){.prompt = i ? "What is curl?" : "What is nginx?"};
        must(mica_session_open(model, NULL, &w->session));
        must(mica_chat(w->session, &(mica_message){.role = "user", .content = w->prompt}, 1,
                       &(mica_generate_options){.max_tokens = 8}, &w->stream));
        assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        must(mica_stream_status(workers[i].stream));
        mica_stream_close(&workers[i].stream);
        mica_session_close(&workers[i].session);
    }
}

static void test_two_threads(void **state) {
    (void)state;
    static worker want[2], got[2];
    run_workers(native, want);
    run_workers(mlx_lm, got);
    for (int i = 0; i < 2; i++)
        assert_string_equal(got[i].text, want[i].text);
}

typedef struct canceller {
    mica_stream *stream;
    atomic_bool done;
} canceller;

static void *cancel(void *arg) {
    canceller *c = arg;
    mica_stream_cancel(c->stream);
    atomic_store(&c->done, true);
    return NULL;
}

/* In mid-stream: no more than the token that was under way comes. And the child does not compute
 * on: the next answer comes. */
static void test_cancel(void **state) {
    (void)state;
    static answer want, got;
    pthread_t thread;
    mica_token token;
    mica_session *session;
    canceller c = {.done = false};
    int after = 0;
    must(mica_session_open(mlx_lm, NULL, &session));
    must(
        mica_generate(session, "Once", 0, &(mica_generate_options){.ignore_eos = true}, &c.stream));
    assert_true(mica_stream_next(c.stream, &token));
    assert_int_equal(pthread_create(&thread, NULL, cancel, &c), 0);
    while (mica_stream_next(c.stream, &token))
        after += atomic_load(&c.done);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(after, 0, 1);
    assert_int_equal(mica_stream_status(c.stream), MICA_ECANCELLED);
    mica_stream_close(&c.stream);
    mica_session_close(&session);
    generate(native, &(mica_generate_options){.max_tokens = 4}, &want);
    generate(mlx_lm, &(mica_generate_options){.max_tokens = 4}, &got);
    expect_same(&want, &got);
}

/* Folders that mlx-lm cannot open. */
static void test_bad_folders(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *weights = test_format("%s/model.safetensors", dir);
    char *from = test_format("%s/tokenizer.json", folder);
    char *to = test_format("%s/tokenizer.json", dir);
    mica_model *model;
    const mica_model_options options = {.engine = "mlx_lm"};
    test_copy_file(from, to);
    test_write_file(weights, "\2\0\0\0\0\0\0\0{}", 10);
    test_write_below(dir, "config.json", "{\"model_type\": \"phoenix\"}");
    assert_int_equal(mica_model_open(dir, &options, &model), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "cannot open model: "));
    assert_non_null(strstr(mica_last_error(), "phoenix"));
    assert_int_equal(mica_model_open("nowhere", &options, &model), MICA_ENOENT);
    assert_null(model);
    free(weights);
    free(from);
    free(to);
    test_temp_dir_remove(dir);
}

/* Python ends in the middle of an answer, and leaves no script. */
static void test_parent_dies(void **state) {
    (void)state;
    char *dir = orphan_make(folder);
    test_list left = test_list_folders(dir);
    for (size_t i = 0; i < left.count; i++) /* MLX keeps what it compiled in a folder of its own */
        assert_string_equal(left.names[i], "mlx");
    test_list_free(&left);
    test_temp_dir_remove(dir);
}

/* ---- the bridge itself ---- */

static mc_process *bridge;

static void send_line(const char *line) {
    must(mc_process_write(bridge, line, strlen(line), mc_now_us() + 60000000));
    must(mc_process_write(bridge, "\n", 1, mc_now_us() + 60000000));
}

static mc_json_doc *receive(void) {
    mc_json_doc *reply = NULL;
    uint64_t deadline = mc_now_us() + 120000000;
    while (!reply)
        must(mc_mlx_lm_poll(bridge, deadline, &reply));
    return reply;
}

static void expect_refusal(const char *line, mica_status status, const char *text) {
    send_line(line);
    mc_json_doc *reply = receive();
    assert_int_equal(mc_mlx_lm_refusal(mc_json_root(reply)), status);
    if (!strstr(mica_last_error(), text)) fail_msg("%s: no \"%s\"", mica_last_error(), text);
    mc_json_close(&reply);
}

static int64_t get(mc_json reply, const char *key) {
    int64_t value = -1;
    (void)mc_json_get_int(mc_json_find(reply, key), &value);
    return value;
}

/* The ids of an answer, up to {done}; *done has its reply. */
static size_t receive_ids(int32_t *ids, size_t room, mc_json_doc **done) {
    for (size_t count = 0;;) {
        mc_json_doc *reply = receive();
        mc_json root = mc_json_root(reply);
        must(mc_mlx_lm_refusal(root));
        if (mc_json_exists(mc_json_find(root, "done"))) {
            *done = reply;
            return count;
        }
        if (get(root, "token_id") >= 0) {
            assert_true(count < room);
            ids[count++] = (int32_t)get(root, "token_id");
        }
        mc_json_close(&reply);
    }
}

static void start_bridge(void) {
    mc_mlx_lm_settings settings;
    must(mc_mlx_lm_settle(NULL, &settings));
    must(mc_mlx_lm_start(&settings, NULL, &bridge));
}

static void load_bridge(void) {
    char *line = test_format("{\"cmd\": \"load\", \"path\": \"%s\", \"id\": 1}", folder);
    send_line(line);
    mc_json_doc *reply = receive();
    must(mc_mlx_lm_refusal(mc_json_root(reply)));
    assert_int_equal(get(mc_json_root(reply), "vocab_size"), test_model_info(native).vocab_size);
    mc_json_close(&reply);
    free(line);
}

static void test_bridge_refuses(void **state) {
    (void)state;
    start_bridge();
    expect_refusal("{\"cmd\": \"info\"}", MICA_EINVAL, "no model is loaded");
    expect_refusal("{\"cmd\": \"load\", \"path\": \"/nowhere\"}", MICA_ENOENT, "cannot open model");
    load_bridge();
    expect_refusal("{\"cmd\": \"dance\"}", MICA_EINVAL, "dance");
    expect_refusal("rubbish", MICA_EINVAL, "not a request");
    expect_refusal("[1]", MICA_EINVAL, "not a request");
    expect_refusal("{\"cmd\": \"generate\", \"prompt\": \"a\", \"mirostat\": 2}", MICA_EUNSUPPORTED,
                   "generate: no option 'mirostat'");
    expect_refusal("{\"cmd\": \"generate\", \"prompt\": []}", MICA_EINVAL, "the prompt is empty");
    expect_refusal("{\"cmd\": \"chat\", \"messages\": []}", MICA_EINVAL, "messages");
    expect_refusal("{\"cmd\": \"inspect\", \"prompt\": \"a\", \"layers\": [99]}", MICA_EINVAL,
                   "99");
    send_line("{\"cmd\": \"quit\"}");
    mc_process_close(&bridge, 60000000);
}

/* Its chat has the tokenizer's own template, and its cancel ends what runs. */
static void test_bridge_answers(void **state) {
    (void)state;
    static answer want;
    int32_t ids[MAX];
    mc_json_doc *done;
    mc_str finish = {"", 0};
    start_bridge();
    load_bridge();
    send_line("{\"cmd\": \"info\", \"id\": 2}");
    mc_json_doc *reply = receive();
    assert_int_equal(get(mc_json_root(reply), "layers"), test_model_info(native).layers);
    assert_int_equal(get(mc_json_root(reply), "id"), 2);
    mc_json_close(&reply);

    generate(native, &(mica_generate_options){.max_tokens = 8}, &want);
    send_line("{\"cmd\": \"chat\", \"messages\": [{\"role\": \"user\", \"content\": "
              "\"What is nginx?\"}], \"max_tokens\": 8, \"id\": 3}");
    assert_int_equal(receive_ids(ids, MAX, &done), 8);
    assert_memory_equal(ids, want.ids, sizeof(int32_t) * 8);
    assert_int_equal(get(mc_json_root(done), "prompt_tokens"), want.metrics.prompt_tokens);
    mc_json_close(&done);

    send_line("{\"cmd\": \"generate\", \"prompt\": \"Once\", \"stop_ids\": [], \"id\": 4}");
    send_line("{\"cmd\": \"cancel\", \"target\": 4}");
    assert_true(receive_ids(ids, MAX, &done) < MAX);
    assert_true(mc_json_get_str(mc_json_find(mc_json_root(done), "finish"), &finish));
    assert_true(mc_str_is(finish, "cancelled"));
    mc_json_close(&done);
    mc_process_close(&bridge, 60000000); /* the end of its input ends it */
}

/* ---- attention ---- */

static int digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Little-endian floats of a text in base64. */
static float *decode(mc_str text) {
    unsigned char *bytes = malloc(text.len + 1);
    size_t n = 0;
    uint32_t bits = 0;
    int held = 0;
    assert_non_null(bytes);
    for (size_t i = 0; i < text.len && digit(text.ptr[i]) >= 0; i++) {
        bits = bits << 6 | (uint32_t)digit(text.ptr[i]);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        bytes[n++] = (unsigned char)(bits >> held);
    }
    return (float *)(void *)bytes;
}

/* Within the rounding of bf16, in which mlx-lm computes. */
static void expect_near(mc_json reply, const char *key, const float *want, size_t n) {
    mc_str text = {"", 0};
    double error = 0, size = 0;
    assert_true(mc_json_get_str(mc_json_find(reply, key), &text));
    assert_int_equal(text.len, (n * sizeof(float) + 2) / 3 * 4);
    float *got = decode(text);
    for (size_t i = 0; i < n; i++) {
        error += (double)(got[i] - want[i]) * (double)(got[i] - want[i]);
        size += (double)want[i] * (double)want[i];
    }
    free(got);
    assert_true(size > 0 && error < 0.1 * 0.1 * size);
}

static void test_bridge_inspects(void **state) {
    (void)state;
    mica_attention *want;
    must(mica_inspect_attention(native, "What is nginx?", 0, (const int64_t[]){0, 5}, 2, NULL,
                                &want));
    start_bridge();
    load_bridge();
    send_line("{\"cmd\": \"inspect\", \"prompt\": \"What is nginx?\", \"layers\": [0, 5]}");
    for (size_t i = 0; i < 2; i++) {
        mc_json_doc *reply = receive();
        mc_json root = mc_json_root(reply);
        must(mc_mlx_lm_refusal(root));
        assert_true(get(root, "layer") == want->layers[i].layer);
        assert_true(get(root, "tokens") == want->tokens && get(root, "heads") == want->heads);
        size_t row = (size_t)(want->tokens * want->head_dim);
        expect_near(root, "q", want->layers[i].q, row * (size_t)want->heads);
        expect_near(root, "k", want->layers[i].k, row * (size_t)want->kv_heads);
        mc_json_close(&reply);
    }
    mc_json_doc *done = receive();
    assert_true(mc_json_exists(mc_json_find(mc_json_root(done), "done")));
    mc_json_close(&done);
    mc_process_close(&bridge, 60000000);
    mica_attention_free(&want);
}

/* ---- the whole ---- */

/* Python: $MICA_TEST_PYTHON or python3, with the project's own mlx-lm if tools/setup-mlx-lm has
 * put it there. */
static bool find_mlx_lm(void) {
    const char *python = getenv("MICA_TEST_PYTHON");
    char *own = test_format("%s/../build/mlx-lm", test_models_dir());
    mica_engine_info info = {.struct_bytes = sizeof info};
    setenv("MICA_MLX_LM_PYTHON", python ? python : "python3", 1);
    if (access(own, R_OK) == 0) setenv("MICA_MLX_LM_PATH", own, 1);
    free(own);
    must(mica_engine_get("mlx_lm", &info));
    if (!info.available) printf("skipped: %s\n", info.reason);
    return info.available;
}

static int open_models(void **state) {
    (void)state;
    folder = test_format("%s/default", test_models_dir());
    must(mica_model_open(folder, &(mica_model_options){.arithmetic = MICA_ARITHMETIC_EXACT},
                         &native));
    must(mica_model_open(folder, &(mica_model_options){.engine = "mlx_lm"}, &mlx_lm));
    return 0;
}

static int close_models(void **state) {
    (void)state;
    mica_model_close(&native);
    mica_model_close(&mlx_lm);
    free(folder);
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_conversation),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_bad_folders),
        cmocka_unit_test(test_parent_dies),
        cmocka_unit_test(test_bridge_refuses),
        cmocka_unit_test(test_bridge_answers),
        cmocka_unit_test(test_bridge_inspects),
    };
    if (!find_mlx_lm()) return 77;
    return cmocka_run_group_tests_name("engine/mlx_lm_real", tests, open_models, close_models);
}
