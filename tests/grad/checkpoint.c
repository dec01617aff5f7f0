/* Checkpoints: the same bits as without, less memory, and how deep they may nest. */
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grad/check.h"
#include "graph/graph.h"

static mica_status gives_nothing(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                 mica_array *results, size_t n_results) {
    (void)user, (void)s, (void)args, (void)n_args, (void)results, (void)n_results;
    return MICA_OK;
}

typedef struct layer {
    mica_array w;
    int inner; /* further layers, each a checkpoint in the one before it */
} layer;

/* args x [4, 8]: gelu(x w) w^T and, of an inner layer, that again */
static mica_status run_layer(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    layer l = *(const layer *)user;
    mica_array x = mica_gelu(s, mica_matmul(s, args[0], l.w)), order;
    x = mica_softmax(s, mica_matmul(s, x, mica_transpose(s, l.w, NULL)), -1);
    x = mica_add(
        s, x, mica_topk_indices(s, x, mica_array_dim(x, -1), -1, &order)); /* of several results */
    if (l.inner-- > 0) MC_TRY(mica_checkpoint(s, run_layer, &l, &x, 1, &x, 1));
    results[0] = mica_add(s, x, args[0]);
    return MICA_OK;
}

/* The loss of three layers, and its gradients by x and w, checkpointed or not. */
static void train(mica_scope *s, mica_array x, mica_array w, bool checkpointed, int inner,
                  mica_array out[3]) {
    layer l = {w, inner};
    const mica_array xs[] = {x, w};
    for (int i = 0; i < 3; i++)
        MUST(checkpointed ? mica_checkpoint(s, run_layer, &l, &x, 1, &x, 1)
                          : run_layer(&l, s, &x, 1, &x, 1));
    out[0] = total(s, mica_square(s, x));
    MUST(mica_grad(s, out[0], MICA_NONE, xs, 2, out + 1));
    MUST(mica_eval_n(s, out, 3));
}

static void test_checkpoint(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = noise(b.s, SHAPE(4, 8), 1), w = noise(b.s, SHAPE(8, 8), 2);
    mica_array plain[3], again[3];
    for (int inner = 0; inner < 3; inner++) {
        train(b.s, x, w, false, inner, plain);
        train(b.s, x, w, true, inner, again);
        for (int i = 0; i < 3; i++)
            expect_same(plain[i], again[i]);
    }
    MUST(mc_graph_verify(b.s));
    bench_close(&b);
}

/* Twelve layers over [256, 64]: of each only its input is kept. */
static void test_checkpoint_memory(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* which has other memory than the planner's */
    uint64_t peak[2];
    for (int checkpointed = 0; checkpointed < 2; checkpointed++) {
        bench b = bench_open();
        mica_array x = noise(b.s, SHAPE(256, 64), 1), w = noise(b.s, SHAPE(64, 64), 2), y = x, g;
        w = mica_detach(b.s, mica_multiply(b.s, w, mica_f32(b.s, 0.01f)));
        layer l = {w, 0};
        for (int i = 0; i < 12; i++)
            MUST(checkpointed ? mica_checkpoint(b.s, run_layer, &l, &y, 1, &y, 1)
                              : run_layer(&l, b.s, &y, 1, &y, 1));
        MUST(mica_grad(b.s, total(b.s, mica_square(b.s, y)), MICA_NONE, &x, 1, &g));
        MUST(mica_eval(b.s, g));
        peak[checkpointed] = mica_device_peak_bytes(b.device);
        bench_close(&b);
    }
    if (!(peak[1] * 2 < peak[0]))
        fail_msg("%llu bytes with checkpoints, %llu without", (unsigned long long)peak[1],
                 (unsigned long long)peak[0]);
}

/* The cross-entropy of a head's logits, a part of the rows at a time. */
typedef struct head {
    mica_array w, targets;
} head;

static mica_status part_loss(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    const head *h = user;
    mica_array logits = mica_matmul(s, args[0], mica_transpose(s, h->w, NULL));
    results[0] = total(s, mica_cross_entropy(s, logits, h->targets));
    return MICA_OK;
}

