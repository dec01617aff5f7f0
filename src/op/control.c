/* Control flow: shape rules, and how functions become subgraphs. */
#include <mica/control.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/options.h"
#include "graph/subgraph.h"
#include "op/build.h"

/* The value of an attribute that is a subgraph. */
static mc_graph_ref ref_of(const mc_subgraph *g) {
    mc_graph_ref ref = {.word = 0};
    ref.graph = g;
    return ref;
}

/* ---- shape rules ---- */

static mica_status differ(mica_status status, const char *op, const char *what, size_t i,
                          const mc_layout *got, const mc_layout *want) {
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    return mc_fail(status, "%s: %s %zu is %s, want %s", op, what, i, mc_layout_text(got, a),
                   mc_layout_text(want, b));
}

static mica_status check_same(const char *op, const char *what, size_t i, const mc_layout *got,
                              const mc_layout *want) {
    if (got->dtype != want->dtype) return differ(MICA_EDTYPE, op, what, i, got, want);
    if (!mc_layout_same_shape(got, want)) return differ(MICA_ESHAPE, op, what, i, got, want);
    return MICA_OK;
}

static mica_status check_bool(const char *op, const char *what, const mc_layout *l) {
    char text[MC_LAYOUT_TEXT];
    if (l->dtype == MICA_BOOL && mc_layout_size(l) == 1) return MICA_OK;
    return mc_fail(l->dtype == MICA_BOOL ? MICA_ESHAPE : MICA_EDTYPE,
                   "%s: %s is %s, want bool of one element", op, what, mc_layout_text(l, text));
}

/* Whether the operands are what a subgraph has as parameters. */
static mica_status check_params(mc_op op, const void *attr, const mc_subgraph *g,
                                const mc_layout *const *in, int n_in) {
    const char *name = mc_op_get(op)->name;
    int first = mc_control_first(op);
    if (!g) return mc_fail(MICA_EINVAL, "%s: a subgraph is missing", name);
    if (n_in < first || (uint32_t)(n_in - first) != g->n_params)
        return mc_fail(MICA_EINVAL, "%s: %d operands for the %u parameters of a subgraph", name,
                       n_in - first, (unsigned)g->n_params);
    for (size_t i = 0; i < g->n_params; i++) {
        mc_layout is;
        mc_control_param(op, attr, i, in[(size_t)first + i], &is);
        MC_TRY(check_same(name, "operand", i, &is, mc_subgraph_param(g, i)));
    }
    return MICA_OK;
}

static int if_count(const void *attr) {
    const mc_attr_if *a = attr;
    return a->then_graph.graph ? (int)a->then_graph.graph->n_results : 0;
}

static mica_status if_infer(const void *attr, const mc_layout *const *in, int n_in,
                            mc_layout *out) {
    const mc_attr_if *a = attr;
    const mc_subgraph *yes = a->then_graph.graph, *no = a->else_graph.graph;
    MC_TRY(check_bool("if", "the condition", in[0]));
    MC_TRY(check_params(MC_OP_IF, attr, yes, in, n_in));
    MC_TRY(check_params(MC_OP_IF, attr, no, in, n_in));
    if (yes->n_results != no->n_results || yes->n_results == 0)
        return mc_fail(MICA_EINVAL, "if: the branches give %u and %u results",
                       (unsigned)yes->n_results, (unsigned)no->n_results);
    for (size_t i = 0; i < yes->n_results; i++) {
        MC_TRY(check_same("if", "the other branch's result", i, mc_subgraph_result(no, i),
                          mc_subgraph_result(yes, i)));
        out[i] = *mc_subgraph_result(yes, i);
    }
    return MICA_OK;
}

static int while_count(const void *attr) {
    const mc_attr_while *a = attr;
    return a->body.graph ? (int)a->body.graph->n_results + 1 : 0;
}

