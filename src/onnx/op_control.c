/* Branches and loops. What is known beforehand is written out: a branch whose condition is, a loop
 * of few rounds. Others become nodes of control flow (mica/control.h). */
#include "onnx/import.h"

#include "base/alloc.h"
#include "base/integer.h"

#include "graph/dim.h"
#include "op/require.h"

#include <mica/control.h>
#include <mica/ops.h>

#include <stdio.h>
#include <string.h>

enum {
    MAX_CARRIED = 64,
    WRITTEN_OUT = 64, /* rounds of a loop that becomes none */
    WHY = 512         /* bytes of a text */
};

/* A graph that a function of control flow records. */
typedef struct body {
    mc_onnx_node *n;
    const mc_onnx_graph *graph;
    mica_array limit; /* of a loop: rounds; or none */
} body;

/* ---- a graph within a node ---- */

/* A graph of the node itself: one that a function is given has the names where it is called. */
static mica_status find_graph(const mc_onnx_node *n, const char *name, size_t n_in, size_t n_out,
                              const mc_onnx_graph **graph) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, name);
    bool own = false;
    if (!a || !a->g) return mc_fail(MICA_EFORMAT, "it has no %s", name);
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        own = own || n->proto->attribute[i] == a;
    if (!own) return mc_onnx_refuse("graphs as attributes of functions");
    *graph = a->g;
    if ((*graph)->n_input != n_in || (*graph)->n_output != n_out)
        return mc_fail(MICA_EFORMAT, "%s has %zu inputs and %zu results, where %zu and %zu belong",
                       name, (*graph)->n_input, (*graph)->n_output, n_in, n_out);
    return MICA_OK;
}

/* Reads a graph into s. inputs [of the graph]; results [of the graph] receives what it gives. */
static mica_status read_graph(mc_onnx_node *n, const mc_onnx_graph *graph, mica_scope *s,
                              const mc_onnx_value *inputs, mc_onnx_value *results) {
    mc_onnx_names names;
    mica_status status = MICA_OK;
    mc_onnx_names_init(&names, s, n->names);
    for (size_t i = 0; status == MICA_OK && i < graph->n_input; i++) {
        const char *name = graph->input[i]->name;
        status = mc_onnx_define(n->import, &names, name ? name : "", &inputs[i]);
    }
    if (status == MICA_OK) status = mc_onnx_read_graph(n->import, &names, graph);
    for (size_t i = 0; status == MICA_OK && i < graph->n_output; i++) {
        const char *name = graph->output[i]->name;
        status = mc_onnx_lookup(n->import, &names, name ? name : "", &results[i]);
        if (status == MICA_OK && results[i].sequence && s != n->import->s)
            status = mc_onnx_refuse("sequences in branches and loops");
        if (status == MICA_OK && results[i].bound && s != n->import->s)
            status = mc_onnx_refuse("lengths that depend on values in branches and loops");
        if (status != MICA_OK || !results[i].missing) continue;
        status = mc_fail(MICA_EUNSUPPORTED, "a node within it is missing");
        n->import->missed++; /* by that node */
    }
    mc_onnx_names_deinit(&names);
    return status;
}

/* The same of arrays, for a function of control flow. args: [n_args] of the graph's inputs. */
static mica_status record_graph(body *b, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results) {
    size_t n = b->graph->n_output;
    mc_onnx_value *values = mc_calloc(n_args + n + 1, sizeof *values); /* inputs, then results */
    if (!values) return mc_fail_nomem("a graph within a node");
    for (size_t i = 0; i < n_args; i++)
        values[i].x = args[i];
    mica_status status = read_graph(b->n, b->graph, s, values, values + n_args);
    for (size_t i = 0; status == MICA_OK && i < n; i++) {
        status = mc_onnx_record_lengths(b->n->import, s, &values[n_args + i]);
        results[i] = values[n_args + i].x;
    }
    mc_free(values);
    return status;
}

/* ---- branches ---- */

/* What a branch gives. */
typedef struct outcome {
    mica_dtype dtype;
    int ndim;
    int64_t shape[MICA_MAX_NDIM];
} outcome;

