#include "exec/bound.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "exec/bind.h"
#include "exec/lower.h"
#include "exec/pass.h"

enum { MAX_COUNT = 32 };
#define MAX_BYTES ((size_t)64 << 20)

/* ---- compiling ---- */

/* Which leaf of the compiled graph each parameter is. */
static void place_params(mc_bound *b, const mica_program *p, const mc_trace *trace) {
    uint32_t numbers = 0;
    for (uint32_t i = 0; i < trace->n_leaves; i++) {
        const mc_node *leaf = mc_scope_node(trace->scope, trace->leaves[i]);
        bool scalar = mc_is_scalar(leaf);
        if (trace->leaves[i] < p->n_params) {
            mc_bound_param *param = &b->params[trace->leaves[i]];
            param->leaf = i;
            param->scalar = scalar;
            param->number = numbers;
        }
        numbers += scalar;
    }
}

/* Whether a run fits into the device's memory, so far as the device can tell: what each segment
 * that is sure to run takes by itself. */
static mica_status check_memory(const mica_program *p, const mc_bound *b) {
    const mc_backend *backend = p->device->backend;
    uint64_t limit = mc_device_memory_limit(p->device), max = 0;
    if (limit == 0 || !backend->measure) return MICA_OK;
    for (uint32_t i = 0; i < b->compiled->n_segments; i++) {
        const mc_segment *segment = &b->compiled->segments[i];
        mc_launch_memory launch = {0};
        if (!segment->executable || segment->device != p->device) continue;
        MC_TRY(backend->measure(segment->executable, &launch));
        if (launch.results + launch.others > max) max = launch.results + launch.others;
    }
    if (max <= limit) return MICA_OK;
    return mc_fail(MICA_ENOMEM,
                   "executable: a run takes %llu bytes of %s, whose limit is %llu "
                   "(mica_device_set_memory_limit)",
                   (unsigned long long)max, backend->name, (unsigned long long)limit);
}

static mica_status compile_graph(const mc_bounds *bounds, mc_bound *b, mc_arena *arena,
                                 mc_trace *trace) {
    const mica_program *p = bounds->program;
    const mc_passed from = {b->scope, (uint32_t)p->n_params, (uint32_t)p->n_results, b->results};
    mc_passed to;
    MC_TRY(mc_passes_run(&from, bounds->passes_off, arena, b->changed, &to));
    if (to.scope != b->scope) b->passed = to.scope;
    MC_TRY(mc_trace_make(trace, arena, to.scope, to.results, p->n_results));
    trace->dense_results = true;
    trace->constants = true;
    trace->passes_off = bounds->passes_off;
    trace->mode = bounds->mode;
    b->n_leaves = trace->n_leaves;
    b->leaves = mc_arena_alloc(&b->arena, (trace->n_leaves + 1) * sizeof *b->leaves);
    if (!b->leaves) return mc_fail_nomem("an executable");
    memcpy(b->leaves, trace->leaves, trace->n_leaves * sizeof *b->leaves);
    place_params(b, p, trace);
    MC_TRY(mc_compiled_make(p->device, trace, &b->compiled));
    return check_memory(p, b);
}

static mica_status compile(const mc_bounds *bounds, mc_bound *b) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    mica_status status = compile_graph(bounds, b, &arena, &trace);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    return status;
}

/* ---- making ---- */

static void free_bound(const mc_bounds *bounds, mc_bound *b) {
    while (b->spare) {
        mc_seat *seat = b->spare;
        b->spare = seat->next;
        mc_free(seat);
    }
    mc_compiled_free(b->compiled);
    mica_scope_close(&b->passed);
    if (b->scope != bounds->program->graph) mica_scope_close(&b->scope);
    mc_arena_deinit(&b->arena);
    mc_free(b);
}

static mica_status list_ports(const mc_bounds *bounds, mc_bound *b) {
    const mica_program *p = bounds->program;
    b->params = mc_arena_calloc(&b->arena, (p->n_params + 1) * sizeof *b->params);
    if (!b->params) return mc_fail_nomem("an executable");
    for (uint32_t i = 0; i < p->n_params; i++)
        b->params[i] = (mc_bound_param){&mc_scope_node(b->scope, i)->layout, .leaf = MC_ABSENT};
    return MICA_OK;
}

