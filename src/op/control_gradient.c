/* Gradients of control flow: control flow whose functions are the passes over the subgraphs.
 *
 * A rule records mica_if, mica_while or mica_scan; the functions that it gives record the node's
 * subgraph once more, over arguments of their own, and let a pass go over that. Captures of the
 * node are taken from around these functions, as any function of control flow may. */
#include <mica/control.h>

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "graph/subgraph.h"
#include "op/build.h"
#include "op/gradient.h"

/* ---- lists ---- */

/* Which of some arrays; in memory of an arena. */
typedef struct choice {
    size_t n;
    uint32_t *list; /* [n] */
} choice;

static bool is_float(mica_array x) {
    return x.scope && mica_dtype_is_float(mica_array_dtype(x));
}

/* A rule at work. */
typedef struct rule {
    const mc_gradient_node *n;
    mc_arena arena;
    size_t n_carried, n_xs, n_in; /* of the node's operands behind a condition */
    const mica_array *in;         /* [n_in] */
    mica_status status;
} rule;

static void *room(rule *r, size_t n, size_t each) {
    void *list = mc_arena_calloc(&r->arena, (n + 1) * each);
    if (!list && r->status == MICA_OK) r->status = mc_fail_nomem("a gradient");
    return list;
}

static mica_array *arrays(rule *r, size_t n) {
    return room(r, n, sizeof(mica_array));
}

/* Those of xs [from, to) that are floats and, where marks are given, marked, or have a value. */
static choice choose(rule *r, const mica_array *xs, size_t from, size_t to, const bool *marks,
                     const mica_array *values) {
    choice c = {.list = room(r, to - from, sizeof *c.list)};
    for (size_t i = from; c.list && i < to; i++)
        if (is_float(xs[i]) && (!marks || marks[i]) && (!values || values[i].scope))
            c.list[c.n++] = (uint32_t)i;
    return c;
}

/* The end of a rule: errors go to the scope. */
static bool finish(rule *r, mica_status status) {
    if (status == MICA_OK) status = r->status;
    mc_scope_set_status(r->n->s, status);
    mc_arena_deinit(&r->arena);
    return true;
}

static void begin(rule *r, const mc_gradient_node *n) {
    int first = mc_control_first(n->op);
    *r = (rule){.n = n, .in = n->in + first, .n_in = (size_t)(n->n_in - first)};
}

/* The node's captures as arrays of s, behind its first `own` parameters. */
static mica_status bring_captures(const rule *r, mica_scope *s, size_t own, mica_array *params) {
    for (size_t i = own; i < r->n_in; i++)
        params[i] = mc_import(s, "a gradient", r->in[i]);
    return mica_scope_status(s);
}

/* Operands that are one array twice have a gradient at each place. */
static void tell_apart(mica_scope *s, mica_array *xs, size_t n) {
    for (size_t i = 0; i < n; i++)
        xs[i] = mc_record(s, MC_OP_IDENTITY, NULL, &xs[i], 1);
}

/* ---- if ---- */

typedef struct if_rule {
    rule r;
    choice xs; /* operands that gradients are wanted of, or that have tangents */
    choice ys; /* results that have gradients, or are floats */
    const mc_subgraph *graphs[2];
} if_rule;

static void begin_if(if_rule *f, const mc_gradient_node *n) {
    const mc_attr_if *a = n->attr;
    begin(&f->r, n);
    f->graphs[0] = a->then_graph.graph;
    f->graphs[1] = a->else_graph.graph;
}

