/* Evaluation: trace, get the plan, bind the leaves, run the steps, hand the results to the nodes.
 * Once more, with other values of the leaves: bind, run, hand out. */
#include "exec/eval.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "exec/plan_cache.h"

void *mc_run_scratch(mc_run *run, size_t bytes) {
    if (!run->scratch || run->scratch->bytes < bytes) {
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
    if (run->n_kept == MC_MAX_KEPT) return NULL;
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

static void place(mc_run *run, uint32_t i, void *data) {
    if (run->roots[i] == data) return;
    run->roots[i] = data;
    run->moved = true;
}

/* A root with a storage of its own: the moved leaf's where nobody else holds that, else new. */
static mica_status bind_own(mc_run *run, const mc_root *root, uint32_t i) {
    if (root->index != MC_ABSENT) {
        mc_node *leaf = mc_scope_node(run->scope, run->leaves[root->index]);
        if (!leaf->scalar && !leaf->storage->read_only && mc_storage_count(leaf->storage) == 1) {
            run->own[i] = mc_storage_retain(leaf->storage);
            place(run, i, leaf_data(leaf));
            return MICA_OK;
        }
    }
    MC_TRY(mc_storage_new(run->device, (size_t)root->bytes, &run->own[i]));
    place(run, i, run->own[i]->data);
    return MICA_OK;
}

static mica_status bind_root(mc_run *run, uint32_t i) {
    const mc_root *root = &run->plan->roots[i];
    switch (root->kind) {
    case MC_ROOT_LEAF:
        place(run, i, leaf_data(mc_scope_node(run->scope, run->leaves[root->index])));
        break;
    case MC_ROOT_CONST:
        place(run, i, (void *)(uintptr_t)&root->value); /* only ever read */
        break;
    case MC_ROOT_TEMP:
        place(run, i, root->placed ? (char *)run->temp->data + root->offset : NULL);
        break;
    case MC_ROOT_OWN:
        return bind_own(run, root, i);
    }
    return MICA_OK;
}

/* All roots; where nothing has moved only those that may have, for the others, which lie all over
 * the memory, are in no cache any more. */
static mica_status bind_roots(mc_run *run) {
    const mc_plan *p = run->plan;
    if (p->temp_bytes > 0) {
        MC_TRY(mc_storage_new(run->device, (size_t)p->temp_bytes, &run->temp));
        run->moved = run->moved || run->temp->data != run->temp_data;
        run->temp_data = run->temp->data;
    }
    bool all = run->moved;
    uint32_t n = all ? p->n_roots : run->n_moving;
    for (uint32_t i = 0; i < n; i++)
        MC_TRY(bind_root(run, all ? i : run->moving[i].root));
    return MICA_OK;
}

static void *value_data(const mc_run *run, uint32_t value) {
    const mc_value *v = &run->plan->values[value];
    return (char *)run->roots[v->root] + v->offset_bytes;
}

static void bind_operands(mc_run *run) {
    const mc_plan *p = run->plan;
    if (!run->moved) return; /* as when the same is computed again */
    run->moved = false;
    mc_operand *next = run->operands;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_step *step = &p->steps[i];
        for (uint32_t k = 0; k < step->n_in; k++, next++)
            if (step->in[k] != MC_ABSENT) next->data = value_data(run, step->in[k]);
        run->calls[i].out.data = value_data(run, step->out);
    }
}

/* ---- running ---- */

/* Gives back the memory that the run held. */
static void release_memory(mc_run *run) {
    for (uint32_t i = 0; i < run->n_moving; i++) {
        uint32_t root = run->moving[i].root;
        mc_storage_release(run->own[root]);
        run->own[root] = NULL;
    }
    mc_storage_release(run->temp);
    mc_storage_release(run->scratch);
    run->temp = run->scratch = NULL;
    while (run->n_kept > 0)
        mc_storage_release(run->kept[--run->n_kept].storage);
}

static void end_run(mc_run *run) {
    release_memory(run);
    mc_run_put(run);
}

/* Kept with the scope: what tracing needs in memory, so that a replay allocates nothing, and the
 * run that mc_eval_again takes. */
typedef struct workspace {
    mc_arena arena;
    mc_trace trace;
    mc_run *kept; /* NULL: none. It holds no memory of arrays */
} workspace;

static void drop_kept(void *space) {
    workspace *w = space;
    if (w->kept) mc_run_put(w->kept);
    w->kept = NULL;
}

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
        mc_scope_set_space(s, w, drop_kept, free_workspace);
    }
    mc_arena_reset(&w->arena);
    *out = w;
    return MICA_OK;
}

