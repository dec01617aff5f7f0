/* Windows along one axis of x, [before, length, after], as f32 or 64-bit integers. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "graph/window.h"

#define WIDE_TAPS 32
#define WIDE_RESULTS 16

typedef struct work {
    const mc_call *call;
    mc_window window;
    mica_window_kind kind;
    int64_t before, after, count; /* count: of windows */
    bool floats, wide;            /* wide: f32, and windows have few taps of many results */
    bool bytes;                   /* the largest or smallest of bytes, many results at once */
    const float *f32;             /* x, dense */
    const int64_t *i64;
    void *copy; /* where it is made dense */
} work;

/* ---- x as dense f32 or i64 ---- */

static void widen_range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    mc_block block;
    for (int64_t at = begin; at < end; at += MC_BLOCK) {
        int64_t n = mc_min(end - at, MC_BLOCK);
        const mc_operand *x = &w->call->in[0];
        if (w->floats) {
            const float *from = mc_block_f32(x, at, n, &block);
            for (int64_t i = 0; i < n; i++)
                ((float *)w->copy)[at + i] = from[i];
        } else {
            const int64_t *from = mc_block_i64(x, at, n, &block);
            for (int64_t i = 0; i < n; i++)
                ((int64_t *)w->copy)[at + i] = from[i];
        }
    }
}

static mica_status make_dense(work *w) {
    const mc_operand *x = &w->call->in[0];
    mica_dtype own = w->floats ? MICA_F32 : MICA_I64;
    int64_t n = mc_layout_size(x->layout);
    w->f32 = x->data;
    w->i64 = x->data;
    if (w->bytes || (x->layout->dtype == own && mc_layout_is_dense(x->layout)) || n == 0)
        return MICA_OK;
    w->copy = mc_run_scratch(w->call->run, (size_t)n * mica_dtype_bytes(own));
    if (!w->copy) return MICA_ENOMEM;
    mc_cpu_for(w->call, n, MC_SMALL_WORK, widen_range, w);
    w->f32 = w->copy;
    w->i64 = w->copy;
    return MICA_OK;
}

/* ---- a block of results ---- */

/* COMBINE(name, type, expression of a, the result so far, and b): the elements of x that the tap of
 * n results is, `stride` apart. */
#define COMBINE(name, type, value)                                          \
    static void name(type *sum, const type *x, int64_t stride, int64_t n) { \
        for (int64_t i = 0; i < n; i++) {                                   \
            type a = sum[i], b = x[i * stride];                             \
            sum[i] = (value);                                               \
        }                                                                   \
    }
COMBINE(max_f32, float, a > b || a != a ? a : b)
COMBINE(min_f32, float, a < b || a != a ? a : b)
COMBINE(sum_f32, float, a + b)
COMBINE(prod_f32, float, a *b)
COMBINE(max_i64, int64_t, a > b ? a : b)
COMBINE(min_i64, int64_t, a < b ? a : b)
COMBINE(sum_i64, int64_t, (int64_t)((uint64_t)a + (uint64_t)b))
COMBINE(prod_i64, int64_t, (int64_t)((uint64_t)a *(uint64_t)b))
COMBINE(max_u64, int64_t, (uint64_t)a > (uint64_t)b ? a : b)
COMBINE(min_u64, int64_t, (uint64_t)a < (uint64_t)b ? a : b)

static const float neutral_f32[] = {[MICA_WINDOW_MAX] = -INFINITY,
                                    [MICA_WINDOW_MIN] = INFINITY,
                                    [MICA_WINDOW_SUM] = 0,
                                    [MICA_WINDOW_PROD] = 1};

static int64_t int_neutral(mica_window_kind kind, mica_dtype dtype) {
    if (kind == MICA_WINDOW_SUM) return 0;
    if (kind == MICA_WINDOW_PROD) return 1;
    int bits = dtype == MICA_BOOL ? 1 : 8 * (int)mica_dtype_bytes(dtype);
    bool has_sign = mica_dtype_is_signed(dtype), largest = kind == MICA_WINDOW_MAX;
    uint64_t all = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (!has_sign) return largest ? 0 : (int64_t)all;
    return largest ? -(int64_t)(all >> 1) - 1 : (int64_t)(all >> 1);
}

