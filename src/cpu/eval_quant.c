/* Products with quantised weights, which are read as they lie.
 *
 * A few rows of x, one at a time, stream the packed weights through registers; more of them unpack
 * a tile of weights to f32 once and multiply them all. Both ways add in the same order: the bits of
 * a row do not depend on how many there are. Fast products quantise x first, and then go the same
 * two ways over whole numbers. */
#include <string.h>

#include "cpu/eval.h"
#include "cpu/rows.h"
#include "graph/attr.h"

#define TILE_BYTES (256 * 1024) /* of unpacked weights: what stays in a second-level cache */
#define TILE_MOST 64            /* rows of weights */
#define TILE_STEP 16            /* a whole number of the kernels' blocks */
#define ROWS_STREAMED 2         /* rows of x up to which unpacking does not pay */
#define FAST_TILE 32            /* rows of weights that a fast product unpacks at once */
#define FAST_STREAMED 8         /* rows of x up to which it does not */
#define NN_WIDTH 128            /* x @ w: columns a tile, a whole number of groups and words */
#define NN_DEPTH 64             /* and rows that are unpacked at once */

enum { X, CODES, SCALES, BIASES };

/* The kernels of a format; arrange is NULL where x is in its natural order. */
typedef struct quant_kernels {
    void (*arrange)(int64_t k, const float *x, float *y);
    void (*matvec)(const mk_qrows *w, int64_t n, const float *x, float *y);
    void (*unpack)(const mk_qrows *w, int64_t n, float *y);
} quant_kernels;

typedef struct product {
    const mk_kernels *kern;
    const mc_call *call;
    quant_kernels own;
    mk_qrows w;       /* row 0 of batch 0 */
    const float *x;   /* [rows, k], arranged where own.arrange says so */
    int64_t x_stride; /* elements from a row to the next */
    int64_t m, n, k;  /* of one product of the batch */
    bool transpose;
    mc_layout codes, scales; /* with batch axes broadcast */
    int64_t tile, tiles;     /* columns of the result a tile, tiles a product */
    float *scratch;          /* [workers][tile_floats + y_floats] */
    int64_t tile_floats, y_floats;
} product;

/* The rows of batch element `batch`. */
static mk_qrows weights_of(const product *p, int64_t batch) {
    mk_qrows w = p->w;
    int64_t scale = mc_row_offset(&p->scales, p->scales.ndim - 2, batch);
    int64_t bytes = w.mode == MK_AFFINE ? mk_type_bytes(w.type) : 1;
    w.codes += mc_row_offset(&p->codes, p->codes.ndim - 2, batch);
    w.scales = (const char *)w.scales + scale * bytes;
    if (w.biases != NULL) w.biases = (const char *)w.biases + scale * bytes;
    return w;
}

/* x w^T: columns first .. first + count - 1 of the result are rows of w. */
static void tile_nt(const product *p, const mk_qrows *w, const float *x, int64_t first,
                    int64_t count, float *tile, float *y, int64_t y_stride) {
    mk_qrows rows = mk_qrows_at(w, first);
    if (p->m <= ROWS_STREAMED) {
        for (int64_t i = 0; i < p->m; i++)
            p->own.matvec(&rows, count, x + i * p->x_stride, y + i * y_stride);
        return;
    }
    p->own.unpack(&rows, count, tile);
    p->kern->matmul_nt(p->m, count, p->k, x, p->x_stride, tile, p->k, y, y_stride);
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
    for (int64_t i = 0; i < p->m; i++)
        memset(y + i * y_stride, 0, (size_t)count * sizeof *y);
    for (int64_t l = 0; l < p->k; l += NN_DEPTH) {
        int64_t depth = mc_min(NN_DEPTH, p->k - l);
        mk_qrows rows = mk_qrows_at(&part, l);
        p->kern->unpack(&rows, depth, tile);
        p->kern->matmul_nn(p->m, count, depth, x + l, p->x_stride, tile, count, y, y_stride);
    }
}

