/* Operators of shapes: they move elements, or tell lengths. */
#include "onnx/import.h"

#include "base/integer.h"
#include "graph/dim.h"

#include <mica/ops.h>

#include <string.h>

enum { MAX_PIECES = 1024, NO_END = 1000000000 /* what stands for the end of any axis */ };

/* ---- lengths ---- */

static mica_status give_lengths(mc_onnx_node *n, const int64_t *lengths, int count, int ndim) {
    mc_onnx_lengths l = {.ndim = ndim, .count = count, .dtype = MICA_I64};
    memcpy(l.at, lengths, (size_t)count * sizeof *lengths);
    return mc_onnx_give_lengths(n, 0, &l);
}

/* The lengths [ndim] of an operand, of which a run may count one. */
static mica_status get_lengths(mc_onnx_node *n, int64_t *lengths) {
    const mc_onnx_bound *b = n->in[0].bound;
    memcpy(lengths, mica_array_shape(n->in[0].x),
           (size_t)mica_array_ndim(n->in[0].x) * sizeof *lengths);
    if (!b) return MICA_OK;
    return mc_onnx_count_dim(n->import, b->count, lengths[b->axis], &lengths[b->axis]);
}

mica_status mc_onnx_shape(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int ndim = mica_array_ndim(x);
    int64_t start = mc_onnx_int(n, "start", 0), end = mc_onnx_int(n, "end", ndim);
    if (start < 0) start = mc_max(start + ndim, 0);
    if (end < 0) end = mc_max(end + ndim, 0);
    start = mc_min(start, ndim);
    end = mc_min(end, ndim);
    int64_t lengths[MICA_MAX_NDIM + 1];
    MC_TRY(get_lengths(n, lengths));
    if (end <= start) return give_lengths(n, lengths, 0, 1);
    return give_lengths(n, lengths + start, (int)(end - start), 1);
}

mica_status mc_onnx_size(mc_onnx_node *n) {
    int64_t size = mica_array_size(n->in[0].x);
    return give_lengths(n, &size, 1, 0);
}

/* ---- other shapes ---- */

mica_status mc_onnx_identity(mc_onnx_node *n) {
    n->out[0] = n->in[0];
    return MICA_OK;
}

mica_status mc_onnx_reshape(mc_onnx_node *n) {
    int64_t shape[MICA_MAX_NDIM];
    int count, axis;
    mica_array x = n->in[0].x, counted;
    MC_TRY(mc_onnx_operand_shape(n, 1, shape, &count, &axis, &counted));
    if (axis >= 0 && !n->in[0].bound)
        return mc_onnx_refuse("a shape that depends on values of an operand that does not");
    for (int i = 0; i < count && !mc_onnx_int(n, "allowzero", 0); i++)
        if (shape[i] == 0) shape[i] = mica_array_dim(x, i);
    return mc_onnx_give(n, 0, mica_reshape(n->s, x, shape, count));
}

mica_status mc_onnx_flatten(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int ndim = mica_array_ndim(x);
    int64_t axis = mc_onnx_int(n, "axis", 1), shape[] = {1, 1};
    if (axis < 0) axis += ndim;
    if (axis < 0 || axis > ndim) return mc_fail(MICA_EFORMAT, "there is no such axis");
    for (int k = 0; k < ndim; k++)
        if (!mc_dim_mul_to(&shape[k >= axis], mica_array_dim(x, k)))
            return mc_fail(MICA_ESHAPE, "its shape is out of range");
    return mc_onnx_give(n, 0, mica_reshape(n->s, x, shape, 2));
}

mica_status mc_onnx_squeeze(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int axes[MICA_MAX_NDIM], count, ndim = mica_array_ndim(x), out = 0;
    int64_t shape[MICA_MAX_NDIM];
    char text[MC_DIM_TEXT];
    MC_TRY(mc_onnx_axes(n, 1, ndim, axes, &count));
    for (int k = 0; k < ndim; k++) {
        bool drop = count < 0 && mica_array_dim(x, k) == 1;
        for (int i = 0; i < count; i++)
            drop = drop || axes[i] == k;
        if (drop && !mc_dim_may_equal(mica_array_dim(x, k), 1))
            return mc_fail(MICA_ESHAPE, "axis %d has %s elements, where there must be one", k,
                           mc_dim_text(mica_array_dim(x, k), text));
        if (!drop) shape[out++] = mica_array_dim(x, k);
    }
    return mc_onnx_give(n, 0, mica_reshape(n->s, x, shape, out));
}

