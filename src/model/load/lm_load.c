/* Opening a model: config -> family -> spec -> tensors. */
#include "model/load/load.h"

#include "base/alloc.h"
#include "graph/graph.h"
#include "io/published_make.h"
#include "model/family.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 320
#define MAX_NOTES 16

/* Published matrices that are read alike. */
typedef struct published_note {
    mc_made_info info;
    size_t matrices;
} published_note;

/* Writes "prefix" "layers" ".7." "name" into text; for layer -1 "prefix" "name". */
static const char *module_name(const mc_loader *loader, int layer, const char *name,
                               char text[NAME_BYTES]) {
    if (layer < 0)
        snprintf(text, NAME_BYTES, "%s%s", loader->prefix, name);
    else
        snprintf(text, NAME_BYTES, "%s%s.%d.%s", loader->prefix, loader->layers, layer, name);
    return text;
}

/* ---- slots ---- */

/* The tensor of a module: module_name and ".weight". */
static const char *weight_name(const mc_loader *loader, int layer, const char *name,
                               char text[NAME_BYTES]) {
    size_t len = strlen(module_name(loader, layer, name, text));
    snprintf(text + len, NAME_BYTES - len, ".weight");
    return text;
}

/* What is f32: a norm, a vector, a kernel. */
static mica_status load_floats(mc_loader *loader, const mc_block_spec *block, mc_lm_slot *w) {
    char text[NAME_BYTES];
    const mc_slot *slot = w->slot;
    int64_t rows = slot->rows(block);
    const char *name = slot->bare ? module_name(loader, w->layer, w->name, text)
                                  : weight_name(loader, w->layer, w->name, text);
    if (slot->kind == MC_SLOT_KERNEL)
        return mc_kernel_load(loader, name, rows, slot->columns(block), &w->vector);
    return mc_vector_load(loader, name, rows, w->offset, &w->vector);
}

/* The bias of a norm. */
static mica_status load_norm_bias(mc_loader *loader, const char *module, int64_t n,
                                  mica_array *bias) {
    char text[NAME_BYTES + 8];
    snprintf(text, sizeof text, "%s.bias", module);
    return mc_vector_load(loader, text, n, 0.0, bias);
}

static mica_status load_slot(mc_loader *loader, const mc_block_spec *block, int i, mc_lm_slot *w) {
    char text[NAME_BYTES];
    const mc_slot *slot = w->slot;
    if (!w->name) return MICA_OK;
    if (slot->kind != MC_SLOT_MATRIX) {
        MC_TRY(load_floats(loader, block, w));
        if (!mc_block_has_bias(block, i)) return MICA_OK;
        return load_norm_bias(loader, module_name(loader, w->layer, w->name, text),
                              slot->rows(block), &w->linear.bias);
    }
    w->linear.out = slot->rows(block);
    w->linear.in = slot->columns(block);
    w->linear.experts = slot->experts ? slot->experts(block) : 0;
    w->linear.transposed = block->transposed >> i & 1;
    return mc_linear_load(loader, module_name(loader, w->layer, w->name, text),
                          mc_block_has_bias(block, i), &w->linear);
}

static const char *module_of(const mc_block_spec *block, int i) {
    const char *name = block->names[i];
    return name && strchr(name, '*') && block->usual[i] ? block->usual[i] : name;
}

static mica_status load_block(mc_loader *loader, mc_lm *lm, int layer, int k) {
    const mc_block_spec *block = mc_spec_block(&lm->spec, layer, k);
    mc_lm_slot *slots = mc_lm_block(lm, layer, k);
    for (int i = 0; i < block->kind->n_slots; i++) {
        const mc_slot *slot = &block->kind->slots[i];
        slots[i] = (mc_lm_slot){
            .slot = slot,
            .name = block->names[i],
            .module = module_of(block, i),
            .layer = layer,
            .block = k,
            .offset = slot->kind == MC_SLOT_NORM ? block->norm_offset : 0.0,
        };
        MC_TRY(load_slot(loader, block, i, &slots[i]));
    }
    return MICA_OK;
}

