/* Matmuls of dense rows for any register width. Included once by each instruction set, behind its
 * primitives (vec_*.h) and
 *
 *   ROWS         rows of activations at once
 *   COLS         columns that go with them, or registers of columns where w is not transposed
 *   COLS_ALONE   columns that go with one row
 *   OWN_AHEAD    how far ahead w is prefetched: bytes past the next columns
 *   store_dots   y [rows, cols] = the sums of the lanes of sum [rows, cols]
 *
 * A dot product is one register of MK_WIDTH sums: l mod MK_WIDTH names the lane. Blocks of rows and
 * columns only share loads. `rows`, `cols`, `vectors`, `type` and `prefetch` are constants
 * everywhere: each value makes code of its own. */
#include "cpu/kern/pages.h"

#define PREFETCH_ROWS 64 /* rows of w from the one that is read to the one prefetched */

/* ---- w transposed ---- */

/* sum [rows, cols] += x [rows, MK_WIDTH] w [cols, MK_WIDTH]^T. Registers hold the side with fewer
 * rows, and the other side is loaded one register at a time. */
MK_INLINE void nt_step(mk_type type, int rows, int cols, int64_t l, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride,
                       mk_vec sum[ROWS][COLS_ALONE]) {
    if (ROWS <= COLS) {
        mk_vec a[ROWS];
        for (int i = 0; i < rows; i++)
            a[i] = mk_load_vec(x + i * x_stride + l);
        for (int j = 0; j < cols; j++) {
            mk_vec b = mk_load_type(type, w, j * w_stride + l);
            for (int i = 0; i < rows; i++)
                sum[i][j] = mk_fma(a[i], b, sum[i][j]);
        }
    } else {
        mk_vec b[COLS_ALONE];
        for (int j = 0; j < cols; j++)
            b[j] = mk_load_type(type, w, j * w_stride + l);
        for (int i = 0; i < rows; i++) {
            mk_vec a = mk_load_vec(x + i * x_stride + l);
            for (int j = 0; j < cols; j++)
                sum[i][j] = mk_fma(a, b[j], sum[i][j]);
        }
    }
}

/* y [rows, cols] = x [rows, k] w [cols, k]^T; cols is 1, COLS or COLS_ALONE. Prefetched is what
 * follows these columns, in the order in memory. It may be past the last column: most often more
 * follow, and a prefetch cannot fail. */
MK_INLINE void nt_tile(mk_type type, int rows, int cols, bool prefetch, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t bytes = mk_type_bytes(type);
    const intptr_t next = (intptr_t)w + cols * w_stride * bytes + mk_ahead(OWN_AHEAD);
    if (prefetch) mk_find_next_pages(next, cols * w_stride * bytes);
    mk_vec sum[ROWS][COLS_ALONE];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS_ALONE; j++)
            sum[i][j] = mk_zero();
    int64_t l = 0;
    for (; l + MK_WIDTH <= k; l += MK_WIDTH) {
        for (int64_t at = 0; prefetch && at < MK_WIDTH * cols * bytes; at += 64)
            mk_prefetch_line(next + l * cols * bytes + at);
        nt_step(type, rows, cols, l, x, x_stride, w, w_stride, sum);
    }
    if (l < k) {
        const mk_tail rest = mk_tail_of(k - l);
        for (int i = 0; i < rows; i++) {
            mk_vec a = mk_load_tail(x + i * x_stride + l, rest);
            for (int j = 0; j < cols; j++) {
                mk_vec b = mk_load_type_tail(type, w, j * w_stride + l, rest);
                sum[i][j] = mk_fma(a, b, sum[i][j]);
            }
        }
    }
    store_dots(rows, cols, sum, y, y_stride);
}

/* All columns for `rows` rows of x. */
MK_INLINE void nt_rows(mk_type type, int rows, bool prefetch, int64_t n, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t row_bytes = w_stride * mk_type_bytes(type);
    const char *from = w;
    const int cols = rows == 1 ? COLS_ALONE : COLS;
    int64_t j = 0;
    for (; j + cols <= n; j += cols)
        nt_tile(type, rows, cols, prefetch, k, x, x_stride, from + j * row_bytes, w_stride, y + j,
                y_stride);
    for (; j < n; j++)
        nt_tile(type, rows, 1, prefetch, k, x, x_stride, from + j * row_bytes, w_stride, y + j,
                y_stride);
}