static mica_status make_graph(const mc_bounds *bounds, const int64_t *lengths, mc_bound *b) {
    const mica_program *p = bounds->program;
    b->scope = p->graph;
    b->results = p->results;
    const mc_precision *precision = bounds->precision.any ? &bounds->precision : NULL;
    if (p->n_symbols == 0 && !precision) return MICA_OK;
    b->lengths = mc_arena_alloc(&b->arena, p->n_symbols * sizeof *b->lengths + 1);
    b->results = mc_arena_alloc(&b->arena, (p->n_results + 1) * sizeof *b->results);
    if (!b->lengths || !b->results) return mc_fail_nomem("an executable");
    memcpy(b->lengths, lengths, p->n_symbols * sizeof *b->lengths);
    b->scope = NULL;
    return mc_program_record(p, lengths, precision, &b->scope, b->results);
}

/* The bytes of the arrays that a graph holds. */
static size_t data_bytes(const mica_scope *s) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < mc_scope_count(s); i++)
        if (mc_scope_node(s, i)->storage) bytes += mc_scope_node(s, i)->storage->bytes;
    return bytes;
}

static mica_status make(const mc_bounds *bounds, const int64_t *lengths, mc_bound **bound) {
    mc_bound *b = mc_calloc(1, sizeof *b);
    *bound = NULL;
    if (!b) return mc_fail_nomem("an executable");
    mica_status status = make_graph(bounds, lengths, b);
    if (status == MICA_OK) status = list_ports(bounds, b);
    if (status == MICA_OK && bounds->no_fallback && b->scope != bounds->program->graph)
        status = mc_lower_check(bounds->program->device, b->scope, b->results,
                                bounds->program->n_results);
    if (status == MICA_OK && bounds->mode != MICA_MODE_EAGER) status = compile(bounds, b);
    if (status != MICA_OK) {
        free_bound(bounds, b);
        return status;
    }
    b->bytes = sizeof *b + mc_arena_bytes(&b->arena) + (b->compiled ? b->compiled->bytes : 0);
    if (b->lengths) b->bytes += mc_scope_bytes(b->scope);
    if (b->passed) { /* constants that were computed are its own */
        size_t all = data_bytes(b->passed), shared = data_bytes(b->scope);
        b->bytes += mc_scope_bytes(b->passed) + (all > shared ? all - shared : 0);
    }
    *bound = b;
    return MICA_OK;
}

/* ---- the list ---- */

mica_status mc_bounds_open(const mica_program *program, mica_mode mode, uint32_t passes_off,
                           mc_bounds **bounds) {
    mc_bounds *b = *bounds = mc_calloc(1, sizeof *b);
    if (!b) return mc_fail_nomem("an executable");
    if (pthread_mutex_init(&b->lock, NULL) != 0) {
        mc_free(b);
        *bounds = NULL;
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for an executable");
    }
    atomic_init(&b->users, 1u);
    b->program = mc_program_retain(program);
    b->mode = mode;
    b->passes_off = passes_off;
    b->max_count = MAX_COUNT;
    b->max_bytes = MAX_BYTES;
    return MICA_OK;
}

mc_bounds *mc_bounds_retain(mc_bounds *bounds) {
    atomic_fetch_add_explicit(&bounds->users, 1, memory_order_relaxed);
    return bounds;
}

void mc_bounds_release(mc_bounds *b) {
    if (!b || atomic_fetch_sub_explicit(&b->users, 1, memory_order_acq_rel) > 1) return;
    while (b->first) { /* executables hold none any more */
        mc_bound *bound = b->first;
        b->first = bound->next;
        free_bound(b, bound);
    }
    mica_program_close(&b->program);
    pthread_mutex_destroy(&b->lock);
    mc_free(b);
}

/* Under the lock. */
static mc_bound *find_bound(mc_bounds *bounds, const int64_t *lengths) {
    const size_t n = bounds->program->n_symbols * sizeof *lengths;
    mc_bound *b = bounds->first;
    while (b && n > 0 && memcmp(b->lengths, lengths, n) != 0)
        b = b->next;
    if (!b) return NULL;
    b->used = ++bounds->clock;
    b->users++;
    return b;
}