/* args: the operands, then gradients of the results `ys`. */
static mica_status branch_back(if_rule *f, int which, mica_scope *s, const mica_array *args,
                               mica_array *results) {
    const mc_subgraph *g = f->graphs[which];
    mica_array *ys = arrays(&f->r, g->n_results), *dys = arrays(&f->r, g->n_results);
    mica_array *xs = arrays(&f->r, f->xs.n);
    if (!ys || !dys || !xs) return f->r.status;
    MC_TRY(mc_subgraph_record(g, s, args, ys));
    for (size_t i = 0; i < f->ys.n; i++)
        dys[f->ys.list[i]] = args[f->r.n_in + i];
    for (size_t i = 0; i < f->xs.n; i++)
        xs[i] = args[f->xs.list[i]];
    return f->r.n->passes->back(s, ys, dys, g->n_results, xs, f->xs.n, results);
}

static mica_status then_back(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    return branch_back(user, 0, s, args, results);
}

static mica_status else_back(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    return branch_back(user, 1, s, args, results);
}

static bool if_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    if_rule f = {.xs = {0}};
    begin_if(&f, n);
    rule *r = &f.r;
    f.xs = choose(r, r->in, 0, r->n_in, n->wanted + 1, NULL);
    f.ys = choose(r, n->out, 0, f.graphs[0]->n_results, NULL, dy);
    mica_array *args = arrays(r, r->n_in + f.ys.n), *grads = arrays(r, f.xs.n);
    if (r->status != MICA_OK) return finish(r, r->status);
    memcpy(args, r->in, r->n_in * sizeof *args);
    for (size_t i = 0; i < f.ys.n; i++)
        args[r->n_in + i] = dy[f.ys.list[i]];
    mica_status status =
        mica_if(n->s, n->in[0], then_back, else_back, &f, args, r->n_in + f.ys.n, grads, f.xs.n);
    for (size_t i = 0; status == MICA_OK && i < f.xs.n; i++)
        dx[1 + f.xs.list[i]] = grads[i];
    return finish(r, status);
}

/* args: the operands, then tangents of the operands `xs`. */
static mica_status branch_forward(if_rule *f, int which, mica_scope *s, const mica_array *args,
                                  mica_array *results) {
    const mc_subgraph *g = f->graphs[which];
    mica_array *ys = arrays(&f->r, g->n_results), *dys = arrays(&f->r, g->n_results);
    mica_array *xs = arrays(&f->r, f->xs.n);
    if (!ys || !dys || !xs) return f->r.status;
    MC_TRY(mc_subgraph_record(g, s, args, ys));
    for (size_t i = 0; i < f->xs.n; i++)
        xs[i] = args[f->xs.list[i]];
    MC_TRY(f->r.n->passes->forward(s, xs, args + f->r.n_in, f->xs.n, ys, g->n_results, dys));
    for (size_t i = 0; i < f->ys.n; i++)
        results[i] = dys[f->ys.list[i]];
    return MICA_OK;
}

static mica_status then_forward(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    return branch_forward(user, 0, s, args, results);
}

static mica_status else_forward(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    return branch_forward(user, 1, s, args, results);
}

static bool if_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    if_rule f = {.xs = {0}};
    begin_if(&f, n);
    rule *r = &f.r;
    f.xs = choose(r, r->in, 0, r->n_in, NULL, dx + 1);
    f.ys = choose(r, n->out, 0, f.graphs[0]->n_results, NULL, NULL);
    mica_array *args = arrays(r, r->n_in + f.xs.n), *dys = arrays(r, f.ys.n);
    if (r->status != MICA_OK) return finish(r, r->status);
    memcpy(args, r->in, r->n_in * sizeof *args);
    for (size_t i = 0; i < f.xs.n; i++)
        args[r->n_in + i] = dx[1 + f.xs.list[i]];
    mica_status status = mica_if(n->s, n->in[0], then_forward, else_forward, &f, args,
                                 r->n_in + f.xs.n, dys, f.ys.n);
    for (size_t i = 0; status == MICA_OK && i < f.ys.n; i++)
        dy[f.ys.list[i]] = dys[i];
    return finish(r, status);
}
MC_GRADIENT(if, if_vjp, if_jvp);

/* ---- loops, forward ---- */

