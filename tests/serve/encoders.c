/* Embedders and cross-encoders over sockets: what sentence-transformers gives for their fixtures,
 * and requests that take long. */
#include "reading.h"

#include "base/system.h"
#include "model/fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void open_at(const char *name, const char *path, double max_seconds, served *s) {
    mica_model_options model = {.arithmetic = MICA_ARITHMETIC_EXACT};
    mica_serving_options serving = {.max_seconds = max_seconds};
    *s = (served){0};
    if (mica_model_open(path, &model, &s->model) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_server_open(NULL, &s->server), MICA_OK);
    assert_int_equal(mica_server_add(s->server, name, s->model, &serving), MICA_OK);
}

/* A server with a model of the fixtures. */
static served open_encoder(const char *name, double max_seconds) {
    served s;
    char *path = test_format("%s/embedders/%s", test_fixtures_dir(), name);
    open_at(name, path, max_seconds, &s);
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

/* ---- language models ---- */

/* A model of the fixtures that ranks by two tokens. Its vocabulary has `mark` for <|im_start|>. */
static char *logit_folder(int yes, int no, const char *mark) {
    char *from = test_format("%s/embedders/qwen3_embedding", test_fixtures_dir());
    char *dir = fixture_copy_folder(from, "tokenizer.json", "<|im_start|>", mark);
    char *config = test_format("{\"true_token_id\": %d, \"false_token_id\": %d}", yes, no);
    test_write_below(dir, "modules.json",
                     "[{\"type\": \"m.Transformer\", \"path\": \"\"}, "
                     "{\"type\": \"m.LogitScore\", \"path\": \"1_LogitScore\"}]");
    test_write_below(dir, "1_LogitScore/config.json", config);
    free(config);
    free(from);
    return dir;
}

/* A language model is asked, as by mica_rerank, and its files say by which tokens it answers. */
static void test_rerank_by_answers(void **state) {
    (void)state;
    static const char *const texts[] = {"the sea", "a letter", "der Meister"};
    float got[2][3];
    for (int i = 0; i < 2; i++) {
        served s;
        char *dir = logit_folder(i ? 9 : 7, i ? 7 : 9, "<|im_start|>");
        open_at("ranker", dir, 0.0, &s);
        assert_int_equal(mica_rerank(s.model, "who wrote it?", texts, 3, NULL, got[i]), MICA_OK);
        mc_json_doc *doc = client_json(s.server, "POST", "/v1/rerank",
                                       "{\"query\": \"who wrote it?\", \"documents\": "
                                       "[\"the sea\", \"a letter\", \"der Meister\"]}",
                                       200);
        const double want[] = {got[i][0], got[i][1], got[i][2]};
        check_order(at(mc_json_root(doc), "results"), "relevance_score", want, 3);
        assert_true(int_at(mc_json_root(doc), "usage.prompt_tokens") > 100);
        mc_json_close(&doc);
        doc = client_json(s.server, "POST", "/v1/rerank",
                          "{\"query\": \"who\", \"documents\": [\"the sea the sea\", \"the\"], "
                          "\"max_tokens_per_doc\": 1}",
                          200);
        mc_json_close(&doc);
        served_close(&s);
        test_temp_dir_remove(dir);
    }
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)got[0][i] + (double)got[1][i] - 1.0) < 1e-5);
}

/* Without ChatML's marks its text would be another. */
static void test_rerank_without_marks(void **state) {
    (void)state;
    const char *text = "the sea";
    served s;
    float score;
    char *dir = logit_folder(7, 9, "<|other|>");
    open_at("ranker", dir, 0.0, &s);
    assert_int_equal(mica_rerank(s.model, "who", &text, 1, NULL, &score), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "<|im_start|>"));
    served_close(&s);
    test_temp_dir_remove(dir);
}

/* ---- embedders ---- */

/* The vector that a request gets. */
static float *vector_of(const served *s, const char *path, const char *body, size_t *n) {
    bool ollama = strcmp(path, "/api/embed") == 0;
    mc_json_doc *doc = client_json(s->server, "POST", path, body, 200);
    mc_json all = at(mc_json_root(doc), ollama ? "embeddings.0" : "data.0.embedding");
    *n = mc_json_count(all);
    float *vector = malloc((*n + 1) * sizeof *vector);
    assert_non_null(vector);
    for (size_t i = 0; i < *n; i++) {
        double x = 0;
        assert_true(mc_json_get_float(element(all, i), &x));
        vector[i] = (float)x;
    }
    mc_json_close(&doc);
    return vector;
}

static void check_vector(const served *s, const char *path, const char *body, const char *text,
                         const mica_embed_options *options) {
    size_t n, n_want;
    float *got = vector_of(s, path, body, &n), *want;
    if (mica_embed(s->model, text, 0, options, &want, &n_want) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(n, n_want);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) < 1e-6)) fail_msg("%s: number %zu", body, i);
    mica_free(want);
    free(got);
}

/* Prompts by name, by Jina's name and as they are; pooling; fewer numbers, with and without a
 * length of 1. */
