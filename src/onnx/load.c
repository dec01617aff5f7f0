#include <mica/onnx.h>

#include "base/alloc.h"
#include "base/integer.h"
#include "base/options.h"
#include "onnx/import.h"

#include <mica/ops.h>

#include <stdio.h>
#include <string.h>

enum {
    FOLD_BYTES = 1 << 27,   /* of constants that are computed at one time, */
    FOLD_BYTES_BY_BYTE = 8, /* and for each byte of the file and of those beside it */
    FOLD_WORK_BY_BYTE = 64, /* see FOLD_WORK */
    MAX_MISSING = 256,      /* operators that are told apart */
    MAX_LISTED = 24,
    MAX_OPEN = 600,
    OLDEST_OPSET = 13,
    NEWEST_OPSET = 28
};

static const double FOLD_WORK = 4e9; /* operations to compute constants: a second or two */

/* ---- what mica lacks ---- */

/* Operators that are missing, and how many nodes each has. */
typedef struct missing {
    const char *name, *domain;
    uint64_t nodes;
} missing;

/* Takes the nodes of a graph, and of those within, from what is left. */
static mica_status count_nodes(const mc_onnx_graph *graph, size_t *left) {
    if (graph->n_node > *left)
        return mc_fail(MICA_EUNSUPPORTED, "it has more nodes than mica reads, which is %d",
                       MC_ONNX_NODES);
    *left -= graph->n_node;
    for (size_t i = 0; i < graph->n_node; i++) {
        const mc_onnx_proto_node *node = graph->node[i];
        for (size_t k = 0; k < node->n_attribute; k++) /* no deeper than MC_ONNX_DEPTH */
            if (node->attribute[k]->g) MC_TRY(count_nodes(node->attribute[k]->g, left));
    }
    return MICA_OK;
}

static mica_status count_missing(const mc_onnx_graph *graph, mc_buffer *found) {
    for (size_t i = 0; i < graph->n_node; i++) {
        const mc_onnx_proto_node *node = graph->node[i];
        const char *name = node->op_type ? node->op_type : "";
        const char *domain = mc_onnx_is_own(node->domain) ? "" : node->domain;
        for (size_t k = 0; k < node->n_attribute; k++) /* no deeper than MC_ONNX_DEPTH */
            if (node->attribute[k]->g) MC_TRY(count_missing(node->attribute[k]->g, found));
        if (mc_onnx_find_op(node->op_type, node->domain)) continue;
        missing *rows = MC_BUFFER_AT(found, missing);
        size_t n = MC_BUFFER_COUNT(found, missing), at = 0;
        while (at < n && (strcmp(rows[at].name, name) != 0 || strcmp(rows[at].domain, domain) != 0))
            at++;
        if (at < n)
            rows[at].nodes++;
        else if (!mc_buffer_add(found, &(missing){name, domain, 1}, sizeof(missing)))
            return mc_fail_nomem("the operators of a graph");
        if (n > MAX_MISSING)
            return mc_fail(MICA_EUNSUPPORTED, "it has hundreds of unknown operators");
    }
    return MICA_OK;
}

static int64_t version_of(const mc_onnx_model *model, const char *domain) {
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *name = model->opset_import[i]->domain;
        if (mc_onnx_is_own(domain) ? mc_onnx_is_own(name) : name && strcmp(name, domain) == 0)
            return model->opset_import[i]->version;
    }
    return 0;
}

static mica_status fail_missing(const mc_onnx_model *model, const mc_buffer *found) {
    mc_buffer text = {0};
    size_t n = MC_BUFFER_COUNT(found, missing);
    bool ok = true;
    for (size_t i = 0; ok && i < n && i < MAX_LISTED; i++) {
        const missing *row = &MC_BUFFER_AT(found, missing)[i];
        ok = mc_buffer_printf(&text, "%s%s%s%.40s (version %lld, %llu node%s)", i > 0 ? ", " : "",
                              row->domain, *row->domain ? "." : "", row->name,
                              (long long)version_of(model, row->domain),
                              (unsigned long long)row->nodes, row->nodes == 1 ? "" : "s");
    }
    if (ok && n > MAX_LISTED) ok = mc_buffer_printf(&text, " and %zu more", n - MAX_LISTED);
    mica_status status =
        ok && mc_buffer_cstr(&text)
            ? mc_fail(MICA_EUNSUPPORTED, "mica lacks %zu of its operators: %s", n, text.data)
            : mc_fail_nomem("the operators of a graph");
    mc_buffer_deinit(&text);
    return status;
}

static mica_status check_operators(const mc_onnx_model *model) {
    mc_buffer found = {0};
    int64_t version = version_of(model, "");
    if (version < OLDEST_OPSET || version > NEWEST_OPSET)
        return mc_fail(MICA_EUNSUPPORTED, "its opset is %lld; mica reads %d to %d",
                       (long long)version, OLDEST_OPSET, NEWEST_OPSET);
    size_t left = MC_ONNX_NODES;
    MC_TRY(count_nodes(model->graph, &left));
    mica_status status = count_missing(model->graph, &found);
    if (status == MICA_OK && found.len > 0) status = fail_missing(model, &found);
    mc_buffer_deinit(&found);
    return status;
}

