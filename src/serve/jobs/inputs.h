/* The texts of a request that is about texts: raw prompts (serve/jobs/prompts.h), none of them
 * empty, for a model that computes in this process. Threads: any. */
#ifndef SERVE_JOBS_INPUTS_H
#define SERVE_JOBS_INPUTS_H

#include "serve/common/put.h"
#include "serve/jobs/prompts.h"
#include "task/texts.h"

typedef struct mc_inputs {
    mc_completion_prompt *prompts; /* [count] */
    size_t count;
    int64_t tokens; /* of all */
} mc_inputs;

/* How texts are read that vectors are made of: an embedder's get a prompt, are cut to its maximum,
 * and may be empty. Zero is its default. */
typedef struct mc_input_form {
    mc_str prompt_name; /* without a ptr: the default one; of another model: refused */
    mc_str prompt;      /* with a ptr: a text instead of a prompt of the model */
    bool whole;         /* texts that are too long are refused */
} mc_input_form;

/* Sets how the texts of a model are read; *reader is NULL where it is no embedder.
 *  own      what *reader points to
 *  returns  false: *failure says why */
bool mc_input_reader(const mica_model *model, const mc_input_form *form, mc_text_reader *own,
                     const mc_text_reader **reader, mc_failure *failure);

/* Reads a field, and checks that each input fits the model's context.
 *
 *  name     the field's, for the failure.
 *  form     for vectors; NULL: for anything else.
 *  inputs   freed with mc_inputs_free, also where it fails.
 *  returns  false: *failure says which input is wrong */
bool mc_inputs_read(mc_json value, const char *name, const mica_model *model,
                    const mc_input_form *form, mc_inputs *inputs, mc_failure *failure);
void mc_inputs_free(mc_inputs *inputs);

/* Prompts as texts of tasks [count], which borrow the ids; freed with mc_free.
 *  errors  MICA_ENOMEM */
mica_status mc_inputs_texts(const mc_completion_prompt *prompts, size_t count, mc_text **texts);

/* "usage" of what has no answer. */
void mc_inputs_put_usage(mc_put *put, int64_t tokens);

#endif
