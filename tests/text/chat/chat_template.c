/* A folder's chat template: where it is found, what it is given, and that bad ones end well. */
#include "text/chat/chat_template.h"
#include "base/json.h"
#include "base/str.h"
#include "support/support.h"
#include "text/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

static const char hello[] =
    "[{\"role\": \"user\", \"content\": \"a \\\"quoted\\\" \\\\ line\\n\\u0001\"}]";

static void write_file(const char *dir, const char *name, const char *text) {
    char *path = test_format("%s/%s", dir, name);
    test_write_file(path, text, strlen(text));
    free(path);
}

static mc_chat_template *load(const char *dir) {
    mc_chat_template *t = NULL;
    if (mc_chat_template_load(dir, NULL, &t) != MICA_OK) fail_msg("%s", mica_last_error());
    return t;
}

/* Loads the folder's template, renders and compares. */
static void expect_text(const char *dir, mc_chat_request request, const char *want) {
    mc_chat_template *t = load(dir);
    mc_buffer out = {0};
    assert_non_null(t);
    if (!request.messages) request.messages = hello;
    if (mc_chat_template_render(t, &request, &out) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_string_equal(mc_buffer_cstr(&out), want);
    mc_buffer_deinit(&out);
    mc_chat_template_close(&t);
}

static void expect_load_error(const char *dir, const char *word) {
    mc_chat_template *t = NULL;
    assert_int_equal(mc_chat_template_load(dir, NULL, &t), MICA_EFORMAT);
    assert_null(t);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
}

static void test_where_it_is_found(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    const mc_chat_request plain = {0}, tools = {.tools = "[]"};
    assert_null(load(dir));
    write_file(dir, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    assert_null(load(dir));
    write_file(dir, "chat_template.json", "{\"chat_template\": \"third {{ bos_token }}\"}");
    expect_text(dir, plain, "third <s>");
    write_file(dir, "tokenizer_config.json",
               "{\"bos_token\": {\"content\": \"<b>\"}, \"eos_token\": \"</s>\", \"chat_template\":"
               " [{\"name\": \"rag\", \"template\": \"{% ill-formed\"},"
               " {\"name\": \"default\", \"template\": \"second {{ bos_token }}{{ eos_token }}\"},"
               " {\"name\": \"tool_use\", \"template\": \"tools {{ tools | length }}\"}]}");
    expect_text(dir, plain, "second <b></s>");
    expect_text(dir, tools, "tools 0");
    write_file(dir, "chat_template.jinja", "first {{ eos_token }} {{ pad_token is defined }}");
    expect_text(dir, tools, "first </s> False");
    write_file(dir, "special_tokens_map.json", "{\"eos_token\": \"</t>\", \"pad_token\": \"<p>\"}");
    expect_text(dir, tools, "first </s> True");
    test_temp_dir_remove(dir);
}

static void test_what_it_is_given(void **state) {
    (void)state;
    const struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 21};
    char *dir = test_temp_dir();
    write_file(dir, "chat_template.jinja", "{{ messages }}|{{ bos_token }}");
    expect_text(dir, (mc_chat_request){.bos = "<s>"},
                "[{'role': 'user', 'content': 'a \"quoted\" \\\\ line\\n\\x01'}]|<s>");
    write_file(dir, "chat_template.jinja",
               "{{ tools }} {{ documents }} {{ add_generation_prompt }} {{ enable_thinking }} "
               "{{ messages[0].content[0].text }} {{ strftime_now is defined }}");
    expect_text(dir,
                (mc_chat_request){.messages = "[{\"role\": \"user\", \"content\":"
                                              " [{\"type\": \"text\", \"text\": \"hi\"}]}]",
                                  .variables = "{\"enable_thinking\": false, \"tools\": 1,"
                                               " \"messages\": 2, \"documents\": [3]}",
                                  .add_generation_prompt = true},
                "None [3] True False hi False");
    write_file(dir, "chat_template.jinja", "{% if xml_tools %}{{ xml_tools | length }}{% endif %}");
    expect_text(dir, (mc_chat_request){.tools = "[1, 2]"}, "2");
    expect_text(dir, (mc_chat_request){.tools = NULL}, "");
    write_file(dir, "chat_template.jinja", "{{ strftime_now('%d %b %Y') }}");
    expect_text(dir, (mc_chat_request){.now = &now}, "21 Nov 2026");
    test_temp_dir_remove(dir);
}

static void test_bad_folders(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    write_file(dir, "chat_template.json", "{\"chat_template\": 1}");
    expect_load_error(dir, "chat_template.json");
    write_file(dir, "tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\"}]}");
    expect_load_error(dir, "\"template\"");
    write_file(dir, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"\"}]}");
    expect_load_error(dir, "\"default\"");
    write_file(dir, "tokenizer_config.json", "{\"eos_token\": 3}");
    expect_load_error(dir, "eos_token");
    write_file(dir, "tokenizer_config.json", "{");
    expect_load_error(dir, "tokenizer_config.json");
    test_temp_dir_remove(dir);
}

static void test_ill_formed(void **state) {
    (void)state;
    static const char *const bad[] = {
        "\n\n{% if %}",    "\n\n{{ a",          "\n\n{% for x in y %}",
        "\n\n{% endif %}", "\n\n{{ a b }}",     "\n\n{% set 1 = 2 %}",
        "\n\n{{ 'a }}",    "\n\n{% unheard %}", "\n\n{{ 99999999999999999999 }}",
        "\n\n{% break %}", "\n\n{{ a is }}",    "\n\n{% macro %}",
        "\n\n{{ (1, 2 }}", "\n\n{# a",          "\n\n{{ '\\ud800' }}",
    };
    char *dir = test_temp_dir();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(dir, "chat_template.jinja", bad[i]);
        expect_load_error(dir, "chat_template.jinja, line 3: ");
    }
    write_file(dir, "chat_template.jinja", "a\xFF");
    expect_load_error(dir, "UTF-8");
    char deep[4096];
    for (const char *mark = "(-"; *mark; mark++) {
        memset(deep, *mark, sizeof deep);
        memcpy(deep, "{{ ", 3);
        memcpy(deep + sizeof deep - 6, " a }}", 6);
        write_file(dir, "chat_template.jinja", deep);
        expect_load_error(dir, *mark == '(' ? "too many brackets" : "levels deep");
    }
    test_temp_dir_remove(dir);
}

