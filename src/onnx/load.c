#include <mica/onnx.h>

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/integer.h"
#include "base/options.h"
#include "graph/graph.h"
#include "onnx/import.h"

#include <mica/ops.h>

#include <stdio.h>
#include <string.h>

enum {
    FOLD_BYTES = 1 << 27,   /* of constants that are computed at one time, */
    FOLD_BYTES_BY_BYTE = 8, /* and for each byte of the file and of those beside it */
    FOLD_WORK_BY_BYTE = 64, /* see FOLD_WORK */
    MAX_OPEN = 600,         /* bytes of names that are listed */
    MAX_SYMBOL = 63,        /* bytes of a symbol's name */
    OLDEST_OPSET = 6,
    NEWEST_OPSET = 28
};

static const double FOLD_WORK = 4e9; /* operations to compute constants: a second or two */

/* ---- what the file is of ---- */

/* Takes the nodes of a graph, and of those within, which have operators, from what is left. */
static mica_status count_nodes(const mc_onnx_graph *graph, size_t *left) {
    if (graph->n_node > *left)
        return mc_fail(MICA_EUNSUPPORTED, "it has more nodes than mica reads, which is %d",
                       MC_ONNX_NODES);
    *left -= graph->n_node;
    for (size_t i = 0; i < graph->n_node; i++) {
        const mc_onnx_proto_node *node = graph->node[i];
        if (!node->op_type) return mc_fail(MICA_EFORMAT, "node %zu has no operator", i);
        for (size_t k = 0; k < node->n_attribute; k++) /* no deeper than MC_ONNX_DEPTH */
            if (node->attribute[k]->g) MC_TRY(count_nodes(node->attribute[k]->g, left));
    }
    return MICA_OK;
}

static mica_status count_model(const mc_onnx_model *model) {
    size_t left = MC_ONNX_NODES;
    MC_TRY(count_nodes(model->graph, &left));
    for (size_t i = 0; i < model->n_functions; i++) {
        const mc_onnx_graph body = mc_onnx_body_of(model->functions[i]);
        MC_TRY(count_nodes(&body, &left));
    }
    return MICA_OK;
}

/* Counts what the graph reads, and what functions read. */
static mica_status count_uses(mc_onnx_import *import, const mc_onnx_graph *graph) {
    MC_TRY(mc_onnx_count_uses(import, graph));
    for (size_t i = 0; i < import->model->n_functions; i++) {
        const mc_onnx_graph body = mc_onnx_body_of(import->model->functions[i]);
        MC_TRY(mc_onnx_count_uses(import, &body));
    }
    return MICA_OK;
}

/* Notes an opset that mica does not read; the nodes are looked at all the same. */
static mica_status check_opset(mc_onnx_import *import) {
    char text[128];
    if (import->opset >= OLDEST_OPSET && import->opset <= NEWEST_OPSET) return MICA_OK;
    snprintf(text, sizeof text, "opset %lld, where mica reads %d to %d: export it with another",
             (long long)import->opset, OLDEST_OPSET, NEWEST_OPSET);
    return mc_onnx_miss(import, "the file", MC_ONNX_NEED_TOLD, text);
}

/* ---- inputs ---- */

/* The option for a length by a name, and that it is used so; NULL: there is none. */
static const mica_onnx_dim *find_dim(mc_onnx_import *import, const char *name, mc_onnx_use use) {
    for (size_t i = 0; i < import->options->n_dims; i++) {
        const mica_onnx_dim *given = &import->options->dims[i];
        if (!given->name || strcmp(given->name, name) != 0) continue;
        if (import->dims_used[i] < use) import->dims_used[i] = use;
        return given;
    }
    return NULL;
}

/* A length: a number of the file or of the options, where it is named by its place or by its name;
 * else a symbol. */
