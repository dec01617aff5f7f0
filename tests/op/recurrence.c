/* Selective scan and the gated delta rule: kernels against decompositions, sequences in parts, and
 * what is refused. Their goldens are those of tests/op/golden_nn.c. */
#include "op/fused.h"

#define ONES(...) mica_ones(b.s, SHAPE(__VA_ARGS__), MICA_F32)

typedef struct scan {
    mica_array x, delta, a, b, c, initial;
} scan;

/* Positive steps of a decaying state. */
static scan operands(mica_scope *s, mica_dtype dtype, int64_t batch, int64_t length, int64_t h,
                     int64_t n) {
    return (scan){.x = noise(s, 1, dtype, SHAPE(batch, length, h)),
                  .delta = mica_abs(s, noise(s, 2, dtype, SHAPE(batch, length, h))),
                  .a = mica_negative(s, mica_abs(s, noise(s, 3, dtype, SHAPE(h, n)))),
                  .b = noise(s, 4, dtype, SHAPE(batch, length, n)),
                  .c = noise(s, 5, dtype, SHAPE(batch, length, n)),
                  .initial = noise(s, 6, dtype, SHAPE(batch, h, n))};
}

static mica_array run(mica_scope *s, const scan *o, mica_array *last) {
    const mica_selective_scan_options options = {.initial = o->initial};
    return mica_selective_scan(s, o->x, o->delta, o->a, o->b, o->c, &options, last);
}

/* Lengths around tiles, segments and blocks of channels, with and without an initial state. */
static void scan_as_decomposed(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 1, 1},    {2, 63, 17, 3}, {1, 64, 16, 16},
                                        {3, 130, 33, 5}, {1, 257, 4, 2}, {2, 5, 40, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bench b = bench_open();
        const int64_t *p = shapes[i];
        scan o = operands(b.s, MICA_F32, p[0], p[1], p[2], p[3]);
        if (i % 2) o.initial = MICA_NONE;
        mica_array last, y = run(b.s, &o, &last), dx[6];
        expect_near(b.s, y, decomposed(b.s, y), 1e-5);
        expect_near(b.s, last, decomposed(b.s, last), 1e-5);
        mica_array xs[6] = {o.x, o.delta, o.a, o.b, o.c, o.initial};
        mica_array dy = noise(b.s, 7, MICA_F32, SHAPE(p[0], p[1], p[2]));
        size_t n = o.initial.scope ? 6 : 5;
        assert_int_equal(mica_grad(b.s, y, dy, xs, n, dx), MICA_OK);
        for (size_t k = 0; k < n; k++)
            expect_near(b.s, dx[k], decomposed(b.s, dx[k]), 2e-5);
        bench_close(&b);
    }
}

/* Halves, and operands that lie in other ways: what the dense f32 of the same values gives. */
static void scan_other_layouts(void **state) {
    (void)state;
    bench b = bench_open();
    for (int d = 0; d < 2; d++) {
        mica_dtype dtype = d ? MICA_BF16 : MICA_F16;
        scan o = operands(b.s, dtype, 2, 20, 18, 4);
        scan other = {
            mica_flip(b.s, o.x, 1),
            mica_swapaxes(b.s, mica_contiguous(b.s, mica_swapaxes(b.s, o.delta, 0, 2)), 0, 2),
            mica_flip(b.s, o.a, 0),
            mica_broadcast_to(b.s, mica_slice_axis(b.s, o.b, 0, 0, 1), SHAPE(2, 20, 4)),
            mica_flip(b.s, o.c, 2),
            mica_swapaxes(b.s, mica_contiguous(b.s, mica_swapaxes(b.s, o.initial, 1, 2)), 1, 2),
        };
        scan dense = other;
        mica_array *each[] = {&dense.x, &dense.delta, &dense.a, &dense.b, &dense.c, &dense.initial};
        for (int k = 0; k < 6; k++)
            *each[k] = mica_contiguous(b.s, mica_astype(b.s, *each[k], MICA_F32));
        mica_array last[2], y = run(b.s, &other, &last[0]), want = run(b.s, &dense, &last[1]);
        assert_int_equal(mica_array_dtype(y), dtype);
        expect_same_sums(b.s, y, mica_astype(b.s, want, dtype), 1e-2);
        expect_same_sums(b.s, last[0], last[1], 1e-5);
    }
    bench_close(&b);
}

/* The bits of the kernel. Another device may run the decomposition, whose blocks begin
 * elsewhere. */
static void expect_same_steps(mica_scope *s, mica_array got, mica_array want) {
    if (test_device_is_other())
        expect_near(s, got, want, 2e-5);
    else
        expect_same(s, got, want);
}

