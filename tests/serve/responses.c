/* /v1/responses over sockets: the answers are those of chats, whole and streamed; conversations are
 * continued and forgotten; what is not supported is refused by name. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"

#include "serve/common/response_store.h"
#include "serve/openai/response_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char path[] = "/v1/responses";

static mc_json part_of(mc_json response) {
    mc_json message = element(mc_json_find(response, "output"), 0);
    return element(mc_json_find(message, "content"), 0);
}

/* What a chat answers to messages; freed with free. */
static char *chat(const char *messages, int max_tokens) {
    char *body = test_format("{\"messages\": [%s], \"temperature\": 0, \"max_tokens\": %d}",
                             messages, max_tokens);
    mc_json_doc *doc = client_json(shared.server, "POST", "/v1/chat/completions", body, 200);
    mc_json choice = element(mc_json_find(mc_json_root(doc), "choices"), 0);
    mc_str text = text_at(mc_json_find(choice, "message"), "content");
    char *copy = test_format("%.*s", MC_STR_ARG(text));
    mc_json_close(&doc);
    free(body);
    return copy;
}

static void check_answer_text(mc_json response, const char *want) {
    mc_str text = text_at(part_of(response), "text");
    if (!mc_str_is(text, want)) fail_msg("\"%.*s\", want \"%s\"", MC_STR_ARG(text), want);
}

/* ---- whole ---- */

