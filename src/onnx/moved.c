/* Nodes that only move elements, between what was dequantised and what is quantised again: they
 * move the integers, a quarter of the bytes; quantising with the same scale gives these back. */
#include "onnx/import.h"
#include "onnx/window.h"

#include <mica/ops.h>

#include <string.h>

/* Operators each element of whose results is one of their first operand. ALL: of any operand.
 * LARGEST: the largest of some. NEAREST: where that is the mode. PADDED: or a number, 0. */
enum { FIRST, ALL, LARGEST, NEAREST, PADDED };
static const struct mover {
    const char *name;
    int from;
} movers[] = {{"Concat", ALL},      {"DepthToSpace", FIRST}, {"Expand", FIRST},
              {"Flatten", FIRST},   {"Gather", FIRST},       {"Identity", FIRST},
              {"MaxPool", LARGEST}, {"Pad", PADDED},         {"Reshape", FIRST},
              {"Resize", NEAREST},  {"Slice", FIRST},        {"SpaceToDepth", FIRST},
              {"Split", FIRST},     {"Squeeze", FIRST},      {"Tile", FIRST},
              {"Transpose", FIRST}, {"Unsqueeze", FIRST},    {"Upsample", NEAREST}};

static const struct mover *find_mover(const mc_onnx_node *n) {
    if (!mc_onnx_is_own(n->proto->domain)) return NULL;
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
        if (strcmp(movers[i].name, n->proto->op_type) == 0) return &movers[i];
    return NULL;
}

/* Whether the node moves operand i, a multiple of one usual scale. */
static bool can_move(const mc_onnx_node *n, size_t i) {
    const mc_onnx_steps *t = n->in[i].steps;
    return t && !n->in[i].known && !n->in[i].bound && !n->in[i].small &&
           t->q.scope != n->import->constants &&
           mc_onnx_has_steps(n->import, t, t->scale, t->zero, mica_array_dtype(t->q));
}

/* Whether each window of a MaxPool holds an element of its operand: the largest of padding alone is
 * no integer. */
static bool holds_elements(const mc_onnx_node *n) {
    mc_onnx_window w;
    if (mc_onnx_read_window(n, NULL, &w) != MICA_OK) return false;
    for (int i = 0; i < w.spatial; i++) {
        bool padded = w.lo[i] != 0 || w.hi[i] != 0;
        bool far = w.given && (w.lo[i] >= w.kernel[i] || w.hi[i] >= w.kernel[i]);
        if (far || (padded && w.dilation[i] > 1)) return false;
    }
    return true;
}

/* Whether a Resize takes elements as they are, and no number beyond the edges. */
static bool takes_nearest(const mc_onnx_node *n) {
    return mc_str_is(mc_onnx_text(n, "mode", "nearest"), "nearest") &&
           !mc_str_is(mc_onnx_text(n, "coordinate_transformation_mode", ""), "tf_crop_and_resize");
}

/* Whether what a Pad adds is elements, or the number 0, which each zero point is. */
static bool adds_zeros(const mc_onnx_node *n) {
    double value = mc_onnx_real(n, "value", 0);
    if (!mc_str_is(mc_onnx_text(n, "mode", "constant"), "constant")) return true;
    if (mc_onnx_has(n, 2) && (!n->in[2].known || mica_array_size(n->in[2].x) != 1 ||
                              mica_item_f64(n->in[2].x, &value) != MICA_OK))
        return false;
    return value == 0;
}

static bool is_moved(const mc_onnx_node *n) {
    const struct mover *m = find_mover(n);
    if (!m || n->n_in == 0 || !can_move(n, 0)) return false;
    const mc_onnx_steps *t = n->in[0].steps;
    if (m->from == LARGEST &&
        (n->n_out > 1 || mc_onnx_int(n, "ceil_mode", 0) || !holds_elements(n)))
        return false;
    if (m->from == NEAREST && !takes_nearest(n)) return false;
    if (m->from == PADDED && !adds_zeros(n)) return false;
    for (size_t i = 1; m->from == ALL && i < n->n_in; i++)
        if (!can_move(n, i) || !mc_onnx_has_steps(n->import, n->in[i].steps, t->scale, t->zero,
                                                  mica_array_dtype(t->q)))
            return false;
    return true;
}

/* A result's floats, of integers as a builder gave them. */
static mica_status give_floats(mc_onnx_node *n, size_t i, const mc_onnx_steps *from) {
    mc_onnx_value q = n->out[i];
    if (!q.x.scope) return MICA_OK;
    mc_onnx_steps *to = mc_arena_alloc(&n->import->arena, sizeof *to);
    if (!to) return mc_fail_nomem("a value");
    *to = *from;
    to->q = q.x;
    to->last = q.last;
    mica_array y = mc_onnx_dequantised(n, q.last.scope ? q.last : q.x, to->scale, to->zero);
    MC_TRY(q.last.scope ? mc_onnx_give_last(n, i, y) : mc_onnx_give(n, i, y));
    n->out[i].steps = to;
    MC_TRY(mc_onnx_hold(n->import, to->scale));
    return mc_onnx_hold(n->import, to->zero);
}

