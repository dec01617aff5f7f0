/* Convolutions as sums over rows of x that lie anywhere in memory: nothing is gathered. A sum adds
 * its terms one by one, in the order of the taps, each step rounded once where the machine can
 * (fma), and is stored after its epilogue (kern.h).
 *
 * conv_pack:   w [n, k] as panels of MK_PANEL columns: [ceil(n / MK_PANEL), k, MK_PANEL], zeros
 *              behind the last column.
 * conv_panels: y[i, j] = from[i, j] + sum_t sum_l rows[i * apart + t][first + l] * w[j, t * c + l];
 *              y [m, n], of panels with k = taps * c. A sum of parts, the one from the other, has
 *              the bits of the whole one.
 * conv_taps:   y[i, j] = sum_t rows[i * taps + t][j] * w[t * n + j]: a filter for each channel.
 *
 * Filters of 3 x 3 by Winograd's F(2 x 2, 3 x 3): a tile of 2 x 2 results is computed of one of
 * 4 x 4 elements of x, d, by 16 products in place of 36. G g G^T is a filter's, 16 numbers.
 * conv_tile_in:  v = B^T d B of each of n channels; rows [16] of d, element by element; v [16, n],
 *                v_stride apart.
 * conv_tile_out: y = A^T m A of n channels, m [16, n], m_stride apart. Result i of the 2 x 2 is row
 *                at[i] of y, and of what the epilogue adds; -1: it is none.
 *                B^T = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1], A^T = [1 1 1 0; 0 1 -1 -1],
 *                G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1].
 *
 * y is no row of x. */
KERN(conv_pack, void, (int64_t n, int64_t k, const float *w, int64_t w_stride, float *panels))
KERN(conv_panels, void,
     (int64_t m, int64_t n, const mk_terms *terms, const float *const *rows, const float *panels,
      const mk_epilogue *end, float *y, int64_t y_stride))
KERN(conv_taps, void,
     (int64_t m, int64_t n, int64_t taps, const float *const *rows, const float *w,
      const mk_epilogue *end, float *y, int64_t y_stride))
KERN(conv_tile_in, void, (int64_t n, const float *const *rows, float *v, int64_t v_stride))
KERN(conv_tile_out, void,
     (int64_t n, const float *m, int64_t m_stride, const mk_epilogue *end, const int64_t *at,
      float *y, int64_t y_stride))
