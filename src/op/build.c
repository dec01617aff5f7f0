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
    if (!l || l->dtype == dtype) return x;
    return mica_astype(s, x, dtype);
}
