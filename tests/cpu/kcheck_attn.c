/* Checks of attention. */
#include "cpu/kcheck.h"
#include "cpu/kern/attn/attn.h"

/* Numbers below 2^-125, many of them subnormal. */
static void fill_tiny(uint16_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint16_t)(random_bits() & 0x80ff);
}

/* The largest of n magnitudes, `step` apart. */
static double max_of(int64_t n, const uint16_t *x, int64_t step) {
    double max = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, fabs((double)mk_from_bf16(x[i * step])));
    return max;
}

/* How far a sum of n products may be off if elements are rounded by up to `a_unit` and `b_unit` of
 * the largest. */
static double rounding_of(int64_t n, const uint16_t *a, double a_unit, const uint16_t *b,
                          int64_t b_step, double b_unit) {
    double a_off = a_unit * max_of(n, a, 1), b_off = b_unit * max_of(n, b, b_step), sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fabs((double)mk_from_bf16(a[i])) * b_off +
               fabs((double)mk_from_bf16(b[i * b_step])) * a_off + a_off * b_off;
    return sum;
}

/* The rounding that attn_list.h allows a score. */
static double score_rounding(int64_t d, const uint16_t *q, const uint16_t *k) {
    double sum = 0;
    for (int64_t l = 0; l < d; l += MK_INT16_PART) {
        int64_t n = d - l < MK_INT16_PART ? d - l : MK_INT16_PART;
        sum += rounding_of(n, q + l, 0x1p-12, k + l, 1, 0x1p-12);
    }
    return sum;
}

/* The rounding that it allows a sum of values. */
static double value_rounding(int64_t n, int64_t together, const uint16_t *w, const uint16_t *v,
                             int64_t v_stride) {
    double sum = 0;
    for (int64_t j = 0; j + together <= n; j += together) {
        bool all = true;
        for (int64_t i = j; i < j + together; i++)
            all = all && mk_from_bf16(w[i]) != 0;
        if (all) sum += rounding_of(together, w + j, 0x1p-12, v + j * v_stride, v_stride, 0x1p-14);
    }
    return sum;
}

void scores_of(check *c, matmul_bf16 matmul, int64_t m, int64_t n, int64_t d, kind kinds) {
    guarded q = guarded_new((size_t)(m * d) * sizeof(uint16_t), c->where);
    guarded k = guarded_new((size_t)(n * d) * sizeof(uint16_t), c->where), y = floats(c, m * n);
    const uint16_t *pq = q.data, *pk = k.data;
    const float *got = y.data;
    fill_bf16(q.data, m * d, kinds);
    if (kinds == TINY) fill_tiny(q.data, m * d);
    fill_bf16(k.data, n * d, PLAIN);
    matmul(m, n, d, pq, d, pk, d, y.data, n);
    for (int64_t i = 0; i < m * n; i++) {
        const uint16_t *a = pq + i / n * d, *b = pk + i % n * d;
        double sum = 0, size = 0;
        for (int64_t l = 0; l < d; l++) {
            double term = (double)mk_from_bf16(a[l]) * (double)mk_from_bf16(b[l]);
            sum += term;
            size += fabs(term);
        }
        double bound = (double)(d + 4) * UNIT * size;
        if (c->kern->int16 && matmul == c->kern->attn_scores) bound += score_rounding(d, a, b);
        if (kinds != TINY) judge(c, (double)got[i], sum, bound);
        float alone;
        matmul(1, 1, d, a, d, b, d, &alone, 1);
        same_bits(c, &alone, got + i, 1, "a block differs from its elements");
    }
    release(c, &q), release(c, &k), release(c, &y);
}

