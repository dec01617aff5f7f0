/* Products with quantised weights, which are read as they lie.
 *
 * A few rows of x, one at a time, stream the packed weights through registers; more of them unpack
 * a tile of weights to f32 once and multiply them all. Both ways add in the same order: the bits of
 * a row do not depend on how many there are. Fast products are in quant_fast.c and
 * quant_paired.c. */
#include "cpu/eval.h"
#include "cpu/quant.h"

#include <string.h>

#include "cpu/rows.h"
#include "graph/attr.h"

#define TILE_BYTES (256 * 1024) /* of unpacked weights: what stays in a second-level cache */
#define TILE_MOST 64            /* rows of weights */
#define TILE_STEP 16            /* a whole number of the kernels' blocks */
#define ROWS_STREAMED 2         /* rows of x up to which unpacking does not pay */
#define NN_WIDTH 128            /* x @ w: columns a tile, a whole number of groups and words */
#define NN_DEPTH 64             /* and rows that are unpacked at once */

/* The kernels of a format; arrange is NULL where x is in its natural order. */
typedef struct quant_kernels {
    void (*arrange)(int64_t k, const float *x, float *y);
    void (*matvec)(const mk_qrows *w, int64_t n, const float *x, float *y);
    void (*unpack)(const mk_qrows *w, int64_t n, float *y);
} quant_kernels;

typedef struct product {
    mc_quant_product q;
    quant_kernels own;
    const float *x;      /* [batches * rows, k], arranged where own.arrange says so */
    int64_t x_stride;    /* elements from a row to the next */
    int64_t tile, tiles; /* columns of the result a tile, tiles a product */
    float *scratch;      /* [workers][tile_floats + y_floats] */
    int64_t tile_floats, y_floats;
} product;

/* x w^T: columns first .. first + count - 1 of the result are rows of w. */
static void tile_nt(const product *p, const mk_qrows *w, const float *x, int64_t first,
                    int64_t count, float *tile, float *y, int64_t y_stride) {
    mk_qrows rows = mk_qrows_at(w, first);
    if (p->q.m <= ROWS_STREAMED) {
        for (int64_t i = 0; i < p->q.m; i++)
            p->own.matvec(&rows, count, x + i * p->x_stride, y + i * y_stride);
        return;
    }
    p->own.unpack(&rows, count, tile);
    p->q.kern->matmul_nt(p->q.m, count, p->q.k, x, p->x_stride, tile, p->q.k, y, y_stride);
}

/* x w: columns first .. first + count - 1, some rows of w at a time. */
static void tile_nn(const product *p, const mk_qrows *w, const float *x, int64_t first,
                    int64_t count, float *tile, float *y, int64_t y_stride) {
    mk_qrows part = *w;
    int64_t scale_bytes = w->mode == MK_AFFINE ? mk_type_bytes(w->type) : 1;
    part.k = count;
    part.codes += first * w->bits / 32;
    part.scales = (const char *)part.scales + first / w->group * scale_bytes;
    if (part.biases != NULL)
        part.biases = (const char *)part.biases + first / w->group * scale_bytes;
    for (int64_t i = 0; i < p->q.m; i++)
        memset(y + i * y_stride, 0, (size_t)count * sizeof *y);
    for (int64_t l = 0; l < p->q.k; l += NN_DEPTH) {
        int64_t depth = mc_min(NN_DEPTH, p->q.k - l);
        mk_qrows rows = mk_qrows_at(&part, l);
        p->q.kern->unpack(&rows, depth, tile);
        p->q.kern->matmul_nn(p->q.m, count, depth, x + l, p->x_stride, tile, count, y, y_stride);
    }
}

