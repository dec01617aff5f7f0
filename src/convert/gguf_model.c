#include "convert/gguf_model.h"

#include "base/half.h"
#include "base/json_write.h"
#include "model/family.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 128

static const mc_gguf_arch archs[] = {
    {"llama", "llama", "LlamaForCausalLM", false, true, NULL, NULL, false},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false, false, NULL, NULL, false},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false, false, NULL, NULL, false},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", true, false, NULL, NULL, false},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", true, false, NULL, NULL, false},
    {"llama", "mixtral", "MixtralForCausalLM", false, true, "num_local_experts",
     "intermediate_size", true},
    {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", false, false, "num_experts",
     "moe_intermediate_size", true},
    {"olmoe", "olmoe", "OlmoeForCausalLM", false, false, "num_experts", "intermediate_size", false},
};

static const char *key_of(const mc_gguf_arch *arch, const char *key, char text[KEY_BYTES]) {
    snprintf(text, KEY_BYTES, "%s.%s", arch->name, key);
    return text;
}

/* The number of experts that a file of an architecture says; 0: none. */
static int64_t count_experts(const mc_gguf *gguf, const mc_gguf_arch *arch) {
    char text[KEY_BYTES];
    int64_t n = 0;
    mc_gguf_int(gguf, key_of(arch, "expert_count", text), &n);
    return n;
}

mica_status mc_gguf_arch_find(const mc_gguf *gguf, const mc_gguf_arch **arch) {
    mc_str name = MC_STR("");
    mc_gguf_str(gguf, "general.architecture", &name);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (mc_str_is(name, archs[i].name) &&
            (archs[i].experts != NULL) == (count_experts(gguf, &archs[i]) > 0)) {
            *arch = &archs[i];
            return MICA_OK;
        }
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: general.architecture is '%.*s'; mica converts llama, also with experts, "
                   "qwen2, qwen3, qwen3moe, olmoe, gemma2 and gemma3",
                   mc_gguf_path(gguf), name.len < 40 ? (int)name.len : 40, name.ptr);
}

mica_status mc_gguf_arch_of(const char *family, const mc_gguf_arch **arch) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strcmp(archs[i].experts ? archs[i].model_type : archs[i].name, family) == 0) {
            *arch = &archs[i];
            return MICA_OK;
        }
    return mc_fail(MICA_EUNSUPPORTED, "mica writes no GGUF files of the family %s", family);
}

/* "arch.key" as an integer or number; `fallback` if it is absent. */
static int64_t arch_int(const mc_gguf *gguf, const mc_gguf_arch *arch, const char *key,
                        int64_t fallback) {
    char text[KEY_BYTES];
    mc_gguf_int(gguf, key_of(arch, key, text), &fallback);
    return fallback;
}

static double arch_number(const mc_gguf *gguf, const mc_gguf_arch *arch, const char *key,
                          double fallback) {
    char text[KEY_BYTES];
    mc_gguf_number(gguf, key_of(arch, key, text), &fallback);
    return fallback;
}

/* ---- names ---- */

/* What is outside the layers: its name in GGUF, and that of the decoder. */
static const char *top_name(const mc_decoder_spec *spec, mc_str gguf) {
    if (mc_str_is(gguf, "token_embd")) return spec->names.embed;
    if (mc_str_is(gguf, "output_norm")) return spec->names.norm;
    return mc_str_is(gguf, "output") ? spec->names.head : NULL;
}

static const char *top_gguf(const mc_decoder_spec *spec, mc_str name) {
    if (mc_str_is(name, spec->names.embed)) return "token_embd";
    if (mc_str_is(name, spec->names.norm)) return "output_norm";
    return mc_str_is(name, spec->names.head) ? "output" : NULL;
}

/* The slot of a layer with a name in GGUF. */
static bool find_slot(const mc_decoder_spec *spec, int layer, mc_str gguf, mc_spec_slot *found) {
    const mc_block_spec *block;
    for (int k = 0; (block = mc_spec_block(spec, layer, k)); k++)
        for (int i = 0; i < block->kind->n_slots; i++) {
            const char *name = block->kind->slots[i].gguf;
            if (!name || !block->names[i] || !mc_str_is(gguf, name)) continue;
            *found = (mc_spec_slot){layer, k, block, i};
            return true;
        }
    return false;
}