void strides_of(check *c, matmul_bf16 matmul, int64_t m, int64_t n, int64_t k) {
    const int64_t x_stride = k + 6, w_stride = k + 10, y_stride = n + 5;
    guarded x = guarded_new((size_t)(m * x_stride) * sizeof(uint16_t), c->where);
    guarded w = guarded_new((size_t)(n * w_stride) * sizeof(uint16_t), c->where);
    guarded y = floats(c, m * y_stride);
    uint16_t *near = malloc((size_t)((m + n) * k) * sizeof *near);
    float *want = malloc((size_t)(m * n) * sizeof *want), *got = y.data;
    if (near == NULL || want == NULL) exit(EXIT_FAILURE);
    fill_bf16(x.data, m * x_stride, PLAIN);
    fill_bf16(w.data, n * w_stride, PLAIN);
    for (int64_t i = 0; i < m + n; i++)
        memcpy(near + i * k,
               i < m ? (uint16_t *)x.data + i * x_stride : (uint16_t *)w.data + (i - m) * w_stride,
               (size_t)k * sizeof *near);
    for (int64_t i = 0; i < m * y_stride; i++)
        got[i] = 7;
    matmul(m, n, k, x.data, x_stride, w.data, w_stride, got, y_stride);
    matmul(m, n, k, near, k, near + m * k, k, want, n);
    for (int64_t i = 0; i < m; i++) {
        same_bits(c, want + i * n, got + i * y_stride, n,
                  "rows with gaps between them give other bits");
        for (int64_t j = n; j < y_stride; j++)
            if (got[i * y_stride + j] != 7) fail_check(c, "wrote between rows");
    }
    free(near);
    free(want);
    release(c, &x), release(c, &w), release(c, &y);
}

/* NaN or infinity in a query and in a key makes their row's scores NaN, and leaves the bits of
 * others. */
static void lost_scores(check *c, int64_t m, int64_t n, int64_t d) {
    guarded q = guarded_new((size_t)(m * d) * sizeof(uint16_t), c->where);
    guarded k = guarded_new((size_t)(n * d) * sizeof(uint16_t), c->where);
    guarded y = floats(c, m * n), want = floats(c, m * n);
    fill_bf16(q.data, m * d, PLAIN);
    fill_bf16(k.data, n * d, PLAIN);
    c->kern->attn_scores(m, n, d, q.data, d, k.data, d, want.data, n);
    ((uint16_t *)k.data)[n / 2 * d + d - 1] = 0x7fc0;
    ((uint16_t *)q.data)[(m - 1) * d] = 0x7fc0;
    c->kern->attn_scores(m, n, d, q.data, d, k.data, d, y.data, n);
    for (int64_t i = 0; i < m * n; i++) {
        float *got = (float *)y.data + i;
        if (i % n != n / 2 && i / n != m - 1)
            same_bits(c, got, (float *)want.data + i, 1, "a NaN reaches another row");
        else if (!isnan(*got))
            fail_check(c, "NaN is lost");
    }
    release(c, &q), release(c, &k), release(c, &y), release(c, &want);
}

/* Variants of multiplying pairs of bf16. */
static const variant attention_variants[] = {
#define VARIANT(isa, fill) {#isa, fill},
#include "cpu/kern/attn/attn_variant_list.h"
    {"", NULL}};

/* The largest integers: all elements have all bits, of one sign and of two. Only a sum's rounding
 * is lost. */
static void max_scores(check *c, int64_t m, int64_t n, int64_t d) {
    uint16_t *q = malloc((size_t)((m + n) * d) * sizeof *q), *k = q + m * d;
    float *y = malloc((size_t)(m * n) * sizeof *y);
    if (q == NULL || y == NULL) exit(EXIT_FAILURE);
    for (int64_t i = 0; i < m * d; i++)
        q[i] = i / d % 2 ? 0xbf7f : 0x3f7f;
    for (int64_t i = 0; i < n * d; i++)
        k[i] = 0x3f7f;
    c->kern->attn_scores(m, n, d, q, d, k, d, y, n);
    double want = (double)d * 0.99609375 * 0.99609375;
    for (int64_t i = 0; i < m * n; i++)
        judge(c, (double)y[i], i / n % 2 ? -want : want, (double)(d + 4) * UNIT * want);
    free(q);
    free(y);
}

