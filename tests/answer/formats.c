/* Calls and thoughts of each format. Each answer is read with its marks as texts and as tokens, in
 * pieces of every length up to nine bytes and cut in two at every place; the same must come out of
 * all, streamed and whole. The answers are ours, in the forms that the families' templates show. */
#include "support/support.h"

#include "parts.h"

#include <stdlib.h>
#include <string.h>

/* The format with all its marks as tokens, or none. */
static mc_answer_format with_tokens(mc_answer_format format, bool tokens) {
    format.tokens = format.special = 0;
    for (size_t i = 0; tokens && mc_answer_mark(i); i++) {
        format.tokens |= UINT64_C(1) << i;
        format.ids[i] = (int32_t)(1000 + i);
    }
    format.special = format.tokens;
    return format;
}

static mc_answer_format format_of(const char *name, bool tokens) {
    /* A template that shows the format, and nothing else. */
    static const struct {
        const char *name, *shown;
    } rows[] = {{"harmony", "tools <|channel|> <|message|>"},
                {"gemma4", "tools <|tool_call> <channel|>"},
                {"function_gemma", "tools <start_function_call>"},
                {"mistral", "tools [TOOL_CALLS] [ARGS] [/THINK]"},
                {"mistral_list", "tools [TOOL_CALLS]"},
                {"kimi", "tools <|tool_calls_section_begin|> </think>"},
                {"deepseek_v3_2", "tools <｜DSML｜function_calls> </think>"},
                {"deepseek_v3", "tools <｜tool▁calls▁begin｜> ```json </think>"},
                {"deepseek_v3_1", "tools <｜tool▁calls▁begin｜> </think>"},
                {"lfm2", "tools <|tool_call_start|> </think>"},
                {"olmo3", "tools <function_calls> </think>"},
                {"nemotron", "tools <TOOLCALL> </think>"},
                {"phi4", "tools <|tool|> <|/tool|>"},
                {"granite", "tools <|start_of_role|> available_tools"},
                {"command", "tools <|START_ACTION|> <|END_THINKING|>"},
                {"command_r", "tools a json-formatted list of actions"},
                {"seed", "tools <seed:tool_call> <function= </seed:think>"},
                {"minimax", "tools <minimax:tool_call> </think>"},
                {"minimax_m1", "tools <tool_calls> </think>"},
                {"qwen_xml", "tools <tool_call> <function= </think>"},
                {"glm", "tools <tool_call> <arg_key> </think>"},
                {"smollm3", "tools <tool_call> <code> </think>"},
                {"hermes", "tools <tool_call> </think>"}};
    mc_answer_format format = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            format = mc_answer_format_find(mc_str_of(rows[i].shown), NULL);
    if (!format.calls || strcmp(format.calls->name, name) != 0)
        fail_msg("%s: found %s", name, format.calls ? format.calls->name : "nothing");
    return with_tokens(format, tokens);
}

/* What comes out of an answer, whole and streamed; streamed NULL: the same. */
static void expect(const char *name, bool is_open, const char *answer, const char *whole,
                   const char *streamed) {
    for (int tokens = 0; tokens < 2; tokens++) {
        const way w = {.format = format_of(name, tokens),
                       .tools = &answer_tools,
                       .is_open = is_open,
                       .tokens = tokens};
        way other = w;
        other.streams = true;
        expect_way(w, answer, whole);
        expect_way(other, answer, streamed ? streamed : whole);
    }
}

#define SAME(name, answer, want) expect(name, false, answer, want, NULL)
#define TWO(name, answer, whole, streamed) expect(name, false, answer, whole, streamed)

/* ---- what templates show ---- */

/* What a template is told by. */
static mc_answer_format format_shown(mc_json marks) {
    mc_buffer shown = {0};
    mc_str mark;
    for (mc_json_iter it = mc_json_begin(marks); mc_json_next(&it);)
        assert_true(mc_json_get_str(it.value, &mark) && mc_buffer_add(&shown, mark.ptr, mark.len) &&
                    mc_buffer_add_byte(&shown, ' '));
    mc_answer_format format = mc_answer_format_find((mc_str){shown.data, shown.len}, NULL);
    mc_buffer_deinit(&shown);
    return format;
}

static char *text_of(mc_json object, const char *key) {
    mc_str text;
    if (!mc_json_get_str(mc_json_find(object, key), &text)) fail_msg("no %s", key);
    return test_format("%.*s", MC_STR_ARG(text));
}

/* Calls as templates of published models show them (tools/make_call_samples.py). */
static void test_shipped(void **state) {
    (void)state;
    char *path = test_format("%s/answer/calls.json", test_cases_dir());
    mc_json_doc *doc = test_load_json(path);
    size_t n = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); n++) {
        char *name = text_of(it.value, "format"), *answer = text_of(it.value, "answer");
        char *want = text_of(it.value, "parts");
        const mc_answer_format format = format_shown(mc_json_find(it.value, "shown"));
        if (!format.calls || strcmp(format.calls->name, name) != 0)
            fail_msg("%.*s: found %s", MC_STR_ARG(it.key), format.calls ? format.calls->name : "");
        for (int i = 0; i < 4; i++)
            expect_way((way){.format = with_tokens(format, i & 1),
                             .tools = &answer_tools,
                             .is_open = mc_json_exists(mc_json_find(it.value, "open")),
                             .tokens = i & 1,
                             .streams = i & 2},
                       answer, want);
        free(name);
        free(answer);
        free(want);
    }
    assert_true(n >= 29);
    mc_json_close(&doc);
    free(path);
}

