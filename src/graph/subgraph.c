#include "graph/subgraph.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

/* ---- copying nodes ---- */

/* Nodes of one scope, and what they become in another. */
typedef struct copying {
    mica_scope *from, *to;
    uint32_t count;   /* nodes of from */
    mica_array *made; /* [count] */
    bool *needed;     /* [count] */
    uint32_t *place;  /* [count + 1] how many nodes `to` had before the node */
    mc_arena arena;
} copying;

static mica_status open_copying(copying *c) {
    c->count = mc_scope_count(c->from);
    c->made = mc_arena_calloc(&c->arena, ((size_t)c->count + 1) * sizeof *c->made);
    c->needed = mc_arena_calloc(&c->arena, (size_t)c->count + 1);
    c->place = mc_arena_calloc(&c->arena, ((size_t)c->count + 1) * sizeof *c->place);
    return c->made && c->needed && c->place ? MICA_OK : mc_fail_nomem("a subgraph");
}

static bool need(copying *c, mica_array x) {
    bool more = !c->needed[x.node];
    c->needed[x.node] = true;
    return more;
}

/* A rule of the caller's for a gradient needs its arguments and results, whatever else does.
 * Whether it needs more than was needed before: that may be nodes of other rules. */
static bool need_regions(copying *c) {
    bool more = false;
    for (const mc_region *r = mc_scope_regions(c->from); r; r = r->older) {
        bool any = false;
        for (uint32_t i = r->begin; i < r->end; i++)
            any = any || c->needed[i];
        for (size_t i = 0; any && i < r->n_args; i++)
            more |= need(c, r->args[i]);
        for (size_t i = 0; any && i < r->n_results; i++)
            more |= need(c, r->results[i]);
    }
    return more;
}

static void need_operands(copying *c) {
    for (uint32_t i = c->count; i-- > 0;) {
        const mc_node *node = mc_scope_node(c->from, i);
        for (uint32_t k = 0; c->needed[i] && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) c->needed[node->in[k]] = true;
    }
}

static mica_array copy_leaf(copying *c, const mc_node *node, uint32_t i) {
    if (node->scalar) return mc_scalar_like(c->to, node);
    return mc_scope_fail(c->to, MICA_EINVAL,
                         "a subgraph needs the %s %%%u, which is no parameter of it",
                         node->param ? "parameter" : "data of", i);
}

static mica_status copy_node(copying *c, uint32_t i) {
    const mc_node *node = mc_scope_node(c->from, i);
    mica_array *in = mc_arena_alloc(&c->arena, (node->n_in + 1) * sizeof *in);
    if (!in) return mc_fail_nomem("a subgraph");
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : c->made[node->in[k]];
    c->made[i] = node->op == MC_OP_LEAF
                     ? copy_leaf(c, node, i)
                     : mc_record(c->to, node->op, node->attr, in, (int)node->n_in);
    if (!mica_valid(c->made[i])) return mica_scope_status(c->to);
    return MICA_OK;
}

static mica_status copy_region(copying *c, const mc_region *r) {
    mc_region copy = *r;
    mica_array *args = mc_arena_alloc(&c->arena, (r->n_args + 1) * sizeof *args);
    mica_array *results = mc_arena_alloc(&c->arena, (r->n_results + 1) * sizeof *results);
    if (!args || !results) return mc_fail_nomem("a subgraph");
    copy.begin = c->place[r->begin];
    copy.end = c->place[r->end];
    if (copy.begin == copy.end) return MICA_OK;
    for (size_t i = 0; i < r->n_args; i++)
        args[i] = c->made[r->args[i].node];
    for (size_t i = 0; i < r->n_results; i++)
        results[i] = c->made[r->results[i].node];
    copy.args = args;
    copy.results = results;
    return mc_scope_add_region(c->to, &copy);
}

/* The oldest first. */
static mica_status copy_regions(copying *c) {
    size_t n = 0;
    for (const mc_region *r = mc_scope_regions(c->from); r; r = r->older)
        n++;
    const mc_region **list = mc_arena_alloc(&c->arena, (n + 1) * sizeof(const mc_region *));
    if (!list) return mc_fail_nomem("a subgraph");
    n = 0;
    for (const mc_region *r = mc_scope_regions(c->from); r; r = r->older)
        list[n++] = r;
    while (n > 0)
        MC_TRY(copy_region(c, list[--n]));
    return MICA_OK;
}

