/* The ops that the device has a row for. A row names the function that builds MLX's graph for an
 * op, in mlx/emit_<subject>.c. An op without a row runs by its decomposition, or on the CPU.
 * Include this file with EMIT, EMIT_IF, AS_IS and WIDE defined; they are undefined at the end.
 *
 * EMIT(OP, function): a function of its own.
 * EMIT_IF(OP, function, supports): over the layouts for which mc_mlx_supports_<supports> is true.
 * AS_IS(OP, name): mlx_<name> with one operand or two, in their dtype.
 * WIDE(OP, name): the same; f16 and bf16 are computed in f32. */

/* views: emit_move.c */
EMIT(RESHAPE, mc_mlx_emit_reshape)
EMIT(TRANSPOSE, mc_mlx_emit_transpose)
EMIT(BROADCAST_TO, mc_mlx_emit_broadcast_to)
EMIT(SLICE, mc_mlx_emit_slice)
EMIT(AS_STRIDED, mc_mlx_emit_as_strided)
EMIT(VIEW, mc_mlx_emit_view)

/* element by element: emit_elements.c */
EMIT(ABS, mc_mlx_emit_abs)
AS_IS(NEGATIVE, negative)
EMIT(SQUARE, mc_mlx_emit_square)
EMIT(SIGN, mc_mlx_emit_sign)
AS_IS(FLOOR, floor)
AS_IS(CEIL, ceil)
EMIT(ROUND, mc_mlx_emit_round)
WIDE(EXP, exp)
WIDE(EXPM1, expm1)
WIDE(LOG, log)
WIDE(LOG2, log2)
WIDE(LOG10, log10)
WIDE(LOG1P, log1p)
WIDE(SQRT, sqrt)
WIDE(RSQRT, rsqrt)
WIDE(RECIPROCAL, reciprocal)
WIDE(SIN, sin)
WIDE(COS, cos)
WIDE(TAN, tan)
WIDE(SINH, sinh)
WIDE(COSH, cosh)
WIDE(TANH, tanh)
WIDE(ARCSIN, arcsin)
WIDE(ARCCOS, arccos)
WIDE(ARCTAN, arctan)
WIDE(ARCSINH, arcsinh)
WIDE(ARCCOSH, arccosh)
WIDE(ARCTANH, arctanh)
WIDE(ERF, erf)
WIDE(ERFINV, erfinv)
WIDE(SIGMOID, sigmoid)
AS_IS(ISNAN, isnan)
AS_IS(ISINF, isinf)
AS_IS(ISFINITE, isfinite)
AS_IS(LOGICAL_NOT, logical_not)
AS_IS(BITWISE_INVERT, bitwise_invert)
EMIT(ASTYPE, mc_mlx_emit_astype)
EMIT(TO_FP8, mc_mlx_emit_to_fp8)
EMIT(FROM_FP8, mc_mlx_emit_from_fp8)
AS_IS(ADD, add)
AS_IS(SUBTRACT, subtract)
AS_IS(MULTIPLY, multiply)
WIDE(DIVIDE, divide)
EMIT(FLOOR_DIVIDE, mc_mlx_emit_floor_divide)
EMIT(REMAINDER, mc_mlx_emit_remainder)
EMIT(POWER, mc_mlx_emit_power)
AS_IS(MAXIMUM, maximum)
AS_IS(MINIMUM, minimum)
WIDE(LOGADDEXP, logaddexp)
WIDE(ARCTAN2, arctan2)
AS_IS(EQUAL, equal)
AS_IS(NOT_EQUAL, not_equal)
AS_IS(LESS, less)
AS_IS(LESS_EQUAL, less_equal)
AS_IS(GREATER, greater)
AS_IS(GREATER_EQUAL, greater_equal)
AS_IS(LOGICAL_AND, logical_and)
AS_IS(LOGICAL_OR, logical_or)
AS_IS(BITWISE_AND, bitwise_and)
AS_IS(BITWISE_OR, bitwise_or)
AS_IS(BITWISE_XOR, bitwise_xor)
EMIT(LEFT_SHIFT, mc_mlx_emit_left_shift)
EMIT(RIGHT_SHIFT, mc_mlx_emit_right_shift)
EMIT(WHERE, mc_mlx_emit_where)

/* making and moving: emit_move.c, emit_index.c */
EMIT(ARANGE, mc_mlx_emit_arange)
EMIT(RANDOM_BITS, mc_mlx_emit_random_bits)
EMIT(CONTIGUOUS, mc_mlx_emit_contiguous)
EMIT(CONCATENATE, mc_mlx_emit_concatenate)
EMIT(SLICE_UPDATE, mc_mlx_emit_slice_update)
EMIT(SLICE_UPDATE_AT, mc_mlx_emit_slice_update_at)
EMIT(TAKE, mc_mlx_emit_take)
EMIT(TAKE_ALONG_AXIS, mc_mlx_emit_take_along_axis)
EMIT_IF(PUT_ALONG_AXIS, mc_mlx_emit_put_along_axis, in_order)
EMIT(GATHER, mc_mlx_emit_gather)
EMIT_IF(SCATTER, mc_mlx_emit_scatter, in_order)

/* reductions, scans, sorting: emit_reduce.c */
EMIT(SUM, mc_mlx_emit_sum)
EMIT(PROD, mc_mlx_emit_prod)
EMIT(MAX, mc_mlx_emit_max)
EMIT(MIN, mc_mlx_emit_min)
EMIT(ALL, mc_mlx_emit_all)
EMIT(ANY, mc_mlx_emit_any)
EMIT(ARGMAX, mc_mlx_emit_argmax)
EMIT(ARGMIN, mc_mlx_emit_argmin)
EMIT(CUMSUM, mc_mlx_emit_cumsum)
EMIT(CUMPROD, mc_mlx_emit_cumprod)
EMIT(CUMMAX, mc_mlx_emit_cummax)
EMIT(CUMMIN, mc_mlx_emit_cummin)
EMIT(LOGCUMSUMEXP, mc_mlx_emit_logcumsumexp)
EMIT(SORT, mc_mlx_emit_sort)
EMIT(ARGSORT, mc_mlx_emit_argsort)
EMIT(SOFTMAX, mc_mlx_emit_softmax)

/* products: emit_matmul.c */
EMIT(MATMUL, mc_mlx_emit_matmul)
EMIT(DEQUANTIZE, mc_mlx_emit_dequantize)
EMIT_IF(QUANTIZED_MATMUL, mc_mlx_emit_quantized_matmul, quantized_matmul)

/* products of matrices that indices pick: emit_matmul.c */
EMIT_IF(GATHER_MM, mc_mlx_emit_gather_mm, gather_mm)
EMIT_IF(GATHER_QMM, mc_mlx_emit_gather_qmm, gather_qmm)

/* the decoder's fused ops: emit_fused.c, emit_attention.c */
EMIT(RMS_NORM, mc_mlx_emit_rms_norm)
EMIT(LAYER_NORM, mc_mlx_emit_layer_norm)
EMIT_IF(ROPE, mc_mlx_emit_rope, rope)
EMIT_IF(SDPA, mc_mlx_emit_sdpa, sdpa)

/* convolutions, Fourier transforms: emit_conv.c */
EMIT_IF(CONV_GENERAL, mc_mlx_emit_conv, conv)
EMIT(FFT, mc_mlx_emit_fft)

#undef EMIT
#undef EMIT_IF
#undef AS_IS
#undef WIDE
