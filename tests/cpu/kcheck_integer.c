/* Checks of products of integers: all numbers are exact. */
#include "cpu/kcheck.h"

static void fill_bytes(void *data, int64_t n) {
    static const uint8_t ends[] = {0, 127, 128, 255};
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = random_bits();
        ((uint8_t *)data)[i] = bits & 1 ? (uint8_t)(bits >> 8) : ends[bits >> 8 & 3];
    }
}

static void fill_words(void *data, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)data)[i] = (int32_t)(random_bits() >> 44) - (1 << 19);
}

static void same_words(check *c, const int32_t *got, const int32_t *want, int64_t n) {
    for (int64_t i = 0; i < n; i++, c->cases++)
        if (got[i] != want[i]) fail_check(c, "another integer");
}

static guarded memory(const check *c, int64_t n, size_t each) {
    return guarded_new((size_t)n * each, c->where);
}

static int32_t sum_of(int64_t k, const uint8_t *x, const int8_t *w) {
    int64_t sum = 0;
    for (int64_t l = 0; l < k; l++)
        sum += (int64_t)x[l] * w[l];
    return (int32_t)sum;
}

/* Rows are `gap` bytes longer than they are read. */
static void int_matmul(check *c, int64_t m, int64_t n, int64_t k, int64_t gap) {
    int64_t stride = k + gap;
    guarded x = memory(c, (m - 1) * stride + k, 1), w = memory(c, (n - 1) * stride + k, 1);
    guarded y = memory(c, (m - 1) * (n + gap) + n, sizeof(int32_t));
    int32_t *sums = y.data;
    fill_bytes(x.data, (m - 1) * stride + k);
    fill_bytes(w.data, (n - 1) * stride + k);
    fill_words(sums, (m - 1) * (n + gap) + n);
    int32_t between = m > 1 && gap > 0 ? sums[n] : 0;
    c->kern->int_matmul(m, n, k, x.data, stride, w.data, stride, sums, n + gap);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int32_t want = sum_of(k, (const uint8_t *)x.data + i * stride,
                                  (const int8_t *)w.data + j * stride);
            same_words(c, &sums[i * (n + gap) + j], &want, 1);
        }
    if (m > 1 && gap > 0 && sums[n] != between) fail_check(c, "writes between rows");
    release(c, &x), release(c, &w), release(c, &y);
}

static void check_int_matmul(check *c) {
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes_k); l++)
                int_matmul(c, sizes_m[i], sizes_n[j], sizes_k[l], (i + j + l) % 2 * 5);
}

/* Number l of words of int_panels. */
static int32_t number_of(const check *c, const int32_t *words, int64_t l, bool weight) {
    uint8_t byte;
    int16_t half;
    if (c->kern->int_unit == 2) {
        memcpy(&half, (const char *)words + 2 * l, sizeof half);
        return half;
    }
    memcpy(&byte, (const char *)words + l, sizeof byte);
    return weight ? (int8_t)byte : byte;
}

static int64_t words_of(const check *c, int64_t n) {
    return (n + c->kern->int_unit - 1) / c->kern->int_unit;
}

static void check_int_form(check *c) {
    for (int64_t n = 1; n < 150; n += n < 70 ? 1 : 13) {
        guarded x = memory(c, n, 1), y = memory(c, words_of(c, n), 4);
        fill_bytes(x.data, n);
        c->kern->int_form(n, x.data, y.data);
        for (int64_t l = 0; l < words_of(c, n) * c->kern->int_unit; l++) {
            int32_t want = l < n ? ((uint8_t *)x.data)[l] : 0, got = number_of(c, y.data, l, false);
            same_words(c, &got, &want, 1);
        }
        release(c, &x), release(c, &y);
    }
}

