/* A GGUF file as the target of a conversion. */
#include "convert/converting.h"
#include "io/arrays/arrays.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/filemap.h"
#include "base/map.h"
#include "convert/gguf_describe.h"
#include "convert/gguf_pack.h"
#include "convert/gguf_rows.h"
#include "convert/gguf_sentence.h"
#include "graph/graph.h"
#include "io/gguf_write.h"
#include "model/family.h"
#include "model/load/load.h"
#include "model/packing.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256

/* What a tensor of the file is made of. */
typedef struct origin {
    size_t part;            /* of experts in parts of their own, the first one's */
    const float *divisors;  /* not NULL: these are its values, and it has no part */
    const mc_linear *dense; /* not NULL: it has this matrix of a module, and no part */
    mc_spec_slot slot;      /* layer -1: outside the layers, */
    mc_gguf_top top;        /* where it is this */
    int own;               /* the slot whose rows it has: slot.slot, or one of that joined slot's */
    const mc_slot *joined; /* the joined slot, where it is divided; else NULL */
    bool bias;
} origin;

typedef struct target {
    mc_converting *c;
    const mc_gguf_arch *arch;
    mc_decoder_spec *spec;
    mc_gguf_pairs pairs;
    mc_arena arena;
    mc_gguf_tensor *tensors; /* [count] */
    origin *origins;         /* [count] */
    mc_lm *behind;           /* what stands behind an embedder */
    mc_map by_name;          /* indices of parts, by their names behind the decoder's prefix */
    size_t count;
    mc_gguf_writer *writer;
} target;

static mica_status no_memory(void) {
    return mc_fail_nomem("the tensors of a GGUF file");
}

static const mc_ggml_type *dense_type(mica_dtype dtype) {
    const char *name = dtype == MICA_F32 ? "F32" : dtype == MICA_F16 ? "F16" : "BF16";
    for (size_t i = 0; mc_ggml_type_at(i); i++)
        if (strcmp(mc_ggml_type_at(i)->name, name) == 0) return mc_ggml_type_at(i);
    return NULL;
}

/* ---- the list of tensors ---- */

/* Where the number of an expert is in the name of a slot; NULL: experts are one tensor, or there
 * are none. */
static const char *star_of(const mc_spec_slot *slot) {
    return slot->layer < 0 ? NULL : strchr(slot->spec->names[slot->slot], '*');
}

/* The name of a part of a stack behind the decoder's prefix. */
static void name_stacked(const target *t, const origin *o, int64_t i, char name[NAME_BYTES]) {
    const char *star = star_of(&o->slot);
    if (!star) {
        snprintf(name, NAME_BYTES, "%s.%lld%s", o->top.module, (long long)i, o->top.ending);
        return;
    }
    const char *text = o->slot.spec->names[o->slot.slot];
    snprintf(name, NAME_BYTES, "%s.%d.%.*s%lld%s.%s", mc_spec_layers(t->spec), o->slot.layer,
             (int)(star - text), text, (long long)i, star + 1, o->bias ? "bias" : "weight");
}

/* The number of parts of a stack: of experts, or of matrices outside the layers; 0: it is none. */
static int64_t count_stacked(const origin *o) {
    if (o->slot.layer < 0) return o->top.stacked;
    return star_of(&o->slot) ? o->slot.spec->kind->slots[o->slot.slot].experts(o->slot.spec) : 0;
}

/* Which slot, or its bias, a part is. */
static bool find_slot(const mc_decoder_spec *spec, mc_str name, origin *o) {
    static const char *const endings[] = {"", ".weight", ".bias", "_bias"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const mc_str ending = mc_str_of(endings[i]);
        if (!mc_str_ends(name, ending)) continue;
        o->bias = i >= 2;
        if (mc_spec_find(spec, (mc_str){name.ptr, name.len - ending.len}, &o->slot)) return true;
    }
    return false;
}

