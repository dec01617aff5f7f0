/* The rules by which ops compute several examples at once (mica_vmap): a row an op. */
#include "graph/batch.h"

#include <string.h>

#include "graph/attr.h"
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

mc_batch_rule mc_op_batch_rule(mc_op op) {
    static const mc_batch_rule rules[MC_OP_COUNT] = {
#define ROW(op, rule) [MC_OP_##op] = batch_##rule,
#include "op/batch_list.h"
    };
    return rules[op];
}
