/* What Anthropic's endpoints share: the fields of a conversation, and its prompt. Threads: any. */
#ifndef SERVE_ANTHROPIC_H
#define SERVE_ANTHROPIC_H

#include "serve/completion.h"

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

enum { MC_ANTHROPIC_PROMPT_FIELDS = 13 };
extern const mc_field mc_anthropic_prompt_fields[MC_ANTHROPIC_PROMPT_FIELDS];

/* Turns a conversation to the ids of a prompt, freed with mica_free.
 *
 *  form     receives what the answer may be, for mc_answer_form_compile and _deinit.
 *  returns  false: http->failure says why, and there is nothing to free */
bool mc_anthropic_render(mc_exchange *http, const mc_anthropic_prompt *values,
                         const mica_model *model, mc_answer_form *form,
                         mc_completion_prompt *prompt);

/* POST /v1/messages, and its own fields. */
bool mc_anthropic_messages(mc_exchange *http);
enum { MC_ANTHROPIC_MESSAGE_FIELDS = 14 };
extern const mc_field mc_anthropic_message_fields[MC_ANTHROPIC_MESSAGE_FIELDS];

#endif
