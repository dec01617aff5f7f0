#include "session/sampler.h"

#include "base/integer.h"
#include "session/logits.h"

#include <float.h>
#include <math.h>
#include <string.h>

void mc_sampler_init(mc_sampler *sampler, const mc_sampling *params) {
    *sampler = (mc_sampler){.params = *params};
}

void mc_sampler_deinit(mc_sampler *sampler) {
    mc_buffer_deinit(&sampler->edits);
    mc_buffer_deinit(&sampler->counts);
    mc_buffer_deinit(&sampler->few);
    mc_buffer_deinit(&sampler->few_ids);
    mc_buffer_deinit(&sampler->blocks);
    mc_buffer_deinit(&sampler->order);
    mc_buffer_deinit(&sampler->buckets);
    mc_buffer_deinit(&sampler->runs);
    mc_buffer_deinit(&sampler->weights);
    mc_buffer_deinit(&sampler->alternatives);
}

/* Sets the length of a buffer; its contents are undefined. */
static mica_status resize(mc_buffer *b, size_t bytes) {
    mc_buffer_clear(b);
    if (!mc_buffer_reserve(b, bytes)) return mc_fail_nomem("sampling");
    b->len = bytes;
    return MICA_OK;
}

/* ---- bias, penalties, bans: logits are changed in place and restored ---- */

typedef struct edit {
    int32_t id;
    float was;
} edit;

static void set(mc_buffer *edits, float *logits, int32_t id, float value) {
    edit e = {id, logits[id]};
    mc_buffer_add(edits, &e, sizeof e); /* edit_logits has reserved the room */
    logits[id] = value;
}

static void undo(mc_sampler *sampler, float *logits) {
    const edit *edits = MC_BUFFER_AT(&sampler->edits, edit);
    for (size_t i = MC_BUFFER_COUNT(&sampler->edits, edit); i-- > 0;)
        logits[edits[i].id] = edits[i].was;
    mc_buffer_clear(&sampler->edits);
}

static mica_status make_counts(mc_sampler *sampler, int64_t vocab) {
    size_t bytes = (size_t)vocab * sizeof(uint32_t);
    if (sampler->counts.len == bytes) return MICA_OK;
    MC_TRY(resize(&sampler->counts, bytes));
    memset(sampler->counts.data, 0, bytes);
    return MICA_OK;
}

/* count: of a token in the answer, which may have none of the window's. */
static float penalised(const mc_sampling *params, float x, uint32_t count) {
    float penalty = params->repetition_penalty == 0.0f ? 1.0f : params->repetition_penalty;
    x = x < 0.0f ? x * penalty : x / penalty;
    if (!count) return x;
    return x - params->presence_penalty - params->frequency_penalty * (float)count;
}

/* Penalises the tokens [n] of the window: all are counted, then each is penalised once. A count has
 * a lowest bit for a token that occurs, and twice the times that it does in the answer. */
static mica_status penalise(mc_sampler *sampler, float *logits, int64_t vocab,
                            const int32_t *tokens, size_t n) {
    size_t prompt = n > sampler->generated ? n - sampler->generated : 0;
    MC_TRY(make_counts(sampler, vocab));
    uint32_t *counts = MC_BUFFER_AT(&sampler->counts, uint32_t);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= 0 && tokens[i] < vocab)
            counts[tokens[i]] = (counts[tokens[i]] | 1) + (i < prompt ? 0 : 2);
    for (size_t i = 0; i < n; i++) {
        int32_t id = tokens[i];
        if (id < 0 || id >= vocab || counts[id] == 0) continue;
        set(&sampler->edits, logits, id, penalised(&sampler->params, logits[id], counts[id] / 2));
        counts[id] = 0;
    }
    return MICA_OK;
}

