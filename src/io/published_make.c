#include "io/published_make.h"

#include "base/alloc.h"
#include "base/half.h"
#include "base/pool.h"
#include "base/system.h"
#include "io/published_kind.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define TASKS 256          /* that the rows of a tensor are divided into */
#define PARALLEL (1 << 20) /* elements of a tensor that several threads make */

/* Room for a row: its floats, and its codes twice. */
typedef struct room {
    float *values;
    uint8_t *codes, *sorted;
} room;

static int64_t group_of(const mc_published *m, int64_t column) {
    const mc_weight_tensor *order = m->part[MC_PART_ORDER];
    if (m->plain) return column / m->group;
    return ((const int32_t *)order->data)[column];
}

/* The factor of the whole matrix that a row belongs to. */
static float whole_of(const mc_published *m, int64_t row) {
    const mc_weight_tensor *t = m->part[MC_PART_WHOLE];
    if (!t) return 1.0f;
    float x = mc_published_number(t, mc_published_size(t) > 1 ? row / m->out : 0);
    return m->kind->inverse ? 1.0f / x : x;
}

/* ---- values ---- */

static mica_status integer_values(const mc_published *m, int64_t row, room *r) {
    int zero = 0;
    float scale = 0;
    m->kind->codes_of(m, row, r->codes);
    for (int64_t i = 0, last = -1; i < m->in; i++) {
        int64_t group = group_of(m, i);
        if (group != last) {
            MC_TRY(m->kind->zero_of(m, row, group, &zero));
            scale = mc_published_scale(m, row, group);
            last = group;
        }
        r->values[i] = scale * (float)(r->codes[i] - zero);
    }
    return MICA_OK;
}

static void float_values(const mc_published *m, int64_t row, room *r) {
    float whole = whole_of(m, row);
    m->kind->values_of(m, row, r->values);
    for (int64_t i = 0; i < m->in; i += m->group) {
        int64_t end = m->in - i < m->group ? m->in : i + m->group;
        float scale = mc_published_scale(m, row, i / m->group) * whole;
        for (int64_t k = i; k < end; k++)
            r->values[k] *= scale;
    }
}

static mica_status no_number(const mc_published *m, int64_t row, const room *r) {
    int64_t i = 0;
    while (isfinite(r->values[i]))
        i++;
    return mc_published_bad(m->part[MC_PART_CODES], MICA_EFORMAT,
                            "the value of row %lld, column %lld is no number, or too large",
                            (long long)row, (long long)i);
}

/* What a row stands for. errors  MICA_EFORMAT a value is no number */
static mica_status row_values(const mc_published *m, int64_t row, room *r) {
    if (m->kind->codes_of)
        MC_TRY(integer_values(m, row, r));
    else
        float_values(m, row, r);
    bool finite = true;
    for (int64_t i = 0; i < m->in; i++)
        finite &= fabsf(r->values[i]) <= FLT_MAX;
    return finite ? MICA_OK : no_number(m, row, r);
}

/* ---- numbers ---- */

static void put(mica_dtype dtype, void *out, int64_t i, float x) {
    uint16_t *halves = out;
    if (dtype == MICA_F32)
        ((float *)out)[i] = x;
    else
        halves[i] = dtype == MICA_BF16 ? mc_f32_to_bf16(x) : mc_f32_to_f16(x);
}

static mica_status no_scale(const mc_published *m, int part, int64_t row) {
    return mc_published_bad(m->part[part], MICA_EFORMAT,
                            "what row %lld is scaled by is no number, or too large",
                            (long long)row);
}

/* put, of what must be a number as it is stored. */
static mica_status put_scale(const mc_published *m, int64_t row, void *out, int64_t i, float x) {
    put(m->dtype, out, i, x);
    if (m->dtype == MICA_BF16) x = mc_bf16_to_f32(((const uint16_t *)out)[i]);
    if (m->dtype == MICA_F16) x = mc_f16_to_f32(((const uint16_t *)out)[i]);
    return isfinite(x) ? MICA_OK : no_scale(m, MC_PART_SCALES, row);
}

/* bf16 of the next number that is not smaller. x is positive. */
static float round_up(float x) {
    float y = mc_bf16_to_f32(mc_f32_to_bf16(x));
    return y >= x ? y : mc_bf16_to_f32((uint16_t)(mc_f32_to_bf16(x) + 1));
}

