/* The passes of an executable, in order: PASS(ENUM, name, what). Include this file with PASS
 * defined; it is undefined at the end. The first three change the graph (exec/pass.c), the others
 * are the planner's (exec/steps/plan.c). */
PASS(FOLD, "fold", "what is computed from constants alone is computed once")
PASS(COMMON, "common", "nodes that compute the same become one")
PASS(DEAD, "dead", "results and operands of control flow that nothing reads go")
PASS(JOINTS, "joints", "matmuls of one operand run together")
PASS(EPILOGUES, "epilogues",
     "what goes row by row runs together, or by element behind a convolution")
PASS(REGIONS, "regions", "what goes element by element runs together, block by block")
#undef PASS
