/* What the NEON kernels of the fast family share: how they read weights, four rows at once, 16
 * codes of each in a register, in the order of x's codes; and how they add groups. */
#ifndef CPU_KERN_INT8_INT8_NEON_CODES_H
#define CPU_KERN_INT8_INT8_NEON_CODES_H

#include "cpu/kern/int8/int8.h"
#include "cpu/kern/neon.h"
#include "cpu/kern/pages.h"

#define MK_FOUR_ROWS 4 /* rows of weights at once */
#define MK_STREAMED 4  /* rows of x at once */
#define MK_QUADS (MK_TILE / MK_FOUR_ROWS)

/* How codes lie. HALVES: of 4 bits, the even ones of a word before its odd ones; BYTES: of 8 bits;
 * STREAM: of 2, 3, 5 or 6 bits. */
typedef enum mk_form { MK_HALVES, MK_BYTES, MK_STREAM } mk_form;

MK_INLINE mk_form mk_form_of(const mk_qrows *w) {
    return w->bits == 4 ? MK_HALVES : w->bits == 8 ? MK_BYTES : MK_STREAM;
}

/* Four rows of weights; those that are not there are the last one again, whose results are not
 * stored. Rows of less than a register, which are streams, are here. */
typedef struct mk_lanes {
    const uint8_t *codes[MK_FOUR_ROWS];
    int64_t row[MK_FOUR_ROWS];
    int64_t bytes; /* a row */
    intptr_t next; /* what is prefetched meanwhile: the four rows after these, and further */
    uint8_t few[MK_FOUR_ROWS][16];
} mk_lanes;

static inline void mk_lanes_init(mk_lanes *l, const mk_qrows *w, int64_t n, int64_t r) {
    l->bytes = w->k * w->bits / 8;
    for (int i = 0; i < MK_FOUR_ROWS; i++) {
        l->row[i] = r + i < n ? r + i : n - 1;
        l->codes[i] = (const uint8_t *)(w->codes + l->row[i] * w->codes_stride);
        if (l->bytes >= 16 || w->bits == 4) continue;
        memset(l->few[i], 0, sizeof l->few[i]);
        memcpy(l->few[i], l->codes[i], (size_t)l->bytes);
        l->codes[i] = l->few[i];
    }
    l->next = (intptr_t)l->codes[0] + 4 * MK_FOUR_ROWS * w->codes_stride + mk_ahead(mk_core_ahead);
    if (l->bytes < 16) l->bytes = 16;
}

/* How 16 codes become bytes. Streams: the two bytes that a code begins in go to 16 bits of their
 * own, which are shifted down; halves: each word goes to two, one of which is. */
typedef struct mk_reader {
    uint8x16_t bytes[2], mask, table;
    int8x16_t shifts;
    int64_t step; /* bytes of 16 codes */
} mk_reader;

static inline mk_reader mk_reader_of(const mk_qrows *w) {
    static const uint8_t e2m1[16] = MK_FAST_E2M1;
    uint8_t bytes[2][16], table[16];
    int8_t shifts[16];
    for (int i = 0; i < 16; i++) {
        int bit = i / 2 * w->bits; /* of the code that byte i is made from */
        bytes[0][i] = (uint8_t)(w->bits == 4 ? i / 8 * 4 + i % 4 : bit / 8 + i % 2);
        bytes[1][i] = (uint8_t)(bytes[0][i] + w->bits);
        if (w->bits == 4)
            shifts[i] = (int8_t)(i % 8 < 4 ? 0 : -4);
        else /* a shift of 16 bits reads its lower byte */
            shifts[i] = (int8_t)(i % 2 == 0 ? -(bit % 8) : 0);
        table[i] = w->mode == MK_AFFINE ? (uint8_t)i : e2m1[i];
    }
    return (mk_reader){
        .bytes = {vld1q_u8(bytes[0]), vld1q_u8(bytes[1])},
        .mask = vdupq_n_u8((uint8_t)((1 << w->bits) - 1)),
        .table = vld1q_u8(table),
        .shifts = vld1q_s8(shifts),
        .step = 2 * w->bits,
    };
}

