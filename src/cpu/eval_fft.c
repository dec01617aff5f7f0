/* The discrete Fourier transform of rows of complex numbers, [rows, n, 2] f32.
 *
 * Lengths with small prime factors: Stockham's algorithm, a pass a factor, which needs no
 * reordering. Other lengths: Bluestein's algorithm, the transform as a convolution with a chirp,
 * by transforms of a power of two. Real and imaginary parts are kept apart within a row, so that
 * loops become vector code. The inverse transform is the forward one with both exchanged. Twiddles
 * are made in double. A row is computed by one thread.
 *
 * source  Stockham 1966; Bluestein 1970; Swarztrauber 1984, "FFT algorithms for vector
 *         computers". */
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "graph/attr.h"

#define MAX_FACTOR 13
#define MAX_PASSES 64

/* Complex numbers, their parts apart. */
typedef struct parts {
    float *re, *im;
} parts;

typedef struct plan { /* of a transform by passes */
    int64_t n;
    int passes;
    int factors[MAX_PASSES];
    parts w; /* [n] exp(-2 pi i k / n) */
} plan;

typedef struct work {
    const mc_call *call;
    int64_t n, rows;
    bool inverse;
    bool chirped; /* Bluestein's: plan is that of the convolution */
    plan plan;
    parts chirp;  /* [n] exp(-pi i k^2 / n) */
    parts filter; /* [plan.n] the transform of the chirp's conjugate, / plan.n */
    const float *x;
    float *scratch; /* 4 plan.n a worker */
} work;

/* ---- planning ---- */

/* Fills in the passes. false: n has a large prime factor. */
static bool factorise(plan *p, int64_t n) {
    static const int order[] = {4, 2, 3, 5, 7, 11, MAX_FACTOR};
    p->n = n;
    p->passes = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        for (; n % order[i] == 0; n /= order[i])
            p->factors[p->passes++] = order[i];
    return n == 1;
}

/* w[k] = exp(-2 pi i k / n), as the products of two roots in double: few need a sine. */
static void fill_roots(parts w, int64_t n) {
    enum { LOW = 128 };
    double low[2][LOW];
    const double unit = -2 * 3.14159265358979323846 / (double)n;
    for (int64_t k = 0; k < LOW && k < n; k++) {
        low[0][k] = cos(unit * (double)k);
        low[1][k] = sin(unit * (double)k);
    }
    for (int64_t begin = 0; begin < n; begin += LOW) {
        double re = cos(unit * (double)begin), im = sin(unit * (double)begin);
        int64_t count = mc_min(LOW, n - begin);
        for (int64_t k = 0; k < count; k++) {
            w.re[begin + k] = (float)(re * low[0][k] - im * low[1][k]);
            w.im[begin + k] = (float)(re * low[1][k] + im * low[0][k]);
        }
    }
}

/* ---- passes ---- */

/* One pass with the factor `radix` over a row: x [radix, m, s] to y [m, radix, s]. A column is the
 * elements of one p and q. */
typedef struct pass {
    int64_t m, s, n; /* n: of the whole row */
    const float *xr, *xi;
    float *yr, *yi;
    const parts *w;
    int radix;
} pass;

static inline __attribute__((always_inline)) void put(const pass *a, int64_t at, float re, float im,
                                                      float wr, float wi) {
    a->yr[at] = re * wr - im * wi;
    a->yi[at] = re * wi + im * wr;
}

/* The roots of column p, for result k. */
#define ROOT(k) const float w##k##r = a->w->re[(k)*p * a->s], w##k##i = a->w->im[(k)*p * a->s]
#define LOAD(j) \
    const float r##j = a->xr[p * a->s + q + (j)*step], i##j = a->xi[p * a->s + q + (j)*step]
#define PUT(k, re, im) put(a, at + (k)*a->s, re, im, w##k##r, w##k##i)