static void scores_of_variant(check *c, const void *unused) {
    (void)unused;
    static const int64_t sizes[] = {2, 8, 10, 32, 66, 128, 130, 258, 514};
    scores_of(c, c->kern->attn_scores, 49, 35, 512, PLAIN); /* more rows than one block has */
    scores_of(c, c->kern->attn_scores, 193, 17, 128, PLAIN);
    max_scores(c, 3, 17, 128);
    max_scores(c, 7, 33, 256);
    for (int64_t m = 1; m < 20; m += m < 13 ? 1 : 5) { /* blocks of each number of rows */
        scores_of(c, c->kern->attn_scores, m, 20, 80, CANCELLING);
        scores_of(c, c->kern->attn_scores, m, 40, 96, TINY);
        scores_of(c, c->kern->attn_scores, m, 200, 64, PLAIN);
        strides_of(c, c->kern->attn_scores, m, 63, 128);
    }
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes); l++) {
                scores_of(c, c->kern->attn_scores, sizes_m[i], sizes_n[j], sizes[l],
                          judged[(i + j + l) % COUNT(judged)]);
                scores_of(c, c->kern->attn_scores, sizes_m[i], sizes_n[j], sizes[l], TINY);
                lost_scores(c, sizes_m[i], sizes_n[j], sizes[l]);
            }
}

static void check_attn_scores(check *c) {
    in_variants(c, attention_variants, scores_of_variant, NULL);
}

/* y [m, dv], w [m, n] and v [n, dv], with gaps between rows or not. kinds: of w. Sums of TINY ones
 * are only compared with each other. */
static void values_of(check *c, int64_t m, int64_t n, int64_t dv, kind kinds) {
    int64_t ws = n + m % 2, vs = dv + m % 2;
    guarded w = guarded_new((size_t)((m - 1) * ws + n) * sizeof(uint16_t), c->where);
    guarded v = guarded_new((size_t)((n - 1) * vs + dv) * sizeof(uint16_t), c->where);
    guarded y = floats(c, m * dv);
    float *start = malloc((size_t)(m * dv) * sizeof *start);
    if (start == NULL) exit(EXIT_FAILURE);
    const uint16_t *pw = w.data, *pv = v.data;
    const float *got = y.data;
    fill_bf16(w.data, (m - 1) * ws + n, kinds);
    fill_bf16(v.data, (n - 1) * vs + dv, PLAIN);
    fill_floats(start, m * dv, kinds == TINY ? TINY : PLAIN);
    if (kinds == TINY) fill_tiny(w.data, (m - 1) * ws + n);
    memcpy(y.data, start, (size_t)(m * dv) * sizeof *start);
    c->kern->attn_values(m, n, dv, pw, ws, pv, vs, y.data, dv);
    for (int64_t i = 0; i < m * dv; i++) {
        const uint16_t *a = pw + i / dv * ws, *b = pv + i % dv;
        double sum = (double)start[i], size = fabs(sum);
        for (int64_t j = 0; j < n; j++) {
            double term = (double)mk_from_bf16(a[j]) * (double)mk_from_bf16(b[j * vs]);
            sum += term;
            size += fabs(term);
        }
        int64_t step = c->kern->values_together;
        double bound = (double)(n + 4) * UNIT * size;
        if (c->kern->int16) bound += value_rounding(n, step, a, b, vs);
        if (kinds != TINY) judge(c, (double)got[i], sum, bound);
        int64_t half = n / 2 / step * step; /* alone, in two parts */
        c->kern->attn_values(1, half, 1, a, ws, b, vs, start + i, 1);
        c->kern->attn_values(1, n - half, 1, a + half, ws, b + half * vs, vs, start + i, 1);
    }
    for (int64_t i = 0; i < m * dv; i++) /* -0 may be 0 */
        start[i] += 0.0f, ((float *)y.data)[i] += 0.0f;
    same_bits(c, start, got, m * dv, "a block differs from its elements");
    free(start);
    release(c, &w), release(c, &v), release(c, &y);
}

/* Keys of weight 0 leave the bits, for any finite values. A value of NaN changes its column
 * only. */
