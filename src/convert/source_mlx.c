/* A model folder as a source in mlx-lm's layout: experts in stacks of gate, up and down. */
#include "convert/source.h"

#include "base/alloc.h"
#include "base/map.h"
#include "graph/graph.h"
#include "model/family.h"
#include "model/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 512

/* A part of the new source, by what it is made of. */
typedef struct piece {
    size_t first;      /* part of the inner source */
    const size_t *all; /* [count] the parts that it stacks; NULL: it is made of the first alone */
    size_t count;
    int part, parts;  /* of rows in two halves: which one, 2; else 0, 1 */
    bool interleaved; /* the halves' rows take turns */
    bool bias;        /* its rows are the last axis */
    bool transposed;  /* [columns, rows] in the inner source; of heads, in mlx-lm's */
    int64_t heads;    /* not 0: it is cut into heads, of which it is `rows` from `start` on */
    int64_t start, rows;
    bool kernel;   /* [channels, 1, taps] becomes [channels, taps, 1] */
    double offset; /* is added */
} piece;

typedef struct layout {
    mc_source inner;
    mc_decoder_spec *spec; /* the inner one's, with mlx-lm's names */
    piece *pieces;         /* [parts] */
    mc_map parts;          /* index of the inner parts by name; while it is made */
    bool offsets;          /* norms and kernels change, too */
} layout;

/* ---- names ---- */

/* A part's name in the inner source, taken apart. */
typedef struct place {
    mc_spec_slot at;
    mc_str prefix; /* "model." */
    bool bias;     /* it ends with ".bias" or "_bias" */
} place;

static bool cut(mc_str *name, const char *ending) {
    if (!mc_str_ends(*name, mc_str_of(ending))) return false;
    name->len -= strlen(ending);
    return true;
}

static bool find_place(const mc_decoder_spec *spec, const char *text, place *p) {
    mc_str whole = mc_str_of(text), name = mc_decoder_name(whole);
    *p = (place){.prefix = {whole.ptr, whole.len - name.len}};
    if (cut(&name, ".weight")) return mc_spec_find(spec, name, &p->at);
    p->bias = cut(&name, ".bias") || cut(&name, "_bias");
    return mc_spec_find(spec, name, &p->at);
}

/* Puts a number in the place of a slot's star, if it has one. */
static const char *name_part(const layout *l, const place *p, const char *slot, int64_t number,
                             char text[NAME_BYTES]) {
    const char *star = strchr(slot, '*');
    int before = (int)(star ? (size_t)(star - slot) : strlen(slot));
    char digits[24] = "";
    if (star) snprintf(digits, sizeof digits, "%lld", (long long)number);
    int n = snprintf(text, NAME_BYTES, "%.*s%s.%d.%.*s%s%s%s", MC_STR_ARG(p->prefix),
                     mc_spec_layers(l->spec), p->at.layer, before, slot, digits,
                     star ? star + 1 : "", p->bias ? ".bias" : ".weight");
    return n < NAME_BYTES ? text : NULL;
}

/* ---- parts ---- */

static mica_status bad(const mc_part *part, const char *why) {
    return mc_fail(MICA_ESHAPE, "tensor %s: %s", part->name, why);
}

static mc_part *add_part(mc_source *out, layout *l, const piece *p) {
    mc_part *part = &out->parts[out->count];
    l->pieces[out->count++] = *p;
    *part = l->inner.parts[p->first];
    return part;
}

/* The slot whose rows two others have in mlx-lm's layout; false: it is none. */
static bool find_halves(const mc_spec_slot *at, int halves[2]) {
    const mc_slot *slot = &at->spec->kind->slots[at->slot];
    halves[0] = slot->first;
    halves[1] = slot->last;
    return slot->last && slot->last == slot->first + 1 && !slot->by_heads;
}

