/* Drawing a token from logits, with filters: a composition. */
#include <mica/nn.h>

#include <math.h>

#include "base/options.h"
#include "op/build.h"
#include "op/require.h"

/* A number, or one for each row, as f32 [.., 1]; absent: `otherwise`. */
static bool number_of(mica_scope *s, const char *name, mica_array rows, mica_array *x,
                      float otherwise) {
    char text[MC_LAYOUT_TEXT], text_rows[MC_LAYOUT_TEXT];
    if (!x->scope) {
        *x = mica_f32(s, otherwise);
        return true;
    }
    if (!mc_operands_ok(s, "sample", x, 1)) return false;
    const mc_layout *l = mc_layout_of(*x);
    if (l->ndim == 0) {
        *x = mc_cast(s, *x, MICA_F32);
        return true;
    }
    if (mc_layout_same_shape(l, mc_layout_of(rows))) {
        *x = mica_expand_dims(s, mc_cast(s, *x, MICA_F32), -1);
        return true;
    }
    mc_scope_fail(s, MICA_ESHAPE, "sample: %s is %s; give one number, or one a row %s", name,
                  mc_layout_text(l, text), mc_layout_text(mc_layout_of(rows), text_rows));
    return false;
}

/* Which tokens may be drawn: bool [.., V] of z / temperature. */
static mica_array kept(mica_scope *s, mica_array z, const mica_sample_options *o) {
    int64_t v = mica_array_dim(z, -1);
    mica_array order = mica_argsort(s, mica_negative(s, z), -1); /* of equals the lower id first */
    mica_array sorted = mica_take_along_axis(s, z, order, -1);
    mica_array rank = mica_arange(s, 0, (double)v, 1, MICA_F32);
    mica_array zero = mica_f32(s, 0), one = mica_f32(s, 1), none = mica_f32(s, -INFINITY);
    mica_array first = mica_less_equal(s, rank, zero);
    mica_array keep =
        mica_logical_or(s, mica_less(s, rank, o->top_k), mica_less_equal(s, o->top_k, zero));
    keep = mica_logical_or(s, keep, first);
    mica_array p = mica_softmax(s, mica_where(s, keep, sorted, none), -1);
    mica_array before = mica_cumsum(s, p, -1, false, false);
    mica_array nucleus =
        mica_logical_or(s, mica_less(s, before, o->top_p), mica_greater_equal(s, o->top_p, one));
    keep = mica_logical_and(s, keep, mica_logical_or(s, nucleus, first));
    mica_array least = mica_multiply(s, o->min_p, mica_slice_axis(s, p, -1, 0, 1));
    mica_array likely = mica_logical_or(s, mica_greater_equal(s, p, least), first);
    keep = mica_logical_and(s, keep, likely);
    return mica_put_along_axis(s, mica_zeros(s, mica_array_shape(z), mica_array_ndim(z), MICA_BOOL),
                               order, keep, -1);
}

/* Gumbel noise of the shape of z: by one key, or by one for each row. It is never -inf, which would
 * hide a token. */
static mica_array noise_of(mica_scope *s, mica_array key, mica_array z, mica_array rows) {
    char text[MC_LAYOUT_TEXT];
    const mc_layout *k = mc_layout_of(key);
    int64_t v = mica_array_dim(z, -1), n = mica_array_size(rows);
    const int64_t *shape = mica_array_shape(z);
    int ndim = mica_array_ndim(z);
    mica_array least = mica_f32(s, -16);
    if (k->ndim == 1)
        return mica_maximum(s, mica_random_gumbel(s, key, shape, ndim, MICA_F32), least);
    bool fits = k->ndim == ndim && k->shape[ndim - 1] == 2;
    for (int i = 0; fits && i + 1 < ndim; i++)
        fits = k->shape[i] == shape[i];
    if (!fits)
        return mc_scope_fail(s, MICA_ESHAPE, "sample: a key %s; give u32[2], or one a row",
                             mc_layout_text(k, text));
    if (n == 0) return mica_zeros(s, shape, ndim, MICA_F32);
    if (mc_dim_has_symbols(n)) return mc_need_number(s, "sample with a key for each row", n);
    const int64_t flat[2] = {n, 2}, row[2] = {1, v}, two = 2;
    mica_array keys = mica_reshape(s, key, flat, 2), all = MICA_NONE;
    for (int64_t i = 0; i < n; i++) {
        mica_array one = mica_reshape(s, mica_slice_axis(s, keys, 0, i, i + 1), &two, 1);
        mica_array both[2] = {all, mica_random_gumbel(s, one, row, 2, MICA_F32)};
        all = i == 0 ? both[1] : mica_concatenate(s, both, 2, 0);
        if (!mica_valid(all)) return all;
    }
    return mica_maximum(s, mica_reshape(s, all, shape, ndim), least);
}

mica_array mica_sample(mica_scope *s, mica_array key, mica_array logits,
                       const mica_sample_options *options) {
    const int last = -1;
    char text[MC_LAYOUT_TEXT];
    mica_sample_options o;
    mica_status status = MC_OPTIONS_COPY(mica_sample_options, min_p, &o, options);
    if (status != MICA_OK) return mc_fail_in(s, status);
    const mica_array in[2] = {key, logits};
    if (!mc_operands_ok(s, "sample", in, 2)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(logits);
    if (!mica_dtype_is_float(l->dtype))
        return mc_scope_fail(s, MICA_EDTYPE, "sample: logits %s", mc_layout_text(l, text));
    if (l->ndim < 1 || l->shape[l->ndim - 1] < 1)
        return mc_scope_fail(s, MICA_ESHAPE, "sample: logits %s have no token",
                             mc_layout_text(l, text));
    mica_array z = mc_cast(s, logits, MICA_F32);
    mica_array largest = mica_max(s, z, &last, 1, false); /* NaN wins */
    if (!number_of(s, "temperature", largest, &o.temperature, 1) ||
        !number_of(s, "top_k", largest, &o.top_k, 0) ||
        !number_of(s, "top_p", largest, &o.top_p, 1) ||
        !number_of(s, "min_p", largest, &o.min_p, 0))
        return mc_invalid(s);
    mica_array zero = mica_f32(s, 0), greedy = mica_equal(s, o.temperature, zero);
    mica_array hot = mica_where(s, greedy, mica_f32(s, 1), o.temperature);
    mica_array best = mica_argmax(s, z, -1, false);
    z = mica_divide(s, z, hot);
    mica_array drawn = mica_add(s, z, noise_of(s, key, z, largest));
    drawn = mica_where(s, kept(s, z, &o), drawn, mica_f32(s, -INFINITY));
    drawn = mica_argmax(s, drawn, -1, false);
    if (mica_array_ndim(greedy) > 0) greedy = mica_squeeze(s, greedy, -1);
    mica_array ids = mica_astype(s, mica_where(s, greedy, best, drawn), MICA_I32);
    mica_array warm = mica_greater_equal(s, o.temperature, zero); /* not of NaN */
    ids = mc_require(s, ids, warm, MC_REQUIRE_TEMPERATURE);
    return mc_require(s, ids, mica_isfinite(s, largest), MC_REQUIRE_LOGITS);
}
