/* NEON: rows of any mode and width, 8 codes at a time in their natural order; affine rows of 4 bits
 * 32 at a time, the even codes of a block before the odd ones, which is how a mask and a shift give
 * them and arrange_q4 puts x. */
#include "cpu/kern/neon.h"
#include "cpu/kern/quant/quant.h"

#define ROWS 4   /* in flight */
#define BLOCK 32 /* of matvec_q4 */

/* y[32 b + 16 odd + i] = x[32 b + 2 i + odd] */
static void arrange_q4(int64_t k, const float *x, float *y) {
    for (int64_t b = 0; b < k; b += BLOCK) {
        for (int64_t i = 0; i < BLOCK / 2; i += 4) {
            float32x4x2_t pairs = vld2q_f32(x + b + 2 * i);
            vst1q_f32(y + b + i, pairs.val[0]);
            vst1q_f32(y + b + BLOCK / 2 + i, pairs.val[1]);
        }
    }
}

/* How the `bits` bytes of 8 codes become 8 lanes: lane i gets the two bytes that code i begins in,
 * and is shifted down. */
typedef struct decoder {
    uint8x16_t bytes;
    int16x8_t shifts;
    uint16x8_t mask;
} decoder;

MK_INLINE decoder decoder_of(int bits) {
    uint8_t bytes[16];
    int16_t shifts[8];
    for (int i = 0; i < 8; i++) {
        bytes[2 * i] = (uint8_t)(i * bits / 8);
        bytes[2 * i + 1] = (uint8_t)(i * bits / 8 + 1);
        shifts[i] = (int16_t) - (i * bits % 8);
    }
    return (decoder){vld1q_u8(bytes), vld1q_s16(shifts), vdupq_n_u16((uint16_t)((1 << bits) - 1))};
}

/* 2, 3, 4, 5, 6 or 8 bytes, in registers only: a copy through memory would wait for its own
 * stores. */
MK_INLINE uint64_t read_bytes(const uint8_t *p, int n) {
    uint64_t value = 0;
    uint32_t four;
    uint16_t two;
    int first = n >= 4 ? 4 : 2;
    if (n == 8) {
        memcpy(&value, p, 8);
        return value;
    }
    if (first == 4) {
        memcpy(&four, p, 4);
        value = four;
    } else {
        memcpy(&two, p, 2);
        value = two;
    }
    if (n - first == 1) value |= (uint64_t)p[first] << (8 * first);
    if (n - first == 2) {
        memcpy(&two, p + first, 2);
        value |= (uint64_t)two << (8 * first);
    }
    return value;
}

MK_INLINE uint16x8_t read_codes(const decoder *d, int bits, const uint8_t *codes) {
    if (bits == 8) return vmovl_u8(vld1_u8(codes));
    uint8x8_t packed = vcreate_u8(read_bytes(codes, bits));
    uint8x16_t spread = vqtbl1q_u8(vcombine_u8(packed, packed), d->bytes);
    return vandq_u16(vshlq_u16(vreinterpretq_u16_u8(spread), d->shifts), d->mask);
}

/* 8 bytes of E4M3 by way of f16, whose exponent's bias is 8 more; 0x7f is NaN. */
MK_INLINE void from_e4m3(uint16x8_t b, float32x4_t scale, float32x4_t v[2]) {
    uint16x8_t rest = vandq_u16(b, vdupq_n_u16(0x7f));
    uint16x8_t sign = vshlq_n_u16(veorq_u16(b, rest), 8);
    uint16x8_t nan = vceqq_u16(rest, vdupq_n_u16(0x7f));
    uint16x8_t half = vorrq_u16(vshlq_n_u16(rest, 7), sign);
    half = vbslq_u16(nan, vdupq_n_u16(0x7e00), half);
    v[0] = vmulq_f32(scale, vmulq_n_f32(mk_wide(vget_low_u16(half), MK_F16), 256.0f));
    v[1] = vmulq_f32(scale, vmulq_n_f32(mk_wide(vget_high_u16(half), MK_F16), 256.0f));
}

