/* mica_model_render: what mica_chat gives the model, as text and as tokens. */
#include "engine/default_model.h"

#include <mica/mica.h>

#include <string.h>

static const mica_message talk[] = {{.role = "system", .content = "Be brief."},
                                    {.role = "user", .content = " What is curl? "}};

/* The text is the template's (models/default/chat_template.jinja), the tokens are its own. */
static void test_text_and_tokens(void **state) {
    (void)state;
    char *text;
    size_t len, n, count;
    int32_t *ids, *encoded;
    assert_int_equal(mica_model_render(pebble, talk, 2, NULL, &text, &len, &ids, &n), MICA_OK);
    assert_string_equal(text, "<bos><start_of_turn>user\nBe brief.\n\nWhat is curl?<end_of_turn>\n"
                              "<start_of_turn>model\n");
    assert_int_equal(len, strlen(text));
    assert_int_equal(
        mica_tokenizer_encode(mica_model_tokenizer(pebble), text, len, false, &encoded, &count),
        MICA_OK);
    assert_int_equal(n, count);
    assert_memory_equal(ids, encoded, n * sizeof *ids);
    mica_free(text);
    mica_free(encoded);

    /* Each can be had alone. */
    text = NULL;
    assert_int_equal(mica_model_render(pebble, talk, 2, NULL, &text, NULL, NULL, NULL), MICA_OK);
    assert_int_equal(strlen(text), len);
    mica_free(text);
    assert_int_equal(mica_model_render(pebble, talk, 2, NULL, NULL, NULL, NULL, &count), MICA_OK);
    assert_int_equal(count, n);
    assert_int_equal(mica_model_render(pebble, talk, 2, NULL, NULL, NULL, NULL, NULL), MICA_OK);
    mica_free(ids);
}

static char *answer(mica_stream **stream, int64_t *prompt_tokens) {
    mica_metrics metrics = {.struct_bytes = sizeof metrics};
    char text[512] = "";
    for (mica_token t; mica_stream_next(*stream, &t);)
        strncat(text, t.text, sizeof text - strlen(text) - 1);
    assert_int_equal(mica_stream_status(*stream), MICA_OK);
    mica_stream_metrics(*stream, &metrics);
    *prompt_tokens = metrics.prompt_tokens;
    mica_stream_close(stream);
    return test_format("%s", text);
}

/* The tokens' answer is the conversation's. */
static void test_answers(void **state) {
    (void)state;
    const mica_generate_options options = {.max_tokens = 12};
    mica_session *session;
    mica_stream *stream;
    int32_t *ids;
    size_t n;
    int64_t of_chat, of_ids;
    assert_int_equal(mica_session_open(pebble, NULL, &session), MICA_OK);
    assert_int_equal(mica_chat(session, talk, 2, &options, &stream), MICA_OK);
    char *chat = answer(&stream, &of_chat);
    assert_int_equal(mica_model_render(pebble, talk, 2, &options, NULL, NULL, &ids, &n), MICA_OK);
    assert_int_equal(mica_generate_ids(session, ids, n, &options, &stream), MICA_OK);
    char *rendered = answer(&stream, &of_ids);
    assert_string_equal(rendered, chat);
    assert_true(of_chat == (int64_t)n && of_ids == (int64_t)n);
    free(chat);
    free(rendered);
    mica_free(ids);
    mica_session_close(&session);
}

