/* What an executable is, and what a run of it would lack, as text. */
#include <string.h>

#include "base/alloc.h"
#include "exec/executable.h"
#include "graph/subgraph.h"

/* ---- what a run would lack ---- */

/* "missing: a, b\n" of parameters for which a list of marks has `what`. */
static bool add_line(mc_buffer *text, const mica_executable *x, const char *title,
                     const bool *marks) {
    bool ok = true, any = false;
    for (size_t i = 0; ok && i < x->n_params; i++) {
        if (!marks[i]) continue;
        ok = mc_buffer_printf(text, "%s%s", any ? ", " : title, x->params[i].name);
        any = true;
    }
    return ok && (!any || mc_buffer_add_byte(text, '\n'));
}

/* Marks the parameters that no result needs. */
static void find_unused(const mica_executable *x, bool *needed, bool *unused) {
    mc_program_mark_needed(x->program, needed);
    for (size_t i = 0; i < x->n_params; i++)
        unused[i] = !needed[i];
}

static mica_status check(mica_executable *x, const mica_input *inputs, size_t n, mc_buffer *text,
                         bool *complete) {
    size_t nodes = mc_scope_count(x->program->graph);
    bool *missing = mc_calloc(2 * x->n_params + nodes + 1, 1);
    if (!missing) return mc_fail_nomem("checking a run");
    bool *unused = missing + x->n_params, *needed = unused + x->n_params;
    mica_status status = MICA_OK;
    find_unused(x, needed, unused);
    for (size_t i = 0; i < x->n_params; i++)
        missing[i] = !x->params[i].value.set;
    for (size_t k = 0; k < n && status == MICA_OK; k++) {
        size_t i = 0;
        mc_value_of value = {0};
        status = mc_executable_find(x, "executable_check", inputs[k].name, &i);
        if (status == MICA_OK) status = mc_executable_resolve(x, &inputs[k], i, &value);
        if (status == MICA_OK) missing[i] = false;
        mc_value_drop(&value);
    }
    for (size_t i = 0; i < x->n_params; i++)
        *complete = *complete && !missing[i];
    if (status == MICA_OK && !(add_line(text, x, "missing: ", missing) &&
                               add_line(text, x, "unused: ", unused) && mc_buffer_cstr(text)))
        status = mc_fail_nomem("checking a run");
    mc_free(missing);
    return status;
}

mica_status mica_executable_check(mica_executable *executable, const mica_input *inputs, size_t n,
                                  char **text) {
    mc_buffer buffer = {0};
    bool complete = true;
    if (text) *text = NULL;
    if (!executable || (!inputs && n > 0)) return mc_fail(MICA_EINVAL, "executable_check: NULL");
    MC_TRY(mc_executable_drain(executable));
    mica_status status = check(executable, inputs, n, &buffer, &complete);
    if (status == MICA_OK && !complete)
        status = mc_fail(MICA_EINVAL, "executable_check: %s", buffer.data);
    if (text && buffer.data)
        *text = mc_buffer_take(&buffer);
    else
        mc_buffer_deinit(&buffer);
    return status;
}

/* ---- the report ---- */

/* Counts the ops of a graph, and of its subgraphs. */
static void count_ops(const mica_scope *s, uint64_t *ops, uint64_t *graphs) {
    for (uint32_t i = 0; i < mc_scope_count(s); i++) {
        const mc_node *node = mc_scope_node(s, i);
        const mc_op_def *def = mc_op_get(node->op);
        ops[node->op]++;
        for (const mc_attr_field *f = def->attr_fields; mc_op_is_control(def) && f->name; f++) {
            if (f->kind != MC_ATTR_GRAPH) continue;
            ++*graphs;
            count_ops(mc_attr_graph(node->attr, f)->graph, ops, graphs);
        }
    }
}

static const char *way_of(const mica_executable *x, int op) {
    static const char *const ways[] = {"unknown", "no work", "kernel", "decomposed", "on the cpu"};
    if (mc_op_is_control(mc_op_get((mc_op)op))) return "subgraphs";
    mica_op_support support = mica_device_op_support(x->device, (size_t)op);
    return support <= MICA_OP_FALLBACK ? ways[support] : ways[0];
}

static bool report_ops(const mica_executable *x, mc_buffer *text) {
    uint64_t ops[MC_OP_COUNT] = {0}, graphs = 0;
    bool ok = true;
    count_ops(x->program->graph, ops, &graphs);
    for (int op = MC_OP_LEAF + 1; ok && op < MC_OP_COUNT; op++)
        if (ops[op] > 0 && op != MC_OP_PART)
            ok = mc_buffer_printf(text, "op %s: %llu, %s\n", mc_op_get((mc_op)op)->name,
                                  (unsigned long long)ops[op], way_of(x, op));
    return ok &&
           (graphs == 0 || mc_buffer_printf(text, "subgraphs: %llu\n", (unsigned long long)graphs));
}

static bool report_params(const mica_executable *x, const bool *unused, mc_buffer *text) {
    char layout[MC_LAYOUT_TEXT];
    bool ok = true;
    for (size_t i = 0; ok && i < x->n_params; i++) {
        const mc_executable_param *p = &x->params[i];
        const mc_layout *l = p->value.set ? mc_executable_layout(p, &p->value) : p->layout;
        bool known = !p->open || p->value.set;
        ok = mc_buffer_printf(text, "param %s: %s", p->name, mc_layout_text(l, layout));
        if (known) ok = ok && mc_buffer_printf(text, ", %lld bytes", (long long)mc_layout_bytes(l));
        ok = ok && mc_buffer_printf(text, "%s%s%s", p->value.set ? ", set" : "",
                                    p->donate ? ", donated" : "", unused[i] ? ", unused" : "");
        if (p->fed_by != MC_ABSENT)
            ok = ok && mc_buffer_printf(text, ", fed by %s", x->program->result_names[p->fed_by]);
        ok = ok && mc_buffer_add_byte(text, '\n');
    }
    return ok;
}

