/* A GGUF file as the source of a conversion. */
#include "convert/source.h"

#include "base/alloc.h"
#include "base/map.h"
#include "convert/gguf_model.h"
#include "convert/gguf_rows.h"
#include "convert/gguf_sentence.h"
#include "convert/gguf_tokenizer.h"
#include "graph/graph.h"
#include "io/gguf.h"
#include "model/family.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256

/* A tensor whose rows, or some of them, a part has. */
typedef struct piece {
    const mc_gguf_tensor *tensor;
    int own;       /* the slot whose rows these are */
    int64_t first; /* of the tensor's rows */
    int64_t all;   /* rows that the tensor has with those of others; 0: these alone */
} piece;

/* What a part is made of. */
typedef struct origin {
    mc_spec_slot slot; /* layer -1: outside the layers */
    bool bias;
    double offset;         /* of the values of a norm */
    const mc_slot *joined; /* the slot that has the rows of all pieces; else NULL */
    int stacked;           /* outside the layers: 1 + its place in a stack; 0: it is in none */
    int n;
    piece pieces[MC_GGUF_PIECES];
} origin;

typedef struct source_file {
    mc_gguf *gguf;
    const mc_gguf_arch *arch;
    mc_json_doc *config;
    origin *origins; /* [room] */
    size_t room;     /* for parts */
    mc_map used;     /* names of tensors that parts have, and whether these stay quantised */
    const mica_cancel *cancel;
} source_file;

/* ---- parts ---- */

/* The dtype that a tensor's elements get if they are not quantised. */
static mica_dtype dtype_of(const mc_gguf_tensor *t) {
    if (strcmp(t->type->name, "BF16") == 0) return MICA_BF16;
    if (t->type->block == 1 && strcmp(t->type->name, "F16") != 0) return MICA_F32;
    return t->ndim > 1 || t->type->block == 1 ? MICA_F16 : MICA_F32;
}

/* Whether a tensor stays quantised: a matrix of such blocks, of which no scale or bias overflows
 * f16. */
static bool is_kept(const mc_gguf_tensor *t) {
    uint8_t codes[MC_GGML_BLOCK];
    uint16_t scales[MC_GGML_GROUPS] = {0}, biases[MC_GGML_GROUPS] = {0};
    const uint8_t *data = t->data;
    if (!t->type->bits || t->ndim < 2 || t->ndim > 3) return false;
    for (size_t at = 0; at < t->bytes; at += t->type->bytes) {
        t->type->split(data + at, codes, scales, biases);
        for (unsigned j = 0; j < t->type->block / 32; j++)
            if ((biases[j] & 0x7c00) == 0x7c00 ||
                (t->type->mode == MICA_QUANT_AFFINE && (scales[j] & 0x7c00) == 0x7c00))
                return false;
    }
    return true;
}

/* Whether all pieces stay quantised, in the same way, and their groups whole. */
static bool are_kept(const source_file *f, const origin *o) {
    int64_t run = 0;
    if (o->slot.layer >= 0) mc_gguf_column_places(f->arch, o->slot.spec, o->slot.slot, &run, NULL);
    if (run % 32 != 0) return false;
    for (int i = 0; i < o->n; i++) {
        const mc_gguf_tensor *t = o->pieces[i].tensor;
        uint64_t kept = 0;
        (void)mc_map_find(&f->used, mc_str_of(t->name), &kept);
        if (!kept || t->type != o->pieces[0].tensor->type) return false;
    }
    return true;
}

/* Looks through a tensor once, however many parts have it: it may be gigabytes. */
static mica_status use(source_file *f, const mc_gguf_tensor *t) {
    uint64_t kept;
    if (mc_map_find(&f->used, mc_str_of(t->name), &kept)) return MICA_OK;
    MC_TRY(mc_cancel_check(f->cancel));
    return mc_map_put(&f->used, mc_str_of(t->name), is_kept(t))
               ? MICA_OK
               : mc_fail_nomem("the tensors of a model");
}

