#include "convert/gguf_describe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEY_BYTES 128

typedef struct describing {
    const mc_gguf_arch *arch;
    const mc_decoder_spec *spec;
    const mc_block_spec *attention, *mlp; /* of the first layer */
    mc_gguf_pairs *out;
} describing;

static bool put_u32(const describing *d, const char *key, int64_t value) {
    char text[KEY_BYTES];
    snprintf(text, sizeof text, "%s.%s", d->arch->name, key);
    return mc_gguf_put_u32(d->out, text, (uint32_t)value);
}

static bool put_f32(const describing *d, const char *key, double value) {
    char text[KEY_BYTES];
    snprintf(text, sizeof text, "%s.%s", d->arch->name, key);
    return mc_gguf_put_f32(d->out, text, (float)value);
}

/* ---- what the architecture cannot say ---- */

static bool is_arch(const describing *d, const char *name) {
    return strcmp(d->arch->name, name) == 0;
}

static bool slides(const mc_decoder_spec *spec) {
    for (int i = 0; i < spec->n_layers; i++)
        if (mc_spec_attention(spec, i)->window) return true;
    return false;
}

static bool llama3_rope(const mc_decoder_spec *spec) {
    return spec->ropes[0].kind == MC_ROPE_LLAMA3 || spec->ropes[1].kind == MC_ROPE_LLAMA3;
}

static bool has_new_rope(const mc_decoder_spec *spec) {
    for (int i = 0; i < MC_MAX_ROPES; i++) {
        const mc_rope_spec *rope = &spec->ropes[i];
        if (rope->kind > MC_ROPE_LLAMA3 || mc_rope_dims(rope) != rope->head_dim) return true;
    }
    return false;
}

/* The scale of queries follows from the sizes: see gguf_model.c. */
static bool scale_fits(const describing *d) {
    const mc_decoder_spec *s = d->spec;
    bool large = d->arch->gemma && s->n_layers == (is_arch(d, "gemma2") ? 46 : 62);
    int64_t scalar = large ? s->hidden / s->heads : s->head_dim;
    return fabs(d->attention->attention.scale * sqrt((double)scalar) - 1) < 1e-6;
}

/* The same of experts. */
static const char *find_experts_misfit(const describing *d) {
    const mc_decoder_spec *s = d->spec;
    const mc_experts_spec *e = &d->mlp->experts;
    for (int i = 0; i < s->n_layers; i++)
        if (mc_spec_block(s, i, 1) != d->mlp) return "layers without experts";
    if (d->mlp->kind != &mc_block_experts) return "layers without experts";
    if (e->activation != MC_SILU || e->limit != 0) return "another activation";
    bool over_all = e->scoring == MC_SCORE_SOFTMAX;
    bool renormalised = e->scoring == MC_SCORE_PICKED_SOFTMAX || e->renormalised;
    if ((!over_all && e->scoring != MC_SCORE_PICKED_SOFTMAX) || e->factor != 1)
        return "another kind of router";
    if (renormalised != d->arch->renormalised)
        return renormalised ? "renormalised weights of experts (norm_topk_prob)"
                            : "weights of experts that are not renormalised (norm_topk_prob)";
    return NULL;
}

/* What there is in a config, and not in GGUF; NULL: nothing. */
static const char *find_misfit(const describing *d) {
    const mc_decoder_spec *s = d->spec;
    const mc_block_spec *attention = d->attention, *mlp = d->mlp;
    double cap = attention->attention.soft_cap;
    bool o_bias = mc_block_has_bias(attention, MC_ATTENTION_O);
    bool gemma = d->arch->gemma, gemma2 = is_arch(d, "gemma2"), llama = is_arch(d, "llama");
    const char *experts = d->arch->experts ? find_experts_misfit(d) : NULL;
    bool mlp_bias = !d->arch->experts && mc_block_has_bias(mlp, MC_GATED_UP);
    mc_activation usual = gemma ? MC_GELU_APPROX : MC_SILU;
    if (s->both_ways) return "attention both ways";
    if (experts) return experts;
    if (!d->arch->experts && mlp->gated.activation != usual) return "another activation";
    if (!scale_fits(d)) return "a query_pre_attn_scalar unlike head_dim";
    if (!gemma && slides(s)) return "sliding windows";
    if (has_new_rope(s)) return "a RoPE of another kind";
    if (llama3_rope(s) && !llama) return "Llama 3's RoPE";
    if (gemma && mc_block_has_bias(attention, MC_ATTENTION_Q)) return "biases of attention";
    if (!llama && (o_bias || mlp_bias)) return "biases of o_proj or of the MLP";
    if (!gemma2 && cap != 0) return "attn_logit_softcapping";
    if (!gemma && s->final_softcap != 0) return "final_logit_softcapping";
    if (gemma2 && (cap == 0 || s->final_softcap == 0)) return "no soft-caps";
    if (gemma2 && s->tied == MC_TIED_NO) return "a head of its own";
    if (is_arch(d, "qwen2") && s->heads * s->head_dim != s->hidden)
        return "a head_dim unlike hidden_size / num_attention_heads";
    if (is_arch(d, "gemma3") && s->ropes[1].factor != 1) return "a scaled RoPE of sliding layers";
    return NULL;
}

