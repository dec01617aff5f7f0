/* Activation functions that are compositions. Like the fused ones of op/unary.c they compute in f32
 * and round once. */
#include <mica/nn.h>

#include "op/build.h"
#include "op/dtype.h"

/* What an activation computes: x f32, and its number, if it has one. */
typedef mica_array (*activation)(mica_scope *s, mica_array x, float number);

static mica_array apply(mica_scope *s, const char *name, mica_array x, activation f, float number) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    mica_dtype dtype = mc_inexact(mica_array_dtype(x));
    return mc_cast(s, f(s, mc_cast(s, x, MICA_F32), number), dtype);
}

#define ACTIVATION(name)                                  \
    mica_array mica_##name(mica_scope *s, mica_array x) { \
        return apply(s, #name, x, name##_f32, 0);         \
    }
#define ACTIVATION_OF(name, member)                                     \
    mica_array mica_##name(mica_scope *s, mica_array x, float member) { \
        return apply(s, #name, x, name##_f32, member);                  \
    }

static mica_array elu_f32(mica_scope *s, mica_array x, float alpha) {
    mica_array zero = mica_f32(s, 0);
    mica_array low = mica_expm1(s, mica_minimum(s, x, zero)); /* finite where x is large */
    low = mica_multiply(s, low, mica_f32(s, alpha));
    return mica_where(s, mica_greater(s, x, zero), x, low);
}
ACTIVATION_OF(elu, alpha)

static mica_array leaky_relu_f32(mica_scope *s, mica_array x, float slope) {
    mica_array low = mica_multiply(s, x, mica_f32(s, slope));
    return mica_where(s, mica_greater(s, x, mica_f32(s, 0)), x, low);
}
ACTIVATION_OF(leaky_relu, slope)

static mica_array relu2_f32(mica_scope *s, mica_array x, float unused) {
    (void)unused;
    return mica_square(s, mica_relu(s, x));
}
ACTIVATION(relu2)

static mica_array softplus_f32(mica_scope *s, mica_array x, float unused) {
    (void)unused;
    return mica_logaddexp(s, x, mica_f32(s, 0));
}
ACTIVATION(softplus)

static mica_array log_sigmoid_f32(mica_scope *s, mica_array x, float unused) {
    return mica_negative(s, softplus_f32(s, mica_negative(s, x), unused));
}
ACTIVATION(log_sigmoid)

static mica_array mish_f32(mica_scope *s, mica_array x, float unused) {
    return mica_multiply(s, x, mica_tanh(s, softplus_f32(s, x, unused)));
}
ACTIVATION(mish)

static mica_array softsign_f32(mica_scope *s, mica_array x, float unused) {
    (void)unused;
    return mica_divide(s, x, mica_add(s, mica_abs(s, x), mica_f32(s, 1)));
}
ACTIVATION(softsign)

static mica_array gelu_fast_approx_f32(mica_scope *s, mica_array x, float unused) {
    (void)unused;
    return mica_multiply(s, x, mica_sigmoid(s, mica_multiply(s, x, mica_f32(s, 1.702f))));
}
ACTIVATION(gelu_fast_approx)
