/* config.json of a converted model: that of its source, but for the quantisation and the dtype. */
#include "base/alloc.h"
#include "base/filemap.h"
#include "base/json_write.h"
#include "base/str.h"
#include "convert/plan.h"
#include "model/packing.h"

#include <mica/file.h>

#include <string.h>

static bool put_quant(mc_buffer *out, const mica_quant *quant, int depth, bool close) {
    bool done = mc_buffer_add_byte(out, '{') && mc_json_put_line(out, depth + 1) &&
                mc_buffer_printf(out, "\"group_size\": %d,", quant->group_size) &&
                mc_json_put_line(out, depth + 1) &&
                mc_buffer_printf(out, "\"bits\": %d,", quant->bits) &&
                mc_json_put_line(out, depth + 1) &&
                mc_buffer_printf(out, "\"mode\": \"%s\"", mc_packing_mode_name(quant->mode));
    return done && (!close || (mc_json_put_line(out, depth) && mc_buffer_add_byte(out, '}')));
}

static bool same(const mica_quant *a, const mica_quant *b) {
    return a->mode == b->mode && a->bits == b->bits && a->group_size == b->group_size;
}

/* Adds the common quantisation, and the modules that have another. */
static bool put_quantization(mc_buffer *out, const mc_plan *plan, const mc_source *source) {
    bool done = put_quant(out, &plan->common, 1, false);
    for (size_t i = 0; done && i < source->count; i++) {
        const mc_target *target = &plan->targets[i];
        if (target->left_out || !target->quantised || same(&target->quant, &plan->common)) continue;
        mc_str module = mc_str_of(source->parts[i].name);
        module.len -= strlen(".weight");
        done = mc_buffer_add_byte(out, ',') && mc_json_put_line(out, 2) &&
               mc_json_put_str(out, module) && mc_buffer_add_text(out, ": ") &&
               put_quant(out, &target->quant, 2, true);
    }
    return done && mc_json_put_line(out, 1) && mc_buffer_add_byte(out, '}');
}

static bool is_dtype_key(mc_str key) {
    return mc_str_is(key, "torch_dtype") || mc_str_is(key, "dtype");
}

static bool put_dtype(mc_buffer *out, mica_dtype dtype) {
    return mc_buffer_printf(out, "\"%s\"",
                            dtype == MICA_F32   ? "float32"
                            : dtype == MICA_F16 ? "float16"
                                                : "bfloat16");
}

/* Adds the value of a member that is not copied. *changed: it is such a one. */
static bool put_changed(mc_buffer *out, const mc_plan *plan, mc_str key, bool *changed) {
    *changed = true;
    if (plan->cast && is_dtype_key(key)) return put_dtype(out, plan->dtype);
    if (plan->unties && mc_str_is(key, "tie_word_embeddings"))
        return mc_buffer_add_text(out, "false");
    *changed = false;
    return true;
}

/* Adds the members of an object, which has been opened. */
static bool put_members(mc_buffer *out, const mc_plan *plan, mc_json object, int depth) {
    bool first = true;
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);) {
        mc_str key = it.key;
        if (mc_str_is(key, "quantization") || mc_str_is(key, "quantization_config")) continue;
        bool done = (first || mc_buffer_add_byte(out, ',')) && mc_json_put_line(out, depth) &&
                    mc_json_put_str(out, key) && mc_buffer_add_text(out, ": ");
        bool changed = false;
        first = false;
        done = done && put_changed(out, plan, key, &changed);
        if (done && !changed && depth == 1 && mc_str_is(key, "text_config") &&
            mc_json_get_type(it.value) == MC_JSON_OBJECT) {
            done = mc_buffer_add_byte(out, '{') && put_members(out, plan, it.value, depth + 1) &&
                   mc_json_put_line(out, depth) && mc_buffer_add_byte(out, '}');
        } else if (done && !changed) {
            done = mc_json_put_value(out, it.value, depth);
        }
        if (!done) return false;
    }
    return true;
}

/* Says that the head is not the embedding, where the source's config says nothing. */
static bool put_untied(mc_buffer *out, const mc_plan *plan, const mc_source *source) {
    if (!plan->unties || mc_config_is_tied(source->config)) return true;
    return (out->len == 1 || mc_buffer_add_byte(out, ',')) && mc_json_put_line(out, 1) &&
           mc_buffer_add_text(out, "\"tie_word_embeddings\": false");
}

static bool put_config(mc_buffer *out, const mc_plan *plan, const mc_source *source) {
    static const char *const keys[] = {"quantization", "quantization_config"};
    bool done = mc_buffer_add_byte(out, '{') && put_members(out, plan, source->config, 1) &&
                put_untied(out, plan, source);
    for (size_t i = 0; done && plan->common.bits && i < 2; i++)
        done = (out->len == 1 || mc_buffer_add_byte(out, ',')) && mc_json_put_line(out, 1) &&
               mc_buffer_printf(out, "\"%s\": ", keys[i]) && put_quantization(out, plan, source);
    return done && mc_buffer_add_text(out, "\n}\n");
}

mica_status mc_plan_write_config(const mc_plan *plan, const mc_source *source, const char *folder) {
    mc_buffer text = {0};
    char *path = mc_path_join(folder, "config.json");
    bool done = path && put_config(&text, plan, source);
    mica_status status =
        done ? mica_file_save(path, text.data, text.len) : mc_fail_nomem("config.json");
    mc_buffer_deinit(&text);
    mc_free(path);
    return status;
}
