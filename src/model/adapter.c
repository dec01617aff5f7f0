/* Adds an adapter's low-rank factors to the matrices that they name, and puts its substitutes in
 * the place of the model's own tensors. */
#include "io/adapter.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/names.h"
#include "model/lm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 320

mc_lm_matrix mc_lm_layer_matrix(const mc_lm *lm, int layer, size_t i) {
    assert(layer >= 0 && layer < lm->spec.n_layers && i < MC_LM_LAYER_MATRICES);
    const mc_decoder_names *names = &lm->spec.names;
    mc_lm_layer *w = &lm->layers[layer];
    const mc_lm_matrix all[MC_LM_LAYER_MATRICES] = {
        {&w->q, layer, names->q},       {&w->k, layer, names->k},       {&w->v, layer, names->v},
        {&w->o, layer, names->o},       {&w->gate, layer, names->gate}, {&w->up, layer, names->up},
        {&w->down, layer, names->down},
    };
    return all[i];
}

mc_lm_norm mc_lm_layer_norm(const mc_lm *lm, int layer, size_t i) {
    assert(layer >= 0 && layer < lm->spec.n_layers && i < MC_LM_LAYER_NORMS);
    const mc_decoder_names *names = &lm->spec.names;
    mc_lm_layer *w = &lm->layers[layer];
    const mc_lm_norm all[MC_LM_LAYER_NORMS] = {
        {&w->q_norm, names->q_norm},
        {&w->k_norm, names->k_norm},
        {&w->attention_norm, names->attention_norm},
        {&w->attention_post_norm, names->attention_post_norm},
        {&w->mlp_norm, names->mlp_norm},
        {&w->mlp_post_norm, names->mlp_post_norm},
    };
    return all[i];
}

/* The part of a module's name behind the decoder's prefix, which programs spell in several ways. */
static const char *skip_prefix(const char *module) {
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.",
                                           "language_model.", "model."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(module, prefixes[i], strlen(prefixes[i])) == 0)
            return module + strlen(prefixes[i]);
    return module;
}

/* "layers.7.mlp.up_proj", "embed_tokens", "lm_head" */
static mc_lm_matrix find_target(mc_lm *lm, mc_adapter_kind kind, const char *module) {
    static const char block[] = "layers.";
    const mc_decoder_names *names = &lm->spec.names;
    const char *name = skip_prefix(module);
    /* In a model with a tied head, mlx-lm names no head; PEFT names one, which has the embedding's
     * weight. */
    bool has_head = !lm->tied || kind != MC_ADAPTER_MLX;
    if (strcmp(name, names->embed) == 0) return (mc_lm_matrix){&lm->embed, -1, names->embed};
    if (strcmp(name, names->head) == 0 && has_head)
        return (mc_lm_matrix){&lm->head, -1, names->head};
    if (strncmp(name, block, strlen(block)) != 0) return (mc_lm_matrix){0};

    char *rest;
    name += strlen(block);
    if (*name < '0' || *name > '9') return (mc_lm_matrix){0};
    long layer = strtol(name, &rest, 10);
    if (*rest != '.' || layer >= lm->spec.n_layers) return (mc_lm_matrix){0};
    for (size_t i = 0; i < MC_LM_LAYER_MATRICES; i++) {
        mc_lm_matrix at = mc_lm_layer_matrix(lm, (int)layer, i);
        if (strcmp(rest + 1, at.name) == 0) return at;
    }
    return (mc_lm_matrix){0};
}

/* A table of rows has no bias. */
static mica_status check_bias(const mc_adapter_pair *pair, const mc_lm_matrix *at,
                              const mc_lm *lm) {
    if (at->linear != &lm->embed) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: tensor %s: an embedding has no bias", pair->bias->file,
                   pair->bias->name);
}

static mica_status apply_pair(mc_lm *lm, const mc_adapter_pair *pair, const mc_lm_matrix *at) {
    mc_factor a = {pair->a, false}, b = {pair->b, false};
    if (pair->kind == MC_ADAPTER_PEFT) {
        a.transposed = b.transposed = true;
    } else if (pair->kind == MC_ADAPTER_PEFT_EMBEDDING) {
        a = (mc_factor){pair->b, false};
        b = (mc_factor){pair->a, false};
    } else if (at->linear == &lm->embed) { /* for an embedding, mlx-lm adds A B, not transposed */
        a = (mc_factor){pair->b, true};
        b = (mc_factor){pair->a, true};
    }
    MC_TRY(mc_linear_adapt(lm->scope, a, b, pair->rank, pair->scale, at->linear));
    if (pair->m && at->layer < 0)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s: mica applies DoRA to the matrices of layers only",
                       pair->m->file, pair->m->name);
    if (pair->m) MC_TRY(mc_linear_magnify(lm->scope, pair->m, at->linear));
    if (pair->bias) {
        MC_TRY(check_bias(pair, at, lm));
        MC_TRY(mc_linear_add_bias(lm->scope, pair->bias, pair->scale, at->linear));
        lm->adapter_parameters += (uint64_t)at->linear->out;
    }
    if (pair->kind == MC_ADAPTER_MLX && at->linear == &lm->embed && lm->tied) lm->head = lm->embed;
    lm->adapter_parameters += (uint64_t)pair->rank * (uint64_t)(at->linear->in + at->linear->out);
    return MICA_OK;
}

