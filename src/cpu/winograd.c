/* A unit of work is a block of tiles and a range of output channels: the tiles' elements are
 * transformed, and then, 4 panels of filters at a time, multiplied, one of their 16 numbers after
 * the other, and transformed back. What follows element by element is done to the block's results
 * (cpu/tail.h). */
#include "cpu/winograd.h"

#include <string.h>

#include "base/integer.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "cpu/tail.h"
#include "graph/window.h"

#define BLOCK_BYTES (512 * 1024) /* of a unit's transformed elements and sums */
#define BLOCK_MIN 18             /* tiles of a block: multiples of the rows of a kernel's tile */
#define BLOCK_STEP 6
#define TOGETHER (4 * MK_PANEL) /* output channels */
#define UNITS_EACH 4            /* units for a thread, at least */
#define TILES_MIN 32 /* of an image: fewer do not pay for reading filters of 16 numbers */
#define CHANNELS_MIN 16
#define PARTS 16 /* numbers of a tile, and of a filter */

typedef struct work {
    const mc_call *call;
    const mk_kernels *kern;
    int64_t h, w, c;          /* of x */
    int64_t out_h, out_w, n;  /* of the result */
    int64_t top, left;        /* zeros before x */
    int64_t tiles_w, tiles_h; /* of an image */
    int64_t tiles, panels;
    const float *x, *zeros; /* x [images, h, w], pixels x_step apart; [c] */
    int64_t x_step;
    const float *filters; /* [PARTS, panels, c, MK_PANEL] */
    float *made;          /* the same, to be filled in this run; NULL: they are there */
    int64_t block, blocks, range, ranges;
    mc_tail tail;
    char *scratch; /* of each worker: a list of rows, transformed elements, sums; or a filter */
    size_t worker_bytes, list_bytes, in_bytes;
} work;

