/* The fast products in plain C. */
#include "cpu/kern/int8/int8.h"

#define GROUP 128 /* the largest */

/* The first of 8 codes of 4 bits are the even ones. */
static int64_t place_of(int64_t i, bool pairs) {
    return pairs ? (i & ~(int64_t)7) + (i & 1) * 4 + (i & 7) / 2 : i;
}

static void quantize_group(const float *x, int n, int max, int8_t *codes, float *scale,
                           float *sum) {
    int32_t highest = 0, lowest = 0, total = 0;
    for (int i = 0; i < n; i++) {
        int32_t up = (int32_t)mk_bits(x[i]), down = (int32_t)mk_bits(-x[i]);
        highest = up > highest ? up : highest;
        lowest = down > lowest ? down : lowest;
    }
    mk_code_step step = mk_code_step_of(highest, lowest, max);
    for (int i = 0; i < n; i++) {
        int32_t code = step.some ? (int32_t)lrintf(x[i] * step.inverse) : 0;
        codes[place_of(i, mk_in_pairs(max))] = (int8_t)code;
        total += code;
    }
    *scale = step.scale;
    *sum = *scale * (float)total;
}

static void quantize(int64_t m, const float *x, int64_t x_stride, int max, const mk_xrows *y) {
    mk_quantize_rows(quantize_group, mk_winograd_plain, m, x, x_stride, max, y);
}

/* Codes of group g of a row, in the order of x's, and what they are scaled with. */
static void read_group(const mk_qrows *w, int64_t g, uint8_t *codes, float *scale, float *bias) {
    static const uint8_t e2m1[16] = MK_FAST_E2M1;
    uint32_t mask = (1u << w->bits) - 1u;
    int64_t bit = g * w->group * w->bits;
    for (int64_t i = 0; i < w->group; i++, bit += w->bits) {
        int64_t word = bit >> 5;
        int shift = (int)(bit & 31);
        uint32_t value = w->codes[word] >> shift;
        if (shift + w->bits > 32) value |= w->codes[word + 1] << (32 - shift);
        value &= mask;
        codes[place_of(i, w->bits == 4)] = w->mode == MK_AFFINE ? (uint8_t)value : e2m1[value];
    }
    if (w->mode == MK_AFFINE) {
        *scale = mk_load(w->scales, w->type, g);
        *bias = mk_load(w->biases, w->type, g);
        return;
    }
    uint8_t byte = ((const uint8_t *)w->scales)[g];
    *scale = 0.5f * (w->mode == MK_NVFP4 ? mk_from_e4m3(byte) : mk_from_e8m0(byte));
    *bias = *scale * (float)-MK_E2M1_ZERO;
}

static float add_group(float y, int32_t dot, float scale, float bias, float x_scale, float x_sum) {
    y = fmaf((float)dot, scale * x_scale, y);
    return fmaf(bias, x_sum, y);
}

static void matvec(const mk_qrows *w, int64_t n, int64_t m, const mk_xrows *x, float *y,
                   int64_t y_stride) {
    int64_t groups = w->k / w->group;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        for (int64_t i = 0; i < m; i++)
            y[i * y_stride + r] = 0;
        for (int64_t g = 0; g < groups; g++) {
            uint8_t codes[GROUP];
            float scale, bias;
            read_group(&row, g, codes, &scale, &bias);
            for (int64_t i = 0; i < m; i++) {
                const int8_t *a = x->codes + i * x->k + g * x->group;
                int32_t dot = 0;
                for (int64_t l = 0; l < w->group; l++)
                    dot += (int32_t)codes[l] * a[l];
                float *to = y + i * y_stride + r;
                *to = add_group(*to, dot, scale, bias, x->scales[i * groups + g],
                                x->sums[i * groups + g]);
            }
        }
    }
}

static void unpack(const mk_qrows *w, int64_t n, mk_tiles *tiles) {
    int64_t groups = w->k / w->group;
    tiles->max = mk_max_code(w->mode, w->bits);
    tiles->winograd = false;
    for (int64_t r = 0; r < (n + MK_TILE - 1) / MK_TILE * MK_TILE; r++) {
        uint8_t *to = tiles->codes + r / MK_TILE * MK_TILE * w->k + r % MK_TILE * 4;
        float *scales = tiles->scales + r / MK_TILE * MK_TILE * 2 * groups + r % MK_TILE;
        mk_qrows row = mk_qrows_at(w, r < n ? r : 0);
        for (int64_t g = 0; g < groups; g++, scales += 2 * MK_TILE) {
            uint8_t codes[GROUP] = {0};
            scales[0] = scales[MK_TILE] = 0;
            if (r < n) read_group(&row, g, codes, &scales[0], &scales[MK_TILE]);
            for (int64_t l = 0; l < w->group; l += 4, to += 4 * MK_TILE)
                memcpy(to, codes + l, 4);
        }
    }
}

static void matmul(int64_t m, const mk_xrows *x, int64_t n, const mk_tiles *tiles, float *y,
                   int64_t y_stride) {
    int64_t groups = x->k / x->group;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            const uint8_t *codes = tiles->codes + j / MK_TILE * MK_TILE * x->k + j % MK_TILE * 4;
            const float *scales = tiles->scales + j / MK_TILE * MK_TILE * 2 * groups + j % MK_TILE;
            const int8_t *a = x->codes + i * x->k;
            float sum = 0;
            for (int64_t g = 0; g < groups; g++, scales += 2 * MK_TILE) {
                int32_t dot = 0;
                for (int64_t l = 0; l < x->group; l += 4, a += 4, codes += 4 * MK_TILE)
                    dot += codes[0] * a[0] + codes[1] * a[1] + codes[2] * a[2] + codes[3] * a[3];
                sum = add_group(sum, dot, scales[0], scales[MK_TILE], x->scales[i * groups + g],
                                x->sums[i * groups + g]);
            }
            y[i * y_stride + j] = sum;
        }
    }
}

void mk_int8_ref(mk_kernels *kernels) {
    kernels->int8_quantize = quantize;
    kernels->int8_matvec = matvec;
    kernels->int8_pack = unpack;
    kernels->int8_matmul = matmul;
    kernels->int8_streamed = 8;
}
