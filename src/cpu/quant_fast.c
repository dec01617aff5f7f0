/* Fast products: x is quantised too, and the sums are whole numbers.
 *
 * Products that read the same x (a decoder's q, k and v; gate and up) come together: x is quantised
 * once for each form that their weights ask for, and all their columns are one parallel region. Few
 * rows of x stream the packed weights; more of them unpack a tile of weights to bytes once and
 * multiply them all. The bits of a row do not depend on how many there are (kern/fast_list.h). */
#include "cpu/quant.h"

#include "cpu/rows.h"

#define TILE 32 /* rows of weights a unit of work; unpacked at once where x has many rows */

/* x quantised, as weights of so many bits meet it. */
typedef struct form {
    mk_xrows x; /* [batches * m] rows */
    int bits;
    bool crossed; /* crossed tiles meet it as well */
} form;

typedef struct part {
    const mc_quant_product *q;
    const form *form;
    int64_t tiles;    /* a batch element */
    int64_t first;    /* unit of the region */
    int64_t y_floats; /* scratch for a unit's results where they are not f32 */
} part;

typedef struct work {
    part parts[MC_MOST_JOINT];
    int n;
    mc_rows rows;              /* x in f32 */
    form forms[MC_MOST_JOINT]; /* that the parts need */
    int n_forms;
    int64_t y_floats;    /* scratch of a worker: for results, */
    int64_t k, k_groups; /* and for a tile of as many codes a row in as many groups */
    float *y, *scales;
    int32_t *offsets;
    uint8_t *codes;
} work;

static bool is_fast(const mc_attr_quant *attr) {
    return attr->fast != 0 && attr->transpose != 0 && attr->mode != MICA_QUANT_MXFP8;
}

bool mc_quant_is_fast(const mc_quant_product *q) {
    return is_fast(q->call->attr);
}

bool mc_quant_is_one_region(const mc_call *call) {
    return call->joint > 1 && call->op == MC_OP_QUANTIZED_MATMUL && is_fast(call->attr) &&
           call->in[MC_QUANT_CODES].layout->ndim == 2;
}

bool mc_quant_ends_chain(const mc_attr_quant *attr, const mc_layout *const *in) {
    const mc_layout *codes = in[MC_QUANT_CODES];
    mc_operand x = {NULL, in[MC_QUANT_X]};
    return is_fast(attr) && codes->ndim == 2 && mc_layout_size(codes) > 0 &&
           mc_rows_scratch(&x) == 0;
}

/* Whether rows of x are so few that the packed weights are streamed. */
static bool is_streamed(const mc_quant_product *q) {
    return q->m <= q->kern->fast_streamed;
}

/* Columns first .. first + count - 1 of a batch element's result. */
static void run_columns(const work *w, const part *p, int64_t batch, int64_t first, int64_t count,
                        int worker) {
    const mc_quant_product *q = p->q;
    const mc_operand *out = &q->call->out;
    mk_qrows all = mc_quant_weights(q, batch), rows = mk_qrows_at(&all, first);
    int64_t row = batch * q->m, at = row * q->n + first;
    mk_xrows x = mk_xrows_at(&p->form->x, row);
    bool direct = p->y_floats == 0;
    float *y = direct ? (float *)out->data + at : w->y + worker * w->y_floats;
    int64_t y_stride = direct ? q->n : count;
    if (is_streamed(q)) {
        q->kern->fast_matvec(&rows, count, q->m, &x, y, y_stride);
    } else {
        mk_tiles tiles = {.codes = w->codes + worker * TILE * w->k,
                          .scales = w->scales + worker * TILE * 2 * w->k_groups,
                          .offsets = w->offsets + worker * TILE * w->k_groups,
                          .crossed = x.cross != NULL};
        q->kern->fast_unpack(&rows, count, &tiles);
        q->kern->fast_matmul(q->m, &x, count, &tiles, y, y_stride);
    }
    if (direct) return;
    for (int64_t i = 0; i < q->m; i++)
        mc_narrow(q->kern, out->layout->dtype, y + i * count, count, out->data, at + i * q->n);
}

static void run_units(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    const part *p = w->parts;
    for (int64_t unit = begin; unit < end;) {
        while (unit - p->first >= p->q->batches * p->tiles)
            p++;
        int64_t batch = (unit - p->first) / p->tiles, tile = (unit - p->first) % p->tiles;
        /* Rows that are streamed are fetched ahead, best over long runs of them. */
        bool join = is_streamed(p->q) && p->y_floats == 0;
        int64_t units = join ? mc_min(end - unit, p->tiles - tile) : 1;
        run_columns(w, p, batch, tile * TILE, mc_min(units * TILE, p->q->n - tile * TILE), worker);
        unit += units;
    }
}

