/* Collectives: ops whose operands lie with the ranks of a group.
 *
 * Each has two results, its value and a token, and reads the token of the one before it: so their
 * order stays that in which they were recorded. Ranks' parts are along a new first axis; builders
 * bring it where it belongs. */
#include <mica/group.h>

#include <string.h>

#include "graph/attr.h"
#include "group/group.h"
#include "op/build.h"
#include "op/gradient.h"

/* ---- shape rules ---- */

/* Sets the token's layout, and *size: how many ranks there are. */
static mica_status begin_rule(const char *op, const void *attr, const mc_layout *const *in,
                              mc_layout *out, int64_t *size) {
    const mc_attr_collective *a = attr;
    mica_group *group;
    char text[MC_LAYOUT_TEXT];
    mica_status status = mc_group_find(a->group, &group);
    if (status != MICA_OK) return mc_fail_context(status, "%s", op);
    *size = mica_group_size(group);
    mc_group_release(group);
    if (a->rank < 0 || a->rank >= *size)
        return mc_fail(MICA_EINVAL, "%s: there is no rank %lld among %lld", op, (long long)a->rank,
                       (long long)*size);
    if (in[1] && (in[1]->dtype != MICA_U8 || in[1]->ndim != 0))
        return mc_fail(MICA_EINVAL, "%s: %s is no token of order", op, mc_layout_text(in[1], text));
    return mc_set_result(op, &out[1], MICA_U8, NULL, 0);
}

static mica_status check_sum(const char *op, const mc_layout *x) {
    char text[MC_LAYOUT_TEXT];
    return mc_group_adds(x->dtype)
               ? MICA_OK
               : mc_fail(MICA_EDTYPE, "%s: of %s there is no sum", op, mc_layout_text(x, text));
}

static mica_status same_rule(const char *op, const void *attr, const mc_layout *const *in,
                             mc_layout *out) {
    int64_t size;
    MC_TRY(begin_rule(op, attr, in, out, &size));
    return mc_set_result(op, &out[0], in[0]->dtype, in[0]->shape, in[0]->ndim);
}

static mica_status all_reduce_infer(const void *attr, const mc_layout *const *in, int n_in,
                                    mc_layout *out) {
    (void)n_in;
    MC_TRY(check_sum("all_reduce", in[0]));
    return same_rule("all_reduce", attr, in, out);
}

/* x [...] -> [size, ...] */
static mica_status all_gather_infer(const void *attr, const mc_layout *const *in, int n_in,
                                    mc_layout *out) {
    (void)n_in;
    int64_t shape[MICA_MAX_NDIM];
    MC_TRY(begin_rule("all_gather", attr, in, out, &shape[0]));
    if (in[0]->ndim == MICA_MAX_NDIM)
        return mc_fail(MICA_ESHAPE, "all_gather: there is no axis left for ranks");
    memcpy(shape + 1, in[0]->shape, (size_t)in[0]->ndim * sizeof *shape);
    return mc_set_result("all_gather", &out[0], in[0]->dtype, shape, in[0]->ndim + 1);
}

/* x [size, ...] -> [...] */
static mica_status reduce_scatter_infer(const void *attr, const mc_layout *const *in, int n_in,
                                        mc_layout *out) {
    (void)n_in;
    int64_t size;
    char text[MC_LAYOUT_TEXT];
    MC_TRY(check_sum("reduce_scatter", in[0]));
    MC_TRY(begin_rule("reduce_scatter", attr, in, out, &size));
    if (in[0]->ndim < 1 || in[0]->shape[0] != size)
        return mc_fail(MICA_ESHAPE, "reduce_scatter: %s has no %lld parts for the ranks",
                       mc_layout_text(in[0], text), (long long)size);
    return mc_set_result("reduce_scatter", &out[0], in[0]->dtype, in[0]->shape + 1,
                         in[0]->ndim - 1);
}