/* Adds a part with a shape. */
static mica_status add_part(mc_source *source, source_file *f, const origin *o, const char *name,
                            int ndim, const int64_t *shape) {
    size_t i = source->count;
    const mc_gguf_tensor *t = o->pieces[0].tensor;
    mc_part *part = &source->parts[i];
    if (i == f->room)
        return mc_fail(MICA_EFORMAT, "%s: tensor %s has the rows of too many others",
                       mc_gguf_path(f->gguf), t->name);
    *part = (mc_part){.name = mc_arena_strndup(&source->arena, name, strlen(name)),
                      .ndim = ndim,
                      .dtype = dtype_of(t)};
    if (!part->name) return mc_fail_nomem("the tensors of a model");
    memcpy(part->shape, shape, (size_t)ndim * sizeof *shape);
    for (int k = 0; k < o->n; k++) {
        part->bytes += o->pieces[k].tensor->bytes;
        MC_TRY(use(f, o->pieces[k].tensor));
    }
    f->origins[i] = *o;
    source->count++;
    if (!are_kept(f, o)) return MICA_OK;
    bool affine = t->type->mode == MICA_QUANT_AFFINE;
    part->quantised = true;
    part->quant = (mica_quant){t->type->mode, t->type->bits, 32};
    part->has_biases = affine;
    part->dtype = affine ? MICA_F16 : MICA_BF16;
    return MICA_OK;
}

static const mc_gguf_tensor *find_tensor(const source_file *f, const origin *o, int slot) {
    char name[96], whole[NAME_BYTES];
    if (!mc_gguf_slot_name(f->arch, o->slot.spec->kind, slot, o->bias, name, sizeof name))
        return NULL;
    snprintf(whole, sizeof whole, "blk.%d.%s", o->slot.layer, name);
    return mc_gguf_find(f->gguf, whole);
}

/* Finds the tensors of all slots whose rows a joined one has. */
static bool find_joined(const source_file *f, origin *o) {
    const mc_slot *joined = &o->slot.spec->kind->slots[o->slot.slot];
    o->n = 0;
    for (int i = joined->first; i <= joined->last; i++) {
        const mc_gguf_tensor *t = find_tensor(f, o, i);
        if (!t) return false;
        o->pieces[o->n++] = (piece){t, i, 0, 0};
    }
    o->joined = joined;
    return true;
}

/* Finds the tensors of a slot: of a joined one, those of the slots whose rows it has; its own; of
 * one of these slots, the joined one's. */
static bool find_pieces(const source_file *f, origin *o) {
    const mc_block *kind = o->slot.spec->kind;
    int slot = o->slot.slot;
    bool turned = kind == &mc_block_mla; /* forms have it otherwise */
    if (kind->slots[slot].last && !turned && find_joined(f, o)) return true;
    o->n = 1;
    o->pieces[0] = (piece){find_tensor(f, o, slot), slot, 0, 0};
    if (o->pieces[0].tensor) return true;
    const mc_slot *joined = turned ? NULL : mc_gguf_joined(kind, slot);
    if (!joined) return false;
    o->pieces[0].tensor = find_tensor(f, o, (int)(joined - kind->slots));
    for (int i = joined->first; i <= joined->last; i++) {
        if (i == slot) o->pieces[0].first = o->pieces[0].all;
        o->pieces[0].all += mc_gguf_rows(o->slot.spec, i);
    }
    return o->pieces[0].tensor != NULL;
}

/* Whether a slot may have a bias. */
static bool may_have_bias(const mc_block_spec *block, int slot) {
    mc_slot_kind kind = block->kind->slots[slot].kind;
    return kind == MC_SLOT_MATRIX || (kind == MC_SLOT_NORM && block->centred);
}

