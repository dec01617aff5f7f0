/* Scaled dot product attention: splits calls into blocks, and blocks into tasks. attention.c
 * computes a block.
 *
 * If every block is a small part of a thread's share, a block is one task. If one is not, as in
 * decoding with few heads or when one of several joint calls is long, blocks are split in three
 * phases into parts of about equal size: scores by keys, the softmax by rows, values by columns. No
 * sum is split.
 *
 * Keys and values in the blocks of a pool (paged_sdpa) differ in where attention.c finds them.
 *
 * Joint calls, such as those of sequences that are decoded together, are one set of blocks. */
#include "base/integer.h"
#include "cpu/attention.h"
#include "cpu/eval.h"
#include "cpu/region.h"
#include "cpu/rows.h"

#define ROWS 96                /* max queries times heads in a block, if their scores fit */
#define FEW_ROWS 24            /* the same, if there would be too few blocks */
#define SCORE_FLOATS (1 << 20) /* max scores of a block that has more than one query */
#define RUNS 4                 /* blocks for each thread, so that a slow thread delays nobody */
/* parts of split blocks for each thread; each begins with keys that were not prefetched */
#define PARTS 2

typedef enum phase { SCORES, WEIGHTS, VALUES, PHASES } phase;

/* A call and its blocks. */
typedef struct blocks {
    mc_attention at;
    int64_t unit_queries;    /* queries of a block */
    int64_t query_blocks, n; /* n: blocks of all batch rows and kv heads */
    int64_t span;            /* max keys of a block */
    int64_t work;            /* of the largest block: products with keys for its weights */
    int64_t weights;         /* of all blocks */
    int64_t parts[PHASES];   /* parts of a block in each phase, if blocks are split */
    /* if blocks are split: where its blocks' results begin, and the floats of one */
    int64_t results, floats;
} blocks;

/* Joint calls, computed together. */
typedef struct together {
    const mc_call *call; /* the first call */
    blocks each[MC_MAX_JOINT];
    int n, threads;
    int64_t blocks, weights, work; /* of all calls, one call's after the other's */
    bool split;                    /* blocks are split into tasks */
    float *scratch;                /* a part for each worker, then blocks' results */
    /* a block's results are in the worker's part, unless blocks are split */
    int64_t worker_floats, block_floats;
} together;

/* Block i of a call: its queries and its keys. */
static mc_attn_block place_block(const blocks *some, int64_t i) {
    const mc_attention *at = &some->at;
    mc_attn_block b = {.at = at};
    int64_t query_block = i % some->query_blocks, kv_row = i / some->query_blocks;
    b.batch = kv_row / at->kv_heads;
    b.kv_head = kv_row % at->kv_heads;
    b.head = b.kv_head * at->group;
    /* Causal: the last block has the most work, so it goes first. */
    b.query = (some->query_blocks - 1 - query_block) * some->unit_queries;
    b.queries = mc_min(some->unit_queries, at->lq - b.query);
    b.rows = at->group * b.queries;
    b.offset = mc_attn_offset(at, b.batch);
    int64_t begin, end, unused;
    mc_attn_seen(&b, b.query, &begin, &unused);
    mc_attn_seen(&b, b.query + b.queries - 1, &unused, &end);
    b.first = begin / at->values_together * at->values_together;
    if (b.first < at->lead) b.first = 0;
    if (b.first > 0) b.lead = at->lead;
    b.width = b.lead + end - b.first;
    b.stride = mc_attn_stride(b.width);
    return b;
}

static int64_t rows_of(const blocks *some) {
    return some->at.group * some->unit_queries;
}

/* Floats of a block's q; the tile follows it. */
static int64_t query_floats(const blocks *some) {
    return mc_round_up(rows_of(some) * some->at.q_floats, MC_ATTN_LINE);
}

/* Block `index` of all calls, with its scratch. */
static mc_attn_block block_at(const together *all, int64_t index, int worker) {
    const blocks *some = all->each;
    for (; index >= some->n; some++)
        index -= some->n;
    mc_attn_block b = place_block(some, index);
    b.q = all->scratch + worker * all->worker_floats;
    b.tile = b.q + query_floats(some);
    b.scores = all->scratch + all->threads * all->worker_floats;
    b.scores += all->split ? some->results + index * some->floats : worker * all->block_floats;
    b.y = b.scores + rows_of(some) * mc_attn_stride(some->span);
    b.totals = b.y + rows_of(some) * some->at.dv;
    return b;
}