mica_status mc_onnx_unsqueeze(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int axes[MICA_MAX_NDIM], count, ndim = mica_array_ndim(x), at = 0;
    int64_t list[MICA_MAX_NDIM], shape[MICA_MAX_NDIM];
    MC_TRY(mc_onnx_dims_or(n, 1, "axes", MICA_MAX_NDIM, list, &count));
    if (count < 0) return mc_fail(MICA_EFORMAT, "it has no axes");
    if (ndim + count > MICA_MAX_NDIM)
        return mc_fail(MICA_EUNSUPPORTED, "its result has more than %d axes", MICA_MAX_NDIM);
    MC_TRY(mc_onnx_axes(n, 1, ndim + count, axes, &count));
    for (int k = 0; k < ndim + count; k++) {
        bool added = false;
        for (int i = 0; i < count; i++)
            added = added || axes[i] == k;
        if (!added && at == ndim) return mc_fail(MICA_EFORMAT, "an axis is there twice");
        shape[k] = added ? 1 : mica_array_dim(x, at++);
    }
    return mc_onnx_give(n, 0, mica_reshape(n->s, x, shape, ndim + count));
}

/* What the transpose of a known matrix was made of. */
static mica_status turn_steps(mc_onnx_node *n) {
    const mc_onnx_steps *from = n->in[0].steps;
    mica_scope *s = n->import->constants;
    if (from->q.scope != s) return MICA_OK;
    mc_onnx_steps *to = mc_arena_alloc(&n->import->arena, sizeof *to);
    if (!to) return mc_fail_nomem("a value");
    *to = *from;
    mica_array *const parts[] = {&to->q, &to->scale, &to->zero};
    for (int i = 0; i < (from->block > 0 ? 3 : 1); i++) {
        if (!parts[i]->scope || parts[i]->scope != s) continue;
        *parts[i] = mica_transpose(s, *parts[i], NULL);
        MC_TRY(mica_eval(s, *parts[i]));
        MC_TRY(mc_onnx_hold(n->import, *parts[i]));
    }
    to->last = MICA_NONE;
    if (from->axis >= 0) to->axis = 1 - from->axis;
    n->out[0].steps = to;
    return mica_scope_status(s);
}

mica_status mc_onnx_transpose(mc_onnx_node *n) {
    int64_t perm[MICA_MAX_NDIM];
    int count, axes[MICA_MAX_NDIM], ndim = mica_array_ndim(n->in[0].x);
    MC_TRY(mc_onnx_ints(n, "perm", MICA_MAX_NDIM, perm, &count));
    if (count >= 0 && count != ndim) return mc_fail(MICA_EFORMAT, "perm has %d axes", count);
    for (int i = 0; i < count; i++) {
        if (perm[i] < 0 || perm[i] >= ndim) return mc_fail(MICA_EFORMAT, "there is no such axis");
        axes[i] = (int)perm[i];
    }
    MC_TRY(mc_onnx_give(n, 0, mica_transpose(n->s, n->in[0].x, count < 0 ? NULL : axes)));
    return n->in[0].steps && ndim == 2 && (count < 0 || axes[0] == 1) ? turn_steps(n) : MICA_OK;
}

mica_status mc_onnx_expand(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int64_t want[MICA_MAX_NDIM], shape[MICA_MAX_NDIM], fit[MICA_MAX_NDIM];
    int count, axis, own = mica_array_ndim(x);
    mica_array counted;
    MC_TRY(mc_onnx_operand_shape(n, 1, want, &count, &axis, &counted));
    int ndim = count > own ? count : own;
    for (int k = 0; k < ndim; k++) {
        int64_t a = k < ndim - own ? 1 : mica_array_dim(x, k - (ndim - own));
        int64_t b = k < ndim - count ? 1 : want[k - (ndim - count)];
        shape[k] = a == 1 || (b != 1 && mc_dim_may_equal(a, b)) ? b : a;
        if (b != 1 && b != shape[k]) return mc_fail(MICA_ESHAPE, "axis %d does not broadcast", k);
        if (k >= ndim - own) fit[k - (ndim - own)] = a == 1 ? 1 : shape[k];
    }
    x = mc_onnx_fit(n->s, x, fit, own, -1);
    x = mica_broadcast_to(n->s, x, shape, ndim);
    if (axis >= 0 && !n->in[0].bound)
        return mc_onnx_give_counted(n, 0, x, axis + ndim - count, counted);
    return mc_onnx_give(n, 0, x); /* an operand's count goes on */
}

mica_status mc_onnx_tile(mc_onnx_node *n) {
    int64_t repeats[MICA_MAX_NDIM];
    int count;
    MC_TRY(mc_onnx_operand_dims(n, 1, MICA_MAX_NDIM, repeats, &count));
    return mc_onnx_give(n, 0, mica_tile(n->s, n->in[0].x, repeats, count));
}

/* ---- joining and cutting ---- */

/* Gives arrays the same lengths beside an axis: numbers where one has them. */
static void align_all(mica_scope *s, mica_array *xs, size_t n, int axis) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(xs[0]);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < ndim && k < mica_array_ndim(xs[i]); k++)
            if (i == 0 || !mc_dim_has_symbols(mica_array_dim(xs[i], k)))
                shape[k] = mica_array_dim(xs[i], k);
    for (size_t i = 0; i < n; i++)
        if (mica_array_ndim(xs[i]) == ndim) xs[i] = mc_onnx_fit(s, xs[i], shape, ndim, axis);
}