/* ".weight" or ".bias"; *module: what is before it, or the name of a tensor without one. */
static const char *split_ending(mc_str name, mc_str *module) {
    static const struct {
        const char *ending, *whole;
    } known[] = {{".weight", ".weight"}, {".bias", ".bias"}, {"_bias", ".bias"}, {"", ".weight"}};
    size_t i = 0;
    while (!mc_str_ends(name, mc_str_of(known[i].ending)))
        i++;
    *module = (mc_str){name.ptr, name.len - strlen(known[i].ending)};
    return known[i].whole;
}

/* What stands behind the name of a slot: nothing, for a vector that is called as it is. */
static const char *ending_of(const mc_spec_slot *slot, const char *ending) {
    return slot->spec->kind->slots[slot->slot].bare ? "" : ending;
}

bool mc_gguf_tensor_name(const mc_decoder_spec *spec, const char *name, char *out, size_t bytes,
                         mc_spec_slot *slot) {
    mc_str module;
    const char *ending = split_ending(mc_str_of(name), &module), *top;
    int layer, at = 0;
    *slot = (mc_spec_slot){.layer = -1};
    if ((top = top_name(spec, module)))
        return snprintf(out, bytes, "%s%s%s", top == spec->names.head ? "" : "model.", top,
                        ending) < (int)bytes;
    if (sscanf(name, "blk.%5d.%n", &layer, &at) != 1 || !at || layer < 0 || module.len < (size_t)at)
        return false;
    module = (mc_str){module.ptr + at, module.len - (size_t)at};
    int last = spec->n_layers - 1; /* layers too many are refused by their names */
    return find_slot(spec, layer < last ? layer : last, module, slot) &&
           snprintf(out, bytes, "model.layers.%d.%s%s", layer, slot->spec->names[slot->slot],
                    ending_of(slot, ending)) < (int)bytes;
}

bool mc_gguf_name_of(const mc_decoder_spec *spec, mc_str name, char *out, size_t bytes,
                     mc_spec_slot *slot) {
    mc_str module;
    const char *ending = split_ending(name, &module), *top;
    *slot = (mc_spec_slot){.layer = -1};
    if ((top = top_gguf(spec, module)))
        return snprintf(out, bytes, "%s%s", top, ending) < (int)bytes;
    if (!mc_spec_find(spec, module, slot)) return false;
    const char *gguf = slot->spec->kind->slots[slot->slot].gguf;
    return gguf && snprintf(out, bytes, "blk.%d.%s%s", slot->layer, gguf, ending) < (int)bytes;
}

int64_t mc_gguf_paired_heads(const mc_gguf_arch *arch, const mc_spec_slot *slot) {
    if (!arch->permuted || slot->layer < 0) return 0;
    mc_extent *heads = slot->spec->kind->slots[slot->slot].rotated;
    return heads ? heads(slot->spec) : 0;
}

double mc_gguf_norm_offset(const mc_decoder_spec *spec, const mc_spec_slot *slot,
                           const char *name) {
    if (slot->layer >= 0)
        return slot->spec->kind->slots[slot->slot].kind == MC_SLOT_NORM ? slot->spec->norm_offset
                                                                        : 0;
    return mc_str_is(mc_decoder_name(mc_str_of(name)), "norm.weight") ? spec->norm_offset : 0;
}

/* ---- config.json ---- */

/* Adds ",\n    "key": value" with the fewest digits that give the same float. */
static bool put_number(mc_buffer *out, const char *key, double value) {
    char text[64];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) break;
    }
    return mc_buffer_printf(out, ",\n    \"%s\": ", key) &&
           mc_json_put_number(out, strtod(text, NULL));
}

static bool put_int(mc_buffer *out, const char *key, int64_t value) {
    return mc_buffer_printf(out, ",\n    \"%s\": %" PRId64, key, value);
}

/* The sizes that every config has. */
typedef struct sizes {
    int64_t hidden, layers, heads, kv_heads, head_dim, mlp, context, vocab;
} sizes;

