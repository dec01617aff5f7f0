/* What families with experts read of a config. */
#include "model/family.h"

#include <string.h>

/* transformers 5 writes num_local_experts where it has read num_experts. */
static const char *count_key(const mc_config_scope *text, const char *key) {
    static const char *const spellings[] = {"num_experts", "num_local_experts"};
    for (int i = 0; i < 2; i++)
        if (strcmp(key, spellings[i]) == 0 && !mc_config_has(text, key)) return spellings[1 - i];
    return key;
}

mica_status mc_family_experts(const mc_config_scope *text, const mc_expert_keys *keys,
                              mc_block_spec *block) {
    mc_experts_spec *e = &block->experts;
    const char *count = count_key(text, keys->count);
    MC_TRY(mc_config_int(text, count, MC_OPTIONAL, 1, MC_MAX_EXPERTS, &e->count));
    MC_TRY(mc_config_int(text, keys->picks, MC_OPTIONAL, 1, MC_MAX_EXPERTS, &e->picks));
    MC_TRY(mc_config_int(text, keys->width, MC_OPTIONAL, 1, MC_MAX_WIDTH, &e->width));
    if (e->picks > e->count)
        return mc_config_fail(text, keys->picks, MICA_EFORMAT, "%lld of %lld experts",
                              (long long)e->picks, (long long)e->count);
    return MICA_OK;
}

mica_status mc_family_expert_groups(const mc_config_scope *text, mc_experts_spec *e) {
    MC_TRY(mc_config_int(text, "n_group", MC_OPTIONAL, 1, MC_MAX_EXPERTS, &e->groups));
    MC_TRY(mc_config_int(text, "topk_group", MC_OPTIONAL, 1, MC_MAX_EXPERTS, &e->top_groups));
    if (e->groups <= 1) return MICA_OK;
    if (e->count % e->groups != 0)
        return mc_config_fail(text, "n_group", MICA_EFORMAT,
                              "%lld does not divide the %lld experts", (long long)e->groups,
                              (long long)e->count);
    if (e->top_groups <= e->groups && e->top_groups * (e->count / e->groups) >= e->picks)
        return MICA_OK;
    return mc_config_fail(
        text, "topk_group", MICA_EFORMAT,
        "%lld of %lld groups of %lld experts do not have the %lld that are picked",
        (long long)e->top_groups, (long long)e->groups, (long long)(e->count / e->groups),
        (long long)e->picks);
}

mica_status mc_family_sparse_layers(const mc_config_scope *text, mc_decoder_spec *spec,
                                    int experts) {
    int64_t dense[MC_MAX_LAYERS], step = 1;
    size_t n = 0;
    MC_TRY(mc_config_int(text, "decoder_sparse_step", MC_OPTIONAL, 1, MC_MAX_LAYERS, &step));
    MC_TRY(mc_config_ints(text, "mlp_only_layers", MC_OPTIONAL, 0, MC_MAX_LAYERS, dense,
                          MC_MAX_LAYERS, &n));
    for (int i = 0; i < spec->n_layers; i++)
        if ((i + 1) % step == 0) spec->layers[i].blocks[1] = (uint8_t)experts;
    for (size_t i = 0; i < n; i++)
        if (dense[i] < spec->n_layers) spec->layers[dense[i]].blocks[1] = MC_PLAIN_MLP;
    return MICA_OK;
}

void mc_family_all_sparse(mc_decoder_spec *spec, int experts) {
    for (int i = 0; i < spec->n_layers; i++)
        spec->layers[i].blocks[1] = (uint8_t)experts;
}

/* The hub's files have the matrices of all experts in one tensor, gate and up in the same. */
static const mc_form stacked = {.names = {[MC_EXPERTS_GATE] = MC_NO_SLOT,
                                          [MC_EXPERTS_UP] = MC_NO_SLOT,
                                          [MC_EXPERTS_GATE_UP] = "block_sparse_moe.input_linear",
                                          [MC_EXPERTS_DOWN] = "block_sparse_moe.output_linear"}};

mica_status mc_family_granite_experts(const mc_config_scope *root, mc_decoder_spec *spec,
                                      mc_block_spec **block) {
    static const mc_expert_keys keys = {"num_local_experts", "num_experts_per_tok",
                                        "intermediate_size"};
    int at = mc_spec_add(spec, &mc_block_experts);
    mc_block_spec *experts = &spec->blocks[at];
    experts->experts = (mc_experts_spec){.count = 8,
                                         .picks = 2,
                                         .width = spec->intermediate,
                                         .activation = spec->blocks[MC_PLAIN_MLP].gated.activation,
                                         .scoring = MC_SCORE_PICKED_SOFTMAX,
                                         .factor = 1};
    MC_TRY(mc_family_experts(root, &keys, experts));
    experts->names[MC_EXPERTS_ROUTER] = "block_sparse_moe.router.layer";
    experts->names[MC_EXPERTS_GATE] = "block_sparse_moe.switch_mlp.gate_proj";
    experts->names[MC_EXPERTS_UP] = "block_sparse_moe.switch_mlp.up_proj";
    experts->names[MC_EXPERTS_DOWN] = "block_sparse_moe.switch_mlp.down_proj";
    experts->forms = &stacked;
    experts->n_forms = 1;
    mc_family_all_sparse(spec, at);
    if (block) *block = experts;
    return MICA_OK;
}
