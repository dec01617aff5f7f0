/* AVX-512 BF16: dense rows in bf16 on both sides. A dot product is one register of 16 sums of pairs,
 * l / 2 mod 16 naming the lane; blocks of rows and columns only share loads. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/dense.h"
#include "cpu/kern/pages.h"

#define ROWS 6 /* of x at once: 6 x 4 sums and 5 operands fit 32 registers */
#define COLS 4
#define WIDE 32            /* elements a register */
#define SINGLY_MOST 4096   /* of a column: beside it x stays in the first-level cache */
#define FETCHED_AHEAD 8192 /* bytes past the next columns */

/* A register of a row from element `at`; the first n elements where there are fewer, then zeros. */
MK_INLINE __m512bh load_row(const uint16_t *row, int64_t at, int64_t n) {
    return (__m512bh)mk_load_halves(row + at, n);
}

/* sums += x [rows, n] w [cols, n]^T from element `at`, n <= WIDE */
MK_INLINE void add_part(int rows, int cols, int64_t at, int64_t n, const uint16_t *x,
                        int64_t x_stride, const uint16_t *w, int64_t w_stride,
                        __m512 sum[ROWS][COLS]) {
    __m512bh b[COLS];
#pragma GCC unroll 4
    for (int j = 0; j < cols; j++)
        b[j] = load_row(w + j * w_stride, at, n);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        __m512bh a = load_row(x + i * x_stride, at, n);
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++)
            sum[i][j] = _mm512_dpbf16_ps(sum[i][j], a, b[j]);
    }
}

/* y [rows, 4] = x [rows, k] w [4, k]^T, of which `cols` columns are there. fetch: what follows the
 * columns after these, in the order it lies in; past the last ones too, for most often more follow and
 * a fetch cannot fail. Of a single column only the pages. */
MK_INLINE void nt_tile(int rows, int cols, bool fetch, int64_t k, const uint16_t *x,
                       int64_t x_stride, const uint16_t *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    const int64_t bytes = sizeof *w;
    const intptr_t next = (intptr_t)w + cols * w_stride * bytes + FETCHED_AHEAD;
    if (fetch) mk_find_next_pages(next, cols * w_stride * bytes);
    __m512 sum[ROWS][COLS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; j++)
            sum[i][j] = _mm512_setzero_ps();
    int64_t l = 0;
    for (; l + WIDE <= k; l += WIDE) {
        for (int j = 0; fetch && cols > 1 && j < cols; j++)
            mk_fetch_line(next + (l * cols + j * WIDE) * bytes);
        add_part(rows, cols, l, WIDE, x, x_stride, w, w_stride, sum);
    }
    if (l < k) add_part(rows, cols, l, k - l, x, x_stride, w, w_stride, sum);
    mk_store_dots(rows, cols, sum, y, y_stride);
}

/* Whether columns are better read one after the other: from memory, of which the machine then fetches by itself
 * what comes next. */
MK_INLINE bool singly(int rows, bool fetch, int64_t k) {
    return rows == 1 && fetch && k <= SINGLY_MOST;
}

/* All columns for `rows` rows of x. */
MK_INLINE void nt_rows(int rows, bool fetch, int64_t n, int64_t k, const uint16_t *x,
                       int64_t x_stride, const uint16_t *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    int64_t j = 0;
    for (; !singly(rows, fetch, k) && j + COLS <= n; j += COLS)
        nt_tile(rows, COLS, fetch, k, x, x_stride, w + j * w_stride, w_stride, y + j, y_stride);
    for (; j < n; j++)
        nt_tile(rows, 1, fetch, k, x, x_stride, w + j * w_stride, w_stride, y + j, y_stride);
}

static void matmul_bf16(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                        const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride) {
    int64_t rows = mk_block_rows(m, ROWS);
    for (int64_t i = 0; i < m; i += rows, x += rows * x_stride, y += rows * y_stride) {
        MK_WITH_ROWS(m - i < rows ? m - i : rows, ROWS,
                     nt_rows(MK_R, i == 0, n, k, x, x_stride, w, w_stride, y, y_stride));
    }
}

void mk_dense_avx512bf16(mk_kernels *kernels) {
    kernels->matmul_bf16 = matmul_bf16;
}
