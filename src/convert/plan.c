#include "convert/plan.h"

#include "base/alloc.h"
#include "base/str.h"
#include "convert/calibrate.h"
#include "convert/recipe.h"
#include "model/lm.h"
#include "model/packing.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 512

static const struct {
    const char *name;
    mica_dtype dtype;
} dtypes[] = {{"float32", MICA_F32}, {"float16", MICA_F16}, {"bfloat16", MICA_BF16}};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* The dtype of a name as config.json has it; false: none of them. */
static bool find_dtype(mc_str name, mica_dtype *dtype) {
    for (size_t i = 0; i < N_DTYPES; i++)
        if (mc_str_is(name, dtypes[i].name)) {
            *dtype = dtypes[i].dtype;
            return true;
        }
    return false;
}

/* ---- what config.json says ---- */

static bool config_dtype(mc_json config, mica_dtype *dtype) {
    mc_json text = mc_json_find(config, "text_config");
    const mc_json places[] = {mc_json_find(config, "torch_dtype"), mc_json_find(config, "dtype"),
                              mc_json_find(text, "dtype"), mc_json_find(text, "torch_dtype")};
    mc_str name;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (mc_json_get_str(places[i], &name)) return find_dtype(name, dtype);
    return false;
}

/* The number of layers that config.json says; 0: none. */
static int count_layers(mc_json config) {
    int64_t n = 0;
    if (!mc_json_get_int(mc_json_find(config, "num_hidden_layers"), &n))
        mc_json_get_int(mc_json_find(mc_json_find(config, "text_config"), "num_hidden_layers"), &n);
    return n > 0 && n < 100000 ? (int)n : 0;
}

bool mc_config_is_tied(mc_json config) {
    bool tied = false;
    if (!mc_json_get_bool(mc_json_find(config, "tie_word_embeddings"), &tied))
        mc_json_get_bool(mc_json_find(mc_json_find(config, "text_config"), "tie_word_embeddings"),
                         &tied);
    return tied;
}

/* ---- options ---- */

/* The mode's own bits and group size, for those that are 0. */
static mica_quant complete(mica_quant quant) {
    static const int bits[] = {4, 4, 8, 4}, groups[] = {64, 32, 32, 16};
    if (!quant.bits) quant.bits = bits[quant.mode];
    if (!quant.group_size) quant.group_size = groups[quant.mode];
    return quant;
}

static mica_status check_quant(const mica_convert_options *o, mc_plan *plan) {
    if ((int)o->quant.mode < 0 || o->quant.mode > MICA_QUANT_NVFP4)
        return mc_fail(MICA_EINVAL, "mica_convert: quant.mode %d is none", (int)o->quant.mode);
    if (o->recipe && !mc_recipe_find(o->recipe))
        return mc_fail(MICA_EINVAL,
                       "'%s' is no recipe; there are mixed_2_6, mixed_3_4, mixed_3_6 and mixed_4_6",
                       o->recipe);
    if (o->recipe && o->quant.mode != MICA_QUANT_AFFINE)
        return mc_fail(MICA_EINVAL, "recipe %s quantises in the mode affine, not in %s", o->recipe,
                       mc_packing_mode_name(o->quant.mode));
    plan->common = complete(o->quant);
    if (mc_packing_known(&plan->common)) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "%s has no %d bits in groups of %d; there are affine (2 3 4 5 6 8 bits, groups "
                   "of 32 64 128), mxfp4 (4 bits, 32), mxfp8 (8, 32), nvfp4 (4, 16)",
                   mc_packing_mode_name(plan->common.mode), plan->common.bits,
                   plan->common.group_size);
}

/* Whether a part is a matrix whose rows are whole groups. */
static bool has_groups(const mc_source *source, const mc_part *part, int group_size) {
    if (!mc_source_is_matrix(source, part)) return false;
    int64_t columns = part->shape[part->ndim - 1];
    return columns > 0 && columns % group_size == 0;
}

static bool any_has_groups(const mc_source *source, int group_size) {
    for (size_t i = 0; i < source->count; i++)
        if (has_groups(source, &source->parts[i], group_size)) return true;
    return false;
}

/* A model of which nothing would be quantised is refused, not copied. */
static mica_status check_groups(const mc_source *source, const mica_quant *quant) {
    if (any_has_groups(source, quant->group_size)) return MICA_OK;
    return mc_fail(MICA_EINVAL, "the model has no matrix whose rows are whole groups of %d%s",
                   quant->group_size, any_has_groups(source, 32) ? "; groups of 32 would fit" : "");
}

