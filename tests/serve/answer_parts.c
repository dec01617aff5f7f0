/* Answers of several parts: thoughts, text, calls of tools. A model that repeats the last message
 * says what it is told to, so the parts are known; and by templates without a place for tools. */
#define _POSIX_C_SOURCE 200809L
#include "engine/parrot.h"
#include "reading.h"

#include "base/buffer.h"
#include "base/json_write.h"
#include "text/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESPONSES "/v1/responses"
#define LAST "{{ messages[-1].content }}"
/* All that a conversation has. */
#define ALL                                                                              \
    "{% for m in messages %}({{ m.role }}:{{ m.content }}"                               \
    "{% if m.reasoning_content is defined %}~{{ m.reasoning_content }}{% endif %}"       \
    "{% if m.tool_calls is defined %}{% for c in m.tool_calls %}!{{ c.function.name }}=" \
    "{{ c.function.arguments.city }}@{{ c.id[:5] }}{% endfor %}{% endif %}"              \
    "{% if m.tool_call_id is defined %}@{{ m.tool_call_id[:5] }}{% endif %}){% endfor %}"

#define SAID                                                                                    \
    "<think>\nIs it cold?\n</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"weather\", "      \
    "\"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"weather\", " \
    "\"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"

#define SCHEMA                                                                              \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"enum\": [\"Oslo\", \"Rome\"]}}, " \
    "\"required\": [\"city\"], \"additionalProperties\": false}"
#define FLAT                                                                              \
    "\"tools\": [{\"type\": \"function\", \"name\": \"weather\", \"description\": null, " \
    "\"strict\": false, \"parameters\": " SCHEMA "}, {\"type\": \"function\", \"name\": " \
    "\"time\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}]"

#define NESTED                                                                                     \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": " \
    "\"of a city\", \"parameters\": " SCHEMA "}}]"

static parrot bird;
static mica_server *server;
static mica_model *models[4];

/* `echo` has a place for tools and marks thoughts, `all` also repeats all of a conversation, `bare`
 * has none; `default` is the model itself, with a place for tools. */
static int open_all(void **state) {
    (void)state;
    static const struct {
        const char *name, *engine, *chat_template;
    } rows[] = {{"echo", "parrot", "{# tools <tool_call> <think> </think> #}" LAST},
                {"all", "parrot", "{# tools tool_calls <tool_call> <think> </think> #}" ALL},
                {"bare", "parrot", LAST},
                {"default", NULL,
                 "{# tools <tool_call> #}{% for m in messages %}{{ m.content }}\n{% endfor %}"}};
    const mica_engine engine = parrot_engine("parrot", &bird);
    assert_int_equal(mica_engine_register(&engine), MICA_OK);
    assert_int_equal(mica_server_open(NULL, &server), MICA_OK);
    char *path = test_format("%s/default", test_models_dir());
    for (size_t i = 0; i < 4; i++) {
        const mica_model_options options = {.threads = 2,
                                            .engine = rows[i].engine,
                                            .context_length = 4096,
                                            .chat_template = rows[i].chat_template};
        if (mica_model_open(path, &options, &models[i]) != MICA_OK)
            fail_msg("%s", mica_last_error());
        assert_int_equal(mica_server_add(server, rows[i].name, models[i], NULL), MICA_OK);
    }
    free(path);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    mica_server_close(&server);
    for (size_t i = 0; i < 4; i++)
        mica_model_close(&models[i]);
    return mica_engine_unregister("parrot") == MICA_OK ? 0 : -1;
}

/* The body of a response's request. */
static char *body_of(const char *model, const char *input, const char *fields) {
    char *text = quoted(input);
    char *body = test_format("{\"model\": \"%s\", \"temperature\": 0, \"input\": %s%s%s}", model,
                             text, *fields ? ", " : "", fields);
    free(text);
    return body;
}

static mc_json_doc *respond(const char *model, const char *input, const char *fields) {
    char *body = body_of(model, input, fields);
    mc_json_doc *doc = client_json(server, "POST", RESPONSES, body, 200);
    free(body);
    return doc;
}

/* An object of arguments has this city. */
static void check_city(mc_json item, const char *path, const char *city) {
    mc_json_doc *doc;
    mc_str text = text_at(item, path);
    assert_int_equal(mc_json_parse(text.ptr, text.len, "arguments", &doc), MICA_OK);
    check_text(mc_json_root(doc), "city", mc_str_of(city));
    mc_json_close(&doc);
}

/* ---- responses ---- */

