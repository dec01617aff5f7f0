/* LFM2 and LFM2.5, dense: LiquidAI/LFM2-*.
 *
 * Short convolutions, and attention in some layers, as Qwen 3's. The last norm is called
 * embedding_norm. The MLP's width is what is left of block_ff_dim after an adjustment.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

static const mc_layer_type types[] = {{"conv", 0}, {"full_attention", 1}, {NULL, 0}};

/* Whether each layer has attention: layer_types, else full_attn_idxs, else all have. */
static mica_status read_types(const mc_config_scope *root, mc_decoder_spec *spec, int *attention) {
    int64_t at[MC_MAX_LAYERS];
    size_t n = 0;
    bool listed = mc_config_has(root, "full_attn_idxs");
    MC_TRY(mc_config_ints(root, "full_attn_idxs", MC_OPTIONAL, 0, spec->n_layers - 1, at,
                          MC_MAX_LAYERS, &n));
    for (int i = 0; i < spec->n_layers; i++)
        attention[i] = !listed;
    for (size_t i = 0; i < n; i++)
        attention[at[i]] = 1;
    return mc_family_layer_types(root, "layer_types", types, spec, attention);
}

static mica_status read_width(const mc_config_scope *root, mc_decoder_spec *spec) {
    int64_t width = spec->intermediate, multiple = 256;
    double factor = 1.0;
    bool adjust = true;
    MC_TRY(mc_config_int(root, "block_ff_dim", MC_OPTIONAL, 1, MC_MAX_WIDTH, &width));
    MC_TRY(mc_config_bool(root, "block_auto_adjust_ff_dim", MC_OPTIONAL, &adjust));
    MC_TRY(mc_config_int(root, "block_multiple_of", MC_OPTIONAL, 1, MC_MAX_WIDTH, &multiple));
    MC_TRY(mc_config_float(root, "block_ffn_dim_multiplier", MC_OPTIONAL, 1e-3, 1e3, &factor));
    if (adjust) {
        width = (int64_t)(factor * (double)(2 * width / 3));
        width = (width + multiple - 1) / multiple * multiple;
    }
    if (width < 1 || width > MC_MAX_WIDTH)
        return mc_config_fail(root, "block_ff_dim", MICA_EFORMAT, "an MLP of a width of %lld",
                              (long long)width);
    spec->blocks[MC_PLAIN_MLP].gated.width = spec->intermediate = width;
    return MICA_OK;
}

/* mlx-lm's names of the MLP, in files with experts. */
static const mc_form converted = {.names = {[MC_GATED_GATE] = "feed_forward.gate_proj",
                                            [MC_GATED_UP] = "feed_forward.up_proj",
                                            [MC_GATED_DOWN] = "feed_forward.down_proj"}};

mica_status mc_family_lfm(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->context = 128000;
    spec->norm_eps = 1e-5;
    spec->ropes[0] = mc_rope_plain(1e6);
    MC_TRY(mc_config_float(root, "norm_eps", MC_OPTIONAL, 1e-12, 1.0, &spec->norm_eps));
    MC_TRY(mc_family_plain(root, spec));
    spec->names.norm = "embedding_norm";
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION],
                  *mlp = &spec->blocks[MC_PLAIN_MLP];
    mc_block_use(attention, MC_ATTENTION_Q_NORM);
    mc_block_use(attention, MC_ATTENTION_K_NORM);
    attention->names[MC_BLOCK_NORM] = "operator_norm";
    mlp->names[MC_BLOCK_NORM] = "ffn_norm";
    mlp->names[MC_GATED_GATE] = "feed_forward.w1";
    mlp->names[MC_GATED_UP] = "feed_forward.w3";
    mlp->names[MC_GATED_DOWN] = "feed_forward.w2";
    mlp->forms = &converted;
    mlp->n_forms = 1;
    return MICA_OK;
}

mica_status mc_family_short_conv(const mc_config_scope *root, int64_t taps, mc_decoder_spec *spec,
                                 int *block) {
    bool bias = false;
    MC_TRY(mc_config_int(root, "conv_L_cache", MC_OPTIONAL, 2, 1024, &taps));
    MC_TRY(mc_config_bool(root, "conv_bias", MC_OPTIONAL, &bias));
    *block = mc_spec_add(spec, &mc_block_short_conv);
    mc_block_spec *conv = &spec->blocks[*block];
    conv->short_conv.taps = taps;
    conv->n_carried = 1;
    conv->carried[0] = (mc_carried){MICA_F32, 2, {taps - 1, spec->hidden}};
    if (!bias) return MICA_OK;
    mc_block_use(conv, MC_SHORT_CONV_BIAS);
    conv->biases = (uint64_t)1 << MC_SHORT_CONV_IN | (uint64_t)1 << MC_SHORT_CONV_OUT;
    return MICA_OK;
}

mica_status mc_family_lfm2_layers(const mc_config_scope *root, mc_decoder_spec *spec) {
    int attention[MC_MAX_LAYERS], conv;
    MC_TRY(mc_family_lfm(root, spec));
    MC_TRY(read_types(root, spec, attention));
    MC_TRY(mc_family_short_conv(root, 3, spec, &conv));
    mc_block_spec *b = &spec->blocks[MC_PLAIN_ATTENTION];
    b->names[MC_ATTENTION_O] = "self_attn.out_proj";
    b->names[MC_ATTENTION_Q_NORM] = "self_attn.q_layernorm";
    b->names[MC_ATTENTION_K_NORM] = "self_attn.k_layernorm";
    for (int i = 0; i < spec->n_layers; i++)
        if (!attention[i]) spec->layers[i].blocks[0] = (uint8_t)conv;
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    if (mc_config_has(root, "block_ff_dim")) spec->intermediate = 1; /* read_width reads it */
    MC_TRY(mc_family_lfm2_layers(root, spec));
    return read_width(root, spec);
}

MC_FAMILY(lfm2, read_spec, MC_NAMES("lfm2"), MC_NAMES("Lfm2ForCausalLM"),
          .tensors = MC_NAMES("operator_norm.weight", "feed_forward.w1.weight"), .chat = "chatml");
