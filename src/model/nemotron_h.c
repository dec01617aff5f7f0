/* Nemotron H and Nemotron 3: nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B and others.
 *
 * Each layer has one block: Mamba-2, attention without positions, experts, or an MLP. The last two
 * have no gates and square what is positive. The decoder is called backbone.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

enum { MAMBA, ATTENTION, EXPERTS, MLP, KINDS };

static const mc_layer_type types[] = {{"linear_attention", MAMBA},
                                      {"full_attention", ATTENTION},
                                      {"moe", EXPERTS},
                                      {"mlp", MLP},
                                      {NULL, 0}};

static const mc_mamba2_keys mamba_keys = {.heads = "mamba_num_heads",
                                          .head_dim = "mamba_head_dim",
                                          .groups = "n_groups",
                                          .state = "ssm_state_size",
                                          .taps = "conv_kernel",
                                          .kernel_bias = "use_conv_bias",
                                          .bias = "mamba_proj_bias"};

static mica_status read_kinds(const mc_config_scope *root, const mc_decoder_spec *spec,
                              int *kinds) {
    MC_TRY(mc_family_layer_types(root, "hybrid_override_pattern", types, spec, kinds));
    MC_TRY(mc_family_layer_types(root, "layers_block_type", types, spec, kinds));
    return mc_family_layer_types(root, "layer_types", types, spec, kinds);
}

static mica_status add_mamba(const mc_config_scope *root, mc_decoder_spec *spec, int *block) {
    static const char *const names[MC_MAMBA2_SLOTS] = {
        [MC_BLOCK_NORM] = "norm",
        [MC_MAMBA2_IN] = "mixer.in_proj",
        [MC_MAMBA2_KERNEL] = "mixer.conv1d",
        [MC_MAMBA2_BIAS] = "mixer.conv1d.bias",
        [MC_MAMBA2_A_LOG] = "mixer.A_log",
        [MC_MAMBA2_D] = "mixer.D",
        [MC_MAMBA2_DT_BIAS] = "mixer.dt_bias",
        [MC_MAMBA2_INNER_NORM] = "mixer.norm",
        [MC_MAMBA2_OUT] = "mixer.out_proj",
    };
    mc_mamba2_spec m = {.heads = 128, .head_dim = 64, .groups = 8, .state = 128, .taps = 4};
    MC_TRY(mc_family_mamba2(root, &mamba_keys, m, spec, block));
    mc_block_spec *mamba = &spec->blocks[*block];
    for (int i = 0; i < MC_MAMBA2_SLOTS; i++)
        if (mamba->names[i]) mamba->names[i] = names[i];
    return MICA_OK;
}

static mica_status add_experts(const mc_config_scope *root, mc_decoder_spec *spec, int *block) {
    static const mc_expert_keys keys = {"n_routed_experts", "num_experts_per_tok",
                                        "moe_intermediate_size"};
    static const mc_form listed = {.names = {[MC_EXPERTS_UP] = "mixer.experts.*.up_proj",
                                             [MC_EXPERTS_DOWN] = "mixer.experts.*.down_proj"}};
    static const char *const names[MC_EXPERTS_SLOTS] = {
        [MC_BLOCK_NORM] = "norm",
        [MC_EXPERTS_ROUTER] = "mixer.gate",
        [MC_EXPERTS_CHOICE] = "mixer.gate.e_score_correction_bias",
        [MC_EXPERTS_UP] = "mixer.switch_mlp.fc1",
        [MC_EXPERTS_DOWN] = "mixer.switch_mlp.fc2",
        [MC_EXPERTS_SHARED_UP] = "mixer.shared_experts.up_proj",
        [MC_EXPERTS_SHARED_DOWN] = "mixer.shared_experts.down_proj",
    };
    bool renormalised = true;
    *block = mc_spec_add(spec, &mc_block_experts);
    mc_block_spec *experts = &spec->blocks[*block];
    mc_experts_spec *e = &experts->experts;
    *e = (mc_experts_spec){.count = 8,
                           .picks = 2,
                           .width = 7688,
                           .shared_width = 7688,
                           .activation = MC_RELU2,
                           .scoring = MC_SCORE_SIGMOID,
                           .least_sum = 1e-20,
                           .factor = 1};
    MC_TRY(mc_family_experts(root, &keys, experts));
    MC_TRY(mc_family_expert_groups(root, e));
    MC_TRY(mc_config_int(root, "moe_shared_expert_intermediate_size", MC_OPTIONAL, 1, MC_MAX_WIDTH,
                         &e->shared_width));
    MC_TRY(mc_config_bool(root, "norm_topk_prob", MC_OPTIONAL, &renormalised));
    MC_TRY(mc_config_float(root, "routed_scaling_factor", MC_OPTIONAL, 1e-6, 1e6, &e->factor));
    e->renormalised = renormalised;
    for (int i = 0; i < MC_EXPERTS_SLOTS; i++)
        experts->names[i] = names[i];
    experts->forms = &listed;
    experts->n_forms = 1;
    return MICA_OK;
}

static void name_plain(mc_decoder_spec *spec) {
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION],
                  *mlp = &spec->blocks[MC_PLAIN_MLP];
    spec->names.embed = "embeddings";
    spec->names.norm = "norm_f";
    attention->attention.rope = MC_NO_ROPE;
    attention->names[MC_BLOCK_NORM] = "norm";
    attention->names[MC_ATTENTION_Q] = "mixer.q_proj";
    attention->names[MC_ATTENTION_K] = "mixer.k_proj";
    attention->names[MC_ATTENTION_V] = "mixer.v_proj";
    attention->names[MC_ATTENTION_O] = "mixer.o_proj";
    mlp->gated.activation = MC_RELU2;
    mlp->names[MC_BLOCK_NORM] = "norm";
    mlp->names[MC_GATED_GATE] = NULL;
    mlp->names[MC_GATED_UP] = "mixer.up_proj";
    mlp->names[MC_GATED_DOWN] = "mixer.down_proj";
}

static mica_status check_activation(const mc_config_scope *root) {
    mc_str name = MC_STR("relu2");
    MC_TRY(mc_config_str(root, "mlp_hidden_act", MC_OPTIONAL, &name));
    if (mc_str_is(name, "relu2")) return MICA_OK;
    return mc_config_fail(root, "mlp_hidden_act", MICA_EUNSUPPORTED,
                          "activation \"%.*s\"; that which mica knows here: relu2",
                          MC_STR_ARG(name));
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    int kinds[MC_MAX_LAYERS] = {MAMBA}, blocks[KINDS] = {0};
    int64_t latent = 0;
    bool attention_bias = false, mlp_bias = false;
    spec->context = 4096;
    spec->norm_eps = 1e-5;
    MC_TRY(mc_config_float(root, "layer_norm_epsilon", MC_OPTIONAL, 1e-12, 1.0, &spec->norm_eps));
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &attention_bias));
    MC_TRY(mc_config_bool(root, "mlp_bias", MC_OPTIONAL, &mlp_bias));
    MC_TRY(mc_config_int(root, "moe_latent_size", MC_OPTIONAL, 0, MC_MAX_WIDTH, &latent));
    if (latent)
        return mc_config_fail(root, "moe_latent_size", MICA_EUNSUPPORTED,
                              "experts behind a latent projection");
    MC_TRY(check_activation(root));
    name_plain(spec);
    mc_family_biases(spec, attention_bias, attention_bias, mlp_bias);
    blocks[ATTENTION] = MC_PLAIN_ATTENTION;
    blocks[MLP] = MC_PLAIN_MLP;
    MC_TRY(read_kinds(root, spec, kinds));
    MC_TRY(add_mamba(root, spec, &blocks[MAMBA]));
    MC_TRY(add_experts(root, spec, &blocks[EXPERTS]));
    for (int i = 0; i < spec->n_layers; i++)
        spec->layers[i] = (mc_layer_spec){.count = 1, .blocks = {(uint8_t)blocks[kinds[i]]}};
    return MICA_OK;
}

MC_FAMILY(nemotron_h, read_spec, MC_NAMES("nemotron_h"), MC_NAMES("NemotronHForCausalLM"),
          .tensors = MC_NAMES("mixer.in_proj.weight", "mixer.A_log"), .chat = "chatml");