static void int_pack(check *c, int64_t n, int64_t taps, int64_t each) {
    int64_t words = words_of(c, each), panels = (n + MK_PANEL - 1) / MK_PANEL;
    int64_t step = taps * words * MK_PANEL, unit = c->kern->int_unit;
    guarded w = memory(c, n * taps * each, 1), y = memory(c, panels * step, 4);
    fill_bytes(w.data, n * taps * each);
    c->kern->int_pack(n, taps, each, w.data, y.data);
    for (int64_t i = 0; i < panels * step * unit; i++) {
        int64_t at = i / unit, l = at / MK_PANEL % words * unit + i % unit;
        int64_t j = at / step * MK_PANEL + at % MK_PANEL, t = at / MK_PANEL / words % taps;
        int32_t got = number_of(c, (const int32_t *)y.data + at, i % unit, true);
        int32_t want = j < n && l < each ? ((const int8_t *)w.data)[(j * taps + t) * each + l] : 0;
        same_words(c, &got, &want, 1);
    }
    release(c, &w), release(c, &y);
}

static void check_int_pack(check *c) {
    for (int i = 0; i < COUNT(sizes_n); i++)
        for (int j = 0; j < COUNT(sizes_k); j++)
            int_pack(c, sizes_n[i], 1 + (i + j) % 3, sizes_k[j]);
}

/* Which of the lines row i is: of a few, anywhere, or one after the other, as in memory. */
static int64_t line_of(int64_t i, int64_t lines, bool apart) {
    return apart ? i : (i * 3 + i / 7) % lines;
}

/* Rows lie anywhere, a few, which windows share, or, where `apart`, at equal distances; at odd
 * addresses where words are bytes. */
static void int_panels(check *c, int64_t m, int64_t panels, int64_t taps, int64_t each,
                       bool apart) {
    enum { FEW = 5, GAP = 3 };
    const int64_t lines = apart ? m * taps : FEW;
    int64_t n = panels * MK_PANEL, words = words_of(c, each), stride = n + GAP;
    const int64_t odd = c->kern->int_unit == 4;
    guarded x = memory(c, odd + lines * words * 4, 1), w = memory(c, n * taps * words, 4);
    guarded y = memory(c, (m - 1) * stride + n, 4), from = memory(c, n, 4);
    const int32_t *start = (m + panels) % 2 ? from.data : NULL;
    char *first = (char *)x.data + odd;
    uint8_t *bytes = malloc((size_t)(lines * each + n * taps * each));
    int32_t *line_words = malloc((size_t)words * sizeof *line_words);
    const void **rows = malloc((size_t)(m * taps) * sizeof *rows);
    if (bytes == NULL || line_words == NULL || rows == NULL) exit(EXIT_FAILURE);
    int8_t *weights = (int8_t *)bytes + lines * each;
    fill_bytes(bytes, lines * each + n * taps * each);
    for (int line = 0; line < lines; line++) {
        c->kern->int_form(each, bytes + line * each, line_words);
        memcpy(first + line * words * 4, line_words, (size_t)words * 4);
    }
    c->kern->int_pack(n, taps, each, weights, w.data);
    for (int64_t i = 0; i < m * taps; i++)
        rows[i] = first + line_of(i, lines, apart) * words * 4;
    int32_t *sums = y.data;
    if (m > 1) sums[n] = 77;
    fill_words(from.data, n);
    c->kern->int_panels(m, n, taps, words, rows, w.data, start, sums, stride);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int32_t want = start ? start[j] : 0;
            for (int64_t t = 0; t < taps; t++)
                want += sum_of(each, bytes + line_of(i * taps + t, lines, apart) * each,
                               weights + (j * taps + t) * each);
            same_words(c, &sums[i * stride + j], &want, 1);
        }
    if (m > 1 && sums[n] != 77) fail_check(c, "writes between rows");
    free(bytes);
    free(line_words);
    free(rows);
    release(c, &x), release(c, &w), release(c, &y), release(c, &from);
}

