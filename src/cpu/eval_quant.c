/* Matmuls with quantised weights, which are read in place.
 *
 * For a few rows of x the packed weights are streamed through registers, for each row. For more
 * rows a tile of weights is unpacked to f32 once and multiplied by all rows. Both variants add in
 * the same order, so the bits of a row do not depend on the number of rows. Fast matmuls are in
 * quant_int8.c and quant_paired.c. */
#include "cpu/eval.h"
#include "cpu/quant.h"

#include <string.h>

#include "base/integer.h"
#include "cpu/region.h"
#include "cpu/rows.h"

#define ROWS_STREAMED 2 /* max rows of x for which weights are streamed */
#define NN_WIDTH 128    /* x @ w: columns of a tile, a whole number of groups and words */
#define NN_DEPTH 64     /* x @ w: rows of w unpacked at once */

/* The kernels of a format. arrange is NULL if x keeps its order. */
typedef struct quant_kernels {
    void (*arrange)(int64_t k, const float *x, float *y);
    void (*matvec)(const mk_qrows *w, int64_t n, const float *x, float *y);
    void (*unpack)(const mk_qrows *w, int64_t n, float *y);
} quant_kernels;

static quant_kernels choose_kernels(const mk_kernels *kern, const mk_qrows *w) {
    if (w->mode == MK_AFFINE && w->bits == 4)
        return (quant_kernels){kern->arrange_q4, kern->matvec_q4, kern->unpack_q4};
    if (w->mode == MK_AFFINE && w->bits == 8)
        return (quant_kernels){kern->arrange_q8, kern->matvec_q8, kern->unpack_q8};
    return (quant_kernels){NULL, kern->matvec, kern->unpack};
}

/* x w^T: columns of the result are rows of w. */
static void columns_nt(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                       int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_quant_matmul *q = mc_quant_of(p);
    quant_kernels own = choose_kernels(q->kern, &q->w);
    mk_qrows rows = mc_quant_weights(q, batch, first);
    const float *floats = x->floats;
    if (p->m <= ROWS_STREAMED) {
        for (int64_t i = 0; i < p->m; i++)
            own.matvec(&rows, count, floats + i * x->stride, y + i * y_stride);
        return;
    }
    int64_t stride = mc_matmul_tile_stride(p), at_once = stride == p->k ? count : 1;
    for (int64_t j = 0; j < count; j += at_once) {
        mk_qrows some = mk_qrows_at(&rows, j);
        own.unpack(&some, at_once, (float *)scratch + j * stride);
    }
    q->kern->matmul_nt(p->m, count, p->k, floats, x->stride, scratch, stride, y, y_stride);
}

/* x w: some rows of w at a time. */
static void columns_nn(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                       int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_quant_matmul *q = mc_quant_of(p);
    mk_qrows part = mc_quant_weights(q, batch, 0);
    part = mk_qrows_further(part, first * part.bits / 32, first / part.group);
    part.k = count;
    const float *floats = x->floats;
    for (int64_t i = 0; i < p->m; i++)
        memset(y + i * y_stride, 0, (size_t)count * sizeof *y);
    for (int64_t l = 0; l < p->k; l += NN_DEPTH) {
        int64_t depth = mc_min(NN_DEPTH, p->k - l);
        mk_qrows rows = mk_qrows_at(&part, l);
        q->kern->unpack(&rows, depth, scratch);
        q->kern->matmul_nn(p->m, count, depth, floats + l, x->stride, scratch, count, y, y_stride);
    }
}

static void set_exact(mc_quant_matmul *q) {
    mc_matmul *p = &q->p;
    int64_t floats = NN_WIDTH * NN_DEPTH;
    if (q->transpose) {
        void (*arrange)(int64_t, const float *, float *) = choose_kernels(q->kern, &q->w).arrange;
        if (arrange) p->form = (mc_form){.kind = MC_FORM_ARRANGED, .arrange = arrange};
        p->tile = mc_matmul_tile(p);
        floats = p->m > ROWS_STREAMED ? p->tile * mc_matmul_tile_stride(p) : 0;
    } else {
        p->tile = mc_min(NN_WIDTH, p->n);
    }
    p->columns = q->transpose ? columns_nt : columns_nn;
    p->scratch_bytes = (size_t)floats * sizeof(float);
}

