#include "session/sampler.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_WINDOW = 20 };

/* ---- options ---- */

static mica_status check_penalties(const mica_generate_options *o) {
    if (!(o->repetition_penalty >= 0.0f) || isinf(o->repetition_penalty))
        return mc_fail(MICA_EINVAL, "repetition_penalty %g: want a number above 0, or 0 for none",
                       (double)o->repetition_penalty);
    if (!isfinite(o->presence_penalty))
        return mc_fail(MICA_EINVAL, "presence_penalty %g: want a finite number",
                       (double)o->presence_penalty);
    if (!isfinite(o->frequency_penalty))
        return mc_fail(MICA_EINVAL, "frequency_penalty %g: want a finite number",
                       (double)o->frequency_penalty);
    if (o->penalty_window < 0)
        return mc_fail(MICA_EINVAL, "penalty_window %d: want 1 or more, or 0 for %d",
                       o->penalty_window, DEFAULT_WINDOW);
    return MICA_OK;
}

static mica_status check_bias(const mica_generate_options *o, int64_t vocab) {
    if (o->logit_bias_count && !o->logit_bias)
        return mc_fail(MICA_EINVAL, "logit_bias is NULL, logit_bias_count %zu",
                       o->logit_bias_count);
    for (size_t i = 0; i < o->logit_bias_count; i++) {
        const mica_logit_bias *bias = &o->logit_bias[i];
        if (bias->id < 0 || bias->id >= vocab)
            return mc_fail(MICA_EINVAL,
                           "logit_bias[%zu] is of token %d; the vocabulary is 0 to %lld", i,
                           (int)bias->id, (long long)vocab - 1);
        if (!(bias->bias < INFINITY))
            return mc_fail(MICA_EINVAL, "logit_bias[%zu] is %g: want a finite number, or -infinity",
                           i, (double)bias->bias);
    }
    return MICA_OK;
}

mica_status mc_sampling_check(const mica_generate_options *o, int64_t vocab, mc_sampling *params) {
    if (!(o->temperature >= 0.0f) || isinf(o->temperature))
        return mc_fail(MICA_EINVAL, "temperature %g: want a number of 0 or more",
                       (double)o->temperature);
    if (o->top_k < 0) return mc_fail(MICA_EINVAL, "top_k %d: want 0 (all) or more", o->top_k);
    if (!(o->top_p >= 0.0f && o->top_p <= 1.0f))
        return mc_fail(MICA_EINVAL, "top_p %g: want 0 to 1", (double)o->top_p);
    if (!(o->min_p >= 0.0f && o->min_p <= 1.0f))
        return mc_fail(MICA_EINVAL, "min_p %g: want 0 to 1", (double)o->min_p);
    MC_TRY(check_penalties(o));
    MC_TRY(check_bias(o, vocab));
    *params = (mc_sampling){
        .temperature = o->temperature,
        .top_k = o->top_k,
        .top_p = o->top_p,
        .min_p = o->min_p,
        .repetition_penalty = o->repetition_penalty,
        .presence_penalty = o->presence_penalty,
        .frequency_penalty = o->frequency_penalty,
        .penalty_window = o->penalty_window,
        .bias = o->logit_bias,
        .bias_count = o->logit_bias_count,
        .seed = o->seed,
    };
    return MICA_OK;
}

void mc_sampler_init(mc_sampler *sampler, const mc_sampling *params) {
    *sampler = (mc_sampler){.params = *params};
}

void mc_sampler_deinit(mc_sampler *sampler) {
    mc_buffer_deinit(&sampler->edits);
    mc_buffer_deinit(&sampler->counts);
    mc_buffer_deinit(&sampler->blocks);
    mc_buffer_deinit(&sampler->order);
    mc_buffer_deinit(&sampler->probs);
    mc_buffer_deinit(&sampler->alternatives);
}

/* A buffer of exactly `bytes`, whatever was in it. */
static mica_status resize(mc_buffer *b, size_t bytes) {
    mc_buffer_clear(b);
    if (!mc_buffer_reserve(b, bytes)) return mc_fail_nomem("sampling");
    b->len = bytes;
    return MICA_OK;
}

