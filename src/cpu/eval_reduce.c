/* Reductions. Each result comes from one row of elements, whatever axes these are on (mc_rows_of).
 * A row is read a block at a time. Threads share rows; a row is split only to find its largest or
 * smallest element. So results do not depend on the number of threads. */
#include <math.h>

#include "base/integer.h"
#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/index.h"
#include "cpu/kern/vmath.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "graph/attr.h"

typedef struct work work;

/* Writes the result of row `row` to out. */
typedef void (*row_fn)(const work *w, int64_t row);

struct work {
    const mc_call *call;
    mc_operand x; /* the operand, with the reduced axes last */
    mc_layout layout;
    int64_t length; /* elements in a row */
    bool min;       /* min, argmin, all instead of max, argmax, any */
    row_fn fn;
};

#define THREAD_ELEMENTS 16384 /* fewer are not worth another thread */

static void range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    for (int64_t row = begin; row < end; row++)
        w->fn(w, row);
}

static mica_status run_rows(const mc_call *call, int64_t mask, bool min, row_fn fn) {
    work w = {.call = call, .min = min, .fn = fn};
    int64_t rows = mc_rows_of(&call->in[0], mask, &w.layout, &w.x, &w.length);
    mc_cpu_for(call, rows, THREAD_ELEMENTS / (w.length + 1) + 1, range, &w);
    return MICA_OK;
}

static mica_status reduce_rows(const mc_call *call, bool min, row_fn fn) {
    const mc_attr_reduce *attr = call->attr;
    return run_rows(call, attr->axes, min, fn);
}

/* For each block of the row: `at` is its first element, n its length. */
#define FOR_BLOCKS(w) \
    for (int64_t at = 0, n = 0; at < (w)->length && ((n = block_at(w, at)), true); at += MC_BLOCK)
static inline int64_t block_at(const work *w, int64_t at) {
    return w->length - at < MC_BLOCK ? w->length - at : MC_BLOCK;
}

static bool is_float(const work *w) {
    return mica_dtype_is_float(w->layout.dtype);
}

static void put_f32(const work *w, int64_t row, float value) {
    mc_block_put_f32(&w->call->out, row, 1, &value);
}

static void put_i64(const work *w, int64_t row, int64_t value) {
    mc_block_put_i64(&w->call->out, row, 1, &value);
}

/* ---- sums and products ---- */

#define LANES 16 /* partial results: vectorises, and fixes the order of additions */

/* In f32 by lanes within a block, in double over blocks. */
static double sum_block(int64_t n, const float *x) {
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += x[i + k];
    for (int k = 0; i < n; i++, k++)
        lane[k] += x[i];
    double sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += (double)lane[k];
    return sum;
}

static void sum_row(const work *w, int64_t row) {
    mc_block block;
    if (is_float(w)) {
        double sum = 0;
        FOR_BLOCKS(w) sum += sum_block(n, mc_block_f32(&w->x, row * w->length + at, n, &block));
        put_f32(w, row, (float)sum);
        return;
    }
    uint64_t sum = 0;
    FOR_BLOCKS(w) {
        const int64_t *x = mc_block_i64(&w->x, row * w->length + at, n, &block);
        for (int64_t i = 0; i < n; i++)
            sum += (uint64_t)x[i];
    }
    put_i64(w, row, (int64_t)sum);
}

static void prod_row(const work *w, int64_t row) {
    mc_block block;
    if (is_float(w)) {
        double prod = 1;
        FOR_BLOCKS(w) {
            const float *x = mc_block_f32(&w->x, row * w->length + at, n, &block);
            for (int64_t i = 0; i < n; i++)
                prod *= (double)x[i];
        }
        put_f32(w, row, (float)prod);
        return;
    }
    uint64_t prod = 1;
    FOR_BLOCKS(w) {
        const int64_t *x = mc_block_i64(&w->x, row * w->length + at, n, &block);
        for (int64_t i = 0; i < n; i++)
            prod *= (uint64_t)x[i];
    }
    put_i64(w, row, (int64_t)prod);
}

/* ---- sums of columns ---- */

#define COLUMNS 64 /* at a time: their lanes stay in the nearest cache */

/* Rows that lie beside each other in memory: all their first elements, then their second ones. */
typedef struct columns {
    work w;
    mc_layout reduced; /* the axes that are summed over */
    int kept;          /* axes */
    int64_t beside;    /* rows that are neighbours */
} columns;

