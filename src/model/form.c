/* The names that a model's files have: the first of a block's forms that its tensors fit. */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 320

bool mc_family_holds(const mc_weights *weights, const mc_decoder_spec *spec, int layer,
                     const char *slot, bool bare) {
    char name[NAME_BYTES];
    const char *prefix = mc_family_prefix(weights), *star = strchr(slot, '*');
    size_t before = star ? (size_t)(star - slot) : strlen(slot);
    snprintf(name, sizeof name, "%s%s.%d.%.*s%s%s%s", prefix ? prefix : "", mc_spec_layers(spec),
             layer, (int)before, slot, star ? "0" : "", star ? star + 1 : "",
             bare ? "" : ".weight");
    return mc_weights_find(weights, name);
}

static bool fits(const mc_weights *weights, const mc_decoder_spec *spec, int layer,
                 const mc_form *form) {
    for (int i = 0; i < MC_MAX_SLOTS; i++)
        if (form->names[i] && *form->names[i])
            return mc_family_holds(weights, spec, layer, form->names[i], true) ||
                   (!form->bare && mc_family_holds(weights, spec, layer, form->names[i], false));
    return false;
}

void mc_family_use_form(const mc_form *form, mc_block_spec *block) {
    for (int i = 0; i < MC_MAX_SLOTS; i++) {
        if (!form->names[i]) continue;
        block->usual[i] = *form->names[i] ? block->names[i] : NULL;
        block->names[i] = *form->names[i] ? form->names[i] : NULL;
    }
    block->transposed = form->transposed;
}

/* The first layer that has a block; -1: none does. */
static int layer_of(const mc_decoder_spec *spec, const mc_block_spec *block) {
    const mc_block_spec *own;
    for (int i = 0; i < spec->n_layers; i++)
        for (int k = 0; (own = mc_spec_block(spec, i, k)); k++)
            if (own == block) return i;
    return -1;
}

static void find_form(const mc_decoder_spec *spec, const mc_weights *weights,
                      mc_block_spec *block) {
    int layer = layer_of(spec, block);
    for (int i = 0; i < block->n_forms && layer >= 0; i++)
        if (fits(weights, spec, layer, &block->forms[i])) {
            mc_family_use_form(&block->forms[i], block);
            return;
        }
}

void mc_family_find_forms(const mc_weights *weights, mc_decoder_spec *spec) {
    for (int i = 0; i < spec->n_blocks; i++)
        find_form(spec, weights, &spec->blocks[i]);
}

/* A context ends where RoPE would take its divisors for long texts, until it is asked to. */
static void cut_context(mc_decoder_spec *spec) {
    int64_t whole = spec->context;
    for (int i = 0; i < MC_MAX_ROPES; i++) {
        const mc_rope_spec *rope = &spec->ropes[i];
        int64_t original = (int64_t)rope->original_context;
        if (rope->kind == MC_ROPE_LONG && original < spec->context) spec->context = original;
    }
    if (spec->context < whole) spec->long_context = whole;
}

mica_status mc_family_read(const mc_config_scope *root, const mc_weights *weights,
                           mc_decoder_spec *spec) {
    const mc_family *family;
    MC_TRY(mc_family_find(root, weights, &family));
    spec->family = family->name;
    spec->chat = family->chat;
    mc_family_look(weights, spec);
    MC_TRY(family->read(root, spec));
    cut_context(spec);
    if (weights) mc_family_find_forms(weights, spec);
    return MICA_OK;
}
