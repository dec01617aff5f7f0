/* Scaled dot product attention in two passes over the keys that a block of queries sees: scores and
 * their softmax into scratch, then the weighted sum of values.
 *
 * Scores are dot products, a row's total is a sum of integers, and its values are summed over the
 * keys in rising order: what a query gets depends on the keys that it sees alone (those it does not
 * see being finite: their weight is 0), not on the block it is in, on hidden keys before them, or on
 * the number of threads. Query heads that share K and V are multiplied together, so that these are
 * read once.
 *
 * Keys and values in bf16 are multiplied as they are where the machine can, by queries and weights
 * rounded to bf16. It takes some keys at a time: there the order of summation also depends on the place
 * of a key among these. Those in rows of 8 bits are widened, to numbers that f32 holds exactly.
 * But where the machine multiplies such rows, keys meet queries that are rounded like them, in whole
 * numbers, and values are rounded to bf16 where that meets bf16.
 *
 * A block is one task where none is much of a thread's share. Where one is, as in decoding with few heads
 * or in a batch with one long row, they are split three times, each into parts of about the same size:
 * scores over the keys, the softmax over rows, values over their columns. No sum is split.
 *
 * Joint calls, as those of sequences that are decoded together, are one set of blocks. */
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "cpu/eval.h"
#include "cpu/kern/vmath.h"
#include "cpu/product.h"
#include "cpu/rows.h"
#include "graph/attr.h"

enum { Q, K, V, MASK, OFFSET, SINKS };

#define KEYS 64             /* a tile of keys or values */
#define LINE 16             /* floats of a line of memory */
#define EDGE 16             /* keys that only some rows see, at once: at least */
#define COLUMNS MK_Q8_GROUP /* of values: least that a task takes; a line of memory in bf16 */
#define ROWS 96             /* queries times heads in a block, if scores fit */
#define FEW_ROWS 24         /* the same, where there would be too few blocks */
#define DIRECT_ROWS 12      /* rows up to which narrow numbers are widened in registers: no tile */
#define SCORE_FLOATS (1 << 20) /* the scores of a block, if it has more than one query */
#define RUNS 4                 /* pieces a thread, so that a slow one holds nobody */

typedef enum phase { SCORES, WEIGHTS, VALUES, PHASES } phase;

typedef struct attention {
    const mk_kernels *kern;
    const mc_call *call;
    const mc_attr_sdpa *attr;
    mc_layout mask; /* broadcast to [B, Hq, Lq, Lk]; read where there is one */
    int64_t heads, kv_heads, group, lq, lk, d, dv;
    bool pairs;                   /* weights and values in bf16; so q and k, but for q8_direct */
    int64_t values_together;      /* a block begins with a multiple of so many keys */
    int64_t q8_bytes;             /* of a row, where keys and values are rows of 8 bits; else 0 */
    bool q8_direct;               /* such keys are multiplied by q in such rows */
    int64_t q_floats;             /* of a row of q in scratch, whatever that holds */
    int64_t unit_queries;         /* of a block */
    int64_t query_blocks, blocks; /* blocks: of all batch rows and kv heads */
    int64_t span;                 /* the most keys that a block can have */
    int64_t weights, work;        /* of a block: how many, and products with keys for them */
    int64_t parts[PHASES];        /* of a block, where blocks are split */
    int64_t first, floats;        /* where the results of its blocks are then, and those of one */
} attention;

/* Calls that are computed together. */
typedef struct together {
    const mc_call *call; /* the first */
    attention each[MC_MOST_JOINT];
    int n, threads;
    int64_t blocks, weights, work;       /* of all: one call's after the other's */
    bool split;                          /* blocks into tasks */
    float *scratch;                      /* a part for each worker, then results of blocks */
    int64_t worker_floats, block_floats; /* a block's results: the worker's, but if split */
} together;

/* One block: the query heads of one batch row and kv head, some queries of each. */
typedef struct block {
    const attention *at;
    int64_t batch, head, kv_head; /* head: the first */
    int64_t query, queries;       /* the first, and how many */
    int64_t rows;                 /* queries * heads; row = query * heads + head */
    int64_t offset;               /* key position of query 0 */
    int64_t first, width;         /* of the keys that any row sees, or the block begins with */
    int64_t stride;               /* of a row of scores */
    float *q, *tile;            /* the worker's: q [rows, d], bf16 where pairs, or rows of 8 bits */
    float *scores, *y, *totals; /* the block's: scores [rows, width], weights in bf16 where pairs */
} block;