static void add_row(int64_t n, const float *restrict x, float *restrict y) {
    for (int64_t c = 0; c < n; c++)
        y[c] += x[c];
}

/* The bits of sum_row, of `count` <= COLUMNS neighbours at once. */
static void sum_neighbours(const columns *s, int64_t row, int64_t count) {
    const work *w = &s->w;
    const float *x = (const float *)w->x.data + mc_row_offset(&w->layout, s->kept, row);
    mc_row_walk walk = mc_row_walk_begin(&s->reduced, s->reduced.ndim, 0);
    double sums[COLUMNS] = {0};
    float results[COLUMNS];
    FOR_BLOCKS(w) {
        float lanes[LANES][COLUMNS] = {{0}};
        double block[COLUMNS] = {0};
        for (int64_t i = 0; i < n; i++, mc_row_walk_next(&walk))
            add_row(count, x + walk.offset, lanes[i % LANES]);
        for (int k = 0; k < LANES; k++)
            for (int64_t c = 0; c < count; c++)
                block[c] += (double)lanes[k][c];
        for (int64_t c = 0; c < count; c++)
            sums[c] += block[c];
    }
    for (int64_t c = 0; c < count; c++)
        results[c] = (float)sums[c];
    mc_block_put_f32(&w->call->out, row, count, results);
}

static void sum_columns(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const columns *s = context;
    for (int64_t row = begin, count; row < end; row += count) {
        count = mc_min(mc_min(COLUMNS, end - row), s->beside - row % s->beside);
        sum_neighbours(s, row, count);
    }
}

/* Whether rows of f32 lie so. */
static bool has_columns(const mc_call *call, columns *s) {
    const mc_attr_reduce *attr = call->attr;
    work *w = &s->w;
    *w = (work){.call = call};
    int64_t rows = mc_rows_of(&call->in[0], attr->axes, &w->layout, &w->x, &w->length);
    const mc_layout *l = &w->layout;
    if (l->dtype != MICA_F32 || rows == 0 || w->length < 2) return false;
    s->kept = 0;
    for (int k = 0; k < l->ndim; k++)
        s->kept += (attr->axes >> k & 1) == 0;
    s->reduced = *l;
    s->reduced.ndim = l->ndim - s->kept;
    for (int k = s->kept; k < l->ndim; k++) {
        s->reduced.shape[k - s->kept] = l->shape[k];
        s->reduced.strides[k - s->kept] = l->strides[k];
    }
    int last = s->kept - 1;
    s->beside = last < 0 || l->strides[last] != 1 ? 1 : l->shape[last];
    return s->beside >= LANES;
}

mica_status mc_eval_sum(const mc_call *call) {
    columns s;
    if (!has_columns(call, &s)) return reduce_rows(call, false, sum_row);
    int64_t rows = mc_layout_size(call->out.layout), grain = THREAD_ELEMENTS / (s.w.length + 1) + 1;
    mc_cpu_for(call, rows, mc_max(grain, LANES), sum_columns, &s);
    return MICA_OK;
}
mica_status mc_eval_prod(const mc_call *call) {
    return reduce_rows(call, false, prod_row);
}

/* ---- largest and smallest ---- */

