#include "onnx/import.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "op/work.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LARGE = 1 << 22, /* elements that are computed while importing, if no operand has so many */
    NODE_NAME = 256, /* bytes */
    FREE_NODES = 64, /* that an operator may record as one */
    MAX_DEPTH = 2 * MC_ONNX_DEPTH,
    SMALL = 1 << 12 /* operations that are computed whatever has been: lengths, axes */
};

static const uint64_t NEVER = (uint64_t)1 << 40; /* uses of what is not released */

/* ---- operators ---- */

static const mc_onnx_op ops[] = {
#define ONNX_OP(name, min_in, max_in, build) {#name, min_in, max_in, build},
#include "onnx/op_list.h"
#undef ONNX_OP
};

/* Those of com.microsoft, which onnxruntime's tools write. */
static const mc_onnx_op ms_ops[] = {
#define ONNX_OP(name, min_in, max_in, build) {#name, min_in, max_in, build},
#include "onnx/op_ms_list.h"
#undef ONNX_OP
};

/* Those of trees and linear models. */
static const mc_onnx_op ml_ops[] = {
#define ONNX_OP(name, min_in, max_in, build) {#name, min_in, max_in, build},
#include "onnx/op_ml_list.h"
#undef ONNX_OP
};

enum { OP_COUNT = sizeof ops / sizeof ops[0] };

static const struct {
    const char *domain;
    const mc_onnx_op *ops;
    size_t count;
} domains[] = {
    {"", ops, OP_COUNT},
    {"com.microsoft", ms_ops, sizeof ms_ops / sizeof *ms_ops},
    {"ai.onnx.ml", ml_ops, sizeof ml_ops / sizeof *ml_ops},
};

size_t mica_onnx_op_count(void) {
    return OP_COUNT;
}

const char *mica_onnx_op_name(size_t i) {
    return i < OP_COUNT ? ops[i].name : NULL;
}

/* NULL: there is none. */
static const mc_onnx_op *find_op(const char *name, const char *domain) {
    if (mc_onnx_is_own(domain)) domain = "";
    for (size_t d = 0; name && d < sizeof domains / sizeof domains[0]; d++)
        for (size_t i = 0; strcmp(domains[d].domain, domain) == 0 && i < domains[d].count; i++)
            if (strcmp(domains[d].ops[i].name, name) == 0) return &domains[d].ops[i];
    return NULL;
}

/* ---- names ---- */

void mc_onnx_names_init(mc_onnx_names *names, mica_scope *s, mc_onnx_names *outer) {
    *names = (mc_onnx_names){.s = s, .outer = outer};
}

void mc_onnx_names_deinit(mc_onnx_names *names) {
    mc_map_deinit(&names->map);
}

/* Whether a graph's nodes may be read several times: those of graphs within, and of functions. */
static bool is_repeated(const mc_onnx_names *names) {
    return names->outer || names->call;
}

/* Holds what a value is of, until nothing reads it: of those of graphs within, to the end. */
static mica_status hold_value(mc_onnx_import *import, const mc_onnx_names *names, const char *name,
                              mc_onnx_value *named) {
    if (named->known && !named->form) {
        named->form = mc_arena_calloc(&import->arena, sizeof *named->form);
        if (!named->form) return mc_fail_nomem("the values of a graph");
        named->form->charged = named->charged;
        MC_TRY(mc_onnx_hold(import, named->x));
    }
    if (named->known)
        named->form->uses += is_repeated(names) ? NEVER : mc_onnx_uses_of(import, name);
    else
        MC_TRY(mc_onnx_hold(import, named->x));
    return mc_onnx_hold(import, named->last);
}

mica_status mc_onnx_define(mc_onnx_import *import, mc_onnx_names *names, const char *name,
                           const mc_onnx_value *value) {
    uint64_t there;
    if (mc_map_find(&names->map, mc_str_of(name), &there))
        return mc_fail(MICA_EFORMAT, "two values are called '%s'", name);
    uint64_t i = MC_BUFFER_COUNT(&import->values, mc_onnx_value);
    mc_onnx_value named = *value;
    MC_TRY(hold_value(import, names, name, &named));
    if (!mc_buffer_add(&import->values, &named, sizeof named) ||
        !mc_map_put(&names->map, mc_str_of(name), i))
        return mc_fail_nomem("the values of a graph");
    return MICA_OK;
}