/* Where an axis lies in the form with the channels last. */
static int axis_with_channels_last(int axis, int ndim) {
    return axis == 0 ? 0 : axis == 1 ? ndim - 1 : axis - 1;
}

mica_status mc_onnx_concat(mc_onnx_node *n) {
    int axis;
    MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(n->in[0].x), &axis));
    return mc_onnx_join(n, axis);
}

mica_status mc_onnx_join(mc_onnx_node *n, int axis) {
    mica_array xs[MAX_PIECES];
    int ndim = mica_array_ndim(n->in[0].x);
    bool last = ndim >= 3;
    if (n->n_in > MAX_PIECES) return mc_onnx_refuse("so many operands");
    for (size_t i = 0; i < n->n_in; i++) {
        if (!mc_onnx_has(n, i)) return mc_fail(MICA_EFORMAT, "operand %zu is absent", i);
        last = last && n->in[i].last.scope;
    }
    for (size_t i = 0; i < n->n_in; i++)
        xs[i] = last ? n->in[i].last : n->in[i].x;
    int at = last ? axis_with_channels_last(axis, ndim) : axis;
    align_all(n->s, xs, n->n_in, at);
    if (!last) return mc_onnx_give(n, 0, mica_concatenate(n->s, xs, (int)n->n_in, axis));
    return mc_onnx_give_last(n, 0, mica_concatenate(n->s, xs, (int)n->n_in, at));
}

mica_status mc_onnx_split(mc_onnx_node *n) {
    int64_t lengths[MAX_PIECES], at[MAX_PIECES], sum = 0;
    mica_array pieces[MAX_PIECES], x = n->in[0].x;
    int axis, count, n_out = (int)n->n_out;
    char text[2][MC_DIM_TEXT];
    if (n->n_out > MAX_PIECES) return mc_onnx_refuse("so many results");
    MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(x), &axis));
    MC_TRY(mc_onnx_dims_or(n, 1, "split", MAX_PIECES, lengths, &count));
    int64_t length = mica_array_dim(x, axis), each = mc_dim_div_up(length, n_out);
    for (int i = 0; count < 0 && i < n_out; i++) {
        int64_t left = mc_dim_sub(length, mc_dim_mul(each, i));
        lengths[i] = mc_dim_at_least(mc_dim_at_most(each, left), 0);
    }
    if (count >= 0 && count != n_out) return mc_fail(MICA_EFORMAT, "it is split in %d", count);
    for (int i = 0; i < n_out; i++) {
        if (mc_dim_sign(lengths[i]) < 0 || mc_dim_less(mc_dim_sub(length, sum), lengths[i]))
            return mc_fail(MICA_ESHAPE, "the pieces are longer than the axis");
        sum = mc_dim_add(sum, lengths[i]);
        at[i] = sum;
    }
    if (sum != length && !mc_dim_may_equal(sum, length))
        return mc_fail(MICA_ESHAPE, "its pieces have %s elements, the axis %s",
                       mc_dim_text(sum, text[0]), mc_dim_text(length, text[1]));
    bool last = n->in[0].last.scope && mica_array_ndim(x) >= 3;
    if (last) axis = axis_with_channels_last(axis, mica_array_ndim(x));
    MC_TRY(mica_split(n->s, last ? n->in[0].last : x, at, n_out - 1, axis, pieces));
    for (size_t i = 0; i < n->n_out; i++)
        MC_TRY(last ? mc_onnx_give_last(n, i, pieces[i]) : mc_onnx_give(n, i, pieces[i]));
    return MICA_OK;
}

/* Whether a number is 0 or more where no symbol is 0, so far as its form tells. */
static bool is_no_less_than_0(int64_t d) {
    mc_dim_parts p;
    int64_t least = 0;
    if (!mc_dim_has_symbols(d)) return d >= 0;
    mc_dim_get(d, &p);
    if (p.kind == MC_DIM_SYMBOL) return true;
    if (p.kind == MC_DIM_QUOTIENT) return is_no_less_than_0(p.over);
    if (p.kind == MC_DIM_COMPUTED && p.op == MC_DIM_MAX)
        return is_no_less_than_0(p.over) || is_no_less_than_0(p.under);
    if (p.kind == MC_DIM_COMPUTED && p.op == MC_DIM_MIN)
        return is_no_less_than_0(p.over) && is_no_less_than_0(p.under);
    for (int64_t i = 0; p.kind == MC_DIM_SUM && i < p.n; i++) {
        const mc_dim_term *t = &p.terms[i];
        bool symbols = true;
        for (int64_t k = 0; k < t->degree; k++) {
            if (t->factor < 0 || !is_no_less_than_0(t->atoms[k])) return false;
            symbols = symbols && mc_dim_is_symbol(t->atoms[k]);
        }
        if (symbols) least += t->factor;
    }
    return p.kind == MC_DIM_SUM && least >= 0;
}

