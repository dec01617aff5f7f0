/* Matmuls with matrices that indices pick, such as those of a token and its experts.
 *
 * The rows of x are sorted by the matrix of w that they meet, and each of these is multiplied by
 * all its rows at once. A row is brought into the form of the kernels once, and copied to each
 * place where it is needed. Joint matmuls with the same indices share all that. The kernels are
 * those of MATMUL and QUANTIZED_MATMUL, so a row has the bits that it has there. */
#include "cpu/eval.h"

#include <string.h>

#include "base/integer.h"
#include "cpu/dense.h"
#include "cpu/picks.h"
#include "cpu/prefetch.h"
#include "cpu/quant.h"
#include "cpu/region.h"
#include "cpu/rows.h"

#define BLOCK 256 /* max rows of x of a unit of work */

/* A matmul of any kind by one of the matrices. */
typedef union product {
    mc_matmul p;
    mc_dense_matmul dense;
    mc_quant_matmul quant;
} product;

/* Sorted rows of x that meet one matrix. */
typedef struct block {
    int64_t w, first, rows;
} block;

/* One matmul of the region. */
typedef struct part {
    const mc_call *call;
    const mc_form *form;
    int64_t tile, tiles; /* columns of a unit of work; units of a block */
    int64_t first;       /* its first unit */
} part;

typedef struct work {
    const mk_kernels *kern;
    part parts[MC_MAX_JOINT];
    int n;
    mc_picks picks;
    int64_t m, k; /* rows of x at a place, their length */
    int64_t rows; /* of all places */
    mc_forms forms;
    block *blocks;
    int64_t n_blocks;
    float *row;       /* [workers, k]: rows of x that are not f32 */
    int64_t y_floats; /* a worker's scratch: for results, and for the matmul's own use */
    size_t y_bytes, own_bytes;
    char *scratch;
} work;

/* The operand that is the indices of x; those of w follow. */
static int indices_of(const mc_call *call) {
    return call->op == MC_OP_GATHER_QMM ? 4 : 2;
}

static void describe(const mc_call *call, int64_t m, product *to) {
    if (call->op == MC_OP_GATHER_MM) {
        mc_dense_describe_picked(call, m, &to->dense);
    } else {
        mc_quant_describe_picked(call, m, &to->quant);
        mc_quant_set_kind(&to->quant);
    }
}

/* ---- rows ---- */

static void copy_row(int64_t k, const float *x, float *y) {
    memcpy(y, x, (size_t)k * sizeof *y);
}

/* Makes rows begin .. end - 1 of x, each where it is first needed, and copies them. */
static void make_rows(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    const mc_picks *picks = &w->picks;
    const mc_operand *x = &w->parts[0].call->in[MC_MATMUL_X];
    const mc_layout *l = x->layout;
    int last = l->ndim - 1;
    for (int64_t r = begin; r < end; r++) {
        int64_t matrix = r / w->m, i = r % w->m;
        int64_t at = picks->x_first[matrix], to = picks->x_first[matrix + 1];
        if (at == to) continue;
        const float *row = mc_row_see(w->kern, l->dtype, x->data, mc_row_offset(l, last, r),
                                      l->strides[last], w->k, w->row + worker * w->k);
        int64_t made = picks->of_x[at] * w->m + i;
        mc_forms_make(&w->forms, w->kern, w->k, row, w->k, made, 1);
        while (++at < to)
            mc_forms_copy(&w->forms, w->k, made, picks->of_x[at] * w->m + i);
    }
}

/* ---- columns of results ---- */

/* The row of the result that a sorted row of x gives. */
static int64_t result_row(const work *w, int64_t row) {
    return w->picks.places[row / w->m] * w->m + row % w->m;
}

static bool is_direct(const work *w, const part *at, const block *b) {
    int64_t apart = result_row(w, b->first + b->rows - 1) - result_row(w, b->first);
    return at->call->out.layout->dtype == MICA_F32 && apart == b->rows - 1;
}

