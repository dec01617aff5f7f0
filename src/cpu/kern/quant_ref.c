/* Quantised rows in plain C: one decoder for every mode and width. */
#include "cpu/kern/quant.h"
#include "cpu/kern/ref.h"

#include <stddef.h>

/* Codes first .. first + count - 1 of a row: each `bits` wide, in a stream of u32 words that they
 * may straddle. */
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

/* The same where words hold whole numbers of codes; `words` begins with the first one. */
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

/* `count` elements of one row from element `first`; both multiples of 16, in one group. */
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

void mk_quant_ref(mk_kernels *kernels) {
    kernels->unpack = unpack;
    kernels->matvec = matvec;
    kernels->arrange_q4 = arrange;
    kernels->matvec_q4 = matvec;
    kernels->unpack_q4 = unpack;
    kernels->arrange_q8 = arrange;
    kernels->matvec_q8 = matvec;
    kernels->unpack_q8 = unpack;
}
