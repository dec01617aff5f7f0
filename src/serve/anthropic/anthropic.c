/* Anthropic's endpoints, and what they share. */
#include "serve/anthropic/anthropic.h"

#include "serve/anthropic/conversation.h"
#include "serve/anthropic/tools.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/chat_prompt.h"
#include "serve/jobs/state.h"

#include <string.h>

#define AT(member) offsetof(mc_anthropic_prompt, member)

static const char efforts[] = "low medium high xhigh max";
enum { NOT_GIVEN = -1 };
enum { THINKING_DISABLED, THINKING_ENABLED, THINKING_ADAPTIVE, THINKING_BETWEEN };
enum { CHOICE_AUTO, CHOICE_ANY, CHOICE_TOOL, CHOICE_NONE };

static const mc_field thinking_fields[] = {
    MC_FIELD_AT(
        CHOICE, "type", AT(thinking), .required = true,
        .choices = "disabled enabled adaptive between_tools", .initial = NOT_GIVEN,
        .help =
            "the chat template's enable_thinking; enabled needs budget_tokens, adaptive has none. "
            "Advice: a model whose template marks no thoughts has none. between_tools is refused"),
    MC_FIELD_AT(INT, "budget_tokens", AT(thinking_budget), .min = 1024, .max = INT32_MAX,
                .help = "after so many tokens thinking ends; below max_tokens"),
    MC_FIELD(ONLY, "display", .choices = "\"summarized\"", .help = "thoughts are sent as they are"),
};

static const mc_field choice_fields[] = {
    MC_FIELD_AT(
        CHOICE, "type", AT(choice), .required = true, .choices = "auto any tool none",
        .help = "any and tool are forced by a grammar, by which arguments keep to their schema"),
    MC_FIELD_AT(TEXT, "name", AT(tool), .help = "the tool that must be called, of type tool"),
    MC_FIELD_AT(BOOL, "disable_parallel_tool_use", AT(single),
                .help = "at most one call: the first"),
};

static const mc_field output_fields[] = {
    MC_FIELD_AT(CHOICE, "effort", AT(effort), .choices = efforts, .initial = NOT_GIVEN,
                .help = "reasoning_effort, a variable of the chat template: advice"),
    MC_FIELD_AT(JSON, "format", AT(format), .types = MC_FIELD_IS_OBJECT,
                .help = "type json_schema, schema: the answer satisfies it. What mica does not "
                        "support of a schema is refused"),
    MC_FIELD(NOTED, "task_budget", .help = "advice of how long a task may be"),
};

enum { PROMPT_FIELDS = 16 };
static const mc_field prompt_fields[PROMPT_FIELDS] = {
    MC_FIELD_AT(TEXT, "model", AT(model), .required = true, .help = "the model's name"),
    MC_FIELD_AT(JSON, "messages", AT(messages), .types = MC_FIELD_IS_ARRAY, .required = true,
                .help = "the conversation: role, content (text, or blocks of type text, thinking, "
                        "tool_use, tool_result); images and documents are refused. The answer "
                        "continues a last message of the assistant"),
    MC_FIELD_AT(JSON, "system", AT(system), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .help = "the system prompt: text, or blocks of type text"),
    MC_FIELD(OBJECT, "thinking", .fields = thinking_fields, .count = 3),
    MC_FIELD(OBJECT, "output_config", .fields = output_fields, .count = 3),
    MC_FIELD_AT(
        JSON, "tools", AT(tools), .types = MC_FIELD_IS_ARRAY,
        .help =
            "name, description, input_schema, strict. Tools of types other than custom, and those "
            "that only code may call, are left out, which the header mica-left-out and the log "
            "tell. A chat template without a place for tools has them in its system message"),
    MC_FIELD(OBJECT, "tool_choice", .fields = choice_fields, .count = 3),
    MC_FIELD_AT(
        JSON, "cache_control", AT(cache_control), .types = MC_FIELD_IS_OBJECT,
        .help = "type ephemeral, ttl 5m or 1h: prompts are kept without it, so it changes nothing"),
    MC_FIELD(ONLY, "speed", .choices = "\"standard\" \"fast\"", .help = "there is one speed"),
    MC_FIELD(REFUSED, "user_profile_id", .help = "there are no profiles of users"),
    MC_FIELD(ONLY, "mcp_servers", .choices = "[]", .help = "nothing is called"),
    MC_FIELD(NOTED, "context_management",
             .help = "advice of what to leave out of long conversations, which are read whole"),
    MC_FIELD(NOTED, "compaction", .help = "the same"),
    MC_FIELD(NOTED, "billing_policy", .help = "nothing is billed"),
    MC_FIELD(REFUSED, "thread", .help = "there are no threads"),
    MC_FIELD_AT(JSON, "output_format", AT(older_format), .types = MC_FIELD_IS_OBJECT,
                .help = "the same as output_config.format"),
};

static bool check_thinking(const mc_anthropic_prompt *values, mc_failure *failure) {
    bool budget = values->thinking_budget > 0, enabled = values->thinking == THINKING_ENABLED;
    if (values->thinking == THINKING_BETWEEN)
        return mc_failure_set(failure, 400, "unsupported_value", "thinking.type",
                              "thinking.type: between_tools is not supported");
    if (enabled != budget)
        return mc_failure_set(failure, 400, "invalid_value", "thinking.budget_tokens",
                              "thinking.budget_tokens: want it with type enabled, and only there");
    return true;
}

