/* Starting kernels on the device's one stream, and the ends of launches. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cuda/cuda.h"
#include "cuda/graph.h"
#include "cuda/nccl.h"
#include "cuda/profile.h"

int mc_cuda_enter(const mc_cuda_state *state) {
    return mc_cuda.context_push(state->context);
}

void mc_cuda_leave(void) {
    void *context;
    (void)mc_cuda.context_pop(&context);
}

/* ---- launches ---- */

static void free_launch(mc_cuda_launch *l) {
    if (l->told) (void)mc_cuda.host_free(l->told);
    if (l->event) (void)mc_cuda.event_free(l->event);
    mc_free(l);
}

static mica_status new_launch(mc_cuda_launch **launch) {
    void *host = NULL;
    uint64_t address = 0;
    mc_cuda_launch *l = mc_calloc(1, sizeof *l);
    if (!l) return mc_fail_nomem("a launch");
    int error = mc_cuda.event_new(&l->event, MC_CUDA_EVENT_UNTIMED);
    if (!error) error = mc_cuda.host_alloc(&host, sizeof *l->told, MC_CUDA_HOST_MAPPED);
    l->told = host;
    if (!error) error = mc_cuda.host_address(&address, host, 0);
    if (error) {
        free_launch(l);
        return mc_cuda_check(error, "a launch");
    }
    l->on_device = (mc_cuda_told *)(uintptr_t)address;
    l->told->at = &l->on_device->fault;
    *launch = l;
    return MICA_OK;
}

static mc_cuda_launch *take_spare(mc_cuda_state *state) {
    (void)pthread_mutex_lock(&state->lock);
    mc_cuda_launch *l = state->spare;
    if (l) state->spare = l->next;
    (void)pthread_mutex_unlock(&state->lock);
    return l;
}

static void give_spare(mc_cuda_state *state, mc_cuda_launch *l) {
    (void)pthread_mutex_lock(&state->lock);
    l->next = state->spare;
    state->spare = l;
    (void)pthread_mutex_unlock(&state->lock);
}

mica_status mc_cuda_begin(void *own, mc_run *run, void **launch) {
    mc_cuda_state *state = own;
    MC_TRY(mc_cuda_check(mc_cuda_enter(state), "a launch"));
    mc_cuda_launch *l = take_spare(state);
    mica_status status = l ? MICA_OK : new_launch(&l);
    if (status == MICA_OK) {
        memset(&l->told->fault, 0, sizeof l->told->fault);
        status = mc_cuda_graph_begin(state, run, l, (struct mc_cuda_graph **)mc_run_own(run));
        if (status != MICA_OK) give_spare(state, l);
    }
    if (status != MICA_OK) mc_cuda_leave();
    *launch = l;
    return status;
}

bool mc_cuda_repeat(void *own, void *launch) {
    mc_cuda_launch *l = launch;
    (void)own;
    return l->graph && mc_cuda_graph_repeat(l->graph);
}

void mc_cuda_forget(void *own, void *graph) {
    int error = mc_cuda_enter(own);
    mc_cuda_graph_free(graph); /* what is here goes, whatever the driver says */
    if (!error) mc_cuda_leave();
}

size_t mc_cuda_kept_bytes(const void *graph) {
    return mc_cuda_graph_bytes(graph);
}

/* One that failed is waited for here: nobody else does, and its slot is used again. */
mc_fence mc_cuda_end(void *own, void *launch, mica_status *status) {
    mc_cuda_state *state = own;
    mc_cuda_launch *l = launch;
    if (l->graph && *status == MICA_OK) *status = mc_cuda_graph_launch(state, l->graph);
    l->graph = NULL;
    if (mc_cuda.event_record(l->event, state->stream) != 0 || *status != MICA_OK)
        (void)mc_cuda.stream_wait(state->stream);
    mc_cuda_leave();
    (void)pthread_mutex_lock(&state->lock);
    mc_cuda_launch **list = *status == MICA_OK ? &state->started : &state->spare;
    l->fence = ++state->fences;
    l->next = *list;
    *list = l;
    mc_fence fence = l->fence;
    (void)pthread_mutex_unlock(&state->lock);
    return fence;
}

static mc_cuda_launch *take_started(mc_cuda_state *state, mc_fence fence) {
    (void)pthread_mutex_lock(&state->lock);
    mc_cuda_launch **at = &state->started;
    while ((*at)->fence != fence)
        at = &(*at)->next;
    mc_cuda_launch *l = *at;
    *at = l->next;
    (void)pthread_mutex_unlock(&state->lock);
    return l;
}

static mica_status read_fault(const mc_cuda_fault *f) {
    const char *op = mc_op_get((mc_op)f->op)->name;
    switch (f->what) {
    case MC_CUDA_BAD_INDEX:
        return mc_fail(MICA_EINVAL, "%s: index %lld is outside axis %d, which has %lld elements",
                       op, (long long)f->found, f->axis, (long long)f->length);
    case MC_CUDA_BAD_START:
        return mc_fail(MICA_EINVAL,
                       "%s: %lld elements from %lld on do not fit into axis %d, which has %lld", op,
                       (long long)f->count, (long long)f->found, f->axis, (long long)f->length);
    case MC_CUDA_BAD_SLOT:
        return mc_fail(MICA_EINVAL, "%s: slot %lld of a pool that has %lld", op,
                       (long long)f->found, (long long)f->length);
    default:
        return MICA_OK;
    }
}

