#include "convert/source.h"

#include "base/map.h"
#include "base/names.h"
#include "model/family.h"
#include "model/load/load.h"
#include "model/sentence.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256

void mc_source_close(mc_source *source) {
    if (source->close) source->close(source);
    mc_arena_deinit(&source->arena);
    *source = (mc_source){0};
}

mica_status mc_source_spec(const mc_source *source, mc_decoder_spec *spec) {
    const mc_config_scope root = {.file = "config.json", .object = source->config};
    *spec = (mc_decoder_spec){0};
    MC_TRY(mc_family_read(&root, source->weights, spec));
    if (source->find_forms) source->find_forms(source, spec);
    if (source->own_head) spec->tied = MC_TIED_NO;
    return MICA_OK;
}

bool mc_source_is_matrix(const mc_source *source, const mc_part *part) {
    const mc_str ending = MC_STR(".weight");
    mc_str name = mc_decoder_name(mc_str_of(part->name));
    mc_spec_slot at;
    if (!mica_dtype_is_float(part->dtype) || mc_lm_ignores(source->spec, part->name)) return false;
    bool bare = !mc_str_ends(name, ending);
    if (!bare) name.len -= ending.len;
    if (!source->spec || !mc_spec_find(source->spec, name, &at)) return !bare && part->ndim == 2;
    const mc_slot *slot = &at.spec->kind->slots[at.slot];
    return slot->kind == MC_SLOT_MATRIX && !slot->exact && !(at.spec->transposed >> at.slot & 1) &&
           (part->ndim == 2 || (part->ndim == 3 && slot->experts));
}

mica_status mc_source_know(mc_source *source) {
    source->spec = mc_arena_alloc(&source->arena, sizeof *source->spec);
    if (!source->spec) return mc_fail_nomem("the config of a model");
    mica_status status = mc_source_spec(source, source->spec);
    if (status != MICA_OK) source->spec = NULL;
    return status;
}

/* A part by its name behind the prefix of the decoder; NULL: there is none. */
static const mc_part *find_part(const mc_source *source, const char *name) {
    for (size_t i = 0; i < source->count; i++)
        if (mc_str_is(mc_decoder_name(mc_str_of(source->parts[i].name)), name))
            return &source->parts[i];
    return NULL;
}

static const char *end_name(const mc_source *source, mc_end end) {
    const mc_decoder_names *names = mc_family_names(source->spec);
    return end == MC_END_EMBED ? names->embed : names->head;
}

mc_end mc_source_end(const mc_source *source, const char *name) {
    mc_str own = mc_decoder_name(mc_str_of(name));
    mc_end end = MC_END_EMBED;
    for (; end < MC_END_NONE; end++) {
        mc_str module = mc_str_of(end_name(source, end));
        if (mc_str_starts(own, module) && (own.len == module.len || own.ptr[module.len] == '.'))
            break;
    }
    return end;
}

const mc_part *mc_source_find_end(const mc_source *source, mc_end end) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.weight", end_name(source, end));
    return find_part(source, name);
}

mica_status mc_source_untie(mc_source *source) {
    static const mc_str outer = {"language_model.model.", 21};
    const mc_part *embed = mc_source_find_end(source, MC_END_EMBED);
    if (!embed) return mc_fail(MICA_ENOENT, "the model has no embedding");
    bool inner = mc_str_starts(mc_str_of(embed->name), outer);
    char name[NAME_BYTES];
    int n = snprintf(name, sizeof name, "%s%s.weight", inner ? "language_model." : "",
                     end_name(source, MC_END_HEAD));
    char *own = mc_arena_strndup(&source->arena, name, (size_t)n);
    if (!own) return mc_fail_nomem("the head of a model");
    mc_part *head = &source->parts[source->count++]; /* sources leave room for it */
    *head = *embed;
    head->name = own;
    head->copy_of = (size_t)(embed - source->parts) + 1;
    source->own_head = true;
    return MICA_OK;
}