mica_status mc_onnx_lookup(const mc_onnx_import *import, const mc_onnx_names *names,
                           const char *name, mc_onnx_value *value) {
    uint64_t i;
    for (; names; names = names->outer) {
        if (!mc_map_find(&names->map, mc_str_of(name), &i)) continue;
        *value = MC_BUFFER_AT(&import->values, mc_onnx_value)[i];
        return MICA_OK;
    }
    return mc_fail(MICA_EFORMAT, "there is no value '%s' before it", name);
}

/* ---- what a file may cost ---- */

/* Charges what is read of the file again and again; at the end of it nothing more is recorded. */
static mica_status charge_again(mc_onnx_import *import, const mc_onnx_names *names,
                                uint64_t bytes) {
    mica_status status = is_repeated(names) ? mc_onnx_charge(import, bytes) : MICA_OK;
    if (status != MICA_OK) import->nodes_left = -1;
    return status;
}

mica_status mc_onnx_charge_again(const mc_onnx_node *n, uint64_t bytes) {
    return charge_again(n->import, n->names, bytes);
}

/* Those in rounds of loops, and in functions, most of all. */
mica_status mc_onnx_take_nodes(mc_onnx_import *import, uint64_t count) {
    import->nodes_left -= (int64_t)count;
    if (import->nodes_left >= 0) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "it has too many nodes, with those of every round of its loops: mica records %d",
                   MC_ONNX_NODES);
}

static mica_status count_use(mc_onnx_import *import, const char *name) {
    uint64_t uses = mc_onnx_uses_of(import, name) + 1;
    return mc_map_put(&import->uses, mc_str_of(name), uses) ? MICA_OK : mc_fail_nomem("a graph");
}

mica_status mc_onnx_count_uses(mc_onnx_import *import, const mc_onnx_graph *graph) {
    for (size_t i = 0; i < graph->n_output; i++)
        if (graph->output[i]->name) MC_TRY(count_use(import, graph->output[i]->name));
    for (size_t i = 0; i < graph->n_node; i++) {
        const mc_onnx_proto_node *node = graph->node[i];
        for (size_t k = 0; k < node->n_input; k++)
            MC_TRY(count_use(import, node->input[k]));
        for (size_t k = 0; k < node->n_attribute; k++) /* no deeper than MC_ONNX_DEPTH */
            if (node->attribute[k]->g) MC_TRY(mc_onnx_count_uses(import, node->attribute[k]->g));
    }
    return MICA_OK;
}

/* Counts that a value of the file's graph was read; the last time it is released. */
static void forget(mc_onnx_import *import, const mc_onnx_names *names, const char *name,
                   uint64_t uses) {
    uint64_t i;
    if (!name || !mc_map_find(&names->map, mc_str_of(name), &i)) return;
    mc_onnx_value *value = &MC_BUFFER_AT(&import->values, mc_onnx_value)[i];
    if (!value->known || value->form->uses < uses) return;
    value->form->uses -= uses;
    if (value->form->uses > 0) return;
    mc_onnx_release(import, value->x);
    mc_onnx_release(import, value->form->x);
    import->fold_left += value->form->charged;
    value->form->charged = 0;
    value->form->uses = NEVER;
}

/* Forgets what a node of the file's graph has read, as mc_onnx_count_uses has counted it. */
static void forget_read(mc_onnx_import *import, const mc_onnx_names *names,
                        const mc_onnx_proto_node *node) {
    for (size_t k = 0; k < node->n_input; k++)
        forget(import, names, node->input[k], 1);
    for (size_t k = 0; k < node->n_attribute; k++) { /* no deeper than MC_ONNX_DEPTH */
        const mc_onnx_graph *graph = node->attribute[k]->g;
        for (size_t i = 0; graph && i < graph->n_output; i++)
            forget(import, names, graph->output[i]->name, 1);
        for (size_t i = 0; graph && i < graph->n_node; i++)
            forget_read(import, names, graph->node[i]);
    }
}

/* ---- nodes ---- */

static bool has_graph(const mc_onnx_proto_node *proto) {
    for (size_t i = 0; i < proto->n_attribute; i++)
        if (proto->attribute[i]->g) return true;
    return false;
}

/* The operands of a node, as they are before it is built; *known: it can be computed while
 * importing. */