typedef struct branches {
    body bodies[2]; /* then, else */
    int failed;     /* the one that cannot be built; -1: none is known */
    outcome results[2][MAX_CARRIED];
    bool padded;           /* results are as long as the longer one of both */
    int axes[MAX_CARRIED]; /* along which they are; -1: they have one shape */
} branches;

/* x with zeros behind it, as long along an axis as the longer one of two results. */
static mica_array pad_to_longer(mica_scope *s, mica_array x, const outcome *a, const outcome *b,
                                int axis) {
    int64_t room = mc_dim_compute(MC_DIM_MAX, a->shape[axis], b->shape[axis]);
    int64_t before[MICA_MAX_NDIM] = {0}, after[MICA_MAX_NDIM] = {0};
    after[axis] = mc_dim_sub(room, mica_array_dim(x, axis));
    return mica_pad(s, x, before, after, mica_scalar(s, 0, mica_array_dtype(x)));
}

static mica_status record_branch(branches *b, int i, mica_scope *s, mica_array *results,
                                 size_t n_results) {
    bool fails = b->failed == i;
    mica_status status = record_graph(&b->bodies[fails ? 1 - i : i], s, NULL, 0, results);
    if (status != MICA_OK && b->failed < 0) b->failed = i;
    for (size_t k = 0; status == MICA_OK && k < n_results; k++) {
        const outcome *then = &b->results[0][k];
        mica_array x = results[k];
        if (fails) x = mc_require(s, x, mica_scalar(s, 0, MICA_BOOL), MC_REQUIRE_BRANCH);
        if (!mica_valid(x)) continue;
        if (i == 1 && mica_array_ndim(x) == then->ndim)
            x = mc_onnx_fit(s, x, then->shape, then->ndim, -1);
        outcome *own = &b->results[i][k];
        *own = (outcome){.dtype = mica_array_dtype(x), .ndim = mica_array_ndim(x)};
        for (int d = 0; d < own->ndim; d++)
            own->shape[d] = mica_array_dim(x, d);
        if (b->padded && b->axes[k] >= 0)
            x = pad_to_longer(s, x, then, &b->results[1][k], b->axes[k]);
        results[k] = x;
    }
    return status;
}

/* Whether results of the branches differ along one axis each, at most: b->axes. */
static bool find_axes(branches *b, size_t n_results) {
    for (size_t k = 0; k < n_results; k++) {
        const outcome *x = &b->results[0][k], *y = &b->results[1][k];
        b->axes[k] = -1;
        if (x->ndim != y->ndim || x->dtype != y->dtype) return false;
        for (int d = 0; d < x->ndim; d++) {
            if (x->shape[d] == y->shape[d]) continue;
            if (b->axes[k] >= 0) return false;
            b->axes[k] = d;
        }
    }
    return true;
}

/* Results of branches whose lengths differ: as long as the longer one, and a count. */
static mica_status give_padded(mc_onnx_node *n, const branches *b, const mica_array *results) {
    mica_array yes = mica_reshape(n->s, n->in[0].x, NULL, 0), counts[MAX_CARRIED];
    for (size_t k = 0; k < n->n_out; k++) {
        int axis = b->axes[k];
        if (axis < 0) {
            MC_TRY(mc_onnx_give(n, k, results[k]));
            continue;
        }
        int64_t x = b->results[0][k].shape[axis], y = b->results[1][k].shape[axis];
        counts[k] = mica_where(n->s, yes, mica_scalar(n->s, (double)x, MICA_I64),
                               mica_scalar(n->s, (double)y, MICA_I64));
        for (size_t i = 0; i < k; i++) /* one count for one pair of lengths */
            if (b->axes[i] >= 0 && b->results[0][i].shape[b->axes[i]] == x &&
                b->results[1][i].shape[b->axes[i]] == y)
                counts[k] = counts[i];
        MC_TRY(mc_onnx_give_counted(n, k, results[k], axis, counts[k]));
    }
    return MICA_OK;
}

