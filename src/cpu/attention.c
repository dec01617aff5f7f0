/* One block of attention in two passes over its keys. The first computes scores and their softmax
 * into scratch, the second the weighted sum of values.
 *
 * Scores are dot products, a row's total is a sum of integers, and values are summed in the order
 * of their keys. So a query's result depends only on the keys that it attends to, as long as all
 * others are finite: their weight is 0. It does not depend on the query's block, on hidden keys, or
 * on the number of threads. Query heads that share K and V are multiplied together, so K and V are
 * read once.
 *
 * bf16 keys and values are not widened if the machine multiplies bf16. Queries and weights are then
 * rounded to bf16, or all are converted to int16 (kern/attn/attn_int16.h). Values are then summed
 * in groups of keys, so the order of summation also depends on a key's index in its group.
 *
 * Keys and values may lie in the blocks of a pool, in the order of a table (paged_sdpa). They are
 * read where they lie, a block at a time. As blocks hold a multiple of the keys that are summed
 * together, the order of summation is the same.
 *
 * 8-bit rows (q8) are widened to f32, which is exact. If the machine multiplies such rows, queries
 * are rounded to 8 bits too, scores are sums of integers, and values are rounded to bf16 if the
 * machine multiplies bf16. */
#include "cpu/attention.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "cpu/eval.h"
#include "cpu/kern/vmath.h"
#include "cpu/matmul.h"
#include "cpu/rows.h"

enum { Q, K, V, MASK, OFFSET, SINKS, TABLE };

#define KEYS MC_ATTN_KEYS
#define EDGE 16       /* min keys in a piece that only some rows attend to */
#define TOUCHED 16384 /* max bytes read of a block's first keys, or values */
/* rows up to which 16-bit elements are widened in registers, without a tile */
#define DIRECT_ROWS 12

static const mc_operand *operand(const mc_attention *at, int i) {
    static const mc_operand absent = {0};
    return i < at->call->n_in ? &at->call->in[i] : &absent;
}

void mc_attn_seen(const mc_attn_block *b, int64_t query, int64_t *begin, int64_t *end) {
    const mc_attr_sdpa *attr = b->at->attr;
    *begin = 0;
    *end = b->at->lk;
    if (attr->causal == 0) return;
    int64_t position = b->offset + query;
    if (position + 1 < *end) *end = position + 1;
    if (attr->window > 0 && position + 1 - attr->window > attr->keep)
        *begin = position + 1 - attr->window;
    if (*end < 0) *end = 0;
    if (*begin > *end) *begin = *end;
}

/* The query head of a row of the block. */
static int64_t head_of(const mc_attn_block *b, int64_t row) {
    return b->head + row % b->at->group;
}

static int64_t query_of(const mc_attn_block *b, int64_t row) {
    return b->query + row / b->at->group;
}

/* The position of the block's key j. */
static int64_t key_at(const mc_attn_block *b, int64_t j) {
    return j < b->lead ? j : b->first + j - b->lead;
}

/* The index within the block of a key from b->first on. */
static int64_t index_of(const mc_attn_block *b, int64_t key) {
    return key - b->first + b->lead;
}

int64_t mc_attn_table(const mc_attention *at, int64_t batch, int64_t i) {
    const mc_operand *table = operand(at, TABLE);
    const int64_t *strides = table->layout->strides;
    int64_t id = ((const int32_t *)table->data)[batch * strides[0] + i * strides[1]];
    return id < 0 ? id + at->call->in[K].layout->shape[1] : id;
}

/* The element index of column `column` of the block's key (or value) j. */
static int64_t element_at(const mc_attn_block *b, int which, int64_t j, int64_t column) {
    const mc_layout *l = b->at->call->in[which].layout;
    int64_t page = b->at->page;
    if (page) {
        int64_t key = key_at(b, j);
        return b->kv_head * l->strides[0] +
               mc_attn_table(b->at, b->batch, key / page) * l->strides[1] +
               key % page * l->strides[2] + column * l->strides[3];
    }
    return b->batch * l->strides[0] + b->kv_head * l->strides[1] + key_at(b, j) * l->strides[2] +
           column * l->strides[3];
}

