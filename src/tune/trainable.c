#include "tune/trainable.h"

#include "base/alloc.h"
#include "io/name_pattern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 320, MAX_RANK = 1 << 16 };

size_t mc_trainable_count(const mc_trainable *t) {
    return MC_BUFFER_COUNT(&t->list, mc_parameter);
}

mc_parameter *mc_trainable_at(const mc_trainable *t, size_t i) {
    return &MC_BUFFER_AT(&t->list, mc_parameter)[i];
}

uint64_t mc_trainable_bytes(const mc_trainable *t) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < mc_trainable_count(t); i++) {
        mica_array x = mc_trainable_at(t, i)->value;
        bytes += (uint64_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
    }
    return bytes;
}

mc_parameter *mc_trainable_find(const mc_trainable *t, const char *name) {
    for (size_t i = 0; i < mc_trainable_count(t); i++)
        if (strcmp(mc_trainable_at(t, i)->name, name) == 0) return mc_trainable_at(t, i);
    return NULL;
}

/* ---- making parameters ---- */

static mica_status add(mc_trainable *t, mc_parameter p, const char *suffix) {
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "%s.%s", p.module, suffix);
    p.name = mc_arena_strndup(&t->arena, text, strlen(text));
    p.module = mc_arena_strndup(&t->arena, p.module, strlen(p.module));
    if (!p.name || !p.module || !MC_BUFFER_PUSH(&t->list, mc_parameter, p))
        return mc_fail_nomem("the parameters to train");
    return mica_scope_status(t->scope);
}

/* A is uniform in +-1 / sqrt(in), which is Kaiming's with a = sqrt(5); B is zero. So the trained
 * model begins as the model. */
static mica_status add_factors(mc_trainable *t, int layer, size_t at, mica_array keys) {
    mica_scope *s = t->scope;
    mc_lm_matrix m = mc_lm_layer_matrix(t->lm, layer, at);
    char module[NAME_BYTES];
    snprintf(module, sizeof module, "model.layers.%d.%s", layer, m.name);
    mica_dtype dtype = t->options.bf16 ? MICA_BF16 : MICA_F32;
    int64_t rank = t->options.rank, n = (int64_t)MC_BUFFER_COUNT(&t->sites, mc_site);
    const int64_t a_shape[] = {m.linear->in, rank}, b_shape[] = {rank, m.linear->out};
    double bound = 1.0 / sqrt((double)m.linear->in);
    mica_array key = mica_squeeze(s, mica_slice_axis(s, keys, 0, n, n + 1), 0);
    mica_array a = mica_random_uniform(s, key, a_shape, 2, MICA_F32, -bound, bound);
    mc_site site = {layer, at, MICA_NONE};
    mc_parameter p = {.module = module, .part = MC_PART_A, .layer = layer, .at = at};
    p.value = mica_astype(s, a, dtype);
    MC_TRY(add(t, p, "lora_a"));
    p.part = MC_PART_B;
    p.value = mica_zeros(s, b_shape, 2, dtype);
    MC_TRY(add(t, p, "lora_b"));
    if (t->options.kind == MICA_TUNE_DORA) {
        site.norms = mc_linear_row_squares(t->constants, m.linear);
        MC_TRY(mica_eval(t->constants, site.norms));
        p.part = MC_PART_M;
        p.value = mica_sqrt(s, site.norms);
        MC_TRY(add(t, p, "m"));
    }
    return MC_BUFFER_PUSH(&t->sites, mc_site, site) ? MICA_OK
                                                    : mc_fail_nomem("the parameters to train");
}

/* An entry of the options' modules. */
typedef struct entry {
    const char *text;
    mc_name_pattern *pattern;
    bool used; /* it has named a matrix */
} entry;

/* Whether an entry names a matrix: by its name within the layer, or by a pattern of the whole name
 * or of what follows one of its dots. */
static mica_status is_named(const entry *e, const char *name, const char *module, uint32_t *steps,
                            bool *is) {
    *is = strcmp(e->text, name) == 0 || strcmp(e->text, module) == 0;
    return *is ? MICA_OK : mc_name_matches(e->pattern, module, steps, is);
}

