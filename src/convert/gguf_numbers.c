#include "convert/gguf_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define YARN_FAST 32.0
#define YARN_SLOW 1.0
#define MAX_PAIRS 4096 /* of a head, which RoPE rotates */

/* ---- of a spec ---- */

static const mc_block_spec *find_block(const mc_decoder_spec *spec, const mc_block *kind) {
    const mc_block_spec *block;
    for (int i = 0; i < spec->n_layers; i++)
        for (int k = 0; (block = mc_spec_block(spec, i, k)); k++)
            if (block->kind == kind) return block;
    return NULL;
}

static mc_gguf_kind kind_of(const mc_block_spec *block) {
    if (block->kind->state == MC_STATE_KEYS)
        return block->attention.window ? MC_GGUF_SLIDING : MC_GGUF_FULL;
    if (block->kind->state == MC_STATE_CARRIED) return MC_GGUF_CARRYING;
    return block->kind == &mc_block_experts ? MC_GGUF_SPARSE : MC_GGUF_MLP;
}

/* The attention of the first layer with a window, or without; one of any layer, if there is none;
 * it rotates, if there is such a one. */
static const mc_attention_spec *find_attention(const mc_decoder_spec *spec, bool window) {
    const mc_attention_spec *best = mc_spec_attention(spec, 0);
    int most = -1;
    for (int i = 0; i < spec->n_layers; i++) {
        const mc_attention_spec *a = mc_spec_attention(spec, i);
        int score = !a->heads ? -1 : 2 * ((a->window != 0) == window) + (a->rope != MC_NO_ROPE);
        if (score > most) most = score, best = a;
    }
    return best;
}

static void take_attention(const mc_decoder_spec *spec, mc_gguf_numbers *n) {
    const mc_attention_spec *full = find_attention(spec, false),
                            *slides = find_attention(spec, true);
    n->of[MC_GGUF_HEADS] = (double)spec->heads;
    n->of[MC_GGUF_HEAD_DIM] = (double)full->head_dim;
    n->of[MC_GGUF_HEAD_DIM_SWA] = (double)slides->head_dim;
    n->of[MC_GGUF_SCALE] = full->scale;
    /* Of an encoder files have what is on both sides. */
    if (slides->window) n->of[MC_GGUF_WINDOW] = (double)slides->window * (spec->both_ways ? 2 : 1);
    if (full->soft_cap != 0) n->of[MC_GGUF_SCORE_CAP] = full->soft_cap;
    if (full->growth != 0) n->of[MC_GGUF_GROWTH] = full->growth;
    n->of[MC_GGUF_ROTATES] = full->rope != MC_NO_ROPE;
    n->full = spec->ropes[full->rope == MC_NO_ROPE ? 0 : full->rope];
    n->sliding = spec->ropes[slides->rope == MC_NO_ROPE ? 0 : slides->rope];
}

static void take_latents(const mc_decoder_spec *spec, mc_gguf_numbers *n) {
    const mc_block_spec *block = find_block(spec, &mc_block_mla);
    if (!block) return;
    const mc_mla_spec *m = &block->mla;
    int64_t rotated = m->attention.head_dim - m->attention.latent;
    if (m->query_latent) n->of[MC_GGUF_QUERY_LATENT] = (double)m->query_latent;
    n->of[MC_GGUF_LATENT] = (double)m->attention.latent;
    n->of[MC_GGUF_KEY_DIM] = (double)(m->plain + rotated);
    n->of[MC_GGUF_VALUE_DIM] = (double)m->value_dim;
    n->of[MC_GGUF_ROTATED] = (double)rotated;
}

static void take_experts(const mc_decoder_spec *spec, mc_gguf_numbers *n) {
    const mc_block_spec *block = find_block(spec, &mc_block_experts);
    if (!block) {
        n->of[MC_GGUF_EXPERTS] = n->of[MC_GGUF_PICKS] = 0;
        return;
    }
    const mc_experts_spec *e = &block->experts;
    n->of[MC_GGUF_EXPERTS] = (double)e->count;
    n->of[MC_GGUF_PICKS] = (double)e->picks;
    n->of[MC_GGUF_EXPERT_WIDTH] = (double)e->width;
    if (e->shared_width) n->of[MC_GGUF_SHARED_WIDTH] = (double)e->shared_width;
    n->of[MC_GGUF_SHARED_COUNT] = (double)(e->width ? e->shared_width / e->width : 0);
    n->of[MC_GGUF_GROUPS] = (double)(e->groups ? e->groups : 1);
    n->of[MC_GGUF_TOP_GROUPS] = (double)(e->top_groups ? e->top_groups : 1);
    n->of[MC_GGUF_RENORMALISED] = (double)e->renormalised;
    n->of[MC_GGUF_FACTOR] = e->factor;
    int dense = 0;
    while (mc_spec_block(spec, dense, 1) && mc_spec_block(spec, dense, 1)->kind == &mc_block_gated)
        dense++;
    n->of[MC_GGUF_DENSE_LAYERS] = dense;
}

static void take_carried(const mc_decoder_spec *spec, mc_gguf_numbers *n) {
    const mc_block_spec *net = find_block(spec, &mc_block_delta_net),
                        *mamba = find_block(spec, &mc_block_mamba2),
                        *conv = find_block(spec, &mc_block_short_conv);
    if (conv) n->of[MC_GGUF_TAPS] = (double)conv->short_conv.taps;
    if (net) {
        const mc_delta_net_spec *d = &net->delta_net;
        n->of[MC_GGUF_TAPS] = (double)d->taps;
        n->of[MC_GGUF_STATE] = (double)d->key_dim;
        n->of[MC_GGUF_STATE_GROUPS] = (double)d->key_heads;
        n->of[MC_GGUF_STATE_HEADS] = (double)d->value_heads;
        n->of[MC_GGUF_INNER] = (double)(d->value_heads * d->value_dim);
    }
    if (mamba) {
        const mc_mamba2_spec *m = &mamba->mamba2;
        n->of[MC_GGUF_TAPS] = (double)m->taps;
        n->of[MC_GGUF_STATE] = (double)m->state;
        n->of[MC_GGUF_STATE_GROUPS] = (double)m->groups;
        n->of[MC_GGUF_STATE_HEADS] = (double)m->heads;
        n->of[MC_GGUF_INNER] = (double)(m->heads * m->head_dim);
    }
}

/* The block of a layer that has a state; the first, if none has. */
static const mc_block_spec *main_block(const mc_decoder_spec *spec, int layer) {
    const mc_block_spec *block;
    for (int k = 0; (block = mc_spec_block(spec, layer, k)); k++)
        if (block->kind->state != MC_STATE_NONE) return block;
    return mc_spec_block(spec, layer, 0);
}

