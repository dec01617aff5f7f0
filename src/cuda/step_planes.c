/* Products of quantised weights and activations as integers: kern/planes.cu. */
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/kern/gemv.h"
#include "graph/attr.h"

/* As kern/planes.cu and kern/tiles.cu have them. */
enum { TILE = 16, SCALE_PITCH = 16, PAIRED_ROWS = 4, FEW_ROWS = 8, WARPS = 8 };
enum { WHOLE_STAGES = 2, MAX_STAGES = 6 }; /* of whole ones, more take as long */
enum { PART_BYTES = 32 << 10, MOST_PART_BYTES = 64 << 10, MOST_BATCHES = 65535 };
enum { MOST_OWN_BYTES = 48 << 10 };
enum { LARGE_TILE = 128, SMALL_TILE = 64, TILE_STAGES = 4, STEP_GROUPS = 2 };
/* As kern/gemm.cu has them: rows of a matrix, and the most of x, of a tile. */
enum { PROMPT_ROWS = 65, GEMM_TILE = 128, GEMM_ROWS = 256, GEMM_SIZES = 3 };
enum { GEMM_COLUMNS = 128, GEMM_SLOTS = 3 };
enum { GROUPED = 64, MOST_GROUPS = 1024 }; /* batches at least, and matrices at most */
enum { ACROSS = 32 };                      /* as kern/matmul.cu has it */

mc_cuda_tuning mc_cuda_planes_tuning;

/* As kern/planes.cuh has them. */
typedef enum format { Q4, CODES, BF16, FORMATS } format;

static bool is_fast(const mc_call *call) {
    if (call->op == MC_OP_MATMUL || call->op == MC_OP_GATHER_MM)
        return ((const mc_attr_matmul *)call->attr)->fast != 0;
    return ((const mc_attr_quant *)call->attr)->fast != 0;
}

static format format_of(const mc_cuda_matmul *a) {
    const mc_cuda_quant *q = &a->quant;
    if (!a->is_quantised) return BF16;
    return q->mode == MC_CUDA_AFFINE && q->bits == 4 && q->group >= 64 ? Q4 : CODES;
}

static int bits_of(const mc_cuda_matmul *a) {
    return a->is_quantised ? a->quant.bits : 16;
}

/* Numbers that one scale of the activations is for; and those of a unit. */
static int group_of(const mc_cuda_matmul *a) {
    return format_of(a) == Q4 ? 64 : 32;
}

static int64_t unit_of(const mc_cuda_matmul *a) {
    return group_of(a) * (format_of(a) == BF16 ? 4 : MC_CUDA_UNIT_GROUPS);
}

static int64_t units_of(const mc_cuda_matmul *a) {
    return (a->k + unit_of(a) - 1) / unit_of(a);
}

/* What the sums of a tile's units take, until they are added up. */
static int64_t part_bytes_of(const mc_cuda_matmul *a) {
    return units_of(a) * a->m * TILE * (int64_t)sizeof(float);
}

static bool has_scales(int mode, int64_t group, mica_dtype scales) {
    if (mode == MICA_QUANT_MXFP4) return group == 32;
    return mode == MICA_QUANT_AFFINE && group >= 32 && group <= 128 &&
           (scales == MICA_BF16 || scales == MICA_F16);
}

bool mc_cuda_scales_fit(const mc_attr_quant *quant, const mc_layout *scales) {
    return has_scales((int)quant->mode, quant->group_size, scales->dtype);
}

bool mc_cuda_fits_planes(const mc_call *call, const mc_cuda_matmul *a) {
    bool rows = a->is_quantised ? a->transpose && mc_cuda_scales_fit(call->attr, call->in[2].layout)
                                : a->w.dtype == MC_CUDA_BF16 && a->w_k == 1 && a->w_n >= a->k;
    return rows && a->k > 0 && a->n > 0 && a->m > 0 && a->batches > 0 && a->batches <= MOST_BATCHES;
}