static void unseen_values(check *c, int64_t m, int64_t n, int64_t dv) {
    guarded w = guarded_new((size_t)(m * n) * sizeof(uint16_t), c->where);
    guarded v = guarded_new((size_t)(n * dv) * sizeof(uint16_t), c->where);
    guarded y = floats(c, m * dv), want = floats(c, m * dv);
    uint16_t *pw = w.data, *pv = v.data;
    float *got = y.data, *before = want.data;
    int64_t unseen = n / 3;
    fill_bf16(pw, m * n, PLAIN);
    fill_bf16(pv, n * dv, PLAIN);
    for (int64_t i = 0; i < m; i += 2) /* every second row */
        pw[i * n + unseen] = 0;
    memset(got, 0, (size_t)(m * dv) * sizeof *got);
    memset(before, 0, (size_t)(m * dv) * sizeof *before);
    c->kern->attn_values(m, n, dv, pw, n, pv, dv, before, dv);
    for (int64_t l = 0; l < dv; l++)
        pv[unseen * dv + l] = mk_to_bf16(l % 2 ? 1e30f : -3e20f);
    c->kern->attn_values(m, n, dv, pw, n, pv, dv, got, dv);
    for (int64_t i = 0; i < m; i += 2)
        same_bits(c, got + i * dv, before + i * dv, dv, "an unseen key changes bits");
    memcpy(before, got, (size_t)(m * dv) * sizeof *got);
    memset(got, 0, (size_t)(m * dv) * sizeof *got);
    pv[(n - 1) * dv + dv / 2] = 0x7fc0;
    c->kern->attn_values(m, n, dv, pw, n, pv, dv, got, dv);
    for (int64_t i = 0; i < m * dv; i++)
        if (i % dv != dv / 2)
            same_bits(c, got + i, before + i, 1, "a NaN reaches another column");
        else if (!isnan(got[i]) && pw[i / dv * n + n - 1] != 0)
            fail_check(c, "NaN is lost");
    release(c, &w), release(c, &v), release(c, &y), release(c, &want);
}

/* As max_scores, each column of one sign. Some are so large that a code times one step is
 * infinite. */
static void max_values(check *c, int64_t m, int64_t n, int64_t dv) {
    uint16_t *w = malloc((size_t)((m + dv) * n) * sizeof *w), *v = w + m * n;
    float *y = calloc((size_t)(m * dv), sizeof *y);
    if (w == NULL || y == NULL) exit(EXIT_FAILURE);
    for (int64_t i = 0; i < m * n; i++)
        w[i] = i / n % 2 && i % n == 5 ? 0 : 0x3a7f; /* every second row has one key of weight 0 */
    for (int64_t i = 0; i < n * dv; i++)
        v[i] = i % dv % 3 == 0 ? 0x7e7f : i % dv % 3 == 1 ? 0xbf7f : 0x3f7f;
    c->kern->attn_values(m, n, dv, w, n, v, dv, y, dv);
    for (int64_t i = 0; i < m * dv; i++) {
        double keys = (double)(n - (i / dv % 2 ? 1 : 0));
        double want = keys * (double)mk_from_bf16(0x3a7f) * (double)mk_from_bf16(v[i % dv]);
        judge(c, (double)y[i], want, (double)(n + 4) * UNIT * fabs(want));
    }
    free(w);
    free(y);
}

static void values_of_variant(check *c, const void *unused) {
    (void)unused;
    max_values(c, 2, 64, 64);
    max_values(c, 7, 160, 96);
    values_of(c, 97, 70, 66, PLAIN); /* more rows than one block has */
    static const int64_t sizes[] = {1, 2, 7, 64, 65, 130, 259};
    for (int i = 0; i < KINDS; i++) /* whole blocks of many keys, and others */
        for (int64_t m = 31; m < 34; m++)
            values_of(c, m, m % 2 ? 577 : 512, 96, (kind)i);
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes); l++) {
                values_of(c, sizes_m[i], sizes[l], sizes_n[j], judged[(i + j + l) % COUNT(judged)]);
                values_of(c, sizes_m[i], sizes[l], sizes_n[j], TINY);
                unseen_values(c, sizes_m[i], sizes[l], sizes_n[j]);
            }
    if (32 % c->kern->values_together != 0) /* entries that src/session/cache.c drops together */
        fail_check(c, "sums so many keys together that caches do not keep them so");
}

static void check_attn_values(check *c) {
    in_variants(c, attention_variants, values_of_variant, NULL);
}

