#include "serve/talk.h"

#include "serve/put.h"
#include "task/model.h"

#include <string.h>

#define AT(member) offsetof(mc_talk, member)

const char mc_talk_efforts[] = "default none minimal low medium high xhigh";
enum { EFFORT_DEFAULT, EFFORT_NONE };

const mc_field mc_talk_fields[MC_TALK_FIELDS] = {
    {.name = "messages",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_ARRAY,
     .required = true,
     .offset = AT(messages),
     .help = "the conversation: role, content (text, or parts of type text), reasoning_content, "
             "tool_calls, tool_call_id, name; images and audio are refused"},
    {.name = "tools",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_ARRAY,
     .offset = AT(tools),
     .help = "functions that the model may call, as the chat template shows them"},
    {.name = "chat_template_kwargs",
     .kind = MC_FIELD_JSON,
     .types = MC_FIELD_IS_OBJECT,
     .offset = AT(variables),
     .help = "variables of the chat template"},
    {.name = "reasoning_effort",
     .kind = MC_FIELD_CHOICE,
     .choices = mc_talk_efforts,
     .offset = AT(effort),
     .help = "a variable of the chat template; none also sets enable_thinking to false"},
    {.name = "add_generation_prompt",
     .kind = MC_FIELD_BOOL,
     .initial = 1,
     .offset = AT(turn),
     .help = "begin the model's turn behind the messages"},
    {.name = "continue_final_message",
     .kind = MC_FIELD_BOOL,
     .offset = AT(continue_last),
     .help = "the answer continues the last message, the assistant's"},
};

/* What a request to the template is made of. */
typedef struct parts {
    mc_buffer messages, variables, tools;
} parts;

static void free_parts(parts *p) {
    mc_buffer_deinit(&p->messages);
    mc_buffer_deinit(&p->variables);
    mc_buffer_deinit(&p->tools);
}

mc_str mc_talk_effort(int effort) {
    const char *at = mc_talk_efforts;
    for (int i = 0; i < effort; i++)
        at += strcspn(at, " ") + 1;
    return (mc_str){at, strcspn(at, " ")};
}

/* The template's variables, with the effort of reasoning among them. */
static bool put_variables(const mc_talk *conversation, mc_buffer *out) {
    mc_put put = mc_put_into(out);
    mc_put_open(&put, NULL, '{');
    if (conversation->effort != EFFORT_DEFAULT)
        mc_put_str(&put, "reasoning_effort", mc_talk_effort(conversation->effort));
    if (conversation->effort == EFFORT_NONE) mc_put_bool(&put, "enable_thinking", false);
    for (mc_json_iter it = mc_json_begin(conversation->variables); mc_json_next(&it);)
        mc_put_member(&put, it.key, it.value);
    mc_put_close(&put, '}');
    return !put.failed && mc_buffer_cstr(out);
}

static bool put_json(mc_json value, mc_buffer *out) {
    mc_put put = mc_put_into(out);
    mc_put_value(&put, NULL, value);
    return !put.failed && mc_buffer_cstr(out);
}

static mica_status make_request(const mc_talk *conversation, const mica_cancel *cancel, parts *p,
                                mc_prompt_request *request) {
    bool variables =
        conversation->effort != EFFORT_DEFAULT || mc_json_count(conversation->variables) > 0;
    bool tools = mc_json_count(conversation->tools) > 0;
    if (!put_json(conversation->messages, &p->messages) ||
        (variables && !put_variables(conversation, &p->variables)) ||
        (tools && !put_json(conversation->tools, &p->tools)))
        return mc_fail_nomem("a conversation");
    *request = (mc_prompt_request){
        .messages = p->messages.data,
        .messages_len = p->messages.len,
        .tools = tools ? p->tools.data : NULL,
        .variables = variables ? p->variables.data : NULL,
        .open = !conversation->turn,
        .continue_last = conversation->continue_last,
        .cancel = cancel,
    };
    return MICA_OK;
}

bool mc_talk_text(const mc_talk *conversation, const mica_model *model, const mica_cancel *cancel,
                  mc_buffer *text, mc_failure *failure) {
    parts p = {0};
    mc_prompt_request request;
    mica_status status = make_request(conversation, cancel, &p, &request);
    if (status == MICA_OK) status = mc_model_render_json(model, &request, text);
    free_parts(&p);
    return status == MICA_OK || mc_failure_of(failure, status, "messages");
}

bool mc_talk_ids(const mc_talk *conversation, const mica_model *model, const mica_cancel *cancel,
                 int32_t **ids, size_t *n, mc_failure *failure) {
    parts p = {0};
    mc_prompt_request request;
    mica_status status = make_request(conversation, cancel, &p, &request);
    if (status == MICA_OK) status = mc_model_chat_json(model, &request, ids, n);
    free_parts(&p);
    return status == MICA_OK || mc_failure_of(failure, status, "messages");
}
