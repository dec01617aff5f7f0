/* Running programs. */
#include <stdio.h>

#include "base/alloc.h"
#include "device/device.h"
#include "exec/bind.h"
#include "exec/program.h"

typedef mc_program_buffers buffers;
typedef mc_program_place place;

/* New buffers; the leaves that have values are bound. */
static buffers *new_buffers(const mica_program *p) {
    const mc_compiled *c = p->cached->compiled;
    size_t args = c->n_params * sizeof(mc_binding), scalars = c->n_scalars * sizeof(uint64_t);
    size_t results = c->n_results * sizeof(mc_result);
    buffers *b = mc_calloc(1, sizeof *b + args + scalars + results);
    if (!b) return NULL;
    char *next = (char *)(b + 1);
    b->args = (mc_binding *)(void *)next;
    b->results = (mc_result *)(void *)(next + args);
    b->scalars = (uint64_t *)(void *)(next + args + results);
    uint64_t *scalar = b->scalars;
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        const mc_node *leaf = mc_scope_node(p->graph, p->leaves[i]);
        if (leaf->param)
            scalar += mc_is_scalar(leaf);
        else
            (void)mc_bind_leaf(leaf, &b->args[i], &scalar); /* it has a value */
    }
    return b;
}

static buffers *take_buffers(mica_program *p) {
    pthread_mutex_lock(&p->lock);
    buffers *b = p->spare;
    if (b) p->spare = b->next;
    pthread_mutex_unlock(&p->lock);
    return b ? b : new_buffers(p);
}

static void give_back(mica_program *p, buffers *b) {
    pthread_mutex_lock(&p->lock);
    b->next = p->spare;
    p->spare = b;
    pthread_mutex_unlock(&p->lock);
}

/* Evaluates argument i, which may not write over the others for that. */
static mica_status eval_arg(const mica_program *p, size_t i, const mica_array *args) {
    char what[96];
    snprintf(what, sizeof what, "program_run: argument %.60s", p->names[i]);
    MC_TRY(mc_check_valid(args[i], what));
    for (size_t k = 0; k < p->n_params; k++)
        if (args[k].scope == args[i].scope && mica_valid(args[k]))
            mc_node_of(args[k])->movable = false;
    return mica_eval(args[i].scope, args[i]);
}

static mica_status check_arg(const mica_program *p, size_t i, const mica_array *args) {
    const mc_layout *want = &mc_scope_node(p->graph, (uint32_t)i)->layout;
    mica_array arg = args[i];
    /* What runs in the background may read a donated argument, or write over any. */
    if (mica_valid(arg) && mc_scope_run(arg.scope)) MC_TRY(mica_wait(arg.scope));
    if (!mica_valid(arg) || mc_node_of(arg)->state != MC_READY) MC_TRY(eval_arg(p, i, args));
    if (mica_scope_device(arg.scope) != p->device)
        return mc_fail(MICA_EINVAL, "program_run: argument %s is of another device", p->names[i]);
    const mc_node *node = mc_node_of(arg);
    if ((node->param && !node->storage) || node->length)
        return mc_fail(MICA_EINVAL,
                       "program_run: argument %s is a parameter, or the length of a symbol, "
                       "without a value",
                       p->names[i]);
    const mc_layout *got = &node->layout;
    if (got->dtype == want->dtype && mc_layout_same_shape(got, want)) return MICA_OK;
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    return mc_fail(got->dtype != want->dtype ? MICA_EDTYPE : MICA_ESHAPE,
                   "program_run: argument %s is %s, want %s", p->names[i], mc_layout_text(got, a),
                   mc_layout_text(want, b));
}

/* The argument with memory, dense, and where the parameter's is: itself, or a copy in `into`. */
static mica_status lay_out(const mica_program *p, size_t i, mica_scope *into, mica_array *arg) {
    const mc_node *param = mc_scope_node(p->graph, (uint32_t)i);
    const mc_layout *want = &param->layout;
    const mc_node *node = mc_node_of(*arg);
    if (node->scalar) {
        *arg = mica_from_data(into, &node->value, want->dtype, want->shape, want->ndim);
        return mica_scope_status(into);
    }
    if (node->storage->fallback != mc_leaf_falls_back(param)) {
        *arg = mc_copy_to(into, *arg, !node->storage->fallback);
        return mica_scope_status(into);
    }
    if (mc_layout_is_dense(&node->layout)) return MICA_OK;
    *arg = mc_record(into, MC_OP_CONTIGUOUS, NULL, arg, 1);
    MC_TRY(mica_scope_status(into));
    return mica_eval(into, *arg);
}

