/* Complex numbers. They are kept as pairs of f32, and computed as such: an op on them is plain ops
 * on their parts, whose gradients are theirs. Only ops that move elements take c64 itself. */
#include "op/complex.h"

#include <mica/signal.h>

#include "graph/graph.h"

mica_array mc_complex_pairs(mica_scope *s, mica_array x) {
    const int64_t column[2] = {-1, 1}, size = mica_valid(x) ? mica_array_size(x) : 0;
    const int64_t empty[2] = {0, 2};
    if (size == 0) return mica_zeros(s, empty, 2, MICA_F32);
    return mica_view(s, mica_reshape(s, x, column, 2), MICA_F32);
}

mica_array mc_complex_of(mica_scope *s, mica_array pairs, const int64_t *shape, int ndim) {
    if (mica_valid(pairs) && mica_array_size(pairs) == 0)
        return mica_zeros(s, shape, ndim, MICA_C64);
    return mica_reshape(s, mica_view(s, pairs, MICA_C64), shape, ndim);
}

/* Part 0, the real one, or 1 of x, as a column. */
static mica_array part(mica_scope *s, mica_array x, int which) {
    return mica_slice_axis(s, mc_complex_pairs(s, x), 1, which, which + 1);
}

/* Columns as numbers of the shape of `like`. */
static mica_array join(mica_scope *s, mica_array re, mica_array im, mica_array like) {
    const mica_array both[2] = {re, im};
    return mc_complex_of(s, mica_concatenate(s, both, 2, 1), mica_array_shape(like),
                         mica_array_ndim(like));
}

typedef struct columns {
    mica_array re, im;
} columns;

static columns columns_of(mica_scope *s, mica_array x) {
    return (columns){part(s, x, 0), part(s, x, 1)};
}

/* a b, or a times the conjugate of b */
static columns product(mica_scope *s, columns a, columns b, bool conjugate) {
    mica_array rr = mica_multiply(s, a.re, b.re), ii = mica_multiply(s, a.im, b.im);
    mica_array ri = mica_multiply(s, a.re, b.im), ir = mica_multiply(s, a.im, b.re);
    if (conjugate) return (columns){mica_add(s, rr, ii), mica_subtract(s, ir, ri)};
    return (columns){mica_subtract(s, rr, ii), mica_add(s, ri, ir)};
}

/* a / b, with b brought near 1 first, so that its square is finite. */
static columns quotient(mica_scope *s, columns a, columns b) {
    mica_array size = mica_stop_gradient(s, mica_maximum(s, mica_abs(s, b.re), mica_abs(s, b.im)));
    columns unit = {mica_divide(s, b.re, size), mica_divide(s, b.im, size)};
    columns y = product(s, a, unit, true);
    mica_array square = mica_add(s, mica_square(s, unit.re), mica_square(s, unit.im));
    square = mica_multiply(s, square, size);
    return (columns){mica_divide(s, y.re, square), mica_divide(s, y.im, square)};
}

mica_array mc_complex_binary(mica_scope *s, mc_op op, mica_array a, mica_array b) {
    const mica_array in[2] = {a, b};
    if (!mc_operands_ok(s, mc_op_get(op)->name, in, 2)) return mc_invalid(s);
    const int64_t *shape = mica_array_shape(a);
    int ndim = mica_array_ndim(a);
    mica_array x = mc_complex_pairs(s, a), y = mc_complex_pairs(s, b);
    if (op == MC_OP_ADD) return mc_complex_of(s, mica_add(s, x, y), shape, ndim);
    if (op == MC_OP_SUBTRACT) return mc_complex_of(s, mica_subtract(s, x, y), shape, ndim);
    if (op == MC_OP_MULTIPLY || op == MC_OP_DIVIDE) {
        columns p = columns_of(s, a), q = columns_of(s, b);
        p = op == MC_OP_MULTIPLY ? product(s, p, q, false) : quotient(s, p, q);
        return join(s, p.re, p.im, a);
    }
    const int last = 1;
    if (op == MC_OP_EQUAL)
        return mica_reshape(s, mica_all(s, mica_equal(s, x, y), &last, 1, false), shape, ndim);
    return mica_reshape(s, mica_any(s, mica_not_equal(s, x, y), &last, 1, false), shape, ndim);
}

