/* The content blocks of an answer that is kept: pieces of one kind are one block. */
#include "serve/anthropic/blocks.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static bool add_all(mc_anthropic_blocks *blocks) {
    return mc_anthropic_blocks_add(blocks, MC_BLOCK_THINKING, MC_STR("a\"")) &&
           mc_anthropic_blocks_add(blocks, MC_BLOCK_TEXT, MC_STR("")) && /* begins nothing */
           mc_anthropic_blocks_add(blocks, MC_BLOCK_THINKING, MC_STR("b")) &&
           mc_anthropic_blocks_add(blocks, MC_BLOCK_TEXT, MC_STR("c")) &&
           mc_anthropic_blocks_add(blocks, MC_BLOCK_TEXT, MC_STR("d")) &&
           mc_anthropic_blocks_end(blocks) && mc_anthropic_blocks_end(blocks);
}

static void test_whole(void **state) {
    (void)state;
    mc_anthropic_blocks blocks = {0};
    assert_true(add_all(&blocks));
    assert_int_equal(blocks.count, 2);
    assert_string_equal(mc_buffer_cstr(&blocks.whole),
                        "{\"type\":\"thinking\",\"thinking\":\"a\\\"b\",\"signature\":\"\"},"
                        "{\"type\":\"text\",\"text\":\"cd\"}");
    mc_anthropic_blocks_deinit(&blocks);
}

/* A model may write a call on several lines; what it becomes has one. */
static void test_lines(void **state) {
    (void)state;
    mc_anthropic_blocks blocks = {0};
    assert_true(mc_anthropic_blocks_begin_call(&blocks, MC_STR("f\n")) &&
                mc_anthropic_blocks_add(&blocks, MC_BLOCK_TOOL_USE, MC_STR("{\n\"a\":")) &&
                mc_anthropic_blocks_add(&blocks, MC_BLOCK_TOOL_USE, MC_STR("\r\n[1]}")) &&
                mc_anthropic_blocks_end(&blocks));
    const char *text = mc_buffer_cstr(&blocks.whole);
    assert_non_null(strstr(
        text, "\"name\":\"f\\u000a\",\"caller\":{\"type\":\"direct\"},\"input\":{ \"a\":  [1]}"));
    assert_null(strpbrk(text, "\r\n"));
    mc_anthropic_blocks_deinit(&blocks);
}

/* An input that was cut off has what is complete of it. */
static void test_cut_input(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "{}"},
        {"{", "{}"},
        {"{\"a", "{}"},
        {"{\"a\"", "{}"},
        {"{\"a\": 1", "{}"}, /* perhaps of more digits */
        {"{\"a\": 1,", "{\"a\": 1}"},
        {"{\"a\": 1, \"b\": \"x\\\"y\", \"c\": \"z", "{\"a\": 1, \"b\": \"x\\\"y\"}"},
        {"{\"a\": [1, {\"b\": [true, fal", "{\"a\": [1, {\"b\": [true]}]}"},
        {"{\"a\": [\"x\", \"y", "{\"a\": [\"x\"]}"},
        {"{\"a\": {\"b\": {}}, \"c\":", "{\"a\": {\"b\": {}}}"},
        {"{\"a\": {\"b\": 2}}", "{\"a\": {\"b\": 2}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mc_anthropic_blocks blocks = {0};
        assert_true(mc_anthropic_blocks_begin_call(&blocks, MC_STR("f")) &&
                    mc_anthropic_blocks_add(&blocks, MC_BLOCK_TOOL_USE, mc_str_of(cases[i][0])) &&
                    mc_anthropic_blocks_end(&blocks));
        char *want = test_format("\"input\":%s}", cases[i][1]);
        const char *text = mc_buffer_cstr(&blocks.whole);
        if (!strstr(text, want)) fail_msg("%s: %s", cases[i][0], text);
        free(want);
        mc_anthropic_blocks_deinit(&blocks);
    }
}

static bool add_with_failures(void *arg) {
    (void)arg;
    mc_anthropic_blocks blocks = {0};
    bool done = add_all(&blocks);
    mc_anthropic_blocks_deinit(&blocks);
    return done;
}

static void test_memory(void **state) {
    (void)state;
    test_fail_each_allocation(add_with_failures, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_cut_input),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
