/* The table of the CPU device's ops. A row names the function for an op, in cpu/eval_<subject>.c.
 * An op without a row runs by its decomposition. Include this file with EVAL and STAGE defined;
 * they are undefined at the end.
 *
 * EVAL(OP, function): the function runs the op.
 *
 * STAGE(OP, function, operands): the op goes row by row, alone or in a chain (cpu/chain.h), and the
 * function prepares it. operands: which of them have the result's rows: ALL, the FIRST one, or the
 * SECOND one, where the result itself has other rows.
 *
 * If an op has both rows, EVAL runs it alone.
 *
 * SCRATCH(OP): EVAL's function takes scratch, and only asks for it in a run that is measured
 * (exec/step.h). SCRATCH may be undefined. */
#ifndef SCRATCH
#define SCRATCH(op)
#endif

/* eval_copy.c, eval_index.c, eval_scatter.c. The views of op/shape.c need no kernel. */
EVAL(CONTIGUOUS, mc_eval_contiguous)
STAGE(CONTIGUOUS, mc_stage_contiguous, ALL)
EVAL(CONCATENATE, mc_eval_concatenate)
EVAL(SLICE_UPDATE, mc_eval_slice_update)
EVAL(SLICE_UPDATE_AT, mc_eval_slice_update_at)
STAGE(SLICE_UPDATE_AT, mc_stage_slice_update_at, SECOND)
EVAL(TAKE, mc_eval_take)
SCRATCH(TAKE)
EVAL(TAKE_ALONG_AXIS, mc_eval_take_along_axis)
EVAL(PUT_ALONG_AXIS, mc_eval_put_along_axis)
EVAL(GATHER, mc_eval_gather)
EVAL(SCATTER, mc_eval_scatter)

/* eval_unary.c, eval_convert.c, eval_binary.c, eval_select.c, eval_make.c, eval_reduce.c,
 * eval_scan.c, eval_sort.c, eval_random.c */
STAGE(ABS, mc_stage_abs, ALL)
STAGE(NEGATIVE, mc_stage_negative, ALL)
STAGE(SQUARE, mc_stage_square, ALL)
STAGE(SIGN, mc_stage_sign, ALL)
STAGE(FLOOR, mc_stage_floor, ALL)
STAGE(CEIL, mc_stage_ceil, ALL)
STAGE(ROUND, mc_stage_round, ALL)
STAGE(EXP, mc_stage_exp, ALL)
STAGE(EXPM1, mc_stage_expm1, ALL)
STAGE(LOG, mc_stage_log, ALL)
STAGE(LOG2, mc_stage_log2, ALL)
STAGE(LOG10, mc_stage_log10, ALL)
STAGE(LOG1P, mc_stage_log1p, ALL)
STAGE(SQRT, mc_stage_sqrt, ALL)
STAGE(RSQRT, mc_stage_rsqrt, ALL)
STAGE(RECIPROCAL, mc_stage_reciprocal, ALL)
STAGE(SIN, mc_stage_sin, ALL)
STAGE(COS, mc_stage_cos, ALL)
STAGE(TAN, mc_stage_tan, ALL)
STAGE(SINH, mc_stage_sinh, ALL)
STAGE(COSH, mc_stage_cosh, ALL)
STAGE(TANH, mc_stage_tanh, ALL)
STAGE(ARCSIN, mc_stage_arcsin, ALL)
STAGE(ARCCOS, mc_stage_arccos, ALL)
STAGE(ARCTAN, mc_stage_arctan, ALL)
STAGE(ARCSINH, mc_stage_arcsinh, ALL)
STAGE(ARCCOSH, mc_stage_arccosh, ALL)
STAGE(ARCTANH, mc_stage_arctanh, ALL)
STAGE(ERF, mc_stage_erf, ALL)
STAGE(ERFINV, mc_stage_erfinv, ALL)
STAGE(SIGMOID, mc_stage_sigmoid, ALL)
STAGE(ISNAN, mc_stage_isnan, ALL)
STAGE(ISINF, mc_stage_isinf, ALL)
STAGE(ISFINITE, mc_stage_isfinite, ALL)
STAGE(LOGICAL_NOT, mc_stage_logical_not, ALL)
STAGE(BITWISE_INVERT, mc_stage_bitwise_invert, ALL)
STAGE(SILU, mc_stage_silu, ALL)
STAGE(GELU, mc_stage_gelu, ALL)
STAGE(GELU_APPROX, mc_stage_gelu_approx, ALL)
STAGE(ASTYPE, mc_stage_astype, ALL)
EVAL(TO_FP8, mc_eval_to_fp8)
EVAL(FROM_FP8, mc_eval_from_fp8)
STAGE(TO_Q8, mc_stage_to_q8, ALL)
STAGE(FROM_Q8, mc_stage_from_q8, ALL)
STAGE(ADD, mc_stage_add, ALL)
STAGE(SUBTRACT, mc_stage_subtract, ALL)
STAGE(MULTIPLY, mc_stage_multiply, ALL)
STAGE(DIVIDE, mc_stage_divide, ALL)
STAGE(FLOOR_DIVIDE, mc_stage_floor_divide, ALL)
STAGE(REMAINDER, mc_stage_remainder, ALL)
STAGE(POWER, mc_stage_power, ALL)
STAGE(MAXIMUM, mc_stage_maximum, ALL)
STAGE(MINIMUM, mc_stage_minimum, ALL)
STAGE(LOGADDEXP, mc_stage_logaddexp, ALL)
STAGE(ARCTAN2, mc_stage_arctan2, ALL)
STAGE(EQUAL, mc_stage_equal, ALL)
STAGE(NOT_EQUAL, mc_stage_not_equal, ALL)
STAGE(LESS, mc_stage_less, ALL)
STAGE(LESS_EQUAL, mc_stage_less_equal, ALL)
STAGE(GREATER, mc_stage_greater, ALL)
STAGE(GREATER_EQUAL, mc_stage_greater_equal, ALL)
STAGE(LOGICAL_AND, mc_stage_logical_and, ALL)
STAGE(LOGICAL_OR, mc_stage_logical_or, ALL)
STAGE(BITWISE_AND, mc_stage_bitwise_and, ALL)
STAGE(BITWISE_OR, mc_stage_bitwise_or, ALL)
STAGE(BITWISE_XOR, mc_stage_bitwise_xor, ALL)
STAGE(LEFT_SHIFT, mc_stage_left_shift, ALL)
STAGE(RIGHT_SHIFT, mc_stage_right_shift, ALL)
STAGE(WHERE, mc_stage_where, ALL)
EVAL(ARANGE, mc_eval_arange)
EVAL(SUM, mc_eval_sum)
EVAL(PROD, mc_eval_prod)
EVAL(MAX, mc_eval_max)
SCRATCH(MAX)
EVAL(MIN, mc_eval_min)
SCRATCH(MIN)
EVAL(ALL, mc_eval_all)
EVAL(ANY, mc_eval_any)
EVAL(LOGSUMEXP, mc_eval_logsumexp)
EVAL(ARGMAX, mc_eval_argmax)
SCRATCH(ARGMAX)
EVAL(ARGMIN, mc_eval_argmin)
SCRATCH(ARGMIN)
EVAL(CUMSUM, mc_eval_cumsum)
EVAL(CUMPROD, mc_eval_cumprod)
EVAL(CUMMAX, mc_eval_cummax)
EVAL(CUMMIN, mc_eval_cummin)
EVAL(LOGCUMSUMEXP, mc_eval_logcumsumexp)
EVAL(SORT, mc_eval_sort)
SCRATCH(SORT)
EVAL(ARGSORT, mc_eval_argsort)
SCRATCH(ARGSORT)
EVAL(TOPK, mc_eval_topk)
SCRATCH(TOPK)
EVAL(TOPK_INDICES, mc_eval_topk_indices)
SCRATCH(TOPK_INDICES)
EVAL(SOFTMAX, mc_eval_softmax)
EVAL(CROSS_ENTROPY, mc_eval_cross_entropy)
EVAL(CROSS_ENTROPY_GRADIENT, mc_eval_cross_entropy_gradient)
EVAL(RANDOM_BITS, mc_eval_random_bits)

