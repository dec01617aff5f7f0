/* Matmuls of floats, a [..., M, K] b [..., K, N].
 *
 * b is read in place in two layouts. If its columns are contiguous ("nt": transposed weights [N,
 * K]), a result is a dot product. If its rows are contiguous ("nn"), results are sums of rows. In
 * any other layout b is copied to columns, a tile at a time. 16-bit b is widened a tile at a time,
 * or in registers if M is small. If a fast matmul's b is bf16 and the machine multiplies bf16
 * faster, a is rounded to bf16 and b is read in place. The variant depends only on b, so a row of
 * the result does not depend on the number of rows. */
#include "base/integer.h"
#include "cpu/dense.h"
#include "cpu/rows.h"
#include "graph/attr.h"

#include <string.h>

#define NN_DEPTH 64      /* rows of b widened at once */
#define ROWS_FEW 16      /* rows of a up to which bf16 b is read as for one row */
#define ROWS_STREAMED 32 /* rows of a up to which 16-bit b is widened in registers */
#define PAIRED_MIN 32    /* min columns of bf16 b for a task, with many rows of a */
#define ROWS_MANY 128    /* rows of a from which on a task has more columns */
#define WIDE_MAX 64      /* columns of such a task */

static const mc_dense_matmul *dense_of(const mc_matmul *p) {
    return (const mc_dense_matmul *)(const void *)p;
}

/* Copies `count` columns of b, the first at `offset`, to a tile of f32 [count, k]. */
static void gather_columns(const mc_dense_matmul *d, int64_t offset, int64_t count, float *tile) {
    const mc_operand *b = &d->p.call->in[MC_MATMUL_W];
    int64_t stride = mc_matmul_tile_stride(&d->p);
    for (int64_t j = 0; j < count; j++)
        mc_widen(d->kern, b->layout->dtype, b->data, offset + j * d->stride_n,
                 d->contiguous ? 1 : d->stride_k, d->p.k, tile + j * stride);
}

static void columns_nt(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                       int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_dense_matmul *d = dense_of(p);
    const mk_kernels *kern = d->kern;
    const mc_operand *b = &p->call->in[MC_MATMUL_W];
    int64_t at = mc_row_offset(&d->b, d->b.ndim - 2, batch) + first * d->stride_n;
    const float *floats = b->data;
    const uint16_t *halves = b->data;
    const float *a = x->floats;
    if (d->paired) {
        kern->matmul_bf16(p->m, count, p->k, x->halves, x->halves_stride, halves + at, d->stride_n,
                          y, y_stride);
    } else if (d->direct) {
        kern->matmul_nt(p->m, count, p->k, a, x->stride, floats + at, d->stride_n, y, y_stride);
    } else if (!d->streamed) {
        gather_columns(d, at, count, scratch);
        kern->matmul_nt(p->m, count, p->k, a, x->stride, scratch, mc_matmul_tile_stride(p), y,
                        y_stride);
    } else if (b->layout->dtype == MICA_BF16) {
        kern->matmul_nt_bf16(p->m, count, p->k, a, x->stride, halves + at, d->stride_n, y,
                             y_stride);
    } else {
        kern->matmul_nt_f16(p->m, count, p->k, a, x->stride, halves + at, d->stride_n, y, y_stride);
    }
}

static void columns_nn(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                       int64_t count, void *scratch, float *y, int64_t y_stride) {
    const mc_dense_matmul *d = dense_of(p);
    const mc_operand *b = &p->call->in[MC_MATMUL_W];
    int64_t offset = mc_row_offset(&d->b, d->b.ndim - 2, batch) + first;
    const float *a = x->floats;
    float *tile = scratch;
    for (int64_t i = 0; i < p->m; i++)
        memset(y + i * y_stride, 0, (size_t)count * sizeof *y);
    if (d->direct) {
        d->kern->matmul_nn(p->m, count, p->k, a, x->stride, (const float *)b->data + offset,
                           d->stride_k, y, y_stride);
        return;
    }
    for (int64_t l = 0; l < p->k; l += NN_DEPTH) {
        int64_t depth = mc_min(NN_DEPTH, p->k - l);
        for (int64_t i = 0; i < depth; i++)
            mc_widen(d->kern, b->layout->dtype, b->data, offset + (l + i) * d->stride_k, 1, count,
                     tile + i * count);
        d->kern->matmul_nn(p->m, count, depth, a + l, x->stride, tile, count, y, y_stride);
    }
}

/* Whether b differs along the batch axes. If not, the batch is only more rows of a. */
static bool is_batched(const mc_layout *b) {
    for (int axis = 0; axis < b->ndim - 2; axis++)
        if (b->shape[axis] != 1 && b->strides[axis] != 0) return true;
    return false;
}

/* Whether a may be rounded to bf16 for b in bf16 columns, and that is faster. */
static bool may_pair(const mk_kernels *kern, const mc_attr_matmul *attr, mica_dtype b) {
    return attr->fast != 0 && kern->bf16_matmul && b == MICA_BF16;
}

