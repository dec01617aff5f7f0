/* Tokenizers of a few lines that ask for any amount of memory or time: what their steps add to a
 * text, how long their patterns are matched and how much there is of anything is bounded, before
 * memory is taken. */
#include "base/buffer.h"
#include "support/support.h"
#include "text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"byte_fallback\":false,\"vocab\":"                               \
    "{\"a\":0,\"b\":1,\"\xEF\xB7\xBA\":2,\"\xC4\xA0\":3,\"x\":4,\"\xE2\x96\x81\":5},\"merges\":[]" \
    "}"
#define REPLACE(from, to) \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"}"
#define SPLIT(pattern) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"}"
#define BYTES(prefix, regex)                                                         \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix ",\"trim_offsets\":true," \
    "\"use_regex\":" regex "}"

static void add(mc_buffer *out, const char *text) {
    assert_true(mc_buffer_add_text(out, text));
}

static void add_repeated(mc_buffer *out, const char *text, size_t n, const char *between) {
    for (size_t i = 0; i < n; i++) {
        if (i) add(out, between);
        add(out, text);
    }
}

/* {MODEL, "field": a Sequence of n steps}; freed by the caller. */
static char *with_steps(const char *field, const char *list, const char *step, size_t n) {
    mc_buffer out = {0};
    assert_true(
        mc_buffer_printf(&out, "{%s,\"%s\":{\"type\":\"Sequence\",\"%s\":[", MODEL, field, list));
    add_repeated(&out, step, n, ",");
    add(&out, "]}}");
    return mc_buffer_take(&out);
}

/* The same of a step with a long text at '*'. */
static char *with_long(const char *field, const char *list, const char *step, size_t len,
                       size_t n) {
    mc_buffer out = {0};
    const char *star = strchr(step, '*');
    assert_true(mc_buffer_add(&out, step, (size_t)(star - step)));
    add_repeated(&out, "a", len, "");
    add(&out, star + 1);
    char *whole = with_steps(field, list, mc_buffer_cstr(&out), n);
    mc_buffer_deinit(&out);
    return whole;
}

static mica_tokenizer *open_text(const char *json) {
    mica_tokenizer *tok = NULL;
    if (mc_tokenizer_parse(json, strlen(json), "bounds.json", &tok) != MICA_OK)
        fail_msg("%.200s: %s", json, mica_last_error());
    return tok;
}

static void expect_text(const char *json, const char *word) {
    if (!strstr(mica_last_error(), word))
        fail_msg("%.200s: '%.200s' lacks '%s'", json, mica_last_error(), word);
}

/* Opening fails, with a word in the error's text. Frees json. */
static void cannot_open(char *json, mica_status status, const char *word) {
    mica_tokenizer *tok = NULL;
    assert_int_equal(mc_tokenizer_parse(json, strlen(json), "bounds.json", &tok), status);
    assert_null(tok);
    expect_text(json, word);
    free(json);
}

/* Encoding n times `unit` gives the status. Frees json. */
static void encode_ends(char *json, const char *unit, size_t n, mica_status wanted,
                        const char *word) {
    mica_tokenizer *tok = open_text(json);
    mc_buffer text = {0};
    int32_t *ids;
    size_t count;
    add_repeated(&text, unit, n, "");
    mica_status status = mica_tokenizer_encode(tok, text.data, text.len, true, &ids, &count);
    if (status != wanted)
        fail_msg("%.200s: %s, not %s", json, mica_status_name(status), mica_status_name(wanted));
    if (status == MICA_OK)
        mica_free(ids);
    else
        expect_text(json, word);
    mc_buffer_deinit(&text);
    mica_tokenizer_close(&tok);
    free(json);
}

static const char too_much[] = "add more to a text than 32 bytes for each byte";
static const char too_long[] = "too much work on this text";

