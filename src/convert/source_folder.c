/* A model folder as the source of a conversion. */
#include "convert/source.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "convert/copy.h"
#include "convert/plan.h"
#include "graph/graph.h"
#include "io/config.h"
#include "io/folder.h"
#include "io/safetensors.h"
#include "model/load/load.h"
#include "model/packing.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 512

typedef struct folder {
    const char *path;
    mc_config *config;
    mc_weights *weights;
    const mc_weight_tensor **tensors; /* [parts]: elements or codes */
    const mc_weight_tensor **scales;  /* [parts]: NULL: the part is not quantised */
    const mc_weight_tensor **biases;  /* [parts]: NULL: it has none */
} folder;

/* The tensor that belongs to x.weight under another ending; NULL: there is none. */
static const mc_weight_tensor *sibling(const mc_weights *w, const char *name, const char *from,
                                       const char *to) {
    char text[NAME_BYTES];
    size_t len = strlen(name), ending = strlen(from);
    if (len < ending || strcmp(name + len - ending, from) != 0 || len >= NAME_BYTES - 16)
        return NULL;
    snprintf(text, sizeof text, "%.*s%s", (int)(len - ending), name, to);
    return mc_weights_find(w, text);
}

/* Whether a tensor is the scales or biases of another one. */
static bool is_attached(const mc_weights *w, const char *name) {
    return sibling(w, name, ".scales", ".weight") ||
           (sibling(w, name, ".biases", ".weight") && sibling(w, name, ".biases", ".scales"));
}

static mica_status bad(const mc_weight_tensor *t, mica_status status, const char *why) {
    return mc_fail(status, "%s: tensor '%s': %s", t->file, t->name, why);
}

/* Finds how codes [rows, columns] are quantised: by the config, and the shape of the scales. */
static mica_status find_quant(const mc_packing *packing, const mc_weight_tensor *codes,
                              const mc_weight_tensor *scales, mica_quant *quant) {
    char module[NAME_BYTES];
    snprintf(module, sizeof module, "%.*s", (int)(strlen(codes->name) - strlen(".weight")),
             codes->name);
    *quant = codes->quant;
    if (!quant->bits) MC_TRY(mc_packing_of(packing, module, module, quant));
    if (codes->ndim < 1 || codes->ndim != scales->ndim || codes->dtype != MICA_U32)
        return bad(codes, MICA_ESHAPE, "its scales do not fit it, or it is not U32");
    int64_t words = codes->shape[codes->ndim - 1], groups = scales->shape[scales->ndim - 1];
    if (words > INT32_MAX || groups > INT32_MAX)
        return bad(codes, MICA_ESHAPE, "its rows, or those of its scales, are too long");
    int64_t bits = words * 32;
    if (!quant->bits && quant->group_size && groups > 0)
        quant->bits = (int)(bits / (groups * quant->group_size));
    if (!quant->group_size && quant->bits && groups > 0)
        quant->group_size = (int)(bits / (groups * quant->bits));
    if (!mc_packing_known(quant) || groups * quant->group_size * quant->bits != bits)
        return bad(codes, MICA_ESHAPE,
                   "its shape and that of its scales do not fit what config.json says of bits and "
                   "groups");
    for (int i = 0; i + 1 < codes->ndim; i++)
        if (codes->shape[i] != scales->shape[i])
            return bad(scales, MICA_ESHAPE, "has other rows than its codes");
    return MICA_OK;
}

static mica_status check_scales(const mc_part *part, const mc_weight_tensor *scales,
                                const mc_weight_tensor *biases) {
    bool affine = part->quant.mode == MICA_QUANT_AFFINE;
    if (affine ? !scales->has_dtype || !mica_dtype_is_float(scales->dtype)
               : !scales->has_dtype || scales->dtype != MICA_U8)
        return bad(scales, MICA_EDTYPE, affine ? "want floats" : "want U8");
    if (!affine) return MICA_OK;
    if (!biases) return bad(scales, MICA_ENOENT, "has no biases beside it");
    if (biases->kind != scales->kind || biases->bytes != scales->bytes)
        return bad(biases, MICA_ESHAPE, "differs from its scales");
    return MICA_OK;
}

