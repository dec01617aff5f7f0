/* Dense products as every vector instruction set has them: blocks of rows, and the six kernels.
 * Included once by each, behind its
 *
 *   ROWS, COLS_OF(rows)  rows of x at once, and columns that go with so many of them
 *   nt_tile              y [rows, cols] = x [rows, k] w [cols, k]^T; cols is 1 or COLS_OF(rows)
 *   nn_rows              y [rows, n] += x [rows, k] w [k, n]
 *
 * Both know the type of w. fetch: what follows in w is fetched, by the first block of rows
 * alone. */
/* All columns for `rows` rows of x. */
MK_INLINE void nt_rows(mk_type type, int rows, bool fetch, int64_t n, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t row_bytes = w_stride * mk_type_bytes(type);
    const char *from = w;
    const int cols = COLS_OF(rows);
    int64_t j = 0;
    for (; j + cols <= n; j += cols)
        nt_tile(type, rows, cols, fetch, k, x, x_stride, from + j * row_bytes, w_stride, y + j,
                y_stride);
    for (; j < n; j++)
        nt_tile(type, rows, 1, fetch, k, x, x_stride, from + j * row_bytes, w_stride, y + j,
                y_stride);
}

MK_INLINE void nt_any(mk_type type, int64_t m, int64_t n, int64_t k, const float *x,
                      int64_t x_stride, const void *w, int64_t w_stride, float *y,
                      int64_t y_stride) {
    int64_t rows = mk_block_rows(m, ROWS);
    for (int64_t i = 0; i < m; i += rows, x += rows * x_stride, y += rows * y_stride) {
        MK_WITH_ROWS(m - i < rows ? m - i : rows, ROWS,
                     nt_rows(type, MK_R, i == 0, n, k, x, x_stride, w, w_stride, y, y_stride));
    }
}

MK_INLINE void nn_any(mk_type type, int64_t m, int64_t n, int64_t k, const float *x,
                      int64_t x_stride, const void *w, int64_t w_stride, float *y,
                      int64_t y_stride) {
    int64_t rows = mk_block_rows(m, ROWS);
    for (int64_t i = 0; i < m; i += rows, x += rows * x_stride, y += rows * y_stride) {
        MK_WITH_ROWS(m - i < rows ? m - i : rows, ROWS,
                     nn_rows(type, MK_R, i == 0, n, k, x, x_stride, w, w_stride, y, y_stride));
    }
}

#include "cpu/kern/dense/dense_types.h"
