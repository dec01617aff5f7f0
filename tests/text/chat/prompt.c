/* What a folder says of prompts: stop ids, the first token, the chat format. */
#include "model/fixture.h"

#include "text/chat/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of a fixture with a tokenizer, its config.json replaced. */
static char *folder_with(const char *config, const char *generation) {
    char *dir = fixture_copy("gemma3_text_f32", NULL, NULL, NULL);
    char *path = test_format("%s/config.json", dir);
    test_write_file(path, config, strlen(config));
    free(path);
    if (generation) {
        path = test_format("%s/generation_config.json", dir);
        test_write_file(path, generation, strlen(generation));
        free(path);
    }
    return dir;
}

static void expect_stops(const char *config, const char *generation, const int32_t *want,
                         size_t n) {
    char *dir = folder_with(config, generation);
    mc_prompt prompt;
    if (mc_prompt_open(dir, NULL, &prompt) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(MC_BUFFER_COUNT(&prompt.stops, int32_t), n);
    if (n) assert_memory_equal(prompt.stops.data, want, n * sizeof *want);
    mc_prompt_close(&prompt);
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);
}

static void test_stops(void **state) {
    (void)state;
    expect_stops("{\"eos_token_id\": 1}", NULL, (const int32_t[]){1}, 1);
    expect_stops("{\"eos_token_id\": [1, 106], \"text_config\": {\"eos_token_id\": 7}}", NULL,
                 (const int32_t[]){1, 106, 7}, 3);
    expect_stops("{\"eos_token_id\": 1}", "{\"eos_token_id\": [106, 1]}", (const int32_t[]){106, 1},
                 2);
    expect_stops("{\"eos_token_id\": null}", "{}", NULL, 0);
}

