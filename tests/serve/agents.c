/* What agents send: the fields that Claude Code, Codex, opencode, aider, Cline and Continue were
 * seen to send, with texts of our own. The model's chat template refuses system messages in the
 * middle and two messages of one role in a row, has no place for tools, and marks no thoughts. */
#include "client.h"
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOOL_OF_CLAUDE                                                                         \
    "{\"name\": \"Bash\", \"description\": \"Runs a command.\", \"input_schema\": {\"type\": " \
    "\"object\", \"properties\": {\"command\": {\"type\": \"string\"}}, \"required\": "        \
    "[\"command\"]}, \"eager_input_streaming\": true}"
#define CLAUDE_TURN                                                                              \
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Notes.\"}, {\"type\": " \
    "\"text\", \"text\": \"Write it.\", \"cache_control\": {\"type\": \"ephemeral\"}}]}, "       \
    "{\"role\": \"system\", \"content\": \"Other agents: none.\"}"
#define CLAUDE_CALL                                                                               \
    "{\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"Hm.\", "    \
    "\"signature\": \"\"}, {\"type\": \"tool_use\", \"id\": \"toolu_1\", \"name\": \"Bash\", "    \
    "\"input\": {\"command\": \"true\"}}]}, {\"role\": \"user\", \"content\": [{\"type\": "       \
    "\"tool_result\", \"tool_use_id\": \"toolu_1\", \"content\": \"made\", \"is_error\": false, " \
    "\"cache_control\": {\"type\": \"ephemeral\"}}]}, {\"role\": \"system\", \"content\": "       \
    "\"The file changed.\"}"
#define CLAUDE(messages, more)                                                                     \
    "{\"model\": \"default\", \"messages\": [" messages "], \"system\": [{\"type\": \"text\", "    \
    "\"text\": \"cc_version=0\"}, {\"type\": \"text\", \"text\": \"You help.\", "                  \
    "\"cache_control\": {\"type\": \"ephemeral\", \"ttl\": \"1h\"}}], \"tools\": [" TOOL_OF_CLAUDE \
        more "], \"metadata\": {\"user_id\": \"{\\\"device_id\\\": 1}\"}, \"max_tokens\": 32000, " \
    "\"thinking\": {\"type\": \"adaptive\"}, \"context_management\": {\"edits\": [{\"type\": "     \
    "\"clear_thinking_20251015\", \"keep\": \"all\"}]}, \"output_config\": {\"effort\": "          \
    "\"high\"}, \"stream\": "

#define MESSAGE(role, text)                                                                   \
    "{\"type\": \"message\", \"id\": \"msg_" role "\", \"role\": \"" role "\", \"content\": " \
    "[{\"type\": \"input_text\", \"text\": \"" text "\"}]}"
#define CODEX_CALL                                                                                 \
    ", {\"type\": \"reasoning\", \"id\": \"rs_1\", \"summary\": [{\"type\": \"summary_text\", "    \
    "\"text\": \"Hm.\"}], \"content\": null, \"encrypted_content\": \"abc\"}, {\"type\": "         \
    "\"function_call\", \"status\": \"completed\", \"id\": \"fc_1\", \"name\": "                   \
    "\"exec_command\", \"arguments\": \"{\\\"cmd\\\": \\\"true\\\"}\", \"call_id\": \"call_1\"}, " \
    "{\"type\": \"function_call_output\", \"id\": \"fco_1\", \"call_id\": \"call_1\", "            \
    "\"output\": \"made\"}"
#define CODEX(more, fields)                                                                       \
    "{\"model\": \"default\", \"input\": [" MESSAGE("developer", "You code.") ", " MESSAGE(       \
        "developer",                                                                              \
        "No sandbox.") ", " MESSAGE("user", "Folder: x.") ", " MESSAGE("user", "Write it.") more  \
        "], \"tools\": [{\"type\": \"function\", \"name\": \"exec_command\", \"description\": "   \
        "\"Runs.\", \"strict\": false, \"parameters\": {\"type\": \"object\", \"properties\": "   \
        "{\"cmd\": {\"type\": \"string\"}}}}, {\"type\": \"custom\", \"name\": \"apply_patch\", " \
        "\"format\": {\"type\": \"grammar\", \"syntax\": \"lark\", \"definition\": \"start: "     \
        "\\\"a\\\"\"}}, "                                                                         \
        "{\"type\": \"namespace\", \"name\": \"agents\", \"description\": \"Others.\", "          \
        "\"tools\": "                                                                             \
        "[]}, {\"type\": \"tool_search\", \"execution\": \"client\", \"description\": "           \
        "\"Finds.\", "                                                                            \
        "\"parameters\": {}}, {\"type\": \"local_shell\"}, {\"type\": \"web_search\", "           \
        "\"external_web_access\": true}], \"tool_choice\": \"auto\", \"parallel_tool_calls\": "   \
        "true, "                                                                                  \
        "\"reasoning\": {\"effort\": \"high\", \"summary\": \"auto\"}, \"store\": false, "        \
        "\"include\": [\"reasoning.encrypted_content\"], \"prompt_cache_key\": \"k\", \"text\": " \
        "{\"verbosity\": \"low\"}, \"client_metadata\": {\"turn_id\": \"t\"}, "                   \
        "\"max_output_tokens\": 6, \"stream\": " fields