/* Whether a matrix is to have factors. entries [n_modules] of the options. */
static mica_status is_target(const mc_trainable *t, int layer, size_t at, entry *entries,
                             uint32_t *steps, bool *is) {
    char module[NAME_BYTES];
    const char *name = mc_lm_layer_matrix(t->lm, layer, at).name;
    snprintf(module, sizeof module, "model.layers.%d.%s", layer, name);
    *is = t->options.n_modules == 0;
    for (size_t i = 0; i < t->options.n_modules; i++) {
        bool named;
        MC_TRY(is_named(&entries[i], name, module, steps, &named));
        entries[i].used = entries[i].used || named;
        *is = *is || named;
    }
    return MICA_OK;
}

static mica_status check_used(const mc_trainable *t, const entry *entries) {
    for (size_t i = 0; i < t->options.n_modules; i++)
        if (!entries[i].used)
            return mc_fail(MICA_ENOENT,
                           "module \"%s\" names no matrix of the layers %d..%d, which have "
                           "self_attn.q_proj, k_proj, v_proj, o_proj, mlp.gate_proj, up_proj, "
                           "down_proj: give one of these, or a pattern",
                           entries[i].text, t->first_layer, t->lm->spec.n_layers - 1);
    return MICA_OK;
}

static mica_status add_targets(mc_trainable *t, entry *entries) {
    int layers = t->lm->spec.n_layers;
    size_t bytes = MC_NAME_BYTES;
    uint32_t steps = MC_NAME_STEPS;
    mica_array keys = mica_random_split(t->scope, mica_random_key(t->scope, t->options.seed),
                                        (int64_t)layers * MC_LM_LAYER_MATRICES);
    for (size_t i = 0; i < t->options.n_modules; i++) {
        entries[i].text = t->options.modules[i];
        MC_TRY(mc_name_pattern_compile(mc_str_of(entries[i].text), &bytes, &entries[i].pattern));
    }
    for (int i = t->first_layer; i < layers; i++)
        for (size_t at = 0; at < MC_LM_LAYER_MATRICES; at++) {
            bool target;
            MC_TRY(is_target(t, i, at, entries, &steps, &target));
            if (target) MC_TRY(add_factors(t, i, at, keys));
        }
    return check_used(t, entries);
}

static mica_status add_lora(mc_trainable *t) {
    entry *entries = mc_calloc(t->options.n_modules + 1, sizeof *entries);
    mica_status status = entries ? add_targets(t, entries) : mc_fail_nomem("the modules to train");
    for (size_t i = 0; entries && i < t->options.n_modules; i++)
        mc_name_pattern_free(entries[i].pattern);
    mc_free(entries);
    return status;
}

/* ---- full parameters ---- */

static mica_status add_weight(mc_trainable *t, int layer, size_t at) {
    char module[NAME_BYTES];
    mc_lm_matrix m = mc_lm_layer_matrix(t->lm, layer, at);
    mc_parameter p = {.module = module, .part = MC_PART_WEIGHT, .layer = layer, .at = at};
    snprintf(module, sizeof module, "model.layers.%d.%s", layer, m.name);
    if (m.linear->quantised)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s is quantised: codes are not trained. Train factors (lora or dora), or "
                       "a model whose weights are floats",
                       module);
    p.value = mica_multiply(t->scope, m.linear->weight,
                            mica_ones(t->scope, NULL, 0, mica_array_dtype(m.linear->weight)));
    MC_TRY(add(t, p, "weight"));
    if (!mica_valid(m.linear->bias)) return MICA_OK;
    p.part = MC_PART_BIAS;
    p.value = mica_add(t->scope, m.linear->bias, mica_f32(t->scope, 0.0f));
    return add(t, p, "bias");
}

static mica_status add_norm(mc_trainable *t, int layer, size_t at) {
    char module[NAME_BYTES];
    mc_lm_norm norm = mc_lm_layer_norm(t->lm, layer, at);
    mc_parameter p = {.module = module, .part = MC_PART_NORM, .layer = layer, .at = at};
    if (!mica_valid(*norm.weight)) return MICA_OK;
    snprintf(module, sizeof module, "model.layers.%d.%s", layer, norm.name);
    /* The file's values: the family's offset is added again in the view. */
    p.value =
        mica_subtract(t->scope, *norm.weight, mica_f32(t->scope, (float)t->lm->spec.norm_offset));
    return add(t, p, "weight");
}