static void test_whole(void **state) {
    (void)state;
    char *want = chat("{\"role\": \"user\", \"content\": \"What is curl?\"}", 16);
    mc_json_doc *doc = client_json(shared.server, "POST", path,
                                   "{\"model\": \"default\", \"input\": \"What is curl?\", "
                                   "\"temperature\": 0, \"max_output_tokens\": 16, "
                                   "\"metadata\": {\"a\": \"b\"}}",
                                   200);
    mc_json root = mc_json_root(doc), usage = mc_json_find(root, "usage");
    check_answer_text(root, want);
    assert_true(mc_str_starts(text_at(root, "id"), MC_STR("resp_")));
    assert_true(mc_str_is(text_at(root, "object"), "response"));
    assert_true(mc_str_is(text_at(mc_json_find(root, "metadata"), "a"), "b"));
    assert_int_equal(int_at(usage, "output_tokens") + int_at(usage, "input_tokens"),
                     int_at(usage, "total_tokens"));
    assert_int_equal(int_at(usage, "output_tokens"), 16);
    /* What is not given and may not be null is not there. */
    static const char *const absent[] = {"user", "safety_identifier", "prompt_cache_key"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_int_equal(mc_json_get_type(mc_json_find(root, absent[i])), MC_JSON_NONE);
    assert_true(mc_str_is(text_at(root, "status"), "incomplete"));
    assert_true(mc_str_is(text_at(mc_json_find(root, "incomplete_details"), "reason"),
                          "max_output_tokens"));
    mc_json_close(&doc);
    free(want);
}

/* Instructions are a system message, and items messages, calls and their results. */
static void test_items(void **state) {
    (void)state;
    char *want = chat("{\"role\": \"system\", \"content\": \"Be brief.\"}, "
                      "{\"role\": \"user\", \"content\": \"Hi\"}, "
                      "{\"role\": \"assistant\", \"content\": \"Hello\"}, "
                      "{\"role\": \"user\", \"content\": \"What is\\ncurl?\"}",
                      8);
    mc_json_doc *doc = client_json(
        shared.server, "POST", path,
        "{\"instructions\": \"Be brief.\", \"temperature\": 0, \"max_output_tokens\": 8, "
        "\"input\": "
        "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"type\": \"message\", \"id\": \"msg_1\", "
        "\"status\": \"completed\", \"role\": \"assistant\", \"content\": [{\"type\": "
        "\"output_text\", \"text\": \"Hello\", \"annotations\": []}]}, {\"role\": \"user\", "
        "\"content\": [{\"type\": \"input_text\", \"text\": \"What is\"}, {\"type\": "
        "\"input_text\", \"text\": \"curl?\"}]}]}",
        200);
    check_answer_text(mc_json_root(doc), want);
    mc_json_close(&doc);
    free(want);
}

/* What items become, without a model. */
static void test_messages(void **state) {
    (void)state;
    static const char items[] =
        "[{\"role\": \"user\", \"content\": \"a\"},"
        "{\"type\": \"reasoning\", \"id\": \"r\", \"summary\": [{\"type\": \"summary_text\", "
        "\"text\": \"s\"}], \"content\": [{\"type\": \"reasoning_text\", \"text\": \"t\"}], "
        "\"encrypted_content\": null},"
        "{\"type\": \"message\", \"role\": \"assistant\", \"content\": \"b\"},"
        "{\"type\": \"function_call\", \"call_id\": \"1\", \"name\": \"f\", \"arguments\": "
        "\"{}\"},"
        "{\"type\": \"function_call\", \"call_id\": \"2\", \"name\": \"g\", \"arguments\": "
        "\"{}\"},"
        "{\"type\": \"function_call_output\", \"call_id\": \"1\", \"output\": \"x\"},"
        "{\"type\": \"function_call_output\", \"call_id\": \"2\", \"output\": [{\"type\": "
        "\"input_text\", \"text\": \"y\"}]},"
        "{\"role\": \"assistant\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": "
        "[{\"type\": \"refusal\", \"refusal\": \"d\"}]}, {\"type\": \"function_call\", "
        "\"call_id\": \"3\", \"name\": \"f\", \"arguments\": \"{}\"}, {\"role\": \"assistant\", "
        "\"content\": \"e\"}]";
    static const char want[] =
        "{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":\"t\",\"tool_calls\":["
        "{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
        "{\"id\":\"2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"x\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":\"y\"},"
        "{\"role\":\"assistant\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":"
        "\"d\\u000ae\",\"tool_calls\":[{\"id\":\"3\",\"type\":\"function\",\"function\":{\"name\":"
        "\"f\","
        "\"arguments\":\"{}\"}}]}";
    mc_json_doc *doc;
    mc_buffer messages = {0};
    mc_failure failure = {0};
    assert_int_equal(mc_json_parse(items, sizeof items - 1, "items", &doc), MICA_OK);
    assert_true(mc_response_items_read(mc_json_root(doc), &(mc_response_seal){.key = NULL},
                                       &messages, &failure));
    assert_true(mc_buffer_cstr(&messages));
    assert_string_equal(messages.data, want);
    mc_buffer_deinit(&messages);
    mc_json_close(&doc);
}

/* ---- conversations ---- */

static mc_json_doc *post(const char *fmt, const char *id) {
    char *body = test_format(fmt, id);
    mc_json_doc *doc = client_json(shared.server, "POST", path, body, 200);
    free(body);
    return doc;
}

static void test_previous(void **state) {
    (void)state;
    char *first = chat("{\"role\": \"user\", \"content\": \"Hi\"}", 8), *said = quoted(first);
    char *messages = test_format("{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
                                 "\"assistant\", \"content\": %s}, {\"role\": \"user\", "
                                 "\"content\": \"More\"}",
                                 said);
    char *want = chat(messages, 8), id[64], other[64];
    mc_json_doc *doc =
        post("{\"input\": \"Hi\", \"temperature\": 0, \"max_output_tokens\": 8}", "");
    check_answer_text(mc_json_root(doc), first);
    snprintf(id, sizeof id, "%.*s", MC_STR_ARG(text_at(mc_json_root(doc), "id")));
    mc_json_close(&doc);
    doc = post("{\"previous_response_id\": \"%s\", \"input\": \"More\", \"temperature\": 0, "
               "\"max_output_tokens\": 8, \"store\": false}",
               id);
    check_answer_text(mc_json_root(doc), want);
    snprintf(other, sizeof other, "%.*s", MC_STR_ARG(text_at(mc_json_root(doc), "id")));
    mc_json_close(&doc);
    char *url = test_format("/v1/responses/%s", id);
    doc = client_json(shared.server, "GET", url, NULL, 200);
    check_answer_text(mc_json_root(doc), first);
    mc_json_close(&doc);
    doc = client_json(shared.server, "DELETE", url, NULL, 200);
    mc_json_close(&doc);
    doc = client_json(shared.server, "GET", url, NULL, 404);
    mc_json_close(&doc);
    doc = client_json(shared.server, "DELETE", url, NULL, 404);
    mc_json_close(&doc);
    char *unstored = test_format("/v1/responses/%s", other);
    doc = client_json(shared.server, "GET", unstored, NULL, 404);
    mc_json_close(&doc);
    char *body = test_format("{\"previous_response_id\": \"%s\", \"input\": \"More\"}", id);
    client_refused(shared.server, path, body, 400, "previous_response_not_found",
                   "previous_response_id");
    free(body);
    free(unstored);
    free(url);
    free(want);
    free(messages);
    free(said);
    free(first);
}

static void add_stored(mc_response_store *store, int i, size_t bytes) {
    mc_buffer response = {0}, input = {0}, messages = {0};
    char id[32];
    snprintf(id, sizeof id, "resp_%d", i);
    assert_true(mc_buffer_reserve(&messages, bytes) && mc_buffer_add_text(&response, id));
    assert_true(mc_response_store_add(store, 0, id, &response, &input, &messages));
}

static bool has_stored(mc_response_store *store, int i) {
    char id[32];
    bool found;
    snprintf(id, sizeof id, "resp_%d", i);
    assert_true(mc_response_store_find(store, 0, mc_str_of(id), NULL, NULL, NULL, &found));
    return found;
}

/* The least recently used one goes, by number and by size. */
static void test_store(void **state) {
    (void)state;
    mc_response_store store;
    mc_response_store_init(&store);
    for (int i = 0; i < MC_STORED_RESPONSES; i++)
        add_stored(&store, i, 1);
    assert_true(has_stored(&store, 0)); /* and is used */
    add_stored(&store, MC_STORED_RESPONSES, 1);
    assert_true(has_stored(&store, 0));
    assert_false(has_stored(&store, 1));
    assert_true(has_stored(&store, 2));
    add_stored(&store, -1, MC_STORED_BYTES - 4096); /* leaves room for a few */
    assert_true(has_stored(&store, -1));
    assert_true(has_stored(&store, 2));
    assert_false(has_stored(&store, 500));
    assert_true(store.bytes <= MC_STORED_BYTES);
    mc_buffer response = {0}, input = {0}, messages = {0};
    assert_true(mc_buffer_reserve(&messages, (size_t)MC_STORED_BYTES + 1));
    assert_false(mc_response_store_add(&store, 0, "resp_x", &response, &input, &messages));
    assert_true(has_stored(&store, -1));
    mc_response_store_deinit(&store);
}

enum { SMALL = 8192 }; /* of bodies; three texts of 3000 bytes are more */

/* Asks with an input, and fields behind it; returns the id of the response, to be freed. NULL: it
 * is too large. */
static char *ask_small(const mica_server *server, const char *input, const char *fields,
                       bool too_large) {
    char *id = NULL, *body = test_format("{\"input\": %s, \"truncation\": \"auto\", "
                                         "\"max_output_tokens\": 1%s}",
                                         input, fields);
    assert_true(strlen(body) < SMALL / 2);
    if (too_large) {
        client_refused(server, path, body, 413, "body_too_large", "input");
    } else {
        mc_json_doc *doc = client_json(server, "POST", path, body, 200);
        id = test_format("%.*s", MC_STR_ARG(text_at(mc_json_root(doc), "id")));
        mc_json_close(&doc);
    }
    free(body);
    return id;
}

/* A small body may stand for a large one: what it refers to, and what it continues, have the same
 * limit together. */
static void test_small_bodies(void **state) {
    (void)state;
    served s = served_open(&(mica_server_options){.max_body = SMALL});
    char word[3003] = "\"", fields[200] = "", *first = NULL;
    memset(word + 1, 'w', 3000);
    word[3001] = '"';
    for (int turn = 0; turn < 3; turn++) {
        char *id = ask_small(s.server, word, fields, turn == 2);
        if (id) snprintf(fields, sizeof fields, ", \"previous_response_id\": \"%s\"", id);
        if (turn)
            free(id);
        else
            first = id;
    }
    char *user = test_format("{\"id\": \"msg_%.24si0\"}", strchr(first, '_') + 1);
    char *pair = test_format("%s, {\"role\": \"assistant\", \"content\": \"a\"}", user);
    char *two = test_format("[%s, %s]", pair, user);
    char *three = test_format("[%s, %s, %s]", pair, pair, user);
    free(ask_small(s.server, two, "", false));
    assert_null(ask_small(s.server, three, "", true));
    snprintf(fields, sizeof fields, ", \"previous_response_id\": \"%s\"", first);
    assert_null(ask_small(s.server, two, fields, true));
    free(three);
    free(two);
    free(pair);
    free(user);
    free(first);
    served_close(&s);
}

/* ---- streams ---- */

static void test_stream(void **state) {
    (void)state;
    static const char *const order[] = {
        "response.created",           "response.in_progress",
        "response.output_item.added", "response.content_part.added",
        "response.output_text.done",  "response.content_part.done",
        "response.output_item.done",  "response.incomplete",
    };
    char *want = chat("{\"role\": \"user\", \"content\": \"What is curl?\"}", 16);
    answer a = client_ask(shared.server, "POST", path,
                          "{\"input\": \"What is curl?\", \"temperature\": 0, "
                          "\"max_output_tokens\": 16, \"stream\": true}");
    const char *at = a.body;
    mc_buffer text = {0};
    mc_json_doc *doc;
    size_t next = 0;
    char id[64] = "";
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "text/event-stream"));
    for (int64_t i = 0; (doc = read_event(&at)); i++) {
        mc_json event = mc_json_root(doc);
        mc_str type = text_at(event, "type");
        assert_int_equal(int_at(event, "sequence_number"), i);
        if (mc_str_is(type, "response.output_text.delta")) {
            mc_str delta = text_at(event, "delta");
            assert_int_equal(next, 4);
            assert_true(mc_buffer_add(&text, delta.ptr, delta.len));
        } else {
            assert_true(next < 8 && mc_str_is(type, order[next]));
            next++;
        }
        if (mc_str_is(type, "response.output_text.done"))
            assert_true(mc_str_is(text_at(event, "text"), want));
        if (next == 8) {
            mc_json response = mc_json_find(event, "response");
            check_answer_text(response, want);
            snprintf(id, sizeof id, "/v1/responses/%.*s", MC_STR_ARG(text_at(response, "id")));
        }
        mc_json_close(&doc);
    }
    assert_int_equal(next, 8);
    assert_true(mc_str_is((mc_str){text.data, text.len}, want));
    doc = client_json(shared.server, "GET", id, NULL, 200);
    check_answer_text(mc_json_root(doc), want);
    mc_json_close(&doc);
    mc_buffer_deinit(&text);
    answer_free(&a);
    free(want);
}

