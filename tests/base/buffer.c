/* base/buffer: growing text and arrays. */
#include "base/buffer.h"

#include "support/support.h"

#include <string.h>

static void test_text(void **state) {
    (void)state;
    mc_buffer b = {0};
    assert_string_equal(mc_buffer_cstr(&b), "");
    assert_true(mc_buffer_add_text(&b, "tokens"));
    assert_true(mc_buffer_add_byte(&b, ':'));
    assert_true(mc_buffer_printf(&b, " %d of %s", 12, "many"));
    assert_true(mc_buffer_add(&b, NULL, 0));
    assert_string_equal(mc_buffer_cstr(&b), "tokens: 12 of many");
    assert_int_equal(b.len, 18);
    char *text = mc_buffer_take(&b);
    assert_string_equal(text, "tokens: 12 of many");
    assert_null(b.data);
    mc_free(text);
    text = mc_buffer_take(&b);
    assert_string_equal(text, "");
    mc_free(text);
}

static void test_printf_longer_than_the_room(void **state) {
    (void)state;
    mc_buffer b = {0};
    for (int i = 0; i < 2000; i++)
        assert_true(mc_buffer_printf(&b, "%05d", i));
    assert_int_equal(b.len, 10000);
    assert_memory_equal(mc_buffer_cstr(&b) + 5 * 1234, "01234", 5);
    assert_true(mc_buffer_printf(&b, "%*s", 50000, "end"));
    assert_int_equal(b.len, 60000);
    size_t cap = b.cap;
    mc_buffer_clear(&b);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.cap, cap);
    mc_buffer_deinit(&b);
}

static void test_array(void **state) {
    (void)state;
    typedef struct pair {
        int a;
        double b;
    } pair;
    mc_buffer b = {0};
    for (int i = 0; i < 1000; i++) {
        pair p = {i, i * 0.5};
        assert_true(MC_BUFFER_PUSH(&b, pair, p));
    }
    assert_int_equal(MC_BUFFER_COUNT(&b, pair), 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(MC_BUFFER_AT(&b, pair)[i].a, i);
    mc_buffer_deinit(&b);
}

static void test_no_memory_leaves_it_as_it_was(void **state) {
    (void)state;
    mc_buffer b = {0};
    assert_true(mc_buffer_add_text(&b, "kept"));
    assert_false(mc_buffer_reserve(&b, SIZE_MAX));
    assert_false(mc_buffer_reserve(&b, SIZE_MAX - 4));
    char big[1000] = {0};
    mc_alloc_fail_at(1);
    bool added = mc_buffer_add(&b, big, sizeof big) || mc_buffer_printf(&b, "%999d", 1);
    mc_buffer empty = {0};
    const char *text = mc_buffer_cstr(&empty);
    char *taken = mc_buffer_take(&empty);
    mc_alloc_fail_at(0);
    assert_false(added);
    assert_null(text);
    assert_null(taken);
    assert_string_equal(mc_buffer_cstr(&b), "kept");
    mc_buffer_deinit(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_printf_longer_than_the_room),
        cmocka_unit_test(test_array),
        cmocka_unit_test(test_no_memory_leaves_it_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
