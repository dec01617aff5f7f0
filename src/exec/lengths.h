/* Lengths of a graph that is recorded again: what each became.
 *
 * While a program with symbols is recorded, each has a length that nothing else is likely to have
 * (mc_scope_symbol): so it shows in every number that a builder, or the caller, took from it. Once
 * symbols have values, such a number follows:
 *
 *  - one that an axis of a node before it had becomes the length that this axis has now;
 *  - a multiple of a symbol's length becomes that of its value, and one that is nearer to a
 *    symbol's length than 64 stays as far from the value;
 *  - another one stays as it is. Numbers up to 128 always do.
 *
 * Where two axes that had the same length got different ones, nothing follows from it: that is an
 * error. */
#ifndef EXEC_LENGTHS_H
#define EXEC_LENGTHS_H

#include "base/buffer.h"
#include "graph/graph.h"

/* Zero holds none. */
typedef struct mc_lengths {
    mc_buffer pairs;  /* of lengths, those of symbols first */
    size_t n_symbols; /* with other lengths than they are recorded with */
} mc_lengths;

/* errors  MICA_ENOMEM */
mica_status mc_lengths_open(mc_lengths *lengths, const mc_symbol *symbols, const int64_t *values,
                            size_t n);
void mc_lengths_close(mc_lengths *lengths);

/* Adds the axes of a node's result before and now. errors  MICA_ENOMEM */
mica_status mc_lengths_add(mc_lengths *lengths, const mc_layout *before, const mc_layout *now);

/* What a length became. errors  MICA_ESHAPE that cannot be told */
mica_status mc_lengths_follow(const mc_lengths *lengths, int64_t before, int64_t *now);

/* Makes the attributes of a node, which attr [of the op's attr_bytes] holds, those that they are
 * now; subgraphs stay. before and now are the layouts of its first operand, or NULL.
 * errors  MICA_ESHAPE */
mica_status mc_lengths_attr(const mc_lengths *lengths, mc_op op, const mc_layout *before,
                            const mc_layout *now, int64_t *attr);

/* The same of the number that a scalar leaf is: a length, or the inverse of one.
 * errors  MICA_ESHAPE */
mica_status mc_lengths_scalar(const mc_lengths *lengths, mica_dtype dtype, uint64_t *bits);

#endif
