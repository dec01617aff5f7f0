/* AMX: bf16 matmuls of blocks of 32 rows by 32 columns.
 *
 * tdpbf16ps adds 32 products to each of 16 x 16 sums: even and odd ones apart, each in their order.
 * x is read in place. The other operand is packed into pairs before: a register has a row for every
 * two elements, which holds a pair of each of 16 columns. A sum has the same bits at any place in a
 * register and beside any others, and zeros add nothing to it. */
#ifndef CPU_KERN_AMX_BF16_H
#define CPU_KERN_AMX_BF16_H

#include "cpu/kern/amx.h"

#include <stdbool.h>

#define LINES MK_AMX_LINES
#define STEP 32          /* elements in a register's row, which are summed together */
#define HIGH (2 * LINES) /* rows of x in a block, two registers */
#define WIDE (2 * LINES) /* columns in a block, two registers */
#define EDGE 128         /* elements of rows of x that are copied at a time */

/* The registers of pairs of one step. */
typedef struct paired {
    _Alignas(64) uint32_t pairs[WIDE / LINES][LINES][LINES];
} paired;

/* y [high * LINES, WIDE] = or += x [high * LINES, depth] times the pairs of WIDE columns. */
MK_INLINE void add_block(int high, bool first, int64_t depth, const uint16_t *x, int64_t x_stride,
                         const paired *w, float *y, int64_t y_stride) {
    const int64_t line = 2 * x_stride, row = 4 * y_stride;
    float *below = y + LINES * y_stride;
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        if (high > 1) _tile_zero(2);
        if (high > 1) _tile_zero(3);
    } else {
        _tile_loadd(0, y, row);
        _tile_loadd(1, y + LINES, row);
        if (high > 1) _tile_loadd(2, below, row);
        if (high > 1) _tile_loadd(3, below + LINES, row);
    }
    for (int64_t l = 0; l < depth; l += STEP) {
        _tile_loadd(4, x + l, line);
        _tile_loadd(6, w[l / STEP].pairs[0], 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w[l / STEP].pairs[1], 64);
        _tile_dpbf16ps(1, 4, 7);
        if (high == 1) continue;
        _tile_loadd(5, x + LINES * x_stride + l, line);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, y, row);
    _tile_stored(1, y + LINES, row);
    if (high > 1) _tile_stored(2, below, row);
    if (high > 1) _tile_stored(3, below + LINES, row);
}

/* The same for smaller blocks: m rows, n columns, and a `depth` that may end within a step. */
static void add_edge(int64_t m, int64_t n, bool first, int64_t depth, const uint16_t *x,
                     int64_t x_stride, const paired *w, float *y, int64_t y_stride) {
    _Alignas(64) uint16_t rows[HIGH][EDGE];
    _Alignas(64) float sums[HIGH][WIDE] = {0};
    int high = m > LINES ? 2 : 1;
    for (int64_t i = 0; !first && i < m; i++)
        for (int64_t j = 0; j < WIDE; j += LINES)
            _mm512_store_ps(sums[i] + j,
                            _mm512_maskz_loadu_ps(mk_first(n - j), y + i * y_stride + j));
    for (int64_t l = 0; l < depth; l += EDGE) {
        int64_t part = depth - l < EDGE ? depth - l : EDGE;
        for (int64_t i = 0; i < high * LINES; i++)
            for (int64_t at = 0; at < part; at += STEP)
                _mm512_store_si512(rows[i] + at,
                                   i < m ? mk_load_halves(x + i * x_stride + l + at, part - at)
                                         : _mm512_setzero_si512());
        mk_amx_written();
        if (high > 1)
            add_block(2, false, part, rows[0], EDGE, w + l / STEP, sums[0], WIDE);
        else
            add_block(1, false, part, rows[0], EDGE, w + l / STEP, sums[0], WIDE);
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < WIDE; j += LINES)
            _mm512_mask_storeu_ps(y + i * y_stride + j, mk_first(n - j),
                                  _mm512_load_ps(sums[i] + j));
}

/* y [m, n] = or += x [m, depth] times pairs, n <= WIDE. The pairs are padded to a whole step with
 * finite numbers. */
static void add_columns(int64_t m, int64_t n, bool first, int64_t depth, const uint16_t *x,
                        int64_t x_stride, const paired *w, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i += HIGH, x += HIGH * x_stride, y += HIGH * y_stride) {
        int64_t rows = m - i < HIGH ? m - i : HIGH;
        if (rows % LINES != 0 || n < WIDE || depth % STEP != 0)
            add_edge(rows, n, first, depth, x, x_stride, w, y, y_stride);
        else if (rows > LINES)
            add_block(2, first, depth, x, x_stride, w, y, y_stride);
        else
            add_block(1, first, depth, x, x_stride, w, y, y_stride);
    }
}

#endif
