/* OpenAI's endpoints for answers: they say what mica_chat and mica_generate say, to the bit. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include "base/json_write.h"
#include "serve/common/token_text.h"
#include "serve/openai/logprobs.h"
#include "session/prefix.h"
#include "support/system.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHAT "/v1/chat/completions"
#define COMPLETIONS "/v1/completions"
#define HELLO "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"

/* ---- what is expected ---- */

typedef struct expected {
    char text[8192];
    size_t len;
    int32_t ids[2048];
    float logprobs[2048];
    mica_alternative first[2048]; /* the likeliest one */
    size_t count;
    const char *finish;
    int64_t prompt_tokens;
} expected;

/* The answer of the library to a chat, or to a raw prompt. */
static expected *expect(bool chat, const char *prompt, const mica_generate_options *options) {
    expected *e = calloc(1, sizeof *e);
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    assert_non_null(e);
    assert_int_equal(mica_session_open(shared.model, NULL, &session), MICA_OK);
    mica_message message = {.role = "user", .content = prompt};
    mica_status status = chat ? mica_chat(session, &message, 1, options, &stream)
                              : mica_generate(session, prompt, 0, options, &stream);
    assert_int_equal(status, MICA_OK);
    for (mica_token t; mica_stream_next(stream, &t);) {
        memcpy(e->text + e->len, t.text, t.len);
        e->len += t.len;
        if (t.id < 0) continue;
        e->logprobs[e->count] = t.logprob;
        if (t.alternative_count) e->first[e->count] = t.alternatives[0];
        e->ids[e->count++] = t.id;
    }
    e->finish = mica_stream_finish(stream) == MICA_FINISH_STOP ? "stop" : "length";
    mica_metrics metrics = {.struct_bytes = sizeof metrics};
    mica_stream_metrics(stream, &metrics);
    e->prompt_tokens = metrics.prompt_tokens;
    mica_stream_close(&stream);
    mica_session_close(&session);
    return e;
}

/* ---- reading ---- */

static mc_json at(mc_json array, size_t i) {
    mc_json_iter it = mc_json_begin(array);
    for (size_t k = 0; mc_json_next(&it); k++)
        if (k == i) return it.value;
    return (mc_json){0};
}

static mc_json find(mc_json value, const char *a, const char *b) {
    value = mc_json_find(value, a);
    return b ? mc_json_find(value, b) : value;
}

static mc_str text_of(mc_json value) {
    mc_str text = {NULL, 0};
    mc_json_get_str(value, &text);
    return text;
}

static int64_t int_of(mc_json value) {
    int64_t n = -1;
    mc_json_get_int(value, &n);
    return n;
}

static void check_text(mc_str got, const expected *e) {
    if (got.len != e->len || memcmp(got.ptr, e->text, e->len) != 0)
        fail_msg("got \"%.*s\", want \"%s\"", MC_STR_ARG(got), e->text);
}

static void check_usage(mc_json root, int64_t prompt, int64_t tokens) {
    mc_json usage = mc_json_find(root, "usage");
    assert_int_equal(int_of(mc_json_find(usage, "prompt_tokens")), prompt);
    assert_int_equal(int_of(mc_json_find(usage, "completion_tokens")), tokens);
    assert_int_equal(int_of(mc_json_find(usage, "total_tokens")), prompt + tokens);
}

/* ---- answers ---- */

typedef struct variant {
    const char *fields; /* of the request */
    mica_generate_options options;
} variant;

static const mica_logit_bias biases[] = {{444, 5.0f}, {558, -100.0f}};
static const char *const stops[] = {"transferring", "zzz"};
static const int32_t stop_ids[] = {293};