static mica_status find_operands(mc_onnx_node *n, bool *known) {
    *known = !has_graph(n->proto);
    for (size_t i = 0; i < n->n_in; i++) {
        const char *name = n->proto->input[i];
        if (!*name) continue;
        MC_TRY(mc_onnx_lookup(n->import, n->names, name, &n->in[i]));
        *known = *known && n->in[i].known;
    }
    return MICA_OK;
}

/* Operations that computing the nodes of a scope from one on takes. */
static mica_status work_since(const mica_scope *s, uint32_t first, double *operations) {
    *operations = 0;
    for (uint32_t i = first; i < mc_scope_count(s); i++) {
        const mc_node *node = mc_scope_node(s, i);
        const mc_op_def *def = mc_op_get(node->op);
        if (node->state != MC_PENDING || node->op == MC_OP_PART || def->view) continue;
        if (mc_op_is_control(def)) {
            *operations = INFINITY;
            continue;
        }
        const mc_layout **in = mc_calloc(node->n_in + 1, sizeof(const mc_layout *));
        if (!in) return mc_fail_nomem("a node");
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) in[k] = &mc_scope_node(s, node->in[k])->layout;
        *operations += mc_work_of(node, in).operations;
        mc_free(in);
    }
    return MICA_OK;
}

/* Whether results are to be computed at once: they are not larger than operands are, or small, and
 * the file may ask for the work. */
static bool worth_folding(const mc_onnx_node *n, double operations, uint64_t *bytes) {
    int64_t elements = LARGE;
    *bytes = 0;
    if (operations > SMALL && operations > n->import->work_left) return false;
    for (size_t i = 0; i < n->n_in; i++)
        if (mica_valid(n->in[i].x)) elements = mc_max(elements, mica_array_size(n->in[i].x));
    for (size_t i = 0; i < n->n_out; i++) {
        if (!mica_valid(n->out[i].x)) continue;
        if (mica_array_size(n->out[i].x) > elements) return false;
        *bytes += mica_array_bytes(n->out[i].x);
    }
    return *bytes <= n->import->fold_left;
}

static mica_status build(mc_onnx_node *n, const mc_onnx_op *op, mica_scope *s) {
    n->s = s;
    memset(n->out, 0, n->n_out * sizeof *n->out);
    const char *outer = n->import->mistyped; /* of a node whose graph this one is in */
    n->import->mistyped = NULL;
    bool bounds = mc_onnx_has_bounds(n);
    const mc_onnx_small *moved;
    mica_status status = bounds ? mc_onnx_check_bounds(n) : MICA_OK;
    if (status == MICA_OK) status = mc_onnx_check_small(n, &moved);
    bool done = false;
    if (status == MICA_OK) status = mc_onnx_move_steps(n, op->build, &done);
    if (status == MICA_OK && !done) status = op->build(n);
    for (size_t i = 0; status == MICA_OK && moved && i < n->n_out; i++)
        n->out[i].small = moved;
    if (status == MICA_OK && bounds) status = mc_onnx_carry_bounds(n);
    if (n->import->mistyped)
        return mc_fail(MICA_EFORMAT, "its attribute '%s' is of another type", n->import->mistyped);
    n->import->mistyped = outer;
    MC_TRY(status);
    return mica_scope_status(s);
}

static bool is_absent(const mc_onnx_value *value) {
    return !value->x.scope && !value->lengths && !value->sequence;
}

/* A function's operand may be absent where its nodes need it. */
static mica_status check_present(const mc_onnx_node *n, const mc_onnx_op *op) {
    bool any = mc_onnx_reads_sequences(op->name);
    for (size_t i = 0; i < n->n_in; i++) {
        if (n->in[i].sequence && !any) return mc_onnx_refuse("this operator of sequences");
        if (i < op->min_in && is_absent(&n->in[i]))
            return mc_fail(MICA_EFORMAT, "operand %zu is absent", i);
    }
    return MICA_OK;
}

static mica_status evaluate(mc_onnx_node *n) {
    for (size_t i = 0; i < n->n_out; i++) {
        if (!mica_valid(n->out[i].x)) continue;
        MC_TRY(mica_eval(n->s, n->out[i].x));
        n->out[i] = (mc_onnx_value){.x = n->out[i].x,
                                    .small = n->out[i].small,
                                    .known = true,
                                    .charged = mica_array_bytes(n->out[i].x)};
    }
    return MICA_OK;
}

