/* Rows that are computed together have the bits that each has alone, for every number of rows that
 * a step of an answer has: products by weights of all formats, what stands around them in a layer,
 * and attention over caches of all types. Where a device adds up in an order of its own, about
 * these. */
#include "op/fused.h"
#include "op/matmul.h"
#include "op/quant.h"

#include <stdio.h>

enum { ROWS = 8, K = 256, N = 19, WIDE = 128, EXPERTS = 3, PICKS = 2 };

/* What a case computes for the rows [from, to) of all. */
typedef struct operands {
    mica_scope *s;
    int64_t from, to;
} operands;

static mica_array rows(const operands *o, mica_array x) {
    return mica_slice_axis(o->s, x, 0, o->from, o->to);
}

/* An evaluated array of noise. */
static mica_array given(mica_scope *s, uint64_t seed, mica_dtype dtype, const int64_t *shape,
                        int ndim) {
    mica_array x = noise(s, seed, dtype, shape, ndim);
    if (mica_eval(s, x) != MICA_OK) fail_msg("%s", mica_last_error());
    return x;
}

/* Compares all numbers of rows with each row alone. compute: y [rows, ...] in any dtype. */
static void check_rows(mica_scope *s, mica_array (*compute)(const operands *o, const void *what),
                       const void *what, double slack, const char *fmt, const char *name,
                       int more) {
    mica_array alone[ROWS];
    char text[96];
    (void)snprintf(text, sizeof text, fmt, name, more);
    for (int64_t i = 0; i < ROWS; i++) {
        alone[i] = compute(&(operands){s, i, i + 1}, what);
        if (mica_eval(s, alone[i]) != MICA_OK) fail_msg("%s: %s", text, mica_last_error());
    }
    for (int64_t n = 2; n <= ROWS; n++) {
        mica_array y = compute(&(operands){s, ROWS - n, ROWS}, what);
        mica_array want = mica_concatenate(s, alone + ROWS - n, (int)n, 0);
        float *a = floats_of(s, y), *b = floats_of(s, want);
        assert_int_equal(mica_array_size(y), mica_array_size(want));
        for (int64_t i = 0; i < mica_array_size(y); i++) {
            double off = fabs((double)a[i] - (double)b[i]);
            bool same =
                test_device_keeps_order() ? memcmp(&a[i], &b[i], sizeof *a) == 0 : off <= slack;
            if (!same)
                fail_msg("%s: %lld rows, element %lld is %.9g, alone %.9g", text, (long long)n,
                         (long long)i, (double)a[i], (double)b[i]);
        }
        free(a);
        free(b);
    }
}

/* ---- products ---- */

typedef struct format {
    const char *name;
    mica_quant quant; /* bits 0: not quantised */
    mica_dtype dtype; /* of such weights, else of scales and biases */
} format;

static const format formats[] = {
    {"f32", {0}, MICA_F32},
    {"f16", {0}, MICA_F16},
    {"bf16", {0}, MICA_BF16},
    {"2 bits of 32", {MICA_QUANT_AFFINE, 2, 32}, MICA_BF16},
    {"2 bits of 64", {MICA_QUANT_AFFINE, 2, 64}, MICA_BF16},
    {"3 bits of 64", {MICA_QUANT_AFFINE, 3, 64}, MICA_BF16},
    {"3 bits of 128", {MICA_QUANT_AFFINE, 3, 128}, MICA_BF16},
    {"4 bits of 32", {MICA_QUANT_AFFINE, 4, 32}, MICA_BF16},
    {"4 bits of 64", {MICA_QUANT_AFFINE, 4, 64}, MICA_BF16},
    {"4 bits of 128", {MICA_QUANT_AFFINE, 4, 128}, MICA_BF16},
    {"4 bits of 64, f16", {MICA_QUANT_AFFINE, 4, 64}, MICA_F16},
    {"4 bits of 64, f32", {MICA_QUANT_AFFINE, 4, 64}, MICA_F32},
    {"5 bits of 64", {MICA_QUANT_AFFINE, 5, 64}, MICA_BF16},
    {"6 bits of 32", {MICA_QUANT_AFFINE, 6, 32}, MICA_BF16},
    {"6 bits of 64", {MICA_QUANT_AFFINE, 6, 64}, MICA_BF16},
    {"8 bits of 32", {MICA_QUANT_AFFINE, 8, 32}, MICA_BF16},
    {"8 bits of 64", {MICA_QUANT_AFFINE, 8, 64}, MICA_BF16},
    {"8 bits of 128", {MICA_QUANT_AFFINE, 8, 128}, MICA_BF16},
    {"mxfp4", {MICA_QUANT_MXFP4, 4, 32}, MICA_BF16},
    {"mxfp8", {MICA_QUANT_MXFP8, 8, 32}, MICA_BF16},
    {"nvfp4", {MICA_QUANT_NVFP4, 4, 16}, MICA_BF16},
};