/* 512 rows over 4,096 classes in eight parts: never all logits, and the same loss and gradients. */
static void test_loss_in_parts(void **state) {
    (void)state;
    const int64_t rows = 512, classes = 4096;
    bench b = bench_open();
    mica_array x = noise(b.s, SHAPE(512, 16), 1), w = noise(b.s, SHAPE(4096, 16), 2), g[2][2];
    mica_array targets = mica_from_data(b.s, (int32_t[512]){5, 4095, 17}, MICA_I32, SHAPE(512));
    uint64_t peak[2];
    for (int in_parts = 0; in_parts < 2; in_parts++) {
        int64_t n = in_parts ? rows / 8 : rows;
        mica_array loss = mica_f32(b.s, 0);
        for (int64_t i = 0; i < rows; i += n) {
            head h = {w, mica_slice_axis(b.s, targets, 0, i, i + n)};
            mica_array part = mica_slice_axis(b.s, x, 0, i, i + n);
            MUST(mica_checkpoint(b.s, part_loss, &h, &part, 1, &part, 1));
            loss = mica_add(b.s, loss, part);
        }
        const mica_array xs[] = {x, w};
        MUST(mica_grad(b.s, loss, MICA_NONE, xs, 2, g[in_parts]));
        mica_device_reset_peak(b.device);
        MUST(mica_eval_n(b.s, g[in_parts], 2));
        peak[in_parts] = mica_device_peak_bytes(b.device);
    }
    if (!test_device_is_other()) {
        assert_true(peak[0] > (uint64_t)(rows * classes) * sizeof(float));
        assert_true(peak[1] < (uint64_t)(rows * classes) * sizeof(float) / 2);
    }
    /* A device may add up the 16 products of a logit in another order for other numbers of rows: by
     * that, 16^2 2^-24 at most, the logarithm of each class's share in a row differs. */
    const float bound = test_device_keeps_order() ? 1e-5f : 1e-4f;
    for (int i = 0; i < 2; i++) {
        float *a = read_f32(g[0][i]), *c = read_f32(g[1][i]);
        for (int64_t k = 0; k < mica_array_size(g[0][i]); k++)
            if (!(fabsf(a[k] - c[k]) <= bound * (1 + fabsf(a[k]))))
                fail_msg("element %lld is %g, not %g", (long long)k, (double)c[k], (double)a[k]);
        free(a);
        free(c);
    }
    bench_close(&b);
}

static mica_status nest(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    int *left = user;
    if ((*left)-- > 0) return mica_checkpoint(s, nest, user, args, n_args, results, n_results);
    results[0] = mica_sin(s, args[0]);
    return MICA_OK;
}

static void test_checkpoints_too_deep(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 0, 0, 0), y, g;
    int deep = 20;
    MUST(mica_checkpoint(b.s, nest, &deep, &x, 1, &y, 1));
    MUST(mica_grad(b.s, total(b.s, y), MICA_NONE, &x, 1, &g));
    EXPECT3(g, 1, 1, 1);
    deep = 100;
    MUST(mica_checkpoint(b.s, nest, &deep, &x, 1, &y, 1));
    REFUSED(mica_grad(b.s, total(b.s, y), MICA_NONE, &x, 1, &g), MICA_EINVAL, "deep");
    bench_close(&b);
}

/* A function that calls itself without end, in each way that there is. */
static mica_status endless(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    const int way = *(const int *)user;
    const mica_custom_gradient itself = {.fn = endless, .vjp = endless};
    mica_array other, yes;
    switch (way) {
    case 0:
        return mica_checkpoint(s, endless, user, args, n_args, results, n_results);
    case 1:
        return mica_custom_vjp(s, &itself, user, args, n_args, results, n_results);
    case 2:
        return mica_value_and_grad(s, endless, user, args, n_args, NULL, 0, &other, 1, results);
    case 3:
        return mica_vjp(s, endless, user, args, n_args, args, &other, 1, results);
    case 4:
        return mica_jvp(s, endless, user, args, n_args, args, &other, 1, results);
    case 5:
        other = mica_expand_dims(s, args[0], 0);
        return mica_vmap(s, endless, user, &other, 1, NULL, results, n_results);
    case 6:
        yes = mica_isfinite(s, total(s, args[0]));
        return mica_if(s, yes, endless, endless, user, args, n_args, results, n_results);
    default:
        yes = mica_isfinite(s, total(s, args[0]));
        return mica_if_each(s, yes, endless, endless, user, args, n_args, results, n_results);
    }
}

