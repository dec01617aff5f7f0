/* Matmuls of quantised rows with f32 activations.
 *
 * unpack: n rows of any mode to f32 [n, k], in their natural order.
 * matvec: y[n] = w [n, k] x [k] for any mode: the bits of matmul_nt over unpacked rows.
 *
 * Affine rows of 4 and of 8 bits, groups of 32, 64, 128. An instruction set chooses the order of
 * elements within blocks of 32. arrange_q* puts a row of activations in that order, and the other
 * two work in it. The three kernels of a width are overlaid together.
 *
 * arrange_q*: y[k] = x[k] in the kernel's order; k a multiple of 32; y is not x.
 * matvec_q*:  y[n] = w [n, k] times an arranged x [k].
 * unpack_q*:  n rows to f32 [n, k] in the kernel's order: matmul_nt over these and an arranged x
 *             has the bits of matvec_q*.
 *
 * mxfp8 with activations in bf16, where pairs of bf16 multiply faster (bf16_matmul). A code times
 * its scale is a bf16. Scales are limited to 2^-100 .. 2^100. A row of weights with a NaN in it is
 * NaN.
 *
 * unpack_mxfp8: n rows to bf16 [n, k].
 * matmul_mxfp8: y[m, n] = x [m, k] w [n, k]^T, made for small m: the bits of matmul_bf16 over
 *               unpacked rows. */
KERN(unpack, void, (const mk_qrows *w, int64_t n, float *y))
KERN(matvec, void, (const mk_qrows *w, int64_t n, const float *x, float *y))
KERN(arrange_q4, void, (int64_t k, const float *x, float *y))
KERN(matvec_q4, void, (const mk_qrows *w, int64_t n, const float *x, float *y))
KERN(unpack_q4, void, (const mk_qrows *w, int64_t n, float *y))
KERN(arrange_q8, void, (int64_t k, const float *x, float *y))
KERN(matvec_q8, void, (const mk_qrows *w, int64_t n, const float *x, float *y))
KERN(unpack_q8, void, (const mk_qrows *w, int64_t n, float *y))
KERN(unpack_mxfp8, void, (const mk_qrows *w, int64_t n, uint16_t *y))
KERN(matmul_mxfp8, void,
     (const mk_qrows *w, int64_t n, int64_t m, const uint16_t *x, int64_t x_stride, float *y,
      int64_t y_stride))
