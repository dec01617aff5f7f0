/* What families with MLA read of a config: DeepSeek V3 and those like it. */
#include "model/family.h"

#include <math.h>

static const mc_form by_heads = {.names = {[MC_MLA_KV_UP] = MC_NO_SLOT,
                                           [MC_MLA_K_UP] = "self_attn.embed_q",
                                           [MC_MLA_V_UP] = "self_attn.unembed_out"}};

static const mc_form listed = {
    .names = MC_EXPERT_NAMES("mlp.experts.*", "gate_proj", "up_proj", "down_proj")};

static mica_status read_query_latent(const mc_config_scope *text, mc_block_spec *block) {
    int64_t *n = &block->mla.query_latent;
    if (mc_family_is_null(text, "q_lora_rank")) *n = 0;
    MC_TRY(mc_config_int(text, "q_lora_rank", MC_OPTIONAL, 0, MC_MAX_WIDTH, n));
    if (*n) return MICA_OK;
    mc_block_use_joined(block, MC_MLA_Q, MC_MLA_Q_DOWN, MC_MLA_Q_UP);
    return MICA_OK;
}

static mica_status read_biases(const mc_config_scope *text, mc_block_spec *block) {
    const uint64_t one = 1;
    bool bias = false;
    MC_TRY(mc_config_bool(text, "attention_bias", MC_OPTIONAL, &bias));
    if (bias) block->biases = one << MC_MLA_Q_DOWN | one << MC_MLA_KV_DOWN | one << MC_MLA_O;
    return MICA_OK;
}

/* The plain topology with MLA in the place of attention, whose sizes `rotated` elements of a head
 * complete. */
static mica_status put_mla(const mc_config_scope *text, int64_t rotated, mc_decoder_spec *spec,
                           mc_block_spec *block) {
    mc_mla_spec *m = &block->mla;
    mc_attention_spec *a = &m->attention;
    double sharpness = spec->ropes[0].sharpness;
    MC_TRY(mc_config_int(text, "kv_lora_rank", MC_OPTIONAL, 1, MC_MAX_WIDTH, &a->latent));
    MC_TRY(mc_config_int(text, "qk_nope_head_dim", MC_OPTIONAL, 1, MC_MAX_WIDTH, &m->plain));
    MC_TRY(mc_config_int(text, "v_head_dim", MC_OPTIONAL, 1, MC_MAX_WIDTH, &m->value_dim));
    MC_TRY(read_query_latent(text, block));
    MC_TRY(read_biases(text, block));
    a->heads = spec->heads;
    a->kv_heads = spec->kv_heads = 1;
    a->head_dim = spec->head_dim = a->latent + rotated;
    a->scale = 1.0 / sqrt((double)(m->plain + rotated));
    if (sharpness != 0) a->scale *= sharpness * sharpness;
    block->forms = &by_heads;
    block->n_forms = 1;
    return MICA_OK;
}

mica_status mc_family_mla(const mc_config_scope *root, mc_mla_spec defaults,
                          mc_decoder_spec *spec) {
    mc_config_scope text;
    int64_t rotated = 64;
    bool neighbours = true;
    MC_TRY(mc_family_text(root, &text));
    MC_TRY(mc_config_int(&text, "qk_rope_head_dim", MC_OPTIONAL, 2, MC_MAX_WIDTH, &rotated));
    MC_TRY(mc_config_bool(&text, "rope_interleave", MC_OPTIONAL, &neighbours));
    spec->head_dim = 2; /* set below: configs give that of what is rotated, or none */
    spec->ropes[0].head_dim = rotated;
    spec->ropes[0].neighbours = neighbours;
    spec->layers_ahead = 1;
    MC_TRY(mc_config_int(&text, "num_nextn_predict_layers", MC_OPTIONAL, 0, MC_MAX_LAYERS,
                         &spec->layers_ahead));
    MC_TRY(mc_family_plain(root, spec));
    int at = mc_spec_add(spec, &mc_block_mla);
    mc_block_spec *block = &spec->blocks[at];
    block->mla = defaults;
    MC_TRY(put_mla(&text, rotated, spec, block));
    for (int i = 0; i < spec->n_layers; i++)
        spec->layers[i].blocks[0] = (uint8_t)at;
    return MICA_OK;
}

