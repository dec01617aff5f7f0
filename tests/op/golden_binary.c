/* Goldens of ops of two operands: op/binary.c. */
#include "op/golden.h"

#define BINARY(name, tolerance)                                              \
    static bool run_##name(golden *g) {                                      \
        g->out[0] = mica_##name(g->s, golden_in(g, "a"), golden_in(g, "b")); \
        return true;                                                         \
    }
/* a name and its tolerance */
/* clang-format off */
#define FOR_BINARY(X)                                                                      \
    X(add, 0) X(subtract, 0) X(multiply, 0) X(divide, 0) X(maximum, 0) X(minimum, 0)       \
    X(logaddexp, 0) X(arctan2, 0) X(power, 2e-5) X(remainder, 0) X(floor_divide, 0)        \
    X(equal, 0) X(not_equal, 0) X(less, 0) X(less_equal, 0) X(greater, 0)                  \
    X(greater_equal, 0) X(bitwise_and, 0) X(bitwise_or, 0) X(bitwise_xor, 0)               \
    X(left_shift, 0) X(right_shift, 0) X(logical_and, 0) X(logical_or, 0)
/* clang-format on */
FOR_BINARY(BINARY)

#define ROW(name, tolerance) {.op = #name, .run = run_##name, .relative = tolerance},
static const golden_row rows[] = {FOR_BINARY(ROW)};

const golden_group golden_binary = {"binary", rows, sizeof rows / sizeof *rows, NULL};