/* eval_matmul.c, eval_quant.c, eval_norm.c, eval_rope.c, eval_attention.c,
 * eval_attention_gradient.c. Matmuls can end a chain
 * (cpu/chain.h), even one without stages. */
EVAL(MATMUL, mc_eval_chain)
SCRATCH(MATMUL)
EVAL(DEQUANTIZE, mc_eval_dequantize)
SCRATCH(DEQUANTIZE)
EVAL(QUANTIZED_MATMUL, mc_eval_chain)
SCRATCH(QUANTIZED_MATMUL)
STAGE(RMS_NORM, mc_stage_rms_norm, FIRST)
STAGE(LAYER_NORM, mc_stage_layer_norm, FIRST)
STAGE(ROPE, mc_stage_rope, FIRST)
EVAL(RMS_NORM_GRADIENT, mc_eval_rms_norm_gradient)
SCRATCH(RMS_NORM_GRADIENT)
EVAL(LAYER_NORM_GRADIENT, mc_eval_layer_norm_gradient)
SCRATCH(LAYER_NORM_GRADIENT)
EVAL(SDPA, mc_eval_sdpa)
SCRATCH(SDPA)
EVAL(SDPA_LSE, mc_eval_sdpa)
SCRATCH(SDPA_LSE)
EVAL(SDPA_GRADIENT, mc_eval_sdpa_gradient)
SCRATCH(SDPA_GRADIENT)

/* eval_recurrence.c */
EVAL(SELECTIVE_SCAN, mc_eval_selective_scan)
SCRATCH(SELECTIVE_SCAN)
EVAL(SELECTIVE_SCAN_GRADIENT, mc_eval_selective_scan_gradient)
SCRATCH(SELECTIVE_SCAN_GRADIENT)
EVAL(GATED_DELTA, mc_eval_gated_delta)
SCRATCH(GATED_DELTA)

/* eval_solve.c, eval_require.c */
EVAL(DENSE_SOLVE, mc_eval_dense_solve)
SCRATCH(DENSE_SOLVE)
EVAL(REQUIRE, mc_eval_require)

/* eval_custom.c */
EVAL(CUSTOM, mc_eval_custom)
SCRATCH(CUSTOM)

/* eval_conv.c, eval_fft.c, eval_window.c */
EVAL(FFT, mc_eval_fft)
SCRATCH(FFT)
EVAL(REDUCE_WINDOW, mc_eval_reduce_window)
SCRATCH(REDUCE_WINDOW)
EVAL(CONV_GENERAL, mc_eval_conv)
SCRATCH(CONV_GENERAL)

#undef EVAL
#undef STAGE
#undef SCRATCH