static mica_status make_slots(mc_lm *lm) {
    const mc_block_spec *block;
    int layers = lm->spec.n_layers;
    lm->firsts = mc_calloc((size_t)layers, sizeof *lm->firsts);
    if (!lm->firsts) return mc_fail_nomem("the layers of a model");
    for (int i = 0; i < layers; i++)
        for (int k = 0; (block = mc_spec_block(&lm->spec, i, k)); k++) {
            lm->firsts[i][k] = lm->n_slots;
            lm->n_slots += (size_t)block->kind->n_slots;
        }
    lm->slots = mc_calloc(lm->n_slots, sizeof *lm->slots);
    return lm->slots ? MICA_OK : mc_fail_nomem("the layers of a model");
}

/* ---- the head ---- */

/* The head's name: with one of the prefixes, or without. */
static const char *head_name(const mc_loader *loader, const char *head, char text[NAME_BYTES]) {
    char tensor[NAME_BYTES + 8];
    for (size_t i = 0; mc_family_prefix_at(i); i++) {
        snprintf(text, NAME_BYTES, "%s%s", mc_family_prefix_at(i), head);
        snprintf(tensor, sizeof tensor, "%s.weight", text);
        if (mc_weights_find(loader->weights, tensor)) return text;
    }
    return NULL;
}

static bool same_tensor(const mc_weights *w, const char *a, const char *b, const char *ending) {
    char first[NAME_BYTES + 8], second[NAME_BYTES + 8];
    snprintf(first, sizeof first, "%s%s", a, ending);
    snprintf(second, sizeof second, "%s%s", b, ending);
    const mc_weight_tensor *x = mc_weights_find(w, first), *y = mc_weights_find(w, second);
    if (!x || !y) return x == y;
    if (x->made || y->made) return false;
    return strcmp(x->kind, y->kind) == 0 && x->ndim == y->ndim && x->bytes == y->bytes &&
           memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) == 0 &&
           memcmp(x->data, y->data, x->bytes) == 0;
}

bool mc_lm_same_matrix(const mc_weights *weights, const char *a, const char *b) {
    return same_tensor(weights, a, b, ".weight") && same_tensor(weights, a, b, ".scales") &&
           same_tensor(weights, a, b, ".biases");
}

/* Notes a head that the config denies: merging an adapter of the head leaves one. */
static mica_status note_own_head(mc_lm *lm, const char *name) {
    lm->spec.tied = MC_TIED_NO;
    return mc_lm_note(lm,
                      "config.json says tie_word_embeddings, but the files hold %s.weight, which "
                      "is not the embedding: this head is used",
                      name);
}

static mica_status load_head(mc_loader *loader, mc_lm *lm) {
    char text[NAME_BYTES], embed[NAME_BYTES];
    const mc_decoder_spec *spec = &lm->spec;
    const char *name = head_name(loader, spec->names.head, text);
    module_name(loader, -1, spec->names.embed, embed);
    bool own =
        name && (spec->tied != MC_TIED_YES || !mc_lm_same_matrix(loader->weights, name, embed));
    if (!own && spec->tied != MC_TIED_NO) {
        lm->head = lm->embed;
        lm->tied = true;
        return MICA_OK;
    }
    if (spec->tied == MC_TIED_YES) MC_TRY(note_own_head(lm, name));
    lm->head = (mc_linear){.out = spec->vocab, .in = spec->hidden};
    return mc_linear_load(loader, name ? name : spec->names.head, false, &lm->head);
}

/* Reports progress over tensors that were found; weights that were read have reported it. */
static mica_status report_progress(const mc_lm *lm, const mc_weights_options *options,
                                   uint64_t done, uint64_t total) {
    bool read = mc_weights_were_read(lm->weights);
    return options->watch && !read ? options->watch(options->context, done, total) : MICA_OK;
}

/* A norm outside the layers, if there is one. */
static mica_status load_norm(mc_loader *loader, const mc_decoder_spec *spec, const char *name,
                             mica_array *weight, mica_array *bias) {
    char text[NAME_BYTES];
    if (!name) return MICA_OK;
    MC_TRY(mc_vector_load(loader, weight_name(loader, -1, name, text), spec->hidden,
                          spec->norm_offset, weight));
    if (!spec->norm_bias) return MICA_OK;
    return load_norm_bias(loader, module_name(loader, -1, name, text), spec->hidden, bias);
}