/* 8 codes of E2M1: twice their value is a whole number. */
MK_INLINE void from_e2m1(uint16x8_t codes, float32x4_t scale, float32x4_t v[2]) {
    static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    int16x8_t n = vmovl_s8(vqtbl1_s8(vld1q_s8(twice), vmovn_u16(codes)));
    v[0] = vmulq_f32(scale, vcvtq_n_f32_s32(vmovl_s16(vget_low_s16(n)), 1));
    v[1] = vmulq_f32(scale, vcvtq_n_f32_s32(vmovl_s16(vget_high_s16(n)), 1));
}

MK_INLINE void from_affine(uint16x8_t codes, float32x4_t scale, float32x4_t bias,
                           float32x4_t v[2]) {
    v[0] = vfmaq_f32(bias, scale, vcvtq_f32_u32(vmovl_u16(vget_low_u16(codes))));
    v[1] = vfmaq_f32(bias, scale, vcvtq_f32_u32(vmovl_u16(vget_high_u16(codes))));
}

/* What rows are read as. Constants everywhere: each makes code of its own. */
typedef struct form {
    mk_mode mode;
    int bits;
    int step; /* codes at a time: 8 in their natural order, or a block of matvec_q4 */
} form;

/* The `step` weights at `codes`, of one group. */
MK_INLINE void weights_of(form f, const decoder *d, const uint8_t *codes, float32x4_t scale,
                          float32x4_t bias, float32x4_t *v) {
    if (f.step == BLOCK) {
        uint8x16_t pairs = vld1q_u8(codes);
        uint8x16_t even = vandq_u8(pairs, vdupq_n_u8(15)), odd = vshrq_n_u8(pairs, 4);
        from_affine(vmovl_u8(vget_low_u8(even)), scale, bias, v);
        from_affine(vmovl_u8(vget_high_u8(even)), scale, bias, v + 2);
        from_affine(vmovl_u8(vget_low_u8(odd)), scale, bias, v + 4);
        from_affine(vmovl_u8(vget_high_u8(odd)), scale, bias, v + 6);
        return;
    }
    uint16x8_t numbers = read_codes(d, f.bits, codes);
    if (f.mode == MK_AFFINE)
        from_affine(numbers, scale, bias, v);
    else if (f.mode == MK_MXFP8)
        from_e4m3(numbers, scale, v);
    else
        from_e2m1(numbers, scale, v);
}

MK_INLINE float32x4_t spread(const void *row, mk_type type, int64_t at) {
    if (type == MK_F32) return vld1q_dup_f32((const float *)row + at);
    return mk_wide(vld1_dup_u16((const uint16_t *)row + at), type);
}

/* Scale and bias number `at`, in every lane. */
MK_INLINE float32x4_t scale_of(const mk_qrows *w, form f, int64_t at) {
    if (f.mode == MK_AFFINE) return spread(w->scales, w->type, at);
    return vdupq_n_f32(mk_scale_of(w, f.mode, at));
}

MK_INLINE float32x4_t bias_of(const mk_qrows *w, form f, int64_t at) {
    return f.mode == MK_AFFINE ? spread(w->biases, w->type, at) : vdupq_n_f32(0);
}

/* y [rows] = w [rows, k] x [k] */
MK_INLINE void rows_matmul(form f, const mk_qrows *w, int rows, const float *x, float *y) {
    decoder d = decoder_of(f.bits);
    int64_t groups = w->k / w->group, row_bytes = w->codes_stride * 4;
    float32x4_t sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = vdupq_n_f32(0);
    const uint8_t *codes = (const uint8_t *)w->codes;
    for (int64_t g = 0; g < groups; g++) {
        float32x4_t scale[ROWS], bias[ROWS];
        for (int r = 0; r < rows; r++) {
            int64_t at = r * w->scales_stride + g;
            scale[r] = scale_of(w, f, at);
            bias[r] = bias_of(w, f, at);
        }
        for (int l = 0; l < w->group; l += f.step, codes += f.step * f.bits / 8, x += f.step) {
            for (int r = 0; r < rows; r++) {
                float32x4_t v[BLOCK / 4];
                weights_of(f, &d, codes + r * row_bytes, scale[r], bias[r], v);
                for (int i = 0; i < f.step / 4; i++)
                    sum[r] = vfmaq_f32(sum[r], vld1q_f32(x + 4 * i), v[i]);
            }
        }
    }
    mk_store_first(y, rows, mk_sum4(sum));
}