static mica_status check_calibration(const mc_source *source, const mica_convert_options *o) {
    if (!o->calibration && o->target_bits != 0)
        return mc_fail(MICA_EINVAL, "target bits are for a calibration, which is not asked for");
    if (!o->calibration) return MICA_OK;
    if (!o->quantise || o->recipe || o->quant.bits || o->quant.mode != MICA_QUANT_AFFINE)
        return mc_fail(MICA_EINVAL, "a calibration chooses the bits of affine quantising: it goes "
                                    "with no recipe, number of bits, or other mode");
    if (o->adapter) return mc_fail(MICA_EINVAL, "a calibration takes no adapter: fuse it first");
    if (!source->folder)
        return mc_fail(MICA_EINVAL, "a calibration takes no GGUF file: convert it first");
    if (!(o->target_bits == 0 || (o->target_bits >= 1 && o->target_bits <= 32)))
        return mc_fail(MICA_EINVAL, "%g bits per parameter are not within 1 and 32",
                       o->target_bits);
    return MICA_OK;
}

/* Lets a calibration choose the bits of each part. */
static mica_status calibrate(const mc_source *source, const mica_convert_options *options,
                             mica_device *device, mc_plan *plan) {
    mica_convert_options o = *options;
    mica_dtype dtype = plan->cast ? plan->dtype : MICA_F32;
    if (!o.calibration) return MICA_OK;
    if (o.target_bits == 0) o.target_bits = 4.5;
    plan->bits = mc_arena_calloc(&plan->arena, (source->count + 1) * sizeof *plan->bits);
    if (!plan->bits) return mc_fail_nomem("the tensors of a model");
    return mc_calibrate(source, &o, device, dtype, plan->cast, plan->bits,
                        &plan->result.divergence);
}

static mica_status check_options(const mc_source *source, const mica_convert_options *o,
                                 mc_plan *plan) {
    if (o->quantise && o->dequantise)
        return mc_fail(MICA_EINVAL, "a model can be quantised or dequantised, not both");
    if (o->recipe && !o->quantise)
        return mc_fail(MICA_EINVAL, "a recipe is for quantising, which is not asked for");
    MC_TRY(check_calibration(source, o));
    plan->cast = o->dtype != NULL;
    plan->unties = source->own_head;
    if (o->dtype && !find_dtype(mc_str_of(o->dtype), &plan->dtype))
        return mc_fail(MICA_EINVAL, "'%s' is none of float32, float16 and bfloat16", o->dtype);
    if (!o->quantise) return MICA_OK;
    for (size_t i = 0; i < source->count; i++)
        if (source->parts[i].quantised)
            return mc_fail(MICA_EINVAL,
                           "the model is quantised already (tensor %s): dequantise it first, or "
                           "take the model that it was made of",
                           source->parts[i].name);
    if (!plan->cast) plan->cast = config_dtype(source->config, &plan->dtype);
    MC_TRY(check_quant(o, plan));
    return check_groups(source, &plan->common);
}

/* ---- parts ---- */

static bool is_left_out(const mc_source *source, const mc_part *part) {
    if (strstr(part->name, "rotary_emb.inv_freq")) return true;
    bool tied = mc_config_is_tied(source->config) && !source->own_head;
    return tied && part->ndim == 2 && mc_source_end(source, part->name) == MC_END_HEAD;
}

static void plan_quant(const mc_source *source, const mica_convert_options *o, const mc_plan *plan,
                       const mc_part *part, mc_target *target) {
    mica_quant quant = plan->common;
    if (!has_groups(source, part, quant.group_size)) return;
    size_t i = (size_t)(part - source->parts);
    if (plan->bits && plan->bits[i]) quant.bits = plan->bits[i];
    if (o->recipe)
        quant.bits = mc_recipe_bits(mc_recipe_find(o->recipe), part->name,
                                    mc_source_end(source, part->name) == MC_END_HEAD,
                                    count_layers(source->config));
    target->quantised = true;
    target->quant = quant;
}

static void plan_part(const mc_source *source, const mica_convert_options *o, const mc_plan *plan,
                      const mc_part *part, mc_target *target) {
    *target = (mc_target){.left_out = is_left_out(source, part),
                          .quantised = part->quantised && !o->dequantise,
                          .quant = part->quant,
                          .dtype = part->dtype};
    if (plan->cast && mica_dtype_is_float(part->dtype)) target->dtype = plan->dtype;
    if (o->quantise) plan_quant(source, o, plan, part, target);
}

/* ---- tensors ---- */

