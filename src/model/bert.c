/* BERT and RoBERTa: all-MiniLM, bge, e5, gte, XLM-R and models derived from them.
 *
 * An encoder. Embeddings of tokens, positions and types have a LayerNorm; so has the sum after
 * attention, and after the MLP. RoBERTa's positions begin behind that of padding.
 *
 * Source: Devlin et al. 2018 (arXiv:1810.04805); Liu et al. 2019 (arXiv:1907.11692); the defaults
 * of transformers 5. */
#include "model/family.h"

#include <math.h>

static const mc_decoder_names names = {
    .embed = "embeddings.word_embeddings",
    .head = "lm_head",
    .layers = "encoder.layer",
    .embed_norm = "embeddings.LayerNorm",
    .positions = "embeddings.position_embeddings",
    .types = "embeddings.token_type_embeddings",
};

static void add_attention(mc_decoder_spec *spec) {
    mc_block_spec *block = &spec->blocks[mc_spec_add(spec, &mc_block_attention)];
    block->names[MC_BLOCK_NORM] = "attention.output.LayerNorm";
    block->names[MC_ATTENTION_Q] = "attention.self.query";
    block->names[MC_ATTENTION_K] = "attention.self.key";
    block->names[MC_ATTENTION_V] = "attention.self.value";
    block->names[MC_ATTENTION_O] = "attention.output.dense";
    block->attention = (mc_attention_spec){.heads = spec->heads,
                                           .kv_heads = spec->heads,
                                           .head_dim = spec->head_dim,
                                           .rope = MC_NO_ROPE,
                                           .scale = 1.0 / sqrt((double)spec->head_dim)};
}

static void add_mlp(mc_decoder_spec *spec) {
    mc_block_spec *block = &spec->blocks[mc_spec_add(spec, &mc_block_gated)];
    block->names[MC_BLOCK_NORM] = "output.LayerNorm";
    block->names[MC_GATED_GATE] = NULL;
    block->names[MC_GATED_UP] = "intermediate.dense";
    block->names[MC_GATED_DOWN] = "output.dense";
    block->gated = (mc_gated_spec){.width = spec->intermediate, .activation = MC_GELU};
}

static void add_layers(mc_decoder_spec *spec) {
    add_attention(spec);
    add_mlp(spec);
    for (int b = MC_PLAIN_ATTENTION; b <= MC_PLAIN_MLP; b++) {
        spec->blocks[b].centred = spec->blocks[b].norm_last = true;
        spec->blocks[b].biases = ~UINT64_C(0);
        for (int i = 0; i < spec->n_layers; i++)
            mc_spec_append(spec, i, b);
    }
}

static mica_status read_positions(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_str model = MC_STR(""), kind = MC_STR("absolute");
    int64_t pad = 1;
    MC_TRY(mc_config_str(root, "model_type", MC_OPTIONAL, &model));
    MC_TRY(mc_config_str(root, "position_embedding_type", MC_OPTIONAL, &kind));
    MC_TRY(mc_config_int(root, "pad_token_id", MC_OPTIONAL, 0, INT32_MAX, &pad));
    if (!mc_str_is(kind, "absolute"))
        return mc_config_fail(root, "position_embedding_type", MICA_EUNSUPPORTED,
                              "\"%.*s\"; mica knows absolute", MC_STR_ARG(kind));
    spec->positions = spec->context;
    spec->first_position = mc_str_ends(model, MC_STR("roberta")) ? pad + 1 : 0;
    spec->context -= spec->first_position;
    if (spec->context > 0) return MICA_OK;
    return mc_config_fail(root, "max_position_embeddings", MICA_EFORMAT,
                          "%lld leaves no position for a token", (long long)spec->positions);
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    spec->context = 512;
    spec->types = 2;
    spec->embed_scale = 1.0;
    spec->norm_eps = 1e-12;
    spec->both_ways = spec->centred = spec->norm_bias = true;
    spec->names = names;
    MC_TRY(mc_config_float(root, "layer_norm_eps", MC_OPTIONAL, 1e-20, 1.0, &spec->norm_eps));
    MC_TRY(mc_family_sizes(root, root, spec));
    MC_TRY(mc_config_int(root, "type_vocab_size", MC_OPTIONAL, 0, MC_MAX_WIDTH, &spec->types));
    if (!spec->types) spec->names.types = NULL;
    spec->tied = MC_TIED_YES;
    MC_TRY(read_positions(root, spec));
    add_layers(spec);
    return mc_family_activation(root, spec);
}

MC_FAMILY(bert, read_spec, MC_NAMES("bert", "roberta", "xlm-roberta"),
          MC_NAMES("BertModel", "RobertaModel", "XLMRobertaModel"),
          .tensors = MC_NAMES("attention.self.query.weight"));