static void run_tiles(void *context, int64_t begin, int64_t end, int worker) {
    const product *p = context;
    const mc_operand *out = &p->call->out;
    float *tile = p->scratch + worker * (p->tile_floats + p->y_floats);
    float *y = tile + p->tile_floats;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t batch = unit / p->tiles, first = unit % p->tiles * p->tile;
        int64_t count = mc_min(p->tile, p->n - first);
        mk_qrows w = weights_of(p, batch);
        const float *x = p->x + batch * p->m * p->x_stride;
        int64_t at = batch * p->m * p->n + first;
        bool direct = p->y_floats == 0;
        float *to = direct ? (float *)out->data + at : y;
        int64_t to_stride = direct ? p->n : count;
        if (p->transpose)
            tile_nt(p, &w, x, first, count, tile, to, to_stride);
        else
            tile_nn(p, &w, x, first, count, tile, to, to_stride);
        if (direct) continue;
        for (int64_t i = 0; i < p->m; i++)
            mc_narrow(p->kern, out->layout->dtype, y + i * count, count, out->data, at + i * p->n);
    }
}

static quant_kernels choose_kernels(const mk_kernels *kern, const mk_qrows *w) {
    if (w->mode == MK_AFFINE && w->bits == 4)
        return (quant_kernels){kern->arrange_q4, kern->matvec_q4, kern->unpack_q4};
    if (w->mode == MK_AFFINE && w->bits == 8)
        return (quant_kernels){kern->arrange_q8, kern->matvec_q8, kern->unpack_q8};
    return (quant_kernels){NULL, kern->matvec, kern->unpack};
}

/* What the attributes and the operands codes, scales, biases (at in[first]) say of the rows. Rows
 * must be contiguous. */
static mica_status describe_rows(const mc_call *call, int first, mk_qrows *w) {
    const mc_attr_quant *attr = call->attr;
    const mc_operand *codes = &call->in[first], *scales = &call->in[first + 1];
    const mc_operand *biases = first + 2 < call->n_in ? &call->in[first + 2] : NULL;
    static const mk_mode modes[] = {
        [MICA_QUANT_AFFINE] = MK_AFFINE,
        [MICA_QUANT_MXFP4] = MK_MXFP4,
        [MICA_QUANT_MXFP8] = MK_MXFP8,
        [MICA_QUANT_NVFP4] = MK_NVFP4,
    };
    *w = (mk_qrows){
        .codes = codes->data,
        .scales = scales->data,
        .biases = biases != NULL ? biases->data : NULL,
        .type = mc_mk_type(scales->layout->dtype),
        .mode = modes[attr->mode],
        .bits = (int)attr->bits,
        .group = (int)attr->group_size,
    };
    const mc_layout *c = codes->layout, *sc = scales->layout;
    const mc_layout *b = w->biases != NULL ? biases->layout : sc;
    int last = c->ndim - 1;
    w->k = c->shape[last] * 32 / attr->bits;
    w->codes_stride = last > 0 ? c->strides[last - 1] : 0;
    w->scales_stride = last > 0 ? sc->strides[last - 1] : 0;
    bool whole = (c->strides[last] == 1 || c->shape[last] == 1) &&
                 (sc->strides[last] == 1 || sc->shape[last] == 1);
    for (int i = 0; i <= last; i++)
        if (b->shape[i] != 1 && b->strides[i] != sc->strides[i]) whole = false;
    if (!whole)
        return mc_fail(MICA_EINVAL, "quantised weights must lie in contiguous rows, scales and "
                                    "biases alike: copy them first");
    return MICA_OK;
}

/* A layout with the batch axes of out and its own last two. */
static mc_layout spread_batch(const mc_layout *x, const mc_layout *out) {
    int64_t shape[MICA_MAX_NDIM];
    memcpy(shape, out->shape, sizeof shape);
    int ndim = out->ndim < 2 ? 2 : out->ndim;
    shape[ndim - 2] = x->shape[x->ndim - 2];
    shape[ndim - 1] = x->shape[x->ndim - 1];
    mc_layout spread;
    (void)mc_layout_broadcast(x, shape, ndim, &spread); /* infer saw that it fits */
    return spread;
}

