/* Rows of activations, element by element: the same bits on every instruction set. y may be x, but
 * not overlap it otherwise.
 *
 * silu, gelu_approx, tanh: y[i] = f(x[i]), to a few units in the last place (vmath.h).
 * rms_norm: y[i] = x[i] * f * weight[i], f = 1 / sqrt(mean x^2 + eps); sums in f64. weight may be
 *           NULL.
 * rope:     of pairs x[i], x[half + i] by angles whose cosines are table[0, half), and whose sines
 *           are behind them. y is not x.
 * largest:  of x; NaN where any of them is, -infinity where there are none.
 * narrow_q8: n > 0 numbers to a row of 8 bits, mk_q8_bytes(n) of them (kern.h).
 * widen_q8: n codes and their scales, of which the first is the first code's, to f32: exact. */
KERN(silu, void, (int64_t n, const float *x, float *y))
KERN(gelu_approx, void, (int64_t n, const float *x, float *y))
KERN(tanh, void, (int64_t n, const float *x, float *y))
KERN(rms_norm, void, (int64_t n, const float *x, const float *weight, double eps, float *y))
KERN(rope, void, (int64_t half, const float *table, const float *x, float *y))
KERN(largest, float, (int64_t n, const float *x))
KERN(narrow_q8, void, (int64_t n, const float *x, uint8_t *row))
KERN(widen_q8, void, (int64_t n, const uint8_t *codes, const uint8_t *scales, float *y))
