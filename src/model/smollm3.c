/* SmolLM 3: HuggingFaceTB/SmolLM3-*.
 *
 * As Llama, with layers that do not rotate, every fourth one, which alone may have windows.
 *
 * Source: the defaults of transformers 5. */
#include "model/family.h"

static mica_status read_rotated(const mc_config_scope *root, const mc_decoder_spec *spec,
                                int64_t *rotated) {
    int64_t interval = 4;
    size_t count = 0;
    MC_TRY(mc_config_int(root, "no_rope_layer_interval", MC_OPTIONAL, 1, INT32_MAX, &interval));
    for (int i = 0; i < spec->n_layers; i++)
        rotated[i] = (i + 1) % interval != 0;
    MC_TRY(
        mc_config_ints(root, "no_rope_layers", MC_OPTIONAL, 0, 1, rotated, MC_MAX_LAYERS, &count));
    if (!count || count == (size_t)spec->n_layers) return MICA_OK;
    return mc_config_fail(root, "no_rope_layers", MICA_EFORMAT,
                          "names %zu layers, num_hidden_layers is %d", count, spec->n_layers);
}

static mica_status read_layers(const mc_config_scope *root, mc_decoder_spec *spec) {
    int64_t rotated[MC_MAX_LAYERS], window = 0;
    int slides[MC_MAX_LAYERS];
    bool windows = false;
    MC_TRY(read_rotated(root, spec, rotated));
    MC_TRY(mc_config_bool(root, "use_sliding_window", MC_OPTIONAL, &windows));
    MC_TRY(mc_config_int(root, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    MC_TRY(mc_family_sliding(root, 1, 0, spec, slides));
    if (!mc_config_has(root, "layer_types"))
        for (int i = 0; i < spec->n_layers; i++)
            slides[i] = windows && !rotated[i];
    for (int i = 0; i < spec->n_layers; i++)
        mc_family_vary(spec, i, slides[i] ? window : 0, rotated[i] ? 0 : MC_NO_ROPE);
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    bool attention_bias = false, mlp_bias = false;
    spec->context = 32768;
    spec->norm_eps = 1e-6;
    spec->ropes[0] = mc_rope_plain(2e6);
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &attention_bias));
    MC_TRY(mc_config_bool(root, "mlp_bias", MC_OPTIONAL, &mlp_bias));
    mc_family_biases(spec, attention_bias, attention_bias, mlp_bias);
    return read_layers(root, spec);
}

MC_FAMILY(smollm3, read_spec, MC_NAMES("smollm3"), MC_NAMES("SmolLM3ForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_proj.weight", "post_attention_layernorm.weight"),
          .chat = "chatml");