static mica_status while_infer(const void *attr, const mc_layout *const *in, int n_in,
                               mc_layout *out) {
    const mc_attr_while *a = attr;
    const mc_subgraph *cond = a->cond.graph, *body = a->body.graph;
    MC_TRY(check_params(MC_OP_WHILE, attr, cond, in, n_in));
    MC_TRY(check_params(MC_OP_WHILE, attr, body, in, n_in));
    if (cond->n_results != 1)
        return mc_fail(MICA_EINVAL, "while: the condition gives %u results",
                       (unsigned)cond->n_results);
    MC_TRY(check_bool("while", "the condition", mc_subgraph_result(cond, 0)));
    if (body->n_results == 0 || body->n_results > (uint32_t)n_in)
        return mc_fail(MICA_EINVAL, "while: %u carried values of %d operands",
                       (unsigned)body->n_results, n_in);
    if (a->max_rounds < 0 || a->max_rounds > INT32_MAX)
        return mc_fail(MICA_EINVAL, "while: max_rounds is %lld; 0 to 2^31 - 1 are possible",
                       (long long)a->max_rounds);
    for (size_t i = 0; i < body->n_results; i++) {
        MC_TRY(check_same("while", "the body's result", i, mc_subgraph_result(body, i), in[i]));
        out[i] = *mc_subgraph_result(body, i);
    }
    out[body->n_results] = (mc_layout){.dtype = MICA_I32};
    return MICA_OK;
}

static int scan_count(const void *attr) {
    const mc_attr_scan_over *a = attr;
    return a->body.graph ? (int)a->body.graph->n_results : 0;
}

static mica_status check_scan(const mc_attr_scan_over *a, const mc_layout *const *in, int n_in) {
    if (a->length < 0 || a->checkpoints < 0)
        return mc_fail(MICA_EINVAL, "scan: length is %lld, checkpoints is %lld",
                       (long long)a->length, (long long)a->checkpoints);
    if (a->n_carried < 0 || a->n_carried > n_in || a->n_xs < 0 || a->n_xs > n_in - a->n_carried)
        return mc_fail(MICA_EINVAL, "scan: %lld carried values and %lld xs of %d operands",
                       (long long)a->n_carried, (long long)a->n_xs, n_in);
    for (int64_t i = 0; i < a->n_xs; i++) {
        const mc_layout *x = in[a->n_carried + i];
        char text[MC_LAYOUT_TEXT];
        if (x->ndim > 0 && x->shape[0] == a->length) continue;
        return mc_fail(MICA_ESHAPE, "scan: x %lld is %s, want %lld rows", (long long)i,
                       mc_layout_text(x, text), (long long)a->length);
    }
    return MICA_OK;
}

static mica_status scan_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    const mc_attr_scan_over *a = attr;
    const mc_subgraph *body = a->body.graph;
    MC_TRY(check_scan(a, in, n_in));
    MC_TRY(check_params(MC_OP_SCAN, attr, body, in, n_in));
    if (body->n_results == 0 || body->n_results < (uint64_t)a->n_carried)
        return mc_fail(MICA_EINVAL, "scan: the body gives %u results, and %lld values are carried",
                       (unsigned)body->n_results, (long long)a->n_carried);
    for (size_t i = 0; i < body->n_results; i++) {
        const mc_layout *l = mc_subgraph_result(body, i);
        out[i] = *l;
        if (i < (size_t)a->n_carried) {
            MC_TRY(check_same("scan", "the body's result", i, l, in[i]));
            continue;
        }
        int64_t shape[MICA_MAX_NDIM + 1] = {a->length};
        memcpy(shape + 1, l->shape, (size_t)l->ndim * sizeof *shape);
        MC_TRY(mc_set_result("scan", &out[i], l->dtype, shape, l->ndim + 1));
    }
    return MICA_OK;
}

MC_OP(if, 1, INT_MAX, .variadic = true, MC_ATTR(if), .infer = if_infer, .count_out = if_count);
MC_OP(while, 1, INT_MAX, .variadic = true, MC_ATTR(while), .infer = while_infer,
      .count_out = while_count);
MC_OP(scan, 1, INT_MAX, .variadic = true, MC_ATTR(scan_over), .infer = scan_infer,
      .count_out = scan_count);

/* ---- functions ---- */

/* A function that was recorded into a scope within another. */
typedef struct recorded {
    mica_scope *s;
    size_t n_params, n_results;
    mica_array *params;  /* [n_params] of s */
    mica_array *results; /* [n_results] of s */
} recorded;

