/* OLMo 2 and 3: allenai/OLMo-2-*, Olmo-3-*.
 *
 * As Llama, with norms of what attention and MLP give instead of what they get, and norms of
 * queries and keys over all heads at once. OLMo 3 has windows on three layers of four; the others
 * alone stretch RoPE.
 *
 * Source: arXiv:2501.00656; the defaults of transformers 5. */
#include "model/family.h"

enum { FULL, SLIDING }; /* indices of mc_decoder_spec.ropes */

static mica_status read_plain(const mc_config_scope *root, mc_decoder_spec *spec) {
    bool bias = false;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &bias));
    mc_family_biases(spec, bias, bias, false);
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION],
                  *mlp = &spec->blocks[MC_PLAIN_MLP];
    attention->names[MC_BLOCK_NORM] = mlp->names[MC_BLOCK_NORM] = NULL;
    mc_block_use(attention, MC_BLOCK_POST_NORM);
    mc_block_use(mlp, MC_BLOCK_POST_NORM);
    mc_block_use(attention, MC_ATTENTION_Q_NORM);
    mc_block_use(attention, MC_ATTENTION_K_NORM);
    attention->attention.wide_norms = 1;
    return MICA_OK;
}

static mica_status read_olmo2(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->context = 2048;
    spec->norm_eps = 1e-5;
    return read_plain(root, spec);
}

static mica_status read_olmo3(const mc_config_scope *root, mc_decoder_spec *spec) {
    int64_t window = 4096;
    int slides[MC_MAX_LAYERS];
    spec->context = 2048;
    spec->norm_eps = 1e-5;
    spec->ropes[FULL] = mc_rope_plain(5e5);
    MC_TRY(read_plain(root, spec));
    MC_TRY(mc_family_rope(root, spec, "full_attention", &spec->ropes[FULL]));
    spec->ropes[SLIDING] = mc_rope_plain(spec->ropes[FULL].base);
    MC_TRY(mc_family_unscaled_rope(root, spec, "sliding_attention", &spec->ropes[SLIDING]));
    MC_TRY(mc_config_int(root, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    MC_TRY(mc_family_sliding(root, 4, 3, spec, slides));
    for (int i = 0; i < spec->n_layers; i++)
        if (slides[i]) mc_family_vary(spec, i, window, SLIDING);
    return MICA_OK;
}

MC_FAMILY(olmo2, read_olmo2, MC_NAMES("olmo2"), MC_NAMES("Olmo2ForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_norm.weight", "post_feedforward_layernorm.weight"),
          .chat = "chatml");

MC_FAMILY(olmo3, read_olmo3, MC_NAMES("olmo3"), MC_NAMES("Olmo3ForCausalLM"),
          .tensors = MC_NAMES("self_attn.q_norm.weight", "post_feedforward_layernorm.weight"),
          .chat = "chatml");
