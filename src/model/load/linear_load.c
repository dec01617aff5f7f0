#include "model/load/load.h"

#include "base/alloc.h"
#include "base/half.h"
#include "graph/graph.h"
#include "io/published_make.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 320
#define MADE_ALIGN 64 /* of tensors that are made */

static void shape_text(const mc_weight_tensor *t, char text[MC_LAYOUT_TEXT]) {
    size_t len = (size_t)snprintf(text, MC_LAYOUT_TEXT, "%s[", t->kind);
    for (int i = 0; i < t->ndim && len < MC_LAYOUT_TEXT; i++)
        len += (size_t)snprintf(text + len, MC_LAYOUT_TEXT - len, i ? ",%lld" : "%lld",
                                (long long)t->shape[i]);
    if (len < MC_LAYOUT_TEXT) snprintf(text + len, MC_LAYOUT_TEXT - len, "]");
}

static mica_status wrong(mica_status status, const mc_weight_tensor *t, const char *want) {
    char found[MC_LAYOUT_TEXT];
    shape_text(t, found);
    return mc_fail(status, "%s: tensor %s is %s, want %s", t->file, t->name, found, want);
}

static void use(mc_loader *loader, const mc_weight_tensor *t) {
    loader->bytes += t->bytes;
    loader->used[t - mc_weights_at(loader->weights, 0)] = true;
}

/* Finds the tensor of a name; if it is absent, gives NULL and lists it as missing. */
static mica_status find_tensor(mc_loader *loader, const char *name,
                               const mc_weight_tensor **tensor) {
    *tensor = mc_weights_find(loader->weights, name);
    if (*tensor) {
        use(loader, *tensor);
        return MICA_OK;
    }
    return mc_names_add(&loader->missing, name);
}

static bool is_float(const mc_weight_tensor *t) {
    return t->has_dtype && (t->dtype == MICA_F32 || t->dtype == MICA_F16 || t->dtype == MICA_BF16);
}

static bool has_shape(const mc_weight_tensor *t, int64_t rows, int64_t cols) {
    return t->ndim == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

/* The shape of the matrix, or what goes with it, whose rows have so many columns. Returns the
 * number of axes. */
static int shape_of(const mc_linear *linear, int64_t columns, int64_t shape[3]) {
    int n = 0;
    if (linear->experts) shape[n++] = linear->experts;
    shape[n++] = linear->transposed ? columns : linear->out;
    shape[n++] = linear->transposed ? linear->out : columns;
    return n;
}

static bool has_axes(const mc_weight_tensor *t, const int64_t *shape, int ndim) {
    return t->ndim == ndim && memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) == 0;
}

static bool fits(const mc_linear *linear, const mc_weight_tensor *t, int64_t columns) {
    int64_t shape[3];
    int ndim = shape_of(linear, columns, shape);
    return has_axes(t, shape, ndim);
}

/* "F32 [8,32,64]": what the tensor should be. */
static void put_want(const mc_linear *linear, const char *kinds, int64_t columns, char want[96]) {
    int64_t shape[3];
    int ndim = shape_of(linear, columns, shape);
    size_t len = (size_t)snprintf(want, 96, "%s [", kinds);
    for (int i = 0; i < ndim; i++)
        len += (size_t)snprintf(want + len, 96 - len, "%lld%s", (long long)shape[i],
                                i + 1 < ndim ? "," : "]");
}

/* The leaf of a tensor that is made. */
static mica_status make_made(mica_scope *scope, const mc_weight_tensor *t, mica_array *array) {
    void *data = mc_aligned_alloc(MADE_ALIGN, t->bytes ? t->bytes : 1);
    if (!data) return mc_fail_nomem(t->name);
    mica_status status = mc_made_fill(t, data);
    if (status != MICA_OK) {
        mc_free(data);
        return status;
    }
    *array = mc_leaf_memory(scope, data, t->dtype, t->shape, t->ndim, mc_free, data);
    return mica_scope_status(scope);
}

mica_status mc_weight_leaf(mica_scope *scope, const mc_weight_tensor *t, mica_array *array) {
    if (t->made) return make_made(scope, t, array);
    *array = mc_leaf_memory(scope, t->data, t->dtype, t->shape, t->ndim, NULL, NULL);
    return mica_scope_status(scope);
}

