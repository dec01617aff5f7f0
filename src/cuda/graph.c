#include "cuda/graph.h"

#include <string.h>

#include "base/alloc.h"

enum {
    PLAIN_LAUNCHES = 2, /* of a run, before it is worth a graph */
    MIN_STEPS = 8,
    MAX_MADE = 16 /* a run whose kernels change so often is launched without one */
};

static void free_made(struct mc_cuda_graph *g) {
    if (g->exec) (void)mc_cuda.graph_exec_free(g->exec);
    if (g->graph) (void)mc_cuda.graph_free(g->graph);
    g->exec = g->graph = NULL;
}

void mc_cuda_graph_free(struct mc_cuda_graph *g) {
    if (!g) return;
    free_made(g);
    if (g->numbers) (void)mc_cuda.free(g->numbers);
    mc_buffer_deinit(&g->nodes);
    mc_buffer_deinit(&g->args);
    mc_free(g);
}

/* Notes the kernels that bring the launch's numbers. */
static mica_status add_numbers(const mc_cuda_state *state, struct mc_cuda_graph *g,
                               const mc_cuda_launch *l, const uint64_t *numbers, uint32_t n) {
    uint64_t *to = (uint64_t *)(uintptr_t)g->numbers;
    mc_cuda_grid grid = {.x = 1, .y = 1, .z = 1, .threads = MC_CUDA_NUMBERS};
    mc_cuda_numbers a = {.to = to, .n = 1, .numbers = {(uintptr_t)&l->on_device->fault}};
    for (uint32_t i = 0; i < n; i++) {
        if (a.n == MC_CUDA_NUMBERS) {
            MC_TRY(mc_cuda_graph_add(state, g, MC_CUDA_NUMBERS_KERNEL, grid, &a, sizeof a));
            a = (mc_cuda_numbers){.to = to + 1 + i};
        }
        a.numbers[a.n++] = numbers[i];
    }
    return mc_cuda_graph_add(state, g, MC_CUDA_NUMBERS_KERNEL, grid, &a, sizeof a);
}

static mica_status new_graph(uint32_t n_numbers, struct mc_cuda_graph **graph) {
    struct mc_cuda_graph *g = mc_calloc(1, sizeof *g);
    if (!g) return mc_fail_nomem("a launch");
    int error = mc_cuda.alloc(&g->numbers, (1 + n_numbers) * sizeof(uint64_t));
    if (error) {
        mc_free(g);
        return mc_cuda_check(error, "a launch");
    }
    *graph = g;
    return MICA_OK;
}

mica_status mc_cuda_graph_begin(const mc_cuda_state *state, mc_run *run, mc_cuda_launch *launch,
                                struct mc_cuda_graph **graph) {
    uint32_t n;
    const uint64_t *numbers = mc_run_numbers(run, &n);
    launch->graph = NULL;
    if (!state->keeps_graphs || mc_run_steps(run) < MIN_STEPS) return MICA_OK;
    if (!*graph) MC_TRY(new_graph(n, graph));
    struct mc_cuda_graph *g = *graph;
    if (g->launches < PLAIN_LAUNCHES)
        g->launches++;
    else if (g->made < MAX_MADE)
        launch->graph = g;
    if (!launch->graph) return MICA_OK;
    g->at = 0;
    g->differs = !g->exec;
    return add_numbers(state, g, launch, numbers, n);
}

/* ---- noting ---- */

