/* Qwen 2 and 2.5, and models derived from them (DeepSeek R1's distillates): Qwen/Qwen2*.
 *
 * As Llama, with biases on queries, keys and values. If use_sliding_window is true, the layers from
 * max_window_layers on have a sliding window.
 *
 * Source: arXiv:2407.10671, arXiv:2412.15115; the defaults of transformers 5. */
#include "model/family.h"

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->context = 32768;
    spec->norm_eps = 1e-6;
    MC_TRY(mc_family_plain(root, spec));
    mc_family_biases(spec, true, false, false);
    return mc_family_late_windows(root, spec);
}

MC_FAMILY(qwen2, read_spec, MC_NAMES("qwen2"), MC_NAMES("Qwen2ForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_proj.bias", "self_attn.k_proj.bias"), .chat = "chatml");