/* Whether a place of a run counts from the beginning: also where small symbols make it less than 0,
 * so that what goes on with lengths of images stays a short expression. */
static bool is_ahead(int64_t place) {
    return mc_dim_sign(place) > 0 || is_no_less_than_0(place);
}

static int64_t most(int64_t a, int64_t b) {
    return mc_dim_compute(MC_DIM_MAX, a, b);
}

/* A place of an axis, of a run: below 0 it counts from the end; between lo and hi. */
static int64_t place_of_run(int64_t place, int64_t length, int64_t lo, int64_t hi) {
    bool number = !mc_dim_has_symbols(place);
    if (number && place >= NO_END) return hi;
    if (number && place <= -NO_END) return lo;
    if (!is_ahead(place)) {
        int64_t back = number ? 1 : mc_dim_compute(MC_DIM_MIN, mc_dim_sub(0, place), 1);
        if (!number) back = most(back, 0);
        place = mc_dim_add(place, mc_dim_mul(back, length));
    }
    return most(mc_dim_compute(MC_DIM_MIN, place, hi), lo);
}

/* The range start:stop:step of an axis where a run may have an end below 0: with expressions that
 * hold for all lengths. *flips: it is read backwards, and the range is that of a step above 0. */
static void cut_in_run(int64_t length, int64_t *start, int64_t *stop, int64_t *step, bool *flips) {
    *flips = *step < 0;
    int64_t by = *flips ? -*step : *step, lo = *flips ? -1 : 0;
    int64_t hi = *flips ? mc_dim_sub(length, 1) : length;
    int64_t end =
        *stop == MICA_END_OF_AXIS ? (*flips ? -1 : length) : place_of_run(*stop, length, lo, hi);
    *start = place_of_run(*start, length, 0, hi);
    if (*flips) *start = mc_dim_compute(MC_DIM_MIN, *start, hi); /* -1 where there is nothing */
    int64_t span = *flips ? mc_dim_sub(*start, end) : mc_dim_sub(end, *start);
    if (!is_no_less_than_0(span)) span = most(span, 0);
    *step = by;
    if (*flips) {
        int64_t count = mc_dim_div_up(span, by);
        span = mc_dim_mul(count, by);
        *start = most(mc_dim_add(mc_dim_sub(*start, span), by), 0);
    }
    *stop = mc_dim_add(*start, span);
}

/* Whether a place depends on a run, and may be below 0. */
static bool may_be_back(int64_t place) {
    return place != MICA_END_OF_AXIS && mc_dim_has_symbols(place) && !is_ahead(place);
}

/* Whether a slice goes backwards from a number of places before the end, of which a run may have
 * fewer: it begins at the first one then. */
static bool may_begin_before(int64_t length, int64_t start, int64_t step) {
    return step < 0 && mc_dim_has_symbols(length) && !mc_dim_has_symbols(start) && start < -1;
}

/* Whether a range whose beginning or end a run computes may end before it begins, or begin behind
 * the axis: so far as the forms of the two tell. */
static bool may_be_empty(int64_t length, int64_t start, int64_t stop, int64_t step) {
    bool computed = mc_dim_has_symbols(start) || mc_dim_has_symbols(stop);
    if (!computed || stop == -NO_END || start == 0) return false;
    if (step < 0) return true;
    if (!mc_dim_has_symbols(start) && start < 0) start = mc_dim_add(length, start);
    if (stop == MICA_END_OF_AXIS || (!mc_dim_has_symbols(stop) && stop >= NO_END)) stop = length;
    if (!mc_dim_has_symbols(stop) && stop < 0) stop = mc_dim_add(length, stop);
    return !is_no_less_than_0(mc_dim_sub(stop, start));
}

/* A range of an axis of `length` elements, as ONNX has it, as mica_slice does. */
static void cut(int64_t length, int64_t *start, int64_t *stop, int64_t *step) {
    int64_t lo = *step > 0 ? 0 : -1, hi = *step > 0 ? length : length - 1;
    if (mc_dim_has_symbols(length) && !mc_dim_has_symbols(*stop) && *stop >= NO_END)
        *stop = MICA_END_OF_AXIS;
    if (*step > 0 && *stop != MICA_END_OF_AXIS && mc_dim_sign(*stop) > 0 &&
        mc_dim_is_computed(length) && /* which it may lie behind */
        !is_ahead(mc_dim_sub(length, *stop)))
        *stop = mc_dim_compute(MC_DIM_MIN, *stop, length);
    if (mc_dim_has_symbols(length) || mc_dim_has_symbols(*start) || mc_dim_has_symbols(*stop))
        return; /* mica_slice does it */
    if (length == 0) {
        *start = *stop = 0;
        *step = 1;
        return;
    }
    if (*start < 0) *start = *start < -length ? lo : *start + length;
    if (*stop < 0) *stop = *stop < -length ? lo : *stop + length;
    *start = mc_max(0, mc_min(*start, hi)); /* to the axis, also where it is read backwards */
    *stop = mc_max(lo, mc_min(*stop, hi));
    if (*step < 0 && *stop < 0) *stop = MICA_END_OF_AXIS;
}

