/* Sorting along the last axis. */
#include <mica/ops.h>

#include <math.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/work.h"

static mica_status sort_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    if (in[0]->ndim < 1) return mc_fail(MICA_EINVAL, "sort: a 0-dimensional array has no axis");
    if (mc_dim_less(UINT32_MAX, in[0]->shape[in[0]->ndim - 1]))
        return mc_fail(MICA_EINVAL, "sort: more than 2^32 - 1 elements have no u32 index");
    *out = *in[0];
    return MICA_OK;
}

static mica_status argsort_infer(const void *attr, const mc_layout *const *in, int n_in,
                                 mc_layout *out) {
    MC_TRY(sort_infer(attr, in, n_in, out));
    out->dtype = MICA_U32;
    return MICA_OK;
}

static mica_status topk_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    const mc_attr_topk *a = attr;
    MC_TRY(sort_infer(attr, in, n_in, out));
    int64_t *len = &out->shape[out->ndim - 1];
    char text[MC_LAYOUT_TEXT];
    if (a->k < 1 || mc_dim_less(*len, a->k))
        return mc_fail(MICA_EINVAL, "topk: k is %lld, along the last axis of %s", (long long)a->k,
                       mc_layout_text(in[0], text));
    *len = a->k;
    return MICA_OK;
}

/* Sorts all and keeps the last k. */
static void topk_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                           mica_array *out) {
    (void)n_in;
    const mc_attr_topk *a = attr;
    int64_t len = mica_array_dim(in[0], -1);
    *out = mica_slice_axis(s, mica_sort(s, in[0], -1), -1, mc_dim_sub(len, a->k), len);
}

static mica_status topk_indices_infer(const void *attr, const mc_layout *const *in, int n_in,
                                      mc_layout *out) {
    MC_TRY(topk_infer(attr, in, n_in, &out[0]));
    out[1] = out[0];
    out[1].dtype = MICA_U32;
    return MICA_OK;
}

/* The k largest of each row and where they are. argsort is stable and ascending. So it sorts the
 * reversed row, and its result is read from the end: then of equal values the one with the lower
 * index comes first. */
static mica_array largest_by_sorting(mica_scope *s, mica_array x, int64_t k, mica_array *at) {
    int64_t len = mica_array_dim(x, -1);
    mica_array order = mica_argsort(s, mica_flip(s, x, -1), -1);
    order = mica_slice_axis(s, mica_flip(s, order, -1), -1, 0, k);
    *at = mica_subtract(s, mica_scalar(s, (double)mc_dim_sub(len, 1), MICA_U32), order);
    return mica_take_along_axis(s, x, *at, -1);
}

/* log2 of the number of elements of a block, so that rows have about as many blocks as the blocks
 * that may hold their k largest have elements. 0: the row is sorted as a whole. */
static int block_bits(const mc_layout *x, int64_t k) {
    int64_t len = x->shape[x->ndim - 1];
    bool has_infinity = x->dtype == MICA_F32 || x->dtype == MICA_F16 || x->dtype == MICA_BF16;
    int bits = 0;
    if (x->ndim == MICA_MAX_NDIM) return 0; /* there is no axis left for blocks */
    if (!mc_dim_numbers(len, k)) return 0;
    while (has_infinity && k << (2 * bits + 2) <= len)
        bits++;
    return bits < 2 ? 0 : bits;
}

/* x [..., len] -> [..., blocks, 2^bits], filled up with -infinity, which comes behind what is equal
 * and in the row. */
static mica_array cut_blocks(mica_scope *s, mica_array x, int bits) {
    int ndim = mica_array_ndim(x);
    int64_t size = INT64_C(1) << bits, len = mica_array_dim(x, -1);
    int64_t before[MICA_MAX_NDIM] = {0}, after[MICA_MAX_NDIM] = {0};
    const int64_t cut[] = {(len + size - 1) / size, size};
    after[ndim - 1] = cut[0] * size - len;
    mica_array least = mica_scalar(s, -(double)INFINITY, mica_array_dtype(x));
    if (after[ndim - 1]) x = mica_pad(s, x, before, after, least);
    return mica_unflatten(s, x, -1, cut, 2);
}

/* A block whose largest element is not among the k largest of all blocks, of equals the first, has
 * none of the row's k largest elements. So two short rows are sorted: the blocks' largest elements,
 * and the k blocks that are left, in the row's order. */
static mica_array largest_by_blocks(mica_scope *s, mica_array x, int64_t k, int bits,
                                    mica_array *at) {
    const int last = -1;
    mica_array blocks = cut_blocks(s, x, bits), which, place;
    (void)largest_by_sorting(s, mica_max(s, blocks, &last, 1, false), k, &which);
    which = mica_sort(s, which, -1);
    blocks = mica_take_along_axis(s, blocks, mica_expand_dims(s, which, -1), -2);
    mica_array values = largest_by_sorting(s, mica_flatten(s, blocks, -2, -1), k, &place);
    mica_array shift = mica_scalar(s, bits, MICA_U32), size = mica_scalar(s, 1 << bits, MICA_U32);
    mica_array block = mica_take_along_axis(s, which, mica_right_shift(s, place, shift), -1);
    *at = mica_add(s, mica_multiply(s, block, size), mica_remainder(s, place, size));
    return values;
}