static void check_items(mc_json output, bool summary) {
    const char *content = summary ? "0.summary.0.text" : "0.content.0.text";
    assert_int_equal(mc_json_count(output), 4);
    check_text(output, "0.type", MC_STR("reasoning"));
    check_text(output, content, MC_STR("Is it cold?"));
    assert_int_equal(mc_json_count(at(output, "0.summary")), summary ? 1 : 0);
    check_text(output, "1.type", MC_STR("message"));
    check_text(output, "1.content.0.text", MC_STR("Let me see."));
    check_text(output, "2.type", MC_STR("function_call"));
    check_text(output, "2.name", MC_STR("weather"));
    check_city(output, "2.arguments", "Oslo");
    check_city(output, "3.arguments", "Rome");
    assert_true(mc_str_starts(text_at(output, "2.call_id"), MC_STR("call_")));
    assert_false(mc_str_eq(text_at(output, "2.call_id"), text_at(output, "3.call_id")));
    for (size_t i = 0; i < 4; i++)
        check_text(element(output, i), "status", MC_STR("completed"));
}

static void test_whole(void **state) {
    (void)state;
    mc_json_doc *doc = respond("echo", SAID, FLAT ", \"parallel_tool_calls\": true");
    mc_json root = mc_json_root(doc);
    check_items(at(root, "output"), false);
    check_text(root, "status", MC_STR("completed"));
    assert_true(int_at(root, "completed_at") >= int_at(root, "created_at"));
    check_text(root, "tools.0.name", MC_STR("weather"));
    int64_t thought = int_at(root, "usage.output_tokens_details.reasoning_tokens");
    assert_true(thought > 2 && thought < int_at(root, "usage.output_tokens") / 2);
    mc_json_close(&doc);
    doc = respond("echo", SAID, FLAT ", \"reasoning\": {\"summary\": \"auto\"}");
    check_items(at(mc_json_root(doc), "output"), true);
    check_text(mc_json_root(doc), "reasoning.summary", MC_STR("detailed"));
    mc_json_close(&doc);
    doc = respond("echo", SAID, FLAT ", \"parallel_tool_calls\": false"); /* the first call */
    assert_int_equal(mc_json_count(at(mc_json_root(doc), "output")), 3);
    check_city(mc_json_root(doc), "output.2.arguments", "Oslo");
    mc_json_close(&doc);
    doc = respond("echo", SAID, FLAT ", \"tool_choice\": \"none\""); /* calls are text then */
    assert_int_equal(mc_json_count(at(mc_json_root(doc), "output")), 2);
    mc_json_close(&doc);
    doc = respond("echo", SAID, FLAT ", \"max_output_tokens\": 6"); /* within the thought */
    assert_int_equal(mc_json_count(at(mc_json_root(doc), "output")), 1);
    check_text(mc_json_root(doc), "output.0.status", MC_STR("incomplete"));
    check_text(mc_json_root(doc), "status", MC_STR("incomplete"));
    assert_int_equal(mc_json_get_type(at(mc_json_root(doc), "completed_at")), MC_JSON_NONE);
    mc_json_close(&doc);
}

/* The log-probabilities of a message are those of its tokens: together they are its text. */
static void test_logprobs(void **state) {
    (void)state;
    mc_json_doc *doc =
        respond("echo", SAID, FLAT ", \"include\": [\"message.output_text.logprobs\"]");
    mc_json list = at(mc_json_root(doc), "output.1.content.0.logprobs");
    mc_buffer text = {0};
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        mc_str token = text_at(it.value, "token");
        assert_true(mc_buffer_add(&text, token.ptr, token.len));
    }
    assert_true(mc_str_starts((mc_str){text.data, text.len}, MC_STR("Let me see.")));
    assert_true(text.len <= strlen("Let me see.\n<tool_call>"));
    mc_buffer_deinit(&text);
    mc_json_close(&doc);
}

/* What a stream has told: the names of its events, once for deltas one after another, and per item
 * the text of the deltas. */
typedef struct told {
    mc_buffer names, texts[4];
    mc_json_doc *last;
} told;

static void read_stream(const char *body, told *t) {
    const char *at = body;
    mc_json_doc *doc;
    mc_str before = {0};
    for (int64_t i = 0; (doc = read_event(&at)); i++) {
        mc_json event = mc_json_root(doc);
        mc_str type = text_at(event, "type");
        assert_int_equal(int_at(event, "sequence_number"), i);
        bool delta = mc_str_ends(type, MC_STR(".delta"));
        if (delta) {
            mc_str text = text_at(event, "delta");
            int64_t index = int_at(event, "output_index");
            assert_true(index < 4);
            assert_true(mc_buffer_add(&t->texts[index], text.ptr, text.len));
        }
        if (!delta || !mc_str_eq(type, before)) {
            const char *name = type.ptr + strlen("response.");
            assert_true(mc_buffer_printf(&t->names, "%.*s\n", (int)(type.len - 9), name));
        }
        mc_json_close(&t->last);
        t->last = doc;
        before = type; /* lives with the last document */
    }
    assert_true(mc_buffer_cstr(&t->names));
}