/* While and Scan carry tangents of all floats that they carry. */
typedef struct loop_rule {
    rule r;
    const mc_subgraph *cond, *body;
    choice carried;  /* floats among the carried values */
    choice rows;     /* of a scan: xs that have tangents, or that gradients are wanted of */
    choice captures; /* likewise */
    choice ys;       /* results behind the carried: floats, or those that have gradients */
    const mica_array *dx;
} loop_rule;

static mica_array tangent_or_zeros(const mc_gradient_node *n, mica_array dx, mica_array x) {
    return dx.scope ? dx : mc_zeros_like(n->s, x);
}

/* The condition of the node over the values that come first in args. */
static mica_status while_cond(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    loop_rule *l = user;
    mica_array *params = arrays(&l->r, l->r.n_in);
    (void)n_args, (void)n_results;
    if (!params) return l->r.status;
    memcpy(params, args, l->r.n_carried * sizeof *args);
    MC_TRY(bring_captures(&l->r, s, l->r.n_carried, params));
    return mc_subgraph_record(l->cond, s, params, results);
}

/* args: carried values, their tangents, rows, their tangents. results: values, tangents, ys,
 * tangents. */
static mica_status body_forward(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    loop_rule *l = user;
    rule *r = &l->r;
    size_t own = r->n_carried + r->n_xs, n_ys = l->body->n_results, n = 0, at = 0;
    size_t n_moving = l->carried.n + l->rows.n + l->captures.n;
    mica_array *params = arrays(r, r->n_in), *ys = arrays(r, n_ys), *dys = arrays(r, n_ys);
    mica_array *xs = arrays(r, n_moving), *dxs = arrays(r, n_moving);
    (void)n_args, (void)n_results;
    if (!params || !ys || !dys || !xs || !dxs) return r->status;
    const mica_array *rows = args + r->n_carried + l->carried.n;
    memcpy(params, args, r->n_carried * sizeof *args);
    memcpy(params + r->n_carried, rows, r->n_xs * sizeof *args);
    MC_TRY(bring_captures(r, s, own, params));
    MC_TRY(mc_subgraph_record(l->body, s, params, ys));
    for (size_t i = 0; i < l->carried.n; i++, n++) {
        xs[n] = params[l->carried.list[i]];
        dxs[n] = args[r->n_carried + i];
    }
    for (size_t i = 0; i < l->rows.n; i++, n++) {
        xs[n] = params[l->rows.list[i]];
        dxs[n] = rows[r->n_xs + i];
    }
    for (size_t i = 0; i < l->captures.n; i++, n++) {
        xs[n] = params[l->captures.list[i]];
        dxs[n] = mc_import(s, "a gradient", l->dx[l->captures.list[i]]);
    }
    MC_TRY(r->n->passes->forward(s, xs, dxs, n, ys, n_ys, dys));
    for (size_t i = 0; i < r->n_carried; i++)
        results[at++] = ys[i];
    for (size_t i = 0; i < l->carried.n; i++)
        results[at++] = mc_cast(s, dys[l->carried.list[i]], mica_array_dtype(dxs[i]));
    for (size_t i = r->n_carried; i < n_ys; i++)
        results[at++] = ys[i];
    for (size_t i = 0; i < l->ys.n; i++)
        results[at++] = dys[l->ys.list[i]];
    return mica_scope_status(s);
}

/* What is carried, with tangents: init [*n]. */
static mica_array *moving_init(loop_rule *l, size_t *n) {
    rule *r = &l->r;
    mica_array *init = arrays(r, r->n_carried + l->carried.n);
    *n = r->n_carried;
    if (!init) return NULL;
    memcpy(init, r->in, r->n_carried * sizeof *init);
    for (size_t i = 0; i < l->carried.n; i++) {
        uint32_t at = l->carried.list[i];
        init[(*n)++] = mc_cast(r->n->s, tangent_or_zeros(r->n, l->dx[at], r->in[at]),
                               mica_array_dtype(r->in[at]));
    }
    return init;
}

