/* int_panels for any register width. Included once by each instruction set, behind
 *
 *   WORDS       a register of WORDS_WIDTH words; words_zero, words_load, words_store, words_spread
 *               of a word at any address
 *   words_dot   (sum, a, b): sum + the products of the numbers of a's words and b's, lane by lane
 *   TILE_ROWS   rows of the result at once
 *   PANELS      panels that go with them
 *
 * `rows` and `panels` are constants everywhere: each value makes code of its own. */

enum { REGS = MK_PANEL / WORDS_WIDTH }; /* of a row of a panel */

MK_INLINE void int_tile(int rows, int panels, int64_t taps, int64_t words, const void *const *x,
                        const int32_t *w, const int32_t *start, int32_t *y, int64_t y_stride) {
    const int64_t step = taps * words * MK_PANEL;
    WORDS sum[TILE_ROWS][PANELS * REGS];
    for (int r = 0; r < rows; r++)
        for (int at = 0; at < panels * REGS; at++)
            sum[r][at] = start ? words_load(start + at * WORDS_WIDTH) : words_zero();
    for (int64_t t = 0; t < taps; t++) {
        const char *from[TILE_ROWS];
        for (int r = 0; r < rows; r++)
            from[r] = x[r * taps + t];
        for (int64_t l = 0; l < words; l++, w += MK_PANEL) {
            WORDS b[PANELS * REGS];
            for (int at = 0; at < panels * REGS; at++)
                b[at] = words_load(w + at / REGS * step + at % REGS * WORDS_WIDTH);
            for (int r = 0; r < rows; r++) {
                WORDS a = words_spread(from[r] + l * (int64_t)sizeof(int32_t));
                for (int at = 0; at < panels * REGS; at++)
                    sum[r][at] = words_dot(sum[r][at], a, b[at]);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int at = 0; at < panels * REGS; at++)
            words_store(y + r * y_stride + at * WORDS_WIDTH, sum[r][at]);
}

MK_INLINE void int_rows(int panels, int64_t m, int64_t taps, int64_t words, const void *const *x,
                        const int32_t *w, const int32_t *start, int32_t *y, int64_t y_stride) {
    const int64_t block = mk_block_rows(m, TILE_ROWS);
    for (int64_t i = 0; i < m; i += block)
        MK_WITH_ROWS(m - i < block ? m - i : block, TILE_ROWS,
                     int_tile(MK_R, panels, taps, words, x + i * taps, w, start, y + i * y_stride,
                              y_stride));
}

static void int_panels(int64_t m, int64_t n, int64_t taps, int64_t words, const void *const *rows,
                       const int32_t *panels, const int32_t *start, int32_t *y, int64_t y_stride) {
    const int64_t step = taps * words, wide = PANELS * MK_PANEL;
    for (int64_t j = 0; j < n; j += wide)
        MK_WITH_ROWS(n - j < wide ? (n - j) / MK_PANEL : PANELS, PANELS,
                     int_rows(MK_R, m, taps, words, rows, panels + j * step,
                              start ? start + j : NULL, y + j, y_stride));
}