/* The shape that a slot has in a folder. */
static int shape_of(const origin *o, int64_t shape[MICA_MAX_NDIM]) {
    const mc_slot *slot = &o->slot.spec->kind->slots[o->slot.slot];
    int n = 0;
    if (slot->experts) shape[n++] = slot->experts(o->slot.spec);
    shape[n++] = slot->rows(o->slot.spec);
    if (o->bias) return n;
    if (slot->kind == MC_SLOT_KERNEL) shape[n++] = 1;
    if (slot->columns) shape[n++] = slot->columns(o->slot.spec);
    return n;
}

/* Checks that a tensor has a slot's rows and no others, or has them among its own. A vector may
 * have one row or column. */
static mica_status check_piece(const source_file *f, const origin *o, const piece *p) {
    int64_t want[MICA_MAX_NDIM];
    const mc_gguf_tensor *t = p->tensor;
    int n = mc_gguf_shape(o->slot.spec, p->own, o->bias, want);
    int rows = o->slot.spec->kind->slots[p->own].experts ? 1 : 0;
    bool fits = t->ndim == n;
    for (int i = 0; fits && i < n; i++)
        fits = t->shape[i] == (p->all && i == rows ? p->all : want[i]);
    bool flat = n == 2 && t->ndim == 1 && (want[0] == 1 || want[1] == 1);
    if (fits || (flat && t->shape[0] == want[0] * want[1])) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "%s: tensor %s has another shape than the metadata says",
                   mc_gguf_path(f->gguf), t->name);
}

static mica_status add_slot(mc_source *source, source_file *f, origin *o) {
    char name[NAME_BYTES];
    int64_t shape[MICA_MAX_NDIM];
    const mc_slot *slot = &o->slot.spec->kind->slots[o->slot.slot];
    if (!find_pieces(f, o)) return MICA_OK;
    for (int i = 0; i < o->n; i++)
        MC_TRY(check_piece(f, o, &o->pieces[i]));
    snprintf(name, sizeof name, "%s%s.%d.%s%s", f->arch->prefix ? f->arch->prefix : "model.",
             mc_spec_layers(source->spec), o->slot.layer, o->slot.spec->names[o->slot.slot],
             slot->bare ? ""
             : o->bias  ? ".bias"
                        : ".weight");
    o->offset = slot->kind == MC_SLOT_NORM && !o->bias ? o->slot.spec->norm_offset : 0;
    int ndim = shape_of(o, shape);
    return add_part(source, f, o, name, ndim, shape);
}

static mica_status add_layer(mc_source *source, source_file *f, int layer) {
    const mc_block_spec *block;
    for (int k = 0; (block = mc_spec_block(source->spec, layer, k)); k++)
        for (int i = 0; i < block->kind->n_slots; i++)
            for (int bias = 0; bias < 2; bias++) {
                origin o = {.slot = {layer, k, block, i}, .bias = bias};
                if (block->names[i] && (!bias || may_have_bias(block, i)))
                    MC_TRY(add_slot(source, f, &o));
            }
    return MICA_OK;
}

/* Adds the matrices of a stack, or what else a tensor outside the layers is. */
static mica_status add_tops(mc_source *source, source_file *f, const mc_gguf_top *top,
                            const mc_gguf_tensor *t) {
    char text[NAME_BYTES], number[16] = "";
    const char *prefix = top->plain ? "" : f->arch->prefix ? f->arch->prefix : "model.";
    if (top->stacked && (t->ndim != 3 || t->shape[0] != top->stacked))
        return mc_fail(MICA_ESHAPE, "%s: tensor %s has another shape than the metadata says",
                       mc_gguf_path(f->gguf), t->name);
    for (int i = 0; i == 0 || i < top->stacked; i++) {
        const origin o = {.slot = {.layer = -1},
                          .offset = top->norm ? source->spec->norm_offset : 0,
                          .stacked = top->stacked ? 1 + i : 0,
                          .n = 1,
                          .pieces = {{t, 0, 0, 0}}};
        int outer = top->stacked ? 1 : 0;
        if (outer) snprintf(number, sizeof number, ".%d", i);
        snprintf(text, sizeof text, "%s%s%s%s", prefix, top->module, number, top->ending);
        MC_TRY(add_part(source, f, &o, text, t->ndim - outer, t->shape + outer));
    }
    return MICA_OK;
}

