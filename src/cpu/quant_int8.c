/* Fast matmuls in int8: x is quantised too, and sums are integers.
 *
 * For a few rows of x the packed weights are streamed. For more rows a tile of weights is unpacked
 * to bytes once and multiplied by all rows. The bits of a row do not depend on the number of rows
 * (kern/int8/int8_list.h). */
#include "cpu/quant.h"

#include "base/integer.h"

#define TILE 32 /* rows of weights for a unit of work; unpacked at once if x has many rows */

/* Where a row of x has two planes, sums stay in the first-level cache: those of so many streamed
 * rows of weights, or of so many rows of x. */
#define RUN 512
#define BLOCK 32

/* Rows of codes. */
static int64_t rows_of(const mc_quant_matmul *q) {
    return q->p.m * q->p.form.planes;
}

/* Whether x has so few rows that the packed weights are streamed. */
static bool is_streamed(const mc_quant_matmul *q) {
    return rows_of(q) <= q->kern->int8_streamed;
}

/* The tiles in scratch, for TILE unpacked rows. */
static mk_tiles tiles_in(const mc_quant_matmul *q, void *scratch) {
    int64_t groups = TILE * (q->p.k / q->w.group);
    mk_tiles tiles = {.codes = scratch};
    tiles.scales = (float *)(void *)(tiles.codes + TILE * q->p.k);
    tiles.offsets = (int32_t *)(void *)(tiles.scales + 2 * groups);
    return tiles;
}

/* The sums of both planes. */
static size_t sums_bytes(const mc_quant_matmul *q) {
    int64_t floats = is_streamed(q) ? rows_of(q) * RUN : 2 * BLOCK * TILE;
    return (size_t)floats * sizeof(float);
}

static size_t tiles_bytes(const mc_quant_matmul *q) {
    size_t groups = (size_t)(TILE * (q->p.k / q->w.group));
    return mc_scratch_pad((size_t)(TILE * q->p.k) + groups * (2 * sizeof(float) + sizeof(int32_t)));
}

/* Unpacks n rows of weights. */
static mk_tiles unpack(const mc_quant_matmul *q, const mc_form *x, const mk_qrows *rows, int64_t n,
                       void *scratch) {
    mk_tiles tiles = tiles_in(q, scratch);
    tiles.winograd = x->codes.winograd != NULL;
    q->kern->int8_pack(rows, n, &tiles);
    return tiles;
}

static void run_columns(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                        int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_quant_matmul *q = mc_quant_of(p);
    mk_qrows rows = mc_quant_weights(q, batch, first);
    if (is_streamed(q)) {
        q->kern->int8_matvec(&rows, count, p->m, &x->codes, y, y_stride);
        return;
    }
    mk_tiles tiles = unpack(q, x, &rows, count, scratch);
    q->kern->int8_matmul(p->m, &x->codes, count, &tiles, y, y_stride);
}

/* y [m, n] of the sums of its rows' two planes. */
static void add_planes(int64_t m, int64_t n, const float *restrict sums, float *restrict y,
                       int64_t y_stride) {
    for (int64_t i = 0; i < m; i++, sums += 2 * n, y += y_stride) {
        int64_t l = 0;
        for (; l + 8 <= n; l += 8)
            for (int j = 0; j < 8; j++) /* so many are added at once */
                y[l + j] = sums[l + j] + sums[n + l + j];
        for (; l < n; l++)
            y[l] = sums[l] + sums[n + l];
    }
}

/* run_columns where a row of x has two rows of codes: results are their sums. */
static void run_planes(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                       int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_quant_matmul *q = mc_quant_of(p);
    float *sums = (float *)(void *)((char *)scratch + p->scratch_bytes - sums_bytes(q));
    if (is_streamed(q)) {
        for (int64_t j = 0, n; j < count; j += n) {
            n = mc_min(count - j, RUN);
            mk_qrows rows = mc_quant_weights(q, batch, first + j);
            q->kern->int8_matvec(&rows, n, 2 * p->m, &x->codes, sums, n);
            add_planes(p->m, n, sums, y + j, y_stride);
        }
        return;
    }
    mk_qrows rows = mc_quant_weights(q, batch, first);
    mk_tiles tiles = unpack(q, x, &rows, count, scratch);
    for (int64_t i = 0, m; i < p->m; i += m) {
        m = mc_min(p->m - i, BLOCK);
        mk_xrows codes = mk_xrows_at(&x->codes, 2 * i);
        q->kern->int8_matmul(2 * m, &codes, count, &tiles, sums, count);
        add_planes(m, count, sums, y + i * y_stride, y_stride);
    }
}

bool mc_quant_is_fast(const mc_attr_quant *attr) {
    return attr->fast && attr->transpose && attr->mode != MICA_QUANT_MXFP8;
}

bool mc_quant_set_fast(mc_quant_matmul *q) {
    const mc_attr_quant *attr = q->p.call->attr;
    if (!mc_quant_is_fast(attr)) return false;
    mc_matmul *p = &q->p;
    int max = mk_max_code(q->w.mode, q->w.bits);
    p->form = (mc_form){.kind = MC_FORM_CODES, .group = q->w.group, .max = max};
    p->form.planes = attr->fast == 2 ? 2 : 1;
    p->tile = TILE;
    p->columns = p->form.planes == 2 ? run_planes : run_columns;
    p->runs = is_streamed(q); /* streamed rows are prefetched */
    if (!p->runs) p->scratch_bytes = tiles_bytes(q);
    if (p->form.planes == 2) p->scratch_bytes += sums_bytes(q);
    if (p->runs) return true;
    p->form.winograd = q->kern->int8_winograd && mk_has_winograd(max);
    return true;
}