static void quantize_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    for (int f = 0; f < w->n_forms; f++) {
        mk_xrows to = mk_xrows_at(&w->forms[f].x, begin);
        w->parts[0].q->kern->fast_quantize(end - begin, w->rows.data + begin * w->rows.stride,
                                           w->rows.stride, w->forms[f].bits, &to);
    }
}

/* The form of x for these weights: one that is there, or a new one. */
static form *find_form(work *w, const mk_qrows *weights) {
    for (int f = 0; f < w->n_forms; f++)
        if (w->forms[f].x.group == weights->group && w->forms[f].bits == weights->bits)
            return &w->forms[f];
    form *made = &w->forms[w->n_forms++];
    *made = (form){.x = {.k = weights->k, .group = weights->group}, .bits = weights->bits};
    return made;
}

/* Fills in the parts and what scratch a worker needs; returns the number of units. */
static int64_t plan_parts(work *w, const mc_quant_product *products) {
    int64_t units = 0;
    for (int i = 0; i < w->n; i++) {
        const mc_quant_product *q = &products[i];
        part *p = &w->parts[i];
        form *f = find_form(w, &q->w);
        *p = (part){.q = q, .form = f, .first = units};
        p->tiles = (q->n - 1) / TILE + 1;
        p->y_floats = q->call->out.layout->dtype == MICA_F32 ? 0 : q->m * TILE;
        units += q->batches * p->tiles;
        if (p->y_floats > w->y_floats) w->y_floats = p->y_floats;
        if (is_streamed(q)) continue;
        int64_t groups = q->k / q->w.group;
        w->k = q->k;
        if (groups > w->k_groups) w->k_groups = groups;
        if (q->kern->fast_crossed && q->w.mode == MK_AFFINE && q->w.bits <= MK_CROSSED_BITS)
            f->crossed = true;
    }
    return units;
}

/* Scratch, cut into what the chain, the forms and the workers need. */
static mica_status take_scratch(work *w, const mc_call *call, const mc_operand *x,
                                mc_chain *chain) {
    int64_t threads = mc_cpu_of(call)->threads, rows = mc_row_count(x->layout, x->layout->ndim - 1);
    int64_t tiles = threads * TILE * w->k_groups; /* groups of rows of tiles */
    int64_t floats = mc_rows_scratch(x) + threads * w->y_floats + 2 * tiles, integers = tiles;
    int64_t bytes = threads * TILE * w->k;
    for (int f = 0; f < w->n_forms; f++) {
        const mk_xrows *to = &w->forms[f].x;
        int64_t groups = rows * (to->k / to->group);
        floats += 2 * groups;
        integers += w->forms[f].crossed ? groups : 0;
        bytes += rows * to->k;
    }
    char *block =
        mc_run_scratch(call->run, chain->bytes + (size_t)floats * sizeof *w->y +
                                      (size_t)integers * sizeof *w->offsets + (size_t)bytes);
    if (block == NULL) return MICA_ENOMEM;
    MC_TRY(mc_chain_prepare(chain, block));
    float *scratch = (float *)(void *)(block + chain->bytes);
    w->rows = mc_rows_get(call, x, scratch);
    w->y = scratch + mc_rows_scratch(x);
    w->scales = w->y + threads * w->y_floats;
    float *sums = w->scales + 2 * tiles;
    w->offsets = (int32_t *)(void *)(scratch + floats);
    int32_t *cross = w->offsets + tiles;
    w->codes = (uint8_t *)(w->offsets + integers);
    int8_t *codes = (int8_t *)w->codes + threads * TILE * w->k;
    for (int f = 0; f < w->n_forms; f++) {
        mk_xrows *to = &w->forms[f].x;
        int64_t groups = rows * (to->k / to->group);
        to->scales = sums;
        to->sums = sums + groups;
        to->codes = codes;
        if (w->forms[f].crossed) {
            to->cross = cross;
            cross += groups;
        }
        sums += 2 * groups;
        codes += rows * to->k;
    }
    return MICA_OK;
}

mica_status mc_quant_fast(const mc_quant_product *products, int n, mc_chain *chain) {
    const mc_call *call = products[0].call;
    mc_operand x = mc_quant_x(&products[0]);
    work w = {.n = n};
    int64_t units = plan_parts(&w, products), k = products[0].k, m = products[0].m;
    MC_TRY(take_scratch(&w, call, &x, chain));
    mc_chain_add(chain, x.layout, call->axis, quantize_rows, &w, w.rows.count, mc_grain(k));
    mc_chain_run(chain);
    mc_cpu_ahead(products[n - 1].call, m);
    mc_cpu_for(call, units, mc_grain(m * TILE * k), run_units, &w);
    return MICA_OK;
}

mica_status mc_quant_after(mc_chain *chain, const mc_call *call) {
    mc_quant_product products[MC_MOST_JOINT];
    for (int i = 0; i < call->joint; i++)
        MC_TRY(mc_quant_describe(&call[i], &products[i]));
    return mc_quant_fast(products, call->joint, chain);
}
