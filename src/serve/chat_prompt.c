#include "serve/chat_prompt.h"

#include "task/model.h"

#include <string.h>

#define AT(member) offsetof(mc_chat_values, member)

const char mc_chat_efforts[] = "default none minimal low medium high xhigh max";

const mc_field mc_chat_fields[MC_CHAT_FIELDS] = {
    {.name = "messages",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_ARRAY,
     .required = true,
     .offset = AT(messages),
     .help = "the conversation: role, content (text, or parts of type text), reasoning_content, "
             "tool_calls, tool_call_id, name; images and audio are refused"},
    {.name = "chat_template_kwargs",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_OBJECT,
     .offset = AT(variables),
     .help = "variables of the chat template"},
    {.name = "reasoning_effort",
     .kind = MC_FIELD_CHOICE,
     .choices = mc_chat_efforts,
     .offset = AT(effort),
     .help = "a variable of the chat template; none also sets enable_thinking to false"},
    {.name = "add_generation_prompt",
     .kind = MC_FIELD_BOOL,
     .initial = 1,
     .offset = AT(turn),
     .help = "begin the model's turn behind the messages"},
    {.name = "continue_final_message",
     .kind = MC_FIELD_BOOL,
     .offset = AT(continues),
     .help = "the answer continues the last message, the assistant's"},
};

mc_str mc_chat_effort(int effort) {
    const char *at = mc_chat_efforts;
    if (effort == MC_EFFORT_DEFAULT) return (mc_str){NULL, 0};
    for (int i = 0; i < effort; i++)
        at += strcspn(at, " ") + 1;
    return (mc_str){at, strcspn(at, " ")};
}

bool mc_chat_prompt_set(mc_chat_prompt *chat, const mc_chat_values *values, mc_failure *failure) {
    *chat = (mc_chat_prompt){.variables = values->variables,
                             .effort = mc_chat_effort(values->effort),
                             .open = !values->turn,
                             .continues = values->continues};
    mc_put put = mc_put_into(&chat->messages);
    mc_put_value(&put, NULL, values->messages);
    return !put.failed || mc_failure_of(failure, mc_fail_nomem("a conversation"), NULL);
}

/* ---- variables ---- */

static bool has_variables(const mc_chat_prompt *chat) {
    return chat->effort.ptr || mc_json_count(chat->variables) > 0 ||
           chat->form->thinking != MC_PROMPT_THINKING_DEFAULT;
}

/* Whether all that the variables ask for is that nothing is thought. */
static bool only_turns_off(const mc_chat_prompt *chat) {
    return chat->form->thinking == MC_PROMPT_THINKING_OFF && !mc_json_count(chat->variables) &&
           (!chat->effort.ptr || mc_str_eq(chat->effort, mc_chat_effort(MC_EFFORT_NONE)));
}

static bool put_variables(const mc_chat_prompt *chat, mc_buffer *out) {
    mc_put put = mc_put_into(out);
    mc_put_open(&put, NULL, '{');
    if (chat->effort.ptr) mc_put_str(&put, "reasoning_effort", chat->effort);
    if (chat->form->thinking != MC_PROMPT_THINKING_DEFAULT)
        mc_put_bool(&put, "enable_thinking", chat->form->thinking == MC_PROMPT_THINKING_ON);
    for (mc_json_iter it = mc_json_begin(chat->variables); mc_json_next(&it);)
        mc_put_member(&put, it.key, it.value);
    mc_put_close(&put, '}');
    return !put.failed && mc_buffer_cstr(out);
}

/* ---- prompts ---- */

bool mc_chat_prompt_text(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                         mc_buffer *text) {
    mc_buffer variables = {0}, tools = {0};
    mc_prompt_request request = {
        .messages = chat->messages.data,
        .messages_len = chat->messages.len,
        .open = chat->open,
        .continue_last = chat->continues,
        .cancel = &http->cancel,
    };
    bool made = put_variables(chat, &variables) &&
                mc_buffer_add(&tools, chat->form->tools_text.data, chat->form->tools_text.len) &&
                mc_buffer_cstr(&tools);
    if (made && has_variables(chat)) request.variables = variables.data;
    if (made && tools.len) request.tools = tools.data;
    mica_status status = made ? MICA_OK : mc_fail_nomem("a prompt");
    if (status == MICA_OK) status = mc_model_render_json(model, &request, text);
    if (status == MICA_EUNSUPPORTED && only_turns_off(chat)) {
        request.variables = NULL;
        status = mc_model_render_json(model, &request, text);
    }
    mc_buffer_deinit(&variables);
    mc_buffer_deinit(&tools);
    return status == MICA_OK ||
           mc_failure_of(&http->failure, status, chat->field ? chat->field : "messages");
}

bool mc_chat_prompt_encode(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                           mc_completion_prompt *prompt) {
    mc_buffer text = {0};
    bool done = mc_chat_prompt_text(http, model, chat, &text);
    if (done) {
        mica_status status =
            mica_tokenizer_encode(mica_model_tokenizer(model), text.data ? text.data : "", text.len,
                                  false, &prompt->ids, &prompt->n);
        done = status == MICA_OK || mc_failure_of(&http->failure, status, NULL);
    }
    mc_buffer_deinit(&text);
    return done;
}

bool mc_chat_prompt_prepare(mc_completion *job, mc_chat_prompt *chat) {
    mc_exchange *http = job->http;
    mc_answer_form *form = &job->form;
    const mica_model *model = job->served->model;
    mc_completion_prompt *prompt = &job->prompts[0];
    chat->form = form;
    return mc_answer_form_prepare(form, model, &http->failure) &&
           mc_chat_prompt_encode(http, model, chat, prompt) &&
           mc_answer_form_compile(form, model, prompt->ids, prompt->n, &http->failure);
}
