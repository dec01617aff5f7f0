/* What Anthropic's endpoints share: the fields of a conversation, and how they are read.
 * Threads: any. */
#ifndef SERVE_ANTHROPIC_ANTHROPIC_H
#define SERVE_ANTHROPIC_ANTHROPIC_H

#include "serve/jobs/chat_prompt.h"

/* The fields of a conversation. */
typedef struct mc_anthropic_prompt {
    mc_str model;
    mc_json messages, system, cache_control, format, older_format;
    int thinking, effort; /* of the choices of the fields; -1: not given */
    int64_t thinking_budget;
    mc_json tools;
    int choice;  /* of the choices of the field */
    mc_str tool; /* that must be called */
    bool single; /* at most one call */
} mc_anthropic_prompt;

/* Reads a conversation, and what the answer may be, for mc_chat_prompt_prepare. Form and messages
 * are freed in any case. false: *failure says why */
bool mc_anthropic_read(const mc_anthropic_prompt *values, mc_answer_form *form,
                       mc_chat_prompt *chat, mc_failure *failure);

/* POST /v1/messages, and its own fields. */
bool mc_anthropic_messages(mc_exchange *http);
enum { MC_ANTHROPIC_MESSAGE_FIELDS = 14 };
extern const mc_field mc_anthropic_message_fields[MC_ANTHROPIC_MESSAGE_FIELDS];

#endif