/* ---- the formats ---- */

#define TO_F "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"

static void test_harmony(void **state) {
    (void)state;
    SAME("harmony", "<|channel|>final<|message|>Paris.", "text:Paris.");
    SAME("harmony",
         "<|channel|>analysis<|message|> Hm, \n<|end|><|start|>assistant<|channel|>final"
         "<|message|> Paris.\n<|return|>",
         "thought:Hm,|text: Paris.\n");
    SAME("harmony",
         "<|channel|>analysis<|message|>a<|end|><|start|>assistant" TO_F
         "{\"s\": \"x <|y\"}<|call|>",
         "thought:a|f:{\"s\": \"x <|y\"}");
    /* Parts of a header in another order, a preamble, and two calls. */
    SAME("harmony", " to=functions.f<|channel|>commentary json<|message|>{}", "f:{}");
    SAME("harmony",
         "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant" TO_F
         "{\"n\": 1}<|end|><|start|>assistant to=functions.get_weather<|channel|>"
         "commentary<|message|> {} <|call|>",
         "text:Let me see.|f:{\"n\": 1}|get_weather:{}");
    /* A thought goes on in another, and a tool that nobody has. */
    SAME("harmony",
         "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis"
         "<|message|>b",
         "thought:ab");
    SAME("harmony", "<|channel|>commentary to=functions.g<|message|>{}<|call|>",
         "text:<|channel|>commentary to=functions.g<|message|>{}");
    SAME("harmony", "<|channel|>analysis to=python<|message|>1+1<|call|>", "thought:1+1");
    /* Broken and cut. */
    TWO("harmony", TO_F "{\"s\": \"x", "text:" TO_F "{\"s\": \"x", "f:{\"s\": \"x!");
    TWO("harmony", TO_F "{\"s\": x}<|call|>", "text:" TO_F "{\"s\": x}", "f:{\"s\": !|text:x}");
    TWO("harmony", TO_F "<|call|>", "text:" TO_F, "f:!");
    SAME("harmony", "<|channel|>comm", "");
    SAME("harmony", "Plain.", "text:Plain.");
    SAME("harmony", "", "");
    expect("harmony", true, "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes",
           "thought:Hm.|text:Yes", NULL);
}

/* What cannot go on is found late in an argument that is long, and what follows it is read. */
static void test_long_bad_arguments(void **state) {
    (void)state;
    for (int n = 60; n < 160; n += 7) {
        mc_buffer bad = {0};
        for (int i = 0; i < n; i++)
            mc_buffer_add_text(&bad, "111,");
        const char *list = mc_buffer_cstr(&bad);
        char *call = test_format("<|tool_call>call:f{a:[%sx]}<tool_call|>", list),
             *answer = test_format("%s<|tool_call>call:f{}<tool_call|>", call),
             *whole = test_format("text:%s|f:{}", call),
             *streamed = test_format("f:!|text:a:[%sx]}<tool_call|>|f:{}", list);
        for (int mode = 0; mode < 4; mode++)
            for (size_t step = 1; step < 4000; step += 3999 - 1) {
                const way w = {.format = format_of("gemma4", mode / 2),
                               .tools = &answer_tools,
                               .streams = mode % 2,
                               .tokens = mode / 2,
                               .first = step,
                               .step = step};
                expect_one(&w, answer, mode % 2 ? streamed : whole);
            }
        free(call);
        free(answer);
        free(whole);
        free(streamed);
        mc_buffer_deinit(&bad);
    }
}