#define FUNCTION                                                                                  \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"bash\", \"description\": "   \
    "\"Runs.\", \"parameters\": {\"type\": \"object\", \"properties\": {\"command\": {\"type\": " \
    "\"string\"}}, \"required\": [\"command\"]}}}], \"tool_choice\": \"auto\""

static const struct {
    const char *name, *path, *body;
    const char *left_out; /* of the header; NULL: there is none */
} requests[] = {
    {"claude", "/v1/messages?beta=true", CLAUDE(CLAUDE_TURN, "") "true}", NULL},
    {"claude, a server's tool", "/v1/messages?beta=true",
     CLAUDE(CLAUDE_TURN,
            ", {\"type\": \"web_search_20250305\", \"name\": \"web_search\", "
            "\"max_uses\": 8}, {\"type\": \"bash_20250124\", \"name\": \"a\\r\\nb\"}") "false}",
     "tools: web_search_20250305 web_search, bash_20250124 a??b\r\n"},
    {"claude, a result", "/v1/messages?beta=true", CLAUDE(CLAUDE_TURN ", " CLAUDE_CALL, "") "true}",
     NULL},
    {"claude, a budget", "/v1/messages",
     "{\"model\": \"default\", \"max_tokens\": 2000, \"thinking\": {\"type\": \"enabled\", "
     "\"budget_tokens\": 1024}, \"speed\": \"fast\", \"output_config\": {\"effort\": \"max\", "
     "\"task_budget\": {\"type\": \"tokens\", \"total\": 50000}}, \"stop_sequences\": [\".\"], "
     "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}]}",
     NULL},
    {"codex", "/v1/responses", CODEX("", "true}"),
     "tools: custom apply_patch, namespace agents, tool_search, local_shell, web_search\r\n"},
    {"codex, a result", "/v1/responses", CODEX(CODEX_CALL, "false}"), "tools: custom apply_patch"},
    {"opencode", "/v1/chat/completions",
     "{\"model\": \"default\", \"max_tokens\": 32000, \"messages\": [{\"role\": \"system\", "
     "\"content\": \"You code.\"}, {\"role\": \"user\", \"content\": \"Name this:\"}, {\"role\": "
     "\"user\", \"content\": \"Write it.\"}, {\"role\": \"assistant\", \"content\": \"\", "
     "\"reasoning_content\": \"Hm.\", \"tool_calls\": [{\"id\": \"call_1\", \"type\": "
     "\"function\", \"function\": {\"name\": \"bash\", \"arguments\": \"{}\"}}]}, {\"role\": "
     "\"tool\", \"tool_call_id\": \"call_1\", \"content\": \"made\"}], " FUNCTION
     ", \"stream\": true, \"stream_options\": {\"include_usage\": true}}",
     NULL},
    {"aider", "/v1/chat/completions",
     "{\"model\": \"default\", \"temperature\": 0, \"stream\": true, \"messages\": [{\"role\": "
     "\"system\", \"content\": \"You code.\"}, {\"role\": \"user\", \"content\": \"Change it.\"}, "
     "{\"role\": \"assistant\", \"content\": \"Ok.\"}, {\"role\": \"user\", \"content\": "
     "\"Write it.\"}], \"max_tokens\": 6}",
     NULL},
    {"like Cline", "/v1/chat/completions",
     "{\"model\": \"default\", \"temperature\": 0, \"stream\": true, \"stream_options\": "
     "{\"include_usage\": true}, \"max_completion_tokens\": 6, \"reasoning_effort\": \"high\", "
     "\"messages\": [{\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": "
     "\"You code.\", \"cache_control\": {\"type\": \"ephemeral\"}}]}, {\"role\": \"user\", "
     "\"content\": [{\"type\": \"text\", \"text\": \"Task.\"}, {\"type\": \"text\", \"text\": "
     "\"Write it.\", \"cache_control\": {\"type\": \"ephemeral\"}}]}, {\"role\": \"assistant\", "
     "\"content\": \"Ok.\", \"reasoning_details\": [{\"type\": \"reasoning.text\"}]}, {\"role\": "
     "\"user\", \"content\": \"Go on.\"}], " FUNCTION "}",
     NULL},
    {"an editor with predictions, made for llama-server", "/v1/chat/completions",
     "{\"model\": \"default\", \"max_tokens\": 6, \"cache_prompt\": true, \"prediction\": "
     "{\"type\": \"content\", \"content\": \"Write it.\"}, \"messages\": [{\"role\": \"user\", "
     "\"content\": \"Write it.\"}]}",
     NULL},
    {"like Continue", "/v1/chat/completions",
     "{\"model\": \"default\", \"max_tokens\": 6, \"stream\": true, \"stop\": [\"zzz\"], "
     "\"store\": false, \"metadata\": {\"a\": \"b\"}, \"verbosity\": \"low\", \"service_tier\": "
     "\"flex\", \"parallel_tool_calls\": false, \"messages\": [{\"role\": \"user\", \"content\": "
     "\"Rules.\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Write "
     "it.\"}]}], \"tools\": [{\"type\": \"web_search_preview\"}]}",
     "tools: web_search_preview\r\n"},
};

