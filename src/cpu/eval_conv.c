/* Convolutions, as products whose left side is gathered a block at a time.
 *
 * A row of the left side is a window of x: [taps, C / groups] for a place of the result; the right
 * side is the kernel. A unit of work is a block of places and a range of output channels: the
 * block's windows are copied to the worker's scratch, and multiplied by tiles of the kernel that
 * fit a second-level cache. Each sum is a dot product in one order, whatever the blocks are. A
 * kernel of one tap without padding reads x in place.
 *
 * Where each channel has a filter of its own (depthwise), there is nothing to multiply as matrices:
 * a place of the result is the sum of rows of x, each times a row of weights. */
#include <string.h>

#include "base/integer.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/matmul.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "graph/window.h"

#define BLOCK_BYTES (512 * 1024) /* of the windows that are gathered at once */
#define BLOCK_MIN 16             /* places of a block */
#define BLOCK_MAX 96
#define TILE_BYTES (256 * 1024)       /* of the kernel that meets a block at once */
#define TILE_STEP 16                  /* output channels */
#define UNITS_EACH 4                  /* units for a thread, at least */
#define DEPTHWISE_MIN 4               /* channels */
#define MAX_KERNEL (INT64_C(1) << 44) /* numbers, if it is a view of few: sizes do not overflow */

typedef struct work {
    const mc_call *call;
    const mk_kernels *kern;
    mc_window windows[3];                /* axes that are not there have one element, in front */
    int64_t places[3];                   /* of the result, for each spatial axis */
    int64_t n, taps, groups, each, outs; /* each, outs: channels of a group */
    int64_t depth;                       /* taps * each */
    bool flip, direct;                   /* direct: windows are rows of x */
    const float *x;                      /* [n, spatial.., channels], channels contiguous */
    int64_t x_stride;                    /* floats from a place to the next */
    const float *w;                      /* [groups * outs, depth] */
    int64_t rows;                        /* n * places */
    int64_t block, tile;                 /* places; output channels */
    int64_t blocks, ranges, range;       /* units: groups * blocks * ranges of `range` channels */
    int64_t row_stride;                  /* floats from a gathered window to the next */
    char *scratch;
    size_t worker_bytes, block_bytes;
} work;

/* ---- gathering ---- */

/* The element of x that an element of a window is; -1: a zero. */
static int64_t element_at(const mc_window *w, int64_t place, int64_t tap) {
    int64_t at = place * w->stride + tap * w->dilation - w->lo;
    if (at < 0 || at % w->base != 0) return -1;
    at /= w->base;
    return at < w->length ? at : -1;
}

/* The taps of one line of a window, along the last spatial axis. */
static void gather_line(const work *w, const float *line, int64_t place, float *to) {
    const mc_window *along = &w->windows[2];
    int64_t each = w->each;
    for (int64_t tap = 0; tap < along->size; tap++, to += each) {
        int64_t at = element_at(along, place, w->flip ? along->size - 1 - tap : tap);
        if (at < 0)
            memset(to, 0, (size_t)each * sizeof *to);
        else if (each == 1)
            *to = line[at * w->x_stride];
        else
            memcpy(to, line + at * w->x_stride, (size_t)each * sizeof *to);
    }
}

/* The same where the taps are neighbours in memory, and so are all channels. */
static void gather_neighbours(const work *w, const float *line, int64_t place, float *to) {
    const mc_window *along = &w->windows[2];
    int64_t first = place * along->stride - along->lo;
    int64_t begin = mc_min(first < 0 ? -first : 0, along->size);
    int64_t end = mc_max(mc_min(along->length - first, along->size), begin);
    memset(to, 0, (size_t)(begin * w->each) * sizeof *to);
    if (end > begin)
        memcpy(to + begin * w->each, line + (first + begin) * w->x_stride,
               (size_t)((end - begin) * w->each) * sizeof *to);
    memset(to + end * w->each, 0, (size_t)((along->size - end) * w->each) * sizeof *to);
}