static const variant variants[] = {
    {"\"temperature\": 0", {.penalty_window = 1}},
    {"\"temperature\": 0, \"max_tokens\": 7", {.max_tokens = 7, .penalty_window = 1}},
    {"\"seed\": 11", {.temperature = 1.0f, .seed = 11}},
    {"\"seed\": 3, \"temperature\": 1.7, \"top_p\": 0.9, \"top_k\": 40, \"min_p\": 0.01, "
     "\"max_tokens\": 40",
     {.temperature = 1.7f,
      .top_p = 0.9f,
      .top_k = 40,
      .min_p = 0.01f,
      .seed = 3,
      .max_tokens = 40}},
    {"\"seed\": 5, \"temperature\": 2, \"frequency_penalty\": 0.5, \"presence_penalty\": -0.25, "
     "\"repetition_penalty\": 1.3, \"penalty_window\": 9, \"max_tokens\": 40",
     {.temperature = 2.0f,
      .frequency_penalty = 0.5f,
      .presence_penalty = -0.25f,
      .repetition_penalty = 1.3f,
      .penalty_window = 9,
      .seed = 5,
      .max_tokens = 40}},
    {"\"temperature\": 0, \"stop\": [\"transferring\", \"zzz\"]",
     {.stop_strings = stops, .stop_string_count = 2}},
    {"\"temperature\": 0, \"stop\": \"transferring\", \"min_tokens\": 20, \"max_tokens\": 60",
     {.stop_strings = stops, .stop_string_count = 1, .min_tokens = 20, .max_tokens = 60}},
    {"\"temperature\": 0, \"logit_bias\": {\"444\": 5, \"558\": -100}, \"stop_token_ids\": [293], "
     "\"max_tokens\": 40",
     {.logit_bias = biases,
      .logit_bias_count = 2,
      .stop_ids = stop_ids,
      .stop_count = 1,
      .max_tokens = 40}},
    {"\"temperature\": 0, \"ignore_eos\": true, \"max_tokens\": 70",
     {.ignore_eos = true, .max_tokens = 70}},
};

/* An answer in one piece: text, end and numbers of tokens are those of the library. */
static void test_chat(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        expected *e = expect(true, "What is curl?", &variants[i].options);
        char *body = test_format("{" HELLO ", %s}", variants[i].fields);
        mc_json_doc *doc = client_json(shared.server, "POST", CHAT, body, 200);
        mc_json root = mc_json_root(doc), choice = at(mc_json_find(root, "choices"), 0);
        check_text(text_of(find(choice, "message", "content")), e);
        assert_true(mc_str_is(text_of(mc_json_find(choice, "finish_reason")), e->finish));
        check_usage(root, e->prompt_tokens, (int64_t)e->count);
        mc_json_close(&doc);
        free(body);
        free(e);
    }
}

static void test_text(void **state) {
    (void)state;
    for (size_t i = 1; i < sizeof variants / sizeof *variants; i++) {
        mica_generate_options options = variants[i].options;
        if (!options.max_tokens) options.max_tokens = 16; /* as the API has it */
        expected *e = expect(false, "curl is", &options);
        char *body = test_format("{\"prompt\": \"curl is\", %s}", variants[i].fields);
        mc_json_doc *doc = client_json(shared.server, "POST", COMPLETIONS, body, 200);
        mc_json root = mc_json_root(doc), choice = at(mc_json_find(root, "choices"), 0);
        check_text(text_of(mc_json_find(choice, "text")), e);
        assert_true(mc_str_is(text_of(mc_json_find(choice, "finish_reason")), e->finish));
        check_usage(root, e->prompt_tokens, (int64_t)e->count);
        mc_json_close(&doc);
        free(body);
        free(e);
    }
}

/* Choice i is what its seed gives alone. */
static void test_choices(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(shared.server, "POST", CHAT,
                                   "{" HELLO ", \"n\": 5, \"seed\": 70, \"temperature\": 3, "
                                   "\"max_tokens\": 12}",
                                   200);
    mc_json choices = mc_json_find(mc_json_root(doc), "choices");
    assert_int_equal(mc_json_count(choices), 5);
    for (size_t i = 0; i < 5; i++) {
        mica_generate_options options = {.temperature = 3, .seed = 70 + i, .max_tokens = 12};
        expected *e = expect(true, "What is curl?", &options);
        assert_int_equal(int_of(mc_json_find(at(choices, i), "index")), i);
        check_text(text_of(find(at(choices, i), "message", "content")), e);
        free(e);
    }
    mc_json_close(&doc);
}

static void check_token(mc_json token, const mica_tokenizer *tok, int32_t id, float logprob) {
    double got;
    size_t len, spelled;
    const char *piece = mica_tokenizer_token(tok, id, &spelled);
    mc_str text = text_of(mc_json_find(token, "token"));
    assert_true(mc_json_get_float(mc_json_find(token, "logprob"), &got));
    assert_true((float)got == logprob);
    /* "_is" of the vocabulary is " is" of a text: the same but for the mark of a blank. */
    len = spelled >= 3 && memcmp(piece, "\xe2\x96\x81", 3) == 0 ? spelled - 2 : spelled;
    if (piece[0] != '<') assert_int_equal(text.len, len);
    if (piece[0] != '<') assert_int_equal(mc_json_count(mc_json_find(token, "bytes")), len);
}

