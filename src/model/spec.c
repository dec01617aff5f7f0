#include "model/spec.h"

#include <assert.h>

void mc_block_use(mc_block_spec *block, int slot) {
    block->names[slot] = block->kind->slots[slot].name;
}

bool mc_block_has_bias(const mc_block_spec *block, int slot) {
    return block->biases >> slot & 1;
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

const mc_attention_spec *mc_spec_attention(const mc_decoder_spec *spec, int layer) {
    static const mc_attention_spec none = {0};
    const mc_block_spec *block;
    for (int i = 0; (block = mc_spec_block(spec, layer, i)); i++)
        if (block->kind->state == MC_STATE_KEYS) return &block->attention;
    return &none;
}
