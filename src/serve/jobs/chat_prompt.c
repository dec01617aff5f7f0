#include "serve/jobs/chat_prompt.h"

#include "serve/models/made.h"

#include "engine/model.h"

#include <string.h>

#define AT(member) offsetof(mc_chat_values, member)

const char mc_chat_efforts[] = "default none minimal low medium high xhigh max";

const mc_field mc_chat_fields[MC_CHAT_FIELDS] = {
    MC_FIELD_AT(
        JSON, "messages", AT(messages), .types = MC_FIELD_IS_ARRAY, .required = true,
        .help = "the conversation: role, content (text, or parts of type text), reasoning_content, "
                "tool_calls, tool_call_id, name; images and audio are refused"),
    MC_FIELD_AT(JSON, "chat_template_kwargs", AT(variables), .types = MC_FIELD_IS_OBJECT,
                .help = "variables of the chat template"),
    MC_FIELD_AT(CHOICE, "reasoning_effort", AT(effort), .choices = mc_chat_efforts,
                .help = "a variable of the chat template; none also sets enable_thinking to false. "
                        "A template that marks thoughts but lacks the variable: the thoughts' "
                        "budget, 1024 tokens for minimal and low, 8192 for medium, 24576 for high"),
    MC_FIELD_AT(BOOL, "add_generation_prompt", AT(turn), .initial = 1,
                .help = "begin the model's turn behind the messages"),
    MC_FIELD_AT(BOOL, "continue_final_message", AT(continues),
                .help =
                    "the answer continues the last message, the assistant's: its content, or its "
                    "thoughts if it has nothing else"),
};