/* The log-probabilities of a chat. */
static void test_logprobs(void **state) {
    (void)state;
    mc_json_doc *of_chat = client_json(shared.server, "POST", "/v1/chat/completions",
                                       "{\"messages\": [{\"role\": \"user\", \"content\": "
                                       "\"Hi\"}], \"temperature\": 0, \"max_tokens\": 4, "
                                       "\"logprobs\": true, \"top_logprobs\": 2}",
                                       200);
    mc_json_doc *doc = client_json(shared.server, "POST", path,
                                   "{\"input\": \"Hi\", \"temperature\": 0, \"max_output_tokens\": "
                                   "4, \"top_logprobs\": 2, \"include\": "
                                   "[\"message.output_text.logprobs\"]}",
                                   200);
    mc_json choice = element(mc_json_find(mc_json_root(of_chat), "choices"), 0);
    mc_buffer want = {0}, is = {0};
    assert_true(mc_json_put_value(&want, mc_json_find(mc_json_find(choice, "logprobs"), "content"),
                                  MC_JSON_ONE_LINE));
    assert_true(mc_json_put_value(&is, mc_json_find(part_of(mc_json_root(doc)), "logprobs"),
                                  MC_JSON_ONE_LINE));
    assert_int_equal(mc_json_count(mc_json_find(part_of(mc_json_root(doc)), "logprobs")), 4);
    assert_true(mc_buffer_cstr(&want) && mc_buffer_cstr(&is));
    assert_string_equal(want.data, is.data);
    mc_buffer_deinit(&want);
    mc_buffer_deinit(&is);
    mc_json_close(&of_chat);
    mc_json_close(&doc);
}

