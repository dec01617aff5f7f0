/* AVX2: affine rows of 4 and 8 bits, then rows of any mode.
 *
 * 4 bits: four words (32 codes) are spread to both halves of a register; shifts by 8 v (low half)
 * and 8 v + 4 (high half), v = 0..3, bring code 8 i + c to lane 4 c + i of the block's 32, which is
 * the order that arrange_q4 gives x. 8 bits: bytes widened, in their natural order. */
#include "cpu/kern/avx2.h"
#include "cpu/kern/quant/quant.h"

#define ROWS 4 /* in flight */

/* y[32 b + 4 c + i] = x[32 b + 8 i + c]: each block is a 4 x 8 matrix, transposed. */
static void arrange_q4(int64_t k, const float *x, float *y) {
    for (int64_t b = 0; b < k; b += 32) {
        for (int half = 0; half < 2; half++) {
            const float *from = x + b + 4 * half;
            __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + 8);
            __m128 r2 = _mm_loadu_ps(from + 16), r3 = _mm_loadu_ps(from + 24);
            _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
            float *to = y + b + 16 * half;
            _mm_storeu_ps(to, r0);
            _mm_storeu_ps(to + 4, r1);
            _mm_storeu_ps(to + 8, r2);
            _mm_storeu_ps(to + 12, r3);
        }
    }
}

/* Part v of the 32 values of four words. */
MK_INLINE __m256 widen_q4(__m256i spread, int v, __m256 scale, __m256 bias) {
    __m256i shift =
        _mm256_add_epi32(_mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4), _mm256_set1_epi32(8 * v));
    __m256i codes = _mm256_and_si256(_mm256_srlv_epi32(spread, shift), _mm256_set1_epi32(15));
    return _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(codes), bias);
}

MK_INLINE __m256i spread_words(const uint32_t *words) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)words));
}

/* The scale (bias) of group g of row r, in every lane. */
MK_INLINE __m256 spread_scale(const mk_qrows *w, const void *scales, int r, int64_t g) {
    int64_t at = r * w->scales_stride + g;
    if (w->type == MK_F32) return _mm256_broadcast_ss((const float *)scales + at);
    uint16_t h = ((const uint16_t *)scales)[at];
    if (w->type == MK_BF16) return _mm256_set1_ps(mk_from_bf16(h));
    return _mm256_cvtph_ps(_mm_set1_epi16((short)h));
}

MK_INLINE void q4_rows(const mk_qrows *w, int rows, const float *x, float *y) {
    int64_t groups = w->k / w->group, blocks = w->group / 32;
    __m256 sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = _mm256_setzero_ps();
    const uint32_t *words = w->codes;
    for (int64_t g = 0; g < groups; g++) {
        __m256 scale[ROWS], bias[ROWS];
        for (int r = 0; r < rows; r++) {
            scale[r] = spread_scale(w, w->scales, r, g);
            bias[r] = spread_scale(w, w->biases, r, g);
        }
        for (int64_t b = 0; b < blocks; b++, words += 4, x += 32) {
            for (int r = 0; r < rows; r++) {
                __m256i spread = spread_words(words + r * w->codes_stride);
                for (int v = 0; v < 4; v++) {
                    __m256 value = widen_q4(spread, v, scale[r], bias[r]);
                    sum[r] = _mm256_fmadd_ps(_mm256_loadu_ps(x + 8 * v), value, sum[r]);
                }
            }
        }
    }
    mk_store4(y, rows, mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

static void matvec_q4(const mk_qrows *w, int64_t n, const float *x, float *y) {
    int64_t r = 0;
    for (; r + ROWS <= n; r += ROWS) {
        mk_qrows rows = mk_qrows_at(w, r);
        q4_rows(&rows, ROWS, x, y + r);
    }
    for (; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        q4_rows(&row, 1, x, y + r);
    }
}

static void unpack_q4(const mk_qrows *w, int64_t n, float *y) {
    int64_t groups = w->k / w->group, blocks = w->group / 32;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint32_t *words = row.codes;
        for (int64_t g = 0; g < groups; g++) {
            __m256 scale = spread_scale(&row, row.scales, 0, g);
            __m256 bias = spread_scale(&row, row.biases, 0, g);
            for (int64_t b = 0; b < blocks; b++, words += 4, y += 32) {
                __m256i spread = spread_words(words);
                for (int v = 0; v < 4; v++)
                    _mm256_storeu_ps(y + 8 * v, widen_q4(spread, v, scale, bias));
            }
        }
    }
}

/* 8 values of 8 bits. */
MK_INLINE __m256 widen_q8(const uint32_t *words, __m256 scale, __m256 bias) {
    __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)words));
    return _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(codes), bias);
}

