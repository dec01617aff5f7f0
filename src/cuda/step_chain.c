/* Steps that go row by row, or element by element, as one kernel. */
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/kern/heads.h"
#include "graph/attr.h"

enum { THREADS = 256, WARP_ROW = 512, LANES = 32 }; /* as kern/row.cuh has them */

/* ---- forms ---- */

/* What a chain has of an op: a row sets the kind, how its struct is filled, which operands go by
 * rows, and what is counted. */
typedef enum rows_of { FIRST, SECOND } rows_of;

typedef struct form {
    mc_op op;
    int kind;
    rows_of rows;
    bool by_rows; /* its units are rows of the last axis, else elements */
} form;

static const form forms[] = {
    {MC_OP_CONTIGUOUS, MC_CUDA_COPY_STAGE, FIRST, false},
    {MC_OP_SLICE_UPDATE_AT, MC_CUDA_COPY_STAGE, SECOND, false},
    {MC_OP_KV_WRITE, MC_CUDA_KV_WRITE_STAGE, SECOND, false},
    {MC_OP_RMS_NORM, MC_CUDA_NORM_STAGE, FIRST, true},
    {MC_OP_LAYER_NORM, MC_CUDA_NORM_STAGE, FIRST, true},
    {MC_OP_ROPE, MC_CUDA_ROPE_STAGE, FIRST, true},
    {MC_OP_TO_Q8, MC_CUDA_Q8_STAGE, FIRST, true},
    {MC_OP_FROM_Q8, MC_CUDA_Q8_STAGE, FIRST, true},
};

static const form *find_form(mc_op op) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].op == op) return &forms[i];
    return NULL;
}

mc_row_form mc_cuda_rows(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                         int n_in) {
    const form *f = find_form(op);
    (void)state, (void)attr, (void)in;
    if (f && f->rows == SECOND) return (mc_row_form){.by_row = 2};
    if (f) return (mc_row_form){.by_row = 1, .result = true};
    if (mc_cuda_element_row(op) < 0) return (mc_row_form){0};
    uint32_t all = (UINT32_C(1) << n_in) - 1;
    return (mc_row_form){.by_row = all, .result = true, .by_element = true};
}

int64_t mc_cuda_enough_rows(const void *own) {
    const mc_cuda_state *state = own;
    return state->multiprocessors;
}

/* ---- a region ---- */

/* Bits of the operands of an op that are the whole result of the one before, in f32. */
static int32_t find_lasts(const mc_call *call) {
    const mc_operand *last = &call[-1].out;
    int32_t bits = 0;
    if (call->op == MC_OP_WHERE || call[-1].op == MC_OP_WHERE || last->layout->dtype != MICA_F32)
        return 0; /* WHERE copies what it does not look at */
    for (int k = 0; k < call->n_in; k++)
        if (call->in[k].data == last->data && call->in[k].layout->dtype == MICA_F32) bits |= 1 << k;
    return bits;
}

static bool is_rows(const mc_operand *x, mica_dtype dtype, int64_t size) {
    return x->data && x->layout->dtype == dtype && mc_layout_size(x->layout) == size &&
           mc_layout_is_dense(x->layout);
}

/* What kern/gated.cu has: fills *a. Numbers of the launch lie on the host. */
static bool is_gated(const mc_call *call, mc_cuda_gated *a) {
    const mc_call *product = &call[1];
    int64_t size = mc_layout_size(call->out.layout);
    if (call->span != 2 || (call->op != MC_OP_SILU && call->op != MC_OP_GELU_APPROX) ||
        product->op != MC_OP_MULTIPLY)
        return false;
    int own = product->in[0].data == call->out.data ? 0 : 1;
    const mc_operand *all[] = {&call->in[0], &call->out, &product->in[own], &product->in[1 - own],
                               &product->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!is_rows(all[i], MICA_F32, size) || mc_run_is_number(call->run, all[i])) return false;
    *a = (mc_cuda_gated){.size = size,
                         .x = call->in[0].data,
                         .y = product->in[1 - own].data,
                         .gate = call->out.data,
                         .out = product->out.data,
                         .is_gelu = call->op == MC_OP_GELU_APPROX};
    return product->in[own].data == call->out.data && a->y != a->gate;
}

