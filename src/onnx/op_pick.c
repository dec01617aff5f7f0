/* Operators whose result's length depends on values: what is not zero, what a condition picks, what
 * is there once, boxes that do not overlap (bound.c). */
#include "onnx/import.h"

#include "graph/dim.h"

#include <mica/control.h>
#include <mica/ops.h>

#include <math.h>

static mica_array i64(mc_onnx_node *n, int64_t value) {
    return mica_scalar(n->s, (double)value, MICA_I64);
}

static mica_array flat(mc_onnx_node *n, mica_array x) {
    return mica_reshape(n->s, x, (int64_t[]){-1}, 1);
}

/* 0, 1, .. for an axis. */
static mica_array places(mc_onnx_node *n, int64_t length) {
    return mica_arange(n->s, 0, (double)length, 1, MICA_I64);
}

/* The places [N] of what is true of mask [N], in order and then zeros, and how many there are. */
static mica_array where_true(mc_onnx_node *n, mica_array mask, mica_array *count) {
    mica_scope *s = n->s;
    int64_t length = mica_array_size(mask);
    mica_array ones = mica_astype(s, mask, MICA_I64), all = places(n, length);
    *count = mica_astype(s, mica_sum(s, ones, NULL, 0, false), MICA_I64);
    mica_array to = mica_astype(s, mica_cumsum(s, ones, 0, false, true), MICA_I64);
    to = mica_where(s, mask, mica_subtract(s, to, i64(n, 1)), i64(n, length));
    const int64_t shape[] = {mc_dim_add(length, 1)};
    mica_array room = mica_zeros(s, shape, 1, MICA_I64); /* the last one is for the others */
    room = mica_slice_axis(s, mica_put_along_axis(s, room, to, all, 0), 0, 0, length);
    return mica_where(s, mica_less(s, all, *count), room, i64(n, 0));
}

/* x != 0, without what is beyond its count. */
static mica_array nonzero_mask(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    mica_array mask = mica_not_equal(n->s, x, mica_scalar(n->s, 0, mica_array_dtype(x)));
    if (!n->in[0].bound) return mask;
    return mica_logical_and(n->s, mask, mc_onnx_count_mask(n->s, x, n->in[0].bound));
}

/* [axes, count] */
mica_status mc_onnx_nonzero(mc_onnx_node *n) {
    mica_array count, x = n->in[0].x, rows[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(x);
    if (ndim == 0) return mc_onnx_refuse("the places of an operand without axes");
    mica_array at = where_true(n, flat(n, nonzero_mask(n)), &count);
    for (int k = ndim - 1; k >= 0; k--) {
        mica_array length = i64(n, mica_array_dim(x, k));
        rows[k] = k == 0 ? at : mica_remainder(n->s, at, length);
        if (k > 0) at = mica_floor_divide(n->s, at, length);
    }
    return mc_onnx_give_counted(n, 0, mica_stack(n->s, rows, ndim, 0), 1, count);
}

mica_status mc_onnx_compress(mc_onnx_node *n) {
    mica_array count, x = n->in[0].x, condition = n->in[1].x;
    int axis = 0;
    if (mc_onnx_attr(n, "axis"))
        MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(x), &axis));
    else
        x = flat(n, x);
    if (mica_array_ndim(condition) != 1) return mc_fail(MICA_ESHAPE, "its condition is no vector");
    const mc_onnx_bound *own = n->in[0].bound, *there = n->in[1].bound;
    if (own && (own->axis != axis || !there || !mc_onnx_attr(n, "axis")))
        return mc_onnx_refuse("what is picked of a length that depends on values so");
    condition = mica_astype(n->s, condition, MICA_BOOL);
    if (there) /* no more than of the operand */
        condition = mica_logical_and(n->s, condition, mc_onnx_count_mask(n->s, condition, there));
    mica_array at = where_true(n, condition, &count);
    return mc_onnx_give_counted(n, 0, mica_take(n->s, x, at, axis), axis, count);
}

/* ---- what is there once ---- */

typedef struct groups {
    mica_array first, sizes; /* [N] of each group: its first place, how many */
    mica_array of;           /* [N] of each element: its group */
    mica_array count;
} groups;

