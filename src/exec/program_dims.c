/* Programs with symbols: lengths that are known when they run. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "exec/program.h"
#include "exec/shapeless.h"

int64_t mica_program_dim(mica_scope *s, const char *name) {
    mc_symbol symbol;
    if (!s || mica_scope_status(s) != MICA_OK) return 0;
    if (!name) {
        (void)mc_scope_fail(s, MICA_EINVAL, "program_dim: the name is NULL");
        return 0;
    }
    return mc_scope_set_status(s, mc_scope_symbol(s, name, 0, &symbol)) == MICA_OK ? symbol.length
                                                                                   : 0;
}

size_t mica_program_symbol_count(const mica_program *program) {
    return program ? program->n_symbols : 0;
}

const char *mica_program_symbol(const mica_program *program, size_t i) {
    return program && i < program->n_symbols ? program->symbols[i].name : NULL;
}

size_t mc_program_symbol_of(const mica_program *p, int64_t length) {
    size_t i = 0;
    while (i < p->n_symbols && p->symbols[i].length != length)
        i++;
    return i;
}

const char *mc_program_port_text(const mica_program *p, size_t i, const mc_layout *l,
                                 char text[MC_PORT_TEXT]) {
    const mica_port *port = p->ports ? &p->ports[i] : NULL;
    int n = snprintf(text, MC_PORT_TEXT, "%s[", mica_dtype_name(l->dtype));
    for (int k = 0; k < l->ndim; k++) {
        const char *name = port ? port->symbols[k] : NULL, *comma = k > 0 ? "," : "";
        if (port && port->shape[k] < 0)
            n += snprintf(text + n, MC_PORT_TEXT - (size_t)n, "%s%.63s", comma, name ? name : "?");
        else
            n += snprintf(text + n, MC_PORT_TEXT - (size_t)n, "%s%lld", comma,
                          (long long)l->shape[k]);
    }
    snprintf(text + n, MC_PORT_TEXT - (size_t)n, "]");
    return text;
}

/* ---- recording for other lengths ---- */

mica_status mc_program_record(const mica_program *p, const int64_t *lengths,
                              const mc_precision *precision, mica_scope **scope,
                              mica_array *results) {
    mc_lengths followed;
    mica_array *params = mc_array_alloc(2 * p->n_params, sizeof *params);
    *scope = NULL;
    if (!params) return mc_fail_nomem("a program of other lengths");
    mc_recorded from = {p->graph, params, p->n_params, p->results, p->n_results};
    mc_recorded into = {NULL, params + p->n_params, p->n_params, results, p->n_results};
    mica_status status = mc_lengths_open(&followed, p->symbols, lengths, p->n_symbols);
    if (status == MICA_OK) status = mica_scope_open(p->device, scope);
    into.s = *scope;
    for (uint32_t i = 0; status == MICA_OK && i < p->n_params; i++) {
        const mc_node *node = mc_scope_node(p->graph, i);
        mc_layout layout = node->layout;
        for (int k = 0; k < layout.ndim; k++) {
            size_t symbol = mc_program_symbol_of(p, layout.shape[k]);
            if (symbol < p->n_symbols) layout.shape[k] = lengths[symbol];
        }
        from.params[i] = (mica_array){p->graph, i};
        status = mc_layout_finish(&layout);
        if (status != MICA_OK) break;
        into.params[i] = mc_leaf_param(*scope, &layout, node->movable);
        status = mica_scope_status(*scope);
    }
    if (status == MICA_OK) status = mc_record_again(&from, &into, &followed, precision);
    mc_lengths_close(&followed);
    mc_free(params);
    if (status == MICA_OK) return MICA_OK;
    mica_scope_close(scope);
    return status;
}

/* ---- building ---- */

static bool has_length(const mc_layout *l, int64_t length) {
    for (int k = 0; k < l->ndim; k++)
        if (l->shape[k] == length) return true;
    return false;
}