static void test_xml(void **state) {
    (void)state;
#define CALL "<tool_call>\n<function=f>\n"
    SAME("qwen_xml",
         "<think>\na\n</think>\n\nSo:\n" CALL
         "<parameter=s>\n  two\nlines \n</parameter>\n<parameter=n>\n3\n</parameter>\n"
         "</function>\n</tool_call>",
         "thought:a|text:So:|f:{\"s\": \"  two\\nlines \", \"n\": 3}");
    /* Values by their schema's types. */
    SAME("qwen_xml",
         CALL "<parameter=s>\n12\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n"
              "<parameter=o>\n{\"a\": [1]}\n</parameter>\n<parameter=u>\nnull\n"
              "</parameter>\n<parameter=l>\nabc\n</parameter>\n</function>\n"
              "</tool_call>",
         "f:{\"s\": \"12\", \"b\": true, \"o\": {\"a\": [1]}, \"u\": null, \"l\": \"abc\"}");
    SAME("qwen_xml", CALL "<parameter=u>\n12\n</parameter>\n</function>\n</tool_call>",
         "f:{\"u\": \"12\"}");
    SAME("qwen_xml",
         "<tool_call><function=f></function></tool_call>\n<tool_call>\n"
         "<function=get_weather>\n<parameter=x>\n[1]\n</parameter>\n<parameter=y>\n"
         "</parameter>\n</function>\n</tool_call> Done.",
         "f:{}|get_weather:{\"x\": [1], \"y\": \"\"}|text:Done.");
    /* As Hermes writes it, for some models do that. */
    SAME("qwen_xml", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "f:{}");
    /* What is within a value belongs to it. */
    SAME("qwen_xml", CALL "<parameter=s>\n</tool_call><b>\n</parameter>\n</function></tool_call>",
         "f:{\"s\": \"</tool_call><b>\"}");
    SAME("qwen_xml",
         CALL "<parameter=o>\n{\"k\": \"x</parameter>y\"}\n</parameter>\n<parameter=l>\n12"
              "</parameter>\n</function></tool_call>",
         "f:{\"o\": {\"k\": \"x</parameter>y\"}, \"l\": 12}");
    SAME("qwen_xml", CALL "<parameter=o>\n{\"k\": \"x</parameter>\n</function></tool_call>",
         "f:{\"o\": \"{\\\"k\\\": \\\"x\"}");
    SAME("qwen_xml", CALL "<parameter=o>\n{\"k\": \"x</parameter></function></tool_call>",
         "f:{\"o\": \"{\\\"k\\\": \\\"x\"}");
    SAME("qwen_xml", CALL "</function>", "f:{}"); /* the end's mark is lost */
    SAME("qwen_xml", "<tool_call><function=g></function></tool_call>",
         "text:<tool_call><function=g></function></tool_call>");
    TWO("qwen_xml", CALL "<parameter=n>\n1\n</parameter>\n<parameter=s>\nx",
        "text:" CALL "<parameter=n>\n1\n</parameter>\n<parameter=s>\nx",
        "f:{\"n\": 1!|text:<parameter=s>\nx");
    TWO("qwen_xml", CALL "<parameter=n>\n1\n</parameter>\nx</function></tool_call>",
        "text:" CALL "<parameter=n>\n1\n</parameter>\nx</function></tool_call>",
        "f:{\"n\": 1!|text:x</function></tool_call>");
    SAME("qwen_xml", "<tool_call>", "text:<tool_call>");
    /* An argument comes once. */
#define TWICE "<parameter=n>\n1\n</parameter>\n"
    TWO("qwen_xml", CALL TWICE TWICE "</function></tool_call>",
        "text:" CALL TWICE TWICE "</function></tool_call>",
        "f:{\"n\": 1!|text:\n" TWICE "</function></tool_call>");
#undef TWICE
#undef CALL
}

static void test_seed(void **state) {
    (void)state;
#define CALL "<seed:tool_call>\n<function=f>\n"
    SAME(
        "seed",
        "<seed:think>a<seed:cot_budget_reflect>b</seed:cot_budget_reflect>\n</seed:think>So.\n" CALL
        "<parameter=s> two\nlines\n</parameter>\n<parameter=n>3</parameter>\n</function>\n"
        "</seed:tool_call>\n" CALL "</function>\n</seed:tool_call>",
        "thought:a<seed:cot_budget_reflect>b</seed:cot_budget_reflect>|text:So.|f:{\"s\": "
        "\" two\\nlines\\n\", \"n\": 3}|f:{}");
    TWO("seed", CALL "<parameter=n>3</parameter>", "text:" CALL "<parameter=n>3</parameter>",
        "f:{\"n\": 3!");
#undef CALL
    expect("seed", true, "a</seed:think>b", "thought:a|text:b", NULL);
}

/* Objects as Python prints them, or as JSON; what is neither is a string. */
static void test_printed(void **state) {
    (void)state;
#define O(value)                                                                        \
    "<seed:tool_call>\n<function=f>\n<parameter=o>" value "</parameter>\n</function>\n" \
    "</seed:tool_call>"
    SAME("seed", O("{'k': [1, 'it', None, True], 'l': {}}"),
         "f:{\"o\": {\"k\": [1, \"it\", null, true], \"l\": {}}}");
    SAME("seed", O("{\"k\": [1]}"), "f:{\"o\": {\"k\": [1]}}");
    SAME("seed", O("{'k': [1]} x"), "f:{\"o\": \"{'k': [1]} x\"}");
    SAME("seed", O("{'k': "), "f:{\"o\": \"{'k': \"}");
#undef O
}

static void test_minimax(void **state) {
    (void)state;
#define BEGIN "<minimax:tool_call>\n"
#define END "</minimax:tool_call>"
    SAME("minimax",
         "<think>\na\n</think>\n\nSo.\n" BEGIN "<invoke name=\"f\">\n<parameter name=\"s\">12"
         "</parameter>\n<parameter name=\"o\">{\"k\": \"</parameter>\"}</parameter>\n</invoke>\n"
         "<invoke name=\"get_weather\">\n</invoke>\n" END,
         "thought:a|text:So.|f:{\"s\": \"12\", \"o\": {\"k\": \"</parameter>\"}}|get_weather:{}");
    SAME("minimax", BEGIN "<invoke name=\"f\">\n</invoke>\nx" END, "f:{}|text:x" END);
    SAME("minimax", BEGIN "<invoke name=\"g\">\n</invoke>\n" END,
         "text:" BEGIN "<invoke name=\"g\">\n</invoke>\n" END);
#undef BEGIN
#undef END
    SAME("minimax_m1",
         "<tool_calls>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n{\"name\": "
         "\"get_weather\", \"arguments\": {}}\n</tool_calls>",
         "f:{\"n\": 1}|get_weather:{}");
}

