/* Llama 2 and 3, and models derived from them (DeepSeek R1's distillates): meta-llama and others.
 *
 * The plain topology: two norms a layer, silu, one RoPE, which Llama 3.1 and later stretch.
 *
 * Source: arXiv:2307.09288, arXiv:2407.21783; the defaults of transformers 5. */
#include "model/family.h"

mica_status mc_family_llama_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    bool attention_bias = false, mlp_bias = false;
    spec->context = 2048;
    spec->norm_eps = 1e-6;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &attention_bias));
    MC_TRY(mc_config_bool(root, "mlp_bias", MC_OPTIONAL, &mlp_bias));
    mc_family_biases(spec, attention_bias, attention_bias, mlp_bias);
    return MICA_OK;
}

MC_FAMILY(llama, mc_family_llama_spec, MC_NAMES("llama"), MC_NAMES("LlamaForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_proj.weight", "post_attention_layernorm.weight"),
          .chat = "llama3");
