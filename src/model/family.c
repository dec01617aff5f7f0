#include "model/family.h"

#include "base/buffer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const mc_family *const families[] = {
#define FAMILY(name) &mc_family_##name,
#include "model/family_list.h"
};

#define FAMILY_COUNT (sizeof families / sizeof *families)

/* Dots included; those that begin with another go first. The last one is of a model that was saved
 * without its head. */
static const char *const prefixes[] = {"language_model.model.",
                                       "model.language_model.model.",
                                       "model.language_model.",
                                       "language_model.",
                                       "model.",
                                       "backbone.",
                                       "bert.",
                                       "roberta.",
                                       ""};

enum { PREFIX_COUNT = sizeof prefixes / sizeof *prefixes };

const char *mc_family_prefix_at(size_t i) {
    return i < PREFIX_COUNT ? prefixes[i] : NULL;
}

const char *mc_family_prefix(const mc_weights *weights) {
    static const char *const embeddings[] = {
        "embed_tokens", "embeddings", "embeddings.word_embeddings", "embeddings.tok_embeddings"};
    char name[128];
    for (size_t k = 0; k < sizeof embeddings / sizeof *embeddings; k++)
        for (size_t i = 0; i < PREFIX_COUNT; i++) {
            snprintf(name, sizeof name, "%s%s.weight", prefixes[i], embeddings[k]);
            if (mc_weights_find(weights, name)) return prefixes[i];
        }
    return NULL;
}

mc_str mc_decoder_name(mc_str name) {
    for (size_t i = 0; i < PREFIX_COUNT; i++) {
        mc_str prefix = mc_str_of(prefixes[i]);
        if (mc_str_starts(name, prefix))
            return (mc_str){name.ptr + prefix.len, name.len - prefix.len};
    }
    return name;
}

/* The rows of the first layer's q_proj, heads * head_dim; 0: there is none. */
static int64_t query_rows(const mc_weights *weights) {
    char name[128];
    const char *prefix = mc_family_prefix(weights);
    snprintf(name, sizeof name, "%slayers.0.%s.weight", prefix ? prefix : "",
             mc_block_attention.slots[MC_ATTENTION_Q].name);
    const mc_weight_tensor *t = prefix ? mc_weights_find(weights, name) : NULL;
    return t && t->ndim == 2 ? t->shape[0] : 0;
}

/* Whether the kernel of the first convolution is [channels, taps, 1]. */
static bool is_converted(const mc_weights *weights) {
    const mc_str ending = MC_STR("conv1d.weight");
    for (size_t i = 0; i < mc_weights_count(weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(weights, i);
        if (mc_str_ends(mc_str_of(t->name), ending) && t->ndim == 3) return t->shape[1] != 1;
    }
    return false;
}

void mc_family_look(const mc_weights *weights, mc_decoder_spec *spec) {
    if (!weights) return;
    spec->query_rows = query_rows(weights);
    spec->converted = is_converted(weights);
}

static const mc_family *more[MC_MORE_FAMILIES];
static size_t more_count;

void mc_family_add(const mc_family *family) {
    assert(more_count < MC_MORE_FAMILIES);
    more[more_count++] = family;
}

const mc_family *mc_family_at(size_t i) {
    if (i < FAMILY_COUNT) return families[i];
    return i - FAMILY_COUNT < more_count ? more[i - FAMILY_COUNT] : NULL;
}

static bool lists(const char *const *names, mc_str name) {
    for (; *names; names++)
        if (mc_str_is(name, *names)) return true;
    return false;
}

static bool tensors_fit(const mc_family *family, const mc_weights *weights) {
    const char *prefix = mc_family_prefix(weights);
    if (!prefix) return false;
    for (const char *const *tensor = family->tensors; *tensor; tensor++) {
        char name[256];
        snprintf(name, sizeof name, "%slayers.0.%s", prefix, *tensor);
        if (!mc_weights_find(weights, name)) return false;
    }
    return true;
}

static mica_status unknown(const mc_config_scope *root, const mc_weights *weights, const char *key,
                           mc_str found) {
    char text[400];
    mc_family_nearest(root, weights, found, text, sizeof text);
    return mc_config_fail(root, key, MICA_EUNSUPPORTED, "no model family for \"%.*s\"; %s",
                          MC_STR_ARG(found), text);
}

static mica_status find_by_type(const mc_config_scope *root, const mc_weights *weights, mc_str type,
                                const mc_family **family) {
    for (size_t i = 0; (*family = mc_family_at(i)); i++)
        if (lists((*family)->model_types, type)) return MICA_OK;
    return unknown(root, weights, "model_type", type);
}

mica_status mc_family_find(const mc_config_scope *root, const mc_weights *weights,
                           const mc_family **family) {
    mc_str type = {NULL, 0}, architectures[16];
    MC_TRY(mc_config_str(root, "model_type", MC_OPTIONAL, &type));
    if (type.len) return find_by_type(root, weights, type, family);

    size_t count = 0;
    MC_TRY(mc_config_strs(root, "architectures", MC_OPTIONAL, architectures, 16, &count));
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; (*family = mc_family_at(i)); i++)
            if (lists((*family)->architectures, architectures[k])) return MICA_OK;
    if (count) return unknown(root, weights, "architectures", architectures[0]);

    for (size_t i = 0; (*family = mc_family_at(i)); i++)
        if (tensors_fit(*family, weights)) return MICA_OK;
    return mc_config_fail(root, "model_type", MICA_EUNSUPPORTED,
                          "absent, architectures too, and the tensors are of no known family");
}

