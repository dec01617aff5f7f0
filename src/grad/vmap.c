/* mica_vmap: what a function recorded for one example is recorded again for all of them, by the
 * ops' rules (graph/batch.h), which are not named here. */
#include <mica/grad.h>
#include <mica/program.h>

#include <string.h>

#include "base/arena.h"
#include "graph/batch.h"

/* A call; node i of the function is what begins at made[i - begin]. */
typedef struct vmap {
    mica_scope *s;
    mc_arena arena;
    int64_t n; /* examples; -1: not known yet */
    uint32_t begin, end;
    bool *needed;       /* [end - begin] by the results */
    mica_array *made;   /* [end - begin] with the new axis; MICA_NONE: the same for all examples */
    mica_array **parts; /* [end - begin] of nodes of several results, if their rule set them */
} vmap;

/* ---- the arguments of one example ---- */

static mica_status take_length(vmap *v, mica_array x, size_t i) {
    char text[MC_LAYOUT_TEXT];
    const mc_layout *l = mc_layout_of(x);
    if (l->ndim == 0) return mc_fail(MICA_ESHAPE, "vmap: argument %zu has no axis of examples", i);
    if (v->n >= 0 && l->shape[0] != v->n)
        return mc_fail(MICA_ESHAPE, "vmap: argument %zu is %s, an earlier one has %lld examples", i,
                       mc_layout_text(l, text), (long long)v->n);
    v->n = l->shape[0];
    return MICA_OK;
}

/* What stands for an example of x. */
static mica_array one_of(mica_scope *s, mica_array x) {
    const mc_layout *l = mc_layout_of(x);
    return mica_program_param(s, l->dtype, l->shape + 1, l->ndim - 1);
}

/* args: those of all examples, of s; ones [n_args] receives those of one. */
static mica_status split_args(vmap *v, const bool *shared, mica_array *args, size_t n_args,
                              mica_array *ones) {
    for (size_t i = 0; i < n_args; i++) {
        MC_TRY(mc_check_valid(args[i], "vmap"));
        MC_TRY(mc_check_array(args[i], "vmap"));
        ones[i] = args[i] = mc_import(v->s, "vmap", args[i]);
        MC_TRY(mica_scope_status(v->s));
        if (shared && shared[i]) continue;
        MC_TRY(take_length(v, args[i], i));
    }
    if (v->n < 0) return mc_fail(MICA_EINVAL, "vmap: no argument has examples");
    v->begin = mc_scope_count(v->s);
    for (size_t i = 0; i < n_args; i++)
        if (!shared || !shared[i]) ones[i] = one_of(v->s, args[i]);
    return mica_scope_status(v->s);
}

/* ---- the walk ---- */

static bool is_inside(const vmap *v, uint32_t node) {
    return node != MC_ABSENT && node >= v->begin && node < v->end;
}

static void mark_needed(vmap *v, const mica_array *results, size_t n) {
    for (size_t k = 0; k < n; k++)
        if (is_inside(v, results[k].node)) v->needed[results[k].node - v->begin] = true;
    for (uint32_t i = v->end; i-- > v->begin;) {
        const mc_node *node = mc_scope_node(v->s, i);
        for (uint32_t k = 0; v->needed[i - v->begin] && k < node->n_in; k++)
            if (is_inside(v, node->in[k])) v->needed[node->in[k] - v->begin] = true;
    }
}

/* The rule of the caller would be lost, and with it a gradient be another. */
static mica_status check_regions(const vmap *v) {
    for (const mc_region *r = mc_scope_regions(v->s); r && r->end > v->begin; r = r->older)
        if (r->custom.fn)
            return mc_fail(MICA_EUNSUPPORTED, "vmap: mica_custom_vjp has no rule for examples");
    return MICA_OK;
}

static mica_status no_rule(const mc_node *node) {
    return mc_fail(MICA_EUNSUPPORTED,
                   "vmap: %s has no rule for several examples, or not for these operands",
                   mc_op_get(node->op)->name);
}

/* One of several results of another node. */
static mica_status visit_part(vmap *v, uint32_t i) {
    const mc_node *node = mc_scope_node(v->s, i);
    int part = mc_node_part(node);
    if (!is_inside(v, node->in[0])) return MICA_OK;
    uint32_t at = node->in[0] - v->begin;
    if (!v->made[at].scope) return MICA_OK;
    bool set = v->parts[at] && v->parts[at][part].scope;
    v->made[i - v->begin] = set ? v->parts[at][part] : mc_record_part(v->s, v->made[at], part);
    return mica_scope_status(v->s);
}