static void test_commands(void **state) {
    (void)state;
#define CALL(name) "{\"tool_call_id\": \"0\", \"tool_name\": \"" name "\", \"parameters\": {}}"
    SAME("command",
         "<|START_THINKING|>a<|END_THINKING|><|START_ACTION|>[\n    " CALL("f") ",\n    " CALL(
             "get_weather") "\n]<|END_ACTION|>",
         "thought:a|f:{}|get_weather:{}");
    SAME("command",
         "<|START_ACTION|>[{\"parameters\": {\"n\": 1}, \"tool_name\": \"f\"}]<|END_ACTION|>",
         "f:{\"n\": 1}");
    SAME("command", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|> So.<|END_RESPONSE|>",
         "thought:a|text:So.");
    SAME("command", "So <|START_RES", "text:So <|START_RES");
    SAME("command", "<|START_ACTION|>[" CALL("f") "] x<|END_ACTION|>", "f:{}|text:x<|END_ACTION|>");
    SAME("command_r",
         "Action: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {\n"
         "            \"n\": 1\n        }\n    }\n]```",
         "f:{\n            \"n\": 1\n        }");
#undef CALL
    /* The marks of a response are left out where there are no tools, too. */
    const way w = {.format = format_of("command", true), .tokens = true, .first = 3, .step = 3};
    expect_one(&w, "<|START_RESPONSE|>So <|START_ACTION|>.<|END_RESPONSE|>",
               "text:So <|START_ACTION|>.");
}

static void test_dsml(void **state) {
    (void)state;
#define BEGIN "<｜DSML｜function_calls>\n"
#define END "</｜DSML｜function_calls>"
#define F "<｜DSML｜invoke name=\"f\">\n"
#define STRING(name, value) \
    "<｜DSML｜parameter name=\"" name "\" string=\"true\">" value "</｜DSML｜parameter>\n"
#define OTHER(name, value) \
    "<｜DSML｜parameter name=\"" name "\" string=\"false\">" value "</｜DSML｜parameter>\n"
#define LAST "</｜DSML｜invoke>\n"
    SAME("deepseek_v3_2",
         "<think>a</think>So.\n\n" BEGIN F STRING("s", "\nx <｜ \"y\"") OTHER("n", "3") LAST
         "<｜DSML｜invoke name=\"get_weather\">\n" LAST END,
         "thought:a|text:So.|f:{\"s\": \"\\nx <｜ \\\"y\\\"\", \"n\": 3}|get_weather:{}");
    /* What the model says of a value's type counts where the tool takes several. */
    SAME("deepseek_v3_2", BEGIN F STRING("x", "12") OTHER("y", "12") OTHER("u", "null") LAST END,
         "f:{\"x\": \"12\", \"y\": 12, \"u\": null}");
    SAME("deepseek_v3_2", BEGIN F STRING("u", "null") OTHER("o", "{\"a\": [\"b\"]}") LAST END,
         "f:{\"u\": \"null\", \"o\": {\"a\": [\"b\"]}}");
    SAME("deepseek_v3_2", BEGIN F LAST "x" END, "f:{}|text:x" END);
    TWO("deepseek_v3_2", BEGIN F OTHER("n", "3") "<｜DSML｜parameter name=\"s\" string=\"",
        "text:" BEGIN F OTHER("n", "3") "<｜DSML｜parameter name=\"s\" string=\"",
        "f:{\"n\": 3!|text:<｜DSML｜parameter name=\"s\" string=\"");
    /* As it is asked to where there is no template. */
    SAME("deepseek_v3_2", "{\"name\": \"f\", \"arguments\": {}}", "f:{}");
#undef BEGIN
#undef END
#undef F
#undef STRING
#undef OTHER
#undef LAST
}

static void test_glm(void **state) {
    (void)state;
    SAME("glm",
         "<think>a</think>\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x y</arg_value>\n"
         "<arg_key>n</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n",
         "thought:a|f:{\"s\": \"x y\", \"n\": 2}");
    SAME("glm", "<tool_call>f<arg_key>s</arg_key><arg_value>\nx\n</arg_value></tool_call>",
         "f:{\"s\": \"\\nx\\n\"}");
    SAME("glm", "<tool_call>f\n</tool_call><tool_call>get_weather</tool_call>",
         "f:{}|get_weather:{}");
    TWO("glm", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n",
        "text:<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n", "f:{\"s\": \"x\"!");
    TWO("glm", "<tool_call>f\n", "text:<tool_call>f\n", "f:!");
}

