/* What configs say of RoPE, and the frequencies that follow. */
#include "model/rope.h"

#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mc_config *config;

static mica_status read(const char *json, mc_rope_spec *rope) {
    mc_config_close(&config);
    assert_int_equal(mc_config_parse(json, strlen(json), "test.json", &config), MICA_OK);
    mc_config_scope root = mc_config_root(config);
    return mc_rope_read(&root, rope);
}

static void expect_error(const char *json, mica_status status, const char *text) {
    mc_rope_spec rope = {.base = 1e4, .factor = 1, .head_dim = 8, .context = 4096};
    assert_int_equal(read(json, &rope), status);
    if (!strstr(mica_last_error(), text))
        fail_msg("%s: the error \"%s\" lacks \"%s\"", json, mica_last_error(), text);
}

static mc_rope_spec must_read(const char *json, int64_t head_dim) {
    mc_rope_spec rope = {.base = 1e4, .factor = 1, .head_dim = head_dim, .context = 131072};
    if (read(json, &rope) != MICA_OK) fail_msg("%s: %s", json, mica_last_error());
    return rope;
}

static void test_llama3(void **state) {
    (void)state;
    mc_rope_spec rope = must_read(
        "{\"rope_type\": \"llama3\", \"factor\": 32, \"low_freq_factor\": 1, "
        "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64, \"rope_theta\": 5e5}",
        16);
    assert_true(rope.kind == MC_ROPE_LLAMA3 && rope.base == 5e5 && rope.factor == 32.0);
    assert_true(rope.low_freq_factor == 1.0 && rope.high_freq_factor == 4.0);
    assert_true(rope.original_context == 64.0);
}

/* The paper's formula, in the other order. */
static void test_yarn(void **state) {
    (void)state;
    static const char json[] = "{\"rope_type\": \"yarn\", \"factor\": 8, \"rope_theta\": 500000, "
                               "\"original_max_position_embeddings\": 8192%s}";
    float freqs[6];
    char *text = test_format(json, "");
    mc_rope_spec rope = must_read(text, 12);
    assert_true(fabs(rope.amplitude - 1.2079441541679836) < 1e-12);
    assert_true(mc_rope_freqs(&rope, freqs));
    for (int i = 0; i < 6; i++) { /* bounds 1.69 and 3.28, rounded to 1 and 4 */
        double plain = pow(5e5, i / 6.0), part = fmin(fmax((i - 1) / 3.0, 0), 1);
        double want = 1 / (part / (8 * plain) + (1 - part) / plain);
        assert_true(fabs(freqs[i] / want - 1) < 1e-6);
    }
    free(text);

    text = test_format(json, ", \"truncate\": false, \"attention_factor\": 2");
    rope = must_read(text, 12);
    assert_true(rope.amplitude == 2);
    assert_true(mc_rope_freqs(&rope, freqs));
    double low = 12 * log(8192 / (2 * acos(-1) * 32)) / (2 * log(5e5));
    double high = 12 * log(8192 / (2 * acos(-1))) / (2 * log(5e5));
    for (int i = 0; i < 6; i++) {
        double plain = pow(5e5, i / 6.0), part = fmin(fmax((i - low) / (high - low), 0), 1);
        double want = 1 / (part / (8 * plain) + (1 - part) / plain);
        assert_true(fabs(freqs[i] / want - 1) < 1e-6);
    }
    free(text);

    text = test_format(json, ", \"mscale\": 1, \"mscale_all_dim\": 1");
    assert_true(must_read(text, 12).amplitude == 1);
    free(text);
}

static void test_longrope(void **state) {
    (void)state;
    static const char old[] = "{\"type\": \"su\", \"short_factor\": [1, 2, 4], \"long_factor\": "
                              "[1, 8, 16], \"original_max_position_embeddings\": 4096, "
                              "\"partial_rotary_factor\": 0.75}";
    float freqs[3];
    mc_rope_spec rope = must_read(old, 8);
    assert_int_equal(mc_rope_dims(&rope), 6);
    assert_true(fabs(rope.amplitude - sqrt(1 + log(32) / log(4096))) < 1e-12);
    assert_true(mc_rope_freqs(&rope, freqs));
    for (int i = 0; i < 3; i++)
        assert_true(fabs(freqs[i] / (pow(1e4, i / 3.0) * (1 << i)) - 1) < 1e-6);
    assert_true(rope.long_divisors[2] == 16);
}

