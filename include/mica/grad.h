/* Gradients, and functions of an example for several (mica_vmap).
 *
 * A gradient is recorded like anything else: its nodes stand in the scope, run on any device,
 * become part of programs (mica/program.h), and have gradients themselves. Nothing is evaluated
 * here.
 *
 *     mica_array loss = mica_mean(s, mica_cross_entropy(s, logits, targets), NULL, 0, false);
 *     mica_array grads[2];
 *     mica_status status = mica_grad(s, loss, MICA_NONE, (mica_array[]){w, b}, 2, grads);
 *
 * Floats alone have gradients, of their own dtype and shape. What reaches a result through other
 * dtypes only (indices, comparisons), through mica_stop_gradient or mica_detach, or not at all,
 * gets zeros. Results of programs that were run have no history, as those of mica_detach.
 * docs/gradients.md says what is given where an op has a kink.
 *
 * Functions are C functions that record into the scope that they are given (mica_compile_fn). They
 * may call compiled functions (mica_function_call), which become a part of them. The gradient goes
 * to the arguments; other arrays that a function uses are constants for it. An error that a
 * function returns is returned and not kept in the scope; what it recorded before is left there and
 * never runs. Functions are called before the call that got them returns, and so are their users
 * and arguments read: all of these are borrowed for the call alone, but for those of
 * mica_custom_vjp. A function must not collect the scope that it records into. Functions that
 * record may call others, to 256 at once; more are MICA_EINVAL, as are those of a function that
 * calls itself without end.
 *
 * Threads: as mica/array.h says of the scope. */
#ifndef MICA_GRAD_H
#define MICA_GRAD_H

#include <mica/array.h>

MICA_BEGIN

/** The gradient of an array that was recorded, by arrays that it was recorded from.
 *
 *  y       float. It need not have a value.
 *  dy      of y's shape: grads are those of sum(y * dy). MICA_NONE: 1, and y has one element.
 *  xs      [n] floats of s, or evaluated ones of other scopes. An intermediate result counts as a
 *          variable of its own: its gradient is that of what was computed from it. Borrowed.
 *  grads   [n] receives the gradients, arrays of s; invalid ones after an error.
 *  errors  MICA_EDTYPE y or an x is no float; MICA_ESHAPE y has several elements and dy is none, or
 *          dy has another shape; MICA_EINVAL an operand that a rule needs was moved away,
 *          checkpoints nest more than 32 deep, or an intermediate result within the function of
 *          mica_custom_vjp is an x, or used outside of that function; MICA_EUNSUPPORTED an op on
 *          the way has no gradient (the text says why); what the functions of mica_custom_vjp
 *          return; the scope's first error; MICA_ENOMEM */
MICA_API mica_status mica_grad(mica_scope *s, mica_array y, mica_array dy, const mica_array *xs,
                               size_t n, mica_array *grads);

/** Calls a function, and gives the gradient of its first result, which has one element.
 *
 *  fn, user  borrowed for the call.
 *  args      [n_args] arrays of s, or evaluated ones of other scopes. Borrowed.
 *  wrt       [n_wrt] numbers of the arguments that gradients are wanted for, floats; NULL: of all.
 *  results   [n_results] receives what the function gives; invalid arrays after an error.
 *  grads     [n_wrt, or n_args] receives the gradients; invalid arrays after an error.
 *  errors    those of fn and mica_grad; MICA_EINVAL there is no such argument, or no result */
MICA_API mica_status mica_value_and_grad(mica_scope *s, mica_compile_fn fn, void *user,
                                         const mica_array *args, size_t n_args, const size_t *wrt,
                                         size_t n_wrt, mica_array *results, size_t n_results,
                                         mica_array *grads);

/** Calls a function, and gives grads_i = sum_k (d results_k / d args_i)^T dys_k.
 *
 *  fn, user borrowed for the call.
 *  args     [n_args] arrays of s, or evaluated ones of other scopes. Borrowed.
 *  dys      [n_results] of the results' shapes; MICA_NONE: zeros, and the result may be no float.
 *           Borrowed.
 *  results  [n_results] receives what the function gives; invalid arrays after an error.
 *  grads    [n_args] receives arrays of s; MICA_NONE for an argument that is no float; invalid
 *           arrays after an error.
 *  errors   those of fn and mica_grad */
MICA_API mica_status mica_vjp(mica_scope *s, mica_compile_fn fn, void *user, const mica_array *args,
                              size_t n_args, const mica_array *dys, mica_array *results,
                              size_t n_results, mica_array *grads);

