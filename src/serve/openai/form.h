/* The fields of OpenAI's chats, responses and completions that say what an answer may be: tools,
 * which of them may be called, thoughts, and the format of the text. Threads: any. */
#ifndef SERVE_OPENAI_FORM_H
#define SERVE_OPENAI_FORM_H

#include "serve/common/fields.h"
#include "serve/jobs/answer_form.h"

/* How an API has them. */
typedef enum mc_openai_shape {
    MC_OPENAI_CHAT,     /* {"type": "function", "function": {"name", ...}}, and formats alike;
                           also that of completions */
    MC_OPENAI_RESPONSES /* {"type": "function", "name", ...} */
} mc_openai_shape;

typedef struct mc_openai_wish { /* absent fields are no value */
    mc_openai_shape shape;
    mc_json tools;
    mc_json choice;           /* "none", "auto", "required", or an object that names functions */
    mc_json format;           /* of type text, json_object, json_schema, regex, grammar */
    bool parallel;            /* several calls are fine */
    int effort;               /* of mc_chat_efforts (serve/jobs/chat_prompt.h) */
    int64_t budget;           /* tokens of thoughts; negative: no limit */
    const char *budget_field; /* its name */

    /* vLLM's structured_outputs, beside the format. */
    mc_json json;    /* a schema, or the text of one */
    mc_json choices; /* texts, of which the answer is one */
    mc_str regex;    /* ptr NULL: none */
    mc_str grammar;  /* in GBNF or Lark's notation; ptr NULL: none */
    bool object;
} mc_openai_wish;

/* How chats and responses choose among the tools, of an mc_openai_wish. */
enum { MC_OPENAI_TOOL_FIELDS = 2 };
extern const mc_field mc_openai_tool_fields[MC_OPENAI_TOOL_FIELDS];

/* The fields of vLLM's structured_outputs, of an mc_openai_wish. */
enum { MC_OPENAI_STRUCTURED_FIELDS = 1 };
extern const mc_field mc_openai_structured_fields[MC_OPENAI_STRUCTURED_FIELDS];

/* Sets what an answer's form is asked to be; mc_answer_form_prepare goes on. *form is zeroed, and
 * freed in any case. What it points to lives with the request. false: *failure says why */
bool mc_openai_form_read(const mc_openai_wish *wish, mc_answer_form *form, mc_failure *failure);

#endif
