/* Keys and values in blocks: kv_write against a plain loop, paged_sdpa against sdpa over the same
 * keys in a row, to the bit where blocks hold multiples of 32 keys. */
#include "op/fused.h"

/* What sums may differ by on devices with an order of their own, of the largest. */
static const mica_dtype dtypes[] = {MICA_F32, MICA_F16, MICA_BF16, MICA_U8};
static const double slack[] = {4e-6, 2e-3, 1.6e-2, 1e-2};

static uint64_t below(uint64_t *seed, uint64_t n) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % n;
}

/* 0 .. n - 1 in a random order. */
static void shuffle(uint64_t *seed, int32_t *list, int n) {
    for (int i = 0; i < n; i++) {
        int j = (int)below(seed, (uint64_t)i + 1);
        list[i] = list[j];
        list[j] = i;
    }
}

/* ---- kv_write ---- */

enum { N = 4, H = 3, P = 5, W = 6, B = 2, L = 4 };

/* A pool of counted elements, and rows of others, written by a loop. */
static void write_by_hand(int32_t *pool, const int32_t *x, const int32_t *slots) {
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int l = 0; l < L; l++)
                for (int w = 0; w < W; w++) {
                    int slot = slots[b * L + l] < 0 ? slots[b * L + l] + N * P : slots[b * L + l];
                    pool[((h * N + slot / P) * P + slot % P) * W + w] =
                        x[((b * H + h) * L + l) * W + w];
                }
}

static void rows_are_written(void **state) {
    (void)state;
    bench b = bench_open();
    uint64_t seed = 7;
    for (int round = 0; round < 40; round++) {
        int32_t order[N * P], slots[B * L], pool[N * H * P * W], x[B * H * L * W];
        shuffle(&seed, order, N * P);
        for (int i = 0; i < B * L; i++)
            slots[i] = order[i] - (below(&seed, 2) ? N * P : 0);
        for (int i = 0; i < N * H * P * W; i++)
            pool[i] = i;
        for (int i = 0; i < B * H * L * W; i++)
            x[i] = 1000 + i;
        mica_array into = i32s(b.s, pool, SHAPE(H, N, P, W));
        mica_array rows = i32s(b.s, x, SHAPE(B, H, L, W));
        if (round % 3 == 1) { /* as projections give them */
            rows = mica_swapaxes(b.s, rows, 1, 2);
            rows = mica_swapaxes(b.s, mica_contiguous(b.s, rows), 1, 2);
        } else if (round % 3 == 2) { /* elements far apart */
            rows = mica_swapaxes(b.s, rows, 1, 3);
            rows = mica_swapaxes(b.s, mica_contiguous(b.s, rows), 1, 3);
        }
        mica_array y = mica_kv_write(b.s, into, rows, i32s(b.s, slots, SHAPE(B, L)));
        write_by_hand(pool, x, slots);
        expect_i32(decomposed(b.s, y), pool, SHAPE(H, N, P, W));
        expect_i32(y, pool, SHAPE(H, N, P, W));
    }
    bench_close(&b);
}

/* A moved pool stays where it is, over many steps. */
static void a_pool_is_written_in_place(void **state) {
    (void)state;
    enum { BLOCKS = 64, EACH = 32, STEPS = 12 };
    bench b = bench_open_cpu(NULL);
    mica_array pool = noise(b.s, 1, MICA_F32, SHAPE(4, BLOCKS, EACH, 16));
    assert_int_equal(mica_eval(b.s, pool), MICA_OK);
    uint64_t before = mica_device_active_bytes(b.device);
    mica_device_reset_peak(b.device);
    for (int i = 0; i < STEPS; i++) {
        mica_scope *s = NULL;
        assert_int_equal(mica_scope_open(b.device, &s), MICA_OK);
        mica_array row = mica_full(s, SHAPE(1, 4, 1, 16), mica_f32(s, (float)i));
        mica_array slot = mica_reshape(s, mica_i32(s, 37 * i), SHAPE(1, 1));
        pool = mica_materialize(b.s, mica_kv_write(s, mica_move(s, pool), row, slot));
        mica_scope_close(&s);
        if (!mica_valid(pool)) fail_msg("%s", mica_last_error());
    }
    assert_true(mica_device_peak_bytes(b.device) - before < BLOCKS * 4 * EACH * 16 * 2);
    float *values = floats_of(b.s, pool);
    for (int i = 0; i < STEPS; i++)
        assert_true(values[(3 * BLOCKS * EACH + 37 * i) * 16] == (float)i);
    free(values);
    bench_close(&b);
}

typedef struct write {
    int64_t pool[4], x[4], slots[2];
    int pool_axes, slot_axes;
    mica_dtype of_slots;
} write;