static mica_status run_region(const mc_call *call) {
    mc_cuda_gated gated;
    if (is_gated(call, &gated))
        return mc_cuda_start(call, MC_CUDA_GATED_KERNEL, mc_cuda_over(call, gated.size), &gated);
    for (int from = 0; from < call->span; from += MC_CUDA_OPS) {
        int n = call->span - from < MC_CUDA_OPS ? call->span - from : MC_CUDA_OPS;
        mc_cuda_region a = {.size = mc_layout_size(call->out.layout), .n = n};
        for (int k = 0; k < n; k++) {
            a.ops[k] = mc_cuda_elements_of(&call[from + k]);
            if (k > 0) a.ops[k].lasts = find_lasts(&call[from + k]);
        }
        MC_TRY(mc_cuda_start(call, MC_CUDA_REGION_KERNEL, mc_cuda_over(call, a.size), &a));
    }
    return MICA_OK;
}

/* ---- a chain ---- */

/* Whether a call must wait for one before it: for what that writes, or till it has read. */
static bool must_wait(const mc_call *call, const mc_call *before) {
    if (mc_cuda_overlap(&call->out, &before->out)) return true;
    for (int i = 0; i < call->n_in; i++)
        if (mc_cuda_overlap(&call->in[i], &before->out)) return true;
    for (int i = 0; i < before->n_in; i++)
        if (mc_cuda_overlap(&before->in[i], &call->out)) return true;
    return false;
}

static void set_struct(const mc_call *call, mc_cuda_stage *s) {
    switch (s->kind) {
    case MC_CUDA_COPY_STAGE:
        s->as.copy = call->op == MC_OP_CONTIGUOUS ? mc_cuda_contiguous_of(call)
                                                  : mc_cuda_slice_update_at_of(call);
        break;
    case MC_CUDA_KV_WRITE_STAGE:
        s->as.kv_write = mc_cuda_kv_write_of(call);
        break;
    case MC_CUDA_NORM_STAGE:
        s->as.norm = mc_cuda_norm_of(call);
        break;
    case MC_CUDA_ROPE_STAGE:
        s->as.rope = mc_cuda_rope_of(call);
        break;
    case MC_CUDA_Q8_STAGE:
        s->as.q8 = mc_cuda_q8_of(call);
        break;
    default:
        s->as.elements = mc_cuda_elements_of(call);
    }
}

/* A stage; *rows receives the rows of the chain. */
static void set_stage(const mc_call *call, mc_cuda_stage *s, int64_t *rows) {
    const form *f = find_form(call->op);
    const mc_layout *l = call->in[f && f->rows == SECOND ? 1 : 0].layout;
    int64_t units = mc_layout_size(l);
    bool by_rows = f && f->by_rows;
    s->kind = f ? f->kind : MC_CUDA_ELEMENT_STAGE;
    set_struct(call, s);
    if (by_rows) units /= l->shape[l->ndim - 1];
    s->outer = 1;
    for (int k = 0; k < call->axis; k++)
        s->outer *= l->shape[k];
    *rows = l->shape[call->axis];
    s->inner = units / (s->outer * *rows);
    int64_t n = s->outer * s->inner, warps = by_rows ? n : (n + LANES - 1) / LANES;
    if (s->kind == MC_CUDA_NORM_STAGE && s->as.norm.d > WARP_ROW) warps = 0;
    s->warps = (int32_t)(warps % (THREADS / LANES));
}

static mica_status run_some(const mc_call *call, int n) {
    mc_cuda_chain a = {.n = n};
    int barrier = 0;
    for (int k = 0; k < n; k++) {
        set_stage(&call[k], &a.stages[k], &a.rows);
        for (int i = barrier; i < k && !a.stages[k].waits; i++)
            a.stages[k].waits = must_wait(&call[k], &call[i]);
        if (a.stages[k].waits) barrier = k;
    }
    const mc_cuda_state *state = call->state;
    int64_t most = (int64_t)state->multiprocessors * 16;
    mc_cuda_grid grid = {.x = a.rows < most ? a.rows : most, .y = 1, .z = 1, .threads = THREADS};
    return mc_cuda_start(call, MC_CUDA_CHAIN_KERNEL, grid, &a);
}

/* ---- a sum and its norm ---- */

/* A norm by a weight of f32 or bf16, of rows of f32: *is_bf16 tells which. */
static bool is_plain_norm(const mc_call *norm, int64_t size, int32_t *is_bf16) {
    const mc_operand *weight = &norm->in[1];
    const mc_layout *l = norm->out.layout;
    if (norm->op != MC_OP_RMS_NORM || norm->n_in < 2 || !weight->layout) return false;
    *is_bf16 = weight->layout->dtype == MICA_BF16;
    return is_rows(weight, *is_bf16 ? MICA_BF16 : MICA_F32, l->shape[l->ndim - 1]) &&
           (uintptr_t)weight->data % 16 == 0 && is_rows(&norm->in[0], MICA_F32, size) &&
           is_rows(&norm->out, MICA_F32, size);
}

