/* Rotary position embedding. Angles are computed and reduced to [-pi, pi] in f64, so that position
 * 131,072 is rotated as exactly as position 1. A table of cosines and sines is made once for all
 * heads and all layers of a run. */
#include <math.h>

#include "cpu/eval.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "graph/attr.h"

#define TWO_PI 6.283185307179586476925

typedef struct rope_work {
    const mk_kernels *kern;
    const mc_call *call;
    const mc_attr_rope *attr;
    double *rates;     /* [dims / 2]: angle for each position, in units of 2 pi */
    float *table;      /* [tables][L][2][dims / 2]: cosines, sines */
    float *scratch;    /* [workers][2 D] */
    int64_t len, half; /* L, dims / 2 */
    int64_t d;
    int64_t tables; /* 1, or one for each row of axis 0 */
} rope_work;

static int64_t offset_of(const mc_operand *offset, int64_t row) {
    const int32_t *data = offset->data;
    return offset->layout->ndim == 0 ? data[0] : data[row * offset->layout->strides[0]];
}

static void fill_rates(const rope_work *w) {
    const mc_operand *freqs = w->call->n_in > 2 ? &w->call->in[2] : NULL;
    if (freqs && freqs->data) {
        const float *data = freqs->data;
        for (int64_t i = 0; i < w->half; i++)
            w->rates[i] = w->attr->scale / (double)data[i * freqs->layout->strides[0]];
        return;
    }
    /* Powers by repeated multiplication: the error is at most half * 2^-53. */
    double step = pow(w->attr->base, -1.0 / (double)w->half);
    double rate = w->attr->scale;
    for (int64_t i = 0; i < w->half; i++, rate *= step)
        w->rates[i] = rate;
}

/* Fills positions begin .. end - 1, counted over all tables. */
static void fill_table(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const rope_work *w = context;
    for (int64_t row = begin; row < end; row++) {
        double position = (double)(offset_of(&w->call->in[1], row / w->len) + row % w->len);
        float *cosines = w->table + row * 2 * w->half;
        for (int64_t i = 0; i < w->half; i++) {
            double angle = position * w->rates[i];
            float rest = (float)(angle - TWO_PI * rint(angle * (1.0 / TWO_PI)));
            cosines[i] = cosf(rest);
            cosines[w->half + i] = sinf(rest);
        }
    }
}

/* Rotates x [D] to y [D]. */
static void apply_rope(const rope_work *w, const float *cosines, const float *x, float *y) {
    int64_t half = w->half;
    if (w->attr->traditional == 0) {
        w->kern->rope(half, cosines, x, y);
    } else {
        const float *sines = cosines + half;
        for (int64_t i = 0; i < half; i++) {
            float a = x[2 * i], b = x[2 * i + 1];
            y[2 * i] = a * cosines[i] - b * sines[i];
            y[2 * i + 1] = a * sines[i] + b * cosines[i];
        }
    }
    for (int64_t i = 2 * half; i < w->d; i++)
        y[i] = x[i];
}

static void transpose_rows(void *context, int64_t begin, int64_t end, int worker) {
    const rope_work *w = context;
    const mc_operand *x = &w->call->in[0], *out = &w->call->out;
    int last = x->layout->ndim - 1;
    float *from = w->scratch + worker * 2 * w->d, *to = from + w->d;
    mc_row_walk walk = mc_row_walk_begin(x->layout, last, begin);
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&walk)) {
        int64_t table = w->tables == 1 ? 0 : walk.coords[0], position = walk.coords[last - 1];
        mc_row_walk_fetch(&walk, x->data, w->d);
        const float *cosines = w->table + (table * w->len + position) * 2 * w->half;
        const float *row = mc_row_see(w->kern, x->layout->dtype, x->data, walk.offset,
                                      x->layout->strides[last], w->d, from);
        float *y = mc_row_aim(out->layout->dtype, out->data, r * w->d, to);
        if (y == row) y = to; /* the result has x's memory */
        apply_rope(w, cosines, row, y);
        mc_narrow(w->kern, out->layout->dtype, y, w->d, out->data, r * w->d);
    }
}

/* Bytes of the table's key: its length, the positions at which it begins, the rates. Memory behind
 * w holds the key, then rows, then the table if the run cannot keep it. */
static size_t key_bytes_of(const rope_work *w) {
    return (size_t)(2 + w->tables) * sizeof(int64_t) + (size_t)w->half * sizeof *w->rates;
}

static size_t row_bytes_of(const rope_work *w) {
    return (size_t)(mc_cpu_of(w->call)->threads * 2 * w->d) * sizeof *w->scratch;
}

static size_t table_bytes_of(const rope_work *w) {
    return (size_t)(w->tables * w->len * 2 * w->half) * sizeof *w->table;
}

static void prepare_table(rope_work *w) {
    const mc_call *call = w->call;
    size_t key_bytes = key_bytes_of(w), table_bytes = table_bytes_of(w);
    int64_t *key = (int64_t *)(void *)(w + 1);
    key[0] = w->len;
    key[1] = w->half;
    for (int64_t i = 0; i < w->tables; i++)
        key[2 + i] = offset_of(&call->in[1], i);
    w->rates = (double *)(key + 2 + w->tables);
    fill_rates(w);
    w->scratch = (float *)(w->rates + w->half);
    bool found;
    w->table = mc_run_keep(call->run, key, key_bytes, table_bytes, &found);
    if (found) return;
    if (!w->table) w->table = (float *)(void *)((char *)w->scratch + row_bytes_of(w));
    mc_cpu_for(call, w->tables * w->len, mc_grain(100 * w->half), fill_table, w);
}

/* Tables of one length and one op's attributes count as one: positions are not known yet. */
static void measure_table(const rope_work *w) {
    bool found;
    size_t bytes = table_bytes_of(w) + key_bytes_of(w) - sizeof *w->attr;
    (void)mc_run_keep(w->call->run, w->attr, sizeof *w->attr, bytes, &found);
}

mica_status mc_stage_rope(const mc_call *call, mc_stage *stage) {
    const mc_layout *x = call->in[0].layout;
    const mc_cpu *cpu = mc_cpu_of(call);
    rope_work w = {.kern = cpu->kern, .call = call, .attr = call->attr};
    w.len = x->shape[x->ndim - 2];
    w.d = x->shape[x->ndim - 1];
    w.half = w.attr->dims / 2;
    w.tables = call->in[1].layout->ndim == 0 ? 1 : x->shape[0];
    int64_t rows = mc_row_count(x, x->ndim - 1);
    rope_work *work =
        mc_stage_memory(stage, sizeof w + key_bytes_of(&w) + row_bytes_of(&w) + table_bytes_of(&w));
    if (!work) {
        if (mc_run_is_measured(call->run)) measure_table(&w);
        return MICA_OK;
    }
    *work = w;
    prepare_table(work);
    mc_stage_set(stage, transpose_rows, work, rows, mc_grain(4 * w.d));
    return MICA_OK;
}
