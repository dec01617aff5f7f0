/* Attention: compared with its decomposition over all options. A query's bits do not depend on the
 * queries and batch rows beside it. */
#include "op/fused.h"

/* What sums may differ by, of the largest, over keys of these: in another order, rounded to it. */
static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16, MICA_U8};
static const double slack[] = {4e-6, 2e-3, 1.6e-2, 1e-2};

typedef struct operands {
    mica_array q, k, v;
} operands;

/* Random values, or q8 rows of them. */
static mica_array entries(mica_scope *s, uint64_t seed, mica_dtype dtype, const int64_t *shape,
                          int ndim) {
    if (dtype != MICA_U8) return noise(s, seed, dtype, shape, ndim);
    return mica_to_q8(s, noise(s, seed, MICA_F32, shape, ndim));
}

/* Hq 6, Hkv 2. layout 1: [B, L, H, D] in memory, as projections give it. */
static operands make(bench *b, mica_dtype dtype, int layout, int64_t lq, int64_t lk) {
    operands o;
    mica_dtype of_q = dtype == MICA_U8 ? MICA_F32 : dtype;
    int64_t dv = dtype == MICA_U8 ? 20 : 12;
    if (layout == 0) {
        o.q = noise(b->s, 1, of_q, SHAPE(2, 6, lq, 20));
        o.k = entries(b->s, 2, dtype, SHAPE(2, 2, lk, 20));
        o.v = entries(b->s, 3, dtype, SHAPE(2, 2, lk, dv));
        return o;
    }
    o.q = mica_swapaxes(b->s, noise(b->s, 1, of_q, SHAPE(2, lq, 6, 20)), 1, 2);
    o.k = mica_swapaxes(b->s, entries(b->s, 2, dtype, SHAPE(2, lk, 2, 20)), 1, 2);
    o.v = mica_swapaxes(b->s, entries(b->s, 3, dtype, SHAPE(2, lk, 2, dv)), 1, 2);
    return o;
}

static void compare(bench *b, const operands *o, const mica_sdpa_options *options, double near) {
    mica_array y = mica_sdpa(b->s, o->q, o->k, o->v, options);
    expect_near(b->s, y, decomposed(b->s, y), near);
    mica_array lse, again = mica_sdpa_lse(b->s, o->q, o->k, o->v, options, &lse);
    mica_array plain = decomposed(b->s, lse), none = mica_f32(b->s, -INFINITY);
    expect_same_sums(b->s, again, y, near);
    expect_same(b->s, mica_equal(b->s, lse, none), mica_equal(b->s, plain, none));
    mica_array least = mica_f32(b->s, -10);
    expect_near(b->s, mica_maximum(b->s, lse, least), mica_maximum(b->s, plain, least), near);
}

static void every_option(void **state) {
    (void)state;
    bench b = bench_open();
    for (int d = 0; d < 4; d++) {
        for (int layout = 0; layout < 2; layout++) {
            operands o = make(&b, dtypes[d], layout, 7, 150);
            const int32_t both[] = {-3, 100};
            mica_array offsets = mica_from_data(b.s, both, MICA_I32, SHAPE(2));
            mica_array added = noise(b.s, 4, MICA_F32, SHAPE(6, 7, 150));
            mica_array seen =
                mica_greater(b.s, noise(b.s, 5, MICA_F32, SHAPE(2, 1, 7, 150)), mica_f32(b.s, 0));
            mica_array sinks = noise(b.s, 6, mica_array_dtype(o.q), SHAPE(6));
            const mica_sdpa_options options[] = {
                {0},
                {.scale = 0.5f},
                {.causal = true},
                {.causal = true, .window = 5},
                {.causal = true, .offset = mica_i32(b.s, 60)},
                {.causal = true, .window = 70, .offset = offsets},
                {.softcap = 0.7f, .causal = true},
                {.mask = added},
                {.mask = seen, .softcap = 2},
                {.mask =
                     mica_slice_axis(b.s, mica_astype(b.s, added, mica_array_dtype(o.q)), 1, 2, 3)},
                {.causal = true, .mask = seen, .sinks = sinks, .window = 40},
                {.sinks = mica_flip(b.s, sinks, 0)},
                {.causal = true, .window = (int64_t)1 << 40}, /* as no window */
                {.causal = true, .window = INT64_MAX},
                {.causal = true, .offset = mica_i32(b.s, -50)}, /* attends to nothing: zeros */
                {.causal = true, .offset = mica_i32(b.s, 1000), .window = 900},
                {.causal = true, .offset = mica_i32(b.s, 1000), .window = 900, .keep = 400},
                {.causal = true, .window = 5, .keep = 4},
                {.causal = true, .window = 100, .keep = 40, .offset = offsets},
                {.causal = true, .mask = seen, .sinks = sinks, .window = 30, .keep = 1},
                {.causal = true, .window = 3, .keep = INT64_MAX, .softcap = 1},
            };
            for (size_t i = 0; i < sizeof options / sizeof *options; i++)
                compare(&b, &o, &options[i], slack[d]);
        }
    }
    bench_close(&b);
}

