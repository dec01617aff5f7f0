/* Kernels of a graph that are one, by the emulated driver: products of one row with the gates, sums
 * and norms around them have the bits of ops one at a time, also where what lies between is asked
 * for. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "op/matmul.h"
#include "op/quant.h"
#include "support/support.h"

enum { HEAD = 50, MOST = 1536, LAUNCHES = 4 };
enum { O, GATE, UP, DOWN, LOGITS, MATRICES };
enum { SUM, NORMED, GATED, SECOND_SUM, SECOND_NORMED, RESULT, RESULTS };

typedef struct matrix {
    mica_array codes, scales, biases;
} matrix;

typedef struct layer {
    matrix of[MATRICES];
    mica_array norms[4]; /* before products, and behind */
} layer;

/* Widths, whether norms are behind products, too, and what weights are: bits 0 are bf16. */
typedef struct form {
    int64_t d, hidden;
    bool inner;
    mica_quant quant;
} form;

static const form plain_form = {1024, 512, false, {MICA_QUANT_AFFINE, 4, 64}};
static const form forms[] = {
    {1024, 512, true, {MICA_QUANT_AFFINE, 4, 64}},
    /* units that are not whole; scales that lie at multiples of 4 bytes */
    {1152, 640, false, {MICA_QUANT_AFFINE, 4, 64}},
    {1152, 896, true, {MICA_QUANT_AFFINE, 4, 64}},
    {1152, 640, true, {MICA_QUANT_AFFINE, 8, 64}},
    /* a row is no multiple of what a warp has of it, and scales begin anywhere */
    {1120, 544, false, {MICA_QUANT_MXFP4, 4, 32}},
    {1120, 544, true, {MICA_QUANT_AFFINE, 0, 0}},
};

typedef struct results {
    float of[RESULTS][MOST];
} results;

static mica_quant quant; /* of the form that is checked */

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static mica_array filled(mica_scope *s, uint32_t seed, float scale, int64_t rows, int64_t columns,
                         mica_dtype dtype) {
    float *x = malloc((size_t)(rows * columns) * sizeof *x);
    for (int64_t i = 0; i < rows * columns; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f * scale;
    }
    int64_t shape[] = {rows, columns};
    int first = rows == 1 ? 1 : 0;
    mica_array y = mica_astype(s, mica_from_data(s, x, MICA_F32, shape + first, 2 - first), dtype);
    must(mica_eval(s, y));
    free(x);
    return y;
}

/* An op that is computed before the next is known, or not. */
static mica_array done(mica_scope *s, mica_array x, bool apart) {
    if (apart) must(mica_eval(s, x));
    return x;
}

/* Codes and scales are any numbers. */
static matrix random_matrix(mica_scope *s, uint32_t seed, int64_t rows, int64_t columns,
                            mica_dtype scales) {
    if (quant.bits == 0) return (matrix){.codes = filled(s, seed, 0.1f, rows, columns, MICA_BF16)};
    matrix m = {.codes = mica_view(s, filled(s, seed, 1, rows, columns * quant.bits / 32, MICA_F32),
                                   MICA_U32),
                .scales = filled(s, seed + 1, 0.01f, rows, columns / quant.group_size, scales),
                .biases = filled(s, seed + 2, 0.03f, rows, columns / quant.group_size, scales)};
    m.codes = done(s, m.codes, true);
    if (quant.mode == MICA_QUANT_MXFP4)
        m.scales = filled(s, seed + 1, 120, rows, columns / quant.group_size, MICA_U8);
    if (quant.mode == MICA_QUANT_MXFP4) m.biases = MICA_NONE;
    return m;
}

static void fill_layer(mica_scope *s, const form *f, mica_dtype scales, mica_dtype norms,
                       layer *l) {
    const int64_t rows[MATRICES] = {f->d, f->hidden, f->hidden, f->d, HEAD};
    const int64_t columns[MATRICES] = {f->hidden, f->d, f->d, f->hidden, f->d};
    for (uint32_t i = 0; i < MATRICES; i++)
        l->of[i] = random_matrix(s, 10 * i, rows[i], columns[i], scales);
    for (uint32_t i = 0; i < 4; i++)
        l->norms[i] = filled(s, 50 + i, 1, 1, f->d, norms);
}

static mica_array multiplied(mica_scope *s, const matrix *m, mica_array x, bool apart) {
    mica_array y = quant.bits == 0
                       ? mc_matmul_rows(s, x, m->codes, true)
                       : mc_quantized_matmul(s, x, m->codes, m->scales, m->biases, quant, true);
    return done(s, y, apart);
}

