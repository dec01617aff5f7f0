/* Layers by their weights as MLX's modules hold them: compositions. */
#include <mica/nn.h>

#include "op/build.h"

/* x [.., K] with two axes at least, which the quantised product wants. */
static mica_array quantised_product(mica_scope *s, mica_array x, const mica_linear_weights *w) {
    bool row = mica_valid(x) && mica_array_ndim(x) == 1;
    if (row) x = mica_expand_dims(s, x, 0);
    mica_array y = mica_quantized_matmul(s, x, w->weight, w->scales, w->biases, w->quant, true);
    return row ? mica_squeeze(s, y, 0) : y;
}

mica_array mica_linear(mica_scope *s, mica_array x, const mica_linear_weights *w) {
    mica_array y;
    if (!w) return mc_scope_fail(s, MICA_EINVAL, "linear: the weights are NULL");
    if (w->scales.scope)
        y = quantised_product(s, x, w);
    else
        y = mica_matmul(s, x, mica_transpose(s, w->weight, NULL));
    return w->bias.scope ? mica_add(s, y, w->bias) : y;
}

mica_array mica_embedding(mica_scope *s, mica_array ids, const mica_linear_weights *w) {
    if (!w) return mc_scope_fail(s, MICA_EINVAL, "embedding: the weights are NULL");
    mica_array rows = mica_take(s, w->weight, ids, 0), biases = MICA_NONE;
    if (!w->scales.scope) return rows;
    if (w->biases.scope) biases = mica_take(s, w->biases, ids, 0);
    return mica_dequantize(s, rows, mica_take(s, w->scales, ids, 0), biases, w->quant, MICA_F32);
}
