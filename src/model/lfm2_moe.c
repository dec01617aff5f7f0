/* LFM2 with experts: LiquidAI/LFM2-8B-A1B.
 *
 * As LFM2; all layers but the first few have experts, whose weights are sigmoids. A bias is added
 * for the choice alone.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

static const mc_form listed = {.names =
                                   MC_EXPERT_NAMES("feed_forward.experts.*", "w1", "w3", "w2")};

static mica_status read_experts(const mc_config_scope *root, mc_block_spec *experts) {
    static const mc_expert_keys keys = {"num_experts", "num_experts_per_tok",
                                        "moe_intermediate_size"};
    mc_experts_spec *e = &experts->experts;
    bool renormalised = true, bias = true;
    *e = (mc_experts_spec){
        .count = 32, .picks = 4, .width = 1792, .scoring = MC_SCORE_SIGMOID, .least_sum = 1e-6};
    e->factor = 1;
    MC_TRY(mc_family_experts(root, &keys, experts));
    MC_TRY(mc_config_bool(root, "norm_topk_prob", MC_OPTIONAL, &renormalised));
    MC_TRY(mc_config_bool(root, "use_expert_bias", MC_OPTIONAL, &bias));
    MC_TRY(mc_config_float(root, "routed_scaling_factor", MC_OPTIONAL, 1e-6, 1e6, &e->factor));
    e->renormalised = renormalised;
    experts->names[MC_BLOCK_NORM] = "ffn_norm";
    experts->names[MC_EXPERTS_ROUTER] = "feed_forward.gate";
    experts->names[MC_EXPERTS_CHOICE] = bias ? "feed_forward.expert_bias" : NULL;
    experts->names[MC_EXPERTS_GATE] = "feed_forward.switch_mlp.gate_proj";
    experts->names[MC_EXPERTS_UP] = "feed_forward.switch_mlp.up_proj";
    experts->names[MC_EXPERTS_DOWN] = "feed_forward.switch_mlp.down_proj";
    experts->forms = &listed;
    experts->n_forms = 1;
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    int64_t dense = 2;
    spec->intermediate = 7168;
    MC_TRY(mc_family_lfm2_layers(root, spec));
    MC_TRY(mc_config_int(root, "num_dense_layers", MC_OPTIONAL, 0, MC_MAX_LAYERS, &dense));
    int experts = mc_spec_add(spec, &mc_block_experts);
    MC_TRY(read_experts(root, &spec->blocks[experts]));
    for (int i = (int)dense; i < spec->n_layers; i++)
        spec->layers[i].blocks[1] = (uint8_t)experts;
    return MICA_OK;
}

MC_FAMILY(lfm2_moe, read_spec, MC_NAMES("lfm2_moe"), MC_NAMES("Lfm2MoeForCausalLM"),
          .tensors = MC_NAMES("operator_norm.weight", "feed_forward.gate.weight"),
          .chat = "chatml");
