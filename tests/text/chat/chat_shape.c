/* Conversations in the shapes that templates take, and the variables that these have. */
#include "support/support.h"

#include "text/chat/chat_shape.h"
#include "text/chat/prompt.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char conversation[] =
    "[{\"role\":\"user\",\"content\":\"q\"},"
    "{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"hm\",\"tool_calls\":["
    "{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
    "{\"id\":\"abcdefgh9\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":{}}}]},"
    "{\"role\":\"tool\",\"content\":\"1\",\"tool_call_id\":\"call_1\"},"
    "{\"role\":\"tool\",\"content\":\"2\",\"tool_call_id\":\"abcdefgh9\"}]";

/* A conversation as a template with these words gets it. */
static char *shape_of(const char *messages, const char *source, const char *tools) {
    mc_chat_json c;
    assert_int_equal(
        mc_chat_json_read(messages, strlen(messages), MC_ARGUMENTS_OBJECT, false, false, &c),
        MICA_OK);
    assert_int_equal(mc_chat_shape_write(&c, mc_str_of(source), tools), MICA_OK);
    char *text = mc_buffer_take(&c.json);
    mc_chat_json_deinit(&c);
    return text;
}

static char *shaped(const char *source, const char *tools) {
    return shape_of(conversation, source, tools);
}

static void expect(const char *source, const char *word, bool there) {
    char *text = shaped(source, "[]");
    if (!strstr(text, word) == there) fail_msg("%s: \"%s\" in %s", source, word, text);
    free(text);
}

static size_t count(const char *text, const char *word) {
    size_t n = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        n++;
    return n;
}

static void test_shapes(void **state) {
    (void)state;
    expect("plain", "\"content\":\"\"", true);
    expect("plain", "\"name\":\"f\",\"content\"", false);
    expect("{% if message['content'] is none %}", "\"content\":null", true);
    expect("message.thinking", "\"thinking\":\"hm\"", true);
    expect("message.thinking reasoning_content", "\"thinking\"", false);
    expect("message['reasoning']", "\"reasoning\":\"hm\"", true);
    expect("message.name", "\"tool_call_id\":\"call_1\",\"name\":\"f\"", true);
    expect("message['tools']", "{\"role\":\"system\",\"content\":\"\",\"tools\":\"[]\"}", true);
    expect("<|tool_call_argument_begin|>", "\"id\":\"functions.f:0\"", true);
    expect("<|tool_call_argument_begin|>", "\"tool_call_id\":\"functions.g:1\"", true);
}

/* Answers number their calls anew, so that an id may be that of several: it is the last one's
 * before it. */
static void test_same_ids(void **state) {
    (void)state;
#define STEP(name)                                                                          \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call_0\",\"type\":" \
    "\"function\",\"function\":{\"name\":\"" name "\",\"arguments\":{}}}]},"                \
    "{\"role\":\"tool\",\"content\":\"1\",\"tool_call_id\":\"call_0\"}"
    const char *messages = "[{\"role\":\"user\",\"content\":\"q\"}," STEP("f") "," STEP("g") "]";
    static const char *const words[] = {
        "\"id\":\"functions.f:0\"", "\"tool_call_id\":\"functions.f:0\",\"name\":\"f\"",
        "\"id\":\"functions.g:1\"", "\"tool_call_id\":\"functions.g:1\",\"name\":\"g\""};
    char *text = shape_of(messages, "message.name <|tool_call_argument_begin|>", NULL);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (count(text, words[i]) != 1) fail_msg("\"%s\" in %s", words[i], text);
    free(text);
#undef STEP
}

/* Ids of nine characters stay, and others always become the same. */
static void test_short_ids(void **state) {
    (void)state;
    char *text = shaped("tool_call.id|length != 9", NULL);
    assert_int_equal(count(text, "abcdefgh9"), 2);
    assert_int_equal(count(text, "call_1\""), 0);
    const char *at = strstr(text, "\"id\":\"");
    assert_non_null(at);
    char *id = test_format("%.11s", at + 5);
    assert_true(id[0] == '"' && id[10] == '"');
    assert_int_equal(count(text, id), 2);
    free(id);
    free(text);
}