static inline __attribute__((always_inline)) void column_2(const pass *a, int64_t p, int64_t q) {
    const int64_t step = a->m * a->s, at = 2 * p * a->s + q;
    ROOT(1);
    LOAD(0);
    LOAD(1);
    a->yr[at] = r0 + r1;
    a->yi[at] = i0 + i1;
    PUT(1, r0 - r1, i0 - i1);
}

static inline __attribute__((always_inline)) void column_3(const pass *a, int64_t p, int64_t q) {
    const int64_t step = a->m * a->s, at = 3 * p * a->s + q;
    const float h = 0.86602540378443865f;
    ROOT(1);
    ROOT(2);
    LOAD(0);
    LOAD(1);
    LOAD(2);
    const float sr = r1 + r2, si = i1 + i2, dr = h * (r1 - r2), di = h * (i1 - i2);
    const float cr = r0 - 0.5f * sr, ci = i0 - 0.5f * si;
    a->yr[at] = r0 + sr;
    a->yi[at] = i0 + si;
    PUT(1, cr + di, ci - dr);
    PUT(2, cr - di, ci + dr);
}

static inline __attribute__((always_inline)) void column_4(const pass *a, int64_t p, int64_t q) {
    const int64_t step = a->m * a->s, at = 4 * p * a->s + q;
    ROOT(1);
    ROOT(2);
    ROOT(3);
    LOAD(0);
    LOAD(1);
    LOAD(2);
    LOAD(3);
    const float er = r0 + r2, ei = i0 + i2, fr = r0 - r2, fi = i0 - i2;
    const float gr = r1 + r3, gi = i1 + i3, hr = r1 - r3, hi = i1 - i3;
    a->yr[at] = er + gr;
    a->yi[at] = ei + gi;
    PUT(1, fr + hi, fi - hr);
    PUT(2, er - gr, ei - gi);
    PUT(3, fr - hi, fi + hr);
}

static inline __attribute__((always_inline)) void column_5(const pass *a, int64_t p, int64_t q) {
    const int64_t step = a->m * a->s, at = 5 * p * a->s + q;
    const float c1 = 0.30901699437494742f, c2 = -0.80901699437494742f;
    const float s1 = 0.95105651629515357f, s2 = 0.58778525229247313f;
    ROOT(1);
    ROOT(2);
    ROOT(3);
    ROOT(4);
    LOAD(0);
    LOAD(1);
    LOAD(2);
    LOAD(3);
    LOAD(4);
    const float ar = r1 + r4, ai = i1 + i4, br = r2 + r3, bi = i2 + i3;
    const float cr = r1 - r4, ci = i1 - i4, dr = r2 - r3, di = i2 - i3;
    const float er = r0 + c1 * ar + c2 * br, ei = i0 + c1 * ai + c2 * bi;
    const float fr = r0 + c2 * ar + c1 * br, fi = i0 + c2 * ai + c1 * bi;
    const float gr = s1 * cr + s2 * dr, gi = s1 * ci + s2 * di;
    const float hr = s2 * cr - s1 * dr, hi = s2 * ci - s1 * di;
    a->yr[at] = r0 + ar + br;
    a->yi[at] = i0 + ai + bi;
    PUT(1, er + gi, ei - gr);
    PUT(2, fr + hi, fi - hr);
    PUT(3, fr - hi, fi + hr);
    PUT(4, er - gi, ei + gr);
}

/* By the definition, with the row's own roots. */
static void column_any(const pass *a, int64_t p, int64_t q) {
    const int64_t step = a->m * a->s, from = p * a->s + q, each = a->n / a->radix;
    for (int k = 0; k < a->radix; k++) {
        float re = a->xr[from], im = a->xi[from];
        for (int j = 1; j < a->radix; j++) {
            const int64_t root = (int64_t)(j * k % a->radix) * each;
            const float wr = a->w->re[root], wi = a->w->im[root];
            const float r = a->xr[from + j * step], i = a->xi[from + j * step];
            re += r * wr - i * wi;
            im += r * wi + i * wr;
        }
        const int64_t root = k * p * a->s;
        put(a, (a->radix * p + k) * a->s + q, re, im, a->w->re[root], a->w->im[root]);
    }
}