static void nothing_seen_is_zero(void **state) {
    (void)state;
    bench b = bench_open();
    operands o = make(&b, MICA_F32, 0, 3, 9);
    mica_array seen = mica_zeros(b.s, SHAPE(3, 9), MICA_BOOL);
    mica_array y = mica_sdpa(b.s, o.q, o.k, o.v, &(mica_sdpa_options){.mask = seen});
    float *values = floats_of(b.s, y);
    for (int64_t i = 0; i < mica_array_size(y); i++)
        assert_true(values[i] == 0);
    free(values);
    y = mica_sdpa(b.s, o.q, mica_slice_axis(b.s, o.k, 2, 0, 0), mica_slice_axis(b.s, o.v, 2, 0, 0),
                  NULL);
    expect_shape(y, MICA_F32, SHAPE(2, 6, 3, 12));
    expect_same(b.s, y, mica_zeros(b.s, SHAPE(2, 6, 3, 12), MICA_F32));
    expect_same(b.s, decomposed(b.s, y), y);
    bench_close(&b);
}

/* One query over a cache has the bits that it had within the prompt, whatever else is in the batch,
 * however large the cache is, with hidden keys in front, or with old keys dropped that are outside
 * the window (a multiple of 32 of them). */
static void bits_of_a_query(void **state) {
    (void)state;
    bench b = bench_open();
    for (int d = 0; d < 12; d++) {
        operands o = make(&b, dtypes[d / 3], 0, 101, 101);
        /* with the dtypes of a model: q f32 */
        if (d % 3 > 0) o.q = mica_astype(b.s, o.q, MICA_F32);
        int64_t window = d % 3 < 2 ? 33 : 101;
        mica_sdpa_options options = {.causal = true, .window = window};
        mica_array all = mica_sdpa(b.s, o.q, o.k, o.v, &options);
        for (int64_t i = 0; i < 101; i += 20) {
            mica_array want = mica_slice_axis(b.s, all, 2, i, i + 1);
            mica_array q = mica_slice_axis(b.s, o.q, 2, i, i + 1);
            options.offset = mica_i32(b.s, (int32_t)i);
            expect_same_sums(b.s, mica_sdpa(b.s, q, o.k, o.v, &options), want, slack[d / 3]);

            int64_t first = i < window ? 0 : i - window + 1, kept = first / 32 * 32;
            /* a cache that dropped some keys */
            options.offset = mica_i32(b.s, (int32_t)(i - kept));
            mica_array k = mica_slice_axis(b.s, o.k, 2, kept, i + 1);
            mica_array v = mica_slice_axis(b.s, o.v, 2, kept, i + 1);
            expect_same_sums(b.s, mica_sdpa(b.s, q, k, v, &options), want, slack[d / 3]);

            mica_array key = mica_arange(b.s, 0, 101, 1, MICA_I32); /* the same keys by a mask */
            mica_array seen =
                mica_logical_and(b.s, mica_less_equal(b.s, key, mica_i32(b.s, (int32_t)i)),
                                 mica_greater_equal(b.s, key, mica_i32(b.s, (int32_t)first)));
            mica_array masked = mica_sdpa(b.s, q, o.k, o.v, &(mica_sdpa_options){.mask = seen});
            expect_same_sums(b.s, masked, want, slack[d / 3]);

            options.offset = mica_i32(b.s, (int32_t)i); /* one batch row, one group of heads */
            mica_array one = mica_sdpa(
                b.s, mica_slice_axis(b.s, mica_slice_axis(b.s, q, 0, 1, 2), 1, 3, 6),
                mica_slice_axis(b.s, mica_slice_axis(b.s, o.k, 0, 1, 2), 1, 1, 2),
                mica_slice_axis(b.s, mica_slice_axis(b.s, o.v, 0, 1, 2), 1, 1, 2), &options);
            want = mica_slice_axis(b.s, mica_slice_axis(b.s, want, 0, 1, 2), 1, 3, 6);
            expect_same_sums(b.s, one, want, slack[d / 3]);
        }
    }
    bench_close(&b);
}

