/* Granite 3 with experts: ibm-granite/granite-3.1-3b-a800m-instruct and others.
 *
 * As dense Granite; all layers have experts, whose weights are a softmax over those that are
 * picked.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->intermediate = 11008;
    MC_TRY(mc_family_multiplied(root, spec));
    MC_TRY(mc_family_granite_experts(root, spec, NULL));
    return mc_family_granite_factors(root, spec);
}

MC_FAMILY(granitemoe, read_spec, MC_NAMES("granitemoe"), MC_NAMES("GraniteMoeForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_proj.weight", "block_sparse_moe.router.layer.weight"));
