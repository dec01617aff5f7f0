/* Saving and loading what was trained, in mlx-lm's and PEFT's formats. */
#include "base/alloc.h"
#include "base/filemap.h"
#include "base/folder.h"
#include "base/json_write.h"
#include "io/safetensors.h"
#include "tune/tuner.h"

#include <mica/file.h>
#include <mica/io.h>

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 400 };

/* ---- names ---- */

static const char *const kind_names[] = {"lora", "dora", "full"};

static size_t site_count(const mc_trainable *t) {
    return MC_BUFFER_COUNT(&t->sites, mc_site);
}

static const mc_site *site_at(const mc_trainable *t, size_t i) {
    return &MC_BUFFER_AT(&t->sites, mc_site)[i];
}

static const mc_lm_slot *slot_of(const mc_trainable *t, size_t site) {
    return &t->lm->slots[site_at(t, site)->at];
}

static bool has_site(const mc_trainable *t, int layer, const char *name) {
    for (size_t i = 0; i < site_count(t); i++)
        if (slot_of(t, i)->layer == layer && strcmp(slot_of(t, i)->module, name) == 0) return true;
    return false;
}

/* Whether all trained layers have factors at the same matrices. */
static bool is_uniform(const mc_trainable *t) {
    for (size_t i = 0; i < site_count(t); i++)
        for (int layer = t->first_layer; layer < t->lm->spec.n_layers; layer++)
            if (!has_site(t, layer, slot_of(t, i)->module)) return false;
    return true;
}

/* The modules with factors as a list of JSON. mlx-lm names them within the layer, PEFT by the last
 * part of the name; where layers differ, both by whole names. */
static bool put_modules(mc_buffer *out, const mc_trainable *t, bool peft) {
    bool uniform = is_uniform(t), first = true, done = mc_buffer_add_byte(out, '[');
    for (size_t i = 0; i < site_count(t) && done; i++) {
        char text[MC_MODULE_BYTES];
        const mc_lm_slot *w = slot_of(t, i);
        if (uniform && w->layer != t->first_layer) continue;
        const char *dot = strrchr(w->module, '.'), *name = peft && dot ? dot + 1 : w->module;
        done = (first || mc_buffer_add_text(out, ", ")) &&
               mc_json_put_text(out, uniform ? name : mc_lm_module(t->lm, w, text));
        first = false;
    }
    return done && mc_buffer_add_byte(out, ']');
}

/* ---- configs ---- */

static bool put_member(mc_buffer *out, const char *key, double value) {
    return mc_buffer_printf(out, "\"%s\": ", key) && mc_json_put_number(out, value);
}

static bool put_mlx(mc_buffer *out, const mica_tuner *tuner) {
    const mc_trainable *t = &tuner->trainable;
    return mc_buffer_printf(out,
                            "{\n  \"fine_tune_type\": \"%s\",\n  \"num_layers\": %d,\n"
                            "  \"lora_parameters\": {\"rank\": %lld, ",
                            kind_names[t->options.kind], t->lm->spec.n_layers - t->first_layer,
                            (long long)t->options.rank) &&
           put_member(out, "scale", t->scale) && mc_buffer_add_text(out, ", ") &&
           put_member(out, "dropout", (double)t->options.dropout) &&
           mc_buffer_add_text(out, ", \"keys\": ") && put_modules(out, t, false) &&
           mc_buffer_add_text(out, "},\n  \"model\": ") && mc_json_put_text(out, tuner->path) &&
           mc_buffer_add_text(out, "\n}\n");
}

static bool put_layers(mc_buffer *out, const mc_trainable *t) {
    if (t->first_layer == 0 || !is_uniform(t)) return mc_buffer_add_text(out, "null");
    bool done = mc_buffer_add_byte(out, '[');
    for (int i = t->first_layer; i < t->lm->spec.n_layers && done; i++)
        done = mc_buffer_printf(out, i > t->first_layer ? ", %d" : "%d", i);
    return done && mc_buffer_add_byte(out, ']');
}

