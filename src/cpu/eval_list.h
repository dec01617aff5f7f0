/* Which function of the CPU device runs which op: EVAL(OP, function), in cpu/eval_<subject>.c. An op
 * without a row runs by its decomposition. Include this file with EVAL defined; it is undefined at
 * the end. */

/* eval_copy.c, eval_index.c, eval_scatter.c; the views of op/shape.c need no kernel */
EVAL(CONTIGUOUS, mc_eval_contiguous)
EVAL(CONCATENATE, mc_eval_concatenate)
EVAL(SLICE_UPDATE, mc_eval_slice_update)
EVAL(SLICE_UPDATE_AT, mc_eval_slice_update_at)
EVAL(TAKE, mc_eval_take)
EVAL(TAKE_ALONG_AXIS, mc_eval_take_along_axis)
EVAL(PUT_ALONG_AXIS, mc_eval_put_along_axis)
EVAL(GATHER, mc_eval_gather)
EVAL(SCATTER, mc_eval_scatter)

#undef EVAL
