/* Answers of the default model under grammars: every one that ends by itself is a document of the
 * schema, greedy or sampled, with drafts or without. */
#include "support/support.h"

#include "base/buffer.h"
#include "base/json.h"
#include "engine/model.h"
#include "grammar/grammar_constraint.h"
#include "grammar/schema.h"
#include "session/stream.h"

#include <stdlib.h>
#include <string.h>

static mica_model *model;
static const mc_session_model *local;
static mc_grammars *grammars;
static int32_t *prompt;
static size_t prompt_len;

static mica_status encode_prompt(const mc_prompt_request *request) {
    mc_buffer text = {0};
    mica_status status = mc_model_render_json(model, request, &text);
    if (status == MICA_OK)
        status = mica_tokenizer_encode(mica_model_tokenizer(model), mc_buffer_cstr(&text), text.len,
                                       false, &prompt, &prompt_len);
    mc_buffer_deinit(&text);
    return status;
}

static int open_model(void **state) {
    (void)state;
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"What is curl?\"}]";
    const mc_prompt_request request = {.messages = messages, .messages_len = strlen(messages)};
    char *folder = test_format("%s/default", test_models_dir());
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_status status = mica_model_open(folder, NULL, &model);
    free(folder);
    if (status != MICA_OK) return 1;
    mica_model_get_info(model, &info);
    return mc_model_local(model, &local) != MICA_OK ||
           mc_grammars_open(mica_model_tokenizer(model), (size_t)info.vocab_size, &grammars) !=
               MICA_OK ||
           encode_prompt(&request) != MICA_OK;
}

static int close_model(void **state) {
    (void)state;
    mica_free(prompt);
    mc_grammars_close(&grammars);
    mica_model_close(&model);
    return 0;
}

/* The text of an answer; *finish receives how it ended. */
static char *answer(mc_grammar *g, const mica_generate_options *options, mica_finish *finish) {
    mc_session *session;
    mc_stream *stream;
    mc_constraint *c;
    mica_token token;
    mc_buffer text = {0};
    assert_int_equal(mc_session_open(local, 0, &session), MICA_OK);
    assert_int_equal(mc_stream_open(session, prompt, prompt_len, options, &stream), MICA_OK);
    assert_int_equal(mc_grammars_constrain(grammars, g, 0, &c), MICA_OK);
    assert_int_equal(mc_stream_constrain(stream, c, NULL), MICA_OK);
    while (mc_stream_next(stream, &token))
        assert_true(mc_buffer_add(&text, token.text, token.len));
    if (mc_stream_status(stream) != MICA_OK) fail_msg("%s", mica_last_error());
    *finish = mc_stream_finish(stream);
    mc_stream_close(&stream);
    mc_session_close(&session);
    return mc_buffer_take(&text);
}

static size_t check(const char *schema, const mica_generate_options *options) {
    mc_grammar *g;
    mica_finish finish;
    bool accepted;
    size_t prefix;
    if (mc_schema_compile(schema, strlen(schema), &g) != MICA_OK) fail_msg("%s", mica_last_error());
    char *text = answer(g, options, &finish);
    assert_int_equal(mc_grammar_accepts(g, text, strlen(text), &accepted, &prefix), MICA_OK);
    assert_int_equal(prefix, strlen(text)); /* also of one that was cut by max_tokens */
    if (finish == MICA_FINISH_STOP) {
        mc_json_doc *doc;
        if (!accepted) fail_msg("%s: %s", schema, text);
        assert_int_equal(mc_json_parse(text, strlen(text), "answer", &doc), MICA_OK);
        mc_json_close(&doc);
    }
    mc_grammar_close(&g);
    free(text);
    return finish == MICA_FINISH_STOP;
}

static void test_answers(void **state) {
    (void)state;
    static const char *const schemas[] = {
        "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": "
        "20},"
        " \"kind\": {\"enum\": [\"tool\", \"library\"]}, \"year\": {\"type\": \"integer\","
        " \"minimum\": 1990, \"maximum\": 2030}}, \"required\": [\"name\", \"kind\", \"year\"]}",
        "{\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, \"minItems\": 2, \"maxItems\": "
        "4}",
        "{\"anyOf\": [{\"type\": \"null\"}, {\"pattern\": \"^[a-z]{1,8}( [a-z]{1,8})?$\"}]}",
        "{\"type\": \"object\"}",
    };
    size_t ended = 0;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            mica_generate_options options = {.max_tokens = 120,
                                             .temperature = seed ? 0.5f * (float)seed : 0.0f,
                                             .seed = seed,
                                             .draft_tokens = seed % 2 ? 4 : 0};
            ended += check(schemas[i], &options);
        }
    print_message("%zu answers ended by themselves\n", ended);
    assert_true(ended >= 12);
}

/* The same answer with drafts. */
static void test_drafts(void **state) {
    (void)state;
    static const char schema[] =
        "{\"type\": \"array\", \"items\": {\"enum\": [\"curl\", \"wget\"]},"
        " \"minItems\": 10, \"maxItems\": 12}";
    mc_grammar *g;
    mica_finish finish;
    assert_int_equal(mc_schema_compile(schema, strlen(schema), &g), MICA_OK);
    for (int sampled = 0; sampled < 2; sampled++) {
        mica_generate_options options = {.max_tokens = 200, .temperature = (float)sampled};
        char *plain = answer(g, &options, &finish);
        assert_int_equal(finish, MICA_FINISH_STOP);
        options.draft_tokens = 5;
        char *drafted = answer(g, &options, &finish);
        assert_string_equal(drafted, plain);
        free(plain);
        free(drafted);
    }
    mc_grammar_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_drafts),
    };
    return cmocka_run_group_tests_name("grammar/model", tests, open_model, close_model);
}