/* Whether results are there without being computed, as those of Constant and Shape. */
static bool all_known(const mc_onnx_node *n) {
    for (size_t i = 0; i < n->n_out; i++)
        if (mica_valid(n->out[i].x) && !n->out[i].known) return false;
    return true;
}

/* Whether a builder may compute what it needs: those of results whose length depends on values do,
 * of few elements. */
static bool may_fold(const mc_onnx_node *n) {
    static const char *const names[] = {"NonZero", "Compress", "Unique", "NonMaxSuppression"};
    int64_t size = 0;
    if (strstr(n->proto->op_type, "Sequence")) return false; /* its items are no results */
    for (size_t i = 0; i < n->n_in; i++)
        if (n->in[i].x.scope) size = mc_max(size, mica_array_size(n->in[i].x));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(n->proto->op_type, names[i]) == 0) return i < 3 && size <= SMALL;
    return true;
}

/* Builds a node: where all that it reads is known, in the scope of constants, and evaluates it. */
static mica_status build_node(mc_onnx_node *n, const mc_onnx_op *op) {
    bool known, folded = false;
    uint64_t bytes;
    double operations;
    MC_TRY(find_operands(n, &known));
    MC_TRY(check_present(n, op));
    known = known && may_fold(n);
    if (!known) MC_TRY(mc_onnx_fold_lengths(n, &folded));
    if (folded) return MICA_OK;
    for (size_t i = 0; i < n->n_in; i++)
        MC_TRY(mc_onnx_record_lengths(n->import, n->names->s, &n->in[i]));
    if (!known) return build(n, op, n->names->s);
    uint32_t first = mc_scope_count(n->import->constants);
    MC_TRY(build(n, op, n->import->constants));
    MC_TRY(work_since(n->import->constants, first, &operations));
    bool worth = worth_folding(n, operations, &bytes);
    if (all_known(n)) /* bytes of the file, which loops read again and again */
        return n->n_in == 0 ? mc_onnx_charge_again(n, bytes) : MICA_OK;
    if (!worth || n->open) {
        MC_TRY(find_operands(n, &known));
        return build(n, op, n->names->s);
    }
    n->import->fold_left -= bytes;
    n->import->work_left -= operations;
    return evaluate(n);
}

static mica_status define_results(mc_onnx_node *n) {
    for (size_t i = 0; i < n->n_out; i++) {
        const char *name = n->proto->output[i];
        if (!*name) continue;
        if (!mica_valid(n->out[i].x) && !n->out[i].lengths && !n->out[i].sequence)
            return mc_fail(MICA_EUNSUPPORTED, "result %zu, '%s', is not computed", i, name);
        MC_TRY(mc_onnx_define(n->import, n->names, name, &n->out[i]));
    }
    return MICA_OK;
}

static mica_status check_count(const mc_onnx_node *n, const mc_onnx_op *op) {
    size_t given = n->n_in;
    for (size_t i = 0; i < op->min_in && i < n->n_in; i++)
        if (!*n->proto->input[i]) given = i;
    if (given < op->min_in || n->n_in > op->max_in)
        return mc_fail(MICA_EFORMAT, "it has %zu operands", given);
    if (n->n_out == 0) return mc_fail(MICA_EFORMAT, "it has no results");
    return MICA_OK;
}

static mica_status build_counted(mc_onnx_node *n, const mc_onnx_op *op) {
    MC_TRY(check_count(n, op));
    n->in = mc_calloc(n->n_in + 1, sizeof *n->in);
    n->out = mc_calloc(n->n_out + 1, sizeof *n->out);
    mica_status status = n->in && n->out ? build_node(n, op) : mc_fail_nomem("a node");
    if (status == MICA_OK) status = define_results(n);
    mc_free(n->in);
    mc_free(n->out);
    return status;
}

/* Whether a node reads what comes from one that mica lacks something for. */
static bool reads_missing(const mc_onnx_import *import, const mc_onnx_names *names,
                          const mc_onnx_proto_node *proto) {
    mc_onnx_value value;
    for (size_t i = 0; i < proto->n_input; i++)
        if (*proto->input[i] && mc_onnx_lookup(import, names, proto->input[i], &value) == MICA_OK &&
            value.missing)
            return true;
    return false;
}

static mica_status define_missing(mc_onnx_import *import, mc_onnx_names *names,
                                  const mc_onnx_proto_node *proto) {
    const mc_onnx_value value = {.missing = true};
    for (size_t i = 0; i < proto->n_output; i++)
        if (*proto->output[i]) MC_TRY(mc_onnx_define(import, names, proto->output[i], &value));
    return MICA_OK;
}