/* ---- the head of a cross-encoder ---- */

static const mc_part *find_module(const mc_source *source, const char *module) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.weight", module);
    return find_part(source, name);
}

/* NULL: the model has none. */
static const mc_ranker_names *find_ranker(const mc_source *source) {
    const mc_ranker_names *names;
    for (size_t i = 0; source->spec->both_ways && (names = mc_ranker_names_at(i)); i++)
        if (find_module(source, names->out) && (names->outs || find_module(source, names->dense)))
            return names;
    return NULL;
}

const mc_part *mc_source_ranker(const mc_source *source) {
    const mc_ranker_names *names = source->spec ? find_ranker(source) : NULL;
    return names ? find_module(source, names->out) : NULL;
}

bool mc_source_ranks(const mc_source *source, const mc_part *part) {
    static const char *const endings[] = {".weight", ".bias"};
    const mc_ranker_names *names = source->spec ? find_ranker(source) : NULL;
    if (!names) return false;
    const char *modules[] = {names->dense, names->norm, names->out};
    mc_str name = mc_decoder_name(mc_str_of(part->name));
    for (size_t i = 0; i < 6; i++) {
        const mc_str ending = mc_str_of(endings[i % 2]);
        if (!modules[i / 2] || !mc_str_ends(name, ending)) continue;
        if (mc_str_is((mc_str){name.ptr, name.len - ending.len}, modules[i / 2])) return true;
    }
    return false;
}

/* ---- all tensors ---- */

typedef struct check {
    const mc_source *source;
    const char *path;
    const mc_decoder_spec *spec;
    mc_map parts; /* index by decoder's name */
    bool *used;   /* [parts] */
    mc_names missing, strangers;
} check;

/* The shape that a tensor should have: [experts, rows, columns]; 0: there is no such axis, or, for
 * rows, any number. */
typedef struct wanted {
    int64_t experts, rows, columns;
    bool kernel, transposed; /* MC_SLOT_KERNEL; rows and columns are changed over */
} wanted;

static bool has_shape(const mc_part *part, wanted w) {
    const int64_t *own = part->shape;
    if (w.kernel) return part->ndim == 3 && own[0] == w.rows && own[1] * own[2] == w.columns;
    if (part->ndim != 1 + (w.columns != 0) + (w.experts != 0)) return false;
    if (w.experts && *own++ != w.experts) return false;
    if (w.transposed) return own[1] == w.rows && own[0] == w.columns;
    return (!w.rows || own[0] == w.rows) && (!w.columns || own[1] == w.columns);
}

static mica_status check_tensor(check *c, const char *name, wanted w) {
    uint64_t i;
    if (!mc_map_find(&c->parts, mc_str_of(name), &i)) return mc_names_add(&c->missing, name);
    const mc_part *part = &c->source->parts[i];
    c->used[i] = true;
    if (has_shape(part, w)) return MICA_OK;
    char columns[32] = "", experts[32] = "";
    if (w.columns) snprintf(columns, sizeof columns, ",%lld", (long long)w.columns);
    if (w.experts) snprintf(experts, sizeof experts, "%lld,", (long long)w.experts);
    return mc_fail(MICA_ESHAPE,
                   "%s: tensor %s has another shape than its config says, want [%s%lld%s]", c->path,
                   part->name, experts, (long long)w.rows, columns);
}

/* Writes a module's name with the ending that it has: the first, or the second. */
static void find_ending(const check *c, const char *module, const char *first, const char *second,
                        char name[NAME_BYTES]) {
    uint64_t i;
    snprintf(name, NAME_BYTES, "%s%s", module, second);
    if (!mc_map_find(&c->parts, mc_str_of(name), &i))
        snprintf(name, NAME_BYTES, "%s%s", module, first);
}