/* ---- inputs ---- */

/* A length: a number of the file, or by its name of the options. */
static bool find_length(const mc_onnx_import *import, const char *input, size_t axis,
                        const Mc__Onnx__Dimension *dim, char name[256], int64_t *length) {
    *length = dim->dim_value;
    if (dim->has_dim_value && dim->dim_value >= 0) return true;
    if (dim->dim_param && *dim->dim_param)
        snprintf(name, 256, "%s", dim->dim_param);
    else
        snprintf(name, 256, "%.200s.%zu", input, axis);
    for (size_t i = 0; i < import->options->n_dims; i++) {
        const mica_onnx_dim *given = &import->options->dims[i];
        *length = given->length;
        if (given->name && strcmp(given->name, name) == 0) return true;
    }
    return false;
}

/* Names of lengths that nobody gave. */
typedef struct open_lengths {
    mc_map seen;
    mc_arena names;
    mc_buffer text; /* the first ones */
    size_t more;
} open_lengths;

static mica_status add_open(open_lengths *open, const char *name) {
    uint64_t there;
    if (mc_map_find(&open->seen, mc_str_of(name), &there)) return MICA_OK;
    const char *own = mc_arena_strndup(&open->names, name, strlen(name));
    if (!own || !mc_map_put(&open->seen, mc_str_of(own), 0))
        return mc_fail_nomem("the lengths of a graph");
    if (open->text.len > MAX_OPEN) {
        open->more++;
        return MICA_OK;
    }
    return mc_buffer_printf(&open->text, "%s%s", open->text.len > 0 ? ", " : "", name)
               ? MICA_OK
               : mc_fail_nomem("the lengths of a graph");
}

static mica_status fail_open(open_lengths *open) {
    if (open->text.len == 0) return MICA_OK;
    if ((open->more > 0 && !mc_buffer_printf(&open->text, " and %zu more", open->more)) ||
        !mc_buffer_cstr(&open->text))
        return mc_fail_nomem("the lengths of a graph");
    return mc_fail(MICA_EINVAL, "these lengths have no number: %s; say each (--dim NAME=N)",
                   open->text.data);
}

static void close_open(open_lengths *open) {
    mc_map_deinit(&open->seen);
    mc_arena_deinit(&open->names);
    mc_buffer_deinit(&open->text);
}

