/* Conversions: values out of range, bytes read as another dtype, E4M3, q8 rows. */
#include "base/half.h"
#include "op/floats.h"

static void floats_to_integers_saturate(void **state) {
    (void)state;
    bench b = bench_open();
    const float x[8] = {NAN, INFINITY, -INFINITY, 3e9f, -3e9f, 2.9f, -2.9f, 300.5f};
    mica_array a = f32s(b.s, x, SHAPE(8));
    expect_i32(mica_astype(b.s, a, MICA_I32),
               (int32_t[]){0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 2, -2, 300}, SHAPE(8));
    uint8_t u8[8];
    assert_int_equal(mica_read(mica_astype(b.s, a, MICA_U8), u8, sizeof u8), MICA_OK);
    assert_memory_equal(u8, ((uint8_t[]){0, 255, 0, 255, 0, 2, 0, 255}), 8);
    int64_t i64[8];
    assert_int_equal(mica_read(mica_astype(b.s, a, MICA_I64), i64, sizeof i64), MICA_OK);
    assert_true(i64[1] == INT64_MAX && i64[2] == INT64_MIN && i64[3] == 3000000000);
    uint64_t u64[8];
    assert_int_equal(mica_read(mica_astype(b.s, a, MICA_U64), u64, sizeof u64), MICA_OK);
    assert_true(u64[1] == UINT64_MAX && u64[2] == 0 && u64[7] == 300);
    uint8_t truth[8];
    assert_int_equal(mica_read(mica_astype(b.s, a, MICA_BOOL), truth, 8), MICA_OK);
    assert_memory_equal(truth, ((uint8_t[]){1, 1, 1, 1, 1, 1, 1, 1}), 8);
    bench_close(&b);
}

static void integers_are_cut(void **state) {
    (void)state;
    bench b = bench_open();
    int32_t x[4] = {-1, 256, 300, 128};
    mica_array a = i32s(b.s, x, SHAPE(4));
    int8_t i8[4];
    assert_int_equal(mica_read(mica_astype(b.s, a, MICA_I8), i8, sizeof i8), MICA_OK);
    assert_memory_equal(i8, ((int8_t[]){-1, 0, 44, -128}), 4);
    uint64_t u64[4];
    assert_int_equal(mica_read(mica_astype(b.s, a, MICA_U64), u64, sizeof u64), MICA_OK);
    assert_true(u64[0] == UINT64_MAX && u64[1] == 256);
    uint64_t big = UINT64_MAX;
    mica_array u = mica_from_data(b.s, &big, MICA_U64, NULL, 0);
    expect_f32(mica_astype(b.s, u, MICA_F32), (float[]){0x1p64f}, NULL, 0, 0);
    /* 0 and 1 survive conversion from every dtype to every other and back */
    for (int from = 0; from < MICA_DTYPE_COUNT; from++) {
        for (int to = 0; to < MICA_DTYPE_COUNT; to++) {
            mica_array one =
                mica_astype(b.s, mica_arange(b.s, 0, 2, 1, MICA_I32), (mica_dtype)from);
            mica_array y = mica_astype(b.s, mica_astype(b.s, one, (mica_dtype)to), MICA_I32);
            expect_i32(y, (int32_t[]){0, 1}, SHAPE(2));
        }
    }
    expect_failure(&b, mica_astype(b.s, mica_f32(b.s, 0), (mica_dtype)99), MICA_EDTYPE, "99");
    bench_close(&b);
}