static void begin_while(loop_rule *l, const mc_gradient_node *n) {
    const mc_attr_while *a = n->attr;
    *l = (loop_rule){.cond = a->cond.graph, .body = a->body.graph};
    begin(&l->r, n);
    l->r.n_carried = l->body->n_results;
    l->carried = choose(&l->r, l->r.in, 0, l->r.n_carried, NULL, NULL);
}

static bool while_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    const mc_attr_while *a = n->attr;
    loop_rule l;
    begin_while(&l, n);
    rule *r = &l.r;
    size_t n_init;
    l.dx = dx;
    l.captures = choose(r, r->in, r->n_carried, r->n_in, NULL, dx);
    mica_array *init = moving_init(&l, &n_init);
    mica_array *out = arrays(r, r->n_carried + l.carried.n);
    if (r->status != MICA_OK) return finish(r, r->status);
    const mica_while_options o = {.max_rounds = a->max_rounds};
    mica_status status =
        mica_while(n->s, while_cond, body_forward, &l, init, n_init, &o, out, NULL);
    for (size_t i = 0; status == MICA_OK && i < l.carried.n; i++)
        dy[l.carried.list[i]] = out[r->n_carried + i];
    return finish(r, status);
}

static void begin_scan(loop_rule *l, const mc_gradient_node *n) {
    const mc_attr_scan_over *a = n->attr;
    *l = (loop_rule){.body = a->body.graph};
    begin(&l->r, n);
    l->r.n_carried = (size_t)a->n_carried;
    l->r.n_xs = (size_t)a->n_xs;
    l->carried = choose(&l->r, l->r.in, 0, l->r.n_carried, NULL, NULL);
}

static bool scan_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    const mc_attr_scan_over *a = n->attr;
    loop_rule l;
    begin_scan(&l, n);
    rule *r = &l.r;
    size_t own = r->n_carried + r->n_xs, n_all = l.body->n_results, n_init;
    l.dx = dx;
    l.rows = choose(r, r->in, r->n_carried, own, NULL, dx);
    l.captures = choose(r, r->in, own, r->n_in, NULL, dx);
    l.ys = choose(r, n->out, r->n_carried, n_all, NULL, NULL);
    mica_array *init = moving_init(&l, &n_init), *xs = arrays(r, r->n_xs + l.rows.n);
    mica_array *carried = arrays(r, r->n_carried + l.carried.n);
    size_t n_ys = n_all - r->n_carried;
    mica_array *ys = arrays(r, n_ys + l.ys.n);
    if (r->status != MICA_OK) return finish(r, r->status);
    memcpy(xs, r->in + r->n_carried, r->n_xs * sizeof *xs);
    for (size_t i = 0; i < l.rows.n; i++)
        xs[r->n_xs + i] = dx[l.rows.list[i]];
    const mica_scan_options o = {.length = a->length, .reverse = a->reverse != 0};
    mica_status status = mica_scan(n->s, body_forward, &l, init, n_init, xs, r->n_xs + l.rows.n, &o,
                                   carried, ys, n_ys + l.ys.n);
    for (size_t i = 0; status == MICA_OK && i < l.carried.n; i++)
        dy[l.carried.list[i]] = carried[r->n_carried + i];
    for (size_t i = 0; status == MICA_OK && i < l.ys.n; i++)
        dy[l.ys.list[i]] = ys[n_ys + i];
    return finish(r, status);
}

/* ---- scan, backward ---- */

/* The steps are taken in segments: a first sweep keeps what is carried into each of them. The sweep
 * back computes a segment's steps again, keeping what is carried into each, and goes back over
 * these. Values that go back are gradients of the carried floats, then sums of those by captures,
 * in f32. */
typedef struct segment {
    loop_rule *l;
    int64_t length; /* steps */
} segment;

