/* Checks of matmuls with int8 activations. */
#include "cpu/kcheck.h"
#include "cpu/kern/int8/int8.h"

/* Rows of x in guarded memory. */
typedef struct xmatrix {
    mk_xrows rows;
    guarded codes, scales, sums, winograd;
} xmatrix;

static xmatrix xmatrix_new(const check *c, int64_t m, int64_t k, int group) {
    xmatrix x = {.codes = guarded_new((size_t)(m * k), c->where),
                 .scales = floats(c, m * k / group),
                 .sums = floats(c, m * k / group),
                 .winograd = floats(c, m * k / group)};
    x.rows = (mk_xrows){k, group, x.codes.data, x.scales.data, x.sums.data, x.winograd.data};
    return x;
}

static void xmatrix_free(check *c, xmatrix *x) {
    release(c, &x->codes), release(c, &x->scales), release(c, &x->sums), release(c, &x->winograd);
}

/* The largest code of x whose sign is not that of its group's largest element. */
static int reach_of(int max) {
    return mk_has_winograd(max) ? 127 - max : 127;
}

/* How far an element of a group of x may be from its quantised value. */
static double step_of(const float *x, int group, int max_code) {
    double above = 0, below = 0;
    for (int i = 0; i < group; i++) {
        above = fmax(above, (double)x[i]);
        below = fmax(below, -(double)x[i]);
    }
    double max = fmax(above, below), other = fmin(above, below);
    if (max < 0x1p-100) return max; /* counts as 0 */
    double step =
        mk_has_winograd(max_code) ? fmax(max / 128, other / reach_of(max_code)) : max / 127;
    return step * (0.5 + 0x1p-14);
}

/* The offset of a group of x for Winograd tiles. */
static int32_t winograd_of(const int8_t *codes, int group) {
    int32_t sum = 0;
    for (int l = 0; l < group; l++)
        if (l / 4 % 2 == 0) sum += (codes[l] + 128) * codes[l + 4];
    return sum;
}

/* Groups at the limits of codes: all equal, of both signs and the largest magnitude, with a NaN
 * that has a sign. */
