/* Qwen 3 Next: Qwen/Qwen3-Next-80B-A3B, Qwen3-Coder-Next.
 *
 * As Qwen 3.5 with experts; the projections of a delta net are packed by key heads.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

static const mc_form listed = {
    .names = MC_EXPERT_NAMES("mlp.experts.*", "gate_proj", "up_proj", "down_proj")};

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    int net, at;
    bool renormalised = true;
    spec->intermediate = 5632;
    MC_TRY(mc_family_gated_qwen(root, root, spec));
    MC_TRY(mc_family_delta_net(root, spec, &net));
    mc_block_use(&spec->blocks[net], MC_DELTA_NET_QKVZ);
    mc_block_use(&spec->blocks[net], MC_DELTA_NET_BA);
    MC_TRY(mc_family_shared_experts(root, 512, 10, &listed, spec, &at));
    MC_TRY(mc_config_bool(root, "norm_topk_prob", MC_OPTIONAL, &renormalised));
    spec->blocks[at].experts.renormalised = renormalised;
    return mc_family_sparse_layers(root, spec, at);
}

MC_FAMILY(qwen3_next, read_spec, MC_NAMES("qwen3_next"), MC_NAMES("Qwen3NextForCausalLM"),
          .tensors = MC_NAMES("linear_attn.in_proj_qkvz.weight"), .chat = "chatml");
