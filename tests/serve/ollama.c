/* ollama's endpoints: the answers that transformers gives (golden.json), whole and line by line. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"
#include "serve/common/put_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAT "/api/chat"
#define GENERATE "/api/generate"
#define CURL "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"
#define GREEDY "\"options\": {\"temperature\": 0, \"repeat_penalty\": 1}"

static int close_shared(void **state) {
    goldens_close();
    return served_close_shared(state);
}

/* ---- answers ---- */

/* What the last line, or the whole, says. */
static void check_end(mc_json root, const char *reason, mc_json want) {
    bool done = false;
    assert_true(mc_json_get_bool(at(root, "done"), &done) && done);
    check_text(root, "done_reason", mc_str_of(reason));
    check_text(root, "model", MC_STR("default"));
    assert_int_equal(text_at(root, "created_at").len, strlen("2026-01-01T00:00:00.000000000Z"));
    assert_int_equal(int_at(root, "prompt_eval_count"), mc_json_count(at(want, "prompt_ids")));
    assert_int_equal(int_at(root, "eval_count"), mc_json_count(at(want, "greedy_ids")) - 1);
    int64_t read = int_at(root, "prompt_eval_duration"), made = int_at(root, "eval_duration");
    assert_true(read >= 0 && made > 0 && read + made <= int_at(root, "total_duration"));
    assert_int_equal(int_at(root, "load_duration"), 0);
}

static void test_whole(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        mc_str question = text_at(golden(i), "messages.0.content");
        char *body = test_format("{\"model\": \"default\", " GREEDY ", \"stream\": false, "
                                 "\"messages\": [{\"role\": \"user\", \"content\": \"%.*s\"}]}",
                                 MC_STR_ARG(question));
        mc_json_doc *doc = client_json(shared.server, "POST", CHAT, body, 200);
        check_text(mc_json_root(doc), "message.content", text_at(golden(i), "text"));
        check_text(mc_json_root(doc), "message.role", MC_STR("assistant"));
        check_end(mc_json_root(doc), "stop", golden(i));
        mc_json_close(&doc);
        free(body);
        body = test_format("{\"model\": \"default:latest\", " GREEDY ", \"stream\": false, "
                           "\"prompt\": \"%.*s\"}",
                           MC_STR_ARG(question));
        doc = client_json(shared.server, "POST", GENERATE, body, 200);
        check_text(mc_json_root(doc), "response", text_at(golden(i), "text"));
        check_end(mc_json_root(doc), "stop", golden(i));
        mc_json_close(&doc);
        free(body);
    }
}

/* Reads a stream: the pieces under `path` give the golden's text, each line but the last is not
 * done, and each token is a line of its own. */
static void check_stream(const char *endpoint, const char *body, const char *path) {
    answer a = client_ask(shared.server, "POST", endpoint, body);
    char text[4096], *line = a.body;
    size_t len = 0, lines = 0;
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "Content-Type: application/x-ndjson\r\n"));
    for (char *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        mc_json_doc *doc = NULL;
        assert_int_equal(mc_json_parse(line, (size_t)(end - line), "a", &doc), MICA_OK);
        mc_str piece = text_at(mc_json_root(doc), path);
        bool done = true, last = end[1] == '\0';
        assert_true(piece.ptr && len + piece.len <= sizeof text);
        memcpy(text + len, piece.ptr, piece.len);
        len += piece.len;
        assert_true(mc_json_get_bool(at(mc_json_root(doc), "done"), &done) && done == last);
        if (last) check_end(mc_json_root(doc), "stop", golden(0));
        mc_json_close(&doc);
    }
    assert_string_equal(line, ""); /* nothing behind the last line feed */
    assert_int_equal(lines, mc_json_count(at(golden(0), "greedy_ids")));
    assert_true(mc_str_eq((mc_str){text, len}, text_at(golden(0), "text")));
    answer_free(&a);
}

static void test_stream(void **state) {
    (void)state;
    check_stream(CHAT, "{\"model\": \"default\", " GREEDY ", " CURL "}", "message.content");
    check_stream(GENERATE,
                 "{\"model\": \"default\", " GREEDY ", \"prompt\": \"What is curl?\", "
                 "\"stream\": true}",
                 "response");
}