/* One number's bits, from wherever it is. */
static mica_status read_scalar(mica_array arg, uint64_t *bits) {
    const mc_node *node = mc_node_of(arg);
    *bits = node->value;
    if (node->scalar) return MICA_OK;
    *bits = 0;
    return mc_storage_read(mica_scope_device(arg.scope), node->storage, (size_t)node->offset_bytes,
                           bits, mica_dtype_bytes(node->layout.dtype));
}

static mica_status bind_arg(const mica_program *p, buffers *b, size_t i, mica_scope *into,
                            mica_array arg) {
    const place *at = &p->places[i];
    if (at->leaf == MC_ABSENT) return MICA_OK;
    if (at->scalar) return read_scalar(arg, &b->scalars[at->number]);
    MC_TRY(lay_out(p, i, into, &arg));
    uint64_t *none = NULL;
    MC_TRY(mc_bind_leaf(mc_node_of(arg), &b->args[at->leaf], &none));
    /* So that no donated argument that shares its memory is written over. */
    if (!mc_scope_node(p->graph, (uint32_t)i)->movable)
        mc_storage_retain(b->args[at->leaf].storage);
    return MICA_OK;
}

/* Ends the bindings of parameters [0, n). */
static void unbind_args(const mica_program *p, buffers *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const place *at = &p->places[i];
        if (at->leaf == MC_ABSENT || at->scalar) continue;
        if (!mc_scope_node(p->graph, (uint32_t)i)->movable)
            mc_storage_release(b->args[at->leaf].storage);
        b->args[at->leaf] = (mc_binding){.storage = NULL};
    }
}

/* Checks that no donated argument is there twice, which a mark on its node tells. */
static mica_status mark_donated(const mica_program *p, const mica_array *args, bool mark) {
    mica_status status = MICA_OK;
    for (size_t i = 0; i < p->n_params; i++) {
        if (!mc_scope_node(p->graph, (uint32_t)i)->movable) continue;
        mc_node *node = mc_node_of(args[i]);
        if (mark && node->kept)
            status = mc_fail(MICA_EINVAL, "program_run: argument %s is donated twice", p->names[i]);
        node->kept = mark;
    }
    return status;
}

static mica_status check_args(const mica_program *p, const mica_array *args) {
    for (size_t i = 0; i < p->n_params; i++)
        MC_TRY(check_arg(p, i, args));
    mica_status status = mark_donated(p, args, true);
    (void)mark_donated(p, args, false);
    return status;
}

/* taken: those alone that the launch took. */
static void give_up_donated(const mica_program *p, const buffers *b, const mica_array *args,
                            bool taken) {
    for (size_t i = 0; i < p->n_params; i++) {
        if (!mc_scope_node(p->graph, (uint32_t)i)->movable || mc_node_of(args[i])->scalar) continue;
        const place *at = &p->places[i];
        if (!taken || (at->leaf != MC_ABSENT && !at->scalar && b->args[at->leaf].taken))
            mc_node_leave(mc_node_of(args[i]), MC_GONE);
    }
}

/* The results as arrays of `into`; their references are taken over. */
static mica_status hand_out(const mica_program *p, buffers *b, mica_scope *into,
                            mica_array *results) {
    const mc_compiled *c = p->cached->compiled;
    for (size_t i = 0; i < p->n_results; i++) {
        results[i] =
            mc_leaf(into, &c->results[i], b->results[i].storage, b->results[i].offset_bytes);
        b->results[i] = (mc_result){0};
    }
    return mica_scope_status(into);
}

/* How a program is run. fence NULL: waits. keep: donated arguments stay if it fails. */
typedef struct manner {
    mc_fence *fence;
    bool keep;
} manner;