static mica_status call_fn(recorded *b, mica_compile_fn fn, void *user) {
    for (size_t i = 0; i < b->n_results; i++)
        b->results[i] = mc_invalid(b->s);
    MC_TRY(mc_scope_begin_recording(b->s));
    mica_status status = fn(user, b->s, b->params, b->n_params, b->results, b->n_results);
    mc_scope_end_recording(b->s);
    return status;
}

/* Calls fn over parameters of these layouts. The caller ends the body, after an error too, before
 * it uses `outer` again.
 *
 *  what    the op's name, for errors
 *  arena   memory of the lists
 *  errors  those of fn; MICA_EINVAL a result is invalid; MICA_ENOMEM */
static mica_status record_body(mica_scope *outer, const char *what, mica_compile_fn fn, void *user,
                               const mc_layout *params, size_t n_params, size_t n_results,
                               mc_arena *arena, recorded *b) {
    *b = (recorded){.n_params = n_params, .n_results = n_results};
    b->params = mc_arena_alloc(arena, n_params * sizeof *b->params);
    b->results = mc_arena_alloc(arena, n_results * sizeof *b->results);
    if (!b->params || !b->results) return mc_fail_nomem("recording a function");
    MC_TRY(mc_scope_open_within(outer, &b->s));
    for (size_t i = 0; i < n_params; i++)
        b->params[i] = mc_leaf_param(b->s, &params[i], false);
    MC_TRY(mica_scope_status(b->s));
    MC_TRY(call_fn(b, fn, user));
    MC_TRY(mica_scope_status(b->s));
    for (size_t i = 0; i < n_results; i++) {
        char text[96];
        snprintf(text, sizeof text, "%.24s: result %zu of a function", what, i);
        MC_TRY(mc_check_valid(b->results[i], text));
        MC_TRY(mc_check_array(b->results[i], text));
        b->results[i] = mc_import(b->s, what, b->results[i]);
        MC_TRY(mica_scope_status(b->s));
    }
    return MICA_OK;
}

static void close_body(recorded *b) {
    mica_scope_close(&b->s);
}

/* ---- captures ---- */

/* Marks the nodes of the body's scope that its results need. */
static bool *find_needed(const recorded *b, mc_arena *arena) {
    uint32_t count = mc_scope_count(b->s);
    bool *needed = mc_arena_calloc(arena, (size_t)count + 1);
    if (!needed) return NULL;
    for (size_t i = 0; i < b->n_results; i++)
        needed[b->results[i].node] = true;
    for (uint32_t i = count; i-- > 0;) {
        const mc_node *node = mc_scope_node(b->s, i);
        for (uint32_t k = 0; needed[i] && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) needed[node->in[k]] = true;
    }
    return needed;
}

/* What bodies take from outside: of each array where it is in each of them. */
typedef struct taken {
    size_t n;
    mica_array *outer;    /* [n] */
    mica_array *inner[2]; /* [n] MICA_NONE: the body does not take it */
} taken;

/* Adds what body b takes; at [count of outer] is the place of an array in the list, or none. */
static mica_status add_taken(const recorded *bodies, size_t b, mc_arena *arena, uint32_t *at,
                             taken *t) {
    const mc_capture *captures;
    size_t n = mc_scope_captures(bodies[b].s, &captures);
    bool *needed = find_needed(&bodies[b], arena);
    if (!needed) return mc_fail_nomem("recording a function");
    for (size_t i = 0; i < n; i++) {
        uint32_t *place = &at[captures[i].outer.node];
        if (!needed[captures[i].inner.node]) continue;
        if (*place == MC_ABSENT) {
            *place = (uint32_t)t->n;
            t->outer[t->n] = captures[i].outer;
            t->inner[0][t->n] = t->inner[1][t->n] = MICA_NONE;
            t->n++;
        }
        t->inner[b][*place] = captures[i].inner;
    }
    return MICA_OK;
}

