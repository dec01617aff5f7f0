/* Element-wise ops that run as one loop: the bits of plain C, and of the same ops over pieces that
 * are too short for it; results that are read again; numbers that a chain computes itself. */
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/integer.h"
#include "support/support.h"

enum { MAX_N = 100003 };

static float numbers[2][MAX_N], got[MAX_N], other[MAX_N];

static void fill(void) {
    uint32_t state = 9;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < MAX_N; i++) {
            state = state * 1664525u + 1013904223u;
            numbers[k][i] = i % 97 == 5 ? NAN : (float)(int32_t)state * 0x1p-29f;
        }
}

static mica_scope *open_scope(int threads, mica_device **device) {
    mica_scope *s = NULL;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = threads}, device),
                     MICA_OK);
    assert_int_equal(mica_scope_open(*device, &s), MICA_OK);
    return s;
}

static void close_scope(mica_scope **s, mica_device **device) {
    mica_scope_close(s);
    assert_int_equal(mica_device_active_bytes(*device), 0);
    mica_device_close(device);
}

static mica_array part(mica_scope *s, int which, int64_t begin, int64_t n) {
    return mica_from_data(s, numbers[which] + begin, MICA_F32, &n, 1);
}

static void read_floats(mica_array x, float *out) {
    size_t bytes = (size_t)mica_array_size(x) * sizeof *out;
    if (mica_read(x, out, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
}

static void same_floats(const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("element %lld of %lld: %.9g, not %.9g", (long long)i, (long long)n,
                     (double)a[i], (double)b[i]);
}

/* Every form of operand; `early` is a result, too, and is read by two. */
static void bits_of_plain_c(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 100, 127, 128, 129, 255, 1000, MAX_N};
    for (size_t k = 0; k < 2 * sizeof sizes / sizeof *sizes; k++) {
        int64_t n = sizes[k / 2];
        mica_device *device;
        mica_scope *s = open_scope(1 + (int)(k % 2), &device);
        mica_array x = part(s, 0, 0, n), z = part(s, 1, 0, n), three = mica_f32(s, 3);
        mica_array early = mica_subtract(s, three, mica_abs(s, x));
        mica_array y = mica_multiply(s, mica_add(s, early, early), z);
        y = mica_maximum(s, mica_divide(s, z, y), early);
        y = mica_minimum(s, three, mica_subtract(s, mica_negative(s, y), three));
        y = mica_add(s, mica_square(s, y), mica_multiply(s, x, x));
        const mica_array results[2] = {y, early};
        assert_int_equal(mica_eval_n(s, results, 2), MICA_OK);
        for (int64_t i = 0; i < n; i++) {
            float a = numbers[0][i], b = numbers[1][i], e = 3 - fabsf(a), v = b / ((e + e) * b);
            v = isnan(v) || v > e ? v : e;
            v = -v - 3;
            v = isnan(v) ? v : 3 < v ? 3.0f : v;
            other[i] = v * v + a * a;
        }
        read_floats(y, got);
        same_floats(got, other, n);
        for (int64_t i = 0; i < n; i++)
            other[i] = 3 - fabsf(numbers[0][i]);
        read_floats(early, got);
        same_floats(got, other, n);
        close_scope(&s, &device);
    }
}

static mica_array functions(mica_scope *s, mica_array x, mica_array z) {
    mica_array (*const ops[])(mica_scope *, mica_array) = {
        mica_tanh, mica_exp, mica_reciprocal, mica_sigmoid,     mica_silu,
        mica_log,  mica_abs, mica_sqrt,       mica_gelu_approx, mica_rsqrt};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        x = mica_add(s, ops[i](s, x), z);
    return x;
}

static void bits_of_short_pieces(void **state) {
    (void)state;
    enum { N = 5000, PIECE = 100 };
    for (int threads = 1; threads < 4; threads++) {
        mica_device *device;
        mica_scope *s = open_scope(threads, &device);
        read_floats(functions(s, part(s, 0, 0, N), part(s, 1, 0, N)), got);
        for (int64_t at = 0; at < N; at += PIECE)
            read_floats(functions(s, part(s, 0, at, PIECE), part(s, 1, at, PIECE)), other + at);
        same_floats(got, other, N);
        close_scope(&s, &device);
    }
}

/* A chain of rows: the number that all elements are divided by is computed by the chain. */
static void numbers_of_the_chain(void **state) {
    (void)state;
    enum { N = 2000 };
    mica_device *device;
    mica_scope *s = open_scope(1, &device);
    for (int64_t rows = 1; rows < 6; rows++) {
        const int64_t shape[2] = {rows, N};
        mica_array x = mica_reshape(s, part(s, 1, 0, rows * N), shape, 2);
        x = mica_where(s, mica_isnan(s, x), mica_f32(s, 1), x);
        mica_array y = mica_rms_norm(s, x, MICA_NONE, 1e-5f);
        y = mica_divide(s, y, mica_slice_axis(s, y, 1, 3, 4));
        y = mica_multiply(s, mica_add(s, y, x), mica_f32(s, 0.5f));
        read_floats(y, got);
        mica_array z = mica_rms_norm(s, x, MICA_NONE, 1e-5f);
        assert_int_equal(mica_eval(s, z), MICA_OK);
        z = mica_divide(s, z, mica_slice_axis(s, z, 1, 3, 4));
        assert_int_equal(mica_eval(s, z), MICA_OK);
        z = mica_add(s, z, x);
        assert_int_equal(mica_eval(s, z), MICA_OK);
        read_floats(mica_multiply(s, z, mica_f32(s, 0.5f)), other);
        same_floats(got, other, rows * N);
    }
    close_scope(&s, &device);
}

/* A number that is the first element of the other operand has its address. */
static void first_element_of_the_other(void **state) {
    (void)state;
    enum { N = 2000 };
    mica_array (*const ops[])(mica_scope *, mica_array, mica_array) = {
        mica_subtract, mica_multiply, mica_divide, mica_maximum, mica_add};
    mica_device *device;
    mica_scope *s = open_scope(1, &device);
    mica_array x = part(s, 1, 0, N);
    x = mica_detach(s, mica_where(s, mica_isnan(s, x), mica_f32(s, 1), x));
    mica_array first = mica_slice_axis(s, x, 0, 0, 1);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        for (int swapped = 0; swapped < 2; swapped++) {
            for (int region = 0; region < 2; region++) { /* alone, and followed by another */
                mica_array a = swapped ? x : first, b = swapped ? first : x;
                mica_array y = ops[i](s, a, b);
                read_floats(region ? mica_negative(s, y) : y, got);
                mica_array apart =
                    mica_contiguous(s, mica_broadcast_to(s, first, &(int64_t){N}, 1));
                apart =
                    mica_detach(s, mica_add(s, apart, mica_zeros(s, &(int64_t){N}, 1, MICA_F32)));
                y = mica_detach(s, swapped ? ops[i](s, x, apart) : ops[i](s, apart, x));
                read_floats(region ? mica_negative(s, y) : y, other);
                same_floats(got, other, N);
            }
        }
    }
    close_scope(&s, &device);
}

