/* A GGUF file as the target of a conversion. */
#include "convert/converting.h"
#include "io/arrays/arrays.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/filemap.h"
#include "base/map.h"
#include "convert/gguf_describe.h"
#include "convert/gguf_pack.h"
#include "io/gguf_write.h"
#include "model/family.h"
#include "model/load/load.h"
#include "model/packing.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256
#define DIVISORS "rope_freqs.weight"

typedef struct target {
    mc_converting *c;
    const mc_gguf_arch *arch;
    mc_decoder_spec *spec;
    mc_gguf_pairs pairs;
    mc_arena arena;
    mc_gguf_tensor *tensors; /* [count] */
    mc_spec_slot *slots;     /* [count] */
    size_t *parts;           /* [count] of each tensor; of experts, the first one's */
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

/* The name of an expert's part behind the decoder's prefix. */
static void name_expert(const mc_spec_slot *slot, int64_t expert, char name[NAME_BYTES]) {
    const char *text = slot->spec->names[slot->slot], *star = star_of(slot);
    snprintf(name, NAME_BYTES, "layers.%d.%.*s%lld%s.weight", slot->layer, (int)(star - text), text,
             (long long)expert, star + 1);
}

static int64_t count_experts(const mc_spec_slot *slot) {
    return star_of(slot) ? slot->spec->kind->slots[slot->slot].experts(slot->spec) : 0;
}

/* Makes the first expert's tensor that of all; true for those of the others, which are none. */
static bool join_experts(const mc_spec_slot *slot, const mc_part *part, mc_gguf_tensor *out) {
    char first[NAME_BYTES];
    int64_t n = count_experts(slot);
    if (!n) return false;
    name_expert(slot, 0, first);
    memmove(out->shape + 1, out->shape, (size_t)out->ndim * sizeof *out->shape);
    out->shape[0] = n;
    out->ndim++;
    return !mc_str_is(mc_decoder_name(mc_str_of(part->name)), first);
}

static mica_status name_tensor(target *t, size_t i) {
    char name[NAME_BYTES];
    const mc_part *part = &t->c->source.parts[i];
    if (!mc_gguf_name_of(t->spec, mc_decoder_name(mc_str_of(part->name)), name, sizeof name,
                         &t->slots[t->count]))
        return mc_fail(MICA_EUNSUPPORTED, "GGUF files of the architecture %s have no tensor %s",
                       t->arch->name, part->name);
    mc_gguf_tensor *out = &t->tensors[t->count];
    *out = (mc_gguf_tensor){.name = mc_arena_strndup(&t->arena, name, strlen(name)),
                            .ndim = part->ndim};
    memcpy(out->shape, part->shape, (size_t)part->ndim * sizeof *out->shape);
    if (!out->name || !mc_map_put(&t->by_name, mc_decoder_name(mc_str_of(part->name)), i))
        return no_memory();
    if (join_experts(&t->slots[t->count], part, out)) return MICA_OK;
    t->parts[t->count++] = i;
    return MICA_OK;
}

static mica_status list_tensors(target *t) {
    const mc_converting *c = t->c;
    size_t n = c->source.count;
    t->tensors = mc_arena_calloc(&t->arena, (n + 1) * sizeof *t->tensors);
    t->parts = mc_arena_calloc(&t->arena, (n + 1) * sizeof *t->parts);
    t->slots = mc_arena_calloc(&t->arena, (n + 1) * sizeof *t->slots);
    if (!t->tensors || !t->parts || !t->slots) return no_memory();
    for (size_t i = 0; i < n; i++)
        if (!c->plan.targets[i].left_out && !mc_lm_ignores(c->source.parts[i].name))
            MC_TRY(name_tensor(t, i));
    if (t->spec->ropes[0].kind != MC_ROPE_LLAMA3) return MICA_OK;
    t->tensors[t->count++] =
        (mc_gguf_tensor){.name = DIVISORS, .ndim = 1, .shape = {t->spec->head_dim / 2}};
    return MICA_OK;
}

/* ---- one tensor ---- */

/* Rows from the order of halves to that of paired rotations, in each head: see source_gguf.c. */
static mica_array pair_rows(mica_scope *s, mica_array x, int64_t heads) {
    int64_t shape[MICA_MAX_NDIM], ndim = mica_array_ndim(x);
    if (!mica_valid(x)) return x;
    memcpy(shape, mica_array_shape(x), (size_t)ndim * sizeof *shape);
    const int64_t split[] = {heads, 2, shape[0] / heads / 2};
    mica_array y = mica_swapaxes(s, mica_unflatten(s, x, 0, split, 3), 1, 2);
    return mica_reshape(s, y, shape, (int)ndim);
}

static mica_status add_bytes(void *writer, const void *data, size_t bytes) {
    return mc_gguf_writer_add(writer, data, bytes);
}

/* Vectors are f32, as llama.cpp wants them. Gemma's norms have 1 added. */
static mica_status write_dense(target *t, size_t k, mica_array x, mica_dtype dtype) {
    mica_scope *s = t->c->s;
    const mc_part *part = &t->c->source.parts[t->parts[k]];
    double offset = mc_gguf_norm_offset(t->spec, &t->slots[k], part->name);
    if (part->ndim < 2) dtype = MICA_F32;
    x = mica_astype(s, x, dtype);
    if (offset != 0) x = mica_add(s, x, mica_scalar(s, offset, dtype));
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
    uint64_t i = t->parts[k];
    if (!count_experts(&t->slots[k])) return (size_t)i;
    name_expert(&t->slots[k], expert, name);
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
    int64_t n = count_experts(&t->slots[k]);
    if (!n) return mc_make_value(t->c, t->parts[k], value);
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

static mica_status write_part(target *t, size_t k) {
    mc_converting *c = t->c;
    size_t i = t->parts[k];
    mc_part whole = c->source.parts[i], *part = &whole;
    const mc_target *plan = &c->plan.targets[i];
    int64_t heads = mc_gguf_paired_heads(t->arch, &t->slots[k]);
    mc_value value;
    whole.ndim = t->tensors[k].ndim;
    memcpy(whole.shape, t->tensors[k].shape, (size_t)whole.ndim * sizeof *whole.shape);
    MC_TRY(make_value(t, k, &value));
    if (heads) {
        value.weight = pair_rows(c->s, value.weight, heads);
        value.scales = pair_rows(c->s, value.scales, heads);
        value.biases = pair_rows(c->s, value.biases, heads);
        MC_TRY(mica_scope_status(c->s));
    }
    bool done = false;
    if (plan->quantised) {
        MC_TRY(write_quantised(t, part, plan->quant, &value, &done));
        if (done) return MICA_OK;
        value.weight = mc_dequantise_value(c->s, part, plan->quant, &value, plan->dtype);
        c->plan.result.dequantised++;
        c->plan.result.quantised--;
    }
    return write_dense(t, k, value.weight, plan->dtype);
}

static mica_status write_divisors(target *t) {
    size_t n = (size_t)t->spec->head_dim / 2;
    float *values = mc_arena_calloc(&t->arena, n * sizeof *values);
    if (!values) return no_memory();
    mc_gguf_rope_divisors(t->spec, values);
    MC_TRY(mc_gguf_writer_next(t->writer, dense_type(MICA_F32)));
    return mc_gguf_writer_add(t->writer, values, n * sizeof *values);
}

static mica_status write_tensors(target *t) {
    mc_converting *c = t->c;
    for (size_t k = 0; k < t->count; k++) {
        MC_TRY(mc_cancel_check(c->options->cancel));
        if (strcmp(t->tensors[k].name, DIVISORS) == 0) {
            MC_TRY(write_divisors(t));
            continue;
        }
        mica_status status = write_part(t, k);
        if (status != MICA_OK)
            return mc_fail_context(status, "tensor %s", c->source.parts[t->parts[k]].name);
        for (int64_t e = 0, n = count_experts(&t->slots[k]); e == 0 || e < n; e++)
            mc_end_part(c, part_of(t, k, e));
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
    MC_TRY(mc_gguf_arch_of(t->spec->family, &t->arch));
    MC_TRY(mc_source_check(&c->source, from));
    MC_TRY(list_tensors(t));
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->tensors[i].name, "token_embd.weight") == 0)
            t->spec->vocab = t->tensors[i].shape[0];
    MC_TRY(mc_gguf_describe(t->arch, t->spec, &t->pairs));
    MC_TRY(mc_gguf_describe_tokenizer(t->arch, &c->source, t->spec->vocab, &t->pairs));
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
    mc_map_deinit(&t.by_name);
    mc_arena_deinit(&t.arena);
    return status;
}
