/* Random numbers: a known answer of the paper's authors, moments, bounds, errors. Which counter
 * makes which word is tested by the goldens. */
#include "op/floats.h"

#define N 100000

static void known_answer(void **state) {
    (void)state;
    bench b = bench_open();
    uint32_t word;
    mica_array key = mica_random_key(b.s, 0);
    /* threefry2x32, 20 rounds, key 0 0, counter 0 0: 6b200159 99ba4efe (Random123's kat_vectors) */
    assert_int_equal(mica_read(mica_random_bits(b.s, key, SHAPE(1), 4), &word, 4), MICA_OK);
    assert_int_equal(word, 0x6b200159);
    uint8_t bytes[6], wide[8];
    uint16_t halves[3];
    assert_int_equal(mica_read(mica_random_bits(b.s, key, SHAPE(2), 4), wide, 8), MICA_OK);
    assert_int_equal(mica_read(mica_random_bits(b.s, key, SHAPE(6), 1), bytes, 6), MICA_OK);
    assert_int_equal(mica_read(mica_random_bits(b.s, key, SHAPE(3), 2), halves, 6), MICA_OK);
    assert_memory_equal(bytes, wide, 6);
    assert_memory_equal(halves, wide, 6);
    bench_close(&b);
}

/* A stream's keys are what splitting gives, for any seed; a copy goes on alike; what fails takes
 * none. */
static void streams(void **state) {
    (void)state;
    bench b = bench_open();
    for (uint64_t seed = 1; seed != 0; seed <<= 9) {
        mica_random_state stream = mica_random_seed(seed - 1), copy;
        mica_array key = mica_random_key(b.s, seed - 1);
        for (int i = 0; i < 4; i++) {
            mica_array both = mica_random_split(b.s, key, 2), next = mica_random_next(b.s, &stream);
            uint32_t words[4], got[2];
            assert_int_equal(mica_read(both, words, sizeof words), MICA_OK);
            assert_int_equal(mica_read(next, got, sizeof got), MICA_OK);
            assert_memory_equal(got, words + 2, sizeof got);
            key = mica_squeeze(b.s, mica_slice_axis(b.s, both, 0, 0, 1), 0);
        }
        copy = stream;
        uint32_t one[2], other[2];
        assert_int_equal(mica_read(mica_random_next(b.s, &stream), one, 8), MICA_OK);
        assert_false(mica_valid(mica_random_next(NULL, &copy)));
        assert_int_equal(mica_read(mica_random_next(b.s, &copy), other, 8), MICA_OK);
        assert_memory_equal(one, other, sizeof one);
    }
    assert_false(mica_valid(mica_random_next(b.s, NULL)));
    assert_int_equal(mica_scope_status(b.s), MICA_EINVAL);
    bench_close(&b);
}

static void moments(bench *b, mica_array x, double mean, double deviation) {
    float *v = read_f32(x);
    double sum = 0, square = 0;
    for (int i = 0; i < N; i++)
        sum += (double)v[i];
    for (int i = 0; i < N; i++)
        square += ((double)v[i] - sum / N) * ((double)v[i] - sum / N);
    (void)b;
    /* within six standard errors of the mean; 3 % of the spread, more than six for a heavy tail */
    assert_true(fabs(sum / N - mean) < 6 * deviation / sqrt(N));
    assert_true(fabs(sqrt(square / N) - deviation) < 0.03 * deviation);
    free(v);
}

static void distributions(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array key = mica_random_key(b.s, 7);
    const double root3 = 1.7320508075688772;
    moments(&b, mica_random_uniform(b.s, key, SHAPE(N), MICA_F32, -2, 6), 2, 4 / root3);
    moments(&b, mica_random_normal(b.s, key, SHAPE(N), MICA_F32, 3, 0.5), 3, 0.5);
    moments(&b, mica_random_gumbel(b.s, key, SHAPE(N), MICA_F32), 0.57721566, 1.28254983);
    moments(&b, mica_random_laplace(b.s, key, SHAPE(N), MICA_F32), 0, 1.41421356);
    moments(&b, mica_random_truncated_normal(b.s, key, SHAPE(N), -1, 1), 0, 0.53956);
    mica_array coin = mica_random_bernoulli(b.s, key, SHAPE(N), 0.3);
    moments(&b, mica_astype(b.s, coin, MICA_F32), 0.3, sqrt(0.21));
    bench_close(&b);
}

