/* Checks of the conv family. */
#include "cpu/kcheck.h"

static const int64_t sizes_taps[] = {1, 2, 9};
static const int64_t sizes_c[] = {1, 3, 8, 17, 64};

static void check_conv_pack(check *c) {
    for (int i = 0; i < COUNT(sizes_n); i++)
        for (int j = 0; j < COUNT(sizes_k); j++) {
            int64_t n = sizes_n[i], k = sizes_k[j], stride = k + i % 2 * 3;
            int64_t panels = (n + MK_PANEL - 1) / MK_PANEL;
            guarded w = floats(c, (n - 1) * stride + k), y = floats(c, panels * k * MK_PANEL);
            const float *from = w.data, *to = y.data;
            fill_floats(w.data, (n - 1) * stride + k, PLAIN);
            c->kern->conv_pack(n, k, w.data, stride, y.data);
            for (int64_t l = 0; l < panels * k * MK_PANEL; l++) {
                int64_t column = l / k / MK_PANEL * MK_PANEL + l % MK_PANEL;
                float want = column < n ? from[column * stride + l / MK_PANEL % k] : 0.0f;
                c->cases++;
                if (mk_bits(to[l]) != mk_bits(want)) fail_check(c, "another element");
            }
            release(c, &w), release(c, &y);
        }
}

/* An epilogue of a result [m, n], with everything or some of it by the bits of `which`. */
typedef struct ending {
    guarded bias, add;
    mk_epilogue end;
} ending;

static ending ending_new(check *c, int which, int64_t m, int64_t n) {
    ending e = {floats(c, n), floats(c, m * n), {.add_stride = n, .lo = -0.5f, .hi = 0.75f}};
    fill_floats(e.bias.data, n, PLAIN);
    fill_floats(e.add.data, m * n, PLAIN);
    if (which & 1) e.end.bias = e.bias.data;
    if (which & 2) e.end.add = e.add.data;
    e.end.bounded = (which & 4) != 0;
    return e;
}

static void ending_free(check *c, ending *e) {
    release(c, &e->bias), release(c, &e->add);
}

/* v as the epilogue leaves it; the terms of its rounding are added to *size. */
static double ended(const mk_epilogue *end, int64_t i, int64_t j, double v, double *size) {
    double bias = end->bias ? (double)end->bias[j] : 0;
    double add = end->add ? (double)end->add[i * end->add_stride + j] : 0;
    *size += fabs(bias) + fabs(add);
    v += bias + add;
    if (end->bounded && v < (double)end->lo) return (double)end->lo;
    return end->bounded && v > (double)end->hi ? (double)end->hi : v;
}

/* The part of an epilogue for one element. */
static mk_epilogue end_at(const mk_epilogue *end, int64_t i, int64_t j) {
    mk_epilogue one = *end;
    if (one.bias) one.bias += j;
    if (one.add) one.add += i * one.add_stride + j;
    return one;
}

/* Sums of some terms after others: half of the taps, or of a tap's elements, at a time. */
static void in_parts(check *c, int64_t m, int64_t n, int64_t taps, int64_t depth,
                     const float *const *rows, const float *w, const mk_epilogue *end,
                     const float *whole) {
    const mk_epilogue none = {0};
    int64_t k = taps * depth, tap = (taps + 1) / 2, each = taps > 1 ? depth : (depth + 1) / 2;
    int64_t room = (n + MK_PANEL - 1) / MK_PANEL * MK_PANEL * (tap * each + 1);
    float *panels = malloc((size_t)(room + 2 * m * n) * sizeof *panels), *sums = panels + room;
    if (panels == NULL) exit(EXIT_FAILURE);
    float *y = sums + m * n;
    mk_terms terms = {.apart = taps};
    for (int64_t t = 0; t < taps; t += terms.taps)
        for (int64_t l = 0; l < depth; l += terms.c) {
            terms.taps = taps - t < tap ? taps - t : tap;
            terms.c = depth - l < each ? depth - l : each;
            terms.first = l;
            const bool ends = t + terms.taps == taps && l + terms.c == depth;
            c->kern->conv_pack(n, terms.taps * terms.c, w + t * depth + l, k, panels);
            c->kern->conv_panels(m, n, &terms, rows + t, panels, ends ? end : &none,
                                 ends ? y : sums, n);
            terms.from = sums;
            terms.from_stride = n;
        }
    if (k > 0) same_bits(c, y, whole, m * n, "sums in parts differ from whole ones");
    free(panels);
}