/* args: carried values, rows. results: the next ones, then those that came. */
static mica_status step_keeping(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    loop_rule *l = user;
    rule *r = &l->r;
    size_t own = r->n_carried + r->n_xs;
    mica_array *params = arrays(r, r->n_in), *ys = arrays(r, l->body->n_results);
    (void)n_args;
    if (!params || !ys) return r->status;
    memcpy(params, args, own * sizeof *args);
    MC_TRY(bring_captures(r, s, own, params));
    MC_TRY(mc_subgraph_record(l->body, s, params, ys));
    memcpy(results, ys, r->n_carried * sizeof *ys);
    for (size_t i = r->n_carried; i < n_results; i++)
        results[i] = args[i - r->n_carried];
    return MICA_OK;
}

/* args: carried values, rows of a segment. results: the values behind it, then those before. */
static mica_status segment_keeping(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                   mica_array *results, size_t n_results) {
    const segment *g = user;
    size_t n = g->l->r.n_carried;
    const mica_scan_options o = {.length = g->length};
    (void)n_args;
    MC_TRY(mica_scan(s, step_keeping, g->l, args, n, args + n, g->l->r.n_xs, &o, results, NULL, 0));
    for (size_t i = n; i < n_results; i++)
        results[i] = args[i - n];
    return MICA_OK;
}

/* args: values that go back, then the step's carried values, rows, and gradients of the ys.
 * results: values that go back, gradients of the rows. */
static mica_status step_back(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    loop_rule *l = user;
    rule *r = &l->r;
    size_t own = r->n_carried + r->n_xs, n_ys = l->body->n_results, n = 0, at = 0;
    size_t n_back = l->carried.n + l->captures.n, n_wanted = n_back + l->rows.n;
    mica_array *params = arrays(r, r->n_in), *ys = arrays(r, n_ys), *dys = arrays(r, n_ys);
    mica_array *xs = arrays(r, n_wanted), *grads = arrays(r, n_wanted);
    (void)n_args, (void)n_results;
    if (!params || !ys || !dys || !xs || !grads) return r->status;
    memcpy(params, args + n_back, own * sizeof *args);
    MC_TRY(bring_captures(r, s, own, params));
    tell_apart(s, params, r->n_in);
    MC_TRY(mc_subgraph_record(l->body, s, params, ys));
    for (size_t i = 0; i < l->carried.n; i++)
        dys[l->carried.list[i]] = args[i];
    for (size_t i = 0; i < l->ys.n; i++)
        dys[l->ys.list[i]] = args[n_back + own + i];
    const choice *const wanted[] = {&l->carried, &l->captures, &l->rows};
    for (int w = 0; w < 3; w++)
        for (size_t i = 0; i < wanted[w]->n; i++)
            xs[n++] = params[wanted[w]->list[i]];
    MC_TRY(r->n->passes->back(s, ys, dys, n_ys, xs, n, grads));
    for (size_t i = 0; i < n; i++) {
        bool sums = i >= l->carried.n && i < n_back;
        results[at++] = sums ? mica_add(s, args[i], mica_astype(s, grads[i], MICA_F32)) : grads[i];
    }
    return mica_scope_status(s);
}

/* The same for a segment: rows and gradients of ys are those of all its steps. */
static mica_status segment_back(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    const segment *g = user;
    loop_rule *l = g->l;
    rule *r = &l->r;
    size_t n = r->n_carried, n_back = l->carried.n + l->captures.n;
    const mica_array *values = args + n_back, *rows = values + n, *dys = rows + r->n_xs;
    size_t n_xs = n + r->n_xs + l->ys.n;
    mica_array *ends = arrays(r, n), *xs = arrays(r, n_xs);
    mica_scan_options o = {.length = g->length};
    (void)n_args;
    if (!ends || !xs) return r->status;
    if (n > 0) MC_TRY(mica_scan(s, step_keeping, l, values, n, rows, r->n_xs, &o, ends, xs, n));
    memcpy(xs + n, rows, r->n_xs * sizeof *xs);
    memcpy(xs + n + r->n_xs, dys, l->ys.n * sizeof *xs);
    o.reverse = true;
    return mica_scan(s, step_back, l, args, n_back, xs, n_xs, &o, results, results + n_back,
                     n_results - n_back);
}