/* ---- formats ---- */

/* An answer that ended by itself keeps to its schema, however it was drawn. */
static void test_formats(void **state) {
    (void)state;
    size_t ended = 0;
    for (int seed = 0; seed < 12; seed++) {
        bool object = seed & 1;
        char *body = test_format(
            "{\"input\": \"Hi\", \"temperature\": 2, \"max_output_tokens\": 200, \"seed\": %d, "
            "\"store\": false, \"text\": {\"format\": %s}}",
            seed,
            object ? "{\"type\": \"json_object\"}"
                   : "{\"type\": \"json_schema\", \"name\": \"a\", \"strict\": true, \"schema\": "
                     "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\", "
                     "\"minimum\": 3, \"maximum\": 5}, \"s\": {\"enum\": [\"x\", \"y\"]}}, "
                     "\"required\": [\"n\", \"s\"], \"additionalProperties\": false}}");
        mc_json_doc *doc = client_json(shared.server, "POST", path, body, 200), *said = NULL;
        if (mc_str_is(text_at(mc_json_root(doc), "status"), "completed")) {
            mc_str text = text_at(part_of(mc_json_root(doc)), "text");
            if (mc_json_parse(text.ptr, text.len, "the answer", &said) != MICA_OK)
                fail_msg("%.*s", MC_STR_ARG(text));
            mc_json root = mc_json_root(said);
            assert_int_equal(mc_json_get_type(root), MC_JSON_OBJECT);
            if (!object) {
                int64_t n = int_at(root, "n");
                mc_str letter = text_at(root, "s");
                assert_true(n >= 3 && n <= 5 && mc_json_count(root) == 2);
                assert_true(mc_str_is(letter, "x") || mc_str_is(letter, "y"));
            }
            ended++;
        }
        mc_json_close(&said);
        mc_json_close(&doc);
        free(body);
    }
    assert_true(ended >= 6); /* those of the schema end soon */
}