/* A tap of n results, of which the first is number `skip` of the block. */
static void combine(const work *w, int64_t at, int64_t step, int64_t n, mc_block *sum,
                    int64_t skip) {
    static void (*const floats[])(float *, const float *, int64_t,
                                  int64_t) = {[MICA_WINDOW_MAX] = max_f32,
                                              [MICA_WINDOW_MIN] = min_f32,
                                              [MICA_WINDOW_SUM] = sum_f32,
                                              [MICA_WINDOW_PROD] = prod_f32};
    static void (*const ints[])(int64_t *, const int64_t *, int64_t,
                                int64_t) = {[MICA_WINDOW_MAX] = max_i64,
                                            [MICA_WINDOW_MIN] = min_i64,
                                            [MICA_WINDOW_SUM] = sum_i64,
                                            [MICA_WINDOW_PROD] = prod_i64};
    bool u64 = w->call->in[0].layout->dtype == MICA_U64;
    if (w->floats)
        floats[w->kind](sum->as.f32 + skip, w->f32 + at, step, n);
    else if (u64 && w->kind == MICA_WINDOW_MAX)
        max_u64(sum->as.i64 + skip, w->i64 + at, step, n);
    else if (u64 && w->kind == MICA_WINDOW_MIN)
        min_u64(sum->as.i64 + skip, w->i64 + at, step, n);
    else
        ints[w->kind](sum->as.i64 + skip, w->i64 + at, step, n);
}

static void begin_block(const work *w, int64_t n, mc_block *sum) {
    int64_t start = int_neutral(w->kind, w->call->in[0].layout->dtype);
    for (int64_t i = 0; i < n; i++) {
        if (w->floats)
            sum->as.f32[i] = neutral_f32[w->kind];
        else
            sum->as.i64[i] = start;
    }
}

static void end_block(const work *w, int64_t at, int64_t n, const mc_block *sum) {
    if (w->floats)
        mc_block_put_f32(&w->call->out, at, n, sum->as.f32);
    else
        mc_block_put_i64(&w->call->out, at, n, sum->as.i64);
}

/* The element of x that a tap of a window is; -1: none. */
static int64_t element_at(const mc_window *w, int64_t window, int64_t tap) {
    int64_t at = window * w->stride + tap * w->dilation - w->lo;
    if (at < 0 || at % w->base != 0) return -1;
    return at / w->base < w->length ? at / w->base : -1;
}

/* The `after` results of one window of dense f32, as one loop over its taps. */
static void run_wide(const work *w, int64_t outer, int64_t window) {
    static const mk_step_op ops[] = {[MICA_WINDOW_MAX] = MK_STEP_maximum_array,
                                     [MICA_WINDOW_MIN] = MK_STEP_minimum_array,
                                     [MICA_WINDOW_SUM] = MK_STEP_add_array,
                                     [MICA_WINDOW_PROD] = MK_STEP_multiply_array};
    mk_step steps[WIDE_TAPS + 2] = {{.op = MK_STEP_load_number, .x = &neutral_f32[w->kind]}};
    int n = 1;
    for (int64_t tap = 0; tap < w->window.size; tap++) {
        int64_t at = element_at(&w->window, window, tap);
        if (at < 0) continue;
        const float *x = w->f32 + (outer * w->window.length + at) * w->after;
        steps[n++] = (mk_step){.op = ops[w->kind], .x = x};
    }
    float *y = (float *)w->call->out.data + (outer * w->count + window) * w->after;
    steps[n++] = (mk_step){.op = MK_STEP_store, .y = y};
    mc_cpu_of(w->call)->kern->elem_steps(0, w->after, steps, n);
}

#define LARGEST(name, type, op)                           \
    static void name(void *y, const void *x, int64_t n) { \
        type *restrict to = y;                            \
        const type *restrict from = x;                    \
        for (int64_t i = 0; i < n; i++)                   \
            to[i] = to[i] op from[i] ? to[i] : from[i];   \
    }
LARGEST(max_u8, uint8_t, >)
LARGEST(min_u8, uint8_t, <)
LARGEST(max_i8, int8_t, >)
LARGEST(min_i8, int8_t, <)

