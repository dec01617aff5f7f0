/* Checks of the fft family: against sums in f64, and the bits of the reference. */
#include "cpu/kcheck.h"

enum { MAX_N = 13 * 40 };

static void fill(guarded *g) {
    float *x = g->data;
    for (size_t i = 0; i < g->bytes / sizeof *x; i++)
        x[i] = random_float();
}

/* y[p, k, q] = root[k - 1, p] sum_j x[j, p, q] exp(-2 pi i j k / radix) */
static void judge_pass(check *c, const mk_fft_pass *a) {
    for (int64_t p = 0; p < a->m; p++)
        for (int64_t q = 0; q < a->s; q++)
            for (int k = 0; k < a->radix; k++) {
                double re = 0, im = 0, wr = 1, wi = 0;
                for (int j = 0; j < a->radix; j++) {
                    const int64_t at = (j * a->m + p) * a->s + q;
                    double angle = -2 * acos(-1) * (double)(j * k) / a->radix;
                    double r = (double)a->x_re[at], i = (double)a->x_im[at];
                    re += r * cos(angle) - i * sin(angle);
                    im += r * sin(angle) + i * cos(angle);
                }
                if (k > 0) {
                    wr = (double)a->roots_re[(k - 1) * a->m + p];
                    wi = (double)a->roots_im[(k - 1) * a->m + p];
                }
                const int64_t at = (p * a->radix + k) * a->s + q;
                judge(c, (double)a->y_re[at], re * wr - im * wi, 16 * UNIT * a->radix);
                judge(c, (double)a->y_im[at], re * wi + im * wr, 16 * UNIT * a->radix);
            }
}

static void check_pass(check *c, int radix, int64_t m, int64_t s) {
    mk_kernels ref = reference();
    int64_t n = radix * m * s, roots = (radix - 1) * m;
    guarded x_re = floats(c, n), x_im = floats(c, n), y_re = floats(c, n), y_im = floats(c, n);
    guarded w_re = floats(c, roots), w_im = floats(c, roots), units = floats(c, 2 * radix);
    float other_re[MAX_N], other_im[MAX_N], *unit = units.data;
    fill(&x_re), fill(&x_im), fill(&w_re), fill(&w_im);
    for (int j = 0; j < radix; j++) {
        double angle = -2 * acos(-1) * (double)j / radix;
        unit[2 * j] = (float)cos(angle);
        unit[2 * j + 1] = (float)sin(angle);
    }
    mk_fft_pass pass = {.radix = radix,
                        .m = m,
                        .s = s,
                        .x_re = x_re.data,
                        .x_im = x_im.data,
                        .y_re = y_re.data,
                        .y_im = y_im.data,
                        .roots_re = w_re.data,
                        .roots_im = w_im.data,
                        .units = unit};
    c->kern->fft_pass(&pass);
    judge_pass(c, &pass);
    pass.y_re = other_re;
    pass.y_im = other_im;
    ref.fft_pass(&pass);
    same_bits(c, y_re.data, other_re, n, "not the reference's bits");
    same_bits(c, y_im.data, other_im, n, "not the reference's bits");
    release(c, &x_re), release(c, &x_im), release(c, &y_re), release(c, &y_im);
    release(c, &w_re), release(c, &w_im), release(c, &units);
}

static void check_fft_pass(check *c) {
    static const int radices[] = {2, 3, 4, 5, 7, 11, 13};
    static const int64_t sizes[][2] = {{1, 1}, {3, 1},  {40, 1}, {5, 3}, {9, 4},
                                       {1, 4}, {1, 40}, {2, 17}, {4, 8}, {2, 7}};
    for (int i = 0; i < COUNT(radices); i++)
        for (int k = 0; k < COUNT(sizes); k++)
            check_pass(c, radices[i], sizes[k][0], sizes[k][1]);
}

static void check_fft_multiply(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n < 70; n++) {
        guarded re = floats(c, n), im = floats(c, n), by_re = floats(c, n), by_im = floats(c, n);
        float *a = re.data, *b = im.data, *d = by_re.data, *e = by_im.data;
        float old_re[70], old_im[70], other_re[70], other_im[70];
        fill(&re), fill(&im), fill(&by_re), fill(&by_im);
        memcpy(old_re, a, re.bytes), memcpy(old_im, b, im.bytes);
        memcpy(other_re, a, re.bytes), memcpy(other_im, b, im.bytes);
        c->kern->fft_multiply(n, a, b, d, e);
        ref.fft_multiply(n, other_re, other_im, d, e);
        same_bits(c, a, other_re, n, "not the reference's bits");
        same_bits(c, b, other_im, n, "not the reference's bits");
        for (int64_t k = 0; k < n; k++) {
            double x = (double)old_re[k], y = (double)old_im[k], z = (double)d[k], w = (double)e[k];
            judge(c, (double)a[k], x * z - y * w, 4 * UNIT);
            judge(c, (double)b[k], x * w + y * z, 4 * UNIT);
        }
        release(c, &re), release(c, &im), release(c, &by_re), release(c, &by_im);
    }
}

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/fft/fft_list.h"
#undef KERN
};

static bool same(const mk_kernels *a, const mk_kernels *b) {
    return a->fft_pass == b->fft_pass && a->fft_multiply == b->fft_multiply;
}

const kcheck_family kcheck_fft = {rows, COUNT(rows), same};
