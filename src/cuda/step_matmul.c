/* Steps that multiply: floats, and quantised weights where they lie. */
#include <string.h>

#include "cuda/cuda.h"
#include "graph/attr.h"

enum { CODES = 1, SCALES, BIASES };
/* As kern/matmul.cu has them. */
enum { FEW_ROWS = 8, WARPS = 8, MAX_COLUMNS = 4, TILE = 32, MOST_BATCHES = 65535, THREADS = 256 };
enum { SHORT_ROWS = 8, NARROW = 8, NARROW_LINES = 16, MOST_NARROW = 32 }; /* of a block */

bool mc_cuda_supports_quant(const void *attr, const mc_layout *const *in, int n_in,
                            const mc_layout *out) {
    (void)attr, (void)in, (void)n_in, (void)out;
    return true;
}

/* The strides of the batch axes of w, spread to those of out. */
static void set_batch(const mc_layout *w, const mc_layout *out, int64_t *strides) {
    int behind = out->ndim - 2, own = w->ndim - 2;
    for (int k = 0; k < behind; k++) {
        int at = k - (behind - own);
        strides[k] = at < 0 || w->shape[at] == 1 ? 0 : w->strides[at];
    }
}

/* x and out, and the axes of the batch. A matrix w that all of it meets is multiplied by all rows
 * at once, where x has them evenly. */
static void set_rows(const mc_call *call, mc_cuda_matmul *a) {
    const mc_layout *x = call->in[0].layout, *out = call->out.layout;
    a->x = mc_cuda_view_of(call, &call->in[0]);
    a->out = mc_cuda_view_of(call, &call->out);
    a->k = x->shape[x->ndim - 1];
    a->n = out->shape[out->ndim - 1];
    a->m = out->ndim < 2 ? 1 : out->shape[out->ndim - 2];
    a->ndim = out->ndim < 2 ? 0 : out->ndim - 2;
    a->batches = 1;
    for (int k = 0; k < a->ndim; k++) {
        a->shape[k] = out->shape[k];
        a->batches *= out->shape[k];
    }
    memset(a->x.strides, 0, sizeof a->x.strides);
    if (x->ndim >= 2) {
        set_batch(x, out, a->x.strides);
        a->x.strides[a->ndim] = x->strides[x->ndim - 2];
    }
    a->x.strides[a->ndim + 1] = x->strides[x->ndim - 1];
}

static bool is_one_matrix(const mc_cuda_matmul *a) {
    for (int k = 0; k < a->ndim; k++)
        if (a->shape[k] > 1 && (a->w_strides[k] != 0 || a->scale_strides[k] != 0)) return false;
    return true;
}

/* Joins the rows of the batch where they follow each other. */
static void join_rows(mc_cuda_matmul *a) {
    int64_t row = a->x.strides[a->ndim], column = a->x.strides[a->ndim + 1], rows = a->m;
    if (a->ndim == 0 || !is_one_matrix(a)) return;
    for (int k = a->ndim - 1; k >= 0; k--) {
        if (a->shape[k] == 1) continue;
        if (rows == 1) row = a->x.strides[k];
        if (a->x.strides[k] != row * rows) return;
        rows *= a->shape[k];
    }
    a->m = rows;
    a->batches = 1;
    a->ndim = 0;
    a->x.strides[0] = row;
    a->x.strides[1] = column;
}

/* Whether chunks of codes are read as 16 bytes. */
static bool is_aligned(const mc_cuda_quant *q) {
    return (uintptr_t)q->codes.data % 16 == 0 && q->code_stride % 4 == 0;
}

static bool is_q4(const mc_cuda_matmul *a) {
    const mc_cuda_quant *q = &a->quant;
    return a->is_quantised && a->transpose && q->mode == MC_CUDA_AFFINE && q->bits == 4 &&
           a->ndim == 0 && a->m <= FEW_ROWS && a->x.strides[1] == 1 && a->x.data && q->codes.data &&
           q->scales.data && q->biases.data && is_aligned(q);
}

/* Kernels for one row, and for some. */
static mc_cuda_kernel few_rows_kernel(const mc_cuda_matmul *a) {
    if (is_q4(a)) return a->m == 1 ? MC_CUDA_MATMUL_ROW_Q4_KERNEL : MC_CUDA_MATMUL_ROWS_Q4_KERNEL;
    return a->m == 1 ? MC_CUDA_MATMUL_ROW_KERNEL : MC_CUDA_MATMUL_ROWS_KERNEL;
}