static mica_status find_length(mc_onnx_import *import, const char *input, size_t axis,
                               const Mc__Onnx__Dimension *dim, int64_t *length) {
    char place[256];
    bool fixed = dim->has_dim_value && dim->dim_value >= 0;
    const char *name = fixed ? NULL : mc_onnx_length_name(dim);
    snprintf(place, sizeof place, "%.200s.%zu", input, axis);
    const mica_onnx_dim *given = find_dim(import, place, MC_ONNX_USED), *by_name = NULL;
    if (name) by_name = find_dim(import, name, given ? MC_ONNX_HIDDEN : MC_ONNX_USED);
    if (!given) given = by_name;
    if (fixed && given && given->length != dim->dim_value)
        return mc_fail(MICA_EINVAL, "axis %zu is %lld in the file, and cannot be %lld", axis,
                       (long long)dim->dim_value, (long long)given->length);
    *length = fixed ? dim->dim_value : 0;
    if (fixed) return MICA_OK;
    if (given)
        *length = given->length;
    else
        *length = mica_program_dim(import->s, name && strlen(name) <= MAX_SYMBOL ? name : place);
    return mica_scope_status(import->s);
}

/* An input's shape. */
static mica_status shape_of(mc_onnx_import *import, const mc_onnx_port *port,
                            int64_t shape[MICA_MAX_NDIM], int *ndim) {
    const Mc__Onnx__Shape *s = port->type->tensor_type->shape;
    if (!s) return mc_fail(MICA_EUNSUPPORTED, "its number of axes is not told");
    if (s->n_dim > MICA_MAX_NDIM)
        return mc_fail(MICA_EUNSUPPORTED, "it has %zu axes; mica has %d", s->n_dim, MICA_MAX_NDIM);
    *ndim = (int)s->n_dim;
    for (size_t k = 0; k < s->n_dim; k++)
        MC_TRY(find_length(import, port->name, k, s->dim[k], &shape[k]));
    return MICA_OK;
}

/* What the options fix an input to; NULL: nothing. */
static const mica_named_array *find_fixed(mc_onnx_import *import, const char *name) {
    for (size_t i = 0; i < import->options->n_inputs; i++) {
        const mica_named_array *given = &import->options->inputs[i];
        if (!given->name || strcmp(given->name, name) != 0) continue;
        import->inputs_used[i] = true;
        return given;
    }
    return NULL;
}

/* Checks that an input of integers is fixed to such: x is what `given` becomes. */
static mica_status check_whole(mica_scope *s, mica_array given, mica_array x) {
    double same = 1;
    if (!mica_valid(x) || mica_dtype_is_float(mica_array_dtype(x))) return MICA_OK;
    mica_array back = mica_astype(s, x, mica_array_dtype(given));
    mica_array equal = mica_all(s, mica_equal(s, back, given), NULL, 0, false);
    MC_TRY(mica_eval(s, equal));
    MC_TRY(mica_item_f64(equal, &same));
    if (same != 0) return MICA_OK;
    return mc_fail(MICA_EINVAL, "what it is fixed to is no %s",
                   mica_dtype_name(mica_array_dtype(x)));
}

/* An input that is a constant: an array of its shape, or a number for all elements. */
static mica_status fix_input(mc_onnx_import *import, const mc_onnx_port *port, mica_array given,
                             mica_dtype dtype, mc_onnx_value *value) {
    const Mc__Onnx__Shape *s = port->type->tensor_type->shape;
    int64_t shape[MICA_MAX_NDIM];
    int ndim = 0;
    given = mica_detach(import->constants, given);
    mica_array x = mica_astype(import->constants, given, dtype);
    if (mica_valid(x)) MC_TRY(check_whole(import->constants, given, x));
    if (mica_valid(x) && mica_array_ndim(x) == 0) {
        MC_TRY(shape_of(import, port, shape, &ndim));
        for (int k = 0; k < ndim; k++)
            MC_TRY(mc_onnx_need_number(import, "its shape", shape[k]));
        x = mica_broadcast_to(import->constants, x, shape, ndim);
        if (mica_valid(x)) MC_TRY(mc_onnx_charge(import, mica_array_bytes(x)));
    } else if (mica_valid(x) && s) {
        bool fits = s->n_dim == (size_t)mica_array_ndim(x);
        for (size_t k = 0; fits && k < s->n_dim; k++)
            fits = !s->dim[k]->has_dim_value || s->dim[k]->dim_value < 0 ||
                   s->dim[k]->dim_value == mica_array_dim(x, (int)k);
        if (!fits) return mc_fail(MICA_ESHAPE, "what it is fixed to has another shape");
    }
    x = mica_contiguous(import->constants, x);
    value->x = x;
    value->known = true;
    return mica_eval(import->constants, x);
}

static mica_status list_initializers(const mc_onnx_graph *graph, mc_map *names) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const char *name = graph->initializer[i]->name;
        if (name && !mc_map_put(names, mc_str_of(name), 0))
            return mc_fail_nomem("the tensors of a graph");
    }
    return MICA_OK;
}