/* Under the lock: ends a use; the bound program where that was the last one. */
static mc_bound *drop(mc_bound *b) {
    return --b->users == 0 ? b : NULL;
}

/* Under the lock: takes out those that were used longest ago, into a list of those to be freed, as
 * long as there are too many; the newest stays. */
static mc_bound *shrink(mc_bounds *bounds) {
    mc_bound *dead = NULL;
    while (bounds->count > 1 &&
           (bounds->count > bounds->max_count || bounds->bytes > bounds->max_bytes)) {
        mc_bound **oldest = &bounds->first;
        for (mc_bound **at = &bounds->first; *at; at = &(*at)->next)
            if ((*at)->used < (*oldest)->used) oldest = at;
        mc_bound *gone = *oldest;
        *oldest = gone->next;
        bounds->count--;
        bounds->bytes -= gone->bytes;
        if (!drop(gone)) continue;
        gone->next = dead;
        dead = gone;
    }
    return dead;
}

/* Under the lock: takes a new one in, with the caller's use. */
static mc_bound *insert(mc_bounds *bounds, mc_bound *b) {
    b->users = 2;
    b->used = ++bounds->clock;
    b->next = bounds->first;
    bounds->first = b;
    bounds->count++;
    bounds->bytes += b->bytes;
    return shrink(bounds);
}

mica_status mc_bounds_get(mc_bounds *bounds, const int64_t *lengths, mc_bound **bound, bool *made) {
    if (made) *made = false;
    pthread_mutex_lock(&bounds->lock);
    *bound = find_bound(bounds, lengths);
    pthread_mutex_unlock(&bounds->lock);
    if (*bound) return MICA_OK;
    mc_bound *own = NULL;
    MC_TRY(make(bounds, lengths, &own)); /* others may run meanwhile */
    pthread_mutex_lock(&bounds->lock);
    *bound = find_bound(bounds, lengths);
    mc_bound *dead = *bound ? own : insert(bounds, own);
    pthread_mutex_unlock(&bounds->lock);
    if (!*bound) {
        *bound = own;
        if (made) *made = bounds->mode != MICA_MODE_EAGER;
    } else {
        dead->next = NULL; /* a clone was first */
    }
    while (dead) {
        mc_bound *next = dead->next;
        free_bound(bounds, dead);
        dead = next;
    }
    return MICA_OK;
}

void mc_bounds_put(mc_bounds *bounds, mc_bound *bound) {
    if (!bound) return;
    pthread_mutex_lock(&bounds->lock);
    mc_bound *last = drop(bound);
    pthread_mutex_unlock(&bounds->lock);
    if (last) free_bound(bounds, last);
}

/* ---- seats ---- */

static mc_seat *new_seat(const mc_bounds *bounds, const mc_bound *b) {
    const mica_scope *graph = b->passed ? b->passed : b->scope;
    size_t args = (b->n_leaves + 1) * sizeof(mc_binding);
    mc_seat *seat = mc_calloc(1, sizeof *seat + args + (b->n_leaves + 1) * sizeof(uint64_t));
    if (!seat) return NULL;
    seat->args = (mc_binding *)(void *)(seat + 1);
    seat->scalars = (uint64_t *)(void *)((char *)(seat + 1) + args);
    uint64_t *scalar = seat->scalars;
    for (uint32_t i = 0; i < b->n_leaves; i++) {
        const mc_node *leaf = mc_scope_node(graph, b->leaves[i]);
        if (b->leaves[i] < bounds->program->n_params)
            scalar += mc_is_scalar(leaf);
        else
            (void)mc_bind_leaf(leaf, &seat->args[i], &scalar); /* it has a value */
    }
    return seat;
}

mc_seat *mc_bound_sit(mc_bounds *bounds, mc_bound *bound) {
    pthread_mutex_lock(&bounds->lock);
    mc_seat *seat = bound->spare;
    if (seat) bound->spare = seat->next;
    pthread_mutex_unlock(&bounds->lock);
    return seat ? seat : new_seat(bounds, bound);
}

void mc_bound_leave(mc_bounds *bounds, mc_bound *bound, mc_seat *seat) {
    if (!seat) return;
    pthread_mutex_lock(&bounds->lock);
    seat->next = bound->spare;
    bound->spare = seat;
    pthread_mutex_unlock(&bounds->lock);
}