static mica_array part(mica_scope *s, mica_array x, int64_t from, int64_t to) {
    return mica_slice_axis(s, x, 1, from, to);
}

/* A sequence in parts, with the state passed on, has the bits of the whole. */
static void scan_in_parts(void **state) {
    (void)state;
    bench b = bench_open();
    const int64_t length = 150;
    scan o = operands(b.s, MICA_F32, 2, length, 21, 6);
    mica_array last, y = run(b.s, &o, &last);
    static const int64_t cuts[] = {0, 1, 64, 75, 149, 150};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        mica_array parts[2], state_of = o.initial;
        for (int k = 0; k < 2; k++) {
            int64_t from = k ? cuts[i] : 0, to = k ? length : cuts[i];
            scan p = {part(b.s, o.x, from, to), part(b.s, o.delta, from, to), o.a,
                      part(b.s, o.b, from, to), part(b.s, o.c, from, to),     state_of};
            parts[k] = run(b.s, &p, &state_of);
        }
        expect_same_steps(b.s, mica_concatenate(b.s, parts, 2, 1), y);
        expect_same_steps(b.s, state_of, last);
    }
    bench_close(&b);
}

typedef struct delta {
    mica_array q, k, v, g, beta, state;
} delta;

static delta delta_operands(mica_scope *s, int64_t batch, int64_t length, int64_t h, int64_t n,
                            int64_t m) {
    mica_array k = noise(s, 2, MICA_F32, SHAPE(batch, length, h, n));
    return (delta){
        .q = noise(s, 1, MICA_F32, SHAPE(batch, length, h, n)),
        .k = mica_rms_norm(s, k, mica_full(s, &n, 1, mica_f32(s, 1 / sqrtf((float)n))), 1e-6f),
        .v = noise(s, 3, MICA_F32, SHAPE(batch, length, h, m)),
        .g = mica_negative(s, mica_abs(s, noise(s, 4, MICA_F32, SHAPE(batch, length, h)))),
        .beta = mica_abs(s, noise(s, 5, MICA_F32, SHAPE(batch, length, h))),
        .state = noise(s, 6, MICA_F32, SHAPE(batch, h, n, m))};
}

static mica_array run_delta(mica_scope *s, const delta *o, mica_array *last) {
    return mica_gated_delta(s, o->q, o->k, o->v, o->g, o->beta, o->state, last);
}

static void delta_as_decomposed(void **state) {
    (void)state;
    static const int64_t shapes[][5] = {
        {1, 1, 1, 1, 1}, {2, 3, 2, 4, 5}, {1, 64, 1, 16, 16}, {2, 65, 2, 7, 3}, {1, 200, 1, 8, 33}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bench b = bench_open();
        const int64_t *p = shapes[i];
        delta o = delta_operands(b.s, p[0], p[1], p[2], p[3], p[4]);
        if (i % 2) o.state = MICA_NONE;
        mica_array last, y = run_delta(b.s, &o, &last);
        expect_near(b.s, y, decomposed(b.s, y), 2e-5);
        expect_near(b.s, last, decomposed(b.s, last), 2e-5);
        o.beta = MICA_NONE;
        y = run_delta(b.s, &o, &last);
        expect_near(b.s, y, decomposed(b.s, y), 2e-5);
        expect_near(b.s, last, decomposed(b.s, last), 2e-5);
        bench_close(&b);
    }
}

/* Heads that share queries and keys, with and without beta, are as heads with copies of them. */
static void delta_shared(void **state) {
    (void)state;
    bench b = bench_open();
    delta o = delta_operands(b.s, 2, 70, 6, 5, 20), copied = o;
    o.q = mica_slice_axis(b.s, o.q, 2, 0, 2);
    o.k = mica_slice_axis(b.s, o.k, 2, 0, 2);
    copied.q = mica_repeat(b.s, o.q, 3, 2);
    copied.k = mica_repeat(b.s, o.k, 3, 2);
    for (int i = 0; i < 2; i++) {
        mica_array last, want, y = run_delta(b.s, &o, &last);
        expect_same_steps(b.s, y, run_delta(b.s, &copied, &want));
        expect_same_steps(b.s, last, want);
        expect_near(b.s, y, decomposed(b.s, y), 2e-5);
        o.beta = copied.beta = MICA_NONE;
    }
    bench_close(&b);
}

/* Without beta, and with keys of ones, the state is the sum of what came, and k adds to it. */
static void linear_sums(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array ones = ONES(1, 9, 1, 1), zeros = mica_zeros(b.s, SHAPE(1, 9, 1), MICA_F32);
    mica_array v = noise(b.s, 3, MICA_F32, SHAPE(1, 9, 1, 5));
    mica_array y = mica_gated_delta(b.s, ones, ones, v, zeros, MICA_NONE, MICA_NONE, NULL);
    expect_near(b.s, y, mica_cumsum(b.s, v, 1, false, true), 1e-6);
    bench_close(&b);
}

