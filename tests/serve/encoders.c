/* Embedders and cross-encoders over sockets: what sentence-transformers gives for their fixtures,
 * and requests that take long. */
#include "reading.h"

#include "base/system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A server with a model of the fixtures. */
static served open_encoder(const char *name, double max_seconds) {
    served s = {0};
    mica_model_options model = {.arithmetic = MICA_ARITHMETIC_EXACT};
    char *path = test_format("%s/embedders/%s", test_fixtures_dir(), name);
    mica_serving_options serving = {.max_seconds = max_seconds};
    assert_int_equal(mica_model_open(path, &model, &s.model), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, name, s.model, &serving), MICA_OK);
    free(path);
    return s;
}

typedef struct list {
    char text[1 << 17];
    size_t len;
} list;

static void add(list *l, const char *text) {
    size_t n = strlen(text);
    assert_true(l->len + n < sizeof l->text);
    memcpy(l->text + l->len, text, n + 1);
    l->len += n;
}

/* [one, one, ...] */
static void repeat(list *l, const char *one, size_t count) {
    for (size_t i = 0; i < count; i++) {
        add(l, i ? ", " : "[");
        add(l, one);
    }
    add(l, "]");
}

/* ---- cross-encoders ---- */

/* The pairs of the golden that were not cut, two queries alternating. */
static const char *const queries[] = {"who wrote the letter?", "wo ist der Meister"};
static const char *const documents[] = {
    "[\"The old lighthouse keeper wrote a letter every evening.\", "
    "{\"text\": \"日本語のテキストです。東京都\"}, \"short\"]",
    "[\"Übung macht den Meister; 1234 Größen!\", "
    "\"def add(a, b):\\n\\treturn a + b\", \"\"]"};
static const double scores[][3] = {{0.8543656468, 0.8329505324, 0.8818890452},
                                   {0.8238704205, 0.8089877963, 0.8170262575}};
static const double logits[][3] = {{1.7692599297, 1.6066842079, 2.0104417801},
                                   {1.5427932739, 1.4434462786, 1.4963283539}};

static void check_order(mc_json results, const char *score, const double *want, size_t count) {
    double before = INFINITY;
    assert_int_equal(mc_json_count(results), count);
    for (size_t i = 0; i < count; i++) {
        mc_json result = element(results, i);
        double got = real_at(result, score);
        assert_true(got <= before);
        assert_true(fabs(got - want[int_at(result, "index")]) < 1e-4);
        before = got;
    }
}

static void test_rerank(void **state) {
    (void)state;
    served s = open_encoder("xlmr_reranker", 0.0);
    for (size_t i = 0; i < 2; i++) {
        char *body = test_format("{\"query\": \"%s\", \"documents\": %s, \"raw_scores\": %s, "
                                 "\"truncate\": true, \"top_n\": %d}",
                                 queries[i], documents[i], i ? "true" : "false", i ? 3 : 2);
        mc_json_doc *doc = client_json(s.server, "POST", "/v1/rerank", body, 200);
        check_order(at(mc_json_root(doc), "results"), "relevance_score", i ? logits[i] : scores[i],
                    i ? 3 : 2);
        mc_json_close(&doc);
        free(body);
    }
    char *body = test_format("{\"query\": \"%s\", \"texts\": %s}", queries[1], documents[1]);
    mc_json_doc *doc = client_json(s.server, "POST", "/rerank", body, 200);
    check_order(mc_json_root(doc), "score", scores[1], 3);
    mc_json_close(&doc);
    free(body);
    client_refused(s.server, "/v1/rerank", "{\"query\": \"\", \"documents\": [\"a\"]}", 400,
                   "invalid_value", "query");
    served_close(&s);
}

/* The score of a query and a document of which one token is read. */
static double score_of_one(const served *s, const char *query, const char *document) {
    char *body = test_format(
        "{\"query\": \"%s\", \"documents\": [\"%s\"], \"max_tokens_per_doc\": 1}", query, document);
    mc_json_doc *doc = client_json(s->server, "POST", "/v2/rerank", body, 200);
    double score = real_at(mc_json_root(doc), "results.0.relevance_score");
    mc_json_close(&doc);
    free(body);
    return score;
}