static void topk_indices_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                   mica_array *out) {
    (void)n_in;
    const mc_attr_topk *a = attr;
    int bits = mica_valid(in[0]) ? block_bits(mc_layout_of(in[0]), a->k) : 0;
    out[0] = bits ? largest_by_blocks(s, in[0], a->k, bits, &out[1])
                  : largest_by_sorting(s, in[0], a->k, &out[1]);
}

MC_OP(sort, 1, 1, .infer = sort_infer, .work = mc_work_sort);
MC_OP(argsort, 1, 1, .infer = argsort_infer, .work = mc_work_sort);
MC_OP(topk, 1, 1, MC_ATTR(topk), .infer = topk_infer, .decompose = topk_decompose,
      .work = mc_work_sort);

MC_OP(topk_indices, 1, 1, .n_out = 2, MC_ATTR(topk), .infer = topk_indices_infer,
      .decompose = topk_indices_decompose, .work = mc_work_sort);

static mica_array record(mica_scope *s, mc_op op, const char *name, const void *attr, mica_array x,
                         int axis) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    int at;
    if (!mc_find_axis(s, name, mc_layout_of(x), axis, &at)) return mc_invalid(s);
    x = mica_swapaxes(s, x, at, -1);
    return mica_swapaxes(s, mc_record(s, op, attr, &x, 1), at, -1);
}

mica_array mica_sort(mica_scope *s, mica_array x, int axis) {
    return record(s, MC_OP_SORT, "sort", NULL, x, axis);
}

mica_array mica_argsort(mica_scope *s, mica_array x, int axis) {
    return record(s, MC_OP_ARGSORT, "argsort", NULL, x, axis);
}

mica_array mica_topk(mica_scope *s, mica_array x, int64_t k, int axis) {
    return record(s, MC_OP_TOPK, "topk", &(mc_attr_topk){k}, x, axis);
}

mica_array mica_topk_indices(mica_scope *s, mica_array x, int64_t k, int axis,
                             mica_array *indices) {
    mica_array unused;
    int at;
    if (!indices) indices = &unused;
    *indices = mc_invalid(s);
    if (!mc_operands_ok(s, "topk_indices", &x, 1)) return mc_invalid(s);
    if (!mc_find_axis(s, "topk_indices", mc_layout_of(x), axis, &at)) return mc_invalid(s);
    x = mica_swapaxes(s, x, at, -1);
    mica_array both = mc_record(s, MC_OP_TOPK_INDICES, &(mc_attr_topk){k}, &x, 1);
    *indices = mica_swapaxes(s, mc_record_part(s, both, 1), at, -1);
    return mica_swapaxes(s, mc_record_part(s, both, 0), at, -1);
}

/* errors  MICA_EINVAL there is no such axis, or kth is out of its range */
static bool kth_ok(mica_scope *s, const char *name, mica_array x, int64_t kth, int axis) {
    if (!mc_operands_ok(s, name, &x, 1)) return false;
    int at;
    if (!mc_find_axis(s, name, mc_layout_of(x), axis, &at)) return false;
    int64_t len = mica_array_dim(x, at);
    if (!mc_dim_less(kth, mc_dim_sub(0, len)) && mc_dim_less(kth, len)) return true;
    if (mc_dim_has_symbols(len)) return true; /* what is sorted is the whole axis */
    mc_scope_fail(s, MICA_EINVAL, "%s: element %lld of an axis of %lld", name, (long long)kth,
                  (long long)len);
    return false;
}

mica_array mica_partition(mica_scope *s, mica_array x, int64_t kth, int axis) {
    if (!kth_ok(s, "partition", x, kth, axis)) return mc_invalid(s);
    return mica_sort(s, x, axis);
}

mica_array mica_argpartition(mica_scope *s, mica_array x, int64_t kth, int axis) {
    if (!kth_ok(s, "argpartition", x, kth, axis)) return mc_invalid(s);
    return mica_argsort(s, x, axis);
}

/* ---- gradients ---- */

/* The places in x of the results: [.., k]. */
static mica_array places(const mc_gradient_node *n) {
    mica_array order = mica_argsort(n->s, n->in[0], -1);
    int64_t len = mica_array_dim(order, -1), k = mica_array_dim(n->out[0], -1);
    return mica_slice_axis(n->s, order, -1, mc_dim_sub(len, k), len);
}

static bool put_vjp(const mc_gradient_node *n, mica_array at, mica_array dy, mica_array *dx) {
    mica_array zeros = mica_zeros(n->s, mica_array_shape(n->in[0]), mica_array_ndim(n->in[0]),
                                  mica_array_dtype(dy));
    *dx = mica_put_along_axis(n->s, zeros, at, dy, -1);
    return true;
}

static bool sort_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    return put_vjp(n, places(n), *dy, dx);
}

static bool sort_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    *dy = mica_take_along_axis(n->s, *dx, places(n), -1);
    return true;
}
MC_GRADIENT(sort, sort_vjp, sort_jvp);
MC_GRADIENT(topk, sort_vjp, sort_jvp);
MC_NO_GRADIENT(argsort, "its result are indices");

static bool topk_indices_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    return put_vjp(n, n->out[1], dy[0], dx);
}

static bool topk_indices_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    dy[0] = mica_take_along_axis(n->s, *dx, n->out[1], -1);
    return true;
}
MC_GRADIENT(topk_indices, topk_indices_vjp, topk_indices_jvp);
