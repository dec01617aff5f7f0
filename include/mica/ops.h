/* Operations on lazy arrays.
 *
 * The first argument of every op is the scope that owns the result; array arguments are borrowed.
 * An operand of another scope must be evaluated (mica_eval, mica_materialize). An op with a wrong
 * operand returns an invalid array and leaves the error in the scope (see mica/array.h). Negative
 * axes count from the end. Semantics, dtypes and promotion are MLX's (mlx.core) unless said
 * otherwise.
 *
 * Results have gradients by all operands that are floats, unless said otherwise: mica/grad.h.
 *
 * "float" stands for f16, bf16, f32. "promoted" is mica_dtype_promote of the operands. "inexact" is
 * the dtype itself if it is a float, else f32. */
#ifndef MICA_OPS_H
#define MICA_OPS_H

#include <mica/array.h>

MICA_BEGIN

/* ---- making ---- */

/** Arrays filled with a value; shape [ndim]. errors MICA_EINVAL shape. */
MICA_API mica_array mica_zeros(mica_scope *s, const int64_t *shape, int ndim, mica_dtype dtype);
MICA_API mica_array mica_ones(mica_scope *s, const int64_t *shape, int ndim, mica_dtype dtype);
MICA_API mica_array mica_full(mica_scope *s, const int64_t *shape, int ndim, mica_array value);

/** start, start + step, ... below stop (above, where step < 0): [ceil((stop - start) / step)].
 *  errors  MICA_EINVAL step 0, or a result of 2^31 elements or more */
MICA_API mica_array mica_arange(mica_scope *s, double start, double stop, double step,
                                mica_dtype dtype);

/** n values from start to stop, both included: [n] f32. */
MICA_API mica_array mica_linspace(mica_scope *s, double start, double stop, int64_t n);

/** [rows, cols] with ones on the diagonal column - row == k, else zeros. */
MICA_API mica_array mica_eye(mica_scope *s, int64_t rows, int64_t cols, int64_t k,
                             mica_dtype dtype);

/* ---- element by element ---- */

/** One operand; the result has its shape. Dtype of the result: x's for abs, negative, square, sign,
 *  floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not; inexact
 *  for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest even.
 *  errors  MICA_EDTYPE negative of bool; invert of a float */
MICA_API mica_array mica_abs(mica_scope *s, mica_array x);
MICA_API mica_array mica_negative(mica_scope *s, mica_array x);
MICA_API mica_array mica_square(mica_scope *s, mica_array x);
MICA_API mica_array mica_sign(mica_scope *s, mica_array x);
MICA_API mica_array mica_floor(mica_scope *s, mica_array x);
MICA_API mica_array mica_ceil(mica_scope *s, mica_array x);
MICA_API mica_array mica_round(mica_scope *s, mica_array x);
MICA_API mica_array mica_exp(mica_scope *s, mica_array x);
MICA_API mica_array mica_expm1(mica_scope *s, mica_array x);
MICA_API mica_array mica_log(mica_scope *s, mica_array x);
MICA_API mica_array mica_log2(mica_scope *s, mica_array x);
MICA_API mica_array mica_log10(mica_scope *s, mica_array x);
MICA_API mica_array mica_log1p(mica_scope *s, mica_array x);
MICA_API mica_array mica_sqrt(mica_scope *s, mica_array x);
MICA_API mica_array mica_rsqrt(mica_scope *s, mica_array x);      /* 1 / sqrt(x) */
MICA_API mica_array mica_reciprocal(mica_scope *s, mica_array x); /* 1 / x */
MICA_API mica_array mica_sin(mica_scope *s, mica_array x);
MICA_API mica_array mica_cos(mica_scope *s, mica_array x);
MICA_API mica_array mica_tan(mica_scope *s, mica_array x);
MICA_API mica_array mica_sinh(mica_scope *s, mica_array x);
MICA_API mica_array mica_cosh(mica_scope *s, mica_array x);
MICA_API mica_array mica_tanh(mica_scope *s, mica_array x);
MICA_API mica_array mica_arcsin(mica_scope *s, mica_array x);
MICA_API mica_array mica_arccos(mica_scope *s, mica_array x);
MICA_API mica_array mica_arctan(mica_scope *s, mica_array x);
MICA_API mica_array mica_arcsinh(mica_scope *s, mica_array x);
MICA_API mica_array mica_arccosh(mica_scope *s, mica_array x);
MICA_API mica_array mica_arctanh(mica_scope *s, mica_array x);
MICA_API mica_array mica_erf(mica_scope *s, mica_array x);
MICA_API mica_array mica_erfinv(mica_scope *s, mica_array x);
MICA_API mica_array mica_sigmoid(mica_scope *s, mica_array x); /* 1 / (1 + exp(-x)) */
MICA_API mica_array mica_isnan(mica_scope *s, mica_array x);
MICA_API mica_array mica_isinf(mica_scope *s, mica_array x);
MICA_API mica_array mica_isfinite(mica_scope *s, mica_array x);
MICA_API mica_array mica_logical_not(mica_scope *s, mica_array x);
MICA_API mica_array mica_bitwise_invert(mica_scope *s, mica_array x);
MICA_API mica_array mica_degrees(mica_scope *s, mica_array x);
MICA_API mica_array mica_radians(mica_scope *s, mica_array x);

/** Activations, inexact.
 *      silu         x * sigmoid(x)
 *      gelu         x * (1 + erf(x / sqrt 2)) / 2
 *      gelu_approx  x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
 *      relu         max(x, 0)
 *  source  Hendrycks & Gimpel 2016 (arXiv:1606.08415) for gelu */
