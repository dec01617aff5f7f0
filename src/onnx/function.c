/* Functions of a model, by their names. */
#include "onnx/import.h"

#include <stdio.h>
#include <string.h>

static const char *text_of(const char *text) {
    return text ? text : "";
}

/* ---- which function ---- */

enum { MAX_KEY = 512 }; /* bytes; functions whose names are longer are not found */

static mc_str key_of(const char *domain, const char *name, const char *overload,
                     char key[MAX_KEY]) {
    int n = snprintf(key, MAX_KEY, "%s\n%s\n%s", mc_onnx_is_own(domain) ? "" : domain,
                     text_of(name), text_of(overload));
    return (mc_str){key, n > 0 && n < MAX_KEY ? (size_t)n : 0};
}

mica_status mc_onnx_list_functions(mc_onnx_import *import) {
    char key[MAX_KEY];
    for (size_t i = 0; i < import->model->n_functions; i++) {
        const mc_onnx_function *f = import->model->functions[i];
        mc_str text = key_of(f->domain, f->name, f->overload, key);
        char *kept = mc_arena_strndup(&import->arena, text.ptr, text.len);
        if (!kept || !mc_map_put(&import->functions, (mc_str){kept, text.len}, i))
            return mc_fail_nomem("the functions of a model");
    }
    return MICA_OK;
}

const mc_onnx_function *mc_onnx_find_function(const mc_onnx_import *import,
                                              const mc_onnx_proto_node *node) {
    char key[MAX_KEY];
    uint64_t i;
    mc_str text = key_of(node->domain, node->op_type, node->overload, key);
    if (text.len == 0 || !mc_map_find(&import->functions, text, &i)) return NULL;
    return import->model->functions[i];
}

mc_onnx_graph mc_onnx_body_of(const mc_onnx_function *f) {
    mc_onnx_graph graph = MC__ONNX__GRAPH__INIT;
    graph.n_node = f->n_node;
    graph.node = f->node;
    return graph;
}