/* Columns that a warp has: one where there are few, for more warps to be at work. */
static int32_t columns_of(const mc_call *call, const mc_cuda_matmul *a) {
    const mc_cuda_state *state = call->state;
    int64_t busy = (int64_t)state->multiprocessors * 4 * WARPS;
    int64_t columns = a->m == 1 ? a->n / busy : 1;
    return (int32_t)(columns < 1 ? 1 : columns > MAX_COLUMNS ? MAX_COLUMNS : columns);
}

/* Of rows that are joined. */
static mica_status start(const mc_call *call, mc_cuda_matmul *a) {
    int64_t z = a->batches < MOST_BATCHES ? a->batches : MOST_BATCHES;
    if (a->m == 0) return MICA_OK;
    bool along_k = a->is_quantised ? a->transpose != 0 : a->w_k == 1;
    if (a->m <= FEW_ROWS && along_k) {
        a->columns = columns_of(call, a);
        int64_t of_block = (int64_t)a->columns * WARPS;
        mc_cuda_grid few = {.x = (a->n + of_block - 1) / of_block,
                            .y = 1,
                            .z = z,
                            .threads = 32,
                            .threads_y = WARPS};
        return mc_cuda_start(call, few_rows_kernel(a), few, a);
    }
    if (a->k <= TILE && !a->is_quantised && a->w_n == 1) {
        mc_cuda_grid columns = {.x = (a->n + THREADS - 1) / THREADS,
                                .y = (a->m + SHORT_ROWS - 1) / SHORT_ROWS,
                                .z = z,
                                .threads = THREADS};
        if (columns.y <= MOST_BATCHES)
            return mc_cuda_start(call, MC_CUDA_MATMUL_SHORT_KERNEL, columns, a);
    }
    a->swapped = a->m < a->n;
    int64_t few = a->swapped ? a->m : a->n, lines = a->swapped ? a->n : a->m;
    if (few <= MOST_NARROW && !a->is_quantised) {
        mc_cuda_grid narrow = {.x = (few + NARROW - 1) / NARROW,
                               .y = (lines + NARROW_LINES - 1) / NARROW_LINES,
                               .z = z,
                               .threads = 32,
                               .threads_y = WARPS};
        if (narrow.y <= MOST_BATCHES)
            return mc_cuda_start(call, MC_CUDA_MATMUL_NARROW_KERNEL, narrow, a);
    }
    mc_cuda_grid tiles = {.x = (a->n + TILE - 1) / TILE,
                          .y = (a->m + TILE - 1) / TILE,
                          .z = z,
                          .threads = TILE,
                          .threads_y = 8};
    return mc_cuda_start(call, MC_CUDA_MATMUL_TILES_KERNEL, tiles, a);
}

static mc_cuda_matmul floats_of(const mc_call *call) {
    const mc_layout *w = call->in[1].layout;
    mc_cuda_matmul a = {.w = mc_cuda_view_of(call, &call->in[1]),
                        .w_k = w->strides[w->ndim - 2],
                        .w_n = w->strides[w->ndim - 1]};
    set_rows(call, &a);
    set_batch(w, call->out.layout, a.w_strides);
    join_rows(&a);
    return a;
}

/* ---- quantised ---- */

static mc_cuda_quant quant_of(const mc_call *call, int first) {
    static const int modes[] = {[MICA_QUANT_AFFINE] = MC_CUDA_AFFINE,
                                [MICA_QUANT_MXFP4] = MC_CUDA_MXFP4,
                                [MICA_QUANT_MXFP8] = MC_CUDA_MXFP8,
                                [MICA_QUANT_NVFP4] = MC_CUDA_NVFP4};
    const mc_attr_quant *attr = call->attr;
    const mc_operand *codes = &call->in[first], *scales = codes + 1;
    mc_cuda_quant q = {.mode = modes[attr->mode],
                       .bits = (int32_t)attr->bits,
                       .group = (int32_t)attr->group_size,
                       .codes = mc_cuda_view_of(call, codes),
                       .scales = mc_cuda_view_of(call, scales)};
    if (call->n_in > first + 2) q.biases = mc_cuda_view_of(call, scales + 1);
    if (codes->layout->ndim > 1) {
        q.code_stride = codes->layout->strides[codes->layout->ndim - 2];
        q.scale_stride = scales->layout->strides[scales->layout->ndim - 2];
    }
    return q;
}