static void check_int_panels(check *c) {
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 1; j < 7; j++)
            for (int l = 0; l < COUNT(sizes_k); l++)
                int_panels(c, sizes_m[i], j, 1 + (i + j + l) % 3, sizes_k[l], (i + l) % 2);
    static const int64_t many[] = {16, 17, 33, 48}; /* and long rows: a tile's, and several parts */
    static const int64_t long_k[] = {96, 100, 128, 1030, 2048};
    for (int i = 0; i < COUNT(many); i++)
        for (int l = 0; l < COUNT(long_k); l++)
            int_panels(c, many[i], 1 + (i + l) % 5, 1 + 2 * (l % 2), long_k[l], i % 2 || l % 2);
}

/* Byte (c, t) of a filter, in the order of int_taps. */
static int64_t filter_at(const check *c, const mk_taps *f, int64_t channel, int64_t t) {
    const int64_t unit = c->kern->int_lines, line = t / f->width, place = t % f->width;
    if (unit == 1) return t * f->n + channel;
    const int64_t groups = (f->lines + unit - 1) / unit, wide = (f->n + 15) / 16 * 16;
    return ((place * groups + line / unit) * wide + channel) * unit + line % unit;
}

static void check_int_pack_taps(check *c) {
    for (int64_t n = 1; n < 150; n += n < 70 ? 1 : 13)
        for (int64_t lines = 1; lines < 8; lines += 1 + lines / 3) {
            const mk_taps f = {n, lines, 1 + (n + lines) % 5, NULL, NULL};
            const int64_t taps = lines * f.width, bytes = mk_taps_bytes(c->kern, n, lines, f.width);
            guarded w = memory(c, n * taps, 1), y = memory(c, bytes, 1);
            int64_t sum = 0;
            fill_bytes(w.data, n * taps);
            c->kern->int_pack_taps(n, lines, f.width, w.data, y.data);
            for (int64_t i = 0; i < n * taps; i++) {
                const int32_t want = ((const int8_t *)w.data)[i];
                const int32_t got = ((const int8_t *)y.data)[filter_at(c, &f, i / taps, i % taps)];
                same_words(c, &got, &want, 1);
                sum += want;
            }
            for (int64_t i = 0; i < bytes; i++) /* the others are 0 */
                sum -= ((const int8_t *)y.data)[i];
            if (sum != 0) fail_check(c, "numbers that are not there");
            release(c, &w), release(c, &y);
        }
}

/* Windows of lines of places, each some places further than the one before it; every few ones begin
 * another line. */
static void int_taps(check *c, int64_t n, int64_t lines, int64_t width, int64_t step, bool starts) {
    enum { GAP = 3, PER_LINE = 5, M = 13, MAX_TAPS = 35 };
    const int64_t taps = lines * width, m = 1 + n % M, places = (PER_LINE - 1) * step + width;
    const int64_t begin = n > 40 && n % 3 == 0 ? 16 : 0, end = n > 60 && n % 2 == 0 ? n - 7 : n;
    const int64_t wide = (end - begin + 15) / 16 * 16, stride = wide + GAP,
                  rows_n = (m / PER_LINE + lines) * places;
    guarded x = memory(c, rows_n * n, 1), y = memory(c, (m - 1) * stride + wide, 4);
    guarded w = memory(c, mk_taps_bytes(c->kern, n, lines, width), 1);
    guarded from = memory(c, (n + 15) / 16 * 16, 4);
    const uint8_t *rows[M * MAX_TAPS];
    int8_t *weights = malloc((size_t)(n * taps));
    if (weights == NULL) exit(EXIT_FAILURE);
    fill_bytes(x.data, rows_n * n);
    fill_bytes(weights, n * taps);
    fill_words(from.data, n);
    c->kern->int_pack_taps(n, lines, width, weights, w.data);
    for (int64_t i = 0; i < m * taps; i++) {
        const int64_t window = i / taps, line = window / PER_LINE + i % taps / width;
        const int64_t place = window % PER_LINE * step + i % width;
        rows[i] = (const uint8_t *)x.data + (line * places + place) * n;
    }
    const mk_taps f = {n, lines, width, w.data, starts ? from.data : NULL};
    int32_t *sums = y.data;
    if (m > 1) sums[wide] = 77;
    c->kern->int_taps(m, rows, &f, begin, end, sums, stride);
    if (m > 1 && sums[wide] != 77) fail_check(c, "writes between rows");
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = begin; j < end; j++) {
            int32_t want = starts ? f.start[j] : 0;
            for (int64_t t = 0; t < taps; t++)
                want += rows[i * taps + t][j] * weights[j * taps + t];
            same_words(c, sums + i * stride + j - begin, &want, 1);
        }
    free(weights);
    release(c, &x), release(c, &w), release(c, &y), release(c, &from);
}

