/* Gemma 3n, text only: google/gemma-3n-*.
 *
 * As Gemma 3, with these differences: norms are plain; scores are not scaled; values have a norm
 * without weight; the last layers read the keys and values of earlier ones; several residual
 * streams (AltUp), to which tokens give an input of each layer's own; a low-rank path beside
 * attention (Laurel); the gates of the first layers' MLPs are sparse; each layer's MLP may have a
 * width of its own.
 *
 * Source: the behaviour and the defaults of transformers 5. */
#include "model/family.h"

enum { GLOBAL, LOCAL, KINDS }; /* of layers, and indices of mc_decoder_spec.ropes */

static void set_defaults(mc_decoder_spec *spec) {
    mc_family_gemma_defaults(spec);
    spec->hidden = 2048;
    spec->intermediate = 16384;
    spec->n_layers = 35;
    spec->kv_heads = 2;
    spec->context = 32768;
    spec->norm_offset = 0;
    spec->final_softcap = 30;
    spec->ropes[GLOBAL] = mc_rope_plain(1e6);
    spec->ropes[LOCAL] = mc_rope_plain(1e4);
    spec->names.streams = "altup_projections";
    spec->names.unstreams = "altup_unembed_projections";
}

/* Widths of MLPs: one, or one for each layer. */
static mica_status read_widths(const mc_config_scope *text, mc_decoder_spec *spec,
                               int64_t *widths) {
    static const char key[] = "intermediate_size";
    size_t count = 0;
    for (int i = 0; i < spec->n_layers; i++)
        widths[i] = spec->intermediate;
    if (!mc_family_is_list(text, key)) return MICA_OK;
    MC_TRY(mc_config_ints(text, key, MC_REQUIRED, 1, MC_MAX_WIDTH, widths, MC_MAX_LAYERS, &count));
    MC_TRY(mc_family_check_count(text, key, count, spec));
    spec->intermediate = widths[0];
    return MICA_OK;
}

/* The parts of the gates that are 0. */
static mica_status read_sparsity(const mc_config_scope *text, const mc_decoder_spec *spec,
                                 double *parts) {
    static const char key[] = "activation_sparsity_pattern";
    size_t count = 0;
    for (int i = 0; i < spec->n_layers; i++)
        parts[i] = spec->n_layers > 10 && i < 10 ? 0.95 : 0;
    MC_TRY(mc_config_floats(text, key, MC_OPTIONAL, 0, 0.9999, parts, MC_MAX_LAYERS, &count));
    return count ? mc_family_check_count(text, key, count, spec) : MICA_OK;
}

/* An MLP of this width and sparsity; -1: there are too many that differ. */
static int find_mlp(mc_decoder_spec *spec, int64_t width, double part) {
    for (int i = 0; i < spec->n_blocks; i++) {
        const mc_block_spec *b = &spec->blocks[i];
        if (b->kind == &mc_block_gated && b->gated.width == width && b->gated.sparse == part)
            return i;
    }
    if (spec->n_blocks >= MC_MAX_BLOCKS) return -1;
    int i = mc_spec_copy(spec, MC_PLAIN_MLP);
    spec->blocks[i].gated.width = width;
    spec->blocks[i].gated.sparse = part;
    return i;
}

static mica_status read_attention(const mc_config_scope *text, mc_decoder_spec *spec) {
    mc_block_spec *plain = &spec->blocks[MC_PLAIN_ATTENTION];
    int kinds[MC_MAX_LAYERS];
    int64_t window = 512;
    MC_TRY(mc_config_int(text, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    MC_TRY(mc_family_gemma_ropes(text, spec, &spec->ropes[GLOBAL], &spec->ropes[LOCAL]));
    mc_block_use_all(plain, MC_ATTENTION_Q_NORM, MC_ATTENTION_K_NORM);
    plain->attention.scale = 1;
    plain->attention.value_norm = 1;
    const int blocks[KINDS] = {MC_PLAIN_ATTENTION, mc_spec_copy(spec, MC_PLAIN_ATTENTION)};
    plain->attention.rope = GLOBAL;
    spec->blocks[blocks[LOCAL]].attention.rope = LOCAL;
    spec->blocks[blocks[LOCAL]].attention.window = window;
    MC_TRY(mc_family_sliding(text, 5, 4, spec, kinds));
    return mc_family_share_keys(text, 15, kinds, blocks, MC_PLAIN_MLP, spec);
}

static mica_status read_streams(const mc_config_scope *text, mc_decoder_spec *spec, int *altup) {
    mc_altup_spec a = {.streams = 4};
    bool scaled = true;
    MC_TRY(mc_config_int(text, "altup_num_inputs", MC_OPTIONAL, 1, MC_MAX_STREAMS, &a.streams));
    MC_TRY(mc_config_int(text, "altup_active_idx", MC_OPTIONAL, 0, a.streams - 1, &a.active));
    MC_TRY(mc_config_bool(text, "altup_correct_scale", MC_OPTIONAL, &scaled));
    MC_TRY(mc_family_layer_width(text, 1, spec, &a.input));
    spec->streams = a.streams;
    *altup = mc_spec_add(spec, &mc_block_altup);
    spec->blocks[*altup].altup = a;
    if (!scaled) spec->blocks[*altup].names[MC_ALTUP_SCALE] = NULL;
    return MICA_OK;
}

/* AltUp, attention, Laurel, and the MLP of each layer. */
static mica_status read_layers(const mc_config_scope *text, mc_decoder_spec *spec) {
    int64_t widths[MC_MAX_LAYERS], rank = 64;
    double parts[MC_MAX_LAYERS];
    int altup, laurel = mc_spec_add(spec, &mc_block_laurel);
    MC_TRY(read_streams(text, spec, &altup));
    MC_TRY(mc_config_int(text, "laurel_rank", MC_OPTIONAL, 1, MC_MAX_WIDTH, &rank));
    spec->blocks[laurel].laurel.rank = rank;
    MC_TRY(read_widths(text, spec, widths));
    MC_TRY(read_sparsity(text, spec, parts));
    for (int i = 0; i < spec->n_layers; i++) {
        int mlp = find_mlp(spec, widths[i], parts[i]);
        if (mlp < 0)
            return mc_config_fail(text, "activation_sparsity_pattern", MICA_EUNSUPPORTED,
                                  "more than %d kinds of blocks", MC_MAX_BLOCKS);
        const int blocks[] = {altup, spec->layers[i].blocks[0], laurel, mlp};
        spec->layers[i].count = 0;
        for (int k = 0; k < 4; k++)
            mc_spec_append(spec, i, blocks[k]);
    }
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_config_scope text;
    set_defaults(spec);
    MC_TRY(mc_family_text(root, &text));
    MC_TRY(mc_family_gemma(root, &text, spec));
    MC_TRY(mc_family_softcaps(&text, spec));
    MC_TRY(read_attention(&text, spec));
    return read_layers(&text, spec);
}

MC_FAMILY(gemma3n, read_spec, MC_NAMES("gemma3n", "gemma3n_text"),
          MC_NAMES("Gemma3nForConditionalGeneration", "Gemma3nForCausalLM"),
          .tensors = MC_NAMES("altup.modality_router.weight", "laurel.linear_left.weight"),
          .chat = "gemma");
