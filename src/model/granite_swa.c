/* Granite with sinks: ibm-granite/granite-swash-*.
 *
 * As Granite 3, with a sink in each head, windows on three layers of four, and a RoPE of its own,
 * or none, in each layer.
 *
 * Source: the behaviour of transformers 5. */
#include "model/family.h"

/* The RoPE of a base, which is added if no layer before had it; 0: none. */
static mica_status find_rope(const mc_config_scope *root, mc_decoder_spec *spec, double base,
                             int64_t *rope) {
    *rope = MC_NO_ROPE;
    if (base == 0) return MICA_OK;
    if (base < 1)
        return mc_config_fail(root, "layer_rope_theta", MICA_EFORMAT,
                              "has %g; want 1 or more, or 0 for no RoPE", base);
    int64_t i = 0;
    while (i < MC_MAX_ROPES && spec->ropes[i].factor != 0 && spec->ropes[i].base != base)
        i++;
    if (i == MC_MAX_ROPES)
        return mc_config_fail(root, "layer_rope_theta", MICA_EUNSUPPORTED,
                              "has more than %d thetas that differ", MC_MAX_ROPES);
    if (spec->ropes[i].factor == 0) {
        spec->ropes[i] = spec->ropes[0];
        spec->ropes[i].base = base;
    }
    *rope = i;
    return MICA_OK;
}

static mica_status read_layers(const mc_config_scope *root, mc_decoder_spec *spec) {
    double bases[MC_MAX_LAYERS];
    int slides[MC_MAX_LAYERS];
    int64_t window = 128, rope;
    size_t count = 0;
    MC_TRY(mc_config_int(root, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    MC_TRY(mc_family_sliding(root, 4, 0, spec, slides));
    for (int i = 0; i < spec->n_layers; i++)
        bases[i] = spec->ropes[0].base;
    MC_TRY(mc_config_floats(root, "layer_rope_theta", MC_OPTIONAL, 0, 1e12, bases, MC_MAX_LAYERS,
                            &count));
    if (count && count != (size_t)spec->n_layers)
        return mc_config_fail(root, "layer_rope_theta", MICA_EFORMAT,
                              "names %zu layers, num_hidden_layers is %d", count, spec->n_layers);
    for (int i = 0; i < spec->n_layers; i++) {
        MC_TRY(find_rope(root, spec, bases[i], &rope));
        mc_family_vary(spec, i, slides[i] ? window : 0, rope);
    }
    return MICA_OK;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    MC_TRY(mc_family_multiplied(root, spec));
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_SINKS);
    return read_layers(root, spec);
}

MC_FAMILY(granite_swa, read_spec, MC_NAMES("granite_swa"), MC_NAMES("GraniteSWAForCausalLM"),
          .tensors = MC_NAMES("self_attn.sinks", "mlp.up_proj.weight"));