static void wrong_writes_are_refused(void **state) {
    (void)state;
    static const int32_t bad[][2] = {{0, 8}, {-9, 0}, {INT32_MAX, 1}, {1, INT32_MIN}};
    static const write wrong[] = {
        {{3, 2, 4}, {1, 3, 2, 5}, {1, 2}, 3, 2, MICA_I32},
        {{2, 2, 4, 5}, {1, 3, 2, 5}, {1, 2}, 4, 2, MICA_I32},
        {{3, 2, 4, 6}, {1, 3, 2, 5}, {1, 2}, 4, 2, MICA_I32},
        {{3, 2, 0, 5}, {1, 3, 2, 5}, {1, 2}, 4, 2, MICA_I32},
        {{3, 2, 4, 5}, {2, 3, 2, 5}, {1, 2}, 4, 2, MICA_I32},
        {{3, 2, 4, 5}, {1, 3, 2, 5}, {2}, 4, 1, MICA_I32},
        {{3, 2, 4, 5}, {1, 3, 2, 5}, {1, 2}, 4, 2, MICA_I64},
    };
    bench b = bench_open();
    for (int i = 0; i < 4; i++) {
        mica_array pool = mica_zeros(b.s, SHAPE(3, 2, 4, 5), MICA_F32);
        mica_array x = mica_zeros(b.s, SHAPE(1, 3, 2, 5), MICA_F32);
        expect_eval_failure(&b, mica_kv_write(b.s, pool, x, i32s(b.s, bad[i], SHAPE(1, 2))),
                            MICA_EINVAL, "");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const write *w = &wrong[i];
        mica_array pool = mica_zeros(b.s, w->pool, w->pool_axes, MICA_F32);
        mica_array x = mica_zeros(b.s, w->x, 4, MICA_F32);
        mica_array slots = mica_zeros(b.s, w->slots, w->slot_axes, w->of_slots);
        expect_failure(&b, mica_kv_write(b.s, pool, x, slots),
                       w->of_slots == MICA_I32 ? MICA_ESHAPE : MICA_EDTYPE, "kv_write: pool f32");
    }
    bench_close(&b);
}

/* ---- paged_sdpa ---- */

enum { ROWS = 3, KV_HEADS = 2, D = 20, BLOCK_LIMIT = 8 };

/* Queries over `rows` caches, each in its own random blocks of a pool with others between them. */
typedef struct paged {
    mica_array q, k, v; /* in a row: [ROWS, KV_HEADS, blocks * P, ..] */
    mica_array pool_k, pool_v, table;
} paged;

static mica_array entries(mica_scope *s, uint64_t seed, mica_dtype dtype, const int64_t *shape,
                          int ndim) {
    if (dtype != MICA_U8) return noise(s, seed, dtype, shape, ndim);
    return mica_to_q8(s, noise(s, seed, MICA_F32, shape, ndim));
}

static mica_array gathered(mica_scope *s, mica_array pool, mica_array table) {
    mica_array y = mica_swapaxes(s, mica_take(s, pool, table, 1), 0, 1);
    return mica_contiguous(s, mica_flatten(s, y, 2, 3));
}

static paged make(mica_scope *s, uint64_t *seed, mica_dtype dtype, int64_t heads, int64_t lq,
                  int64_t block, int blocks) {
    const int all = ROWS * blocks + 2;
    int32_t order[ROWS * BLOCK_LIMIT + 2];
    mica_dtype of_q = below(seed, 2) || dtype == MICA_U8 ? MICA_F32 : dtype;
    int64_t dv = dtype == MICA_U8 ? D : 12;
    paged p;
    shuffle(seed, order, all);
    for (int i = 0, run = (int)below(seed, 2); run && i < all; i++)
        order[i] = below(seed, 4) ? i : (int32_t)below(seed, (uint64_t)all); /* mostly in a row */
    for (int i = 0; i < ROWS * blocks; i++)
        if (below(seed, 4) == 0) order[i] -= all; /* from the end */
    p.q = noise(s, *seed + 1, of_q, SHAPE(ROWS, heads, lq, D));
    p.pool_k = entries(s, *seed + 2, dtype, SHAPE(KV_HEADS, all, block, D));
    p.pool_v = entries(s, *seed + 3, dtype, SHAPE(KV_HEADS, all, block, dv));
    p.table = i32s(s, order, SHAPE(ROWS, blocks));
    p.k = gathered(s, p.pool_k, p.table);
    p.v = gathered(s, p.pool_v, p.table);
    return p;
}

