/* Selective scan, its gradient, and the gated delta rule: MK_LANES channels, or columns of a head's
 * state, at a time, step after step. Operands are widened a tile of steps at a time. */
#include <string.h>

#include "base/integer.h"
#include "cpu/eval.h"
#include "cpu/kern/vmath.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "graph/attr.h"

#define TILE 64 /* steps */
#define PARTS 8 /* tasks of a batch row in the gradient, which sum dB and dC each for itself */

enum { X, DELTA, A, B, C, INITIAL, DY, DLAST }; /* of selective_scan and its gradient */
enum { Q, K, V, G, BETA, STATE };               /* of gated_delta */

typedef struct work {
    const mc_call *call;
    const mk_kernels *kern;
    int64_t batch, length, n; /* n: rows of the state */
    int64_t width, blocks;    /* channels or columns, and blocks of MK_LANES of them */
    int64_t heads, shared;    /* gated_delta; heads that share q and k */
    float *scratch;           /* a space for each worker */
    int64_t worker_floats;
    int64_t parts, segment; /* the gradient: of a batch row; steps between checkpoints */
    float *sums, *da;       /* [batch, parts, 2, length, n]; [batch, blocks, n, MK_LANES] */
} work;

static int64_t lanes_of(const work *w, int64_t block) {
    return mc_min(MK_LANES, w->width - block * MK_LANES);
}

/* `steps` rows of `count` elements as f32, from an element on; each of the rows in `to` has `room`,
 * zeros at its end. */
static void load(const work *w, const mc_operand *x, int64_t at, int64_t step, int64_t stride,
                 int64_t steps, int64_t count, int64_t room, float *to) {
    for (int64_t t = 0; room > 0 && t < steps; t++, to += room, at += step) {
        mc_widen(w->kern, x->layout->dtype, x->data, at, stride, count, to);
        for (int64_t i = count; i < room; i++)
            to[i] = 0;
    }
}

/* Steps [t, t + steps) of the channels of a block, of an operand [B, L, H]. */
static void load_channels(const work *w, int which, int64_t batch, int64_t t, int64_t steps,
                          int64_t block, float *to) {
    const mc_operand *x = &w->call->in[which];
    const int64_t *strides = x->layout->strides;
    int64_t at = batch * strides[0] + t * strides[1] + block * MK_LANES * strides[2];
    load(w, x, at, strides[1], strides[2], steps, lanes_of(w, block), MK_LANES, to);
}

/* The same of an operand [B, L, N]. */
static void load_vectors(const work *w, int which, int64_t batch, int64_t t, int64_t steps,
                         float *to) {
    const mc_operand *x = &w->call->in[which];
    const int64_t *strides = x->layout->strides;
    load(w, x, batch * strides[0] + t * strides[1], strides[1], strides[2], steps, w->n, w->n, to);
}

/* A block of [.., H, N], from an element on, as [n, MK_LANES]; absent: zeros. */
static void load_state(const work *w, const mc_operand *x, int64_t at, int64_t block, float *to) {
    memset(to, 0, (size_t)(w->n * MK_LANES) * sizeof *to);
    if (!x->data) return;
    const mc_layout *l = x->layout;
    int64_t h = l->strides[l->ndim - 2], i = l->strides[l->ndim - 1];
    for (int64_t k = 0; k < w->n; k++) {
        float *row = to + k * MK_LANES;
        mc_widen(w->kern, l->dtype, x->data, at + block * MK_LANES * h + k * i, h,
                 lanes_of(w, block), row);
    }
}

/* [n, MK_LANES] as a block of a dense [.., H, N], which begins with a batch row. */
static void store_state(const work *w, int64_t block, const float *state, float *out) {
    for (int64_t lane = 0; lane < lanes_of(w, block); lane++)
        for (int64_t i = 0; i < w->n; i++)
            out[(block * MK_LANES + lane) * w->n + i] = state[i * MK_LANES + lane];
}