static void fill_odd_groups(float *x, int group) {
    for (int i = 0; i < group; i++) {
        x[i] = -1.5f;
        x[group + i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX;
        x[2 * group + i] = i == 5 ? copysignf(NAN, -1) : 1;
    }
}

static void quantise_rows(check *c, int64_t m, int64_t k, int group, int max, kind kinds) {
    guarded x = floats(c, m * k);
    float *px = x.data;
    fill_floats(px, m * k, kinds);
    if (kinds == SPARSE && m > 1) px[k] = NAN, px[k / 2] = -INFINITY;
    if (kinds == PLAIN && m > 1) fill_odd_groups(px, group);
    xmatrix got = xmatrix_new(c, m, k, group), want = xmatrix_new(c, m, k, group);
    c->kern->int8_quantize(m, px, k, max, &got.rows);
    mk_kernels ref = reference();
    ref.int8_quantize(m, px, k, max, &want.rows);
    c->cases += 2;
    if (memcmp(got.codes.data, want.codes.data, (size_t)(m * k)) != 0)
        fail_check(c, "codes differ from the reference");
    for (int64_t g = 0; g < m * k / group; g++) {
        float s = got.rows.scales[g], other = want.rows.scales[g];
        if (isnan(s) && isnan(other) && isnan(got.rows.sums[g])) continue;
        same_bits(c, &s, &other, 1, "scales differ from the reference");
        same_bits(c, &got.rows.sums[g], &want.rows.sums[g], 1, "sums differ from the reference");
        double total = 0, step = step_of(px + g * group, group, max);
        const int8_t *codes = got.rows.codes + g * group;
        for (int i = 0; i < group; i++) {
            int at = max == 15 || max == MK_E2M1_MAX ? i / 8 * 8 + i % 2 * 4 + i % 8 / 2 : i;
            double back = (double)s * codes[at];
            judge(c, back, (double)px[g * group + i], step);
            if (codes[at] > reach_of(max)) fail_check(c, "leaves no room for codes of weights");
            total += codes[at];
        }
        if (got.rows.winograd[g] != winograd_of(codes, group)) fail_check(c, "winograd is wrong");
        judge(c, (double)got.rows.sums[g], (double)s * total, UNIT * fabs((double)s * total));
    }
    xmatrix_free(c, &got);
    xmatrix_free(c, &want);
    release(c, &x);
}

static void check_int8_quantize(check *c) {
    static const int max[] = {3, 7, 15, MK_E2M1_MAX, 31, 255};
    for (int group = 16; group <= 128; group *= 2)
        for (int kinds = 0; kinds < KINDS; kinds++)
            for (int i = 0; i < COUNT(max); i++) {
                quantise_rows(c, 3, 384, group, max[i], (kind)kinds);
                quantise_rows(c, 1, group, group, max[i], (kind)kinds);
            }
}

/* Row r of the weights in f64: values, and the sizes of the terms in their rounding. */
static void weights_of(const qmatrix *w, int64_t r, double *values, double *sizes) {
    int64_t k = w->rows.k, group = w->rows.group;
    for (int64_t l = 0; l < k; l++) {
        values[l] = qmatrix_value(w, r, l, &sizes[l]);
        if (w->rows.mode == MK_AFFINE) continue;
        uint8_t scale = ((const uint8_t *)w->rows.scales)[(r * k + l) / group];
        float s = w->rows.mode == MK_NVFP4 ? mk_from_e4m3(scale) : mk_from_e8m0(scale);
        sizes[l] = 18 * (double)s; /* half the scale times a code up to 24, less 12 of it */
    }
}

/* Compares with matmuls in f64, within the error of quantising x and of rounding sums. */
static void judge_int8(check *c, const qmatrix *w, int64_t m, const float *x, const float *y) {
    int64_t n = w->n, k = w->rows.k, group = w->rows.group, groups = k / group;
    int max = mk_max_code(w->rows.mode, w->rows.bits);
    double *values = malloc((size_t)(2 * k + m * groups) * sizeof *values);
    if (values == NULL) exit(EXIT_FAILURE);
    double *sizes = values + k, *steps = sizes + k;
    for (int64_t g = 0; g < m * groups; g++)
        steps[g] = step_of(x + g * group, (int)group, max);
    for (int64_t r = 0; r < n; r++) {
        weights_of(w, r, values, sizes);
        for (int64_t i = 0; i < m; i++) {
            double sum = 0, size = 0, step = 0;
            for (int64_t l = 0; l < k; l++) {
                double one = steps[i * groups + l / group], xl = (double)x[i * k + l];
                sum += values[l] * xl;
                step += fabs(values[l]) * one;
                size += sizes[l] * (fabs(xl) + one);
            }
            judge(c, (double)y[i * n + r], sum, step + (double)(3 * groups + 6) * UNIT * size);
        }
    }
    free(values);
}

static int64_t tile_rows(int64_t n) {
    return (n + MK_TILE - 1) / MK_TILE * MK_TILE;
}

/* Turns n rows of tiles into Winograd tiles (kern/int8/int8_list.h). */
static void make_winograd(int64_t n, int64_t k, int64_t group, mk_tiles *tiles) {
    memset(tiles->offsets, 0, (size_t)(tile_rows(n) * k / group) * sizeof *tiles->offsets);
    for (int64_t at = 0; at < tile_rows(n) * k; at += 4) { /* a word: [tile, word, row, 4] */
        int64_t word = at / (4 * MK_TILE), row = at / 4 % MK_TILE;
        if (word % (k / 4) % 2 == 0 || word / (k / 4) * MK_TILE + row >= n) continue;
        uint8_t *odd = tiles->codes + at, *even = odd - 4 * MK_TILE;
        int32_t *offset = tiles->offsets + word * 4 / group * MK_TILE + row;
        for (int i = 0; i < 4; i++) {
            odd[i] |= 0x80;
            *offset -= even[i] * odd[i];
        }
    }
    tiles->winograd = true;
}

/* Packed rows are the reference's, also Winograd tiles if the set has them, and their matmul is
 * right. */
static void check_tiles(check *c, const qmatrix *w, int64_t m, const mk_xrows *x, const float *y,
                        bool winograd) {
    int64_t n = w->n, k = w->rows.k, group = w->rows.group, rows = tile_rows(n);
    guarded codes = guarded_new((size_t)(rows * k), c->where);
    guarded scales = floats(c, rows * k / group * 2), by_tiles = floats(c, m * n);
    guarded codes_ref = guarded_new((size_t)(rows * k), c->where);
    guarded scales_ref = floats(c, rows * k / group * 2);
    guarded offsets = floats(c, rows * k / group), offsets_ref = floats(c, rows * k / group);
    mk_xrows rows_x = *x;
    if (!winograd) rows_x.winograd = NULL;
    mk_tiles got = {codes.data, scales.data, 0, winograd, winograd ? offsets.data : NULL};
    mk_tiles want = {codes_ref.data, scales_ref.data, 0, winograd, offsets_ref.data};
    mk_kernels ref = reference();
    c->kern->int8_pack(&w->rows, n, &got);
    ref.int8_pack(&w->rows, n, &want);
    if (got.winograd) make_winograd(n, k, group, &want);
    c->cases++;
    if (got.winograd && memcmp(got.offsets, want.offsets, (size_t)(rows * k / group) * 4) != 0)
        fail_check(c, "offsets are wrong");
    if (memcmp(got.codes, want.codes, (size_t)(rows * k)) != 0 || got.max != want.max)
        fail_check(c, "tiles differ from the reference");
    same_bits(c, got.scales, want.scales, rows * k / group * 2, "their scales differ");
    c->kern->int8_matmul(m, &rows_x, n, &got, by_tiles.data, n);
    same_bits(c, y, by_tiles.data, m * n, "tiles give other bits");
    release(c, &codes), release(c, &scales), release(c, &by_tiles);
    release(c, &codes_ref), release(c, &scales_ref);
    release(c, &offsets), release(c, &offsets_ref);
}

/* largest: all codes of weights and x are the largest, and so are sums. */
static void matmul_int8(check *c, const mk_qrows *format, int64_t m, int64_t n, int64_t k,
                        kind kinds, bool largest) {
    qmatrix w =
        qmatrix_new(format->mode, format->bits, format->group, format->type, n, k, c->where);
    guarded x = floats(c, m * k), y = floats(c, m * n);
    float *other = malloc((size_t)(m * n) * sizeof *other);
    if (other == NULL) exit(EXIT_FAILURE);
    fill_floats(x.data, m * k, kinds);
    for (int64_t i = 0; largest && i < m * k; i++)
        ((float *)x.data)[i] = -1;
    if (largest) memset(w.codes.data, w.rows.mode == MK_AFFINE ? 0xff : 0x77, w.codes.bytes);
    xmatrix q = xmatrix_new(c, m, k, format->group);
    c->kern->int8_quantize(m, x.data, k, mk_max_code(format->mode, format->bits), &q.rows);
    c->kern->int8_matvec(&w.rows, n, m, &q.rows, y.data, n);
    judge_int8(c, &w, m, x.data, y.data);
    mk_kernels ref = reference();
    if (c->kern->int8_matvec != ref.int8_matvec) {
        ref.int8_matvec(&w.rows, n, m, &q.rows, other, n);
        same_bits(c, other, y.data, m * n, "differs from the reference");
    }
    check_tiles(c, &w, m, &q.rows, y.data, false);
    check_tiles(c, &w, m, &q.rows, y.data, true);
    free(other);
    xmatrix_free(c, &q);
    release(c, &x), release(c, &y);
    if (!qmatrix_free(&w)) fail_check(c, "wrote outside");
}

/* Copies n contiguous rows of `bytes` bytes to rows with gaps. */
static guarded lay_apart(const check *c, const guarded *from, int64_t n, int64_t bytes,
                         int64_t apart) {
    guarded to = guarded_new((size_t)((n - 1) * apart + bytes), c->where);
    for (int64_t r = 0; r < n; r++)
        memcpy((char *)to.data + r * apart, (char *)from->data + r * bytes, (size_t)bytes);
    return to;
}

/* Rows of weights, scales and results with gaps between them give the bits of contiguous ones. */
static void matmul_apart(check *c, const mk_qrows *format, int64_t m, int64_t n, int64_t k,
                         int64_t apart) {
    qmatrix w =
        qmatrix_new(format->mode, format->bits, format->group, format->type, n, k, c->where);
    int64_t words = k * format->bits / 32;
    int64_t size = format->mode == MK_AFFINE ? (int64_t)mk_type_bytes(format->type) : 1;
    int64_t groups = k / format->group, groups_apart = groups + 5;
    guarded codes = lay_apart(c, &w.codes, n, words * 4, apart * 4);
    guarded scales = lay_apart(c, &w.scales, n, groups * size, groups_apart * size);
    guarded biases = lay_apart(c, &w.biases, n, groups * size, groups_apart * size);
    int64_t stride = n + 3;
    guarded x = floats(c, m * k), y = floats(c, (m - 1) * stride + n);
    float *side_by_side = malloc((size_t)(m * n) * sizeof *side_by_side);
    if (side_by_side == NULL) exit(EXIT_FAILURE);
    fill_floats(x.data, m * k, PLAIN);
    xmatrix q = xmatrix_new(c, m, k, format->group);
    c->kern->int8_quantize(m, x.data, k, mk_max_code(format->mode, format->bits), &q.rows);
    c->kern->int8_matvec(&w.rows, n, m, &q.rows, side_by_side, n);
    qmatrix crowded = w;
    crowded.rows.codes = codes.data;
    crowded.rows.codes_stride = apart;
    crowded.rows.scales = scales.data;
    crowded.rows.biases = w.rows.biases != NULL ? biases.data : NULL;
    crowded.rows.scales_stride = groups_apart;
    for (int64_t i = 0; i < (m - 1) * stride + n; i++)
        ((float *)y.data)[i] = 7;
    c->kern->int8_matvec(&crowded.rows, n, m, &q.rows, y.data, stride);
    for (int64_t i = 0; i < m; i++) {
        same_bits(c, side_by_side + i * n, (float *)y.data + i * stride, n,
                  "rows that lie apart give other bits");
        for (int64_t j = n; i < m - 1 && j < stride; j++)
            if (((float *)y.data)[i * stride + j] != 7) fail_check(c, "wrote between rows of y");
    }
    check_tiles(c, &crowded, m, &q.rows, side_by_side, true);
    free(side_by_side);
    xmatrix_free(c, &q);
    release(c, &x), release(c, &y), release(c, &codes), release(c, &scales), release(c, &biases);
    if (!qmatrix_free(&w)) fail_check(c, "wrote outside");
}

/* The same with rows a multiple of 4 KiB apart. */
static void matmul_crowded(check *c, const mk_qrows *format, int64_t m, int64_t n, int64_t k) {
    int64_t words = k * format->bits / 32;
    matmul_apart(c, format, m, n, k, (words + 1023) / 1024 * 1024);
}

static void check_int8_format(check *c, const mk_qrows *format) {
    static const int64_t rows_m[] = {1, 2, 3, 4, 5, 9, 50}, rows_n[] = {1, 16, 35, 48, 5, 32, 66};
    static const int64_t lengths[] = {128, 384, 640, 1152};
    for (int i = 0; i < 2 * COUNT(rows_m); i++)
        matmul_int8(c, format, rows_m[i % COUNT(rows_m)], rows_n[3 * i % COUNT(rows_n)],
                    lengths[i % COUNT(lengths)], (kind)(i % KINDS), false);
    matmul_int8(c, format, 3, 17, format->group, PLAIN, false);
    matmul_int8(c, format, 1, 20, 3 * format->group, PLAIN, false);
    matmul_int8(c, format, 2, 33, 19 * format->group, PLAIN, false);
    matmul_int8(c, format, 3, 17, 4096 + 2 * format->group, PLAIN, false);
    matmul_int8(c, format, 1, 20, 5 * format->group, PLAIN, false);
    for (int i = 0; i < 2 * COUNT(rows_m); i++)
        matmul_crowded(c, format, rows_m[i % COUNT(rows_m)], rows_n[3 * i % COUNT(rows_n)],
                       (4 * i * i / 3 + 1) * format->group);
    /* 6 to 8 rows: whole stages of scales, whole copies, and a copy and a group. */
    for (int64_t m = 6; m <= 8; m++) {
        matmul_int8(c, format, m, 35, (m - 5) * 16 * format->group, PLAIN, false);
        matmul_crowded(c, format, m, 35, 1024);
        matmul_crowded(c, format, m, 35, 512 + format->group);
    }
    /* Fewer rows of weights than one block has, and rows with small gaps. */
    static const int64_t few_n[] = {1, 5, 15};
    for (int64_t m = 1; m <= 8; m++) {
        int64_t k = 512 + format->group;
        matmul_int8(c, format, m, few_n[m % COUNT(few_n)], k, PLAIN, false);
        matmul_apart(c, format, m, m % 2 == 0 ? 32 : 37, k, k * format->bits / 32 + 5);
    }
    matmul_int8(c, format, 1, 17, 384, PLAIN, true);
    matmul_int8(c, format, 9, 17, 384, PLAIN, true);
}

/* One row of x, which may have kernels of its own for each format of scales: several blocks of rows
 * of weights and the rest, few and many groups. */
static void check_one_row(check *c, const mk_qrows *format) {
    static const int64_t groups[] = {1, 7, 18, 29, 66};
    const int64_t max = 512 * format->group < 32768 ? 512 * format->group : 32768;
    for (int i = 0; i < COUNT(groups); i++) {
        matmul_int8(c, format, 1, 33, groups[i] * format->group, PLAIN, false);
        matmul_crowded(c, format, 1, 53, groups[i] * format->group);
    }
    matmul_int8(c, format, 1, 16, max, PLAIN, false);
    matmul_int8(c, format, 1, 16, max + format->group, PLAIN, false);
    for (int i = 0; i < KINDS; i++)
        matmul_int8(c, format, 1, 17, 640, (kind)i, false);
    matmul_int8(c, format, 1, 17, 640, PLAIN, true);
}

/* Several rows of x, likewise: as many as a block has, and more. */
static void check_few_rows(check *c, const mk_qrows *format) {
    static const int64_t rows[] = {2, 4, 5, 7, 8, 9, 16, 19};
    static const int64_t groups[] = {18, 1, 3, 16, 4, 3, 2, 33};
    for (int i = 0; i < COUNT(rows); i++) {
        matmul_int8(c, format, rows[i], i % 2 == 0 ? 33 : 48, groups[i] * format->group,
                    (kind)(i % KINDS), false);
        matmul_crowded(c, format, rows[i], i % 2 == 0 ? 32 : 53, groups[i] * format->group);
    }
    matmul_int8(c, format, 4, 17, 640, PLAIN, true);
    matmul_int8(c, format, 6, 17, 640, PLAIN, true);
}

static void check_rows(check *c, const void *format) {
    check_one_row(c, format);
    check_few_rows(c, format);
}

/* Sets above the one that has variants have the machine's. */
static void check_variants(check *c, const mk_qrows *format) {
    static const variant variants[] = {
#define VARIANT(isa, fill) {#isa, fill},
#include "cpu/kern/variant_list.h"
        {"", NULL}};
    in_variants(c, variants, check_rows, format);
}

static void check_int8_matvec(check *c) {
    static const int bits[] = {2, 3, 4, 5, 6, 8};
    for (int b = 0; b < COUNT(bits); b++)
        for (int group = 32; group <= 128; group *= 2)
            check_int8_format(c, &(mk_qrows){.mode = MK_AFFINE,
                                             .bits = bits[b],
                                             .group = group,
                                             .type = (mk_type)((b + group / 32) % 3)});
    for (int group = 32; group <= 128; group *= 2)
        for (int i = 0; i < 6; i++)
            check_variants(c, &(mk_qrows){.mode = MK_AFFINE,
                                          .bits = i < 3 ? 4 : 8,
                                          .group = group,
                                          .type = (mk_type)(i % 3)});
    check_variants(c, &(mk_qrows){.mode = MK_MXFP4, .bits = 4, .group = 32});
    check_int8_format(c, &(mk_qrows){.mode = MK_MXFP4, .bits = 4, .group = 32});
    check_int8_format(c, &(mk_qrows){.mode = MK_NVFP4, .bits = 4, .group = 16});
}

#define check_int8_pack with_another
#define check_int8_matmul with_another

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/int8/int8_list.h"
#undef KERN
};

static bool same(const mk_kernels *a, const mk_kernels *b) {
    bool same = a->int8_winograd == b->int8_winograd;
#define KERN(name, result, args) same = same && a->name == b->name;
#include "cpu/kern/int8/int8_list.h"
#undef KERN
    return same;
}

const kcheck_family kcheck_int8 = {rows, COUNT(rows), same};