static size_t pad(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* ---- filters ---- */

/* What scratch making a panel takes, in floats: of MK_PANEL filters their 16 numbers. */
static int64_t filter_floats(int64_t c) {
    return PARTS * MK_PANEL * c;
}

/* Of a filter w [3, 3, c] its numbers, `step` apart. */
static void make_filter(int64_t c, const float *w, float *to, int64_t step) {
    for (int64_t l = 0; l < c; l++) {
        float a[4][3];
        for (int k = 0; k < 3; k++) {
            float g0 = w[k * c + l], g1 = w[(3 + k) * c + l], g2 = w[(6 + k) * c + l];
            a[0][k] = g0;
            a[1][k] = 0.5f * (g0 + g1 + g2);
            a[2][k] = 0.5f * (g0 - g1 + g2);
            a[3][k] = g2;
        }
        for (int i = 0; i < 4; i++) {
            const float *g = a[i];
            float *at = to + 4 * i * step + l;
            at[0] = g[0];
            at[step] = 0.5f * (g[0] + g[1] + g[2]);
            at[2 * step] = 0.5f * (g[0] - g[1] + g[2]);
            at[3 * step] = g[2];
        }
    }
}

/* A panel of filters w [n, 3, 3, c]; scratch [filter_floats]. */
static void make_panel(const mk_kernels *kern, const float *w, int64_t n, int64_t c, int64_t panel,
                       float *scratch, float *to) {
    int64_t panels = (n + MK_PANEL - 1) / MK_PANEL, first = panel * MK_PANEL;
    int64_t count = mc_min(MK_PANEL, n - first);
    for (int64_t i = 0; i < count; i++)
        make_filter(c, w + (first + i) * 9 * c, scratch + i * c, MK_PANEL * c);
    for (int64_t t = 0; t < PARTS; t++)
        kern->conv_pack(count, c, scratch + t * MK_PANEL * c, c,
                        to + (t * panels + panel) * c * MK_PANEL);
}

static void make_panels(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    float *scratch = (float *)(void *)(w->scratch + (size_t)worker * w->worker_bytes);
    for (int64_t panel = begin; panel < end; panel++)
        make_panel(w->kern, w->call->in[1].data, w->n, w->c, panel, scratch, w->made);
}

/* ---- units ---- */

typedef struct tile {
    int64_t image, i, j;
} tile;

static tile tile_of(const work *w, int64_t number) {
    int64_t row = number / w->tiles_w;
    return (tile){row / w->tiles_h, row % w->tiles_h, number % w->tiles_w};
}

static void next_tile(const work *w, tile *t) {
    if (++t->j < w->tiles_w) return;
    t->j = 0;
    if (++t->i < w->tiles_h) return;
    t->i = 0;
    t->image++;
}

/* Where the elements of a tile of x are. */
static void find_elements(const work *w, const tile *t, const float *rows[PARTS]) {
    for (int64_t i = 0; i < 4; i++) {
        int64_t y = 2 * t->i + i - w->top, x = 2 * t->j - w->left;
        const float *line = w->x + (t->image * w->h + y) * w->w * w->x_step;
        bool inside = y >= 0 && y < w->h;
        for (int64_t j = 0; j < 4; j++, x++)
            rows[4 * i + j] = inside && x >= 0 && x < w->w ? line + x * w->x_step : w->zeros;
    }
}

/* The rows of the result, [images, out_h, out_w], of a tile; -1: it is none. */
static void find_results(const work *w, const tile *t, int64_t at[4]) {
    for (int64_t i = 0; i < 4; i++) {
        int64_t y = 2 * t->i + i / 2, x = 2 * t->j + i % 2;
        at[i] = y < w->out_h && x < w->out_w ? (t->image * w->out_h + y) * w->out_w + x : -1;
    }
}

static void transform_in(const work *w, int64_t first, int64_t count, float *v) {
    tile t = tile_of(w, first);
    for (int64_t r = 0; r < count; r++, next_tile(w, &t)) {
        const float *rows[PARTS];
        find_elements(w, &t, rows);
        w->kern->conv_tile_in(w->c, rows, v + r * w->c, count * w->c);
    }
}

/* Channels [begin, end), no more than TOGETHER, whose panels begin there. */
static void multiply(const work *w, int64_t first, int64_t count, int64_t begin, int64_t end,
                     const float *const *list, float *sums) {
    const mk_epilogue none = {0}, last = mc_tail_end(&w->tail, 0, begin);
    const mk_terms terms = {.taps = 1, .apart = 1, .c = w->c};
    int64_t at[4];
    for (int64_t t = 0; t < PARTS; t++) {
        const float *filters = w->filters + (t * w->panels + begin / MK_PANEL) * w->c * MK_PANEL;
        w->kern->conv_panels(count, end - begin, &terms, list + t * count, filters, &none,
                             sums + t * count * TOGETHER, TOGETHER);
    }
    tile to = tile_of(w, first);
    for (int64_t r = 0; r < count; r++, next_tile(w, &to)) {
        find_results(w, &to, at);
        w->kern->conv_tile_out(end - begin, sums + r * TOGETHER, count * TOGETHER, &last, at,
                               (float *)w->call->out.data + begin, w->n);
    }
}

/* The steps behind, of all results of tiles that lie side by side at once where they can be. */
static void finish(const work *w, int64_t first, int64_t count, int64_t begin, int64_t end,
                   int worker) {
    tile t = tile_of(w, first);
    bool whole = end - begin == w->n;
    for (int64_t r = 0, beside; r < count; r += beside) {
        beside = mc_min(count - r, w->tiles_w - t.j);
        int64_t from = 2 * t.j, to = mc_min(from + 2 * beside, w->out_w);
        for (int64_t y = 2 * t.i; y < mc_min(2 * t.i + 2, w->out_h); y++) {
            int64_t line = (t.image * w->out_h + y) * w->out_w;
            if (whole) mc_tail_run(&w->tail, (line + from) * w->n, (line + to) * w->n, worker);
            for (int64_t x = line + from; !whole && x < line + to; x++)
                mc_tail_run(&w->tail, x * w->n + begin, x * w->n + end, worker);
        }
        t.j += beside - 1;
        next_tile(w, &t);
    }
}

static void run_unit(const work *w, int64_t unit, int worker) {
    int64_t range = unit % w->ranges, block = unit / w->ranges;
    int64_t first = block * w->block, count = mc_min(w->block, w->tiles - first);
    int64_t begin = range * w->range, end = mc_min(begin + w->range, w->n);
    char *scratch = w->scratch + (size_t)worker * w->worker_bytes;
    const float **list = (const float **)(void *)scratch;
    float *v = (float *)(void *)(scratch + w->list_bytes);
    float *sums = (float *)(void *)(scratch + w->list_bytes + w->in_bytes);
    transform_in(w, first, count, v);
    for (int64_t r = 0; r < PARTS * count; r++)
        list[r] = v + r * w->c;
    for (int64_t j = begin; j < end; j += TOGETHER)
        multiply(w, first, count, j, mc_min(j + TOGETHER, end), list, sums);
    if (w->tail.chain.n > 0) finish(w, first, count, begin, end, worker);
}

static void run_units(void *context, int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end; unit++)
        run_unit(context, unit, worker);
}