static mica_array product(mica_scope *s, const layer *l, int i, mica_array x, bool apart) {
    return multiplied(s, &l->of[i], x, apart);
}

typedef mica_array (*activation)(mica_scope *s, mica_array x);

static mica_array row(mica_scope *s, uint32_t seed, int64_t n) {
    return mica_reshape(s, filled(s, seed, 1, 1, n, MICA_F32), (int64_t[]){1, 1, n}, 3);
}

/* What is added to the stream: a product, or its norm. */
static mica_array behind(mica_scope *s, const form *f, mica_array x, mica_array weight,
                         bool apart) {
    return f->inner ? done(s, mica_rms_norm(s, x, weight, 1e-5f), apart) : x;
}

static void compute(mica_scope *s, const form *f, const layer *l, uint32_t seed, activation act,
                    bool apart, mica_array *out) {
    mica_array x = row(s, seed, f->d), y = row(s, seed + 1, f->hidden);
    y = behind(s, f, product(s, l, O, y, apart), l->norms[2], apart);
    out[SUM] = done(s, mica_add(s, x, y), apart);
    out[NORMED] = done(s, mica_rms_norm(s, out[SUM], l->norms[0], 1e-6f), apart);
    mica_array gate = product(s, l, GATE, out[NORMED], apart);
    mica_array up = product(s, l, UP, out[NORMED], apart);
    out[GATED] = done(s, mica_multiply(s, done(s, act(s, gate), apart), up), apart);
    mica_array down = product(s, l, DOWN, out[GATED], apart);
    down = behind(s, f, down, l->norms[3], apart);
    out[SECOND_SUM] = done(s, mica_add(s, out[SUM], down), apart);
    out[SECOND_NORMED] = done(s, mica_rms_norm(s, out[SECOND_SUM], l->norms[1], 1e-6f), apart);
    out[RESULT] = product(s, l, LOGITS, out[SECOND_NORMED], apart);
}

/* asked: a bit for each of the results that are read. */
static void run(mica_device *device, const form *f, const layer *l, uint32_t seed, activation act,
                bool apart, unsigned asked, results *r) {
    mica_scope *s;
    mica_array all[RESULTS], wanted[RESULTS];
    size_t n = 0;
    must(mica_scope_open(device, &s));
    compute(s, f, l, seed, act, apart, all);
    for (int i = 0; i < RESULTS; i++)
        if (asked >> i & 1) wanted[n++] = all[i];
    must(mica_eval_n(s, wanted, n));
    for (int i = 0; i < RESULTS; i++)
        if (asked >> i & 1)
            must(mica_read(all[i], r->of[i], (size_t)mica_array_size(all[i]) * sizeof(float)));
    mica_scope_close(&s);
}

static void check_form(const form *f, mica_dtype scales, mica_dtype norms, activation act,
                       unsigned asked) {
    mica_device *device;
    mica_scope *s;
    layer l;
    static results plain, got;
    quant = f->quant;
    must(mica_device_open("cuda", NULL, &device));
    must(mica_scope_open(device, &s));
    fill_layer(s, f, scales, norms, &l);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        memset(&plain, 0, sizeof plain);
        memset(&got, 0, sizeof got);
        run(device, f, &l, 7 * i, act, true, asked, &plain);
        run(device, f, &l, 7 * i, act, false, asked, &got);
        assert_memory_equal(&plain, &got, sizeof got);
    }
    mica_scope_close(&s);
    mica_device_close(&device);
}

static void check(mica_dtype scales, mica_dtype norms, activation act, unsigned asked) {
    check_form(&plain_form, scales, norms, act, asked);
}

static uint64_t kernels_of_last_graph(void) {
    void *driver = dlopen(MICA_EMULATED_DRIVER, RTLD_NOW);
    uint64_t (*kernels)(void);
    assert_non_null(driver);
    void *symbol = dlsym(driver, "emulated_graph_kernels");
    memcpy(&kernels, &symbol, sizeof symbol);
    return kernels();
}

/* The launch's numbers, four products, and the last sum, whose norm is written over it. */
static void test_a_token_is_few_kernels(void **state) {
    (void)state;
    check(MICA_BF16, MICA_BF16, mica_silu, 1u << RESULT);
    assert_int_equal(kernels_of_last_graph(), 6);
    check(MICA_F16, MICA_F32, mica_gelu_approx, 1u << RESULT);
    assert_int_equal(kernels_of_last_graph(), 6);
}

