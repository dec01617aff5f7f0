/* Runs of a plan: bind the parameters, run the steps, hand out the results. */
#include "exec/steps/run.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/integer.h"
#include "base/map.h"
#include "device/device.h"
#include "exec/steps/prepared.h"

/* ---- making a run ---- */

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
    run->roots = cut(block, &used, p->n_roots * sizeof *run->roots);
    run->own = cut(block, &used, p->n_roots * sizeof *run->own);
    run->bound = cut(block, &used, p->n_roots * sizeof *run->bound);
    run->scalars = cut(block, &used, p->n_scalars * sizeof *run->scalars);
    run->operands = cut(block, &used, p->n_operands * sizeof *run->operands);
    run->calls = cut(block, &used, p->n_steps * sizeof *run->calls);
    return used;
}

/* Addresses without memory on every system: such a root is touched by no kernel, which tell it from
 * others. */
#define NOWHERE (UINTPTR_MAX - (UINTPTR_MAX >> 9))
#define MAX_NOWHERE ((int64_t)(UINTPTR_MAX >> 9)) /* bytes */
enum { ALIGN = 64 };

static void *nowhere(int64_t offset) {
    return (void *)(NOWHERE + (uintptr_t)offset);
}

/* What roots that never move lie in, and which may. */
static void set_roots(mc_run *run) {
    const mc_plan *p = run->plan;
    for (uint32_t i = 0; i < p->n_roots; i++) {
        const mc_root *root = &p->roots[i];
        if (root->kind == MC_ROOT_SCALAR) {
            run->scalars[root->index] = root->value;
            run->roots[i] = &run->scalars[root->index];
        } else if (root->untouched) {
            run->roots[i] = nowhere(root->offset);
        } else if (root->kind != MC_ROOT_TEMP) {
            run->bound[run->n_bound++] = i;
        }
    }
}

static void set_calls(mc_run *run) {
    const mc_plan *p = run->plan;
    mc_operand *next = run->operands;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_step *step = &p->steps[i];
        run->calls[i] = (mc_call){.op = step->op,
                                  .attr = step->attr,
                                  .n_in = (int)step->n_in,
                                  .in = next,
                                  .out.layout = &p->values[step->out].layout,
                                  .prepared = mc_prepared_data(step->prepared),
                                  .state = run->device->state,
                                  .run = run,
                                  .span = (int)step->span,
                                  .joint = (int)step->joint,
                                  .axis = step->axis,
                                  .left = (int)(p->n_steps - i),
                                  .inner = step->inner};
        for (uint32_t k = 0; k < step->n_in; k++, next++)
            if (step->in[k] != MC_ABSENT) next->layout = &p->values[step->in[k]].layout;
        if (step->n_out > 1) run->calls[i].more = next;
        for (uint32_t k = 1; k < step->n_out; k++, next++)
            next->layout = &p->values[step->out + k].layout;
    }
}

mc_run *mc_run_new(mica_device *device, const mc_plan *p) {
    mc_run measure;
    char *block = mc_calloc(1, lay_out(&measure, p, NULL));
    if (!block) return NULL;
    mc_run *run = (mc_run *)(void *)block;
    lay_out(run, p, block);
    run->device = device;
    run->plan = p;
    run->moved = true;
    set_roots(run);
    set_calls(run);
    return run;
}

void mc_run_free(mc_run *run) {
    if (!run) return;
    if (run->kept_own) run->plan->ops->forget(run->device->state, run->kept_own);
    mc_free(run);
}

size_t mc_run_kept_bytes(const mc_run *run) {
    return run->kept_own ? run->plan->ops->kept_bytes(run->kept_own) : 0;
}

/* ---- memory for kernels ---- */

bool mc_run_is_measured(const mc_run *run) {
    return run->measured != NULL;
}

/* Notes what a kernel would keep, unless it is kept already. */
static void measure_kept(mc_measured *m, const void *key, size_t key_bytes, size_t bytes) {
    uint64_t hash = mc_hash(key, key_bytes, bytes);
    for (int i = 0; i < m->n_keys; i++)
        if (m->keys[i] == hash) return;
    if (m->n_keys == MC_MAX_KEPT) return;
    m->keys[m->n_keys++] = hash;
    m->kept += mc_memory_rounded(bytes + key_bytes);
}

