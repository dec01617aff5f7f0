/* Embeddings, scores, classes and ranks over sockets: to the bit what the library's functions give,
 * and what of their fields is refused. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mc_json post(const char *path, const char *body, mc_json_doc **doc) {
    *doc = client_json(shared.server, "POST", path, body, 200);
    return mc_json_root(*doc);
}

static double number(mc_json object, const char *key) {
    double value = 0;
    if (!mc_json_get_float(mc_json_find(object, key), &value)) fail_msg("%s is no number", key);
    return value;
}

/* Checks an array of numbers that were floats. */
static void check_floats(mc_json array, const float *want, size_t n) {
    size_t i = 0;
    assert_int_equal(mc_json_count(array), n);
    for (mc_json_iter it = mc_json_begin(array); mc_json_next(&it); i++) {
        double value;
        assert_true(mc_json_get_float(it.value, &value));
        if ((float)value != want[i])
            fail_msg("[%zu] is %.9g, want %.9g", i, value, (double)want[i]);
    }
}

/* The ids of a text as "[1, 2]", freed with free. */
static char *ids_of(const char *text) {
    int32_t *ids;
    size_t n;
    char *out = test_format("[");
    assert_int_equal(mica_tokenizer_encode(mica_model_tokenizer(shared.model), text, strlen(text),
                                           true, &ids, &n),
                     MICA_OK);
    for (size_t i = 0; i < n; i++) {
        char *more = test_format("%s%s%d", out, i ? ", " : "", (int)ids[i]);
        free(out);
        out = more;
    }
    mica_free(ids);
    char *whole = test_format("%s]", out);
    free(out);
    return whole;
}

/* ---- embeddings ---- */

static const char *const texts[] = {"What is curl?", "The sea is wide and blue today."};

static float *embed(const char *text, mica_pooling pooling, bool normalise, size_t *n) {
    float *vector;
    mica_embed_options options = {.pooling = pooling, .normalise = normalise};
    assert_int_equal(mica_embed(shared.model, text, 0, &options, &vector, n), MICA_OK);
    return vector;
}

/* Posts a body, and checks the embedding of its first result. */
static void check_embedding(const char *body, const float *want, size_t n) {
    mc_json_doc *doc;
    mc_json data = mc_json_find(post("/v1/embeddings", body, &doc), "data");
    check_floats(mc_json_find(element(data, 0), "embedding"), want, n);
    mc_json_close(&doc);
}

static void test_embeddings(void **state) {
    (void)state;
    size_t n;
    mc_json_doc *doc;
    char *body =
        test_format("{\"model\": \"default\", \"input\": [\"%s\", \"%s\"]}", texts[0], texts[1]);
    mc_json root = post("/v1/embeddings", body, &doc), data = mc_json_find(root, "data");
    assert_int_equal(mc_json_count(data), 2);
    for (size_t i = 0; i < 2; i++) {
        float *want = embed(texts[i], MICA_POOLING_MEAN, true, &n);
        check_floats(mc_json_find(element(data, i), "embedding"), want, n);
        assert_true(number(element(data, i), "index") == (double)i);
        mica_free(want);
    }
    free(body);
    char *ids[] = {ids_of(texts[0]), ids_of(texts[1])};
    int64_t tokens = 0;
    for (size_t i = 0; i < 2; i++)
        for (const char *at = ids[i]; *at; at++)
            tokens += *at == ',' || *at == '[';
    assert_true(number(mc_json_find(root, "usage"), "prompt_tokens") == (double)tokens);
    mc_json_close(&doc);
    float *want = embed(texts[1], MICA_POOLING_MEAN, true, &n);
    body = test_format("{\"input\": %s}", ids[1]);
    check_embedding(body, want, n);
    free(body);
    body = test_format("{\"input\": [%s, %s]}", ids[1], ids[0]);
    check_embedding(body, want, n);
    free(body);
    mica_free(want);
    want = embed(texts[0], MICA_POOLING_LAST, false, &n);
    body =
        test_format("{\"input\": \"%s\", \"pooling\": \"last\", \"normalize\": false}", texts[0]);
    check_embedding(body, want, n);
    free(body);
    mica_free(want);
    free(ids[0]);
    free(ids[1]);
}

