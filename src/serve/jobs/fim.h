/* Filling in the middle: prompts of what stands before a gap and behind it, for models whose
 * vocabulary has marks for that. Threads: any. */
#ifndef SERVE_JOBS_FIM_H
#define SERVE_JOBS_FIM_H

#include "base/arena.h"
#include "serve/jobs/completion.h"

/* The marks of a vocabulary; ids are -1 where it has none. */
typedef struct mc_fim {
    const struct mc_fim_family *family; /* NULL: the vocabulary has no marks */
    int32_t prefix, suffix, middle, repository, file;
} mc_fim;

/* What a vocabulary has. false: none; *failure says so, and names the field. */
bool mc_fim_find(const mica_tokenizer *tok, const char *field, mc_fim *fim, mc_failure *failure);

/* A text beside the one that is filled in, before which it comes. */
typedef struct mc_fim_file {
    mc_str name, text;
} mc_fim_file;

/* The prompt, whose ids are freed with mica_free.
 *
 *  before, behind  the texts around the gap.
 *  begun           what of the gap is there already; may be empty
 *  files           [count] may be NULL for none
 *  returns         false: *failure says why, and names the field */
bool mc_fim_encode(const mica_tokenizer *tok, const mc_fim *fim, mc_str before, mc_str behind,
                   mc_str begun, const mc_fim_file *files, size_t count, const char *field,
                   mc_completion_prompt *prompt, mc_failure *failure);

/* Lets the marks, and what ends a file, end the answer, too. The arena holds the ids.
 * returns  false: no memory */
bool mc_fim_stops(const mica_tokenizer *tok, const mc_fim *fim, mc_arena *arena,
                  mica_generate_options *options);

#endif
