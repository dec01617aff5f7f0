#include "grad/tape.h"

#include <string.h>

#include <mica/ops.h>

#include "base/alloc.h"
#include "grad/grad.h"

void mc_tape_deinit(mc_tape *t) {
    mc_arena_deinit(&t->arena);
    mc_free(t->slots);
}

mica_status mc_tape_grow(mc_tape *t) {
    uint32_t n = mc_scope_count(t->s);
    if (n <= t->n_slots) return MICA_OK;
    n += n / 2 + 64;
    mc_slot *slots = mc_realloc(t->slots, (size_t)n * sizeof *slots);
    if (!slots) return mc_fail_nomem("a gradient");
    memset(slots + t->n_slots, 0, (n - t->n_slots) * sizeof *slots);
    t->slots = slots;
    t->n_slots = n;
    return MICA_OK;
}

void mc_tape_note_regions(mc_tape *t, uint32_t begin, uint32_t end) {
    /* The newest come first, and an outer one before those in it. */
    for (const mc_region *r = mc_scope_regions(t->s); r && r->end > begin; r = r->older) {
        if (r->begin < begin || r->end > end) continue;
        mc_slot *first = &t->slots[r->begin], *last = &t->slots[r->end - 1];
        if (!last->ends || last->ends->begin > r->begin) last->ends = r;
        if (!r->custom.fn) continue;
        if (!first->custom_begins || first->custom_begins->end < r->end) first->custom_begins = r;
        if (!last->custom_ends || last->custom_ends->begin > r->begin) last->custom_ends = r;
    }
}

/* ---- which nodes are active ---- */

static bool has_float(const mc_node *node) {
    const mc_layout *results = mc_node_results(node);
    for (int k = 0; k < mc_node_n_out(node); k++)
        if (mc_dtype_has_gradient(results[k].dtype)) return true;
    return false;
}

static void mark_node(mc_tape *t, uint32_t i) {
    const mc_node *node = mc_scope_node(t->s, i);
    if (!has_float(node) || mc_op_gradient_get(node->op)->kind == MC_GRADIENT_ZERO) return;
    for (uint32_t k = 0; k < node->n_in; k++)
        if (node->in[k] != MC_ABSENT && t->slots[node->in[k]].active) t->slots[i].active = true;
}

/* A custom gradient's results are active if its arguments are, whatever it recorded. */
static void mark_results(mc_tape *t, const mc_region *r) {
    bool active = false;
    for (size_t i = 0; i < r->n_args; i++)
        active = active || t->slots[r->args[i].node].active;
    for (size_t i = 0; i < r->n_results; i++)
        if (active && mc_dtype_has_gradient(mica_array_dtype(r->results[i])))
            t->slots[r->results[i].node].active = true;
}

void mc_tape_mark(mc_tape *t, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++) {
        mark_node(t, i);
        if (t->slots[i].custom_ends) mark_results(t, t->slots[i].custom_ends);
    }
}

/* ---- nodes ---- */

mica_status mc_tape_node_of(mc_tape *t, uint32_t i, mc_tape_node *out) {
    const mc_node *node = mc_scope_node(t->s, i);
    size_t n_in = node->n_in, n_out = (size_t)mc_node_n_out(node);
    mica_array *in = mc_arena_alloc(&t->arena, n_in * sizeof *in);
    mica_array *results = mc_arena_alloc(&t->arena, n_out * sizeof *results);
    out->wanted = mc_arena_calloc(&t->arena, n_in * sizeof *out->wanted);
    out->in_values = mc_arena_calloc(&t->arena, n_in * sizeof *out->in_values);
    out->out_values = mc_arena_calloc(&t->arena, n_out * sizeof *out->out_values);
    if (!in || !results || !out->wanted || !out->in_values || !out->out_values)
        return mc_fail_nomem("a gradient");
    for (size_t k = 0; k < n_in; k++) {
        in[k] = MICA_NONE;
        if (node->in[k] == MC_ABSENT) continue;
        in[k] = (mica_array){t->s, node->in[k]};
        out->wanted[k] = t->slots[node->in[k]].active;
    }
    for (size_t k = 0; k < n_out; k++) {
        results[k] = (mica_array){t->s, i};
        if (node->results) results[k] = mc_record_part(t->s, results[k], (int)k);
    }
    static const mc_gradient_passes passes = {mc_walk_back, mc_walk_forward};
    out->node = (mc_gradient_node){t->s,      &passes, node->op, node->attr,
                                   (int)n_in, in,      results,  out->wanted};
    return mica_scope_status(t->s);
}

mica_status mc_tape_fit(mc_tape *t, const char *from, const mc_layout *like, mica_array *x) {
    if (!x->scope) return MICA_OK;
    MC_TRY(mc_check_valid(*x, from));
    MC_TRY(mc_check_array(*x, from));
    *x = mc_import(t->s, from, *x);
    MC_TRY(mica_scope_status(t->s));
    char want[MC_LAYOUT_TEXT], got[MC_LAYOUT_TEXT];
    const mc_layout *is = mc_layout_of(*x);
    if (!mc_layout_same_shape(is, like) || !mc_dtype_has_gradient(is->dtype))
        return mc_fail(MICA_ESHAPE, "%s: a gradient of %s is %s", from, mc_layout_text(like, want),
                       mc_layout_text(is, got));
    if (is->dtype != like->dtype) *x = mica_astype(t->s, *x, like->dtype);
    return mica_scope_status(t->s);
}

mica_status mc_tape_no_rule(uint32_t i, const mc_node *node) {
    const mc_op_gradient *g = mc_op_gradient_get(node->op);
    const char *name = mc_op_get(node->op)->name;
    if (!g->why)
        return mc_fail(MICA_EINTERNAL, "%s (%%%u): no rule and no decomposition gives its gradient",
                       name, i);
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s (%%%u) has no gradient: %s; stop it there (mica_stop_gradient), or give one "
                   "(mica_custom_vjp)",
                   name, i, g->why);
}

mica_status mc_tape_too_deep(void) {
    return mc_fail(MICA_EINVAL, "a gradient: checkpoints and decompositions nest more than %d deep",
                   MC_TAPE_DEPTH);
}

mica_status mc_tape_decompose(mc_tape *t, uint32_t i, const mc_tape_node *n, int depth,
                              mica_array **ys) {
    const mc_node *node = mc_scope_node(t->s, i);
    const mc_op_def *def = mc_op_get(node->op);
    if (!def->decompose) return mc_tape_no_rule(i, node);
    if (depth == MC_TAPE_DEPTH) return mc_tape_too_deep();
    *ys = mc_arena_calloc(&t->arena, (size_t)mc_op_n_out(def) * sizeof **ys);
    if (!*ys) return mc_fail_nomem("a gradient");
    uint32_t begin = mc_scope_count(t->s);
    def->decompose(t->s, node->attr, n->node.in, n->node.n_in, *ys);
    MC_TRY(mica_scope_status(t->s));
    MC_TRY(mc_tape_grow(t));
    mc_tape_mark(t, begin, mc_scope_count(t->s));
    return MICA_OK;
}
