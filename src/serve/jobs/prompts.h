/* Raw prompts of a request, as OpenAI's completions and embeddings take them: a text, texts, token
 * ids, or arrays of token ids. Threads: any. */
#ifndef SERVE_JOBS_PROMPTS_H
#define SERVE_JOBS_PROMPTS_H

#include "base/json.h"
#include "serve/jobs/completion.h"
#include "task/encode_text.h"

enum { MC_PROMPTS = 2048 }; /* of a request */

/* Turns `value` to prompts of token ids; texts get the special tokens that the tokenizer puts
 * around them.
 *
 *  name      the field's, for the failure.
 *  vocab     ids are below it.
 *  reader    NULL; or texts are read by it, as an embedder's.
 *  prompts   receives [*count], freed with mc_prompts_free.
 *  returns   false: *failure says why, and *prompts is NULL */
bool mc_prompts_read(mc_json value, const char *name, const mica_tokenizer *tok, size_t vocab,
                     const mc_text_reader *reader, mc_completion_prompt **prompts, size_t *count,
                     mc_failure *failure);
void mc_prompts_free(mc_completion_prompt *prompts, size_t count);

#endif
