#include "exec/lower.h"

#include "base/alloc.h"
#include "device/device.h"
#include "graph/attr.h"
#include "graph/subgraph.h"

enum {
    MAX_DEPTH = 16, /* how deep decompositions may nest */
    MAX_VIEWS = 32  /* that follow one another: each part of a split graph makes those it reads */
};

/* Where a node of the new graph is computed: on the device, or, of an odd number, on the fallback;
 * and how often what leads to it goes from one to the other. */
typedef struct op_level {
    uint32_t level;
    bool fixed; /* a leaf that has a value already: its users go to where it lies */
} op_level;

/* Ops that a device lacks, for an error: "sort %3, fft %5". */
typedef struct missing {
    mc_buffer text;
    size_t count;
} missing;

typedef struct lowering lowering;
struct lowering {
    mica_device *device;
    mica_scope *to;
    mc_buffer *fallback;
    mc_arena arena;
    bool complete;         /* nothing falls back from this device */
    mica_device *other;    /* what runs ops over memory that lies there; NULL: there is none */
    mc_buffer levels;      /* op_level, by the node of `to`; those behind its end are 0 */
    uint32_t level;        /* where what reads nothing is computed */
    uint32_t n_placed;     /* ops that run there */
    missing *missing;      /* NULL, but where what is missing is listed, in subgraphs too */
    const lowering *outer; /* of a subgraph that is listed: that of the node which has it */
    const mc_node *node;   /* of the trace, which is lowered, and its number */
    uint32_t number;
};

mica_status mc_lowered_new(mica_device *device, uint32_t n_params, uint32_t n_results,
                           mc_lowered **lowered) {
    mc_lowered *l = *lowered = mc_calloc(1, sizeof *l);
    if (!l) return mc_fail_nomem("lowering a graph");
    l->n_params = n_params;
    l->n_results = n_results;
    l->params = mc_calloc(n_params + 1, sizeof *l->params);
    l->results = mc_calloc(n_results + 1, sizeof *l->results);
    l->stays = mc_calloc(n_results + 1, sizeof *l->stays);
    mica_status status = l->params && l->results && l->stays ? mc_scope_open(device, &l->graph)
                                                             : mc_fail_nomem("a graph");
    if (status == MICA_OK) return MICA_OK;
    mc_lowered_free(l);
    *lowered = NULL;
    return status;
}

/* ---- where ops run ---- */

static op_level level_at(const lowering *l, uint32_t node) {
    bool there = node < MC_BUFFER_COUNT(&l->levels, op_level);
    return there ? MC_BUFFER_AT(&l->levels, op_level)[node] : (op_level){0};
}

static bool is_other(op_level level) {
    return level.level % 2 != 0;
}

/* Notes where a node is; an invalid one stays so. */
static mica_array set_level(lowering *l, mica_array x, op_level level) {
    if (!mica_valid(x) || !l->other) return x;
    while (MC_BUFFER_COUNT(&l->levels, op_level) <= x.node) {
        if (!MC_BUFFER_PUSH(&l->levels, op_level, (op_level){0}))
            return mc_scope_fail(l->to, MICA_ENOMEM, "out of memory: lowering a graph");
    }
    MC_BUFFER_AT(&l->levels, op_level)[x.node] = level;
    return x;
}

/* Where an op runs: with the weights that it reads, and the memory of the fallback before the
 * device's; an op without any with its largest operand, and of those that are alike with the one
 * that is there last. */
static op_level level_of(const lowering *l, const mica_array *in, int n_in) {
    op_level last = {.level = l->level};
    int64_t largest = -1;
    bool fixed[2] = {false, false}, other = l->level % 2 != 0, any = false;
    uint32_t level = 0;
    if (!l->other) return last;
    for (int k = 0; k < n_in; k++) {
        if (!mica_valid(in[k]) || mc_node_of(in[k])->scalar) continue;
        op_level at = level_at(l, in[k].node);
        int64_t bytes = mc_layout_bytes(mc_layout_of(in[k]));
        if (at.fixed) fixed[is_other(at)] = true;
        if (bytes > largest || (bytes == largest && at.level >= level)) other = is_other(at);
        if (bytes > largest) largest = bytes;
        if (at.level > level) level = at.level;
        any = true;
    }
    if (!any) return last;
    if (fixed[0] || fixed[1]) other = fixed[1];
    return (op_level){.level = level + (level % 2 != other)};
}

/* ---- one op ---- */

/* The strides of a view of `in`; false: it cannot be said by strides. */
static bool view_layout(const mc_node *node, const mc_layout *in, mc_layout *layout) {
    int64_t offset;
    *layout = node->layout;
    return mc_op_get(node->op)->view(node->attr, in, layout, &offset);
}

