/* LFM3: LiquidAI/LFM3-*.
 *
 * As LFM2, with norms behind the operators and the MLP, a gate for each head of attention, windows
 * in some of the layers with attention, and a RoPE for each kind.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

enum { CONV, FULL, SLIDING };
enum { GLOBAL, LOCAL }; /* indices of mc_decoder_spec.ropes */

static mica_status read_types(const mc_config_scope *root, mc_decoder_spec *spec, int *kinds) {
    static const mc_layer_type types[] = {
        {"conv", CONV}, {"full_attention", FULL}, {"sliding_attention", SLIDING}, {NULL, 0}};
    static const int usual[] = {SLIDING, CONV, FULL, CONV};
    for (int i = 0; i < spec->n_layers; i++)
        kinds[i] = i ? usual[i % 4] : CONV;
    return mc_family_layer_types(root, "layer_types", types, spec, kinds);
}

static mica_status read_options(const mc_config_scope *root, mc_decoder_spec *spec) {
    bool norms = true, gate = true;
    MC_TRY(mc_config_bool(root, "use_sandwich_norm", MC_OPTIONAL, &norms));
    MC_TRY(mc_config_bool(root, "use_attention_gate", MC_OPTIONAL, &gate));
    if (gate) mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_GATE);
    if (!norms) return MICA_OK;
    spec->blocks[MC_PLAIN_ATTENTION].names[MC_BLOCK_POST_NORM] = "post_operator_norm";
    spec->blocks[MC_PLAIN_MLP].names[MC_BLOCK_POST_NORM] = "post_ffn_norm";
    return MICA_OK;
}

static mica_status read_ropes(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_rope_spec *global = &spec->ropes[GLOBAL];
    *global = mc_rope_plain(1e6);
    global->kind = MC_ROPE_PROPORTIONAL;
    spec->ropes[LOCAL] = mc_rope_plain(1e4);
    MC_TRY(mc_family_rope(root, spec, "full_attention", global));
    if (global->kind == MC_ROPE_PROPORTIONAL && global->partial == 0) global->partial = 0.5;
    return mc_family_unscaled_rope(root, spec, "sliding_attention", &spec->ropes[LOCAL]);
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    int kinds[MC_MAX_LAYERS], conv;
    int64_t window = 256;
    spec->head_dim = 128;
    MC_TRY(mc_family_lfm(root, spec));
    MC_TRY(read_options(root, spec));
    MC_TRY(read_ropes(root, spec));
    MC_TRY(read_types(root, spec, kinds));
    MC_TRY(mc_config_int(root, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    MC_TRY(mc_family_short_conv(root, 7, spec, &conv));
    spec->blocks[conv].names[MC_BLOCK_POST_NORM] =
        spec->blocks[MC_PLAIN_ATTENTION].names[MC_BLOCK_POST_NORM];
    for (int i = 0; i < spec->n_layers; i++) {
        if (kinds[i] == CONV) spec->layers[i].blocks[0] = (uint8_t)conv;
        if (kinds[i] == SLIDING) mc_family_vary(spec, i, window, LOCAL);
    }
    return MICA_OK;
}

MC_FAMILY(lfm3, read_spec, MC_NAMES("lfm3"), MC_NAMES("Lfm3ForCausalLM"),
          .tensors = MC_NAMES("operator_norm.weight", "post_operator_norm.weight"),
          .chat = "chatml");