/* Operands that broadcast along some axes have the bits of their copies with all elements. */
static void rows_that_repeat(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 1, 20}, {1, 1, 1, 1}, {3, 1, 1, 20},
                                        {3, 5, 1, 1},  {3, 5, 7, 1}, {1, 5, 7, 20},
                                        {3, 5, 1, 20}, {1, 1, 7, 1}, {1, 5, 1, 20}};
    const int64_t all[4] = {3, 5, 7, 20};
    for (int threads = 1; threads < 4; threads += 2) {
        mica_device *device;
        mica_scope *s = open_scope(threads, &device);
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            const int64_t *shape = shapes[k];
            int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
            mica_array x = mica_reshape(s, part(s, 0, 0, 3 * 5 * 7 * 20), all, 4);
            mica_array row = mica_reshape(s, part(s, 1, 0, n), shape, 4);
            mica_array copy = mica_detach(s, mica_contiguous(s, mica_broadcast_to(s, row, all, 4)));
            for (int swapped = 0; swapped < 2; swapped++)
                for (int region = 0; region < 2; region++) { /* alone, and followed by others */
                    mica_array y = swapped ? mica_subtract(s, row, x) : mica_divide(s, x, row);
                    mica_array z = swapped ? mica_subtract(s, copy, x) : mica_divide(s, x, copy);
                    if (region) y = mica_sigmoid(s, mica_multiply(s, y, row));
                    if (region) z = mica_sigmoid(s, mica_multiply(s, z, copy));
                    read_floats(y, got);
                    read_floats(z, other);
                    same_floats(got, other, 3 * 5 * 7 * 20);
                }
        }
        close_scope(&s, &device);
    }
}

/* ---- bytes ---- */

