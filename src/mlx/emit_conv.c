/* Convolutions, and Fourier transforms. */
#include "mlx/emit.h"

/* MLX has no groups over three axes, and gives wrong numbers for groups with zeros between the
 * elements of x. Where nothing is left to compute it refuses, and so it does where padding that is
 * negative leaves less than nothing. */
bool mc_mlx_supports_conv(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                          int n_in, const mc_layout *out) {
    (void)place, (void)n_in;
    const mc_attr_conv *a = attr;
    if (!a) return true;
    bool dilated = false;
    for (int k = 0; k < a->spatial; k++) {
        if (a->padding_lo[k] < 0 || a->padding_hi[k] < 0) return false;
        dilated |= a->input_dilation[k] > 1;
    }
    bool empty = mc_layout_size(in[0]) == 0 || mc_layout_size(in[1]) == 0;
    if (empty || mc_layout_size(out) == 0) return false;
    return a->groups == 1 || (a->spatial < 3 && !dilated);
}

static void as_ints(const int64_t from[3], int to[3]) {
    for (int k = 0; k < 3; k++)
        to[k] = (int)from[k];
}

/* MLX's CPU adds up in the operands' dtype, so that is f32 there. */
void mc_mlx_emit_conv(mc_mlx_call *c) {
    const mc_attr_conv *a = c->attr;
    mica_dtype dtype = c->on_cpu ? MICA_F32 : c->to->dtype;
    size_t n = (size_t)a->spatial;
    int stride[3], lo[3], hi[3], kernel[3], input[3];
    as_ints(a->stride, stride);
    as_ints(a->padding_lo, lo);
    as_ints(a->padding_hi, hi);
    as_ints(a->kernel_dilation, kernel);
    as_ints(a->input_dilation, input);
    c->narrow = dtype != c->to->dtype;
    mlx_array x = mc_mlx_in(c, 0, dtype), w = mc_mlx_in(c, 1, dtype), y = {0};
    int failed = mc_mlx.conv_general(&y, x, w, stride, n, lo, n, hi, n, kernel, n, input, n,
                                     (int)a->groups, a->flip != 0, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

/* Rows of pairs [..., n, 2] f32, seen as complex numbers. No scale in either direction. */
void mc_mlx_emit_fft(mc_mlx_call *c) {
    const mc_attr_fft *a = c->attr;
    const mc_layout *x = c->from[0];
    const mlx_fft_norm norm = a->inverse != 0 ? MLX_FFT_NORM_FORWARD : MLX_FFT_NORM_BACKWARD;
    mlx_array y = {0}, z = {0}, pairs = {0}, in = {0};
    int n = (int)x->shape[x->ndim - 2];
    int failed = mc_mlx.contiguous(&in, mc_mlx_in(c, 0, MICA_F32), false, c->stream);
    in = mc_mlx_keep(c, failed, in);
    failed = mc_mlx.view(&y, in, MLX_COMPLEX64, c->stream);
    y = mc_mlx_keep(c, failed, y);
    y = mc_mlx_reshape(c, y, x->shape, x->ndim - 1);
    failed = a->inverse != 0 ? mc_mlx.fft_ifft(&z, y, n, -1, norm, c->stream)
                             : mc_mlx.fft_fft(&z, y, n, -1, norm, c->stream);
    z = mc_mlx_keep(c, failed, z);
    failed = mc_mlx.view(&pairs, z, MLX_FLOAT32, c->stream);
    pairs = mc_mlx_keep(c, failed, pairs);
    mc_mlx_give(c, 0, mc_mlx_reshape(c, pairs, x->shape, x->ndim));
}
