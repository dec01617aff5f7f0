/* Conversations in JSON: what templates get of them, against transformers' renderings, and what is
 * refused. */
#include "model/fixture.h"

#include "base/json_write.h"
#include "text/chat/chat_json.h"
#include "text/chat/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- against the goldens of chat templates ---- */

static char *text_of(mc_json v) {
    mc_buffer out = {0};
    assert_true(mc_json_put_value(&out, v, MC_JSON_ONE_LINE));
    return mc_buffer_take(&out);
}

/* Whether all messages have what the APIs carry. The goldens have templates' own forms, too. */
static bool is_of_an_api(mc_json messages) {
    if (mc_json_get_type(messages) != MC_JSON_ARRAY || !mc_json_count(messages)) return false;
    for (mc_json_iter it = mc_json_begin(messages); mc_json_next(&it);) {
        mc_json content = mc_json_find(it.value, "content");
        mc_json calls = mc_json_find(it.value, "tool_calls");
        mc_str role;
        if (!mc_json_get_str(mc_json_find(it.value, "role"), &role)) return false;
        if (mc_json_exists(content) && mc_json_get_type(content) != MC_JSON_STRING) return false;
        for (mc_json_iter call = mc_json_begin(calls); mc_json_next(&call);)
            if (!mc_json_exists(mc_json_find(call.value, "function"))) return false;
    }
    return true;
}

/* Arguments as text, read again, are the arguments as objects. */
static void check_arguments(const char *messages, const mc_chat_json *objects) {
    mc_chat_json texts, again;
    assert_int_equal(
        mc_chat_json_read(messages, strlen(messages), MC_ARGUMENTS_TEXT, true, false, &texts),
        MICA_OK);
    if (objects->calls) {
        assert_non_null(strstr(texts.json.data, "\"arguments\":\"{"));
        assert_non_null(strstr(objects->json.data, "\"arguments\":{"));
    }
    assert_int_equal(mc_chat_json_read(texts.json.data, texts.json.len, MC_ARGUMENTS_OBJECT, true,
                                       false, &again),
                     MICA_OK);
    assert_string_equal(again.json.data, objects->json.data);
    mc_chat_json_deinit(&texts);
    mc_chat_json_deinit(&again);
}

static void check_case(const mc_chat_template *t, mc_json entry, const struct tm *now,
                       size_t number) {
    mc_json options = mc_json_find(entry, "options");
    char *messages = text_of(mc_json_find(entry, "messages")), *variables = text_of(options);
    char *tools = text_of(mc_json_find(options, "tools"));
    mc_chat_json c;
    mc_buffer out = {0};
    mc_str want;
    assert_true(mc_json_get_str(mc_json_find(entry, "text"), &want));
    if (mc_chat_json_read(messages, strlen(messages), MC_ARGUMENTS_OBJECT, true, false, &c) !=
        MICA_OK)
        fail_msg("case %zu: %s", number, mica_last_error());
    const mc_chat_request request = {.messages = c.json.data,
                                     .tools = strcmp(tools, "null") ? tools : NULL,
                                     .variables = variables,
                                     .now = now};
    if (mc_chat_template_render(t, &request, &out) != MICA_OK)
        fail_msg("case %zu: %s", number, mica_last_error());
    assert_string_equal(mc_buffer_cstr(&out), want.ptr);
    check_arguments(messages, &c);
    mc_buffer_deinit(&out);
    mc_chat_json_deinit(&c);
    free(messages);
    free(variables);
    free(tools);
}

static mc_chat_template *load_template(mc_json root) {
    char *dir = test_temp_dir(), *path = test_format("%s/tokenizer_config.json", dir);
    char *config = text_of(root);
    mc_chat_template *t = NULL;
    test_write_file(path, config, strlen(config));
    if (mc_chat_template_load(dir, NULL, &t) != MICA_OK) fail_msg("%s", mica_last_error());
    free(config);
    free(path);
    test_temp_dir_remove(dir);
    return t;
}