/* A table, or a matrix, outside the layers, if there is one. */
static mica_status load_table(mc_loader *loader, const char *name, int64_t rows, int64_t columns,
                              mc_linear *table) {
    char text[NAME_BYTES];
    if (!name) return MICA_OK;
    *table = (mc_linear){.out = rows, .in = columns};
    return mc_linear_load(loader, module_name(loader, -1, name, text), false, table);
}

/* What makes the inputs of layers. */
static mica_status load_layer_inputs(mc_loader *loader, mc_lm *lm) {
    char text[NAME_BYTES];
    const mc_decoder_spec *spec = &lm->spec;
    const mc_decoder_names *names = &spec->names;
    int64_t n = spec->n_layers * spec->layer_width;
    if (!n) return MICA_OK;
    MC_TRY(load_table(loader, names->layer_embed, spec->layer_rows, n, &lm->layer_embed));
    MC_TRY(load_table(loader, names->layer_projection, n, spec->hidden, &lm->layer_projection));
    return mc_vector_load(loader, weight_name(loader, -1, names->layer_norm, text),
                          spec->layer_width, spec->norm_offset, &lm->layer_norm);
}

/* The matrices between the embedding, or the last norm, and the streams: name.0, name.1 ... */
static mica_status load_streams(mc_loader *loader, const mc_decoder_spec *spec, const char *name,
                                mc_linear *matrices) {
    char numbered[64];
    for (int i = 0; i + 1 < spec->streams; i++) {
        snprintf(numbered, sizeof numbered, "%s.%d", name, i);
        MC_TRY(load_table(loader, numbered, spec->hidden, spec->hidden, &matrices[i]));
    }
    return MICA_OK;
}

static mica_status load_embedding(mc_loader *loader, mc_lm *lm) {
    mc_decoder_spec *spec = &lm->spec;
    int64_t hidden = spec->hidden;
    MC_TRY(load_layer_inputs(loader, lm));
    MC_TRY(load_streams(loader, spec, spec->names.streams, lm->streams));
    MC_TRY(load_streams(loader, spec, spec->names.unstreams, lm->unstreams));
    MC_TRY(load_table(loader, spec->names.embed, spec->vocab, hidden, &lm->embed));
    if (!spec->vocab) spec->vocab = lm->embed.out;
    MC_TRY(load_table(loader, spec->names.positions, spec->positions, hidden, &lm->positions));
    MC_TRY(load_table(loader, spec->names.types, spec->types, hidden, &lm->types));
    return load_norm(loader, spec, spec->names.embed_norm, &lm->embed_norm, &lm->embed_norm_bias);
}

static mica_status load_tensors(mc_loader *loader, mc_lm *lm, const mc_weights_options *options) {
    mc_decoder_spec *spec = &lm->spec;
    uint64_t total = 0;
    for (size_t i = 0; i < mc_weights_count(lm->weights); i++)
        total += mc_weights_at(lm->weights, i)->bytes;

    MC_TRY(load_embedding(loader, lm));
    for (int i = 0; i < spec->n_layers; i++) {
        for (int k = 0; mc_spec_block(spec, i, k); k++) {
            mc_scope_set_fallback(loader->scope, mc_lm_block_falls_back(lm, i, k));
            MC_TRY(load_block(loader, lm, i, k));
        }
        mc_scope_set_fallback(loader->scope, false);
        MC_TRY(report_progress(lm, options, loader->bytes, total));
    }
    MC_TRY(load_norm(loader, spec, spec->names.norm, &lm->norm, &lm->norm_bias));
    MC_TRY(load_head(loader, lm));
    return report_progress(lm, options, total, total);
}

static mica_status check_missing(mc_loader *loader, const char *folder) {
    if (!loader->missing.count) return MICA_OK;
    const char *names = mc_names_text(&loader->missing);
    if (!names) return mc_fail_nomem("the list of missing tensors");
    return mc_fail(MICA_ENOENT, "%s: %zu tensors that config.json asks for are in no file: %s",
                   folder, loader->missing.count, names);
}

