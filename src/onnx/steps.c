/* Integers that stand for multiples of a scale, counted from a zero point: to them, from them, and
 * whether two are of the same scale. */
#include "onnx/import.h"

#include <mica/ops.h>

#include <math.h>

/* Conversions to integers have their bounds. */
mica_array mc_onnx_quantised(mc_onnx_node *n, mica_array x, mica_array scale, mica_array zero,
                             mica_dtype dtype) {
    mica_array q = mica_round(n->s, scale.scope ? mica_divide(n->s, x, scale) : x);
    if (zero.scope) q = mica_add(n->s, q, zero);
    return mica_astype(n->s, q, dtype);
}

mica_array mc_onnx_dequantised(mc_onnx_node *n, mica_array q, mica_array scale, mica_array zero) {
    mica_array y = mc_onnx_as_f32(n, q);
    if (zero.scope) y = mica_subtract(n->s, y, mc_onnx_as_f32(n, zero));
    return mica_multiply(n->s, y, mc_onnx_as_f32(n, scale));
}

/* ---- equal scales ---- */

/* The number that a scale or zero point is, in the scope of constants; NaN: it is none. */
static double number_of(const mc_onnx_import *import, mica_array x) {
    double value;
    if (!x.scope || x.scope != import->constants || mica_array_size(x) != 1) return NAN;
    return mica_item_f64(x, &value) == MICA_OK ? value : (double)NAN;
}

/* Whether rounding multiples of a scale gives the integers that were multiplied: its quotients have
 * no more than the usual error. */
static bool is_usual(double scale) {
    return scale > 1e-30 && scale < 1e30;
}

static bool same_number(const mc_onnx_import *import, mica_array a, mica_array b) {
    double zero = 0, x = a.scope ? number_of(import, a) : zero;
    return x == (b.scope ? number_of(import, b) : zero);
}

bool mc_onnx_has_steps(const mc_onnx_import *import, const mc_onnx_steps *t, mica_array scale,
                       mica_array zero, mica_dtype dtype) {
    return t && t->axis < 0 && t->block == 0 && t->bits == 8 && mica_array_dtype(t->q) == dtype &&
           mica_array_dtype(t->scale) == MICA_F32 && is_usual(number_of(import, t->scale)) &&
           same_number(import, t->scale, scale) && same_number(import, t->zero, zero);
}