static mc_json_doc *generate(const char *fields) {
    char *body = test_format("{\"model\": \"default\", \"stream\": false, %s}", fields);
    mc_json_doc *doc = client_json(shared.server, "POST", GENERATE, body, 200);
    free(body);
    return doc;
}

static void check_text_of(const char *fields, const char *text, const char *reason) {
    mc_json_doc *doc = generate(fields);
    check_text(mc_json_root(doc), "response", mc_str_of(text));
    check_text(mc_json_root(doc), "done_reason", mc_str_of(reason));
    mc_json_close(&doc);
}

#define OPTIONS(more) "\"options\": {\"temperature\": 0, \"repeat_penalty\": 1, " more "}"

static void test_options(void **state) {
    (void)state;
    size_t n = mc_json_count(at(golden(0), "prompt_ids"));
    check_text_of("\"prompt\": \"What is curl?\", " OPTIONS("\"num_predict\": 3"), "curl is a",
                  "length");
    check_text_of("\"prompt\": \"What is curl?\", " OPTIONS("\"stop\": [\"line\"]"),
                  "curl is a command ", "stop");
    check_text_of("\"prompt\": \"curl is\", \"raw\": true, " OPTIONS("\"num_predict\": 2"),
                  " a command", "length");
    /* the context holds all but the last token, which nothing follows */
    char *fields =
        test_format("\"prompt\": \"What is curl?\", " OPTIONS("\"num_ctx\": %zu"), n + 2);
    check_text_of(fields, "curl is a", "length");
    free(fields);
    /* what changes no answer */
    check_text_of(
        "\"prompt\": \"What is curl?\", " OPTIONS(
            "\"num_predict\": 3, \"num_thread\": 1, \"num_gpu\": 99, \"use_mmap\": false, "
            "\"mirostat\": 0, \"mirostat_tau\": 1"),
        "curl is a", "length");
    /* a penalty that would change the answer, over no tokens */
    check_text_of("\"prompt\": \"What is curl?\", \"options\": {\"temperature\": 0, "
                  "\"repeat_penalty\": 50, \"repeat_last_n\": 0, \"num_predict\": 3}",
                  "curl is a", "length");
    mc_json_doc *one = generate("\"prompt\": \"a\", \"options\": {\"seed\": 3, "
                                "\"temperature\": 2, \"num_predict\": 9}");
    mc_json_doc *two = generate("\"prompt\": \"a\", \"options\": {\"seed\": 3, "
                                "\"temperature\": 2, \"num_predict\": 9}");
    check_text(mc_json_root(two), "response", text_at(mc_json_root(one), "response"));
    mc_json_close(&one);
    mc_json_close(&two);
}

/* The logarithms are those of the distribution: the likeliest token's is its own. */
static void test_logprobs(void **state) {
    (void)state;
    mc_json_doc *doc = generate("\"prompt\": \"What is curl?\", \"logprobs\": true, "
                                "\"top_logprobs\": 2, " OPTIONS("\"num_predict\": 2"));
    mc_json root = mc_json_root(doc);
    assert_int_equal(mc_json_count(at(root, "logprobs")), 2);
    check_text(root, "logprobs.0.token", MC_STR("curl"));
    check_text(root, "logprobs.1.top_logprobs.0.token", MC_STR(" is"));
    assert_true(real_at(root, "logprobs.1.logprob") ==
                real_at(root, "logprobs.1.top_logprobs.0.logprob"));
    assert_true(real_at(root, "logprobs.1.logprob") > real_at(root, "logprobs.1.top_logprobs.1."
                                                                    "logprob"));
    mc_json_close(&doc);
}

