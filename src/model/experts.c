/* What families with experts read of a config. */
#include "model/family.h"

mica_status mc_family_experts(const mc_config_scope *text, const mc_expert_keys *keys,
                              mc_block_spec *block) {
    mc_experts_spec *e = &block->experts;
    MC_TRY(mc_config_int(text, keys->count, MC_OPTIONAL, 1, MC_MAX_EXPERTS, &e->count));
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
