/* The pass back: from the gradients of results to those of the nodes that they were recorded from.
 *
 * Nodes are visited from the last to the first. A node's gradient is complete when it is reached,
 * because its users come behind it. */
#include <string.h>

#include <mica/ops.h>

#include "grad/grad.h"
#include "grad/tape.h"

static mica_status walk(mc_tape *t, uint32_t begin, uint32_t end, int depth);

/* ---- gradients of nodes ---- */

/* Adds dx, a gradient that `from` gave, to that of x. part: which result, of several. */
static mica_status add(mc_tape *t, const char *from, uint32_t x, int part, mica_array dx) {
    const mc_node *node = mc_scope_node(t->s, x);
    const mc_layout *like = &mc_node_results(node)[part < 0 ? 0 : part];
    if (!dx.scope) return MICA_OK;
    MC_TRY(mc_tape_grow(t));
    if (!t->slots[x].active) return MICA_OK;
    MC_TRY(mc_tape_fit(t, from, like, &dx));
    mica_array *sum = &t->slots[x].value;
    if (part >= 0) {
        mica_array **several = &t->slots[x].several;
        if (!*several)
            *several = mc_arena_calloc(&t->arena, (size_t)mc_node_n_out(node) * sizeof dx);
        if (!*several) return mc_fail_nomem("a gradient");
        sum = &(*several)[part];
    }
    *sum = sum->scope ? mica_add(t->s, *sum, dx) : dx;
    return mica_scope_status(t->s);
}

static bool has_gradient(const mc_slot *slot) {
    return slot->value.scope || slot->several;
}

/* ---- one node ---- */

/* By the decomposition, which is recorded for that. */
static mica_status decomposed(mc_tape *t, uint32_t i, const mc_tape_node *n, int depth) {
    const mc_op_def *def = mc_op_get(mc_scope_node(t->s, i)->op);
    uint32_t begin = mc_scope_count(t->s);
    mica_array *ys;
    MC_TRY(mc_tape_decompose(t, i, n, depth, &ys));
    uint32_t end = mc_scope_count(t->s);
    for (int k = 0; k < mc_op_n_out(def); k++)
        MC_TRY(add(t, def->name, ys[k].node, -1, n->out_values[k]));
    return walk(t, begin, end, depth + 1);
}

static mica_status visit(mc_tape *t, uint32_t i, int depth) {
    const mc_node *node = mc_scope_node(t->s, i);
    const mc_slot *slot = &t->slots[i];
    mc_tape_node n;
    if (!slot->active || node->n_in == 0 || !has_gradient(slot)) return MICA_OK;
    int part = mc_node_part(node);
    if (part >= 0) return add(t, "", node->in[0], part, slot->value);

    const mica_array value = slot->value, *several = slot->several;
    MC_TRY(mc_tape_node_of(t, i, &n));
    for (int k = 0; k < mc_node_n_out(node); k++)
        n.out_values[k] = node->results ? several[k] : value;
    const mc_op_gradient *g = mc_op_gradient_get(node->op);
    bool done = false, wanted = false; /* not where the node is a variable itself */
    for (uint32_t k = 0; k < node->n_in; k++)
        wanted = wanted || n.wanted[k];
    if (!wanted || g->kind == MC_GRADIENT_ZERO) return MICA_OK;
    if (g->kind == MC_GRADIENT_NONE) return mc_tape_no_rule(i, node);
    if (g->vjp) done = g->vjp(&n.node, n.out_values, n.in_values);
    MC_TRY(mica_scope_status(t->s));
    if (!done) return decomposed(t, i, &n, depth);
    for (uint32_t k = 0; k < node->n_in; k++)
        if (n.wanted[k]) MC_TRY(add(t, mc_op_get(node->op)->name, node->in[k], -1, n.in_values[k]));
    return MICA_OK;
}

/* ---- a rule of the caller ---- */

/* Only results are seen from outside of a custom gradient, and only they have gradients. */
static mica_status check_inside(mc_tape *t, const mc_region *r, bool reached) {
    for (uint32_t i = r->begin; i < r->end; i++) {
        bool result = mc_scope_node(t->s, i)->n_in == 0; /* a leaf may stand anywhere */
        for (size_t k = 0; k < r->n_results; k++)
            result = result || r->results[k].node == i;
        if (!result && has_gradient(&t->slots[i]))
            return mc_fail(MICA_EINVAL,
                           "custom_vjp: %s (%%%u) is used outside of the function; "
                           "make it a result",
                           mc_op_get(mc_scope_node(t->s, i)->op)->name, i);
        if (!result && reached && t->slots[i].variable)
            return mc_fail(MICA_EINVAL,
                           "custom_vjp: %s (%%%u), within the function, has no gradient of its "
                           "own; make it a result",
                           mc_op_get(mc_scope_node(t->s, i)->op)->name, i);
    }
    return MICA_OK;
}