/* The last line of the log. */
static char logged[1024];

static void keep_line(void *user, const char *line) {
    (void)user;
    snprintf(logged, sizeof logged, "%s", line);
}

static void check_left_out(const char *name, const char *head, const char *want) {
    const char *given = strstr(head, "mica-left-out: ");
    if (!want && given) fail_msg("%s: %s", name, given);
    if (want && (!given || strncmp(given + strlen("mica-left-out: "), want, strlen(want)) != 0))
        fail_msg("%s: %s", name, head);
}

/* Each is answered; what is left out of it stands in a header and in the log. */
static void test_requests(void **state) {
    (void)state;
    const mica_server_options options = {.struct_bytes = sizeof options, .log = keep_line};
    served s = served_open(&options);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        answer a = client_ask(s.server, "POST", requests[i].path, requests[i].body);
        if (a.status != 200 || strstr(a.body, "\"error\":{"))
            fail_msg("%s: %d %s", requests[i].name, a.status, a.body);
        check_left_out(requests[i].name, a.head, requests[i].left_out);
        answer_free(&a);
    }
    served_close(&s);
    assert_non_null(strstr(logged, ", left out: tools: web_search_preview"));
}

/* A tool that is left out cannot be asked for. */
static void test_choices(void **state) {
    (void)state;
#define LEFT "\"input\": \"a\", \"tools\": [{\"type\": \"web_search\"}], \"tool_choice\": "
    client_refused(shared.server, "/v1/responses", "{" LEFT "\"required\"}", 400, "invalid_value",
                   "tools");
    client_refused(shared.server, "/v1/responses", "{" LEFT "{\"type\": \"web_search\"}}", 400,
                   "invalid_value", "tool_choice");
#undef LEFT
}

/* The token that completes a stop string is counted once, whichever API is asked. */
static void test_stop_tokens(void **state) {
    (void)state;
#define HELLO \
    "\"messages\": [{\"role\": \"user\", \"content\": \"What is curl?\"}], \"temperature\": 0"
    static const struct {
        const char *path, *body, *tokens;
    } cases[] = {
        {"/v1/messages",
         "{\"model\": \"default\", \"max_tokens\": 40, \"stop_sequences\": "
         "[\"transferring\"], " HELLO "}",
         "usage.output_tokens"},
        {"/v1/chat/completions",
         "{\"max_tokens\": 40, \"stop\": \"transferring\", \"logprobs\": true, " HELLO "}",
         "usage.completion_tokens"},
        {"/api/chat",
         "{\"model\": \"default\", \"stream\": false, \"messages\": [{\"role\": \"user\", "
         "\"content\": \"What is curl?\"}], \"options\": {\"temperature\": 0, \"repeat_penalty\": "
         "1, \"num_predict\": 40, \"stop\": [\"transferring\"]}}",
         "eval_count"},
    };
#undef HELLO
    int64_t first = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mc_json_doc *doc = client_json(shared.server, "POST", cases[i].path, cases[i].body, 200);
        mc_json root = mc_json_root(doc);
        int64_t tokens = int_at(root, cases[i].tokens);
        if (i == 0) first = tokens;
        if (tokens != first) fail_msg("%s: %d of %d", cases[i].path, (int)tokens, (int)first);
        if (i == 1) assert_int_equal(mc_json_count(at(root, "choices.0.logprobs.content")), tokens);
        mc_json_close(&doc);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_stop_tokens),
    };
    return cmocka_run_group_tests(tests, served_open_shared, served_close_shared);
}
