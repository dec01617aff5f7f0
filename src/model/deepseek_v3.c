/* DeepSeek V3, R1, and Kimi K2: deepseek-ai/DeepSeek-V3, moonshotai/Kimi-K2-Instruct.
 *
 * MLA; behind the first layers experts beside a shared one, of the best groups. What guesses more
 * tokens, in layers behind the last, is left out.
 *
 * Source: arXiv:2412.19437; the defaults of transformers 5. */
#include "model/family.h"

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    static const mc_mla_spec mla = {
        .attention = {.latent = 512}, .plain = 128, .value_dim = 128, .query_latent = 1536};
    static const mc_experts_spec experts = {
        .count = 256, .picks = 8, .width = 2048, .factor = 2.5, .groups = 8, .top_groups = 4};
    spec->context = 4096;
    spec->norm_eps = 1e-6;
    spec->ropes[0] = mc_rope_plain(1e4);
    MC_TRY(mc_family_mla(root, mla, spec));
    return mc_family_grouped_experts(root, experts, 3, spec);
}

MC_FAMILY(deepseek_v3, read_spec, MC_NAMES("deepseek_v3", "kimi_k2"),
          MC_NAMES("DeepseekV3ForCausalLM"),
          .tensors = MC_NAMES("self_attn.kv_a_proj_with_mqa.weight"));