bool mc_complex_has_binary(mc_op op) {
    return op == MC_OP_ADD || op == MC_OP_SUBTRACT || op == MC_OP_MULTIPLY || op == MC_OP_DIVIDE ||
           op == MC_OP_EQUAL || op == MC_OP_NOT_EQUAL;
}

/* The magnitude; its gradient at 0 is 0. */
static mica_array magnitude(mica_scope *s, mica_array x) {
    columns p = columns_of(s, x);
    mica_array square = mica_add(s, mica_square(s, p.re), mica_square(s, p.im));
    mica_array zero = mica_equal(s, square, mica_f32(s, 0));
    mica_array root = mica_sqrt(s, mica_where(s, zero, mica_f32(s, 1), square));
    root = mica_where(s, zero, mica_f32(s, 0), root);
    return mica_reshape(s, root, mica_array_shape(x), mica_array_ndim(x));
}

bool mc_complex_has_unary(mc_op op) {
    return op == MC_OP_ABS || op == MC_OP_NEGATIVE || op == MC_OP_SQUARE;
}

mica_array mc_complex_unary(mica_scope *s, mc_op op, mica_array x) {
    if (op == MC_OP_ABS) return magnitude(s, x);
    if (op == MC_OP_SQUARE) return mc_complex_binary(s, MC_OP_MULTIPLY, x, x);
    return mc_complex_of(s, mica_negative(s, mc_complex_pairs(s, x)), mica_array_shape(x),
                         mica_array_ndim(x));
}

mica_array mc_complex_sum(mica_scope *s, mica_array x, const int *axes, int n_axes, bool keepdims) {
    columns p = {mica_real(s, x), mica_imag(s, x)};
    return mica_complex(s, mica_sum(s, p.re, axes, n_axes, keepdims),
                        mica_sum(s, p.im, axes, n_axes, keepdims));
}

mica_array mc_complex_astype(mica_scope *s, mica_array x, mica_dtype dtype) {
    if (dtype == MICA_C64) return mica_complex(s, x, mica_f32(s, 0));
    if (dtype == MICA_BOOL) return mica_not_equal(s, x, mica_scalar(s, 0, MICA_C64));
    return mica_astype(s, mica_real(s, x), dtype);
}

/* ---- builders ---- */

static mica_array part_of(mica_scope *s, const char *name, mica_array x, int which) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    bool complex = mica_array_dtype(x) == MICA_C64;
    const int64_t *shape = mica_array_shape(x);
    int ndim = mica_array_ndim(x);
    if (complex) return mica_reshape(s, part(s, x, which), shape, ndim);
    return which == 0 ? x : mica_zeros(s, shape, ndim, mica_array_dtype(x));
}

mica_array mica_real(mica_scope *s, mica_array x) {
    return part_of(s, "real", x, 0);
}

mica_array mica_imag(mica_scope *s, mica_array x) {
    return part_of(s, "imag", x, 1);
}

mica_array mica_complex(mica_scope *s, mica_array re, mica_array im) {
    const mica_array in[2] = {re, im};
    if (!mc_operands_ok(s, "complex", in, 2)) return mc_invalid(s);
    if (mica_array_dtype(re) == MICA_C64 || mica_array_dtype(im) == MICA_C64)
        return mc_scope_fail(s, MICA_EDTYPE, "complex: both parts must be real numbers");
    const int64_t column[2] = {-1, 1};
    int64_t shape[MICA_MAX_NDIM];
    int ndim;
    mica_status status =
        mc_broadcast_shapes("complex", mc_layout_of(re), mc_layout_of(im), shape, &ndim);
    if (status != MICA_OK) return mc_fail_in(s, status);
    mica_array like = mica_broadcast_to(s, re, shape, ndim);
    if (mica_valid(like) && mica_array_size(like) == 0) return mica_zeros(s, shape, ndim, MICA_C64);
    re = mica_reshape(s, mica_broadcast_to(s, mc_cast(s, re, MICA_F32), shape, ndim), column, 2);
    im = mica_reshape(s, mica_broadcast_to(s, mc_cast(s, im, MICA_F32), shape, ndim), column, 2);
    return mica_valid(re) && mica_valid(im) ? join(s, re, im, like) : mc_invalid(s);
}

mica_array mica_conjugate(mica_scope *s, mica_array x) {
    if (!mc_operands_ok(s, "conjugate", &x, 1)) return mc_invalid(s);
    if (mica_array_dtype(x) != MICA_C64) return x;
    return join(s, part(s, x, 0), mica_negative(s, part(s, x, 1)), x);
}
