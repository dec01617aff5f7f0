/* rms_norm, layer_norm and their gradients: a row at a time, sums in f64, rounded once. */
#include <math.h>

#include "cpu/eval.h"
#include "cpu/rows.h"
#include "graph/attr.h"

/* The result may have x's memory; it then has x's strides. */
typedef struct norm_work {
    const mk_kernels *kern;
    const mc_call *call;
    bool centred; /* layer_norm */
    double eps;
    const float *weight, *bias; /* [D] f32 or NULL */
    float *scratch;             /* [workers][D] */
    int64_t d;
} norm_work;

/* Four sums, so that additions overlap. The order is the same on every machine. */
static double sum_of(const float *x, int64_t n) {
    double s[4] = {0};
    for (int64_t i = 0; i < n; i++)
        s[i & 3] += (double)x[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* y = x - mean(x) */
static void centre(int64_t d, const float *x, float *y) {
    float mean = (float)(sum_of(x, d) / (double)d);
    for (int64_t i = 0; i < d; i++)
        y[i] = x[i] - mean;
}

/* y may be x. */
static void norm_row(const norm_work *work, const float *x, float *y) {
    if (work->centred) centre(work->d, x, y);
    work->kern->rms_norm(work->d, work->centred ? y : x, work->weight, work->eps, y);
    if (!work->bias) return;
    for (int64_t i = 0; i < work->d; i++)
        y[i] += work->bias[i];
}

static void norm_rows(void *context, int64_t begin, int64_t end, int worker) {
    const norm_work *work = context;
    const mc_operand *x = &work->call->in[0], *out = &work->call->out;
    float *row = work->scratch + worker * work->d;
    int last = x->layout->ndim - 1;
    mc_row_walk walk = mc_row_walk_begin(x->layout, last, begin);
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&walk)) {
        const float *from = mc_row_see(work->kern, x->layout->dtype, x->data, walk.offset,
                                       x->layout->strides[last], work->d, row);
        float *to = mc_row_aim(out->layout->dtype, out->data, r * work->d, row);
        norm_row(work, from, to);
        mc_narrow(work->kern, out->layout->dtype, to, work->d, out->data, r * work->d);
    }
}

/* Vector operand i as f32. If it must be widened, it is written to *scratch, which then
 * advances. */
static const float *vector_of(const mc_call *call, int i, float **scratch) {
    if (i >= call->n_in || !call->in[i].data) return NULL;
    const mc_layout *l = call->in[i].layout;
    if (l->dtype == MICA_F32 && l->strides[0] == 1) return call->in[i].data;
    float *to = *scratch;
    mc_widen(mc_cpu_of(call)->kern, l->dtype, call->in[i].data, 0, l->strides[0], l->shape[0], to);
    *scratch += l->shape[0];
    return to;
}

static mica_status norm(const mc_call *call, mc_stage *stage, bool centred) {
    const mc_layout *l = call->in[0].layout;
    const mc_cpu *cpu = mc_cpu_of(call);
    const mc_attr_norm *attr = call->attr;
    int64_t d = l->shape[l->ndim - 1];
    size_t floats = (size_t)(d * (cpu->threads + 2));
    norm_work *work = mc_stage_memory(stage, sizeof *work + floats * sizeof *work->scratch);
    if (!work) return MICA_OK;
    float *scratch = (float *)(void *)(work + 1);
    *work =
        (norm_work){.kern = cpu->kern, .call = call, .centred = centred, .eps = attr->eps, .d = d};
    work->weight = vector_of(call, 1, &scratch);
    work->bias = vector_of(call, 2, &scratch);
    work->scratch = scratch;
    mc_stage_set(stage, norm_rows, work, mc_row_count(l, l->ndim - 1), mc_grain(4 * d));
    return MICA_OK;
}

mica_status mc_stage_rms_norm(const mc_call *call, mc_stage *stage) {
    return norm(call, stage, false);
}

mica_status mc_stage_layer_norm(const mc_call *call, mc_stage *stage) {
    return norm(call, stage, true);
}

/* ---- the gradient by x ---- */

enum { X, DY, WEIGHT };

/* The result may have the memory of x or dy. */
typedef struct gradient_work {
    const mk_kernels *kern;
    const mc_call *call;
    bool centred; /* of layer_norm */
    double eps;
    const float *weight; /* [D] f32 or NULL */
    float *scratch;      /* [workers][3][D] */
    int64_t d;
} gradient_work;

static mc_row_walk begin_rows(const mc_operand *x, int64_t row) {
    return mc_row_walk_begin(x->layout, x->layout->ndim - 1, row);
}

static const float *see_row(const gradient_work *w, int operand, const mc_row_walk *at, float *to) {
    const mc_operand *x = &w->call->in[operand];
    return mc_row_see(w->kern, x->layout->dtype, x->data, at->offset,
                      x->layout->strides[x->layout->ndim - 1], w->d, to);
}

static void gradient_rows(void *context, int64_t begin, int64_t end, int worker) {
    const gradient_work *w = context;
    const mc_operand *out = &w->call->out;
    float *x_row = w->scratch + worker * 3 * w->d, *g_row = x_row + w->d, *y_row = g_row + w->d;
    mc_row_walk x_at = begin_rows(&w->call->in[X], begin),
                dy_at = begin_rows(&w->call->in[DY], begin);
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&x_at), mc_row_walk_next(&dy_at)) {
        const float *x = see_row(w, X, &x_at, x_row), *g = see_row(w, DY, &dy_at, g_row);
        for (int64_t i = 0; w->weight && i < w->d; i++)
            g_row[i] = g[i] * w->weight[i];
        if (w->weight) g = g_row;
        if (w->centred) {
            centre(w->d, x, x_row);
            centre(w->d, g, g_row);
            x = x_row, g = g_row;
        }
        float *y = mc_row_aim(out->layout->dtype, out->data, r * w->d, y_row);
        w->kern->norm_gradient(w->d, x, g, w->eps, y);
        mc_narrow(w->kern, out->layout->dtype, y, w->d, out->data, r * w->d);
    }
}

static mica_status gradient(const mc_call *call, bool centred) {
    const mc_layout *l = call->in[X].layout;
    const mc_cpu *cpu = mc_cpu_of(call);
    int64_t d = l->shape[l->ndim - 1];
    float *scratch =
        mc_run_scratch(call->run, (size_t)(d * (3 * cpu->threads + 1)) * sizeof *scratch);
    if (!scratch) return MICA_ENOMEM;
    gradient_work w = {.kern = cpu->kern,
                       .call = call,
                       .centred = centred,
                       .eps = ((const mc_attr_norm *)call->attr)->eps,
                       .d = d};
    w.weight = vector_of(call, WEIGHT, &scratch);
    w.scratch = scratch;
    mc_cpu_for(call, mc_row_count(l, l->ndim - 1), mc_grain(8 * d), gradient_rows, &w);
    return MICA_OK;
}

mica_status mc_eval_rms_norm_gradient(const mc_call *call) {
    return gradient(call, false);
}

mica_status mc_eval_layer_norm_gradient(const mc_call *call) {
    return gradient(call, true);
}
