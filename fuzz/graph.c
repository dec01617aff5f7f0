/* Input: a graph file. If the input's length is even, its magic, version, size and hash are
 * corrected here, so that the code behind these checks is reached. A graph that loads is verified,
 * printed, saved and loaded again. If its arrays are small, it is then evaluated with zeros as
 * arguments, and so is the decomposition of each op. */
#include "graph/file.h"

#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "custom_op.h"
#include "graph_file.h"
#include "small.h"

enum { MAX_RESULTS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth) abort();
}

/* ---- leaves ---- */

static mica_array zeros(mica_scope *s, const mc_layout *l) {
    static const char bytes[8 * MAX_ELEMENTS];
    if (mc_layout_size(l) > MAX_ELEMENTS)
        return mc_scope_fail(s, MICA_ENOMEM, "an argument is too large here");
    return mica_from_data(s, bytes, l->dtype, l->shape, l->ndim);
}

static mica_array param(void *context, mica_scope *into, const mc_graph_port *port,
                        const mc_layout *l) {
    (void)context;
    must(port->name != NULL);
    return zeros(into, l);
}

static mica_array named(void *context, mica_scope *into, const char *name, const mc_layout *l) {
    (void)context;
    must(strlen(name) <= MC_GRAPH_MAX_NAME);
    return zeros(into, l);
}

static mica_array inside(void *context, mica_scope *into, const mc_layout *l, const void *data) {
    (void)context;
    return mica_from_data(into, data, l->dtype, l->shape, l->ndim);
}

static mica_status read_constant(void *context, mica_array constant, void *data, size_t bytes) {
    (void)context;
    return mica_read(constant, data, bytes);
}

/* ---- files ---- */

typedef struct graph {
    mica_scope *s;
    mc_arena arena;
    mc_graph_ports ports;
} graph;

static mica_status read_file(mica_device *device, const void *file, size_t size, graph *g) {
    const mc_graph_loader loader = {.param = param, .named = named, .inside = inside};
    *g = (graph){0};
    must(mica_scope_open(device, &g->s) == MICA_OK);
    return mc_graph_read(file, size, "input", g->s, &loader, &g->arena, &g->ports);
}

static void forget(graph *g) {
    mica_scope_close(&g->s);
    mc_arena_deinit(&g->arena);
}

static mc_buffer save(const graph *g) {
    const mc_graph_saver saver = {.read = read_constant};
    mc_buffer file = {0};
    must(mc_graph_write(g->s, &g->ports, &saver, &file) == MICA_OK);
    return file;
}

/* A saved graph loads, and is saved as the same bytes. */
static void save_twice(mica_device *device, const graph *g) {
    graph again;
    mc_buffer first = save(g);
    must(read_file(device, first.data, first.len, &again) == MICA_OK);
    mc_buffer second = save(&again);
    must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    mc_buffer_deinit(&first);
    mc_buffer_deinit(&second);
    forget(&again);
}

/* ---- values ---- */

/* Lists the results of node i; returns how many there are, or 0 if there are too many. */
static int list_results(mica_scope *s, uint32_t i, mica_array out[MAX_RESULTS]) {
    const mc_node *node = mc_scope_node(s, i);
    int n = mc_node_n_out(node);
    mica_array x = {s, i};
    if (n > MAX_RESULTS) return 0;
    for (int k = 0; k < n; k++)
        out[k] = node->results ? mc_record_part(s, x, k) : x;
    return n;
}

/* Records the decomposition of node i; returns the number of results, 0 if there is none. */
static int decompose(mica_scope *s, uint32_t i, mica_array out[MAX_RESULTS]) {
    const mc_node *node = mc_scope_node(s, i);
    const mc_op_def *def = mc_op_get(node->op);
    mica_array in[8];
    if (!def->decompose) return 0;
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : (mica_array){s, node->in[k]};
    def->decompose(s, node->attr, in, (int)node->n_in, out);
    for (int k = 0; k < mc_op_n_out(def); k++) {
        const mc_layout *l = mc_layout_of(out[k]), *want = &mc_node_results(node)[k];
        must(l != NULL && l->dtype == want->dtype && mc_layout_same_shape(l, want));
    }
    return mc_op_n_out(def);
}

/* Evaluation may be refused: an index may be outside its axis. */
static void evaluate(mica_scope *s) {
    uint32_t count = mc_scope_count(s);
    size_t n = 0;
    mica_array all[2 * MAX_RESULTS * MAX_NODES];
    for (uint32_t i = 0; i < count; i++) {
        n += (size_t)decompose(s, i, &all[n]);
        n += (size_t)list_results(s, i, &all[n]);
    }
    must(mica_eval_n(s, all, n) == MICA_OK || *mica_last_error() != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static mica_device *device;
    if (!device) {
        must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device) == MICA_OK);
        must(fuzz_register_op() == MICA_OK);
    }
    char *file = fuzz_graph_file(data, &size);
    must(file != NULL);
    graph g;
    if (read_file(device, file, size, &g) == MICA_OK) {
        mc_buffer text = {0};
        must(mc_graph_verify(g.s) == MICA_OK);
        must(mc_graph_print(g.s, &g.ports, &text) == MICA_OK);
        mc_buffer_deinit(&text);
        save_twice(device, &g);
        if (fuzz_is_small(g.s, 1)) evaluate(g.s);
    } else {
        must(*mica_last_error() != '\0' && g.ports.n_results == 0);
    }
    forget(&g);
    free(file);
    return 0;
}
