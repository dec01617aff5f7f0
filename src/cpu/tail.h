/* Steps behind an op that makes its result in parts: they go element by element, and each part goes
 * through them while it is in a near cache. */
#ifndef CPU_TAIL_H
#define CPU_TAIL_H

#include "cpu/chain.h"
#include "cpu/fuse.h"

typedef struct mc_tail {
    mk_epilogue end; /* the first steps, which the op's own kernel does; of the whole result */
    mc_chain chain;  /* the others */
    mc_fusion fusion;
    int in_kernel;     /* steps of `end`, or of `round` */
    mk_rounding round; /* how the op's kernel makes bytes, of which the first steps are; */
    void *rounded;     /* NULL: it makes none, and else only them */
    size_t bytes;      /* of memory */
} mc_tail;

/* Measures the steps behind the call, the first of its span: sets bytes.
 *
 *  columns  of the result's last axis; 0: the op's kernel does none of them
 *  errors   those of the ops */
mica_status mc_tail_measure(const mc_call *call, int64_t columns, mc_tail *tail);
/* Prepares them, in memory [bytes] aligned to 64, if operands have data. tail stays where it is.
 * errors  those of the ops */
mica_status mc_tail_prepare(const mc_call *call, int64_t columns, void *memory, mc_tail *tail);
/* The same of an op whose kernel also rounds, instead of other steps. */
mica_status mc_tail_prepare_rounding(const mc_call *call, void *memory, mc_tail *tail);

/* Tell mc_run_touch what an op and the steps behind it touch: of one whose kernel rounds, or does
 * none of them, and of one whose kernel does the first steps. */
void mc_tail_touch_rounded(const mc_call *call, bool rounds);
void mc_tail_touch(const mc_call *call);

/* What a kernel is given for the part of the result from row and column on. */
mk_epilogue mc_tail_end(const mc_tail *tail, int64_t row, int64_t column);
/* Takes elements [begin, end) of the result, which are made, through the other steps. */
void mc_tail_run(const mc_tail *tail, int64_t begin, int64_t end, int worker);

#endif