static const mc_operand *operand(const work *w, int which) {
    static const mc_operand absent = {0};
    return which < w->call->n_in ? &w->call->in[which] : &absent;
}

static int64_t batch_offset(const mc_operand *x, int64_t batch) {
    return x->data ? batch * x->layout->strides[0] : 0;
}

/* Divides a worker's space. */
static float *take_floats(float **space, int64_t floats) {
    float *part = *space;
    *space += mc_round_up(floats, MK_LANES);
    return part;
}

/* ---- selective_scan ---- */

static void scan_block(const work *w, int64_t batch, int64_t block, float *space) {
    float *a = take_floats(&space, w->n * MK_LANES), *state = take_floats(&space, w->n * MK_LANES);
    float *x = take_floats(&space, TILE * MK_LANES), *delta = take_floats(&space, TILE * MK_LANES);
    float *y = take_floats(&space, TILE * MK_LANES);
    float *b = take_floats(&space, TILE * w->n), *c = take_floats(&space, TILE * w->n);
    int64_t lanes = lanes_of(w, block);
    const mc_operand *initial = operand(w, INITIAL);
    float *out = (float *)w->call->out.data + batch * w->length * w->width;
    load_state(w, operand(w, A), 0, block, a);
    load_state(w, initial, batch_offset(initial, batch), block, state);
    for (int64_t t = 0; t < w->length; t += TILE) {
        int64_t steps = mc_min(TILE, w->length - t);
        load_channels(w, X, batch, t, steps, block, x);
        load_channels(w, DELTA, batch, t, steps, block, delta);
        load_vectors(w, B, batch, t, steps, b);
        load_vectors(w, C, batch, t, steps, c);
        w->kern->selective_scan(steps, w->n, x, delta, a, b, c, state, y);
        for (int64_t i = 0; i < steps; i++)
            memcpy(out + (t + i) * w->width + block * MK_LANES, y + i * MK_LANES,
                   (size_t)lanes * sizeof *out);
    }
    float *last = w->call->more[0].data;
    store_state(w, block, state, last + batch * w->width * w->n);
}

static void scan_blocks(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    for (int64_t i = begin; i < end; i++)
        scan_block(w, i / w->blocks, i % w->blocks, w->scratch + worker * w->worker_floats);
}

static work selective_work(const mc_call *call) {
    const mc_layout *x = call->in[X].layout;
    work w = {.call = call, .kern = mc_cpu_of(call)->kern, .batch = x->shape[0]};
    w.length = x->shape[1];
    w.width = x->shape[2];
    w.n = call->in[A].layout->shape[1];
    w.blocks = (w.width + MK_LANES - 1) / MK_LANES;
    return w;
}

/* Scratch for the workers' spaces, and `more` floats behind them. */
static bool take_scratch(work *w, int64_t more) {
    int64_t workers = mc_cpu_of(w->call)->threads;
    size_t bytes = (size_t)(workers * w->worker_floats + more) * sizeof(float);
    w->scratch = mc_run_scratch(w->call->run, bytes + MK_LANES);
    return w->scratch;
}

mica_status mc_eval_selective_scan(const mc_call *call) {
    work w = selective_work(call);
    w.worker_floats = 2 * MK_LANES * w.n + 3 * TILE * MK_LANES + 2 * TILE * w.n;
    if (!take_scratch(&w, 0)) return MICA_ENOMEM;
    mc_cpu_for(call, w.batch * w.blocks, 1, scan_blocks, &w);
    return MICA_OK;
}

/* ---- its gradient ----
 *
 * A block's states are computed once, keeping one for each segment of about sqrt(L) steps. Then,
 * from the last segment back, the segment's states are computed again and kept. */

typedef struct back {
    float *a, *carry, *da;     /* [n, MK_LANES] */
    float *kept;               /* [segments, n, MK_LANES]: states before each segment */
    float *states;             /* [segment + 1, n, MK_LANES] */
    float *x, *delta, *dy, *y; /* [segment, MK_LANES] */
    float *b, *c;              /* [segment, n] */
} back;

