#include "session/draft.h"

/* A pass over one token more takes about a fifth of a pass's time more (docs/speed-log.md). A draft
 * must promise a gain of a tenth; a guess's share of right ones moves by an eighth each time. */
static const float cost = 0.2f, least_gain = 1.1f, rate = 0.125f;

void mc_draft_init(mc_draft *draft) {
    *draft = (mc_draft){.right = {0}};
    for (int i = 0; i <= MC_DRAFT_MATCH; i++)
        draft->right[i] = 0.1f * (float)i;
}

/* The share of right guesses behind a match of so many tokens. */
static float *share(mc_draft *draft, int64_t match) {
    return &draft->right[match < MC_DRAFT_MATCH ? match : MC_DRAFT_MATCH];
}

/* What the text has come to tells which of the last guesses were right, up to the first wrong one. */
static void learn(mc_draft *draft, const int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < draft->count && draft->at + i < n; i++) {
        bool right = ids[draft->at + i] == draft->ids[i];
        float *known = share(draft, draft->match + i);
        *known += rate * ((right ? 1.0f : 0.0f) - *known);
        if (!right) break;
    }
    draft->count = 0;
}

/* How many tokens before a and before b are the same. */
static int64_t match_before(const int32_t *ids, int64_t a, int64_t b) {
    int64_t n = 0;
    while (n < MC_DRAFT_MATCH && n < a && ids[a - 1 - n] == ids[b - 1 - n])
        n++;
    return n;
}

/* Where the text's end was before: the place behind it, and how many tokens match. */
static int64_t look_up(const int32_t *ids, int64_t n, int64_t *match) {
    int64_t best = 0;
    *match = 0;
    for (int64_t at = n - 1; at > 0 && *match < MC_DRAFT_MATCH; at--) {
        if (ids[at - 1] != ids[n - 1]) continue;
        int64_t same = match_before(ids, at, n);
        if (same <= *match) continue;
        *match = same;
        best = at;
    }
    return best;
}

/* The number of guesses, up to `most`, with which a second brings most tokens: a pass over k guesses
 * takes 1 + k * cost and brings one token and all guesses before the first wrong one. */
static int64_t choose_length(mc_draft *draft, int64_t most) {
    float chance = 1.0f, tokens = 1.0f, best = least_gain;
    int64_t length = 0;
    for (int64_t k = 1; k <= most; k++) {
        chance *= *share(draft, draft->match + k - 1);
        tokens += chance;
        float gain = tokens / (1.0f + (float)k * cost);
        if (gain <= best) continue;
        best = gain;
        length = k;
    }
    return length;
}

int64_t mc_draft_make(mc_draft *draft, const int32_t *ids, int64_t n, int64_t most) {
    learn(draft, ids, n);
    if (most <= 0) return 0;
    int64_t from = look_up(ids, n, &draft->match);
    if (draft->match < 2) return 0;
    draft->at = n;
    for (int64_t i = 0; i < most;
         i++) /* beyond the text's end, the guesses go on with themselves */
        draft->ids[i] = from + i < n ? ids[from + i] : draft->ids[from + i - n];
    int64_t length = choose_length(draft, most);
    draft->count = length ? length : 1; /* of a guess that is not computed is learned too */
    return length;
}