/* The first numbers alone are the same direction, of length 1 again. */
static void test_dimensions(void **state) {
    (void)state;
    enum { SHORT = 16 };
    size_t n;
    double square = 0;
    float *whole = embed(texts[0], MICA_POOLING_MEAN, true, &n);
    char *body = test_format("{\"input\": \"%s\", \"dimensions\": %d}", texts[0], SHORT);
    mc_json_doc *doc;
    mc_json data = mc_json_find(post("/v1/embeddings", body, &doc), "data");
    mc_json vector = mc_json_find(element(data, 0), "embedding");
    assert_int_equal(mc_json_count(vector), SHORT);
    for (size_t i = 0; i < SHORT; i++)
        square += (double)whole[i] * (double)whole[i];
    for (size_t i = 0; i < SHORT; i++) {
        double value;
        assert_true(mc_json_get_float(element(vector, i), &value));
        assert_true(fabs(value - (double)whole[i] / sqrt(square)) < 1e-7);
    }
    mc_json_close(&doc);
    free(body);
    body = test_format("{\"input\": \"%s\", \"dimensions\": %zu}", texts[0], n);
    check_embedding(body, whole, n);
    free(body);
    mica_free(whole);
}

static int digit_of(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);
    return at && c ? (int)(at - digits) : 0;
}

static void test_base64(void **state) {
    (void)state;
    static const int lengths[] = {384, 1, 2}; /* of three lengths of padding */
    for (size_t k = 0; k < 3; k++) {
        size_t n, at = 0;
        float *whole = embed(texts[0], MICA_POOLING_MEAN, false, &n);
        char *body = test_format("{\"input\": \"%s\", \"encoding_format\": \"base64\", "
                                 "\"normalize\": false, \"dimensions\": %d}",
                                 texts[0], lengths[k]);
        mc_json_doc *doc;
        mc_str text;
        mc_json data = mc_json_find(post("/v1/embeddings", body, &doc), "data");
        assert_true(mc_json_get_str(mc_json_find(element(data, 0), "embedding"), &text));
        size_t bytes = (size_t)lengths[k] * 4;
        assert_int_equal(text.len, (bytes + 2) / 3 * 4);
        for (size_t i = 0; i < text.len; i += 4) {
            unsigned b = 0;
            for (size_t j = 0; j < 4; j++)
                b = b << 6 | (unsigned)digit_of(text.ptr[i + j]);
            for (int shift = 16; shift >= 0 && at < bytes; shift -= 8, at++)
                assert_int_equal(b >> shift & 255, ((const unsigned char *)whole)[at]);
        }
        mc_json_close(&doc);
        free(body);
        mica_free(whole);
    }
}

static void test_embeddings_refused(void **state) {
    (void)state;
    static const char path[] = "/v1/embeddings";
    client_refused(shared.server, path, "{}", 400, "missing_field", "input");
    client_refused(shared.server, path, "{\"input\": \"\"}", 400, "invalid_value", "input");
    client_refused(shared.server, path, "{\"input\": []}", 400, "invalid_value", "input");
    client_refused(shared.server, path, "{\"input\": [\"a\", 1]}", 400, "invalid_type", "input");
    client_refused(shared.server, path, "{\"input\": [[1], []]}", 400, "invalid_value", "input");
    client_refused(shared.server, path, "{\"input\": [1, 99999999]}", 400, "invalid_value",
                   "input");
    client_refused(shared.server, path, "{\"input\": \"a\", \"dimensions\": 385}", 400,
                   "invalid_value", "dimensions");
    client_refused(shared.server, path, "{\"input\": \"a\", \"encoding_format\": \"f16\"}", 400,
                   "invalid_type", "encoding_format");
    client_refused(shared.server, path, "{\"input\": \"a\", \"truncate\": true}", 400,
                   "unknown_field", "truncate");
    char *many = malloc(20000), *body;
    assert_non_null(many);
    size_t at = 0;
    for (int i = 0; i < 2049; i++)
        at += (size_t)snprintf(many + at, 20000 - at, "%s7", i ? "," : "");
    body = test_format("{\"input\": [%s]}", many);
    client_refused(shared.server, path, body, 400, "context_length_exceeded", "input");
    free(body);
    at = 0;
    for (int i = 0; i < 2049; i++)
        at += (size_t)snprintf(many + at, 20000 - at, "%s[7]", i ? "," : "");
    body = test_format("{\"input\": [%s]}", many);
    client_refused(shared.server, path, body, 400, "invalid_value", "input");
    free(body);
    free(many);
}