static mica_status record_then(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)args, (void)n_args;
    return record_branch(user, 0, s, results, n_results);
}

static mica_status record_else(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)args, (void)n_args;
    return record_branch(user, 1, s, results, n_results);
}

/* Whether the node is torch's squeeze of an axis whose length is an expression: its rank would
 * depend on a length. The axis must have one element then, when the program runs. */
static bool only_squeezes(const mc_onnx_node *n, const mc_onnx_graph *then_graph,
                          const mc_onnx_graph *else_graph) {
    const mc_onnx_proto_node *last =
        then_graph->n_node > 0 ? then_graph->node[then_graph->n_node - 1] : NULL;
    mc_onnx_value x;
    bool open = false;
    if (then_graph->n_node > 2 || !last || strcmp(last->op_type, "Squeeze") != 0 ||
        last->n_input < 1 || else_graph->n_node != 1 ||
        strcmp(else_graph->node[0]->op_type, "Identity") != 0 ||
        mc_onnx_lookup(n->import, n->names, last->input[0], &x) != MICA_OK || !x.x.scope)
        return false;
    for (int k = 0; k < mica_array_ndim(x.x); k++)
        open = open || (mc_dim_has_symbols(mica_array_dim(x.x, k)) &&
                        mc_dim_may_equal(mica_array_dim(x.x, k), 1));
    return open;
}

/* Whether a graph is a constant without elements, as torch has it where there is no box. */
static bool is_empty(mc_onnx_node *n, const mc_onnx_graph *graph, mc_onnx_value *value) {
    bool one = graph->n_node == 1 && graph->n_output == 1 && !graph->n_input &&
               strcmp(graph->node[0]->op_type, "Constant") == 0;
    return one && read_graph(n, graph, n->s, NULL, value) == MICA_OK && value->known &&
           mica_array_size(value->x) == 0;
}

/* The result of a branch, where it can be built: else what it lacks is set aside, for
 * record_branches tells it. */
static mica_status try_branch(mc_onnx_node *n, const mc_onnx_graph *graph, mc_onnx_value *y) {
    mc_onnx_missing before;
    mc_onnx_set_missing_aside(n->import, &before);
    mica_status status = read_graph(n, graph, n->s, NULL, y);
    bool fails = status == MICA_EUNSUPPORTED || status == MICA_ESHAPE || status == MICA_EINVAL;
    MC_TRY(mc_onnx_merge_missing(n->import, &before, status == MICA_OK && y->bound));
    if (!fails || n->import->nodes_left < 0) return status;
    mica_scope_clear_error(n->import->constants);
    mica_scope_clear_error(n->s);
    *y = (mc_onnx_value){0};
    return MICA_OK;
}

/* A branch that counts its result, where the other one has none: the result, or none of it.
 * *done: it is so. */
static mica_status count_or_none(mc_onnx_node *n, const mc_onnx_graph *const graphs[2],
                                 bool *done) {
    for (int i = 0; i < 2 && !*done; i++) {
        mc_onnx_value none = {0}, y = {0};
        if (!is_empty(n, graphs[i], &none)) continue;
        MC_TRY(try_branch(n, graphs[1 - i], &y));
        if (!y.bound || mica_array_ndim(y.x) != mica_array_ndim(none.x) ||
            mica_array_dtype(y.x) != mica_array_dtype(none.x))
            return MICA_OK;
        *done = true;
        mica_array zero = mica_scalar(n->s, 0, MICA_I64),
                   yes = mica_reshape(n->s, n->in[0].x, NULL, 0);
        mica_array count = i == 0 ? mica_where(n->s, yes, zero, y.bound->count)
                                  : mica_where(n->s, yes, y.bound->count, zero);
        MC_TRY(mc_onnx_give_counted(n, 0, y.x, y.bound->axis, count));
    }
    return MICA_OK;
}

