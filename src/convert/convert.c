#include <mica/convert.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/filemap.h"
#include "base/options.h"
#include "base/save_folder.h"
#include "base/str.h"
#include "convert/fuse.h"
#include "convert/plan.h"
#include "convert/source.h"
#include "graph/graph.h"
#include "io/safetensors_write.h"

#define SHARD_BYTES (5ull << 30)

typedef struct converting {
    const mica_convert_options *options;
    mc_source source;
    mc_plan plan;
    mc_fuse fuse;
    mica_device *device;
    mica_scope *s; /* of one part */
    uint64_t done, total;
} converting;

/* ---- one part ---- */

/* Scales and biases in the dtype that they are to have. */
static void cast_scales(mica_scope *s, mica_dtype dtype, mc_value *value) {
    value->scales = mica_astype(s, value->scales, dtype);
    value->biases = mica_astype(s, value->biases, dtype);
}

/* scale * code + bias with the product rounded to the dtype before the sum is: as MLX has it, which
 * differs from the one rounding of mica_dequantize where the dtype is not f32. */
static mica_array dequantise_affine(mica_scope *s, const mc_part *part, const mc_value *value,
                                    mica_dtype dtype) {
    int64_t size = part->quant.group_size, groups = part->shape[part->ndim - 1] / size;
    const int64_t split[] = {groups, size};
    const int64_t *shape = mica_array_shape(value->scales);
    mica_array one = mica_ones(s, shape, part->ndim, dtype);
    mica_array zero = mica_zeros(s, shape, part->ndim, dtype);
    mica_array x = mica_dequantize(s, value->weight, one, zero, part->quant, dtype);
    x = mica_unflatten(s, x, -1, split, 2);
    x = mica_multiply(s, x, mica_expand_dims(s, value->scales, -1));
    x = mica_add(s, x, mica_expand_dims(s, value->biases, -1));
    return mica_reshape(s, x, part->shape, part->ndim);
}

static mica_array dequantise(mica_scope *s, const mc_part *part, const mc_value *value,
                             mica_dtype dtype) {
    if (part->has_biases && dtype != MICA_F32) return dequantise_affine(s, part, value, dtype);
    return mica_dequantize(s, value->weight, value->scales, value->biases, part->quant, dtype);
}

/* Makes what is written of a part. Scales are cast before a part is dequantised, and elements
 * before an adapter is added, as mlx-lm does. */
static mica_status make_value(converting *c, size_t i, mc_value *value) {
    const mc_part *part = &c->source.parts[i];
    const mc_target *target = &c->plan.targets[i];
    bool changes = mc_fuse_changes(&c->fuse, i);
    MC_TRY(c->source.load(&c->source, i, c->s, value));
    if (part->has_biases) cast_scales(c->s, target->dtype, value);
    if (part->quantised && target->quantised && !changes) return mica_scope_status(c->s);
    mica_array x = value->weight;
    if (part->quantised) x = dequantise(c->s, part, value, target->dtype);
    x = mica_astype(c->s, x, target->dtype);
    if (changes) x = mc_fuse_apply(c->s, &c->fuse, part, i, x);
    *value = (mc_value){x, MICA_NONE, MICA_NONE};
    if (!target->quantised) return mica_scope_status(c->s);
    return mica_quantize(c->s, x, target->quant, &value->weight, &value->scales, &value->biases);
}

