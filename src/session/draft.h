/* Speculative decoding (Leviathan, Kalman & Matias 2023, arXiv:2211.17192): guesses the next
 * tokens, so that a session computes several in one pass. A wrong guess costs time and never
 * changes what is drawn: a guess is kept only where the draw gives the same token.
 *
 * Guesses are looked up in the text (prompt lookup). Where the text's last tokens occur earlier,
 * the tokens that followed them there are the guesses. The longest match wins, of equally long ones
 * the latest; a match of one token does not count. Where the text has no match, or none that is
 * worth computing, the session's draft model, if it has one, continues the text.
 *
 * How many guesses are worth computing depends on how many such guesses were right lately. That
 * rate is kept for each length of match. Guesses that were not computed count too, for the text
 * tells later whether they were right; so text that does not repeat itself costs little more than
 * the lookup. A draft model that does not pay is still asked now and then.
 *
 * Threads: one at a time. */
#ifndef SESSION_DRAFT_H
#define SESSION_DRAFT_H

#include "session/session.h"

enum { MC_DRAFT_MATCH = 8, MC_DRAFT_MAX = MC_MAX_AHEAD - 1 };

typedef struct mc_draft {
    mc_session *model; /* the draft model's session; NULL: none. Borrowed */
    float model_cost;  /* cost of its pass over a token; 1 is a pass of the session's model */
    int64_t skipped;   /* times that it was not asked */
    /* Rate of right guesses, by the length of match; [0]: of the draft model. */
    float right[MC_DRAFT_MATCH + 1];
    int32_t ids[MC_DRAFT_MAX]; /* The last guesses: ids[i] is for the text's token at + i. */
    int64_t at;
    int64_t count;
    /* Tokens that matched before the guesses; each right guess adds one. 0: the draft model's
     * guesses. */
    int64_t match;
    /* A guess for token `at` that was looked up, was not worth computing, and gave way to the draft
     * model's. */
    int32_t declined;
    int64_t declined_match; /* 0: none */
} mc_draft;

/* Prepares for an answer of a session, and takes the session's draft model. */
void mc_draft_init(mc_draft *draft, const mc_session *session);

/* Guesses how the text goes on. Returns how many of draft->ids are worth computing together with
 * the text's last token: 0 to `max`, which is 0 to MC_DRAFT_MAX. A draft model that fails, or that
 * lacks tokens which the text has forgotten, is not asked again.
 *  rows  of the pass, this one among them. All of them wait for a guess, and only this one gains by
 *        it: so the more rows there are, the surer a guess must be */
int64_t mc_draft_make(mc_draft *draft, const mc_tokens *text, int64_t max, int64_t rows);

#endif