static void test_logprobs(void **state) {
    (void)state;
    const mica_tokenizer *tok = mica_model_tokenizer(shared.model);
    mica_generate_options options = {
        .temperature = 1, .seed = 4, .max_tokens = 9, .top_logprobs = 3};
    expected *e = expect(true, "What is curl?", &options);
    mc_json_doc *doc = client_json(shared.server, "POST", CHAT,
                                   "{" HELLO ", \"seed\": 4, \"max_tokens\": 9, \"logprobs\": true,"
                                   " \"top_logprobs\": 3}",
                                   200);
    mc_json choice = at(mc_json_find(mc_json_root(doc), "choices"), 0);
    mc_json content = find(choice, "logprobs", "content");
    assert_int_equal(mc_json_count(content), e->count);
    assert_int_equal(mc_json_get_type(find(choice, "logprobs", "refusal")), MC_JSON_NULL);
    for (size_t i = 0; i < e->count; i++) {
        mc_json token = at(content, i), top = mc_json_find(token, "top_logprobs");
        check_token(token, tok, e->ids[i], e->logprobs[i]);
        assert_int_equal(mc_json_count(top), 3);
        check_token(at(top, 0), tok, e->first[i].id, e->first[i].logprob);
    }
    mc_json_close(&doc);
    free(e);
}

/* ---- streams ---- */

/* The data of the next event of a stream; NULL: there is none. Ends it with a NUL. */
static char *next_event(char **stream) {
    while (**stream) {
        char *line = *stream, *end = strchr(line, '\n');
        assert_non_null(end); /* no event is cut off */
        *end = '\0';
        *stream = end + 1;
        if (strncmp(line, "data: ", 6) == 0) return line + 6;
        assert_true(line[0] == '\0' || line[0] == ':');
    }
    return NULL;
}

/* Joins the pieces of a stream by its choices; returns how the last one ended. */
static void join(answer *a, const char *member, const char *inner, char texts[4][8192],
                 mc_json_doc **last, size_t *events) {
    char *stream = a->body, *data;
    size_t ends = 0;
    *events = 0;
    *last = NULL;
    while ((data = next_event(&stream)) && strcmp(data, "[DONE]") != 0) {
        mc_json_doc *doc;
        if (mc_json_parse(data, strlen(data), "event", &doc) != MICA_OK) fail_msg("%s", data);
        mc_json choice = at(mc_json_find(mc_json_root(doc), "choices"), 0);
        mc_str piece = text_of(find(choice, member, inner));
        int64_t index = int_of(mc_json_find(choice, "index"));
        if (piece.len) {
            assert_true(index >= 0 && index < 4);
            strncat(texts[index], piece.ptr, piece.len);
        }
        ends += text_of(mc_json_find(choice, "finish_reason")).len > 0;
        mc_json_close(last);
        *last = doc;
        ++*events;
    }
    assert_non_null(data);
    assert_null(next_event(&stream)); /* [DONE] is the last one */
    assert_int_equal(ends, 3);
}

static void test_stream(void **state) {
    (void)state;
    static const struct {
        const char *path, *prompt, *member, *inner;
    } kinds[] = {{CHAT, HELLO, "delta", "content"},
                 {COMPLETIONS, "\"prompt\": \"curl is\"", "text", NULL}};
    for (size_t k = 0; k < 2; k++) {
        char texts[4][8192] = {""};
        size_t events;
        mc_json_doc *last;
        char *body =
            test_format("{%s, \"stream\": true, \"n\": 3, \"seed\": 21, \"temperature\": 2,"
                        " \"max_tokens\": 30, \"stream_options\": {\"include_usage\": "
                        "true}}",
                        kinds[k].prompt);
        answer a = client_ask(shared.server, "POST", kinds[k].path, body);
        assert_int_equal(a.status, 200);
        assert_non_null(strstr(a.head, "Content-Type: text/event-stream"));
        assert_false(a.closes);
        join(&a, kinds[k].member, kinds[k].inner, texts, &last, &events);
        int64_t tokens = 0, prompt = 0;
        for (size_t i = 0; i < 3; i++) {
            mica_generate_options options = {.temperature = 2, .seed = 21 + i, .max_tokens = 30};
            expected *e = expect(k == 0, k == 0 ? "What is curl?" : "curl is", &options);
            check_text(mc_str_of(texts[i]), e);
            tokens += (int64_t)e->count;
            prompt = e->prompt_tokens;
            free(e);
        }
        assert_int_equal(mc_json_count(mc_json_find(mc_json_root(last), "choices")), 0);
        check_usage(mc_json_root(last), prompt, tokens);
        mc_json_close(&last);
        answer_free(&a);
        free(body);
    }
}

