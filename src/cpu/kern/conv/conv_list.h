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
 * y is no row of x. */
KERN(conv_pack, void, (int64_t n, int64_t k, const float *w, int64_t w_stride, float *panels))
KERN(conv_panels, void,
     (int64_t m, int64_t n, const mk_terms *terms, const float *const *rows, const float *panels,
      const mk_epilogue *end, float *y, int64_t y_stride))
KERN(conv_taps, void,
     (int64_t m, int64_t n, int64_t taps, const float *const *rows, const float *w,
      const mk_epilogue *end, float *y, int64_t y_stride))
