/* Chains of row-by-row ops. A decoder's layer gives the same bits in chains and op by op, for every
 * number of threads and rows. Errors and failed allocations in the middle of a chain are
 * reported. */
#include "cpu/chain.h"

#include <mica/mica.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "op/matmul.h"
#include "op/quant.h"
#include "support/support.h"

enum {
    HIDDEN = 64,
    HEADS = 4,
    WIDTH = 16,
    GROUP = 32,
    MAX_ROWS = 3 * 130,
    OUTCOMES = 5,
    WEIGHTS = 4
};

static const mica_quant quant = {MICA_QUANT_AFFINE, 4, GROUP};

typedef struct layer {
    mica_scope *s, *outer; /* caches are moved from outer to s */
    bool singly;           /* each op is evaluated when it is recorded */
    bool q8;               /* caches are q8 rows, else bf16 */
    int weights;           /* [WEIGHTS] */
    int64_t batch, length, start;
    mica_array codes, scales, dense;
} layer;

static mica_array done(const layer *l, mica_array x) {
    if (!l->singly) return x;
    if (mica_eval(l->s, x) != MICA_OK) fail_msg("%s", mica_last_error());
    return x;
}

static mica_array noise(mica_scope *s, uint64_t seed, const int64_t *shape, int ndim) {
    mica_array x = mica_random_normal(s, mica_random_key(s, seed), shape, ndim, MICA_F32, 0, 1);
    assert_int_equal(mica_eval(s, x), MICA_OK);
    return x;
}

/* For each kind of weights: in int8, exact, in pairs of bf16, in f32. */
static mica_array matmul(const layer *l, mica_array x) {
    bool fast = l->weights != 1;
    return done(l, l->weights < 2
                       ? mc_quantized_matmul(l->s, x, l->codes, l->scales, l->scales, quant, fast)
                       : mc_matmul_rows(l->s, x, l->dense, fast));
}

static mica_array heads(const layer *l, mica_array x) {
    return mica_reshape(l->s, x, (int64_t[]){l->batch, l->length, HEADS, WIDTH}, 4);
}

static mica_array normed_and_rotated(const layer *l, mica_array x, mica_array weight) {
    x = done(l, mica_rms_norm(l->s, heads(l, x), weight, 1e-6f));
    x = mica_transpose(l->s, x, (int[]){0, 2, 1, 3});
    return done(l, mica_rope(l->s, x, mica_i32(l->s, 5), MICA_NONE, NULL));
}

/* Writes into a cache of another scope. */
static mica_array kept(const layer *l, mica_array x) {
    x = done(l, l->q8 ? mica_to_q8(l->s, x) : mica_astype(l->s, x, MICA_BF16));
    const int64_t shape[] = {l->batch, HEADS, l->length + 7, mica_array_dim(x, -1)};
    mica_array cache = mica_zeros(l->outer, shape, 4, mica_array_dtype(x));
    cache = mica_move(l->s, cache);
    return done(l, mica_slice_update_at(l->s, cache, x, mica_i32(l->s, (int32_t)l->start), 2));
}

