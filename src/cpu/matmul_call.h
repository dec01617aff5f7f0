/* A call of MATMUL or QUANTIZED_MATMUL, before anything is prepared. */
#ifndef CPU_MATMUL_CALL_H
#define CPU_MATMUL_CALL_H

#include "exec/steps/step.h"

enum { MC_MATMUL_X, MC_MATMUL_W }; /* operands */

static inline bool mc_is_matmul(mc_op op) {
    return op == MC_OP_QUANTIZED_MATMUL || op == MC_OP_MATMUL;
}

/* Whether indices pick its matrices. */
static inline bool mc_is_picked_matmul(mc_op op) {
    return op == MC_OP_GATHER_QMM || op == MC_OP_GATHER_MM;
}

/* Whether the matmul runs in one region with its joint matmuls. */
static inline bool mc_matmul_is_one_region(const mc_call *call) {
    return call->in[MC_MATMUL_W].layout->ndim == 2; /* with a batched w, x may be broadcast */
}

#endif