/* While a long prompt is read, comments keep the stream alive. */
static void test_comments(void **state) {
    (void)state;
    char *prompt = calloc(1, 8 * 1500 + 64);
    assert_non_null(prompt);
    strcpy(prompt, "{\"stream\": true, \"max_tokens\": 1, \"prompt\": \"");
    for (int i = 0; i < 1500; i++)
        strcat(prompt, "curl ");
    strcat(prompt, "\"}");
    answer a = client_ask(shared.server, "POST", COMPLETIONS, prompt);
    assert_int_equal(a.status, 200);
    size_t comments = 0;
    const char *first = strstr(a.body, "data: ");
    for (const char *c = strstr(a.body, ": prompt "); c && c < first;
         c = strstr(c + 1, ": prompt "))
        comments++;
    assert_true(comments >= 1);
    answer_free(&a);
    free(prompt);
}

/* ---- prompts ---- */

static void test_prompts(void **state) {
    (void)state;
    static const char *const texts[] = {"curl is", "apache is", "What"};
    mc_json_doc *doc = client_json(shared.server, "POST", COMPLETIONS,
                                   "{\"prompt\": [\"curl is\", \"apache is\", \"What\"], "
                                   "\"temperature\": 0, \"max_tokens\": 6, \"n\": 2}",
                                   200);
    mc_json choices = mc_json_find(mc_json_root(doc), "choices");
    assert_int_equal(mc_json_count(choices), 6);
    for (size_t i = 0; i < 6; i++) {
        expected *e = expect(false, texts[i / 2], &(mica_generate_options){.max_tokens = 6});
        check_text(text_of(mc_json_find(at(choices, i), "text")), e);
        free(e);
    }
    mc_json_close(&doc);
    expected *e = expect(false, "curl is", &(mica_generate_options){.max_tokens = 6});
    int32_t *ids;
    size_t n;
    assert_int_equal(
        mica_tokenizer_encode(mica_model_tokenizer(shared.model), "curl is", 7, true, &ids, &n),
        MICA_OK);
    assert_int_equal(n, 3);
    char *body = test_format("{\"prompt\": [[%d, %d, %d], [%d, %d, %d]], \"temperature\": 0, "
                             "\"max_tokens\": 6, \"echo\": true}",
                             ids[0], ids[1], ids[2], ids[0], ids[1], ids[2]);
    doc = client_json(shared.server, "POST", COMPLETIONS, body, 200);
    choices = mc_json_find(mc_json_root(doc), "choices");
    for (size_t i = 0; i < 2; i++) {
        mc_str text = text_of(mc_json_find(at(choices, i), "text"));
        assert_true(text.len > 7 && memcmp(text.ptr, "curl is", 7) == 0);
        check_text((mc_str){text.ptr + 7, text.len - 7}, e);
    }
    mc_json_close(&doc);
    mica_free(ids);
    free(body);
    free(e);
}

