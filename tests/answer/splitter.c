/* Answers in parts: thoughts, text and calls of tools. Every answer goes in whole, in pieces of
 * every length from one byte on, and cut in two at every place; the same must come out. What models
 * write is taken from transformers' renderings of their templates. */
#include "support/support.h"

#include "parts.h"

#include "base/json.h"
#include "base/json_write.h"

#include <stdlib.h>
#include <string.h>

static void expect_with(const mc_answer_format *format, const mc_tools *with, bool is_open,
                        const char *answer, const char *want) {
    way w = {.format = *format, .tools = with, .is_open = is_open};
    expect_way(w, answer, want);
    w.streams = true;
    expect_way(w, answer, want);
}

static mc_answer_format format_of(const char *calls, bool thinks) {
    return (mc_answer_format){.calls = mc_call_format_find(calls),
                              .think_begin = thinks ? "<think>" : NULL,
                              .think_end = thinks ? "</think>" : NULL};
}

static void expect(const char *calls, const char *answer, const char *want) {
    const mc_answer_format format = format_of(calls, false);
    assert_non_null(format.calls);
    expect_with(&format, &answer_tools, false, answer, want);
}

/* What comes out differs if calls are streamed. */
static void expect_two(const char *calls, const char *answer, const char *whole,
                       const char *streamed) {
    way w = {.format = format_of(calls, false), .tools = &answer_tools};
    expect_way(w, answer, whole);
    w.streams = true;
    expect_way(w, answer, streamed);
}

/* ---- thoughts ---- */

static void test_thoughts(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", true);
#define THINK(is_open, answer, want) expect_with(&format, NULL, is_open, answer, want)
    THINK(false, "<think>\nhm, <b> \n\nok\n</think>\n\nYes.", "thought:hm, <b> \n\nok|text:Yes.");
    THINK(true, "hm\n</think>\n\nYes.\n", "thought:hm|text:Yes.\n");
    THINK(true, "\n<think>hm</think>Yes", "thought:hm|text:Yes");
    THINK(true, "<think> <think> a</think>b", "thought:<think> a|text:b");
    THINK(false, "<think><think> a</think>b", "thought:<think> a|text:b");
    THINK(false, "Yes. <think>no</think>", "text:Yes. <think>no</think>");
    THINK(false, "  <thi", "text:  <thi");
    THINK(false, "<think>\n\n</think>\n\n a", "text:a");
    THINK(true, "cut </thin", "thought:cut </thin");
    THINK(true, "a </think b</think>c</think>", "thought:a </think b|text:c</think>");
    THINK(true, "", "");
    THINK(false, "\n\n", "text:\n\n");
#undef THINK
    const mc_answer_format none = format_of("hermes", false);
    expect_with(&none, NULL, false, "<think>a</think>b", "text:<think>a</think>b");
    expect_with(&format, &answer_tools, true,
                "x <tool_call> y</think>\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
                "thought:x <tool_call> y|f:{}");
}

/* ---- calls ---- */