/* The same of dense bytes, which are not widened. */
static void run_bytes(const work *w, int64_t outer, int64_t window) {
    static void (*const fns[2][2])(void *, const void *, int64_t) = {{max_u8, max_i8},
                                                                     {min_u8, min_i8}};
    const mica_dtype dtype = w->call->in[0].layout->dtype;
    const uint8_t *x = w->call->in[0].data;
    uint8_t *y = (uint8_t *)w->call->out.data + (outer * w->count + window) * w->after;
    memset(y, (uint8_t)int_neutral(w->kind, dtype), (size_t)w->after);
    for (int64_t tap = 0; tap < w->window.size; tap++) {
        int64_t at = element_at(&w->window, window, tap);
        if (at >= 0)
            fns[w->kind == MICA_WINDOW_MIN][dtype == MICA_I8](
                y, x + (outer * w->window.length + at) * w->after, w->after);
    }
}

/* The `after` results of one window, in blocks. */
static void run_window(const work *w, int64_t outer, int64_t window) {
    mc_block sum;
    if (w->wide || w->bytes) {
        (w->wide ? run_wide : run_bytes)(w, outer, window);
        return;
    }
    for (int64_t first = 0; first < w->after; first += MC_BLOCK) {
        int64_t n = mc_min(w->after - first, MC_BLOCK);
        begin_block(w, n, &sum);
        for (int64_t tap = 0; tap < w->window.size; tap++) {
            int64_t at = element_at(&w->window, window, tap);
            if (at >= 0)
                combine(w, (outer * w->window.length + at) * w->after + first, 1, n, &sum, 0);
        }
        end_block(w, (outer * w->count + window) * w->after + first, n, &sum);
    }
}

/* The windows of a line of x, after 1, without a dilated base, in blocks. */
static void run_line(const work *w, int64_t outer) {
    const mc_window *d = &w->window;
    mc_block sum;
    for (int64_t first = 0; first < w->count; first += MC_BLOCK) {
        int64_t n = mc_min(w->count - first, MC_BLOCK);
        begin_block(w, n, &sum);
        for (int64_t tap = 0; tap < d->size; tap++) {
            int64_t from = first * d->stride + tap * d->dilation - d->lo;
            int64_t skip = from < 0 ? (-from + d->stride - 1) / d->stride : 0;
            int64_t end = d->length > from ? (d->length - from + d->stride - 1) / d->stride : 0;
            end = mc_min(end, n);
            if (skip < end)
                combine(w, outer * d->length + from + skip * d->stride, d->stride, end - skip, &sum,
                        skip);
        }
        end_block(w, outer * w->count + first, n, &sum);
    }
}

static void run_lines(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    for (int64_t outer = begin; outer < end; outer++)
        run_line(context, outer);
}

static void run_windows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    for (int64_t i = begin; i < end; i++)
        run_window(w, i / w->count, i % w->count);
}

mica_status mc_eval_reduce_window(const mc_call *call) {
    const mc_attr_window *a = call->attr;
    const mc_layout *x = call->in[0].layout;
    work w = {.call = call,
              .window = mc_window_of(a, x),
              .before = 1,
              .after = 1,
              .kind = (mica_window_kind)a->kind,
              .floats = mica_dtype_is_float(x->dtype)};
    w.count = mc_window_count(&w.window);
    for (int k = 0; k < x->ndim; k++)
        if (k != a->axis) *(k < a->axis ? &w.before : &w.after) *= x->shape[k];
    if (w.before * w.after * w.count == 0) return MICA_OK;
    w.wide = call->out.layout->dtype == MICA_F32 && w.window.size <= WIDE_TAPS &&
             w.after >= WIDE_RESULTS;
    w.bytes = (x->dtype == MICA_U8 || x->dtype == MICA_I8) && w.after >= WIDE_RESULTS &&
              (w.kind == MICA_WINDOW_MAX || w.kind == MICA_WINDOW_MIN) && mc_layout_is_dense(x);
    MC_TRY(make_dense(&w));
    if (mc_run_is_measured(call->run)) return MICA_OK;
    if (w.after == 1 && w.window.base == 1)
        mc_cpu_for(call, w.before, mc_grain(w.count * w.window.size), run_lines, &w);
    else
        mc_cpu_for(call, w.before * w.count, mc_grain(w.after * w.window.size), run_windows, &w);
    return MICA_OK;
}
