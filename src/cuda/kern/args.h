/* What kernels are started with: for C, which fills it, and for CUDA. Each kernel takes one struct,
 * by value. Strides are in elements. */
#ifndef CUDA_KERN_ARGS_H
#define CUDA_KERN_ARGS_H

#include <stdint.h>

enum { MC_CUDA_AXES = 8, MC_CUDA_OPERANDS = 3 };

/* The dtypes, as mica_dtype numbers them. */
enum {
    MC_CUDA_BOOL,
    MC_CUDA_U8,
    MC_CUDA_U16,
    MC_CUDA_U32,
    MC_CUDA_U64,
    MC_CUDA_I8,
    MC_CUDA_I16,
    MC_CUDA_I32,
    MC_CUDA_I64,
    MC_CUDA_F16,
    MC_CUDA_BF16,
    MC_CUDA_F32,
    MC_CUDA_C64,
    MC_CUDA_F64
};

/* An operand: memory of the device, or a number that came with the launch. */
typedef struct mc_cuda_view {
    void *data;      /* the first element; NULL: a number, or nothing */
    uint64_t number; /* its bytes */
    int32_t dtype;
    int32_t is_there; /* 0: the operand is absent */
    int64_t strides[MC_CUDA_AXES];
} mc_cuda_view;

/* Rows of q8: codes of d numbers, then at a multiple of four bytes a bf16 scale for each 32. */
typedef struct mc_cuda_q8 {
    int64_t rows, d, bytes; /* of numbers, and of codes with scales */
    int32_t ndim, narrows;  /* to q8, else from it */
    int64_t shape[MC_CUDA_AXES];
    mc_cuda_view x, out;
} mc_cuda_q8;

/* Why a launch fails when it is over: the first of what its kernels found. Kernels know where it
 * is told: there a pointer to it lies. */
enum { MC_CUDA_FINE, MC_CUDA_BAD_INDEX, MC_CUDA_BAD_START, MC_CUDA_BAD_SLOT };

typedef struct mc_cuda_fault {
    uint32_t what; /* one of these; written last */
    uint32_t taken;
    int32_t op, axis;
    int64_t found, length, count;
} mc_cuda_fault;

/* The numbers of a launch, for the kernels behind it. */
enum { MC_CUDA_NUMBERS = 32 };
typedef struct mc_cuda_numbers {
    uint64_t *to;
    int64_t n;
    uint64_t numbers[MC_CUDA_NUMBERS];
} mc_cuda_numbers;

/* Element by element; `op` is a row of kern/element_list.h. */
typedef struct mc_cuda_elements {
    int64_t size;
    int32_t op, ndim, lasts, none; /* lasts: as in mc_cuda_region */
    int64_t shape[MC_CUDA_AXES];
    mc_cuda_view in[MC_CUDA_OPERANDS], out;
} mc_cuda_elements;

/* Ops over the same elements; an operand whose bit is set in `lasts` is the result of the op
 * before, of f32. */
enum { MC_CUDA_OPS = 8 };
typedef struct mc_cuda_region {
    int64_t size;
    int64_t n;
    mc_cuda_elements ops[MC_CUDA_OPS];
} mc_cuda_region;

/* Moves items of 1, 2, 4, 8 or 16 bytes; from `start` on along an axis of the result, where it is
 * there. */
typedef struct mc_cuda_copy {
    int64_t size;
    int32_t item, ndim;
    int64_t shape[MC_CUDA_AXES];
    mc_cuda_view in, out;
    mc_cuda_view start;
    int64_t start_stride, length, count; /* of the axis of the result, and how many are written */
    int32_t op, axis;
    mc_cuda_fault **fault;
} mc_cuda_copy;

/* out [outer, n, inner] = x [outer, length, inner] at n indices; the axes of x before and behind
 * the one that is indexed. */
typedef struct mc_cuda_take {
    int64_t size, n, inner, length;
    int32_t item, outer_ndim, inner_ndim, index_ndim;
    int64_t outer_shape[MC_CUDA_AXES], inner_shape[MC_CUDA_AXES], index_shape[MC_CUDA_AXES];
    int64_t outer_strides[MC_CUDA_AXES], inner_strides[MC_CUDA_AXES];
    int64_t stride; /* of x along the axis */
    mc_cuda_view x, index, out;
    int32_t op, axis;
    mc_cuda_fault **fault;
} mc_cuda_take;