/* A decoder's layer without attention. */
static void record(layer *l, mica_array out[OUTCOMES]) {
    mica_scope *s = l->s;
    const int64_t shape[] = {l->batch, l->length, HIDDEN}, hidden = HIDDEN, width = WIDTH;
    const int64_t code_shape[] = {HIDDEN, HIDDEN / 8}, scale_shape[] = {HIDDEN, HIDDEN / GROUP};
    mica_array bits = mica_random_bits(s, mica_random_key(s, 1), code_shape, 2, 4);
    l->codes = done(l, mica_astype(s, bits, MICA_U32));
    l->scales = noise(s, 2, scale_shape, 2);
    l->dense = noise(s, 7, (int64_t[]){HIDDEN, HIDDEN}, 2);
    l->dense = done(l, mica_astype(s, l->dense, l->weights == 2 ? MICA_BF16 : MICA_F16));
    mica_array before = noise(s, 3, shape, 3), y = noise(s, 4, shape, 3);
    mica_array weight = noise(s, 5, &hidden, 1), head_weight = noise(s, 6, &width, 1);
    assert_int_equal(mica_eval(s, l->codes), MICA_OK);

    mica_array x = done(l, mica_add(s, before, y));
    mica_array h = done(l, mica_rms_norm(s, x, weight, 1e-6f));
    mica_array q = matmul(l, h), k = matmul(l, h), v = matmul(l, h);
    out[0] = x;
    out[1] = normed_and_rotated(l, q, head_weight);
    out[2] = kept(l, normed_and_rotated(l, k, head_weight));
    out[3] = kept(l, mica_transpose(s, heads(l, v), (int[]){0, 2, 1, 3}));
    mica_array back = mica_transpose(s, out[1], (int[]){0, 2, 1, 3});
    mica_array gate = done(l, mica_silu(s, matmul(l, mica_reshape(s, back, shape, 3))));
    mica_array up = matmul(l, h);
    out[4] = matmul(l, done(l, mica_multiply(s, gate, up)));
}

static void open_scopes(mica_device *device, layer *l) {
    assert_int_equal(mica_scope_open(device, &l->s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &l->outer), MICA_OK);
}

static void close_scopes(layer *l) {
    mica_scope_close(&l->s);
    mica_scope_close(&l->outer);
}

typedef struct outcome {
    size_t bytes;
    unsigned char data[MAX_ROWS * HIDDEN * sizeof(float)];
} outcome;

static void run_layer(mica_device *device, layer l, outcome *results) {
    mica_array out[OUTCOMES];
    open_scopes(device, &l);
    record(&l, out);
    if (mica_eval_n(l.s, out, OUTCOMES) != MICA_OK) fail_msg("%s", mica_last_error());
    for (int i = 0; i < OUTCOMES; i++) {
        size_t size = mica_dtype_bytes(mica_array_dtype(out[i]));
        results[i].bytes = (size_t)mica_array_size(out[i]) * size;
        assert_true(results[i].bytes <= sizeof results[i].data);
        assert_int_equal(mica_read(out[i], results[i].data, results[i].bytes), MICA_OK);
    }
    close_scopes(&l);
}

static void a_layer_is_the_same_in_chains(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {1, 2}, {1, 3},  {1, 17}, {1, 128},
                                        {3, 1}, {3, 5}, {2, 65}, {3, 127}};
    static outcome want[WEIGHTS][OUTCOMES], got[OUTCOMES];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int threads = 1; threads <= 4; threads++) {
            mica_device *device = NULL;
            mica_device_options options = {.threads = threads};
            layer l = {.batch = shapes[i][0], .length = shapes[i][1], .q8 = i % 2, .start = 3};
            assert_int_equal(mica_device_open("cpu", &options, &device), MICA_OK);
            for (l.weights = 0; l.weights < WEIGHTS; l.weights++) {
                l.singly = true;
                if (threads == 1) run_layer(device, l, want[l.weights]);
                l.singly = false;
                run_layer(device, l, got);
                for (int k = 0; k < OUTCOMES; k++) {
                    const outcome *a = &got[k], *b = &want[l.weights][k];
                    if (a->bytes != b->bytes || memcmp(a->data, b->data, b->bytes) != 0)
                        fail_msg("shape %zu, %d threads, weights %d: result %d differs", i, threads,
                                 l.weights, k);
                }
            }
            mica_device_close(&device);
        }
    }
}

/* ---- splitting a chain ---- */

enum { UNITS = 1000 }; /* units of a row */

/* Whether threads get whole rows only. */
static void see_range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    if (begin % UNITS != 0 || end % UNITS != 0) atomic_store((atomic_bool *)context, false);
}

