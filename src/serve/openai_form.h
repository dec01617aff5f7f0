/* The fields of OpenAI's chats that say what an answer may be: tools, and which of them may be
 * called; the format of the text. Threads: any. */
#ifndef SERVE_OPENAI_FORM_H
#define SERVE_OPENAI_FORM_H

#include "serve/answer_form.h"

typedef struct mc_openai_wish { /* absent fields are no value */
    mc_json tools;
    mc_json choice; /* "none", "auto", "required", or an object that names a function */
    mc_json response_format;
    bool parallel; /* several calls are fine */
} mc_openai_wish;

/* Sets what an answer's form is asked to be; mc_answer_form_prepare goes on. *form is zeroed, and
 * freed in any case. false: *failure says why */
bool mc_openai_form_read(const mc_openai_wish *wish, mc_answer_form *form, mc_failure *failure);

#endif