static void run_columns(const work *w, const part *at, const block *b, const mc_matmul *p,
                        bool direct, int64_t first, int64_t count, int worker) {
    const mc_operand *out = &at->call->out;
    char *scratch = w->scratch + (size_t)worker * (w->y_bytes + w->own_bytes);
    float *y = (float *)(void *)scratch;
    if (direct) y = (float *)out->data + result_row(w, b->first) * p->n + first;
    mc_form x = mc_form_at(at->form, b->first);
    p->columns(p, &x, b->w, first, count, scratch + w->y_bytes, y, direct ? p->n : count);
    for (int64_t i = 0; !direct && i < b->rows; i++)
        mc_narrow(w->kern, out->layout->dtype, y + i * count, count, out->data,
                  result_row(w, b->first + i) * p->n + first);
}

/* Tiles that the matmul takes at once, of `left`. */
static int64_t tiles_at_once(const work *w, const part *at, const mc_matmul *p, bool direct,
                             int64_t left) {
    if (!p->runs) return 1;
    return direct ? left : mc_min(left, mc_max(1, w->y_floats / (p->m * at->tile)));
}

static void run_units(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    const part *at = w->parts;
    const block *b = NULL;
    product matmul;
    bool direct = false;
    for (int64_t unit = begin, units; unit < end; unit += units) {
        while (unit - at->first >= w->n_blocks * at->tiles) {
            at++;
            b = NULL;
        }
        int64_t tile = (unit - at->first) % at->tiles;
        const block *next = &w->blocks[(unit - at->first) / at->tiles];
        if (next != b) {
            b = next;
            describe(at->call, b->rows, &matmul);
            direct = is_direct(w, at, b);
        }
        int64_t left = mc_min(end - unit, at->tiles - tile);
        units = tiles_at_once(w, at, &matmul.p, direct, left);
        int64_t first = tile * at->tile, count = mc_min(units * at->tile, matmul.p.n - first);
        run_columns(w, at, b, &matmul.p, direct, first, count, worker);
    }
}

/* ---- planning and running ---- */

/* Describes the parts by the largest block that there may be. */
static void plan_parts(work *w, const mc_call *calls) {
    const int64_t rows = mc_min(w->rows, BLOCK);
    for (int i = 0; i < w->n; i++) {
        part *at = &w->parts[i];
        product matmul;
        describe(&calls[i], rows, &matmul);
        const mc_matmul *p = &matmul.p;
        mc_form form = p->form;
        if (form.kind == MC_FORM_F32)
            form = (mc_form){.kind = MC_FORM_ARRANGED, .arrange = copy_row};
        *at = (part){.call = &calls[i], .form = mc_forms_find(&w->forms, &form), .tile = p->tile};
        at->tiles = (p->n - 1) / p->tile + 1;
        w->y_floats = mc_max(w->y_floats, rows * p->tile);
        if (p->scratch_bytes > w->own_bytes) w->own_bytes = p->scratch_bytes;
    }
    w->own_bytes = mc_scratch_pad(w->own_bytes);
    w->y_bytes = mc_scratch_pad((size_t)w->y_floats * sizeof(float));
}

static void cut_memory(work *w, const mc_call *call, mc_scratch *from) {
    int threads = mc_cpu_of(call)->threads;
    mc_picks_cut(&w->picks, call, from);
    int64_t blocks = mc_min(w->picks.n, w->picks.n_w) + w->rows / BLOCK;
    w->blocks = mc_scratch_cut(from, blocks, sizeof *w->blocks);
    w->row = mc_scratch_cut(from, threads * w->k, sizeof *w->row);
    mc_forms_cut(&w->forms, w->rows, w->k, from);
    w->scratch = mc_scratch_cut(from, threads, w->y_bytes + w->own_bytes);
}