typedef struct matrix {
    mica_array codes, scales, biases;
} matrix;

typedef struct products {
    const format *f;
    int fast;
    mica_array x, narrow; /* [ROWS, K], [ROWS, WIDE] */
    mica_array norm;      /* [WIDE] */
    mica_array lhs, rhs;  /* i32 [ROWS, 1], [ROWS, PICKS] */
    matrix one, stack;    /* [N, K], [EXPERTS, N, K] */
    matrix gate, up, down;
} products;

static matrix make_matrix(mica_scope *s, const format *f, uint64_t seed, const int64_t *shape,
                          int ndim) {
    matrix m = {given(s, seed, f->dtype, shape, ndim), MICA_NONE, MICA_NONE};
    if (!f->quant.bits) return m;
    mica_status status = mica_quantize(s, m.codes, f->quant, &m.codes, &m.scales, &m.biases);
    mica_array all[] = {m.codes, m.scales, m.biases};
    if (status == MICA_OK) status = mica_eval_n(s, all, mica_valid(m.biases) ? 3 : 2);
    if (status != MICA_OK) fail_msg("%s: %s", f->name, mica_last_error());
    return m;
}

static mica_array product(mica_scope *s, const products *p, const matrix *m, mica_array x) {
    if (!p->f->quant.bits) return mc_matmul_rows(s, x, m->codes, p->fast > 0);
    return mc_quantized_matmul(s, x, m->codes, m->scales, m->biases, p->f->quant, p->fast);
}

static mica_array one_product(const operands *o, const void *what) {
    const products *p = what;
    return product(o->s, p, &p->one, rows(o, p->x));
}

/* Experts that each row picks: [rows, PICKS, 1, N]. */
static mica_array picked(const operands *o, const void *what) {
    const products *p = what;
    const matrix *m = &p->stack;
    int64_t n = o->to - o->from;
    operands first = {o->s, 0, n}; /* rows of x count from its own first */
    mica_array x = mica_reshape(o->s, rows(o, p->x), (int64_t[]){n, 1, K}, 3);
    mica_array lhs = rows(&first, p->lhs), rhs = rows(o, p->rhs);
    if (!p->f->quant.bits) return mc_gather_rows(o->s, x, m->codes, lhs, rhs, p->fast > 0);
    return mc_gather_qmm(o->s, x, m->codes, m->scales, m->biases, p->f->quant, lhs, rhs, p->fast);
}

/* A layer's MLP, with what a device makes one kernel of. */
static mica_array mlp(const operands *o, const void *what) {
    const products *p = what;
    mica_scope *s = o->s;
    mica_array x = rows(o, p->narrow), y = mica_rms_norm(s, x, p->norm, 1e-5f);
    mica_array gate = product(s, p, &p->gate, y), up = product(s, p, &p->up, y);
    y = product(s, p, &p->down, mica_multiply(s, mica_silu(s, gate), up));
    return mica_rms_norm(s, mica_add(s, x, y), p->norm, 1e-5f);
}