/* The scale of 8 bits anew: codes 1 to 255 reach the largest of a group on both sides. */
static float scale_anew(const mc_published *m, const float *values) {
    float largest = 0;
    for (int i = 0; i < m->quant.group_size; i++)
        largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
    float scale = round_up(largest / 127.0f);
    return isfinite(scale) ? scale : largest / 127.0f;
}

/* Sums with this have no bits behind the point: they are rounded to the nearest integer. */
#define ROUNDING 0x1.8p23f

/* Codes 1 to 255: no number is beyond 127 scales. */
static void codes_anew(const mc_published *m, const float *values, uint8_t *codes) {
    float scale = scale_anew(m, values), inverse = scale > 0 ? 1.0f / scale : 0.0f;
    bool divides = inverse <= FLT_MAX;
    for (int i = 0; i < m->quant.group_size; i++) {
        float code = divides ? values[i] * inverse : values[i] / scale;
        codes[i] = (uint8_t)(128 + (int)(code + ROUNDING - ROUNDING));
    }
}

/* ---- rows of parts ---- */

static void pack(const uint8_t *codes, int64_t n, int bits, uint32_t *words) {
    memset(words, 0, (size_t)(n * bits / 32) * sizeof *words);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * bits;
        int shift = (int)(at % 32);
        words[at / 32] |= (uint32_t)codes[i] << shift;
        if (shift + bits > 32) words[at / 32 + 1] |= (uint32_t)codes[i] >> (32 - shift);
    }
}

static mica_status make_floats(const mc_made *t, int64_t row, room *r, void *out) {
    MC_TRY(row_values(t->from, row, r));
    for (int64_t i = 0; i < t->from->in; i++)
        put(t->from->dtype, out, i, r->values[i]);
    return MICA_OK;
}

static mica_status make_codes_anew(const mc_made *t, int64_t row, room *r, void *out) {
    const mc_published *m = t->from;
    MC_TRY(row_values(m, row, r));
    for (int64_t i = 0; i < m->in; i += m->quant.group_size)
        codes_anew(m, r->values + i, (uint8_t *)out + i);
    return MICA_OK;
}

static mica_status make_codes(const mc_made *t, int64_t row, room *r, void *out) {
    const mc_published *m = t->from;
    if (!m->kind->turned || m->sorted) {
        m->kind->codes_of(m, row, r->codes);
        for (int64_t i = 0; m->sorted && i < m->in; i++)
            r->sorted[i] = r->codes[m->sorted[i]];
        pack(m->sorted ? r->sorted : r->codes, m->in, m->bits, out);
        return MICA_OK;
    }
    const uint32_t *words = (const uint32_t *)m->part[MC_PART_CODES]->data + row;
    for (int64_t i = 0; i < m->in * m->bits / 32; i++)
        ((uint32_t *)out)[i] = words[i * m->out];
    return MICA_OK;
}

/* Scales, or biases, of 8 bits anew. */
static mica_status make_scales_anew(const mc_made *t, int64_t row, room *r, void *out) {
    const mc_published *m = t->from;
    int size = m->quant.group_size;
    MC_TRY(row_values(m, row, r));
    for (int64_t i = 0; i < m->in / size; i++) {
        float scale = scale_anew(m, r->values + i * size);
        put(m->dtype, out, i, t->part == MC_MADE_BIASES ? -128.0f * scale : scale);
    }
    return MICA_OK;
}

static mica_status make_scales(const mc_made *t, int64_t row, room *r, void *out) {
    const mc_published *m = t->from;
    (void)r;
    for (int64_t i = 0; i < m->in / m->quant.group_size; i++) {
        int64_t group = i * m->quant.group_size / m->group;
        float scale = mc_published_scale(m, row, group);
        int zero = 0;
        if (t->part == MC_MADE_BIASES) MC_TRY(m->kind->zero_of(m, row, group, &zero));
        if (t->part == MC_MADE_BIASES) scale *= -(float)zero;
        MC_TRY(put_scale(m, row, out, i, scale));
    }
    return MICA_OK;
}

/* Exponents of scales that are powers of two; of those that others are factors of, 1. */
static mica_status make_powers(const mc_made *t, int64_t row, room *r, void *out) {
    const mc_published *m = t->from;
    uint8_t *powers = out;
    (void)r;
    for (int64_t i = 0; i < m->in / 32; i++) {
        int power = 1;
        if (m->way == MC_WAY_POWERS && !mc_published_power(m, row, i * 32 / m->group, &power))
            return mc_published_bad(m->part[MC_PART_SCALES], MICA_EFORMAT,
                                    "the scale of row %lld is no power of two", (long long)row);
        powers[i] = (uint8_t)(127 + power - 1);
    }
    return MICA_OK;
}

