#include "model/spec.h"

#include <assert.h>
#include <string.h>

void mc_block_use(mc_block_spec *block, int slot) {
    block->names[slot] = block->kind->slots[slot].name;
}

void mc_block_use_all(mc_block_spec *block, int first, int last) {
    for (int i = first; i <= last; i++)
        mc_block_use(block, i);
}

void mc_block_use_joined(mc_block_spec *block, int slot, int first, int last) {
    mc_block_use(block, slot);
    for (int i = first; i <= last; i++)
        block->names[i] = NULL;
}

bool mc_block_has_bias(const mc_block_spec *block, int slot) {
    return block->biases >> slot & 1;
}

bool mc_block_is_sensitive(const char *module) {
    static const mc_block *const kinds[] = {
#define BLOCK(name) &mc_block_##name,
#include "model/block_list.h"
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; i < kinds[k]->n_slots; i++) {
            const mc_slot *slot = &kinds[k]->slots[i];
            if (slot->sensitive && strstr(module, strrchr(slot->name, '.') + 1)) return true;
        }
    return false;
}

int64_t mc_block_hidden(const mc_block_spec *block) {
    return block->hidden;
}

int mc_spec_add(mc_decoder_spec *spec, const mc_block *kind) {
    assert(spec->n_blocks < MC_MAX_BLOCKS && kind->n_slots <= MC_MAX_SLOTS);
    mc_block_spec *block = &spec->blocks[spec->n_blocks];
    *block = (mc_block_spec){.kind = kind,
                             .hidden = spec->hidden,
                             .norm_eps = spec->norm_eps,
                             .norm_offset = spec->norm_offset,
                             .factor = 1.0,
                             .own = {0}};
    for (int i = 0; i < kind->n_slots; i++)
        if (!kind->slots[i].optional) mc_block_use(block, i);
    return spec->n_blocks++;
}

int mc_spec_copy(mc_decoder_spec *spec, int block) {
    assert(spec->n_blocks < MC_MAX_BLOCKS);
    spec->blocks[spec->n_blocks] = spec->blocks[block];
    return spec->n_blocks++;
}

void mc_spec_append(mc_decoder_spec *spec, int layer, int block) {
    mc_layer_spec *l = &spec->layers[layer];
    assert(l->count < MC_LAYER_BLOCKS && block >= 0 && block < spec->n_blocks);
    l->blocks[l->count++] = (uint8_t)block;
}

const mc_block_spec *mc_spec_block(const mc_decoder_spec *spec, int layer, int i) {
    const mc_layer_spec *l = &spec->layers[layer];
    return i < l->count ? &spec->blocks[l->blocks[i]] : NULL;
}

const char *mc_spec_layers(const mc_decoder_spec *spec) {
    return spec->names.layers ? spec->names.layers : "layers";
}

int mc_spec_layer(const mc_decoder_spec *spec, mc_str module, mc_str *rest) {
    const mc_str start = mc_str_of(mc_spec_layers(spec));
    size_t first = start.len + 1, at = first;
    int layer = 0;
    if (!mc_str_starts(module, start) || module.len <= at || module.ptr[start.len] != '.')
        return -1;
    for (; at < module.len && module.ptr[at] >= '0' && module.ptr[at] <= '9'; at++)
        if ((layer = 10 * layer + (module.ptr[at] - '0')) >= MC_MAX_LAYERS) return -1;
    if (at == first || at >= module.len || module.ptr[at] != '.') return -1;
    *rest = (mc_str){module.ptr + at + 1, module.len - at - 1};
    return layer;
}

/* Whether a name is that of a slot, in which a '*' stands for a number. */
static bool is_named(mc_str name, const char *slot) {
    const char *star = strchr(slot, '*');
    if (!star) return mc_str_is(name, slot);
    size_t before = (size_t)(star - slot), at = before;
    if (!mc_str_starts(name, (mc_str){slot, before})) return false;
    while (at < name.len && name.ptr[at] >= '0' && name.ptr[at] <= '9')
        at++;
    return at > before && mc_str_is((mc_str){name.ptr + at, name.len - at}, star + 1);
}

bool mc_spec_find(const mc_decoder_spec *spec, mc_str module, mc_spec_slot *found) {
    mc_str name;
    int layer = mc_spec_layer(spec, module, &name);
    const mc_block_spec *block;
    if (layer < 0 || layer >= spec->n_layers) return false;
    for (int k = 0; (block = mc_spec_block(spec, layer, k)); k++)
        for (int i = 0; i < block->kind->n_slots; i++)
            if (block->names[i] && (is_named(name, block->names[i]) ||
                                    (block->usual[i] && mc_str_is(name, block->usual[i])))) {
                *found = (mc_spec_slot){layer, k, block, i};
                return true;
            }
    return false;
}

static const mc_block_spec *find_state(const mc_decoder_spec *spec, int layer, mc_state_kind kind) {
    const mc_block_spec *block;
    for (int i = 0; (block = mc_spec_block(spec, layer, i)); i++)
        if (block->kind->state == kind) return block;
    return NULL;
}

const mc_block_spec *mc_spec_carrier(const mc_decoder_spec *spec, int layer) {
    return find_state(spec, layer, MC_STATE_CARRIED);
}

int mc_spec_shared(const mc_decoder_spec *spec, int layer) {
    for (int i = 0; i < spec->n_sources; i++)
        if (spec->sources[i] == layer) return i;
    return -1;
}

void mc_spec_share(mc_decoder_spec *spec, int layer, int from) {
    int at = mc_spec_shared(spec, from);
    if (at < 0) {
        at = spec->n_sources++;
        assert(at < MC_MAX_SOURCES && from < layer && !spec->layers[from].source);
        spec->sources[at] = from;
    }
    spec->layers[layer].source = (uint8_t)(at + 1);
}

int mc_spec_source(const mc_decoder_spec *spec, int layer) {
    int source = spec->layers[layer].source;
    return source ? spec->sources[source - 1] : layer;
}

const mc_attention_spec *mc_spec_attention(const mc_decoder_spec *spec, int layer) {
    static const mc_attention_spec none = {0};
    const mc_block_spec *block = find_state(spec, layer, MC_STATE_KEYS);
    return block ? &block->attention : &none;
}