/* ---- bias, penalties, bans: logits that are changed in place, and put back ---- */

typedef struct edit {
    int32_t id;
    float was;
} edit;

static void set(mc_buffer *edits, float *logits, int32_t id, float value) {
    edit e = {id, logits[id]};
    mc_buffer_add(edits, &e, sizeof e); /* there is room: edit_logits made it */
    logits[id] = value;
}

static void undo(mc_sampler *sampler, float *logits) {
    const edit *edits = MC_BUFFER_AT(&sampler->edits, edit);
    for (size_t i = MC_BUFFER_COUNT(&sampler->edits, edit); i-- > 0;)
        logits[edits[i].id] = edits[i].was;
    mc_buffer_clear(&sampler->edits);
}

static bool has_penalties(const mc_sampling *params) {
    return (params->repetition_penalty != 0.0f && params->repetition_penalty != 1.0f) ||
           params->presence_penalty != 0.0f || params->frequency_penalty != 0.0f;
}

bool mc_sampling_is_greedy(const mc_sampling *params) {
    return params->temperature == 0.0f && params->bias_count == 0 && !has_penalties(params);
}

mica_status mc_sampling_check_best(float logit) {
    if (isfinite(logit)) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "sampling: %s: the model's weights are broken, or a bias or a penalty is "
                   "too large",
                   isnan(logit) ? "a logit is not a number" : "the largest logit is infinite");
}

static mica_status make_counts(mc_sampler *sampler, int64_t vocab) {
    size_t bytes = (size_t)vocab * sizeof(uint32_t);
    if (sampler->counts.len == bytes) return MICA_OK;
    MC_TRY(resize(&sampler->counts, bytes));
    memset(sampler->counts.data, 0, bytes);
    return MICA_OK;
}

static float penalised(const mc_sampling *params, float x, uint32_t count) {
    float penalty = params->repetition_penalty == 0.0f ? 1.0f : params->repetition_penalty;
    x = x < 0.0f ? x * penalty : x / penalty;
    return x - params->presence_penalty - params->frequency_penalty * (float)count;
}

/* tokens [n] of the window: counted first, then each is penalised where it is met first. */
static mica_status penalise(mc_sampler *sampler, float *logits, int64_t vocab,
                            const int32_t *tokens, size_t n) {
    MC_TRY(make_counts(sampler, vocab));
    uint32_t *counts = MC_BUFFER_AT(&sampler->counts, uint32_t);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= 0 && tokens[i] < vocab) counts[tokens[i]]++;
    for (size_t i = 0; i < n; i++) {
        int32_t id = tokens[i];
        if (id < 0 || id >= vocab || counts[id] == 0) continue;
        set(&sampler->edits, logits, id, penalised(&sampler->params, logits[id], counts[id]));
        counts[id] = 0;
    }
    return MICA_OK;
}

static mica_status edit_logits(mc_sampler *sampler, float *logits, int64_t vocab,
                               const int32_t *history, size_t n) {
    const mc_sampling *params = &sampler->params;
    size_t window = params->penalty_window ? (size_t)params->penalty_window : DEFAULT_WINDOW;
    if (window > n) window = n;
    if (!has_penalties(params)) window = 0;
    size_t most = params->bias_count + window + sampler->banned_count;
    mc_buffer_clear(&sampler->edits);
    if (most && !mc_buffer_reserve(&sampler->edits, most * sizeof(edit)))
        return mc_fail_nomem("sampling");
    for (size_t i = 0; i < params->bias_count; i++) {
        int32_t id = params->bias[i].id;
        set(&sampler->edits, logits, id, logits[id] + params->bias[i].bias);
    }
    if (window) {
        mica_status status = penalise(sampler, logits, vocab, history + n - window, window);
        if (status != MICA_OK) {
            undo(sampler, logits);
            return status;
        }
    }
    for (size_t i = 0; i < sampler->banned_count; i++)
        if (sampler->banned[i] >= 0 && sampler->banned[i] < vocab)
            set(&sampler->edits, logits, sampler->banned[i], -INFINITY);
    return MICA_OK;
}

