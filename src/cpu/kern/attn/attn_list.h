/* Attention: queries times keys, the softmax, and weights times values. Keys and values are bf16 or
 * q8 rows (8 bits, kern.h).
 *
 * attn_scores:  y[i, j] = sum_l q[i, l] k[j, l]; q [m, d], k [n, d], y [m, n] f32, d even. The
 *               order of the sum depends on the instruction set. If `int16` (kern.h) is set, an
 *               element is rounded by up to 2^-12 of the largest of MK_INT16_PART of its row, or of
 *               2^-111. A row that has an infinity, NaN, or numbers above 2^109 there may have
 *               scores of NaN.
 * attn_values:  y[i, c] += sum_j w[i, j] v[j, c]; w [m, n], v [n, dv], y [m, dv] f32. j rises from
 *               0, values_together keys at a time. So a row has the same bits in one call or in
 *               several, if n is a multiple of values_together in all but the last. Keys of weight
 *               0 with finite values change nothing, except sums that are subnormal or -0, and the
 *               bits of NaN. If `int16` is set, values_together keys without a weight of 0 are
 *               rounded: weights by up to 2^-12 of a row's largest, values by up to 2^-14 of a
 *               column's. An infinity or NaN among them gives NaN.
 * attn_scores_q8: as attn_scores over q8 rows, strides in bytes. A group's sum is an integer;
 *               groups are added in rising order.
 * attn_values_q8: as attn_values for f32 w over q8 rows, v_stride bytes apart. v points to the
 *               codes of a group's first column, scales to its scale. If q8_direct is set, it gives
 *               the bits of matmul_nn over widened rows.
 * attn_values_q8_bf16: as attn_values over q8 rows, each element rounded to bf16: the same bits, if
 *               no scale is subnormal.
 * scale_max:    x[i] *= scale; returns the largest, -infinity if n is 0 or all are NaN.
 * exp_total:    x[i] = exp(x[i] - shift) within 4 units in the last place, below -87 flushed to 0.
 *               The bits do not depend on i. shift is finite, and no x is above it. Returns the sum
 *               of the results, each rounded to a multiple of 2^-24: a sum of integers, so it does
 *               not depend on the order. With NaN the sum is undefined.
 * exp_total_bf16: as exp_total, but within 2^-17 of exp, then rounded to bf16 in w. The sum is of
 *               the rounded numbers. w may begin at x or before it. */
KERN(attn_scores, void,
     (int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride, const uint16_t *k,
      int64_t k_stride, float *y, int64_t y_stride))
KERN(attn_values, void,
     (int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride, const uint16_t *v,
      int64_t v_stride, float *y, int64_t y_stride))
KERN(attn_scores_q8, void,
     (int64_t m, int64_t n, int64_t d, const uint8_t *q, int64_t q_stride, const uint8_t *k,
      int64_t k_stride, float *y, int64_t y_stride))
KERN(attn_values_q8, void,
     (int64_t m, int64_t n, int64_t dv, const float *w, int64_t w_stride, const uint8_t *codes,
      const uint8_t *scales, int64_t v_stride, float *y, int64_t y_stride))
KERN(attn_values_q8_bf16, void,
     (int64_t m, int64_t n, int64_t dv, const uint16_t *w, int64_t w_stride, const uint8_t *codes,
      const uint8_t *scales, int64_t v_stride, float *y, int64_t y_stride))
KERN(scale_max, float, (int64_t n, float *x, float scale))
KERN(exp_total, float, (int64_t n, float *x, float shift))
KERN(exp_total_bf16, float, (int64_t n, const float *x, float shift, uint16_t *w))
