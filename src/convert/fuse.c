#include "convert/fuse.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/names.h"
#include "graph/graph.h"
#include "model/family.h"
#include "model/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 512

/* ---- the factors of a pair ---- */

/* Factors as left [out, r] and right [r, in], perhaps transposed in the file. */
typedef struct factors {
    const mc_weight_tensor *left, *right;
    bool transposed; /* they are left^T [r, out], right^T [in, r] */
} factors;

static factors factors_of(const mc_fuse *fuse, const mc_part *part, const mc_adapter_pair *pair) {
    switch (pair->kind) {
    case MC_ADAPTER_PEFT:
        return (factors){pair->b, pair->a, false};
    case MC_ADAPTER_PEFT_EMBEDDING:
        return (factors){pair->a, pair->b, true};
    case MC_ADAPTER_MLX:
        break;
    }
    if (part == fuse->embed) return (factors){pair->a, pair->b, false};
    return (factors){pair->b, pair->a, true};
}

static mica_status check_factor(const mc_weight_tensor *t, int64_t rows, int64_t columns) {
    if (!t->has_dtype || !mica_dtype_is_float(t->dtype))
        return mc_fail(MICA_EDTYPE, "%s: tensor %s is %s, want F32, F16 or BF16", t->file, t->name,
                       t->kind);
    if (t->ndim == 2 && t->shape[0] == rows && t->shape[1] == columns) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "%s: tensor %s does not fit its matrix, want [%lld,%lld]", t->file,
                   t->name, (long long)rows, (long long)columns);
}

/* The number of an expert whose matrix is a part of its own, and whose factors are of all. */
static int64_t expert_of(const mc_part *part, const mc_adapter_pair *pair) {
    const char *at = strstr(part->name, ".experts.");
    bool one = part->ndim == 2 && pair->b->ndim == 3 && at;
    return one ? strtol(at + strlen(".experts."), NULL, 10) : -1;
}

/* Factors of experts: b [experts, out, r], a [experts, r, in]. */
static mica_status check_experts(const mc_part *part, const mc_adapter_pair *pair) {
    const mc_weight_tensor *a = pair->a, *b = pair->b;
    const int64_t *shape = part->shape + part->ndim - 2;
    int64_t n = part->ndim == 3 ? part->shape[0] : b->shape[0], expert = expert_of(part, pair);
    bool floats = a->has_dtype && b->has_dtype && mica_dtype_is_float(a->dtype) &&
                  mica_dtype_is_float(b->dtype) && mica_dtype_is_float(part->dtype);
    if (floats && pair->kind == MC_ADAPTER_MLX && !pair->m && !pair->bias && a->ndim == 3 &&
        b->ndim == 3 && a->shape[0] == n && b->shape[0] == n && a->shape[1] == pair->rank &&
        b->shape[2] == pair->rank && a->shape[2] == shape[1] && b->shape[1] == shape[0] &&
        expert < n)
        return MICA_OK;
    return mc_fail(MICA_ESHAPE, "%s: tensor %s does not fit the experts of %s", a->file, a->name,
                   part->name);
}

static mica_status check_pair(const mc_fuse *fuse, const mc_part *part,
                              const mc_adapter_pair *pair) {
    if (pair->b->ndim == 3) return check_experts(part, pair);
    factors f = factors_of(fuse, part, pair);
    int64_t out = part->shape[0], in = part->shape[1], rank = pair->rank;
    if (!mica_dtype_is_float(part->dtype))
        return mc_fail(MICA_EDTYPE, "tensor %s is no matrix of floats: an adapter cannot be fused",
                       part->name);
    if (pair->m && (!pair->m->has_dtype || !mica_dtype_is_float(pair->m->dtype) ||
                    pair->m->ndim != 1 || pair->m->shape[0] != out))
        return mc_fail(MICA_ESHAPE, "%s: tensor %s does not fit its matrix, want floats [%lld]",
                       pair->m->file, pair->m->name, (long long)out);
    MC_TRY(f.transposed ? check_factor(f.left, rank, out) : check_factor(f.left, out, rank));
    return f.transposed ? check_factor(f.right, in, rank) : check_factor(f.right, rank, in);
}

