/* Fast matmuls in int8: x is quantised too, and sums are integers.
 *
 * For a few rows of x the packed weights are streamed. For more rows a tile of weights is unpacked
 * to bytes once and multiplied by all rows. The bits of a row do not depend on the number of rows
 * (kern/int8/int8_list.h). */
#include "cpu/quant.h"

#define TILE 32 /* rows of weights for a unit of work; unpacked at once if x has many rows */

/* Whether x has so few rows that the packed weights are streamed. */
static bool is_streamed(const mc_quant_matmul *q) {
    return q->p.m <= q->kern->int8_streamed;
}

/* The tiles in scratch, for TILE unpacked rows. */
static mk_tiles tiles_in(const mc_quant_matmul *q, void *scratch) {
    int64_t groups = TILE * (q->p.k / q->w.group);
    mk_tiles tiles = {.codes = scratch};
    tiles.scales = (float *)(void *)(tiles.codes + TILE * q->p.k);
    tiles.offsets = (int32_t *)(void *)(tiles.scales + 2 * groups);
    return tiles;
}

static size_t tiles_bytes(const mc_quant_matmul *q) {
    size_t groups = (size_t)(TILE * (q->p.k / q->w.group));
    return (size_t)(TILE * q->p.k) + groups * (2 * sizeof(float) + sizeof(int32_t));
}

static void run_columns(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                        int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_quant_matmul *q = mc_quant_of(p);
    mk_qrows rows = mc_quant_weights(q, batch, first);
    if (is_streamed(q)) {
        q->kern->int8_matvec(&rows, count, p->m, &x->codes, y, y_stride);
        return;
    }
    mk_tiles tiles = tiles_in(q, scratch);
    tiles.winograd = x->codes.winograd != NULL;
    q->kern->int8_pack(&rows, count, &tiles);
    q->kern->int8_matmul(p->m, &x->codes, count, &tiles, y, y_stride);
}

bool mc_quant_is_fast(const mc_attr_quant *attr) {
    return attr->fast && attr->transpose && attr->mode != MICA_QUANT_MXFP8;
}

bool mc_quant_set_fast(mc_quant_matmul *q) {
    if (!mc_quant_is_fast(q->p.call->attr)) return false;
    mc_matmul *p = &q->p;
    int max = mk_max_code(q->w.mode, q->w.bits);
    p->form = (mc_form){.kind = MC_FORM_CODES, .group = q->w.group, .max = max};
    p->tile = TILE;
    p->columns = run_columns;
    p->runs = is_streamed(q); /* streamed rows are prefetched */
    if (p->runs) return true;
    p->scratch_bytes = tiles_bytes(q);
    p->form.winograd = q->kern->int8_winograd && mk_has_winograd(max);
    return true;
}