/* The largest of x, ignoring NaN; -infinity if there is no number. */
static float largest_number(const work *w, int64_t n, const float *x) {
    float max = mc_cpu_of(w->call)->kern->largest(n, x);
    if (max == max) return max;
    max = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

/* The smallest of x and `min`, ignoring NaN; by lanes, as sum_block. */
static float min_block(int64_t n, const float *x, float min) {
    float lane[LANES];
    for (int k = 0; k < LANES; k++)
        lane[k] = min;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = x[i + k] < lane[k] ? x[i + k] : lane[k];
    for (int k = 0; i < n; i++, k++)
        lane[k] = x[i] < lane[k] ? x[i] : lane[k];
    for (int k = 0; k < LANES; k++)
        min = lane[k] < min ? lane[k] : min;
    return min;
}

static bool has_nan(int64_t n, const float *x) {
    int found = 0;
    for (int64_t i = 0; i < n; i++)
        found |= x[i] != x[i];
    return found != 0;
}

/* Whether a is better than b: larger, or smaller for min. u64 compares as unsigned. */
static bool better_int(const work *w, int64_t a, int64_t b) {
    if (w->layout.dtype == MICA_U64)
        return w->min ? (uint64_t)a < (uint64_t)b : (uint64_t)a > (uint64_t)b;
    return w->min ? a < b : a > b;
}

/* The best element among some of a row. */
typedef struct best {
    float number; /* for floats, ignoring NaN */
    int64_t integer;
    int64_t index; /* of the first best element, if searched for; -1: all are NaN */
    bool nan;      /* one is NaN, if only the number is searched for */
} best;

static best best_number(const work *w, int64_t row, int64_t begin, int64_t end) {
    mc_block block;
    best b = {.number = w->min ? INFINITY : -INFINITY};
    for (int64_t at = begin; at < end; at += MC_BLOCK) {
        int64_t n = mc_min(MC_BLOCK, end - at);
        if (is_float(w)) {
            const float *x = mc_block_f32(&w->x, row * w->length + at, n, &block);
            float found =
                w->min ? min_block(n, x, b.number) : mc_cpu_of(w->call)->kern->largest(n, x);
            b.nan = b.nan || (w->min ? has_nan(n, x) : found != found);
            b.number = found > b.number || w->min ? found : b.number;
        } else {
            const int64_t *x = mc_block_i64(&w->x, row * w->length + at, n, &block);
            if (at == begin) b.integer = x[0];
            for (int64_t i = 0; i < n; i++)
                if (better_int(w, x[i], b.integer)) b.integer = x[i];
        }
    }
    return b;
}

/* The index is searched for only in blocks that hold a better value than all before. */
static best best_place(const work *w, int64_t row, int64_t begin, int64_t end) {
    mc_block block;
    best b = {.number = w->min ? INFINITY : -INFINITY, .index = -1};
    for (int64_t at = begin; at < end; at += MC_BLOCK) {
        int64_t n = mc_min(MC_BLOCK, end - at);
        if (is_float(w)) {
            const float *x = mc_block_f32(&w->x, row * w->length + at, n, &block);
            float found = w->min ? min_block(n, x, b.number) : largest_number(w, n, x);
            if (b.index >= 0 && !(w->min ? found < b.number : found > b.number)) continue;
            for (int64_t i = 0; i < n; i++) {
                if (x[i] != found) continue; /* no match: the block has only NaN */
                b.index = at + i;
                break;
            }
            b.number = found;
        } else {
            const int64_t *x = mc_block_i64(&w->x, row * w->length + at, n, &block);
            for (int64_t i = 0; i < n; i++) {
                if (b.index >= 0 && !better_int(w, x[i], b.integer)) continue;
                b.index = at + i;
                b.integer = x[i];
            }
        }
    }
    return b;
}

/* The better of two, `before` if they are equal. */
static best better_of(const work *w, const best *before, const best *behind) {
    best b = *before;
    bool better = w->min ? behind->number < b.number : behind->number > b.number;
    if (!is_float(w)) better = better_int(w, behind->integer, b.integer);
    if (b.index < 0 || (behind->index >= 0 && better)) b = *behind;
    b.nan = before->nan || behind->nan;
    return b;
}

/* Finds the best among elements begin .. end - 1 of a row. */
typedef best (*find_fn)(const work *w, int64_t row, int64_t begin, int64_t end);
/* Writes the result of a row. */
typedef void (*put_fn)(const work *w, int64_t row, const best *b);

typedef struct search {
    work w;
    find_fn find;
    put_fn put;
    int64_t parts; /* parts of a row */
    best *found;   /* [rows, parts], if there is more than one part */
} search;

/* A part begins with a block, so that of zeros of both signs always the same one is found. */
static void search_range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const search *s = context;
    int64_t length = s->w.length, blocks = (length + MC_BLOCK - 1) / MC_BLOCK;
    for (int64_t task = begin; task < end; task++) {
        int64_t row = task / s->parts, part = task % s->parts;
        int64_t from = blocks * part / s->parts * MC_BLOCK;
        int64_t to = mc_min(length, blocks * (part + 1) / s->parts * MC_BLOCK);
        best b = s->find(&s->w, row, from, to);
        if (s->parts == 1)
            s->put(&s->w, row, &b);
        else
            s->found[task] = b;
    }
}

