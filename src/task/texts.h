/* Short texts that are computed together: rows of a pass without states, in which each attends to
 * itself alone, padded to the longest one. A row has the bits of its text alone.
 *
 * Threads: one at a time. */
#ifndef TASK_TEXTS_H
#define TASK_TEXTS_H

#include "session/session.h"

typedef struct mc_text {
    const int32_t *ids; /* [n] */
    int64_t n;
    size_t skip; /* the first tokens that an embedder does not pool */
} mc_text;

/* Of a pass: max rows, and tokens with their padding. TEXT_TOKENS: max of a row. PROGRAMS: kept. */
enum { MC_TEXT_ROWS = 32, MC_PASS_TOKENS = 512, MC_TEXT_TOKENS = 64, MC_TEXT_PROGRAMS = 8 };

typedef struct mc_texts {
    const mc_session_model *model;
    mica_scope *scope; /* of what passes leave; empty before each */
    mc_passes passes;
    mc_pass_program programs[MC_TEXT_PROGRAMS];
} mc_texts;

/* errors  MICA_ENOMEM; then deinit, too */
mica_status mc_texts_init(mc_texts *texts, const mc_session_model *model);
void mc_texts_deinit(mc_texts *texts);

/* Whether texts can be the rows of one pass: few and short enough, and with little padding, which
 * only attention to what is before leaves unseen. What a limited context and states of the caller's
 * change is computed by sessions. */
bool mc_texts_fit(const mc_session_model *model, const mc_text *texts, size_t count);

/* Computes texts that fit.
 *
 *  wanted  MC_LAST_LOGITS: logits of the last tokens, [count, 1, vocab]; MC_HIDDEN: states of all
 *          tokens, and of padding behind them, [count, L, hidden]
 *  result  of the scope, until the next pass
 *  errors  those of mica_eval; MICA_ENOMEM */
mica_status mc_texts_compute(mc_texts *texts, const mc_text *rows, size_t count, mc_wanted wanted,
                             mica_array *result);

/* Divides texts, those of the same length side by side, into groups that fit, or of one.
 *
 *  texts   [count]; those without tokens are left out
 *  group   is called for each: indices [n] of the texts, and the texts
 *  errors  MICA_ENOMEM; then nothing was called */
typedef void (*mc_texts_group)(void *context, const size_t *indices, const mc_text *texts,
                               size_t n);
mica_status mc_texts_each(const mc_session_model *model, const mc_text *texts, size_t count,
                          mc_texts_group group, void *context);

#endif
