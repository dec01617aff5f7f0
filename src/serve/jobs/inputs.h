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

/* Reads a field, and checks that each input fits the model's context.
 *
 *  name     the field's, for the failure.
 *  embedded  for vectors: an embedder's texts get its default prompt, are cut to its maximum, and
 *            may be empty.
 *  inputs   freed with mc_inputs_free, also where it fails.
 *  returns  false: *failure says which input is wrong */
bool mc_inputs_read(mc_json value, const char *name, const mica_model *model, bool embedded,
                    mc_inputs *inputs, mc_failure *failure);
void mc_inputs_free(mc_inputs *inputs);

/* Prompts as texts of tasks [count], which borrow the ids; freed with mc_free.
 *  errors  MICA_ENOMEM */
mica_status mc_inputs_texts(const mc_completion_prompt *prompts, size_t count, mc_text **texts);

/* "usage" of what has no answer. */
void mc_inputs_put_usage(mc_put *put, int64_t tokens);

#endif
