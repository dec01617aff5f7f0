/* Costs: what ops count, what is measured and kept, and the choice of a device. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/rates.h"
#include "exec/expect.h"

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8)

static mica_device *device;
static char *cache; /* $XDG_CACHE_HOME */

static int set_up(void **state) {
    (void)state;
    cache = test_temp_dir();
    unsetenv("MICA_DEVICE");
    unsetenv("MICA_CALIBRATION");
    setenv("XDG_CACHE_HOME", cache, 1);
    return mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device) != MICA_OK;
}

static int tear_down(void **state) {
    (void)state;
    mica_device_close(&device);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("MICA_DEVICE");
    unsetenv("MICA_CALIBRATION");
    test_temp_dir_remove(cache);
    return 0;
}

static mica_scope *open_scope(void) {
    mica_scope *s;
    must(mica_scope_open(device, &s));
    return s;
}

/* Measured, whatever else the machine does. */
static mica_status measure_quietly(mica_device *d, mc_rates *rates, mc_quiet *quiet) {
    mica_status status = mc_rates_measure(d, rates, quiet);
    *quiet = (mc_quiet){0};
    return status;
}

static mica_status measure_busily(mica_device *d, mc_rates *rates, mc_quiet *quiet) {
    mica_status status = mc_rates_measure(d, rates, quiet);
    quiet->starved = true;
    return status;
}

static void calibrate(mica_device *d, bool anew) {
    mc_calibration mode;
    must(mc_calibration_mode(&mode));
    must(mc_calibrate_device(d, mode, anew, measure_quietly));
}

/* ---- what is counted ---- */

/* The cost of y by params. Closes s. */
static mica_cost cost_of(mica_scope *s, const mica_array *params, size_t n, mica_array y) {
    mica_program *p;
    mica_param list[6] = {{0}};
    for (size_t i = 0; i < n; i++)
        list[i].array = params[i];
    must(mica_program_build(s, list, n, &y, 1, NULL, &p));
    mica_cost cost = {.struct_bytes = sizeof cost};
    must(mica_program_get_cost(p, device, &cost));
    mica_program_close(&p);
    mica_scope_close(&s);
    return cost;
}

static void expect_operations(mica_cost cost, double operations) {
    if (fabs(cost.operations - operations) > 1e-9 * operations)
        fail_msg("%g operations, not %g", cost.operations, operations);
}

static void counts_products(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(3, 8, 64));
    mica_array w = mica_program_param(s, MICA_BF16, SHAPE(64, 32));
    mica_array y = mica_matmul(s, x, mica_astype(s, w, MICA_F32));
    mica_cost cost = cost_of(s, (mica_array[]){x, w}, 2, y);
    expect_operations(cost, 2.0 * 3 * 8 * 64 * 32 + 64 * 32);

    s = open_scope(); /* 16 filters of 3 x 3 x 2 in 2 groups, over 5 x 5 places */
    x = mica_program_param(s, MICA_F32, SHAPE(1, 7, 7, 4));
    w = mica_program_param(s, MICA_F32, SHAPE(16, 3, 3, 2));
    y = mica_conv_general(s, x, w, &(mica_conv_options){.groups = 2});
    cost = cost_of(s, (mica_array[]){x, w}, 2, y);
    expect_operations(cost, 2.0 * 16 * 25 * 9 * 2);

    s = open_scope(); /* causal: half of the scores */
    mica_array q = mica_program_param(s, MICA_F32, SHAPE(2, 4, 64, 16));
    y = mica_sdpa(s, q, q, q, &(mica_sdpa_options){.causal = true});
    cost = cost_of(s, &q, 1, y);
    expect_operations(cost, 0.5 * 4 * 2 * 4 * 64 * 64 * 16);

    s = open_scope(); /* a window: its share */
    q = mica_program_param(s, MICA_F32, SHAPE(2, 4, 64, 16));
    y = mica_sdpa(s, q, q, q, &(mica_sdpa_options){.causal = true, .window = 8});
    cost = cost_of(s, &q, 1, y);
    expect_operations(cost, 4.0 * 2 * 4 * 64 * 8 * 16);
}