/* With echo and logprobs a prompt's tokens have the log-probabilities of mica_score. */
static void test_scores(void **state) {
    (void)state;
    static const char text[] = "curl is a command line tool for transferring data with URLs.";
    mica_score_result *score;
    size_t others = 0;
    assert_int_equal(mica_score(shared.model, text, 0, NULL, &score), MICA_OK);
    for (int max_tokens = 0; max_tokens < 2; max_tokens++) {
        char *body = test_format("{\"prompt\": \"%s\", \"echo\": true, \"logprobs\": 1, "
                                 "\"max_tokens\": %d, \"temperature\": 0}",
                                 text, max_tokens);
        mc_json_doc *doc = client_json(shared.server, "POST", COMPLETIONS, body, 200);
        mc_json choice = at(mc_json_find(mc_json_root(doc), "choices"), 0);
        mc_json logprobs = mc_json_find(choice, "logprobs");
        mc_json values = mc_json_find(logprobs, "token_logprobs");
        mc_json top = mc_json_find(logprobs, "top_logprobs");
        size_t n = score->count + (size_t)max_tokens;
        assert_int_equal(mc_json_count(values), n);
        assert_int_equal(mc_json_count(mc_json_find(logprobs, "tokens")), n);
        assert_int_equal(mc_json_count(mc_json_find(logprobs, "text_offset")), n);
        assert_int_equal(mc_json_get_type(at(values, 0)), MC_JSON_NULL);
        for (size_t i = 1; i < score->count; i++) {
            double value, likeliest = -INFINITY;
            assert_true(mc_json_get_float(at(values, i), &value));
            assert_true((float)value == score->logprobs[i]);
            mc_json_iter it = mc_json_begin(at(top, i));
            assert_true(mc_json_next(&it) && mc_json_get_float(it.value, &likeliest));
            assert_true(likeliest >= value);
            /* The token is there too where another one is likelier. */
            assert_int_equal(mc_json_next(&it), likeliest > value);
            if (likeliest > value) {
                assert_true(mc_json_get_float(it.value, &likeliest) && likeliest == value);
                others++;
            }
        }
        assert_true(mc_str_starts(text_of(mc_json_find(choice, "text")), mc_str_of(text)));
        mc_json_close(&doc);
        free(body);
    }
    assert_true(others > 0);
    mica_score_free(&score);
}

/* Prompts that are too long for a stream are refused. */
static void test_too_much(void **state) {
    (void)state;
    char *ids = test_format("1");
    for (int i = 1; i < 300; i++) {
        char *more = test_format("%s,%d", ids, 300 + i * 7 % 200);
        free(ids);
        ids = more;
    }
    for (int max_tokens = 0; max_tokens < 2; max_tokens++) {
        char *body = test_format("{\"prompt\": [%s], \"echo\": true, \"logprobs\": 20, \"n\": 64, "
                                 "\"max_tokens\": %d, \"stream\": true}",
                                 ids, max_tokens);
        client_refused(shared.server, COMPLETIONS, body, 400, "invalid_value", "stream");
        free(body);
    }
    free(ids);
}

/* The token with a text that begins so, and is longer or not; -1: there is none. */
static int32_t find_token(const mica_tokenizer *tok, const char *begin, bool longer) {
    mc_buffer text = {0};
    int32_t found = -1;
    for (int32_t id = 0; found < 0 && id < (int32_t)mica_tokenizer_vocab_size(tok); id++) {
        assert_true(mc_token_text(tok, id, &text));
        mc_str got = {text.data, text.len};
        if (mc_str_starts(got, mc_str_of(begin)) && (got.len > strlen(begin)) == longer) found = id;
    }
    mc_buffer_deinit(&text);
    return found;
}

/* No alternative is taken for a part of the others' names. */
static void test_alternatives(void **state) {
    (void)state;
    const mica_tokenizer *tok = mica_model_tokenizer(shared.model);
    const int32_t longer = find_token(tok, ":", true), colon = find_token(tok, ":", false);
    const int32_t a = find_token(tok, "a", false);
    assert_true(longer >= 0 && colon >= 0 && a >= 0);
    const mica_alternative alternatives[] = {
        {.id = a, .logprob = -1},
        {.id = longer, .logprob = -2},
        {.id = colon, .logprob = -3},
        {.id = colon, .logprob = -4},
    };
    const float logprob = -1;
    mc_logprobs logprobs = {0};
    assert_true(mc_logprobs_add(&logprobs, tok, a, &logprob, alternatives, 4));
    mc_json_doc *doc;
    const mc_buffer *json = &logprobs.likeliest;
    assert_int_equal(mc_json_parse(json->data, json->len, "alternatives", &doc), MICA_OK);
    double value;
    assert_int_equal(mc_json_count(mc_json_root(doc)), 3);
    assert_true(mc_json_get_float(mc_json_find(mc_json_root(doc), ":"), &value) && value == -3);
    mc_json_close(&doc);
    /* Without alternatives there is the token. */
    mc_logprobs_clear(&logprobs);
    assert_true(mc_logprobs_add(&logprobs, tok, a, &logprob, NULL, 0));
    assert_string_equal(mc_buffer_cstr(&logprobs.likeliest), "{\"a\":-1}");
    mc_logprobs_deinit(&logprobs);
}

