/* Qwen 3, dense: Qwen/Qwen3-*.
 *
 * As Llama, with norms of queries and keys, and a head_dim that the config sets.
 *
 * Source: arXiv:2505.09388; the defaults of transformers 5. */
#include "model/family.h"

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    bool bias = false;
    spec->context = 32768;
    spec->norm_eps = 1e-6;
    spec->head_dim = 128;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &bias));
    mc_family_biases(spec, bias, bias, false);
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_Q_NORM);
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_K_NORM);
    return mc_family_late_windows(root, spec);
}

MC_FAMILY(qwen3, read_spec, MC_NAMES("qwen3"), MC_NAMES("Qwen3ForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_norm.weight", "self_attn.k_norm.weight"),
          .chat = "chatml");
