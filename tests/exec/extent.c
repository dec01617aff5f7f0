/* Extents of symbols: where rows stay apart the first ones are what all would have been, and where
 * an op mixes them, all are computed. */
#include <mica/mica.h>

#include <string.h>

#include "exec/expect.h"
#include "exec/symbols.h"

/* Rows that stay apart: embeddings, attention within each example, norms, sums, fused ops. */
static mica_program *apart(void) {
    mica_scope *s = open_scope();
    int64_t n = mica_program_dim(s, "batch"), l = mica_program_dim(s, "length");
    mica_array ids = mica_program_param(s, MICA_I32, SHAPE(n, l)), y[4];
    mica_array kept = mica_program_param(s, MICA_F32, SHAPE(n, D));
    mica_array x = mica_take(s, numbers(s, SHAPE(11, D)), ids, 0); /* [n, l, D] */
    mica_array h =
        mica_matmul(s, mica_reshape(s, x, SHAPE(TIMES(n, l), D)), numbers(s, SHAPE(D, 2 * D)));
    h = mica_reshape(s, mica_silu(s, h), SHAPE(n, l, 2, D));
    h = mica_swapaxes(s, mica_rms_norm(s, h, MICA_NONE, 1e-5f), 1, 2); /* [n, 2, l, D] */
    mica_array a = mica_sdpa(s, h, h, h, &(mica_sdpa_options){.causal = true});
    mica_array scores = mica_softmax(s, mica_matmul(s, h, mica_swapaxes(s, h, 2, 3)), -1);
    y[0] = mica_add(s, kept, mica_mean(s, a, (const int[]){1, 2}, 2, false)); /* [n, D] */
    y[1] = mica_sum(s, mica_matmul(s, scores, h), (const int[]){1}, 1, false);
    y[2] = mica_concatenate(s, (mica_array[]){x, mica_zeros(s, SHAPE(n, 2, D), MICA_F32)}, 2, 1);
    mica_array w = numbers(s, SHAPE(3, D)),
               pred = mica_greater(s, mica_max(s, w, NULL, 0, false), mica_f32(s, 0));
    must(mica_if(s, pred, halve_it, keep_it, NULL, &w, 1, &y[3], 1));
    const mica_param params[] = {{.name = "ids", .array = ids}, {.name = "out0", .array = kept}};
    mica_program *p;
    must(mica_program_build(s, params, 2, y, 4, NULL, &p));
    mica_scope_close(&s);
    return p;
}

static void run_apart(mica_executable *x, mica_scope *s, int64_t n, int64_t kept, mica_array *y) {
    int32_t ids[30];
    for (int i = 0; i < 30; i++)
        ids[i] = (i * 7) % 11;
    const mica_input in[] = {
        {.name = "ids", .array = mica_from_data(s, ids, MICA_I32, SHAPE(n, 5))},
        {.name = "out0", .array = numbers(s, SHAPE(kept < 0 ? 0 : kept, D))}};
    must(mica_executable_run(x, in, kept < 0 ? 1 : 2, s, y));
}

void test_extents_of_rows_apart(void **state) {
    (void)state;
    mica_program *p = apart();
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        mica_executable *x;
        mica_scope *s = open_scope();
        mica_array all[4], some[4];
        must(mica_executable_open(p, &(mica_executable_options){.mode = mode}, &x));
        run_apart(x, s, 6, 6, all);
        must(mica_executable_set_extent(x, "batch", 4));
        run_apart(x, s, 6, 6, some);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(mica_array_dim(some[i], 0), 4);
            expect_same(some[i], mica_slice_axis(s, all[i], 0, 0, 4), -1, i);
        }
        expect_same(some[3], all[3], -1, 3);
        run_apart(x, s, 6, -1, some); /* what was fed has 4 rows */
        assert_int_equal(mica_array_dim(some[0], 0), 4);
        run_apart(x, s, 3, 3, some); /* fewer than the extent: all */
        expect_same(some[1], mica_slice_axis(s, all[1], 0, 0, 3), -1, 1);
        must(mica_executable_set_extent(x, "batch", 0));
        run_apart(x, s, 6, 6, some);
        assert_int_equal(mica_array_size(some[0]), 0);
        must(mica_executable_set_extent(x, "batch", -1));
        run_apart(x, s, 6, 6, some);
        expect_same(some[2], all[2], -1, 2);
        char *text;
        must(mica_executable_set_extent(x, "length", 2));
        must(mica_executable_report(x, &text));
        assert_non_null(
            strstr(text, "extent of length: 2; all rows are computed, for parameter ids"));
        mica_free(text);
        run_apart(x, s, 6, 6, some);
        expect_same(some[2], all[2], -1, 2);
        expect_refused(mica_executable_set_extent(x, "width", 2), MICA_ENOENT, "no symbol");
        expect_refused(mica_executable_set_extent(x, "batch", -2), MICA_EINVAL, "-2 rows");
        mica_executable_close(&x);
        mica_scope_close(&s);
    }
    mica_program_close(&p);
}

/* Every way to mix rows is found, and named. x f32 [n, D]. */
typedef mica_array (*mix_fn)(mica_scope *s, mica_array x, int64_t n);

static mica_array mix_sum(mica_scope *s, mica_array x, int64_t n) {
    (void)n;
    return mica_sum(s, x, (const int[]){0}, 1, true);
}

static mica_array mix_mean(mica_scope *s, mica_array x, int64_t n) {
    return mica_multiply(s, x, mica_scalar(s, (double)n, MICA_F32));
}

static mica_array mix_scan(mica_scope *s, mica_array x, int64_t n) {
    (void)n;
    return mica_cumsum(s, x, 0, false, true);
}

