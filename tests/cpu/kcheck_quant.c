/* Checks of exact matmuls with quantised weights. */
#include "cpu/kcheck.h"

static void unpack_format(check *c, mk_mode mode, int bits, int group, mk_type type) {
    const int64_t n = 6, k = 384;
    qmatrix m = qmatrix_new(mode, bits, group, type, n, k, c->where);
    guarded y = floats(c, n * k);
    c->kern->unpack(&m.rows, n, y.data);
    for (int64_t i = 0; i < n * k; i++) {
        double size, want = qmatrix_value(&m, i / k, i % k, &size);
        double got = (double)((float *)y.data)[i];
        judge(c, got, want, 4 * UNIT * size);
        if (mode != MK_AFFINE && want == 0 && signbit(got) != signbit(want))
            fail_check(c, "a zero of the other sign");
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

/* arrange permutes the elements of each block of 32. The three kernels of a width are checked
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

/* mxfp8 as bf16: the bits of matmul_bf16 over unpacked weights, which are exact. */
static void matmul_mxfp8(check *c, int64_t m, int64_t n, int64_t k, kind kinds, bool odd) {
    qmatrix w = qmatrix_new(MK_MXFP8, 8, 32, MK_F32, n, k, c->where);
    const int64_t xs = k + m % 2 * 32; /* rows of x with gaps or without */
    guarded x = guarded_new((size_t)((m - 1) * xs + k) * sizeof(uint16_t), c->where);
    guarded y = floats(c, m * n);
    guarded wide = guarded_new((size_t)(n * k) * sizeof(uint16_t), c->where);
    const uint16_t *got = wide.data;
    float *other = malloc((size_t)(m * n) * sizeof *other);
    if (other == NULL) exit(EXIT_FAILURE);
    fill_bf16(x.data, (m - 1) * xs + k, kinds);
    /* NaN in rows 0 and 1; scales out of range, which are clamped so that products are finite */
    if (odd) {
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

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/quant/quant_list.h"
#undef KERN
};

const kcheck_family kcheck_quant = {rows, COUNT(rows), NULL};