static void free_told(told *t) {
    mc_buffer_deinit(&t->names);
    for (size_t i = 0; i < 4; i++)
        mc_buffer_deinit(&t->texts[i]);
    mc_json_close(&t->last);
}

static void check_delta(const told *t, size_t i, const char *want) {
    assert_true(mc_str_is((mc_str){t->texts[i].data, t->texts[i].len}, want));
}

#define CALL                                                                           \
    "output_item.added\nfunction_call_arguments.delta\nfunction_call_arguments.done\n" \
    "output_item.done\n"

static void test_streamed(void **state) {
    (void)state;
    static const char message[] =
        "output_item.added\ncontent_part.added\noutput_text.delta\noutput_text.done\n"
        "content_part.done\noutput_item.done\n" CALL CALL "completed\n";
    static const char *const thoughts[] = {
        "content_part.added\nreasoning_text.delta\nreasoning_text.done\ncontent_part.done\n",
        "reasoning_summary_part.added\nreasoning_summary_text.delta\nreasoning_summary_text.done\n"
        "reasoning_summary_part.done\n"};
    for (int summary = 0; summary < 2; summary++) {
        told t = {.last = NULL};
        char *body = body_of("echo", SAID,
                             summary ? FLAT ", \"stream\": true, \"reasoning\": "
                                            "{\"summary\": \"detailed\"}"
                                     : FLAT ", \"stream\": true");
        char *want = test_format("created\nin_progress\noutput_item.added\n%soutput_item.done\n%s",
                                 thoughts[summary], message);
        answer a = client_ask(server, "POST", RESPONSES, body);
        assert_int_equal(a.status, 200);
        read_stream(a.body, &t);
        assert_string_equal(t.names.data, want);
        check_delta(&t, 0, "Is it cold?");
        check_delta(&t, 1, "Let me see.");
        check_items(at(mc_json_root(t.last), "response.output"), summary);
        assert_true(mc_str_eq((mc_str){t.texts[2].data, t.texts[2].len},
                              text_at(mc_json_root(t.last), "response.output.2.arguments")));
        answer_free(&a);
        free_told(&t);
        free(want);
        free(body);
    }
}

/* ---- streams that end within a call ---- */

#define CUT_CALL                                                                           \
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"n\": [1, " \
    "2]}}\n</tool_call>"
#define CUT_ARGUMENTS "{\"city\": \"Oslo\", \"n\": [1, 2]}"

/* How an API streams calls: what it is asked with, where its events have arguments, and the event
 * and the reason of an answer that ends within one, and of one that has it whole; and where an
 * answer in one piece has the same. */
typedef struct streaming {
    const char *path, *asked, *arguments, *name, *reason, *cut, *whole;
    const char *own_arguments, *own_name, *own_reason; /* arguments NULL: an object */
} streaming;

static const streaming streamings[] = {
    {"/v1/chat/completions",
     "\"max_tokens\": %d, " NESTED ", \"messages\": [{\"role\": \"user\", "
     "\"content\": %s}]",
     "choices.0.delta.tool_calls.0.function.arguments",
     "choices.0.delta.tool_calls.0.function.name", "choices.0.finish_reason", "length",
     "tool_calls", "choices.0.message.tool_calls.0.function.arguments",
     "choices.0.message.tool_calls.0.function.name", "choices.0.finish_reason"},
    {RESPONSES, "\"max_output_tokens\": %d, " FLAT ", \"input\": %s", "delta", "item.name",
     "response.status", "incomplete", "completed", "output.0.arguments", "output.0.name", "status"},
    {"/v1/messages",
     "\"max_tokens\": %d, \"tools\": [{\"name\": \"weather\", \"input_schema\": " SCHEMA
     "}], \"messages\": [{\"role\": \"user\", \"content\": %s}]",
     "delta.partial_json", "content_block.name", "delta.stop_reason", "max_tokens", "tool_use",
     NULL, "content.0.name", "stop_reason"},
};

/* Streams a call in `tokens` tokens, and adds its arguments. Returns the last reason of its end,
 * in `reason`, and whether the call has begun. */
static bool stream_call(const streaming *api, const char *call, int tokens, mc_buffer *arguments,
                        char reason[32]) {
    char *text = quoted(call), *asked = test_format(api->asked, tokens, text);
    char *body =
        test_format("{\"model\": \"echo\", \"stream\": true, \"temperature\": 0, %s}", asked);
    answer a = client_ask(server, "POST", api->path, body);
    mc_json_doc *doc;
    mc_str got;
    bool begun = false, over = false;
    assert_int_equal(a.status, 200);
    for (const char *at_event = a.body; (at_event = strstr(at_event, "data: {"));) {
        size_t len = strcspn(at_event + 6, "\n");
        assert_int_equal(mc_json_parse(at_event + 6, len, "event", &doc), MICA_OK);
        mc_json event = mc_json_root(doc);
        if (mc_json_get_str(at(event, api->name), &got)) begun = mc_str_is(got, "weather");
        if (mc_json_get_str(at(event, "item.type"), &got)) over = mc_str_is(got, "message");
        if (mc_json_get_str(at(event, api->arguments), &got) && begun && !over)
            assert_true(mc_buffer_add(arguments, got.ptr, got.len));
        if (mc_json_get_str(at(event, api->reason), &got))
            snprintf(reason, 32, "%.*s", MC_STR_ARG(got));
        mc_json_close(&doc);
        at_event += len;
    }
    answer_free(&a);
    free(text);
    free(asked);
    free(body);
    return begun;
}