void *mc_run_scratch(mc_run *run, size_t bytes) {
    if (run->measured) {
        uint64_t rounded = mc_memory_rounded(bytes);
        if (rounded > run->measured->scratch) run->measured->scratch = rounded;
        return NULL;
    }
    if (!run->scratch || run->scratch->bytes < bytes) {
        mc_storage_release(run->scratch);
        run->scratch = NULL;
        if (bytes > run->scratch_bytes) run->scratch_bytes = bytes;
        run->scratch_address = NULL; /* some kernels of this launch have another one */
        if (mc_storage_new(run->device, bytes, &run->scratch) != MICA_OK) return NULL;
    }
    return run->scratch->address;
}

void *mc_run_launched(const mc_run *run) {
    return run->launched;
}

bool mc_run_is_number(const mc_run *run, const mc_operand *operand) {
    uintptr_t data = (uintptr_t)operand->data, first = (uintptr_t)run->scalars;
    return data >= first && data - first < run->plan->n_scalars * sizeof *run->scalars;
}

const uint64_t *mc_run_numbers(const mc_run *run, uint32_t *n) {
    *n = run->plan->lowered->n_scalars;
    return run->scalars;
}

int mc_run_number(const mc_run *run, const mc_operand *operand) {
    if (!mc_run_is_number(run, operand)) return -1;
    size_t at = (size_t)((const uint64_t *)operand->data - run->scalars);
    return at < run->plan->lowered->n_scalars ? (int)at : -1;
}

void **mc_run_own(mc_run *run) {
    return &run->kept_own;
}

uint32_t mc_run_steps(const mc_run *run) {
    return run->plan->n_steps;
}

bool mc_run_fills_cache(const mc_run *run) {
    return run->plan->fills_cache;
}

bool mc_run_trains(const mc_run *run) {
    return run->plan->trains && run->plan->fast;
}

/* The root of operand k of a call; MC_ABSENT: it is none of the run's, or absent. */
static uint32_t root_of(const mc_call *call, int k) {
    const mc_plan *p = call->run->plan;
    uintptr_t at = (uintptr_t)call - (uintptr_t)call->run->calls; /* large where it is none */
    if (at >= p->n_steps * sizeof *call) return MC_ABSENT;
    uint32_t value = p->steps[at / sizeof *call].in[k];
    return value == MC_ABSENT ? MC_ABSENT : p->values[value].root;
}

bool mc_run_is_given(const mc_call *call, int k) {
    uint32_t root = root_of(call, k);
    if (root == MC_ABSENT) return false;
    const mc_root *r = &call->run->plan->roots[root];
    return r->kind == MC_ROOT_PARAM && !r->movable;
}

int mc_run_writers(const mc_call *call, int k) {
    const mc_plan *p = call->run->plan;
    uint32_t root = root_of(call, k);
    int n = root == MC_ABSENT ? INT_MAX : 0; /* anybody may */
    for (uint32_t i = 0; i < p->n_steps; i++)
        for (uint32_t r = 0; root != MC_ABSENT && r < p->steps[i].n_out; r++)
            n += p->values[p->steps[i].out + r].root == root;
    return n;
}

static void *key_of(const mc_kept *k) {
    return k->key ? k->key : (char *)k->storage->host + k->bytes;
}

void mc_run_release_scratch(mc_run *run) {
    mc_storage_release(run->scratch);
    run->scratch = NULL;
    while (run->n_kept > 0) {
        const mc_kept *k = &run->kept[--run->n_kept];
        mc_free(k->key);
        mc_storage_release(k->storage);
    }
}

/* Memory to keep, and for its key: behind it, so that a replay asks for one block alone. */
static mica_status new_kept(const mc_run *run, mc_kept *k) {
    MC_TRY(mc_storage_new(run->device, k->bytes + k->key_bytes, &k->storage));
    if (k->storage->host) return MICA_OK;
    k->key = mc_alloc(k->key_bytes);
    if (k->key) return MICA_OK;
    mc_storage_release(k->storage);
    return mc_fail_nomem("running a plan");
}