static void test_other_widths_and_norms_behind(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check_form(&forms[i], MICA_BF16, MICA_F32, mica_gelu_approx, 1u << RESULT);
        assert_int_equal(kernels_of_last_graph(), forms[i].inner ? 5 : 6);
        check_form(&forms[i], MICA_F16, MICA_BF16, mica_silu, 1u << SUM | 1u << RESULT);
        check_form(&forms[i], MICA_BF16, MICA_F32, mica_silu, (1u << RESULTS) - 1);
    }
}

static void test_what_lies_between_is_there(void **state) {
    (void)state;
    check(MICA_BF16, MICA_F32, mica_silu, 1u << NORMED | 1u << RESULT);
    check(MICA_BF16, MICA_BF16, mica_silu, (1u << RESULTS) - 1);
}

/* ---- experts of a token ---- */

enum { EXPERTS = 5, PICKED = 3, EXPERT_D = 256, EXPERT_HIDDEN = 128, TIMES = 3 };

typedef struct experts {
    mica_quant quant;    /* bits 0: bf16 */
    mica_array of[3][3]; /* gate, up, down: codes, scales, biases */
} experts;

static mica_array stacked(mica_scope *s, mica_array x) {
    int64_t rows = mica_array_dim(x, 0) / EXPERTS;
    return done(s, mica_reshape(s, x, (int64_t[]){EXPERTS, rows, mica_array_dim(x, 1)}, 3), true);
}

static void fill_experts(mica_scope *s, experts *e) {
    for (uint32_t i = 0; i < 3; i++) {
        int64_t rows = EXPERTS * (i < 2 ? EXPERT_HIDDEN : EXPERT_D);
        int64_t columns = i < 2 ? EXPERT_D : EXPERT_HIDDEN, groups = columns;
        mica_array *of = e->of[i];
        of[0] = of[1] = of[2] = MICA_NONE;
        if (e->quant.bits == 0) {
            of[0] = stacked(s, filled(s, i, 1, rows, columns, MICA_BF16));
            continue;
        }
        groups /= e->quant.group_size;
        of[0] = filled(s, i, 1, rows, columns * e->quant.bits / 32, MICA_F32);
        of[0] = stacked(s, mica_view(s, of[0], MICA_U32));
        if (e->quant.mode == MICA_QUANT_MXFP4) {
            of[1] = stacked(s, filled(s, 10 + i, 100, rows, groups, MICA_U8));
            continue;
        }
        of[1] = stacked(s, filled(s, 10 + i, 0.01f, rows, groups, MICA_BF16));
        of[2] = stacked(s, filled(s, 20 + i, 0.03f, rows, groups, MICA_BF16));
    }
}

/* x [n, 1, columns], which lhs picks of -> [1, PICKED, 1, rows] */
static mica_array expert(mica_scope *s, const experts *e, int i, mica_array x, mica_array lhs,
                         mica_array rhs, bool apart) {
    const mica_array *of = e->of[i];
    mica_array y = e->quant.bits == 0
                       ? mc_gather_rows(s, x, of[0], lhs, rhs, true)
                       : mc_gather_qmm(s, x, of[0], of[1], of[2], e->quant, lhs, rhs, true);
    return done(s, y, apart);
}

static mica_array experts_of(mica_scope *s, const experts *e, uint32_t seed, bool apart) {
    static const int32_t zero[] = {0}, each[PICKED] = {0, 1, 2};
    const int32_t picks[PICKED] = {(int32_t)seed % EXPERTS, 4, 1};
    mica_array x =
        mica_reshape(s, filled(s, seed, 1, 1, EXPERT_D, MICA_F32), (int64_t[]){1, 1, EXPERT_D}, 3);
    mica_array rhs = mica_from_data(s, picks, MICA_I32, (int64_t[]){1, PICKED}, 2);
    mica_array first = mica_from_data(s, zero, MICA_I32, (int64_t[]){1, 1}, 2);
    mica_array own = mica_from_data(s, each, MICA_I32, (int64_t[]){1, PICKED}, 2);
    mica_array gate = expert(s, e, 0, x, first, rhs, apart);
    mica_array up = expert(s, e, 1, x, first, rhs, apart);
    mica_array y = done(s, mica_multiply(s, done(s, mica_silu(s, gate), apart), up), apart);
    y = mica_reshape(s, y, (int64_t[]){PICKED, 1, EXPERT_HIDDEN}, 3);
    return expert(s, e, 2, y, own, rhs, apart);
}