static mica_array record_view_as(mica_scope *s, const mc_node *node, mica_array in,
                                 const mc_layout *layout) {
    mica_array x = mc_record(s, node->op, node->attr, &in, 1);
    if (mica_valid(x)) mc_node_of(x)->layout = *layout;
    return x;
}

mica_array mc_record_view(mica_scope *s, const mc_node *node, mica_array in) {
    mc_layout layout;
    if (!view_layout(node, mc_layout_of(in), &layout))
        return mc_scope_fail(s, MICA_EINTERNAL, "%s: no view of a dense array",
                             mc_op_get(node->op)->name);
    return record_view_as(s, node, in, &layout);
}

static mc_support supports(const lowering *l, op_level at, mc_op op, const void *attr,
                           const mc_layout *const *in, int n_in, const mc_layout *out) {
    const mica_device *d = is_other(at) ? l->other : l->device;
    int n_out = mc_op_n_out(mc_op_get(op));
    return d->backend->supports(d->state, op, attr, in, n_in, out, n_out);
}

/* Adds "sort %3", "sort of topk_indices %3 in scan %7". */
static mica_status add_missing(lowering *l, mc_op op) {
    mc_buffer *text = &l->missing->text;
    bool ok =
        mc_buffer_printf(text, "%s%s", l->missing->count++ ? ", " : "", mc_op_get(op)->name) &&
        (op == l->node->op || mc_buffer_printf(text, " of %s", mc_op_get(l->node->op)->name)) &&
        mc_buffer_printf(text, " %%%u", l->number);
    for (const lowering *o = l->outer; ok && o; o = o->outer)
        ok = mc_buffer_printf(text, " in %s %%%u", mc_op_get(o->node->op)->name, o->number);
    return ok ? MICA_OK : mc_fail_nomem("lowering a graph");
}

/* Records an op that is no view, and remembers it where the device has no kernel for it, or where
 * it runs on the fallback all the same. */
static mica_array record_op(lowering *l, op_level at, mc_op op, const void *attr,
                            const mica_array *in, int n_in, bool native) {
    mica_array x = set_level(l, mc_record(l->to, op, attr, in, n_in), at);
    native = native && !is_other(at);
    if (is_other(at)) l->n_placed++;
    if (!native && !is_other(at) && l->missing &&
        mc_scope_set_status(l->to, add_missing(l, op)) != MICA_OK)
        return mc_invalid(l->to);
    if (!native && mica_valid(x) && !MC_BUFFER_PUSH(l->fallback, uint32_t, x.node))
        return mc_scope_fail(l->to, MICA_ENOMEM, "out of memory: lowering a graph");
    return x;
}

static mica_array copy_dense(lowering *l, mica_array x) {
    const mc_layout *layout = mc_layout_of(x);
    mc_layout out = *layout;
    mc_layout_set_dense(&out);
    op_level at = {.level = level_at(l, x.node).level};
    bool native = l->complete || supports(l, at, MC_OP_CONTIGUOUS, NULL, &layout, 1, &out).yes;
    return record_op(l, at, MC_OP_CONTIGUOUS, NULL, &x, 1, native);
}

static mica_array make_dense(lowering *l, mica_array x) {
    const mc_layout *layout = mc_layout_of(x);
    return !layout || mc_layout_is_dense(layout) ? x : copy_dense(l, x);
}

/* x, or a copy of it where it is the last of so many views. */
static mica_array end_chain(lowering *l, mica_array x) {
    const mc_node *node = mc_node_of(x);
    int views = 0;
    for (; views < MAX_VIEWS && mc_op_get(node->op)->view; views++)
        node = mc_scope_node(l->to, node->in[0]);
    return views < MAX_VIEWS ? x : copy_dense(l, x);
}

static mica_array lower_view(lowering *l, const mc_node *node, mica_array in) {
    mc_layout layout;
    if (mica_valid(in)) in = end_chain(l, in);
    if (!mica_valid(in)) return in;
    if (view_layout(node, mc_layout_of(in), &layout))
        return set_level(l, record_view_as(l->to, node, in, &layout), level_at(l, in.node));
    in = make_dense(l, in);
    if (!mica_valid(in)) return in;
    return set_level(l, mc_record_view(l->to, node, in), level_at(l, in.node));
}

static mica_status decompose(lowering *l, op_level at, const mc_node *node, const mica_array *in,
                             int depth, mica_array *out);

static mica_status list_subgraphs(lowering *l, const mc_node *node);

