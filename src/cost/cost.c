/* What a program takes on a device: its graph as the device would run it, step by step. */
#include <mica/cost.h>

#include <math.h>

#include "base/alloc.h"
#include "base/options.h"
#include "cost/rates.h"
#include "exec/lower.h"
#include "exec/program.h"
#include "graph/subgraph.h"
#include "op/work.h"

typedef struct estimate {
    mica_device *device;
    mc_rates rates;
    mc_rates cpu; /* of the fallback device, where that runs an op */
    bool known;   /* the rates that were needed are */
    mica_cost cost;
} estimate;

static mica_status add_graph(estimate *e, mica_scope *s, const mica_array *results, size_t n,
                             double *seconds);

/* ---- a step ---- */

/* Between two measured points, by the logarithm of x; the nearer one outside. */
static double between(double x, double x0, double y0, double x1, double y1) {
    if (x <= x0) return y0;
    if (x >= x1) return y1;
    double t = log(x / x0) / log(x1 / x0);
    return y0 * pow(y1 / y0, t);
}

static double memory_rate(const mc_rates *r, double bytes) {
    return between(bytes, 1 << 22, r->of[MC_RATE_MEMORY_SMALL], 1 << 28,
                   r->of[MC_RATE_MEMORY_LARGE]);
}

/* The three rates of products by the kind of weights. */
static mc_rate product_rates(const mc_node *node, const mc_layout *const *in) {
    if (node->op == MC_OP_QUANTIZED_MATMUL || node->op == MC_OP_GATHER_QMM)
        return MC_RATE_MATMUL_Q4_SMALL;
    return mica_dtype_bytes(in[1]->dtype) == 2 ? MC_RATE_MATMUL_BF16_SMALL
                                               : MC_RATE_MATMUL_F32_SMALL;
}

static double product_seconds(const mc_rates *r, const mc_node *node, const mc_layout *const *in,
                              const mc_work *work) {
    mc_rate small = product_rates(node, in);
    mc_rate matvec = small == MC_RATE_MATMUL_Q4_SMALL     ? MC_RATE_MATVEC_Q4
                     : small == MC_RATE_MATMUL_BF16_SMALL ? MC_RATE_MATVEC_BF16
                                                          : MC_RATE_MATVEC_F32;
    double rate = between(work->operations, 2.0 * 8 * 64 * 64, r->of[small], 2.0 * 256 * 768 * 3072,
                          r->of[small + 1]);
    return fmax(work->operations / rate, work->bytes / r->of[matvec]);
}

static double conv_seconds(const mc_rates *r, const mc_layout *const *in, const mc_work *work) {
    const mc_layout *w = in[1];
    if (w->shape[w->ndim - 1] == 1) return work->operations / r->of[MC_RATE_DEPTHWISE];
    double n = work->operations;
    return n / between(n, 2.3e8, r->of[MC_RATE_CONV_SMALL], 2.3e9, r->of[MC_RATE_CONV_LARGE]);
}

static double seconds_of(const mc_rates *r, const mc_node *node, const mc_layout *const *in,
                         const mc_work *work) {
    double bytes = work->bytes / memory_rate(r, work->bytes);
    switch (work->kind) {
    case MC_WORK_MATMUL:
        return product_seconds(r, node, in, work);
    case MC_WORK_CONV:
        return fmax(conv_seconds(r, in, work), bytes);
    case MC_WORK_ATTENTION:
        return fmax(work->operations / r->of[MC_RATE_ATTENTION], bytes);
    case MC_WORK_REDUCE:
        return work->bytes / r->of[MC_RATE_REDUCE];
    case MC_WORK_SCAN:
        return fmax(work->operations / r->of[MC_RATE_SCAN], bytes);
    case MC_WORK_FFT:
        return fmax(work->operations / r->of[MC_RATE_FFT], bytes);
    case MC_WORK_ELEMENTS:
        break;
    }
    /* what an op without a rule of its own does to an element, many take together */
    mc_rate rate = mc_op_get(node->op)->work ? MC_RATE_FUNCTION : MC_RATE_ELEMENT;
    return fmax(work->operations / r->of[rate], bytes);
}

/* ---- a graph as the device runs it ---- */

/* Whether a step goes by elements or rows, so that one that reads it can run together with it. */
static bool runs_along(const mc_node *node) {
    const mc_op_def *def = mc_op_get(node->op);
    return def->in_place > 0 && (!def->work || def->work == mc_work_function);
}