static void attend(void *context, int64_t begin, int64_t end, int worker) {
    const together *all = context;
    mc_attn_block b = block_at(all, begin, worker);
    mc_attn_touch(&b);
    for (int64_t index = begin + 1; index <= end; index++) {
        mc_attn_score(&b, 0, b.width);
        for (int64_t r = 0; r < b.rows; r++)
            mc_attn_weigh(&b, r);
        mc_attn_block next = b;
        if (index < end) {
            next = block_at(all, index, worker);
            mc_attn_touch(&next);
        }
        mc_attn_sum(&b, 0, b.at->dv);
        b = next;
    }
}

/* ---- split blocks ---- */

/* Part i of n units: *begin <= unit < *end. Each of the `parts` begins with a multiple of
 * `step`. */
static void part_of(int64_t n, int64_t step, int64_t i, int64_t parts, int64_t *begin,
                    int64_t *end) {
    int64_t steps = (n + step - 1) / step;
    *begin = mc_min(n, steps * i / parts * step);
    *end = mc_min(n, steps * (i + 1) / parts * step);
}

/* A task's block, and which of how many parts of it the task computes. */
typedef struct share {
    mc_attn_block block;
    int64_t part, parts;
} share;

static share share_of(const together *all, phase p, int64_t task, int worker) {
    const blocks *some = all->each;
    int64_t before = 0; /* blocks of earlier calls */
    for (; task >= some->n * some->parts[p]; some++) {
        task -= some->n * some->parts[p];
        before += some->n;
    }
    int64_t parts = some->parts[p];
    return (share){block_at(all, before + task / parts, worker), task % parts, parts};
}

static void score_parts(void *context, int64_t begin, int64_t end, int worker) {
    for (int64_t task = begin; task < end; task++) {
        share s = share_of(context, SCORES, task, worker);
        int64_t from, to;
        part_of(s.block.width, MC_ATTN_KEYS, s.part, s.parts, &from, &to);
        if (from < to) mc_attn_score(&s.block, from, to);
    }
}

static void weigh_parts(void *context, int64_t begin, int64_t end, int worker) {
    for (int64_t task = begin; task < end; task++) {
        share s = share_of(context, WEIGHTS, task, worker); /* a part is a row */
        if (s.part < s.block.rows) mc_attn_weigh(&s.block, s.part);
    }
}

static void value_parts(void *context, int64_t begin, int64_t end, int worker) {
    for (int64_t task = begin; task < end; task++) {
        share s = share_of(context, VALUES, task, worker);
        int64_t from, to;
        part_of(s.block.at->dv, MC_ATTN_COLUMNS, s.part, s.parts, &from, &to);
        if (from < to) mc_attn_sum(&s.block, from, to);
    }
}

/* Chooses the parts of each call's blocks: `enough` or a few more in all, of about equal size. A
 * call has fewer if it has not enough keys or columns for that size. */
static void choose_parts(together *all, int64_t enough) {
    for (int i = 0; i < all->n; i++) {
        blocks *some = &all->each[i];
        int64_t parts = (some->work * enough - 1) / all->work + 1;
        some->parts[SCORES] = mc_min(parts, (some->span - 1) / MC_ATTN_KEYS + 1);
        some->parts[WEIGHTS] = rows_of(some);
        some->parts[VALUES] = mc_min(parts, (some->at.dv - 1) / MC_ATTN_COLUMNS + 1);
    }
}

static void run_phase(together *all, phase p, int64_t work, mc_range_fn fn) {
    int64_t tasks = 0;
    for (int i = 0; i < all->n; i++)
        tasks += all->each[i].n * all->each[i].parts[p];
    mc_cpu_for(all->call, tasks, mc_grain(work / tasks), fn, all);
}

static void attend_in_parts(together *all) {
    const int64_t exp_work = 16; /* a weight takes as long as this many products */
    run_phase(all, SCORES, all->work, score_parts);
    run_phase(all, WEIGHTS, all->weights * exp_work, weigh_parts);
    run_phase(all, VALUES, all->work, value_parts);
}

/* ---- planning and running ---- */

/* Max keys of a block with some queries: kept keys, keys that the queries attend to, and some
 * before these. */
static int64_t span_of(const mc_attention *at, int64_t queries) {
    int64_t window = at->attr->window;
    if (window == 0 || window > at->lk) return at->lk;
    return mc_min(at->lk, at->lead + at->values_together - 1 + window + queries - 1);
}

/* Max keys that a block of a batch row attends to. */
static int64_t max_seen(const blocks *some, int64_t batch_row) {
    const mc_attention *at = &some->at;
    if (at->attr->causal == 0) return some->span;
    return mc_max(0, mc_min(mc_attn_offset(at, batch_row) + at->lq, some->span));
}

