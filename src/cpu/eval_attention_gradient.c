/* The gradient of attention without an array of all weights.
 *
 * A task is a head of keys of a batch row. It goes over the query heads that share it, and over
 * blocks of their queries. For a block it computes the weights again, over all keys that the block
 * attends to, and from them the block's dq and what it adds to dk and dv. Queries are added in
 * rising order, whatever the number of threads. */
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "cpu/attention.h"
#include "cpu/eval.h"
#include "cpu/kern/vmath.h"
#include "cpu/region.h"
#include "cpu/rows.h"

#define ROWS 64                /* max queries of a block */
#define SCORE_FLOATS (1 << 18) /* max scores of a block that has more than one query */
#define SUMS 16                /* of a dot product, so that additions overlap */

enum { Q, K, V, MASK, OFFSET, SINKS, DY, DLSE };

typedef struct work {
    mc_attention at;
    const mc_call *call;
    int64_t rows;   /* queries of a block */
    float *scratch; /* a part for each worker */
    int64_t worker_floats;
} work;

/* A worker's part of the scratch. */
typedef struct space {
    float *k, *v;        /* [lk, d], [lk, dv], of one head */
    float *q, *dy;       /* [rows, d], [rows, dv] */
    float *p, *dp, *cap; /* [rows, lk]; cap: tanh of the capped scores, if there is a cap */
    float *turned;       /* [lk, rows] */
} space;

/* The space of a worker, from `at` on; with NULL only the floats of all are of use. */
static int64_t place(const work *w, float *at, space *s) {
    const mc_attention *a = &w->at;
    const int64_t scores = w->rows * a->lk, capped = a->attr->softcap != 0 ? scores : 0;
    const struct {
        float **part;
        int64_t floats;
    } parts[] = {
        {&s->k, a->lk * a->d}, {&s->v, a->lk * a->dv}, {&s->q, w->rows * a->d},
        {&s->p, scores},       {&s->dp, scores},       {&s->dy, w->rows * a->dv},
        {&s->turned, scores},  {&s->cap, capped},
    };
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].part = at ? at + floats : NULL;
        floats += mc_round_up(parts[i].floats, MC_ATTN_LINE);
    }
    return floats;
}

/* Rows [first, first + n) of a head of operand `which` [B, H, L, D] as f32. */
static void load(const work *w, int which, int64_t batch, int64_t head, int64_t first, int64_t n,
                 float *to) {
    const mc_operand *x = &w->call->in[which];
    const mc_layout *l = x->layout;
    int64_t at = batch * l->strides[0] + head * l->strides[1], d = l->shape[3];
    for (int64_t i = 0; i < n; i++)
        mc_widen(w->at.kern, l->dtype, x->data, at + (first + i) * l->strides[2], l->strides[3], d,
                 to + i * d);
}