/* Rows [from, to) of x in the order of the steps; as [n, each, ...] where `each` is given. */
static mica_array rows_of(mica_scope *s, mica_array x, int64_t from, int64_t to, int64_t each) {
    int64_t shape[MICA_MAX_NDIM + 1] = {0};
    int ndim = mica_array_ndim(x);
    x = mica_slice_axis(s, x, 0, from, to);
    if (each == 0 || !mica_valid(x)) return x;
    shape[0] = (to - from) / each;
    shape[1] = each;
    memcpy(shape + 2, mica_array_shape(x) + 1, (size_t)(ndim - 1) * sizeof *shape);
    return mica_reshape(s, x, shape, ndim + 1);
}

/* How a scan is divided: `whole` segments of `each` steps, then one of `rest`. */
typedef struct division {
    int64_t whole, each, rest;
} division;

static division divide(const rule *r, const mc_attr_scan_over *a) {
    /* Rows of segments have an axis more. */
    for (int i = 0; i < r->n->n_in; i++)
        if (mica_array_ndim(r->in[i]) == MICA_MAX_NDIM) return (division){0, 1, a->length};
    if (mc_dim_has_symbols(a->length)) return (division){0, 1, a->length};
    int64_t n = a->checkpoints > 0 ? a->checkpoints : (int64_t)sqrt((double)a->length);
    if (n > a->length) n = a->length;
    if (n < 1) n = 1;
    division d = {.each = a->length > 0 ? (a->length - 1) / n + 1 : 1};
    d.whole = a->length / d.each;
    d.rest = a->length - d.whole * d.each;
    return d;
}

/* A sweep back at work, in the order of the steps. */
typedef struct sweep {
    loop_rule *l;
    division d;
    mica_array *xs;    /* [n_xs] */
    mica_array *dys;   /* [ys.n] */
    mica_array *back;  /* [carried.n + captures.n] values that go back */
    mica_array *ends;  /* [n_carried] behind the whole segments */
    mica_array *kept;  /* [n_carried] before each of them: [whole, ...] */
    mica_array *parts; /* [2 rows.n] gradients of the rows: of whole segments, of the rest */
} sweep;

static mica_status sweep_forward(sweep *w) {
    loop_rule *l = w->l;
    rule *r = &l->r;
    mica_scope *s = r->n->s;
    segment g = {l, w->d.each};
    const mica_scan_options o = {.length = w->d.whole};
    memcpy(w->ends, r->in, r->n_carried * sizeof *w->ends);
    mica_array *xs = arrays(r, r->n_xs);
    if (!xs) return r->status;
    if (w->d.whole == 0) return MICA_OK;
    for (size_t i = 0; i < r->n_xs; i++)
        xs[i] = rows_of(s, w->xs[i], 0, w->d.whole * w->d.each, w->d.each);
    MC_TRY(mica_scope_status(s));
    if (r->n_carried == 0) return MICA_OK;
    return mica_scan(s, segment_keeping, &g, r->in, r->n_carried, xs, r->n_xs, &o, w->ends, w->kept,
                     r->n_carried);
}

