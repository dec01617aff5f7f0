/* Fast matmuls with mxfp8 weights: x is rounded to bf16, which holds the weights exactly.
 *
 * For a few rows of x the packed weights are streamed. For more rows a tile of weights is unpacked
 * to bf16 once and multiplied by all rows. The bits of a row do not depend on the number of rows
 * (kern/quant/quant_list.h). */
#include "cpu/quant.h"

#define TILE 64          /* rows of weights for a unit of work */
#define ROWS_STREAMED 16 /* max rows of x for which weights are streamed */

static void run_columns(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                        int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_quant_matmul *q = mc_quant_of(p);
    mk_qrows rows = mc_quant_weights(q, batch, first);
    const uint16_t *halves = x->halves + batch * p->m * x->halves_stride;
    if (p->m <= ROWS_STREAMED) {
        q->kern->matmul_mxfp8(&rows, count, p->m, halves, x->halves_stride, y, y_stride);
    } else {
        q->kern->unpack_mxfp8(&rows, count, scratch);
        q->kern->matmul_bf16(p->m, count, p->k, halves, x->halves_stride, scratch, p->k, y,
                             y_stride);
    }
}

bool mc_quant_is_paired(const mk_kernels *kern, const mc_attr_quant *attr) {
    return attr->fast && attr->transpose && attr->mode == MICA_QUANT_MXFP8 && kern->bf16_matmul;
}

bool mc_quant_set_paired(mc_quant_matmul *q) {
    if (!mc_quant_is_paired(q->kern, q->p.call->attr)) return false;
    mc_matmul *p = &q->p;
    p->form = (mc_form){.kind = MC_FORM_BF16};
    p->tile = TILE;
    p->columns = run_columns;
    p->runs = p->m <= ROWS_STREAMED;
    if (!p->runs) p->scratch_bytes = (size_t)(TILE * p->k) * sizeof(uint16_t);
    return true;
}
