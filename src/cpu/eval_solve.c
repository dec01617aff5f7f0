/* dense_solve: elimination with partial pivoting, in f64. */
#include <math.h>
#include <string.h>

#include "cpu/eval.h"
#include "cpu/region.h"
#include "cpu/rows.h"

typedef struct work {
    const mc_call *call;
    int64_t batch, n, k;
    double *spaces; /* of each worker: [n, n], [n, k], and a row as f32 */
    int64_t space;
    uint8_t *singular; /* [batch] */
} work;

/* Matrix `index` of an operand as a dense f64; row: room for one as f32. */
static void load(const work *w, const mc_operand *x, int64_t index, float *row, double *to) {
    const mc_layout *l = x->layout;
    int rows = l->ndim - 2, columns = l->ndim - 1;
    int64_t at = mc_row_offset(l, rows, index);
    for (int64_t i = 0; i < l->shape[rows]; i++, at += l->strides[rows]) {
        mc_widen(mc_cpu_of(w->call)->kern, l->dtype, x->data, at, l->strides[columns],
                 l->shape[columns], row);
        for (int64_t j = 0; j < l->shape[columns]; j++)
            *to++ = (double)row[j];
    }
}

static void swap_rows(double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

static void subtract_row(double *x, const double *y, double factor, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] -= factor * y[i];
}

/* a [n, n] and b [n, k] become a triangle and what belongs to it. false: a is singular. */
static bool eliminate(double *a, double *b, int64_t n, int64_t k) {
    for (int64_t c = 0; c < n; c++) {
        int64_t best = c;
        for (int64_t r = c + 1; r < n; r++)
            if (fabs(a[r * n + c]) > fabs(a[best * n + c])) best = r;
        if (a[best * n + c] == 0) return false;
        if (best != c) {
            swap_rows(a + best * n, a + c * n, n);
            swap_rows(b + best * k, b + c * k, k);
        }
        for (int64_t r = c + 1; r < n; r++) {
            double factor = a[r * n + c] / a[c * n + c];
            if (factor == 0) continue;
            subtract_row(a + r * n + c, a + c * n + c, factor, n - c);
            subtract_row(b + r * k, b + c * k, factor, k);
        }
    }
    return true;
}

static void substitute(const double *a, double *b, int64_t n, int64_t k) {
    for (int64_t r = n - 1; r >= 0; r--) {
        for (int64_t c = r + 1; c < n; c++)
            subtract_row(b + r * k, b + c * k, a[r * n + c], k);
        for (int64_t i = 0; i < k; i++)
            b[r * k + i] /= a[r * n + r];
    }
}

static void range(void *context, int64_t begin, int64_t end, int worker) {
    const work *w = context;
    double *a = w->spaces + worker * w->space, *b = a + w->n * w->n;
    float *row = (float *)(b + w->n * w->k);
    const mc_operand *out = &w->call->out;
    for (int64_t i = begin; i < end; i++) {
        load(w, &w->call->in[0], i, row, a);
        load(w, &w->call->in[1], i, row, b);
        w->singular[i] = !eliminate(a, b, w->n, w->k);
        if (w->singular[i]) continue;
        substitute(a, b, w->n, w->k);
        for (int64_t r = 0; r < w->n; r++) {
            int64_t at = (i * w->n + r) * w->k;
            float *to = mc_row_aim(out->layout->dtype, out->data, at, row);
            for (int64_t j = 0; j < w->k; j++)
                to[j] = (float)b[r * w->k + j];
            mc_narrow(mc_cpu_of(w->call)->kern, out->layout->dtype, to, w->k, out->data, at);
        }
    }
}

mica_status mc_eval_dense_solve(const mc_call *call) {
    const mc_layout *b = call->in[1].layout;
    work w = {.call = call, .n = b->shape[b->ndim - 2], .k = b->shape[b->ndim - 1]};
    w.batch = mc_row_count(b, b->ndim - 2);
    if (w.batch * w.n * w.k == 0) return MICA_OK;
    w.space = w.n * (w.n + w.k) + (w.n > w.k ? w.n : w.k);
    size_t spaces = (size_t)(mc_cpu_of(call)->threads * w.space) * sizeof(double);
    w.spaces = mc_run_scratch(call->run, spaces + (size_t)w.batch);
    if (!w.spaces) return MICA_ENOMEM;
    w.singular = (uint8_t *)w.spaces + spaces;
    mc_cpu_for(call, w.batch, mc_grain(w.n * w.n * (w.n + w.k)), range, &w);
    for (int64_t i = 0; i < w.batch; i++)
        if (w.singular[i])
            return mc_fail(MICA_EINVAL, "dense_solve: matrix %lld of the batch is singular",
                           (long long)i);
    return MICA_OK;
}