/* Whether a part outside the layers is this one, or one of its stack. */
static bool is_top(const mc_gguf_top *top, mc_str name) {
    const mc_str ending = mc_str_of(top->ending), module = mc_str_of(top->module);
    if (!mc_str_ends(name, ending)) return false;
    name.len -= ending.len;
    if (!top->stacked) return mc_str_eq(name, module);
    return name.len > module.len + 1 && mc_str_starts(name, module) && name.ptr[module.len] == '.';
}

/* What a part outside the layers is; false: it is none of them. */
static bool find_top(const target *t, mc_str name, mc_gguf_top *top) {
    for (size_t i = 0; mc_gguf_next_top(t->arch, t->spec, &i, top);)
        if (is_top(top, name)) return true;
    *top = (mc_gguf_top){0};
    return false;
}

/* Adds a tensor with a name. */
static mica_status add_tensor(target *t, const origin *o, const char *name, int ndim,
                              const int64_t *shape) {
    mc_gguf_tensor *out = &t->tensors[t->count];
    *out = (mc_gguf_tensor){.name = mc_arena_strndup(&t->arena, name, strlen(name)), .ndim = ndim};
    if (!out->name) return no_memory();
    memcpy(out->shape, shape, (size_t)ndim * sizeof *shape);
    t->origins[t->count++] = *o;
    return MICA_OK;
}

static mica_status no_tensor(const target *t, const mc_part *part) {
    return mc_fail(MICA_EUNSUPPORTED, "GGUF files of the architecture %s have no tensor %s",
                   t->arch->name, part->name);
}

static mica_status add_slot(target *t, const mc_part *part, const origin *o) {
    char slot[96], name[NAME_BYTES];
    int64_t shape[MICA_MAX_NDIM];
    if (!mc_gguf_slot_name(t->arch, o->slot.spec->kind, o->own, o->bias, slot, sizeof slot))
        return no_tensor(t, part);
    snprintf(name, sizeof name, "blk.%d.%s", o->slot.layer, slot);
    int ndim = mc_gguf_shape(o->slot.spec, o->own, o->bias, shape);
    return add_tensor(t, o, name, ndim, shape);
}

static mica_status add_top(target *t, const mc_part *part, mc_str name, const origin *o) {
    char text[NAME_BYTES];
    int64_t shape[MICA_MAX_NDIM], n = count_stacked(o);
    int outer = n ? 1 : 0;
    memcpy(shape + outer, part->shape, (size_t)part->ndim * sizeof *shape);
    if (n) {
        name_stacked(t, o, 0, text);
        if (!mc_str_is(name, text)) return MICA_OK;
        shape[0] = n;
    }
    shape[0] -= o->top.skipped;
    if (o->top.rows) shape[0] = o->top.rows;
    snprintf(text, sizeof text, "%s%s", o->top.gguf, o->top.ending);
    return add_tensor(t, o, text, part->ndim + outer, shape);
}

/* What a layer that shares keys and values would read, had it its own. */
static bool find_spare(const target *t, mc_str name, origin *o) {
    mc_decoder_spec *spec = t->spec;
    mc_str rest;
    int layer = mc_spec_layer(spec, name, &rest);
    if (!t->arch->spares || layer < 0 || layer >= spec->n_layers) return false;
    uint8_t source = spec->layers[layer].source;
    const mc_layer_spec own = spec->layers[layer];
    if (!source) return false;
    spec->layers[layer] = spec->layers[mc_spec_source(spec, layer)];
    bool found = find_slot(spec, name, o);
    spec->layers[layer] = own;
    return found;
}

/* Adds the tensors of a part: of a joined slot one for each whose rows it has, unless the
 * architecture joins them, too. */
static mica_status add_part(target *t, size_t i) {
    char text[NAME_BYTES];
    const mc_part *part = &t->c->source.parts[i];
    mc_str name = mc_decoder_name(mc_str_of(part->name));
    origin o = {.part = i, .slot = {.layer = -1}};
    if (!mc_map_put(&t->by_name, name, i)) return no_memory();
    if (find_top(t, name, &o.top)) return add_top(t, part, name, &o);
    if (!find_slot(t->spec, name, &o) && !find_spare(t, name, &o)) return no_tensor(t, part);
    o.own = o.slot.slot;
    if (count_stacked(&o)) {
        name_stacked(t, &o, 0, text);
        return mc_str_is(name, text) ? add_slot(t, part, &o) : MICA_OK;
    }
    const mc_slot *slot = &o.slot.spec->kind->slots[o.own];
    if (t->arch->joined || !slot->last) return add_slot(t, part, &o);
    o.joined = slot;
    for (o.own = slot->first; o.own <= slot->last; o.own++)
        MC_TRY(add_slot(t, part, &o));
    return MICA_OK;
}

