/* A conversation, and how it becomes a prompt: the one way of all APIs. The messages are what chat
 * templates take (text/chat/chat_json.h); an endpoint makes its own form these. Threads: any. */
#ifndef SERVE_JOBS_CHAT_PROMPT_H
#define SERVE_JOBS_CHAT_PROMPT_H

#include "serve/common/fields.h"
#include "serve/jobs/answer_form.h"
#include "serve/jobs/completion.h"

typedef struct mc_chat_prompt {
    mc_buffer messages;         /* a JSON array */
    mc_json variables;          /* an object of the template's variables; NONE: none */
    mc_str effort;              /* the template's reasoning_effort; ptr NULL: not set */
    const mc_answer_form *form; /* its tools, and the template's enable_thinking */
    bool open;                  /* no beginning of the model's turn behind the messages */
    bool continues;             /* the answer continues the last message, the assistant's */
    bool *in_thoughts;          /* receives whether that continues thoughts; NULL: not asked */
    const char *field;          /* of the messages, for failures; NULL: "messages" */
} mc_chat_prompt;

/* The fields of OpenAI's chats that make a prompt, but tools (serve/openai/form.h). */
typedef struct mc_chat_values {
    mc_json messages, variables;
    bool turn, continues;
    int effort; /* of the choices of the field */
} mc_chat_values;

enum { MC_CHAT_FIELDS = 5 };
extern const mc_field mc_chat_fields[MC_CHAT_FIELDS];

/* The choices of the effort of reasoning: the first stands for none that is given, the second turns
 * thinking off. And one of these words; ptr NULL: none is given. */
enum { MC_EFFORT_DEFAULT, MC_EFFORT_NONE };
extern const char mc_chat_efforts[];
mc_str mc_chat_effort(int effort);

/* Sets all but the form. *chat is freed with mc_buffer_deinit of its messages. false: *failure says
 * why */
bool mc_chat_prompt_set(mc_chat_prompt *chat, const mc_chat_values *values, mc_failure *failure);

/* Adds the text of the prompt, with its special tokens. A family's built-in chat format, which has
 * no variables, is fine where they only turn thinking off or set an effort: none of them thinks.
 * false: http->failure says why */
bool mc_chat_prompt_text(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                         mc_buffer *text);

/* Its token ids, freed with mica_free, and its marks: for models with sliding windows, which keep
 * what they need to go on from there, where other conversations may part from this one. */
bool mc_chat_prompt_encode(mc_exchange *http, const mica_model *model, const mc_chat_prompt *chat,
                           mc_completion_prompt *prompt);

/* From what a request asks for to what the scheduler takes: checks the form of the job, which was
 * read, renders its first prompt, and compiles what the answer may say.
 *
 *  chat     its form becomes the job's.
 *  returns  false: the exchange's failure says why */
bool mc_chat_prompt_prepare(mc_completion *job, mc_chat_prompt *chat);

#endif