/* The MLP, or the experts, of a layer; NULL: it has neither. */
static const mc_block_spec *find_mlp(const mc_decoder_spec *spec, int layer) {
    const mc_block_spec *block;
    for (int k = 0; (block = mc_spec_block(spec, layer, k)); k++)
        if (block->kind == &mc_block_gated || block->kind == &mc_block_experts) return block;
    return NULL;
}

/* The width of what a layer has behind its first block, or instead of it. */
static int64_t width_of(const mc_decoder_spec *spec, int layer, bool alone) {
    const mc_block_spec *block = find_mlp(spec, layer);
    if (!block) return alone ? 0 : spec->intermediate;
    if (block->kind == &mc_block_gated) return block->gated.width;
    if (alone) return block->experts.width;
    bool beside = block->names[MC_EXPERTS_SHARED_INPUT_NORM] != NULL;
    return beside ? block->experts.shared_width : spec->intermediate;
}

static void take_layers(const mc_gguf_arch *arch, const mc_decoder_spec *spec, mc_gguf_numbers *n) {
    bool alone = arch->kinds[MC_GGUF_SPARSE] && !mc_spec_block(spec, 0, 1);
    n->layers = spec->n_layers;
    n->of[MC_GGUF_SHARED_LAYERS] = 0;
    for (int i = 0; i < spec->n_layers; i++) {
        const mc_attention_spec *a = mc_spec_attention(spec, i);
        const mc_block_spec *block = main_block(spec, i), *mlp = find_mlp(spec, i);
        n->kinds[i] = (uint8_t)kind_of(block);
        n->kv_heads[i] =
            a->heads || arch->carry == MC_GGUF_CARRY_HEADS ? a->kv_heads : spec->kv_heads;
        n->rotates[i] = a->heads && a->rope != MC_NO_ROPE;
        n->widths[i] = width_of(spec, i, alone);
        if (mlp && mlp->kind == &mc_block_gated) n->sparse[i] = mlp->gated.sparse;
        n->of[MC_GGUF_SHARED_LAYERS] += mc_spec_source(spec, i) != i;
        if (block->kind == &mc_block_attention && n->kinds[i] == MC_GGUF_FULL &&
            !block->names[MC_ATTENTION_V] && block->names[MC_ATTENTION_K])
            n->values_of_keys = true;
    }
}

static void take_streams(const mc_decoder_spec *spec, mc_gguf_numbers *n) {
    const mc_block_spec *altup = find_block(spec, &mc_block_altup),
                        *laurel = find_block(spec, &mc_block_laurel);
    if (laurel) n->of[MC_GGUF_RANK] = (double)laurel->laurel.rank;
    if (!altup) return;
    n->of[MC_GGUF_STREAMS] = (double)altup->altup.streams;
    n->of[MC_GGUF_ACTIVE_STREAM] = (double)altup->altup.active;
}

/* Numbers that follow from others. */
static void derive(mc_gguf_numbers *n) {
    double *of = n->of;
    of[MC_GGUF_ONE] = 1;
    of[MC_GGUF_PLAIN_DIM] = of[MC_GGUF_KEY_DIM] - of[MC_GGUF_ROTATED];
    if (of[MC_GGUF_STATE_HEADS] >= 1)
        of[MC_GGUF_INNER_DIM] = floor(of[MC_GGUF_INNER] / of[MC_GGUF_STATE_HEADS]);
    if (of[MC_GGUF_HIDDEN] >= 1) of[MC_GGUF_EXPAND] = floor(of[MC_GGUF_INNER] / of[MC_GGUF_HIDDEN]);
    if (!(of[MC_GGUF_EXPAND] >= 1)) of[MC_GGUF_EXPAND] = 1;
    if (isnan(of[MC_GGUF_INNER])) of[MC_GGUF_EXPAND] = NAN;
}

static void clear(mc_gguf_numbers *n) {
    *n = (mc_gguf_numbers){0};
    for (int i = 0; i < MC_GGUF_NUMBERS; i++)
        n->of[i] = NAN;
}

void mc_gguf_numbers_of(const mc_gguf_arch *arch, const mc_decoder_spec *spec, mc_gguf_numbers *n) {
    clear(n);
    n->spec = spec;
    n->tied = spec->tied == MC_TIED_YES;
    take_attention(spec, n);
    take_latents(spec, n);
    take_experts(spec, n);
    take_carried(spec, n);
    take_layers(arch, spec, n);
    take_streams(spec, n);
    const mc_block_spec *mlp = find_block(spec, &mc_block_gated);
    if (mlp) n->of[MC_GGUF_ACTIVATION] = (double)mlp->gated.activation;
    n->of[MC_GGUF_TYPES] = (double)spec->types;
    bool stretched = n->full.kind == MC_ROPE_LONG; /* whose context is cut */
    n->of[MC_GGUF_CONTEXT] = stretched ? n->full.context : (double)spec->context;
    n->of[MC_GGUF_HIDDEN] = (double)spec->hidden;
    n->of[MC_GGUF_LAYERS] = spec->n_layers;
    n->of[MC_GGUF_VOCAB] = (double)spec->vocab;
    n->of[MC_GGUF_EPS] = spec->norm_eps;
    if (spec->final_softcap != 0) n->of[MC_GGUF_LOGIT_CAP] = spec->final_softcap;
    n->of[MC_GGUF_EMBED_SCALE] = spec->embed_scale;
    n->of[MC_GGUF_ADDED_SCALE] = spec->blocks[spec->layers[0].blocks[0]].factor;
    n->of[MC_GGUF_LOGIT_DIVISOR] = spec->logit_scale != 0 ? 1 / spec->logit_scale : 1;
    n->of[MC_GGUF_LAYER_WIDTH] = (double)spec->layer_width;
    if (spec->layer_width) n->of[MC_GGUF_LAYER_ROWS] = (double)spec->layer_rows;
    if (isnan(n->of[MC_GGUF_SHARED_WIDTH])) n->of[MC_GGUF_SHARED_WIDTH] = (double)n->widths[0];
    derive(n);
}

/* ---- as metadata ---- */

typedef struct putting {
    const mc_gguf_arch *arch;
    const mc_gguf_numbers *n;
    mc_gguf_pairs *out;
    char key[MC_GGUF_KEY_BYTES];
} putting;

static bool put_int(putting *p, const char *key, int64_t value) {
    return mc_gguf_put_u32(p->out, mc_gguf_key(p->arch, key, p->key), (uint32_t)value);
}

static bool put_real(putting *p, const char *key, double value) {
    return mc_gguf_put_f32(p->out, mc_gguf_key(p->arch, key, p->key), (float)value);
}

static bool put_text(putting *p, const char *key, const char *value) {
    return mc_gguf_put_str(p->out, mc_gguf_key(p->arch, key, p->key), mc_str_of(value));
}

