/* Fast matmuls in pairs of bf16, to which x is rounded: x w^T with mxfp8 weights, which bf16 holds
 * exactly, and x w with weights of any mode, which are rounded, too. The latter are gradients.
 *
 * x w^T: for a few rows of x the packed weights are streamed. For more rows a tile of weights is
 * unpacked to bf16 once and multiplied by all rows. The bits of a row do not depend on the number
 * of rows (kern/quant/quant_list.h).
 *
 * x w: tiles of w are transposed, a part of its rows at a time. The sums of the parts are added in
 * order. */
#include "cpu/quant.h"

#include "base/integer.h"

#include <string.h>

#define TILE 64          /* rows of weights for a unit of work */
#define ROWS_STREAMED 16 /* max rows of x for which weights are streamed */

static void run_columns(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                        int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_quant_matmul *q = mc_quant_of(p);
    mk_qrows rows = mc_quant_weights(q, batch, first);
    const uint16_t *halves = x->halves;
    if (p->m <= ROWS_STREAMED) {
        q->kern->matmul_mxfp8(&rows, count, p->m, halves, x->halves_stride, y, y_stride);
    } else {
        q->kern->unpack_mxfp8(&rows, count, scratch);
        q->kern->matmul_bf16(p->m, count, p->k, halves, x->halves_stride, scratch, p->k, y,
                             y_stride);
    }
}

/* ---- x w ---- */

#define WIDTH 128 /* columns of a tile, a whole number of groups and words */
#define DEPTH 64  /* rows unpacked at once */
#define PART 4096 /* rows of a part: its tile stays in a second-level cache */

/* A worker's memory. */
typedef struct space {
    float *rows;      /* [DEPTH, WIDTH] */
    uint16_t *halves; /* the same rounded */
    uint16_t *tile;   /* [WIDTH, stride]: columns of w */
    float *y;         /* [m, WIDTH]; NULL: there is one part */
    int64_t stride;
} space;

/* Cuts the memory; NULL measures it. */
static size_t place(const mc_matmul *p, char *at, space *s) {
    *s = (space){0};
    s->stride = mc_matmul_row_stride(mc_min(p->k, PART), sizeof *s->tile);
    size_t rows = DEPTH * WIDTH * sizeof *s->rows, halves = DEPTH * WIDTH * sizeof *s->halves;
    size_t tile = (size_t)(WIDTH * s->stride) * sizeof *s->tile;
    size_t y = p->k > PART ? (size_t)(p->m * WIDTH) * sizeof *s->y : 0;
    if (at) {
        s->rows = (float *)(void *)at;
        s->halves = (uint16_t *)(void *)(at + rows);
        s->tile = (uint16_t *)(void *)(at + rows + halves);
        s->y = y > 0 ? (float *)(void *)(at + rows + halves + tile) : NULL;
    }
    return rows + halves + tile + y;
}

/* Columns of rows [depth, count] into the tile, from its column l on; four elements a store. */
static void transpose(const uint16_t *rows, int64_t depth, int64_t count, const space *s,
                      int64_t l) {
    int64_t d = 0;
    for (; d + 4 <= depth; d += 4, rows += 4 * count)
        for (int64_t i = 0; i < count; i++) {
            const uint16_t four[] = {rows[i], rows[count + i], rows[2 * count + i],
                                     rows[3 * count + i]};
            memcpy(s->tile + i * s->stride + l + d, four, sizeof four);
        }
    for (; d < depth; d++, rows += count)
        for (int64_t i = 0; i < count; i++)
            s->tile[i * s->stride + l + d] = rows[i];
}

/* Rows [first, first + n) of the columns `part` of w into the tile, transposed and rounded. */
static void fill_tile(const mk_kernels *kern, const mk_qrows *part, int64_t first, int64_t n,
                      const space *s) {
    const int64_t count = part->k;
    for (int64_t l = 0; l < n; l += DEPTH) {
        int64_t depth = mc_min(DEPTH, n - l);
        mk_qrows rows = mk_qrows_at(part, first + l);
        kern->unpack(&rows, depth, s->rows);
        kern->narrow_bf16(depth * count, s->rows, s->halves);
        transpose(s->halves, depth, count, s, l);
    }
}

static void columns_back(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                         int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_quant_matmul *q = mc_quant_of(p);
    space s;
    (void)place(p, scratch, &s);
    mk_qrows part = mc_quant_weights(q, batch, 0);
    part = mk_qrows_further(part, first * part.bits / 32, first / part.group);
    part.k = count;
    const uint16_t *halves = x->halves;
    for (int64_t l = 0; l < p->k; l += PART) {
        int64_t n = mc_min(PART, p->k - l);
        float *to = l == 0 ? y : s.y;
        int64_t to_stride = l == 0 ? y_stride : count;
        fill_tile(q->kern, &part, l, n, &s);
        q->kern->matmul_bf16(p->m, count, n, halves + l, x->halves_stride, s.tile, s.stride, to,
                             to_stride);
        for (int64_t i = 0; l > 0 && i < p->m; i++)
            for (int64_t j = 0; j < count; j++)
                y[i * y_stride + j] += s.y[i * count + j];
    }
}

/* ---- which ---- */

static bool goes_back_paired(const mk_kernels *kern, const mc_attr_quant *attr) {
    return attr->fast && !attr->transpose && kern->bf16_matmul;
}

static void set_back(mc_quant_matmul *q) {
    mc_matmul *p = &q->p;
    space unused;
    p->form = (mc_form){.kind = MC_FORM_BF16};
    p->tile = mc_min(WIDTH, p->n);
    p->columns = columns_back;
    p->scratch_bytes = place(p, NULL, &unused);
}

bool mc_quant_is_paired(const mk_kernels *kern, const mc_attr_quant *attr) {
    return attr->fast && attr->transpose && attr->mode == MICA_QUANT_MXFP8 && kern->bf16_matmul;
}

bool mc_quant_set_paired(mc_quant_matmul *q) {
    if (goes_back_paired(q->kern, q->p.call->attr)) {
        set_back(q);
        return true;
    }
    if (!mc_quant_is_paired(q->kern, q->p.call->attr)) return false;
    mc_matmul *p = &q->p;
    p->form = (mc_form){.kind = MC_FORM_BF16};
    p->tile = TILE;
    p->columns = run_columns;
    p->runs = p->m <= ROWS_STREAMED;
    if (!p->runs) p->scratch_bytes = (size_t)(TILE * p->k) * sizeof(uint16_t);
    return true;
}