/* Constants have no lengths of symbols, and symbols that are met are those of parameters. */
static mica_status check_lengths(const mica_program *p, const mc_symbol *symbol, bool *found) {
    for (uint32_t i = 0; i < mc_scope_count(p->graph); i++) {
        const mc_node *node = mc_scope_node(p->graph, i);
        if (!has_length(&node->layout, symbol->length)) continue;
        if (i < p->n_params) *found = true;
        if (node->storage)
            return mc_fail(MICA_EINVAL,
                           "program_build: a constant has an axis of length %lld, which is that of "
                           "symbol %s",
                           (long long)symbol->length, symbol->name);
        if (!*found)
            return mc_fail(MICA_EINVAL, "program_build: no parameter has symbol %s, which %s needs",
                           symbol->name, mc_op_get(node->op)->name);
    }
    return MICA_OK;
}

/* A length that was made from a symbol's would be taken as fixed in a parameter. */
static mica_status check_made(const mica_program *p, const mc_symbol *symbols, size_t n,
                              const mc_symbol *symbol) {
    for (uint32_t i = 0; i < p->n_params; i++) {
        const mc_layout *l = &mc_scope_node(p->graph, i)->layout;
        for (int k = 0; k < l->ndim; k++) {
            size_t own = 0;
            while (own < n && symbols[own].length != l->shape[k])
                own++;
            if (own < n || !mc_symbol_made(symbol, l->shape[k])) continue;
            return mc_fail(MICA_EINVAL,
                           "program_build: axis %d of parameter %.60s follows from symbol %s, but "
                           "is none (mica_program_dim makes it one)",
                           k, p->names[i], symbol->name);
        }
    }
    return MICA_OK;
}

/* Of an axis: its symbol, if it is one, or that it changes with them. */
static void fill_axis(const mica_program *p, int64_t *length, int64_t elsewhere,
                      const char **name) {
    size_t symbol = mc_program_symbol_of(p, *length);
    if (symbol < p->n_symbols) *name = p->symbols[symbol].name;
    if (*name || *length != elsewhere) *length = -1;
}

static mica_status fill_port(mica_program *p, size_t i, const mc_layout *l,
                             const mc_layout *elsewhere) {
    size_t n = (size_t)l->ndim;
    int64_t *shape = mc_arena_calloc(&p->arena, n * sizeof *shape + 1);
    const char **names = mc_arena_calloc(&p->arena, n * sizeof *names + 1);
    if (!shape || !names) return mc_fail_nomem("a program");
    for (size_t k = 0; k < n; k++) {
        shape[k] = l->shape[k];
        fill_axis(p, &shape[k], elsewhere->shape[k], &names[k]);
    }
    p->ports[i] = (mica_port){.shape = shape, .symbols = names};
    return MICA_OK;
}

/* Records the graph for other lengths, to see whether all follows and which axes change. */
static mica_status try_lengths(mica_program *p) {
    int64_t lengths[MC_MAX_SYMBOLS];
    mica_scope *s;
    mica_array *results = mc_arena_alloc(&p->arena, (p->n_results + 1) * sizeof *results);
    p->ports = mc_arena_calloc(&p->arena, (p->n_params + p->n_results) * sizeof *p->ports + 1);
    if (!results || !p->ports) return mc_fail_nomem("a program");
    for (size_t i = 0; i < p->n_symbols; i++)
        lengths[i] = p->symbols[i].length - 6001;
    mica_status status = mc_program_record(p, lengths, NULL, &s, results);
    if (status != MICA_OK)
        return mc_fail_context(status, "program_build: lengths of %zu symbols", p->n_symbols);
    for (uint32_t i = 0; status == MICA_OK && i < p->n_params; i++)
        status = fill_port(p, i, &mc_scope_node(p->graph, i)->layout, &mc_scope_node(s, i)->layout);
    for (size_t i = 0; status == MICA_OK && i < p->n_results; i++)
        status =
            fill_port(p, p->n_params + i, mc_layout_of(p->results[i]), mc_layout_of(results[i]));
    mica_scope_close(&s);
    return status;
}

mica_status mc_program_find_symbols(mica_program *p, const mica_scope *from) {
    const mc_symbol *symbols;
    size_t n = mc_scope_symbols(from, &symbols);
    mc_symbol *own = mc_arena_alloc(&p->arena, n * sizeof *own + 1);
    if (!own) return mc_fail_nomem("a program");
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        MC_TRY(check_lengths(p, &symbols[i], &found));
        if (!found) continue;
        MC_TRY(check_made(p, symbols, n, &symbols[i]));
        own[p->n_symbols++] = symbols[i];
    }
    p->symbols = own;
    return p->n_symbols > 0 ? try_lengths(p) : MICA_OK;
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