/* An answer continues the assistant's last message, as one to the ids of its prompt does. */
static void test_continued(void **state) {
    (void)state;
    static const mica_message begun[] = {{.role = "user", .content = "What is curl?"},
                                         {.role = "assistant", .content = "curl is a"}};
    const mica_generate_options options = {.max_tokens = 8, .continue_last = true};
    mica_session *session;
    mica_stream *stream;
    char *text, *asked;
    int32_t *ids;
    size_t n;
    int64_t of_chat, of_ids;
    assert_int_equal(mica_model_render(pebble, begun, 1, NULL, &asked, NULL, NULL, NULL), MICA_OK);
    assert_int_equal(mica_model_render(pebble, begun, 2, &options, &text, NULL, &ids, &n), MICA_OK);
    assert_int_equal(strncmp(text, asked, strlen(asked)), 0);
    assert_string_equal(text + strlen(asked), "curl is a");
    assert_int_equal(mica_session_open(pebble, NULL, &session), MICA_OK);
    assert_int_equal(mica_chat(session, begun, 2, &options, &stream), MICA_OK);
    char *chat = answer(&stream, &of_chat);
    assert_int_equal(mica_generate_ids(session, ids, n, &options, &stream), MICA_OK);
    char *rendered = answer(&stream, &of_ids);
    assert_string_equal(rendered, chat);
    assert_true(of_chat == (int64_t)n && of_ids == (int64_t)n);
    assert_int_equal(mica_chat(session, begun, 1, &options, &stream), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "must be the assistant's"));
    free(chat);
    free(rendered);
    mica_free(asked);
    mica_free(text);
    mica_free(ids);
    mica_session_close(&session);
}

/* Variables and tools get to the template. */
static void test_variables(void **state) {
    (void)state;
    mica_model *model;
    const mica_model_options options = {
        .chat_template = "{{ name }}: {{ messages[0].content }}, {{ tools[0].function.name }}"};
    const mica_generate_options variables = {
        .template_variables = "{\"name\": \"Ada\"}",
        .tools = "[{\"type\": \"function\", \"function\": {\"name\": \"ls\"}}]"};
    char *text;
    assert_int_equal(mica_model_open(default_path, &options, &model), MICA_OK);
    assert_int_equal(mica_model_render(model, talk + 1, 1, &variables, &text, NULL, NULL, NULL),
                     MICA_OK);
    assert_string_equal(text, "Ada:  What is curl? , ls");
    mica_free(text);
    mica_model_close(&model);
}

static void test_refusals(void **state) {
    (void)state;
    static const mica_message odd[] = {{.role = "assistant", .content = "a"}};
    mica_cancel *cancel;
    mica_generate_options options = {.template_variables = "[1]"};
    char *text = (char *)"";
    size_t len = 1, n = 1;
    int32_t *ids = &(int32_t){0};
    assert_int_equal(mica_model_render(pebble, odd, 1, NULL, &text, &len, &ids, &n), MICA_EINVAL);
    assert_true(!text && !len && !ids && !n);
    assert_int_equal(mica_model_render(pebble, talk, 0, NULL, &text, &len, NULL, NULL),
                     MICA_EINVAL);
    assert_int_equal(mica_model_render(pebble, NULL, 1, NULL, &text, &len, NULL, NULL),
                     MICA_EINVAL);
    assert_int_equal(mica_model_render(NULL, talk, 2, NULL, &text, &len, NULL, NULL), MICA_EINVAL);
    assert_int_equal(mica_model_render(pebble, talk, 2, NULL, &text, &len, &ids, NULL),
                     MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "n is NULL"));
    assert_int_equal(mica_model_render(pebble, talk, 2, &options, &text, &len, NULL, NULL),
                     MICA_EFORMAT);
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    mica_cancel_set(cancel);
    options = (mica_generate_options){.cancel = cancel};
    assert_int_equal(mica_model_render(pebble, talk, 2, &options, &text, &len, NULL, NULL),
                     MICA_ECANCELLED);
    mica_cancel_close(&cancel);
}

static bool render_once(void *arg) {
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n;
    mica_status status = mica_model_render(arg, talk, 2, NULL, &text, NULL, &ids, &n);
    assert_true(status == MICA_OK || (status == MICA_ENOMEM && !text && !ids));
    mica_free(text);
    mica_free(ids);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(render_once, pebble);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_and_tokens), cmocka_unit_test(test_answers),
        cmocka_unit_test(test_continued),       cmocka_unit_test(test_variables),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("engine/render", tests, open_default, close_default);
}
