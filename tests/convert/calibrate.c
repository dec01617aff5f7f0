/* convert/calibrate: how bits are spent, and models whose bits were chosen by measuring. */
#include "convert/calibrate.h"

#include "base/alloc.h"
#include "io/save_weights.h"
#include "model/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the choice ---- */

static const double steep[MC_BITS] = {8, 2, 0.5, 0.1, 0.02, 0.001};
static const double flat[MC_BITS] = {0.1, 0.05, 0.02, 0.01, 0.005, 0.001};

static double spent(const uint64_t *weights, const int *choice, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)weights[i] * mc_bits[choice[i]];
    return sum;
}

static void test_spend(void **state) {
    (void)state;
    double costs[2][MC_BITS];
    const uint64_t weights[] = {100, 100};
    int choice[2];
    memcpy(costs[0], flat, sizeof flat);
    memcpy(costs[1], steep, sizeof steep);
    assert_false(mc_spend_bits((const double(*)[MC_BITS])costs, weights, 2, 399, 0, choice));
    assert_true(mc_spend_bits((const double(*)[MC_BITS])costs, weights, 2, 400, 0, choice));
    assert_int_equal(choice[0], 0);
    assert_int_equal(choice[1], 0);
    /* The steep one gets the first bits. */
    assert_true(mc_spend_bits((const double(*)[MC_BITS])costs, weights, 2, 600, 0, choice));
    assert_int_equal(mc_bits[choice[0]], 2);
    assert_int_equal(mc_bits[choice[1]], 4);
    assert_true(mc_spend_bits((const double(*)[MC_BITS])costs, weights, 2, 1e9, 0, choice));
    assert_int_equal(mc_bits[choice[0]], 8);
    assert_int_equal(mc_bits[choice[1]], 8);
    for (double budget = 400; budget < 1600; budget += 37) {
        assert_true(mc_spend_bits((const double(*)[MC_BITS])costs, weights, 2, budget, 0, choice));
        assert_true(spent(weights, choice, 2) <= budget);
    }
}

/* Bits that change nothing are not spent. */
static void test_no_gain(void **state) {
    (void)state;
    const double costs[1][MC_BITS] = {{1, 1, 0.5, 0.5, 0.5, 0.5}};
    const uint64_t weights[] = {10};
    int choice;
    assert_true(mc_spend_bits(costs, weights, 1, 1000, 0, &choice));
    assert_int_equal(mc_bits[choice], 4);
    assert_true(mc_spend_bits(costs, weights, 1, 1000, 3, &choice));
    assert_int_equal(mc_bits[choice], 5);
    assert_false(mc_spend_bits(costs, weights, 1, 79, 5, &choice));
}

/* ---- models ---- */

static char *dir, *made, *dense, *text;

