/* Matrix products of floats, a [..., M, K] b [..., K, N].
 *
 * b is read as it lies: in columns of contiguous k ("nt", a transposed weight [N, K]) by dot
 * products, in rows of contiguous n ("nn") by sums of rows; anything else is first copied, a tile
 * at a time, into columns. 16-bit b is widened a tile at a time, or in registers where M is small.
 * Where a fast product's b is bf16 and the machine multiplies bf16 faster, a is rounded to it and b
 * read as it lies. The way is chosen by b alone, so that a row of the result does not depend on how
 * many there are. */
#include "cpu/eval.h"
#include "cpu/rows.h"
#include "graph/attr.h"

#include <string.h>

#define TILE_BYTES (256 * 1024) /* of widened b: what stays in a second-level cache */
#define TILE_MOST 64            /* columns */
#define TILE_STEP 16            /* columns: a whole number of the kernels' blocks */
#define NN_DEPTH 64             /* rows of b that are widened at once */
#define ROWS_STREAMED 32        /* rows of a up to which 16-bit b is widened in registers */

typedef enum way { WAY_NT, WAY_NN } way;

typedef struct product {
    const mk_kernels *kern;
    const mc_call *call;
    way way;
    bool paired;     /* b is bf16 in columns, and a is rounded to it */
    bool direct;     /* b is multiplied where it lies, whatever the number of rows */
    bool contiguous; /* b's rows (nn) or columns (nt) are */
    mc_rows a;
    uint16_t *halves; /* a's rows in bf16 where they are `paired` */
    int64_t m, n, k;  /* of one product of the batch */
    int64_t stride_k, stride_n;
    int64_t tile, tiles; /* columns a tile, tiles a product */
    float *scratch;      /* [workers][tile_floats + y_floats] */
    int64_t tile_floats, y_floats;
} product;

/* b's columns first .. first + count - 1 as contiguous f32 [count, k]. */
static void gather_columns(const product *p, int64_t offset, int64_t first, int64_t count,
                           float *tile) {
    const mc_operand *b = &p->call->in[1];
    for (int64_t j = 0; j < count; j++)
        mc_widen(p->kern, b->layout->dtype, b->data, offset + (first + j) * p->stride_n,
                 p->contiguous ? 1 : p->stride_k, p->k, tile + j * p->k);
}

/* y [m, count]: rows of a from `row` on times columns of b from `first` on. */
static void tile_nt(const product *p, int64_t row, int64_t offset, int64_t first, int64_t count,
                    float *tile, float *y, int64_t y_stride) {
    const mc_operand *b = &p->call->in[1];
    const float *a = p->a.data + row * p->a.stride;
    int64_t at = offset + first * p->stride_n;
    if (p->paired) {
        p->kern->matmul_bf16(p->m, count, p->k, p->halves + row * p->k, p->k,
                             (const uint16_t *)b->data + at, p->stride_n, y, y_stride);
    } else if (p->direct) {
        p->kern->matmul_nt(p->m, count, p->k, a, p->a.stride, (const float *)b->data + at,
                           p->stride_n, y, y_stride);
    } else if (p->m <= ROWS_STREAMED && p->contiguous) {
        const uint16_t *w = (const uint16_t *)b->data + at;
        if (b->layout->dtype == MICA_BF16)
            p->kern->matmul_nt_bf16(p->m, count, p->k, a, p->a.stride, w, p->stride_n, y, y_stride);
        else
            p->kern->matmul_nt_f16(p->m, count, p->k, a, p->a.stride, w, p->stride_n, y, y_stride);
    } else {
        gather_columns(p, offset, first, count, tile);
        p->kern->matmul_nt(p->m, count, p->k, a, p->a.stride, tile, p->k, y, y_stride);
    }
}

static void tile_nn(const product *p, int64_t row, int64_t offset, int64_t first, int64_t count,
                    float *tile, float *y, int64_t y_stride) {
    const mc_operand *b = &p->call->in[1];
    const float *a = p->a.data + row * p->a.stride;
    for (int64_t i = 0; i < p->m; i++)
        memset(y + i * y_stride, 0, (size_t)count * sizeof *y);
    if (p->direct) {
        p->kern->matmul_nn(p->m, count, p->k, a, p->a.stride,
                           (const float *)b->data + offset + first, p->stride_k, y, y_stride);
        return;
    }
    for (int64_t l = 0; l < p->k; l += NN_DEPTH) {
        int64_t depth = mc_min(NN_DEPTH, p->k - l);
        for (int64_t i = 0; i < depth; i++)
            mc_widen(p->kern, b->layout->dtype, b->data, offset + (l + i) * p->stride_k + first, 1,
                     count, tile + i * count);
        p->kern->matmul_nn(p->m, count, depth, a + l, p->a.stride, tile, count, y, y_stride);
    }
}