static mica_array leaf_f32(mica_scope *s, const mc_weight_tensor *t, bool transposed) {
    mica_array x = mc_leaf_memory(s, t->data, t->dtype, t->shape, t->ndim, NULL, NULL);
    x = mica_astype(s, x, MICA_F32);
    return transposed ? mica_transpose(s, x, NULL) : x;
}

/* DoRA: gives the rows of x the norms m. */
static mica_array set_norms(mica_scope *s, const mc_weight_tensor *m, mica_array x) {
    mica_array wide = mica_astype(s, x, MICA_F32);
    mica_array norms = mica_sqrt(s, mica_sum(s, mica_square(s, wide), (int[]){1}, 1, true));
    mica_array gains = mica_divide(s, mica_expand_dims(s, leaf_f32(s, m, false), 1), norms);
    return mica_astype(s, mica_multiply(s, wide, gains), mica_array_dtype(x));
}

static mica_array one_of(mica_scope *s, mica_array x, int64_t expert) {
    return expert < 0 ? x : mica_squeeze(s, mica_slice_axis(s, x, 0, expert, expert + 1), 0);
}

static mica_array add_experts(mica_scope *s, const mc_part *part, const mc_adapter_pair *pair,
                              mica_array x) {
    int64_t expert = expert_of(part, pair);
    mica_array b = one_of(s, leaf_f32(s, pair->b, false), expert);
    mica_array a = one_of(s, leaf_f32(s, pair->a, false), expert);
    mica_array delta = mica_matmul(s, mica_multiply(s, b, mica_f32(s, (float)pair->scale)), a);
    return mica_add(s, x, mica_astype(s, delta, mica_array_dtype(x)));
}

static mica_array add_pair(mica_scope *s, const mc_fuse *fuse, const mc_part *part,
                           const mc_adapter_pair *pair, mica_array x) {
    if (pair->b->ndim == 3) return add_experts(s, part, pair, x);
    factors f = factors_of(fuse, part, pair);
    mica_array left = leaf_f32(s, f.left, f.transposed), right = leaf_f32(s, f.right, f.transposed);
    left = mica_multiply(s, left, mica_f32(s, (float)pair->scale));
    mica_array delta = mica_matmul(s, left, right);
    x = mica_add(s, x, mica_astype(s, delta, mica_array_dtype(x)));
    return pair->m ? set_norms(s, pair->m, x) : x;
}

static mica_array put_substitute(mica_scope *s, const mc_adapter_substitute *substitute,
                                 mica_array x) {
    const mc_weight_tensor *t = substitute->tensor;
    mica_array own = mc_leaf_memory(s, t->data, t->dtype, t->shape, t->ndim, NULL, NULL);
    own = mica_astype(s, own, mica_array_dtype(x));
    if (!substitute->rows) return own;
    int64_t n = t->shape[0];
    mica_array rows = mica_from_data(s, substitute->rows, MICA_I64, &n, 1);
    own = mica_reshape(s, own, (int64_t[]){n, 1, t->shape[1]}, 3);
    return mica_scatter(s, x, &rows, 1, (int[]){0}, own, MICA_SCATTER_SET);
}

static mica_array add_bias(mica_scope *s, const mc_adapter_pair *pair, mica_array x) {
    mica_array more = leaf_f32(s, pair->bias, false);
    more = mica_multiply(s, more, mica_f32(s, (float)pair->scale));
    more = mica_add(s, mica_astype(s, x, MICA_F32), more);
    return mica_astype(s, more, mica_array_dtype(x));
}