static mica_status add_full(mc_trainable *t) {
    for (int i = t->first_layer; i < t->lm->spec.n_layers; i++) {
        for (size_t at = 0; at < MC_LM_LAYER_MATRICES; at++)
            MC_TRY(add_weight(t, i, at));
        for (size_t at = 0; at < MC_LM_LAYER_NORMS; at++)
            MC_TRY(add_norm(t, i, at));
    }
    return MICA_OK;
}

/* ---- the whole ---- */

static mica_status check_options(const mica_lora_options *o) {
    if (o->rank < 1 || o->rank > MAX_RANK)
        return mc_fail(MICA_EINVAL, "rank %lld: want 1..%d", (long long)o->rank, MAX_RANK);
    if (!(o->dropout >= 0.0f && o->dropout < 1.0f))
        return mc_fail(MICA_EINVAL, "dropout %g: want 0 or more, below 1", (double)o->dropout);
    if (!isfinite(o->scale) || !isfinite(o->alpha))
        return mc_fail(MICA_EINVAL, "scale and alpha must be finite numbers");
    if (o->scale != 0.0f && o->alpha != 0.0f)
        return mc_fail(MICA_EINVAL, "scale %g and alpha %g: give one of them", (double)o->scale,
                       (double)o->alpha);
    if (o->kind < MICA_TUNE_LORA || o->kind > MICA_TUNE_FULL)
        return mc_fail(MICA_EINVAL, "kind %d: want lora (0), dora (1) or full (2)", (int)o->kind);
    if (o->layers < 0)
        return mc_fail(MICA_EINVAL, "layers %lld: want 1 or more, or 0 for all",
                       (long long)o->layers);
    return o->n_modules && !o->modules ? mc_fail(MICA_EINVAL, "modules is NULL") : MICA_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const mc_parameter *)a)->name, ((const mc_parameter *)b)->name);
}

/* Parameters and gradients must fit beside the weights, whatever is trained with: what is recorded
 * is not evaluated before. */
static mica_status check_memory(const mc_trainable *t) {
    mica_device_info info = {.struct_bytes = sizeof info};
    const double mb = 1e6;
    mica_device_get_info(mica_scope_device(t->scope), &info);
    uint64_t limit = t->options.memory_limit_bytes, weights = t->lm->weight_bytes;
    uint64_t bytes = mc_trainable_bytes(t) + t->trained * sizeof(float);
    if (!limit) limit = info.memory_bytes;
    if (!limit || weights + bytes <= limit) return MICA_OK;
    bool factors = t->options.kind != MICA_TUNE_FULL && weights < limit;
    double rank =
        factors ? (double)t->options.rank * ((double)(limit - weights) / (double)bytes) : 0.0;
    char fits[64];
    if (rank >= 1.0)
        snprintf(fits, sizeof fits, "a rank of %.0f would fit", floor(rank));
    else
        snprintf(fits, sizeof fits, "%s",
                 weights < limit ? "train fewer layers or matrices"
                                 : "the weights alone are too large, take a smaller model");
    return mc_fail(MICA_ENOMEM,
                   "%llu parameters and their gradients take %.0f MB, the model's weights %.0f MB, "
                   "and there are %.0f MB: %s",
                   (unsigned long long)t->trained, (double)bytes / mb, (double)weights / mb,
                   (double)limit / mb, fits);
}

static mica_status make_all(mc_trainable *t) {
    MC_TRY(t->options.kind == MICA_TUNE_FULL ? add_full(t) : add_lora(t));
    size_t n = mc_trainable_count(t);
    qsort(t->list.data, n, sizeof(mc_parameter), by_name);
    for (size_t i = 0; i < n; i++)
        t->trained += (uint64_t)mica_array_size(mc_trainable_at(t, i)->value);
    MC_TRY(check_memory(t));
    for (size_t i = 0; i < n; i++)
        MC_TRY(mica_eval(t->scope, mc_trainable_at(t, i)->value));
    return mc_trainable_collect(t, NULL, 0);
}