/* Before a loop whose rounds read nothing that others write. clang compares addresses at run time
 * instead: told the same, it warns of loops that it does not vectorise. */
#if defined(__clang__)
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* The longer of both loops inside. */
#define COLUMNS(radix)                                                                  \
    static void columns_##radix(const pass *restrict a) {                               \
        if (a->s >= a->m) {                                                             \
            for (int64_t p = 0; p < a->m; p++) {                                        \
                INDEPENDENT for (int64_t q = 0; q < a->s; q++) column_##radix(a, p, q); \
            }                                                                           \
        } else {                                                                        \
            for (int64_t q = 0; q < a->s; q++) {                                        \
                INDEPENDENT for (int64_t p = 0; p < a->m; p++) column_##radix(a, p, q); \
            }                                                                           \
        }                                                                               \
    }
COLUMNS(2)
COLUMNS(3)
COLUMNS(4)
COLUMNS(5)
COLUMNS(any)

/* x is overwritten; returns the one of both that holds the result. */
static parts transform(const plan *t, parts x, parts y) {
    int64_t m = t->n, s = 1;
    for (int i = 0; i < t->passes; i++) {
        int radix = t->factors[i];
        m /= radix;
        const pass a = {m, s, t->n, x.re, x.im, y.re, y.im, &t->w, radix};
        if (radix == 2)
            columns_2(&a);
        else if (radix == 3)
            columns_3(&a);
        else if (radix == 4)
            columns_4(&a);
        else if (radix == 5)
            columns_5(&a);
        else
            columns_any(&a);
        s *= radix;
        parts other = x;
        x = y;
        y = other;
    }
    return x;
}

/* ---- rows ---- */

static parts swapped(parts x) {
    return (parts){x.im, x.re};
}

/* x [n, 2] to its parts, those of a chirped row times the chirp and then zeros. */
static void load_row(const work *w, const float *x, parts to) {
    if (w->inverse) to = swapped(to);
    for (int64_t k = 0; k < w->n; k++) {
        to.re[k] = x[2 * k];
        to.im[k] = x[2 * k + 1];
    }
}

static void multiply(parts x, parts by, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        const float re = x.re[k] * by.re[k] - x.im[k] * by.im[k];
        x.im[k] = x.re[k] * by.im[k] + x.im[k] * by.re[k];
        x.re[k] = re;
    }
}

static void store_row(const work *w, parts from, float *y) {
    if (w->inverse) from = swapped(from);
    for (int64_t k = 0; k < w->n; k++) {
        y[2 * k] = from.re[k];
        y[2 * k + 1] = from.im[k];
    }
}

static void run_row(const work *w, int64_t row, float *scratch) {
    int64_t n = w->plan.n;
    parts x = {scratch, scratch + n}, y = {scratch + 2 * n, scratch + 3 * n};
    load_row(w, w->x + 2 * row * w->n, x);
    if (w->chirped) {
        size_t rest = (size_t)(n - w->n) * sizeof(float);
        memset(x.re + w->n, 0, rest);
        memset(x.im + w->n, 0, rest);
        multiply(x, w->chirp, w->n);
        parts both = transform(&w->plan, x, y);
        multiply(both, w->filter, n);
        both = transform(&w->plan, swapped(both), swapped(both.re == x.re ? y : x));
        x = swapped(both);
        multiply(x, w->chirp, w->n);
    } else {
        x = transform(&w->plan, x, y);
    }
    store_row(w, x, (float *)w->call->out.data + 2 * row * w->n);
}

static void run_rows(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    for (int64_t row = begin; row < end; row++)
        run_row(w, row, w->scratch + (int64_t)worker * 4 * w->plan.n);
}

/* ---- memory ---- */