/* ---- refused ---- */

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *fields, *code, *param;
    } cases[] = {
        {"\"inptu\": 1", "unknown_field", "inptu"},
        {"\"background\": true", "unsupported_value", "background"},
        {"\"conversation\": \"c\"", "unsupported_field", "conversation"},
        {"\"prompt\": {\"id\": \"p\"}", "unsupported_field", "prompt"},
        {"\"text\": {\"format\": {\"type\": \"xml\"}}", "unsupported_value", "text.format.type"},
        {"\"text\": {\"format\": {}}", "missing_field", "text.format.type"},
        {"\"text\": {\"format\": {\"type\": \"text\", \"name\": \"a\"}}", "unknown_field",
         "text.format.name"},
        {"\"text\": {\"format\": {\"type\": \"json_schema\", \"name\": \"a\"}}", "missing_field",
         "text.format.schema"},
        {"\"text\": {\"format\": {\"type\": \"json_schema\", \"schema\": {}}}", "invalid_type",
         "text.format.name"},
        {"\"text\": {\"format\": {\"type\": \"json_schema\", \"name\": \"a\", \"schema\": "
         "{\"never\": {}}}}",
         "", "text.format.schema"},
        {"\"text\": {\"verbosity\": \"more\"}", "invalid_type", "text.verbosity"},
        {"\"include\": [\"web_search_call.unheard\"]", "unsupported_value", "include"},
        {"\"metadata\": {\"a\": 1}", "invalid_value", "metadata"},
        {"\"safety_identifier\": \"0123456789012345678901234567890123456789012345678901234567890123"
         "4\"",
         "invalid_value", "safety_identifier"},
        {"\"truncation\": \"cut\"", "invalid_type", "truncation"},
        {"\"max_output_tokens\": 0", "invalid_value", "max_output_tokens"},
        {"\"top_logprobs\": 21", "invalid_value", "top_logprobs"},
        {"\"stream_options\": {\"include_obfuscation\": true}", "unsupported_value",
         "stream_options.include_obfuscation"},
    };
    static const char *const inputs[] = {
        "[]",
        "[1]",
        "[{\"type\": \"item_reference\", \"id\": \"msg_1\", \"x\": 1}]",
        "[{\"role\": \"robot\", \"content\": \"a\"}]",
        "[{\"role\": \"user\", \"content\": 1}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"image_url\": \"x\"}]}]",
        "[{\"role\": \"user\", \"content\": \"a\", \"mood\": \"x\"}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": \"a\", \"x\": "
        "1}]}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": \"a\", "
        "\"annotations\": []}]}]",
        "[{\"role\": \"assistant\", \"content\": [{\"type\": \"refusal\", \"refusal\": \"a\", "
        "\"text\": \"b\"}]}]",
        "[{\"type\": \"function_call\", \"name\": \"f\", \"arguments\": \"{}\"}]",
        "[{\"type\": \"reasoning\", \"summary\": [], \"encrypted_content\": \"x\"}]",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = test_format("{\"input\": \"a\", %s}", cases[i].fields);
        client_refused(shared.server, path, body, 400, cases[i].code, cases[i].param);
        free(body);
    }
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        char *body = test_format("{\"input\": %s}", inputs[i]);
        mc_json_doc *doc = client_json(shared.server, "POST", path, body, 400);
        assert_true(mc_str_is(text_at(mc_json_find(mc_json_root(doc), "error"), "param"), "input"));
        mc_json_close(&doc);
        free(body);
    }
    client_refused(shared.server, path, "{}", 400, "missing_field", "input");
}

