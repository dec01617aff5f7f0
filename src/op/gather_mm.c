/* Matrix products over matrices that indices pick: gather_mm, gather_qmm. */
#include <mica/ops.h>

#include "op/build.h"

/* The matrices of x [B..., R, C] that indices name, counted over B: [indices..., R, C]. Without
 * indices x as it is. */
static mica_array pick(mica_scope *s, mica_array x, mica_array indices) {
    if (!mica_valid(x) || !mica_valid(indices)) return x;
    int ndim = mica_array_ndim(x);
    x = ndim == 2 ? mica_expand_dims(s, x, 0) : mica_flatten(s, x, 0, ndim - 3);
    return mica_take(s, x, indices, 0);
}

static bool are_matrices(mica_scope *s, const char *op, mica_array x, mica_array w) {
    mica_array in[2] = {x, w};
    char text_x[MC_LAYOUT_TEXT], text_w[MC_LAYOUT_TEXT];
    if (!mc_operands_ok(s, op, in, 2)) return false;
    if (mica_array_ndim(x) >= 2 && mica_array_ndim(w) >= 2) return true;
    mc_scope_fail(s, MICA_ESHAPE, "%s: %s and %s: matrices have two axes or more", op,
                  mc_layout_text(mc_layout_of(x), text_x), mc_layout_text(mc_layout_of(w), text_w));
    return false;
}

mica_array mica_gather_mm(mica_scope *s, mica_array a, mica_array b, mica_array lhs_indices,
                          mica_array rhs_indices) {
    if (!are_matrices(s, "gather_mm", a, b)) return mc_invalid(s);
    return mica_matmul(s, pick(s, a, lhs_indices), pick(s, b, rhs_indices));
}

mica_array mica_gather_qmm(mica_scope *s, mica_array x, mica_array codes, mica_array scales,
                           mica_array biases, mica_quant quant, bool transpose,
                           mica_array lhs_indices, mica_array rhs_indices) {
    if (!are_matrices(s, "gather_qmm", x, codes)) return mc_invalid(s);
    return mica_quantized_matmul(s, pick(s, x, lhs_indices), pick(s, codes, rhs_indices),
                                 pick(s, scales, rhs_indices), pick(s, biases, rhs_indices), quant,
                                 transpose);
}
