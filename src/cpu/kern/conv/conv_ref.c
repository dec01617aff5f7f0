/* Plain C: a panel's sums, or as many channels', are an array. */
#include <string.h>

#include "cpu/kern/conv/conv.h"

static void conv_pack(int64_t n, int64_t k, const float *w, int64_t w_stride, float *panels) {
    for (int64_t j = 0; j < n; j += MK_PANEL, panels += k * MK_PANEL) {
        int64_t columns = n - j < MK_PANEL ? n - j : MK_PANEL;
        if (columns < MK_PANEL) memset(panels, 0, (size_t)(k * MK_PANEL) * sizeof *panels);
        for (int64_t column = 0; column < columns; column++)
            for (int64_t l = 0; l < k; l++)
                panels[l * MK_PANEL + column] = w[(j + column) * w_stride + l];
    }
}

/* Stores `count` sums of row i from column j on. */
static void store(const mk_epilogue *end, int64_t i, int64_t j, int64_t count, const float *sums,
                  float *y) {
    for (int64_t at = 0; at < count; at++) {
        float v = sums[at];
        if (end->bias) v += end->bias[j + at];
        if (end->add) v += end->add[i * end->add_stride + j + at];
        if (end->bounded) {
            v = v > end->lo || v != v ? v : end->lo;
            v = v < end->hi || v != v ? v : end->hi;
        }
        y[at] = v;
    }
}

static void conv_panels(int64_t m, int64_t n, const mk_terms *terms, const float *const *rows,
                        const float *panels, const mk_epilogue *end, float *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j += MK_PANEL, panels += mk_panel_step(terms))
        for (int64_t i = 0; i < m; i++) {
            const int64_t count = n - j < MK_PANEL ? n - j : MK_PANEL;
            float sums[MK_PANEL] = {0};
            const float *w = panels;
            for (int64_t at = 0; terms->from && at < count; at++)
                sums[at] = terms->from[i * terms->from_stride + j + at];
            for (int64_t t = 0; t < terms->taps; t++) {
                const float *x = rows[i * terms->apart + t] + terms->first;
                for (int64_t l = 0; l < terms->c; l++, w += MK_PANEL)
                    for (int column = 0; column < MK_PANEL; column++)
                        sums[column] += x[l] * w[column];
            }
            store(end, i, j, count, sums, y + i * y_stride + j);
        }
}

static void conv_taps(int64_t m, int64_t n, int64_t taps, const float *const *rows, const float *w,
                      const mk_epilogue *end, float *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j += MK_PANEL) {
        int64_t count = n - j < MK_PANEL ? n - j : MK_PANEL;
        for (int64_t i = 0; i < m; i++) {
            float sums[MK_PANEL] = {0};
            for (int64_t t = 0; t < taps; t++)
                for (int64_t at = 0; at < count; at++)
                    sums[at] += rows[i * taps + t][j + at] * w[t * n + j + at];
            store(end, i, j, count, sums, y + i * y_stride + j);
        }
    }
}

static void conv_tile_in(int64_t n, const float *const *rows, float *v, int64_t v_stride) {
    for (int64_t j = 0; j < n; j++) {
        float a[4][4];
        for (int k = 0; k < 4; k++) {
            a[0][k] = rows[k][j] - rows[8 + k][j];
            a[1][k] = rows[4 + k][j] + rows[8 + k][j];
            a[2][k] = rows[8 + k][j] - rows[4 + k][j];
            a[3][k] = rows[4 + k][j] - rows[12 + k][j];
        }
        for (int i = 0; i < 4; i++) {
            float *to = v + 4 * i * v_stride + j;
            to[0] = a[i][0] - a[i][2];
            to[v_stride] = a[i][1] + a[i][2];
            to[2 * v_stride] = a[i][2] - a[i][1];
            to[3 * v_stride] = a[i][1] - a[i][3];
        }
    }
}

static void conv_tile_out(int64_t n, const float *m, int64_t m_stride, const mk_epilogue *end,
                          const int64_t *at, float *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j++, m++) {
        float a[2][4];
        for (int k = 0; k < 4; k++) {
            float m1 = m[(4 + k) * m_stride], m2 = m[(8 + k) * m_stride];
            a[0][k] = m[k * m_stride] + m1 + m2;
            a[1][k] = m1 - m2 - m[(12 + k) * m_stride];
        }
        for (int i = 0; i < 4; i++) {
            const float *b = a[i / 2];
            float sum = i % 2 == 0 ? b[0] + b[1] + b[2] : b[1] - b[2] - b[3];
            if (at[i] >= 0) store(end, at[i], j, 1, &sum, y + at[i] * y_stride + j);
        }
    }
}

void mk_conv_ref(mk_kernels *kernels) {
    kernels->conv_tile_in = conv_tile_in;
    kernels->conv_tile_out = conv_tile_out;
    kernels->conv_pack = conv_pack;
    kernels->conv_panels = conv_panels;
    kernels->conv_taps = conv_taps;
}
