/* Products of integers: unsigned activations and signed weights of 8 bits, exact sums in i32, which
 * wrap around.
 *
 * int_matmul: y[i, j] = sum_l x[i, l] * w[j, l]; x [m, k], w [n, k], y [m, n]: for few rows.
 * int_form:   n numbers of x as words of int_unit each, zeros behind the last: what int_panels
 *             reads. Where int_unit is 4 these are the bytes themselves.
 * int_pack:   w [n, taps, c] as panels of MK_PANEL columns: [ceil(n / MK_PANEL), taps, words,
 *             MK_PANEL], a word as in int_form; zeros behind the last column.
 * int_panels: y[i, j] = start[j] + sum_t sum_l rows[i * taps + t][l] * w[j, t, l] over `words`
 *             words of each row, of panels; y [m, n] with n a multiple of MK_PANEL. start NULL: 0.
 *             Rows may lie at any address where int_unit is 4, at even ones where it is 2.
 * int_pack_taps: w [n, lines, width], a filter for each channel, in the order of int_taps:
 *             mk_taps_bytes of them.
 * int_taps:   y[i, j - begin] = start[j] + sum_t rows[i * taps + t][j] * w[j, t] for j from begin
 *             to before end, over the taps of `filters` [lines, width]; y [m, end - begin]. begin
 *             is a multiple of 16, and behind a row of y, and behind start, there is memory to
 *             the next one, which may be written.
 * int_scale:  y[i] = (float)x[i] * scale[i * step] + bias[i], each operation rounded. step 0 or 1.
 *             bias may be NULL: nothing is added.
 * int_round:  y [m, n] of 8 bits: what int_scale gives of each row of x, as `to` says
 *             (mk_int_rounding).
 * int_from_f32: y [n] of 8 bits: x rounded towards zero, saturated; 0 where it is NaN. */
KERN(int_matmul, void,
     (int64_t m, int64_t n, int64_t k, const uint8_t *x, int64_t x_stride, const int8_t *w,
      int64_t w_stride, int32_t *y, int64_t y_stride))
KERN(int_form, void, (int64_t n, const uint8_t *x, int32_t *words))
KERN(int_pack, void, (int64_t n, int64_t taps, int64_t c, const int8_t *w, int32_t *panels))
KERN(int_panels, void,
     (int64_t m, int64_t n, int64_t taps, int64_t words, const void *const *rows,
      const int32_t *panels, const int32_t *start, int32_t *y, int64_t y_stride))
KERN(int_pack_taps, void,
     (int64_t n, int64_t lines, int64_t width, const int8_t *w, int8_t *filters))
KERN(int_taps, void,
     (int64_t m, const uint8_t *const *rows, const mk_taps *filters, int64_t begin, int64_t end,
      int32_t *y, int64_t y_stride))
KERN(int_scale, void,
     (int64_t n, const int32_t *x, const float *scale, int64_t step, const float *bias, float *y))
KERN(int_round, void,
     (int64_t m, int64_t n, const int32_t *x, int64_t x_stride, const mk_int_rounding *to,
      uint8_t *y, int64_t y_stride))
KERN(int_from_f32, void, (int64_t n, bool is_signed, const float *x, void *y))