static float *cut(float **from, int64_t n) {
    float *at = *from;
    *from += (n + 15) / 16 * 16;
    return at;
}

static parts cut_parts(float **from, int64_t n) {
    parts p;
    p.re = cut(from, n);
    p.im = cut(from, n);
    return p;
}

/* The chirp, and the transform of its conjugate, wrapped around. 2n is the period of k^2. */
static void fill_chirp(work *w, float *scratch) {
    int64_t n = w->n, m = w->plan.n, square = 0;
    parts x = {scratch, scratch + m}, y = {scratch + 2 * m, scratch + 3 * m};
    parts roots = {scratch, scratch + 2 * n};
    const float scale = 1.0f / (float)m; /* a power of two */
    fill_roots(roots, 2 * n);
    for (int64_t k = 0; k < n; k++) {
        w->chirp.re[k] = roots.re[square];
        w->chirp.im[k] = roots.im[square];
        square += 2 * k + 1;
        if (square >= 2 * n) square -= 2 * n;
    }
    memset(scratch, 0, 2 * (size_t)m * sizeof *scratch);
    for (int64_t k = 0; k < n; k++) {
        x.re[k] = x.re[(m - k) & (m - 1)] = w->chirp.re[k] * scale;
        x.im[k] = x.im[(m - k) & (m - 1)] = -w->chirp.im[k] * scale;
    }
    x = transform(&w->plan, x, y);
    memcpy(w->filter.re, x.re, (size_t)m * sizeof *x.re);
    memcpy(w->filter.im, x.im, (size_t)m * sizeof *x.im);
}

/* As dense f32. */
static void copy_operand(const mc_operand *x, int64_t size, float *to) {
    mc_block block;
    for (int64_t at = 0; at < size; at += MC_BLOCK) {
        int64_t n = mc_min(size - at, MC_BLOCK);
        memcpy(to + at, mc_block_f32(x, at, n, &block), (size_t)n * sizeof *to);
    }
}

static mica_status prepare(work *w) {
    const mc_call *call = w->call;
    const mc_operand *x = &call->in[0];
    int64_t length = w->n;
    w->chirped = !factorise(&w->plan, w->n);
    if (w->chirped) {
        for (length = 1; length < 2 * w->n - 1;)
            length *= 2;
        factorise(&w->plan, length);
    }
    int64_t part = (length + 15) / 16 * 16, threads = mc_cpu_of(call)->threads;
    bool dense = x->layout->dtype == MICA_F32 && mc_layout_is_dense(x->layout);
    int64_t size = dense ? 0 : mc_layout_size(x->layout);
    int64_t floats = part * (2 + (w->chirped ? 4 : 0)) + (size + 15) / 16 * 16;
    floats += threads * 4 * length;
    float *memory = mc_run_scratch(call->run, (size_t)floats * sizeof *memory);
    if (!memory) return MICA_ENOMEM;
    w->plan.w = cut_parts(&memory, length);
    fill_roots(w->plan.w, length);
    if (w->chirped) {
        w->chirp = cut_parts(&memory, length);
        w->filter = cut_parts(&memory, length);
    }
    w->x = x->data;
    if (!dense) {
        float *copy = cut(&memory, size);
        copy_operand(x, size, copy);
        w->x = copy;
    }
    w->scratch = memory;
    if (w->chirped) fill_chirp(w, memory);
    return MICA_OK;
}

mica_status mc_eval_fft(const mc_call *call) {
    const mc_attr_fft *a = call->attr;
    const mc_layout *x = call->in[0].layout;
    work w = {.call = call,
              .n = x->shape[x->ndim - 2],
              .rows = mc_row_count(x, x->ndim - 2),
              .inverse = a->inverse != 0};
    if (w.n == 0 || w.rows == 0) return MICA_OK;
    MC_TRY(prepare(&w));
    mc_cpu_for(call, w.rows, mc_grain(w.plan.n * 16), run_rows, &w);
    return MICA_OK;
}