const char *mc_gguf_function(double activation) {
    static const char *const names[] = {
        [MC_SILU] = "silu", [MC_GELU] = "gelu", [MC_GELU_APPROX] = "gelu_pytorch_tanh"};
    size_t i = activation >= 0 ? (size_t)activation : MC_RELU2;
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

static bool put_row(putting *p, const mc_gguf_row *row) {
    double value = p->n->of[row->number];
    if (row->number == MC_GGUF_ONE) value = row->fallback;
    if (row->type == MC_GGUF_FUNCTION) {
        const char *name = mc_gguf_function(value);
        return !name || put_text(p, row->key, name);
    }
    /* llama.cpp wants one, be there a table or not. */
    if (row->number == MC_GGUF_TYPES && value < 1) value = 1;
    if (!row->key || row->type == MC_GGUF_FOUND || isnan(value)) return true;
    if (row->type == MC_GGUF_BOOL || row->type == MC_GGUF_POSITIONS)
        return mc_gguf_put_bool(p->out, mc_gguf_key(p->arch, row->key, p->key), value != 0);
    bool whole = row->type == MC_GGUF_INT || row->number == MC_GGUF_WINDOW;
    return whole ? put_int(p, row->key, (int64_t)value) : put_real(p, row->key, value);
}

static bool put_rows(putting *p, const mc_gguf_row *row) {
    for (; row && row->number != MC_GGUF_NUMBERS; row++)
        if (!put_row(p, row)) return false;
    return true;
}

/* A number for each layer, or one, if they are the same. */
static bool put_list(putting *p, const char *key, const int64_t *values) {
    int same = 1;
    while (same < p->n->layers && values[same] == values[0])
        same++;
    if (same == p->n->layers) return put_int(p, key, values[0]);
    bool done =
        mc_gguf_begin_i32s(p->out, mc_gguf_key(p->arch, key, p->key), (uint64_t)p->n->layers);
    for (int i = 0; done && i < p->n->layers; i++)
        done = mc_gguf_add_i32(p->out, (int32_t)values[i]);
    return done;
}

/* Whether each layer is of a kind. */
static bool put_flags(putting *p, const char *key, mc_gguf_kind kind) {
    bool done =
        mc_gguf_begin_bools(p->out, mc_gguf_key(p->arch, key, p->key), (uint64_t)p->n->layers);
    for (int i = 0; done && i < p->n->layers; i++)
        done = mc_gguf_add_bool(p->out, p->n->kinds[i] == kind);
    return done;
}

/* Which layers have windows: nothing, if they are as without the key. */
static bool put_windows(putting *p) {
    const mc_gguf_arch *arch = p->arch;
    bool usual = arch->period && !arch->lists_windows;
    for (int i = 0; usual && i < p->n->layers; i++)
        usual = (p->n->kinds[i] == MC_GGUF_SLIDING) == ((i + 1) % arch->period != 0);
    if (!arch->windows || !arch->kinds[MC_GGUF_SLIDING] || usual) return true;
    return put_flags(p, "attention.sliding_window_pattern", MC_GGUF_SLIDING);
}

/* The three axes of positions in pictures share the pairs; of text all are the same. */
static bool put_axes(putting *p) {
    int pairs = (int)mc_rope_dims(&p->n->full) / 2;
    bool done =
        mc_gguf_begin_i32s(p->out, mc_gguf_key(p->arch, "rope.dimension_sections", p->key), 4);
    for (int i = 0; done && i < 4; i++)
        done = mc_gguf_add_i32(p->out, i < 3 ? (pairs + 2 - i) / 3 : 0);
    return done;
}

/* After how many layers one has attention, if it is always so many, for readers that know no list;
 * 0: it is not. */
static int interval_of(const mc_gguf_numbers *n) {
    int interval = 1;
    while (interval <= n->layers && n->kinds[interval - 1] == MC_GGUF_CARRYING)
        interval++;
    for (int i = 0; i < n->layers; i++)
        if ((n->kinds[i] == MC_GGUF_CARRYING) != ((i + 1) % interval != 0)) return 0;
    return interval;
}

static bool put_carry(putting *p) {
    int interval = interval_of(p->n);
    if (p->arch->carry != MC_GGUF_CARRY_LIST) return true;
    if (interval && !put_int(p, "full_attention_interval", interval)) return false;
    return (p->arch->rope != MC_GGUF_ROPE_PARAMETERS || put_axes(p)) &&
           put_flags(p, "attention.recurrent_layers", MC_GGUF_CARRYING);
}

/* Below how many deviations from the mean gates are 0: -infinity, if none are. */
static bool put_sparse(putting *p) {
    if (!p->arch->sparse) return true;
    bool done = mc_gguf_begin_f32s(
        p->out, mc_gguf_key(p->arch, "activation_sparsity_scale", p->key), (uint64_t)p->n->layers);
    for (int i = 0; done && i < p->n->layers; i++)
        done = mc_gguf_add_f32(
            p->out, p->n->sparse[i] > 0 ? (float)mc_normal_quantile(p->n->sparse[i]) : -INFINITY);
    return done;
}

static bool put_rotating(putting *p) {
    if (p->arch->rope != MC_GGUF_ROPE_LAYERS) return true;
    bool done = mc_gguf_begin_bools(p->out, mc_gguf_key(p->arch, "attention.rope_pattern", p->key),
                                    (uint64_t)p->n->layers);
    for (int i = 0; done && i < p->n->layers; i++)
        done = mc_gguf_add_bool(p->out, p->n->rotates[i]);
    return done;
}

/* How much of a yarn's amplitude its factor does not say. */
static double sharpened(const mc_rope_spec *rope) {
    return rope->factor <= 1 ? 1 : 0.1 * log(rope->factor) + 1;
}

/* mscale_all_dim: how much queries and keys are sharpened, as a factor of log(factor) / 10. */
static double yarn_multiplier(const mc_rope_spec *r) {
    return r->sharpness != 0 && r->factor > 1 ? (r->sharpness - 1) / (0.1 * log(r->factor)) : 0;
}

static bool put_scaling(putting *p, const mc_rope_spec *r) {
    static const char *const names[] = {[MC_ROPE_LINEAR] = "linear",
                                        [MC_ROPE_YARN] = "yarn",
                                        [MC_ROPE_LONG] = "longrope",
                                        [MC_ROPE_PROPORTIONAL] = NULL};
    bool done = !names[r->kind] || put_text(p, "rope.scaling.type", names[r->kind]);
    if (r->kind == MC_ROPE_LINEAR || r->kind == MC_ROPE_YARN)
        done = done && put_real(p, "rope.scaling.factor", r->factor);
    if (r->original_context > 0)
        done = done &&
               put_int(p, "rope.scaling.original_context_length", (int64_t)r->original_context);
    if (r->kind == MC_ROPE_LLAMA3) /* for mica, which reads config.json; divisors say it all */
        return done && put_real(p, "rope.scaling.low_freq_factor", r->low_freq_factor) &&
               put_real(p, "rope.scaling.high_freq_factor", r->high_freq_factor);
    if (r->kind == MC_ROPE_LONG)
        return done && put_real(p, "rope.scaling.attn_factor", r->amplitude);
    if (r->kind != MC_ROPE_YARN) return done;
    if (r->beta_fast != YARN_FAST || r->beta_slow != YARN_SLOW)
        done = done && put_real(p, "rope.scaling.yarn_beta_fast", r->beta_fast) &&
               put_real(p, "rope.scaling.yarn_beta_slow", r->beta_slow);
    if (p->arch->latents) /* a tenth of it, by which it is multiplied */
        return done && put_real(p, "rope.scaling.yarn_log_multiplier", yarn_multiplier(r) / 10);
    double rest = r->amplitude / sharpened(r);
    if (fabs(rest - 1) > 1e-7) done = done && put_real(p, "rope.scaling.attn_factor", rest);
    return done;
}

static bool put_rope(putting *p) {
    const mc_gguf_numbers *n = p->n;
    if (p->arch->rope == MC_GGUF_ROPE_NONE) return true;
    if (!put_int(p, "rope.dimension_count", mc_rope_dims(&n->full)) ||
        !put_real(p, "rope.freq_base", n->full.base) || !put_scaling(p, &n->full))
        return false;
    if (isnan(n->of[MC_GGUF_WINDOW])) return true;
    return put_int(p, "rope.dimension_count_swa", mc_rope_dims(&n->sliding)) &&
           put_real(p, "rope.freq_base_swa", n->sliding.base);
}

bool mc_gguf_numbers_put(const mc_gguf_arch *arch, const mc_gguf_numbers *n, mc_gguf_pairs *out) {
    putting p = {.arch = arch, .n = n, .out = out};
    int64_t dim = (int64_t)n->of[MC_GGUF_HEAD_DIM], slides = (int64_t)n->of[MC_GGUF_HEAD_DIM_SWA];
    bool done =
        put_rows(&p, mc_gguf_common) && put_rows(&p, arch->rows) &&
        put_real(&p, "attention.layer_norm_rms_epsilon", n->of[MC_GGUF_EPS]) &&
        put_list(&p, "feed_forward_length", n->widths) &&
        put_list(&p, "attention.head_count_kv", n->kv_heads) &&
        put_int(&p, "attention.key_length", dim) &&
        put_int(&p, "attention.value_length", arch->latents ? (int64_t)n->of[MC_GGUF_LATENT] : dim);
    if (done && slides != dim)
        done = put_int(&p, "attention.key_length_swa", slides) &&
               put_int(&p, "attention.value_length_swa", slides);
    return done && put_windows(&p) && put_carry(&p) && put_rotating(&p) && put_sparse(&p) &&
           put_rope(&p);
}

/* ---- of a file ---- */

typedef struct reading {
    const mc_gguf *gguf;
    const mc_gguf_arch *arch;
    mc_gguf_numbers *n;
    int blocks; /* layers, and those behind them that guess tokens ahead */
    char key[MC_GGUF_KEY_BYTES];
} reading;

static mica_status out_of_range(const reading *r, double value, double least, double most) {
    return mc_fail(MICA_EFORMAT, "%s: %s is %.10g; want %.10g..%.10g", mc_gguf_path(r->gguf),
                   r->key, value, least, most);
}

/* Reads "arch.key" if it is there, and checks it. */
static mica_status read_number(reading *r, const char *key, bool whole, double least, double most,
                               double *value) {
    int64_t i;
    double x;
    mc_gguf_key(r->arch, key, r->key);
    if (whole ? !mc_gguf_int(r->gguf, r->key, &i) : !mc_gguf_number(r->gguf, r->key, &x))
        return MICA_OK;
    *value = whole ? (double)i : x;
    return *value >= least && *value <= most ? MICA_OK : out_of_range(r, *value, least, most);
}

/* The largest of a number that is one for each layer. */
static int64_t largest(const reading *r) {
    int64_t most = 0;
    for (mc_gguf_iter it = mc_gguf_begin(r->gguf, r->key); mc_gguf_next(&it);)
        if (it.integer > most) most = it.integer;
    return most;
}

/* A number that all models have that mica computes. */
static mica_status check_constant(reading *r, const mc_gguf_row *row) {
    int64_t value = (int64_t)row->fallback;
    mc_gguf_int(r->gguf, mc_gguf_key(r->arch, row->key, r->key), &value);
    if (value == (int64_t)row->fallback) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s: %s is %lld; mica knows %lld", mc_gguf_path(r->gguf),
                   r->key, (long long)value, (long long)row->fallback);
}