static float element(const mc_weight_tensor *t, int64_t i) {
    if (t->dtype == MICA_F32) return ((const float *)t->data)[i];
    uint16_t half = ((const uint16_t *)t->data)[i];
    return t->dtype == MICA_F16 ? mc_f16_to_f32(half) : mc_bf16_to_f32(half);
}

/* The elements of a tensor as f32, `offset` added to each, in another shape. */
static mica_status make_floats(mica_scope *scope, const mc_weight_tensor *t, double offset,
                               const int64_t *shape, int ndim, mica_array *array) {
    int64_t n = 1;
    if (t->made) return wrong(MICA_EUNSUPPORTED, t, "floats that are not quantised");
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    float *values = mc_array_alloc((size_t)n, sizeof *values);
    if (!values) return mc_fail_nomem(t->name);
    for (int64_t i = 0; i < n; i++)
        values[i] = element(t, i) + (float)offset;
    *array = mica_from_data(scope, values, MICA_F32, shape, ndim);
    mc_free(values);
    return mica_scope_status(scope);
}

mica_status mc_vector_make(mica_scope *scope, const mc_weight_tensor *t, int64_t n, double offset,
                           mica_array *vector) {
    char want[64];
    snprintf(want, sizeof want, "floats [%lld]", (long long)n);
    if (!is_float(t)) return wrong(MICA_EDTYPE, t, want);
    if (!has_axes(t, &n, 1)) return wrong(MICA_ESHAPE, t, want);
    return make_floats(scope, t, offset, &n, 1, vector);
}

mica_status mc_kernel_make(mica_scope *scope, const mc_weight_tensor *t, int64_t channels,
                           int64_t taps, mica_array *kernel) {
    char want[96];
    const int64_t shape[] = {channels, taps, 1}, *own = t->shape;
    snprintf(want, sizeof want, "floats [%lld,1,%lld] or [%lld,%lld,1]", (long long)channels,
             (long long)taps, (long long)channels, (long long)taps);
    if (!is_float(t)) return wrong(MICA_EDTYPE, t, want);
    if (t->ndim != 3 || own[0] != channels || own[1] * own[2] != taps ||
        (own[1] != 1 && own[2] != 1))
        return wrong(MICA_ESHAPE, t, want);
    return make_floats(scope, t, 0.0, shape, 3, kernel);
}

mica_status mc_vector_load(mc_loader *loader, const char *name, int64_t n, double offset,
                           mica_array *vector) {
    const mc_weight_tensor *t;
    *vector = MICA_NONE;
    MC_TRY(find_tensor(loader, name, &t));
    if (!t) return MICA_OK;
    MC_TRY(mc_vector_make(loader->scope, t, n, offset, vector));
    loader->parameters += (uint64_t)n;
    loader->dense[t->dtype]++;
    return MICA_OK;
}

mica_status mc_kernel_load(mc_loader *loader, const char *name, int64_t channels, int64_t taps,
                           mica_array *kernel) {
    const mc_weight_tensor *t;
    *kernel = MICA_NONE;
    MC_TRY(find_tensor(loader, name, &t));
    if (!t) return MICA_OK;
    MC_TRY(mc_kernel_make(loader->scope, t, channels, taps, kernel));
    loader->parameters += (uint64_t)(channels * taps);
    loader->dense[t->dtype]++;
    return MICA_OK;
}

static mica_status check_dense(const mc_linear *linear, const mc_weight_tensor *t) {
    char want[96];
    put_want(linear, "F32, F16 or BF16", linear->in, want);
    if (!is_float(t)) return wrong(MICA_EDTYPE, t, want);
    return fits(linear, t, linear->in) ? MICA_OK : wrong(MICA_ESHAPE, t, want);
}

/* A copy with rows and columns changed over. */
static mica_status turn(mica_scope *scope, mc_linear *linear) {
    if (!linear->transposed) return MICA_OK;
    mica_array w = mica_contiguous(scope, mica_swapaxes(scope, linear->weight, -1, -2));
    MC_TRY(mica_eval(scope, w));
    linear->weight = w;
    return MICA_OK;
}

/* The number of rows, where any will do. */
static void take_rows(mc_linear *linear, const mc_weight_tensor *t) {
    if (linear->out == 0 && t->ndim >= 2) linear->out = t->shape[t->ndim - 2];
}

