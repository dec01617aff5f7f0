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

/* ---- experts, as PEFT has them ---- */

static bool is_listed(const mc_lm_slot *w) {
    return w->linear.experts && strchr(w->name, '*');
}

static bool is_stacked(const mc_lm_slot *w) {
    return w->linear.experts && !strchr(w->name, '*');
}

/* What transformers calls the parameter of all experts; NULL: it has none like it. */
static const char *parameter_of(const mc_lm_slot *w) {
    return strstr(w->name, "switch_") ? NULL : w->slot->parameter;
}

/* The module that has the parameter: "mlp.experts". */
static const char *holder_of(const mc_lm_slot *w, char text[NAME_BYTES]) {
    static const char experts[] = "experts";
    const char *dot = strrchr(w->name, '.');
    size_t len = dot ? (size_t)(dot - w->name) : 0, n = strlen(experts);
    bool ends = len >= n && memcmp(w->name + len - n, experts, n) == 0;
    snprintf(text, NAME_BYTES, "%.*s%s%s", (int)len, w->name, ends || !len ? "" : ".",
             ends ? "" : experts);
    return text;
}

/* Of two parameters of a module PEFT wraps the one that comes first in the block first. */
static bool is_inner(const mc_trainable *t, const mc_lm_slot *w) {
    for (size_t i = 0; i < site_count(t); i++) {
        const mc_lm_slot *other = slot_of(t, i);
        if (is_stacked(other) && other->layer == w->layer && other->block == w->block &&
            other->slot > w->slot)
            return true;
    }
    return false;
}

/* The number of its slot in the block. */
static int number_of(const mc_trainable *t, const mc_lm_slot *w) {
    return (int)(w->slot - mc_spec_block(&t->lm->spec, w->layer, w->block)->kind->slots);
}

/* The parameters with factors as a list of JSON, each once. */
static bool put_parameters(mc_buffer *out, const mc_trainable *t) {
    char text[NAME_BYTES], name[NAME_BYTES + 32];
    bool done = mc_buffer_add_byte(out, '['), first = true;
    for (int slot = 0; slot < MC_MAX_SLOTS; slot++)
        for (size_t i = 0; i < site_count(t) && done; i++) {
            const mc_lm_slot *w = slot_of(t, i);
            if (!is_stacked(w) || number_of(t, w) != slot) continue;
            snprintf(name, sizeof name, "%s.%s", holder_of(w, text), parameter_of(w));
            done = (first || mc_buffer_add_text(out, ", ")) && mc_json_put_text(out, name);
            first = false;
            break;
        }
    return done && mc_buffer_add_byte(out, ']');
}

/* The modules with factors as a list of JSON. mlx-lm names them within the layer, PEFT by the last
 * part of the name; where layers differ, both by whole names. */