static void test_goldens(void **state) {
    (void)state;
    static const char *const names[] = {
        "gemma3", "llama3", "llama3_1", "llama3_2", "qwen2_5", "qwen3", "r1_distill_handwritten"};
    const struct tm now = {.tm_year = 125, .tm_mon = 2, .tm_mday = 9};
    size_t checked = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = test_format("%s/chat/%s.json", test_cases_dir(), names[i]);
        mc_json_doc *doc = test_load_json(path);
        mc_json root = mc_json_root(doc);
        mc_chat_template *t = load_template(root);
        size_t number = 0;
        for (mc_json_iter it = mc_json_begin(mc_json_find(root, "cases")); mc_json_next(&it);) {
            mc_json messages = mc_json_find(it.value, "messages");
            number++;
            if (!mc_json_exists(mc_json_find(it.value, "text")) || !is_of_an_api(messages))
                continue;
            check_case(t, it.value, &now, number);
            checked++;
        }
        mc_chat_template_close(&t);
        mc_json_close(&doc);
        free(path);
    }
    print_message("%zu conversations\n", checked);
    assert_true(checked > 80);
}

/* ---- what becomes of messages ---- */

static void expect_json(const char *messages, const char *want) {
    mc_chat_json c;
    if (mc_chat_json_read(messages, strlen(messages), MC_ARGUMENTS_OBJECT, false, false, &c) !=
        MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_string_equal(c.json.data, want);
    mc_chat_json_deinit(&c);
}

static void expect_refusal(const char *messages, mica_status status, const char *word) {
    mc_chat_json c;
    assert_int_equal(
        mc_chat_json_read(messages, strlen(messages), MC_ARGUMENTS_OBJECT, false, false, &c),
        status);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
    mc_chat_json_deinit(&c);
}

static void test_forms(void **state) {
    (void)state;
    expect_json("[{\"content\": \"a\", \"role\": \"developer\", \"name\": null}]",
                "[{\"role\":\"system\",\"content\":\"a\"}]");
    expect_json("[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"},"
                "{\"type\": \"text\", \"text\": \"b\", \"annotations\": []}]}]",
                "[{\"role\":\"user\",\"content\":\"a\\u000ab\"}]");
    expect_json("[{\"role\": \"assistant\", \"content\": null, \"refusal\": null, \"audio\": null,"
                "\"reasoning_content\": \"hm\", \"tool_calls\": [{\"id\": \"1\", \"function\":"
                "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": [1, 2.5]}\"}},"
                "{\"type\": \"function\", \"function\": {\"name\": \"g\", \"arguments\": \"\"}}]},"
                "{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"x\"}]",
                "[{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"hm\","
                "\"tool_calls\":[{\"type\":\"function\",\"id\":\"1\",\"function\":{\"name\":\"f\","
                "\"arguments\":{\"a\": [1, 2.5]}}},{\"type\":\"function\",\"function\":{\"name\":"
                "\"g\",\"arguments\":{}}}]},"
                "{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":\"1\"}]");
    expect_json("[{\"role\": \"assistant\", \"tool_calls\": []}]",
                "[{\"role\":\"assistant\",\"content\":\"\"}]");
    /* As clients put a stream's parts together, and as OpenAI's reads them. */
    expect_json("[{\"role\": \"assistant\", \"tool_calls\": [{\"index\": 0, \"function\": "
                "{\"arguments\": \"{}\", \"name\": \"f\", \"parsed_arguments\": {}, \"x\": null}, "
                "\"type\": \"function\"}]}]",
                "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\","
                "\"function\":{\"name\":\"f\",\"arguments\":{}}}]}]");
    /* A call that was cut off. */
    expect_json("[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
                "\"arguments\": \"{\\\"a\\\": 1\"}}]}]",
                "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\","
                "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1\"}}]}]");
}

