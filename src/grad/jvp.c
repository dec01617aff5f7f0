/* The pass forward: from the tangents of nodes to those of what was recorded from them. */
#include <string.h>

#include <mica/ops.h>

#include "grad/grad.h"
#include "grad/tape.h"

static mica_status walk(mc_tape *t, uint32_t begin, uint32_t end, int depth);

/* ---- one node ---- */

/* Copies the tangents of ys [n] into out. */
static void copy_tangents(const mc_tape *t, const mica_array *ys, int n, mica_array *out) {
    for (int k = 0; k < n; k++)
        out[k] = t->slots[ys[k].node].value;
}

/* By the decomposition, which is recorded for that. */
static mica_status decomposed(mc_tape *t, uint32_t i, const mc_tape_node *n, int depth) {
    const mc_op_def *def = mc_op_get(mc_scope_node(t->s, i)->op);
    uint32_t begin = mc_scope_count(t->s);
    mica_array *ys;
    MC_TRY(mc_tape_decompose(t, i, n, depth, &ys));
    uint32_t end = mc_scope_count(t->s);
    MC_TRY(walk(t, begin, end, depth + 1));
    copy_tangents(t, ys, mc_op_n_out(def), n->out_values);
    return MICA_OK;
}

/* Gives node i its tangents [n_out]. */
static mica_status give(mc_tape *t, uint32_t i, mica_array *tangents) {
    const mc_node *node = mc_scope_node(t->s, i);
    const char *name = mc_op_get(node->op)->name;
    for (int k = 0; k < mc_node_n_out(node); k++)
        if (mc_dtype_has_gradient(mc_node_results(node)[k].dtype))
            MC_TRY(mc_tape_fit(t, name, &mc_node_results(node)[k], &tangents[k]));
        else
            tangents[k] = MICA_NONE;
    MC_TRY(mc_tape_grow(t));
    if (node->results)
        t->slots[i].several = tangents; /* in the arena */
    else
        t->slots[i].value = tangents[0];
    return MICA_OK;
}

static mica_status visit(mc_tape *t, uint32_t i, int depth) {
    const mc_node *node = mc_scope_node(t->s, i);
    mc_tape_node n;
    bool moves = false;
    if (!t->slots[i].active || node->n_in == 0 || t->slots[i].value.scope) return MICA_OK;
    int part = mc_node_part(node);
    if (part >= 0) {
        const mica_array *several = t->slots[node->in[0]].several;
        if (several) t->slots[i].value = several[part];
        return MICA_OK;
    }
    MC_TRY(mc_tape_node_of(t, i, &n));
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (n.wanted[k]) n.in_values[k] = t->slots[node->in[k]].value;
        moves = moves || n.in_values[k].scope;
    }
    const mc_op_gradient *g = mc_op_gradient_get(node->op);
    bool done = false;
    if (!moves || g->kind == MC_GRADIENT_ZERO) return MICA_OK;
    if (g->kind == MC_GRADIENT_NONE) return mc_tape_no_rule(i, node);
    if (g->jvp) done = g->jvp(&n.node, n.in_values, n.out_values);
    MC_TRY(mica_scope_status(t->s));
    if (!done) MC_TRY(decomposed(t, i, &n, depth));
    return give(t, i, n.out_values);
}

/* ---- a rule of the caller ---- */

static mica_status visit_custom(mc_tape *t, const mc_region *r) {
    size_t n = 2 * r->n_args + r->n_results;
    bool moves = false, needed = false;
    for (size_t k = 0; k < r->n_results; k++)
        needed = needed || t->slots[r->results[k].node].active;
    if (!needed) return MICA_OK;
    mica_array *args = mc_arena_alloc(&t->arena, n * sizeof *args);
    mica_array *dys = mc_arena_calloc(&t->arena, r->n_results * sizeof *dys);
    if (!args || !dys) return mc_fail_nomem("a gradient");
    memcpy(args, r->args, r->n_args * sizeof *args);
    memcpy(args + r->n_args, r->results, r->n_results * sizeof *args);
    for (size_t i = 0; i < r->n_args; i++) {
        const mica_array x = r->args[i];
        mica_array *dx = &args[r->n_args + r->n_results + i];
        *dx = t->slots[x.node].value;
        moves = moves || dx->scope;
        if (!dx->scope)
            *dx = mica_zeros(t->s, mica_array_shape(x), mica_array_ndim(x), mica_array_dtype(x));
    }
    if (!moves) return MICA_OK;
    if (!r->custom.jvp)
        return mc_fail(MICA_EUNSUPPORTED, "custom_vjp: the rule has no jvp; give it one");
    MC_TRY(mc_scope_begin_recording(t->s));
    mica_status status = r->custom.jvp(r->user, t->s, args, n, dys, r->n_results);
    mc_scope_end_recording(t->s);
    MC_TRY(status);
    MC_TRY(mica_scope_status(t->s));
    for (size_t k = 0; k < r->n_results; k++)
        MC_TRY(give(t, r->results[k].node, &dys[k]));
    return MICA_OK;
}

