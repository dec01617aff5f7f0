/* Steps that go row by row: reductions, norms, RoPE. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cuda/cuda.h"
#include "graph/attr.h"

/* As many blocks as there are rows, up to a number that keeps the device busy. */
static mc_cuda_grid block_a_row(const mc_call *call, int64_t rows) {
    const mc_cuda_state *state = call->state;
    int64_t most = (int64_t)state->multiprocessors * 64;
    return (mc_cuda_grid){.x = rows < most ? rows : most, .y = 1, .z = 1};
}

/* ---- reductions ---- */

/* A number would need its row in the launch. */
bool mc_cuda_supports_reduce(const void *attr, const mc_layout *const *in, int n_in,
                             const mc_layout *out) {
    return mc_cuda_supports_any(attr, in, n_in, out);
}

/* Moves the axes in `mask` behind the others. */
static void set_axes(const mc_layout *l, int64_t mask, mc_cuda_reduce *a) {
    int at = 0;
    a->rows = a->length = 1;
    a->ndim = l->ndim;
    for (int reduced = 0; reduced < 2; reduced++)
        for (int k = 0; k < l->ndim; k++) {
            if ((int)(mask >> k & 1) != reduced) continue;
            a->shape[at] = l->shape[k];
            a->x.strides[at++] = l->strides[k];
            if (!reduced) a->row_ndim++;
            *(reduced ? &a->length : &a->rows) *= l->shape[k];
        }
}

/* The largest or smallest of a few long rows: by so many blocks each; 1: by one. */
enum { LONG_PART = 2048, MAX_PARTS = 64 };
static int64_t parts_of(const mc_cuda_reduce *a) {
    int64_t parts = a->length / LONG_PART;
    bool best = a->kind == MC_CUDA_MAX || a->kind == MC_CUDA_MIN || a->kind == MC_CUDA_ARGMAX ||
                a->kind == MC_CUDA_ARGMIN;
    if (!best || parts < 2 || a->rows > MAX_PARTS) return 1;
    return parts < MAX_PARTS ? parts : MAX_PARTS;
}

static mica_status reduce(const mc_call *call, int kind, int64_t mask) {
    mc_cuda_reduce a = {.kind = kind};
    set_axes(call->in[0].layout, mask, &a);
    a.parts = parts_of(&a);
    if (a.parts > 1) {
        a.left = mc_run_scratch(call->run, (size_t)(a.rows * a.parts) * sizeof(mc_cuda_best));
        if (!a.left) return MICA_ENOMEM;
    }
    if (mc_run_is_measured(call->run)) return MICA_OK;
    mc_cuda_view x = mc_cuda_view_of(call, &call->in[0]);
    memcpy(x.strides, a.x.strides, sizeof x.strides);
    a.x = x;
    a.out = mc_cuda_view_of(call, &call->out);
    a.done = (uint32_t *)(uintptr_t)((const mc_cuda_state *)call->state)->done;
    mc_cuda_grid parts = {.x = a.parts, .y = a.rows, .z = 1};
    return a.parts > 1 ? mc_cuda_start(call, MC_CUDA_BEST_KERNEL, parts, &a)
                       : mc_cuda_start(call, MC_CUDA_REDUCE_KERNEL, block_a_row(call, a.rows), &a);
}

#define REDUCE(name, KIND)                                                     \
    mica_status mc_cuda_##name(const mc_call *call) {                          \
        return reduce(call, KIND, ((const mc_attr_reduce *)call->attr)->axes); \
    }
REDUCE(sum, MC_CUDA_SUM)
REDUCE(prod, MC_CUDA_PROD)
REDUCE(max, MC_CUDA_MAX)
REDUCE(min, MC_CUDA_MIN)
REDUCE(all, MC_CUDA_ALL)
REDUCE(any, MC_CUDA_ANY)
REDUCE(argmax, MC_CUDA_ARGMAX)
REDUCE(argmin, MC_CUDA_ARGMIN)
REDUCE(logsumexp, MC_CUDA_LOGSUMEXP)

mica_status mc_cuda_softmax(const mc_call *call) {
    return reduce(call, MC_CUDA_SOFTMAX, (int64_t)1 << (call->in[0].layout->ndim - 1));
}

/* ---- losses ---- */

