/* Guessing the tokens that come next, for a session to compute in one pass (speculative decoding:
 * Leviathan, Kalman & Matias 2023, arXiv:2211.17192). A guess costs time where it is wrong, and
 * never changes what is drawn: it is kept only where the draw gives the same token.
 *
 * Guesses are looked up in the text itself: where its last tokens were there before, what followed
 * them then is guessed to follow now. The longest match counts, of several the latest; one token
 * alone is none. Where nothing is found, or nothing that is worth it, a draft model, if the session
 * has one, says what it would go on with itself.
 *
 * How many guesses are worth their cost depends on how often such guesses were right lately. That
 * is learned for each length of match, also where a guess was not computed (of a draft model, which
 * has its price, one is made now and then), for then too the text
 * tells whether it was right: text that does not repeat itself costs little more than the looking
 * up.
 *
 * Threads: one at a time. */
#ifndef SESSION_DRAFT_H
#define SESSION_DRAFT_H

#include "session/session.h"

enum { MC_DRAFT_MATCH = 8, MC_DRAFT_MAX = MC_MAX_AHEAD - 1 };

typedef struct mc_draft {
    mc_session *model; /* the draft model's, NULL: none. Borrowed */
    float model_cost;  /* of its pass over a token, in passes of the session's model */
    int64_t unasked;   /* times since it was asked */
    float right[MC_DRAFT_MATCH + 1]; /* the share of guesses that were, by the length of match;
                                        [0]: of the draft model's */
    int32_t ids[MC_DRAFT_MAX];       /* the guesses made last: of the text's tokens from `at` on */
    int64_t at;
    int64_t count;
    int64_t match; /* tokens that matched before them; each guess that was right is one more.
                      0: the draft model's */
    /* A guess that was looked up and gave way to the draft model's, for it was not worth computing:
     * of token `at` too. */
    int32_t passed;
    int64_t passed_match; /* 0: there is none */
} mc_draft;

/* For answers of a session, which the draft model may be told by. */
void mc_draft_init(mc_draft *draft, const mc_session *session);

/* Guesses how the text goes on: returns how many of draft->ids are worth computing together with
 * the text's last token, `max` (0 to MC_DRAFT_MAX) at the most. A draft model that fails, or has
 * not seen what the text has forgotten, is asked no more. */
int64_t mc_draft_make(mc_draft *draft, const mc_tokens *text, int64_t max);

#endif