static mica_status add_part(mc_source *source, folder *f, const mc_packing *packing,
                            const mc_weight_tensor *t) {
    size_t i = source->count;
    mc_part *part = &source->parts[i];
    if (!t->has_dtype || t->dtype == MICA_F64 || t->dtype == MICA_C64) {
        char why[96];
        snprintf(why, sizeof why, "mica cannot convert dtype %s", t->kind);
        return bad(t, MICA_EUNSUPPORTED, why);
    }
    f->tensors[i] = t;
    f->scales[i] = sibling(f->weights, t->name, ".weight", ".scales");
    f->biases[i] = f->scales[i] ? sibling(f->weights, t->name, ".weight", ".biases") : NULL;
    *part = (mc_part){.name = t->name, .ndim = t->ndim, .dtype = t->dtype, .bytes = t->bytes};
    memcpy(part->shape, t->shape, sizeof part->shape);
    source->count++;
    if (!f->scales[i]) return MICA_OK;
    const mc_weight_tensor *scales = f->scales[i], *biases = f->biases[i];
    MC_TRY(find_quant(packing, t, scales, &part->quant));
    MC_TRY(check_scales(part, scales, biases));
    bool affine = part->quant.mode == MICA_QUANT_AFFINE;
    part->quantised = true;
    part->has_biases = affine;
    part->dtype = affine ? scales->dtype : MICA_BF16;
    part->shape[part->ndim - 1] = scales->shape[scales->ndim - 1] * part->quant.group_size;
    part->bytes += scales->bytes + (affine ? biases->bytes : 0);
    return MICA_OK;
}

static mica_status add_parts(mc_source *source, folder *f) {
    mc_packing packing;
    mc_config_scope root = mc_config_root(f->config);
    size_t n = mc_weights_count(f->weights);
    MC_TRY(mc_packing_read(&root, &packing));
    source->parts = mc_arena_calloc(&source->arena, (n + 1) * sizeof *source->parts);
    f->tensors = mc_arena_calloc(&source->arena, (n + 1) * sizeof *f->tensors);
    f->scales = mc_arena_calloc(&source->arena, (n + 1) * sizeof *f->scales);
    f->biases = mc_arena_calloc(&source->arena, (n + 1) * sizeof *f->biases);
    if (!source->parts || !f->tensors || !f->scales || !f->biases)
        return mc_fail_nomem("the tensors of a model");
    for (size_t i = 0; i < n; i++) {
        const mc_weight_tensor *t = mc_weights_at(f->weights, i);
        if (!is_attached(f->weights, t->name)) MC_TRY(add_part(source, f, &packing, t));
    }
    return MICA_OK;
}

static mica_status load(const mc_source *source, size_t i, mica_scope *s, mc_value *value) {
    const folder *f = source->own;
    *value = (mc_value){MICA_NONE, MICA_NONE, MICA_NONE};
    MC_TRY(mc_weight_leaf(s, f->tensors[i], &value->weight));
    if (f->scales[i]) MC_TRY(mc_weight_leaf(s, f->scales[i], &value->scales));
    return source->parts[i].has_biases ? mc_weight_leaf(s, f->biases[i], &value->biases) : MICA_OK;
}

static mica_status write_files(const mc_source *source, const char *to) {
    const folder *f = source->own;
    return mc_copy_model_files(f->path, to);
}

static void close_folder(mc_source *source) {
    folder *f = source->own;
    mc_weights_close(&f->weights);
    mc_config_close(&f->config);
}

static void strip_ending(const mc_part *part, char module[NAME_BYTES]) {
    snprintf(module, NAME_BYTES, "%.*s", (int)(strlen(part->name) - strlen(".weight")), part->name);
}

/* Whether there is a head unlike the embedding, whatever the config says. */
static bool has_own_head(const mc_source *source) {
    char one[NAME_BYTES], other[NAME_BYTES];
    const mc_part *head = mc_source_find_end(source, MC_END_HEAD);
    const mc_part *embed = mc_source_find_end(source, MC_END_EMBED);
    if (!head || !embed) return false;
    strip_ending(head, one);
    strip_ending(embed, other);
    return !mc_lm_same_matrix(source->weights, one, other);
}

static mica_status open_folder(mc_source *source, folder *f, const char *path,
                               mc_weight_form form) {
    MC_TRY(mc_model_folder_check(path));
    f->path = mc_arena_strndup(&source->arena, path, strlen(path));
    if (!f->path) return mc_fail_nomem(path);
    MC_TRY(mc_config_load(path, "config.json", MC_REQUIRED, &f->config));
    MC_TRY(mc_weights_open(path, &(mc_weights_options){.form = form}, &f->weights));
    source->folder = f->path;
    source->weights = f->weights;
    source->config = mc_config_root(f->config).object;
    MC_TRY(add_parts(source, f));
    mica_status status = mc_source_know(source); /* other families have no matrices of experts */
    source->own_head = mc_config_is_tied(source->config) && has_own_head(source);
    if (source->own_head && source->spec) source->spec->tied = MC_TIED_NO;
    return status == MICA_ENOMEM ? status : MICA_OK;
}

mica_status mc_source_open_folder(const char *path, mc_weight_form form, mc_source *source) {
    *source = (mc_source){.load = load, .write_files = write_files};
    folder *f = mc_arena_calloc(&source->arena, sizeof *f);
    if (!f) return mc_fail_nomem(path);
    source->own = f;
    source->close = close_folder;
    mica_status status = open_folder(source, f, path, form);
    if (status != MICA_OK) mc_source_close(source);
    return status;
}