bool mc_fuse_changes(const mc_fuse *fuse, size_t i) {
    return fuse->pairs && (fuse->pairs[i] || fuse->biases[i] || fuse->substitutes[i]);
}

mica_array mc_fuse_apply(mica_scope *s, const mc_fuse *fuse, const mc_part *part, size_t i,
                         mica_array x) {
    if (fuse->substitutes[i]) x = put_substitute(s, fuse->substitutes[i], x);
    if (fuse->pairs[i]) x = add_pair(s, fuse, part, fuse->pairs[i], x);
    return fuse->biases[i] ? add_bias(s, fuse->biases[i], x) : x;
}

/* ---- substitutes ---- */

static mica_status check_substitute(const mc_adapter *adapter, const mc_part *part,
                                    const mc_adapter_substitute *x) {
    const mc_weight_tensor *t = x->tensor;
    if (!t->has_dtype || !mica_dtype_is_float(t->dtype))
        return mc_fail(MICA_EDTYPE, "%s: tensor %s is %s, want F32, F16 or BF16", t->file, t->name,
                       t->kind);
    if (part->quantised && mc_adapter_is_full(adapter))
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s takes the place of a quantised matrix: give the model that "
                       "was trained, whose weights are floats",
                       t->file, t->name);
    bool fits = t->ndim == part->ndim;
    for (int i = x->rows ? 1 : 0; fits && i < t->ndim; i++)
        fits = t->shape[i] == part->shape[i];
    for (size_t i = 0; fits && i < x->row_count; i++)
        fits = x->rows[i] < part->shape[0];
    if (fits) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "%s: tensor %s has another shape than the model's", t->file,
                   t->name);
}

static mica_status match_substitutes(const mc_source *source, const mc_map *parts, mc_fuse *fuse,
                                     mc_names *strangers) {
    for (size_t k = 0; k < mc_adapter_substitute_count(fuse->adapter); k++) {
        const mc_adapter_substitute *x = mc_adapter_substitute_at(fuse->adapter, k);
        uint64_t i;
        if (!mc_map_find(parts, mc_decoder_name(mc_str_of(x->name)), &i)) {
            /* Of a tied model, a copy of the embedding. */
            bool head = mc_source_end(source, x->name) == MC_END_HEAD;
            if (!mc_lm_ignores(source->spec, x->name) &&
                !(head && x->copy && mc_adapter_is_peft(fuse->adapter)))
                MC_TRY(mc_names_add(strangers, x->name));
            continue;
        }
        if (fuse->substitutes[i])
            return mc_fail(MICA_EFORMAT, "%s: tensor %s is there under two names", x->tensor->file,
                           x->tensor->name);
        MC_TRY(check_substitute(fuse->adapter, &source->parts[i], x));
        fuse->substitutes[i] = x;
    }
    return MICA_OK;
}

/* ---- pairs ---- */

/* Finds the part of the bias that a pair adds to. */
static mica_status match_bias(const mc_source *source, const mc_map *parts, mc_fuse *fuse,
                              const mc_adapter_pair *pair) {
    char name[NAME_BYTES];
    uint64_t i;
    if (!pair->bias) return MICA_OK;
    mc_str module = mc_decoder_name(mc_str_of(pair->module));
    snprintf(name, sizeof name, "%.*s.bias", MC_STR_ARG(module));
    if (!mc_map_find(parts, mc_str_of(name), &i))
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s is added to a bias, and the model has none there: use the "
                       "adapter beside the model",
                       pair->bias->file, pair->bias->name);
    const mc_weight_tensor *t = pair->bias;
    if (!t->has_dtype || !mica_dtype_is_float(t->dtype) || t->ndim != 1 ||
        t->shape[0] != source->parts[i].shape[0])
        return mc_fail(MICA_ESHAPE, "%s: tensor %s does not fit the model's bias", t->file,
                       t->name);
    fuse->biases[i] = pair;
    return MICA_OK;
}

