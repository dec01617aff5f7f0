/* Grammars of whole answers, and budgets of thoughts: what they force, the splitter reads. */
#include "support/support.h"

#include "answer/call_parse.h"
#include "answer/splitter.h"
#include "base/alloc.h"
#include "grammar/answer_grammar.h"
#include "grammar/reasoning.h"
#include "grammar/schema.h"

#include <stdlib.h>
#include <string.h>

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"strict\": true,"
    " \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"enum\": [\"Rome\","
    " \"Oslo\"]}}, \"required\": [\"city\"], \"additionalProperties\": false}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"now\"}}]";
static mc_tools tools;
static mica_tokenizer *tokenizer;
static size_t vocab;
static mc_grammars *grammars;

static int open_all(void **state) {
    (void)state;
    char *folder = test_format("%s/default", test_models_dir());
    mica_status status = mica_tokenizer_open(folder, &tokenizer);
    free(folder);
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

static mc_answer_format format_of(const char *calls, bool thinks) {
    const mc_call_format *found = mc_call_format_find(calls);
    bool marks = thinks || found->channels; /* messages have headers only where these are known */
    return (mc_answer_format){.calls = found,
                              .think_begin = marks ? "<think>" : NULL,
                              .think_end = marks ? "</think>" : NULL};
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check(mc_grammar *g, const char *const *good, const char *const *bad) {
    bool accepted;
    for (; *good; good++) {
        assert_int_equal(mc_grammar_accepts(g, *good, strlen(*good), &accepted, NULL), MICA_OK);
        if (!accepted) fail_msg("not accepted: %s", *good);
    }
    for (; *bad; bad++) {
        assert_int_equal(mc_grammar_accepts(g, *bad, strlen(*bad), &accepted, NULL), MICA_OK);
        if (accepted) fail_msg("accepted: %s", *bad);
    }
    mc_grammar_close(&g);
}

/* ---- documents ---- */

static void test_documents(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", true), plain = format_of("hermes", false);
    static const char schema[] = "{\"type\": \"integer\"}";
    mc_grammar *g;
    assert_int_equal(mc_answer_grammar_document(MICA_CONSTRAINT_JSON_OBJECT, NULL, 0, &plain,
                                                MC_THINKING_MAY, &g),
                     MICA_OK);
    check(g, LIST("{}", "{\"a\": [1]}"), LIST("", "1", "[]", "<think></think>{}", "{} "));
    assert_int_equal(mc_answer_grammar_document(MICA_CONSTRAINT_JSON_SCHEMA, schema, strlen(schema),
                                                &format, MC_THINKING_MAY, &g),
                     MICA_OK);
    check(g, LIST("7", "<think>a <b> {\n</think>\n\n7", "<think></think>7"),
          LIST("{}", "<think>7", "x</think>7", "<think></think>", "<think></think>\n\n\n\n\n7"));
    assert_int_equal(mc_answer_grammar_document(MICA_CONSTRAINT_JSON_SCHEMA, schema, strlen(schema),
                                                &format, MC_THINKING_IS_OPEN, &g),
                     MICA_OK);
    check(g, LIST("a</think>7", "</think>\n\n-1"), LIST("7", "<think>7", "a</think>b</think>7"));
    assert_int_equal(
        mc_answer_grammar_document(MICA_CONSTRAINT_REGEX, "a|b+", 4, &format, MC_THINKING_NONE, &g),
        MICA_OK);
    check(g, LIST("a", "bb"), LIST("", "ab", "<think></think>a"));
    assert_int_equal(mc_answer_grammar_document(MICA_CONSTRAINT_JSON_SCHEMA, "{\"some\": 1}", 11,
                                                &format, MC_THINKING_NONE, &g),
                     MICA_EUNSUPPORTED);
    assert_null(g);
}

/* ---- calls ---- */

static mc_grammar *tool_grammar(mc_tool_choice choice, const char *name, bool parallel,
                                const mc_answer_format *format, mc_thinking thinking) {
    mc_grammar *g;
    if (mc_answer_grammar_tools(&tools, choice, name, parallel, format, thinking, &g) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return g;
}

#define ROME \
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
#define NOW "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"

static void test_forced_calls(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", true), llama = format_of("llama", false);
    check(tool_grammar(MC_TOOLS_REQUIRED, NULL, false, &format, MC_THINKING_NONE), LIST(ROME, NOW),
          LIST("", "hello", ROME "\n" NOW, "<tool_call>\n{\"name\": \"other\"",
               "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>"));
    check(tool_grammar(MC_TOOLS_REQUIRED, NULL, true, &format, MC_THINKING_NONE),
          LIST(ROME, ROME "\n" NOW "\n" NOW), LIST("", ROME NOW));
    check(tool_grammar(MC_TOOLS_AUTO, "get_weather", true, &format, MC_THINKING_MAY),
          LIST(ROME, "<think>so</think>\n\n" ROME), LIST(NOW, "", ROME "\n" ROME));
    check(tool_grammar(MC_TOOLS_REQUIRED, NULL, true, &llama, MC_THINKING_NONE),
          LIST("{\"name\": \"now\", \"parameters\": {\"a\": 1}}",
               "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}"),
          LIST("", ROME, "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Bonn\"}}"));
}

/* The forms of formats, with their marks as texts. */
static void test_forms(void **state) {
    (void)state;
#define LOOK(name) "<tool_call>\n<function=get_weather>\n<parameter=city>\n" name "\n</parameter>"
    static const struct {
        const char *name, *good, *bad;
    } rows[] = {
        {"qwen_xml", LOOK("Rome") "\n</function>\n</tool_call>",
         LOOK("Bonn") "\n</function>\n</tool_call>"},
        {"glm",
         "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
         "</tool_call>",
         "<tool_call>get_weather\n</tool_call>"},
        {"gemma4", "<|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>}<tool_call|>",
         "<|tool_call>call:get_weather{city:\"Rome\"}<tool_call|>"},
        {"mistral", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Rome\"}",
         "[TOOL_CALLS]get_weather[ARGS]{}"},
        {"mistral_list",
         "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}]",
         "[TOOL_CALLS][]"},
        {"lfm2", "<|tool_call_start|>[get_weather(city=\"Rome\")]<|tool_call_end|>",
         "<|tool_call_start|>[get_weather()]<|tool_call_end|>"},
        {"olmo3", "<function_calls>get_weather(city=\"Rome\")</function_calls>",
         "<function_calls></function_calls>"},
        {"harmony",
         "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
         "{\"city\": \"Rome\"}",
         "<|channel|>final<|message|>Rome"},
        {"kimi",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
         "<|tool_call_argument_begin|>{\"city\": \"Oslo\"}<|tool_call_end|>"
         "<|tool_calls_section_end|>",
         "<|tool_calls_section_begin|><|tool_calls_section_end|>"},
        {"deepseek_v3_1",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
         "{\"city\": \"Oslo\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         "<｜tool▁calls▁begin｜>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const mc_answer_format format = format_of(rows[i].name, false);
        check(tool_grammar(MC_TOOLS_AUTO, "get_weather", true, &format, MC_THINKING_NONE),
              LIST(rows[i].good), LIST(rows[i].bad, ""));
    }
    /* Texts are as they are, up to the mark behind them. */
    static const char text[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
                               "\"strict\": true, \"parameters\": {\"type\": \"object\", "
                               "\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\":"
                               " \"integer\"}}, \"required\": [\"s\"]}}}]";
    const mc_answer_format format = format_of("qwen_xml", false);
    mc_tools list;
    mc_grammar *g;
    assert_int_equal(mc_tools_read(text, strlen(text), &list), MICA_OK);
    assert_int_equal(mc_answer_grammar_tools(&list, MC_TOOLS_REQUIRED, NULL, true, &format,
                                             MC_THINKING_NONE, &g),
                     MICA_OK);
#define F(s) "<tool_call>\n<function=f>\n<parameter=s>\n" s "\n</function>\n</tool_call>"
    check(g,
          LIST(F("a\n\"b\" </param <b>\n</parameter>"), F("\n</parameter>"),
               F("x\n</parameter>\n<parameter=n>\n3\n</parameter>"),
               F("x\n</parameter>") "\n" F("y\n</parameter>")),
          LIST(F("x\n</parameter>\n<parameter=n>\nx\n</parameter>"), F("\xff\n</parameter>"),
               F("x</parameter>"), F("x</parameter>y\n</parameter>")));
#undef F
#undef LOOK
    mc_tools_deinit(&list);
}

/* Kimi's calls are numbered. */
static void test_numbered_calls(void **state) {
    (void)state;
#define SECTION(calls) "<|tool_calls_section_begin|>" calls "<|tool_calls_section_end|>"
#define ONE(number)                                                            \
    "<|tool_call_begin|>functions.now" number "<|tool_call_argument_begin|>{}" \
    "<|tool_call_end|>"
    const mc_answer_format format = format_of("kimi", false);
    check(tool_grammar(MC_TOOLS_REQUIRED, NULL, true, &format, MC_THINKING_NONE),
          LIST(SECTION(ONE(":0")), SECTION(ONE(":0") ONE(":1")), SECTION(ONE(":37") ONE(":138"))),
          LIST(SECTION(ONE("")), SECTION(ONE(":")), SECTION(ONE(":x")), SECTION(ONE(":12345"))));
#undef ONE
#undef SECTION
}

static void test_free_calls(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", true);
    check(tool_grammar(MC_TOOLS_AUTO, NULL, true, &format, MC_THINKING_MAY),
          LIST("", "hello", "a <tool_cal", ROME, "a\n" ROME " b <tool\n" NOW "\xff",
               "<think>x</think>" NOW),
          LIST("<tool_call>", "<tool_call>{}", ROME "<tool_call>x",
               "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>"));
    assert_null(tool_grammar(MC_TOOLS_NONE, NULL, true, &format, MC_THINKING_NONE));
}

#define CALL(name, word, arguments) "{\"name\": \"" name "\", \"" word "\": " arguments "}"
#define OSLO CALL("get_weather", "parameters", "{\"city\": \"Oslo\"}")

/* Nothing marks where these calls begin: an answer that begins as a call does is one. */
static void test_calls_of_whole_answers(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "pythonic", "gemma", "generic"};
    const char *const good[] = {"",
                                "hello",
                                "{",
                                "{\"a\": 1}",
                                "{\"name\": \"Bob\"}",
                                "{\"name\": \"get_weathe",
                                "{\"name\": \"get_weather_of\"}",
                                "[now] \xff",
                                "[1, 2]",
                                OSLO,
                                "\n " OSLO,
                                "so: {\"name\": \"now\"}",
                                CALL("now", "arguments", "{\"a\": 1}"),
                                NULL};
    const char *const bad[] = {"{\"name\": \"now\"}",
                               "\n{\"name\": \"now\"}",
                               CALL("get_weather", "parameters", "{\"city\": \"Bonn\"}"),
                               CALL("get_weather", "parameters", "{}"),
                               CALL("now", "arguments", "1"),
                               OSLO "x",
                               OSLO "\nx",
                               NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const mc_answer_format format = format_of(names[i], false),
                               thinks = format_of(names[i], true);
        for (int parallel = 0; parallel < 2; parallel++) {
            check(tool_grammar(MC_TOOLS_AUTO, NULL, parallel, &format, MC_THINKING_NONE), good,
                  bad);
            check(tool_grammar(MC_TOOLS_AUTO, NULL, parallel, &thinks, MC_THINKING_MAY), good, bad);
        }
        check(tool_grammar(MC_TOOLS_AUTO, NULL, true, &format, MC_THINKING_NONE),
              LIST(OSLO "\n" OSLO, "<think>" OSLO), LIST(OSLO OSLO));
        check(tool_grammar(MC_TOOLS_AUTO, NULL, false, &format, MC_THINKING_NONE), LIST(OSLO),
              LIST(OSLO "\n" OSLO));
        check(tool_grammar(MC_TOOLS_AUTO, NULL, true, &thinks, MC_THINKING_MAY),
              LIST("<think>{\"name\": \"now\"}", "<think>a</think>\n\n" OSLO, "\n<think></think>b"),
              LIST("<think>a</think>\n{\"name\": \"now\"}"));
        check(tool_grammar(MC_TOOLS_AUTO, NULL, true, &thinks, MC_THINKING_IS_OPEN),
              LIST("{\"name\": \"now\"}", "a</think>" OSLO, "a</think>b"),
              LIST("a</think>{\"name\": \"now\"}"));
    }
}

/* A list of calls in Python, which an answer may be, keeps to the schemas, too. */
static void test_python_calls(void **state) {
    (void)state;
    static const char *const names[] = {"pythonic", "gemma"};
    for (size_t i = 0; i < 2; i++) {
        const mc_answer_format format = format_of(names[i], false);
        check(tool_grammar(MC_TOOLS_AUTO, NULL, true, &format, MC_THINKING_NONE),
              LIST("[get_weather(city=\"Rome\")]", "\n[now()]",
                   "[now(a=[1, {\"b\": null}], _c=true)]",
                   "[now(), get_weather( city=\"Oslo\"),now(x=\"\\ud83d\\ude00\\/\")]", "[get_weat",
                   "[get_weather2(a=3)]", "[now", "so: [get_weather()]", OSLO),
              LIST("[get_weather()]", "[get_weather(city=\"Bonn\")]", "[get_weather(city='Rome')]",
                   "[get_weather(city=\"Rome\", a=1)]", "[now(]", "[now(1)]", "[now(a=b)]",
                   "[now()] x", "[now()", "[now() ", "[now(), other()]"));
        check(tool_grammar(MC_TOOLS_AUTO, NULL, false, &format, MC_THINKING_NONE),
              LIST("[now(a=1)]"), LIST("[now(), now()]"));
    }
}

static void test_tool_errors(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", false);
    static const char odd[] = "[{\"type\": \"function\", \"function\": {\"name\": \"a\", "
                              "\"strict\": true, \"parameters\":"
                              " {\"properties\": {\"b\": {\"some\": {}}}}}}]";
    mc_tools list = {0};
    mc_grammar *g;
    assert_int_equal(mc_answer_grammar_tools(&tools, MC_TOOLS_AUTO, "none", false, &format,
                                             MC_THINKING_NONE, &g),
                     MICA_EINVAL);
    assert_int_equal(mc_answer_grammar_tools(&list, MC_TOOLS_REQUIRED, NULL, false, &format,
                                             MC_THINKING_NONE, &g),
                     MICA_EINVAL);
    assert_int_equal(mc_tools_read(odd, strlen(odd), &list), MICA_OK);
    assert_int_equal(mc_answer_grammar_tools(&list, MC_TOOLS_REQUIRED, NULL, false, &format,
                                             MC_THINKING_NONE, &g),
                     MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "tools/a/properties/b/some"));
    mc_tools_deinit(&list);
    /* One that is not strict takes any object then. */
    char *loose = test_format("%s", odd);
    memcpy(strstr(loose, "true"), "null", 4);
    assert_int_equal(mc_tools_read(loose, strlen(loose), &list), MICA_OK);
    assert_int_equal(mc_answer_grammar_tools(&list, MC_TOOLS_REQUIRED, NULL, false, &format,
                                             MC_THINKING_NONE, &g),
                     MICA_OK);
    check(g, LIST("<tool_call>\n{\"name\": \"a\", \"arguments\": {\"b\": 1}}\n</tool_call>"),
          LIST("<tool_call>\n{\"name\": \"a\", \"arguments\": []}\n</tool_call>"));
    mc_tools_deinit(&list);
    free(loose);
}

/* ---- answers of a random model ---- */

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* The tokens that may come next. */
static mc_token_mask mask_of(mc_constraint *c, uint32_t *allowed, size_t *count) {
    mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
    assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
    *count = 0;
    for (size_t id = 0; id < vocab; id++) {
        if (mask.all && !mica_tokenizer_is_special(tokenizer, (int32_t)id))
            allowed[id / 32] |= 1u << id % 32;
        *count += allowed[id / 32] >> id % 32 & 1;
    }
    return mask;
}

/* Says a text byte by byte, as far as the constraint allows it. */
static void say(mc_constraint *c, mica_decoder_stream *decoder, uint32_t *allowed, const char *said,
                mc_buffer *text) {
    const char *piece;
    size_t len, n;
    for (; *said; said++) {
        int32_t id = mica_tokenizer_find(tokenizer, said, 1);
        mask_of(c, allowed, &n);
        if (id < 0 || !(allowed[id / 32] >> id % 32 & 1)) return;
        assert_int_equal(c->ops->accept(c, id), MICA_OK);
        assert_int_equal(mica_decoder_stream_push(decoder, id, &piece, &len), MICA_OK);
        mc_buffer_add(text, piece, len);
    }
}

/* Draws an answer of at most max tokens; *tokens receives how many came. mark: a text that it has
 * wherever it may; NULL: none. */
static char *random_answer(mc_constraint *c, uint64_t seed, size_t max, const char *mark,
                           size_t *tokens) {
    mica_decoder_stream *decoder;
    mc_buffer text = {0};
    const char *piece;
    size_t len;
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    assert_int_equal(mica_decoder_stream_open(tokenizer, true, &decoder), MICA_OK);
    for (*tokens = 0; *tokens < max; ++*tokens) {
        size_t n;
        if (mark && next_random(&seed) % 4 == 0) say(c, decoder, allowed, mark, &text);
        const mc_token_mask mask = mask_of(c, allowed, &n);
        if (!n || (mask.may_end && next_random(&seed) % 8 == 0)) break;
        size_t at = next_random(&seed) % n, id = 0;
        while (!(allowed[id / 32] >> id % 32 & 1) || at-- > 0)
            id++;
        assert_int_equal(c->ops->accept(c, (int32_t)id), MICA_OK);
        assert_int_equal(mica_decoder_stream_push(decoder, (int32_t)id, &piece, &len), MICA_OK);
        mc_buffer_add(&text, piece, len);
    }
    assert_int_equal(mica_decoder_stream_flush(decoder, &piece, &len), MICA_OK);
    mc_buffer_add(&text, piece, len);
    mica_decoder_stream_close(&decoder);
    free(allowed);
    return mc_buffer_take(&text);
}

typedef struct counts {
    size_t text, thoughts, calls;
} counts;

static mica_status count(void *user, const mc_piece *piece) {
    counts *c = user;
    c->text += piece->kind == MC_PIECE_TEXT;
    c->thoughts += piece->kind == MC_PIECE_THOUGHT;
    c->calls += piece->kind == MC_PIECE_CALL;
    return MICA_OK;
}

static counts split(const mc_answer_format *format, const mc_tools *with, bool is_open,
                    const char *answer) {
    counts c = {0};
    mc_splitter *s;
    assert_int_equal(mc_splitter_open(format, with, is_open, count, &c, &s), MICA_OK);
    assert_int_equal(mc_splitter_push(s, answer, strlen(answer)), MICA_OK);
    assert_int_equal(mc_splitter_end(s), MICA_OK);
    mc_splitter_close(&s);
    return c;
}

/* Forced calls come back as calls and nothing else, in every format. */
static void test_forced_calls_are_read(void **state) {
    (void)state;
    for (size_t i = 0; mc_call_format_at(i); i++) {
        const mc_answer_format format = format_of(mc_call_format_at(i)->name, false);
        mc_grammar *g =
            tool_grammar(MC_TOOLS_AUTO, "get_weather", false, &format, MC_THINKING_NONE);
        for (uint64_t seed = 0; seed < 5; seed++) {
            mc_constraint *c;
            size_t tokens;
            assert_int_equal(mc_grammars_constrain(grammars, g, 0, &c), MICA_OK);
            char *answer = random_answer(c, seed, 500, NULL, &tokens);
            counts got = split(&format, &tools, false, answer);
            if (got.calls != 1 || got.text) fail_msg("%s: %s", format.calls->name, answer);
            free(answer);
            mc_constraint_close(&c);
        }
        mc_grammar_close(&g);
    }
}

/* Also where the arguments have in them whatever they may of what ends them; but Python ends with
 * the first mark (answer/call_scan.c), also one within a string. */
static void test_marks_in_arguments(void **state) {
    (void)state;
    enum { MAX_TOKENS = 400 };
    static const char text[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\", "
        "\"maxLength\": 40}, \"o\": {\"type\": \"object\", \"properties\": {\"k\": {\"type\": "
        "\"string\", \"maxLength\": 40}}, \"required\": [\"k\"], \"additionalProperties\": "
        "false}, \"n\": {\"type\": \"integer\"}}, \"required\": [\"s\", \"o\"], "
        "\"additionalProperties\": false}}}]";
    mc_tools list;
    assert_int_equal(mc_tools_read(text, strlen(text), &list), MICA_OK);
    for (size_t i = 0; mc_call_format_at(i); i++) {
        const mc_answer_format format = format_of(mc_call_format_at(i)->name, false);
        const mc_call_block *block = &format.calls->blocks[0];
        mc_buffer mark = {0};
        mc_grammar *g;
        size_t whole = 0;
        const char *end = block->syntax && block->syntax->end ? block->syntax->end : block->end;
        if (!end || block->body == MC_CALLS_PYTHON) end = "\"";
        assert_true(mc_format_literal(&format, end + (*end == '\n'), &mark));
        assert_int_equal(mc_answer_grammar_tools(&list, MC_TOOLS_REQUIRED, NULL, false, &format,
                                                 MC_THINKING_NONE, &g),
                         MICA_OK);
        for (uint64_t seed = 0; seed < 6; seed++) {
            mc_constraint *c;
            size_t tokens;
            assert_int_equal(mc_grammars_constrain(grammars, g, 0, &c), MICA_OK);
            char *answer = random_answer(c, seed, MAX_TOKENS, mc_buffer_cstr(&mark), &tokens);
            counts got = split(&format, &list, false, answer);
            if (tokens < MAX_TOKENS && (got.calls != 1 || got.text))
                fail_msg("%s: %s", format.calls->name, answer);
            whole += tokens < MAX_TOKENS;
            free(answer);
            mc_constraint_close(&c);
        }
        if (!whole) fail_msg("%s: no answer ended", format.calls->name);
        mc_grammar_close(&g);
        mc_buffer_deinit(&mark);
    }
    mc_tools_deinit(&list);
}

/* What the grammar lets a random model say behind a call's beginning is read as calls that the
 * schema admits: as JSON they are what the grammar of the schema has. */
static void test_python_calls_are_read(void **state) {
    (void)state;
    static const char text[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\", "
        "\"maxLength\": 6}, "
        "\"b\": {\"type\": [\"number\", \"null\"]}, \"c\": {\"anyOf\": [{\"type\": \"boolean\"}, "
        "{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}, \"maxItems\": 2}]}}, "
        "\"required\": [\"b\", \"c\"], \"additionalProperties\": false}}}]";
    const mc_answer_format format = format_of("pythonic", false);
    mc_tools list;
    mc_grammar *g, *schema;
    assert_int_equal(mc_tools_read(text, strlen(text), &list), MICA_OK);
    assert_int_equal(
        mc_answer_grammar_tools(&list, MC_TOOLS_AUTO, NULL, true, &format, MC_THINKING_NONE, &g),
        MICA_OK);
    const char *parameters = strstr(text, "{\"type\": \"object\"");
    assert_int_equal(mc_schema_compile(parameters, strlen(parameters) - 3, &schema), MICA_OK);
    size_t whole = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        mc_constraint *c;
        mc_calls calls = {.text = {0}};
        size_t tokens;
        bool good, accepted = false;
        assert_int_equal(mc_grammars_constrain(grammars, g, 0, &c), MICA_OK);
        for (const char *p = "[f("; *p; p++)
            assert_int_equal(c->ops->accept(c, mica_tokenizer_find(tokenizer, p, 1)), MICA_OK);
        char *rest = random_answer(c, seed, 400, NULL, &tokens),
             *answer = test_format("[f(%s", rest);
        if (tokens < 400) {
            whole++;
            assert_int_equal(
                mc_calls_read(MC_CALLS_PYTHON, mc_str_of(answer), &list, &calls, &good), MICA_OK);
            if (!good) fail_msg("not read: %s", answer);
            const mc_tool_call *call = MC_BUFFER_AT(&calls.list, mc_tool_call);
            for (size_t i = 0; i < MC_BUFFER_COUNT(&calls.list, mc_tool_call); i++) {
                const char *json = calls.text.data + call[i].arguments;
                assert_int_equal(
                    mc_grammar_accepts(schema, json, call[i].arguments_len, &accepted, NULL),
                    MICA_OK);
                if (!accepted) fail_msg("%s: %.*s", answer, (int)call[i].arguments_len, json);
            }
        }
        mc_calls_deinit(&calls);
        free(answer);
        free(rest);
        mc_constraint_close(&c);
    }
    assert_true(whole > 20);
    mc_grammar_close(&schema);
    mc_grammar_close(&g);
    mc_tools_deinit(&list);
}

/* ---- budgets ---- */

static size_t thought_tokens(const char *answer) {
    int32_t *ids;
    size_t n;
    const char *end = strstr(answer, "\n</think>");
    assert_non_null(end);
    assert_int_equal(
        mica_tokenizer_encode(tokenizer, answer, (size_t)(end - answer), false, &ids, &n), MICA_OK);
    mica_free(ids);
    return n;
}

static void check_budget(int64_t budget, bool is_open, bool with_schema, uint64_t seed) {
    const mc_answer_format format = format_of("hermes", true);
    static const char schema[] = "{\"type\": \"integer\", \"minimum\": 100, \"maximum\": 999}";
    mc_constraint *inner = NULL, *c;
    mc_grammar *g = NULL;
    size_t tokens;
    if (with_schema) {
        mc_thinking thinking = is_open ? MC_THINKING_IS_OPEN : MC_THINKING_MAY;
        assert_int_equal(mc_answer_grammar_document(MICA_CONSTRAINT_JSON_SCHEMA, schema,
                                                    strlen(schema), &format, thinking, &g),
                         MICA_OK);
        assert_int_equal(mc_grammars_constrain(grammars, g, 0, &inner), MICA_OK);
    }
    assert_int_equal(mc_reasoning_constrain(grammars, &format, budget, is_open, inner, &c),
                     MICA_OK);
    if (!is_open) /* the model begins a thought */
        for (const char *p = "<think>"; *p; p++)
            assert_int_equal(c->ops->accept(c, mica_tokenizer_find(tokenizer, p, 1)), MICA_OK);
    char *answer = random_answer(c, seed, 400, NULL, &tokens);
    counts got = split(&format, &tools, true, answer);
    if (strstr(answer, "\n</think>")) assert_true(thought_tokens(answer) <= (size_t)budget * 4 + 4);
    if (with_schema) {
        assert_non_null(strstr(answer, "</think>"));
        const char *number = strstr(answer, "</think>") + strlen("</think>");
        number += strspn(number, "\n");
        assert_int_equal(strspn(number, "0123456789"), 3);
        assert_int_equal(strlen(number), 3);
        assert_true(got.text > 0);
    }
    free(answer);
    mc_constraint_close(&c);
    mc_grammar_close(&g);
}

static void test_budgets(void **state) {
    (void)state;
    for (int64_t budget = 0; budget < 20; budget += 4)
        for (uint64_t seed = 0; seed < 4; seed++)
            for (int k = 0; k < 4; k++)
                check_budget(budget, k & 1, k & 2, seed);
}

/* White space before a thought is not kept: an answer may have any amount of it. */
static void test_space_before_a_thought(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", true);
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
    int32_t newline = mica_tokenizer_find(tokenizer, "\n", 1);
    mc_constraint *c;
    assert_int_equal(mc_reasoning_constrain(grammars, &format, 0, false, NULL, &c), MICA_OK);
    for (int i = 0; i < 200000; i++)
        if (c->ops->accept(c, newline) != MICA_OK) fail_msg("token %d", i);
    for (const char *p = "<think>"; *p; p++) {
        assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
        assert_true(mask.all && mask.may_end);
        assert_int_equal(c->ops->accept(c, mica_tokenizer_find(tokenizer, p, 1)), MICA_OK);
    }
    assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
    assert_false(mask.all || mask.may_end);
    mc_constraint_close(&c);
    free(allowed);
}

/* Without a budget's end nothing is forced: a budget of 3 forces after 3 tokens exactly. */
static void test_when_it_is_forced(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", true), none = format_of("hermes", false);
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
    int32_t word = mica_tokenizer_find(tokenizer, "a", 1);
    mc_constraint *c;
    assert_int_equal(mc_reasoning_constrain(grammars, &format, 3, true, NULL, &c), MICA_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
        assert_true(mask.all && mask.may_end);
        assert_int_equal(c->ops->accept(c, word), MICA_OK);
    }
    assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
    assert_false(mask.all || mask.may_end);
    assert_false(allowed[word / 32] >> word % 32 & 1);
    for (const char *p = "\n</think>"; *p; p++) {
        int32_t id = mica_tokenizer_find(tokenizer, p, 1);
        assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
        assert_true(allowed[id / 32] >> id % 32 & 1);
        assert_int_equal(c->ops->accept(c, id), MICA_OK);
    }
    assert_int_equal(c->ops->mask(c, &mask), MICA_OK);
    assert_true(mask.all && mask.may_end);
    mc_constraint_close(&c);
    assert_int_equal(mc_reasoning_constrain(grammars, &none, 3, true, NULL, &c), MICA_EUNSUPPORTED);
    assert_null(c);
    assert_int_equal(mc_reasoning_constrain(grammars, &format, -1, true, NULL, &c), MICA_EINVAL);
    free(allowed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_forced_calls),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_numbered_calls),
        cmocka_unit_test(test_free_calls),
        cmocka_unit_test(test_calls_of_whole_answers),
        cmocka_unit_test(test_python_calls),
        cmocka_unit_test(test_python_calls_are_read),
        cmocka_unit_test(test_tool_errors),
        cmocka_unit_test(test_forced_calls_are_read),
        cmocka_unit_test(test_marks_in_arguments),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_space_before_a_thought),
        cmocka_unit_test(test_when_it_is_forced),
    };
    return cmocka_run_group_tests_name("grammar/answer", tests, open_all, close_all);
}
