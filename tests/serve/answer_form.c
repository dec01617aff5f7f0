/* Tools and thoughts, by Anthropic's and ollama's APIs: a model whose chat template says that it
 * knows both. Its answers are random in that, but forced calls keep to their schemas. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"

#include "base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static served plain;   /* thinks if it likes */
static served thinker; /* its prompts begin a thought */

/* The default model with something behind its chat template. */
static served open_with(const char *behind) {
    served s = {0};
    char *path = test_format("%s/default", test_models_dir());
    char *file = test_format("%s/chat_template.jinja", path);
    char *usual = test_read_file(file, NULL), *text = test_format("%s%s", usual, behind);
    const mica_model_options options = {
        .threads = 2, .arithmetic = MICA_ARITHMETIC_EXACT, .chat_template = text};
    if (mica_model_open(path, &options, &s.model) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, "default", s.model, NULL), MICA_OK);
    free(path);
    free(file);
    free(usual);
    free(text);
    return s;
}

static int open_shared(void **state) {
    (void)state;
    plain = open_with("{# tools <tool_call> <think> </think> #}");
    thinker = open_with("{# tools <tool_call> </think> #}{{ '<think>\n' }}");
    return 0;
}

static int close_shared(void **state) {
    (void)state;
    served_close(&plain);
    served_close(&thinker);
    goldens_close();
    return 0;
}

#define ASK "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"
#define SCHEMA                                                                                \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"enum\": [\"Oslo\", \"Bergen\"]}}, " \
    "\"required\": [\"city\"]}"

static bool is_city(mc_json input) {
    mc_str city = text_at(input, "city");
    return mc_json_count(input) == 1 && (mc_str_is(city, "Oslo") || mc_str_is(city, "Bergen"));
}

/* ---- Anthropic ---- */

#define MESSAGES "/v1/messages"
#define TOOLS                                                              \
    "\"tools\": [{\"name\": \"weather\", \"description\": \"of a city\", " \
    "\"input_schema\": " SCHEMA                                            \
    "}, {\"name\": \"time\", \"input_schema\": {\"type\": \"object\"}}]"

static mc_json_doc *ask(const served *s, const char *fields) {
    char *body = test_format("{\"model\": \"default\", \"max_tokens\": 1500, " ASK ", %s}", fields);
    mc_json_doc *doc = client_json(s->server, "POST", MESSAGES, body, 200);
    free(body);
    return doc;
}

/* What a call is forced to be, it is. */
static void test_forced(void **state) {
    (void)state;
    mc_json_doc *doc =
        ask(&plain, TOOLS ", \"thinking\": {\"type\": \"disabled\"}, \"tool_choice\": "
                          "{\"type\": \"tool\", \"name\": \"weather\"}");
    mc_json root = mc_json_root(doc);
    assert_int_equal(mc_json_count(at(root, "content")), 1);
    check_text(root, "content.0.type", MC_STR("tool_use"));
    check_text(root, "content.0.name", MC_STR("weather"));
    assert_true(mc_str_starts(text_at(root, "content.0.id"), MC_STR("toolu-")));
    assert_true(is_city(at(root, "content.0.input")));
    check_text(root, "stop_reason", MC_STR("tool_use"));
    mc_json_close(&doc);
}

/* A streamed call: its block begins with an empty input, which comes as pieces of
 * text. */
static void test_streamed(void **state) {
    (void)state;
    static const char body[] =
        "{\"model\": \"default\", \"max_tokens\": 500, " ASK ", " TOOLS ", \"stream\": true, "
        "\"thinking\": {\"type\": \"disabled\"}, \"tool_choice\": {\"type\": \"tool\", \"name\": "
        "\"weather\"}}";
    answer a = client_ask(plain.server, "POST", MESSAGES, body);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "\"type\":\"tool_use\",\"id\":\"toolu-"));
    assert_non_null(
        strstr(a.body, "\"name\":\"weather\",\"caller\":{\"type\":\"direct\"},\"input\":{}}"));
    const char *next = a.body;
    mc_buffer input = {0};
    mc_json_doc *doc;
    mc_str more;
    size_t count = 0;
    while ((doc = read_event(&next))) {
        if (mc_json_get_str(at(mc_json_root(doc), "delta.partial_json"), &more)) {
            assert_true(more.len > 0 && mc_buffer_add(&input, more.ptr, more.len));
            count++;
        }
        mc_json_close(&doc);
    }
    assert_true(count > 3);
    assert_int_equal(mc_json_parse(input.data, input.len, "input", &doc), MICA_OK);
    assert_true(is_city(mc_json_root(doc)));
    assert_non_null(strstr(a.body, "\"stop_reason\":\"tool_use\""));
    mc_json_close(&doc);
    mc_buffer_deinit(&input);
    answer_free(&a);
}