MK_INLINE void matvec_form(form f, const mk_qrows *w, int64_t n, const float *x, float *y) {
    int64_t r = 0;
    for (; r + ROWS <= n; r += ROWS) {
        mk_qrows rows = mk_qrows_at(w, r);
        rows_matmul(f, &rows, ROWS, x, y + r);
    }
    for (; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        rows_matmul(f, &row, 1, x, y + r);
    }
}

MK_INLINE void unpack_form(form f, const mk_qrows *w, int64_t n, float *y) {
    decoder d = decoder_of(f.bits);
    int64_t groups = w->k / w->group;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint8_t *codes = (const uint8_t *)row.codes;
        for (int64_t g = 0; g < groups; g++) {
            float32x4_t scale = scale_of(&row, f, g);
            float32x4_t bias = bias_of(&row, f, g);
            for (int l = 0; l < w->group; l += f.step, codes += f.step * f.bits / 8) {
                float32x4_t v[BLOCK / 4];
                weights_of(f, &d, codes, scale, bias, v);
                for (int i = 0; i < f.step / 4; i++, y += 4)
                    vst1q_f32(y, v[i]);
            }
        }
    }
}

static const form blocks_q4 = {MK_AFFINE, 4, BLOCK};

static void matvec_q4(const mk_qrows *w, int64_t n, const float *x, float *y) {
    matvec_form(blocks_q4, w, n, x, y);
}

static void unpack_q4(const mk_qrows *w, int64_t n, float *y) {
    unpack_form(blocks_q4, w, n, y);
}

/* Does DO(mode, bits) with constants. */
#define DISPATCH(w, DO)                             \
    do {                                            \
        if ((w)->mode == MK_MXFP4) DO(MK_MXFP4, 4); \
        if ((w)->mode == MK_MXFP8) DO(MK_MXFP8, 8); \
        if ((w)->mode == MK_NVFP4) DO(MK_NVFP4, 4); \
        if ((w)->mode != MK_AFFINE) break;          \
        if ((w)->bits == 2) DO(MK_AFFINE, 2);       \
        if ((w)->bits == 3) DO(MK_AFFINE, 3);       \
        if ((w)->bits == 4) DO(MK_AFFINE, 4);       \
        if ((w)->bits == 5) DO(MK_AFFINE, 5);       \
        if ((w)->bits == 6) DO(MK_AFFINE, 6);       \
        if ((w)->bits == 8) DO(MK_AFFINE, 8);       \
    } while (0)

static void matvec(const mk_qrows *w, int64_t n, const float *x, float *y) {
#define MATVEC(mode, bits) matvec_form((form){mode, bits, 8}, w, n, x, y)
    DISPATCH(w, MATVEC);
#undef MATVEC
}

static void unpack(const mk_qrows *w, int64_t n, float *y) {
#define UNPACK(mode, bits) unpack_form((form){mode, bits, 8}, w, n, y)
    DISPATCH(w, UNPACK);
#undef UNPACK
}

void mk_quant_neon(mk_kernels *kernels) {
    kernels->unpack = unpack;
    kernels->matvec = matvec;
    kernels->arrange_q4 = arrange_q4;
    kernels->matvec_q4 = matvec_q4;
    kernels->unpack_q4 = unpack_q4;
    kernels->matvec_q8 = matvec;
    kernels->unpack_q8 = unpack;
}
