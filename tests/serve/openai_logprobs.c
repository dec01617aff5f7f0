/* Offsets of tokens in a text: the characters of what stands before, with U+FFFD in place of bytes
 * that are not UTF-8. */
#include "serve/openai/logprobs.h"

#include "support/support.h"

#include "base/json.h"
#include "serve/common/token_text.h"

#include <stdio.h>
#include <stdlib.h>

/* The characters of bytes as an answer has them. */
static int64_t characters(const mc_buffer *bytes) {
    mc_buffer json = {0};
    mc_put put = mc_put_into(&json);
    mc_json_doc *doc;
    mc_str text;
    int64_t n = 0;
    mc_put_str(&put, NULL, (mc_str){bytes->data ? bytes->data : "", bytes->len});
    assert_int_equal(mc_json_parse(json.data, json.len, "text", &doc), MICA_OK);
    assert_true(mc_json_get_str(mc_json_root(doc), &text));
    for (size_t i = 0; i < text.len; i++)
        n += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    mc_json_close(&doc);
    mc_buffer_deinit(&json);
    return n;
}

/* Tokens of single bytes, by their bytes, where the vocabulary has them, and one of several. */
static size_t find_tokens(const mica_tokenizer *tok, int32_t ids[257]) {
    size_t count = 0;
    bool found[257] = {false};
    mc_buffer text = {0};
    for (int32_t id = 0; id < (int32_t)mica_tokenizer_vocab_size(tok); id++) {
        assert_true(mc_token_text(tok, id, &text));
        if (!text.len || mica_tokenizer_is_special(tok, id)) continue;
        size_t at = text.len > 1 ? 256 : (unsigned char)text.data[0];
        if (found[at]) continue;
        found[at] = true;
        ids[count++] = id;
    }
    mc_buffer_deinit(&text);
    return count;
}

static void test_offsets(void **state) {
    (void)state;
    char *folder = test_format("%s/default", test_models_dir());
    mica_tokenizer *tok;
    int32_t ids[257];
    assert_int_equal(mica_tokenizer_open(folder, &tok), MICA_OK);
    size_t count = find_tokens(tok, ids);
    assert_true(count > 200);
    uint64_t random = 7;
    for (int run = 0; run < 50; run++) {
        mc_logprobs logprobs = {.offset = 0};
        mc_buffer before = {0}, text = {0};
        for (int i = 0; i < 40; i++) {
            char want[32];
            random = random * 6364136223846793005u + 1442695040888963407u;
            int32_t id = ids[(random >> 33) % count];
            assert_true(mc_logprobs_add(&logprobs, tok, id, NULL, NULL, 0));
            snprintf(want, sizeof want, "%s%lld", i ? "," : "", (long long)characters(&before));
            const mc_str offsets = {logprobs.offsets.data, logprobs.offsets.len};
            if (!mc_str_ends(offsets, mc_str_of(want)))
                fail_msg("run %d, token %d: %.*s, want %s", run, i, MC_STR_ARG(offsets), want);
            assert_true(mc_token_text(tok, id, &text) &&
                        mc_buffer_add(&before, text.data, text.len));
        }
        mc_logprobs copy = {.offset = 0};
        assert_true(mc_logprobs_copy(&copy, &logprobs));
        assert_true(mc_logprobs_add(&copy, tok, ids[0], NULL, NULL, 0));
        assert_true(mc_logprobs_add(&logprobs, tok, ids[0], NULL, NULL, 0));
        assert_true(mc_str_eq((mc_str){copy.offsets.data, copy.offsets.len},
                              (mc_str){logprobs.offsets.data, logprobs.offsets.len}));
        mc_logprobs_deinit(&copy);
        mc_logprobs_deinit(&logprobs);
        mc_buffer_deinit(&before);
        mc_buffer_deinit(&text);
    }
    mica_tokenizer_close(&tok);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