static float dot(const float *x, const float *y, int64_t n) {
    float sums[SUMS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++)
            sums[k] += x[i + k] * y[i + k];
    for (int k = 0; k < SUMS; k++)
        sum += sums[k];
    for (; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* y [columns, rows] = x [rows, columns], transposed. */
static void turn(int64_t rows, int64_t columns, const float *x, float *y) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            y[c * rows + r] = x[r * columns + c];
}

/* A block: queries [query, query + n) of a head, and the keys [first, first + width). */
typedef struct block {
    mc_attn_block b; /* for masks */
    int64_t first, width, head, batch, query, n;
} block;

static block block_of(const work *w, int64_t batch, int64_t head, int64_t query) {
    block k = {.batch = batch, .head = head, .query = query};
    int64_t end, unused;
    k.n = mc_min(w->rows, w->at.lq - query);
    k.b = (mc_attn_block){.at = &w->at, .batch = batch, .head = head};
    k.b.offset = mc_attn_offset(&w->at, batch);
    mc_attn_seen(&k.b, query, &k.first, &unused);
    mc_attn_seen(&k.b, query + k.n - 1, &unused, &end);
    if (w->at.attr->keep > 0) k.first = 0; /* the kept ones are the first */
    k.width = end > k.first ? end - k.first : 0;
    return k;
}

/* Hides the keys of row r that its query does not attend to. */
static void hide(const work *w, const block *k, int64_t r, float *scores) {
    int64_t begin, end, kept = mc_min(w->at.attr->keep, k->first + k->width);
    mc_attn_seen(&k->b, k->query + r, &begin, &end);
    for (int64_t j = kept > k->first ? kept : k->first; j < begin && j < k->first + k->width; j++)
        scores[j - k->first] = -INFINITY;
    for (int64_t j = end > k->first ? end : k->first; j < k->first + k->width; j++)
        scores[j - k->first] = -INFINITY;
}

/* Scores of row r to weights, in place; cap receives the tanh that the cap multiplies. */
static void weigh(const work *w, const block *k, int64_t r, float *scores, float *cap) {
    const mc_attention *at = &w->at;
    const float limit = (float)at->attr->softcap;
    float shift = at->kern->scale_max(k->width, scores, (float)at->attr->scale);
    if (limit != 0) {
        for (int64_t j = 0; j < k->width; j++)
            scores[j] /= limit;
        memcpy(cap, scores, (size_t)k->width * sizeof *cap);
        at->kern->tanh(k->width, cap, cap);
        for (int64_t j = 0; j < k->width; j++)
            scores[j] = limit * cap[j];
    }
    mc_attn_mask(&k->b, k->head, k->query + r, k->first, k->width, scores);
    hide(w, k, r, scores);
    shift = at->kern->scale_max(k->width, scores, 1);
    float sink = mc_attn_sink(at, k->head), total = 0;
    if (sink > shift) shift = sink;
    if (shift == -INFINITY) shift = 0; /* there are no keys */
    if (sink > -INFINITY) total = mk_expf(sink - shift);
    total += at->kern->exp_total(k->width, scores, shift);
    if (total > 0) (void)at->kern->scale_max(k->width, scores, 1 / total);
}

static float dlse_of(const work *w, const block *k, int64_t r) {
    const mc_operand *x = w->call->n_in > DLSE ? &w->call->in[DLSE] : NULL;
    if (!x || !x->data) return 0;
    const mc_layout *l = x->layout;
    return ((const float *)x->data)[k->batch * l->strides[0] + k->head * l->strides[1] +
                                    (k->query + r) * l->strides[2]];
}

/* dp [width] of row r to ds. */
static void to_ds(const work *w, const block *k, int64_t r, const float *p, const float *cap,
                  float *dp) {
    const float scale = (float)w->at.attr->scale;
    float less = dot(p, dp, k->width) - dlse_of(w, k, r);
    for (int64_t j = 0; j < k->width; j++)
        dp[j] = p[j] * (dp[j] - less) * scale;
    if (w->at.attr->softcap == 0) return;
    for (int64_t j = 0; j < k->width; j++)
        dp[j] *= 1 - cap[j] * cap[j];
}

static void run_block(const work *w, const space *s, const block *k, float *dk, float *dv) {
    const mc_attention *at = &w->at;
    const mk_kernels *kern = at->kern;
    float *dq =
        (float *)w->call->out.data + ((k->batch * at->heads + k->head) * at->lq + k->query) * at->d;
    int64_t d = at->d, dv_size = at->dv, n = k->n, width = k->width;
    memset(dq, 0, (size_t)(n * d) * sizeof *dq);
    if (width == 0) return;
    const float *keys = s->k + k->first * d, *values = s->v + k->first * dv_size;
    load(w, Q, k->batch, k->head, k->query, n, s->q);
    load(w, DY, k->batch, k->head, k->query, n, s->dy);
    kern->matmul_nt(n, width, d, s->q, d, keys, d, s->p, width);
    kern->matmul_nt(n, width, dv_size, s->dy, dv_size, values, dv_size, s->dp, width);
    for (int64_t r = 0; r < n; r++) {
        float *cap = w->at.attr->softcap != 0 ? s->cap + r * width : NULL;
        weigh(w, k, r, s->p + r * width, cap);
        to_ds(w, k, r, s->p + r * width, cap, s->dp + r * width);
    }
    kern->matmul_nn(n, d, width, s->dp, width, keys, d, dq, d);
    turn(n, width, s->dp, s->turned);
    kern->matmul_nn(width, d, n, s->turned, n, s->q, d, dk + k->first * d, d);
    turn(n, width, s->p, s->turned);
    kern->matmul_nn(width, dv_size, n, s->turned, n, s->dy, dv_size, dv + k->first * dv_size,
                    dv_size);
}

static void run_heads(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    const mc_attention *at = &w->at;
    space s;
    (void)place(w, w->scratch + worker * w->worker_floats, &s);
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / at->kv_heads, kv_head = i % at->kv_heads;
        float *dk = (float *)w->call->more[0].data + i * at->lk * at->d;
        float *dv = (float *)w->call->more[1].data + i * at->lk * at->dv;
        memset(dk, 0, (size_t)(at->lk * at->d) * sizeof *dk);
        memset(dv, 0, (size_t)(at->lk * at->dv) * sizeof *dv);
        load(w, K, batch, kv_head, 0, at->lk, s.k);
        load(w, V, batch, kv_head, 0, at->lk, s.v);
        for (int64_t h = 0; h < at->group; h++)
            for (int64_t query = 0; query < at->lq; query += w->rows) {
                block k = block_of(w, batch, kv_head * at->group + h, query);
                run_block(w, &s, &k, dk, dv);
            }
    }
}

mica_status mc_eval_sdpa_gradient(const mc_call *call) {
    work w = {.call = call};
    space unused;
    mc_attn_describe(call, &w.at);
    int64_t heads = call->in[Q].layout->shape[0] * w.at.kv_heads;
    w.rows = mc_min(ROWS, SCORE_FLOATS / (w.at.lk > 0 ? w.at.lk : 1));
    w.rows = mc_min(w.rows > 0 ? w.rows : 1, w.at.lq);
    w.worker_floats = place(&w, NULL, &unused) + MC_ATTN_LINE; /* never 0 */
    size_t floats = (size_t)(w.worker_floats * mc_cpu_of(call)->threads);
    w.scratch = mc_run_scratch(call->run, floats * sizeof *w.scratch);
    if (!w.scratch) return MICA_ENOMEM;
    mc_cpu_for(call, heads, 1, run_heads, &w);
    return MICA_OK;
}
