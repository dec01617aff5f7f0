/* Evaluation: trace, get the plan, bind the leaves, run the steps, hand the results to the nodes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

void *mc_run_scratch(mc_run *run, size_t bytes) {
    if (run->scratch == NULL || run->scratch->bytes < bytes) {
        mc_storage_release(run->scratch);
        run->scratch = NULL;
        if (mc_storage_new(run->device, bytes, &run->scratch) != MICA_OK) return NULL;
    }
    return run->scratch->data;
}

void *mc_run_keep(mc_run *run, const void *key, size_t key_bytes, size_t bytes, bool *found) {
    *found = true;
    for (int i = 0; i < run->n_kept; i++) {
        const mc_kept *k = &run->kept[i];
        if (k->bytes == bytes && k->key_bytes == key_bytes &&
            memcmp((char *)k->storage->data + bytes, key, key_bytes) == 0)
            return k->storage->data;
    }
    *found = false;
    if (run->n_kept == MC_MOST_KEPT) return NULL;
    mc_kept *k = &run->kept[run->n_kept];
    if (mc_storage_new(run->device, bytes + key_bytes, &k->storage) != MICA_OK) return NULL;
    k->bytes = bytes;
    k->key_bytes = key_bytes;
    memcpy((char *)k->storage->data + bytes, key, key_bytes);
    run->n_kept++;
    return k->storage->data;
}

/* ---- binding ---- */

static void *leaf_data(mc_node *node) {
    return node->scalar ? (void *)&node->value
                        : (void *)((char *)node->storage->data + node->offset_bytes);
}

/* A root with a storage of its own: the moved leaf's where nobody else holds that, else new. */
static mica_status bind_own(mc_run *run, const mc_root *root, uint32_t i) {
    if (root->index != MC_ABSENT) {
        mc_node *leaf = mc_scope_node(run->scope, run->leaves[root->index]);
        if (!leaf->scalar && !leaf->storage->read_only && mc_storage_count(leaf->storage) == 1) {
            run->own[i] = mc_storage_retain(leaf->storage);
            run->roots[i] = leaf_data(leaf);
            return MICA_OK;
        }
    }
    MC_TRY(mc_storage_new(run->device, (size_t)root->bytes, &run->own[i]));
    run->roots[i] = run->own[i]->data;
    return MICA_OK;
}

static mica_status bind_roots(mc_run *run) {
    const mc_plan *p = run->plan;
    if (p->temp_bytes > 0) MC_TRY(mc_storage_new(run->device, (size_t)p->temp_bytes, &run->temp));
    for (uint32_t i = 0; i < p->n_roots; i++) {
        const mc_root *root = &p->roots[i];
        void **data = &run->roots[i];
        switch (root->kind) {
        case MC_ROOT_LEAF:
            *data = leaf_data(mc_scope_node(run->scope, run->leaves[root->index]));
            break;
        case MC_ROOT_CONST:
            *data = (void *)(uintptr_t)&root->value; /* only ever read */
            break;
        case MC_ROOT_TEMP:
            *data = root->placed ? (char *)run->temp->data + root->offset : NULL;
            break;
        case MC_ROOT_OWN:
            MC_TRY(bind_own(run, root, i));
            break;
        }
    }
    return MICA_OK;
}

static void *value_data(const mc_run *run, uint32_t value) {
    const mc_value *v = &run->plan->values[value];
    return (char *)run->roots[v->root] + v->offset_bytes;
}

static void bind_operands(mc_run *run) {
    const mc_plan *p = run->plan;
    mc_operand *next = run->operands;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_step *step = &p->steps[i];
        for (uint32_t k = 0; k < step->n_in; k++, next++)
            if (step->in[k] != MC_ABSENT) next->data = value_data(run, step->in[k]);
        run->calls[i].out.data = value_data(run, step->out);
    }
}

/* ---- running ---- */

/* Gives back what the run held, and the run itself. */
static void end_run(mc_run *run) {
    for (uint32_t i = 0; i < run->plan->n_roots; i++) {
        mc_storage_release(run->own[i]);
        run->own[i] = NULL;
    }
    mc_storage_release(run->temp);
    mc_storage_release(run->scratch);
    run->temp = run->scratch = NULL;
    while (run->n_kept > 0)
        mc_storage_release(run->kept[--run->n_kept].storage);
    mc_run_put(run);
}

/* What tracing needs in memory; kept with the scope, so that a replay allocates nothing. */
typedef struct workspace {
    mc_arena arena;
    mc_trace trace;
} workspace;