/* Answers of a schema are what it wants, whatever is drawn. */
static void test_schema(void **state) {
    (void)state;
    static const char schema[] = "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": "
                                 "\"integer\"}, \"b\": {\"enum\": [\"x\", \"y\"]}}, "
                                 "\"required\": [\"a\", \"b\"]}";
    for (int seed = 0; seed < 10; seed++) {
        char *fields = test_format("\"prompt\": \"Tell me.\", \"format\": %s, \"options\": "
                                   "{\"temperature\": 3, \"top_k\": 0, \"top_p\": 1, "
                                   "\"num_predict\": 500, \"seed\": %d}",
                                   schema, seed);
        mc_json_doc *doc = generate(fields), *inner = NULL;
        mc_str text = text_at(mc_json_root(doc), "response");
        int64_t a;
        assert_int_equal(mc_json_parse(text.ptr, text.len, "answer", &inner), MICA_OK);
        assert_int_equal(mc_json_count(mc_json_root(inner)), 2);
        assert_true(mc_json_get_int(at(mc_json_root(inner), "a"), &a));
        mc_str b = text_at(mc_json_root(inner), "b");
        assert_true(mc_str_is(b, "x") || mc_str_is(b, "y"));
        mc_json_close(&inner);
        mc_json_close(&doc);
        free(fields);
    }
    mc_json_doc *doc = generate("\"prompt\": \"Tell me.\", \"format\": \"json\", \"options\": "
                                "{\"temperature\": 0, \"num_predict\": 500}");
    mc_json_doc *inner = NULL;
    mc_str text = text_at(mc_json_root(doc), "response");
    assert_int_equal(mc_json_parse(text.ptr, text.len, "answer", &inner), MICA_OK);
    assert_int_equal(mc_json_get_type(mc_json_root(inner)), MC_JSON_OBJECT);
    mc_json_close(&inner);
    mc_json_close(&doc);
}

