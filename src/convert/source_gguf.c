/* A GGUF file as the source of a conversion. */
#include "convert/source.h"

#include "base/alloc.h"
#include "convert/gguf_model.h"
#include "graph/graph.h"
#include "io/gguf.h"

#include <math.h>
#include <string.h>

#define NAME_BYTES 256

/* What is done to the elements of a part. */
typedef struct change {
    int64_t
        heads; /* rows are in the order of paired rotations, of so many heads; 0: they are not */
    double offset; /* added to the values of a norm */
} change;

typedef struct source_file {
    mc_gguf *gguf;
    const mc_gguf_arch *arch;
    mc_json_doc *config;
    const mc_gguf_tensor **tensors; /* [parts] */
    change *changes;                /* [parts] */
} source_file;

/* ---- parts ---- */

/* The dtype that a tensor's elements get if they are not quantised. */
static mica_dtype dtype_of(const mc_gguf_tensor *t) {
    if (strcmp(t->type->name, "BF16") == 0) return MICA_BF16;
    if (t->type->block == 1 && strcmp(t->type->name, "F16") != 0) return MICA_F32;
    return t->ndim > 1 || t->type->block == 1 ? MICA_F16 : MICA_F32;
}

/* Whether MLX's quantisation has the same weights: a matrix of such blocks, of which no bias
 * overflows f16. */
static bool is_kept(const mc_gguf_tensor *t) {
    uint8_t codes[32];
    uint16_t scale, bias;
    const uint8_t *data = t->data;
    if (!t->type->bits || t->ndim < 2 || t->ndim > 3) return false;
    for (size_t at = 0; at < t->bytes; at += t->type->bytes) {
        t->type->split(data + at, codes, &scale, &bias);
        if ((bias & 0x7c00) == 0x7c00) return false;
    }
    return true;
}

static mica_status add_part(mc_source *source, source_file *f, const mc_gguf_tensor *t) {
    char name[NAME_BYTES];
    mc_spec_slot slot;
    size_t i = source->count;
    mc_part *part = &source->parts[i];
    if (!mc_gguf_tensor_name(source->spec, t->name, name, sizeof name, &slot)) {
        if (strcmp(t->name, "rope_freqs.weight") == 0) return MICA_OK; /* config.json says it */
        return mc_fail(MICA_EUNSUPPORTED, "%s: a model of the architecture %s has no tensor %s",
                       mc_gguf_path(f->gguf), f->arch->name, t->name);
    }
    *part = (mc_part){.name = mc_arena_strndup(&source->arena, name, strlen(name)),
                      .ndim = t->ndim,
                      .dtype = dtype_of(t),
                      .bytes = t->bytes};
    if (!part->name) return mc_fail_nomem("the tensors of a model");
    memcpy(part->shape, t->shape, sizeof part->shape);
    if (is_kept(t)) {
        bool affine = t->type->mode == MICA_QUANT_AFFINE;
        part->quantised = true;
        part->quant = (mica_quant){t->type->mode, t->type->bits, 32};
        part->has_biases = affine;
        part->dtype = affine ? MICA_F16 : MICA_BF16;
    }
    f->tensors[i] = t;
    f->changes[i] = (change){mc_gguf_paired_heads(f->arch, &slot),
                             mc_gguf_norm_offset(source->spec, &slot, name)};
    if (f->changes[i].heads && (t->ndim < 1 || t->shape[0] % (2 * f->changes[i].heads) != 0))
        return mc_fail(MICA_ESHAPE, "%s: tensor %s has no whole heads", mc_gguf_path(f->gguf),
                       t->name);
    source->count++;
    return MICA_OK;
}

/* ---- values ---- */

/* A leaf of s over memory that the leaf frees. */
static mica_array owned(mica_scope *s, void *data, mica_dtype dtype, const int64_t *shape,
                        int ndim) {
    return mc_leaf_memory(s, data, dtype, shape, ndim, mc_free, data);
}

/* All elements as f32, cast to the part's dtype. */
static mica_status load_dense(const mc_part *part, const mc_gguf_tensor *t, mica_scope *s,
                              mc_value *value) {
    size_t blocks = t->bytes / t->type->bytes;
    const uint8_t *data = t->data;
    float *out = mc_array_alloc(blocks * t->type->block + 1, sizeof *out);
    if (!out) return mc_fail_nomem(t->name);
    for (size_t i = 0; i < blocks; i++)
        t->type->decode(data + i * t->type->bytes, out + i * t->type->block);
    *value = (mc_value){owned(s, out, MICA_F32, part->shape, part->ndim), MICA_NONE, MICA_NONE};
    value->weight = mica_astype(s, value->weight, part->dtype);
    return mica_scope_status(s);
}

/* Packs 32 codes, the first into the lowest bits. */
static void pack(const uint8_t codes[32], int bits, uint32_t *out) {
    uint64_t pending = 0;
    int n = 0;
    for (int i = 0; i < 32; i++) {
        pending |= (uint64_t)codes[i] << n;
        n += bits;
        if (n < 32) continue;
        *out++ = (uint32_t)pending;
        pending >>= 32;
        n -= 32;
    }
}