static mica_array mix_concatenate(mica_scope *s, mica_array x, int64_t n) {
    (void)n;
    return mica_concatenate(s, (mica_array[]){x, x}, 2, 0);
}

static mica_array mix_transpose(mica_scope *s, mica_array x, int64_t n) {
    (void)n;
    return mica_matmul(s, x, mica_swapaxes(s, x, 0, 1));
}

static mica_array mix_reshape(mica_scope *s, mica_array x, int64_t n) {
    return mica_reshape(s, x, SHAPE(D, n));
}

static mica_array mix_flip(mica_scope *s, mica_array x, int64_t n) {
    (void)n;
    return mica_flip(s, x, 0);
}

static mica_array mix_take(mica_scope *s, mica_array x, int64_t n) {
    mica_array order = mica_arange(s, (double)PLUS(n, -1), -1, -1, MICA_I32);
    return mica_add(s, x, mica_astype(s, mica_expand_dims(s, order, 1), MICA_F32));
}

static mica_array mix_random(mica_scope *s, mica_array x, int64_t n) {
    mica_array key = mica_random_key(s, 5);
    return mica_add(s, x, mica_random_uniform(s, key, SHAPE(n, D), MICA_F32, 0, 1));
}

static mica_array mix_shift(mica_scope *s, mica_array x, int64_t n) {
    mica_array shifted = mica_slice_axis(s, x, 0, 1, n);
    return mica_concatenate(s, (mica_array[]){shifted, mica_zeros(s, SHAPE(1, D), MICA_F32)}, 2, 0);
}

static mica_array mix_step(mica_scope *s, mica_array x, int64_t n) {
    return mica_add(s, x, mica_arange(s, 0, (double)TIMES(D, n), (double)n, MICA_F32));
}

static mica_array mix_rounds(mica_scope *s, mica_array x, int64_t n) {
    const mica_array init[] = {mica_f32(s, 1), mica_i32(s, 0)};
    mica_array out[2], rounds;
    lengths_of of = {0, n};
    must(mica_while(s, is_below, count_it, &of, init, 2, NULL, out, &rounds));
    return mica_add(s, x, mica_astype(s, rounds, MICA_F32));
}

static mica_array mix_steps(mica_scope *s, mica_array x, int64_t n) {
    const mica_scan_options options = {.length = n};
    mica_array init[] = {mica_f32(s, 1), mica_i32(s, 0)}, out[2];
    must(mica_scan(s, count_it, NULL, init, 2, NULL, 0, &options, out, NULL, 0));
    return mica_add(s, x, mica_astype(s, out[1], MICA_F32));
}

static mica_array mix_window(mica_scope *s, mica_array x, int64_t n) {
    mica_array h = mica_reshape(s, x, SHAPE(n, 1, D, 1));
    h = mica_sdpa(s, h, h, h, &(mica_sdpa_options){.causal = true, .window = n});
    return mica_reshape(s, h, SHAPE(n, D));
}

static mica_array mix_row(mica_scope *s, mica_array x, int64_t n) {
    mica_array table = mica_arange(s, 0, 30000, 1, MICA_F32);
    return mica_add(s, x, mica_slice_axis(s, table, 0, PLUS(n, -1), n));
}

static mica_array mix_more(mica_scope *s, mica_array x, int64_t n) {
    mica_array ones = mica_broadcast_to(s, mica_f32(s, 1), SHAPE(PLUS(n, 1)));
    return mica_add(s, x, mica_sum(s, ones, NULL, 0, false));
}

void test_rows_that_mix(void **state) {
    (void)state;
    static const struct {
        mix_fn fn;
        const char *op;
    } mixes[] = {{mix_sum, "sum %"},
                 {mix_mean, "leaf %"},
                 {mix_scan, "transpose %"},
                 {mix_concatenate, "concatenate %"},
                 {mix_transpose, "transpose %"},
                 {mix_reshape, "reshape %"},
                 {mix_flip, "slice %"},
                 {mix_take, "arange %"},
                 {mix_random, "random_bits %"},
                 {mix_shift, "slice %"},
                 {mix_step, "arange %"},
                 {mix_rounds, "while %"},
                 {mix_steps, "scan %"},
                 {mix_window, "sdpa %"},
                 {mix_row, "slice %"},
                 {mix_more, "broadcast_to %"}};
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        mica_scope *s = open_scope();
        int64_t n = mica_program_dim(s, "n");
        mica_array x = mica_program_param(s, MICA_F32, SHAPE(n, D)), y = mixes[i].fn(s, x, n);
        const mica_param param = {.name = "x", .array = x};
        const mica_input in = {.name = "x", .array = numbers(s, SHAPE(6, D))};
        mica_array all, some;
        mica_program *p;
        mica_executable *exe;
        must(mica_program_build(s, &param, 1, &y, 1, NULL, &p));
        must(mica_executable_open(p, NULL, &exe));
        must(mica_executable_run(exe, &in, 1, s, &all));
        must(mica_executable_set_extent(exe, "n", 4));
        must(mica_executable_run(exe, &in, 1, s, &some));
        expect_same(some, all, -2, (int)i);
        char *text;
        must(mica_executable_report(exe, &text));
        const char *cause = strstr(text, "all rows are computed, for ");
        if (!cause || strncmp(cause + 27, mixes[i].op, strlen(mixes[i].op)) != 0)
            fail_msg("case %zu: %s", i, text);
        mica_free(text);
        mica_executable_close(&exe);
        mica_program_close(&p);
        mica_scope_close(&s);
    }
}