mc_str mc_chat_effort(int effort) {
    if (effort == MC_EFFORT_DEFAULT) return (mc_str){NULL, 0};
    return mc_field_word(mc_chat_efforts, effort);
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

/* Whether all that the variables ask for is that nothing is thought, or how hard: an effort is
 * advice. */
static bool only_advises(const mc_chat_prompt *chat) {
    return chat->form->thinking != MC_PROMPT_THINKING_ON && !mc_json_count(chat->variables);
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

static bool is_system(mc_json message) {
    mc_str role = MC_STR("");
    mc_json_get_str(mc_json_find(message, "role"), &role);
    return mc_str_is(role, "system") || mc_str_is(role, "developer");
}

/* The messages behind the system prompt of the model that the request names, where they begin with
 * none: in `out`, which stays empty otherwise. false: no memory */
static bool add_system(const mc_exchange *http, const mc_buffer *messages, mc_buffer *out) {
    mc_json_doc *doc;
    if (!http->made || !*http->made->system) return true;
    if (mc_json_parse(messages->data, messages->len, "messages", &doc) != MICA_OK) return true;
    mc_json_iter it = mc_json_begin(mc_json_root(doc));
    mc_put put = mc_put_into(out);
    bool some = mc_json_next(&it), given = some && is_system(it.value);
    if (!given) {
        mc_put_open(&put, NULL, '[');
        mc_put_open(&put, NULL, '{');
        mc_put_text(&put, "role", "system");
        mc_put_text(&put, "content", http->made->system);
        mc_put_close(&put, '}');
        for (; some; some = mc_json_next(&it))
            mc_put_value(&put, NULL, it.value);
        mc_put_close(&put, ']');
    }
    mc_json_close(&doc);
    return !put.failed;
}

/* errors  those of mc_model_render_json */
static mica_status render(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                          mc_buffer *text) {
    mc_buffer variables = {0}, tools = {0}, messages = {0};
    mc_prompt_request request = {
        .messages = chat->messages.data,
        .messages_len = chat->messages.len,
        .open = chat->open,
        .continue_last = chat->continues,
        .in_thoughts = chat->in_thoughts,
        .cancel = &http->cancel,
    };
    bool made = add_system(http, &chat->messages, &messages) && put_variables(chat, &variables) &&
                mc_buffer_add(&tools, chat->form->tools_text.data, chat->form->tools_text.len) &&
                mc_buffer_cstr(&tools);
    if (made && has_variables(chat)) request.variables = variables.data;
    if (made && tools.len) request.tools = tools.data;
    if (messages.len) {
        request.messages = messages.data;
        request.messages_len = messages.len;
    }
    mica_status status = made ? MICA_OK : mc_fail_nomem("a prompt");
    if (status == MICA_OK) status = mc_model_render_json(model, &request, text);
    if (status == MICA_EUNSUPPORTED && request.variables && only_advises(chat)) {
        request.variables = NULL;
        status = mc_model_render_json(model, &request, text);
    }
    mc_buffer_deinit(&variables);
    mc_buffer_deinit(&tools);
    mc_buffer_deinit(&messages);
    return status;
}

/* Whether a chat template has a word, as those with roles of their own do. */
static bool has_word(mc_str template, mc_str word) {
    for (size_t i = 0; word.len > 0 && i + word.len <= template.len; i++)
        if (memcmp(template.ptr + i, word.ptr, word.len) == 0) return true;
    return false;
}

static bool is_role(mc_str role, mc_str template) {
    static const char *const roles[] = {"user",      "assistant", "system",
                                        "developer", "tool",      "function"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (mc_str_is(role, roles[i])) return true;
    return has_word(template, role);
}

/* A template may leave messages of a role that it does not know out, or say something else. */
static bool check_roles(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat) {
    mc_json_doc *doc;
    size_t i = 0;
    if (mc_json_parse(chat->messages.data, chat->messages.len, "messages", &doc) != MICA_OK)
        return true; /* which is told where they are rendered */
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); i++) {
        mc_str role;
        if (!mc_json_get_str(mc_json_find(it.value, "role"), &role) ||
            is_role(role, mc_model_template(model)))
            continue;
        char place[40];
        snprintf(place, sizeof place, "messages[%zu]", i);
        mc_failure_role(&http->failure, chat->field ? chat->field : "messages", place, role,
                        "system, user, assistant or tool");
    }
    mc_json_close(&doc);
    return !http->failure.status;
}

bool mc_chat_prompt_text(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                         mc_buffer *text) {
    if (!check_roles(http, model, chat)) return false;
    mica_status status = render(http, model, chat, text);
    return status == MICA_OK ||
           mc_failure_of(&http->failure, status, chat->field ? chat->field : "messages");
}

/* ---- marks ---- */

/* Marks that are this close save nothing: a block of the cache has more tokens. */
enum { MIN_DISTANCE = 8 };

static bool has_windows(const mica_model *model) {
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(model, &info);
    return info.sliding_window > 0;
}

/* From the end on, for conversations part there more often; one place is left. */
static void mark_messages(const mica_tokenizer *tokenizer, mc_completion_prompt *prompt) {
    size_t last = prompt->n;
    prompt->marks[prompt->n_marks++] = (int64_t)last;
    for (size_t at = prompt->n; at > 0 && prompt->n_marks < MC_PROMPT_MARKS - 1; at--) {
        if (last - at < MIN_DISTANCE || !mica_tokenizer_is_special(tokenizer, prompt->ids[at - 1]))
            continue;
        last = at;
        prompt->marks[prompt->n_marks++] = (int64_t)at;
    }
}

/* Writes the system messages at the beginning of a conversation, and a user's message without a
 * text. Returns how many there are; -1: no memory. */
static int64_t put_beginning(mc_json messages, mc_buffer *out) {
    int64_t count = 0;
    mc_put put = mc_put_into(out);
    mc_put_open(&put, NULL, '[');
    for (mc_json_iter it = mc_json_begin(messages); mc_json_next(&it) && is_system(it.value);
         count++)
        mc_put_value(&put, NULL, it.value);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "role", "user");
    mc_put_text(&put, "content", "");
    mc_put_close(&put, '}');
    mc_put_close(&put, ']');
    return put.failed ? -1 : count;
}