/* Adds what a piece is to be: `slot` names it. */
static mica_status add_named(mc_source *out, layout *l, const place *p, const char *slot,
                             const piece *made) {
    char text[NAME_BYTES];
    mc_part *part = add_part(out, l, made);
    const char *name = slot ? name_part(l, p, slot, 0, text) : NULL;
    if (!name) return bad(part, "mlx-lm has no name for it");
    part->name = mc_arena_strndup(&out->arena, name, strlen(name));
    if (!part->name) return mc_fail_nomem("the tensors of a model");
    int64_t *shape = part->shape;
    if (made->count) {
        memmove(shape + 1, shape, (size_t)part->ndim * sizeof *shape);
        shape[0] = (int64_t)made->count;
        part->ndim++;
        part->bytes *= made->count;
    }
    int last = part->ndim - 1;
    if (made->heads) {
        part->bytes = part->bytes / (uint64_t)shape[0] * (uint64_t)(made->heads * made->rows);
        memmove(shape + 1, shape, (size_t)part->ndim * sizeof *shape);
        shape[0] = made->heads;
        shape[1] = made->rows;
        last = part->ndim++;
    }
    if (made->transposed) {
        int64_t rows = shape[last];
        shape[last] = shape[last - 1];
        shape[last - 1] = rows;
    }
    if (made->parts == 2) {
        shape[made->bias ? last : last - 1] /= 2;
        part->bytes /= 2;
    }
    return MICA_OK;
}

/* Finds the tensors of all experts, of which the first one's is parts[i]. */
static mica_status find_all(mc_source *out, layout *l, const place *p, piece *made) {
    int64_t n = p->at.spec->experts.count;
    char text[NAME_BYTES];
    const mc_part *first = &l->inner.parts[made->first];
    size_t *all = mc_arena_calloc(&out->arena, (size_t)n * sizeof *all);
    if (!all) return mc_fail_nomem("the tensors of a model");
    if (first->ndim >= MICA_MAX_NDIM) return bad(first, "has too many axes");
    for (int64_t k = 0; k < n; k++) {
        uint64_t i;
        const char *name = name_part(l, p, p->at.spec->names[p->at.slot], k, text);
        if (!name || !mc_map_find(&l->parts, mc_str_of(name), &i))
            return mc_fail(MICA_ENOENT, "the model lacks %s", name ? name : first->name);
        const mc_part *part = &l->inner.parts[i];
        if (part->ndim != first->ndim || part->dtype != first->dtype ||
            memcmp(part->shape, first->shape, (size_t)part->ndim * sizeof *part->shape) != 0)
            return bad(part, "differs from that of the first expert");
        all[k] = (size_t)i;
    }
    made->all = all;
    made->count = (size_t)n;
    return MICA_OK;
}

/* Finds whether a tensor is that of the first of experts in tensors of their own: those of the
 * others go with it. */
static mica_status find_first(const layout *l, const place *p, const mc_part *part, bool *first) {
    char text[NAME_BYTES];
    const char *slot = p->at.spec->names[p->at.slot];
    size_t behind = strlen(strchr(slot, '*') + 1) + strlen(p->bias ? ".bias" : ".weight");
    uint64_t i;
    const char *name = name_part(l, p, slot, 0, text);
    if (!name || !mc_map_find(&l->parts, mc_str_of(name), &i))
        return mc_fail(MICA_ENOENT, "the first expert has no tensor like %s", part->name);
    *first = strcmp(name, part->name) == 0;
    int64_t number = strtoll(part->name + strlen(name) - behind - 1, NULL, 10);
    name = name_part(l, p, slot, number, text);
    if (name && number < p->at.spec->experts.count && strcmp(name, part->name) == 0) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "tensor %s is of no expert of the model", part->name);
}