MICA_API mica_array mica_silu(mica_scope *s, mica_array x);
MICA_API mica_array mica_gelu(mica_scope *s, mica_array x);
MICA_API mica_array mica_gelu_approx(mica_scope *s, mica_array x);
MICA_API mica_array mica_relu(mica_scope *s, mica_array x);

/** x converted to a dtype: floats to integers are rounded towards zero and clamped to the range,
 *  NaN becomes 0; integers to integers keep their low bits; to bool is x != 0. */
MICA_API mica_array mica_astype(mica_scope *s, mica_array x, mica_dtype dtype);

/** The bytes of x read as another dtype. If the sizes differ, the last axis grows or shrinks.
 *  errors  MICA_ESHAPE the last axis does not divide */
MICA_API mica_array mica_view(mica_scope *s, mica_array x, mica_dtype dtype);

/** Floats to the bits (u8) of E4M3 floats, rounded to nearest even and clamped to 448; and back to
 *  the given float dtype. */
MICA_API mica_array mica_to_fp8(mica_scope *s, mica_array x);
MICA_API mica_array mica_from_fp8(mica_scope *s, mica_array x, mica_dtype dtype);

/** Quantises rows to int8: x [..., D] float to u8 [..., mica_q8_bytes(D)], x ~ code * scale. A row
 *  is D codes (i8), zeros up to a multiple of 4 bytes, a bf16 scale for every 32 codes, zeros up to
 *  a multiple of 4. A scale is the group's largest magnitude / 127, rounded up. Codes are rounded
 *  to nearest: an element is off by half a scale at most. A group with an infinity or a NaN becomes
 *  NaN, a group of magnitudes below 1e-34 becomes zeros.
 *  errors  MICA_EDTYPE x is not a float; MICA_ESHAPE x has no axis */
MICA_API mica_array mica_to_q8(mica_scope *s, mica_array x);
/** Such rows back to [..., length] of a float dtype, exact in f32.
 *  errors  MICA_EDTYPE rows is not u8, or dtype not a float; MICA_ESHAPE the last axis is not
 *          mica_q8_bytes(length) */
MICA_API mica_array mica_from_q8(mica_scope *s, mica_array rows, int64_t length, mica_dtype dtype);
/** Bytes of such a row of `length` elements; 0 if length is below 1. */
MICA_API int64_t mica_q8_bytes(int64_t length);

/** Two operands, broadcast against each other. Dtype of the result: inexact for divide, logaddexp
 *  and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit operations
 *  take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16 and
 *  bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder a. A
 *  negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by less
 *  than 0, gives 0 (a right shift of a negative number: -1).
 *  errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE */
