#include "exec/executable.h"
#include "exec/pass.h"
#include "op/require.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/integer.h"
#include "base/options.h"
#include "exec/lower.h"

/* ---- opening ---- */

static mica_status choose_mode(mica_mode wanted, mica_mode *mode) {
    static const char *const names[] = {"", "lazy", "eager", "compiled"};
    /* $MICA_MODE: how programs run: lazy (the default), eager or compiled */
    const char *named = getenv("MICA_MODE");
    if (wanted < MICA_MODE_DEFAULT || wanted > MICA_MODE_COMPILED)
        return mc_fail(MICA_EINVAL, "executable_open: there is no mode %d", (int)wanted);
    *mode = wanted ? wanted : MICA_MODE_LAZY;
    if (wanted || !named || !*named) return MICA_OK;
    for (int i = MICA_MODE_LAZY; i <= MICA_MODE_COMPILED; i++) {
        if (strcasecmp(named, names[i]) != 0) continue;
        *mode = (mica_mode)i;
        return MICA_OK;
    }
    return mc_fail(MICA_EINVAL, "MICA_MODE is %s: must be lazy, eager or compiled", named);
}

static mica_status read_environment(mica_executable *x) {
    /* $MICA_CHECK_NAN: 1: the first step that gives NaN or infinity fails, and names its op */
    /* $MICA_TRACE: a file that receives a line for each step of programs, with shapes and times */
    const char *nan = getenv("MICA_CHECK_NAN"), *trace = getenv("MICA_TRACE");
    x->check_nan = nan && strcmp(nan, "1") == 0;
    x->trace = trace && *trace ? mc_arena_strndup(&x->arena, trace, strlen(trace)) : NULL;
    if (trace && *trace && !x->trace) return mc_fail_nomem("an executable");
    if (x->check_nan || x->trace) x->mode = MICA_MODE_EAGER;
    return MICA_OK;
}

/* Whether a result may feed a parameter, whose symbols take any length. */
bool mc_executable_feeds(const mica_executable *x, size_t result, size_t param) {
    const mica_program *p = x->program;
    const mc_layout *from = x->results[result], *to = x->params[param].layout;
    bool same = from->ndim == to->ndim;
    for (int k = 0; same && k < to->ndim; k++)
        same = (from->shape[k] == to->shape[k] && !mc_dim_has_symbols(to->shape[k])) ||
               mc_program_symbol_of(p, to->shape[k]) < p->n_symbols;
    return same;
}

/* The number of the result that a parameter named "out<number>" is fed by, where they are alike. */
static uint32_t default_feed(const mica_executable *x, size_t number) {
    const mc_executable_param *param = &x->params[number];
    char *end;
    if (strncmp(param->name, "out", 3) != 0 || param->name[3] < '0' || param->name[3] > '9')
        return MC_ABSENT;
    unsigned long i = strtoul(param->name + 3, &end, 10);
    if (*end || i >= x->n_results || x->results[i]->dtype != param->layout->dtype ||
        !mc_executable_feeds(x, i, number))
        return MC_ABSENT;
    return (uint32_t)i;
}

static mc_executable_trim find_trim(const mica_program *p, mica_array result) {
    mc_executable_trim trim = {.count = MC_ABSENT};
    uint32_t node;
    if (!mc_required_count(result, &trim.axis, &node)) return trim;
    for (uint32_t k = 0; k < p->n_results; k++)
        if (p->results[k].node == node) trim.count = k;
    return trim;
}