static const struct {
    const char *source;
    mica_status status;
    const char *word;
} failing[] = {
    {"{{ raise_exception('no ' ~ messages[0].role) }}", MICA_EINVAL, "line 1: no user"},
    {"\n{{ missing.part }}", MICA_EINVAL, "line 2: 'missing' is undefined"},
    {"{{ 1 + 'a' }}", MICA_EINVAL, "unsupported operand"},
    {"{{ 1 // 0 }}", MICA_EINVAL, "division by zero"},
    {"{{ 'a' | unheard }}", MICA_EFORMAT, "no filter 'unheard'"},
    {"{{ 9223372036854775807 + 1 }}", MICA_EINVAL, "64 bits"},
    {"{{ range(1000000) }}", MICA_EINVAL, "range too big"},
    {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", MICA_EFORMAT, "levels deep"},
    {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", MICA_EFORMAT,
     "MB of memory"},
    {"{% for a in range(99999) %}{% for b in 'abcdefghi' * 99 %}{% if a %}{% endif %}{% endfor %}"
     "{% endfor %}",
     MICA_EFORMAT, "takes more than"},
    {"{{ 'abcdefghij' * 9999999999 }}", MICA_EFORMAT, "longer than"},
    {"{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
     MICA_EFORMAT, "MB"},
    {"{% for m in messages %}{{ m.pop('role') }}{% endfor %}", MICA_EINVAL, "no attribute 'pop'"},
};

static void test_failing(void **state) {
    (void)state;
    const mc_chat_request request = {.messages = hello};
    char *dir = test_temp_dir();
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        mc_buffer out = {0};
        write_file(dir, "chat_template.jinja", failing[i].source);
        mc_chat_template *t = load(dir);
        assert_true(mc_buffer_add_text(&out, "kept"));
        mica_status status = mc_chat_template_render(t, &request, &out);
        if (status != failing[i].status || !strstr(mica_last_error(), failing[i].word)) {
            fail_msg("%s: status %d, %s", failing[i].source, (int)status, mica_last_error());
        }
        assert_int_equal(out.len, 4);
        mc_buffer_deinit(&out);
        mc_chat_template_close(&t);
    }
    test_temp_dir_remove(dir);
}

static void test_bad_requests(void **state) {
    (void)state;
    const struct {
        mc_chat_request request;
        mica_status status;
        const char *word;
    } bad[] = {
        {{.messages = "{}"}, MICA_EFORMAT, "messages: expected a JSON array"},
        {{.messages = "[]", .tools = "{}"}, MICA_EFORMAT, "tools: expected a JSON array"},
        {{.messages = "[]", .tools = "["}, MICA_EFORMAT, "tools"},
        {{.messages = "[]", .variables = "[]"}, MICA_EFORMAT, "expected a JSON object"},
    };
    char *dir = test_temp_dir();
    mc_buffer out = {0};
    write_file(dir, "chat_template.jinja", "text");
    mc_chat_template *t = load(dir);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mc_chat_template_render(t, &bad[i].request, &out), bad[i].status);
        if (!strstr(mica_last_error(), bad[i].word)) fail_msg("%s", mica_last_error());
        assert_int_equal(out.len, 0);
    }
    mc_chat_template_close(&t);
    test_temp_dir_remove(dir);
}

static bool load_and_render(void *arg) {
    const mc_chat_request request = {
        .messages = hello, .tools = "[{\"a\": [1, 2]}]", .variables = "{\"b\": 1}"};
    mc_chat_template *t = NULL;
    mc_buffer out = {0};
    mica_status status = mc_chat_template_load(arg, NULL, &t);
    assert_true((status == MICA_OK) == (t != NULL));
    if (status == MICA_OK) status = mc_chat_template_render(t, &request, &out);
    assert_true(status == MICA_OK || (status == MICA_ENOMEM && out.len == 0));
    mc_buffer_deinit(&out);
    mc_chat_template_close(&t);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    write_file(
        dir, "tokenizer_config.json",
        "{\"bos_token\": \"<s>\", \"chat_template\": ["
        "{\"name\": \"default\", \"template\": \"a\"}, {\"name\": \"tool_use\", \"template\":"
        "\"a {# b #} {{ -1 + 0x1f }} c{% macro m(x) %}{{ x | tojson(indent=2) }}{% endmacro %}"
        "{% for t in tools %}{{ m(t) ~ bos_token }}{{ [b, 'x'] | map('string') | join(',') }}{% "
        "endfor %}\"}]}");
    test_fail_each_allocation(load_and_render, dir);
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_it_is_found), cmocka_unit_test(test_what_it_is_given),
        cmocka_unit_test(test_bad_folders),       cmocka_unit_test(test_ill_formed),
        cmocka_unit_test(test_failing),           cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("text/chat/chat_template", tests, NULL, NULL);
}