/* ---- scores ---- */

static void check_score(mc_json row, const char *text) {
    mica_score_result *want;
    assert_int_equal(mica_score(shared.model, text, 0, NULL, &want), MICA_OK);
    mc_json logprobs = mc_json_find(row, "token_logprobs"), tokens = mc_json_find(row, "tokens");
    assert_int_equal(mc_json_count(tokens), want->count);
    assert_int_equal(mc_json_count(logprobs), want->count);
    assert_int_equal(mc_json_get_type(element(logprobs, 0)), MC_JSON_NULL);
    for (size_t i = 0; i < want->count; i++) {
        double value;
        int64_t id;
        assert_true(mc_json_get_int(element(tokens, i), &id) && id == want->ids[i]);
        if (i == 0) continue;
        assert_true(mc_json_get_float(element(logprobs, i), &value));
        assert_true((float)value == want->logprobs[i]);
    }
    assert_true(number(row, "logprob") == want->total);
    assert_true(number(row, "perplexity") == want->perplexity);
    mica_score_free(&want);
}

static void test_score(void **state) {
    (void)state;
    mc_json_doc *doc;
    char *body = test_format("{\"input\": [\"%s\", \"%s\"]}", texts[0], texts[1]);
    mc_json data = mc_json_find(post("/v1/score", body, &doc), "data");
    check_score(element(data, 0), texts[0]);
    check_score(element(data, 1), texts[1]);
    mc_json_close(&doc);
    free(body);
    char *ids = ids_of(texts[1]);
    body = test_format("{\"input\": %s}", ids);
    check_score(element(mc_json_find(post("/v1/score", body, &doc), "data"), 0), texts[1]);
    mc_json_close(&doc);
    free(body);
    free(ids);
}