static bool check_choice(const mc_anthropic_prompt *values, mc_failure *failure) {
    bool named = values->tool.ptr;
    if (named != (values->choice == CHOICE_TOOL) || values->tool.len >= MC_TOOL_NAME ||
        (named && memchr(values->tool.ptr, '\0', values->tool.len)))
        return mc_failure_set(
            failure, 400, "invalid_value", "tool_choice.name",
            "tool_choice.name: want a tool's name with type tool, and only there");
    return true;
}

/* Finds the schema of the document that the answer must be; NONE: it is none. */
static bool find_schema(const mc_anthropic_prompt *values, mc_answer_form *form,
                        mc_failure *failure) {
    bool older = !mc_json_exists(values->format);
    mc_json format = older ? values->older_format : values->format;
    const char *name = older ? "output_format" : "output_config.format";
    mc_str type;
    form->fields[2] = name;
    if (!mc_json_exists(format)) return true;
    for (mc_json_iter it = mc_json_begin(format); mc_json_next(&it);)
        if (!mc_str_is(it.key, "type") && !mc_str_is(it.key, "schema"))
            return mc_failure_set(failure, 400, "unknown_field", name,
                                  "%s: want type and schema, and nothing else", name);
    if (!mc_json_get_str(mc_json_find(format, "type"), &type) || !mc_str_is(type, "json_schema"))
        return mc_failure_set(failure, 400, "invalid_value", name, "%s.type: want json_schema",
                              name);
    form->schema = mc_json_find(format, "schema");
    return mc_json_exists(form->schema) ||
           mc_failure_set(failure, 400, "missing_field", name, "%s.schema is missing", name);
}

/* Sets what the answer may be. */
static bool read_form(const mc_anthropic_prompt *values, mc_answer_form *form,
                      mc_failure *failure) {
    static const mc_tool_choice choices[] = {MC_TOOLS_AUTO, MC_TOOLS_REQUIRED, MC_TOOLS_REQUIRED,
                                             MC_TOOLS_NONE};
    *form = (mc_answer_form){.choice = choices[values->choice],
                             .single = values->single,
                             .limited = values->thinking_budget > 0,
                             .budget = values->thinking_budget,
                             .advised = true,
                             .fields = {"tools", "thinking.type"}};
    if (values->thinking == THINKING_DISABLED)
        form->thinking = MC_PROMPT_THINKING_OFF;
    else if (values->thinking != NOT_GIVEN)
        form->thinking = MC_PROMPT_THINKING_ON;
    if (values->tool.len) memcpy(form->tool, values->tool.ptr, values->tool.len);
    return check_thinking(values, failure) && check_choice(values, failure) &&
           mc_anthropic_check_cache(values->cache_control, "cache_control", failure) &&
           find_schema(values, form, failure) && mc_anthropic_tools(values->tools, form, failure);
}

bool mc_anthropic_read(const mc_anthropic_prompt *values, mc_answer_form *form,
                       mc_chat_prompt *chat, mc_failure *failure) {
    *chat = (mc_chat_prompt){.form = form};
    if (values->effort != NOT_GIVEN) chat->effort = mc_field_word(efforts, values->effort);
    return read_form(values, form, failure) &&
           mc_anthropic_conversation(values->system, values->messages, &chat->messages,
                                     &chat->continues, failure);
}

static bool count_tokens(mc_exchange *http) {
    mc_anthropic_prompt values;
    mc_completion_prompt prompt = {0};
    mc_answer_form form = {0};
    mc_chat_prompt chat = {.field = NULL};
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.model);
    bool done = served && mc_anthropic_read(&values, &form, &chat, &http->failure) &&
                mc_answer_form_prepare(&form, served->model, &http->failure) &&
                mc_chat_prompt_encode(http, served->model, &chat, &prompt);
    mc_answer_form_deinit(&form);
    mc_buffer_deinit(&chat.messages);
    mica_free(prompt.ids);
    if (!done) return false;
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_int(&put, "input_tokens", (int64_t)prompt.n);
    mc_put_close(&put, '}');
    return mc_exchange_send(http, &put);
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("POST", "/v1/messages", mc_anthropic_messages, .api = MC_API_ANTHROPIC,
                .query = "beta",
                .tables = {{prompt_fields, PROMPT_FIELDS, 0},
                           {mc_anthropic_message_fields, MC_ANTHROPIC_MESSAGE_FIELDS, 0}},
                .help = "an answer to a conversation. Its stop_reason is end_turn, tool_use, "
                        "stop_sequence, max_tokens, or model_context_window_exceeded. It may be "
                        "asked with the query beta=true, as newer clients do"),
    MC_ENDPOINT("POST", "/v1/messages/count_tokens", count_tokens, .api = MC_API_ANTHROPIC,
                .query = "beta", .tables = {{prompt_fields, PROMPT_FIELDS, 0}},
                .help = "the number of tokens of a conversation's prompt"),
};

const mc_endpoint_list mc_endpoints_anthropic = {"Anthropic", endpoints,
                                                 sizeof endpoints / sizeof *endpoints};