static mica_status put_pair(const mc_source *source, const mc_map *parts, mc_fuse *fuse,
                            const mc_adapter_pair *pair, uint64_t i) {
    if (fuse->pairs[i])
        return mc_fail(MICA_EFORMAT, "%s: tensor %s is the second for its matrix", pair->a->file,
                       pair->a->name);
    MC_TRY(check_pair(fuse, &source->parts[i], pair));
    fuse->pairs[i] = pair;
    return match_bias(source, parts, fuse, pair);
}

/* Puts factors of all experts to the parts of each, where these are tensors of their own. */
static mica_status put_listed(const mc_source *source, const mc_map *parts, mc_fuse *fuse,
                              const mc_adapter_pair *pair, bool *known) {
    mc_spec_slot at;
    uint64_t i;
    char name[NAME_BYTES];
    *known = source->spec && pair->b->ndim == 3 &&
             mc_spec_find(source->spec, mc_decoder_name(mc_str_of(pair->module)), &at);
    const char *slot = *known ? at.spec->names[at.slot] : "", *star = strchr(slot, '*');
    *known = star != NULL;
    for (int64_t k = 0; star && k < pair->b->shape[0]; k++) {
        snprintf(name, sizeof name, "%s.%d.%.*s%lld%s.weight", mc_spec_layers(source->spec),
                 at.layer, (int)(star - slot), slot, (long long)k, star + 1);
        if (!mc_map_find(parts, mc_str_of(name), &i))
            return mc_fail(MICA_ESHAPE, "%s: tensor %s has factors of more experts than there are",
                           pair->b->file, pair->b->name);
        MC_TRY(put_pair(source, parts, fuse, pair, i));
    }
    return MICA_OK;
}

/* Finds the part of a module: its ".weight", or what is called as the module. */
static bool find_part(const mc_map *parts, mc_str module, uint64_t *i) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s.weight", MC_STR_ARG(module));
    return mc_map_find(parts, mc_str_of(name), i) || mc_map_find(parts, module, i);
}

/* Factors are of a matrix as it computes; one that lies transposed is not changed. */
static mica_status check_transposed(const mc_source *source, const mc_adapter_pair *pair,
                                    mc_str module) {
    mc_spec_slot at;
    bool transposed = source->spec && mc_spec_find(source->spec, module, &at) &&
                      at.spec->transposed >> at.slot & 1;
    if (!transposed) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: tensor %s is of a matrix that the model's files have transposed: use the "
                   "adapter beside the model",
                   pair->b->file, pair->b->name);
}

static mica_status match_pairs(const mc_source *source, const mc_map *parts, mc_fuse *fuse,
                               mc_names *strangers) {
    for (size_t k = 0; k < mc_adapter_count(fuse->adapter); k++) {
        const mc_adapter_pair *pair = mc_adapter_at(fuse->adapter, k);
        uint64_t i;
        bool known;
        mc_str module = mc_decoder_name(mc_str_of(pair->module));
        known = find_part(parts, module, &i) && source->parts[i].ndim == pair->b->ndim;
        if (known) MC_TRY(check_transposed(source, pair, module));
        if (known)
            MC_TRY(put_pair(source, parts, fuse, pair, i));
        else
            MC_TRY(put_listed(source, parts, fuse, pair, &known));
        if (!known && !mc_lm_ignores(source->spec, pair->module))
            MC_TRY(mc_names_add(strangers, pair->module));
    }
    return MICA_OK;
}

/* ---- a head of its own ---- */

/* Whether PEFT's adapter changes the embedding or the head alone. */
static bool parts_ends(const mc_source *source, const mc_adapter *adapter) {
    if (!mc_adapter_is_peft(adapter)) return false;
    for (size_t i = 0; i < mc_adapter_count(adapter); i++)
        if (mc_source_end(source, mc_adapter_at(adapter, i)->module) != MC_END_NONE) return true;
    for (size_t i = 0; i < mc_adapter_substitute_count(adapter); i++) {
        const mc_adapter_substitute *x = mc_adapter_substitute_at(adapter, i);
        if (mc_source_end(source, x->name) != MC_END_NONE && !x->copy && !x->rows) return true;
    }
    return false;
}