static double cosine(const char *a, const char *b) {
    size_t n;
    float *x = embed(a, MICA_POOLING_MEAN, true, &n), *y = embed(b, MICA_POOLING_MEAN, true, &n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    mica_free(x);
    mica_free(y);
    return sum;
}

static void test_pairs(void **state) {
    (void)state;
    mc_json_doc *doc;
    char *body = test_format("{\"text_1\": \"%s\", \"text_2\": [\"%s\", \"%s\"]}", texts[0],
                             texts[0], texts[1]);
    mc_json data = mc_json_find(post("/v1/score", body, &doc), "data");
    assert_true(fabs(number(element(data, 0), "score") - 1) < 1e-6);
    assert_true(number(element(data, 1), "score") == cosine(texts[0], texts[1]));
    mc_json_close(&doc);
    free(body);
    body = test_format("{\"text_1\": [\"%s\", \"%s\"], \"text_2\": [\"%s\", \"%s\"]}", texts[0],
                       texts[1], texts[1], texts[1]);
    data = mc_json_find(post("/v1/score", body, &doc), "data");
    assert_true(number(element(data, 0), "score") == cosine(texts[0], texts[1]));
    assert_true(fabs(number(element(data, 1), "score") - 1) < 1e-6);
    mc_json_close(&doc);
    free(body);
}

static void test_score_refused(void **state) {
    (void)state;
    client_refused(shared.server, "/v1/score", "{}", 400, "missing_field", "input");
    client_refused(shared.server, "/v1/score", "{\"input\": \"a\", \"text_1\": \"b\"}", 400,
                   "invalid_value", "input");
    client_refused(shared.server, "/v1/score", "{\"text_1\": \"b\"}", 400, "missing_field",
                   "text_2");
    client_refused(shared.server, "/v1/score", "{\"text_1\": [\"a\", \"b\"], \"text_2\": \"b\"}",
                   400, "invalid_value", "text_1");
    client_refused(shared.server, "/v1/score", "{\"input\": [5]}", 400, "",
                   "input"); /* one token */
}

/* ---- ranks ---- */

static double rank_of(const char *document, const char *query) {
    const mica_tokenizer *tok = mica_model_tokenizer(shared.model);
    char *context = test_format("%s\n", document);
    int32_t *a, *b, ids[512];
    size_t n, m;
    mica_score_result *score;
    assert_int_equal(mica_tokenizer_encode(tok, context, strlen(context), true, &a, &n), MICA_OK);
    assert_int_equal(mica_tokenizer_encode(tok, query, strlen(query), false, &b, &m), MICA_OK);
    assert_true(n + m <= 512);
    memcpy(ids, a, n * sizeof *ids);
    memcpy(ids + n, b, m * sizeof *ids);
    assert_int_equal(mica_score_ids(shared.model, ids, n + m, NULL, &score), MICA_OK);
    double sum = 0;
    for (size_t i = n; i < n + m; i++)
        sum += (double)score->logprobs[i];
    mica_score_free(&score);
    mica_free(a);
    mica_free(b);
    free(context);
    return exp(sum / (double)m);
}

/* Other servers' ways to ask for the same. */
static void test_rerank_forms(void **state) {
    (void)state;
    static const char *const paths[] = {"/v2/rerank", "/rerank"};
    static const char query[] = "Which tool?", document[] = "curl is a tool.";
    mc_json_doc *doc;
    mc_str text;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        mc_json results = mc_json_find(
            post(paths[i],
                 "{\"query\": \"Which tool?\", \"documents\": [\"curl is a tool.\", \"Bread.\"], "
                 "\"top_n\": 1, \"max_chunks_per_doc\": 1, \"rank_fields\": [\"text\"]}",
                 &doc),
            "results");
        const mc_json best = element(results, 0);
        assert_int_equal(mc_json_count(results), 1);
        assert_true(number(best, "relevance_score") ==
                    rank_of(number(best, "index") == 0 ? document : "Bread.", query));
        mc_json_close(&doc);
    }
    /* text-embeddings-inference's: texts, and an array */
    mc_json array = post("/rerank",
                         "{\"query\": \"Which tool?\", \"texts\": [\"Bread.\", \"curl is a "
                         "tool.\"], \"return_text\": true}",
                         &doc);
    assert_int_equal(mc_json_count(array), 2);
    for (size_t i = 0; i < 2; i++) {
        const mc_json row = element(array, i);
        const char *want = number(row, "index") == 1 ? document : "Bread.";
        assert_true(number(row, "score") == rank_of(want, query));
        assert_true(mc_json_get_str(mc_json_find(row, "text"), &text));
        assert_true(mc_str_is(text, want));
    }
    mc_json_close(&doc);
    /* Of a long document only the beginning, with the line feed. */
    mc_json results = mc_json_find(
        post("/rerank",
             "{\"query\": \"Which tool?\", \"documents\": [\"curl is a tool.\", \"curl\"], "
             "\"max_tokens_per_doc\": 2}",
             &doc),
        "results");
    assert_true(number(element(results, 0), "relevance_score") ==
                number(element(results, 1), "relevance_score"));
    mc_json_close(&doc);
    client_refused(shared.server, "/rerank", "{\"query\": \"a\"}", 400, "missing_field",
                   "documents");
    client_refused(shared.server, "/rerank",
                   "{\"query\": \"a\", \"documents\": [\"b\"], \"texts\": [\"b\"]}", 400,
                   "invalid_value", "documents");
    client_refused(shared.server, "/rerank", "{\"query\": \"a\", \"texts\": [{}]}", 400,
                   "invalid_type", "texts");
}

static void test_rerank(void **state) {
    (void)state;
    static const char query[] = "Which tool sends requests?";
    static const char *const documents[] = {"The sea is blue.",
                                            "curl is a tool that sends requests.", "Bread."};
    mc_json_doc *doc;
    mc_str text;
    char *body = test_format("{\"query\": \"%s\", \"documents\": [\"%s\", {\"text\": \"%s\"}, "
                             "\"%s\"]}",
                             query, documents[0], documents[1], documents[2]);
    mc_json results = mc_json_find(post("/v1/rerank", body, &doc), "results");
    double last = INFINITY;
    assert_int_equal(mc_json_count(results), 3);
    for (size_t i = 0; i < 3; i++) {
        mc_json row = element(results, i);
        size_t index = (size_t)number(row, "index");
        double score = number(row, "relevance_score");
        assert_true(index < 3 && score <= last && score > 0 && score < 1);
        assert_true(score == rank_of(documents[index], query));
        assert_true(mc_json_get_str(mc_json_find(mc_json_find(row, "document"), "text"), &text));
        assert_true(mc_str_is(text, documents[index]));
        last = score;
    }
    mc_json_close(&doc);
    free(body);
    body = test_format("{\"query\": \"%s\", \"documents\": [\"%s\", \"%s\"], \"top_n\": 1, "
                       "\"return_documents\": false}",
                       query, documents[0], documents[1]);
    results = mc_json_find(post("/v1/rerank", body, &doc), "results");
    assert_int_equal(mc_json_count(results), 1);
    assert_false(mc_json_exists(mc_json_find(element(results, 0), "document")));
    mc_json_close(&doc);
    free(body);
    client_refused(shared.server, "/v1/rerank", "{\"query\": \"a\", \"documents\": []}", 400,
                   "invalid_value", "documents");
    client_refused(shared.server, "/v1/rerank", "{\"query\": \"a\", \"documents\": [1]}", 400,
                   "invalid_type", "documents");
    client_refused(shared.server, "/v1/rerank",
                   "{\"query\": \"a\", \"documents\": [{\"text\": \"b\", \"image\": \"c\"}]}", 400,
                   "invalid_type", "documents");
    client_refused(shared.server, "/v1/rerank", "{\"query\": \"\", \"documents\": [\"b\"]}", 400,
                   "invalid_value", "query");
}