/* The ranges of the first operand, whose axes `flips` are read backwards. */
static mica_status give_slice(mc_onnx_node *n, const int64_t *start, const int64_t *stop,
                              const int64_t *step, const bool *flips) {
    int64_t ranges[3][MICA_MAX_NDIM];
    int ndim = mica_array_ndim(n->in[0].x);
    bool last = n->in[0].last.scope && ndim >= 3;
    mica_array x = last ? n->in[0].last : n->in[0].x;
    for (int k = 0; k < ndim; k++) {
        int at = last ? axis_with_channels_last(k, ndim) : k;
        ranges[0][at] = start[k];
        ranges[1][at] = stop[k];
        ranges[2][at] = step[k];
    }
    x = mica_slice(n->s, x, ranges[0], ranges[1], ranges[2]);
    for (int k = 0; k < ndim; k++)
        if (flips[k]) x = mica_flip(n->s, x, last ? axis_with_channels_last(k, ndim) : k);
    return last ? mc_onnx_give_last(n, 0, x) : mc_onnx_give(n, 0, x);
}

mica_status mc_onnx_slice(mc_onnx_node *n) {
    int64_t starts[MICA_MAX_NDIM], ends[MICA_MAX_NDIM], steps[MICA_MAX_NDIM];
    int64_t start[MICA_MAX_NDIM], stop[MICA_MAX_NDIM], step[MICA_MAX_NDIM];
    int axes[MICA_MAX_NDIM], n_starts, n_ends, n_axes, n_steps;
    bool flips[MICA_MAX_NDIM] = {false};
    mica_array x = n->in[0].x;
    int ndim = mica_array_ndim(x);
    MC_TRY(mc_onnx_dims_or(n, 1, "starts", MICA_MAX_NDIM, starts, &n_starts));
    MC_TRY(mc_onnx_slice_ends(n, ends, &n_ends));
    MC_TRY(mc_onnx_axes(n, 3, ndim, axes, &n_axes));
    MC_TRY(mc_onnx_operand_ints(n, 4, MICA_MAX_NDIM, steps, &n_steps));
    if (n_starts < 0 || n_starts != n_ends || (n_axes >= 0 && n_axes != n_starts) ||
        (n_steps >= 0 && n_steps != n_starts) || n_starts > ndim)
        return mc_fail(MICA_EFORMAT, "starts, ends, axes and steps have different lengths");
    for (int k = 0; k < ndim; k++) {
        start[k] = 0;
        stop[k] = MICA_END_OF_AXIS;
        step[k] = 1;
    }
    for (int i = 0; i < n_starts; i++) {
        int k = n_axes < 0 ? i : axes[i];
        start[k] = starts[i];
        stop[k] = ends[i];
        step[k] = n_steps < 0 ? 1 : steps[i];
        if (step[k] == 0) return mc_fail(MICA_EFORMAT, "a step is 0");
        step[k] = mc_max(step[k], -INT32_MAX);
        bool counted = n->in[0].bound && n->in[0].bound->axis == k;
        if (counted && stop[k] > 0 && stop[k] < NO_END) /* there may be fewer */
            stop[k] = mc_dim_compute(MC_DIM_MIN, stop[k], mica_array_dim(x, k));
        int64_t length = mica_array_dim(x, k);
        if (may_be_back(start[k]) || may_be_back(stop[k]) ||
            may_begin_before(length, start[k], step[k]) ||
            may_be_empty(length, start[k], stop[k], step[k]))
            cut_in_run(length, &start[k], &stop[k], &step[k], &flips[k]);
        else
            cut(length, &start[k], &stop[k], &step[k]);
    }
    return give_slice(n, start, stop, step, flips);
}

/* ---- padding ---- */

/* Where element i of a padded axis comes from, by the mode. */
static int64_t source_of(int64_t i, int64_t length, char mode) {
    if (mode == 'w') return ((i % length) + length) % length;
    if (length == 1) return 0;
    int64_t period = 2 * (length - 1), at = ((i % period) + period) % period;
    return at < length ? at : period - at;
}

/* Elements [begin, end) of a padded axis, counted from the first one of x, as pieces of x: runs of
 * elements that lie one behind the other, forwards or backwards. */
static void add_runs(mc_onnx_node *n, mica_array x, int axis, int64_t begin, int64_t end, char mode,
                     mica_array *pieces, int *count) {
    int64_t length = mica_array_dim(x, axis), run;
    for (; begin < end; begin += run) {
        int64_t from = source_of(begin, length, mode), step = 1;
        if (begin + 1 < end) step = source_of(begin + 1, length, mode) - from;
        if (step != 1 && step != -1) step = 0;
        for (run = 1; begin + run < end && step != 0; run++)
            if (source_of(begin + run, length, mode) != from + step * run) break;
        int64_t lo = step < 0 ? from - run + 1 : from;
        mica_array piece = mica_slice_axis(n->s, x, axis, lo, lo + run);
        pieces[(*count)++] = step < 0 ? mica_flip(n->s, piece, axis) : piece;
    }
}

