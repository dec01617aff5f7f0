/* How a config describes quantisation. */
#include "support/support.h"

#include "model/packing.h"

#include <string.h>

static mc_config *config;

static mica_status read_packing(const char *json, mc_packing *packing) {
    mc_config_close(&config);
    assert_int_equal(mc_config_parse(json, strlen(json), "test.json", &config), MICA_OK);
    mc_config_scope root = mc_config_root(config);
    return mc_packing_read(&root, packing);
}

static void expect(const mc_packing *packing, const char *module, const char *alias,
                   mica_quant_mode mode, int bits, int group_size) {
    mica_quant quant;
    assert_int_equal(mc_packing_of(packing, module, alias, &quant), MICA_OK);
    assert_int_equal(quant.mode, mode);
    assert_int_equal(quant.bits, bits);
    assert_int_equal(quant.group_size, group_size);
}

static void test_common_and_own(void **state) {
    (void)state;
    mc_packing packing;
    assert_int_equal(read_packing("{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"a.b\": "
                                  "{\"bits\": 8, \"group_size\": 32}, \"c\": {\"bits\": 3}, "
                                  "\"d\": false}}",
                                  &packing),
                     MICA_OK);
    assert_true(packing.stated);
    expect(&packing, "x", "y", MICA_QUANT_AFFINE, 4, 64);
    expect(&packing, "a.b", "y", MICA_QUANT_AFFINE, 8, 32);
    expect(&packing, "x", "a.b", MICA_QUANT_AFFINE, 8, 32);
    expect(&packing, "c", "y", MICA_QUANT_AFFINE, 3, 64);
    expect(&packing, "d", "y", MICA_QUANT_AFFINE, 4, 64);
}

static void test_modes(void **state) {
    (void)state;
    mc_packing packing;
    assert_int_equal(read_packing("{\"quantization\": {\"mode\": \"nvfp4\"}}", &packing), MICA_OK);
    expect(&packing, "x", "y", MICA_QUANT_NVFP4, 4, 16);
    assert_int_equal(read_packing("{\"quantization_config\": {\"mode\": \"mxfp8\"}}", &packing),
                     MICA_OK);
    expect(&packing, "x", "y", MICA_QUANT_MXFP8, 8, 32);
    assert_int_equal(read_packing("{}", &packing), MICA_OK);
    assert_false(packing.stated);
    expect(&packing, "x", "y", MICA_QUANT_AFFINE, 0, 0);
}

/* Of weights of other programs the tensors say how they are quantised. */
static void test_methods(void **state) {
    (void)state;
    mc_packing packing;
    assert_int_equal(read_packing("{\"quantization_config\": {\"quant_method\": \"gptq\", "
                                  "\"bits\": 4, \"group_size\": 128, \"x\": {\"bits\": 99}}}",
                                  &packing),
                     MICA_OK);
    assert_true(packing.stated && mc_str_is(packing.method, "gptq"));
    expect(&packing, "x", "y", MICA_QUANT_AFFINE, 0, 0);
}

static void test_refusals(void **state) {
    (void)state;
    mc_packing packing;
    assert_int_equal(read_packing("{\"quantization\": {\"mode\": \"nf4\"}}", &packing),
                     MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "nf4"));
    assert_int_equal(
        read_packing("{\"quantization_config\": {\"quant_method\": \"hqq\"}}", &packing),
        MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "\"hqq\": mica does not read weights"));
    assert_int_equal(read_packing("{\"quantization_config\": {\"quant_method\": \"gptq\", "
                                  "\"checkpoint_format\": \"marlin\"}}",
                                  &packing),
                     MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "checkpoint_format: \"marlin\" of gptq"));
    assert_int_equal(read_packing("{\"quantization\": {\"bits\": \"four\"}}", &packing),
                     MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "quantization.bits"));
    assert_int_equal(read_packing("{\"quantization\": {\"group_size\": 1000000}}", &packing),
                     MICA_EFORMAT);
    assert_int_equal(read_packing("{\"quantization\": 4}", &packing), MICA_EFORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_common_and_own),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_refusals),
    };
    int failed = cmocka_run_group_tests_name("model/packing", tests, NULL, NULL);
    mc_config_close(&config);
    return failed;
}
