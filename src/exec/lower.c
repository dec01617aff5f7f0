#include "exec/lower.h"

#include "base/alloc.h"
#include "device/device.h"

enum { MAX_PASSES = 16 }; /* how deep decompositions may nest */

typedef struct lowering {
    mica_device *device;
    mica_scope *to;
    mica_array *made; /* [n_nodes] by ordinal */
    mica_array *in;   /* operands of the node at hand */
    const mc_layout **layouts;
    bool changed; /* something was decomposed: its parts must be looked at too */
} lowering;

static mica_array copy_leaf(lowering *l, const mc_node *node, bool first_pass, uint32_t leaf) {
    if (!first_pass && node->storage) /* a plan holds no storage: its device owns it */
        return mc_scope_fail(l->to, MICA_EINTERNAL, "a decomposition made an array from data");
    mica_array x = mc_leaf(l->to, &node->layout, NULL, 0);
    mc_node *copy = mc_node_of(x);
    if (!copy) return x;
    copy->movable = node->movable;
    copy->scalar = !first_pass && node->scalar;
    copy->value = first_pass ? leaf : node->value;
    return x;
}

static bool has_kernel(lowering *l, const mc_node *node, const mc_op_def *def) {
    if (def->view) return true;
    const mc_backend *backend = l->device->backend;
    return backend->find(l->device->state, node->op, node->attr, l->layouts, (int)node->n_in,
                         &node->layout);
}

static mica_array lower_node(lowering *l, const mc_trace *trace, const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    for (uint32_t k = 0; k < node->n_in; k++) {
        bool absent = node->in[k] == MC_ABSENT;
        l->in[k] = absent ? MICA_NONE : l->made[trace->ordinal[node->in[k]]];
        l->layouts[k] = absent ? NULL : &mc_scope_node(trace->scope, node->in[k])->layout;
    }
    if (has_kernel(l, node, def))
        return mc_record(l->to, node->op, node->attr, l->in, (int)node->n_in);
    if (!def->decompose)
        return mc_scope_fail(l->to, MICA_EUNSUPPORTED,
                             "%s: device %s has no kernel for it and it has no decomposition",
                             def->name, l->device->backend->name);
    l->changed = true;
    mica_array x = def->decompose(l->to, node->attr, l->in, (int)node->n_in);
    const mc_layout *got = mc_layout_of(x);
    if (!got || got->dtype != node->layout.dtype || !mc_layout_same_shape(got, &node->layout))
        return mc_scope_fail(l->to, MICA_EINTERNAL,
                             "%s: its decomposition gives another shape, or nothing", def->name);
    return x;
}

static uint32_t widest(const mc_trace *trace) {
    uint32_t max = 1;
    for (uint32_t i = 0; i < trace->n_nodes; i++) {
        uint32_t n = mc_scope_node(trace->scope, trace->nodes[i])->n_in;
        if (n > max) max = n;
    }
    return max;
}

/* One pass over a trace into l->to. */
static mica_status pass(lowering *l, const mc_trace *trace, mc_arena *arena, bool first_pass,
                        mica_array *targets) {
    uint32_t max = widest(trace), leaf = 0;
    l->made = mc_arena_alloc(arena, trace->n_nodes * sizeof *l->made);
    l->in = mc_arena_alloc(arena, max * sizeof *l->in);
    l->layouts = mc_arena_alloc(arena, max * sizeof *l->layouts);
    if (!l->made || !l->in || !l->layouts) return mc_fail_nomem("lowering a graph");
    l->changed = false;
    for (uint32_t i = 0; i < trace->n_nodes; i++) {
        const mc_node *node = mc_scope_node(trace->scope, trace->nodes[i]);
        l->made[i] =
            mc_is_leaf(node) ? copy_leaf(l, node, first_pass, leaf++) : lower_node(l, trace, node);
        if (!mica_valid(l->made[i])) return mica_scope_status(l->to);
    }
    for (uint32_t i = 0; i < trace->n_targets; i++)
        targets[i] = l->made[trace->targets[i]];
    return MICA_OK;
}

mica_status mc_lower_ops(mica_device *device, const mc_trace *trace, mica_scope **graph,
                         mica_array *targets) {
    lowering l = {.device = device, .changed = true};
    mc_arena arena = {0};
    mc_trace again = {0};
    mica_scope *from = NULL;
    mica_status status = MICA_OK;
    for (int i = 0; status == MICA_OK && l.changed; i++) {
        if (i == MAX_PASSES) {
            status = mc_fail(MICA_EINTERNAL, "decompositions nest more than %d deep", MAX_PASSES);
            break;
        }
        status = mc_scope_open(device, &l.to);
        if (status == MICA_OK) status = pass(&l, i == 0 ? trace : &again, &arena, i == 0, targets);
        mica_scope_close(&from);
        from = l.to;
        l.to = NULL;
        if (status == MICA_OK && l.changed)
            status = mc_trace_make(&again, &arena, from, targets, trace->n_targets);
    }
    mc_buffer_deinit(&again.key);
    mc_arena_deinit(&arena);
    if (status != MICA_OK) mica_scope_close(&from);
    *graph = from;
    return status;
}