MICA_API mica_array mica_add(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_subtract(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_multiply(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_divide(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_floor_divide(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_remainder(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_power(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_maximum(mica_scope *s, mica_array a, mica_array b); /* NaN wins */
MICA_API mica_array mica_minimum(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_logaddexp(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_arctan2(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_equal(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_not_equal(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_less(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_less_equal(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_greater(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_greater_equal(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_logical_and(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_logical_or(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_bitwise_and(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_bitwise_or(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_bitwise_xor(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_left_shift(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_right_shift(mica_scope *s, mica_array a, mica_array b);

/** condition ? a : b, all three broadcast; a and b promoted. */
MICA_API mica_array mica_where(mica_scope *s, mica_array condition, mica_array a, mica_array b);

/** min(max(x, lo), hi); lo or hi may be MICA_NONE. */
MICA_API mica_array mica_clip(mica_scope *s, mica_array x, mica_array lo, mica_array hi);

/* ---- reductions ---- */

/** Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with length 1.
 *  Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var, std and
 *  logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN wins in
 *  max and min. The divisor of var and std is n - ddof.
 *  errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no elements */
MICA_API mica_array mica_sum(mica_scope *s, mica_array x, const int *axes, int n_axes,
                             bool keepdims);
MICA_API mica_array mica_prod(mica_scope *s, mica_array x, const int *axes, int n_axes,
                              bool keepdims);
MICA_API mica_array mica_max(mica_scope *s, mica_array x, const int *axes, int n_axes,
                             bool keepdims);
MICA_API mica_array mica_min(mica_scope *s, mica_array x, const int *axes, int n_axes,
                             bool keepdims);
MICA_API mica_array mica_all(mica_scope *s, mica_array x, const int *axes, int n_axes,
                             bool keepdims);
MICA_API mica_array mica_any(mica_scope *s, mica_array x, const int *axes, int n_axes,
                             bool keepdims);
MICA_API mica_array mica_mean(mica_scope *s, mica_array x, const int *axes, int n_axes,
                              bool keepdims);
MICA_API mica_array mica_var(mica_scope *s, mica_array x, const int *axes, int n_axes,
                             bool keepdims, int ddof);
MICA_API mica_array mica_std(mica_scope *s, mica_array x, const int *axes, int n_axes,
                             bool keepdims, int ddof);
MICA_API mica_array mica_logsumexp(mica_scope *s, mica_array x, const int *axes, int n_axes,
                                   bool keepdims);

/** Index (u32) of the largest, smallest value along an axis; of equals the first. NaN is never
 *  chosen; the index is 0 if all values are NaN. */
MICA_API mica_array mica_argmax(mica_scope *s, mica_array x, int axis, bool keepdims);
MICA_API mica_array mica_argmin(mica_scope *s, mica_array x, int axis, bool keepdims);

/** Running sum, product, maximum, minimum, logsumexp along an axis. reverse: from the end.
 *  inclusive: y[i] contains x[i]; otherwise y starts with the neutral element. */
MICA_API mica_array mica_cumsum(mica_scope *s, mica_array x, int axis, bool reverse,
                                bool inclusive);
MICA_API mica_array mica_cumprod(mica_scope *s, mica_array x, int axis, bool reverse,
                                 bool inclusive);
MICA_API mica_array mica_cummax(mica_scope *s, mica_array x, int axis, bool reverse,
                                bool inclusive);
MICA_API mica_array mica_cummin(mica_scope *s, mica_array x, int axis, bool reverse,
                                bool inclusive);
MICA_API mica_array mica_logcumsumexp(mica_scope *s, mica_array x, int axis, bool reverse,
                                      bool inclusive);

/** x sorted ascending along an axis, NaN last; the indices (u32) that sort x, stable. */
MICA_API mica_array mica_sort(mica_scope *s, mica_array x, int axis);
MICA_API mica_array mica_argsort(mica_scope *s, mica_array x, int axis);

/** x with its kth smallest element at index k and smaller ones before it (the result is sorted
 *  completely); the indices of that order. */
MICA_API mica_array mica_partition(mica_scope *s, mica_array x, int64_t kth, int axis);
MICA_API mica_array mica_argpartition(mica_scope *s, mica_array x, int64_t kth, int axis);

/** The k largest values along an axis, ascending. errors MICA_EINVAL k < 1 or > length */
MICA_API mica_array mica_topk(mica_scope *s, mica_array x, int64_t k, int axis);

/** The k largest values along an axis, the largest first, and their indices.
 *
 *  indices  receives the indices (u32), of the result's shape; the invalid array after an error.
 *  returns  the values. Of equal ones that with the lower index comes first, NaN before all others.
 *  errors   MICA_EINVAL k < 1 or > length
 *  source   the order of ONNX's TopK. */
MICA_API mica_array mica_topk_indices(mica_scope *s, mica_array x, int64_t k, int axis,
                                      mica_array *indices);

/** exp(x - max) / sum along an axis; inexact, computed in f32. */
MICA_API mica_array mica_softmax(mica_scope *s, mica_array x, int axis);
/** The same over several axes together ([n_axes]; none: all). errors as of the reductions */
MICA_API mica_array mica_softmax_axes(mica_scope *s, mica_array x, const int *axes, int n_axes);

/** The middle of the sorted elements over the axes listed, of an even number the mean of the two in
 *  the middle; NaN if there is one. Axes, keepdims and errors as the reductions; inexact. */
MICA_API mica_array mica_median(mica_scope *s, mica_array x, const int *axes, int n_axes,
                                bool keepdims);

/** Where values belong in a sorted array, NaN last, so that it stays sorted.
 *
 *  x        [N], ascending. If it is not, the result is some number of 0 .. N.
 *  values   any shape; both are compared in the promoted dtype.
 *  returns  u32, the shape of values: how many elements are below the value (right: not above it).
 *  errors   MICA_ESHAPE x has not one axis
 *  source   numpy.searchsorted. */
MICA_API mica_array mica_searchsorted(mica_scope *s, mica_array x, mica_array values, bool right);

/* ---- shape ---- */

/** Same elements in logical order under another shape; one length may be -1.
 *  errors  MICA_ESHAPE the numbers of elements differ; MICA_EINVAL a length below -1, or two of
 *          -1 */
MICA_API mica_array mica_reshape(mica_scope *s, mica_array x, const int64_t *shape, int ndim);
/** Axes start_axis to end_axis, both included, as one. Of a number: [1].
 *  errors  MICA_EINVAL there is no such axis, or start_axis is after end_axis */
MICA_API mica_array mica_flatten(mica_scope *s, mica_array x, int start_axis, int end_axis);
/** An axis as several: shape [ndim] in its place, of which one length may be -1.
 *  errors  MICA_ESHAPE their product is not the axis' length; MICA_EINVAL there is no such axis, a
 *          length below -1, two of -1, or more than MICA_MAX_NDIM axes in all */
MICA_API mica_array mica_unflatten(mica_scope *s, mica_array x, int axis, const int64_t *shape,
                                   int ndim);
/** Removes, adds an axis of length 1.
 *  errors  MICA_EINVAL there is no such axis; MICA_ESHAPE squeeze of an axis of another length */
MICA_API mica_array mica_squeeze(mica_scope *s, mica_array x, int axis);
MICA_API mica_array mica_expand_dims(mica_scope *s, mica_array x, int axis);
/** Axes in another order; axes NULL reverses them. */
MICA_API mica_array mica_transpose(mica_scope *s, mica_array x, const int *axes);
MICA_API mica_array mica_swapaxes(mica_scope *s, mica_array x, int a, int b);
MICA_API mica_array mica_moveaxis(mica_scope *s, mica_array x, int from, int to);
/** x stretched to shape [ndim], without a copy: axes that x lacks are put in front, and its axes of
 *  length 1 take any length.
 *  errors  MICA_ESHAPE another length; MICA_EINVAL a length below 0. source  numpy.broadcast_to. */
MICA_API mica_array mica_broadcast_to(mica_scope *s, mica_array x, const int64_t *shape, int ndim);

/** A stop that means the end of the axis. */
#define MICA_END_OF_AXIS INT64_MAX

/** x[start:stop:step] along every axis, as Python's slices; start, stop and step are [ndim of x].
 *  Negative numbers count from the end, steps may be negative, a range beyond the axis is cut.
 *  start NULL: from the beginning; stop NULL or MICA_END_OF_AXIS: to the end (a negative step goes
 *  from the last element to the first); step NULL: 1. The result is a view without a copy.
 *  With symbols (mica_program_dim) it is cut only where that is known for all their values; else it
 *  is MICA_EINVAL once these are set: mica_take with mica_arange takes rows that may be too many.
 *  errors  MICA_EINVAL a step is 0 */
MICA_API mica_array mica_slice(mica_scope *s, mica_array x, const int64_t *start,
                               const int64_t *stop, const int64_t *step);
/** x[start:stop] along one axis. */
MICA_API mica_array mica_slice_axis(mica_scope *s, mica_array x, int axis, int64_t start,
                                    int64_t stop);
/** `length` elements along one axis, from `start` on (negative: from the end). Unlike a slice it is
 *  never cut.
 *  errors  MICA_EINVAL they are not all there. source  torch.narrow. */
MICA_API mica_array mica_narrow(mica_scope *s, mica_array x, int axis, int64_t start,
                                int64_t length);

/** x with update written at start:stop:step (as mica_slice). update broadcasts to that shape and is
 *  converted to x's dtype. Runs in place if x is a moved array or has no other reader. */
MICA_API mica_array mica_slice_update(mica_scope *s, mica_array x, mica_array update,
                                      const int64_t *start, const int64_t *stop,
                                      const int64_t *step);
/** The same along one axis from a start that is an array (i32 []), over update's length. The
 *  start's value is not part of the graph's structure: a growing cache runs one compiled plan.
 *  errors  MICA_EINVAL at evaluation: the update does not fit */
MICA_API mica_array mica_slice_update_at(mica_scope *s, mica_array x, mica_array update,
                                         mica_array start, int axis);

/** The same elements in row-major order, in memory of their own. It copies, whatever the strides
 *  of x. */
MICA_API mica_array mica_contiguous(mica_scope *s, mica_array x);

/** Element [i...] of the result is x[offset + sum_k i_k * strides_k], counted in elements of x in
 *  row-major order; shape and strides are [ndim].
 *  errors  MICA_EINVAL the result reaches outside x */
MICA_API mica_array mica_as_strided(mica_scope *s, mica_array x, const int64_t *shape,
                                    const int64_t *strides, int ndim, int64_t offset);

/** Join n arrays along an axis (concatenate) or along a new axis (stack). The dtype is promoted. */
MICA_API mica_array mica_concatenate(mica_scope *s, const mica_array *xs, int n, int axis);
MICA_API mica_array mica_stack(mica_scope *s, const mica_array *xs, int n, int axis);
/** Cuts x along an axis before each of the n indices, into n + 1 pieces. */
MICA_API mica_status mica_split(mica_scope *s, mica_array x, const int64_t *indices, int n,
                                int axis, mica_array *pieces);
/** Adds before[k] and after[k] elements of value (converted to x's dtype) along axis k.
 *  mica_pad_edge repeats the edge elements instead.
 *  errors  MICA_EINVAL a number is negative; mica_pad_edge of an empty axis, which has no edge */
MICA_API mica_array mica_pad(mica_scope *s, mica_array x, const int64_t *before,
                             const int64_t *after, mica_array value);
MICA_API mica_array mica_pad_edge(mica_scope *s, mica_array x, const int64_t *before,
                                  const int64_t *after);
/** mica_repeat: each element n times in a row along an axis. mica_tile: all of x reps[k] times
 *  along axis k. */
MICA_API mica_array mica_repeat(mica_scope *s, mica_array x, int64_t n, int axis);
MICA_API mica_array mica_tile(mica_scope *s, mica_array x, const int64_t *reps, int n_reps);
/** The elements along an axis `shift` places later (negative: earlier), those behind the end at the
 *  beginning. errors  MICA_EINVAL there is no such axis. source  numpy.roll. */
MICA_API mica_array mica_roll(mica_scope *s, mica_array x, int64_t shift, int axis);
/** The elements along an axis in the opposite order, without a copy.
 *  errors  MICA_EINVAL there is no such axis */
MICA_API mica_array mica_flip(mica_scope *s, mica_array x, int axis);
/** Lower, upper triangle of the last two axes: elements with column - row > k (tril), < k (triu)
 *  become zero. */
MICA_API mica_array mica_tril(mica_scope *s, mica_array x, int64_t k);
MICA_API mica_array mica_triu(mica_scope *s, mica_array x, int64_t k);
/** mica_diag: [n] gives a square matrix with x on its k-th diagonal, [n, m] gives that diagonal of
 *  x. mica_diagonal: the diagonal of two axes, which becomes the last axis. k > 0 is above the main
 *  diagonal. */
MICA_API mica_array mica_diag(mica_scope *s, mica_array x, int64_t k);
MICA_API mica_array mica_diagonal(mica_scope *s, mica_array x, int64_t k, int axis1, int axis2);

/* ---- indexing ---- */

/** Slices of x at indices (any integer; negative from the end) along an axis:
 *  shape x[:axis] + indices + x[axis+1:]. errors MICA_EINVAL at evaluation: index out of range */
MICA_API mica_array mica_take(mica_scope *s, mica_array x, mica_array indices, int axis);
/** y[..., i, ...] = x[..., indices[..., i, ...], ...] along an axis; others broadcast. */
MICA_API mica_array mica_take_along_axis(mica_scope *s, mica_array x, mica_array indices, int axis);
/** x with values written at those indices; of several writes to one element, the last wins. */
MICA_API mica_array mica_put_along_axis(mica_scope *s, mica_array x, mica_array indices,
                                        mica_array values, int axis);

/** x[i_0, i_1, ...] along the axes listed. The index arrays broadcast together. The result has
 *  their shape followed by slice_sizes ([ndim of x]: 1 at the indexed axes, slices begin at 0 at
 *  the others).
 *  errors  MICA_EDTYPE indices are not integers; MICA_ESHAPE wrong slice_sizes, or more than
 *          MICA_MAX_NDIM axes; MICA_EINVAL wrong axes, and at evaluation an index out of range */
MICA_API mica_array mica_gather(mica_scope *s, mica_array x, const mica_array *indices, int n,
                                const int *axes, const int64_t *slice_sizes);

/** How a scatter combines an element with an update. */
typedef enum mica_scatter_mode {
    MICA_SCATTER_SET,
    MICA_SCATTER_ADD,
    MICA_SCATTER_MULTIPLY,
    MICA_SCATTER_MAXIMUM,
    MICA_SCATTER_MINIMUM
} mica_scatter_mode;

/** x with updates combined at x[i_0, i_1, ...]. updates has the indices' broadcast shape followed
 *  by the shape of a slice of x (as slice_sizes of mica_gather). An index that occurs twice
 *  combines twice, in the order of the indices; f16 and bf16 are rounded each time. Errors as
 *  mica_gather. */
MICA_API mica_array mica_scatter(mica_scope *s, mica_array x, const mica_array *indices, int n,
                                 const int *axes, mica_array updates, mica_scatter_mode mode);

/** Slices of x at rows of indices: with B = batch_dims and m the last length of indices,
 *
 *      y[b.., i.., r..] = x[b.., indices[b.., i.., 0], .., indices[b.., i.., m - 1], r..]
 *
 *  x        [b_1 .. b_B, d_1 .. d_m, r..]
 *  indices  [b_1 .. b_B, i.., m] of any integer, negative from the end.
 *  returns  [b_1 .. b_B, i.., r..]
 *  errors   MICA_ESHAPE the shapes do not fit, or m is above 6; MICA_EDTYPE; MICA_EINVAL at
 *           evaluation: an index is out of range
 *  source   ONNX, GatherND. */
MICA_API mica_array mica_gather_nd(mica_scope *s, mica_array x, mica_array indices, int batch_dims);
/** x with updates [i.., r..] combined at x[indices[i.., 0], .., indices[i.., m - 1], r..], in the
 *  order of the rows. Errors as mica_gather_nd without a batch. source  ONNX, ScatterND. */
MICA_API mica_array mica_scatter_nd(mica_scope *s, mica_array x, mica_array indices,
                                    mica_array updates, mica_scatter_mode mode);

/* ---- linear algebra ---- */

/** Matrix multiplication over the last two axes; other axes broadcast, vectors as in numpy.
 *  Multiplied and accumulated in f32, rounded once to the promoted dtype. Operands are not
 *  converted in memory.
 *  errors  MICA_ESHAPE; MICA_EDTYPE not floats */
MICA_API mica_array mica_matmul(mica_scope *s, mica_array a, mica_array b);
/** alpha * a @ b + beta * c */
MICA_API mica_array mica_addmm(mica_scope *s, mica_array c, mica_array a, mica_array b, float alpha,
                               float beta);
MICA_API mica_array mica_outer(mica_scope *s, mica_array a, mica_array b);
MICA_API mica_array mica_inner(mica_scope *s, mica_array a, mica_array b);
/** Contracts the last n axes of a with the first n axes of b. */
MICA_API mica_array mica_tensordot(mica_scope *s, mica_array a, mica_array b, int n);

/** The axes of mica_dot_general, in pairs: a_batch[i] with b_batch[i], a_contract[i] with
 *  b_contract[i]. Lists of no axes may be NULL. */
typedef struct mica_dot_axes {
    const int *a_batch;    /* [n_batch] axes of a that b has, too */
    const int *b_batch;    /* [n_batch] their pairs in b */
    int64_t n_batch;       /* how many there are */
    const int *a_contract; /* [n_contract] axes of a that are summed */
    const int *b_contract; /* [n_contract] their pairs in b */
    int64_t n_contract;    /* how many there are */
} mica_dot_axes;
/** A product over any axes:
 *
 *      y[i.., m.., n..] = sum_k.. a[i.., m.., k..] * b[i.., n.., k..]
 *
 *  axes     Borrowed; NULL: the outer product. All others of a's and b's axes are free (m, n).
 *  returns  [batch axes in their order, a's free axes, b's free axes]: floats of the promoted
 *           dtype, summed in f32 and rounded once; of two i8 exact i32, which wraps beyond 2^31.
 *  errors   MICA_EINVAL an axis is out of range or twice in the lists of one operand; MICA_ESHAPE
 *           lengths of a pair differ, or the result has more than MICA_MAX_NDIM axes; MICA_EDTYPE
 *  source   StableHLO, dot_general. */
MICA_API mica_array mica_dot_general(mica_scope *s, mica_array a, mica_array b,
                                     const mica_dot_axes *axes);
/** Products by an equation of letters, "bhqd,bhkd->bhqk", from left to right by mica_dot_general.
 *  "..." stands for any axes, which broadcast; an axis of length 1 broadcasts; a letter that is
 *  twice in an operand is its diagonal; without "->" the result has the letters that are there
 *  once, by the alphabet.
 *
 *  xs      [n] operands, 32 at most; products are of floats, or of two i8.
 *  errors  MICA_EINVAL an equation that does not fit; MICA_ESHAPE lengths of a letter differ;
 *          MICA_EDTYPE
 *  source  numpy.einsum. */
MICA_API mica_array mica_einsum(mica_scope *s, const char *equation, const mica_array *xs, int n);
/** Blocks of b, multiplied by each element of a: [.., a_k * b_k, ..].
 *  errors  MICA_ESHAPE more than four axes that are not 1. source  numpy.kron. */
MICA_API mica_array mica_kron(mica_scope *s, mica_array a, mica_array b);

/** x in a x = b, by elimination with pivoting, on the host.
 *
 *  a        [.., N, N] float
 *  b        [.., N, K] float, or vectors: [N], or one axis less than a. Batch axes broadcast.
 *  returns  of b's shape, with the batch axes of both; promoted dtype, computed in f64.
 *  errors   MICA_ESHAPE, MICA_EDTYPE; MICA_EINVAL at evaluation: a matrix is singular (the text has
 *           its number in the batch) */
MICA_API mica_array mica_solve(mica_scope *s, mica_array a, mica_array b);

/** How quantised weights are packed: MLX's layout. Codes of `bits` bits are packed little-endian
 *  into u32 words along the last axis. Each group of group_size codes shares a scale, and in the
 *  affine mode a bias. */
typedef enum mica_quant_mode {
    MICA_QUANT_AFFINE, /* w = scale * code + bias; 2 3 4 5 6 8 bits; groups of 32, 64, 128 */
    MICA_QUANT_MXFP4,  /* E2M1 codes, E8M0 scales (u8), groups of 32 */
    MICA_QUANT_MXFP8,  /* E4M3 codes, E8M0 scales (u8), groups of 32 */
    MICA_QUANT_NVFP4   /* E2M1 codes, E4M3 scales (u8), groups of 16 */
} mica_quant_mode;

/** How a weight is quantised. */
typedef struct mica_quant {
    mica_quant_mode mode; /* what codes and scales are */
    int bits;             /* of a code */
    int group_size;       /* weights that share a scale */
} mica_quant;

/** Quantises rows: w [..., D] float to codes [..., D * bits / 32] u32, scales and biases
 *  [..., D / group_size]; biases is MICA_NONE for the fp modes.
 *  errors  MICA_EINVAL bits or group_size unknown; MICA_ESHAPE D is no multiple of group_size */
MICA_API mica_status mica_quantize(mica_scope *s, mica_array w, mica_quant quant, mica_array *codes,
                                   mica_array *scales, mica_array *biases);
/** Quantised rows back to floats: of the dtype of scales (affine), else `dtype`. */
MICA_API mica_array mica_dequantize(mica_scope *s, mica_array codes, mica_array scales,
                                    mica_array biases, mica_quant quant, mica_dtype dtype);
/** x @ w^T (transpose) or x @ w for quantised w.
 *
 *  x        [..., M, K] float, or [K]. Borrowed.
 *  codes    [..., N, K * bits / 32] (transpose) or [..., K, N * bits / 32] u32; with scales and
 *           biases as of mica_quantize. Axes before the last two broadcast. Borrowed.
 *  returns  [..., M, N], x's dtype, computed in f32.
 *  errors   MICA_ESHAPE; MICA_EDTYPE x is not a float, codes are not u32, scales or biases not of
 *           the mode's dtype; MICA_EINVAL an unknown mode, bits or group_size, biases missing in
 *           the affine mode or there in another
 *  grad     x, and scales and biases of the affine mode
 *  source   mlx.core.quantized_matmul. */
MICA_API mica_array mica_quantized_matmul(mica_scope *s, mica_array x, mica_array codes,
                                          mica_array scales, mica_array biases, mica_quant quant,
                                          bool transpose);

/** Products of matrices that indices pick, such as those of a token and its experts:
 *
 *      y[i...] = a[lhs[i...]] @ b[rhs[i...]]
 *
 *  a, b     [..., M, K] and [..., K, N] floats; the axes before the last two are counted as one.
 *  indices  any integers, negative from the end; they broadcast. MICA_NONE: all in their order.
 *  returns  [indices..., M, N], as mica_matmul. Matrices are read where they lie, on `cpu` and
 *           where MLX does it; other devices copy those that are picked. `cpu` sorts the rows of a
 *           by the matrix of b that they meet, so they may come in any order.
 *  errors   MICA_ESHAPE; MICA_EDTYPE; MICA_EINVAL at evaluation: an index is out of range
 *  grad     a and b
 *  source   mlx.core.gather_mm. */
MICA_API mica_array mica_gather_mm(mica_scope *s, mica_array a, mica_array b,
                                   mica_array lhs_indices, mica_array rhs_indices);
/** The same of quantised matrices, as mica_quantized_matmul. grad x. source mlx.core.gather_qmm. */
MICA_API mica_array mica_gather_qmm(mica_scope *s, mica_array x, mica_array codes,
                                    mica_array scales, mica_array biases, mica_quant quant,
                                    bool transpose, mica_array lhs_indices, mica_array rhs_indices);

/* ---- the decoder's fused ops ---- */

/** Root-mean-square normalisation over the last axis, then scale.
 *
 *      y[..., i] = x[..., i] / sqrt(mean_j(x[..., j]^2) + eps) * weight[i]
 *
 *  x       [..., D] float, any strides. Borrowed.
 *  weight  [D] float, or MICA_NONE for no scale. Borrowed.
 *  returns [..., D], promoted dtype. Computed in f32, rounded once.
 *  errors  MICA_ESHAPE weight is not [D]; MICA_EDTYPE not a float
 *  source  Zhang & Sennrich 2019 (arXiv:1910.07467), eq. 4. */
MICA_API mica_array mica_rms_norm(mica_scope *s, mica_array x, mica_array weight, float eps);

/** Layer normalisation over the last axis: (x - mean) / sqrt(var + eps) * weight + bias.
 *  weight, bias [D] or MICA_NONE. Dtypes and errors as mica_rms_norm.
 *  source  Ba, Kiros & Hinton 2016 (arXiv:1607.06450). */
MICA_API mica_array mica_layer_norm(mica_scope *s, mica_array x, mica_array weight, mica_array bias,
                                    float eps);

/** Options of mica_rope; zero means the default. */
typedef struct mica_rope_options {
    size_t struct_bytes; /* see mica/api.h */
    int dims;            /* rotated elements of each head, even; 0: all of them */
    bool traditional;    /* pairs (2i, 2i+1) instead of (i, i + dims/2) */
    float base;          /* theta_i = base^(-2i/dims); 0: 10,000 */
    float scale;         /* positions are multiplied by it; 0: 1 */
} mica_rope_options;
/** Rotary position embedding (RoPE): pair i of the row at position p is rotated by the angle
 *  p * scale * base^(-2i/dims).
 *
 *  x       [..., L, D] float; axis -2 counts positions offset, offset + 1, ...
 *  offset  i32 [] or [B] (one for each row of axis 0).
 *  freqs   [dims/2] f32: the angle is p * scale / freqs[i] instead; or MICA_NONE.
 *  options NULL: the defaults. Borrowed.
 *  returns x's shape and dtype; computed in f32.
 *  source  Su et al. 2021 (arXiv:2104.09864). */
MICA_API mica_array mica_rope(mica_scope *s, mica_array x, mica_array offset, mica_array freqs,
                              const mica_rope_options *options);

/** Options of mica_sdpa; zero means the default. */
typedef struct mica_sdpa_options {
    size_t struct_bytes; /* see mica/api.h */
    float scale;         /* of q k^T; 0: 1 / sqrt(D) */
    bool causal;         /* query i sees keys j <= offset + i */
    int64_t window;      /* with causal: and j > offset + i - window; 0: no limit */
    int64_t keep;        /* with window: keys j < keep are seen outside the window, too */
    float softcap;     /* scores become softcap * tanh(scores / softcap) before the mask; 0: none */
    mica_array mask;   /* [.., Lq, Lk] broadcast: bool (true: seen) or float (added), or none */
    mica_array offset; /* i32 [] or [B]: key position of query 0; none: Lk - Lq */
    mica_array sinks;  /* [Hq] float: one more score per head in the softmax, without a value */
} mica_sdpa_options;
/** Scaled dot product attention, softmax(q k^T * scale + mask) v.
 *
 *  q       [B, Hq, Lq, D] float, k [B, Hkv, Lk, D], v [B, Hkv, Lk, Dv]; Hq a multiple of Hkv:
 *          head h reads K and V of head h / (Hq / Hkv), without repeating them. Any strides.
 *          k and v may instead both be u8: rows of mica_to_q8, of heads of size D.
 *  options NULL: the defaults. Borrowed.
 *  returns [B, Hq, Lq, Dv], promoted dtype of q, k, v (with u8 k and v: q's). Softmax and sums are
 *          in f32. A query that sees no key gives zeros.
 *          With bf16 k and v, a device may round q and the softmax weights to bf16, and then round
 *          further: elements of q and k to within 2^-12 of the largest of 128 in their row, softmax
 *          weights to within 2^-12 of the largest of 32 of their query, values to within 2^-14 of
 *          the largest of 32 in their column. Elements that are not finite, or q or k above 2^109,
 *          may then give NaN.
 *          With u8 k and v, a device may round q as mica_to_q8 does, and the softmax weights and v
 *          to bf16.
 *  errors  MICA_ESHAPE also if Lk is above 2^31 - 1; MICA_EDTYPE; MICA_EINVAL window without
 *          causal, keep without window
 *  source  Vaswani et al. 2017 (arXiv:1706.03762), eq. 1; GQA: arXiv:2305.13245. */
MICA_API mica_array mica_sdpa(mica_scope *s, mica_array q, mica_array k, mica_array v,
                              const mica_sdpa_options *options);

/** Writes rows into blocks of a pool: a KV cache whose sequences lie in blocks (mica_paged_sdpa).
 *
 *      pool[h, slots[b, l] / P, slots[b, l] % P] = x[b, h, l]
 *
 *  pool    [H, N, P, W]: N blocks of P entries, any dtype. Moved (mica_move) or donated, it is
 *          written in place.
 *  x       [B, H, L, W], converted to the pool's dtype.
 *  slots   i32 [B, L], -N * P to N * P - 1, negative from the end. Of rows with one slot any may
 *          stay.
 *  returns [H, N, P, W], dtype of pool.
 *  errors  MICA_ESHAPE also if N * P is 0 or above 2^31 - 1; MICA_EDTYPE; MICA_EINVAL at
 *          evaluation: a slot out of range
 *  grad    pool, x. */
MICA_API mica_array mica_kv_write(mica_scope *s, mica_array pool, mica_array x, mica_array slots);

/** mica_sdpa over keys and values in blocks: row b of the batch has the keys k[:, table[b, 0]],
 *  k[:, table[b, 1]], ..., one block after the other, and likewise the values. Blocks that follow
 *  each other in the pool are read as fast as keys in a row.
 *
 *  q        [B, Hq, Lq, D] float.
 *  k, v     [Hkv, N, P, D] and [Hkv, N, P, Dv], as those of mica_sdpa, or both u8.
 *  table    i32 [B, M], -N to N - 1, negative from the end. So Lk is M * P. Rows may share blocks.
 *           Blocks that no query sees must hold finite numbers.
 *  options  of mica_sdpa: causal and offset must be given, which says how many of the keys there
 *           are; mask must not.
 *  returns  what mica_sdpa gives for these keys and values, on the CPU with the same bits if P is
 *           a multiple of 32.
 *  errors   those of mica_sdpa; MICA_EINVAL at evaluation: a block out of range
 *  source   Kwon et al. 2023 (arXiv:2309.06180).
 *  grad     q, k, v, sinks. */
MICA_API mica_array mica_paged_sdpa(mica_scope *s, mica_array q, mica_array k, mica_array v,
                                    mica_array table, const mica_sdpa_options *options);

/** mica_sdpa with the logarithm of each softmax's denominator, by which attention over parts of the
 *  keys is put together.
 *
 *      lse[b, h, i] = log sum_j exp(score[b, h, i, j])
 *
 *  lse      receives [B, Hq, Lq] f32; the invalid array after an error. Scores are those of the
 *           softmax: scaled, capped, masked, a head's sink among them. -inf: a query sees no key.
 *  returns  what mica_sdpa gives.
 *  source   Dao et al. 2022 (arXiv:2205.14135), section 3.1. */
MICA_API mica_array mica_sdpa_lse(mica_scope *s, mica_array q, mica_array k, mica_array v,
                                  const mica_sdpa_options *options, mica_array *lse);

/** Negative log-likelihood of targets: logsumexp(logits) - logits[target] over the last axis.
 *
 *  logits   [..., V] float, or integers, which become f32. Borrowed.
 *  targets  [...] integers from -V to V - 1, negative from the end. Borrowed.
 *  returns  [...], the logits' dtype, f32 of integers; computed in f32, rounded once.
 *  errors   MICA_EDTYPE targets are not integers, or logits are c64 or f64; MICA_ESHAPE;
 *           MICA_EINVAL at evaluation: a target is out of range
 *  grad     logits. */
MICA_API mica_array mica_cross_entropy(mica_scope *s, mica_array logits, mica_array targets);

/* ---- random ---- */

/** Keys are u32 [2]; the same key always gives the same numbers (threefry 2x32, as MLX and JAX).
 *  source  Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". */
MICA_API mica_array mica_random_key(mica_scope *s, uint64_t seed);
/** n new keys: [n, 2] u32. */
MICA_API mica_array mica_random_split(mica_scope *s, mica_array key, int64_t n);
/** A stream of keys, for callers that keep none: plain data, which may be copied and saved. A copy
 *  goes on as the original does. Threads: one at a time; take a state for each. */
typedef struct mica_random_state {
    uint32_t key[2]; /* private */
} mica_random_state;
/** The stream of a seed: the keys that MLX's calls without a key use after mx.random.seed. */
MICA_API mica_random_state mica_random_seed(uint64_t seed);
/** The next key of the stream, u32 [2]; an error leaves the stream as it is. In a function that is
 *  recorded it is a constant: give such a function its keys as arguments.
 *  errors  MICA_EINVAL state is NULL; those of mica_from_data */
MICA_API mica_array mica_random_next(mica_scope *s, mica_random_state *state);
/** Random bits: u32 (width_bytes 4), u16 (2), u8 (1). */
MICA_API mica_array mica_random_bits(mica_scope *s, mica_array key, const int64_t *shape, int ndim,
                                     int width_bytes);
/** Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard normal
 *  between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel; standard
 *  Laplace; a random order of 0 .. n - 1. */
MICA_API mica_array mica_random_uniform(mica_scope *s, mica_array key, const int64_t *shape,
                                        int ndim, mica_dtype dtype, double lo, double hi);
MICA_API mica_array mica_random_normal(mica_scope *s, mica_array key, const int64_t *shape,
                                       int ndim, mica_dtype dtype, double mean, double deviation);
MICA_API mica_array mica_random_truncated_normal(mica_scope *s, mica_array key,
                                                 const int64_t *shape, int ndim, double lo,
                                                 double hi);
MICA_API mica_array mica_random_randint(mica_scope *s, mica_array key, const int64_t *shape,
                                        int ndim, int64_t lo, int64_t hi);
MICA_API mica_array mica_random_bernoulli(mica_scope *s, mica_array key, const int64_t *shape,
                                          int ndim, double p);
MICA_API mica_array mica_random_gumbel(mica_scope *s, mica_array key, const int64_t *shape,
                                       int ndim, mica_dtype dtype);
MICA_API mica_array mica_random_laplace(mica_scope *s, mica_array key, const int64_t *shape,
                                        int ndim, mica_dtype dtype);
MICA_API mica_array mica_random_permutation(mica_scope *s, mica_array key, int64_t n);
/** Indices (u32) drawn with probability softmax(logits) along the last axis: logits [..., V] gives
 *  [...] (n 0) or [..., n]. Gumbel-max, as MLX: the same key gives the same tokens. */
MICA_API mica_array mica_random_categorical(mica_scope *s, mica_array key, mica_array logits,
                                            int64_t n);

MICA_END

#endif