static void test_gemma4(void **state) {
    (void)state;
    SAME("gemma4",
         "<|channel>thought\nHm.\n<channel|>So.<|tool_call>call:f{s:<|\"|>a \"b\" {,}"
         "<|\"|>,n:1,o:{k:<|\"|>v<|\"|>,l:[1,<|\"|>x<|\"|>,true]}}<tool_call|>",
         "thought:Hm.|text:So.|f:{\"s\": \"a \\\"b\\\" {,}\", \"n\": 1, \"o\": {\"k\": \"v\", "
         "\"l\": [1, \"x\", true]}}");
    SAME("gemma4",
         "<|tool_call>call:f{}<tool_call|><|tool_call>call:get_weather{a:null}"
         "<tool_call|>Ok",
         "f:{}|get_weather:{\"a\": null}|text:Ok");
    SAME("gemma4", "<|tool_call>call:f{\"s\": \"x\"}<tool_call|>", "f:{\"s\": \"x\"}");
    SAME("gemma4", "<|tool_call>call:f{n:1}", "f:{\"n\": 1}");
    TWO("gemma4", "<|tool_call>call:f{n:1,s:<|\"|>x", "text:<|tool_call>call:f{n:1,s:<|\"|>x",
        "f:{\"n\": 1!|text:s:<|\"|>x");
    TWO("gemma4", "<|tool_call>call:f{n:1,s:x}<tool_call|>",
        "text:<|tool_call>call:f{n:1,s:x}<tool_call|>", "f:{\"n\": 1!|text:s:x}<tool_call|>");
    TWO("gemma4", "<|tool_call>call:f{n:1,\"n\":2}<tool_call|>",
        "text:<|tool_call>call:f{n:1,\"n\":2}<tool_call|>",
        "f:{\"n\": 1!|text:\"n\":2}<tool_call|>");
    SAME("gemma4", "<|tool_call>call:g{}<tool_call|>", "text:<|tool_call>call:g{}<tool_call|>");
    SAME("function_gemma", "<start_function_call>call:f{s:<escape>a,b<escape>}<end_function_call>",
         "f:{\"s\": \"a,b\"}");
}

static void test_mistral(void **state) {
    (void)state;
    SAME("mistral",
         "[THINK]Hm.[/THINK]So.[TOOL_CALLS]f[ARGS]{\"s\": \"[ARGS]\"}[TOOL_CALLS]"
         "get_weather[ARGS]{}",
         "thought:Hm.|text:So.|f:{\"s\": \"[ARGS]\"}|get_weather:{}");
    SAME("mistral", "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS] {\"n\": 1}", "f:{\"n\": 1}");
    SAME("mistral", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]", "f:{}");
    SAME("mistral_list",
         "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}, \"id\": \"abcdefghi\"}, "
         "{\"name\": \"get_weather\", \"arguments\": {}}]",
         "f:{\"s\": \"x\"}|get_weather:{}");
    SAME("mistral", "[TOOL_CALLS]g[ARGS]{}", "text:[TOOL_CALLS]g[ARGS]{}");
    TWO("mistral",
        "[TOOL_CALLS]f[ARGS]{\"s\": ", "text:[TOOL_CALLS]f[ARGS]{\"s\": ", "f:{\"s\": !");
    SAME("mistral", "[TOOL_CALLS]f", "text:[TOOL_CALLS]f");
}

static void test_sections(void **state) {
    (void)state;
#define BEGIN "<｜tool▁calls▁begin｜>"
#define END "<｜tool▁calls▁end｜>"
#define ONE "<｜tool▁call▁begin｜>"
#define SEP "<｜tool▁sep｜>"
#define LAST "<｜tool▁call▁end｜>"
    SAME("deepseek_v3",
         "<think>a</think>Yes." BEGIN ONE "function" SEP "f\n```json\n{\"s\": \"x\"}"
         "\n```" LAST "\n" ONE "function" SEP "get_weather\n```json\n{}\n```" LAST END,
         "thought:a|text:Yes.|f:{\"s\": \"x\"}|get_weather:{}");
    SAME("deepseek_v3_1", BEGIN ONE "f" SEP "{\"n\": 1}" LAST ONE "get_weather" SEP "{}" LAST END,
         "f:{\"n\": 1}|get_weather:{}");
    SAME("deepseek_v3_1", BEGIN ONE "f" SEP "{\"n\": 1}" LAST, "f:{\"n\": 1}");
    /* The first of two is whole. */
    TWO("deepseek_v3_1", BEGIN ONE "f" SEP "{}" LAST ONE "f" SEP "{\"n\": ",
        "f:{}|text:" ONE "f" SEP "{\"n\": ", "f:{}|f:{\"n\": !");
    SAME("deepseek_v3_1", BEGIN ONE "f" SEP "{} x" LAST END, "f:{}|text:x" LAST END);
    /* As it is asked to, where its template has no place for tools. */
    SAME("deepseek_v3_1", "{\"name\": \"f\", \"arguments\": {\"n\": 1}}", "f:{\"n\": 1}");
    const mc_answer_format shown =
        mc_answer_format_find(MC_STR(BEGIN ONE " message['tool_calls']"), NULL);
    assert_string_equal(shown.calls->name, "deepseek_v3_1");
    SAME("kimi",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
         "{\"s\": \"x\"}<|tool_call_end|><|tool_call_begin|>functions.get_weather:1"
         "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
         "f:{\"s\": \"x\"}|get_weather:{}");
#undef BEGIN
#undef END
#undef ONE
#undef SEP
#undef LAST
}