/* The prompt of a conversation is the one that a chat reads. */
static void test_template(void **state) {
    (void)state;
    mc_json_doc *doc =
        client_json(shared.server, "POST", CHAT, "{" HELLO ", \"max_tokens\": 1}", 200);
    int64_t count = int_of(find(mc_json_root(doc), "usage", "prompt_tokens"));
    mc_json_close(&doc);
    doc = client_json(shared.server, "POST", "/apply-template", "{" HELLO "}", 200);
    mc_str prompt = text_of(mc_json_find(mc_json_root(doc), "prompt"));
    assert_true(prompt.len > 0);
    mc_buffer body = {0};
    assert_true(mc_buffer_add_text(&body, "{\"add_special_tokens\": false, \"prompt\": ") &&
                mc_json_put_str(&body, prompt) && mc_buffer_add_text(&body, "}"));
    mc_json_close(&doc);
    doc = client_json(shared.server, "POST", "/tokenize", mc_buffer_cstr(&body), 200);
    assert_int_equal(int_of(mc_json_find(mc_json_root(doc), "count")), count);
    mc_json_close(&doc);
    mc_buffer_deinit(&body);
}

/* ---- what is refused ---- */

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *path, *fields, *code, *param;
    } cases[] = {
        {CHAT, "\"model\": \"default\"", "missing_field", "messages"},
        {CHAT, "\"messages\": []", "", "messages"},
        {CHAT, "\"messages\": [{\"role\": \"user\"}, 3]", "", "messages"},
        {CHAT, "\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]", "",
         "messages"},
        {CHAT, HELLO ", \"temperature\": -1", "invalid_value", "temperature"},
        {CHAT, HELLO ", \"temprature\": 1", "unknown_field", "temprature"},
        {CHAT, HELLO ", \"n\": 0", "invalid_value", "n"},
        {CHAT, HELLO ", \"n\": 129", "invalid_value", "n"},
        {CHAT, HELLO ", \"max_tokens\": 0", "invalid_value", "max_tokens"},
        {CHAT, HELLO ", \"max_tokens\": 3, \"max_completion_tokens\": 4", "invalid_value",
         "max_tokens"},
        {CHAT, HELLO ", \"top_logprobs\": 2", "invalid_value", "top_logprobs"},
        {CHAT, HELLO ", \"stop\": [\"\"]", "invalid_value", "stop"},
        {CHAT, HELLO ", \"stop\": [1]", "invalid_type", "stop"},
        {CHAT, HELLO ", \"stop_token_ids\": [99999]", "invalid_value", "stop_token_ids"},
        {CHAT, HELLO ", \"logit_bias\": {\"x\": 1}", "invalid_value", "logit_bias"},
        {CHAT, HELLO ", \"logit_bias\": {\"99999999999999999999\": 1}", "invalid_value",
         "logit_bias"},
        {CHAT, HELLO ", \"logit_bias\": {\"1\": 1, \"01\": 2}", "repeated_field", "logit_bias"},
        {CHAT, HELLO ", \"logit_bias\": {\"1\": 101}", "invalid_value", "logit_bias"},
        {CHAT, HELLO ", \"stream_options\": {\"include_use\": true}", "unknown_field",
         "stream_options.include_use"},
        {CHAT, HELLO ", \"prompt_cache_retention\": \"1h\"", "unsupported_value",
         "prompt_cache_retention"},
        {CHAT, HELLO ", \"modalities\": [\"text\", \"audio\"]", "unsupported_value", "modalities"},
        {CHAT, HELLO ", \"audio\": {}", "unsupported_field", "audio"},
        {CHAT, HELLO ", \"reasoning_effort\": \"much\"", "invalid_type", "reasoning_effort"},
        {COMPLETIONS, "\"prompt\": []", "invalid_value", "prompt"},
        {COMPLETIONS, "\"prompt\": [\"a\", 1]", "invalid_type", "prompt"},
        {COMPLETIONS, "\"prompt\": [1, \"a\"]", "invalid_value", "prompt"},
        {COMPLETIONS, "\"prompt\": \"a\", \"suffix\": \"b\"", "unsupported_value", "suffix"},
        {COMPLETIONS, "\"prompt\": \"a\", \"best_of\": 2", "unsupported_value", "best_of"},
        {COMPLETIONS, "\"prompt\": \"a\", \"best_of\": 0", "invalid_value", "best_of"},
        {COMPLETIONS, "\"prompt\": \"a\", \"n\": 3, \"best_of\": 2", "unsupported_value",
         "best_of"},
        {COMPLETIONS, "\"prompt\": \"a\", \"logprobs\": -1", "invalid_value", "logprobs"},
        {COMPLETIONS, "\"prompt\": \"a\", \"max_tokens\": 0", "invalid_value", "max_tokens"},
        {COMPLETIONS, "\"prompt\": [\"a\", \"b\", \"c\"], \"n\": 1000", "invalid_value", "n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = test_format("{%s}", cases[i].fields);
        client_refused(shared.server, cases[i].path, body, 400, cases[i].code, cases[i].param);
        free(body);
    }
    client_refused(shared.server, CHAT, "{" HELLO ", \"model\": \"gpt\"}", 404, "model_not_found",
                   "model");
}