/* Why a branch cannot be built: what is missing, or the error. */
static void tell_failure(const mc_onnx_import *import, mica_status status, char why[WHY]) {
    mc_buffer missing = {0};
    bool told = status != MICA_OK && mc_onnx_print_missing(import, "; ", WHY, &missing) &&
                missing.len > 0 && mc_buffer_cstr(&missing);
    snprintf(why, WHY, "%.500s",
             status == MICA_OK ? ""
             : told            ? (const char *)missing.data
                               : mica_last_error());
    mc_buffer_deinit(&missing);
}

/* Both branches. Where one cannot be built, a run that takes it fails; where they give other
 * lengths, b->padded. */
static mica_status record_branches(mc_onnx_node *n, branches *b, mica_array *results) {
    mc_onnx_import *import = n->import;
    mc_onnx_missing before;
    char why[WHY];
    mc_onnx_set_missing_aside(import, &before);
    mica_status status = mica_if(n->s, n->in[0].x, record_then, record_else, b, NULL, 0, results,
                                 n->n_out),
                again = MICA_ENOMEM;
    tell_failure(import, status, why);
    if (b->failed >= 0 && import->nodes_left >= 0 &&
        (status == MICA_EUNSUPPORTED || status == MICA_ESHAPE || status == MICA_EINVAL)) {
        mica_scope_clear_error(import->constants);
        again = mica_if(n->s, n->in[0].x, record_then, record_else, b, NULL, 0, results, n->n_out);
    }
    if (b->failed < 0 && status == MICA_ESHAPE && n->s == import->s && find_axes(b, n->n_out)) {
        mica_scope_clear_error(n->s);
        b->padded = true;
        status = mica_if(n->s, n->in[0].x, record_then, record_else, b, NULL, 0, results, n->n_out);
    }
    MC_TRY(mc_onnx_merge_missing(import, &before, again != MICA_OK));
    if (b->padded) return status;
    if (again != MICA_OK) return status == MICA_OK ? MICA_OK : mc_fail(status, "%s", why);
    return mc_onnx_note(import,
                        "a branch of '%.100s' cannot be built, and a run that takes it fails: %s",
                        n->proto->output[0], why);
}

mica_status mc_onnx_if(mc_onnx_node *n) {
    branches b = {.bodies = {{.n = n}, {.n = n}}, .failed = -1};
    const mc_onnx_graph *then_graph, *else_graph;
    mica_array results[MAX_CARRIED];
    if (n->n_out > MAX_CARRIED) return mc_onnx_refuse("so many results");
    MC_TRY(find_graph(n, "then_branch", 0, n->n_out, &then_graph));
    MC_TRY(find_graph(n, "else_branch", 0, n->n_out, &else_graph));
    b.bodies[0].graph = then_graph;
    b.bodies[1].graph = else_graph;
    if (n->in[0].known) {
        double condition;
        MC_TRY(mc_onnx_operand_real(n, 0, 0, &condition));
        return read_graph(n, condition != 0 ? then_graph : else_graph, n->s, NULL, n->out);
    }
    if (only_squeezes(n, then_graph, else_graph))
        return read_graph(n, then_graph, n->s, NULL, n->out);
    bool done = false;
    if (n->s == n->import->s && n->n_out == 1)
        MC_TRY(count_or_none(n, (const mc_onnx_graph *const[]){then_graph, else_graph}, &done));
    if (done) return MICA_OK;
    MC_TRY(record_branches(n, &b, results));
    if (b.padded) return give_padded(n, &b, results);
    for (size_t i = 0; i < n->n_out; i++)
        MC_TRY(mc_onnx_give(n, i, results[i]));
    return MICA_OK;
}

/* ---- loops that are written out ---- */

/* Stacks what the rounds gave: rounds [count * n], the i-th of n. */
static mica_status stack(mc_onnx_node *n, const mica_array *rounds, size_t count, size_t each,
                         size_t i, mica_array *y) {
    mica_array *xs = mc_array_alloc(count + 1, sizeof *xs);
    if (!xs) return mc_fail_nomem("the results of a loop");
    for (size_t r = 0; r < count; r++)
        xs[r] = rounds[r * each + i];
    *y = mica_stack(n->s, xs, (int)count, 0);
    mc_free(xs);
    return mica_scope_status(n->s);
}

