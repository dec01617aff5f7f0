/* A model over the ranks of a group: each has a part of every matrix's rows, and computes these.
 *
 * The table of slots says what becomes of the results (mc_slot_split). Those of most matrices are
 * gathered at once, so that all ranks have them. Those within a block, queries, keys and values,
 * the gates of an MLP, stay parts, if the block's numbers can be divided: a rank has its heads, the
 * caches of these alone, its part of the MLP's width. The matrix behind them joins the parts of its
 * input. No sum is divided: a number is computed by one rank in the order in which one rank alone
 * computes it, so exact arithmetic has the same bits with any number of ranks.
 *
 * In a pipeline ranks form stages, each of which has some of the layers, one stage behind the
 * other, and each rank of a stage its part of these. The first stage embeds; each gives what its
 * last layer leaves to the next; the last gives what the head reads to all. Every rank has a part
 * of the head.
 *
 * Parts are views of the mapped files: a rank reads its own alone. */
#ifndef MODEL_SPLIT_H
#define MODEL_SPLIT_H

#include "model/lm.h"

#include <mica/group.h>

/* mc_linear_apply with a matrix that may be a part: x [.., in], or a part of it, -> [.., out] of
 * the whole, or a part. order: mica/group.h. */
mica_array mc_split_apply(mica_scope *s, const mc_linear *linear, mica_array x, mica_array *order);

/* The same for mc_linear_pick. */
mica_array mc_split_pick(mica_scope *s, const mc_linear *linear, mica_array x, mica_array picks,
                         mica_array *order);

#endif
