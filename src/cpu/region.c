#include "cpu/region.h"

#define RUNS_A_THREAD 8 /* so that a slow core does not delay the others */

/* One region of mc_cpu_for. */
typedef struct range_work {
    mc_range_fn fn;
    void *context;
    int64_t n;
    int64_t run; /* elements of a task */
} range_work;

static void run_range(void *context, int begin, int end, int worker) {
    const range_work *work = context;
    int64_t to = end * work->run;
    work->fn(work->context, begin * work->run, to < work->n ? to : work->n, worker);
}

void mc_cpu_for(const mc_call *call, int64_t n, int64_t grain, mc_range_fn fn, void *context) {
    if (n <= 0) return;
    const mc_cpu *cpu = mc_cpu_of(call);
    if (grain < 1) grain = 1;
    int64_t max = (int64_t)cpu->threads * RUNS_A_THREAD;
    int64_t run = (n - 1) / max + 1;
    run = ((run - 1) / grain + 1) * grain;
    if (cpu->threads == 1 || run >= n) {
        fn(context, 0, n, 0);
        return;
    }
    range_work work = {fn, context, n, run};
    mc_pool_run(cpu->pool, (int)((n - 1) / run + 1), run_range, &work);
}