/* Rows x [B, H, L, W] into slots [B, L] of a pool [H, N, P, W]. */
typedef struct mc_cuda_kv_write {
    int64_t size;
    int64_t shape[4];
    int64_t slots_in_pool, entries; /* N * P, P */
    int32_t item, op;
    mc_cuda_view x, slots, pool;
    mc_cuda_fault **fault;
} mc_cuda_kv_write;

/* out[i] = start + i * step */
typedef struct mc_cuda_range {
    int64_t size;
    double start, step;
    mc_cuda_view out;
} mc_cuda_range;

/* A block a row. The axes that are reduced are behind the others. */
enum {
    MC_CUDA_SUM,
    MC_CUDA_PROD,
    MC_CUDA_MAX,
    MC_CUDA_MIN,
    MC_CUDA_ALL,
    MC_CUDA_ANY,
    MC_CUDA_ARGMAX,
    MC_CUDA_ARGMIN,
    MC_CUDA_LOGSUMEXP,
    MC_CUDA_SOFTMAX
};
typedef struct mc_cuda_reduce {
    int64_t rows, length;
    int32_t kind, ndim, row_ndim; /* row_ndim: of the axes that tell rows, which come first */
    int64_t shape[MC_CUDA_AXES];
    mc_cuda_view x, out;
    /* The largest of a long row, by several blocks, of which the one that is done last joins what
     * the others left. */
    int64_t parts;
    struct mc_cuda_best *left; /* [rows, parts] */
    uint32_t *done;            /* [rows] as for attention */
} mc_cuda_reduce;

typedef struct mc_cuda_best {
    float number;
    int32_t nan;            /* one was met */
    int64_t integer, index; /* index -1: there is none yet */
} mc_cuda_best;

/* The cross-entropy of rows of logits, or where dy is there its gradient. */
typedef struct mc_cuda_loss {
    mc_cuda_reduce logits; /* with the result */
    mc_cuda_view targets, dy;
    int32_t op, axis;
    mc_cuda_fault **fault;
} mc_cuda_loss;

/* The k largest of rows [length], k <= MC_CUDA_MAX_TOPK, by blocks of so many elements. */
enum { MC_CUDA_TOPK_PART = 2048, MC_CUDA_MAX_TOPK = 256 };
typedef struct mc_cuda_topk {
    int64_t rows, length, k, parts;
    int32_t item, ndim; /* ndim: axes before the last */
    int64_t shape[MC_CUDA_AXES];
    mc_cuda_view x, values, indices;
    uint64_t *left; /* [rows, parts, k], where there are several parts */
    uint32_t *done; /* [rows] as for attention */
} mc_cuda_topk;

/* The gated delta rule: q, k [B, L, heads / sharing, n], v [B, L, heads, m], g and beta
 * [B, L, heads], the state [B, heads, n, m], all of f32; out [B, L, heads, m] and the last state,
 * dense. */
enum { MC_CUDA_DELTA_N = 256 };
typedef struct mc_cuda_delta {
    int64_t batch, steps, heads, n, m, sharing;
    mc_cuda_view q, k, v, g, beta, state;
    float *out, *last;
    float scale;
    int32_t none;
} mc_cuda_delta;

/* Norms of rows [d]: a block a row. */
typedef struct mc_cuda_norm {
    int64_t rows, d;
    double eps;
    int32_t centred, ndim; /* axes before the last */
    int64_t shape[MC_CUDA_AXES];
    mc_cuda_view x, weight, bias, out;
} mc_cuda_norm;

/* x [..., L, D] */
typedef struct mc_cuda_rope {
    int64_t rows, length, d, half;
    double base, scale;
    const double *rates; /* [half] scale * base^(-j / half), where there is a table of them */
    int32_t traditional, ndim;
    int64_t shape[MC_CUDA_AXES];
    mc_cuda_view x, offset, freqs, out;
} mc_cuda_rope;

/* Ops that go row by row, one after the other. Units of an op, elements or rows of its last axis,
 * are [outer, rows, inner] in logical order. */
enum {
    MC_CUDA_ELEMENT_STAGE,
    MC_CUDA_COPY_STAGE,
    MC_CUDA_KV_WRITE_STAGE,
    MC_CUDA_NORM_STAGE,
    MC_CUDA_ROPE_STAGE,
    MC_CUDA_Q8_STAGE
};
typedef struct mc_cuda_stage {
    int32_t kind;
    int32_t waits; /* reads what a stage since the last barrier wrote */
    int32_t warps; /* that it keeps busy, about */
    int32_t none;
    int64_t outer, inner;
    union {
        mc_cuda_elements elements;
        mc_cuda_copy copy;
        mc_cuda_kv_write kv_write;
        mc_cuda_norm norm;
        mc_cuda_rope rope;
        mc_cuda_q8 q8;
    } as;
} mc_cuda_stage;