/* Adds MLA's two matrices of each head. */
static mica_status add_heads(mc_source *out, layout *l, const place *p, size_t i) {
    const mc_mla_spec *m = &p->at.spec->mla;
    const mc_block_spec *to = &l->spec->blocks[p->at.spec - l->inner.spec->blocks];
    const mc_part *part = &l->inner.parts[i];
    piece made = {.first = i, .parts = 1, .transposed = true, .heads = m->attention.heads};
    if (part->ndim != 2 || part->shape[0] != made.heads * (m->plain + m->value_dim))
        return bad(part, "its rows are not those of all heads");
    made.rows = m->plain;
    MC_TRY(add_named(out, l, p, to->names[MC_MLA_K_UP], &made));
    made.transposed = false;
    made.start = m->plain;
    made.rows = m->value_dim;
    return add_named(out, l, p, to->names[MC_MLA_V_UP], &made);
}

static mica_status add_slot(mc_source *out, layout *l, const place *p, size_t i) {
    const mc_block_spec *from = p->at.spec, *to = &l->spec->blocks[from - l->inner.spec->blocks];
    const mc_part *part = &l->inner.parts[i];
    int halves[2];
    if (from->kind == &mc_block_mla) return add_heads(out, l, p, i);
    piece made = {.first = i,
                  .parts = 1,
                  .bias = p->bias,
                  .transposed = !p->bias && (from->transposed >> p->at.slot & 1)};
    if (strchr(from->names[p->at.slot], '*')) {
        bool first = false;
        MC_TRY(find_first(l, p, part, &first));
        if (!first) return MICA_OK;
        MC_TRY(find_all(out, l, p, &made));
    }
    if (part->ndim + (made.count != 0) < (p->bias ? 1 : 2)) return bad(part, "has too few axes");
    if (to->names[p->at.slot] || !find_halves(&p->at, halves))
        return add_named(out, l, p, to->names[p->at.slot], &made);
    int rows = part->ndim - (p->bias || made.transposed ? 1 : 2);
    if (part->shape[rows] % 2 != 0) return bad(part, "its rows are no two halves");
    made.parts = 2;
    made.interleaved = from->kind->slots[p->at.slot].experts && from->experts.interleaved;
    for (int k = 0; k < 2; k++) {
        made.part = k;
        MC_TRY(add_named(out, l, p, to->names[halves[k]], &made));
    }
    return MICA_OK;
}

/* ---- which ---- */

/* Whether a tensor is another in mlx-lm's layout. */
static bool changes(const layout *l, const place *p, const char *name) {
    const mc_block_spec *from = p->at.spec, *to = &l->spec->blocks[from - l->inner.spec->blocks];
    const int slot = p->at.slot;
    const char *a = from->names[slot], *b = to->names[slot];
    char text[NAME_BYTES];
    if (!a) return false;
    if (!b || strcmp(a, b) != 0 || (from->transposed >> slot & 1)) return true;
    if (!from->kind->slots[slot].experts) return false;
    const char *own = name_part(l, p, b, 0, text);
    return !own || strcmp(own, name) != 0;
}

/* Adds a part that keeps its name: norms and kernels change, where mlx-lm changes none itself. */
static void add_other(mc_source *out, layout *l, const place *p, bool found, size_t i) {
    piece made = {.first = i, .parts = 1};
    const mc_part *part = &l->inner.parts[i];
    const mc_slot *slot = found ? &p->at.spec->kind->slots[p->at.slot] : NULL;
    mc_str name = mc_decoder_name(mc_str_of(part->name));
    if (l->offsets && mc_lm_ignores(l->spec, part->name)) return;
    if (l->offsets && slot && slot->kind == MC_SLOT_NORM) made.offset = p->at.spec->norm_offset;
    if (l->offsets && !slot && cut(&name, ".weight") && mc_str_is(name, l->spec->names.norm))
        made.offset = l->spec->norm_offset;
    made.kernel = l->offsets && slot && slot->kind == MC_SLOT_KERNEL && part->ndim == 3;
    mc_part *own = add_part(out, l, &made);
    if (!made.kernel) return;
    own->shape[1] = part->shape[2];
    own->shape[2] = part->shape[1];
}