bool mc_cuda_is_alike(const mc_call *call, const mc_cuda_matmul *a, const mc_call *other_call,
                      const mc_cuda_matmul *other) {
    const mc_cuda_quant *q = &a->quant, *r = &other->quant;
    return is_fast(call) == is_fast(other_call) && a->batches == other->batches &&
           a->m == other->m && a->k == other->k && a->is_quantised == other->is_quantised &&
           q->mode == r->mode && q->bits == r->bits && q->group == r->group &&
           q->scales.dtype == r->scales.dtype;
}

bool mc_cuda_joins_planes(const mc_call *call, const mc_cuda_matmul *a, const mc_call *other_call,
                          const mc_cuda_matmul *other) {
    return a->batches == 1 && mc_cuda_is_alike(call, a, other_call, other);
}

/* ---- activations ---- */

typedef struct planes {
    int64_t rows, padded;
    int count, group;
    const mc_cuda_picks *picks; /* NULL: no matrices are picked */
    int8_t *codes;              /* NULL: no memory, or it is only measured */
    float *scales;
} planes;

static planes planes_of(const mc_call *call, const mc_cuda_matmul *a, const mc_cuda_picks *picks) {
    bool picked = picks && picks->lhs_count > 0, terms = format_of(a) == BF16;
    return (planes){.picks = picks,
                    .count = !is_fast(call) ? 3
                             : terms        ? 1
                                            : 2,
                    .group = group_of(a),
                    .rows = (picked ? picks->lhs_count : a->batches) * a->m,
                    .padded = units_of(a) * unit_of(a)};
}

static size_t code_bytes_of(const mc_cuda_matmul *a, const planes *p) {
    return (size_t)(p->rows * p->padded) * (size_t)p->count * (format_of(a) == BF16 ? 2 : 1);
}

static size_t scale_bytes_of(const mc_cuda_matmul *a, const planes *p) {
    return format_of(a) == BF16 ? 0 : (size_t)(p->rows * p->padded / p->group) * 2 * sizeof(float);
}

static mc_cuda_to_planes source_of(const mc_cuda_matmul *a, const planes *p) {
    mc_cuda_to_planes args = {.rows = p->rows,
                              .k = a->k,
                              .padded = p->padded,
                              .ndim = a->ndim + 1,
                              .planes = p->count,
                              .group = format_of(a) == BF16 ? 0 : p->group,
                              .x = a->x,
                              .codes = p->codes,
                              .scales = p->scales};
    memcpy(args.shape, a->shape, sizeof args.shape);
    args.shape[a->ndim] = a->m;
    if (p->picks && p->picks->lhs_count > 0) {
        args.ndim = 2;
        args.shape[0] = p->picks->lhs_count;
        args.shape[1] = a->m;
    }
    return args;
}

static size_t planes_bytes(const mc_cuda_matmul *a, const planes *p) {
    return (code_bytes_of(a, p) + scale_bytes_of(a, p) + 63) / 64 * 64;
}

/* In scratch, behind which so many bytes more are the caller's. */
static mica_status make_planes(const mc_call *call, const mc_cuda_matmul *a, planes *p,
                               size_t more) {
    size_t codes = code_bytes_of(a, p);
    p->codes = mc_run_scratch(call->run, planes_bytes(a, p) + more);
    if (mc_run_is_measured(call->run)) return MICA_OK;
    if (!p->codes) return MICA_ENOMEM;
    p->scales = (float *)(void *)(p->codes + codes);
    mc_cuda_to_planes args = source_of(a, p);
    return mc_cuda_start(call, MC_CUDA_TO_PLANES_KERNEL,
                         mc_cuda_over(call, p->rows * p->padded / 8), &args);
}

/* ---- products ---- */

/* The most bytes, of 16, that divide all of `bits`; copies of less than 4 go one by one. */
static int width_of(uint64_t bits) {
    for (int width = 16; width >= 4; width /= 2)
        if (bits % (unsigned)width == 0) return width;
    return 1;
}

/* Bytes between rows of a slot. */
static int pitch_of(const mc_cuda_matmul *a) {
    switch (format_of(a)) {
    case Q4:
        return 256 + 32;
    case BF16:
        return 256 + 64;
    default:
        return 32 * a->quant.bits + (a->quant.bits == 8 ? 32 : 16);
    }
}