mica_status mc_cuda_cross_entropy(const mc_call *call) {
    bool gradient = call->op == MC_OP_CROSS_ENTROPY_GRADIENT;
    const mc_layout *logits = call->in[0].layout;
    mc_cuda_loss a = {.logits = {.kind = gradient ? MC_CUDA_SOFTMAX : MC_CUDA_LOGSUMEXP},
                      .targets = mc_cuda_view_of(call, &call->in[1]),
                      .op = (int32_t)call->op,
                      .axis = logits->ndim - 1,
                      .fault = mc_cuda_fault_of(call)};
    set_axes(logits, (int64_t)1 << a.axis, &a.logits);
    mc_cuda_view x = mc_cuda_view_of(call, &call->in[0]);
    memcpy(x.strides, a.logits.x.strides, sizeof x.strides);
    a.logits.x = x;
    a.logits.out = mc_cuda_view_of(call, &call->out);
    if (gradient) a.dy = mc_cuda_view_of(call, &call->in[2]);
    return mc_cuda_start(call, MC_CUDA_CROSS_ENTROPY_KERNEL, block_a_row(call, a.logits.rows), &a);
}

/* ---- the k largest ---- */

bool mc_cuda_supports_topk(const void *attr, const mc_layout *const *in, int n_in,
                           const mc_layout *out) {
    const mc_layout *x = in[0];
    int64_t length = x->shape[x->ndim - 1];
    (void)n_in, (void)out;
    bool floats = x->dtype == MICA_F32 || x->dtype == MICA_BF16 || x->dtype == MICA_F16;
    return floats && ((const mc_attr_topk *)attr)->k <= MC_CUDA_MAX_TOPK && length > 0 &&
           mc_layout_size(x) / length <= MC_CUDA_DONE;
}

mica_status mc_cuda_topk_indices(const mc_call *call) {
    const mc_layout *x = call->in[0].layout;
    mc_cuda_topk a = {.k = ((const mc_attr_topk *)call->attr)->k,
                      .length = x->shape[x->ndim - 1],
                      .item = (int32_t)mica_dtype_bytes(x->dtype),
                      .ndim = x->ndim - 1};
    a.rows = mc_layout_size(x) / a.length;
    a.parts = (a.length + MC_CUDA_TOPK_PART - 1) / MC_CUDA_TOPK_PART;
    memcpy(a.shape, x->shape, sizeof a.shape);
    if (a.parts > 1) {
        a.left = mc_run_scratch(call->run, (size_t)(a.rows * a.parts * a.k) * sizeof *a.left);
        if (!a.left) return MICA_ENOMEM;
    }
    if (mc_run_is_measured(call->run)) return MICA_OK;
    a.x = mc_cuda_view_of(call, &call->in[0]);
    a.values = mc_cuda_view_of(call, &call->out);
    a.indices = mc_cuda_view_of(call, &call->more[0]);
    a.done = (uint32_t *)(uintptr_t)((const mc_cuda_state *)call->state)->done;
    mc_cuda_grid grid = {.x = a.parts, .y = a.rows, .z = 1};
    return mc_cuda_start(call, MC_CUDA_TOPK_KERNEL, grid, &a);
}

/* ---- norms ---- */

enum { WARP_ROW = 512, NORM_THREADS = 256, LANES = 32 }; /* as kern/row.cuh has them */

mc_cuda_norm mc_cuda_norm_of(const mc_call *call) {
    const mc_layout *l = call->in[0].layout;
    mc_cuda_norm a = {.d = l->shape[l->ndim - 1],
                      .eps = ((const mc_attr_norm *)call->attr)->eps,
                      .centred = call->op == MC_OP_LAYER_NORM,
                      .ndim = l->ndim - 1,
                      .x = mc_cuda_view_of(call, &call->in[0]),
                      .out = mc_cuda_view_of(call, &call->out)};
    memcpy(a.shape, l->shape, sizeof a.shape);
    if (call->n_in > 1) a.weight = mc_cuda_view_of(call, &call->in[1]);
    if (call->n_in > 2) a.bias = mc_cuda_view_of(call, &call->in[2]);
    a.rows = a.d > 0 ? mc_layout_size(l) / a.d : 0;
    return a;
}

mica_status mc_cuda_run_norm(const mc_call *call) {
    mc_cuda_norm a = mc_cuda_norm_of(call);
    int64_t of_block = a.d <= WARP_ROW ? NORM_THREADS / LANES : 1;
    mc_cuda_grid grid = block_a_row(call, (a.rows + of_block - 1) / of_block);
    grid.threads = NORM_THREADS;
    return mc_cuda_start(call, MC_CUDA_NORM_KERNEL, grid, &a);
}

