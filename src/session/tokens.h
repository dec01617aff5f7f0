/* The tokens of a text that may grow without bound. The last ones are kept. Of those before them a
 * count and a hash are kept, which tell whether another text begins with the same tokens.
 *
 * Equal hashes of 64 bits are taken for equal tokens. Threads: one at a time. */
#ifndef SESSION_TOKENS_H
#define SESSION_TOKENS_H

#include "base/buffer.h"

#include <stdint.h>

typedef struct mc_tokens {
    mc_buffer ids; /* int32: tokens [start, count) */
    int64_t start; /* how many tokens before them are forgotten */
    uint64_t hash; /* hash of the forgotten tokens; 0: there are none */
    int64_t limit; /* this many last tokens stay, at most twice as many are kept; 0: all */
} mc_tokens;

void mc_tokens_deinit(mc_tokens *t);
void mc_tokens_clear(mc_tokens *t); /* keeps the limit and the memory */

/* The number of all tokens, and the last token of a text that has any. */
int64_t mc_tokens_count(const mc_tokens *t);
int32_t mc_tokens_last(const mc_tokens *t);

/* Makes room for n more tokens; the oldest may be forgotten. false: no memory. */
bool mc_tokens_reserve(mc_tokens *t, int64_t n);
/* Adds n tokens. false: no memory; never false after mc_tokens_reserve. */
bool mc_tokens_add(mc_tokens *t, const int32_t *ids, int64_t n);
/* Drops the tokens from index `to` on, to >= t->start. */
void mc_tokens_cut(mc_tokens *t, int64_t to);

/* The length of the longest common prefix of both texts; 0 if one of them has forgotten its end. */
int64_t mc_tokens_common(const mc_tokens *a, const mc_tokens *b);

#endif
