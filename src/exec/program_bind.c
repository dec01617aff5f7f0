/* Programs for values of their symbols. */
#include "base/alloc.h"
#include "base/names.h"
#include "exec/again.h"
#include "exec/program.h"

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
        if (status == MICA_OK) mc_node_of(into.params[i])->fallback = node->fallback;
    }
    if (status == MICA_OK) status = mc_record_again(&from, &into, &values, precision);
    mc_free(params);
    if (status == MICA_OK) return MICA_OK;
    mica_scope_close(scope);
    return status;
}

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