static const mc_operand *operand(const attention *at, int i) {
    static const mc_operand absent = {0};
    return i < at->call->n_in ? &at->call->in[i] : &absent;
}

/* The keys that the query sees, as far as causal and window go: begin <= j < end. */
static void seen_keys(const block *b, int64_t query, int64_t *begin, int64_t *end) {
    const mc_attr_sdpa *attr = b->at->attr;
    *begin = 0;
    *end = b->at->lk;
    if (attr->causal == 0) return;
    int64_t position = b->offset + query;
    if (position + 1 < *end) *end = position + 1;
    if (attr->window > 0 && position + 1 - attr->window > 0) *begin = position + 1 - attr->window;
    if (*end < 0) *end = 0;
    if (*begin > *end) *begin = *end;
}

/* Rows of scores begin with a line, and those that follow each other lie in other sets of a cache. */
static int64_t score_stride(int64_t width) {
    return mc_round_up(width, LINE) | LINE;
}

/* Where the block's keys (or values) begin. */
static int64_t place(const block *b, int which) {
    const mc_layout *l = b->at->call->in[which].layout;
    return b->batch * l->strides[0] + b->kv_head * l->strides[1] + b->first * l->strides[2];
}

/* Where a row of 8 bits lies, or a copy of it behind the tile if its bytes are not side by side. */
static const uint8_t *q8_row(const block *b, int which, int64_t j) {
    const mc_layout *l = b->at->call->in[which].layout;
    const uint8_t *row = (const uint8_t *)b->at->call->in[which].data;
    row += place(b, which) + j * l->strides[2];
    if (l->strides[3] == 1) return row;
    uint8_t *copy = (uint8_t *)(b->tile + KEYS * b->at->d);
    for (int64_t i = 0; i < b->at->q8_bytes; i++)
        copy[i] = row[i * l->strides[3]];
    return copy;
}

/* Columns [column, column + n) of `count` rows of 8 bits to the tile; column is a group's first. */
static void load_q8(const block *b, int which, int64_t j, int64_t count, int64_t column,
                    int64_t n) {
    int64_t scales = mk_q8_scales(b->at->d) + 2 * (column / MK_Q8_GROUP);
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *row = q8_row(b, which, j + i);
        b->at->kern->widen_q8(n, row + column, row + scales, b->tile + i * n);
    }
}

/* Columns [column, column + n) of `count` keys (or values) from b->first + j on as f32 rows: where
 * they lie, or in the tile. */
static const float *load_tile(const block *b, int which, int64_t j, int64_t count, int64_t column,
                              int64_t n, int64_t *stride) {
    const mc_operand *x = &b->at->call->in[which];
    const mc_layout *l = x->layout;
    if (l->dtype == MICA_U8) {
        load_q8(b, which, j, count, column, n);
        *stride = n;
        return b->tile;
    }
    int64_t at = place(b, which) + j * l->strides[2] + column * l->strides[3];
    if (l->dtype == MICA_F32 && (l->strides[3] == 1 || n == 1)) {
        *stride = l->strides[2];
        return (const float *)x->data + at;
    }
    for (int64_t i = 0; i < count; i++)
        mc_widen(b->at->kern, l->dtype, x->data, at + i * l->strides[2], l->strides[3], n,
                 b->tile + i * n);
    *stride = n;
    return b->tile;
}

static void load_queries(const block *b) {
    const attention *at = b->at;
    const mc_operand *q = &at->call->in[Q];
    const mc_layout *l = q->layout;
    for (int64_t r = 0; r < b->rows; r++) {
        int64_t head = b->head + r % at->group, query = b->query + r / at->group;
        int64_t from = b->batch * l->strides[0] + head * l->strides[1] + query * l->strides[2];
        float *to = b->q + r * at->q_floats;
        if (!at->pairs && !at->q8_direct) {
            mc_widen(at->kern, l->dtype, q->data, from, l->strides[3], at->d, to);
            continue;
        }
        const float *row =
            mc_row_see(at->kern, l->dtype, q->data, from, l->strides[3], at->d, b->tile);
        if (at->q8_direct)
            at->kern->narrow_q8(at->d, row, (uint8_t *)to);
        else
            at->kern->narrow_bf16(at->d, row, (uint16_t *)to);
    }
}