static mica_status load_quantised(const mc_part *part, const mc_gguf_tensor *t, mica_scope *s,
                                  mc_value *value) {
    size_t blocks = t->bytes / t->type->bytes, words = (size_t)part->quant.bits;
    bool affine = part->has_biases;
    const int last = part->ndim - 1;
    int64_t groups[MICA_MAX_NDIM], codes_shape[MICA_MAX_NDIM];
    memcpy(groups, part->shape, sizeof groups);
    memcpy(codes_shape, part->shape, sizeof codes_shape);
    groups[last] = part->shape[last] / 32;
    codes_shape[last] = groups[last] * part->quant.bits;
    const uint8_t *data = t->data;
    uint8_t codes[32];
    uint32_t *packed = mc_array_alloc(blocks * words + 1, sizeof *packed);
    uint16_t *scales = mc_array_alloc(blocks + 1, sizeof *scales);
    uint16_t *biases = mc_array_alloc(blocks + 1, sizeof *biases);
    if (!packed || !scales || !biases) {
        mc_free(packed);
        mc_free(scales);
        mc_free(biases);
        return mc_fail_nomem(t->name);
    }
    for (size_t i = 0; i < blocks; i++) {
        t->type->split(data + i * t->type->bytes, codes, &scales[i], &biases[i]);
        pack(codes, part->quant.bits, packed + i * words);
        if (!affine) ((uint8_t *)scales)[i] = (uint8_t)scales[i]; /* at or before what it reads */
    }
    value->weight = owned(s, packed, MICA_U32, codes_shape, part->ndim);
    value->scales = owned(s, scales, affine ? MICA_F16 : MICA_U8, groups, part->ndim);
    value->biases = MICA_NONE;
    if (affine)
        value->biases = owned(s, biases, MICA_F16, groups, part->ndim);
    else
        mc_free(biases);
    return mica_scope_status(s);
}

/* Rows from the order of paired rotations (x0 y0 x1 y1 ...) to that of halves (x0 x1 ... y0 ...),
 * in each head. */
static mica_array unpair_rows(mica_scope *s, mica_array x, int64_t heads) {
    int64_t shape[MICA_MAX_NDIM], ndim = mica_array_ndim(x);
    if (!mica_valid(x)) return x;
    memcpy(shape, mica_array_shape(x), (size_t)ndim * sizeof *shape);
    const int64_t split[] = {heads, shape[0] / heads / 2, 2};
    mica_array y = mica_swapaxes(s, mica_unflatten(s, x, 0, split, 3), 1, 2);
    return mica_reshape(s, y, shape, (int)ndim);
}

static mica_status load(const mc_source *source, size_t i, mica_scope *s, mc_value *value) {
    const source_file *f = source->own;
    const mc_part *part = &source->parts[i];
    const change *c = &f->changes[i];
    MC_TRY(part->quantised ? load_quantised(part, f->tensors[i], s, value)
                           : load_dense(part, f->tensors[i], s, value));
    if (c->heads) {
        value->weight = unpair_rows(s, value->weight, c->heads);
        value->scales = unpair_rows(s, value->scales, c->heads);
        value->biases = unpair_rows(s, value->biases, c->heads);
    }
    if (c->offset != 0)
        value->weight = mica_add(s, value->weight, mica_scalar(s, -c->offset, part->dtype));
    return mica_scope_status(s);
}

/* ---- the whole ---- */

static mica_status write_files(const mc_source *source, const char *folder) {
    const source_file *f = source->own;
    return mc_gguf_write_tokenizer(f->gguf, f->arch, folder);
}

static void close_file(mc_source *source) {
    source_file *f = source->own;
    mc_json_close(&f->config);
    mc_gguf_close(&f->gguf);
}

static mica_status make_config(mc_source *source, source_file *f) {
    mc_buffer text = {0};
    mica_status status = mc_gguf_config(f->gguf, f->arch, &text);
    if (status == MICA_OK)
        status = mc_json_parse(text.data, text.len, "the config of a GGUF file", &f->config);
    mc_buffer_deinit(&text);
    MC_TRY(status);
    source->config = mc_json_root(f->config);
    return mc_source_know(source);
}

static mica_status check_split(const mc_gguf *gguf) {
    int64_t files = 1;
    mc_gguf_int(gguf, "split.count", &files);
    if (files <= 1) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: is one of %lld files of a model: join them first, as llama-gguf-split "
                   "--merge does",
                   mc_gguf_path(gguf), (long long)files);
}

static mica_status open_file(mc_source *source, source_file *f, const char *path) {
    MC_TRY(mc_gguf_open(path, &f->gguf));
    MC_TRY(check_split(f->gguf));
    MC_TRY(mc_gguf_arch_find(f->gguf, &f->arch));
    MC_TRY(make_config(source, f));
    size_t n = mc_gguf_count(f->gguf);
    source->parts = mc_arena_calloc(&source->arena, (n + 1) * sizeof *source->parts);
    f->tensors = mc_arena_calloc(&source->arena, (n + 1) * sizeof *f->tensors);
    f->changes = mc_arena_calloc(&source->arena, (n + 1) * sizeof *f->changes);
    if (!source->parts || !f->tensors || !f->changes)
        return mc_fail_nomem("the tensors of a model");
    for (size_t i = 0; i < n; i++)
        MC_TRY(add_part(source, f, mc_gguf_at(f->gguf, i)));
    return MICA_OK;
}

mica_status mc_source_open_gguf(const char *path, mc_source *source) {
    *source = (mc_source){.load = load, .write_files = write_files};
    source_file *f = mc_arena_calloc(&source->arena, sizeof *f);
    if (!f) return mc_fail_nomem(path);
    source->own = f;
    source->close = close_file;
    mica_status status = open_file(source, f, path);
    if (status != MICA_OK) mc_source_close(source);
    return status;
}