/* ---- planning ---- */

bool mc_winograd_fits(const mc_call *call) {
    const mc_attr_conv *a = call->attr;
    const mc_layout *x = call->in[0].layout, *w = call->in[1].layout, *y = call->out.layout;
    if (x->ndim != 4 || a->groups != 1 || a->flip || w->dtype != MICA_F32 || y->dtype != MICA_F32 ||
        !mc_layout_is_dense(w))
        return false;
    for (int k = 0; k < 2; k++)
        if (w->shape[1 + k] != 3 || a->stride[k] != 1 || a->kernel_dilation[k] != 1 ||
            a->input_dilation[k] != 1 || a->padding_lo[k] < 0 || a->padding_hi[k] < 0)
            return false;
    return w->shape[0] >= CHANNELS_MIN && w->shape[3] >= CHANNELS_MIN && x->shape[0] > 0 &&
           (y->shape[1] + 1) / 2 * ((y->shape[2] + 1) / 2) >= TILES_MIN;
}

static int64_t filters_of(const mc_layout *w) {
    return PARTS * ((w->shape[0] + MK_PANEL - 1) / MK_PANEL) * MK_PANEL * w->shape[3];
}

static void describe(const mc_call *call, work *w) {
    const mc_attr_conv *a = call->attr;
    const mc_layout *x = call->in[0].layout, *y = call->out.layout;
    *w = (work){.call = call, .kern = mc_cpu_of(call)->kern, .h = x->shape[1], .w = x->shape[2]};
    w->c = x->shape[3];
    w->out_h = y->shape[1];
    w->out_w = y->shape[2];
    w->n = y->shape[3];
    w->top = a->padding_lo[0];
    w->left = a->padding_lo[1];
    w->tiles_h = (w->out_h + 1) / 2;
    w->tiles_w = (w->out_w + 1) / 2;
    w->tiles = x->shape[0] * w->tiles_h * w->tiles_w;
    w->panels = (w->n + MK_PANEL - 1) / MK_PANEL;
}

