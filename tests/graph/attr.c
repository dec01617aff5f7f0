/* Attributes: their tables, and how they are printed. */
#include "graph/attr.h"

#include <string.h>

#include "graph/graphs.h"
#include "support/support.h"

static void test_attributes_are_printed(void **state) {
    test_graph g;
    mc_buffer text = {0};
    test_graph_open(&g, *state, NULL);
    assert_int_equal(mc_graph_print(g.s, &g.ports, &text), MICA_OK);
    static const char *const wanted[] = {
        " = reshape f32[2,12] %0 shape=[2,12]\n",
        " = transpose f32[6,4] %0 axes=[1,0]\n",
        " = slice f32[3,3] %0 start=[3,1] step=[-1,2] count=[3,3]\n",
        " = as_strided f32[3,3] %0 shape=[3,3] strides=[2,1] offset=4\n",
        " = astype bf16[4,6] %0 dtype=bf16\n",
        " = arange f16[12] start=-1.5 step=0.75 count=12 dtype=f16\n",
        " = prod f32[4,1] %0 axes=[1]\n",
        " axes=[0,1] slice_sizes=[1,1]\n",
        " mode=0 bits=4 group_size=32 transpose=1 dtype=bool fast=0\n",
        " dims=4 traditional=0 base=10000 scale=1\n",
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(mc_buffer_cstr(&text), wanted[i]))
            fail_msg("\"%s\" is not in\n%s", wanted[i], mc_buffer_cstr(&text));
    mc_buffer_deinit(&text);
    test_graph_close(&g);
}

/* The tables of attributes say every word of every struct, once and in order. */
static void test_tables_of_attributes_are_whole(void **state) {
    (void)state;
    for (int op = 0; op < MC_OP_COUNT; op++) {
        const mc_op_def *def = mc_op_get((mc_op)op);
        int words = 0, n = 0;
        assert_true((def->attr_bytes > 0) == (def->attr_fields != NULL));
        for (const mc_attr_field *f = def->attr_fields; f && f->name; f++, n++) {
            assert_int_equal(f->at, words);
            words += f->words;
        }
        assert_int_equal(words * 8, def->attr_bytes);
        assert_true(n <= MC_ATTR_MAX_FIELDS && words <= MC_ATTR_MAX_WORDS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes_are_printed),
        cmocka_unit_test(test_tables_of_attributes_are_whole),
    };
    return cmocka_run_group_tests(tests, test_graph_open_device, test_graph_close_device);
}
