/* The parts of the fast family, and what they share: each overlays the kernels it has. */
#ifndef CPU_KERN_INT8_INT8_H
#define CPU_KERN_INT8_INT8_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_int8_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"
#define VARIANT(isa, fill) void fill(mk_kernels *kernels);
#include "cpu/kern/variant_list.h"

/* Groups whose largest element is smaller are taken as 0: its reciprocal would overflow. */
#define MK_FAST_SMALL 0x1p-100f

/* By codes of an fp mode: the affine ones. */
#define MK_FAST_E2M1 \
    { 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0 }

/* What codes of a group of x are multiplied with, and elements to become codes. */
typedef struct mk_code_step {
    float scale, inverse;
    bool some; /* else all codes are 0 */
} mk_code_step;

/* highest, lowest: the largest of the bits of the group's elements, and of those of their
 * opposites, as signed numbers: a NaN's are above infinity's, and these above a number's. Without
 * branches that depend on signs, which nobody could foretell. */
static inline mk_code_step mk_code_step_of(int32_t highest, int32_t lowest, int max_code) {
    bool winograd = mk_has_winograd(max_code);
    float codes = winograd ? 128 : 127, room = winograd ? (float)(127 - max_code) : 127;
    uint32_t above = highest > 0 ? (uint32_t)highest : 0, below = lowest > 0 ? (uint32_t)lowest : 0;
    uint32_t max = above > below ? above : below, min = above > below ? below : above;
    uint32_t sign = (uint32_t)(above > below && winograd) << 31;
    bool finite = max < 0x7f800000u;
    float size = mk_from_bits(max), step = size / codes, other = mk_from_bits(min) / room;
    if (!finite || size < MK_FAST_SMALL) return (mk_code_step){.scale = finite ? 0.0f : NAN};
    step = mk_from_bits(mk_bits(other > step ? other : step) ^ sign);
    return (mk_code_step){.scale = step, .inverse = 1 / step, .some = true};
}

/* A group of x, `group` elements, a multiple of 16, that is to meet weights of codes up to
 * `max`. */
typedef void (*mk_quantize_group)(const float *x, int group, int max, int8_t *codes, float *scale,
                                  float *sum);
/* What Winograd tiles want of a group that was quantised: the sum of (x_e + 128) x_o. */
typedef int32_t (*mk_winograd_group)(const int8_t *codes, int group);

static inline int32_t mk_winograd_plain(const int8_t *codes, int group) {
    int32_t winograd = 0;
    for (int l = 0; l < group; l += 8)
        for (int i = 0; i < 4; i++)
            winograd += (codes[l + i] + 128) * codes[l + 4 + i];
    return winograd;
}

/* int8_quantize, by functions of an instruction set's own. */
static inline void mk_quantize_rows(mk_quantize_group quantize, mk_winograd_group winograd,
                                    int64_t m, const float *x, int64_t x_stride, int max,
                                    const mk_xrows *y) {
    int64_t groups = y->k / y->group;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t g = 0; g < groups; g++) {
            int64_t at = i * groups + g;
            int8_t *codes = y->codes + at * y->group;
            quantize(x + i * x_stride + g * y->group, y->group, max, codes, y->scales + at,
                     y->sums + at);
            if (y->winograd) y->winograd[at] = winograd(codes, y->group);
        }
    }
}

#endif
