/* The table of the CPU device's ops. A row names the function for an op, in cpu/eval_<subject>.c.
 * An op without a row runs by its decomposition. Include this file with EVAL and STAGE defined;
 * they are undefined at the end.
 *
 * EVAL(OP, function): the function runs the op.
 *
 * STAGE(OP, function, operands): the op goes row by row, alone or in a chain (cpu/chain.h), and the
 * function prepares it. operands: which of them have the result's rows: ALL, the FIRST one, or the
 * SECOND one, where the result itself has other rows. EACH: all, and the op goes element by
 * element, so that it can be in a region, too.
 *
 * If an op has both rows, EVAL runs it alone.
 *
 * SCRATCH(OP): EVAL's function takes scratch, and only asks for it in a run that is measured
 * (exec/steps/step.h). SCRATCH may be undefined. */
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
STAGE(KV_WRITE, mc_stage_kv_write, SECOND)
EVAL(TAKE, mc_eval_take)
SCRATCH(TAKE)
EVAL(TAKE_ALONG_AXIS, mc_eval_take_along_axis)
EVAL(PUT_ALONG_AXIS, mc_eval_put_along_axis)
EVAL(GATHER, mc_eval_gather)
EVAL(SCATTER, mc_eval_scatter)

/* eval_unary.c, eval_convert.c, eval_binary.c, eval_select.c, eval_make.c, eval_reduce.c,
 * eval_scan.c, eval_sort.c, eval_random.c */
STAGE(ABS, mc_stage_abs, EACH)
STAGE(NEGATIVE, mc_stage_negative, EACH)
STAGE(SQUARE, mc_stage_square, EACH)
STAGE(SIGN, mc_stage_sign, EACH)
STAGE(FLOOR, mc_stage_floor, EACH)
STAGE(CEIL, mc_stage_ceil, EACH)
STAGE(ROUND, mc_stage_round, EACH)
STAGE(EXP, mc_stage_exp, EACH)
STAGE(EXPM1, mc_stage_expm1, EACH)
STAGE(LOG, mc_stage_log, EACH)
STAGE(LOG2, mc_stage_log2, EACH)
STAGE(LOG10, mc_stage_log10, EACH)
STAGE(LOG1P, mc_stage_log1p, EACH)
STAGE(SQRT, mc_stage_sqrt, EACH)
STAGE(RSQRT, mc_stage_rsqrt, EACH)
STAGE(RECIPROCAL, mc_stage_reciprocal, EACH)
STAGE(SIN, mc_stage_sin, EACH)
STAGE(COS, mc_stage_cos, EACH)
STAGE(TAN, mc_stage_tan, EACH)
STAGE(SINH, mc_stage_sinh, EACH)
STAGE(COSH, mc_stage_cosh, EACH)
STAGE(TANH, mc_stage_tanh, EACH)
STAGE(ARCSIN, mc_stage_arcsin, EACH)
STAGE(ARCCOS, mc_stage_arccos, EACH)
STAGE(ARCTAN, mc_stage_arctan, EACH)
STAGE(ARCSINH, mc_stage_arcsinh, EACH)
STAGE(ARCCOSH, mc_stage_arccosh, EACH)
STAGE(ARCTANH, mc_stage_arctanh, EACH)
STAGE(ERF, mc_stage_erf, EACH)
STAGE(ERFINV, mc_stage_erfinv, EACH)
STAGE(SIGMOID, mc_stage_sigmoid, EACH)
STAGE(ISNAN, mc_stage_isnan, EACH)
STAGE(ISINF, mc_stage_isinf, EACH)
STAGE(ISFINITE, mc_stage_isfinite, EACH)
STAGE(LOGICAL_NOT, mc_stage_logical_not, EACH)
STAGE(BITWISE_INVERT, mc_stage_bitwise_invert, EACH)
STAGE(SILU, mc_stage_silu, EACH)
STAGE(GELU, mc_stage_gelu, EACH)
STAGE(GELU_APPROX, mc_stage_gelu_approx, EACH)
STAGE(ASTYPE, mc_stage_astype, EACH)
EVAL(TO_FP8, mc_eval_to_fp8)
EVAL(FROM_FP8, mc_eval_from_fp8)
STAGE(TO_Q8, mc_stage_to_q8, ALL)
STAGE(FROM_Q8, mc_stage_from_q8, ALL)
STAGE(ADD, mc_stage_add, EACH)
STAGE(SUBTRACT, mc_stage_subtract, EACH)
STAGE(MULTIPLY, mc_stage_multiply, EACH)
STAGE(DIVIDE, mc_stage_divide, EACH)
STAGE(FLOOR_DIVIDE, mc_stage_floor_divide, EACH)
STAGE(REMAINDER, mc_stage_remainder, EACH)
STAGE(POWER, mc_stage_power, EACH)
STAGE(MAXIMUM, mc_stage_maximum, EACH)
STAGE(MINIMUM, mc_stage_minimum, EACH)
STAGE(LOGADDEXP, mc_stage_logaddexp, EACH)
STAGE(ARCTAN2, mc_stage_arctan2, EACH)
STAGE(EQUAL, mc_stage_equal, EACH)
STAGE(NOT_EQUAL, mc_stage_not_equal, EACH)
STAGE(LESS, mc_stage_less, EACH)
STAGE(LESS_EQUAL, mc_stage_less_equal, EACH)
STAGE(GREATER, mc_stage_greater, EACH)
STAGE(GREATER_EQUAL, mc_stage_greater_equal, EACH)
STAGE(LOGICAL_AND, mc_stage_logical_and, EACH)
STAGE(LOGICAL_OR, mc_stage_logical_or, EACH)
STAGE(BITWISE_AND, mc_stage_bitwise_and, EACH)
STAGE(BITWISE_OR, mc_stage_bitwise_or, EACH)
STAGE(BITWISE_XOR, mc_stage_bitwise_xor, EACH)
STAGE(LEFT_SHIFT, mc_stage_left_shift, EACH)
STAGE(RIGHT_SHIFT, mc_stage_right_shift, EACH)
STAGE(WHERE, mc_stage_where, EACH)
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

/* eval_matmul.c, eval_quant.c, eval_gather.c, eval_norm.c, eval_rope.c, eval_attention.c,
 * eval_attention_gradient.c. Matmuls can end a chain
 * (cpu/chain.h), even one without stages. */
EVAL(MATMUL, mc_eval_chain)
SCRATCH(MATMUL)
EVAL(DEQUANTIZE, mc_eval_dequantize)
SCRATCH(DEQUANTIZE)
EVAL(QUANTIZED_MATMUL, mc_eval_chain)
SCRATCH(QUANTIZED_MATMUL)
EVAL(GATHER_MM, mc_eval_gather_matmul)
SCRATCH(GATHER_MM)
EVAL(GATHER_QMM, mc_eval_gather_matmul)
SCRATCH(GATHER_QMM)
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
EVAL(PAGED_SDPA, mc_eval_sdpa)
SCRATCH(PAGED_SDPA)

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