static void test_hermes(void **state) {
    (void)state;
    expect("hermes",
           "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\":"
           " \"K\xc3\xb6ln </tool_call>\", \"n\": 12345678901234567890}}\n</tool_call>\n",
           "text:Let me see.|get_weather:{\"city\": \"K\xc3\xb6ln </tool_call>\", \"n\":"
           " 12345678901234567890}");
    expect("hermes",
           "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>"
           "{\"arguments\": {\"a\": [1, {}]}, \"name\": \"add\"}</tool_call> Done.",
           "f:{}|add:{\"a\": [1, {}]}|text:Done.");
    expect("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
           "f:{\"a\": 1}");
    expect("hermes",
           "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"f\","
           " \"parameters\": {\"x\": \"}\"}}}</tool_call>",
           "f:{\"x\": \"}\"}");
    expect("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n", "f:{}"); /* cut */
    /* Not calls: */
    static const char *const texts[] = {
        "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>", /* of no tool */
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call> x",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"{\"}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": 5, \"arguments\": {}}</tool_call>",
        "<tool_call></tool_call>",
        "<tool_call>",
        "a <tool_call",
        "<tool_call>f()</tool_call>",
        "{\"name\": \"f\", \"arguments\": {}}",
        " a <\n",
        "",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *want = test_format("%s%s", *texts[i] ? "text:" : "", texts[i]);
        expect("hermes", texts[i], want);
        free(want);
    }
    expect("hermes", "<tool_call>{</tool_call>\n<tool_call>{\"name\": \"f\"}</tool_call>",
           "text:<tool_call>{</tool_call>|f:{}");
}

static void test_llama(void **state) {
    (void)state;
    expect("llama", "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", "f:{\"a\": \"b\"}");
    expect("llama",
           "\n{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}; {\"name\":"
           " \"add\", \"parameters\": {\"x\": 1.50}}\n",
           "f:{}|add:{\"x\": 1.50}");
    expect("llama", "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "f:{}");
    expect("llama", "{\"answer\": 42}", "text:{\"answer\": 42}");
    expect("llama", "{\"name\": \"Bob\"}", "text:{\"name\": \"Bob\"}");
    expect("llama", "Use {\"name\": \"f\", \"parameters\": {}}",
           "text:Use {\"name\": \"f\", \"parameters\": {}}");
}

static void test_pythonic(void **state) {
    (void)state;
    expect("pythonic",
           "[get_weather(city='San \"F\"', days=3, deep=[1, (2.5,), {'k': None}]), f()]",
           "get_weather:{\"city\": \"San \\\"F\\\"\", \"days\": 3, \"deep\": [1, [2.5], {\"k\":"
           " null}]}|f:{}");
    expect("pythonic", "[add(a=-1e3, b=True, c=\"\\n\\u00e9\\x41\",)]\n",
           "add:{\"a\": -1e3, \"b\": true, \"c\": \"\\n\xc3\xa9"
           "A\"}");
    expect("pythonic", "{\"name\": \"f\", \"parameters\": {}}", "f:{}");
    expect("pythonic", "[f(a=\"\\ud83d\\ude00\\/\")]", "f:{\"a\": \"\xf0\x9f\x98\x80/\"}");
    expect("pythonic", "[f(a=\"\\ud83d\\n\")]", "text:[f(a=\"\\ud83d\\n\")]");
    static const char *const texts[] = {"[1, 2]",   "[f(1)]",    "[g()]",
                                        "[f(a=01",  "[f(a=01)]", "[f(a=b)]",
                                        "[f(a 1)]", "[f(a='x)]", "[f(a=\"\\ud800\")]",
                                        "[]",       "text [f()]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *want = test_format("text:%s", texts[i]);
        expect("pythonic", texts[i], want);
        free(want);
    }
}

static void test_gemma(void **state) {
    (void)state;
    expect("gemma", "Sure:\n```tool_code\nprint(get_weather(city=\"Rome\"))\n```",
           "text:Sure:|get_weather:{\"city\": \"Rome\"}");
    expect("gemma", "```tool_code\nf()\nadd(a=1, b=2)\n```\n", "f:{}|add:{\"a\": 1, \"b\": 2}");
    expect("gemma", "```json\n{\"name\": \"f\", \"parameters\": {}}\n```", "f:{}");
    expect("gemma", "```json\n{\"a\": 1}\n```\nok", "text:```json\n{\"a\": 1}\n```\nok");
    expect("gemma", "```python\nf()\n```", "text:```python\nf()\n```");
}

static void test_generic(void **state) {
    (void)state;
    expect("generic", "{\"name\": \"f\", \"arguments\": {}}", "f:{}");
    expect("generic", "[{\"name\": \"f\"}, {\"name\": \"add\", \"parameters\": {\"a\": 1}}]",
           "f:{}|add:{\"a\": 1}");
    expect("generic", "Yes.\n\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```\nThere.",
           "text:Yes.|f:{}|text:There.");
    expect("generic", "[1, 2, 3]", "text:[1, 2, 3]");
    expect("generic", "[{\"name\": \"f\"}, 3]", "text:[{\"name\": \"f\"}, 3]");
}

/* ---- calls that are streamed ---- */

/* What was passed on stays: where the rest is malformed, the call is broken, and text if it comes
 * whole. A call is whole once its arguments are, whatever follows. */
static void test_broken(void **state) {
    (void)state;
#define F "<tool_call>{\"name\": \"f\", \"arguments\": "
    static const char *const rows[][2] = {
        {F "{}</tool_call> x", "f:{}|text:x"}, /* a bracket is missing */
        {F "{\"a\": 1}} and more</tool_call>", "f:{\"a\": 1}|text:and more</tool_call>"},
        {F "{\"a\": 'x'}}</tool_call>", "f:{\"a\": !|text:'x'}}</tool_call>"},
        {F "{\"a\": 01}}", "f:{\"a\": !|text:01}}"},
        {F "{\"a\": \"\\ud800x\"}}", "f:{\"a\": \"!|text:\\ud800x\"}}"},
        {F "{\"a\": \"\\q\"}}", "f:{\"a\": \"!|text:\\q\"}}"},
        {F "{\"a\": \"x\ty\"}}", "f:{\"a\": \"x!|text:y\"}}"},
        {F "{\"a\": [1}}}", "f:{\"a\": [1!|text:}}}"},
        {F "{\"a\" 1}}", "f:{\"a\" !|text:1}}"},
        {F "{\"a\": nul}}", "f:{\"a\": !|text:nul}}"},
        {F "{\"a\": \"x", "f:{\"a\": \"x!"}, /* the answer is cut */
        {F "{\"a\": [tr", "f:{\"a\": [tr!"},
        {F "{\"a\": \"\\u00", "f:{\"a\": \"\\u00!"},
        {F "{}, \"b\": bad}</tool_call>", "f:{}|text:, \"b\": bad}</tool_call>"},
        {F "{}, \"id\": \"x\"}</tool_call>", "f:{}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = test_format("text:%s", rows[i][0]);
        if (strchr(rows[i][1], '!'))
            expect_two("hermes", rows[i][0], text, rows[i][1]);
        else
            expect("hermes", rows[i][0], rows[i][1]);
        free(text);
    }
    expect_two("hermes", F "{}}; {\"name\": \"add\", \"arguments\": {\"b\": }}",
               "f:{}|text:; {\"name\": \"add\", \"arguments\": {\"b\": }}",
               "f:{}|add:{\"b\": !|text:}}");
#undef F
    expect("llama", "{\"name\": \"f\", \"parameters\": {}} and more", "f:{}|text:and more");
    expect("generic", "[{\"name\": \"f\", \"parameters\": {}}, 3]", "f:{}|text:3]");
    expect("pythonic", "[f(a=1)", "f:{\"a\": 1}");
    expect("pythonic", "[f()] x", "f:{}|text:x");
    expect("pythonic", "[f(), f() ]\nDone.", "f:{}|f:{}|text:Done.");
    expect_two("pythonic", "[f(a=1, b=x)]", "text:[f(a=1, b=x)]", "f:{\"a\": 1!|text:b=x)]");
    expect_two("pythonic", "[f(a='1', b='x", "text:[f(a='1', b='x", "f:{\"a\": \"1\"!|text:b='x");
}

/* Shapes of JSON: what can be streamed is, the rest comes whole. */
static void test_shapes(void **state) {
    (void)state;
    expect("generic",
           "[{\"type\": \"function\", \"id\": \"1\", \"function\": {\"name\": \"f\", "
           "\"arguments\": {\"a\": \"\\ud83d\\ude00 \\\\\"}}}, {\"arguments\": {}, "
           "\"name\": \"add\"} , {\"name\" : \"f\" , \"parameters\" :{ } }]",
           "f:{\"a\": \"\\ud83d\\ude00 \\\\\"}|add:{}|f:{ }");
    expect("hermes",
           "<tool_call>{\"name\": \"f\", \"parameters\": {\"n\": [-1.5e+3, true, null, {}, []]}, "
           "\"arguments\": {}}, {\"name\": \"add\", \"arguments\": \"{}\"};\n</tool_call>",
           "f:{\"n\": [-1.5e+3, true, null, {}, []]}|add:{}");
    expect("hermes",
           "<tool_call>{\"function\": {\"name\": \"f\", \"arguments\": {}}, \"name\": \"add\", "
           "\"arguments\": {\"a\": 1}}</tool_call>",
           "f:{}");
    expect("hermes",
           "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"function\": {\"name\": \"add\"}}"
           "</tool_call>",
           "f:{}");
    expect("pythonic", "[f(), add(a=[1, 2], b={'k': (3,)}), f(c='x, y)')]",
           "f:{}|add:{\"a\": [1, 2], \"b\": {\"k\": [3]}}|f:{\"c\": \"x, y)\"}");
}

/* The name is there before the arguments, and these as they come: a byte in gives what it adds. */
static void test_at_once(void **state) {
    (void)state;
    static const struct {
        const char *calls, *in, *out;
    } rows[] = {
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {", "f:{"},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b c", "f:{\"a\": \"b c"},
        {"hermes", "<tool_call>{\"arguments\": {\"a\": \"b c", ""},
        {"llama", "{\"name\": \"f\", \"parameters\": {\"a\": 12", "f:{\"a\": "},
        {"llama", "{\"name\": \"f\", \"parameters\": {\"a\": 12,", "f:{\"a\": 12,"},
        {"pythonic", "[f(a=1, b=[2", "f:{\"a\": 1"},
        {"pythonic", "[f(a=1, b=[2],", "f:{\"a\": 1, \"b\": [2]"},
        {"gemma", "```tool_code\nf(a='x', ", "f:{\"a\": \"x\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const way w = {
            .format = format_of(rows[i].calls, false), .tools = &answer_tools, .streams = true};
        parts p;
        mc_splitter *s = way_open(&w, &p);
        for (const char *at = rows[i].in; *at; at++)
            assert_int_equal(mc_splitter_push(s, at, 1), MICA_OK);
        const char *got = mc_buffer_cstr(&p.text);
        if (strcmp(got, rows[i].out) != 0) fail_msg("%s gives \"%s\"", rows[i].in, got);
        mc_splitter_close(&s);
        mc_buffer_deinit(&p.text);
    }
}

/* Long arguments take a time that grows with their length, not with its square. */
static void test_long_arguments(void **state) {
    (void)state;
    enum { LENGTH = 300000 };
    static const char *const calls[] = {"pythonic", "hermes"};
    static const char *const begins[] = {"[f(a=\"",
                                         "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \""};
    static const char *const ends[] = {"\", b=1)]", "\", \"b\": 1}}</tool_call>"};
    for (size_t i = 0; i < 2; i++) {
        const way w = {
            .format = format_of(calls[i], false), .tools = &answer_tools, .streams = true};
        parts p;
        mc_splitter *s = way_open(&w, &p);
        assert_int_equal(mc_splitter_push(s, begins[i], strlen(begins[i])), MICA_OK);
        for (int n = 0; n < LENGTH; n++)
            assert_int_equal(mc_splitter_push(s, n % 7 ? "x" : ",", 1), MICA_OK);
        assert_int_equal(mc_splitter_push(s, ends[i], strlen(ends[i])), MICA_OK);
        assert_int_equal(mc_splitter_end(s), MICA_OK);
        assert_int_equal(p.text.len, LENGTH + strlen("f:{\"a\": \"\", \"b\": 1}"));
        mc_splitter_close(&s);
        mc_buffer_deinit(&p.text);
    }
}

/* An answer that is mostly one text, pushed so many times. */
typedef struct forced {
    const char *calls;
    bool thinks, streams;
    const char *begin, *often, *end;
    const char *want_begin, *want_end; /* what comes out; "*": all that went in; NULL: none of it */
    int times;
} forced;

static void want_forced(const forced *row, mc_buffer *want) {
    const char *first = row->want_begin ? row->want_begin : "", *mark = strchr(first, '*');
    mc_buffer_add(want, first, mark ? (size_t)(mark - first) : strlen(first));
    if (mark && !row->thinks) mc_buffer_add_text(want, row->begin);
    for (int n = 0; row->want_begin && n < row->times; n++)
        mc_buffer_add_text(want, row->often);
    mc_buffer_add_text(want, mark ? row->end : row->want_end);
}

static void expect_forced(const forced *row) {
    const mc_answer_format format = format_of(row->calls, row->thinks);
    size_t len = strlen(row->often);
    mc_buffer want = {0};
    parts p = {.kind = -1};
    mc_splitter *s;
    bool good = mc_splitter_open(&format, &answer_tools, false, parts_take, &p, &s) == MICA_OK;
    if (good && row->streams) mc_splitter_stream_calls(s);
    good = good && mc_splitter_push(s, row->begin, strlen(row->begin)) == MICA_OK;
    for (int n = 0; good && n < row->times; n++)
        good = mc_splitter_push(s, row->often, len) == MICA_OK;
    good = good && mc_splitter_push(s, row->end, strlen(row->end)) == MICA_OK;
    assert_true(good && mc_splitter_end(s) == MICA_OK);
    want_forced(row, &want);
    if (strcmp(mc_buffer_cstr(&p.text), mc_buffer_cstr(&want)) != 0)
        fail_msg("%s, \"%s\": \"%.200s\"", row->calls, row->often, mc_buffer_cstr(&p.text));
    mc_splitter_close(&s);
    mc_buffer_deinit(&p.text);
    mc_buffer_deinit(&want);
}

/* What an answer is forced to be full of is looked at once: the first row would take hours else. */
static void test_forced_lengths(void **state) {
    (void)state;
#define CALL "<tool_call>{\"name\": \"f\", \"arguments\": {"
    static const forced rows[] = {
        {"hermes", false, false, CALL "\"a\": \"", "</tool_call>", "\"}}</tool_call>",
         "f:{\"a\": \"", "\"}", 60000},
        {"hermes", false, false, "", "<tool_call>", "", "text:", "", 60000},
        {"hermes", false, false, "", "<tool_call>[\"", "", "text:", "", 50000},
        {"hermes", false, false, "", CALL "x", "y", "text:", "y", 20000},
        {"hermes", false, true, "", "<tool_call>{\"x\":{", "", "text:", "", 40000},
        {"hermes", false, false, CALL "}}", " ", "; </tool_call>", NULL, "f:{}", 150000},
        {"hermes", false, true, CALL "}} ;", "\n", "</tool_call>", NULL, "f:{}", 150000},
        {"generic", false, false, "{", "  ", "}", "text:*", "", 150000},
        {"generic", false, false, "```json", "\n", "{}", "text:*", "", 150000},
        {"generic", false, false, "x", "```json", "", "text:x", "", 80000},
        {"gemma", false, false, "```tool_code\nf(a='", "``x", "')```", "f:{\"a\": \"", "\"}",
         200000},
        {"gemma", false, false, "```tool_code\n", "print(", "```", "text:*", "", 150000},
        {"pythonic", false, false, "[", "f", "]", "text:*", "", 150000},
        {"pythonic", false, true, "[f(", " ", "a=1)]", NULL, "f:{\"a\": 1}", 150000},
        {"pythonic", false, true, "[f(a=1),", " ", "f()]", NULL, "f:{\"a\": 1}|f:{}", 150000},
        {"hermes", false, false, "x", "\n", "y", "text:*", "", 150000},
        {"hermes", true, false, "<think>x", " ", "y", "thought:x*", "", 150000},
        {"hermes", true, false, "", " ", "y", "text:*", "", 150000},
    };
#undef CALL
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_forced(&rows[i]);
}

/* Only the first call, whatever the others are. */
static void test_one_streamed_call(void **state) {
    (void)state;
    static const char answer[] = "[f(a=1), add(a=1, b=x)] y";
    const way w = {.format = format_of("pythonic", false),
                   .tools = &answer_tools,
                   .streams = true,
                   .one_call = true};
    expect_way(w, answer, "f:{\"a\": 1}|text:b=x)] y");
}

/* ---- what templates render is read back ---- */

/* The last assistant's turn of a rendered conversation. */
static char *last_turn(const char *text, const char *begin, const char *end) {
    const char *from = NULL;
    for (const char *p = text; (p = strstr(p, begin)); p++)
        if (strstr(p, end)) from = p + strlen(begin);
    if (!from) return NULL;
    const char *to = strstr(from, end);
    char *turn = malloc((size_t)(to - from) + 1);
    memcpy(turn, from, (size_t)(to - from));
    turn[to - from] = '\0';
    return turn;
}

/* A message's content and calls as the parts that they should come out as, compared as JSON. */
static void check_parts(const char *parts_text, mc_json message, size_t *calls) {
    mc_str content = MC_STR(""), name;
    const char *at = parts_text;
    mc_json_get_str(mc_json_find(message, "content"), &content);
    if (content.len && strncmp(at, "text:", 5) == 0) { /* Llama's template drops it */
        assert_true(strncmp(at + 5, content.ptr, content.len) == 0);
        at = strchr(at, '|');
    }
    for (mc_json_iter it = mc_json_begin(mc_json_find(message, "tool_calls")); mc_json_next(&it);) {
        mc_json function = mc_json_find(it.value, "function");
        mc_json_doc *doc;
        mc_buffer want = {0}, got = {0};
        assert_non_null(at);
        at += *at == '|';
        assert_true(mc_json_get_str(mc_json_find(function, "name"), &name));
        assert_true(strncmp(at, name.ptr, name.len) == 0 && at[name.len] == ':');
        at += name.len + 1;
        const char *end = strstr(at, "}|");
        size_t len = end ? (size_t)(end + 1 - at) : strlen(at);
        assert_int_equal(mc_json_parse(at, len, "arguments", &doc), MICA_OK);
        mc_json_put_value(&got, mc_json_root(doc), MC_JSON_ONE_LINE);
        mc_json_put_value(&want, mc_json_find(function, "arguments"), MC_JSON_ONE_LINE);
        assert_string_equal(mc_buffer_cstr(&got), mc_buffer_cstr(&want));
        mc_buffer_deinit(&got);
        mc_buffer_deinit(&want);
        mc_json_close(&doc);
        at += len;
        ++*calls;
    }
}

/* The tools of all calls of a message. */
static void tools_of(mc_json message, mc_tools *list) {
    mc_buffer text = {0};
    mc_str name;
    const char *comma = "";
    mc_buffer_add_byte(&text, '[');
    for (mc_json_iter it = mc_json_begin(mc_json_find(message, "tool_calls")); mc_json_next(&it);) {
        assert_true(
            mc_json_get_str(mc_json_find(mc_json_find(it.value, "function"), "name"), &name));
        char *known = test_format("\"%.*s\"", MC_STR_ARG(name));
        if (!strstr(mc_buffer_cstr(&text), known)) {
            mc_buffer_printf(&text, "%s{\"type\": \"function\", \"function\": {\"name\": %s}}",
                             comma, known);
            comma = ",";
        }
        free(known);
    }
    mc_buffer_add_byte(&text, ']');
    assert_int_equal(mc_tools_read(text.data, text.len, list), MICA_OK);
    mc_buffer_deinit(&text);
}

static void check_goldens(const char *name, const char *begin, const char *end,
                          const char *format_name) {
    char *path = test_format("%s/chat/%s.json", test_cases_dir(), name);
    mc_json_doc *doc = test_load_json(path);
    mc_str template, text;
    size_t calls = 0;
    assert_true(mc_json_get_str(mc_json_find(mc_json_root(doc), "chat_template"), &template));
    const mc_answer_format format = mc_answer_format_find(template, NULL);
    assert_string_equal(format.calls->name, format_name);
    for (mc_json_iter it = mc_json_begin(mc_json_find(mc_json_root(doc), "cases"));
         mc_json_next(&it);) {
        mc_json message = {0};
        mc_json messages = mc_json_find(it.value, "messages");
        for (mc_json_iter m = mc_json_begin(messages); mc_json_next(&m);)
            if (mc_json_get_type(mc_json_find(m.value, "tool_calls")) == MC_JSON_ARRAY)
                message = m.value;
        mc_json_iter first = mc_json_begin(mc_json_find(message, "tool_calls"));
        if (!mc_json_next(&first) || !mc_json_exists(mc_json_find(first.value, "function")) ||
            !mc_json_get_str(mc_json_find(it.value, "text"), &text))
            continue;
        char *turn = last_turn(text.ptr, begin, end);
        mc_tools list;
        tools_of(message, &list);
        const way w = {.format = format, .tools = &list, .first = 3, .step = 5};
        char *got = turn ? way_split(&w, turn) : NULL;
        if (got && strstr(turn, "\"name\"")) check_parts(got, message, &calls);
        free(got);
        free(turn);
        mc_tools_deinit(&list);
    }
    print_message("%s: %zu calls read back\n", name, calls);
    assert_true(calls > 0);
    mc_json_close(&doc);
    free(path);
}

static void test_goldens(void **state) {
    (void)state;
    check_goldens("qwen2_5", "<|im_start|>assistant\n", "<|im_end|>", "hermes");
    check_goldens("qwen3", "<|im_start|>assistant\n", "<|im_end|>", "hermes");
    check_goldens("llama3_2", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>",
                  "llama");
}

static void test_formats(void **state) {
    (void)state;
    static const struct {
        const char *file, *calls;
        bool thinks;
    } rows[] = {{"qwen3", "hermes", true},      {"qwen2_5", "hermes", false},
                {"llama3_1", "generic", false}, {"llama3_2", "llama", false},
                {"gemma3", "gemma", false},     {"r1_distill_handwritten", "generic", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *path = test_format("%s/chat/%s.json", test_cases_dir(), rows[i].file);
        mc_json_doc *doc = test_load_json(path);
        mc_str template;
        assert_true(mc_json_get_str(mc_json_find(mc_json_root(doc), "chat_template"), &template));
        mc_answer_format format = mc_answer_format_find(template, NULL);
        if (strcmp(format.calls->name, rows[i].calls) != 0)
            fail_msg("%s: %s", rows[i].file, format.calls->name);
        assert_int_equal(format.think_end != NULL, rows[i].thinks);
        mc_json_close(&doc);
        free(path);
    }
    mc_answer_format format = mc_answer_format_find(MC_STR(""), NULL);
    assert_string_equal(format.calls->name, "generic");
    format = mc_answer_format_find(MC_STR("<tool_call>"), NULL); /* there is no place for tools */
    assert_string_equal(format.calls->name, "generic");
    format = format_of("hermes", true);
    assert_true(mc_answer_format_is_open(&format, MC_STR("a<think>\n")));
    assert_false(mc_answer_format_is_open(&format, MC_STR("<think>\n\n</think>\n\n")));
    assert_null(mc_call_format_find("none"));
}

/* ---- errors ---- */

static mica_status refuse_piece(void *user, const mc_piece *piece) {
    (void)user;
    (void)piece;
    return MICA_ECANCELLED;
}

/* context: the answer is one of calls in Python that are streamed. */
static bool split_once(void *context) {
    static const char json[] = "<think>a</think>b <tool_call>{\"name\": \"f\"}</tool_call>",
                      python[] = "<think>a</think>[f(a='x', b=2), f()]";
    const bool *streams = context;
    const char *answer = *streams ? python : json;
    const char *want =
        *streams ? "thought:a|f:{\"a\": \"x\", \"b\": 2}|f:{}" : "thought:a|text:b|f:{}";
    const mc_answer_format format = format_of(*streams ? "pythonic" : "hermes", true);
    mc_splitter *s;
    parts p = {.kind = -1};
    bool done = mc_splitter_open(&format, &answer_tools, false, parts_take, &p, &s) == MICA_OK;
    if (done && *streams) mc_splitter_stream_calls(s);
    for (size_t i = 0; done && answer[i]; i++)
        done = mc_splitter_push(s, answer + i, 1) == MICA_OK;
    done = done && mc_splitter_end(s) == MICA_OK;
    mc_splitter_close(&s);
    done = done && p.text.len == strlen(want);
    mc_buffer_deinit(&p.text);
    return done;
}

static void test_errors(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", false);
    mc_splitter *s;
    assert_int_equal(mc_splitter_open(&format, NULL, false, refuse_piece, NULL, &s), MICA_OK);
    assert_int_equal(mc_splitter_push(s, "a", 1), MICA_ECANCELLED);
    mc_splitter_close(&s);
    mc_splitter_close(&s);
    for (int streams = 0; streams < 2; streams++)
        test_fail_each_allocation(split_once, &(bool){streams});
}

static void test_long_calls_are_text(void **state) {
    (void)state;
    const mc_answer_format format = format_of("hermes", false);
    parts p = {.kind = -1};
    mc_splitter *s;
    char block[4096];
    memset(block, '[', sizeof block);
    assert_int_equal(mc_splitter_open(&format, &answer_tools, false, parts_take, &p, &s), MICA_OK);
    assert_int_equal(mc_splitter_push(s, "<tool_call>", 11), MICA_OK);
    for (int i = 0; i < 600; i++)
        assert_int_equal(mc_splitter_push(s, block, sizeof block), MICA_OK);
    assert_true(p.text.len > 1 << 20);
    mc_splitter_close(&s);
    mc_buffer_deinit(&p.text);
}

static void refuse_tools(const char *text, mica_status status, const char *word) {
    mc_tools list;
    assert_int_equal(mc_tools_read(text, strlen(text), &list), status);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
    mc_tools_deinit(&list);
}

static void test_tools(void **state) {
    (void)state;
#define TOOL(function) "[{\"type\": \"function\", \"function\": {" function "}}]"
    refuse_tools("{", MICA_EFORMAT, "tools");
    refuse_tools("{}", MICA_EFORMAT, "want an array");
    refuse_tools("[3]", MICA_EFORMAT, "tools[0].type");
    refuse_tools("[{\"type\": \"custom\"}]", MICA_EUNSUPPORTED, "\"custom\"");
    refuse_tools(TOOL(""), MICA_EFORMAT, "tools[0].function.name");
    refuse_tools(TOOL("\"name\": \"a b\""), MICA_EFORMAT, "function.name");
    refuse_tools(TOOL("\"name\": \"a\", \"parameters\": 3"), MICA_EFORMAT, "parameters");
    refuse_tools(TOOL("\"name\": \"a\", \"strict\": 3"), MICA_EFORMAT, "strict");
    refuse_tools(TOOL("\"name\": \"a\", \"mood\": 3"), MICA_EUNSUPPORTED, "function.mood");
    refuse_tools("[{\"type\": \"function\", \"mood\": 3, \"function\": {\"name\": \"a\"}}]",
                 MICA_EUNSUPPORTED, "tools[0].mood: not supported");
    refuse_tools("[{\"type\": \"function\", \"function\": {\"name\": \"a\"}},"
                 " {\"type\": \"function\", \"function\": {\"name\": \"a\"}}]",
                 MICA_EINVAL, "tools[1].function.name");
#undef TOOL
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thoughts),       cmocka_unit_test(test_hermes),
        cmocka_unit_test(test_llama),          cmocka_unit_test(test_pythonic),
        cmocka_unit_test(test_gemma),          cmocka_unit_test(test_generic),
        cmocka_unit_test(test_broken),         cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_at_once),        cmocka_unit_test(test_long_arguments),
        cmocka_unit_test(test_forced_lengths), cmocka_unit_test(test_one_streamed_call),
        cmocka_unit_test(test_goldens),        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_long_calls_are_text),
        cmocka_unit_test(test_tools),
    };
    return cmocka_run_group_tests_name("answer/splitter", tests, answer_tools_open,
                                       answer_tools_close);
}