/* Bytes of what is there, and of what a run adds, where the device can tell. */
static bool report_bytes(const mica_executable *x, mc_buffer *text) {
    const mc_compiled *c = x->bound ? x->bound->compiled : NULL;
    const mc_backend *backend = x->device->backend;
    mc_launch_memory launch = {0};
    uint64_t params = 0, constants = 0, slots = 0;
    for (size_t i = 0; i < x->n_params; i++)
        if (x->params[i].value.set)
            params +=
                (uint64_t)mc_layout_bytes(mc_executable_layout(&x->params[i], &x->params[i].value));
    for (uint32_t i = 0; i < mc_scope_count(x->program->graph); i++) {
        const mc_node *node = mc_scope_node(x->program->graph, i);
        if (node->storage) constants += (uint64_t)mc_layout_bytes(&node->layout);
    }
    for (size_t i = 0; x->slots && i < x->n_slots; i++)
        if (x->slots[i].offset + x->slots[i].bytes > slots)
            slots = x->slots[i].offset + x->slots[i].bytes;
    bool ok = mc_buffer_printf(
        text, "bytes: %llu of parameters that are set, %llu of constants, %llu of the arena\n",
        (unsigned long long)params, (unsigned long long)constants, (unsigned long long)slots);
    if (!c || !c->whole || !backend->measure) return ok;
    if (backend->measure(c->segments->executable, &launch) != MICA_OK) return ok; /* cannot tell */
    return ok &&
           mc_buffer_printf(text, "a run: %llu bytes of results, at most %llu beside them\n",
                            (unsigned long long)launch.results, (unsigned long long)launch.others);
}

/* What each pass changed: nodes, or, of those of the planner, spans of steps. */
static bool report_passes(const mica_executable *x, mc_buffer *text) {
    bool ok = true;
    const mc_bound *b = x->bound;
    for (int i = 0; ok && b && b->compiled && i < MC_PASS_COUNT; i++)
        ok = mc_pass_is_off(x->bounds->passes_off, (mc_pass)i)
                 ? mc_buffer_printf(text, "pass %s: off\n", mc_pass_name((mc_pass)i))
                 : mc_buffer_printf(text, "pass %s: %u changed\n", mc_pass_name((mc_pass)i),
                                    b->changed[i] + b->compiled->changed[i]);
    return ok;
}

/* The lengths of the last run, and for how many the program is there. */
static bool report_symbols(const mica_executable *x, mc_buffer *text) {
    const mica_program *p = x->program;
    bool ok = true;
    if (p->n_symbols == 0) return true;
    for (size_t i = 0; ok && i < p->n_symbols; i++) {
        ok = mc_buffer_printf(text, "%s%s", i ? ", " : "symbols: ", p->symbols[i].name);
        if (ok && x->bound) ok = mc_buffer_printf(text, " %lld", (long long)x->bound->lengths[i]);
    }
    pthread_mutex_lock(&x->bounds->lock);
    size_t n = x->bounds->count, bytes = x->bounds->bytes;
    pthread_mutex_unlock(&x->bounds->lock);
    ok = ok && mc_buffer_printf(text, "; %zu sets of lengths, %zu bytes\n", n, bytes);
    for (size_t i = 0; ok && i < p->n_symbols; i++) {
        if (x->rows[i] < 0) continue;
        ok =
            mc_buffer_printf(text, "extent of %s: %lld", p->symbols[i].name, (long long)x->rows[i]);
        if (ok && *x->mixes[i])
            ok = mc_buffer_printf(text, "; all rows are computed, for %s mixes them", x->mixes[i]);
        ok = ok && mc_buffer_add_byte(text, '\n');
    }
    return ok;
}

static mica_status report(const mica_executable *x, mc_buffer *text) {
    static const char *const modes[] = {"", "lazy", "eager", "compiled"};
    size_t nodes = mc_scope_count(x->program->graph);
    bool *unused = mc_calloc(x->n_params + nodes + 1, 1);
    if (!unused) return mc_fail_nomem("a report");
    find_unused(x, unused + x->n_params, unused);
    bool ok = mc_buffer_printf(text, "device %s, mode %s: %llu runs, %llu compiles\n",
                               x->device->backend->name, modes[x->mode],
                               (unsigned long long)mica_executable_runs(x),
                               (unsigned long long)mica_executable_compiles(x));
    const mc_compiled *c = x->bound ? x->bound->compiled : NULL;
    if (c)
        ok = ok && mc_buffer_printf(text, "segments: %u, %u ops on the cpu; %zu bytes of plans\n",
                                    c->n_segments, c->n_fallback, c->bytes);
    ok = ok && report_symbols(x, text) && report_bytes(x, text) && report_passes(x, text) &&
         report_ops(x, text) && report_params(x, unused, text);
    mc_free(unused);
    return ok ? MICA_OK : mc_fail_nomem("a report");
}

mica_status mica_executable_report(mica_executable *executable, char **text) {
    mc_buffer buffer = {0};
    if (!executable || !text) return mc_fail(MICA_EINVAL, "executable_report: NULL");
    *text = NULL;
    MC_TRY(mc_executable_drain(executable));
    mica_status status = report(executable, &buffer);
    if (status == MICA_OK && !mc_buffer_cstr(&buffer)) status = mc_fail_nomem("a report");
    if (status == MICA_OK)
        *text = mc_buffer_take(&buffer);
    else
        mc_buffer_deinit(&buffer);
    return status;
}