/* Back over the rest, which is one segment, and then over the whole ones. */
static mica_status sweep_back(sweep *w, bool rest) {
    loop_rule *l = w->l;
    rule *r = &l->r;
    mica_scope *s = r->n->s;
    int64_t whole = w->d.whole * w->d.each, length = mc_dim_add(whole, w->d.rest);
    size_t n_back = l->carried.n + l->captures.n, n = r->n_carried, at = 0;
    size_t n_args = n + r->n_xs + l->ys.n;
    mica_array *args = arrays(r, n_back + n_args), *xs = args + n_back;
    mica_array *results = arrays(r, n_back + l->rows.n);
    if (!args || !results) return r->status;
    memcpy(args, w->back, n_back * sizeof *args);
    for (size_t i = 0; i < n; i++)
        xs[at++] = rest ? w->ends[i] : w->kept[i];
    for (size_t i = 0; i < r->n_xs; i++)
        xs[at++] = rest ? rows_of(s, w->xs[i], whole, length, 0)
                        : rows_of(s, w->xs[i], 0, whole, w->d.each);
    for (size_t i = 0; i < l->ys.n; i++)
        xs[at++] = rest ? rows_of(s, w->dys[i], whole, length, 0)
                        : rows_of(s, w->dys[i], 0, whole, w->d.each);
    MC_TRY(mica_scope_status(s));
    segment g = {l, rest ? w->d.rest : w->d.each};
    const mica_scan_options o = {.length = w->d.whole, .reverse = true};
    MC_TRY(rest ? segment_back(&g, s, args, n_back + n_args, results, n_back + l->rows.n)
                : mica_scan(s, segment_back, &g, args, n_back, xs, n_args, &o, results,
                            results + n_back, l->rows.n));
    memcpy(w->back, results, n_back * sizeof *results);
    memcpy(w->parts + (rest ? l->rows.n : 0), results + n_back, l->rows.n * sizeof *results);
    return MICA_OK;
}

/* The gradient of x number i of those chosen, from its parts. */
static mica_array join_parts(const sweep *w, size_t i, mica_array x, bool reverse) {
    mica_scope *s = w->l->r.n->s;
    mica_array parts[2];
    int n = 0;
    if (w->d.whole > 0) parts[n++] = mica_flatten(s, w->parts[i], 0, 1);
    if (w->d.rest > 0) parts[n++] = w->parts[w->l->rows.n + i];
    if (n == 0) return mc_zeros_like(s, x);
    mica_array dx = n == 1 ? parts[0] : mica_concatenate(s, parts, n, 0);
    return reverse ? mica_flip(s, dx, 0) : dx;
}

static mica_status open_sweep(sweep *w, const mica_array *dy) {
    loop_rule *l = w->l;
    rule *r = &l->r;
    mica_scope *s = r->n->s;
    const mc_attr_scan_over *a = r->n->attr;
    size_t at = 0;
    w->d = divide(r, a);
    w->xs = arrays(r, r->n_xs);
    w->dys = arrays(r, l->ys.n);
    w->back = arrays(r, l->carried.n + l->captures.n);
    w->ends = arrays(r, r->n_carried);
    w->kept = arrays(r, r->n_carried);
    w->parts = arrays(r, 2 * l->rows.n);
    if (r->status != MICA_OK) return r->status;
    for (size_t i = 0; i < r->n_xs; i++) {
        mica_array x = r->in[r->n_carried + i];
        w->xs[i] = a->reverse ? mica_flip(s, x, 0) : x;
    }
    for (size_t i = 0; i < l->ys.n; i++) {
        mica_array x = dy[l->ys.list[i]];
        w->dys[i] = a->reverse ? mica_flip(s, x, 0) : x;
    }
    for (size_t i = 0; i < l->carried.n; i++)
        w->back[at++] = tangent_or_zeros(r->n, dy[l->carried.list[i]], r->in[l->carried.list[i]]);
    for (size_t i = 0; i < l->captures.n; i++) {
        mica_array x = r->in[l->captures.list[i]];
        w->back[at++] = mica_zeros(s, mica_array_shape(x), mica_array_ndim(x), MICA_F32);
    }
    return mica_scope_status(s);
}