/* The eos_token of tokenizer_config.json stops, too, beside ids and where there are none. */
static void test_tokenizer_stop(void **state) {
    (void)state;
    static const struct {
        const char *config, *token;
        size_t n;
        int32_t ids[2];
    } cases[] = {
        {"{}", "\"<eos>\"", 1, {1}},
        {"{\"eos_token_id\": 2}", "\"<eos>\"", 2, {2, 1}},
        {"{\"eos_token_id\": 1}", "{\"content\": \"<eos>\"}", 1, {1}},
        {"{\"eos_token_id\": 2}", "null", 1, {2}},
        {"{\"eos_token_id\": 2}", "\"<of no vocabulary>\"", 1, {2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = folder_with(cases[i].config, NULL);
        char *path = test_format("%s/tokenizer_config.json", dir);
        char *text = test_format("{\"eos_token\": %s}", cases[i].token);
        test_write_file(path, text, strlen(text));
        mc_prompt prompt;
        if (mc_prompt_open(dir, NULL, &prompt) != MICA_OK) fail_msg("%s", mica_last_error());
        assert_int_equal(MC_BUFFER_COUNT(&prompt.stops, int32_t), cases[i].n);
        assert_memory_equal(prompt.stops.data, cases[i].ids, cases[i].n * sizeof *cases[i].ids);
        mc_prompt_close(&prompt);
        free(text);
        free(path);
        test_temp_dir_remove(dir);
    }
}

/* Where tokenizer_config.json does not name one, special_tokens_map.json does. */
static void test_special_map(void **state) {
    (void)state;
    static const char *const configs[] = {"{}", "{\"eos_token\": \"<pad>\"}"};
    for (size_t i = 0; i < 2; i++) {
        static const char map[] = "{\"eos_token\": {\"content\": \"<eos>\"}, \"bos_token\": "
                                  "\"<bos>\", \"pad_token\": \"<pad>\"}";
        char *dir = folder_with("{}", NULL);
        char *path = test_format("%s/tokenizer_config.json", dir);
        test_write_file(path, configs[i], strlen(configs[i]));
        free(path);
        path = test_format("%s/special_tokens_map.json", dir);
        test_write_file(path, map, strlen(map));
        mc_prompt prompt;
        if (mc_prompt_open(dir, NULL, &prompt) != MICA_OK) fail_msg("%s", mica_last_error());
        assert_int_equal(MC_BUFFER_COUNT(&prompt.stops, int32_t), 1);
        assert_int_equal(*MC_BUFFER_AT(&prompt.stops, int32_t), i ? 0 : 1);
        assert_int_equal(mica_tokenizer_bos(prompt.tokenizer), 2);
        assert_int_equal(mica_tokenizer_pad(prompt.tokenizer), 0);
        assert_string_equal(prompt.bos, "<bos>");
        mc_prompt_close(&prompt);
        test_write_file(path, "{\"eos_token\": 3}", 16);
        assert_int_equal(mc_prompt_open(dir, NULL, &prompt), i ? MICA_OK : MICA_EFORMAT);
        if (!i) assert_non_null(strstr(mica_last_error(), "special_tokens_map.json"));
        mc_prompt_close(&prompt);
        free(path);
        test_temp_dir_remove(dir);
    }
}

static void expect_error(const char *config, const char *generation, mica_status status,
                         const char *word) {
    char *dir = folder_with(config, generation);
    mc_prompt prompt;
    assert_int_equal(mc_prompt_open(dir, NULL, &prompt), status);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
    assert_null(prompt.tokenizer);
    test_temp_dir_remove(dir);
}

static void test_bad_files(void **state) {
    (void)state;
    expect_error("{\"eos_token_id\": \"</s>\"}", NULL, MICA_EFORMAT, "eos_token_id");
    expect_error("{\"eos_token_id\": -1}", NULL, MICA_EFORMAT, "eos_token_id");
    expect_error("{}", "{\"eos_token_id\": [1.5]}", MICA_EFORMAT, "generation_config.json");
    expect_error("{}", "[", MICA_EFORMAT, "generation_config.json");
    expect_error("{\"text_config\": 3}", NULL, MICA_EFORMAT, "text_config");

    char *dir = fixture_copy("gemma3_mm_lmprefix", NULL, NULL, NULL); /* it has no tokenizer */
    mc_prompt prompt;
    assert_int_equal(mc_prompt_open(dir, NULL, &prompt), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "tokenizer.json"));
    test_temp_dir_remove(dir);
}

static const int32_t curl_ids[] = {2, 4, 454, 262, 558, 444, 5127, 293, 5, 262, 4, 456, 262};

/* Opens the default model's prompt without its template, or with another. */
static char *open_default(const char *template, mc_prompt *prompt) {
    char *from = test_format("%s/default", test_models_dir());
    char *dir = fixture_copy_folder(from, NULL, NULL, NULL);
    char *path = test_format("%s/chat_template.jinja", dir);
    assert_int_equal(remove(path), 0);
    if (template) test_write_file(path, template, strlen(template));
    if (mc_prompt_open(dir, NULL, prompt) != MICA_OK) fail_msg("%s", mica_last_error());
    free(path);
    free(from);
    return dir;
}

/* A conversation as ids. */
static mica_status encode(const mc_prompt *prompt, const char *format, const mica_message *messages,
                          size_t count, const mica_generate_options *options, int32_t **ids,
                          size_t *n) {
    mc_buffer text = {0};
    mica_status status = mc_prompt_text(prompt, format, messages, count, options, &text);
    if (status == MICA_OK) status = mc_prompt_encode_rendered(prompt, &text, ids, n);
    mc_buffer_deinit(&text);
    return status;
}

static void expect_ids(const mc_prompt *prompt, const char *format,
                       const mica_generate_options *options) {
    const mica_message messages[] = {{.role = "user", .content = "What is curl?"}};
    int32_t *ids;
    size_t n;
    if (encode(prompt, format, messages, 1, options, &ids, &n) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(n, sizeof curl_ids / sizeof *curl_ids);
    assert_memory_equal(ids, curl_ids, sizeof curl_ids);
    mica_free(ids);
}

static void expect_refusal(const mc_prompt *prompt, const char *format,
                           const mica_generate_options *options, mica_status status,
                           const char *word) {
    const mica_message messages[] = {{.role = "assistant", .content = "a"},
                                     {.role = "assistant", .content = "b"}};
    int32_t *ids;
    size_t n;
    assert_int_equal(encode(prompt, format, messages, 2, options, &ids, &n), status);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
}

static void test_built_in_format(void **state) {
    (void)state;
    mc_prompt prompt;
    char *dir = open_default(NULL, &prompt);
    const mica_generate_options variables = {.template_variables = "{}"};
    assert_string_equal(prompt.bos, "<bos>");
    expect_ids(&prompt, "gemma", NULL);
    expect_refusal(&prompt, NULL, NULL, MICA_EUNSUPPORTED, "no chat format");
    expect_refusal(&prompt, "unheard-of", NULL, MICA_EUNSUPPORTED, "no chat format");
    expect_refusal(&prompt, "gemma", &variables, MICA_EUNSUPPORTED, "takes no variables");
    expect_refusal(&prompt, "gemma", NULL, MICA_EINVAL, "alternate");
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);
}

static void test_own_template(void **state) {
    (void)state;
    char *dir = test_format("%s/default", test_models_dir());
    const mica_generate_options options = {.tools = "[]", .template_variables = "{\"a\": 1}"};
    const mica_generate_options bad = {.template_variables = "{"};
    mc_prompt prompt;
    assert_int_equal(mc_prompt_open(dir, NULL, &prompt), MICA_OK);
    assert_non_null(prompt.chat);
    expect_ids(&prompt, NULL, NULL);
    expect_ids(&prompt, "gemma", &options);
    expect_refusal(&prompt, "gemma", NULL, MICA_EINVAL, "alternate");
    expect_refusal(&prompt, "gemma", &bad, MICA_EFORMAT, "template variables");

    mica_generate_options cancelled = {0};
    mica_cancel *cancel = NULL;
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    cancelled.cancel = cancel;
    expect_refusal(&prompt, "gemma", &cancelled, MICA_EINVAL, "alternate");
    mica_cancel_set(cancel);
    expect_refusal(&prompt, "gemma", &cancelled, MICA_ECANCELLED, "cancelled");
    mica_cancel_close(&cancel);
    mc_prompt_close(&prompt);
    free(dir);

    /* What the caller gives reaches the template; the clock is there. */
    dir = open_default("{{ bos_token }}<start_of_turn>user\n"
                       "{{ messages[0].content if strftime_now('%Y') | int > 2000 and more }}"
                       "<end_of_turn>\n<start_of_turn>model\n\n",
                       &prompt);
    expect_ids(&prompt, NULL, &(mica_generate_options){.template_variables = "{\"more\": true}"});
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);
}