static mica_status find_taken(const recorded *bodies, size_t n, mc_arena *arena, taken *t) {
    const mc_capture *captures;
    size_t max = 0;
    uint32_t count = 0;
    *t = (taken){0};
    for (size_t b = 0; b < n; b++) {
        size_t own = mc_scope_captures(bodies[b].s, &captures);
        max += own;
        for (size_t i = 0; i < own; i++)
            if (captures[i].outer.node >= count) count = captures[i].outer.node + 1;
    }
    uint32_t *at = mc_arena_alloc(arena, count * sizeof *at);
    t->outer = mc_arena_alloc(arena, max * sizeof *t->outer);
    t->inner[0] = mc_arena_alloc(arena, max * sizeof *t->outer);
    t->inner[1] = mc_arena_alloc(arena, max * sizeof *t->outer);
    if (!at || !t->outer || !t->inner[0] || !t->inner[1])
        return mc_fail_nomem("recording a function");
    for (uint32_t i = 0; i < count; i++)
        at[i] = MC_ABSENT;
    for (size_t b = 0; b < n; b++)
        MC_TRY(add_taken(bodies, b, arena, at, t));
    return MICA_OK;
}

static mica_status make_graph(const recorded *body, const taken *t, size_t which, mc_arena *arena,
                              const mc_subgraph **graph) {
    size_t n = body->n_params + t->n;
    mica_array *params = mc_arena_alloc(arena, n * sizeof *params);
    mc_layout *layouts = mc_arena_alloc(arena, n * sizeof *layouts);
    if (!params || !layouts) return mc_fail_nomem("recording a function");
    for (size_t i = 0; i < n; i++) {
        bool own = i < body->n_params;
        params[i] = own ? body->params[i] : t->inner[which][i - body->n_params];
        layouts[i] = *mc_layout_of(own ? params[i] : t->outer[i - body->n_params]);
    }
    return mc_subgraph_make(body->s, params, layouts, n, body->results, body->n_results, graph);
}

/* Makes the subgraphs of n bodies, 1 or 2, with the same parameters: theirs, and behind these all
 * that any of them takes from outside.
 *
 *  captures    receives the arrays of `outer` that are taken, [*n_captures], in memory of the arena
 *  graphs [n]  receives references of the caller
 *  errors      those of mc_subgraph_make */
static mica_status make_subgraphs(const recorded *bodies, size_t n, mc_arena *arena,
                                  const mc_subgraph **graphs, const mica_array **captures,
                                  size_t *n_captures) {
    taken t;
    for (size_t b = 0; b < n; b++)
        graphs[b] = NULL;
    MC_TRY(find_taken(bodies, n, arena, &t));
    mica_status status = MICA_OK;
    for (size_t b = 0; b < n && status == MICA_OK; b++)
        status = make_graph(&bodies[b], &t, b, arena, &graphs[b]);
    for (size_t b = 0; b < n && status != MICA_OK; b++) {
        mc_subgraph_release(graphs[b]);
        graphs[b] = NULL;
    }
    *captures = t.outer;
    *n_captures = t.n;
    return status;
}

/* ---- nodes ---- */

static mica_status record_parts(mica_scope *s, mica_array node, mica_array *results) {
    int n = mica_valid(node) ? mc_node_n_out(mc_node_of(node)) : 0;
    for (int i = 0; i < n; i++)
        results[i] = mc_record_part(s, node, i);
    return mica_scope_status(s);
}

typedef struct operands {
    const mica_array *list;
    size_t n;
} operands;

/* Records a node of control flow; takes the references to the subgraphs in attr over.
 *
 *  in       n_lists lists of operands, one after the other
 *  results  receives its results, as many as the op has
 *  errors   the scope's; MICA_ENOMEM */
static mica_status record_node(mica_scope *s, mc_op op, const void *attr, const operands *in,
                               size_t n_lists, mica_array *results) {
    size_t n = 0;
    for (size_t l = 0; l < n_lists; l++)
        n += in[l].n;
    mica_array *all = mc_array_alloc(n + 1, sizeof *all);
    mica_status status = n > INT_MAX ? mc_fail(MICA_EINVAL, "control flow: too many operands")
                         : all       ? MICA_OK
                                     : mc_fail_nomem("recording control flow");
    n = 0;
    for (size_t l = 0; l < n_lists && status == MICA_OK; l++)
        for (size_t i = 0; i < in[l].n; i++)
            all[n++] = in[l].list[i];
    if (status == MICA_OK) status = record_parts(s, mc_record(s, op, attr, all, (int)n), results);
    for (const mc_attr_field *f = mc_op_get(op)->attr_fields; f->name; f++)
        if (f->kind == MC_ATTR_GRAPH) mc_subgraph_release(mc_attr_graph(attr, f));
    mc_free(all);
    return status;
}