static void test_lists(void **state) {
    (void)state;
    SAME("lfm2",
         "<think>a</think>So.<|tool_call_start|>[f(s=\"x\", n=1), get_weather()]"
         "<|tool_call_end|>Done.",
         "thought:a|text:So.|f:{\"s\": \"x\", \"n\": 1}|get_weather:{}|text:Done.");
    SAME("olmo3", "<function_calls>\nf(s=\"x\")\nget_weather(a=true, b=null)\n</function_calls>",
         "f:{\"s\": \"x\"}|get_weather:{\"a\": true, \"b\": null}");
    SAME("phi4", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}]<|/tool_call|>",
         "f:{\"s\": \"x\"}");
    SAME("granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", "f:{}");
    SAME("nemotron",
         "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"get_weather\", "
         "\"arguments\": {}}]</TOOLCALL>",
         "f:{}|get_weather:{}");
    SAME("smollm3",
         "<think>\n\n</think>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n"
         "</tool_call>",
         "f:{}");
    SAME("smollm3", "<code>\nf(s='x')\n</code>", "f:{\"s\": \"x\"}");
}

/* A text with a block's end for $ and its beginning for #. */
static char *with_marks(const char *text, const char *begin, const char *end) {
    mc_buffer out = {0};
    for (; *text; text++)
        if (*text == '$' || *text == '#')
            mc_buffer_add_text(&out, *text == '$' ? end : begin);
        else
            mc_buffer_add_byte(&out, *text);
    return mc_buffer_take(&out);
}