static void check_int_taps(check *c) {
    static const int64_t shapes[][2] = {{3, 3}, {5, 5}, {1, 3}, {7, 5}, {4, 1}, {2, 7}, {9, 3}};
    for (int64_t n = 1; n < 150; n += n < 70 ? 1 : 13)
        for (int i = 0; i < COUNT(shapes); i++)
            int_taps(c, n, shapes[i][0], shapes[i][1], 1 + (n + i) % 3 / 2, (n + i) % 2);
}

static void int_scale(check *c, int64_t n, int64_t step, bool bias) {
    guarded x = memory(c, n, 4), y = floats(c, n), scale = floats(c, n), add = floats(c, n);
    float *want = malloc((size_t)n * sizeof *want);
    const int32_t *words = x.data;
    const float *scales = scale.data, *adds = add.data;
    if (want == NULL) exit(EXIT_FAILURE);
    fill_words(x.data, n);
    fill_floats(scale.data, n, PLAIN);
    fill_floats(add.data, n, PLAIN);
    for (int64_t i = 0; i < n; i++) {
        want[i] = (float)words[i] * scales[i * step];
        if (bias) want[i] += adds[i];
    }
    c->kern->int_scale(n, x.data, scales, step, bias ? adds : NULL, y.data);
    same_bits(c, y.data, want, n, "other bits");
    free(want);
    release(c, &x), release(c, &y), release(c, &scale), release(c, &add);
}

static void check_int_scale(check *c) {
    for (int64_t n = 1; n < 80; n++)
        for (int how = 0; how < 4; how++)
            int_scale(c, n, how & 1, how >> 1 & 1);
}

/* Values of a column: in the middle of two integers where scales are powers of two, and near it. */
typedef struct rounding_case {
    int64_t m, n;
    float by, plus;
    bool is_signed, steps, adds, odd; /* odd: infinite and NaN scales, too */
} rounding_case;

static void fill_rounding(const rounding_case *r, int64_t x_stride, int32_t *x, float *scale,
                          float *add) {
    static const float of[] = {0.25f, 0.0317f, 1, 1e-3f, 0.7f};
    fill_words(x, (r->m - 1) * x_stride + r->n);
    for (int64_t i = 0; i < r->m; i++)
        for (int64_t j = 0; j < r->n; j++)
            x[i * x_stride + j] >>= (i + j) % 3 == 0 ? 0 : 8;
    for (int64_t j = 0; j < r->n; j++) {
        scale[j] = of[j % COUNT(of)] * (r->by != 0 && isfinite(r->by) ? r->by : 1);
        add[j] = (float)(j % 9 - 4) * (j % 4 == 3 ? 1e4f : 12.5f) * scale[j];
        if (r->odd && j % 7 == 6) scale[j] = j % 2 ? INFINITY : NAN;
        if (r->odd && j % 11 == 3) add[j] = j % 2 ? -INFINITY : NAN;
    }
}

