/* Evaluation: trace, get the plan, bind the leaves, run the steps, hand the results to the nodes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

struct mc_run {
    mc_job job; /* first: the worker hands it back */
    mica_device *device;
    mica_scope *scope;
    mc_cached_plan *plan;
    mc_frame *frame;
    mc_storage *temp;    /* the block of temporaries */
    mc_storage *scratch; /* of the kernel that runs */
    mica_array *targets; /* [n_targets], follows the struct */
    uint32_t *leaves;    /* [n_leaves] nodes, follows the targets */
    uint32_t n_leaves;
    mica_status status; /* of the steps */
    char error[1024];   /* its text, which the worker's thread leaves behind */
};

void *mc_run_scratch(mc_run *run, size_t bytes) {
    if (run->scratch == NULL || run->scratch->bytes < bytes) {
        mc_storage_release(run->scratch);
        run->scratch = NULL;
        if (mc_storage_new(run->device, bytes, &run->scratch) != MICA_OK) return NULL;
    }
    return run->scratch->data;
}

/* ---- binding ---- */

static void *leaf_data(mc_node *node) {
    return node->scalar ? (void *)&node->value
                        : (void *)((char *)node->storage->data + node->offset_bytes);
}

/* A root with a storage of its own: the moved leaf's where nobody else holds that, else new. */
static mica_status bind_own(mc_run *run, const mc_root *root, uint32_t i) {
    mc_frame *f = run->frame;
    if (root->index != MC_ABSENT) {
        mc_node *leaf = mc_scope_node(run->scope, run->leaves[root->index]);
        if (!leaf->scalar && !leaf->storage->read_only && mc_storage_count(leaf->storage) == 1) {
            f->own[i] = mc_storage_retain(leaf->storage);
            f->roots[i] = leaf_data(leaf);
            return MICA_OK;
        }
    }
    MC_TRY(mc_storage_new(run->device, (size_t)root->bytes, &f->own[i]));
    f->roots[i] = f->own[i]->data;
    return MICA_OK;
}

static mica_status bind_roots(mc_run *run) {
    mc_plan *p = run->plan->plan;
    if (p->temp_bytes > 0) MC_TRY(mc_storage_new(run->device, (size_t)p->temp_bytes, &run->temp));
    for (uint32_t i = 0; i < p->n_roots; i++) {
        mc_root *root = &p->roots[i];
        void **data = &run->frame->roots[i];
        switch (root->kind) {
        case MC_ROOT_LEAF:
            *data = leaf_data(mc_scope_node(run->scope, run->leaves[root->index]));
            break;
        case MC_ROOT_CONST:
            *data = &root->value;
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
    const mc_value *v = &run->plan->plan->values[value];
    return (char *)run->frame->roots[v->root] + v->offset_bytes;
}

static void bind_operands(mc_run *run) {
    const mc_plan *p = run->plan->plan;
    mc_operand *next = run->frame->operands;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_step *step = &p->steps[i];
        for (uint32_t k = 0; k < step->n_in; k++, next++)
            if (step->in[k] != MC_ABSENT) next->data = value_data(run, step->in[k]);
        run->frame->calls[i].out.data = value_data(run, step->out);
        run->frame->calls[i].run = run;
    }
}

/* ---- running ---- */

static void free_run(mc_run *run) {
    if (run->plan != NULL) {
        for (uint32_t i = 0; i < run->plan->plan->n_roots; i++) {
            mc_storage_release(run->frame->own[i]);
            run->frame->own[i] = NULL;
        }
        mc_plan_put(run->device, run->plan, run->frame);
    }
    mc_storage_release(run->temp);
    mc_storage_release(run->scratch);
    mc_free(run);
}

static mc_run *new_run(mica_scope *s, const mc_trace *trace, const mica_array *xs) {
    size_t targets = trace->n_targets * sizeof(mica_array);
    mc_run *run = mc_calloc(1, sizeof *run + targets + trace->n_leaves * sizeof(uint32_t));
    if (run == NULL) return NULL;
    run->device = mica_scope_device(s);
    run->scope = s;
    run->targets = (mica_array *)(void *)(run + 1);
    run->leaves = (uint32_t *)(void *)((char *)(run + 1) + targets);
    run->n_leaves = trace->n_leaves;
    memcpy(run->targets, xs, targets);
    memcpy(run->leaves, trace->leaves, trace->n_leaves * sizeof(uint32_t));
    return run;
}

/* Everything up to the point where only the steps are left to run. */
static mica_status prepare(mica_scope *s, const mica_array *xs, size_t n, mc_run **out) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    mc_run *run = NULL;
    mica_status status = mc_trace_make(&trace, &arena, s, xs, n);
    if (status == MICA_OK) {
        run = new_run(s, &trace, xs);
        if (run == NULL) status = mc_fail_nomem("an evaluation");
    }
    if (status == MICA_OK) status = mc_plan_get(run->device, &trace, &run->plan, &run->frame);
    if (status == MICA_OK) status = bind_roots(run);
    if (status == MICA_OK) bind_operands(run);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    if (status != MICA_OK && run != NULL) {
        free_run(run);
        run = NULL;
    }
    *out = run;
    return status;
}