/* Marks as texts within strings of Python are these strings'. */
static void test_marks_in_strings(void) {
    static const struct {
        const char *name, *begin, *end;
    } rows[] = {{"olmo3", "<function_calls>", "</function_calls>"},
                {"smollm3", "<code>", "</code>"},
                {"lfm2", "<|tool_call_start|>", "<|tool_call_end|>"}};
    static const struct {
        const char *in, *out;
    } bodies[] = {
        {"f(s='a$b')\n", "f:{\"s\": \"a$b\"}"},
        {"f(s=\"it's $\", b=True)", "f:{\"s\": \"it's $\", \"b\": true}"},
        {"f(s='\\'$', o={'a': [\"$\"]})", "f:{\"s\": \"'$\", \"o\": {\"a\": [\"$\"]}}"},
        {"f(s='#')", "f:{\"s\": \"#\"}"},
        {"f(s='\\\\')", "f:{\"s\": \"\\\\\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
            char *in = with_marks(bodies[k].in, rows[i].begin, rows[i].end),
                 *out = with_marks(bodies[k].out, rows[i].begin, rows[i].end),
                 *answer = test_format("%s%s%s Done.", rows[i].begin, in, rows[i].end),
                 *want = test_format("%s|text:Done.", out);
            way w = {.format = format_of(rows[i].name, false), .tools = &answer_tools};
            expect_way(w, answer, want);
            w.streams = true;
            expect_way(w, answer, want);
            free(in);
            free(out);
            free(answer);
            free(want);
        }
}

/* A text that is spelled as a mark is none, where the vocabulary has a token for it. And a mark in
 * a string is text. */
static void test_texts_as_marks(void **state) {
    (void)state;
    static const char answer[] = "<tool_call>{\"name\": \"f\"}</tool_call>";
    const way w = {
        .format = format_of("hermes", true), .tools = &answer_tools, .first = 5, .step = 5};
    expect_one(&w, answer, "text:<tool_call>{\"name\": \"f\"}</tool_call>");
    SAME("hermes",
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"</tool_call>\"}}"
         "</tool_call>",
         "f:{\"s\": \"</tool_call>\"}");
    SAME("lfm2", "<|tool_call_start|>[f(s='<think>')]<|tool_call_end|>", "f:{\"s\": \"<think>\"}");
    test_marks_in_strings();
    SAME("hermes", "a <think> b", "text:a <think> b");
}

/* Text of tokens that stop strings held back comes later than these. */
static void test_late_marks(void **state) {
    (void)state;
    enum { NONE = 5, BEGIN = 1000, END = 1001 };
#define LONG "<tool_call><tool_call><tool_call><tool_call><tool_call><tool_call>"
    static const struct {
        struct {
            int32_t id;
            const char *text;
        } tokens[16];
        const char *want;
    } rows[] = {
        {{{BEGIN, "a"}, {NONE, "<tool_call>{\"name\": "}, {NONE, "\"f\"}"}, {END, "</tool_call>"}},
         "text:a|f:{}"},
        /* The end of a mark's text comes later. */
        {{{BEGIN, "a<tool_call"}, {NONE, ">{\"name\": \"f\"}"}, {END, "</tool_"}, {NONE, "call>"}},
         "text:a|f:{}"},
        {{{BEGIN, "<tool_"},
          {NONE, "call"},
          {NONE, ">{\"name\": \"f\"}"},
          {END, "</tool_call"},
          {BEGIN, ">"},
          {NONE, "<tool_call>{\"name\": \"f\"}"},
          {END, "</tool_call"},
          {NONE, ">b"}},
         "f:{}|f:{}|text:b"},
        {{{BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {BEGIN, ""},
          {NONE, LONG LONG "{\"name\": \"f\"}"},
          {END, "</tool_call>"}},
         "text:" LONG "<tool_call><tool_call><tool_call><tool_call><tool_call>|f:{}"},
        /* It never comes. */
        {{{BEGIN, "x <tool"}}, "text:x <tool"},
    };
#undef LONG
    mc_answer_format format = format_of("hermes", true);
    format.special = 0;
    assert_string_equal(mc_answer_mark(0), "<tool_call>");
    assert_string_equal(mc_answer_mark(1), "</tool_call>");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        parts p = {.kind = -1};
        mc_splitter *s;
        assert_int_equal(mc_splitter_open(&format, &answer_tools, false, parts_take, &p, &s),
                         MICA_OK);
        for (size_t k = 0; rows[i].tokens[k].text; k++)
            assert_int_equal(mc_splitter_push_token(s, rows[i].tokens[k].id, rows[i].tokens[k].text,
                                                    strlen(rows[i].tokens[k].text)),
                             MICA_OK);
        assert_int_equal(mc_splitter_end(s), MICA_OK);
        assert_string_equal(mc_buffer_cstr(&p.text), rows[i].want);
        mc_splitter_close(&s);
        mc_buffer_deinit(&p.text);
    }
}

/* ---- random answers ---- */

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* Adds a mark that the format has, or the beginning of one. */
static void add_mark(const mc_answer_format *format, uint64_t *seed, mc_buffer *answer) {
    const char *mark = NULL;
    for (size_t i = next_random(seed) % MC_MARKS; !mark; i = (i + 1) % MC_MARKS)
        if (format->tokens >> i & 1) mark = mc_answer_mark(i);
    size_t len = strlen(mark);
    mc_buffer_add(answer, mark, next_random(seed) % 8 ? len : 1 + next_random(seed) % len);
}

/* An answer of marks, and of what stands between them. */
static char *random_answer(const mc_answer_format *format, uint64_t *seed) {
    static const char *const words[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "\"",
                                        "'",
                                        "\\",
                                        ":",
                                        ",",
                                        ";",
                                        " ",
                                        "\n",
                                        "=",
                                        "<",
                                        ">",
                                        "f",
                                        "f(",
                                        "f()",
                                        "s=",
                                        "s:",
                                        "'x'",
                                        "\"x\"",
                                        "1",
                                        "-01",
                                        "1e999",
                                        "99999999999999999999",
                                        "true",
                                        "nul",
                                        "\\ud800",
                                        "\xc3\xa9",
                                        "{}",
                                        "{\"s\": \"x\"}",
                                        "{\"s\": ",
                                        "{\"name\": \"f\", ",
                                        "\"arguments\": ",
                                        "{\"name\": \"f\", \"arguments\": {",
                                        "<function=f>",
                                        "</function>",
                                        "<parameter=s>",
                                        "</parameter>",
                                        "<parameter=n>\n1\n</parameter>",
                                        "call:f{",
                                        "n:1",
                                        "functions.f",
                                        "functions.f:0",
                                        "invoke name=\"f\">",
                                        "parameter name=\"s\"",
                                        " string=\"true\">",
                                        "tool_name",
                                        "function",
                                        "```json\n",
                                        "```",
                                        "to=functions.f ",
                                        "commentary",
                                        "analysis",
                                        "final",
                                        "assistant",
                                        "json",
                                        "print(",
                                        "get_weather",
                                        "text"};
    mc_buffer answer = {0};
    for (size_t n = 1 + next_random(seed) % 24; n; n--)
        if (next_random(seed) % 3)
            mc_buffer_add_text(&answer, words[next_random(seed) % (sizeof words / sizeof *words)]);
        else
            add_mark(format, seed, &answer);
    return mc_buffer_take(&answer);
}

/* What comes out whole is what comes out streamed, up to the first call that is broken. */
static void expect_same(way w, const char *answer) {
    parts whole, streamed;
    w.streams = false;
    way_read(&w, answer, &whole);
    w.streams = true;
    way_read(&w, answer, &streamed);
    size_t same = streamed.sound < streamed.text.len ? streamed.sound : streamed.text.len;
    const char *one = mc_buffer_cstr(&whole.text), *two = mc_buffer_cstr(&streamed.text);
    if (strncmp(one, two, same) != 0 || (streamed.sound == SIZE_MAX && one[same]))
        fail_msg("%s: \"%s\" gives\n\"%s\", streamed\n\"%s\"", w.format.calls->name, answer, one,
                 two);
    mc_buffer_deinit(&whole.text);
    mc_buffer_deinit(&streamed.text);
}

/* Whatever an answer says, it reads the same in pieces of any length, and streamed as whole. */
static void test_random(void **state) {
    (void)state;
    enum { TIMES = 1000 };
    const mc_call_format *calls;
    for (size_t i = 0; (calls = mc_call_format_at(i)) != NULL; i++) {
        uint64_t seed = 7 + i;
        for (int n = 0; n < TIMES; n++) {
            way w = {.tools = &answer_tools, .tokens = n % 2, .is_open = n % 3 == 0};
            w.format = mc_answer_format_find(
                mc_str_of(calls->channels ? "tools <|channel|> <|message|>" : "</think>"), NULL);
            w.format.calls = calls;
            const mc_answer_format all = with_tokens(w.format, true);
            w.format = with_tokens(w.format, w.tokens);
            w.streams = n / 2 % 2;
            w.first = w.step = SIZE_MAX;
            char *answer = random_answer(&all, &seed), *want = way_split(&w, answer);
            expect_same(w, answer);
            w.first = 1 + next_random(&seed) % 9;
            w.step = 1 + next_random(&seed) % 9;
            expect_one(&w, answer, want);
            free(answer);
            free(want);
        }
    }
}

/* ---- bounds ---- */

/* What an answer is full of is looked at once. */
static void test_lengths(void **state) {
    (void)state;
    enum { TIMES = 20000 };
    static const struct {
        const char *name, *begin, *often;
    } rows[] = {
        {"qwen_xml", "", "<tool_call>\n<function=f>\n<parameter=s>\nx"},
        {"qwen_xml", "<tool_call><function=f><parameter=s>", "</paramete"},
        {"qwen_xml", "<tool_call><function=f>", " \n "},
        {"qwen_xml", "<tool_call>", "    "},
        {"qwen_xml", "<tool_call><function=f>", "<parameter=n>\n1\n</parameter>"},
        {"glm", "", "<tool_call>f<arg_key>a</arg_key><arg_value>"},
        {"glm", "<tool_call>f<arg_key>", "</arg_ke"},
        {"gemma4", "<|tool_call>call:f{s:<|\"|>", "<|\" "},
        {"gemma4", "", "<|tool_call>call:f{s:<|\"|>x<|\"|>"},
        {"gemma4", "", "<|channel>"},
        {"mistral", "", "[TOOL_CALLS]f"},
        {"mistral", "[TOOL_CALLS]f[ARGS]{\"s\": \"", "[ARGS]"},
        {"mistral", "[TOOL_CALLS]", "\n\n"},
        {"kimi", "", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:"},
        {"deepseek_v3", "", "<｜tool▁calls▁begin｜>"},
        {"deepseek_v3_2", "", "<｜DSML｜function_calls>"},
        {"deepseek_v3_2", "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\">", "<｜DSML｜"},
        {"command", "", "<|START_RESPONSE|>"},
        {"command", "", "<|START_ACTION|>["},
        {"minimax", "", "<minimax:tool_call>"},
        {"harmony", "", "<|channel|>"},
        {"harmony", "", "<|start|>assistant"},
        {"harmony", "", "<|end|>"},
        {"harmony", "<|channel|>final<|message|>", "<|en"},
        {"harmony", "<|channel|>analysis<|message|>", " \n"},
        {"harmony", "", TO_F "{\"s\": \""},
        {"olmo3", "", "<function_calls>\nf(s='"},
        {"olmo3", "", "<function_calls>f(s='\\"},
        {"olmo3", "", "<function_calls>'\\"},
        {"olmo3", "", "<function_calls>It's "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int mode = 0; mode < 4; mode++) {
            const mc_answer_format format = format_of(rows[i].name, mode / 2);
            parts p = {.kind = -1};
            mc_splitter *s;
            assert_int_equal(mc_splitter_open(&format, &answer_tools, false, parts_take, &p, &s),
                             MICA_OK);
            if (mode % 2) mc_splitter_stream_calls(s);
            const way w = {.format = format, .tokens = mode / 2, .first = 7, .step = 7};
            way_push(s, &w, rows[i].begin);
            for (int n = 0; n < TIMES; n++)
                way_push(s, &w, rows[i].often);
            assert_int_equal(mc_splitter_end(s), MICA_OK);
            mc_splitter_close(&s);
            mc_buffer_deinit(&p.text);
        }
}

/* context: NULL */
static bool split_once(void *context) {
    static const char *const names[] = {"harmony", "qwen_xml", "gemma4", "kimi"};
    static const char *const answers[] = {
        "<|channel|>analysis<|message|>a<|end|>" TO_F "{\"s\": \"x\"}",
        "<tool_call><function=f><parameter=s>\nx\n</parameter><parameter=n>1</parameter></function>"
        "</tool_call>",
        "<|tool_call>call:f{s:<|\"|>x<|\"|>,n:1}<tool_call|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>"};
    static const char *const want[] = {"thought:a|f:{\"s\": \"x\"}", "f:{\"s\": \"x\", \"n\": 1}",
                                       "f:{\"s\": \"x\", \"n\": 1}", "f:{}"};
    const int *row = context;
    const mc_answer_format format = format_of(names[*row / 2], true);
    parts p = {.kind = -1};
    mc_splitter *s;
    bool done = mc_splitter_open(&format, &answer_tools, false, parts_take, &p, &s) == MICA_OK;
    if (done && *row % 2) mc_splitter_stream_calls(s);
    const way w = {.format = format, .tokens = true};
    for (const char *at = answers[*row / 2]; done && *at;) {
        size_t mark = way_mark(&w, at);
        bool some = mark < MC_MARKS;
        done = mc_splitter_push_token(s, some ? format.ids[mark] : -1, at, !some) == MICA_OK;
        at += some ? strlen(mc_answer_mark(mark)) : 1;
    }
    done = done && mc_splitter_end(s) == MICA_OK;
    mc_splitter_close(&s);
    done = done && p.text.len == strlen(want[*row / 2]); /* `take` does not tell */
    mc_buffer_deinit(&p.text);
    return done;
}

static void test_errors(void **state) {
    (void)state;
    for (int row = 0; row < 8; row++)
        test_fail_each_allocation(split_once, &row);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_harmony),
        cmocka_unit_test(test_xml),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_minimax),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_dsml),
        cmocka_unit_test(test_glm),
        cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_texts_as_marks),
        cmocka_unit_test(test_late_marks),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_long_bad_arguments),
    };
    return cmocka_run_group_tests_name("answer/formats", tests, answer_tools_open,
                                       answer_tools_close);
}
