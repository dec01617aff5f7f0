/* Nomic's BERT: nomic-ai/nomic-embed-text-v1 and v1.5.
 *
 * An encoder as BERT, with RoPE in the place of learned positions, gated MLPs, and no biases but of
 * norms. Nomic's own config has the keys of GPT-2.
 *
 * Source: Nussbaum et al. 2024 (arXiv:2402.01613); the behaviour of transformers 5. */
#include "model/family.h"

static const mc_decoder_names names = {
    .embed = "embeddings.word_embeddings",
    .head = "lm_head",
    .layers = "encoder.layers",
    .embed_norm = "emb_ln",
    .types = "embeddings.token_type_embeddings",
};

/* What mica computes is what these keys say where they are absent. */
static mica_status check(const mc_config_scope *root) {
    bool prenorm = false, interleaved = false;
    double rotated = 1.0, scaling = 0.0;
    int64_t experts = 0;
    mc_str activation = MC_STR("swiglu");
    MC_TRY(mc_config_bool(root, "prenorm", MC_OPTIONAL, &prenorm));
    MC_TRY(mc_config_float(root, "rotary_emb_fraction", MC_OPTIONAL, 0.0, 1.0, &rotated));
    MC_TRY(mc_config_bool(root, "rotary_emb_interleaved", MC_OPTIONAL, &interleaved));
    MC_TRY(mc_config_float(root, "rotary_scaling_factor", MC_OPTIONAL, 0.0, 1e6, &scaling));
    MC_TRY(mc_config_int(root, "moe_every_n_layers", MC_OPTIONAL, 0, INT32_MAX, &experts));
    MC_TRY(mc_config_str(root, "activation_function", MC_OPTIONAL, &activation));
    const char *other = prenorm                           ? "prenorm"
                        : rotated != 1.0                  ? "rotary_emb_fraction"
                        : interleaved                     ? "rotary_emb_interleaved"
                        : scaling != 0.0                  ? "rotary_scaling_factor"
                        : experts                         ? "moe_every_n_layers"
                        : mc_str_is(activation, "swiglu") ? NULL
                                                          : "activation_function";
    if (!other) return MICA_OK;
    return mc_config_fail(root, other, MICA_EUNSUPPORTED,
                          "mica knows norms after the sums, unscaled RoPE of whole heads by "
                          "halves, and one gated MLP");
}

/* The keys of GPT-2, whose values are the defaults of the usual ones. */
static mica_status read_old(const mc_config_scope *root, mc_decoder_spec *spec) {
    const int64_t max = MC_MAX_WIDTH;
    int64_t layers = 12;
    MC_TRY(mc_config_int(root, "n_embd", MC_OPTIONAL, 1, max, &spec->hidden));
    MC_TRY(mc_config_int(root, "n_inner", MC_OPTIONAL, 1, max, &spec->intermediate));
    MC_TRY(mc_config_int(root, "n_layer", MC_OPTIONAL, 1, MC_MAX_LAYERS, &layers));
    MC_TRY(mc_config_int(root, "n_head", MC_OPTIONAL, 1, max, &spec->heads));
    MC_TRY(mc_config_int(root, "n_positions", MC_OPTIONAL, 1, INT32_MAX, &spec->context));
    MC_TRY(mc_config_float(root, "layer_norm_epsilon", MC_OPTIONAL, 1e-20, 1.0, &spec->norm_eps));
    MC_TRY(mc_config_float(root, "rotary_emb_base", MC_OPTIONAL, 1.0, 1e12, &spec->ropes[0].base));
    spec->n_layers = (int)layers;
    return MICA_OK;
}

static void name_blocks(mc_decoder_spec *spec) {
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION],
                  *mlp = &spec->blocks[MC_PLAIN_MLP];
    mc_block_use_joined(attention, MC_ATTENTION_QKV, MC_ATTENTION_Q, MC_ATTENTION_V);
    attention->names[MC_BLOCK_NORM] = "norm1";
    attention->names[MC_ATTENTION_QKV] = "attn.Wqkv";
    attention->names[MC_ATTENTION_O] = "attn.out_proj";
    mlp->names[MC_BLOCK_NORM] = "norm2";
    mlp->names[MC_GATED_GATE] = "mlp.fc12";
    mlp->names[MC_GATED_UP] = "mlp.fc11";
    mlp->names[MC_GATED_DOWN] = "mlp.fc2";
    attention->centred = attention->norm_last = mlp->centred = mlp->norm_last = true;
}

static mica_status read_biases(const mc_config_scope *root, mc_decoder_spec *spec) {
    const uint64_t one = 1, norm = one << MC_BLOCK_NORM;
    bool qkv = false, in = false, out = false;
    MC_TRY(mc_config_bool(root, "qkv_proj_bias", MC_OPTIONAL, &qkv));
    MC_TRY(mc_config_bool(root, "mlp_fc1_bias", MC_OPTIONAL, &in));
    MC_TRY(mc_config_bool(root, "mlp_fc2_bias", MC_OPTIONAL, &out));
    spec->blocks[MC_PLAIN_ATTENTION].biases =
        norm | (qkv ? one << MC_ATTENTION_QKV | one << MC_ATTENTION_O : 0);
    spec->blocks[MC_PLAIN_MLP].biases = norm |
                                        (in ? one << MC_GATED_GATE | one << MC_GATED_UP : 0) |
                                        (out ? one << MC_GATED_DOWN : 0);
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->hidden = 768;
    spec->intermediate = 3072;
    spec->heads = 12;
    spec->context = 2048;
    spec->types = 2;
    spec->embed_scale = 1.0;
    spec->norm_eps = 1e-12;
    spec->both_ways = spec->centred = spec->norm_bias = true;
    spec->names = names;
    spec->ropes[0] = mc_rope_plain(1000.0);
    MC_TRY(check(root));
    MC_TRY(read_old(root, spec));
    MC_TRY(mc_config_float(root, "layer_norm_eps", MC_OPTIONAL, 1e-20, 1.0, &spec->norm_eps));
    MC_TRY(mc_family_sizes(root, root, spec));
    MC_TRY(mc_config_int(root, "type_vocab_size", MC_OPTIONAL, 0, MC_MAX_WIDTH, &spec->types));
    if (!spec->types) spec->names.types = NULL;
    spec->tied = MC_TIED_YES;
    mc_family_layers(spec);
    name_blocks(spec);
    MC_TRY(read_biases(root, spec));
    return mc_family_rope(root, spec, NULL, &spec->ropes[0]);
}

MC_FAMILY(nomic_bert, read_spec, MC_NAMES("nomic_bert"), MC_NAMES("NomicBertModel"),
          .tensors = MC_NAMES("attn.Wqkv.weight", "mlp.fc11.weight"));