static mica_status edit_logits(mc_sampler *sampler, float *logits, int64_t vocab,
                               const int32_t *history, size_t n) {
    const mc_sampling *params = &sampler->params;
    size_t window = params->penalty_window ? (size_t)params->penalty_window : MC_PENALTY_WINDOW;
    if (window > n) window = n;
    if (!mc_sampling_penalises(params)) window = 0;
    size_t max = params->bias_count + window + sampler->banned_count;
    mc_buffer_clear(&sampler->edits);
    if (max && !mc_buffer_reserve(&sampler->edits, max * sizeof(edit)))
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

/* ---- the tokens that a constraint allows ---- */

/* What tokens are drawn from: the row, or the logits of few tokens. */
typedef struct candidates {
    const float *logits;
    int64_t count;
    const int32_t *ids; /* [count]; NULL: the index of a logit is its token */
} candidates;

static bool is_allowed(const uint32_t *allowed, int64_t id) {
    return allowed[id / 32] >> (id % 32) & 1;
}

static int64_t count_allowed(const uint32_t *allowed, int64_t vocab) {
    int64_t n = 0;
    for (int64_t i = 0; i < vocab / 32; i++) {
        uint32_t bits = allowed[i];
        bits -= bits >> 1 & 0x55555555u;
        bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
        n += ((bits + (bits >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
    }
    for (int64_t id = vocab / 32 * 32; id < vocab; id++)
        n += is_allowed(allowed, id);
    return n;
}

/* Collects the logits of the n allowed tokens. */
static mica_status collect_allowed(mc_sampler *sampler, const float *logits, int64_t vocab,
                                   int64_t n, candidates *from) {
    MC_TRY(resize(&sampler->few, (size_t)n * sizeof(float)));
    MC_TRY(resize(&sampler->few_ids, (size_t)n * sizeof(int32_t)));
    float *few = MC_BUFFER_AT(&sampler->few, float);
    int32_t *ids = MC_BUFFER_AT(&sampler->few_ids, int32_t);
    int64_t k = 0;
    for (int64_t id = 0; id < vocab; id++) {
        if (id % 32 == 0 && !sampler->allowed[id / 32]) {
            id += 31;
            continue;
        }
        if (!is_allowed(sampler->allowed, id)) continue;
        few[k] = logits[id];
        ids[k++] = (int32_t)id;
    }
    *from = (candidates){few, n, ids};
    return MICA_OK;
}

/* Bans all but the n allowed tokens. */
static mica_status ban_others(mc_sampler *sampler, float *logits, int64_t vocab, int64_t n) {
    if (!mc_buffer_reserve(&sampler->edits, (size_t)(vocab - n) * sizeof(edit)))
        return mc_fail_nomem("sampling");
    for (int64_t id = 0; id < vocab; id++) {
        if (id % 32 == 0 && sampler->allowed[id / 32] == UINT32_MAX)
            id += 31;
        else if (!is_allowed(sampler->allowed, id))
            set(&sampler->edits, logits, (int32_t)id, -INFINITY);
    }
    return MICA_OK;
}

/* Finds what tokens are drawn from; the logits are edited already. */
static mica_status find_allowed(mc_sampler *sampler, float *logits, int64_t vocab,
                                candidates *from) {
    *from = (candidates){logits, vocab, NULL};
    if (!sampler->allowed) return MICA_OK;
    int64_t n = count_allowed(sampler->allowed, vocab);
    if (!n) return mc_fail(MICA_EINVAL, "sampling: the constraint allows no token");
    return n <= vocab / 2 ? collect_allowed(sampler, logits, vocab, n, from)
                          : ban_others(sampler, logits, vocab, n);
}

/* ---- scanning the row ---- */

enum { LANES = 16, BLOCK = 256 }; /* BLOCK: logits for each entry of sampler->blocks */

/* The largest of n logits; sets *nan if one is NaN. */
static float largest_of(const float *logits, int64_t n, bool *nan) {
    float max[LANES];
    uint32_t broken[LANES] = {0};
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        max[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float x = logits[i + k];
            max[k] = x > max[k] ? x : max[k];
            broken[k] |= x != x;
        }
    for (; i < n; i++) {
        max[0] = logits[i] > max[0] ? logits[i] : max[0];
        broken[0] |= logits[i] != logits[i];
    }
    for (int k = 0; k < LANES; k++) {
        max[0] = max[k] > max[0] ? max[k] : max[0];
        *nan = *nan || broken[k] != 0;
    }
    return max[0];
}

/* The likeliest token, of equals the lowest id. Fills sampler->blocks. */
static mica_status find_best(mc_sampler *sampler, const float *logits, int64_t vocab,
                             int32_t *best) {
    bool nan = false;
    float max = -INFINITY;
    int64_t at = 0;
    MC_TRY(resize(&sampler->blocks, (size_t)(vocab + BLOCK - 1) / BLOCK * sizeof(float)));
    float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    for (int64_t i = 0; i < vocab; i += BLOCK) {
        float largest = largest_of(logits + i, mc_min(BLOCK, vocab - i), &nan);
        blocks[i / BLOCK] = largest;
        if (!(largest > max)) continue;
        max = largest;
        at = i;
    }
    MC_TRY(mc_sampling_check_best(nan ? NAN : max));
    while (logits[at] != max)
        at++;
    *best = (int32_t)at;
    return MICA_OK;
}

/* The sum of exp(logit - best) over all logits of the blocks whose largest logit is in [from,
 * to). */
static double exp_sum_between(const mc_sampler *sampler, const float *logits, int64_t vocab,
                              float best, float from, float to) {
    const float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    double total = 0.0;
    for (int64_t i = 0; i < vocab; i += BLOCK)
        if (blocks[i / BLOCK] >= from && blocks[i / BLOCK] < to)
            total += mc_logits_exp_sum(logits + i, mc_min(BLOCK, vocab - i), best);
    return total;
}

/* Blocks whose largest logit is lower than the best by more than this do not count: 2^24 of their
 * tokens weigh less than 1 - top_p can be in a float. */
static const float DEPTH = 40.0f;

static double exp_total(const mc_sampler *sampler, const float *logits, int64_t vocab, float best) {
    return exp_sum_between(sampler, logits, vocab, best, best - DEPTH, INFINITY);
}

/* Collects the tokens whose logit is at least `min`, in order of ids. Returns how many. */
static size_t gather(const mc_sampler *sampler, const float *logits, int64_t vocab, float min,
                     int32_t *tokens) {
    const float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    size_t n = 0;
    for (int64_t i = 0; i < vocab; i += BLOCK) {
        if (blocks[i / BLOCK] < min) continue;
        for (int64_t j = i; j < mc_min(i + BLOCK, vocab); j++) {
            tokens[n] = (int32_t)j;
            n += logits[j] >= min && logits[j] > -INFINITY;
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

/* Removes the top of the heap and puts it behind the heap's new end. */
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

/* A bound that at least `max` tokens reach: of the blocks' largest logits, the one at rank
 * `max`. */
static float bound_of_blocks(const mc_sampler *sampler, size_t n_blocks, size_t max,
                             int32_t *scratch) {
    const float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    for (size_t i = 0; i < n_blocks; i++)
        scratch[i] = (int32_t)i;
    make_heap(blocks, scratch, n_blocks);
    for (size_t i = 1; i < max; i++)
        pop(blocks, scratch, n_blocks - i + 1);
    return blocks[scratch[0]];
}

/* Collects candidates for the `max` likeliest tokens. If there are more blocks than `max`, only
 * tokens that reach bound_of_blocks are candidates. */
static size_t find_candidates(const mc_sampler *sampler, const float *logits, int64_t vocab,
                              float min, size_t max, int32_t *tokens) {
    size_t n_blocks = MC_BUFFER_COUNT(&sampler->blocks, float);
    float bound = -INFINITY;
    if (max <= n_blocks) bound = bound_of_blocks(sampler, n_blocks, max, tokens);
    return gather(sampler, logits, vocab, bound > min ? bound : min, tokens);
}

/* How many of n tokens are needed for a weight of `reach`; n if all weigh less. sums[i] is the
 * weight of the first i + 1 tokens, for i < n - 1. */
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

/* The same where only the largest logits of a row are there: the total weight is the device's,
 * within its error. If the answer depends on that, they are not enough. */
static size_t nucleus_of_largest(mc_sampler *sampler, float best, const double *sums, size_t n) {
    const mc_largest *from = sampler->largest;
    double log_total = (double)from->log_total, error = mc_largest_error(from);
    double reach = (double)sampler->params.top_p * exp(log_total - (double)best);
    size_t fewest = count_reaching(sums, n, reach * (1.0 - error));
    size_t max = count_reaching(sums, n, reach * (1.0 + error));
    if (fewest != max || !isfinite(log_total)) sampler->unsure = true;
    return fewest;
}

/* How many of the n likeliest tokens top_p keeps; sums has n - 1 entries or more. The total weight
 * is known between bounds: a block not yet summed weighs at least as much as its largest logit, and
 * at most 256 times that. Blocks are summed, the likeliest first, until both bounds give one
 * answer. Mostly a few blocks are enough. */
static size_t nucleus_of(mc_sampler *sampler, const float *logits, int64_t vocab, float best,
                         const double *sums, size_t n) {
    if (sampler->largest) return nucleus_of_largest(sampler, best, sums, n);
    const float *blocks = MC_BUFFER_AT(&sampler->blocks, float);
    int64_t n_blocks = (int64_t)MC_BUFFER_COUNT(&sampler->blocks, float);
    double p = (double)sampler->params.top_p, seen = 0.0,
           largest = mc_logits_exp_sum(blocks, n_blocks, best);
    float to = INFINITY;
    for (float depth = 1.0f; depth < DEPTH; depth += 1.0f) {
        float from = best - depth;
        seen += exp_sum_between(sampler, logits, vocab, best, from, to);
        for (int64_t i = 0; i < n_blocks; i++)
            if (blocks[i] >= from && blocks[i] < to) largest -= (double)expf(blocks[i] - best);
        if (largest < 0.0) largest = 0.0;
        size_t fewest = count_reaching(sums, n, p * (seen + largest) * (1.0 - 1e-6));
        size_t max = count_reaching(sums, n, p * (seen + (double)BLOCK * largest) * (1.0 + 1e-6));
        if (fewest == max) return max;
        to = from;
    }
    seen += exp_sum_between(sampler, logits, vocab, best, best - DEPTH, to);
    return count_reaching(sums, n, p * seen);
}

/* ---- survivors, in runs ---- */

static const double LOG2_E = 1.4426950408889634;

/* Survivors that are neighbours in the order. All are likelier than those of the next run. */
typedef struct run {
    size_t end; /* end of the run, as an index into the order */
    double weight;
} run;

/* Cuts `count` sorted tokens into runs. */
static mica_status cut_runs(mc_sampler *sampler, size_t count) {
    size_t n = (count + BLOCK - 1) / BLOCK;
    MC_TRY(resize(&sampler->runs, n * sizeof(run)));
    run *runs = MC_BUFFER_AT(&sampler->runs, run);
    for (size_t i = 0; i < n; i++)
        runs[i].end = i + 1 < n ? (i + 1) * BLOCK : count;
    sampler->sorted = true;
    return MICA_OK;
}

/* Sorts tokens [n], the likeliest first. */
static void sort_tokens(const float *logits, int32_t *tokens, size_t n) {
    make_heap(logits, tokens, n);
    for (size_t i = 0; i < n; i++)
        pop(logits, tokens, n - i);
    reverse(tokens, n);
}

/* Selects from the likeliest tokens where they are few: the `max` likeliest of those that reach
 * `min`, and of these what top_p keeps. *more, unless NULL, is set if a greater `max` would keep
 * more. */
static mica_status select_few(mc_sampler *sampler, const float *logits, int64_t vocab, float best,
                              float min, size_t max, size_t *count, bool *more) {
    float top_p = sampler->params.top_p;
    int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t);
    size_t n = find_candidates(sampler, logits, vocab, min, max, tokens);
    size_t kept = n < max ? n : max;
    double sum = 0.0;
    MC_TRY(resize(&sampler->weights, kept * sizeof(double)));
    double *sums = MC_BUFFER_AT(&sampler->weights, double);
    make_heap(logits, tokens, n);
    for (size_t i = 0; i < kept; i++) {
        sum += (double)expf(logits[pop(logits, tokens, n - i)] - best);
        sums[i] = sum;
    }
    reverse(tokens, n); /* pop put them at the end, the likeliest last */
    bool nucleus = top_p > 0.0f && top_p < 1.0f;
    size_t limit = more && kept == max ? kept + 1 : kept;
    if (nucleus) limit = nucleus_of(sampler, logits, vocab, best, sums, limit);
    if (more) *more = limit > kept;
    *count = limit < kept ? limit : kept;
    return cut_runs(sampler, *count);
}

/* ---- many tokens: buckets by their logits; only the buckets are in order ---- */

enum { BUCKETS = 2048 };

typedef struct bucket {
    double weight; /* of all tokens whose logits are in this bucket's range */
    size_t count;  /* Tokens that may survive; later the index where the next one is written. */
} bucket;

/* The scale from logits to buckets. Bucket 0 holds the best logit; the last one also holds all
 * logits too low to weigh. */
static float bucket_scale(const float *logits, int64_t vocab, float best) {
    float depth = best - mc_logits_smallest(logits, vocab);
    if (depth > DEPTH) depth = DEPTH;
    return depth > 0.0f ? (float)BUCKETS / depth : 0.0f;
}

static void fill_buckets(bucket *buckets, const float *logits, int64_t vocab, float best, float min,
                         float scale, bool nucleus) {
    int32_t places[BLOCK];
    double weights[BLOCK] = {0};
    memset(buckets, 0, BUCKETS * sizeof *buckets);
    for (int64_t i = 0; i < vocab; i += BLOCK) {
        int64_t n = mc_min(BLOCK, vocab - i);
        mc_logits_places(logits + i, n, best, scale, BUCKETS - 1, places);
        if (nucleus) (void)mc_logits_weigh(logits + i, n, best, LOG2_E, weights);
        for (int64_t k = 0; k < n; k++) {
            buckets[places[k]].weight += weights[k];
            buckets[places[k]].count += logits[i + k] >= min;
        }
    }
}

/* Writes the tokens that reach `min`, of buckets 0 to `last`, in the order of their buckets; a
 * bucket's count becomes the index of its end. A token that is not wanted is written without
 * advancing the index. It overwrites nothing: it goes to index vocab, or it is in the bucket of
 * `min` or a later one, where no more tokens are wanted. tokens has room for vocab + 1. */
static void sort_by_buckets(bucket *buckets, int32_t last, const float *logits, int64_t vocab,
                            float best, float min, float scale, int32_t *tokens) {
    int32_t places[BLOCK];
    size_t begin = 0;
    for (int32_t b = 0; b < BUCKETS; b++) {
        size_t count = buckets[b].count;
        buckets[b].count = b <= last ? begin : (size_t)vocab;
        begin += count;
    }
    for (int64_t i = 0; i < vocab; i += BLOCK) {
        int64_t n = mc_min(BLOCK, vocab - i);
        mc_logits_places(logits + i, n, best, scale, BUCKETS - 1, places);
        for (int64_t k = 0; k < n; k++) {
            size_t *at = &buckets[places[k]].count;
            tokens[*at] = (int32_t)(i + k);
            *at += (size_t)(logits[i + k] >= min) & (size_t)(places[k] <= last);
        }
    }
}

/* Keeps the beginning of the order that top_p, min_p and top_k let through. The weights of the
 * buckets tell in which bucket it ends. Only that bucket is sorted. */
static mica_status select_many(mc_sampler *sampler, const float *logits, int64_t vocab, float best,
                               float min, size_t max, size_t *count) {
    float scale = bucket_scale(logits, vocab, best), top_p = sampler->params.top_p;
    int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t), last = 0;
    bool nucleus = top_p > 0.0f && top_p < 1.0f;
    double sum = 0.0, total = 0.0;
    size_t before = 0;
    if (min < -FLT_MAX) min = -FLT_MAX;
    MC_TRY(resize(&sampler->buckets, BUCKETS * sizeof(bucket)));
    MC_TRY(resize(&sampler->runs, BUCKETS * sizeof(run)));
    bucket *buckets = MC_BUFFER_AT(&sampler->buckets, bucket);
    fill_buckets(buckets, logits, vocab, best, min, scale, nucleus);
    for (int b = 0; b < BUCKETS; b++)
        total += buckets[b].weight;
    double reach = nucleus ? (double)top_p * total : INFINITY;
    for (; last < BUCKETS - 1; last++) {
        const bucket *b = &buckets[last];
        if (before + b->count >= max || sum + b->weight >= reach) break;
        before += b->count;
        sum += b->weight;
    }
    sort_by_buckets(buckets, last, logits, vocab, best, min, scale, tokens);

    size_t n = buckets[last].count - before, kept = 0;
    make_heap(logits, tokens + before, n);
    for (; kept < n && before + kept < max && sum < reach; kept++)
        sum += exp((double)logits[pop(logits, tokens + before, n - kept)] - (double)best);
    reverse(tokens + before, n);
    *count = buckets[last].count = before + kept;
    mc_buffer_clear(&sampler->runs);
    for (size_t b = 0, end = 0; b <= (size_t)last; end = buckets[b++].count)
        if (buckets[b].count > end)
            (void)MC_BUFFER_PUSH(&sampler->runs, run, ((run){.end = buckets[b].count}));
    sampler->sorted = false;
    return MICA_OK;
}

/* Selects the tokens that may be drawn. They are sorted, the likeliest first, or in runs, or in
 * order of ids where only min_p cuts. */
static mica_status select_tokens(mc_sampler *sampler, const float *logits, int64_t vocab,
                                 float best, size_t *count) {
    const mc_sampling *params = &sampler->params;
    bool nucleus = params->top_p > 0.0f && params->top_p < 1.0f;
    size_t max = params->top_k ? (size_t)params->top_k : SIZE_MAX;
    float min = params->min_p > 0.0f ? best + logf(params->min_p) : -INFINITY;
    size_t blocks = MC_BUFFER_COUNT(&sampler->blocks, float);
    size_t few = blocks / 2 + 1 > MC_LARGEST ? blocks / 2 + 1 : MC_LARGEST;
    bool more = true;
    if (max <= blocks || max <= MC_LARGEST)
        return select_few(sampler, logits, vocab, best, min, max, count, NULL);
    if (nucleus) /* mostly few tokens are enough */
        MC_TRY(select_few(sampler, logits, vocab, best, min, few, count, &more));
    if (!more) return MICA_OK;
    if (sampler->largest) /* there may be more tokens that reach what they have to */
        sampler->unsure = nucleus || sampler->largest->logits[MC_LARGEST - 1] >= min;
    if (sampler->largest && nucleus) return MICA_OK;
    if (nucleus || params->top_k) return select_many(sampler, logits, vocab, best, min, max, count);
    *count = gather(sampler, logits, vocab, min, MC_BUFFER_AT(&sampler->order, int32_t));
    return cut_runs(sampler, *count);
}

/* ---- weighing ---- */

/* Fills the weights of tokens [begin, end) of the order. Returns their sum. */
static double weigh_run(mc_sampler *sampler, const float *logits, float best, size_t begin,
                        size_t end) {
    const int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t);
    double *weights = MC_BUFFER_AT(&sampler->weights, double);
    double sum = 0.0, per = LOG2_E; /* greedy: one token of any weight */
    if (sampler->params.temperature != 0.0f) per /= (double)sampler->params.temperature;
    float chunk[BLOCK];
    for (size_t n; begin < end; begin += n) {
        n = (size_t)mc_min(BLOCK, (int64_t)(end - begin));
        for (size_t i = 0; i < n; i++)
            chunk[i] = logits[tokens[begin + i]];
        sum += mc_logits_weigh(chunk, (int64_t)n, best, per, weights + begin);
    }
    return sum;
}

/* Finds the survivors, in runs, and their weights. Bias and penalties are in the logits. */
static mica_status survive(mc_sampler *sampler, const float *logits, int64_t vocab, int32_t *best,
                           size_t *count, double *total) {
    *total = 0.0;
    MC_TRY(resize(&sampler->order, ((size_t)vocab + 1) * sizeof(int32_t)));
    MC_TRY(find_best(sampler, logits, vocab, best));
    if (sampler->params.temperature == 0.0f) {
        *MC_BUFFER_AT(&sampler->order, int32_t) = *best;
        *count = 1;
        MC_TRY(cut_runs(sampler, 1));
    } else {
        MC_TRY(select_tokens(sampler, logits, vocab, logits[*best], count));
    }
    MC_TRY(resize(&sampler->weights, *count * sizeof(double)));
    run *runs = MC_BUFFER_AT(&sampler->runs, run);
    for (size_t i = 0, begin = 0; i < MC_BUFFER_COUNT(&sampler->runs, run); i++) {
        runs[i].weight = weigh_run(sampler, logits, logits[*best], begin, runs[i].end);
        *total += runs[i].weight;
        begin = runs[i].end;
    }
    return MICA_OK;
}

/* Sorts tokens [begin, end) of the order, which are a run. */
static void sort_run(mc_sampler *sampler, const float *logits, float best, size_t begin,
                     size_t end) {
    if (sampler->sorted) return;
    sort_tokens(logits, MC_BUFFER_AT(&sampler->order, int32_t) + begin, end - begin);
    (void)weigh_run(sampler, logits, best, begin, end);
}

mica_status mc_sampler_survivors(mc_sampler *sampler, float *logits, int64_t vocab,
                                 const int32_t *history, size_t n_history,
                                 const int32_t **survivors, const double **probs, size_t *count) {
    int32_t best;
    double total;
    candidates from;
    MC_TRY(edit_logits(sampler, logits, vocab, history, n_history));
    mica_status status = find_allowed(sampler, logits, vocab, &from);
    if (status == MICA_OK) status = survive(sampler, from.logits, from.count, &best, count, &total);
    const run *runs = MC_BUFFER_AT(&sampler->runs, run);
    double *weights = MC_BUFFER_AT(&sampler->weights, double);
    int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t);
    if (status == MICA_OK) {
        for (size_t i = 0, begin = 0; begin < *count; begin = runs[i++].end)
            sort_run(sampler, from.logits, from.logits[best], begin, runs[i].end);
        for (size_t i = 0; i < *count; i++) {
            weights[i] /= total;
            if (from.ids) tokens[i] = from.ids[tokens[i]];
        }
    }
    undo(sampler, logits);
    *survivors = tokens;
    *probs = weights;
    return status;
}

/* ---- drawing ---- */

double mc_sampler_uniform(uint64_t seed, uint64_t n) {
    uint64_t z = seed + (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* The survivor at which the running sum of weights exceeds `rest`. Only its run is sorted. */
static int32_t pick(mc_sampler *sampler, const float *logits, float best, double rest) {
    const run *runs = MC_BUFFER_AT(&sampler->runs, run);
    const double *weights = MC_BUFFER_AT(&sampler->weights, double);
    size_t i = 0, begin = 0;
    for (; i + 1 < MC_BUFFER_COUNT(&sampler->runs, run) && rest >= runs[i].weight; i++) {
        rest -= runs[i].weight;
        begin = runs[i].end;
    }
    sort_run(sampler, logits, best, begin, runs[i].end);
    while (begin + 1 < runs[i].end && rest >= weights[begin])
        rest -= weights[begin++];
    return MC_BUFFER_AT(&sampler->order, int32_t)[begin];
}

/* Draws one of the survivors; returns its index. */
static int32_t draw_one(mc_sampler *sampler, const candidates *from, int32_t best, double total) {
    double rest = total * mc_sampler_uniform(sampler->params.seed, sampler->draws++);
    return pick(sampler, from->logits, from->logits[best], rest);
}

mica_status mc_sampler_draw(mc_sampler *sampler, float *logits, int64_t vocab,
                            const int32_t *history, size_t n_history, int32_t *token) {
    int32_t best;
    size_t count;
    double total;
    candidates from;
    MC_TRY(edit_logits(sampler, logits, vocab, history, n_history));
    mica_status status = find_allowed(sampler, logits, vocab, &from);
    if (status == MICA_OK)
        status = survive(sampler, from.logits, from.count, &best, &count, &total);
    if (status == MICA_OK) {
        *token = draw_one(sampler, &from, best, total);
        if (from.ids) *token = from.ids[*token];
    }
    undo(sampler, logits);
    return status;
}

/* The tokens of the largest logits in order of ids, which is that of a row's tokens. */
static mica_status list_largest(mc_sampler *sampler, candidates *from) {
    const mc_largest *largest = sampler->largest;
    MC_TRY(resize(&sampler->few, sizeof largest->logits));
    MC_TRY(resize(&sampler->few_ids, sizeof largest->ids));
    float *few = MC_BUFFER_AT(&sampler->few, float);
    int32_t *ids = MC_BUFFER_AT(&sampler->few_ids, int32_t);
    for (int i = 0; i < MC_LARGEST; i++) {
        int at = i;
        for (; at && ids[at - 1] > largest->ids[i]; at--) {
            ids[at] = ids[at - 1];
            few[at] = few[at - 1];
        }
        ids[at] = largest->ids[i];
        few[at] = largest->logits[i];
    }
    *from = (candidates){few, MC_LARGEST, ids};
    return MICA_OK;
}

mica_status mc_sampler_draw_largest(mc_sampler *sampler, const mc_largest *largest, int32_t *token,
                                    bool *enough) {
    int32_t best;
    size_t count;
    double total;
    candidates from;
    *enough = false;
    if (sampler->banned_count || sampler->allowed || !mc_sampling_takes_largest(&sampler->params))
        return MICA_OK;
    MC_TRY(mc_sampling_check_best(largest->logits[0])); /* NaN comes before all others */
    sampler->largest = largest;
    sampler->unsure = false;
    mica_status status = list_largest(sampler, &from);
    if (status == MICA_OK)
        status = survive(sampler, from.logits, from.count, &best, &count, &total);
    if (status == MICA_OK && !sampler->unsure) {
        *token = from.ids[draw_one(sampler, &from, best, total)];
        *enough = true;
    }
    sampler->largest = NULL;
    return status;
}

/* ---- log-probabilities ---- */

static mica_status find_alternatives(mc_sampler *sampler, const float *logits, int64_t vocab,
                                     float best, double log_total, size_t max) {
    if (max > (size_t)vocab) max = (size_t)vocab;
    MC_TRY(resize(&sampler->order, (size_t)vocab * sizeof(int32_t)));
    MC_TRY(resize(&sampler->alternatives, max * sizeof(mica_alternative)));
    int32_t *tokens = MC_BUFFER_AT(&sampler->order, int32_t);
    mica_alternative *alternatives = MC_BUFFER_AT(&sampler->alternatives, mica_alternative);
    size_t n = find_candidates(sampler, logits, vocab, -INFINITY, max, tokens);
    if (max > n) max = n;
    make_heap(logits, tokens, n);
    for (size_t i = 0; i < max; i++) {
        int32_t id = pop(logits, tokens, n - i);
        double logprob = (double)logits[id] - (double)best - log_total;
        alternatives[i] = (mica_alternative){id, (float)logprob};
    }
    sampler->alternatives.len = max * sizeof *alternatives;
    return MICA_OK;
}

mica_status mc_sampler_logprobs(mc_sampler *sampler, const float *logits, int64_t vocab,
                                int32_t token, size_t max, float *logprob,
                                const mica_alternative **alternatives, size_t *count) {
    int32_t best = 0;
    mc_buffer_clear(&sampler->alternatives);
    MC_TRY(find_best(sampler, logits, vocab, &best));
    double log_total = log(exp_total(sampler, logits, vocab, logits[best]));
    if (max) MC_TRY(find_alternatives(sampler, logits, vocab, logits[best], log_total, max));
    *logprob = (float)((double)logits[token] - (double)logits[best] - log_total);
    *alternatives = MC_BUFFER_AT(&sampler->alternatives, mica_alternative);
    *count = MC_BUFFER_COUNT(&sampler->alternatives, mica_alternative);
    return MICA_OK;
}