static void bounds(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array key = mica_random_key(b.s, 11);
    for (mica_dtype dtype = MICA_F16; dtype <= MICA_F32; dtype++) {
        mica_array u = mica_random_uniform(b.s, key, SHAPE(N), dtype, 0, 1);
        float *v = read_f32(mica_astype(b.s, u, MICA_F32));
        for (int i = 0; i < N; i++)
            assert_true(v[i] >= 0 && v[i] < 1);
        free(v);
    }
    bool seen[5] = {false};
    static int32_t whole[N];
    mica_array r = mica_random_randint(b.s, key, SHAPE(N), -2, 3);
    assert_int_equal(mica_read(r, whole, sizeof whole), MICA_OK);
    for (int i = 0; i < N; i++) {
        assert_in_range(whole[i] + 2, 0, 4);
        seen[whole[i] + 2] = true;
    }
    for (int i = 0; i < 5; i++)
        assert_true(seen[i]);
    const int64_t edge = ((int64_t)1 << 24) + 1; /* not an f32 */
    r = mica_random_randint(b.s, key, SHAPE(N), edge, edge + 2);
    assert_int_equal(mica_read(r, whole, sizeof whole), MICA_OK);
    for (int i = 0; i < N; i++)
        assert_in_range(whole[i], edge, edge + 1);
    static uint32_t order[N];
    static bool used[N];
    assert_int_equal(mica_read(mica_random_permutation(b.s, key, N), order, sizeof order), MICA_OK);
    for (int i = 0; i < N; i++) {
        assert_true(order[i] < N && !used[order[i]]);
        used[order[i]] = true;
    }
    bench_close(&b);
}

/* Frequencies are softmax(logits); logits of -infinity are never drawn. */
static void categorical(void **state) {
    (void)state;
    bench b = bench_open();
    const float logits[4] = {0, 1, -INFINITY, 2};
    mica_array l = f32s(b.s, logits, SHAPE(1, 4));
    mica_array y = mica_random_categorical(b.s, mica_random_key(b.s, 3), l, N);
    assert_int_equal(mica_array_ndim(y), 2);
    static uint32_t index[N];
    assert_int_equal(mica_read(y, index, sizeof index), MICA_OK);
    double count[4] = {0}, sum = 1 + exp(1) + exp(2);
    for (int i = 0; i < N; i++)
        count[index[i]]++;
    assert_true(count[2] == 0);
    for (int i = 0; i < 4; i++) {
        double p = exp((double)logits[i]) / sum;
        assert_true(fabs(count[i] / N - p) < 6 * sqrt(p * (1 - p) / N) + 1e-12);
    }
    bench_close(&b);
}

static void threads_agree(void **state) {
    (void)state;
    static uint32_t words[2][N];
    for (int i = 0; i < 2; i++) {
        mica_device_options options = {.threads = 1 + 3 * i};
        bench b = bench_open_with(&options);
        mica_array bits = mica_random_bits(b.s, mica_random_key(b.s, 5), SHAPE(N - 1), 4);
        assert_int_equal(mica_read(bits, words[i], (N - 1) * 4), MICA_OK);
        bench_close(&b);
    }
    assert_memory_equal(words[0], words[1], (N - 1) * 4);
}

static void refuses(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array three = mica_zeros(b.s, SHAPE(3), MICA_U32);
    expect_failure(&b, mica_random_bits(b.s, three, SHAPE(4), 4), MICA_ESHAPE, "u32[2]");
    mica_array key = mica_random_key(b.s, 0);
    expect_failure(&b, mica_random_bits(b.s, key, SHAPE(4), 3), MICA_EINVAL, "width");
    key = mica_random_key(b.s, 0);
    expect_failure(&b, mica_random_bits(b.s, key, NULL, 1, 4), MICA_EINVAL, "NULL");
    key = mica_random_key(b.s, 0);
    expect_failure(&b, mica_random_split(b.s, key, -1), MICA_EINVAL, "random_bits: axis 0");
    key = mica_random_key(b.s, 0);
    expect_failure(&b, mica_random_uniform(b.s, key, SHAPE(4), MICA_I32, 0, 1), MICA_EDTYPE, "i32");
    key = mica_random_key(b.s, 0);
    expect_failure(&b, mica_random_randint(b.s, key, SHAPE(4), 3, 3), MICA_EINVAL, "randint");
    key = mica_random_key(b.s, 0);
    expect_failure(&b, mica_random_categorical(b.s, key, mica_f32(b.s, 0), 0), MICA_EINVAL,
                   "categorical");
    key = mica_random_key(b.s, 0);
    assert_int_equal(mica_array_size(mica_random_bits(b.s, key, SHAPE(0), 4)), 0);
    assert_int_equal(mica_eval(b.s, mica_random_split(b.s, key, 0)), MICA_OK);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answer),  cmocka_unit_test(streams),
        cmocka_unit_test(distributions), cmocka_unit_test(bounds),
        cmocka_unit_test(categorical),   cmocka_unit_test(threads_agree),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