/* The same of a truth. */
static mica_status check_truth(reading *r, const mc_gguf_row *row) {
    bool value = row->fallback != 0;
    mc_gguf_bool(r->gguf, mc_gguf_key(r->arch, row->key, r->key), &value);
    if (value == (row->fallback != 0)) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s: %s is %s; mica knows %s", mc_gguf_path(r->gguf), r->key,
                   value ? "true" : "false", value ? "false" : "true");
}

static mica_status read_function(reading *r, const mc_gguf_row *row, double *value) {
    mc_str name = MC_STR("");
    *value = row->fallback;
    if (!mc_gguf_str(r->gguf, mc_gguf_key(r->arch, row->key, r->key), &name)) return MICA_OK;
    for (*value = 0; *value <= MC_RELU2; ++*value)
        if (mc_gguf_function(*value) && mc_str_is(name, mc_gguf_function(*value))) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: %s is '%.*s'; mica knows silu, gelu and "
                   "gelu_pytorch_tanh",
                   mc_gguf_path(r->gguf), r->key, name.len < 40 ? (int)name.len : 40, name.ptr);
}

static mica_status read_row(reading *r, const mc_gguf_row *row) {
    double *value = &r->n->of[row->number];
    bool truth = row->fallback != 0, whole = row->type == MC_GGUF_INT;
    if (row->number == MC_GGUF_ONE && row->type == MC_GGUF_INT) return check_constant(r, row);
    if (row->number == MC_GGUF_ONE && row->type == MC_GGUF_BOOL) return check_truth(r, row);
    if (row->type == MC_GGUF_FUNCTION) return read_function(r, row, value);
    if (row->number == MC_GGUF_ONE || !row->key) return MICA_OK;
    if (isnan(*value)) *value = row->fallback;
    if (row->type == MC_GGUF_BOOL || row->type == MC_GGUF_POSITIONS) {
        if (mc_gguf_bool(r->gguf, mc_gguf_key(r->arch, row->key, r->key), &truth) ||
            !isnan(row->fallback))
            *value = truth;
        return MICA_OK;
    }
    double most = row->number == MC_GGUF_CONTEXT || row->number == MC_GGUF_WINDOW ? INT32_MAX
                  : row->number == MC_GGUF_LAYERS                                 ? MC_MAX_LAYERS
                  : row->number == MC_GGUF_EXPERTS                                ? MC_MAX_EXPERTS
                                                                                  : MC_MAX_WIDTH;
    MC_TRY(read_number(r, row->key, whole, row->required ? 1 : 0, most, value));
    mc_gguf_key(r->arch, row->key, r->key);
    if (isnan(*value) && mc_gguf_array(r->gguf, r->key)) *value = (double)largest(r);
    if (!row->required || (*value >= 1 && *value <= most)) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: %s is missing", mc_gguf_path(r->gguf), r->key);
}