/* Cuts the rows of each matrix into blocks of about the same size. */
static void find_blocks(work *w) {
    const int64_t *first = w->picks.w_first;
    for (int64_t matrix = 0; matrix < w->picks.n_w; matrix++) {
        int64_t row = first[matrix] * w->m, end = first[matrix + 1] * w->m;
        if (row == end) continue;
        for (int64_t size = mk_block_rows(end - row, BLOCK); row < end; row += size)
            w->blocks[w->n_blocks++] = (block){matrix, row, mc_min(size, end - row)};
    }
}

/* The number of units, and *sums: those of the largest. */
static int64_t count_units(work *w, int64_t *sums) {
    int64_t units = 0, rows = 0;
    for (int64_t i = 0; i < w->n_blocks; i++)
        rows = mc_max(rows, w->blocks[i].rows);
    *sums = 0;
    for (int i = 0; i < w->n; i++) {
        w->parts[i].first = units;
        units += w->n_blocks * w->parts[i].tiles;
        *sums = mc_max(*sums, rows * w->parts[i].tile);
    }
    return units;
}

/* Runs n calls of one x with the same indices. */
static mica_status run_together(const mc_call *calls, int n) {
    const mc_layout *x = calls->in[MC_MATMUL_X].layout, *out = calls->out.layout;
    work w = {.kern = mc_cpu_of(calls)->kern, .n = n};
    w.m = x->shape[x->ndim - 2];
    w.k = x->shape[x->ndim - 1];
    w.rows = mc_row_count(out, out->ndim - 1);
    plan_parts(&w, calls);
    mc_scratch needed = {0}, from = {0};
    cut_memory(&w, calls, &needed);
    from.block = mc_run_scratch(calls->run, needed.bytes);
    if (mc_run_is_measured(calls->run)) return MICA_OK;
    if (!from.block) return MICA_ENOMEM;
    cut_memory(&w, calls, &from);
    MC_TRY(mc_picks_read(&w.picks, calls, indices_of(calls)));
    if (w.k == 0) { /* all results are 0 */
        for (int i = 0; i < n; i++)
            memset(calls[i].out.data, 0, (size_t)mc_layout_bytes(calls[i].out.layout));
        return MICA_OK;
    }
    mc_picks_sort(&w.picks);
    find_blocks(&w);
    int64_t sums, units = count_units(&w, &sums);
    mc_cpu_for(calls, w.picks.n_x * w.m, mc_grain(w.k), make_rows, &w);
    mc_cpu_prefetch(&calls[n - 1], w.rows);
    mc_cpu_for(calls, units, mc_grain(sums * w.k), run_units, &w);
    return MICA_OK;
}

static bool is_same_index(const mc_call *a, const mc_call *b, int k) {
    const mc_operand none = {0};
    const mc_operand *x = k < a->n_in ? &a->in[k] : &none, *y = k < b->n_in ? &b->in[k] : &none;
    if (x->data != y->data || !x->layout != !y->layout) return false;
    return !x->layout ||
           (x->layout->dtype == y->layout->dtype && mc_layout_same_shape(x->layout, y->layout) &&
            memcmp(x->layout->strides, y->layout->strides,
                   (size_t)x->layout->ndim * sizeof *x->layout->strides) == 0);
}

/* Whether two joint calls multiply the same rows by matrices of the same numbers. */
static bool pick_alike(const mc_call *a, const mc_call *b) {
    mc_layout w = *a->in[MC_MATMUL_W].layout, v = *b->in[MC_MATMUL_W].layout;
    w.ndim -= 2;
    v.ndim -= 2;
    int first = indices_of(a);
    return mc_layout_same_shape(&w, &v) && is_same_index(a, b, first) &&
           is_same_index(a, b, first + 1);
}

mica_status mc_eval_gather_matmul(const mc_call *call) {
    for (int i = 0, n; i < call->joint; i += n) {
        n = 1;
        if (mc_layout_size(call[i].out.layout) == 0) continue;
        while (i + n < call->joint && mc_layout_size(call[i + n].out.layout) > 0 &&
               pick_alike(&call[i], &call[i + n]))
            n++;
        MC_TRY(run_together(&call[i], n));
    }
    return MICA_OK;
}