static mica_status miss_op(mc_onnx_import *import, const mc_onnx_proto_node *proto,
                           const char *name) {
    char text[256];
    bool own = mc_onnx_is_own(proto->domain);
    snprintf(text, sizeof text, "operator %s%s%.100s of opset %lld", own ? "" : proto->domain,
             own ? "" : ".", proto->op_type,
             (long long)mc_onnx_version(import->model, proto->domain));
    return mc_onnx_miss(import, name, MC_ONNX_NEED_OP, text);
}

/* ---- functions ---- */

static mica_status define_inputs(mc_onnx_import *import, const mc_onnx_call *call,
                                 mc_onnx_names *own) {
    const mc_onnx_proto_node *node = call->node;
    if (node->n_input > call->function->n_input || node->n_output > call->function->n_output)
        return mc_fail(MICA_EFORMAT, "it has more operands or results than its function");
    for (size_t i = 0; i < call->function->n_input; i++) {
        mc_onnx_value value = {.known = false}; /* absent */
        if (i < node->n_input && *node->input[i]) {
            MC_TRY(mc_onnx_lookup(import, call->names, node->input[i], &value));
            if (mc_onnx_uses_of(import, node->input[i]) != 1)
                value.conv = NULL, value.product = NULL;
        }
        MC_TRY(mc_onnx_define(import, own, call->function->input[i], &value));
    }
    return MICA_OK;
}

/* The version of ONNX's own operators that a function is written in. */
static int64_t opset_of(const mc_onnx_function *f, int64_t otherwise) {
    for (size_t i = 0; i < f->n_opset_import; i++)
        if (mc_onnx_is_own(f->opset_import[i]->domain)) return f->opset_import[i]->version;
    return otherwise;
}

/* Records a function in place of a node that calls it. */
static mica_status call_function(mc_onnx_import *import, mc_onnx_names *names,
                                 const mc_onnx_proto_node *node, const mc_onnx_function *f) {
    const mc_onnx_call call = {.function = f, .node = node, .names = names};
    const mc_onnx_graph body = mc_onnx_body_of(f);
    int64_t opset = import->opset;
    mc_onnx_names own;
    mc_onnx_names_init(&own, names->s, NULL);
    own.call = &call;
    mica_status status = define_inputs(import, &call, &own);
    import->opset = opset_of(f, opset);
    if (status == MICA_OK) status = mc_onnx_read_graph(import, &own, &body);
    import->opset = opset;
    for (size_t i = 0; status == MICA_OK && i < node->n_output; i++) {
        mc_onnx_value value;
        if (!*node->output[i]) continue;
        status = mc_onnx_lookup(import, &own, f->output[i], &value);
        if (status == MICA_OK && is_absent(&value) && !value.missing)
            status = mc_fail(MICA_EFORMAT, "result %zu of its function is absent", i);
        if (status == MICA_OK) status = mc_onnx_define(import, names, node->output[i], &value);
    }
    mc_onnx_names_deinit(&own);
    return status;
}

/* ---- graphs ---- */

/* Takes a node, and the values that it reads and makes, from what may still be recorded. */
static mica_status take_node(mc_onnx_import *import, const mc_onnx_names *names,
                             const mc_onnx_proto_node *proto, const mc_onnx_function *f) {
    uint64_t count = 1 + (f ? f->n_input : 0);
    if (is_repeated(names)) count += proto->n_input + proto->n_output;
    return mc_onnx_take_nodes(import, count);
}

/* Builds a node, and takes what it recorded beyond FREE_NODES where it may be built again: of nodes
 * with graphs, their nodes take it. */
static mica_status build_within(mc_onnx_node *n, const mc_onnx_op *op) {
    const mica_scope *s = n->names->s, *constants = n->import->constants;
    uint64_t before = (uint64_t)mc_scope_count(s) + mc_scope_count(constants);
    mica_status status = build_counted(n, op);
    uint64_t more = (uint64_t)mc_scope_count(s) + mc_scope_count(constants) - before;
    if (is_repeated(n->names) && !has_graph(n->proto) && more > FREE_NODES)
        MC_TRY(mc_onnx_take_nodes(n->import, more - FREE_NODES)); /* also where it failed */
    return status;
}