/* The document alone is cut, the query is read to its end. */
static void test_cut_documents(void **state) {
    (void)state;
    served s = open_encoder("xlmr_reranker", 0.0);
    double score = score_of_one(&s, "who wrote it", "a b c");
    assert_true(score == score_of_one(&s, "who wrote it", "a b d e f g"));
    assert_true(score != score_of_one(&s, "who wrote if", "a b c"));
    served_close(&s);
}

/* A long query is tokenised once, and many documents end when their time is over. */
static void test_long_query(void **state) {
    (void)state;
    static list all;
    served s = open_encoder("xlmr_reranker", 0.2);
    all.len = 0;
    add(&all, "{\"query\": \"");
    for (int i = 0; i < 20000; i++)
        add(&all, "word ");
    add(&all, "\", \"documents\": ");
    repeat(&all, "\"a\"", 2048);
    add(&all, "}");
    uint64_t start = mc_now_us();
    client_refused(s.server, "/v1/rerank", all.text, 504, "timeout", "");
    assert_true(mc_now_us() - start < 10 * 1000000);
    all.len = 0;
    add(&all, "{\"query\": \"a\", \"documents\": ");
    repeat(&all, "\"a\"", 2049);
    add(&all, "}");
    client_refused(s.server, "/v1/rerank", all.text, 400, "invalid_value", "documents");
    served_close(&s);
}

static void test_hangup(void **state) {
    (void)state;
    static list all;
    served s = open_encoder("xlmr_reranker", 0.0);
    all.len = 0;
    add(&all, "{\"query\": \"");
    for (int i = 0; i < 20000; i++)
        add(&all, "word ");
    add(&all, "\", \"documents\": ");
    repeat(&all, "\"a\"", 2048);
    add(&all, "}");
    size_t files = client_files();
    int fd = client_connect(s.server);
    client_print(fd,
                 "POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                 "application/json\r\nContent-Length: %zu\r\n\r\n",
                 all.len);
    client_send(fd, all.text, all.len);
    close(fd);
    mc_json_doc *doc = client_json(s.server, "POST", "/v1/rerank",
                                   "{\"query\": \"a\", \"documents\": [\"b\"]}", 200);
    mc_json_close(&doc);
    assert_true(client_files_back(files));
    served_close(&s);
}

/* ---- embedders ---- */

/* As mica_embed: the default prompt before a text; a long text cut, tokens around it kept. */
static void test_embeddings(void **state) {
    (void)state;
    static const char *const paths[] = {"/v1/embeddings", "/api/embed"};
    static const char *const names[] = {"embeddinggemma", "bert_minilm"};
    static const mica_embed_options unit = {.normalise = true};
    char *longest = malloc(4001);
    assert_non_null(longest);
    for (size_t i = 0; i < 4000; i++)
        longest[i] = i % 4 == 3 ? ' ' : 'a';
    longest[4000] = 0;
    for (size_t i = 0; i < 2; i++) {
        served s = open_encoder(names[i], 0.0);
        float *want;
        size_t n;
        const char *text = i ? longest : "The sea";
        assert_int_equal(mica_embed(s.model, text, 0, &unit, &want, &n), MICA_OK);
        for (size_t j = 0; j < 2; j++) {
            char *body = test_format("{\"model\": \"%s\", \"input\": \"%s\"}", names[i], text);
            mc_json_doc *doc = client_json(s.server, "POST", paths[j], body, 200);
            mc_json got = at(mc_json_root(doc), j ? "embeddings.0" : "data.0.embedding");
            assert_int_equal(mc_json_count(got), n);
            for (size_t k = 0; k < n; k++) {
                double x = 0;
                assert_true(mc_json_get_float(element(got, k), &x));
                assert_true(fabs(x - (double)want[k]) < 1e-6);
            }
            mc_json_close(&doc);
            free(body);
        }
        mica_free(want);
        served_close(&s);
    }
    free(longest);
}

static void test_embeddings_end(void **state) {
    (void)state;
    static list all;
    served s = open_encoder("bert_minilm", 0.02);
    all.len = 0;
    add(&all, "{\"input\": ");
    repeat(&all, "\"many words are in this text of many\"", 2048);
    add(&all, "}");
    client_refused(s.server, "/v1/embeddings", all.text, 504, "timeout", "");
    served_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rerank),     cmocka_unit_test(test_cut_documents),
        cmocka_unit_test(test_long_query), cmocka_unit_test(test_hangup),
        cmocka_unit_test(test_embeddings), cmocka_unit_test(test_embeddings_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