static mica_status visit(vmap *v, uint32_t i) {
    const mc_node *node = mc_scope_node(v->s, i);
    bool any = false;
    if (node->n_in == 0 || !v->needed[i - v->begin]) return MICA_OK;
    if (mc_node_part(node) >= 0) return visit_part(v, i);
    mica_array *in = mc_arena_calloc(&v->arena, node->n_in * sizeof *in);
    bool *batched = mc_arena_calloc(&v->arena, node->n_in * sizeof *batched);
    if (!in || !batched) return mc_fail_nomem("vmap");
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] == MC_ABSENT) continue;
        in[k] = (mica_array){v->s, node->in[k]};
        batched[k] = is_inside(v, node->in[k]) && v->made[node->in[k] - v->begin].scope;
        if (batched[k]) in[k] = v->made[node->in[k] - v->begin];
        any = any || batched[k];
    }
    if (!any) return MICA_OK;
    mc_batch_rule rule = mc_op_batch_rule(node->op);
    if (!rule) return no_rule(node);
    if (node->layout.ndim == MICA_MAX_NDIM)
        return mc_fail(MICA_ESHAPE, "vmap: %s has %d axes, and with one for the examples too many",
                       mc_op_get(node->op)->name, MICA_MAX_NDIM);
    mc_layout result = node->layout; /* nodes move as others are recorded */
    mica_array *parts = NULL;
    if (node->results) {
        parts = mc_arena_calloc(&v->arena, (size_t)mc_node_n_out(node) * sizeof *parts);
        if (!parts) return mc_fail_nomem("vmap");
        v->parts[i - v->begin] = parts;
    }
    mica_array y = rule(&(mc_batch_node){v->s, node->op, node->attr, v->n, (int)node->n_in, in,
                                         batched, &result, parts});
    MC_TRY(mica_scope_status(v->s));
    if (!y.scope) return no_rule(mc_scope_node(v->s, i));
    v->made[i - v->begin] = y;
    return MICA_OK;
}

static mica_status batch_all(vmap *v, mica_array *results, size_t n) {
    MC_TRY(check_regions(v));
    mark_needed(v, results, n);
    for (uint32_t i = v->begin; i < v->end; i++)
        MC_TRY(visit(v, i));
    for (size_t k = 0; k < n; k++) {
        mica_array y =
            is_inside(v, results[k].node) ? v->made[results[k].node - v->begin] : MICA_NONE;
        results[k] = y.scope ? y : mc_batch_repeat(v->s, results[k], v->n);
        MC_TRY(mica_scope_status(v->s));
    }
    return MICA_OK;
}

static mica_status map(vmap *v, mica_compile_fn fn, void *user, const mica_array *args,
                       size_t n_args, const bool *shared, mica_array *results, size_t n_results) {
    mica_array *all = mc_arena_calloc(&v->arena, (n_args + 1) * sizeof *all);
    mica_array *ones = mc_arena_calloc(&v->arena, (n_args + 1) * sizeof *ones);
    if (!all || !ones) return mc_fail_nomem("vmap");
    if (n_args > 0) memcpy(all, args, n_args * sizeof *all);
    MC_TRY(split_args(v, shared, all, n_args, ones));
    MC_TRY(mc_scope_begin_recording(v->s));
    mica_status status = fn(user, v->s, ones, n_args, results, n_results);
    mc_scope_end_recording(v->s);
    MC_TRY(status);
    MC_TRY(mica_scope_status(v->s));
    for (size_t k = 0; k < n_results; k++) {
        MC_TRY(mc_check_valid(results[k], "vmap: result"));
        results[k] = mc_import(v->s, "vmap: result", results[k]);
        MC_TRY(mica_scope_status(v->s));
    }
    v->end = mc_scope_count(v->s);
    v->needed = mc_arena_calloc(&v->arena, (v->end - v->begin + 1) * sizeof *v->needed);
    v->made = mc_arena_calloc(&v->arena, (v->end - v->begin + 1) * sizeof *v->made);
    v->parts = mc_arena_calloc(&v->arena, (v->end - v->begin + 1) * sizeof *v->parts);
    if (!v->needed || !v->made || !v->parts) return mc_fail_nomem("vmap");
    for (size_t i = 0; i < n_args; i++)
        if (ones[i].node != all[i].node) v->made[ones[i].node - v->begin] = all[i];
    return batch_all(v, results, n_results);
}

mica_status mica_vmap(mica_scope *s, mica_compile_fn fn, void *user, const mica_array *args,
                      size_t n_args, const bool *shared, mica_array *results, size_t n_results) {
    vmap v = {.s = s, .n = -1};
    for (size_t k = 0; results && k < n_results; k++)
        results[k] = (mica_array){s, MC_ABSENT};
    if (!s || !fn || (!args && n_args > 0) || (!results && n_results > 0))
        return mc_fail(MICA_EINVAL, "vmap: NULL");
    MC_TRY(mica_scope_status(s));
    mica_status status = map(&v, fn, user, args, n_args, shared, results, n_results);
    if (status != MICA_OK) mica_scope_clear_error(s); /* what failed is the call's own */
    for (size_t k = 0; k < n_results && status != MICA_OK; k++)
        results[k] = (mica_array){s, MC_ABSENT};
    mc_arena_deinit(&v.arena);
    return status;
}
