/* What is written of each part of a model. */
#include "convert/converting.h"

#include "graph/graph.h"

/* Scales and biases in the dtype that they are to have. */
static void cast_scales(mica_scope *s, mica_dtype dtype, mc_value *value) {
    value->scales = mica_astype(s, value->scales, dtype);
    value->biases = mica_astype(s, value->biases, dtype);
}

/* scale * code + bias with the product rounded to the dtype before the sum is: as MLX has it, which
 * differs from the one rounding of mica_dequantize. */
static mica_array dequantise_affine(mica_scope *s, const mc_part *part, mica_quant quant,
                                    const mc_value *value, mica_dtype dtype) {
    int64_t size = quant.group_size, groups = part->shape[part->ndim - 1] / size;
    const int64_t split[] = {groups, size};
    const int64_t *shape = mica_array_shape(value->scales);
    mica_array one = mica_ones(s, shape, part->ndim, dtype);
    mica_array zero = mica_zeros(s, shape, part->ndim, dtype);
    mica_array x = mica_dequantize(s, value->weight, one, zero, quant, dtype);
    x = mica_unflatten(s, x, -1, split, 2);
    x = mica_multiply(s, x, mica_expand_dims(s, value->scales, -1));
    x = mica_add(s, x, mica_expand_dims(s, value->biases, -1));
    return mica_reshape(s, x, part->shape, part->ndim);
}

static mica_array dequantise(mica_scope *s, const mc_part *part, mica_quant quant,
                             const mc_value *value, mica_dtype dtype) {
    if (quant.mode == MICA_QUANT_AFFINE) return dequantise_affine(s, part, quant, value, dtype);
    return mica_dequantize(s, value->weight, value->scales, value->biases, quant, dtype);
}

/* Makes what is written of a part. Scales are cast before a part is dequantised, and elements
 * before an adapter is added, as mlx-lm does. */
mica_status mc_make_value(mc_converting *c, size_t i, mc_value *value) {
    const mc_part *part = &c->source.parts[i];
    const mc_target *target = &c->plan.targets[i];
    bool changes = mc_fuse_changes(&c->fuse, i);
    MC_TRY(c->source.load(&c->source, part->copy_of ? part->copy_of - 1 : i, c->s, value));
    if (part->has_biases) cast_scales(c->s, target->dtype, value);
    if (part->quantised && target->quantised && !changes) return mica_scope_status(c->s);
    mica_array x = value->weight;
    if (part->quantised) x = dequantise(c->s, part, part->quant, value, target->dtype);
    x = mica_astype(c->s, x, target->dtype);
    if (changes) x = mc_fuse_apply(c->s, &c->fuse, part, i, x);
    *value = (mc_value){x, MICA_NONE, MICA_NONE};
    if (!target->quantised) return mica_scope_status(c->s);
    return mica_quantize(c->s, x, target->quant, &value->weight, &value->scales, &value->biases);
}

void mc_end_part(mc_converting *c, size_t i) {
    mc_scope_reset(c->s);
    mica_device_clear_cache(c->device);
    c->done += c->source.parts[i].bytes;
    if (c->options->progress) c->options->progress(c->options->progress_user, c->done, c->total);
}