/* Copies what is needed and is not made yet. */
static mica_status copy_needed(copying *c) {
    do
        need_operands(c);
    while (need_regions(c));
    for (uint32_t i = 0; i < c->count; i++) {
        c->place[i] = mc_scope_count(c->to);
        if (c->needed[i] && !mica_valid(c->made[i])) MC_TRY(copy_node(c, i));
    }
    c->place[c->count] = mc_scope_count(c->to);
    return copy_regions(c);
}

/* ---- keys ---- */

bool mc_add_attr_key(mc_buffer *key, const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    if (!mc_op_is_control(def)) return mc_buffer_add(key, node->attr, node->attr_bytes);
    bool ok = true;
    for (const mc_attr_field *f = def->attr_fields; ok && f->name; f++) {
        if (f->kind != MC_ATTR_GRAPH) {
            ok = mc_buffer_add(key, (const uint64_t *)node->attr + f->at, sizeof(uint64_t));
            continue;
        }
        const mc_subgraph *g = mc_attr_graph(node->attr, f);
        uint64_t bytes = g->key.len;
        ok =
            mc_buffer_add(key, &bytes, sizeof bytes) && mc_buffer_add(key, g->key.data, g->key.len);
    }
    return ok;
}

/* The first word tells how many follow. */
static bool add_node_key(mc_buffer *key, const mc_node *node) {
    const mc_layout *l = &node->layout;
    uint64_t head = (uint64_t)node->op | (uint64_t)l->dtype << 16 | (uint64_t)l->ndim << 24 |
                    (uint64_t)node->scalar << 30 | (uint64_t)node->n_in << 32;
    bool ok = mc_buffer_add(key, &head, sizeof head) &&
              mc_buffer_add(key, l->shape, (size_t)l->ndim * sizeof *l->shape) &&
              mc_buffer_add(key, node->in, node->n_in * sizeof *node->in);
    if (node->scalar)
        ok = ok && mc_buffer_add(key, &node->value, sizeof node->value) &&
             mc_buffer_add(key, &node->length, sizeof node->length);
    return ok && mc_add_attr_key(key, node);
}

static bool add_key(mc_subgraph *g) {
    const uint64_t counts[3] = {g->n_params, mc_scope_count(g->graph), g->n_results};
    bool ok = mc_buffer_add(&g->key, counts, sizeof counts);
    for (uint32_t i = 0; ok && i < counts[1]; i++)
        ok = add_node_key(&g->key, mc_scope_node(g->graph, i));
    return ok && mc_buffer_add(&g->key, g->results, g->n_results * sizeof *g->results);
}

mica_status mc_control_charge(uint64_t *bytes, mc_op op, const void *attr) {
    const mc_op_def *def = mc_op_get(op);
    if (!mc_op_is_control(def)) return MICA_OK;
    *bytes += (uint64_t)def->count_out(attr) * sizeof(mc_layout);
    for (const mc_attr_field *f = def->attr_fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH && mc_attr_graph(attr, f))
            *bytes += mc_attr_graph(attr, f)->key.len;
    if (*bytes <= MC_CONTROL_BYTES) return MICA_OK;
    return mc_fail(MICA_EINVAL, "control flow takes more than %d bytes", MC_CONTROL_BYTES);
}

/* ---- making ---- */

/* How deep it is, and how many nodes it has. */
static mica_status measure(mc_subgraph *g) {
    uint64_t nodes = mc_scope_count(g->graph);
    g->depth = 1;
    for (uint32_t i = 0; i < mc_scope_count(g->graph); i++) {
        const mc_node *node = mc_scope_node(g->graph, i);
        const mc_op_def *def = mc_op_get(node->op);
        for (const mc_attr_field *f = def->attr_fields; mc_op_is_control(def) && f->name; f++) {
            if (f->kind != MC_ATTR_GRAPH) continue;
            const mc_subgraph *inner = mc_attr_graph(node->attr, f);
            if (inner->depth >= g->depth) g->depth = inner->depth + 1;
            nodes += inner->n_nodes;
        }
    }
    if (g->depth > MC_SUBGRAPH_DEPTH)
        return mc_fail(MICA_EINVAL, "control flow nests more than %d deep", MC_SUBGRAPH_DEPTH);
    if (nodes > MC_SUBGRAPH_NODES)
        return mc_fail(MICA_EINVAL, "control flow has more than %d nodes", MC_SUBGRAPH_NODES);
    g->n_nodes = (uint32_t)nodes;
    return MICA_OK;
}

static mica_status add_params(copying *c, const mica_array *params, const mc_layout *layouts,
                              size_t n) {
    for (size_t i = 0; i < n; i++) {
        mc_layout layout = mica_valid(params[i]) ? *mc_layout_of(params[i]) : layouts[i];
        mc_layout_set_dense(&layout);
        mica_array leaf = mc_leaf_param(c->to, &layout, false);
        if (!mica_valid(leaf)) return mica_scope_status(c->to);
        if (mica_valid(params[i])) c->made[params[i].node] = leaf;
    }
    return MICA_OK;
}

