/* Anthropic's endpoints: the answers that transformers gives (golden.json), whole and as events. */
#define _POSIX_C_SOURCE 200809L
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES "/v1/messages"
#define COUNT "/v1/messages/count_tokens"
#define CURL "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]"

static int close_shared(void **state) {
    goldens_close();
    return served_close_shared(state);
}

/* A request for the i-th golden's answer; to be freed. */
static char *golden_request(int i, const char *fields) {
    mc_str content = text_at(golden(i), "messages.0.content");
    return test_format("{\"model\": \"default\", \"temperature\": 0, \"max_tokens\": 200, %s"
                       "\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
                       "\"text\": \"%.*s\", \"cache_control\": {\"type\": \"ephemeral\"}}]}]}",
                       fields, MC_STR_ARG(content));
}

/* Checks the numbers of tokens: those of the prompt, whether read or cached, and of the answer. */
static void check_usage(mc_json usage, size_t prompt, size_t made) {
    assert_int_equal(int_at(usage, "input_tokens") + int_at(usage, "cache_read_input_tokens"),
                     prompt);
    assert_int_equal(int_at(usage, "cache_creation_input_tokens"), 0);
    assert_int_equal(int_at(usage, "output_tokens"), made);
}

/* ---- answers ---- */

static void test_whole(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        char *body = golden_request(i, "");
        mc_json_doc *doc = client_json(shared.server, "POST", MESSAGES, body, 200);
        mc_json root = mc_json_root(doc);
        check_text(root, "content.0.text", text_at(golden(i), "text"));
        check_text(root, "content.0.type", MC_STR("text"));
        assert_int_equal(mc_json_count(at(root, "content")), 1);
        check_text(root, "type", MC_STR("message"));
        check_text(root, "role", MC_STR("assistant"));
        check_text(root, "model", MC_STR("default"));
        check_text(root, "stop_reason", MC_STR("end_turn"));
        check_null(root, "stop_sequence");
        check_null(root, "stop_details");
        check_null(root, "container");
        check_null(root, "usage.cache_creation");
        check_text(root, "usage.service_tier", MC_STR("standard"));
        check_usage(at(root, "usage"), mc_json_count(at(golden(i), "prompt_ids")),
                    mc_json_count(at(golden(i), "greedy_ids")) - 1); /* without the stop id */
        mc_json_close(&doc);
        free(body);
    }
}

/* The events of a stream, one by one. */
typedef struct events {
    answer whole;
    char *next;
    mc_json_doc *doc; /* of the last one */
} events;

static events ask_events(const char *body) {
    events e = {.whole = client_ask(shared.server, "POST", MESSAGES, body)};
    if (e.whole.status != 200) fail_msg("%s", e.whole.body);
    e.next = e.whole.body;
    return e;
}

/* The next event, whose name must be that of its type; comments are passed over. */
static mc_json next_event(events *e, const char *want) {
    char name[64] = "", *line = e->next;
    while (*line == ':')
        line = strstr(line, "\n\n") + 2;
    mc_json_close(&e->doc);
    assert_int_equal(sscanf(line, "event: %63s\n", name), 1);
    if (strcmp(name, want) != 0) fail_msg("event %s, want %s", name, want);
    char *data = strstr(line, "\ndata: "), *end = strstr(line, "\n\n");
    assert_true(data && end && data < end);
    data += 7;
    assert_int_equal(mc_json_parse(data, (size_t)(end - data), name, &e->doc), MICA_OK);
    check_text(mc_json_root(e->doc), "type", mc_str_of(name));
    e->next = end + 2;
    return mc_json_root(e->doc);
}

static bool comes(const events *e, const char *name) {
    char *line = test_format("event: %s\n", name);
    bool result = strncmp(e->next, line, strlen(line)) == 0;
    free(line);
    return result;
}

static void events_free(events *e) {
    mc_json_close(&e->doc);
    answer_free(&e->whole);
}

