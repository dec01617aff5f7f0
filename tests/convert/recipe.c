/* convert/recipe: which matrices get more bits. What mlx-lm's recipes choose is in
 * tests/convert/convert.c; here is how layers are counted. */
#include "convert/recipe.h"

#include "support/support.h"

#include <mica/convert.h>

#include <stdlib.h>

static void test_names(void **state) {
    (void)state;
    assert_int_equal(mica_recipe_count(), 4);
    assert_string_equal(mica_recipe_name(2), "mixed_3_6");
    assert_null(mica_recipe_name(4));
    assert_null(mc_recipe_find("mixed_5_6"));
    assert_int_equal(mc_module_layer("model.layers.12.mlp.down_proj"), 12);
    assert_int_equal(mc_module_layer("layers.3.x"), 3);
    assert_int_equal(mc_module_layer("encoder.layer.4.output.dense"), 4);
    assert_int_equal(mc_module_layer("model.sublayers.3.x"), -1);
    assert_int_equal(mc_module_layer("lm_head"), -1);
    assert_int_equal(mc_module_layer("layers.1023.x"), 1023);
    assert_int_equal(mc_module_layer("layers.1024.x"), -1);
    assert_int_equal(mc_module_layer("layers.4294967296.x"), -1);
    assert_int_equal(mc_module_layer("layers.99999999999999999999.x"), -1);
}

/* Of 24 layers: the first 3, the last 3, and every third one between. */
static void test_layers(void **state) {
    (void)state;
    static const int more[] = {0, 1, 2, 5, 8, 11, 14, 17, 20, 21, 22, 23};
    const mc_recipe *r = mc_recipe_find("mixed_2_6");
    size_t next = 0;
    for (int i = 0; i < 24; i++) {
        char *name = test_format("model.layers.%d.self_attn.v_proj", i);
        bool high = next < sizeof more / sizeof *more && more[next] == i;
        assert_int_equal(mc_recipe_bits(r, name, false, 24), high ? 6 : 2);
        next += high;
        free(name);
    }
    assert_int_equal(mc_recipe_bits(r, "model.layers.0.self_attn.q_proj", false, 24), 2);
    assert_int_equal(mc_recipe_bits(r, "model.layers.0.mlp.down_proj", false, 24), 6);
    assert_int_equal(mc_recipe_bits(r, "lm_head", true, 24), 6);
    assert_int_equal(mc_recipe_bits(r, "model.embed_tokens", false, 24), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
