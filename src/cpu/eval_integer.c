/* Products of integers: integer_matmul and integer_conv.
 *
 * Rows of x and of w are put into words and panels that the kernels multiply (integer_list.h): w
 * once, if it is a constant, else before all else, or, if there is one block of rows only, some
 * panels at a time in a near cache. A unit of work is a block of rows, which for a convolution are
 * windows that are read where they lie, and a range of columns. Its sums leave scratch with their
 * zero point, scale and bias, and go through the steps behind the op that go element by element
 * (cpu/tail.h). Few rows are multiplied as they are: putting w into panels would take longer. */
#include <string.h>

#include "base/integer.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "cpu/tail.h"
#include "cpu/windows.h"

#define BLOCK_BYTES (128 * 1024) /* of words of x */
#define BLOCK_MAX 200            /* rows */
#define NEAR_BYTES (256 * 1024)  /* of panels that one block meets, which are put together for it */
#define SUM_BYTES ((int64_t)sizeof(int32_t))
#define SUMS_BYTES (24 * 1024) /* of sums that leave the nearest cache together */
#define SUMS_ROWS 24           /* rows of them at least: so often a panel is used */
#define TAPS_ROWS 32      /* windows of channels' own filters, and so many channels, together */
#define TAPS_CHANNELS 192 /* a multiple of 64 */
#define TILE_BYTES (128 * 1024) /* of weights that few rows meet at once */
#define TILE_STEP 12            /* columns: a multiple of what kernels compute at once */
#define LINE_TIMES 8            /* of x: padding on a side, and windows, in copies of it */
#define UNITS_EACH 4            /* units for a thread, at least */
#define FEW_ROWS 16             /* rows that are multiplied as they are */
#define GATHER_BELOW 16         /* channels of a group: windows of fewer are copied */
#define DEPTHWISE_MIN 4         /* channels */

enum { X, W, ZERO, SUMS, SCALE, BIAS };

typedef struct work {
    const mc_call *call;
    const mk_kernels *kern;
    int64_t groups;       /* of channels; elements of a batch */
    int64_t rows, n, k;   /* of a group: rows of x, columns of the result, terms */
    int64_t each;         /* numbers of x that lie together */
    int64_t taps, length; /* of a row as the kernel sees it: k is taps of so many numbers */
    int64_t words;        /* of a tap */
    const uint8_t *x;     /* row r of group g is at g x_group + r x_stride, unless it is a window */
    int64_t x_group, x_stride, x_rows; /* x_rows: of `each` numbers, of all groups */
    int64_t y_group, y_stride;         /* the same of the result */
    const int8_t *w;                   /* [groups, n, k] */
    const float *scale, *bias;         /* NULL: there is none */
    int64_t scale_step, group_step;    /* from a column to the next; from a group */
    int32_t zero;
    int64_t padded;           /* n of `start`: a multiple of MK_PANEL */
    int32_t *start;           /* [groups, padded] what sums of products are added to, or NULL */
    float *columns;           /* [3, groups, n] of mk_int_rounding */
    mk_int_rounding rounding; /* of the first column */
    bool conv, depthwise, few;
    bool gathers, lined;         /* windows are copied; lines of x are, with their padding */
    int64_t line, before, pitch; /* of these: numbers of x, of the padding, from one to the next */
    mc_windows windows;          /* of a convolution */
    int64_t block, blocks, range, ranges, tile;
    int32_t *formed;           /* [x_rows, words] x, unless it is read as it lies */
    const int32_t *panels;     /* of each group; NULL: each unit makes its own */
    int64_t panels_each, near; /* of a group; of a unit at a time */
    mk_taps filters;           /* depthwise */
    void *made;                /* panels or filters, to be filled in this run; NULL: none */
    mc_tail tail;
    char *scratch; /* of each worker: a list of rows, copies of windows as bytes and words, sums */
    size_t worker_bytes, list_bytes, copy_bytes, form_bytes, near_bytes;
} work;