static int64_t segments_of(const work *w) {
    return (w->length + w->segment - 1) / w->segment;
}

static int64_t place(const work *w, float *at, back *k) {
    const int64_t state = w->n * MK_LANES, tile = w->segment * MK_LANES;
    const struct {
        float **part;
        int64_t floats;
    } parts[] = {{&k->a, state},
                 {&k->carry, state},
                 {&k->kept, segments_of(w) * state},
                 {&k->states, (w->segment + 1) * state},
                 {&k->x, tile},
                 {&k->delta, tile},
                 {&k->dy, tile},
                 {&k->y, tile},
                 {&k->b, w->segment * w->n},
                 {&k->c, w->segment * w->n}};
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (at) *parts[i].part = at + floats;
        floats += mc_round_up(parts[i].floats, MK_LANES);
    }
    return floats;
}

static int64_t load_segment(const work *w, const back *k, int64_t batch, int64_t block, int64_t t) {
    int64_t steps = mc_min(w->segment, w->length - t);
    load_channels(w, X, batch, t, steps, block, k->x);
    load_channels(w, DELTA, batch, t, steps, block, k->delta);
    load_vectors(w, B, batch, t, steps, k->b);
    load_vectors(w, C, batch, t, steps, k->c);
    return steps;
}

/* The state before each segment. */
static void keep_states(const work *w, const back *k, int64_t batch, int64_t block) {
    const int64_t floats = w->n * MK_LANES;
    float *state = k->states;
    const mc_operand *initial = operand(w, INITIAL);
    load_state(w, initial, batch_offset(initial, batch), block, state);
    for (int64_t i = 0; i < segments_of(w); i++) {
        memcpy(k->kept + i * floats, state, (size_t)floats * sizeof *state);
        if (i + 1 == segments_of(w)) return;
        int64_t steps = load_segment(w, k, batch, block, i * w->segment);
        w->kern->selective_scan(steps, w->n, k->x, k->delta, k->a, k->b, k->c, state, k->y);
    }
}

static void segment_back(const work *w, const back *k, int64_t batch, int64_t block, int64_t i,
                         float *db, float *dc) {
    const int64_t floats = w->n * MK_LANES, t = i * w->segment, lanes = lanes_of(w, block);
    int64_t steps = load_segment(w, k, batch, block, t);
    load_channels(w, DY, batch, t, steps, block, k->dy);
    memcpy(k->states, k->kept + i * floats, (size_t)floats * sizeof(float));
    for (int64_t j = 0; j < steps; j++) {
        float *state = k->states + (j + 1) * floats;
        memcpy(state, state - floats, (size_t)floats * sizeof *state);
        w->kern->selective_scan(1, w->n, k->x + j * MK_LANES, k->delta + j * MK_LANES, k->a,
                                k->b + j * w->n, k->c + j * w->n, state, k->y);
    }
    float *dx = w->call->out.data, *ddelta = w->call->more[DELTA - 1].data;
    for (int64_t j = steps - 1; j >= 0; j--) {
        float of_x[MK_LANES], of_delta[MK_LANES];
        const float *before = k->states + j * floats;
        w->kern->selective_back(w->n, k->x + j * MK_LANES, k->delta + j * MK_LANES,
                                k->dy + j * MK_LANES, k->a, k->b + j * w->n, k->c + j * w->n,
                                before, before + floats, k->carry, of_x, of_delta, k->da,
                                db + (t + j) * w->n, dc + (t + j) * w->n);
        int64_t at = (batch * w->length + t + j) * w->width + block * MK_LANES;
        memcpy(dx + at, of_x, (size_t)lanes * sizeof *dx);
        memcpy(ddelta + at, of_delta, (size_t)lanes * sizeof *ddelta);
    }
}