/* The text of a conversation with a tool, and whether it is what the HTTP APIs make of it. */
static char *render_with_tool(const mc_prompt *prompt, const char *format) {
    static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"look_up\"}}]",
                      json[] = "[{\"role\": \"system\", \"content\": \"Be brief.\"},"
                               " {\"role\": \"user\", \"content\": \"What is curl?\"}]";
    const mica_message messages[] = {{.role = "system", .content = "Be brief."},
                                     {.role = "user", .content = "What is curl?"}};
    const mc_prompt_request request = {
        .messages = json, .messages_len = strlen(json), .tools = tools};
    mc_buffer rendered = {0};
    int32_t *ids = NULL, *same = NULL;
    size_t n = 0, count = 0, len;
    char *text = NULL;
    if (encode(prompt, format, messages, 2, &(mica_generate_options){.tools = tools}, &ids, &n) !=
            MICA_OK ||
        mc_prompt_render_json(prompt, format, &request, &rendered) != MICA_OK ||
        mc_prompt_encode_rendered(prompt, &rendered, &same, &count) != MICA_OK ||
        mica_tokenizer_decode(prompt->tokenizer, ids, n, false, &text, &len) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(n, count);
    assert_memory_equal(ids, same, n * sizeof *ids);
    mica_free(ids);
    mica_free(same);
    mc_buffer_deinit(&rendered);
    return text;
}

static void expect_described(const mc_prompt *prompt, const char *format) {
    char *text = render_with_tool(prompt, format);
    if (!strstr(text, "Be brief.\n\nYou can call these functions:\n\n{\"name\": \"look_up\"}\n"))
        fail_msg("%s", text);
    mica_free(text);
}

/* A template or format without a place for tools gets their description in the system message. */
static void test_tools(void **state) {
    (void)state;
    mc_prompt prompt;
    char *dir = open_default(NULL, &prompt);
    const mica_generate_options bad = {.tools = "{}"};
    expect_described(&prompt, "gemma");
    expect_refusal(&prompt, "gemma", &bad, MICA_EFORMAT, "tools");
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);

    dir = open_default("{{ messages[0].content }} {{ messages[1].content }}", &prompt);
    expect_described(&prompt, NULL);
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);

    dir = open_default("{{ messages[0].content }} {{ tools[0].function.name }}", &prompt);
    char *text = render_with_tool(&prompt, NULL);
    assert_string_equal(text, "Be brief. look_up");
    mica_free(text);
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);
}