static void counts_the_rest(void **state) {
    (void)state;
    const int last = -1;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_C64, SHAPE(3, 256));
    mica_cost cost = cost_of(s, &x, 1, mica_fft(s, x, 256, -1, MICA_FFT_BACKWARD));
    double least = 3 * 5.0 * 256 * 8; /* and the scale */
    assert_true(cost.operations >= least && cost.operations <= least + 2 * 3 * 256);

    s = open_scope();
    x = mica_program_param(s, MICA_F32, SHAPE(10, 100));
    cost = cost_of(s, &x, 1, mica_exp(s, mica_sum(s, x, &last, 1, false)));
    expect_operations(cost, 1000 + 8 * 10);

    s = open_scope();
    x = mica_program_param(s, MICA_F32, SHAPE(2, 32, 8));
    mica_array a = mica_program_param(s, MICA_F32, SHAPE(8, 4));
    mica_array b = mica_program_param(s, MICA_F32, SHAPE(2, 32, 4));
    mica_array y = mica_selective_scan(s, x, x, a, b, b, NULL, NULL);
    cost = cost_of(s, (mica_array[]){x, a, b}, 3, y);
    expect_operations(cost, 8.0 * 2 * 32 * 8 * 4);
}

static void counts_bytes(void **state) {
    (void)state;
    mica_scope *s = open_scope(); /* 4 bits and a scale and a bias of f32 for each 64 */
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(1, 128));
    mica_array codes = mica_program_param(s, MICA_U32, SHAPE(256, 16));
    mica_array scales = mica_program_param(s, MICA_F32, SHAPE(256, 2));
    mica_array biases = mica_program_param(s, MICA_F32, SHAPE(256, 2));
    mica_array y = mica_quantized_matmul(s, x, codes, scales, biases,
                                         (mica_quant){MICA_QUANT_AFFINE, 4, 64}, true);
    mica_cost cost = cost_of(s, (mica_array[]){x, codes, scales, biases}, 4, y);
    assert_true(cost.bytes == 128 * 4 + 256 * 64 + 2 * 256 * 2 * 4 + 256 * 4);

    s = open_scope(); /* a view moves nothing */
    x = mica_program_param(s, MICA_F32, SHAPE(16, 16));
    y = mica_negative(s, mica_reshape(s, x, SHAPE(4, 64)));
    cost = cost_of(s, &x, 1, y);
    assert_true(cost.bytes == 2 * 1024 && cost.steps == 1);

    s = open_scope(); /* a row for all: read once */
    x = mica_program_param(s, MICA_F32, SHAPE(16, 16));
    mica_array row = mica_program_param(s, MICA_F32, SHAPE(16));
    cost = cost_of(s, (mica_array[]){x, row}, 2, mica_add(s, x, row));
    assert_true(cost.bytes == 2 * 1024 + 64);

    s = open_scope(); /* of a table, what is picked */
    x = mica_program_param(s, MICA_F32, SHAPE(1000, 16));
    mica_array at = mica_program_param(s, MICA_I32, SHAPE(4));
    cost = cost_of(s, (mica_array[]){x, at}, 2, mica_take(s, x, at, 0));
    assert_true(cost.bytes == 2 * 4 * 64 + 16);

    s = open_scope(); /* what runs together leaves nothing in memory between */
    x = mica_program_param(s, MICA_F32, SHAPE(64, 64));
    cost = cost_of(s, &x, 1, mica_exp(s, mica_negative(s, mica_square(s, x))));
    assert_true(cost.bytes == 2.0 * 64 * 64 * 4 && cost.steps == 1);
}

#define FUNCTION(name)                                                                        \
    static mica_status name(void *user, mica_scope *s, const mica_array *args, size_t n_args, \
                            mica_array *results, size_t n_results)

FUNCTION(heavy) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_matmul(s, args[0], args[0]);
    return mica_scope_status(s);
}

FUNCTION(light) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_negative(s, args[0]);
    return mica_scope_status(s);
}

FUNCTION(is_small) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_less(s, mica_max(s, args[0], NULL, 0, false), mica_f32(s, 9));
    return mica_scope_status(s);
}

