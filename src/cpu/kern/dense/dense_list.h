/* Matmuls of dense rows.
 *
 * matmul_nt: y[i, j] = sum_l x[i, l] * w[j, l]; x [m, k], w [n, k], y [m, n]: dot products.
 * matmul_nt_f16, matmul_nt_bf16: the same for 16-bit w, made for small m; bits as matmul_nt over
 *            widened w.
 * matmul_bf16: the same where both are bf16, for machines that multiply pairs of bf16 faster
 *            (bf16_matmul). The rounding of a pair is the machine's.
 * matmul_nn: y[i, j] += sum_l x[i, l] * w[l, j]; x [m, k], w [k, n], l in rising order, each step
 *            rounded once where the machine can (fma).
 * matmul_nn_f16, matmul_nn_bf16: the same for 16-bit w, made for small m; bits as matmul_nn over
 *            widened w.
 * widen_*:   n elements to f32, exact. narrow_*: to nearest even; NaN stays NaN. */
KERN(matmul_nt, void,
     (int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride, const float *w,
      int64_t w_stride, float *y, int64_t y_stride))
KERN(matmul_nt_f16, void,
     (int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride, const uint16_t *w,
      int64_t w_stride, float *y, int64_t y_stride))
KERN(matmul_nt_bf16, void,
     (int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride, const uint16_t *w,
      int64_t w_stride, float *y, int64_t y_stride))
KERN(matmul_bf16, void,
     (int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride, const uint16_t *w,
      int64_t w_stride, float *y, int64_t y_stride))
KERN(matmul_nn, void,
     (int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride, const float *w,
      int64_t w_stride, float *y, int64_t y_stride))
KERN(matmul_nn_f16, void,
     (int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride, const uint16_t *w,
      int64_t w_stride, float *y, int64_t y_stride))
KERN(matmul_nn_bf16, void,
     (int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride, const uint16_t *w,
      int64_t w_stride, float *y, int64_t y_stride))
KERN(widen_f16, void, (int64_t n, const uint16_t *x, float *y))
KERN(widen_bf16, void, (int64_t n, const uint16_t *x, float *y))
KERN(narrow_f16, void, (int64_t n, const float *x, uint16_t *y))
KERN(narrow_bf16, void, (int64_t n, const float *x, uint16_t *y))