static void back_parts(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    const int64_t floats = w->n * MK_LANES;
    back k;
    (void)place(w, w->scratch + worker * w->worker_floats, &k);
    for (int64_t task = begin; task < end; task++) {
        int64_t batch = task / w->parts, part = task % w->parts;
        float *db = w->sums + task * 2 * w->length * w->n, *dc = db + w->length * w->n;
        memset(db, 0, (size_t)(2 * w->length * w->n) * sizeof *db); /* of the scratch */
        for (int64_t block = w->blocks * part / w->parts; block < w->blocks * (part + 1) / w->parts;
             block++) {
            const mc_operand *last = operand(w, DLAST);
            k.da = w->da + (batch * w->blocks + block) * floats;
            memset(k.da, 0, (size_t)floats * sizeof *k.da);
            load_state(w, operand(w, A), 0, block, k.a);
            keep_states(w, &k, batch, block);
            load_state(w, last, batch_offset(last, batch), block, k.carry);
            for (int64_t i = segments_of(w) - 1; i >= 0; i--)
                segment_back(w, &k, batch, block, i, db, dc);
            float *initial = w->call->more[INITIAL - 1].data;
            store_state(w, block, k.carry, initial + batch * w->width * w->n);
        }
    }
}

/* Adds up the parts of dB and dC, in their order. */
static void add_vectors(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    const int64_t floats = w->length * w->n;
    for (int64_t batch = begin; floats > 0 && batch < end; batch++)
        for (int which = 0; which < 2; which++) {
            float *to = (float *)w->call->more[B - 1 + which].data + batch * floats;
            memset(to, 0, (size_t)floats * sizeof *to);
            for (int64_t part = 0; part < w->parts; part++) {
                const float *from = w->sums + ((batch * w->parts + part) * 2 + which) * floats;
                for (int64_t i = 0; i < floats; i++)
                    to[i] += from[i];
            }
        }
}

/* Adds up dA over the batch. */
static void add_blocks(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    const int64_t floats = w->n * MK_LANES;
    for (int64_t block = begin; block < end; block++) {
        float *sum = w->da + block * floats; /* of the first batch row */
        for (int64_t batch = 1; batch < w->batch; batch++)
            for (int64_t i = 0; i < floats; i++)
                sum[i] += w->da[(batch * w->blocks + block) * floats + i];
        store_state(w, block, sum, w->call->more[A - 1].data);
    }
}

mica_status mc_eval_selective_scan_gradient(const mc_call *call) {
    work w = selective_work(call);
    back unused;
    w.segment = 1;
    while (w.segment * w.segment < w.length)
        w.segment++;
    w.parts = mc_max(1, mc_min(PARTS, w.blocks));
    w.worker_floats = place(&w, NULL, &unused);
    int64_t da = w.batch * w.blocks * w.n * MK_LANES;
    if (!take_scratch(&w, da + w.batch * w.parts * 2 * w.length * w.n)) return MICA_ENOMEM;
    w.da = w.scratch + mc_cpu_of(call)->threads * w.worker_floats;
    w.sums = w.da + da;
    mc_cpu_for(call, w.batch * w.parts, 1, back_parts, &w);
    mc_cpu_for(call, w.batch, 1, add_vectors, &w);
    if (w.batch > 0)
        mc_cpu_for(call, w.blocks, 1, add_blocks, &w);
    else if (w.width * w.n > 0)
        memset(call->more[A - 1].data, 0, (size_t)(w.width * w.n) * sizeof(float));
    return MICA_OK;
}

/* ---- gated_delta ---- */

/* Steps [t, t + steps) of what a head has of an operand [B, L, heads, ..]: `count` elements from
 * `column` on; rows in `to` have `room`. */