static void counts_control_flow(void **state) {
    (void)state;
    const double product = 2.0 * 8 * 8 * 8, test = 64 + 1;
    for (int first = 0; first < 2; first++) {
        mica_scope *s = open_scope();
        mica_array x = mica_program_param(s, MICA_F32, SHAPE(8, 8)), y;
        mica_array pred = mica_program_param(s, MICA_BOOL, NULL, 0);
        must(mica_if(s, pred, first ? heavy : light, first ? light : heavy, NULL, &x, 1, &y, 1));
        expect_operations(cost_of(s, (mica_array[]){x, pred}, 2, y), product);
    }
    for (int64_t rounds = 0; rounds <= 5; rounds += 5) {
        mica_scope *s = open_scope();
        mica_array x = mica_program_param(s, MICA_F32, SHAPE(8, 8)), y;
        must(mica_while(s, is_small, heavy, NULL, &x, 1,
                        &(mica_while_options){.max_rounds = rounds}, &y, NULL));
        mica_cost cost = cost_of(s, &x, 1, y);
        double each = rounds ? 5 : 1;
        if (cost.operations < each * (product + test) || cost.operations > each * (product + 80))
            fail_msg("%g operations in %g rounds", cost.operations, each);
        assert_true(cost.bounded == (rounds > 0));
    }
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(8, 8)), y;
    must(mica_scan(s, heavy, NULL, &x, 1, NULL, 0, &(mica_scan_options){.length = 7}, &y, NULL, 0));
    expect_operations(cost_of(s, &x, 1, y), 7 * product);
}

/* ---- what is measured ---- */

static char *file_path(void) {
    return test_format("%s/mica/calibration-cpu-2.json", cache);
}

static void must_be_json(const char *path) {
    mc_json_doc *doc = test_load_json(path);
    mc_json_close(&doc);
}

/* y = x w, [256, 256] each. */
static mica_program *product_of(mica_device *on) {
    mica_scope *s;
    mica_program *p;
    must(mica_scope_open(on, &s));
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(256, 256));
    mica_array w = mica_program_param(s, MICA_F32, SHAPE(256, 256));
    mica_array y = mica_matmul(s, x, w);
    must(mica_program_build(s, (mica_param[]){{.array = x}, {.array = w}}, 2, &y, 1, NULL, &p));
    mica_scope_close(&s);
    return p;
}

static double seconds_on(mica_device *on) {
    mica_program *p = product_of(device);
    mica_cost cost = {.struct_bytes = sizeof cost};
    must(mica_program_get_cost(p, on, &cost));
    mica_program_close(&p);
    return cost.seconds;
}

static void is_unmeasured_until_it_is_asked_for(void **state) {
    (void)state;
    char *path = file_path();
    assert_true(seconds_on(device) == 0);
    for (size_t i = 0; i < mica_rate_count(); i++)
        assert_true(mica_device_rate(device, i) == 0);
    assert_true(mica_device_rate(device, mica_rate_count()) == 0);
    assert_true(mica_device_rate(NULL, 0) == 0);
    assert_null(mica_rate_name(mica_rate_count()));
    assert_null(mica_rate_unit(mica_rate_count()));
    expect_refused(mica_device_calibrate(NULL, false), MICA_EINVAL, "NULL");
    calibrate(device, false);
    double seconds = seconds_on(device);
    assert_true(seconds > 0 && seconds < 10);
    for (size_t i = 0; i < mica_rate_count(); i++) {
        bool copies = strstr(mica_rate_name(i), "load") != NULL;
        assert_true(copies ? mica_device_rate(device, i) == 0 : mica_device_rate(device, i) > 0);
    }
    must_be_json(path);
    free(path);
}

/* The file with a text replaced. */
static void alter(const char *from, const char *to) {
    char *path = file_path(), *text = test_read_file(path, NULL), *at = strstr(text, from);
    assert_non_null(at);
    char *made = test_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    test_write_file(path, made, strlen(made));
    free(made);
    free(text);
    free(path);
}

static mica_device *open_cpu(int threads) {
    mica_device *d;
    must(mica_device_open("cpu", &(mica_device_options){.threads = threads}, &d));
    return d;
}

/* Whether a device that is opened now has rates. */
static bool is_kept(int threads) {
    mica_device *other = open_cpu(threads);
    bool kept = mica_device_rate(other, 0) > 0;
    mica_device_close(&other);
    return kept;
}

