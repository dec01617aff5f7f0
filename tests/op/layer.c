/* Attention blocks, layers and residual norms of mica/nn.h against their formulas in f64, written
 * anew: with and without biases, tables of positions, and fewer heads of k and v than of q. Goldens
 * of the other forms are those of tests/op/golden_layer.c. */
#include "op/floats.h"

enum { BATCH = 2, LENGTH = 5, WIDTH = 6, FORWARD = 10, MAX = 4096 };

/* ---- in f64 ---- */

/* y [rows, n] = x [rows, k] w [k, n] + bias [n] */
static void product(const double *x, const float *w, const float *bias, int rows, int k, int n,
                    double *y) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < n; c++) {
            double sum = bias ? (double)bias[c] : 0;
            for (int i = 0; i < k; i++)
                sum += x[r * k + i] * (double)w[i * n + c];
            y[r * n + c] = sum;
        }
}

/* Layer normalisation of rows, or root-mean-square normalisation. */
static void norm(double *x, const float *gamma, const float *beta, int rows, int n, bool rms) {
    for (int r = 0; r < rows; r++, x += n) {
        double mean = 0, square = 0;
        for (int i = 0; i < n && !rms; i++)
            mean += x[i] / n;
        for (int i = 0; i < n; i++)
            square += (x[i] - mean) * (x[i] - mean) / n;
        for (int i = 0; i < n; i++)
            x[i] = (x[i] - mean) / sqrt(square + 1e-5) * (gamma ? (double)gamma[i] : 1) +
                   (beta ? (double)beta[i] : 0);
    }
}

typedef struct block {
    int heads, kv_heads, head_dim, n_rot; /* n_rot 0: no tables */
    bool biases, causal;
} block;

static int columns(const block *b) {
    return (b->heads + 2 * b->kv_heads) * b->head_dim;
}

/* Numbers of what a block has; noise of a seed each. */
typedef struct values {
    float x[MAX], qkv[MAX], qkv_bias[MAX], out[MAX], out_bias[MAX], cos[MAX], sin[MAX];
} values;

static const float *bias_of(const block *b, const float *bias) {
    return b->biases ? bias : NULL;
}

static void rotate(const block *b, const values *v, double *head, int position) {
    const int half = b->n_rot / 2;
    for (int i = 0; i < half; i++) {
        double c = (double)v->cos[position * half + i], s = (double)v->sin[position * half + i];
        double low = head[i], high = head[i + half];
        head[i] = low * c - high * s;
        head[i + half] = high * c + low * s;
    }
}

/* What head h of query i gives: y [head_dim]. qkv: the rows of one text. */
static void attend(const block *b, const double *qkv, int h, int i, double *y) {
    const int e = b->head_dim, all = columns(b), group = h / (b->heads / b->kv_heads);
    double p[LENGTH], sum = 0;
    for (int j = 0; j < LENGTH; j++) {
        double score = 0;
        for (int d = 0; d < e; d++)
            score += qkv[i * all + h * e + d] * qkv[j * all + (b->heads + group) * e + d];
        p[j] = b->causal && j > i ? 0 : exp(score / sqrt(e));
        sum += p[j];
    }
    for (int d = 0; d < e; d++) {
        y[d] = 0;
        for (int j = 0; j < LENGTH; j++)
            y[d] += p[j] / sum * qkv[j * all + (b->heads + b->kv_heads + group) * e + d];
    }
}

static void attention_block(const block *b, const values *v, double *y) {
    static double x[MAX], qkv[MAX], heads[MAX];
    const int all = columns(b), e = b->head_dim, rows = BATCH * LENGTH;
    for (int i = 0; i < rows * WIDTH; i++)
        x[i] = (double)v->x[i];
    product(x, v->qkv, bias_of(b, v->qkv_bias), rows, WIDTH, all, qkv);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < b->heads + b->kv_heads; h++)
            rotate(b, v, qkv + r * all + h * e, r % LENGTH);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < b->heads; h++)
            attend(b, qkv + r / LENGTH * LENGTH * all, h, r % LENGTH,
                   heads + (r * b->heads + h) * e);
    product(heads, v->out, bias_of(b, v->out_bias), rows, b->heads * e, WIDTH, y);
}

