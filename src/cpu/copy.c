#include "cpu/copy.h"

#include <string.h>

#include "cpu/cpu.h"
#include "cpu/region.h"

#define FILL_BYTES 4096
#define TILE 32 /* max rows and columns: a tile of f32 fits the first-level cache */

/* Copies n elements, steps in bytes. Inlined with a constant item size, an element is one move. */
static inline void copy_items(char *to, int64_t to_step, const char *from, int64_t from_step,
                              int64_t n, size_t item) {
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_step, from + i * from_step, item);
}

/* Repeats one element: copies what is already written, up to as much as a cache holds. */
static void fill_items(char *to, const char *from, int64_t bytes, int64_t item) {
    memcpy(to, from, (size_t)item);
    for (int64_t done = item, n; done < bytes; done += n) {
        n = done < FILL_BYTES ? done : FILL_BYTES;
        if (n > bytes - done) n = bytes - done;
        memcpy(to + done, to, (size_t)n);
    }
}

static void copy_row(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                     int64_t item) {
    if (to_step == item && from_step == item) {
        memcpy(to, from, (size_t)(n * item));
        return;
    }
    if (to_step == item && from_step == 0 && n > 0) {
        fill_items(to, from, n * item, item);
        return;
    }
    switch (item) {
    case 1:
        copy_items(to, to_step, from, from_step, n, 1);
        break;
    case 2:
        copy_items(to, to_step, from, from_step, n, 2);
        break;
    case 4:
        copy_items(to, to_step, from, from_step, n, 4);
        break;
    default:
        copy_items(to, to_step, from, from_step, n, 8);
        break;
    }
}

/* If the source is dense along another axis than the target, makes that axis the last but one. */
static void order_for_tiles(mc_copy *c) {
    int last = c->ndim - 1;
    if (c->from_step[last] == c->item || c->to_step[last] != c->item) return;
    int dense = last - 1;
    while (dense >= 0 && (c->from_step[dense] != c->item || c->shape[dense] == 1))
        dense--;
    if (dense < 0) return;
    int64_t length = c->shape[dense], to = c->to_step[dense], from = c->from_step[dense];
    for (int k = dense; k < last - 1; k++) {
        c->shape[k] = c->shape[k + 1];
        c->to_step[k] = c->to_step[k + 1];
        c->from_step[k] = c->from_step[k + 1];
    }
    c->shape[last - 1] = length;
    c->to_step[last - 1] = to;
    c->from_step[last - 1] = from;
    c->tiled = true;
}

void mc_copy_init(mc_copy *c, const mc_layout *to, const mc_layout *from) {
    *c = (mc_copy){.item = (int64_t)mica_dtype_bytes(to->dtype), .ndim = 2};
    if (mc_layout_size(to) == 0) return;
    int n = 0;
    for (int k = 0; k < to->ndim; k++) {
        if (to->shape[k] == 1) continue;
        int64_t to_step = to->strides[k] * c->item, from_step = from->strides[k] * c->item;
        if (n > 0 && c->to_step[n - 1] == to_step * to->shape[k] &&
            c->from_step[n - 1] == from_step * to->shape[k]) {
            c->shape[n - 1] *= to->shape[k];
        } else {
            c->shape[n++] = to->shape[k];
        }
        c->to_step[n - 1] = to_step;
        c->from_step[n - 1] = from_step;
    }
    if (n < 2) { /* one row: [1, length] */
        c->shape[1] = n == 1 ? c->shape[0] : 1;
        c->to_step[1] = n == 1 ? c->to_step[0] : c->item;
        c->from_step[1] = n == 1 ? c->from_step[0] : c->item;
        c->shape[0] = 1;
        c->to_step[0] = c->from_step[0] = 0;
        return;
    }
    c->ndim = n;
    order_for_tiles(c);
}

/* The number of units of work: a unit is up to TILE rows of the last two axes. */
static int64_t units_of(const mc_copy *c) {
    int64_t units = (c->shape[c->ndim - 2] + TILE - 1) / TILE;
    for (int k = 0; k < c->ndim - 2; k++)
        units *= c->shape[k];
    return units;
}

/* Copies `rows` rows of the last axis. */
static void copy_unit(const mc_copy *c, char *to, const char *from, int64_t rows) {
    int row = c->ndim - 2, last = c->ndim - 1;
    int64_t width = c->tiled ? TILE : c->shape[last];
    for (int64_t j = 0; j < c->shape[last]; j += width) {
        int64_t n = c->shape[last] - j < width ? c->shape[last] - j : width;
        char *tile_to = to + j * c->to_step[last];
        const char *tile_from = from + j * c->from_step[last];
        for (int64_t i = 0; i < rows; i++)
            copy_row(tile_to + i * c->to_step[row], c->to_step[last],
                     tile_from + i * c->from_step[row], c->from_step[last], n, c->item);
    }
}

static void copy_units(const mc_copy *c, char *to, const char *from, int64_t begin, int64_t end) {
    int row = c->ndim - 2;
    int64_t blocks = (c->shape[row] + TILE - 1) / TILE, coords[MICA_MAX_NDIM] = {0};
    int64_t block = begin % blocks, rest = begin / blocks;
    for (int k = row - 1; k >= 0; k--) {
        coords[k] = rest % c->shape[k];
        rest /= c->shape[k];
        to += coords[k] * c->to_step[k];
        from += coords[k] * c->from_step[k];
    }
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = block * TILE, rows = c->shape[row] - first;
        copy_unit(c, to + first * c->to_step[row], from + first * c->from_step[row],
                  rows < TILE ? rows : TILE);
        if (++block < blocks) continue;
        block = 0;
        for (int k = row - 1; k >= 0; k--) {
            to += c->to_step[k];
            from += c->from_step[k];
            if (++coords[k] < c->shape[k]) break;
            to -= c->shape[k] * c->to_step[k];
            from -= c->shape[k] * c->from_step[k];
            coords[k] = 0;
        }
    }
}

void mc_copy_at(const mc_copy *copy, void *to, const void *from) {
    if (copy->shape[0] > 0) copy_units(copy, to, from, 0, units_of(copy));
}

typedef struct copy_work {
    const mc_copy *copy;
    char *to;
    const char *from;
} copy_work;

static void run_units(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const copy_work *work = context;
    copy_units(work->copy, work->to, work->from, begin, end);
}

static void run_row(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const copy_work *work = context;
    const mc_copy *c = work->copy;
    copy_row(work->to + begin * c->to_step[1], c->to_step[1], work->from + begin * c->from_step[1],
             c->from_step[1], end - begin, c->item);
}

void mc_copy_run(const mc_call *call, const mc_copy *copy, void *to, const void *from) {
    if (copy->shape[0] == 0) return;
    copy_work work = {copy, to, from};
    if (copy->ndim == 2 && copy->shape[0] == 1) {
        mc_cpu_for(call, copy->shape[1], MC_COPY_GRAIN / copy->item, run_row, &work);
        return;
    }
    int64_t rows = copy->shape[copy->ndim - 2] < TILE ? copy->shape[copy->ndim - 2] : TILE;
    int64_t unit_bytes = rows * copy->shape[copy->ndim - 1] * copy->item;
    mc_cpu_for(call, units_of(copy), MC_COPY_GRAIN / unit_bytes, run_units, &work);
}

void mc_copy_base(const mc_call *call, const mc_operand *base) {
    if (call->out.data == base->data) return;
    mc_copy copy;
    mc_copy_init(&copy, call->out.layout, base->layout);
    mc_copy_run(call, &copy, call->out.data, base->data);
}
