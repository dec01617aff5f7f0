/* What an answer may say: before each token a constraint tells which tokens may come next.
 *
 * The sampler draws only from these (mc_sampler.allowed), so every answer that ends by itself keeps
 * to the constraint. It fails closed: an error of the constraint, or a state in which nothing may
 * come, ends the answer with that error; no token is drawn freely. Drafts need no more than this,
 * because tokens are drawn one after another, each under its own mask, whether they were computed
 * ahead or not.
 *
 * Threads: a constraint belongs to one stream. Constraints of one grammar may share data; the
 * implementation sees to it. */
#ifndef SESSION_CONSTRAINT_H
#define SESSION_CONSTRAINT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which tokens may come next. */
typedef struct mc_token_mask {
    uint32_t *allowed; /* [(vocab + 31) / 32]: token id is bit id % 32 of word id / 32. Borrowed */
    size_t vocab;
    bool all;     /* set: every token may come, and `allowed` counts for nothing */
    bool may_end; /* the answer may end here, by a stop id or because nothing else may come */
} mc_token_mask;

typedef struct mc_constraint mc_constraint;

typedef struct mc_constraint_ops {
    /* Fills in a mask, of which allowed, vocab are given: sets all and may_end, and without `all`
     * writes every word of allowed. The bits of stop ids count for nothing: may_end tells.
     * errors  the constraint's own */
    mica_status (*mask)(mc_constraint *constraint, mc_token_mask *mask);
    /* Takes the token that was drawn, unless it ended the answer.
     * errors  MICA_EINVAL the token was not allowed; the constraint's own */
    mica_status (*accept)(mc_constraint *constraint, int32_t id);
    void (*close)(mc_constraint *constraint);
} mc_constraint_ops;

/* The beginning of an implementation's own struct. */
struct mc_constraint {
    const mc_constraint_ops *ops;
};

static inline void mc_constraint_close(mc_constraint **constraint) { /* takes NULL inside */
    if (*constraint) (*constraint)->ops->close(*constraint);
    *constraint = NULL;
}

#endif