/* ---- as arrays ---- */

static void fill_values(values *v) {
    float *const lists[] = {v->x, v->qkv, v->qkv_bias, v->out, v->out_bias, v->cos, v->sin};
    for (uint32_t i = 0; i < 7; i++) {
        fill(lists[i], MAX, i + 1);
        for (int k = 0; k < MAX; k++)
            lists[i][k] *= 0.25f;
    }
}

static mica_attention_weights weights_of(mica_scope *s, const block *b, const values *v) {
    const int64_t all = columns(b), half = b->n_rot / 2;
    mica_attention_weights w = {.qkv = f32s(s, v->qkv, SHAPE(WIDTH, all)),
                                .out = f32s(s, v->out, SHAPE(b->heads * b->head_dim, WIDTH))};
    if (b->biases) {
        w.qkv_bias = f32s(s, v->qkv_bias, SHAPE(all));
        w.out_bias = f32s(s, v->out_bias, SHAPE(WIDTH));
    }
    if (half > 0) { /* more positions than there are */
        w.cos = f32s(s, v->cos, SHAPE(LENGTH + 2, half));
        w.sin = f32s(s, v->sin, SHAPE(LENGTH + 2, half));
    }
    return w;
}

static mica_masked_attention_options options_of(const block *b) {
    return (mica_masked_attention_options){.kind = b->causal ? MICA_MASK_CAUSAL : MICA_MASK_NONE,
                                           .heads = b->heads,
                                           .kv_heads = b->kv_heads == b->heads ? 0 : b->kv_heads};
}

static void expect_near(mica_array y, const double *want, int n) {
    float *got = read_f32(y);
    assert_int_equal(mica_array_size(y), n);
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 2e-5 * (1 + fabs(want[i]))))
            fail_msg("element %d is %.9g, not %.9g", i, (double)got[i], want[i]);
    free(got);
}

static const block blocks[] = {{2, 2, 3, 0, false, false}, {2, 2, 4, 4, true, true},
                               {4, 2, 4, 2, true, true},   {4, 1, 4, 4, false, false},
                               {3, 3, 2, 0, true, true},   {1, 1, 6, 6, false, true}};

static void attention_blocks(void **state) {
    (void)state;
    static values v;
    double want[BATCH * LENGTH * WIDTH];
    fill_values(&v);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        bench b = bench_open();
        const mica_attention_weights w = weights_of(b.s, &blocks[i], &v);
        const mica_masked_attention_options o = options_of(&blocks[i]);
        mica_array x = f32s(b.s, v.x, SHAPE(BATCH, LENGTH, WIDTH));
        attention_block(&blocks[i], &v, want);
        expect_near(mica_attention_block(b.s, x, &w, &o), want, BATCH * LENGTH * WIDTH);
        bench_close(&b);
    }
}