/* ---- passes over all logits: in lanes, for vector registers ---- */

enum { LANES = 16, BLOCK = 256 }; /* BLOCK: logits that share an entry of sampler->blocks */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The largest of n logits; *nan is set where one is not a number. */
static float largest_of(const float *logits, int64_t n, bool *nan) {
    float most[LANES];
    uint32_t broken[LANES] = {0};
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        most[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float x = logits[i + k];
            most[k] = x > most[k] ? x : most[k];
            broken[k] |= x != x;
        }
    for (; i < n; i++) {
        most[0] = logits[i] > most[0] ? logits[i] : most[0];
        broken[0] |= logits[i] != logits[i];
    }
    for (int k = 0; k < LANES; k++) {
        most[0] = most[k] > most[0] ? most[k] : most[0];
        *nan = *nan || broken[k] != 0;
    }
    return most[0];
}

/* The likeliest token, the lowest id of equals; fills sampler->blocks. */
static mica_status find_best(mc_sampler *sampler, const float *logits, int64_t vocab,
                             int32_t *best) {
    bool nan = false;
    float most = -INFINITY;
    int64_t at = 0;
    MC_TRY(resize(&sampler->blocks, (size_t)(vocab + BLOCK - 1) / BLOCK * sizeof(float)));
    float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    for (int64_t i = 0; i < vocab; i += BLOCK) {
        float largest = largest_of(logits + i, smaller(BLOCK, vocab - i), &nan);
        blocks[i / BLOCK] = largest;
        if (!(largest > most)) continue;
        most = largest;
        at = i;
    }
    MC_TRY(mc_sampling_check_best(nan ? NAN : most));
    while (logits[at] != most)
        at++;
    *best = (int32_t)at;
    return MICA_OK;
}

/* Adds exp(x - best) of LANES logits to sums; within 2e-7 of it. Below 2^-126 it is taken as that.
 * exp(x) is 2^n 2^f with |f| <= 1/2: the series of 2^f, and n put into the exponent's bits. */
static void add_exps(const float *x, float best, float *sums) {
    const float round = 0x1.8p23f; /* adding it leaves the nearest integer in the lower bits */
    float t[LANES], y[LANES];
    uint32_t n[LANES], bits[LANES];
    for (int k = 0; k < LANES; k++)
        t[k] = (x[k] - best) * 1.44269504f;
    for (int k = 0; k < LANES; k++)
        t[k] = t[k] > -126.0f ? t[k] : -126.0f;
    for (int k = 0; k < LANES; k++) {
        float shifted = t[k] + round, f = t[k] - (shifted - round);
        t[k] = shifted;
        y[k] = 1.0f +
               f * (0.693147181f +
                    f * (0.240226507f +
                         f * (0.0555041087f +
                              f * (0.00961812911f + f * (0.00133335581f + f * 0.000154035304f)))));
    }
    memcpy(n, t, sizeof n);
    memcpy(bits, y, sizeof bits);
    for (int k = 0; k < LANES; k++)
        bits[k] += n[k] << 23;
    memcpy(y, bits, sizeof y);
    for (int k = 0; k < LANES; k++)
        sums[k] += y[k];
}

/* The sum of exp(x - best) over n logits. */
static double exp_sum(const float *x, int64_t n, float best) {
    float sums[LANES] = {0};
    double total = 0.0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        add_exps(x + i, best, sums);
    for (; i < n; i++)
        sums[0] += expf(x[i] - best);
    for (int k = 0; k < LANES; k++)
        total += (double)sums[k];
    return total;
}

/* The sum over all logits from blocks whose largest one is at least `from` and below `to`. */
static double exp_sum_between(const mc_sampler *sampler, const float *logits, int64_t vocab,
                              float best, float from, float to) {
    const float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    double total = 0.0;
    for (int64_t i = 0; i < vocab; i += BLOCK)
        if (blocks[i / BLOCK] >= from && blocks[i / BLOCK] < to)
            total += exp_sum(logits + i, smaller(BLOCK, vocab - i), best);
    return total;
}

/* Blocks that are further below the best do not count: 2^24 of their tokens weigh less than a
 * float's 1 - top_p can be. */
