/* kcheck: every kernel of every instruction set that this machine has.
 *
 * Results are compared with sums in f64; the bound is the one that holds for any order of n rounded
 * additions, (n + 4) u sum |x_i w_i| with u = 2^-24, and what attn_list.h lets attention round
 * beside. The order itself is checked by bits: rows and columns alone, in blocks, and by the
 * different ways that must agree. Operands end (or begin) at a page that may not be read; what lies
 * between is checked for writes.
 *
 *     kcheck [ISA]           a table of the worst error found, in parts of the bound
 *       --loose              what is read behind the end of an operand is not checked
 *       --once               operands end at such a page, and need not begin at one, too
 *     kcheck --bench         GB/s
 *     kcheck --bench-fast    fast products against exact ones */
#include "cpu/kcheck.h"
#include "cpu/kern/attn/attn.h"
#include "cpu/kern/int8/int8.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#define UNIT 0x1p-24

typedef struct check {
    const mk_kernels *kern;
    placement where;
    double worst; /* error / bound */
    int cases, failures;
    const char *what; /* of the first failure */
} check;

static void fail_check(check *c, const char *what) {
    if (c->failures++ == 0) c->what = what;
}

static void judge(check *c, double got, double want, double bound) {
    c->cases++;
    double error = fabs(got - want);
    if (error == 0) return;
    /* Below the smallest normal number a sum is rounded to a fixed step. */
    double ratio = error / (bound + (double)FLT_TRUE_MIN * 64);
    if (!(ratio <= 1)) fail_check(c, "beyond the bound");
    if (ratio > c->worst) c->worst = ratio;
}

/* Not numbers, until they are written. */
static guarded floats(const check *c, int64_t n) {
    guarded g = guarded_new((size_t)n * sizeof(float), c->where);
    for (int64_t i = 0; i < n; i++)
        ((float *)g.data)[i] = NAN;
    return g;
}

static void release(check *c, guarded *g) {
    if (!guarded_free(g)) fail_check(c, "wrote outside");
}

static void same_bits(check *c, const float *a, const float *b, int64_t n, const char *what) {
    c->cases++;
    if (memcmp(a, b, (size_t)n * sizeof *a) != 0) fail_check(c, what);
}

/* For a kernel that another one's check compares as well. */
static void with_another(check *c) {
    c->cases++;
}

/* ---- dense ---- */

static const int64_t sizes_m[] = {1, 2, 3, 5, 6, 7, 13};
static const int64_t sizes_n[] = {1, 3, 4, 9, 16, 67};
static const int64_t sizes_k[] = {1, 7, 8, 15, 16, 33, 64, 257};
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* Kinds whose sums are compared with what they should be, on machines too that have no subnormal
 * numbers. */
static const kind judged[] = {PLAIN, CANCELLING, SPARSE};

static void matmul_nt(check *c, int64_t m, int64_t n, int64_t k, kind kinds) {
    guarded x = floats(c, m * k), w = floats(c, n * k), y = floats(c, m * n);
    float *one = malloc((size_t)(m * n) * sizeof *one);
    if (one == NULL) exit(EXIT_FAILURE);
    const float *px = x.data, *pw = w.data;
    fill_floats(x.data, m * k, kinds);
    fill_floats(w.data, n * k, PLAIN);
    c->kern->matmul_nt(m, n, k, px, k, pw, k, y.data, n);
    for (int64_t i = 0; i < m * n; i++) {
        const float *a = px + i / n * k, *b = pw + i % n * k;
        double sum = 0, size = 0;
        for (int64_t l = 0; l < k; l++) {
            sum += (double)a[l] * (double)b[l];
            size += fabs((double)a[l] * (double)b[l]);
        }
        judge(c, (double)((float *)y.data)[i], sum, (double)(k + 4) * UNIT * size);
        c->kern->matmul_nt(1, 1, k, a, k, b, k, one + i, 1);
    }
    same_bits(c, one, y.data, m * n, "a block differs from its elements");
    free(one);
    release(c, &x), release(c, &w), release(c, &y);
}

static void check_matmul_nt(check *c) {
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes_k); l++)
                matmul_nt(c, sizes_m[i], sizes_n[j], sizes_k[l], (kind)((i + j + l) % KINDS));
}

static void matmul_nn(check *c, int64_t m, int64_t n, int64_t k, kind kinds) {
    guarded x = floats(c, m * k), w = floats(c, k * n), y = floats(c, m * n);
    float *start = malloc((size_t)(m * n) * sizeof *start);
    float *one = malloc((size_t)(m * n) * sizeof *one);
    if (start == NULL || one == NULL) exit(EXIT_FAILURE);
    const float *px = x.data, *pw = w.data;
    fill_floats(x.data, m * k, kinds);
    fill_floats(w.data, k * n, PLAIN);
    fill_floats(start, m * n, PLAIN);
    memcpy(y.data, start, (size_t)(m * n) * sizeof *start);
    memcpy(one, start, (size_t)(m * n) * sizeof *start);
    c->kern->matmul_nn(m, n, k, px, k, pw, n, y.data, n);
    for (int64_t i = 0; i < m * n; i++) {
        const float *a = px + i / n * k, *b = pw + i % n;
        double sum = (double)start[i], size = fabs(sum);
        for (int64_t l = 0; l < k; l++) {
            sum += (double)a[l] * (double)b[l * n];
            size += fabs((double)a[l] * (double)b[l * n]);
        }
        judge(c, (double)((float *)y.data)[i], sum, (double)(k + 4) * UNIT * size);
        int64_t half = k / 2; /* alone, and in two parts */
        c->kern->matmul_nn(1, 1, half, a, k, b, n, one + i, 1);
        c->kern->matmul_nn(1, 1, k - half, a + half, k, b + half * n, n, one + i, 1);
    }
    same_bits(c, one, y.data, m * n, "a block differs from its elements");
    free(start);
    free(one);
    release(c, &x), release(c, &w), release(c, &y);
}

