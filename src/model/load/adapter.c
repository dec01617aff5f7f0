/* Adds an adapter's low-rank factors to the matrices that they name, and puts its substitutes in
 * the place of the model's own tensors. */
#include "io/adapter.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/names.h"
#include "graph/graph.h"
#include "model/family.h"
#include "model/load/load.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 320

/* What an adapter changes. */
typedef struct target {
    mc_linear *linear;  /* NULL: the model has no such matrix */
    mica_array *norm;   /* or vector, or kernel; NULL: the model has none */
    double offset;      /* that was added to the norm's values */
    int layer;          /* -1: outside the layers */
    const char *module; /* in its layer */
    bool listed;        /* experts that are tensors of their own */
} target;

/* One of the matrices between streams and what is outside of the layers: "name.0", or NULL. */
static mc_linear *find_stream(const mc_lm *lm, mc_str module, const char *name,
                              mc_linear *matrices) {
    char numbered[64];
    for (int i = 0; i + 1 < lm->spec.streams; i++) {
        snprintf(numbered, sizeof numbered, "%s.%d", name, i);
        if (mc_str_is(module, numbered)) return &matrices[i];
    }
    return NULL;
}

/* A matrix or a norm by its module: "layers.7.mlp.up_proj", "embed_tokens", "norm". */
static target find_target(mc_lm *lm, mc_adapter_kind kind, const char *module) {
    const mc_decoder_names *names = &lm->spec.names;
    mc_str name = mc_decoder_name(mc_str_of(module));
    /* In a model with a tied head, mlx-lm names no head; PEFT names one, which has the embedding's
     * weight. */
    bool has_head = !lm->tied || kind != MC_ADAPTER_MLX;
    if (mc_str_is(name, names->embed)) return (target){.linear = &lm->embed, .layer = -1};
    if (mc_str_is(name, names->head) && has_head) return (target){.linear = &lm->head, .layer = -1};
    if (names->layer_projection && mc_str_is(name, names->layer_projection))
        return (target){.linear = &lm->layer_projection, .layer = -1};
    if (names->norm && mc_str_is(name, names->norm))
        return (target){.norm = &lm->norm, .offset = lm->spec.norm_offset, .layer = -1};
    mc_linear *stream = find_stream(lm, name, names->streams, lm->streams);
    if (!stream) stream = find_stream(lm, name, names->unstreams, lm->unstreams);
    if (stream) return (target){.linear = stream, .layer = -1};
    mc_lm_slot *w = mc_lm_find(lm, name);
    if (!w) return (target){0};
    bool matrix = w->slot->kind == MC_SLOT_MATRIX;
    return (target){.linear = matrix ? &w->linear : NULL,
                    .norm = matrix ? NULL : &w->vector,
                    .offset = w->offset,
                    .layer = w->layer,
                    .module = w->module,
                    .listed = w->name && strchr(w->name, '*')};
}

/* A table of rows has no bias. */
static mica_status check_bias(const mc_adapter_pair *pair, const target *at, const mc_lm *lm) {
    if (at->linear != &lm->embed) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: tensor %s: an embedding has no bias", pair->bias->file,
                   pair->bias->name);
}

/* Factors of experts are mlx-lm's, of all at once. */
static mica_status check_experts(const mc_adapter_pair *pair, const target *at) {
    if (!at->linear->experts || (pair->kind == MC_ADAPTER_MLX && !pair->m && !pair->bias))
        return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: tensor %s: of adapters of experts mica reads mlx-lm's, without DoRA",
                   pair->a->file, pair->a->name);
}

/* What is made for a matrix, or a norm, lies where that does. */
static void make_beside(mc_lm *lm, mica_array x) {
    mc_scope_set_fallback(lm->scope, mica_valid(x) && mc_leaf_falls_back(mc_node_of(x)));
}

static mica_status apply_pair_there(mc_lm *lm, const mc_adapter_pair *pair, const target *at) {
    MC_TRY(check_experts(pair, at));
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
    int64_t n = at->linear->experts ? at->linear->experts : 1;
    lm->adapter_parameters +=
        (uint64_t)n * (uint64_t)pair->rank * (uint64_t)(at->linear->in + at->linear->out);
    return MICA_OK;
}

static mica_status apply_pair(mc_lm *lm, const mc_adapter_pair *pair, const target *at) {
    make_beside(lm, at->linear->weight);
    mica_status status = apply_pair_there(lm, pair, at);
    mc_scope_set_fallback(lm->scope, false);
    return status;
}

