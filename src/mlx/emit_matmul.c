/* Products with matrices, dense and quantised, and of those that indices pick. */
#include "base/integer.h"
#include "mlx/emit.h"

static mica_dtype dtype_of(const mc_mlx_call *c, int k) {
    return c->from[k]->dtype;
}

/* Both of one dtype. On a GPU x becomes that of b where the graph allows it (`fast`), so that no
 * weight is converted each time. MLX's CPU has a BLAS for f32 alone; converting is cheap beside the
 * rest. */
void mc_mlx_emit_matmul(mc_mlx_call *c) {
    const mc_attr_matmul *a = c->attr;
    mica_dtype dtype = c->to->dtype;
    if (a->fast && dtype_of(c, 1) == MICA_BF16) dtype = MICA_BF16;
    if (c->on_cpu) dtype = MICA_F32;
    c->narrow = dtype != c->to->dtype;
    mlx_array x = mc_mlx_in(c, 0, dtype), w = mc_mlx_in(c, 1, dtype);
    mc_mlx_give(c, 0, mc_mlx_combine(c, mc_mlx.matmul, x, w));
}

static const char *mode_name(const mc_attr_quant *a) {
    static const char *const names[] = {
        [MICA_QUANT_AFFINE] = "affine",
        [MICA_QUANT_MXFP4] = "mxfp4",
        [MICA_QUANT_MXFP8] = "mxfp8",
        [MICA_QUANT_NVFP4] = "nvfp4",
    };
    return names[a->mode];
}

void mc_mlx_emit_dequantize(mc_mlx_call *c) {
    const mc_attr_quant *a = c->attr;
    const mlx_optional_int group = {(int)a->group_size, true}, bits = {(int)a->bits, true};
    const mlx_optional_dtype dtype = {MLX_FLOAT32, true};
    bool affine = a->mode == MICA_QUANT_AFFINE;
    mlx_array y = {0}, none = {0};
    mlx_array scales = affine ? mc_mlx_wide(c, 1) : c->in[1];
    mlx_array biases = affine ? mc_mlx_cast(c, c->in[2], MICA_F32) : none;
    scales = affine ? mc_mlx_cast(c, scales, MICA_F32) : scales;
    int failed = mc_mlx.dequantize(&y, c->in[0], scales, biases, group, bits, mode_name(a), none,
                                   dtype, c->stream);
    mc_mlx_give(c, 0, mc_mlx_keep(c, failed, y));
}

/* x as [..., M, K], with the batch of the result where the weights have one: a vector gets the axis
 * that it lacks. */
static mlx_array with_batch(mc_mlx_call *c, mlx_array x) {
    const mc_layout *from = c->from[0], *codes = c->from[1];
    const int64_t row[2] = {1, from->shape[0]};
    int64_t k = from->shape[from->ndim - 1];
    int shape[MICA_MAX_NDIM] = {0};
    mlx_array y = {0};
    if (from->ndim == 1) x = mc_mlx_reshape(c, x, row, 2);
    if (codes->ndim == 2) return x;
    for (int i = 0; i < c->to->ndim - 1; i++)
        shape[i] = (int)c->to->shape[i];
    shape[c->to->ndim - 1] = (int)k;
    int failed = mc_mlx.broadcast_to(&y, x, shape, (size_t)c->to->ndim, c->stream);
    return mc_mlx_keep(c, failed, y);
}

/* The dtype that MLX computes in. Its CPU also adds up in it, so that is f32. Its GPU adds up in
 * f32: with `fast`, x becomes that of the scales, for converting these each time would take as long
 * as the product. */
static mica_dtype quantised_dtype(bool on_cpu, const mc_attr_quant *a, const mc_layout *const *in) {
    mica_dtype x = in[0]->dtype;
    if (on_cpu) return MICA_F32;
    if (a->mode != MICA_QUANT_AFFINE) return x;
    if (a->fast && in[2]->dtype == in[3]->dtype) return in[2]->dtype;
    return mica_dtype_promote(mica_dtype_promote(x, in[2]->dtype), in[3]->dtype);
}

