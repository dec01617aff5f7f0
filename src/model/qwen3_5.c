/* Qwen 3.5, 3.6 and 3.8, dense: Qwen/Qwen3.5-*.
 *
 * Gated delta nets, and in every fourth layer attention with a gate of its output, norms of queries
 * and keys, and RoPE of a quarter of each head. Norms of the hub's files hold w - 1, but for that
 * within the delta net; mlx-lm's hold w.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

static const mc_layer_type types[] = {{"linear_attention", 0}, {"full_attention", 1}, {NULL, 0}};

/* Whether each layer has attention: layer_types, else every n-th. */
static mica_status read_types(const mc_config_scope *text, mc_decoder_spec *spec, int *attention) {
    int64_t interval = 4;
    MC_TRY(
        mc_config_int(text, "full_attention_interval", MC_OPTIONAL, 1, MC_MAX_LAYERS, &interval));
    for (int i = 0; i < spec->n_layers; i++)
        attention[i] = (i + 1) % interval == 0;
    return mc_family_layer_types(text, "layer_types", types, spec, attention);
}

static mica_status read_sizes(const mc_config_scope *text, mc_delta_net_spec *d) {
    const int64_t max = 1 << 16;
    MC_TRY(mc_config_int(text, "linear_num_key_heads", MC_OPTIONAL, 1, max, &d->key_heads));
    MC_TRY(mc_config_int(text, "linear_num_value_heads", MC_OPTIONAL, 1, max, &d->value_heads));
    MC_TRY(mc_config_int(text, "linear_key_head_dim", MC_OPTIONAL, 1, 4096, &d->key_dim));
    MC_TRY(mc_config_int(text, "linear_value_head_dim", MC_OPTIONAL, 1, 4096, &d->value_dim));
    MC_TRY(mc_config_int(text, "linear_conv_kernel_dim", MC_OPTIONAL, 2, 1024, &d->taps));
    if (d->value_heads % d->key_heads == 0) return MICA_OK;
    return mc_config_fail(text, "linear_num_key_heads", MICA_EFORMAT,
                          "%lld does not divide the %lld value heads", (long long)d->key_heads,
                          (long long)d->value_heads);
}

mica_status mc_family_delta_net(const mc_config_scope *text, mc_decoder_spec *spec, int *block) {
    int attention[MC_MAX_LAYERS];
    mc_delta_net_spec d = {16, 32, 128, 128, 4};
    MC_TRY(read_sizes(text, &d));
    MC_TRY(read_types(text, spec, attention));
    *block = mc_spec_add(spec, &mc_block_delta_net);
    mc_block_spec *net = &spec->blocks[*block];
    net->delta_net = d;
    net->n_carried = 2;
    net->carried[0] = (mc_carried){
        MICA_F32, 2, {d.taps - 1, 2 * d.key_heads * d.key_dim + d.value_heads * d.value_dim}};
    net->carried[1] = (mc_carried){MICA_F32, 3, {d.value_heads, d.key_dim, d.value_dim}};
    for (int i = 0; i < spec->n_layers; i++)
        if (!attention[i]) spec->layers[i].blocks[0] = (uint8_t)*block;
    return MICA_OK;
}

mica_status mc_family_gated_qwen(const mc_config_scope *root, const mc_config_scope *text,
                                 mc_decoder_spec *spec) {
    bool bias = false;
    spec->context = 262144;
    spec->norm_eps = 1e-6;
    spec->norm_offset = spec->converted ? 0.0 : 1.0;
    spec->head_dim = 256;
    spec->query_rows = 0; /* those of the gate are among them */
    spec->ropes[0] = mc_rope_plain(1e4);
    spec->ropes[0].partial = 0.25;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(text, "attention_bias", MC_OPTIONAL, &bias));
    mc_family_biases(spec, bias, bias, false);
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION];
    mc_block_use(attention, MC_ATTENTION_Q_NORM);
    mc_block_use(attention, MC_ATTENTION_K_NORM);
    attention->attention.gated = 1;
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_config_scope text;
    int net;
    MC_TRY(mc_family_text(root, &text));
    MC_TRY(mc_family_gated_qwen(root, &text, spec));
    MC_TRY(mc_family_delta_net(&text, spec, &net));
    mc_block_use_all(&spec->blocks[net], MC_DELTA_NET_QKV, MC_DELTA_NET_B);
    return MICA_OK;
}

MC_FAMILY(qwen3_5, read_spec, MC_NAMES("qwen3_5", "qwen3_5_text"),
          MC_NAMES("Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"),
          .tensors = MC_NAMES("linear_attn.in_proj_qkv.weight", "mlp.up_proj.weight"),
          .chat = "chatml");