static void products_of_all_formats(void **state) {
    (void)state;
    static const int32_t lhs[ROWS] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int32_t rhs[ROWS * PICKS] = {0, 2, 1, 1, 2, 0, 0, 1, 1, 2, 2, 2, 0, 1, 1, 0};
    bench b = bench_open();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const format *f = &formats[i];
        mica_scope *s;
        assert_int_equal(mica_scope_open(b.device, &s), MICA_OK);
        products p = {.f = f,
                      .x = given(s, 1, MICA_F32, SHAPE(ROWS, K)),
                      .narrow = given(s, 2, MICA_F32, SHAPE(ROWS, WIDE)),
                      .norm = given(s, 3, MICA_F32, SHAPE(WIDE)),
                      .lhs = i32s(s, lhs, SHAPE(ROWS, 1)),
                      .rhs = i32s(s, rhs, SHAPE(ROWS, PICKS)),
                      .one = make_matrix(s, f, 4, SHAPE(N, K)),
                      .stack = make_matrix(s, f, 5, SHAPE(EXPERTS, N, K)),
                      .gate = make_matrix(s, f, 6, SHAPE(WIDE, WIDE)),
                      .up = make_matrix(s, f, 7, SHAPE(WIDE, WIDE)),
                      .down = make_matrix(s, f, 8, SHAPE(WIDE, WIDE))};
        const int forms = test_device_is_other() ? 2 : 3; /* codes of the CPU */
        for (p.fast = 0; p.fast < forms; p.fast++) {
            check_rows(s, one_product, &p, 0.1, "%s, fast %d", f->name, p.fast);
            check_rows(s, picked, &p, 0.1, "%s, fast %d, picked", f->name, p.fast);
            check_rows(s, mlp, &p, 0.1, "%s, fast %d, an MLP", f->name, p.fast);
        }
        mica_scope_close(&s);
    }
    bench_close(&b);
}

/* ---- what goes by rows ---- */

enum { HEADS = 4, WIDTH = 64 };

typedef struct plain {
    mica_array x, other, weight; /* [ROWS, D] twice, [D] */
    mica_array heads, places;    /* [ROWS, HEADS, 1, WIDTH], i32 [ROWS] */
} plain;

typedef mica_array row_op(mica_scope *s, const plain *p);

static mica_array op_rms_norm(mica_scope *s, const plain *p) {
    return mica_rms_norm(s, p->x, p->weight, 1e-6f);
}
static mica_array op_layer_norm(mica_scope *s, const plain *p) {
    return mica_layer_norm(s, p->x, p->weight, p->weight, 1e-6f);
}
static mica_array op_norm_of_sum(mica_scope *s, const plain *p) {
    return mica_rms_norm(s, mica_add(s, p->x, mica_rms_norm(s, p->other, p->weight, 1e-6f)),
                         p->weight, 1e-6f);
}
static mica_array op_softmax(mica_scope *s, const plain *p) {
    return mica_softmax(s, p->x, -1);
}
static mica_array op_logsumexp(mica_scope *s, const plain *p) {
    return mica_logsumexp(s, p->x, &(int){-1}, 1, true);
}
static mica_array op_sum(mica_scope *s, const plain *p) {
    return mica_sum(s, p->x, &(int){-1}, 1, true);
}
static mica_array op_argmax(mica_scope *s, const plain *p) {
    return mica_argmax(s, p->x, -1, true);
}
static mica_array op_topk(mica_scope *s, const plain *p) {
    return mica_topk(s, p->x, 5, -1);
}
static mica_array op_cumsum(mica_scope *s, const plain *p) {
    return mica_cumsum(s, p->x, 1, false, true);
}
static mica_array op_gated(mica_scope *s, const plain *p) {
    return mica_multiply(s, mica_silu(s, p->x), p->other);
}
static mica_array op_gelu(mica_scope *s, const plain *p) {
    return mica_multiply(s, mica_gelu_approx(s, p->x), p->other);
}
static mica_array op_rope(mica_scope *s, const plain *p) {
    return mica_rope(s, p->heads, p->places, MICA_NONE, NULL);
}

static const struct row_case {
    const char *name;
    row_op *op;
} plain_cases[] = {
    {"rms_norm", op_rms_norm},
    {"layer_norm", op_layer_norm},
    {"norm of a sum", op_norm_of_sum},
    {"softmax", op_softmax},
    {"logsumexp", op_logsumexp},
    {"sum", op_sum},
    {"argmax", op_argmax},
    {"topk", op_topk},
    {"cumsum", op_cumsum},
    {"silu", op_gated},
    {"gelu", op_gelu},
    {"rope", op_rope},
};

