/* Reading and writing elements by index. */
#include "mlx/emit.h"

static int axis_of(const mc_mlx_call *c) {
    return (int)((const mc_attr_axis *)c->attr)->axis;
}

static mlx_array bound_along(mc_mlx_call *c) {
    return mc_mlx_bound(c, axis_of(c), c->from[0]->shape[axis_of(c)], 0, 1);
}

/* Where x has nothing to read, the result has nothing, or an index is wrong. */
static bool is_empty(mc_mlx_call *c) {
    if (mc_layout_size(c->from[0]) > 0 && mc_layout_size(c->to) > 0) return false;
    mc_mlx_give(c, 0, mc_mlx_zeros(c, c->to));
    return true;
}

void mc_mlx_emit_take(mc_mlx_call *c) {
    mlx_array y = {0}, index = bound_along(c);
    if (is_empty(c)) return;
    int failed = mc_mlx.take_axis(&y, c->in[0], index, axis_of(c), c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

void mc_mlx_emit_take_along_axis(mc_mlx_call *c) {
    mlx_array y = {0}, index = bound_along(c);
    if (is_empty(c)) return;
    int failed = mc_mlx.take_along_axis(&y, c->in[0], index, axis_of(c), c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

/* The GPU's threads write in any order. */
bool mc_mlx_supports_in_order(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                              int n_in, const mc_layout *out) {
    (void)attr, (void)in, (void)n_in, (void)out;
    return place == MC_MLX_ON_CPU;
}

void mc_mlx_emit_put_along_axis(mc_mlx_call *c) {
    mlx_array y = {0}, index = bound_along(c);
    if (mc_layout_size(c->from[1]) == 0 || mc_layout_size(c->from[0]) == 0) {
        mc_mlx_give(c, 0, c->in[0]);
        return;
    }
    int failed = mc_mlx.put_along_axis(&y, c->in[0], index, c->in[2], axis_of(c), c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

/* The indices in[first...], one array an axis. */
static mlx_vector_array bound_all(mc_mlx_call *c, int first, const int64_t *attr_axes,
                                  int axes[MICA_MAX_NDIM]) {
    mlx_vector_array all = mc_mlx.vector_array_new();
    for (int k = first; k < c->n_in; k++) {
        int axis = axes[k - first] = (int)attr_axes[k - first];
        mlx_array index = mc_mlx_bound(c, axis, c->from[0]->shape[axis], 0, k);
        if (!index.ctx || mc_mlx.vector_array_append_value(all, index)) c->failed = true;
    }
    return all;
}

void mc_mlx_emit_gather(mc_mlx_call *c) {
    const mc_attr_gather *a = c->attr;
    int axes[MICA_MAX_NDIM], sizes[MICA_MAX_NDIM] = {0};
    size_t ndim = (size_t)c->from[0]->ndim;
    mlx_array y = {0};
    for (size_t k = 0; k < ndim; k++)
        sizes[k] = (int)a->slice_sizes[k];
    mlx_vector_array all = bound_all(c, 1, a->axes, axes);
    if (!is_empty(c)) {
        int failed = mc_mlx.gather(&y, c->in[0], all, axes, (size_t)a->n, sizes, ndim, c->stream);
        mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
    }
    mc_mlx.vector_array_free(all);
}

void mc_mlx_emit_scatter(mc_mlx_call *c) {
    const mc_attr_scatter *a = c->attr;
    __typeof__(mc_mlx.scatter) functions[] = {
        [MICA_SCATTER_SET] = mc_mlx.scatter,           [MICA_SCATTER_ADD] = mc_mlx.scatter_add,
        [MICA_SCATTER_MULTIPLY] = mc_mlx.scatter_prod, [MICA_SCATTER_MAXIMUM] = mc_mlx.scatter_max,
        [MICA_SCATTER_MINIMUM] = mc_mlx.scatter_min,
    };
    int axes[MICA_MAX_NDIM];
    mlx_array y = {0};
    mlx_vector_array all = bound_all(c, 2, a->axes, axes);
    if (mc_layout_size(c->from[1]) == 0 || mc_layout_size(c->from[0]) == 0) {
        mc_mlx_give(c, 0, c->in[0]);
    } else {
        int failed = functions[a->mode](&y, c->in[0], all, c->in[1], axes, (size_t)a->n, c->stream);
        mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
    }
    mc_mlx.vector_array_free(all);
}