enum { ROWS = 37, K = 70, COLUMNS = 150 };

static mica_array rounded(mica_scope *s, mica_array x, float scale, float zero, mica_dtype dtype) {
    x = mica_round(s, mica_divide(s, x, mica_f32(s, scale)));
    return mica_astype(s, zero != 0 ? mica_add(s, x, mica_f32(s, zero)) : x, dtype);
}

static mica_array floats_of(mica_scope *s, mica_array q, float scale, float zero) {
    q = mica_subtract(s, mica_astype(s, q, MICA_F32), mica_f32(s, zero));
    return mica_multiply(s, q, mica_f32(s, scale));
}

static mica_array bytes_at(mica_scope *s, const uint8_t *data, mica_dtype dtype,
                           const int64_t *shape) {
    return mica_from_data(s, data, dtype, shape, 2);
}

/* Every op by itself. */
static mica_array apart(mica_scope *s, mica_array x) {
    (void)s;
    return mica_detach(s, x);
}
static mica_array together(mica_scope *s, mica_array x) {
    (void)s;
    return x;
}

/* What a network of bytes does behind a product: rounded, a table of bytes, a sum with another
 * tensor, rounded again. `early`: the product itself is a result, too. */
static mica_array network(mica_scope *s, mica_array (*cut)(mica_scope *, mica_array), bool early,
                          mica_dtype dtype, mica_array *product) {
    static uint8_t x[ROWS * K], w[COLUMNS * K];
    static int32_t sums[COLUMNS];
    for (int i = 0; i < ROWS * K; i++)
        x[i] = (uint8_t)(i * 37 % 251);
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < COLUMNS * K; i++) {
        w[i] = (uint8_t)(i * 91 % 253);
        sums[i / K] += (int8_t)w[i];
    }
    mica_array a = bytes_at(s, x, MICA_U8, (int64_t[]){ROWS, K});
    mica_array b = bytes_at(s, w, MICA_I8, (int64_t[]){COLUMNS, K});
    const mc_integer_rest rest = {.zero = mica_i32(s, 121),
                                  .sums =
                                      mica_from_data(s, sums, MICA_I32, (int64_t[]){COLUMNS}, 1),
                                  .scale = mica_f32(s, 0x1p-9f)};
    mica_array y = cut(s, mc_integer_matmul(s, a, b, &rest));
    *product = early ? y : MICA_NONE;
    mica_array q = cut(s, rounded(s, y, 0.5f, 10, dtype));
    y = cut(s, mica_sigmoid(s, cut(s, floats_of(s, q, 0.03f, 10))));
    y = cut(s, mica_multiply(s, cut(s, floats_of(s, q, 0.03f, 10)), y));
    y = cut(s, floats_of(s, cut(s, rounded(s, y, 0.01f, 0, dtype)), 0.01f, 0));
    int64_t n = ROWS * COLUMNS;
    mica_array right = mica_reshape(s, part(s, 0, 0, n), (int64_t[]){ROWS, COLUMNS}, 2);
    right = cut(s, floats_of(s, cut(s, rounded(s, right, 0.02f, 128, MICA_U8)), 0.02f, 128));
    return rounded(s, cut(s, mica_add(s, y, right)), 0.03f, 5, dtype);
}

static void bytes_of_ops_apart(void **state) {
    (void)state;
    static uint8_t first[ROWS * COLUMNS], second[ROWS * COLUMNS];
    for (int k = 0; k < 8; k++) {
        mica_device *device;
        mica_array product[2], y;
        mica_scope *s = open_scope(1 + (k & 1), &device);
        const mica_dtype dtype = k & 2 ? MICA_I8 : MICA_U8;
        y = network(s, together, k & 4, dtype, &product[0]);
        if (k & 4) assert_int_equal(mica_eval_n(s, (mica_array[]){y, product[0]}, 2), MICA_OK);
        assert_int_equal(mica_read(y, first, sizeof first), MICA_OK);
        y = network(s, apart, k & 4, dtype, &product[1]);
        assert_int_equal(mica_read(y, second, sizeof second), MICA_OK);
        assert_memory_equal(first, second, sizeof first);
        if (k & 4) {
            read_floats(product[0], got);
            read_floats(product[1], other);
            same_floats(got, other, ROWS * COLUMNS);
        }
        close_scope(&s, &device);
    }
}

