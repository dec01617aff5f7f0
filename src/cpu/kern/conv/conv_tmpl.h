/* Convolutions for any register width. Included once by each instruction set, behind its
 * primitives (vec_*.h) and
 *
 *   ROWS     rows of the result at once
 *   PANELS   panels that go with them
 *   PLACES   rows of the result at once where each channel has its own filter
 *   BESIDE   registers of channels that go with these
 *
 * `rows`, `panels` and `beside` are constants everywhere: each value makes code of its own. */

enum { REGS = MK_PANEL / MK_WIDTH }; /* of a row of a panel */

/* ---- epilogues ---- */

MK_INLINE mk_vec finish(const mk_epilogue *end, int64_t i, int64_t j, mk_tail tail, mk_vec v) {
    if (end->bias) v = mk_add(v, mk_load_tail(end->bias + j, tail));
    if (end->add) v = mk_add(v, mk_load_tail(end->add + i * end->add_stride + j, tail));
    if (end->bounded) v = mk_at_most(mk_at_least(v, mk_spread(end->lo)), mk_spread(end->hi));
    return v;
}

/* ---- panels ---- */

/* Stores the sums of `columns` <= panels * MK_PANEL columns from j on. */
MK_INLINE void store_sums(int rows, int panels, int64_t columns, const mk_epilogue *end, int64_t i,
                          int64_t j, mk_vec sum[ROWS][PANELS * REGS], float *y, int64_t y_stride) {
    const bool whole = columns == panels * MK_PANEL;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int at = 0; at < panels * REGS; at++) {
            const int64_t left = columns - at * MK_WIDTH;
            if (!whole && left <= 0) break;
            const mk_tail tail = mk_tail_of(whole ? MK_WIDTH : left);
            mk_store_tail(y + r * y_stride + at * MK_WIDTH, tail,
                          finish(end, i + r, j + at * MK_WIDTH, tail, sum[r][at]));
        }
}

/* What sums of `columns` <= panels * MK_PANEL columns begin with. */
MK_INLINE void load_sums(int rows, int panels, int64_t columns, const mk_terms *terms, int64_t i,
                         int64_t j, mk_vec sum[ROWS][PANELS * REGS]) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int at = 0; at < panels * REGS; at++) {
            const int64_t left = columns - at * MK_WIDTH;
            sum[r][at] = mk_zero();
            if (terms->from && left > 0)
                sum[r][at] =
                    mk_load_tail(terms->from + (i + r) * terms->from_stride + j + at * MK_WIDTH,
                                 mk_tail_of(left < MK_WIDTH ? left : MK_WIDTH));
        }
}

/* Rows i to i + rows of the result, of the panels from column j on. */
MK_INLINE void panel_tile(int rows, int panels, int64_t columns, const mk_terms *terms,
                          const float *const *x, const float *w, const mk_epilogue *end, int64_t i,
                          int64_t j, float *y, int64_t y_stride) {
    const int64_t step = mk_panel_step(terms);
    mk_vec sum[ROWS][PANELS * REGS];
    load_sums(rows, panels, columns, terms, i, j, sum);
    for (int64_t t = 0; t < terms->taps; t++) {
        const float *from[ROWS];
        for (int r = 0; r < rows; r++)
            from[r] = x[r * terms->apart + t] + terms->first;
        for (int64_t l = 0; l < terms->c; l++, w += MK_PANEL) {
            mk_vec b[PANELS * REGS];
            for (int at = 0; at < panels * REGS; at++)
                b[at] = mk_load_vec(w + at / REGS * step + at % REGS * MK_WIDTH);
            for (int r = 0; r < rows; r++) {
                mk_vec a = mk_spread(from[r][l]);
                for (int at = 0; at < panels * REGS; at++)
                    sum[r][at] = mk_fma(a, b[at], sum[r][at]);
            }
        }
    }
    if (columns == panels * MK_PANEL)
        store_sums(rows, panels, panels * MK_PANEL, end, i, j, sum, y, y_stride);
    else
        store_sums(rows, panels, columns, end, i, j, sum, y, y_stride);
}

/* All rows of the result, of the panels from column j on: these stay in a near cache. */
MK_INLINE void panel_rows(int panels, int64_t columns, int64_t m, const mk_terms *terms,
                          const float *const *x, const float *w, const mk_epilogue *end, int64_t j,
                          float *y, int64_t y_stride) {
    const int64_t block = mk_block_rows(m, ROWS);
    for (int64_t i = 0; i < m; i += block)
        MK_WITH_ROWS(m - i < block ? m - i : block, ROWS,
                     panel_tile(MK_R, panels, columns, terms, x + i * terms->apart, w, end, i, j,
                                y + i * y_stride, y_stride));
}

static void conv_panels(int64_t m, int64_t n, const mk_terms *terms, const float *const *rows,
                        const float *panels, const mk_epilogue *end, float *y, int64_t y_stride) {
    const int64_t step = mk_panel_step(terms), wide = PANELS * MK_PANEL;
    for (int64_t j = 0; j < n; j += wide) {
        const int64_t columns = n - j < wide ? n - j : wide;
        MK_WITH_ROWS((columns + MK_PANEL - 1) / MK_PANEL, PANELS,
                     panel_rows(MK_R, columns, m, terms, rows, panels + j / MK_PANEL * step, end, j,
                                y + j, y_stride));
    }
}

/* ---- a filter for each channel ---- */

/* Rows i to i + rows, of `beside` whole registers of channels from j on, or of one that may be the
 * tail. */