mica_status mc_family_text(const mc_config_scope *root, mc_config_scope *text) {
    *text = *root;
    if (!mc_config_has(root, "text_config")) return MICA_OK;
    return mc_config_object(root, "text_config", MC_REQUIRED, text);
}

static mica_status read_tied(const mc_config_scope *root, const mc_config_scope *text,
                             mc_decoder_spec *spec) {
    bool tied = false;
    const mc_config_scope *from = mc_config_has(text, "tie_word_embeddings") ? text : root;
    if (!mc_config_has(from, "tie_word_embeddings")) return MICA_OK;
    MC_TRY(mc_config_bool(from, "tie_word_embeddings", MC_REQUIRED, &tied));
    spec->tied = tied ? MC_TIED_YES : MC_TIED_NO;
    return MICA_OK;
}

mica_status mc_family_sizes(const mc_config_scope *root, const mc_config_scope *text,
                            mc_decoder_spec *spec) {
    mc_config_need hidden = spec->hidden ? MC_OPTIONAL : MC_REQUIRED;
    mc_config_need mlp = spec->intermediate ? MC_OPTIONAL : MC_REQUIRED;
    mc_config_need depth = spec->n_layers ? MC_OPTIONAL : MC_REQUIRED;
    mc_config_need heads = spec->heads ? MC_OPTIONAL : MC_REQUIRED;
    int64_t layers = spec->n_layers;
    const int64_t max = MC_MAX_WIDTH;
    MC_TRY(mc_config_int(text, "hidden_size", hidden, 1, max, &spec->hidden));
    if (!mc_family_is_list(text, "intermediate_size"))
        MC_TRY(mc_config_int(text, "intermediate_size", mlp, 1, max, &spec->intermediate));
    MC_TRY(mc_config_int(text, "num_hidden_layers", depth, 1, MC_MAX_LAYERS, &layers));
    spec->n_layers = (int)layers;
    MC_TRY(mc_config_int(text, "num_attention_heads", heads, 1, max, &spec->heads));
    if (!spec->kv_heads) spec->kv_heads = spec->heads;
    MC_TRY(mc_config_int(text, "num_key_value_heads", MC_OPTIONAL, 1, max, &spec->kv_heads));
    if (spec->heads % spec->kv_heads != 0)
        return mc_config_fail(text, "num_key_value_heads", MICA_EFORMAT,
                              "%lld does not divide the %lld attention heads",
                              (long long)spec->kv_heads, (long long)spec->heads);
    if (!spec->head_dim) spec->head_dim = spec->hidden / spec->heads;
    int64_t rows = spec->query_rows;
    if (rows % spec->heads == 0 && rows >= spec->heads && rows / spec->heads <= max)
        spec->head_dim = rows / spec->heads;
    MC_TRY(mc_config_int(text, "head_dim", MC_OPTIONAL, 2, max, &spec->head_dim));
    if (spec->head_dim < 2 || spec->head_dim % 2 != 0)
        return mc_config_fail(text, "head_dim", MICA_EFORMAT, "want an even number, found %lld",
                              (long long)spec->head_dim);
    const mc_config_scope *vocab = mc_config_has(text, "vocab_size") ? text : root;
    MC_TRY(mc_config_int(vocab, "vocab_size", MC_OPTIONAL, 1, max, &spec->vocab));
    MC_TRY(
        mc_config_int(text, "max_position_embeddings", MC_OPTIONAL, 1, INT32_MAX, &spec->context));
    MC_TRY(mc_config_float(text, "rms_norm_eps", MC_OPTIONAL, 1e-12, 1.0, &spec->norm_eps));
    return read_tied(root, text, spec);
}

