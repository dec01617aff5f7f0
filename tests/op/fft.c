/* Complex numbers, and transforms of them: against sums in double, threads, views, errors. */
#include <mica/signal.h>

#include <math.h>
#include <stdlib.h>

#include "op/floats.h"

/* n random complex numbers, as pairs in x too. */
static mica_array numbers(mica_scope *s, float *x, int64_t n, uint32_t seed) {
    fill(x, 2 * n, seed);
    return mica_from_data(s, x, MICA_C64, SHAPE(n));
}

static void read_pairs(mica_array y, float *out, int64_t n) {
    if (!mica_valid(y)) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_array_dtype(y), MICA_C64);
    assert_int_equal(mica_array_size(y), n);
    if (mica_read(y, out, (size_t)n * 8) != MICA_OK) fail_msg("%s", mica_last_error());
}

static void transforms_are_the_sums(void **state) {
    (void)state;
    static const int64_t lengths[] = {1,  2,  3,  4,   5,   7,   12,  13,  16,  17,  23,  27,
                                      60, 77, 96, 127, 169, 211, 384, 509, 625, 686, 1009};
    static float x[2 * 1009], y[2 * 1009];
    bench b = bench_open();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int inverse = 0; inverse < 2; inverse++) {
            int64_t n = lengths[i];
            mica_array z = numbers(b.s, x, n, 5);
            read_pairs(inverse ? mica_ifft(b.s, z, 0, 0, MICA_FFT_NONE)
                               : mica_fft(b.s, z, 0, 0, MICA_FFT_NONE),
                       y, n);
            for (int64_t k = 0; k < n; k++) {
                double re = 0, im = 0;
                for (int64_t j = 0; j < n; j++) {
                    double angle = (inverse ? 2 : -2) * acos(-1) * (double)(j * k % n) / (double)n;
                    double c = cos(angle), sine = sin(angle);
                    re += (double)x[2 * j] * c - (double)x[2 * j + 1] * sine;
                    im += (double)x[2 * j] * sine + (double)x[2 * j + 1] * c;
                }
                double bound = 4e-6 * (1 + sqrt((double)n));
                if (fabs((double)y[2 * k] - re) > bound || fabs((double)y[2 * k + 1] - im) > bound)
                    fail_msg("%lld points, %lld: %g %g, not %g %g", (long long)n, (long long)k,
                             (double)y[2 * k], (double)y[2 * k + 1], re, im);
            }
        }
    bench_close(&b);
}

/* 100 rows of 40 numbers, padded to 41: Bluestein's. */
static void threads_change_nothing(void **state) {
    (void)state;
    static float x[2 * 4000], first[2 * 4100], y[2 * 4100];
    for (int threads = 1; threads < 5; threads++) {
        bench b = bench_open_cpu(&(mica_device_options){.threads = threads});
        mica_array z = mica_reshape(b.s, numbers(b.s, x, 4000, 3), SHAPE(40, 100));
        read_pairs(mica_fft(b.s, z, 41, 0, MICA_FFT_ORTHO), y, 4100);
        if (threads == 1) memcpy(first, y, sizeof y);
        assert_memory_equal(first, y, sizeof y);
        bench_close(&b);
    }
}

static void arithmetic(void **state) {
    (void)state;
    enum { N = 50 };
    static float x[2 * N], y[2 * N], sum[2 * N], difference[2 * N], product[2 * N], quotient[2 * N];
    float sizes[N];
    bench b = bench_open();
    mica_array p = numbers(b.s, x, N, 1), q = numbers(b.s, y, N, 2);
    read_pairs(mica_add(b.s, p, q), sum, N);
    read_pairs(mica_subtract(b.s, p, q), difference, N);
    read_pairs(mica_multiply(b.s, p, q), product, N);
    read_pairs(mica_divide(b.s, p, q), quotient, N);
    assert_int_equal(mica_read(mica_abs(b.s, p), sizes, sizeof sizes), MICA_OK);
    for (int i = 0; i < N; i++) {
        double a = (double)x[2 * i], c = (double)x[2 * i + 1], d = (double)y[2 * i],
               e = (double)y[2 * i + 1], square = d * d + e * e;
        const double want[] = {a + d,
                               c + e,
                               a - d,
                               c - e,
                               a * d - c * e,
                               a * e + c * d,
                               (a * d + c * e) / square,
                               (c * d - a * e) / square,
                               hypot(a, c)};
        const float got[] = {
            sum[2 * i],     sum[2 * i + 1],     difference[2 * i], difference[2 * i + 1],
            product[2 * i], product[2 * i + 1], quotient[2 * i],   quotient[2 * i + 1],
            sizes[i]};
        for (int k = 0; k < 9; k++)
            if (!(fabs((double)got[k] - want[k]) <= 1e-5 * (1 + fabs(want[k]))))
                fail_msg("%d, %d: %g, not %g", i, k, (double)got[k], want[k]);
    }
    bench_close(&b);
}