/* The answer in one piece has the same call, and the same reason. */
static void check_whole(const streaming *api, const char *call, int tokens, bool begun,
                        const mc_buffer *arguments, const char *reason) {
    char *text = quoted(call), *asked = test_format(api->asked, tokens, text);
    char *body = test_format("{\"model\": \"echo\", \"temperature\": 0, %s}", asked);
    mc_json_doc *doc = client_json(server, "POST", api->path, body, 200);
    mc_json root = mc_json_root(doc);
    check_text(root, api->own_reason, mc_str_of(reason));
    if (begun != mc_json_exists(at(root, api->own_name)))
        fail_msg("%s, %d tokens: %s", api->path, tokens, call);
    if (begun && api->own_arguments)
        check_text(root, api->own_arguments, (mc_str){arguments->data, arguments->len});
    if (begun && !api->own_arguments)
        assert_int_equal(mc_json_get_type(at(root, "content.0.input")), MC_JSON_OBJECT);
    mc_json_close(&doc);
    free(text);
    free(asked);
    free(body);
}

/* What is cut within a call has the beginning of its arguments, more with each token or as much,
 * and says that it is cut; what has room enough has all of them. */
static void test_cut_calls(void **state) {
    (void)state;
    const mc_str want = MC_STR(CUT_ARGUMENTS);
    for (size_t i = 0; i < sizeof streamings / sizeof *streamings; i++) {
        size_t before = 0, lengths = 0;
        char reason[32] = "";
        for (int tokens = 1; tokens < 200 && strcmp(reason, streamings[i].whole) != 0; tokens++) {
            mc_buffer arguments = {0};
            bool begun = stream_call(&streamings[i], CUT_CALL, tokens, &arguments, reason);
            check_whole(&streamings[i], CUT_CALL, tokens, begun, &arguments, reason);
            const mc_str got = {arguments.data, arguments.len};
            assert_true(begun || !got.len);
            if (!mc_str_starts(want, got) || got.len < before)
                fail_msg("%s, %d tokens: %.*s", streamings[i].path, tokens, MC_STR_ARG(got));
            if (strcmp(reason, streamings[i].whole) != 0)
                assert_string_equal(reason, streamings[i].cut);
            lengths += got.len > before;
            before = got.len;
            mc_buffer_deinit(&arguments);
        }
        assert_string_equal(reason, streamings[i].whole);
        assert_int_equal(before, want.len);
        assert_true(lengths > 5);
    }
}

/* A call that the model does not complete is told as far as it goes, and is not to be run. */
static void test_broken_calls(void **state) {
    (void)state;
    static const char call[] =
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", oops";
    static const char *const reasons[] = {"stop", "completed", "end_turn"};
    for (size_t i = 0; i < sizeof streamings / sizeof *streamings; i++) {
        char reason[32] = "";
        mc_buffer arguments = {0};
        assert_true(stream_call(&streamings[i], call, 300, &arguments, reason));
        assert_true(
            mc_str_starts((mc_str){arguments.data, arguments.len}, MC_STR("{\"city\": \"Oslo\"")));
        assert_string_equal(reason, reasons[i]);
        check_whole(&streamings[i], call, 300, true, &arguments, reason);
        mc_buffer_deinit(&arguments);
    }
}

/* Asks `all` what it has seen of a conversation. */
static char *seen(const char *fields) {
    char *body =
        test_format("{\"model\": \"all\", \"temperature\": 0, \"store\": false, %s}", fields);
    mc_json_doc *doc = client_json(server, "POST", RESPONSES, body, 200);
    mc_str text = text_at(mc_json_root(doc), "output.0.content.0.text");
    char *copy = test_format("%.*s", MC_STR_ARG(text));
    mc_json_close(&doc);
    free(body);
    return copy;
}

/* A response that is cut within a call says so of its item, too; it may be continued, and its item
 * sent back. */
