/* OLMoE: allenai/OLMoE-1B-7B.
 *
 * As Llama, with norms of queries and keys over all heads at once; all layers have experts.
 *
 * Source: arXiv:2409.02060; the defaults of transformers 5. */
#include "model/family.h"

static const mc_form forms[] = {
    {.names = MC_EXPERT_NAMES("mlp.experts.*", "gate_proj", "up_proj", "down_proj")}};

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    static const mc_expert_keys keys = {"num_experts", "num_experts_per_tok", "intermediate_size"};
    bool bias = false, renormalised = false;
    spec->context = 4096;
    spec->norm_eps = 1e-5;
    spec->intermediate = 2048;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &bias));
    MC_TRY(mc_config_bool(root, "norm_topk_prob", MC_OPTIONAL, &renormalised));
    if (mc_config_has(root, "clip_qkv"))
        return mc_config_fail(root, "clip_qkv", MICA_EUNSUPPORTED,
                              "mica clips no queries, keys and values");
    mc_family_biases(spec, bias, bias, false);
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION];
    mc_block_use(attention, MC_ATTENTION_Q_NORM);
    mc_block_use(attention, MC_ATTENTION_K_NORM);
    attention->attention.wide_norms = 1;
    int at = mc_spec_add(spec, &mc_block_experts);
    mc_block_spec *experts = &spec->blocks[at];
    experts->experts = (mc_experts_spec){.count = 64,
                                         .picks = 8,
                                         .width = spec->intermediate,
                                         .activation = spec->blocks[MC_PLAIN_MLP].gated.activation,
                                         .renormalised = renormalised,
                                         .factor = 1};
    experts->forms = forms;
    experts->n_forms = 1;
    MC_TRY(mc_family_experts(root, &keys, experts));
    mc_family_all_sparse(spec, at);
    return MICA_OK;
}

MC_FAMILY(olmoe, read_spec, MC_NAMES("olmoe"), MC_NAMES("OlmoeForCausalLM"),
          .tensors = MC_NAMES("mlp.gate.weight", "mlp.experts.0.up_proj.weight"), .chat = "chatml");