typedef struct plain_case {
    const plain *all;
    row_op *op;
} plain_case;

static mica_array compute_plain(const operands *o, const void *what) {
    const plain_case *c = what;
    const plain part = {rows(o, c->all->x), rows(o, c->all->other), c->all->weight,
                        rows(o, c->all->heads), rows(o, c->all->places)};
    return c->op(o->s, &part);
}

static void what_goes_by_rows(void **state) {
    (void)state;
    static const int32_t places[ROWS] = {0, 5, 1000, 17, 3, 40000, 8, 9};
    static const int64_t widths[] = {96, 1152, 4099};
    bench b = bench_open();
    for (int i = 0; i < 3; i++) {
        const plain all = {given(b.s, 1, MICA_F32, SHAPE(ROWS, widths[i])),
                           given(b.s, 2, MICA_F32, SHAPE(ROWS, widths[i])),
                           given(b.s, 3, MICA_F32, SHAPE(widths[i])),
                           given(b.s, 4, MICA_F32, SHAPE(ROWS, HEADS, 1, WIDTH)),
                           i32s(b.s, places, SHAPE(ROWS))};
        for (size_t k = 0; k < sizeof plain_cases / sizeof *plain_cases; k++)
            check_rows(b.s, compute_plain, &(plain_case){&all, plain_cases[k].op}, 1e-3,
                       "%s of %d numbers", plain_cases[k].name, (int)widths[i]);
    }
    bench_close(&b);
}

/* ---- attention and recurrences ---- */

enum { KEYS = 96, BLOCK = 32, KV = 2 };

typedef struct cached {
    mica_array q, k, v; /* [ROWS, HEADS, 1, WIDTH], [ROWS, KV, KEYS, ...] */
    mica_array offset, sinks;
    mica_array pool_k, pool_v, table; /* [KV, ROWS * KEYS / BLOCK, BLOCK, ...] */
    int64_t window;
} cached;

static mica_sdpa_options seen(const operands *o, const cached *c) {
    return (mica_sdpa_options){
        .causal = true, .window = c->window, .offset = rows(o, c->offset), .sinks = c->sinks};
}

static mica_array attend(const operands *o, const void *what) {
    const cached *c = what;
    const mica_sdpa_options options = seen(o, c);
    return mica_sdpa(o->s, rows(o, c->q), rows(o, c->k), rows(o, c->v), &options);
}

static mica_array attend_blocks(const operands *o, const void *what) {
    const cached *c = what;
    const mica_sdpa_options options = seen(o, c);
    return mica_paged_sdpa(o->s, rows(o, c->q), c->pool_k, c->pool_v, rows(o, c->table), &options);
}

/* The rows are tokens that follow each other, as a draft's: of the cache that the first row has. */
static mica_array attend_draft(const operands *o, const void *what) {
    const cached *c = what;
    mica_scope *s = o->s;
    const operands first = {s, 0, 1};
    mica_sdpa_options options = seen(&first, c);
    options.offset = mica_i32(s, (int32_t)(KEYS - ROWS + o->from));
    mica_array q = mica_swapaxes(s, rows(o, c->q), 0, 2); /* [1, HEADS, rows, WIDTH] */
    mica_array y = mica_sdpa(s, q, rows(&first, c->k), rows(&first, c->v), &options);
    return mica_contiguous(s, mica_swapaxes(s, y, 0, 2));
}

static mica_array as_cache(mica_scope *s, mica_array x, mica_dtype dtype) {
    x = dtype == MICA_U8 ? mica_to_q8(s, x) : mica_astype(s, x, dtype);
    if (mica_eval(s, x) != MICA_OK) fail_msg("%s", mica_last_error());
    return x;
}

