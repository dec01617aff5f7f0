/* Gemma 2: google/gemma-2-*.
 *
 * As Gemma 3, with these differences: queries and keys have no norms; attention scores and logits
 * have soft-caps; there is one RoPE; every other layer has a sliding window, the first one
 * included.
 *
 * Source: Gemma 2 (arXiv:2408.00118); the behaviour and the defaults of transformers 5. */
#include "model/family.h"

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    int64_t window = 4096;
    mc_family_gemma_defaults(spec);
    spec->context = 8192;
    spec->final_softcap = 30.0;
    spec->ropes[0] = mc_rope_plain(1e4);
    MC_TRY(mc_family_gemma(root, root, spec));
    spec->blocks[MC_PLAIN_ATTENTION].attention.soft_cap = 50.0;
    MC_TRY(mc_family_rope(root, spec, NULL, &spec->ropes[0]));
    MC_TRY(mc_family_softcaps(root, spec));
    MC_TRY(mc_config_int(root, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    return mc_family_windows(root, window, 2, spec);
}

MC_FAMILY(gemma2, read_spec, MC_NAMES("gemma2"), MC_NAMES("Gemma2ForCausalLM"),
          .tensors = MC_NAMES("pre_feedforward_layernorm.weight"), .chat = "gemma");
