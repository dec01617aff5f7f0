#include "tune/trainable.h"

#include "base/alloc.h"
#include "device/device.h"
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

uint64_t mc_trainable_memory_bytes(const mc_trainable *t) {
    return mc_device_memory_bytes(mica_scope_device(t->scope));
}

/* ---- making parameters ---- */

static mica_status add(mc_trainable *t, mc_parameter p, const char *suffix) {
    char text[NAME_BYTES];
    snprintf(text, sizeof text, suffix ? "%s.%s" : "%s", p.module, suffix);
    p.name = mc_arena_strndup(&t->arena, text, strlen(text));
    p.module = mc_arena_strndup(&t->arena, p.module, strlen(p.module));
    if (!p.name || !p.module || !MC_BUFFER_PUSH(&t->list, mc_parameter, p))
        return mc_fail_nomem("the parameters to train");
    return mica_scope_status(t->scope);
}

/* A is uniform in +-1 / sqrt(in), which is Kaiming's with a = sqrt(5); B is zero. So the trained
 * model begins as the model. */
static mica_status add_factors(mc_trainable *t, const mc_lm_slot *w, mica_array keys) {
    mica_scope *s = t->scope;
    char module[MC_MODULE_BYTES];
    size_t at = (size_t)(w - t->lm->slots);
    mica_dtype dtype = t->options.bf16 ? MICA_BF16 : MICA_F32;
    int64_t rank = t->options.rank, n = (int64_t)MC_BUFFER_COUNT(&t->sites, mc_site);
    const int64_t experts = w->linear.experts, in = w->linear.in, out = w->linear.out;
    /* of experts as mlx-lm has them */
    const int64_t a_shape[] = {experts, experts ? rank : in, experts ? in : rank};
    const int64_t b_shape[] = {experts, experts ? out : rank, experts ? rank : out};
    const int skip = experts ? 0 : 1;
    double bound = 1.0 / sqrt((double)w->linear.in);
    mica_array key = mica_squeeze(s, mica_slice_axis(s, keys, 0, n, n + 1), 0);
    mica_array a = mica_random_uniform(s, key, a_shape + skip, 3 - skip, MICA_F32, -bound, bound);
    mc_site site = {at, MICA_NONE};
    mc_parameter p = {.module = mc_lm_module(t->lm, w, module), .part = MC_PART_A, .at = at};
    p.value = mica_astype(s, a, dtype);
    MC_TRY(add(t, p, "lora_a"));
    p.part = MC_PART_B;
    p.value = mica_zeros(s, b_shape + skip, 3 - skip, dtype);
    MC_TRY(add(t, p, "lora_b"));
    if (t->options.kind == MICA_TUNE_DORA) {
        site.norms = mc_linear_row_squares(t->constants, &w->linear);
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

/* Whether a matrix is to have factors; those of experts only if they are named. entries
 * [n_modules] of the options. */
static mica_status is_target(const mc_trainable *t, const mc_lm_slot *w, entry *entries,
                             uint32_t *steps, bool *is) {
    char module[MC_MODULE_BYTES];
    mc_lm_module(t->lm, w, module);
    *is = t->options.n_modules == 0 && !w->linear.experts;
    for (size_t i = 0; i < t->options.n_modules; i++) {
        bool named;
        MC_TRY(is_named(&entries[i], w->module, module, steps, &named));
        entries[i].used = entries[i].used || named;
        *is = *is || named;
    }
    return MICA_OK;
}

/* The names of a layer's matrices: "self_attn.q_proj, k_proj, mlp.up_proj". */
static void list_names(const mc_trainable *t, int layer, char *text, size_t bytes) {
    size_t len = 0, same = 0;
    const char *last = "";
    const mc_lm_slot *w;
    text[0] = '\0';
    for (size_t i = 0; (w = mc_lm_next_matrix(t->lm, &i)) && len < bytes;) {
        if (w->layer != layer) continue;
        const char *dot = strrchr(w->module, '.');
        same = dot ? (size_t)(dot + 1 - w->module) : 0;
        bool again = strncmp(w->module, last, same) == 0;
        len += (size_t)snprintf(text + len, bytes - len, "%s%s", len ? ", " : "",
                                again ? w->module + same : w->module);
        last = w->module;
    }
}

static mica_status check_used(const mc_trainable *t, const entry *entries) {
    char names[512];
    for (size_t i = 0; i < t->options.n_modules; i++) {
        if (entries[i].used) continue;
        list_names(t, t->first_layer, names, sizeof names);
        return mc_fail(MICA_ENOENT,
                       "module \"%s\" names no matrix of the layers %d..%d, which have %s: give "
                       "one of these, or a pattern",
                       entries[i].text, t->first_layer, t->lm->spec.n_layers - 1, names);
    }
    return MICA_OK;
}

static int64_t count_matrices(const mc_lm *lm) {
    int64_t n = 0;
    for (size_t i = 0; mc_lm_next_matrix(lm, &i);)
        n++;
    return n;
}

static mica_status add_targets(mc_trainable *t, entry *entries) {
    size_t bytes = MC_NAME_BYTES;
    uint32_t steps = MC_NAME_STEPS;
    const mc_lm_slot *w;
    mica_array key = mica_random_key(t->scope, t->options.seed);
    mica_array keys = mica_random_split(t->scope, key, count_matrices(t->lm));
    for (size_t i = 0; i < t->options.n_modules; i++) {
        entries[i].text = t->options.modules[i];
        MC_TRY(mc_name_pattern_compile(mc_str_of(entries[i].text), &bytes, &entries[i].pattern));
    }
    for (size_t i = 0; (w = mc_lm_next_matrix(t->lm, &i));) {
        bool target = false;
        bool dora = t->options.kind == MICA_TUNE_DORA;
        if (w->layer >= t->first_layer && !(w->linear.experts && dora))
            MC_TRY(is_target(t, w, entries, &steps, &target));
        if (target) MC_TRY(add_factors(t, w, keys));
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

static mica_status add_weight(mc_trainable *t, const mc_lm_slot *w, mc_parameter p) {
    const mc_linear *linear = &w->linear;
    if (linear->experts)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: experts are not trained. Train factors (lora or dora) of the other "
                       "matrices",
                       p.module);
    if (linear->quantised)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s is quantised: codes are not trained. Train factors (lora or dora), or "
                       "a model whose weights are floats",
                       p.module);
    p.part = MC_PART_WEIGHT;
    p.value = mica_multiply(t->scope, linear->weight,
                            mica_ones(t->scope, NULL, 0, mica_array_dtype(linear->weight)));
    MC_TRY(add(t, p, "weight"));
    if (!mica_valid(linear->bias)) return MICA_OK;
    p.part = MC_PART_BIAS;
    p.value = mica_add(t->scope, linear->bias, mica_f32(t->scope, 0.0f));
    return add(t, p, "bias");
}

static mica_status add_vector(mc_trainable *t, const mc_lm_slot *w, mc_parameter p) {
    p.part = MC_PART_VECTOR;
    /* The file's values: the family's offset is added again in the view. */
    p.value = mica_subtract(t->scope, w->vector, mica_f32(t->scope, (float)w->offset));
    return add(t, p, w->slot->bare ? NULL : "weight");
}

static mica_status add_full(mc_trainable *t) {
    char module[MC_MODULE_BYTES];
    for (size_t i = 0; i < t->lm->n_slots; i++) {
        const mc_lm_slot *w = &t->lm->slots[i];
        if (!w->name || w->layer < t->first_layer) continue;
        mc_parameter p = {.module = mc_lm_module(t->lm, w, module), .at = i};
        MC_TRY(w->slot->kind == MC_SLOT_MATRIX ? add_weight(t, w, p) : add_vector(t, w, p));
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
    const double mb = 1e6;
    uint64_t limit = t->options.memory_limit_bytes, weights = t->lm->weight_bytes;
    uint64_t bytes = mc_trainable_bytes(t) + t->trained * sizeof(float);
    if (!limit) limit = mc_trainable_memory_bytes(t);
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
                  mc_lm_slot *w) {
    mc_linear *l = &w->linear;
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
    case MC_PART_VECTOR:
        w->vector = mica_add(s, value, mica_f32(s, (float)w->offset));
        break;
    }
}

mica_status mc_trainable_view(const mc_trainable *t, mica_scope *s, const mica_array *values,
                              mica_array key, mc_lm *view) {
    size_t n = MC_BUFFER_COUNT(&t->sites, mc_site);
    *view = *t->lm;
    view->slots = mc_array_alloc(t->lm->n_slots, sizeof *view->slots);
    if (!view->slots) return mc_fail_nomem("a model to train");
    memcpy(view->slots, t->lm->slots, t->lm->n_slots * sizeof *view->slots);
    for (size_t i = 0; i < mc_trainable_count(t); i++) {
        const mc_parameter *p = mc_trainable_at(t, i);
        place(t, s, p, values[i], &view->slots[p->at]);
    }
    bool drops = mica_valid(key) && t->options.dropout > 0.0f && n > 0;
    mica_array keys = drops ? mica_random_split(s, key, (int64_t)n) : MICA_NONE;
    for (size_t i = 0; i < n; i++) {
        const mc_site *site = &MC_BUFFER_AT(&t->sites, mc_site)[i];
        mc_linear *l = &view->slots[site->at].linear;
        if (mica_valid(site->norms)) l->dora = mc_linear_dora(s, l, l->dora, site->norms);
        if (!drops) continue;
        l->dropout = t->options.dropout;
        l->dropout_key =
            mica_squeeze(s, mica_slice_axis(s, keys, 0, (int64_t)i, (int64_t)i + 1), 0);
    }
    mica_status status = mica_scope_status(s);
    if (status != MICA_OK) mc_trainable_end_view(view);
    return status;
}

void mc_trainable_end_view(mc_lm *view) {
    mc_free(view->slots);
    view->slots = NULL;
}