/* A query attends to the first `keep` keys and the last `window` up to its own. Compared with a
 * mask of these, within the order in which values are summed. */
static void kept_keys_are_seen(void **state) {
    (void)state;
    enum { LQ = 70, LK = 190 };
    const double near[] = {1e-6, 1e-3, 8e-3, 8e-3};
    const int64_t windows[] = {1, 12, 60, 150}, keeps[] = {1, 4, 33};
    bench b = bench_open();
    for (int i = 0; i < 48; i++) {
        int64_t window = windows[i / 4 % 4], keep = keeps[i / 16];
        operands o = make(&b, dtypes[i % 4], 0, LQ, LK);
        uint8_t seen[LQ][LK];
        for (int q = 0; q < LQ; q++)
            for (int k = 0; k < LK; k++)
                seen[q][k] = k <= LK - LQ + q && (k < keep || k > LK - LQ + q - window);
        mica_array mask = mica_from_data(b.s, seen, MICA_BOOL, SHAPE(LQ, LK));
        mica_array want = mica_sdpa(b.s, o.q, o.k, o.v, &(mica_sdpa_options){.mask = mask});
        const mica_sdpa_options options = {.causal = true, .window = window, .keep = keep};
        expect_near(b.s, mica_sdpa(b.s, o.q, o.k, o.v, &options), want, near[i % 4]);
    }
    bench_close(&b);
}

/* Keys [0, 32) and [from, to) of x: a cache that keeps the first ones. */
static mica_array shortened(mica_scope *s, mica_array x, int64_t from, int64_t to) {
    mica_array parts[] = {mica_slice_axis(s, x, 2, 0, 32), mica_slice_axis(s, x, 2, from, to)};
    return mica_concatenate(s, parts, 2, 2);
}

/* Queries that keep the first keys have the same bits, whichever keys are dropped behind the first
 * 32 and outside the window, and however many queries are computed together. */
static void bits_of_a_query_that_keeps(void **state) {
    (void)state;
    enum { N = 300 };
    bench b = bench_open();
    const int64_t keeps[] = {1, 4, 17}, windows[] = {3, 40};
    const int64_t step = 13 * test_case_step();
    for (int d = 0; d < 24; d += test_case_step()) {
        operands o = make(&b, dtypes[d / 6], d % 2, N, N);
        mica_sdpa_options options = {
            .causal = true, .window = windows[d % 2], .keep = keeps[d / 2 % 3]};
        o.q = mica_astype(b.s, o.q, MICA_F32);
        mica_array all = mica_sdpa(b.s, o.q, o.k, o.v, &options);
        for (int64_t i = 1, n = 1; i < N - n; i += step, n = n % 9 + 1) {
            mica_array want = mica_slice_axis(b.s, all, 2, i, i + n);
            mica_array q = mica_slice_axis(b.s, o.q, 2, i, i + n);
            options.offset = mica_i32(b.s, (int32_t)i);
            expect_same_sums(b.s, mica_sdpa(b.s, q, o.k, o.v, &options), want, slack[d / 6]);
            int64_t from = (i - options.window + 1) / 32 * 32;
            if (from <= 32) continue;
            options.offset = mica_i32(b.s, (int32_t)(i - from + 32));
            mica_array k = shortened(b.s, o.k, from, i + n), v = shortened(b.s, o.v, from, i + n);
            expect_same_sums(b.s, mica_sdpa(b.s, q, k, v, &options), want, slack[d / 6]);
        }
    }
    bench_close(&b);
}

/* Joint attention has the bits of each call alone: with different numbers of keys, none, and more
 * than a kernel takes at once. */
