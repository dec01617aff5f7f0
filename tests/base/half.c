/* base/half: every half, and rounding, against arithmetic in double. */
#include "base/half.h"

#include "support/support.h"

#include <math.h>

/* The value of a binary format with that many bits of exponent and mantissa, by its definition. */
static double oracle_value(uint32_t bits, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double mantissa = bits & ((1u << mantissa_bits) - 1);
    double sign = bits >> (exponent_bits + mantissa_bits) ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return mantissa > 0 ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

/* Rounds to nearest even by looking at both neighbours' distance. */
static uint32_t oracle_round(double x, int exponent_bits, int mantissa_bits) {
    uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    uint32_t sign = signbit(x) ? 1u << (exponent_bits + mantissa_bits) : 0;
    double magnitude = fabs(x);
    uint32_t low = 0,
             high = infinity; /* value(low) <= magnitude < value(high), as if no infinity */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (oracle_value(middle, exponent_bits, mantissa_bits) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double below = oracle_value(low, exponent_bits, mantissa_bits);
    /* Where the next is infinity, it stands for the number that would follow. */
    double above = high == infinity ? ldexp(1, 1 << (exponent_bits - 1))
                                    : oracle_value(high, exponent_bits, mantissa_bits);
    if (magnitude - below > above - magnitude) return sign | high;
    if (magnitude - below < above - magnitude) return sign | low;
    return sign | (low & 1 ? high : low);
}

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static void test_every_half_comes_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h <= 0xFFFF; h++) {
        float f = mc_f16_to_f32((uint16_t)h), b = mc_bf16_to_f32((uint16_t)h);
        assert_true(same(f, oracle_value(h, 5, 10)));
        assert_true(same(b, oracle_value(h, 8, 7)));
        uint16_t f_back = mc_f32_to_f16(f), b_back = mc_f32_to_bf16(b);
        if (isnan(f))
            assert_true(isnan(mc_f16_to_f32(f_back)));
        else
            assert_int_equal(f_back, h);
        if (isnan(b))
            assert_true(isnan(mc_bf16_to_f32(b_back)));
        else
            assert_int_equal(b_back, h);
    }
}

static void check_rounding(float x) {
    if (isnan(x)) {
        assert_true(isnan(mc_f16_to_f32(mc_f32_to_f16(x))));
        assert_true(isnan(mc_bf16_to_f32(mc_f32_to_bf16(x))));
        return;
    }
    uint32_t f16 = isinf(x) ? (x < 0 ? 0xFC00u : 0x7C00u) : oracle_round(x, 5, 10);
    uint32_t bf16 = isinf(x) ? (x < 0 ? 0xFF80u : 0x7F80u) : oracle_round(x, 8, 7);
    if (mc_f32_to_f16(x) != f16) fail_msg("f16 of %a: %04x, not %04x", x, mc_f32_to_f16(x), f16);
    if (mc_f32_to_bf16(x) != bf16) {
        fail_msg("bf16 of %a: %04x, not %04x", x, mc_f32_to_bf16(x), bf16);
    }
}

/* Every half, the middle between it and the next, and the floats on both sides of these. */
static void test_rounding_at_every_middle(void **state) {
    (void)state;
    for (uint32_t h = 0; h <= 0xFFFF; h++) {
        uint32_t exact[2] = {mc_f32_bits(mc_f16_to_f32((uint16_t)h)), h << 16};
        uint32_t half_step[2] = {0x1000, 0x8000};
        for (int i = 0; i < 2; i++) {
            for (uint32_t at = 0; at < 2; at++) {
                uint32_t bits = exact[i] + at * half_step[i];
                check_rounding(mc_f32_from_bits(bits));
                check_rounding(mc_f32_from_bits(bits + 1));
                check_rounding(mc_f32_from_bits(bits - 1));
            }
        }
    }
    /* f16's subnormals and the midpoints between them, which are normal in f32. */
    for (int n = 0; n < 4100; n++) {
        float x = ldexpf((float)n, -26);
        check_rounding(x);
        check_rounding(nextafterf(x, 1));
        check_rounding(-nextafterf(x, -1));
    }
}

static void test_rounding_of_random_floats(void **state) {
    (void)state;
    uint32_t bits = 12345;
    for (int i = 0; i < 200000; i++) {
        bits = bits * 1664525u + 1013904223u;
        check_rounding(mc_f32_from_bits(bits));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_comes_back),
        cmocka_unit_test(test_rounding_at_every_middle),
        cmocka_unit_test(test_rounding_of_random_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
