#include "cpu/matmul.h"

#include <string.h>

#include "base/integer.h"
#include "cpu/prefetch.h"
#include "cpu/region.h"
#include "cpu/rows.h"

#define TILE_BYTES (256 * 1024) /* bytes of a tile of w as f32 */
#define TILE_MAX 64             /* max columns of a tile */
#define TILE_STEP 16

/* One matmul of the region. */
typedef struct part {
    const mc_matmul *p;
    const mc_form *form;
    int64_t tiles; /* tiles of an element of the batch */
    int64_t first; /* first unit in the region */
    bool direct;   /* results are f32, and computed in place */
} part;

typedef struct work {
    const mk_kernels *kern;
    part parts[MC_MAX_JOINT];
    int n;
    mc_rows rows; /* x in f32 */
    mc_forms forms;
    int64_t max;               /* max sums of a unit */
    size_t y_bytes, own_bytes; /* a worker's scratch: for results, and for the matmul's own use */
    char *scratch;             /* NULL: none is needed */
} work;

mc_layout mc_matmul_spread(const mc_layout *x, const mc_layout *out) {
    int64_t shape[MICA_MAX_NDIM];
    memcpy(shape, out->shape, sizeof shape);
    int ndim = out->ndim < 2 ? 2 : out->ndim;
    shape[ndim - 2] = x->ndim < 2 ? 1 : x->shape[x->ndim - 2];
    shape[ndim - 1] = x->shape[x->ndim - 1];
    mc_layout spread;
    (void)mc_layout_broadcast(x, shape, ndim, &spread); /* infer checked the shapes */
    return spread;
}

void mc_matmul_init(mc_matmul *p, const mc_call *call, bool batched) {
    const mc_layout *out = call->out.layout;
    *p = (mc_matmul){.call = call, .x = mc_matmul_spread(call->in[MC_MATMUL_X].layout, out)};
    p->batches = batched ? mc_row_count(out, out->ndim - 2) : 1;
    p->m = batched ? out->shape[out->ndim - 2] : mc_row_count(out, out->ndim - 1);
    p->n = out->shape[out->ndim - 1];
    p->k = p->x.shape[p->x.ndim - 1];
}

void mc_matmul_init_picked(mc_matmul *p, const mc_call *call, int64_t m) {
    const mc_layout *x = call->in[MC_MATMUL_X].layout, *out = call->out.layout;
    *p = (mc_matmul){.call = call, .m = m};
    p->n = out->shape[out->ndim - 1];
    p->k = x->shape[x->ndim - 1];
}

int64_t mc_matmul_tile(const mc_matmul *p) {
    int64_t fit = TILE_BYTES / (int64_t)sizeof(float) / mc_max(p->k, 1) / TILE_STEP * TILE_STEP;
    return mc_min(mc_max(fit, TILE_STEP), mc_min(TILE_MAX, p->n));
}

int64_t mc_matmul_tile_stride(const mc_matmul *p) {
    return mc_matmul_row_stride(p->k, sizeof(float));
}

bool mc_matmul_goes_by_rows(const mc_layout *const *in) {
    mc_operand x = {NULL, in[MC_MATMUL_X]};
    const mc_layout *w = in[MC_MATMUL_W];
    return w->ndim == 2 && mc_layout_size(w) > 0 && mc_rows_scratch(&x) == 0;
}

/* Makes rows begin .. end - 1 in all forms. */
static void make_forms(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    const mc_rows *rows = &w->rows;
    mc_forms_make(&w->forms, w->kern, rows->length, rows->data + begin * rows->stride, rows->stride,
                  begin, end - begin);
}

/* ---- columns of results ---- */

static void run_columns(const work *w, const part *at, int64_t batch, int64_t first, int64_t count,
                        int worker) {
    const mc_matmul *p = at->p;
    const mc_operand *out = &p->call->out;
    char *scratch = w->scratch, *own = NULL;
    if (scratch) {
        scratch += (size_t)worker * (w->y_bytes + w->own_bytes);
        own = scratch + w->y_bytes;
    }
    int64_t begin = batch * p->m * p->n + first;
    float *y = at->direct ? (float *)out->data + begin : (float *)(void *)scratch;
    int64_t y_stride = at->direct ? p->n : count;
    mc_form x = mc_form_at(at->form, batch * p->m);
    p->columns(p, &x, batch, first, count, own, y, y_stride);
    if (at->direct) return;
    for (int64_t i = 0; i < p->m; i++)
        mc_narrow(w->kern, out->layout->dtype, y + i * count, count, out->data, begin + i * p->n);
}

static void run_units(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    const part *at = w->parts;
    for (int64_t unit = begin, units; unit < end; unit += units) {
        while (unit - at->first >= at->p->batches * at->tiles)
            at++;
        const mc_matmul *p = at->p;
        int64_t batch = (unit - at->first) / at->tiles, tile = (unit - at->first) % at->tiles;
        bool run = p->runs && at->direct;
        units = run ? mc_min(end - unit, at->tiles - tile) : 1;
        int64_t first = tile * p->tile, count = mc_min(units * p->tile, p->n - first);
        run_columns(w, at, batch, first, count, worker);
    }
}

