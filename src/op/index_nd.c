/* gather_nd and scatter_nd: an index is a row of numbers, one an axis. */
#include <mica/ops.h>

#include <string.h>

#include "op/build.h"

/* Indices [.., m] of the axes [batch, batch + m) of x, taken apart for gather and scatter: lists of
 * [count], with the number of the batch row first where there is a batch. x [rows, d_1 .. d_m,
 * rest], without the first where there is no batch. */
typedef struct places {
    mica_array x, at[MICA_MAX_NDIM];
    int axes[MICA_MAX_NDIM], n;
    int64_t count, rest;
    int64_t shape[MICA_MAX_NDIM]; /* [ndim] of what is read, and of updates */
    int ndim;
} places;

/* Sets the shape of what is read: that of the indices without the last axis, then that of a slice
 * of x. */
static bool places_shape(mica_scope *s, const char *op, const mc_layout *x, const mc_layout *index,
                         int batch, places *p) {
    char text_x[MC_LAYOUT_TEXT], text[MC_LAYOUT_TEXT];
    int64_t m = index->ndim > 0 ? index->shape[index->ndim - 1] : 0;
    bool fits = batch >= 0 && index->ndim > batch && m >= 1 && batch + m <= x->ndim;
    for (int k = 0; fits && k < batch; k++)
        fits = x->shape[k] == index->shape[k];
    if (fits && index->ndim - 1 + x->ndim - batch - m > MICA_MAX_NDIM) fits = false;
    if (!fits) {
        mc_scope_fail(s, MICA_ESHAPE, "%s: indices %s of %s, with %d batch axes", op,
                      mc_layout_text(index, text), mc_layout_text(x, text_x), batch);
        return false;
    }
    p->count = p->rest = 1;
    for (int k = 0; k + 1 < index->ndim; k++) {
        p->shape[p->ndim++] = index->shape[k];
        p->count = mc_dim_mul(p->count, index->shape[k]);
    }
    for (int k = batch + (int)m; k < x->ndim; k++) {
        p->shape[p->ndim++] = x->shape[k];
        p->rest = mc_dim_mul(p->rest, x->shape[k]);
    }
    return true;
}

/* The row of the batch that each index is of: [count]. */
static mica_array batch_rows(mica_scope *s, int64_t rows, int64_t count) {
    if (rows == 0) return mica_zeros(s, &rows, 1, MICA_I64);
    const int64_t column[2] = {rows, 1}, wide[2] = {rows, mc_dim_div(count, rows)};
    mica_array y = mica_reshape(s, mica_arange(s, 0, (double)rows, 1, MICA_I64), column, 2);
    return mica_reshape(s, mica_broadcast_to(s, y, wide, 2), &count, 1);
}

static bool places_of(mica_scope *s, const char *op, mica_array x, mica_array indices, int batch,
                      places *p) {
    *p = (places){.n = 0};
    mica_array in[2] = {x, indices};
    if (!mc_operands_ok(s, op, in, 2)) return false;
    const mc_layout *l = mc_layout_of(x), *index = mc_layout_of(indices);
    if (!places_shape(s, op, l, index, batch, p)) return false;
    int64_t m = index->shape[index->ndim - 1], rows = 1, shape[MICA_MAX_NDIM + 2];
    int ndim = 0;
    for (int k = 0; k < batch; k++)
        rows = mc_dim_mul(rows, l->shape[k]);
    if (batch > 0) shape[ndim++] = rows;
    for (int k = 0; k < m; k++)
        shape[ndim++] = l->shape[batch + k];
    if (p->rest != 1) shape[ndim++] = p->rest;
    if (ndim + 1 > MICA_MAX_NDIM) {
        mc_scope_fail(s, MICA_ESHAPE, "%s: indices of %lld axes", op, (long long)m);
        return false;
    }
    p->x = mica_reshape(s, x, shape, ndim);
    if (batch > 0) p->at[p->n++] = batch_rows(s, rows, p->count);
    const int64_t list[2] = {p->count, m};
    mica_array flat = mica_reshape(s, indices, list, 2);
    for (int k = 0; k < m; k++)
        p->at[p->n++] = mica_squeeze(s, mica_slice_axis(s, flat, 1, k, k + 1), 1);
    for (int k = 0; k < p->n; k++)
        p->axes[k] = k;
    return mica_valid(p->at[p->n - 1]);
}

/* The shape of a slice of p.x: 1 for each axis that is indexed. */
static int slice_shape(const places *p, int64_t *sizes) {
    int ndim = 0;
    for (int k = 0; k < p->n; k++)
        sizes[ndim++] = 1;
    if (p->rest != 1) sizes[ndim++] = p->rest;
    return ndim;
}

mica_array mica_gather_nd(mica_scope *s, mica_array x, mica_array indices, int batch_dims) {
    places p;
    int64_t sizes[MICA_MAX_NDIM];
    if (!places_of(s, "gather_nd", x, indices, batch_dims, &p)) return mc_invalid(s);
    (void)slice_shape(&p, sizes);
    mica_array y = mica_gather(s, p.x, p.at, p.n, p.axes, sizes);
    return mica_reshape(s, y, p.shape, p.ndim);
}

mica_array mica_scatter_nd(mica_scope *s, mica_array x, mica_array indices, mica_array updates,
                           mica_scatter_mode mode) {
    places p;
    int64_t sizes[MICA_MAX_NDIM + 1];
    if (!mc_operands_ok(s, "scatter_nd", &updates, 1)) return mc_invalid(s);
    if (!places_of(s, "scatter_nd", x, indices, 0, &p)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(updates);
    char text[MC_LAYOUT_TEXT];
    bool fits = l->ndim == p.ndim;
    for (int k = 0; fits && k < p.ndim; k++)
        fits = l->shape[k] == p.shape[k];
    if (!fits)
        return mc_scope_fail(s, MICA_ESHAPE,
                             "scatter_nd: updates %s; the shape of the indices without the last "
                             "axis, then that of a slice of x, is needed",
                             mc_layout_text(l, text));
    sizes[0] = p.count;
    int ndim = 1 + slice_shape(&p, sizes + 1);
    updates = mica_reshape(s, updates, sizes, ndim);
    mica_array y = mica_scatter(s, p.x, p.at, p.n, p.axes, updates, mode);
    return mica_reshape(s, y, mica_array_shape(x), mica_array_ndim(x));
}