MK_INLINE void q8_rows(const mk_qrows *w, int rows, const float *x, float *y) {
    int64_t groups = w->k / w->group, parts = w->group / 8;
    __m256 sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = _mm256_setzero_ps();
    const uint32_t *words = w->codes;
    for (int64_t g = 0; g < groups; g++) {
        __m256 scale[ROWS], bias[ROWS];
        for (int r = 0; r < rows; r++) {
            scale[r] = spread_scale(w, w->scales, r, g);
            bias[r] = spread_scale(w, w->biases, r, g);
        }
        for (int64_t p = 0; p < parts; p++, words += 2, x += 8) {
            __m256 a = _mm256_loadu_ps(x);
            for (int r = 0; r < rows; r++) {
                __m256 b = widen_q8(words + r * w->codes_stride, scale[r], bias[r]);
                sum[r] = _mm256_fmadd_ps(a, b, sum[r]);
            }
        }
    }
    mk_store4(y, rows, mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

static void matvec_q8(const mk_qrows *w, int64_t n, const float *x, float *y) {
    int64_t r = 0;
    for (; r + ROWS <= n; r += ROWS) {
        mk_qrows rows = mk_qrows_at(w, r);
        q8_rows(&rows, ROWS, x, y + r);
    }
    for (; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        q8_rows(&row, 1, x, y + r);
    }
}

static void unpack_q8(const mk_qrows *w, int64_t n, float *y) {
    int64_t groups = w->k / w->group, parts = w->group / 8;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint32_t *words = row.codes;
        for (int64_t g = 0; g < groups; g++) {
            __m256 scale = spread_scale(&row, row.scales, 0, g);
            __m256 bias = spread_scale(&row, row.biases, 0, g);
            for (int64_t p = 0; p < parts; p++, words += 2, y += 8)
                _mm256_storeu_ps(y, widen_q8(words, scale, bias));
        }
    }
}

/* ---- any mode: 8 codes at a time, in their natural order ---- */

/* How the `bits` bytes of 8 codes become 8 lanes: lane i gets the two bytes that code i begins in,
 * and is shifted down. */
typedef struct decoder {
    __m256i bytes, shifts, mask;
} decoder;

MK_INLINE decoder decoder_of(int bits) {
    uint8_t bytes[32];
    uint32_t shifts[8];
    for (int i = 0; i < 8; i++) {
        bytes[4 * i] = (uint8_t)(i * bits / 8);
        bytes[4 * i + 1] = (uint8_t)(i * bits / 8 + 1); /* at most byte 8, which is byte 0 again */
        bytes[4 * i + 2] = bytes[4 * i + 3] = 0x80;     /* gives 0 */
        shifts[i] = (uint32_t)(i * bits % 8);
    }
    return (decoder){
        .bytes = _mm256_loadu_si256((const void *)bytes),
        .shifts = _mm256_loadu_si256((const void *)shifts),
        .mask = _mm256_set1_epi32((1 << bits) - 1),
    };
}

/* n bytes, 2 to 8 but 7, in registers only: a copy through memory would wait for its own stores. */
MK_INLINE uint64_t read_bytes(const uint8_t *p, int n) {
    uint64_t value;
    uint32_t four;
    uint16_t two;
    if (n == 8) {
        memcpy(&value, p, 8);
        return value;
    }
    int first = n >= 4 ? 4 : 2;
    memcpy(&two, p, 2);
    value = two;
    if (first == 4) {
        memcpy(&four, p, 4);
        value = four;
    }
    if (n - first == 1) value |= (uint64_t)p[first] << (8 * first);
    if (n - first == 2) {
        memcpy(&two, p + first, 2);
        value |= (uint64_t)two << (8 * first);
    }
    return value;
}

MK_INLINE __m256i read_codes(const decoder *d, int bits, const uint8_t *codes) {
    __m256i spread = _mm256_set1_epi64x((int64_t)read_bytes(codes, bits));
    spread = _mm256_shuffle_epi8(spread, d->bytes);
    return _mm256_and_si256(_mm256_srlv_epi32(spread, d->shifts), d->mask);
}

/* 8 bytes of E4M3 by way of f16, whose exponent's bias is 8 more; 0x7f is NaN. */
MK_INLINE __m256 from_e4m3(const uint8_t *codes) {
    __m128i b = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)codes));
    __m128i rest = _mm_and_si128(b, _mm_set1_epi16(0x7f));
    __m128i sign = _mm_slli_epi16(_mm_xor_si128(b, rest), 8);
    __m128i nan = _mm_cmpeq_epi16(rest, _mm_set1_epi16(0x7f));
    __m128i half = _mm_or_si128(_mm_slli_epi16(rest, 7), sign);
    half = _mm_blendv_epi8(half, _mm_set1_epi16(0x7e00), nan);
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f));
}

