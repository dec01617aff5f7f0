/* The CPU's kernels: inner loops over rows in memory, each a function pointer.
 *
 * A kernel is a row KERN(name, result, (args)) of a family's list. The reference (<family>_ref.c,
 * plain C) sets every pointer. An instruction set replaces those for which it has something faster.
 * mk_kernels_fill applies the sets in the order of isa_list.h, up to the requested one.
 *
 * Rules that kcheck tests:
 *  - a kernel reads and writes exactly the memory that its arguments describe, at any alignment;
 *  - each output has one order of summation: it depends on its own row of x and its own row (or
 *    column) of w alone. It has the same bits alone and among others, and from packed and from
 *    unpacked weights; only the bits of a NaN may differ. Different instruction sets may differ in
 *    the last bits.
 *
 * Sizes and strides are in elements; rows are contiguous. This folder includes the C library and
 * its own headers only. Threads: kernels have no state. */
#ifndef CPU_KERN_KERN_H
#define CPU_KERN_KERN_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/kern/num.h"

typedef enum mk_isa {
#define ISA(name) MK_ISA_##name,
#include "cpu/kern/isa_list.h"
    MK_ISA_COUNT
} mk_isa;

/* int16 attention: number of elements of a query or key that share a scale, and number of keys
 * whose values share one. */
#define MK_INT16_PART 128
#define MK_INT16_GROUP 32

/* The formats of quantised weights. */
typedef enum mk_mode { MK_AFFINE, MK_MXFP4, MK_MXFP8, MK_NVFP4 } mk_mode;

/* Rows of quantised weights, as MLX packs them: little-endian bit streams of codes. */
typedef struct mk_qrows {
    int64_t k;             /* number of codes in a row, a multiple of group */
    const uint32_t *codes; /* row r is at codes + r * codes_stride (32 bit words) */
    int64_t codes_stride;
    const void *scales; /* row r is at scales + r * scales_stride, one scale for each group */
    const void *biases; /* like scales; affine only */
    int64_t scales_stride;
    mk_type type; /* of scales and biases; unused for the fp modes, whose scales are bytes */
    mk_mode mode;
    int bits;
    int group; /* 32, 64 or 128; nvfp4: 16 */
} mk_qrows;

/* Quantised activations for fast matmuls (int8_list.h): element l is about scales[l / group] times
 * its code. */
typedef struct mk_xrows {
    int64_t k; /* number of elements in a row, a multiple of group */
    int group;
    int8_t *codes;     /* [rows, k], in int8_quantize's order */
    float *scales;     /* [rows, k / group] */
    float *sums;       /* [rows, k / group]: sums of the group's quantised elements */
    int32_t *winograd; /* [rows, k / group]: terms for Winograd tiles; NULL: not needed */
} mk_xrows;

/* A row of int8 numbers with scales (mica_to_q8): n codes, zeros up to a multiple of 4, a bf16
 * scale for every MK_Q8_GROUP codes, zeros up to a multiple of 4 bytes. */
#define MK_Q8_GROUP 32
static inline int64_t mk_q8_scales(int64_t n) { /* offset of the scales in bytes */
    return (n + 3) / 4 * 4;
}
static inline int64_t mk_q8_bytes(int64_t n) {
    return mk_q8_scales(n) + ((n + MK_Q8_GROUP - 1) / MK_Q8_GROUP + 1) / 2 * 4;
}

/* In fast matmuls, weights of the 4 bit fp modes become affine codes c, which stand for scale / 2 *
 * (c - MK_E2M1_ZERO). */
#define MK_E2M1_ZERO 12
#define MK_E2M1_MAX 24

/* The largest code that weights can have in fast matmuls. */
static inline int mk_max_code(mk_mode mode, int bits) {
    return mode == MK_AFFINE ? (1 << bits) - 1 : MK_E2M1_MAX;
}

/* Whether weights with this largest code have Winograd tiles (int8_list.h). */
static inline bool mk_has_winograd(int max) {
    return max <= MK_E2M1_MAX;
}

/* Whether codes of x are in pairs of words, the even ones and the odd ones, by the weights' largest
 * code: those of 4 bits. */
