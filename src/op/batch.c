/* The rules by which ops compute several examples at once (mica_vmap): a row an op. */
#include "graph/batch.h"

#include <string.h>

#include "graph/attr.h"
#include "op/attention.h"
#include "op/build.h"

mica_array mc_batch_repeat(mica_scope *s, mica_array x, int64_t n) {
    int64_t shape[MICA_MAX_NDIM + 1] = {n};
    int ndim = mica_array_ndim(x);
    memcpy(shape + 1, mica_array_shape(x), (size_t)ndim * sizeof *shape);
    return mica_broadcast_to(s, x, shape, ndim + 1);
}

/* Operand k with the new axis, whether it had it or not. */
static mica_array lead(const mc_batch_node *b, int k) {
    if (!b->in[k].scope || b->batched[k]) return b->in[k];
    return mc_batch_repeat(b->s, b->in[k], b->n);
}

static mica_array record(const mc_batch_node *b, const void *attr, const mica_array *in) {
    return mc_record(b->s, b->op, attr, in, b->n_in);
}

enum { MAX_IN = 64 };

/* The op over operands that all have the new axis. */
static mica_array record_all(const mc_batch_node *b, const void *attr) {
    mica_array in[MAX_IN];
    if (b->n_in > MAX_IN) return MICA_NONE;
    for (int k = 0; k < b->n_in; k++)
        in[k] = lead(b, k);
    return record(b, attr, in);
}

/* Element by element, or along the last axis. */
static mica_array batch_all(const mc_batch_node *b) {
    return record_all(b, b->attr);
}

/* Operands `by_row` get the axis, the others must be the same for all examples. */
static mica_array batch_rows(const mc_batch_node *b, uint32_t by_row) {
    mica_array in[MAX_IN];
    if (b->n_in > MAX_IN) return MICA_NONE;
    for (int k = 0; k < b->n_in; k++) {
        bool row = by_row >> k & 1;
        if (!row && b->batched[k]) return MICA_NONE;
        in[k] = row ? lead(b, k) : b->in[k];
    }
    return record(b, b->attr, in);
}

static mica_array batch_first(const mc_batch_node *b) {
    return batch_rows(b, 1);
}

static mica_array batch_first_two(const mc_batch_node *b) {
    return batch_rows(b, 3);
}

/* The weights are of no batch themselves: axes in front of theirs would meet the new one. */
static mica_array batch_quantized(const mc_batch_node *b) {
    return mica_array_ndim(b->in[1]) == 2 ? batch_rows(b, 1) : MICA_NONE;
}

/* The offset of rope is one number, which needs no axis. */
static mica_array batch_rope(const mc_batch_node *b) {
    return mica_array_ndim(b->in[1]) == 0 ? batch_rows(b, 1) : MICA_NONE;
}

static mica_array batch_reduce(const mc_batch_node *b) {
    mc_attr_reduce attr = *(const mc_attr_reduce *)b->attr;
    attr.axes *= 2;
    return record_all(b, &attr);
}

/* Of one axis, counted from the front. */
static mica_array batch_axis(const mc_batch_node *b) {
    mc_attr_axis attr = *(const mc_attr_axis *)b->attr;
    attr.axis++;
    return record_all(b, &attr);
}

static mica_array batch_take(const mc_batch_node *b) {
    mc_attr_axis attr = *(const mc_attr_axis *)b->attr;
    if (b->batched[1]) /* rows of one array, by the indices of all examples */
        return b->batched[0] || attr.axis != 0 ? MICA_NONE : record(b, b->attr, b->in);
    attr.axis++;
    return record(b, &attr, b->in);
}

/* x [N, ...] with axes of length 1 behind the first, so that the others are the last of ndim. */
static mica_array widen(const mc_batch_node *b, mica_array x, int ndim) {
    int64_t shape[MICA_MAX_NDIM];
    int own = mica_array_ndim(x);
    if (own == ndim) return x;
    for (int k = 0; k < ndim; k++)
        shape[k] = k == 0 ? b->n : 1;
    for (int k = 1; k < own; k++)
        shape[ndim - own + k] = mica_array_dim(x, k);
    return mica_reshape(b->s, x, shape, ndim);
}