/* f64 is converted by way of f32, moved, and refused by what computes. The f32 are NumPy's. */
static void f64_is_converted_alone(void **state) {
    (void)state;
    bench b = bench_open();
    const double x[6] = {0.1, 1e300, 1 + 0x1p-24, 1 + 0x3p-24, -1e-50, -(double)INFINITY};
    const float want[6] = {0x1.99999ap-4f, INFINITY, 1, 0x1.000004p+0f, -0.0f, -INFINITY};
    mica_array a = mica_from_data(b.s, x, MICA_F64, SHAPE(2, 3));
    expect_f32(mica_astype(b.s, a, MICA_F32), want, SHAPE(2, 3), 0);
    double back[6], one, element;
    mica_array wide = mica_astype(b.s, mica_from_data(b.s, want, MICA_F32, SHAPE(2, 3)), MICA_F64);
    assert_int_equal(mica_read(wide, back, sizeof back), MICA_OK);
    for (int i = 0; i < 6; i++)
        assert_true(back[i] == (double)want[i]);
    mica_array turned = mica_transpose(b.s, mica_slice_axis(b.s, a, 1, 0, 2), NULL), parts[2];
    parts[0] = parts[1] = turned;
    turned = mica_concatenate(b.s, parts, 2, 0); /* [4, 2] */
    double moved[8];
    assert_int_equal(mica_read(mica_contiguous(b.s, turned), moved, sizeof moved), MICA_OK);
    assert_true(moved[0] == x[0] && moved[1] == x[3] && moved[6] == x[1] && moved[7] == x[4]);
    expect_i32(
        mica_astype(b.s, mica_astype(b.s, i32s(b.s, (int32_t[]){7}, SHAPE(1)), MICA_F64), MICA_I32),
        (int32_t[]){7}, SHAPE(1));
    assert_int_equal(mica_read(mica_scalar(b.s, 0.1, MICA_F64), &one, sizeof one), MICA_OK);
    assert_true(one == 0.1);
    assert_int_equal(mica_item_f64(mica_scalar(b.s, 0.1, MICA_F64), &element), MICA_OK);
    assert_true(element == 0.1);
    for (int i = 0; i < 8; i++) {
        a = mica_from_data(b.s, x, MICA_F64, SHAPE(2, 3));
        mica_array refused = i == 0   ? mica_add(b.s, a, a)
                             : i == 1 ? mica_add(b.s, a, mica_f32(b.s, 1))
                             : i == 2 ? mica_mean(b.s, a, NULL, 0, false)
                             : i == 3 ? mica_exp(b.s, a)
                             : i == 4 ? mica_matmul(b.s, a, mica_transpose(b.s, a, NULL))
                             : i == 5 ? mica_sum(b.s, a, NULL, 0, false)
                             : i == 6 ? mica_argmax(b.s, a, 0, false)
                                      : mica_sort(b.s, a, 0);
        expect_failure(&b, refused, MICA_EDTYPE, "f64");
    }
    /* Floats meet f64; what f32 on the way would change does not. */
    a = mica_from_data(b.s, x, MICA_F64, SHAPE(6));
    mica_array met[] = {a, mica_astype(b.s, mica_f32(b.s, 0.5f), MICA_BF16)};
    met[1] = mica_reshape(b.s, met[1], SHAPE(1));
    double seven[7];
    assert_int_equal(mica_read(mica_concatenate(b.s, met, 2, 0), seven, sizeof seven), MICA_OK);
    assert_true(seven[0] == x[0] && seven[6] == 0.5);
    static const mica_dtype others[] = {MICA_C64, MICA_I64, MICA_I32, MICA_BOOL};
    for (int i = 0; i < 8; i++) {
        mica_array other = mica_ones(b.s, SHAPE(6), others[i / 2]);
        met[0] = a = mica_from_data(b.s, x, MICA_F64, SHAPE(6));
        met[1] = other;
        mica_array refused = i % 2 ? mica_where(b.s, mica_isnan(b.s, mica_f32(b.s, 0)), other, a)
                                   : mica_concatenate(b.s, met, 2, 0);
        expect_failure(&b, refused, MICA_EDTYPE, "f64");
    }
    bench_close(&b);
}

/* Files and callers may use any byte but 0 for true. */
static void any_byte_is_true(void **state) {
    (void)state;
    bench b = bench_open();
    const uint8_t bytes[4] = {0, 1, 2, 255};
    mica_array x = mica_from_data(b.s, bytes, MICA_BOOL, SHAPE(4));
    const int32_t want[4] = {0, 1, 1, 1};
    expect_i32(mica_astype(b.s, x, MICA_I32), want, SHAPE(4));
    expect_f32(mica_astype(b.s, x, MICA_F32), (float[]){0, 1, 1, 1}, SHAPE(4), 0);
    expect_i32(mica_sum(b.s, x, NULL, 0, false), (int32_t[]){3}, NULL, 0);
    mica_array same = mica_equal(b.s, x, mica_slice_axis(b.s, x, 0, 1, 2));
    expect_i32(mica_astype(b.s, same, MICA_I32), want, SHAPE(4));
    bench_close(&b);
}