void mc_family_layers(mc_decoder_spec *spec) {
    int attention = mc_spec_add(spec, &mc_block_attention);
    int mlp = mc_spec_add(spec, &mc_block_gated);
    assert(attention == MC_PLAIN_ATTENTION && mlp == MC_PLAIN_MLP);
    spec->blocks[attention].attention = (mc_attention_spec){
        .heads = spec->heads,
        .kv_heads = spec->kv_heads,
        .head_dim = spec->head_dim,
        .scale = 1.0 / sqrt((double)spec->head_dim),
    };
    spec->blocks[mlp].gated.width = spec->intermediate;
    for (int i = 0; i < spec->n_layers; i++) {
        mc_spec_append(spec, i, attention);
        mc_spec_append(spec, i, mlp);
    }
}

void mc_family_biases(mc_decoder_spec *spec, bool qkv, bool o, bool mlp) {
    const uint64_t one = 1;
    if (qkv)
        spec->blocks[MC_PLAIN_ATTENTION].biases |=
            one << MC_ATTENTION_Q | one << MC_ATTENTION_K | one << MC_ATTENTION_V;
    if (o) spec->blocks[MC_PLAIN_ATTENTION].biases |= one << MC_ATTENTION_O;
    if (mlp)
        spec->blocks[MC_PLAIN_MLP].biases |=
            one << MC_GATED_GATE | one << MC_GATED_UP | one << MC_GATED_DOWN;
}

mica_status mc_family_activation(const mc_config_scope *text, mc_decoder_spec *spec) {
    static const struct {
        const char *name;
        mc_activation activation;
    } known[] = {{"gelu_pytorch_tanh", MC_GELU_APPROX},
                 {"gelu_new", MC_GELU_APPROX},
                 {"gelu", MC_GELU},
                 {"silu", MC_SILU}};
    const char *key = mc_config_has(text, "hidden_activation") ? "hidden_activation" : "hidden_act";
    mc_str name = {NULL, 0};
    MC_TRY(mc_config_str(text, key, MC_OPTIONAL, &name));
    if (!name.ptr) return MICA_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mc_str_is(name, known[i].name)) {
            spec->blocks[MC_PLAIN_MLP].gated.activation = known[i].activation;
            return MICA_OK;
        }
    return mc_config_fail(text, key, MICA_EUNSUPPORTED,
                          "activation \"%.*s\"; those that mica knows: gelu_pytorch_tanh, gelu, "
                          "silu",
                          MC_STR_ARG(name));
}

/* Sets what a RoPE has of the sizes. */
static void size_rope(const mc_decoder_spec *spec, mc_rope_spec *rope) {
    if (!rope->head_dim) rope->head_dim = spec->head_dim;
    rope->context = (double)spec->context;
}