static inline bool mk_in_pairs(int max) {
    return max == 15 || max == MK_E2M1_MAX;
}

/* Tiles: rows of weights unpacked to bytes, MK_TILE rows interleaved. */
#define MK_TILE 16
typedef struct mk_tiles {
    uint8_t *codes;   /* [tiles, k / 4, MK_TILE, 4] */
    float *scales;    /* [tiles, k / group, 2, MK_TILE]: scales, then biases */
    int max;          /* the largest possible code */
    bool winograd;    /* Winograd tiles (int8_list.h) */
    int32_t *offsets; /* [tiles, k / group, MK_TILE]: for Winograd tiles only */
} mk_tiles;

/* Channels, or columns of a state, that the scan family computes side by side. */
#define MK_LANES 16

/* Columns of a panel of weights (conv_list.h). */
#define MK_PANEL 16

/* What is done to a sum before it is stored, in this order. */
typedef struct mk_epilogue {
    const float *bias; /* [n] is added; NULL: nothing is */
    const float
        *add; /* [m, n] is added, whose rows are add_stride apart; may be y. NULL: nothing */
    int64_t add_stride;
    bool bounded; /* lo, if the value is not above it and no NaN; then hi, if it is not below */
    float lo, hi; /* no NaN */
} mk_epilogue;

/* Terms of sums that conv_panels adds: of a row those of some taps, and of each some elements. */
typedef struct mk_terms {
    int64_t taps, c;   /* how many, and elements of each */
    int64_t apart;     /* taps that a row has in the list of rows */
    int64_t first;     /* element of each */
    int64_t panel;     /* from a panel to the next; 0: of these terms alone, without a gap */
    const float *from; /* sums that they are added to, rows from_stride apart; NULL: 0 */
    int64_t from_stride;
} mk_terms;

static inline int64_t mk_panel_step(const mk_terms *terms) {
    return terms->panel ? terms->panel : terms->taps * terms->c * MK_PANEL;
}

/* One of several ops that run as one loop (elem_list.h): what it does to v, the value that goes
 * through them. Binary ops take an array, a number (x[0]) or v itself beside v; those that end in
 * from_array and from_number take v as their second operand. */
typedef enum mk_step_op {
    MK_STEP_load,        /* v = x[i] */
    MK_STEP_load_number, /* v = x[0] */
    MK_STEP_load_u8,     /* v = x[i], of bytes */
    MK_STEP_load_i8,
    MK_STEP_load_i32,
    MK_STEP_store,    /* y[i] = v */
    MK_STEP_store_u8, /* v = v rounded towards zero, saturated, 0 where it is NaN; y[i] = v, of
                         bytes; y NULL: it is not stored */
    MK_STEP_store_i8,
    MK_STEP_round_u8, /* v = v / x[0] rounded to even, + zero[0], then as store; x, zero: may be
                         NULL, and nothing is divided or added */
    MK_STEP_round_i8,
#define ALIKE(op, name, expression) \
    MK_STEP_##name##_array, MK_STEP_##name##_number, MK_STEP_##name##_itself,
#define BINARY(op, name, expression) \
    ALIKE(op, name, expression) MK_STEP_##name##_from_array, MK_STEP_##name##_from_number,
#define UNARY(op, name, expression) MK_STEP_##name,
#define COSTLY(op, name, function) MK_STEP_##name,
#include "cpu/kern/elem/elem_step_list.h"
    MK_STEP_COUNT
} mk_step_op;

typedef struct mk_step {
    mk_step_op op;
    const void *x; /* f32, unless op says */
    void *y;
    const float *zero;
    int64_t row, every; /* where row > 0, x[i] is x[i / every * row + i % row], and every is a
                           multiple of row: rows of x, each again and again for `every` elements */
} mk_step;

/* How a number becomes a byte: v / scale, if there is one, rounded to even, + zero, saturated; 0
 * where it is NaN.
 *
 * Kernels multiply by the reciprocal instead, with the same bits, where `quick` says that it can be
 * done, of a zero point that is a small integer: what is less than MK_ROUND_SURE away from an
 * integer is that with both, and the others are divided. Beyond 512 a product and a quotient may
 * round apart, but are saturated, both. */