enum { MC_CUDA_STAGES = 12 };
typedef struct mc_cuda_chain {
    int64_t rows, n;
    mc_cuda_stage stages[MC_CUDA_STAGES];
} mc_cuda_chain;

/* sum = x + y [rows, d] and out, its norm by the root of the mean square: of f32, dense. Where
 * there is an inner weight, y is first normed by that, and what that gives is written to
 * `normed`. */
enum { MC_CUDA_ADD_NORM_D = 4096 };
typedef struct mc_cuda_add_norm {
    int64_t rows, d; /* d up to MC_CUDA_ADD_NORM_D */
    const float *x, *y;
    const void *weight; /* [d] */
    float *sum, *out;
    double eps;
    int32_t weight_is_bf16, given; /* given: the weights were there before the launch */
    const void *inner_weight;      /* [d] of a norm of y before; NULL: there is none */
    float *normed;
    double inner_eps;
    int32_t inner_is_bf16, none;
    const float *bias; /* [d], which is added to y before; NULL: there is none */
    float *biased;
} mc_cuda_add_norm;

/* gate = silu(x) or gelu(x), out = gate y: of f32, dense. */
typedef struct mc_cuda_gated {
    int64_t size;
    const float *x, *y;
    float *gate, *out;
    int32_t is_gelu, none; /* is_gelu: the one by tanh */
} mc_cuda_gated;

/* The weights of quantised matmuls: rows of `groups` groups. */
enum { MC_CUDA_AFFINE, MC_CUDA_MXFP4, MC_CUDA_MXFP8, MC_CUDA_NVFP4 };
typedef struct mc_cuda_quant {
    int32_t mode, bits, group;
    mc_cuda_view codes, scales, biases;
    int64_t code_stride, scale_stride; /* of rows: in words, and in elements */
} mc_cuda_quant;

/* out [batches, m, n] = x [batches, m, k] w: w [batches, k, n] of any strides, or quantised rows,
 * of k where `transpose`, else of n. */
typedef struct mc_cuda_matmul {
    int64_t batches, m, n, k;
    int32_t ndim, is_quantised; /* ndim: of the batch */
    int32_t transpose, columns; /* columns: of a warp, where rows are few */
    int32_t swapped, none;      /* of mc_matmul_narrow: rows are few, not columns */
    int64_t shape[MC_CUDA_AXES];
    int64_t w_strides[MC_CUDA_AXES], scale_strides[MC_CUDA_AXES]; /* of the batch */
    mc_cuda_view x, out; /* strides of the batch axes, then of rows and of k or n */
    mc_cuda_view w;      /* its strides are not read: these are */
    int64_t w_k, w_n;
    mc_cuda_quant quant;
} mc_cuda_matmul;

/* codes, scales, biases to floats: rows of k */
typedef struct mc_cuda_dequantize {
    int64_t rows, k;
    int32_t ndim;
    int64_t shape[MC_CUDA_AXES];
    int64_t code_strides[MC_CUDA_AXES], scale_strides[MC_CUDA_AXES];
    mc_cuda_quant quant;
    mc_cuda_view out;
} mc_cuda_dequantize;

/* w [k, n], quantised rows of n or bf16 of any strides, as rows [n, padded] of bf16, whose ends are
 * 0. */
typedef struct mc_cuda_across {
    int64_t k, n, padded;
    int32_t is_quantised, none;
    const uint16_t *w;
    int64_t w_k, w_n;
    mc_cuda_quant quant;
    uint16_t *out;
} mc_cuda_across;

/* x [rows, k] as integers: of each group of numbers that follow each other, a scale and codes of
 * 16 or 24 bits, a byte of each in a plane. k is padded to whole units. */
enum { MC_CUDA_UNIT_GROUPS = 8, MC_CUDA_JOINT = 8 };
typedef struct mc_cuda_to_planes {
    int64_t rows, k, padded;
    int64_t rows_there;          /* of mc_to_bf16, which makes the others 0 */
    int32_t ndim, planes, group; /* ndim: of the axes that tell rows */
    int64_t shape[MC_CUDA_AXES];
    mc_cuda_view x; /* strides of those axes, then of k */
    int8_t *codes;  /* [planes, rows, padded]: the highest first; of eight codes the even ones, then
                       the odd ones; mc_to_bf16: [rows, padded] of bf16 in kern/gemm.cu's order */
    float *scales;  /* [rows, padded / group, 2]: the scale, and it times the sum of the codes */
} mc_cuda_to_planes;