/* ---- classes ---- */

static void test_classify(void **state) {
    (void)state;
    static const char *const labels[] = {" yes", " no"};
    mc_json_doc *doc;
    mc_str text;
    for (int as_chat = 0; as_chat < 2; as_chat++) {
        char *body =
            test_format("{\"input\": [\"%s\", \"%s\"], \"labels\": [\"%s\", \"%s\"], "
                        "\"as_chat\": %s}",
                        texts[0], texts[1], labels[0], labels[1], as_chat ? "true" : "false");
        mica_classify_results *want;
        mica_classify_options options = {
            .labels = labels, .label_count = 2, .as_chat = as_chat != 0};
        assert_int_equal(mica_classify(shared.model, texts, 2, &options, &want), MICA_OK);
        mc_json data = mc_json_find(post("/v1/classify", body, &doc), "data");
        assert_int_equal(mc_json_count(data), 2);
        for (size_t i = 0; i < 2; i++) {
            mc_json row = element(data, i), probs = mc_json_find(row, "probs");
            for (size_t j = 0; j < 2; j++) {
                double value;
                assert_true(mc_json_get_float(element(probs, j), &value));
                assert_true(value == want->rows[i].labels[j]);
            }
            assert_true(mc_json_get_str(mc_json_find(row, "label"), &text));
            assert_true(mc_str_is(text, labels[want->rows[i].label]));
            assert_true(number(row, "token") == (double)want->rows[i].token);
            assert_true(number(row, "probability") == want->rows[i].probability);
        }
        mica_classify_free(&want);
        mc_json_close(&doc);
        free(body);
    }
    client_refused(shared.server, "/v1/classify", "{\"input\": []}", 400, "invalid_value", "input");
    client_refused(shared.server, "/v1/classify", "{\"input\": \"a\\u0000b\"}", 400,
                   "invalid_value", "input");
    client_refused(shared.server, "/v1/classify", "{\"input\": \"a\", \"labels\": [\"x\", \"x\"]}",
                   400, "", "labels");
}

/* ---- long ones ---- */

/* A body of `count` inputs of `n` tokens, freed with free. */
static char *long_body(const char *model, size_t count, size_t n) {
    size_t bytes = count * (n * 3 + 4) + 64, at = 0;
    char *body = malloc(bytes);
    assert_non_null(body);
    at += (size_t)snprintf(body, bytes, "{\"model\": \"%s\", \"input\": [", model);
    for (size_t i = 0; i < count; i++) {
        at += (size_t)snprintf(body + at, bytes - at, "%s[", i ? "," : "");
        for (size_t j = 0; j < n; j++)
            at += (size_t)snprintf(body + at, bytes - at, "%s%d", j ? "," : "", 10 + (int)(j % 80));
        at += (size_t)snprintf(body + at, bytes - at, "]");
    }
    snprintf(body + at, bytes - at, "]}");
    return body;
}

/* Clients that leave end their computation, also those that wait for it: what would take minutes
 * is over when the next request is answered. */
static void test_hangup(void **state) {
    (void)state;
    size_t files = client_files();
    char *body = long_body("default", 2000, 100);
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = client_connect(shared.server);
        client_print(fds[i],
                     "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
                     "\r\n",
                     strlen(body));
        client_send(fds[i], body, strlen(body));
    }
    client_wait_metric(shared.server, "mica_evaluations_waiting", 3);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    mc_json_doc *doc;
    post("/v1/embeddings", "{\"input\": \"a\"}", &doc);
    mc_json_close(&doc);
    assert_true(client_files_back(files));
    free(body);
}