/* Tiles begin .. end - 1, counted over the batch. */
static void run_tiles(void *context, int64_t begin, int64_t end, int worker) {
    const product *p = context;
    const mc_operand *out = &p->call->out;
    const mc_layout *b = p->call->in[1].layout;
    float *tile = p->scratch + (int64_t)worker * (p->tile_floats + p->y_floats);
    float *y = tile + p->tile_floats;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t batch = unit / p->tiles;
        int64_t first = unit % p->tiles * p->tile;
        int64_t count = mc_min(p->tile, p->n - first);
        int64_t offset = mc_row_offset(b, b->ndim - 2, batch);
        int64_t at = batch * p->m * p->n + first;
        bool in_place = p->y_floats == 0;
        float *to = in_place ? (float *)out->data + at : y;
        int64_t to_stride = in_place ? p->n : count;
        if (p->way == WAY_NT)
            tile_nt(p, batch * p->m, offset, first, count, tile, to, to_stride);
        else
            tile_nn(p, batch * p->m, offset, first, count, tile, to, to_stride);
        if (in_place) continue;
        for (int64_t i = 0; i < p->m; i++)
            mc_narrow(p->kern, out->layout->dtype, y + i * count, count, out->data, at + i * p->n);
    }
}

/* The operand with its batch axes broadcast to the result's. */
static mc_layout spread_batch(const mc_layout *x, const mc_layout *out) {
    int64_t shape[MICA_MAX_NDIM];
    memcpy(shape, out->shape, sizeof shape);
    shape[out->ndim - 2] = x->shape[x->ndim - 2];
    shape[out->ndim - 1] = x->shape[x->ndim - 1];
    mc_layout spread;
    (void)mc_layout_broadcast(x, shape, out->ndim, &spread); /* infer saw that it fits */
    return spread;
}

/* True where one b serves the whole batch, which then is more rows of a. */
static bool shares_b(const mc_layout *b) {
    for (int axis = 0; axis < b->ndim - 2; axis++)
        if (b->shape[axis] != 1 && b->strides[axis] != 0) return false;
    return true;
}

static void choose_way(product *p, const mc_layout *b) {
    p->stride_k = b->strides[b->ndim - 2];
    p->stride_n = b->strides[b->ndim - 1];
    bool columns = p->stride_k == 1 || p->k == 1;
    bool rows = p->stride_n == 1 || p->n == 1;
    p->way = columns || !rows ? WAY_NT : WAY_NN;
    p->contiguous = columns || rows;
    const mc_attr_matmul *attr = p->call->attr;
    p->paired = attr->fast != 0 && p->kern->bf16_pairs && b->dtype == MICA_BF16 &&
                p->way == WAY_NT && p->contiguous;
    p->direct = p->paired || (p->contiguous && b->dtype == MICA_F32);
}

static void choose_tiles(product *p, mica_dtype out) {
    int64_t fit = TILE_BYTES / (int64_t)sizeof(float) / (p->k < 1 ? 1 : p->k);
    fit = fit / TILE_STEP * TILE_STEP;
    p->tile = fit < TILE_STEP ? TILE_STEP : mc_min(fit, TILE_MOST);
    p->tile = mc_min(p->tile, p->n);
    p->tiles = (p->n - 1) / p->tile + 1;
    p->tile_floats = p->direct ? 0 : p->tile * (p->way == WAY_NT ? p->k : NN_DEPTH);
    p->y_floats = out == MICA_F32 ? 0 : p->m * p->tile;
}

/* Scratch, cut into what a and the workers need; a's rows as the product wants them. */
static mica_status take_scratch(const mc_call *call, product *p) {
    const mc_operand *a = &p->call->in[0];
    int64_t a_floats = mc_rows_scratch(a), threads = mc_cpu_of(call)->threads;
    int64_t floats = a_floats + (p->tile_floats + p->y_floats) * threads;
    int64_t halves = p->paired ? mc_layout_size(a->layout) : 0;
    float *scratch = NULL;
    if (floats + halves > 0) {
        scratch = mc_run_scratch(call->run, (size_t)floats * sizeof *scratch +
                                                (size_t)halves * sizeof *p->halves);
        if (scratch == NULL) return MICA_ENOMEM;
        p->scratch = scratch + a_floats;
        p->halves = (uint16_t *)(void *)(scratch + floats);
    }
    p->a = mc_rows_get(p->call, a, scratch);
    if (p->paired) mc_rows_round(call, &p->a, p->halves);
    return MICA_OK;
}

mica_status mc_eval_matmul(const mc_call *call) {
    const mc_layout *out = call->out.layout;
    if (mc_layout_size(out) == 0) return MICA_OK;
    mc_layout a = spread_batch(call->in[0].layout, out);
    mc_layout b = spread_batch(call->in[1].layout, out);
    mc_operand in[2] = {{call->in[0].data, &a}, {call->in[1].data, &b}};
    mc_call spread = *call;
    spread.in = in;

    product p = {.kern = mc_cpu_of(call)->kern, .call = &spread};
    p.m = out->shape[out->ndim - 2];
    p.n = out->shape[out->ndim - 1];
    p.k = a.shape[a.ndim - 1];
    int64_t batch = mc_row_count(out, out->ndim - 2);
    if (shares_b(&b)) {
        p.m *= batch;
        batch = 1;
    }
    choose_way(&p, &b);
    choose_tiles(&p, out->dtype);

    MC_TRY(take_scratch(call, &p));
    mc_cpu_ahead(call, p.m);
    mc_cpu_for(call, batch * p.tiles, mc_grain(p.m * p.tile * p.k), run_tiles, &p);
    return MICA_OK;
}
