/* GLM 4.7 Flash: zai-org/GLM-4.7-Flash.
 *
 * As DeepSeek V3, with other sizes and one group of experts.
 *
 * Source: the defaults of transformers 5. */
#include "model/family.h"

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    static const mc_mla_spec mla = {
        .attention = {.latent = 512}, .plain = 192, .value_dim = 256, .query_latent = 768};
    static const mc_experts_spec experts = {
        .count = 64, .picks = 4, .width = 1536, .factor = 1.8, .groups = 1, .top_groups = 1};
    spec->context = 202752;
    spec->norm_eps = 1e-5;
    spec->ropes[0] = mc_rope_plain(1e6);
    MC_TRY(mc_family_mla(root, mla, spec));
    return mc_family_grouped_experts(root, experts, 1, spec);
}

MC_FAMILY(glm4_moe_lite, read_spec, MC_NAMES("glm4_moe_lite"), MC_NAMES("Glm4MoeLiteForCausalLM"),
          .tensors = MC_NAMES("self_attn.kv_a_proj_with_mqa.weight"));