static void views_and_parts(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    bench b = bench_open();
    mica_scope *s = b.s;
    mica_array z = mica_from_data(s, x, MICA_C64, SHAPE(2, 2));
    expect_f32(mica_real(s, z), (float[]){1, 3, 5, 7}, SHAPE(2, 2), 0);
    expect_f32(mica_imag(s, mica_transpose(s, z, NULL)), (float[]){2, 6, 4, 8}, SHAPE(2, 2), 0);
    expect_f32(mica_imag(s, mica_conjugate(s, z)), (float[]){-2, -4, -6, -8}, SHAPE(2, 2), 0);
    expect_f32(mica_real(s, mica_flip(s, z, 1)), (float[]){3, 1, 7, 5}, SHAPE(2, 2), 0);
    expect_f32(mica_real(s, mica_sum(s, z, (const int[]){0}, 1, false)), (float[]){6, 10}, SHAPE(2),
               0);
    expect_f32(mica_astype(s, z, MICA_F32), (float[]){1, 3, 5, 7}, SHAPE(2, 2), 0);
    expect_same(mica_complex(s, mica_real(s, z), mica_imag(s, z)), z);
    expect_same(mica_negative(s, mica_negative(s, z)), z);
    const mica_array both[2] = {z, mica_f32(s, 2)};
    expect_f32(mica_imag(s, mica_multiply(s, both[0], both[1])), (float[]){4, 8, 12, 16},
               SHAPE(2, 2), 0);
    mica_array equal = mica_equal(s, z, mica_complex(s, mica_f32(s, 3), mica_f32(s, 4)));
    expect_f32(mica_astype(s, equal, MICA_F32), (float[]){0, 1, 0, 0}, SHAPE(2, 2), 0);
    bench_close(&b);
}

static void errors(void **state) {
    (void)state;
    bench b = bench_open();
    float x[6];
#define Z numbers(b.s, x, 3, 1)
#define FAIL(status, part, ...) expect_failure(&b, __VA_ARGS__, status, part)
    FAIL(MICA_EDTYPE, "exp", mica_exp(b.s, Z));
    FAIL(MICA_EDTYPE, "maximum", mica_maximum(b.s, Z, Z));
    FAIL(MICA_EDTYPE, "sort", mica_sort(b.s, Z, 0));
    FAIL(MICA_EDTYPE, "max: c64[3]", mica_max(b.s, Z, NULL, 0, false));
    FAIL(MICA_EDTYPE, "cumsum", mica_cumsum(b.s, Z, 0, false, true));
    FAIL(MICA_EDTYPE, "use fft", mica_rfft(b.s, Z, 0, 0, MICA_FFT_BACKWARD));
    FAIL(MICA_EDTYPE, "real numbers", mica_complex(b.s, Z, Z));
    FAIL(MICA_EINVAL, "no axis 1", mica_fft(b.s, Z, 0, 1, MICA_FFT_BACKWARD));
    FAIL(MICA_EINVAL, "-1 points", mica_fft(b.s, Z, -1, 0, MICA_FFT_BACKWARD));
    FAIL(MICA_EINVAL, "0 points",
         mica_fft(b.s, mica_zeros(b.s, SHAPE(2, 0), MICA_C64), 0, 1, MICA_FFT_BACKWARD));
    FAIL(MICA_EINVAL, "2 axes", mica_fft2(b.s, Z, NULL, NULL, MICA_FFT_BACKWARD));
    FAIL(MICA_ESHAPE, "no frame of 4",
         mica_stft(b.s, mica_zeros(b.s, SHAPE(3), MICA_F32), 4, 1, MICA_FFT_BACKWARD));
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_are_the_sums),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(views_and_parts),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
