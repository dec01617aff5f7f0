#include "cpu/fft_tables.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/integer.h"
#include "base/status.h"

#define PI 3.14159265358979323846

/* Lengths that are kept, and their bytes, where nobody uses them. */
enum { MAX_KEPT = 8, MAX_KEPT_BYTES = 1 << 25 };

struct mc_fft_cache {
    pthread_mutex_t lock;
    mc_fft_tables *first; /* the last one that was used, and so on */
};

/* ---- factors ---- */

/* Fills in the passes. false: n has a large prime factor. */
static bool factorise(mc_fft_plan *p, int64_t n) {
    static const int order[] = {4, 2, 3, 5, 7, 11, MK_FFT_RADIX};
    p->n = n;
    p->passes = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        for (; n % order[i] == 0; n /= order[i])
            p->factors[p->passes++] = order[i];
    return n == 1;
}

/* What passes over n numbers cost, each number's part of one of radix 4 as 1. */
static double cost_of(int64_t n) {
    mc_fft_plan p;
    double sum = 0;
    if (!factorise(&p, n)) return INFINITY;
    for (int i = 0; i < p.passes; i++)
        sum += p.factors[i] == 2 ? 0.7 : p.factors[i] == 3 ? 1 : p.factors[i] == 4 ? 1 : 1.8;
    return sum * (double)n;
}

int64_t mc_fft_length(int64_t n) {
    mc_fft_plan p;
    if (factorise(&p, n)) return n;
    int64_t best = 1;
    while (best < 2 * n - 1)
        best *= 2;
    const int64_t power = best;
    for (int64_t five = 1; five <= 5; five *= 5)
        for (int64_t three = 1; three <= 27; three *= 3) {
            int64_t length = five * three;
            while (length < 2 * n - 1)
                length *= 2;
            if (length < power && cost_of(length) < cost_of(best)) best = length;
        }
    return best;
}

/* ---- roots ---- */

/* exp(-2 pi i k / n) in double; k is below n. */
static void root_of(int64_t k, int64_t n, double out[2]) {
    const double angle = -2 * PI * (double)k / (double)n;
    out[0] = cos(angle);
    out[1] = sin(angle);
}

/* w[k] = exp(-2 pi i k step / n), as the products of two roots in double: few need a sine. */
static void fill_roots(mc_parts w, int64_t count, int64_t step, int64_t n) {
    enum { LOW = 128 };
    double low[LOW][2], high[2];
    for (int64_t k = 0; k < LOW && k < count; k++)
        root_of(k * step % n, n, low[k]);
    for (int64_t begin = 0; begin < count; begin += LOW) {
        root_of(begin * step % n, n, high);
        for (int64_t k = 0; k < mc_min(LOW, count - begin); k++) {
            w.re[begin + k] = (float)(high[0] * low[k][0] - high[1] * low[k][1]);
            w.im[begin + k] = (float)(high[0] * low[k][1] + high[1] * low[k][0]);
        }
    }
}

static float *cut(float **from, int64_t n) {
    float *at = *from;
    *from += (n + 15) / 16 * 16;
    return at;
}

static mc_parts cut_parts(float **from, int64_t n) {
    mc_parts p;
    p.re = cut(from, n);
    p.im = cut(from, n);
    return p;
}

/* Floats that the plan's roots take; at least. */
static int64_t plan_floats(const mc_fft_plan *p) {
    int64_t m = p->n, sum = 0;
    for (int i = 0; i < p->passes; i++) {
        m /= p->factors[i];
        sum += 2 * ((p->factors[i] - 1) * m + 16) + 2 * MK_FFT_RADIX + 16;
    }
    return sum;
}

/* The root of result k and column p of a pass is that of k p s. */
static void fill_plan(mc_fft_plan *p, float **memory) {
    int64_t m = p->n, s = 1;
    for (int i = 0; i < p->passes; i++) {
        int radix = p->factors[i];
        m /= radix;
        p->roots[i] = cut_parts(memory, (radix - 1) * m);
        for (int k = 1; k < radix; k++) {
            mc_parts row = {p->roots[i].re + (k - 1) * m, p->roots[i].im + (k - 1) * m};
            fill_roots(row, m, k * s, p->n);
        }
        float *units = cut(memory, 2 * radix);
        for (int j = 0; j < radix; j++) {
            double unit[2];
            root_of(j, radix, unit);
            units[2 * j] = (float)unit[0];
            units[2 * j + 1] = (float)unit[1];
        }
        p->units[i] = units;
        s *= radix;
    }
}

mc_parts mc_fft_transform(const mk_kernels *kern, const mc_fft_plan *plan, mc_parts x, mc_parts y) {
    int64_t m = plan->n, s = 1;
    for (int i = 0; i < plan->passes; i++) {
        int radix = plan->factors[i];
        m /= radix;
        kern->fft_pass(&(mk_fft_pass){.radix = radix,
                                      .m = m,
                                      .s = s,
                                      .x_re = x.re,
                                      .x_im = x.im,
                                      .y_re = y.re,
                                      .y_im = y.im,
                                      .roots_re = plan->roots[i].re,
                                      .roots_im = plan->roots[i].im,
                                      .units = plan->units[i]});
        s *= radix;
        mc_parts other = x;
        x = y;
        y = other;
    }
    return x;
}

