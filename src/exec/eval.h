/* Evaluating the same once more with other values, without recording, tracing and planning it
 * again.
 *
 * mc_eval_keep evaluates and keeps the run with the scope. Then leaves of the graph are given other
 * values (mc_leaf_set, mc_leaf_take), and mc_eval_again computes the same arrays from them, to the
 * bit what they would be had the graph been recorded anew. One evaluation is kept a scope, until
 * the scope evaluates something else, is reset, or fails. So a decode step is recorded once:
 *
 *      y = slice_update_at(leaf = mica_move(s, cache), new, start);  mc_eval_keep(s, {y})
 *      mc_leaf_take(leaf, y);  mc_leaf_set(start, &next);  mc_eval_again(s);  ...
 *
 * Threads: as for mica_eval_n. */
#ifndef EXEC_EVAL_H
#define EXEC_EVAL_H

#include <mica/array.h>

#include <stdbool.h>

/* As mica_eval_n; what had to be computed for it can be computed again, if it was computed from
 * leaves alone: nothing is kept where a part of it was evaluated before. */
mica_status mc_eval_keep(mica_scope *s, const mica_array *xs, size_t n);

/* Whether an evaluation of s is kept. */
bool mc_eval_kept(const mica_scope *s);

/* Computes the arrays that the kept evaluation computed once more, from the values that the leaves
 * have now. What they were is given up first, as by mc_leaf_take.
 * errors  as mica_eval_n; MICA_EINVAL nothing is kept, or a leaf's memory was moved away or
 *         overwritten and it got no other. Nothing is kept then */
mica_status mc_eval_again(mica_scope *s);

/* Gives a leaf, a number or a dense array of its scope, another value; data has its dtype and
 * shape. Arrays that are evaluated stay what they are, also those that share the leaf's memory.
 * errors  MICA_EINVAL not such a leaf; MICA_ENOMEM */
mica_status mc_leaf_set(mica_array leaf, const void *data);

/* Whether a leaf, not a number, can lie in the memory of x: an evaluated array of any scope of the
 * device, which lies there as the leaf did when it was recorded. */
bool mc_leaf_fits(mica_array leaf, mica_array x);

/* Gives the leaf that memory; x is gone then, as by mica_move, unless it is computed again.
 * errors  MICA_EINVAL it does not fit */
mica_status mc_leaf_take(mica_array leaf, mica_array x);

#endif
