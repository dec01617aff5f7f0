/* A model's numbers as config.json. */
#include "base/json_write.h"
#include "convert/gguf_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writing {
    const mc_gguf_arch *arch;
    const mc_gguf_numbers *n;
    mc_buffer *out;
} writing;

/* Adds a number with the fewest digits that give the same float. */
static bool put_digits(mc_buffer *out, double value) {
    char text[64];
    if (value == floor(value) && fabs(value) < 1e9)
        return mc_buffer_printf(out, "%" PRId64, (int64_t)value);
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) break;
    }
    return mc_json_put_number(out, strtod(text, NULL));
}

/* Adds ",\n    "key": value". */
static bool put(const writing *w, const char *key, double value) {
    return mc_buffer_printf(w->out, ",\n    \"%s\": ", key) && put_digits(w->out, value);
}

static bool put_truth(const writing *w, const char *key, bool value) {
    return mc_buffer_printf(w->out, ",\n    \"%s\": %s", key, value ? "true" : "false");
}

static bool put_row(const writing *w, const mc_gguf_row *row) {
    if (!row->config) return true;
    if (row->type == MC_GGUF_FOUND)
        return put_truth(w, row->config, mc_gguf_found(w->arch, w->n, row));
    double value = w->n->of[row->number];
    if ((row->number == MC_GGUF_WINDOW || row->number == MC_GGUF_QUERY_LATENT) && isnan(value))
        return mc_buffer_printf(w->out, ",\n    \"%s\": null", row->config);
    if (isnan(value)) return true;
    if (row->type == MC_GGUF_FUNCTION)
        return !mc_gguf_function(value) || mc_buffer_printf(w->out, ",\n    \"%s\": \"%s\"",
                                                            row->config, mc_gguf_function(value));
    if (row->type == MC_GGUF_POSITIONS)
        return mc_buffer_printf(w->out, ",\n    \"%s\": \"%s\"", row->config,
                                value != 0 ? "rope" : "nope");
    return row->type == MC_GGUF_BOOL ? put_truth(w, row->config, value != 0)
                                     : put(w, row->config, value);
}

static bool put_rows(const writing *w, const mc_gguf_row *row) {
    for (; row && row->number != MC_GGUF_NUMBERS; row++)
        if (!put_row(w, row)) return false;
    return true;
}

/* The first number that is not 0; 0: all are. */
static int64_t first_of(const int64_t *values, int n) {
    int i = 0;
    while (i + 1 < n && !values[i])
        i++;
    return values[i];
}

/* That of layers of a kind; of all, if there are none. */
static int64_t heads_of(const mc_gguf_numbers *n, mc_gguf_kind kind) {
    for (int i = 0; i < n->layers; i++)
        if (n->kinds[i] == kind && n->kv_heads[i]) return n->kv_heads[i];
    return first_of(n->kv_heads, n->layers);
}

static bool put_heads(const writing *w) {
    const mc_gguf_numbers *n = w->n;
    if (w->arch->latents)
        return put(w, "num_key_value_heads", n->of[MC_GGUF_HEADS]) &&
               put(w, "head_dim", n->of[MC_GGUF_ROTATED]);
    bool own = w->arch->gemma && w->arch->rope == MC_GGUF_ROPE_KINDS;
    if (!put(w, "num_key_value_heads", (double)heads_of(n, own ? MC_GGUF_SLIDING : MC_GGUF_FULL)) ||
        !put(w, "head_dim", n->of[own ? MC_GGUF_HEAD_DIM_SWA : MC_GGUF_HEAD_DIM]))
        return false;
    return !own || (put(w, "global_head_dim", n->of[MC_GGUF_HEAD_DIM]) &&
                    put_truth(w, "attention_k_eq_v", n->values_of_keys) &&
                    put(w, "num_global_key_value_heads", (double)heads_of(n, MC_GGUF_FULL)));
}

/* Of Gemma 3n: a width, and a sparsity, for each layer. */
static bool put_sparse(const writing *w) {
    const mc_gguf_numbers *n = w->n;
    bool done = mc_buffer_add_text(w->out, ",\n    \"intermediate_size\": [");
    for (int i = 0; done && i < n->layers; i++)
        done = mc_buffer_printf(w->out, "%s%" PRId64, i ? ", " : "", n->widths[i]);
    done = done && mc_buffer_add_text(w->out, "],\n    \"activation_sparsity_pattern\": [");
    for (int i = 0; done && i < n->layers; i++)
        done = mc_buffer_add_text(w->out, i ? ", " : "") && put_digits(w->out, n->sparse[i]);
    return done && mc_buffer_add_byte(w->out, ']');
}

