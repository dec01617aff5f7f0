/* The symbols of a program. */
#include <string.h>

#include "exec/again.h"
#include "exec/program.h"

size_t mica_program_symbol_count(const mica_program *program) {
    return program ? program->n_symbols : 0;
}

const char *mica_program_symbol(const mica_program *program, size_t i) {
    return program && i < program->n_symbols ? program->symbols[i].name : NULL;
}

size_t mc_program_symbol_of(const mica_program *p, int64_t dim) {
    size_t i = 0;
    while (i < p->n_symbols && p->symbols[i].dim != dim)
        i++;
    return i;
}

size_t mc_program_find_symbol(const mica_program *p, const char *name) {
    size_t i = 0;
    while (i < p->n_symbols && (!name || strcmp(p->symbols[i].name, name) != 0))
        i++;
    return i;
}

static bool depends(const mc_node *node, int64_t symbol) {
    for (int i = 0; i < mc_node_n_out(node); i++)
        for (int k = 0; k < mc_node_results(node)[i].ndim; k++)
            if (mc_dim_depends(mc_node_results(node)[i].shape[k], symbol)) return true;
    return mc_node_depends(node, symbol, -1);
}

/* Whether a parameter has the symbol, where something needs it. */
static mica_status find_symbol(const mica_program *p, const mc_symbol *symbol, bool *found) {
    *found = false;
    for (uint32_t i = 0; i < mc_scope_count(p->graph); i++) {
        const mc_node *node = mc_scope_node(p->graph, i);
        for (int k = 0; i < p->n_params && k < node->layout.ndim; k++)
            *found = *found || node->layout.shape[k] == symbol->dim;
        if (i >= p->n_params && !*found && depends(node, symbol->dim))
            return mc_fail(MICA_EINVAL, "program_build: no parameter has symbol %s, which %s needs",
                           symbol->name, mc_op_get(node->op)->name);
    }
    return MICA_OK;
}

/* What a run is given tells symbols, not what is made of them. */
static mica_status check_params(const mica_program *p) {
    char text[MC_DIM_TEXT];
    for (uint32_t i = 0; i < p->n_params; i++) {
        const mc_layout *l = &mc_scope_node(p->graph, i)->layout;
        for (int k = 0; k < l->ndim; k++)
            if (mc_dim_has_symbols(l->shape[k]) && !mc_dim_is_symbol(l->shape[k]))
                return mc_fail(MICA_EINVAL,
                               "program_build: axis %d of parameter %.60s is %s, and no symbol "
                               "(mica_program_dim makes it one)",
                               k, p->names[i], mc_dim_text(l->shape[k], text));
    }
    return MICA_OK;
}

static mica_status fill_port(mica_program *p, size_t i, const mc_layout *l) {
    size_t n = (size_t)l->ndim;
    int64_t *shape = mc_arena_calloc(&p->arena, n * sizeof *shape + 1);
    const char **names = mc_arena_calloc(&p->arena, n * sizeof *names + 1);
    if (!shape || !names) return mc_fail_nomem("a program");
    for (size_t k = 0; k < n; k++) {
        size_t symbol = mc_program_symbol_of(p, l->shape[k]);
        shape[k] = mc_dim_has_symbols(l->shape[k]) ? -1 : l->shape[k];
        if (symbol < p->n_symbols) names[k] = p->symbols[symbol].name;
    }
    p->ports[i] = (mica_port){.shape = shape, .symbols = names};
    return MICA_OK;
}

static mica_status fill_ports(mica_program *p) {
    p->ports = mc_arena_calloc(&p->arena, (p->n_params + p->n_results) * sizeof *p->ports + 1);
    if (!p->ports) return mc_fail_nomem("a program");
    for (uint32_t i = 0; i < p->n_params; i++)
        MC_TRY(fill_port(p, i, &mc_scope_node(p->graph, i)->layout));
    for (size_t i = 0; i < p->n_results; i++)
        MC_TRY(fill_port(p, p->n_params + i, mc_layout_of(p->results[i])));
    return MICA_OK;
}

mica_status mc_program_find_symbols(mica_program *p) {
    const mc_symbol *symbols;
    size_t n = mc_scope_symbols(p->graph, &symbols);
    mc_symbol *own = mc_arena_alloc(&p->arena, n * sizeof *own + 1);
    if (!own) return mc_fail_nomem("a program");
    MC_TRY(check_params(p));
    for (size_t i = 0; i < n; i++) {
        bool found;
        MC_TRY(find_symbol(p, &symbols[i], &found));
        if (found) own[p->n_symbols++] = symbols[i];
    }
    p->symbols = own;
    return p->n_symbols > 0 ? fill_ports(p) : MICA_OK;
}