/* Control flow is left as it is, over dense operands: exec/control.h runs it. */
static mica_status lower_control(lowering *l, const mc_node *node, mica_array *in,
                                 mica_array *out) {
    if (l->missing) MC_TRY(list_subgraphs(l, node));
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = make_dense(l, in[k]);
    mica_array x = mc_record(l->to, node->op, node->attr, in, (int)node->n_in);
    for (int i = 0; i < mc_node_n_out(node); i++)
        out[i] = mc_record_part(l->to, x, i);
    return mica_scope_status(l->to);
}

/* Lowers an op; out [n_out] receives its results. */
static mica_status lower_op(lowering *l, const mc_node *node, mica_array *in, int depth,
                            mica_array *out) {
    const mc_op_def *def = mc_op_get(node->op);
    if (def->view) {
        *out = lower_view(l, node, in[0]);
        return mica_scope_status(l->to);
    }
    if (mc_op_is_control(def)) return lower_control(l, node, in, out);
    int n = (int)node->n_in;
    const mc_layout **layouts = mc_arena_alloc(&l->arena, (size_t)n * sizeof *layouts);
    if (!layouts) return mc_fail_nomem("lowering a graph");
    for (int k = 0; k < n; k++)
        layouts[k] = mc_layout_of(in[k]);
    op_level at = level_of(l, in, n);
    mc_support support = supports(l, at, node->op, node->attr, layouts, n,
                                  mc_node_results(node)); /* which are dense */
    if (!support.yes && def->decompose) return decompose(l, at, node, in, depth, out);
    if (!support.yes && (l->complete || is_other(at)) && !l->missing)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: device %s has no kernel for it and it has no decomposition", def->name,
                       (is_other(at) ? l->other : l->device)->backend->name);
    for (int k = 0; k < n; k++)
        if (support.dense >> (k < 31 ? k : 31) & 1) in[k] = make_dense(l, in[k]);
    mica_array x = record_op(l, at, node->op, node->attr, in, n, support.yes);
    *out = x;
    for (int i = 0; i < def->n_out; i++)
        out[i] = set_level(l, mc_record_part(l->to, x, i), at);
    return mica_scope_status(l->to);
}

/* ---- graphs ---- */

/* What the nodes of a trace became, by ordinal: [n_nodes]. */
typedef struct made_nodes {
    mica_array *first;    /* the result, or the first of several */
    mica_array **several; /* of an op of several results, all of them */
} made_nodes;

static mica_status make_lists(lowering *l, const mc_trace *trace, made_nodes *made) {
    made->first = mc_arena_alloc(&l->arena, trace->n_nodes * sizeof *made->first);
    made->several = mc_arena_alloc(&l->arena, trace->n_nodes * sizeof *made->several);
    return made->first && made->several ? MICA_OK : mc_fail_nomem("lowering a graph");
}

/* Lowers an op of several results. */
static mica_status lower_several(lowering *l, const mc_node *node, mica_array *in, int depth,
                                 mica_array **results) {
    int n = mc_node_n_out(node);
    *results = mc_arena_alloc(&l->arena, (size_t)n * sizeof **results);
    return *results ? lower_op(l, node, in, depth, *results) : mc_fail_nomem("lowering a graph");
}

/* Lowers the nodes of a trace; made has the leaves' arrays. */
static mica_status lower_nodes(lowering *l, const mc_trace *trace, made_nodes *made, int depth) {
    uint32_t max = 1;
    for (uint32_t i = 0; i < trace->n_nodes; i++) {
        uint32_t n = mc_scope_node(trace->scope, trace->nodes[i])->n_in;
        if (n > max) max = n;
    }
    mica_array *in = mc_arena_alloc(&l->arena, max * sizeof *in);
    if (!in) return mc_fail_nomem("lowering a graph");
    for (uint32_t i = 0; i < trace->n_nodes; i++) {
        const mc_node *node = mc_scope_node(trace->scope, trace->nodes[i]);
        if (mc_is_leaf(node)) continue;
        if (depth == 0) {
            l->node = node;
            l->number = trace->nodes[i];
        }
        if (node->op == MC_OP_PART) {
            const mc_attr_part *part = node->attr;
            made->first[i] = made->several[trace->ordinal[node->in[0]]][part->index];
            continue;
        }
        for (uint32_t k = 0; k < node->n_in; k++)
            in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : made->first[trace->ordinal[node->in[k]]];
        MC_TRY(node->results ? lower_several(l, node, in, depth, &made->several[i])
                             : lower_op(l, node, in, depth, &made->first[i]));
    }
    return MICA_OK;
}

