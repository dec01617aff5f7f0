#include "model/rope.h"

#include <math.h>

#define ORIGINAL "original_max_position_embeddings"
#define TWO_PI 6.283185307179586476925

mc_rope_spec mc_rope_plain(double base) {
    return (mc_rope_spec){.base = base, .factor = 1.0};
}

int64_t mc_rope_dims(const mc_rope_spec *rope) {
    bool all = rope->partial == 0 || rope->kind == MC_ROPE_PROPORTIONAL;
    return all ? rope->head_dim : (int64_t)(rope->partial * (double)rope->head_dim);
}

/* ---- reading ---- */

static mica_status read_kind(const mc_config_scope *scope, mc_rope_spec *rope, bool *found) {
    static const struct {
        const char *name;
        mc_rope_kind kind;
    } known[] = {{"default", MC_ROPE_PLAIN}, {"linear", MC_ROPE_LINEAR},
                 {"llama3", MC_ROPE_LLAMA3}, {"yarn", MC_ROPE_YARN},
                 {"longrope", MC_ROPE_LONG}, {"proportional", MC_ROPE_PROPORTIONAL},
                 {"su", MC_ROPE_LONG},       {"mrope", MC_ROPE_PLAIN}};
    const char *key = mc_config_has(scope, "rope_type") ? "rope_type" : "type";
    mc_str name = {NULL, 0};
    *found = false;
    MC_TRY(mc_config_str(scope, key, MC_OPTIONAL, &name));
    if (!name.ptr) return MICA_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mc_str_is(name, known[i].name)) {
            rope->kind = known[i].kind;
            *found = true;
            return MICA_OK;
        }
    return mc_config_fail(scope, key, MICA_EUNSUPPORTED,
                          "rope \"%.*s\"; those that mica knows: default, linear, llama3, yarn, "
                          "longrope, proportional",
                          MC_STR_ARG(name));
}

static mica_status check_dims(const mc_config_scope *scope, const mc_rope_spec *rope) {
    int64_t dims = mc_rope_dims(rope);
    if (!rope->head_dim || (dims >= 2 && dims % 2 == 0)) return MICA_OK;
    return mc_config_fail(scope, "partial_rotary_factor", MICA_EFORMAT,
                          "%lld elements of %lld rotate: want an even number of them",
                          (long long)dims, (long long)rope->head_dim);
}

static mica_status read_factor(const mc_config_scope *scope, mc_rope_spec *rope) {
    return mc_config_float(scope, "factor", MC_REQUIRED, 1e-3, 1e6, &rope->factor);
}

static mica_status read_llama3(const mc_config_scope *scope, mc_rope_spec *rope) {
    MC_TRY(read_factor(scope, rope));
    MC_TRY(
        mc_config_float(scope, "low_freq_factor", MC_REQUIRED, 1e-3, 1e6, &rope->low_freq_factor));
    MC_TRY(mc_config_float(scope, "high_freq_factor", MC_REQUIRED, 1e-3, 1e6,
                           &rope->high_freq_factor));
    if (rope->high_freq_factor <= rope->low_freq_factor)
        return mc_config_fail(scope, "high_freq_factor", MICA_EFORMAT,
                              "%g is not above low_freq_factor, %g", rope->high_freq_factor,
                              rope->low_freq_factor);
    return mc_config_float(scope, ORIGINAL, MC_REQUIRED, 1.0, 1e9, &rope->original_context);
}

/* How much attention is sharpened where positions are divided by factor. */
static double sharpen(double factor, double scale) {
    return factor <= 1.0 ? 1.0 : 0.1 * scale * log(factor) + 1.0;
}

static mica_status read_yarn(const mc_config_scope *scope, mc_rope_spec *rope) {
    double scale = 0, scale_all = 0;
    if (rope->original_context == 0) rope->original_context = rope->context;
    rope->beta_fast = 32, rope->beta_slow = 1, rope->whole_bounds = true;
    MC_TRY(read_factor(scope, rope));
    MC_TRY(mc_config_float(scope, "beta_fast", MC_OPTIONAL, 1e-6, 1e6, &rope->beta_fast));
    MC_TRY(mc_config_float(scope, "beta_slow", MC_OPTIONAL, 1e-6, 1e6, &rope->beta_slow));
    MC_TRY(mc_config_bool(scope, "truncate", MC_OPTIONAL, &rope->whole_bounds));
    MC_TRY(mc_config_float(scope, "mscale", MC_OPTIONAL, 0, 1e6, &scale));
    MC_TRY(mc_config_float(scope, "mscale_all_dim", MC_OPTIONAL, 0, 1e6, &scale_all));
    rope->amplitude = sharpen(rope->factor, 1.0);
    rope->sharpness = scale_all != 0 ? sharpen(rope->factor, scale_all) : 0;
    if (scale != 0 && scale_all != 0)
        rope->amplitude = sharpen(rope->factor, scale) / sharpen(rope->factor, scale_all);
    return mc_config_float(scope, "attention_factor", MC_OPTIONAL, 1e-6, 1e6, &rope->amplitude);
}

static mica_status check_divisors(const mc_config_scope *scope, const char *key,
                                  const mc_rope_spec *rope) {
    size_t want = (size_t)mc_rope_dims(rope) / 2;
    if (rope->kind != MC_ROPE_LONG || rope->n_divisors == want) return MICA_OK;
    return mc_config_fail(scope, key, MICA_EFORMAT,
                          "has %zu numbers, want %zu: %zu elements of a head rotate",
                          rope->n_divisors, want, 2 * want);
}

