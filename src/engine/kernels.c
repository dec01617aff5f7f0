#include "engine/kernels.h"

#include "device/device.h"
#include "graph/attr.h"

#include <stdio.h>
#include <string.h>

typedef struct kind {
    char matrix[MC_PACKING_TEXT];
    bool attention;
    mc_kernel_choice choice;
} kind;

/* Integer types stand for codes with scales. Any type of 8 bits is int8: a u8 array holds rows of
 * mica_to_q8. */
static const char *type_name(mica_dtype dtype) {
    if (dtype == MICA_I16) return "int16";
    return mica_dtype_bytes(dtype) == 1 ? "int8" : mica_dtype_name(dtype);
}

static bool add(mc_buffer *kinds, const kind *k) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(kinds, kind); i++)
        if (!k->attention && strcmp(MC_BUFFER_AT(kinds, kind)[i].matrix, k->matrix) == 0)
            return true;
    return mc_buffer_add(kinds, k, sizeof *k);
}

/* A device that cannot tell computes in f32, by kernels of its own name. */
static mc_kernel_choice choose(const mica_device *device, mc_op op, const void *attr,
                               mica_dtype w) {
    const mc_backend *backend = device->backend;
    if (!backend->kernel_choice) return (mc_kernel_choice){MICA_F32, backend->name, backend->name};
    return backend->kernel_choice(device->state, op, attr, w);
}

static bool add_weights(mc_buffer *kinds, const mica_device *device, const mc_linear *linear) {
    const mica_quant *quant = &linear->quant;
    const mc_attr_matmul dense = {.fast = linear->fast};
    const mc_attr_quant packed = {
        .mode = quant->mode,
        .bits = quant->bits,
        .group_size = quant->group_size,
        .transpose = 1,
        .fast = linear->fast,
    };
    mica_dtype dtype = mica_array_dtype(linear->weight);
    kind k = {.attention = false};
    if (linear->quantised)
        mc_packing_describe(quant, false, k.matrix);
    else
        snprintf(k.matrix, sizeof k.matrix, "%s", mica_dtype_name(dtype));
    k.choice = linear->quantised ? choose(device, MC_OP_QUANTIZED_MATMUL, &packed, dtype)
                                 : choose(device, MC_OP_MATMUL, &dense, dtype);
    return add(kinds, &k);
}

static bool add_keys(mc_buffer *kinds, const mica_device *device, mica_dtype dtype) {
    kind k = {.attention = true};
    snprintf(k.matrix, sizeof k.matrix, "%s", type_name(dtype));
    k.choice = choose(device, MC_OP_SDPA, NULL, dtype);
    return add(kinds, &k);
}

/* Of those that a router has, which are always exact, or of the others. */
static bool add_matrices(mc_buffer *kinds, const mica_device *device, const mc_lm *lm, bool exact) {
    bool done = true;
    const mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));)
        if (w->slot->exact == exact) done = done && add_weights(kinds, device, &w->linear);
    return done;
}

mica_status mc_kernels_list(const mc_lm *lm, const mica_device *device, mc_buffer *kinds) {
    bool done = add_matrices(kinds, device, lm, false) && add_weights(kinds, device, &lm->head) &&
                add_matrices(kinds, device, lm, true) && add_keys(kinds, device, lm->kv_dtype);
    return done ? MICA_OK : mc_fail_nomem("the kernels of a model");
}

mica_model_kernels mc_kernels_get(const mc_buffer *kinds, size_t i) {
    if (i >= MC_BUFFER_COUNT(kinds, kind)) return (mica_model_kernels){0};
    const kind *k = &MC_BUFFER_AT(kinds, kind)[i];
    return (mica_model_kernels){
        .matrix = k->matrix,
        .attention = k->attention,
        .arithmetic =
            k->choice.activations == MICA_F32 ? MICA_ARITHMETIC_EXACT : MICA_ARITHMETIC_FAST,
        .activations = type_name(k->choice.activations),
        .one_row = k->choice.one_row,
        .many_rows = k->choice.many_rows,
    };
}

mica_arithmetic mc_kernels_arithmetic(const mc_buffer *kinds) {
    mica_model_kernels k;
    for (size_t i = 0; k = mc_kernels_get(kinds, i), k.matrix && !k.attention; i++)
        if (k.arithmetic == MICA_ARITHMETIC_FAST) return MICA_ARITHMETIC_FAST;
    return MICA_ARITHMETIC_EXACT;
}
