/* Every family quantised: the model computes what the numbers do that its weights stand for. */
#include "model/fixture.h"

#include <mica/convert.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* false: no rows of the model's matrices are whole groups. */
static bool convert(const char *from, const char *to, const mica_convert_options *options) {
    mica_convert_result result = {.struct_bytes = sizeof result};
    mica_status status = mica_convert(from, to, options, &result);
    if (status == MICA_EINVAL && strstr(mica_last_error(), "whole groups")) return false;
    if (status != MICA_OK) fail_msg("%s: %s", from, mica_last_error());
    assert_true(!options->quantise || result.quantised > 0);
    return true;
}

static float *logits_of(const model_fixture *f, const char *path, size_t *n) {
    mc_lm *lm;
    const int32_t *ids = fixture_ints(f, n, "prompt2.ids");
    if (mc_lm_open(path, f->device, NULL, &lm) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    float *logits = fixture_logits(f->device, lm, ids, *n);
    *n *= (size_t)lm->spec.vocab;
    mc_lm_close(&lm);
    return logits;
}

/* The largest logit of a model, and the mean distance from another's. */
static double mean_distance(const float *a, const float *b, size_t n, double *largest) {
    double sum = 0;
    *largest = 0;
    for (size_t i = 0; i < n; i++) {
        sum += fabs((double)a[i] - (double)b[i]);
        *largest = fmax(*largest, fabs((double)b[i]));
    }
    return sum / (double)n;
}

/* Experts are called as mlx-lm calls them, stacked and apart: no form has other names for them. */
static void check_layout(const model_fixture *f, const char *path) {
    mc_lm *lm;
    if (mc_lm_open(path, f->device, NULL, &lm) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    for (int i = 0; i < lm->spec.n_blocks; i++) {
        const mc_block_spec *b = &lm->spec.blocks[i];
        if (b->kind == &mc_block_mla) assert_null(b->names[MC_MLA_KV_UP]);
        if (b->kind != &mc_block_experts) continue;
        assert_null(b->names[MC_EXPERTS_GATE_UP]);
        assert_false(b->transposed);
        for (int k = 0; k < MC_MAX_SLOTS; k++)
            if (b->usual[k] || (b->names[k] && strchr(b->names[k], '*')))
                fail_msg("%s: experts are called %s", f->name, b->names[k]);
    }
    mc_lm_close(&lm);
}

static int checked, laid_out;

static void check_mode(const model_fixture *f, mica_quant quant) {
    char *dir = test_temp_dir();
    char *small = test_format("%s/small", dir), *wide = test_format("%s/wide", dir);
    const mica_convert_options quantise = {.quantise = true, .quant = quant};
    const mica_convert_options widen = {.dequantise = true, .dtype = "float32"};
    size_t n;
    if (convert(f->path, small, &quantise)) {
        assert_true(convert(small, wide, &widen));
        float *got = logits_of(f, small, &n), *want = logits_of(f, wide, &n);
        fixture_compare(got, want, n, f->tolerance, "%s: %d bits, mode %d", f->name, quant.bits,
                        (int)quant.mode);
        free(got);
        free(want);
        checked++;
    }
    free(small);
    free(wide);
    test_temp_dir_remove(dir);
}

static void check_family(const model_fixture *f) {
    static const mica_quant modes[] = {
        {MICA_QUANT_AFFINE, 8, 32}, {MICA_QUANT_AFFINE, 4, 32}, {.mode = MICA_QUANT_MXFP4}};
    if (strcmp(f->lm->quantization, "none") != 0) return;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        check_mode(f, modes[i]);
}

/* A model that has a form's names is quantised with others. Its experts may have no whole groups,
 * but are laid out as well. What is of mxfp4 is dequantised before. */
static void check_names(const model_fixture *f) {
    bool other = false;
    for (int i = 0; i < f->lm->spec.n_blocks; i++) {
        const mc_block_spec *b = &f->lm->spec.blocks[i];
        other = other || (b->kind == &mc_block_experts && b->usual[MC_EXPERTS_DOWN]);
    }
    if (!other) return;
    char *dir = test_temp_dir();
    char *small = test_format("%s/small", dir), *wide = test_format("%s/wide", dir);
    const mica_convert_options quantise = {.quantise = true, .quant = {MICA_QUANT_AFFINE, 8, 32}};
    const mica_convert_options widen = {.dequantise = true, .dtype = "float32"};
    size_t n;
    double largest;
    assert_true(convert(f->path, wide, &widen));
    if (convert(wide, small, &quantise)) {
        check_layout(f, small);
        float *got = logits_of(f, small, &n), *want = logits_of(f, wide, &n);
        double mean = mean_distance(got, want, n, &largest);
        print_message("%s: %g of %g\n", f->name, mean, largest);
        if (!(mean < 0.05 * largest)) fail_msg("%s: %g of %g", f->name, mean, largest);
        free(got);
        free(want);
        laid_out++;
    }
    free(small);
    free(wide);
    test_temp_dir_remove(dir);
}

static void test_names(void **state) {
    (void)state;
    fixture_each(check_names);
    print_message("%d with other names\n", laid_out);
    assert_true(laid_out > 7);
}

static void test_quantised(void **state) {
    (void)state;
    fixture_each(check_family);
    print_message("%d quantised\n", checked);
    assert_true(checked > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantised),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("convert/families", tests, NULL, NULL);
}