/* Few long rows are split: the best element does not depend on the split. */
static mica_status search_rows(const mc_call *call, bool min, find_fn find, put_fn put) {
    const mc_attr_reduce *attr = call->attr;
    search s = {.w = {.call = call, .min = min}, .find = find, .put = put, .parts = 1};
    int64_t rows = mc_rows_of(&call->in[0], attr->axes, &s.w.layout, &s.w.x, &s.w.length);
    int64_t threads = mc_cpu_of(call)->threads;
    if (rows > 0 && rows < threads && s.w.length >= 2 * THREAD_ELEMENTS) {
        s.parts = mc_min(threads, s.w.length / THREAD_ELEMENTS);
        s.found = mc_run_scratch(call->run, (size_t)(rows * s.parts) * sizeof *s.found);
        if (!s.found) return MICA_ENOMEM;
    }
    if (mc_run_is_measured(call->run)) return MICA_OK;
    int64_t grain = THREAD_ELEMENTS / (s.w.length / s.parts + 1) + 1;
    mc_cpu_for(call, rows * s.parts, grain, search_range, &s);
    for (int64_t row = 0; row < rows && s.parts > 1; row++) {
        const best *found = s.found + row * s.parts;
        best b = found[0];
        for (int64_t part = 1; part < s.parts; part++)
            b = better_of(&s.w, &b, &found[part]);
        put(&s.w, row, &b);
    }
    return MICA_OK;
}

static void put_number(const work *w, int64_t row, const best *b) {
    if (is_float(w))
        put_f32(w, row, b->nan ? NAN : b->number);
    else
        put_i64(w, row, b->integer);
}

/* NaN is never the best; a row of NaN gives 0. */
static void put_index(const work *w, int64_t row, const best *b) {
    put_i64(w, row, b->index < 0 ? 0 : b->index);
}

mica_status mc_eval_max(const mc_call *call) {
    return search_rows(call, false, best_number, put_number);
}
mica_status mc_eval_min(const mc_call *call) {
    return search_rows(call, true, best_number, put_number);
}
mica_status mc_eval_argmax(const mc_call *call) {
    return search_rows(call, false, best_place, put_index);
}
mica_status mc_eval_argmin(const mc_call *call) {
    return search_rows(call, true, best_place, put_index);
}

/* ---- all, any ---- */

static void truth_row(const work *w, int64_t row) {
    mc_block block;
    bool found = false; /* a zero for all, a nonzero for any */
    FOR_BLOCKS(w) {
        if (is_float(w)) {
            const float *x = mc_block_f32(&w->x, row * w->length + at, n, &block);
            for (int64_t i = 0; i < n; i++)
                found = found || (x[i] == 0.0f) == w->min;
        } else {
            const int64_t *x = mc_block_i64(&w->x, row * w->length + at, n, &block);
            for (int64_t i = 0; i < n; i++)
                found = found || (x[i] == 0) == w->min;
        }
        if (found) break;
    }
    put_i64(w, row, found != w->min);
}

mica_status mc_eval_all(const mc_call *call) {
    return reduce_rows(call, true, truth_row);
}
mica_status mc_eval_any(const mc_call *call) {
    return reduce_rows(call, false, truth_row);
}

/* ---- logsumexp and softmax ---- */

/* y = exp(x - shift); returns the sum. y may be x. */
static double exp_block(const work *w, int64_t n, const float *x, float shift, float *y) {
    const mk_step steps[] = {{.op = MK_STEP_load, .x = x},
                             {.op = MK_STEP_subtract_number, .x = &shift},
                             {.op = MK_STEP_exp},
                             {.op = MK_STEP_store, .y = y}};
    mc_cpu_of(w->call)->kern->elem_steps(0, n, steps, 4);
    return sum_block(n, y);
}

static void scale_block(const work *w, int64_t n, float scale, float *y) {
    const mk_step steps[] = {{.op = MK_STEP_load, .x = y},
                             {.op = MK_STEP_multiply_number, .x = &scale},
                             {.op = MK_STEP_store, .y = y}};
    mc_cpu_of(w->call)->kern->elem_steps(0, n, steps, 3);
}

/* The largest of a row, ignoring NaN; -infinity if there is no number. */
static float row_max(const work *w, int64_t row, mc_block *block) {
    float max = -INFINITY;
    FOR_BLOCKS(w) {
        float found = largest_number(w, n, mc_block_f32(&w->x, row * w->length + at, n, block));
        max = found > max ? found : max;
    }
    return max;
}