/* Reads a size in 1..max. *size: what it is without the key; 0: there must be one. */
static mica_status read_size(const mc_gguf *g, const mc_gguf_arch *arch, const char *key,
                             int64_t max, int64_t *size) {
    *size = arch_int(g, arch, key, *size);
    if (*size >= 1 && *size <= max) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: %s.%s is %lld, or absent; want 1..%lld", mc_gguf_path(g),
                   arch->name, key, (long long)*size, (long long)max);
}

static mica_status read_sizes(const mc_gguf *g, const mc_gguf_arch *arch, sizes *s) {
    const mc_gguf_tensor *embed = mc_gguf_find(g, "token_embd.weight");
    const int64_t max = MC_MAX_WIDTH;
    *s = (sizes){0};
    MC_TRY(read_size(g, arch, "embedding_length", max, &s->hidden));
    MC_TRY(read_size(g, arch, "block_count", MC_MAX_LAYERS, &s->layers));
    MC_TRY(read_size(g, arch, "attention.head_count", max, &s->heads));
    s->kv_heads = s->heads;
    MC_TRY(read_size(g, arch, "attention.head_count_kv", max, &s->kv_heads));
    MC_TRY(read_size(g, arch, "feed_forward_length", max, &s->mlp));
    MC_TRY(read_size(g, arch, "context_length", INT32_MAX, &s->context));
    if (!embed || embed->ndim != 2)
        return mc_fail(MICA_EFORMAT, "%s: token_embd.weight is missing, or no matrix",
                       mc_gguf_path(g));
    s->head_dim = arch_int(g, arch, "attention.key_length", s->hidden / s->heads);
    s->vocab = embed->shape[0];
    int64_t rotated = arch_int(g, arch, "rope.dimension_count", s->head_dim);
    if (rotated == s->head_dim && s->head_dim >= 2 && s->head_dim <= 65536) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s: RoPE rotates %lld of %lld elements of a head",
                   mc_gguf_path(g), (long long)rotated, (long long)s->head_dim);
}

/* Llama 3's scaling is stored as divisors of the frequencies. Its parameters are found again: the
 * factor is the largest divisor, and all published models have the same others. Those of a file
 * that mica wrote are in the metadata. */
static mica_status put_llama3_rope(const mc_gguf *g, const mc_gguf_arch *arch,
                                   const mc_gguf_tensor *t, const sizes *s, double base,
                                   mc_buffer *out) {
    const double low = arch_number(g, arch, "rope.scaling.low_freq_factor", 1);
    const double high = arch_number(g, arch, "rope.scaling.high_freq_factor", 4);
    const double original = arch_number(g, arch, "rope.scaling.original_context_length", 8192);
    int64_t n = s->head_dim / 2;
    double factor = 1, worst = 0;
    float stored;
    if (strcmp(t->type->name, "F32") != 0 || t->ndim != 1 || t->shape[0] != n)
        return mc_fail(MICA_EFORMAT, "%s: tensor %s is not F32 [%lld]", mc_gguf_path(g), t->name,
                       (long long)n);
    const uint8_t *data = t->data;
    for (int64_t i = 0; i < n; i++) {
        t->type->decode(data + 4 * i, &stored);
        factor = fmax(factor, (double)stored);
    }
    for (int64_t i = 0; i < n; i++) {
        double rotations =
            original * pow(base, -2.0 * (double)i / (double)s->head_dim) / (2 * acos(-1.0));
        double keep = fmin(fmax((rotations - low) / (high - low), 0), 1);
        t->type->decode(data + 4 * i, &stored);
        worst = fmax(worst, fabs((double)stored * (keep + (1 - keep) / factor) - 1));
    }
    if (!(worst < 1e-3 && low < high && original >= 1 && original < 1e9))
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: tensor %s: these scaled frequencies are not Llama 3's", mc_gguf_path(g),
                       t->name);
    bool done = mc_buffer_add_text(out, ",\n    \"rope_scaling\": {\"rope_type\": \"llama3\"") &&
                put_number(out, "factor", factor) && put_number(out, "low_freq_factor", low) &&
                put_number(out, "high_freq_factor", high) &&
                put_int(out, "original_max_position_embeddings", (int64_t)original) &&
                mc_buffer_add_byte(out, '}');
    return done ? MICA_OK : mc_fail_nomem("config.json");
}