static void free_workspace(void *space) {
    workspace *w = space;
    mc_buffer_deinit(&w->trace.key);
    mc_arena_deinit(&w->arena);
    mc_free(w);
}

static mica_status get_workspace(mica_scope *s, workspace **out) {
    workspace *w = mc_scope_space(s);
    if (w == NULL) {
        w = mc_calloc(1, sizeof *w);
        if (w == NULL) return mc_fail_nomem("an evaluation");
        mc_scope_set_space(s, w, free_workspace);
    }
    mc_arena_reset(&w->arena);
    *out = w;
    return MICA_OK;
}

/* Everything up to the point where only the steps are left to run. */
static mica_status prepare(mica_scope *s, workspace *w, const mica_array *xs, size_t n,
                           mc_run **out) {
    MC_TRY(mc_trace_make(&w->trace, &w->arena, s, xs, n));
    mc_run *run;
    MC_TRY(mc_run_get(mica_scope_device(s), &w->trace, &run));
    run->scope = s;
    run->status = MICA_OK;
    memcpy(run->targets, xs, n * sizeof *xs);
    memcpy(run->leaves, w->trace.leaves, w->trace.n_leaves * sizeof *run->leaves);
    mica_status status = bind_roots(run);
    if (status != MICA_OK) {
        end_run(run);
        return status;
    }
    bind_operands(run);
    *out = run;
    return MICA_OK;
}

static void run_steps(mc_run *run) {
    const mc_plan *p = run->plan;
    for (uint32_t i = 0; i < p->n_steps && run->status == MICA_OK; i += p->steps[i].joint)
        run->status = p->steps[i].kernel(&run->calls[i]);
}

/* The target's storage and the offset of its first element there, with a reference for the node. */
static mica_status target_storage(mc_run *run, const mc_value *v, mc_storage **storage,
                                  int64_t *offset_bytes) {
    const mc_root *root = &run->plan->roots[v->root];
    *offset_bytes = v->offset_bytes;
    mc_node *leaf = NULL;
    if (root->kind == MC_ROOT_LEAF) {
        leaf = mc_scope_node(run->scope, run->leaves[root->index]);
        if (!leaf->scalar) {
            *storage = mc_storage_retain(leaf->storage);
            *offset_bytes += leaf->offset_bytes;
            return MICA_OK;
        }
    }
    if (root->kind == MC_ROOT_OWN) {
        *storage = mc_storage_retain(run->own[v->root]);
        *offset_bytes += (char *)run->roots[v->root] - (char *)(*storage)->data;
        return MICA_OK;
    }
    /* A view of one number: give it a place in memory. */
    MC_TRY(mc_storage_new(run->device, sizeof root->value, storage));
    memcpy((*storage)->data, leaf != NULL ? &leaf->value : &root->value, sizeof root->value);
    return MICA_OK;
}

static mica_status attach_targets(mc_run *run) {
    const mc_plan *p = run->plan;
    for (uint32_t i = 0; i < p->n_targets; i++) {
        mc_node *node = mc_node_of(run->targets[i]);
        if (node->state != MC_PENDING) continue; /* asked for twice */
        const mc_value *v = &p->values[p->targets[i]];
        MC_TRY(target_storage(run, v, &node->storage, &node->offset_bytes));
        node->layout = v->layout;
        node->state = MC_READY;
    }
    return MICA_OK;
}

/* Leaves whose memory a result took over are gone. */
static void drop_taken_leaves(mc_run *run) {
    const mc_plan *p = run->plan;
    for (uint32_t i = 0; i < p->n_roots; i++) {
        const mc_root *root = &p->roots[i];
        if (root->kind != MC_ROOT_OWN || root->index == MC_ABSENT) continue;
        mc_node *leaf = mc_scope_node(run->scope, run->leaves[root->index]);
        if (leaf->state != MC_READY || leaf->storage != run->own[i]) continue;
        mc_storage_release(leaf->storage);
        leaf->storage = NULL;
        leaf->state = MC_GONE;
    }
}

static mica_status finish(mc_run *run) {
    mica_status status = run->status;
    drop_taken_leaves(run);
    if (status == MICA_OK) status = attach_targets(run);
    end_run(run);
    return status;
}

/* ---- the public functions ---- */

/* How many of xs are still to be computed. Changes nothing: evaluated arrays may be asked for in any
 * number of threads. */
