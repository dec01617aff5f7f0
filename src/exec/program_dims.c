/* Programs with symbols: lengths that are known when they run. */
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "exec/again.h"
#include "exec/program.h"

int64_t mica_program_dim(mica_scope *s, const char *name) {
    mc_symbol symbol;
    if (!s || mica_scope_status(s) != MICA_OK) return 0;
    if (!name) {
        (void)mc_scope_fail(s, MICA_EINVAL, "program_dim: the name is NULL");
        return 0;
    }
    return mc_scope_set_status(s, mc_scope_symbol(s, name, &symbol)) == MICA_OK ? symbol.dim : 0;
}

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

/* ---- recording for values ---- */

mica_status mc_program_record(const mica_program *p, const int64_t *lengths,
                              const mc_precision *precision, mica_scope **scope,
                              mica_array *results) {
    const mc_dim_values values = {p->symbols, lengths, p->n_symbols};
    mica_array *params = mc_array_alloc(2 * p->n_params, sizeof *params);
    *scope = NULL;
    if (!params) return mc_fail_nomem("a program of other lengths");
    mc_recorded from = {p->graph, params, p->n_params, p->results, p->n_results};
    mc_recorded into = {NULL, params + p->n_params, p->n_params, results, p->n_results};
    mica_status status = mica_scope_open(p->device, scope);
    into.s = *scope;
    for (uint32_t i = 0; status == MICA_OK && i < p->n_params; i++) {
        const mc_node *node = mc_scope_node(p->graph, i);
        mc_layout layout = node->layout;
        from.params[i] = (mica_array){p->graph, i};
        for (int k = 0; k < layout.ndim && status == MICA_OK; k++)
            status = mc_dim_value(layout.shape[k], &values, &layout.shape[k]);
        if (status == MICA_OK) status = mc_layout_finish(&layout);
        if (status != MICA_OK) break;
        into.params[i] = mc_leaf_param(*scope, &layout, node->movable);
        status = mica_scope_status(*scope);
    }
    if (status == MICA_OK) status = mc_record_again(&from, &into, &values, precision);
    mc_free(params);
    if (status == MICA_OK) return MICA_OK;
    mica_scope_close(scope);
    return status;
}

/* ---- building ---- */

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

/* ---- values of symbols ---- */

mica_status mc_program_match(const mica_program *p, size_t i, const mc_layout *given,
                             int64_t *lengths) {
    const mc_layout *want = &mc_scope_node(p->graph, (uint32_t)i)->layout;
    char text[MC_LAYOUT_TEXT];
    bool fits = given->ndim == want->ndim;
    for (int k = 0; fits && k < want->ndim; k++) {
        size_t symbol = mc_program_symbol_of(p, want->shape[k]);
        if (symbol == p->n_symbols) {
            fits = given->shape[k] == want->shape[k];
            continue;
        }
        if (lengths[symbol] < 0) lengths[symbol] = given->shape[k];
        if (lengths[symbol] != given->shape[k])
            return mc_fail(MICA_ESHAPE, "%s is %lld, and axis %d of %.60s, %s, has %lld",
                           p->symbols[symbol].name, (long long)lengths[symbol], k, p->names[i],
                           mc_layout_text(given, text), (long long)given->shape[k]);
    }
    if (fits) return MICA_OK;
    return mc_fail(MICA_ESHAPE,
                   "parameter %.60s has %d axes, those that are no symbols of fixed "
                   "lengths; %s does not fit",
                   p->names[i], want->ndim, mc_layout_text(given, text));
}

size_t mc_program_find_symbol(const mica_program *p, const char *name) {
    size_t i = 0;
    while (i < p->n_symbols && (!name || strcmp(p->symbols[i].name, name) != 0))
        i++;
    return i;
}

mica_status mc_program_lengths(const mica_program *p, const mica_length *given, size_t n,
                               int64_t *lengths) {
    mc_names missing = {0};
    if (!given && n > 0) return mc_fail(MICA_EINVAL, "lengths are NULL");
    for (size_t i = 0; i < p->n_symbols; i++)
        lengths[i] = -1;
    for (size_t k = 0; k < n; k++) {
        size_t i = mc_program_find_symbol(p, given[k].name);
        if (i == p->n_symbols)
            return mc_fail(MICA_ENOENT, "there is no symbol \"%.63s\"",
                           given[k].name ? given[k].name : "");
        if (lengths[i] >= 0 || given[k].length < 0)
            return mc_fail(MICA_EINVAL, "symbol %s is there twice, or negative", given[k].name);
        lengths[i] = given[k].length;
    }
    mica_status status = MICA_OK;
    for (size_t i = 0; i < p->n_symbols && status == MICA_OK; i++)
        if (lengths[i] < 0) status = mc_names_add(&missing, p->symbols[i].name);
    const char *text = mc_names_text(&missing);
    if (status == MICA_OK && missing.count > 0)
        status = mc_fail(MICA_EINVAL, "no length for %s", text ? text : "symbols");
    mc_names_deinit(&missing);
    return status;
}

static mica_status build(const mica_program *p, mica_scope *s, const mica_array *results,
                         mica_program **bound) {
    const mica_program_options o = {.result_names = p->result_names};
    mica_param *params = mc_array_alloc(p->n_params, sizeof *params);
    if (!params) return mc_fail_nomem("a program");
    for (uint32_t i = 0; i < p->n_params; i++)
        params[i] = (mica_param){p->names[i], {s, i}, mc_scope_node(p->graph, i)->movable};
    mica_status status =
        mica_program_build(s, params, p->n_params, results, p->n_results, &o, bound);
    mc_free(params);
    return status;
}

mica_status mc_program_bind(const mica_program *p, const int64_t *lengths, mica_program **bound) {
    mica_scope *s = NULL;
    *bound = NULL;
    mica_array *results = mc_array_alloc(p->n_results, sizeof *results);
    mica_status status =
        results ? mc_program_record(p, lengths, NULL, &s, results) : mc_fail_nomem("a program");
    if (status == MICA_OK) status = build(p, s, results, bound);
    mica_scope_close(&s);
    mc_free(results);
    return status == MICA_OK ? status : mc_fail_context(status, "program_bind");
}

mica_status mica_program_bind(const mica_program *program, const mica_length *lengths, size_t n,
                              mica_program **bound) {
    int64_t values[MC_MAX_SYMBOLS];
    if (!bound) return mc_fail(MICA_EINVAL, "program_bind: bound is NULL");
    *bound = NULL;
    if (!program) return mc_fail(MICA_EINVAL, "program_bind: the program is NULL");
    mica_status status = mc_program_lengths(program, lengths, n, values);
    if (status != MICA_OK) return mc_fail_context(status, "program_bind");
    return mc_program_bind(program, values, bound);
}