static void run_steps(mc_run *run) {
    const mc_plan *p = run->plan->plan;
    for (uint32_t i = 0; i < p->n_steps && run->status == MICA_OK; i++)
        run->status = p->steps[i].kernel(&run->frame->calls[i]);
}

/* The target's storage and the offset of its first element there, with a reference for the node. */
static mica_status target_storage(mc_run *run, const mc_value *v, mc_storage **storage,
                                  int64_t *offset_bytes) {
    const mc_root *root = &run->plan->plan->roots[v->root];
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
        *storage = mc_storage_retain(run->frame->own[v->root]);
        *offset_bytes += (char *)run->frame->roots[v->root] - (char *)(*storage)->data;
        return MICA_OK;
    }
    /* A view of one number: give it a place in memory. */
    MC_TRY(mc_storage_new(run->device, sizeof root->value, storage));
    memcpy((*storage)->data, leaf != NULL ? &leaf->value : &root->value, sizeof root->value);
    return MICA_OK;
}

static mica_status attach_targets(mc_run *run) {
    const mc_plan *p = run->plan->plan;
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
    const mc_plan *p = run->plan->plan;
    for (uint32_t i = 0; i < p->n_roots; i++) {
        const mc_root *root = &p->roots[i];
        if (root->kind != MC_ROOT_OWN || root->index == MC_ABSENT) continue;
        mc_node *leaf = mc_scope_node(run->scope, run->leaves[root->index]);
        if (leaf->state != MC_READY || leaf->storage != run->frame->own[i]) continue;
        mc_storage_release(leaf->storage);
        leaf->storage = NULL;
        leaf->state = MC_GONE;
    }
}

static mica_status finish(mc_run *run) {
    mica_status status = run->status;
    drop_taken_leaves(run);
    if (status == MICA_OK) status = attach_targets(run);
    free_run(run);
    return status;
}

/* ---- the public functions ---- */

/* What of xs is still to be computed, into `pending`. */
static mica_status collect(mica_scope *s, const mica_array *xs, size_t n, mica_array *pending,
                           size_t *n_pending) {
    *n_pending = 0;
    for (size_t i = 0; i < n; i++) {
        const mc_node *node = mc_node_of(xs[i]);
        if (node == NULL || xs[i].scope != s)
            return mc_fail(MICA_EINVAL, "eval: array %zu is invalid or of another scope", i);
        if (node->state == MC_GONE)
            return mc_fail(MICA_EINVAL, "eval: array %zu was moved away or overwritten", i);
        if (node->state == MC_PENDING) pending[(*n_pending)++] = xs[i];
    }
    return MICA_OK;
}

static mica_status start(mica_scope *s, const mica_array *xs, size_t n, mc_run **run) {
    *run = NULL;
    if (s == NULL || (xs == NULL && n > 0)) return mc_fail(MICA_EINVAL, "eval: NULL");
    MC_TRY(mica_wait(s));
    MC_TRY(mica_scope_status(s));
    mica_array few[16], *pending = few;
    if (n > sizeof few / sizeof *few) {
        pending = mc_array_alloc(n, sizeof *pending);
        if (pending == NULL) return mc_fail_nomem("an evaluation");
    }
    size_t n_pending;
    mica_status status = collect(s, xs, n, pending, &n_pending);
    if (status == MICA_OK && n_pending > 0) status = prepare(s, pending, n_pending, run);
    if (pending != few) mc_free(pending);
    return status;
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
        free_run(run);
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