/* The same where the axis' length has symbols, which is taken as longer than the pads: x between
 * its own ends, which reflecting reverses and leaves out the last element of. */
static void add_edges(mc_onnx_node *n, mica_array x, int axis, int64_t before, int64_t after,
                      bool reflect, mica_array *pieces, int *count) {
    int64_t length = mica_array_dim(x, axis), skip = reflect ? 1 : 0;
    mica_array head =
        mica_slice_axis(n->s, x, axis, skip, mc_dim_add(skip, reflect ? before : after));
    int64_t end = mc_dim_sub(length, skip);
    mica_array tail =
        mica_slice_axis(n->s, x, axis, mc_dim_sub(end, reflect ? after : before), end);
    mica_array first = reflect ? mica_flip(n->s, head, axis) : tail;
    mica_array last = reflect ? mica_flip(n->s, tail, axis) : head;
    if (before > 0) pieces[(*count)++] = first;
    pieces[(*count)++] = x;
    if (after > 0) pieces[(*count)++] = last;
}

/* x with an axis of elements of it, repeated by a mode. */
static mica_status repeat_axis(mc_onnx_node *n, int axis, int64_t before, int64_t after, char mode,
                               mica_array *x) {
    mica_array pieces[2 * MAX_PIECES + 1];
    int64_t length = mica_array_dim(*x, axis);
    int count = 0;
    if (before + after > 2 * MAX_PIECES) return mc_onnx_refuse("pads as long as this");
    if (mc_dim_has_symbols(length)) {
        add_edges(n, *x, axis, before, after, mode == 'r', pieces, &count);
    } else {
        add_runs(n, *x, axis, -before, 0, mode, pieces, &count);
        pieces[count++] = *x;
        add_runs(n, *x, axis, length, length + after, mode, pieces, &count);
    }
    *x = mica_concatenate(n->s, pieces, count, axis);
    return mica_scope_status(n->s);
}

/* x with an axis padded by lengths of a run: elements by index, i modulo the length, or, reflected,
 * as far from the nearest multiple of twice the length less one. */
static mica_array take_padded(mc_onnx_node *n, mica_array x, int axis, int64_t before,
                              int64_t after, char mode) {
    mica_scope *s = n->s;
    int64_t length = mica_array_dim(x, axis);
    int64_t all = mc_dim_add(length, mc_dim_add(before, after));
    mica_array one = mica_scalar(s, 1, MICA_I64);
    mica_array own = mica_astype(s, mc_onnx_record_dim(n->import, s, length), MICA_I64);
    mica_array at = mica_arange(s, 0, (double)all, 1, MICA_I64);
    at = mica_subtract(s, at, mica_astype(s, mc_onnx_record_dim(n->import, s, before), MICA_I64));
    if (mode == 'w') return mica_take(s, x, mica_remainder(s, at, own), axis);
    mica_array last = mica_subtract(s, own, one);
    mica_array period = mica_maximum(s, mica_add(s, last, last), one);
    at = mica_remainder(s, at, period);
    return mica_take(s, x, mica_minimum(s, at, mica_subtract(s, period, at)), axis);
}

static mica_status read_pads(mc_onnx_node *n, int64_t before[MICA_MAX_NDIM],
                             int64_t after[MICA_MAX_NDIM]) {
    int64_t pads[2 * MICA_MAX_NDIM];
    int count, n_axes, axes[MICA_MAX_NDIM], ndim = mica_array_ndim(n->in[0].x);
    MC_TRY(mc_onnx_dims_or(n, 1, "pads", 2 * MICA_MAX_NDIM, pads, &count));
    MC_TRY(mc_onnx_axes(n, 3, ndim, axes, &n_axes));
    int listed = n_axes < 0 ? ndim : n_axes;
    if (count != 2 * listed) return mc_fail(MICA_EFORMAT, "it has %d pads", count);
    for (int k = 0; k < ndim; k++)
        before[k] = after[k] = 0;
    for (int i = 0; i < listed; i++) {
        int k = n_axes < 0 ? i : axes[i];
        before[k] = pads[i];
        after[k] = pads[listed + i];
        if (mc_dim_less(INT32_MAX, before[k]) || mc_dim_less(INT32_MAX, after[k]) ||
            before[k] < -INT32_MAX || after[k] < -INT32_MAX)
            return mc_fail(MICA_EFORMAT, "a pad is out of range");
    }
    return MICA_OK;
}