static void run_tiles(void *context, int64_t begin, int64_t end, int worker) {
    const product *p = context;
    const mc_operand *out = &p->q.call->out;
    float *tile = p->scratch + worker * (p->tile_floats + p->y_floats);
    float *y = tile + p->tile_floats;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t batch = unit / p->tiles, first = unit % p->tiles * p->tile;
        int64_t count = mc_min(p->tile, p->q.n - first);
        mk_qrows w = mc_quant_weights(&p->q, batch);
        const float *x = p->x + batch * p->q.m * p->x_stride;
        int64_t at = batch * p->q.m * p->q.n + first;
        bool direct = p->y_floats == 0;
        float *to = direct ? (float *)out->data + at : y;
        int64_t to_stride = direct ? p->q.n : count;
        if (p->q.transpose)
            tile_nt(p, &w, x, first, count, tile, to, to_stride);
        else
            tile_nn(p, &w, x, first, count, tile, to, to_stride);
        if (direct) continue;
        for (int64_t i = 0; i < p->q.m; i++)
            mc_narrow(p->q.kern, out->layout->dtype, y + i * count, count, out->data,
                      at + i * p->q.n);
    }
}

static quant_kernels choose_kernels(const mk_kernels *kern, const mk_qrows *w) {
    if (w->mode == MK_AFFINE && w->bits == 4)
        return (quant_kernels){kern->arrange_q4, kern->matvec_q4, kern->unpack_q4};
    if (w->mode == MK_AFFINE && w->bits == 8)
        return (quant_kernels){kern->arrange_q8, kern->matvec_q8, kern->unpack_q8};
    return (quant_kernels){NULL, kern->matvec, kern->unpack};
}

static void choose_tiles(product *p, mica_dtype out) {
    if (p->q.transpose) {
        int64_t fit = TILE_BYTES / (int64_t)sizeof(float) / p->q.k / TILE_STEP * TILE_STEP;
        p->tile = fit < TILE_STEP ? TILE_STEP : mc_min(fit, TILE_MOST);
        p->tile_floats = p->tile * p->q.k;
    } else {
        p->tile = NN_WIDTH;
        p->tile_floats = p->tile * NN_DEPTH;
    }
    p->tile = mc_min(p->tile, p->q.n);
    p->tiles = (p->q.n - 1) / p->tile + 1;
    p->y_floats = out == MICA_F32 ? 0 : p->q.m * p->tile;
}

typedef struct arrange_work {
    const product *p;
    const float *x;
    float *y;
} arrange_work;

static void arrange_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const arrange_work *work = context;
    const product *p = work->p;
    for (int64_t r = begin; r < end; r++)
        p->own.arrange(p->q.k, work->x + r * p->x_stride, work->y + r * p->q.k);
}

/* Floats of scratch for x in the kernels' order. */
static int64_t arranged_floats(const product *p, const mc_operand *x) {
    return p->own.arrange != NULL && p->q.transpose ? mc_layout_size(x->layout) : 0;
}

/* x as f32 rows in the kernels' order. scratch: arranged_floats, then mc_rows_scratch. */
static void prepare_x(const mc_call *call, product *p, const mc_operand *x, float *scratch) {
    int64_t arranged = arranged_floats(p, x);
    mc_rows rows = mc_rows_get(call, x, scratch + arranged);
    p->x = rows.data;
    p->x_stride = rows.stride;
    if (arranged == 0) return;
    arrange_work work = {p, rows.data, scratch};
    mc_cpu_for(call, rows.count, mc_grain(rows.length), arrange_rows, &work);
    p->x = scratch;
    p->x_stride = p->q.k;
}

static mica_status eval_exact(const mc_quant_product *q) {
    const mc_call *call = q->call;
    const mc_cpu *cpu = mc_cpu_of(call);
    product p = {.q = *q, .own = choose_kernels(cpu->kern, &q->w)};
    choose_tiles(&p, call->out.layout->dtype);
    mc_operand x = mc_quant_x(&p.q);
    int64_t x_floats = arranged_floats(&p, &x) + mc_rows_scratch(&x);
    int64_t floats = x_floats + (p.tile_floats + p.y_floats) * cpu->threads;
    float *scratch = mc_run_scratch(call->run, (size_t)floats * sizeof *scratch);
    if (scratch == NULL) return MICA_ENOMEM;
    prepare_x(call, &p, &x, scratch);
    p.scratch = scratch + x_floats;
    mc_cpu_ahead(call, q->m);
    mc_cpu_for(call, q->batches * p.tiles, mc_grain(q->m * p.tile * q->k), run_tiles, &p);
    return MICA_OK;
}

