/* A trace: the part of a scope's graph that some targets need, and its structure as a key.
 *
 * Nodes are numbered anew (ordinals), inputs before users; READY nodes are leaves. Two traces with
 * equal keys are computed by one plan. */
#ifndef EXEC_TRACE_H
#define EXEC_TRACE_H

#include <mica/executable.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "device/pass.h"
#include "graph/graph.h"

typedef struct mc_trace {
    mica_scope *scope;
    uint32_t n_nodes;
    uint32_t *nodes;   /* [n_nodes] node of each ordinal */
    uint32_t *ordinal; /* [count of the scope] ordinal of each node, or MC_ABSENT */
    uint32_t n_leaves;
    uint32_t *leaves; /* [n_leaves] node of each leaf */
    uint32_t n_targets;
    uint32_t *targets;   /* [n_targets] ordinals */
    bool dense_results;  /* lowering makes the targets dense; set by whoever wants it */
    bool falls_back;     /* what reads nothing runs on the fallback: mc_scope_set_fallback */
    bool placed;         /* it does, or a leaf lies there */
    uint32_t passes_off; /* bits of mc_pass. Graphs are only passed over where an executable asks
                            for it */
    bool constants;      /* leaves that are no parameters are the same in every launch */
    mica_mode mode;      /* of the executable; default: there is none */
    mc_buffer key;
    uint64_t hash;
} mc_trace;

/* Traces what xs [n], arrays of s, need; those that are evaluated are leaves. Memory for the lists
 * comes from `arena`; the key's buffer is reused.
 * errors  MICA_EINVAL a node that was moved away is needed, or one of several results is asked for;
 *         MICA_ENOMEM */
mica_status mc_trace_make(mc_trace *trace, mc_arena *arena, mica_scope *s, const mica_array *xs,
                          size_t n);

static inline bool mc_is_leaf(const mc_node *node) {
    return node->state == MC_READY;
}

/* A leaf whose value is bound as a number, not as memory: a scalar, or a parameter that is one. */
static inline bool mc_is_scalar(const mc_node *leaf) {
    return leaf->scalar || (leaf->param && leaf->layout.ndim == 0 && !leaf->movable);
}

#endif