static void choose_tiles(product *p, mica_dtype out) {
    if (p->transpose) {
        int64_t fit = TILE_BYTES / (int64_t)sizeof(float) / p->k / TILE_STEP * TILE_STEP;
        p->tile = fit < TILE_STEP ? TILE_STEP : mc_min(fit, TILE_MOST);
        p->tile_floats = p->tile * p->k;
    } else {
        p->tile = NN_WIDTH;
        p->tile_floats = p->tile * NN_DEPTH;
    }
    p->tile = mc_min(p->tile, p->n);
    p->tiles = (p->n - 1) / p->tile + 1;
    p->y_floats = out == MICA_F32 ? 0 : p->m * p->tile;
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
        p->own.arrange(p->k, work->x + r * p->x_stride, work->y + r * p->k);
}

/* Floats of scratch for x in the kernels' order. */
static int64_t arranged_floats(const product *p, const mc_operand *x) {
    return p->own.arrange != NULL && p->transpose ? mc_layout_size(x->layout) : 0;
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
    p->x_stride = p->k;
}

/* ---- fast ---- */

typedef struct fast_product {
    const product *p;
    mk_xrows x; /* of all batches */
    float *scales, *y;
    uint8_t *codes; /* [workers][FAST_TILE * k] */
} fast_product;

/* The rows of x of batch element `batch`. */
static mk_xrows fast_rows(const fast_product *f, int64_t batch) {
    mk_xrows x = f->x;
    int64_t first = batch * f->p->m, groups = x.k / x.group;
    x.codes += first * x.k;
    x.scales += first * groups;
    x.sums += first * groups;
    return x;
}

/* Columns first .. first + count - 1 of a batch element's result. */
static void fast_columns(const fast_product *f, int64_t batch, int64_t first, int64_t count,
                         int worker) {
    const product *p = f->p;
    const mc_operand *out = &p->call->out;
    mk_qrows w = weights_of(p, batch);
    mk_qrows rows = mk_qrows_at(&w, first);
    mk_xrows x = fast_rows(f, batch);
    int64_t at = batch * p->m * p->n + first, groups = x.k / x.group;
    bool direct = p->y_floats == 0;
    float *y = direct ? (float *)out->data + at : f->y + worker * p->y_floats;
    int64_t y_stride = direct ? p->n : count;
    if (p->m <= FAST_STREAMED) {
        p->kern->fast_matvec(&rows, count, p->m, &x, y, y_stride);
    } else {
        mk_tiles tiles = {.codes = f->codes + worker * FAST_TILE * p->k,
                          .scales = f->scales + worker * FAST_TILE * 2 * groups};
        p->kern->fast_unpack(&rows, count, &tiles);
        p->kern->fast_matmul(p->m, &x, count, &tiles, y, y_stride);
    }
    if (direct) return;
    for (int64_t i = 0; i < p->m; i++)
        mc_narrow(p->kern, out->layout->dtype, y + i * count, count, out->data, at + i * p->n);
}

static void run_fast(void *context, int64_t begin, int64_t end, int worker) {
    const fast_product *f = context;
    const product *p = f->p;
    /* Rows that are streamed are fetched ahead, best over long runs of them. */
    bool join = p->m <= FAST_STREAMED && p->y_floats == 0;
    for (int64_t unit = begin; unit < end;) {
        int64_t batch = unit / p->tiles, at = unit % p->tiles;
        int64_t units = join ? mc_min(end - unit, p->tiles - at) : 1;
        int64_t first = at * p->tile, count = mc_min(units * p->tile, p->n - first);
        fast_columns(f, batch, first, count, worker);
        unit += units;
    }
}

static void quantize_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const fast_product *f = context;
    const product *p = f->p;
    int64_t groups = f->x.k / f->x.group;
    mk_xrows to = f->x;
    to.codes += begin * to.k;
    to.scales += begin * groups;
    to.sums += begin * groups;
    p->kern->fast_quantize(end - begin, p->x + begin * p->x_stride, p->x_stride, p->w.bits, &to);
}

/* Whether the product is one that the fast kernels know. */
static bool is_fast(const mc_attr_quant *attr) {
    return attr->fast != 0 && attr->transpose != 0 && attr->mode != MICA_QUANT_MXFP8;
}