/* Enough for a graph. */
static void run_experts(mica_device *device, const experts *e, uint32_t seed, bool apart,
                        float (*to)[PICKED * EXPERT_D]) {
    mica_scope *s;
    mica_array y[TIMES];
    must(mica_scope_open(device, &s));
    for (uint32_t i = 0; i < TIMES; i++)
        y[i] = experts_of(s, e, seed + i, apart);
    must(mica_eval_n(s, y, TIMES));
    for (int i = 0; i < TIMES; i++)
        must(mica_read(y[i], to[i], sizeof to[i]));
    mica_scope_close(&s);
}

/* Gate and up, with the gate behind them, and down. */
static void test_experts_of_a_token_are_two_kernels(void **state) {
    (void)state;
    static const mica_quant quants[] = {{MICA_QUANT_AFFINE, 4, 64},
                                        {MICA_QUANT_AFFINE, 8, 64},
                                        {MICA_QUANT_MXFP4, 4, 32},
                                        {MICA_QUANT_AFFINE, 0, 0}};
    for (size_t i = 0; i < sizeof quants / sizeof *quants; i++) {
        mica_device *device;
        mica_scope *s;
        experts e = {.quant = quants[i]};
        float plain[TIMES][PICKED * EXPERT_D], got[TIMES][PICKED * EXPERT_D];
        must(mica_device_open("cuda", NULL, &device));
        must(mica_scope_open(device, &s));
        fill_experts(s, &e);
        for (uint32_t k = 0; k < LAUNCHES; k++) {
            run_experts(device, &e, 7 * k, true, plain);
            run_experts(device, &e, 7 * k, false, got);
            assert_memory_equal(plain, got, sizeof got);
        }
        assert_int_equal(kernels_of_last_graph(), 2 * TIMES + 1); /* and the numbers */
        mica_scope_close(&s);
        mica_device_close(&device);
    }
}

/* ---- attention of a token ---- */

typedef struct token {
    int64_t heads, kv_heads, d, length; /* length: of the caches */
    int32_t first;                      /* the position of the first token */
    mica_dtype cache;
    bool norms;
    int64_t window;
    bool asks;   /* for the heads of the query, too */
    int kernels; /* of its graph, where it does not: numbers, cosines, two products, attention */
} token;

static const token tokens[] = {
    {4, 2, 128, 40, 3, MICA_BF16, true, 0, false, 5},
    {4, 2, 128, 40, 3, MICA_BF16, false, 0, false, 5},
    {8, 2, 64, 300, 253, MICA_F32, false, 0, false, 5}, /* parts of two blocks from 256 on */
    {8, 4, 64, 600, 530, MICA_F16, true, 0, true, 5},
    {8, 1, 64, 300, 280, MICA_BF16, true, 100, false, 5}, /* a warp has two heads */
    {4, 1, 256, 90, 62, MICA_BF16, true, 0, true, 5},
    {16, 1, 128, 64, 3, MICA_BF16, true, 0, false, 5}, /* heads that share a key in two blocks */
};

enum { TOKENS = 6, WIDTH = 512 };

static mica_array heads_of(mica_scope *s, const token *t, const matrix *m, mica_array x, int64_t n,
                           bool apart) {
    mica_array y = multiplied(s, m, x, apart);
    return mica_swapaxes(s, mica_reshape(s, y, (int64_t[]){1, 1, n, t->d}, 4), 1, 2);
}

static mica_array turned(mica_scope *s, const token *t, mica_array x, mica_array at,
                         mica_array weight, bool apart) {
    const mica_rope_options options = {
        .struct_bytes = sizeof options, .dims = (int)t->d, .base = 1e4f};
    if (t->norms) x = done(s, mica_rms_norm(s, x, weight, 1e-6f), apart);
    return done(s, mica_rope(s, x, at, MICA_NONE, &options), apart);
}

static mica_array cached(mica_scope *s, mica_array cache, mica_array x, mica_array at, bool apart) {
    if (mica_array_dtype(cache) != MICA_F32)
        x = done(s, mica_astype(s, x, mica_array_dtype(cache)), apart);
    return done(s, mica_slice_update_at(s, cache, x, at, 2), apart);
}

