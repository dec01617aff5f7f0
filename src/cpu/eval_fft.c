/* The discrete Fourier transform of rows of complex numbers, [rows, n, 2] f32.
 *
 * Lengths with small prime factors: Stockham's algorithm, a pass a factor, which needs no
 * reordering. Other lengths: Bluestein's algorithm, the transform as a convolution with a chirp, by
 * transforms of a length with small factors. Real and imaginary parts are kept apart within a row,
 * so that loops become vector code (kern/fft). The inverse transform is the forward one with both
 * exchanged. Roots are made in double, and kept by the device (fft_tables.h). A row is computed by
 * one thread.
 *
 * source  Stockham 1966; Bluestein 1970. */
#include <string.h>

#include "base/integer.h"
#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/fft_tables.h"
#include "cpu/region.h"
#include "cpu/rows.h"
#include "graph/attr.h"

typedef struct work {
    const mc_call *call;
    const mk_kernels *kern;
    int64_t n, rows;
    int64_t length; /* of the transforms by which a row is computed */
    bool inverse;
    const mc_fft_tables *tables;
    const float *x;
    float *scratch; /* 4 length a worker */
} work;

/* ---- rows ---- */

static mc_parts swapped(mc_parts x) {
    return (mc_parts){x.im, x.re};
}

/* x [n, 2] to its parts. */
static void load_row(const work *w, const float *x, mc_parts to) {
    if (w->inverse) to = swapped(to);
    for (int64_t k = 0; k < w->n; k++) {
        to.re[k] = x[2 * k];
        to.im[k] = x[2 * k + 1];
    }
}

static void store_row(const work *w, mc_parts from, float *y) {
    if (w->inverse) from = swapped(from);
    for (int64_t k = 0; k < w->n; k++) {
        y[2 * k] = from.re[k];
        y[2 * k + 1] = from.im[k];
    }
}

static void multiply(const work *w, mc_parts x, mc_parts by, int64_t n) {
    w->kern->fft_multiply(n, x.re, x.im, by.re, by.im);
}

static void run_row(const work *w, int64_t row, float *scratch) {
    int64_t n = w->length;
    const mc_fft_tables *t = w->tables;
    mc_parts x = {scratch, scratch + n}, y = {scratch + 2 * n, scratch + 3 * n};
    load_row(w, w->x + 2 * row * w->n, x);
    if (t->chirped) {
        size_t rest = (size_t)(n - w->n) * sizeof(float);
        memset(x.re + w->n, 0, rest);
        memset(x.im + w->n, 0, rest);
        multiply(w, x, t->chirp, w->n);
        mc_parts both = mc_fft_transform(w->kern, &t->plan, x, y);
        multiply(w, both, t->filter, n);
        both = mc_fft_transform(w->kern, &t->plan, swapped(both), swapped(both.re == x.re ? y : x));
        x = swapped(both);
        multiply(w, x, t->chirp, w->n);
    } else {
        x = mc_fft_transform(w->kern, &t->plan, x, y);
    }
    store_row(w, x, (float *)w->call->out.data + 2 * row * w->n);
}

static void run_rows(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    for (int64_t row = begin; row < end; row++)
        run_row(w, row, w->scratch + (int64_t)worker * 4 * w->length);
}

/* ---- memory ---- */

/* As dense f32. */
static void copy_operand(const mc_operand *x, int64_t size, float *to) {
    mc_block block;
    for (int64_t at = 0; at < size; at += MC_BLOCK) {
        int64_t n = mc_min(size - at, MC_BLOCK);
        memcpy(to + at, mc_block_f32(x, at, n, &block), (size_t)n * sizeof *to);
    }
}

/* Scratch: for each thread two rows, and a dense copy of x where it is not. */
static mica_status prepare(work *w) {
    const mc_call *call = w->call;
    const mc_operand *x = &call->in[0];
    int64_t threads = mc_cpu_of(call)->threads, floats = threads * 4 * w->length;
    bool dense = x->layout->dtype == MICA_F32 && mc_layout_is_dense(x->layout);
    int64_t size = dense ? 0 : mc_layout_size(x->layout);
    float *memory = mc_run_scratch(call->run, (size_t)(floats + size) * sizeof *memory);
    if (!memory) return MICA_ENOMEM;
    w->scratch = memory;
    w->x = x->data;
    if (!dense) {
        copy_operand(x, size, memory + floats);
        w->x = memory + floats;
    }
    return MICA_OK;
}

mica_status mc_eval_fft(const mc_call *call) {
    const mc_attr_fft *a = call->attr;
    const mc_layout *x = call->in[0].layout;
    const mc_cpu *cpu = mc_cpu_of(call);
    mc_fft_tables *tables;
    work w = {.call = call,
              .kern = cpu->kern,
              .n = x->shape[x->ndim - 2],
              .rows = mc_row_count(x, x->ndim - 2),
              .inverse = a->inverse != 0};
    if (w.n == 0 || w.rows == 0) return MICA_OK;
    w.length = mc_fft_length(w.n);
    MC_TRY(prepare(&w));
    MC_TRY(mc_fft_tables_get(cpu->fft, cpu->kern, w.n, &tables));
    w.tables = tables;
    mc_cpu_for(call, w.rows, mc_grain(w.length * 16), run_rows, &w);
    mc_fft_tables_release(cpu->fft, tables);
    return MICA_OK;
}