static bool is_double(const mc_onnx_port *port) {
    return port->type && port->type->tensor_type &&
           port->type->tensor_type->elem_type == MC_ONNX_DOUBLE;
}

/* A parameter of the program in the dtype that is computed with. */
static mica_array add_param(mc_onnx_import *import, const mc_onnx_port *port, mica_dtype dtype,
                            const int64_t *shape, int ndim, mica_param *param) {
    mica_dtype given = is_double(port) ? MICA_F64 : dtype;
    mica_array x = mica_program_param(import->s, given, shape, ndim);
    *param = (mica_param){.name = port->name, .array = x};
    return given == dtype ? x : mica_astype(import->s, x, dtype);
}

/* An input without an initializer: a parameter, unless the options fix it. */
static mica_status read_input(mc_onnx_import *import, const mc_onnx_port *port, mica_param *params,
                              size_t *n, mc_onnx_value *value) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = 0;
    mica_dtype dtype;
    const mica_named_array *fixed = find_fixed(import, port->name);
    if (!port->type || !port->type->tensor_type)
        return mc_fail(MICA_EUNSUPPORTED, "it is no tensor");
    MC_TRY(mc_onnx_any_dtype(port->type->tensor_type->elem_type, &dtype, &value->small));
    if (fixed) return fix_input(import, port, fixed->array, dtype, value);
    MC_TRY(shape_of(import, port, shape, &ndim));
    value->x = add_param(import, port, dtype, shape, ndim, &params[(*n)++]);
    if (is_double(port))
        MC_TRY(mc_onnx_note(import, "input '%.100s' is f64 and is computed in f32, of 24 bits",
                            port->name));
    return mica_scope_status(import->s);
}

/* params [inputs of the graph] receives those without an initializer. */
static mica_status read_inputs(mc_onnx_import *import, mc_onnx_names *names,
                               const mc_onnx_graph *graph, mica_param *params, size_t *n) {
    mc_map initializers = {0};
    uint64_t there;
    mica_status status = list_initializers(graph, &initializers);
    for (size_t i = 0; status == MICA_OK && i < graph->n_input; i++) {
        const mc_onnx_port *port = graph->input[i];
        mc_onnx_value value = {.known = false};
        char name[128];
        snprintf(name, sizeof name, "input '%.100s'", port->name ? port->name : "");
        if (!port->name) status = mc_fail(MICA_EFORMAT, "an input has no name");
        if (port->name && mc_map_find(&initializers, mc_str_of(port->name), &there)) continue;
        import->need = MC_ONNX_NEED_FORM;
        if (status == MICA_OK) status = read_input(import, port, params, n, &value);
        if (status == MICA_EUNSUPPORTED && mica_scope_status(import->s) == MICA_OK) {
            value = (mc_onnx_value){.missing = true};
            status = mc_onnx_miss(import, name, import->need, mica_last_error());
        }
        if (status == MICA_OK) status = mc_onnx_define(import, names, port->name, &value);
        if (status != MICA_OK) status = mc_fail_context(status, "%s", name);
    }
    mc_map_deinit(&initializers);
    return status;
}

/* Adds the names of an input's lengths to a text. */
static bool list_dims(const mc_onnx_port *port, mc_buffer *text) {
    bool ok = true;
    if (!port->name || !port->type || !port->type->tensor_type || !port->type->tensor_type->shape)
        return true;
    const Mc__Onnx__Shape *s = port->type->tensor_type->shape;
    for (size_t k = 0; ok && k < s->n_dim && text->len < MAX_OPEN; k++) {
        if (s->dim[k]->has_dim_value && s->dim[k]->dim_value >= 0) continue;
        ok = mc_buffer_printf(text, "%s%.100s.%zu", text->len > 0 ? ", " : "", port->name, k);
        const char *name = mc_onnx_length_name(s->dim[k]);
        if (ok && name) ok = mc_buffer_printf(text, " (%.100s)", name);
    }
    return ok;
}