/* A token at a position: its result, the caches, and the heads of its query. */
static void attend(mica_scope *s, const token *t, const matrix *of, mica_array weight,
                   const mica_array *old, uint32_t seed, int32_t position, bool apart,
                   mica_array *out) {
    mica_array at = mica_i32(s, position);
    mica_array x =
        mica_reshape(s, filled(s, seed, 1, 1, WIDTH, MICA_F32), (int64_t[]){1, 1, WIDTH}, 3);
    mica_array q = heads_of(s, t, &of[0], x, t->heads, apart);
    mica_array k = heads_of(s, t, &of[1], x, t->kv_heads, apart);
    mica_array v = heads_of(s, t, &of[2], x, t->kv_heads, apart);
    out[3] = turned(s, t, q, at, weight, apart);
    out[1] = cached(s, old[0], turned(s, t, k, at, weight, apart), at, apart);
    out[2] = cached(s, old[1], v, at, apart);
    mica_sdpa_options options = {
        .struct_bytes = sizeof options, .causal = true, .window = t->window, .offset = at};
    mica_array y = done(s, mica_sdpa(s, out[3], out[1], out[2], &options), apart);
    y = mica_reshape(s, mica_swapaxes(s, y, 1, 2), (int64_t[]){1, 1, t->heads * t->d}, 3);
    out[0] = multiplied(s, &of[3], y, apart);
}

/* The results of tokens, one after the other, their queries where these are asked for, and what the
 * caches have in the end. */
static void attend_all(mica_device *device, const token *t, bool apart, float *to) {
    mica_scope *all, *s;
    must(mica_scope_open(device, &all));
    const int64_t shape[] = {1, t->kv_heads, t->length, t->d}, width = t->heads * t->d;
    const int64_t rows[] = {width, t->kv_heads * t->d, t->kv_heads * t->d, WIDTH};
    mica_array caches[2], weight = filled(all, 3, 1, 1, t->d, MICA_BF16), out[4];
    matrix of[4];
    for (uint32_t i = 0; i < 4; i++)
        of[i] = random_matrix(all, 10 * i, rows[i], i < 3 ? WIDTH : width, MICA_BF16);
    for (uint32_t i = 0; i < 2; i++) {
        caches[i] = filled(all, i, 1, t->kv_heads * t->length, t->d, t->cache);
        caches[i] = done(all, mica_reshape(all, caches[i], shape, 4), true);
    }
    for (int32_t i = 0; i < TOKENS; i++) {
        must(mica_scope_open(device, &s));
        mica_array old[] = {mica_move(s, caches[0]), mica_move(s, caches[1])};
        attend(s, t, of, weight, old, 100 * (uint32_t)i, t->first + i, apart, out);
        must(mica_eval_n(s, out, t->asks ? 4 : 3));
        must(mica_read(out[0], to, WIDTH * sizeof *to));
        to += WIDTH;
        if (t->asks) must(mica_read(out[3], to, (size_t)width * sizeof *to));
        if (t->asks) to += width;
        caches[0] = mica_materialize(all, out[1]);
        caches[1] = mica_materialize(all, out[2]);
        mica_scope_close(&s);
    }
    for (int i = 0; i < 2; i++) {
        mica_array cache = mica_astype(all, caches[i], MICA_F32);
        must(mica_read(cache, to, (size_t)mica_array_size(cache) * sizeof *to));
        to += mica_array_size(cache);
    }
    mica_scope_close(&all);
}

static void test_a_token_attends_in_one_kernel(void **state) {
    (void)state;
    quant = plain_form.quant;
    enum { ALL = 1 << 19 };
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        float *plain = calloc(ALL, sizeof *plain), *got = calloc(ALL, sizeof *got);
        mica_device *device;
        must(mica_device_open("cuda", NULL, &device));
        attend_all(device, &tokens[i], true, plain);
        attend_all(device, &tokens[i], false, got);
        mica_device_close(&device);
        for (int k = 0; k < ALL; k++)
            if (plain[k] != got[k])
                fail_msg("case %zu, number %d: %.9g, not %.9g", i, k, (double)got[k],
                         (double)plain[k]);
        if (!tokens[i].asks) assert_int_equal(kernels_of_last_graph(), tokens[i].kernels);
        free(plain);
        free(got);
    }
}

static int set_driver(void **state) {
    (void)state;
    return setenv("MICA_CUDA_LIBRARY", MICA_EMULATED_DRIVER, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_token_is_few_kernels),
        cmocka_unit_test(test_other_widths_and_norms_behind),
        cmocka_unit_test(test_what_lies_between_is_there),
        cmocka_unit_test(test_experts_of_a_token_are_two_kernels),
        cmocka_unit_test(test_a_token_attends_in_one_kernel),
    };
    return cmocka_run_group_tests(tests, set_driver, NULL);
}