/* For each node how often it is read, results counted. */
static void count_reads(const mc_lowered *lowered, uint32_t *reads) {
    for (uint32_t i = 0; i < mc_scope_count(lowered->graph); i++) {
        const mc_node *node = mc_scope_node(lowered->graph, i);
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) reads[node->in[k]]++;
    }
    for (uint32_t i = 0; i < lowered->n_results; i++)
        reads[lowered->results[i]]++;
}

/* Leaves out what stays in the processor's cache, between a step and the only one that reads it.
 * Returns whether the step runs together with an earlier one. */
static bool join(const estimate *e, const mc_lowered *lowered, const uint32_t *reads, uint32_t i,
                 const mc_layout *const *in, mc_work *work) {
    const mc_node *node = mc_scope_node(lowered->graph, i);
    bool joined = false;
    if (!e->device->backend->joins_steps || !runs_along(node)) return false;
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] == MC_ABSENT || reads[node->in[k]] != 1) continue;
        if (!runs_along(mc_scope_node(lowered->graph, node->in[k]))) continue;
        work->bytes -= 2 * mc_work_bytes(in[k]); /* written there, read here */
        joined = true;
    }
    return joined;
}

static mica_status add_control(estimate *e, const mc_node *node, double *seconds);

static mica_status add_node(estimate *e, const mc_lowered *lowered, const uint32_t *reads,
                            uint32_t i, bool falls_back, double *seconds) {
    const mc_node *node = mc_scope_node(lowered->graph, i);
    const mc_op_def *def = mc_op_get(node->op);
    if (node->op == MC_OP_LEAF || node->op == MC_OP_PART || def->view || reads[i] == 0)
        return MICA_OK;
    if (mc_op_is_control(def)) return add_control(e, node, seconds);
    const mc_layout **in = mc_calloc(node->n_in + 1, sizeof(const mc_layout *));
    if (!in) return mc_fail_nomem("a cost");
    for (uint32_t k = 0; k < node->n_in; k++)
        if (node->in[k] != MC_ABSENT) in[k] = &mc_scope_node(lowered->graph, node->in[k])->layout;
    mc_work work = mc_work_of(node, in);
    const mc_rates *r = falls_back ? &e->cpu : &e->rates;
    double bytes = work.bytes;
    bool joined = !falls_back && join(e, lowered, reads, i, in, &work);
    e->cost.operations += work.operations;
    e->cost.bytes += work.bytes;
    e->cost.steps += !joined;
    e->cost.cpu_ops += falls_back;
    if (e->known) {
        /* bytes that were taken off belong to the step before, too */
        work.bytes = work.bytes > 0 ? work.bytes : 0;
        *seconds += seconds_of(r, node, in, &work) + (joined ? 0 : r->of[MC_RATE_DISPATCH]);
        if (falls_back && e->rates.of[MC_RATE_DOWNLOAD] > 0)
            *seconds += bytes / e->rates.of[MC_RATE_DOWNLOAD];
    }
    mc_free(in);
    return MICA_OK;
}

static mica_status add_lowered(estimate *e, const mc_lowered *lowered, const mc_buffer *fallback,
                               double *seconds) {
    uint32_t n = mc_scope_count(lowered->graph), next = 0;
    size_t n_fallback = MC_BUFFER_COUNT(fallback, uint32_t);
    uint32_t *reads = mc_calloc(n + 1, sizeof *reads);
    if (!reads) return mc_fail_nomem("a cost");
    mica_status status = MICA_OK;
    if (n_fallback > 0) {
        mica_device *cpu;
        status = mc_device_fallback(e->device, &cpu);
        e->known = status == MICA_OK && mc_rates_get(cpu, &e->cpu) && e->known;
    }
    count_reads(lowered, reads);
    for (uint32_t i = 0; i < n && status == MICA_OK; i++) {
        bool falls_back = next < n_fallback && MC_BUFFER_AT(fallback, uint32_t)[next] == i;
        next += falls_back;
        status = add_node(e, lowered, reads, i, falls_back, seconds);
    }
    mc_free(reads);
    return status;
}