/* The first block of rows prefetches; the others find w in the caches. */
MK_INLINE void nt_any(mk_type type, int64_t m, int64_t n, int64_t k, const float *x,
                      int64_t x_stride, const void *w, int64_t w_stride, float *y,
                      int64_t y_stride) {
    int64_t rows = mk_block_rows(m, ROWS);
    for (int64_t i = 0; i < m; i += rows, x += rows * x_stride, y += rows * y_stride) {
        MK_WITH_ROWS(m - i < rows ? m - i : rows, ROWS,
                     nt_rows(type, MK_R, i == 0, n, k, x, x_stride, w, w_stride, y, y_stride));
    }
}

/* ---- w not transposed ---- */

/* Registers of columns from column 0 of a row of w: `vectors` whole ones, or one that may be the
 * tail. */
MK_INLINE mk_vec nn_load(mk_type type, const void *row, int vectors, int j, mk_tail tail) {
    if (vectors > 1) return mk_load_type(type, row, j * MK_WIDTH);
    return mk_load_type_tail(type, row, 0, tail);
}

/* sum [rows, vectors] += x [rows, 1] times a row of w. As in nt_step, registers hold the side with
 * fewer rows. */
MK_INLINE void nn_step(mk_type type, int rows, int vectors, mk_tail tail, const float *x,
                       int64_t x_stride, const void *row, mk_vec sum[ROWS][COLS]) {
    if (ROWS <= COLS) {
        mk_vec a[ROWS];
        for (int i = 0; i < rows; i++)
            a[i] = mk_spread(x[i * x_stride]);
        for (int j = 0; j < vectors; j++) {
            mk_vec b = nn_load(type, row, vectors, j, tail);
            for (int i = 0; i < rows; i++)
                sum[i][j] = mk_fma(a[i], b, sum[i][j]);
        }
    } else {
        mk_vec b[COLS];
        for (int j = 0; j < vectors; j++)
            b[j] = nn_load(type, row, vectors, j, tail);
        for (int i = 0; i < rows; i++) {
            mk_vec a = mk_spread(x[i * x_stride]);
            for (int j = 0; j < vectors; j++)
                sum[i][j] = mk_fma(a, b[j], sum[i][j]);
        }
    }
}

/* y += x [rows, k] w, of `vectors` whole registers of columns, or of one that may be the tail.
 * Prefetched are the rows of w after these, past the last one too. */
MK_INLINE void nn_tile(mk_type type, int rows, int vectors, mk_tail tail, bool prefetch, int64_t k,
                       const float *x, int64_t x_stride, const char *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t bytes = mk_type_bytes(type);
    mk_vec sum[ROWS][COLS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = mk_load_tail(y + i * y_stride + j * MK_WIDTH, tail);
    for (int64_t l = 0; l < k; l++) {
        const char *row = w + l * w_stride * bytes;
        for (int64_t at = 0; prefetch && at < MK_WIDTH * vectors * bytes; at += 64)
            mk_prefetch((intptr_t)row + PREFETCH_ROWS * w_stride * bytes + at);
        nn_step(type, rows, vectors, tail, x + l, x_stride, row, sum);
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            mk_store_tail(y + i * y_stride + j * MK_WIDTH, tail, sum[i][j]);
}

MK_INLINE void nn_rows(mk_type type, int rows, bool prefetch, int64_t n, int64_t k, const float *x,
                       int64_t x_stride, const void *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t bytes = mk_type_bytes(type), wide = MK_WIDTH * COLS;
    const char *from = w;
    int64_t j = 0;
    for (; j + wide <= n; j += wide)
        nn_tile(type, rows, COLS, mk_tail_of(MK_WIDTH), prefetch, k, x, x_stride, from + j * bytes,
                w_stride, y + j, y_stride);
    for (; j < n; j += MK_WIDTH)
        nn_tile(type, rows, 1, mk_tail_of(n - j), prefetch, k, x, x_stride, from + j * bytes,
                w_stride, y + j, y_stride);
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

/* ---- rows widened ---- */

MK_INLINE void widen(mk_type type, int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i += MK_WIDTH) {
        const mk_tail tail = mk_tail_of(n - i);
        mk_store_tail(y + i, tail, mk_load_type_tail(type, x, i, tail));
    }
}

static void widen_f16(int64_t n, const uint16_t *x, float *y) {
    widen(MK_F16, n, x, y);
}

static void widen_bf16(int64_t n, const uint16_t *x, float *y) {
    widen(MK_BF16, n, x, y);
}

static void set_dense(mk_kernels *kernels) {
    set_matmuls(kernels);
    kernels->widen_f16 = widen_f16;
    kernels->widen_bf16 = widen_bf16;
}
