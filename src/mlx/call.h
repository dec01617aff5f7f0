/* What the function of an op gets, and how it builds MLX's graph for it.
 *
 * The helpers return arrays that the call owns until the op is done, so that they nest. An error
 * shows at the end of the op: after the first one all further arrays are empty, and MLX refuses
 * these. All of it is for MLX's thread. */
#ifndef MLX_CALL_H
#define MLX_CALL_H

#include "graph/attr.h"
#include "graph/graph.h"
#include "mlx/cell.h"
#include "mlx/check.h"

enum { MC_MLX_TEMPS = 64 };

/* Which keys queries see, as attention's mask: the layers of a model share it. */
typedef struct mc_mlx_mask {
    uint32_t offset; /* node, or MC_ABSENT */
    int64_t lq, lk, window, keep;
    mlx_array keys; /* bool [B or 1, 1, Lq, Lk] */
    mlx_array any;  /* bool [B or 1, 1, Lq, 1]: whether a query sees one */
} mc_mlx_mask;

enum { MC_MLX_MASKS = 8, MC_MLX_BOUNDS = 8 };

typedef struct mc_mlx_masks {
    int n;
    mc_mlx_mask list[MC_MLX_MASKS];
} mc_mlx_masks;

/* An index that was brought within an axis: the layers of a model share it. */
typedef struct mc_mlx_bounded {
    uint32_t node; /* of the index */
    int64_t length, count;
    mlx_array index;
} mc_mlx_bounded;

typedef struct mc_mlx_bounds {
    int n;
    mc_mlx_bounded list[MC_MLX_BOUNDS];
} mc_mlx_bounds;

typedef struct mc_mlx_call {
    mc_op op;
    const void *attr;
    int n_in;
    const uint32_t *nodes;        /* [n_in] of the operands */
    mlx_array *in;                /* [n_in]; ctx NULL: absent */
    const uint64_t **numbers;     /* [n_in] the bits of a number that is known now; NULL: none is */
    mlx_array *const *casts;      /* [n_in] where a cast of an operand is kept for later readers */
    const mc_layout *const *from; /* [n_in] their layouts; NULL: absent */
    const mc_layout *to;          /* [n_out] of the results */
    mlx_array *out;               /* [n_out] */
    mlx_stream stream;
    bool on_cpu;  /* MLX's CPU computes f16 and bf16 op by op in these */
    bool on_cuda; /* where operands are to begin at multiples of MC_MLX_ALIGN_BYTES */
    mc_mlx_checks *checks;
    mc_mlx_masks *masks;
    mc_mlx_bounds *bounds;
    bool narrow; /* operands are, and results may stay, in f16 or bf16 where their nodes are f32 */
    bool failed;
    int n_temps;
    mlx_array temps[MC_MLX_TEMPS];
} mc_mlx_call;

/* Takes over a new array that a function of mc_mlx returned with `failed`. Returns it:
 *
 *     mlx_array y = {0};
 *     return mc_mlx_keep(c, mc_mlx.exp(&y, x, c->stream), y);                                    */
mlx_array mc_mlx_keep(mc_mlx_call *c, int failed, mlx_array array);
/* Sets result k, of the dtype of its node, or narrower where it may be. */
void mc_mlx_give(mc_mlx_call *c, int k, mlx_array array);

typedef int (*mc_mlx_unary)(mlx_array *, const mlx_array, const mlx_stream);
typedef int (*mc_mlx_binary)(mlx_array *, const mlx_array, const mlx_array, const mlx_stream);

/* mc_mlx_apply(c, mc_mlx.exp, x), mc_mlx_combine(c, mc_mlx.add, a, b) */
mlx_array mc_mlx_apply(mc_mlx_call *c, mc_mlx_unary function, mlx_array x);
mlx_array mc_mlx_combine(mc_mlx_call *c, mc_mlx_binary function, mlx_array a, mlx_array b);
mlx_array mc_mlx_where(mc_mlx_call *c, mlx_array condition, mlx_array a, mlx_array b);
mlx_array mc_mlx_cast(mc_mlx_call *c, mlx_array x, mica_dtype dtype); /* x itself where it has it */
mlx_array mc_mlx_reshape(mc_mlx_call *c, mlx_array x, const int64_t *shape, int ndim);

mlx_array mc_mlx_zeros(mc_mlx_call *c, const mc_layout *like);

/* A number as an array: the low bytes of `bits`, a float (f32), an integer of any dtype. */
mlx_array mc_mlx_bits(mc_mlx_call *c, uint64_t bits, mica_dtype dtype);
mlx_array mc_mlx_f32(mc_mlx_call *c, float value);
mlx_array mc_mlx_int(mc_mlx_call *c, int64_t value, mica_dtype dtype);

/* in[k] of a dtype. A cast is made once for all ops that read the operand. */
mlx_array mc_mlx_in(mc_mlx_call *c, int k, mica_dtype dtype);
/* x with its elements side by side, for functions of MLX's CUDA that take other strides wrongly; x
 * itself elsewhere. */
mlx_array mc_mlx_dense(mc_mlx_call *c, mlx_array x);
/* The dtype of an array that is f16 or bf16. */
mica_dtype mc_mlx_half(mlx_array array);
/* in[k] as f32 where it is f16 or bf16, else as it is: they are computed in f32, rounded once. */
mlx_array mc_mlx_wide(mc_mlx_call *c, int k);

/* The indices in[k] into an axis, such that MLX reaches nothing outside of it, and a check that
 * fails after the run where that changed them. count: elements of a slice that begins at the index,
 * where it may not be negative; 0: an index of one element, counted from the end if negative. */
mlx_array mc_mlx_bound(mc_mlx_call *c, int axis, int64_t length, int64_t count, int k);

#endif
