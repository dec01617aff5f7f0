/* Chats whose answers have a form: calls of tools, documents of a schema, thoughts apart. The model
 * knows nothing of these, so what keeps to them does so because it is made to. */
#include "reading.h"

#include <stdlib.h>
#include <string.h>

#define CHAT "/v1/chat/completions"
#define HELLO "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"
#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": "  \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 6}, " \
    "\"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 9}}, \"required\": "           \
    "[\"city\", \"days\"], \"additionalProperties\": false}}}, {\"type\": \"function\", "          \
    "\"function\": {\"name\": \"stop\", \"parameters\": {\"type\": \"object\", \"properties\": "   \
    "{}}}}]"
#define NAMED "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"weather\"}}"
#define SCHEMA                                                                                    \
    "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", "        \
    "\"schema\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\", "         \
    "\"minimum\": 3, \"maximum\": 5}, \"b\": {\"enum\": [\"x\", \"y\"]}}, \"required\": [\"a\", " \
    "\"b\"], \"additionalProperties\": false}}}"

/* A server whose chat template is this one; NULL: the model's own. */
static served open_with(const char *chat_template) {
    served s = {0};
    char *path = test_format("%s/default", test_models_dir());
    mica_model_options options = {.threads = 2, .chat_template = chat_template};
    assert_int_equal(mica_model_open(path, &options, &s.model), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &s.server), MICA_OK);
    assert_int_equal(mica_server_add(s.server, "default", s.model, NULL), MICA_OK);
    free(path);
    return s;
}

static mc_str text_of(mc_json value) {
    mc_str text = MC_STR("");
    mc_json_get_str(value, &text);
    return text;
}

/* The arguments of a call of `weather` keep to its schema. */
static void check_call(mc_json call) {
    mc_json function = mc_json_find(call, "function");
    mc_str arguments = text_of(mc_json_find(function, "arguments"));
    assert_true(mc_str_is(text_of(mc_json_find(call, "type")), "function"));
    assert_true(mc_str_starts(text_of(mc_json_find(call, "id")), MC_STR("call-")));
    assert_true(mc_str_is(text_of(mc_json_find(function, "name")), "weather"));
    mc_json_doc *doc;
    int64_t days;
    mc_str city;
    assert_int_equal(mc_json_parse(arguments.ptr, arguments.len, "arguments", &doc), MICA_OK);
    mc_json root = mc_json_root(doc);
    assert_int_equal(mc_json_count(root), 2);
    assert_true(mc_json_get_int(mc_json_find(root, "days"), &days) && days >= 1 && days <= 9);
    assert_true(mc_json_get_str(mc_json_find(root, "city"), &city));
    mc_json_close(&doc);
}

static void test_calls(void **state) {
    (void)state;
    served s = open_with(NULL);
    for (int seed = 0; seed < 6; seed++) {
        char *body = test_format("{" HELLO ", " TOOLS ", " NAMED ", \"seed\": %d, \"temperature\": "
                                 "2, \"max_tokens\": 300}",
                                 seed);
        mc_json_doc *doc = client_json(s.server, "POST", CHAT, body, 200);
        mc_json choice = element(mc_json_find(mc_json_root(doc), "choices"), 0);
        mc_json message = mc_json_find(choice, "message");
        mc_json calls = mc_json_find(message, "tool_calls");
        assert_true(mc_str_is(text_of(mc_json_find(choice, "finish_reason")), "tool_calls"));
        assert_int_equal(mc_json_get_type(mc_json_find(message, "content")), MC_JSON_NULL);
        assert_int_equal(mc_json_count(calls), 1);
        check_call(element(calls, 0));
        mc_json_close(&doc);
        free(body);
    }
    served_close(&s);
}

