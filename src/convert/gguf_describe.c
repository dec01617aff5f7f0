#include "convert/gguf_describe.h"

#include "base/alloc.h"
#include "convert/gguf_numbers.h"
#include "model/family.h"

#include <math.h>
#include <string.h>

/* ---- the architecture ---- */

/* Reads the config that a file of an architecture would give. */
static mica_status read_again(const mc_gguf_arch *arch, const mc_gguf_numbers *numbers,
                              mc_decoder_spec *again) {
    mc_buffer text = {0};
    mc_json_doc *doc = NULL;
    bool done = mc_gguf_numbers_config(arch, numbers, &text) && mc_buffer_add_byte(&text, '}');
    mica_status status = done ? MICA_OK : mc_fail_nomem("the metadata of a GGUF file");
    if (status == MICA_OK)
        status = mc_json_parse(text.data, text.len, "what a GGUF file can tell", &doc);
    if (status == MICA_OK) {
        const mc_config_scope root = {.file = "what a GGUF file can tell",
                                      .object = mc_json_root(doc)};
        status = mc_family_read(&root, NULL, again);
    }
    mc_json_close(&doc);
    mc_buffer_deinit(&text);
    return status;
}

typedef struct trial {
    mc_gguf_numbers numbers;
    mc_decoder_spec again;
} trial;

/* *misfit receives what the architecture cannot say; NULL: nothing. errors  MICA_ENOMEM */
static mica_status try_arch(const mc_gguf_arch *arch, const mc_decoder_spec *spec,
                            const char **misfit) {
    trial *t = mc_calloc(1, sizeof *t);
    if (!t) return mc_fail_nomem("the metadata of a GGUF file");
    mc_gguf_numbers_of(arch, spec, &t->numbers);
    mica_status status = read_again(arch, &t->numbers, &t->again);
    const mc_rope_spec *rope = &t->numbers.full;
    *misfit = status != MICA_OK ? "layers of other kinds" : mc_gguf_misfit(spec, &t->again);
    if (arch->whole_heads && mc_rope_dims(rope) != rope->head_dim)
        *misfit = "a RoPE of another kind";
    mc_free(t);
    return status == MICA_ENOMEM ? status : MICA_OK;
}

static bool has_experts(const mc_decoder_spec *spec) {
    const mc_block_spec *block;
    for (int i = 0; i < spec->n_layers; i++)
        for (int k = 0; (block = mc_spec_block(spec, i, k)); k++)
            if (block->kind == &mc_block_experts) return true;
    return false;
}

mica_status mc_gguf_arch_of(const mc_decoder_spec *spec, const mc_gguf_arch **arch) {
    const char *name = NULL, *misfit = NULL, *first = NULL;
    bool experts = has_experts(spec);
    for (size_t i = 0; (*arch = mc_gguf_arch_at(i)); i++) {
        const mc_gguf_arch *a = *arch;
        if (!mc_gguf_arch_holds(a, spec->family) ||
            (a->experts != MC_GGUF_ANY && (a->experts == MC_GGUF_YES) != experts))
            continue;
        MC_TRY(try_arch(a, spec, &misfit));
        if (!misfit) return MICA_OK;
        if (!first) first = misfit, name = a->name;
    }
    if (!first)
        return mc_fail(MICA_EUNSUPPORTED, "mica writes no GGUF files of the family %s",
                       spec->family);
    return mc_fail(MICA_EUNSUPPORTED,
                   "the model has %s, which GGUF files of the architecture %s cannot tell", first,
                   name);
}

/* ---- the metadata ---- */

mica_status mc_gguf_describe(const mc_gguf_arch *arch, const mc_decoder_spec *spec,
                             mc_gguf_pairs *out) {
    mc_gguf_numbers *numbers = mc_calloc(1, sizeof *numbers);
    if (!numbers) return mc_fail_nomem("the metadata of a GGUF file");
    mc_gguf_numbers_of(arch, spec, numbers);
    bool done = mc_gguf_put_str(out, "general.architecture", mc_str_of(arch->name)) &&
                mc_gguf_put_str(out, "general.type", MC_STR("model")) &&
                mc_gguf_put_u32(out, "general.quantization_version", 2) &&
                mc_gguf_numbers_put(arch, numbers, out);
    mc_free(numbers);
    return done ? MICA_OK : mc_fail_nomem("the metadata of a GGUF file");
}

/* ---- divisors ---- */

static mica_status add(mc_arena *arena, const char *name, int64_t n,
                       mc_gguf_divisors out[MC_GGUF_DIVISORS], size_t *count) {
    float *values = mc_arena_calloc(arena, (size_t)n * sizeof *values);
    if (!values) return mc_fail_nomem("the tensors of a GGUF file");
    out[(*count)++] = (mc_gguf_divisors){name, n, values};
    return MICA_OK;
}

/* What each frequency is divided by: 1e30 stands for what does not rotate. */
static void divide(const mc_rope_spec *rope, float *values) {
    int64_t dims = mc_rope_dims(rope);
    for (int64_t i = 0; i < dims / 2; i++) {
        double own = pow(rope->base, -2.0 * (double)i / (double)dims);
        double divisor = mc_rope_freq_at(rope, i) * own;
        values[i] = isfinite(divisor) ? (float)divisor : 1e30F;
    }
}

mica_status mc_gguf_find_divisors(const mc_gguf_arch *arch, const mc_decoder_spec *spec,
                                  mc_arena *arena, mc_gguf_divisors out[MC_GGUF_DIVISORS],
                                  size_t *count) {
    mc_gguf_numbers *numbers = mc_arena_calloc(arena, sizeof *numbers);
    if (!numbers) return mc_fail_nomem("the tensors of a GGUF file");
    mc_gguf_numbers_of(arch, spec, numbers);
    const mc_rope_spec *r = &numbers->full;
    int64_t n = mc_rope_dims(r) / 2;
    *count = 0;
    if (r->kind == MC_ROPE_LONG) {
        MC_TRY(add(arena, "rope_factors_short.weight", n, out, count));
        MC_TRY(add(arena, "rope_factors_long.weight", n, out, count));
        for (int64_t i = 0; i < n; i++) {
            out[0].values[i] = (float)r->short_divisors[i];
            out[1].values[i] = (float)r->long_divisors[i];
        }
    }
    if (r->kind != MC_ROPE_LLAMA3 && r->kind != MC_ROPE_PROPORTIONAL) return MICA_OK;
    MC_TRY(add(arena, "rope_freqs.weight", n, out, count));
    divide(r, out[0].values);
    return MICA_OK;
}