static mica_status load_dense(mc_loader *loader, const mc_weight_tensor *t, mc_linear *linear) {
    take_rows(linear, t);
    MC_TRY(check_dense(linear, t));
    loader->dense[t->dtype]++;
    MC_TRY(mc_weight_leaf(loader->scope, t, &linear->weight));
    return turn(loader->scope, linear);
}

static void make_dense(mc_linear *linear, mica_array weight) {
    linear->weight = weight;
    linear->scales = linear->biases = linear->gains = linear->places = linear->order = MICA_NONE;
    linear->quantised = false;
}

mica_status mc_linear_replace(mica_scope *scope, const mc_weight_tensor *t, mc_linear *linear) {
    mica_array weight;
    MC_TRY(check_dense(linear, t));
    MC_TRY(mc_weight_leaf(scope, t, &weight));
    make_dense(linear, weight);
    return turn(scope, linear);
}

mica_status mc_linear_replace_rows(mica_scope *scope, const mc_weight_tensor *t,
                                   const int64_t *rows, size_t n, mc_linear *linear) {
    mica_array weight = linear->weight, values;
    const int64_t count = (int64_t)n;
    const mc_linear changed = {.out = count, .in = linear->in};
    MC_TRY(check_dense(&changed, t));
    for (size_t i = 0; i < n; i++)
        if (rows[i] >= linear->out)
            return mc_fail(MICA_EINVAL, "%s: tensor %s: there is no token %lld, of %lld", t->file,
                           t->name, (long long)rows[i], (long long)linear->out);
    MC_TRY(mc_weight_leaf(scope, t, &values));
    if (linear->quantised) {
        bool affine = linear->quant.mode == MICA_QUANT_AFFINE;
        weight = mica_dequantize(scope, weight, linear->scales, linear->biases, linear->quant,
                                 affine ? mica_array_dtype(linear->scales) : MICA_BF16);
        if (mica_valid(linear->gains))
            weight = mica_multiply(scope, weight, mica_expand_dims(scope, linear->gains, -1));
        if (mica_valid(linear->order))
            weight = mica_take(scope, weight, mica_argsort(scope, linear->order, -1), -1);
    }
    values = mica_astype(scope, values, mica_array_dtype(weight));
    mica_array ids = mica_from_data(scope, rows, MICA_I64, &count, 1);
    values = mica_reshape(scope, values, (int64_t[]){count, 1, linear->in}, 3);
    weight = mica_scatter(scope, weight, &ids, 1, (int[]){0}, values, MICA_SCATTER_SET);
    MC_TRY(mica_eval(scope, weight));
    make_dense(linear, weight);
    return MICA_OK;
}

mica_status mc_linear_set_bias(mica_scope *scope, const mc_weight_tensor *t, mc_linear *linear) {
    char want[64];
    const int64_t shape[] = {linear->experts, linear->out};
    if (!linear->experts) return mc_vector_make(scope, t, linear->out, 0.0, &linear->bias);
    snprintf(want, sizeof want, "floats [%lld,%lld]", (long long)shape[0], (long long)shape[1]);
    if (!is_float(t)) return wrong(MICA_EDTYPE, t, want);
    if (!has_axes(t, shape, 2)) return wrong(MICA_ESHAPE, t, want);
    return make_floats(scope, t, 0.0, shape, 2, &linear->bias);
}

mica_status mc_linear_add_bias(mica_scope *scope, const mc_weight_tensor *t, double scale,
                               mc_linear *linear) {
    mica_array more;
    MC_TRY(mc_vector_make(scope, t, linear->out, 0.0, &more));
    more = mica_multiply(scope, more, mica_f32(scope, (float)scale));
    if (mica_valid(linear->bias)) more = mica_add(scope, linear->bias, more);
    MC_TRY(mica_eval(scope, more));
    linear->bias = more;
    return MICA_OK;
}

/* The mode of matrices whose scales are bytes, by the size of groups and the bits. */
static mica_quant_mode byte_mode(int group_size, int bits) {
    if (group_size == 16) return MICA_QUANT_NVFP4;
    return bits == 8 ? MICA_QUANT_MXFP8 : MICA_QUANT_MXFP4;
}