static void test_stream(void **state) {
    (void)state;
    char *body = golden_request(1, "\"stream\": true, "), text[4096];
    events e = ask_events(body);
    size_t len = 0, pieces = 0;
    mc_json event = next_event(&e, "message_start");
    check_text(event, "message.role", MC_STR("assistant"));
    assert_int_equal(mc_json_count(at(event, "message.content")), 0);
    check_null(event, "message.stop_reason");
    check_usage(at(event, "message.usage"), mc_json_count(at(golden(1), "prompt_ids")), 0);
    next_event(&e, "ping");
    event = next_event(&e, "content_block_start");
    assert_int_equal(int_at(event, "index"), 0);
    check_text(event, "content_block.type", MC_STR("text"));
    check_text(event, "content_block.text", MC_STR(""));
    for (; comes(&e, "content_block_delta"); pieces++) {
        event = next_event(&e, "content_block_delta");
        check_text(event, "delta.type", MC_STR("text_delta"));
        mc_str piece = text_at(event, "delta.text");
        assert_true(len + piece.len <= sizeof text);
        memcpy(text + len, piece.ptr, piece.len);
        len += piece.len;
    }
    assert_true(pieces > 10);
    assert_true(mc_str_eq((mc_str){text, len}, text_at(golden(1), "text")));
    assert_int_equal(int_at(next_event(&e, "content_block_stop"), "index"), 0);
    event = next_event(&e, "message_delta");
    check_text(event, "delta.stop_reason", MC_STR("end_turn"));
    check_usage(at(event, "usage"), mc_json_count(at(golden(1), "prompt_ids")),
                mc_json_count(at(golden(1), "greedy_ids")) - 1);
    next_event(&e, "message_stop");
    assert_string_equal(e.next, "");
    events_free(&e);
    free(body);
}

/* ---- ends ---- */

static void check_end(const char *fields, const char *text, const char *reason, const char *stop) {
    char *body = test_format("{\"model\": \"default\", \"temperature\": 0, %s, " CURL "}", fields);
    mc_json_doc *doc = client_json(shared.server, "POST", MESSAGES, body, 200);
    mc_json root = mc_json_root(doc);
    check_text(root, "content.0.text", mc_str_of(text));
    check_text(root, "stop_reason", mc_str_of(reason));
    if (stop)
        check_text(root, "stop_sequence", mc_str_of(stop));
    else
        check_null(root, "stop_sequence");
    mc_json_close(&doc);
    free(body);
}

/* Answers that have stopped, and those that were cancelled, by /metrics. */
static void count_ends(double ends[2]) {
    answer a = client_ask(shared.server, "GET", "/metrics", NULL);
    ends[0] = client_metric(a.body, "mica_answers_total{model=\"default\",end=\"stop\"}");
    ends[1] = client_metric(a.body, "mica_answers_total{model=\"default\",end=\"abort\"}");
    answer_free(&a);
}

static void test_ends(void **state) {
    (void)state;
    check_end("\"max_tokens\": 3", "curl is a", "max_tokens", NULL);
    /* what may have become a stop sequence is text at last */
    check_end("\"max_tokens\": 3, \"stop_sequences\": [\"a commando\"]", "curl is a", "max_tokens",
              NULL);
    check_end("\"max_tokens\": 99, \"stop_sequences\": [\"nowhere\", \"line\", \"command li\"]",
              "curl is a ", "stop_sequence", "command li");
    double before[2], after[2];
    count_ends(before);
    check_end("\"max_tokens\": 99, \"stop_sequences\": [\"d l\", \"command l\"]", "curl is a ",
              "stop_sequence", "command l"); /* complete at once: the longest */
    count_ends(after);
    assert_true(after[0] == before[0] + 1 && after[1] == before[1]); /* it was not cancelled */
    char *body = golden_request(0, "\"stream\": true, \"stop_sequences\": [\"curl\"], ");
    events e = ask_events(body); /* at the very beginning: no block */
    next_event(&e, "message_start");
    next_event(&e, "ping");
    mc_json event = next_event(&e, "message_delta");
    check_text(event, "delta.stop_reason", MC_STR("stop_sequence"));
    check_text(event, "delta.stop_sequence", MC_STR("curl"));
    next_event(&e, "message_stop");
    events_free(&e);
    free(body);
}

/* The end of the context is told from max_tokens. */
static void test_context(void **state) {
    (void)state;
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(shared.model, &info);
    size_t words = (size_t)info.context_length - 20;
    char *text = malloc(2 * words + 1), *body;
    assert_non_null(text);
    for (size_t i = 0; i < words; i++)
        memcpy(text + 2 * i, "a ", 2);
    text[2 * words] = '\0';
    body = test_format("{\"model\": \"default\", \"max_tokens\": 100000, \"temperature\": 0, "
                       "\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}]}",
                       text);
    mc_json_doc *doc = client_json(shared.server, "POST", MESSAGES, body, 200);
    mc_json root = mc_json_root(doc);
    check_text(root, "stop_reason", MC_STR("model_context_window_exceeded"));
    assert_true(int_at(root, "usage.input_tokens") + int_at(root, "usage.output_tokens") >=
                info.context_length);
    mc_json_close(&doc);
    free(body);
    free(text);
}