/* Marks how many of the prompt's tokens a beginning of its text has. */
static void mark_beginning(const mica_tokenizer *tokenizer, mc_str beginning,
                           mc_completion_prompt *prompt) {
    int32_t *ids;
    size_t n, same = 0;
    if (mica_tokenizer_encode(tokenizer, beginning.ptr, beginning.len, false, &ids, &n) != MICA_OK)
        return;
    while (same < n && same < prompt->n && ids[same] == prompt->ids[same])
        same++;
    mica_free(ids);
    prompt->marks[prompt->n_marks++] = (int64_t)same;
}

/* What is rendered before the text of the user's first message, is before that of others, too. */
static void mark_system(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                        mc_str text, mc_completion_prompt *prompt) {
    mc_json_doc *doc;
    mc_buffer other = {0};
    size_t same = 0;
    mc_chat_prompt beginning = *chat;
    beginning.messages = (mc_buffer){0};
    beginning.open = true;
    beginning.continues = false;
    beginning.in_thoughts = NULL;
    if (mc_json_parse(chat->messages.data, chat->messages.len, "messages", &doc) != MICA_OK) return;
    int64_t count = put_beginning(mc_json_root(doc), &beginning.messages);
    mc_json_close(&doc);
    if ((count > 0 || (count == 0 && chat->form->tools_text.len)) &&
        render(http, model, &beginning, &other) == MICA_OK) {
        while (same < other.len && same < text.len && other.data[same] == text.ptr[same])
            same++;
        mark_beginning(mica_model_tokenizer(model), (mc_str){text.ptr, same}, prompt);
    }
    mc_buffer_deinit(&beginning.messages);
    mc_buffer_deinit(&other);
}

/* Sets the prompt's marks, from its ids: the last ends of messages, which are where the chat format
 * has special tokens, the end of the prompt, and the end of the system prompt and the tools, which
 * may be in the middle of a message. What fails leaves fewer marks: they only save time. */
static void find_marks(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                       mc_str text, mc_completion_prompt *prompt) {
    prompt->n_marks = 0;
    if (!has_windows(model)) return;
    mark_messages(mica_model_tokenizer(model), prompt);
    mark_system(http, model, chat, text, prompt);
}

/* ---- ids ---- */

bool mc_chat_prompt_encode(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                           mc_completion_prompt *prompt) {
    mc_buffer text = {0};
    bool done = mc_chat_prompt_text(http, model, chat, &text);
    if (done) {
        mica_status status =
            mica_tokenizer_encode(mica_model_tokenizer(model), text.data ? text.data : "", text.len,
                                  false, &prompt->ids, &prompt->n);
        done = status == MICA_OK || mc_failure_of(&http->failure, status, NULL);
        if (done) find_marks(http, model, chat, (mc_str){text.data, text.len}, prompt);
    }
    mc_buffer_deinit(&text);
    return done;
}

bool mc_chat_prompt_prepare(mc_completion *job, mc_chat_prompt *chat) {
    mc_exchange *http = job->http;
    mc_answer_form *form = &job->form;
    const mica_model *model = job->served->model;
    mc_completion_prompt *prompt = &job->prompts[0];
    const mc_session_model *local; /* other engines have no constraints */
    chat->form = form;
    chat->in_thoughts = &form->in_thoughts;
    if (form->left_out[0]) mc_exchange_leave_out(http, form->left_out);
    if (!mc_answer_form_prepare(form, model, &http->failure)) return false;
    if (mc_model_local(model, &local) == MICA_OK)
        mc_answer_form_limit(form, mc_model_template(model), chat->effort);
    return mc_chat_prompt_encode(http, model, chat, prompt) &&
           mc_answer_form_compile(form, model, prompt->ids, prompt->n, &http->failure);
}