static mica_status apply_pairs(mc_lm *lm, const mc_adapter *adapter, mc_names *strangers) {
    int first = mc_adapter_first_layer(adapter, lm->spec.n_layers);
    for (size_t i = 0; i < mc_adapter_count(adapter); i++) {
        const mc_adapter_pair *pair = mc_adapter_at(adapter, i);
        mc_lm_matrix at = find_target(lm, pair->kind, pair->module);
        if (at.linear && at.layer >= 0 && at.layer < first &&
            !mc_adapter_expects(adapter, at.layer, lm->spec.n_layers, pair->module, at.name))
            return mc_fail(MICA_EFORMAT,
                           "%s: tensor %s is of block %d, but num_layers of adapter_config.json "
                           "lets only the blocks from %d on have adapters, of %d",
                           pair->a->file, pair->a->name, at.layer, first, lm->spec.n_layers);
        if (at.linear && mica_valid(at.linear->lora_a))
            return mc_fail(MICA_EFORMAT, "%s: tensor %s is the second for its matrix",
                           pair->a->file, pair->a->name);
        if (at.linear)
            MC_TRY(apply_pair(lm, pair, &at));
        else if (!mc_lm_ignores(pair->module))
            MC_TRY(mc_names_add(strangers, pair->module));
    }
    return MICA_OK;
}

static mica_status find_missing(const mc_lm *lm, const mc_adapter *adapter, mc_names *missing) {
    char module[NAME_BYTES];
    for (int layer = 0; layer < lm->spec.n_layers; layer++)
        for (size_t i = 0; i < MC_LM_LAYER_MATRICES; i++) {
            mc_lm_matrix at = mc_lm_layer_matrix(lm, layer, i);
            snprintf(module, sizeof module, "model.layers.%d.%s", layer, at.name);
            if (!mica_valid(at.linear->lora_a) &&
                mc_adapter_expects(adapter, layer, lm->spec.n_layers, module, at.name))
                MC_TRY(mc_names_add(missing, module));
        }
    return MICA_OK;
}

static mica_status refuse(mc_names *list, const mc_lm *lm, const mc_adapter *adapter,
                          const char *what) {
    if (!list->count) return MICA_OK;
    const char *names = mc_names_text(list);
    if (!names) return mc_fail_nomem("a list of modules");
    return mc_fail(MICA_ENOENT, "%s: is the adapter for this model (%s, %d blocks)? %zu %s: %s",
                   mc_adapter_path(adapter), lm->spec.family, lm->spec.n_layers, list->count, what,
                   names);
}

/* ---- substitutes ---- */

/* A norm by its name: "norm", "layers.7.input_layernorm". NULL: there is none. */
static mica_array *find_norm(mc_lm *lm, const char *module) {
    const char *name = skip_prefix(module);
    if (strcmp(name, lm->spec.names.norm) == 0) return &lm->norm;
    int layer, at = 0;
    if (sscanf(name, "layers.%d.%n", &layer, &at) != 1 || !at) return NULL;
    if (layer < 0 || layer >= lm->spec.n_layers) return NULL;
    for (size_t i = 0; i < MC_LM_LAYER_NORMS; i++) {
        mc_lm_norm norm = mc_lm_layer_norm(lm, layer, i);
        if (norm.name && mica_valid(*norm.weight) && strcmp(name + at, norm.name) == 0)
            return norm.weight;
    }
    return NULL;
}

static mica_status replace_matrix(mc_lm *lm, const mc_adapter *adapter,
                                  const mc_adapter_substitute *x, mc_linear *linear) {
    const mc_weight_tensor *t = x->tensor;
    bool embed = linear == &lm->embed;
    if (mc_adapter_is_full(adapter) && linear->quantised)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s takes the place of a quantised matrix: give the model that "
                       "was trained, whose weights are floats",
                       t->file, t->name);
    MC_TRY(x->rows ? mc_linear_replace_rows(lm->scope, t, x->rows, x->row_count, linear)
                   : mc_linear_replace(lm->scope, t, linear));
    if (embed && lm->tied && (x->copy || x->rows)) lm->head = lm->embed;
    return MICA_OK;
}