static mica_status read_rows(reading *r, const mc_gguf_row *row) {
    for (; row && row->number != MC_GGUF_NUMBERS; row++)
        MC_TRY(read_row(r, row));
    return MICA_OK;
}

/* Reads a number for each layer, or one for all. */
static mica_status read_list(reading *r, const char *key, int64_t least, int64_t fallback,
                             int64_t *values) {
    double one = (double)fallback;
    size_t count = mc_gguf_array(r->gguf, mc_gguf_key(r->arch, key, r->key));
    if (count && count != (size_t)r->blocks)
        return mc_fail(MICA_EFORMAT, "%s: %s has %zu numbers, block_count is %d",
                       mc_gguf_path(r->gguf), r->key, count, r->blocks);
    if (!count) MC_TRY(read_number(r, key, true, (double)least, MC_MAX_WIDTH, &one));
    for (int i = 0; !count && i < r->n->layers; i++)
        values[i] = (int64_t)one;
    for (mc_gguf_iter it = mc_gguf_begin(r->gguf, r->key); count && mc_gguf_next(&it);) {
        if (it.index < (size_t)r->n->layers) values[it.index] = it.integer;
        if (it.integer < 0 || it.integer > MC_MAX_WIDTH)
            return out_of_range(r, (double)it.integer, 0, MC_MAX_WIDTH);
    }
    if (count || one >= (double)least) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: %s is missing", mc_gguf_path(r->gguf), r->key);
}

/* Marks the layers that a list of bools names, or all but every period-th. */
static mica_status read_flags(reading *r, const char *key, const char *period_key, int64_t period,
                              mc_gguf_kind kind) {
    size_t count = mc_gguf_array(r->gguf, mc_gguf_key(r->arch, key, r->key));
    if (count && count != (size_t)r->blocks)
        return mc_fail(MICA_EFORMAT, "%s: %s has %zu values, block_count is %d",
                       mc_gguf_path(r->gguf), r->key, count, r->blocks);
    for (mc_gguf_iter it = mc_gguf_begin(r->gguf, r->key); count && mc_gguf_next(&it);)
        if (it.integer && it.index < (size_t)r->n->layers) r->n->kinds[it.index] = (uint8_t)kind;
    mc_gguf_int(r->gguf, mc_gguf_key(r->arch, period_key, r->key), &period);
    int first = r->arch->first_full ? 0 : 1;
    for (int i = 0; !count && i < r->n->layers; i++)
        if (period <= 0 || (i + first) % period != 0) r->n->kinds[i] = (uint8_t)kind;
    return MICA_OK;
}

static mica_status read_kinds(reading *r) {
    static const char pattern[] = "attention.sliding_window_pattern";
    mc_gguf_numbers *n = r->n;
    if (r->arch->carry == MC_GGUF_CARRY_LIST)
        MC_TRY(read_flags(r, "attention.recurrent_layers", "full_attention_interval", 4,
                          MC_GGUF_CARRYING));
    if (n->of[MC_GGUF_WINDOW] >= 1 && r->arch->windows)
        MC_TRY(read_flags(r, pattern, pattern, r->arch->period, MC_GGUF_SLIDING));
    bool alone = r->arch->kinds[MC_GGUF_SPARSE] && strncmp(r->arch->name, "nemotron", 8) == 0;
    for (int i = 0; r->arch->carry == MC_GGUF_CARRY_HEADS && i < n->layers; i++) {
        if (n->kv_heads[i]) continue;
        n->kinds[i] = MC_GGUF_CARRYING;
        if (alone && n->widths[i])
            n->kinds[i] = n->of[MC_GGUF_EXPERTS] >= 1 ? MC_GGUF_SPARSE : MC_GGUF_MLP;
    }
    return MICA_OK;
}

/* Reads a tensor of divisors of frequencies. errors  MICA_EFORMAT */
static mica_status read_divisors(const mc_gguf *g, const mc_gguf_tensor *t, int64_t want,
                                 double *out) {
    float value;
    if (strcmp(t->type->name, "F32") != 0 || t->ndim != 1 || t->shape[0] != want ||
        want > MC_ROPE_DIVISORS)
        return mc_fail(MICA_EFORMAT, "%s: tensor %s is not F32 [%lld]", mc_gguf_path(g), t->name,
                       (long long)want);
    for (int64_t i = 0; i < want; i++) {
        t->type->decode((const uint8_t *)t->data + 4 * i, &value);
        out[i] = (double)value;
    }
    return MICA_OK;
}

/* Divisors of 1, and then of what is not to rotate. */
static bool are_proportional(const double *divisors, int64_t n, int64_t *turned) {
    *turned = 0;
    while (*turned < n && divisors[*turned] == 1)
        ++*turned;
    for (int64_t i = *turned; i < n; i++)
        if (!(divisors[i] > 1e20)) return false;
    return *turned > 0;
}

/* Llama 3's scaling is stored as divisors of the frequencies. Its parameters are found again: the
 * factor is the largest divisor, and all published models have the same others. Those of a file
 * that mica wrote are in the metadata. */
static mica_status read_freqs(reading *r, const mc_gguf_tensor *t, mc_rope_spec *rope) {
    double divisors[MC_ROPE_DIVISORS], worst = 0, low = 1, high = 4, original = 8192;
    int64_t n = mc_rope_dims(rope) / 2, turned;
    MC_TRY(read_divisors(r->gguf, t, n, divisors));
    if (are_proportional(divisors, n, &turned)) {
        rope->kind = MC_ROPE_PROPORTIONAL;
        rope->partial = (double)turned / (double)n;
        return MICA_OK;
    }
    MC_TRY(read_number(r, "rope.scaling.low_freq_factor", false, 1e-3, 1e6, &low));
    MC_TRY(read_number(r, "rope.scaling.high_freq_factor", false, 1e-3, 1e6, &high));
    MC_TRY(read_number(r, "rope.scaling.original_context_length", false, 1, 1e9, &original));
    rope->kind = MC_ROPE_LLAMA3;
    rope->low_freq_factor = low, rope->high_freq_factor = high, rope->original_context = original;
    rope->factor = 1;
    for (int64_t i = 0; i < n; i++)
        rope->factor = fmax(rope->factor, divisors[i]);
    for (int64_t i = 0; i < n; i++) {
        double rotations = original * pow(rope->base, -2.0 * (double)i / (double)rope->head_dim) /
                           (2 * acos(-1.0));
        double keep = fmin(fmax((rotations - low) / (high - low), 0), 1);
        worst = fmax(worst, fabs(divisors[i] * (keep + (1 - keep) / rope->factor) - 1));
    }
    if (worst < 1e-3 && low < high) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s: tensor %s: these scaled frequencies are not Llama 3's",
                   mc_gguf_path(r->gguf), t->name);
}