static bool put_peft(mc_buffer *out, const mica_tuner *tuner) {
    const mc_trainable *t = &tuner->trainable;
    double alpha = t->scale * (double)t->options.rank;
    return mc_buffer_add_text(out, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"CAUSAL_LM\","
                                   "\n  \"base_model_name_or_path\": ") &&
           mc_json_put_text(out, tuner->path) &&
           mc_buffer_printf(out,
                            ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                            "  \"inference_mode\": true,\n  \"use_rslora\": false,\n"
                            "  \"use_dora\": %s,\n  \"r\": %lld,\n  ",
                            t->options.kind == MICA_TUNE_DORA ? "true" : "false",
                            (long long)t->options.rank) &&
           put_member(out, "lora_alpha", alpha) && mc_buffer_add_text(out, ",\n  ") &&
           put_member(out, "lora_dropout", (double)t->options.dropout) &&
           mc_buffer_add_text(out, ",\n  \"layers_to_transform\": ") && put_layers(out, t) &&
           mc_buffer_add_text(out, ",\n  \"target_modules\": ") && put_modules(out, t, true) &&
           mc_buffer_add_text(out, "\n}\n");
}

/* ---- tensors ---- */

static const char *peft_suffix(mc_part part) {
    return part == MC_PART_A   ? "lora_A.weight"
           : part == MC_PART_B ? "lora_B.weight"
                               : "lora_magnitude_vector";
}

/* s: for PEFT's transposed factors. names: [n] memory of their names. */
static mica_status fill_entries(const mica_tuner *tuner, bool peft, mica_scope *s,
                                char (*names)[NAME_BYTES], mica_named_array *entries) {
    const mc_trainable *t = &tuner->trainable;
    for (size_t i = 0; i < mc_trainable_count(t); i++) {
        const mc_parameter *p = mc_trainable_at(t, i);
        entries[i] = (mica_named_array){p->name, p->value};
        if (!peft) continue;
        mica_array value = p->value;
        if (p->part != MC_PART_M) value = mica_contiguous(s, mica_transpose(s, value, NULL));
        MC_TRY(p->part == MC_PART_M ? MICA_OK : mica_eval(s, value));
        snprintf(names[i], NAME_BYTES, "base_model.model.%s.%s", p->module, peft_suffix(p->part));
        entries[i] = (mica_named_array){names[i], value};
    }
    return MICA_OK;
}

static mica_status save_tensors(const mica_tuner *tuner, const char *path, bool peft) {
    size_t n = mc_trainable_count(&tuner->trainable);
    mica_scope *s = NULL;
    mica_named_array *entries = mc_calloc(n + 1, sizeof *entries);
    char(*names)[NAME_BYTES] = mc_calloc(n + 1, sizeof *names);
    mica_status status = entries && names ? mica_scope_open(tuner->device, &s)
                                          : mc_fail_nomem("the tensors of an adapter");
    if (status == MICA_OK) status = fill_entries(tuner, peft, s, names, entries);
    const mica_metadata format = {"format", peft ? "pt" : "mlx"};
    if (status == MICA_OK) status = mica_save_safetensors(path, entries, n, &format, 1);
    mica_scope_close(&s);
    mc_free(entries);
    mc_free(names);
    return status;
}

static mica_status save_config(const mica_tuner *tuner, const char *path, bool peft) {
    mc_buffer text = {0};
    bool done = peft ? put_peft(&text, tuner) : put_mlx(&text, tuner);
    mica_status status =
        done ? mica_file_save(path, text.data, text.len) : mc_fail_nomem("an adapter's config");
    mc_buffer_deinit(&text);
    return status;
}

static bool has_experts(const mc_trainable *t) {
    for (size_t i = 0; i < mc_trainable_count(t); i++)
        if (mica_array_ndim(mc_trainable_at(t, i)->value) > 2) return true;
    return false;
}

