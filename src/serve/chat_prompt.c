#include "serve/chat_prompt.h"

#include "task/model.h"

/* The variables of the chat template. */
static bool put_variables(const mc_chat_prompt *chat, mc_buffer *out) {
    mc_put put = mc_put_into(out);
    mc_put_open(&put, NULL, '{');
    if (chat->effort.ptr) mc_put_str(&put, "reasoning_effort", chat->effort);
    if (chat->form->thinking != MC_PROMPT_THINKING_DEFAULT)
        mc_put_bool(&put, "enable_thinking", chat->form->thinking == MC_PROMPT_THINKING_ON);
    mc_put_close(&put, '}');
    return !put.failed && mc_buffer_cstr(out);
}

bool mc_chat_prompt_encode(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                           mc_completion_prompt *prompt) {
    mc_buffer variables = {0};
    bool given = chat->effort.ptr || chat->form->thinking != MC_PROMPT_THINKING_DEFAULT;
    mc_prompt_request request = {
        .messages = chat->messages.data,
        .messages_len = chat->messages.len,
        .tools = chat->form->tools_text.len ? chat->form->tools_text.data : NULL,
        .continue_last = chat->continues,
        .cancel = &http->cancel,
    };
    mica_status status = put_variables(chat, &variables) ? MICA_OK : mc_fail_nomem("a prompt");
    if (given) request.variables = variables.data;
    if (status == MICA_OK) status = mc_model_chat_json(model, &request, &prompt->ids, &prompt->n);
    if (status == MICA_EUNSUPPORTED && !chat->effort.ptr &&
        chat->form->thinking == MC_PROMPT_THINKING_OFF) {
        request.variables = NULL;
        status = mc_model_chat_json(model, &request, &prompt->ids, &prompt->n);
    }
    mc_buffer_deinit(&variables);
    return status == MICA_OK || mc_failure_of(&http->failure, status, "messages");
}
