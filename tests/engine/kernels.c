/* What a model's kernels are said to be, against what they do. */
#include "engine/kernels.h"

#include "model/fixture.h"

#include <stdlib.h>
#include <string.h>

/* Logits of the golden's first prompt; freed with free(). */
static float *run(const model_fixture *f, mica_arithmetic arithmetic, size_t *bytes) {
    size_t len;
    const int32_t *ids = fixture_ints(f, &len, "prompt1.ids");
    mica_scope *s;
    *bytes = len * (size_t)f->lm->spec.vocab * sizeof(float);
    float *logits = malloc(*bytes);
    assert_non_null(logits);
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mc_lm_set_arithmetic(f->lm, arithmetic);
    mica_array x = mica_from_data(s, ids, MICA_I32, (int64_t[]){1, (int64_t)len}, 2);
    mica_array y = mc_lm_forward(s, f->lm, x, mica_i32(s, 0), NULL, MC_ALL_LOGITS);
    if (mica_eval(s, y) != MICA_OK || mica_read(y, logits, *bytes) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return logits;
}

static mica_arithmetic arithmetic_of(const model_fixture *f) {
    mc_buffer kinds = {0};
    assert_int_equal(mc_kernels_list(f->lm, f->device, &kinds), MICA_OK);
    mica_arithmetic arithmetic = mc_kernels_arithmetic(&kinds);
    mc_buffer_deinit(&kinds);
    return arithmetic;
}

/* A model is said to be exact if it has the bits of exact arithmetic. */
static void check_bits(const model_fixture *f) {
    size_t bytes;
    float *exact = run(f, MICA_ARITHMETIC_EXACT, &bytes);
    assert_int_equal(arithmetic_of(f), MICA_ARITHMETIC_EXACT);
    float *fast = run(f, MICA_ARITHMETIC_FAST, &bytes);
    bool same = memcmp(exact, fast, bytes) == 0;
    if (same != (arithmetic_of(f) == MICA_ARITHMETIC_EXACT))
        fail_msg("%s: fast matmuls %s", f->name, same ? "change nothing" : "are said to be exact");
    free(exact);
    free(fast);
}

static void test_bits(void **state) {
    (void)state;
    fixture_each(check_bits);
}

static void test_kinds(void **state) {
    (void)state;
    static const char *const matrices[] = {
        "8 bit, groups of 64 (affine)", "4 bit, groups of 64 (affine)",
        "3 bit, groups of 32 (affine)", "bf16", "6 bit, groups of 64 (affine)"};
    const size_t n = sizeof matrices / sizeof *matrices;
    mc_buffer kinds = {0};
    model_fixture f;
    fixture_open("qmixed_qwen3", &f);
    mc_lm_set_arithmetic(f.lm, MICA_ARITHMETIC_FAST);
    mc_lm_set_cache(f.lm, MICA_CACHE_INT8);
    assert_int_equal(mc_kernels_list(f.lm, f.device, &kinds), MICA_OK);
    for (size_t i = 0; i < n; i++) {
        mica_model_kernels k = mc_kernels_get(&kinds, i);
        assert_string_equal(k.matrix, matrices[i]);
        assert_false(k.attention);
        if (i != 3) assert_string_equal(k.activations, "int8");
    }
    assert_string_equal(mc_kernels_get(&kinds, n).matrix, "int8");
    assert_true(mc_kernels_get(&kinds, n).attention);
    assert_null(mc_kernels_get(&kinds, n + 1).matrix);
    mc_buffer_deinit(&kinds);
    fixture_close(&f);
}

/* What queries become depends on the machine; whether that is exact follows from it. */
static void test_keys(void **state) {
    (void)state;
    mc_buffer kinds = {0};
    model_fixture f;
    fixture_open("qmixed_qwen3", &f);
    mc_lm_set_cache(f.lm, MICA_CACHE_BF16);
    assert_int_equal(mc_kernels_list(f.lm, f.device, &kinds), MICA_OK);
    size_t i = 0;
    while (!mc_kernels_get(&kinds, i).attention)
        i++;
    mica_model_kernels k = mc_kernels_get(&kinds, i);
    const bool wide = strcmp(k.activations, "f32") == 0;
    assert_string_equal(k.matrix, "bf16");
    assert_true(wide || strcmp(k.activations, "bf16") == 0 || strcmp(k.activations, "int16") == 0);
    assert_int_equal(k.arithmetic, wide ? MICA_ARITHMETIC_EXACT : MICA_ARITHMETIC_FAST);
    mc_buffer_deinit(&kinds);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests_name("engine/kernels", tests, NULL, NULL);
}