/* Adds what is told of a published matrix to those that are told alike. */
static void add_published(const mc_made_info *info, published_note *notes, size_t *n) {
    size_t i = 0;
    while (i < *n && (strcmp(notes[i].info.what, info->what) != 0 ||
                      notes[i].info.exact != info->exact || notes[i].info.dtype != info->dtype ||
                      memcmp(&notes[i].info.quant, &info->quant, sizeof info->quant) != 0))
        i++;
    if (i == MAX_NOTES) return;
    if (i == *n)
        notes[(*n)++] = (published_note){*info, 0};
    else {
        notes[i].info.bytes += info->bytes;
        notes[i].info.made += info->made;
    }
    notes[i].matrices++;
}

static mica_status tell_published(mc_lm *lm, const published_note *note) {
    char form[MC_PACKING_TEXT];
    const mc_made_info *info = &note->info;
    if (info->quant.bits)
        mc_packing_describe(&info->quant, false, form);
    else
        snprintf(form, sizeof form, "%s", mica_dtype_name(info->dtype));
    const char *how = info->exact        ? "exactly"
                      : info->quant.bits ? "within half a step"
                                         : "rounded to its dtype";
    return mc_lm_note(lm,
                      "published as %s: %zu matrices, read as %s, %s; %.1f MB in the files, "
                      "%.1f MB so",
                      info->what, note->matrices, form, how, (double)info->bytes / 1e6,
                      (double)info->made / 1e6);
}

/* Says what became of matrices that are not quantised as MLX does, and what it costs. */
static mica_status note_published(const mc_loader *loader, mc_lm *lm) {
    published_note notes[MAX_NOTES];
    mc_made_info info;
    size_t n = 0;
    for (size_t i = 0; i < mc_weights_count(loader->weights); i++)
        if (loader->used[i] && mc_made_describe(mc_weights_at(loader->weights, i), &info))
            add_published(&info, notes, &n);
    for (size_t i = 0; i < n; i++)
        MC_TRY(tell_published(lm, &notes[i]));
    return MICA_OK;
}

enum { IMAGES, SOUND, MORE_TOKENS, PARTS, COMPUTED = PARTS };

/* The layer of a tensor; -1: it is in none. *rest receives what follows its number. */
static int layer_of(const mc_decoder_spec *spec, const char *name, const char **rest) {
    mc_str own = mc_decoder_name(mc_str_of(name)), layers = mc_str_of(mc_spec_layers(spec));
    int layer, at = 0;
    if (!mc_str_starts(own, layers)) return -1;
    *rest = own.ptr + layers.len;
    if (sscanf(*rest, ".%4d.%n", &layer, &at) != 1 || !at || layer < 0) return -1;
    *rest += at;
    return layer;
}

/* What a tensor that no decoder has is for; -1: it may be a decoder's. */
static int part_of(const mc_decoder_spec *spec, const char *name) {
    static const struct {
        const char *in_name;
        int part;
    } known[] = {
        {"vision_tower.", IMAGES},    {"vision_model.", IMAGES}, {"vision_embed_tokens.", IMAGES},
        {"vision_embedder.", IMAGES}, {"embed_vision.", IMAGES}, {"multi_modal_projector.", IMAGES},
        {"visual.", IMAGES},          {"audio_tower.", SOUND},   {"embed_audio.", SOUND},
        {"mtp.", MORE_TOKENS},        {"rotary_emb.", COMPUTED}, {"input_min", COMPUTED},
        {"input_max", COMPUTED},      {"output_min", COMPUTED},  {"output_max", COMPUTED},
        {"position_ids", COMPUTED},   {"pooler.", COMPUTED}, /* of an encoder without a head */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *at = strstr(name, known[i].in_name);
        if (at && (at == name || at[-1] == '.')) return known[i].part;
    }
    const char *rest;
    int layer = spec && spec->layers_ahead ? layer_of(spec, name, &rest) : -1;
    bool ahead =
        layer >= 0 && layer >= spec->n_layers && layer < spec->n_layers + spec->layers_ahead;
    return ahead ? MORE_TOKENS : -1;
}

bool mc_lm_ignores(const mc_decoder_spec *spec, const char *name) {
    return part_of(spec, name) >= 0;
}