static void keeps_what_it_measured(void **state) {
    (void)state;
    assert_false(is_kept(2));
    calibrate(device, false);
    assert_true(is_kept(2));
    assert_false(is_kept(1));
    mica_device *one = open_cpu(1);
    calibrate(one, false);
    mica_device_close(&one);
    assert_true(is_kept(1) && is_kept(2)); /* each number of threads has a file of its own */
    char *path = file_path(), *whole = test_read_file(path, NULL);
    static const char *const changes[][2] = {{"\"version\": 1", "\"version\": 99"},
                                             {"\"mica\": \"", "\"mica\": \"9"},
                                             {"\"kernels\": \"", "\"kernels\": \"z"},
                                             {"\"device\": \"cpu\"", "\"device\": \"mlx\""},
                                             {"\"description\": \"", "\"description\": \"x"},
                                             {"\"dispatch\": ", "\"dispatch\": -"},
                                             {"\"dispatch\": ", "\"dispatch\": 0, \"x\": "},
                                             {"\"roundtrip\"", "\"roundtrap\""},
                                             {"}", "]"},
                                             {"{", ""}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        alter(changes[i][0], changes[i][1]);
        if (is_kept(2)) fail_msg("%s was taken", changes[i][1]);
        test_write_file(path, whole, strlen(whole));
        assert_true(is_kept(2));
    }
    setenv("MICA_CALIBRATION", "off", 1);
    assert_false(is_kept(2));
    assert_true(seconds_on(device) == 0);
    expect_refused(mica_device_calibrate(device, false), MICA_EUNSUPPORTED, "off");
    setenv("MICA_CALIBRATION", "refresh", 1);
    assert_false(is_kept(2));
    setenv("MICA_CALIBRATION", "sometimes", 1);
    assert_false(is_kept(2));
    expect_refused(mica_device_calibrate(device, false), MICA_EINVAL, "sometimes");
    free(whole);
    free(path);
}

/* What a busy machine gave is used, and not kept; nor does it write over what a quiet one gave. */
static void leaves_what_is_doubtful(void **state) {
    (void)state;
    must(mc_calibrate_device(device, MC_CALIBRATION_KEPT, false, measure_busily));
    assert_true(mica_device_rates_doubtful(device));
    assert_true(mica_device_rate(device, 0) > 0 && seconds_on(device) > 0);
    assert_false(is_kept(2));
    calibrate(device, true);
    assert_false(mica_device_rates_doubtful(device));
    assert_true(is_kept(2));
    char *path = file_path(), *before = test_read_file(path, NULL);
    must(mc_calibrate_device(device, MC_CALIBRATION_KEPT, true, measure_busily));
    char *after = test_read_file(path, NULL);
    assert_string_equal(after, before);
    mica_device *other = open_cpu(2);
    assert_true(mica_device_rate(other, 0) > 0 && !mica_device_rates_doubtful(other));
    mica_device_close(&other);
    assert_false(mica_device_rates_doubtful(NULL));
    free(after);
    free(before);
    free(path);
}

/* Repeats agree but for a few probes, and the thread had its CPU. */
static void tells_busy_from_quiet(void **state) {
    (void)state;
    const double steady[] = {1.0, 1.1, 1.2, 1.9, 9.0}, shaken[] = {1.0, 1.4, 1.6, 1.7, 1.8},
                 one = 1;
    mc_quiet q = {0};
    assert_true(mc_quiet_holds(&q));
    for (int i = 0; i < 15; i++)
        mc_quiet_add(&q, steady, 5);
    for (int i = 0; i < 5; i++)
        mc_quiet_add(&q, shaken, 5);
    assert_true(mc_quiet_holds(&q));
    mc_quiet_add(&q, shaken, 5);
    assert_false(mc_quiet_holds(&q));
    q = (mc_quiet){0};
    mc_quiet_add(&q, &one, 1);
    mc_quiet_compare(&q, 990, 1000);
    assert_true(mc_quiet_holds(&q));
    mc_quiet_compare(&q, 500, 1000);
    mc_quiet_compare(&q, 1000, 1000);
    assert_false(mc_quiet_holds(&q));
}

static void *calibrate_it(void *first_rate) {
    calibrate(device, false);
    *(double *)first_rate = mica_device_rate(device, 0);
    return NULL;
}