/* ---- the public builders ---- */

/* A builder at work: memory, its functions, and what they become. */
typedef struct building {
    mica_scope *s;
    const char *what;
    mc_arena arena;
    recorded bodies[2];
    const mc_subgraph *graphs[2];
    const mica_array *captures;
    size_t n_captures;
    bool began; /* s had no error */
} building;

static mica_status begin(building *b, bool complete) {
    if (!b->s || !complete) return mc_fail(MICA_EINVAL, "%s: NULL", b->what);
    MC_TRY(mica_scope_status(b->s));
    b->began = true;
    return MICA_OK;
}

static void close_bodies(building *b) {
    close_body(&b->bodies[0]);
    close_body(&b->bodies[1]);
}

static mica_status end(building *b, mica_status status, mica_array *results, size_t n) {
    close_bodies(b);
    mc_arena_deinit(&b->arena);
    if (status != MICA_OK && b->began) mica_scope_clear_error(b->s); /* the caller gets it */
    for (size_t i = 0; status != MICA_OK && results && i < n; i++)
        results[i] = (mica_array){b->s, MC_ABSENT};
    return status;
}

/* Arrays of s in the place of xs; *layouts, where asked for, receives theirs, dense. */
static mica_status bring(building *b, const mica_array *xs, size_t n, mica_array **out,
                         mc_layout **layouts) {
    *out = mc_arena_alloc(&b->arena, n * sizeof **out);
    *layouts = mc_arena_alloc(&b->arena, n * sizeof **layouts);
    if (!*out || !*layouts) return mc_fail_nomem("recording control flow");
    for (size_t i = 0; i < n; i++) {
        MC_TRY(mc_check_valid(xs[i], b->what));
        MC_TRY(mc_check_array(xs[i], b->what));
        (*out)[i] = mc_import(b->s, b->what, xs[i]);
        MC_TRY(mica_scope_status(b->s));
        (*layouts)[i] = *mc_layout_of((*out)[i]);
        mc_layout_set_dense(&(*layouts)[i]);
    }
    return MICA_OK;
}

/* Records function number i. */
static mica_status record(building *b, size_t i, mica_compile_fn fn, void *user,
                          const mc_layout *params, size_t n, size_t n_results) {
    return record_body(b->s, b->what, fn, user, params, n, n_results, &b->arena, &b->bodies[i]);
}

static mica_status make_graphs(building *b, size_t n) {
    MC_TRY(make_subgraphs(b->bodies, n, &b->arena, b->graphs, &b->captures, &b->n_captures));
    close_bodies(b);
    return MICA_OK;
}

static mica_status build_if(building *b, mica_array pred, const mica_compile_fn fns[2], void *user,
                            const mica_array *args, size_t n_args, mica_array *results,
                            size_t n_results) {
    mica_array *own;
    mc_layout *layouts;
    MC_TRY(mc_check_valid(pred, "if: the condition"));
    if (n_results == 0) return mc_fail(MICA_EINVAL, "if: there is no result");
    MC_TRY(bring(b, args, n_args, &own, &layouts));
    for (size_t i = 0; i < 2; i++)
        MC_TRY(record(b, i, fns[i], user, layouts, n_args, n_results));
    MC_TRY(make_graphs(b, 2));
    const mc_attr_if attr = {ref_of(b->graphs[0]), ref_of(b->graphs[1])};
    const operands in[] = {{&pred, 1}, {own, n_args}, {b->captures, b->n_captures}};
    return record_node(b->s, MC_OP_IF, &attr, in, 3, results);
}

mica_status mica_if(mica_scope *s, mica_array pred, mica_compile_fn then_fn,
                    mica_compile_fn else_fn, void *user, const mica_array *args, size_t n_args,
                    mica_array *results, size_t n_results) {
    building b = {.s = s, .what = "if"};
    const mica_compile_fn fns[2] = {then_fn, else_fn};
    mica_status status =
        begin(&b, then_fn && else_fn && (args || n_args == 0) && (results || n_results == 0));
    if (status == MICA_OK) status = build_if(&b, pred, fns, user, args, n_args, results, n_results);
    return end(&b, status, results, n_results);
}