/* Brings a run to where only its steps are left to run; ends it where that fails. */
static mica_status bind_run(mc_run *run) {
    mica_status status = bind_roots(run);
    if (status != MICA_OK) {
        end_run(run);
        return status;
    }
    bind_operands(run);
    run->status = MICA_OK;
    return MICA_OK;
}

static mica_status prepare(mica_scope *s, workspace *w, const mica_array *xs, size_t n,
                           mc_run **out) {
    mc_run *run;
    drop_kept(w);
    MC_TRY(mc_trace_make(&w->trace, &w->arena, s, xs, n));
    MC_TRY(mc_run_get(mica_scope_device(s), &w->trace, &run));
    run->scope = s;
    run->moved = true;
    memcpy(run->targets, xs, n * sizeof *xs);
    memcpy(run->leaves, w->trace.leaves, w->trace.n_leaves * sizeof *run->leaves);
    MC_TRY(bind_run(run));
    *out = run;
    return MICA_OK;
}

static void run_steps(mc_run *run) {
    const mc_plan *p = run->plan;
    for (uint32_t i = 0; i < p->n_steps && run->status == MICA_OK; i += p->steps[i].span)
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
    memcpy((*storage)->data, leaf ? &leaf->value : &root->value, sizeof root->value);
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

/* Takes the memory away from a node. */
static void leave(mc_node *node, mc_node_state state) {
    mc_storage_release(node->storage);
    node->storage = NULL;
    node->state = state;
}

/* To be told where a leaf's memory is another now, or none, unless the leaf may be overwritten:
 * what is bound to it by a run that is kept is so no more. */
static void tell_moved(mica_array leaf) {
    const workspace *w = mc_scope_space(leaf.scope);
    if (w && w->kept) w->kept->moved = true;
}

/* Leaves whose memory a result took over are gone. */
static void drop_taken_leaves(mc_run *run) {
    for (uint32_t i = 0; i < run->n_moving; i++) {
        const mc_moving *m = &run->moving[i];
        if (!m->own || m->leaf == MC_ABSENT) continue;
        mc_node *leaf = mc_scope_node(run->scope, run->leaves[m->leaf]);
        if (leaf->state != MC_READY || leaf->storage != run->own[m->root]) continue;
        leave(leaf, MC_GONE);
    }
}

/* Whether all that the run reads are leaves. What was computed before it would stay as it is. */
static bool reads_leaves(const mc_run *run) {
    for (uint32_t i = 0; i < run->plan->n_leaves; i++)
        if (mc_scope_node(run->scope, run->leaves[i])->op != MC_OP_LEAF) return false;
    return true;
}

static mica_status finish(mc_run *run, bool keep) {
    workspace *w = mc_scope_space(run->scope);
    mica_status status = run->status;
    drop_taken_leaves(run);
    if (status == MICA_OK) status = attach_targets(run);
    release_memory(run);
    if (keep && status == MICA_OK && reads_leaves(run))
        w->kept = run;
    else
        mc_run_put(run);
    return status;
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
    return prepare(s, w, pending, n_pending, run);
}

static mica_status evaluate(mica_scope *s, const mica_array *xs, size_t n, bool keep) {
    mc_run *run;
    MC_TRY(start(s, xs, n, &run));
    if (!run) return MICA_OK;
    run_steps(run);
    return finish(run, keep);
}

mica_status mica_eval_n(mica_scope *s, const mica_array *xs, size_t n) {
    return evaluate(s, xs, n, false);
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
    return finish(run, false);
}

mica_status mica_eval_async(mica_scope *s, const mica_array *xs, size_t n) {
    mc_run *run;
    MC_TRY(start(s, xs, n, &run));
    if (!run) return MICA_OK;
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
    if (!s) return mc_fail(MICA_EINVAL, "wait: the scope is NULL");
    void *run = mc_scope_run(s);
    return run ? wait_for_run(s, run) : MICA_OK;
}

/* ---- once more ---- */

mica_status mc_eval_keep(mica_scope *s, const mica_array *xs, size_t n) {
    return evaluate(s, xs, n, true);
}

bool mc_eval_kept(const mica_scope *s) {
    const workspace *w = mc_scope_space(s);
    return w != NULL && w->kept != NULL;
}

static mica_status check_leaves(const mc_run *run) {
    uint32_t n = run->moved ? run->plan->n_leaves : run->n_moving;
    for (uint32_t i = 0; i < n; i++) {
        if (!run->moved && run->moving[i].own) continue;
        uint32_t leaf = run->leaves[run->moved ? i : run->moving[i].leaf];
        if (mc_scope_node(run->scope, leaf)->state != MC_READY)
            return mc_fail(MICA_EINVAL,
                           "eval again: needs a value that was moved away or overwritten (node %u)",
                           leaf);
    }
    return MICA_OK;
}

mica_status mc_eval_again(mica_scope *s) {
    MC_TRY(mica_wait(s));
    MC_TRY(mica_scope_status(s));
    if (!mc_eval_kept(s)) return mc_fail(MICA_EINVAL, "eval again: no evaluation is kept");
    workspace *w = mc_scope_space(s);
    mc_run *run = w->kept;
    w->kept = NULL;
    mica_status status = check_leaves(run);
    if (status != MICA_OK) {
        mc_run_put(run);
        return status;
    }
    /* The last first: the next storage of a size is the one that was released last. */
    for (uint32_t i = run->plan->n_targets; i-- > 0;)
        leave(mc_node_of(run->targets[i]), MC_PENDING);
    MC_TRY(bind_run(run));
    run_steps(run);
    return finish(run, true);
}

mica_status mc_leaf_set(mica_array leaf, const void *data) {
    mc_node *node = mc_node_of(leaf);
    if (!node || node->op != MC_OP_LEAF || !mc_layout_is_dense(&node->layout))
        return mc_fail(MICA_EINVAL, "leaf set: the array is no dense leaf");
    MC_TRY(mica_wait(leaf.scope));
    size_t bytes = (size_t)mc_layout_bytes(&node->layout);
    if (node->scalar) {
        memcpy(&node->value, data, bytes); /* little-endian */
        return MICA_OK;
    }
    if (!node->storage || node->storage->read_only || mc_storage_count(node->storage) > 1) {
        mc_storage *storage;
        MC_TRY(mc_storage_new(mica_scope_device(leaf.scope), bytes, &storage));
        mc_storage_release(node->storage);
        node->storage = storage;
        node->offset_bytes = 0;
        node->state = MC_READY;
        tell_moved(leaf);
    }
    memcpy((char *)node->storage->data + node->offset_bytes, data, bytes);
    return MICA_OK;
}

bool mc_leaf_fits(mica_array leaf, mica_array x) {
    const mc_node *to = mc_node_of(leaf), *from = mc_node_of(x);
    if (!to || !from || to->op != MC_OP_LEAF || to->scalar || from->scalar ||
        from->state != MC_READY || mica_scope_device(x.scope) != mica_scope_device(leaf.scope))
        return false;
    const mc_layout *a = &to->layout, *b = &from->layout;
    return a->dtype == b->dtype && mc_layout_same_shape(a, b) &&
           memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof *a->strides) == 0;
}