static mica_status list_ports(mica_executable *x) {
    const mica_program *p = x->program;
    x->n_params = p->n_params;
    x->n_results = p->n_results;
    x->params = mc_arena_calloc(&x->arena, (x->n_params + 1) * sizeof *x->params);
    x->results = mc_arena_alloc(&x->arena, (x->n_results + 1) * sizeof *x->results);
    x->trims = mc_arena_alloc(&x->arena, (x->n_results + 1) * sizeof *x->trims);
    if (!x->params || !x->results || !x->trims) return mc_fail_nomem("an executable");
    for (size_t i = 0; i < x->n_results; i++) {
        x->results[i] = mc_layout_of(p->results[i]);
        x->trims[i] = find_trim(p, p->results[i]);
    }
    for (size_t i = 0; i < x->n_params; i++) {
        const mc_node *node = mc_scope_node(p->graph, (uint32_t)i);
        mc_executable_param *param = &x->params[i];
        *param = (mc_executable_param){.name = p->names[i],
                                       .layout = &node->layout,
                                       .bytes = (size_t)mc_layout_bytes(&node->layout),
                                       .open = mc_layout_has_symbols(&node->layout),
                                       .donate = node->movable};
        param->fed_by = default_feed(x, i);
        x->feeds = x->feeds || param->fed_by != MC_ABSENT;
    }
    return MICA_OK;
}

static mica_status open_bounds(mica_executable *x, const mica_executable_options *o) {
    /* $MICA_PASSES_OFF: names of passes over graphs to leave out, separated by commas: to find what
     * a fault comes from */
    const char *names = o->passes_off ? o->passes_off : getenv("MICA_PASSES_OFF");
    uint32_t passes_off;
    MC_TRY(
        mc_passes_parse(o->passes_off ? "executable_open" : "MICA_PASSES_OFF", names, &passes_off));
    MC_TRY(mc_bounds_open(x->program, x->mode, passes_off, &x->bounds));
    MC_TRY(mc_precision_choose(o->precision, o->op_precisions, o->n_op_precisions,
                               &x->bounds->precision));
    x->bounds->no_fallback = o->no_fallback != 0;
    if (o->max_plans > 0) x->bounds->max_count = o->max_plans;
    if (o->max_plan_bytes > 0) x->bounds->max_bytes = o->max_plan_bytes;
    return MICA_OK;
}

static mica_status choose_slots(mica_executable *x, const mica_executable_options *o) {
    if (o->n_slots > 0 && !o->slots)
        return mc_fail(MICA_EINVAL, "executable_open: slots is NULL, n_slots is %zu", o->n_slots);
    x->n_slots = o->slots ? o->n_slots : x->n_results;
    if (x->n_slots > x->n_results)
        return mc_fail(MICA_EINVAL, "executable_open: %zu slots for %zu results", x->n_slots,
                       x->n_results);
    x->slotted = mc_arena_alloc(&x->arena, (x->n_results + 1) * sizeof *x->slotted);
    if (!x->slotted) return mc_fail_nomem("an executable");
    for (uint32_t i = 0; i < x->n_slots; i++) {
        x->slotted[i] = i;
        if (o->slots)
            MC_TRY(mc_executable_find_result(x, "executable_open", o->slots[i], &x->slotted[i]));
    }
    return MICA_OK;
}

static mica_status open_executable(mica_executable *x, const mica_executable_options *o) {
    x->slot_align = o->slot_align ? o->slot_align : 64;
    if (x->slot_align & (x->slot_align - 1))
        return mc_fail(MICA_EINVAL, "executable_open: slot_align is %zu, no power of two",
                       x->slot_align);
    MC_TRY(choose_mode(o->mode, &x->mode));
    MC_TRY(read_environment(x));
    if (!x->bounds) MC_TRY(open_bounds(x, o));
    MC_TRY(list_ports(x));
    MC_TRY(choose_slots(x, o));
    for (size_t i = 0; i < MC_MAX_SYMBOLS; i++)
        x->rows[i] = -1;
    x->own = mc_executable_run_new(x);
    if (!x->own) return mc_fail_nomem("an executable");
    const mica_program *p = x->program;
    if (o->no_fallback && !x->bounds->precision.any) /* other graphs: when they are made */
        MC_TRY(mc_lower_check(x->device, p->graph, p->results, p->n_results));
    return x->mode == MICA_MODE_COMPILED && p->n_symbols == 0 ? mc_executable_bind(x) : MICA_OK;
}