/* Builds a node. Where mica lacks something for it, this is noted, and its results are missing. */
static mica_status read_node(mc_onnx_import *import, mc_onnx_names *names,
                             const mc_onnx_proto_node *proto, const char *name) {
    const mc_onnx_op *op = find_op(proto->op_type, proto->domain);
    mc_onnx_node n = {.import = import,
                      .names = names,
                      .proto = proto,
                      .n_in = proto->n_input,
                      .n_out = proto->n_output};
    size_t before = import->missed;
    const mc_onnx_function *f = mc_onnx_find_function(import, proto);
    MC_TRY(take_node(import, names, proto, f));
    if (!op && !f) MC_TRY(miss_op(import, proto, name));
    if ((!op && !f) || reads_missing(import, names, proto))
        return define_missing(import, names, proto);
    import->need = MC_ONNX_NEED_FORM;
    mica_status status = f ? call_function(import, names, proto, f) : build_within(&n, op);
    if (status != MICA_EUNSUPPORTED || mica_scope_status(names->s) != MICA_OK ||
        mica_scope_status(import->constants) != MICA_OK || import->nodes_left < 0)
        return status;
    if (import->missed == before) { /* not within one of its graphs */
        char text[512];
        snprintf(text, sizeof text, "%s: %.400s", proto->op_type, mica_last_error());
        MC_TRY(mc_onnx_miss(import, name, import->need, text));
    }
    return define_missing(import, names, proto);
}

static mica_status read_initializers(mc_onnx_import *import, mc_onnx_names *names,
                                     const mc_onnx_graph *graph) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const mc_onnx_tensor *t = graph->initializer[i];
        const char *name = t->name ? t->name : "";
        mc_onnx_value value = {.known = true, .small = mc_onnx_small_of(t->data_type)};
        bool used = mc_onnx_uses_of(import, name) > 0; /* else it is not copied */
        mica_status status = is_repeated(names) ? mc_onnx_take_nodes(import, 1) : MICA_OK;
        if (status == MICA_OK)
            status = mc_onnx_tensor_array(t, &import->outside, used ? import->constants : NULL,
                                          &value.x);
        if (status == MICA_OK) status = charge_again(import, names, mica_array_bytes(value.x));
        if (status == MICA_OK) status = mc_onnx_define(import, names, name, &value);
        if (status == MICA_EUNSUPPORTED && !used) status = MICA_OK; /* nothing needs it */
        if (status != MICA_OK) return mc_fail_context(status, "tensor '%s'", name);
    }
    return MICA_OK;
}

/* A node as texts name it: by its name, or by its number and operator. */
static void name_node(const mc_onnx_proto_node *node, size_t i, char name[NODE_NAME]) {
    if (node->name && *node->name)
        snprintf(name, NODE_NAME, "node %zu, %.60s %.100s", i, node->op_type, node->name);
    else
        snprintf(name, NODE_NAME, "node %zu, %.60s", i, node->op_type);
}

static mica_status read_nodes(mc_onnx_import *import, mc_onnx_names *names,
                              const mc_onnx_graph *graph, const uint32_t *order) {
    for (size_t at = 0; at < graph->n_node; at++) {
        const mc_onnx_proto_node *node = graph->node[order[at]];
        char name[NODE_NAME];
        name_node(node, order[at], name);
        mica_status status = read_node(import, names, node, name);
        if (status == MICA_OK && !is_repeated(names)) forget_read(import, names, node);
        for (size_t k = 0; status == MICA_OK && !is_repeated(names) && k < node->n_output; k++)
            forget(import, names, node->output[k], 0); /* what nothing reads */
        if (status != MICA_OK) return mc_fail_context(status, "%s", name);
    }
    return MICA_OK;
}

mica_status mc_onnx_read_graph(mc_onnx_import *import, mc_onnx_names *names,
                               const mc_onnx_graph *graph) {
    if (import->depth >= MAX_DEPTH)
        return mc_fail(MICA_EUNSUPPORTED, "graphs and functions nest more than %d deep", MAX_DEPTH);
    import->depth++;
    uint32_t *order = mc_array_alloc(graph->n_node + 1, sizeof *order);
    mica_status status = order ? mc_onnx_order(graph, order) : mc_fail_nomem("a graph");
    if (status == MICA_OK) status = read_initializers(import, names, graph);
    if (status == MICA_OK) status = read_nodes(import, names, graph, order);
    mc_free(order);
    import->depth--;
    return status;
}