/* Streamed, the call comes as a delta, and the end says why. */
static void test_streamed_call(void **state) {
    (void)state;
    served s = open_with(NULL);
    answer a = client_ask(s.server, "POST", CHAT,
                          "{" HELLO ", " TOOLS ", " NAMED ", \"stream\": true, \"seed\": 1}");
    assert_int_equal(a.status, 200);
    size_t calls = 0;
    bool ended = false;
    for (char *at = strstr(a.body, "data: {"); at; at = strstr(at + 1, "data: {")) {
        mc_json_doc *doc;
        size_t len = strcspn(at + 6, "\n");
        assert_int_equal(mc_json_parse(at + 6, len, "event", &doc), MICA_OK);
        mc_json choice = element(mc_json_find(mc_json_root(doc), "choices"), 0);
        mc_json list = mc_json_find(mc_json_find(choice, "delta"), "tool_calls");
        if (mc_json_count(list) > 0) check_call(element(list, 0));
        calls += mc_json_count(list);
        if (mc_str_is(text_of(mc_json_find(choice, "finish_reason")), "tool_calls")) ended = true;
        mc_json_close(&doc);
    }
    assert_int_equal(calls, 1);
    assert_true(ended);
    answer_free(&a);
    served_close(&s);
}

static void test_documents(void **state) {
    (void)state;
    served s = open_with(NULL);
    mc_json_doc *doc = client_json(s.server, "POST", CHAT,
                                   "{" HELLO ", " SCHEMA ", \"n\": 8, \"temperature\": 3}", 200);
    mc_json choices = mc_json_find(mc_json_root(doc), "choices");
    for (size_t i = 0; i < 8; i++) {
        mc_json message = mc_json_find(element(choices, i), "message");
        mc_str text = text_of(mc_json_find(message, "content")), b;
        mc_json_doc *said;
        int64_t a;
        if (mc_json_parse(text.ptr, text.len, "answer", &said) != MICA_OK)
            fail_msg("%.*s", MC_STR_ARG(text));
        mc_json root = mc_json_root(said);
        assert_true(mc_json_get_int(mc_json_find(root, "a"), &a) && a >= 3 && a <= 5);
        assert_true(mc_json_get_str(mc_json_find(root, "b"), &b));
        assert_true(mc_str_is(b, "x") || mc_str_is(b, "y"));
        mc_json_close(&said);
    }
    mc_json_close(&doc);
    served_close(&s);
}

/* A prompt that ends within a thought: what comes is thought, for the model never ends it. */
static void test_thoughts(void **state) {
    (void)state;
    static const char template[] =
        "{% for m in messages %}{{ m.content }}{% if '</think>' in m.content %}!{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}";
    served s = open_with(template);
    for (int stream = 0; stream < 2; stream++) {
        char *body = test_format("{" HELLO ", \"temperature\": 0, \"max_tokens\": 6, "
                                 "\"stream\": %s}",
                                 stream ? "true" : "false");
        answer a = client_ask(s.server, "POST", CHAT, body);
        assert_int_equal(a.status, 200);
        assert_non_null(strstr(a.body, "\"reasoning_content\":\""));
        if (!stream) assert_non_null(strstr(a.body, "\"content\":\"\""));
        answer_free(&a);
        free(body);
    }
    served_close(&s);
}

static void test_refused(void **state) {
    (void)state;
    served s = open_with(NULL);
    static const struct {
        const char *fields, *code, *param;
    } cases[] = {
        {"\"tools\": [{\"type\": \"search\"}], \"tool_choice\": \"required\"", "", "tools"},
        {"\"tool_choice\": \"required\"", "invalid_value", "tools"},
        {TOOLS ", \"tool_choice\": \"any\"", "invalid_value", "tool_choice"},
        {TOOLS ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"x\"}}", "",
         "tools"},
        {TOOLS ", " NAMED ", " SCHEMA, "unsupported_field", "tools"},
        {"\"response_format\": {\"type\": \"xml\"}", "unsupported_value", "response_format.type"},
        {"\"response_format\": {\"type\": \"json_object\", \"schema\": {}}", "unknown_field",
         "response_format.schema"},
        {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\"}}",
         "missing_field", "response_format.json_schema.schema"},
        {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", "
         "\"schema\": {\"not\": {}}}}",
         "", "response_format.json_schema.schema"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = test_format("{" HELLO ", %s}", cases[i].fields);
        client_refused(s.server, CHAT, body, 400, cases[i].code, cases[i].param);
        free(body);
    }
    mc_json_doc *doc = client_json(s.server, "POST", CHAT,
                                   "{" HELLO ", " TOOLS ", \"tool_choice\": \"none\", "
                                   "\"response_format\": {\"type\": \"text\"}, \"max_tokens\": 2}",
                                   200);
    mc_json_close(&doc);
    served_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),     cmocka_unit_test(test_streamed_call),
        cmocka_unit_test(test_documents), cmocka_unit_test(test_thoughts),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