static void check_matmul_nn(check *c) {
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes_k); l++)
                matmul_nn(c, sizes_m[i], sizes_n[j], sizes_k[l], (kind)((i + j + l) % KINDS));
}

typedef void (*half_matmul)(int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride,
                            const uint16_t *w, int64_t w_stride, float *y, int64_t y_stride);
typedef void (*wide_matmul)(int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride,
                            const float *w, int64_t w_stride, float *y, int64_t y_stride);

/* The bits of the product over widened weights, whose error was bounded above; w_stride is what w's
 * shape makes it. */
static void matmul_half(check *c, int64_t m, int64_t n, int64_t k, kind kinds, mk_type type,
                        half_matmul half, wide_matmul whole, int64_t w_stride) {
    guarded x = floats(c, m * k), y = floats(c, m * n);
    guarded w = guarded_new((size_t)(n * k) * sizeof(uint16_t), c->where);
    float *wide = malloc((size_t)(n * k + m * n) * sizeof *wide);
    if (wide == NULL) exit(EXIT_FAILURE);
    fill_floats(x.data, m * k, kinds);
    fill_halves(w.data, n * k, type);
    for (int64_t i = 0; i < n * k; i++)
        wide[i] = mk_load(w.data, type, i);
    fill_floats(y.data, m * n, PLAIN); /* what matmul_nn adds to */
    memcpy(wide + n * k, y.data, (size_t)(m * n) * sizeof *wide);
    half(m, n, k, x.data, k, w.data, w_stride, y.data, n);
    whole(m, n, k, x.data, k, wide, w_stride, wide + n * k, n);
    same_bits(c, y.data, wide + n * k, m * n, "differs from the product of widened weights");
    free(wide);
    release(c, &x), release(c, &w), release(c, &y);
}

static void check_half(check *c, mk_type type, bool nn, half_matmul half) {
    wide_matmul whole = nn ? c->kern->matmul_nn : c->kern->matmul_nt;
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes_k); l++)
                matmul_half(c, sizes_m[i], sizes_n[j], sizes_k[l], (kind)((i + j + l) % KINDS),
                            type, half, whole, nn ? sizes_n[j] : sizes_k[l]);
}

static void check_matmul_nt_f16(check *c) {
    check_half(c, MK_F16, false, c->kern->matmul_nt_f16);
}

static void check_matmul_nt_bf16(check *c) {
    check_half(c, MK_BF16, false, c->kern->matmul_nt_bf16);
}

static void check_matmul_nn_f16(check *c) {
    check_half(c, MK_F16, true, c->kern->matmul_nn_f16);
}

static void check_matmul_nn_bf16(check *c) {
    check_half(c, MK_BF16, true, c->kern->matmul_nn_bf16);
}

/* Every value of 16 bits. NaNs must stay NaN. */
static void widen_all(check *c, mk_type type) {
    for (int64_t n = 1; n < 40; n++) {
        guarded x = guarded_new((size_t)n * sizeof(uint16_t), c->where), y = floats(c, n);
        for (int64_t first = 0; first < 0x10000; first += n * 40) {
            for (int64_t i = 0; i < n; i++)
                ((uint16_t *)x.data)[i] = (uint16_t)(first + i);
            if (type == MK_BF16)
                c->kern->widen_bf16(n, x.data, y.data);
            else
                c->kern->widen_f16(n, x.data, y.data);
            for (int64_t i = 0; i < n; i++) {
                float got = ((float *)y.data)[i], want = mk_load(x.data, type, i);
                c->cases++;
                if (mk_bits(got) != mk_bits(want) && !(isnan(got) && isnan(want)))
                    fail_check(c, "is not exact");
            }
        }
        release(c, &x), release(c, &y);
    }
}

static void check_widen_f16(check *c) {
    widen_all(c, MK_F16);
}

static void check_widen_bf16(check *c) {
    widen_all(c, MK_BF16);
}

static void narrow_all(check *c, mk_type type) {
    for (int64_t n = 1; n < 200; n++) {
        guarded x = floats(c, n), y = guarded_new((size_t)n * sizeof(uint16_t), c->where);
        for (int64_t i = 0; i < n; i++) {
            /* any bits; every other one halfway between two numbers of 16 bits, or next to it */
            uint32_t bits = (uint32_t)random_bits();
            if (i % 2 == 0) bits = (bits & 0xffff0000u) + 0x7fffu + (uint32_t)(i % 3);
            ((float *)x.data)[i] = mk_from_bits(bits);
        }
        if (type == MK_BF16)
            c->kern->narrow_bf16(n, x.data, y.data);
        else
            c->kern->narrow_f16(n, x.data, y.data);
        for (int64_t i = 0; i < n; i++) {
            float v = ((float *)x.data)[i];
            uint16_t got = ((uint16_t *)y.data)[i];
            uint16_t want = type == MK_BF16 ? mk_to_bf16(v) : mk_to_f16(v);
            c->cases++;
            if (got != want && !(isnan(v) && isnan(mk_load(y.data, type, i))))
                fail_check(c, "is not rounded to nearest even");
        }
        release(c, &x), release(c, &y);
    }
}

static void check_narrow_f16(check *c) {
    narrow_all(c, MK_F16);
}

static void check_narrow_bf16(check *c) {
    narrow_all(c, MK_BF16);
}

static mk_kernels reference(void) {
    mk_kernels kern;
    mk_kernels_fill(&kern, MK_ISA_ref);
    return kern;
}

/* ---- attention ---- */

/* n bf16 like fill_floats's. */
static void fill_bf16(uint16_t *x, int64_t n, kind kinds) {
    float *wide = malloc((size_t)n * sizeof *wide);
    if (wide == NULL) exit(EXIT_FAILURE);
    fill_floats(wide, n, kinds == TINY ? PLAIN : kinds); /* subnormals may count as 0 */
    for (int64_t i = 0; i < n; i++)
        x[i] = mk_to_bf16(wide[i]);
    free(wide);
}