#define SAME_RULE(name)                                                                     \
    static mica_status name##_infer(const void *attr, const mc_layout *const *in, int n_in, \
                                    mc_layout *out) {                                       \
        (void)n_in;                                                                         \
        return same_rule(#name, attr, in, out);                                             \
    }
SAME_RULE(broadcast)
SAME_RULE(send)
SAME_RULE(recv)

/* ---- recording ---- */

/* The value of an op over x, behind *order, which becomes its token; NULL: it has none. */
static mica_array record(mica_scope *s, mc_op op, const mc_attr_collective *attr, mica_array x,
                         mica_array *order) {
    mica_array in[2] = {x, MICA_NONE};
    if (order && order->scope) in[1] = *order;
    mica_array both = mc_record(s, op, attr, in, 2);
    if (order) *order = mc_record_part(s, both, 1);
    return mc_record_part(s, both, 0);
}

/* *attr names the group. false: the scope has an error. */
static bool begin(mica_scope *s, const char *op, mica_group *group, int rank, mica_array x,
                  mc_attr_collective *attr) {
    if (!mc_operands_ok(s, op, &x, 1)) return false;
    if (!group) {
        mc_scope_fail(s, MICA_EINVAL, "%s: group is NULL", op);
        return false;
    }
    *attr = (mc_attr_collective){.group = mc_group_number(group), .rank = rank};
    return true;
}

mica_array mica_all_reduce(mica_scope *s, mica_group *group, mica_array x, mica_array *order) {
    mc_attr_collective attr;
    if (!begin(s, "all_reduce", group, 0, x, &attr)) return mc_invalid(s);
    return record(s, MC_OP_ALL_REDUCE, &attr, x, order);
}

mica_array mica_broadcast(mica_scope *s, mica_group *group, mica_array x, int root,
                          mica_array *order) {
    mc_attr_collective attr;
    if (!begin(s, "broadcast", group, root, x, &attr)) return mc_invalid(s);
    return record(s, MC_OP_BROADCAST, &attr, x, order);
}

mica_array mica_send(mica_scope *s, mica_group *group, mica_array x, int to, mica_array *order) {
    mc_attr_collective attr;
    if (!begin(s, "send", group, to, x, &attr)) return mc_invalid(s);
    return record(s, MC_OP_SEND, &attr, x, order);
}

mica_array mica_recv(mica_scope *s, mica_group *group, mica_array like, int from,
                     mica_array *order) {
    mc_attr_collective attr;
    if (!begin(s, "recv", group, from, like, &attr)) return mc_invalid(s);
    return record(s, MC_OP_RECV, &attr, like, order);
}

/* [size, .., n, ..] -> [.., size * n, ..] */
mica_array mica_all_gather(mica_scope *s, mica_group *group, mica_array x, int axis,
                           mica_array *order) {
    mc_attr_collective attr;
    int at, axes[MICA_MAX_NDIM], ndim;
    if (!begin(s, "all_gather", group, 0, x, &attr) ||
        !mc_find_axis(s, "all_gather", mc_layout_of(x), axis, &at))
        return mc_invalid(s);
    ndim = mica_array_ndim(x);
    for (int k = 0; k <= ndim; k++)
        axes[k] = k < at ? k + 1 : k == at ? 0 : k;
    mica_array y = record(s, MC_OP_ALL_GATHER, &attr, x, order);
    if (!mica_valid(y)) return y;
    return mica_flatten(s, mica_transpose(s, y, axes), at, at + 1);
}

mica_array mica_reduce_scatter(mica_scope *s, mica_group *group, mica_array x, int axis,
                               mica_array *order) {
    mc_attr_collective attr;
    int at, axes[MICA_MAX_NDIM], size = mica_group_size(group);
    if (!begin(s, "reduce_scatter", group, 0, x, &attr) ||
        !mc_find_axis(s, "reduce_scatter", mc_layout_of(x), axis, &at))
        return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    char text[MC_LAYOUT_TEXT];
    if (mc_dim_has_symbols(l->shape[at])) return mc_need_number(s, "reduce_scatter", l->shape[at]);
    if (l->shape[at] % size != 0)
        return mc_scope_fail(s, MICA_ESHAPE, "reduce_scatter: axis %d of %s is not %d equal parts",
                             at, mc_layout_text(l, text), size);
    const int64_t split[] = {size, l->shape[at] / size};
    int ndim = l->ndim;
    mica_array parts = mica_unflatten(s, x, at, split, 2);
    axes[0] = at;
    for (int k = 1; k <= ndim; k++)
        axes[k] = k <= at ? k - 1 : k;
    return record(s, MC_OP_REDUCE_SCATTER, &attr, mica_transpose(s, parts, axes), order);
}

/* ---- gradients: of the sum of all ranks' losses ---- */

/* An op of the backward pass, behind the node's own token. */
static mica_array back(const mc_gradient_node *n, mc_op op, int64_t rank, mica_array dy) {
    mc_attr_collective attr = *(const mc_attr_collective *)n->attr;
    mica_array order = n->out[1];
    attr.rank = rank;
    return record(n->s, op, &attr, dy, &order);
}

static int64_t rank_of(const mc_gradient_node *n) {
    return ((const mc_attr_collective *)n->attr)->rank;
}

static bool all_reduce_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    if (dy[0].scope) dx[0] = back(n, MC_OP_ALL_REDUCE, 0, dy[0]);
    return true;
}