/* Lists of tokens have an end. */
static void test_many_tokens(void **state) {
    (void)state;
    char ids[1025 * 8], pairs[1025 * 16];
    for (int i = 0, a = 0, b = 0; i < 1025; i++) {
        a += sprintf(ids + a, "%s1", i ? ", " : "");
        b += sprintf(pairs + b, "%s\"%d\": 1", i ? ", " : "", i);
    }
    char *many = test_format("{" HELLO ", \"stop_token_ids\": [%s]}", ids);
    client_refused(shared.server, CHAT, many, 400, "invalid_value", "stop_token_ids");
    free(many);
    many = test_format("{" HELLO ", \"logit_bias\": {%s}}", pairs);
    client_refused(shared.server, CHAT, many, 400, "invalid_value", "logit_bias");
    free(many);
}

/* What does not fit the context is refused with the numbers, and cut only if asked for. */
static void test_context(void **state) {
    (void)state;
    char *prompt = calloc(1, 5 * 4000 + 128);
    assert_non_null(prompt);
    strcpy(prompt, "{\"max_tokens\": 1, \"prompt\": \"");
    for (int i = 0; i < 4000; i++)
        strcat(prompt, "curl ");
    size_t len = strlen(prompt);
    strcpy(prompt + len, "\"}");
    client_refused(shared.server, COMPLETIONS, prompt, 400, "context_length_exceeded", "");
    strcpy(prompt + len, "\", \"truncate\": true}");
    mc_json_doc *doc = client_json(shared.server, "POST", COMPLETIONS, prompt, 200);
    assert_true(int_of(find(mc_json_root(doc), "usage", "prompt_tokens")) <= 2048);
    mc_json_close(&doc);
    free(prompt);
}

/* ---- metrics ---- */

/* Every line is a comment, or a sample: a name and labels, a blank, a number. */
static void check_samples(const char *page) {
    for (const char *line = page, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        if (*line == '#') continue;
        const char *value = end;
        while (value > line && value[-1] != ' ')
            value--;
        assert_true(value > line);
        char *after;
        strtod(value, &after);
        assert_ptr_equal(after, end);
    }
}

/* The counters count what was asked and answered. */
static void test_metrics(void **state) {
    (void)state;
    mica_server_options options = {.struct_bytes = sizeof options, .vllm_metrics = true};
    served own = served_open(&options);
    mc_json_doc *doc =
        client_json(own.server, "POST", CHAT, "{" HELLO ", \"n\": 2, \"max_tokens\": 5}", 200);
    double prompt = (double)int_of(find(mc_json_root(doc), "usage", "prompt_tokens"));
    mc_json_close(&doc);
    client_refused(own.server, CHAT, "{}", 400, "missing_field", "messages");
    answer a = client_ask(own.server, "GET", "/metrics", NULL);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "Content-Type: text/plain; version=0.0.4"));
    check_samples(a.body);
#define MODEL "{model=\"default\""
    assert_true(client_metric(a.body, "mica_generated_tokens_total" MODEL "}") == 10);
    assert_true(client_metric(a.body, "vllm:generation_tokens_total{model_name=\"default\"}") ==
                10);
    assert_true(client_metric(a.body, "mica_prompt_tokens_total" MODEL "}") >= prompt);
    assert_true(client_metric(a.body, "mica_answers_total" MODEL ",end=\"length\"}") == 2);
    assert_true(client_metric(a.body, "mica_answer_seconds_count" MODEL "}") == 2);
    assert_true(client_metric(a.body, "mica_first_token_seconds_bucket" MODEL ",le=\"+Inf\"}") ==
                2);
    assert_true(client_metric(a.body, "mica_queue_seconds_count" MODEL "}") == 2);
    assert_true(client_metric(a.body, "mica_token_seconds_count" MODEL "}") == 8);
    assert_true(client_metric(
                    a.body, "vllm:inter_token_latency_seconds_count{model_name=\"default\"}") == 8);
    assert_true(client_metric(a.body, "mica_pauses_total" MODEL "}") == 0);
    assert_true(client_metric(a.body, "mica_mask_seconds_total" MODEL "}") >= 0);
    assert_true(client_metric(a.body, "mica_mask_wait_seconds_total" MODEL "}") >= 0);
    assert_true(client_metric(a.body, "mica_draining") == 0);
    answer_free(&a);
    served_close(&own);
}