static void test_switches(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"{{ reasoning_effort }} enable_thinking", "reasoning_effort"},
        {"enable_thinking is defined", "enable_thinking"},
        {"{% if thinking is undefined %} thinking_effort", "thinking_effort"},
        {"reasoning_strength is defined", "reasoning_strength"},
        {"{% elif thinking %}", "thinking"},
        {"thinking_mode is defined", "thinking_mode"},
        {"{% if not thinking is defined %}", "thinking"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(mc_chat_shape_variable(mc_str_of(rows[i][0])), rows[i][1]);
    assert_null(mc_chat_shape_variable(MC_STR("message.thinking thinking_budget")));
}

/* A prompt of a template with variables. */
static char *rendered(const char *source, const char *variables) {
    char *dir = test_temp_dir(), *path = test_format("%s/chat_template.jinja", dir);
    mc_chat_template *t;
    mc_buffer out = {0};
    test_write_file(path, source, strlen(source));
    assert_int_equal(mc_chat_template_load(dir, NULL, &t), MICA_OK);
    const mc_chat_request q = {.messages = "[{\"role\":\"user\",\"content\":\"q\"}]",
                               .variables = variables};
    assert_int_equal(mc_chat_template_render(t, &q, &out), MICA_OK);
    mc_chat_template_close(&t);
    free(path);
    test_temp_dir_remove(dir);
    (void)mc_buffer_cstr(&out);
    return mc_buffer_take(&out);
}

static void test_variables(void **state) {
    (void)state;
#define HY "{% if reasoning_effort not in ['high', 'low', 'no_think'] %}{% endif %}"
    static const char *const rows[][3] = {
        {"{{ thinking is defined and not thinking }}", "{\"enable_thinking\": false}", "True"},
        {"{{ enable_thinking }}{{ thinking is defined }}", "{\"enable_thinking\": true}",
         "TrueFalse"},
        {"<|channel|>{{ reasoning_effort }}", "{\"reasoning_effort\": \"minimal\"}",
         "<|channel|>low"},
        {"<|channel|>{{ reasoning_effort }}", "{\"reasoning_effort\": \"max\"}", "<|channel|>high"},
        {"<|channel|>{{ reasoning_effort }}", "{\"reasoning_effort\": \"medium\"}",
         "<|channel|>medium"},
        {"{{ reasoning_effort }}", "{\"reasoning_effort\": \"max\"}", "max"},
        /* Words of a template's own, and names. */
        {HY "{{ reasoning_effort }}", "{\"reasoning_effort\": \"none\"}", "no_think"},
        {HY "{{ reasoning_effort }}", "{\"reasoning_effort\": \"minimal\"}", "no_think"},
        {HY "{{ reasoning_effort }}", "{\"reasoning_effort\": \"medium\"}", "low"},
        {HY "{{ reasoning_effort }}", "{\"reasoning_effort\": \"max\"}", "high"},
        {HY "{{ reasoning_effort }}", "{\"reasoning_effort\": \"odd\"}", "odd"},
        {"{% if thinking_effort not in [\"low\", \"high\", \"max\"] %}no{% endif %}"
         "{{ thinking_effort }}",
         "{\"reasoning_effort\": \"xhigh\"}", "high"},
        {"{% if thinking is undefined %}no{% endif %}{{ thinking }}",
         "{\"enable_thinking\": false}", "False"},
        {"{{ thinking_mode is defined }}{{ thinking_mode }}", "{\"enable_thinking\": false}",
         "Truedisabled"},
        {"{{ thinking_mode is defined }}{{ thinking_mode }}", "{\"enable_thinking\": true}",
         "Trueenabled"}};
#undef HY
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = rendered(rows[i][0], rows[i][1]);
        assert_string_equal(text, rows[i][2]);
        free(text);
    }
}

static bool shape_once(void *context) {
    mc_chat_json c;
    bool done = mc_chat_json_read(conversation, strlen(conversation), MC_ARGUMENTS_OBJECT, false,
                                  false, &c) == MICA_OK &&
                mc_chat_shape_write(&c, mc_str_of(context), "[]") == MICA_OK;
    mc_chat_json_deinit(&c);
    return done;
}

static void test_errors(void **state) {
    (void)state;
    test_fail_each_allocation(shape_once, "message['tools'] message.name message.thinking");
    test_fail_each_allocation(shape_once, "<|tool_call_argument_begin|>");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),    cmocka_unit_test(test_same_ids),
        cmocka_unit_test(test_short_ids), cmocka_unit_test(test_switches),
        cmocka_unit_test(test_variables), cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests_name("text/chat_shape", tests, NULL, NULL);
}