static mica_status scan_back(loop_rule *l, const mica_array *dy, mica_array *dx) {
    rule *r = &l->r;
    const mc_attr_scan_over *a = r->n->attr;
    sweep w = {.l = l};
    MC_TRY(open_sweep(&w, dy));
    MC_TRY(sweep_forward(&w));
    if (w.d.rest > 0) MC_TRY(sweep_back(&w, true));
    if (w.d.whole > 0) MC_TRY(sweep_back(&w, false));
    for (size_t i = 0; i < l->carried.n; i++)
        dx[l->carried.list[i]] = w.back[i];
    for (size_t i = 0; i < l->captures.n; i++)
        dx[l->captures.list[i]] = w.back[l->carried.n + i];
    for (size_t i = 0; i < l->rows.n; i++)
        dx[l->rows.list[i]] = join_parts(&w, i, r->in[l->rows.list[i]], a->reverse != 0);
    return mica_scope_status(r->n->s);
}

static bool scan_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    loop_rule l;
    begin_scan(&l, n);
    rule *r = &l.r;
    size_t own = r->n_carried + r->n_xs;
    l.rows = choose(r, r->in, r->n_carried, own, n->wanted, NULL);
    l.captures = choose(r, r->in, own, r->n_in, n->wanted, NULL);
    l.ys = choose(r, n->out, r->n_carried, l.body->n_results, NULL, dy);
    return finish(r, r->status == MICA_OK ? scan_back(&l, dy, dx) : r->status);
}
MC_GRADIENT(scan, scan_vjp, scan_jvp);

/* ---- while, backward ---- */

/* args: values. results: those of the body. */
static mica_status while_body(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    loop_rule *l = user;
    mica_array *params = arrays(&l->r, l->r.n_in);
    (void)n_args, (void)n_results;
    if (!params) return l->r.status;
    memcpy(params, args, l->r.n_carried * sizeof *args);
    MC_TRY(bring_captures(&l->r, s, l->r.n_carried, params));
    return mc_subgraph_record(l->body, s, params, results);
}

static mica_status while_stays(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)s, (void)n_args;
    memcpy(results, args, n_results * sizeof *results);
    return MICA_OK;
}

/* A round where the condition holds; else the values stay, and it holds no more. */
static mica_status while_step(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                              mica_array *results, size_t n_results) {
    mica_array more;
    MC_TRY(while_cond(user, s, args, n_args, &more, 1));
    return mica_if(s, more, while_body, while_stays, user, args, n_args, results, n_results);
}

/* A loop with a bound is a scan of so many steps. */
static mica_status while_back(loop_rule *l, const mica_array *dy, mica_array *dx) {
    rule *r = &l->r;
    const mc_gradient_node *n = r->n;
    const mc_attr_while *a = n->attr;
    choice wanted = choose(r, r->in, 0, r->n_in, n->wanted, NULL);
    mica_array *ys = arrays(r, r->n_carried), *xs = arrays(r, wanted.n);
    mica_array *grads = arrays(r, wanted.n), *own = arrays(r, r->n_in);
    if (r->status != MICA_OK) return r->status;
    if (a->max_rounds == 0)
        return mc_fail(MICA_EUNSUPPORTED,
                       "while: a loop without a bound has no gradient; give it max_rounds "
                       "(mica_while_options), or use mica_jvp");
    const mica_scan_options o = {.length = a->max_rounds};
    memcpy(own, r->in, r->n_in * sizeof *own);
    tell_apart(n->s, own, r->n_in);
    r->in = own;
    MC_TRY(mica_scan(n->s, while_step, l, r->in, r->n_carried, NULL, 0, &o, ys, NULL, 0));
    for (size_t i = 0; i < wanted.n; i++)
        xs[i] = r->in[wanted.list[i]];
    MC_TRY(n->passes->back(n->s, ys, dy, r->n_carried, xs, wanted.n, grads));
    for (size_t i = 0; i < wanted.n; i++)
        dx[wanted.list[i]] = grads[i];
    return MICA_OK;
}

static bool while_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    loop_rule l;
    begin_while(&l, n);
    return finish(&l.r, l.r.status == MICA_OK ? while_back(&l, dy, dx) : l.r.status);
}
MC_GRADIENT(while, while_vjp, while_jvp);