/* The end of the keys from j on, before `end`, that lie one after the other: blocks of a pool may
 * follow each other. */
static int64_t run_end(const mc_attn_block *b, int64_t j, int64_t end) {
    int64_t page = b->at->page;
    if (!page) return end;
    const mc_operand *in = b->at->call->in;
    const int64_t *k = in[K].layout->strides, *v = in[V].layout->strides;
    const int64_t *strides = in[TABLE].layout->strides, step = strides[1];
    int64_t key = key_at(b, j), stop = j + page - key % page;
    const int32_t *id = (const int32_t *)in[TABLE].data + b->batch * strides[0] + key / page * step;
    if (k[1] != page * k[2] || v[1] != page * v[2]) return mc_min(end, stop);
    for (; stop < end && id[step] == *id + 1 && *id != -1; id += step) /* -1: the pool's last */
        stop += page;
    return mc_min(end, stop);
}

/* The bytes of a q8 row: in place, or in a copy behind the tile if they are not contiguous. */
static const uint8_t *q8_row(const mc_attn_block *b, int which, int64_t j) {
    const mc_layout *l = b->at->call->in[which].layout;
    const uint8_t *row = (const uint8_t *)b->at->call->in[which].data + element_at(b, which, j, 0);
    if (l->strides[3] == 1) return row;
    uint8_t *copy = (uint8_t *)(b->tile + KEYS * b->at->d);
    for (int64_t i = 0; i < b->at->q8_bytes; i++)
        copy[i] = row[i * l->strides[3]];
    return copy;
}

/* Widens columns [column, column + n) of `count` q8 rows into the tile; a group begins at
 * column. */
static void load_q8(const mc_attn_block *b, int which, int64_t j, int64_t count, int64_t column,
                    int64_t n) {
    int64_t scales = mk_q8_scales(b->at->d) + 2 * (column / MK_Q8_GROUP);
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *row = q8_row(b, which, j + i);
        b->at->kern->widen_q8(n, row + column, row + scales, b->tile + i * n);
    }
}

/* Columns [column, column + n) of `count` keys (or values) from j on, as f32 rows: in place, or in
 * the tile. */
