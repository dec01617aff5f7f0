/* Which tensors of GGUF hold the matrices and vectors of a model, and in what order their rows and
 * columns are. */
#ifndef CONVERT_GGUF_ROWS_H
#define CONVERT_GGUF_ROWS_H

#include "convert/gguf_arch.h"
#include "model/spec.h"

#include <mica/array.h>

enum { MC_GGUF_PIECES = 3 };

/* The slot whose rows are those of a slot and others; NULL: there is none. */
const mc_slot *mc_gguf_joined(const mc_block *kind, int slot);

/* The number of a slot's rows, of all heads' matrices if they are rows of one. */
int64_t mc_gguf_rows(const mc_block_spec *block, int slot);

/* Finds which rows of a slot, or of a joined slot that has its rows, the rows of its tensor are.
 *
 *  joined  NULL: of the slot itself; else of this joined slot
 *  places  [rows of the slot] receives them
 *  returns false: they are in order, from 0 on; places is unchanged */
bool mc_gguf_row_places(const mc_gguf_arch *arch, const mc_block_spec *block, int slot,
                        const mc_slot *joined, int32_t *places);

/* The same of the columns of a matrix, which are in order but for one: that of a delta net's
 * output, whose columns are in runs of so many. *run receives that; 0: they are in order.
 *  places  [columns / run] */
void mc_gguf_column_places(const mc_gguf_arch *arch, const mc_block_spec *block, int slot,
                           int64_t *run, int32_t *places);

/* What the elements become. */
typedef enum mc_gguf_change {
    MC_GGUF_AS_IT_IS,
    MC_GGUF_DECAY /* log(a) in a folder, -a in GGUF */
} mc_gguf_change;
mc_gguf_change mc_gguf_change_of(const mc_block_spec *block, int slot);

/* The shape of a slot's tensor in GGUF, of one expert's shape or of all; returns its number of
 * dimensions. */
int mc_gguf_shape(const mc_block_spec *block, int slot, bool bias, int64_t shape[MICA_MAX_NDIM]);

#endif
