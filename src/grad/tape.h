/* What a pass over a scope keeps for each node: tangents on the way forward, gradients on the way
 * back. Passes record into the scope that they go over, so nodes are added meanwhile.
 *
 * Threads: as the scope's. */
#ifndef GRAD_TAPE_H
#define GRAD_TAPE_H

#include "base/arena.h"
#include "graph/gradient.h"

/* How deep decompositions and functions whose nodes are recorded again may nest. */
enum { MC_TAPE_DEPTH = 32 };

typedef struct mc_slot {
    bool active;           /* its derivative by the pass's variables is not known to be zero */
    mica_array value;      /* tangent or gradient; MICA_NONE: zero */
    mica_array *several;   /* of an op of several results: [n_out], or NULL */
    bool variable;         /* the gradient by it is asked for */
    const mc_region *ends; /* the outermost region whose last node it is */
    const mc_region *custom_begins, *custom_ends; /* and the outermost custom ones */
} mc_slot;

typedef struct mc_tape {
    mica_scope *s;
    mc_arena arena;
    mc_slot *slots;
    uint32_t n_slots;
} mc_tape;

/* The caller ends it. */
void mc_tape_deinit(mc_tape *t);

/* Slots for all nodes that the scope has by now; pointers to slots are void afterwards.
 * errors  MICA_ENOMEM */
mica_status mc_tape_grow(mc_tape *t);

/* Enters the regions within the nodes [begin, end) in their slots. */
void mc_tape_note_regions(mc_tape *t, uint32_t begin, uint32_t end);

/* Finds which nodes of [begin, end) are active: those that are, and floats that come of them. */
void mc_tape_mark(mc_tape *t, uint32_t begin, uint32_t end);

/* Where the slot of operand i of a node is, and in it the value: of a PART's operand the part's. */
typedef struct mc_tape_node {
    mc_gradient_node node;  /* without `wanted` */
    bool *wanted;           /* [n_in] */
    mica_array *in_values;  /* [n_in] */
    mica_array *out_values; /* [n_out] */
} mc_tape_node;

/* Node i as its rules see it: wanted are the active operands; values are MICA_NONE. Lists are in
 * the tape's arena. errors  the scope's; MICA_ENOMEM */
mica_status mc_tape_node_of(mc_tape *t, uint32_t i, mc_tape_node *out);

/* Records the decomposition of node i, and finds which of its nodes are active. *ys receives its
 * results [n_out], in the tape's arena.
 * errors  MICA_EUNSUPPORTED there is none; MICA_EINVAL depth is MC_TAPE_DEPTH; the scope's;
 *         MICA_ENOMEM */
mica_status mc_tape_decompose(mc_tape *t, uint32_t i, const mc_tape_node *n, int depth,
                              mica_array **ys);

/* x as a value of an array like `like`: an array of the tape's scope, of its dtype.
 * errors  MICA_ESHAPE its shape is another one: "<from>: ..."; MICA_EINVAL it is invalid, has
 *         several results, or is not evaluated in another scope; those of the scope */
mica_status mc_tape_fit(mc_tape *t, const char *from, const mc_layout *like, mica_array *x);

/* The op has no gradient, or a rule that does nothing and no decomposition. */
mica_status mc_tape_no_rule(uint32_t i, const mc_node *node);
mica_status mc_tape_too_deep(void);

#endif
