/* base/arena: alignment, stability, and reuse. */
#include "base/arena.h"

#include "support/support.h"

#include <string.h>

/* Every block is filled with a byte of its own and looked at again in the end. */
static void test_blocks_are_aligned_and_apart(void **state) {
    (void)state;
    mc_arena arena = {0};
    unsigned char *blocks[500];
    for (size_t i = 0; i < 500; i++) {
        blocks[i] = mc_arena_alloc(&arena, i * 7 % 300);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)(i & 0xff), i * 7 % 300);
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t j = 0; j < i * 7 % 300; j++)
            assert_int_equal(blocks[i][j], i & 0xff);
        if (i > 0) assert_ptr_not_equal(blocks[i], blocks[i - 1]);
    }
    mc_arena_deinit(&arena);
    assert_null(arena.head);
}

static void test_large_and_absurd(void **state) {
    (void)state;
    mc_arena arena = {0};
    char *big = mc_arena_calloc(&arena, 1000000);
    assert_non_null(big);
    for (size_t i = 0; i < 1000000; i += 999)
        assert_int_equal(big[i], 0);
    assert_null(mc_arena_alloc(&arena, SIZE_MAX));
    assert_null(mc_arena_alloc(&arena, SIZE_MAX - 16));
    assert_null(mc_arena_strndup(&arena, "x", SIZE_MAX));
    assert_string_equal(mc_arena_strndup(&arena, "scope", 3), "sco");
    mc_arena_deinit(&arena);
}

static void test_same_height_again_allocates_nothing(void **state) {
    (void)state;
    mc_arena arena = {0};
    uint64_t taken = 0;
    for (int round = 0; round < 5; round++) {
        mc_alloc_fail_at(0);
        for (int i = 0; i < 10000; i++)
            assert_non_null(mc_arena_alloc(&arena, 100));
        taken = mc_alloc_count();
        mc_arena_reset(&arena);
    }
    assert_int_equal(taken, 0);
    mc_arena_deinit(&arena);
    mc_arena_reset(&arena); /* an empty one */
    mc_arena_deinit(&arena);
}

static bool fill(void *arg) {
    mc_arena *arena = arg;
    bool good = true;
    for (int i = 0; i < 100 && good; i++)
        good = mc_arena_calloc(arena, 1000) != NULL;
    mc_arena_deinit(arena);
    return good;
}

static void test_no_memory(void **state) {
    (void)state;
    mc_arena arena = {0};
    assert_true(test_fail_each_allocation(fill, &arena) >= 3);
    assert_int_equal(mc_arena_bytes(&arena), 0);
    assert_non_null(mc_arena_alloc(&arena, 100000));
    assert_true(mc_arena_bytes(&arena) >= 100000);
    mc_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_aligned_and_apart),
        cmocka_unit_test(test_large_and_absurd),
        cmocka_unit_test(test_same_height_again_allocates_nothing),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