static void test_refusals(void **state) {
    (void)state;
#define MESSAGE(members) \
    "[{\"role\": \"user\", \"content\": \"\"}, {\"role\": \"user\", " members "}]"
    expect_refusal("{", MICA_EFORMAT, "messages");
    expect_refusal("{}", MICA_EFORMAT, "want an array");
    expect_refusal("[]", MICA_EFORMAT, "at least one");
    expect_refusal("[3]", MICA_EFORMAT, "messages[0]");
    expect_refusal("[{\"content\": \"a\"}]", MICA_EFORMAT, "role");
    expect_refusal(MESSAGE("\"content\": 5"), MICA_EFORMAT, "messages[1].content");
    expect_refusal(MESSAGE("\"content\": [5]"), MICA_EFORMAT, "messages[1].content[0]");
    expect_refusal(MESSAGE("\"content\": [{\"type\": \"text\"}]"), MICA_EFORMAT, "[0].text");
    expect_refusal(MESSAGE("\"content\": [{\"type\": \"text\", \"text\": \"\"},"
                           "{\"type\": \"image_url\", \"image_url\": {\"url\": \"x\"}}]"),
                   MICA_EUNSUPPORTED, "messages[1].content[1]: images are not supported");
    expect_refusal(MESSAGE("\"content\": [{\"type\": \"input_audio\"}]"), MICA_EUNSUPPORTED,
                   "audio");
    expect_refusal(MESSAGE("\"content\": [{\"type\": \"poem\"}]"), MICA_EUNSUPPORTED, "\"poem\"");
    expect_refusal(MESSAGE("\"content\": [{\"type\": \"text\", \"text\": \"\", \"bold\": true}]"),
                   MICA_EUNSUPPORTED, "content[0].bold");
    expect_refusal(MESSAGE("\"mood\": \"good\""), MICA_EUNSUPPORTED, "messages[1].mood");
    expect_refusal(MESSAGE("\"function_call\": {}"), MICA_EUNSUPPORTED, "function_call");
    expect_refusal(MESSAGE("\"name\": 3"), MICA_EFORMAT, "messages[1].name");
    expect_refusal(MESSAGE("\"tool_calls\": 3"), MICA_EFORMAT, "tool_calls");
    expect_refusal(MESSAGE("\"tool_calls\": [{\"type\": \"custom\"}]"), MICA_EUNSUPPORTED,
                   "tool_calls[0].type");
    expect_refusal(MESSAGE("\"tool_calls\": [{\"function\": {}}]"), MICA_EFORMAT, "name");
    expect_refusal(MESSAGE("\"tool_calls\": [{\"function\": {\"name\": \"f\"}}]"), MICA_EFORMAT,
                   "arguments");
    expect_refusal(MESSAGE("\"tool_calls\": [{\"function\": {\"name\": \"f\","
                           "\"arguments\": \"[1]\"}}]"),
                   MICA_EFORMAT, "want an object");
    expect_refusal(MESSAGE("\"tool_calls\": [{\"function\": {\"name\": \"f\","
                           "\"arguments\": true}}]"),
                   MICA_EFORMAT, "messages[1].tool_calls[0].function");
    expect_refusal(MESSAGE("\"tool_calls\": [{\"function\": {\"name\": \"f\","
                           "\"arguments\": {}}, \"mood\": 1}]"),
                   MICA_EUNSUPPORTED, "messages[1].tool_calls[0].mood: not supported");
    expect_refusal(MESSAGE("\"tool_calls\": [{\"function\": {\"name\": \"f\","
                           "\"arguments\": {}, \"mood\": 1}}]"),
                   MICA_EUNSUPPORTED, "messages[1].tool_calls[0].function.mood");
#undef MESSAGE
}

/* ---- prompts ---- */

/* A copy of the default model without its template, or with another. */
static void open_prompt(const char *template, mc_prompt *prompt) {
    char *from = test_format("%s/default", test_models_dir());
    char *dir = fixture_copy_folder(from, NULL, NULL, NULL);
    char *path = test_format("%s/chat_template.jinja", dir);
    assert_int_equal(remove(path), 0);
    if (template) test_write_file(path, template, strlen(template));
    if (mc_prompt_open(dir, NULL, prompt) != MICA_OK) fail_msg("%s", mica_last_error());
    free(path);
    free(from);
    test_temp_dir_remove(dir);
}