static mica_status add_graph(estimate *e, mica_scope *s, const mica_array *results, size_t n,
                             double *seconds) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    mc_lowered *lowered = NULL;
    mc_buffer fallback = {0};
    mica_status status = mc_trace_make(&trace, &arena, s, results, n);
    trace.dense_results = true;
    if (status == MICA_OK) status = mc_lower_ops(e->device, &trace, &lowered, &fallback);
    if (status == MICA_OK) status = add_lowered(e, lowered, &fallback, seconds);
    mc_lowered_free(lowered);
    mc_buffer_deinit(&fallback);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    return status;
}

/* ---- control flow ---- */

static mica_status add_subgraph(estimate *e, mc_graph_ref ref, double *seconds) {
    const mc_subgraph *g = ref.graph;
    mica_array *results = mc_calloc(g->n_results + 1, sizeof *results);
    if (!results) return mc_fail_nomem("a cost");
    for (uint32_t i = 0; i < g->n_results; i++)
        results[i] = (mica_array){g->graph, g->results[i]};
    *seconds = 0;
    mica_status status = add_graph(e, g->graph, results, g->n_results, seconds);
    mc_free(results);
    if (e->known) *seconds += e->rates.of[MC_RATE_ROUNDTRIP];
    return status;
}

/* A graph that runs `rounds` times. */
static mica_status add_rounds(estimate *e, mc_graph_ref ref, double rounds, double *seconds) {
    mica_cost before = e->cost;
    double once;
    MC_TRY(add_subgraph(e, ref, &once));
    e->cost.operations = before.operations + rounds * (e->cost.operations - before.operations);
    e->cost.bytes = before.bytes + rounds * (e->cost.bytes - before.bytes);
    *seconds += rounds * once;
    return MICA_OK;
}

/* Both are estimated; the dearer one stays. */
static mica_status add_if(estimate *e, const mc_attr_if *a, double *seconds) {
    mica_cost before = e->cost, first;
    double t[2] = {0};
    MC_TRY(add_subgraph(e, a->then_graph, &t[0]));
    first = e->cost;
    e->cost = before;
    MC_TRY(add_subgraph(e, a->else_graph, &t[1]));
    bool dearer = e->known ? t[0] > t[1] : first.operations > e->cost.operations;
    if (dearer) e->cost = first;
    *seconds += dearer ? t[0] : t[1];
    return MICA_OK;
}

static mica_status add_control(estimate *e, const mc_node *node, double *seconds) {
    if (node->op == MC_OP_IF) return add_if(e, node->attr, seconds);
    if (node->op == MC_OP_SCAN) {
        const mc_attr_scan_over *a = node->attr;
        return add_rounds(e, a->body, (double)a->length, seconds);
    }
    const mc_attr_while *a = node->attr;
    double rounds = a->max_rounds > 0 ? (double)a->max_rounds : 1;
    e->cost.bounded = e->cost.bounded && a->max_rounds > 0;
    MC_TRY(add_rounds(e, a->cond, rounds, seconds));
    return add_rounds(e, a->body, rounds, seconds);
}

/* ---- of a program ---- */

mica_status mica_program_get_cost(const mica_program *program, mica_device *device,
                                  mica_cost *cost) {
    if (!program || !device || !cost) return mc_fail(MICA_EINVAL, "program_get_cost: NULL");
    if (program->n_symbols > 0)
        return mc_fail(MICA_EUNSUPPORTED,
                       "program_get_cost: symbol %s has no value (mica_program_bind)",
                       program->symbols[0].name);
    estimate e = {.device = device, .cost = {.bounded = true}};
    e.known = mc_rates_get(device, &e.rates);
    double seconds = 0;
    mica_status status =
        add_graph(&e, program->graph, program->results, program->n_results, &seconds);
    if (status != MICA_OK) return mc_fail_context(status, "program_get_cost");
    if (e.known) e.cost.seconds = seconds + e.rates.of[MC_RATE_ROUNDTRIP];
    MC_INFO_COPY(mica_cost, cpu_ops, cost, &e.cost);
    return MICA_OK;
}

mica_status mica_program_to_device(const mica_program *program, mica_device *device,
                                   mica_program **moved) {
    void *data;
    size_t bytes;
    if (!program || !device || !moved) return mc_fail(MICA_EINVAL, "program_to_device: NULL");
    *moved = NULL;
    MC_TRY(mica_program_encode(program, NULL, &data, &bytes));
    mica_status status = mica_program_decode(device, data, bytes, NULL, moved);
    mica_free(data);
    return status;
}