static void delta_in_parts(void **state) {
    (void)state;
    bench b = bench_open();
    const int64_t length = 90;
    delta o = delta_operands(b.s, 1, length, 2, 5, 20);
    static const int64_t cuts[] = {0, 1, 64, 89, 90};
    for (size_t i = 0; i < 2 * sizeof cuts / sizeof *cuts; i++) {
        bool linear = i >= sizeof cuts / sizeof *cuts;
        if (linear) o.beta = MICA_NONE;
        mica_array last, y = run_delta(b.s, &o, &last);
        mica_array parts[2], state_of = o.state;
        for (int k = 0; k < 2; k++) {
            int64_t cut = cuts[i % (sizeof cuts / sizeof *cuts)];
            int64_t from = k ? cut : 0, to = k ? length : cut;
            delta p = {part(b.s, o.q, from, to),
                       part(b.s, o.k, from, to),
                       part(b.s, o.v, from, to),
                       part(b.s, o.g, from, to),
                       linear ? MICA_NONE : part(b.s, o.beta, from, to),
                       state_of};
            parts[k] = run_delta(b.s, &p, &state_of);
        }
        expect_same_steps(b.s, mica_concatenate(b.s, parts, 2, 1), y);
        expect_same_steps(b.s, state_of, last);
    }
    bench_close(&b);
}

/* A gate of -inf forgets everything: what comes later is as from the beginning. */
static void forgets(void **state) {
    (void)state;
    bench b = bench_open();
    delta o = delta_operands(b.s, 1, 40, 1, 4, 4);
    const int64_t at[3] = {0, 20, 0}, end[3] = {1, 21, 1};
    o.g = mica_slice_update(b.s, o.g, mica_f32(b.s, -INFINITY), at, end, NULL);
    delta rest = {part(b.s, o.q, 20, 40), part(b.s, o.k, 20, 40),    part(b.s, o.v, 20, 40),
                  part(b.s, o.g, 20, 40), part(b.s, o.beta, 20, 40), MICA_NONE};
    mica_array y = part(b.s, run_delta(b.s, &o, NULL), 20, 40);
    expect_near(b.s, y, run_delta(b.s, &rest, NULL), 1e-5);
    bench_close(&b);
}

