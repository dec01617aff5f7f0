/* An executable op by op: every op is evaluated by itself, so that an error names it, values can be
 * looked at, and time is told of each. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <mica/ops.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/system.h"
#include "exec/bind.h"
#include "exec/executable.h"
#include "graph/attr.h"

typedef struct eager {
    mc_executable_run *run;
    const mica_scope *graph;
    mica_scope *s;
    uint32_t count;
    mica_array *made; /* [count] */
    bool *needed;     /* [count] */
    mica_array *in; /* operands of the node at hand; then its parts, of which any number is there */
    mc_buffer trace; /* spans, each behind a comma */
    bool lost;       /* memory was out for one */
} eager;

/* "%3 matmul (f32[2,3], f32[3,4])" */
static mica_status name_op(const eager *e, uint32_t i, mica_status status) {
    const mc_node *node = mc_scope_node(e->graph, i);
    char text[512] = "", layout[MC_LAYOUT_TEXT];
    size_t used = 0;
    for (uint32_t k = 0; k < node->n_in && used < sizeof text - 1; k++) {
        const mc_layout *l =
            node->in[k] == MC_ABSENT ? NULL : &mc_scope_node(e->graph, node->in[k])->layout;
        int n = snprintf(text + used, sizeof text - used, "%s%s", k ? ", " : "",
                         l ? mc_layout_text(l, layout) : "-");
        used += n > 0 ? (size_t)n : 0;
    }
    return mc_fail_context(status, "%s %%%u (%s)", mc_op_get(node->op)->name, i, text);
}

/* ---- NaN and infinity ---- */

static mica_status is_finite(const eager *e, mica_array x, bool *finite) {
    int64_t all = 1;
    *finite = true;
    if (!mica_valid(x) || !mica_dtype_is_float(mica_array_dtype(x))) return MICA_OK;
    mica_array ok = mica_all(e->s, mica_isfinite(e->s, x), NULL, 0, false);
    MC_TRY(mica_item_i64(ok, &all));
    *finite = all != 0;
    return MICA_OK;
}

/* Whether the results [n] of node i have what its operands have not. */
static mica_status check_finite(const eager *e, uint32_t i, const mica_array *results, int n) {
    const mc_node *node = mc_scope_node(e->graph, i);
    bool finite = true, operands = true;
    for (int k = 0; k < n && finite; k++)
        MC_TRY(is_finite(e, results[k], &finite));
    if (finite) return MICA_OK;
    for (uint32_t k = 0; k < node->n_in && operands; k++)
        if (node->in[k] != MC_ABSENT) MC_TRY(is_finite(e, e->made[node->in[k]], &operands));
    if (!operands) return MICA_OK;
    return name_op(e, i, mc_fail(MICA_EINVAL, "gives a NaN or infinity (MICA_CHECK_NAN)"));
}

/* ---- nodes ---- */

static mica_array param_of(const eager *e, uint32_t i) {
    const mc_bound_param *param = &e->run->x->bound->params[i];
    const mc_value_of *value = mc_executable_value(e->run, i);
    if (value->number) return mc_scalar_bits(e->s, param->layout->dtype, value->bits);
    return mc_leaf(e->s, param->layout, mc_storage_retain(value->storage), value->offset_bytes);
}

/* The parts of node i, which are recorded with it: an op of several results runs once. */
static int record_parts(eager *e, uint32_t i, mica_array made) {
    int n = 0;
    for (uint32_t k = i + 1; k < e->count; k++) {
        const mc_node *part = mc_scope_node(e->graph, k);
        if (!e->needed[k] || mc_node_part(part) < 0 || part->in[0] != i) continue;
        e->made[k] = mc_record_part(e->s, made, mc_node_part(part));
        e->in[n++] = e->made[k];
    }
    return n;
}

static void write_span(eager *e, uint32_t i, uint64_t began) {
    const mc_node *node = mc_scope_node(e->graph, i);
    char layout[MC_LAYOUT_TEXT];
    if (!e->run->x->trace || e->lost) return;
    e->lost = !mc_buffer_printf(
        &e->trace,
        ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%llu,\"dur\":%llu,"
        "\"args\":{\"node\":%u,\"result\":\"%s\"}}",
        mc_op_get(node->op)->name, (unsigned long long)began,
        (unsigned long long)(mc_now_us() - began), i, mc_layout_text(&node->layout, layout));
}

static mica_status run_op(eager *e, uint32_t i) {
    const mc_node *node = mc_scope_node(e->graph, i);
    uint64_t began = mc_now_us();
    MC_TRY(mc_cancel_check(&e->run->cancel));
    for (uint32_t k = 0; k < node->n_in; k++)
        e->in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : e->made[node->in[k]];
    mica_array made = mc_record(e->s, node->op, node->attr, e->in, (int)node->n_in);
    int n = 1;
    e->made[i] = e->in[0] = made;
    if (node->results && mica_valid(made)) n = record_parts(e, i, made);
    mica_status status = mica_scope_status(e->s);
    if (status == MICA_OK) status = mica_eval_n(e->s, e->in, (size_t)n);
    if (status == MICA_ECANCELLED) return status;
    if (status != MICA_OK) return name_op(e, i, status);
    write_span(e, i, began);
    return e->run->x->check_nan ? check_finite(e, i, e->in, n) : MICA_OK;
}