static mica_status if_each(mica_scope *s, mica_array pred, const mica_compile_fn fns[2], void *user,
                           const mica_array *args, size_t n_args, mica_array *results,
                           mica_array *others, size_t n_results) {
    mica_array *const lists[2] = {results, others};
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < n_results; i++)
            lists[k][i] = mc_invalid(s);
        MC_TRY(mc_scope_begin_recording(s));
        mica_status status = fns[k](user, s, args, n_args, lists[k], n_results);
        mc_scope_end_recording(s);
        MC_TRY(status);
        MC_TRY(mica_scope_status(s));
    }
    for (size_t i = 0; i < n_results; i++) {
        MC_TRY(mc_check_valid(results[i], "if_each: a result"));
        MC_TRY(mc_check_valid(others[i], "if_each: a result"));
        MC_TRY(check_same("if_each", "the other branch's result", i, mc_layout_of(others[i]),
                          mc_layout_of(results[i])));
        results[i] = mica_where(s, pred, results[i], others[i]);
    }
    return mica_scope_status(s);
}

mica_status mica_if_each(mica_scope *s, mica_array pred, mica_compile_fn then_fn,
                         mica_compile_fn else_fn, void *user, const mica_array *args, size_t n_args,
                         mica_array *results, size_t n_results) {
    building b = {.s = s, .what = "if_each"};
    const mica_compile_fn fns[2] = {then_fn, else_fn};
    mica_status status =
        begin(&b, then_fn && else_fn && (args || n_args == 0) && (results || n_results == 0));
    mica_array *others = mc_array_alloc(n_results, sizeof *others);
    if (status == MICA_OK && n_results == 0)
        status = mc_fail(MICA_EINVAL, "if_each: there is no result");
    if (status == MICA_OK && mica_array_dtype(pred) != MICA_BOOL)
        status = mc_fail(MICA_EDTYPE, "if_each: the condition is not bool");
    if (status == MICA_OK)
        status = others ? if_each(s, pred, fns, user, args, n_args, results, others, n_results)
                        : mc_fail_nomem("recording control flow");
    mc_free(others);
    return end(&b, status, results, n_results);
}

static mica_status build_while(building *b, const mica_compile_fn fns[2], void *user,
                               const mica_array *init, size_t n, int64_t max_rounds,
                               mica_array *results, mica_array *rounds) {
    mica_array *own, *all = mc_arena_alloc(&b->arena, (n + 1) * sizeof *all);
    mc_layout *layouts;
    if (!all) return mc_fail_nomem("recording control flow");
    if (n == 0) return mc_fail(MICA_EINVAL, "while: there is no carried value");
    MC_TRY(bring(b, init, n, &own, &layouts));
    MC_TRY(record(b, 0, fns[0], user, layouts, n, 1));
    MC_TRY(record(b, 1, fns[1], user, layouts, n, n));
    MC_TRY(make_graphs(b, 2));
    const mc_attr_while attr = {ref_of(b->graphs[0]), ref_of(b->graphs[1]), max_rounds};
    const operands in[] = {{own, n}, {b->captures, b->n_captures}};
    MC_TRY(record_node(b->s, MC_OP_WHILE, &attr, in, 2, all));
    memcpy(results, all, n * sizeof *results);
    if (rounds) *rounds = all[n];
    return MICA_OK;
}

mica_status mica_while(mica_scope *s, mica_compile_fn cond, mica_compile_fn body, void *user,
                       const mica_array *init, size_t n, const mica_while_options *options,
                       mica_array *results, mica_array *rounds) {
    building b = {.s = s, .what = "while"};
    mica_while_options o = {0};
    const mica_compile_fn fns[2] = {cond, body};
    mica_status status = begin(&b, cond && body && ((init && results) || n == 0));
    if (status == MICA_OK) status = MC_OPTIONS_COPY(mica_while_options, max_rounds, &o, options);
    if (status == MICA_OK)
        status = build_while(&b, fns, user, init, n, o.max_rounds, results, rounds);
    if (rounds && status != MICA_OK) *rounds = (mica_array){s, MC_ABSENT};
    return end(&b, status, results, n);
}