/* Whether keys (or values) of 16 bits are widened in registers: few rows, elements side by side. */
static bool takes_halves(const block *b, int which) {
    const mc_layout *l = b->at->call->in[which].layout;
    return (l->dtype == MICA_BF16 || l->dtype == MICA_F16) && l->strides[3] == 1 &&
           b->rows <= DIRECT_ROWS;
}

static void multiply_halves(const block *b, int64_t begin, int64_t end) {
    const attention *at = b->at;
    const mc_operand *k = &at->call->in[K];
    int64_t step = k->layout->strides[2], n = end - begin;
    const uint16_t *keys = (const uint16_t *)k->data + place(b, K) + begin * step;
    float *scores = b->scores + begin;
    if (k->layout->dtype == MICA_BF16)
        at->kern->matmul_nt_bf16(b->rows, n, at->d, b->q, at->d, keys, step, scores, b->stride);
    else
        at->kern->matmul_nt_f16(b->rows, n, at->d, b->q, at->d, keys, step, scores, b->stride);
}

/* Scores of keys [begin, end), counted from b->first. */
static void multiply_keys(const block *b, int64_t begin, int64_t end) {
    const attention *at = b->at;
    if (at->q8_direct) {
        int64_t step = at->call->in[K].layout->strides[2];
        const uint8_t *keys = (const uint8_t *)at->call->in[K].data + place(b, K);
        at->kern->attn_scores_q8(b->rows, end - begin, at->d, (const uint8_t *)b->q, at->q8_bytes,
                                 keys + begin * step, step, b->scores + begin, b->stride);
        return;
    }
    if (at->pairs) {
        int64_t step = at->call->in[K].layout->strides[2];
        const uint16_t *keys = (const uint16_t *)at->call->in[K].data + place(b, K);
        at->kern->attn_scores(b->rows, end - begin, at->d, (const uint16_t *)b->q, at->d,
                              keys + begin * step, step, b->scores + begin, b->stride);
        return;
    }
    if (takes_halves(b, K)) {
        multiply_halves(b, begin, end);
        return;
    }
    for (int64_t j = begin; j < end; j += KEYS) {
        int64_t count = mc_min(KEYS, end - j), stride;
        const float *keys = load_tile(b, K, j, count, 0, at->d, &stride);
        at->kern->matmul_nt(b->rows, count, at->d, b->q, at->d, keys, stride, b->scores + j,
                            b->stride);
    }
}

/* Columns [begin, end) of values, weighted, of keys [j, j + n) counted from b->first. */
typedef struct piece {
    int64_t j, n, begin, end;
} piece;

static void add_halves(const block *b, const piece *p) {
    const attention *at = b->at;
    const mc_operand *v = &at->call->in[V];
    int64_t step = v->layout->strides[2], n = p->end - p->begin;
    const uint16_t *values = (const uint16_t *)v->data + place(b, V) + p->j * step + p->begin;
    const float *weights = b->scores + p->j;
    float *y = b->y + p->begin;
    if (v->layout->dtype == MICA_BF16)
        at->kern->matmul_nn_bf16(b->rows, n, p->n, weights, b->stride, values, step, y, at->dv);
    else
        at->kern->matmul_nn_f16(b->rows, n, p->n, weights, b->stride, values, step, y, at->dv);
}

static void add_pairs(const block *b, const piece *p) {
    const attention *at = b->at;
    int64_t step = at->call->in[V].layout->strides[2];
    const uint16_t *values = (const uint16_t *)at->call->in[V].data + place(b, V) + p->j * step;
    at->kern->attn_values(b->rows, p->n, p->end - p->begin, (const uint16_t *)b->scores + p->j,
                          2 * b->stride, values + p->begin, step, b->y + p->begin, at->dv);
}

static void add_q8(const block *b, const piece *p) {
    const attention *at = b->at;
    int64_t step = at->call->in[V].layout->strides[2], n = p->end - p->begin;
    const uint8_t *row = (const uint8_t *)at->call->in[V].data + place(b, V) + p->j * step;
    const uint8_t *values = row + p->begin;
    const uint8_t *scales = row + mk_q8_scales(at->dv) + p->begin / MK_Q8_GROUP * 2;
    float *y = b->y + p->begin;
    if (at->pairs)
        at->kern->attn_values_q8_bf16(b->rows, p->n, n, (const uint16_t *)b->scores + p->j,
                                      2 * b->stride, values, scales, step, y, at->dv);
    else
        at->kern->attn_values_q8(b->rows, p->n, n, b->scores + p->j, b->stride, values, scales,
                                 step, y, at->dv);
}