static bool put_widths(const writing *w) {
    const mc_gguf_numbers *n = w->n;
    if (w->arch->sparse) return put_sparse(w);
    int64_t first = first_of(n->widths, n->layers);
    if (!put(w, "intermediate_size", first ? (double)first : 1)) return false;
    return w->arch->rope != MC_GGUF_ROPE_KINDS || isnan(n->of[MC_GGUF_SHARED_LAYERS]) ||
           put_truth(w, "use_double_wide_mlp", n->widths[n->layers - 1] == 2 * first);
}

static bool put_kinds(const writing *w) {
    const mc_gguf_numbers *n = w->n;
    if (!w->arch->kinds[MC_GGUF_FULL]) return true;
    bool done = mc_buffer_add_text(w->out, ",\n    \"layer_types\": [");
    for (int i = 0; done && i < n->layers; i++) {
        const char *name = w->arch->kinds[n->kinds[i]];
        done = mc_buffer_printf(w->out, "%s\"%s\"", i ? ", " : "", name ? name : "");
    }
    return done && mc_buffer_add_byte(w->out, ']');
}

/* ---- RoPE ---- */

static bool put_field(const writing *w, const char *key, double value) {
    return mc_buffer_printf(w->out, ", \"%s\": ", key) && put_digits(w->out, value);
}

static bool put_divisors(const writing *w, const char *key, const double *values, size_t count) {
    bool done = mc_buffer_printf(w->out, ", \"%s\": [", key);
    for (size_t i = 0; done && i < count; i++)
        done = mc_buffer_add_text(w->out, i ? ", " : "") && put_digits(w->out, values[i]);
    return done && mc_buffer_add_byte(w->out, ']');
}

static bool put_original(const writing *w, const mc_rope_spec *r) {
    return put_field(w, "original_max_position_embeddings", r->original_context);
}

static bool put_sharpness(const writing *w, const mc_rope_spec *r) {
    if (!w->arch->latents) return put_field(w, "attention_factor", r->amplitude);
    double all = r->factor > 1 ? (r->sharpness - 1) / (0.1 * log(r->factor)) : 0;
    return r->sharpness == 0 || all <= 0 ||
           (put_field(w, "mscale", all) && put_field(w, "mscale_all_dim", all));
}

/* A kind's name and keys. */
static bool put_scaling(const writing *w, const mc_rope_spec *r) {
    static const char *const names[] = {
        [MC_ROPE_PLAIN] = "default", [MC_ROPE_LINEAR] = "linear",
        [MC_ROPE_LLAMA3] = "llama3", [MC_ROPE_YARN] = "yarn",
        [MC_ROPE_LONG] = "longrope", [MC_ROPE_PROPORTIONAL] = "proportional"};
    bool done = mc_buffer_printf(w->out, "\"rope_type\": \"%s\"", names[r->kind]);
    switch (r->kind) {
    case MC_ROPE_LINEAR:
        return done && put_field(w, "factor", r->factor);
    case MC_ROPE_LLAMA3:
        return done && put_field(w, "factor", r->factor) &&
               put_field(w, "low_freq_factor", r->low_freq_factor) &&
               put_field(w, "high_freq_factor", r->high_freq_factor) && put_original(w, r);
    case MC_ROPE_YARN:
        return done && put_field(w, "factor", r->factor) &&
               (r->original_context == 0 || put_original(w, r)) &&
               put_field(w, "beta_fast", r->beta_fast) && put_field(w, "beta_slow", r->beta_slow) &&
               put_sharpness(w, r) &&
               (strcmp(w->arch->name, "gpt-oss") != 0 ||
                mc_buffer_add_text(w->out, ", \"truncate\": false"));
    case MC_ROPE_LONG:
        return done && put_divisors(w, "short_factor", r->short_divisors, r->n_divisors) &&
               put_divisors(w, "long_factor", r->long_divisors, r->n_divisors) &&
               put_field(w, "attention_factor", r->amplitude);
    default:
        return done;
    }
}

static bool put_whole(const writing *w, const mc_rope_spec *r) {
    return mc_buffer_add_byte(w->out, '{') && put_scaling(w, r) &&
           put_field(w, "rope_theta", r->base) &&
           (r->partial == 0 || put_field(w, "partial_rotary_factor", r->partial));
}

static bool put_top(const writing *w) {
    const mc_rope_spec *r = &w->n->full;
    if (!put(w, "rope_theta", r->base)) return false;
    if (r->partial != 0 && !put(w, "partial_rotary_factor", r->partial)) return false;
    if (r->kind == MC_ROPE_LONG && !put(w, "original_max_position_embeddings", r->original_context))
        return false;
    return r->kind == MC_ROPE_PLAIN || (mc_buffer_add_text(w->out, ",\n    \"rope_scaling\": {") &&
                                        put_scaling(w, r) && mc_buffer_add_byte(w->out, '}'));
}