/* Leaves out as many elements at both ends of an axis as pads are below 0. */
static mica_status crop(mc_onnx_node *n, int axis, int64_t before, int64_t after, mica_array *x) {
    int64_t length = mica_array_dim(*x, axis), lo = 0, hi = length;
    if (!is_no_less_than_0(before)) lo = most(mc_dim_sub(0, before), 0);
    if (!is_no_less_than_0(after)) hi = mc_dim_add(hi, mc_dim_compute(MC_DIM_MIN, after, 0));
    if (mc_dim_less(hi, lo)) return mc_fail(MICA_ESHAPE, "a pad leaves out more than there is");
    if (!is_no_less_than_0(mc_dim_sub(hi, lo))) { /* nothing is left, in some runs */
        lo = mc_dim_compute(MC_DIM_MIN, lo, length);
        hi = most(hi, lo);
    }
    if (lo != 0 || hi != length) *x = mica_slice_axis(n->s, *x, axis, lo, hi);
    return MICA_OK;
}

static int64_t no_less_than_0(int64_t pad) {
    return is_no_less_than_0(pad) ? pad : most(pad, 0);
}

mica_status mc_onnx_pad(mc_onnx_node *n) {
    int64_t before[MICA_MAX_NDIM], after[MICA_MAX_NDIM];
    int64_t cut_before[MICA_MAX_NDIM], cut_after[MICA_MAX_NDIM];
    mica_array x = n->in[0].x, value = mc_onnx_x(n, 2);
    mc_str mode = mc_onnx_text(n, "mode", "constant");
    MC_TRY(read_pads(n, before, after));
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(x);
    bool constant = mc_str_is(mode, "constant");
    for (int k = 0; k < ndim; k++) { /* negative ones leave elements out, also added ones */
        shape[k] = mc_dim_add(mica_array_dim(x, k), mc_dim_add(before[k], after[k]));
        cut_before[k] = before[k];
        cut_after[k] = after[k];
        if (!constant) MC_TRY(crop(n, k, before[k], after[k], &x));
        before[k] = no_less_than_0(before[k]);
        after[k] = no_less_than_0(after[k]);
    }
    if (!value.scope) /* an attribute before opset 11 */
        value = mica_scalar(n->s, mc_onnx_real(n, "value", 0), mica_array_dtype(x));
    if (mica_array_ndim(value) > 0) value = mica_reshape(n->s, value, NULL, 0);
    if (constant) {
        x = mica_pad(n->s, x, before, after, value);
        for (int k = 0; k < ndim; k++)
            MC_TRY(crop(n, k, cut_before[k], cut_after[k], &x));
        return mc_onnx_give(n, 0, mc_onnx_fit(n->s, x, shape, ndim, -1));
    }
    if (!mc_str_is(mode, "edge") && !mc_str_is(mode, "reflect") && !mc_str_is(mode, "wrap"))
        return mc_onnx_refuse("this mode");
    for (int k = 0; k < mica_array_ndim(x); k++)
        if (before[k] + after[k] > 0 && mica_array_dim(x, k) == 0)
            return mc_fail(MICA_ESHAPE, "an axis is empty");
    if (mc_str_is(mode, "edge")) return mc_onnx_give(n, 0, mica_pad_edge(n->s, x, before, after));
    for (int k = 0; k < mica_array_ndim(x); k++) {
        if (before[k] == 0 && after[k] == 0) continue;
        if (mc_dim_has_symbols(before[k]) || mc_dim_has_symbols(after[k]))
            x = take_padded(n, x, k, before[k], after[k], mode.ptr[0]);
        else
            MC_TRY(repeat_axis(n, k, before[k], after[k], mode.ptr[0], &x));
    }
    return mc_onnx_give(n, 0, mc_onnx_fit(n->s, x, shape, ndim, -1));
}

/* Each axis becomes as long as asked for, with as much left out or added at both ends. */
mica_status mc_onnx_center_crop_pad(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int64_t want[MICA_MAX_NDIM], list[MICA_MAX_NDIM];
    int64_t before[MICA_MAX_NDIM] = {0}, after[MICA_MAX_NDIM] = {0};
    int count, n_axes, ndim = mica_array_ndim(x);
    MC_TRY(mc_onnx_operand_ints(n, 1, MICA_MAX_NDIM, want, &count));
    MC_TRY(mc_onnx_ints(n, "axes", MICA_MAX_NDIM, list, &n_axes));
    if (count != (n_axes < 0 ? ndim : n_axes))
        return mc_fail(MICA_EFORMAT, "its shape does not fit");
    for (int i = 0; i < count; i++) {
        int64_t k = n_axes < 0 ? i : list[i] < 0 ? list[i] + ndim : list[i];
        if (k < 0 || k >= ndim || want[i] < 0 || want[i] > INT32_MAX)
            return mc_fail(MICA_EFORMAT, "its shape is out of range");
        int64_t length = mica_array_dim(x, (int)k), start;
        MC_TRY(mc_onnx_need_number(n->import, "an axis that is cropped", length));
        start = (length - want[i]) / 2;
        if (want[i] < length) x = mica_slice_axis(n->s, x, (int)k, start, start + want[i]);
        if (want[i] <= length) continue;
        before[k] = (want[i] - length) / 2;
        after[k] = want[i] - length - before[k];
    }
    mica_array zero = mica_scalar(n->s, 0, mica_array_dtype(x));
    return mc_onnx_give(n, 0, mica_pad(n->s, x, before, after, zero));
}