/* All 65,536 halves survive conversion to f32 and back. */
static void halves_round_trip(void **state) {
    (void)state;
    static uint16_t codes[65536], got[65536];
    for (int i = 0; i < 65536; i++)
        codes[i] = (uint16_t)i;
    for (mica_dtype dtype = MICA_F16; dtype <= MICA_BF16; dtype++) {
        bench b = bench_open();
        mica_array x = mica_from_data(b.s, codes, dtype, SHAPE(65536));
        mica_array y = mica_astype(b.s, mica_astype(b.s, x, MICA_F32), dtype);
        assert_int_equal(mica_read(y, got, sizeof got), MICA_OK);
        for (int i = 0; i < 65536; i++) {
            float v = dtype == MICA_F16 ? mc_f16_to_f32(codes[i]) : mc_bf16_to_f32(codes[i]);
            if (v == v) assert_int_equal(got[i], codes[i]);
        }
        bench_close(&b);
    }
}

static void bytes_seen_otherwise(void **state) {
    (void)state;
    bench b = bench_open();
    uint8_t bytes[12];
    for (int i = 0; i < 12; i++)
        bytes[i] = (uint8_t)i;
    mica_array x = mica_from_data(b.s, bytes, MICA_U8, SHAPE(12));
    expect_i32(mica_view(b.s, x, MICA_I32), (int32_t[]){0x03020100, 0x07060504, 0x0b0a0908},
               SHAPE(3));
    /* a slice that is not aligned for i32 */
    expect_i32(mica_view(b.s, mica_slice_axis(b.s, x, 0, 1, 9), MICA_I32),
               (int32_t[]){0x04030201, 0x08070605}, SHAPE(2));
    int32_t words[6] = {1, 2, 3, 4, 5, 6};
    mica_array w = mica_transpose(b.s, i32s(b.s, words, SHAPE(2, 3)), NULL); /* [3, 2] */
    mica_array halves = mica_view(b.s, w, MICA_U16);                         /* [3, 4] */
    assert_int_equal(mica_array_dim(halves, 1), 4);
    uint16_t got[12];
    assert_int_equal(mica_read(halves, got, sizeof got), MICA_OK);
    assert_memory_equal(got, ((uint16_t[]){1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6, 0}), sizeof got);
    expect_same(mica_view(b.s, mica_view(b.s, w, MICA_F32), MICA_I32), w);
    expect_failure(&b, mica_view(b.s, mica_slice_axis(b.s, x, 0, 0, 5), MICA_U16), MICA_ESHAPE,
                   "view");
    expect_failure(&b, mica_view(b.s, mica_f32(b.s, 1), MICA_U8), MICA_ESHAPE, "view");
    bench_close(&b);
}

static void e4m3(void **state) {
    (void)state;
    bench b = bench_open();
    uint8_t codes[256], got[256];
    for (int i = 0; i < 256; i++)
        codes[i] = (uint8_t)i;
    mica_array x = mica_from_data(b.s, codes, MICA_U8, SHAPE(256));
    mica_array back = mica_to_fp8(b.s, mica_from_fp8(b.s, x, MICA_F32));
    assert_int_equal(mica_read(back, got, 256), MICA_OK);
    assert_memory_equal(got, codes, 256);
    /* ties to even, carries, the largest, the smallest */
    const float v[10] = {17, 19, 15.5f, 464, 1e30f, -INFINITY, NAN, 0x1p-10f, 0x1.8p-9f, 0x1.fp-7f};
    const uint8_t want[10] = {0x58, 0x5a, 0x58, 0x7e, 0x7e, 0xfe, 0x7f, 0, 2, 0x08};
    assert_int_equal(mica_read(mica_to_fp8(b.s, f32s(b.s, v, SHAPE(10))), got, 10), MICA_OK);
    for (int i = 0; i < 10; i++)
        if (got[i] != want[i]) fail_msg("%g is %#x, not %#x", (double)v[i], got[i], want[i]);
    expect_failure(&b, mica_to_fp8(b.s, mica_i32(b.s, 1)), MICA_EDTYPE, "to_fp8");
    expect_failure(&b, mica_from_fp8(b.s, mica_i32(b.s, 1), MICA_F32), MICA_EDTYPE, "from_fp8");
    expect_failure(&b, mica_from_fp8(b.s, mica_zeros(b.s, SHAPE(2), MICA_U8), MICA_I32),
                   MICA_EDTYPE, "from_fp8");
    bench_close(&b);
}