/* Answers that call nothing are what they are without tools. */
static void test_not_called(void **state) {
    (void)state;
    static const char *const fields[] = {TOOLS ", \"temperature\": 0",
                                         TOOLS ", \"temperature\": 0, \"tool_choice\": {\"type\": "
                                               "\"none\"}"};
    for (int i = 0; i < 2; i++) {
        mc_json_doc *doc = ask(&plain, fields[i]);
        check_text(mc_json_root(doc), "content.0.text", text_at(golden(0), "text"));
        check_text(mc_json_root(doc), "stop_reason", MC_STR("end_turn"));
        mc_json_close(&doc);
    }
}

/* Thoughts have a block of their own, and end with their budget: here a schema lets them end
 * only so. */
static void test_thoughts(void **state) {
    (void)state;
    mc_json_doc *doc = ask(&thinker, "\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": "
                                     "1024}, \"output_config\": {\"format\": {\"type\": "
                                     "\"json_schema\", \"schema\": " SCHEMA "}}");
    mc_json root = mc_json_root(doc);
    mc_json_doc *inner = NULL;
    assert_int_equal(mc_json_count(at(root, "content")), 2);
    check_text(root, "content.0.type", MC_STR("thinking"));
    assert_true(text_at(root, "content.0.thinking").len > 0);
    check_text(root, "content.0.signature", MC_STR(""));
    mc_str text = text_at(root, "content.1.text");
    assert_int_equal(mc_json_parse(text.ptr, text.len, "answer", &inner), MICA_OK);
    assert_true(is_city(mc_json_root(inner)));
    assert_true(int_at(root, "usage.output_tokens") < 1200);
    mc_json_close(&inner);
    mc_json_close(&doc);
}

/* ---- ollama ---- */

#define CHAT "/api/chat"
#define FUNCTIONS                                                                 \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", " \
    "\"parameters\": " SCHEMA "}}]"
#define GREEDY "\"stream\": false, \"options\": {\"temperature\": 0, \"repeat_penalty\": 1}"

static mc_json_doc *chat(const served *s, const char *fields) {
    char *body = test_format("{\"model\": \"default\", " ASK ", " GREEDY ", %s}", fields);
    mc_json_doc *doc = client_json(s->server, "POST", CHAT, body, 200);
    free(body);
    return doc;
}

static void test_ollama(void **state) {
    (void)state;
    mc_json_doc *doc = chat(&plain, FUNCTIONS);
    check_text(mc_json_root(doc), "message.content", text_at(golden(0), "text"));
    assert_false(mc_json_exists(at(mc_json_root(doc), "message.tool_calls")));
    mc_json_close(&doc);
    doc = chat(&thinker, "\"think\": true"); /* which it does not end */
    check_text(mc_json_root(doc), "message.content", MC_STR(""));
    assert_true(text_at(mc_json_root(doc), "message.thinking").len > 0);
    mc_json_close(&doc);
}

/* ---- what is refused ---- */

static void refused(const served *s, const char *path, const char *fields, const char *name) {
    char *body = test_format("{\"model\": \"default\", %s" ASK "%s}",
                             strcmp(path, CHAT) ? "\"max_tokens\": 1500, " : "", fields);
    answer a = client_ask(s->server, "POST", path, body);
    if (a.status != 400 || !strstr(a.body, name)) fail_msg("%s: %d %s", body, a.status, a.body);
    answer_free(&a);
    free(body);
}

static void test_refused(void **state) {
    (void)state;
    refused(&plain, MESSAGES, ", " TOOLS ", \"tool_choice\": {\"type\": \"tool\", \"name\": \"a\"}",
            "a");
    refused(&plain, MESSAGES, ", \"tools\": [{\"name\": \"a b\", \"input_schema\": {}}]",
            "tools[0]");
    refused(&plain, MESSAGES, ", \"tools\": [{\"name\": \"a\"}]", "tools[0].input_schema");
    refused(&plain, MESSAGES,
            ", " TOOLS ", \"output_config\": {\"format\": {\"type\": "
            "\"json_schema\", \"schema\": {}}}",
            "output_config.format");
    refused(&plain, MESSAGES, ", \"thinking\": {\"type\": \"enabled\"}", "thinking.budget_tokens");
    refused(&plain, MESSAGES, ", \"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 1500}",
            "thinking.budget_tokens");
    refused(&plain, MESSAGES, ", \"thinking\": {\"type\": \"between_tools\"}", "thinking.type");
    refused(&plain, CHAT, ", \"think\": \"deep\"", "think");
    refused(&plain, CHAT, ", \"tools\": [{\"function\": {}}]", "tools[0]");
    served usual = served_open(NULL); /* whose template marks no thoughts */
    refused(&usual, CHAT, ", \"think\": true", "think");
    served_close(&usual);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forced),     cmocka_unit_test(test_streamed),
        cmocka_unit_test(test_not_called), cmocka_unit_test(test_thoughts),
        cmocka_unit_test(test_ollama),     cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, open_shared, close_shared);
}
