/* Scaled dot product attention in two passes over the keys that a block of queries sees: scores and
 * their softmax into scratch, then the weighted sum of values.
 *
 * Scores are dot products, and a row's total and its values are summed over the keys in rising
 * order: what a query gets depends on the keys that it sees alone, not on the block it is in, on
 * hidden keys before them, or on the number of threads. Query heads that share K and V are
 * multiplied together, so that these are read once. */
#include <math.h>
#include <string.h>

#include "cpu/eval.h"
#include "cpu/rows.h"
#include "graph/attr.h"

enum { Q, K, V, MASK, OFFSET, SINKS };

#define KEYS 64                /* a tile of keys or values */
#define ROWS 48                /* queries times heads in a block, if scores fit */
#define SCORE_FLOATS (1 << 19) /* the scores of a block, if it has more than one query */

typedef struct attention {
    const mk_kernels *kern;
    const mc_call *call;
    const mc_attr_sdpa *attr;
    mc_layout mask; /* broadcast to [B, Hq, Lq, Lk]; read where there is one */
    int64_t heads, kv_heads, lq, lk, d, dv;
    int64_t unit_heads, unit_queries; /* a block's */
    int64_t head_blocks, query_blocks;
    float *scratch; /* [workers][worker_floats] */
    int64_t worker_floats;
} attention;

