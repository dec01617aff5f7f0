/* What floats are computed in: x + silu(layer_norm(x) W1) W2, against PyTorch, whose numbers were
 * made of bf16 operands by torch.nn.functional in f32, with operands and results of products
 * rounded to bf16, and in bf16. */
#include <mica/mica.h>

#include <math.h>
#include <string.h>

#include "device/device.h"
#include "exec/device.h"
#include "exec/expect.h"

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

static const float X[] = {
    -0.0766601562f, 0.359375f,    -0.78125f,      0.0712890625f, 0.6640625f,  -0.287109375f,
    1.6171875f,     -1.59375f,    0.404296875f,   0.609375f,     0.76171875f, -0.0336914062f,
    -0.345703125f,  0.494140625f, -0.0776367188f, -1.8046875f,   0.484375f,   0.205078125f,
    0.337890625f,   1.3515625f,   0.373046875f,   0.0134277344f, 0.7734375f,  -0.109375f};
static const float W1[] = {
    -0.478515625f, 0.412109375f,  0.0288085938f,  -0.0737304688f, -0.60546875f,  0.365234375f,
    0.1015625f,    -0.27734375f,  0.224609375f,   -0.0991210938f, -0.431640625f, 0.236328125f,
    0.2890625f,    -0.139648438f, -0.211914062f,  -0.275390625f,  0.248046875f,  0.765625f,
    -0.6328125f,   0.203125f,     0.0810546875f,  -0.0815429688f, -0.165039062f, 0.275390625f,
    0.25f,         0.45703125f,   -0.0485839844f, 0.25f,          -0.78125f,     -0.48828125f,
    -0.131835938f, -0.169921875f, 0.2890625f,     0.431640625f,   0.69140625f,   -0.58984375f,
    0.455078125f,  0.82421875f,   -0.173828125f,  0.7109375f,     0.134765625f,  0.200195312f,
    0.21875f,      -0.105957031f, -0.235351562f,  0.34765625f,    -0.5234375f,   0.275390625f};
static const float W2[] = {
    0.126953125f,    0.0581054688f, -0.249023438f,  -0.00445556641f, -0.141601562f, -0.3359375f,
    -0.4921875f,     -0.271484375f, 0.206054688f,   -0.353515625f,   0.224609375f,  0.578125f,
    -0.0834960938f,  -1.2421875f,   -0.169921875f,  0.53515625f,     0.265625f,     0.249023438f,
    0.178710938f,    0.306640625f,  0.625f,         0.212890625f,    -0.57421875f,  0.66015625f,
    0.466796875f,    0.234375f,     0.310546875f,   0.162109375f,    -0.345703125f, -0.0830078125f,
    0.26953125f,     -0.130859375f, -0.4765625f,    -0.0541992188f,  0.113769531f,  -0.30859375f,
    0.000177383423f, -0.23046875f,  0.40234375f,    -0.37890625f,    0.31640625f,   -0.0106201172f,
    -0.0314941406f,  -0.010559082f, -0.0200195312f, 0.21875f,        0.40234375f,   -0.267578125f};
static const float IN_F32[] = {
    0.592339993f, -0.0812901258f, -0.198381364f, 1.27907491f,  0.342026621f, -2.73427343f,
    1.16825235f,  -0.611230552f,  -0.222766638f, 0.631640613f, 0.939540863f, -0.406942964f,
    0.1090433f,   0.587715566f,   0.285944372f,  -1.99014759f, 0.827115655f, -0.30618602f,
    0.624332309f, 2.06979036f,    0.344808489f,  -1.34501553f, 0.862807751f, 0.532592893f};
static const float BF16_PRODUCTS[] = {
    0.591308594f, -0.080078125f, -0.19921875f,  1.27441406f,  0.34375f,     -2.72460938f,
    1.16796875f,  -0.61328125f,  -0.224609375f, 0.630737305f, 0.939453125f, -0.408691406f,
    0.107421875f, 0.586914062f,  0.289550781f,  -1.99316406f, 0.828125f,    -0.306640625f,
    0.625f,       2.0703125f,    0.344604492f,  -1.34594727f, 0.862304688f, 0.53125f};
static const float IN_BF16[] = {
    0.58984375f,  -0.080078125f, -0.19921875f,  1.2734375f,  0.34375f,    -2.71875f,
    1.171875f,    -0.61328125f,  -0.224609375f, 0.62890625f, 0.9375f,     -0.408203125f,
    0.107421875f, 0.5859375f,    0.2890625f,    -1.9921875f, 0.828125f,   -0.306640625f,
    0.625f,       2.0625f,       0.34375f,      -1.34375f,   0.86328125f, 0.53125f};

enum { SIZE = 24 }; /* of x [3, 8] */