static bool all_gather_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    if (dy[0].scope) dx[0] = back(n, MC_OP_REDUCE_SCATTER, 0, dy[0]);
    return true;
}

static bool reduce_scatter_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    if (dy[0].scope) dx[0] = back(n, MC_OP_ALL_GATHER, 0, dy[0]);
    return true;
}

/* All ranks take part in the sum; but for the root they leave it. */
static bool broadcast_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_group *group;
    if (!dy[0].scope) return true;
    if (mc_scope_set_status(
            n->s, mc_group_find(((const mc_attr_collective *)n->attr)->group, &group)) != MICA_OK)
        return true;
    mica_array sum = back(n, MC_OP_ALL_REDUCE, 0, dy[0]);
    mica_array mine = mica_scalar(n->s, mica_group_rank(group) == rank_of(n), MICA_F32);
    mc_group_release(group);
    dx[0] = mica_multiply(n->s, mc_wide(n->s, sum), mine);
    return true;
}

static bool send_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_array like = mc_or_zeros(n->s, dy[0], n->in[0]);
    dx[0] = mc_sum_of(n->s, dy[0], back(n, MC_OP_RECV, rank_of(n), like));
    return true;
}

static bool recv_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    dx[0] = back(n, MC_OP_SEND, rank_of(n), mc_or_zeros(n->s, dy[0], n->in[0]));
    return true;
}

/* All are linear: the op itself of the tangents. */
static bool tangent(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    dy[0] = back(n, n->op, rank_of(n), mc_or_zeros(n->s, dx[0], n->in[0]));
    return true;
}

#define COLLECTIVE(called)                                 \
    const mc_op_def mc_op_##called = {.name = #called,     \
                                      .min_in = 1,         \
                                      .max_in = 2,         \
                                      .n_out = 2,          \
                                      .acts = true,        \
                                      MC_ATTR(collective), \
                                      .infer = called##_infer}
COLLECTIVE(all_reduce);
COLLECTIVE(all_gather);
COLLECTIVE(reduce_scatter);
COLLECTIVE(broadcast);
COLLECTIVE(send);
COLLECTIVE(recv);
MC_GRADIENT(all_reduce, all_reduce_vjp, tangent);
MC_GRADIENT(all_gather, all_gather_vjp, tangent);
MC_GRADIENT(reduce_scatter, reduce_scatter_vjp, tangent);
MC_GRADIENT(broadcast, broadcast_vjp, tangent);

/* What is sent comes back with the gradient of another rank. */
#define WITH_ANOTHER(called)                                                               \
    const mc_op_gradient mc_gradient_##called = {MC_GRADIENT_RULES, called##_vjp, tangent, \
                                                 "another rank has the other part of it"}
WITH_ANOTHER(send);
WITH_ANOTHER(recv);