/* Conversion to q8 rows and back, compared with the definition: within half a step of each group's
 * largest. */
static void rows_of_8_bits(void **state) {
    (void)state;
    bench b = bench_open();
    float x[2 * 70], got[2 * 70];
    uint8_t rows[2 * 80];
    for (int i = 0; i < 2 * 70; i++)
        x[i] = (float)((i * 37) % 101 - 50) * (i % 70 < 32 ? 0.25f : 1000.0f);
    mica_array wide = mica_transpose(b.s, f32s(b.s, x, SHAPE(2, 70)), NULL); /* any strides */
    mica_array y = mica_to_q8(b.s, mica_transpose(b.s, wide, NULL));
    assert_int_equal(mica_q8_bytes(70), 80);
    assert_int_equal(mica_array_dim(y, 1), 80);
    assert_int_equal(mica_array_dtype(y), MICA_U8);
    assert_int_equal(mica_read(y, rows, sizeof rows), MICA_OK);
    mica_array back = mica_from_q8(b.s, y, 70, MICA_F32);
    assert_int_equal(mica_read(back, got, sizeof got), MICA_OK);
    for (int i = 0; i < 2 * 70; i++) {
        const uint8_t *row = rows + i / 70 * 80;
        uint16_t scale;
        memcpy(&scale, row + 72 + 2 * (i % 70 / 32), sizeof scale);
        double step = (double)mc_bf16_to_f32(scale);
        double value = (double)(int8_t)row[i % 70] * step;
        assert_true((double)got[i] == value);
        assert_true(fabs(value - (double)x[i]) <= step / 2);
        assert_true(step <= (i % 70 < 32 ? 12.5 : 50000.0) / 127 * 1.008);
    }
    mica_array flipped = mica_flip(b.s, mica_flip(b.s, y, 1), 1); /* reversed bytes */
    expect_same(mica_from_q8(b.s, flipped, 70, MICA_F32), back);
    assert_int_equal(mica_array_dtype(mica_from_q8(b.s, y, 70, MICA_BF16)), MICA_BF16);
    assert_int_equal(mica_q8_bytes(0), 0);
    assert_int_equal(mica_array_dim(mica_to_q8(b.s, mica_zeros(b.s, SHAPE(3, 0), MICA_F16)), 1), 0);
    expect_failure(&b, mica_to_q8(b.s, mica_i32(b.s, 1)), MICA_EDTYPE, "to_q8");
    expect_failure(&b, mica_to_q8(b.s, mica_f32(b.s, 1)), MICA_ESHAPE, "to_q8");
    y = mica_to_q8(b.s, mica_zeros(b.s, SHAPE(2, 8), MICA_F32));
    expect_failure(&b, mica_from_q8(b.s, y, 9, MICA_F32), MICA_ESHAPE, "not a row of 9");
    y = mica_to_q8(b.s, mica_zeros(b.s, SHAPE(2, 8), MICA_F32));
    expect_failure(&b, mica_from_q8(b.s, y, 8, MICA_I32), MICA_EDTYPE, "not a float");
    expect_failure(&b, mica_from_q8(b.s, mica_f32(b.s, 1), 1, MICA_F32), MICA_EDTYPE, "u8");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_to_integers_saturate),
        cmocka_unit_test(integers_are_cut),
        cmocka_unit_test(f64_is_converted_alone),
        cmocka_unit_test(any_byte_is_true),
        cmocka_unit_test(halves_round_trip),
        cmocka_unit_test(bytes_seen_otherwise),
        cmocka_unit_test(e4m3),
        cmocka_unit_test(rows_of_8_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