static mica_status add_top(mc_source *source, source_file *f, const mc_gguf_top *top) {
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "%s%s", top->gguf, top->ending);
    const mc_gguf_tensor *t = top->other ? NULL : mc_gguf_find(f->gguf, text);
    return t ? add_tops(source, f, top, t) : MICA_OK;
}

/* Whether a tensor is of a block that guesses tokens ahead. */
static bool is_ahead(const source_file *f, const mc_decoder_spec *spec, const char *name) {
    int layer, at = 0;
    return sscanf(name, "blk.%5d.%n", &layer, &at) == 1 && at && layer >= spec->n_layers &&
           layer < spec->n_layers + mc_gguf_ahead(f->gguf, f->arch);
}

/* Whether a tensor is of keys or values in a layer that reads those of another. */
static bool is_spare(const source_file *f, const mc_decoder_spec *spec, const char *name) {
    static const int slots[] = {MC_ATTENTION_K, MC_ATTENTION_V, MC_ATTENTION_K_NORM};
    char own[96];
    int layer, at = 0;
    if (sscanf(name, "blk.%5d.%n", &layer, &at) != 1 || !at || layer < 0 ||
        layer >= spec->n_layers || mc_spec_source(spec, layer) == layer)
        return false;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (mc_gguf_slot_name(f->arch, &mc_block_attention, slots[i], false, own, sizeof own) &&
            strcmp(name + at, own) == 0)
            return true;
    return false;
}

/* All tensors must be of use, but for what config.json says, and what mica does not read. */
static mica_status check_used(const source_file *f, const mc_decoder_spec *spec) {
    static const char *const told[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                       "rope_factors_short.weight", MC_GGUF_DENSE_2,
                                       MC_GGUF_DENSE_3};
    uint64_t there;
    for (size_t i = 0; i < mc_gguf_count(f->gguf); i++) {
        const char *name = mc_gguf_at(f->gguf, i)->name;
        bool known = mc_map_find(&f->used, mc_str_of(name), &there) || is_ahead(f, spec, name) ||
                     is_spare(f, spec, name);
        for (size_t k = 0; k < sizeof told / sizeof *told; k++)
            known = known || strcmp(name, told[k]) == 0;
        known = known || (!f->arch->both_ways && strcmp(name, MC_GGUF_ANSWERS) == 0);
        if (!known)
            return mc_fail(MICA_EUNSUPPORTED, "%s: a model of the architecture %s has no tensor %s",
                           mc_gguf_path(f->gguf), f->arch->name, name);
    }
    return MICA_OK;
}