/* ---- chirps ---- */

/* The chirp, and the transform of its conjugate, wrapped around. 2n is the period of k^2.
 * scratch: 4 plan.n floats. */
static void fill_chirp(const mk_kernels *kern, mc_fft_tables *t, float *scratch) {
    int64_t n = t->n, m = t->plan.n, square = 0;
    mc_parts x = {scratch, scratch + m}, y = {scratch + 2 * m, scratch + 3 * m};
    mc_parts roots = {scratch, scratch + 2 * n};
    const float scale = (float)(1.0 / (double)m);
    fill_roots(roots, 2 * n, 1, 2 * n);
    for (int64_t k = 0; k < n; k++) {
        t->chirp.re[k] = roots.re[square];
        t->chirp.im[k] = roots.im[square];
        square += 2 * k + 1;
        if (square >= 2 * n) square -= 2 * n;
    }
    memset(scratch, 0, 2 * (size_t)m * sizeof *scratch);
    for (int64_t k = 0; k < n; k++) {
        const int64_t back = k == 0 ? 0 : m - k;
        x.re[k] = x.re[back] = t->chirp.re[k] * scale;
        x.im[k] = x.im[back] = -t->chirp.im[k] * scale;
    }
    x = mc_fft_transform(kern, &t->plan, x, y);
    memcpy(t->filter.re, x.re, (size_t)m * sizeof *x.re);
    memcpy(t->filter.im, x.im, (size_t)m * sizeof *x.im);
}

static mica_status make_tables(const mk_kernels *kern, int64_t n, mc_fft_tables **out) {
    int64_t length = mc_fft_length(n), padded = (length + 15) / 16 * 16;
    mc_fft_plan plan = {0};
    (void)factorise(&plan, length);
    int64_t floats = plan_floats(&plan) + (length != n ? 4 * padded : 0);
    size_t head = (sizeof **out + 63) / 64 * 64, bytes = head + (size_t)floats * sizeof(float);
    char *memory = mc_aligned_alloc(64, bytes);
    float *scratch = length != n ? mc_array_alloc((size_t)length, 4 * sizeof *scratch) : NULL;
    if (!memory || (length != n && !scratch)) {
        mc_free(memory);
        mc_free(scratch);
        return mc_fail_nomem("the tables of a Fourier transform");
    }
    float *next = (float *)(void *)(memory + head);
    mc_fft_tables *t = (mc_fft_tables *)(void *)memory;
    *t = (mc_fft_tables){.n = n, .chirped = length != n, .plan = plan, .bytes = bytes};
    fill_plan(&t->plan, &next);
    if (t->chirped) {
        t->chirp = cut_parts(&next, n);
        t->filter = cut_parts(&next, length);
        fill_chirp(kern, t, scratch);
    }
    mc_free(scratch);
    *out = t;
    return MICA_OK;
}

/* ---- the cache ---- */

mica_status mc_fft_cache_open(mc_fft_cache **cache) {
    *cache = mc_calloc(1, sizeof **cache);
    if (!*cache) return mc_fail_nomem("the cache of Fourier transforms");
    if (pthread_mutex_init(&(*cache)->lock, NULL) == 0) return MICA_OK;
    mc_free(*cache);
    *cache = NULL;
    return mc_fail(MICA_ENOMEM, "a lock for Fourier transforms");
}

/* Frees tables that nobody uses, the oldest ones first, down to these numbers. */
static void trim(mc_fft_cache *cache, int max_kept, size_t max_bytes) {
    int kept = 0;
    size_t bytes = 0;
    for (mc_fft_tables **at = &cache->first; *at;) {
        mc_fft_tables *t = *at;
        kept++;
        bytes += t->bytes;
        if (t->users > 0 || (kept <= max_kept && bytes <= max_bytes)) {
            at = &t->next;
            continue;
        }
        bytes -= t->bytes;
        kept--;
        *at = t->next;
        mc_free(t);
    }
}

void mc_fft_cache_close(mc_fft_cache **cache) {
    if (!*cache) return;
    trim(*cache, 0, 0);
    pthread_mutex_destroy(&(*cache)->lock);
    mc_free(*cache);
    *cache = NULL;
}

mica_status mc_fft_tables_get(mc_fft_cache *cache, const mk_kernels *kern, int64_t n,
                              mc_fft_tables **out) {
    mica_status status = MICA_OK;
    pthread_mutex_lock(&cache->lock);
    mc_fft_tables **at = &cache->first;
    while (*at && (*at)->n != n)
        at = &(*at)->next;
    *out = *at;
    if (*out)
        *at = (*out)->next;
    else
        status = make_tables(kern, n, out);
    if (status == MICA_OK) {
        (*out)->next = cache->first;
        cache->first = *out;
        (*out)->users++;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

void mc_fft_tables_release(mc_fft_cache *cache, mc_fft_tables *tables) {
    if (!tables) return;
    pthread_mutex_lock(&cache->lock);
    tables->users--;
    trim(cache, MAX_KEPT, MAX_KEPT_BYTES);
    pthread_mutex_unlock(&cache->lock);
}
