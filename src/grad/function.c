/* The public functions on gradients: they record functions, and let a pass go over what these
 * recorded. */
#include <mica/ops.h>

#include "base/alloc.h"
#include "base/options.h"
#include "grad/grad.h"

/* ---- arrays ---- */

/* What the caller gets: the arrays `made` [n], or invalid ones after an error. */
static void hand_out(mica_scope *s, mica_status status, const mica_array *made, size_t n,
                     mica_array *out) {
    for (size_t i = 0; i < n && out; i++)
        out[i] = status == MICA_OK ? made[i] : (mica_array){s, MC_ABSENT};
}

static mica_status begin(mica_scope *s, const char *what, bool complete) {
    if (!s || !complete) return mc_fail(MICA_EINVAL, "%s: NULL", what);
    return mica_scope_status(s);
}

/* The end of a call that began as `began` says: what failed since is the call's own. */
static mica_status end(mica_scope *s, mica_status began, mica_status status) {
    if (began == MICA_OK && status != MICA_OK) mica_scope_clear_error(s);
    return status;
}

static mica_status check_float(mica_array x, const char *what, size_t i) {
    char text[MC_LAYOUT_TEXT];
    if (mc_dtype_has_gradient(mica_array_dtype(x))) return MICA_OK;
    return mc_fail(MICA_EDTYPE, "%s %zu is %s; only floats have gradients", what, i,
                   mc_layout_text(mc_layout_of(x), text));
}

/* Arrays of s in the place of xs [n]. */
static mica_status import_all(mica_scope *s, const char *what, const mica_array *xs, size_t n,
                              mica_array *out) {
    for (size_t i = 0; i < n; i++) {
        MC_TRY(mc_check_valid(xs[i], what));
        MC_TRY(mc_check_array(xs[i], what));
        out[i] = mc_import(s, what, xs[i]);
        MC_TRY(mica_scope_status(s));
    }
    return MICA_OK;
}

/* ---- mica_grad ---- */

/* The 1 that stands for the gradient of y. help: what to do where that is none. */
static mica_status one_for(mica_scope *s, const char *what, mica_array y, const char *help,
                           mica_array *dy) {
    char text[MC_LAYOUT_TEXT];
    const mc_layout *l = mc_layout_of(y);
    if (mc_layout_size(l) != 1)
        return mc_fail(MICA_ESHAPE, "%s: %s has not one element; %s", what, mc_layout_text(l, text),
                       help);
    *dy = mica_ones(s, l->shape, l->ndim, l->dtype);
    return mica_scope_status(s);
}

/* Lets dy, which is called `what`, be an array of s; of: what y is. */
static mica_status seed(mica_scope *s, const char *what, const char *of, mica_array y,
                        mica_array *dy) {
    char want[MC_LAYOUT_TEXT], got[MC_LAYOUT_TEXT];
    const mc_layout *l = mc_layout_of(y);
    MC_TRY(import_all(s, what, dy, 1, dy));
    if (mc_layout_same_shape(mc_layout_of(*dy), l)) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "%s is %s for %s %s", what, mc_layout_text(mc_layout_of(*dy), got),
                   of, mc_layout_text(l, want));
}

static mica_status grad(mica_scope *s, mica_array y, mica_array dy, const mica_array *xs, size_t n,
                        mica_array *mine, mica_array *grads) {
    MC_TRY(import_all(s, "grad: y", &y, 1, &y));
    MC_TRY(check_float(y, "grad: y", 0));
    MC_TRY(dy.scope ? seed(s, "grad: dy", "a result", y, &dy)
                    : one_for(s, "grad", y, "give dy, or reduce it", &dy));
    MC_TRY(import_all(s, "grad: x", xs, n, mine));
    for (size_t i = 0; i < n; i++)
        MC_TRY(check_float(mine[i], "grad: x", i));
    return mc_walk_back(s, &y, &dy, 1, mine, n, grads);
}