static mica_status check_module(check *c, int layer, const char *module, wanted w, bool bias) {
    char name[NAME_BYTES], whole[NAME_BYTES], prefix[32] = "";
    if (!module) return MICA_OK;
    if (layer >= 0) snprintf(prefix, sizeof prefix, "%s.%d.", mc_spec_layers(c->spec), layer);
    snprintf(whole, sizeof whole, "%s%s", prefix, module);
    find_ending(c, whole, ".weight", "", name);
    MC_TRY(check_tensor(c, name, w));
    find_ending(c, whole, ".bias", "_bias", name);
    return bias ? check_tensor(c, name, (wanted){.experts = w.experts, .rows = w.rows}) : MICA_OK;
}

/* Experts whose name has a '*' are tensors of their own. */
static mica_status check_slot(check *c, int layer, const char *module, wanted w, bool bias) {
    const char *star = module && w.experts ? strchr(module, '*') : NULL;
    char name[NAME_BYTES];
    if (!star) return check_module(c, layer, module, w, bias);
    for (int64_t i = 0; i < w.experts; i++) {
        snprintf(name, sizeof name, "%.*s%lld%s", (int)(star - module), module, (long long)i,
                 star + 1);
        MC_TRY(check_module(c, layer, name, (wanted){.rows = w.rows, .columns = w.columns}, bias));
    }
    return MICA_OK;
}

static mica_status check_layer(check *c, const mc_decoder_spec *spec, int layer) {
    const mc_block_spec *block;
    for (int k = 0; (block = mc_spec_block(spec, layer, k)); k++)
        for (int i = 0; i < block->kind->n_slots; i++) {
            const mc_slot *slot = &block->kind->slots[i];
            const wanted w = {.experts = slot->experts ? slot->experts(block) : 0,
                              .rows = slot->rows(block),
                              .columns = slot->columns ? slot->columns(block) : 0,
                              .kernel = slot->kind == MC_SLOT_KERNEL,
                              .transposed = block->transposed >> i & 1};
            MC_TRY(check_slot(c, layer, block->names[i], w, mc_block_has_bias(block, i)));
        }
    return MICA_OK;
}

/* A bias that may be there. */
static mica_status check_bias(check *c, const char *module, int64_t n) {
    char name[NAME_BYTES];
    uint64_t i;
    snprintf(name, sizeof name, "%s.bias", module);
    return mc_map_find(&c->parts, mc_str_of(name), &i) ? check_tensor(c, name, (wanted){.rows = n})
                                                       : MICA_OK;
}

static mica_status check_ranker(check *c, const mc_decoder_spec *spec) {
    const mc_part *out = mc_source_ranker(c->source);
    const mc_ranker_names *names = out ? find_ranker(c->source) : NULL;
    if (!names) return MICA_OK;
    const int64_t n = spec->hidden;
    MC_TRY(check_module(c, -1, names->dense, (wanted){.rows = n, .columns = n}, false));
    MC_TRY(check_bias(c, names->dense, n));
    MC_TRY(check_module(c, -1, names->norm, (wanted){.rows = n}, false));
    if (names->norm) MC_TRY(check_bias(c, names->norm, n));
    MC_TRY(check_module(c, -1, names->out, (wanted){.columns = n}, false));
    return check_bias(c, names->out, out->shape[0]);
}

/* The matrices between the embedding, or the last norm, and the streams. */
static mica_status check_streams(check *c, const mc_decoder_spec *spec, const char *name) {
    char module[NAME_BYTES];
    for (int i = 0; name && i + 1 < spec->streams; i++) {
        snprintf(module, sizeof module, "%s.%d", name, i);
        MC_TRY(check_module(c, -1, module, (wanted){.rows = spec->hidden, .columns = spec->hidden},
                            false));
    }
    return MICA_OK;
}