static size_t pad(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static int64_t words_of(const work *w, int64_t n) {
    return (n + w->kern->int_unit - 1) / w->kern->int_unit;
}

/* Whether the bytes of x are the kernel's words. */
static bool is_formed(const work *w) {
    return w->depthwise || w->few || (w->kern->int_unit == 4 && w->each % 4 == 0 && !w->lined);
}

/* ---- what is prepared ---- */

/* Lines of x between their padding. */
static void form_lines(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    for (int64_t r = begin; r < end; r++) {
        uint8_t *to = (uint8_t *)w->formed + r * w->pitch;
        memset(to, (uint8_t)w->zero, (size_t)w->pitch);
        memcpy(to + w->before, w->x + r * w->line, (size_t)w->line);
    }
}

static void form_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    for (int64_t r = begin; r < end; r++)
        w->kern->int_form(w->each, w->x + r * w->each, w->formed + r * w->words);
}

static int64_t panel_words(const work *w) {
    return w->taps * w->words * MK_PANEL;
}

/* Panels [begin, end) of all. */
static void pack_some(const work *w, int64_t begin, int64_t end, int32_t *to) {
    for (int64_t p = begin; p < end; p++, to += panel_words(w)) {
        int64_t first = p % w->panels_each * MK_PANEL, group = p / w->panels_each;
        const int8_t *from = w->w + (group * w->n + first) * w->k;
        w->kern->int_pack(mc_min(MK_PANEL, w->n - first), w->taps, w->length, from, to);
    }
}

static void pack_panels(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    pack_some(w, begin, end, (int32_t *)w->made + begin * panel_words(w));
}

/* ---- units ---- */

/* A row of a list: where a row of x begins, as bytes or as words. */
static const void *row_at(const work *w, int64_t group, int64_t row) {
    if (is_formed(w)) return w->x + group * w->x_group + row * w->x_stride;
    return w->formed + (group * w->rows + row) * w->words;
}

/* The rows of a block, [count, taps]. */
static const void **find_block(const work *w, int64_t group, int64_t first, int64_t count,
                               char *scratch) {
    const void **list = (const void **)(void *)scratch;
    char *copy = scratch + w->list_bytes;
    int32_t *form = (int32_t *)(void *)(copy + w->copy_bytes);
    mc_windows windows = w->windows;
    windows.x += group * windows.bytes;
    if (w->conv && !w->gathers) mc_windows_find(&windows, first, count, list);
    for (int64_t r = 0; w->gathers && r < count; r++, form += w->words) {
        mc_windows_gather(&windows, first + r, copy);
        w->kern->int_form(w->k, (const uint8_t *)copy, form);
        list[r] = form;
    }
    for (int64_t r = 0; !w->conv && r < count; r++)
        list[r] = row_at(w, group, first + r);
    return list;
}

/* Rows [first, first + count) of a group, columns [begin, end), whose sums are there, as bytes. */
static void round_rows(const work *w, int64_t group, int64_t first, int64_t count, int64_t begin,
                       int64_t end, const int32_t *acc, int64_t acc_stride) {
    mk_int_rounding to = w->rounding;
    int64_t at = group * w->group_step + begin;
    uint8_t *y = (uint8_t *)w->tail.rounded + group * w->y_group + first * w->y_stride + begin;
    to.scale += at * to.step;
    if (to.bias) to.bias += at;
    to.factor += at, to.plus += at, to.sure += at;
    w->kern->int_round(count, end - begin, acc, acc_stride, &to, y, w->y_stride);
}

/* The same of one row, count columns from `first` on. */
static void finish_row(const work *w, int64_t group, int64_t row, int64_t first, int64_t count,
                       const int32_t *acc) {
    int64_t to = group * w->y_group + row * w->y_stride + first;
    int64_t at = group * w->group_step + first;
    if (w->scale)
        w->kern->int_scale(count, acc, w->scale + at * w->scale_step, w->scale_step,
                           w->bias ? w->bias + at : NULL, (float *)w->call->out.data + to);
    else
        memcpy((int32_t *)w->call->out.data + to, acc, (size_t)count * sizeof *acc);
}