mica_status mc_leaf_take(mica_array leaf, mica_array x) {
    if (mica_valid(leaf)) MC_TRY(mica_wait(leaf.scope));
    if (mica_valid(x)) MC_TRY(mica_wait(x.scope));
    if (!mc_leaf_fits(leaf, x)) return mc_fail(MICA_EINVAL, "leaf take: the array does not fit");
    mc_node *to = mc_node_of(leaf), *from = mc_node_of(x);
    mc_storage *storage = mc_storage_retain(from->storage);
    int64_t offset_bytes = from->offset_bytes;
    leave(from, MC_GONE);
    leave(to, MC_READY);
    to->storage = storage;
    to->offset_bytes = offset_bytes;
    if (!to->movable) tell_moved(leaf);
    if (from->op == MC_OP_LEAF) tell_moved(x);
    return MICA_OK;
}

/* ---- moving values between scopes ---- */

static mica_status ready(mica_array x, const char *what) {
    MC_TRY(mc_check_valid(x, what));
    return mica_eval(x.scope, x);
}

/* x's data as a leaf of s; `take` moves the reference and leaves x gone. */
static mica_array share(mica_scope *s, mica_array x, const char *what, bool take, bool movable) {
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "%s: the scope is NULL", what);
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    if (mc_scope_set_status(s, ready(x, what)) != MICA_OK) return mc_invalid(s);
    if (mica_scope_device(x.scope) != mica_scope_device(s))
        return mc_scope_fail(s, MICA_EINVAL, "%s: the array belongs to another device", what);
    mc_node *node = mc_node_of(x);
    if (node->scalar) return mc_scalar_bits(s, node->layout.dtype, node->value);
    mica_array y = mc_leaf(s, &node->layout, mc_storage_retain(node->storage), node->offset_bytes);
    if (!mica_valid(y)) return y;
    mc_node_of(y)->movable = movable;
    node = mc_node_of(x);
    if (take) {
        leave(node, MC_GONE);
        if (node->op == MC_OP_LEAF) tell_moved(x);
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
