#include "convert/gguf_pack.h"

#include "base/half.h"

#include <string.h>

enum { BLOCK = 32 };

/* The blocks that may hold a quantisation, smaller ones first. Codes of fewer bits than a block's
 * are the same numbers in it. */
typedef struct candidate {
    mica_quant_mode mode;
    int bits;
    const char *type;
    float offset; /* the bias must be -offset * scale; 0: the block has a bias of its own */
} candidate;

static const candidate candidates[] = {
    {MICA_QUANT_AFFINE, 2, "Q4_0", 8},   {MICA_QUANT_AFFINE, 2, "Q4_1", 0},
    {MICA_QUANT_AFFINE, 3, "Q4_0", 8},   {MICA_QUANT_AFFINE, 3, "Q4_1", 0},
    {MICA_QUANT_AFFINE, 4, "Q4_0", 8},   {MICA_QUANT_AFFINE, 4, "Q4_1", 0},
    {MICA_QUANT_AFFINE, 5, "Q5_0", 16},  {MICA_QUANT_AFFINE, 5, "Q5_1", 0},
    {MICA_QUANT_AFFINE, 8, "Q8_0", 128}, {MICA_QUANT_MXFP4, 4, "MXFP4", 0},
};
enum { N_CANDIDATES = sizeof candidates / sizeof *candidates };

static bool is_for(const candidate *c, const mica_quant *quant) {
    return c->mode == quant->mode && c->bits == quant->bits && quant->group_size % BLOCK == 0;
}

bool mc_gguf_packs(const mica_quant *quant) {
    for (size_t i = 0; i < N_CANDIDATES; i++)
        if (is_for(&candidates[i], quant) && candidates[i].offset == 0) return true;
    return false;
}

static const mc_ggml_type *type_named(const char *name) {
    for (size_t i = 0; mc_ggml_type_at(i); i++)
        if (strcmp(mc_ggml_type_at(i)->name, name) == 0) return mc_ggml_type_at(i);
    return NULL;
}

static float float_at(const void *data, mica_dtype dtype, int64_t i) {
    if (dtype == MICA_F32) return ((const float *)data)[i];
    uint16_t bits = ((const uint16_t *)data)[i];
    return dtype == MICA_F16 ? mc_f16_to_f32(bits) : mc_bf16_to_f32(bits);
}

/* A finite number of f16. */
static bool to_f16(float x, uint16_t *half) {
    *half = mc_f32_to_f16(x);
    return mc_f16_to_f32(*half) == x && (*half & 0x7c00) != 0x7c00;
}

/* The codes of the k-th block of a row. */
static void unpack(const mc_packed *x, int64_t row, int64_t k, uint8_t codes[BLOCK]) {
    int bits = x->quant.bits, n = 0;
    const uint32_t *words = x->codes + (row * (x->columns / BLOCK) + k) * bits;
    uint64_t pending = 0;
    for (int i = 0; i < BLOCK; i++) {
        if (n < bits) {
            pending |= (uint64_t)*words++ << n;
            n += 32;
        }
        codes[i] = (uint8_t)(pending & ((1u << bits) - 1));
        pending >>= bits;
        n -= bits;
    }
}

static int64_t group_of(const mc_packed *x, int64_t row, int64_t k) {
    return (row * x->columns + k * BLOCK) / x->quant.group_size;
}

static bool all_zero(const uint8_t codes[BLOCK]) {
    for (int i = 0; i < BLOCK; i++)
        if (codes[i]) return false;
    return true;
}

/* The scale and bias of a block as f16. MLX gives groups of equal weights a scale that nothing is
 * multiplied by, and that f16 may lack: it becomes 0. */
static bool affine_numbers(const mc_packed *x, float offset, int64_t row, int64_t k,
                           uint16_t *scale, uint16_t *bias) {
    uint8_t codes[BLOCK];
    int64_t group = group_of(x, row, k);
    float s = float_at(x->scales, x->dtype, group), b = float_at(x->biases, x->dtype, group);
    if (!to_f16(b, bias)) return false;
    if (offset != 0) return to_f16(s, scale) && b == -offset * s;
    if (to_f16(s, scale)) return true;
    unpack(x, row, k, codes);
    *scale = 0;
    return s - s == 0 && all_zero(codes);
}

static bool fits(const mc_packed *x, const candidate *c) {
    uint16_t scale, bias;
    if (c->mode != MICA_QUANT_AFFINE) { /* 255 is no number in MLX's scales */
        int64_t groups = x->rows * (x->columns / x->quant.group_size);
        return groups == 0 || !memchr(x->scales, 255, (size_t)groups);
    }
    for (int64_t row = 0; row < x->rows; row++)
        for (int64_t k = 0; k < x->columns / BLOCK; k++)
            if (!affine_numbers(x, c->offset, row, k, &scale, &bias)) return false;
    return true;
}

const mc_ggml_type *mc_gguf_pack_type(const mc_packed *x) {
    for (size_t i = 0; i < N_CANDIDATES; i++)
        if (is_for(&candidates[i], &x->quant) && fits(x, &candidates[i]))
            return type_named(candidates[i].type);
    return NULL;
}

void mc_gguf_pack_row(const mc_packed *x, const mc_ggml_type *type, int64_t row, uint8_t *out) {
    uint8_t codes[BLOCK];
    uint16_t scale = 0, bias = 0;
    for (int64_t k = 0; k < x->columns / BLOCK; k++) {
        unpack(x, row, k, codes);
        if (x->quant.mode == MICA_QUANT_AFFINE)
            (void)affine_numbers(x, 0, row, k, &scale, &bias);
        else
            scale = ((const uint8_t *)x->scales)[group_of(x, row, k)];
        type->join(codes, scale, bias, out + k * type->bytes);
    }
}