/* Numbers below 2^-125, many of them subnormal. */
static void fill_tiny(uint16_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint16_t)(random_bits() & 0x80ff);
}

typedef void (*matmul_bf16)(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                            const uint16_t *k, int64_t k_stride, float *y, int64_t y_stride);

/* The largest of n magnitudes, `step` apart. */
static double max_of(int64_t n, const uint16_t *x, int64_t step) {
    double max = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, fabs((double)mk_from_bf16(x[i * step])));
    return max;
}

/* How far a sum of n products may be off where elements are rounded as far as `a_unit` and `b_unit`
 * of the largest. */
static double rounding_of(int64_t n, const uint16_t *a, double a_unit, const uint16_t *b,
                          int64_t b_step, double b_unit) {
    double a_off = a_unit * max_of(n, a, 1), b_off = b_unit * max_of(n, b, b_step), sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fabs((double)mk_from_bf16(a[i])) * b_off +
               fabs((double)mk_from_bf16(b[i * b_step])) * a_off + a_off * b_off;
    return sum;
}

/* Of a score, as attn_list.h says. */
static double score_rounding(int64_t d, const uint16_t *q, const uint16_t *k) {
    double sum = 0;
    for (int64_t l = 0; l < d; l += MK_WORDS_PART) {
        int64_t n = d - l < MK_WORDS_PART ? d - l : MK_WORDS_PART;
        sum += rounding_of(n, q + l, 0x1p-12, k + l, 1, 0x1p-12);
    }
    return sum;
}

/* Of a sum of values. */
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

/* kinds: of q; TINY ones are compared with each other only. */
static void scores_of(check *c, matmul_bf16 matmul, int64_t m, int64_t n, int64_t d, kind kinds) {
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

/* Rows that lie apart: the bits of rows side by side, and nothing written between them. */
static void strides_of(check *c, matmul_bf16 matmul, int64_t m, int64_t n, int64_t k) {
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
        same_bits(c, want + i * n, got + i * y_stride, n, "rows that lie apart give other bits");
        for (int64_t j = n; j < y_stride; j++)
            if (got[i * y_stride + j] != 7) fail_check(c, "wrote between rows");
    }
    free(near);
    free(want);
    release(c, &x), release(c, &w), release(c, &y);
}

/* What is not a number, in a query and in a key, makes its own row's scores NaN, and no other: the
 * bits that others have without it. */
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

/* One of several ways of a set's kernels; fill NULL ends a list. */
typedef struct variant {
    const char *isa;
    void (*fill)(mk_kernels *kernels);
} variant;

/* The machine's kernels, then those of the set's other ways, which another machine takes. */
static void in_variants(check *c, const variant *variants, void (*run)(check *c, const void *what),
                        const void *what) {
    const mk_kernels *taken = c->kern;
    run(c, what);
    for (; variants->fill != NULL; variants++) {
        if (strcmp(variants->isa, mk_isa_name(taken->isa)) != 0) continue;
        mk_kernels other = *taken;
        variants->fill(&other);
        if (memcmp(&other, taken, sizeof other) == 0) continue; /* the one that is taken */
        c->kern = &other;
        run(c, what);
    }
    c->kern = taken;
}

/* Ways of multiplying pairs of bf16. */
static const variant attention_variants[] = {
#define VARIANT(isa, fill) {#isa, fill},
#include "cpu/kern/attn/attn_variant_list.h"
    {"", NULL}};

/* Where integers are largest: all elements with all bits, of one sign and of two. What is lost
 * is a sum's rounding. */
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
    scores_of(c, c->kern->attn_scores, 49, 35, 512, PLAIN); /* more rows than go together */
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

static void check_matmul_bf16(check *c) {
    scores_of(c, c->kern->matmul_bf16, 1, 9, 4096 + 33, PLAIN); /* long rows, */
    scores_of(c, c->kern->matmul_bf16, 31, 9, 33, PLAIN);       /* and a last block of one, */
    scores_of(c, c->kern->matmul_bf16, 48, 67, 1056, PLAIN);    /* and blocks that are whole */
    scores_of(c, c->kern->matmul_bf16, 16, 32, 64, CANCELLING);
    scores_of(c, c->kern->matmul_bf16, 1, 67, 2592, PLAIN);
    scores_of(c, c->kern->matmul_bf16, 2, 32, 2592, PLAIN);
    scores_of(c, c->kern->matmul_bf16, 16, 32, 33, PLAIN);
    scores_of(c, c->kern->matmul_bf16, 5, 35, 0, PLAIN);        /* sums of nothing */
    scores_of(c, c->kern->matmul_bf16, 2, 9, 4096 + 33, PLAIN); /* of three parts */
    scores_of(c, c->kern->matmul_bf16, 13, 66, 4096 + 33, PLAIN);
    scores_of(c, c->kern->matmul_bf16, 3, 5, 4096, CANCELLING); /* of two whole ones */
    scores_of(c, c->kern->matmul_bf16, 8, 13, 2048 + 1, PLAIN); /* of one and an element */
    strides_of(c, c->kern->matmul_bf16, 1, 7, 4096 + 1);
    strides_of(c, c->kern->matmul_bf16, 2, 9, 2080);
    strides_of(c, c->kern->matmul_bf16, 5, 7, 2080);
    strides_of(c, c->kern->matmul_bf16, 1, 33, 1056);
    strides_of(c, c->kern->matmul_bf16, 5, 67, 1056);
    strides_of(c, c->kern->matmul_bf16, 33, 35, 544);
    strides_of(c, c->kern->matmul_bf16, 32, 64, 545);
    for (int i = 0; i < COUNT(sizes_m); i++)
        for (int j = 0; j < COUNT(sizes_n); j++)
            for (int l = 0; l < COUNT(sizes_k); l++)
                scores_of(c, c->kern->matmul_bf16, sizes_m[i], sizes_n[j], sizes_k[l],
                          judged[(i + j + l) % COUNT(judged)]);
}