MK_INLINE void taps_tile(int rows, int beside, mk_tail tail, int64_t n, int64_t taps,
                         const float *const *x, const float *w, const mk_epilogue *end, int64_t i,
                         int64_t j, float *y, int64_t y_stride) {
    mk_vec sum[PLACES][BESIDE];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int at = 0; at < beside; at++)
            sum[r][at] = mk_zero();
    for (int64_t t = 0; t < taps; t++) {
        mk_vec b[BESIDE];
#pragma GCC unroll 8
        for (int at = 0; at < beside; at++)
            b[at] = mk_load_tail(w + t * n + j + at * MK_WIDTH, tail);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const float *from = x[r * taps + t] + j;
#pragma GCC unroll 8
            for (int at = 0; at < beside; at++)
                sum[r][at] = mk_fma(mk_load_tail(from + at * MK_WIDTH, tail), b[at], sum[r][at]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int at = 0; at < beside; at++) {
            int64_t column = j + at * MK_WIDTH;
            mk_store_tail(y + r * y_stride + column, tail,
                          finish(end, i + r, column, tail, sum[r][at]));
        }
}

/* All rows, of the same channels: what is read of these stays in a near cache. */
MK_INLINE void taps_rows(int beside, mk_tail tail, int64_t m, int64_t n, int64_t taps,
                         const float *const *rows, const float *w, const mk_epilogue *end,
                         int64_t j, float *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i += PLACES)
        MK_WITH_ROWS(m - i < PLACES ? m - i : PLACES, PLACES,
                     taps_tile(MK_R, beside, tail, n, taps, rows + i * taps, w, end, i, j,
                               y + i * y_stride, y_stride));
}

static void conv_taps(int64_t m, int64_t n, int64_t taps, const float *const *rows, const float *w,
                      const mk_epilogue *end, float *y, int64_t y_stride) {
    int64_t j = 0;
    for (; j + BESIDE * MK_WIDTH <= n; j += BESIDE * MK_WIDTH)
        taps_rows(BESIDE, mk_tail_of(MK_WIDTH), m, n, taps, rows, w, end, j, y, y_stride);
    for (; j < n; j += MK_WIDTH)
        taps_rows(1, mk_tail_of(n - j < MK_WIDTH ? n - j : MK_WIDTH), m, n, taps, rows, w, end, j,
                  y, y_stride);
}

/* ---- tiles of 3 x 3 filters ---- */

MK_INLINE void tile_in(const float *const *rows, int64_t j, mk_tail tail, float *v,
                       int64_t v_stride) {
    mk_vec a[4][4];
    for (int k = 0; k < 4; k++) { /* a column of the tile */
        mk_vec d0 = mk_load_tail(rows[k] + j, tail), d1 = mk_load_tail(rows[4 + k] + j, tail);
        mk_vec d2 = mk_load_tail(rows[8 + k] + j, tail), d3 = mk_load_tail(rows[12 + k] + j, tail);
        a[0][k] = mk_sub(d0, d2);
        a[1][k] = mk_add(d1, d2);
        a[2][k] = mk_sub(d2, d1);
        a[3][k] = mk_sub(d1, d3);
    }
    for (int i = 0; i < 4; i++, v += 4 * v_stride) {
        mk_store_tail(v + j, tail, mk_sub(a[i][0], a[i][2]));
        mk_store_tail(v + v_stride + j, tail, mk_add(a[i][1], a[i][2]));
        mk_store_tail(v + 2 * v_stride + j, tail, mk_sub(a[i][2], a[i][1]));
        mk_store_tail(v + 3 * v_stride + j, tail, mk_sub(a[i][1], a[i][3]));
    }
}

static void conv_tile_in(int64_t n, const float *const *rows, float *v, int64_t v_stride) {
    int64_t j = 0;
    for (; j + MK_WIDTH <= n; j += MK_WIDTH)
        tile_in(rows, j, mk_tail_of(MK_WIDTH), v, v_stride);
    if (j < n) tile_in(rows, j, mk_tail_of(n - j), v, v_stride);
}

MK_INLINE void tile_out(const float *m, int64_t m_stride, const mk_epilogue *end, const int64_t *at,
                        int64_t j, mk_tail tail, float *y, int64_t y_stride) {
    mk_vec a[2][4];
    for (int k = 0; k < 4; k++) {
        mk_vec m1 = mk_load_tail(m + (4 + k) * m_stride + j, tail);
        mk_vec m2 = mk_load_tail(m + (8 + k) * m_stride + j, tail);
        a[0][k] = mk_add(mk_add(mk_load_tail(m + k * m_stride + j, tail), m1), m2);
        a[1][k] = mk_sub(mk_sub(m1, m2), mk_load_tail(m + (12 + k) * m_stride + j, tail));
    }
    for (int i = 0; i < 4; i++) {
        const mk_vec *b = a[i / 2];
        if (at[i] < 0) continue;
        mk_vec sum =
            i % 2 == 0 ? mk_add(mk_add(b[0], b[1]), b[2]) : mk_sub(mk_sub(b[1], b[2]), b[3]);
        mk_store_tail(y + at[i] * y_stride + j, tail, finish(end, at[i], j, tail, sum));
    }
}

static void conv_tile_out(int64_t n, const float *m, int64_t m_stride, const mk_epilogue *end,
                          const int64_t *at, float *y, int64_t y_stride) {
    int64_t j = 0;
    for (; j + MK_WIDTH <= n; j += MK_WIDTH)
        tile_out(m, m_stride, end, at, j, mk_tail_of(MK_WIDTH), y, y_stride);
    if (j < n) tile_out(m, m_stride, end, at, j, mk_tail_of(n - j), y, y_stride);
}

static void set_conv(mk_kernels *kernels) {
    kernels->conv_tile_in = conv_tile_in;
    kernels->conv_tile_out = conv_tile_out;
    kernels->conv_panels = conv_panels;
    kernels->conv_taps = conv_taps;
}