/* Counts the weights of all blocks, and the work of the largest. */
static void count_weights(blocks *some, int64_t batch) {
    int64_t max = 0, blocks_a_row = some->n / mc_max(1, batch);
    for (int64_t i = 0; i < batch; i++) {
        int64_t weights = rows_of(some) * max_seen(some, i);
        some->weights += blocks_a_row * weights;
        max = mc_max(max, weights);
    }
    some->work = max * some->at.d;
}

/* Chooses the size of blocks: large enough for the caches, small enough that the blocks of `calls`
 * calls occupy every thread. */
static void choose_blocks(blocks *some, int64_t batch, int64_t enough, int calls) {
    const mc_attention *at = &some->at;
    int64_t kv_rows = batch * at->kv_heads, span = span_of(at, ROWS);
    int64_t queries = mc_max(1, mc_min(at->lq, ROWS / at->group));
    while (queries > 1 && queries * at->group > FEW_ROWS &&
           calls * kv_rows * ((at->lq - 1) / queries + 1) < enough)
        queries = (queries + 1) / 2;
    int64_t fit = SCORE_FLOATS / (at->group * mc_max(1, span));
    some->unit_queries = mc_max(1, mc_min(queries, fit));
    some->query_blocks = (at->lq - 1) / some->unit_queries + 1;
    some->n = kv_rows * some->query_blocks;
    some->span = span_of(at, some->unit_queries);
    count_weights(some, batch);
}

/* Adds a call whose result is not empty to those computed together. */
static void add_call(together *all, const mc_call *call, int64_t enough) {
    blocks *some = &all->each[all->n++];
    mc_attn_describe(call, &some->at);
    choose_blocks(some, call->out.layout->shape[0], enough, all->call->joint);
    int64_t rows = rows_of(some);
    int64_t worker = query_floats(some) + mc_round_up(mc_attn_tile_floats(&some->at), MC_ATTN_LINE);
    some->floats =
        rows * mc_attn_stride(some->span) + mc_round_up(rows * (some->at.dv + 1), MC_ATTN_LINE);
    if (all->n > 1) some->results = some[-1].results + some[-1].n * some[-1].floats;
    all->blocks += some->n;
    all->weights += some->weights;
    all->work += some->weights * some->at.d;
    if (all->worker_floats < worker) all->worker_floats = worker;
    if (all->block_floats < some->floats) all->block_floats = some->floats;
}

/* Whether the largest block is more than half of a thread's share, and worth more than one
 * thread. */
static bool is_uneven(const together *all) {
    int64_t max = 0;
    for (int i = 0; i < all->n; i++)
        if (all->each[i].work > max) max = all->each[i].work;
    return max > 2 * MC_SMALL_WORK && max > all->work / (2 * all->threads);
}

/* Whether tables name blocks that are there. */
static mica_status check_tables(const mc_attention *at, int64_t batch) {
    int64_t there = at->call->in[1].layout->shape[1], n = at->page ? at->lk / at->page : 0;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < n; i++) {
            int64_t id = mc_attn_table(at, b, i);
            if (id >= 0 && id < there) continue;
            return mc_fail(MICA_EINVAL, "paged_sdpa: block %lld of a pool that has %lld",
                           (long long)(id < 0 ? id - there : id), (long long)there);
        }
    return MICA_OK;
}

mica_status mc_eval_sdpa(const mc_call *call) {
    together all = {.call = call, .threads = mc_cpu_of(call)->threads};
    int64_t enough = (int64_t)RUNS * all.threads;
    for (int i = 0; i < call->joint; i++)
        if (mc_layout_size(call[i].out.layout) > 0) add_call(&all, &call[i], enough);
    if (all.blocks == 0) return MICA_OK;
    all.split = all.threads > 1 && is_uneven(&all);
    if (all.split) choose_parts(&all, PARTS * all.threads);
    const blocks *last = &all.each[all.n - 1];
    int64_t results = all.threads * all.block_floats;
    if (all.split) results = last->results + last->n * last->floats;
    int64_t floats = all.worker_floats * all.threads + results;
    all.scratch = mc_run_scratch(call->run, (size_t)floats * sizeof *all.scratch);
    if (!all.scratch) return MICA_ENOMEM;
    for (int i = 0; i < all.n; i++)
        MC_TRY(check_tables(&all.each[i].at, all.each[i].at.call->out.layout->shape[0]));
    if (all.split)
        attend_in_parts(&all);
    else
        mc_cpu_for(call, all.blocks, mc_grain(all.work / all.blocks), attend, &all);
    return MICA_OK;
}