static mica_status read_divisors(const mc_config_scope *scope, const char *key, mc_rope_spec *rope,
                                 double *divisors) {
    MC_TRY(mc_config_floats(scope, key, MC_REQUIRED, 1e-6, 1e9, divisors, MC_ROPE_DIVISORS,
                            &rope->n_divisors));
    return check_divisors(scope, key, rope);
}

static mica_status read_long(const mc_config_scope *scope, mc_rope_spec *rope) {
    if (rope->original_context == 0) rope->original_context = rope->context;
    double factor = rope->context / rope->original_context;
    MC_TRY(mc_config_float(scope, "factor", MC_OPTIONAL, 1e-3, 1e6, &factor));
    MC_TRY(read_divisors(scope, "short_factor", rope, rope->short_divisors));
    MC_TRY(read_divisors(scope, "long_factor", rope, rope->long_divisors));
    bool longer = factor > 1.0 && rope->original_context > 1.0;
    rope->amplitude = longer ? sqrt(1.0 + log(factor) / log(rope->original_context)) : 1.0;
    return mc_config_float(scope, "attention_factor", MC_OPTIONAL, 1e-6, 1e6, &rope->amplitude);
}

/* What a kind's own keys say. */
static mica_status read_own(const mc_config_scope *scope, mc_rope_spec *rope) {
    static mica_status (*const readers[])(const mc_config_scope *,
                                          mc_rope_spec *) = {[MC_ROPE_LINEAR] = read_factor,
                                                             [MC_ROPE_LLAMA3] = read_llama3,
                                                             [MC_ROPE_YARN] = read_yarn,
                                                             [MC_ROPE_LONG] = read_long,
                                                             [MC_ROPE_PROPORTIONAL] = NULL};
    rope->factor = 1.0;
    rope->amplitude = rope->sharpness = 0;
    return readers[rope->kind] ? readers[rope->kind](scope, rope) : MICA_OK;
}

mica_status mc_rope_read(const mc_config_scope *scope, mc_rope_spec *rope) {
    bool found;
    MC_TRY(mc_config_float(scope, "rope_theta", MC_OPTIONAL, 1.0, 1e12, &rope->base));
    MC_TRY(mc_config_float(scope, "partial_rotary_factor", MC_OPTIONAL, 1e-3, 1.0, &rope->partial));
    MC_TRY(mc_config_float(scope, ORIGINAL, MC_OPTIONAL, 1.0, 1e9, &rope->original_context));
    MC_TRY(read_kind(scope, rope, &found));
    MC_TRY(check_dims(scope, rope));
    return found ? read_own(scope, rope) : check_divisors(scope, "partial_rotary_factor", rope);
}

/* ---- frequencies ---- */

/* How much of a frequency is kept, the rest being divided by factor. Wavelengths above
 * original_context / low_freq_factor are stretched, those below original_context / high_freq_factor
 * kept; between them the two are blended. */
static double keep_llama3(const mc_rope_spec *rope, double freq) {
    double rotations = rope->original_context * freq / TWO_PI;
    return (rotations - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
}

/* The index, of a pair, whose frequency makes so many rotations in original_context. */
static double yarn_bound(const mc_rope_spec *rope, double rotations) {
    return (double)mc_rope_dims(rope) * log(rope->original_context / (TWO_PI * rotations)) /
           (2.0 * log(rope->base));
}

static double keep_yarn(const mc_rope_spec *rope, int64_t i) {
    double low = yarn_bound(rope, rope->beta_fast), high = yarn_bound(rope, rope->beta_slow);
    if (rope->whole_bounds) low = floor(low), high = ceil(high);
    low = fmax(low, 0.0);
    high = fmin(high, (double)mc_rope_dims(rope) - 1.0);
    if (low == high) high += 0.001;
    return 1.0 - ((double)i - low) / (high - low);
}

static double blend(double freq, double keep, double factor) {
    keep = fmin(fmax(keep, 0.0), 1.0);
    return 1.0 / (keep * freq + (1.0 - keep) * freq / factor);
}

double mc_rope_freq_at(const mc_rope_spec *rope, int64_t i) {
    double freq = pow(rope->base, -2.0 * (double)i / (double)mc_rope_dims(rope));
    int64_t turned = (int64_t)(rope->partial * (double)rope->head_dim / 2);
    switch (rope->kind) {
    case MC_ROPE_LLAMA3:
        return blend(freq, keep_llama3(rope, freq), rope->factor);
    case MC_ROPE_YARN:
        return blend(freq, keep_yarn(rope, i), rope->factor);
    case MC_ROPE_LONG:
        return (rope->stretched ? rope->long_divisors : rope->short_divisors)[i] / freq;
    case MC_ROPE_PROPORTIONAL:
        return rope->partial == 0 || i < turned ? 1.0 / freq : INFINITY;
    default:
        return 1.0 / freq;
    }
}

bool mc_rope_freqs(const mc_rope_spec *rope, float *freqs) {
    if (rope->kind == MC_ROPE_PLAIN || rope->kind == MC_ROPE_LINEAR) return false;
    for (int64_t i = 0; i < mc_rope_dims(rope) / 2; i++)
        freqs[i] = (float)mc_rope_freq_at(rope, i);
    return true;
}