/* Says which parts of the files are left alone. */
static mica_status note_ignored(const mc_loader *loader, mc_lm *lm) {
    static const char *const names[PARTS] = {"images", "sound", "tokens ahead"};
    size_t counts[PARTS + 1] = {0};
    for (size_t i = 0; i < mc_weights_count(loader->weights); i++) {
        int part = part_of(&lm->spec, mc_weights_at(loader->weights, i)->name);
        if (part >= 0) counts[part]++;
    }
    for (int i = 0; i < PARTS; i++)
        if (counts[i]) MC_TRY(mc_lm_note(lm, "left out: %s, %zu tensors", names[i], counts[i]));
    return MICA_OK;
}

/* Whether a tensor is the unused head of a model with a tied head. */
static bool is_spare_head(const mc_lm *lm, const char *name) {
    const char *at = strstr(name, lm->spec.names.head);
    return lm->tied && at && (at == name || at[-1] == '.');
}

bool mc_lm_spares(const mc_decoder_spec *spec, const char *name) {
    static const int slots[] = {MC_ATTENTION_K, MC_ATTENTION_V, MC_ATTENTION_K_NORM};
    const char *rest;
    int layer = layer_of(spec, name, &rest);
    if (layer < 0 || layer >= spec->n_layers || mc_spec_source(spec, layer) == layer) return false;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        mc_str slot = mc_str_of(mc_block_attention.slots[slots[i]].name);
        if (mc_str_starts(mc_str_of(rest), slot)) return true;
    }
    return false;
}

static mica_status list_unused(const mc_loader *loader, const mc_lm *lm, mc_names *unused) {
    for (size_t i = 0; i < mc_weights_count(loader->weights); i++) {
        const char *name = mc_weights_at(loader->weights, i)->name;
        if (!loader->used[i] && !mc_lm_ignores(&lm->spec, name) && !is_spare_head(lm, name) &&
            !mc_lm_spares(&lm->spec, name))
            MC_TRY(mc_names_add(unused, name));
    }
    return MICA_OK;
}

static mica_status note_unused(const mc_loader *loader, mc_lm *lm) {
    mc_names unused = {0};
    mica_status status = list_unused(loader, lm, &unused);
    const char *text = mc_names_text(&unused);
    if (status == MICA_OK && !text) status = mc_fail_nomem("the notes on a model");
    if (status == MICA_OK && unused.count)
        status = mc_lm_note(lm, "nothing reads %zu of the tensors: %s", unused.count, text);
    mc_names_deinit(&unused);
    return status;
}

/* The factors of a head's elements: the rotated ones have the RoPE's, the others 1. */
static mica_status make_amplitudes(mc_lm *lm, int i, float *room, mc_lm_rope *made) {
    const mc_rope_spec *rope = &lm->spec.ropes[i];
    made->amplitudes = MICA_NONE;
    if (rope->amplitude == 0 || rope->amplitude == 1) return MICA_OK;
    for (int64_t k = 0; k < rope->head_dim; k++)
        room[k] = k < mc_rope_dims(rope) ? (float)rope->amplitude : 1.0f;
    made->amplitudes = mica_from_data(lm->scope, room, MICA_F32, &rope->head_dim, 1);
    return mica_scope_status(lm->scope);
}

static mica_status make_rope(mc_lm *lm, int i, mc_lm_rope *made) {
    mc_rope_spec *rope = &lm->spec.ropes[i];
    if (!rope->head_dim) rope->head_dim = lm->spec.head_dim;
    int64_t n = mc_rope_dims(rope) / 2;
    float *room = mc_array_alloc((size_t)rope->head_dim, sizeof *room);
    if (!room) return mc_fail_nomem("the rope's frequencies");
    made->freqs = MICA_NONE;
    if (mc_rope_freqs(rope, room)) made->freqs = mica_from_data(lm->scope, room, MICA_F32, &n, 1);
    mica_status status = make_amplitudes(lm, i, room, made);
    mc_free(room);
    return status == MICA_OK ? mica_scope_status(lm->scope) : status;
}

static mica_status make_ropes(mc_lm *lm) {
    for (int i = 0; i < MC_MAX_ROPES; i++)
        MC_TRY(make_rope(lm, i, &lm->ropes[i]));
    if (!mc_lm_layer_falls_back(lm, 0)) return MICA_OK;
    mc_scope_set_fallback(lm->scope, true);
    mica_status status = MICA_OK;
    for (int i = 0; status == MICA_OK && i < MC_MAX_ROPES; i++)
        status = make_rope(lm, i, &lm->far_ropes[i]);
    mc_scope_set_fallback(lm->scope, false);
    return status;
}

