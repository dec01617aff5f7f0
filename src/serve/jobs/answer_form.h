/* What the answer to a conversation may be: text, thoughts, calls of tools, a document. Each API
 * sets it from fields of its own.
 *
 *     mc_answer_form form = {.tools_text = ..., .thinking = ...};
 *     mc_answer_form_prepare(&form, model, &failure)     // then the prompt is rendered with it
 *     mc_answer_form_compile(&form, model, &prompt, &failure)
 *     mc_answer_form_check(&form, model, owner, &failure)           // once
 *     mc_answer_form_constrain(&form, model, owner, &constraint)    // for each choice
 *
 * Threads: one at a time; a compiled one never changes. */
#ifndef SERVE_JOBS_ANSWER_FORM_H
#define SERVE_JOBS_ANSWER_FORM_H

#include "answer/splitter.h"
#include "base/buffer.h"
#include "grammar/answer_grammar.h"
#include "grammar/grammar_constraint.h"
#include "serve/common/failure.h"

#include <mica/model.h>

typedef enum mc_prompt_thinking {
    MC_PROMPT_THINKING_DEFAULT, /* as the model's chat template has it */
    MC_PROMPT_THINKING_OFF,
    MC_PROMPT_THINKING_ON
} mc_prompt_thinking;

enum { MC_TOOL_NAME = 129 };

typedef struct mc_answer_form { /* zero: as the model likes */
    mc_buffer tools_text;       /* the tools, as OpenAI's API has them; empty: none */
    mc_tool_choice choice;
    char tool[MC_TOOL_NAME]; /* that must be called; "": none is named */
    bool single;             /* at most one call */
    mc_prompt_thinking thinking;
    bool limited;              /* thoughts have a budget */
    int64_t budget;            /* its tokens, from 0 */
    mc_json schema;            /* of the document that the answer is; NONE: there is no schema */
    mc_json_doc *parsed;       /* that the schema is of; NULL: another one */
    mica_constraint_kind kind; /* of the document, but for a schema; NONE: there is no other */
    mc_buffer source;          /* the text of that kind */
    bool in_thoughts;          /* the answer continues those of the prompt */
    bool advised;              /* thoughts are advice: a model that marks none has none */
    char left_out[256];        /* tools that are left out, for mc_exchange_leave_out; "": none */
    const char *fields[4];     /* names in failures: of tools, thinking, the document, the budget */

    /* Set by the functions below. */
    mc_answer_format format; /* of the model */
    mc_tools tools;
    bool is_open;        /* the answer begins within a thought */
    mc_grammar *grammar; /* NULL: nothing is constrained but thoughts */
} mc_answer_form;

/* Notes a tool that is left out: one of a kind that a server would have to run, or whose schema it
 * would have to know. Characters that no name has become '?'. name.len 0: it has none. */
void mc_answer_form_leave_out(mc_answer_form *form, mc_str type, mc_str name);

/* Reads the tools, and checks that the model's chat template marks thoughts if any are asked for.
 * Tools that may not be called are dropped. A template without a place for tools gets them in the
 * system message (text/chat/chat_tools.h).
 * returns  false: *failure says why */
bool mc_answer_form_prepare(mc_answer_form *form, const mica_model *model, mc_failure *failure);

/* Compiles what the answer to a prompt may say.
 * returns  false: *failure says why */
bool mc_answer_form_compile(mc_answer_form *form, const mica_model *model, const int32_t *ids,
                            size_t n, mc_failure *failure);

/* Whether answers can begin: computes the first mask, which may take long (grammar/matcher.h), so
 * not where others wait for it.
 * returns  false: *failure says why, and names the field */
bool mc_answer_form_check(const mc_answer_form *form, const mica_model *model, size_t owner,
                          mc_failure *failure);

/* Sets a budget for thoughts by the word of an effort, where none is given and the chat template
 * marks thoughts but has no variable for one: 1024 tokens for minimal and low, 8192 for
 * medium, 24576 for high, none for other words, as Google's API for OpenAI's clients maps them. */
void mc_answer_form_limit(mc_answer_form *form, mc_str chat_template, mc_str effort);

/* Whether the answer is made to be a JSON document, one of some texts, or calls: it ends where
 * these are whole, and stop strings within do not cut it. Another expression may have no end of its
 * own: stop strings end it, as in vLLM. */
bool mc_answer_form_is_forced(const mc_answer_form *form);

/* A constraint of one answer; *constraint NULL: none is needed. owner: as in mc_grammars_constrain.
 * errors  MICA_ENOMEM */
mica_status mc_answer_form_constrain(const mc_answer_form *form, const mica_model *model,
                                     size_t owner, mc_constraint **constraint);

/* A splitter of one answer; the form must outlive it. errors  MICA_ENOMEM */
mica_status mc_answer_form_split(const mc_answer_form *form, mc_take_piece take, void *user,
                                 mc_splitter **splitter);

void mc_answer_form_deinit(mc_answer_form *form);

#endif