static mica_scope *open_scope(void) {
    mica_scope *s;
    must(mica_scope_open(device, &s));
    return s;
}

static mica_status network(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    mica_array h = mica_layer_norm(s, args[0], MICA_NONE, MICA_NONE, 1e-5f);
    h = mica_matmul(s, mica_silu(s, mica_matmul(s, h, args[1])), args[2]);
    results[0] = mica_add(s, args[0], h);
    return MICA_OK;
}

/* One round of a loop, or a branch. */
static mica_status once(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    (void)n_results;
    MC_TRY(network(user, s, args, n_args, results, 1));
    results[1] = results[0];
    return MICA_OK;
}

/* Of x and weights of a dtype; y comes as f32, of which a cast to the dtype is there before. In a
 * scan of one step where `scanned`. */
static mica_program *build(mica_dtype dtype, bool scanned, bool symbols) {
    mica_scope *s = open_scope();
    int64_t n = symbols ? mica_program_dim(s, "n") : 3;
    mica_array x = mica_program_param(s, dtype, SHAPE(n, 8)), y;
    mica_array args[3] = {x, mica_program_param(s, dtype, SHAPE(8, 6))};
    args[2] = mica_astype(s, mica_from_data(s, W2, MICA_F32, SHAPE(6, 8)), dtype);
    must(mica_eval(s, args[2]));
    if (scanned) {
        mica_array inner[] = {mica_expand_dims(s, args[1], 0), mica_expand_dims(s, args[2], 0)};
        mica_array rows;
        must(mica_scan(s, once, NULL, &x, 1, inner, 2, NULL, &y, &rows, 1));
    } else {
        must(network(NULL, s, args, 3, &y, 1));
    }
    y = mica_astype(s, y, MICA_F32);
    const mica_param params[] = {{.name = "x", .array = x}, {.name = "w1", .array = args[1]}};
    mica_program *p;
    must(mica_program_build(s, params, 2, &y, 1, NULL, &p));
    mica_scope_close(&s);
    return p;
}

static void check(const mica_program *p, const mica_executable_options *options, const float *want,
                  float within) {
    mica_executable *x;
    mica_scope *s = open_scope();
    mica_array y;
    float got[SIZE];
    must(mica_executable_open(p, options, &x));
    const mica_input in[] = {
        {.name = "x", .array = mica_from_data(s, X, MICA_F32, SHAPE(3, 8)), .convert = true},
        {.name = "w1", .array = mica_from_data(s, W1, MICA_F32, SHAPE(8, 6)), .convert = true}};
    must(mica_executable_run(x, in, 2, s, &y));
    assert_int_equal(mica_array_dtype(y), MICA_F32);
    must(mica_read(y, got, sizeof got));
    for (int i = 0; i < SIZE; i++)
        if (!(fabsf(got[i] - want[i]) <= within * (fabsf(want[i]) + 0.1f)))
            fail_msg("element %d is %.9g, not %.9g", i, (double)got[i], (double)want[i]);
    mica_executable_close(&x);
    mica_scope_close(&s);
}

static mica_executable_options options_of(mica_mode mode, mica_precision precision) {
    return (mica_executable_options){
        .struct_bytes = sizeof(mica_executable_options), .mode = mode, .precision = precision};
}

static void test_policies(void **state) {
    (void)state;
    const float f32 = 3e-6f, bf16 = 1.0f / 64;
    for (int symbols = 0; symbols < 2; symbols++) {
        mica_program *small = build(MICA_BF16, false, symbols),
                     *large = build(MICA_F32, false, symbols);
        for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
            mica_executable_options o = options_of(mode, MICA_PRECISION_RECORDED);
            check(large, &o, IN_F32, f32);
            check(small, &o, IN_BF16, bf16);
            o.precision = MICA_PRECISION_F32;
            check(large, &o, IN_F32, f32);
            check(small, &o, IN_F32, f32);
            o.precision = MICA_PRECISION_BF16_PRODUCTS;
            check(large, &o, BF16_PRODUCTS, 1e-5f);
            check(small, &o, BF16_PRODUCTS, 1e-5f);
        }
        mica_program_close(&small);
        mica_program_close(&large);
    }
}

/* What is carried keeps its dtype, bf16: the result is that of f32, rounded once. */
static void test_control_flow(void **state) {
    (void)state;
    mica_program *p = build(MICA_BF16, true, false);
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        const mica_executable_options o = options_of(mode, MICA_PRECISION_F32);
        check(p, &o, IN_F32, 1.0f / 256);
    }
    mica_program_close(&p);
}

