/* What Gemma 3, 3n and 4 share: RoPEs, layers that read the keys and values of others, and what
 * tokens give to each layer. */
#include "model/family.h"

mica_status mc_family_gemma_ropes(const mc_config_scope *text, const mc_decoder_spec *spec,
                                  mc_rope_spec *global, mc_rope_spec *local) {
    MC_TRY(mc_family_rope(text, spec, "full_attention", global));
    MC_TRY(mc_config_float(text, "rope_local_base_freq", MC_OPTIONAL, 1.0, 1e12, &local->base));
    return mc_family_unscaled_rope(text, spec, "sliding_attention", local);
}

/* Attention that has the keys and values of another layer. */
static int add_reader(mc_decoder_spec *spec, int attention) {
    int i = mc_spec_copy(spec, attention);
    const char **names = spec->blocks[i].names;
    names[MC_ATTENTION_K] = names[MC_ATTENTION_V] = names[MC_ATTENTION_K_NORM] = NULL;
    return i;
}

static int add_wide(mc_decoder_spec *spec, int mlp) {
    int i = mc_spec_copy(spec, mlp);
    mc_block_spec *b = &spec->blocks[i];
    *(b->kind == &mc_block_experts ? &b->experts.shared_width : &b->gated.width) *= 2;
    return i;
}

mica_status mc_family_share_keys(const mc_config_scope *text, int64_t count, const int *kinds,
                                 const int blocks[2], int mlp, mc_decoder_spec *spec) {
    bool wide = false;
    int from[2] = {-1, -1};
    MC_TRY(mc_config_int(text, "num_kv_shared_layers", MC_OPTIONAL, 0, spec->n_layers - 1, &count));
    MC_TRY(mc_config_bool(text, "use_double_wide_mlp", MC_OPTIONAL, &wide));
    const int readers[] = {add_reader(spec, blocks[0]), add_reader(spec, blocks[1])};
    int last_mlp = wide ? add_wide(spec, mlp) : mlp;
    for (int i = 0; i < spec->n_layers; i++) {
        int kind = kinds[i];
        bool own = i < spec->n_layers - count;
        if (own) from[kind] = i;
        if (from[kind] < 0)
            return mc_config_fail(text, "num_kv_shared_layers", MICA_EFORMAT,
                                  "layer %d shares keys with none before it", i);
        spec->layers[i].blocks[0] = (uint8_t)(own ? blocks : readers)[kind];
        spec->layers[i].blocks[1] = (uint8_t)(own ? mlp : last_mlp);
        if (!own) mc_spec_share(spec, i, from[kind]);
    }
    return MICA_OK;
}

mc_block_spec *mc_family_append(mc_decoder_spec *spec, const mc_block *kind) {
    int block = mc_spec_add(spec, kind);
    for (int i = 0; i < spec->n_layers; i++)
        mc_spec_append(spec, i, block);
    return &spec->blocks[block];
}

mica_status mc_family_layer_width(const mc_config_scope *text, int64_t least, mc_decoder_spec *spec,
                                  mc_layer_input_spec *input) {
    static const char key[] = "hidden_size_per_layer_input";
    int64_t width = mc_family_is_null(text, key) ? least : 256;
    MC_TRY(mc_config_int(text, key, MC_OPTIONAL, least, 1 << 16, &width));
    *input = (mc_layer_input_spec){width, spec->blocks[MC_PLAIN_MLP].gated.activation};
    spec->layer_width = width;
    if (!width) return MICA_OK;
    spec->layer_rows = 262144;
    MC_TRY(mc_config_int(text, "vocab_size_per_layer_input", MC_OPTIONAL, 1, MC_MAX_WIDTH,
                         &spec->layer_rows));
    spec->names.layer_embed = "embed_tokens_per_layer";
    spec->names.layer_projection = "per_layer_model_projection";
    spec->names.layer_norm = "per_layer_projection_norm";
    return MICA_OK;
}

mica_status mc_family_layer_inputs(const mc_config_scope *text, mc_decoder_spec *spec) {
    mc_layer_input_spec input;
    MC_TRY(mc_family_layer_width(text, 0, spec, &input));
    if (input.width) mc_family_append(spec, &mc_block_layer_input)->layer_input = input;
    return MICA_OK;
}