/* Checks that all names of the options are there, once, and fix something. */
static mica_status check_names(const mc_onnx_import *import, const mc_onnx_graph *graph) {
    for (size_t i = 0; i < import->options->n_dims; i++)
        if (import->dims_used[i] == MC_ONNX_HIDDEN)
            return mc_fail(MICA_EINVAL,
                           "length '%.200s' is given, and so is the place of each axis of it",
                           import->options->dims[i].name);
    mc_buffer text = {0};
    const char *what = NULL, *name = NULL;
    bool ok = true;
    for (size_t i = 0; !what && i < import->options->n_dims; i++)
        if (import->dims_used[i] == MC_ONNX_NO_USE)
            what = "length", name = import->options->dims[i].name;
    for (size_t i = 0; what && ok && i < graph->n_input; i++)
        ok = list_dims(graph->input[i], &text);
    for (size_t i = 0; !what && i < import->options->n_inputs; i++)
        if (!import->inputs_used[i]) what = "input", name = import->options->inputs[i].name;
    if (!what) return MICA_OK;
    for (size_t i = 0; *what == 'i' && ok && i < graph->n_input && text.len < MAX_OPEN; i++)
        ok = mc_buffer_printf(&text, "%s%.100s", i > 0 ? ", " : "",
                              graph->input[i]->name ? graph->input[i]->name : "");
    ok = ok && mc_buffer_cstr(&text);
    mica_status status = ok ? mc_fail(MICA_ENOENT, "there is no %s '%.200s'; there are: %s", what,
                                      name ? name : "", text.len > 0 ? text.data : "none")
                            : mc_fail_nomem("the names of a graph");
    mc_buffer_deinit(&text);
    return status;
}

/* ---- the program ---- */

/* Results of a program, and counts that belong to them behind these. */
typedef struct outcome {
    mica_array *results; /* room for two of each output */
    const char **names;
    size_t n;
} outcome;

/* A count becomes a result, once. */
static mica_status add_count(mc_onnx_import *import, outcome *o, const char *name,
                             mica_array count) {
    for (size_t i = 0; i < o->n; i++)
        if (o->results[i].node == count.node) return MICA_OK;
    size_t bytes = strlen(name) + sizeof ".count";
    char *own = mc_arena_alloc(&import->arena, bytes);
    if (!own) return mc_fail_nomem("the results of a graph");
    snprintf(own, bytes, "%s.count", name);
    o->names[o->n] = own;
    o->results[o->n++] = count;
    return MICA_OK;
}

static mica_status find_results(mc_onnx_import *import, mc_onnx_names *names,
                                const mc_onnx_graph *graph, outcome *o) {
    mica_array *results = o->results;
    o->n = graph->n_output;
    if (graph->n_output == 0) return mc_fail(MICA_EFORMAT, "its graph has no outputs");
    for (size_t i = 0; i < graph->n_output; i++) {
        mc_onnx_value value;
        o->names[i] = graph->output[i]->name ? graph->output[i]->name : "";
        MC_TRY(mc_onnx_lookup(import, names, o->names[i], &value));
        if (value.missing) continue; /* which fails below */
        if (value.sequence)
            return mc_fail(MICA_EUNSUPPORTED, "result '%.100s': it is no tensor", o->names[i]);
        MC_TRY(mc_onnx_record_lengths(import, import->s, &value));
        results[i] = value.x.scope == import->s ? value.x : mica_detach(import->s, value.x);
        if (is_double(graph->output[i])) results[i] = mica_astype(import->s, results[i], MICA_F64);
        if (!value.bound) continue;
        value.x = results[i];
        results[i] = mc_onnx_trim(import->s, &value);
        MC_TRY(add_count(import, o, o->names[i], value.bound->count));
    }
    return mica_scope_status(import->s);
}

static mica_status build(mc_onnx_import *import, const mc_onnx_graph *graph, mica_param *params,
                         outcome *o, mica_program **program) {
    size_t n = 0;
    mc_onnx_names names;
    mc_onnx_names_init(&names, import->s, NULL);
    mica_status status = mc_onnx_list_functions(import);
    if (status == MICA_OK) status = count_uses(import, graph);
    if (status == MICA_OK) status = check_opset(import);
    if (status == MICA_OK) status = read_inputs(import, &names, graph, params, &n);
    if (status == MICA_OK && import->missed == 0) {
        status = check_names(import, graph);
        import->misnamed = status != MICA_OK;
    }
    if (status == MICA_OK) status = mc_onnx_read_graph(import, &names, graph);
    const mc_symbol *symbols;
    if (status == MICA_ESHAPE && mc_scope_symbols(import->s, &symbols) > 0)
        status =
            mc_fail(status, "%.800s (lengths are not fixed, such as %s: numbers for them may fit)",
                    mica_last_error(), symbols[0].name);
    if (status == MICA_OK || (status != MICA_ENOMEM && import->missed > 0)) {
        mica_status missing = mc_onnx_fail_missing(import);
        if (missing != MICA_OK) status = missing;
    }
    if (status == MICA_OK) status = find_results(import, &names, graph, o);
    const mica_program_options options = {.struct_bytes = sizeof options, .result_names = o->names};
    if (status == MICA_OK)
        status = mica_program_build(import->s, params, n, o->results, o->n, &options, program);
    mc_onnx_names_deinit(&names);
    return status;
}