static const float *load_tile(const mc_attn_block *b, int which, int64_t j, int64_t count,
                              int64_t column, int64_t n, int64_t *stride) {
    const mc_operand *x = &b->at->call->in[which];
    const mc_layout *l = x->layout;
    if (l->dtype == MICA_U8) {
        load_q8(b, which, j, count, column, n);
        *stride = n;
        return b->tile;
    }
    int64_t at = element_at(b, which, j, column);
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

static void load_queries(const mc_attn_block *b) {
    const mc_attention *at = b->at;
    const mc_operand *q = &at->call->in[Q];
    const mc_layout *l = q->layout;
    for (int64_t r = 0; r < b->rows; r++) {
        int64_t from = b->batch * l->strides[0] + head_of(b, r) * l->strides[1] +
                       query_of(b, r) * l->strides[2];
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

/* Whether 16-bit keys (or values) are widened in registers: if rows are few and elements
 * contiguous. */
static bool takes_halves(const mc_attn_block *b, int which) {
    const mc_layout *l = b->at->call->in[which].layout;
    return (l->dtype == MICA_BF16 || l->dtype == MICA_F16) && l->strides[3] == 1 &&
           b->rows <= DIRECT_ROWS;
}

static void multiply_halves(const mc_attn_block *b, int64_t begin, int64_t end) {
    const mc_attention *at = b->at;
    const mc_operand *k = &at->call->in[K];
    int64_t step = k->layout->strides[2], n = end - begin;
    const uint16_t *keys = (const uint16_t *)k->data + element_at(b, K, begin, 0);
    float *scores = b->scores + begin;
    if (k->layout->dtype == MICA_BF16)
        at->kern->matmul_nt_bf16(b->rows, n, at->d, b->q, at->d, keys, step, scores, b->stride);
    else
        at->kern->matmul_nt_f16(b->rows, n, at->d, b->q, at->d, keys, step, scores, b->stride);
}

/* Computes the scores of keys [begin, end). */
static void multiply_keys(const mc_attn_block *b, int64_t begin, int64_t end) {
    const mc_attention *at = b->at;
    const mc_operand *k = &at->call->in[K];
    int64_t step = k->layout->strides[2];
    if (at->q8_direct) {
        const uint8_t *keys = (const uint8_t *)k->data + element_at(b, K, begin, 0);
        at->kern->attn_scores_q8(b->rows, end - begin, at->d, (const uint8_t *)b->q, at->q8_bytes,
                                 keys, step, b->scores + begin, b->stride);
        return;
    }
    if (at->pairs) {
        const uint16_t *keys = (const uint16_t *)k->data + element_at(b, K, begin, 0);
        at->kern->attn_scores(b->rows, end - begin, at->d, (const uint16_t *)b->q, at->d, keys,
                              step, b->scores + begin, b->stride);
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

/* Columns [begin, end) of the values of keys [j, j + n). */
typedef struct piece {
    int64_t j, n, begin, end;
} piece;

static void add_halves(const mc_attn_block *b, const piece *p) {
    const mc_attention *at = b->at;
    const mc_operand *v = &at->call->in[V];
    int64_t step = v->layout->strides[2], n = p->end - p->begin;
    const uint16_t *values = (const uint16_t *)v->data + element_at(b, V, p->j, p->begin);
    const float *weights = b->scores + p->j;
    float *y = b->y + p->begin;
    if (v->layout->dtype == MICA_BF16)
        at->kern->matmul_nn_bf16(b->rows, n, p->n, weights, b->stride, values, step, y, at->dv);
    else
        at->kern->matmul_nn_f16(b->rows, n, p->n, weights, b->stride, values, step, y, at->dv);
}

static void add_pairs(const mc_attn_block *b, const piece *p) {
    const mc_attention *at = b->at;
    const mc_operand *v = &at->call->in[V];
    const uint16_t *values = (const uint16_t *)v->data + element_at(b, V, p->j, p->begin);
    at->kern->attn_values(b->rows, p->n, p->end - p->begin, (const uint16_t *)b->scores + p->j,
                          2 * b->stride, values, v->layout->strides[2], b->y + p->begin, at->dv);
}

static void add_q8(const mc_attn_block *b, const piece *p) {
    const mc_attention *at = b->at;
    int64_t step = at->call->in[V].layout->strides[2], n = p->end - p->begin;
    const uint8_t *row = (const uint8_t *)at->call->in[V].data + element_at(b, V, p->j, 0);
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

static void add_values(const mc_attn_block *b, const piece *p) {
    const mc_attention *at = b->at;
    if (at->q8_direct && (at->pairs || b->rows <= DIRECT_ROWS)) {
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

/* ---- which rows attend to which keys ---- */

/* The rows that attend to any of keys [begin, end), by causal and window; all rows if these are
 * among the block's lead keys. */
static mc_attn_block rows_that_see(const mc_attn_block *b, int64_t begin, int64_t end) {
    const mc_attr_sdpa *attr = b->at->attr;
    mc_attn_block part = *b;
    if (attr->causal == 0 || begin < b->lead) return part;
    int64_t position = b->offset + b->query; /* position of the first row */
    int64_t first = key_at(b, begin), from = first - position, to = b->queries;
    if (attr->window > 0 && first >= attr->keep) /* drop the last rows, which attend to none */
        to -= position + b->queries - attr->window - key_at(b, end - 1);
    from = from < 0 ? 0 : mc_min(from, b->queries);
    to = to < from ? from : mc_min(to, b->queries);
    int64_t row = from * b->at->group;
    part.query += from;
    part.queries = to - from;
    part.rows = part.queries * b->at->group;
    part.q += row * b->at->q_floats;
    part.scores += row * b->stride;
    part.y += row * b->at->dv;
    part.totals += row;
    return part;
}

/* The end of the piece of keys that begins at j: all keys that all rows attend to, or `edge` keys
 * that only some rows attend to. */
static int64_t piece_end(const mc_attn_block *b, int64_t j, int64_t end, int64_t edge) {
    int64_t begin, all_end, unused;
    if (j < b->lead) return mc_min(b->lead, end);
    mc_attn_seen(b, b->query + b->queries - 1, &begin, &unused);
    mc_attn_seen(b, b->query, &unused, &all_end);
    begin = index_of(b, begin);
    all_end = index_of(b, all_end);
    if (all_end < b->width) all_end = all_end / edge * edge;
    if (j >= begin && j < all_end) return mc_min(all_end, end);
    return mc_min(j + edge, end);
}

/* How many keys a piece has that only some rows attend to. */
static int64_t edge_of(const mc_attention *at) {
    return mc_max(EDGE, at->values_together);
}

void mc_attn_score(const mc_attn_block *b, int64_t begin, int64_t end) {
    load_queries(b);
    for (int64_t j = begin, next; j < end; j = next) {
        next = piece_end(b, j, end, b->at->q8_direct ? KEYS : edge_of(b->at));
        mc_attn_block part = rows_that_see(b, j, next);
        for (int64_t i = j, stop; part.rows > 0 && i < next; i = stop) {
            stop = run_end(b, i, next);
            multiply_keys(&part, i, stop);
        }
    }
}

/* Sums columns [begin, end) of the weighted values into b->y. */
static void sum_values(const mc_attn_block *b, int64_t begin, int64_t end) {
    for (int64_t r = 0; r < b->rows; r++)
        memset(b->y + r * b->at->dv + begin, 0, (size_t)(end - begin) * sizeof *b->y);
    for (int64_t j = 0, next; j < b->width; j = next) {
        next = piece_end(b, j, b->width, edge_of(b->at));
        mc_attn_block part = rows_that_see(b, j, next);
        for (int64_t i = j, stop; part.rows > 0 && i < next; i = stop) {
            stop = run_end(b, i, next);
            add_values(&part, &(piece){i, stop - i, begin, end});
        }
    }
}

void mc_attn_mask(const mc_attn_block *b, int64_t head, int64_t query, int64_t begin, int64_t n,
                  float *scores) {
    const mc_operand *mask = operand(b->at, MASK);
    if (!mask->data) return;
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
static float prepare_scores(const mc_attn_block *b, int64_t head, int64_t query, int64_t begin,
                            int64_t n, float *scores) {
    const mc_attention *at = b->at;
    float cap = (float)at->attr->softcap;
    float max = at->kern->scale_max(n, scores, (float)at->attr->scale);
    if (cap == 0 && !operand(at, MASK)->data) return max;
    if (cap != 0)
        for (int64_t j = 0; j < n; j++)
            scores[j] = cap * mk_tanhf(scores[j] / cap);
    mc_attn_mask(b, head, query, begin, n, scores);
    return at->kern->scale_max(n, scores, 1);
}

float mc_attn_sink(const mc_attention *at, int64_t head) {
    const mc_operand *sinks = operand(at, SINKS);
    if (!sinks->data) return -INFINITY;
    mk_type type = mc_mk_type(sinks->layout->dtype);
    int64_t step = mk_type_bytes(type) * sinks->layout->strides[0];
    return mk_load((const char *)sinks->data + head * step, type, 0);
}

/* Turns a row's scores of keys [begin, end) into weights, in place: a weight is never stored behind
 * its score. Returns the sum of the weights. */
static float weigh_keys(const mc_attn_block *b, float *scores, int64_t begin, int64_t end,
                        float shift) {
    const mk_kernels *kern = b->at->kern;
    int64_t n = end - begin;
    if (!b->at->pairs) return kern->exp_total(n, scores + begin, shift);
    return kern->exp_total_bf16(n, scores + begin, shift, (uint16_t *)scores + begin);
}

/* Sets the weights of keys [begin, end), which the row does not attend to, to 0. */
static void clear_weights(const mc_attn_block *b, float *scores, int64_t begin, int64_t end) {
    size_t each = b->at->pairs ? sizeof(uint16_t) : sizeof(float);
    memset((char *)scores + (size_t)begin * each, 0, (size_t)(end - begin) * each);
}

/* The number of a row's query among those of all heads and batch rows. */
static int64_t query_number(const mc_attn_block *b, int64_t row) {
    const mc_attention *at = b->at;
    return (b->batch * at->heads + head_of(b, row)) * at->lq + query_of(b, row);
}

static void put_lse(const mc_attn_block *b, int64_t row, float lse) {
    float *out = b->at->call->more->data;
    out[query_number(b, row)] = lse;
}

void mc_attn_weigh(const mc_attn_block *b, int64_t row) {
    int64_t head = head_of(b, row), query = query_of(b, row), keep = b->at->attr->keep;
    int64_t begin, end;
    mc_attn_seen(b, query, &begin, &end);
    int64_t from = index_of(b, begin), to = index_of(b, end), kept = mc_min(keep, begin);
    float *scores = b->scores + row * b->stride, shift = mc_attn_sink(b->at, head), total = 0;
    float sink = shift, max = prepare_scores(b, head, query, begin, end - begin, scores + from);
    if (max > shift) shift = max;
    if (kept > 0) max = prepare_scores(b, head, query, 0, kept, scores);
    if (max > shift) shift = max;
    if (shift == -INFINITY) shift = 0; /* there are no keys, or all scores are NaN, which stays */
    if (sink > -INFINITY) total = mk_expf(sink - shift);
    if (kept > 0) total += weigh_keys(b, scores, 0, kept, shift);
    clear_weights(b, scores, kept, from);
    total += weigh_keys(b, scores, from, to, shift);
    clear_weights(b, scores, to, b->width);
    b->totals[row] = total;
    if (b->at->call->more) put_lse(b, row, total == 0 ? -INFINITY : shift + mk_logf(total));
}

void mc_attn_sum(const mc_attn_block *b, int64_t begin, int64_t end) {
    const mc_attention *at = b->at;
    const mc_operand *out = &at->call->out;
    sum_values(b, begin, end);
    for (int64_t r = 0; r < b->rows; r++) {
        float *y = b->y + r * at->dv + begin;
        float total = b->totals[r] == 0 ? 1 : b->totals[r];
        int64_t at_out = query_number(b, r) * at->dv + begin;
        float *to = mc_row_aim(out->layout->dtype, out->data, at_out, y);
        for (int64_t i = 0; i < end - begin; i++)
            to[i] = y[i] / total;
        mc_narrow(at->kern, out->layout->dtype, to, end - begin, out->data, at_out);
    }
}

/* Loads one byte of every 64, for a Zen 5 drops some prefetches where many are under way. */
static void touch_first(const mc_attn_block *b, int which) {
    const mc_operand *x = &b->at->call->in[which];
    int64_t item = (int64_t)mica_dtype_bytes(x->layout->dtype);
    int64_t step = x->layout->strides[2] * item, bytes = x->layout->shape[3] * item;
    if (b->rows > DIRECT_ROWS || x->layout->strides[3] != 1) return;
    int64_t keys = run_end(b, b->lead, mc_min(b->width, b->lead + KEYS)) - b->lead;
    if (keys <= 0) return;
    const volatile char *row = (const char *)x->data + element_at(b, which, b->lead, 0) * item;
    for (int64_t j = 0; j < keys && j * bytes < TOUCHED; j++, row += step)
        for (int64_t l = 0; l < bytes; l += 64)
            (void)row[l];
}

void mc_attn_touch(const mc_attn_block *b) {
    touch_first(b, K);
    touch_first(b, V);
}

int64_t mc_attn_offset(const mc_attention *at, int64_t batch) {
    const mc_operand *offset = operand(at, OFFSET);
    if (!offset->data) return at->lk - at->lq;
    const int32_t *data = offset->data;
    return offset->layout->ndim == 0 ? data[0] : data[batch * offset->layout->strides[0]];
}

/* ---- setting up a call ---- */

/* Whether the kernels for q8 rows are used: a row's bytes must be contiguous. */
static bool takes_q8(const mc_attention *at) {
    return at->kern->q8_direct && at->q8_bytes > 0 && at->lk > 0 &&
           at->call->in[K].layout->strides[3] == 1 && at->call->in[V].layout->strides[3] == 1;
}

/* Whether weights and values are multiplied in bf16: for bf16 with contiguous rows and an even
 * number of elements in a key, or for q8 rows if the machine multiplies them in bf16. */
static bool takes_pairs(const mc_attention *at) {
    const mc_layout *k = at->call->in[K].layout, *v = at->call->in[V].layout;
    if (at->q8_direct) return at->kern->q8_pairs;
    if (!at->kern->bf16_pairs) return false;
    return k->dtype == MICA_BF16 && v->dtype == MICA_BF16 && k->strides[3] == 1 &&
           (v->strides[3] == 1 || at->dv == 1) && at->d > 0 && at->d % 2 == 0 && at->lk > 0;
}

void mc_attn_describe(const mc_call *call, mc_attention *at) {
    const mc_layout *q = call->in[Q].layout, *k = call->in[K].layout;
    *at = (mc_attention){.kern = mc_cpu_of(call)->kern, .call = call, .attr = call->attr};
    at->heads = q->shape[1];
    at->lq = q->shape[2];
    at->dv = k->dtype == MICA_U8 ? q->shape[3] : call->in[V].layout->shape[3];
    at->kv_heads = k->shape[1];
    at->lk = k->shape[2];
    if (call->op == MC_OP_PAGED_SDPA) {
        at->kv_heads = k->shape[0];
        at->page = k->shape[2];
        at->lk *= call->in[TABLE].layout->shape[1];
    }
    at->group = at->heads / at->kv_heads;
    at->d = q->shape[3];
    if (k->dtype == MICA_U8) at->q8_bytes = k->shape[3];
    at->q8_direct = takes_q8(at);
    at->pairs = takes_pairs(at);
    at->values_together = at->pairs ? at->kern->values_together : 1;
    at->lead = mc_round_up(mc_min(at->attr->keep, at->lk), at->values_together);
    at->q_floats = at->q8_direct ? at->q8_bytes / 4 : at->pairs ? at->d / 2 : at->d;
    const mc_operand *mask = operand(at, MASK);
    int64_t shape[4] = {q->shape[0], at->heads, at->lq, at->lk};
    if (mask->data) (void)mc_layout_broadcast(mask->layout, shape, 4, &at->mask);
}

int64_t mc_attn_tile_floats(const mc_attention *at) {
    /* with a copy of a q8 row behind the tile */
    return KEYS * mc_max(at->d, at->dv) + at->q8_bytes / 4;
}

int64_t mc_attn_stride(int64_t width) {
    return mc_round_up(width, MC_ATTN_LINE) | MC_ATTN_LINE;
}

mc_kernel_choice mc_sdpa_choice(const mk_kernels *kern, mica_dtype k) {
    if (k == MICA_U8 && kern->q8_direct)
        return (mc_kernel_choice){MICA_I8, kern->from.attn_scores_q8, kern->from.attn_scores_q8};
    if (k == MICA_BF16 && kern->bf16_pairs)
        return (mc_kernel_choice){kern->int16 ? MICA_I16 : MICA_BF16, kern->from.attn_scores,
                                  kern->from.attn_scores};
    return mc_matmul_choice(kern, &(mc_attr_matmul){0}, k);
}