static void expect_prompt(const mc_prompt *prompt, mc_prompt_request request, const char *want) {
    mc_buffer text = {0};
    request.messages_len = strlen(request.messages);
    if (mc_prompt_render_json(prompt, "gemma", &request, &text) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_string_equal(mc_buffer_cstr(&text), want);
    mc_buffer_deinit(&text);
}

static void expect_no_prompt(const mc_prompt *prompt, mc_prompt_request request, mica_status status,
                             const char *word) {
    mc_buffer text = {0};
    request.messages_len = strlen(request.messages);
    assert_int_equal(mc_prompt_render_json(prompt, "gemma", &request, &text), status);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
    mc_buffer_deinit(&text);
}

static const char question[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"text\","
                               "\"text\": \"What is curl?\"}]}]";
static const char half[] = "[{\"role\": \"user\", \"content\": \"q\"},"
                           "{\"role\": \"assistant\", \"content\": \" half a \"}]";
static const char thought[] = "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\","
                              "\"content\": \"\", \"reasoning_content\": \"Well, q \"}]";
static const char call[] = "[{\"role\": \"assistant\", \"tool_calls\":"
                           "[{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}]}]";

static void test_built_in_format(void **state) {
    (void)state;
    mc_prompt prompt;
    open_prompt(NULL, &prompt);
    expect_prompt(&prompt, (mc_prompt_request){.messages = question},
                  "<bos><start_of_turn>user\nWhat is curl?<end_of_turn>\n<start_of_turn>model\n");
    expect_prompt(&prompt, (mc_prompt_request){.messages = question, .open = true},
                  "<bos><start_of_turn>user\nWhat is curl?<end_of_turn>\n");
    expect_prompt(&prompt, (mc_prompt_request){.messages = half, .continue_last = true},
                  "<bos><start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nhalf a");
    expect_no_prompt(&prompt, (mc_prompt_request){.messages = question, .variables = "{}"},
                     MICA_EUNSUPPORTED, "variables");
    expect_no_prompt(&prompt, (mc_prompt_request){.messages = question, .tools = "{}"},
                     MICA_EFORMAT, "tools");
    expect_no_prompt(&prompt,
                     (mc_prompt_request){.messages = "[{\"role\": \"user\", \"content\": \"\","
                                                     "\"name\": \"Bob\"}]"},
                     MICA_EUNSUPPORTED, "messages[0].name");
    mc_prompt_close(&prompt);
}

static void test_templates(void **state) {
    (void)state;
    mc_prompt prompt;
    open_prompt("{% for m in messages %}[{{ m.role }}]{{ m.content }};{% endfor %}", &prompt);
    expect_prompt(&prompt, (mc_prompt_request){.messages = half, .continue_last = true},
                  "[user]q;[assistant] half a ");
    expect_no_prompt(&prompt, (mc_prompt_request){.messages = question, .continue_last = true},
                     MICA_EINVAL, "the assistant's");
    expect_no_prompt(&prompt, (mc_prompt_request){.messages = call, .continue_last = true},
                     MICA_EINVAL, "have a content");
    expect_prompt(&prompt,
                  (mc_prompt_request){.messages = "[{\"role\":\"developer\",\"content\":\"a\"}]"},
                  "[system]a;");
    mc_prompt_close(&prompt);

    /* A byte order mark, which some editors write, is no part of the prompt. */
    open_prompt("\xEF\xBB\xBF{{ messages[0].content }}", &prompt);
    expect_prompt(&prompt, (mc_prompt_request){.messages = half}, "q");
    mc_prompt_close(&prompt);

    /* What was only thought goes on as a thought, its white space with it. */
    open_prompt("{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>"
                "{{ m.reasoning_content.strip() }}</think>{% endif %}{{ m.content }};{% endfor %}",
                &prompt);
    expect_prompt(&prompt, (mc_prompt_request){.messages = thought, .continue_last = true},
                  "[user]q;[assistant]<think>Well, q ");
    expect_prompt(&prompt, (mc_prompt_request){.messages = thought, .open = true},
                  "[user]q;[assistant]<think>Well, q</think>;");
    expect_no_prompt(&prompt,
                     (mc_prompt_request){.messages = "[{\"role\": \"assistant\", \"content\": null,"
                                                     "\"reasoning_content\": \" \"}]",
                                         .continue_last = true},
                     MICA_EINVAL, "thoughts");
    expect_no_prompt(
        &prompt,
        (mc_prompt_request){.messages = "[{\"role\": \"assistant\", \"tool_calls\": "
                                        "[{\"function\": {\"name\": \"f\", \"arguments\": {}}}],"
                                        "\"reasoning_content\": \"a\"}]",
                            .continue_last = true},
        MICA_EINVAL, "no calls");
    mc_prompt_close(&prompt);
    open_prompt("{% for m in messages %}{{ m.content }}{% endfor %}", &prompt);
    expect_no_prompt(&prompt, (mc_prompt_request){.messages = thought, .continue_last = true},
                     MICA_EINVAL, "leaves out");
    mc_prompt_close(&prompt);

    open_prompt("{{ messages[0].role }}{# developer #}", &prompt);
    expect_prompt(&prompt,
                  (mc_prompt_request){.messages = "[{\"role\":\"developer\",\"content\":\"a\"}]"},
                  "developer");
    expect_no_prompt(&prompt, (mc_prompt_request){.messages = half, .continue_last = true},
                     MICA_EINVAL, "changes");
    mc_prompt_close(&prompt);

    /* Arguments are an object where the template takes one, and text where it must be. */
    open_prompt("{{ messages[0].tool_calls[0].function.arguments.a }}", &prompt);
    expect_prompt(&prompt, (mc_prompt_request){.messages = call}, "1");
    mc_prompt_close(&prompt);
    open_prompt("{{ '<' + messages[0].tool_calls[0].function.arguments + '>' }}", &prompt);
    expect_prompt(&prompt, (mc_prompt_request){.messages = call}, "<{\"a\": 1}>");
    mc_prompt_close(&prompt);
    open_prompt("{{ raise_exception('never') }}", &prompt);
    expect_no_prompt(&prompt, (mc_prompt_request){.messages = call}, MICA_EINVAL, "never");
    mc_prompt_close(&prompt);
    open_prompt("{% if %}", &prompt);
    expect_no_prompt(&prompt, (mc_prompt_request){.messages = call}, MICA_EFORMAT, "line 1");
    mc_prompt_close(&prompt);
}

/* A format without a place for tools has them in the system message, calls and results in text. */
static void test_written_tools(void **state) {
    (void)state;
    static const char messages[] =
        "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\":"
        " \"Well.\", \"tool_calls\": [{\"id\": \"7\", \"function\": {\"name\": \"f\","
        " \"arguments\": \"{\\\"a\\\": 1}\"}}, {\"id\": \"8\", \"function\": {\"name\": \"g\","
        " \"arguments\": {}}}]}, {\"role\": \"tool\", \"tool_call_id\": \"7\", \"content\":"
        " \"x\"}, {\"role\": \"tool\", \"tool_call_id\": \"8\", \"content\": \"y\"},"
        " {\"role\": \"user\", \"content\": \"and?\"}]";
    static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]";
#define CALLS                                                                            \
    "[assistant]Well.\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n{\"name\": \"g\"," \
    " \"parameters\": {}};[user]Result of f:\nx\n\nResult of g:\ny\n\nand?;"
    mc_prompt prompt;
    open_prompt("{% for m in messages %}[{{ m.role }}]{{ m.content }};{% endfor %}", &prompt);
    expect_prompt(&prompt, (mc_prompt_request){.messages = messages}, "[user]q;" CALLS);
    expect_prompt(
        &prompt, (mc_prompt_request){.messages = messages, .tools = tools},
        "[system]You can call these functions:\n\n{\"name\": \"f\"}\n\nTo call one, answer "
        "with a line of JSON and nothing else, or one line for each call:\n{\"name\": the "
        "function's name, \"parameters\": an object of its arguments};[user]q;" CALLS);
    mc_buffer text = {0};
    static const char kind[] = "[{\"role\": \"system\", \"content\": \"Be kind.\"},"
                               "{\"role\": \"tool\", \"content\": \"z\"}]";
    const mc_prompt_request request = {
        .messages = kind, .messages_len = strlen(kind), .tools = tools};
    assert_int_equal(mc_prompt_render_json(&prompt, NULL, &request, &text), MICA_OK);
    assert_non_null(strstr(mc_buffer_cstr(&text), "[system]Be kind.\n\nYou can call"));
    assert_non_null(strstr(text.data, ";[user]Result of the function:\nz;"));
    mc_buffer_deinit(&text);
    mc_prompt_close(&prompt);
#undef CALLS
}

#define SAYS(role, text) "{\"role\": \"" role "\", \"content\": \"" text "\"}"

/* What agents send: system messages at the beginning and in the middle, two users in a row. A
 * template that refuses the order of roles, or leaves a later system message out, gets another; one
 * that takes it gets it as it is. */
static void test_roles(void **state) {
    (void)state;
    static const char shown[] = "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}";
    static const char messages[] = "[" SAYS("system", "a") "," SAYS("developer", "b") "," SAYS(
        "user", "c") "," SAYS("user", "d") "," SAYS("system", " e\\n") "]";
    static const char results[] = "[" SAYS("user", "c") "," SAYS(
        "assistant",
        "d") ",{\"role\": \"assistant\", \"content\": "
             "\"\", \"tool_calls\": [{\"id\": \"i\", \"function\": {\"name\": \"f\", "
             "\"arguments\": "
             "{}}}]},{\"role\": \"tool\", \"tool_call_id\": \"i\", \"content\": \"r\"}," SAYS(
                 "system", "e") "]";
    static const struct {
        const char *refuses, *messages, *want; /* what is raised for, within the loop */
    } cases[] = {
        {"", messages, "[system]a[system]b[user]c[user]d[system]e"},
        {"{% if m.role == 'system' and not loop.first %}{{ raise_exception('x') }}{% endif %}",
         messages, "[system]a\n\nb[user]c\n\nd\n\n e"},
        {"{% if not loop.first and m.role == loop.previtem.role %}{{ raise_exception('x') }}{% "
         "endif %}",
         messages, "[system]a\n\nb[user]c\n\nd\n\n e"},
        {"{% if m.role == 'system' %}{{ raise_exception('x') }}{% endif %}", messages,
         "[user]a\n\nb\n\nc\n\nd\n\n e"},
        {"{% if not loop.first and loop.previtem.role == 'tool' %}{{ raise_exception('x') }}{% "
         "endif %}"
         "{% if m.tool_calls %}{{ m.tool_calls[0].id }}{% endif %}{{ m.tool_call_id }}",
         results, "[user]c[assistant]di[tool]r\n\nei"},
    };
    mc_prompt prompt;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *template = test_format("%s%s{%% endfor %%}", shown, cases[i].refuses);
        open_prompt(template, &prompt);
        expect_prompt(&prompt, (mc_prompt_request){.messages = cases[i].messages}, cases[i].want);
        mc_prompt_close(&prompt);
        free(template);
    }
    open_prompt("{% for m in messages %}{% if m.role != 'system' or loop.first %}"
                "[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}",
                &prompt);
    expect_prompt(&prompt, (mc_prompt_request){.messages = messages},
                  "[system]a\n\nb[user]c\n\nd\n\n e\n");
    mc_prompt_close(&prompt);
    open_prompt("{% for m in messages %}{% if m.role == 'tool' %}x{% endif %}{% endfor %}",
                &prompt); /* it has no place for any: as it likes */
    expect_prompt(&prompt, (mc_prompt_request){.messages = messages}, "");
    mc_prompt_close(&prompt);
}

static bool render_once(void *context) {
    const mc_prompt *prompt = context;
    const mc_prompt_request request = {.messages = half,
                                       .messages_len = strlen(half),
                                       .tools = "[{\"function\": {\"name\": \"f\"}}]",
                                       .continue_last = true};
    mc_buffer text = {0};
    bool done = mc_prompt_render_json(prompt, "gemma", &request, &text) == MICA_OK;
    mc_buffer_deinit(&text);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    mc_prompt prompt;
    open_prompt(NULL, &prompt);
    test_fail_each_allocation(render_once, &prompt);
    mc_prompt_close(&prompt);
    open_prompt("{{ messages[-1].content }}", &prompt);
    test_fail_each_allocation(render_once, &prompt);
    mc_prompt_close(&prompt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),   cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_built_in_format),
        cmocka_unit_test(test_templates), cmocka_unit_test(test_written_tools),
        cmocka_unit_test(test_roles),     cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("text/chat/chat_json", tests, NULL, NULL);
}
