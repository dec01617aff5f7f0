#include "cuda/graph.h"

#include <string.h>

#include "base/alloc.h"
#include "cuda/fuse.h"

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
    if (g->spare) (void)mc_cuda.free(g->spare);
    mc_cuda_nodes_free(&g->noted);
    mc_cuda_nodes_free(&g->own);
    mc_free(g);
}

size_t mc_cuda_graph_bytes(const struct mc_cuda_graph *g) {
    size_t own = g->own.args.len + g->own.nodes.len;
    return sizeof *g + g->noted.args.cap + g->noted.nodes.cap + g->own.args.cap + g->own.nodes.cap +
           (g->exec ? 2 * own : 0);
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

static mc_cuda_node *nodes_of(const mc_cuda_nodes *list, size_t *n) {
    *n = MC_BUFFER_COUNT(&list->nodes, mc_cuda_node);
    return MC_BUFFER_AT(&list->nodes, mc_cuda_node);
}

/* Cuts off what the last launch had from here on. */
static void cut(struct mc_cuda_graph *g) {
    size_t n;
    const mc_cuda_node *nodes = nodes_of(&g->noted, &n);
    if (g->at == n) return;
    g->noted.args.len = nodes[g->at].at;
    g->noted.nodes.len = g->at * sizeof(mc_cuda_node);
    g->differs = true;
}

static bool is_same_grid(const mc_cuda_grid *a, const mc_cuda_grid *b) {
    return a->x == b->x && a->y == b->y && a->z == b->z && a->threads == b->threads &&
           a->threads_y == b->threads_y && a->shared_bytes == b->shared_bytes;
}

mica_status mc_cuda_graph_add(struct mc_cuda_graph *g, mc_cuda_kernel kernel, mc_cuda_grid grid,
                              const void *args, size_t bytes) {
    size_t n;
    mc_cuda_node *node = nodes_of(&g->noted, &n) + g->at;
    if (g->at == n || node->kernel != kernel || node->bytes != bytes ||
        node->grid.early != grid.early) {
        cut(g);
        g->differs = true;
        MC_TRY(mc_cuda_nodes_add(&g->noted, kernel, grid, args, bytes));
        g->at++;
        return MICA_OK;
    }
    g->at++;
    char *noted = g->noted.args.data + node->at;
    if (is_same_grid(&node->grid, &grid) && memcmp(noted, args, bytes) == 0) return MICA_OK;
    memcpy(noted, args, bytes);
    node->grid = grid;
    g->differs = true;
    return MICA_OK;
}

/* ---- beginning ---- */

/* Sets what a node takes in the driver's graph. */
static mica_status set_node(const mc_cuda_state *state, const struct mc_cuda_graph *g,
                            const mc_cuda_node *node, const void *args) {
    void *params[] = {(void *)(uintptr_t)args};
    mc_cuda_kernel_params p = mc_cuda_kernel_of(state, node->kernel, node->grid, params);
    return mc_cuda_check(mc_cuda.graph_set(g->exec, node->node, &p), "a launch");
}

/* Notes a kernel that brings numbers. They come first, and become one with no other kernel: where
 * nothing else differs, they are set at once. */
static mica_status add_numbers(const mc_cuda_state *state, struct mc_cuda_graph *g,
                               const mc_cuda_numbers *a) {
    static const mc_cuda_grid grid = {.x = 1, .y = 1, .z = 1, .threads = MC_CUDA_NUMBERS};
    bool differed = g->differs;
    size_t i = g->at;
    MC_TRY(mc_cuda_graph_add(g, MC_CUDA_NUMBERS_KERNEL, grid, a, sizeof *a));
    if (differed || !g->differs) return MICA_OK;
    const mc_cuda_node *node = MC_BUFFER_AT(&g->own.nodes, mc_cuda_node) + i;
    memcpy(g->own.args.data + node->at, a, sizeof *a);
    mica_status status = set_node(state, g, node, a);
    if (status == MICA_OK)
        g->differs = false;
    else
        free_made(g);
    return status;
}

/* Notes the kernels that bring the launch's numbers. */
static mica_status bring_numbers(const mc_cuda_state *state, struct mc_cuda_graph *g,
                                 const mc_cuda_launch *l, const uint64_t *numbers, uint32_t n) {
    uint64_t *to = (uint64_t *)(uintptr_t)g->numbers;
    mc_cuda_numbers a = {.to = to, .n = 1, .numbers = {(uintptr_t)&l->on_device->fault}};
    for (uint32_t i = 0; i < n; i++) {
        if (a.n == MC_CUDA_NUMBERS) {
            MC_TRY(add_numbers(state, g, &a));
            a = (mc_cuda_numbers){.to = to + 1 + i};
        }
        a.numbers[a.n++] = numbers[i];
    }
    return add_numbers(state, g, &a);
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
    g->was_whole = g->whole;
    g->differs = !g->exec || !g->was_whole; /* else what was noted was not launched */
    g->whole = false;
    return bring_numbers(state, g, launch, numbers, n);
}

bool mc_cuda_graph_repeat(struct mc_cuda_graph *g) {
    if (!g->was_whole || g->differs) return false;
    g->at = MC_BUFFER_COUNT(&g->noted.nodes, mc_cuda_node);
    return true;
}

/* ---- launching ---- */

/* A node of the driver's graph, behind the last one; one that begins early needs only that to have
 * begun, but the first behind those of numbers and turns, which are there for all others. */
static int add_node(const mc_cuda_state *state, struct mc_cuda_graph *g, mc_cuda_node *node,
                    bool early_now, void **last) {
    static const mc_cuda_edge early = {.from_port = MC_CUDA_PROGRAMMATIC,
                                       .type = MC_CUDA_PROGRAMMATIC};
    void *params[] = {g->own.args.data + node->at};
    mc_cuda_node_params p = {.as.kernel =
                                 mc_cuda_kernel_of(state, node->kernel, node->grid, params)};
    int error = mc_cuda.graph_add(&node->node, g->graph, *last ? last : NULL,
                                  *last && early_now ? &early : NULL, *last ? 1 : 0, &p);
    *last = node->node;
    return error;
}

/* Makes the driver's graph of its nodes. */
static mica_status make(const mc_cuda_state *state, struct mc_cuda_graph *g) {
    size_t n;
    mc_cuda_node *nodes = nodes_of(&g->own, &n);
    void *last = NULL;
    free_made(g);
    g->made++;
    int error = mc_cuda.graph_new(&g->graph, 0);
    for (size_t i = 0; i < n && !error; i++)
        error = add_node(state, g, &nodes[i],
                         nodes[i].grid.early && i > 0 &&
                             nodes[i - 1].kernel != MC_CUDA_NUMBERS_KERNEL &&
                             nodes[i - 1].kernel != MC_CUDA_TURNS_KERNEL,
                         &last);
    if (!error) error = mc_cuda.graph_make(&g->exec, g->graph, 0);
    if (error) free_made(g);
    return mc_cuda_check(error, "a graph of kernels");
}

/* Whether lists have the same kernels, which take something else, or nothing. */
static bool is_same_list(const mc_cuda_nodes *a, const mc_cuda_nodes *b) {
    size_t n, n_b;
    const mc_cuda_node *x = nodes_of(a, &n), *y = nodes_of(b, &n_b);
    if (n != n_b) return false;
    for (size_t i = 0; i < n; i++)
        if (x[i].kernel != y[i].kernel || x[i].bytes != y[i].bytes ||
            x[i].grid.early != y[i].grid.early)
            return false;
    return true;
}

/* Sets what differs in `next` from the graph's own nodes, whose kernels are the same. */
static mica_status set_nodes(const mc_cuda_state *state, struct mc_cuda_graph *g,
                             const mc_cuda_nodes *next) {
    size_t n;
    mc_cuda_node *to = nodes_of(next, &n);
    const mc_cuda_node *from = nodes_of(&g->own, &n);
    for (size_t i = 0; i < n; i++) {
        const void *args = next->args.data + to[i].at;
        to[i].node = from[i].node;
        if (!is_same_grid(&from[i].grid, &to[i].grid) ||
            memcmp(g->own.args.data + from[i].at, args, to[i].bytes) != 0)
            MC_TRY(set_node(state, g, &to[i], args));
    }
    return MICA_OK;
}

/* Spare memory for what was noted; no error where there is none. */
static void find_spare(const mc_cuda_state *state, struct mc_cuda_graph *g) {
    size_t bytes = mc_cuda_spare_bytes(&g->noted);
    if (bytes <= g->spare_bytes) return;
    (void)mc_cuda.stream_wait(state->stream); /* launches may still use the old one */
    if (g->spare) (void)mc_cuda.free(g->spare);
    g->spare_bytes = 0;
    if (mc_cuda.alloc(&g->spare, bytes) == 0)
        g->spare_bytes = bytes;
    else
        g->spare = 0;
}

/* The driver's graph is that of what was noted. */
static mica_status update(const mc_cuda_state *state, struct mc_cuda_graph *g) {
    mc_cuda_nodes next = {0}, last = g->own;
    find_spare(state, g);
    mica_status status = mc_cuda_fuse(&g->noted, g->spare, &next);
    bool same = status == MICA_OK && g->exec && is_same_list(&last, &next);
    if (same) status = set_nodes(state, g, &next);
    g->own = next;
    mc_cuda_nodes_free(&last);
    if (status == MICA_OK && !same) status = make(state, g);
    if (status != MICA_OK) free_made(g); /* it may have been set in part */
    return status;
}

mica_status mc_cuda_graph_launch(const mc_cuda_state *state, struct mc_cuda_graph *g) {
    cut(g);
    if (g->differs) MC_TRY(update(state, g));
    MC_TRY(mc_cuda_check(mc_cuda.graph_launch(g->exec, state->stream), "a launch"));
    g->whole = true;
    return MICA_OK;
}
