/* mica/answer.h, and the messages that calls of tools are in. */
#include "engine/default_model.h"

#include <mica/mica.h>

#include <string.h>

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {}}}]";
#define CALL(city)                                                                    \
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"" city "\"}}\n" \
    "</tool_call>"
/* A template that shows how calls and thoughts are written, and all that a message has. */
#define SHOWS                                                                            \
    "{# tools <tool_call> tool_calls <think> </think> #}"                                \
    "{% for m in messages %}({{ m.role }}:{{ m.content }}"                               \
    "{% if m.name is defined %}/{{ m.name }}{% endif %}"                                 \
    "{% if m.reasoning_content is defined %}~{{ m.reasoning_content }}{% endif %}"       \
    "{% if m.tool_calls is defined %}{% for c in m.tool_calls %}!{{ c.function.name }}=" \
    "{{ c.function.arguments.city }}@{{ c.id }}{% endfor %}{% endif %}"                  \
    "{% if m.tool_call_id is defined %}@{{ m.tool_call_id }}{% endif %}){% endfor %}"

static mica_model *open_with(const char *chat_template) {
    mica_model *model = NULL;
    mica_model_options options = {.chat_template = chat_template, .threads = 1};
    if (mica_model_open(default_path, &options, &model) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return model;
}

/* Pushes a text in pieces of a few bytes, and ends it. */
static mica_answer *read_text(const mica_model *model, const mica_answer_options *options,
                              const char *text, size_t piece) {
    mica_answer *answer;
    size_t len = strlen(text);
    assert_int_equal(mica_answer_open(model, options, &answer), MICA_OK);
    for (size_t at = 0; at < len; at += piece)
        assert_int_equal(mica_answer_push(answer, text + at, len - at < piece ? len - at : piece),
                         MICA_OK);
    assert_int_equal(mica_answer_end(answer), MICA_OK);
    return answer;
}

static void expect_call(const mica_answer *answer, size_t i, const char *arguments,
                        const char *id) {
    mica_tool_call call;
    assert_int_equal(mica_answer_get_call(answer, i, &call), MICA_OK);
    assert_string_equal(call.name, "weather");
    assert_string_equal(call.arguments, arguments);
    assert_string_equal(call.id, id);
}

/* Tokens of a vocabulary without marks, whose marks are texts; special tokens have no text. */
static void test_tokens(void **state) {
    (void)state;
    static const char *const said[] = {"<think>", "a</th", "ink>", "", CALL("Oslo")};
    mica_model *model = open_with(SHOWS);
    mica_answer *answer;
    mica_model_info info = {0};
    assert_int_equal(mica_answer_open(model, &(mica_answer_options){.tools = tools}, &answer),
                     MICA_OK);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        const mica_token token = {.id = (int32_t)i, .text = said[i], .len = strlen(said[i])};
        assert_int_equal(mica_answer_push_token(answer, &token), MICA_OK);
    }
    assert_int_equal(mica_answer_push_token(answer, NULL), MICA_EINVAL);
    assert_int_equal(mica_answer_end(answer), MICA_OK);
    assert_string_equal(mica_answer_thoughts(answer, NULL), "a");
    assert_int_equal(mica_answer_call_count(answer), 1);
    mica_answer_close(&answer);
    mica_model_get_info(model, &info);
    assert_string_equal(info.call_format, "hermes");
    assert_string_equal(info.thought_mark, "<think>");
    mica_model_close(&model);
}

static void test_parts(void **state) {
    (void)state;
    static const char said[] =
        "<think>\nIs it cold?\n</think>\n\nLet me see.\n" CALL("Oslo") "\n" CALL("Rome") "Done.";
    mica_model *model = open_with(SHOWS);
    for (size_t piece = 1; piece < 100; piece = piece * 3 + 1) {
        mica_answer *answer = read_text(model, &(mica_answer_options){.tools = tools}, said, piece);
        size_t len;
        assert_string_equal(mica_answer_thoughts(answer, &len), "Is it cold?");
        assert_int_equal(len, 11);
        assert_non_null(strstr(mica_answer_text(answer, NULL), "Let me see."));
        assert_null(strstr(mica_answer_text(answer, NULL), "tool_call"));
        assert_int_equal(mica_answer_call_count(answer), 2);
        expect_call(answer, 0, "{\"city\": \"Oslo\"}", "call_0");
        expect_call(answer, 1, "{\"city\": \"Rome\"}", "call_1");
        mica_answer_close(&answer);
        assert_null(answer);
    }
    /* Without tools calls are text; one of no tool is, too. */
    mica_answer *answer = read_text(model, NULL, CALL("Oslo"), 7);
    assert_int_equal(mica_answer_call_count(answer), 0);
    assert_string_equal(mica_answer_text(answer, NULL), CALL("Oslo"));
    mica_answer_close(&answer);
    mica_model_close(&model);
}

