/* The steps of elem_steps. Include this file with BINARY, ALIKE, UNARY and COSTLY defined; they are
 * undefined at the end. In an expression a is v, or what stands for it, and b is the other operand.
 *
 * OP is the graph's op, MC_OP_<OP>, and name the step's, MK_STEP_<name>...
 *
 * ALIKE(OP, name, expression): v = a op b, where a and b may change places.
 * BINARY(OP, name, expression): the same, where they may not.
 * UNARY(OP, name, expression): v = f(a).
 * COSTLY(OP, name, function): v = f(a), by a function of one number. */
ALIKE(ADD, add, (a) + (b))
BINARY(SUBTRACT, subtract, (a) - (b))
ALIKE(MULTIPLY, multiply, (a) * (b))
BINARY(DIVIDE, divide, (a) / (b))
BINARY(MAXIMUM, maximum, SELECT(((a) > (b)) | ((a) != (a)), a, b))
BINARY(MINIMUM, minimum, SELECT(((a) < (b)) | ((a) != (a)), a, b))
UNARY(ABS, abs, ABS(a))
UNARY(NEGATIVE, negative, -(a))
UNARY(SQUARE, square, (a) * (a))
UNARY(RECIPROCAL, reciprocal, ONE / (a))
COSTLY(ROUND, round, rintf)
COSTLY(SQRT, sqrt, sqrtf)
COSTLY(RSQRT, rsqrt, one_over_sqrt)
COSTLY(EXP, exp, mk_expf)
COSTLY(LOG, log, mk_logf)
COSTLY(SIGMOID, sigmoid, mk_sigmoid)
COSTLY(TANH, tanh, mk_tanhf)
COSTLY(ERF, erf, mk_erff)
COSTLY(SILU, silu, mk_silu)
COSTLY(GELU, gelu, mk_gelu)
COSTLY(GELU_APPROX, gelu_approx, mk_gelu_approx)
#undef ALIKE
#undef BINARY
#undef UNARY
#undef COSTLY