mc_cuda_kernel_params mc_cuda_kernel_of(const mc_cuda_state *state, mc_cuda_kernel kernel,
                                        mc_cuda_grid grid, void **params) {
    return (mc_cuda_kernel_params){
        .kernel = state->kernels[kernel],
        .grid = {(unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z},
        .block = {grid.threads ? (unsigned)grid.threads : 256u,
                  grid.threads_y ? (unsigned)grid.threads_y : 1u, 1},
        .shared_bytes = (unsigned)grid.shared_bytes,
        .params = params,
    };
}

/* Cuts off what the last launch had from here on. */
static void cut(struct mc_cuda_graph *g) {
    if (g->at == MC_BUFFER_COUNT(&g->nodes, mc_cuda_node)) return;
    g->args.len = MC_BUFFER_AT(&g->nodes, mc_cuda_node)[g->at].at;
    g->nodes.len = g->at * sizeof(mc_cuda_node);
    g->differs = true;
}

static mica_status append(struct mc_cuda_graph *g, mc_cuda_kernel kernel, mc_cuda_grid grid,
                          const void *args, size_t bytes) {
    static const char zero[16] = {0};
    mc_cuda_node node = {
        .kernel = kernel, .grid = grid, .bytes = (uint32_t)bytes, .at = g->args.len};
    cut(g);
    node.at = g->args.len;
    g->differs = true;
    g->at++;
    if (!mc_buffer_add(&g->args, args, bytes) ||
        !mc_buffer_add(&g->args, zero, (16 - bytes % 16) % 16) ||
        !mc_buffer_add(&g->nodes, &node, sizeof node))
        return mc_fail_nomem("a launch");
    return MICA_OK;
}

static bool is_same_grid(const mc_cuda_grid *a, const mc_cuda_grid *b) {
    return a->x == b->x && a->y == b->y && a->z == b->z && a->threads == b->threads &&
           a->threads_y == b->threads_y && a->shared_bytes == b->shared_bytes;
}

static mica_status set(const mc_cuda_state *state, const struct mc_cuda_graph *g,
                       const mc_cuda_node *node) {
    void *params[] = {g->args.data + node->at};
    mc_cuda_kernel_params p = mc_cuda_kernel_of(state, node->kernel, node->grid, params);
    return mc_cuda_check(mc_cuda.graph_set(g->exec, node->node, &p), "a launch");
}

mica_status mc_cuda_graph_add(const mc_cuda_state *state, struct mc_cuda_graph *g,
                              mc_cuda_kernel kernel, mc_cuda_grid grid, const void *args,
                              size_t bytes) {
    mc_cuda_node *node = MC_BUFFER_AT(&g->nodes, mc_cuda_node) + g->at;
    if (g->at == MC_BUFFER_COUNT(&g->nodes, mc_cuda_node) || node->kernel != kernel ||
        node->bytes != bytes)
        return append(g, kernel, grid, args, bytes);
    g->at++;
    char *noted = g->args.data + node->at;
    if (is_same_grid(&node->grid, &grid) && memcmp(noted, args, bytes) == 0) return MICA_OK;
    memcpy(noted, args, bytes);
    node->grid = grid;
    return g->differs ? MICA_OK : set(state, g, node);
}

/* ---- launching ---- */

/* A node of the driver's graph, behind the last one. */
static int add_node(const mc_cuda_state *state, struct mc_cuda_graph *g, mc_cuda_node *node,
                    void **last) {
    void *params[] = {g->args.data + node->at};
    mc_cuda_node_params p = {.as.kernel =
                                 mc_cuda_kernel_of(state, node->kernel, node->grid, params)};
    int error =
        mc_cuda.graph_add(&node->node, g->graph, *last ? last : NULL, NULL, *last ? 1 : 0, &p);
    *last = node->node;
    return error;
}

/* Makes the driver's graph of what was noted. */
static mica_status make(const mc_cuda_state *state, struct mc_cuda_graph *g) {
    mc_cuda_node *nodes = MC_BUFFER_AT(&g->nodes, mc_cuda_node);
    size_t n = MC_BUFFER_COUNT(&g->nodes, mc_cuda_node);
    void *last = NULL;
    free_made(g);
    g->made++;
    int error = mc_cuda.graph_new(&g->graph, 0);
    for (size_t i = 0; i < n && !error; i++)
        error = add_node(state, g, &nodes[i], &last);
    if (!error) error = mc_cuda.graph_make(&g->exec, g->graph, 0);
    if (error) free_made(g);
    return mc_cuda_check(error, "a graph of kernels");
}

mica_status mc_cuda_graph_launch(const mc_cuda_state *state, struct mc_cuda_graph *g) {
    cut(g);
    if (g->differs) MC_TRY(make(state, g));
    return mc_cuda_check(mc_cuda.graph_launch(g->exec, state->stream), "a launch");
}