/* Rows of a group, columns [begin, end), whose sums are there: the op's own result, */
static void put(const work *w, int64_t group, int64_t first, int64_t count, int64_t begin,
                int64_t end, const int32_t *acc, int64_t acc_stride) {
    if (w->tail.rounded)
        round_rows(w, group, first, count, begin, end, acc, acc_stride);
    else
        for (int64_t r = 0; r < count; r++)
            finish_row(w, group, first + r, begin, end - begin, acc + r * acc_stride);
}

/* and the steps behind it. */
static void run_tail(const work *w, int64_t group, int64_t first, int64_t count, int64_t begin,
                     int64_t end, int worker) {
    int64_t to = group * w->y_group + first * w->y_stride + begin;
    if (w->tail.chain.n == 0) return;
    if (end - begin == w->y_stride) {
        mc_tail_run(&w->tail, to, to + count * w->y_stride, worker);
        return;
    }
    for (int64_t r = 0; r < count; r++, to += w->y_stride)
        mc_tail_run(&w->tail, to, to + end - begin, worker);
}

/* Where the sums of a group's columns from `first` on begin. */
static const int32_t *start_of(const work *w, int64_t group, int64_t first) {
    return w->start ? w->start + group * w->padded + first : NULL;
}

static void add_start(int64_t rows, int64_t n, const int32_t *start, int32_t *acc) {
    for (int64_t r = 0; start && r < rows; r++, acc += n)
        for (int64_t j = 0; j < n; j++)
            acc[j] = (int32_t)((uint32_t)acc[j] + (uint32_t)start[j]);
}

static void finish(const work *w, int64_t group, int64_t first, int64_t count, int64_t begin,
                   int64_t end, const int32_t *acc, int64_t acc_stride, int worker) {
    put(w, group, first, count, begin, end, acc, acc_stride);
    run_tail(w, group, first, count, begin, end, worker);
}

static void run_few(const work *w, int64_t group, int64_t first, int64_t count, int64_t begin,
                    int64_t end, int32_t *acc, int worker) {
    for (int64_t j = begin, columns; j < end; j += columns) {
        columns = mc_min(w->tile, end - j);
        w->kern->int_matmul(count, columns, w->k, row_at(w, group, first), w->x_stride,
                            w->w + (group * w->n + j) * w->k, w->k, acc, columns);
        add_start(count, columns, start_of(w, group, j), acc);
        finish(w, group, first, count, j, j + columns, acc, columns, worker);
    }
}

/* Sums of all columns of a unit, or of as many as panels are made at a time. */
static void run_panels(const work *w, int64_t group, int64_t first, int64_t count, int64_t begin,
                       int64_t end, const void *const *list, int32_t *near, int32_t *acc,
                       int worker) {
    int64_t at = group * w->panels_each + begin / MK_PANEL;
    int64_t columns = w->panels ? end - begin : w->near * MK_PANEL;
    for (int64_t j = begin, to; j < end; j = to, at += w->near) {
        to = mc_min(j + columns, end);
        int64_t panels = (to - j + MK_PANEL - 1) / MK_PANEL, wide = panels * MK_PANEL;
        if (!w->panels) pack_some(w, at, at + panels, near);
        const int32_t *from = w->panels ? w->panels + at * panel_words(w) : near;
        int64_t some = mk_block_rows(count, mc_max(SUMS_BYTES / wide / SUM_BYTES, SUMS_ROWS));
        for (int64_t r = 0, rows; r < count; r += rows) {
            rows = mc_min(some, count - r);
            w->kern->int_panels(rows, wide, w->taps, w->words, list + r * w->taps, from,
                                start_of(w, group, j), acc, wide);
            finish(w, group, first + r, rows, j, to, acc, wide, worker);
        }
    }
}

/* Some channels at a time, so that many windows share what a kernel makes of their places. */
static void run_taps(const work *w, int64_t first, int64_t count, const void *const *list,
                     int32_t *acc, int worker) {
    for (int64_t r = 0, rows; r < count; r += rows) {
        rows = mc_min(TAPS_ROWS, count - r);
        for (int64_t j = 0, end; j < w->n; j = end) {
            end = mc_min(j + TAPS_CHANNELS, w->n);
            w->kern->int_taps(rows, (const uint8_t *const *)list + r * w->taps, &w->filters, j, end,
                              acc, TAPS_CHANNELS);
            put(w, 0, first + r, rows, j, end, acc, TAPS_CHANNELS);
        }
        run_tail(w, 0, first + r, rows, 0, w->n, worker);
    }
}