/* What is too long is refused, unless it may be cut. */
static void test_truncation(void **state) {
    (void)state;
    char *words = malloc(8001);
    assert_non_null(words);
    for (size_t i = 0; i < 8000; i += 4)
        memcpy(words + i, "the ", 4);
    words[8000] = '\0';
    char *body = test_format("{\"input\": \"%s %s\", \"max_output_tokens\": 2}", words, words);
    client_refused(shared.server, path, body, 400, "context_length_exceeded", "");
    free(body);
    body = test_format("{\"input\": \"%s %s\", \"stream\": true, \"truncation\": \"auto\"}", words,
                       words);
    int fd = client_connect(shared.server); /* it need not be read to its end */
    client_print(fd, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path,
                 strlen(body));
    client_send(fd, body, strlen(body));
    char begin[16] = "";
    assert_int_equal(recv(fd, begin, 12, MSG_WAITALL), 12);
    assert_string_equal(begin, "HTTP/1.1 200");
    close(fd);
    free(body);
    free(words);
}

static void test_no_memory(void **state) {
    (void)state;
    static const char fields[] = "\"input\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
                                 "\"max_output_tokens\": 3, \"top_logprobs\": 1";
    char *body = test_format("{%s}", fields),
         *stream = test_format("{%s, \"stream\": true}", fields);
    client_without_memory(shared.server, path, body);
    client_without_memory(shared.server, path, stream);
    free(body);
    free(stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),      cmocka_unit_test(test_items),
        cmocka_unit_test(test_messages),   cmocka_unit_test(test_previous),
        cmocka_unit_test(test_store),      cmocka_unit_test(test_small_bodies),
        cmocka_unit_test(test_stream),     cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_formats),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_truncation), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}