/* A last message of the assistant is continued: with the beginning of the answer, by its end. */
static void test_continues(void **state) {
    (void)state;
    mc_str text = text_at(golden(0), "text");
    static const char beginning[] = "curl is a command line tool for transferring";
    char *body = test_format("{\"model\": \"default\", \"max_tokens\": 99, \"temperature\": 0, "
                             "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}, "
                             "{\"role\": \"assistant\", \"content\": \"%s\"}]}",
                             beginning);
    mc_json_doc *doc = client_json(shared.server, "POST", MESSAGES, body, 200);
    check_text(mc_json_root(doc), "content.0.text",
               (mc_str){text.ptr + strlen(beginning), text.len - strlen(beginning)});
    mc_json_close(&doc);
    free(body);
}

/* A schema's answer is one of its documents: here there is only one. */
static void test_schema(void **state) {
    (void)state;
    static const char *const fields[] = {"\"output_config\": {\"format\": %s}",
                                         "\"output_format\": %s"};
    for (int i = 0; i < 2; i++) {
        char *format = test_format(fields[i], "{\"type\": \"json_schema\", \"schema\": "
                                              "{\"const\": [\"nothing\", \"else\"]}}");
        char *body =
            test_format("{\"model\": \"default\", \"max_tokens\": 60, %s, " CURL "}", format);
        mc_json_doc *doc = client_json(shared.server, "POST", MESSAGES, body, 200), *inner = NULL;
        mc_str text = text_at(mc_json_root(doc), "content.0.text");
        check_text(mc_json_root(doc), "stop_reason", MC_STR("end_turn"));
        assert_int_equal(mc_json_parse(text.ptr, text.len, "answer", &inner), MICA_OK);
        assert_int_equal(mc_json_count(mc_json_root(inner)), 2);
        check_text(mc_json_root(inner), "0", MC_STR("nothing"));
        check_text(mc_json_root(inner), "1", MC_STR("else"));
        mc_json_close(&inner);
        mc_json_close(&doc);
        free(format);
        free(body);
    }
}

/* ---- counting ---- */

static void check_count(const char *fields, int64_t want) {
    char *body = test_format("{\"model\": \"default\", %s}", fields);
    mc_json_doc *doc = client_json(shared.server, "POST", COUNT, body, 200);
    int64_t got = int_at(mc_json_root(doc), "input_tokens");
    if (got != want) fail_msg("%s: %d tokens, want %d", body, (int)got, (int)want);
    mc_json_close(&doc);
    free(body);
}

static void test_count(void **state) {
    (void)state;
    size_t n = mc_json_count(at(golden(0), "prompt_ids"));
    check_count(CURL, (int64_t)n);
    check_count(CURL ", \"system\": []", (int64_t)n);
    mc_json_doc *doc = client_json(shared.server, "POST", COUNT "?beta=true",
                                   "{\"model\": \"default\", " CURL "}", 200);
    mc_json_close(&doc);
    doc = client_json(shared.server, "POST", COUNT "?beta=true&alpha=1",
                      "{\"model\": \"default\", " CURL "}", 400);
    mc_json_close(&doc);
    check_count("\"messages\": [{\"role\": \"user\", \"content\": []}, {\"role\": \"user\", "
                "\"content\": \"What is curl?\"}]",
                (int64_t)n); /* turns of one role after another are one */
    check_count(CURL ", \"thinking\": {\"type\": \"disabled\"}", (int64_t)n);
    /* a system prompt goes into the first turn, with two line breaks behind it */
    static const char text[] = "Be kind.\n\nWhat is curl?";
    int32_t *ids, *plain;
    size_t all, some;
    const mica_tokenizer *tok = mica_model_tokenizer(shared.model);
    assert_int_equal(mica_tokenizer_encode(tok, text, strlen(text), false, &ids, &all), MICA_OK);
    assert_int_equal(mica_tokenizer_encode(tok, text + 10, strlen(text + 10), false, &plain, &some),
                     MICA_OK);
    check_count(CURL ", \"system\": \"Be kind.\"", (int64_t)(n + all - some));
    check_count(CURL ", \"system\": [{\"type\": \"text\", \"text\": \"Be kind.\"}]",
                (int64_t)(n + all - some));
    mica_free(ids);
    mica_free(plain);
}

/* ---- what is refused ---- */

