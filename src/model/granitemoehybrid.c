/* Granite 4: ibm-granite/granite-4.0-*.
 *
 * Mamba-2, and attention without positions in some layers; experts beside an MLP, or that alone;
 * Granite's factors.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

#include <math.h>

enum { MAMBA, ATTENTION };

static const mc_layer_type types[] = {
    {"linear_attention", MAMBA}, {"full_attention", ATTENTION}, {NULL, 0}};

static const mc_mamba2_keys keys = {.heads = "mamba_n_heads",
                                    .head_dim = "mamba_d_head",
                                    .groups = "mamba_n_groups",
                                    .state = "mamba_d_state",
                                    .taps = "mamba_d_conv",
                                    .kernel_bias = "mamba_conv_bias",
                                    .bias = "mamba_proj_bias"};

/* mlx-lm divides the matrix of gate and up. */
static const mc_form converted = {.names = {[MC_GATED_GATE] = "mlp.gate_proj",
                                            [MC_GATED_UP] = "mlp.up_proj",
                                            [MC_GATED_DOWN] = "mlp.down_proj",
                                            [MC_GATED_GATE_UP] = MC_NO_SLOT}};

/* A head_dim that is absent, or "auto", follows from mamba_expand. */
static mica_status read_mamba(const mc_config_scope *root, mc_decoder_spec *spec, int *block) {
    int64_t expand = 2, heads = 128;
    mc_str automatic = {NULL, 0};
    mc_mamba2_keys own = keys;
    MC_TRY(mc_config_int(root, "mamba_expand", MC_OPTIONAL, 1, 64, &expand));
    MC_TRY(mc_config_int(root, keys.heads, MC_OPTIONAL, 1, 1 << 16, &heads));
    if (mc_json_get_str(mc_json_find(root->object, keys.head_dim), &automatic)) own.head_dim = NULL;
    mc_mamba2_spec m = {.heads = heads,
                        .head_dim = expand * spec->hidden / heads,
                        .groups = 1,
                        .state = 256,
                        .taps = 4,
                        .max_step = INFINITY};
    return mc_family_mamba2(root, &own, m, spec, block);
}

static mica_status read_layers(const mc_config_scope *root, mc_decoder_spec *spec, int mamba) {
    int kinds[MC_MAX_LAYERS] = {MAMBA};
    MC_TRY(mc_family_layer_types(root, "layers_block_type", types, spec, kinds));
    MC_TRY(mc_family_layer_types(root, "layer_types", types, spec, kinds));
    for (int i = 0; i < spec->n_layers; i++)
        if (kinds[i] == MAMBA) spec->layers[i].blocks[0] = (uint8_t)mamba;
    return MICA_OK;
}

static void use_mlp(mc_block_spec *mlp, int64_t width) {
    mlp->gated.width = width;
    mc_block_use_joined(mlp, MC_GATED_GATE_UP, MC_GATED_GATE, MC_GATED_UP);
    mlp->names[MC_GATED_GATE_UP] = "shared_mlp.input_linear";
    mlp->names[MC_GATED_DOWN] = "shared_mlp.output_linear";
    mlp->forms = &converted;
    mlp->n_forms = 1;
}

static mica_status read_experts(const mc_config_scope *root, int64_t width, mc_decoder_spec *spec) {
    mc_block_spec *experts;
    MC_TRY(mc_family_granite_experts(root, spec, &experts));
    experts->experts.shared_width = width;
    experts->names[MC_EXPERTS_SHARED_GATE_UP] = "shared_mlp.input_linear";
    experts->names[MC_EXPERTS_SHARED_DOWN] = "shared_mlp.output_linear";
    return MICA_OK;
}

/* Experts beside a shared MLP, or that alone. */
static mica_status read_mlp(const mc_config_scope *root, mc_decoder_spec *spec) {
    int64_t experts = 8, width = spec->intermediate;
    MC_TRY(mc_config_int(root, "num_local_experts", MC_OPTIONAL, 0, MC_MAX_EXPERTS, &experts));
    MC_TRY(mc_config_int(root, "shared_intermediate_size", MC_OPTIONAL, 1, MC_MAX_WIDTH, &width));
    if (experts) return read_experts(root, width, spec);
    use_mlp(&spec->blocks[MC_PLAIN_MLP], spec->intermediate = width);
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_str positions = {NULL, 0};
    bool bias = false;
    int mamba;
    spec->context = 2048;
    spec->norm_eps = 1e-6;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &bias));
    mc_family_biases(spec, bias, bias, false);
    MC_TRY(mc_config_str(root, "position_embedding_type", MC_OPTIONAL, &positions));
    if (!mc_str_is(positions, "rope")) spec->blocks[MC_PLAIN_ATTENTION].attention.rope = MC_NO_ROPE;
    MC_TRY(read_mlp(root, spec));
    MC_TRY(read_mamba(root, spec, &mamba));
    MC_TRY(read_layers(root, spec, mamba));
    return mc_family_granite_factors(root, spec);
}

MC_FAMILY(granitemoehybrid, read_spec, MC_NAMES("granitemoehybrid"),
          MC_NAMES("GraniteMoeHybridForCausalLM"),
          .tensors = MC_NAMES("mamba.in_proj.weight", "mamba.conv1d.weight"));