static mica_status apply_pairs(mc_lm *lm, const mc_adapter *adapter, mc_names *strangers) {
    int first = mc_adapter_first_layer(adapter, lm->spec.n_layers);
    for (size_t i = 0; i < mc_adapter_count(adapter); i++) {
        const mc_adapter_pair *pair = mc_adapter_at(adapter, i);
        target at = find_target(lm, pair->kind, pair->module);
        if (at.linear && at.layer >= 0 && at.layer < first &&
            !mc_adapter_expects(adapter, at.layer, lm->spec.n_layers, pair->module, at.module))
            return mc_fail(MICA_EFORMAT,
                           "%s: tensor %s is of block %d, but num_layers of adapter_config.json "
                           "lets only the blocks from %d on have adapters, of %d",
                           pair->a->file, pair->a->name, at.layer, first, lm->spec.n_layers);
        if (at.linear && mica_valid(at.linear->lora_a))
            return mc_fail(MICA_EFORMAT, "%s: tensor %s is the second for its matrix",
                           pair->a->file, pair->a->name);
        if (at.linear)
            MC_TRY(apply_pair(lm, pair, &at));
        else if (!mc_lm_ignores(&lm->spec, pair->module))
            MC_TRY(mc_names_add(strangers, pair->module));
    }
    return MICA_OK;
}

static mica_status find_missing(const mc_lm *lm, const mc_adapter *adapter, mc_names *missing) {
    char module[MC_MODULE_BYTES];
    const mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));)
        if (!mica_valid(w->linear.lora_a) &&
            mc_adapter_expects(adapter, w->layer, lm->spec.n_layers, mc_lm_module(lm, w, module),
                               w->module))
            MC_TRY(mc_names_add(missing, module));
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

static mica_status replace_matrix(mc_lm *lm, const mc_adapter *adapter,
                                  const mc_adapter_substitute *x, const target *at) {
    const mc_weight_tensor *t = x->tensor;
    mc_linear *linear = at->linear;
    bool embed = linear == &lm->embed;
    if (at->listed)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s: mica replaces no experts that are tensors of their own",
                       t->file, t->name);
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
static mica_status replace_there(mc_lm *lm, const mc_adapter *adapter,
                                 const mc_adapter_substitute *x, bool *known) {
    char module[NAME_BYTES];
    const char *dot = strrchr(x->name, '.');
    size_t len = dot ? (size_t)(dot - x->name) : 0;
    *known = false;
    if (!dot || len >= sizeof module) return MICA_OK;
    memcpy(module, x->name, len);
    module[len] = '\0';
    bool is_weight = strcmp(dot, ".weight") == 0, is_bias = strcmp(dot, ".bias") == 0;
    mc_adapter_kind kind = mc_adapter_is_peft(adapter) ? MC_ADAPTER_PEFT : MC_ADAPTER_MLX;
    target at = find_target(lm, kind, module);
    bool norm = at.norm && is_weight && !x->rows;
    *known = norm || (at.linear && (is_weight || (is_bias && mica_valid(at.linear->bias))));
    if (!*known) return MICA_OK;
    make_beside(lm, norm ? *at.norm : at.linear->weight);
    if (norm && mica_array_ndim(*at.norm) == 3)
        return mc_kernel_make(lm->scope, x->tensor, mica_array_dim(*at.norm, 0),
                              mica_array_dim(*at.norm, 1), at.norm);
    if (norm)
        return mc_vector_make(lm->scope, x->tensor, mica_array_size(*at.norm), at.offset, at.norm);
    if (is_bias) return mc_linear_set_bias(lm->scope, x->tensor, at.linear);
    return replace_matrix(lm, adapter, x, &at);
}

static mica_status replace(mc_lm *lm, const mc_adapter *adapter, const mc_adapter_substitute *x,
                           bool *known) {
    mica_status status = replace_there(lm, adapter, x, known);
    mc_scope_set_fallback(lm->scope, false);
    return status;
}

/* Two tensors whose names differ in the decoder's prefix only would take the same place. */
static mica_status check_twins(const mc_adapter *adapter) {
    mc_map names = {0};
    mica_status status = MICA_OK;
    for (size_t i = 0; status == MICA_OK && i < mc_adapter_substitute_count(adapter); i++) {
        const mc_adapter_substitute *x = mc_adapter_substitute_at(adapter, i);
        mc_str name = mc_decoder_name(mc_str_of(x->name));
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
        if (!known && !mc_lm_ignores(&lm->spec, x->name))
            MC_TRY(mc_names_add(strangers, x->tensor->name));
    }
    return MICA_OK;
}

/* ---- the whole ---- */

static mica_status adapt(mc_lm *lm, mc_adapter *adapter, mc_names *list) {
    MC_TRY(replace_all(lm, adapter, list)); /* factors are added to these */
    MC_TRY(refuse(list, lm, adapter, "tensors are not in the model"));
    MC_TRY(mc_adapter_fit(adapter, &lm->spec));
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