static mica_status write_array(mc_shard_writer *w, mica_array x) {
    const void *data;
    size_t bytes = (size_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
    mica_status status = mica_array_host(x, &data);
    if (status == MICA_OK) return mc_shard_writer_add(w, data, bytes);
    if (status != MICA_EINVAL) return status; /* EINVAL: not in row-major order */
    void *copy = mc_alloc(bytes);
    if (!copy) return mc_fail_nomem("a tensor");
    status = mica_read(x, copy, bytes);
    if (status == MICA_OK) status = mc_shard_writer_add(w, copy, bytes);
    mc_free(copy);
    return status;
}

static mica_status write_value(converting *c, const mc_value *value, mc_shard_writer *w) {
    const mica_array all[] = {value->weight, value->scales, value->biases};
    size_t n = 0;
    while (n < 3 && mica_valid(all[n]))
        n++;
    MC_TRY(mica_eval_n(c->s, all, n));
    for (size_t i = 0; i < n; i++)
        MC_TRY(write_array(w, all[i]));
    return MICA_OK;
}

static mica_status convert_part(converting *c, size_t i, mc_shard_writer *w) {
    const mc_part *part = &c->source.parts[i];
    mc_value value;
    MC_TRY(mc_cancel_check(c->options->cancel));
    if (!c->plan.targets[i].left_out) {
        mica_status status = make_value(c, i, &value);
        if (status == MICA_OK) status = write_value(c, &value, w);
        if (status != MICA_OK) return mc_fail_context(status, "tensor %s", part->name);
        mc_scope_reset(c->s);
        mica_device_clear_cache(c->device);
    }
    c->done += part->bytes;
    if (c->options->progress) c->options->progress(c->options->progress_user, c->done, c->total);
    return MICA_OK;
}

/* ---- the whole ---- */

static mica_status write_weights(converting *c, const char *folder) {
    mc_shard_writer *w;
    uint64_t limit = c->options->shard_bytes ? c->options->shard_bytes : SHARD_BYTES;
    mica_status status = mc_shard_writer_open(folder, c->plan.tensors, c->plan.count, limit,
                                              c->plan.result.parameters, &w);
    for (size_t i = 0; status == MICA_OK && i < c->source.count; i++)
        status = convert_part(c, i, w);
    return mc_shard_writer_close(&w, status);
}

static mica_status write_folder(converting *c, const char *to) {
    mc_save_folder save;
    MC_TRY(mc_save_folder_open(&save, to));
    mica_status status = c->source.write_files(&c->source, save.path);
    if (status == MICA_OK) status = mc_plan_write_config(&c->plan, &c->source, save.path);
    if (status == MICA_OK) status = write_weights(c, save.path);
    if (status == MICA_OK) status = mc_cancel_check(c->options->cancel);
    return mc_save_folder_close(&save, status);
}

static mica_status prepare(converting *c) {
    const mica_device_options device = {.threads = c->options->threads};
    if (c->options->adapter) MC_TRY(mc_fuse_open(c->options->adapter, &c->source, &c->fuse));
    MC_TRY(mc_plan_open(&c->source, c->options, &c->plan));
    for (size_t i = 0; i < c->source.count; i++)
        c->total += c->source.parts[i].bytes;
    MC_TRY(mica_device_open("cpu", &device, &c->device));
    return mica_scope_open(c->device, &c->s);
}

static mica_status convert(converting *c, const char *from, const char *to) {
    bool file = mc_path_is_file(from) ||
                (!mc_path_is_dir(from) && mc_str_ends(mc_str_of(from), MC_STR(".gguf")));
    MC_TRY(file ? mc_source_open_gguf(from, &c->source) : mc_source_open_folder(from, &c->source));
    MC_TRY(prepare(c));
    return write_folder(c, to);
}

mica_status mica_convert(const char *from, const char *to, const mica_convert_options *given,
                         mica_convert_result *result) {
    mica_convert_options options;
    if (!from || !to) return mc_fail(MICA_EINVAL, "mica_convert: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_convert_options, dequantise, &options, given));
    converting c = {.options = &options};
    mica_status status = convert(&c, from, to);
    if (status == MICA_OK) {
        c.plan.result.fused = c.fuse.count;
        MC_INFO_COPY(mica_convert_result, fused, result, &c.plan.result);
    }
    mica_scope_close(&c.s);
    mica_device_close(&c.device);
    mc_fuse_close(&c.fuse);
    mc_plan_close(&c.plan);
    mc_source_close(&c.source);
    return status;
}
