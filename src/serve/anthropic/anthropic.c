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
    {.name = "type",
     .kind = MC_FIELD_CHOICE,
     .required = true,
     .choices = "disabled enabled adaptive between_tools",
     .initial = NOT_GIVEN,
     .offset = AT(thinking),
     .help = "the chat template's enable_thinking; enabled needs budget_tokens, adaptive has none. "
             "Advice: a model whose template marks no thoughts has none. between_tools is refused"},
    {.name = "budget_tokens",
     .kind = MC_FIELD_INT,
     .min = 1024,
     .max = INT32_MAX,
     .offset = AT(thinking_budget),
     .help = "after so many tokens thinking ends; below max_tokens"},
    {.name = "display",
     .kind = MC_FIELD_ONLY,
     .choices = "\"summarized\"",
     .help = "thoughts are sent as they are"},
};

static const mc_field choice_fields[] = {
    {.name = "type",
     .kind = MC_FIELD_CHOICE,
     .required = true,
     .choices = "auto any tool none",
     .offset = AT(choice),
     .help = "any and tool are forced by a grammar, by which arguments keep to their schema"},
    {.name = "name",
     .kind = MC_FIELD_TEXT,
     .offset = AT(tool),
     .help = "the tool that must be called, of type tool"},
    {.name = "disable_parallel_tool_use",
     .kind = MC_FIELD_BOOL,
     .offset = AT(single),
     .help = "at most one call: the first"},
};

static const mc_field output_fields[] = {
    {.name = "effort",
     .kind = MC_FIELD_CHOICE,
     .choices = efforts,
     .initial = NOT_GIVEN,
     .offset = AT(effort),
     .help = "reasoning_effort, a variable of the chat template: advice"},
    {.name = "format",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_OBJECT,
     .offset = AT(format),
     .help = "type json_schema, schema: the answer satisfies it. What mica does not support of a "
             "schema is refused"},
    {.name = "task_budget", .kind = MC_FIELD_NOTED, .help = "advice of how long a task may be"},
};

enum { PROMPT_FIELDS = 16 };
static const mc_field prompt_fields[PROMPT_FIELDS] = {
    {.name = "model",
     .kind = MC_FIELD_TEXT,
     .required = true,
     .offset = AT(model),
     .help = "the model's name"},
    {.name = "messages",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_ARRAY,
     .required = true,
     .offset = AT(messages),
     .help = "the conversation: role, content (text, or blocks of type text, thinking, tool_use, "
             "tool_result); images and documents are refused. The answer continues a last message "
             "of the assistant"},
    {.name = "system",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
     .offset = AT(system),
     .help = "the system prompt: text, or blocks of type text"},
    {.name = "thinking", .kind = MC_FIELD_OBJECT, .fields = thinking_fields, .count = 3},
    {.name = "output_config", .kind = MC_FIELD_OBJECT, .fields = output_fields, .count = 3},
    {.name = "tools",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_ARRAY,
     .offset = AT(tools),
     .help = "name, description, input_schema, strict. Tools of types other than custom, and those "
             "that only code may call, are left out, which the header mica-left-out and the log "
             "tell. A chat template without a place for tools has them in its system message"},
    {.name = "tool_choice", .kind = MC_FIELD_OBJECT, .fields = choice_fields, .count = 3},
    {.name = "cache_control",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_OBJECT,
     .offset = AT(cache_control),
     .help = "type ephemeral, ttl 5m or 1h: prompts are kept without it, so it changes nothing"},
    {.name = "speed",
     .kind = MC_FIELD_ONLY,
     .choices = "\"standard\" \"fast\"",
     .help = "there is one speed"},
    {.name = "user_profile_id", .kind = MC_FIELD_REFUSED, .help = "there are no profiles of users"},
    {.name = "mcp_servers", .kind = MC_FIELD_ONLY, .choices = "[]", .help = "nothing is called"},
    {.name = "context_management",
     .kind = MC_FIELD_NOTED,
     .help = "advice of what to leave out of long conversations, which are read whole"},
    {.name = "compaction", .kind = MC_FIELD_NOTED, .help = "the same"},
    {.name = "billing_policy", .kind = MC_FIELD_NOTED, .help = "nothing is billed"},
    {.name = "thread", .kind = MC_FIELD_REFUSED, .help = "there are no threads"},
    {.name = "output_format",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_OBJECT,
     .offset = AT(older_format),
     .help = "the same as output_config.format"},
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
    {.method = "POST",
     .path = "/v1/messages",
     .api = MC_API_ANTHROPIC,
     .query = "beta",
     .handle = mc_anthropic_messages,
     .tables = {{prompt_fields, PROMPT_FIELDS, 0},
                {mc_anthropic_message_fields, MC_ANTHROPIC_MESSAGE_FIELDS, 0}},
     .help = "an answer to a conversation. Its stop_reason is end_turn, tool_use, stop_sequence, "
             "max_tokens, or model_context_window_exceeded. It may be asked with the query "
             "beta=true, as newer clients do"},
    {.method = "POST",
     .path = "/v1/messages/count_tokens",
     .api = MC_API_ANTHROPIC,
     .query = "beta",
     .handle = count_tokens,
     .tables = {{prompt_fields, PROMPT_FIELDS, 0}},
     .help = "the number of tokens of a conversation's prompt"},
};

const mc_endpoint_list mc_endpoints_anthropic = {"Anthropic", endpoints,
                                                 sizeof endpoints / sizeof *endpoints};
