/* Published matrices of small floats: w[row, column] = scale[row, group] * value, and in nvfp4 a
 * factor for the whole matrix, by which compressed-tensors divides. */
#include "io/published_kind.h"

#include "base/half.h"

#define BLOCK 128

/* fp8: scales of blocks, rows, or matrices. */
static mica_status fit_fp8(const mc_published_facts *facts, mc_published *m) {
    int64_t rows = facts->block[0] ? facts->block[0] : BLOCK;
    int64_t columns = facts->block[1] ? facts->block[1] : BLOCK;
    m->bits = 8;
    m->plain = true;
    MC_TRY(mc_published_find_rows(1, m));
    return mc_published_find_grid(rows, columns, m);
}

/* A factor of a whole matrix, or of each one. */
static mica_status check_whole(const mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_WHOLE];
    if (!t) return MICA_OK;
    if (!mc_published_is_kind(t, "F32"))
        return mc_published_bad(t, MICA_EDTYPE, "is %s, want F32", t->kind);
    int64_t n = mc_published_size(t);
    if (n == 1 || (m->stacked && n == m->matrices)) return MICA_OK;
    return mc_published_bad(t, MICA_ESHAPE, "has %lld numbers, want one", (long long)n);
}

/* Scales of so many columns of each row, `numbers` of which are in a byte. */
static mica_status fit_groups(int64_t numbers, int64_t columns, mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES];
    m->bits = (int)(8 / numbers);
    m->plain = true;
    MC_TRY(mc_published_find_rows(numbers, m));
    if (m->in % columns)
        return mc_published_bad(m->part[MC_PART_CODES], MICA_ESHAPE,
                                "rows of %lld weights are no groups of %lld", (long long)m->in,
                                (long long)columns);
    m->block_rows = 1;
    m->group = columns;
    m->row_scales = m->in / columns;
    m->matrix_scales = m->out * m->row_scales;
    int axes = m->stacked ? 3 : 2;
    if (t->ndim != axes || (m->stacked && t->shape[0] != m->matrices) ||
        t->shape[axes - 2] != m->out || t->shape[axes - 1] != m->row_scales)
        return mc_published_bad(t, MICA_ESHAPE, "want [%lld,%lld]", (long long)m->out,
                                (long long)m->row_scales);
    return check_whole(m);
}

/* Whether scales are of 32 columns of a row each, not of blocks. */
static bool is_mxfp8(const mc_published *m) {
    const mc_weight_tensor *codes = m->part[MC_PART_CODES], *scales = m->part[MC_PART_SCALES];
    int last = codes->ndim - 1;
    return last > 0 && scales->ndim == codes->ndim &&
           scales->shape[last - 1] == codes->shape[last - 1] &&
           scales->shape[last] == codes->shape[last] / 32;
}

static mica_status fit_mxfp8(const mc_published_facts *facts, mc_published *m) {
    (void)facts;
    return fit_groups(1, 32, m);
}

static mica_status fit_mxfp4(const mc_published_facts *facts, mc_published *m) {
    (void)facts;
    return fit_groups(2, 32, m);
}

static mica_status fit_nvfp4(const mc_published_facts *facts, mc_published *m) {
    (void)facts;
    return fit_groups(2, 16, m);
}

static const uint8_t *bytes_of(const mc_published *m, int64_t row, int64_t row_bytes) {
    return (const uint8_t *)m->part[MC_PART_CODES]->data + row * row_bytes;
}

static void e4m3_values(const mc_published *m, int64_t row, float *values) {
    const uint8_t *codes = bytes_of(m, row, m->in);
    float known[256];
    for (int i = 0; i < 256; i++)
        known[i] = mc_published_e4m3((uint8_t)i);
    for (int64_t i = 0; i < m->in; i++)
        values[i] = known[codes[i]];
}

/* e5m2 is the upper half of f16. */
static void e5m2_values(const mc_published *m, int64_t row, float *values) {
    const uint8_t *codes = bytes_of(m, row, m->in);
    for (int64_t i = 0; i < m->in; i++)
        values[i] = mc_f16_to_f32((uint16_t)(codes[i] << 8));
}

static void e2m1_values(const mc_published *m, int64_t row, float *values) {
    static const float known[] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                  -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    const uint8_t *bytes = bytes_of(m, row, m->in / 2);
    for (int64_t i = 0; i < m->in; i++)
        values[i] = known[bytes[i / 2] >> (i % 2 * 4) & 15];
}

const mc_published_kind mc_published_fp8 = {
    .what = "fp8",
    .codes = "",
    .dtype = "F8_E4M3",
    .scales = {"_scale_inv", "_scale"},
    .fit = fit_fp8,
    .values_of = e4m3_values,
};

const mc_published_kind mc_published_e5m2 = {
    .what = "fp8 (e5m2)",
    .codes = "",
    .dtype = "F8_E5M2",
    .scales = {"_scale_inv", "_scale"},
    .fit = fit_fp8,
    .values_of = e5m2_values,
};

const mc_published_kind mc_published_mxfp8 = {
    .what = "mxfp8",
    .codes = "",
    .dtype = "F8_E4M3",
    .scales = {"_scale"},
    .scales_dtype = "U8",
    .is = is_mxfp8,
    .fit = fit_mxfp8,
    .values_of = e4m3_values,
    .mode = MICA_QUANT_MXFP8,
};

const mc_published_kind mc_published_mxfp4 = {
    .what = "mxfp4",
    .codes = "_packed",
    .dtype = "U8",
    .scales = {"_scale"},
    .scales_dtype = "U8",
    .fit = fit_mxfp4,
    .values_of = e2m1_values,
    .mode = MICA_QUANT_MXFP4,
};

const mc_published_kind mc_published_nvfp4 = {
    .what = "nvfp4",
    .codes = "",
    .dtype = "U8",
    .scales = {"_scale"},
    .scales_dtype = "F8_E4M3",
    .parts = {[MC_PART_WHOLE] = "_scale_2"},
    .fit = fit_nvfp4,
    .values_of = e2m1_values,
    .mode = MICA_QUANT_NVFP4,
};

const mc_published_kind mc_published_nvfp4_packed = {
    .what = "nvfp4",
    .codes = "_packed",
    .dtype = "U8",
    .scales = {"_scale"},
    .scales_dtype = "F8_E4M3",
    .parts = {[MC_PART_WHOLE] = "_global_scale"},
    .inverse = true,
    .fit = fit_nvfp4,
    .values_of = e2m1_values,
    .mode = MICA_QUANT_NVFP4,
};
