/* Programs' files up to version 5: lengths with symbols are numbers in them.
 *
 * Each symbol had a prime for its length while its program was recorded, and what was computed from
 * that was taken from the numbers: one that an axis before it has is that axis' length, a multiple
 * of a symbol's length is that of the symbol, and one that is within 64 of it is as far from the
 * symbol. Numbers up to 128 are themselves. */
#ifndef GRAPH_FILE_PRIMES_H
#define GRAPH_FILE_PRIMES_H

#include "base/arena.h"
#include "graph/graph.h"

typedef struct mc_primes mc_primes;

/* name: of the file, for error texts; borrowed. It is in memory of the arena. errors
 * MICA_ENOMEM */
mica_status mc_primes_open(mc_arena *arena, const char *name, mc_primes **primes);
void mc_primes_close(mc_primes *p); /* what is not the arena's; NULL: nothing */
/* False: no symbol had that length, or another one has it, or there are too many. */
bool mc_primes_symbol(mc_primes *p, int64_t length, int64_t dim);

/* What a length is. errors  MICA_EFORMAT two axes that had it are different ones */
mica_status mc_primes_dim(const mc_primes *p, int64_t number, int64_t *dim);
/* The same of the number that a scalar leaf is, or its inverse, recorded in s. */
mica_status mc_primes_scalar(const mc_primes *p, mica_scope *s, mica_dtype dtype, uint64_t bits,
                             mica_array *x);
/* The same of the attributes of a node with this first operand, or none. */
mica_status mc_primes_attr(const mc_primes *p, mc_op op, mica_array first, int64_t *attr);
/* Adds the axes of a node. errors  MICA_EFORMAT too many different ones; MICA_ENOMEM */
mica_status mc_primes_add(mc_primes *p, mica_array node);

#endif