/* y [m, dv], w [m, n] and v [n, dv], whose rows lie apart or not. kinds: of w; sums of TINY ones
 * are compared with each other only. */
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

/* Keys that some rows do not see, whatever finite numbers are there: the same bits. Then one that
 * is not a number, in its column alone. */
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

/* As max_scores, each column of one sign; some so large that products of codes and one step would
 * not be finite. */
static void max_values(check *c, int64_t m, int64_t n, int64_t dv) {
    uint16_t *w = malloc((size_t)((m + dv) * n) * sizeof *w), *v = w + m * n;
    float *y = calloc((size_t)(m * dv), sizeof *y);
    if (w == NULL || y == NULL) exit(EXIT_FAILURE);
    for (int64_t i = 0; i < m * n; i++)
        w[i] = i / n % 2 && i % n == 5 ? 0 : 0x3a7f; /* every second row does not see one */
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
    values_of(c, 97, 70, 66, PLAIN); /* more rows than go together */
    static const int64_t sizes[] = {1, 2, 7, 64, 65, 130, 259};
    for (int i = 0; i < KINDS; i++) /* blocks that are whole, and not, of many keys */
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

/* Element l of a row of 8 bits with n of them, in f64. */
static double q8_value(const uint8_t *row, int64_t n, int64_t l) {
    uint16_t scale;
    memcpy(&scale, row + mk_q8_scales(n) + 2 * (l / MK_Q8_GROUP), sizeof scale);
    return (double)(int8_t)row[l] * (double)mk_from_bf16(scale);
}

/* n rows of 8 bits of d numbers each, as the reference makes them. */
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

/* y [m, dv] += w [m, n] times rows of 8 bits: each row of w alone, columns and keys in two
 * parts. */
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

/* The bits of attn_values over rows that were rounded to bf16. */
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
    if (c->kern->q8_pairs != c->kern->bf16_pairs)
        return; /* not used, and not of attn_values' set */
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

/* n numbers of which a softmax takes exp. */
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

/* ---- quantised ---- */

static void unpack_format(check *c, mk_mode mode, int bits, int group, mk_type type) {
    const int64_t n = 6, k = 384;
    qmatrix m = qmatrix_new(mode, bits, group, type, n, k, c->where);
    guarded y = floats(c, n * k);
    c->kern->unpack(&m.rows, n, y.data);
    for (int64_t i = 0; i < n * k; i++) {
        double size, want = qmatrix_value(&m, i / k, i % k, &size);
        judge(c, (double)((float *)y.data)[i], want, 4 * UNIT * size);
    }
    guarded x = floats(c, k), matmul = floats(c, n);
    float other[6];
    fill_floats(x.data, k, PLAIN);
    c->kern->matvec(&m.rows, n, x.data, matmul.data);
    c->kern->matmul_nt(1, n, k, x.data, k, y.data, k, other, n);
    same_bits(c, other, matmul.data, n, "unpacked weights give other bits");
    release(c, &x), release(c, &y), release(c, &matmul);
    if (!qmatrix_free(&m)) fail_check(c, "wrote outside");
}

static void check_unpack(check *c) {
    static const int bits[] = {2, 3, 4, 5, 6, 8};
    for (int b = 0; b < COUNT(bits); b++)
        for (int group = 32; group <= 128; group *= 2)
            for (mk_type type = MK_F32; type <= MK_BF16; type++)
                unpack_format(c, MK_AFFINE, bits[b], group, type);
    unpack_format(c, MK_MXFP4, 4, 32, MK_F32);
    unpack_format(c, MK_MXFP8, 8, 32, MK_F32);
    unpack_format(c, MK_NVFP4, 4, 16, MK_F32);
}

typedef struct width { /* the three kernels of a width */
    int bits;
    void (*arrange)(int64_t k, const float *x, float *y);
    void (*matvec)(const mk_qrows *w, int64_t n, const float *x, float *y);
    void (*unpack)(const mk_qrows *w, int64_t n, float *y);
} width;

static void matmul_quantised(check *c, const width *q, int group, mk_type type, int64_t n,
                             int64_t k, kind kinds) {
    qmatrix m = qmatrix_new(MK_AFFINE, q->bits, group, type, n, k, c->where);
    guarded x = floats(c, k), arranged = floats(c, k), y = floats(c, n), wide = floats(c, n * k);
    float *other = malloc((size_t)n * sizeof *other);
    if (other == NULL) exit(EXIT_FAILURE);
    fill_floats(x.data, k, kinds);
    q->arrange(k, x.data, arranged.data);
    q->matvec(&m.rows, n, arranged.data, y.data);
    for (int64_t r = 0; r < n; r++) {
        double sum = 0, sizes = 0;
        for (int64_t l = 0; l < k; l++) {
            double size, w = qmatrix_value(&m, r, l, &size), a = (double)((float *)x.data)[l];
            sum += a * w;
            sizes += fabs(a) * size;
        }
        judge(c, (double)((float *)y.data)[r], sum, (double)(k + 4) * UNIT * sizes);
        mk_qrows row = mk_qrows_at(&m.rows, r);
        q->matvec(&row, 1, arranged.data, other + r);
    }
    same_bits(c, other, y.data, n, "rows differ from each alone");
    q->unpack(&m.rows, n, wide.data);
    c->kern->matmul_nt(1, n, k, arranged.data, k, wide.data, k, other, n);
    same_bits(c, other, y.data, n, "unpacked weights give other bits");
    free(other);
    release(c, &x), release(c, &arranged), release(c, &y), release(c, &wide);
    if (!qmatrix_free(&m)) fail_check(c, "wrote outside");
}

static void check_width(check *c, const width *q) {
    static const int64_t rows[] = {1, 3, 4, 11}, lengths[] = {128, 384, 4352};
    for (int group = 32; group <= 128; group *= 2)
        for (mk_type type = MK_F32; type <= MK_BF16; type++)
            for (int i = 0; i < COUNT(rows); i++)
                for (int j = 0; j < COUNT(lengths); j++)
                    matmul_quantised(c, q, group, type, rows[i], lengths[j],
                                     (kind)((i + j) % KINDS));
    matmul_quantised(c, q, 32, MK_BF16, 5, 32, PLAIN);
    matmul_quantised(c, q, 32, MK_F16, 5, 96, PLAIN);
}

static void check_q4(check *c) {
    const mk_kernels *k = c->kern;
    check_width(c, &(width){4, k->arrange_q4, k->matvec_q4, k->unpack_q4});
}

static void check_q8(check *c) {
    const mk_kernels *k = c->kern;
    check_width(c, &(width){8, k->arrange_q8, k->matvec_q8, k->unpack_q8});
}

/* arrange: the same elements in every block of 32, in some order. The three of a width are checked
 * together above. */
static void arrangement(check *c, void (*arrange)(int64_t k, const float *x, float *y)) {
    const int64_t k = 96;
    guarded x = floats(c, k), y = floats(c, k);
    for (int64_t i = 0; i < k; i++)
        ((float *)x.data)[i] = (float)i;
    arrange(k, x.data, y.data);
    bool seen[96] = {false};
    for (int64_t i = 0; i < k; i++) {
        int64_t from = (int64_t)((float *)y.data)[i];
        c->cases++;
        if (from < 0 || from >= k || from / 32 != i / 32 || seen[from]) {
            fail_check(c, "loses elements");
            break;
        }
        seen[from] = true;
    }
    release(c, &x), release(c, &y);
}

static void check_arrange_q4(check *c) {
    arrangement(c, c->kern->arrange_q4);
}

static void check_arrange_q8(check *c) {
    arrangement(c, c->kern->arrange_q8);
}

#define check_matvec with_another
#define check_matvec_q4 check_q4
#define check_unpack_q4 with_another
#define check_matvec_q8 check_q8
#define check_unpack_q8 with_another

/* ---- fast ---- */

/* mxfp8 as bf16: bits of matmul_bf16 over unpacked weights, which are the values themselves. */
static void matmul_mxfp8(check *c, int64_t m, int64_t n, int64_t k, kind kinds, bool odd) {
    qmatrix w = qmatrix_new(MK_MXFP8, 8, 32, MK_F32, n, k, c->where);
    const int64_t xs = k + m % 2 * 32; /* rows of x lie apart or not */
    guarded x = guarded_new((size_t)((m - 1) * xs + k) * sizeof(uint16_t), c->where);
    guarded y = floats(c, m * n);
    guarded wide = guarded_new((size_t)(n * k) * sizeof(uint16_t), c->where);
    const uint16_t *got = wide.data;
    float *other = malloc((size_t)(m * n) * sizeof *other);
    if (other == NULL) exit(EXIT_FAILURE);
    fill_bf16(x.data, (m - 1) * xs + k, kinds);
    if (odd) { /* rows 0 and 1 with a NaN; scales that are out of range, for products are finite */
        ((uint8_t *)w.codes.data)[k / 2] = 0xff;
        if (n > 1) ((uint8_t *)w.scales.data)[k / 32] = 0xff;
        if (n > 2) ((uint8_t *)w.scales.data)[2 * k / 32] = 3;
    }
    c->kern->unpack_mxfp8(&w.rows, n, wide.data);
    for (int64_t i = 0; i < n * k; i++) {
        double size, want = qmatrix_value(&w, i / k, i % k, &size);
        if (odd && i / k < 2) {
            if (!isnan(mk_from_bf16(got[i]))) fail_check(c, "loses NaN");
        } else if (!odd || i / k > 2 || i % k >= 32) {
            judge(c, (double)mk_from_bf16(got[i]), want, 0);
        }
    }
    uint16_t *same = malloc((size_t)(n * k) * sizeof *same);
    if (same == NULL) exit(EXIT_FAILURE);
    mk_kernels ref = reference();
    ref.unpack_mxfp8(&w.rows, n, same);
    if (memcmp(same, got, (size_t)(n * k) * sizeof *same) != 0)
        fail_check(c, "differs from the reference");
    free(same);
    c->kern->matmul_mxfp8(&w.rows, n, m, x.data, xs, y.data, n);
    c->kern->matmul_bf16(m, n, k, x.data, xs, wide.data, k, other, n);
    for (int64_t i = 0; i < m * n; i++)
        if (!isnan(other[i]) || !isnan(((float *)y.data)[i]))
            same_bits(c, other + i, (float *)y.data + i, 1, "unpacked weights give other bits");
    free(other);
    release(c, &x), release(c, &y), release(c, &wide);
    if (!qmatrix_free(&w)) fail_check(c, "wrote outside");
}

static void check_matmul_mxfp8(check *c) {
    static const int64_t rows_m[] = {1, 2, 3, 4, 9}, rows_n[] = {1, 4, 7, 16};
    static const int64_t lengths[] = {32, 64, 96, 1024, 1056, 2080};
    for (int i = 0; i < COUNT(rows_m); i++)
        for (int j = 0; j < COUNT(rows_n); j++)
            for (int l = 0; l < COUNT(lengths); l++)
                matmul_mxfp8(c, rows_m[i], rows_n[j], lengths[l], (kind)((i + j + l) % KINDS),
                             l % 3 == 0);
    matmul_mxfp8(c, 17, 67, 1056, PLAIN, true);
    matmul_mxfp8(c, 1, 67, 2080, PLAIN, true);
    matmul_mxfp8(c, 3, 9, 2048, CANCELLING, true);
    matmul_mxfp8(c, 2, 5, 4096, PLAIN, true);
    matmul_mxfp8(c, 7, 6, 4128, PLAIN, true);
    matmul_mxfp8(c, 9, 33, 544, PLAIN, true);
}

#define check_unpack_mxfp8 with_another

/* Rows of x in guarded memory of their own. */
typedef struct xmatrix {
    mk_xrows rows;
    guarded codes, scales, sums, cross;
} xmatrix;

static xmatrix xmatrix_new(const check *c, int64_t m, int64_t k, int group) {
    xmatrix x = {.codes = guarded_new((size_t)(m * k), c->where),
                 .scales = floats(c, m * k / group),
                 .sums = floats(c, m * k / group),
                 .cross = floats(c, m * k / group)};
    x.rows = (mk_xrows){k, group, x.codes.data, x.scales.data, x.sums.data, x.cross.data};
    return x;
}

static void xmatrix_free(check *c, xmatrix *x) {
    release(c, &x->codes), release(c, &x->scales), release(c, &x->sums), release(c, &x->cross);
}

/* The largest code of x of the other sign than that of its group's largest element. */
static int reach_of(int max) {
    return mk_has_crossed(max) ? 127 - max : 127;
}

/* How far an element of a group of x may be from what it was quantised to. */
static double step_of(const float *x, int group, int max_code) {
    double above = 0, below = 0;
    for (int i = 0; i < group; i++) {
        above = fmax(above, (double)x[i]);
        below = fmax(below, -(double)x[i]);
    }
    double max = fmax(above, below), other = fmin(above, below);
    if (max < 0x1p-100) return max; /* taken as 0 */
    double step =
        mk_has_crossed(max_code) ? fmax(max / 128, other / reach_of(max_code)) : max / 127;
    return step * (0.5 + 0x1p-14);
}

/* What crossed tiles want of a group of x. */
static int32_t cross_of(const int8_t *codes, int group) {
    int32_t sum = 0;
    for (int l = 0; l < group; l++)
        if (l / 4 % 2 == 0) sum += (codes[l] + 128) * codes[l + 4];
    return sum;
}

/* Groups that are at a limit of what has codes: all equal, of both signs and as large as can be,
 * and with a NaN that has a sign. */
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
        if (got.rows.cross[g] != cross_of(codes, group)) fail_check(c, "cross is wrong");
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

/* Row r of the weights in f64: values, and the sizes of the terms that they are rounded from. */
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

/* Matmuls from f64, within what quantising x and rounding sums may do to them. */
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

/* Makes crossed tiles of n rows of others (kern/int8_list.h). */
static void cross_tiles(int64_t n, int64_t k, int64_t group, mk_tiles *tiles) {
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
    tiles->crossed = true;
}

/* Unpacked rows: as the reference's, crossed where that is to be had, and the product by way of
 * them. */
static void check_tiles(check *c, const qmatrix *w, int64_t m, const mk_xrows *x, const float *y,
                        bool crossed) {
    int64_t n = w->n, k = w->rows.k, group = w->rows.group, rows = tile_rows(n);
    guarded codes = guarded_new((size_t)(rows * k), c->where);
    guarded scales = floats(c, rows * k / group * 2), by_tiles = floats(c, m * n);
    guarded codes_ref = guarded_new((size_t)(rows * k), c->where);
    guarded scales_ref = floats(c, rows * k / group * 2);
    guarded offsets = floats(c, rows * k / group), offsets_ref = floats(c, rows * k / group);
    mk_xrows rows_x = *x;
    if (!crossed) rows_x.cross = NULL;
    mk_tiles got = {codes.data, scales.data, 0, crossed, crossed ? offsets.data : NULL};
    mk_tiles want = {codes_ref.data, scales_ref.data, 0, crossed, offsets_ref.data};
    mk_kernels ref = reference();
    c->kern->int8_unpack(&w->rows, n, &got);
    ref.int8_unpack(&w->rows, n, &want);
    if (got.crossed) cross_tiles(n, k, group, &want);
    c->cases++;
    if (got.crossed && memcmp(got.offsets, want.offsets, (size_t)(rows * k / group) * 4) != 0)
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

/* largest: all codes of weights and of x, so that sums are as large as they can be. */
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

/* n rows of `bytes` bytes, side by side in `from`, so many bytes apart. */
static guarded lay_apart(const check *c, const guarded *from, int64_t n, int64_t bytes,
                         int64_t apart) {
    guarded to = guarded_new((size_t)((n - 1) * apart + bytes), c->where);
    for (int64_t r = 0; r < n; r++)
        memcpy((char *)to.data + r * apart, (char *)from->data + r * bytes, (size_t)bytes);
    return to;
}

/* Rows of weights that lie so many words apart, between others, and of scales and results that do
 * not lie side by side: the bits of rows that do. */
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

/* The same, a multiple of 4 KiB apart. */
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
    /* Fewer rows of weights than go together, and others that lie a little apart. */
    static const int64_t few_n[] = {1, 5, 15};
    for (int64_t m = 1; m <= 8; m++) {
        int64_t k = 512 + format->group;
        matmul_int8(c, format, m, few_n[m % COUNT(few_n)], k, PLAIN, false);
        matmul_apart(c, format, m, m % 2 == 0 ? 32 : 37, k, k * format->bits / 32 + 5);
    }
    matmul_int8(c, format, 1, 17, 384, PLAIN, true);
    matmul_int8(c, format, 9, 17, 384, PLAIN, true);
}

/* One row of x, which may have kernels of its own for each way of writing scales: rows of weights
 * in several blocks and what is left of them, few and many groups. */
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

/* Several rows of x, likewise: as many as go together, and more. */
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

/* Sets above the one that has ways have the machine's. */
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

#define check_int8_unpack with_another
#define check_int8_matmul with_another

/* ---- all of them ---- */

/* ---- rows ---- */

/* An f32 function within `ulps` of `want`, the same bits as the reference's, in place too. */
static void check_function(check *c, void (*run)(int64_t, const float *, float *),
                           void (*ref)(int64_t, const float *, float *), double (*want)(double),
                           double ulps) {
    static const float special[] = {0.0f, -0.0f, 1e-30f, -90.0f, 90.0f, -INFINITY, INFINITY, NAN};
    for (int64_t n = 1; n < 70; n++) {
        guarded x = floats(c, n), y = floats(c, n);
        float *in = x.data, *out = y.data, other[70];
        for (int64_t i = 0; i < n; i++)
            in[i] = n > 8 && i < 8 ? special[i] : random_float() * (float)(1 << n % 8);
        run(n, in, out);
        ref(n, in, other);
        same_bits(c, out, other, n, "not the reference's bits");
        for (int64_t i = 0; i < n; i++) {
            double v = want((double)in[i]);
            if (isfinite(v)) judge(c, (double)out[i], v, ulps * UNIT * fabs(v) + 1e-36);
        }
        run(n, in, in);
        same_bits(c, in, other, n, "differs in place");
        release(c, &x), release(c, &y);
    }
}

static double want_silu(double x) {
    return x / (1 + exp(-x));
}

static double want_gelu_approx(double x) {
    return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static void check_silu(check *c) {
    mk_kernels ref = reference();
    check_function(c, c->kern->silu, ref.silu, want_silu, 16);
}

/* The argument of its exponential is large where x is: an error of its own grows with it. */
static void check_gelu_approx(check *c) {
    mk_kernels ref = reference();
    check_function(c, c->kern->gelu_approx, ref.gelu_approx, want_gelu_approx, 1000);
}

static void check_tanh(check *c) {
    mk_kernels ref = reference();
    check_function(c, c->kern->tanh, ref.tanh, tanh, 8);
}

static void check_rms_norm(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n < 150; n += n < 40 ? 1 : 13) {
        guarded x = floats(c, n), w = floats(c, n), y = floats(c, n);
        float *in = x.data, *weight = w.data, other[150];
        fill_floats(in, n, PLAIN);
        fill_floats(weight, n, PLAIN);
        double squares = 0;
        for (int64_t i = 0; i < n; i++)
            squares += (double)in[i] * (double)in[i];
        double factor = 1 / sqrt(squares / (double)n + 1e-6);
        for (int pass = 0; pass < 2; pass++) {
            c->kern->rms_norm(n, in, pass == 0 ? NULL : weight, 1e-6, y.data);
            ref.rms_norm(n, in, pass == 0 ? NULL : weight, 1e-6, other);
            same_bits(c, y.data, other, n, "not the reference's bits");
            for (int64_t i = 0; i < n; i++) {
                double want = (double)in[i] * factor * (pass == 0 ? 1 : (double)weight[i]);
                judge(c, (double)((float *)y.data)[i], want, 8 * UNIT * fabs(want));
            }
        }
        c->kern->rms_norm(n, in, weight, 1e-6, in);
        same_bits(c, in, other, n, "differs in place");
        release(c, &x), release(c, &w), release(c, &y);
    }
}

static void check_rope(check *c) {
    mk_kernels ref = reference();
    for (int64_t half = 1; half < 70; half++) {
        guarded t = floats(c, 2 * half), x = floats(c, 2 * half), y = floats(c, 2 * half);
        float *table = t.data, *in = x.data, other[140];
        fill_floats(table, 2 * half, PLAIN);
        fill_floats(in, 2 * half, PLAIN);
        c->kern->rope(half, table, in, y.data);
        ref.rope(half, table, in, other);
        same_bits(c, y.data, other, 2 * half, "not the reference's bits");
        for (int64_t i = 0; i < half; i++) {
            double a = (double)in[i] * (double)table[i], b = (double)in[half + i];
            double s = b * (double)table[half + i];
            judge(c, (double)((float *)y.data)[i], a - s, 2 * UNIT * (fabs(a) + fabs(s)));
            a = (double)in[i] * (double)table[half + i], s = b * (double)table[i];
            judge(c, (double)((float *)y.data)[half + i], a + s, 2 * UNIT * (fabs(a) + fabs(s)));
        }
        release(c, &t), release(c, &x), release(c, &y);
    }
}

/* Of numbers, with infinities, and with a NaN at every place. */
static void check_largest(check *c) {
    for (int64_t n = 0; n < 150; n += n < 70 ? 1 : 13) {
        guarded x = floats(c, n);
        float *in = x.data, want = -INFINITY;
        fill_floats(in, n, PLAIN);
        if (n > 9) in[n - 9] = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            want = in[i] > want ? in[i] : want;
        float got = c->kern->largest(n, in);
        same_bits(c, &got, &want, 1, "not the largest");
        for (int64_t i = 0; i < n; i++) {
            float was = in[i];
            in[i] = NAN;
            if (!isnan(c->kern->largest(n, in))) fail_check(c, "NaN is lost");
            in[i] = INFINITY;
            want = c->kern->largest(n, in);
            if (!(want == INFINITY)) fail_check(c, "infinity is lost");
            in[i] = was;
        }
        release(c, &x);
    }
}

/* The group of element l: no element is off by more than half a step of the largest over 127. */
static void judge_q8(check *c, const float *x, const uint8_t *row, int64_t n, int64_t l) {
    double max = 0;
    bool whole = true;
    for (int64_t i = l / MK_Q8_GROUP * MK_Q8_GROUP; i < n && i / MK_Q8_GROUP == l / MK_Q8_GROUP;
         i++) {
        whole = whole && isfinite(x[i]);
        if (fabs((double)x[i]) > max) max = fabs((double)x[i]);
    }
    if (!whole && !isnan(q8_value(row, n, l))) fail_check(c, "a group with NaN is not NaN");
    if (whole) judge(c, q8_value(row, n, l), (double)x[l], max / 254 * (1 + 0x1p-7) + 1e-34);
}

static void check_narrow_q8(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n < 300; n += n < 70 ? 1 : 23) {
        int64_t bytes = mk_q8_bytes(n);
        guarded x = floats(c, n), row = guarded_new((size_t)bytes, c->where);
        uint8_t other[400];
        float *in = x.data;
        fill_floats(in, n, (kind)(n % KINDS));
        if (n % 5 == 0) in[n / 2] = n % 2 ? NAN : -INFINITY;
        c->kern->narrow_q8(n, in, row.data);
        ref.narrow_q8(n, in, other);
        c->cases++;
        if (memcmp(row.data, other, (size_t)bytes) != 0) fail_check(c, "not the reference's bits");
        for (int64_t l = 0; l < n; l++)
            judge_q8(c, in, row.data, n, l);
        for (int64_t i = n; i < mk_q8_scales(n); i++)
            if (((uint8_t *)row.data)[i] != 0) fail_check(c, "does not fill with zeros");
        release(c, &x), release(c, &row);
    }
}