static void test_growing_normalizers(void **state) {
    (void)state;
    const char list[] = "normalizers", field[] = "normalizer";
    encode_ends(with_steps(field, list, REPLACE("a", "aa"), 24), "a", 1, MICA_EUNSUPPORTED,
                too_much);
    encode_ends(with_steps(field, list, REPLACE("a", "aa"), 24), "a", 1000, MICA_EUNSUPPORTED,
                too_much);
    encode_ends(with_long(field, list, REPLACE("a", "*"), 1000, 3), "a", 10, MICA_EUNSUPPORTED,
                too_much);
    encode_ends(with_long(field, list,
                          "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"*\"}",
                          1000, 3),
                "a", 10, MICA_EUNSUPPORTED, too_much);
    encode_ends(with_steps(field, list,
                           "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\"},\"content\":\"bb\"}",
                           16),
                "a", 10, MICA_EUNSUPPORTED, too_much);
    encode_ends(with_long(field, list, "{\"type\":\"Prepend\",\"prepend\":\"*\"}", 1000, 100), "a",
                1, MICA_EUNSUPPORTED, too_much);
    encode_ends(with_steps(field, list, "{\"type\":\"ByteLevel\"}", 40), "\xC3\xA9", 10,
                MICA_EUNSUPPORTED, too_much);
    encode_ends(with_steps(field, list,
                           REPLACE("a", "\xEF\xB7\xBA\xEF\xB7\xBA\xEF\xB7\xBA") ","
                                                                                "{\"type\":"
                                                                                "\"NFKC\"}",
                           1),
                "a", 10000, MICA_EUNSUPPORTED, too_much);
}

static void test_growing_pretokenizers(void **state) {
    (void)state;
    const char list[] = "pretokenizers", field[] = "pre_tokenizer";
    encode_ends(with_steps(field, list, BYTES("false", "false"), 31), "\xC3\xA9", 10,
                MICA_EUNSUPPORTED, too_much);
    encode_ends(with_steps(field, list, BYTES("true", "true"), 10), "a ", 5000, MICA_EUNSUPPORTED,
                too_much);
}

