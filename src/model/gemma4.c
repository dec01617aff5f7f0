/* Gemma 4, text only: google/gemma-4-*.
 *
 * As Gemma 3, with these differences: norms are plain; scores are not scaled; values have a norm
 * without weight; full layers have heads of their own size, whose RoPE is proportional, and their
 * values may be their keys; the last layers may read the keys and values of earlier ones, and have
 * a wider MLP then; tokens give each layer an input of its own, where the config has a width for
 * it; experts may stand beside the MLP; each layer ends with a factor.
 *
 * Source: the behaviour and the defaults of transformers 5. */
#include "model/family.h"

enum { GLOBAL, LOCAL, KINDS }; /* of layers, and indices of mc_decoder_spec.ropes */

/* The hub's files have the matrices of all experts in one tensor, gate and up in the same. */
static const mc_form stacked = {
    .names = {[MC_EXPERTS_GATE] = MC_NO_SLOT,
              [MC_EXPERTS_UP] = MC_NO_SLOT,
              [MC_EXPERTS_GATE_UP] = "experts.gate_up_proj",
              [MC_EXPERTS_DOWN] = "experts.down_proj"},
};

static mica_status read_ropes(const mc_config_scope *text, int64_t head_dim,
                              mc_decoder_spec *spec) {
    mc_rope_spec *ropes = spec->ropes;
    ropes[LOCAL] = mc_rope_plain(1e4);
    ropes[GLOBAL] = mc_rope_plain(1e6);
    ropes[GLOBAL].kind = MC_ROPE_PROPORTIONAL;
    ropes[GLOBAL].partial = 0.25;
    ropes[GLOBAL].head_dim = head_dim;
    MC_TRY(mc_family_unscaled_rope(text, spec, "sliding_attention", &ropes[LOCAL]));
    return mc_family_unscaled_rope(text, spec, "full_attention", &ropes[GLOBAL]);
}

/* The heads of full layers, which have those of the others so far. */
static mica_status read_full(const mc_config_scope *text, mc_block_spec *block) {
    mc_attention_spec *a = &block->attention;
    bool same = false;
    a->head_dim = 512;
    MC_TRY(mc_config_int(text, "global_head_dim", MC_OPTIONAL, 2, MC_MAX_WIDTH, &a->head_dim));
    if (a->head_dim % 2 != 0)
        return mc_config_fail(text, "global_head_dim", MICA_EFORMAT, "%lld is not even",
                              (long long)a->head_dim);
    MC_TRY(mc_config_bool(text, "attention_k_eq_v", MC_OPTIONAL, &same));
    if (!same) return MICA_OK;
    block->names[MC_ATTENTION_V] = NULL;
    MC_TRY(
        mc_config_int(text, "num_global_key_value_heads", MC_OPTIONAL, 1, a->heads, &a->kv_heads));
    if (a->heads % a->kv_heads == 0) return MICA_OK;
    return mc_config_fail(text, "num_global_key_value_heads", MICA_EFORMAT,
                          "%lld does not divide the %lld attention heads", (long long)a->kv_heads,
                          (long long)a->heads);
}

/* Attention of both kinds of layers. */
static mica_status read_attention(const mc_config_scope *text, mc_decoder_spec *spec,
                                  int blocks[KINDS]) {
    mc_block_spec *plain = &spec->blocks[MC_PLAIN_ATTENTION];
    int64_t window = 512;
    MC_TRY(mc_config_int(text, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    mc_block_use(plain, MC_ATTENTION_Q_NORM);
    mc_block_use(plain, MC_ATTENTION_K_NORM);
    plain->attention.scale = 1;
    plain->attention.value_norm = 1;
    blocks[LOCAL] = MC_PLAIN_ATTENTION;
    blocks[GLOBAL] = mc_spec_copy(spec, MC_PLAIN_ATTENTION);
    plain->attention.rope = LOCAL;
    plain->attention.window = window;
    mc_block_spec *full = &spec->blocks[blocks[GLOBAL]];
    full->attention.rope = GLOBAL;
    MC_TRY(read_full(text, full));
    return read_ropes(text, full->attention.head_dim, spec);
}

/* Puts experts beside the MLP, if the model has any. *mlp receives the block of both. */
static mica_status read_experts(const mc_config_scope *text, mc_decoder_spec *spec, int *mlp) {
    static const mc_expert_keys keys = {"num_experts", "top_k_experts", "moe_intermediate_size"};
    static const char *const names[] = {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};
    bool sparse = false;
    *mlp = MC_PLAIN_MLP;
    MC_TRY(mc_config_bool(text, "enable_moe_block", MC_OPTIONAL, &sparse));
    if (!sparse) return MICA_OK;
    *mlp = mc_spec_add(spec, &mc_block_experts);
    mc_block_spec *b = &spec->blocks[*mlp];
    b->experts = (mc_experts_spec){.count = 128,
                                   .picks = 8,
                                   .width = 704,
                                   .shared_width = spec->intermediate,
                                   .activation = spec->blocks[MC_PLAIN_MLP].gated.activation,
                                   .scoring = MC_SCORE_PICKED_SOFTMAX,
                                   .factor = 1};
    b->names[MC_BLOCK_NORM] = NULL;
    mc_block_use(b, MC_BLOCK_POST_NORM);
    mc_block_use(b, MC_EXPERTS_FACTORS);
    mc_block_use_all(b, MC_EXPERTS_ROUTER_NORM, MC_EXPERTS_SHARED_OUTPUT_NORM);
    b->names[MC_EXPERTS_ROUTER] = "router.proj";
    b->names[MC_EXPERTS_GATE] = "experts.switch_glu.gate_proj";
    b->names[MC_EXPERTS_UP] = "experts.switch_glu.up_proj";
    b->names[MC_EXPERTS_DOWN] = "experts.switch_glu.down_proj";
    for (int i = 0; i < 3; i++)
        b->names[MC_EXPERTS_SHARED_GATE + i] = names[i];
    b->forms = &stacked;
    b->n_forms = 1;
    return mc_family_experts(text, &keys, b);
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_config_scope text;
    int kinds[MC_MAX_LAYERS], blocks[KINDS], mlp;
    mc_family_gemma_defaults(spec);
    spec->n_layers = 30;
    spec->context = 131072;
    spec->norm_offset = 0;
    MC_TRY(mc_family_text(root, &text));
    MC_TRY(mc_family_gemma(root, &text, spec));
    MC_TRY(mc_family_softcaps(&text, spec));
    MC_TRY(mc_family_sliding(&text, 6, 5, spec, kinds));
    kinds[spec->n_layers - 1] = GLOBAL; /* whatever the config says */
    MC_TRY(read_attention(&text, spec, blocks));
    MC_TRY(read_experts(&text, spec, &mlp));
    MC_TRY(mc_family_share_keys(&text, 0, kinds, blocks, mlp, spec));
    MC_TRY(mc_family_layer_inputs(&text, spec));
    mc_family_append(spec, &mc_block_scale);
    return MICA_OK;
}

MC_FAMILY(gemma4, read_spec,
          MC_NAMES("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"),
          MC_NAMES("Gemma4ForConditionalGeneration", "Gemma4ForCausalLM",
                   "Gemma4UnifiedForConditionalGeneration"),
          .tensors = MC_NAMES("self_attn.q_norm.weight", "layer_scalar"));