/** Calls a function, and gives dresults_k = sum_i (d results_k / d args_i) dargs_i.
 *
 *  fn, user  borrowed for the call.
 *  args      [n_args] arrays of s, or evaluated ones of other scopes. Borrowed.
 *  dargs     [n_args] of the arguments' shapes; MICA_NONE: zeros, and the argument may be no float.
 *            Borrowed.
 *  results   [n_results] receives what the function gives; invalid arrays after an error.
 *  dresults  [n_results] receives arrays of s; MICA_NONE for a result that is no float; invalid
 *            arrays after an error.
 *  errors    those of fn and mica_grad; MICA_EUNSUPPORTED a custom gradient without a jvp */
MICA_API mica_status mica_jvp(mica_scope *s, mica_compile_fn fn, void *user, const mica_array *args,
                              size_t n_args, const mica_array *dargs, mica_array *results,
                              size_t n_results, mica_array *dresults);

/** Calls a function whose intermediate results are computed again in a backward pass, so that they
 *  need no memory in between. Values and gradients have the same bits as without. Checkpoints nest,
 *  to 32: gradients through more are MICA_EINVAL.
 *
 *  fn, user borrowed for the call: the backward pass copies what fn recorded.
 *  args     [n_args] arrays of s, or evaluated ones of other scopes. Borrowed.
 *  results  [n_results] receives what fn gives; invalid arrays after an error.
 *  errors   those of fn */
MICA_API mica_status mica_checkpoint(mica_scope *s, mica_compile_fn fn, void *user,
                                     const mica_array *args, size_t n_args, mica_array *results,
                                     size_t n_results);

/** Calls a function for one example, and computes it for all of them at once: results_k[i] =
 *  fn(args[i]). Nothing is computed example by example; each op that fn recorded is recorded once
 *  more, with an axis of examples in front. Gradients that fn asks for are those of an example.
 *
 *  fn, user  borrowed for the call. Its arguments have the shapes of an example and no values.
 *  args      [n_args] arrays of s, or evaluated ones of other scopes: examples along axis 0, the
 *            same number in all. Borrowed.
 *  shared    [n_args] true: the argument is the same for all examples, and given to fn as it is.
 *            One at least has examples. NULL: all have. Borrowed.
 *  results   [n_results] receives arrays [examples, ...] of s; invalid arrays after an error.
 *  errors    those of fn; MICA_EUNSUPPORTED an op has no rule for that (the text names it;
 *            docs/gradients.md says which have); MICA_ESHAPE an argument has no axis, or another
 *            number of examples, or there is an axis too many; MICA_EINVAL; MICA_ENOMEM
 *  grad      as of the ops; a checkpoint within fn is none here */
MICA_API mica_status mica_vmap(mica_scope *s, mica_compile_fn fn, void *user,
                               const mica_array *args, size_t n_args, const bool *shared,
                               mica_array *results, size_t n_results);

/** x, a constant for gradients. Unlike mica_detach it evaluates nothing.
 *
 *  x        of any dtype, an array of s or an evaluated one of another scope. Borrowed.
 *  returns  an array of s of x's dtype and shape; the invalid array after an error, which s keeps:
 *           MICA_EINVAL x is invalid, or not evaluated in another scope; MICA_ENOMEM */
MICA_API mica_array mica_stop_gradient(mica_scope *s, mica_array x);

/** A function and its gradient.
 *
 *  vjp  gets args, results and gradients of the results, n_args + 2 n_results arrays, and gives
 *       gradients of the args, n_args arrays. A result that nothing is known of has zeros.
 *  jvp  gets args, results and tangents of the args, 2 n_args + n_results arrays, and gives
 *       tangents of the results, n_results arrays.
 *
 *  Both record into the scope like fn, but when mica_grad, mica_jvp and the others are called, and
 *  each time that they are. What they give are arrays of that scope, or evaluated ones of others,
 *  of the shapes of those that they belong to (else MICA_ESHAPE), or MICA_NONE for zeros. */
typedef struct mica_custom_gradient {
    size_t struct_bytes; /* see mica/api.h */
    mica_compile_fn fn;  /* args to results */
    mica_compile_fn vjp; /* the pass back */
    mica_compile_fn jvp; /* the pass forward; NULL: mica_jvp is MICA_EUNSUPPORTED */
} mica_custom_gradient;

/** Calls rule->fn; gradients by its arguments are what the rule says, not what fn records. So
 *  intermediate results of fn have no gradients of their own, and nothing outside may use them
 *  where a gradient is asked for (mica_grad: MICA_EINVAL); what outside needs is to be a result.
 *
 *  rule     copied.
 *  user     given to all functions of the rule. Borrowed until the scope is closed or collected.
 *  args     [n_args] arrays of s, or evaluated ones of other scopes. Borrowed.
 *  results  [n_results] receives what fn gives; invalid arrays after an error.
 *  errors   those of fn; MICA_EINVAL fn or vjp is NULL */
MICA_API mica_status mica_custom_vjp(mica_scope *s, const mica_custom_gradient *rule, void *user,
                                     const mica_array *args, size_t n_args, mica_array *results,
                                     size_t n_results);

MICA_END

#endif