mica_status mica_tuner_save(const mica_tuner *tuner, const char *folder,
                            mica_adapter_format format) {
    MC_TRY(mc_tuner_check(tuner, "mica_tuner_save"));
    if (!folder) return mc_fail(MICA_EINVAL, "mica_tuner_save: folder is NULL");
    bool peft = format == MICA_ADAPTER_PEFT;
    if (peft && tuner->trainable.options.kind == MICA_TUNE_FULL)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: PEFT's format has no place for full parameters: save mlx-lm's", folder);
    if (peft && has_experts(&tuner->trainable))
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: in PEFT's format mica writes no factors of experts: save mlx-lm's",
                       folder);
    MC_TRY(mc_folder_make(folder));
    char *tensors =
        mc_path_join(folder, peft ? "adapter_model.safetensors" : "adapters.safetensors");
    char *config = mc_path_join(folder, "adapter_config.json");
    /* The config last: an adapter is one once it is there. */
    mica_status status =
        tensors && config ? save_tensors(tuner, tensors, peft) : mc_fail_nomem("an adapter");
    if (status == MICA_OK) status = save_config(tuner, config, peft);
    mc_free(tensors);
    mc_free(config);
    return status;
}

/* ---- loading ---- */

static mica_status load_value(mc_trainable *t, const mc_weights *w, const mc_parameter *p,
                              mica_array *value) {
    const mc_weight_tensor *x = mc_weights_find(w, p->name);
    if (!x)
        return mc_fail(
            MICA_ENOENT,
            "no tensor %s: is the adapter of this model, and are modules, layers and kind "
            "of training those that it was made with?",
            p->name);
    if (!x->has_dtype || !mica_dtype_is_float(x->dtype))
        return mc_fail(MICA_EDTYPE, "tensor %s is %s, want a float", p->name, x->kind);
    int ndim = mica_array_ndim(p->value);
    if (x->ndim != ndim ||
        memcmp(x->shape, mica_array_shape(p->value), (size_t)ndim * sizeof *x->shape) != 0)
        return mc_fail(MICA_ESHAPE,
                       "tensor %s has another shape than the parameter: are rank and model those "
                       "of the adapter?",
                       p->name);
    *value = mica_from_data(t->scope, x->data, x->dtype, x->shape, x->ndim);
    *value = mica_astype(t->scope, *value, mica_array_dtype(p->value));
    return mica_eval(t->scope, *value);
}

mica_status mc_trainable_load(mc_trainable *t, const mc_weights *w) {
    size_t n = mc_trainable_count(t);
    mica_array *values = mc_calloc(n + 1, sizeof *values);
    if (!values) return mc_fail_nomem("an adapter");
    mica_status status = MICA_OK;
    for (size_t i = 0; i < n && status == MICA_OK; i++)
        status = load_value(t, w, mc_trainable_at(t, i), &values[i]);
    for (size_t i = 0; i < n && status == MICA_OK; i++)
        mc_trainable_at(t, i)->value = values[i];
    mc_free(values);
    return status;
}

mica_status mica_tuner_load(mica_tuner *tuner, const char *path) {
    mc_weights *w = NULL;
    MC_TRY(mc_tuner_check(tuner, "mica_tuner_load"));
    if (!path) return mc_fail(MICA_EINVAL, "mica_tuner_load: path is NULL");
    char *file =
        mc_path_is_dir(path) ? mc_path_join(path, "adapters.safetensors") : mc_strdup(path);
    if (!file) return mc_fail_nomem(path);
    mica_status status = mc_weights_open(file, &(mc_weights_options){.no_mmap = true}, &w);
    if (status == MICA_OK) {
        status = mc_trainable_load(&tuner->trainable, w);
        if (status != MICA_OK) status = mc_fail_context(status, "%s", file);
    }
    mc_weights_close(&w);
    mc_free(file);
    return status == MICA_OK ? mc_trainable_collect(&tuner->trainable, NULL, 0) : status;
}