static const float DEPTH = 40.0f;

static double exp_total(const mc_sampler *sampler, const float *logits, int64_t vocab, float best) {
    return exp_sum_between(sampler, logits, vocab, best, best - DEPTH, INFINITY);
}

/* Tokens with a logit of at least `least`, in order of ids; returns how many. */
static size_t gather(const mc_sampler *sampler, const float *logits, int64_t vocab, float least,
                     int32_t *tokens) {
    const float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    size_t n = 0;
    for (int64_t i = 0; i < vocab; i += BLOCK) {
        if (blocks[i / BLOCK] < least) continue;
        for (int64_t j = i; j < smaller(i + BLOCK, vocab); j++) {
            tokens[n] = (int32_t)j;
            n += logits[j] >= least && logits[j] > -INFINITY;
        }
    }
    return n;
}

/* ---- a heap of tokens, the likeliest on top ---- */

static bool likelier(const float *logits, int32_t a, int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void sift_down(const float *logits, int32_t *heap, size_t n, size_t i) {
    int32_t token = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && likelier(logits, heap[child + 1], heap[child])) child++;
        if (!likelier(logits, heap[child], token)) break;
        heap[i] = heap[child];
    }
    heap[i] = token;
}

static void make_heap(const float *logits, int32_t *heap, size_t n) {
    for (size_t i = n / 2; i-- > 0;)
        sift_down(logits, heap, n, i);
}

/* Takes the top and puts it behind the heap's new end. */
static int32_t pop(const float *logits, int32_t *heap, size_t n) {
    int32_t top = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = top;
    if (n > 1) sift_down(logits, heap, n - 1, 0);
    return top;
}

static void reverse(int32_t *tokens, size_t n) {
    for (size_t i = 0; i < n / 2; i++) {
        int32_t other = tokens[i];
        tokens[i] = tokens[n - 1 - i];
        tokens[n - 1 - i] = other;
    }
}

/* ---- cutting ---- */

/* A bound that `most` tokens reach: the most-th largest of the blocks' largest logits. */
static float bound_of_blocks(const mc_sampler *sampler, size_t n_blocks, size_t most,
                             int32_t *scratch) {
    const float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    for (size_t i = 0; i < n_blocks; i++)
        scratch[i] = (int32_t)i;
    make_heap(blocks, scratch, n_blocks);
    for (size_t i = 1; i < most; i++)
        pop(blocks, scratch, n_blocks - i + 1);
    return blocks[scratch[0]];
}

/* Candidates for the beginning of the order: as many as top_k may keep; where that is no small
 * number, tokens within 4, 8, 16 ... of the best, until there are `most` of them or they weigh
 * `reach`, or min_p lets no more through. */
static size_t find_candidates(const mc_sampler *sampler, const float *logits, int64_t vocab,
                              float best, float least, size_t most, double reach, int32_t *tokens) {
    size_t n_blocks = MC_BUFFER_COUNT(&sampler->blocks, float);
    if (most <= n_blocks) {
        float bound = bound_of_blocks(sampler, n_blocks, most, tokens);
        return gather(sampler, logits, vocab, bound > least ? bound : least, tokens);
    }
    for (float width = 4.0f;; width = width < 64.0f ? 2.0f * width : INFINITY) {
        float from = best - width > least ? best - width : least;
        size_t n = gather(sampler, logits, vocab, from, tokens);
        double sum = 0.0;
        if (n >= most || from == least) return n;
        for (size_t i = 0; i < n && sum < reach; i++)
            sum += (double)expf(logits[tokens[i]] - best);
        if (sum >= reach) return n;
    }
}

