/* Sequences, whose length is known while importing: lists of values, which nothing computes. And
 * optional values, which are there or not. */
#include "onnx/import.h"

#include "base/integer.h"
#include "graph/dim.h"

#include <mica/ops.h>

#include <string.h>

enum { MAX_PIECES = 1024 };

bool mc_onnx_reads_sequences(const char *op) {
    static const char *const names[] = {
        "Identity",      "Optional",       "OptionalGetElement", "OptionalHasElement", "SequenceAt",
        "SequenceErase", "SequenceInsert", "SequenceLength",     "ConcatFromSequence", "Loop"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(op, names[i]) == 0) return true;
    return false;
}

/* ---- lists ---- */

static mica_status new_sequence(mc_onnx_node *n, size_t count, mc_onnx_sequence **sequence) {
    if (count > MAX_PIECES) return mc_onnx_refuse("sequences as long as this");
    MC_TRY(mc_onnx_take_nodes(n->import, count));
    *sequence = mc_arena_calloc(&n->import->arena, sizeof **sequence);
    mc_onnx_value *items = mc_arena_calloc(&n->import->arena, (count + 1) * sizeof *items);
    if (!*sequence || !items) return mc_fail_nomem("a sequence");
    (*sequence)->n = count;
    (*sequence)->items = items;
    return MICA_OK;
}

/* Puts a value that is kept already. */
static mica_status put(mc_onnx_node *n, mc_onnx_sequence *sequence, size_t i,
                       const mc_onnx_value *value) {
    sequence->items[i] = *value;
    sequence->items[i].form = NULL;
    sequence->items[i].charged = 0;
    MC_TRY(mc_onnx_hold(n->import, value->x));
    return mc_onnx_hold(n->import, value->last);
}

/* Keeps a value in a sequence, to the end. What it took of the bytes of known values is given back
 * where its name is last read: the sequence takes them once more. */
static mica_status put_new(mc_onnx_node *n, mc_onnx_sequence *sequence, size_t i,
                           const mc_onnx_value *value) {
    if (value->known) MC_TRY(mc_onnx_charge(n->import, mica_array_bytes(value->x)));
    return put(n, sequence, i, value);
}

static mica_status give(mc_onnx_node *n, const mc_onnx_sequence *sequence) {
    n->out[0] = (mc_onnx_value){.sequence = sequence};
    return MICA_OK;
}

static mica_status read_sequence(const mc_onnx_node *n, const mc_onnx_sequence **sequence) {
    *sequence = n->in[0].sequence;
    return *sequence ? MICA_OK : mc_fail(MICA_EFORMAT, "its operand is no sequence");
}

/* A place from 0 on, `otherwise` where there is none. errors  MICA_EFORMAT it is not below end */
static mica_status read_place(const mc_onnx_node *n, size_t operand, size_t length, size_t end,
                              size_t otherwise, size_t *place) {
    int64_t at;
    int count;
    MC_TRY(mc_onnx_operand_ints(n, operand, 1, &at, &count));
    *place = otherwise;
    if (count != 1 && otherwise < end) return MICA_OK;
    if (count == 1 && at < 0) at += (int64_t)length;
    if (count != 1 || at < 0 || (size_t)at >= end)
        return mc_fail(MICA_EFORMAT, "a sequence of %zu has no such place", length);
    *place = (size_t)at;
    return MICA_OK;
}

mica_status mc_onnx_sequence_construct(mc_onnx_node *n) {
    mc_onnx_sequence *made;
    MC_TRY(new_sequence(n, n->n_in, &made));
    for (size_t i = 0; i < n->n_in; i++)
        MC_TRY(put_new(n, made, i, &n->in[i]));
    return give(n, made);
}

mica_status mc_onnx_sequence_insert(mc_onnx_node *n) {
    const mc_onnx_sequence *old;
    mc_onnx_sequence *made;
    size_t at;
    MC_TRY(read_sequence(n, &old));
    if (n->in[1].sequence) return mc_onnx_refuse("sequences of sequences");
    MC_TRY(read_place(n, 2, old->n, old->n + 1, old->n, &at));
    MC_TRY(new_sequence(n, old->n + 1, &made));
    for (size_t i = 0; i < old->n; i++)
        MC_TRY(put(n, made, i < at ? i : i + 1, &old->items[i]));
    MC_TRY(put_new(n, made, at, &n->in[1]));
    return give(n, made);
}

mica_status mc_onnx_sequence_erase(mc_onnx_node *n) {
    const mc_onnx_sequence *old;
    mc_onnx_sequence *made;
    size_t at;
    MC_TRY(read_sequence(n, &old));
    MC_TRY(read_place(n, 1, old->n, old->n, old->n - 1, &at));
    MC_TRY(new_sequence(n, old->n - 1, &made));
    for (size_t i = 0; i < made->n; i++)
        MC_TRY(put(n, made, i, &old->items[i >= at ? i + 1 : i]));
    return give(n, made);
}