static void test_functions_too_deep(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) {
        bench b = bench_open();
        mica_array x = vector(b.s, 1, 2, 3), y = x;
        REFUSED(endless(&way, b.s, &x, 1, &y, 1), MICA_EINVAL, "nest more than 256 deep");
        assert_false(mica_valid(y));
        MUST(mica_scope_status(b.s));
        EXPECT3(mica_square(b.s, x), 1, 4, 9); /* the scope goes on */
        bench_close(&b);
    }
}

/* Results that are arguments, leaves or each other; nothing recorded; what is evaluated inside. */
static mica_status odd_results(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = args[0];
    results[1] = mica_f32(s, 2);
    results[2] = results[3] = mica_square(s, args[0]);
    return MICA_OK;
}

static void test_odd_checkpoints(void **state) {
    (void)state;
    bench b = bench_open();
    mica_array x = vector(b.s, 1, 2, 3), y[4], g[2];
    MUST(mica_checkpoint(b.s, odd_results, NULL, &x, 1, y, 4));
    mica_array sum = mica_add(b.s, mica_multiply(b.s, y[0], y[1]),
                              mica_multiply(b.s, mica_add(b.s, y[2], y[3]), x));
    const mica_array xs[] = {x, y[2]};
    MUST(mica_grad(b.s, total(b.s, sum), MICA_NONE, xs, 2, g));
    EXPECT3(g[0], 2 + 6, 2 + 24, 2 + 54);
    EXPECT3(g[1], 2, 4, 6); /* an intermediate result in a checkpoint, which y[3] is, too */
    MUST(mica_checkpoint(b.s, gives_nothing, NULL, &x, 1, NULL, 0));
    bench_close(&b);
}

/* ---- failing allocations ---- */

typedef struct sweep {
    mica_device *device;
    mica_array x, w;
} sweep;

static bool everything(void *arg) {
    const sweep *given = arg;
    mica_scope *s;
    mica_status status = mica_scope_open(given->device, &s);
    if (status != MICA_OK) return false;
    mica_array w = given->w, x = given->x, y, g[2], dy;
    layer l = {w, 1};
    status = mica_checkpoint(s, run_layer, &l, &x, 1, &y, 1);
    if (status == MICA_OK) {
        const mica_array xs[] = {x, w};
        status = mica_grad(s, total(s, y), MICA_NONE, xs, 2, g);
    }
    if (status == MICA_OK) status = mica_eval_n(s, g, 2);
    if (status == MICA_OK) status = mica_jvp(s, run_layer, &l, &x, 1, &x, &y, 1, &dy);
    if (status == MICA_OK) status = mica_vjp(s, run_layer, &l, &x, 1, &x, &y, 1, g);
    if (status == MICA_OK) status = mica_eval(s, dy);
    if (status != MICA_OK && status != MICA_ENOMEM) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return status == MICA_OK;
}

static void test_failing_allocations(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    bench b = bench_open();
    sweep given = {b.device, noise(b.s, SHAPE(4, 8), 1), noise(b.s, SHAPE(8, 8), 2)};
    test_fail_each_allocation(everything, &given);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint),          cmocka_unit_test(test_checkpoint_memory),
        cmocka_unit_test(test_loss_in_parts),       cmocka_unit_test(test_checkpoints_too_deep),
        cmocka_unit_test(test_functions_too_deep),  cmocka_unit_test(test_odd_checkpoints),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
