/* Elements in blocks: how kernels read operands of any dtype and strides, and write results.
 *
 * A kernel that is not made for one layout goes through its elements in logical order, a block at a
 * time. Operands are read as contiguous f32 (floats: computed in f32, rounded once) or i64
 * (integers and bool: computed modulo 2^64, cut to their width). u64 is read as the i64 of the same
 * bits. Dense f32 is not copied. A block of results is written after all operands of the block are
 * read, so the result may have an operand's memory. */
#ifndef CPU_BLOCK_H
#define CPU_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "exec/steps/step.h"

#define MC_BLOCK 512 /* elements */

typedef struct mc_block { /* Memory for one operand's block. */
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

/* Copies elements [begin, begin + n) of x, in logical order, to out; n may exceed MC_BLOCK. */
void mc_gather(const mc_operand *x, int64_t begin, int64_t n, void *out);

/* Elements [begin, begin + n), n <= MC_BLOCK: a pointer into x where that is possible, else into
 * the block. mc_block_f32 and mc_block_i64 convert: integers by value, bool to 0 and 1. */
const void *mc_block_raw(const mc_operand *x, int64_t begin, int64_t n, mc_block *block);
const float *mc_block_f32(const mc_operand *x, int64_t begin, int64_t n, mc_block *block);
const int64_t *mc_block_i64(const mc_operand *x, int64_t begin, int64_t n, mc_block *block);

/* Whether all elements are one, whose block serves for those behind it. */
static inline bool mc_block_is_one(const mc_layout *l) {
    bool one = true;
    for (int k = 0; k < l->ndim; k++)
        one = one && (l->strides[k] == 0 || l->shape[k] == 1);
    return one;
}

/* Where to compute n f32 of a dense result: in its own memory if it is f32, else in the block, from
 * which mc_block_put_f32 writes them. For elementwise ops only: the result may have an operand's
 * memory. */
static inline float *mc_block_aim(const mc_operand *out, int64_t begin, mc_block *block) {
    return out->layout->dtype == MICA_F32 ? (float *)out->data + begin : block->as.f32;
}

/* Write elements [begin, begin + n) of a dense result. From f32: floats are rounded to nearest
 * even; bool is v != 0; integers are rounded towards zero and saturated, NaN becomes 0. From i64:
 * integers are cut to their width; bool is v != 0; floats get the value. */
void mc_block_put_f32(const mc_operand *out, int64_t begin, int64_t n, const float *values);
void mc_block_put_i64(const mc_operand *out, int64_t begin, int64_t n, const int64_t *values);

/* Moves the axes in `mask` behind the others, both in order, so that a row is what is reduced.
 * Returns the number of rows; *row receives their length, *view x with the new layout. */
int64_t mc_rows_of(const mc_operand *x, int64_t mask, mc_layout *layout, mc_operand *view,
                   int64_t *row);

#endif
