#include "io/published_kind.h"

#include "base/half.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 512

mica_status mc_published_bad(const mc_weight_tensor *t, mica_status status, const char *fmt, ...) {
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mc_fail(status, "%s: tensor '%.200s': %s", t->file, t->name, text);
}

bool mc_published_is_kind(const mc_weight_tensor *t, const char *kind) {
    return strcmp(t->kind, kind) == 0;
}

int64_t mc_published_size(const mc_weight_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

/* The lower bits of an f16 whose exponent is 8 higher. */
float mc_published_e4m3(uint8_t x) {
    if ((x & 0x7f) == 0x7f) return NAN;
    return 256.0f * mc_f16_to_f32((uint16_t)((x & 0x80) << 8 | (x & 0x7f) << 7));
}

static float from_half(const void *data, int64_t i, bool brain) {
    uint16_t half = ((const uint16_t *)data)[i];
    return brain ? mc_bf16_to_f32(half) : mc_f16_to_f32(half);
}

float mc_published_number(const mc_weight_tensor *t, int64_t i) {
    const uint8_t *bytes = t->data;
    if (mc_published_is_kind(t, "F32")) return ((const float *)t->data)[i];
    if (mc_published_is_kind(t, "F8_E4M3")) return mc_published_e4m3(bytes[i]);
    if (mc_published_is_kind(t, "U8") || mc_published_is_kind(t, "F8_E8M0"))
        return bytes[i] == 255 ? NAN : ldexpf(1.0f, bytes[i] - 127);
    return from_half(t->data, i, mc_published_is_kind(t, "BF16"));
}

float mc_published_scale(const mc_published *m, int64_t row, int64_t group) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES];
    if (m->turned) return mc_published_number(t, group * m->out + row);
    int64_t block = row % m->out / m->block_rows;
    return mc_published_number(t, row / m->out * m->matrix_scales + block * m->row_scales + group);
}

bool mc_published_power(const mc_published *m, int64_t row, int64_t group, int *power) {
    float fraction = frexpf(mc_published_scale(m, row, group), power);
    return fraction == 0.5f && *power >= -126 && *power <= 128;
}

int64_t mc_published_groups(const mc_published *m) {
    return (m->in + m->group - 1) / m->group;
}

static bool gives(int64_t in, int64_t group, int64_t groups) {
    if (group == -1 || group >= in) return groups == 1;
    return group > 0 && (in + group - 1) / group == groups;
}

mica_status mc_published_find_group(const mc_published_facts *facts, int64_t groups,
                                    mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES];
    int64_t found = 0;
    for (size_t i = 0; i < facts->n_groups && !found; i++)
        if (gives(m->in, facts->groups[i], groups)) found = facts->groups[i];
    if (!found && groups == 1) found = -1;
    if (!found && !facts->n_groups && groups > 0 && m->in % groups == 0) found = m->in / groups;
    if (!found)
        return mc_published_bad(t, MICA_ESHAPE,
                                "has %lld groups for rows of %lld weights, which no group_size of "
                                "config.json gives",
                                (long long)groups, (long long)m->in);
    m->group = found < 0 || found > m->in ? m->in : found;
    return MICA_OK;
}

static bool is_number(const mc_published *m, const mc_weight_tensor *t) {
    static const char *const kinds[] = {"F32", "BF16", "F16"};
    if (m->kind->scales_dtype) return true; /* as the table has it */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mc_published_is_kind(t, kinds[i])) return true;
    return mc_published_is_kind(t, "F8_E8M0");
}

/* One scale for each matrix, or for all. */
static bool is_single(mc_published *m, const mc_weight_tensor *t) {
    int64_t n = mc_published_size(t);
    m->block_rows = m->out;
    m->group = m->in;
    m->matrix_scales = n == 1 ? 0 : 1;
    return n == 1 || (n == m->matrices && m->stacked);
}

static bool fits_blocks(const mc_published *m, int64_t rows, int64_t columns, int64_t high,
                        int64_t wide) {
    return rows > 0 && columns > 0 && (m->out + rows - 1) / rows == high &&
           (m->in + columns - 1) / columns == wide;
}

mica_status mc_published_find_grid(int64_t rows, int64_t columns, mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES];
    if (!is_number(m, t))
        return mc_published_bad(t, MICA_EDTYPE, "is %s, want F32, F16 or BF16", t->kind);
    if (is_single(m, t)) return MICA_OK;
    int axes = m->stacked ? 3 : 2;
    bool list = t->ndim == axes - 1; /* [rows], without an axis for columns */
    if (t->ndim != axes && !list) return mc_published_bad(t, MICA_ESHAPE, "has %d axes", t->ndim);
    int64_t high = t->shape[t->ndim - (list ? 1 : 2)], wide = list ? 1 : t->shape[t->ndim - 1];
    if (m->stacked && t->shape[0] != m->matrices)
        return mc_published_bad(t, MICA_ESHAPE, "is of %lld matrices, of %lld",
                                (long long)t->shape[0], (long long)m->matrices);
    m->row_scales = wide;
    m->matrix_scales = high * wide;
    m->block_rows = rows;
    m->group = columns;
    if (fits_blocks(m, rows, columns, high, wide)) return MICA_OK;
    m->block_rows = 1;
    if (fits_blocks(m, 1, columns, high, wide)) return MICA_OK;
    m->group = m->in;
    if (fits_blocks(m, 1, m->in, high, wide)) return MICA_OK;
    return mc_published_bad(t, MICA_ESHAPE,
                            "is [%lld,%lld], which fits neither blocks of %lld x %lld nor rows of "
                            "a matrix [%lld,%lld]",
                            (long long)high, (long long)wide, (long long)rows, (long long)columns,
                            (long long)m->out, (long long)m->in);
}

mica_status mc_published_find_rows(int64_t numbers, mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_CODES];
    bool stacked = t->ndim == 3;
    if (t->ndim != 2 && !stacked)
        return mc_published_bad(t, MICA_ESHAPE, "has %d axes, want 2, or 3 of experts", t->ndim);
    m->stacked = stacked;
    m->matrices = stacked ? t->shape[0] : 1;
    m->out = t->shape[t->ndim - 2];
    m->in = t->shape[t->ndim - 1];
    if (m->matrices < 1 || m->out < 1 || m->in < 1 || m->in > INT32_MAX / numbers)
        return mc_published_bad(t, MICA_ESHAPE, "is empty, or its rows are too long");
    m->in *= numbers;
    return MICA_OK;
}

int mc_published_our_group(int64_t group, int64_t in) {
    for (int ours = 128; ours >= 32; ours /= 2)
        if (in % ours == 0 && (group >= in || group % ours == 0)) return ours;
    return 0;
}