static void run_unit(const work *w, int64_t unit, int worker) {
    int64_t range = unit % w->ranges, block = unit / w->ranges % w->blocks;
    int64_t group = unit / w->ranges / w->blocks;
    int64_t first = block * w->block, count = mc_min(w->block, w->rows - first);
    int64_t begin = range * w->range, end = mc_min(begin + w->range, w->n);
    char *scratch = w->scratch + (size_t)worker * w->worker_bytes;
    char *near = scratch + w->list_bytes + w->copy_bytes + w->form_bytes;
    int32_t *acc = (int32_t *)(void *)(near + w->near_bytes);
    if (w->few) {
        run_few(w, group, first, count, begin, end, acc, worker);
        return;
    }
    const void *const *list = find_block(w, group, first, count, scratch);
    if (w->depthwise)
        run_taps(w, first, count, list, acc, worker);
    else
        run_panels(w, group, first, count, begin, end, list, (int32_t *)(void *)near, acc, worker);
}

static void run_units(void *context, int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; unit++)
        run_unit(context, unit, worker);
}

/* ---- planning ---- */

static bool has(const mc_call *call, int operand) {
    return call->n_in > operand && call->in[operand].layout;
}

bool mc_integer_rounds(const mc_call *call) {
    return has(call, SCALE);
}

static void read_rest(work *w) {
    const mc_call *call = w->call;
    const mc_operand *in = call->in;
    w->zero = has(call, ZERO) ? *(const int32_t *)in[ZERO].data : 0;
    w->scale = has(call, SCALE) ? in[SCALE].data : NULL;
    w->bias = has(call, BIAS) ? in[BIAS].data : NULL;
    w->scale_step = w->scale && in[SCALE].layout->ndim > 0;
    w->x = in[X].data;
    w->w = in[W].data;
}

/* Blocks of rows, and ranges of columns where there are too few blocks for all threads. */
static void divide(work *w, int threads) {
    int64_t read = w->depthwise ? w->n : w->conv && !w->gathers ? w->each : w->k;
    int64_t depth = mc_max(w->k, 1), step = w->few ? TILE_STEP : MK_PANEL;
    int64_t wanted = threads > 1 ? (int64_t)threads * UNITS_EACH : 1;
    int64_t groups = w->depthwise ? 1 : w->groups;
    w->block = mc_min(mc_max(BLOCK_BYTES / mc_max(read, 1), 4), BLOCK_MAX);
    if (w->depthwise) w->block = mc_min(w->block, mc_max(w->rows / wanted, 1));
    w->block = mk_block_rows(w->rows, w->block);
    w->blocks = (w->rows + w->block - 1) / w->block;
    int64_t max = w->depthwise ? 1 : (w->n + step - 1) / step;
    w->ranges = mc_min(mc_max(wanted / (groups * w->blocks), 1), max);
    w->range = (w->n + w->ranges - 1) / w->ranges;
    w->range = mc_min((w->range + step - 1) / step * step, w->n);
    w->ranges = (w->n + w->range - 1) / w->range;
    w->tile = mc_min(mc_max(TILE_BYTES / depth / TILE_STEP * TILE_STEP, TILE_STEP), w->range);
    int64_t near = NEAR_BYTES / (panel_words(w) * (int64_t)sizeof(int32_t) + 1);
    w->near = mc_min(mc_max(near, 1), (w->range + MK_PANEL - 1) / MK_PANEL);
}

/* Whether units make their own panels. */
static bool packs_near(const work *w) {
    return !w->depthwise && !w->few && !w->call->prepared && w->blocks == 1;
}