static mica_status visit_custom(mc_tape *t, const mc_region *r) {
    size_t n = r->n_args + 2 * r->n_results;
    bool reached = false;
    for (size_t k = 0; k < r->n_results; k++)
        reached = reached || t->slots[r->results[k].node].value.scope;
    MC_TRY(check_inside(t, r, reached));
    if (!reached) return MICA_OK;
    mica_array *args = mc_arena_alloc(&t->arena, n * sizeof *args);
    mica_array *dxs = mc_arena_calloc(&t->arena, r->n_args * sizeof *dxs);
    if (!args || !dxs) return mc_fail_nomem("a gradient");
    memcpy(args, r->args, r->n_args * sizeof *args);
    memcpy(args + r->n_args, r->results, r->n_results * sizeof *args);
    mica_array *dys = args + r->n_args + r->n_results;
    for (size_t k = 0; k < r->n_results; k++) {
        const mica_array y = r->results[k];
        dys[k] = t->slots[y.node].value;
        if (!dys[k].scope)
            dys[k] = mica_zeros(t->s, mica_array_shape(y), mica_array_ndim(y), mica_array_dtype(y));
    }
    MC_TRY(mc_scope_begin_recording(t->s));
    mica_status status = r->custom.vjp(r->user, t->s, args, n, dxs, r->n_args);
    mc_scope_end_recording(t->s);
    MC_TRY(status);
    MC_TRY(mica_scope_status(t->s));
    for (size_t i = 0; i < r->n_args; i++)
        MC_TRY(add(t, "custom_vjp", r->args[i].node, -1, dxs[i]));
    return MICA_OK;
}

/* ---- recorded again ---- */

/* The nodes of a region that were recorded again: node i is now what begins at place[i - begin]. */
typedef struct copies {
    const mc_region *r;
    uint32_t *place; /* [end - begin + 1] */
    uint32_t begin, end;
} copies;

/* What stands for node i: its copy, or itself where it is a leaf or outside. */
static uint32_t copy_of(const copies *c, const mica_scope *s, uint32_t i) {
    bool copied = i >= c->r->begin && i < c->r->end && mc_scope_node(s, i)->n_in > 0;
    return copied ? c->place[i - c->r->begin] : i;
}

static mica_status copy_node(mc_tape *t, const copies *c, uint32_t i) {
    const mc_node *node = mc_scope_node(t->s, i);
    mica_array *in = mc_arena_alloc(&t->arena, node->n_in * sizeof *in);
    if (!in) return mc_fail_nomem("a gradient");
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT ? MICA_NONE
                                         : (mica_array){t->s, copy_of(c, t->s, node->in[k])};
    mica_array x = mc_record(t->s, node->op, node->attr, in, (int)node->n_in);
    if (!mica_valid(x)) return mica_scope_status(t->s);
    return MICA_OK;
}

/* The regions within r, over the copies; the oldest first. */
static mica_status copy_regions(mc_tape *t, const copies *c) {
    size_t n = 0;
    for (const mc_region *r = c->r->older; r && r->end > c->r->begin; r = r->older)
        n += r->begin >= c->r->begin;
    const mc_region **inner = mc_arena_alloc(&t->arena, n * sizeof(const mc_region *));
    if (!inner) return mc_fail_nomem("a gradient");
    for (const mc_region *r = c->r->older; r && r->end > c->r->begin; r = r->older)
        if (r->begin >= c->r->begin) inner[--n] = r;
    for (const mc_region *r = c->r->older; r && r->end > c->r->begin; r = r->older) {
        if (r->begin < c->r->begin) continue;
        mc_region copy = *inner[n++];
        mica_array *args = mc_arena_alloc(&t->arena, copy.n_args * sizeof *args);
        mica_array *results = mc_arena_alloc(&t->arena, copy.n_results * sizeof *results);
        if (!args || !results) return mc_fail_nomem("a gradient");
        for (size_t i = 0; i < copy.n_args; i++)
            args[i] = (mica_array){t->s, copy_of(c, t->s, copy.args[i].node)};
        for (size_t i = 0; i < copy.n_results; i++)
            results[i] = (mica_array){t->s, copy_of(c, t->s, copy.results[i].node)};
        copy.args = args;
        copy.results = results;
        copy.begin = c->place[copy.begin - c->r->begin];
        copy.end = c->place[copy.end - c->r->begin];
        if (copy.begin < copy.end) MC_TRY(mc_scope_add_region(t->s, &copy));
    }
    return MICA_OK;
}