/* n q8 rows of d numbers each, made by the reference. */
static guarded q8_rows(const check *c, int64_t n, int64_t d, kind kinds) {
    mk_kernels ref = reference();
    guarded rows = guarded_new((size_t)(n * mk_q8_bytes(d)), c->where);
    float *wide = malloc((size_t)d * sizeof *wide);
    if (wide == NULL) exit(EXIT_FAILURE);
    for (int64_t i = 0; i < n; i++) {
        fill_floats(wide, d, kinds);
        ref.narrow_q8(d, wide, (uint8_t *)rows.data + i * mk_q8_bytes(d));
    }
    free(wide);
    return rows;
}

static void scores_q8_of(check *c, int64_t m, int64_t n, int64_t d, kind kinds) {
    int64_t bytes = mk_q8_bytes(d);
    guarded q = q8_rows(c, m, d, kinds), k = q8_rows(c, n, d, PLAIN), y = floats(c, m * n);
    const uint8_t *pq = q.data, *pk = k.data;
    const float *got = y.data;
    c->kern->attn_scores_q8(m, n, d, pq, bytes, pk, bytes, y.data, n);
    for (int64_t i = 0; i < m * n; i++) {
        const uint8_t *a = pq + i / n * bytes, *b = pk + i % n * bytes;
        double sum = 0, size = 0;
        for (int64_t l = 0; l < d; l++) {
            double term = q8_value(a, d, l) * q8_value(b, d, l);
            sum += term;
            size += fabs(term);
        }
        judge(c, (double)got[i], sum, (double)(d + 4) * UNIT * size);
        float alone;
        c->kern->attn_scores_q8(1, 1, d, a, bytes, b, bytes, &alone, 1);
        same_bits(c, &alone, got + i, 1, "a block differs from its elements");
    }
    release(c, &q), release(c, &k), release(c, &y);
}

static void check_attn_scores_q8(check *c) {
    static const int64_t sizes[] = {1, 8, 31, 32, 34, 66, 128, 130, 256, 300};
    static const int64_t rows[] = {1, 2, 3, 5, 13, 50};
    for (int i = 0; i < COUNT(rows); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes); l++)
                scores_q8_of(c, rows[i], sizes_n[j], sizes[l], (kind)((i + j + l) % KINDS));
}

/* y [m, dv] += w [m, n] times q8 rows: each row of w alone, columns and keys in two parts. */
static void values_q8_in_parts(const check *c, int64_t m, int64_t n, int64_t dv, const float *w,
                               const uint8_t *v, float *y) {
    int64_t bytes = mk_q8_bytes(dv), middle = dv / 2 / MK_Q8_GROUP * MK_Q8_GROUP, half = n / 2;
    for (int64_t i = 0; i < m; i++)
        for (int part = 0; part < 4; part++) {
            int64_t column = part % 2 ? middle : 0, j = part / 2 ? half : 0;
            const uint8_t *scales = v + mk_q8_scales(dv) + column / MK_Q8_GROUP * 2;
            c->kern->attn_values_q8(1, part / 2 ? n - half : half, part % 2 ? dv - middle : middle,
                                    w + i * n + j, n, v + j * bytes + column, scales + j * bytes,
                                    bytes, y + i * dv + column, dv);
        }
}