static void gather_window(const work *w, int64_t group, int64_t row, float *to) {
    const mc_window *d = w->windows;
    int64_t p2 = row % w->places[2], p1 = row / w->places[2] % w->places[1];
    int64_t p0 = row / w->places[2] / w->places[1] % w->places[0];
    int64_t n = row / w->places[2] / w->places[1] / w->places[0];
    bool neighbours = d[2].dilation == 1 && d[2].base == 1 && !w->flip && w->x_stride == w->each;
    int64_t line_floats = d[2].size * w->each;
    for (int64_t i = 0; i < d[0].size; i++)
        for (int64_t j = 0; j < d[1].size; j++, to += line_floats) {
            int64_t a = element_at(&d[0], p0, w->flip ? d[0].size - 1 - i : i);
            int64_t b = element_at(&d[1], p1, w->flip ? d[1].size - 1 - j : j);
            if (a < 0 || b < 0) {
                memset(to, 0, (size_t)line_floats * sizeof *to);
                continue;
            }
            int64_t line = ((n * d[0].length + a) * d[1].length + b) * d[2].length;
            const float *from = w->x + line * w->x_stride + group * w->each;
            if (neighbours)
                gather_neighbours(w, from, p2, to);
            else
                gather_line(w, from, p2, to);
        }
}

/* ---- units ---- */

static void run_unit(const work *w, int64_t unit, char *scratch) {
    int64_t range = unit % w->ranges, block = unit / w->ranges % w->blocks;
    int64_t group = unit / w->ranges / w->blocks;
    int64_t first = block * w->block, count = mc_min(w->block, w->rows - first);
    int64_t begin = range * w->range, end = mc_min(begin + w->range, w->outs);
    const mc_operand *out = &w->call->out;
    const float *rows = w->x + first * w->x_stride + group * w->each;
    float *gathered = (float *)(void *)scratch, *y = (float *)(void *)(scratch + w->block_bytes);
    for (int64_t r = 0; !w->direct && r < count; r++)
        gather_window(w, group, first + r, gathered + r * w->row_stride);
    if (!w->direct) rows = gathered;
    int64_t stride = w->groups * w->outs, y_stride = w->range;
    int64_t to = first * stride + group * w->outs + begin;
    bool in_place = out->layout->dtype == MICA_F32;
    if (in_place) {
        y = (float *)out->data + to;
        y_stride = stride;
    }
    for (int64_t o = begin; o < end; o += w->tile)
        w->kern->matmul_nt(count, mc_min(w->tile, end - o), w->depth, rows, w->row_stride,
                           w->w + (group * w->outs + o) * w->depth, w->depth, y + (o - begin),
                           y_stride);
    for (int64_t r = 0; !in_place && r < count; r++)
        mc_narrow(w->kern, out->layout->dtype, y + r * y_stride, end - begin, out->data,
                  to + r * stride);
}

static void run_units(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    for (int64_t unit = begin; unit < end; unit++)
        run_unit(w, unit, w->scratch + (size_t)worker * w->worker_bytes);
}

/* ---- planning ---- */

static work describe(const mc_call *call) {
    const mc_attr_conv *a = call->attr;
    const mc_layout *x = call->in[0].layout, *k = call->in[1].layout, *y = call->out.layout;
    int missing = 3 - (int)a->spatial;
    work w = {.call = call,
              .kern = mc_cpu_of(call)->kern,
              .n = x->shape[0],
              .taps = 1,
              .groups = a->groups,
              .flip = a->flip != 0};
    for (int i = 0; i < missing; i++)
        w.windows[i] = (mc_window){.length = 1, .size = 1, .stride = 1, .dilation = 1, .base = 1};
    mc_conv_windows(a, x, k, w.windows + missing);
    w.rows = w.n;
    w.direct = true;
    for (int i = 0; i < 3; i++) {
        const mc_window *d = &w.windows[i];
        w.places[i] = mc_window_count(d);
        w.rows *= w.places[i];
        w.taps *= d->size;
        w.direct &= d->size == 1 && d->stride == 1 && d->base == 1 && d->lo == 0 && d->hi == 0;
    }
    w.each = k->shape[k->ndim - 1];
    w.outs = y->shape[y->ndim - 1] / w.groups;
    w.depth = w.taps * w.each;
    return w;
}

