/* Qwen 3 with experts: Qwen/Qwen3-30B-A3B, Qwen3-Coder, Qwen3-235B-A22B.
 *
 * As Qwen 3; some layers, or all, have experts in the place of the MLP.
 *
 * Source: arXiv:2505.09388; the defaults of transformers 5. */
#include "model/family.h"

static const mc_form forms[] = {
    {.names = MC_EXPERT_NAMES("mlp.experts.*", "gate_proj", "up_proj", "down_proj")}};

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    static const mc_expert_keys keys = {"num_experts", "num_experts_per_tok",
                                        "moe_intermediate_size"};
    bool bias = false, renormalised = false;
    spec->context = 32768;
    spec->norm_eps = 1e-6;
    spec->intermediate = 6144;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &bias));
    MC_TRY(mc_config_bool(root, "norm_topk_prob", MC_OPTIONAL, &renormalised));
    mc_family_biases(spec, bias, bias, false);
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_Q_NORM);
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_K_NORM);
    int at = mc_spec_add(spec, &mc_block_experts);
    mc_block_spec *experts = &spec->blocks[at];
    experts->experts = (mc_experts_spec){.count = 128,
                                         .picks = 8,
                                         .width = 768,
                                         .activation = spec->blocks[MC_PLAIN_MLP].gated.activation,
                                         .renormalised = renormalised,
                                         .factor = 1};
    experts->forms = forms;
    experts->n_forms = 1;
    MC_TRY(mc_family_experts(root, &keys, experts));
    MC_TRY(mc_family_sparse_layers(root, spec, at));
    return mc_family_late_windows(root, spec);
}

MC_FAMILY(qwen3_moe, read_spec, MC_NAMES("qwen3_moe"), MC_NAMES("Qwen3MoeForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_norm.weight", "mlp.gate.weight"), .chat = "chatml");