mica_status mica_grad(mica_scope *s, mica_array y, mica_array dy, const mica_array *xs, size_t n,
                      mica_array *grads) {
    mica_status began = begin(s, "grad", (xs && grads) || n == 0), status = began;
    mica_array *mine = mc_array_alloc(n, sizeof *mine), *made = mc_array_alloc(n, sizeof *made);
    if (status == MICA_OK)
        status = mine && made ? grad(s, y, dy, xs, n, mine, made) : mc_fail_nomem("a gradient");
    hand_out(s, status, made, n, grads);
    mc_free(mine);
    mc_free(made);
    return end(s, began, status);
}

/* ---- functions ---- */

/* A call of a function that records, with lists of its own. */
typedef struct call {
    const char *what;
    mica_scope *s;
    mica_compile_fn fn;
    void *user;
    size_t n_args, n_results;
    mica_array *args;       /* [n_args] what fn gets */
    mica_array *results;    /* [n_results] */
    mica_array *of_args;    /* [n_args] gradients or tangents */
    mica_array *of_results; /* [n_results] */
} call;

/* The caller ends it, after an error too. */
static mica_status call_init(call *c, const mica_array *args) {
    c->args = mc_calloc(c->n_args + 1, sizeof *c->args);
    c->results = mc_calloc(c->n_results + 1, sizeof *c->results);
    c->of_args = mc_calloc(c->n_args + 1, sizeof *c->of_args);
    c->of_results = mc_calloc(c->n_results + 1, sizeof *c->of_results);
    if (!c->args || !c->results || !c->of_args || !c->of_results)
        return mc_fail_nomem("recording a function");
    return import_all(c->s, c->what, args, c->n_args, c->args);
}

static void call_deinit(call *c) {
    mc_free(c->args);
    mc_free(c->results);
    mc_free(c->of_args);
    mc_free(c->of_results);
}

/* A node of its own for x, so that gradients tell it from x. */
static mica_array identity(mica_scope *s, mica_array x) {
    return mc_record(s, MC_OP_IDENTITY, NULL, &x, 1);
}

/* Arguments that are nodes of their own: a gradient by an argument is not that by an array which
 * the function got from elsewhere, or twice. */
static mica_status part_args(call *c) {
    for (size_t i = 0; i < c->n_args; i++)
        c->args[i] = identity(c->s, c->args[i]);
    return mica_scope_status(c->s);
}

/* Lets the function record. */
static mica_status record(call *c) {
    for (size_t k = 0; k < c->n_results; k++)
        c->results[k] = mc_invalid(c->s);
    MC_TRY(mc_scope_begin_recording(c->s));
    mica_status status = c->fn(c->user, c->s, c->args, c->n_args, c->results, c->n_results);
    mc_scope_end_recording(c->s);
    MC_TRY(status);
    MC_TRY(mica_scope_status(c->s));
    return import_all(c->s, c->what, c->results, c->n_results, c->results);
}

/* ---- vjp, value_and_grad ---- */

static mica_status vjp(call *c, const mica_array *args, const mica_array *dys) {
    MC_TRY(call_init(c, args));
    MC_TRY(part_args(c));
    MC_TRY(record(c));
    for (size_t k = 0; k < c->n_results; k++) {
        c->of_results[k] = MICA_NONE;
        if (!dys[k].scope) continue;
        MC_TRY(check_float(c->results[k], "vjp: result", k));
        c->of_results[k] = dys[k];
        MC_TRY(seed(c->s, "vjp: dy", "a result", c->results[k], &c->of_results[k]));
    }
    mica_array *floats = mc_array_alloc(c->n_args, sizeof *floats);
    if (!floats) return mc_fail_nomem("a gradient");
    size_t n = 0;
    for (size_t i = 0; i < c->n_args; i++)
        if (mc_dtype_has_gradient(mica_array_dtype(c->args[i]))) floats[n++] = c->args[i];
    mica_status status =
        mc_walk_back(c->s, c->results, c->of_results, c->n_results, floats, n, c->of_args);
    mc_free(floats);
    if (status != MICA_OK) return status;
    for (size_t i = c->n_args; i-- > 0;) /* from the floats to all arguments */
        c->of_args[i] =
            mc_dtype_has_gradient(mica_array_dtype(c->args[i])) ? c->of_args[--n] : MICA_NONE;
    return MICA_OK;
}