/* Blocks of places, and ranges of channels if there are too few blocks for all threads. */
static void divide(work *w, int threads) {
    int64_t row_bytes = mc_max(w->depth, 1) * (int64_t)sizeof(float);
    w->row_stride = w->direct ? 0 : mc_matmul_row_stride(w->depth, sizeof(float));
    w->block = mc_min(mc_max(BLOCK_BYTES / row_bytes, BLOCK_MIN), BLOCK_MAX);
    w->block = mc_min(w->block, w->rows);
    w->blocks = (w->rows + w->block - 1) / w->block;
    int64_t tile = TILE_BYTES / row_bytes / TILE_STEP * TILE_STEP;
    w->tile = mc_min(mc_max(tile, TILE_STEP), w->outs);
    int64_t wanted = (int64_t)threads * UNITS_EACH, most = (w->outs + TILE_STEP - 1) / TILE_STEP;
    w->ranges = mc_min(mc_max(wanted / (w->groups * w->blocks), 1), most);
    w->range = ((w->outs + w->ranges - 1) / w->ranges + TILE_STEP - 1) / TILE_STEP * TILE_STEP;
    w->ranges = (w->outs + w->range - 1) / w->range;
    w->range = mc_min(w->range, w->outs);
}

static bool is_dense_f32(const mc_layout *l) {
    return l->dtype == MICA_F32 && mc_layout_is_dense(l);
}

static size_t pad(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

typedef struct widened {
    const mk_kernels *kern;
    const mc_operand *x;
    float *to;
} widened;

static void widen_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const widened *c = context;
    const mc_layout *l = c->x->layout;
    int last = l->ndim - 1;
    int64_t n = l->shape[last];
    mc_row_walk walk = mc_row_walk_begin(l, last, begin);
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&walk))
        mc_widen(c->kern, l->dtype, c->x->data, walk.offset, l->strides[last], n, c->to + r * n);
}

/* An operand as dense f32, copied to scratch. */
static void widen(const mc_call *call, const mc_operand *x, float *to) {
    const mc_layout *l = x->layout;
    widened c = {mc_cpu_of(call)->kern, x, to};
    int64_t n = l->shape[l->ndim - 1];
    mc_cpu_for(call, mc_row_count(l, l->ndim - 1), mc_grain(n), widen_rows, &c);
}

static mica_status take_memory(work *w) {
    const mc_call *call = w->call;
    const mc_operand *x = &call->in[0], *k = &call->in[1];
    bool wide = call->out.layout->dtype != MICA_F32;
    bool copies_kernel = !is_dense_f32(k->layout);
    size_t x_bytes = pad((size_t)mc_rows_scratch(x) * sizeof(float));
    size_t k_bytes = copies_kernel ? pad((size_t)mc_layout_size(k->layout) * sizeof(float)) : 0;
    w->block_bytes = w->direct ? 0 : pad((size_t)(w->block * w->row_stride) * sizeof(float));
    w->worker_bytes =
        w->block_bytes + (wide ? pad((size_t)(w->block * w->range) * sizeof(float)) : 0);
    size_t bytes = x_bytes + k_bytes + (size_t)mc_cpu_of(call)->threads * w->worker_bytes;
    char *memory = bytes ? mc_run_scratch(call->run, bytes) : NULL;
    if (bytes && !memory) return MICA_ENOMEM;
    mc_rows rows = mc_rows_get(call, x, (float *)(void *)memory);
    w->x = rows.data;
    w->x_stride = rows.stride;
    if (w->direct) w->row_stride = rows.stride;
    w->w = k->data;
    if (copies_kernel) {
        widen(call, k, (float *)(void *)(memory + x_bytes));
        w->w = (float *)(void *)(memory + x_bytes);
    }
    w->scratch = memory + x_bytes + k_bytes;
    return MICA_OK;
}

/* ---- a filter for each channel ---- */

typedef struct filters {
    const work *w;
    int64_t channels;
    const float *weights; /* [taps, channels] */
    const float *zeros;   /* [channels]: what is outside of x */
    char *scratch;        /* of each worker: taps pointers, a row of the result */
    size_t worker_bytes;
} filters;

/* The rows of x that a place of the result is made of, in the order of the kernel's taps. */
static void find_rows(const filters *f, int64_t row, const float **rows) {
    const work *w = f->w;
    const mc_window *d = w->windows;
    int64_t p2 = row % w->places[2], p1 = row / w->places[2] % w->places[1];
    int64_t p0 = row / w->places[2] / w->places[1] % w->places[0];
    int64_t n = row / w->places[2] / w->places[1] / w->places[0];
    for (int64_t i = 0; i < d[0].size; i++)
        for (int64_t j = 0; j < d[1].size; j++) {
            int64_t a = element_at(&d[0], p0, w->flip ? d[0].size - 1 - i : i);
            int64_t b = element_at(&d[1], p1, w->flip ? d[1].size - 1 - j : j);
            int64_t line = ((n * d[0].length + a) * d[1].length + b) * d[2].length;
            for (int64_t k = 0; k < d[2].size; k++, rows++) {
                int64_t c = element_at(&d[2], p2, w->flip ? d[2].size - 1 - k : k);
                *rows = a < 0 || b < 0 || c < 0 ? f->zeros : w->x + (line + c) * w->x_stride;
            }
        }
}