/* One block: unit_heads query heads of one batch row and kv head, some queries of each. */
typedef struct block {
    const attention *at;
    int64_t batch, head, kv_head; /* head: the first */
    int64_t query, queries;       /* the first, and how many */
    int64_t rows;                 /* heads * queries; row = head * queries + query */
    int64_t offset;               /* key position of query 0 */
    int64_t first, width;         /* of the keys that any row sees */
    float *q, *scores, *tile, *y, *totals;
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

/* Keys (or values) first .. first + count - 1 as f32 rows: where they lie, or in the tile. */
static const float *load_tile(const block *b, int which, int64_t first, int64_t count,
                              int64_t *stride) {
    const mc_operand *x = &b->at->call->in[which];
    const mc_layout *l = x->layout;
    int64_t n = l->shape[3];
    int64_t at = b->batch * l->strides[0] + b->kv_head * l->strides[1] + first * l->strides[2];
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
    const mc_operand *q = &b->at->call->in[Q];
    const mc_layout *l = q->layout;
    for (int64_t r = 0; r < b->rows; r++) {
        int64_t head = b->head + r / b->queries, query = b->query + r % b->queries;
        int64_t at = b->batch * l->strides[0] + head * l->strides[1] + query * l->strides[2];
        mc_widen(b->at->kern, l->dtype, q->data, at, l->strides[3], b->at->d, b->q + r * b->at->d);
    }
}

static void multiply_keys(const block *b) {
    const attention *at = b->at;
    for (int64_t j = 0; j < b->width; j += KEYS) {
        int64_t count = mc_min(KEYS, b->width - j), stride;
        const float *keys = load_tile(b, K, b->first + j, count, &stride);
        at->kern->matmul_nt(b->rows, count, at->d, b->q, at->d, keys, stride, b->scores + j,
                            b->width);
    }
}

static void add_values(const block *b) {
    const attention *at = b->at;
    memset(b->y, 0, (size_t)(b->rows * at->dv) * sizeof *b->y);
    for (int64_t j = 0; j < b->width; j += KEYS) {
        int64_t count = mc_min(KEYS, b->width - j), stride;
        const float *values = load_tile(b, V, b->first + j, count, &stride);
        at->kern->matmul_nn(b->rows, at->dv, count, b->scores + j, b->width, values, stride, b->y,
                            at->dv);
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

/* Scales and caps n scores; an even number of lanes lets a compiler use registers. */
static void scale_scores(const mc_attr_sdpa *attr, int64_t n, float *scores) {
    float scale = (float)attr->scale, cap = (float)attr->softcap;
    for (int64_t j = 0; j < n; j++)
        scores[j] *= scale;
    if (cap != 0)
        for (int64_t j = 0; j < n; j++)
            scores[j] = cap * tanhf(scores[j] / cap);
}

static float largest_of(int64_t n, const float *x) {
    float lanes[8];
    for (int i = 0; i < 8; i++)
        lanes[i] = -INFINITY;
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int i = 0; i < 8; i++)
            lanes[i] = x[j + i] > lanes[i] ? x[j + i] : lanes[i];
    for (; j < n; j++)
        lanes[0] = x[j] > lanes[0] ? x[j] : lanes[0];
    for (int i = 1; i < 8; i++)
        lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
    return lanes[0];
}

/* Scores to weights: exp(score - largest), 0 for keys not seen. Sets *total to the sink's weight. */
static void weigh_row(const block *b, int64_t row, float *total) {
    const attention *at = b->at;
    int64_t head = b->head + row / b->queries, query = b->query + row % b->queries;
    int64_t begin, end;
    seen_keys(b, query, &begin, &end);
    float *scores = b->scores + row * b->width;
    float *seen = scores + (begin - b->first);
    int64_t n = end - begin, after = b->first + b->width - end;
    memset(scores, 0, (size_t)(begin - b->first) * sizeof *scores);
    memset(seen + n, 0, (size_t)after * sizeof *scores);

    scale_scores(at->attr, n, seen);
    apply_mask(b, head, query, begin, n, seen);
    float largest = largest_of(n, seen);
    const mc_operand *sinks = operand(at, SINKS);
    float sink = -INFINITY;
    if (sinks->data != NULL) {
        mk_type type = mc_mk_type(sinks->layout->dtype);
        int64_t step = mk_type_bytes(type) * sinks->layout->strides[0];
        sink = mk_load((const char *)sinks->data + head * step, type, 0);
        if (sink > largest) largest = sink;
    }
    *total = 0;
    if (largest == -INFINITY) { /* no key is seen; or all scores are NaN, which stays */
        for (int64_t j = 0; j < n; j++)
            seen[j] = isnan(seen[j]) ? seen[j] : 0;
        return;
    }
    if (sink > -INFINITY) *total = expf(sink - largest);
    at->kern->exp_shift(n, seen, largest);
}

/* totals[r] += the sum of row r's weights, key after key; four rows overlap. */
static void add_totals(const block *b) {
    int64_t r = 0;
    for (; r + 4 <= b->rows; r += 4) {
        const float *w0 = b->scores + r * b->width, *w1 = w0 + b->width;
        const float *w2 = w1 + b->width, *w3 = w2 + b->width;
        float t0 = b->totals[r], t1 = b->totals[r + 1];
        float t2 = b->totals[r + 2], t3 = b->totals[r + 3];
        for (int64_t j = 0; j < b->width; j++)
            t0 += w0[j], t1 += w1[j], t2 += w2[j], t3 += w3[j];
        b->totals[r] = t0, b->totals[r + 1] = t1;
        b->totals[r + 2] = t2, b->totals[r + 3] = t3;
    }
    for (; r < b->rows; r++)
        for (int64_t j = 0; j < b->width; j++)
            b->totals[r] += b->scores[r * b->width + j];
}

static void store_rows(const block *b) {
    const attention *at = b->at;
    const mc_operand *out = &at->call->out;
    for (int64_t r = 0; r < b->rows; r++) {
        float *y = b->y + r * at->dv;
        float total = b->totals[r] == 0 ? 1 : b->totals[r];
        for (int64_t i = 0; i < at->dv; i++)
            y[i] /= total;
        int64_t head = b->head + r / b->queries, query = b->query + r % b->queries;
        int64_t to = ((b->batch * at->heads + head) * at->lq + query) * at->dv;
        mc_narrow(at->kern, out->layout->dtype, y, at->dv, out->data, to);
    }
}

/* The key position of query 0 in this batch row. */
static int64_t offset_of(const attention *at, int64_t batch) {
    const mc_operand *offset = operand(at, OFFSET);
    if (offset->data == NULL) return at->lk - at->lq;
    const int32_t *data = offset->data;
    return offset->layout->ndim == 0 ? data[0] : data[batch * offset->layout->strides[0]];
}

static void attend(const attention *at, int64_t unit, float *scratch) {
    block b = {.at = at};
    int64_t query_block = unit % at->query_blocks, rest = unit / at->query_blocks;
    int64_t head_block = rest % at->head_blocks;
    b.batch = rest / at->head_blocks;
    b.head = head_block * at->unit_heads;
    b.kv_head = b.head / (at->heads / at->kv_heads);
    /* Causal: the last block has most to do, so it goes first. */
    b.query = (at->query_blocks - 1 - query_block) * at->unit_queries;
    b.queries = mc_min(at->unit_queries, at->lq - b.query);
    b.rows = at->unit_heads * b.queries;
    b.offset = offset_of(at, b.batch);
    int64_t begin, end, unused;
    seen_keys(&b, b.query, &begin, &unused);
    seen_keys(&b, b.query + b.queries - 1, &unused, &end);
    b.first = begin;
    b.width = end - begin;

    int64_t rows = at->unit_heads * at->unit_queries;
    b.q = scratch;
    b.y = b.q + rows * at->d;
    b.totals = b.y + rows * at->dv;
    b.tile = b.totals + rows;
    b.scores = b.tile + KEYS * (at->d > at->dv ? at->d : at->dv);
    load_queries(&b);
    multiply_keys(&b);
    for (int64_t r = 0; r < b.rows; r++)
        weigh_row(&b, r, &b.totals[r]);
    add_totals(&b);
    add_values(&b);
    store_rows(&b);
}

static void attend_units(void *context, int64_t begin, int64_t end, int worker) {
    const attention *at = context;
    for (int64_t unit = begin; unit < end; unit++)
        attend(at, unit, at->scratch + worker * at->worker_floats);
}

/* Blocks as large as caches like, small enough to give every thread some. */
static void choose_blocks(attention *at, int64_t batch, int threads) {
    int64_t group = at->heads / at->kv_heads;
    at->unit_heads = batch * at->kv_heads * at->lq >= 2 * threads ? group : 1;
    int64_t queries = ROWS / at->unit_heads;
    int64_t span = at->lk; /* keys that a block may see */
    if (at->attr->window > 0) span = mc_min(span, at->attr->window + ROWS);
    int64_t fit = SCORE_FLOATS / (at->unit_heads * (span < 1 ? 1 : span));
    if (queries > fit) queries = fit;
    if (queries < 1) queries = 1;
    at->unit_queries = mc_min(queries, at->lq);
    at->query_blocks = (at->lq - 1) / at->unit_queries + 1;
    at->head_blocks = at->heads / at->unit_heads;
    int64_t rows = at->unit_heads * at->unit_queries;
    at->worker_floats =
        rows * (at->d + at->dv + 1 + at->lk) + KEYS * (at->d > at->dv ? at->d : at->dv);
}

mica_status mc_eval_sdpa(const mc_call *call) {
    const mc_layout *out = call->out.layout;
    if (mc_layout_size(out) == 0) return MICA_OK;
    const mc_layout *k = call->in[K].layout;
    const mc_cpu *cpu = mc_cpu_of(call);
    attention at = {.kern = cpu->kern, .call = call, .attr = call->attr};
    int64_t batch = out->shape[0];
    at.heads = out->shape[1];
    at.lq = out->shape[2];
    at.dv = out->shape[3];
    at.kv_heads = k->shape[1];
    at.lk = k->shape[2];
    at.d = k->shape[3];
    const mc_operand *mask = operand(&at, MASK);
    int64_t shape[4] = {batch, at.heads, at.lq, at.lk};
    if (mask->data != NULL) (void)mc_layout_broadcast(mask->layout, shape, 4, &at.mask);
    choose_blocks(&at, batch, cpu->threads);
    size_t bytes = (size_t)(at.worker_floats * cpu->threads) * sizeof *at.scratch;
    at.scratch = mc_run_scratch(call->run, bytes);
    if (at.scratch == NULL) return MICA_ENOMEM;
    int64_t work = at.unit_heads * at.unit_queries * at.lk * at.d;
    mc_cpu_for(call, batch * at.head_blocks * at.query_blocks, mc_grain(work), attend_units, &at);
    return MICA_OK;
}