static bool put_parameters(const writing *w) {
    const mc_gguf_numbers *n = w->n;
    bool done =
        mc_buffer_add_text(w->out, ",\n    \"rope_parameters\": ") && put_whole(w, &n->full);
    if (done && !isnan(n->of[MC_GGUF_GROWTH]))
        done = put_field(w, "llama_4_scaling_beta", n->of[MC_GGUF_GROWTH]);
    if (done && w->arch->carry == MC_GGUF_CARRY_LIST) {
        int pairs = (int)mc_rope_dims(&n->full) / 2;
        done = mc_buffer_printf(w->out, ", \"mrope_section\": [%d, %d, %d]", (pairs + 2) / 3,
                                (pairs + 1) / 3, pairs / 3);
    }
    return done && mc_buffer_add_byte(w->out, '}');
}

static bool put_both(const writing *w) {
    return mc_buffer_add_text(w->out, ",\n    \"rope_parameters\": {\"full_attention\": ") &&
           put_whole(w, &w->n->full) && mc_buffer_add_text(w->out, "}, \"sliding_attention\": ") &&
           put_whole(w, &w->n->sliding) && mc_buffer_add_text(w->out, "}}");
}

static bool put_bases(const writing *w) {
    bool done = put_top(w) && mc_buffer_add_text(w->out, ",\n    \"layer_rope_theta\": [");
    for (int i = 0; done && i < w->n->layers; i++)
        done = mc_buffer_add_text(w->out, i ? ", " : "") &&
               put_digits(w->out, w->n->rotates[i] ? w->n->full.base : 0);
    return done && mc_buffer_add_byte(w->out, ']');
}

static bool put_none(const writing *w) {
    (void)w;
    return true;
}

static bool put_rope(const writing *w) {
    static bool (*const writers[])(const writing *) = {[MC_GGUF_ROPE_TOP] = put_top,
                                                       [MC_GGUF_ROPE_NONE] = put_none,
                                                       [MC_GGUF_ROPE_PARAMETERS] = put_parameters,
                                                       [MC_GGUF_ROPE_KINDS] = put_both,
                                                       [MC_GGUF_ROPE_LAYERS] = put_bases};
    return writers[w->arch->rope](w);
}

/* ---- what only some have ---- */

/* The scale of queries of Gemma 2 and 3 is not stored: the 27B models, which are told by their
 * layers, have hidden_size / heads, all others head_dim. */
static bool put_gemma_scale(const writing *w, bool second) {
    const mc_gguf_numbers *n = w->n;
    bool large = n->layers == (second ? 46 : 62);
    return put(w, "query_pre_attn_scalar",
               large ? floor(n->of[MC_GGUF_HIDDEN] / n->of[MC_GGUF_HEADS])
                     : n->of[MC_GGUF_HEAD_DIM]);
}

static bool put_gemma(const writing *w) {
    const mc_gguf_numbers *n = w->n;
    bool second = strcmp(w->arch->name, "gemma2") == 0;
    if (!w->arch->gemma || w->arch->rope != MC_GGUF_ROPE_TOP) return true;
    if (!w->arch->sparse && !put_gemma_scale(w, second)) return false;
    if (second) return true;
    int pattern = 0;
    while (pattern < n->layers && n->kinds[pattern] == MC_GGUF_SLIDING)
        pattern++;
    return put(w, "rope_local_base_freq", n->sliding.base) &&
           (w->arch->sparse || put(w, "sliding_window_pattern", pattern + 1));
}

bool mc_gguf_numbers_config(const mc_gguf_arch *arch, const mc_gguf_numbers *n, mc_buffer *out) {
    const writing w = {arch, n, out};
    bool ranks = arch->ranker && n->gguf && mc_gguf_find(n->gguf, "cls.output.weight");
    return mc_buffer_printf(out,
                            "{\n    \"architectures\": [\"%s\"],\n    \"model_type\": \"%s\",\n"
                            "    %s",
                            ranks ? arch->ranker : arch->architecture, arch->model_type,
                            arch->activation) &&
           put_truth(&w, "tie_word_embeddings", n->tied) && put_rows(&w, mc_gguf_common) &&
           put(&w, arch->eps ? arch->eps : "rms_norm_eps", n->of[MC_GGUF_EPS]) && put_heads(&w) &&
           put_widths(&w) && put_rows(&w, arch->rows) && put_kinds(&w) && put_rope(&w) &&
           put_gemma(&w);
}