/* bounds: of the one that is cloned; NULL: of its own. */
static mica_status open_program(const mica_program *program, const mica_executable_options *o,
                                mc_bounds *bounds, mica_executable **executable) {
    mica_executable *x = mc_calloc(1, sizeof *x);
    if (!x) return mc_fail_nomem("an executable");
    x->program = mc_program_retain(program);
    x->device = program->device;
    x->bounds = bounds ? mc_bounds_retain(bounds) : NULL;
    mica_status status = open_executable(x, o);
    if (status != MICA_OK) mica_executable_close(&x);
    *executable = x;
    return status;
}

mica_status mica_executable_open(const mica_program *program,
                                 const mica_executable_options *options,
                                 mica_executable **executable) {
    mica_executable_options o;
    if (!executable) return mc_fail(MICA_EINVAL, "executable_open: executable is NULL");
    *executable = NULL;
    if (!program) return mc_fail(MICA_EINVAL, "executable_open: the program is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_executable_options, n_slots, &o, options));
    return open_program(program, &o, NULL, executable);
}

/* Gives back what the last run had. */
static void unbind(mica_executable *x) {
    if (x->bound) mc_bound_leave(x->bounds, x->bound, x->seat);
    if (x->bound) mc_bounds_put(x->bounds, x->bound);
    x->bound = NULL;
    x->seat = NULL;
}

void mica_executable_close(mica_executable **executable) {
    if (!executable || !*executable) return;
    mica_executable *x = *executable;
    *executable = NULL;
    if (mc_executable_drain(x) != MICA_OK) return; /* in a fork: what half-done runs hold stays */
    while (x->tickets) {
        mc_executable_run *run = x->tickets;
        x->tickets = run->next;
        mc_executable_run_free(run);
    }
    mc_executable_run_free(x->own);
    for (size_t i = 0; x->params && i < x->n_params; i++) {
        mc_value_drop(&x->params[i].value);
        mc_storage_release(x->params[i].staging);
    }
    unbind(x);
    mc_bounds_release(x->bounds);
    mc_free(x->slots);
    mc_free(x->slot_memory);
    mc_arena_deinit(&x->arena);
    mica_program_close(&x->program);
    mc_free(x);
}

mica_status mica_executable_clone(mica_executable *executable, mica_executable **clone) {
    if (!clone) return mc_fail(MICA_EINVAL, "executable_clone: clone is NULL");
    *clone = NULL;
    if (!executable) return mc_fail(MICA_EINVAL, "executable_clone: the executable is NULL");
    MC_TRY(mc_executable_drain(executable));
    const mica_executable_options o = {.slot_align = executable->slot_align,
                                       .mode = executable->mode};
    MC_TRY(open_program(executable->program, &o, executable->bounds, clone));
    (*clone)->feeds = executable->feeds;
    (*clone)->n_slots = executable->n_slots;
    memcpy((*clone)->slotted, executable->slotted, executable->n_slots * sizeof(uint32_t));
    memcpy((*clone)->rows, executable->rows, sizeof executable->rows);
    memcpy((*clone)->mixes, executable->mixes, sizeof executable->mixes);
    memcpy((*clone)->asked, executable->asked, sizeof executable->asked);
    for (size_t i = 0; i < executable->n_params; i++) {
        (*clone)->params[i].value = mc_value_share(&executable->params[i].value);
        (*clone)->params[i].fed_by = executable->params[i].fed_by;
    }
    return MICA_OK;
}

/* ---- compiling ---- */

mica_status mc_executable_bind(mica_executable *x) {
    bool made;
    const size_t n = x->program->n_symbols * sizeof *x->lengths;
    if (x->bound && (n == 0 || memcmp(x->bound->lengths, x->lengths, n) == 0)) return MICA_OK;
    unbind(x);
    MC_TRY(mc_bounds_get(x->bounds, x->lengths, &x->bound, &made));
    atomic_fetch_add(&x->compiles, made);
    if (!x->bound->compiled) return MICA_OK;
    x->seat = mc_bound_sit(x->bounds, x->bound);
    if (x->seat) return MICA_OK;
    unbind(x);
    return mc_fail_nomem("an executable");
}

mica_status mica_executable_set_extent(mica_executable *executable, const char *symbol,
                                       int64_t rows) {
    if (!executable || !symbol) return mc_fail(MICA_EINVAL, "executable_set_extent: NULL");
    mica_executable *x = executable;
    MC_TRY(mc_executable_drain(x));
    size_t i = mc_program_find_symbol(x->program, symbol);
    if (i == x->program->n_symbols)
        return mc_fail(MICA_ENOENT, "executable_set_extent: there is no symbol \"%.63s\"", symbol);
    if (rows < -1) return mc_fail(MICA_EINVAL, "executable_set_extent: %lld rows", (long long)rows);
    if (!x->asked[i]) MC_TRY(mc_extent_check(x->program, i, x->mixes[i]));
    x->asked[i] = true;
    x->rows[i] = rows;
    return MICA_OK;
}

mica_status mica_executable_precompile(mica_executable *executable, const mica_length *lengths,
                                       size_t n) {
    int64_t values[MC_MAX_SYMBOLS];
    bool made;
    mc_bound *bound;
    if (!executable) return mc_fail(MICA_EINVAL, "executable_precompile: NULL");
    mica_status status = mc_program_lengths(executable->program, lengths, n, values);
    if (status == MICA_OK) status = mc_bounds_get(executable->bounds, values, &bound, &made);
    if (status != MICA_OK) return mc_fail_context(status, "executable_precompile");
    atomic_fetch_add(&executable->compiles, made);
    mc_bounds_put(executable->bounds, bound);
    return MICA_OK;
}

/* ---- slots ---- */

static mica_status make_slots(mica_executable *x) {
    if (x->program->n_symbols > 0)
        return mc_fail(MICA_EUNSUPPORTED,
                       "executable_slots: they have fixed sizes, and symbol %s has no value "
                       "(mica_program_bind)",
                       x->program->symbols[0].name);
    size_t end = 0, align = x->slot_align > 64 ? x->slot_align : 64;
    mica_slot *slots = mc_array_alloc(x->n_slots + 1, sizeof *slots);
    if (!slots) return mc_fail_nomem("slots");
    for (size_t i = 0; i < x->n_slots; i++) {
        const mc_layout *l = x->results[x->slotted[i]];
        slots[i] = (mica_slot){.name = x->program->result_names[x->slotted[i]],
                               .dtype = l->dtype,
                               .offset = end,
                               .bytes = (size_t)mc_layout_bytes(l)};
        end = (end + slots[i].bytes + x->slot_align - 1) / x->slot_align * x->slot_align;
    }
    x->slot_memory = mc_aligned_alloc(align, end + 1);
    if (!x->slot_memory) {
        mc_free(slots);
        return mc_fail_nomem("slots");
    }
    memset(x->slot_memory, 0, end + 1);
    x->slots = slots;
    return MICA_OK;
}

mica_status mica_executable_slots(mica_executable *executable, const mica_slot **slots, size_t *n) {
    if (!executable || !slots || !n) return mc_fail(MICA_EINVAL, "executable_slots: NULL");
    *slots = NULL;
    *n = 0;
    if (!executable->slots) MC_TRY(make_slots(executable));
    *slots = executable->slots;
    *n = executable->n_slots;
    return MICA_OK;
}

const void *mica_executable_arena(const mica_executable *executable) {
    return executable ? executable->slot_memory : NULL;
}

/* ---- asking ---- */

uint64_t mica_executable_runs(const mica_executable *executable) {
    return executable ? atomic_load(&executable->runs) : 0;
}

uint64_t mica_executable_compiles(const mica_executable *executable) {
    return executable ? atomic_load(&executable->compiles) : 0;
}