static mica_status read_long(reading *r, mc_rope_spec *rope) {
    const mc_gguf_tensor *small = mc_gguf_find(r->gguf, "rope_factors_short.weight"),
                         *large = mc_gguf_find(r->gguf, "rope_factors_long.weight");
    int64_t n = mc_rope_dims(rope) / 2;
    if (!small || !large)
        return mc_fail(MICA_EFORMAT,
                       "%s: there are no rope_factors_short.weight and "
                       "rope_factors_long.weight",
                       mc_gguf_path(r->gguf));
    MC_TRY(read_divisors(r->gguf, small, n, rope->short_divisors));
    MC_TRY(read_divisors(r->gguf, large, n, rope->long_divisors));
    rope->kind = MC_ROPE_LONG;
    rope->n_divisors = (size_t)n;
    return read_number(r, "rope.scaling.attn_factor", false, 1e-6, 1e6, &rope->amplitude);
}

static mica_status read_yarn(reading *r, mc_rope_spec *rope) {
    double all = 0, rest = 1;
    rope->kind = MC_ROPE_YARN;
    rope->beta_fast = YARN_FAST, rope->beta_slow = YARN_SLOW, rope->whole_bounds = true;
    MC_TRY(read_number(r, "rope.scaling.yarn_beta_fast", false, 1e-6, 1e6, &rope->beta_fast));
    MC_TRY(read_number(r, "rope.scaling.yarn_beta_slow", false, 1e-6, 1e6, &rope->beta_slow));
    MC_TRY(read_number(r, "rope.scaling.yarn_log_multiplier", false, 0, 1e6, &all));
    MC_TRY(read_number(r, "rope.scaling.attn_factor", false, 1e-6, 1e6, &rest));
    if (r->arch->latents) { /* mscale and mscale_all_dim are the same */
        rope->amplitude = rest;
        rope->sharpness = rope->factor <= 1 ? 1 : all * log(rope->factor) + 1;
        return MICA_OK;
    }
    rope->amplitude = sharpened(rope) * rest;
    if (all != 0 && rope->factor > 1) rope->amplitude /= 0.1 * all * log(rope->factor) + 1;
    return MICA_OK;
}

static mica_status read_scaling(reading *r, mc_rope_spec *rope) {
    mc_str type = MC_STR("none");
    const mc_gguf_tensor *freqs = mc_gguf_find(r->gguf, "rope_freqs.weight");
    mc_gguf_str(r->gguf, mc_gguf_key(r->arch, "rope.scaling.type", r->key), &type);
    MC_TRY(read_number(r, "rope.scaling.factor", false, 1e-3, 1e6, &rope->factor));
    MC_TRY(read_number(r, "rope.scaling.original_context_length", true, 0, 1e9,
                       &rope->original_context));
    if (freqs) return read_freqs(r, freqs, rope);
    if (rope->original_context < 1) rope->original_context = rope->context;
    if (mc_str_is(type, "longrope") || mc_gguf_find(r->gguf, "rope_factors_short.weight"))
        return read_long(r, rope);
    if (mc_str_is(type, "none")) return MICA_OK;
    if (mc_str_is(type, "yarn")) return read_yarn(r, rope);
    if (mc_str_is(type, "linear")) {
        rope->kind = rope->factor == 1 ? MC_ROPE_PLAIN : MC_ROPE_LINEAR;
        return MICA_OK;
    }
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: %s.rope.scaling.type is '%.*s'; mica knows linear, yarn and longrope",
                   mc_gguf_path(r->gguf), r->arch->name, type.len < 40 ? (int)type.len : 40,
                   type.ptr);
}

/* Sets what part of a head rotates. */
static mica_status read_rotated(reading *r, const char *key, double head_dim, mc_rope_spec *rope) {
    double rotated = head_dim;
    MC_TRY(read_number(r, key, true, 2, head_dim, &rotated));
    if (r->arch->latents) head_dim = rotated; /* the rest of a head is no part of RoPE's */
    rope->head_dim = (int64_t)head_dim;
    if (rotated != head_dim) rope->partial = rotated / head_dim;
    if (fmod(rotated, 2) == 0) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "%s: RoPE rotates %g of %g elements of a head",
                   mc_gguf_path(r->gguf), rotated, head_dim);
}

static mica_status read_rope(reading *r) {
    mc_gguf_numbers *n = r->n;
    double base = 10000, sliding = NAN;
    MC_TRY(read_number(r, "rope.freq_base", false, 1, 1e12, &base));
    MC_TRY(read_number(r, "rope.freq_base_swa", false, 1, 1e12, &sliding));
    n->full = mc_rope_plain(base);
    bool local = r->arch->gemma && r->arch->rope == MC_GGUF_ROPE_TOP;
    if (isnan(sliding)) sliding = local ? 10000 : base;
    n->sliding = mc_rope_plain(sliding);
    n->full.context = n->of[MC_GGUF_CONTEXT];
    MC_TRY(read_rotated(r, "rope.dimension_count", n->of[MC_GGUF_HEAD_DIM], &n->full));
    n->of[MC_GGUF_ROTATED] = (double)mc_rope_dims(&n->full);
    MC_TRY(read_rotated(r, "rope.dimension_count_swa", n->of[MC_GGUF_HEAD_DIM_SWA], &n->sliding));
    MC_TRY(read_scaling(r, &n->full));
    size_t count = mc_gguf_array(r->gguf, mc_gguf_key(r->arch, "attention.rope_pattern", r->key));
    for (int i = 0; i < n->layers; i++)
        n->rotates[i] = true;
    for (mc_gguf_iter it = mc_gguf_begin(r->gguf, r->key);
         count == (size_t)r->blocks && mc_gguf_next(&it);)
        if (it.index < (size_t)n->layers) n->rotates[it.index] = it.integer != 0;
    return MICA_OK;
}

static mica_status read_heads(reading *r) {
    mc_gguf_numbers *n = r->n;
    double *of = n->of, dim = floor(of[MC_GGUF_HIDDEN] / of[MC_GGUF_HEADS]);
    MC_TRY(read_number(r, "attention.key_length", true, 1, 65536, &dim));
    of[MC_GGUF_HEAD_DIM] = of[MC_GGUF_HEAD_DIM_SWA] = dim;
    MC_TRY(read_number(r, "attention.key_length_swa", true, 1, 65536, &of[MC_GGUF_HEAD_DIM_SWA]));
    if (dim < 2 || dim > 65536)
        return mc_fail(MICA_EFORMAT, "%s: heads of %g elements", mc_gguf_path(r->gguf), dim);
    MC_TRY(read_list(r, "attention.head_count_kv", 0, (int64_t)of[MC_GGUF_HEADS], n->kv_heads));
    bool may_lack = r->arch->carry == MC_GGUF_CARRY_HEADS || of[MC_GGUF_EXPERTS] >= 1;
    return read_list(r, "feed_forward_length", may_lack ? 0 : 1, 0, n->widths);
}

