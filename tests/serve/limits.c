/* What an operator allows of each request: tokens of an answer, and a priority. */
#include "reading.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 6 };

static mica_server *server;

static int open_limited(void **state) {
    const mica_serving_options options = {.max_tokens = TOKENS, .max_priority = 5};
    served_open_shared(state);
    assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
    assert_int_equal(mica_server_add(server, "default", shared.model, &options), MICA_OK);
    return 0;
}

static int close_limited(void **state) {
    mica_server_close(&server);
    return served_close_shared(state);
}

#define ASKED "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"

/* How each API asks for tokens; where its answer has their number, and the error its text. */
static const struct {
    const char *path, *body, *field, *count, *error;
} apis[] = {
    {"/v1/chat/completions", ASKED ", \"ignore_eos\": true", "max_tokens",
     "usage.completion_tokens", "error.message"},
    {"/v1/chat/completions", ASKED ", \"ignore_eos\": true", "max_completion_tokens",
     "usage.completion_tokens", "error.message"},
    {"/v1/completions", "\"prompt\": \"a\", \"ignore_eos\": true", "max_tokens",
     "usage.completion_tokens", "error.message"},
    {"/v1/completions", "\"prompt\": \"a\", \"ignore_eos\": true, \"echo\": true, \"logprobs\": 1",
     "max_tokens", "usage.completion_tokens", "error.message"},
    {"/v1/responses", "\"input\": \"What is curl?\"", "max_output_tokens", "usage.output_tokens",
     "error.message"},
    {"/v1/messages", ASKED, "max_tokens", "usage.output_tokens", "error.message"},
    {"/api/chat", ASKED ", \"stream\": false", "num_predict", "eval_count", "error"},
    {"/api/generate", "\"prompt\": \"a\", \"stream\": false", "num_predict", "eval_count", "error"},
};

/* A body that asks for so many tokens; 0: for none by name. Freed with free. */
static char *body_of(size_t api, int tokens) {
    bool option = strcmp(apis[api].field, "num_predict") == 0;
    if (!tokens && option)
        return test_format("{\"model\": \"default\", \"options\": {\"num_ctx\": 512}, %s}",
                           apis[api].body);
    if (!tokens) return test_format("{\"model\": \"default\", %s}", apis[api].body);
    return test_format(option ? "{\"model\": \"default\", \"options\": {\"%s\": %d}, %s}"
                              : "{\"model\": \"default\", \"%s\": %d, %s}",
                       apis[api].field, tokens, apis[api].body);
}

/* A request for more is refused with the numbers; one for as much, or for nothing, is not, and its
 * answer is no longer. */
static void test_tokens(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        for (int tokens = 0; tokens <= TOKENS + 1; tokens += tokens ? 1 : TOKENS) {
            if (!tokens && strcmp(apis[i].path, "/v1/messages") == 0) continue; /* it must ask */
            char *body = body_of(i, tokens);
            int status = tokens > TOKENS ? 400 : 200;
            mc_json_doc *doc = client_json(server, "POST", apis[i].path, body, status);
            mc_json root = mc_json_root(doc);
            if (status == 200) {
                int64_t said = int_at(root, apis[i].count);
                if (said < 1 || said > TOKENS) fail_msg("%s: %d tokens", body, (int)said);
            } else {
                char *want = test_format("%s: 7 tokens are asked for; the limit of an answer here "
                                         "is 6",
                                         apis[i].field);
                mc_str text = text_at(root, apis[i].error);
                char *got = test_format("%.*s", MC_STR_ARG(text));
                if (!strstr(got, want)) fail_msg("%s: %s", body, got);
                free(want);
                free(got);
            }
            mc_json_close(&doc);
            free(body);
        }
    }
}

/* A low limit is also that of what a text gets by itself; prompts alone are no answer. */
static void test_texts(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(
        server, "POST", "/v1/completions",
        "{\"prompt\": \"a b c d e f g h\", \"echo\": true, \"max_tokens\": 0, \"logprobs\": 0}",
        200);
    assert_int_equal(int_at(mc_json_root(doc), "usage.completion_tokens"), 0);
    mc_json_close(&doc);
    doc = client_json(shared.server, "POST", "/v1/completions",
                      "{\"prompt\": \"a\", \"ignore_eos\": true}", 200);
    assert_int_equal(int_at(mc_json_root(doc), "usage.completion_tokens"), 16);
    mc_json_close(&doc);
}

/* Requests may give way to others, and come before them only as far as is allowed. */
static void test_priority(void **state) {
    (void)state;
    static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses"};
    static const char *const bodies[] = {ASKED, "\"prompt\": \"a\"", "\"input\": \"a\""};
    for (size_t i = 0; i < 3; i++) {
        const struct {
            const mica_server *server;
            int priority, status;
        } rows[] = {{server, 5, 200},
                    {server, 6, 400},
                    {server, -9, 200},
                    {server, 0, 200},
                    {shared.server, 1, 400},
                    {shared.server, -100000, 200},
                    {shared.server, -100001, 400}};
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            char *body = test_format("{%s, \"priority\": %d, \"%s\": 2}", bodies[i],
                                     rows[k].priority, i == 2 ? "max_output_tokens" : "max_tokens");
            if (rows[k].status == 400)
                client_refused(rows[k].server, paths[i], body, 400, "invalid_value", "priority");
            mc_json_doc *doc = client_json(rows[k].server, "POST", paths[i], body, rows[k].status);
            mc_json_close(&doc);
            free(body);
        }
    }
}

/* Who lists the models learns how long answers may be. */
static void test_listed(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(server, "GET", "/v1/models/default", NULL, 200);
    assert_int_equal(int_at(mc_json_root(doc), "max_tokens"), TOKENS);
    mc_json_close(&doc);
    doc = client_json(shared.server, "GET", "/v1/models/default", NULL, 200);
    assert_int_equal(int_at(mc_json_root(doc), "max_tokens"),
                     int_at(mc_json_root(doc), "max_input_tokens"));
    mc_json_close(&doc);
}

/* A context that slides limits no answer. */
static void test_listed_sliding(void **state) {
    (void)state;
    mica_model *model;
    mc_json_doc *doc;
    const mica_serving_options options = {.max_tokens = 100000};
    char *path = test_format("%s/default", test_models_dir());
    assert_int_equal(mica_model_open(path, &(mica_model_options){.context_length = 64}, &model),
                     MICA_OK);
    free(path);
    assert_int_equal(mica_server_add(server, "slides", model, NULL), MICA_OK);
    assert_int_equal(mica_server_add(server, "limited", model, &options), MICA_OK);
    mica_model_close(&model);
    doc = client_json(server, "GET", "/v1/models/slides", NULL, 200);
    assert_int_equal(int_at(mc_json_root(doc), "max_input_tokens"), 64);
    check_null(mc_json_root(doc), "max_tokens");
    mc_json_close(&doc);
    doc = client_json(server, "GET", "/v1/models/limited", NULL, 200);
    assert_int_equal(int_at(mc_json_root(doc), "max_tokens"), 100000);
    mc_json_close(&doc);
}

static void test_options(void **state) {
    (void)state;
    const mica_serving_options wrong[] = {
        {.max_tokens = -1}, {.max_priority = -1}, {.max_priority = 100001}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(mica_server_add(server, "other", shared.model, &wrong[i]), MICA_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),         cmocka_unit_test(test_texts),
        cmocka_unit_test(test_priority),       cmocka_unit_test(test_listed),
        cmocka_unit_test(test_listed_sliding), cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, open_limited, close_limited);
}
