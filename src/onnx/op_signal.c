/* Fourier transforms: DFT, STFT. Complex numbers are pairs along the last axis. */
#include "onnx/import.h"

#include "graph/dim.h"
#include "op/window.h"

#include <mica/ops.h>

/* [.., 1] as f32 [..], [.., 2] as c64 [..] */
static mica_status from_pairs(mc_onnx_node *n, mica_array x, mica_array *y) {
    int64_t parts = mica_array_ndim(x) > 1 ? mica_array_dim(x, -1) : 0;
    if (parts != 1 && parts != 2) return mc_fail(MICA_ESHAPE, "its operand has no parts");
    x = mica_astype(n->s, x, MICA_F32);
    mica_array re = mica_squeeze(n->s, mica_slice_axis(n->s, x, -1, 0, 1), -1);
    *y = re;
    if (parts == 2)
        *y = mica_complex(n->s, re, mica_squeeze(n->s, mica_slice_axis(n->s, x, -1, 1, 2), -1));
    return mica_scope_status(n->s);
}

static mica_array to_pairs(mica_scope *s, mica_array x) {
    return mica_stack(s, (mica_array[]){mica_real(s, x), mica_imag(s, x)}, 2, -1);
}

mica_status mc_onnx_dft(mc_onnx_node *n) {
    mica_array x;
    mica_dtype dtype = mica_array_dtype(n->in[0].x);
    int64_t length = 0, axis = mc_onnx_int(n, "axis", n->import->opset < 20 ? 1 : -2);
    int count, at, ndim = mica_array_ndim(n->in[0].x);
    bool inverse = mc_onnx_int(n, "inverse", 0) != 0, half = mc_onnx_int(n, "onesided", 0) != 0;
    MC_TRY(from_pairs(n, n->in[0].x, &x));
    MC_TRY(mc_onnx_operand_dims(n, 1, 1, &length, &count));
    if (count == 0) return mc_fail(MICA_EFORMAT, "its length is no number");
    bool given = count == 1;
    int64_t from;
    MC_TRY(mc_onnx_operand_ints(n, 2, 1, &from, &count));
    if (count == 1) axis = from;
    if (axis < 0) axis += ndim;
    if (axis < 0 || axis >= ndim - 1) return mc_fail(MICA_EFORMAT, "it has no such axis");
    at = (int)axis;
    if (given && !mc_dim_has_symbols(length) && length < 1)
        return mc_fail(MICA_EFORMAT, "its length is out of range");
    if (!given) length = mica_array_dim(x, at);
    if (!given && inverse && half) length = mc_dim_mul(2, mc_dim_sub(length, 1));
    if (!mc_dim_has_symbols(length) && length < 1)
        return mc_fail(MICA_ESHAPE, "its axis is too short");
    if (inverse && half) {
        x = mica_irfft(n->s, x, length, at, MICA_FFT_BACKWARD);
        return mc_onnx_give(n, 0, mica_astype(n->s, mica_expand_dims(n->s, x, -1), dtype));
    }
    bool real = mica_array_dtype(x) == MICA_F32;
    if (half && !real) return mc_onnx_refuse("one side of complex numbers");
    mica_array y = inverse ? mica_ifft(n->s, x, length, at, MICA_FFT_BACKWARD)
                   : half  ? mica_rfft(n->s, x, length, at, MICA_FFT_BACKWARD)
                           : mica_fft(n->s, x, length, at, MICA_FFT_BACKWARD);
    return mc_onnx_give(n, 0, mica_astype(n->s, to_pairs(n->s, y), dtype));
}

/* signal [B, T, 1 or 2], frame_step, window, frame_length: [B, frames, frequencies, 2] */
mica_status mc_onnx_stft(mc_onnx_node *n) {
    mica_array x, window = mc_onnx_x(n, 2);
    mica_dtype dtype = mica_array_dtype(n->in[0].x);
    int64_t step, length = 0;
    int n_step, n_length;
    bool half = mc_onnx_int(n, "onesided", 1) != 0;
    MC_TRY(from_pairs(n, n->in[0].x, &x));
    MC_TRY(mc_onnx_operand_ints(n, 1, 1, &step, &n_step));
    MC_TRY(mc_onnx_operand_ints(n, 3, 1, &length, &n_length));
    if (n_length < 0 && window.scope) length = mica_array_size(window);
    int64_t total = mica_array_ndim(x) == 2 ? mica_array_dim(x, 1) : 0;
    if (n_step != 1 || step < 1 || length < 1 || mc_dim_less(total, length) ||
        (window.scope && (mica_array_ndim(window) != 1 || mica_array_size(window) != length)))
        return mc_fail(MICA_ESHAPE, "its frames do not fit its operand");
    const mc_window frames = {total, length, step, 1, 1, 0, 0};
    mica_array y = mc_window_view(n->s, x, &frames, 1, 1);
    if (window.scope) y = mica_multiply(n->s, y, mica_astype(n->s, window, MICA_F32));
    bool real = mica_array_dtype(x) == MICA_F32;
    if (half && !real) return mc_onnx_refuse("one side of complex numbers");
    y = half ? mica_rfft(n->s, y, length, -1, MICA_FFT_BACKWARD)
             : mica_fft(n->s, y, length, -1, MICA_FFT_BACKWARD);
    return mc_onnx_give(n, 0, mica_astype(n->s, to_pairs(n->s, y), dtype));
}
