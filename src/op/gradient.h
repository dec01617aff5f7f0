/* What the gradient rules of several ops share (graph/gradient.h). */
#ifndef OP_GRADIENT_H
#define OP_GRADIENT_H

#include "graph/gradient.h"

/* x in f32 where it is f16 or bf16: rules of several steps compute in f32 and are rounded once. */
mica_array mc_wide(mica_scope *s, mica_array x);

/* Zeros of x's dtype and shape. */
mica_array mc_zeros_like(mica_scope *s, mica_array x);

/* x where it is an array, else zeros like `like`. */
mica_array mc_or_zeros(mica_scope *s, mica_array x, mica_array like);

/* a + b, where MICA_NONE is zero. */
mica_array mc_sum_of(mica_scope *s, mica_array a, mica_array b);

/* x summed over the axes along which an array of the shape of `like` was repeated to x's. */
mica_array mc_sum_to(mica_scope *s, mica_array x, mica_array like);

/* Zeros of x's shape with the slices of dy added where take reads them, in the indices' order: the
 * gradient of x [A, N, B] along axis N, where dy is [A, I..., B]. */
mica_array mc_add_taken(mica_scope *s, mica_array x, mica_array indices, mica_array dy, int axis);

/* Zeros f32 of x's shape with values added at indices along an axis, in the indices' order: what
 * take_along_axis reads, backwards. */
mica_array mc_add_along_axis(mica_scope *s, mica_array x, mica_array indices, mica_array values,
                             int axis);

/* dy where the update that was given a number is the one that stayed, else zeros. Of updates of
 * one element the last one stays; `stayed` are the numbers that are there afterwards, where the
 * updates went. All have the updates' shape. */
mica_array mc_where_stayed(mica_scope *s, mica_array stayed, mica_array number, mica_array dy);

/* The jvp of an op that is linear in its float operands together: the op itself of their
 * tangents. */
bool mc_linear_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy);

/* The rule of an op that is its operand. */
bool mc_same_rule(const mc_gradient_node *n, const mica_array *from, mica_array *to);

/* ---- ops of one float operand whose Jacobian is diagonal: vjp and jvp are the same rule ---- */

/* The derivative at x, where the result is y; both wide. */
typedef mica_array (*mc_slope)(mica_scope *s, mica_array x, mica_array y);
bool mc_slope_rule(const mc_gradient_node *n, mc_slope slope, const mica_array *from,
                   mica_array *to);

/* MC_SLOPE(name, value): the gradient of an op whose derivative is value, an expression of s, x
 * and y. */
#define MC_SLOPE(name, value)                                                                    \
    static mica_array name##_slope(mica_scope *s, mica_array x, mica_array y) {                  \
        (void)s, (void)x, (void)y;                                                               \
        return value;                                                                            \
    }                                                                                            \
    static bool name##_rule(const mc_gradient_node *n, const mica_array *from, mica_array *to) { \
        return mc_slope_rule(n, name##_slope, from, to);                                         \
    }                                                                                            \
    MC_GRADIENT(name, name##_rule, name##_rule)

#endif