/* Random shapes, lengths around the edges of blocks, and options, over all dtypes. */
static void bits_of_keys_in_a_row(void **state) {
    (void)state;
    static const int64_t groups[] = {1, 3, 8, 25}, lengths[] = {1, 2, 7, 33, 70};
    uint64_t seed = 39;
    const int step = test_case_step();
    for (int round = 0; round < 96; round += step) {
        bench b = bench_open();
        int d = round % 4, blocks = 1 + (int)below(&seed, BLOCK_LIMIT);
        int64_t block = 32 * (1 + (int64_t)below(&seed, 3)), lq = lengths[below(&seed, 5)];
        int64_t keys = block * blocks, heads = KV_HEADS * groups[below(&seed, 4)];
        paged p = make(b.s, &seed, dtypes[d], heads, lq, block, blocks);
        int32_t offsets[ROWS];
        for (int i = 0; i < ROWS; i++) { /* the last query's key near the end of some block */
            int64_t edge = block * (1 + (int64_t)below(&seed, (uint64_t)blocks));
            offsets[i] = (int32_t)(edge - lq - 2 + (int64_t)below(&seed, 4));
            if (offsets[i] + lq > keys) offsets[i] = (int32_t)(keys - lq);
        }
        mica_sdpa_options o = {.causal = true, .offset = i32s(b.s, offsets, SHAPE(ROWS))};
        if (below(&seed, 2)) o.window = 1 + (int64_t)below(&seed, 150);
        if (o.window && below(&seed, 2)) o.keep = 1 + (int64_t)below(&seed, 40);
        if (below(&seed, 3) == 0) o.softcap = 2;
        if (below(&seed, 3) == 0) o.sinks = noise(b.s, 6, MICA_F32, SHAPE(heads));
        if (below(&seed, 3) == 0) o.scale = 0.5f;
        mica_array want = mica_sdpa(b.s, p.q, p.k, p.v, &o);
        mica_array got = mica_paged_sdpa(b.s, p.q, p.pool_k, p.pool_v, p.table, &o);
        expect_same_sums(b.s, got, want, slack[d]);
        expect_near(b.s, got, decomposed(b.s, want), slack[d]);
        bench_close(&b);
    }
}

/* Blocks of any length give the same sums, if not their bits. */
static void blocks_of_any_length(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 3, 16, 17, 40, 100};
    uint64_t seed = 5;
    for (int round = 0; round < 24; round++) {
        bench b = bench_open();
        int64_t block = lengths[round / 4];
        int d = round % 4;
        paged p = make(b.s, &seed, dtypes[d], 6, 1, block, 5);
        mica_sdpa_options o = {.causal = true, .offset = mica_i32(b.s, (int32_t)(4 * block))};
        mica_array got = mica_paged_sdpa(b.s, p.q, p.pool_k, p.pool_v, p.table, &o);
        expect_near(b.s, got, mica_sdpa(b.s, p.q, p.k, p.v, &o), slack[d]);
        expect_near(b.s, got, decomposed(b.s, got), slack[d]);
        bench_close(&b);
    }
}

/* Rows of 33 and 4,000 keys together, over 1 to 9 threads: the long one is split. */
static void bits_of_threads(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* they have threads of their own */
    enum { BLOCKS = 63, EACH = 64, HEADS = 6 };
    for (int d = 0; d < 4; d++) {
        float *want = NULL;
        for (int threads = 1; threads <= 9; threads += 4) {
            const mica_device_options options = {.threads = threads};
            bench b = bench_open_cpu(&options);
            int32_t table[2][BLOCKS] = {{0}};
            for (int i = 0; i < BLOCKS; i++) {
                table[0][i] = i;
                table[1][i] = BLOCKS - 1 - i;
            }
            const int32_t offsets[] = {32, 4000};
            mica_sdpa_options o = {.causal = true, .offset = i32s(b.s, offsets, SHAPE(2))};
            mica_array q = noise(b.s, 1, MICA_F32, SHAPE(2, HEADS, 1, 64));
            mica_array k = entries(b.s, 2, dtypes[d], SHAPE(1, BLOCKS, EACH, 64));
            mica_array v = entries(b.s, 3, dtypes[d], SHAPE(1, BLOCKS, EACH, 64));
            mica_array at = i32s(b.s, &table[0][0], SHAPE(2, BLOCKS));
            float *got = floats_of(b.s, mica_paged_sdpa(b.s, q, k, v, at, &o));
            if (want) assert_memory_equal(got, want, 2 * HEADS * 64 * sizeof *got);
            if (want)
                free(got);
            else
                want = got;
            bench_close(&b);
        }
        free(want);
    }
}