static void load_head(const work *w, const mc_operand *x, int64_t batch, int64_t head, int64_t t,
                      int64_t steps, int64_t column, int64_t count, int64_t room, float *to) {
    if (!x->data) return; /* there is no beta */
    const int64_t *strides = x->layout->strides;
    int64_t stride = x->layout->ndim == 4 ? strides[3] : 1;
    if (x->layout->shape[2] != w->heads) head /= w->shared;
    load(w, x, batch * strides[0] + t * strides[1] + head * strides[2] + column * stride,
         strides[1], stride, steps, count, room, to);
}

static void delta_block(const work *w, int64_t batch, int64_t head, int64_t block, float *space) {
    const mc_operand *in = w->call->in, *state_in = operand(w, STATE);
    float *state = take_floats(&space, w->n * MK_LANES);
    float *q = take_floats(&space, TILE * w->n), *k = take_floats(&space, TILE * w->n);
    float *v = take_floats(&space, TILE * MK_LANES), *o = take_floats(&space, TILE * MK_LANES);
    float *g = take_floats(&space, TILE), *beta = take_floats(&space, TILE);
    const int64_t lanes = lanes_of(w, block), column = block * MK_LANES;
    float *out = w->call->out.data, *last = w->call->more[0].data;
    float scale = (float)(1 / sqrt((double)w->n));
    memset(state, 0, (size_t)(w->n * MK_LANES) * sizeof *state);
    if (state_in->data) {
        const int64_t *strides = state_in->layout->strides;
        int64_t at = batch * strides[0] + head * strides[1] + column * strides[3];
        load(w, state_in, at, strides[2], strides[3], w->n, lanes, MK_LANES, state);
    }
    for (int64_t t = 0; t < w->length; t += TILE) {
        int64_t steps = mc_min(TILE, w->length - t);
        load_head(w, &in[Q], batch, head, t, steps, 0, w->n, w->n, q);
        load_head(w, &in[K], batch, head, t, steps, 0, w->n, w->n, k);
        load_head(w, &in[V], batch, head, t, steps, column, lanes, MK_LANES, v);
        load_head(w, &in[G], batch, head, t, steps, 0, 1, 1, g);
        load_head(w, operand(w, BETA), batch, head, t, steps, 0, 1, 1, beta);
        for (int64_t i = 0; i < steps; i++)
            g[i] = mk_expf(g[i]);
        if (operand(w, BETA)->data)
            w->kern->delta_scan(steps, w->n, q, k, v, g, beta, scale, state, o);
        else
            w->kern->linear_scan(steps, w->n, q, k, v, g, state, o);
        for (int64_t i = 0; i < steps; i++)
            memcpy(out + ((batch * w->length + t + i) * w->heads + head) * w->width + column,
                   o + i * MK_LANES, (size_t)lanes * sizeof *out);
    }
    for (int64_t i = 0; i < w->n; i++)
        memcpy(last + ((batch * w->heads + head) * w->n + i) * w->width + column,
               state + i * MK_LANES, (size_t)lanes * sizeof *last);
}

static void delta_blocks(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t head = i / w->blocks;
        delta_block(w, head / w->heads, head % w->heads, i % w->blocks,
                    w->scratch + worker * w->worker_floats);
    }
}

mica_status mc_eval_gated_delta(const mc_call *call) {
    const mc_layout *q = call->in[Q].layout, *v = call->in[V].layout;
    work w = {.call = call, .kern = mc_cpu_of(call)->kern, .batch = q->shape[0]};
    w.length = q->shape[1];
    w.heads = v->shape[2];
    w.shared = q->shape[2] ? w.heads / q->shape[2] : 1;
    w.n = q->shape[3];
    w.width = v->shape[3];
    w.blocks = (w.width + MK_LANES - 1) / MK_LANES;
    w.worker_floats = w.n * MK_LANES + 2 * TILE * (w.n + MK_LANES + 1);
    if (!take_scratch(&w, 0)) return MICA_ENOMEM;
    mc_cpu_for(call, w.batch * w.heads * w.blocks, 1, delta_blocks, &w);
    return MICA_OK;
}