/* Without steps the state is what it was, without channels or rows there is nothing. */
static void empty(void **state) {
    (void)state;
    bench b = bench_open();
    static const int64_t shapes[][4] = {{2, 0, 3, 4}, {0, 5, 3, 4}, {2, 5, 0, 4}, {2, 5, 3, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *p = shapes[i];
        scan o = operands(b.s, MICA_F32, p[0], p[1], p[2], p[3]);
        mica_array last, y = run(b.s, &o, &last), dx[6];
        mica_array xs[6] = {o.x, o.delta, o.a, o.b, o.c, o.initial};
        if (p[1] == 0) expect_same(b.s, last, o.initial);
        expect_near(b.s, y, decomposed(b.s, y), 0);
        mica_array sum =
            mica_add(b.s, mica_sum(b.s, y, NULL, 0, false), mica_sum(b.s, last, NULL, 0, false));
        assert_int_equal(mica_grad(b.s, sum, MICA_NONE, xs, 6, dx), MICA_OK);
        for (int k = 0; k < 6; k++)
            expect_near(b.s, dx[k], decomposed(b.s, dx[k]), 0);
        delta d = delta_operands(b.s, p[0], p[1], p[2], 3, p[3]);
        y = run_delta(b.s, &d, &last);
        if (p[1] == 0) expect_same(b.s, last, d.state);
        expect_near(b.s, y, decomposed(b.s, y), 0);
    }
    bench_close(&b);
}

static void errors(void **state) {
    (void)state;
    bench b = bench_open();
    mica_selective_scan_options o = {.initial = ONES(1, 3, 4)};
    mica_array last;
    expect_failure(&b,
                   mica_selective_scan(b.s, ONES(1, 2, 3), ONES(1, 2, 3), ONES(3, 5), ONES(1, 2, 5),
                                       ONES(1, 2, 5), &o, &last),
                   MICA_ESHAPE, "the initial state is f32[1,3,4]; by x and A it is f32[1,3,5]");
    expect_failure(&b,
                   mica_selective_scan(b.s, ONES(1, 2, 3), ONES(1, 2, 3), ONES(4, 5), ONES(1, 2, 5),
                                       ONES(1, 2, 5), NULL, NULL),
                   MICA_ESHAPE, "x f32[1,2,3] and A f32[4,5]");
    expect_failure(&b,
                   mica_selective_scan(b.s, ONES(1, 2, 3), ONES(1, 3, 3), ONES(3, 5), ONES(1, 2, 5),
                                       ONES(1, 2, 5), NULL, NULL),
                   MICA_ESHAPE, "delta is f32[1,3,3]");
    mica_array i = mica_ones(b.s, SHAPE(1, 2, 5), MICA_I32);
    expect_failure(&b,
                   mica_selective_scan(b.s, ONES(1, 2, 3), ONES(1, 2, 3), ONES(3, 5), i,
                                       ONES(1, 2, 5), NULL, NULL),
                   MICA_EDTYPE, "B is i32[1,2,5], not a float");
    o = (mica_selective_scan_options){.d = ONES(4)};
    expect_failure(&b,
                   mica_selective_scan(b.s, ONES(1, 2, 3), ONES(1, 2, 3), ONES(3, 5), ONES(1, 2, 5),
                                       ONES(1, 2, 5), &o, NULL),
                   MICA_ESHAPE, "D is f32[4]");
    o = (mica_selective_scan_options){.z = ONES(2, 3)};
    expect_failure(&b,
                   mica_selective_scan(b.s, ONES(1, 2, 3), ONES(1, 2, 3), ONES(3, 5), ONES(1, 2, 5),
                                       ONES(1, 2, 5), &o, NULL),
                   MICA_ESHAPE, "z is f32[2,3]");
    expect_failure(&b,
                   mica_gated_delta(b.s, ONES(1, 2, 3, 4), ONES(1, 2, 3, 4), ONES(1, 2, 3, 5),
                                    ONES(1, 2, 3), ONES(1, 2), MICA_NONE, NULL),
                   MICA_ESHAPE, "beta is f32[1,2]; by q and v it is f32[1,2,3]");
    expect_failure(&b,
                   mica_gated_delta(b.s, ONES(1, 2, 3), ONES(1, 2, 3, 4), ONES(1, 2, 3, 5),
                                    ONES(1, 2, 3), ONES(1, 2, 3), MICA_NONE, NULL),
                   MICA_ESHAPE, "gated_delta: q f32[1,2,3]");
    bench_close(&b);
}

/* What a file may hold of the gradient, which no builder records. */
static void gradient_refuses(void **state) {
    (void)state;
    bench b = bench_open();
    for (int i = 0; i < 3; i++) {
        mica_array in[8] = {ONES(1, 2, 3), ONES(1, 2, 3), ONES(3, 5), ONES(1, 2, 5),
                            ONES(1, 2, 5), MICA_NONE,     MICA_NONE,  MICA_NONE};
        if (i > 0) in[6] = i == 1 ? ONES(1, 3, 2) : ONES(1, 2, 3);
        if (i == 2) in[7] = ONES(1, 3);
        static const char *const parts[] = {"dy is absent", "dy is f32[1,3,2]",
                                            "dlast is f32[1,3]"};
        mica_array y = mc_record(b.s, MC_OP_SELECTIVE_SCAN_GRADIENT, NULL, in, 8);
        expect_failure(&b, y, i ? MICA_ESHAPE : MICA_EINVAL, parts[i]);
    }
    bench_close(&b);
}

/* The same bits with any number of threads. */
static void threads(void **state) {
    (void)state;
    float *first[2] = {NULL, NULL};
    for (int n = 1; n <= 3; n += 2) {
        bench b = bench_open_with(&(mica_device_options){.threads = n});
        scan o = operands(b.s, MICA_F32, 2, 100, 200, 4);
        mica_array y = run(b.s, &o, NULL), db;
        assert_int_equal(mica_grad(b.s, mica_sum(b.s, y, NULL, 0, false), MICA_NONE, &o.b, 1, &db),
                         MICA_OK);
        float *got[2] = {floats_of(b.s, y), floats_of(b.s, db)};
        static const size_t sizes[2] = {2 * 100 * 200, 2 * 100 * 4};
        for (int i = 0; i < 2; i++) {
            if (first[i]) assert_memory_equal(first[i], got[i], sizes[i] * sizeof(float));
            free(first[i]);
            first[i] = got[i];
        }
        bench_close(&b);
    }
    free(first[0]);
    free(first[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan_as_decomposed),
        cmocka_unit_test(scan_other_layouts),
        cmocka_unit_test(scan_in_parts),
        cmocka_unit_test(delta_as_decomposed),
        cmocka_unit_test(delta_shared),
        cmocka_unit_test(linear_sums),
        cmocka_unit_test(delta_in_parts),
        cmocka_unit_test(forgets),
        cmocka_unit_test(empty),
        cmocka_unit_test(errors),
        cmocka_unit_test(gradient_refuses),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