/* A constant of a decomposition, or one of its operands: leaf i of its scope. */
static mica_array leaf_of_decomposition(lowering *l, const mc_node *leaf, const mica_array *in) {
    if (leaf->param) return in[leaf->value];
    if (!leaf->scalar) /* an executable holds no storage: its device owns it */
        return mc_scope_fail(l->to, MICA_EINTERNAL, "a decomposition made an array from data");
    return mc_scalar_bits(l->to, leaf->layout.dtype, leaf->value);
}

static mica_status check_decomposition(const mc_node *node, const mica_array *xs, uint32_t n_out) {
    const mc_layout *want = mc_node_results(node);
    for (uint32_t i = 0; i < n_out; i++) {
        const mc_layout *got = mc_layout_of(xs[i]);
        if (!got || got->dtype != want[i].dtype || !mc_layout_same_shape(got, &want[i]))
            return mc_fail(MICA_EINTERNAL, "%s: its decomposition gives another shape, or nothing",
                           mc_op_get(node->op)->name);
    }
    return MICA_OK;
}

/* Records the decomposition in a scope of its own, over parameters, and lowers that. */
static mica_status decompose_in(lowering *l, mica_scope *s, const mc_node *node,
                                const mica_array *in, int depth, mica_array *out) {
    const mc_op_def *def = mc_op_get(node->op);
    uint32_t n_out = (uint32_t)mc_op_n_out(def);
    mc_trace trace = {0};
    mica_array *params = mc_arena_alloc(&l->arena, node->n_in * sizeof *params);
    mica_array *xs = mc_arena_calloc(&l->arena, n_out * sizeof *xs);
    if (!params || !xs) return mc_fail_nomem("lowering a graph");
    for (uint32_t k = 0; k < node->n_in; k++) {
        params[k] = mica_valid(in[k]) ? mc_leaf_param(s, mc_layout_of(in[k]), false) : MICA_NONE;
        if (mica_valid(params[k])) mc_node_of(params[k])->value = k;
    }
    def->decompose(s, node->attr, params, (int)node->n_in, xs);
    MC_TRY(mica_scope_status(s));
    MC_TRY(check_decomposition(node, xs, n_out));
    mica_status status = mc_trace_make(&trace, &l->arena, s, xs, n_out);
    made_nodes made;
    if (status == MICA_OK) status = make_lists(l, &trace, &made);
    for (uint32_t i = 0; status == MICA_OK && i < trace.n_leaves; i++) {
        mica_array leaf = leaf_of_decomposition(l, mc_scope_node(s, trace.leaves[i]), in);
        made.first[trace.ordinal[trace.leaves[i]]] = leaf;
        if (!mica_valid(leaf)) status = mica_scope_status(l->to);
    }
    if (status == MICA_OK) status = lower_nodes(l, &trace, &made, depth + 1);
    for (uint32_t i = 0; status == MICA_OK && i < n_out; i++)
        out[i] = made.first[trace.targets[i]];
    mc_buffer_deinit(&trace.key);
    return status;
}

static mica_status decompose(lowering *l, op_level at, const mc_node *node, const mica_array *in,
                             int depth, mica_array *out) {
    mica_scope *s;
    const uint32_t outer = l->level;
    if (depth == MAX_DEPTH)
        return mc_fail(MICA_EINTERNAL, "decompositions nest more than %d deep", MAX_DEPTH);
    MC_TRY(mc_scope_open(l->device, &s));
    l->level = at.level;
    mica_status status = decompose_in(l, s, node, in, depth, out);
    l->level = outer;
    mica_scope_close(&s);
    return status;
}

/* Parameter i of the lowered graph: leaf i of the trace. */
static mica_array copy_leaf(lowering *l, mc_lowered *lowered, const mc_trace *trace, uint32_t i) {
    const mc_node *leaf = mc_scope_node(trace->scope, trace->leaves[i]);
    mc_lowered_param *param = &lowered->params[i];
    *param = (mc_lowered_param){.scalar = mc_is_scalar(leaf), .donated = leaf->movable};
    param->fallback = l->other && !param->scalar && mc_leaf_falls_back(leaf);
    param->fixed = !leaf->param && !leaf->movable && !param->scalar;
    if (trace->constants && param->fixed) {
        param->constant = leaf->storage;
        param->offset_bytes = leaf->offset_bytes;
    }
    if (param->scalar) param->index = lowered->n_scalars++;
    mica_array x = mc_leaf_param(lowered->graph, &leaf->layout, false);
    if (mica_valid(x)) mc_node_of(x)->value = i;
    const op_level at = {.level = param->fallback, .fixed = param->fallback || !leaf->param};
    return param->scalar ? x : set_level(l, x, at);
}

