/* Mistral and Ministral: mistralai/Mistral-*, Ministral-*, Devstral-*; the text part of Mistral 3.
 *
 * As Llama, with a head_dim that the config may set, and a window on every layer of the first ones.
 * Ministral 3 stretches RoPE by yarn, and scales queries by their position.
 *
 * Source: arXiv:2310.06825; the defaults of transformers 5. */
#include "model/family.h"

/* What is inside "mistral3". */
static mica_status check_type(const mc_config_scope *text, bool *ministral) {
    mc_str type = MC_STR("mistral");
    MC_TRY(mc_config_str(text, "model_type", MC_OPTIONAL, &type));
    *ministral = mc_str_is(type, "ministral3");
    if (*ministral || mc_str_is(type, "mistral")) return MICA_OK;
    return mc_config_fail(text, "model_type", MICA_EUNSUPPORTED,
                          "\"%.*s\"; of those in mistral3 mica knows mistral and ministral3",
                          MC_STR_ARG(type));
}

static mica_status read_growth(const mc_config_scope *text, mc_attention_spec *attention) {
    mc_config_scope rope;
    MC_TRY(mc_config_object(text, "rope_parameters", MC_OPTIONAL, &rope));
    MC_TRY(mc_config_float(&rope, "llama_4_scaling_beta", MC_OPTIONAL, 0, 1e6, &attention->growth));
    if (attention->growth == 0) return MICA_OK;
    return mc_config_int(&rope, "original_max_position_embeddings", MC_REQUIRED, 1, INT32_MAX,
                         &attention->period);
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_config_scope text;
    bool ministral;
    spec->context = 131072;
    spec->norm_eps = 1e-6;
    MC_TRY(mc_family_text(root, &text));
    MC_TRY(check_type(&text, &ministral));
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(read_growth(&text, &spec->blocks[MC_PLAIN_ATTENTION].attention));
    return mc_family_window(&text, ministral ? 0 : 4096, spec);
}

MC_FAMILY(mistral, read_spec, MC_NAMES("mistral", "mistral3", "ministral3"),
          MC_NAMES("MistralForCausalLM", "Mistral3ForConditionalGeneration",
                   "Ministral3ForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_proj.weight", "post_attention_layernorm.weight"));