static void test_cut_item(void **state) {
    (void)state;
    char *body = body_of("echo", CUT_CALL, FLAT ", \"stream\": true, \"max_output_tokens\": 24");
    answer a = client_ask(server, "POST", RESPONSES, body);
    told t = {.last = NULL};
    read_stream(a.body, &t);
    mc_json call = at(mc_json_root(t.last), "response.output.0");
    check_text(call, "type", MC_STR("function_call"));
    check_text(call, "status", MC_STR("incomplete"));
    assert_true(mc_str_starts(MC_STR(CUT_ARGUMENTS), text_at(call, "arguments")));
    assert_true(mc_str_eq((mc_str){t.texts[0].data, t.texts[0].len}, text_at(call, "arguments")));
    mc_str id = text_at(mc_json_root(t.last), "response.id");
    mc_buffer item = {0};
    assert_true(mc_json_put_value(&item, call, MC_JSON_ONE_LINE) && mc_buffer_cstr(&item));
    char *fields[] = {
        test_format("\"previous_response_id\": \"%.*s\", \"input\": \"So?\"", MC_STR_ARG(id)),
        test_format("\"input\": [%s, {\"role\": \"user\", \"content\": \"So?\"}]", item.data)};
    for (size_t i = 0; i < 2; i++) {
        char *text = seen(fields[i]);
        if (!strstr(text, "(assistant:!weather=@call_)(user:So?)")) fail_msg("%s", text);
        free(text);
        free(fields[i]);
    }
    mc_buffer_deinit(&item);
    free_told(&t);
    answer_free(&a);
    free(body);
}

/* What is remembered of a response is what a client would send back of it. */
static void test_previous(void **state) {
    (void)state;
    static const char want[] = "(user:Hi)(assistant:Let me see.~Is it cold?!weather=Oslo@call_"
                               "!weather=Rome@call_)(tool:-3@call_)(tool:12@call_)(user:So?)";
    mc_buffer items = {0};
    mc_json_doc *doc = respond("echo", SAID, FLAT);
    mc_json root = mc_json_root(doc), output = at(root, "output");
    mc_str calls[] = {text_at(output, "2.call_id"), text_at(output, "3.call_id")};
    char *next = test_format("{\"type\": \"function_call_output\", \"call_id\": \"%.*s\", "
                             "\"output\": \"-3\"}, {\"type\": \"function_call_output\", "
                             "\"call_id\": \"%.*s\", \"output\": \"12\"}, {\"role\": \"user\", "
                             "\"content\": \"So?\"}",
                             MC_STR_ARG(calls[0]), MC_STR_ARG(calls[1]));
    assert_true(mc_json_put_value(&items, output, MC_JSON_ONE_LINE) && mc_buffer_cstr(&items));
    items.data[items.len - 1] = '\0'; /* without brackets */
    char *fields = test_format("\"input\": [{\"role\": \"user\", \"content\": \"Hi\"}, %s, %s]",
                               items.data + 1, next);
    char *sent = seen(fields);
    assert_string_equal(sent, want);
    free(fields);
    fields = test_format("\"previous_response_id\": \"%.*s\", \"input\": [%s]",
                         MC_STR_ARG(text_at(root, "id")), next);
    char *remembered = seen(fields);
    const char *rest = strstr(remembered, "(assistant:"); /* the user has said SAID there */
    assert_non_null(rest);
    assert_string_equal(rest, strstr(want, "(assistant:"));
    mc_buffer_deinit(&items);
    mc_json_close(&doc);
    free(remembered);
    free(sent);
    free(fields);
    free(next);
}

/* Asks `all` what it has seen of references to items, and of what comes next. */
static char *seen_by_reference(mc_json first, mc_json input, const char *next) {
    mc_buffer fields = {0};
    const mc_json lists[] = {input, at(first, "output")};
    assert_true(mc_buffer_add_text(&fields, "\"input\": ["));
    for (size_t i = 0; i < 2; i++)
        for (mc_json_iter it = mc_json_begin(lists[i]); mc_json_next(&it);)
            assert_true(mc_buffer_printf(&fields,
                                         "{\"type\": \"item_reference\", \"id\": \"%.*s\"}, ",
                                         MC_STR_ARG(text_at(it.value, "id"))));
    assert_true(mc_buffer_printf(&fields, "%s]", next));
    char *text = seen(mc_buffer_cstr(&fields));
    mc_buffer_deinit(&fields);
    return text;
}

