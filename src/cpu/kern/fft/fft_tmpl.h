/* The fft family in plain C: a template, compiled as FILL for each instruction set. The compiler
 * may not contract or reorder sums and products, so all of them give the same bits.
 *
 * source  Stockham 1966; Swarztrauber 1984, "FFT algorithms for vector computers". */
#include "cpu/kern/fft/fft.h"

static inline __attribute__((always_inline)) void put(const mk_fft_pass *a, int64_t at, float re,
                                                      float im, float wr, float wi) {
    a->y_re[at] = re * wr - im * wi;
    a->y_im[at] = re * wi + im * wr;
}

/* The roots of column p, for result k. */
#define ROOT(k) \
    const float w##k##r = a->roots_re[((k)-1) * a->m + p], w##k##i = a->roots_im[((k)-1) * a->m + p]
#define LOAD(j) \
    const float r##j = a->x_re[p * a->s + q + (j)*step], i##j = a->x_im[p * a->s + q + (j)*step]
#define PUT(k, re, im) put(a, at + (k)*a->s, re, im, w##k##r, w##k##i)

static inline __attribute__((always_inline)) void column_2(const mk_fft_pass *a, int64_t p,
                                                           int64_t q) {
    const int64_t step = a->m * a->s, at = 2 * p * a->s + q;
    ROOT(1);
    LOAD(0);
    LOAD(1);
    a->y_re[at] = r0 + r1;
    a->y_im[at] = i0 + i1;
    PUT(1, r0 - r1, i0 - i1);
}

static inline __attribute__((always_inline)) void column_3(const mk_fft_pass *a, int64_t p,
                                                           int64_t q) {
    const int64_t step = a->m * a->s, at = 3 * p * a->s + q;
    const float h = 0.86602540378443865f;
    ROOT(1);
    ROOT(2);
    LOAD(0);
    LOAD(1);
    LOAD(2);
    const float sr = r1 + r2, si = i1 + i2, dr = h * (r1 - r2), di = h * (i1 - i2);
    const float cr = r0 - 0.5f * sr, ci = i0 - 0.5f * si;
    a->y_re[at] = r0 + sr;
    a->y_im[at] = i0 + si;
    PUT(1, cr + di, ci - dr);
    PUT(2, cr - di, ci + dr);
}

static inline __attribute__((always_inline)) void column_4(const mk_fft_pass *a, int64_t p,
                                                           int64_t q) {
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
    a->y_re[at] = er + gr;
    a->y_im[at] = ei + gi;
    PUT(1, fr + hi, fi - hr);
    PUT(2, er - gr, ei - gi);
    PUT(3, fr - hi, fi + hr);
}

static inline __attribute__((always_inline)) void column_5(const mk_fft_pass *a, int64_t p,
                                                           int64_t q) {
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
    a->y_re[at] = r0 + ar + br;
    a->y_im[at] = i0 + ai + bi;
    PUT(1, er + gi, ei - gr);
    PUT(2, fr + hi, fi - hr);
    PUT(3, fr - hi, fi + hr);
    PUT(4, er - gi, ei + gr);
}

/* By the definition: units has the roots of the radix. */
static void column_any(const mk_fft_pass *a, int64_t p, int64_t q) {
    const int64_t step = a->m * a->s, from = p * a->s + q, at = a->radix * p * a->s + q;
    for (int k = 0; k < a->radix; k++) {
        float re = a->x_re[from], im = a->x_im[from];
        for (int j = 1; j < a->radix; j++) {
            const float *unit = a->units + 2 * (j * k % a->radix);
            const float r = a->x_re[from + j * step], i = a->x_im[from + j * step];
            re += r * unit[0] - i * unit[1];
            im += r * unit[1] + i * unit[0];
        }
        if (k == 0) {
            a->y_re[at] = re;
            a->y_im[at] = im;
        } else {
            const int64_t root = (k - 1) * a->m + p;
            put(a, at + k * a->s, re, im, a->roots_re[root], a->roots_im[root]);
        }
    }
}

/* Before a loop whose rounds read nothing that others write. clang compares addresses at run time
 * instead: told the same, it warns of loops that it does not vectorise. */
#if defined(__clang__)
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Neighbours are those of q: of p where there are few of these. Passes behind one of radix 4 have
 * 4. */
#define COLUMNS(radix)                                                                  \
    static void columns_##radix(const mk_fft_pass *restrict a) {                        \
        if (a->s >= 8 || a->s >= a->m) {                                                \
            for (int64_t p = 0; p < a->m; p++) {                                        \
                INDEPENDENT for (int64_t q = 0; q < a->s; q++) column_##radix(a, p, q); \
            }                                                                           \
        } else if (a->s == 4) {                                                         \
            for (int64_t p = 0; p < a->m; p++) {                                        \
                INDEPENDENT for (int64_t q = 0; q < 4; q++) column_##radix(a, p, q);    \
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

static void fft_pass(const mk_fft_pass *pass) {
    if (pass->radix == 2)
        columns_2(pass);
    else if (pass->radix == 3)
        columns_3(pass);
    else if (pass->radix == 4)
        columns_4(pass);
    else if (pass->radix == 5)
        columns_5(pass);
    else
        columns_any(pass);
}

static void fft_multiply(int64_t n, float *restrict re, float *restrict im,
                         const float *restrict by_re, const float *restrict by_im) {
    for (int64_t k = 0; k < n; k++) {
        const float r = re[k] * by_re[k] - im[k] * by_im[k];
        im[k] = re[k] * by_im[k] + im[k] * by_re[k];
        re[k] = r;
    }
}

void FILL(mk_kernels *kernels) {
    kernels->fft_pass = fft_pass;
    kernels->fft_multiply = fft_multiply;
}