static mica_status add_parts(mc_source *out, layout *l) {
    for (size_t i = 0; i < l->inner.count; i++) {
        place p;
        bool found = find_place(l->inner.spec, l->inner.parts[i].name, &p);
        if (found && changes(l, &p, l->inner.parts[i].name))
            MC_TRY(add_slot(out, l, &p, i));
        else
            add_other(out, l, &p, found, i);
    }
    return MICA_OK;
}

/* ---- values ---- */

static mica_status load_stack(const layout *l, const piece *p, mica_scope *s, mc_value *value) {
    mica_array *all = mc_calloc(p->count, sizeof *all);
    mica_status status = all ? MICA_OK : mc_fail_nomem("the tensors of experts");
    for (size_t k = 0; k < p->count && status == MICA_OK; k++) {
        status = l->inner.load(&l->inner, p->all[k], s, value);
        all[k] = value->weight;
    }
    if (status == MICA_OK) value->weight = mica_stack(s, all, (int)p->count, 0);
    mc_free(all);
    return status;
}

/* [heads, rows, columns] */
static mica_array cut_heads(mica_scope *s, const piece *p, mica_array x) {
    if (!mica_valid(x)) return x;
    const int64_t split[] = {p->heads, mica_array_dim(x, 0) / p->heads};
    x = mica_unflatten(s, x, 0, split, 2);
    return mica_slice_axis(s, x, 1, p->start, p->start + p->rows);
}

