/* Every family quantised: the model computes what the numbers do that its weights stand for. */
#include "model/fixture.h"

#include <mica/convert.h>

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

static int checked;

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

static void test_quantised(void **state) {
    (void)state;
    fixture_each(check_family);
    print_message("%d quantised\n", checked);
    assert_true(checked > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantised),
    };
    return cmocka_run_group_tests_name("convert/families", tests, NULL, NULL);
}