static void add_values(const block *b, const piece *p) {
    const attention *at = b->at;
    if (at->q8_bytes > 0 && (at->pairs || (at->q8_direct && b->rows <= DIRECT_ROWS))) {
        add_q8(b, p);
        return;
    }
    if (at->pairs) {
        add_pairs(b, p);
        return;
    }
    if (takes_halves(b, V)) {
        add_halves(b, p);
        return;
    }
    for (int64_t j = p->j; j < p->j + p->n; j += KEYS) {
        int64_t count = mc_min(KEYS, p->j + p->n - j), stride, n = p->end - p->begin;
        const float *values = load_tile(b, V, j, count, p->begin, n, &stride);
        at->kern->matmul_nn(b->rows, n, count, b->scores + j, b->stride, values, stride,
                            b->y + p->begin, at->dv);
    }
}

/* ---- which rows meet which keys ---- */

/* Some of the block's rows. */
static block rows_of(const block *b, int64_t row, int64_t rows) {
    block part = *b;
    part.rows = rows;
    part.q += row * b->at->q_floats;
    part.scores += row * b->stride;
    part.y += row * b->at->dv;
    return part;
}

/* The rows that see any of keys [begin, end), as far as causal and window go. */
static block rows_that_see(const block *b, int64_t begin, int64_t end) {
    const mc_attr_sdpa *attr = b->at->attr;
    if (attr->causal == 0) return *b;
    int64_t position = b->offset + b->query; /* of the first row */
    int64_t from = b->first + begin - position, to = b->queries;
    if (attr->window > 0) /* how many of the last ones see none */
        to -= position + b->queries - attr->window - (b->first + end - 1);
    from = from < 0 ? 0 : mc_min(from, b->queries);
    to = to < from ? from : mc_min(to, b->queries);
    return rows_of(b, from * b->at->group, (to - from) * b->at->group);
}

/* Where the keys from j on end that are taken in one piece: all that all rows see, or `edge` of those that
 * only some do. */
static int64_t piece_end(const block *b, int64_t j, int64_t end, int64_t edge) {
    int64_t begin, all_end, unused;
    seen_keys(b, b->query + b->queries - 1, &begin, &unused);
    seen_keys(b, b->query, &unused, &all_end);
    begin -= b->first;
    all_end -= b->first;
    if (all_end < b->width) all_end = all_end / edge * edge;
    if (j >= begin && j < all_end) return mc_min(all_end, end);
    return mc_min(j + edge, end);
}

/* How many keys that only some rows see are taken at once. */
static int64_t edge_of(const attention *at) {
    return mc_max(EDGE, at->values_together);
}

/* Scores of keys [begin, end), counted from b->first, for the rows that may see them. */
static void score_rows(const block *b, int64_t begin, int64_t end) {
    load_queries(b);
    for (int64_t j = begin, next; j < end; j = next) {
        next = piece_end(b, j, end, b->at->q8_direct ? KEYS : edge_of(b->at));
        block part = rows_that_see(b, j, next);
        if (part.rows > 0) multiply_keys(&part, j, next);
    }
}

/* Columns [begin, end) of the weighted values. */
static void sum_rows(const block *b, int64_t begin, int64_t end) {
    for (int64_t r = 0; r < b->rows; r++)
        memset(b->y + r * b->at->dv + begin, 0, (size_t)(end - begin) * sizeof *b->y);
    for (int64_t j = 0, next; j < b->width; j = next) {
        next = piece_end(b, j, b->width, edge_of(b->at));
        block part = rows_that_see(b, j, next);
        if (part.rows > 0) add_values(&part, &(piece){j, next - j, begin, end});
    }
}