mica_status mc_onnx_sequence_at(mc_onnx_node *n) {
    const mc_onnx_sequence *sequence;
    size_t at;
    MC_TRY(read_sequence(n, &sequence));
    MC_TRY(read_place(n, 1, sequence->n, sequence->n, SIZE_MAX, &at));
    n->out[0] = sequence->items[at];
    return MICA_OK;
}

mica_status mc_onnx_sequence_length(mc_onnx_node *n) {
    const mc_onnx_sequence *sequence;
    MC_TRY(read_sequence(n, &sequence));
    int64_t length = (int64_t)sequence->n;
    return mc_onnx_constant(n->import, &length, MICA_I64, NULL, 0, &n->out[0]);
}

/* ---- pieces ---- */

/* How long pieces of an axis are: of one element, of a number of them, or as listed. */
static mica_status read_lengths(mc_onnx_node *n, int64_t length, int64_t *lengths, int *count) {
    int64_t each = 1, sum = 0;
    MC_TRY(mc_onnx_operand_ints(n, 1, MAX_PIECES, lengths, count));
    if (*count >= 0 && mica_array_ndim(n->in[1].x) > 0) {
        for (int i = 0; i < *count; i++) {
            if (lengths[i] < 0 || lengths[i] > length - sum)
                return mc_fail(MICA_ESHAPE, "its pieces are longer than its axis");
            sum += lengths[i];
        }
        return sum == length ? MICA_OK : mc_fail(MICA_ESHAPE, "its pieces do not fit its axis");
    }
    if (*count == 1) each = lengths[0];
    if (each < 1) return mc_fail(MICA_EFORMAT, "its pieces have no elements");
    if (length / each >= MAX_PIECES) return mc_onnx_refuse("sequences as long as this");
    *count = 0;
    for (int64_t at = 0; at < length; at += each)
        lengths[(*count)++] = mc_min(each, length - at);
    return MICA_OK;
}

mica_status mc_onnx_split_to_sequence(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int64_t lengths[MAX_PIECES], at = 0;
    int axis, count;
    mc_onnx_sequence *made;
    MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(x), &axis));
    MC_TRY(
        mc_onnx_need_number(n->import, "an axis that becomes a sequence", mica_array_dim(x, axis)));
    MC_TRY(read_lengths(n, mica_array_dim(x, axis), lengths, &count));
    MC_TRY(new_sequence(n, (size_t)count, &made));
    bool squeezed = !mc_onnx_has(n, 1) && mc_onnx_int(n, "keepdims", 1) == 0;
    for (int i = 0; i < count; i++) {
        mica_array piece = mica_slice_axis(n->s, x, axis, at, at + lengths[i]);
        if (squeezed) piece = mica_squeeze(n->s, piece, axis);
        MC_TRY(put(n, made, (size_t)i, &(mc_onnx_value){.x = piece}));
        at += lengths[i];
    }
    return give(n, made);
}

mica_status mc_onnx_concat_from_sequence(mc_onnx_node *n) {
    const mc_onnx_sequence *sequence;
    mica_array xs[MAX_PIECES];
    int axis;
    bool stacked = mc_onnx_int(n, "new_axis", 0) != 0;
    MC_TRY(read_sequence(n, &sequence));
    if (sequence->n == 0) return mc_fail(MICA_EFORMAT, "its sequence is empty");
    for (size_t i = 0; i < sequence->n; i++) {
        mc_onnx_value item = sequence->items[i];
        if (item.bound || item.small) return mc_onnx_refuse("joining such a sequence");
        MC_TRY(mc_onnx_record_lengths(n->import, n->s, &item));
        xs[i] = item.x;
    }
    MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(xs[0]) + (stacked ? 1 : 0), &axis));
    return mc_onnx_give(n, 0,
                        stacked ? mica_stack(n->s, xs, (int)sequence->n, axis)
                                : mica_concatenate(n->s, xs, (int)sequence->n, axis));
}

/* ---- optional values ---- */

mica_status mc_onnx_optional(mc_onnx_node *n) {
    if (n->n_in == 0 || (!n->in[0].x.scope && !n->in[0].lengths && !n->in[0].sequence))
        return mc_onnx_refuse("optional values that are absent");
    n->out[0] = n->in[0];
    return MICA_OK;
}

mica_status mc_onnx_optional_has_element(mc_onnx_node *n) {
    bool there = n->n_in > 0 && (n->in[0].x.scope || n->in[0].lengths || n->in[0].sequence);
    return mc_onnx_constant(n->import, &there, MICA_BOOL, NULL, 0, &n->out[0]);
}