/* A Pad of integers adds their zero point, operand 2 of this node of its own. */
static mica_status pad(mc_onnx_node *n, mc_onnx_build build, const mc_onnx_steps *t) {
    mc_onnx_node inner = *n;
    inner.n_in = n->n_in > 3 ? n->n_in : 3;
    inner.in = mc_arena_calloc(&n->import->arena, inner.n_in * sizeof *inner.in);
    if (!inner.in) return mc_fail_nomem("a value");
    memcpy(inner.in, n->in, n->n_in * sizeof *n->in);
    mica_array zero = t->zero.scope ? t->zero : mica_scalar(n->s, 0, mica_array_dtype(t->q));
    inner.in[2] = (mc_onnx_value){.x = mica_reshape(n->s, zero, NULL, 0)};
    return build(&inner);
}

/* ---- joined ---- */

/* Whether the node joins values that are quantised alike one by one or together, one of which has
 * steps. */
static bool is_joint(const mc_onnx_node *n) {
    const struct mover *m = find_mover(n);
    bool joint = m && m->from == ALL && n->n_in > 1 && n->n_out == 1, steps = false;
    for (size_t i = 0; joint && i < n->n_in; i++) {
        const mc_onnx_value *v = &n->in[i];
        joint =
            v->x.scope && !v->known && !v->bound && !v->small && mica_array_dtype(v->x) == MICA_F32;
        steps = steps || can_move(n, i);
    }
    return joint && steps;
}

static mica_status keep(mc_onnx_node *n, size_t count, int axis, mc_onnx_value **parts) {
    mc_onnx_joined *j = mc_arena_calloc(&n->import->arena, sizeof *j);
    *parts = mc_arena_calloc(&n->import->arena, count * sizeof **parts);
    if (!j || !*parts) return mc_fail_nomem("a value");
    *j = (mc_onnx_joined){.n = count, .parts = *parts, .axis = axis};
    n->out[0].joined = j;
    return MICA_OK;
}

/* The floats, and of what they were made. */
static mica_status join(mc_onnx_node *n, mc_onnx_build build) {
    int axis;
    mc_onnx_value *parts;
    MC_TRY(build(n));
    MC_TRY(mc_onnx_axis(n, 0, mica_array_ndim(n->in[0].x), &axis));
    MC_TRY(keep(n, n->n_in, axis, &parts));
    memcpy(parts, n->in, n->n_in * sizeof *parts);
    return MICA_OK;
}

mica_status mc_onnx_keep_parts(mc_onnx_node *n, const mica_array *xs, size_t count, int axis,
                               bool last) {
    int ndim = mica_array_ndim(xs[0]);
    mc_onnx_value *parts;
    if (mica_array_dtype(xs[0]) != MICA_F32) return MICA_OK;
    if (last) axis = axis == ndim - 1 ? 1 : axis > 0 ? axis + 1 : axis; /* as ONNX has it */
    MC_TRY(keep(n, count, axis, &parts));
    mc_onnx_node part = *n;
    for (size_t i = 0; i < count; i++) {
        part.out = &parts[i];
        MC_TRY(last ? mc_onnx_give_last(&part, 0, xs[i]) : mc_onnx_give(&part, 0, xs[i]));
    }
    return MICA_OK;
}

/* A part's floats as integers: those of its steps, where they are the same. */
static mc_onnx_value quantised_part(mc_onnx_node *n, const mc_onnx_value *part, mica_array scale,
                                    mica_array zero, mica_dtype dtype) {
    const mc_onnx_steps *t = part->steps;
    if (mc_onnx_has_steps(n->import, t, scale, zero, dtype))
        return (mc_onnx_value){.x = t->q, .last = t->last};
    mc_onnx_value v = {.x = part->x, .last = part->last};
    scale = mica_reshape(n->s, mc_onnx_as_f32(n, scale), NULL, 0);
    if (zero.scope) zero = mica_reshape(n->s, mc_onnx_as_f32(n, zero), NULL, 0);
    v.x = mc_onnx_quantised(n, v.x, scale, zero, dtype);
    if (v.last.scope) v.last = mc_onnx_quantised(n, v.last, scale, zero, dtype);
    return v;
}

mica_status mc_onnx_quantise_joined(mc_onnx_node *n, const mc_onnx_joined *j, mica_array zero,
                                    mica_dtype dtype) {
    mc_onnx_node inner = *n;
    inner.n_in = j->n;
    inner.in = mc_arena_calloc(&n->import->arena, j->n * sizeof *inner.in);
    if (!inner.in) return mc_fail_nomem("a value");
    for (size_t i = 0; i < j->n; i++)
        inner.in[i] = quantised_part(n, &j->parts[i], n->in[1].x, zero, dtype);
    return mc_onnx_join(&inner, j->axis);
}

/* ---- nodes ---- */

mica_status mc_onnx_move_steps(mc_onnx_node *n, mc_onnx_build build, bool *done) {
    *done = is_moved(n);
    if (!*done) {
        *done = is_joint(n);
        return *done ? join(n, build) : MICA_OK;
    }
    const mc_onnx_steps *from = n->in[0].steps;
    const size_t count = find_mover(n)->from == ALL ? n->n_in : 1;
    for (size_t i = 0; i < count; i++)
        n->in[i] = (mc_onnx_value){.x = n->in[i].steps->q, .last = n->in[i].steps->last};
    MC_TRY(find_mover(n)->from == PADDED ? pad(n, build, from) : build(n));
    for (size_t i = 0; i < n->n_out; i++)
        MC_TRY(give_floats(n, i, from));
    return MICA_OK;
}
