/* Gradients of ops: the rules that stand beside an op's shape rule, in its own file.
 *
 * Every op has one constant mc_gradient_<name>, made by one of the macros below; a row of op_list.h
 * without one does not link. Rules record plain ops, so what they compute has gradients, too. */
#ifndef GRAPH_GRADIENT_H
#define GRAPH_GRADIENT_H

#include "graph/graph.h"

/* The two passes (grad/grad.h), for rules of ops that hold subgraphs.
 *
 *  back     grads [n_xs] of sum_k ys_k * dys_k, where MICA_NONE is zero
 *  forward  dys [n_ys] from dxs [n_xs], where MICA_NONE is zero; MICA_NONE for no float */
typedef struct mc_gradient_passes {
    mica_status (*back)(mica_scope *s, const mica_array *ys, const mica_array *dys, size_t n_ys,
                        const mica_array *xs, size_t n_xs, mica_array *grads);
    mica_status (*forward)(mica_scope *s, const mica_array *xs, const mica_array *dxs, size_t n_xs,
                           const mica_array *ys, size_t n_ys, mica_array *dys);
} mc_gradient_passes;

/* A node, as its op's rules see it. Arrays are of s. */
typedef struct mc_gradient_node {
    mica_scope *s; /* where rules record */
    const mc_gradient_passes *passes;
    mc_op op;
    const void *attr;
    int n_in;
    const mica_array *in;  /* [n_in] operands; MICA_NONE: absent */
    const mica_array *out; /* [n_out] results */
    const bool
        *wanted; /* [n_in] for vjp: whose gradients are asked for; others need not be given */
} mc_gradient_node;

/* A rule. MICA_NONE stands for zeros, and `to` holds nothing else at first. What it gives has the
 * shape of the operand or result that it belongs to, and any float dtype: it is converted.
 *
 *  vjp: from [n_out] dy, to [n_in] dx: dx_i = sum_k (d out_k / d in_i)^T dy_k
 *  jvp: from [n_in] dx, to [n_out] dy: dy_k = sum_i (d out_k / d in_i) dx_i
 *
 *  returns  false: the rule has nothing for these operands; the decomposition's gradient is taken.
 *           Errors are in the scope. */
typedef bool (*mc_gradient_rule)(const mc_gradient_node *n, const mica_array *from, mica_array *to);

typedef enum mc_gradient_kind {
    MC_GRADIENT_RULES,
    MC_GRADIENT_DECOMPOSED, /* that of the decomposition */
    MC_GRADIENT_ZERO,       /* zero wherever it exists */
    MC_GRADIENT_NONE        /* `why` says what is in the way */
} mc_gradient_kind;

typedef struct mc_op_gradient {
    mc_gradient_kind kind;
    mc_gradient_rule vjp, jvp; /* RULES; NULL: as a rule that has nothing for any operands */
    const char *why;           /* NONE; of RULES: why there is none where they have nothing */
} mc_op_gradient;

#define MC_GRADIENT(name, vjp_rule, jvp_rule) \
    const mc_op_gradient mc_gradient_##name = {MC_GRADIENT_RULES, vjp_rule, jvp_rule, NULL}
#define MC_DECOMPOSED_GRADIENT(name) \
    const mc_op_gradient mc_gradient_##name = {MC_GRADIENT_DECOMPOSED, NULL, NULL, NULL}
#define MC_ZERO_GRADIENT(name) \
    const mc_op_gradient mc_gradient_##name = {MC_GRADIENT_ZERO, NULL, NULL, NULL}
/* Of an op whose results are no floats, or have no operands that are, nobody ever asks for one. */
#define MC_NO_GRADIENT(name, why) \
    const mc_op_gradient mc_gradient_##name = {MC_GRADIENT_NONE, NULL, NULL, why}

#define OP(ENUM, name) extern const mc_op_gradient mc_gradient_##name;
#include "graph/op_list.h"

const mc_op_gradient *mc_op_gradient_get(mc_op op);

#endif