static void attention_blocks_refuse(void **state) {
    (void)state;
    static values v;
    bench b = bench_open();
    fill_values(&v);
    const struct {
        int heads;
        int64_t kv_heads;
        const char *text;
    } wrong[] = {{0, 0, "24 columns for 0 heads of q"},
                 {-1, 1, "for -1 heads"},
                 {3, 2, "24 columns for 3 heads of q, 2 of k and of v"},
                 {4, -2, "-2 of k"},
                 {1, INT64_MAX, "of k and of v"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const mica_attention_weights w = weights_of(b.s, &blocks[1], &v);
        const mica_masked_attention_options o = {.heads = wrong[i].heads,
                                                 .kv_heads = wrong[i].kv_heads};
        mica_array x = f32s(b.s, v.x, SHAPE(BATCH, LENGTH, WIDTH));
        expect_failure(&b, mica_attention_block(b.s, x, &w, &o), MICA_ESHAPE, wrong[i].text);
    }
    mica_array x = f32s(b.s, v.x, SHAPE(BATCH, LENGTH, WIDTH));
    expect_failure(&b, mica_attention_block(b.s, x, NULL, NULL), MICA_EINVAL, "weights are NULL");
    x = f32s(b.s, v.x, SHAPE(BATCH, LENGTH, WIDTH));
    expect_failure(&b, mica_transformer_layer(b.s, x, NULL, MICA_ACT_RELU, 1e-5f, NULL),
                   MICA_EINVAL, "weights are NULL");
    bench_close(&b);
}

/* Layers without any bias, and with all. */
static void layers(void **state) {
    (void)state;
    static values v;
    static float up[WIDTH * FORWARD], down[WIDTH * FORWARD], more[6][FORWARD];
    const int rows = BATCH * LENGTH, n = rows * WIDTH;
    double y[BATCH * LENGTH * WIDTH], h[BATCH * LENGTH * FORWARD], z[BATCH * LENGTH * WIDTH];
    fill_values(&v);
    fill(up, WIDTH * FORWARD, 11);
    fill(down, WIDTH * FORWARD, 12);
    for (uint32_t i = 0; i < 6; i++)
        fill(more[i], FORWARD, 20 + i);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const block *at = &blocks[i];
        attention_block(at, &v, y);
        for (int k = 0; k < n; k++)
            y[k] += (double)v.x[k];
        norm(y, more[0], bias_of(at, more[1]), rows, WIDTH, false);
        product(y, up, bias_of(at, more[2]), rows, WIDTH, FORWARD, h);
        for (int k = 0; k < rows * FORWARD; k++)
            h[k] = h[k] > 0 ? h[k] : 0;
        product(h, down, bias_of(at, more[3]), rows, FORWARD, WIDTH, z);
        for (int k = 0; k < n; k++)
            z[k] += y[k];
        norm(z, more[4], bias_of(at, more[5]), rows, WIDTH, false);
        bench b = bench_open();
        mica_layer_weights w = {.attention = weights_of(b.s, at, &v),
                                .norm1 = f32s(b.s, more[0], SHAPE(WIDTH)),
                                .up = f32s(b.s, up, SHAPE(WIDTH, FORWARD)),
                                .down = f32s(b.s, down, SHAPE(FORWARD, WIDTH)),
                                .norm2 = f32s(b.s, more[4], SHAPE(WIDTH))};
        if (at->biases) {
            w.norm1_bias = f32s(b.s, more[1], SHAPE(WIDTH));
            w.up_bias = f32s(b.s, more[2], SHAPE(FORWARD));
            w.down_bias = f32s(b.s, more[3], SHAPE(WIDTH));
            w.norm2_bias = f32s(b.s, more[5], SHAPE(WIDTH));
        }
        const mica_masked_attention_options o = options_of(at);
        mica_array x = f32s(b.s, v.x, SHAPE(BATCH, LENGTH, WIDTH));
        expect_near(mica_transformer_layer(b.s, x, &w, MICA_ACT_RELU, 1e-5f, &o), z, n);
        bench_close(&b);
    }
}

/* With and without the bias and gamma. */
static void residual_rms_norms(void **state) {
    (void)state;
    float x[3 * WIDTH], r[3 * WIDTH], bias[WIDTH], gamma[WIDTH];
    double want[3 * WIDTH];
    fill(x, 3 * WIDTH, 1);
    fill(r, 3 * WIDTH, 2);
    fill(bias, WIDTH, 3);
    fill(gamma, WIDTH, 4);
    for (int form = 0; form < 4; form++) {
        const float *b0 = form & 1 ? bias : NULL, *g0 = form & 2 ? gamma : NULL;
        for (int i = 0; i < 3 * WIDTH; i++)
            want[i] = (double)x[i] + (double)r[i] + (b0 ? (double)b0[i % WIDTH] : 0);
        norm(want, g0, NULL, 3, WIDTH, true);
        bench b = bench_open();
        mica_array y = mica_residual_rms_norm(b.s, f32s(b.s, x, SHAPE(3, WIDTH)),
                                              f32s(b.s, r, SHAPE(3, WIDTH)),
                                              b0 ? f32s(b.s, b0, SHAPE(WIDTH)) : MICA_NONE,
                                              g0 ? f32s(b.s, g0, SHAPE(WIDTH)) : MICA_NONE, 1e-5f);
        expect_near(y, want, 3 * WIDTH);
        bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_blocks),
        cmocka_unit_test(attention_blocks_refuse),
        cmocka_unit_test(layers),
        cmocka_unit_test(residual_rms_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