void mc_quant_set_kind(mc_quant_matmul *q) {
    if (!mc_quant_set_paired(q) && !mc_quant_set_fast(q)) set_exact(q);
}

/* Exact matmuls transform x only for affine weights of 4 or 8 bits. The others can end a chain too,
 * and keep its memory longer. */
bool mc_quantized_matmul_ends_chain(const void *attr, const mc_layout *const *in) {
    const mc_attr_quant *quant = attr;
    return quant->transpose != 0 && mc_matmul_goes_by_rows(in);
}

mc_kernel_choice mc_quantized_matmul_choice(const mk_kernels *kern, const void *attr) {
    const mc_attr_quant *quant = attr;
    if (mc_quant_is_paired(kern, quant))
        return (mc_kernel_choice){MICA_BF16, kern->from.matmul_mxfp8, kern->from.matmul_bf16};
    if (mc_quant_is_fast(quant)) {
        bool whole = quant->group_size >= kern->int8_min_group;
        const char *many_rows = whole ? kern->from.int8_matmul : kern->from.int8_pack;
        return (mc_kernel_choice){MICA_I8, kern->from.int8_matvec, many_rows};
    }
    bool affine = quant->mode == MICA_QUANT_AFFINE;
    const char *one_row = affine && quant->bits == 4   ? kern->from.matvec_q4
                          : affine && quant->bits == 8 ? kern->from.matvec_q8
                                                       : kern->from.matvec;
    return (mc_kernel_choice){MICA_F32, one_row, kern->from.matmul_nt};
}

mica_status mc_quantized_matmul_after(mc_chain *chain, const mc_call *call) {
    mc_quant_matmul all[MC_MAX_JOINT];
    const mc_matmul *matmuls[MC_MAX_JOINT];
    int n = 0;
    for (int i = 0; i < call->joint; i++) {
        /* K is 0: all results are 0 */
        if (mc_layout_size(call[i].in[MC_QUANT_CODES].layout) == 0) {
            if (!mc_run_is_measured(call->run))
                memset(call[i].out.data, 0, (size_t)mc_layout_bytes(call[i].out.layout));
            continue;
        }
        mc_quant_matmul *q = &all[n];
        mc_quant_describe(&call[i], q);
        mc_quant_set_kind(q);
        matmuls[n++] = &q->p;
    }
    return mc_matmuls_run(matmuls, n, chain);
}

/* ---- dequantize ---- */

typedef struct unpacking {
    const mc_call *call;
    mk_qrows w;
    float *scratch; /* [workers][k] where the result is not f32 */
} unpacking;

static void unpack_rows(void *context, int64_t begin, int64_t end, int worker) {
    const unpacking *u = context;
    const mk_kernels *kern = mc_cpu_of(u->call)->kern;
    const mc_operand *out = &u->call->out;
    const mc_layout *codes = u->call->in[0].layout, *scales = u->call->in[1].layout;
    for (int64_t r = begin; r < end; r++) {
        mk_qrows row = mk_qrows_further(u->w, mc_row_offset(codes, codes->ndim - 1, r),
                                        mc_row_offset(scales, scales->ndim - 1, r));
        if (out->layout->dtype == MICA_F32) {
            kern->unpack(&row, 1, (float *)out->data + r * row.k);
            continue;
        }
        float *y = u->scratch + worker * row.k;
        kern->unpack(&row, 1, y);
        mc_narrow(kern, out->layout->dtype, y, row.k, out->data, r * row.k);
    }
}

mica_status mc_eval_dequantize(const mc_call *call) {
    const mc_layout *out = call->out.layout;
    if (mc_layout_size(out) == 0) return MICA_OK;
    unpacking u = {.call = call};
    mc_quant_describe_rows(call, 0, &u.w);
    if (out->dtype != MICA_F32) {
        size_t floats = (size_t)(u.w.k * mc_cpu_of(call)->threads);
        u.scratch = mc_run_scratch(call->run, floats * sizeof *u.scratch);
        if (!u.scratch) return MICA_ENOMEM;
    }
    if (mc_run_is_measured(call->run)) return MICA_OK;
    mc_cpu_for(call, mc_row_count(out, out->ndim - 1), mc_grain(4 * u.w.k), unpack_rows, &u);
    return MICA_OK;
}