/* A chat is answered while a long computation runs, which goes on meanwhile. */
static void test_beside_answers(void **state) {
    (void)state;
    char *body = long_body("default", 2000, 200);
    int fd = client_connect(shared.server);
    client_print(fd,
                 "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                 strlen(body));
    client_send(fd, body, strlen(body));
    client_wait_metric(shared.server, "mica_evaluations_running", 1);
    mc_json_doc *doc;
    post("/v1/chat/completions",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}], "
         "\"max_tokens\": 8}",
         &doc);
    mc_json_close(&doc);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 0), 0); /* it is not done yet */
    close(fd);
    free(body);
}

/* A request whose time is over ends with 504. */
static void test_timeout(void **state) {
    (void)state;
    mica_server *server = NULL;
    mica_serving_options options = {.max_seconds = 0.2};
    char *body = long_body("slow", 2000, 100);
    assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
    assert_int_equal(mica_server_add(server, "slow", shared.model, &options), MICA_OK);
    client_refused(server, "/v1/embeddings", body, 504, "timeout", "");
    client_refused(server, "/v1/score", body, 504, "timeout", "");
    mica_server_close(&server);
    free(body);
}

/* /metrics counts them by what they compute and how they end. */
static void test_metrics(void **state) {
    (void)state;
    mica_server *server = NULL;
    mica_serving_options options = {.max_seconds = 0.3};
    char *body = long_body("slow", 2000, 100);
    assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
    assert_int_equal(mica_server_add(server, "default", shared.model, NULL), MICA_OK);
    assert_int_equal(mica_server_add(server, "slow", shared.model, &options), MICA_OK);
    mc_json_doc *doc =
        client_json(server, "POST", "/v1/embeddings", "{\"input\": [\"a b c\", \"d\"]}", 200);
    double tokens = (double)int_at(mc_json_root(doc), "usage.prompt_tokens");
    mc_json_close(&doc);
    doc = client_json(server, "POST", "/v1/rerank", "{\"query\": \"a\", \"documents\": [\"b\"]}",
                      200);
    mc_json_close(&doc);
    client_refused(server, "/v1/score", body, 504, "timeout", "");
    answer a = client_ask(server, "GET", "/metrics", NULL);
#define ENDED(kind, end) \
    client_metric(a.body, "mica_evaluations_total{kind=\"" kind "\",end=\"" end "\"}")
    assert_true(ENDED("embed", "done") == 1);
    assert_true(ENDED("rerank", "done") == 1);
    assert_true(ENDED("score", "timeout") == 1);
    assert_true(ENDED("score", "done") == 0 && ENDED("classify", "error") == 0);
    assert_true(client_metric(a.body, "mica_evaluation_tokens_total{kind=\"embed\"}") == tokens);
    assert_true(client_metric(a.body, "mica_evaluation_seconds_total{kind=\"score\"}") >= 0.3);
    assert_true(client_metric(a.body, "mica_evaluations_waiting") == 0);
    assert_true(client_metric(a.body, "mica_evaluations_refused_total") == 0);
    answer_free(&a);
    mica_server_close(&server);
    free(body);
}

static void test_no_memory(void **state) {
    (void)state;
    client_without_memory(shared.server, "/v1/embeddings", "{\"input\": [\"a b c\", \"d\"]}");
    client_without_memory(shared.server, "/v1/score", "{\"input\": \"a b c\"}");
    client_without_memory(shared.server, "/v1/score", "{\"text_1\": \"a b c\", \"text_2\": \"d\"}");
    client_without_memory(shared.server, "/v1/rerank",
                          "{\"query\": \"a\", \"documents\": [\"b\"]}");
    client_without_memory(shared.server, "/v1/classify",
                          "{\"input\": \"a b c\", \"labels\": [\"d\", \"e\"]}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embeddings),    cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_base64),        cmocka_unit_test(test_embeddings_refused),
        cmocka_unit_test(test_score),         cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_score_refused), cmocka_unit_test(test_rerank),
        cmocka_unit_test(test_rerank_forms),  cmocka_unit_test(test_classify),
        cmocka_unit_test(test_hangup),        cmocka_unit_test(test_beside_answers),
        cmocka_unit_test(test_timeout),       cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}
