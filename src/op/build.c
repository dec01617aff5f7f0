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

/* Marks a view of x that is new. */
static mica_array mark_derived(mica_array view, mica_array x) {
    bool same = view.scope == x.scope && view.node == x.node;
    if (mica_valid(view) && !same) mc_node_of(view)->derived = true;
    return view;
}

mica_array mc_align(mica_scope *s, mica_array x, const int64_t *shape, int ndim) {
    return mark_derived(mc_broadcast(s, x, shape, ndim), x);
}

mica_array mc_reshape_derived(mica_scope *s, mica_array x, const int64_t *shape, int ndim) {
    return mark_derived(mica_reshape(s, x, shape, ndim), x);
}

mica_array mc_slice_derived(mica_array slice, mica_array x) {
    return mark_derived(slice, x);
}

mica_array mc_as_it_is(mica_scope *s, mica_array x) {
    if (mica_valid(x) && x.scope == s) mc_node_of(x)->fixed = true; /* other scopes are borrowed */
    return x;
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