static void test_bad_messages(void **state) {
    (void)state;
    mc_prompt prompt;
    char *dir = open_default(NULL, &prompt);
    const struct {
        mica_message message;
        mica_status status;
        const char *word;
    } bad[] = {{{.content = "a"}, MICA_EINVAL, "message 0 has no role"},
               {{.role = "user"}, MICA_EINVAL, "message 0 has no content"},
               {{.role = "user", .content = "\xFF"}, MICA_EFORMAT, "message 0 is not UTF-8"}};
    int32_t *ids;
    size_t n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(encode(&prompt, "gemma", &bad[i].message, 1, NULL, &ids, &n),
                         bad[i].status);
        if (!strstr(mica_last_error(), bad[i].word)) fail_msg("%s", mica_last_error());
    }
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);
}

/* A raw text gets one <bos>, whether it has its own or not; of those that it has none is lost. */
static void test_raw_texts(void **state) {
    (void)state;
    mc_prompt prompt;
    char *dir = open_default(NULL, &prompt);
    const struct {
        const char *text;
        size_t begins; /* how many <bos> the ids begin with */
    } texts[] = {{"", 1},           {"a", 1},      {"<bos>", 1}, {"<bos>a", 1},
                 {"<bos><bos>", 2}, {"a<bos>", 1}, {" <bos>", 1}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t *ids, *plain, bos = mica_tokenizer_bos(prompt.tokenizer);
        size_t n, count, begins = 0, len = strlen(texts[i].text);
        bool own = strncmp(texts[i].text, "<bos>", 5) == 0;
        assert_int_equal(mc_prompt_encode(prompt.tokenizer, texts[i].text, len, &ids, &n), MICA_OK);
        assert_int_equal(
            mica_tokenizer_encode(prompt.tokenizer, texts[i].text, len, !own, &plain, &count),
            MICA_OK);
        assert_int_equal(n, count);
        assert_memory_equal(ids, plain, n * sizeof *ids);
        while (begins < n && ids[begins] == bos)
            begins++;
        assert_int_equal(begins, texts[i].begins);
        mica_free(ids);
        mica_free(plain);
    }
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);
}

/* Such a model opens, for its text can be continued; chatting says what is wrong. */
static void test_ill_formed_template(void **state) {
    (void)state;
    mc_prompt prompt;
    char *dir = open_default("a\n{% if %}", &prompt);
    expect_refusal(&prompt, "gemma", NULL, MICA_EFORMAT, "chat_template.jinja, line 2");
    mc_prompt_close(&prompt);
    test_temp_dir_remove(dir);
}

/* A template that is given is taken instead of the folder's, and must be one. */
static void test_given_template(void **state) {
    (void)state;
    static const char given[] = "{{ bos_token }}<start_of_turn>user\n{{ messages[0].content }}"
                                "<end_of_turn>\n<start_of_turn>model\n\n";
    mc_prompt prompt;
    char *dir = open_default("a\n{% if %}", &prompt);
    mc_prompt_close(&prompt);
    assert_int_equal(mc_prompt_open(dir, given, &prompt), MICA_OK);
    expect_ids(&prompt, NULL, NULL);
    mc_prompt_close(&prompt);
    assert_int_equal(mc_prompt_open(dir, "{% if %}", &prompt), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "the given chat template, line 1"));
    assert_null(prompt.tokenizer);
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stops),           cmocka_unit_test(test_tokenizer_stop),
        cmocka_unit_test(test_special_map),     cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_built_in_format), cmocka_unit_test(test_own_template),
        cmocka_unit_test(test_tools),           cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_raw_texts),       cmocka_unit_test(test_ill_formed_template),
        cmocka_unit_test(test_given_template),
    };
    return cmocka_run_group_tests_name("text/chat/prompt", tests, NULL, NULL);
}