MK_INLINE __m256 from_e2m1(__m256i codes) {
    const __m256 sizes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
    __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(codes, 3), 31);
    return _mm256_or_ps(_mm256_permutevar8x32_ps(sizes, codes), _mm256_castsi256_ps(sign));
}

/* 8 weights of a group. */
MK_INLINE __m256 weights_of(const decoder *d, mk_mode mode, int bits, const uint8_t *codes,
                            __m256 scale, __m256 bias) {
    if (mode == MK_MXFP8) return _mm256_mul_ps(scale, from_e4m3(codes));
    __m256i numbers = read_codes(d, bits, codes);
    if (mode == MK_AFFINE) return _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(numbers), bias);
    return _mm256_mul_ps(scale, from_e2m1(numbers));
}

MK_INLINE void any_rows(const mk_qrows *w, mk_mode mode, int bits, int rows, const float *x,
                        float *y) {
    decoder d = decoder_of(bits);
    int64_t groups = w->k / w->group, parts = w->group / 8, row_bytes = w->codes_stride * 4;
    __m256 sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = _mm256_setzero_ps();
    const uint8_t *codes = (const uint8_t *)w->codes;
    for (int64_t g = 0; g < groups; g++) {
        __m256 scale[ROWS], bias[ROWS];
        for (int r = 0; r < rows; r++) {
            int64_t at = r * w->scales_stride + g;
            scale[r] = _mm256_set1_ps(mk_scale_of(w, mode, at));
            bias[r] = _mm256_set1_ps(mode == MK_AFFINE ? mk_load(w->biases, w->type, at) : 0);
        }
        for (int64_t p = 0; p < parts; p++, codes += bits, x += 8) {
            __m256 a = _mm256_loadu_ps(x);
            for (int r = 0; r < rows; r++) {
                const uint8_t *row = codes + r * row_bytes;
                __m256 b = weights_of(&d, mode, bits, row, scale[r], bias[r]);
                sum[r] = _mm256_fmadd_ps(a, b, sum[r]);
            }
        }
    }
    mk_store4(y, rows, mk_sum4(sum[0], sum[1], sum[2], sum[3]));
}

MK_INLINE void matvec_mode(const mk_qrows *w, mk_mode mode, int bits, int64_t n, const float *x,
                           float *y) {
    int64_t r = 0;
    for (; r + ROWS <= n; r += ROWS) {
        mk_qrows rows = mk_qrows_at(w, r);
        any_rows(&rows, mode, bits, ROWS, x, y + r);
    }
    for (; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        any_rows(&row, mode, bits, 1, x, y + r);
    }
}

MK_INLINE void unpack_mode(const mk_qrows *w, mk_mode mode, int bits, int64_t n, float *y) {
    decoder d = decoder_of(bits);
    int64_t groups = w->k / w->group, parts = w->group / 8;
    for (int64_t r = 0; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        const uint8_t *codes = (const uint8_t *)row.codes;
        for (int64_t g = 0; g < groups; g++) {
            __m256 scale = _mm256_set1_ps(mk_scale_of(&row, mode, g));
            __m256 bias = _mm256_set1_ps(mode == MK_AFFINE ? mk_load(row.biases, w->type, g) : 0);
            for (int64_t p = 0; p < parts; p++, codes += bits, y += 8)
                _mm256_storeu_ps(y, weights_of(&d, mode, bits, codes, scale, bias));
        }
    }
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
#define MATVEC(mode, bits) matvec_mode(w, mode, bits, n, x, y)
    DISPATCH(w, MATVEC);
#undef MATVEC
}

static void unpack(const mk_qrows *w, int64_t n, float *y) {
#define UNPACK(mode, bits) unpack_mode(w, mode, bits, n, y)
    DISPATCH(w, UNPACK);
#undef UNPACK
}

void mk_quant_avx2(mk_kernels *kernels) {
    kernels->unpack = unpack;
    kernels->matvec = matvec;
    kernels->arrange_q4 = arrange_q4;
    kernels->matvec_q4 = matvec_q4;
    kernels->unpack_q4 = unpack_q4;
    kernels->matvec_q8 = matvec_q8;
    kernels->unpack_q8 = unpack_q8;
}