/* Whether a part is none of the decoder, or nothing reads it. */
static bool is_left_alone(const target *t, const mc_part *part) {
    if (mc_source_ranks(&t->c->source, part)) return false;
    return mc_lm_ignores(t->spec, part->name) ||
           (!t->arch->spares && mc_lm_spares(t->spec, part->name));
}

/* The matrices of modules behind the model. */
static mica_status list_dense(target *t) {
    static const char *const names[MC_GGUF_DENSE] = {MC_GGUF_DENSE_2, MC_GGUF_DENSE_3};
    for (size_t i = 0; i < mc_gguf_count_dense(t->behind); i++) {
        const mc_linear *dense = &t->behind->sentence->dense[i].linear;
        const origin o = {.dense = dense, .slot = {.layer = -1}};
        const int64_t shape[] = {dense->out, dense->in};
        MC_TRY(add_tensor(t, &o, names[i], 2, shape));
    }
    return MICA_OK;
}

static mica_status list_tensors(target *t) {
    const mc_converting *c = t->c;
    mc_gguf_divisors divisors[MC_GGUF_DIVISORS];
    size_t n = c->source.count, count;
    MC_TRY(mc_gguf_find_divisors(t->arch, t->spec, &t->arena, divisors, &count));
    n = n * MC_GGUF_PIECES + count + MC_GGUF_DENSE;
    t->tensors = mc_arena_calloc(&t->arena, n * sizeof *t->tensors);
    t->origins = mc_arena_calloc(&t->arena, n * sizeof *t->origins);
    if (!t->tensors || !t->origins) return no_memory();
    for (size_t i = 0; i < c->source.count; i++)
        if (!c->plan.targets[i].left_out && !is_left_alone(t, &c->source.parts[i]))
            MC_TRY(add_part(t, i));
    for (size_t i = 0; i < count; i++) {
        const origin o = {.divisors = divisors[i].values, .slot = {.layer = -1}};
        MC_TRY(add_tensor(t, &o, divisors[i].name, 1, &divisors[i].n));
    }
    return list_dense(t);
}

/* ---- one tensor ---- */

static mica_status add_bytes(void *writer, const void *data, size_t bytes) {
    return mc_gguf_writer_add(writer, data, bytes);
}

/* An array of places, of which `places` are copied. */
static mica_array list_places(mica_scope *s, const int32_t *places, int64_t n) {
    int32_t *own = mc_array_alloc((size_t)n, sizeof *own);
    if (!own) return mc_scope_fail(s, MICA_ENOMEM, "the rows of a tensor");
    memcpy(own, places, (size_t)n * sizeof *own);
    return mc_leaf_memory(s, own, MICA_I32, &n, 1, mc_free, own);
}

/* Takes the rows of a tensor out of its slot's. */
static mica_status take_rows(target *t, const origin *o, mc_value *value) {
    mica_scope *s = t->c->s;
    const mc_block_spec *block = o->slot.spec;
    int axis = block->kind->slots[o->slot.slot].experts ? 1 : 0;
    int64_t n = mc_gguf_rows(block, o->own);
    int32_t *places = mc_array_alloc((size_t)n, sizeof *places);
    if (!places) return no_memory();
    if (mc_gguf_row_places(t->arch, block, o->own, o->joined, places)) {
        mica_array at = list_places(s, places, n);
        value->weight = mica_take(s, value->weight, at, axis);
        if (mica_valid(value->scales)) value->scales = mica_take(s, value->scales, at, axis);
        if (mica_valid(value->biases)) value->biases = mica_take(s, value->biases, at, axis);
    }
    mc_free(places);
    return mica_scope_status(s);
}

