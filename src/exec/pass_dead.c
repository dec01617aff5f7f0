/* The dead pass: control flow without what nobody reads.
 *
 * What a graph computes that no result needs is never recorded again, in any pass; this one makes
 * nodes of control flow smaller. Of IF, results may go; of SCAN, the stacked ones: what it carries
 * is computed in any case, as are all results of WHILE. Operands go that no subgraph reads, but for
 * those that are carried. */
#include "exec/pass.h"
#include "graph/subgraph.h"

mica_status mc_dead_open(mc_copying *c, mc_dead *dead) {
    dead->place = mc_arena_calloc(c->arena, (c->count + 1) * sizeof *dead->place);
    return dead->place ? MICA_OK : mc_fail_nomem("a pass");
}

/* A node of control flow, and what stays of it. */
typedef struct trimming {
    const mc_node *node;
    const mc_subgraph *graphs[2]; /* the second may be NULL */
    uint32_t first;               /* operand that is parameter 0 */
    uint32_t n_params, n_results;
    bool *params;  /* [n_params] stays */
    bool *results; /* [n_results] stays */
} trimming;

static mica_status open_trimming(mc_copying *c, const mc_node *node, trimming *t) {
    const mc_op_def *def = mc_op_get(node->op);
    int n = 0;
    *t = (trimming){.node = node, .first = (uint32_t)mc_control_first(node->op)};
    for (const mc_attr_field *f = def->attr_fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH) t->graphs[n++] = mc_attr_graph(node->attr, f);
    t->n_params = node->n_in - t->first;
    t->n_results = (uint32_t)mc_node_n_out(node);
    t->params = mc_arena_calloc(c->arena, t->n_params + 1);
    t->results = mc_arena_calloc(c->arena, t->n_results + 1);
    return t->params && t->results ? MICA_OK : mc_fail_nomem("a pass");
}

/* Results that are carried, or that something reads. */
static void find_results(const mc_copying *c, uint32_t i, trimming *t) {
    uint32_t carried = 0;
    if (t->node->op == MC_OP_WHILE) carried = t->n_results;
    if (t->node->op == MC_OP_SCAN)
        carried = (uint32_t)((const mc_attr_scan_over *)t->node->attr)->n_carried;
    for (uint32_t k = 0; k < carried; k++)
        t->results[k] = true;
    for (uint32_t j = i + 1; j < c->count; j++) {
        const mc_node *part = mc_scope_node(c->from, j);
        if (c->needed[j] && part->op == MC_OP_PART && part->in[0] == i)
            t->results[((const mc_attr_part *)part->attr)->index] = true;
    }
}

/* Parameters that the results that stay need. The condition of WHILE has a result of its own. */
static mica_status find_params(mc_copying *c, const mc_subgraph *g, trimming *t) {
    uint32_t count = mc_scope_count(g->graph);
    bool *needed = mc_arena_calloc(c->arena, count + 1);
    if (!needed) return mc_fail_nomem("a pass");
    for (uint32_t i = 0; i < g->n_results; i++)
        if (t->node->op == MC_OP_WHILE || t->results[i]) needed[g->results[i]] = true;
    for (uint32_t i = count; i-- > 0;) {
        const mc_node *node = mc_scope_node(g->graph, i);
        for (uint32_t k = 0; needed[i] && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) needed[node->in[k]] = true;
    }
    for (uint32_t i = 0; i < t->n_params; i++)
        t->params[i] = t->params[i] || needed[i];
    return MICA_OK;
}

static mica_status find_what_stays(mc_copying *c, uint32_t i, trimming *t) {
    uint32_t carried = t->node->op == MC_OP_WHILE ? t->n_results - 1 : 0;
    find_results(c, i, t);
    if (t->node->op == MC_OP_SCAN)
        carried = (uint32_t)((const mc_attr_scan_over *)t->node->attr)->n_carried;
    for (uint32_t k = 0; k < carried; k++)
        t->params[k] = true;
    for (int g = 0; g < 2 && t->graphs[g]; g++)
        MC_TRY(find_params(c, t->graphs[g], t));
    return MICA_OK;
}

static uint32_t count(const bool *marks, uint32_t n) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += marks[i];
    return sum;
}