/* ---- the whole ---- */

/* Maps the names of parts behind the decoder's prefix to their indices. */
static mica_status map_parts(const mc_source *source, mc_map *parts) {
    for (size_t i = 0; i < source->count; i++)
        if (!mc_lm_ignores(source->spec, source->parts[i].name) &&
            !mc_map_put(parts, mc_decoder_name(mc_str_of(source->parts[i].name)), i))
            return mc_fail_nomem("the tensors of a model");
    return MICA_OK;
}

/* A copy of a tied model's embedding is its head, too: where that has become one of its own, it is
 * replaced like the embedding. */
static void copy_to_head(const mc_source *source, mc_fuse *fuse) {
    const mc_part *head = mc_source_find_end(source, MC_END_HEAD);
    if (!head || !head->copy_of) return;
    const mc_adapter_substitute *x = fuse->substitutes[head->copy_of - 1];
    size_t i = (size_t)(head - source->parts);
    if (x && (x->copy || x->rows) && !fuse->substitutes[i]) fuse->substitutes[i] = x;
}

static mica_status match(const mc_source *source, mc_fuse *fuse, mc_names *strangers) {
    mc_map parts = {0};
    mica_status status = map_parts(source, &parts);
    if (status == MICA_OK) status = match_substitutes(source, &parts, fuse, strangers);
    if (status == MICA_OK) status = match_pairs(source, &parts, fuse, strangers);
    if (status == MICA_OK) copy_to_head(source, fuse);
    mc_map_deinit(&parts);
    for (size_t i = 0; i < source->count; i++)
        fuse->count += mc_fuse_changes(fuse, i);
    return status;
}

static mica_status check_strangers(const char *folder, mc_names *strangers) {
    if (strangers->count == 0) return MICA_OK;
    const char *names = mc_names_text(strangers);
    if (!names) return mc_fail_nomem("the modules of an adapter");
    return mc_fail(
        MICA_ENOENT,
        "%s: the adapter is for another model: this one has no weights of its own for %s "
        "(a tied head is the embedding)",
        folder, names);
}

mica_status mc_fuse_open(const char *folder, mc_source *source, mc_fuse *fuse) {
    mc_names strangers = {0};
    *fuse = (mc_fuse){0};
    MC_TRY(mc_adapter_open(folder, &fuse->adapter));
    if (!mc_source_find_end(source, MC_END_HEAD) && parts_ends(source, fuse->adapter))
        MC_TRY(mc_source_untie(source));
    fuse->embed = mc_source_find_end(source, MC_END_EMBED);
    fuse->pairs = mc_calloc(source->count + 1, sizeof *fuse->pairs);
    fuse->biases = mc_calloc(source->count + 1, sizeof *fuse->biases);
    fuse->substitutes = mc_calloc(source->count + 1, sizeof *fuse->substitutes);
    bool room = fuse->pairs && fuse->biases && fuse->substitutes;
    mica_status status = room ? MICA_OK : mc_fail_nomem("the matrices of an adapter");
    if (status == MICA_OK && source->spec) status = mc_adapter_fit(fuse->adapter, source->spec);
    if (status == MICA_OK) status = match(source, fuse, &strangers);
    if (status == MICA_OK) status = check_strangers(folder, &strangers);
    mc_names_deinit(&strangers);
    return status;
}

void mc_fuse_close(mc_fuse *fuse) {
    mc_adapter_close(&fuse->adapter);
    mc_free((void *)fuse->pairs);
    mc_free((void *)fuse->biases);
    mc_free((void *)fuse->substitutes);
    *fuse = (mc_fuse){0};
}