/* Changes the places of runs of columns, of x [rows, n * run]. */
static mica_array take_runs(mica_scope *s, mica_array x, mica_array at, int64_t n) {
    if (!mica_valid(x)) return x;
    int64_t shape[] = {mica_array_dim(x, 0), mica_array_dim(x, 1)};
    const int64_t split[] = {n, shape[1] / n};
    return mica_reshape(s, mica_take(s, mica_unflatten(s, x, 1, split, 2), at, 1), shape, 2);
}

/* The same for a value whose quantised groups are whole within runs. */
static mica_status take_columns(target *t, const origin *o, int64_t run, mc_value *value) {
    mica_scope *s = t->c->s;
    int64_t n = o->slot.spec->kind->slots[o->own].columns(o->slot.spec) / run;
    int32_t *places = mc_array_alloc((size_t)n, sizeof *places);
    if (!places) return no_memory();
    mc_gguf_column_places(t->arch, o->slot.spec, o->own, &run, places);
    mica_array at = list_places(s, places, n);
    mc_free(places);
    value->weight = take_runs(s, value->weight, at, n);
    value->scales = take_runs(s, value->scales, at, n);
    value->biases = take_runs(s, value->biases, at, n);
    return mica_scope_status(s);
}

/* What llama.cpp multiplies may be of 16 bits; the rest is f32. */
static bool is_wide(const target *t, size_t k) {
    const origin *o = &t->origins[k];
    if (o->bias || t->tensors[k].ndim < 2) return true;
    if (o->slot.layer < 0) return o->top.wide;
    const mc_slot *slot = &o->slot.spec->kind->slots[o->own];
    return slot->kind != MC_SLOT_MATRIX || slot->exact;
}

/* What is added to the values of a norm: Gemma's 1. */
static double offset_of(const target *t, const origin *o) {
    if (o->slot.layer < 0) return o->top.norm ? t->spec->norm_offset : 0;
    bool norm = o->slot.spec->kind->slots[o->own].kind == MC_SLOT_NORM && !o->bias;
    return norm ? o->slot.spec->norm_offset : 0;
}

static mica_status write_dense(target *t, size_t k, mica_array x, mica_dtype dtype) {
    mica_scope *s = t->c->s;
    const origin *o = &t->origins[k];
    double offset = offset_of(t, o);
    if (is_wide(t, k)) dtype = MICA_F32;
    x = mica_astype(s, x, dtype);
    if (offset != 0) x = mica_add(s, x, mica_scalar(s, offset, dtype));
    if (o->slot.layer >= 0 && mc_gguf_change_of(o->slot.spec, o->own) == MC_GGUF_DECAY)
        x = mica_negative(s, mica_exp(s, x));
    x = mica_reshape(s, x, t->tensors[k].shape, t->tensors[k].ndim);
    MC_TRY(mica_eval(s, x));
    MC_TRY(mc_gguf_writer_next(t->writer, dense_type(dtype)));
    return mc_array_bytes(x, add_bytes, t->writer);
}

static mica_status write_rows(target *t, const mc_packed *x, const mc_ggml_type *type) {
    size_t bytes = (size_t)x->columns / type->block * type->bytes;
    uint8_t *row = mc_alloc(bytes);
    mica_status status = row ? mc_gguf_writer_next(t->writer, type) : no_memory();
    for (int64_t i = 0; status == MICA_OK && i < x->rows; i++) {
        mc_gguf_pack_row(x, type, i, row);
        status = mc_gguf_writer_add(t->writer, row, bytes);
    }
    mc_free(row);
    return status;
}

/* An array's data in row-major order, evaluated. */
static mica_status host(mica_scope *s, mica_array x, const void **data) {
    *data = NULL;
    if (!mica_valid(x)) return MICA_OK;
    x = mica_contiguous(s, x);
    MC_TRY(mica_eval(s, x));
    return mica_array_host(x, data);
}