/* An input's shape; names of lengths that nobody gave are added to a list. */
static mica_status shape_of(const mc_onnx_import *import, const mc_onnx_port *port,
                            int64_t shape[MICA_MAX_NDIM], int *ndim, open_lengths *open) {
    const Mc__Onnx__Shape *s = port->type->tensor_type->shape;
    char name[256];
    if (!s) return mc_fail(MICA_EUNSUPPORTED, "its number of axes is not told");
    if (s->n_dim > MICA_MAX_NDIM)
        return mc_fail(MICA_EUNSUPPORTED, "it has %zu axes; mica has %d", s->n_dim, MICA_MAX_NDIM);
    *ndim = (int)s->n_dim;
    for (size_t k = 0; k < s->n_dim; k++) {
        shape[k] = 1;
        if (find_length(import, port->name, k, s->dim[k], name, &shape[k])) continue;
        shape[k] = 1;
        MC_TRY(add_open(open, name));
    }
    return MICA_OK;
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

/* params [inputs of the graph] receives those without an initializer. */
static mica_status read_inputs(mc_onnx_import *import, mc_onnx_names *names,
                               const mc_onnx_graph *graph, mica_param *params, size_t *n) {
    open_lengths open = {.more = 0};
    mc_map initializers = {0};
    uint64_t there;
    mica_status status = list_initializers(graph, &initializers);
    for (size_t i = 0; status == MICA_OK && i < graph->n_input; i++) {
        const mc_onnx_port *port = graph->input[i];
        int64_t shape[MICA_MAX_NDIM];
        int ndim = 0;
        mica_dtype dtype;
        mc_onnx_value value = {.known = false};
        if (!port->name) port = NULL;
        if (port && mc_map_find(&initializers, mc_str_of(port->name), &there)) continue;
        if (!port || !port->type || !port->type->tensor_type)
            status = mc_fail(MICA_EUNSUPPORTED, "it is no tensor");
        if (status == MICA_OK) status = mc_onnx_dtype(port->type->tensor_type->elem_type, &dtype);
        if (status == MICA_OK) status = shape_of(import, port, shape, &ndim, &open);
        if (status == MICA_OK) {
            value.x = add_param(import, port, dtype, shape, ndim, &params[(*n)++]);
            status = mica_scope_status(import->s);
        }
        if (status == MICA_OK) status = mc_onnx_define(import, names, port->name, &value);
        if (status != MICA_OK)
            status = mc_fail_context(status, "input '%s'", port ? port->name : "");
    }
    if (status == MICA_OK) status = fail_open(&open);
    close_open(&open);
    mc_map_deinit(&initializers);
    return status;
}

/* ---- the program ---- */

static mica_status find_results(mc_onnx_import *import, mc_onnx_names *names,
                                const mc_onnx_graph *graph, mica_array *results,
                                const char **result_names) {
    if (graph->n_output == 0) return mc_fail(MICA_EFORMAT, "its graph has no outputs");
    for (size_t i = 0; i < graph->n_output; i++) {
        mc_onnx_value value;
        result_names[i] = graph->output[i]->name ? graph->output[i]->name : "";
        MC_TRY(mc_onnx_lookup(import, names, result_names[i], &value));
        results[i] = value.x.scope == import->s ? value.x : mica_detach(import->s, value.x);
        if (is_double(graph->output[i])) results[i] = mica_astype(import->s, results[i], MICA_F64);
    }
    return mica_scope_status(import->s);
}

static mica_status build(mc_onnx_import *import, const mc_onnx_graph *graph, mica_param *params,
                         mica_array *results, const char **result_names, mica_program **program) {
    size_t n = 0;
    mc_onnx_names names;
    mc_onnx_names_init(&names, import->s, NULL);
    mica_status status = mc_onnx_count_uses(import, graph);
    if (status == MICA_OK) status = read_inputs(import, &names, graph, params, &n);
    if (status == MICA_OK) status = mc_onnx_read_graph(import, &names, graph);
    if (status == MICA_OK) status = find_results(import, &names, graph, results, result_names);
    const mica_program_options options = {.struct_bytes = sizeof options,
                                          .result_names = result_names};
    if (status == MICA_OK)
        status =
            mica_program_build(import->s, params, n, results, graph->n_output, &options, program);
    mc_onnx_names_deinit(&names);
    return status;
}

static mica_status import_model(mc_onnx_import *import, const mc_onnx_model *model,
                                mica_program **program) {
    const mc_onnx_graph *graph = model->graph;
    MC_TRY(check_operators(model));
    import->opset = version_of(model, "");
    MC_TRY(mica_scope_open(import->device, &import->constants));
    MC_TRY(mica_scope_open(import->device, &import->s));
    mica_param *params = mc_calloc(graph->n_input + 1, sizeof *params);
    mica_array *results = mc_calloc(graph->n_output + 1, sizeof *results);
    const char **names = mc_calloc(graph->n_output + 1, sizeof *names);
    mica_status status = params && results && names
                             ? build(import, graph, params, results, names, program)
                             : mc_fail_nomem("a graph");
    mc_free(params);
    mc_free(results);
    mc_free(names);
    return status;
}

static mica_status load(mica_device *device, const void *data, size_t bytes, const char *folder,
                        const mica_onnx_options *options, mica_program **program) {
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
    mica_status status = import_model(&import, model, program);
    mica_scope_close(&import.s);
    mica_scope_close(&import.constants);
    mc_onnx_outside_close(&import.outside);
    mc_arena_deinit(&import.arena);
    mc_buffer_deinit(&import.values);
    mc_buffer_deinit(&import.holders);
    mc_map_deinit(&import.uses);
    mc_onnx_close(&model);
    return status;
}

static mica_status check(mica_device *device, const void *source, mica_program **program,
                         const mica_onnx_options *given, mica_onnx_options *options) {
    if (program) *program = NULL;
    if (!device || !source || !program) return mc_fail(MICA_EINVAL, "mica_onnx_load: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_onnx_options, n_dims, options, given));
    for (size_t i = 0; i < options->n_dims; i++)
        if (!options->dims || options->dims[i].length < 0)
            return mc_fail(MICA_EINVAL, "mica_onnx_load: a length is negative");
    return MICA_OK;
}

mica_status mica_onnx_decode(mica_device *device, const void *data, size_t bytes,
                             const mica_onnx_options *given, mica_program **program) {
    mica_onnx_options options;
    MC_TRY(check(device, data, program, given, &options));
    return load(device, data, bytes, NULL, &options, program);
}

mica_status mica_onnx_load(mica_device *device, const char *path, const mica_onnx_options *given,
                           mica_program **program) {
    mica_onnx_options options;
    mc_filemap map = {0};
    MC_TRY(check(device, path, program, given, &options));
    MC_TRY(mc_filemap_open(path, MC_FILE_ONNX, &map));
    const char *slash = strrchr(path, '/');
    char *folder = slash ? mc_strndup(path, (size_t)(slash - path) + 1) : mc_strdup(".");
    mica_status status =
        folder ? load(device, map.data, map.size, folder, &options, program) : mc_fail_nomem(path);
    mc_free(folder);
    mc_filemap_close(&map);
    return status == MICA_OK ? MICA_OK : mc_fail_context(status, "%s", path);
}