static double row_logsumexp(const work *w, int64_t row) {
    mc_block block;
    float max = row_max(w, row, &block), shift = isinf(max) ? 0.0f : max;
    double sum = 0;
    FOR_BLOCKS(w) {
        const float *x = mc_block_f32(&w->x, row * w->length + at, n, &block);
        sum += exp_block(w, n, x, shift, block.as.f32);
    }
    return log(sum) + (double)shift;
}

static void logsumexp_row(const work *w, int64_t row) {
    put_f32(w, row, (float)row_logsumexp(w, row));
}

mica_status mc_eval_logsumexp(const mc_call *call) {
    return reduce_rows(call, false, logsumexp_row);
}

/* Writes factor * softmax of a row. A row of -infinity gives NaN, as does a row with infinity or
 * NaN. f32 results are written, then scaled. For f16 and bf16 the exponentials are computed twice
 * instead. Returns by what exp(x - *max) was multiplied. */
static float softmax_times(const work *w, int64_t row, double factor, float *max) {
    const mc_operand *out = &w->call->out;
    bool keep = out->layout->dtype == MICA_F32;
    int64_t first = row * w->length;
    mc_block block;
    *max = row_max(w, row, &block);
    double sum = 0;
    FOR_BLOCKS(w) {
        const float *x = mc_block_f32(&w->x, first + at, n, &block);
        sum += exp_block(w, n, x, *max, keep ? (float *)out->data + first + at : block.as.f32);
    }
    float scale = (float)(factor / sum);
    FOR_BLOCKS(w) {
        float *y = keep ? (float *)out->data + first + at : block.as.f32;
        if (!keep) (void)exp_block(w, n, mc_block_f32(&w->x, first + at, n, &block), *max, y);
        scale_block(w, n, scale, y);
        if (!keep) mc_block_put_f32(out, first + at, n, y);
    }
    return scale;
}

static void softmax_row(const work *w, int64_t row) {
    float max;
    (void)softmax_times(w, row, 1, &max);
}

mica_status mc_eval_softmax(const mc_call *call) {
    int last = call->in[0].layout->ndim - 1;
    return run_rows(call, (int64_t)1 << last, false, softmax_row);
}

/* ---- cross-entropy ---- */

/* A row's target, counted from the front. */
static int64_t target_of(const work *w, int64_t row) {
    mc_block block;
    int64_t at = *mc_block_i64(&w->call->in[1], row, 1, &block);
    return at < 0 ? at + w->length : at;
}

static float logit_of(const work *w, int64_t row, int64_t target) {
    mc_block block;
    return *mc_block_f32(&w->x, row * w->length + target, 1, &block);
}

static void cross_entropy_row(const work *w, int64_t row) {
    put_f32(w, row, (float)(row_logsumexp(w, row) - (double)logit_of(w, row, target_of(w, row))));
}

static void cross_entropy_gradient_row(const work *w, int64_t row) {
    mc_block block;
    float dy = *mc_block_f32(&w->call->in[2], row, 1, &block), max;
    int64_t target = target_of(w, row);
    float logit = logit_of(w, row, target); /* before the result takes its memory */
    float scale = softmax_times(w, row, (double)dy, &max);
    float value = mk_expf(logit - max) * scale - dy;
    mc_block_put_f32(&w->call->out, row * w->length + target, 1, &value);
}

/* errors  MICA_EINVAL a target is out of range */
static mica_status run_losses(const mc_call *call, row_fn fn) {
    const mc_layout *logits = call->in[0].layout, *targets = call->in[1].layout;
    int last = logits->ndim - 1;
    const char *data = call->in[1].data;
    int64_t item = (int64_t)mica_dtype_bytes(targets->dtype), unused;
    mc_walk walk = mc_walk_begin(targets);
    if (mc_layout_size(targets) == 0) return MICA_OK;
    do {
        MC_TRY(mc_index_resolve("cross_entropy", targets->dtype, data + walk.offset * item,
                                logits->shape[last], last, &unused));
    } while (mc_walk_next(&walk));
    return run_rows(call, (int64_t)1 << last, false, fn);
}

mica_status mc_eval_cross_entropy(const mc_call *call) {
    return run_losses(call, cross_entropy_row);
}

mica_status mc_eval_cross_entropy_gradient(const mc_call *call) {
    return run_losses(call, cross_entropy_gradient_row);
}