/* Rounds of a loop, one after the other; *open: how often it is repeated is not known.
 *
 * values  [2 + carried + collected]: number, condition and what is carried; then what is
 *         collected */
static mica_status write_out(mc_onnx_node *n, const mc_onnx_graph *graph, int64_t limit,
                             mc_onnx_value *values, size_t carried, mc_buffer *rounds, bool *open) {
    size_t collected = graph->n_output - 1 - carried;
    *open = false;
    for (int64_t r = 0; r < limit && !*open; r++) {
        double go = 1;
        if (values[1].known) MC_TRY(mica_item_f64(values[1].x, &go));
        if (go == 0) break;
        MC_TRY(mc_onnx_constant(n->import, &r, MICA_I64, NULL, 0, &values[0]));
        MC_TRY(read_graph(n, graph, n->s, values, values + 1)); /* results follow the number */
        for (size_t i = 0; i < graph->n_output; i++)
            MC_TRY(mc_onnx_record_lengths(n->import, n->s, &values[1 + i]));
        *open = !values[1].known;
        for (size_t i = 0; i < collected; i++) {
            if (values[2 + carried + i].bound)
                return mc_onnx_refuse("loops that collect what depends on values");
            if (!MC_BUFFER_PUSH(rounds, mica_array, values[2 + carried + i].x))
                return mc_fail_nomem("the results of a loop");
        }
    }
    return MICA_OK;
}

static mica_status finish_written(mc_onnx_node *n, const mc_onnx_value *values, size_t carried,
                                  const mc_buffer *rounds) {
    size_t collected = n->n_out - carried;
    for (size_t i = 0; i < carried; i++)
        n->out[i] = values[2 + i];
    size_t count = collected ? MC_BUFFER_COUNT(rounds, mica_array) / collected : 0;
    if (collected && count == 0)
        return mc_onnx_refuse("loops without a round that collect results");
    for (size_t i = 0; i < collected; i++) {
        mica_array y;
        MC_TRY(stack(n, MC_BUFFER_AT(rounds, mica_array), count, collected, i, &y));
        MC_TRY(mc_onnx_give(n, carried + i, y));
    }
    return MICA_OK;
}

static void set_operands(const mc_onnx_node *n, mc_onnx_value *values, size_t carried) {
    if (mc_onnx_has(n, 1)) values[1] = n->in[1];
    for (size_t i = 0; i < carried; i++)
        values[2 + i] = n->in[2 + i];
}

/* *done: the loop was written out. */
static mica_status try_to_write_out(mc_onnx_node *n, const mc_onnx_graph *graph, size_t carried,
                                    bool *done) {
    double limit = 0;
    bool open = true, yes = true;
    mc_buffer rounds = {0};
    *done = false;
    if (!mc_onnx_known(n, 0) || (mc_onnx_has(n, 1) && !n->in[1].known)) return MICA_OK;
    MC_TRY(mc_onnx_operand_real(n, 0, 0, &limit));
    if (!(limit <= WRITTEN_OUT)) return MICA_OK; /* NaN, too */
    mc_onnx_value *values = mc_calloc(n->n_out + 3, sizeof *values);
    if (!values) return mc_fail_nomem("a loop");
    mica_status status = mc_onnx_constant(n->import, &yes, MICA_BOOL, NULL, 0, &values[1]);
    set_operands(n, values, carried);
    int64_t max = limit > 0 ? (int64_t)limit : 0;
    if (status == MICA_OK) status = write_out(n, graph, max, values, carried, &rounds, &open);
    if (status == MICA_OK && !open) {
        *done = true;
        status = finish_written(n, values, carried, &rounds);
    }
    mc_buffer_deinit(&rounds);
    mc_free(values);
    return status;
}

/* ---- loops ---- */

/* args: number, condition, what is carried. */
static mica_status record_condition(void *user, mica_scope *s, const mica_array *args,
                                    size_t n_args, mica_array *results, size_t n_results) {
    const body *b = user;
    (void)n_args, (void)n_results;
    results[0] = mica_reshape(s, args[1], NULL, 0);
    if (b->limit.scope)
        results[0] = mica_logical_and(s, results[0], mica_less(s, args[0], b->limit));
    return mica_scope_status(s);
}