/* Applies the mask to scores of keys begin .. begin + n - 1. */
static void apply_mask(const block *b, int64_t head, int64_t query, int64_t begin, int64_t n,
                       float *scores) {
    const mc_operand *mask = operand(b->at, MASK);
    if (mask->data == NULL) return;
    const mc_layout *l = &b->at->mask;
    int64_t step = l->strides[3];
    int64_t at =
        b->batch * l->strides[0] + head * l->strides[1] + query * l->strides[2] + begin * step;
    if (l->dtype == MICA_BOOL) {
        const uint8_t *seen = (const uint8_t *)mask->data + at;
        for (int64_t j = 0; j < n; j++)
            if (seen[j * step] == 0) scores[j] = -INFINITY;
        return;
    }
    size_t bytes = mica_dtype_bytes(l->dtype);
    mk_type type = mc_mk_type(l->dtype);
    const char *added = (const char *)mask->data + at * (int64_t)bytes;
    for (int64_t j = 0; j < n; j++)
        scores[j] += mk_load(added + j * step * (int64_t)bytes, type, 0);
}

/* Scales, caps and masks a query's n scores of keys from `begin` on; returns the largest. */
static float prepare_scores(const block *b, int64_t head, int64_t query, int64_t begin, int64_t n,
                            float *scores) {
    const attention *at = b->at;
    float cap = (float)at->attr->softcap;
    float most = at->kern->scale_most(n, scores, (float)at->attr->scale);
    if (cap == 0 && operand(at, MASK)->data == NULL) return most;
    if (cap != 0)
        for (int64_t j = 0; j < n; j++)
            scores[j] = cap * mk_tanhf(scores[j] / cap);
    apply_mask(b, head, query, begin, n, scores);
    return at->kern->scale_most(n, scores, 1);
}

static float sink_of(const attention *at, int64_t head) {
    const mc_operand *sinks = operand(at, SINKS);
    if (sinks->data == NULL) return -INFINITY;
    mk_type type = mc_mk_type(sinks->layout->dtype);
    int64_t step = mk_type_bytes(type) * sinks->layout->strides[0];
    return mk_load((const char *)sinks->data + head * step, type, 0);
}

/* A row's scores to weights: exp(score - largest), 0 for keys not seen; and their total. */
static void weigh_row(const block *b, int64_t row) {
    const attention *at = b->at;
    int64_t head = b->head + row % at->group, query = b->query + row / at->group;
    int64_t begin, end;
    seen_keys(b, query, &begin, &end);
    int64_t before = begin - b->first, n = end - begin, after = b->first + b->width - end;
    float *scores = b->scores + row * b->stride, *seen = scores + before;
    uint16_t *weights = (uint16_t *)scores;
    float most = prepare_scores(b, head, query, begin, n, seen), sink = sink_of(at, head);
    float shift = sink > most ? sink : most, total = 0;
    if (shift == -INFINITY) { /* no key is seen; or all scores are NaN, which stays */
        for (int64_t j = 0; j < n; j++)
            seen[j] = isnan(seen[j]) ? seen[j] : -INFINITY;
        shift = 0;
    }
    if (sink > -INFINITY) total = mk_expf(sink - shift);
    if (at->pairs) { /* in place: a weight never lies behind the score that it is of */
        total += at->kern->exp_total_bf16(n, seen, shift, weights + before);
        memset(weights, 0, (size_t)before * sizeof *weights);
        memset(weights + before + n, 0, (size_t)after * sizeof *weights);
    } else {
        total += at->kern->exp_total(n, seen, shift);
        memset(scores, 0, (size_t)before * sizeof *scores);
        memset(seen + n, 0, (size_t)after * sizeof *scores);
    }
    b->totals[row] = total;
}

/* Columns [begin, end) of the result. */
static void store_rows(const block *b, int64_t begin, int64_t end) {
    const attention *at = b->at;
    const mc_operand *out = &at->call->out;
    for (int64_t r = 0; r < b->rows; r++) {
        float *y = b->y + r * at->dv + begin;
        float total = b->totals[r] == 0 ? 1 : b->totals[r];
        int64_t head = b->head + r % at->group, query = b->query + r / at->group;
        int64_t at_out = ((b->batch * at->heads + head) * at->lq + query) * at->dv + begin;
        float *to = mc_row_aim(out->layout->dtype, out->data, at_out, y);
        for (int64_t i = 0; i < end - begin; i++)
            to[i] = y[i] / total;
        mc_narrow(at->kern, out->layout->dtype, to, end - begin, out->data, at_out);
    }
}

/* The key position of query 0 in this batch row. */
static int64_t offset_of(const attention *at, int64_t batch) {
    const mc_operand *offset = operand(at, OFFSET);
    if (offset->data == NULL) return at->lk - at->lq;
    const int32_t *data = offset->data;
    return offset->layout->ndim == 0 ? data[0] : data[batch * offset->layout->strides[0]];
}