/* The prompt's tokens tell that the answer begins within a thought. */
static void test_open_thought(void **state) {
    (void)state;
    mica_model *model = open_with("{{ messages[-1].content }}<think>\n{# </think> #}");
    const mica_message question = {.role = "user", .content = "Why?"};
    int32_t *ids;
    size_t n;
    assert_int_equal(mica_model_render(model, &question, 1, NULL, NULL, NULL, &ids, &n), MICA_OK);
    mica_answer *answer = read_text(model, &(mica_answer_options){.prompt = ids, .prompt_count = n},
                                    "So.</think>Thus.", 3);
    assert_string_equal(mica_answer_thoughts(answer, NULL), "So.");
    assert_string_equal(mica_answer_text(answer, NULL), "Thus.");
    mica_answer_close(&answer);
    mica_free(ids);
    mica_model_close(&model);
}

static void expect_render(const mica_model *model, const mica_message *messages, size_t count,
                          const char *want) {
    char *text;
    mica_generate_options options = {.tools = tools};
    if (mica_model_render(model, messages, count, &options, &text, NULL, NULL, NULL) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_string_equal(text, want);
    mica_free(text);
}

/* A conversation with a call and its result gets to the template whole, and what was read is a
 * message of it. */
static void test_messages(void **state) {
    (void)state;
    mica_model *model = open_with(SHOWS);
    const mica_tool_call call = {"weather", "{\"city\": \"Oslo\"}", "c1"};
    mica_message messages[] = {
        {.role = "user", .content = "Cold?", .name = "Ada"},
        {.role = "assistant", .thoughts = "Hm", .tool_calls = &call, .tool_call_count = 1},
        {.role = "tool", .content = "-3", .name = "weather", .tool_call_id = "c1"}};
    static const char want[] =
        "(user:Cold?/Ada)(assistant:~Hm!weather=Oslo@c1)(tool:-3/weather@c1)";
    expect_render(model, messages, 3, want);
    for (int i = 0; i < 3; i++)
        messages[i].struct_bytes = sizeof *messages;
    expect_render(model, messages, 3, want);
    mica_answer *answer = read_text(model, &(mica_answer_options){.tools = tools},
                                    "<think>Hm</think>" CALL("Oslo"), 5);
    assert_int_equal(mica_answer_get_message(answer, &messages[1]), MICA_OK);
    expect_render(model, messages, 3,
                  "(user:Cold?/Ada)(assistant:~Hm!weather=Oslo@call_0)(tool:-3/weather@c1)");
    mica_answer_close(&answer);
    mica_model_close(&model);
}

/* Messages of a later version of the headers, which have more members, are as far apart as they
 * say. */
static void test_newer_messages(void **state) {
    (void)state;
    struct newer {
        mica_message known;
        void *more;
    } messages[2] = {{.known = {.role = "user", .content = "a"}},
                     {.known = {.role = "user", .content = "b"}}};
    mica_model *model = open_with(SHOWS);
    for (int i = 0; i < 2; i++)
        messages[i].known.struct_bytes = sizeof *messages;
    expect_render(model, &messages[0].known, 2, "(user:a)(user:b)");
    messages[1].more = model;
    char *text;
    assert_int_equal(mica_model_render(model, &messages[0].known, 2, NULL, &text, NULL, NULL, NULL),
                     MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "older"));
    messages[1] = (struct newer){.known = {.struct_bytes = sizeof(mica_message), .role = "user"}};
    assert_int_equal(mica_model_render(model, &messages[0].known, 2, NULL, &text, NULL, NULL, NULL),
                     MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "struct_bytes"));
    mica_model_close(&model);
}

