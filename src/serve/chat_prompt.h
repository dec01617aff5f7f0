/* The prompt of a conversation, whose messages an endpoint has made what chat templates take
 * (text/chat/chat_json.h). Threads: any. */
#ifndef SERVE_CHAT_PROMPT_H
#define SERVE_CHAT_PROMPT_H

#include "serve/answer_form.h"
#include "serve/completion.h"

typedef struct mc_chat_prompt {
    mc_buffer messages;         /* a JSON array */
    bool continues;             /* the answer continues the last message, the assistant's */
    const mc_answer_form *form; /* prepared: its tools, and the template's enable_thinking */
    mc_str effort;              /* the template's reasoning_effort; ptr NULL: not set */
} mc_chat_prompt;

/* Turns it to token ids, freed with mica_free. A family's built-in chat format, which has no
 * variables, is fine where thinking is off: none of them thinks.
 * returns  false: http->failure says why */
bool mc_chat_prompt_encode(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                           mc_completion_prompt *prompt);

#endif