/* Groups of equal elements of x [N], by their value. */
static groups find_groups(mc_onnx_node *n, mica_array x) {
    mica_scope *s = n->s;
    groups g;
    int64_t length = mica_array_size(x);
    mica_array order = mica_astype(s, mica_argsort(s, x, 0), MICA_I64);
    mica_array sorted = mica_take(s, x, order, 0);
    mica_array before = mica_take(
        s, sorted, mica_maximum(s, mica_subtract(s, places(n, length), i64(n, 1)), i64(n, 0)), 0);
    mica_array begins = mica_logical_or(s, mica_not_equal(s, sorted, before),
                                        mica_equal(s, places(n, length), i64(n, 0)));
    mica_array at = where_true(n, begins, &g.count);
    mica_array group = mica_cumsum(s, mica_astype(s, begins, MICA_I64), 0, false, true);
    group = mica_subtract(s, mica_astype(s, group, MICA_I64), i64(n, 1));
    g.first = mica_take(s, order, at, 0);
    g.of = mica_put_along_axis(s, mica_zeros(s, &length, 1, MICA_I64), order, group, 0);
    mica_array next = mica_take(
        s, at,
        mica_minimum(s, mica_add(s, places(n, length), i64(n, 1)), i64(n, mc_dim_sub(length, 1))),
        0);
    mica_array last = mica_equal(s, places(n, length), mica_subtract(s, g.count, i64(n, 1)));
    g.sizes = mica_subtract(s, mica_where(s, last, i64(n, length), next), at);
    return g;
}

/* The groups in the order of their first elements. */
static void order_by_place(mc_onnx_node *n, groups *g) {
    mica_scope *s = n->s;
    int64_t length = mica_array_size(g->first);
    mica_array there = mica_less(s, places(n, length), g->count);
    mica_array key = mica_where(s, there, g->first, i64(n, length));
    mica_array order = mica_astype(s, mica_argsort(s, key, 0), MICA_I64);
    mica_array rank =
        mica_put_along_axis(s, mica_zeros(s, &length, 1, MICA_I64), order, places(n, length), 0);
    g->first = mica_take(s, g->first, order, 0);
    g->sizes = mica_take(s, g->sizes, order, 0);
    g->of = mica_take(s, rank, g->of, 0);
}

/* args: groups of rows by the columns before, then a column [N]; results: by this one, too. */
static mica_status group_further(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                 mica_array *results, size_t n_results) {
    mc_onnx_node n = *(const mc_onnx_node *)user;
    (void)n_args, (void)n_results;
    n.s = s;
    mica_array rows = i64(&n, mica_array_size(args[0]));
    mica_array key = mica_multiply(s, args[0], rows);
    results[0] = find_groups(&n, mica_add(s, key, find_groups(&n, args[1]).of)).of;
    return mica_scope_status(s);
}

/* The groups [N] of what lies at each place of an axis, in the order of their elements. */
static mica_status group_slices(mc_onnx_node *n, mica_array x, int axis, mica_array *of) {
    mica_scope *s = n->s;
    int64_t length = mica_array_dim(x, axis);
    mica_array columns = mica_moveaxis(s, x, axis, -1);
    columns = mica_reshape(s, columns, (int64_t[]){length > 0 ? -1 : 0, length}, 2);
    mica_array none = mica_zeros(s, &length, 1, MICA_I64);
    return mica_scan(s, group_further, n, &none, 1, &columns, 1, NULL, of, NULL, 0);
}

mica_status mc_onnx_unique(mc_onnx_node *n) {
    mica_array x = n->in[0].x, key;
    int axis = 0;
    if (mc_onnx_attr(n, "axis"))
        MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(x), &axis));
    else
        x = flat(n, x);
    key = x;
    if (mica_array_ndim(x) > 1) MC_TRY(group_slices(n, x, axis, &key));
    groups g = find_groups(n, key);
    if (!mc_onnx_int(n, "sorted", 1)) order_by_place(n, &g);
    MC_TRY(mc_onnx_give_counted(n, 0, mica_take(n->s, x, g.first, axis), axis, g.count));
    MC_TRY(mc_onnx_give_counted(n, 1, g.first, 0, g.count));
    MC_TRY(mc_onnx_give(n, 2, g.of));
    return mc_onnx_give_counted(n, 3, g.sizes, 0, g.count);
}