/* Puts a tensor in the place of the model's own of that name. *known: there is one. */
static mica_status replace(mc_lm *lm, const mc_adapter *adapter, const mc_adapter_substitute *x,
                           bool *known) {
    char module[NAME_BYTES];
    const char *dot = strrchr(x->name, '.');
    size_t len = dot ? (size_t)(dot - x->name) : 0;
    *known = false;
    if (!dot || len >= sizeof module) return MICA_OK;
    memcpy(module, x->name, len);
    module[len] = '\0';
    bool is_weight = strcmp(dot, ".weight") == 0, is_bias = strcmp(dot, ".bias") == 0;
    mica_array *norm = is_weight && !x->rows ? find_norm(lm, module) : NULL;
    mc_adapter_kind kind = mc_adapter_is_peft(adapter) ? MC_ADAPTER_PEFT : MC_ADAPTER_MLX;
    mc_lm_matrix at = find_target(lm, kind, module);
    *known = norm || (at.linear && (is_weight || (is_bias && mica_valid(at.linear->bias))));
    if (!*known) return MICA_OK;
    if (norm)
        return mc_vector_make(lm->scope, x->tensor, mica_array_size(*norm), lm->spec.norm_offset,
                              norm);
    if (is_bias) return mc_vector_make(lm->scope, x->tensor, at.linear->out, 0.0, &at.linear->bias);
    return replace_matrix(lm, adapter, x, at.linear);
}

/* Two tensors whose names differ in the decoder's prefix only would take the same place. */
static mica_status check_twins(const mc_adapter *adapter) {
    mc_map names = {0};
    mica_status status = MICA_OK;
    for (size_t i = 0; status == MICA_OK && i < mc_adapter_substitute_count(adapter); i++) {
        const mc_adapter_substitute *x = mc_adapter_substitute_at(adapter, i);
        mc_str name = mc_str_of(skip_prefix(x->name));
        uint64_t there;
        if (mc_map_find(&names, name, &there))
            status = mc_fail(MICA_EFORMAT, "%s: tensor %s is there under two names",
                             x->tensor->file, x->tensor->name);
        else if (!mc_map_put(&names, name, i))
            status = mc_fail_nomem("the tensors of an adapter");
    }
    mc_map_deinit(&names);
    return status;
}

static mica_status replace_all(mc_lm *lm, const mc_adapter *adapter, mc_names *strangers) {
    MC_TRY(check_twins(adapter));
    for (size_t i = 0; i < mc_adapter_substitute_count(adapter); i++) {
        const mc_adapter_substitute *x = mc_adapter_substitute_at(adapter, i);
        bool known;
        MC_TRY(replace(lm, adapter, x, &known));
        if (known) lm->adapter_parameters += x->tensor->bytes / mica_dtype_bytes(x->tensor->dtype);
        if (!known && !mc_lm_ignores(x->name)) MC_TRY(mc_names_add(strangers, x->tensor->name));
    }
    return MICA_OK;
}

/* ---- the whole ---- */

static mica_status adapt(mc_lm *lm, const mc_adapter *adapter, mc_names *list) {
    MC_TRY(replace_all(lm, adapter, list)); /* factors are added to these */
    MC_TRY(refuse(list, lm, adapter, "tensors are not in the model"));
    MC_TRY(apply_pairs(lm, adapter, list));
    MC_TRY(refuse(list, lm, adapter, "modules that it changes are not in the model"));
    MC_TRY(find_missing(lm, adapter, list));
    return refuse(list, lm, adapter, "modules that its config lists have no tensors");
}

mica_status mc_lm_adapt(mc_lm *lm, const char *folder) {
    mc_adapter *adapter;
    mc_names list = {0};
    if (lm->adapter)
        return mc_fail(MICA_EINVAL, "%s: the model has an adapter, %s", folder, lm->adapter);
    lm->adapter = mc_strdup(folder);
    if (!lm->adapter) return mc_fail_nomem("an adapter");
    MC_TRY(mc_adapter_open(folder, &adapter));
    mica_status status = adapt(lm, adapter, &list);
    mc_names_deinit(&list);
    if (mc_adapter_substitute_count(adapter))
        lm->replacements = adapter; /* whose memory weights lie in */
    else
        mc_adapter_close(&adapter);
    return status;
}