void *mc_run_keep(mc_run *run, const void *key, size_t key_bytes, size_t bytes, bool *found) {
    *found = true;
    if (run->measured) {
        measure_kept(run->measured, key, key_bytes, bytes);
        return NULL;
    }
    for (int i = 0; i < run->n_kept; i++) {
        const mc_kept *k = &run->kept[i];
        if (k->bytes == bytes && k->key_bytes == key_bytes &&
            memcmp(key_of(k), key, key_bytes) == 0)
            return k->storage->address;
    }
    *found = false;
    if (run->n_kept == MC_MAX_KEPT) return NULL;
    mc_kept *k = &run->kept[run->n_kept];
    *k = (mc_kept){.bytes = bytes, .key_bytes = key_bytes};
    if (new_kept(run, k) != MICA_OK) return NULL;
    memcpy(key_of(k), key, key_bytes);
    run->n_kept++;
    return k->storage->address;
}

/* ---- binding ---- */

static void place(mc_run *run, uint32_t root, void *address) {
    if (run->roots[root] == address) return;
    run->roots[root] = address;
    run->moved = true;
}

/* NULL: of an array without elements. */
static void *arg_address(const mc_binding *arg) {
    return arg->address ? (char *)arg->address + arg->offset_bytes : NULL;
}

/* A root with a storage of its own: a donated parameter's where nobody else holds that, else
 * new. */
static mica_status bind_own(mc_run *run, uint32_t i, const mc_binding *args) {
    const mc_root *root = &run->plan->roots[i];
    if (root->index != MC_ABSENT) {
        const mc_binding *arg = &args[root->index];
        if (arg->storage && !arg->storage->read_only && mc_storage_count(arg->storage) == 1) {
            run->own[i] = mc_storage_retain(arg->storage);
            place(run, i, arg_address(arg));
            return MICA_OK;
        }
    }
    MC_TRY(mc_storage_new(run->device, (size_t)root->bytes, &run->own[i]));
    place(run, i, run->own[i]->address);
    return MICA_OK;
}

static mica_status bind_temp(mc_run *run) {
    const mc_plan *p = run->plan;
    if (p->temp_bytes == 0) return MICA_OK;
    MC_TRY(mc_storage_new(run->device, (size_t)p->temp_bytes, &run->temp));
    if (run->temp->address == run->temp_address) return MICA_OK;
    run->temp_address = run->temp->address;
    run->moved = true;
    for (uint32_t i = 0; i < p->n_roots; i++)
        if (p->roots[i].kind == MC_ROOT_TEMP && p->roots[i].placed)
            run->roots[i] = (char *)run->temp->address + p->roots[i].offset;
    return MICA_OK;
}

static void *value_address(const mc_run *run, uint32_t value) {
    const mc_value *v = &run->plan->values[value];
    char *root = run->roots[v->root]; /* NULL as above */
    return root ? root + v->offset_bytes : NULL;
}

static void bind_operands(mc_run *run) {
    const mc_plan *p = run->plan;
    if (!run->moved) return; /* as in steady decoding */
    run->moved = false;
    mc_operand *next = run->operands;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_step *step = &p->steps[i];
        for (uint32_t k = 0; k < step->n_in; k++, next++)
            if (step->in[k] != MC_ABSENT) next->data = value_address(run, step->in[k]);
        for (uint32_t k = 1; k < step->n_out; k++, next++)
            next->data = value_address(run, step->out + k);
        run->calls[i].out.data = value_address(run, step->out);
    }
}

/* Scratch for all kernels, as the last launch needed it, so that it may lie where it lay then. */
static mica_status bind_scratch(mc_run *run) {
    if (run->scratch_bytes == 0) return MICA_OK;
    MC_TRY(mc_storage_new(run->device, run->scratch_bytes, &run->scratch));
    run->repeats = run->repeats && run->scratch->address == run->scratch_address;
    run->scratch_address = run->scratch->address;
    return MICA_OK;
}

static mica_status bind(mc_run *run, const mc_binding *args, const uint64_t *scalars) {
    const mc_plan *p = run->plan;
    if (p->lowered->n_scalars > 0)
        memcpy(run->scalars, scalars, p->lowered->n_scalars * sizeof *scalars);
    MC_TRY(bind_temp(run));
    for (uint32_t k = 0; k < run->n_bound; k++) {
        uint32_t i = run->bound[k];
        if (p->roots[i].kind == MC_ROOT_OWN)
            MC_TRY(bind_own(run, i, args));
        else
            place(run, i, arg_address(&args[p->roots[i].index]));
    }
    run->repeats = !run->moved;
    bind_operands(run);
    return run->plan->ops->repeat ? bind_scratch(run) : MICA_OK;
}

/* ---- running ---- */