static mica_status record_round(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    body *b = user;
    (void)n_results;
    MC_TRY(record_graph(b, s, args, n_args, results + 1));
    results[0] = mica_add(s, args[0], mica_scalar(s, 1, MICA_I64));
    results[1] = mica_reshape(s, results[1], mica_array_shape(args[1]), mica_array_ndim(args[1]));
    return mica_scope_status(s);
}

static mica_status repeat(mc_onnx_node *n, body *b, size_t carried) {
    mica_array init[MAX_CARRIED + 2], results[MAX_CARRIED + 2];
    init[0] = mica_scalar(n->s, 0, MICA_I64);
    init[1] = mc_onnx_has(n, 1) ? n->in[1].x : mica_scalar(n->s, 1, MICA_BOOL);
    for (size_t i = 0; i < carried; i++)
        init[2 + i] = mc_onnx_x(n, 2 + i);
    if (mc_onnx_has(n, 0)) b->limit = mica_reshape(n->s, n->in[0].x, NULL, 0);
    MC_TRY(mica_while(n->s, record_condition, record_round, b, init, carried + 2, NULL, results,
                      NULL));
    for (size_t i = 0; i < carried; i++)
        MC_TRY(mc_onnx_give(n, i, results[2 + i]));
    return MICA_OK;
}

/* A round of a loop whose number of rounds is known and that collects results: args are what is
 * carried, then the number. The condition must stay known. */
static mica_status record_step(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    body *b = user;
    size_t carried = n_args - 1;
    bool yes = true;
    mc_onnx_value *values = mc_calloc(n_args + 1 + n_results + 1, sizeof *values);
    if (!values) return mc_fail_nomem("a loop");
    mica_status status = mc_onnx_constant(b->n->import, &yes, MICA_BOOL, NULL, 0, &values[1]);
    values[0].x = args[carried];
    for (size_t i = 0; i < carried; i++)
        values[2 + i].x = args[i];
    if (status == MICA_OK) status = read_graph(b->n, b->graph, s, values, values + n_args + 1);
    double go = 0;
    const mc_onnx_value *given = values + n_args + 1;
    if (status == MICA_OK && given[0].known) status = mica_item_f64(given[0].x, &go);
    if (status == MICA_OK && go == 0)
        status = mc_onnx_refuse("loops that collect results and may end early");
    for (size_t i = 0; status == MICA_OK && i < n_results; i++) {
        status = mc_onnx_record_lengths(b->n->import, s, &values[n_args + 2 + i]);
        results[i] = given[1 + i].x;
    }
    mc_free(values);
    return status;
}

static mica_status collect(mc_onnx_node *n, body *b, size_t carried) {
    mica_array init[MAX_CARRIED], results[MAX_CARRIED], ys[MAX_CARRIED];
    double limit, go = 1;
    if (!mc_onnx_has(n, 0)) return mc_onnx_refuse("loops that collect results without an end");
    MC_TRY(mc_onnx_operand_real(n, 0, 0, &limit));
    MC_TRY(mc_onnx_operand_real(n, 1, 1, &go));
    if (go == 0 || !(limit >= 1 && limit < INT32_MAX))
        return mc_onnx_refuse("loops without a round that collect results");
    for (size_t i = 0; i < carried; i++)
        init[i] = mc_onnx_x(n, 2 + i);
    mica_array numbers = mica_arange(n->s, 0, limit, 1, MICA_I64);
    MC_TRY(mica_scan(n->s, record_step, b, init, carried, &numbers, 1, NULL, results, ys,
                     n->n_out - carried));
    for (size_t i = 0; i < n->n_out; i++)
        MC_TRY(mc_onnx_give(n, i, i < carried ? results[i] : ys[i - carried]));
    return MICA_OK;
}