static bool is_paired(const mk_kernels *kern, const mc_attr_matmul *attr, const mc_layout *b) {
    int k = b->ndim - 2;
    return may_pair(kern, attr, b->dtype) && (b->strides[k] == 1 || b->shape[k] == 1);
}

mc_kernel_choice mc_matmul_choice(const mk_kernels *kern, const void *attr, mica_dtype w) {
    if (may_pair(kern, attr, w))
        return (mc_kernel_choice){MICA_BF16, kern->from.matmul_bf16, kern->from.matmul_bf16};
    const char *one_row = w == MICA_BF16  ? kern->from.matmul_nt_bf16
                          : w == MICA_F16 ? kern->from.matmul_nt_f16
                                          : kern->from.matmul_nt;
    return (mc_kernel_choice){MICA_F32, one_row, kern->from.matmul_nt};
}

bool mc_matmul_ends_chain(const mc_cpu *cpu, const void *attr, const mc_layout *const *in) {
    return mc_matmul_goes_by_rows(in) && is_paired(cpu->kern, attr, in[MC_MATMUL_W]);
}

static void choose_kernel(mc_dense_matmul *d) {
    const mc_layout *b = &d->b;
    d->stride_k = b->strides[b->ndim - 2];
    d->stride_n = b->strides[b->ndim - 1];
    bool columns = d->stride_k == 1 || d->p.k == 1;
    bool rows = d->stride_n == 1 || d->p.n == 1;
    d->columns = columns || !rows;
    d->contiguous = columns || rows;
    d->paired = is_paired(d->kern, d->p.call->attr, b);
    d->streamed = d->columns && d->contiguous && d->p.m <= ROWS_STREAMED;
    d->direct = d->paired || (d->contiguous && b->dtype == MICA_F32);
}

/* How many columns the thread with most of them has, in tasks of `tile` columns. */
static int64_t max_columns(int64_t n, int64_t tile, int threads) {
    int64_t tasks = (n + tile - 1) / tile;
    return (tasks + threads - 1) / threads * tile;
}

/* Columns of a task: as many as the kernel prefers, or fewer if all threads then end sooner. */
static int64_t paired_tile(const mc_dense_matmul *d, int threads) {
    int64_t best = d->kern->bf16_columns, n = d->p.n;
    for (int64_t tile = best / 2; tile >= PAIRED_MIN; tile /= 2)
        if (max_columns(n, tile, threads) < max_columns(n, best, threads)) best = tile;
    return best;
}

/* Columns of a task with many rows, which each task reads anew from far caches: more than
 * mc_matmul_tile's, if no thread then has more. */
static int64_t wide_tile(const mc_matmul *p, int threads) {
    int64_t best = p->tile;
    for (int64_t tile = 2 * best; tile <= WIDE_MAX; tile *= 2)
        if (max_columns(p->n, tile, threads) <= max_columns(p->n, best, threads)) best = tile;
    return mc_min(best, p->n);
}

/* Chooses how d->p, whose sizes are set, is computed with d->b. */
static void choose(mc_dense_matmul *d) {
    mc_matmul *p = &d->p;
    const mc_cpu *cpu = mc_cpu_of(p->call);
    d->kern = cpu->kern;
    choose_kernel(d);
    p->tile = mc_matmul_tile(p);
    if (d->columns && !d->paired && p->m >= ROWS_MANY) p->tile = wide_tile(p, cpu->threads);
    if (d->paired && p->m > ROWS_FEW)
        p->tile = mc_min(mc_max(p->tile, paired_tile(d, cpu->threads)), p->n);
    p->columns = d->columns ? columns_nt : columns_nn;
    if (d->paired) p->form = (mc_form){.kind = MC_FORM_BF16};
    if (!d->direct && !d->streamed)
        p->scratch_bytes =
            (size_t)(p->tile * (d->columns ? mc_matmul_tile_stride(p) : NN_DEPTH)) * sizeof(float);
}

static void describe(const mc_call *call, mc_dense_matmul *d) {
    d->b = mc_matmul_spread(call->in[MC_MATMUL_W].layout, call->out.layout);
    mc_matmul_init(&d->p, call, is_batched(&d->b));
    choose(d);
}

void mc_dense_describe_picked(const mc_call *call, int64_t m, mc_dense_matmul *d) {
    d->b = *call->in[MC_MATMUL_W].layout;
    mc_matmul_init_picked(&d->p, call, m);
    choose(d);
}

mica_status mc_matmul_after(mc_chain *chain, const mc_call *call) {
    mc_dense_matmul all[MC_MAX_JOINT];
    const mc_matmul *matmuls[MC_MAX_JOINT];
    for (int i = 0; i < call->joint; i++) {
        describe(&call[i], &all[i]);
        matmuls[i] = &all[i].p;
    }
    return mc_matmuls_run(matmuls, call->joint, chain);
}