/* MLX's CUDA (0.32) gives wrong sums for rows of one group. */
bool mc_mlx_supports_gather_qmm(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                                int n_in, const mc_layout *out) {
    const mc_attr_quant *a = attr;
    (void)n_in, (void)out;
    return !in || place != MC_MLX_ON_CUDA || !a->transpose ||
           in[0]->shape[in[0]->ndim - 1] > a->group_size;
}

/* Whether each matrix of the result has an x and weights of its own. */
static bool in_pairs(const mc_layout *x, const mc_layout *codes, const mc_layout *y) {
    if (x->ndim != y->ndim || codes->ndim != y->ndim) return false;
    for (int k = 0; k < y->ndim - 2; k++)
        if (x->shape[k] != y->shape[k] || codes->shape[k] != y->shape[k]) return false;
    return true;
}

/* Nor does it start ("invalid argument") for f32 and groups of 128 with 40 rows; with 17 it does,
 * and the numbers between were not tried. */
static bool starts(const mc_attr_quant *a, const mc_layout *const *in) {
    enum { MAX_ROWS = 17, LARGE_GROUP = 128 };
    const mc_layout *x = in[0];
    int64_t k = mc_max(1, x->shape[x->ndim - 1]);
    return mc_layout_size(x) / k <= MAX_ROWS || a->group_size < LARGE_GROUP ||
           quantised_dtype(false, a, in) != MICA_F32;
}

/* Nor does it take a batch of weights for an x that is broadcast, or broadcast weights. */
bool mc_mlx_supports_quantized_matmul(mc_mlx_place place, const void *attr,
                                      const mc_layout *const *in, int n_in, const mc_layout *out) {
    if (!mc_mlx_supports_gather_qmm(place, attr, in, n_in, out)) return false;
    if (!in || place != MC_MLX_ON_CUDA) return true;
    return starts(attr, in) && (in[1]->ndim == 2 || in_pairs(in[0], in[1], out));
}

/* Weights, scales or biases: MLX's CUDA wants their rows side by side. Those of a model are. */
static mlx_array rows_of(mc_mlx_call *c, int k, mlx_array x) {
    bool plain = c->from[k]->ndim == 2 && mc_layout_is_dense(c->from[k]);
    return plain ? x : mc_mlx_dense(c, x);
}

/* Operands 1 to 3 as MLX multiplies x of a dtype by them. */
typedef struct weights {
    mlx_array codes, scales, biases;
} weights;

static weights weights_of(mc_mlx_call *c, mica_dtype dtype, bool affine) {
    weights w = {0};
    if (affine) w.biases = rows_of(c, 3, mc_mlx_in(c, 3, dtype));
    w.scales = rows_of(c, 2, affine ? mc_mlx_in(c, 2, dtype) : c->in[2]);
    w.codes = rows_of(c, 1, c->in[1]);
    return w;
}

void mc_mlx_emit_quantized_matmul(mc_mlx_call *c) {
    const mc_attr_quant *a = c->attr;
    const mlx_optional_int group = {(int)a->group_size, true}, bits = {(int)a->bits, true};
    bool affine = a->mode == MICA_QUANT_AFFINE;
    mica_dtype dtype = quantised_dtype(c->on_cpu, a, c->from);
    mlx_array y = {0};
    if (mc_layout_size(c->from[0]) == 0) { /* MLX divides by the length of rows */
        mc_mlx_give(c, 0, mc_mlx_zeros(c, c->to));
        return;
    }
    mlx_array x = mc_mlx_dense(c, with_batch(c, mc_mlx_in(c, 0, dtype)));
    c->narrow = dtype != c->to->dtype;
    weights w = weights_of(c, dtype, affine);
    int failed = mc_mlx.quantized_matmul(&y, x, w.codes, w.scales, w.biases, a->transpose != 0,
                                         group, bits, mode_name(a), c->stream);
    y = mc_mlx_keep(c, failed, y);
    mc_mlx_give(c, 0, mc_mlx_reshape(c, y, c->to->shape, c->to->ndim));
}