mica_status mc_onnx_loop(mc_onnx_node *n) {
    body b = {.n = n};
    bool done;
    if (n->n_in < 2 || n->n_out > MAX_CARRIED || n->n_out < n->n_in - 2)
        return mc_fail(MICA_EFORMAT, "its operands and results do not fit");
    size_t carried = n->n_in - 2;
    MC_TRY(find_graph(n, "body", carried + 2, n->n_out + 1, &b.graph));
    for (size_t i = 0; i < carried; i++)
        if (!mc_onnx_has(n, 2 + i) && !n->in[2 + i].sequence)
            return mc_fail(MICA_EFORMAT, "operand %zu is absent", 2 + i);
    MC_TRY(try_to_write_out(n, b.graph, carried, &done));
    if (done) return MICA_OK;
    for (size_t i = 0; i < carried; i++)
        if (n->in[2 + i].sequence) return mc_onnx_refuse("loops of many rounds over sequences");
    return n->n_out == carried ? repeat(n, &b, carried) : collect(n, &b, carried);
}

/* ---- scans ---- */

static mica_status record_scan(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)n_results;
    return record_graph(user, s, args, n_args, results);
}

/* The numbers of a list of a scan, as many as `want`; 0 where there is none. */
static mica_status scan_list(const mc_onnx_node *n, const char *name, size_t want, int64_t *list) {
    int count;
    MC_TRY(mc_onnx_ints(n, name, MAX_CARRIED, list, &count));
    if (count >= 0 && (size_t)count != want)
        return mc_fail(MICA_EFORMAT, "%s has %d numbers", name, count);
    for (size_t i = 0; count < 0 && i < want; i++)
        list[i] = 0;
    for (size_t i = 0; i < want; i++)
        if (list[i] < -MICA_MAX_NDIM || list[i] > MICA_MAX_NDIM)
            return mc_fail(MICA_EFORMAT, "%s is out of range", name);
    return MICA_OK;
}

mica_status mc_onnx_scan(mc_onnx_node *n) {
    body b = {.n = n};
    if (n->import->opset < 9) return mc_onnx_refuse("scans of opset 8, over batches");
    int64_t n_xs = mc_onnx_int(n, "num_scan_inputs", 0), axes[MAX_CARRIED], back[MAX_CARRIED];
    mica_array operands[MAX_CARRIED], results[MAX_CARRIED];
    if (n_xs < 0 || (size_t)n_xs > n->n_in || n->n_in > MAX_CARRIED || n->n_out > MAX_CARRIED ||
        n->n_out < n->n_in - (size_t)n_xs)
        return mc_fail(MICA_EFORMAT, "its operands and results do not fit");
    size_t carried = n->n_in - (size_t)n_xs, n_ys = n->n_out - carried;
    MC_TRY(find_graph(n, "body", n->n_in, n->n_out, &b.graph));
    MC_TRY(scan_list(n, "scan_input_axes", (size_t)n_xs, axes));
    MC_TRY(scan_list(n, "scan_input_directions", (size_t)n_xs, back));
    for (size_t i = 0; i < n->n_in; i++) {
        operands[i] = mc_onnx_x(n, i);
        if (i < carried) continue;
        size_t k = i - carried;
        if (axes[k] != 0) operands[i] = mica_moveaxis(n->s, operands[i], (int)axes[k], 0);
        if (back[k]) operands[i] = mica_flip(n->s, operands[i], 0);
    }
    MC_TRY(mica_scan(n->s, record_scan, &b, operands, carried, operands + carried, (size_t)n_xs,
                     NULL, results, results + carried, n_ys));
    MC_TRY(scan_list(n, "scan_output_axes", n_ys, axes));
    MC_TRY(scan_list(n, "scan_output_directions", n_ys, back));
    for (size_t i = 0; i < n->n_out; i++) {
        mica_array y = results[i];
        if (i >= carried && back[i - carried]) y = mica_flip(n->s, y, 0);
        if (i >= carried && axes[i - carried] != 0)
            y = mica_moveaxis(n->s, y, 0, (int)axes[i - carried]);
        MC_TRY(mc_onnx_give(n, i, y));
    }
    return MICA_OK;
}