static mica_status fill(mc_subgraph *g, copying *c, const mica_array *params,
                        const mc_layout *layouts, const mica_array *results) {
    MC_TRY(mc_scope_open(mica_scope_device(c->from), &g->graph));
    mc_scope_expect_few(g->graph);
    MC_TRY(mc_scope_take_symbols(g->graph, c->from));
    c->to = g->graph;
    MC_TRY(open_copying(c));
    MC_TRY(add_params(c, params, layouts, g->n_params));
    for (size_t i = 0; i < g->n_results; i++)
        c->needed[results[i].node] = true;
    MC_TRY(copy_needed(c));
    g->results = mc_array_alloc(g->n_results, sizeof *g->results);
    if (!g->results) return mc_fail_nomem("a subgraph");
    for (size_t i = 0; i < g->n_results; i++)
        g->results[i] = c->made[results[i].node].node;
    MC_TRY(measure(g));
    return add_key(g) ? MICA_OK : mc_fail_nomem("a subgraph");
}

mica_status mc_subgraph_make(mica_scope *from, const mica_array *params, const mc_layout *layouts,
                             size_t n_params, const mica_array *results, size_t n_results,
                             const mc_subgraph **subgraph) {
    copying c = {.from = from};
    *subgraph = NULL;
    if (n_params > MC_SUBGRAPH_NODES || n_results > MC_SUBGRAPH_NODES)
        return mc_fail(MICA_EINVAL, "control flow has more than %d parameters or results",
                       MC_SUBGRAPH_NODES);
    mc_subgraph *g = mc_calloc(1, sizeof *g);
    if (!g) return mc_fail_nomem("a subgraph");
    atomic_init(&g->users, 1u);
    g->n_params = (uint32_t)n_params;
    g->n_results = (uint32_t)n_results;
    mica_status status = fill(g, &c, params, layouts, results);
    mc_arena_deinit(&c.arena);
    if (status == MICA_OK)
        *subgraph = g;
    else
        mc_subgraph_release(g);
    return status;
}

const mc_subgraph *mc_subgraph_retain(const mc_subgraph *g) {
    if (g) atomic_fetch_add_explicit((atomic_uint *)(uintptr_t)&g->users, 1, memory_order_relaxed);
    return g;
}

void mc_subgraph_release(const mc_subgraph *g) {
    mc_subgraph *own = (mc_subgraph *)(uintptr_t)g; /* only the count of users ever changes */
    if (!own || atomic_fetch_sub_explicit(&own->users, 1, memory_order_acq_rel) > 1) return;
    mica_scope_close(&own->graph);
    mc_buffer_deinit(&own->key);
    mc_free(own->results);
    mc_free(own);
}

/* ---- using ---- */

const mc_layout *mc_subgraph_param(const mc_subgraph *g, size_t i) {
    return &mc_scope_node(g->graph, (uint32_t)i)->layout;
}

const mc_layout *mc_subgraph_result(const mc_subgraph *g, size_t i) {
    return &mc_scope_node(g->graph, g->results[i])->layout;
}

mica_status mc_subgraph_record(const mc_subgraph *g, mica_scope *into, const mica_array *params,
                               mica_array *results) {
    copying c = {.from = g->graph, .to = into};
    mica_status status = open_copying(&c);
    for (uint32_t i = 0; status == MICA_OK && i < c.count; i++) {
        c.needed[i] = true;
        if (i < g->n_params) c.made[i] = params[i];
    }
    if (status == MICA_OK) status = copy_needed(&c);
    for (uint32_t i = 0; status == MICA_OK && i < g->n_results; i++)
        results[i] = c.made[g->results[i]];
    mc_arena_deinit(&c.arena);
    return status;
}

int mc_control_first(mc_op op) {
    return op == MC_OP_IF ? 1 : 0;
}

void mc_control_param(mc_op op, const void *attr, size_t i, const mc_layout *operand,
                      mc_layout *param) {
    *param = *operand;
    if (op == MC_OP_SCAN) {
        const mc_attr_scan_over *a = attr;
        if (i >= (size_t)a->n_carried && i < (size_t)(a->n_carried + a->n_xs)) {
            param->ndim--;
            memmove(param->shape, param->shape + 1, (size_t)param->ndim * sizeof *param->shape);
        }
    }
    mc_layout_set_dense(param);
}