/* ---- the parts ---- */

static bool put_sizes(const describing *d) {
    const mc_decoder_spec *s = d->spec;
    return put_u32(d, "vocab_size", s->vocab) && put_u32(d, "context_length", s->context) &&
           put_u32(d, "embedding_length", s->hidden) && put_u32(d, "block_count", s->n_layers) &&
           put_u32(d, "feed_forward_length", s->intermediate) &&
           put_u32(d, "attention.head_count", s->heads) &&
           put_u32(d, "attention.head_count_kv", s->kv_heads) &&
           put_u32(d, "attention.key_length", s->head_dim) &&
           put_u32(d, "attention.value_length", s->head_dim) &&
           put_f32(d, "attention.layer_norm_rms_epsilon", s->norm_eps);
}

static bool put_experts(const describing *d) {
    const mc_experts_spec *e = &d->mlp->experts;
    return put_u32(d, "expert_count", e->count) && put_u32(d, "expert_used_count", e->picks) &&
           put_u32(d, "expert_feed_forward_length", e->width);
}

static bool put_rope(const describing *d) {
    const mc_rope_spec *rope = &d->spec->ropes[0];
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "%s.rope.scaling.type", d->arch->name);
    if (!put_u32(d, "rope.dimension_count", d->spec->head_dim) ||
        !put_f32(d, "rope.freq_base", rope->base))
        return false;
    if (rope->kind ==
        MC_ROPE_LLAMA3) /* the divisors say it all; these are for mica, which reads config.json */
        return put_f32(d, "rope.scaling.low_freq_factor", rope->low_freq_factor) &&
               put_f32(d, "rope.scaling.high_freq_factor", rope->high_freq_factor) &&
               put_u32(d, "rope.scaling.original_context_length", (int64_t)rope->original_context);
    if (rope->factor == 1) return true;
    return mc_gguf_put_str(d->out, key, MC_STR("linear")) &&
           put_f32(d, "rope.scaling.factor", rope->factor);
}

/* Which layers slide, if not as the architecture assumes. */
static bool put_pattern(const describing *d) {
    const mc_decoder_spec *s = d->spec;
    char key[KEY_BYTES];
    int pattern = is_arch(d, "gemma2") ? 2 : 6;
    bool usual = true, done;
    for (int i = 0; i < s->n_layers; i++)
        usual = usual && (mc_spec_attention(s, i)->window != 0) == ((i + 1) % pattern != 0);
    if (usual) return true;
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", d->arch->name);
    done = mc_gguf_begin_bools(d->out, key, (uint64_t)s->n_layers);
    for (int i = 0; done && i < s->n_layers; i++)
        done = mc_gguf_add_bool(d->out, mc_spec_attention(s, i)->window != 0);
    return done;
}

static bool put_gemma(const describing *d) {
    const mc_decoder_spec *s = d->spec;
    int64_t window = 0;
    for (int i = 0; i < s->n_layers; i++)
        if (mc_spec_attention(s, i)->window) window = mc_spec_attention(s, i)->window;
    bool done =
        put_u32(d, "attention.sliding_window", window ? window : s->context) && put_pattern(d);
    if (done && s->final_softcap != 0)
        done = put_f32(d, "final_logit_softcapping", s->final_softcap);
    if (is_arch(d, "gemma2"))
        return done && put_f32(d, "attn_logit_softcapping", d->attention->attention.soft_cap);
    return done && put_f32(d, "rope.freq_base_swa", s->ropes[1].base);
}

mica_status mc_gguf_describe(const mc_gguf_arch *arch, const mc_decoder_spec *spec,
                             mc_gguf_pairs *out) {
    const describing d = {arch, spec, mc_spec_block(spec, 0, 0), mc_spec_block(spec, 0, 1), out};
    const char *misfit = find_misfit(&d);
    if (misfit)
        return mc_fail(MICA_EUNSUPPORTED,
                       "the model has %s, which GGUF files of the architecture %s cannot tell",
                       misfit, arch->name);
    bool done = mc_gguf_put_str(out, "general.architecture", mc_str_of(arch->name)) &&
                mc_gguf_put_str(out, "general.type", MC_STR("model")) &&
                mc_gguf_put_u32(out, "general.quantization_version", 2) && put_sizes(&d) &&
                put_rope(&d) && (!arch->gemma || put_gemma(&d)) &&
                (!arch->experts || put_experts(&d));
    return done ? MICA_OK : mc_fail_nomem("the metadata of a GGUF file");
}

void mc_gguf_rope_divisors(const mc_decoder_spec *spec, float *out) {
    const mc_rope_spec *r = &spec->ropes[0];
    double low = r->low_freq_factor, high = r->high_freq_factor;
    for (int64_t i = 0; i < spec->head_dim / 2; i++) {
        double frequency = pow(r->base, -2.0 * (double)i / (double)spec->head_dim);
        double rotations = r->original_context * frequency / (2 * acos(-1.0));
        double keep = fmin(fmax((rotations - low) / (high - low), 0), 1);
        out[i] = (float)(1 / (keep + (1 - keep) / r->factor));
    }
}