/* Whether a result, or what it looks at, was made on the fallback because of what that reads, or
 * lies there. */
static bool stays(const lowering *l, mica_array x) {
    return l->other && is_other(level_at(l, x.node));
}

static mica_status lower(lowering *l, const mc_trace *trace, mc_lowered *lowered) {
    made_nodes made;
    MC_TRY(make_lists(l, trace, &made));
    l->to = lowered->graph;
    for (uint32_t i = 0; i < trace->n_leaves; i++) {
        mica_array leaf = copy_leaf(l, lowered, trace, i);
        made.first[trace->ordinal[trace->leaves[i]]] = leaf;
        if (!mica_valid(leaf)) return mica_scope_status(l->to);
    }
    MC_TRY(lower_nodes(l, trace, &made, 0));
    for (uint32_t i = 0; i < trace->n_targets; i++) {
        mica_array x = made.first[trace->targets[i]];
        if (trace->dense_results) x = make_dense(l, x);
        if (!mica_valid(x)) return mica_scope_status(l->to);
        lowered->results[i] = x.node;
        lowered->stays[i] = stays(l, x);
    }
    return MICA_OK;
}

mica_status mc_lower_ops(mica_device *device, const mc_trace *trace, mc_lowered **lowered,
                         mc_buffer *fallback) {
    lowering l = {.device = device, .fallback = fallback, .complete = device->backend->complete};
    mc_buffer_clear(fallback);
    if (trace->placed && !l.complete) MC_TRY(mc_device_fallback(device, &l.other));
    l.level = l.other && trace->falls_back;
    MC_TRY(mc_lowered_new(device, trace->n_leaves, trace->n_targets, lowered));
    (*lowered)->passes_off = trace->passes_off;
    (*lowered)->mode = trace->mode;
    mica_status status = lower(&l, trace, *lowered);
    mc_arena_deinit(&l.arena);
    mc_buffer_deinit(&l.levels);
    (*lowered)->n_placed = l.n_placed;
    if (status != MICA_OK) {
        mc_lowered_free(*lowered);
        *lowered = NULL;
    }
    return status;
}

/* ---- what a device lacks ---- */

/* Lowers what results need, for what is added to the list. */
static mica_status list_missing(lowering *l, mica_scope *s, const mica_array *results, size_t n) {
    mc_lowered *lowered = NULL;
    mc_trace trace = {0};
    mica_status status = mc_trace_make(&trace, &l->arena, s, results, n);
    if (status == MICA_OK)
        status = mc_lowered_new(l->device, trace.n_leaves, trace.n_targets, &lowered);
    if (status == MICA_OK) status = lower(l, &trace, lowered);
    mc_lowered_free(lowered);
    mc_buffer_deinit(&trace.key);
    return status;
}

/* The same of a subgraph of the node at hand. */
static mica_status list_subgraph(const lowering *outer, const mc_subgraph *g) {
    lowering l = {.device = outer->device,
                  .fallback = outer->fallback,
                  .missing = outer->missing,
                  .outer = outer};
    mica_array *results = mc_arena_alloc(&l.arena, g->n_results * sizeof *results);
    mica_status status = results ? MICA_OK : mc_fail_nomem("lowering a graph");
    for (uint32_t i = 0; status == MICA_OK && i < g->n_results; i++)
        results[i] = (mica_array){g->graph, g->results[i]};
    if (status == MICA_OK) status = list_missing(&l, g->graph, results, g->n_results);
    mc_arena_deinit(&l.arena);
    return status;
}

static mica_status list_subgraphs(lowering *l, const mc_node *node) {
    for (const mc_attr_field *f = mc_op_get(node->op)->attr_fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH) MC_TRY(list_subgraph(l, mc_attr_graph(node->attr, f)));
    return MICA_OK;
}

mica_status mc_lower_check(mica_device *device, mica_scope *s, const mica_array *results,
                           size_t n) {
    mc_buffer fallback = {0};
    missing list = {0};
    lowering l = {.device = device, .fallback = &fallback, .missing = &list};
    mica_status status = list_missing(&l, s, results, n);
    if (status == MICA_OK && list.count > 0 && !mc_buffer_cstr(&list.text))
        status = mc_fail_nomem("lowering a graph");
    if (status == MICA_OK && list.count > 0)
        status = mc_fail(MICA_EUNSUPPORTED,
                         "device %s has neither a kernel nor a decomposition for %zu ops: %s",
                         device->backend->name, list.count, list.text.data);
    mc_buffer_deinit(&list.text);
    mc_buffer_deinit(&fallback);
    mc_arena_deinit(&l.arena);
    return status;
}