/* How many of n tokens it takes to weigh `reach`; sums [n] are of the first 1, 2 ... of them. */
static size_t count_reaching(const double *sums, size_t n, double reach) {
    size_t low = 0, high = n; /* the answer is in low + 1 to high */
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (sums[middle - 1] >= reach)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* How many of the n likeliest tokens top_p lets through. The weight of all is between bounds: a
 * block that was not looked at yet weighs as much as its largest logit, or 256 times that. The
 * likeliest blocks are added up, and the next ones, until both bounds have one answer: mostly few of
 * them have to be. */
static size_t nucleus_of(const mc_sampler *sampler, const float *logits, int64_t vocab, float best,
                         const double *sums, size_t n) {
    const float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    int64_t n_blocks = (int64_t)MC_BUFFER_COUNT(&sampler->blocks, float);
    double p = (double)sampler->params.top_p, seen = 0.0, largest = exp_sum(blocks, n_blocks, best);
    float to = INFINITY;
    for (float depth = 1.0f; depth < DEPTH; depth += 1.0f) {
        float from = best - depth;
        seen += exp_sum_between(sampler, logits, vocab, best, from, to);
        for (int64_t i = 0; i < n_blocks; i++)
            if (blocks[i] >= from && blocks[i] < to) largest -= (double)expf(blocks[i] - best);
        if (largest < 0.0) largest = 0.0;
        size_t fewest = count_reaching(sums, n, p * (seen + largest) * (1.0 - 1e-6));
        size_t most = count_reaching(sums, n, p * (seen + BLOCK * largest) * (1.0 + 1e-6));
        if (fewest == most) return most;
        to = from;
    }
    seen += exp_sum_between(sampler, logits, vocab, best, best - DEPTH, to);
    return count_reaching(sums, n, p * seen);
}

/* The likeliest tokens, few of them: what top_p lets through of `most` that reach `least`. */
static mica_status select_few(mc_sampler *sampler, const float *logits, int64_t vocab, float best,
                              float least, size_t most, size_t *count) {
    int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t);
    size_t n = find_candidates(sampler, logits, vocab, best, least, most, INFINITY, tokens);
    size_t kept = n < most ? n : most;
    double sum = 0.0;
    MC_TRY(resize(&sampler->probs, kept * sizeof(double)));
    double *sums = MC_BUFFER_AT(&sampler->probs, double);
    make_heap(logits, tokens, n);
    for (size_t i = 0; i < kept; i++) {
        sum += (double)expf(logits[pop(logits, tokens, n - i)] - best);
        sums[i] = sum;
    }
    reverse(tokens, n); /* they were put at the end, the likeliest last */
    *count = nucleus_of(sampler, logits, vocab, best, sums, kept);
    return MICA_OK;
}

/* The tokens that may be drawn, likeliest first unless all that min_p lets through may. */
static mica_status select_tokens(mc_sampler *sampler, const float *logits, int64_t vocab,
                                 float best, size_t *count) {
    const mc_sampling *params = &sampler->params;
    int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t);
    bool nucleus = params->top_p > 0.0f && params->top_p < 1.0f;
    size_t most = params->top_k ? (size_t)params->top_k : SIZE_MAX, kept = 0;
    float least = params->min_p > 0.0f ? best + logf(params->min_p) : -INFINITY;
    double reach = INFINITY, sum = 0.0;
    if (!nucleus && most >= (size_t)vocab) {
        *count = gather(sampler, logits, vocab, least, tokens);
        return MICA_OK;
    }
    if (nucleus && most <= MC_BUFFER_COUNT(&sampler->blocks, float))
        return select_few(sampler, logits, vocab, best, least, most, count);

    if (nucleus) reach = (double)params->top_p * exp_total(sampler, logits, vocab, best);
    size_t n = find_candidates(sampler, logits, vocab, best, least, most, reach, tokens);
    make_heap(logits, tokens, n);
    while (kept < n && kept < most && sum < reach) {
        sum += (double)expf(logits[pop(logits, tokens, n - kept)] - best);
        kept++;
    }
    reverse(tokens, n);
    *count = kept;
    return MICA_OK;
}

static mica_status weigh(mc_sampler *sampler, const float *logits, float best,
                         const int32_t *tokens, size_t n) {
    double sum = 0.0, temperature = (double)sampler->params.temperature;
    MC_TRY(resize(&sampler->probs, n * sizeof(double)));
    double *probs = MC_BUFFER_AT(&sampler->probs, double);
    for (size_t i = 0; i < n; i++) {
        probs[i] = temperature == 0.0
                       ? 1.0
                       : exp(((double)logits[tokens[i]] - (double)best) / temperature);
        sum += probs[i];
    }
    for (size_t i = 0; i < n; i++)
        probs[i] /= sum;
    return MICA_OK;
}