/* ---- boxes ---- */

/* Boxes [B, N, 4] as four arrays [B, 1, N], and what a round needs. */
typedef struct boxes {
    mica_array lo[2], hi[2], area;
    mica_array threshold;
    int64_t count, chosen; /* N, and how many of a class there is room for */
    mica_array limit;      /* i64 []: how many of a class are chosen at most */
} boxes;

static mica_array part(mc_onnx_node *n, mica_array x, int k) {
    mica_array y = mica_squeeze(n->s, mica_slice_axis(n->s, x, 2, k, k + 1), 2);
    return mica_expand_dims(n->s, y, 1);
}

static void read_boxes(mc_onnx_node *n, boxes *b) {
    mica_scope *s = n->s;
    mica_array x = n->in[0].x, half = mica_scalar(s, 0.5, mica_array_dtype(x));
    bool centre = mc_onnx_int(n, "center_point_box", 0) != 0;
    for (int k = 0; k < 2; k++) {
        mica_array first = part(n, x, k), second = part(n, x, 2 + k);
        mica_array away = mica_multiply(s, second, half);
        b->lo[k] = centre ? mica_subtract(s, first, away) : mica_minimum(s, first, second);
        b->hi[k] = centre ? mica_add(s, first, away) : mica_maximum(s, first, second);
    }
    b->area = mica_multiply(s, mica_subtract(s, b->hi[0], b->lo[0]),
                            mica_subtract(s, b->hi[1], b->lo[1]));
}

static mica_array pick(mica_scope *s, mica_array x, mica_array at, mica_array like) {
    x = mica_broadcast_to(s, x, mica_array_shape(like), 3);
    return mica_take_along_axis(s, x, at, 2);
}

/* Whether boxes overlap the chosen one of their class by more than the threshold. */
static mica_array overlaps(const boxes *b, mica_scope *s, mica_array at, mica_array like) {
    mica_array zero = mica_f32(s, 0), inside = MICA_NONE;
    for (int k = 0; k < 2; k++) {
        mica_array lo = mica_maximum(s, b->lo[k], pick(s, b->lo[k], at, like));
        mica_array hi = mica_minimum(s, b->hi[k], pick(s, b->hi[k], at, like));
        mica_array side = mica_maximum(s, mica_subtract(s, hi, lo), zero);
        inside = inside.scope ? mica_multiply(s, inside, side) : side;
    }
    mica_array sum = mica_add(s, b->area, pick(s, b->area, at, like));
    mica_array whole = mica_subtract(s, sum, inside);
    mica_array over = mica_greater(s, mica_divide(s, inside, whole), b->threshold);
    return mica_logical_and(s, over, mica_greater(s, inside, zero));
}

/* args: scores that are left [B, C, N], -inf where none is; the chosen [B, C, K]; the round. */
static mica_status any_left(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                            mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    mica_array left = mica_greater(s, args[0], mica_f32(s, -INFINITY));
    mica_array more = mica_less(s, args[2], ((const boxes *)user)->limit);
    results[0] = mica_logical_and(s, mica_any(s, left, NULL, 0, false), more);
    return mica_scope_status(s);
}

static mica_status choose_one(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    const boxes *b = user;
    (void)n_args, (void)n_results;
    mica_array none = mica_f32(s, -INFINITY), scores = args[0];
    mica_array at = mica_argmax(s, scores, 2, true);
    mica_array valid = mica_greater(s, mica_max(s, scores, (int[]){2}, 1, true), none);
    mica_array all = mica_arange(s, 0, (double)b->count, 1, MICA_U32);
    mica_array gone = mica_logical_or(s, overlaps(b, s, at, scores), mica_equal(s, all, at));
    results[0] = mica_where(s, mica_logical_and(s, gone, valid), none, scores);
    mica_array here = mica_equal(s, mica_arange(s, 0, (double)b->chosen, 1, MICA_I64), args[2]);
    mica_array which =
        mica_where(s, valid, mica_astype(s, at, MICA_I64), mica_scalar(s, -1, MICA_I64));
    results[1] = mica_where(s, here, which, args[1]);
    results[2] = mica_add(s, args[2], mica_scalar(s, 1, MICA_I64));
    return mica_scope_status(s);
}