mica_status mica_vjp(mica_scope *s, mica_compile_fn fn, void *user, const mica_array *args,
                     size_t n_args, const mica_array *dys, mica_array *results, size_t n_results,
                     mica_array *grads) {
    call c = {"vjp", s, fn, user, n_args, n_results, NULL, NULL, NULL, NULL};
    mica_status began = begin(
        s, c.what, fn && ((args && grads) || n_args == 0) && ((dys && results) || n_results == 0));
    mica_status status = began;
    if (status == MICA_OK) status = vjp(&c, args, dys);
    hand_out(s, status, c.results, n_results, results);
    hand_out(s, status, c.of_args, n_args, grads);
    call_deinit(&c);
    return end(s, began, status);
}

/* The arguments number wrt [n] of c, or all of them, into out. */
static mica_status choose(const call *c, const size_t *wrt, size_t n, mica_array *out) {
    for (size_t i = 0; i < n; i++) {
        size_t at = wrt ? wrt[i] : i;
        if (at >= c->n_args)
            return mc_fail(MICA_EINVAL, "value_and_grad: there is no argument %zu of %zu", at,
                           c->n_args);
        MC_TRY(check_float(c->args[at], "value_and_grad: argument", at));
        out[i] = c->args[at];
    }
    return MICA_OK;
}

static mica_status value_and_grad(call *c, const mica_array *args, const size_t *wrt, size_t n,
                                  mica_array *xs, mica_array *grads) {
    mica_array one = MICA_NONE;
    if (c->n_results == 0) return mc_fail(MICA_EINVAL, "value_and_grad: there is no result");
    MC_TRY(call_init(c, args));
    MC_TRY(part_args(c));
    MC_TRY(choose(c, wrt, n, xs));
    MC_TRY(record(c));
    MC_TRY(check_float(c->results[0], "value_and_grad: result", 0));
    MC_TRY(one_for(c->s, "value_and_grad", c->results[0], "reduce it", &one));
    return mc_walk_back(c->s, c->results, &one, 1, xs, n, grads);
}

mica_status mica_value_and_grad(mica_scope *s, mica_compile_fn fn, void *user,
                                const mica_array *args, size_t n_args, const size_t *wrt,
                                size_t n_wrt, mica_array *results, size_t n_results,
                                mica_array *grads) {
    call c = {"value_and_grad", s, fn, user, n_args, n_results, NULL, NULL, NULL, NULL};
    size_t n = wrt ? n_wrt : n_args;
    mica_status began =
        begin(s, c.what, fn && (args || n_args == 0) && results && (grads || n == 0));
    mica_status status = began;
    mica_array *xs = mc_array_alloc(n, sizeof *xs), *made = mc_array_alloc(n, sizeof *made);
    if (status == MICA_OK)
        status =
            xs && made ? value_and_grad(&c, args, wrt, n, xs, made) : mc_fail_nomem("a gradient");
    hand_out(s, status, c.results, n_results, results);
    hand_out(s, status, made, n, grads);
    mc_free(xs);
    mc_free(made);
    call_deinit(&c);
    return end(s, began, status);
}

/* ---- jvp ---- */

static mica_status jvp(call *c, const mica_array *args, const mica_array *dargs) {
    MC_TRY(call_init(c, args));
    MC_TRY(part_args(c));
    for (size_t i = 0; i < c->n_args; i++) {
        c->of_args[i] = MICA_NONE;
        if (!dargs[i].scope) continue;
        MC_TRY(check_float(c->args[i], "jvp: argument", i));
        c->of_args[i] = dargs[i];
        MC_TRY(seed(c->s, "jvp: darg", "an argument", c->args[i], &c->of_args[i]));
    }
    MC_TRY(record(c));
    return mc_walk_forward(c->s, c->args, c->of_args, c->n_args, c->results, c->n_results,
                           c->of_results);
}