/* Rows lie anywhere: a few, which windows share. */
static void panels_of(check *c, int64_t m, int64_t n, int64_t taps, int64_t depth, int which) {
    enum { LINES = 5 };
    int64_t k = taps * depth, room = (n + MK_PANEL - 1) / MK_PANEL * MK_PANEL * k;
    guarded x = floats(c, LINES * depth), panels = floats(c, room), y = floats(c, m * n);
    float *w = malloc((size_t)(n * k + m * n) * sizeof *w);
    const float **rows = malloc((size_t)(m * taps) * sizeof *rows);
    if (w == NULL || rows == NULL) exit(EXIT_FAILURE);
    float *one = w + n * k;
    ending e = ending_new(c, which, m, n);
    fill_floats(x.data, LINES * depth, judged[which % COUNT(judged)]);
    fill_floats(w, n * k, PLAIN);
    for (int64_t i = 0; i < m * taps; i++)
        rows[i] = (const float *)x.data + (i * 3 + i / 7) % LINES * depth;
    c->kern->conv_pack(n, k, w, k, panels.data);
    const mk_terms terms = {.taps = taps, .c = depth, .apart = taps};
    c->kern->conv_panels(m, n, &terms, rows, panels.data, &e.end, y.data, n);
    in_parts(c, m, n, taps, depth, rows, w, &e.end, y.data);
    float *alone = malloc((size_t)(k * MK_PANEL) * sizeof *alone);
    if (alone == NULL) exit(EXIT_FAILURE);
    for (int64_t j = 0; j < n; j++) {
        c->kern->conv_pack(1, k, w + j * k, k, alone);
        for (int64_t i = 0; i < m; i++) {
            double sum = 0, size = 0;
            for (int64_t l = 0; l < k; l++) {
                double a = (double)rows[i * taps + l / depth][l % depth];
                sum += a * (double)w[j * k + l];
                size += fabs(a * (double)w[j * k + l]);
            }
            sum = ended(&e.end, i, j, sum, &size);
            judge(c, (double)((float *)y.data)[i * n + j], sum, (double)(k + 4) * UNIT * size);
            mk_epilogue end = end_at(&e.end, i, j);
            c->kern->conv_panels(1, 1, &terms, rows + i * taps, alone, &end, one + i * n + j, 1);
        }
    }
    same_bits(c, one, y.data, m * n, "a block differs from its elements");
    free(w);
    free(rows);
    free(alone);
    ending_free(c, &e);
    release(c, &x), release(c, &panels), release(c, &y);
}

static void check_conv_panels(check *c) {
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes_c); l++)
                panels_of(c, sizes_m[i], sizes_n[j], sizes_taps[(i + j + l) % COUNT(sizes_taps)],
                          sizes_c[l], (i + j + l) % 8);
    panels_of(c, 13, 67, 0, 3, 7);
    for (int64_t n = 20; n < 130; n += 15) /* any number of panels, of whole ones and of a part */
        panels_of(c, 13, n, 2, 5, 7);
}

static void taps_of(check *c, int64_t m, int64_t n, int64_t taps, int which) {
    enum { LINES = 5 };
    guarded x = floats(c, LINES * n), w = floats(c, taps * n), y = floats(c, m * n);
    const float *weights = w.data;
    const float **rows = malloc((size_t)(m * taps + 1) * sizeof *rows);
    float *one = malloc((size_t)(m * n) * sizeof *one);
    if (rows == NULL || one == NULL) exit(EXIT_FAILURE);
    ending e = ending_new(c, which, m, n);
    fill_floats(x.data, LINES * n, judged[which % COUNT(judged)]);
    fill_floats(w.data, taps * n, PLAIN);
    for (int64_t i = 0; i < m * taps; i++)
        rows[i] = (const float *)x.data + (i * 3 + i / 7) % LINES * n;
    c->kern->conv_taps(m, n, taps, rows, weights, &e.end, y.data, n);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (int64_t t = 0; t < taps; t++) {
                double a = (double)rows[i * taps + t][j] * (double)weights[t * n + j];
                sum += a;
                size += fabs(a);
            }
            sum = ended(&e.end, i, j, sum, &size);
            judge(c, (double)((float *)y.data)[i * n + j], sum, (double)(taps + 4) * UNIT * size);
        }
        mk_epilogue end = end_at(&e.end, i, 0);
        c->kern->conv_taps(1, n, taps, rows + i * taps, weights, &end, one + i * n, n);
    }
    same_bits(c, one, y.data, m * n, "a block differs from its rows");
    free(rows);
    free(one);
    ending_free(c, &e);
    release(c, &x), release(c, &w), release(c, &y);
}