/* Says which donated parameters the steps write over. */
static void mark_taken(const mc_run *run, mc_binding *args) {
    for (uint32_t k = 0; k < run->n_bound; k++) {
        const mc_root *root = &run->plan->roots[run->bound[k]];
        if (root->kind != MC_ROOT_OWN || root->index == MC_ABSENT) continue;
        mc_binding *arg = &args[root->index];
        if (arg->storage == run->own[run->bound[k]]) arg->taken = true;
    }
}

static mica_status run_steps(mc_run *run) {
    const mc_plan *p = run->plan;
    for (uint32_t i = 0; i < p->n_steps; i += p->steps[i].span)
        MC_TRY(p->steps[i].kernel(&run->calls[i]));
    return MICA_OK;
}

/* Runs the steps, or starts them. */
static mica_status start_steps(mc_run *run, mc_fence *fence) {
    const mc_step_ops *ops = run->plan->ops;
    void *state = run->device->state;
    if (!ops->begin) return run_steps(run);
    MC_TRY(ops->begin(state, run, &run->launched));
    bool repeated = run->repeats && ops->repeat && ops->repeat(state, run->launched);
    mica_status status = repeated ? MICA_OK : run_steps(run);
    mc_fence started = ops->end(state, run->launched, &status);
    if (status == MICA_OK) *fence = started;
    return status;
}

/* The storage of a result, with a reference, and where in it the first element is. */
static mica_status find_result(mc_run *run, const mc_value *v, const mc_binding *args,
                               mc_result *result) {
    const mc_root *root = &run->plan->roots[v->root];
    result->offset_bytes = v->offset_bytes;
    if (root->kind == MC_ROOT_OWN) {
        result->storage = mc_storage_retain(run->own[v->root]);
        result->offset_bytes += (char *)run->roots[v->root] - (char *)result->storage->address;
        return MICA_OK;
    }
    if (root->kind == MC_ROOT_PARAM && args[root->index].storage) {
        result->storage = mc_storage_retain(args[root->index].storage);
        result->offset_bytes += args[root->index].offset_bytes;
        return MICA_OK;
    }
    /* A view of one number: give it a place in memory. */
    MC_TRY(mc_storage_new(run->device, sizeof(uint64_t), &result->storage));
    return mc_storage_write(run->device, result->storage, 0, run->roots[v->root], sizeof(uint64_t));
}

static mica_status find_results(mc_run *run, const mc_binding *args, mc_result *results) {
    const mc_plan *p = run->plan;
    mica_status status = MICA_OK;
    for (uint32_t i = 0; i < p->n_targets && status == MICA_OK; i++)
        status = find_result(run, &p->values[p->targets[i]], args, &results[i]);
    for (uint32_t i = 0; i < p->n_targets && status != MICA_OK; i++) {
        mc_storage_release(results[i].storage);
        results[i] = (mc_result){0};
    }
    return status;
}

/* Gives back the memory that the run held. */
static void release_memory(mc_run *run) {
    for (uint32_t k = 0; k < run->n_bound; k++) {
        mc_storage_release(run->own[run->bound[k]]);
        run->own[run->bound[k]] = NULL;
    }
    mc_storage_release(run->temp);
    run->temp = NULL;
    mc_run_release_scratch(run);
}

static bool takes_memory(const mc_plan *p, const mc_step *step, const void *state) {
    const mc_step_ops *ops = p->ops;
    if (ops->chain && step->kernel == ops->chain) return true;
    return ops->takes_memory && ops->takes_memory(state, step->op);
}

/* Whether an earlier step's kernel makes the same of the same operand. */
static bool is_made_before(const mc_run *run, uint32_t i, const mc_prepare *want) {
    const mc_step *steps = run->plan->steps;
    uint32_t value = steps[i].in[want->operand];
    for (uint32_t k = 0; k < i; k++) {
        bool reads = steps[k].op == steps[i].op && (int)steps[k].n_in > want->operand &&
                     steps[k].in[want->operand] == value;
        if (reads && run->plan->ops->prepares(&run->calls[k]).form == want->form) return true;
    }
    return false;
}

/* What kernels of an executable make of constants. */
static uint64_t prepared_bytes(const mc_run *run) {
    const mc_plan *p = run->plan;
    uint64_t bytes = 0;
    for (uint32_t i = 0; p->ops->prepares && i < p->n_steps; i++) {
        mc_prepare want = p->ops->prepares(&run->calls[i]);
        if (want.bytes == 0) continue;
        const mc_root *root = &p->roots[p->values[p->steps[i].in[want.operand]].root];
        if (root->fixed && !is_made_before(run, i, &want)) bytes += mc_memory_rounded(want.bytes);
    }
    return bytes;
}