mica_status mica_jvp(mica_scope *s, mica_compile_fn fn, void *user, const mica_array *args,
                     size_t n_args, const mica_array *dargs, mica_array *results, size_t n_results,
                     mica_array *dresults) {
    call c = {"jvp", s, fn, user, n_args, n_results, NULL, NULL, NULL, NULL};
    mica_status began =
        begin(s, c.what,
              fn && ((args && dargs) || n_args == 0) && ((results && dresults) || n_results == 0));
    mica_status status = began;
    if (status == MICA_OK) status = jvp(&c, args, dargs);
    hand_out(s, status, c.results, n_results, results);
    hand_out(s, status, c.of_results, n_results, dresults);
    call_deinit(&c);
    return end(s, began, status);
}

/* ---- checkpoint, custom_vjp ---- */

/* Gives each result a node of its own in the region that began with `begin`. */
static mica_status own_results(call *c, uint32_t begin) {
    for (size_t k = 0; k < c->n_results; k++) {
        mica_array *y = &c->results[k];
        bool own = y->node >= begin && mc_node_of(*y)->n_in > 0;
        for (size_t i = 0; i < k; i++)
            own = own && c->results[i].node != y->node;
        if (!own) *y = identity(c->s, *y);
    }
    return mica_scope_status(c->s);
}

static mica_status record_region(call *c, const mica_array *args,
                                 const mica_custom_gradient *rule) {
    MC_TRY(call_init(c, args));
    uint32_t first = mc_scope_count(c->s);
    MC_TRY(record(c));
    MC_TRY(own_results(c, first));
    mc_region r = {.begin = first, .end = mc_scope_count(c->s)};
    if (rule) {
        r.custom = *rule;
        r.user = c->user;
        r.args = c->args;
        r.n_args = c->n_args;
        r.results = c->results;
        r.n_results = c->n_results;
    }
    return r.begin < r.end ? mc_scope_add_region(c->s, &r) : MICA_OK;
}

mica_status mica_checkpoint(mica_scope *s, mica_compile_fn fn, void *user, const mica_array *args,
                            size_t n_args, mica_array *results, size_t n_results) {
    call c = {"checkpoint", s, fn, user, n_args, n_results, NULL, NULL, NULL, NULL};
    mica_status began =
        begin(s, c.what, fn && (args || n_args == 0) && (results || n_results == 0));
    mica_status status = began;
    if (status == MICA_OK) status = record_region(&c, args, NULL);
    hand_out(s, status, c.results, n_results, results);
    call_deinit(&c);
    return end(s, began, status);
}

static mica_status record_custom(call *c, const mica_array *args,
                                 const mica_custom_gradient *rule) {
    mica_custom_gradient copy;
    MC_TRY(MC_OPTIONS_COPY(mica_custom_gradient, jvp, &copy, rule));
    if (!copy.fn || !copy.vjp) return mc_fail(MICA_EINVAL, "custom_vjp: fn or vjp is NULL");
    c->fn = copy.fn;
    return record_region(c, args, &copy);
}

mica_status mica_custom_vjp(mica_scope *s, const mica_custom_gradient *rule, void *user,
                            const mica_array *args, size_t n_args, mica_array *results,
                            size_t n_results) {
    call c = {"custom_vjp", s, NULL, user, n_args, n_results, NULL, NULL, NULL, NULL};
    mica_status began =
        begin(s, c.what, rule && (args || n_args == 0) && (results || n_results == 0));
    mica_status status = began;
    if (status == MICA_OK) status = record_custom(&c, args, rule);
    hand_out(s, status, c.results, n_results, results);
    call_deinit(&c);
    return end(s, began, status);
}
