/* The gradient of attention without an array of all weights.
 *
 * The blocks of queries of all heads that share a head of keys are divided into parts; a part is a
 * task. For a block, the weights are computed again, over all keys that it attends to, and from
 * them its dq and what it adds to dk and dv. A part adds its blocks in their order, and the parts'
 * sums are added in theirs. How many parts there are depends on the model's heads alone, so the
 * bits do not depend on the number of threads, nor on the batch. */
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "cpu/attention.h"
#include "cpu/eval.h"
#include "cpu/kern/vmath.h"
#include "cpu/region.h"
#include "cpu/rows.h"

#define TASKS 8                /* of a batch row, if its heads of keys are fewer */
#define ROWS 64                /* max queries of a block */
#define SCORE_FLOATS (1 << 18) /* max scores of a block that has more than one query */
#define SUMS 16                /* of a dot product, so that additions overlap */

enum { Q, K, V, MASK, OFFSET, SINKS, DY, DLSE };

typedef struct work {
    mc_attention at;
    const mc_call *call;
    int64_t rows;   /* queries of a block */
    int64_t blocks; /* of a head of keys */
    int64_t parts;  /* of these */
    float *scratch; /* a space for each worker */
    int64_t worker_floats;
    float *sums; /* [tasks, lk, d + dv]; not used if a head of keys has one part */
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
    (void)at->kern->scale_max(k->width, scores, (float)at->attr->scale);
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
    float shift = at->kern->scale_max(k->width, scores, 1);
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

/* Where the dk and dv of a task are added up: [lk, d] and [lk, dv]. */
static void sums_of(const work *w, int64_t task, float **dk, float **dv) {
    const mc_attention *at = &w->at;
    if (w->parts > 1) {
        *dk = w->sums + task * at->lk * (at->d + at->dv);
        *dv = *dk + at->lk * at->d;
        return;
    }
    *dk = (float *)w->call->more[0].data + task * at->lk * at->d;
    *dv = (float *)w->call->more[1].data + task * at->lk * at->dv;
}

static void run_parts(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    const mc_attention *at = &w->at;
    space s;
    (void)place(w, w->scratch + worker * w->worker_floats, &s);
    for (int64_t task = begin; task < end; task++) {
        int64_t kv = task / w->parts, part = task % w->parts; /* of all batch rows */
        int64_t batch = kv / at->kv_heads, kv_head = kv % at->kv_heads;
        int64_t query_blocks = w->blocks / at->group;
        float *dk, *dv;
        sums_of(w, task, &dk, &dv);
        memset(dk, 0, (size_t)(at->lk * at->d) * sizeof *dk);
        memset(dv, 0, (size_t)(at->lk * at->dv) * sizeof *dv);
        load(w, K, batch, kv_head, 0, at->lk, s.k);
        load(w, V, batch, kv_head, 0, at->lk, s.v);
        for (int64_t i = w->blocks * part / w->parts; i < w->blocks * (part + 1) / w->parts; i++) {
            int64_t head = kv_head * at->group + i / query_blocks;
            block k = block_of(w, batch, head, i % query_blocks * w->rows);
            run_block(w, &s, &k, dk, dv);
        }
    }
}

/* Adds up the parts of some heads of keys. */
static void add_parts(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    int64_t n[2] = {w->at.lk * w->at.d, w->at.lk * w->at.dv};
    for (int64_t kv = begin; kv < end; kv++)
        for (int64_t part = 0; part < w->parts; part++) {
            float *from[2];
            sums_of(w, kv * w->parts + part, &from[0], &from[1]);
            for (int k = 0; k < 2; k++) {
                float *to = (float *)w->call->more[k].data + kv * n[k];
                if (part == 0) memset(to, 0, (size_t)n[k] * sizeof *to);
                for (int64_t i = 0; i < n[k]; i++)
                    to[i] += from[k][i];
            }
        }
}

mica_status mc_eval_sdpa_gradient(const mc_call *call) {
    work w = {.call = call};
    space unused;
    mc_attn_describe(call, &w.at);
    const mc_attention *at = &w.at;
    int64_t heads = call->in[Q].layout->shape[0] * at->kv_heads;
    w.rows = mc_max(1, mc_min(ROWS, SCORE_FLOATS / mc_max(1, at->lk)));
    w.blocks = at->group * ((at->lq + w.rows - 1) / w.rows);
    w.parts = mc_max(1, mc_min(TASKS / at->kv_heads, w.blocks));
    w.worker_floats = place(&w, NULL, &unused) + MC_ATTN_LINE; /* never 0 */
    int64_t spaces = w.worker_floats * mc_cpu_of(call)->threads, sums = 0;
    if (w.parts > 1) sums = heads * w.parts * at->lk * (at->d + at->dv);
    w.scratch = mc_run_scratch(call->run, (size_t)(spaces + sums) * sizeof *w.scratch);
    if (!w.scratch) return MICA_ENOMEM;
    w.sums = w.scratch + spaces;
    mc_cpu_for(call, heads * w.parts, 1, run_parts, &w);
    if (w.parts > 1) mc_cpu_for(call, heads, 1, add_parts, &w);
    return MICA_OK;
}