static mc_cuda_planes_matrix matrix_of(const mc_cuda_matmul *a) {
    const mc_cuda_quant *q = &a->quant;
    mc_cuda_planes_matrix m = {.codes = q->codes.data,
                               .scales = q->scales.data,
                               .biases = q->biases.data,
                               .out = a->out.data,
                               .n = a->n,
                               .code_stride = q->code_stride * 4,
                               .scale_stride = q->scale_stride,
                               .out_dtype = a->out.dtype};
    if (a->is_quantised) return m;
    m.codes = a->w.data;
    m.code_stride = a->w_n * 2;
    return m;
}

/* The bits of all that copies have to begin and end at are collected. */
static void add_matrix(mc_cuda_planes_matmul *to, const mc_cuda_matmul *a, int tile,
                       uint64_t *code_bits, uint64_t *scale_bits) {
    int64_t scales = a->is_quantised ? a->k / a->quant.group : 0;
    mc_cuda_planes_matrix *m = &to->matrices[to->n_matrices++];
    *m = matrix_of(a);
    m->first_tile = to->tiles;
    to->tiles += (int32_t)((a->n + tile - 1) / tile);
    *code_bits |= (uint64_t)(uintptr_t)m->codes | (uint64_t)m->code_stride |
                  (uint64_t)(a->k * bits_of(a) / 8);
    *scale_bits |= (uint64_t)(uintptr_t)m->scales | (uint64_t)(uintptr_t)m->biases |
                   (uint64_t)((m->scale_stride | scales) * to->scale_bytes);
}

