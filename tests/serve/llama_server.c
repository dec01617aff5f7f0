/* llama.cpp's server: what /completion answers, whole and streamed, /props and /slots. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH "/completion"
#define CURL "\"prompt\": \"curl is\", \"temperature\": 0"

static mc_json_doc *complete(const char *fields) {
    char *body = test_format("{%s}", fields);
    mc_json_doc *doc = client_json(shared.server, "POST", PATH, body, 200);
    free(body);
    return doc;
}

static bool truth_at(mc_json value, const char *path) {
    bool truth = false;
    assert_true(mc_json_get_bool(at(value, path), &truth));
    return truth;
}

static void test_whole(void **state) {
    (void)state;
    mc_json_doc *doc = complete(CURL ", \"n_predict\": 2, \"cache_prompt\": true, \"n_probs\": 2, "
                                     "\"return_tokens\": true, \"id_slot\": -1");
    mc_json root = mc_json_root(doc);
    check_text(root, "content", MC_STR(" a command"));
    check_text(root, "model", MC_STR("default"));
    check_text(root, "stop_type", MC_STR("limit"));
    check_text(root, "stopping_word", MC_STR(""));
    check_text(root, "prompt", MC_STR("<bos>curl is"));
    assert_true(truth_at(root, "stop") && !truth_at(root, "truncated"));
    assert_int_equal(int_at(root, "tokens_predicted"), 2);
    assert_int_equal(mc_json_count(at(root, "tokens")), 2);
    assert_int_equal(int_at(root, "generation_settings.n_predict"), 2);
    assert_int_equal(int_at(root, "timings.predicted_n"), 2);
    assert_int_equal(mc_json_count(at(root, "completion_probabilities")), 2);
    check_text(root, "completion_probabilities.1.token", MC_STR(" command"));
    assert_int_equal(int_at(root, "completion_probabilities.1.id"), int_at(root, "tokens.1"));
    assert_true(real_at(root, "completion_probabilities.0.logprob") ==
                real_at(root, "completion_probabilities.0.top_logprobs.0.logprob"));
    mc_json_close(&doc);
    doc = complete(CURL ", \"stop\": [\"x\", \" line\"]");
    check_text(mc_json_root(doc), "content", MC_STR(" a command"));
    check_text(mc_json_root(doc), "stop_type", MC_STR("word"));
    check_text(mc_json_root(doc), "stopping_word", MC_STR(" line"));
    mc_json_close(&doc);
}

/* An answer that ends by itself, and several prompts. */
static void test_ends(void **state) {
    (void)state;
    mc_json_doc *doc = complete("\"prompt\": [\"curl is\", [2, 5, 7]], \"temperature\": 0, "
                                "\"n_predict\": 1");
    assert_int_equal(mc_json_count(mc_json_root(doc)), 2);
    check_text(element(mc_json_root(doc), 0), "content", MC_STR(" a"));
    assert_int_equal(int_at(element(mc_json_root(doc), 1), "tokens_evaluated"), 3);
    assert_int_equal(int_at(element(mc_json_root(doc), 1), "index"), 1);
    mc_json_close(&doc);
    doc = complete("\"prompt\": \"a\", \"grammar\": \"root ::= \\\"yes\\\"\"");
    check_text(mc_json_root(doc), "content", MC_STR("yes"));
    check_text(mc_json_root(doc), "stop_type", MC_STR("eos"));
    mc_json_close(&doc);
    /* Biases as pairs do what those of an object do, and false forbids a token. */
    static const char *const biases[] = {"{\"444\": 100}", "[[444, 100]]"};
    for (size_t i = 0; i < 2; i++) {
        char *text = test_format(CURL ", \"n_predict\": 2, \"return_tokens\": true, "
                                      "\"logit_bias\": %s",
                                 biases[i]);
        doc = complete(text);
        assert_int_equal(int_at(mc_json_root(doc), "tokens.0"), 444);
        mc_json_close(&doc);
        free(text);
    }
    doc = complete("\"prompt\": \"a\", \"grammar\": \"root ::= \\\"yes\\\" | \\\"no\\\"\", "
                   "\"logit_bias\": []");
    mc_json_close(&doc);
    doc = complete("\"prompt\": \"a\", \"json_schema\": {\"enum\": [\"b\"]}");
    check_text(mc_json_root(doc), "content", MC_STR("\"b\""));
    mc_json_close(&doc);
}

/* What plugins of editors send: first a request that only has the prompt read, then one with limits
 * and orders that change nothing here. */