static void bits_of_joint_queries(void **state) {
    (void)state;
    enum { N = 11 };
    for (int d = 0; d < 4; d++) {
        bench b = bench_open();
        mica_array y[N], alone[N];
        for (int i = 0; i < 2 * N; i++) {
            int64_t lk = i % N == 4 ? 0 : 1 + 97 * (i % N), lq = i % N == 6 ? 40 : 1;
            mica_array q = noise(b.s, 1, MICA_F32, SHAPE(1, 6, lq, 20));
            mica_array k = entries(b.s, (uint64_t)(i % N) + 2, dtypes[d], SHAPE(1, 2, lk, 20));
            mica_array v = entries(b.s, (uint64_t)(i % N) + 20, dtypes[d], SHAPE(1, 2, lk, 20));
            mica_array mask = noise(b.s, 3, MICA_F32, SHAPE(lq, lk));
            mica_sdpa_options options = {.causal = i % N != 2, .window = i % N == 3 ? 50 : 0};
            if (i % N == 5) options.mask = mask;
            mica_array got = mica_sdpa(b.s, q, k, v, &options);
            if (i < N)
                y[i] = got;
            else
                assert_int_equal(mica_eval(b.s, alone[i - N] = got), MICA_OK);
        }
        assert_int_equal(mica_eval_n(b.s, y, N), MICA_OK);
        for (int i = 0; i < N; i++)
            expect_same_sums(b.s, y[i], alone[i], slack[d]);
        bench_close(&b);
    }
}

/* The last `queries` of 300 causal queries over 900 keys, by `form`: all keys, 411 of them, or the
 * first 4 too. Computed by a new device: f32 [5, queries, 96], to be freed. Five query heads share
 * one head of keys. */
static float *attend_with(int threads, mica_dtype dtype, int form, int64_t queries) {
    const mica_device_options options = {.threads = threads};
    bench b = bench_open_with(&options);
    mica_array q = noise(b.s, 1, MICA_F32, SHAPE(1, 5, 300, 96));
    mica_array k = entries(b.s, 2, dtype, SHAPE(1, 1, 900, 96));
    mica_array v = entries(b.s, 3, dtype, SHAPE(1, 1, 900, 96));
    q = mica_multiply(b.s, mica_slice_axis(b.s, q, 2, 300 - queries, 300), mica_f32(b.s, 6));
    const mica_sdpa_options forms[] = {{.causal = true},
                                       {.causal = true, .window = 411},
                                       {.causal = true, .window = 411, .keep = 4}};
    float *y = floats_of(b.s, mica_sdpa(b.s, q, k, v, &forms[form]));
    bench_close(&b);
    return y;
}

/* The bits do not depend on the number of threads, nor on how many queries are computed
 * together. */
static void bits_of_threads(void **state) {
    (void)state;
    const int64_t counts[] = {300, 70, 4, 2, 1};
    const int max_threads = test_device_is_other() ? 1 : 9; /* they have threads of their own */
    for (int d = 0; d < 12; d += test_case_step()) {
        float *want = attend_with(1, dtypes[d / 3], d % 3, 300);
        for (int threads = 1; threads <= max_threads; threads += 4)
            for (int c = 0; c < 5; c += test_case_step()) {
                int64_t n = counts[c];
                float *got = attend_with(threads, dtypes[d / 3], d % 3, n);
                for (int64_t head = 0; head < 5; head++)
                    expect_same_floats(got + head * n * 96, want + (head * 300 + 300 - n) * 96,
                                       (size_t)(n * 96), slack[d / 3]);
                free(got);
            }
        free(want);
    }
}

/* N rows of a batch, each over its own keys: `longest` keys in one row, 65 in each other. Computed
 * by a new device: f32 [N, 6, 20], to be freed. *bytes receives the memory of the evaluation. */
static float *attend_rows(int threads, mica_dtype dtype, int64_t longest, uint64_t *bytes) {
    enum { N = 8 };
    const mica_device_options options = {.threads = threads};
    mica_array y[N];
    bench b = bench_open_cpu(&options);
    for (uint64_t i = 0; i < N; i++) {
        int64_t lk = i == 3 ? longest : 65;
        mica_array q = noise(b.s, i + 1, MICA_F32, SHAPE(1, 6, 1, 20));
        mica_array k = entries(b.s, i + 20, dtype, SHAPE(1, 1, lk, 20));
        mica_array v = entries(b.s, i + 40, dtype, SHAPE(1, 1, lk, 20));
        mica_array last = mica_i32(b.s, (int32_t)lk - 1);
        assert_int_equal(mica_eval_n(b.s, (mica_array[]){q, k, v}, 3), MICA_OK);
        y[i] = mica_sdpa(b.s, q, k, v, &(mica_sdpa_options){.causal = true, .offset = last});
    }
    uint64_t before = mica_device_active_bytes(b.device);
    mica_device_reset_peak(b.device);
    float *all = floats_of(b.s, mica_concatenate(b.s, y, N, 0));
    *bytes = mica_device_peak_bytes(b.device) - before;
    bench_close(&b);
    return all;
}