/* Of two threads that ask at once, one measures, alone. */
static void two_threads_measure_once(void **state) {
    (void)state;
    pthread_t threads[2];
    double rates[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, calibrate_it, &rates[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(rates[0] > 0 && rates[0] == rates[1]);
    assert_true(mica_device_rate(device, 0) == rates[0]);
}

/* A decimal comma of the application's locale is not that of the file. */
static void files_have_points(void **state) {
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"};
    bool found = false;
    for (size_t i = 0; i < sizeof locales / sizeof *locales && !found; i++)
        found = setlocale(LC_NUMERIC, locales[i]) != NULL;
    if (!found) skip();
    calibrate(device, true);
    setlocale(LC_NUMERIC, "C");
    assert_true(is_kept(2));
}

/* A folder that cannot be made: the rates hold for this device. */
static void measures_without_a_folder(void **state) {
    (void)state;
    char *file = test_format("%s/file", cache);
    test_write_file(file, "x", 1);
    setenv("XDG_CACHE_HOME", file, 1);
    calibrate(device, false);
    assert_true(seconds_on(device) > 0);
    assert_false(is_kept(2));
    free(file);
}

/* ---- the choice ---- */

static size_t pick(mica_candidate *c, size_t n, const mica_array *args) {
    size_t i = n;
    mica_program *p = product_of(device);
    must(mica_pick_device(p, c, n, &(mica_pick_options){.args = args}, &i));
    mica_program_close(&p);
    return i;
}

static void picks_the_cheapest(void **state) {
    (void)state;
    mica_device *one = open_cpu(1), *other = open_cpu(2);
    mica_candidate c[] = {{.device = NULL}, {.device = one}, {.device = device}, {.device = other}};
    assert_int_equal(pick(c, 4, NULL), 1); /* all are unmeasured */
    assert_int_equal(c[0].state, MICA_CANDIDATE_UNABLE);
    assert_int_equal(c[1].state, MICA_CANDIDATE_UNMEASURED);
    assert_true(c[1].seconds == 0 && *c[1].reason);
    calibrate(device, false);
    mica_device *kept = open_cpu(2), *again = open_cpu(2); /* the same rates */
    c[2].device = kept, c[3].device = again;
    assert_int_equal(pick(c, 4, NULL), 2);
    assert_int_equal(c[1].state, MICA_CANDIDATE_UNMEASURED);
    assert_int_equal(c[2].state, MICA_CANDIDATE_ESTIMATED);
    assert_true(c[2].seconds > 0 && c[2].seconds == c[3].seconds);
    alter("\"matmul_f32_small\": ", "\"matmul_f32_small\": 9");
    alter("\"matmul_f32_large\": ", "\"matmul_f32_large\": 9");
    alter("\"matvec_f32\": ", "\"matvec_f32\": 9");
    mica_device *fast = open_cpu(2);
    c[3].device = fast;
    assert_int_equal(pick(c, 4, NULL), 3);
    mica_device_close(&fast);
    mica_device_close(&again);
    mica_device_close(&kept);
    mica_device_close(&other);
    mica_device_close(&one);
}

/* A program with symbols has no cost before these have values. */
static void symbols_are_refused(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_program *p, *bound;
    mica_cost cost;
    mica_candidate c = {.device = device};
    mica_program_memory memory;
    size_t i;
    const int64_t rows = mica_program_dim(s, "rows");
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(rows, 4)), y = mica_exp(s, x);
    must(mica_program_build(s, &(mica_param){.array = x}, 1, &y, 1, NULL, &p));
    mica_scope_close(&s);
    expect_refused(mica_program_get_cost(p, device, &cost), MICA_EUNSUPPORTED, "symbol rows");
    expect_refused(mica_program_get_memory(p, &memory), MICA_EUNSUPPORTED, "symbol rows");
    expect_refused(mica_pick_device(p, &c, 1, NULL, &i), MICA_EUNSUPPORTED, "symbol rows");
    must(mica_program_bind(p, &(mica_length){"rows", 3}, 1, &bound));
    must(mica_program_get_cost(bound, device, &cost));
    assert_true(cost.operations > 0);
    mica_program_close(&bound);
    mica_program_close(&p);
}

static void takes_the_device_that_is_named(void **state) {
    (void)state;
    size_t i;
    mica_program *p = product_of(device);
    mica_candidate c[] = {{.device = NULL}, {.device = device}};
    setenv("MICA_DEVICE", "cpu", 1);
    must(mica_pick_device(p, c, 2, NULL, &i));
    assert_int_equal(i, 1);
    setenv("MICA_DEVICE", "mlx:gpu", 1);
    expect_refused(mica_pick_device(p, c, 2, NULL, &i), MICA_EDEVICE, "mlx:gpu");
    unsetenv("MICA_DEVICE");
    expect_refused(mica_pick_device(p, c, 1, NULL, &i), MICA_EDEVICE, "no such device");
    expect_refused(mica_pick_device(p, c, 0, NULL, &i), MICA_EDEVICE, "there are none");
    expect_refused(mica_pick_device(NULL, c, 1, NULL, &i), MICA_EINVAL, "NULL");
    expect_refused(mica_pick_device(p, NULL, 1, NULL, &i), MICA_EINVAL, "NULL");
    expect_refused(mica_pick_device(p, c, 1, NULL, NULL), MICA_EINVAL, "NULL");
    mica_program_close(&p);
}

static void trials_are_remembered(void **state) {
    (void)state;
    calibrate(device, false);
    mica_device *other = open_cpu(2);
    mica_scope *s = open_scope();
    mica_array args[2] = {mica_ones(s, SHAPE(256, 256), MICA_F32),
                          mica_ones(s, SHAPE(256, 256), MICA_F32)};
    mica_candidate c[] = {{.device = device}, {.device = other}};
    size_t first = pick(c, 2, args);
    assert_int_equal(c[0].state, MICA_CANDIDATE_TIMED);
    assert_int_equal(c[1].state, MICA_CANDIDATE_TIMED);
    assert_true(c[0].seconds > 0 && c[1].seconds > 0);
    char *path = test_format("%s/mica/choices.json", cache);
    char *text = test_read_file(path, NULL), *at = strrchr(text, ':');
    assert_non_null(at);
    assert_int_equal(pick(c, 2, args), first);
    assert_int_equal(c[0].state, MICA_CANDIDATE_ESTIMATED); /* nothing ran */
    bool other_was = strncmp(at, ": true", 6) == 0;
    char *made = test_format("%.*s: %s\n}\n", (int)(at - text), text, other_was ? "false" : "true");
    test_write_file(path, made, strlen(made));
    assert_int_equal(pick(c, 2, args), 1 - first);      /* as the file says */
    test_write_file(path, "{\"cpu 0 mlx\": true}", 19); /* of another program */
    setenv("MICA_CALIBRATION", "refresh", 1);
    (void)pick(c, 2, args);
    assert_int_equal(c[0].state, MICA_CANDIDATE_TIMED);
    unsetenv("MICA_CALIBRATION");
    free(made);
    made = test_read_file(path, NULL);
    assert_non_null(strstr(made, "cpu 0 mlx"));
    test_write_file(path, "[", 1);
    (void)pick(c, 2, args); /* a broken one counts as none, and is written anew */
    assert_int_equal(c[0].state, MICA_CANDIDATE_TIMED);
    must_be_json(path);
    free(made);
    free(text);
    free(path);
    mica_scope_close(&s);
    mica_device_close(&other);
}

static mica_candidate_state state_of_pick(mica_device *a, mica_device *b, const mica_array *args) {
    mica_candidate c[] = {{.device = a}, {.device = b}};
    (void)pick(c, 2, args);
    return c[0].state;
}

/* Devices of one name are not one device, and one that was measured anew is tried anew. */
static void trials_are_of_two_devices(void **state) {
    (void)state;
    mica_device *one = open_cpu(1);
    mica_scope *s = open_scope();
    mica_array args[2] = {mica_ones(s, SHAPE(256, 256), MICA_F32),
                          mica_ones(s, SHAPE(256, 256), MICA_F32)};
    calibrate(one, false);
    calibrate(device, true);
    mica_device *same = open_cpu(2);
    (void)pick((mica_candidate[]){{.device = device}, {.device = same}}, 2, args);
    assert_int_equal(state_of_pick(device, same, args), MICA_CANDIDATE_ESTIMATED);
    assert_int_equal(state_of_pick(device, one, args), MICA_CANDIDATE_TIMED);
    assert_int_equal(state_of_pick(device, one, args), MICA_CANDIDATE_ESTIMATED);
    calibrate(device, true);
    assert_int_equal(state_of_pick(device, one, args), MICA_CANDIDATE_TIMED);
    mica_scope_close(&s);
    mica_device_close(&same);
    mica_device_close(&one);
}

/* ---- other devices, and what fails ---- */

static void programs_go_to_other_devices(void **state) {
    (void)state;
    mica_device *other;
    must(test_device_open(&(mica_device_options){.threads = 2}, &other));
    mica_scope *s = open_scope(), *t;
    const float numbers[4] = {1, 2, 3, 4};
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(2, 2));
    mica_array w = mica_from_data(s, numbers, MICA_F32, SHAPE(2, 2));
    mica_array y = mica_matmul(s, x, w), z;
    mica_program *p, *moved;
    must(mica_program_build(s, &(mica_param){.array = x}, 1, &y, 1, NULL, &p));
    must(mica_program_to_device(p, other, &moved));
    must(mica_scope_open(other, &t));
    mica_array arg = mica_from_data(t, numbers, MICA_F32, SHAPE(2, 2));
    must(mica_program_run(moved, t, &arg, &z));
    float got[4];
    must(mica_read(z, got, sizeof got));
    assert_memory_equal(got, ((float[]){7, 10, 15, 22}), sizeof got);
    mica_cost here = {.struct_bytes = sizeof here}, there = here;
    must(mica_program_get_cost(p, device, &here));
    must(mica_program_get_cost(p, other, &there));
    assert_true(here.operations == 16 && there.operations >= 16);
    expect_refused(mica_program_to_device(p, NULL, &moved), MICA_EINVAL, "NULL");
    expect_refused(mica_program_get_cost(p, NULL, &there), MICA_EINVAL, "NULL");
    mica_scope_close(&t);
    mica_scope_close(&s);
    mica_program_close(&moved);
    mica_program_close(&p);
    mica_device_close(&other);
}