/* Adds a tensor `stem``ending` [rows..., columns]. */
static mica_status add_tensor(mc_plan *plan, const mc_part *part, const char *ending,
                              mica_dtype dtype, int64_t columns) {
    char text[NAME_BYTES];
    mc_weight_tensor *t = &plan->tensors[plan->count++];
    bool cut = ending && mc_str_ends(mc_str_of(part->name), MC_STR(".weight"));
    size_t len = strlen(part->name) - (cut ? strlen(".weight") : 0);
    if (len >= NAME_BYTES - 16)
        return mc_fail(MICA_EFORMAT, "a tensor's name has %zu bytes: %.100s...", len, part->name);
    snprintf(text, sizeof text, "%.*s%s", (int)len, part->name, ending ? ending : "");
    *t = (mc_weight_tensor){.name = mc_arena_strndup(&plan->arena, text, strlen(text)),
                            .kind = mc_weight_kind(dtype),
                            .has_dtype = true,
                            .dtype = dtype,
                            .ndim = part->ndim};
    if (!t->name) return mc_fail_nomem("the tensors of a model");
    memcpy(t->shape, part->shape, sizeof t->shape);
    if (ending) t->shape[t->ndim - 1] = columns;
    uint64_t bytes = 0;
    if (!mc_weight_bytes(t, &bytes)) return mc_fail(MICA_EINVAL, "tensor %s is too large", t->name);
    t->bytes = (size_t)bytes;
    plan->result.bytes += bytes;
    return MICA_OK;
}

static mica_status add_tensors(mc_plan *plan, const mc_part *part, const mc_target *target) {
    uint64_t n = 1;
    for (int i = 0; i < part->ndim; i++)
        n *= (uint64_t)part->shape[i];
    plan->result.parameters += n;
    if (!target->quantised) return add_tensor(plan, part, NULL, target->dtype, 0);
    bool affine = target->quant.mode == MICA_QUANT_AFFINE;
    int64_t columns = part->shape[part->ndim - 1], groups = columns / target->quant.group_size;
    plan->result.quantised++;
    MC_TRY(add_tensor(plan, part, ".weight", MICA_U32, columns * target->quant.bits / 32));
    MC_TRY(add_tensor(plan, part, ".scales", affine ? target->dtype : MICA_U8, groups));
    return affine ? add_tensor(plan, part, ".biases", target->dtype, groups) : MICA_OK;
}

/* The quantisation that most matrices of a quantised source have goes into config.json as the
 * common one: its own if it is stated there, else the first. */
static void keep_common(const mc_source *source, mc_plan *plan) {
    mc_json stated = mc_json_find(source->config, "quantization");
    if (!mc_json_exists(stated)) stated = mc_json_find(source->config, "quantization_config");
    int64_t bits, group_size;
    for (size_t i = 0; i < source->count; i++) {
        if (plan->targets[i].left_out || !plan->targets[i].quantised) continue;
        const mica_quant *quant = &plan->targets[i].quant;
        if (!plan->common.bits) plan->common = *quant;
        if (mc_json_get_int(mc_json_find(stated, "bits"), &bits) && bits == quant->bits &&
            mc_json_get_int(mc_json_find(stated, "group_size"), &group_size) &&
            group_size == quant->group_size) {
            plan->common = *quant;
            return;
        }
    }
}

mica_status mc_plan_open(const mc_source *source, const mica_convert_options *options,
                         mica_device *device, mc_plan *plan) {
    *plan = (mc_plan){.result = {.struct_bytes = sizeof plan->result}};
    MC_TRY(check_options(source, options, plan));
    MC_TRY(calibrate(source, options, device, plan));
    plan->targets = mc_arena_calloc(&plan->arena, (source->count + 1) * sizeof *plan->targets);
    plan->tensors = mc_arena_calloc(&plan->arena, (3 * source->count + 1) * sizeof *plan->tensors);
    if (!plan->targets || !plan->tensors) return mc_fail_nomem("the tensors of a model");
    for (size_t i = 0; i < source->count; i++) {
        plan_part(source, options, plan, &source->parts[i], &plan->targets[i]);
        if (!plan->targets[i].left_out)
            MC_TRY(add_tensors(plan, &source->parts[i], &plan->targets[i]));
    }
    if (!options->quantise) keep_common(source, plan);
    if (plan->result.parameters > 0)
        plan->result.bits = 8 * (double)plan->result.bytes / (double)plan->result.parameters;
    return MICA_OK;
}

void mc_plan_close(mc_plan *plan) {
    mc_arena_deinit(&plan->arena);
    *plan = (mc_plan){0};
}