static mica_status count_pending(mica_scope *s, const mica_array *xs, size_t n, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        const mc_node *node = mc_node_of(xs[i]);
        if (node == NULL || xs[i].scope != s)
            return mc_fail(MICA_EINVAL, "eval: array %zu is invalid or of another scope", i);
        if (node->state == MC_GONE)
            return mc_fail(MICA_EINVAL, "eval: array %zu was moved away or overwritten", i);
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

static mica_status start(mica_scope *s, const mica_array *xs, size_t n, mc_run **run) {
    *run = NULL;
    if (s == NULL || (xs == NULL && n > 0)) return mc_fail(MICA_EINVAL, "eval: NULL");
    MC_TRY(mica_wait(s));
    MC_TRY(mica_scope_status(s));
    size_t n_pending;
    MC_TRY(count_pending(s, xs, n, &n_pending));
    if (n_pending == 0) return MICA_OK;
    workspace *w = NULL;
    MC_TRY(get_workspace(s, &w));
    mica_array *pending = mc_arena_alloc(&w->arena, n_pending * sizeof *pending);
    if (pending == NULL) return mc_fail_nomem("an evaluation");
    collect_pending(xs, n, pending);
    return prepare(s, w, pending, n_pending, run);
}

mica_status mica_eval_n(mica_scope *s, const mica_array *xs, size_t n) {
    mc_run *run;
    MC_TRY(start(s, xs, n, &run));
    if (run == NULL) return MICA_OK;
    run_steps(run);
    return finish(run);
}

mica_status mica_eval(mica_scope *s, mica_array x) {
    return mica_eval_n(s, &x, 1);
}

static void run_in_background(mc_job *job) {
    mc_run *run = (mc_run *)(void *)job;
    run_steps(run);
    if (run->status != MICA_OK) snprintf(run->error, sizeof run->error, "%s", mica_last_error());
}

static mica_status wait_for_run(mica_scope *s, void *context) {
    mc_run *run = context;
    mc_worker_wait(&run->device->worker, &run->job);
    mc_scope_set_run(s, NULL, NULL);
    if (run->status != MICA_OK) mc_fail(run->status, "%s", run->error);
    return finish(run);
}

mica_status mica_eval_async(mica_scope *s, const mica_array *xs, size_t n) {
    mc_run *run;
    MC_TRY(start(s, xs, n, &run));
    if (run == NULL) return MICA_OK;
    run->job.run = run_in_background;
    mica_status status = mc_worker_submit(&run->device->worker, &run->job);
    if (status != MICA_OK) {
        end_run(run);
        return status;
    }
    mc_scope_set_run(s, run, wait_for_run);
    return MICA_OK;
}

mica_status mica_wait(mica_scope *s) {
    if (s == NULL) return mc_fail(MICA_EINVAL, "wait: the scope is NULL");
    void *run = mc_scope_run(s);
    return run != NULL ? wait_for_run(s, run) : MICA_OK;
}

/* ---- moving values between scopes ---- */

static mica_status ready(mica_array x, const char *what) {
    if (!mica_valid(x)) return mc_fail(MICA_EINVAL, "%s: the invalid array", what);
    return mica_eval(x.scope, x);
}

/* x's data as a leaf of s; `take` moves the reference and leaves x gone. */
static mica_array share(mica_scope *s, mica_array x, const char *what, bool take, bool movable) {
    if (s == NULL) return mc_scope_fail(NULL, MICA_EINVAL, "%s: the scope is NULL", what);
    if (mica_scope_status(s) != MICA_OK) return MICA_NONE;
    if (mc_scope_set_status(s, ready(x, what)) != MICA_OK) return MICA_NONE;
    if (mica_scope_device(x.scope) != mica_scope_device(s))
        return mc_scope_fail(s, MICA_EINVAL, "%s: the array belongs to another device", what);
    mc_node *node = mc_node_of(x);
    if (node->scalar) return mc_scalar_bits(s, node->layout.dtype, node->value);
    mica_array y = mc_leaf(s, &node->layout, mc_storage_retain(node->storage), node->offset_bytes);
    if (!mica_valid(y)) return MICA_NONE;
    mc_node_of(y)->movable = movable;
    node = mc_node_of(x);
    if (take) {
        mc_storage_release(node->storage);
        node->storage = NULL;
        node->state = MC_GONE;
    }
    return y;
}

mica_array mica_materialize(mica_scope *outer, mica_array x) {
    return share(outer, x, "materialize", true, false);
}

mica_array mica_move(mica_scope *s, mica_array x) {
    return share(s, x, "move", true, true);
}

mica_array mica_detach(mica_scope *s, mica_array x) {
    return share(s, x, "detach", false, false);
}