static void values_q8_of(check *c, int64_t m, int64_t n, int64_t dv, kind kinds) {
    int64_t bytes = mk_q8_bytes(dv);
    guarded w = floats(c, m * n), v = q8_rows(c, n, dv, PLAIN), y = floats(c, m * dv);
    float *start = malloc((size_t)(2 * m * dv) * sizeof *start), *other = start + m * dv;
    float *wide = malloc((size_t)(n * dv) * sizeof *wide);
    if (start == NULL || wide == NULL) exit(EXIT_FAILURE);
    const uint8_t *pv = v.data;
    const float *pw = w.data, *got = y.data;
    fill_floats(w.data, m * n, kinds);
    fill_floats(start, m * dv, PLAIN);
    memcpy(other, start, (size_t)(m * dv) * sizeof *start);
    memcpy(y.data, start, (size_t)(m * dv) * sizeof *start);
    c->kern->attn_values_q8(m, n, dv, pw, n, pv, pv + mk_q8_scales(dv), bytes, y.data, dv);
    for (int64_t j = 0; j < n * dv; j++)
        wide[j] = (float)q8_value(pv + j / dv * bytes, dv, j % dv);
    for (int64_t i = 0; i < m * dv; i++) {
        double sum = (double)start[i], size = fabs(sum);
        for (int64_t j = 0; j < n; j++) {
            double term = (double)pw[i / dv * n + j] * (double)wide[j * dv + i % dv];
            sum += term;
            size += fabs(term);
        }
        judge(c, (double)got[i], sum, (double)(n + 4) * UNIT * size);
    }
    values_q8_in_parts(c, m, n, dv, pw, pv, start);
    same_bits(c, start, got, m * dv, "a block differs from its parts");
    if (c->kern->q8_direct) {
        c->kern->matmul_nn(m, dv, n, pw, n, wide, dv, other, dv);
        same_bits(c, other, got, m * dv, "differs from matmul_nn over widened values");
    }
    free(start);
    free(wide);
    release(c, &w), release(c, &v), release(c, &y);
}

static void check_attn_values_q8(check *c) {
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 13};
    static const int64_t columns[] = {1, 16, 31, 32, 33, 64, 66, 96, 128};
    for (int i = 0; i < COUNT(rows); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(columns); l++)
                values_q8_of(c, rows[i], sizes_n[j], columns[l], (kind)((i + j + l) % KINDS));
}

/* Compares with the bits of attn_values over rows rounded to bf16. */
static void values_q8_bf16_of(check *c, int64_t m, int64_t n, int64_t dv, kind kinds) {
    int64_t bytes = mk_q8_bytes(dv);
    guarded w = guarded_new((size_t)(m * n) * sizeof(uint16_t), c->where);
    guarded v = q8_rows(c, n, dv, PLAIN), y = floats(c, m * dv);
    float *start = malloc((size_t)(m * dv) * sizeof *start);
    uint16_t *wide = malloc((size_t)(n * dv) * sizeof *wide);
    if (start == NULL || wide == NULL) exit(EXIT_FAILURE);
    const uint8_t *pv = v.data;
    fill_bf16(w.data, m * n, kinds);
    fill_floats(start, m * dv, PLAIN);
    memcpy(y.data, start, (size_t)(m * dv) * sizeof *start);
    for (int64_t j = 0; j < n * dv; j++)
        wide[j] = mk_to_bf16((float)q8_value(pv + j / dv * bytes, dv, j % dv));
    c->kern->attn_values_q8_bf16(m, n, dv, w.data, n, pv, pv + mk_q8_scales(dv), bytes, y.data, dv);
    c->kern->attn_values(m, n, dv, w.data, n, wide, dv, start, dv);
    same_bits(c, start, y.data, m * dv, "differs from attn_values over rows in bf16");
    free(start);
    free(wide);
    release(c, &w), release(c, &v), release(c, &y);
}

static void q8_bf16_of_variant(check *c, const void *unused) {
    (void)unused;
    if (c->kern->q8_pairs != c->kern->bf16_pairs) return; /* unused, and not of attn_values' set */
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 13};
    static const int64_t columns[] = {1, 16, 31, 32, 33, 64, 66, 96, 128};
    values_q8_bf16_of(c, 33, 577, 96, PLAIN);
    for (int i = 0; i < COUNT(rows); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(columns); l++)
                values_q8_bf16_of(c, rows[i], sizes_n[j], columns[l], (kind)((i + j + l) % KINDS));
}

static void check_attn_values_q8_bf16(check *c) {
    in_variants(c, attention_variants, q8_bf16_of_variant, NULL);
}

static void check_scale_max(check *c) {
    for (int64_t n = 0; n < 70; n++) {
        guarded x = floats(c, n);
        float *in = x.data, start[70], max = -INFINITY;
        fill_floats(start, n, PLAIN);
        if (n > 3) start[n - 2] = NAN;
        memcpy(in, start, (size_t)n * sizeof *in);
        float got = c->kern->scale_max(n, in, -3.0f);
        for (int64_t i = 0; i < n; i++) {
            float want = start[i] * -3.0f;
            if (want > max) max = want;
            if (!isnan(want)) same_bits(c, &want, in + i, 1, "is not the product");
        }
        same_bits(c, &max, &got, 1, "is not the largest");
        release(c, &x);
    }
}