/* A matrix that x is multiplied by, and the product. */
typedef struct mc_cuda_planes_matrix {
    const void *codes, *scales, *biases;  /* biases NULL: of mxfp4 */
    void *out;                            /* [batches, m, n] */
    int64_t n, code_stride, scale_stride; /* of rows: in bytes, and in elements */
    int32_t out_dtype, first_tile;
} mc_cuda_planes_matrix;

/* Rows of x that pick the same matrix, one behind the other in an order; 0 rows: there are none. */
typedef struct mc_cuda_row_tile {
    int32_t matrix, first, rows, none;
} mc_cuda_row_tile;

/* Products of x [batches, m, k], as planes, with the rows of matrices. Where rhs picks matrices,
 * these lie along one axis, whose strides come first. */
typedef struct mc_cuda_planes_matmul {
    mc_cuda_planes_matrix matrices[MC_CUDA_JOINT];
    int32_t n_matrices, tiles; /* of all matrices of a batch */
    int32_t m, units, bits, mode, scale_bytes, scale_is_f16, spread; /* scale_bytes 0: none */
    int32_t form, pitch;             /* of kern/planes.cuh; bytes between rows of a slot */
    int32_t group_log;               /* of 2: of `group` */
    int32_t code_width, scale_width; /* bytes that copies to shared memory have */
    int32_t stages, bunch;           /* see kern/planes.cu */
    int64_t k, padded, group, batches, x_rows;
    int32_t ndim;
    int64_t shape[MC_CUDA_AXES];
    int64_t w_strides[MC_CUDA_AXES]; /* of the batch, in bytes */
    int64_t scale_strides[MC_CUDA_AXES];
    mc_cuda_view lhs, rhs; /* of batches: which matrices of x and of w; absent: the batch's own */
    int64_t lhs_count, rhs_count;
    int32_t each; /* lhs absent: so many batches in a row have the same matrix of x */
    int32_t op;
    /* Of batches of one row in the order of what they pick, for kern/tiles.cu; NULL: as they are */
    int32_t tile_rows, n_row_tiles;
    mc_cuda_row_tile *row_tiles;
    int32_t *order; /* [batches] */
    mc_cuda_fault **fault;
    const int8_t *x; /* NULL: each block makes planes of `source` for itself; kern/gemm.cu: bf16 */
    const float *x_scales;
    mc_cuda_to_planes source;
} mc_cuda_planes_matmul;
enum { MC_CUDA_PART = 32, MC_CUDA_ATTENTION_ROWS = 8 }; /* see kern/attention.cuh */
enum { MC_CUDA_TILE_ROWS = 64 };                        /* see kern/attention_tiles.cu */
/* see kern/attention_row.cu */
enum { MC_CUDA_ROW_PARTS = 8, MC_CUDA_ROW_NUMBERS = 1024, MC_CUDA_ROW_SHARED = 50 << 10 };

/* q [B, H, Lq, D], k and v [B, Hkv, Lk, D], or pools [Hkv, N, P, D] with a table [B, M]. */
typedef struct mc_cuda_attention {
    int64_t batch, heads, kv_heads, queries, keys, d, dv;
    float scale, softcap;
    int32_t causal, mask_is_bool;
    int64_t window, keep;
    int64_t entries, blocks; /* P and N; 0: k and v lie in a row */
    int64_t mask_strides[4];
    /* of a block: heads of queries that share a head of keys, in so many groups, and queries */
    int32_t shared, head_groups, queries_of_block;
    int32_t splits;    /* blocks that share the parts of a row; 1: one has all */
    int32_t wide_keys; /* four numbers of a key are read at once */
    float *left;       /* [parts, B, H, Lq, 2 + Dv], where blocks leave parts */
    uint32_t *done;    /* blocks that have left their parts; 0 before and behind a kernel */
    mc_cuda_view q, k, v, mask, offset, sinks, table, out;
    mc_cuda_view lse; /* [B, H, Lq] f32, dense; it may be absent */
    mc_cuda_fault **fault;
    int32_t op;
} mc_cuda_attention;

#endif
