/* Grammars of answers whose marks are tokens: a random model with such a vocabulary writes calls of
 * each format, which are read back, and no mark is spelled. */
#include "support/support.h"

#include "answer/splitter.h"
#include "grammar/answer_grammar.h"
#include "grammar/grammar_constraint.h"
#include "grammar/reasoning.h"

#include <stdlib.h>
#include <string.h>

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"strict\": true, \"parameters\":"
    " {\"type\": \"object\", \"properties\": {\"city\": {\"enum\": [\"Rome\", \"Oslo\"]}, \"name\":"
    " {\"type\": \"string\", \"maxLength\": 9}, \"code\": {\"type\": \"string\", \"pattern\": "
    "\"^[A-C]{2}$\"}, "
    "\"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 9}, \"now\": {\"type\": "
    "\"boolean\"}}, \"required\": [\"city\", \"name\", \"code\", \"days\"]}}}]";
static mc_tools tools;
static mica_tokenizer *tokenizer;
static size_t vocab;
static mc_grammars *grammars;

/* The default model's vocabulary with a token for each mark; those of Qwen are not special. */
static int open_all(void **state) {
    (void)state;
    static const char list[] = "\"added_tokens\": [";
    char *from = test_format("%s/default/tokenizer.json", test_models_dir()),
         *dir = test_temp_dir();
    char *to = test_format("%s/tokenizer.json", dir), *text = test_read_file(from, NULL);
    char *at = strstr(text, list);
    mc_buffer made = {0};
    mica_tokenizer *plain;
    char *models = test_format("%s/default", test_models_dir());
    if (!at || mica_tokenizer_open(models, &plain) != MICA_OK) return 1;
    size_t id = mica_tokenizer_vocab_size(plain);
    mica_tokenizer_close(&plain);
    at += strlen(list);
    mc_buffer_add(&made, text, (size_t)(at - text));
    for (size_t i = 0; mc_answer_mark(i); i++) {
        const char *mark = mc_answer_mark(i);
        bool special = !strstr(mark, "think>") && !strstr(mark, "tool_call>");
        mc_buffer_printf(&made, "{\"id\": %zu, \"content\": \"", id++);
        for (; *mark; mark++)
            mc_buffer_printf(&made, *mark == '"' ? "\\%c" : "%c", *mark);
        mc_buffer_printf(&made,
                         "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                         "\"normalized\": false, \"special\": %s},",
                         special ? "true" : "false");
    }
    mc_buffer_add_text(&made, at);
    test_write_file(to, made.data, made.len);
    mica_status status = mica_tokenizer_open(dir, &tokenizer);
    mc_buffer_deinit(&made);
    test_temp_dir_remove(dir);
    free(text);
    free(from);
    free(to);
    free(models);
    if (status != MICA_OK) return 1;
    vocab = mica_tokenizer_vocab_size(tokenizer);
    return mc_grammars_open(tokenizer, vocab, &grammars) != MICA_OK ||
           mc_tools_read(tools_text, strlen(tools_text), &tools) != MICA_OK;
}

static int close_all(void **state) {
    (void)state;
    mc_tools_deinit(&tools);
    mc_grammars_close(&grammars);
    mica_tokenizer_close(&tokenizer);
    return 0;
}

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* The parts of an answer: their kinds, and what they say. */
typedef struct answer {
    mc_buffer text, thoughts, arguments, spelled;
    size_t calls;
} answer;

static mica_status take(void *user, const mc_piece *piece) {
    answer *a = user;
    mc_buffer *to = piece->kind == MC_PIECE_TEXT      ? &a->text
                    : piece->kind == MC_PIECE_THOUGHT ? &a->thoughts
                                                      : &a->arguments;
    a->calls += piece->kind == MC_PIECE_CALL;
    return mc_buffer_add(to, piece->text.ptr, piece->text.len) ? MICA_OK : MICA_ENOMEM;
}

static void answer_deinit(answer *a) {
    mc_buffer_deinit(&a->text);
    mc_buffer_deinit(&a->thoughts);
    mc_buffer_deinit(&a->arguments);
    mc_buffer_deinit(&a->spelled);
}

/* Lets a random model answer, and reads that. What is not a mark's token is in a->spelled. */
static void answer_once(const mc_answer_format *format, mc_constraint *c, bool is_open,
                        uint64_t seed, answer *a) {
    enum { MAX_TOKENS = 600 };
    mica_decoder_stream *decoder;
    mc_splitter *s;
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    const char *piece;
    size_t len;
    *a = (answer){.calls = 0};
    assert_int_equal(mica_decoder_stream_open(tokenizer, true, &decoder), MICA_OK);
    assert_int_equal(mc_splitter_open(format, &tools, is_open, take, a, &s), MICA_OK);
    for (size_t i = 0;; i++) {
        mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
        size_t n = 0, id = 0;
        bool special;
        assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
        for (size_t k = 0; k < vocab; k++) {
            if (mask.all && !mica_tokenizer_is_special(tokenizer, (int32_t)k))
                allowed[k / 32] |= 1u << k % 32;
            n += allowed[k / 32] >> k % 32 & 1;
        }
        if (!n || (mask.may_end && next_random(&seed) % 8 == 0)) break;
        if (i == MAX_TOKENS) fail_msg("%s: no end", format->calls->name);
        size_t at = next_random(&seed) % n;
        while (!(allowed[id / 32] >> id % 32 & 1) || at-- > 0)
            id++;
        assert_int_equal(c->ops->accept(c, (int32_t)id), MICA_OK);
        assert_int_equal(mica_decoder_stream_push(decoder, (int32_t)id, &piece, &len), MICA_OK);
        if (!mc_answer_mark_of(format, (int32_t)id, &special).len)
            mc_buffer_add(&a->spelled, piece, len);
        assert_int_equal(mc_splitter_push_token(s, (int32_t)id, piece, len), MICA_OK);
    }
    assert_int_equal(mc_splitter_end(s), MICA_OK);
    mc_splitter_close(&s);
    mica_decoder_stream_close(&decoder);
    free(allowed);
}

