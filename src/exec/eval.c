/* Evaluation: trace what is asked for, find it compiled, run it over the leaves, and hand the
 * results to the nodes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "exec/bind.h"
#include "exec/cache.h"

/* An evaluation that is prepared, runs, or ran. */
typedef struct evaluation {
    mc_job job; /* first: the worker hands it back */
    mica_scope *scope;
    const mica_cancel *cancel; /* the scope's when it was asked for */
    mc_cached *cached;
    uint32_t n_targets;
    mica_array *targets; /* [n_targets] */
    mc_binding *args;    /* [n_params] */
    uint64_t *scalars;
    mc_result *results;
    mica_status status; /* of the run */
    char error[1024];   /* its text, which the worker's thread leaves behind */
} evaluation;

/* Kept with the scope: what tracing and running need in memory, so that a replay allocates
 * nothing. One evaluation of a scope runs at a time. */
typedef struct workspace {
    mc_arena arena;
    mc_trace trace;
    evaluation evaluation;
} workspace;

static void free_workspace(void *space) {
    workspace *w = space;
    mc_buffer_deinit(&w->trace.key);
    mc_arena_deinit(&w->arena);
    mc_free(w);
}

static mica_status get_workspace(mica_scope *s, workspace **out) {
    workspace *w = mc_scope_space(s);
    if (!w) {
        w = mc_calloc(1, sizeof *w);
        if (!w) return mc_fail_nomem("an evaluation");
        mc_scope_set_space(s, w, free_workspace);
    }
    mc_arena_reset(&w->arena);
    *out = w;
    return MICA_OK;
}

/* ---- binding ---- */

mica_status mc_bind_leaf(const mc_node *leaf, mc_binding *arg, uint64_t **scalars) {
    *arg = (mc_binding){.storage = NULL};
    if (leaf->param && !leaf->storage)
        return mc_fail(MICA_EINVAL, "eval: needs a parameter of a program, which has no value "
                                    "outside of it");
    if (leaf->length)
        return mc_fail(MICA_EINVAL, "eval: needs the length of a symbol, which has no value");
    if (leaf->scalar) {
        *(*scalars)++ = leaf->value;
        return MICA_OK;
    }
    arg->storage = leaf->storage;
    arg->address = leaf->storage->address;
    arg->offset_bytes = leaf->offset_bytes;
    return MICA_OK;
}

static mica_status bind(evaluation *e, mc_arena *arena, const mc_trace *trace) {
    const mc_compiled *c = e->cached->compiled;
    e->args = mc_arena_alloc(arena, c->n_params * sizeof *e->args);
    e->scalars = mc_arena_alloc(arena, c->n_scalars * sizeof *e->scalars);
    e->results = mc_arena_alloc(arena, c->n_results * sizeof *e->results);
    if (!e->args || !e->scalars || !e->results) return mc_fail_nomem("an evaluation");
    uint64_t *scalars = e->scalars;
    for (uint32_t i = 0; i < trace->n_leaves; i++)
        MC_TRY(mc_bind_leaf(mc_scope_node(e->scope, trace->leaves[i]), &e->args[i], &scalars));
    return MICA_OK;
}

static mica_status prepare(mica_scope *s, workspace *w, mica_array *xs, size_t n,
                           evaluation **out) {
    MC_TRY(mc_trace_make(&w->trace, &w->arena, s, xs, n));
    evaluation *e = &w->evaluation;
    *e = (evaluation){
        .scope = s, .cancel = mc_scope_cancel(s), .targets = xs, .n_targets = (uint32_t)n};
    MC_TRY(mc_cached_get(mica_scope_device(s), &w->trace, &e->cached));
    mica_status status = bind(e, &w->arena, &w->trace);
    if (status != MICA_OK) {
        mc_cached_put(mica_scope_device(s), e->cached);
        return status;
    }
    *out = e;
    return MICA_OK;
}

/* ---- running ---- */

static void run_evaluation(evaluation *e) {
    e->status = mc_compiled_run(e->cached->compiled, e->args, e->scalars, e->results, e->cancel);
}

void mc_node_leave(mc_node *node, mc_node_state state) {
    mc_storage_release(node->storage);
    node->storage = NULL;
    node->state = state;
}

/* The node is evaluated: it takes the result's reference over. */
static void give_node(mc_node *node, const mc_layout *layout, const mc_result *result) {
    node->layout = *layout;
    node->storage = result->storage;
    node->offset_bytes = result->offset_bytes;
    node->state = MC_READY;
}

