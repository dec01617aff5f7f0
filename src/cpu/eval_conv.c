/* Convolutions, as products of rows of x and panels of the kernel.
 *
 * A row of the left side is a window of x: [taps, C / groups] for a place of the result; the right
 * side is the kernel, whose columns are put into panels: once, if it is a constant, else before all
 * else, or, if there is one block of places only, some at a time in a near cache. Windows are read
 * where they lie: a list says where the elements of each are. Of few channels, a line of a window
 * is one element, in a copy of x that has its padding; where that cannot be, windows are copied, a
 * block at a time. A unit of work is a block of places and a range of output channels.
 * Each sum adds its terms in one order, whatever the units are. What follows element by element is
 * done to each part of the result as it is made (cpu/tail.h).
 *
 * Where each channel has a filter of its own (depthwise), there is nothing to multiply as matrices:
 * a place of the result is the sum of rows of x, each times a row of weights. Filters of 3 x 3 go
 * another way, too (cpu/winograd.h). */
#include <string.h>

#include "base/integer.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "cpu/tail.h"
#include "cpu/windows.h"
#include "cpu/winograd.h"

#define BLOCK_BYTES (256 * 1024) /* of the windows of a unit */
#define BLOCK_MIN 12             /* places of a block */
#define BLOCK_MAX 200
#define NEAR_BYTES (256 * 1024) /* of panels that one block meets, which are put together for it */
#define NEAR_PANELS 4           /* of them, at least */
#define UNITS_EACH 4            /* units for a thread, at least */
#define GATHER_BELOW 16         /* channels of a group: windows of fewer are joined or copied */
#define JOIN_TAPS 1024          /* of a line of a window that is one element, at most */
#define DEPTHWISE_MIN 4         /* channels */
#define MAX_KERNEL (INT64_C(1) << 44) /* numbers, if it is a view of few: sizes do not overflow */

typedef struct work {
    const mc_call *call;
    const mk_kernels *kern;
    mc_windows windows;
    int64_t groups, each, outs; /* outs: channels of a group; each: of x, or a line of a window */
    int64_t depth;              /* taps * each */
    bool depthwise, gathers, joins;
    int64_t before, line; /* joins: places in front of a line of x, and of one with its padding */
    const float *x;       /* [n, spatial.., channels], channels contiguous */
    const float *w;       /* [groups * outs, depth], or NULL: its layout is another one */
    const float *panels;  /* of each group; NULL: each unit makes its own; depthwise: [taps,
                            channels] */
    float *made;          /* the same, to be filled in this run; NULL: they are there */
    int64_t panels_each, near; /* of a group; of a unit at a time */
    int64_t part_taps, part;   /* terms of these at a time: taps, and elements of each */
    int64_t block, blocks;     /* places */
    int64_t ranges, range;     /* units: groups * blocks * ranges of `range` channels */
    mc_tail tail;
    char *scratch; /* of each worker: a list, windows or rows of w, panels, a part of the result */
    size_t worker_bytes, list_bytes, copy_bytes, near_bytes;
} work;

