/* The steps of elem_steps. Include this file with BINARY, ALIKE, UNARY and COSTLY defined; they are
 * undefined at the end. In an expression a is v, or what stands for it, and b is the other operand.
 *
 * ALIKE(name, expression): v = a op b, where a and b may change places.
 * BINARY(name, expression): the same, where they may not.
 * UNARY(name, expression): v = f(a).
 * COSTLY(name, function): v = f(a), by a function of one number. */
ALIKE(add, (a) + (b))
BINARY(subtract, (a) - (b))
ALIKE(multiply, (a) * (b))
BINARY(divide, (a) / (b))
BINARY(maximum, SELECT(((a) > (b)) | ((a) != (a)), a, b))
BINARY(minimum, SELECT(((a) < (b)) | ((a) != (a)), a, b))
UNARY(abs, ABS(a))
UNARY(negative, -(a))
UNARY(square, (a) * (a))
UNARY(reciprocal, ONE / (a))
COSTLY(sqrt, sqrtf)
COSTLY(rsqrt, one_over_sqrt)
COSTLY(exp, mk_expf)
COSTLY(log, mk_logf)
COSTLY(sigmoid, sigmoid)
COSTLY(tanh, mk_tanhf)
COSTLY(silu, mk_silu)
COSTLY(gelu_approx, mk_gelu_approx)
#undef ALIKE
#undef BINARY
#undef UNARY
#undef COSTLY