/* What parts of the gates are 0. Published parts have few digits. */
static mica_status read_sparse(reading *r) {
    mc_gguf_numbers *n = r->n;
    const char *key = mc_gguf_key(r->arch, "activation_sparsity_scale", r->key);
    size_t count = r->arch->sparse ? mc_gguf_array(r->gguf, key) : 0;
    if (count && count != (size_t)r->blocks)
        return mc_fail(MICA_EFORMAT, "%s: %s has %zu numbers, block_count is %d",
                       mc_gguf_path(r->gguf), key, count, r->blocks);
    for (mc_gguf_iter it = mc_gguf_begin(r->gguf, key); count && mc_gguf_next(&it);) {
        double part = erfc(-it.number / sqrt(2)) / 2;
        if (!(part <= 0.9999)) return out_of_range(r, it.number, -INFINITY, 3.7);
        if (it.index < (size_t)n->layers) n->sparse[it.index] = round(part * 1e6) / 1e6;
    }
    return MICA_OK;
}

/* Rows of a matrix; 0: there is none. */
static int64_t rows_of(const mc_gguf_tensor *t) {
    return t && t->ndim == 2 ? t->shape[0] : 0;
}

/* The tensor of a layer's slot. */
static const mc_gguf_tensor *find_slot(const reading *r, int layer, const mc_block *kind,
                                       int slot) {
    char own[96], name[128];
    if (!mc_gguf_slot_name(r->arch, kind, slot, false, own, sizeof own)) return NULL;
    snprintf(name, sizeof name, "blk.%d.%s", layer, own);
    return mc_gguf_find(r->gguf, name);
}

static mica_status read_tensors(reading *r) {
    const mc_gguf_tensor *embed = mc_gguf_find(r->gguf, MC_GGUF_EMBED),
                         *rows = mc_gguf_find(r->gguf, "per_layer_token_embd.weight");
    r->n->of[MC_GGUF_TYPES] = (double)rows_of(mc_gguf_find(r->gguf, "token_types.weight"));
    r->n->of[MC_GGUF_RANK] = (double)rows_of(find_slot(r, 0, &mc_block_laurel, MC_LAUREL_LEFT));
    if (!embed || embed->ndim != 2)
        return mc_fail(MICA_EFORMAT, "%s: " MC_GGUF_EMBED " is missing, or no matrix",
                       mc_gguf_path(r->gguf));
    r->n->of[MC_GGUF_VOCAB] = (double)embed->shape[0];
    if (rows && rows->ndim == 2) r->n->of[MC_GGUF_LAYER_ROWS] = (double)rows->shape[0];
    r->n->tied = !mc_gguf_find(r->gguf, MC_GGUF_HEAD);
    for (int i = 0; i < r->n->layers; i++)
        if (r->n->kinds[i] == MC_GGUF_FULL &&
            find_slot(r, i, &mc_block_attention, MC_ATTENTION_K) &&
            !find_slot(r, i, &mc_block_attention, MC_ATTENTION_V))
            r->n->values_of_keys = true;
    return MICA_OK;
}

mica_status mc_gguf_numbers_read(const mc_gguf *gguf, const mc_gguf_arch *arch,
                                 mc_gguf_numbers *n) {
    reading r = {.gguf = gguf, .arch = arch, .n = n};
    clear(n);
    n->gguf = gguf;
    n->of[MC_GGUF_EPS] = 1e-6;
    MC_TRY(read_rows(&r, mc_gguf_common));
    r.blocks = (int)n->of[MC_GGUF_LAYERS];
    n->of[MC_GGUF_LAYERS] -= (double)mc_gguf_ahead(gguf, arch);
    if (n->of[MC_GGUF_LAYERS] < 1)
        return mc_fail(MICA_EFORMAT, "%s: %s.nextn_predict_layers leaves no layer of the %d",
                       mc_gguf_path(gguf), arch->name, r.blocks);
    n->layers = (int)n->of[MC_GGUF_LAYERS];
    MC_TRY(read_rows(&r, arch->rows));
    MC_TRY(
        read_number(&r, "attention.layer_norm_rms_epsilon", false, 1e-20, 1, &n->of[MC_GGUF_EPS]));
    MC_TRY(read_heads(&r));
    MC_TRY(read_kinds(&r));
    MC_TRY(read_tensors(&r));
    MC_TRY(read_sparse(&r));
    MC_TRY(read_rope(&r));
    if (!(n->of[MC_GGUF_WINDOW] >= 1)) n->of[MC_GGUF_WINDOW] = NAN;
    if (!(n->of[MC_GGUF_SCALE] > 0)) n->of[MC_GGUF_SCALE] = 1 / sqrt(n->of[MC_GGUF_HEAD_DIM]);
    if (isnan(n->of[MC_GGUF_SHARED_WIDTH])) n->of[MC_GGUF_SHARED_WIDTH] = (double)n->widths[0];
    derive(n);
    return MICA_OK;
}

bool mc_gguf_found(const mc_gguf_arch *arch, const mc_gguf_numbers *n, const mc_gguf_row *row) {
    char tensor[96], name[128];
    const mc_block_spec *block;
    if (!mc_gguf_slot_name(arch, row->kind, row->slot, true, tensor, sizeof tensor)) return false;
    for (int i = 0; i < n->layers; i++) {
        if (n->gguf) {
            snprintf(name, sizeof name, "blk.%d.%s", i, tensor);
            if (mc_gguf_find(n->gguf, name)) return true;
            continue;
        }
        for (int k = 0; (block = mc_spec_block(n->spec, i, k)); k++)
            for (int slot = 0; slot < block->kind->n_slots; slot++) {
                bool bias = mc_block_has_bias(block, slot);
                if ((block->names[slot] || bias) &&
                    mc_gguf_slot_name(arch, block->kind, slot, bias, name, sizeof name) &&
                    strcmp(name, tensor) == 0)
                    return true;
            }
    }
    return false;
}

/* ---- the same model? ---- */

