#include "cpu/quant.h"

#include "cpu/rows.h"

mk_qrows mc_quant_weights(const mc_quant_matmul *q, int64_t batch, int64_t first) {
    mk_qrows w = mk_qrows_further(q->w, mc_row_offset(&q->codes, q->codes.ndim - 2, batch),
                                  mc_row_offset(&q->scales, q->scales.ndim - 2, batch));
    return mk_qrows_at(&w, first);
}

/* Whether the last axis is contiguous. */
static bool has_whole_rows(const mc_layout *l) {
    return l->ndim == 0 || l->strides[l->ndim - 1] == 1 || l->shape[l->ndim - 1] == 1;
}

uint32_t mc_quant_dense_operands(const mc_layout *const *in, int n_in, int first) {
    const mc_layout *codes = in[first], *scales = in[first + 1];
    const mc_layout *biases = first + 2 < n_in ? in[first + 2] : NULL;
    uint32_t codes_bit = UINT32_C(1) << first, scales_bit = codes_bit << 1;
    uint32_t dense = has_whole_rows(codes) ? 0 : codes_bit;
    bool alike = has_whole_rows(scales);
    for (int i = 0; biases && i < scales->ndim; i++)
        if (biases->shape[i] != 1 && biases->strides[i] != scales->strides[i]) alike = false;
    return alike ? dense : dense | scales_bit | (biases ? scales_bit << 1 : 0);
}

void mc_quant_describe_rows(const mc_call *call, int first, mk_qrows *w) {
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
        .biases = biases ? biases->data : NULL,
        .type = mc_mk_type(scales->layout->dtype),
        .mode = modes[attr->mode],
        .bits = (int)attr->bits,
        .group = (int)attr->group_size,
    };
    const mc_layout *c = codes->layout, *sc = scales->layout;
    int last = c->ndim - 1;
    w->k = c->shape[last] * 32 / attr->bits;
    w->codes_stride = last > 0 ? c->strides[last - 1] : 0;
    w->scales_stride = last > 0 ? sc->strides[last - 1] : 0;
}

static void describe_weights(const mc_call *call, mc_quant_matmul *q) {
    const mc_attr_quant *attr = call->attr;
    q->kern = mc_cpu_of(call)->kern;
    q->transpose = attr->transpose != 0;
    mc_quant_describe_rows(call, MC_QUANT_CODES, &q->w);
}

void mc_quant_describe(const mc_call *call, mc_quant_matmul *q) {
    const mc_layout *out = call->out.layout, *codes = call->in[MC_QUANT_CODES].layout;
    mc_matmul_init(&q->p, call, codes->ndim > 2);
    q->codes = mc_matmul_spread(codes, out);
    q->scales = mc_matmul_spread(call->in[MC_QUANT_SCALES].layout, out);
    describe_weights(call, q);
}

void mc_quant_describe_picked(const mc_call *call, int64_t m, mc_quant_matmul *q) {
    mc_matmul_init_picked(&q->p, call, m);
    q->codes = *call->in[MC_QUANT_CODES].layout;
    q->scales = *call->in[MC_QUANT_SCALES].layout;
    describe_weights(call, q);
}