static mica_status put_rope(const mc_gguf *g, const mc_gguf_arch *arch, const sizes *s,
                            mc_buffer *out) {
    char key[KEY_BYTES];
    mc_str type = MC_STR("none");
    double base = arch_number(g, arch, "rope.freq_base", 10000);
    const mc_gguf_tensor *freqs = mc_gguf_find(g, "rope_freqs.weight");
    mc_gguf_str(g, key_of(arch, "rope.scaling.type", key), &type);
    if (!put_number(out, "rope_theta", base)) return mc_fail_nomem("config.json");
    if (freqs) return put_llama3_rope(g, arch, freqs, s, base, out);
    if (mc_str_is(type, "linear")) {
        double factor = arch_number(g, arch, "rope.scaling.factor", 1);
        bool done =
            mc_buffer_add_text(out, ",\n    \"rope_scaling\": {\"rope_type\": \"linear\"") &&
            put_number(out, "factor", factor) && mc_buffer_add_byte(out, '}');
        return done ? MICA_OK : mc_fail_nomem("config.json");
    }
    if (mc_str_is(type, "none")) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s: %s.rope.scaling.type is '%.*s'; mica knows linear",
                   mc_gguf_path(g), arch->name, type.len < 40 ? (int)type.len : 40, type.ptr);
}

/* Which layers of Gemma slide: all but every n-th, or a bool for each. Without the key it is every
 * sixth of Gemma 3, and every second of Gemma 2, whose config.json cannot say another. */
static bool put_pattern(const mc_gguf *g, const mc_gguf_arch *arch, const sizes *s, bool second,
                        mc_buffer *out) {
    char key[KEY_BYTES];
    key_of(arch, "attention.sliding_window_pattern", key);
    int64_t pattern = second ? 2 : 6, full = 0;
    mc_gguf_int(g, key, &pattern);
    bool listed = mc_gguf_array(g, key) == (size_t)s->layers, done = true;
    for (mc_gguf_iter it = mc_gguf_begin(g, key); listed && mc_gguf_next(&it);) {
        if (it.integer) continue;
        if (full++ == 0) pattern = (int64_t)it.index + 1;
    }
    if (listed && full == 0) pattern = s->layers + 1;
    if (pattern < 1) pattern = s->layers + 1; /* 0: all slide */
    done = second || put_int(out, "sliding_window_pattern", pattern);
    done = done && mc_buffer_add_text(out, ",\n    \"layer_types\": [");
    mc_gguf_iter it = mc_gguf_begin(g, key);
    for (int64_t i = 0; done && i < s->layers; i++) {
        bool slides = (i + 1) % pattern != 0;
        if (listed && mc_gguf_next(&it)) slides = it.integer != 0;
        done =
            mc_buffer_printf(out, "%s\"%s_attention\"", i ? ", " : "", slides ? "sliding" : "full");
    }
    return done && mc_buffer_add_byte(out, ']');
}

/* What Gemma's configs have besides. The scale of queries is not stored: the 27B models, which are
 * told by their layers, have hidden_size / heads, all others head_dim. */
static bool put_gemma(const mc_gguf *g, const mc_gguf_arch *arch, const sizes *s, mc_buffer *out) {
    bool second = strcmp(arch->name, "gemma2") == 0;
    bool large = s->layers == (second ? 46 : 62);
    int64_t window = arch_int(g, arch, "attention.sliding_window", second ? 4096 : 1024);
    bool done = put_int(out, "query_pre_attn_scalar", large ? s->hidden / s->heads : s->head_dim) &&
                put_int(out, "sliding_window", window) &&
                mc_buffer_add_text(out, ",\n    \"hidden_activation\": \"gelu_pytorch_tanh\"");
    done = done && put_pattern(g, arch, s, second, out);
    if (!second) {
        double cap = arch_number(g, arch, "final_logit_softcapping", 0);
        return done &&
               put_number(out, "rope_local_base_freq",
                          arch_number(g, arch, "rope.freq_base_swa", 10000)) &&
               (cap == 0 || put_number(out, "final_logit_softcapping", cap));
    }
    return done &&
           put_number(out, "attn_logit_softcapping",
                      arch_number(g, arch, "attn_logit_softcapping", 50)) &&
           put_number(out, "final_logit_softcapping",
                      arch_number(g, arch, "final_logit_softcapping", 30));
}