static mica_status make_gain(const mc_made *t, int64_t row, room *r, void *out) {
    const mc_published *m = t->from;
    bool rows = m->way == MC_WAY_ROWS;
    float gain = rows ? mc_published_scale(m, row, 0) : whole_of(m, row);
    (void)r;
    *(float *)out = gain;
    return isfinite(gain) ? MICA_OK : no_scale(m, rows ? MC_PART_SCALES : MC_PART_WHOLE, row);
}

typedef mica_status (*make_row)(const mc_made *t, int64_t row, room *r, void *out);

static make_row maker_of(const mc_made *t) {
    static const make_row anew[] = {[MC_MADE_CODES] = make_codes_anew,
                                    [MC_MADE_SCALES] = make_scales_anew,
                                    [MC_MADE_BIASES] = make_scales_anew},
                          kept[] = {[MC_MADE_CODES] = make_codes,
                                    [MC_MADE_SCALES] = make_scales,
                                    [MC_MADE_BIASES] = make_scales};
    if (t->part == MC_MADE_GAINS) return make_gain;
    if (t->from->way == MC_WAY_FLOATS) return make_floats;
    if (t->from->way == MC_WAY_POWERS || t->from->way == MC_WAY_ROWS) return make_powers;
    return t->from->way == MC_WAY_EIGHT ? anew[t->part] : kept[t->part];
}

/* A tensor's rows, which several threads make. */
typedef struct filling {
    const mc_weight_tensor *tensor;
    char *out;
    int64_t rows, task_rows;
    atomic_bool failed;
} filling;

static mica_status fill_rows(const filling *f, int64_t first, int64_t end) {
    const mc_made *t = f->tensor->made;
    size_t columns = (size_t)t->from->in, row_bytes = f->tensor->bytes / (size_t)f->rows;
    room r = {mc_array_alloc(columns, sizeof(float)), mc_alloc(columns), mc_alloc(columns)};
    make_row make = maker_of(t);
    bool done = r.values && r.codes && r.sorted;
    mica_status status = done ? MICA_OK : mc_fail_nomem(f->tensor->name);
    for (int64_t i = first; status == MICA_OK && i < end; i++)
        status = make(t, i, &r, f->out + (size_t)i * row_bytes);
    mc_free(r.values);
    mc_free(r.codes);
    mc_free(r.sorted);
    return status;
}

static void fill_tasks(void *context, int begin, int end, int worker) {
    filling *f = context;
    int64_t first = begin * f->task_rows, last = end * f->task_rows;
    (void)worker;
    if (fill_rows(f, first, last < f->rows ? last : f->rows) != MICA_OK)
        atomic_store(&f->failed, true);
}

/* Errors are of a thread: after one, all rows are made again in the caller's. */
static mica_status fill(filling *f, mc_pool *pool) {
    int64_t tasks = (f->rows + f->task_rows - 1) / f->task_rows;
    mc_pool_run(pool, (int)tasks, fill_tasks, f);
    return atomic_load(&f->failed) ? fill_rows(f, 0, f->rows) : MICA_OK;
}

mica_status mc_made_fill(const mc_weight_tensor *tensor, void *out) {
    const mc_published *m = tensor->made->from;
    filling f = {.tensor = tensor, .out = out, .rows = m->matrices * m->out};
    mc_pool *pool = NULL;
    if (tensor->made->same) { /* it is unaligned where it lies */
        memcpy(out, tensor->made->same, tensor->bytes);
        return MICA_OK;
    }
    f.task_rows = 1 + f.rows / TASKS;
    if (f.rows * m->in >= PARALLEL) MC_TRY(mc_pool_open(mc_cpu_count(), &pool));
    mica_status status = fill(&f, pool);
    mc_pool_close(&pool);
    return status;
}

const mc_weight_tensor *mc_made_source(const mc_weight_tensor *t, size_t i) {
    for (int part = 0; t->made && part < MC_PARTS; part++)
        if (t->made->from->part[part] && i-- == 0) return t->made->from->part[part];
    return NULL;
}

bool mc_made_describe(const mc_weight_tensor *t, mc_made_info *info) {
    const mc_published *m = t->from;
    if (!m) return false;
    *info = (mc_made_info){m->kind->what, m->quant, m->dtype, m->exact, m->bytes, m->made};
    return true;
}
