#include "session/draft.h"

/* One more token makes a pass about a fifth longer (docs/speed/sampling.md). A draft must promise a
 * gain of a tenth. Each guess moves the rate of right guesses by an eighth. */
static const float cost = 0.2f, min_gain = 1.1f, rate_step = 0.125f;

/* A draft model that does not pay is asked every 16th time. */
enum { ASK_INTERVAL = 16 };

void mc_draft_init(mc_draft *draft, const mc_session *session) {
    *draft = (mc_draft){.model = session->draft, .right = {0.7f}};
    for (int i = 1; i <= MC_DRAFT_MATCH; i++)
        draft->right[i] = 0.1f * (float)i;
    if (!draft->model) return;
    double bytes = (double)draft->model->model->lm->weight_bytes;
    draft->model_cost = (float)(bytes / (double)session->model->lm->weight_bytes);
}

/* The rate of right guesses among those like guess i. */
static float *rate_of(mc_draft *draft, int64_t i) {
    if (draft->match == 0) return &draft->right[0];
    i += draft->match;
    return &draft->right[i < MC_DRAFT_MATCH ? i : MC_DRAFT_MATCH];
}

static void update_rate(float *rate, bool right) {
    *rate += rate_step * ((right ? 1.0f : 0.0f) - *rate);
}

/* The text's new tokens tell which of the last guesses were right, up to the first wrong one. */
static void learn(mc_draft *draft, const mc_tokens *text) {
    int64_t at = draft->at - text->start, n = mc_tokens_count(text) - draft->at;
    if (at < 0) n = 0; /* the tokens after the guesses are forgotten */
    const int32_t *came = MC_BUFFER_AT(&text->ids, int32_t) + (at < 0 ? 0 : at);
    for (int64_t i = 0; i < draft->count && i < n; i++) {
        bool right = came[i] == draft->ids[i];
        update_rate(rate_of(draft, i), right);
        if (!right) break;
    }
    if (draft->declined_match && n > 0)
        update_rate(&draft->right[draft->declined_match], came[0] == draft->declined);
    draft->count = draft->declined_match = 0;
}

/* How many tokens before index a and before index b are the same. */
static int64_t match_before(const int32_t *ids, int64_t a, int64_t b) {
    int64_t n = 0;
    while (n < MC_DRAFT_MATCH && n < a && ids[a - 1 - n] == ids[b - 1 - n])
        n++;
    return n;
}

/* The index behind the best earlier match of the text's end, and how many tokens match. */
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

/* The cost of a guess to all rows of a pass. A pass over n rows takes 1 + cost * (n - 1). Each
 * guess makes it longer by `each`, for the n tokens that the rows get of it. */
static float share_cost(float each, int64_t rows) {
    float n = (float)rows;
    return each * n / (1.0f + cost * (n - 1.0f));
}

/* The number of guesses, up to `max`, that yields most tokens a second. A pass over k guesses takes
 * 1 + k * each; it yields one token and all guesses before the first wrong one. */
static int64_t choose_length(mc_draft *draft, int64_t max, float each) {
    float chance = 1.0f, tokens = 1.0f, best = min_gain;
    int64_t length = 0;
    for (int64_t k = 1; k <= max; k++) {
        chance *= *rate_of(draft, k - 1);
        tokens += chance;
        float gain = tokens / (1.0f + (float)k * each);
        if (gain <= best) continue;
        best = gain;
        length = k;
    }
    return length;
}

/* ---- the draft model ---- */

/* Asks the draft model for k tokens, if its context has room for them. */
static mica_status ask(mc_draft *draft, const mc_tokens *text, int64_t k) {
    mc_session *session = draft->model;
    const int32_t *ids = MC_BUFFER_AT(&text->ids, int32_t);
    const float *none; /* a draft model's session is greedy */
    int64_t n = mc_tokens_count(text);
    if (n + k > mc_session_room(session)) return MICA_OK;
    int64_t at = mc_session_reuse_text(session, text), step;
    if (at < text->start) draft->model = NULL;
    if (!draft->model) return MICA_OK;
    for (; at < n; at += step) {
        step = n - at < session->chunk ? n - at : session->chunk;
        MC_TRY(mc_session_feed(session, ids + (at - text->start), step,
                               at + step == n ? &none : NULL));
    }
    for (int64_t i = 0; i < k; i++) {
        if (i) MC_TRY(mc_session_feed(session, &draft->ids[i - 1], 1, &none));
        draft->ids[i] = mc_session_best(session)->id;
    }
    draft->count = k;
    return MICA_OK;
}

int64_t mc_draft_make(mc_draft *draft, const mc_tokens *text, int64_t max, int64_t rows) {
    const int32_t *ids = MC_BUFFER_AT(&text->ids, int32_t);
    int64_t length = 0, n = (int64_t)MC_BUFFER_COUNT(&text->ids, int32_t);
    learn(draft, text);
    if (max <= 0) return 0;
    int64_t from = look_up(ids, n, &draft->match);
    draft->at = mc_tokens_count(text);
    if (draft->match >= 2) {
        for (int64_t i = 0; i < max; i++) /* beyond the end, the guesses repeat themselves */
            draft->ids[i] = from + i < n ? ids[from + i] : draft->ids[from + i - n];
        length = choose_length(draft, max, share_cost(cost, rows));
        /* guesses that are not computed count for learning too */
        draft->count = length ? length : 1;
    }
    if (length || !draft->model) return length;

    if (draft->count) {
        draft->declined = draft->ids[0];
        draft->declined_match = draft->match;
    }
    draft->match = draft->count = 0;
    length = choose_length(draft, max, share_cost(cost + draft->model_cost, rows));
    if (length == 0 && ++draft->skipped % ASK_INTERVAL) return 0;
    if (ask(draft, text, length ? length : 1) != MICA_OK) draft->model = NULL;
    return draft->count;
}
