/* Elements in blocks: how kernels read operands of any dtype and strides, and write results.
 *
 * A kernel that is not made for one layout walks its elements in logical order, a block at a time:
 * operands come as plain runs of f32 (floats, computed in f32 and rounded once) or of i64 (integers
 * and bool, computed modulo 2^64 and cut to their width). u64 travels as the same bits. What is
 * dense f32 is not copied. Results are written once all operands of the block were read, so that an
 * operand may lie where the result goes. */
#ifndef CPU_BLOCK_H
#define CPU_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "device/backend.h"

#define MC_BLOCK 512 /* elements */

typedef struct mc_block { /* room for one operand's block */
    union {
        uint8_t u8[MC_BLOCK];
        uint16_t u16[MC_BLOCK];
        uint32_t u32[MC_BLOCK];
        uint64_t u64[MC_BLOCK];
    } raw;
    union {
        float f32[MC_BLOCK];
        int64_t i64[MC_BLOCK];
    } as;
} mc_block;

/* Copies elements [begin, begin + n) of x, in logical order, to out, whatever n. */
void mc_gather(const mc_operand *x, int64_t begin, int64_t n, void *out);

/* Elements [begin, begin + n), n <= MC_BLOCK: a pointer into x itself where that is possible, else
 * into the block. Converting: integers by value, bool to 0 and 1. */
const void *mc_block_raw(const mc_operand *x, int64_t begin, int64_t n, mc_block *block);
const float *mc_block_f32(const mc_operand *x, int64_t begin, int64_t n, mc_block *block);
const int64_t *mc_block_i64(const mc_operand *x, int64_t begin, int64_t n, mc_block *block);

/* Where n f32 of a dense result may be computed at once: its own memory, where it is f32, else the
 * block, from which they are put. Element by element alone: an operand may lie there. */
static inline float *mc_block_aim(const mc_operand *out, int64_t begin, mc_block *block) {
    return out->layout->dtype == MICA_F32 ? (float *)out->data + begin : block->as.f32;
}

/* Writes elements [begin, begin + n) of a dense result. f32: rounded to the nearest even f16 or
 * bf16; for bool v != 0; for integers towards zero, saturating, NaN to 0. i64: cut to the width of
 * an integer; for bool v != 0; to a float by value. */
void mc_block_put_f32(const mc_operand *out, int64_t begin, int64_t n, const float *values);
void mc_block_put_i64(const mc_operand *out, int64_t begin, int64_t n, const int64_t *values);

/* x with the axes in `mask` moved behind the others, both kept in order: as rows of the reduced
 * elements. Returns the number of rows, in *row their length; view's layout is set. */
int64_t mc_rows_of(const mc_operand *x, int64_t mask, mc_layout *layout, mc_operand *view,
                   int64_t *row);

#endif
