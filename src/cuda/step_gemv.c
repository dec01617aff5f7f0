/* Products of one row: kern/gemv.cu. */
#include "cuda/cuda.h"
#include "cuda/kern/gemv.h"

enum {
    TILE = 16,
    THREADS = 256,
    WARPS = 8,
    MAX_STAGES = 3,
    EARLY_STAGES = 2,
    PART_BYTES = 48 << 10 /* of sums that wait for others */
};                        /* as kern/gemv.cu has them */
enum { Q4 };              /* a form of kern/planes.cuh */
enum { CODES = 1, SCALES, BIASES };

static bool is_given(const mc_call *call) {
    for (int i = CODES; i <= BIASES && i < call->n_in; i++)
        if (call->in[i].layout && !mc_run_is_given(call, i)) return false;
    return true;
}

static int64_t tiles_of_block(const mc_cuda_state *state, const mc_cuda_gemv *a) {
    /* a tile more: gates go by two, which the tiles of a block may have to be rounded up to */
    int64_t tiles = (int64_t)a->tiles * a->batches;
    return (tiles + state->multiprocessors - 1) / state->multiprocessors + 1;
}

static int64_t slot_bytes(const mc_cuda_gemv *a) {
    return TILE * (a->pitch + (a->bits == 16 ? 0 : MC_CUDA_GEMV_SCALES));
}

/* Sets `bunch`. */
static void set_bunch(const mc_cuda_state *state, mc_cuda_gemv *a) {
    int64_t all = (tiles_of_block(state, a) + 1) / 2 * 2, part = a->units * TILE * 4;
    int64_t most = PART_BYTES / part / 2 * 2;
    a->bunch = (int32_t)(all < most ? all : most < 2 ? 2 : most);
}

/* What sums of a norm, picks, the row, weights of norms, and sums of products take in shared
 * memory. */
static int64_t bytes_beside_slots(const mc_cuda_gemv *a, int64_t unit) {
    int64_t k = a->x_rows * a->units * unit;
    int64_t row = k * (4 + 2) + k / 32 * 8;
    if (a->x_rows == 1 && k < MC_CUDA_GEMV_NORM_K + unit) row += 2 * k * 4;
    return 32 * 8 + MC_CUDA_GEMV_BATCHES * 8 + row + a->bunch * a->units * TILE * 4;
}

static int64_t find_stages(const mc_cuda_state *state, const mc_cuda_gemv *a, int64_t beside,
                           int wanted) {
    int64_t room = (state->shared_bytes - 1024 - beside) / (WARPS * slot_bytes(a));
    int64_t most = (tiles_of_block(state, a) * a->units + WARPS - 1) / WARPS;
    if (wanted < 1) wanted = MAX_STAGES;
    if (most > wanted) most = wanted;
    return room < most ? room : most;
}

/* Of an index of batches, which is along one axis; whether it is. */
static bool set_index(const mc_cuda_matmul *a, const mc_cuda_view *view, int64_t count,
                      mc_cuda_gemv_index *index) {
    *index = (mc_cuda_gemv_index){
        .data = view->data, .count = (int32_t)count, .is_unsigned = view->dtype == MC_CUDA_U32};
    int axes = 0;
    for (int k = 0; k < a->ndim; k++) {
        if (a->shape[k] == 1) continue;
        index->stride = view->strides[k];
        axes++;
    }
    return view->is_there && view->data && axes <= 1 && count <= INT32_MAX &&
           (view->dtype == MC_CUDA_I32 || view->dtype == MC_CUDA_U32);
}

/* Rows of x, of which picks choose; whether the kernel has these. */
static bool set_rows(const mc_cuda_matmul *a, const mc_cuda_planes_matmul *p, mc_cuda_gemv *to) {
    const int64_t *strides = a->x.strides;
    to->batches = to->x_rows = 1;
    if (!p->rhs.is_there) return a->batches == 1 && strides[a->ndim + 1] == 1;
    if (a->batches > MC_CUDA_GEMV_BATCHES || !set_index(a, &p->rhs, p->rhs_count, &to->rhs) ||
        (p->lhs.is_there && !set_index(a, &p->lhs, p->lhs_count, &to->lhs)) || p->lhs_count < 1 ||
        p->lhs_count > MC_CUDA_GEMV_BATCHES)
        return false;
    to->each = p->each;
    to->batches = (int32_t)a->batches;
    to->x_rows = (int32_t)p->lhs_count;
    to->x_stride = strides[0];
    to->op = p->op;
    to->fault = p->fault;
    return strides[2] == 1 && (to->x_rows == 1 || strides[0] % 4 == 0);
}