/* Behind no chain. */
static mica_status fast_alone(const mc_quant_product *products, int n) {
    mc_chain none;
    MC_TRY(mc_chain_measure(&none, products[0].call, 0));
    return mc_quant_fast(products, n, &none);
}

/* Fast products in whole numbers go on together, the others one by one. */
mica_status mc_eval_quantized_matmul(const mc_call *call) {
    mc_quant_product fast[MC_MOST_JOINT];
    int n = 0;
    for (int i = 0; i < call->joint; i++) {
        mc_quant_product q;
        const mc_layout *out = call[i].out.layout, *codes = call[i].in[MC_QUANT_CODES].layout;
        if (mc_layout_size(codes) == 0) { /* sums of nothing */
            memset(call[i].out.data, 0, (size_t)mc_layout_bytes(out));
            continue;
        }
        MC_TRY(mc_quant_describe(&call[i], &q));
        if (mc_quant_is_paired(&q))
            MC_TRY(mc_quant_paired(&q));
        else if (!mc_quant_is_fast(&q))
            MC_TRY(eval_exact(&q));
        else if (codes->ndim > 2)
            MC_TRY(fast_alone(&q, 1)); /* its x may be broadcast */
        else
            fast[n++] = q;
    }
    return n > 0 ? fast_alone(fast, n) : MICA_OK;
}

/* ---- dequantize ---- */

typedef struct unpacking {
    const mc_call *call;
    mk_qrows w;
    float *scratch; /* [workers][k] where the result is not f32 */
} unpacking;

static void unpack_rows(void *context, int64_t begin, int64_t end, int worker) {
    const unpacking *u = context;
    const mk_kernels *kern = mc_cpu_of(u->call)->kern;
    const mc_operand *out = &u->call->out;
    const mc_layout *codes = u->call->in[0].layout, *scales = u->call->in[1].layout;
    int64_t scale_bytes = u->w.mode == MK_AFFINE ? mk_type_bytes(u->w.type) : 1;
    for (int64_t r = begin; r < end; r++) {
        mk_qrows row = u->w;
        int64_t scale = mc_row_offset(scales, scales->ndim - 1, r) * scale_bytes;
        row.codes += mc_row_offset(codes, codes->ndim - 1, r);
        row.scales = (const char *)row.scales + scale;
        if (row.biases != NULL) row.biases = (const char *)row.biases + scale;
        if (out->layout->dtype == MICA_F32) {
            kern->unpack(&row, 1, (float *)out->data + r * row.k);
            continue;
        }
        float *y = u->scratch + worker * row.k;
        kern->unpack(&row, 1, y);
        mc_narrow(kern, out->layout->dtype, y, row.k, out->data, r * row.k);
    }
}

mica_status mc_eval_dequantize(const mc_call *call) {
    const mc_layout *out = call->out.layout;
    if (mc_layout_size(out) == 0) return MICA_OK;
    unpacking u = {.call = call};
    MC_TRY(mc_quant_describe_rows(call, 0, &u.w));
    if (out->dtype != MICA_F32) {
        size_t floats = (size_t)(u.w.k * mc_cpu_of(call)->threads);
        u.scratch = mc_run_scratch(call->run, floats * sizeof *u.scratch);
        if (u.scratch == NULL) return MICA_ENOMEM;
    }
    mc_cpu_for(call, mc_row_count(out, out->ndim - 1), mc_grain(4 * u.w.k), unpack_rows, &u);
    return MICA_OK;
}