/* y, to which a bias of f32 is added, the same for all rows: fills what *a has of it. */
static bool is_bias(const mc_call *add, int64_t size, mc_cuda_add_norm *a) {
    const mc_operand *bias = &add->in[1];
    const mc_layout *l = bias->layout;
    int last = add->op == MC_OP_ADD ? l->ndim - 1 : -1;
    if (last < 0 || l->dtype != MICA_F32 || l->shape[last] != a->d || l->strides[last] != 1 ||
        !bias->data || !is_rows(&add->in[0], MICA_F32, size))
        return false;
    for (int k = 0; k < last; k++)
        if (l->shape[k] != 1 && l->strides[k] != 0) return false;
    a->bias = bias->data;
    a->biased = add->out.data;
    a->given = a->given && mc_run_is_given(add, 1);
    return ((uintptr_t)a->bias | (uintptr_t)a->biased) % 16 == 0;
}

/* What kern/norms.cu has a kernel of its own for, a sum and its norm, or a norm, or the sum with a
 * bias, before them: fills *a. */
static bool is_add_norm(const mc_call *call, mc_cuda_add_norm *a) {
    const bool has_first = call->span == 3;
    const mc_call *add = call + has_first, *norm = add + 1;
    const mc_operand *sum = &add->out, *x = &add->in[0], *y = &add->in[1];
    int64_t size = mc_layout_size(call->out.layout);
    if (call->span < 2 || call->span > 3 || add->op != MC_OP_ADD ||
        !is_plain_norm(norm, size, &a->weight_is_bf16) || norm->in[0].data != sum->data ||
        !is_rows(x, MICA_F32, size) || !is_rows(y, MICA_F32, size) || !is_rows(sum, MICA_F32, size))
        return false;
    a->d = sum->layout->shape[sum->layout->ndim - 1];
    if (a->d <= WARP_ROW || a->d > MC_CUDA_ADD_NORM_D) return false;
    a->rows = size / a->d;
    a->eps = ((const mc_attr_norm *)norm->attr)->eps;
    a->weight = norm->in[1].data;
    a->given = mc_run_is_given(norm, 1);
    if (has_first) {
        if (x->data == call->out.data) x = &add->in[1], y = &add->in[0];
        if (y->data != call->out.data || x->data == y->data) return false;
        y = &call->in[0];
    }
    if (has_first && call->op != MC_OP_RMS_NORM) {
        if (!is_bias(call, size, a)) return false;
    } else if (has_first) {
        if (!is_plain_norm(call, size, &a->inner_is_bf16)) return false;
        a->inner_weight = call->in[1].data;
        a->inner_eps = ((const mc_attr_norm *)call->attr)->eps;
        a->normed = call->out.data;
        a->given = a->given && mc_run_is_given(call, 1);
    }
    a->x = x->data;
    a->y = y->data;
    a->sum = sum->data;
    a->out = norm->out.data;
    uintptr_t at = (uintptr_t)a->x | (uintptr_t)a->y | (uintptr_t)a->normed | (uintptr_t)a->sum |
                   (uintptr_t)a->out;
    return a->d % 4 == 0 && at % 16 == 0;
}

static mica_status run_add_norm(const mc_call *call, const mc_cuda_add_norm *a) {
    const mc_cuda_state *state = call->state;
    int64_t most = (int64_t)state->multiprocessors * 16, warps = (a->d / 4 + 31) / 32;
    mc_cuda_grid grid = {
        .x = a->rows < most ? a->rows : most, .y = 1, .z = 1, .threads = (int)warps * 32};
    return mc_cuda_start(call, MC_CUDA_ADD_NORM_KERNEL, grid, a);
}

mica_status mc_cuda_run_chain(const mc_call *call) {
    if (mc_run_is_measured(call->run)) return MICA_OK; /* it takes no memory */
    if (call->axis == MC_BY_ELEMENT) return run_region(call);
    mc_cuda_add_norm add_norm = {.d = 0};
    if (is_add_norm(call, &add_norm)) return run_add_norm(call, &add_norm);
    for (int k = 0; k < call->span; k++)
        if (call[k].op == MC_OP_SLICE_UPDATE_AT || call[k].op == MC_OP_KV_WRITE)
            MC_TRY(mc_cuda_copy_base(&call[k]));
    mc_cuda_heads heads;
    if (mc_cuda_heads_of(call, &heads)) return mc_cuda_run_heads(call, &heads);
    for (int k = 0; k < call->span; k += MC_CUDA_STAGES) {
        int n = call->span - k < MC_CUDA_STAGES ? call->span - k : MC_CUDA_STAGES;
        MC_TRY(run_some(&call[k], n));
    }
    return MICA_OK;
}