/* Tokens of the prompt that the caches had. */
static int64_t cached_for(const mica_server *server, const char *key, const char *body) {
    int fd = client_connect(server);
    client_print(fd,
                 "POST " COMPLETIONS " HTTP/1.1\r\nHost: localhost\r\nx-api-key: %s\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 key, strlen(body), body);
    answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    mc_json_doc *doc = NULL;
    assert_int_equal(mc_json_parse(a.body, a.len, "answer", &doc), MICA_OK);
    mc_json details = find(mc_json_root(doc), "usage", "prompt_tokens_details");
    int64_t cached = int_of(mc_json_find(details, "cached_tokens"));
    mc_json_close(&doc);
    answer_free(&a);
    close(fd);
    return cached;
}

/* Who has another key cannot tell by the time of an answer that somebody has asked the same. */
static void test_keys_share_no_caches(void **state) {
    (void)state;
    mica_server_options options = {.api_keys = (const char *const[]){"one", "two"},
                                   .api_key_count = 2};
    served own = served_open(&options);
    char body[2048] = "{\"max_tokens\": 2, \"prompt\": \"";
    for (int i = 0; i < 200; i++)
        strcat(body, "curl ");
    strcat(body, "\"}");
    assert_int_equal(cached_for(own.server, "one", body), 0);
    assert_true(cached_for(own.server, "one", body) > 0);
    assert_int_equal(cached_for(own.server, "two", body), 0);
    served_close(&own);
}

/* What was kept for a key is found by that key after a restart, and by no other, wherever the keys
 * stand. Nobody else may read the file. */
static void test_kept_for_keys(void **state) {
    (void)state;
    static const char *const before[] = {"one", "two"}, *const after[] = {"three", "one"};
    if (!mc_prefix_available()) skip();
    char *dir = test_temp_dir(), *folder = test_format("%s/kept", dir);
    mica_serving_options serving = {.struct_bytes = sizeof serving, .prefix_cache = folder};
    char body[2048] = "{\"max_tokens\": 2, \"prompt\": \"";
    for (int i = 0; i < 200; i++)
        strcat(body, "curl ");
    strcat(body, "\"}");
    for (int i = 0; i < 2; i++) {
        mica_server *server;
        mica_server_options options = {.api_keys = i ? after : before, .api_key_count = 2};
        assert_int_equal(mica_server_open(&options, &server), MICA_OK);
        assert_int_equal(mica_server_add(server, "default", shared.model, &serving), MICA_OK);
        if (i) assert_int_equal(cached_for(server, "three", body), 0);
        assert_true((cached_for(server, "one", body) > 0) == (i == 1));
        mica_server_close(&server);
    }
    struct stat info;
    assert_int_equal(stat(folder, &info), 0);
    if (test_has_modes()) assert_int_equal(info.st_mode & 0777, 0700);
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (const struct dirent *e; (e = readdir(files));) {
        if (e->d_name[0] == '.') continue;
        char *path = test_format("%s/%s", folder, e->d_name);
        assert_int_equal(stat(path, &info), 0);
        if (test_has_modes()) assert_int_equal(info.st_mode & 0777, 0600);
        free(path);
    }
    closedir(files);
    free(folder);
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),          cmocka_unit_test(test_text),
        cmocka_unit_test(test_choices),       cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_stream),        cmocka_unit_test(test_comments),
        cmocka_unit_test(test_prompts),       cmocka_unit_test(test_scores),
        cmocka_unit_test(test_template),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_many_tokens),   cmocka_unit_test(test_context),
        cmocka_unit_test(test_metrics),       cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_alternatives),  cmocka_unit_test(test_keys_share_no_caches),
        cmocka_unit_test(test_kept_for_keys),
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}