/* ---- blocks of channels ---- */

mica_status mc_onnx_depth_to_space(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int64_t b = mc_onnx_int(n, "blocksize", 1);
    bool crd = mc_str_is(mc_onnx_text(n, "mode", "DCR"), "CRD");
    if (mica_array_ndim(x) != 4 || b < 1 || b > INT16_MAX ||
        mc_dim_mod(mica_array_dim(x, 1), b * b) != 0)
        return mc_fail(MICA_ESHAPE, "its operand has no such blocks");
    int64_t N = mica_array_dim(x, 0), C = mc_dim_div(mica_array_dim(x, 1), b * b);
    int64_t H = mica_array_dim(x, 2), W = mica_array_dim(x, 3);
    const int64_t dcr_shape[] = {N, b, b, C, H, W}, crd_shape[] = {N, C, b, b, H, W};
    const int dcr_axes[] = {0, 3, 4, 1, 5, 2}, crd_axes[] = {0, 1, 4, 2, 5, 3};
    mica_array y = mica_reshape(n->s, x, crd ? crd_shape : dcr_shape, 6);
    y = mica_transpose(n->s, y, crd ? crd_axes : dcr_axes);
    return mc_onnx_give(
        n, 0, mica_reshape(n->s, y, (int64_t[]){N, C, mc_dim_mul(H, b), mc_dim_mul(W, b)}, 4));
}

mica_status mc_onnx_space_to_depth(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    int64_t b = mc_onnx_int(n, "blocksize", 1);
    if (mica_array_ndim(x) != 4 || b < 1 || b > INT16_MAX ||
        mc_dim_mod(mica_array_dim(x, 2), b) != 0 || mc_dim_mod(mica_array_dim(x, 3), b) != 0)
        return mc_fail(MICA_ESHAPE, "its operand has no such blocks");
    int64_t N = mica_array_dim(x, 0), C = mica_array_dim(x, 1);
    int64_t H = mc_dim_div(mica_array_dim(x, 2), b), W = mc_dim_div(mica_array_dim(x, 3), b);
    mica_array y = mica_reshape(n->s, x, (int64_t[]){N, C, H, b, W, b}, 6);
    bool crd = mc_str_is(mc_onnx_text(n, "mode", "DCR"), "CRD");
    const int dcr_axes[] = {0, 3, 5, 1, 2, 4}, crd_axes[] = {0, 1, 3, 5, 2, 4};
    y = mica_transpose(n->s, y, crd ? crd_axes : dcr_axes);
    return mc_onnx_give(n, 0, mica_reshape(n->s, y, (int64_t[]){N, mc_dim_mul(C, b * b), H, W}, 4));
}

/* ---- triangles, reversed rows ---- */

mica_status mc_onnx_trilu(mc_onnx_node *n) {
    int64_t k = 0;
    int count;
    MC_TRY(mc_onnx_operand_ints(n, 1, 1, &k, &count));
    k = mc_max(-INT32_MAX, mc_min(k, INT32_MAX));
    mica_array x = n->in[0].x;
    return mc_onnx_give(n, 0,
                        mc_onnx_int(n, "upper", 1) ? mica_triu(n->s, x, k) : mica_tril(n->s, x, k));
}

mica_status mc_onnx_reverse_sequence(mc_onnx_node *n) {
    mica_array x = n->in[0].x, lengths = n->in[1].x;
    int64_t time = mc_onnx_int(n, "time_axis", 0), batch = mc_onnx_int(n, "batch_axis", 1);
    int ndim = mica_array_ndim(x);
    if (time < 0 || time > 1 || batch != 1 - time || ndim < 2) return mc_onnx_refuse("these axes");
    int64_t shape[MICA_MAX_NDIM], across[MICA_MAX_NDIM];
    for (int k = 0; k < ndim; k++) {
        shape[k] = mica_array_dim(x, k);
        across[k] = k == batch ? shape[k] : 1;
    }
    mica_array t = mica_arange(n->s, 0, (double)shape[time], 1, MICA_I64);
    t = mc_onnx_along(n->s, t, (int)time, ndim);
    lengths = mica_reshape(n->s, mica_astype(n->s, lengths, MICA_I64), across, ndim);
    mica_array back =
        mica_subtract(n->s, mica_subtract(n->s, lengths, mica_scalar(n->s, 1, MICA_I64)), t);
    mica_array at = mica_where(n->s, mica_less(n->s, t, lengths), back, t);
    at = mica_broadcast_to(n->s, at, shape, ndim);
    return mc_onnx_give(n, 0, mica_take_along_axis(n->s, x, at, (int)time));
}