/* Matrix p->matrices[i], and whether the kernel takes it. */
static bool add_matrix(const mc_cuda_planes_matmul *p, int i, mc_cuda_gemv *to) {
    const mc_cuda_planes_matrix *m = &p->matrices[i];
    int64_t scale_stride = m->scale_stride * p->scale_bytes;
    to->matrices[i] = (mc_cuda_gemv_matrix){.codes = m->codes,
                                            .scales = m->scales,
                                            .biases = m->biases,
                                            .out = m->out,
                                            .n = (int32_t)m->n,
                                            .first_tile = to->tiles,
                                            .code_stride = (int32_t)m->code_stride,
                                            .scale_stride = (int32_t)scale_stride,
                                            .code_step = p->w_strides[0],
                                            .scale_step = p->scale_strides[0]};
    to->tiles += (int32_t)((m->n + TILE - 1) / TILE);
    return m->out_dtype == MC_CUDA_F32 && m->n <= INT32_MAX / MC_CUDA_GEMV_BATCHES - TILE &&
           m->code_stride <= INT32_MAX && scale_stride <= INT32_MAX;
}

/* How scales are copied; whether the kernel can. */
static bool set_scales(const mc_cuda_planes_matmul *p, int64_t k, mc_cuda_gemv *to) {
    if (p->scale_bytes == 0) return true;
    to->spread = p->spread;
    to->scale_is_f16 = p->scale_is_f16;
    to->scale_bytes = (MC_CUDA_UNIT_GROUPS >> p->spread) * p->scale_bytes;
    to->scales_of_row = (int32_t)(k / p->group * p->scale_bytes);
    to->scale_width = p->scale_width == 16 ? 16 : p->scale_width >= 4 ? 4 : 1;
    bool is_plain = to->scale_width > 1 && to->spread == 0;
    return p->form == Q4 ? is_plain : to->scale_width > 1 || to->scale_bytes <= 8;
}

bool mc_cuda_gemv_of(const mc_call *call, const mc_cuda_matmul *a, const mc_cuda_planes_matmul *p,
                     int stages, mc_cuda_gemv *to) {
    const mc_cuda_state *state = call->state;
    int64_t unit = p->padded / p->units;
    *to = (mc_cuda_gemv){.n_matrices = p->n_matrices,
                         .k = (int32_t)a->k,
                         .units = p->units,
                         .bits = p->bits,
                         .mode = p->mode,
                         .unit_bytes = (int32_t)(unit * p->bits / 8),
                         .pitch = p->pitch,
                         .form = p->form,
                         .x = a->x.data,
                         .done = (uint32_t *)(uintptr_t)state->done};
    bool fits = a->m == 1 && p->n_matrices <= MC_CUDA_GEMV_MATRICES && a->k % 8 == 0 &&
                p->code_width == 16 && a->x.data && a->x.dtype == MC_CUDA_F32 &&
                (uintptr_t)a->x.data % 16 == 0 && set_rows(a, p, to) && set_scales(p, a->k, to) &&
                to->x_rows * a->k <= MC_CUDA_GEMV_MAX_K;
    for (int i = 0; i < p->n_matrices && fits; i++)
        fits = add_matrix(p, i, to);
    if (!fits) return false;
    set_bunch(state, to);
    to->stages = (int32_t)find_stages(state, to, bytes_beside_slots(to, unit), stages);
    to->early_stages = to->rhs.data ? 0 : to->stages < EARLY_STAGES ? to->stages : EARLY_STAGES;
    return to->stages > 0;
}

/* A block has more than half of a multiprocessor's shared memory: so each has one of the next
 * kernel's, which begin as these end. */
mica_status mc_cuda_run_gemv(const mc_call *call, const mc_cuda_gemv *a) {
    const mc_cuda_state *state = call->state;
    int64_t unit = a->unit_bytes * 8 / a->bits, half = state->shared_bytes / 2 + 1024;
    int64_t shared = bytes_beside_slots(a, unit) + a->stages * WARPS * slot_bytes(a);
    int64_t tiles = (int64_t)a->tiles * a->batches;
    mc_cuda_grid grid = {.x = tiles < state->multiprocessors ? tiles : state->multiprocessors,
                         .y = 1,
                         .z = 1,
                         .threads = THREADS,
                         .shared_bytes = (int)(shared > half ? shared : half),
                         .early = true};
    for (int i = 0; i < a->n_matrices && !a->rhs.data; i++)
        grid.early = grid.early && is_given(&call[i]);
    return mc_cuda_start(call, (mc_cuda_kernel)((int)MC_CUDA_GEMV_Q4_KERNEL + a->form), grid, a);
}