/* tile: rows of a matrix that a block, or a warp, multiplies at once. */
static mc_cuda_planes_matmul args_of(const mc_call *call, const mc_cuda_matmul *a, int n,
                                     const planes *p, int tile) {
    const mc_cuda_quant *q = &a->quant;
    mc_cuda_planes_matmul to = {.m = (int32_t)a->m,
                                .each = 1,
                                .units = (int32_t)units_of(a),
                                .bits = bits_of(a),
                                .mode = q->mode,
                                .form = (int32_t)format_of(a),
                                .pitch = pitch_of(a),
                                .scale_bytes = !a->is_quantised           ? 0
                                               : q->mode == MC_CUDA_MXFP4 ? 1
                                                                          : 2,
                                .scale_is_f16 = q->scales.dtype == MC_CUDA_F16,
                                .k = a->k,
                                .padded = p->padded,
                                .group = q->group,
                                .batches = a->batches,
                                .x_rows = p->rows,
                                .ndim = a->ndim,
                                .x = p->codes,
                                .x_scales = p->scales};
    uint64_t code_bits = tile == TILE ? 0 : (uint64_t)(p->group / 8 * bits_of(a)), scale_bits = 0;
    int word = a->is_quantised ? 4 : 2;
    for (int each = p->group; each < q->group; each *= 2)
        to.spread++;
    memcpy(to.shape, a->shape, sizeof to.shape);
    for (int k = 0; k < (p->picks ? 1 : a->ndim); k++) { /* of all the same, where some pick */
        to.w_strides[k] = a->w_strides[k] * word;
        to.scale_strides[k] = a->scale_strides[k] * to.scale_bytes;
        code_bits |= (uint64_t)to.w_strides[k];
        scale_bits |= (uint64_t)to.scale_strides[k];
    }
    if (p->picks) {
        to.lhs = p->picks->lhs;
        to.rhs = p->picks->rhs;
        to.lhs_count = p->picks->lhs_count;
        to.each = (int32_t)p->picks->each;
        to.rhs_count = p->picks->rhs_count;
        to.op = (int32_t)call->op;
        to.fault = mc_cuda_fault_of(call);
    }
    for (int i = 0; i < n; i++)
        add_matrix(&to, &a[i], tile, &code_bits, &scale_bits);
    to.code_width = width_of(code_bits);
    /* a unit's scales of a row are as many bytes, too */
    to.scale_width = width_of(scale_bits | (uint64_t)(MC_CUDA_UNIT_GROUPS >> to.spread) *
                                               (uint64_t)to.scale_bytes);
    return to;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- few rows ---- */

/* What kern/planes.cu's fetch_whole copies: all of it is pieces of 16 bytes. */
static bool is_whole(const mc_cuda_matmul *a, const planes *p, const mc_cuda_planes_matmul *args) {
    return format_of(a) == Q4 && !p->picks && a->batches == 1 && args->spread == 0 &&
           args->code_width == 16 && args->scale_width == 16 && a->k % unit_of(a) == 0 &&
           a->n <= INT32_MAX && a->quant.code_stride <= INT32_MAX / 4 &&
           a->quant.scale_stride <= INT32_MAX / 2;
}

static mc_cuda_kernel few_rows_kernel(const mc_cuda_matmul *a, bool fast, bool whole) {
    enum { WHOLE = FORMATS };
    static const mc_cuda_kernel kernels[FORMATS + 1][2] = {
        [Q4] = {MC_CUDA_PLANES_Q4_EXACT_KERNEL, MC_CUDA_PLANES_Q4_FAST_KERNEL},
        [CODES] = {MC_CUDA_PLANES_EXACT_KERNEL, MC_CUDA_PLANES_FAST_KERNEL},
        [BF16] = {MC_CUDA_TERMS_EXACT_KERNEL, MC_CUDA_TERMS_FAST_KERNEL},
        [WHOLE] = {MC_CUDA_PLANES_Q4_WHOLE_EXACT_KERNEL, MC_CUDA_PLANES_Q4_WHOLE_FAST_KERNEL}};
    static const mc_cuda_kernel paired[FORMATS + 1] = {[Q4] = MC_CUDA_PLANES_Q4_PAIRED_KERNEL,
                                                       [CODES] = MC_CUDA_PLANES_PAIRED_KERNEL,
                                                       [BF16] = MC_CUDA_TERMS_FAST_KERNEL,
                                                       [WHOLE] =
                                                           MC_CUDA_PLANES_Q4_WHOLE_PAIRED_KERNEL};
    int row = whole ? (int)WHOLE : (int)format_of(a);
    return fast && a->m <= PAIRED_ROWS ? paired[row] : kernels[row][fast];
}

/* Whether each block makes planes for itself: that takes less time than another kernel. */
static bool makes_own(const mc_cuda_matmul *a, const planes *p, bool whole) {
    return whole && !mc_cuda_planes_tuning.apart &&
           code_bytes_of(a, p) + scale_bytes_of(a, p) <= MOST_OWN_BYTES;
}

/* As many copies on their way as shared memory has room for. */
static mica_status start_few_rows(const mc_call *call, const mc_cuda_matmul *a, int n, planes *p) {
    const mc_cuda_state *state = call->state;
    const mc_cuda_tuning *tuning = &mc_cuda_planes_tuning;
    mc_cuda_planes_matmul args = args_of(call, a, n, p, TILE);
    bool whole = true;
    for (int i = 0; i < n; i++)
        whole = whole && is_whole(&a[i], p, &args);
    mc_cuda_gemv row;
    if (is_fast(call) && mc_cuda_gemv_of(call, a, &args, tuning->stages, &row))
        return mc_cuda_run_gemv(call, &row);
    int64_t own = 0;
    if (makes_own(a, p, whole)) {
        args.source = source_of(a, p);
        own = (int64_t)(code_bytes_of(a, p) + scale_bytes_of(a, p));
    } else {
        MC_TRY(make_planes(call, a, p, 0));
        args.x = p->codes;
        args.x_scales = p->scales;
    }
    int warps = tuning->warps > 0 ? tuning->warps : WARPS;
    int most = tuning->stages > 0 ? tuning->stages : whole ? WHOLE_STAGES : MAX_STAGES;
    int on_one = tuning->blocks > 0 ? tuning->blocks : 1;
    int64_t slot = TILE * (args.pitch + 2 * SCALE_PITCH), tiles = args.tiles * a->batches;
    int64_t blocks = smaller(tiles, (int64_t)state->multiprocessors * on_one);
    int64_t part = part_bytes_of(a), bunch = PART_BYTES / part;
    args.bunch = (int32_t)smaller(bunch < 1 ? 1 : bunch, (tiles + blocks - 1) / blocks);
    part = part * args.bunch + own;
    int64_t room = (state->shared_bytes - 1024) / on_one - part, stages = room / (slot * warps);
    for (; stages < 2 && warps > 1; stages = room / (slot * warps))
        warps /= 2;
    args.stages = (int32_t)smaller(stages, most);
    mc_cuda_grid grid = {.x = blocks,
                         .y = 1,
                         .z = 1,
                         .threads = 32 * warps,
                         .shared_bytes = (int)(part + args.stages * slot * warps)};
    return mc_cuda_start(call, few_rows_kernel(a, is_fast(call), whole), grid, &args);
}

/* ---- many rows ---- */

static mc_cuda_kernel tiles_kernel(format f, bool fast, bool large) {
    static const mc_cuda_kernel kernels[FORMATS][2][2] = {
        [Q4] = {{MC_CUDA_TILES_Q4_EXACT_SMALL_KERNEL, MC_CUDA_TILES_Q4_EXACT_KERNEL},
                {MC_CUDA_TILES_Q4_FAST_SMALL_KERNEL, MC_CUDA_TILES_Q4_FAST_KERNEL}},
        [CODES] = {{MC_CUDA_TILES_EXACT_SMALL_KERNEL, MC_CUDA_TILES_EXACT_KERNEL},
                   {MC_CUDA_TILES_FAST_SMALL_KERNEL, MC_CUDA_TILES_FAST_KERNEL}},
        [BF16] = {{MC_CUDA_TILES_BF16_EXACT_SMALL_KERNEL, MC_CUDA_TILES_BF16_EXACT_KERNEL},
                  {MC_CUDA_TILES_BF16_FAST_SMALL_KERNEL, MC_CUDA_TILES_BF16_FAST_KERNEL}}};
    return kernels[f][fast][large];
}

/* What a step of a tile takes in shared memory. */
static int64_t step_bytes(const mc_cuda_matmul *a, const planes *p, int tile) {
    int64_t codes = p->group / 8 * bits_of(a);
    int64_t x = p->group * p->count * (format_of(a) == BF16 ? 2 : 1);
    return tile * (STEP_GROUPS * (codes + x) + STEP_GROUPS * 2 * (int64_t)sizeof(float));
}

/* Scales of two units, and where rows lie. */
static int64_t beside_steps(int tile) {
    return 4 * tile * SCALE_PITCH + 2 * tile * (int64_t)sizeof(int32_t);
}

static int64_t stages_of(const mc_call *call, const mc_cuda_matmul *a, const planes *p, int tile) {
    const mc_cuda_state *state = call->state;
    int64_t room = state->shared_bytes - 1024 - beside_steps(tile);
    return smaller(room / step_bytes(a, p, tile), TILE_STAGES);
}

static int64_t parts_of(int64_t length, int64_t part) {
    return (length + part - 1) / part;
}

/* Large tiles where there are enough of them for the device. */
static bool is_large(const mc_call *call, const mc_cuda_matmul *a, int n, const planes *p) {
    const mc_cuda_state *state = call->state;
    int64_t tiles = 0;
    for (int i = 0; i < n; i++)
        tiles += parts_of(a[i].n, LARGE_TILE);
    return tiles * parts_of(a->m, LARGE_TILE) * a->batches >= state->multiprocessors &&
           a->m > SMALL_TILE && stages_of(call, a, p, LARGE_TILE) >= 2;
}

/* x_tiles: of rows of x; args: but for its stages. */
static mica_status start_tiles_of(const mc_call *call, const mc_cuda_matmul *a, const planes *p,
                                  bool large, int64_t x_tiles, int64_t batches,
                                  mc_cuda_planes_matmul *args) {
    int tile = large ? LARGE_TILE : SMALL_TILE;
    args->stages = (int32_t)stages_of(call, a, p, tile);
    int64_t shared = args->stages * step_bytes(a, p, tile) + beside_steps(tile);
    mc_cuda_grid grid = {.x = x_tiles,
                         .y = args->tiles,
                         .z = batches,
                         .threads = 32,
                         .threads_y = WARPS,
                         .shared_bytes = (int)shared};
    return mc_cuda_start(call, tiles_kernel(format_of(a), is_fast(call), large), grid, args);
}

static mica_status start_tiles(const mc_call *call, const mc_cuda_matmul *a, int n,
                               const planes *p) {
    bool large = is_large(call, a, n, p);
    int tile = large ? LARGE_TILE : SMALL_TILE;
    mc_cuda_planes_matmul args = args_of(call, a, n, p, tile);
    return start_tiles_of(call, a, p, large, parts_of(a->m, tile), a->batches, &args);
}

/* ---- batches of one row that pick matrices: experts of many tokens ---- */

/* Whether rows that pick the same matrix are brought together, so that it is read once. */
static bool groups_rows(const mc_cuda_matmul *a, const planes *p) {
    return p->picks && a->m == 1 && a->batches >= GROUPED && p->picks->rhs_count <= MOST_GROUPS;
}

/* Large tiles where a matrix that is picked has as many rows. */
static bool groups_are_large(const mc_call *call, const mc_cuda_matmul *a, const planes *p) {
    return a->batches / smaller(p->picks->rhs_count, a->batches) > SMALL_TILE &&
           stages_of(call, a, p, LARGE_TILE) >= 2;
}

/* The most tiles that they may be: the last one of each matrix may be part of one. */
static int64_t row_tiles_of(const mc_cuda_matmul *a, const planes *p, bool large) {
    return a->batches / (large ? LARGE_TILE : SMALL_TILE) +
           smaller(p->picks->rhs_count, a->batches);
}

static size_t grouped_bytes(const mc_call *call, const mc_cuda_matmul *a, const planes *p) {
    return (size_t)row_tiles_of(a, p, groups_are_large(call, a, p)) * sizeof(mc_cuda_row_tile) +
           (size_t)a->batches * sizeof(int32_t);
}

/* p: made, with grouped_bytes behind. */
static mica_status start_grouped(const mc_call *call, const mc_cuda_matmul *a, int n,
                                 const planes *p) {
    bool large = groups_are_large(call, a, p);
    mc_cuda_planes_matmul args = args_of(call, a, n, p, large ? LARGE_TILE : SMALL_TILE);
    args.tile_rows = large ? LARGE_TILE : SMALL_TILE;
    args.row_tiles = (mc_cuda_row_tile *)(void *)(p->codes + planes_bytes(a, p));
    args.n_row_tiles = (int32_t)row_tiles_of(a, p, large);
    args.order = (int32_t *)(args.row_tiles + args.n_row_tiles);
    mc_cuda_grid one = {.x = 1,
                        .y = 1,
                        .z = 1,
                        .threads = 32 * WARPS,
                        .shared_bytes = 2 * (int)(p->picks->rhs_count * (int64_t)sizeof(uint32_t))};
    MC_TRY(mc_cuda_start(call, MC_CUDA_GROUP_ROWS_KERNEL, one, &args));
    return start_tiles_of(call, a, p, large, args.n_row_tiles, 1, &args);
}

/* ---- prompts, and texts that train: rows that are rounded to bf16 ---- */

/* Whether the rows are a part of the one text that a session reads. Those of a batch are not, nor
 * those of a text without caches: they have the bits that they have alone, or beside others. Nor
 * are tokens that are looked ahead at, of which there are fewer. */
static bool is_prompt(const mc_call *call) {
    const mc_layout *x = call->in[0].layout;
    return x->ndim >= 2 && x->shape[x->ndim - 2] >= PROMPT_ROWS &&
           mc_layout_size(x) == x->shape[x->ndim - 2] * x->shape[x->ndim - 1] &&
           mc_run_fills_cache(call->run);
}

static bool rounds_rows(const mc_call *call, const mc_cuda_matmul *a) {
    const mc_cuda_state *state = call->state;
    bool trains = mc_run_trains(call->run) && a->batches == 1 && a->m >= PROMPT_ROWS;
    return state->has_wgmma && is_fast(call) && (trains || is_prompt(call));
}

/* Whether kern/gemm.cu has these products. */
static bool fits_gemm(const mc_cuda_matmul *a, int n, const mc_cuda_planes_matmul *args) {
    const mc_cuda_quant *q = &a->quant;
    bool fits =
        !a->is_quantised || (q->mode == MC_CUDA_AFFINE && q->bits == 4 && q->biases.is_there);
    for (int i = 0; i < n; i++)
        fits = fits && a[i].out.dtype == MC_CUDA_F32;
    return fits && a->batches == 1 && args->code_width == 16;
}

static mc_cuda_kernel gemm_kernel(const mc_cuda_matmul *a, int size) {
    static const mc_cuda_kernel kernels[3][GEMM_SIZES] = {
        {MC_CUDA_GEMM_Q4_256_KERNEL, MC_CUDA_GEMM_Q4_128_KERNEL, MC_CUDA_GEMM_Q4_64_KERNEL},
        {MC_CUDA_GEMM_Q4_F16_256_KERNEL, MC_CUDA_GEMM_Q4_F16_128_KERNEL,
         MC_CUDA_GEMM_Q4_F16_64_KERNEL},
        {MC_CUDA_GEMM_BF16_256_KERNEL, MC_CUDA_GEMM_BF16_128_KERNEL, MC_CUDA_GEMM_BF16_64_KERNEL}};
    return kernels[!a->is_quantised ? 2 : a->quant.scales.dtype == MC_CUDA_F16][size];
}

/* Rows of x of a tile, by what the tiles of the busiest multiprocessor take: its rows, and what
 * making fragments of weights takes beside them. */
static int gemm_size(const mc_call *call, int64_t m, int64_t w_tiles) {
    const mc_cuda_state *state = call->state;
    int64_t least = INT64_MAX;
    int best = 0;
    for (int size = 0; size < GEMM_SIZES; size++) {
        int64_t tiles = w_tiles * parts_of(m, GEMM_ROWS >> size);
        int64_t time = parts_of(tiles, state->multiprocessors) * ((GEMM_ROWS >> size) + 64);
        if (time >= least) continue;
        least = time;
        best = size;
    }
    return best;
}

/* Whole tiles of x as bf16. */
static planes bf16_of(const mc_cuda_matmul *a, int tile) {
    return (planes){.count = 1,
                    .group = a->is_quantised ? a->quant.group : 0,
                    .rows = parts_of(a->m, tile) * tile,
                    .padded = parts_of(a->k, GEMM_COLUMNS) * GEMM_COLUMNS};
}

static size_t bf16_bytes(const planes *p) {
    return (size_t)(p->rows * p->padded) * 2;
}

/* x: where it is put. */
static mica_status run_gemm(const mc_call *call, const mc_cuda_matmul *a,
                            mc_cuda_planes_matmul *args, void *x) {
    const mc_cuda_state *state = call->state;
    int size = gemm_size(call, a->m, args->tiles), rows = GEMM_ROWS >> size;
    planes p = bf16_of(a, rows);
    p.codes = x;
    mc_cuda_to_planes source = source_of(a, &p);
    source.group = p.group;
    source.rows_there = a->m;
    args->padded = p.padded;
    args->x = p.codes;
    for (int i = a->quant.group; i > 1; i /= 2)
        args->group_log++;
    MC_TRY(mc_cuda_start(call, MC_CUDA_TO_BF16_KERNEL, mc_cuda_over(call, p.rows * p.padded / 8),
                         &source));
    mc_cuda_grid grid = {.x = smaller(args->tiles * parts_of(a->m, rows), state->multiprocessors),
                         .y = 1,
                         .z = 1,
                         .threads = 256,
                         .shared_bytes = 1024 + GEMM_SLOTS * rows * GEMM_COLUMNS * 2};
    return mc_cuda_start(call, gemm_kernel(a, size), grid, args);
}

static mica_status run_planes(const mc_call *call, const mc_cuda_matmul *a, int n,
                              const mc_cuda_picks *picks) {
    planes p = planes_of(call, a, picks);
    bool rounds = !picks && rounds_rows(call, a);
    planes rounded = bf16_of(a, GEMM_ROWS);
    size_t groups = groups_rows(a, &p) ? grouped_bytes(call, a, &p) : 0;
    if (mc_run_is_measured(call->run)) {
        if (rounds) (void)mc_run_scratch(call->run, bf16_bytes(&rounded));
        return make_planes(call, a, &p, groups);
    }
    if (groups) {
        MC_TRY(make_planes(call, a, &p, groups));
        return start_grouped(call, a, n, &p);
    }
    if (rounds) {
        mc_cuda_planes_matmul args = args_of(call, a, n, &p, GEMM_TILE);
        if (fits_gemm(a, n, &args)) {
            void *x = mc_run_scratch(call->run, bf16_bytes(&rounded));
            return x ? run_gemm(call, a, &args, x) : MICA_ENOMEM;
        }
    }
    if (a->m <= FEW_ROWS && part_bytes_of(a) <= MOST_PART_BYTES)
        return start_few_rows(call, a, n, &p);
    MC_TRY(make_planes(call, a, &p, 0));
    return start_tiles(call, a, n, &p);
}

mica_status mc_cuda_run_planes(const mc_call *call, const mc_cuda_matmul *a, int n) {
    return run_planes(call, a, n, NULL);
}

mica_status mc_cuda_run_picked(const mc_call *call, const mc_cuda_matmul *a, int n,
                               const mc_cuda_picks *picks) {
    return run_planes(call, a, n, picks);
}

/* ---- weights that lie across ---- */

bool mc_cuda_fits_across(const mc_call *call, const mc_cuda_matmul *a) {
    bool across = a->is_quantised ? !a->transpose : a->w.dtype == MC_CUDA_BF16 && a->w_k != 1;
    return across && a->batches == 1 && a->out.dtype == MC_CUDA_F32 && a->k > 0 && a->n > 0 &&
           a->n <= INT32_MAX && mc_run_trains(call->run) && rounds_rows(call, a);
}

static mica_status start_across(const mc_call *call, const mc_cuda_matmul *a, int64_t padded,
                                void *to) {
    mc_cuda_across args = {.k = a->k,
                           .n = a->n,
                           .padded = padded,
                           .is_quantised = a->is_quantised,
                           .w = a->w.data,
                           .w_k = a->w_k,
                           .w_n = a->w_n,
                           .quant = a->quant,
                           .out = to};
    mc_cuda_grid grid = {.x = parts_of(a->n, ACROSS),
                         .y = smaller(padded / ACROSS, MOST_BATCHES),
                         .z = 1,
                         .threads = ACROSS,
                         .threads_y = WARPS};
    return mc_cuda_start(call, MC_CUDA_ACROSS_KERNEL, grid, &args);
}

mica_status mc_cuda_run_across(const mc_call *call, const mc_cuda_matmul *a) {
    mc_cuda_matmul rows = *a;
    rows.is_quantised = 0;
    rows.quant = (mc_cuda_quant){0};
    rows.w.dtype = MC_CUDA_BF16;
    rows.w_k = 1;
    rows.w_n = parts_of(a->k, ACROSS) * ACROSS;
    planes p = bf16_of(&rows, GEMM_ROWS);
    char *x = mc_run_scratch(call->run, bf16_bytes(&p) + (size_t)(rows.w_n * a->n) * 2);
    if (mc_run_is_measured(call->run)) return MICA_OK;
    if (!x) return MICA_ENOMEM;
    rows.w.data = x + bf16_bytes(&p);
    MC_TRY(start_across(call, a, rows.w_n, rows.w.data));
    mc_cuda_planes_matmul args = args_of(call, &rows, 1, &p, GEMM_TILE);
    return run_gemm(call, &rows, &args, x);
}
