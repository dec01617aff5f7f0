/* Matmuls of quantised weights and activations x with integer dot products: affine weights of any
 * width, mxfp4 and nvfp4. docs/speed/int8.md has these names beside those of the literature.
 *
 * x is quantised a group at a time: codes c_i = x_i / s rounded to nearest even, for weights of 5
 * bits and more with s = max |x_i| / 127. For those of 4 bits or fewer a code of x plus one of a
 * weight stays below 128: the largest |x_i| is near code -128, for which s may be below 0, and
 * codes of the other sign end at 127 less the largest code of weights (15 for 4 bits, 24 for mxfp4
 * and nvfp4), s growing where it must. With d_g = sum q_i c_i over a group, an exact integer (the
 * accumulator), an element of the result is
 *
 *     y = 0; for g in rising order: y = fma(d_g, scale_g * s_g, y); y = fma(bias_g, sum_g, y)
 *
 * where sum_g = s_g * (sum of c_i): the bias meets x as it was quantised, so that the error of a
 * code weighs as much as the weight it meets, not as much as the weight's distance from the bias.
 * That order is all there is to round: every instruction set gives the same bits, and so do the
 * ways through matvec and through tiles. A group with an element that is not finite gives NaN.
 *
 * Where codes of weights have 4 bits, each 8 codes of x are in the order 0 2 4 6 1 3 5 7, else in
 * their own; so are the codes of tiles.
 *
 * Winograd tiles, of weights of 4 bits or fewer, need half the multiplications (Winograd, A new
 * algorithm for inner product, 1968). Words of four codes come in pairs, w_e and w_o with x_e and
 * x_o:
 *
 *     w_e x_e + w_o x_o = (x_e + 128 + w_o) (x_o + w_e) - (x_e + 128) x_o - w_e (w_o + 128)
 *
 * where the last two are sums over x alone (winograd) and over w alone (offsets, below 0). Sums of
 * codes are an unsigned and a signed byte, exact; so are all others, and d_g is the same number.
 * They have w_o + 128 for w_o.
 *
 * int8_quantize: rows of x to y. max: the largest code of the weights that y is going to meet.
 * int8_matvec:   y[m, n] = x [m, k] w [n, k]^T from packed rows, made for small m.
 * int8_pack:     n rows to (n - 1) / MK_TILE + 1 tiles; rows from n on are 0. Sets tiles->max, and
 *                tiles->winograd to false where it was true and cannot be had.
 * int8_matmul:   y[m, n] = x [m, k] times the first n rows of tiles. */
KERN(int8_quantize, void, (int64_t m, const float *x, int64_t x_stride, int max, const mk_xrows *y))
KERN(int8_matvec, void,
     (const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y, int64_t y_stride))
KERN(int8_pack, void, (const mk_qrows *w, int64_t n, mk_tiles *tiles))
KERN(int8_matmul, void,
     (int64_t m, const mk_xrows *x, int64_t n, const mk_tiles *tiles, float *y, int64_t y_stride))