/* Blocks of tiles, and ranges of channels if there are too few blocks for all threads. */
static void divide(work *w, int threads) {
    int64_t wanted = threads > 1 ? (int64_t)threads * UNITS_EACH : 1;
    int64_t bytes = PARTS * (w->c + TOGETHER) * (int64_t)sizeof(float);
    w->block = mc_max(BLOCK_BYTES / bytes / BLOCK_STEP * BLOCK_STEP, BLOCK_MIN);
    w->block = mk_block_rows(w->tiles, w->block);
    w->block = mc_min((w->block + BLOCK_STEP - 1) / BLOCK_STEP * BLOCK_STEP, w->tiles);
    w->blocks = (w->tiles + w->block - 1) / w->block;
    int64_t groups = (w->n + TOGETHER - 1) / TOGETHER;
    w->ranges = mc_min(mc_max(wanted / w->blocks, 1), groups);
    w->range = (groups + w->ranges - 1) / w->ranges * TOGETHER;
    w->ranges = (w->n + w->range - 1) / w->range;
    w->list_bytes = pad((size_t)(PARTS * w->block) * sizeof(float *));
    w->in_bytes = pad((size_t)(PARTS * w->block * w->c) * sizeof(float));
    w->worker_bytes =
        w->list_bytes + w->in_bytes + pad((size_t)(PARTS * w->block * TOGETHER) * sizeof(float));
}

/* Takes scratch and prepares what is in it. *done: there is nothing else to do. */
static mica_status prepare(work *w, bool *done) {
    const mc_call *call = w->call;
    const mc_operand *x = &call->in[0];
    size_t x_bytes = pad((size_t)mc_rows_scratch(x) * sizeof(float));
    size_t zeros = pad((size_t)w->c * sizeof(float));
    size_t filters =
        call->prepared ? 0 : pad((size_t)filters_of(call->in[1].layout) * sizeof(float));
    size_t filter = filters ? pad((size_t)filter_floats(w->c) * sizeof(float)) : 0;
    if (filter > w->worker_bytes) w->worker_bytes = filter;
    MC_TRY(mc_tail_measure(call, w->n, &w->tail));
    size_t bytes = x_bytes + zeros + filters + pad(w->tail.bytes);
    char *memory =
        mc_run_scratch(call->run, bytes + (size_t)mc_cpu_of(call)->threads * w->worker_bytes);
    *done = mc_run_is_measured(call->run);
    if (*done) return MICA_OK;
    if (!memory) return MICA_ENOMEM;
    w->scratch = memory + bytes;
    w->zeros = memset(memory + x_bytes, 0, zeros);
    if (!call->prepared) w->made = (float *)(void *)(memory + x_bytes + zeros);
    w->filters = call->prepared ? call->prepared : w->made;
    mc_rows rows = mc_rows_get(call, x, (float *)(void *)memory);
    w->x = rows.data;
    w->x_step = rows.stride;
    return mc_tail_prepare(call, w->n, memory + x_bytes + zeros + filters, &w->tail);
}

mica_status mc_winograd_eval(const mc_call *call) {
    work w;
    bool done;
    describe(call, &w);
    divide(&w, mc_cpu_of(call)->threads);
    MC_TRY(prepare(&w, &done));
    if (done) return MICA_OK;
    if (w.made) mc_cpu_for(call, w.panels, mc_grain(filter_floats(w.c)), make_panels, &w);
    mc_cpu_for(call, w.blocks * w.ranges, mc_grain(w.block * w.range * w.c * PARTS), run_units, &w);
    return MICA_OK;
}

/* ---- constants ---- */

mc_prepare mc_winograd_prepares(const mc_call *call) {
    const mc_layout *w = call->in[1].layout;
    return (mc_prepare){.operand = 1,
                        .form = MC_FORM_WINOGRAD,
                        .bytes = (size_t)filters_of(w) * sizeof(float),
                        .scratch_bytes = (size_t)filter_floats(w->shape[3]) * sizeof(float)};
}

void mc_winograd_prepare(const mc_call *call, const mc_prepare *what, void *scratch, void *to) {
    const mc_layout *w = call->in[1].layout;
    (void)what;
    for (int64_t panel = 0; panel < (w->shape[0] + MK_PANEL - 1) / MK_PANEL; panel++)
        make_panel(mc_cpu_of(call)->kern, call->in[1].data, w->shape[0], w->shape[3], panel,
                   scratch, to);
}