static void int_round(check *c, const rounding_case *r) {
    const int64_t n = r->n, x_stride = n + 3, y_stride = n + 5;
    guarded x = memory(c, (r->m - 1) * x_stride + n, 4),
            y = memory(c, (r->m - 1) * y_stride + n, 1);
    guarded scale = floats(c, n), add = floats(c, n), factor = floats(c, n), plus = floats(c, n),
            sure = floats(c, n);
    const float *scales = scale.data, *adds = add.data;
    uint8_t *bytes = y.data;
    mk_int_rounding to = {.by = mk_rounding_of(&r->by, &r->plus, r->is_signed),
                          .scale = scales,
                          .bias = r->adds ? adds : NULL,
                          .step = r->steps,
                          .factor = factor.data,
                          .plus = plus.data,
                          .sure = sure.data};
    fill_rounding(r, x_stride, x.data, scale.data, add.data);
    to.quick = mk_int_rounding_set(&to, n, factor.data, plus.data, sure.data);
    if (r->m > 1) bytes[n] = 77;
    c->kern->int_round(r->m, n, x.data, x_stride, &to, bytes, y_stride);
    if (r->m > 1 && bytes[n] != 77) fail_check(c, "writes between rows");
    for (int64_t i = 0; i < r->m * n; i++) {
        const int64_t j = i % n;
        float v = (float)((const int32_t *)x.data)[i / n * x_stride + j] * scales[j * to.step];
        if (r->adds) v += adds[j];
        v = rintf(v / r->by) + r->plus;
        int32_t want = isnan(v) ? 0 : (int32_t)fminf(fmaxf(truncf(v), to.by.lo), to.by.hi);
        uint8_t byte = bytes[i / n * y_stride + j];
        int32_t got = r->is_signed ? (int8_t)byte : byte;
        same_words(c, &got, &want, 1);
    }
    release(c, &x), release(c, &y), release(c, &scale), release(c, &add);
    release(c, &factor), release(c, &plus), release(c, &sure);
}

static void check_int_round(check *c) {
    static const float by[] = {1, 0.5f, 0.0713f, 1e-30f, 0x1p-130f, 1e30f, -3, 0, 0.25f, 0.013f};
    static const float plus[] = {0, 128, -128, 255, 0.5f, 1000, 3};
    for (int64_t n = 1; n < 150; n += n < 70 ? 1 : 9)
        for (int k = 0; k < 16; k++)
            int_round(c, &(rounding_case){.m = 1 + (n + k) % 5,
                                          .n = n,
                                          .by = by[(n + k) % COUNT(by)],
                                          .plus = plus[(n / 3 + k) % COUNT(plus)],
                                          .is_signed = k & 1,
                                          .steps = k & 2,
                                          .adds = k & 4,
                                          .odd = (n + k / 8) % 2});
}

static void check_int_from_f32(check *c) {
    static const float special[] = {NAN,    INFINITY, -INFINITY, -0.0f,  255.5f, 256,
                                    127.9f, -128.9f,  -129,      3e38f,  1e-40f, 0.99f,
                                    -0.99f, 254.999f, 128,       -1e30f, 1};
    for (int64_t n = 1; n < 150; n++)
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            guarded x = floats(c, n), y = memory(c, n, 1);
            float *in = x.data;
            for (int64_t i = 0; i < n; i++)
                in[i] = i % 3 == 0 ? special[i / 3 % COUNT(special)] : random_float() * 300;
            c->kern->int_from_f32(n, is_signed != 0, in, y.data);
            for (int64_t i = 0; i < n; i++) {
                float lo = is_signed ? -128 : 0, hi = is_signed ? 127 : 255;
                float v = isnan(in[i]) ? 0 : fminf(fmaxf(truncf(in[i]), lo), hi);
                int32_t want = (int32_t)v;
                int32_t got = is_signed ? ((int8_t *)y.data)[i] : ((uint8_t *)y.data)[i];
                same_words(c, &got, &want, 1);
            }
            release(c, &x), release(c, &y);
        }
}

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/integer/integer_list.h"
#undef KERN
};

const kcheck_family kcheck_integer = {rows, COUNT(rows), NULL};
