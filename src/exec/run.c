#include "exec/run.h"

#include "base/alloc.h"
#include "device/device.h"

/* The next `bytes` of a block of which *used are taken; NULL while the block is only measured. */
static void *cut(char *block, size_t *used, size_t bytes) {
    void *part = block ? block + *used : NULL;
    *used += (bytes + 15) / 16 * 16;
    return part;
}

/* Lays the run and its lists out in a block and returns its size; block NULL only measures. */
static size_t lay_out(mc_run *run, const mc_plan *p, char *block) {
    size_t used = 0;
    cut(block, &used, sizeof *run);
    run->targets = cut(block, &used, p->n_targets * sizeof *run->targets);
    run->roots = cut(block, &used, p->n_roots * sizeof *run->roots);
    run->own = cut(block, &used, p->n_roots * sizeof *run->own);
    run->moving = cut(block, &used, p->n_roots * sizeof *run->moving);
    run->operands = cut(block, &used, p->n_operands * sizeof *run->operands);
    run->calls = cut(block, &used, p->n_steps * sizeof *run->calls);
    run->leaves = cut(block, &used, p->n_leaves * sizeof *run->leaves);
    return used;
}

mc_run *mc_run_new(mica_device *device, const mc_plan *p) {
    mc_run measure;
    char *block = mc_calloc(1, lay_out(&measure, p, NULL));
    if (!block) return NULL;
    mc_run *run = (mc_run *)(void *)block;
    lay_out(run, p, block);
    run->device = device;
    run->plan = p;
    for (uint32_t i = 0; i < p->n_roots; i++)
        if (p->roots[i].kind == MC_ROOT_OWN || p->roots[i].movable)
            run->moving[run->n_moving++] =
                (mc_moving){i, p->roots[i].index, p->roots[i].kind == MC_ROOT_OWN};
    mc_operand *next = run->operands;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_step *step = &p->steps[i];
        run->calls[i] = (mc_call){.op = step->op,
                                  .attr = step->attr,
                                  .n_in = (int)step->n_in,
                                  .in = next,
                                  .out.layout = &p->values[step->out].layout,
                                  .state = device->state,
                                  .run = run,
                                  .span = (int)step->span,
                                  .joint = (int)step->joint,
                                  .axis = step->axis,
                                  .left = (int)(p->n_steps - i)};
        for (uint32_t k = 0; k < step->n_in; k++, next++)
            if (step->in[k] != MC_ABSENT) next->layout = &p->values[step->in[k]].layout;
    }
    return run;
}
