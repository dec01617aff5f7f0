/* Fast products with mxfp8 weights: x is rounded to bf16, which hold the weights exactly.
 *
 * Few rows of x stream the packed weights; more of them unpack a tile of weights to bf16 once and
 * multiply them all. The bits of a row do not depend on how many there are (kern/quant_list.h). */
#include "cpu/quant.h"

#include "cpu/rows.h"

#define TILE 64          /* rows of weights a unit of work */
#define ROWS_STREAMED 16 /* rows of x up to which unpacking does not pay */

typedef struct work {
    const mc_quant_product *q;
    uint16_t *x;      /* [batches * m, k] */
    int64_t tiles;    /* a batch element */
    int64_t y_floats; /* scratch of a worker, for results that are not f32 */
    float *y;
    int64_t tile_halves; /* and for unpacked weights */
    uint16_t *tile;
} work;

bool mc_quant_is_paired(const mc_quant_product *q) {
    const mc_attr_quant *attr = q->call->attr;
    return attr->fast != 0 && q->transpose && attr->mode == MICA_QUANT_MXFP8 && q->kern->bf16_pairs;
}

static void run_tiles(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    const mc_quant_product *q = w->q;
    const mc_operand *out = &q->call->out;
    uint16_t *tile = w->tile + worker * w->tile_halves;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t batch = unit / w->tiles, first = unit % w->tiles * TILE;
        int64_t count = mc_min(TILE, q->n - first), at = batch * q->m * q->n + first;
        mk_qrows all = mc_quant_weights(q, batch), rows = mk_qrows_at(&all, first);
        const uint16_t *x = w->x + batch * q->m * q->k;
        bool direct = w->y_floats == 0;
        float *y = direct ? (float *)out->data + at : w->y + worker * w->y_floats;
        int64_t y_stride = direct ? q->n : count;
        if (q->m <= ROWS_STREAMED) {
            q->kern->matmul_mxfp8(&rows, count, q->m, x, q->k, y, y_stride);
        } else {
            q->kern->unpack_mxfp8(&rows, count, tile);
            q->kern->matmul_bf16(q->m, count, q->k, x, q->k, tile, q->k, y, y_stride);
        }
        if (direct) continue;
        for (int64_t i = 0; i < q->m; i++)
            mc_narrow(q->kern, out->layout->dtype, y + i * count, count, out->data, at + i * q->n);
    }
}

mica_status mc_quant_paired(const mc_quant_product *q) {
    const mc_call *call = q->call;
    mc_operand x = mc_quant_x(q);
    work w = {.q = q, .tiles = (q->n - 1) / TILE + 1};
    int64_t threads = mc_cpu_of(call)->threads, x_floats = mc_rows_scratch(&x);
    if (call->out.layout->dtype != MICA_F32) w.y_floats = q->m * TILE;
    if (q->m > ROWS_STREAMED) w.tile_halves = TILE * q->k;
    int64_t floats = x_floats + threads * w.y_floats;
    int64_t halves = mc_layout_size(x.layout) + threads * w.tile_halves;
    float *scratch =
        mc_run_scratch(call->run, (size_t)floats * sizeof *scratch + (size_t)halves * sizeof *w.x);
    if (scratch == NULL) return MICA_ENOMEM;
    mc_rows rows = mc_rows_get(call, &x, scratch);
    w.y = scratch + x_floats;
    w.x = (uint16_t *)(void *)(scratch + floats);
    w.tile = w.x + mc_layout_size(x.layout);
    mc_rows_round(call, &rows, w.x);
    mc_cpu_ahead(call, q->m);
    mc_cpu_for(call, q->batches * w.tiles, mc_grain(q->m * TILE * q->k), run_tiles, &w);
    return MICA_OK;
}