/* A message of which a caller has declared the first members is read, and is not written. */
static void test_short_messages(void **state) {
    (void)state;
    union {
        mica_message whole;
        struct {
            size_t struct_bytes;
            const char *role, *content, *behind[sizeof(mica_message) / sizeof(char *)];
        } few;
    } m = {.few = {.struct_bytes = offsetof(mica_message, name), .role = "user", .content = "a"}};
    mica_model *model = open_with(SHOWS);
    m.few.behind[0] = "no part of it";
    expect_render(model, &m.whole, 1, "(user:a)");
    mica_answer *answer = read_text(model, NULL, "b", 1);
    static const size_t bad[] = {offsetof(mica_message, name), 1,
                                 offsetof(mica_message, image_count)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        m.few.struct_bytes = bad[i];
        assert_int_equal(mica_answer_get_message(answer, &m.whole), MICA_EINVAL);
        assert_non_null(strstr(mica_last_error(), "struct_bytes"));
        assert_string_equal(m.few.content, "a");
        assert_string_equal(m.few.behind[0], "no part of it");
    }
    mica_message whole[] = {{0}, {.struct_bytes = sizeof *whole}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mica_answer_get_message(answer, &whole[i]), MICA_OK);
        assert_string_equal(whole[i].content, "b");
    }
    mica_answer_close(&answer);
    mica_model_close(&model);
}

/* Messages of an array whose members would not be aligned. */
static void test_uneven_messages(void **state) {
    (void)state;
    mica_message messages[3] = {{.struct_bytes = 28, .role = "user", .content = "a"}};
    char *text;
    memcpy((char *)messages + 28, messages, 28);
    assert_int_equal(mica_model_render(pebble, messages, 2, NULL, &text, NULL, NULL, NULL),
                     MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "struct_bytes is 28"));
}

static void test_refused(void **state) {
    (void)state;
    static const char *const image = "cat.png";
    const mica_tool_call nameless = {NULL, "{}", NULL}, bare = {"weather", NULL, NULL};
    const struct {
        mica_message message;
        mica_status status;
        const char *word;
    } bad[] = {
        {{.role = "user", .content = "a", .images = &image, .image_count = 1},
         MICA_EUNSUPPORTED,
         "images"},
        {{.role = "assistant", .tool_calls = &nameless, .tool_call_count = 1}, MICA_EINVAL, "name"},
        {{.role = "assistant", .tool_calls = &bare, .tool_call_count = 1},
         MICA_EINVAL,
         "arguments"},
        {{.role = "assistant", .tool_call_count = 1}, MICA_EINVAL, "tool_calls is NULL"},
        {{.role = "user", .content = "a", .name = "\xff"}, MICA_EFORMAT, "UTF-8"}};
    char *text;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(
            mica_model_render(pebble, &bad[i].message, 1, NULL, &text, NULL, NULL, NULL),
            bad[i].status);
        if (!strstr(mica_last_error(), bad[i].word)) fail_msg("%s", mica_last_error());
    }
    mica_answer *answer = NULL;
    mica_tool_call call;
    mica_message message = {0};
    size_t len = 1;
    assert_int_equal(mica_answer_open(NULL, NULL, &answer), MICA_EINVAL);
    assert_int_equal(mica_answer_open(pebble, NULL, NULL), MICA_EINVAL);
    assert_int_equal(mica_answer_open(pebble, &(mica_answer_options){.tools = "[3]"}, &answer),
                     MICA_EFORMAT);
    assert_null(answer);
    assert_int_equal(mica_answer_push(NULL, "a", 1), MICA_EINVAL);
    assert_int_equal(mica_answer_push_token(NULL, &(mica_token){.text = ""}), MICA_EINVAL);
    assert_string_equal(mica_answer_text(NULL, &len), "");
    assert_int_equal(len, 0);
    assert_int_equal(mica_answer_get_message(NULL, &message), MICA_EINVAL);
    answer = read_text(pebble, NULL, "a", 1);
    assert_int_equal(mica_answer_push(answer, "b", 1), MICA_EINVAL);
    assert_int_equal(mica_answer_end(answer), MICA_EINVAL);
    assert_int_equal(mica_answer_get_call(answer, 0, &call), MICA_EINVAL);
    mica_answer_close(&answer);
    mica_answer_close(&answer);
}

static bool read_once(void *model) {
    static const char said[] = "<think>a</think>b" CALL("Oslo");
    mica_answer *answer = NULL;
    mica_status status = mica_answer_open(model, &(mica_answer_options){.tools = tools}, &answer);
    if (status == MICA_OK) status = mica_answer_push(answer, said, strlen(said));
    if (status == MICA_OK) status = mica_answer_end(answer);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mica_answer_close(&answer);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    mica_model *model = open_with(SHOWS);
    test_fail_each_allocation(read_once, model);
    mica_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),          cmocka_unit_test(test_parts),
        cmocka_unit_test(test_open_thought),    cmocka_unit_test(test_messages),
        cmocka_unit_test(test_newer_messages),  cmocka_unit_test(test_short_messages),
        cmocka_unit_test(test_uneven_messages), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("engine/reading", tests, open_default, close_default);
}