/* Blocks -1 and 0 do not follow each other: behind the pool's last there is none. */
static void the_last_block_is_an_end(void **state) {
    (void)state;
    bench b = bench_open();
    static const int32_t tables[][4] = {{-1, 0, 1, 2}, {-3, -2, -1, 0}, {2, -1, 0, 1}};
    for (int i = 0; i < 12; i++) {
        int d = i % 4;
        mica_array table = i32s(b.s, tables[i / 4], SHAPE(1, 4));
        mica_array q = noise(b.s, 1, MICA_F32, SHAPE(1, 4, 1, D));
        mica_array k = entries(b.s, 2, dtypes[d], SHAPE(KV_HEADS, 3, 32, D));
        mica_array v = entries(b.s, 3, dtypes[d], SHAPE(KV_HEADS, 3, 32, D));
        mica_sdpa_options o = {.causal = true, .offset = mica_i32(b.s, 120)};
        mica_array want = mica_sdpa(b.s, q, gathered(b.s, k, table), gathered(b.s, v, table), &o);
        expect_same_sums(b.s, mica_paged_sdpa(b.s, q, k, v, table, &o), want, slack[d]);
    }
    bench_close(&b);
}

static void empty_ones(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array q = noise(b.s, 1, MICA_F32, SHAPE(2, 4, 3, 8));
    mica_array k = noise(b.s, 2, MICA_F32, SHAPE(2, 5, 32, 8));
    mica_sdpa_options o = {.causal = true, .offset = mica_i32(b.s, 0)};
    mica_array none = mica_zeros(b.s, SHAPE(2, 0), MICA_I32);
    mica_array y = mica_paged_sdpa(b.s, q, k, k, none, &o);
    expect_same(b.s, y, mica_zeros(b.s, SHAPE(2, 4, 3, 8), MICA_F32));
    expect_same(b.s, decomposed(b.s, y), y);
    y = mica_paged_sdpa(b.s, mica_slice_axis(b.s, q, 2, 0, 0), k, k,
                        mica_zeros(b.s, SHAPE(2, 1), MICA_I32), &o);
    expect_same(b.s, y, mica_zeros(b.s, SHAPE(2, 4, 0, 8), MICA_F32));
    bench_close(&b);
}

/* Attention of q [2, heads, 1, 8] over k [2, 5, 32, 8] and v [2, n, 32, 8] by a table [rows, 3] of
 * zeros, or the given one. */
static mica_array attend(bench *b, int64_t heads, int64_t n, int64_t rows, const int32_t *table,
                         mica_dtype of_table, const mica_sdpa_options *options) {
    mica_array q = noise(b->s, 1, MICA_F32, SHAPE(2, heads, 1, 8));
    mica_array k = noise(b->s, 2, MICA_F32, SHAPE(2, 5, 32, 8));
    mica_array at = mica_zeros(b->s, SHAPE(rows, 3), of_table);
    if (table) at = i32s(b->s, table, SHAPE(rows, 3));
    mica_sdpa_options o = {.causal = true, .offset = mica_i32(b->s, 0)};
    if (options) o = *options;
    return mica_paged_sdpa(b->s, q, k, mica_slice_axis(b->s, k, 1, 0, n), at, &o);
}

static void wrong_tables_are_refused(void **state) {
    (void)state;
    bench b = bench_open();
    static const int32_t outside[][6] = {{0, 1, 2, 3, 4, 5}, {0, 1, -6, 2, 3, 4}, {INT32_MAX}};
    for (int i = 0; i < 3; i++) {
        mica_sdpa_options o = {.causal = i > 0};
        if (i != 1) o.offset = mica_i32(b.s, 0);
        if (i == 2) o.mask = mica_zeros(b.s, SHAPE(1, 96), MICA_F32);
        expect_failure(&b, attend(&b, 4, 5, 2, NULL, MICA_I32, &o), MICA_EINVAL,
                       "paged_sdpa: is causal");
        expect_eval_failure(&b, attend(&b, 4, 5, 2, outside[i], MICA_I32, NULL), MICA_EINVAL, "");
    }
    expect_failure(&b, attend(&b, 4, 5, 2, NULL, MICA_I64, NULL), MICA_EDTYPE,
                   "paged_sdpa: the table is i64[2,3]");
    expect_failure(&b, attend(&b, 4, 5, 3, NULL, MICA_I32, NULL), MICA_ESHAPE,
                   "paged_sdpa: the table is i32[3,3]");
    expect_failure(&b, attend(&b, 4, 4, 2, NULL, MICA_I32, NULL), MICA_ESHAPE,
                   "paged_sdpa: k f32[2,5,32,8] and v f32[2,4,32,8]");
    expect_failure(&b, attend(&b, 3, 5, 2, NULL, MICA_I32, NULL), MICA_ESHAPE,
                   "paged_sdpa: q f32[2,3,1,8]");
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_written),         cmocka_unit_test(a_pool_is_written_in_place),
        cmocka_unit_test(wrong_writes_are_refused), cmocka_unit_test(bits_of_keys_in_a_row),
        cmocka_unit_test(blocks_of_any_length),     cmocka_unit_test(bits_of_threads),
        cmocka_unit_test(the_last_block_is_an_end), cmocka_unit_test(empty_ones),
        cmocka_unit_test(wrong_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
