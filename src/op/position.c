/* Positions in tables and in images: compositions of views and plain ops. */
#include <mica/nn.h>

#include <string.h>

#include "op/build.h"

/* ---- rope by tables ---- */

static mica_status check_tables(const mc_layout *x, const mc_layout *cos, const mc_layout *sin) {
    char text[MC_LAYOUT_TEXT], text_cos[MC_LAYOUT_TEXT], text_sin[MC_LAYOUT_TEXT];
    const mc_layout *all[3] = {x, cos, sin};
    for (int i = 0; i < 3; i++)
        if (!mica_dtype_is_float(all[i]->dtype))
            return mc_fail(MICA_EDTYPE, "rope_tables: %s is not a float",
                           mc_layout_text(all[i], text));
    bool fits = x->ndim >= 2 && cos->ndim == 2 && mc_layout_same_shape(cos, sin);
    if (fits && !mc_dim_less(cos->shape[0], x->shape[x->ndim - 2]) &&
        !mc_dim_less(mc_dim_div(x->shape[x->ndim - 1], 2), cos->shape[1]))
        return MICA_OK;
    return mc_fail(MICA_ESHAPE, "rope_tables: cos %s and sin %s for x %s: a row for each position",
                   mc_layout_text(cos, text_cos), mc_layout_text(sin, text_sin),
                   mc_layout_text(x, text));
}

mica_array mica_rope_tables(mica_scope *s, mica_array x, mica_array cos, mica_array sin) {
    mica_array in[3] = {x, cos, sin};
    if (!mc_operands_ok(s, "rope_tables", in, 3)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    mica_status status = check_tables(l, mc_layout_of(cos), mc_layout_of(sin));
    if (status != MICA_OK) return mc_fail_in(s, status);
    int64_t half = mica_array_dim(cos, 1), rows = l->shape[l->ndim - 2];
    mica_dtype dtype = l->dtype;
    cos = mc_cast(s, mica_slice_axis(s, cos, 0, 0, rows), MICA_F32);
    sin = mc_cast(s, mica_slice_axis(s, sin, 0, 0, rows), MICA_F32);
    mica_array a = mc_cast(s, mica_slice_axis(s, x, -1, 0, half), MICA_F32);
    mica_array b = mc_cast(s, mica_slice_axis(s, x, -1, half, mc_dim_mul(2, half)), MICA_F32);
    mica_array y[3] = {
        mica_subtract(s, mica_multiply(s, a, cos), mica_multiply(s, b, sin)),
        mica_add(s, mica_multiply(s, b, cos), mica_multiply(s, a, sin)),
        mica_slice_axis(s, x, -1, mc_dim_mul(2, half), MICA_END_OF_AXIS),
    };
    y[0] = mc_cast(s, y[0], dtype);
    y[1] = mc_cast(s, y[1], dtype);
    return mica_concatenate(s, y, 3, -1);
}

/* ---- images ---- */

mica_array mica_axial_rope2d(mica_scope *s, mica_array x, int64_t height, int64_t width,
                             const mica_rope_options *options) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, "axial_rope2d", &x, 1)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(x);
    int ndim = l->ndim;
    int64_t shape[MICA_MAX_NDIM], image[MICA_MAX_NDIM], places = height;
    bool fits = ndim >= 2 && ndim < MICA_MAX_NDIM && mc_dim_mod(l->shape[ndim - 1], 4) == 0 &&
                height >= 0 && width >= 0 && mc_dim_mul_to(&places, width) &&
                mc_dim_may_equal(places, l->shape[ndim - 2]);
    if (!fits)
        return mc_scope_fail(s, MICA_ESHAPE,
                             "axial_rope2d: %s for an image of %lld by %lld; its last axes are "
                             "height * width and a multiple of 4",
                             mc_layout_text(l, text), (long long)height, (long long)width);
    int64_t half = mc_dim_div(l->shape[ndim - 1], 2);
    memcpy(shape, l->shape, sizeof shape);
    memcpy(image, l->shape, sizeof image);
    image[ndim - 2] = height;
    image[ndim - 1] = width;
    image[ndim] = mc_dim_mul(2, half);
    x = mica_reshape(s, x, image, ndim + 1);
    mica_array zero = mica_i32(s, 0), y[2];
    y[0] = mica_swapaxes(s, mica_slice_axis(s, x, -1, 0, half), -3, -2); /* positions: rows */
    y[0] = mica_swapaxes(s, mica_rope(s, y[0], zero, MICA_NONE, options), -3, -2);
    y[1] = mica_rope(s, mica_slice_axis(s, x, -1, half, mc_dim_mul(2, half)), zero, MICA_NONE,
                     options);
    return mica_reshape(s, mica_concatenate(s, y, 2, -1), shape, ndim);
}

mica_array mica_resize_nearest2x(mica_scope *s, mica_array x) {
    char text[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, "resize_nearest2x", &x, 1)) return mc_invalid(s);
    if (mica_array_ndim(x) < 2)
        return mc_scope_fail(s, MICA_ESHAPE, "resize_nearest2x: %s has no two axes",
                             mc_layout_text(mc_layout_of(x), text));
    return mica_repeat(s, mica_repeat(s, x, 2, -1), 2, -2);
}
