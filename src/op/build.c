#include "op/build.h"

#include <mica/ops.h>

mica_array mc_broadcast(mica_scope *s, mica_array x, const int64_t *shape, int ndim) {
    const mc_layout *l = mc_layout_of(x);
    if (!l) return mc_invalid(s);
    bool same = l->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = l->shape[i] == shape[i];
    return same ? x : mica_broadcast_to(s, x, shape, ndim);
}

mica_array mc_cast(mica_scope *s, mica_array x, mica_dtype dtype) {
    const mc_layout *l = mc_layout_of(x);
    char text[MC_LAYOUT_TEXT];
    if (!l || l->dtype == dtype) return x;
    if (l->dtype == MICA_F64)
        return mc_scope_fail(s, MICA_EDTYPE,
                             "%s is not computed with: mica_astype converts it to f32",
                             mc_layout_text(l, text));
    if (dtype == MICA_F64 && !mica_dtype_is_float(l->dtype)) /* by way of f32 it loses some */
        return mc_scope_fail(s, MICA_EDTYPE,
                             "%s does not become f64 by itself: mica_astype converts",
                             mc_layout_text(l, text));
    return mica_astype(s, x, dtype);
}