static void check_widen_q8(check *c) {
    for (int64_t n = 1; n < 300; n += n < 70 ? 1 : 23) {
        int64_t scales = (n + MK_Q8_GROUP - 1) / MK_Q8_GROUP;
        guarded row = guarded_new((size_t)n, c->where), y = floats(c, n);
        guarded scale = guarded_new((size_t)scales * sizeof(uint16_t), c->where);
        uint8_t whole[400] = {0};
        float *got = y.data;
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)row.data)[i] = whole[i] = (uint8_t)random_bits();
        fill_halves(scale.data, scales, MK_BF16);
        memcpy(whole + mk_q8_scales(n), scale.data, (size_t)scales * sizeof(uint16_t));
        c->kern->widen_q8(n, row.data, scale.data, got);
        for (int64_t l = 0; l < n; l++) {
            c->cases++;
            if ((double)got[l] != q8_value(whole, n, l)) fail_check(c, "is not exact");
        }
        release(c, &row), release(c, &scale), release(c, &y);
    }
}

/* Whether two sets have the same kernels of a family, whose checks call no others. */
static bool same_int8(const mk_kernels *a, const mk_kernels *b) {
    bool same = a->int8_crossed == b->int8_crossed;
#define KERN(name, result, args) same = same && a->name == b->name;
#include "cpu/kern/int8/int8_list.h"
#undef KERN
    return same;
}