typedef struct mk_rounding {
    float scale, inverse, zero, lo, hi;
    bool quick;
} mk_rounding;

#define MK_ROUND_SURE 0.4998f

static inline mk_rounding mk_rounding_of(const float *scale, const float *zero, bool is_signed) {
    mk_rounding r = {.scale = scale ? *scale : 1, .zero = zero ? *zero : 0};
    r.lo = is_signed ? -128 : 0;
    r.hi = is_signed ? 127 : 255;
    float size = r.scale < 0 ? -r.scale : r.scale;
    bool small = r.zero >= -255 && r.zero <= 255;
    r.quick = size > 0x1p-100f && size < 0x1p100f && small && r.zero == (float)(int)r.zero;
    r.inverse = r.quick ? 1 / r.scale : 0;
    return r;
}

/* How int_round makes bytes of sums: as `by` says of x[i] * scale[i * step] + bias[i].
 *
 * Where `quick`, x[i] * factor[i] + plus[i] is the byte's number before it is rounded, but for an
 * error: what is less than sure[i] away from an integer is that, and others are computed as `by`
 * says. It fits 32 bits for every x. */
typedef struct mk_int_rounding {
    mk_rounding by;
    const float *scale, *bias; /* bias NULL: none */
    int64_t step;
    const float *factor, *plus, *sure;
    bool quick;
} mk_int_rounding;

/* Sets quick, and n numbers of factor, plus and sure of it.
 *
 * Let a = x scale / by.scale and b = bias / by.scale, both exact. Each operation rounds by 2^-24 of
 * its result at most. So the way of `by` is off by |a| + 2 |a + b| of them, and its zero point is
 * an integer; the quick one by 3 |a| + 3 |b| + |zero| + |a + b + zero|. Beyond |a + b| = 512 both
 * are saturated. So together it is less than 4100 + 7 |b|. */
static inline bool mk_int_rounding_set(const mk_int_rounding *r, int64_t n, float *factor,
                                       float *plus, float *sure) {
    float max = 0;
    if (!r->by.quick) return false;
    for (int64_t i = 0; i < n; i++) {
        float b = r->bias ? r->bias[i] * r->by.inverse : 0, size = b < 0 ? -b : b;
        factor[i] = r->scale[i * r->step] * r->by.inverse;
        plus[i] = b + r->by.zero;
        sure[i] = 0.5f - 0x1p-24f * (4200 + 8 * size);
        float most = (factor[i] < 0 ? -factor[i] : factor[i]) * 0x1p31f + size;
        max = max > most ? max : most; /* NaN stays */
        if (most != most) return false;
    }
    return max < 0x1p30f;
}

/* A filter for each of n channels, whose window is some lines of `width` places, as int_pack_taps
 * lays them out, and what its sums begin with [n rounded up to 16], which may be NULL: 0. */
typedef struct mk_taps {
    int64_t n, lines, width;
    const int8_t *w;
    const int32_t *start;
} mk_taps;

/* The most elements that a tile of elem_steps has. */
#define MK_STEP_TILE 128

/* A pass of a transform (fft_list.h), with arrays of n = radix m s numbers. */
#define MK_FFT_RADIX 13
typedef struct mk_fft_pass {
    int radix;
    int64_t m, s;
    const float *x_re, *x_im;
    float *y_re, *y_im;
    const float *roots_re, *roots_im; /* [radix - 1, m] */
    const float *units;               /* [radix, 2]: exp(-2 pi i j / radix) */
} mk_fft_pass;