/* The rows of one half. */
static mica_array halve(mica_scope *s, const piece *p, mica_array x) {
    int64_t start[MICA_MAX_NDIM] = {0}, stop[MICA_MAX_NDIM], step[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(x), axis = ndim - (p->bias ? 1 : 2);
    if (!mica_valid(x)) return x;
    int64_t n = mica_array_dim(x, axis) / 2;
    if (!p->interleaved) return mica_slice_axis(s, x, axis, p->part * n, (p->part + 1) * n);
    for (int i = 0; i < ndim; i++) {
        stop[i] = MICA_END_OF_AXIS;
        step[i] = i == axis ? 2 : 1;
    }
    start[axis] = p->part;
    return mica_slice(s, x, start, stop, step);
}

static mica_status load(const mc_source *source, size_t i, mica_scope *s, mc_value *value) {
    const layout *l = source->own;
    const piece *p = &l->pieces[i];
    MC_TRY(p->count ? load_stack(l, p, s, value) : l->inner.load(&l->inner, p->first, s, value));
    mica_array x = value->weight;
    if (p->heads) x = cut_heads(s, p, x);
    if (p->transposed) x = mica_swapaxes(s, x, -1, -2);
    if (p->parts == 2) x = halve(s, p, x);
    if (p->kernel) x = mica_swapaxes(s, x, -1, -2);
    if (p->heads || p->transposed || p->parts == 2 || p->kernel) x = mica_contiguous(s, x);
    if (p->offset != 0) x = mica_add(s, x, mica_scalar(s, p->offset, source->parts[i].dtype));
    value->weight = x;
    return mica_scope_status(s);
}

static mica_status write_files(const mc_source *source, const char *folder) {
    const layout *l = source->own;
    return l->inner.write_files(&l->inner, folder);
}

static void close_layout(mc_source *source) {
    layout *l = source->own;
    l->inner.close(&l->inner);
}

/* ---- the whole ---- */

/* Whether the first form of an MLP has gate and up apart, as mlx-lm's has. */
static bool is_apart(const mc_block_spec *b) {
    const char *joined = b->forms[0].names[MC_GATED_GATE_UP];
    return !joined || strcmp(joined, MC_NO_SLOT) == 0;
}

/* Gives blocks mlx-lm's names: those that experts have without a form, and the form of MLA, and of
 * an MLP beside experts, or one whose matrices are divided. true: these are others. */
static bool rename_blocks(mc_decoder_spec *spec, const mc_decoder_spec *plain) {
    bool sparse = false, renamed = false;
    for (int i = 0; i < spec->n_blocks; i++)
        sparse = sparse || spec->blocks[i].kind == &mc_block_experts;
    for (int i = 0; i < spec->n_blocks; i++) {
        mc_block_spec *b = &spec->blocks[i];
        if (!b->n_forms) continue;
        if (b->kind == &mc_block_experts) {
            const char *const *own = b->names, *const *names = plain->blocks[i].names;
            renamed = renamed || !own[MC_EXPERTS_GATE_UP] != !names[MC_EXPERTS_GATE_UP] ||
                      strcmp(own[MC_EXPERTS_DOWN], names[MC_EXPERTS_DOWN]) != 0;
            memcpy(b->names, plain->blocks[i].names, sizeof b->names);
            memset(b->usual, 0, sizeof b->usual);
            b->transposed = 0;
        } else if (b->kind == &mc_block_mla && b->names[MC_MLA_KV_UP]) {
            renamed = true;
            mc_family_use_form(&b->forms[0], b);
        } else if (b->kind == &mc_block_gated && is_apart(b) &&
                   (sparse || b->names[MC_GATED_GATE_UP])) {
            renamed = true;
            mc_family_use_form(&b->forms[0], b);
        }
    }
    return renamed;
}

/* Makes the spec in mlx-lm's layout. *other false: that is the source's. */
static mica_status find_spec(const mc_source *source, layout *l, mc_arena *arena, bool *other) {
    const mc_config_scope root = {.file = "config.json", .object = source->config};
    const mc_family *family;
    mc_decoder_spec *plain = mc_arena_calloc(arena, sizeof *plain);
    l->spec = mc_arena_alloc(arena, sizeof *l->spec);
    *other = false;
    if (!plain || !l->spec) return mc_fail_nomem("the config of a model");
    *l->spec = *source->spec;
    MC_TRY(mc_family_find(&root, source->weights, &family));
    plain->family = family->name;
    mc_family_look(source->weights, plain);
    MC_TRY(family->read(&root, plain));
    *other = plain->n_blocks == l->spec->n_blocks && rename_blocks(l->spec, plain);
    return MICA_OK;
}

static mica_status make(mc_source *out, layout *l) {
    /* Of one inner part there are two at most; one more is for a head of its own. */
    size_t room = 2 * l->inner.count + 1;
    out->count = 0;
    out->parts = mc_arena_calloc(&out->arena, room * sizeof *out->parts);
    l->pieces = mc_arena_calloc(&out->arena, room * sizeof *l->pieces);
    if (!out->parts || !l->pieces) return mc_fail_nomem("the tensors of a model");
    bool mapped = true;
    for (size_t i = 0; i < l->inner.count && mapped; i++)
        mapped = mc_map_put(&l->parts, mc_str_of(l->inner.parts[i].name), i);
    mica_status status = mapped ? add_parts(out, l) : mc_fail_nomem("the tensors of a model");
    mc_map_deinit(&l->parts);
    return status;
}

mica_status mc_source_as_mlx(mc_source *source) {
    bool other;
    for (size_t i = 0; i < source->count; i++)
        if (source->parts[i].quantised) return MICA_OK;
    if (!source->spec) return MICA_OK;
    layout *l = mc_arena_calloc(&source->arena, sizeof *l);
    if (!l) return mc_fail_nomem("the tensors of a model");
    MC_TRY(find_spec(source, l, &source->arena, &other));
    if (!other) return MICA_OK;
    l->inner = *source;
    /* mlx-lm changes the norms and kernels of this family only where it stacks the experts. */
    l->offsets = !strcmp(l->spec->family, "qwen3_next") && !l->spec->converted;
    source->own = l;
    source->spec = l->spec;
    source->load = load;
    source->write_files = write_files;
    source->close = close_layout;
    return make(source, l);
}