static bool same_row(const mk_kernels *a, const mk_kernels *b) {
    bool same = true;
#define KERN(name, result, args) same = same && a->name == b->name;
#include "cpu/kern/row/row_list.h"
#undef KERN
    return same;
}

static bool never_same(const mk_kernels *a, const mk_kernels *b) {
    (void)a, (void)b;
    return false;
}

/* A kernel without a check does not compile. */
static const struct {
    const char *name;
    void (*run)(check *c);
    bool (*same)(const mk_kernels *a, const mk_kernels *b); /* what one did, another need not */
} checks[] = {
#define KERN(name, result, args) {#name, check_##name, never_same},
#include "cpu/kern/attn/attn_list.h"
#include "cpu/kern/dense/dense_list.h"
#include "cpu/kern/quant/quant_list.h"
#undef KERN
#define KERN(name, result, args) {#name, check_##name, same_int8},
#include "cpu/kern/int8/int8_list.h"
#undef KERN
#define KERN(name, result, args) {#name, check_##name, same_row},
#include "cpu/kern/row/row_list.h"
#undef KERN
};

/* Does the machine have it, and is it asked for? NULL asks for all. */
static bool wanted(int isa, const char *only) {
    if (only != NULL && strcmp(only, mk_isa_name((mk_isa)isa)) != 0) return false;
    return mk_isa_has((mk_isa)isa);
}

