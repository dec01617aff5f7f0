/* Goldens of ops of one operand: op/unary.c, op/convert.c, op/activation.c. */
#include "op/golden.h"

#define UNARY(name, tolerance)                            \
    static bool run_##name(golden *g) {                   \
        g->out[0] = mica_##name(g->s, golden_in(g, "a")); \
        return true;                                      \
    }
/* a name and its tolerance: the fixtures' 2e-5 for what exp, tan and erfinv are in, else 1e-5 */
/* clang-format off */
#define FOR_UNARY(X)                                                                       \
    X(abs, 0) X(negative, 0) X(exp, 2e-5) X(expm1, 2e-5) X(log, 0) X(log2, 0) X(log10, 0)  \
    X(log1p, 0) X(sqrt, 0) X(rsqrt, 0) X(square, 0) X(sin, 0) X(cos, 0) X(tan, 2e-5)       \
    X(sinh, 2e-5) X(cosh, 2e-5) X(tanh, 2e-5) X(arcsin, 0) X(arccos, 0) X(arctan, 0)       \
    X(arcsinh, 0) X(arccosh, 0) X(arctanh, 0) X(erf, 0) X(erfinv, 2e-5) X(sigmoid, 0)      \
    X(floor, 0) X(ceil, 0) X(sign, 0) X(reciprocal, 0) X(isnan, 0) X(isinf, 0)             \
    X(isfinite, 0) X(logical_not, 0) X(degrees, 0) X(radians, 0) X(gelu, 0)                \
    X(gelu_approx, 0) X(silu, 0) X(relu, 0) X(to_fp8, 0) X(relu2, 0) X(softplus, 2e-5)     \
    X(log_sigmoid, 2e-5) X(mish, 2e-5) X(softsign, 0) X(gelu_fast_approx, 2e-5)
/* clang-format on */
FOR_UNARY(UNARY)

/* With decimals, rounding is to multiples of a power of ten. */
static bool run_round(golden *g) {
    mica_array x = golden_in(g, "a");
    double scale = 1;
    for (int64_t i = golden_int(g, "decimals", 0); i > 0; i--)
        scale *= 10;
    if (scale != 1) x = mica_multiply(g->s, x, mica_f32(g->s, (float)scale));
    x = mica_round(g->s, x);
    g->out[0] = scale == 1 ? x : mica_divide(g->s, x, mica_f32(g->s, (float)scale));
    return true;
}

static bool run_astype(golden *g) {
    g->out[0] = mica_astype(g->s, golden_in(g, "a"), golden_dtype(g, "dtype", MICA_F32));
    return true;
}

static bool run_from_fp8(golden *g) {
    g->out[0] = mica_from_fp8(g->s, golden_in(g, "a"), golden_dtype(g, "dtype", MICA_F32));
    return true;
}

static bool run_elu(golden *g) {
    g->out[0] = mica_elu(g->s, golden_in(g, "a"), (float)golden_float(g, "alpha", 1));
    return true;
}

static bool run_leaky_relu(golden *g) {
    g->out[0] = mica_leaky_relu(g->s, golden_in(g, "a"), (float)golden_float(g, "slope", 0.01));
    return true;
}

#define ROW(name, tolerance) {.op = #name, .run = run_##name, .relative = tolerance},
static const golden_row rows[] = {FOR_UNARY(ROW){.op = "round", .run = run_round},
                                  {.op = "elu", .run = run_elu, .relative = 2e-5},
                                  {.op = "leaky_relu", .run = run_leaky_relu},
                                  {.op = "astype", .run = run_astype},
                                  {.op = "from_fp8", .run = run_from_fp8}};

const golden_group golden_unary = {"unary", rows, sizeof rows / sizeof *rows, NULL};
