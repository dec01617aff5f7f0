/* The tokens of a text that may grow for ever: the last ones, and of those before them a number and
 * a hash, so that it can still be told whether another text begins with the same.
 *
 * Equal hashes of 64 bits are taken for equal tokens. Threads: one at a time. */
#ifndef SESSION_TOKENS_H
#define SESSION_TOKENS_H

#include "base/buffer.h"

#include <stdint.h>

typedef struct mc_tokens {
    mc_buffer ids; /* int32: tokens [start, count) */
    int64_t start; /* how many before them are forgotten */
    uint64_t hash; /* of these; 0: there are none */
    int64_t limit; /* the last so many stay, twice as many are kept at most; 0: all */
} mc_tokens;

void mc_tokens_deinit(mc_tokens *t);
void mc_tokens_clear(mc_tokens *t); /* keeps the limit, and the memory */

/* All of the text's tokens, and the last one of some. */
int64_t mc_tokens_count(const mc_tokens *t);
int32_t mc_tokens_last(const mc_tokens *t);

/* Makes room for n more, for which the oldest may be forgotten. false: no memory. */
bool mc_tokens_reserve(mc_tokens *t, int64_t n);
/* Adds n. false: no memory, which cannot be after mc_tokens_reserve. */
bool mc_tokens_add(mc_tokens *t, const int32_t *ids, int64_t n);
/* Drops those from `to` >= t->start on. */
void mc_tokens_cut(mc_tokens *t, int64_t to);

/* With how many of the same tokens both texts begin; 0 where that is before what one of them still
 * has. */
int64_t mc_tokens_common(const mc_tokens *a, const mc_tokens *b);

#endif