static bool put_modules(mc_buffer *out, const mc_trainable *t, bool peft) {
    bool uniform = is_uniform(t), first = true, done = mc_buffer_add_byte(out, '[');
    for (size_t i = 0; i < site_count(t) && done; i++) {
        char text[MC_MODULE_BYTES];
        const mc_lm_slot *w = slot_of(t, i);
        if ((uniform && w->layer != t->first_layer) || (peft && is_stacked(w))) continue;
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
           mc_buffer_add_text(out, ",\n  \"target_parameters\": ") && put_parameters(out, t) &&
           mc_buffer_add_text(out, "\n}\n");
}

/* ---- tensors ---- */

static const char *peft_suffix(mc_part part) {
    return part == MC_PART_A   ? "lora_A.weight"
           : part == MC_PART_B ? "lora_B.weight"
                               : "lora_magnitude_vector";
}

/* What a file holds. */
typedef struct writing {
    const mc_trainable *t;
    mica_scope *s; /* for PEFT's factors, which lie in another order */
    char (*names)[NAME_BYTES];
    mica_named_array *entries;
    size_t n;
} writing;

static mica_status write_entry(writing *w, const char *module, const mc_parameter *p,
                               mica_array value) {
    char *name = w->names[w->n];
    value = mica_contiguous(w->s, value);
    MC_TRY(mica_eval(w->s, value));
    snprintf(name, NAME_BYTES, "base_model.model.%s.%s", module, peft_suffix(p->part));
    w->entries[w->n++] = (mica_named_array){name, value};
    return MICA_OK;
}

/* Factors of each expert: A [rank, in], B [out, rank]. */
static mica_status write_each(writing *w, const mc_lm_slot *slot, const mc_parameter *p) {
    char module[NAME_BYTES];
    const char *star = strchr(slot->name, '*');
    int before = (int)(strlen(p->module) - strlen(slot->module));
    for (int64_t e = 0; e < slot->linear.experts; e++) {
        snprintf(module, sizeof module, "%.*s%.*s%lld%s", before, p->module,
                 (int)(star - slot->name), slot->name, (long long)e, star + 1);
        mica_array one = mica_slice_axis(w->s, p->value, 0, e, e + 1);
        MC_TRY(write_entry(w, module, p, mica_squeeze(w->s, one, 0)));
    }
    return MICA_OK;
}

/* Factors of a parameter: A [experts rank, in], B [out, rank experts]. */
static mica_status write_stacked(writing *w, const mc_lm_slot *slot, const mc_parameter *p) {
    char module[NAME_BYTES], holder[NAME_BYTES];
    int before = (int)(strlen(p->module) - strlen(slot->module));
    mica_array x = p->value;
    if (p->part == MC_PART_A)
        x = mica_flatten(w->s, x, 0, 1);
    else
        x = mica_flatten(w->s, mica_transpose(w->s, x, (int[]){1, 2, 0}), 1, 2);
    snprintf(module, sizeof module, "%.*s%.200s%s", before, p->module, holder_of(slot, holder),
             is_inner(w->t, slot) ? ".base_layer" : "");
    return write_entry(w, module, p, x);
}

static mica_status write_peft(writing *w, const mc_parameter *p) {
    const mc_lm_slot *slot = &w->t->lm->slots[p->at];
    if (is_listed(slot)) return write_each(w, slot, p);
    if (is_stacked(slot)) return write_stacked(w, slot, p);
    return write_entry(w, p->module, p,
                       p->part == MC_PART_M ? p->value : mica_transpose(w->s, p->value, NULL));
}

static mica_status write_all(writing *w, bool peft) {
    for (size_t i = 0; i < mc_trainable_count(w->t); i++) {
        const mc_parameter *p = mc_trainable_at(w->t, i);
        if (peft)
            MC_TRY(write_peft(w, p));
        else
            w->entries[w->n++] = (mica_named_array){p->name, p->value};
    }
    return MICA_OK;
}

static size_t count_entries(const mc_trainable *t, bool peft) {
    size_t n = 0;
    for (size_t i = 0; i < mc_trainable_count(t); i++) {
        const mc_lm_slot *slot = &t->lm->slots[mc_trainable_at(t, i)->at];
        n += peft && is_listed(slot) ? (size_t)slot->linear.experts : 1;
    }
    return n;
}

static mica_status save_tensors(const mica_tuner *tuner, const char *path, bool peft) {
    size_t n = count_entries(&tuner->trainable, peft);
    writing w = {.t = &tuner->trainable,
                 .entries = mc_calloc(n + 1, sizeof *w.entries),
                 .names = mc_calloc(n + 1, sizeof *w.names)};
    mica_status status = w.entries && w.names ? mica_scope_open(tuner->device, &w.s)
                                              : mc_fail_nomem("the tensors of an adapter");
    if (status == MICA_OK) status = write_all(&w, peft);
    const mica_metadata format = {"format", peft ? "pt" : "mlx"};
    if (status == MICA_OK) status = mica_save_safetensors(path, w.entries, n, &format, 1);
    mica_scope_close(&w.s);
    mc_free(w.entries);
    mc_free(w.names);
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

/* Experts for which PEFT has no name: of a model as mlx-lm writes it. */
static const mc_lm_slot *find_nameless(const mc_trainable *t) {
    for (size_t i = 0; i < site_count(t); i++)
        if (is_stacked(slot_of(t, i)) && !parameter_of(slot_of(t, i))) return slot_of(t, i);
    return NULL;
}

mica_status mc_tuner_check_format(const mica_tuner *tuner, const char *folder,
                                  mica_adapter_format format) {
    bool peft = format == MICA_ADAPTER_PEFT;
    if (peft && tuner->trainable.options.kind == MICA_TUNE_FULL)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: PEFT's format has no place for full parameters: save mlx-lm's", folder);
    const mc_lm_slot *nameless = peft ? find_nameless(&tuner->trainable) : NULL;
    if (nameless)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: PEFT's format has no name for factors of %s: save mlx-lm's", folder,
                       nameless->name);
    return MICA_OK;
}

mica_status mica_tuner_save(const mica_tuner *tuner, const char *folder,
                            mica_adapter_format format) {
    bool peft = format == MICA_ADAPTER_PEFT;
    MC_TRY(mc_tuner_check(tuner, "mica_tuner_save"));
    if (!folder) return mc_fail(MICA_EINVAL, "mica_tuner_save: folder is NULL");
    MC_TRY(mc_tuner_check_format(tuner, folder, format));
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
