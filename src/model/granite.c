/* Granite 3, dense: ibm-granite/granite-3.*.
 *
 * As Llama, with factors of embeddings, scores, what layers add to the stream, and logits.
 *
 * Source: the defaults of transformers 5. */
#include "model/family.h"

mica_status mc_family_granite_factors(const mc_config_scope *root, mc_decoder_spec *spec) {
    double divisor = 1.0, added = 1.0, scale = 1.0;
    MC_TRY(
        mc_config_float(root, "embedding_multiplier", MC_OPTIONAL, 1e-6, 1e6, &spec->embed_scale));
    MC_TRY(mc_config_float(root, "attention_multiplier", MC_OPTIONAL, 1e-6, 1e6, &scale));
    MC_TRY(mc_config_float(root, "residual_multiplier", MC_OPTIONAL, 1e-6, 1e6, &added));
    MC_TRY(mc_config_float(root, "logits_scaling", MC_OPTIONAL, 1e-6, 1e6, &divisor));
    spec->blocks[MC_PLAIN_ATTENTION].attention.scale = scale;
    for (int i = 0; i < spec->n_blocks; i++)
        spec->blocks[i].factor = added;
    if (divisor != 1.0) spec->logit_scale = 1.0 / divisor;
    return MICA_OK;
}

mica_status mc_family_multiplied(const mc_config_scope *root, mc_decoder_spec *spec) {
    MC_TRY(mc_family_llama_spec(root, spec));
    return mc_family_granite_factors(root, spec);
}

MC_FAMILY(granite, mc_family_multiplied, MC_NAMES("granite"), MC_NAMES("GraniteForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_proj.weight", "post_attention_layernorm.weight"));