/* The survivors of logits that bias and penalties have changed. */
static mica_status survive(mc_sampler *sampler, const float *logits, int64_t vocab, size_t *count) {
    int32_t best = 0;
    MC_TRY(resize(&sampler->order, (size_t)vocab * sizeof(int32_t)));
    int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t);
    MC_TRY(find_best(sampler, logits, vocab, &best));
    if (sampler->params.temperature == 0.0f) {
        tokens[0] = best;
        *count = 1;
    } else {
        MC_TRY(select_tokens(sampler, logits, vocab, logits[best], count));
    }
    return weigh(sampler, logits, logits[best], tokens, *count);
}

mica_status mc_sampler_survivors(mc_sampler *sampler, float *logits, int64_t vocab,
                                 const int32_t *history, size_t n_history,
                                 const int32_t **survivors, const double **probs, size_t *count) {
    MC_TRY(edit_logits(sampler, logits, vocab, history, n_history));
    mica_status status = survive(sampler, logits, vocab, count);
    undo(sampler, logits);
    *survivors = MC_BUFFER_AT(&sampler->order, int32_t);
    *probs = MC_BUFFER_AT(&sampler->probs, double);
    return status;
}

/* ---- drawing ---- */

/* Output n of SplitMix64 from a seed, as a fraction in [0, 1). */
static double uniform(uint64_t seed, uint64_t n) {
    uint64_t z = seed + (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

mica_status mc_sampler_draw(mc_sampler *sampler, float *logits, int64_t vocab,
                            const int32_t *history, size_t n_history, int32_t *token) {
    const int32_t *survivors;
    const double *probs;
    size_t count;
    MC_TRY(mc_sampler_survivors(sampler, logits, vocab, history, n_history, &survivors, &probs,
                                &count));
    double rest = uniform(sampler->params.seed, sampler->draws++);
    size_t i = 0;
    while (i + 1 < count && rest >= probs[i])
        rest -= probs[i++];
    *token = survivors[i];
    return MICA_OK;
}

/* ---- log-probabilities ---- */

static mica_status find_alternatives(mc_sampler *sampler, const float *logits, int64_t vocab,
                                     float best, double log_total, size_t most) {
    if (most > (size_t)vocab) most = (size_t)vocab;
    MC_TRY(resize(&sampler->order, (size_t)vocab * sizeof(int32_t)));
    MC_TRY(resize(&sampler->alternatives, most * sizeof(mica_alternative)));
    int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t);
    mica_alternative *alternatives = MC_BUFFER_AT(&sampler->alternatives, mica_alternative);
    size_t n = find_candidates(sampler, logits, vocab, best, -INFINITY, most, INFINITY, tokens);
    if (most > n) most = n;
    make_heap(logits, tokens, n);
    for (size_t i = 0; i < most; i++) {
        int32_t id = pop(logits, tokens, n - i);
        double logprob = (double)logits[id] - (double)best - log_total;
        alternatives[i] = (mica_alternative){id, (float)logprob};
    }
    sampler->alternatives.len = most * sizeof *alternatives;
    return MICA_OK;
}

mica_status mc_sampler_logprobs(mc_sampler *sampler, const float *logits, int64_t vocab,
                                int32_t token, size_t most, float *logprob,
                                const mica_alternative **alternatives, size_t *count) {
    int32_t best = 0;
    mc_buffer_clear(&sampler->alternatives);
    MC_TRY(find_best(sampler, logits, vocab, &best));
    double log_total = log(exp_total(sampler, logits, vocab, logits[best]));
    if (most) MC_TRY(find_alternatives(sampler, logits, vocab, logits[best], log_total, most));
    *logprob = (float)((double)logits[token] - (double)logits[best] - log_total);
    *alternatives = MC_BUFFER_AT(&sampler->alternatives, mica_alternative);
    *count = MC_BUFFER_COUNT(&sampler->alternatives, mica_alternative);
    return MICA_OK;
}