static mica_status import_model(mc_onnx_import *import, const mc_onnx_model *model,
                                mica_program **program) {
    const mc_onnx_graph *graph = model->graph;
    import->opset = mc_onnx_version(model, "");
    if (import->opset == 0) import->opset = NEWEST_OPSET; /* its operators are of other domains */
    import->model = model;
    import->dims_used =
        mc_arena_calloc(&import->arena, (import->options->n_dims + 1) * sizeof *import->dims_used);
    import->inputs_used = mc_arena_calloc(&import->arena, import->options->n_inputs + 1);
    if (!import->dims_used || !import->inputs_used) return mc_fail_nomem("a graph");
    MC_TRY(mica_scope_open(import->device, &import->constants));
    MC_TRY(mica_scope_open(import->device, &import->s));
    mica_param *params = mc_calloc(graph->n_input + 1, sizeof *params);
    outcome o = {.results = mc_calloc(2 * graph->n_output + 1, sizeof *o.results),
                 .names = mc_calloc(2 * graph->n_output + 1, sizeof *o.names)};
    mica_status status = params && o.results && o.names ? build(import, graph, params, &o, program)
                                                        : mc_fail_nomem("a graph");
    mc_free(params);
    mc_free(o.results);
    mc_free(o.names);
    return status;
}

/* Adds what is missing to a text, or why else there is no program; MICA_OK then. */
static mica_status print_failure(const mc_onnx_import *import, mica_status status,
                                 mc_buffer *text) {
    if (status == MICA_OK || status == MICA_ENOMEM || import->misnamed) return status;
    bool ok = import->missed > 0
                  ? mc_buffer_add_text(text, "missing ") &&
                        mc_onnx_print_missing(import, "\nmissing ", SIZE_MAX, text) &&
                        mc_onnx_print_advice(import, "\nadvice ", "\nadvice ", text)
                  : mc_buffer_printf(text, "error %s", mica_last_error());
    return ok && mc_buffer_add_byte(text, '\n') ? MICA_OK : mc_fail_nomem("the text of a graph");
}

/* Gives what was noted to the caller, who asked for a program or for a text. */
static mica_status give_notes(mc_onnx_import *import, mica_status status, mc_buffer *text) {
    mc_buffer *notes = &import->notes;
    char **receiver = import->options->notes;
    if (status == MICA_OK && import->outside.rounds_f64)
        status = mc_onnx_note(import, "numbers of f64 tensors are rounded to f32, of 24 bits");
    if (status != MICA_OK || notes->len == 0) return status;
    if (text && !mc_buffer_add(text, notes->data, notes->len))
        return mc_fail_nomem("the text of a graph");
    if (receiver) *receiver = mc_buffer_take(notes);
    return !receiver || *receiver ? MICA_OK : mc_fail_nomem("the notes of a graph");
}