static void test_editors(void **state) {
    (void)state;
    mc_json_doc *doc = complete("\"prompt\": \"curl is a command line\", \"n_predict\": 0, "
                                "\"samplers\": [], \"t_max_predict_ms\": 1, "
                                "\"response_fields\": [\"\"]");
    check_text(mc_json_root(doc), "content", MC_STR(""));
    check_text(mc_json_root(doc), "stop_type", MC_STR("limit"));
    assert_int_equal(int_at(mc_json_root(doc), "tokens_predicted"), 0);
    mc_json_close(&doc);
}

/* Events give the same text; only the last one has the rest, and nothing follows it. */
static void test_stream(void **state) {
    (void)state;
    answer a = client_ask(shared.server, "POST", "/completions",
                          "{" CURL ", \"n_predict\": 3, \"stream\": true}");
    char text[256] = "", *line = a.body;
    size_t len = 0, events = 0;
    bool stop = false;
    assert_int_equal(a.status, 200);
    for (char *end; (end = strstr(line, "\n\n")); line = end + 2, events++) {
        mc_json_doc *doc = NULL;
        if (*line == ':') { /* a comment, while the prompt is read */
            events--;
            continue;
        }
        assert_true(strncmp(line, "data: ", 6) == 0 && !stop);
        assert_int_equal(mc_json_parse(line + 6, (size_t)(end - line - 6), "event", &doc), MICA_OK);
        mc_str piece = text_at(mc_json_root(doc), "content");
        assert_true(len + piece.len < sizeof text);
        memcpy(text + len, piece.ptr, piece.len);
        len += piece.len;
        stop = truth_at(mc_json_root(doc), "stop");
        if (stop) check_text(mc_json_root(doc), "stop_type", MC_STR("limit"));
        mc_json_close(&doc);
    }
    assert_true(stop && events == 4 && !*line);
    assert_string_equal(text, " a command line");
    answer_free(&a);
}

static void test_server(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(shared.server, "GET", "/props", NULL, 200);
    mc_json root = mc_json_root(doc);
    check_text(root, "model_alias", MC_STR("default"));
    check_text(root, "model_path", MC_STR("default"));
    check_text(root, "bos_token", MC_STR("<bos>"));
    assert_true(int_at(root, "default_generation_settings.n_ctx") > 0);
    assert_true(text_at(root, "chat_template").len > 0);
    int64_t slots = int_at(root, "total_slots");
    mc_json_close(&doc);
    for (bool busy = true; busy;) { /* a row is free a moment after its answer has ended */
        doc =
            client_json(shared.server, "GET", "/slots?model=default&fail_on_no_slot=1", NULL, 200);
        assert_int_equal(mc_json_count(mc_json_root(doc)), slots);
        busy = truth_at(element(mc_json_root(doc), 0), "is_processing");
        mc_json_close(&doc);
    }
}

static void test_refusals(void **state) {
    (void)state;
    client_refused(shared.server, PATH, "{}", 400, "missing_field", "prompt");
    client_refused(shared.server, PATH, "{\"prompt\": \"a\", \"mirostat\": 2}", 400,
                   "unsupported_value", "mirostat");
    static const char *const biases[] = {"[[1]]",      "[[1, 2, 3]]", "[[-1, 1]]", "[[1000000, 1]]",
                                         "[[1, 101]]", "[[1, true]]", "[\"a\"]",   "[[\"a\", 1]]"};
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
        char *body = test_format("{\"prompt\": \"a\", \"logit_bias\": %s}", biases[i]);
        client_refused(shared.server, PATH, body, 400, "invalid_value", "logit_bias");
        free(body);
    }
    client_refused(shared.server, PATH, "{\"prompt\": \"a\", \"logit_bias\": [[1, 2], [1, 3]]}",
                   400, "repeated_field", "logit_bias");
    client_refused(shared.server, PATH,
                   "{\"prompt\": \"a\", \"json_schema\": {}, \"grammar\": \"root ::= \\\"a\\\"\"}",
                   400, "invalid_value", "grammar");
    client_refused(shared.server, PATH, "{\"prompt\": \"a\", \"n_predic\": 2}", 400,
                   "unknown_field", "n_predic");
    client_refused(shared.server, PATH, "{\"prompt\": \"a\", \"grammar\": \"root ::= x\"}", 400,
                   "invalid_value", "grammar");
    client_without_memory(shared.server, PATH, "{" CURL ", \"n_predict\": 1}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),   cmocka_unit_test(test_ends),
        cmocka_unit_test(test_editors), cmocka_unit_test(test_stream),
        cmocka_unit_test(test_server),  cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("serve/llama_server", tests, served_open_shared,
                                       served_close_shared);
}