static void test_embedding_options(void **state) {
    (void)state;
    static const char *const path = "/v1/embeddings";
    served s = open_encoder("embeddinggemma", 0.0);
    const char *const query = "task: search result | query: ";
    char *whole = test_format("%sThe sea", query);
    check_vector(&s, path, "{\"input\": \"The sea\", \"prompt_name\": \"query\"}", "The sea",
                 &(mica_embed_options){.normalise = true, .prompt_name = "query"});
    check_vector(&s, path, "{\"input\": \"The sea\", \"task\": \"query\"}", "The sea",
                 &(mica_embed_options){.normalise = true, .prompt_name = "query"});
    check_vector(&s, path,
                 "{\"input\": \"The sea\", \"prompt\": \"task: search result | query: \"}", whole,
                 &(mica_embed_options){.normalise = true, .prompt_name = ""});
    check_vector(&s, path, "{\"input\": \"The sea\", \"prompt_name\": \"\"}", "The sea",
                 &(mica_embed_options){.normalise = true, .prompt_name = ""});
    check_vector(&s, path, "{\"input\": \"The sea\", \"pooling\": \"last\"}", "The sea",
                 &(mica_embed_options){.normalise = true, .pooling = MICA_POOLING_LAST});
    client_refused(s.server, path, "{\"input\": \"a\", \"prompt_name\": \"nobody\"}", 400,
                   "invalid_value", "prompt_name");
    client_refused(s.server, path,
                   "{\"input\": \"a\", \"prompt_name\": \"query\", \"prompt\": \"\"}", 400,
                   "invalid_value", "prompt");
    client_refused(s.server, path, "{\"input\": \"a\", \"late_chunking\": true}", 400,
                   "unsupported_value", "late_chunking");
    served_close(&s);
    free(whole);
    s = open_encoder("modernbert_cls", 0.0);
    for (int i = 0; i < 2; i++) { /* the folder's own is the first token's */
        check_vector(
            &s, path,
            i ? "{\"input\": \"The sea\", \"pooling\": \"mean\"}" : "{\"input\": \"The sea\"}",
            "The sea",
            &(mica_embed_options){.normalise = true,
                                  .pooling = i ? MICA_POOLING_MEAN : MICA_POOLING_DEFAULT});
        char *body = test_format("{\"input\": \"The sea\", \"dimensions\": 8, \"normalize\": %s}",
                                 i ? "true" : "false");
        check_vector(&s, path, body, "The sea",
                     &(mica_embed_options){.normalise = i, .dimensions = 8});
        free(body);
    }
    check_vector(&s, "/api/embed",
                 "{\"model\": \"modernbert_cls\", \"input\": \"The sea\", \"dimensions\": 8, "
                 "\"keep_alive\": \"5m\"}",
                 "The sea", &(mica_embed_options){.normalise = true, .dimensions = 8});
    served_close(&s);
}

/* The mean of all tokens is another vector than the first one's. */
static void test_pooling(void **state) {
    (void)state;
    served s = open_encoder("modernbert_cls", 0.0);
    float *vectors[3];
    size_t n;
    for (int i = 0; i < 3; i++)
        assert_int_equal(mica_embed(s.model, "The sea", 0,
                                    &(mica_embed_options){.pooling = (mica_pooling)i}, &vectors[i],
                                    &n),
                         MICA_OK);
    for (int i = 0; i < 3; i++)
        assert_true(fabsf(vectors[i][0] - vectors[(i + 1) % 3][0]) > 1e-4f);
    for (int i = 0; i < 3; i++)
        mica_free(vectors[i]);
    served_close(&s);
}

static void test_truncate(void **state) {
    (void)state;
    static list all;
    served s = open_encoder("bert_minilm", 0.0);
    for (int i = 0; i < 3; i++) {
        all.len = 0;
        add(&all, "{\"model\": \"bert_minilm\", \"truncate\": ");
        add(&all, i ? "true" : "false");
        add(&all, ", \"input\": \"");
        for (int k = 0; k < (i == 2 ? 1 : 2000); k++)
            add(&all, "word ");
        add(&all, "\"}");
        if (i) {
            mc_json_doc *doc = client_json(s.server, "POST", "/api/embed", all.text, 200);
            mc_json_close(&doc);
            continue;
        }
        answer refused = client_ask(s.server, "POST", "/api/embed", all.text);
        assert_int_equal(refused.status, 400);
        assert_non_null(strstr(refused.body, "the model reads"));
        answer_free(&refused);
    }
    served_close(&s);
}

/* What /api/show says that a model can, which is one thing. */
static void check_capability(const served *s, const char *name, const char *want) {
    char *body = test_format("{\"model\": \"%s\"}", name);
    mc_json_doc *doc = client_json(s->server, "POST", "/api/show", body, 200);
    mc_json all = at(mc_json_root(doc), "capabilities");
    assert_int_equal(mc_json_count(all), 1);
    mc_str text = {0};
    assert_true(mc_json_get_str(element(all, 0), &text) && mc_str_is(text, want));
    mc_json_close(&doc);
    free(body);
}

static void test_capabilities(void **state) {
    (void)state;
    static const char *const names[][2] = {{"bert_minilm", "embedding"},
                                           {"qwen3_embedding", "embedding"},
                                           {"xlmr_reranker", "rerank"}};
    for (size_t i = 0; i < 3; i++) {
        served s = open_encoder(names[i][0], 0.0);
        check_capability(&s, names[i][0], names[i][1]);
        served_close(&s);
    }
    served s;
    char *dir = logit_folder(7, 9, "<|im_start|>");
    open_at("ranker", dir, 0.0, &s);
    check_capability(&s, "ranker", "rerank");
    served_close(&s);
    test_temp_dir_remove(dir);
}

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
        cmocka_unit_test(test_rerank),
        cmocka_unit_test(test_cut_documents),
        cmocka_unit_test(test_long_query),
        cmocka_unit_test(test_hangup),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_embeddings_end),
        cmocka_unit_test(test_rerank_by_answers),
        cmocka_unit_test(test_embedding_options),
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_rerank_without_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
