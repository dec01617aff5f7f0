/* Quantised rows in plain C: one decoder for all modes and widths. */
#include "cpu/kern/quant/quant.h"
#include "cpu/kern/ref.h"

#include <stddef.h>

/* Codes first .. first + count - 1 of a row: `bits` wide, in a stream of u32 words. A code may
 * straddle two words. */
static void read_stream(const uint32_t *words, int bits, int64_t first, int64_t count,
                        uint32_t *codes) {
    uint32_t mask = (1u << bits) - 1u;
    int64_t bit = first * bits;
    for (int64_t i = 0; i < count; i++, bit += bits) {
        int64_t word = bit >> 5;
        int shift = (int)(bit & 31);
        uint32_t value = words[word] >> shift;
        if (shift + bits > 32) value |= words[word + 1] << (32 - shift);
        codes[i] = value & mask;
    }
}

/* The same where no code straddles words. `words` begins with the first code. */
static void read_words(const uint32_t *words, int bits, int64_t count, uint32_t *codes) {
    uint32_t mask = (1u << bits) - 1u;
    int each = 32 / bits;
    for (int64_t i = 0; i < count; i += each)
        for (int c = 0; c < each; c++)
            codes[i + c] = words[i / each] >> (c * bits) & mask;
}

static void read_codes(const uint32_t *words, int bits, int64_t first, int64_t count,
                       uint32_t *codes) {
    if (bits == 4)
        read_words(words + first / 8, 4, count, codes);
    else if (bits == 8)
        read_words(words + first / 4, 8, count, codes);
    else
        read_stream(words, bits, first, count, codes);
}

/* Elements first .. first + count - 1 of one row, within one group. Both are multiples of 16. */
static void unpack_part(const mk_qrows *w, int64_t first, int64_t count, float *y) {
    uint32_t codes[MK_REF_BLOCK];
    read_codes(w->codes, w->bits, first, count, codes);
    int64_t g = first / w->group;
    float scale = mk_scale_of(w, w->mode, g);
    if (w->mode == MK_AFFINE) {
        float bias = mk_load(w->biases, w->type, g);
        for (int64_t i = 0; i < count; i++)
            y[i] = scale * (float)codes[i] + bias;
    } else if (w->mode == MK_MXFP8) {
        for (int64_t i = 0; i < count; i++)
            y[i] = scale * mk_from_e4m3((uint8_t)codes[i]);
    } else {
        for (int64_t i = 0; i < count; i++)
            y[i] = scale * mk_from_e2m1(codes[i]);
    }
}

static int64_t part_of(const mk_qrows *w) {
    return w->group < MK_REF_BLOCK ? w->group : MK_REF_BLOCK;
}

static void unpack(const mk_qrows *w, int64_t n, float *y) {
    int64_t part = part_of(w);
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        for (int64_t l = 0; l < w->k; l += part)
            unpack_part(&row, l, part, y + r * w->k + l);
    }
}

static void matvec(const mk_qrows *w, int64_t n, const float *x, float *y) {
    int64_t part = part_of(w);
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        mk_ref_sum sum = {{0}};
        for (int64_t l = 0; l < w->k; l += part) {
            float block[MK_REF_BLOCK];
            unpack_part(&row, l, part, block);
            mk_ref_add(&sum, part, x + l, block);
        }
        y[r] = mk_ref_total(&sum);
    }
}

static void arrange(int64_t k, const float *x, float *y) {
    memcpy(y, x, (size_t)k * sizeof *y);
}

static bool row_has_nan(const uint8_t *codes, const uint8_t *scales, int64_t k) {
    for (int64_t l = 0; l < k; l++)
        if ((codes[l] & 0x7fu) == 0x7fu || scales[l / 32] == 0xffu) return true;
    return false;
}

static void unpack_mxfp8(const mk_qrows *w, int64_t n, uint16_t *y) {
    for (int64_t r = 0; r < n; r++, y += w->k) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint8_t *codes = (const uint8_t *)row.codes, *scales = row.scales;
        bool nan = row_has_nan(codes, scales, w->k);
        for (int64_t l = 0; l < w->k; l++) {
            int scale = scales[l / 32];
            if (scale < 127 - MK_MXFP8_RANGE) scale = 127 - MK_MXFP8_RANGE;
            if (scale > 127 + MK_MXFP8_RANGE) scale = 127 + MK_MXFP8_RANGE;
            float v = mk_from_e8m0((uint8_t)scale) * mk_from_e4m3(codes[l]);
            y[l] = nan ? MK_BF16_NAN : v == 0 ? 0 : mk_to_bf16(v);
        }
    }
}

/* The product of two bf16 is exact in f32. */
static void matmul_mxfp8(const mk_qrows *w, int64_t n, int64_t m, const uint16_t *x,
                         int64_t x_stride, float *y, int64_t y_stride) {
    mk_qrows part = *w;
    part.k = 32;
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < m; i++) {
            mk_ref_sum sum = {{0}};
            for (int64_t l = 0; l < w->k; l += 32) {
                uint16_t half[32];
                float block[2][32];
                mk_qrows row = mk_qrows_at(w, r);
                part.codes = row.codes + l / 4;
                part.scales = (const uint8_t *)row.scales + l / 32;
                unpack_mxfp8(&part, 1, half);
                for (int c = 0; c < 32; c++) {
                    block[0][c] = mk_from_bf16(x[i * x_stride + l + c]);
                    block[1][c] = mk_from_bf16(half[c]);
                }
                mk_ref_add(&sum, 32, block[0], block[1]);
            }
            y[i * y_stride + r] = mk_ref_total(&sum);
        }
}

void mk_quant_ref(mk_kernels *kernels) {
    kernels->unpack = unpack;
    kernels->matvec = matvec;
    kernels->arrange_q4 = arrange;
    kernels->matvec_q4 = matvec;
    kernels->unpack_q4 = unpack;
    kernels->arrange_q8 = arrange;
    kernels->matvec_q8 = matvec;
    kernels->unpack_q8 = unpack;
    kernels->unpack_mxfp8 = unpack_mxfp8;
    kernels->matmul_mxfp8 = matmul_mxfp8;
}