static mc_cuda_matmul quantised_of(const mc_call *call) {
    const mc_attr_quant *attr = call->attr;
    const mc_layout *codes = call->in[CODES].layout, *scales = call->in[SCALES].layout;
    mc_cuda_matmul a = {
        .is_quantised = 1, .transpose = attr->transpose != 0, .quant = quant_of(call, CODES)};
    set_rows(call, &a);
    set_batch(codes, call->out.layout, a.w_strides);
    set_batch(scales, call->out.layout, a.scale_strides);
    join_rows(&a);
    return a;
}

/* ---- matrices that indices pick: gather_mm, gather_qmm ---- */

enum { MM_LHS = 2, QMM_LHS = 4 };

static bool is_matrices(const mc_layout *x) {
    return x->ndim == 3 && x->strides[0] > 0;
}

bool mc_cuda_supports_gather(const void *attr, const mc_layout *const *in, int n_in,
                             const mc_layout *out) {
    const mc_layout *x = in[0], *w = in[1];
    bool quantised = n_in > QMM_LHS, rows = w->strides[w->ndim - 2] == 1;
    int lhs = quantised ? QMM_LHS : MM_LHS;
    if (!is_matrices(w) || n_in <= lhs + 1 || !in[lhs + 1] || out->ndim < 3) return false;
    if (in[lhs] && !is_matrices(x)) return false;
    if (quantised) {
        const mc_attr_quant *quant = attr;
        return quant->transpose && mc_cuda_scales_fit(quant, in[SCALES]);
    }
    return w->dtype == MICA_BF16 && rows && w->strides[2] >= w->shape[1] &&
           x->shape[x->ndim - 1] > 0;
}

/* An index, spread to the batch axes of the product. */
static mc_cuda_view index_of(const mc_call *call, int operand) {
    mc_cuda_view view = mc_cuda_view_of(call, &call->in[operand]);
    const mc_layout *index = call->in[operand].layout;
    int ndim = call->out.layout->ndim - 2;
    memset(view.strides, 0, sizeof view.strides);
    for (int k = 0; index && k < index->ndim; k++)
        if (index->shape[k] != 1) view.strides[ndim - index->ndim + k] = index->strides[k];
    return view;
}

/* Whether batches in a row share matrices of x, which are evenly apart: how many, and how far. */
static bool find_repeats(const mc_call *call, int64_t *each, int64_t *stride) {
    const mc_layout *out = call->out.layout;
    int64_t strides[MICA_MAX_NDIM], span = 0;
    int k = out->ndim - 3;
    set_batch(call->in[0].layout, out, strides);
    *each = 1;
    for (; k >= 0 && (out->shape[k] == 1 || strides[k] == 0); k--)
        *each *= out->shape[k];
    *stride = k < 0 ? 0 : strides[k];
    for (span = *stride; k >= 0; k--) {
        if (out->shape[k] == 1) continue;
        if (strides[k] != span) return false;
        span *= out->shape[k];
    }
    return true;
}

static mc_cuda_picks picks_of(const mc_call *call) {
    int lhs = call->op == MC_OP_GATHER_QMM ? QMM_LHS : MM_LHS;
    const mc_layout *out = call->out.layout;
    mc_cuda_picks picks = {
        .rhs = index_of(call, lhs + 1), .rhs_count = call->in[1].layout->shape[0], .each = 1};
    int64_t each, stride, batches = 1;
    for (int k = 0; k < out->ndim - 2; k++)
        batches *= out->shape[k];
    if (call->in[lhs].layout) {
        picks.lhs = index_of(call, lhs);
        picks.lhs_count = call->in[0].layout->shape[0];
    } else if (find_repeats(call, &each, &stride)) {
        picks.each = each;
        picks.lhs_count = batches / each;
    }
    return picks;
}

static mc_cuda_matmul picked_of(const mc_call *call) {
    bool quantised = call->op == MC_OP_GATHER_QMM;
    const mc_layout *x = call->in[0].layout, *w = call->in[1].layout;
    mc_cuda_matmul a = {.is_quantised = quantised, .transpose = quantised};
    set_rows(call, &a);
    a.w_strides[0] = w->strides[0];
    if (quantised) {
        a.quant = quant_of(call, CODES);
        a.scale_strides[0] = call->in[SCALES].layout->strides[0];
    } else {
        a.w = mc_cuda_view_of(call, &call->in[1]);
        a.w_k = w->strides[1];
        a.w_n = w->strides[2];
    }
    int64_t each, stride = x->strides[0];
    if (call->in[quantised ? QMM_LHS : MM_LHS].layout || find_repeats(call, &each, &stride)) {
        memset(a.x.strides, 0, sizeof a.x.strides);
        a.x.strides[0] = stride;
        memcpy(a.x.strides + 1, x->strides + x->ndim - 2, 2 * sizeof *x->strides);
    }
    return a;
}

