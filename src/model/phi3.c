/* Phi 3, 3.5, 4: microsoft/Phi-3*, Phi-3.5*, Phi-4*.
 *
 * As Llama, with q, k and v in one matrix, gate and up in another, and for long contexts RoPE by
 * longrope, of a part of each head.
 *
 * Source: arXiv:2404.14219; the defaults of transformers 5. */
#include "model/family.h"

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->context = 4096;
    spec->norm_eps = 1e-5;
    MC_TRY(mc_family_plain(root, spec));
    mc_block_use_joined(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_QKV, MC_ATTENTION_Q,
                        MC_ATTENTION_V);
    mc_block_use_joined(&spec->blocks[MC_PLAIN_MLP], MC_GATED_GATE_UP, MC_GATED_GATE, MC_GATED_UP);
    return mc_family_window(root, 0, spec);
}

MC_FAMILY(phi3, read_spec, MC_NAMES("phi3"), MC_NAMES("Phi3ForCausalLM"),
          .tensors = MC_NAMES("self_attn.qkv_proj.weight", "mlp.gate_up_proj.weight"));