/* x, weights, lhs, rhs: of the examples, x where it has no indices, and indices. */
static mica_array batch_picked(const mc_batch_node *b) {
    int lhs = b->op == MC_OP_GATHER_MM ? 2 : 4, ndim = b->result->ndim + 1;
    mica_array in[6];
    memcpy(in, b->in, (size_t)b->n_in * sizeof *in);
    for (int k = 0; k < lhs; k++)
        if (b->batched[k] && (k > 0 || in[lhs].scope)) return MICA_NONE;
    if (b->batched[0]) in[0] = widen(b, in[0], ndim);
    for (int k = lhs; k < b->n_in; k++)
        if (b->batched[k]) in[k] = widen(b, in[k], ndim - 2);
    return record(b, b->attr, in);
}

/* Batch axes broadcast; those of one w stay as they are. */
static mica_array batch_matmul(const mc_batch_node *b) {
    mica_array in[2];
    for (int k = 0; k < 2; k++)
        in[k] = b->batched[k] ? widen(b, b->in[k], b->result->ndim + 1) : b->in[k];
    return record(b, b->attr, in);
}

static mica_array batch_shape(const mc_batch_node *b) {
    mc_attr_shape attr = *(const mc_attr_shape *)b->attr, more = {.ndim = attr.ndim + 1};
    more.shape[0] = b->n;
    memcpy(more.shape + 1, attr.shape, (size_t)attr.ndim * sizeof *attr.shape);
    mica_array x = b->in[0];
    if (b->op == MC_OP_BROADCAST_TO) x = widen(b, x, (int)more.ndim);
    return record(b, &more, &x);
}

static mica_array batch_transpose(const mc_batch_node *b) {
    mc_attr_transpose attr = *(const mc_attr_transpose *)b->attr, more = {0};
    for (int k = 0; k < b->result->ndim; k++)
        more.axes[k + 1] = attr.axes[k] + 1;
    return record(b, &more, b->in);
}

/* Of the operand of which a part is read or written: the part is that of all examples. */
static mica_array batch_slice(const mc_batch_node *b) {
    const mc_attr_slice *attr = b->attr;
    mc_attr_slice more = {.step = {1}, .count = {b->n}};
    size_t bytes = (size_t)mica_array_ndim(b->in[0]) * sizeof *attr->start;
    if (b->batched[0]) bytes -= sizeof *attr->start;
    memcpy(more.start + 1, attr->start, bytes);
    memcpy(more.step + 1, attr->step, bytes);
    memcpy(more.count + 1, attr->count, bytes);
    return record_all(b, &more);
}

/* ---- by several indices ---- */

/* The number of each example, [N, 1, ..] like indices of all of them: where the example stands. */
static mica_array numbers(const mc_batch_node *b, mica_array like) {
    int64_t shape[MICA_MAX_NDIM] = {b->n};
    for (int k = 1; k < mica_array_ndim(like); k++)
        shape[k] = 1;
    mica_array n = mica_arange(b->s, 0, (double)b->n, 1, mica_array_dtype(like));
    n = mica_reshape(b->s, n, shape, mica_array_ndim(like));
    return mica_broadcast_to(b->s, n, mica_array_shape(like), mica_array_ndim(like));
}

/* Sets in[] to x and, from `first` on, the indices, all with the new axis, and behind them those of
 * that axis; axes [n + 1]. Returns the number of operands; 0: there is no room. */
static int index_examples(const mc_batch_node *b, int first, const int64_t *old, int64_t *axes,
                          mica_array *in) {
    int n = b->n_in - first;
    if (n == MICA_MAX_NDIM || mica_array_ndim(b->in[first]) >= MICA_MAX_NDIM) return 0;
    for (int k = 0; k < b->n_in; k++)
        in[k] = lead(b, k);
    for (int k = 0; k < n; k++)
        axes[k] = old[k] + 1;
    if (!mica_valid(in[first])) return 0;
    in[b->n_in] = numbers(b, in[first]);
    axes[n] = 0;
    return b->n_in + 1;
}

