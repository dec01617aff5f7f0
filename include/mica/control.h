/* Control flow: branches and loops whose course depends on values.
 *
 * A branch, or what a loop repeats, is a C function that records (mica_compile_fn). It is called
 * once, while the branch or loop is recorded, with arguments that have no values. What it records
 * becomes a graph within one node, so that it runs as often as values say, on the scope's device:
 *
 *     static mica_status halve(void *user, mica_scope *s, const mica_array *x, size_t n_x,
 *                              mica_array *y, size_t n_y) {
 *         y[0] = mica_multiply(s, x[0], mica_f32(s, 0.5f));
 *         return MICA_OK;
 *     }
 *     ...
 *     status = mica_while(s, is_large, halve, NULL, &x, 1, NULL, &y, &rounds);
 *
 * Functions record into the scope that they are given, which is not the caller's. They may use
 * arrays of the scopes around it as well, without values too: these become operands of the node,
 * and have gradients. Functions nest, and may call compiled ones (mica_function_call), which become
 * a part of them. They must not evaluate, move or collect anything in the scope that they are
 * given. fn and user are borrowed for the call.
 *
 * An error is returned, and not kept in the scope, which is as it was.
 *
 * Nodes of control flow are a part of programs, their files and their texts as others are. A scope
 * may be cancelled while it runs one (mica_scope_set_cancel).
 *
 * Threads: as mica/array.h says of the scope. */
#ifndef MICA_CONTROL_H
#define MICA_CONTROL_H

#include <mica/array.h>

MICA_BEGIN

/** Runs one of two functions: then_fn where pred is true, else else_fn. What the other would do
 *  does not happen.
 *
 *  pred     bool of one element. Borrowed.
 *  user     given to both functions.
 *  args     [n_args] arrays that both get, of s or evaluated ones of others. Borrowed.
 *  results  [n_results], n_results >= 1, receives arrays of s; invalid ones after an error.
 *  errors   those of the functions; MICA_EDTYPE, MICA_ESHAPE pred is not bool of one element, or
 *           the functions' results differ in dtype or shape (the text says which); MICA_EINVAL
 *           n_results is 0, or functions nest more than 16 deep; the scope's first error;
 *           MICA_ENOMEM
 *  grad     of the branch that was taken; zeros for what it does not read.
 *  source   StableHLO `if`, `jax.lax.cond` */
MICA_API mica_status mica_if(mica_scope *s, mica_array pred, mica_compile_fn then_fn,
                             mica_compile_fn else_fn, void *user, const mica_array *args,
                             size_t n_args, mica_array *results, size_t n_results);

/** Runs both functions and takes each element of the results from one: mica_where over all results.
 *
 *  pred  bool of a shape that broadcasts to that of each result. The rest, errors and gradients are
 *        those of mica_if and mica_where. */
MICA_API mica_status mica_if_each(mica_scope *s, mica_array pred, mica_compile_fn then_fn,
                                  mica_compile_fn else_fn, void *user, const mica_array *args,
                                  size_t n_args, mica_array *results, size_t n_results);

/** Options of mica_while; zero means the default. */
typedef struct mica_while_options {
    size_t struct_bytes; /* see mica/api.h */
    int64_t max_rounds;  /* ends after so many rounds, whatever cond says; 0: no bound */
} mica_while_options;

/** Runs body on carried values while cond says so.
 *
 *      for (rounds = 0; (max_rounds == 0 || rounds < max_rounds) && cond(values); rounds++)
 *          values = body(values)
 *
 *  Two sets of buffers take turns; what body reads of the values last is written over.
 *
 *  cond     gets the n values, gives one result, bool of one element.
 *  body     gets the n values, gives n of the same dtypes and shapes.
 *  user     given to both.
 *  init     [n], n >= 1, arrays of s or evaluated ones of others. Borrowed.
 *  options  NULL for the defaults. Borrowed.
 *  results  [n] receives the values at the end, arrays of s; those of init where cond is false at
 *           once; invalid ones after an error.
 *  rounds   receives how many there were, i32 of shape []; NULL: not wanted. max_rounds of them:
 *           cond may still be true.
 *  errors   those of the functions; MICA_EDTYPE, MICA_ESHAPE what they give has another dtype or
 *           shape (the text says which); MICA_EINVAL n is 0, max_rounds is negative or above 2^31
 *           - 1, or functions nest more than 16 deep; the scope's first error; MICA_ENOMEM. At
 *           evaluation MICA_ECANCELLED; MICA_EINVAL more than 2^31 - 1 rounds
 *  grad     with max_rounds: of the rounds that were run. Without: mica_jvp alone, the others are
 *           MICA_EUNSUPPORTED.
 *  source   StableHLO `while`, `jax.lax.while_loop` */
MICA_API mica_status mica_while(mica_scope *s, mica_compile_fn cond, mica_compile_fn body,
                                void *user, const mica_array *init, size_t n,
                                const mica_while_options *options, mica_array *results,
                                mica_array *rounds);

/** Options of mica_scan; zero means the default. */
typedef struct mica_scan_options {
    size_t struct_bytes; /* see mica/api.h */
    int64_t length;      /* how many steps, where there are no xs; else 0, or that of xs */
    bool reverse;        /* from the last row to the first */
    int64_t checkpoints; /* of how many steps the gradient keeps the carried values, the steps
                            between being computed again; 0: about the square root of length */
} mica_scan_options;

/** Runs body on the rows of arrays, one after the other.
 *
 *      for (t = 0; t < length; t++)
 *          carried, ys_0[t], ys_1[t], ... = body(carried, xs_0[t], xs_1[t], ...)
 *
 *  body     gets the carried values and a row of each x, gives carried values of the same dtypes
 *           and shapes, then a row of each y.
 *  init     [n_carried] arrays of s or evaluated ones of others; n_carried may be 0. Borrowed.
 *  xs       [n_xs] of shape [length, ...]; n_xs may be 0. Borrowed.
 *  options  NULL for the defaults. Borrowed.
 *  carried  [n_carried] receives the values at the end, arrays of s; invalid ones after an error.
 *  ys       [n_ys] receives arrays [length, ...]; invalid ones after an error.
 *  errors   those of body; MICA_EDTYPE, MICA_ESHAPE what it gives has another dtype or shape than
 *           what is carried, or lengths of xs differ (the text says which); MICA_EINVAL there are
 *           neither carried values nor ys, neither those nor xs, a length or number of checkpoints
 *           is negative, or functions nest more than 16 deep; the scope's first error; MICA_ENOMEM.
 *           At evaluation MICA_ECANCELLED
 *  grad     init, xs, and what body takes from around it.
 *  source   `jax.lax.scan` */
MICA_API mica_status mica_scan(mica_scope *s, mica_compile_fn body, void *user,
                               const mica_array *init, size_t n_carried, const mica_array *xs,
                               size_t n_xs, const mica_scan_options *options, mica_array *carried,
                               mica_array *ys, size_t n_ys);

MICA_END

#endif