mica_status mc_trainable_collect(mc_trainable *t, mica_array *more, size_t n_more) {
    size_t n = mc_trainable_count(t);
    mica_array *live = mc_array_alloc(n + n_more + 1, sizeof *live);
    if (!live) return mc_fail_nomem("the parameters to train");
    for (size_t i = 0; i < n; i++)
        live[i] = mc_trainable_at(t, i)->value;
    for (size_t i = 0; i < n_more; i++)
        live[n + i] = more[i];
    mica_status status = mica_scope_collect(t->scope, live, n + n_more);
    for (size_t i = 0; i < n && status == MICA_OK; i++)
        mc_trainable_at(t, i)->value = live[i];
    for (size_t i = 0; i < n_more && status == MICA_OK; i++)
        more[i] = live[n + i];
    mc_free(live);
    return status;
}

mica_status mc_trainable_init(mc_trainable *t, const mc_lm *lm, mica_device *device,
                              const mica_lora_options *options) {
    *t = (mc_trainable){.lm = lm, .options = *options};
    mica_lora_options *o = &t->options;
    if (!o->rank) o->rank = 8;
    MC_TRY(check_options(o));
    t->scale = o->scale != 0.0f ? (double)o->scale : 20.0;
    if (o->alpha != 0.0f) t->scale = (double)o->alpha / (double)o->rank;
    t->first_layer = 0;
    if (o->layers && o->layers < lm->spec.n_layers)
        t->first_layer = lm->spec.n_layers - (int)o->layers;
    mica_status status = mica_scope_open(device, &t->scope);
    if (status == MICA_OK) status = mica_scope_open(device, &t->constants);
    if (status == MICA_OK) status = make_all(t);
    if (status != MICA_OK) mc_trainable_deinit(t);
    return status;
}

void mc_trainable_deinit(mc_trainable *t) {
    mica_scope_close(&t->scope);
    mica_scope_close(&t->constants);
    mc_buffer_deinit(&t->list);
    mc_buffer_deinit(&t->sites);
    mc_arena_deinit(&t->arena);
    *t = (mc_trainable){0};
}

/* ---- views ---- */

static void place(const mc_trainable *t, mica_scope *s, const mc_parameter *p, mica_array value,
                  mc_lm *view) {
    mc_linear *l =
        p->part == MC_PART_NORM ? NULL : mc_lm_layer_matrix(view, p->layer, p->at).linear;
    switch (p->part) {
    case MC_PART_A:
        l->lora_a = mica_astype(s, value, MICA_F32);
        break;
    case MC_PART_B:
        l->lora_b = mica_multiply(s, mica_astype(s, value, MICA_F32), mica_f32(s, (float)t->scale));
        break;
    case MC_PART_M:
        l->dora = value;
        break;
    case MC_PART_WEIGHT:
        l->weight = value;
        break;
    case MC_PART_BIAS:
        l->bias = value;
        break;
    case MC_PART_NORM:
        *mc_lm_layer_norm(view, p->layer, p->at).weight =
            mica_add(s, value, mica_f32(s, (float)t->lm->spec.norm_offset));
        break;
    }
}

mica_status mc_trainable_view(const mc_trainable *t, mica_scope *s, const mica_array *values,
                              mica_array key, mc_lm *view) {
    size_t layers = (size_t)t->lm->spec.n_layers, n = MC_BUFFER_COUNT(&t->sites, mc_site);
    *view = *t->lm;
    view->layers = mc_array_alloc(layers, sizeof *view->layers);
    if (!view->layers) return mc_fail_nomem("a model to train");
    memcpy(view->layers, t->lm->layers, layers * sizeof *view->layers);
    for (size_t i = 0; i < mc_trainable_count(t); i++)
        place(t, s, mc_trainable_at(t, i), values[i], view);
    bool drops = mica_valid(key) && t->options.dropout > 0.0f && n > 0;
    mica_array keys = drops ? mica_random_split(s, key, (int64_t)n) : MICA_NONE;
    for (size_t i = 0; i < n; i++) {
        const mc_site *site = &MC_BUFFER_AT(&t->sites, mc_site)[i];
        mc_linear *l = mc_lm_layer_matrix(view, site->layer, site->at).linear;
        if (mica_valid(site->norms)) l->dora = mc_linear_dora(s, l, l->dora, site->norms);
        if (!drops) continue;
        l->dropout = t->options.dropout;
        l->dropout_key =
            mica_squeeze(s, mica_slice_axis(s, keys, 0, (int64_t)i, (int64_t)i + 1), 0);
    }
    return mica_scope_status(s);
}

void mc_trainable_end_view(mc_lm *view) {
    mc_free(view->layers);
    view->layers = NULL;
}
