/* The kernels of the quantised family by instruction set: each overlays those it has. And what they
 * share. */
#ifndef CPU_KERN_QUANT_QUANT_H
#define CPU_KERN_QUANT_QUANT_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_quant_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

/* unpack_mxfp8 takes scales of 2^-100 to 2^100. */
#define MK_MXFP8_RANGE 100
#define MK_BF16_NAN 0x7fc0u

/* unpack_mxfp8 of AVX-512 BF16. */
void mk_unpack_mxfp8_avx512bf16(const mk_qrows *w, int64_t n, uint16_t *y);

#define MK_BLOCK 32 /* codes of a block, of which the q4 kernels choose the order */

/* How rows are decoded. Constants everywhere: each form makes code of its own. */
typedef struct mk_form {
    mk_mode mode;
    int bits;
    int step; /* codes at a time: some in their natural order, or MK_BLOCK in the q4 kernels' */
} mk_form;

/* n bytes: 2, 3, 4, 5, 6 or 8. In registers only: a copy through memory would wait for its own
 * stores. */
static inline __attribute__((always_inline)) uint64_t mk_read_bytes(const uint8_t *p, int n) {
    uint64_t value = 0;
    uint32_t four;
    uint16_t two;
    if (n == 8) {
        memcpy(&value, p, 8);
        return value;
    }
    const int first = n >= 4 ? 4 : 2;
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

/* Scale `at` of rows of `mode`, which is a constant where code is made for each mode. */
static inline float mk_scale_of(const mk_qrows *w, mk_mode mode, int64_t at) {
    if (mode == MK_AFFINE) return mk_load(w->scales, w->type, at);
    uint8_t byte = ((const uint8_t *)w->scales)[at];
    return mode == MK_NVFP4 ? mk_from_e4m3(byte) : mk_from_e8m0(byte);
}

#endif