/* Block `index` of all. */
static block block_at(const together *all, int64_t index, int worker) {
    const attention *at = all->each;
    int64_t inner = index; /* within its call */
    for (; inner >= at->blocks; at++)
        inner -= at->blocks;
    block b = {.at = at};
    int64_t query_block = inner % at->query_blocks, kv_row = inner / at->query_blocks;
    b.batch = kv_row / at->kv_heads;
    b.kv_head = kv_row % at->kv_heads;
    b.head = b.kv_head * at->group;
    /* Causal: the last block has most to do, so it goes first. */
    b.query = (at->query_blocks - 1 - query_block) * at->unit_queries;
    b.queries = mc_min(at->unit_queries, at->lq - b.query);
    b.rows = at->group * b.queries;
    b.offset = offset_of(at, b.batch);
    int64_t begin, end, unused;
    seen_keys(&b, b.query, &begin, &unused);
    seen_keys(&b, b.query + b.queries - 1, &unused, &end);
    b.first = begin / at->values_together * at->values_together;
    b.width = end - b.first;
    b.stride = score_stride(b.width);

    int64_t rows = at->group * at->unit_queries;
    b.q = all->scratch + worker * all->worker_floats;
    b.tile = b.q + rows * at->q_floats;
    b.scores = all->scratch + all->threads * all->worker_floats;
    b.scores += all->split ? at->first + inner * at->floats : worker * all->block_floats;
    b.y = b.scores + rows * score_stride(at->span);
    b.totals = b.y + rows * at->dv;
    return b;
}

/* Asks for the first of a block's keys (or values): kernels ask for those behind them. */
static void fetch_first(const block *b, int which) {
    const mc_operand *x = &b->at->call->in[which];
    int64_t item = (int64_t)mica_dtype_bytes(x->layout->dtype);
    int64_t step = x->layout->strides[2] * item, bytes = x->layout->shape[3] * item;
    if (b->rows > DIRECT_ROWS || x->layout->strides[3] != 1) return;
    const char *row = (const char *)x->data + place(b, which) * item;
    for (int64_t j = 0; j < mc_min(b->width, KEYS); j++, row += step)
        for (int64_t l = 0; l < bytes; l += 64)
            __builtin_prefetch(row + l, 0, 2);
}

static void attend(void *context, int64_t begin, int64_t end, int worker) {
    const together *all = context;
    for (int64_t index = begin; index < end; index++) {
        block b = block_at(all, index, worker);
        fetch_first(&b, V);
        score_rows(&b, 0, b.width);
        for (int64_t r = 0; r < b.rows; r++)
            weigh_row(&b, r);
        if (index + 1 < end) {
            block next = block_at(all, index + 1, worker);
            fetch_first(&next, K);
        }
        sum_rows(&b, 0, b.at->dv);
        store_rows(&b, 0, b.at->dv);
    }
}

/* ---- blocks that are split ---- */

/* Part i of n units of `step`, in `parts`: *begin <= unit < *end. */
static void part_of(int64_t n, int64_t step, int64_t i, int64_t parts, int64_t *begin,
                    int64_t *end) {
    int64_t steps = (n + step - 1) / step;
    *begin = mc_min(n, steps * i / parts * step);
    *end = mc_min(n, steps * (i + 1) / parts * step);
}

/* The block of a task, and which part of it that is. */
static block block_of(const together *all, phase p, int64_t task, int worker, int64_t *part) {
    const attention *at = all->each;
    int64_t before = 0; /* blocks of earlier calls */
    for (; task >= at->blocks * at->parts[p]; at++) {
        task -= at->blocks * at->parts[p];
        before += at->blocks;
    }
    *part = task % at->parts[p];
    return block_at(all, before + task / at->parts[p], worker);
}

static void score_parts(void *context, int64_t begin, int64_t end, int worker) {
    const together *all = context;
    for (int64_t task = begin; task < end; task++) {
        int64_t part, from, to;
        block b = block_of(all, SCORES, task, worker, &part);
        part_of(b.width, KEYS, part, b.at->parts[SCORES], &from, &to);
        if (from < to) score_rows(&b, from, to);
    }
}