typedef struct mk_kernels {
#define KERN(name, result, args) result(*name) args;
#include "cpu/kern/kern_list.h"
    struct {
#define KERN(name, result, args) const char *name;
#include "cpu/kern/kern_list.h"
    } from; /* the name of the instruction set that each kernel is from */
    mk_isa isa;
    int64_t int8_streamed; /* max. rows of x for which int8_matvec is faster than tiles */
    int int8_min_group;    /* int8_pack's set multiplies smaller groups than this */
    bool int8_winograd;    /* int8_matmul is faster with Winograd tiles; each set says so */
    int int_unit;          /* bytes of x in a word of int_panels: 2, as 16 bits each, or 4 */
    int int_lines;         /* of a window in a word of int_pack_taps: 1, or 4 */
    bool int16;            /* attn_scores and attn_values round to int16 (attn_list.h) */
    /* These kernels are faster than widening first: */
    bool bf16_matmul;        /* matmul_bf16, unpack_mxfp8, matmul_mxfp8 */
    bool bf16_pairs;         /* attn_scores, attn_values */
    bool q8_pairs;           /* attn_values_q8_bf16 */
    bool q8_direct;          /* attn_scores_q8, and attn_values_q8 for few rows */
    int64_t bf16_columns;    /* rows of w in a block of matmul_bf16 with many rows of x */
    int64_t values_together; /* number of keys whose values attn_values sums together */
} mk_kernels;

/* Bytes that int_pack_taps writes. */
static inline int64_t mk_taps_bytes(const mk_kernels *kernels, int64_t n, int64_t lines,
                                    int64_t width) {
    const int64_t unit = kernels->int_lines;
    if (unit == 1) return lines * width * n;
    return (lines + unit - 1) / unit * unit * width * ((n + 15) / 16 * 16);
}

const char *mk_isa_name(mk_isa isa);
bool mk_isa_has(mk_isa isa); /* whether this machine can run it */
mk_isa mk_isa_best(void);
/* Sets the kernels of an instruction set, which the machine must have. */
void mk_kernels_fill(mk_kernels *kernels, mk_isa isa);

/* The processor's name, such as "AMD EPYC 9B14"; always ends with NUL. */
void mk_cpu_name(char text[64]);

/* The same rows with their start advanced by some words of codes and some scales. */
mk_qrows mk_qrows_further(mk_qrows w, int64_t codes, int64_t scales);
/* The rows of w from row r on. */
mk_qrows mk_qrows_at(const mk_qrows *w, int64_t r);
/* Number of rows in a block, at most `max`, so that m > 0 rows make few blocks of similar sizes. */
static inline int64_t mk_block_rows(int64_t m, int64_t max) {
    int64_t blocks = (m + max - 1) / max;
    return (m + blocks - 1) / blocks;
}

/* Runs a statement in which MK_R is a constant, equal to `rows`, 1 to `max` <= 6. So the statement
 * is compiled once for each number of rows, and its sums are registers. */
#define MK_WITH_ROWS(rows, max, ...)          \
    do {                                      \
        switch (rows) {                       \
            MK_ROWS_CASE(1, max, __VA_ARGS__) \
            MK_ROWS_CASE(2, max, __VA_ARGS__) \
            MK_ROWS_CASE(3, max, __VA_ARGS__) \
            MK_ROWS_CASE(4, max, __VA_ARGS__) \
            MK_ROWS_CASE(5, max, __VA_ARGS__) \
            MK_ROWS_CASE(6, max, __VA_ARGS__) \
        }                                     \
    } while (0)
#define MK_ROWS_CASE(r, max, ...) \
    case r:                       \
        if (r <= (max)) {         \
            enum { MK_R = r };    \
            __VA_ARGS__;          \
        }                         \
        break;

/* The rows of x from row r on. */
static inline mk_xrows mk_xrows_at(const mk_xrows *x, int64_t r) {
    mk_xrows at = *x;
    at.codes += r * x->k;
    at.scales += r * (x->k / x->group);
    at.sums += r * (x->k / x->group);
    if (at.winograd) at.winograd += r * (x->k / x->group);
    return at;
}

/* The tiles from row r on, which is a multiple of MK_TILE. Rows have k codes in groups of
 * `group`. */
static inline mk_tiles mk_tiles_at(const mk_tiles *tiles, int64_t r, int64_t k, int group) {
    mk_tiles at = *tiles;
    at.codes += r * k;
    at.scales += 2 * r * (k / group);
    if (at.winograd) at.offsets += r * (k / group);
    return at;
}

/* Each instruction set has a function that sets its kernels and one that checks the machine. */
#define ISA(name)                             \
    void mk_fill_##name(mk_kernels *kernels); \
    bool mk_has_##name(void);
#include "cpu/kern/isa_list.h"

#endif