/* References to all items of a response are the same as the response before. */
static void test_references(void **state) {
    (void)state;
    static const char next[] = "{\"role\": \"user\", \"content\": \"So?\"}";
    mc_json_doc *doc = respond("echo", SAID, FLAT);
    mc_json root = mc_json_root(doc);
    char *path = test_format(RESPONSES "/%.*s/input_items", MC_STR_ARG(text_at(root, "id")));
    mc_json_doc *list = client_json(server, "GET", path, NULL, 200);
    mc_json input = at(mc_json_root(list), "data");
    assert_int_equal(mc_json_count(input), 1);
    check_text(input, "0.type", MC_STR("message"));
    check_text(input, "0.role", MC_STR("user"));
    check_text(input, "0.content.0.text", mc_str_of(SAID));
    char *fields = test_format("\"previous_response_id\": \"%.*s\", \"input\": [%s]",
                               MC_STR_ARG(text_at(root, "id")), next);
    char *before = seen(fields), *referred = seen_by_reference(root, input, next);
    assert_string_equal(referred, before);
    assert_non_null(strstr(referred, "!weather=Rome@call_)(user:So?)"));
    free(fields);
    fields = test_format("{\"model\": \"all\", \"input\": [{\"id\": \"%.*s0\"}]}",
                         MC_STR_ARG(text_at(root, "output.0.id")));
    mc_json_doc *missing = client_json(server, "POST", RESPONSES, fields, 404);
    check_text(mc_json_root(missing), "error.code", MC_STR("item_not_found"));
    mc_json_close(&missing);
    mc_json_close(&list);
    mc_json_close(&doc);
    free(before);
    free(referred);
    free(fields);
    free(path);
}

/* Thoughts that a client keeps sealed are the same as those that are told; nobody else's seal is
 * taken. */
static void test_sealed(void **state) {
    (void)state;
    static const char *const ways[] = {"\"store\": false",
                                       "\"reasoning\": {\"summary\": \"auto\"}"};
    for (size_t i = 0; i < 2; i++) {
        char *fields = test_format("\"include\": [\"reasoning.encrypted_content\"], %s", ways[i]);
        mc_json_doc *doc = respond("echo", "<think>Is it cold?</think>No.", fields);
        mc_str seal = text_at(mc_json_root(doc), "output.0.encrypted_content");
        char *item =
            test_format("\"input\": [{\"type\": \"reasoning\", \"summary\": [], "
                        "\"encrypted_content\": \"%.*s\"}, {\"role\": \"assistant\", "
                        "\"content\": \"No.\"}, {\"role\": \"user\", \"content\": \"Oh\"}]",
                        MC_STR_ARG(seal));
        assert_true(seal.len > 40 && mc_find(seal, MC_STR("cold"), 0) == seal.len);
        char *text = seen(item);
        assert_string_equal(text, "(assistant:No.~Is it cold?)(user:Oh)");
        free(text);
        char *place = strstr(item, "encrypted_content\": \"") + 25;
        *place = *place == 'A' ? 'B' : 'A';
        char *body = test_format("{\"model\": \"all\", \"temperature\": 0, %s}", item);
        mc_json_doc *refused = client_json(server, "POST", RESPONSES, body, 400);
        check_text(mc_json_root(refused), "error.code", MC_STR("invalid_encrypted_content"));
        mc_json_close(&refused);
        mc_json_close(&doc);
        free(body);
        free(item);
        free(fields);
    }
}

/* Streamed, the item has the seal that the response has. */
static void test_sealed_stream(void **state) {
    (void)state;
    char *body = body_of("echo", "<think>Hm</think>No.",
                         "\"stream\": true, \"include\": [\"reasoning.encrypted_content\"]");
    answer a = client_ask(server, "POST", RESPONSES, body);
    const char *next = a.body;
    mc_json_doc *doc;
    mc_buffer seal = {0};
    size_t same = 0;
    while ((doc = read_event(&next))) {
        mc_json event = mc_json_root(doc);
        mc_str text, type = text_at(event, "type");
        bool item = mc_str_is(type, "response.output_item.done");
        if (mc_json_get_str(
                at(event, item ? "item.encrypted_content" : "response.output.0.encrypted_content"),
                &text)) {
            if (!seal.len) assert_true(mc_buffer_add(&seal, text.ptr, text.len));
            assert_true(mc_str_eq((mc_str){seal.data, seal.len}, text));
            same++;
        }
        mc_json_close(&doc);
    }
    assert_int_equal(same, 2);
    mc_buffer_deinit(&seal);
    answer_free(&a);
    free(body);
}

/* A page of a response's input. */
static void check_page(const char *id, const char *query, const char *texts, bool more) {
    char *path = test_format(RESPONSES "/%s/input_items?%s", id, query);
    mc_json_doc *doc = client_json(server, "GET", path, NULL, 200);
    mc_json root = mc_json_root(doc);
    mc_buffer got = {0};
    bool has_more;
    for (mc_json_iter it = mc_json_begin(at(root, "data")); mc_json_next(&it);) {
        mc_str text = text_at(it.value, "content.0.text");
        assert_true(mc_buffer_add(&got, text.ptr, text.len));
    }
    assert_string_equal(mc_buffer_cstr(&got), texts);
    assert_true(mc_json_get_bool(at(root, "has_more"), &has_more) && has_more == more);
    if (got.len) {
        mc_json data = at(root, "data");
        mc_str last = text_at(element(data, mc_json_count(data) - 1), "id");
        check_text(root, "first_id", text_at(data, "0.id"));
        check_text(root, "last_id", last);
    }
    mc_buffer_deinit(&got);
    mc_json_close(&doc);
    free(path);
}