/* ---- RoPE ---- */

static mica_status make_rates(mc_cuda_state *st, mc_cuda_rates *to) {
    size_t bytes = (size_t)to->half * sizeof(double);
    double *rates = mc_alloc(bytes);
    if (!rates) return mc_fail_nomem("the rates of RoPE");
    for (int64_t j = 0; j < to->half; j++)
        rates[j] = to->scale * pow(to->base, -(double)j / (double)to->half);
    int error = mc_cuda.alloc(&to->address, bytes);
    if (!error) { /* what is not pinned has been read when it returns */
        error = mc_cuda.to_device(to->address, rates, bytes, st->stream);
        if (error) (void)mc_cuda.free(to->address);
    }
    mc_free(rates);
    return mc_cuda_check(error, "the rates of RoPE");
}

/* scale * base^(-j / half) for j < half, on the device as long as it is open; NULL: there is no
 * memory, or no room for more tables. */
static const double *find_rates(mc_cuda_state *st, double base, double scale, int64_t half) {
    mc_cuda_rates want = {base, scale, half, 0};
    (void)pthread_mutex_lock(&st->lock);
    for (int i = 0; i < st->n_rates && !want.address; i++) {
        const mc_cuda_rates *r = &st->rates[i];
        if (r->base == base && r->scale == scale && r->half == half) want.address = r->address;
    }
    if (!want.address && half > 0 && st->n_rates < MC_CUDA_RATES) {
        if (make_rates(st, &want) == MICA_OK)
            st->rates[st->n_rates++] = want;
        else
            want.address = 0;
    }
    (void)pthread_mutex_unlock(&st->lock);
    return (const double *)(uintptr_t)want.address;
}

mc_cuda_rope mc_cuda_rope_of(const mc_call *call) {
    const mc_attr_rope *attr = call->attr;
    const mc_layout *x = call->in[0].layout;
    mc_cuda_rope a = {.length = x->shape[x->ndim - 2],
                      .d = x->shape[x->ndim - 1],
                      .half = attr->dims / 2,
                      .base = attr->base,
                      .scale = attr->scale,
                      .traditional = attr->traditional != 0,
                      .ndim = x->ndim - 1,
                      .x = mc_cuda_view_of(call, &call->in[0]),
                      .offset = mc_cuda_view_of(call, &call->in[1]),
                      .out = mc_cuda_view_of(call, &call->out)};
    memcpy(a.shape, x->shape, sizeof a.shape);
    if (call->n_in > 2) a.freqs = mc_cuda_view_of(call, &call->in[2]);
    if (!a.freqs.is_there) a.rates = find_rates(call->state, a.base, a.scale, a.half);
    a.rows = a.d > 0 ? mc_layout_size(x) / a.d : 0;
    return a;
}

mica_status mc_cuda_rotate(const mc_call *call) {
    enum { WARPS = 8 };
    mc_cuda_rope a = mc_cuda_rope_of(call);
    return mc_cuda_start(call, MC_CUDA_ROPE_KERNEL, block_a_row(call, (a.rows + WARPS - 1) / WARPS),
                         &a);
}

/* ---- q8 ---- */

mc_cuda_q8 mc_cuda_q8_of(const mc_call *call) {
    const mc_layout *x = call->in[0].layout, *out = call->out.layout;
    bool narrows = call->op == MC_OP_TO_Q8;
    int64_t of_x = x->shape[x->ndim - 1], of_out = out->shape[out->ndim - 1];
    mc_cuda_q8 a = {.d = narrows ? of_x : of_out,
                    .bytes = narrows ? of_out : of_x,
                    .rows = of_x > 0 ? mc_layout_size(x) / of_x : 0,
                    .ndim = x->ndim - 1,
                    .narrows = narrows,
                    .x = mc_cuda_view_of(call, &call->in[0]),
                    .out = mc_cuda_view_of(call, &call->out)};
    memcpy(a.shape, x->shape, sizeof a.shape);
    return a;
}

mica_status mc_cuda_convert_q8(const mc_call *call) {
    mc_cuda_q8 a = mc_cuda_q8_of(call);
    int64_t each = a.narrows ? (a.d + 31) / 32 : a.d;
    return mc_cuda_start(call, MC_CUDA_Q8_KERNEL, mc_cuda_over(call, a.rows * each), &a);
}