/* ---- the walk ---- */

static mica_status walk(mc_tape *t, uint32_t begin, uint32_t end, int depth) {
    for (uint32_t i = begin; i < end;) {
        const mc_region *r = t->slots[i].custom_begins;
        if (r) {
            MC_TRY(visit_custom(t, r));
            i = r->end;
        } else {
            MC_TRY(visit(t, i++, depth));
        }
    }
    return MICA_OK;
}

/* A rule may need arguments that the nodes of its function do not. */
static void need_args(const mc_region *r, bool *needed) {
    bool any = false;
    for (size_t k = 0; k < r->n_results; k++)
        any = any || needed[r->results[k].node];
    for (size_t i = 0; i < r->n_args && any; i++)
        needed[r->args[i].node] = true;
}

/* Leaves those active that ys need, so that nothing is recorded, or fails, for the others. */
static mica_status keep_needed(mc_tape *t, const mica_array *ys, size_t n, uint32_t end) {
    bool *needed = mc_arena_calloc(&t->arena, end * sizeof *needed);
    if (!needed) return mc_fail_nomem("a gradient");
    for (size_t i = 0; i < n; i++)
        needed[ys[i].node] = true;
    for (uint32_t i = end; i-- > 0;) {
        const mc_node *node = mc_scope_node(t->s, i);
        if (t->slots[i].custom_ends) need_args(t->slots[i].custom_ends, needed);
        t->slots[i].active = t->slots[i].active && needed[i];
        for (uint32_t k = 0; needed[i] && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) needed[node->in[k]] = true;
    }
    return MICA_OK;
}

static mica_status walk_forward(mc_tape *t, const mica_array *xs, const mica_array *dxs,
                                size_t n_xs, const mica_array *ys, size_t n_ys, mica_array *dys) {
    uint32_t end = mc_scope_count(t->s);
    MC_TRY(mc_tape_grow(t));
    mc_tape_note_regions(t, 0, end);
    for (size_t i = 0; i < n_xs; i++)
        t->slots[xs[i].node].active = dxs[i].scope != NULL;
    mc_tape_mark(t, 0, end);
    MC_TRY(keep_needed(t, ys, n_ys, end));
    for (size_t i = 0; i < n_xs; i++) {
        mica_array dx = dxs[i];
        MC_TRY(mc_tape_fit(t, "a tangent", mc_layout_of(xs[i]), &dx));
        t->slots[xs[i].node].value = dx;
    }
    MC_TRY(walk(t, 0, end, 0));
    for (size_t k = 0; k < n_ys; k++) {
        dys[k] = t->slots[ys[k].node].value;
        if (!dys[k].scope && mc_dtype_has_gradient(mica_array_dtype(ys[k])))
            dys[k] = mica_zeros(t->s, mica_array_shape(ys[k]), mica_array_ndim(ys[k]),
                                mica_array_dtype(ys[k]));
    }
    return mica_scope_status(t->s);
}

mica_status mc_walk_forward(mica_scope *s, const mica_array *xs, const mica_array *dxs, size_t n_xs,
                            const mica_array *ys, size_t n_ys, mica_array *dys) {
    mc_tape t = {.s = s};
    mica_status status = walk_forward(&t, xs, dxs, n_xs, ys, n_ys, dys);
    mc_tape_deinit(&t);
    return status;
}