/* ---- planning and running ---- */

/* Fills in the matmuls' parts and a worker's scratch; returns the number of units. */
static int64_t plan_parts(work *w, const mc_matmul *const *matmuls) {
    int64_t units = 0, y_floats = 0;
    for (int i = 0; i < w->n; i++) {
        const mc_matmul *p = matmuls[i];
        part *at = &w->parts[i];
        *at = (part){.p = p, .form = mc_forms_find(&w->forms, &p->form), .first = units};
        at->tiles = (p->n - 1) / p->tile + 1;
        at->direct = p->call->out.layout->dtype == MICA_F32;
        units += p->batches * at->tiles;
        w->max = mc_max(w->max, p->m * p->tile);
        if (!at->direct) y_floats = mc_max(y_floats, p->m * p->tile);
        if (p->scratch_bytes > w->own_bytes) w->own_bytes = p->scratch_bytes;
    }
    w->own_bytes = mc_scratch_pad(w->own_bytes);
    w->y_bytes = mc_scratch_pad((size_t)y_floats * sizeof(float));
    return units;
}

/* Cuts the memory of the rows' forms and of the workers. */
static void cut_memory(work *w, int64_t rows, int64_t k, int threads, mc_scratch *from) {
    mc_forms_cut(&w->forms, rows, k, from);
    w->scratch = mc_scratch_cut(from, threads, w->y_bytes + w->own_bytes);
}

/* Takes the rows in place, or widens them, and allocates their forms. */
static mica_status take_memory(work *w, const mc_call *call, const mc_operand *x, mc_chain *chain) {
    int64_t rows = mc_row_count(x->layout, x->layout->ndim - 1), floats = mc_rows_scratch(x);
    int64_t k = x->layout->shape[x->layout->ndim - 1];
    int threads = mc_cpu_of(call)->threads;
    mc_scratch needed = {.bytes = chain->bytes}, from = {.bytes = chain->bytes};
    mc_scratch_cut(&needed, floats, sizeof(float));
    cut_memory(w, rows, k, threads, &needed);
    if (needed.bytes > 0) from.block = mc_run_scratch(call->run, needed.bytes);
    if (mc_run_is_measured(call->run)) return MICA_OK;
    if (needed.bytes > 0 && !from.block) return MICA_ENOMEM;
    MC_TRY(mc_chain_prepare(chain, from.block));
    w->rows = mc_rows_get(call, x, mc_scratch_cut(&from, floats, sizeof(float)));
    cut_memory(w, rows, k, threads, &from);
    for (int f = 0; f < w->forms.n; f++) {
        mc_form *form = &w->forms.all[f];
        if (form->kind != MC_FORM_F32) continue;
        form->floats = w->rows.data;
        form->stride = w->rows.stride;
    }
    return MICA_OK;
}

static bool needs_making(const work *w) {
    for (int f = 0; f < w->forms.n; f++)
        if (w->forms.all[f].kind != MC_FORM_F32) return true;
    return false;
}

/* Runs n matmuls of one x. */
static mica_status run_together(const mc_matmul *const *matmuls, int n, mc_chain *chain) {
    const mc_matmul *p = matmuls[0];
    const mc_call *last = matmuls[n - 1]->call;
    mc_operand x = {p->call->in[MC_MATMUL_X].data, &p->x};
    work w = {.kern = mc_cpu_of(p->call)->kern, .n = n};
    int64_t units = plan_parts(&w, matmuls);
    MC_TRY(take_memory(&w, p->call, &x, chain));
    if (mc_run_is_measured(p->call->run)) return MICA_OK;
    if (needs_making(&w))
        mc_chain_add(chain, x.layout, p->call->axis, make_forms, &w, w.rows.count, mc_grain(p->k));
    mc_chain_run(chain);
    mc_cpu_prefetch(last, p->m);
    mc_cpu_for(last, units, mc_grain(w.max * p->k), run_units, &w);
    return MICA_OK;
}

mica_status mc_matmuls_run(const mc_matmul *const *matmuls, int n, mc_chain *chain) {
    const mc_matmul *together[MC_MAX_JOINT];
    int n_together = 0;
    for (int i = 0; i < n; i++) {
        if (mc_matmul_is_one_region(matmuls[i]->call)) {
            together[n_together++] = matmuls[i];
            continue;
        }
        mc_chain none;
        MC_TRY(mc_chain_measure(&none, matmuls[i]->call, 0));
        MC_TRY(run_together(&matmuls[i], 1, &none));
    }
    return n_together > 0 ? run_together(together, n_together, chain) : MICA_OK;
}
