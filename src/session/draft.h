/* Guessing the tokens that come next, for a session to compute in one pass (speculative decoding:
 * Leviathan, Kalman & Matias 2023, arXiv:2211.17192). A guess costs time where it is wrong, and never
 * changes what is drawn: it is kept only where the draw gives the same token.
 *
 * Guesses are looked up in the text itself: where its last tokens were there before, what followed
 * them then is guessed to follow now. The longest match counts, of several the latest; one token
 * alone is none.
 *
 * How many guesses are worth their cost depends on how often such guesses were right lately. That is
 * learned for each length of match, also where a guess was not computed, for then too the text
 * tells whether it was right: text that does not repeat itself costs little more than the looking up.
 *
 * Threads: one at a time. */
#ifndef SESSION_DRAFT_H
#define SESSION_DRAFT_H

#include "session/session.h"

enum { MC_DRAFT_MATCH = 8, MC_DRAFT_MOST = MC_MOST_AHEAD - 1 };

typedef struct mc_draft {
    float right[MC_DRAFT_MATCH + 1]; /* the share of guesses that were, by the length of match */
    int32_t ids[MC_DRAFT_MOST];      /* the guesses made last: of the text's tokens from `at` on */
    int64_t at;
    int64_t count;
    int64_t match; /* tokens that matched before them; each guess that was right is one more */
} mc_draft;

void mc_draft_init(mc_draft *draft);

/* Guesses how the text ids[n] goes on.
 *
 *  most     0 to MC_DRAFT_MOST: no more guesses than that.
 *  returns  how many of draft->ids are worth computing together with the text's last token. */
int64_t mc_draft_make(mc_draft *draft, const int32_t *ids, int64_t n, int64_t most);

#endif