/* One long row among short ones is split over all threads, with the same bits. Split blocks each
 * have memory for their scores: little for a short row. Otherwise each thread has memory for a long
 * row. */
static void a_long_row_is_split(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* the cpu's, which it has run */
    const int64_t lengths[] = {65, 3000, 20000};
    for (int d = 0; d < 4; d++) {
        for (int i = 0; i < 3; i++) {
            uint64_t bytes, scores = 6 * sizeof(float) * (uint64_t)lengths[i];
            float *want = attend_rows(1, dtypes[d], lengths[i], &bytes);
            for (int threads = 2; threads <= 9; threads++) {
                float *got = attend_rows(threads, dtypes[d], lengths[i], &bytes);
                assert_memory_equal(got, want, 8 * 6 * 20 * sizeof *got);
                if (i == 2) assert_true(bytes > scores && bytes < 2 * scores);
                free(got);
            }
            free(want);
        }
    }
}

/* Many query heads over one head of keys and values: as many as a block has rows, fewer, and more.
 * Each has the bits that it has with keys and values repeated for it. */
static void many_heads_of_one_key(void **state) {
    (void)state;
    const int64_t heads[] = {24, 25, 32, 96, 97};
    const mica_sdpa_options options = {.causal = true};
    for (int h = 0; h < 10; h++) {
        int64_t n = heads[h / 2], lq = h % 2 == 0 ? 1 : 3;
        for (int threads = 1; threads <= 4; threads += 3) {
            bench b = bench_open_with(&(mica_device_options){.threads = threads});
            mica_array q = noise(b.s, 1, MICA_F32, SHAPE(1, n, lq, 8));
            mica_array k = noise(b.s, 2, MICA_F32, SHAPE(1, 1, 70, 8));
            mica_array v = noise(b.s, 3, MICA_F32, SHAPE(1, 1, 70, 8));
            float *got = floats_of(b.s, mica_sdpa(b.s, q, k, v, &options));
            k = mica_broadcast_to(b.s, k, SHAPE(1, n, 70, 8));
            v = mica_broadcast_to(b.s, v, SHAPE(1, n, 70, 8));
            float *want = floats_of(b.s, mica_sdpa(b.s, q, k, v, &options));
            expect_same_floats(got, want, (size_t)(n * lq * 8), slack[0]);
            free(got), free(want);
            bench_close(&b);
        }
    }
}

/* With a window, memory depends on the keys that queries attend to. */
static void a_window_needs_little_memory(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* the cpu's, which it has run */
    bench b = bench_open_cpu(NULL);
    mica_array q = noise(b.s, 1, MICA_F32, SHAPE(1, 2, 100, 32));
    mica_array k = noise(b.s, 2, MICA_F32, SHAPE(1, 1, 50000, 32));
    uint64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        const mica_sdpa_options options = {
            .causal = true, .window = i == 0 ? 0 : 128, .keep = i == 2 ? 4 : 0};
        assert_int_equal(mica_eval_n(b.s, (mica_array[]){q, k}, 2), MICA_OK);
        mica_device_clear_cache(b.device);
        uint64_t before = mica_device_active_bytes(b.device);
        mica_device_reset_peak(b.device);
        assert_int_equal(mica_eval(b.s, mica_sdpa(b.s, q, k, k, &options)), MICA_OK);
        bytes[i] = mica_device_peak_bytes(b.device) - before;
    }
    assert_true(bytes[0] > 50000 * sizeof(float));
    assert_true(bytes[1] < bytes[0] / 8 && bytes[2] < bytes[0] / 8);
    bench_close(&b);
}

/* x with its last axis reversed in memory. */
static mica_array backwards(mica_scope *s, mica_array x) {
    mica_array flipped = mica_flip(s, x, -1);
    return mica_flip(s, mica_maximum(s, flipped, flipped), -1);
}

/* q8 rows whose bytes are not contiguous are copied first. */
static void scattered_bytes(void **state) {
    (void)state;
    bench b = bench_open();
    for (int64_t lq = 1; lq <= 40; lq += 13) {
        operands o = make(&b, MICA_U8, 0, lq, 45);
        o.k = backwards(b.s, o.k);
        o.v = backwards(b.s, o.v);
        compare(&b, &o, &(mica_sdpa_options){.causal = true}, 1e-2);
    }
    bench_close(&b);
}