static void attention_over_caches(void **state) {
    (void)state;
    static const mica_dtype types[] = {MICA_F32, MICA_F16, MICA_BF16, MICA_U8};
    static const int32_t offsets[ROWS] = {95, 0, 31, 32, 64, 50, 7, 94};
    enum { BLOCKS = KEYS / BLOCK };
    int32_t table[ROWS * BLOCKS];
    bench b = bench_open();
    for (int i = 0; i < ROWS * BLOCKS; i++)
        table[i] = i * 5 % (ROWS * BLOCKS); /* in no order */
    for (int i = 0; i < 8; i++) {
        const mica_dtype type = types[i / 2];
        const cached c = {
            .q = given(b.s, 1, MICA_F32, SHAPE(ROWS, HEADS, 1, WIDTH)),
            .k = as_cache(b.s, noise(b.s, 2, MICA_F32, SHAPE(ROWS, KV, KEYS, WIDTH)), type),
            .v = as_cache(b.s, noise(b.s, 3, MICA_F32, SHAPE(ROWS, KV, KEYS, WIDTH)), type),
            .pool_k = as_cache(b.s, noise(b.s, 4, MICA_F32, SHAPE(KV, ROWS * BLOCKS, BLOCK, WIDTH)),
                               type),
            .pool_v = as_cache(b.s, noise(b.s, 5, MICA_F32, SHAPE(KV, ROWS * BLOCKS, BLOCK, WIDTH)),
                               type),
            .table = i32s(b.s, table, SHAPE(ROWS, BLOCKS)),
            .offset = i32s(b.s, offsets, SHAPE(ROWS)),
            .sinks = i % 2 ? given(b.s, 6, MICA_F32, SHAPE(HEADS)) : MICA_NONE,
            .window = i % 2 ? 40 : 0};
        const char *name = mica_dtype_name(type);
        check_rows(b.s, attend, &c, 0.02, "keys of %s, window %d", name, (int)c.window);
        check_rows(b.s, attend_blocks, &c, 0.02, "blocks of %s, window %d", name, (int)c.window);
        check_rows(b.s, attend_draft, &c, 0.02, "a draft over %s, window %d", name, (int)c.window);
    }
    bench_close(&b);
}

typedef struct recurrent {
    mica_array q, k, v, g, beta, state; /* of gated_delta */
    mica_array x, delta, a, b, c;       /* of selective_scan */
} recurrent;

static mica_array delta_step(const operands *o, const void *what) {
    const recurrent *r = what;
    return mica_gated_delta(o->s, rows(o, r->q), rows(o, r->k), rows(o, r->v), rows(o, r->g),
                            rows(o, r->beta), rows(o, r->state), NULL);
}

static mica_array scan_step(const operands *o, const void *what) {
    const recurrent *r = what;
    return mica_selective_scan(o->s, rows(o, r->x), rows(o, r->delta), r->a, rows(o, r->b),
                               rows(o, r->c), NULL, NULL);
}

static void recurrences(void **state) {
    (void)state;
    bench b = bench_open();
    for (int steps = 1; steps <= 3; steps += 2) {
        const recurrent r = {
            .q = given(b.s, 1, MICA_F32, SHAPE(ROWS, steps, 2, 32)),
            .k = given(b.s, 2, MICA_F32, SHAPE(ROWS, steps, 2, 32)),
            .v = given(b.s, 3, MICA_F32, SHAPE(ROWS, steps, 4, 16)),
            .g = given(b.s, 4, MICA_F32, SHAPE(ROWS, steps, 4)),
            .beta = given(b.s, 5, MICA_F32, SHAPE(ROWS, steps, 4)),
            .state = given(b.s, 6, MICA_F32, SHAPE(ROWS, 4, 32, 16)),
            .x = given(b.s, 7, MICA_F32, SHAPE(ROWS, steps, 24)),
            .delta = given(b.s, 8, MICA_F32, SHAPE(ROWS, steps, 24)),
            .a = given(b.s, 9, MICA_F32, SHAPE(24, 8)),
            .b = given(b.s, 10, MICA_F32, SHAPE(ROWS, steps, 8)),
            .c = given(b.s, 11, MICA_F32, SHAPE(ROWS, steps, 8)),
        };
        check_rows(b.s, delta_step, &r, 1e-3, "%s of %d", "gated_delta", steps);
        check_rows(b.s, scan_step, &r, 1e-3, "%s of %d", "selective_scan", steps);
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_all_formats),
        cmocka_unit_test(what_goes_by_rows),
        cmocka_unit_test(attention_over_caches),
        cmocka_unit_test(recurrences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