/* Writes a quantised value as blocks, if there are some that hold it exactly. */
static mica_status write_quantised(target *t, const mc_part *part, mica_quant quant,
                                   const mc_value *value, bool *done) {
    mica_scope *s = t->c->s;
    const void *codes, *scales, *biases;
    *done = false;
    MC_TRY(host(s, value->weight, &codes));
    MC_TRY(host(s, value->scales, &scales));
    MC_TRY(host(s, value->biases, &biases));
    const mc_packed x = {.quant = quant,
                         .dtype = mica_array_dtype(value->scales),
                         .rows = part->shape[0] * (part->ndim == 3 ? part->shape[1] : 1),
                         .columns = part->shape[part->ndim - 1],
                         .codes = codes,
                         .scales = scales,
                         .biases = biases};
    const mc_ggml_type *type = part->ndim >= 2 ? mc_gguf_pack_type(&x) : NULL;
    if (!type) return MICA_OK;
    *done = true;
    return write_rows(t, &x, type);
}

/* The part of a tensor's expert. */
static size_t part_of(const target *t, size_t k, int64_t expert) {
    char name[NAME_BYTES];
    uint64_t i = t->origins[k].part;
    if (!count_stacked(&t->origins[k])) return (size_t)i;
    name_stacked(t, &t->origins[k], expert, name);
    mc_map_find(&t->by_name, mc_str_of(name), &i); /* mc_source_check has seen it */
    return (size_t)i;
}

enum { WEIGHT, SCALES, BIASES, VALUES };

static mica_array stack(mica_scope *s, const mica_array *all, int64_t n) {
    return mica_valid(all[0]) ? mica_stack(s, all, (int)n, 0) : MICA_NONE;
}

/* The value of a tensor: of all experts, if each is a part. */
static mica_status make_value(target *t, size_t k, mc_value *value) {
    mica_scope *s = t->c->s;
    int64_t n = count_stacked(&t->origins[k]);
    if (!n) return mc_make_value(t->c, t->origins[k].part, value);
    mica_array *all = mc_array_alloc((size_t)(VALUES * n), sizeof *all);
    mica_status status = all ? MICA_OK : no_memory();
    for (int64_t e = 0; e < n && status == MICA_OK; e++) {
        status = mc_make_value(t->c, part_of(t, k, e), value);
        all[WEIGHT * n + e] = value->weight;
        all[SCALES * n + e] = value->scales;
        all[BIASES * n + e] = value->biases;
    }
    if (status == MICA_OK)
        *value = (mc_value){stack(s, all, n), stack(s, all + SCALES * n, n),
                            stack(s, all + BIASES * n, n)};
    mc_free(all);
    return status == MICA_OK ? mica_scope_status(s) : status;
}

/* The values of quantised weights, rounded once: not at all where the tensor is f32. */
static mica_array dequantise(target *t, size_t k, const mc_target *plan, const mc_value *value) {
    return mica_dequantize(t->c->s, value->weight, value->scales, value->biases, plan->quant,
                           is_wide(t, k) ? MICA_F32 : plan->dtype);
}

/* Of MLA, what a head's plain queries meet is transposed. */
static mica_status turn_keys(target *t, size_t k, const mc_target *plan, bool *quantised,
                             mc_value *value) {
    mica_scope *s = t->c->s;
    const origin *o = &t->origins[k];
    const mc_mla_spec *m = &o->slot.spec->mla;
    const int64_t split[] = {m->attention.heads, m->plain, m->attention.latent};
    mica_array x = *quantised ? dequantise(t, k, plan, value) : value->weight;
    *quantised = false;
    *value = (mc_value){mica_swapaxes(s, mica_reshape(s, x, split, 3), 1, 2), MICA_NONE, MICA_NONE};
    return mica_scope_status(s);
}