mica_status mc_run_measure(mica_device *device, const mc_plan *p, mc_launch_memory *memory) {
    mc_measured measured = {0};
    mc_run *run = mc_run_new(device, p);
    *memory = (mc_launch_memory){0};
    if (!run) return mc_fail_nomem("measuring a plan");
    run->measured = &measured;
    bind_operands(run); /* scalars alone lie somewhere */
    memory->prepared = prepared_bytes(run);
    for (uint32_t i = 0; i < p->n_steps; i += p->steps[i].span)
        if (takes_memory(p, &p->steps[i], device->state)) (void)p->steps[i].kernel(&run->calls[i]);
    mc_run_free(run);
    for (uint32_t i = 0; i < p->n_roots; i++)
        if (p->roots[i].kind == MC_ROOT_OWN && p->roots[i].index == MC_ABSENT)
            memory->results += mc_memory_rounded((size_t)p->roots[i].bytes);
    for (uint32_t i = 0; i < p->n_targets; i++)
        if (p->roots[p->values[p->targets[i]].root].kind == MC_ROOT_SCALAR)
            memory->results += mc_memory_rounded(sizeof(uint64_t));
    memory->others = measured.scratch + measured.kept;
    if (p->temp_bytes > 0) memory->others += mc_memory_rounded((size_t)p->temp_bytes);
    return MICA_OK;
}

/* ---- what kernels touch ---- */

static void touch(mc_run *run, uint32_t value) {
    if (value != MC_ABSENT) run->measured->touched[run->plan->values[value].root] = true;
}

void mc_run_touch(const mc_call *call, const void *data) {
    mc_run *run = call->run;
    const mc_step *step = &run->plan->steps[call - run->calls];
    for (int i = 0; i < call->span; i++, step++) {
        for (uint32_t k = 0; k < step->n_in; k++)
            if (call[i].in[k].data == data) touch(run, step->in[k]);
        if (call[i].out.data == data) touch(run, step->out);
    }
}

void mc_run_touch_calls(const mc_call *call, int from, int to) {
    mc_run *run = call->run;
    for (int i = from; i < to; i++) {
        const mc_step *step = &run->plan->steps[call + i - run->calls];
        for (uint32_t k = 0; k < step->n_in; k++)
            touch(run, step->in[k]);
        for (uint32_t k = 0; k < step->n_out; k++)
            touch(run, step->out + k);
    }
}

/* How far the values of each root reach in it, in bytes. */
static void find_ends(const mc_plan *p, int64_t *ends) {
    for (uint32_t i = 0; i < p->n_values; i++) {
        const mc_value *v = &p->values[i];
        int64_t first, bytes;
        mc_layout_span(&v->layout, &first, &bytes);
        int64_t end = v->offset_bytes + first + bytes;
        if (end > ends[v->root]) ends[v->root] = end;
    }
}

/* Gives each root that is no number an address of its own; *fits: there are enough. */
static mica_status spread_roots(mc_run *run, bool *fits) {
    const mc_plan *p = run->plan;
    int64_t *ends = mc_calloc(p->n_roots + 1, sizeof *ends), at = 0;
    if (!ends) return mc_fail_nomem("a plan");
    find_ends(p, ends);
    *fits = true;
    for (uint32_t i = 0; i < p->n_roots && *fits; i++) {
        mc_root *root = &p->roots[i];
        if (root->kind == MC_ROOT_SCALAR) continue;
        if (root->kind == MC_ROOT_TEMP) root->offset = at;
        run->roots[i] = nowhere(at);
        *fits = ends[i] < MAX_NOWHERE - at;
        if (*fits) at += mc_round_up(ends[i], ALIGN) + ALIGN;
    }
    mc_free(ends);
    bind_operands(run);
    return MICA_OK;
}

static mica_status find_untouched(mc_run *run) {
    const mc_plan *p = run->plan;
    bool fits = false;
    MC_TRY(spread_roots(run, &fits));
    if (!fits) return MICA_OK;
    for (uint32_t i = 0; i < p->n_steps; i += p->steps[i].span)
        if (p->steps[i].span > 1)
            p->ops->touch(&run->calls[i]);
        else
            mc_run_touch_calls(&run->calls[i], 0, 1);
    for (uint32_t i = 0; i < p->n_roots; i++)
        p->roots[i].untouched = p->roots[i].kind == MC_ROOT_TEMP && !run->measured->touched[i];
    return MICA_OK;
}

