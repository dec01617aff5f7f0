/* What programs are recorded from: parameters, and symbols for their lengths. */
#include <mica/program.h>

#include "graph/graph.h"

mica_array mica_program_param(mica_scope *s, mica_dtype dtype, const int64_t *shape, int ndim) {
    mc_layout layout;
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "program_param: the scope is NULL");
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    mica_status status = mc_layout_init(&layout, dtype, shape, ndim);
    for (int k = 0; status == MICA_OK && mc_dims_live() && k < ndim; k++)
        status = mc_scope_check_dim(s, shape[k]);
    if (mc_scope_set_status(s, status) != MICA_OK) return mc_invalid(s);
    return mc_leaf_param(s, &layout, false);
}

int64_t mica_program_dim(mica_scope *s, const char *name) {
    mc_symbol symbol;
    if (!s || mica_scope_status(s) != MICA_OK) return 0;
    if (!name) {
        (void)mc_scope_fail(s, MICA_EINVAL, "program_dim: the name is NULL");
        return 0;
    }
    return mc_scope_set_status(s, mc_scope_symbol(s, name, &symbol)) == MICA_OK ? symbol.dim : 0;
}