mica_status mc_cuda_wait(void *own, mc_fence fence) {
    mc_cuda_state *state = own;
    mc_cuda_launch *l = take_started(state, fence);
    mica_status status = mc_cuda_check(mc_cuda_enter(state), "the device");
    if (status == MICA_OK) {
        status = state->comms ? mc_cuda_wait_with_ranks(state, l->event)
                              : mc_cuda_check(mc_cuda.event_wait(l->event), "the device");
        mc_cuda_leave();
    }
    if (status == MICA_OK) status = read_fault(&l->told->fault);
    give_spare(state, l);
    return status;
}

void mc_cuda_launches_free(mc_cuda_state *state) {
    mc_cuda_launch **lists[] = {&state->started, &state->spare};
    for (int i = 0; i < 2; i++)
        while (*lists[i]) {
            mc_cuda_launch *l = *lists[i];
            *lists[i] = l->next;
            free_launch(l);
        }
}

/* ---- kernels ---- */

mica_status mc_cuda_start_kernel(const mc_call *call, mc_cuda_kernel kernel, mc_cuda_grid grid,
                                 const void *args, size_t bytes) {
    const mc_cuda_state *state = call->state;
    const mc_cuda_launch *l = mc_run_launched(call->run);
    void *params[] = {(void *)(uintptr_t)args};
    if (grid.x < 1 || grid.y < 1 || grid.z < 1) return MICA_OK; /* nothing to do */
    if (l->graph) return mc_cuda_graph_add(l->graph, kernel, grid, args, bytes);
    mc_cuda_kernel_params p = mc_cuda_kernel_of(state, kernel, grid, params);
    if (state->profile) mc_cuda_profile_begin(state->profile, state->stream);
    int error = mc_cuda.launch(p.kernel, p.grid[0], p.grid[1], p.grid[2], p.block[0], p.block[1],
                               p.block[2], p.shared_bytes, state->stream, params, NULL);
    if (state->profile) mc_cuda_profile_end(state->profile, state->stream, kernel, &grid);
    return error ? mc_cuda_check(error, mc_op_get(call->op)->name) : MICA_OK;
}

mc_cuda_grid mc_cuda_over(const mc_call *call, int64_t elements) {
    const mc_cuda_state *state = call->state;
    int64_t blocks = (elements + 255) / 256, most = (int64_t)state->multiprocessors * 16;
    return (mc_cuda_grid){.x = blocks < most ? blocks : most, .y = 1, .z = 1};
}

mc_cuda_fault **mc_cuda_fault_of(const mc_call *call) {
    const mc_cuda_launch *l = mc_run_launched(call->run);
    return l->graph ? (mc_cuda_fault **)(uintptr_t)l->graph->numbers : &l->on_device->at;
}

/* The address of a number that the launch brings; 0: it is not in memory of the device. */
static uint64_t number_in_graph(const mc_call *call, const mc_operand *x) {
    const mc_cuda_launch *l = mc_run_launched(call->run);
    int i = l->graph ? mc_run_number(call->run, x) : -1;
    return i < 0 ? 0 : l->graph->numbers + (1 + (uint64_t)i) * sizeof(uint64_t);
}

mc_cuda_view mc_cuda_view_of(const mc_call *call, const mc_operand *x) {
    mc_cuda_view view = {0};
    if (!x->layout) return view;
    view.dtype = (int32_t)x->layout->dtype;
    view.is_there = 1;
    memcpy(view.strides, x->layout->strides, (size_t)x->layout->ndim * sizeof *view.strides);
    view.data =
        mc_run_is_number(call->run, x) ? (void *)(uintptr_t)number_in_graph(call, x) : x->data;
    if (!view.data && x->data) memcpy(&view.number, x->data, mica_dtype_bytes(x->layout->dtype));
    return view;
}

/* Whether axis k goes on where axis k - 1 ends, in all views. */
static bool joins(int k, const int64_t *shape, mc_cuda_view *const *views, int n) {
    for (int i = 0; i < n; i++)
        if (views[i]->strides[k - 1] != views[i]->strides[k] * shape[k]) return false;
    return true;
}

int mc_cuda_join_axes(int ndim, int64_t *shape, mc_cuda_view *const *views, int n) {
    int to = 0;
    for (int k = 0; k < ndim; k++) {
        if (shape[k] == 1) continue;
        shape[to] = shape[k];
        for (int i = 0; i < n; i++)
            views[i]->strides[to] = views[i]->strides[k];
        if (to == 0 || !joins(to, shape, views, n)) {
            to++;
            continue;
        }
        shape[to - 1] *= shape[to];
        for (int i = 0; i < n; i++)
            views[i]->strides[to - 1] = views[i]->strides[to];
    }
    return to;
}