static mica_status add_parts(mc_source *source, source_file *f) {
    mc_gguf_top top;
    for (size_t i = 0; mc_gguf_next_top(f->arch, source->spec, &i, &top);)
        MC_TRY(add_top(source, f, &top));
    for (int i = 0; i < source->spec->n_layers; i++)
        MC_TRY(add_layer(source, f, i));
    return check_used(f, source->spec);
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
    size_t per = t->type->block / 32;
    bool affine = part->has_biases;
    const int last = part->ndim - 1;
    int64_t groups[MICA_MAX_NDIM], codes_shape[MICA_MAX_NDIM];
    memcpy(groups, part->shape, sizeof groups);
    memcpy(codes_shape, part->shape, sizeof codes_shape);
    groups[last] = part->shape[last] / 32;
    codes_shape[last] = groups[last] * part->quant.bits;
    const uint8_t *data = t->data;
    uint8_t codes[MC_GGML_BLOCK];
    uint32_t *packed = mc_array_alloc(blocks * per * words + 1, sizeof *packed);
    uint16_t *scales = mc_array_alloc(blocks * per + 1, sizeof *scales);
    uint16_t *biases = mc_array_alloc(blocks * per + 1, sizeof *biases);
    if (!packed || !scales || !biases) {
        mc_free(packed);
        mc_free(scales);
        mc_free(biases);
        return mc_fail_nomem(t->name);
    }
    for (size_t i = 0; i < blocks; i++) {
        t->type->split(data + i * t->type->bytes, codes, &scales[i * per], &biases[i * per]);
        for (size_t j = 0; j < per; j++)
            pack(codes + j * 32, part->quant.bits, packed + (i * per + j) * words);
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

/* The value of a piece, of the shape that its tensor has. */
static mica_status load_piece(const mc_part *part, const piece *p, mica_scope *s, mc_value *value) {
    mc_part own = *part;
    own.ndim = p->tensor->ndim;
    memcpy(own.shape, p->tensor->shape, sizeof own.shape);
    if (part->quantised) return load_quantised(&own, p->tensor, s, value);
    return load_dense(&own, p->tensor, s, value);
}

/* What of a value is not empty, by one function after the other. */
typedef mica_array change(mica_scope *s, mica_array x, void *user);

static void each(mica_scope *s, mc_value *value, change *make, void *user) {
    value->weight = make(s, value->weight, user);
    if (mica_valid(value->scales)) value->scales = make(s, value->scales, user);
    if (mica_valid(value->biases)) value->biases = make(s, value->biases, user);
}

/* Rows [first, first + n) along an axis. */
typedef struct range {
    int axis;
    int64_t first, n;
} range;

static mica_array cut(mica_scope *s, mica_array x, void *user) {
    const range *r = user;
    if (mica_array_dim(x, r->axis) == r->n) return x;
    return mica_slice_axis(s, x, r->axis, r->first, r->first + r->n);
}

/* Takes along an axis; columns are in so many runs. */
typedef struct taking {
    mica_array at;
    int axis;
    int64_t runs;
} taking;

static mica_array take_places(mica_scope *s, mica_array x, void *user) {
    const taking *t = user;
    if (!t->runs) return mica_take(s, x, t->at, t->axis);
    const int64_t shape[] = {mica_array_dim(x, 0), mica_array_dim(x, 1)};
    const int64_t split[] = {t->runs, shape[1] / t->runs};
    return mica_reshape(s, mica_take(s, mica_unflatten(s, x, 1, split, 2), t->at, 1), shape, 2);
}

/* Joins the pieces of a value along an axis. */
static void join(mica_scope *s, const mc_value *pieces, int n, int axis, mc_value *value) {
    mica_array weights[MC_GGUF_PIECES], scales[MC_GGUF_PIECES], biases[MC_GGUF_PIECES];
    for (int i = 0; i < n; i++) {
        weights[i] = pieces[i].weight;
        scales[i] = pieces[i].scales;
        biases[i] = pieces[i].biases;
    }
    *value = pieces[0];
    if (n == 1) return;
    value->weight = mica_concatenate(s, weights, n, axis);
    if (mica_valid(scales[0])) value->scales = mica_concatenate(s, scales, n, axis);
    if (mica_valid(biases[0])) value->biases = mica_concatenate(s, biases, n, axis);
}

/* Where each of a part's rows is among those of its pieces. false: they are in order. */
static bool find_rows(const source_file *f, const origin *o, int32_t *places, int32_t *rows) {
    bool moved = false;
    int64_t before = 0;
    for (int i = 0; i < o->n; i++) {
        int64_t n = o->slot.spec->kind->slots[o->pieces[i].own].rows(o->slot.spec);
        bool own = mc_gguf_row_places(f->arch, o->slot.spec, o->pieces[i].own, o->joined, places);
        for (int64_t k = 0; k < n; k++)
            rows[own ? places[k] : k] = (int32_t)(before + k);
        moved = moved || own;
        before += n;
    }
    return moved;
}

static mica_status take_rows(const source_file *f, const origin *o, mica_scope *s,
                             mc_value *value) {
    int64_t n = o->slot.spec->kind->slots[o->slot.slot].rows(o->slot.spec);
    int32_t *places = mc_array_alloc((size_t)n, sizeof *places),
            *rows = mc_array_alloc((size_t)n, sizeof *rows);
    if (!places || !rows) {
        mc_free(places);
        mc_free(rows);
        return mc_fail_nomem("the rows of a tensor");
    }
    bool moved = find_rows(f, o, places, rows);
    mc_free(places);
    taking t = {.axis = o->slot.spec->kind->slots[o->slot.slot].experts ? 1 : 0};
    if (!moved) {
        mc_free(rows);
        return MICA_OK;
    }
    t.at = owned(s, rows, MICA_I32, &n, 1);
    each(s, value, take_places, &t);
    return mica_scope_status(s);
}

/* Runs of columns, if there are any, and quantised groups are whole in them: else they are
 * dequantised, and the part is not to be quantised. */
static mica_status take_columns(const source_file *f, const origin *o, mica_scope *s,
                                mc_value *value) {
    int64_t run;
    mc_gguf_column_places(f->arch, o->slot.spec, o->slot.slot, &run, NULL);
    if (!run || o->bias) return MICA_OK;
    int64_t n = o->slot.spec->kind->slots[o->slot.slot].columns(o->slot.spec) / run;
    int32_t *places = mc_array_alloc((size_t)n, sizeof *places),
            *back = mc_array_alloc((size_t)n, sizeof *back);
    if (!places || !back) {
        mc_free(places);
        mc_free(back);
        return mc_fail_nomem("the columns of a tensor");
    }
    mc_gguf_column_places(f->arch, o->slot.spec, o->slot.slot, &run, places);
    for (int64_t i = 0; i < n; i++)
        back[places[i]] = (int32_t)i;
    mc_free(places);
    taking t = {owned(s, back, MICA_I32, &n, 1), 1, n};
    each(s, value, take_places, &t);
    return mica_scope_status(s);
}

static mica_status load_slot(const source_file *f, const mc_part *part, const origin *o,
                             mica_scope *s, mc_value *value) {
    mc_value pieces[MC_GGUF_PIECES] = {0};
    int axis = o->slot.spec->kind->slots[o->slot.slot].experts ? 1 : 0;
    for (int i = 0; i < o->n; i++) {
        const piece *p = &o->pieces[i];
        range r = {axis, p->first, o->slot.spec->kind->slots[p->own].rows(o->slot.spec)};
        MC_TRY(load_piece(part, p, s, &pieces[i]));
        if (p->tensor->ndim > axis && p->tensor->ndim == part->ndim) each(s, &pieces[i], cut, &r);
    }
    join(s, pieces, o->n, axis, value);
    MC_TRY(mica_scope_status(s));
    if (!part->quantised) {
        if (mc_gguf_change_of(o->slot.spec, o->slot.slot) == MC_GGUF_DECAY)
            value->weight = mica_log(s, mica_negative(s, value->weight));
        value->weight = mica_reshape(s, value->weight, part->shape, part->ndim);
    }
    MC_TRY(take_rows(f, o, s, value));
    return take_columns(f, o, s, value);
}

static mica_array flatten(mica_scope *s, mica_array x, void *user) {
    (void)user;
    return mica_squeeze(s, x, 0);
}

/* A tensor outside the layers, or one matrix of a stack. */
static mica_status load_top(const mc_part *part, const origin *o, mica_scope *s, mc_value *value) {
    range r = {0, o->stacked - 1, 1};
    MC_TRY(load_piece(part, &o->pieces[0], s, value));
    if (!o->stacked) return MICA_OK;
    each(s, value, cut, &r);
    each(s, value, flatten, NULL);
    return mica_scope_status(s);
}

static mica_status load(const mc_source *source, size_t i, mica_scope *s, mc_value *value) {
    const source_file *f = source->own;
    const mc_part *part = &source->parts[i];
    const origin *o = &f->origins[i];
    MC_TRY(o->slot.layer < 0 ? load_top(part, o, s, value) : load_slot(f, part, o, s, value));
    if (o->offset != 0)
        value->weight = mica_add(s, value->weight, mica_scalar(s, -o->offset, part->dtype));
    return mica_scope_status(s);
}

/* ---- the whole ---- */

static mica_status write_files(const mc_source *source, const char *folder) {
    const source_file *f = source->own;
    MC_TRY(mc_gguf_write_tokenizer(f->gguf, folder));
    return mc_gguf_write_sentence(f->gguf, f->arch, source->spec, folder);
}

static void close_file(mc_source *source) {
    source_file *f = source->own;
    mc_json_close(&f->config);
    mc_gguf_close(&f->gguf);
    mc_map_deinit(&f->used);
}

/* Whether a layer has the tensor of a slot. */
static bool has_slot(const source_file *f, const mc_decoder_spec *spec, const mc_block *kind,
                     int slot) {
    char name[96], whole[NAME_BYTES];
    if (!mc_gguf_slot_name(f->arch, kind, slot, false, name, sizeof name)) return false;
    for (int i = 0; i < spec->n_layers; i++) {
        snprintf(whole, sizeof whole, "blk.%d.%s", i, name);
        if (mc_gguf_find(f->gguf, whole)) return true;
    }
    return false;
}

/* A form that names a slot which the block lacks and the file has. */
static void find_form(const source_file *f, const mc_decoder_spec *spec, mc_block_spec *block) {
    for (int i = 0; i < block->n_forms; i++)
        for (int k = 0; k < block->kind->n_slots; k++) {
            const char *name = block->forms[i].names[k];
            if (!name || !*name || strchr(name, '*') || block->names[k] ||
                !has_slot(f, spec, block->kind, k))
                continue;
            mc_family_use_form(&block->forms[i], block);
            return;
        }
}

static void find_forms(const mc_source *source, mc_decoder_spec *spec) {
    for (int i = 0; i < spec->n_blocks; i++)
        find_form(source->own, spec, &spec->blocks[i]);
}

static mica_status make_config(mc_source *source, source_file *f) {
    mc_buffer text = {0};
    mica_status status = mc_gguf_config(f->gguf, f->arch, &text);
    if (status == MICA_OK)
        status = mc_json_parse(text.data, text.len, "the config of a GGUF file", &f->config);
    mc_buffer_deinit(&text);
    MC_TRY(status);
    source->config = mc_json_root(f->config);
    status = mc_source_know(source);
    return status == MICA_OK ? MICA_OK
                             : mc_fail_context(status, "the metadata of %s", mc_gguf_path(f->gguf));
}

static mica_status open_file(mc_source *source, source_file *f, const char *path) {
    MC_TRY(mc_gguf_open(path, &f->gguf));
    MC_TRY(mc_gguf_arch_find(f->gguf, &f->arch));
    MC_TRY(make_config(source, f));
    f->room = MC_GGUF_PIECES * mc_gguf_count(f->gguf);
    source->parts = mc_arena_calloc(&source->arena, (f->room + 1) * sizeof *source->parts);
    f->origins = mc_arena_calloc(&source->arena, (f->room + 1) * sizeof *f->origins);
    if (!source->parts || !f->origins) return mc_fail_nomem("the tensors of a model");
    return add_parts(source, f);
}

mica_status mc_source_open_gguf(const char *path, const mica_cancel *cancel, mc_source *source) {
    *source = (mc_source){.load = load, .write_files = write_files, .find_forms = find_forms};
    source_file *f = mc_arena_calloc(&source->arena, sizeof *f);
    if (!f) return mc_fail_nomem(path);
    f->cancel = cancel;
    source->own = f;
    source->close = close_file;
    mica_status status = open_file(source, f, path);
    if (status != MICA_OK) mc_source_close(source);
    return status;
}