/* What the shapes of its tensors say of a matrix, where the config does not, or says another. */
static void guess_quant(const mc_linear *linear, const mc_weight_tensor *codes,
                        const mc_weight_tensor *scales, mica_quant *quant) {
    if (codes->ndim < 2 || scales->ndim < 2) return;
    int64_t words = codes->shape[codes->ndim - 1], groups = scales->shape[scales->ndim - 1];
    if (words <= 0 || groups <= 0 || words > linear->in / 4 || groups > linear->in) return;
    mica_quant shown = {MICA_QUANT_AFFINE, (int)(words * 32 / linear->in),
                        (int)(linear->in / groups)};
    if (scales->has_dtype && scales->dtype == MICA_U8)
        shown.mode = byte_mode(shown.group_size, shown.bits);
    bool exact = words * 32 == linear->in * shown.bits && groups * shown.group_size == linear->in;
    if (exact && mc_packing_known(&shown)) *quant = shown;
}

static mica_status check_quant(const mc_linear *linear, const mc_weight_tensor *codes) {
    const mica_quant *quant = &linear->quant;
    if (mc_packing_known(quant) && linear->in % quant->group_size == 0) return MICA_OK;
    return mc_fail(MICA_ESHAPE,
                   "%s: tensor %s: %s of %d bits in groups of %d does not fit rows of %lld "
                   "weights",
                   codes->file, codes->name, mc_packing_mode_name(quant->mode), quant->bits,
                   quant->group_size, (long long)linear->in);
}

static mica_status check_scales(const mc_linear *linear, const mc_weight_tensor *t) {
    char want[96], text[128];
    bool affine = linear->quant.mode == MICA_QUANT_AFFINE;
    int64_t groups = linear->in / linear->quant.group_size;
    put_want(linear, affine ? "F32, F16 or BF16" : "U8", groups, want);
    snprintf(text, sizeof text, "%s (groups of %d)", want, linear->quant.group_size);
    if (affine ? !is_float(t) : !t->has_dtype || t->dtype != MICA_U8)
        return wrong(MICA_EDTYPE, t, text);
    return fits(linear, t, groups) ? MICA_OK : wrong(MICA_ESHAPE, t, text);
}

static mica_status load_biases(mc_loader *loader, const char *module,
                               const mc_weight_tensor *scales, mc_linear *linear) {
    char name[NAME_BYTES];
    const mc_weight_tensor *t;
    if (linear->quant.mode != MICA_QUANT_AFFINE) return MICA_OK;
    snprintf(name, sizeof name, "%s.biases", module);
    MC_TRY(find_tensor(loader, name, &t));
    if (!t) return MICA_OK;
    MC_TRY(check_scales(linear, t));
    if (t->dtype != scales->dtype) return wrong(MICA_EDTYPE, t, "the dtype of its scales");
    return mc_weight_leaf(loader->scope, t, &linear->biases);
}

/* Factors of rows, of matrices that were published otherwise. */
static mica_status load_gains(mc_loader *loader, const char *module, mc_linear *linear) {
    char name[NAME_BYTES], want[96];
    snprintf(name, sizeof name, "%s.gains", module);
    const mc_weight_tensor *t = mc_weights_find(loader->weights, name);
    int64_t shape[] = {linear->experts, linear->out};
    int skip = linear->experts ? 0 : 1;
    if (!t) return MICA_OK;
    use(loader, t);
    put_want(linear, "F32", 1, want);
    if (!t->has_dtype || t->dtype != MICA_F32) return wrong(MICA_EDTYPE, t, want);
    if (!has_axes(t, shape + skip, 2 - skip)) return wrong(MICA_ESHAPE, t, want);
    return mc_weight_leaf(loader->scope, t, &linear->gains);
}

/* The order of columns, likewise. */
static mica_status load_order(mc_loader *loader, const char *module, mc_linear *linear) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.order", module);
    const mc_weight_tensor *t = mc_weights_find(loader->weights, name);
    if (!t) return MICA_OK;
    use(loader, t);
    if (linear->experts || !t->has_dtype || t->dtype != MICA_I32)
        return wrong(MICA_EDTYPE, t, "I32 of one matrix");
    if (!has_axes(t, &linear->in, 1)) return wrong(MICA_ESHAPE, t, "the columns of its codes");
    return mc_weight_leaf(loader->scope, t, &linear->order);
}

/* Finds a module's packing. config.json may give its name with the files' prefix, or with
 * "model.". */