static bool is_same(const mc_operand *x, const mc_operand *y) {
    if (!x->layout || !y->layout) return x->layout == y->layout;
    return x->data == y->data && x->layout->dtype == y->layout->dtype &&
           mc_layout_same_shape(x->layout, y->layout) &&
           memcmp(x->layout->strides, y->layout->strides,
                  (size_t)x->layout->ndim * sizeof *x->layout->strides) == 0;
}

/* Whether products of the same x are picked alike, from matrices that lie alike. */
static bool joins_picked(const mc_call *call, const mc_cuda_matmul *a, const mc_call *other_call,
                         const mc_cuda_matmul *other) {
    int lhs = call->op == MC_OP_GATHER_QMM ? QMM_LHS : MM_LHS;
    return is_same(&call->in[lhs], &other_call->in[lhs]) &&
           is_same(&call->in[lhs + 1], &other_call->in[lhs + 1]) &&
           call->in[1].layout->shape[0] == other_call->in[1].layout->shape[0] &&
           a->w_strides[0] == other->w_strides[0] &&
           a->scale_strides[0] == other->scale_strides[0] &&
           mc_cuda_is_alike(call, a, other_call, other);
}

mica_status mc_cuda_gather(const mc_call *call) {
    for (int i = 0, n; i < call->joint; i += n) {
        mc_cuda_picks picks = picks_of(&call[i]);
        mc_cuda_matmul a[MC_MAX_JOINT] = {picked_of(&call[i])};
        n = 1;
        if (mc_layout_size(call[i].out.layout) == 0) continue;
        for (; i + n < call->joint; n++) {
            a[n] = picked_of(&call[i + n]);
            if (!joins_picked(&call[i], a, &call[i + n], &a[n])) break;
        }
        MC_TRY(mc_cuda_run_picked(&call[i], a, n, &picks));
    }
    return MICA_OK;
}

/* ---- joint products ---- */

mica_status mc_cuda_multiply(const mc_call *call) {
    mc_cuda_matmul a[MC_MAX_JOINT];
    for (int i = 0; i < call->joint; i++)
        a[i] = call->op == MC_OP_MATMUL ? floats_of(&call[i]) : quantised_of(&call[i]);
    for (int i = 0, n; i < call->joint; i += n) {
        n = 1;
        if (mc_cuda_fits_across(&call[i], &a[i])) {
            MC_TRY(mc_cuda_run_across(&call[i], &a[i]));
            continue;
        }
        if (!mc_cuda_fits_planes(&call[i], &a[i])) {
            if (!mc_run_is_measured(call->run)) MC_TRY(start(&call[i], &a[i]));
            continue;
        }
        while (i + n < call->joint && mc_cuda_fits_planes(&call[i + n], &a[i + n]) &&
               mc_cuda_joins_planes(&call[i], &a[i], &call[i + n], &a[i + n]))
            n++;
        MC_TRY(mc_cuda_run_planes(&call[i], &a[i], n));
    }
    return MICA_OK;
}

mica_status mc_cuda_dequantise(const mc_call *call) {
    const mc_layout *codes = call->in[0].layout, *scales = call->in[1].layout;
    const mc_layout *out = call->out.layout;
    mc_cuda_dequantize a = {.k = out->shape[out->ndim - 1],
                            .ndim = out->ndim - 1,
                            .quant = quant_of(call, 0),
                            .out = mc_cuda_view_of(call, &call->out)};
    a.rows = a.k > 0 ? mc_layout_size(out) / a.k : 0;
    memcpy(a.shape, out->shape, sizeof a.shape);
    memcpy(a.code_strides, codes->strides, sizeof a.code_strides);
    memcpy(a.scale_strides, scales->strides, sizeof a.scale_strides);
    return mc_cuda_start(call, MC_CUDA_DEQUANTIZE_KERNEL, mc_cuda_over(call, a.rows * a.k), &a);
}