#define OF(kind, member, text, real) \
    { &mc_block_##kind, offsetof(mc_block_spec, member), text, real }

/* Numbers of blocks, and what an unlike one means. */
static const struct {
    const mc_block *kind;
    size_t at;
    const char *text;
    bool real;
} compared[] = {
    OF(attention, attention.window, "sliding windows", false),
    OF(attention, attention.heads, "another number of heads in some layers", false),
    OF(attention, attention.kv_heads, "another number of heads of keys in some layers", false),
    OF(attention, attention.head_dim, "a head_dim unlike hidden_size / num_attention_heads", false),
    OF(attention, attention.soft_cap, "attn_logit_softcapping", true),
    OF(attention, attention.scale, "a query_pre_attn_scalar unlike head_dim", true),
    OF(attention, attention.gated, "a gate of attention's output", false),
    OF(attention, attention.growth, "queries that grow with their position", true),
    OF(attention, attention.period, "queries that grow with their position", false),
    OF(mla, mla.attention.latent, "another latent", false),
    OF(mla, mla.attention.heads, "another number of heads in some layers", false),
    OF(mla, mla.attention.head_dim, "another size of heads", false),
    OF(mla, mla.attention.scale, "another scale of scores", true),
    OF(mla, mla.plain, "another size of heads", false),
    OF(mla, mla.value_dim, "another size of heads of values", false),
    OF(mla, mla.query_latent, "another latent of queries", false),
    OF(gated, gated.width, "another width of the MLP in some layers", false),
    OF(gated, gated.activation, "another activation", false),
    OF(gated, gated.sparse, "other sparse gates in some layers", true),
    OF(altup, altup.streams, "another number of residual streams", false),
    OF(altup, altup.active, "another active stream", false),
    OF(laurel, laurel.rank, "another rank of Laurel", false),
    OF(experts, experts.activation, "another activation", false),
    OF(experts, experts.limit, "another limit of experts (swiglu_limit)", true),
    OF(experts, experts.count, "another number of experts in some layers", false),
    OF(experts, experts.picks, "another number of picked experts in some layers", false),
    OF(experts, experts.width, "another width of experts", false),
    OF(experts, experts.shared_width, "another width of the shared expert", false),
    OF(experts, experts.scoring, "another kind of router", false),
    OF(experts, experts.renormalised, "another norm_topk_prob", false),
    OF(experts, experts.factor, "a factor of experts", true),
    OF(experts, experts.groups, "groups of experts", false),
    OF(experts, experts.top_groups, "groups of experts", false),
    OF(delta_net, delta_net.key_heads, "another delta net in some layers", false),
    OF(delta_net, delta_net.value_heads, "another delta net in some layers", false),
    OF(delta_net, delta_net.key_dim, "another delta net in some layers", false),
    OF(delta_net, delta_net.value_dim, "another delta net in some layers", false),
    OF(delta_net, delta_net.taps, "another delta net in some layers", false),
    OF(mamba2, mamba2.heads, "another Mamba-2 in some layers", false),
    OF(mamba2, mamba2.head_dim, "another Mamba-2 in some layers", false),
    OF(mamba2, mamba2.groups, "another Mamba-2 in some layers", false),
    OF(mamba2, mamba2.state, "another Mamba-2 in some layers", false),
    OF(mamba2, mamba2.taps, "another Mamba-2 in some layers", false),
    OF(mamba2, mamba2.min_step, "limits of steps (time_step_limit)", true),
    OF(mamba2, mamba2.max_step, "limits of steps (time_step_limit)", true),
    OF(short_conv, short_conv.taps, "another convolution in some layers", false),
    OF(layer_input, layer_input.width, "another hidden_size_per_layer_input", false),
};

/* f32 has such numbers, if not all digits of them. */
static bool same(double a, double b) {
    return a == b || fabs(a - b) <= 1e-6 * fabs(a);
}

static bool same_rope(const mc_decoder_spec *a, int64_t i, const mc_decoder_spec *b, int64_t k) {
    float x[MAX_PAIRS], y[MAX_PAIRS];
    if (i == MC_NO_ROPE || k == MC_NO_ROPE) return i == k;
    const mc_rope_spec *p = &a->ropes[i], *q = &b->ropes[k];
    int64_t dims = mc_rope_dims(p);
    if (p->neighbours != q->neighbours || dims != mc_rope_dims(q) || p->head_dim != q->head_dim ||
        dims > 2 * MAX_PAIRS)
        return false;
    bool listed = mc_rope_freqs(p, x);
    if (listed != mc_rope_freqs(q, y)) return false;
    double louder = p->amplitude != 0 ? p->amplitude : 1;
    if (!same(p->base, q->base) || !same(louder, q->amplitude != 0 ? q->amplitude : 1))
        return false;
    if (!listed) return same(p->factor, q->factor);
    for (int64_t d = 0; d < dims / 2; d++)
        if (x[d] != y[d] && !(fabsf(x[d] - y[d]) <= 1e-5f * x[d])) return false;
    return p->kind != MC_ROPE_LONG || p->n_divisors == q->n_divisors;
}

static const char *find_misfit(const mc_decoder_spec *a, const mc_block_spec *x,
                               const mc_decoder_spec *b, const mc_block_spec *y) {
    if (x->kind != y->kind) return "layers of other kinds";
    for (size_t i = 0; i < sizeof compared / sizeof *compared; i++) {
        if (compared[i].kind != x->kind) continue;
        const char *p = (const char *)x + compared[i].at, *q = (const char *)y + compared[i].at;
        double m, n;
        memcpy(&m, p, sizeof m);
        memcpy(&n, q, sizeof n);
        if (compared[i].real ? !same(m, n) : memcmp(p, q, sizeof(int64_t)) != 0)
            return compared[i].text;
    }
    if (x->kind->state == MC_STATE_KEYS && !same_rope(a, x->attention.rope, b, y->attention.rope))
        return "a RoPE of another kind";
    for (int i = 0; i < x->kind->n_slots; i++)
        if (x->names[i] && y->names[i] && mc_block_has_bias(x, i) != mc_block_has_bias(y, i))
            return "biases";
    return same(x->factor, y->factor) && same(x->norm_eps, y->norm_eps) ? NULL : "other factors";
}

const char *mc_gguf_misfit(const mc_decoder_spec *a, const mc_decoder_spec *b) {
    const mc_block_spec *x, *y;
    if (a->both_ways != b->both_ways) return "attention both ways";
    if (a->norm_bias != b->norm_bias) return "biases of norms";
    if (a->positions - a->first_position != b->positions - b->first_position ||
        a->types != b->types)
        return "other positions or types of tokens";
    if (a->hidden != b->hidden || a->n_layers != b->n_layers) return "another size";
    for (int i = 0; i < a->n_layers; i++)
        for (int k = 0; k < MC_LAYER_BLOCKS; k++) {
            x = mc_spec_block(a, i, k), y = mc_spec_block(b, i, k);
            if (!x != !y) return "layers of other kinds";
            const char *misfit = x ? find_misfit(a, x, b, y) : NULL;
            if (misfit) return misfit;
        }
    if (!same(a->norm_eps, b->norm_eps)) return "another epsilon of norms";
    if (!same(a->embed_scale, b->embed_scale)) return "a factor of embeddings";
    if (!same(a->logit_scale, b->logit_scale)) return "a factor of logits";
    return same(a->final_softcap, b->final_softcap) ? NULL : "final_logit_softcapping";
}