static mica_status check_all(check *c, const mc_decoder_spec *spec) {
    bool has_head = mc_source_find_end(c->source, MC_END_HEAD) != NULL;
    const wanted table = {.rows = spec->vocab, .columns = spec->hidden};
    const int64_t inputs = spec->n_layers * spec->layer_width;
    const wanted inputs_of = {.rows = spec->layer_rows, .columns = inputs};
    MC_TRY(check_module(c, -1, spec->names.embed, table, false));
    MC_TRY(check_module(c, -1, spec->names.layer_embed, inputs_of, false));
    MC_TRY(check_module(c, -1, spec->names.layer_projection,
                        (wanted){.rows = inputs, .columns = spec->hidden}, false));
    MC_TRY(check_module(c, -1, spec->names.layer_norm, (wanted){.rows = spec->layer_width}, false));
    const wanted norm = {.rows = spec->hidden};
    MC_TRY(check_module(c, -1, spec->names.positions,
                        (wanted){.rows = spec->positions, .columns = spec->hidden}, false));
    MC_TRY(check_module(c, -1, spec->names.types,
                        (wanted){.rows = spec->types, .columns = spec->hidden}, false));
    MC_TRY(check_module(c, -1, spec->names.embed_norm, norm, spec->norm_bias));
    MC_TRY(check_streams(c, spec, spec->names.streams));
    MC_TRY(check_streams(c, spec, spec->names.unstreams));
    for (int i = 0; i < spec->n_layers; i++)
        MC_TRY(check_layer(c, spec, i));
    MC_TRY(check_module(c, -1, spec->names.norm, norm, spec->norm_bias));
    MC_TRY(check_ranker(c, spec));
    if (!has_head && spec->tied != MC_TIED_NO) return MICA_OK;
    return check_module(c, -1, spec->names.head, table, false);
}

static mica_status check_lists(check *c) {
    for (size_t i = 0; i < c->source->count; i++)
        if (!c->used[i] && !mc_lm_ignores(c->spec, c->source->parts[i].name) &&
            !mc_lm_spares(c->spec, c->source->parts[i].name))
            MC_TRY(mc_names_add(&c->strangers, c->source->parts[i].name));
    const char *missing = mc_names_text(&c->missing), *strangers = mc_names_text(&c->strangers);
    if (!missing || !strangers) return mc_fail_nomem("the tensors of a model");
    if (c->missing.count)
        return mc_fail(MICA_EFORMAT, "%s: the model lacks %zu tensors: %s", c->path,
                       c->missing.count, missing);
    if (c->strangers.count)
        return mc_fail(MICA_EFORMAT, "%s: a model of this config has no place for %zu tensors: %s",
                       c->path, c->strangers.count, strangers);
    return MICA_OK;
}

static mica_status map_parts(check *c) {
    uint64_t there;
    for (size_t i = 0; i < c->source->count; i++) {
        mc_str name = mc_decoder_name(mc_str_of(c->source->parts[i].name));
        const mc_part *part = &c->source->parts[i];
        if (mc_lm_ignores(c->spec, part->name) && !mc_source_ranks(c->source, part)) continue;
        if (mc_map_find(&c->parts, name, &there))
            return mc_fail(MICA_EFORMAT, "%s: tensor %s is there under two names", c->path,
                           c->source->parts[i].name);
        if (!mc_map_put(&c->parts, name, i)) return mc_fail_nomem("the tensors of a model");
    }
    return MICA_OK;
}

mica_status mc_source_check(const mc_source *source, const char *path) {
    mc_arena arena = {0};
    check c = {.source = source, .path = path};
    mc_decoder_spec *spec = mc_arena_alloc(&arena, sizeof *spec);
    c.used = mc_arena_calloc(&arena, source->count + 1);
    mica_status status =
        spec && c.used ? mc_source_spec(source, spec) : mc_fail_nomem("the tensors of a model");
    c.spec = spec;
    if (status == MICA_OK) status = map_parts(&c);
    if (status == MICA_OK) status = check_all(&c, spec);
    if (status == MICA_OK) status = check_lists(&c);
    mc_names_deinit(&c.missing);
    mc_names_deinit(&c.strangers);
    mc_map_deinit(&c.parts);
    mc_arena_deinit(&arena);
    return status;
}