/* A chain by rows of few elements each, around a softmax. */
static void bytes_of_rows(void **state) {
    (void)state;
    enum { N = 100 * 60 };
    static uint8_t first[N], second[N];
    for (int threads = 1; threads < 4; threads++) {
        mica_device *device;
        mica_scope *s = open_scope(threads, &device);
        mica_array (*const cuts[])(mica_scope *, mica_array) = {together, apart};
        for (int k = 0; k < 2; k++) {
            mica_array x = mica_reshape(s, part(s, 0, 0, N), (int64_t[]){100, 60}, 2);
            mica_array q = cuts[k](s, rounded(s, x, 0.02f, 128, MICA_U8));
            x = cuts[k](s, mica_softmax(s, cuts[k](s, floats_of(s, q, 0.1f, 128)), -1));
            x = mica_rms_norm(s, x, MICA_NONE, 1e-5f);
            q = rounded(s, cuts[k](s, x), 0.05f, 100, MICA_U8);
            assert_int_equal(mica_read(q, k ? second : first, N), MICA_OK);
        }
        assert_memory_equal(first, second, N);
        close_scope(&s, &device);
    }
}

/* What a chain makes, seen as another type: its bits, not its value. */
static void bits_seen_as_others(void **state) {
    (void)state;
    enum { N = 6000 };
    mica_array (*const cuts[])(mica_scope *, mica_array) = {together, apart};
    for (int kind = 0; kind < 4; kind++) {
        mica_device *device;
        mica_scope *s = open_scope(1, &device);
        for (int k = 0; k < 2; k++) {
            mica_array x = mica_add(s, mica_abs(s, part(s, 0, 0, N)), mica_f32(s, 0.5f));
            if (kind == 0) x = mica_astype(s, mica_multiply(s, x, mica_f32(s, 60)), MICA_U8);
            if (kind == 1) x = rounded(s, x, -0.02f, -3, MICA_I8);
            if (kind == 2)
                x = mica_astype(s,
                                mica_add(s, floats_of(s, rounded(s, x, 0.02f, 0, MICA_U8), 1, 0),
                                         mica_f32(s, 1)),
                                MICA_U8);
            x = mica_view(s, cuts[k](s, x), kind == 1 ? MICA_U8 : kind == 3 ? MICA_I32 : MICA_I8);
            x = mica_negative(s, mica_astype(s, cuts[k](s, x), MICA_F32));
            read_floats(x, k ? other : got);
        }
        same_floats(got, other, N);
        close_scope(&s, &device);
    }
}

/* A convolution of bytes whose padding is far larger than its image copies no padding for each
 * line: its memory is that of its operands and result. */
static void padding_is_not_copied_line_by_line(void **state) {
    (void)state;
    enum { H = 4096, PAD = 1 << 14, PLACES = 2 * PAD - 1 };
    static uint8_t x[H];
    static int32_t sums[PLACES];
    for (int i = 0; i < H; i++)
        x[i] = (uint8_t)(i + 1);
    const int8_t w[3] = {3, 5, 7};
    const mica_conv_options options = {
        .stride = {H, 1}, .padding_lo = {0, PAD}, .padding_hi = {0, PAD}};
    const mc_integer_rest rest = {.scale = MICA_NONE};
    mica_device *device;
    mica_scope *s = open_scope(1, &device);
    mica_array image = mica_from_data(s, x, MICA_U8, (int64_t[]){1, H, 1, 1}, 4);
    mica_array y = mica_from_data(s, w, MICA_I8, (int64_t[]){1, 1, 3, 1}, 4);
    y = mc_integer_conv(s, image, y, &options, &rest);
    assert_int_equal(mica_array_size(y), PLACES);
    assert_int_equal(mica_read(y, sums, sizeof sums), MICA_OK);
    for (int i = 0; i < PLACES; i++)
        assert_int_equal(sums[i], i < PAD - 2 || i > PAD ? 0 : w[PAD - i]);
    assert_true(mica_device_peak_bytes(device) < 8 * sizeof sums);
    close_scope(&s, &device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_plain_c),
        cmocka_unit_test(bits_of_short_pieces),
        cmocka_unit_test(numbers_of_the_chain),
        cmocka_unit_test(first_element_of_the_other),
        cmocka_unit_test(rows_that_repeat),
        cmocka_unit_test(bytes_of_ops_apart),
        cmocka_unit_test(bytes_of_rows),
        cmocka_unit_test(bits_seen_as_others),
        cmocka_unit_test(padding_is_not_copied_line_by_line),
    };
    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