static mica_status read_packing(const mc_loader *loader, const char *module, mica_quant *quant) {
    char alias[NAME_BYTES];
    size_t len = strlen(loader->prefix);
    const char *rest = strncmp(module, loader->prefix, len) == 0 ? module + len : NULL;
    if (rest)
        snprintf(alias, sizeof alias, "model.%s", rest);
    else
        snprintf(alias, sizeof alias, "language_model.%s", module);
    return mc_packing_of(&loader->packing, module, alias, quant);
}

static bool same_quant(const mica_quant *a, const mica_quant *b) {
    return a->mode == b->mode && a->bits == b->bits && a->group_size == b->group_size;
}

static mica_status load_quantised(mc_loader *loader, const char *module,
                                  const mc_weight_tensor *codes, const mc_weight_tensor *scales,
                                  mc_linear *linear) {
    char want[96], text[128];
    linear->quantised = true;
    mica_quant *quant = &linear->quant;
    *quant = codes->quant;
    if (!quant->bits) {
        MC_TRY(read_packing(loader, module, quant));
        guess_quant(linear, codes, scales, quant);
    }
    MC_TRY(check_quant(linear, codes));
    take_rows(linear, codes);
    int64_t words = linear->in * quant->bits / 32;
    put_want(linear, "U32", words, want);
    snprintf(text, sizeof text, "%s (%d bits a weight)", want, quant->bits);
    if (!codes->has_dtype || codes->dtype != MICA_U32) return wrong(MICA_EDTYPE, codes, text);
    if (!fits(linear, codes, words)) return wrong(MICA_ESHAPE, codes, text);
    MC_TRY(check_scales(linear, scales));
    MC_TRY(mc_weight_leaf(loader->scope, codes, &linear->weight));
    MC_TRY(mc_weight_leaf(loader->scope, scales, &linear->scales));
    MC_TRY(load_biases(loader, module, scales, linear));
    if (codes->from) MC_TRY(load_gains(loader, module, linear));
    if (codes->from) MC_TRY(load_order(loader, module, linear));

    if (loader->quantised++ == 0) loader->quant = *quant;
    loader->mixed = loader->mixed || !same_quant(quant, &loader->quant);
    loader->as_stated = loader->as_stated || same_quant(quant, &loader->packing.common);
    return MICA_OK;
}

/* Finds "module.weight", or a tensor that is called as the module. */
static mica_status find_weight(mc_loader *loader, const char *module, const mc_weight_tensor **t) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.weight", module);
    bool bare = !mc_weights_find(loader->weights, name) && mc_weights_find(loader->weights, module);
    return find_tensor(loader, bare ? module : name, t);
}

/* Loads "module.bias", or "module_bias". */
static mica_status load_bias(mc_loader *loader, const char *module, mc_linear *linear) {
    char name[NAME_BYTES];
    const mc_weight_tensor *t;
    snprintf(name, sizeof name, "%s_bias", module);
    if (!mc_weights_find(loader->weights, name)) snprintf(name, sizeof name, "%s.bias", module);
    MC_TRY(find_tensor(loader, name, &t));
    if (!t) return MICA_OK;
    MC_TRY(mc_linear_set_bias(loader->scope, t, linear));
    loader->parameters += t->bytes / mica_dtype_bytes(t->dtype);
    loader->dense[t->dtype]++;
    return MICA_OK;
}

mica_status mc_linear_load(mc_loader *loader, const char *module, bool bias, mc_linear *linear) {
    char name[NAME_BYTES];
    const mc_weight_tensor *weight, *scales;
    *linear = (mc_linear){.out = linear->out,
                          .in = linear->in,
                          .experts = linear->experts,
                          .transposed = linear->transposed};
    if (linear->experts && strchr(module, '*')) return mc_linear_load_list(loader, module, linear);
    MC_TRY(find_weight(loader, module, &weight));
    if (!weight) return MICA_OK;

    snprintf(name, sizeof name, "%s.scales", module);
    scales = mc_weights_find(loader->weights, name);
    bool bytes = strncmp(weight->kind, "F8", 2) == 0; /* fp8 as published */
    if (bytes) snprintf(name, sizeof name, "%s.weight_scale", module);
    if (!scales && (bytes || (weight->has_dtype && weight->dtype == MICA_U32)))
        return mc_names_add(&loader->missing, name); /* codes without their scales */
    if (scales) {
        use(loader, scales);
        MC_TRY(load_quantised(loader, module, weight, scales, linear));
    } else {
        MC_TRY(load_dense(loader, weight, linear));
    }
    uint64_t count = linear->experts ? (uint64_t)linear->experts : 1;
    loader->parameters += count * (uint64_t)linear->out * (uint64_t)linear->in;
    return bias ? load_bias(loader, module, linear) : MICA_OK;
}

