/* The ops that the device has kernels for, but for those of kern/element_list.h: STEP(OP, function
 * that starts them, which layouts they take). An op without a row runs by its decomposition, or on
 * the CPU. Include this file with STEP defined; it is undefined at the end. */

/* step_move.c */
STEP(CONTIGUOUS, mc_cuda_contiguous, mc_cuda_supports_move)
STEP(CONCATENATE, mc_cuda_concatenate, mc_cuda_supports_move)
STEP(SLICE_UPDATE, mc_cuda_slice_update, mc_cuda_supports_move)
STEP(SLICE_UPDATE_AT, mc_cuda_slice_update_at, mc_cuda_supports_move)
STEP(TAKE, mc_cuda_take_rows, mc_cuda_supports_move)
STEP(KV_WRITE, mc_cuda_write_rows, mc_cuda_supports_move)
STEP(ARANGE, mc_cuda_arange, mc_cuda_supports_any)

/* step_rows.c */
STEP(SUM, mc_cuda_sum, mc_cuda_supports_reduce)
STEP(PROD, mc_cuda_prod, mc_cuda_supports_reduce)
STEP(MAX, mc_cuda_max, mc_cuda_supports_reduce)
STEP(MIN, mc_cuda_min, mc_cuda_supports_reduce)
STEP(ALL, mc_cuda_all, mc_cuda_supports_reduce)
STEP(ANY, mc_cuda_any, mc_cuda_supports_reduce)
STEP(ARGMAX, mc_cuda_argmax, mc_cuda_supports_reduce)
STEP(ARGMIN, mc_cuda_argmin, mc_cuda_supports_reduce)
STEP(TOPK_INDICES, mc_cuda_topk_indices, mc_cuda_supports_topk)
STEP(LOGSUMEXP, mc_cuda_logsumexp, mc_cuda_supports_reduce)
STEP(SOFTMAX, mc_cuda_softmax, mc_cuda_supports_reduce)
STEP(CROSS_ENTROPY, mc_cuda_cross_entropy, mc_cuda_supports_any)
STEP(CROSS_ENTROPY_GRADIENT, mc_cuda_cross_entropy, mc_cuda_supports_any)
STEP(RMS_NORM, mc_cuda_run_norm, mc_cuda_supports_any)
STEP(LAYER_NORM, mc_cuda_run_norm, mc_cuda_supports_any)
STEP(TO_Q8, mc_cuda_convert_q8, mc_cuda_supports_any)
STEP(FROM_Q8, mc_cuda_convert_q8, mc_cuda_supports_any)
STEP(ROPE, mc_cuda_rotate, mc_cuda_supports_any)

/* step_delta.c */
STEP(GATED_DELTA, mc_cuda_gated_delta, mc_cuda_supports_delta)

/* step_matmul.c */
STEP(MATMUL, mc_cuda_multiply, mc_cuda_supports_any)
STEP(QUANTIZED_MATMUL, mc_cuda_multiply, mc_cuda_supports_quant)
STEP(GATHER_MM, mc_cuda_gather, mc_cuda_supports_gather)
STEP(GATHER_QMM, mc_cuda_gather, mc_cuda_supports_gather)
STEP(DEQUANTIZE, mc_cuda_dequantise, mc_cuda_supports_quant)

/* step_attention.c */
STEP(SDPA, mc_cuda_sdpa, mc_cuda_supports_attention)
STEP(SDPA_LSE, mc_cuda_sdpa, mc_cuda_supports_attention)
STEP(SDPA_GRADIENT, mc_cuda_sdpa_gradient, mc_cuda_supports_sdpa_gradient)
STEP(PAGED_SDPA, mc_cuda_paged_sdpa, mc_cuda_supports_attention)

/* nccl.c, of groups that the device has joined */
STEP(ALL_GATHER, mc_cuda_collect, mc_cuda_supports_collective)
STEP(BROADCAST, mc_cuda_collect, mc_cuda_supports_collective)
STEP(SEND, mc_cuda_collect, mc_cuda_supports_collective)
STEP(RECV, mc_cuda_collect, mc_cuda_supports_collective)
#undef STEP
