#include "exec/steps/steps.h"

#include <pthread.h>

#include "base/alloc.h"
#include "exec/steps/run.h"

typedef struct step_executable {
    mc_executable base; /* first: the device hands it back */
    mica_device *device;
    mc_plan *plan;
    mc_layout *results;
    pthread_mutex_t lock;
    mc_run *spare; /* guarded by lock: a run that nobody uses; NULL: none */
} step_executable;

static size_t bytes_of(const mc_plan *p) {
    return mc_arena_bytes(&p->arena) + mc_scope_bytes(p->lowered->graph) +
           p->n_roots * 3 * sizeof(void *) + p->n_steps * sizeof(mc_call) +
           p->n_operands * sizeof(mc_operand);
}

static mica_status fill(step_executable *x, mica_device *device, mc_plan *plan) {
    x->device = device;
    x->results = mc_array_alloc(plan->n_targets, sizeof *x->results);
    if (!x->results) return mc_fail_nomem("an executable");
    for (uint32_t i = 0; i < plan->n_targets; i++)
        x->results[i] = plan->values[plan->targets[i]].layout;
    x->base = (mc_executable){.n_params = plan->lowered->n_params,
                              .n_results = plan->n_targets,
                              .results = x->results,
                              .bytes = bytes_of(plan),
                              .changed = plan->changed};
    if (pthread_mutex_init(&x->lock, NULL) != 0)
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for an executable");
    x->plan = plan; /* from here on mc_steps_discard takes it all apart */
    return MICA_OK;
}

mica_status mc_steps_compile(mica_device *device, const mc_step_ops *ops, mc_lowered *lowered,
                             mc_executable **executable) {
    mc_plan *plan;
    *executable = NULL;
    MC_TRY(mc_plan_make(device, ops, lowered, &plan));
    step_executable *x = mc_calloc(1, sizeof *x);
    mica_status status = x ? mc_run_place(device, plan) : mc_fail_nomem("an executable");
    if (status == MICA_OK) status = fill(x, device, plan);
    if (status == MICA_OK) {
        status = mc_run_prepare(device, plan);
        *executable = &x->base;
        if (status == MICA_OK) return MICA_OK;
        mc_steps_discard(&x->base);
        *executable = NULL;
        return status;
    }
    mc_plan_free(plan);
    if (x) mc_free(x->results);
    mc_free(x);
    return status;
}

mica_status mc_steps_measure(const mc_executable *executable, mc_launch_memory *memory) {
    const step_executable *x = (const step_executable *)(const void *)executable;
    return mc_run_measure(x->device, x->plan, memory);
}

void mc_steps_discard(mc_executable *executable) {
    if (!executable) return;
    step_executable *x = (step_executable *)(void *)executable;
    mc_run_free(x->spare);
    mc_run_forget(x->device, x->plan);
    pthread_mutex_destroy(&x->lock);
    mc_plan_free(x->plan);
    mc_free(x->results);
    mc_free(x);
}

static mc_run *take_run(step_executable *x) {
    pthread_mutex_lock(&x->lock);
    mc_run *run = x->spare;
    x->spare = NULL;
    pthread_mutex_unlock(&x->lock);
    return run ? run : mc_run_new(x->device, x->plan);
}

/* One is kept: bytes_of counts one, and those who ran at once may not do so again. */
static void give_run_back(step_executable *x, mc_run *run) {
    pthread_mutex_lock(&x->lock);
    mc_run *unused = x->spare;
    x->spare = run;
    atomic_store_explicit(&x->base.kept_bytes, mc_run_kept_bytes(run), memory_order_relaxed);
    pthread_mutex_unlock(&x->lock);
    mc_run_free(unused);
}

mica_status mc_steps_launch(mc_executable *executable, mc_binding *args, const uint64_t *scalars,
                            mc_result *results, mc_fence *fence) {
    step_executable *x = (step_executable *)(void *)executable;
    *fence = 0;
    mc_run *run = take_run(x);
    if (!run) return mc_fail_nomem("running a plan");
    mica_status status = mc_run_launch(run, args, scalars, results, fence);
    give_run_back(x, run);
    return status;
}
