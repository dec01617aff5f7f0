/* Which function of the CPU device runs which op: EVAL(OP, function), in cpu/eval_<subject>.c. An op
 * without a row runs by its decomposition. */