static void test_input_items(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(
        server, "POST", RESPONSES,
        "{\"model\": \"echo\", \"temperature\": 0, \"input\": [{\"role\": \"user\", \"content\": "
        "\"a\"}, {\"id\": "
        "\"msg_b\", \"role\": \"assistant\", \"content\": [{\"type\": \"output_text\", \"text\": "
        "\"b\"}]}, {\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": "
        "\"c\"}]}]}",
        200);
    char *id = test_format("%.*s", MC_STR_ARG(text_at(mc_json_root(doc), "id")));
    check_page(id, "", "cba", false);
    check_page(id, "order=asc", "abc", false);
    check_page(id, "limit=2", "cb", true);
    check_page(id, "limit=1&after=msg_b", "a", false);
    check_page(id, "limit=1&order=asc", "a", true);
    check_page(id, "limit=1&order=asc&after=msg_b", "c", false);
    static const struct {
        const char *path;
        int status;
    } wrong[] = {{"/input_items?after=msg_x", 400},
                 {"/input_items?order=up", 400},
                 {"/input_items?limit=101", 400},
                 {"/input_items?x=1", 400},
                 {"?limit=1", 400},
                 {"0/input_items", 404}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *path = test_format(RESPONSES "/%s%s", id, wrong[i].path);
        mc_json_doc *refused = client_json(server, "GET", path, NULL, wrong[i].status);
        mc_json_close(&refused);
        free(path);
    }
    mc_json_close(&doc);
    free(id);
}

/* What the model itself is made to say. */
static void test_forced(void **state) {
    (void)state;
    static const char *const choices[] = {
        "{\"type\": \"function\", \"name\": \"weather\"}",
        "{\"type\": \"allowed_tools\", \"mode\": \"required\", \"tools\": [{\"type\": "
        "\"function\", \"name\": \"weather\"}]}"};
    for (size_t i = 0; i < 2; i++) {
        char *fields = test_format(FLAT ", \"tool_choice\": %s, \"parallel_tool_calls\": false, "
                                        "\"seed\": 3, \"max_output_tokens\": 200",
                                   choices[i]);
        mc_json_doc *doc = respond("default", "What is curl?", fields);
        mc_json output = at(mc_json_root(doc), "output");
        assert_int_equal(mc_json_count(output), 1);
        check_text(output, "0.type", MC_STR("function_call"));
        check_text(output, "0.name", MC_STR("weather"));
        mc_str arguments = text_at(output, "0.arguments");
        bool rome = mc_find(arguments, MC_STR("Rome"), 0) < arguments.len;
        check_city(output, "0.arguments", rome ? "Rome" : "Oslo");
        check_text(mc_json_root(doc), "status", MC_STR("completed"));
        mc_json_close(&doc);
        free(fields);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *fields, *param;
    } cases[] = {
        {"\"tools\": [{\"type\": \"function\", \"name\": \"a\", \"x\": 1}]", "tools[0].x"},
        {"\"tools\": [{\"type\": \"function\", \"name\": \"a\", \"defer_loading\": false, "
         "\"async\": true}]",
         "tools[0].async"},
        {"\"reasoning\": {\"max_tokens\": 5}", "reasoning.max_tokens"},
        {"\"tools\": [{\"type\": \"function\", \"name\": \"a\", \"output_schema\": {}}]",
         "tools[0].output_schema"},
        {"\"tools\": [{\"type\": \"function\", \"name\": \"a\", \"parameters\": 1}]", "tools"},
        {"\"tools\": [{\"type\": \"function\", \"name\": \"a b\"}]", "tools"},
        {FLAT ", \"tool_choice\": \"any\"", "tool_choice"},
        {FLAT ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"time\"}}",
         "tool_choice"},
        {FLAT ", \"tool_choice\": {\"type\": \"function\", \"name\": \"time\", \"x\": 1}",
         "tool_choice.x"},
        {FLAT ", \"tool_choice\": {\"type\": \"function\", \"name\": \"none\"}", "tools"},
        {FLAT ", \"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": "
              "[{\"type\": \"function\", \"name\": \"none\"}]}",
         "tool_choice"},
        {FLAT ", \"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": \"none\", \"tools\": "
              "[{\"type\": \"function\", \"name\": \"time\"}]}",
         "tool_choice"},
        {"\"tool_choice\": \"required\"", "tools"},
        {FLAT ", \"tool_choice\": \"required\", \"text\": {\"format\": {\"type\": "
              "\"json_object\"}}",
         "tools"},
        {"\"reasoning\": {\"summary\": \"short\"}", "reasoning.summary"},
        {"\"max_tool_calls\": 1, \"toolz\": []", "toolz"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = body_of("default", "a", cases[i].fields);
        mc_json_doc *doc = client_json(server, "POST", RESPONSES, body, 400);
        check_text(mc_json_root(doc), "error.param", mc_str_of(cases[i].param));
        mc_json_close(&doc);
        free(body);
    }
}

static void test_no_memory(void **state) {
    (void)state;
    char *body = body_of("echo", SAID, FLAT),
         *stream = body_of("echo", SAID, FLAT ", \"stream\": true");
    client_without_memory(server, RESPONSES, body);
    client_without_memory(server, RESPONSES, stream);
    free(body);
    free(stream);
}

/* ---- templates without a place for tools ---- */

#define ASKED "{\\\"name\\\": \\\"weather\\\", \\\"parameters\\\": {\\\"city\\\": \\\"Oslo\\\"}}"
#define MESSAGES "\"messages\": [{\"role\": \"user\", \"content\": \"" ASKED "\"}]"
static void test_no_place(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *name, *arguments, *city;
    } apis[] = {
        {"/v1/chat/completions",
         "{\"model\": \"bare\", \"temperature\": 0, " MESSAGES ", " NESTED "}",
         "choices.0.message.tool_calls.0.function.name",
         "choices.0.message.tool_calls.0.function.arguments", NULL},
        {RESPONSES, "{\"model\": \"bare\", \"temperature\": 0, \"input\": \"" ASKED "\", " FLAT "}",
         "output.0.name", "output.0.arguments", NULL},
        {"/v1/messages",
         "{\"model\": \"bare\", \"temperature\": 0, \"max_tokens\": 200, " MESSAGES
         ", \"tools\": [{\"name\": \"weather\", \"input_schema\": " SCHEMA "}]}",
         "content.0.name", NULL, "content.0.input.city"},
        {"/api/chat",
         "{\"model\": \"bare\", \"stream\": false, \"options\": {\"temperature\": 0, "
         "\"repeat_penalty\": 1}, " MESSAGES ", " NESTED "}",
         "message.tool_calls.0.function.name", NULL,
         "message.tool_calls.0.function.arguments.city"},
    };
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        mc_json_doc *doc = client_json(server, "POST", apis[i].path, apis[i].body, 200);
        check_text(mc_json_root(doc), apis[i].name, MC_STR("weather"));
        if (apis[i].city)
            check_text(mc_json_root(doc), apis[i].city, MC_STR("Oslo"));
        else
            check_city(mc_json_root(doc), apis[i].arguments, "Oslo");
        mc_json_close(&doc);
    }
}