mica_status mc_lm_stretch(mc_lm *lm) {
    for (int i = 0; i < MC_MAX_ROPES; i++)
        lm->spec.ropes[i].stretched = lm->spec.ropes[i].kind == MC_ROPE_LONG;
    lm->spec.context = lm->spec.long_context;
    lm->spec.long_context = 0;
    return make_ropes(lm);
}

static void describe(const mc_loader *loader, mc_lm *lm) {
    static const mica_dtype floats[] = {MICA_F32, MICA_BF16, MICA_F16};
    /* The first quantised matrix may be an exception, so what the config says of all others is
     * shown. */
    const mica_quant *stated = &loader->packing.common;
    const mica_quant *quant = loader->as_stated ? stated : &loader->quant;
    lm->parameters = loader->parameters;
    lm->weight_bytes = loader->bytes;
    lm->kv_dtype = lm->dtype = MICA_F32;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (loader->dense[floats[i]] > loader->dense[lm->dtype]) lm->dtype = floats[i];
    snprintf(lm->quantization, sizeof lm->quantization, "none");
    if (!loader->quantised) return;
    lm->quant = *quant;
    mc_packing_describe(quant, loader->mixed, lm->quantization);
}

static mica_status read_spec(mc_lm *lm, mc_loader *loader) {
    mc_config_scope root = mc_config_root(lm->config);
    mc_str type = MC_STR("");
    MC_TRY(mc_config_str(&root, "model_type", MC_OPTIONAL, &type));
    snprintf(lm->model_type, sizeof lm->model_type, "%.*s", MC_STR_ARG(type));
    MC_TRY(mc_family_read(&root, lm->weights, &lm->spec));
    return mc_packing_read(&root, &loader->packing);
}

static mica_status open_folder(mc_lm *lm, mc_loader *loader, const char *folder,
                               mica_device *device, const mc_weights_options *options,
                               const mc_lm_places *places) {
    MC_TRY(mc_config_load(folder, "config.json", MC_REQUIRED, &lm->config));
    MC_TRY(mc_weights_open(folder, options, &lm->weights));
    loader->weights = lm->weights;
    loader->used = mc_calloc(mc_weights_count(lm->weights), sizeof *loader->used);
    if (!loader->used) return mc_fail_nomem("the tensors of a model");
    MC_TRY(read_spec(lm, loader));
    MC_TRY(mica_scope_open(device, &lm->scope));
    loader->scope = lm->scope;
    loader->layers = mc_spec_layers(&lm->spec);
    loader->prefix = mc_family_prefix(lm->weights);
    if (!loader->prefix)
        loader->prefix = "model."; /* the embedding is missing and will be listed */
    MC_TRY(make_slots(lm));
    MC_TRY(mc_lm_place(lm, lm->weights, device, places, mc_lm_ignores));
    MC_TRY(load_tensors(loader, lm, options));
    MC_TRY(mc_ranker_load(loader, lm, folder));
    MC_TRY(check_missing(loader, folder));
    MC_TRY(mc_sentence_load(lm, folder));
    MC_TRY(make_ropes(lm));
    describe(loader, lm);
    MC_TRY(note_published(loader, lm));
    MC_TRY(note_ignored(loader, lm));
    return note_unused(loader, lm);
}

mica_status mc_lm_open(const char *folder, mica_device *device, const mc_weights_options *options,
                       mc_lm **lm) {
    return mc_lm_open_placed(folder, device, options, NULL, lm);
}

mica_status mc_lm_open_placed(const char *folder, mica_device *device,
                              const mc_weights_options *options, const mc_lm_places *places,
                              mc_lm **out) {
    const mc_weights_options defaults = {0};
    mc_loader loader = {0};
    mc_lm *lm = mc_calloc(1, sizeof *lm);
    *out = NULL;
    if (!lm) return mc_fail_nomem("a model");
    mica_status status =
        open_folder(lm, &loader, folder, device, options ? options : &defaults, places);
    mc_names_deinit(&loader.missing);
    mc_free(loader.used);
    if (status == MICA_OK)
        *out = lm;
    else
        mc_lm_close(&lm);
    return status;
}