/* ---- of matrices that indices pick ---- */

/* The indices in[k] of the matrices in[of], counted from the front; empty: they come in order. */
static mlx_array numbers_of(mc_mlx_call *c, int of, int k) {
    int64_t count = 1;
    if (k >= c->n_in || !c->in[k].ctx) return (mlx_array){0};
    for (int i = 0; i < c->from[of]->ndim - 2; i++)
        count *= c->from[of]->shape[i];
    mlx_array x = mc_mlx_cast(c, mc_mlx_bound(c, 0, count, 0, k), MICA_I64), y;
    y = mc_mlx_combine(c, mc_mlx.add, x, mc_mlx_int(c, count, MICA_I64));
    y = mc_mlx_where(c, mc_mlx_combine(c, mc_mlx.less, x, mc_mlx_int(c, 0, MICA_I64)), y, x);
    return mc_mlx_cast(c, y, MICA_U32);
}

/* Where rows have no elements, or there are no matrices to pick, the result is 0, or an index is
 * wrong. */
static bool picks_nothing(mc_mlx_call *c) {
    if (mc_layout_size(c->from[0]) > 0 && mc_layout_size(c->from[1]) > 0) return false;
    mc_mlx_give(c, 0, mc_mlx_zeros(c, c->to));
    return true;
}

/* Of rows whose length is a multiple of 8, MLX's CUDA (0.32) reads 8 elements at a time of both
 * operands, also where they lie in columns of another length, which are then not aligned. */
enum { TOGETHER = 8 };

bool mc_mlx_supports_gather_mm(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                               int n_in, const mc_layout *out) {
    (void)attr, (void)n_in;
    return !in || place != MC_MLX_ON_CUDA || in[0]->shape[in[0]->ndim - 1] % TOGETHER ||
           out->shape[out->ndim - 1] % TOGETHER == 0;
}

void mc_mlx_emit_gather_mm(mc_mlx_call *c) {
    mica_dtype dtype = c->on_cpu ? MICA_F32 : c->to->dtype;
    mlx_array y = {0}, lhs = numbers_of(c, 0, 2), rhs = numbers_of(c, 1, 3);
    if (picks_nothing(c)) return;
    c->narrow = dtype != c->to->dtype;
    mlx_array a = mc_mlx_dense(c, mc_mlx_in(c, 0, dtype)), b = mc_mlx_in(c, 1, dtype);
    int failed = mc_mlx.gather_mm(&y, a, b, lhs, rhs, false, c->stream);
    y = mc_mlx_keep(c, failed, y);
    mc_mlx_give(c, 0, mc_mlx_reshape(c, y, c->to->shape, c->to->ndim));
}

void mc_mlx_emit_gather_qmm(mc_mlx_call *c) {
    const mc_attr_quant *a = c->attr;
    const mlx_optional_int group = {(int)a->group_size, true}, bits = {(int)a->bits, true};
    bool affine = a->mode == MICA_QUANT_AFFINE;
    mica_dtype dtype = quantised_dtype(c->on_cpu, a, c->from);
    mlx_array y = {0}, lhs = numbers_of(c, 0, 4), rhs = numbers_of(c, 1, 5);
    if (picks_nothing(c)) return;
    mlx_array x = mc_mlx_in(c, 0, dtype);
    c->narrow = dtype != c->to->dtype;
    weights w = weights_of(c, dtype, affine);
    int failed = mc_mlx.gather_qmm(&y, x, w.codes, w.scales, w.biases, lhs, rhs, a->transpose != 0,
                                   group, bits, mode_name(a), false, c->stream);
    y = mc_mlx_keep(c, failed, y);
    mc_mlx_give(c, 0, mc_mlx_reshape(c, y, c->to->shape, c->to->ndim));
}
