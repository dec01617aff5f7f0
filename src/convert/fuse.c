#include "convert/fuse.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/names.h"
#include "graph/graph.h"
#include "model/lm.h"

#include <string.h>

/* The module of a part's name; empty: it is no matrix of a module. */
static mc_str module_of(const mc_part *part) {
    static const mc_str ending = {".weight", 7};
    mc_str name = mc_str_of(part->name);
    if (part->ndim != 2 || !mc_str_ends(name, ending) || mc_lm_ignores(part->name))
        return (mc_str){"", 0};
    return mc_decoder_name((mc_str){name.ptr, name.len - ending.len});
}

static bool is_table(const mc_part *part) {
    return strstr(part->name, "embed_tokens.") != NULL;
}

/* ---- the factors of a pair ---- */

/* Factors as left [out, r] and right [r, in], perhaps transposed in the file. */
typedef struct factors {
    const mc_weight_tensor *left, *right;
    bool transposed; /* they are left^T [r, out], right^T [in, r] */
} factors;

static factors factors_of(const mc_part *part, const mc_adapter_pair *pair) {
    switch (pair->kind) {
    case MC_ADAPTER_PEFT:
        return (factors){pair->b, pair->a, false};
    case MC_ADAPTER_PEFT_EMBEDDING:
        return (factors){pair->a, pair->b, true};
    case MC_ADAPTER_MLX:
        break;
    }
    if (is_table(part)) return (factors){pair->a, pair->b, false};
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

static mica_status check_pair(const mc_part *part, const mc_adapter_pair *pair) {
    factors f = factors_of(part, pair);
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

static mica_array add_pair(mica_scope *s, const mc_part *part, const mc_adapter_pair *pair,
                           mica_array x) {
    factors f = factors_of(part, pair);
    mica_array left = leaf_f32(s, f.left, f.transposed), right = leaf_f32(s, f.right, f.transposed);
    left = mica_multiply(s, left, mica_f32(s, (float)pair->scale));
    mica_array delta = mica_matmul(s, left, right);
    x = mica_add(s, x, mica_astype(s, delta, mica_array_dtype(x)));
    return pair->m ? set_norms(s, pair->m, x) : x;
}

bool mc_fuse_changes(const mc_fuse *fuse, size_t i) {
    return fuse->pairs && (fuse->pairs[i] || fuse->replacements[i]);
}

mica_array mc_fuse_apply(mica_scope *s, const mc_fuse *fuse, const mc_part *part, size_t i,
                         mica_array x) {
    const mc_weight_tensor *t = fuse->replacements[i];
    if (!t) return add_pair(s, part, fuse->pairs[i], x);
    mica_array own = mc_leaf_memory(s, t->data, t->dtype, t->shape, t->ndim, NULL, NULL);
    return mica_astype(s, own, mica_array_dtype(x));
}

/* ---- full training ---- */

static mica_status check_replacement(const mc_part *part, const mc_weight_tensor *t) {
    if (!t->has_dtype || !mica_dtype_is_float(t->dtype))
        return mc_fail(MICA_EDTYPE, "%s: tensor %s is %s, want F32, F16 or BF16", t->file, t->name,
                       t->kind);
    if (part->quantised)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s takes the place of a quantised matrix: give the model that "
                       "was trained, whose weights are floats",
                       t->file, t->name);
    if (t->ndim == part->ndim &&
        memcmp(t->shape, part->shape, (size_t)t->ndim * sizeof *t->shape) == 0)
        return MICA_OK;
    return mc_fail(MICA_ESHAPE, "%s: tensor %s has another shape than the model's", t->file,
                   t->name);
}

static mica_status match_tensors(const mc_source *source, const mc_weights *tensors, mc_fuse *fuse,
                                 mc_names *strangers) {
    mc_map parts = {0};
    mica_status status = MICA_OK;
    for (size_t i = 0; i < source->count && status == MICA_OK; i++)
        if (!mc_map_put(&parts, mc_decoder_name(mc_str_of(source->parts[i].name)), i))
            status = mc_fail_nomem("the tensors of a model");
    for (size_t k = 0; k < mc_weights_count(tensors) && status == MICA_OK; k++) {
        const mc_weight_tensor *t = mc_weights_at(tensors, k);
        uint64_t i;
        if (!mc_map_find(&parts, mc_decoder_name(mc_str_of(t->name)), &i)) {
            if (!mc_lm_ignores(t->name)) status = mc_names_add(strangers, t->name);
            continue;
        }
        status =
            fuse->replacements[i]
                ? mc_fail(MICA_EFORMAT, "%s: tensor %s is there under two names", t->file, t->name)
                : check_replacement(&source->parts[i], t);
        fuse->replacements[i] = t;
        fuse->count++;
    }
    mc_map_deinit(&parts);
    return status;
}

/* ---- the whole ---- */

static mica_status map_modules(const mc_source *source, mc_map *modules) {
    for (size_t i = 0; i < source->count; i++) {
        mc_str module = module_of(&source->parts[i]);
        if (module.len > 0 && !mc_map_put(modules, module, i))
            return mc_fail_nomem("the modules of a model");
    }
    return MICA_OK;
}

static mica_status match(const mc_source *source, const mc_map *modules, mc_fuse *fuse,
                         mc_names *strangers) {
    const mc_weights *tensors = mc_adapter_replacements(fuse->adapter);
    if (tensors) return match_tensors(source, tensors, fuse, strangers);
    for (size_t k = 0; k < mc_adapter_count(fuse->adapter); k++) {
        const mc_adapter_pair *pair = mc_adapter_at(fuse->adapter, k);
        uint64_t i;
        if (!mc_map_find(modules, mc_decoder_name(mc_str_of(pair->module)), &i)) {
            if (!mc_lm_ignores(pair->module)) MC_TRY(mc_names_add(strangers, pair->module));
            continue;
        }
        if (fuse->pairs[i])
            return mc_fail(MICA_EFORMAT, "%s: tensor %s is the second for its matrix",
                           pair->a->file, pair->a->name);
        MC_TRY(check_pair(&source->parts[i], pair));
        fuse->pairs[i] = pair;
        fuse->count++;
    }
    return MICA_OK;
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

mica_status mc_fuse_open(const char *folder, const mc_source *source, mc_fuse *fuse) {
    mc_map modules = {0};
    mc_names strangers = {0};
    *fuse = (mc_fuse){0};
    MC_TRY(mc_adapter_open(folder, &fuse->adapter));
    fuse->pairs = mc_calloc(source->count + 1, sizeof *fuse->pairs);
    fuse->replacements = mc_calloc(source->count + 1, sizeof *fuse->replacements);
    bool room = fuse->pairs && fuse->replacements;
    mica_status status = room ? MICA_OK : mc_fail_nomem("the matrices of an adapter");
    if (status == MICA_OK) status = map_modules(source, &modules);
    if (status == MICA_OK) status = match(source, &modules, fuse, &strangers);
    if (status == MICA_OK) status = check_strangers(folder, &strangers);
    mc_names_deinit(&strangers);
    mc_map_deinit(&modules);
    return status;
}

void mc_fuse_close(mc_fuse *fuse) {
    mc_adapter_close(&fuse->adapter);
    mc_free((void *)fuse->pairs);
    mc_free((void *)fuse->replacements);
    *fuse = (mc_fuse){0};
}
