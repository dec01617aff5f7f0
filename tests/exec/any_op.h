/* Random ops of every kind over given operands: what tests/exec/random_ops.c builds programs of. */
#ifndef EXEC_ANY_OP_H
#define EXEC_ANY_OP_H

#include <mica/mica.h>

enum { ANY_OP_MAX = 600 }; /* elements of an operand */

/* What an op is: the same seed and kind make the same op, in any scope. */
typedef struct any_op {
    mica_scope *s;
    uint64_t random;
} any_op;

/* 0 to n - 1. */
int any_below(any_op *g, int n);

/* How many kinds there are, and their names. */
int any_op_count(void);
const char *any_op_name(int kind);

/* Records an op of a kind over three operands of any dtype but c64 and of any shape. Its result has
 * ANY_OP_MAX elements at most. Evaluating it does not fail. */
mica_array any_op_make(any_op *g, int kind, const mica_array in[3]);

#endif