/* Single ops have their own: products alone in bf16 is the policy of that name. */
static void test_own_rules(void **state) {
    (void)state;
    const mica_op_precision rules[] = {{"matmul", MICA_BF16}, {"layer_norm", MICA_F32}};
    mica_program *p = build(MICA_F32, false, false);
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++) {
        mica_executable_options o = options_of(mode, MICA_PRECISION_F32);
        o.op_precisions = rules;
        o.n_op_precisions = 2;
        check(p, &o, BF16_PRODUCTS, 1e-5f);
    }
    mica_executable *x;
    mica_executable_options o = options_of(MICA_MODE_LAZY, (mica_precision)9);
    expect_refused(mica_executable_open(p, &o, &x), MICA_EINVAL, "no precision 9");
    o = options_of(MICA_MODE_LAZY, MICA_PRECISION_F32);
    o.op_precisions = &(mica_op_precision){"matmull", MICA_F32};
    o.n_op_precisions = 1;
    expect_refused(mica_executable_open(p, &o, &x), MICA_ENOENT, "no op matmull");
    o.op_precisions = &(mica_op_precision){"matmul", MICA_I32};
    expect_refused(mica_executable_open(p, &o, &x), MICA_EINVAL, "precision of matmul is no float");
    o.op_precisions = &(mica_op_precision){NULL, MICA_F32};
    expect_refused(mica_executable_open(p, &o, &x), MICA_EINVAL, "name of an op is NULL");
    mica_program_close(&p);
}

/* f64 is made of what a policy computed, in f32, and read as f32. */
static void test_f64(void **state) {
    (void)state;
    const mica_op_precision rule = {"matmul", MICA_F16};
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F64, SHAPE(3, 8)), y[3], got[3];
    mica_array args[3] = {mica_astype(s, x, MICA_F32),
                          mica_program_param(s, MICA_F32, SHAPE(8, 6))};
    args[2] = mica_from_data(s, W2, MICA_F32, SHAPE(6, 8));
    must(network(NULL, s, args, 3, &y[0], 1));
    y[1] = mica_astype(s, y[0], MICA_F64);
    y[2] = mica_astype(s, mica_matmul(s, args[0], args[1]), MICA_F64);
    const mica_param params[] = {{.name = "x", .array = x}, {.name = "w1", .array = args[1]}};
    mica_program *p;
    must(mica_program_build(s, params, 2, y, 3, NULL, &p));
    for (int policy = 0; policy < 4; policy++) {
        mica_executable_options o = options_of(MICA_MODE_LAZY, (mica_precision)(policy % 3));
        o.op_precisions = &rule;
        o.n_op_precisions = policy == 3;
        mica_executable *exe;
        float single[SIZE];
        double wide[SIZE];
        must(mica_executable_open(p, &o, &exe));
        const mica_input in[] = {
            {.name = "x", .array = mica_from_data(s, X, MICA_F32, SHAPE(3, 8)), .convert = true},
            {.name = "w1", .array = mica_from_data(s, W1, MICA_F32, SHAPE(8, 6))}};
        must(mica_executable_run(exe, in, 2, s, got));
        assert_int_equal(mica_array_dtype(got[1]), MICA_F64);
        assert_int_equal(mica_array_dtype(got[2]), MICA_F64);
        must(mica_read(got[0], single, sizeof single));
        must(mica_read(got[1], wide, sizeof wide));
        for (int i = 0; i < SIZE; i++)
            assert_true(wide[i] == (double)single[i]);
        mica_executable_close(&exe);
    }
    mica_program_close(&p);
    mica_scope_close(&s);
}

/* Products of bf16 differ from those of f32 by more than the tolerance of either, so that the tests
 * above tell them apart. */
static void test_that_the_numbers_differ(void **state) {
    (void)state;
    float most = 0;
    for (int i = 0; i < SIZE; i++)
        most = fmaxf(most, fabsf(IN_F32[i] - BF16_PRODUCTS[i]) / (fabsf(IN_F32[i]) + 0.1f));
    assert_true(most > 1e-3f);
}

static bool run_all(void *arg) {
    mica_scope *s = NULL;
    mica_executable *x = NULL;
    mica_array y;
    const mica_executable_options o = options_of(MICA_MODE_COMPILED, MICA_PRECISION_BF16_PRODUCTS);
    bool ok =
        mica_scope_open(device, &s) == MICA_OK && mica_executable_open(arg, &o, &x) == MICA_OK;
    ok = ok && mica_executable_fill(x, "x", 1) == MICA_OK &&
         mica_executable_fill(x, "w1", 1) == MICA_OK &&
         mica_executable_run(x, NULL, 0, s, &y) == MICA_OK;
    mica_executable_close(&x);
    mica_scope_close(&s);
    mica_device_clear_cache(device);
    return ok;
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    mica_program *p = build(MICA_BF16, true, false);
    assert_true(test_fail_each_allocation(run_all, p) > 20);
    mica_program_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_control_flow),
        cmocka_unit_test(test_own_rules),
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_that_the_numbers_differ),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
