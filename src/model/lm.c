#include "model/lm.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "group/group.h"
#include "io/adapter.h"
#include "model/sentence.h"

mc_lm_slot *mc_lm_block(const mc_lm *lm, int layer, int block) {
    return &lm->slots[lm->firsts[layer][block]];
}

mc_lm_slot *mc_lm_next_matrix(const mc_lm *lm, size_t *at) {
    while (*at < lm->n_slots) {
        mc_lm_slot *w = &lm->slots[(*at)++];
        if (w->name && w->slot->kind == MC_SLOT_MATRIX) return w;
    }
    return NULL;
}

bool mc_lm_has_layer(const mc_lm *lm, int layer) {
    return layer >= lm->before && layer < lm->spec.n_layers - lm->behind;
}

bool mc_lm_layer_falls_back(const mc_lm *lm, int layer) {
    return layer < lm->far_layers;
}

bool mc_lm_passes_on(const mc_lm *lm) {
    return mica_group_rank(lm->stages) < mica_group_size(lm->stages) - 1;
}

int64_t mc_lm_kv_heads(const mc_lm *lm, int layer) {
    const mc_layer_spec *blocks = &lm->spec.layers[layer];
    const mc_block_spec *all = lm->whole ? lm->whole : lm->spec.blocks;
    for (int i = 0; i < blocks->count; i++)
        if (all[blocks->blocks[i]].kind->state == MC_STATE_KEYS)
            return all[blocks->blocks[i]].attention.kv_heads;
    return 0;
}

mc_lm_slot *mc_lm_find(const mc_lm *lm, mc_str module) {
    mc_spec_slot at;
    return mc_spec_find(&lm->spec, module, &at) ? mc_lm_block(lm, at.layer, at.block) + at.slot
                                                : NULL;
}

const char *mc_lm_module(const mc_lm *lm, const mc_lm_slot *slot, char text[MC_MODULE_BYTES]) {
    snprintf(text, MC_MODULE_BYTES, "%s%s.%d.%s", lm->spec.names.layers ? "" : "model.",
             mc_spec_layers(&lm->spec), slot->layer, slot->module);
    return text;
}

mica_status mc_lm_note(mc_lm *lm, const char *fmt, ...) {
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    bool done = (!lm->notes.len || mc_buffer_add_byte(&lm->notes, '\n')) &&
                mc_buffer_add_text(&lm->notes, line) && mc_buffer_cstr(&lm->notes);
    return done ? MICA_OK : mc_fail_nomem("the notes on a model");
}

/* Numbers a token. Rounding costs a decoder that has fewer more than it costs others, and a second
 * code for each number little time of an answer; an encoder's vectors are as near with one
 * (docs/speed/accuracy.md). */
#define NARROW 640

void mc_lm_set_arithmetic(mc_lm *lm, mica_arithmetic arithmetic) {
    bool narrow = lm->spec.hidden < NARROW && !lm->spec.both_ways;
    int fast = arithmetic == MICA_ARITHMETIC_EXACT ? 0 : narrow ? 2 : 1;
    mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));)
        w->linear.fast = w->slot->exact ? 0 : fast;
    lm->head.fast = lm->layer_projection.fast = fast;
    for (int i = 0; i < MC_MAX_STREAMS; i++)
        lm->streams[i].fast = lm->unstreams[i].fast = fast;
}

void mc_lm_set_cache(mc_lm *lm, mica_cache_type cache) {
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F32, MICA_F16, MICA_BF16, MICA_U8};
    if (cache == MICA_CACHE_DEFAULT && lm->head.fast) cache = MICA_CACHE_BF16;
    lm->kv_dtype = dtypes[cache];
}

int64_t mc_lm_kv_width(const mc_lm *lm, int64_t head_dim) {
    return lm->kv_dtype == MICA_U8 ? mica_q8_bytes(head_dim) : head_dim;
}

void mc_lm_close(mc_lm **lm) {
    if (!lm || !*lm) return;
    mica_scope_close(&(*lm)->scope);
    mc_group_release((*lm)->peers);
    mc_group_release((*lm)->stages);
    mc_group_release((*lm)->group);
    mc_sentence_close(&(*lm)->sentence);
    mc_free((*lm)->ranker);
    mc_weights_close(&(*lm)->weights);
    mc_adapter_close(&(*lm)->replacements);
    mc_config_close(&(*lm)->config);
    mc_buffer_deinit(&(*lm)->notes);
    mc_free((*lm)->whole);
    mc_free((*lm)->adapter);
    mc_free((*lm)->slots);
    mc_free((*lm)->firsts);
    mc_free(*lm);
    *lm = NULL;
}