/* A small model with a tokenizer and rows of whole groups, and a text. */
static int open_all(void **state) {
    (void)state;
    const mica_convert_options options = {.dequantise = true};
    char *from = test_format("%s/gguf/llama/model.gguf", test_cases_dir());
    dir = test_temp_dir();
    made = test_format("%s/model", dir);
    dense = test_format("%s/dense", dir);
    text = test_format("%s/text", dir);
    if (mica_convert(from, dense, &options, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
    test_write_below(dir, "text",
                     "Each group alone is quantised with each number of bits, and what that does "
                     "to the predictions of the model is measured on a text like this one.");
    free(from);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    free(made);
    free(dense);
    free(text);
    test_temp_dir_remove(dir);
    return 0;
}

/* Removes a model that was made before. */
static void discard(void) {
    if (access(made, F_OK) != 0) return;
    test_temp_dir_remove(made);
    made = test_format("%s/model", dir);
}

static mica_convert_result calibrate(double target, int threads) {
    const mica_convert_options options = {.quantise = true,
                                          .quant = {MICA_QUANT_AFFINE, 0, 32},
                                          .calibration = text,
                                          .target_bits = target,
                                          .threads = threads};
    mica_convert_result result = {.struct_bytes = sizeof result};
    mc_lm *lm;
    mica_device *device;
    discard();
    if (mica_convert(dense, made, &options, &result) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    if (mc_lm_open(made, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    mc_lm_close(&lm);
    mica_device_close(&device);
    return result;
}

/* The size is kept, and what is larger is nearer to the model. */
static void test_targets(void **state) {
    (void)state;
    static const double targets[] = {3.5, 4.5, 6, 8};
    double last = 1e9;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        mica_convert_result result = calibrate(targets[i], 0);
        print_message("%.2f bits: %.3f, KL %.6f\n", targets[i], result.bits, result.divergence);
        assert_true(result.bits <= targets[i] + 1e-9);
        assert_true(result.bits > targets[i] - 0.6);
        assert_true(result.divergence < last);
        last = result.divergence;
    }
    assert_true(last < 1e-3);
}

/* The same on any number of threads. */
static void test_same(void **state) {
    (void)state;
    char *file = test_format("%s/model.safetensors", made);
    size_t n, m;
    calibrate(4.5, 1);
    char *x = test_read_file(file, &n);
    calibrate(4.5, 2);
    char *y = test_read_file(file, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
    free(file);
}

/* The size of four bits everywhere is enough for that, or for something better. */
static void test_uniform(void **state) {
    (void)state;
    const mica_convert_options four = {.quantise = true, .quant = {MICA_QUANT_AFFINE, 4, 32}};
    mica_convert_result result = {.struct_bytes = sizeof result};
    assert_int_equal(mica_convert(dense, made, &four, &result), MICA_OK);
    double uniform = result.bits;
    result = calibrate(uniform, 0);
    assert_true(result.bits <= uniform + 1e-9);
    assert_true(result.bits > uniform - 0.3);
    assert_true(result.divergence > 0);
}

/* Adds a matrix of whole groups to the model, in a file of its own. */
static void add_stranger(const char *name) {
    static float data[64 * 64];
    const mc_weight_tensor t = {
        .name = name, .kind = "F32", .ndim = 2, .shape = {64, 64}, .data = data};
    char *index = test_format("%s/model.safetensors.index.json", dense);
    char *from = test_format("%s/model.safetensors", dense);
    char *to = test_format("%s/model-1.safetensors", dense);
    char *other = test_format("%s/model-2.safetensors", dense);
    (void)unlink(index);
    (void)rename(from, to);
    if (save_weights(other, &t, 1, NULL, 0) != MICA_OK) fail_msg("%s", mica_last_error());
    free(index);
    free(from);
    free(to);
    free(other);
}

/* Matrices that are in none of the decoder's layers get the common bits, and are not measured; what
 * mica leaves alone stays as it is. */
static void test_strangers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool left_alone;
    } strangers[] = {
        {"model.layers.2.self_attn.q_proj.weight", false},
        {"model.layers.99999999999.mlp.up_proj.weight", false},
        {"model.layers.4294967296.mlp.up_proj.weight", false}, /* 0, in 32 bits */
        {"mtp.layers.0.mlp.up_proj.weight", true},
    };
    uint64_t quantised = calibrate(8, 0).quantised;
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        bool alone = strangers[i].left_alone;
        mc_weights *w;
        add_stranger(strangers[i].name);
        assert_int_equal(calibrate(8, 0).quantised, quantised + !alone);
        assert_int_equal(mc_weights_open(made, NULL, &w), MICA_OK);
        assert_int_equal(mc_weights_find(w, strangers[i].name)->shape[1], alone ? 64 : 64 * 4 / 32);
        mc_weights_close(&w);
    }
}

static void refuse(mica_convert_options options, mica_status want, const char *says) {
    size_t before = test_count_entries(dir);
    char *to = test_format("%s/refused", dir);
    options.calibration = options.calibration ? options.calibration : text;
    mica_status status = mica_convert(dense, to, &options, NULL);
    if (status != want || !strstr(mica_last_error(), says)) fail_msg("%s", mica_last_error());
    assert_int_equal(test_count_entries(dir), before);
    free(to);
}

static void test_refused(void **state) {
    (void)state;
    char *brief = test_format("%s/brief", dir), *none = test_format("%s/none", dir);
    test_write_below(dir, "brief", "a b");
    refuse((mica_convert_options){.quantise = true, .target_bits = 2}, MICA_EINVAL,
           "cannot have 2.000 bits per parameter");
    refuse((mica_convert_options){.quantise = true, .target_bits = -1}, MICA_EINVAL, "within");
    refuse((mica_convert_options){.quantise = true, .recipe = "mixed_3_6"}, MICA_EINVAL,
           "goes with no recipe");
    refuse((mica_convert_options){.quantise = true, .quant = {MICA_QUANT_MXFP4, 0, 0}}, MICA_EINVAL,
           "goes with no recipe");
    refuse((mica_convert_options){.dequantise = true}, MICA_EINVAL, "chooses the bits of affine");
    refuse((mica_convert_options){.quantise = true, .calibration = brief}, MICA_EINVAL,
           "16 or more");
    refuse((mica_convert_options){.quantise = true, .calibration = none}, MICA_ENOENT, "none");
    const mica_convert_options alone = {.quantise = true, .target_bits = 4};
    assert_int_equal(mica_convert(dense, none, &alone, NULL), MICA_EINVAL);
    free(brief);
    free(none);
}

/* The least size that an error names is possible, and nothing below it. */
static void test_least(void **state) {
    (void)state;
    mica_convert_options options = {.quantise = true,
                                    .quant = {MICA_QUANT_AFFINE, 0, 32},
                                    .calibration = text,
                                    .target_bits = 1};
    refuse(options, MICA_EINVAL, "not quantised, it has ");
    double least = strtod(strstr(mica_last_error(), "it has ") + 7, NULL);
    options.target_bits = least - 0.002;
    refuse(options, MICA_EINVAL, "not quantised, it has ");
    mica_convert_result result = calibrate(least + 0.002, 0);
    assert_true(result.bits >= least - 0.002 && result.bits <= least + 0.002);
    options.quant.group_size = 128;
    refuse(options, MICA_EINVAL, "no matrix whose rows are whole groups of 128");
}

static void count_calls(void *user, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    ++*(int *)user;
}

/* What cannot be made, or read, is found before anything is measured. */
static void test_refused_early(void **state) {
    (void)state;
    int calls = 0;
    char *there = test_format("%s/there", dir), *gguf = test_format("%s/x.gguf", dir);
    mica_convert_options options = {.quantise = true,
                                    .quant = {MICA_QUANT_AFFINE, 0, 32},
                                    .calibration = text,
                                    .progress = count_calls,
                                    .progress_user = &calls};
    test_write_below(dir, "there", "");
    assert_int_equal(mica_convert(dense, there, &options, NULL), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "exists"));
    assert_int_equal(calls, 0);
    assert_int_equal(mica_convert(dense, gguf, &options, NULL), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "calibration chooses among bits"));
    const mica_convert_options mixed = {
        .quantise = true, .quant = {MICA_QUANT_AFFINE, 0, 32}, .recipe = "mixed_3_6"};
    assert_int_equal(mica_convert(dense, gguf, &mixed, NULL), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "affine of 6 bits"));
    test_write_below(dir, "there",
                     "\xff is no UTF-8, however long the text may be that follows it");
    options.calibration = there;
    assert_int_equal(mica_convert(dense, made, &options, NULL), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "there: "));
    assert_int_equal(calls, 0);
    free(there);
    free(gguf);
}

/* An allocation in every few fails. */
static void test_out_of_memory(void **state) {
    (void)state;
    const mica_convert_options options = {
        .quantise = true, .quant = {MICA_QUANT_AFFINE, 0, 32}, .calibration = text, .threads = 1};
    bool done = false;
    for (uint64_t n = 1; !done; n += 1 + n / 8) {
        mc_alloc_fail_at(n);
        mica_status status = mica_convert(dense, made, &options, NULL);
        done = mc_alloc_count() < n;
        mc_alloc_fail_at(0);
        assert_int_equal(status, done ? MICA_OK : MICA_ENOMEM);
        assert_int_equal(test_count_entries(dir), done ? 3 : 2);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spend), cmocka_unit_test(test_no_gain),
        TEST(test_targets),           TEST(test_same),
        TEST(test_uniform),           TEST(test_strangers),
        TEST(test_refused),           TEST(test_least),
        TEST(test_refused_early),     TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