static void check_conv_taps(check *c) {
    for (int64_t n = 1; n < 150; n += n < 70 ? 1 : 13)
        for (int64_t taps = 0; taps <= 27; taps += 9)
            taps_of(c, sizes_m[n % COUNT(sizes_m)], n, taps, (int)(n % 8));
}

/* B^T d B, and A^T m A, in double; size: the sum of what is added. */
static const double TILE_IN[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
static const double TILE_OUT[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};

static double transformed(const double left[4], const double right[4], const double x[16],
                          double *size) {
    double sum = 0;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            sum += left[i] * x[4 * i + k] * right[k];
            *size += fabs(left[i] * x[4 * i + k] * right[k]);
        }
    return sum;
}

static void check_conv_tile_in(check *c) {
    for (int64_t n = 1; n < 100; n += n < 40 ? 1 : 19) {
        int64_t stride = n + n % 3;
        guarded x = floats(c, 9 * n), v = floats(c, 15 * stride + n);
        const float *rows[16];
        fill_floats(x.data, 9 * n, judged[n % COUNT(judged)]);
        for (int i = 0; i < 16; i++)
            rows[i] = (const float *)x.data + (i * 5 + n) % 9 * n;
        c->kern->conv_tile_in(n, rows, v.data, stride);
        for (int64_t j = 0; j < n; j++)
            for (int i = 0; i < 16; i++) {
                double d[16], size = 0;
                for (int k = 0; k < 16; k++)
                    d[k] = (double)rows[k][j];
                double want = transformed(TILE_IN[i / 4], TILE_IN[i % 4], d, &size);
                judge(c, (double)((float *)v.data)[i * stride + j], want, 4 * UNIT * size);
            }
        release(c, &x), release(c, &v);
    }
}

static void check_conv_tile_out(check *c) {
    static const int64_t places[][4] = {
        {0, 1, 5, 6}, {2, -1, 4, -1}, {3, 1, -1, -1}, {6, -1, -1, -1}};
    for (int64_t n = 1; n < 100; n += n < 40 ? 1 : 19) {
        int64_t stride = n + n % 3;
        const int64_t *at = places[n % COUNT(places)];
        guarded m = floats(c, 15 * stride + n), y = floats(c, 7 * n);
        ending e = ending_new(c, (int)(n % 8), 7, n);
        fill_floats(m.data, 15 * stride + n, judged[n % COUNT(judged)]);
        fill_floats(y.data, 7 * n, PLAIN);
        float *before = malloc((size_t)(7 * n) * sizeof *before);
        if (before == NULL) exit(EXIT_FAILURE);
        memcpy(before, y.data, (size_t)(7 * n) * sizeof *before);
        c->kern->conv_tile_out(n, m.data, stride, &e.end, at, y.data, n);
        for (int64_t row = 0; row < 7; row++) {
            int which = 0;
            while (which < 4 && at[which] != row)
                which++;
            const float *got = (const float *)y.data + row * n;
            if (which == 4) same_bits(c, got, before + row * n, n, "another row was written");
            for (int64_t j = 0; which < 4 && j < n; j++) {
                double x[16], size = 0;
                for (int k = 0; k < 16; k++)
                    x[k] = (double)((float *)m.data)[k * stride + j];
                double want = transformed(TILE_OUT[which / 2], TILE_OUT[which % 2], x, &size);
                want = ended(&e.end, row, j, want, &size);
                judge(c, (double)got[j], want, 8 * UNIT * size);
            }
        }
        free(before);
        ending_free(c, &e);
        release(c, &m), release(c, &y);
    }
}

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/conv/conv_list.h"
#undef KERN
};

static bool same(const mk_kernels *a, const mk_kernels *b) {
    bool same = true;
#define KERN(name, result, args) same = same && a->name == b->name;
#include "cpu/kern/conv/conv_list.h"
#undef KERN
    return same;
}

const kcheck_family kcheck_conv = {rows, COUNT(rows), same};