/* text receives what the file asks for and what of it is missing; NULL: that is an error. */
static mica_status load(mica_device *device, const void *data, size_t bytes, const char *folder,
                        const mica_onnx_options *options, mica_program **program, mc_buffer *text) {
    mc_onnx_model *model;
    mc_onnx_import import = {.device = device,
                             .options = options,
                             .outside = {.folder = folder,
                                         .more_left = &import.fold_left,
                                         .more_by_byte = FOLD_BYTES_BY_BYTE},
                             .fold_left = FOLD_BYTES + FOLD_BYTES_BY_BYTE * (uint64_t)bytes,
                             .work_left = FOLD_WORK + FOLD_WORK_BY_BYTE * (double)bytes,
                             .nodes_left = MC_ONNX_NODES};
    MC_TRY(mc_onnx_decode(data, bytes, &model));
    mica_status status = count_model(model);
    if (status == MICA_OK && text) status = mc_onnx_print(model, options, text);
    if (status == MICA_OK) status = import_model(&import, model, program);
    status = give_notes(&import, status, text);
    if (status != MICA_OK) mica_program_close(program);
    if (text) status = print_failure(&import, status, text);
    mica_scope_close(&import.s);
    mica_scope_close(&import.constants);
    mc_onnx_outside_close(&import.outside);
    mc_arena_deinit(&import.arena);
    mc_buffer_deinit(&import.values);
    mc_buffer_deinit(&import.holders);
    mc_buffer_deinit(&import.missing);
    mc_buffer_deinit(&import.notes);
    mc_map_deinit(&import.uses);
    mc_map_deinit(&import.functions);
    mc_onnx_close(&model);
    return status;
}

static mica_status check_once(const char *what, const char *a, const char *b) {
    if (!a || !b || strcmp(a, b) != 0) return MICA_OK;
    return mc_fail(MICA_EINVAL, "mica_onnx_load: %s '%.200s' is given twice", what, a);
}

static mica_status check_options(const mica_onnx_options *options) {
    if (options->n_dims > 0 && !options->dims)
        return mc_fail(MICA_EINVAL, "mica_onnx_load: the lengths are NULL");
    if (options->n_inputs > 0 && !options->inputs)
        return mc_fail(MICA_EINVAL, "mica_onnx_load: the inputs are NULL");
    for (size_t i = 0; i < options->n_dims; i++) {
        const mica_onnx_dim *dim = &options->dims[i];
        if (dim->length < 0) return mc_fail(MICA_EINVAL, "mica_onnx_load: a length is negative");
        for (size_t k = 0; k < i; k++)
            MC_TRY(check_once("length", dim->name, options->dims[k].name));
    }
    for (size_t i = 0; i < options->n_inputs; i++)
        for (size_t k = 0; k < i; k++)
            MC_TRY(check_once("input", options->inputs[i].name, options->inputs[k].name));
    return MICA_OK;
}

static mica_status check(mica_device *device, const void *source, mica_program **program,
                         const mica_onnx_options *given, mica_onnx_options *options) {
    if (program) *program = NULL;
    if (!device || !source || !program) return mc_fail(MICA_EINVAL, "mica_onnx_load: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_onnx_options, notes, options, given));
    if (options->notes) *options->notes = NULL;
    return check_options(options);
}

mica_status mica_onnx_decode(mica_device *device, const void *data, size_t bytes,
                             const mica_onnx_options *given, mica_program **program) {
    mica_onnx_options options;
    MC_TRY(check(device, data, program, given, &options));
    return load(device, data, bytes, NULL, &options, program, NULL);
}

static mica_status load_file(mica_device *device, const char *path, const mica_onnx_options *given,
                             mica_program **program, mc_buffer *text) {
    mica_onnx_options options;
    mc_filemap map = {0};
    MC_TRY(check(device, path, program, given, &options));
    MC_TRY(mc_filemap_open(path, MC_FILE_ONNX, &map));
    size_t n = (size_t)(mc_path_name(path) - path);
    char *folder = n > 0 ? mc_strndup(path, n) : mc_strdup(".");
    mica_status status = folder ? load(device, map.data, map.size, folder, &options, program, text)
                                : mc_fail_nomem(path);
    mc_free(folder);
    mc_filemap_close(&map);
    return status == MICA_OK ? MICA_OK : mc_fail_context(status, "%s", path);
}

mica_status mica_onnx_load(mica_device *device, const char *path, const mica_onnx_options *options,
                           mica_program **program) {
    return load_file(device, path, options, program, NULL);
}

mica_status mica_onnx_print(mica_device *device, const char *path, const mica_onnx_options *options,
                            char **text) {
    mc_buffer made = {0};
    mica_program *program = NULL;
    if (!text) return mc_fail(MICA_EINVAL, "mica_onnx_print: NULL");
    *text = NULL;
    mica_status status = load_file(device, path, options, &program, &made);
    mica_program_close(&program);
    if (status == MICA_OK) *text = mc_buffer_take(&made);
    if (status == MICA_OK && !*text) status = mc_fail_nomem("the text of a graph");
    mc_buffer_deinit(&made);
    return status;
}