/* Said where the one that is asked for cannot be checked. */
static bool can_check(const char *only) {
    bool known = false;
    for (int isa = 0; isa < MK_ISA_COUNT; isa++) {
        if (wanted(isa, only)) return true;
        known = known || strcmp(only, mk_isa_name((mk_isa)isa)) == 0;
    }
    fprintf(stderr, "kcheck: %s %s\n",
            known ? "this machine cannot run" : "there is no instruction set", only);
    return false;
}

typedef struct places { /* of operands */
    placement first;
    bool both; /* and then AT_START */
} places;

static int check_all(const char *only, places where) {
    int failures = 0;
    if (!can_check(only)) return EXIT_FAILURE;
    printf("%-14s", "kernel");
    for (int isa = 0; isa < MK_ISA_COUNT; isa++)
        if (wanted(isa, only)) printf(" %20s", mk_isa_name((mk_isa)isa));
    printf("   (error / bound, cases)\n");
    for (int i = 0; i < COUNT(checks); i++) {
        printf("%-14s", checks[i].name);
        const char *wrong = NULL;
        mk_kernels before = {0};
        for (int isa = 0; isa < MK_ISA_COUNT; isa++) {
            if (!wanted(isa, only)) continue;
            mk_kernels kern;
            mk_kernels_fill(&kern, (mk_isa)isa);
            if (checks[i].same(&kern, &before)) {
                printf(" %20s", "the same");
                continue;
            }
            before = kern;
            check c = {.kern = &kern, .where = where.first};
            checks[i].run(&c);
            c.where = AT_START;
            if (where.both) checks[i].run(&c);
            printf(" %10.3f %9d", c.worst, c.cases);
            if (c.failures > 0) wrong = c.what;
            failures += c.failures;
        }
        printf("%s%s\n", wrong != NULL ? "   FAILED: " : "", wrong != NULL ? wrong : "");
    }
    printf("%s\n", failures == 0 ? "all well" : "FAILED");
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const char *only = NULL;
    places where = {AT_END, true};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) return kbench();
        if (strcmp(argv[i], "--bench-fast") == 0) return kbench_int8();
        if (strcmp(argv[i], "--loose") == 0)
            where = (places){LOOSE, false};
        else if (strcmp(argv[i], "--once") == 0)
            where.both = false;
        else
            only = argv[i];
    }
    return check_all(only, where);
}
