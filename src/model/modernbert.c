/* ModernBERT: answerdotai/ModernBERT-*, gte-modernbert and models derived from them.
 *
 * An encoder with LayerNorms before attention and MLP, but the first attention has none: that of
 * the embeddings is before it. Every third layer attends to all tokens, the others to those within
 * half of local_attention on each side; each kind has its own RoPE. MLPs are gated.
 *
 * Source: Warner et al. 2024 (arXiv:2412.13663); the behaviour of transformers 5. */
#include "model/family.h"

enum { GLOBAL, LOCAL }; /* indices of mc_decoder_spec.ropes */

static const mc_decoder_names names = {
    .embed = "embeddings.tok_embeddings",
    .norm = "final_norm",
    .head = "lm_head",
    .embed_norm = "embeddings.norm",
};

static void set_defaults(mc_decoder_spec *spec) {
    spec->hidden = 768;
    spec->intermediate = 1152;
    spec->n_layers = 22;
    spec->heads = 12;
    spec->context = 8192;
    spec->embed_scale = 1.0;
    spec->norm_eps = 1e-5;
    spec->both_ways = spec->centred = true;
    spec->names = names;
    spec->ropes[GLOBAL] = mc_rope_plain(160000.0);
    spec->ropes[LOCAL] = mc_rope_plain(10000.0);
}

static mica_status read_ropes(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_rope_spec *ropes = spec->ropes;
    MC_TRY(mc_config_float(root, "global_rope_theta", MC_OPTIONAL, 1.0, 1e12, &ropes[GLOBAL].base));
    MC_TRY(mc_config_float(root, "local_rope_theta", MC_OPTIONAL, 1.0, 1e12, &ropes[LOCAL].base));
    MC_TRY(mc_family_unscaled_rope(root, spec, "full_attention", &ropes[GLOBAL]));
    return mc_family_unscaled_rope(root, spec, "sliding_attention", &ropes[LOCAL]);
}

static void name_blocks(mc_decoder_spec *spec) {
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION],
                  *mlp = &spec->blocks[MC_PLAIN_MLP];
    mc_block_use_joined(attention, MC_ATTENTION_QKV, MC_ATTENTION_Q, MC_ATTENTION_V);
    mc_block_use_joined(mlp, MC_GATED_GATE_UP, MC_GATED_GATE, MC_GATED_UP);
    attention->names[MC_BLOCK_NORM] = "attn_norm";
    attention->names[MC_ATTENTION_QKV] = "attn.Wqkv";
    attention->names[MC_ATTENTION_O] = "attn.Wo";
    mlp->names[MC_BLOCK_NORM] = "mlp_norm";
    mlp->names[MC_GATED_GATE_UP] = "mlp.Wi";
    mlp->names[MC_GATED_DOWN] = "mlp.Wo";
    mlp->gated.activation = MC_GELU;
    attention->centred = mlp->centred = true;
}

static mica_status read_biases(const mc_config_scope *root, mc_decoder_spec *spec) {
    const uint64_t one = 1;
    bool attention = false, mlp = false;
    MC_TRY(mc_config_bool(root, "norm_bias", MC_OPTIONAL, &spec->norm_bias));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &attention));
    MC_TRY(mc_config_bool(root, "mlp_bias", MC_OPTIONAL, &mlp));
    uint64_t norm = spec->norm_bias ? one << MC_BLOCK_NORM : 0;
    spec->blocks[MC_PLAIN_ATTENTION].biases =
        norm | (attention ? one << MC_ATTENTION_QKV | one << MC_ATTENTION_O : 0);
    spec->blocks[MC_PLAIN_MLP].biases =
        norm | (mlp ? one << MC_GATED_GATE_UP | one << MC_GATED_DOWN : 0);
    return MICA_OK;
}

static mica_status read_windows(const mc_config_scope *root, mc_decoder_spec *spec) {
    int slides[MC_MAX_LAYERS];
    int64_t local = 128, interval = 3;
    MC_TRY(mc_config_int(root, "local_attention", MC_OPTIONAL, 2, INT32_MAX, &local));
    MC_TRY(mc_config_int(root, "global_attn_every_n_layers", MC_OPTIONAL, 1, INT32_MAX, &interval));
    MC_TRY(mc_family_sliding(root, interval, 0, spec, slides));
    for (int i = 0; i < spec->n_layers; i++)
        mc_family_vary(spec, i, slides[i] ? local / 2 : 0, slides[i] ? LOCAL : GLOBAL);
    return MICA_OK;
}

/* The first attention has no norm of its own. */
static void bare_first(mc_decoder_spec *spec) {
    int first = mc_spec_copy(spec, spec->layers[0].blocks[0]);
    spec->blocks[first].names[MC_BLOCK_NORM] = NULL;
    spec->blocks[first].biases &= ~(UINT64_C(1) << MC_BLOCK_NORM);
    spec->layers[0].blocks[0] = (uint8_t)first;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    set_defaults(spec);
    MC_TRY(mc_config_float(root, "norm_eps", MC_OPTIONAL, 1e-20, 1.0, &spec->norm_eps));
    MC_TRY(mc_family_sizes(root, root, spec));
    spec->tied = MC_TIED_YES;
    MC_TRY(read_ropes(root, spec));
    mc_family_layers(spec);
    name_blocks(spec);
    MC_TRY(mc_family_activation(root, spec));
    MC_TRY(read_biases(root, spec));
    MC_TRY(read_windows(root, spec));
    bare_first(spec);
    return MICA_OK;
}

MC_FAMILY(modernbert, read_spec, MC_NAMES("modernbert"), MC_NAMES("ModernBertModel"),
          .tensors = MC_NAMES("attn.Wqkv.weight", "mlp.Wi.weight"));