/* The arguments keep to the schema. */
static void check_arguments(const answer *a, const char *name) {
    mc_json_doc *doc;
    mc_str city, code, said;
    int64_t days = 0;
    bool truth;
    if (mc_json_parse(a->arguments.data, a->arguments.len, "arguments", &doc) != MICA_OK)
        fail_msg("%s: %.*s", name, (int)a->arguments.len, a->arguments.data);
    mc_json root = mc_json_root(doc), now = mc_json_find(root, "now");
    bool good = mc_json_get_str(mc_json_find(root, "city"), &city) &&
                (mc_str_is(city, "Rome") || mc_str_is(city, "Oslo")) &&
                mc_json_get_str(mc_json_find(root, "name"), &said) &&
                mc_json_get_str(mc_json_find(root, "code"), &code) && code.len == 2 &&
                strspn(code.ptr, "ABC") >= 2 &&
                mc_json_get_int(mc_json_find(root, "days"), &days) && days >= 1 && days <= 9 &&
                (!mc_json_exists(now) || mc_json_get_bool(now, &truth));
    if (!good) fail_msg("%s: %.*s", name, (int)a->arguments.len, a->arguments.data);
    mc_json_close(&doc);
}

static void check_format(const mc_call_format *calls, mc_tool_choice choice, mc_thinking thinking,
                         uint64_t seed) {
    mc_answer_format format = mc_answer_format_find(
        calls->channels ? MC_STR("tools <|channel|> <|message|>") : MC_STR(""), tokenizer);
    mc_grammar *g;
    mc_constraint *c;
    answer a;
    format.calls = calls;
    mc_answer_format_take_tokens(&format, tokenizer);
    if (mc_answer_grammar_tools(&tools, choice, NULL, false, &format, thinking, &g) != MICA_OK)
        fail_msg("%s: %s", calls->name, mica_last_error());
    assert_int_equal(mc_grammars_constrain(grammars, g, 0, &c), MICA_OK);
    answer_once(&format, c, thinking == MC_THINKING_IS_OPEN, seed, &a);
    if (choice == MC_TOOLS_REQUIRED) {
        if (a.calls != 1 || a.text.len)
            fail_msg("%s: %zu calls, text %.*s, of %.*s", calls->name, a.calls, (int)a.text.len,
                     a.text.data, (int)a.spelled.len, a.spelled.data);
        check_arguments(&a, calls->name);
        for (size_t i = 0; mc_answer_mark(i) && a.spelled.len; i++)
            if (format.tokens >> i & 1 && !a.thoughts.len &&
                strstr(mc_buffer_cstr(&a.spelled), mc_answer_mark(i)))
                fail_msg("%s: %s is spelled", calls->name, mc_answer_mark(i));
    }
    answer_deinit(&a);
    mc_constraint_close(&c);
    mc_grammar_close(&g);
}

static void test_forced_calls(void **state) {
    (void)state;
    for (size_t i = 0; mc_call_format_at(i); i++)
        for (uint64_t seed = 0; seed < 6; seed++)
            check_format(mc_call_format_at(i), MC_TOOLS_REQUIRED, MC_THINKING_NONE, seed);
}

/* Where the model decides, masks are made all the same, and an answer ends. */
static void test_free_calls(void **state) {
    (void)state;
    for (size_t i = 0; mc_call_format_at(i); i++)
        check_format(mc_call_format_at(i), MC_TOOLS_AUTO, MC_THINKING_MAY, 1);
}

/* Documents behind thoughts: of a format with channels, and of one with marks. */
static void test_documents(void **state) {
    (void)state;
    static const char schema[] = "{\"type\": \"integer\", \"minimum\": 100, \"maximum\": 999}";
    static const char *const templates[] = {"<|channel|> <|message|>", "</think>", "[/THINK]"};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            const mc_answer_format format =
                mc_answer_format_find(mc_str_of(templates[i]), tokenizer);
            mc_grammar *g;
            mc_constraint *inner, *c;
            answer a;
            bool is_open = seed % 2;
            assert_int_equal(mc_answer_grammar_document(
                                 MICA_CONSTRAINT_JSON_SCHEMA, schema, strlen(schema), &format,
                                 is_open ? MC_THINKING_IS_OPEN : MC_THINKING_MAY, &g),
                             MICA_OK);
            assert_int_equal(mc_grammars_constrain(grammars, g, 0, &inner), MICA_OK);
            assert_int_equal(mc_reasoning_constrain(grammars, &format, 8, is_open, inner, &c),
                             MICA_OK);
            answer_once(&format, c, is_open, seed, &a);
            const char *said = mc_buffer_cstr(&a.text);
            if (strspn(said, "0123456789") != 3 || a.text.len != 3)
                fail_msg("%s, seed %d: \"%s\" of %.*s; thoughts %.*s", templates[i], (int)seed,
                         said, (int)a.spelled.len, a.spelled.data, (int)a.thoughts.len,
                         a.thoughts.data);
            answer_deinit(&a);
            mc_constraint_close(&c);
            mc_grammar_close(&g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forced_calls),
                                       cmocka_unit_test(test_free_calls),
                                       cmocka_unit_test(test_documents)};
    return cmocka_run_group_tests_name("grammar/marks", tests, open_all, close_all);
}