static void run_places(void *context, int64_t begin, int64_t end, int worker) {
    const filters *f = context;
    const work *w = f->w;
    const mc_operand *out = &w->call->out;
    char *scratch = f->scratch + (size_t)worker * f->worker_bytes;
    const float **rows = (const float **)(void *)scratch;
    float *wide = (float *)(void *)(scratch + pad((size_t)w->taps * sizeof *rows));
    for (int64_t r = begin; r < end; r++) {
        bool in_place = out->layout->dtype == MICA_F32;
        float *y = in_place ? (float *)out->data + r * f->channels : wide;
        find_rows(f, r, rows);
        w->kern->sum_taps(w->taps, f->channels, rows, f->weights, y);
        if (!in_place)
            mc_narrow(w->kern, out->layout->dtype, y, f->channels, out->data, r * f->channels);
    }
}

/* The kernel's elements of each tap side by side. */
static void transpose_weights(const filters *f, float *to) {
    for (int64_t c = 0; c < f->channels; c++)
        for (int64_t t = 0; t < f->w->taps; t++)
            to[t * f->channels + c] = f->w->w[c * f->w->taps + t];
}

static mica_status eval_depthwise(work *w) {
    const mc_call *call = w->call;
    const mc_operand *x = &call->in[0], *k = &call->in[1];
    filters f = {.w = w, .channels = w->groups};
    bool copies_kernel = !is_dense_f32(k->layout);
    size_t floats = pad((size_t)f.channels * sizeof(float));
    size_t x_bytes = pad((size_t)mc_rows_scratch(x) * sizeof(float));
    size_t k_bytes = pad((size_t)mc_layout_size(k->layout) * sizeof(float));
    f.worker_bytes = pad((size_t)w->taps * sizeof(float *)) + floats;
    size_t bytes = x_bytes + (copies_kernel ? 2 : 1) * k_bytes + floats +
                   (size_t)mc_cpu_of(call)->threads * f.worker_bytes;
    char *memory = mc_run_scratch(call->run, bytes);
    if (!memory) return MICA_ENOMEM;
    if (mc_run_is_measured(call->run)) return MICA_OK;
    float *transposed = (float *)(void *)(memory + x_bytes);
    float *zeros = (float *)(void *)(memory + x_bytes + k_bytes);
    float *wide = (float *)(void *)(memory + x_bytes + k_bytes + floats);
    mc_rows rows = mc_rows_get(call, x, (float *)(void *)memory);
    w->x = rows.data;
    w->x_stride = rows.stride;
    w->w = k->data;
    if (copies_kernel) {
        widen(call, k, wide);
        w->w = wide;
    }
    transpose_weights(&f, transposed);
    memset(zeros, 0, floats);
    f.weights = transposed;
    f.zeros = zeros;
    f.scratch = (char *)wide + (copies_kernel ? k_bytes : 0);
    mc_cpu_for(call, w->rows, mc_grain(w->taps * f.channels), run_places, &f);
    return MICA_OK;
}

mica_status mc_eval_conv(const mc_call *call) {
    work w = describe(call);
    int64_t kernel = mc_layout_size(call->in[1].layout);
    if (mc_layout_size(call->out.layout) == 0) return MICA_OK;
    if (kernel > MAX_KERNEL)
        return mc_fail(MICA_ENOMEM, "out of memory: conv_general: a kernel of %lld numbers",
                       (long long)kernel);
    if (w.each == 1 && w.outs == 1 && w.groups >= DEPTHWISE_MIN) return eval_depthwise(&w);
    divide(&w, mc_cpu_of(call)->threads);
    MC_TRY(take_memory(&w));
    if (mc_run_is_measured(call->run)) return MICA_OK;
    mc_cpu_for(call, w.groups * w.blocks * w.ranges, mc_grain(w.block * w.range * w.depth),
               run_units, &w);
    return MICA_OK;
}