static void refused(const char *fields, const char *name) {
    char *body = test_format("{\"model\": \"default\", \"max_tokens\": 5, %s}", fields);
    mc_json_doc *doc = client_json(shared.server, "POST", MESSAGES, body, 400);
    mc_json root = mc_json_root(doc);
    check_text(root, "type", MC_STR("error"));
    check_text(root, "error.type", MC_STR("invalid_request_error"));
    mc_str message = text_at(root, "error.message");
    char *text = test_format("%.*s", MC_STR_ARG(message));
    if (!strstr(text, name)) fail_msg("%s: \"%s\" does not name %s", fields, text, name);
    free(text);
    mc_json_close(&doc);
    free(body);
}

#define BLOCK(block) "\"messages\": [{\"role\": \"user\", \"content\": [" block "]}]"

static void test_refused(void **state) {
    (void)state;
    refused("\"stream\": false", "messages");
    refused("\"messages\": []", "messages");
    refused(CURL ", \"temperature\": 1.5", "temperature");
    refused(CURL ", \"top_k\": -1", "top_k");
    refused(CURL ", \"stop_sequences\": [1]", "stop_sequences[0]");
    refused(CURL ", \"stop_sequences\": [\"a\", \"\"]", "stop_sequences[1]");
    refused(CURL ", \"tool_choice\": {\"type\": \"any\"}", "tools");
    refused(CURL ", \"tool_choice\": {\"type\": \"tool\"}", "tool_choice.name");
    refused(CURL ", \"thinking\": {\"type\": \"disabled\", \"budget_tokens\": 10}",
            "thinking.budget_tokens");
    refused(CURL ", \"thinking\": {}", "thinking.type");
    refused(CURL ", \"output_config\": {\"format\": {}}", "output_config.format");
    refused(CURL ", \"output_config\": {\"format\": {\"type\": \"json_schema\", \"schema\": "
                 "{\"never\": {}}}}",
            "schema/never");
    refused(CURL ", \"container\": \"a\"", "container");
    refused(CURL ", \"cache_control\": {\"type\": \"eternal\"}", "cache_control");
    refused(CURL ", \"seed\": 1", "seed");
    refused(CURL ", \"user_profile_id\": \"a\"", "user_profile_id");
    refused(BLOCK("{\"type\": \"image\", \"source\": {}}"), "images");
    refused(BLOCK("{\"type\": \"document\"}"), "messages[0].content[0]: documents");
    refused(BLOCK("{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"web\"}"),
            "messages[0].content[1]: type \"web\"");
    refused(BLOCK("{\"type\": \"text\", \"text\": \"a\", \"citations\": [1]}"),
            "messages[0].content[0].citations");
    refused(BLOCK("{\"type\": \"text\", \"text\": 1}"), "messages[0].content[0].text");
    refused(BLOCK("{\"type\": \"text\", \"text\": \"\", \"cache_control\": {\"ttl\": \"5m\"}}"),
            "messages[0].content[0].cache_control");
    refused("\"messages\": [{\"role\": \"robot\", \"content\": \"\"}]", "messages[0]");
    refused("\"messages\": [{\"role\": \"user\"}]", "messages[0].content");
    refused("\"messages\": [{\"role\": \"user\", \"content\": \"\", \"name\": \"a\"}]",
            "messages[0]");
    refused(CURL ", \"system\": [{\"type\": \"tool_use\"}]", "system[0]");
    mc_json_doc *doc = client_json(shared.server, "POST", MESSAGES,
                                   "{\"model\": \"other\", \"max_tokens\": 1, " CURL "}", 404);
    check_text(mc_json_root(doc), "error.type", MC_STR("not_found_error"));
    mc_json_close(&doc);
}

/* A key is taken as Anthropic's clients send it, and its lack told in their form. */
static void test_keys(void **state) {
    (void)state;
    static const char *const keys[] = {"secret"};
    mica_server_options options = {.api_keys = keys, .api_key_count = 1};
    served kept = served_open(&options);
    static const char body[] = "{\"model\": \"default\", " CURL "}";
    mc_json_doc *doc = client_json(kept.server, "POST", COUNT, body, 401);
    check_text(mc_json_root(doc), "type", MC_STR("error"));
    check_text(mc_json_root(doc), "error.type", MC_STR("authentication_error"));
    mc_json_close(&doc);
    int fd = client_connect(kept.server);
    client_print(fd,
                 "POST " COUNT " HTTP/1.1\r\nHost: localhost\r\nx-api-key: secret\r\n"
                 "anthropic-version: 2023-06-01\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    close(fd);
    served_close(&kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),     cmocka_unit_test(test_stream),
        cmocka_unit_test(test_ends),      cmocka_unit_test(test_context),
        cmocka_unit_test(test_continues), cmocka_unit_test(test_schema),
        cmocka_unit_test(test_count),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, served_open_shared, close_shared);
}