mica_status mc_run_place(mica_device *device, mc_plan *p) {
    if (!p->ops->touch) return MICA_OK;
    mc_run *run = mc_run_new(device, p);
    mc_measured measured = {.touched = mc_calloc(p->n_roots + 1, sizeof(bool))};
    mica_status status = MICA_ENOMEM;
    if (run && measured.touched) {
        run->measured = &measured;
        status = find_untouched(run);
    } else {
        (void)mc_fail_nomem("a plan");
    }
    mc_run_free(run);
    mc_free(measured.touched);
    if (status == MICA_OK) status = mc_plan_place(p);
    return MC_VERIFY_PASSES && status == MICA_OK ? mc_plan_verify(p) : status;
}

/* ---- constants ---- */

/* The memory that a run takes without what kernels make, with its arguments. errors  MICA_ENOMEM */
static mica_status measure_all(mica_device *device, const mc_plan *p, uint64_t *bytes) {
    const mc_lowered *l = p->lowered;
    mc_launch_memory memory;
    MC_TRY(mc_run_measure(device, p, &memory));
    *bytes = memory.results + memory.others;
    for (uint32_t i = 0; i < mc_scope_count(l->graph); i++) {
        const mc_node *node = mc_scope_node(l->graph, i);
        if (node->op != MC_OP_LEAF || node->scalar) continue;
        const mc_lowered_param *param = &l->params[node->value];
        if (!param->scalar && !param->constant)
            *bytes += mc_memory_rounded((size_t)mc_layout_bytes(&node->layout));
    }
    return MICA_OK;
}

/* left: what measure_all has, or 0: it is not known yet. */
static mica_status prepare_step(mc_run *run, mc_step *step, const mc_call *call, uint64_t *left) {
    const mc_plan *p = run->plan;
    mc_prepare want = p->ops->prepares(call);
    if (want.bytes == 0) return MICA_OK;
    uint32_t value = step->in[want.operand];
    const mc_root *root = &p->roots[p->values[value].root];
    if (!root->constant || !call->in[want.operand].data) return MICA_OK;
    if (*left == 0) MC_TRY(measure_all(run->device, p, left));
    return mc_prepared_get(run->device, p->ops, call, &want, root->constant, *left,
                           &step->prepared);
}

mica_status mc_run_prepare(mica_device *device, mc_plan *p) {
    if (!p->ops->prepares) return MICA_OK;
    mica_status status = MICA_OK;
    uint64_t left = 0;
    mc_run *run = mc_run_new(device, p);
    if (!run) return mc_fail_nomem("an executable");
    for (uint32_t k = 0; k < run->n_bound; k++) {
        const mc_root *root = &p->roots[run->bound[k]];
        if (!root->constant || !root->constant->address) continue;
        const mc_lowered_param *param = &p->lowered->params[root->index];
        place(run, run->bound[k], (char *)root->constant->address + param->offset_bytes);
    }
    bind_operands(run);
    for (uint32_t i = 0; i < p->n_steps && status == MICA_OK; i++)
        status = prepare_step(run, &p->steps[i], &run->calls[i], &left);
    mc_run_free(run);
    return status;
}

void mc_run_forget(mica_device *device, mc_plan *p) {
    for (uint32_t i = 0; i < p->n_steps; i++) {
        mc_prepared_put(device, p->steps[i].prepared);
        p->steps[i].prepared = NULL;
    }
}

mica_status mc_run_launch(mc_run *run, mc_binding *args, const uint64_t *scalars,
                          mc_result *results, mc_fence *fence) {
    *fence = 0;
    memset(results, 0, run->plan->n_targets * sizeof *results);
    mica_status status = bind(run, args, scalars);
    if (status == MICA_OK) {
        mark_taken(run, args);
        status = start_steps(run, fence);
    }
    if (status == MICA_OK) status = find_results(run, args, results);
    release_memory(run);
    if (status == MICA_OK) return MICA_OK;
    run->moved = true; /* the next launch repeats nothing */
    status = mc_device_wait_after(run->device, *fence, status);
    *fence = 0;
    return status;
}
