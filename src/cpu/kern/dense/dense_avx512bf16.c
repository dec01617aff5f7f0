/* AVX-512 BF16: dense rows in bf16 on both sides. A part of a dot product is one register of 16
 * sums of pairs: l / 2 mod 16 names the lane. Blocks of rows and columns only share loads. Parts
 * are added in order, whatever the number of rows. With many rows of activations, all rows take one
 * part of the columns before the next.
 *
 * No text is shared with dense_tmpl.h: elements go in pairs and in parts, and the prefetch distance
 * depends on the number of rows. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/dense/dense.h"
#include "cpu/kern/pages.h"

#define ROWS 6 /* of activations at once: 6 x 4 sums and 5 operands fit 32 registers */
#define COLS 4
#define WIDE 32                /* elements a register */
#define VERY_FEW 3             /* up to so many rows, columns are read whole */
#define SINGLY_MAX 4096        /* elements a column: x stays beside it in the first-level cache */
#define PREFETCH_DISTANCE 8192 /* bytes past the next columns */
#define COLUMNS_OF_MANY 128    /* a part of them fills half a second-level cache of 1 MiB */

_Static_assert(MK_PART % WIDE == 0, "a part ends where a register does");

/* A register of a row from element `at`; the first n elements where there are fewer, then zeros. */
MK_INLINE __m512bh load_row(const uint16_t *row, int64_t at, int64_t n) {
    return (__m512bh)mk_load_halves(row + at, n);
}

/* sums += x [rows, n] w [cols, n]^T from element `at`, n <= WIDE */
MK_INLINE void add_step(int rows, int cols, int64_t at, int64_t n, const uint16_t *x,
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

/* Lines that are prefetched while a tile is computed, in the order in memory: each step prefetches
 * as many lines as the tile has columns, and up to three too many if a part is not a whole number
 * of steps. They may be past the last column, because usually more columns follow, and a prefetch
 * cannot fault. */
typedef struct ahead {
    bool any, again; /* again: each line twice (mk_prefetch_line) */
    intptr_t at;
    int64_t left, lines; /* lines to the end of a column's part; lines of a part */
    int64_t gap;         /* bytes from the end of a part to the next column's part */
} ahead;

MK_INLINE void prefetch_step(ahead *a, int cols) {
    const int64_t line = WIDE * sizeof(uint16_t);
    for (int j = 0; a->any && j < cols; j++) {
        if (a->again)
            mk_prefetch_line(a->at + j * line);
        else
            mk_prefetch(a->at + j * line);
    }
    a->at += cols * line;
    a->left -= cols;
    if (a->left > 0) return;
    a->at += a->gap;
    a->left = a->lines;
}

/* A tile of a part: y [rows, cols] = x [rows, n] w [cols, n]^T; += where not first. */
MK_INLINE void nt_tile(int rows, int cols, bool first, ahead *a, int64_t n, const uint16_t *x,
                       int64_t x_stride, const uint16_t *w, int64_t w_stride, float *y,
                       int64_t y_stride) {
    __m512 sum[ROWS][COLS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; j++)
            sum[i][j] = _mm512_setzero_ps();
    int64_t l = 0;
    for (; l + WIDE <= n; l += WIDE) {
        prefetch_step(a, cols);
        add_step(rows, cols, l, WIDE, x, x_stride, w, w_stride, sum);
    }
    if (l < n) add_step(rows, cols, l, n - l, x, x_stride, w, w_stride, sum);
    mk_add_dots(rows, cols, first, sum, y, y_stride);
}

/* ---- few rows of activations ---- */

/* Whole columns. What follows is prefetched; for a single column only its pages. */
MK_INLINE void nt_columns(int rows, int cols, int64_t k, const uint16_t *x, int64_t x_stride,
                          const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride) {
    const int64_t bytes = cols * w_stride * (int64_t)sizeof *w;
    ahead a = {.any = cols > 1,
               .again = true,
               .at = (intptr_t)w + bytes + mk_ahead(PREFETCH_DISTANCE),
               .left = INT64_MAX}; /* columns follow one another */
    mk_find_next_pages(a.at, bytes);
    int64_t l = 0;
    do {
        nt_tile(rows, cols, l == 0, &a, mk_part(k - l), x + l, x_stride, w + l, w_stride, y,
                y_stride);
        l += MK_PART;
    } while (l < k);
}

/* Whether columns are better read one at a time: the hardware prefetches the next by itself. */
MK_INLINE bool singly(int rows, int64_t k) {
    return rows == 1 && k <= SINGLY_MAX;
}

MK_INLINE void nt_few(int rows, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                      const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride) {
    int64_t j = 0;
    for (; !singly(rows, k) && j + COLS <= n; j += COLS)
        nt_columns(rows, COLS, k, x, x_stride, w + j * w_stride, w_stride, y + j, y_stride);
    for (; j < n; j++)
        nt_columns(rows, 1, k, x, x_stride, w + j * w_stride, w_stride, y + j, y_stride);
}

/* ---- many ---- */

/* A part of all columns for `rows` rows of activations. Prefetched is the same part of the next
 * columns, once (Zen 5 is slower with two; Zen 4 is untimed), and the first lines of the columns
 * after them, which finds their pages. */
MK_INLINE void nt_part(int rows, bool first, bool prefetch, int64_t n, int64_t depth,
                       const uint16_t *x, int64_t x_stride, const uint16_t *w, int64_t w_stride,
                       float *y, int64_t y_stride) {
    const int64_t line = WIDE * sizeof *w, apart = w_stride * (int64_t)sizeof *w;
    const int64_t lines = (depth + WIDE - 1) / WIDE;
    int64_t j = 0;
    for (; j + COLS <= n; j += COLS) {
        const uint16_t *from = w + j * w_stride;
        ahead a = {.any = prefetch,
                   .at = (intptr_t)from + COLS * apart,
                   .left = lines,
                   .lines = lines,
                   .gap = apart - lines * line};
        for (int c = 0; prefetch && c < COLS; c++)
            mk_prefetch(a.at + (COLS + c) * apart);
        nt_tile(rows, COLS, first, &a, depth, x, x_stride, from, w_stride, y + j, y_stride);
    }
    for (; j < n; j++) {
        ahead nothing = {0};
        nt_tile(rows, 1, first, &nothing, depth, x, x_stride, w + j * w_stride, w_stride, y + j,
                y_stride);
    }
}

static void nt_many(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                    const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride) {
    const int64_t rows = mk_block_rows(m, ROWS);
    int64_t l = 0;
    do {
        for (int64_t i = 0; i < m; i += rows)
            MK_WITH_ROWS(m - i < rows ? m - i : rows, ROWS,
                         nt_part(MK_R, l == 0, i == 0, n, mk_part(k - l), x + i * x_stride + l,
                                 x_stride, w + l, w_stride, y + i * y_stride, y_stride));
        l += MK_PART;
    } while (l < k);
}

static void matmul_bf16(int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t x_stride,
                        const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride) {
    if (m > VERY_FEW)
        nt_many(m, n, k, x, x_stride, w, w_stride, y, y_stride);
    else if (m > 0)
        MK_WITH_ROWS(m, VERY_FEW, nt_few(MK_R, n, k, x, x_stride, w, w_stride, y, y_stride));
}

void mk_dense_avx512bf16(mk_kernels *kernels) {
    kernels->matmul_bf16 = matmul_bf16;
    kernels->bf16_columns = COLUMNS_OF_MANY;
}
