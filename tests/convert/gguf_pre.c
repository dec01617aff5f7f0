/* The names of tokenizer.ggml.pre: each has one row, whose patterns mica's tokenizer takes. */
#include "convert/gguf_pre.h"

#include "support/support.h"
#include "text/tokenizer/regex.h"

#include <stdio.h>
#include <string.h>

static void check_row(const mc_gguf_pre *pre) {
    assert_non_null(pre->splits[0]);
    for (const char *const *split = pre->splits; *split; split++) {
        mc_regex *re = NULL;
        if (mc_regex_compile(mc_str_of(*split), &re) != MICA_OK)
            fail_msg("%s: %s: %s", pre->names, *split, mica_last_error());
        mc_regex_free(re);
    }
}

/* A name is found in its own row: in no earlier one, too. */
static size_t check_names(const mc_gguf_pre *pre) {
    size_t count = 0;
    for (const char *at = pre->names; *at; count++) {
        mc_str name = {at, strcspn(at, " ")};
        if (name.len == 0 || mc_gguf_pre_find(name) != pre) fail_msg("'%s'", at);
        at += name.len + (at[name.len] == ' ');
    }
    return count;
}

static void test_names(void **state) {
    (void)state;
    size_t count = 0;
    for (size_t i = 0; mc_gguf_pre_at(i); i++) {
        check_row(mc_gguf_pre_at(i));
        count += check_names(mc_gguf_pre_at(i));
        assert_ptr_equal(mc_gguf_pre_find(mc_gguf_pre_name(mc_gguf_pre_at(i))), mc_gguf_pre_at(i));
    }
    assert_true(count > 60);
}

/* convert/gguf.c sees that a file with such a name is refused by it. */
static void test_unknown(void **state) {
    (void)state;
    static const char *const names[] = {"", " ", "qwen", "qwen22", "llama3 llama-v3", "Qwen2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mc_gguf_pre_find(mc_str_of(names[i]))) fail_msg("'%s' is known", names[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