/* Sums that are there at once. */
static int64_t count_sums(const work *w) {
    if (w->few) return w->block * w->tile;
    if (w->depthwise) return mc_min(w->block, TAPS_ROWS) * TAPS_CHANNELS;
    int64_t wide = (w->range + MK_PANEL - 1) / MK_PANEL * MK_PANEL;
    return mc_min(w->block * wide, mc_max(SUMS_BYTES / SUM_BYTES, SUMS_ROWS * wide));
}

static void measure_worker(work *w) {
    w->list_bytes = w->few ? 0 : pad((size_t)(w->block * w->taps) * sizeof(void *));
    w->copy_bytes = w->gathers ? pad((size_t)w->k) : 0;
    w->form_bytes = w->gathers ? pad((size_t)(w->block * w->words) * sizeof(int32_t)) : 0;
    w->near_bytes = packs_near(w) ? pad((size_t)(w->near * panel_words(w)) * sizeof(int32_t)) : 0;
    w->worker_bytes = w->list_bytes + w->copy_bytes + w->form_bytes + w->near_bytes +
                      pad((size_t)(count_sums(w) * SUM_BYTES));
}

/* Of all panels, or filters. */
static size_t made_bytes(const work *w) {
    if (w->depthwise)
        return (size_t)mk_taps_bytes(w->kern, w->n, w->filters.lines, w->filters.width);
    return (size_t)(w->groups * w->panels_each * panel_words(w)) * sizeof(int32_t);
}

/* Sizes of what is prepared once for all units, in order. */
typedef struct parts {
    size_t formed, panels, outside, start, columns, tail;
} parts;

/* Columns that have a scale and a bias of their own. */
static int64_t column_count(const work *w) {
    return w->group_step > 0 ? w->groups * w->group_step : w->n;
}

static parts measure(const work *w) {
    parts p = {.tail = pad(w->tail.bytes)};
    if (!is_formed(w) && !w->gathers)
        p.formed = pad((size_t)(w->x_rows * w->words) * sizeof(int32_t));
    if (w->lined) p.formed = pad((size_t)(w->x_rows * w->pitch) + sizeof(int32_t));
    if (!w->call->prepared && !w->few && !packs_near(w)) p.panels = pad(made_bytes(w));
    int64_t bytes = w->depthwise ? w->n : mc_max(w->each, w->words * (int64_t)sizeof(int32_t));
    p.outside = w->conv ? 2 * pad((size_t)bytes) : 0;
    int64_t groups = w->depthwise ? 1 : w->groups;
    if (has(w->call, SUMS)) p.start = pad((size_t)(groups * w->padded) * sizeof(int32_t));
    if (has(w->call, SCALE)) p.columns = pad((size_t)(3 * column_count(w)) * sizeof(float));
    return p;
}

/* Where windows lie, and an element outside of x: its zero point, as bytes and as words. */
static void set_windows(work *w, char *outside, size_t bytes) {
    bool in_words = !is_formed(w) && !w->gathers;
    int64_t item = w->words * (int64_t)sizeof(int32_t);
    memset(outside, (uint8_t)w->zero, (size_t)(w->depthwise ? w->n : w->each));
    if (w->lined) {
        memset(outside, (uint8_t)w->zero, (size_t)item);
        w->windows.x = (const char *)w->formed;
        w->windows.outside = outside;
        return; /* its step is there */
    }
    if (in_words)
        w->kern->int_form(w->each, (uint8_t *)outside, (int32_t *)(void *)(outside + bytes));
    w->windows.x = in_words ? (const char *)w->formed : (const char *)w->x;
    w->windows.bytes = in_words ? item : w->depthwise ? w->n : w->each;
    w->windows.step = in_words ? w->groups * item : w->x_stride;
    w->windows.outside = in_words ? outside + bytes : outside;
}

/* Sums begin with what the zero point of x takes from them. */
static void set_start(work *w, int64_t groups, int32_t *start) {
    const int32_t *sums = w->call->in[SUMS].data;
    w->start = start;
    for (int64_t g = 0; g < groups; g++, start += w->padded, sums += w->n) {
        for (int64_t j = 0; j < w->n; j++)
            start[j] = (int32_t)(0 - (uint32_t)w->zero * (uint32_t)sums[j]);
        memset(start + w->n, 0, (size_t)(w->padded - w->n) * sizeof *start);
    }
}