static size_t pad(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* ---- the kernel ---- */

/* Rows [begin, end) of w, [groups * outs], as dense f32: where they lie, or copied. */
static const float *see_rows(const work *w, int64_t begin, int64_t end, float *copy) {
    const mc_operand *k = &w->call->in[1];
    const mc_layout *l = k->layout;
    int last = l->ndim - 1;
    int64_t n = l->shape[last], taps = n > 0 ? w->depth / n : 0;
    if (w->w) return w->w + begin * w->depth;
    mc_row_walk walk = mc_row_walk_begin(l, last, begin * taps);
    for (int64_t r = 0; r < (end - begin) * taps; r++, mc_row_walk_next(&walk))
        mc_widen(w->kern, l->dtype, k->data, walk.offset, l->strides[last], n, copy + r * n);
    return copy;
}

/* Panels [begin, end) of all, of `count` elements of each row of w from `at` on. */
static void pack(const work *w, int64_t begin, int64_t end, int64_t at, int64_t count, float *copy,
                 float *to) {
    for (int64_t p = begin; p < end; p++, to += count * MK_PANEL) {
        int64_t first = p % w->panels_each * MK_PANEL, group = p / w->panels_each;
        int64_t columns = mc_min(MK_PANEL, w->outs - first);
        first += group * w->outs;
        const float *rows = see_rows(w, first, first + columns, copy);
        w->kern->conv_pack(columns, count, rows + at, w->depth, to);
    }
}

static void pack_panels(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    float *copy = (float *)(void *)(w->scratch + (size_t)worker * w->worker_bytes + w->list_bytes);
    pack(w, begin, end, 0, w->depth, copy, w->made + begin * w->depth * MK_PANEL);
}

/* The kernel's elements of each tap side by side. */
static void pack_filters(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    float *copy = (float *)(void *)(w->scratch + (size_t)worker * w->worker_bytes + w->list_bytes);
    for (int64_t c = begin; c < end; c++) {
        const float *from = see_rows(w, c, c + 1, copy);
        for (int64_t t = 0; t < w->depth; t++)
            w->made[t * w->groups + c] = from[t];
    }
}

/* ---- lines with their padding ---- */

typedef struct lines {
    const work *w;
    float *to;
} lines;

/* Lines [begin, end) of x, along its last axis of places, with zeros at their ends. */
static void copy_lines(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const lines *c = context;
    const mc_operand *x = &c->w->call->in[0];
    const mc_layout *l = x->layout;
    int last = l->ndim - 1;
    int64_t n = l->shape[last - 1], each = l->shape[last], whole = c->w->line * each;
    int64_t place = l->strides[last - 1], channel = l->strides[last];
    for (int64_t line = begin; line < end; line++) {
        int64_t offset = mc_row_offset(l, last - 1, line);
        float *to = c->to + line * whole;
        memset(to, 0, (size_t)whole * sizeof *to);
        to += c->w->before * each;
        for (int64_t k = 0; n > 0 && l->dtype == MICA_F32 && k < each; k++) {
            const float *from = (const float *)x->data + offset + k * channel;
            for (int64_t i = 0; i < n; i++)
                to[i * each + k] = from[i * place];
        }
        for (int64_t i = 0; l->dtype != MICA_F32 && i < n; i++)
            mc_widen(c->w->kern, l->dtype, x->data, offset + i * place, channel, each,
                     to + i * each);
    }
}

static int64_t count_lines(const work *w) {
    return w->windows.images * w->windows.axes[0].length * w->windows.axes[1].length;
}

/* Makes a line of a window one element, where a copy of x has no more padding than elements. */
static void join_lines(work *w) {
    mc_window *d = &w->windows.axes[2];
    w->joins = w->gathers && w->groups == 1 && d->size <= JOIN_TAPS && d->dilation == 1 &&
               d->base == 1 && !w->windows.flip && d->lo >= 0 && d->lo < d->size && d->hi >= 0 &&
               d->hi < d->size && d->lo + d->hi <= d->length;
    if (!w->joins) return;
    w->gathers = false;
    w->before = d->lo;
    w->line = d->lo + d->length + d->hi;
    w->each *= d->size;
    w->windows.taps /= d->size;
    *d = (mc_window){.length = w->line, .size = 1, .stride = d->stride, .dilation = 1, .base = 1};
}

/* ---- units ---- */

/* The windows of a block: addresses of their elements, or of copies of whole windows. */
static const float *const *find_block(const work *w, int64_t group, int64_t first, int64_t count,
                                      char *scratch) {
    const void **list = (const void **)(void *)scratch;
    mc_windows windows = w->windows;
    windows.x += group * windows.bytes;
    if (!w->gathers) {
        mc_windows_find(&windows, first, count, list);
    } else {
        char *copies = scratch + w->list_bytes;
        for (int64_t r = 0; r < count; r++) {
            list[r] = copies + r * w->depth * (int64_t)sizeof(float);
            mc_windows_gather(&windows, first + r, copies + r * w->depth * (int64_t)sizeof(float));
        }
    }
    return (const float *const *)(const void *)list;
}

/* A row of x as conv_panels has it: addresses, and elements at each. */
static mk_terms all_terms(const work *w) {
    int64_t taps = w->gathers ? 1 : w->windows.taps;
    return (mk_terms){.taps = taps, .apart = taps, .c = w->gathers ? w->depth : w->each};
}

/* Whether sums are of some terms at a time. */
static bool in_parts(const work *w) {
    return !w->depthwise && w->part_taps * w->part < w->depth;
}

/* Computes a part of the result: `count` places from `first` on, channels [begin, end) of a group,
 * whose panels these are. */
static void compute(const work *w, int64_t first, int64_t count, int64_t group, int64_t begin,
                    int64_t end, const float *const *list, float *y, int64_t y_stride) {
    const mk_epilogue last = mc_tail_end(&w->tail, first, group * w->outs + begin);
    const mk_terms terms = all_terms(w);
    int64_t at = group * w->panels_each + begin / MK_PANEL;
    if (w->depthwise)
        w->kern->conv_taps(count, w->groups, terms.taps, list, w->panels, &last, y, y_stride);
    else
        w->kern->conv_panels(count, end - begin, &terms, list, w->panels + at * MK_PANEL * w->depth,
                             &last, y, y_stride);
}

/* The same of few panels, of some terms at a time, which are made here unless they are there: sums
 * are in scratch between. */
static void compute_near(const work *w, int64_t first, int64_t count, int64_t group, int64_t begin,
                         int64_t end, const float *const *list, float *near, float *y,
                         int64_t y_stride) {
    const mk_terms all = all_terms(w);
    const mk_epilogue last = mc_tail_end(&w->tail, first, group * w->outs + begin), none = {0};
    int64_t n = end - begin, at = group * w->panels_each + begin / MK_PANEL;
    int64_t panels = (n + MK_PANEL - 1) / MK_PANEL;
    float *sums = near + (w->panels ? 0 : w->near * MK_PANEL * w->part_taps * w->part);
    float *copy = sums + (in_parts(w) ? w->near * MK_PANEL * w->block : 0);
    const float *there = w->panels ? w->panels + at * MK_PANEL * w->depth : NULL;
    mk_terms terms = {.apart = all.apart, .panel = there ? w->depth * MK_PANEL : 0};
    for (int64_t t = 0; t < all.taps; t += terms.taps)
        for (int64_t l = 0; l < all.c; l += terms.c) {
            terms.taps = mc_min(w->part_taps, all.taps - t);
            terms.c = mc_min(w->part, all.c - l);
            terms.first = l;
            bool ends = t + terms.taps == all.taps && l + terms.c == all.c;
            if (!there) pack(w, at, at + panels, t * all.c + l, terms.taps * terms.c, copy, near);
            w->kern->conv_panels(
                count, n, &terms, list + t, there ? there + (t * all.c + l) * MK_PANEL : near,
                ends ? &last : &none, ends ? y : sums, ends ? y_stride : w->near * MK_PANEL);
            terms.from = sums;
            terms.from_stride = w->near * MK_PANEL;
        }
}

/* The same by panels that are there, or made a few at a time. */
static void compute_all(const work *w, int64_t first, int64_t count, int64_t group, int64_t begin,
                        int64_t end, char *scratch, float *y, int64_t y_stride) {
    const float *const *list = find_block(w, group, first, count, scratch);
    if (w->panels && !in_parts(w)) {
        compute(w, first, count, group, begin, end, list, y, y_stride);
        return;
    }
    float *near = (float *)(void *)(scratch + w->list_bytes + w->copy_bytes);
    for (int64_t j = begin, to; j < end; j = to) {
        to = mc_min(j + w->near * MK_PANEL, end);
        compute_near(w, first, count, group, j, to, list, near, y + (j - begin), y_stride);
    }
}

static void run_unit(const work *w, int64_t unit, char *scratch, int worker) {
    int64_t range = unit % w->ranges, block = unit / w->ranges % w->blocks;
    int64_t group = unit / w->ranges / w->blocks, outs = w->depthwise ? w->groups : w->outs;
    int64_t first = block * w->block, count = mc_min(w->block, w->windows.n - first);
    int64_t begin = range * w->range, end = mc_min(begin + w->range, outs);
    const mc_operand *out = &w->call->out;
    int64_t stride = w->groups * w->outs, to = first * stride + group * w->outs + begin;
    bool in_place = out->layout->dtype == MICA_F32;
    float *wide = (float *)(void *)(scratch + w->list_bytes + w->copy_bytes + w->near_bytes);
    float *y = in_place ? (float *)out->data + to : wide;
    compute_all(w, first, count, group, begin, end, scratch, y, in_place ? stride : w->range);
    for (int64_t r = 0; !in_place && r < count; r++)
        mc_narrow(w->kern, out->layout->dtype, y + r * w->range, end - begin, out->data,
                  to + r * stride);
    if (w->tail.chain.n == 0) return;
    if (end - begin == stride) {
        mc_tail_run(&w->tail, to, to + count * stride, worker);
        return;
    }
    for (int64_t r = 0; r < count; r++)
        mc_tail_run(&w->tail, to + r * stride, to + r * stride + end - begin, worker);
}

static void run_units(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    for (int64_t unit = begin; unit < end; unit++)
        run_unit(w, unit, w->scratch + (size_t)worker * w->worker_bytes, worker);
}

/* ---- planning ---- */

static void describe(const mc_call *call, work *w) {
    const mc_attr_conv *a = call->attr;
    const mc_layout *x = call->in[0].layout, *k = call->in[1].layout, *y = call->out.layout;
    w->call = call;
    w->kern = mc_cpu_of(call)->kern;
    w->windows = mc_windows_of(a, x, k);
    w->groups = a->groups;
    w->each = k->shape[k->ndim - 1];
    w->outs = y->shape[y->ndim - 1] / w->groups;
    w->depth = w->windows.taps * w->each;
    w->depthwise = w->each == 1 && w->outs == 1 && w->groups >= DEPTHWISE_MIN;
    w->gathers = !w->depthwise && w->windows.taps > 1 && w->each < GATHER_BELOW;
    w->panels_each = (w->outs + MK_PANEL - 1) / MK_PANEL;
    join_lines(w);
}

/* Blocks of places, and ranges of channels if there are too few blocks for all threads. */
static void divide(work *w, int threads) {
    int64_t wanted = threads > 1 ? (int64_t)threads * UNITS_EACH : 1, rows = w->windows.n;
    int64_t read = w->depthwise ? w->groups : w->gathers ? w->depth : w->each;
    int64_t row_bytes = mc_max(read, 1) * (int64_t)sizeof(float);
    int64_t groups = w->depthwise ? 1 : w->groups, outs = w->depthwise ? w->groups : w->outs;
    w->block = mc_min(mc_max(BLOCK_BYTES / row_bytes, BLOCK_MIN), BLOCK_MAX);
    if (w->depthwise) w->block = mc_min(w->block, mc_max(rows / wanted, 1));
    w->block = mk_block_rows(rows, w->block);
    w->blocks = (rows + w->block - 1) / w->block;
    int64_t max = w->depthwise ? 1 : w->panels_each;
    w->ranges = mc_min(mc_max(wanted / (groups * w->blocks), 1), max);
    w->range = ((outs + w->ranges - 1) / w->ranges + MK_PANEL - 1) / MK_PANEL * MK_PANEL;
    w->ranges = (outs + w->range - 1) / w->range;
    w->range = mc_min(w->range, outs);
}

static bool is_dense_f32(const mc_layout *l) {
    return l->dtype == MICA_F32 && mc_layout_is_dense(l);
}

/* Panels that are made at a time, so many that there are enough sums at once; of all terms, or, of
 * long rows, of as many as a near cache has room for. */
static void divide_near(work *w) {
    const mk_terms all = all_terms(w);
    const int64_t room = NEAR_BYTES / (MK_PANEL * (int64_t)sizeof(float)); /* terms of a panel */
    int64_t panels = (w->range + MK_PANEL - 1) / MK_PANEL;
    bool parts = is_dense_f32(w->call->in[1].layout);
    w->near = mc_min(mc_max(room / mc_max(w->depth, 1), parts ? NEAR_PANELS : 1), panels);
    w->part = all.c;
    w->part_taps = all.taps;
    int64_t terms = room / w->near;
    if (!parts || w->depth <= terms) return;
    w->part = mc_min(all.c, terms);
    w->part_taps = mc_max(1, w->part < all.c ? 1 : terms / all.c);
}

/* Whether units make their own panels. */
static bool packs_near(const work *w) {
    return !w->depthwise && !w->call->prepared && w->blocks == 1 && w->depth > 0;
}

/* Sizes of a worker's scratch: a panel's rows of w lie behind the panels, or where copies of
 * windows do later. */
static void measure_worker(work *w) {
    int64_t taps = w->gathers ? 1 : w->windows.taps;
    int64_t copies = w->gathers ? w->block * w->depth : 0, rows = 0;
    if (!is_dense_f32(w->call->in[1].layout)) rows = (w->depthwise ? 1 : MK_PANEL) * w->depth;
    bool wide = w->call->out.layout->dtype != MICA_F32, near = packs_near(w);
    int64_t terms = w->part_taps * w->part;
    int64_t panels = near ? w->near * MK_PANEL * terms + rows : 0;
    if (in_parts(w)) panels += w->near * MK_PANEL * w->block; /* sums */
    w->list_bytes = pad((size_t)(w->block * taps) * sizeof(float *));
    w->copy_bytes = pad((size_t)(near ? copies : mc_max(copies, rows)) * sizeof(float));
    w->near_bytes = pad((size_t)panels * sizeof(float));
    w->worker_bytes = w->list_bytes + w->copy_bytes + w->near_bytes +
                      (wide ? pad((size_t)(w->block * w->range) * sizeof(float)) : 0);
}

/* Of all panels, or filters of channels. */
static int64_t panel_floats(const work *w) {
    return w->groups * (w->depthwise ? 1 : w->panels_each * MK_PANEL) * w->depth;
}

/* Takes scratch and prepares what is in it. *done: there is nothing else to do. */
static mica_status prepare(work *w, bool *done) {
    const mc_call *call = w->call;
    const mc_operand *x = &call->in[0], *k = &call->in[1];
    int64_t columns = w->groups * w->outs, channels = x->layout->shape[x->layout->ndim - 1];
    int64_t copied = w->joins ? count_lines(w) * w->line * channels : mc_rows_scratch(x);
    size_t x_bytes = pad((size_t)copied * sizeof(float));
    size_t zeros = pad((size_t)(w->depthwise ? w->groups : w->each) * sizeof(float));
    size_t panels = 0;
    if (!call->prepared && !packs_near(w)) panels = pad((size_t)panel_floats(w) * sizeof(float));
    measure_worker(w);
    MC_TRY(mc_tail_measure(call, columns, &w->tail));
    size_t bytes = x_bytes + zeros + panels + pad(w->tail.bytes);
    char *memory =
        mc_run_scratch(call->run, bytes + (size_t)mc_cpu_of(call)->threads * w->worker_bytes);
    *done = mc_run_is_measured(call->run);
    if (*done) return MICA_OK;
    if (!memory) return MICA_ENOMEM;
    w->scratch = memory + bytes;
    if (!call->prepared && !packs_near(w)) w->made = (float *)(void *)(memory + x_bytes + zeros);
    w->panels = call->prepared ? call->prepared : w->made;
    w->w = is_dense_f32(k->layout) ? k->data : NULL;
    memset(memory + x_bytes, 0, zeros);
    if (w->joins) {
        lines copy = {w, (float *)(void *)memory};
        mc_cpu_for(call, count_lines(w), mc_grain(w->line * channels), copy_lines, &copy);
        w->windows.x = memory;
        w->windows.step = channels * (int64_t)sizeof(float);
    } else {
        mc_rows rows = mc_rows_get(call, x, (float *)(void *)memory);
        w->windows.x = (const char *)rows.data;
        w->windows.step = rows.stride * (int64_t)sizeof(float);
    }
    w->windows.bytes = (w->depthwise ? w->groups : w->each) * (int64_t)sizeof(float);
    w->windows.outside = memory + x_bytes;
    return mc_tail_prepare(call, columns, memory + x_bytes + zeros + panels, &w->tail);
}

mica_status mc_eval_conv(const mc_call *call) {
    work w = {0};
    bool done;
    int64_t kernel = mc_layout_size(call->in[1].layout);
    if (mc_layout_size(call->out.layout) == 0) return MICA_OK;
    if (kernel > MAX_KERNEL)
        return mc_fail(MICA_ENOMEM, "out of memory: conv_general: a kernel of %lld numbers",
                       (long long)kernel);
    if (mc_winograd_fits(call)) return mc_winograd_eval(call);
    describe(call, &w);
    divide(&w, mc_cpu_of(call)->threads);
    divide_near(&w);
    MC_TRY(prepare(&w, &done));
    if (done) return MICA_OK;
    if (w.made && w.depthwise)
        mc_cpu_for(call, w.groups, mc_grain(w.depth), pack_filters, &w);
    else if (w.made)
        mc_cpu_for(call, w.groups * w.panels_each, mc_grain(MK_PANEL * w.depth), pack_panels, &w);
    int64_t units = (w.depthwise ? 1 : w.groups) * w.blocks * w.ranges;
    mc_cpu_for(call, units, mc_grain(w.block * w.range * w.depth), run_units, &w);
    return MICA_OK;
}

/* ---- constants ---- */

mc_prepare mc_conv_prepares(const mc_call *call) {
    work w = {0};
    const mc_layout *k = call->in[1].layout;
    if (mc_layout_size(call->out.layout) == 0 || !is_dense_f32(k) || mc_layout_size(k) > MAX_KERNEL)
        return (mc_prepare){.bytes = 0};
    if (mc_winograd_fits(call)) return mc_winograd_prepares(call);
    describe(call, &w);
    return (mc_prepare){.operand = 1,
                        .form = (uint64_t)w.groups,
                        .bytes = (size_t)panel_floats(&w) * sizeof(float)};
}

void mc_conv_prepare(const mc_call *call, const mc_prepare *what, void *scratch, void *to) {
    if (what->form == MC_FORM_WINOGRAD) {
        mc_winograd_prepare(call, what, scratch, to);
        return;
    }
    work w = {0};
    describe(call, &w);
    w.w = call->in[1].data;
    w.made = to;
    if (w.depthwise)
        pack_filters(&w, 0, w.groups, 0);
    else
        pack_panels(&w, 0, w.groups * w.panels_each, 0);
}