/* Scores [B, C, N]; -inf where they are not above the threshold or no score is. */
static mica_array open_scores(mc_onnx_node *n) {
    mica_scope *s = n->s;
    mica_array x = n->in[1].x, none = mica_f32(s, -INFINITY);
    if (mc_onnx_has(n, 4)) {
        mica_array least = mica_reshape(s, n->in[4].x, NULL, 0);
        x = mica_where(s, mica_greater(s, x, least), x, none);
    }
    for (size_t i = 0; i < 2; i++) {
        if (!n->in[i].bound) continue;
        mc_onnx_bound bound = {.axis = 2, .count = n->in[i].bound->count};
        x = mica_where(s, mc_onnx_count_mask(s, x, &bound), x, none);
    }
    return x;
}

/* Rows [batch, class, box] of what was chosen [B, C, K]. */
static mica_status give_chosen(mc_onnx_node *n, mica_array chosen) {
    mica_scope *s = n->s;
    mica_array count, all = flat(n, chosen);
    mica_array classes = i64(n, mica_array_dim(chosen, 1)),
               each = i64(n, mica_array_dim(chosen, 2));
    mica_array at = where_true(n, mica_greater_equal(s, all, i64(n, 0)), &count);
    mica_array row = mica_floor_divide(s, at, each);
    const mica_array columns[] = {mica_floor_divide(s, row, classes),
                                  mica_remainder(s, row, classes), mica_take(s, all, at, 0)};
    return mc_onnx_give_counted(n, 0, mica_stack(s, columns, 3, 1), 0, count);
}

mica_status mc_onnx_non_max_suppression(mc_onnx_node *n) {
    mica_scope *s = n->s;
    double max = 0;
    boxes b = {.threshold = mica_f32(s, 0)};
    mica_array init[3], results[3];
    if (mica_array_ndim(n->in[0].x) != 3 || mica_array_ndim(n->in[1].x) != 3 ||
        mica_array_dim(n->in[0].x, 2) != 4)
        return mc_fail(MICA_ESHAPE, "its boxes are not [B, N, 4], or its scores not [B, C, N]");
    if ((n->in[0].bound && n->in[0].bound->axis != 1) ||
        (n->in[1].bound && n->in[1].bound->axis != 2))
        return mc_onnx_refuse("batches of boxes whose number depends on values");
    b.count = mica_array_dim(n->in[1].x, 2);
    b.chosen = b.count;
    if (mc_onnx_has(n, 2) && !n->in[2].known && !n->in[2].lengths) { /* a run says it */
        b.limit = mica_astype(s, mica_reshape(s, n->in[2].x, NULL, 0), MICA_I64);
    } else {
        MC_TRY(mc_onnx_operand_scalar(n, 2, 0, &max));
        if (max <= INT32_MAX || mc_dim_of_real(max))
            b.chosen = mc_dim_at_most((int64_t)max, b.count);
        if (b.chosen < 0) b.chosen = 0;
        b.limit = i64(n, b.chosen);
    }
    if (mc_onnx_has(n, 3)) b.threshold = mica_reshape(s, n->in[3].x, NULL, 0);
    read_boxes(n, &b);
    init[0] = mica_astype(s, open_scores(n), MICA_F32);
    const int64_t shape[] = {mica_array_dim(init[0], 0), mica_array_dim(init[0], 1), b.chosen};
    init[1] = mica_full(s, shape, 3, i64(n, -1));
    init[2] = i64(n, 0);
    if (b.chosen == 0) return give_chosen(n, init[1]);
    MC_TRY(mica_while(s, any_left, choose_one, &b, init, 3, NULL, results, NULL));
    return give_chosen(n, results[1]);
}
