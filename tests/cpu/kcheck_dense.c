/* Checks of dense matmuls and conversions. */
#include "cpu/kcheck.h"

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

/* Has the bits of the matmul over widened weights, whose error was bounded above. w_stride follows
 * from w's shape. */
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
    fill_floats(y.data, m * n, PLAIN); /* matmul_nn adds to y */
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
            /* random bits; every other number halfway between two 16-bit numbers, or next to it */
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

static void check_matmul_bf16(check *c) {
    scores_of(c, c->kern->matmul_bf16, 1, 9, 4096 + 33, PLAIN); /* long rows */
    scores_of(c, c->kern->matmul_bf16, 31, 9, 33, PLAIN);       /* a last block of one row */
    scores_of(c, c->kern->matmul_bf16, 48, 67, 1056, PLAIN);    /* whole blocks */
    scores_of(c, c->kern->matmul_bf16, 16, 32, 64, CANCELLING);
    scores_of(c, c->kern->matmul_bf16, 1, 67, 2592, PLAIN);
    scores_of(c, c->kern->matmul_bf16, 2, 32, 2592, PLAIN);
    scores_of(c, c->kern->matmul_bf16, 16, 32, 33, PLAIN);
    scores_of(c, c->kern->matmul_bf16, 5, 35, 0, PLAIN);        /* K is 0 */
    scores_of(c, c->kern->matmul_bf16, 2, 9, 4096 + 33, PLAIN); /* three parts */
    scores_of(c, c->kern->matmul_bf16, 13, 66, 4096 + 33, PLAIN);
    scores_of(c, c->kern->matmul_bf16, 3, 5, 4096, CANCELLING); /* two whole parts */
    scores_of(c, c->kern->matmul_bf16, 8, 13, 2048 + 1, PLAIN); /* one part and one element */
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

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/dense/dense_list.h"
#undef KERN
};

const kcheck_family kcheck_dense = {rows, COUNT(rows), NULL};