/* The name that families' tables have of a kind with several. */
static mc_str usual_type(mc_str name) {
    static const char *const names[][2] = {{"mamba", "linear_attention"},
                                           {"M", "linear_attention"},
                                           {"attention", "full_attention"},
                                           {"*", "full_attention"},
                                           {"E", "moe"},
                                           {"-", "mlp"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mc_str_is(name, names[i][0])) return mc_str_of(names[i][1]);
    return name;
}

mica_status mc_family_check_count(const mc_config_scope *text, const char *key, size_t count,
                                  const mc_decoder_spec *spec) {
    if (count == (size_t)spec->n_layers) return MICA_OK;
    return mc_config_fail(text, key, MICA_EFORMAT, "names %zu layers, num_hidden_layers is %d",
                          count, spec->n_layers);
}

/* The names of all layers' kinds: a list, or a text of a letter each. *count receives 0 if the
 * config has none. */
static mica_status read_types(const mc_config_scope *text, const char *key,
                              const mc_decoder_spec *spec, mc_str *names, size_t *count) {
    mc_str letters;
    *count = 0;
    if (!mc_json_get_str(mc_json_find(text->object, key), &letters)) {
        MC_TRY(mc_config_strs(text, key, MC_OPTIONAL, names, MC_MAX_LAYERS, count));
        return *count ? mc_family_check_count(text, key, *count, spec) : MICA_OK;
    }
    MC_TRY(mc_family_check_count(text, key, letters.len, spec));
    for (; *count < letters.len; ++*count)
        names[*count] = (mc_str){letters.ptr + *count, 1};
    return MICA_OK;
}

static mica_status unknown_type(const mc_config_scope *text, const char *key,
                                const mc_layer_type *types, size_t layer, mc_str name) {
    char known[256] = "";
    size_t len = 0;
    for (size_t i = 0; types[i].name && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s",
                                !i                  ? ""
                                : types[i + 1].name ? ", "
                                                    : " and ",
                                types[i].name);
    return mc_config_fail(text, key, MICA_EUNSUPPORTED, "layer %zu is \"%.*s\"; mica knows %s",
                          layer, MC_STR_ARG(name), known);
}

mica_status mc_family_layer_types(const mc_config_scope *text, const char *key,
                                  const mc_layer_type *types, const mc_decoder_spec *spec,
                                  int *kinds) {
    mc_str names[MC_MAX_LAYERS];
    size_t count = 0;
    MC_TRY(read_types(text, key, spec, names, &count));
    for (size_t i = 0; i < count; i++) {
        const mc_layer_type *type = types;
        while (type->name && !mc_str_is(usual_type(names[i]), type->name))
            type++;
        if (!type->name) return unknown_type(text, key, types, i, names[i]);
        kinds[i] = type->kind;
    }
    return MICA_OK;
}

void mc_family_vary(mc_decoder_spec *spec, int layer, int64_t window, int64_t rope) {
    const mc_block *kind = spec->blocks[MC_PLAIN_ATTENTION].kind;
    int i = 0;
    while (i < spec->n_blocks &&
           (spec->blocks[i].kind != kind || spec->blocks[i].attention.window != window ||
            spec->blocks[i].attention.rope != rope))
        i++;
    if (i == spec->n_blocks) i = mc_spec_copy(spec, MC_PLAIN_ATTENTION);
    spec->blocks[i].attention.window = window;
    spec->blocks[i].attention.rope = rope;
    spec->layers[layer].blocks[0] = (uint8_t)i;
}

static void set_window(mc_decoder_spec *spec, int layer, int64_t window) {
    mc_family_vary(spec, layer, window, spec->blocks[MC_PLAIN_ATTENTION].attention.rope);
}

mica_status mc_family_sliding(const mc_config_scope *text, int64_t pattern, int64_t full,
                              const mc_decoder_spec *spec, int *slides) {
    static const mc_layer_type types[] = {
        {"full_attention", 0}, {"sliding_attention", 1}, {NULL, 0}};
    for (int i = 0; i < spec->n_layers; i++)
        slides[i] = i % pattern != full;
    return mc_family_layer_types(text, "layer_types", types, spec, slides);
}

mica_status mc_family_windows(const mc_config_scope *text, int64_t window, int64_t pattern,
                              mc_decoder_spec *spec) {
    int slides[MC_MAX_LAYERS];
    MC_TRY(mc_family_sliding(text, pattern, pattern - 1, spec, slides));
    for (int i = 0; i < spec->n_layers; i++)
        if (slides[i]) set_window(spec, i, window);
    return MICA_OK;
}

mica_status mc_family_rope(const mc_config_scope *text, const mc_decoder_spec *spec,
                           const char *layers, mc_rope_spec *rope) {
    mc_config_scope scaling, parameters, own;
    size_rope(spec, rope);
    MC_TRY(mc_rope_read(text, rope));
    MC_TRY(mc_config_object(text, "rope_scaling", MC_OPTIONAL, &scaling));
    MC_TRY(mc_rope_read(&scaling, rope));
    MC_TRY(mc_config_object(text, "rope_parameters", MC_OPTIONAL, &parameters));
    if (!layers || !mc_config_has(&parameters, layers)) return mc_rope_read(&parameters, rope);
    MC_TRY(mc_config_object(&parameters, layers, MC_REQUIRED, &own));
    return mc_rope_read(&own, rope);
}

mica_status mc_family_unscaled_rope(const mc_config_scope *text, const mc_decoder_spec *spec,
                                    const char *layers, mc_rope_spec *rope) {
    mc_config_scope parameters, own;
    size_rope(spec, rope);
    MC_TRY(mc_config_object(text, "rope_parameters", MC_OPTIONAL, &parameters));
    MC_TRY(mc_config_object(&parameters, layers, MC_OPTIONAL, &own));
    return mc_rope_read(&own, rope);
}

bool mc_family_is_null(const mc_config_scope *text, const char *key) {
    return mc_json_get_type(mc_json_find(text->object, key)) == MC_JSON_NULL;
}

bool mc_family_is_list(const mc_config_scope *text, const char *key) {
    return mc_json_get_type(mc_json_find(text->object, key)) == MC_JSON_ARRAY;
}

static mica_status read_softcap(const mc_config_scope *text, const char *key, double *cap) {
    if (mc_family_is_null(text, key)) *cap = 0.0;
    return mc_config_float(text, key, MC_OPTIONAL, 1e-3, 1e6, cap);
}

mica_status mc_family_softcaps(const mc_config_scope *text, mc_decoder_spec *spec) {
    MC_TRY(read_softcap(text, "attn_logit_softcapping",
                        &spec->blocks[MC_PLAIN_ATTENTION].attention.soft_cap));
    return read_softcap(text, "final_logit_softcapping", &spec->final_softcap);
}

static const mc_decoder_names plain_names = {
    .embed = "embed_tokens", .norm = "norm", .head = "lm_head"};

const mc_decoder_names *mc_family_names(const mc_decoder_spec *spec) {
    return spec ? &spec->names : &plain_names;
}

mica_status mc_family_plain(const mc_config_scope *root, mc_decoder_spec *spec) {
    mc_config_scope text;
    MC_TRY(mc_family_text(root, &text));
    if (spec->ropes[0].factor == 0) spec->ropes[0] = mc_rope_plain(1e4);
    spec->names = plain_names;
    spec->embed_scale = 1.0;
    MC_TRY(mc_family_sizes(root, &text, spec));
    mc_family_layers(spec);
    MC_TRY(mc_family_activation(&text, spec));
    return mc_family_rope(&text, spec, NULL, &spec->ropes[0]);
}

void mc_family_gemma_defaults(mc_decoder_spec *spec) {
    spec->hidden = 2304;
    spec->intermediate = 9216;
    spec->n_layers = 26;
    spec->heads = 8;
    spec->kv_heads = 4;
    spec->head_dim = 256;
    spec->norm_eps = 1e-6;
    spec->norm_offset = 1.0;
    spec->names = plain_names;
}

mica_status mc_family_gemma(const mc_config_scope *root, const mc_config_scope *text,
                            mc_decoder_spec *spec) {
    double query_scalar = 256.0;
    bool bias = false;
    MC_TRY(mc_family_sizes(root, text, spec));
    mc_family_layers(spec);
    mc_block_spec *attention = &spec->blocks[MC_PLAIN_ATTENTION],
                  *mlp = &spec->blocks[MC_PLAIN_MLP];
    mc_block_use(attention, MC_BLOCK_POST_NORM);
    mlp->names[MC_BLOCK_NORM] = "pre_feedforward_layernorm";
    mc_block_use(mlp, MC_BLOCK_POST_NORM);
    mlp->gated.activation = MC_GELU_APPROX;
    MC_TRY(mc_family_activation(text, spec));
    MC_TRY(mc_config_float(text, "query_pre_attn_scalar", MC_OPTIONAL, 1e-6, 1e9, &query_scalar));
    MC_TRY(mc_config_bool(text, "attention_bias", MC_OPTIONAL, &bias));
    mc_family_biases(spec, bias, bias, false);
    attention->attention.scale = 1.0 / sqrt(query_scalar);
    spec->embed_scale = sqrt((double)spec->hidden);
    return MICA_OK;
}

mica_status mc_family_window(const mc_config_scope *text, int64_t window, mc_decoder_spec *spec) {
    if (mc_family_is_null(text, "sliding_window")) return MICA_OK;
    MC_TRY(mc_config_int(text, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    spec->blocks[MC_PLAIN_ATTENTION].attention.window = window;
    return MICA_OK;
}

mica_status mc_family_late_windows(const mc_config_scope *text, mc_decoder_spec *spec) {
    bool slides = false;
    int64_t window = 4096, first = 28;
    MC_TRY(mc_config_bool(text, "use_sliding_window", MC_OPTIONAL, &slides));
    if (!slides || mc_family_is_null(text, "sliding_window")) return MICA_OK;
    MC_TRY(mc_config_int(text, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    if (mc_config_has(text, "layer_types")) return mc_family_windows(text, window, 1, spec);
    MC_TRY(mc_config_int(text, "max_window_layers", MC_OPTIONAL, 0, MC_MAX_LAYERS, &first));
    for (int i = 0; i < spec->n_layers; i++)
        if (i >= first) set_window(spec, i, window);
    return MICA_OK;
}