static bool has_bias(const mc_gguf *g, const mc_block *kind, int slot) {
    char name[64];
    snprintf(name, sizeof name, "blk.0.%s.bias", kind->slots[slot].gguf);
    return mc_gguf_find(g, name) != NULL;
}

static bool put_sizes(const mc_gguf *g, const mc_gguf_arch *arch, const sizes *s, mc_buffer *out) {
    double eps = arch_number(g, arch, "attention.layer_norm_rms_epsilon", 1e-6);
    bool tied = !mc_gguf_find(g, "output.weight");
    bool biased = has_bias(g, &mc_block_attention, MC_ATTENTION_Q);
    bool mlp_bias = has_bias(g, &mc_block_gated, MC_GATED_UP);
    return mc_buffer_printf(out,
                            "{\n    \"architectures\": [\"%s\"],\n    \"model_type\": \"%s\",\n"
                            "    \"attention_bias\": %s,\n    \"tie_word_embeddings\": %s",
                            arch->architecture, arch->model_type, biased ? "true" : "false",
                            tied ? "true" : "false") &&
           put_int(out, "hidden_size", s->hidden) && put_int(out, "num_hidden_layers", s->layers) &&
           put_int(out, "num_attention_heads", s->heads) &&
           put_int(out, "num_key_value_heads", s->kv_heads) &&
           put_int(out, "head_dim", s->head_dim) && put_int(out, "intermediate_size", s->mlp) &&
           put_int(out, "max_position_embeddings", s->context) &&
           put_int(out, "vocab_size", s->vocab) && put_number(out, "rms_norm_eps", eps) &&
           (arch->gemma || mc_buffer_add_text(out, ",\n    \"hidden_act\": \"silu\"")) &&
           (!mlp_bias || mc_buffer_add_text(out, ",\n    \"mlp_bias\": true"));
}

static bool put_experts(const mc_gguf *g, const mc_gguf_arch *arch, const sizes *s,
                        mc_buffer *out) {
    bool own_width = strcmp(arch->width, "intermediate_size") != 0;
    int64_t width = arch_int(g, arch, "expert_feed_forward_length", s->mlp);
    return put_int(out, arch->experts, count_experts(g, arch)) &&
           put_int(out, "num_experts_per_tok", arch_int(g, arch, "expert_used_count", 2)) &&
           mc_buffer_printf(out, ",\n    \"norm_topk_prob\": %s",
                            arch->renormalised ? "true" : "false") &&
           (!own_width || put_int(out, arch->width, width));
}

/* Token ids that config.json has, too. */
static bool put_tokens(const mc_gguf *g, mc_buffer *out) {
    int64_t bos, eos;
    bool done = true;
    if (mc_gguf_int(g, "tokenizer.ggml.bos_token_id", &bos))
        done = put_int(out, "bos_token_id", bos);
    if (done && mc_gguf_int(g, "tokenizer.ggml.eos_token_id", &eos))
        done = put_int(out, "eos_token_id", eos);
    return done;
}

mica_status mc_gguf_config(const mc_gguf *g, const mc_gguf_arch *arch, mc_buffer *out) {
    sizes s;
    MC_TRY(read_sizes(g, arch, &s));
    if (!put_sizes(g, arch, &s, out) || (arch->gemma && !put_gemma(g, arch, &s, out)) ||
        (arch->experts && !put_experts(g, arch, &s, out)) || !put_tokens(g, out))
        return mc_fail_nomem("config.json");
    MC_TRY(put_rope(g, arch, &s, out));
    return mc_buffer_add_text(out, "\n}\n") ? MICA_OK : mc_fail_nomem("config.json");
}
