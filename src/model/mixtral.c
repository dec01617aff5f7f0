/* Mixtral: mistralai/Mixtral-8x7B, 8x22B.
 *
 * As Mistral; all layers have experts, whose weights are a softmax over those that are picked.
 *
 * Source: arXiv:2401.04088; the defaults of transformers 5. */
#include "model/family.h"

static const mc_form forms[] = {
    {.names = MC_EXPERT_NAMES("block_sparse_moe.experts.*", "w1", "w3", "w2")}};

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    static const mc_expert_keys keys = {"num_local_experts", "num_experts_per_tok",
                                        "intermediate_size"};
    spec->context = 131072;
    spec->norm_eps = 1e-5;
    spec->intermediate = 14336;
    spec->ropes[0] = mc_rope_plain(1e6);
    MC_TRY(mc_family_plain(root, spec));
    int at = mc_spec_add(spec, &mc_block_experts);
    mc_block_spec *experts = &spec->blocks[at];
    experts->experts = (mc_experts_spec){.count = 8,
                                         .picks = 2,
                                         .width = spec->intermediate,
                                         .activation = spec->blocks[MC_PLAIN_MLP].gated.activation,
                                         .scoring = MC_SCORE_PICKED_SOFTMAX,
                                         .factor = 1};
    experts->names[MC_EXPERTS_ROUTER] = "block_sparse_moe.gate";
    experts->names[MC_EXPERTS_GATE] = "block_sparse_moe.switch_mlp.gate_proj";
    experts->names[MC_EXPERTS_UP] = "block_sparse_moe.switch_mlp.up_proj";
    experts->names[MC_EXPERTS_DOWN] = "block_sparse_moe.switch_mlp.down_proj";
    experts->forms = forms;
    experts->n_forms = 1;
    MC_TRY(mc_family_experts(root, &keys, experts));
    mc_family_all_sparse(spec, at);
    return mc_family_window(root, 0, spec);
}

MC_FAMILY(mixtral, read_spec, MC_NAMES("mixtral"), MC_NAMES("MixtralForCausalLM"),
          .tensors = MC_NAMES("block_sparse_moe.gate.weight"));
