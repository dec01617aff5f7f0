#include "cpu/quant.h"

#include "cpu/rows.h"

mk_qrows mc_quant_weights(const mc_quant_matmul *q, int64_t batch, int64_t first) {
    mk_qrows w = mk_qrows_further(q->w, mc_row_offset(&q->codes, q->codes.ndim - 2, batch),
                                  mc_row_offset(&q->scales, q->scales.ndim - 2, batch));
    return mk_qrows_at(&w, first);
}

mica_status mc_quant_describe_rows(const mc_call *call, int first, mk_qrows *w) {
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
    const mc_layout *b = w->biases ? biases->layout : sc;
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

mica_status mc_quant_describe(const mc_call *call, mc_quant_matmul *q) {
    const mc_layout *out = call->out.layout, *codes = call->in[MC_QUANT_CODES].layout;
    const mc_attr_quant *attr = call->attr;
    *q = (mc_quant_matmul){.kern = mc_cpu_of(call)->kern, .transpose = attr->transpose != 0};
    mc_matmul_init(&q->p, call, codes->ndim > 2);
    MC_TRY(mc_quant_describe_rows(call, MC_QUANT_CODES, &q->w));
    q->codes = mc_matmul_spread(codes, out);
    q->scales = mc_matmul_spread(call->in[MC_QUANT_SCALES].layout, out);
    return MICA_OK;
}