static mica_status finish(evaluation *e) {
    workspace *w = mc_scope_space(e->scope);
    const mc_compiled *c = e->cached->compiled;
    for (uint32_t i = 0; i < c->n_params; i++)
        if (e->args[i].taken) mc_node_leave(mc_scope_node(e->scope, w->trace.leaves[i]), MC_GONE);
    for (uint32_t i = 0; e->status == MICA_OK && i < e->n_targets; i++) {
        mc_node *node = mc_node_of(e->targets[i]);
        if (node->state == MC_PENDING)
            give_node(node, &c->results[i], &e->results[i]);
        else
            mc_storage_release(e->results[i].storage); /* asked for twice */
    }
    mc_cached_put(mica_scope_device(e->scope), e->cached);
    return e->status;
}

/* ---- the public functions ---- */

/* How many of xs are still to be computed. Changes nothing: evaluated arrays may be asked for in
 * any number of threads. */
static mica_status count_pending(mica_scope *s, const mica_array *xs, size_t n, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        MC_TRY(mc_check_valid(xs[i], "eval"));
        const mc_node *node = mc_node_of(xs[i]);
        if (xs[i].scope != s) return mc_fail(MICA_EINVAL, "eval: array %zu is of another scope", i);
        if (node->state == MC_GONE)
            return mc_fail(MICA_EINVAL, "eval: array %zu was moved away, overwritten or released",
                           i);
        if (node->param && !node->storage)
            return mc_fail(MICA_EINVAL,
                           "eval: array %zu is a parameter of a program, which has no value "
                           "outside of it",
                           i);
        if (node->length)
            return mc_fail(MICA_EINVAL,
                           "eval: array %zu is the length of a symbol, which has no value outside "
                           "of its program",
                           i);
        if (node->state == MC_PENDING) (*count)++;
    }
    return MICA_OK;
}

static void collect_pending(const mica_array *xs, size_t n, mica_array *pending) {
    for (size_t i = 0; i < n; i++) {
        mc_node *node = mc_node_of(xs[i]);
        if (node->state == MC_PENDING)
            *pending++ = xs[i];
        else
            node->movable = false; /* asked for too: the others may not overwrite it */
    }
}

static mica_status start(mica_scope *s, const mica_array *xs, size_t n, evaluation **e) {
    *e = NULL;
    if (!s || (!xs && n > 0)) return mc_fail(MICA_EINVAL, "eval: NULL");
    MC_TRY(mica_wait(s));
    MC_TRY(mica_scope_status(s));
    size_t n_pending;
    MC_TRY(count_pending(s, xs, n, &n_pending));
    if (n_pending == 0) return MICA_OK;
    workspace *w = NULL;
    MC_TRY(get_workspace(s, &w));
    mica_array *pending = mc_arena_alloc(&w->arena, n_pending * sizeof *pending);
    if (!pending) return mc_fail_nomem("an evaluation");
    collect_pending(xs, n, pending);
    return prepare(s, w, pending, n_pending, e);
}

mica_status mica_eval_n(mica_scope *s, const mica_array *xs, size_t n) {
    evaluation *e;
    MC_TRY(start(s, xs, n, &e));
    if (!e) return MICA_OK;
    run_evaluation(e);
    return finish(e);
}

mica_status mica_eval(mica_scope *s, mica_array x) {
    return mica_eval_n(s, &x, 1);
}

static void run_in_background(mc_job *job) {
    evaluation *e = (evaluation *)(void *)job;
    run_evaluation(e);
    if (e->status != MICA_OK) snprintf(e->error, sizeof e->error, "%s", mica_last_error());
}

static mica_status wait_for_run(mica_scope *s, void *context) {
    evaluation *e = context;
    mica_status status = mc_worker_wait(&mica_scope_device(s)->worker, &e->job);
    /* In a fork: nobody runs it. What it was at is half written and stays as it is. */
    if (status != MICA_OK) return status;
    mc_scope_set_run(s, NULL, NULL);
    if (e->status != MICA_OK) mc_fail(e->status, "%s", e->error);
    return finish(e);
}

mica_status mica_eval_async(mica_scope *s, const mica_array *xs, size_t n) {
    evaluation *e;
    MC_TRY(start(s, xs, n, &e));
    if (!e) return MICA_OK;
    e->job.run = run_in_background;
    mica_status status = mc_worker_submit(&mica_scope_device(s)->worker, &e->job);
    if (status != MICA_OK) {
        mc_cached_put(mica_scope_device(s), e->cached);
        return status;
    }
    mc_scope_set_run(s, e, wait_for_run);
    return MICA_OK;
}

mica_status mica_wait(mica_scope *s) {
    if (!s) return mc_fail(MICA_EINVAL, "wait: the scope is NULL");
    void *running = mc_scope_run(s);
    return running ? wait_for_run(s, running) : MICA_OK;
}