/* Whether two stages run as a chain, row by row. */
static bool goes_by_rows(mica_device *device, int64_t rows, int64_t grain) {
    mc_call call = {.op = MC_OP_ABS, .state = mc_backend_state(device)};
    mc_chain chain = {.call = &call};
    atomic_bool whole = true;
    mc_layout layout = {.dtype = MICA_F32, .ndim = 2, .shape = {rows, UNITS}};
    mc_layout_set_dense(&layout);
    for (int i = 0; i < 2; i++)
        mc_chain_add(&chain, &layout, 0, see_range, &whole, rows * UNITS, grain);
    chain.stages[0].outer = 1;
    chain.stages[0].rows = rows;
    mc_chain_run(&chain);
    return atomic_load(&whole);
}

/* A thread with 2 of 3 rows delays the others by a quarter of all work: more than a region
 * costs. */
static void few_rows_are_no_chain(void **state) {
    (void)state;
    mica_device *device = NULL;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device), 0);
    assert_false(goes_by_rows(device, 1, 1));
    assert_true(goes_by_rows(device, 2, 1));
    assert_false(goes_by_rows(device, 3, 1));
    assert_true(goes_by_rows(device, 3, 3 * UNITS));
    assert_true(goes_by_rows(device, 4, 1));
    assert_false(goes_by_rows(device, 7, 1));
    assert_true(goes_by_rows(device, 9, 1)); /* delayed by a twentieth */
    mica_device_close(&device);
}

static void an_error_within_ends_it(void **state) {
    (void)state;
    mica_device *device = NULL;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device), 0);
    layer l = {.batch = 1, .length = 9, .start = 8};
    mica_array out[OUTCOMES];
    open_scopes(device, &l);
    record(&l, out);
    assert_int_equal(mica_eval_n(l.s, out, OUTCOMES), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "9 elements from 8 on do not fit"));
    close_scopes(&l);
    mica_device_close(&device);
}

/* Evaluates what `make` records of x [33, 64], and frees it. */
static bool evaluate_once(mica_device *device, mica_array (*make)(mica_scope *s, mica_array x)) {
    mica_scope *s = NULL;
    if (mica_scope_open(device, &s) != MICA_OK) return false;
    mica_array x = mica_arange(s, 0, 33 * 64, 1, MICA_F32);
    x = make(s, mica_reshape(s, x, (int64_t[]){33, 64}, 2));
    mica_status status = mica_eval(s, x);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    mica_scope_close(&s);
    assert_int_equal(mica_device_active_bytes(device), 0);
    test_forget_plans(device);
    return status == MICA_OK;
}

static mica_array norms(mica_scope *s, mica_array x) {
    x = mica_rms_norm(s, mica_negative(s, x), MICA_NONE, 1e-6f);
    return mica_rms_norm(s, mica_silu(s, x), MICA_NONE, 1e-6f);
}

/* A chain that ends in two matmuls; its first stage needs memory, too. */
static mica_array norm_and_matmuls(mica_scope *s, mica_array x) {
    static const uint32_t words[64 * 64 / 8];
    static const float factors[64 * 64 / GROUP];
    mica_array codes = mica_from_data(s, words, MICA_U32, (int64_t[]){64, 64 / 8}, 2);
    mica_array scales = mica_from_data(s, factors, MICA_F32, (int64_t[]){64, 64 / GROUP}, 2);
    x = mica_rms_norm(s, mica_negative(s, x), MICA_NONE, 1e-6f);
    mica_array a = mc_quantized_matmul(s, x, codes, scales, scales, quant, true);
    mica_array b = mc_quantized_matmul(s, x, codes, scales, scales, quant, true);
    return mica_subtract(s, a, b);
}

static bool evaluate_plain(void *device) {
    return evaluate_once(device, norms);
}

static bool evaluate_matmuls(void *device) {
    return evaluate_once(device, norm_and_matmuls);
}

static void memory_that_runs_out_is_an_error(void **state) {
    (void)state;
    mica_device *device = NULL;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device), 0);
    assert_true(test_fail_each_allocation(evaluate_plain, device) > 20);
    assert_true(test_fail_each_allocation(evaluate_matmuls, device) > 20);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_the_same_in_chains),
        cmocka_unit_test(few_rows_are_no_chain),
        cmocka_unit_test(an_error_within_ends_it),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