/* Codes of the rows at byte `at` of each. */
MK_INLINE void mk_read16(mk_form f, const mk_reader *d, const mk_lanes *l, int64_t at,
                         uint8x16_t v[MK_FOUR_ROWS]) {
    if (f == MK_BYTES) {
        for (int i = 0; i < MK_FOUR_ROWS; i++)
            v[i] = vld1q_u8(l->codes[i] + at);
        return;
    }
    if (f == MK_HALVES) {
        for (int i = 0; i < MK_FOUR_ROWS; i++) {
            uint8x8_t pairs = vld1_u8(l->codes[i] + at);
            v[i] = vqtbl1q_u8(vcombine_u8(pairs, pairs), d->bytes[0]);
            v[i] = vandq_u8(vshlq_u8(v[i], d->shifts), d->mask);
            v[i] = vqtbl1q_u8(d->table, v[i]);
        }
        return;
    }
    /* No byte after the row's last is read: there, bytes lie further back in the register. */
    int64_t over = at + 16 > l->bytes ? at + 16 - l->bytes : 0;
    uint8x16_t low = vaddq_u8(d->bytes[0], vdupq_n_u8((uint8_t)over));
    uint8x16_t high = vaddq_u8(d->bytes[1], vdupq_n_u8((uint8_t)over));
    int16x8_t shifts = vreinterpretq_s16_s8(d->shifts);
    for (int i = 0; i < MK_FOUR_ROWS; i++) {
        uint8x16_t packed = vld1q_u8(l->codes[i] + at - over);
        uint16x8_t a = vreinterpretq_u16_u8(vqtbl1q_u8(packed, low));
        uint16x8_t b = vreinterpretq_u16_u8(vqtbl1q_u8(packed, high));
        a = vshlq_u16(a, shifts), b = vshlq_u16(b, shifts);
        v[i] = vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b));
        v[i] = vandq_u8(v[i], d->mask);
    }
}

/* 4 x 4 words transposed. */
MK_INLINE void mk_transpose(uint32x4_t r[4]) {
    uint32x4_t a = vzip1q_u32(r[0], r[2]), b = vzip2q_u32(r[0], r[2]);
    uint32x4_t c = vzip1q_u32(r[1], r[3]), d = vzip2q_u32(r[1], r[3]);
    r[0] = vzip1q_u32(a, c), r[1] = vzip2q_u32(a, c);
    r[2] = vzip1q_u32(b, d), r[3] = vzip2q_u32(b, d);
}

/* Scales and biases of 4 groups; the rows are the lanes. */
typedef struct mk_stage {
    float32x4_t scales[4], biases[4];
} mk_stage;

MK_INLINE void mk_read_scales(const mk_qrows *w, const mk_lanes *l, const void *from, int64_t g,
                              int64_t count, float32x4_t v[4]) {
    uint32x4_t rows[MK_FOUR_ROWS];
    for (int i = 0; i < MK_FOUR_ROWS; i++) {
        int64_t at = l->row[i] * w->scales_stride + g;
        float32x4_t row;
        if (w->mode != MK_AFFINE) {
            float parts[4] = {0};
            for (int64_t c = 0; c < count; c++) {
                uint8_t byte = ((const uint8_t *)from)[at + c];
                parts[c] = 0.5f * (w->mode == MK_NVFP4 ? mk_from_e4m3(byte) : mk_from_e8m0(byte));
            }
            row = vld1q_f32(parts);
        } else if (w->type == MK_F32) {
            row = mk_load_first((const float *)from + at, count);
        } else {
            row = mk_wide(mk_load_first16((const uint16_t *)from + at, count), w->type);
        }
        rows[i] = vreinterpretq_u32_f32(row);
    }
    mk_transpose(rows);
    for (int i = 0; i < 4; i++)
        v[i] = vreinterpretq_f32_u32(rows[i]);
}

/* Of groups g .. g + count - 1, count <= 4. */
static inline void mk_stage_fill(mk_stage *st, const mk_qrows *w, const mk_lanes *l, int64_t g,
                                 int64_t count) {
    mk_read_scales(w, l, w->scales, g, count, st->scales);
    if (w->mode == MK_AFFINE) {
        mk_read_scales(w, l, w->biases, g, count, st->biases);
        return;
    }
    for (int i = 0; i < 4; i++)
        st->biases[i] = vmulq_n_f32(st->scales[i], (float)-MK_E2M1_ZERO);
}

MK_INLINE float32x4_t mk_add_group(float32x4_t y, int32x4_t dot, float32x4_t scale,
                                   float32x4_t bias, float x_scale, float x_sum) {
    y = vfmaq_f32(y, vcvtq_f32_s32(dot), vmulq_n_f32(scale, x_scale));
    return vfmaq_n_f32(y, bias, x_sum);
}

/* Sums of m rows of x and of a tile, of which n rows are there. */
MK_INLINE void mk_store_tile(int64_t m, int64_t n, float32x4_t y[MK_STREAMED][MK_QUADS], float *to,
                             int64_t stride) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t q = 0; q < MK_QUADS && MK_FOUR_ROWS * q < n; q++)
            mk_store_first(to + i * stride + MK_FOUR_ROWS * q, n - MK_FOUR_ROWS * q, y[i][q]);
}

#endif
