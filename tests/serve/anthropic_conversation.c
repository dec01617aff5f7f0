/* Anthropic's conversations, and what they are for chat templates. */
#include "serve/anthropic/conversation.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

/* system NULL: none. want NULL: refused, with a failure at `place`. */
static void check(const char *system, const char *messages, const char *want, const char *place) {
    mc_json_doc *first = NULL, *second = NULL;
    mc_buffer out = {0};
    mc_failure failure = {0};
    bool continues;
    if (system) assert_int_equal(mc_json_parse(system, strlen(system), "a", &first), MICA_OK);
    assert_int_equal(mc_json_parse(messages, strlen(messages), "b", &second), MICA_OK);
    bool done = mc_anthropic_conversation(system ? mc_json_root(first) : (mc_json){0},
                                          mc_json_root(second), &out, &continues, &failure);
    if (want) {
        if (!done) fail_msg("%s: %s", messages, failure.message);
        assert_string_equal(mc_buffer_cstr(&out), want);
        assert_int_equal(continues, place != NULL);
    } else {
        if (done) fail_msg("%s: taken", messages);
        assert_int_equal(failure.status, 400);
        assert_string_equal(failure.param, place);
    }
    mc_buffer_deinit(&out);
    if (first) mc_json_close(&first);
    mc_json_close(&second);
}

#define PART(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define MESSAGE(role, content) "{\"role\":\"" role "\",\"content\":[" content "]}"
static const char continues[] = "the assistant's";

static void test_texts(void **state) {
    (void)state;
    check(NULL, "[{\"role\":\"user\",\"content\":\"a\"}]", "[" MESSAGE("user", PART("a")) "]",
          NULL);
    check("\"s\"", "[{\"role\":\"user\",\"content\":[" PART("a") "," PART("b") "]}]",
          "[" MESSAGE("system", PART("s")) "," MESSAGE("user", PART("a") "," PART("b")) "]", NULL);
    check("[]",
          "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"},"
          "{\"role\":\"assistant\",\"content\":\"c\"}]",
          "[" MESSAGE("user", PART("a") "," PART("b")) "," MESSAGE("assistant", PART("c")) "]",
          continues);
}

/* A call of a tool, its result, and what is said behind that. */
static void test_tools(void **state) {
    (void)state;
    check(
        NULL,
        "[{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\","
        "\"signature\":\"\"}," PART(
            "t") ",{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\","
                 "\"input\":{\"x\":[1]},\"caller\":{\"type\":\"direct\"},\"cache_control\":{"
                 "\"type\":\"ephemeral\",\"ttl\":\"1h\"}}]"
                 "},"
                 "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"i\","
                 "\"content\":\"r\"},{\"type\":\"tool_result\",\"tool_use_id\":\"j\",\"is_error\":"
                 "true,"
                 "\"content\":[" PART(
                     "e") "]},{\"type\":\"tool_result\",\"tool_use_id\":\"k\"}," PART("u") "]}]",
        "[" MESSAGE("user", PART("q")) ",{\"role\":\"assistant\",\"content\":[" PART(
            "t") "],"
                 "\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"i\",\"type\":\"function\","
                 "\"function\":{\"name\":\"f\",\"arguments\":{\"x\":[1]}}}]},"
                 "{\"role\":\"tool\",\"content\":[" PART(
                     "r") "],\"tool_call_id\":\"i\"},"
                          "{\"role\":\"tool\",\"content\":[" PART("Error:") "," PART(
                              "e") "],"
                                   "\"tool_call_id\":\"j\"},{\"role\":\"tool\",\"content\":[],"
                                   "\"tool_call_id\":\"k\"}," MESSAGE("user", PART("u")) "]",
        NULL);
}

#define USER(block) "[{\"role\":\"user\",\"content\":[" block "]}]"
#define ASSISTANT(block) "[{\"role\":\"assistant\",\"content\":[" block "]}]"

static void test_refused(void **state) {
    (void)state;
    static const char place[] = "messages[0].content[0]";
    check(NULL, USER("{\"type\":\"thinking\",\"thinking\":\"a\"}"), NULL, place);
    check(NULL, USER("{\"type\":\"tool_use\",\"id\":\"a\"}"), NULL, place);
    check(NULL, USER("1"), NULL, place);
    check(NULL, ASSISTANT("{\"type\":\"tool_result\",\"tool_use_id\":\"a\"}"), NULL, place);
    check(NULL, ASSISTANT("{\"type\":\"redacted_thinking\",\"data\":\"a\"}"), NULL, place);
    check(NULL, ASSISTANT("{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":1}"), NULL,
          "messages[0].content[0].input");
    check(NULL, ASSISTANT("{\"type\":\"thinking\",\"thinking\":\"a\"}"), NULL,
          "messages[0].content[0].signature");
    check(NULL,
          ASSISTANT("{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":{},\"caller\":"
                    "{\"type\":\"code_execution_20250825\",\"tool_id\":\"t\"}}"),
          NULL, "messages[0].content[0].caller");
    check(NULL, USER("{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"is_error\":1}"), NULL,
          "messages[0].content[0].is_error");
    check(
        NULL,
        USER("{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":[{\"type\":\"image\"}]}"),
        NULL, "messages[0].content[0].content[0]");
    check("3", "[]", NULL, "system");
    check(NULL, "[{\"role\":\"user\",\"content\":3}]", NULL, "messages[0].content");
}

/* The n-th allocation fails: no memory is an error like others. */
static bool convert(void *arg) {
    mc_buffer out = {0};
    mc_failure failure = {0};
    bool last, done = mc_anthropic_conversation((mc_json){0}, *(const mc_json *)arg, &out, &last,
                                                &failure);
    assert_int_equal(failure.status, done ? 0 : 503);
    mc_buffer_deinit(&out);
    return done;
}

static void test_memory(void **state) {
    (void)state;
    static const char text[] = "[{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
                               "\"thinking\":\"hm\",\"signature\":\"\"},{\"type\":\"tool_use\","
                               "\"id\":\"i\",\"name\":\"f\",\"input\":{}},"
                               "{\"type\":\"text\",\"text\":\"t\"}]}]";
    mc_json_doc *doc = NULL;
    assert_int_equal(mc_json_parse(text, strlen(text), "a", &doc), MICA_OK);
    mc_json root = mc_json_root(doc);
    test_fail_each_allocation(convert, &root);
    mc_json_close(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_tools),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