static mica_status run_program(mica_program *p, buffers *b, mica_scope *into,
                               const mica_array *args, mica_array *results, manner how) {
    mc_fence *fence = how.fence;
    const mc_compiled *c = p->cached->compiled;
    size_t bound = 0;
    mica_status status = MICA_OK;
    while (bound < p->n_params && status == MICA_OK) {
        status = bind_arg(p, b, bound, into, args[bound]);
        if (status == MICA_OK) bound++;
    }
    if (status == MICA_OK) {
        const mica_cancel *cancel = mc_scope_cancel(into);
        status = fence ? mc_compiled_launch(c, b->args, b->scalars, b->results, cancel, fence)
                       : mc_compiled_run(c, b->args, b->scalars, b->results, cancel);
        if (status == MICA_OK) status = hand_out(p, b, into, results);
        bool keep = status != MICA_OK && how.keep;
        if (!keep || p->device->backend->moves_donated) give_up_donated(p, b, args, keep);
        unbind_args(p, b, bound);
        if (status != MICA_OK && fence) {
            status = mc_device_wait_after(p->device, *fence, status);
            *fence = 0;
        }
        return status;
    }
    unbind_args(p, b, bound);
    return status;
}

static void make_invalid(const mica_program *p, mica_scope *into, mica_array *results) {
    for (size_t i = 0; i < p->n_results; i++)
        results[i] = (mica_array){into, MC_ABSENT};
}

static mica_status start(const mica_program *program, mica_scope *into, const mica_array *args,
                         mica_array *results, manner how);

/* Runs a program with symbols, bound to the arguments' lengths. */
static mica_status run_bound(const mica_program *p, mica_scope *into, const mica_array *args,
                             mica_array *results, manner how) {
    mc_fence *fence = how.fence;
    int64_t lengths[MC_MAX_SYMBOLS];
    mica_program *bound;
    for (size_t i = 0; i < p->n_symbols; i++)
        lengths[i] = -1;
    for (size_t i = 0; i < p->n_params; i++) {
        char what[96];
        snprintf(what, sizeof what, "program_run: argument %.60s", p->names[i]);
        MC_TRY(mc_check_valid(args[i], what));
        mica_status status = mc_program_match(p, i, mc_layout_of(args[i]), lengths);
        if (status != MICA_OK) return mc_fail_context(status, "program_run");
    }
    MC_TRY(mc_program_bind(p, lengths, &bound));
    mica_status status = start(bound, into, args, results, how);
    if (status == MICA_OK && fence && *fence) status = mc_device_wait(p->device, *fence);
    if (fence) *fence = 0; /* the plan goes with the program */
    if (status != MICA_OK) make_invalid(p, into, results);
    mica_program_close(&bound);
    return status;
}

/* mica_program_run, and mc_program_launch where there is a fence. */
static mica_status start(const mica_program *program, mica_scope *into, const mica_array *args,
                         mica_array *results, manner how) {
    mica_program *p = (mica_program *)(uintptr_t)program; /* only the list of buffers changes */
    if (!p || !into || (!args && p->n_params > 0) || (!results && p->n_results > 0))
        return mc_fail(MICA_EINVAL, "program_run: NULL");
    make_invalid(p, into, results);
    MC_TRY(mica_wait(into));
    MC_TRY(mica_scope_status(into));
    if (mica_scope_device(into) != p->device)
        return mc_fail(MICA_EINVAL, "program_run: the scope is of another device");
    if (p->n_symbols > 0) return run_bound(p, into, args, results, how);
    MC_TRY(check_args(p, args));
    buffers *b = take_buffers(p);
    if (!b) return mc_fail_nomem("running a program");
    mica_status status = run_program(p, b, into, args, results, how);
    give_back(p, b);
    if (status == MICA_OK) return MICA_OK;
    make_invalid(p, into, results);
    mica_scope_clear_error(into); /* what was recorded in it is the run's own */
    return status;
}

mica_status mica_program_run(const mica_program *program, mica_scope *into, const mica_array *args,
                             mica_array *results) {
    return start(program, into, args, results, (manner){.fence = NULL});
}

mica_status mc_program_run_kept(const mica_program *program, mica_scope *into,
                                const mica_array *args, mica_array *results) {
    return start(program, into, args, results, (manner){.keep = true});
}

mica_status mc_program_launch(const mica_program *program, mica_scope *into, const mica_array *args,
                              mica_array *results, mc_fence *fence) {
    *fence = 0;
    return start(program, into, args, results, (manner){.fence = fence, .keep = true});
}
