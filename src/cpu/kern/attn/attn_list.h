/* Attention: products with keys and values in bf16, and the softmax between them.
 *
 * attn_scores:  y[i, j] = sum_l q[i, l] k[j, l]; q [m, d], k [n, d], y [m, n] f32, d even. In which
 *               order is the machine's affair. Where `words` (kern.h) says so, an element is
 *               rounded as far as 2^-12 of the largest of MK_WORDS_PART of its row, or of 2^-111,
 *               and a row that is not finite there, or has numbers above 2^109, may have scores of
 *               NaN.
 * attn_values:  y[i, c] += sum_j w[i, j] v[j, c]; w [m, n], v [n, dv], y [m, dv] f32. j in rising
 *               order from 0, values_together at a time: a row has the same bits in one call or in
 *               several, if n is a multiple of that in all but the last, and finite keys of weight
 *               0 change nothing (but for sums that are subnormal or -0, and the bits of NaN).
 *               Where `words` says so, of values_together keys that all count weights are rounded
 *               as far as 2^-12 of a row's largest, and values as far as 2^-14 of a column's; one
 *               that is not finite makes NaN of what it meets.
 * attn_scores_q8: as attn_scores over rows of 8 bits (kern.h), strides in bytes. A group's sum is a
 *               whole number, groups in rising order.
 * attn_values_q8: as attn_values for f32 w over rows of 8 bits, v_stride bytes apart, from a
 *               group's first column on: its codes, its scale. Where q8_direct says so, with the
 *               bits of matmul_nn over widened rows.
 * attn_values_q8_bf16: attn_values over such rows, each element rounded to bf16: its bits, if no
 *               scale is subnormal.
 * scale_max:   x[i] *= scale; returns the largest, -infinity where n is 0 or all are NaN.
 * exp_total:    x[i] = exp(x[i] - shift), within 4 units in the last place, below -87 flushed to 0,
 *               and the same bits wherever it stands; shift is finite and no x above it. Returns
 *               the sum, of which each term was rounded to a multiple of 2^-24: integers, so that
 *               no order can be told from the result. What it returns for NaN is not said.
 * exp_total_bf16: the same, but within 2^-17 of exp before it is rounded to bf16 in w; summed as
 *               rounded; w may begin where x does, or before. */
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
