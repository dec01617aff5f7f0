/* Normalisations and RoPE: MLX's fused calls. */
#include "mlx/emit.h"

/* in[k] in f32 where MLX would round in between: on its CPU, and where the dtypes differ. Where x
 * is narrow, of its dtype. */
static mlx_array operand(mc_mlx_call *c, int k) {
    if (k >= c->n_in || !c->in[k].ctx) return (mlx_array){0};
    if (c->narrow) return mc_mlx_in(c, k, mc_mlx_half(c->in[0]));
    bool wide = c->on_cpu || c->from[k]->dtype != c->to->dtype;
    return wide ? mc_mlx_in(c, k, MICA_F32) : c->in[k];
}

void mc_mlx_emit_rms_norm(mc_mlx_call *c) {
    const mc_attr_norm *a = c->attr;
    mlx_array y = {0};
    int failed = mc_mlx.fast_rms_norm(&y, operand(c, 0), operand(c, 1), (float)a->eps, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_layer_norm(mc_mlx_call *c) {
    const mc_attr_norm *a = c->attr;
    mlx_array y = {0};
    int failed = mc_mlx.fast_layer_norm(&y, operand(c, 0), operand(c, 1), operand(c, 2),
                                        (float)a->eps, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

bool mc_mlx_supports_rope(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                          int n_in, const mc_layout *out) {
    (void)place, (void)attr, (void)n_in, (void)out;
    return !in || in[0]->ndim > 2 || in[1]->ndim == 0;
}

/* MLX wants three axes: [B, L, D], or with the axis in between that all positions are on. */
void mc_mlx_emit_rope(mc_mlx_call *c) {
    const mc_attr_rope *a = c->attr;
    const mc_layout *x = c->from[0];
    const mlx_optional_float base = {(float)a->base, !c->in[2].ctx};
    mlx_array y = {0}, in = operand(c, 0);
    const int64_t shape[3] = {1, x->shape[0], x->shape[1]};
    if (x->shape[x->ndim - 2] > 1) in = mc_mlx_dense(c, in); /* it reads broadcast rows wrongly */
    if (x->ndim == 2) in = mc_mlx_reshape(c, in, shape, 3);
    int failed = mc_mlx.fast_rope_dynamic(&y, in, (int)a->dims, a->traditional != 0, base,
                                          (float)a->scale, c->in[1], c->in[2], c->stream);
    y = mc_mlx_keep(c, failed, y);
    mc_mlx_give(c, 0, x->ndim == 2 ? mc_mlx_reshape(c, y, x->shape, 2) : y);
}