/* Rows of a table outside the layers: some are skipped, or the first one stands for more. */
static mica_status take_top_rows(target *t, size_t k, const mc_target *plan, bool *quantised,
                                 mc_value *value) {
    mica_scope *s = t->c->s;
    const origin *o = &t->origins[k];
    const mc_part *part = &t->c->source.parts[o->part];
    if (*quantised && o->top.wide) {
        *value = (mc_value){dequantise(t, k, plan, value), MICA_NONE, MICA_NONE};
        *quantised = false;
    }
    if (!o->top.skipped && !o->top.rows) return mica_scope_status(s);
    int64_t n = t->tensors[k].shape[0], own = part->shape[0];
    int32_t *rows = mc_array_alloc((size_t)n, sizeof *rows);
    if (!rows) return no_memory();
    for (int64_t i = 0; i < n; i++)
        rows[i] = (int32_t)(i + o->top.skipped < own ? i + o->top.skipped : 0);
    mica_array at = mc_leaf_memory(s, rows, MICA_I32, &n, 1, mc_free, rows);
    value->weight = mica_take(s, value->weight, at, 0);
    if (mica_valid(value->scales)) value->scales = mica_take(s, value->scales, at, 0);
    if (mica_valid(value->biases)) value->biases = mica_take(s, value->biases, at, 0);
    return mica_scope_status(s);
}

/* Brings a value's rows and columns into GGUF's order. *quantised becomes false if it must be
 * dequantised for that. */
static mica_status arrange(target *t, size_t k, const mc_target *plan, bool *quantised,
                           mc_value *value) {
    mica_scope *s = t->c->s;
    const origin *o = &t->origins[k];
    int64_t run;
    if (o->slot.layer < 0) return take_top_rows(t, k, plan, quantised, value);
    if (o->slot.spec->transposed >> o->slot.slot & 1 && !o->bias)
        value->weight = mica_swapaxes(s, value->weight, -1, -2);
    MC_TRY(take_rows(t, o, value));
    if (o->joined && o->slot.spec->kind == &mc_block_mla && o->own == MC_MLA_K_UP)
        return turn_keys(t, k, plan, quantised, value);
    mc_gguf_column_places(t->arch, o->slot.spec, o->own, &run, NULL);
    if (!run || o->bias) return MICA_OK;
    if (*quantised && run % plan->quant.group_size != 0) {
        *value = (mc_value){dequantise(t, k, plan, value), MICA_NONE, MICA_NONE};
        *quantised = false;
    }
    return take_columns(t, o, run, value);
}

static mica_status write_part(target *t, size_t k) {
    mc_converting *c = t->c;
    const origin *o = &t->origins[k];
    mc_part whole = c->source.parts[o->part];
    const mc_target *plan = &c->plan.targets[o->part];
    mc_value value;
    bool quantised = plan->quantised, done = false;
    MC_TRY(make_value(t, k, &value));
    MC_TRY(arrange(t, k, plan, &quantised, &value));
    whole.ndim = t->tensors[k].ndim;
    memcpy(whole.shape, t->tensors[k].shape, (size_t)whole.ndim * sizeof *whole.shape);
    if (quantised) {
        MC_TRY(write_quantised(t, &whole, plan->quant, &value, &done));
        if (done) return MICA_OK;
        value.weight = dequantise(t, k, plan, &value);
    }
    if (plan->quantised && (!o->joined || o->own == o->joined->first)) {
        c->plan.result.dequantised++;
        c->plan.result.quantised--;
    }
    return write_dense(t, k, value.weight, plan->dtype);
}

static mica_status write_divisors(target *t, size_t k) {
    MC_TRY(mc_gguf_writer_next(t->writer, dense_type(MICA_F32)));
    return mc_gguf_writer_add(t->writer, t->origins[k].divisors,
                              (size_t)t->tensors[k].shape[0] * sizeof(float));
}

static mica_status write_matrix(target *t, size_t k) {
    mica_scope *s = t->behind->scope;
    mica_array x = mica_astype(s, t->origins[k].dense->weight, MICA_F32);
    MC_TRY(mica_eval(s, x));
    MC_TRY(mc_gguf_writer_next(t->writer, dense_type(MICA_F32)));
    return mc_array_bytes(x, add_bytes, t->writer);
}

/* Ends the work on a tensor, and on its parts, if no other tensor has them. */
static void end_tensor(target *t, size_t k) {
    const origin *o = &t->origins[k];
    if (o->joined && o->own < o->joined->last) {
        mc_scope_reset(t->c->s);
        return;
    }
    for (int64_t e = 0, n = count_stacked(o); e == 0 || e < n; e++)
        mc_end_part(t->c, part_of(t, k, e));
}

