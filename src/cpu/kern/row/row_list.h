/* Kernels over a row of activations. They give the same bits on every instruction set. y may be x,
 * unless it says otherwise, but may not partly overlap it.
 *
 * silu, gelu_approx, tanh: y[i] = f(x[i]), to a few units in the last place (vmath.h).
 * rms_norm:  y[i] = x[i] * f * weight[i], f = 1 / sqrt(mean x^2 + eps); sums in f64. weight may be
 *            NULL.
 * norm_gradient: y[i] = f * (g[i] - x[i] * f^2 mean(g x)), f as in rms_norm; sums in f64. y may be
 *            g, too.
 * rope:      rotates pairs x[i], x[half + i]. table has the cosines of their angles in [0, half),
 *            then the sines. y is not x.
 * largest:   the largest of x; NaN if any is NaN, -infinity if n is 0.
 * narrow_q8: quantises n > 0 numbers to a q8 row of mk_q8_bytes(n) bytes (kern.h).
 * widen_q8:  n codes and their scales, the first code's first, to f32: exact. */
KERN(silu, void, (int64_t n, const float *x, float *y))
KERN(gelu_approx, void, (int64_t n, const float *x, float *y))
KERN(tanh, void, (int64_t n, const float *x, float *y))
KERN(rms_norm, void, (int64_t n, const float *x, const float *weight, double eps, float *y))
KERN(norm_gradient, void, (int64_t n, const float *x, const float *g, double eps, float *y))
KERN(rope, void, (int64_t half, const float *table, const float *x, float *y))
KERN(largest, float, (int64_t n, const float *x))
KERN(narrow_q8, void, (int64_t n, const float *x, uint8_t *row))
KERN(widen_q8, void, (int64_t n, const uint8_t *codes, const uint8_t *scales, float *y))