/* A text that added tokens cut has what it may take as a whole. */
static void test_growth_is_of_the_text(void **state) {
    (void)state;
    mc_buffer json = {0};
    add(&json, "{" MODEL ",\"added_tokens\":[{\"id\":4,\"content\":\"x\",\"special\":true}],"
               "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"");
    add_repeated(&json, "b", 1000, "");
    add(&json, "\"}}");
    char *text = mc_buffer_take(&json);
    encode_ends(test_format("%s", text), "ax", 10, MICA_OK, "");
    encode_ends(text, "ax", 1000, MICA_EUNSUPPORTED, too_much);
}

/* Of one piece that a real tokenizer may make much of. */
static void test_real_growth(void **state) {
    (void)state;
    const char nfkc[] = "{\"type\":\"NFKC\"},{\"type\":\"Lowercase\"},{\"type\":\"ByteLevel\"}";
    encode_ends(with_steps("normalizer", "normalizers", nfkc, 1), "\xEF\xB7\xBA", 20000, MICA_OK,
                "");
    encode_ends(
        with_steps(
            "normalizer", "normalizers",
            "{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"}," REPLACE(" ", "\xE2\x96\x81"), 1),
        " ", 200000, MICA_OK, "");
    encode_ends(
        with_steps("normalizer", "normalizers", "{\"type\":\"NFD\"},{\"type\":\"NFC\"}", 10),
        "\xC3\xA9", 20000, MICA_OK, "");
}

static void test_growing_decoders(void **state) {
    (void)state;
    const char list[] = "decoders", field[] = "decoder";
    const char word[] = "add more to a text than 8 bytes for each byte";
    cannot_open(with_steps(field, list, REPLACE("a", "aa"), 24), MICA_EUNSUPPORTED, word);
    cannot_open(with_long(field, list, REPLACE("a", "*"), 1000, 3), MICA_EUNSUPPORTED, word);

    /* Only the first token of a text takes this path. */
    mica_tokenizer *tok = NULL;
    char *json = with_steps(field, list,
                            "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\","
                            "\"prepend_scheme\":\"always\"}," REPLACE("b", "bbbbbbbb"),
                            1);
    tok = open_text(json);
    char *text;
    size_t len;
    int32_t ids[] = {1, 1};
    assert_int_equal(mica_tokenizer_decode(tok, ids, 2, false, &text, &len), MICA_OK);
    assert_int_equal(len, 16);
    mica_free(text);
    mica_tokenizer_close(&tok);
    free(json);
}

/* Patterns that backtrack at every character, and then match; that never match; and that look far
 * at every character. */
static void test_slow_patterns(void **state) {
    (void)state;
    const char list[] = "pretokenizers", field[] = "pre_tokenizer";
    static const char *const steps[] = {
        SPLIT("(?:(?=(?:.|.|.|.){11}\\\\x00)|)."),
        SPLIT("(?=(?:.|.|.|.){11}\\\\x00)"),
        SPLIT(".*.*x|."),
        SPLIT("(?m:.*.*.*x)|."),
        SPLIT("(a+)+c|."),
        SPLIT("(?:a|b)*c|."),
        SPLIT("(.*)\\\\1x|."),
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        encode_ends(with_steps(field, list, steps[i], 1), "a", 20000, MICA_EUNSUPPORTED, too_long);
    encode_ends(with_steps("normalizer", "normalizers",
                           "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a+)+c|.\"},"
                           "\"content\":\"b\"}",
                           1),
                "a", 20000, MICA_EUNSUPPORTED, too_long);
    /* Long runs are no such thing. */
    encode_ends(with_steps(field, list, SPLIT("\\\\p{Lu}*\\\\p{Ll}+|\\\\p{Lu}+|."), 1), "A", 200000,
                MICA_OK, "");
    encode_ends(
        with_steps(field, list, SPLIT("\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+|\\\\S+"), 1), " ",
        200000, MICA_OK, "");
}

static void test_too_many(void **state) {
    (void)state;
    cannot_open(with_steps("normalizer", "normalizers", "{\"type\":\"Lowercase\"}", 257),
                MICA_EUNSUPPORTED, "normalizer: more than 256 steps");
    cannot_open(with_steps("decoder", "decoders", REPLACE("a", "b"), 33), MICA_EUNSUPPORTED,
                "decoder: more than 32 steps");
    cannot_open(with_steps("pre_tokenizer", "pretokenizers", "{\"type\":\"Whitespace\"}", 33),
                MICA_EUNSUPPORTED, "pre_tokenizer: more than 32 steps");
    cannot_open(with_long("normalizer", "normalizers", REPLACE("*", "b"), 65537, 1), MICA_EFORMAT,
                "'pattern' has 65537 bytes, the limit is 65536");
    cannot_open(with_long("pre_tokenizer", "pretokenizers", SPLIT("*"), 65537, 1), MICA_EFORMAT,
                "has 65537 bytes, the limit is 65536");
    cannot_open(test_format("{%s,\"added_tokens\":[{\"id\":6,\"content\":\"%01025d\"}]}", MODEL, 1),
                MICA_EUNSUPPORTED, "1025 bytes, the limit is 1024");
    cannot_open(test_format("{\"model\":{\"vocab\":{\"a\":0,\"b\":4194303},\"merges\":[]}}"),
                MICA_EFORMAT, "the id 4194303 is far above the number of tokens, 2");
    cannot_open(test_format("{%s,\"added_tokens\":[{\"id\":2000000,\"content\":\"<x>\"}]}", MODEL),
                MICA_EFORMAT, "the id 2000000 is far above");
    static const char mark[] = "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}";
    cannot_open(with_steps("pre_tokenizer", "pretokenizers", mark, 1), MICA_EFORMAT,
                "'replacement' is not a character");
    cannot_open(with_steps("pre_tokenizer", "pretokenizers",
                           "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"ab\"}", 1),
                MICA_EFORMAT, "'delimiter' is not a character");
}

/* Ids around a text: how often each special token comes, times its ids, times the processors. */
static void test_template(void **state) {
    (void)state;
    mc_buffer step = {0};
    add(&step, "{\"type\":\"TemplateProcessing\",\"single\":[");
    add_repeated(&step, "{\"SpecialToken\":{\"id\":\"A\"}}", 50, ",");
    add(&step, ",{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"A\":{\"ids\":[");
    add_repeated(&step, "0", 50, ",");
    add(&step, "]}}}");
    const char *text = mc_buffer_cstr(&step);
    encode_ends(with_steps("post_processor", "processors", text, 1), "a", 1, MICA_OK, "");
    cannot_open(with_steps("post_processor", "processors", text, 2), MICA_EUNSUPPORTED,
                "post_processor: more than 4096 ids around a text");
    mc_buffer_deinit(&step);
}

/* What added tokens are normalised to is bounded for all of them. */
static void test_respelled(void **state) {
    (void)state;
    mc_buffer json = {0};
    add(&json, "{" MODEL ",\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"");
    add_repeated(&json, "b", 1000, "");
    add(&json, "\"},\"added_tokens\":[");
    for (int i = 0; i < 200; i++)
        assert_true(mc_buffer_printf(&json, "%s{\"id\":%d,\"content\":\"a%d\",\"normalized\":true}",
                                     i ? "," : "", i + 6, i));
    add(&json, "]}");
    cannot_open(mc_buffer_take(&json), MICA_EUNSUPPORTED, too_much);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing_normalizers),
        cmocka_unit_test(test_growing_pretokenizers),
        cmocka_unit_test(test_growth_is_of_the_text),
        cmocka_unit_test(test_real_growth),
        cmocka_unit_test(test_growing_decoders),
        cmocka_unit_test(test_slow_patterns),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_template),
        cmocka_unit_test(test_respelled),
    };
    return cmocka_run_group_tests_name("text/tokenizer/bounds", tests, NULL, NULL);
}