static mica_status write_tensors(target *t) {
    mc_converting *c = t->c;
    for (size_t k = 0; k < t->count; k++) {
        MC_TRY(mc_cancel_check(c->options->cancel));
        if (t->origins[k].divisors || t->origins[k].dense) {
            MC_TRY((t->origins[k].dense ? write_matrix : write_divisors)(t, k));
            continue;
        }
        mica_status status = write_part(t, k);
        if (status != MICA_OK)
            return mc_fail_context(status, "tensor %s", c->source.parts[t->origins[k].part].name);
        end_tensor(t, k);
    }
    return MICA_OK;
}

/* ---- the whole ---- */

mica_status mc_gguf_check_target(const mc_converting *c, const char *from, const char *to) {
    mc_path_info there;
    if (mc_path_stat(to, &there))
        return mc_fail(MICA_EINVAL, "%s exists: name a new file, or remove this one", to);
    if (!c->source.folder)
        return mc_fail(MICA_EINVAL,
                       "%s is a GGUF file: convert it to a folder first, then that to %s", from,
                       to);
    if (!c->options->calibration) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "%s: a calibration chooses among bits of which GGUF has no blocks: name a "
                   "folder, or a number of bits",
                   to);
}

/* What is asked for must be there in GGUF; what a model has may also be dequantised. */
static mica_status check_quant(const mica_quant *quant) {
    if (mc_gguf_packs(quant)) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "GGUF has no blocks that hold %s of %d bits in groups of %d as MLX has them; it "
                   "has some for affine of 2, 3, 4 and 5 bits, and for mxfp4",
                   mc_packing_mode_name(quant->mode), quant->bits, quant->group_size);
}

static mica_status check_request(const mc_converting *c) {
    if (!c->options->quantise) return MICA_OK;
    MC_TRY(check_quant(&c->plan.common));
    for (size_t i = 0; i < c->source.count; i++)
        if (c->plan.targets[i].quantised) MC_TRY(check_quant(&c->plan.targets[i].quant));
    return MICA_OK;
}

static mica_status open_target(target *t, const char *from, const char *to) {
    const mc_converting *c = t->c;
    MC_TRY(check_request(c));
    t->spec = mc_arena_alloc(&t->arena, sizeof *t->spec);
    if (!t->spec) return no_memory();
    MC_TRY(mc_source_spec(&c->source, t->spec));
    MC_TRY(mc_gguf_arch_of(t->spec, &t->arch));
    MC_TRY(mc_source_check(&c->source, from));
    MC_TRY(mc_gguf_open_sentence(&c->source, t->spec, c->device, &t->behind));
    MC_TRY(mc_gguf_describe_sentence(&c->source, t->arch, t->behind, &t->pairs));
    MC_TRY(list_tensors(t));
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->tensors[i].name, MC_GGUF_EMBED) == 0) t->spec->vocab = t->tensors[i].shape[0];
    MC_TRY(mc_gguf_describe(t->arch, t->spec, &t->pairs));
    MC_TRY(mc_gguf_describe_tokenizer(&c->source, t->spec->vocab, &t->pairs));
    return mc_gguf_writer_open(to, &t->pairs, t->tensors, t->count, &t->writer);
}

mica_status mc_write_gguf(mc_converting *c, const char *from, const char *to) {
    target t = {.c = c};
    mica_status status = open_target(&t, from, to);
    if (status == MICA_OK) status = write_tensors(&t);
    if (status == MICA_OK) status = mc_cancel_check(c->options->cancel);
    if (status == MICA_OK) {
        c->plan.result.bytes = mc_gguf_writer_bytes(t.writer);
        if (c->plan.result.parameters)
            c->plan.result.bits =
                8 * (double)c->plan.result.bytes / (double)c->plan.result.parameters;
    }
    status = mc_gguf_writer_close(&t.writer, status);
    mc_gguf_pairs_deinit(&t.pairs);
    mc_lm_close(&t.behind);
    mc_map_deinit(&t.by_name);
    mc_arena_deinit(&t.arena);
    return status;
}