static void set_rounding(work *w, float *columns) {
    int64_t n = column_count(w);
    float *factor = columns, *plus = factor + n, *sure = plus + n;
    mk_int_rounding *r = &w->rounding;
    *r = (mk_int_rounding){w->tail.round, w->scale, w->bias, w->scale_step,
                           factor,        plus,     sure,    false};
    r->quick = mk_int_rounding_set(r, n, factor, plus, sure);
}

static void pack_filters(const work *w) {
    w->kern->int_pack_taps(w->n, w->filters.lines, w->filters.width, w->w, w->made);
}

static void pack(work *w) {
    if (w->depthwise)
        pack_filters(w);
    else
        mc_cpu_for(w->call, w->groups * w->panels_each, mc_grain(MK_PANEL * w->k), pack_panels, w);
}

/* What a row of w is to the kernels. */
static void find_panels(work *w) {
    w->panels_each = (w->n + MK_PANEL - 1) / MK_PANEL;
    w->padded = w->panels_each * MK_PANEL;
    if (!w->lined) w->length = w->each;
    if (w->gathers) w->taps = 1, w->length = w->k;
    w->words = words_of(w, w->length);
}

static mica_status run_matmul(work *w) {
    const mc_call *call = w->call;
    int threads = mc_cpu_of(call)->threads;
    int64_t groups = w->depthwise ? 1 : w->groups;
    find_panels(w);
    divide(w, threads);
    measure_worker(w);
    MC_TRY(mc_tail_measure(call, 0, &w->tail));
    parts p = measure(w);
    size_t before = p.formed + p.panels + p.outside, bytes = before + p.start + p.columns + p.tail;
    char *memory = mc_run_scratch(call->run, bytes + (size_t)threads * w->worker_bytes);
    if (mc_run_is_measured(call->run)) return MICA_OK;
    if (!memory) return MICA_ENOMEM;
    read_rest(w);
    w->formed = (int32_t *)(void *)memory;
    if (!call->prepared && !w->few && !packs_near(w)) w->made = memory + p.formed;
    w->panels = call->prepared ? call->prepared : w->made;
    w->filters.w = call->prepared ? call->prepared : w->made;
    w->scratch = memory + bytes;
    if (w->conv) set_windows(w, memory + p.formed + p.panels, p.outside / 2);
    char *start = memory + before, *columns = start + p.start, *rest = columns + p.columns;
    MC_TRY(mc_integer_rounds(call) ? mc_tail_prepare_rounding(call, rest, &w->tail)
                                   : mc_tail_prepare(call, 0, rest, &w->tail));
    if (p.start) set_start(w, groups, (int32_t *)(void *)start);
    w->filters.start = w->start;
    if (w->tail.rounded) set_rounding(w, (float *)(void *)columns);
    if (p.formed)
        mc_cpu_for(call, w->x_rows, mc_grain(w->lined ? w->pitch : w->each),
                   w->lined ? form_lines : form_rows, w);
    if (w->made) pack(w);
    mc_cpu_for(call, groups * w->blocks * w->ranges, mc_grain(w->block * w->range * w->k),
               run_units, w);
    return MICA_OK;
}

static work describe_matmul(const mc_call *call) {
    const mc_layout *x = call->in[X].layout, *w = call->in[W].layout;
    work at = {.call = call, .kern = mc_cpu_of(call)->kern, .groups = 1, .taps = 1};
    at.n = w->shape[w->ndim - 2];
    at.k = at.each = w->shape[w->ndim - 1];
    at.rows = at.x_rows = mc_row_count(x, x->ndim - 1);
    if (w->ndim > 2) {
        at.groups = mc_row_count(w, w->ndim - 2);
        at.rows = x->shape[x->ndim - 2];
    }
    at.few = at.rows <= FEW_ROWS;
    at.x_stride = at.k;
    at.y_stride = at.n;
    at.x_group = at.rows * at.k;
    at.y_group = at.rows * at.n;
    return at;
}

