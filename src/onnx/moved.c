/* Nodes that only move elements, between what was dequantised and what is quantised again: they
 * move the integers, a quarter of the bytes; quantising with the same scale gives these back. */
#include "onnx/import.h"
#include "onnx/window.h"

#include <mica/ops.h>

#include <string.h>

/* Operators each element of whose results is one of their first operand. ALL: of any operand.
 * LARGEST: the largest of some. */
enum { FIRST, ALL, LARGEST };
static const struct mover {
    const char *name;
    int from;
} movers[] = {{"Concat", ALL},   {"DepthToSpace", FIRST}, {"Expand", FIRST},    {"Flatten", FIRST},
              {"Gather", FIRST}, {"Identity", FIRST},     {"MaxPool", LARGEST}, {"Reshape", FIRST},
              {"Slice", FIRST},  {"SpaceToDepth", FIRST}, {"Split", FIRST},     {"Squeeze", FIRST},
              {"Tile", FIRST},   {"Transpose", FIRST},    {"Unsqueeze", FIRST}};

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

static bool is_moved(const mc_onnx_node *n) {
    const struct mover *m = find_mover(n);
    if (!m || n->n_in == 0 || !can_move(n, 0)) return false;
    const mc_onnx_steps *t = n->in[0].steps;
    if (m->from == LARGEST &&
        (n->n_out > 1 || mc_onnx_int(n, "ceil_mode", 0) || !holds_elements(n)))
        return false;
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

mica_status mc_onnx_move_steps(mc_onnx_node *n, mc_onnx_build build, bool *done) {
    *done = is_moved(n);
    if (!*done) return MICA_OK;
    const mc_onnx_steps *from = n->in[0].steps;
    const size_t count = find_mover(n)->from == ALL ? n->n_in : 1;
    for (size_t i = 0; i < count; i++)
        n->in[i] = (mc_onnx_value){.x = n->in[i].steps->q, .last = n->in[i].steps->last};
    MC_TRY(build(n));
    for (size_t i = 0; i < n->n_out; i++)
        MC_TRY(give_floats(n, i, from));
    return MICA_OK;
}