static mica_array batch_gather(const mc_batch_node *b) {
    const mc_attr_gather *attr = b->attr;
    mc_attr_gather more = {.n = attr->n + 1, .slice_sizes = {1}};
    mica_array in[2 + MICA_MAX_NDIM];
    int ndim = b->batched[0] ? mica_array_ndim(b->in[0]) - 1 : mica_array_ndim(b->in[0]);
    int n_in = index_examples(b, 1, attr->axes, more.axes, in);
    if (n_in == 0 || b->result->ndim + 2 > MICA_MAX_NDIM) return MICA_NONE;
    memcpy(more.slice_sizes + 1, attr->slice_sizes, (size_t)ndim * sizeof *attr->slice_sizes);
    mica_array y = mc_record(b->s, b->op, &more, in, n_in);
    return mica_squeeze(b->s, y, b->result->ndim - ndim + 1); /* of the slices, of one example */
}

static mica_array batch_scatter(const mc_batch_node *b) {
    const mc_attr_scatter *attr = b->attr;
    mc_attr_scatter more = {.n = attr->n + 1, .mode = attr->mode};
    mica_array in[3 + MICA_MAX_NDIM];
    int n_in = index_examples(b, 2, attr->axes, more.axes, in);
    if (n_in == 0 || mica_array_ndim(in[1]) == MICA_MAX_NDIM) return MICA_NONE;
    in[1] = mica_expand_dims(b->s, in[1], mica_array_ndim(in[2]));
    return mc_record(b->s, b->op, &more, in, n_in);
}

/* ---- attention ---- */

/* x [N, B, ..] as [N B, ..] */
static mica_array fold(const mc_batch_node *b, mica_array x) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(x) - 1;
    if (ndim < 1) return MICA_NONE;
    for (int k = 0; k < ndim; k++)
        shape[k] = k == 0 ? mc_dim_mul(b->n, mica_array_dim(x, 1)) : mica_array_dim(x, k + 1);
    return mica_reshape(b->s, x, shape, ndim);
}

static mica_array unfold(const mc_batch_node *b, mica_array x) {
    int64_t shape[MICA_MAX_NDIM + 1] = {b->n};
    int ndim = mica_array_ndim(x);
    for (int k = 0; k < ndim; k++)
        shape[k + 1] =
            k == 0 && b->n > 0 ? mc_dim_div(mica_array_dim(x, 0), b->n) : mica_array_dim(x, k);
    return mica_reshape(b->s, x, shape, ndim + 1);
}

/* Examples are rows of the batch. Mask, offset and sinks must be the same for all rows. */
static mica_array batch_attention(const mc_batch_node *b) {
    mica_array in[MC_SDPA_OPERANDS], mask = b->in[MC_SDPA_MASK], offset = b->in[MC_SDPA_OFFSET];
    if (b->n == 0) return MICA_NONE; /* how many rows an example has would be lost */
    if (mask.scope && mica_array_ndim(mask) > 3 && mica_array_dim(mask, 0) != 1) return MICA_NONE;
    if (offset.scope && mica_array_ndim(offset) > 0) return MICA_NONE;
    for (int k = 0; k < b->n_in; k++) {
        bool row = k < MC_SDPA_MASK || k > MC_SDPA_SINKS;
        if (!row && b->batched[k]) return MICA_NONE;
        in[k] = row && b->in[k].scope ? fold(b, lead(b, k)) : b->in[k];
    }
    mica_array y = record(b, b->attr, in);
    if (!mica_valid(y) || !b->parts) return mica_valid(y) ? unfold(b, y) : y;
    for (int k = 0; k < mc_op_n_out(mc_op_get(b->op)); k++)
        b->parts[k] = unfold(b, mc_record_part(b->s, y, k));
    return y;
}

mc_batch_rule mc_op_batch_rule(mc_op op) {
    static const mc_batch_rule rules[MC_OP_COUNT] = {
#define ROW(op, rule) [MC_OP_##op] = batch_##rule,
#include "op/batch_list.h"
    };
    return rules[op];
}