/* Sums over many keys are within the error of rounding to 16 bits. */
static void many_keys(void **state) {
    (void)state;
    /* f16 is widened; bf16 rounds q and weights; q8 rows may round q */
    const double near[] = {4e-6, 4e-6, test_device_keeps_order() ? 1e-2 : 2e-2, 1e-2};
    bench b = bench_open();
    for (int d = 0; d < 4; d++) {
        int64_t dv = dtypes[d] == MICA_U8 ? 130 : 70;
        operands o = {noise(b.s, 1, MICA_F32, SHAPE(1, 4, 33, 130)),
                      entries(b.s, 2, dtypes[d], SHAPE(1, 2, 1500, 130)),
                      entries(b.s, 3, dtypes[d], SHAPE(1, 2, 1500, dv))};
        o.q = mica_multiply(b.s, o.q, mica_f32(b.s, 8)); /* so that weights differ */
        compare(&b, &o, &(mica_sdpa_options){.causal = true}, near[d]);
        compare(&b, &o, &(mica_sdpa_options){.causal = true, .window = 700}, near[d]);
    }
    bench_close(&b);
}

static void wrong_operands(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array q = mica_ones(b.s, SHAPE(1, 3, 2, 4), MICA_F32);
    mica_array k = mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32);
    expect_failure(&b, mica_sdpa(b.s, q, k, k, NULL), MICA_ESHAPE, "not a multiple");
    q = mica_ones(b.s, SHAPE(1, 2, 2, 3), MICA_F32);
    k = mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32);
    expect_failure(&b, mica_sdpa(b.s, q, k, k, NULL), MICA_ESHAPE, "head sizes differ");
    k = mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32);
    expect_failure(&b, mica_sdpa(b.s, k, k, k, &(mica_sdpa_options){.window = 3}), MICA_EINVAL,
                   "window");
    k = mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32);
    expect_failure(&b, mica_sdpa(b.s, k, k, k, &(mica_sdpa_options){.causal = true, .keep = 4}),
                   MICA_EINVAL, "keep 4");
    k = mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32);
    mica_array mask = mica_ones(b.s, SHAPE(4, 5), MICA_F32);
    expect_failure(&b, mica_sdpa(b.s, k, k, k, &(mica_sdpa_options){.mask = mask}), MICA_ESHAPE,
                   "mask f32[4,5]");
    k = mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32);
    mask = mica_ones(b.s, SHAPE(5, 5), MICA_I32);
    expect_failure(&b, mica_sdpa(b.s, k, k, k, &(mica_sdpa_options){.mask = mask}), MICA_EDTYPE,
                   "neither bool nor a float");
    k = mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_I32);
    expect_failure(&b, mica_sdpa(b.s, k, k, k, NULL), MICA_EDTYPE, "must be floats");
    k = mica_to_q8(b.s, mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32));
    q = mica_ones(b.s, SHAPE(1, 2, 2, 5), MICA_F32);
    expect_failure(&b, mica_sdpa(b.s, q, k, k, NULL), MICA_ESHAPE, "head sizes differ");
    k = mica_to_q8(b.s, mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32));
    q = mica_ones(b.s, SHAPE(1, 2, 5, 4), MICA_F32);
    expect_failure(&b, mica_sdpa(b.s, q, k, q, NULL), MICA_EDTYPE, "must be floats");
    q = mica_ones(b.s, SHAPE(1, 16, 1, 1), MICA_BF16);
    k = mica_ones(b.s, SHAPE(1, 1, (int64_t)INT32_MAX + 1, 1), MICA_BF16);
    expect_failure(&b, mica_sdpa(b.s, q, k, k, NULL), MICA_ESHAPE, "more than 2147483647 keys");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option),          cmocka_unit_test(nothing_seen_is_zero),
        cmocka_unit_test(bits_of_a_query),       cmocka_unit_test(bits_of_threads),
        cmocka_unit_test(kept_keys_are_seen),    cmocka_unit_test(bits_of_a_query_that_keeps),
        cmocka_unit_test(bits_of_joint_queries), cmocka_unit_test(a_long_row_is_split),
        cmocka_unit_test(many_heads_of_one_key), cmocka_unit_test(a_window_needs_little_memory),
        cmocka_unit_test(scattered_bytes),       cmocka_unit_test(many_keys),
        cmocka_unit_test(wrong_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
