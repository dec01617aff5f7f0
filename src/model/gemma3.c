/* Gemma 3, text only: google/gemma-3-* and models derived from them, such as EmbeddingGemma, which
 * attends both ways.
 *
 * RMS norms with 1 + w stand before and after attention and MLP. Queries and keys have norms. Five
 * layers with a sliding window are followed by one without; each kind has its own RoPE. Embeddings
 * are scaled by sqrt(hidden). Keys that a config lacks have the defaults of Gemma3TextConfig: the
 * published 4b config gives little more than the sizes.
 *
 * Source: Gemma 3 Technical Report (arXiv:2503.19786); the behaviour of transformers 5. */
#include "model/family.h"

enum { GLOBAL, LOCAL }; /* indices of mc_decoder_spec.ropes */

static void set_defaults(mc_decoder_spec *spec) {
    mc_family_gemma_defaults(spec);
    spec->context = 131072;
    spec->ropes[GLOBAL] = mc_rope_plain(1e6);
    spec->ropes[LOCAL] = mc_rope_plain(1e4);
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_config_scope text;
    int64_t window = 4096, pattern = 6;
    set_defaults(spec);
    MC_TRY(mc_family_text(root, &text));
    MC_TRY(mc_family_gemma(root, &text, spec));
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_Q_NORM);
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_K_NORM);
    MC_TRY(mc_family_gemma_ropes(&text, spec, &spec->ropes[GLOBAL], &spec->ropes[LOCAL]));
    MC_TRY(mc_family_softcaps(&text, spec));
    MC_TRY(mc_config_int(&text, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    MC_TRY(mc_config_int(&text, "sliding_window_pattern", MC_OPTIONAL, 1, INT32_MAX, &pattern));
    MC_TRY(mc_config_bool(&text, "use_bidirectional_attention", MC_OPTIONAL, &spec->both_ways));
    if (spec->both_ways) window = window > 1 ? window / 2 : 1;
    MC_TRY(mc_family_windows(&text, window, pattern, spec));
    spec->blocks[MC_PLAIN_ATTENTION].attention.rope = GLOBAL;
    if (spec->n_blocks > MC_PLAIN_SLIDING) spec->blocks[MC_PLAIN_SLIDING].attention.rope = LOCAL;
    return MICA_OK;
}

MC_FAMILY(gemma3, read_spec, MC_NAMES("gemma3_text", "gemma3"),
          MC_NAMES("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
          .tensors = MC_NAMES("self_attn.q_norm.weight", "pre_feedforward_layernorm.weight"),
          .chat = "gemma");