static void test_loaded(void **state) {
    (void)state;
    static const struct {
        const char *path, *body;
    } cases[] = {{CHAT, "{\"model\": \"default\", \"messages\": []}"},
                 {CHAT, "{\"model\": \"default\", \"keep_alive\": -1}"},
                 {GENERATE, "{\"model\": \"default\", \"keep_alive\": \"10m\"}"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mc_json_doc *doc = client_json(shared.server, "POST", cases[i].path, cases[i].body, 200);
        check_text(mc_json_root(doc), "done_reason", MC_STR("load"));
        mc_json_close(&doc);
    }
}

/* ---- vectors ---- */

/* The library's vector of a text; to be freed with mica_free. */
static float *vector_of(const char *text, bool normalise, size_t *n) {
    const mica_embed_options options = {.normalise = normalise};
    float *vector;
    assert_int_equal(mica_embed(shared.model, text, 0, &options, &vector, n), MICA_OK);
    return vector;
}

static void check_vector(mc_json got, const float *want, size_t n) {
    size_t i = 0;
    assert_int_equal(mc_json_count(got), n);
    for (mc_json_iter it = mc_json_begin(got); mc_json_next(&it); i++) {
        double x;
        assert_true(mc_json_get_float(it.value, &x) && (float)x == want[i]);
    }
}

static void test_embed(void **state) {
    (void)state;
    size_t n;
    float *one = vector_of("curl", true, &n), *two = vector_of("a wolf", true, &n);
    float *raw = vector_of("curl", false, &n);
    mc_json_doc *doc =
        client_json(shared.server, "POST", "/api/embed",
                    "{\"model\": \"default\", \"input\": [\"curl\", \"a wolf\"]}", 200);
    mc_json root = mc_json_root(doc);
    assert_int_equal(mc_json_count(at(root, "embeddings")), 2);
    check_vector(at(root, "embeddings.0"), one, n);
    check_vector(at(root, "embeddings.1"), two, n);
    int32_t *ids;
    size_t some, more;
    const mica_tokenizer *tok = mica_model_tokenizer(shared.model);
    assert_int_equal(mica_tokenizer_encode(tok, "curl", 4, true, &ids, &some), MICA_OK);
    mica_free(ids);
    assert_int_equal(mica_tokenizer_encode(tok, "a wolf", 6, true, &ids, &more), MICA_OK);
    mica_free(ids);
    assert_int_equal(int_at(root, "prompt_eval_count"), some + more);
    mc_json_close(&doc);
    doc = client_json(shared.server, "POST", "/api/embeddings",
                      "{\"model\": \"default\", \"prompt\": \"curl\"}", 200);
    check_vector(at(mc_json_root(doc), "embedding"), raw, n);
    mc_json_close(&doc);
    mica_free(one);
    mica_free(two);
    mica_free(raw);
}

/* A vector of fewer numbers has length 1 again, and a direction of its own. */
static void test_embed_options(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(shared.server, "POST", "/api/embed",
                                   "{\"model\": \"default\", \"input\": \"curl\", "
                                   "\"dimensions\": 7}",
                                   200);
    mc_json vector = at(mc_json_root(doc), "embeddings.0");
    double square = 0;
    assert_int_equal(mc_json_count(vector), 7);
    for (mc_json_iter it = mc_json_begin(vector); mc_json_next(&it);) {
        double x = 0;
        assert_true(mc_json_get_float(it.value, &x));
        square += x * x;
    }
    assert_true(square > 0.999999 && square < 1.000001);
    mc_json_close(&doc);
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(shared.model, &info);
    size_t words = (size_t)info.context_length + 100;
    char *text = malloc(2 * words + 1);
    assert_non_null(text);
    for (size_t i = 0; i < words; i++)
        memcpy(text + 2 * i, "a ", 2);
    text[2 * words] = '\0';
    char *body =
        test_format("{\"model\": \"default\", \"input\": \"%s\", \"truncate\": false}", text);
    doc = client_json(shared.server, "POST", "/api/embed", body, 400); /* longer than the context */
    mc_json_close(&doc);
    free(body);
    body = test_format("{\"model\": \"default\", \"input\": \"%s\"}", text);
    doc = client_json(shared.server, "POST", "/api/embed", body, 200);
    assert_int_equal(int_at(mc_json_root(doc), "prompt_eval_count"), info.context_length);
    mc_json_close(&doc);
    free(body);
    free(text);
    doc = client_json(shared.server, "POST", "/api/embed", "{\"model\": \"default\"}", 200);
    assert_int_equal(mc_json_count(at(mc_json_root(doc), "embeddings")), 0);
    mc_json_close(&doc);
}

/* ---- models ---- */

static void test_models(void **state) {
    (void)state;
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(shared.model, &info);
    static const char *const lists[] = {"/api/tags", "/api/ps"};
    for (int i = 0; i < 2; i++) {
        mc_json_doc *doc = client_json(shared.server, "GET", lists[i], NULL, 200);
        mc_json root = mc_json_root(doc);
        assert_int_equal(mc_json_count(at(root, "models")), 1);
        check_text(root, "models.0.name", MC_STR("default"));
        check_text(root, "models.0.model", MC_STR("default"));
        check_text(root, "models.0.details.family", mc_str_of(info.family));
        assert_int_equal(int_at(root, "models.0.size"), info.weight_bytes);
        mc_json_close(&doc);
    }
    mc_json_doc *doc =
        client_json(shared.server, "POST", "/api/show", "{\"name\": \"default\"}", 200);
    mc_json model_info = at(mc_json_root(doc), "model_info");
    check_text(mc_json_root(doc), "capabilities.0", MC_STR("completion"));
    int64_t length = -1;
    assert_true(mc_json_get_int(mc_json_find(model_info, "gemma3_text.context_length"), &length));
    assert_int_equal(length, info.context_length);
    mc_json_close(&doc);
    doc = client_json(shared.server, "GET", "/api/version", NULL, 200);
    check_text(mc_json_root(doc), "version", mc_str_of(MICA_VERSION));
    mc_json_close(&doc);
}

/* Days around those that calendars get wrong; the texts are those of date(1). */
static void test_time(void **state) {
    (void)state;
    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {{0, "1970-01-01T00:00:00.000000000Z"},
                 {951782400, "2000-02-29T00:00:00.000000000Z"},
                 {951868799, "2000-02-29T23:59:59.000000000Z"},
                 {951868800, "2000-03-01T00:00:00.000000000Z"},
                 {1709164800, "2024-02-29T00:00:00.000000000Z"},
                 {4102444799, "2099-12-31T23:59:59.000000000Z"},
                 {4107542400, "2100-03-01T00:00:00.000000000Z"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mc_buffer out = {0};
        mc_put put = mc_put_into(&out);
        mc_put_time(&put, NULL, cases[i].seconds);
        char *want = test_format("\"%s\"", cases[i].text);
        assert_string_equal(mc_buffer_cstr(&out), want);
        free(want);
        mc_buffer_deinit(&out);
    }
}

/* ---- what is refused ---- */

static void refused(const char *path, const char *fields, int status, const char *name) {
    char *body = test_format("{\"model\": \"default\", %s}", fields);
    mc_json_doc *doc = client_json(shared.server, "POST", path, body, status);
    mc_str message = text_at(mc_json_root(doc), "error");
    char *text = test_format("%.*s", MC_STR_ARG(message));
    if (!strstr(text, name)) fail_msg("%s: \"%s\" does not name %s", fields, text, name);
    free(text);
    mc_json_close(&doc);
    free(body);
}

#define MEMBER(member) "\"messages\": [{\"role\": \"user\", \"content\": \"a\", " member "}]"

static void test_refused(void **state) {
    (void)state;
    refused(CHAT, CURL ", \"seed\": 1", 400, "seed");
    refused(CHAT, CURL ", \"options\": {\"temprature\": 1}", 400, "options.temprature");
    refused(CHAT, CURL ", \"options\": {\"num_ctx\": 1000000}", 400, "options.num_ctx");
    refused(CHAT, CURL ", \"options\": {\"num_ctx\": 3}", 400, "options.num_ctx");
    refused(CHAT, CURL ", \"options\": {\"mirostat\": 1}", 400, "options.mirostat");
    refused(CHAT, CURL ", \"format\": \"yaml\"", 400, "format");
    refused(CHAT, CURL ", \"format\": {\"never\": {}}", 400, "format");
    refused(CHAT, CURL ", \"format\": {\"properties\": {\"a\": {\"never\": {}}}}", 400,
            "properties/a/never");
    refused(CHAT, CURL ", \"tools\": [{}]", 400, "tools");
    refused(CHAT, CURL ", \"think\": true", 400, "think");
    refused(CHAT, CURL ", \"think\": \"high\"", 400, "think");
    refused(CHAT, CURL ", \"keep_alive\": 0", 400, "keep_alive");
    refused(CHAT, CURL ", \"keep_alive\": \"0s\"", 400, "keep_alive");
    refused(CHAT, CURL ", \"top_logprobs\": 2", 400, "top_logprobs");
    refused(CHAT, MEMBER("\"images\": [\"a\"]"), 400, "messages[0].images");
    refused(CHAT, MEMBER("\"contents\": 1"), 400, "messages[0].contents");
    refused(CHAT, MEMBER("\"tool_calls\": [{\"function\": {}}]"), 400, "messages[0].tool_calls");
#define CALL(members, more) \
    MEMBER("\"tool_calls\": [{\"function\": {\"name\": \"f\"" members "}" more "}]")
    refused(CHAT, CALL("", ", \"mood\": 1"), 400, "messages[0].tool_calls.mood");
    refused(CHAT, CALL(", \"mood\": 1", ""), 400, "messages[0].tool_calls.function.mood");
    refused(CHAT, "\"messages\": [{\"content\": \"a\"}]", 400, "messages[0].role");
    refused(GENERATE, "\"prompt\": \"a\", \"suffix\": \"b\"", 400, "suffix");
    refused(GENERATE, "\"prompt\": \"a\", \"images\": [\"b\"]", 400, "images");
    refused(GENERATE, "\"prompt\": \"a\", \"template\": \"b\"", 400, "template");
    refused(GENERATE, "\"prompt\": \"a\", \"context\": [1]", 400, "context");
    refused(GENERATE, "\"prompt\": \"a\", \"raw\": true, \"system\": \"b\"", 400, "system");
    refused(GENERATE, "\"prompt\": \"a\", \"raw\": true, \"think\": true", 400, "with raw");
    refused(GENERATE, "\"prompt\": \"a\", \"raw\": true, \"think\": \"low\"", 400, "with raw");
    refused("/api/embed", "\"input\": [1]", 400, "input");
    refused("/api/embed", "\"input\": [\"a\"], \"dimensions\": 100000", 400, "dimensions");
    refused("/api/embed", "\"input\": \"a\", \"options\": {\"a\": 1}", 400, "options");
    refused("/api/embeddings", "\"input\": \"a\"", 400, "input");
    refused("/api/show", "\"verbose\": true", 400, "verbose");
    mc_json_doc *doc;
    static const char *const taken[][2] = {
        {GENERATE, "\"prompt\": \"a\", \"raw\": true, \"think\": false"},
        {CHAT, CALL(", \"index\": 0, \"arguments\": {\"a\": 1}",
                    ", \"id\": \"1\", \"type\": \"function\", \"index\": 0")},
    };
#undef CALL
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        char *body = test_format("{\"model\": \"default\", \"stream\": false, %s, "
                                 "\"options\": {\"num_predict\": 1}}",
                                 taken[i][1]);
        doc = client_json(shared.server, "POST", taken[i][0], body, 200);
        mc_json_close(&doc);
        free(body);
    }
    doc = client_json(shared.server, "POST", CHAT, "{\"model\": \"other\"}", 404);
    mc_json_close(&doc);
}

/* ---- models of models ---- */

/* Asks two things, which must be answered alike. */
static void check_alike(const char *path, const char *one, const char *other, const char *member) {
    mc_json_doc *a = client_json(shared.server, "POST", path, one, 200);
    mc_json_doc *b = client_json(shared.server, "POST", path, other, 200);
    assert_true(text_at(mc_json_root(b), member).len > 0);
    check_text(mc_json_root(a), member, text_at(mc_json_root(b), member));
    mc_json_close(&a);
    mc_json_close(&b);
}

#define SYSTEM "You know bread only."
#define USER "{\"role\": \"user\", \"content\": \"What is curl?\"}"
#define ASK_MADE(name, more) \
    "{\"model\": \"" name "\", \"stream\": false, \"messages\": [" USER "]" more "}"
#define ASK_SYSTEM(more)                                                                 \
    "{\"model\": \"default\", \"stream\": false, \"messages\": [{\"role\": \"system\", " \
    "\"content\": \"" SYSTEM "\"}, " USER "]" more "}"

static void create(const char *body) {
    mc_json_doc *doc = client_json(shared.server, "POST", "/api/create", body, 200);
    check_text(mc_json_root(doc), "status", MC_STR("success"));
    mc_json_close(&doc);
}

/* A name with a system prompt and options answers as the model does that is told these. */
static void test_create(void **state) {
    (void)state;
    create("{\"model\": \"baker:latest\", \"from\": \"default\", \"system\": \"" SYSTEM "\", "
           "\"parameters\": {\"temperature\": 0, \"repeat_penalty\": 1, \"num_predict\": 4}, "
           "\"stream\": false}");
    check_alike(CHAT, ASK_MADE("baker", ""), ASK_SYSTEM(", " OPTIONS("\"num_predict\": 4")),
                "message.content");
    check_alike(CHAT, ASK_MADE("baker:latest", ", \"options\": {\"num_predict\": 2}"),
                ASK_SYSTEM(", " OPTIONS("\"num_predict\": 2")), "message.content");
    check_alike("/v1/chat/completions",
                ASK_MADE("baker", ", \"temperature\": 0, \"max_tokens\": 4"),
                ASK_SYSTEM(", \"temperature\": 0, \"max_tokens\": 4"), "choices.0.message.content");
    /* A conversation's own system prompt stays alone. */
    check_alike(
        "/apply-template",
        "{\"model\": \"baker\", \"messages\": [{\"role\": \"system\", \"content\": \"a\"}, " USER
        "]}",
        "{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}, " USER "]}", "prompt");
    /* Made of one that was made, and a copy. */
    create("{\"model\": \"cook\", \"from\": \"baker\", \"parameters\": {}}");
    check_alike("/apply-template", "{\"model\": \"cook\", \"messages\": [" USER "]}",
                "{\"model\": \"baker\", \"messages\": [" USER "]}", "prompt");
    answer a = client_ask(shared.server, "POST", "/api/copy",
                          "{\"source\": \"baker\", \"destination\": \"miller\"}");
    assert_int_equal(a.status, 200);
    answer_free(&a);
    check_alike(CHAT, ASK_MADE("miller", ""), ASK_MADE("baker", ""), "message.content");
    static const char *const paths[] = {CHAT, "/v1/chat/completions", "/v1/messages"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) { /* answers have its name */
        mc_json_doc *named = client_json(
            shared.server, "POST", paths[i],
            i ? ASK_MADE("miller", ", \"max_tokens\": 1") : ASK_MADE("miller", ""), 200);
        check_text(mc_json_root(named), "model", MC_STR("miller"));
        mc_json_close(&named);
    }
    mc_json_doc *doc = client_json(shared.server, "GET", "/api/tags", NULL, 200);
    assert_int_equal(mc_json_count(at(mc_json_root(doc), "models")), 4);
    check_text(mc_json_root(doc), "models.3.name", MC_STR("miller"));
    mc_json_close(&doc);
    doc = client_json(shared.server, "POST", "/api/show", "{\"model\": \"miller\"}", 200);
    check_text(mc_json_root(doc), "system", MC_STR(SYSTEM));
    mc_json_close(&doc);
    static const char *const made[] = {"baker", "cook", "miller"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char *body = test_format("{\"model\": \"%s:latest\"}", made[i]);
        doc = client_json(shared.server, "DELETE", "/api/delete", body, 200);
        mc_json_close(&doc);
        free(body);
    }
    a = client_ask(shared.server, "POST", CHAT, ASK_MADE("baker", ""));
    assert_int_equal(a.status, 404);
    answer_free(&a);
}

static void check_create(const char *path, const char *body, int status, const char *text) {
    answer a = client_ask(shared.server, "POST", path, body);
    if (a.status != status || !strstr(a.body, text)) fail_msg("%s: %d %s", body, a.status, a.body);
    answer_free(&a);
}

static void test_create_refused(void **state) {
    (void)state;
    static const char create_path[] = "/api/create", copy_path[] = "/api/copy";
    check_create(create_path, "{\"from\": \"default\"}", 400, "model is missing");
    check_create(create_path, "{\"model\": \"a\"}", 400, "from");
    check_create(create_path, "{\"model\": \"a\", \"from\": \"nothing\"}", 404, "nothing");
    check_create(create_path, "{\"model\": \"a\", \"from\": \"/etc\"}", 404, "no model");
    check_create(create_path, "{\"model\": \"default\", \"from\": \"default\"}", 409,
                 "is a model of the server");
    check_create(create_path, "{\"model\": \"a b\", \"from\": \"default\"}", 400, "blanks");
    check_create(create_path,
                 "{\"model\": \"a\", \"from\": \"default\", \"parameters\": {\"temprature\": 1}}",
                 400, "temprature");
    check_create(create_path,
                 "{\"model\": \"a\", \"from\": \"default\", \"template\": \"{{ .Prompt }}\"}", 400,
                 "template");
    check_create(create_path, "{\"model\": \"a\", \"from\": \"default\", \"quantize\": \"q4_0\"}",
                 400, "quantize");
    check_create(copy_path, "{\"source\": \"default\"}", 400, "destination");
    check_create(copy_path, "{\"source\": \"none\", \"destination\": \"a\"}", 404, "none");
    check_create(CHAT, ASK_MADE("a", ""), 404, "no model");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),  cmocka_unit_test(test_create_refused),
        cmocka_unit_test(test_whole),   cmocka_unit_test(test_stream),
        cmocka_unit_test(test_options), cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_schema),  cmocka_unit_test(test_loaded),
        cmocka_unit_test(test_embed),   cmocka_unit_test(test_embed_options),
        cmocka_unit_test(test_models),  cmocka_unit_test(test_time),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, served_open_shared, close_shared);
}