/* A subgraph with the parameters and results that stay. */
static mica_status trim_graph(mc_copying *c, const trimming *t, const mc_subgraph *g,
                              const mc_subgraph **out) {
    mica_array *params = mc_arena_alloc(c->arena, (t->n_params + 1) * sizeof *params);
    mica_array *results = mc_arena_alloc(c->arena, (g->n_results + 1) * sizeof *results);
    mc_layout *layouts = mc_arena_alloc(c->arena, (t->n_params + 1) * sizeof *layouts);
    size_t n = 0, m = 0;
    if (!params || !results || !layouts) return mc_fail_nomem("a pass");
    for (uint32_t i = 0; i < t->n_params; i++) {
        if (!t->params[i]) continue;
        layouts[n] = *mc_subgraph_param(g, i);
        params[n++] = (mica_array){g->graph, i};
    }
    for (uint32_t i = 0; i < g->n_results; i++)
        if (t->node->op == MC_OP_WHILE || t->results[i])
            results[m++] = (mica_array){g->graph, g->results[i]};
    return mc_subgraph_make(g->graph, params, layouts, n, results, m, out);
}

/* Attributes over the smaller subgraphs. */
typedef union control_attr {
    mc_attr_if branches;
    mc_attr_while loop;
    mc_attr_scan_over scan;
} control_attr;

static control_attr trim_attr(const trimming *t, const mc_subgraph *const *graphs) {
    control_attr a;
    if (t->node->op == MC_OP_IF) {
        a.branches = *(const mc_attr_if *)t->node->attr;
        a.branches.then_graph.graph = graphs[0];
        a.branches.else_graph.graph = graphs[1];
    } else if (t->node->op == MC_OP_WHILE) {
        a.loop = *(const mc_attr_while *)t->node->attr;
        a.loop.cond.graph = graphs[0];
        a.loop.body.graph = graphs[1];
    } else {
        a.scan = *(const mc_attr_scan_over *)t->node->attr;
        a.scan.body.graph = graphs[0];
        a.scan.n_xs = count(t->params + a.scan.n_carried, (uint32_t)a.scan.n_xs);
    }
    return a;
}

/* Records the node that stays of a node, over the operands that do. */
static mica_array record_trimmed(mc_copying *c, const trimming *t, const mica_array *in) {
    const mc_subgraph *graphs[2] = {NULL, NULL};
    mica_status status = MICA_OK;
    mica_array *kept = mc_arena_alloc(c->arena, (t->node->n_in + 1) * sizeof *kept);
    uint32_t n = 0;
    if (!kept) status = mc_fail_nomem("a pass");
    for (int g = 0; g < 2 && t->graphs[g] && status == MICA_OK; g++)
        status = trim_graph(c, t, t->graphs[g], &graphs[g]);
    for (uint32_t k = 0; k < t->node->n_in && status == MICA_OK; k++)
        if (k < t->first || t->params[k - t->first]) kept[n++] = in[k];
    mica_array x = MICA_NONE;
    if (status == MICA_OK) {
        control_attr attr = trim_attr(t, graphs);
        x = mc_record(c->to, t->node->op, &attr, kept, (int)n);
    } else {
        x = mc_scope_fail(c->to, status, "%s", mica_last_error());
    }
    for (int g = 0; g < 2; g++)
        mc_subgraph_release(graphs[g]);
    return x;
}

/* What the number of each result that stays is. */
static uint32_t *number_results(mc_copying *c, const trimming *t) {
    uint32_t *place = mc_arena_alloc(c->arena, (t->n_results + 1) * sizeof *place), n = 0;
    for (uint32_t i = 0; place && i < t->n_results; i++)
        place[i] = t->results[i] ? n++ : MC_ABSENT;
    return place;
}

static mica_array record_part(mc_copying *c, const mc_dead *dead, uint32_t i, mica_array in) {
    const mc_node *part = mc_scope_node(c->from, i);
    const uint32_t *place = dead->place[part->in[0]];
    if (!place) return mc_pass_keep(c, i, &in);
    return mc_record_part(c->to, in, (int)place[((const mc_attr_part *)part->attr)->index]);
}

mica_array mc_dead_record(mc_copying *c, void *pass, uint32_t i, mica_array *in) {
    const mc_node *node = mc_scope_node(c->from, i);
    mc_dead *dead = pass;
    trimming t;
    if (node->op == MC_OP_PART) return record_part(c, dead, i, in[0]);
    if (!mc_op_is_control(mc_op_get(node->op))) return mc_pass_keep(c, i, in);
    mica_status status = open_trimming(c, node, &t);
    if (status == MICA_OK) status = find_what_stays(c, i, &t);
    if (status != MICA_OK) return mc_scope_fail(c->to, status, "%s", mica_last_error());
    uint32_t gone =
        t.n_results - count(t.results, t.n_results) + t.n_params - count(t.params, t.n_params);
    if (gone == 0) return mc_pass_keep(c, i, in);
    dead->place[i] = number_results(c, &t);
    if (!dead->place[i]) return mc_scope_fail(c->to, MICA_ENOMEM, "out of memory: a pass");
    *c->changed += gone;
    return record_trimmed(c, &t, in);
}