static void weigh_parts(void *context, int64_t begin, int64_t end, int worker) {
    const together *all = context;
    for (int64_t task = begin; task < end; task++) {
        int64_t row;
        block b = block_of(all, WEIGHTS, task, worker, &row);
        if (row < b.rows) weigh_row(&b, row);
    }
}

static void value_parts(void *context, int64_t begin, int64_t end, int worker) {
    const together *all = context;
    for (int64_t task = begin; task < end; task++) {
        int64_t part, from, to;
        block b = block_of(all, VALUES, task, worker, &part);
        part_of(b.at->dv, COLUMNS, part, b.at->parts[VALUES], &from, &to);
        if (from == to) continue;
        sum_rows(&b, from, to);
        store_rows(&b, from, to);
    }
}

/* Parts that are about alike, whichever call's, `enough` of all blocks or some more; fewer where one of
 * that size has not so many keys or columns. */
static void choose_parts(together *all, int64_t enough) {
    for (int i = 0; i < all->n; i++) {
        attention *at = &all->each[i];
        int64_t parts = (at->work * enough - 1) / all->work + 1;
        at->parts[SCORES] = mc_min(parts, (at->span - 1) / KEYS + 1);
        at->parts[WEIGHTS] = at->group * at->unit_queries;
        at->parts[VALUES] = mc_min(parts, (at->dv - 1) / COLUMNS + 1);
    }
}

static void run_phase(together *all, phase p, int64_t work, mc_range_fn fn) {
    int64_t tasks = 0;
    for (int i = 0; i < all->n; i++)
        tasks += all->each[i].blocks * all->each[i].parts[p];
    mc_cpu_for(all->call, tasks, mc_grain(work / tasks), fn, all);
}

static void attend_in_parts(together *all) {
    const int64_t exp_work = 16; /* a weight costs that many products */
    run_phase(all, SCORES, all->work, score_parts);
    run_phase(all, WEIGHTS, all->weights * exp_work, weigh_parts);
    run_phase(all, VALUES, all->work, value_parts);
}

/* ---- all of them ---- */

/* The most keys that a block of some queries can have: some before those that they see. */
static int64_t span_of(const attention *at, int64_t queries) {
    int64_t window = at->attr->window;
    if (window == 0 || window > at->lk) return at->lk;
    return mc_min(at->lk, at->values_together - 1 + window + queries - 1);
}

/* The most keys that a block of these does see now. */
static int64_t most_seen(const attention *at, int64_t batch) {
    if (at->attr->causal == 0) return at->span;
    int64_t most = 0;
    for (int64_t i = 0; i < batch; i++) {
        int64_t seen = offset_of(at, i) + at->lq;
        if (seen > most) most = seen;
    }
    return mc_min(most, at->span);
}

/* Blocks as large as caches like, small enough to give every thread some of the `calls`' blocks. */
static void choose_blocks(attention *at, int64_t batch, int64_t enough, int calls) {
    int64_t kv_rows = batch * at->kv_heads, span = span_of(at, ROWS);
    int64_t queries = mc_max(1, mc_min(at->lq, ROWS / at->group));
    while (queries > 1 && queries * at->group > FEW_ROWS &&
           calls * kv_rows * ((at->lq - 1) / queries + 1) < enough)
        queries = (queries + 1) / 2;
    int64_t fit = SCORE_FLOATS / (at->group * mc_max(1, span));
    at->unit_queries = mc_max(1, mc_min(queries, fit));
    at->query_blocks = (at->lq - 1) / at->unit_queries + 1;
    at->blocks = kv_rows * at->query_blocks;
    at->q_floats = at->q8_direct ? at->q8_bytes / 4 : at->pairs ? at->d / 2 : at->d;
    at->span = span_of(at, at->unit_queries);
    at->weights = at->group * at->unit_queries * most_seen(at, batch);
    at->work = at->weights * at->d;
}

/* Adds a call whose blocks are chosen. */
static void add_call(together *all) {
    attention *at = &all->each[all->n++];
    int64_t rows = at->group * at->unit_queries;
    int64_t worker = rows * at->q_floats + KEYS * mc_max(at->d, at->dv);
    worker = mc_round_up(worker + at->q8_bytes / 4, LINE); /* a copy behind the tile */
    at->floats = rows * score_stride(at->span) + mc_round_up(rows * (at->dv + 1), LINE);
    if (all->n > 1) at->first = at[-1].first + at[-1].blocks * at[-1].floats;
    all->blocks += at->blocks;
    all->weights += at->blocks * at->weights;
    all->work += at->blocks * at->work;
    if (all->worker_floats < worker) all->worker_floats = worker;
    if (all->block_floats < at->floats) all->block_floats = at->floats;
}