/* An op that the device has no kernel for is the CPU's, and its operands are copied. */
static void counts_what_the_cpu_runs(void **state) {
    (void)state;
    mica_device *other;
    if (!test_device_is_other()) return;
    must(test_device_open(&(mica_device_options){.threads = 2}, &other));
    must(mica_device_calibrate(other, false));
    calibrate(device, false);
    mica_scope *s = open_scope();
    mica_program *p;
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(64, 64));
    mica_array y = mica_solve(s, x, x);
    must(mica_program_build(s, &(mica_param){.array = x}, 1, &y, 1, NULL, &p));
    mica_cost cost = {.struct_bytes = sizeof cost};
    must(mica_program_get_cost(p, other, &cost));
    if (cost.cpu_ops < 1 || cost.seconds <= 0)
        fail_msg("%d ops on the CPU, %g s", (int)cost.cpu_ops, cost.seconds);
    assert_true(mica_device_rate(other, mica_rate_count() - 1) > 0); /* download */
    mica_program_close(&p);
    mica_scope_close(&s);
    mica_device_close(&other);
}

static bool ask_for_all(void *arg) {
    const mica_program *p = arg;
    mica_cost cost = {.struct_bytes = sizeof cost};
    mica_candidate c = {.device = device};
    size_t i;
    return mica_program_get_cost(p, device, &cost) == MICA_OK &&
           mica_pick_device(p, &c, 1, NULL, &i) == MICA_OK;
}

static void allocations_fail(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_program *p;
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(8, 8)), y;
    must(mica_while(s, is_small, heavy, NULL, &x, 1, NULL, &y, NULL));
    must(mica_program_build(s, &(mica_param){.array = x}, 1, &y, 1, NULL, &p));
    test_fail_each_allocation(ask_for_all, p);
    mica_program_close(&p);
    mica_scope_close(&s);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(counts_products),
        TEST(counts_the_rest),
        TEST(counts_bytes),
        TEST(counts_control_flow),
        TEST(is_unmeasured_until_it_is_asked_for),
        TEST(keeps_what_it_measured),
        TEST(leaves_what_is_doubtful),
        TEST(tells_busy_from_quiet),
        TEST(two_threads_measure_once),
        TEST(files_have_points),
        TEST(measures_without_a_folder),
        TEST(picks_the_cheapest),
        TEST(symbols_are_refused),
        TEST(takes_the_device_that_is_named),
        TEST(trials_are_remembered),
        TEST(trials_are_of_two_devices),
        TEST(programs_go_to_other_devices),
        TEST(counts_what_the_cpu_runs),
        TEST(allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