/* Refuses another value than the one that mica computes. */
static mica_status check_value(const mc_config_scope *text, const char *key, const char *known) {
    mc_str found = mc_str_of(known);
    MC_TRY(mc_config_str(text, key, MC_OPTIONAL, &found));
    if (mc_str_is(found, known)) return MICA_OK;
    return mc_config_fail(text, key, MICA_EUNSUPPORTED, "\"%.*s\"; that which mica knows here: %s",
                          MC_STR_ARG(found), known);
}

static mica_status read_experts(const mc_config_scope *text, mc_block_spec *block) {
    static const mc_expert_keys keys = {"n_routed_experts", "num_experts_per_tok",
                                        "moe_intermediate_size"};
    mc_experts_spec *e = &block->experts;
    bool renormalised = true;
    int64_t shared = 1;
    MC_TRY(check_value(text, "scoring_func", "sigmoid"));
    MC_TRY(check_value(text, "topk_method", "noaux_tc"));
    MC_TRY(mc_family_experts(text, &keys, block));
    MC_TRY(mc_family_expert_groups(text, e));
    MC_TRY(mc_config_bool(text, "norm_topk_prob", MC_OPTIONAL, &renormalised));
    MC_TRY(mc_config_float(text, "routed_scaling_factor", MC_OPTIONAL, 1e-6, 1e6, &e->factor));
    if (mc_family_is_null(text, "n_shared_experts")) shared = 0;
    MC_TRY(mc_config_int(text, "n_shared_experts", MC_OPTIONAL, 0, 64, &shared));
    e->renormalised = renormalised;
    e->shared_width = shared * e->width;
    return MICA_OK;
}

static void name_experts(mc_block_spec *block) {
    block->names[MC_EXPERTS_CHOICE] = "mlp.gate.e_score_correction_bias";
    block->forms = &listed;
    block->n_forms = 1;
    if (!block->experts.shared_width) return;
    block->names[MC_EXPERTS_SHARED_GATE] = "mlp.shared_experts.gate_proj";
    block->names[MC_EXPERTS_SHARED_UP] = "mlp.shared_experts.up_proj";
    block->names[MC_EXPERTS_SHARED_DOWN] = "mlp.shared_experts.down_proj";
}

/* Which layers have experts: what mlp_layer_types says, else each moe_layer_freq-th from
 * first_k_dense_replace on. */
static mica_status read_sparse(const mc_config_scope *text, int64_t dense,
                               const mc_decoder_spec *spec, int *sparse) {
    static const mc_layer_type types[] = {{"dense", 0}, {"sparse", 1}, {NULL, 0}};
    int64_t step = 1;
    MC_TRY(mc_config_int(text, "first_k_dense_replace", MC_OPTIONAL, 0, MC_MAX_LAYERS, &dense));
    MC_TRY(mc_config_int(text, "moe_layer_freq", MC_OPTIONAL, 1, MC_MAX_LAYERS, &step));
    for (int i = 0; i < spec->n_layers; i++)
        sparse[i] = i >= dense && i % step == 0;
    return mc_family_layer_types(text, "mlp_layer_types", types, spec, sparse);
}

mica_status mc_family_grouped_experts(const mc_config_scope *root, mc_experts_spec defaults,
                                      int64_t dense, mc_decoder_spec *spec) {
    mc_config_scope text;
    int sparse[MC_MAX_LAYERS];
    MC_TRY(mc_family_text(root, &text));
    int at = mc_spec_add(spec, &mc_block_experts);
    mc_block_spec *block = &spec->blocks[at];
    block->experts = defaults;
    block->experts.activation = spec->blocks[MC_PLAIN_MLP].gated.activation;
    block->experts.scoring = MC_SCORE_SIGMOID;
    block->experts.least_sum = 1e-20;
    MC_TRY(read_experts(&text, block));
    name_experts(block);
    MC_TRY(read_sparse(&text, dense, spec, sparse));
    for (int i = 0; i < spec->n_layers; i++)
        if (sparse[i]) spec->layers[i].blocks[1] = (uint8_t)at;
    return MICA_OK;
}