/* n scores for a softmax. */
static void fill_exponents(float *x, int64_t n, float shift) {
    for (int64_t i = 0; i < n; i++)
        x[i] = shift - (float)(random_bits() % 9000) * 0.01f;
    if (n > 2) x[n / 2] = -INFINITY;
    if (n > 5) x[1] = shift;
}

static void check_exp_total(check *c) {
    for (int64_t n = 1; n < 2200; n += n < 70 ? 1 : 355) {
        guarded x = floats(c, n);
        float *in = x.data, shift = random_float() * 20, start[2200];
        double total = 0;
        fill_exponents(start, n, shift);
        memcpy(in, start, (size_t)n * sizeof *in);
        float got = c->kern->exp_total(n, in, shift);
        for (int64_t i = 0; i < n; i++) {
            double t = (double)(start[i] - shift), want = t < -87 ? 0 : exp(t);
            judge(c, (double)in[i], want, 8 * UNIT * want);
            float alone = start[i];
            c->kern->exp_total(1, &alone, shift);
            same_bits(c, &alone, in + i, 1, "depends on the place");
            total += nearbyint((double)in[i] * 0x1p24);
        }
        float want = (float)(total * 0x1p-24);
        same_bits(c, &want, &got, 1, "is not the total of what was written");
        release(c, &x);
    }
    float nan = NAN;
    c->kern->exp_total(1, &nan, 0);
    if (!isnan(nan)) fail_check(c, "loses NaN");
}

static void exp_of_variant(check *c, const void *unused) {
    (void)unused;
    for (int64_t n = 1; n < 2200; n += n < 70 ? 1 : 355) {
        guarded x = floats(c, n), w = guarded_new((size_t)n * sizeof(uint16_t), c->where);
        float *in = x.data, shift = random_float() * 20, start[2200], behind[2200 + 9];
        uint16_t *half = w.data;
        double total = 0;
        fill_exponents(in, n, shift);
        memcpy(start, in, (size_t)n * sizeof *in);
        memcpy(behind + 9, in, (size_t)n * sizeof *in);
        float got = c->kern->exp_total_bf16(n, in, shift, half);
        float in_place = c->kern->exp_total_bf16(n, in, shift, x.data);
        for (int64_t i = 0; i < n; i++) {
            double t = (double)(start[i] - shift), want = t < -87 ? 0 : exp(t);
            uint16_t min = mk_to_bf16((float)(want * (1 - 0x1p-17)));
            uint16_t max = mk_to_bf16((float)(want * (1 + 0x1p-17)));
            c->cases++;
            if (half[i] < min || half[i] > max) fail_check(c, "is not exp, rounded");
            uint16_t alone;
            c->kern->exp_total_bf16(1, start + i, shift, &alone);
            if (alone != half[i]) fail_check(c, "depends on the place");
            total += nearbyint((double)mk_from_bf16(half[i]) * 0x1p24);
        }
        float want = (float)(total * 0x1p-24);
        same_bits(c, &want, &got, 1, "is not the total of what was written");
        same_bits(c, &want, &in_place, 1, "differs in place");
        if (memcmp(x.data, half, (size_t)n * sizeof *half) != 0) fail_check(c, "differs in place");
        c->kern->exp_total_bf16(n, behind + 9, shift, (uint16_t *)behind + 9);
        if (memcmp((uint16_t *)behind + 9, half, (size_t)n * sizeof *half) != 0)
            fail_check(c, "differs before its place");
        release(c, &x), release(c, &w);
    }
    float nan = NAN;
    uint16_t half;
    c->kern->exp_total_bf16(1, &nan, 0, &half);
    if (!isnan(mk_from_bf16(half))) fail_check(c, "loses NaN");
}

static void check_exp_total_bf16(check *c) {
    in_variants(c, attention_variants, exp_of_variant, NULL);
}

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/attn/attn_list.h"
#undef KERN
};

const kcheck_family kcheck_attn = {rows, COUNT(rows), NULL};
