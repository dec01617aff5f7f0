/* Known values: how long they are kept, and what they may take. */
#include "onnx/import.h"

#include <string.h>

/* ---- domains ---- */

bool mc_onnx_is_own(const char *domain) {
    return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

int64_t mc_onnx_version(const mc_onnx_model *model, const char *domain) {
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *name = model->opset_import[i]->domain;
        if (mc_onnx_is_own(domain) ? mc_onnx_is_own(name) : name && strcmp(name, domain) == 0)
            return model->opset_import[i]->version;
    }
    return 0;
}

/* ---- names ---- */

uint64_t mc_onnx_uses_of(const mc_onnx_import *import, const char *name) {
    uint64_t uses = 0;
    (void)mc_map_find(&import->uses, mc_str_of(name), &uses);
    return uses;
}

/* ---- arrays that are held ---- */

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

void mc_onnx_release(mc_onnx_import *import, mica_array x) {
    uint32_t *holders = holders_of(import, x);
    if (holders && --*holders == 0) mica_array_release(x);
}

/* ---- constants ---- */

mica_status mc_onnx_charge(mc_onnx_import *import, uint64_t bytes) {
    if (bytes > import->fold_left)
        return mc_fail(MICA_EUNSUPPORTED, "its constants take too much memory");
    import->fold_left -= bytes;
    return MICA_OK;
}

mica_status mc_onnx_constant(mc_onnx_import *import, const void *data, mica_dtype dtype,
                             const int64_t *shape, int ndim, mc_onnx_value *value) {
    *value = (mc_onnx_value){.known = true};
    value->x = mica_from_data(import->constants, data, dtype, shape, ndim);
    return mica_scope_status(import->constants);
}