static void test_partial_and_proportional(void **state) {
    (void)state;
    float freqs[4];
    mc_rope_spec rope = must_read("{\"partial_rotary_factor\": 0.25}", 8);
    assert_int_equal(mc_rope_dims(&rope), 2);
    assert_false(mc_rope_freqs(&rope, freqs));

    rope = must_read("{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5}", 8);
    assert_int_equal(mc_rope_dims(&rope), 8);
    assert_true(mc_rope_freqs(&rope, freqs));
    assert_true(freqs[0] == 1 && fabsf(freqs[1] - 10) < 1e-5f);
    assert_true(isinf(freqs[2]) && isinf(freqs[3]));
}

/* A kind has nothing of the one that stood there before. */
static void test_kinds_start_anew(void **state) {
    (void)state;
    mc_rope_spec rope = {.kind = MC_ROPE_YARN, .base = 1e4, .factor = 32, .amplitude = 1.5};
    assert_int_equal(read("{\"rope_type\": \"default\"}", &rope), MICA_OK);
    assert_true(rope.kind == MC_ROPE_PLAIN && rope.factor == 1 && rope.amplitude == 0);
    rope.amplitude = 1.5;
    assert_int_equal(read("{\"rope_type\": \"linear\", \"factor\": 4}", &rope), MICA_OK);
    assert_true(rope.factor == 4 && rope.amplitude == 0);
    rope.amplitude = 1.5;
    assert_int_equal(read("{\"rope_theta\": 5e5}", &rope), MICA_OK);
    assert_true(rope.base == 5e5 && rope.factor == 4 && rope.amplitude == 1.5);
}

/* A later object that lets more of a head rotate leaves the divisors too few. */
static void test_longrope_grows(void **state) {
    (void)state;
    mc_rope_spec rope = must_read("{\"rope_type\": \"longrope\", \"short_factor\": [1, 2], "
                                  "\"long_factor\": [1, 8], \"partial_rotary_factor\": 0.5}",
                                  8);
    assert_int_equal(read("{\"rope_theta\": 5e5}", &rope), MICA_OK);
    assert_int_equal(read("{\"partial_rotary_factor\": 1.0}", &rope), MICA_EFORMAT);
    if (!strstr(mica_last_error(), "has 2 numbers, want 4")) fail_msg("%s", mica_last_error());
}

static void test_errors(void **state) {
    (void)state;
    expect_error("{\"rope_type\": \"dynamic\"}", MICA_EUNSUPPORTED, "dynamic");
    expect_error("{\"rope_type\": \"yarn\"}", MICA_ENOENT, "factor");
    expect_error("{\"rope_type\": \"linear\", \"factor\": 0}", MICA_EFORMAT, "factor");
    expect_error("{\"rope_type\": \"longrope\", \"short_factor\": [1, 1, 1, 1]}", MICA_ENOENT,
                 "long_factor");
    expect_error("{\"rope_type\": \"longrope\", \"short_factor\": [1, 1]}", MICA_EFORMAT, "want 4");
    expect_error("{\"rope_type\": \"longrope\", \"short_factor\": [1, 1, 0, 1]}", MICA_EFORMAT,
                 "short_factor");
    expect_error("{\"rope_type\": \"longrope\", \"short_factor\": 1}", MICA_EFORMAT, "a list");
    expect_error("{\"partial_rotary_factor\": 0.4}", MICA_EFORMAT, "3 elements of 8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama3),         cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_longrope),       cmocka_unit_test(test_partial_and_proportional),
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_kinds_start_anew),
        cmocka_unit_test(test_longrope_grows),
    };
    int failed = cmocka_run_group_tests_name("model/rope", tests, NULL, NULL);
    mc_config_close(&config);
    return failed;
}