/* The tools are in the prompt, where the template shows the system message. */
static void test_shown(void **state) {
    (void)state;
    mc_json_doc *doc =
        client_json(shared.server, "POST", "/apply-template",
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], " NESTED "}", 200);
    mc_str prompt = text_at(mc_json_root(doc), "prompt");
    char *text = test_format("%.*s", MC_STR_ARG(prompt));
    assert_non_null(strstr(text, "You can call these functions"));
    assert_non_null(strstr(text, "of a city"));
    mc_json_doc *tokens, *chat;
    char *said = quoted(text);
    char *body = test_format("{\"prompt\": %s, \"add_special_tokens\": false}", said);
    tokens = client_json(shared.server, "POST", "/tokenize", body, 200);
    chat = client_json(shared.server, "POST", "/v1/chat/completions",
                       "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], " NESTED
                       ", \"max_tokens\": 1}",
                       200);
    assert_int_equal(int_at(mc_json_root(tokens), "count"),
                     int_at(mc_json_root(chat), "usage.prompt_tokens"));
    mc_json_close(&doc);
    mc_json_close(&tokens);
    mc_json_close(&chat);
    free(body);
    free(said);
    free(text);
}

/* Thoughts that go on are thoughts in the answer, too, up to their end. */
static void test_thoughts_go_on(void **state) {
    (void)state;
    mc_json_doc *doc = client_json(
        server, "POST", "/v1/chat/completions",
        "{\"model\": \"all\", \"temperature\": 0, \"continue_final_message\": true, "
        "\"add_generation_prompt\": false, \"messages\": [{\"role\": \"user\", \"content\": "
        "\"Is it</think>so\"}, {\"role\": \"assistant\", \"content\": \"\", "
        "\"reasoning_content\": \"Well, \"}]}",
        200);
    check_text(mc_json_root(doc), "choices.0.message.reasoning_content", MC_STR("(user:Is it"));
    check_text(mc_json_root(doc), "choices.0.message.content", MC_STR("so)(assistant:~Well, "));
    mc_json_close(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_streamed),
        cmocka_unit_test(test_cut_calls),
        cmocka_unit_test(test_broken_calls),
        cmocka_unit_test(test_cut_item),
        cmocka_unit_test(test_previous),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_input_items),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_sealed_stream),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_thoughts_go_on),
        cmocka_unit_test_setup_teardown(test_shown, served_open_shared, served_close_shared),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