/* Whether rows of 8 bits are read where they lie: the bytes of a row side by side. */
static bool takes_q8(const attention *at) {
    return at->kern->q8_direct && at->q8_bytes > 0 && at->lk > 0 &&
           at->call->in[K].layout->strides[3] == 1 && at->call->in[V].layout->strides[3] == 1;
}

/* Whether bf16 meets bf16: the values of a row side by side, an even number of them in a key; or rows
 * of 8 bits that become it. */
static bool takes_pairs(const attention *at) {
    const mc_layout *k = at->call->in[K].layout, *v = at->call->in[V].layout;
    if (!at->kern->bf16_pairs) return false;
    if (at->q8_direct) return true;
    return k->dtype == MICA_BF16 && v->dtype == MICA_BF16 && k->strides[3] == 1 &&
           (v->strides[3] == 1 || at->dv == 1) && at->d > 0 && at->d % 2 == 0 && at->lk > 0;
}

mc_way mc_sdpa_way(const mk_kernels *kern, mica_dtype k) {
    if (k == MICA_U8 && kern->q8_direct)
        return (mc_way){MICA_I8, kern->from.attn_scores_q8, kern->from.attn_scores_q8};
    if (k == MICA_BF16 && kern->bf16_pairs)
        return (mc_way){MICA_BF16, kern->from.attn_scores, kern->from.attn_scores};
    return mc_matmul_way(kern, &(mc_attr_matmul){0}, k);
}

/* What a call is, its result not empty. */
static void describe(const mc_call *call, int64_t enough, int calls, attention *at) {
    const mc_layout *out = call->out.layout, *q = call->in[Q].layout, *k = call->in[K].layout;
    *at = (attention){.kern = mc_cpu_of(call)->kern, .call = call, .attr = call->attr};
    at->heads = out->shape[1];
    at->lq = out->shape[2];
    at->dv = out->shape[3];
    at->kv_heads = k->shape[1];
    at->group = at->heads / at->kv_heads;
    at->lk = k->shape[2];
    at->d = q->shape[3];
    if (k->dtype == MICA_U8) at->q8_bytes = k->shape[3];
    at->q8_direct = takes_q8(at);
    at->pairs = takes_pairs(at);
    at->values_together = at->pairs ? at->kern->values_together : 1;
    const mc_operand *mask = operand(at, MASK);
    int64_t shape[4] = {out->shape[0], at->heads, at->lq, at->lk};
    if (mask->data != NULL) (void)mc_layout_broadcast(mask->layout, shape, 4, &at->mask);
    choose_blocks(at, out->shape[0], enough, calls);
}

/* Whether the largest block is more than half of a thread's share, and worth more than one thread. */
static bool is_uneven(const together *all) {
    int64_t most = 0;
    for (int i = 0; i < all->n; i++)
        if (all->each[i].work > most) most = all->each[i].work;
    return most > 2 * MC_SMALL_WORK && most > all->work / (2 * all->threads);
}

mica_status mc_eval_sdpa(const mc_call *call) {
    together all = {.call = call, .threads = mc_cpu_of(call)->threads};
    int64_t enough = (int64_t)RUNS * all.threads;
    for (int i = 0; i < call->joint; i++) {
        if (mc_layout_size(call[i].out.layout) == 0) continue;
        describe(&call[i], enough, call->joint, &all.each[all.n]);
        add_call(&all);
    }
    if (all.blocks == 0) return MICA_OK;
    all.split = all.threads > 1 && is_uneven(&all);
    if (all.split) choose_parts(&all, enough);
    const attention *last = &all.each[all.n - 1];
    int64_t results = all.threads * all.block_floats;
    if (all.split) results = last->first + last->blocks * last->floats;
    int64_t floats = all.worker_floats * all.threads + results;
    all.scratch = mc_run_scratch(call->run, (size_t)floats * sizeof *all.scratch);
    if (all.scratch == NULL) return MICA_ENOMEM;
    if (all.split)
        attend_in_parts(&all);
    else
        mc_cpu_for(call, all.blocks, mc_grain(all.work / all.blocks), attend, &all);
    return MICA_OK;
}
