/* Every op: OP(ENUM, name). Its description is mc_op_<name>, in a file of src/op/ (a row without a
 * description does not link). Include this file with OP defined; it is undefined at the end.
 *
 * LEAF is data: values given, loaded or evaluated. It has no inputs. PART is one result of an op
 * that has several. */
OP(LEAF, leaf)
OP(PART, part)

/* element by element, one operand: op/unary.c */
OP(ABS, abs)
OP(NEGATIVE, negative)
OP(SQUARE, square)
OP(SIGN, sign)
OP(FLOOR, floor)
OP(CEIL, ceil)
OP(ROUND, round)
OP(EXP, exp)
OP(EXPM1, expm1)
OP(LOG, log)
OP(LOG2, log2)
OP(LOG10, log10)
OP(LOG1P, log1p)
OP(SQRT, sqrt)
OP(RSQRT, rsqrt)
OP(RECIPROCAL, reciprocal)
OP(SIN, sin)
OP(COS, cos)
OP(TAN, tan)
OP(SINH, sinh)
OP(COSH, cosh)
OP(TANH, tanh)
OP(ARCSIN, arcsin)
OP(ARCCOS, arccos)
OP(ARCTAN, arctan)
OP(ARCSINH, arcsinh)
OP(ARCCOSH, arccosh)
OP(ARCTANH, arctanh)
OP(ERF, erf)
OP(ERFINV, erfinv)
OP(SIGMOID, sigmoid)
OP(ISNAN, isnan)
OP(ISINF, isinf)
OP(ISFINITE, isfinite)
OP(LOGICAL_NOT, logical_not)
OP(BITWISE_INVERT, bitwise_invert)
OP(SILU, silu)
OP(GELU, gelu)
OP(GELU_APPROX, gelu_approx)

/* conversions: op/convert.c */
OP(ASTYPE, astype)
OP(VIEW, view)
OP(TO_FP8, to_fp8)
OP(FROM_FP8, from_fp8)
OP(TO_Q8, to_q8)
OP(FROM_Q8, from_q8)

/* element by element, two or three operands of one shape: op/binary.c, op/select.c */
OP(ADD, add)
OP(SUBTRACT, subtract)
OP(MULTIPLY, multiply)
OP(DIVIDE, divide)
OP(FLOOR_DIVIDE, floor_divide)
OP(REMAINDER, remainder)
OP(POWER, power)
OP(MAXIMUM, maximum)
OP(MINIMUM, minimum)
OP(LOGADDEXP, logaddexp)
OP(ARCTAN2, arctan2)
OP(EQUAL, equal)
OP(NOT_EQUAL, not_equal)
OP(LESS, less)
OP(LESS_EQUAL, less_equal)
OP(GREATER, greater)
OP(GREATER_EQUAL, greater_equal)
OP(LOGICAL_AND, logical_and)
OP(LOGICAL_OR, logical_or)
OP(BITWISE_AND, bitwise_and)
OP(BITWISE_OR, bitwise_or)
OP(BITWISE_XOR, bitwise_xor)
OP(LEFT_SHIFT, left_shift)
OP(RIGHT_SHIFT, right_shift)
OP(WHERE, where)

/* making: op/make.c */
OP(ARANGE, arange)

/* reductions, scans, sorting: op/reduce.c, op/scan.c, op/sort.c */
OP(SUM, sum)
OP(PROD, prod)
OP(MAX, max)
OP(MIN, min)
OP(ALL, all)
OP(ANY, any)
OP(LOGSUMEXP, logsumexp)
OP(ARGMAX, argmax)
OP(ARGMIN, argmin)
OP(CUMSUM, cumsum)
OP(CUMPROD, cumprod)
OP(CUMMAX, cummax)
OP(CUMMIN, cummin)
OP(LOGCUMSUMEXP, logcumsumexp)
OP(SORT, sort)
OP(ARGSORT, argsort)
OP(TOPK, topk)
OP(TOPK_INDICES, topk_indices)
OP(SOFTMAX, softmax)

/* views, which move no data where strides can say it: op/shape.c */
OP(RESHAPE, reshape)
OP(TRANSPOSE, transpose)
OP(BROADCAST_TO, broadcast_to)
OP(SLICE, slice)
OP(AS_STRIDED, as_strided)

/* moving data: op/shape.c (CONTIGUOUS, a dense copy of any view), op/arrange.c, op/index.c */
OP(CONTIGUOUS, contiguous)
OP(CONCATENATE, concatenate)
OP(SLICE_UPDATE, slice_update)
OP(SLICE_UPDATE_AT, slice_update_at)
OP(TAKE, take)
OP(TAKE_ALONG_AXIS, take_along_axis)
OP(PUT_ALONG_AXIS, put_along_axis)
OP(GATHER, gather)
OP(SCATTER, scatter)

/* products: op/matmul.c, op/quant.c, op/gather_mm.c, op/integer.c */
OP(MATMUL, matmul)
OP(DEQUANTIZE, dequantize)
OP(QUANTIZED_MATMUL, quantized_matmul)
OP(GATHER_MM, gather_mm)
OP(GATHER_QMM, gather_qmm)
OP(INTEGER_MATMUL, integer_matmul)
OP(INTEGER_CONV, integer_conv)

/* the decoder's fused ops: op/norm.c, op/rope.c, op/attention.c, op/paged.c, op/loss.c */
OP(RMS_NORM, rms_norm)
OP(LAYER_NORM, layer_norm)
OP(ROPE, rope)
OP(SDPA, sdpa)
OP(SDPA_LSE, sdpa_lse)
OP(KV_WRITE, kv_write)
OP(PAGED_SDPA, paged_sdpa)
OP(CROSS_ENTROPY, cross_entropy)

/* op/random.c */
OP(RANDOM_BITS, random_bits)

/* control flow, which holds subgraphs: op/control.c */
OP(IF, if)
OP(WHILE, while)
OP(SCAN, scan)

/* convolutions, windows and transforms: op/conv.c, op/pool.c, op/fft.c */
OP(CONV_GENERAL, conv_general)
OP(REDUCE_WINDOW, reduce_window)
OP(FFT, fft)

/* what is there for gradients alone: op/gradient.c, op/attention_gradient.c,
 * op/loss.c, op/norm.c */
OP(IDENTITY, identity)
OP(STOP_GRADIENT, stop_gradient)
OP(SDPA_GRADIENT, sdpa_gradient)
OP(CROSS_ENTROPY_GRADIENT, cross_entropy_gradient)
OP(RMS_NORM_GRADIENT, rms_norm_gradient)
OP(LAYER_NORM_GRADIENT, layer_norm_gradient)

/* recurrences, and the gradient of one: op/selective.c, op/gated_delta.c */
OP(SELECTIVE_SCAN, selective_scan)
OP(SELECTIVE_SCAN_GRADIENT, selective_scan_gradient)
OP(GATED_DELTA, gated_delta)

/* linear equations, and errors of compositions that depend on data: op/solve.c, op/require.c */
OP(DENSE_SOLVE, dense_solve)
OP(REQUIRE, require)

/* those of the application: op/custom.c */
OP(CUSTOM, custom)

/* between the ranks of a group: op/collective.c */
OP(ALL_REDUCE, all_reduce)
OP(ALL_GATHER, all_gather)
OP(REDUCE_SCATTER, reduce_scatter)
OP(BROADCAST, broadcast)
OP(SEND, send)
OP(RECV, recv)

#undef OP
