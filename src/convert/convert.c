#include <mica/convert.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/filemap.h"
#include "base/folder.h"
#include "base/options.h"
#include "base/save_folder.h"
#include "base/str.h"
#include "convert/converting.h"
#include "graph/graph.h"
#include "io/arrays/arrays.h"
#include "io/gguf_cache.h"
#include "io/safetensors_write.h"

#include <string.h>

#define SHARD_BYTES (5ull << 30)

/* ---- a folder ---- */

static mica_status add_bytes(void *writer, const void *data, size_t bytes) {
    return mc_shard_writer_add(writer, data, bytes);
}

static mica_status write_value(mc_converting *c, const mc_value *value, mc_shard_writer *w) {
    const mica_array all[] = {value->weight, value->scales, value->biases};
    size_t n = 0;
    while (n < 3 && mica_valid(all[n]))
        n++;
    MC_TRY(mica_eval_n(c->s, all, n));
    for (size_t i = 0; i < n; i++)
        MC_TRY(mc_array_bytes(all[i], add_bytes, w));
    return MICA_OK;
}

static mica_status convert_part(mc_converting *c, size_t i, mc_shard_writer *w) {
    mc_value value;
    MC_TRY(mc_cancel_check(c->options->cancel));
    if (!c->plan.targets[i].left_out) {
        mica_status status = mc_make_value(c, i, &value);
        if (status == MICA_OK) status = write_value(c, &value, w);
        if (status != MICA_OK) return mc_fail_context(status, "tensor %s", c->source.parts[i].name);
    }
    mc_end_part(c, i);
    return MICA_OK;
}

static mica_status write_weights(mc_converting *c, const char *folder) {
    mc_shard_writer *w;
    uint64_t limit = c->options->shard_bytes ? c->options->shard_bytes : SHARD_BYTES;
    mica_status status = mc_shard_writer_open(folder, c->plan.tensors, c->plan.count, limit,
                                              c->plan.result.parameters, &w);
    for (size_t i = 0; status == MICA_OK && i < c->source.count; i++)
        status = convert_part(c, i, w);
    return mc_shard_writer_close(&w, status);
}

/* ---- the whole ---- */

/* What may take minutes, of a calibration: a target that cannot be made is found before. */
static mica_status prepare(mc_converting *c) {
    const mica_device_options device = {.threads = c->options->threads};
    if (c->options->adapter) MC_TRY(mc_fuse_open(c->options->adapter, &c->source, &c->fuse));
    MC_TRY(mica_device_open("cpu", &device, &c->device));
    MC_TRY(mc_plan_open(&c->source, c->options, c->device, &c->plan));
    for (size_t i = 0; i < c->source.count; i++)
        c->total += c->source.parts[i].bytes;
    return mica_scope_open(c->device, &c->s);
}

/* errors  MICA_EIO what is to be written does not fit */
static mica_status check_room(const mc_converting *c, const char *folder) {
    uint64_t room = mc_folder_room(folder), needed = c->plan.result.bytes;
    if (needed <= room) return MICA_OK;
    return mc_fail(MICA_EIO,
                   "the model does not fit on the disk: it takes %llu MB, and %llu MB are free",
                   (unsigned long long)(needed / 1000000), (unsigned long long)(room / 1000000));
}

static mica_status fill_folder(mc_converting *c, const char *folder) {
    MC_TRY(prepare(c));
    MC_TRY(check_room(c, folder));
    MC_TRY(c->source.write_files(&c->source, folder));
    MC_TRY(mc_plan_write_config(&c->plan, &c->source, folder));
    MC_TRY(write_weights(c, folder));
    if (c->origin.len) MC_TRY(mc_gguf_origin_write(folder, c->origin));
    return mc_cancel_check(c->options->cancel);
}

static mica_status write_folder(mc_converting *c, const char *to) {
    mc_save_folder save;
    MC_TRY(mc_save_folder_open(&save, to));
    return mc_save_folder_close(&save, fill_folder(c, save.path));
}

static mica_status write_gguf(mc_converting *c, const char *from, const char *to) {
    MC_TRY(mc_gguf_check_target(c, from, to));
    MC_TRY(prepare(c));
    return mc_write_gguf(c, from, to);
}

/* What matrices become that are not quantised as MLX does. */
static mc_weight_form form_of(const mica_convert_options *o) {
    if (!o->quantise && !o->dequantise) return MC_FORM_FILE;
    return o->dtype && strcmp(o->dtype, "float32") == 0 ? MC_FORM_F32 : MC_FORM_FLOATS;
}

static mica_status convert(mc_converting *c, const char *from, const char *to) {
    bool file = mc_path_is_file(from) ||
                (!mc_path_is_dir(from) && mc_str_ends(mc_str_of(from), MC_STR(".gguf")));
    MC_TRY(file ? mc_source_open_gguf(from, c->options->cancel, &c->source)
                : mc_source_open_folder(from, form_of(c->options), &c->source));
    if (file) MC_TRY(mc_source_check(&c->source, from));
    if (mc_str_ends(mc_str_of(to), MC_STR(".gguf"))) return write_gguf(c, from, to);
    /* Adapters have the names of the model that they were trained with. */
    if (!file && c->options->quantise && !c->options->adapter) MC_TRY(mc_source_as_mlx(&c->source));
    return write_folder(c, to);
}

static mica_status convert_all(const char *from, const char *to,
                               const mica_convert_options *options, mc_str origin,
                               mica_convert_result *result) {
    mc_converting c = {.options = options, .origin = origin};
    mica_status status = convert(&c, from, to);
    if (status == MICA_OK) {
        c.plan.result.fused = c.fuse.count;
        MC_INFO_COPY(mica_convert_result, divergence, result, &c.plan.result);
    }
    mica_scope_close(&c.s);
    mica_device_close(&c.device);
    mc_fuse_close(&c.fuse);
    mc_plan_close(&c.plan);
    mc_source_close(&c.source);
    return status;
}

mica_status mc_convert_kept(const char *from, const char *to, const mica_convert_options *options,
                            mc_str origin) {
    return convert_all(from, to, options, origin, NULL);
}

mica_status mica_convert(const char *from, const char *to, const mica_convert_options *given,
                         mica_convert_result *result) {
    mica_convert_options options;
    if (!from || !to) return mc_fail(MICA_EINVAL, "mica_convert: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_convert_options, target_bits, &options, given));
    return convert_all(from, to, &options, (mc_str){0}, result);
}
