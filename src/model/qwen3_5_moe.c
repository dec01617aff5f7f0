/* Qwen 3.5, 3.6 and 3.8 with experts: Qwen/Qwen3.5-35B-A3B and others.
 *
 * As Qwen 3.5, with experts in all layers, and a shared one with a factor of its own. The weights
 * of those that are picked are always divided by their sum.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

/* The hub's files have all matrices of a kind in one tensor, gate and up in the same. */
static const mc_form stacked = {
    .names = {[MC_EXPERTS_GATE] = MC_NO_SLOT,
              [MC_EXPERTS_UP] = MC_NO_SLOT,
              [MC_EXPERTS_GATE_UP] = "mlp.experts.gate_up_proj",
              [MC_EXPERTS_DOWN] = "mlp.experts.down_proj"},
};

mica_status mc_family_shared_experts(const mc_config_scope *text, int64_t count, int64_t picks,
                                     const mc_form *form, mc_decoder_spec *spec, int *block) {
    static const mc_expert_keys keys = {"num_experts", "num_experts_per_tok",
                                        "moe_intermediate_size"};
    *block = mc_spec_add(spec, &mc_block_experts);
    mc_block_spec *experts = &spec->blocks[*block];
    mc_experts_spec *e = &experts->experts;
    *e = (mc_experts_spec){.count = count,
                           .picks = picks,
                           .width = 512,
                           .shared_width = 512,
                           .activation = spec->blocks[MC_PLAIN_MLP].gated.activation,
                           .renormalised = 1,
                           .factor = 1};
    MC_TRY(mc_family_experts(text, &keys, experts));
    MC_TRY(mc_config_int(text, "shared_expert_intermediate_size", MC_OPTIONAL, 1, MC_MAX_WIDTH,
                         &e->shared_width));
    mc_block_use_all(experts, MC_EXPERTS_SHARED_GATE, MC_EXPERTS_SHARED_DOWN);
    mc_block_use(experts, MC_EXPERTS_SHARED_SWITCH);
    experts->forms = form;
    experts->n_forms = 1;
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_config_scope text;
    int net, experts;
    spec->intermediate = 1; /* no layer has an MLP */
    MC_TRY(mc_family_text(root, &text));
    MC_TRY(mc_family_gated_qwen(root, &text, spec));
    MC_TRY(mc_family_delta_net(&text, spec, &net));
    mc_block_use_all(&spec->blocks[net], MC_DELTA_NET_QKV, MC_DELTA_NET_B);
    MC_TRY(mc_family_shared_experts(&text, 256, 8, &stacked, spec, &experts));
    mc_family_all_sparse(spec, experts);
    return MICA_OK;
}

MC_FAMILY(qwen3_5_moe, read_spec, MC_NAMES("qwen3_5_moe", "qwen3_5_moe_text"),
          MC_NAMES("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
          .tensors = MC_NAMES("linear_attn.in_proj_qkv.weight", "mlp.gate.weight"),
          .chat = "chatml");
