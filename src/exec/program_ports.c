/* What programs tell: their parameters, results, memory and text. */
#include "base/options.h"
#include "device/device.h"
#include "exec/program.h"

size_t mica_program_param_count(const mica_program *program) {
    return program ? program->n_params : 0;
}

size_t mica_program_result_count(const mica_program *program) {
    return program ? program->n_results : 0;
}

/* open: what symbols leave open; NULL: nothing. */
static void fill_port(mica_port *port, const char *name, const mc_node *node,
                      const mica_port *open) {
    const mica_port found = {.name = name,
                             .dtype = node->layout.dtype,
                             .donate = node->movable,
                             .ndim = node->layout.ndim,
                             .shape = open ? open->shape : node->layout.shape,
                             .symbols = open ? open->symbols : NULL};
    MC_INFO_COPY(mica_port, symbols, port, &found);
}

mica_status mica_program_get_param(const mica_program *program, size_t i, mica_port *port) {
    if (!program || !port) return mc_fail(MICA_EINVAL, "program_get_param: NULL");
    if (i >= program->n_params)
        return mc_fail(MICA_EINVAL, "program_get_param: there is no parameter %zu of %zu", i,
                       program->n_params);
    fill_port(port, program->names[i], mc_scope_node(program->graph, (uint32_t)i),
              program->ports ? &program->ports[i] : NULL);
    return MICA_OK;
}

mica_status mica_program_get_result(const mica_program *program, size_t i, mica_port *port) {
    if (!program || !port) return mc_fail(MICA_EINVAL, "program_get_result: NULL");
    if (i >= program->n_results)
        return mc_fail(MICA_EINVAL, "program_get_result: there is no result %zu of %zu", i,
                       program->n_results);
    fill_port(port, program->result_names[i], mc_node_of(program->results[i]),
              program->ports ? &program->ports[program->n_params + i] : NULL);
    return MICA_OK;
}

/* The elements that the leaves of the compiled graph have, by whether they are parameters. */
static void add_leaves(const mica_program *p, mica_program_memory *memory) {
    for (uint32_t i = 0; i < p->n_leaves; i++) {
        const mc_node *leaf = mc_scope_node(p->graph, p->leaves[i]);
        uint64_t bytes = mc_is_scalar(leaf) ? 0 : (uint64_t)mc_layout_bytes(&leaf->layout);
        *(leaf->param ? &memory->argument_bytes : &memory->constant_bytes) += bytes;
    }
}

mica_status mica_program_get_memory(const mica_program *program, mica_program_memory *memory) {
    if (!program || !memory) return mc_fail(MICA_EINVAL, "program_get_memory: NULL");
    if (program->n_symbols > 0)
        return mc_fail(MICA_EUNSUPPORTED,
                       "program_get_memory: symbol %s has no value (mica_program_bind)",
                       program->symbols[0].name);
    const mc_compiled *c = program->cached->compiled;
    mc_launch_memory launch = {0};
    mica_status status = mc_compiled_measure(c, &launch);
    if (status != MICA_OK) return mc_fail_context(status, "program_get_memory");
    mica_program_memory found = {.peak_bytes = launch.results + launch.others,
                                 .result_bytes = launch.results,
                                 .prepared_bytes = launch.prepared};
    add_leaves(program, &found);
    MC_INFO_COPY(mica_program_memory, prepared_bytes, memory, &found);
    return MICA_OK;
}

void mc_program_mark_needed(const mica_program *p, bool *needed) {
    for (size_t i = 0; i < p->n_results; i++)
        needed[p->results[i].node] = true;
    for (uint32_t i = mc_scope_count(p->graph); i-- > 0;) {
        const mc_node *node = mc_scope_node(p->graph, i);
        for (uint32_t k = 0; needed[i] && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) needed[node->in[k]] = true;
    }
}

mica_status mc_program_ports(const mica_program *p, mc_arena *arena, mc_graph_ports *ports) {
    mc_graph_port *params = mc_arena_alloc(arena, p->n_params * sizeof *params);
    uint32_t *results = mc_arena_alloc(arena, p->n_results * sizeof *results);
    if (!params || !results) return mc_fail_nomem("a program");
    for (uint32_t i = 0; i < p->n_params; i++)
        params[i] = (mc_graph_port){p->names[i], i, mc_scope_node(p->graph, i)->movable};
    for (size_t i = 0; i < p->n_results; i++)
        results[i] = p->results[i].node;
    *ports = (mc_graph_ports){.params = params,
                              .n_params = p->n_params,
                              .results = results,
                              .result_names = p->result_names,
                              .n_results = p->n_results,
                              .symbols = p->symbols,
                              .n_symbols = p->n_symbols};
    return MICA_OK;
}

mica_status mica_program_verify(const mica_program *program) {
    if (!program) return mc_fail(MICA_EINVAL, "program_verify: NULL");
    return mc_graph_verify(program->graph);
}

mica_status mica_program_print(const mica_program *program, char **text) {
    mc_buffer buffer = {0};
    mc_arena arena = {0};
    mc_graph_ports ports;
    if (!program || !text) return mc_fail(MICA_EINVAL, "program_print: NULL");
    *text = NULL;
    mica_status status = mc_program_ports(program, &arena, &ports);
    if (status == MICA_OK) status = mc_graph_print(program->graph, &ports, &buffer);
    if (status == MICA_OK && !mc_buffer_cstr(&buffer)) status = mc_fail_nomem("printing a program");
    if (status == MICA_OK)
        *text = buffer.data; /* the caller's */
    else
        mc_buffer_deinit(&buffer);
    mc_arena_deinit(&arena);
    return status;
}
