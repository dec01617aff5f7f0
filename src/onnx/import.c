#include "onnx/import.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "op/work.h"

#include <math.h>
#include <string.h>

enum {
    LARGE = 1 << 22, /* elements that are computed while importing, if no operand has so many */
    SMALL = 1 << 12  /* operations that are computed whatever has been: lengths, axes */
};

static const uint64_t NEVER = (uint64_t)1 << 40; /* uses of what is not released */

/* ---- operators ---- */

static const mc_onnx_op ops[] = {
#define ONNX_OP(name, min_in, max_in, build) {#name, min_in, max_in, build},
#include "onnx/op_list.h"
#undef ONNX_OP
};

enum { OP_COUNT = sizeof ops / sizeof ops[0] };

size_t mica_onnx_op_count(void) {
    return OP_COUNT;
}

const char *mica_onnx_op_name(size_t i) {
    return i < OP_COUNT ? ops[i].name : NULL;
}

bool mc_onnx_is_own(const char *domain) {
    return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

const mc_onnx_op *mc_onnx_find_op(const char *name, const char *domain) {
    if (!mc_onnx_is_own(domain)) return NULL;
    for (size_t i = 0; name && i < OP_COUNT; i++)
        if (strcmp(ops[i].name, name) == 0) return &ops[i];
    return NULL;
}

/* ---- names ---- */

void mc_onnx_names_init(mc_onnx_names *names, mica_scope *s, mc_onnx_names *outer) {
    *names = (mc_onnx_names){.s = s, .outer = outer};
}

void mc_onnx_names_deinit(mc_onnx_names *names) {
    mc_map_deinit(&names->map);
}

/* How often an array of the constants is held; NULL: it is none, or never was. */
static uint32_t *holders_of(const mc_onnx_import *import, mica_array x) {
    size_t count = MC_BUFFER_COUNT(&import->holders, uint32_t);
    if (!mica_valid(x) || x.scope != import->constants || x.node >= count) return NULL;
    return &MC_BUFFER_AT(&import->holders, uint32_t)[x.node];
}

mica_status mc_onnx_hold(mc_onnx_import *import, mica_array x) {
    static const uint32_t none;
    if (!mica_valid(x) || x.scope != import->constants) return MICA_OK;
    while (MC_BUFFER_COUNT(&import->holders, uint32_t) <= x.node)
        if (!mc_buffer_add(&import->holders, &none, sizeof none))
            return mc_fail_nomem("the values of a graph");
    ++*holders_of(import, x);
    return MICA_OK;
}

static void release(mc_onnx_import *import, mica_array x) {
    uint32_t *holders = holders_of(import, x);
    if (holders && --*holders == 0) mica_array_release(x);
}

static uint64_t count_of_uses(const mc_onnx_import *import, const char *name) {
    uint64_t uses = 0;
    (void)mc_map_find(&import->uses, mc_str_of(name), &uses);
    return uses;
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
        named->form->uses += names->outer ? NEVER : count_of_uses(import, name);
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

mica_status mc_onnx_constant(mc_onnx_import *import, const void *data, mica_dtype dtype,
                             const int64_t *shape, int ndim, mc_onnx_value *value) {
    *value = (mc_onnx_value){.known = true};
    value->x = mica_from_data(import->constants, data, dtype, shape, ndim);
    return mica_scope_status(import->constants);
}

/* ---- what a file may cost ---- */

mica_status mc_onnx_charge(mc_onnx_import *import, uint64_t bytes) {
    if (bytes > import->fold_left)
        return mc_fail(MICA_EUNSUPPORTED, "its constants take too much memory");
    import->fold_left -= bytes;
    return MICA_OK;
}

/* Takes one from what may still be recorded, in rounds of loops most of all. */
static mica_status count_one(mc_onnx_import *import) {
    if (import->nodes_left-- > 0) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "it has too many nodes, with those of every round of its loops: mica records %d",
                   MC_ONNX_NODES);
}

static mica_status count_use(mc_onnx_import *import, const char *name) {
    uint64_t uses = count_of_uses(import, name) + 1;
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
    release(import, value->x);
    release(import, value->form->x);
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

/* The operands of a node; *known: it can be computed while importing. */
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
    mica_status status = op->build(n);
    if (n->import->mistyped)
        return mc_fail(MICA_EFORMAT, "its attribute '%s' is of another type", n->import->mistyped);
    n->import->mistyped = outer;
    MC_TRY(status);
    return mica_scope_status(s);
}

static mica_status evaluate(mc_onnx_node *n) {
    for (size_t i = 0; i < n->n_out; i++) {
        if (!mica_valid(n->out[i].x)) continue;
        MC_TRY(mica_eval(n->s, n->out[i].x));
        n->out[i] = (mc_onnx_value){
            .x = n->out[i].x, .known = true, .charged = mica_array_bytes(n->out[i].x)};
    }
    return MICA_OK;
}

/* Whether results are there without being computed, as those of Constant and Shape. */
static bool all_known(const mc_onnx_node *n) {
    for (size_t i = 0; i < n->n_out; i++)
        if (mica_valid(n->out[i].x) && !n->out[i].known) return false;
    return true;
}

/* Builds a node: where all that it reads is known, in the scope of constants, and evaluates it. */
static mica_status build_node(mc_onnx_node *n, const mc_onnx_op *op) {
    bool known;
    uint64_t bytes;
    double operations;
    MC_TRY(find_operands(n, &known));
    if (!known) return build(n, op, n->names->s);
    uint32_t first = mc_scope_count(n->import->constants);
    MC_TRY(build(n, op, n->import->constants));
    MC_TRY(work_since(n->import->constants, first, &operations));
    bool worth = worth_folding(n, operations, &bytes);
    if (all_known(n)) /* bytes of the file, which loops read again and again */
        return n->names->outer && n->n_in == 0 ? mc_onnx_charge(n->import, bytes) : MICA_OK;
    if (!worth) return build(n, op, n->names->s);
    n->import->fold_left -= bytes;
    n->import->work_left -= operations;
    return evaluate(n);
}

static mica_status define_results(mc_onnx_node *n) {
    for (size_t i = 0; i < n->n_out; i++) {
        const char *name = n->proto->output[i];
        if (!*name) continue;
        if (!mica_valid(n->out[i].x))
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

static mica_status read_node(mc_onnx_import *import, mc_onnx_names *names,
                             const mc_onnx_proto_node *proto) {
    const mc_onnx_op *op = mc_onnx_find_op(proto->op_type, proto->domain);
    mc_onnx_node n = {.import = import, .names = names, .proto = proto};
    if (!op) return mc_fail(MICA_EUNSUPPORTED, "there is no operator '%s'", proto->op_type);
    MC_TRY(count_one(import));
    n.n_in = proto->n_input;
    n.n_out = proto->n_output;
    mica_status status = check_count(&n, op);
    n.in = mc_calloc(n.n_in + 1, sizeof *n.in);
    n.out = mc_calloc(n.n_out + 1, sizeof *n.out);
    if (status == MICA_OK && !(n.in && n.out)) status = mc_fail_nomem("a node");
    if (status == MICA_OK) status = build_node(&n, op);
    if (status == MICA_OK) status = define_results(&n);
    mc_free(n.in);
    mc_free(n.out);
    return status;
}

/* ---- graphs ---- */

static mica_status read_initializers(mc_onnx_import *import, mc_onnx_names *names,
                                     const mc_onnx_graph *graph) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const mc_onnx_tensor *t = graph->initializer[i];
        const char *name = t->name ? t->name : "";
        mc_onnx_value value = {.known = true};
        bool used = count_of_uses(import, name) > 0; /* else it is not copied */
        mica_status status = names->outer ? count_one(import) : MICA_OK;
        if (status == MICA_OK)
            status = mc_onnx_tensor_array(t, &import->outside, used ? import->constants : NULL,
                                          &value.x);
        if (status == MICA_OK && names->outer)
            status = mc_onnx_charge(import, mica_array_bytes(value.x));
        if (status == MICA_OK) status = mc_onnx_define(import, names, name, &value);
        if (status != MICA_OK) return mc_fail_context(status, "tensor '%s'", name);
    }
    return MICA_OK;
}

mica_status mc_onnx_read_graph(mc_onnx_import *import, mc_onnx_names *names,
                               const mc_onnx_graph *graph) {
    MC_TRY(read_initializers(import, names, graph));
    for (size_t i = 0; i < graph->n_node; i++) {
        const mc_onnx_proto_node *node = graph->node[i];
        mica_status status = read_node(import, names, node);
        if (status == MICA_OK && !names->outer) forget_read(import, names, node);
        for (size_t k = 0; status == MICA_OK && !names->outer && k < node->n_output; k++)
            forget(import, names, node->output[k], 0); /* what nothing reads */
        if (status != MICA_OK)
            return mc_fail_context(
                status, "node %zu, %s%s%s", i, node->op_type ? node->op_type : "",
                node->name && *node->name ? " " : "", node->name ? node->name : "");
    }
    return MICA_OK;
}