/* Reads windows of few channels as lines, which are elements that overlap, of copies of x's lines.
 * Words may end behind a window: weights are 0 there. Not where copies would be much larger. */
static void read_lines(work *w, const mc_layout *x) {
    mc_window *d = &w->windows.axes[2];
    int64_t extra = (d->size + d->stride - 1) / d->stride, places = w->windows.places[2];
    if (w->kern->int_unit != 4 || w->groups != 1 || w->windows.flip || d->dilation != 1 ||
        d->base != 1 || d->lo < 0 || d->length == 0 || d->stride > d->size ||
        mc_max(mc_max(d->lo, d->hi), d->size) / LINE_TIMES > d->length)
        return;
    w->gathers = false;
    w->lined = true;
    w->taps /= d->size;
    w->length = d->size * w->each;
    w->line = d->length * w->each;
    w->before = d->lo * w->each;
    w->windows.step = d->stride * w->each;
    w->pitch = mc_max((places + extra) * d->stride, d->lo + d->length + d->stride);
    w->pitch = w->pitch / d->stride * w->windows.step;
    w->x_rows = mc_row_count(x, x->ndim - 1) / d->length;
    *d = (mc_window){
        .length = w->pitch / w->windows.step, .size = 1, .stride = 1, .dilation = 1, .base = 1};
    w->windows.taps = w->taps;
}

static work describe_conv(const mc_call *call) {
    const mc_attr_conv *a = call->attr;
    const mc_layout *x = call->in[X].layout, *k = call->in[W].layout, *y = call->out.layout;
    work w = {.call = call, .kern = mc_cpu_of(call)->kern, .groups = a->groups, .conv = true};
    int64_t channels = x->shape[x->ndim - 1];
    w.windows = mc_windows_of(a, x, k);
    w.rows = w.windows.n;
    w.taps = w.windows.taps;
    w.each = w.x_group = k->shape[k->ndim - 1];
    w.k = w.taps * w.each;
    w.n = y->shape[y->ndim - 1] / w.groups;
    w.x_rows = mc_row_count(x, x->ndim - 1) * w.groups;
    w.x_stride = channels;
    w.y_group = w.group_step = w.n;
    w.y_stride = w.groups * w.n;
    w.depthwise = w.each == 1 && w.n == 1 && w.groups >= DEPTHWISE_MIN;
    if (w.depthwise) {
        w.n = w.groups;
        w.filters = (mk_taps){.n = w.n, .width = w.windows.axes[2].size};
        w.filters.lines = w.taps / mc_max(w.filters.width, 1);
    }
    w.few = !w.depthwise && w.windows.whole && w.rows <= FEW_ROWS;
    w.few = w.few || w.each == 0; /* sums of nothing, however many elements the kernel has */
    w.gathers = !w.depthwise && !w.few && w.taps > 1 && w.each < GATHER_BELOW;
    if (w.gathers) read_lines(&w, x);
    return w;
}

static work describe(const mc_call *call) {
    return call->op == MC_OP_INTEGER_CONV ? describe_conv(call) : describe_matmul(call);
}

mica_status mc_eval_integer(const mc_call *call) {
    if (mc_layout_size(call->out.layout) == 0) return MICA_OK;
    work w = describe(call);
    return run_matmul(&w);
}

/* ---- constants ---- */

mc_prepare mc_integer_prepares(const mc_call *call) {
    if (mc_layout_size(call->out.layout) == 0) return (mc_prepare){.bytes = 0};
    work w = describe(call);
    if (w.few) return (mc_prepare){.bytes = 0};
    find_panels(&w);
    int64_t lines = w.depthwise ? w.filters.lines : w.taps;
    uint64_t form = (uint64_t)w.groups << 32 | (uint64_t)lines;
    return (mc_prepare){.operand = W, .form = form, .bytes = made_bytes(&w)};
}

void mc_integer_prepare(const mc_call *call, void *to) {
    work w = describe(call);
    find_panels(&w);
    w.w = call->in[W].data;
    w.made = to;
    if (w.depthwise)
        pack_filters(&w);
    else
        pack_panels(&w, 0, w.groups * w.panels_each, 0);
}