static mica_status eval_fast(product *p, const mc_operand *x, int64_t batch) {
    const mc_call *call = p->call;
    int64_t threads = mc_cpu_of(call)->threads, groups = p->k / p->w.group;
    int64_t rows = mc_row_count(x->layout, x->layout->ndim - 1), tile_floats = 0, tile_bytes = 0;
    p->tile = FAST_TILE;
    p->tiles = (p->n - 1) / p->tile + 1;
    p->y_floats = call->out.layout->dtype == MICA_F32 ? 0 : p->m * p->tile;
    if (p->m > FAST_STREAMED) {
        tile_floats = FAST_TILE * 2 * groups;
        tile_bytes = FAST_TILE * p->k;
    }
    int64_t floats = mc_rows_scratch(x) + 2 * rows * groups + threads * (p->y_floats + tile_floats);
    int64_t bytes = threads * tile_bytes + rows * p->k;
    float *scratch = mc_run_scratch(call->run, (size_t)floats * sizeof *scratch + (size_t)bytes);
    if (scratch == NULL) return MICA_ENOMEM;

    mc_rows f32 = mc_rows_get(call, x, scratch);
    p->x = f32.data;
    p->x_stride = f32.stride;
    fast_product f = {.p = p, .x = {.k = p->k, .group = p->w.group}};
    f.x.scales = scratch + mc_rows_scratch(x);
    f.x.sums = f.x.scales + rows * groups;
    f.y = f.x.sums + rows * groups;
    f.scales = f.y + threads * p->y_floats;
    f.codes = (uint8_t *)(f.scales + threads * tile_floats);
    f.x.codes = (int8_t *)(f.codes + threads * tile_bytes);
    mc_cpu_for(call, rows, mc_grain(p->k), quantize_rows, &f);
    mc_cpu_for(call, batch * p->tiles, mc_grain(p->m * p->tile * p->k), run_fast, &f);
    return MICA_OK;
}

mica_status mc_eval_quantized_matmul(const mc_call *call) {
    const mc_layout *out = call->out.layout;
    if (mc_layout_size(out) == 0) return MICA_OK;
    const mc_cpu *cpu = mc_cpu_of(call);
    const mc_attr_quant *attr = call->attr;
    product p = {.kern = cpu->kern, .call = call, .transpose = attr->transpose != 0};
    MC_TRY(describe_rows(call, CODES, &p.w));
    p.codes = spread_batch(call->in[CODES].layout, out);
    p.scales = spread_batch(call->in[SCALES].layout, out);
    p.own = choose_kernels(cpu->kern, &p.w);
    int64_t rows = p.codes.shape[p.codes.ndim - 2];
    p.k = p.transpose ? p.w.k : rows;
    p.n = p.transpose ? rows : p.w.k;
    mc_layout x = *call->in[X].layout;
    int64_t batch = 1;
    if (call->in[CODES].layout->ndim == 2) {
        p.m = mc_row_count(out, out->ndim - 1);
    } else {
        p.m = out->shape[out->ndim - 2];
        batch = mc_row_count(out, out->ndim - 2);
        if (x.ndim >= 2) x = spread_batch(&x, out);
    }
    mc_operand operand = {call->in[X].data, &x};
    if (is_fast(attr)) return eval_fast(&p, &operand, batch);
    choose_tiles(&p, out->dtype);
    int64_t x_floats = arranged_floats(&p, &operand) + mc_rows_scratch(&operand);
    int64_t floats = x_floats + (p.tile_floats + p.y_floats) * cpu->threads;
    float *scratch = mc_run_scratch(call->run, (size_t)floats * sizeof *scratch);
    if (scratch == NULL) return MICA_ENOMEM;
    prepare_x(call, &p, &operand, scratch);
    p.scratch = scratch + x_floats;
    mc_cpu_for(call, batch * p.tiles, mc_grain(p.m * p.tile * p.k), run_tiles, &p);
    return MICA_OK;
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
    MC_TRY(describe_rows(call, 0, &u.w));
    if (out->dtype != MICA_F32) {
        size_t floats = (size_t)(u.w.k * mc_cpu_of(call)->threads);
        u.scratch = mc_run_scratch(call->run, floats * sizeof *u.scratch);
        if (u.scratch == NULL) return MICA_ENOMEM;
    }
    mc_cpu_for(call, mc_row_count(out, out->ndim - 1), mc_grain(4 * u.w.k), unpack_rows, &u);
    return MICA_OK;
}