/* The length that options and xs say. */
static mica_status scan_length(const mica_scan_options *o, const mica_array *xs, size_t n,
                               int64_t *length) {
    char text[MC_LAYOUT_TEXT];
    if (o->length < 0)
        return mc_fail(MICA_EINVAL, "scan: length is %lld, must be 0 or more",
                       (long long)o->length);
    *length = o->length;
    for (size_t i = 0; i < n; i++) {
        const mc_layout *x = mc_layout_of(xs[i]);
        if (x->ndim > 0 && i == 0 && o->length == 0) *length = x->shape[0];
        if (x->ndim > 0 && x->shape[0] == *length) continue;
        return mc_fail(MICA_ESHAPE, "scan: x %zu is %s, want %lld rows", i, mc_layout_text(x, text),
                       (long long)*length);
    }
    return MICA_OK;
}

/* What a scan carries and goes over. */
typedef struct scanned {
    const mica_array *init, *xs;
    size_t n_carried, n_xs, n_ys;
} scanned;

static mica_status build_scan(building *b, mica_compile_fn body, void *user, const scanned *in,
                              const mica_scan_options *o, mica_array *carried, mica_array *ys) {
    mica_array *init, *xs;
    mc_layout *layouts, *rows;
    mc_attr_scan_over attr = {.n_carried = (int64_t)in->n_carried,
                              .n_xs = (int64_t)in->n_xs,
                              .reverse = o->reverse,
                              .checkpoints = o->checkpoints};
    size_t n = in->n_carried + in->n_xs, n_results = in->n_carried + in->n_ys;
    mica_array *results = mc_arena_alloc(&b->arena, n_results * sizeof *results);
    mc_layout *params = mc_arena_alloc(&b->arena, n * sizeof *params);
    if (!results || !params) return mc_fail_nomem("recording control flow");
    if (n_results == 0) return mc_fail(MICA_EINVAL, "scan: there are no carried values and no ys");
    MC_TRY(bring(b, in->init, in->n_carried, &init, &layouts));
    MC_TRY(bring(b, in->xs, in->n_xs, &xs, &rows));
    MC_TRY(scan_length(o, xs, in->n_xs, &attr.length));
    for (size_t i = 0; i < n; i++)
        mc_control_param(MC_OP_SCAN, &attr, i,
                         i < in->n_carried ? &layouts[i] : &rows[i - in->n_carried], &params[i]);
    MC_TRY(record(b, 0, body, user, params, n, n_results));
    MC_TRY(make_graphs(b, 1));
    attr.body = ref_of(b->graphs[0]);
    const operands lists[] = {{init, in->n_carried}, {xs, in->n_xs}, {b->captures, b->n_captures}};
    MC_TRY(record_node(b->s, MC_OP_SCAN, &attr, lists, 3, results));
    for (size_t i = 0; i < n_results; i++)
        *(i < in->n_carried ? &carried[i] : &ys[i - in->n_carried]) = results[i];
    return MICA_OK;
}

mica_status mica_scan(mica_scope *s, mica_compile_fn body, void *user, const mica_array *init,
                      size_t n_carried, const mica_array *xs, size_t n_xs,
                      const mica_scan_options *options, mica_array *carried, mica_array *ys,
                      size_t n_ys) {
    building b = {.s = s, .what = "scan"};
    mica_scan_options o = {0};
    const scanned in = {init, xs, n_carried, n_xs, n_ys};
    mica_status status = begin(&b, body && ((init && carried) || n_carried == 0) &&
                                       (xs || n_xs == 0) && (ys || n_ys == 0));
    if (status == MICA_OK) status = MC_OPTIONS_COPY(mica_scan_options, checkpoints, &o, options);
    if (status == MICA_OK) status = build_scan(&b, body, user, &in, &o, carried, ys);
    (void)end(&b, status, carried, n_carried);
    for (size_t i = 0; status != MICA_OK && ys && i < n_ys; i++)
        ys[i] = (mica_array){s, MC_ABSENT};
    return status;
}
