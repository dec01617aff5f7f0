/* What a file asks for, as text. */
#include "onnx/import.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPS = 1000 /* operators that are told apart */ };

const char *mc_onnx_length_name(const Mc__Onnx__Dimension *dim) {
    const char *name = dim->dim_param;
    return name && *name && strcmp(name, "?") != 0 && strcmp(name, "-1") != 0 ? name : NULL;
}

/* The number that the options fix a name to; -1: none. */
static int64_t find_dim(const mica_onnx_options *options, const char *name) {
    for (size_t i = 0; i < options->n_dims; i++)
        if (options->dims[i].name && strcmp(options->dims[i].name, name) == 0)
            return options->dims[i].length;
    return -1;
}

/* A length that the file leaves open: the options' number, its name, its place, or of a result
 * (axis SIZE_MAX) none of these. */
static bool print_open(const mc_onnx_port *port, const Mc__Onnx__Dimension *dim, size_t axis,
                       const mica_onnx_options *options, mc_buffer *text) {
    const char *name = mc_onnx_length_name(dim);
    char place[256];
    snprintf(place, sizeof place, "%.200s.%zu", port->name ? port->name : "", axis);
    int64_t fixed = axis == SIZE_MAX ? -1 : find_dim(options, place);
    if (fixed < 0 && name) fixed = find_dim(options, name);
    if (fixed >= 0) return mc_buffer_printf(text, "%lld", (long long)fixed);
    if (name) return mc_buffer_printf(text, "%.200s", name);
    if (axis == SIZE_MAX) return mc_buffer_add_byte(text, '?');
    return mc_buffer_add_text(text, place);
}

/* "f32[batch,3,x.2]" */
static bool print_type(const mc_onnx_port *port, bool places, const mica_onnx_options *options,
                       mc_buffer *text) {
    mica_dtype dtype;
    const Mc__Onnx__TensorType *type = port->type ? port->type->tensor_type : NULL;
    if (!type) return mc_buffer_add_text(text, "no tensor");
    const mc_onnx_small *small;
    bool known = mc_onnx_any_dtype(type->elem_type, &dtype, &small) == MICA_OK;
    const char *name = small   ? mc_onnx_small_name(small)
                       : known ? mica_dtype_name(dtype)
                               : "dtype ";
    if (type->elem_type == MC_ONNX_DOUBLE) name = mica_dtype_name(MICA_F64);
    bool ok = mc_buffer_add_text(text, name);
    if (ok && !known) ok = mc_buffer_printf(text, "%d", type->elem_type);
    if (!type->shape) return ok && mc_buffer_add_text(text, "[..]");
    ok = ok && mc_buffer_add_byte(text, '[');
    for (size_t k = 0; ok && k < type->shape->n_dim; k++) {
        const Mc__Onnx__Dimension *dim = type->shape->dim[k];
        if (k > 0) ok = mc_buffer_add_byte(text, ',');
        if (dim->has_dim_value && dim->dim_value >= 0)
            ok = ok && mc_buffer_printf(text, "%lld", (long long)dim->dim_value);
        else
            ok = ok && print_open(port, dim, places ? k : SIZE_MAX, options, text);
    }
    return ok && mc_buffer_add_byte(text, ']');
}

static bool print_ports(const char *kind, Mc__Onnx__Value *const *ports, size_t n,
                        const mc_map *left_out, const mica_onnx_options *options, mc_buffer *text) {
    uint64_t there;
    bool places = strcmp(kind, "input") == 0;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        const char *name = ports[i]->name ? ports[i]->name : "";
        if (mc_map_find(left_out, mc_str_of(name), &there)) continue;
        ok = mc_buffer_printf(text, "%s %.400s ", kind, name) &&
             print_type(ports[i], places, options, text);
        for (size_t k = 0; ok && places && k < options->n_inputs; k++)
            if (options->inputs[k].name && strcmp(options->inputs[k].name, name) == 0)
                ok = mc_buffer_add_text(text, " fixed");
        ok = ok && mc_buffer_add_byte(text, '\n');
    }
    return ok;
}

/* ---- operators ---- */

typedef struct count {
    const char *domain, *name;
    uint64_t nodes;
} count;

static bool count_ops(const mc_onnx_graph *graph, mc_buffer *counts) {
    for (size_t i = 0; i < graph->n_node; i++) {
        const mc_onnx_proto_node *node = graph->node[i];
        count *rows = MC_BUFFER_AT(counts, count);
        size_t n = MC_BUFFER_COUNT(counts, count), at = 0;
        const count one = {.domain = mc_onnx_is_own(node->domain) ? "" : node->domain,
                           .name = node->op_type,
                           .nodes = 1};
        for (size_t k = 0; k < node->n_attribute; k++) /* no deeper than MC_ONNX_DEPTH */
            if (node->attribute[k]->g && !count_ops(node->attribute[k]->g, counts)) return false;
        rows = MC_BUFFER_AT(counts, count), n = MC_BUFFER_COUNT(counts, count);
        while (at < n &&
               (strcmp(rows[at].name, one.name) != 0 || strcmp(rows[at].domain, one.domain) != 0))
            at++;
        if (at < n)
            rows[at].nodes++;
        else if (n < MAX_OPS && !mc_buffer_add(counts, &one, sizeof one))
            return false;
    }
    return true;
}

static int compare(const void *a, const void *b) {
    const count *x = a, *y = b;
    int order = strcmp(x->domain, y->domain);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static bool print_ops(const mc_onnx_model *model, mc_buffer *text) {
    mc_buffer counts = {0};
    bool ok = count_ops(model->graph, &counts);
    for (size_t i = 0; ok && i < model->n_functions; i++) {
        const mc_onnx_graph body = mc_onnx_body_of(model->functions[i]);
        ok = count_ops(&body, &counts);
    }
    count *rows = MC_BUFFER_AT(&counts, count);
    size_t n = MC_BUFFER_COUNT(&counts, count);
    if (ok && n > 0) qsort(rows, n, sizeof *rows, compare);
    for (size_t i = 0; ok && i < n; i++)
        ok = mc_buffer_printf(text, "operator %s%s%.200s %llu\n", rows[i].domain,
                              *rows[i].domain ? "." : "", rows[i].name,
                              (unsigned long long)rows[i].nodes);
    mc_buffer_deinit(&counts);
    return ok;
}

mica_status mc_onnx_print(const mc_onnx_model *model, const mica_onnx_options *options,
                          mc_buffer *text) {
    const mc_onnx_graph *graph = model->graph;
    mc_map initializers = {0};
    const mc_map none = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < model->n_opset_import; i++) {
        const char *domain = model->opset_import[i]->domain;
        ok = mc_buffer_printf(text, "opset %.200s%s%lld\n", mc_onnx_is_own(domain) ? "" : domain,
                              mc_onnx_is_own(domain) ? "" : " ",
                              (long long)model->opset_import[i]->version);
    }
    for (size_t i = 0; ok && i < graph->n_initializer; i++)
        ok = mc_map_put(&initializers,
                        mc_str_of(graph->initializer[i]->name ? graph->initializer[i]->name : ""),
                        0);
    ok = ok && print_ports("input", graph->input, graph->n_input, &initializers, options, text) &&
         print_ports("result", graph->output, graph->n_output, &none, options, text) &&
         print_ops(model, text);
    mc_map_deinit(&initializers);
    return ok ? MICA_OK : mc_fail_nomem("the text of a graph");
}
