/* Which function of the CPU device runs which op: EVAL(OP, function), in cpu/eval_<subject>.c. An op
 * without a row runs by its decomposition. Include this file with EVAL defined; it is undefined at
 * the end. */

#undef EVAL