/* The factor as [rows, cols] f32, multiplied by scale. */
static mica_status load_factor(mica_scope *scope, mc_factor factor, int64_t rows, int64_t cols,
                               double scale, mica_array *array) {
    const mc_weight_tensor *t = factor.tensor;
    const int64_t shape[] = {rows, cols};
    char want[96];
    int64_t high = factor.transposed ? cols : rows, wide = factor.transposed ? rows : cols;
    snprintf(want, sizeof want, "F32, F16 or BF16 [%lld,%lld]", (long long)high, (long long)wide);
    if (!is_float(t)) return wrong(MICA_EDTYPE, t, want);
    if (!has_shape(t, high, wide)) return wrong(MICA_ESHAPE, t, want);

    float *values = mc_array_alloc((size_t)(rows * cols), sizeof *values);
    if (!values) return mc_fail_nomem(t->name);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            values[i * cols + j] =
                (float)(scale *
                        (double)element(t, factor.transposed ? j * rows + i : i * cols + j));
    *array = mica_from_data(scope, values, MICA_F32, shape, 2);
    mc_free(values);
    return mica_scope_status(scope);
}

/* Factors of all experts, as mlx-lm has them, multiplied by scale. */
static mica_status load_factors(mica_scope *scope, const mc_weight_tensor *t, const int64_t *shape,
                                double scale, mica_array *array) {
    char want[96];
    snprintf(want, sizeof want, "F32, F16 or BF16 [%lld,%lld,%lld]", (long long)shape[0],
             (long long)shape[1], (long long)shape[2]);
    if (!is_float(t)) return wrong(MICA_EDTYPE, t, want);
    if (!has_axes(t, shape, 3)) return wrong(MICA_ESHAPE, t, want);
    mica_array x;
    MC_TRY(make_floats(scope, t, 0.0, shape, 3, &x));
    x = mica_multiply(scope, x, mica_f32(scope, (float)scale));
    MC_TRY(mica_eval(scope, x));
    *array = x;
    return MICA_OK;
}

static mica_status adapt_experts(mica_scope *scope, const mc_weight_tensor *a,
                                 const mc_weight_tensor *b, int64_t rank, double scale,
                                 mc_linear *linear) {
    const int64_t a_shape[] = {linear->experts, rank, linear->in};
    const int64_t b_shape[] = {linear->experts, linear->out, rank};
    MC_TRY(load_factors(scope, a, a_shape, 1.0, &linear->lora_a));
    return load_factors(scope, b, b_shape, scale, &linear->lora_b);
}

mica_status mc_linear_adapt(mica_scope *scope, mc_factor a, mc_factor b, int64_t rank, double scale,
                            mc_linear *linear) {
    if (linear->experts) return adapt_experts(scope, a.tensor, b.tensor, rank, scale, linear);
    MC_TRY(load_factor(scope, a, linear->in, rank, 1.0, &linear->lora_a));
    return load_factor(scope, b, rank, linear->out, scale, &linear->lora_b);
}

mica_status mc_linear_magnify(mica_scope *scope, const mc_weight_tensor *m, mc_linear *linear) {
    char want[64];
    snprintf(want, sizeof want, "floats [%lld]", (long long)linear->out);
    if (!is_float(m)) return wrong(MICA_EDTYPE, m, want);
    if (m->ndim != 1 || m->shape[0] != linear->out) return wrong(MICA_ESHAPE, m, want);
    mc_linear exact = *linear;
    exact.fast = 0; /* the norms are constants: they are not rounded */
    mica_array values = mica_from_data(scope, m->data, m->dtype, m->shape, 1);
    values = mica_astype(scope, values, MICA_F32);
    mica_array dora = mc_linear_dora(scope, &exact, values, mc_linear_row_squares(scope, &exact));
    MC_TRY(mica_eval(scope, dora));
    linear->dora = dora;
    return MICA_OK;
}