/* Exchanges the gradients of the nodes of the region and of their copies. */
static void exchange(mc_tape *t, const copies *c) {
    for (uint32_t i = c->r->begin; i < c->r->end; i++) {
        mc_slot *a = &t->slots[i], *b = &t->slots[copy_of(c, t->s, i)];
        if (a == b) continue;
        mica_array value = a->value, *several = a->several;
        a->value = b->value;
        a->several = b->several;
        b->value = value;
        b->several = several;
        b->active = a->active;
        b->variable = a->variable;
    }
}

static mica_status visit_again(mc_tape *t, const mc_region *r, int depth) {
    copies c = {.r = r, .begin = mc_scope_count(t->s)};
    bool reached = false;
    for (uint32_t i = r->begin; i < r->end; i++)
        reached = reached || (t->slots[i].active && has_gradient(&t->slots[i]));
    if (!reached) return MICA_OK;
    if (depth == MC_TAPE_DEPTH) return mc_tape_too_deep();
    c.place = mc_arena_alloc(&t->arena, (r->end - r->begin + 1) * sizeof *c.place);
    if (!c.place) return mc_fail_nomem("a gradient");
    for (uint32_t i = r->begin; i < r->end; i++) {
        c.place[i - r->begin] = mc_scope_count(t->s);
        if (mc_scope_node(t->s, i)->n_in > 0) MC_TRY(copy_node(t, &c, i));
    }
    c.end = c.place[r->end - r->begin] = mc_scope_count(t->s);
    MC_TRY(copy_regions(t, &c));
    MC_TRY(mc_tape_grow(t));
    exchange(t, &c);
    MC_TRY(walk(t, c.begin, c.end, depth + 1));
    exchange(t, &c); /* somebody may have asked for one of them */
    return MICA_OK;
}

/* ---- the walk ---- */

static mica_status walk(mc_tape *t, uint32_t begin, uint32_t end, int depth) {
    mc_tape_note_regions(t, begin, end);
    for (uint32_t i = end; i > begin;) {
        const mc_region *r = t->slots[i - 1].ends;
        if (!r) {
            MC_TRY(visit(t, --i, depth));
            continue;
        }
        MC_TRY(r->custom.fn ? visit_custom(t, r) : visit_again(t, r, depth));
        i = r->begin;
    }
    return MICA_OK;
}

static mica_status walk_back(mc_tape *t, const mica_array *ys, const mica_array *dys, size_t n_ys,
                             const mica_array *xs, size_t n_xs, mica_array *grads) {
    uint32_t end = mc_scope_count(t->s);
    MC_TRY(mc_tape_grow(t));
    mc_tape_note_regions(t, 0, end);
    for (size_t i = 0; i < n_xs; i++)
        t->slots[xs[i].node].active = t->slots[xs[i].node].variable = true;
    mc_tape_mark(t, 0, end);
    for (size_t k = 0; k < n_ys; k++)
        MC_TRY(add(t, "dy", ys[k].node, -1, dys[k]));
    MC_TRY(walk(t, 0, end, 0));
    for (size_t i = 0; i < n_xs; i++) {
        grads[i] = t->slots[xs[i].node].value;
        if (!grads[i].scope)
            grads[i] = mica_zeros(t->s, mica_array_shape(xs[i]), mica_array_ndim(xs[i]),
                                  mica_array_dtype(xs[i]));
    }
    return mica_scope_status(t->s);
}

mica_status mc_walk_back(mica_scope *s, const mica_array *ys, const mica_array *dys, size_t n_ys,
                         const mica_array *xs, size_t n_xs, mica_array *grads) {
    mc_tape t = {.s = s};
    mica_status status = walk_back(&t, ys, dys, n_ys, xs, n_xs, grads);
    mc_tape_deinit(&t);
    return status;
}