static mica_status run_node(eager *e, uint32_t i) {
    const mc_node *node = mc_scope_node(e->graph, i);
    if (mica_valid(e->made[i])) return MICA_OK; /* a part */
    if (i < e->run->x->n_params)
        e->made[i] = param_of(e, i);
    else if (mc_is_leaf(node))
        e->made[i] = mc_copy_leaf(e->s, node);
    else
        return run_op(e, i);
    return mica_scope_status(e->s);
}

/* ---- the whole ---- */

static mica_status open_lists(eager *e, mc_arena *arena) {
    uint32_t max = 1, parts = 0;
    e->made = mc_arena_calloc(arena, ((size_t)e->count + 1) * sizeof *e->made);
    e->needed = mc_arena_calloc(arena, (size_t)e->count + 1);
    if (!e->made || !e->needed) return mc_fail_nomem("running a program");
    for (size_t i = 0; i < e->run->x->n_results; i++)
        e->needed[e->run->x->bound->results[i].node] = true;
    for (uint32_t i = e->count; i-- > 0;) {
        const mc_node *node = mc_scope_node(e->graph, i);
        if (!e->needed[i]) continue;
        parts += mc_node_part(node) >= 0;
        if (node->n_in > max) max = node->n_in;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) e->needed[node->in[k]] = true;
    }
    if (parts > max) max = parts;
    e->in = mc_arena_alloc(arena, max * sizeof *e->in);
    return e->in ? MICA_OK : mc_fail_nomem("running a program");
}

static mica_status take_result(eager *e, size_t i) {
    mc_executable_run *run = e->run;
    mica_array x = e->made[run->x->bound->results[i].node];
    const mc_node *node = mc_node_of(x);
    if (node->scalar) {
        run->layouts[i] = node->layout;
        run->results[i].offset_bytes = 0;
        MC_TRY(mc_storage_new(run->x->device, sizeof node->value, &run->results[i].storage));
        return mc_storage_write(run->x->device, run->results[i].storage, 0, &node->value,
                                sizeof node->value);
    }
    if (!mc_layout_is_dense(&node->layout)) {
        x = mc_record(e->s, MC_OP_CONTIGUOUS, NULL, &x, 1);
        MC_TRY(mica_scope_status(e->s));
        MC_TRY(mica_eval(e->s, x));
        node = mc_node_of(x);
    }
    run->layouts[i] = node->layout;
    run->results[i] = (mc_result){mc_storage_retain(node->storage), node->offset_bytes};
    return MICA_OK;
}

static mica_status run_all(eager *e, mc_arena *arena) {
    MC_TRY(open_lists(e, arena));
    MC_TRY(mica_scope_open(e->run->x->device, &e->s));
    mica_scope_set_cancel(e->s, &e->run->cancel);
    for (uint32_t i = 0; i < e->count; i++)
        if (e->needed[i]) MC_TRY(run_node(e, i));
    for (size_t i = 0; i < e->run->x->n_results; i++)
        MC_TRY(take_result(e, i));
    return MICA_OK;
}

/* Adds the spans to the file, which is a whole array of JSON after each run. */
static mica_status write_trace(eager *e) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char end[] = "\n]\n";
    const char *path = e->run->x->trace;
    if (e->lost) return mc_fail_nomem("the spans of a run");
    if (!path || e->trace.len == 0) return MICA_OK;
    pthread_mutex_lock(&lock);
    char last[sizeof end] = "";
    FILE *file = fopen(path, "r+");
    if (!file) file = fopen(path, "w+");
    bool begun = file && fseek(file, 0, SEEK_END) == 0 && ftell(file) > 0;
    bool written = file != NULL;
    if (begun) /* by us: the end is written over */
        written = fseek(file, 1 - (long)sizeof end, SEEK_END) == 0 &&
                  fread(last, 1, sizeof end - 1, file) == sizeof end - 1 &&
                  strcmp(last, end) == 0 && fseek(file, 1 - (long)sizeof end, SEEK_END) == 0;
    if (written && !begun) fputc('[', file);
    if (written) fwrite(e->trace.data + !begun, 1, e->trace.len - !begun, file);
    if (written) fputs(end, file);
    written = written && !ferror(file);
    if (file && fclose(file) != 0) written = false;
    pthread_mutex_unlock(&lock);
    return written ? MICA_OK : mc_fail(MICA_EIO, "%s: cannot be written (MICA_TRACE)", path);
}

mica_status mc_executable_run_eager(mc_executable_run *run) {
    const mica_scope *graph = run->x->bound->scope;
    mc_arena arena = {0};
    eager e = {.run = run, .graph = graph, .count = mc_scope_count(graph)};
    mica_status status = run_all(&e, &arena);
    mica_scope_close(&e.s);
    mc_arena_deinit(&arena);
    if (status == MICA_OK) status = write_trace(&e); /* else the run's error is the thread's */
    mc_buffer_deinit(&e.trace);
    return status;
}
