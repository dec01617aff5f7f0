/* Mistral 7B, Nemo, Small: mistralai/Mistral-*.
 *
 * As Llama, with a head_dim that the config may set, and a window on every layer of the first ones.
 *
 * Source: arXiv:2310.06825; the defaults of transformers 5. */
#include "model/family.h"

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->context = 131072;
    spec->norm_eps = 1e-6;
    MC_TRY(mc_family_plain(root, spec));
    return mc_family_window(root, 4096, spec);
}

const mc_family mc_family_mistral = {
    .name = "mistral",
    .model_types = (const char *const[]){"mistral", NULL},
    .architectures = (const char *const[]){"MistralForCausalLM", NULL},
    .tensors =
        (const char *const[]){"self_attn.q_proj.weight", "post_attention_layernorm.weight", NULL},
    .read = read_spec,
};
