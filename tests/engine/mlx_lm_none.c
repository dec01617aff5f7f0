/* A build without the engine mlx_lm says how to get it. */
#include "support/support.h"

#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

static void test_none(void **state) {
    (void)state;
    char *folder = test_format("%s/default", test_models_dir());
    mica_engine_info info = {.struct_bytes = sizeof info};
    mica_model *model;
    assert_int_equal(mica_engine_get("mlx_lm", &info), MICA_OK);
    assert_false(info.available);
    assert_non_null(strstr(info.reason, "-DMICA_MLX_LM=ON"));
    assert_int_equal(mica_model_open(folder, &(mica_model_options){.engine = "mlx_lm"}, &model),
                     MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "the engine \"mlx_lm\" is not available"));
    assert_non_null(strstr(mica_last_error(), "-DMICA_MLX_LM=ON"));
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none)};
    return cmocka_run_group_tests_name("engine/mlx_lm_none", tests, NULL, NULL);
}
