#include "answer/format.h"

#include "base/status.h"
#include "text/find.h"
#include "text/space.h"
#include "text/tokenizer/tokenizer.h"

#include <string.h>

#define M "\xff" /* MC_MARK */

/* ---- the marks ---- */

static const char *const marks[] = {
    "<tool_call>", "</tool_call>", "<think>", "</think>", "[THINK]", "[/THINK]", "[TOOL_CALLS]",
    "[ARGS]", "[CALL_ID]", "<|python_tag|>", "<|tool_call>", "<tool_call|>", "<|channel>",
    "<channel|>", "<|\"|>", "<start_function_call>", "<end_function_call>", "<escape>",
    "<|tool_call_start|>", "<|tool_call_end|>", "<|tool_call|>", "<|/tool_call|>", "<arg_key>",
    "</arg_key>", "<arg_value>", "</arg_value>", "<code>", "</code>", "<function_calls>",
    "</function_calls>", "<TOOLCALL>", "</TOOLCALL>", "<tool_calls>", "</tool_calls>",
    "<minimax:tool_call>", "</minimax:tool_call>", "<seed:think>", "</seed:think>",
    "<seed:tool_call>", "</seed:tool_call>",
    /* DeepSeek's, with U+FF5C and U+2581. */
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "｜DSML｜",
    /* Kimi's. */
    "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
    "<|tool_call_end|>", "<|tool_call_argument_begin|>",
    /* Command's. */
    "<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>",
    "<|START_RESPONSE|>", "<|END_RESPONSE|>",
    /* Harmony's. */
    "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>",
    "<|return|>"};

_Static_assert(sizeof marks / sizeof *marks <= MC_MARKS, "a bit a mark");

/* ---- the forms of calls ---- */

#define JSON_BLOCK \
    { .begin = "{", .body = MC_CALLS_JSON, .first = true }
#define JSON_FENCE \
    { .begin = "```json", .end = "```", .body = MC_CALLS_JSON }
#define PYTHON_BLOCK \
    { .begin = "[", .body = MC_CALLS_PYTHON, .first = true }
#define HERMES_BLOCK \
    { .begin = M "<tool_call>", .end = M "</tool_call>", .body = MC_CALLS_JSON }
#define HERMES_FORCED                                                                     \
    {                                                                                     \
        .before = M "<tool_call>\n{\"name\": \"",                                         \
        .middle = "\", \"arguments\": ", .after = "}\n" M "</tool_call>", .between = "\n" \
    }
#define LLAMA_FORCED \
    { .before = "{\"name\": \"", .middle = "\", \"parameters\": ", .after = "}" }
#define LISTED(first, last)                                             \
    {                                                                   \
        .head = first "[", .tail = "]" last, .before = "{\"name\": \"", \
        .middle = "\", \"arguments\": ", .after = "}", .between = ", "  \
    }
#define LEFT_OUT(mark) \
    { .begin = (mark), .body = MC_CALLS_NONE }

static const mc_call_syntax
    xml = {.open = "<function=",
           .named = ">",
           .key = "<parameter=",
           .assign = ">\n",
           .end = "\n</parameter>",
           .close = "</function>"},
    seed = {.open = "<function=",
            .named = ">",
            .key = "<parameter=",
            .assign = ">",
            .end = "</parameter>",
            .close = "</function>"},
    minimax = {.open = "<invoke name=\"",
               .named = "\">",
               .key = "<parameter name=\"",
               .assign = "\">",
               .end = "</parameter>",
               .close = "</invoke>"},
    dsml = {.open = "<" M "｜DSML｜invoke name=\"",
            .named = "\">",
            .key = "<" M "｜DSML｜parameter name=\"",
            .assign = "\" string=\"false\">",
            .assign_text = "\" string=\"true\">",
            .end = "</" M "｜DSML｜parameter>",
            .close = "</" M "｜DSML｜invoke>"},
    glm = {.open = "",
           .named = "",
           .key = M "<arg_key>",
           .assign = M "</arg_key>\n" M "<arg_value>",
           .end = M "</arg_value>",
           .close = ""},
    gemma4 = {.open = "call:", .named = "{", .quote = M "<|\"|>", .close = ""},
    function_gemma = {.open = "call:", .named = "{", .quote = M "<escape>", .close = ""},
    mistral = {.open = "", .named = M "[ARGS]", .skips = true, .close = ""},
    deepseek_v3 = {.open = M "<｜tool▁call▁begin｜>function" M "<｜tool▁sep｜>",
                   .named = "\n```json\n",
                   .close = "\n```" M "<｜tool▁call▁end｜>"},
    deepseek_v3_1 = {.open = M "<｜tool▁call▁begin｜>",
                     .named = M "<｜tool▁sep｜>",
                     .close = M "<｜tool▁call▁end｜>"},
    kimi = {.open = M "<|tool_call_begin|>",
            .prefix = "functions.",
            .named = M "<|tool_call_argument_begin|>",
            .skips = true,
            .close = M "<|tool_call_end|>"},
    harmony_call = {.open = "", .prefix = "functions.", .named = "", .close = ""};

static const mc_channels harmony = {
    .start = M "<|start|>",
    .channel = M "<|channel|>",
    .message = M "<|message|>",
    .ends = {M "<|end|>", M "<|call|>", M "<|return|>", M "<|start|>", M "<|channel|>"},
    .thoughts = "analysis",
    .recipient = "to="};

#define DEEPSEEK_BLOCK(row)                                                   \
    {                                                                         \
        .begin = M "<｜tool▁calls▁begin｜>", .end = M "<｜tool▁calls▁end｜>", \
        .body = MC_CALLS_NAMED, .syntax = &(row)                              \
    }

/* A format is found by the first of its marks that a template has; all of a mark with " & " in it.
 * Or it is found by tokens that a vocabulary has, if the template shows nothing. */
static const struct {
    mc_call_format format;
    const char *marks[4];
    const char *tokens[3];
} formats[] = {
    {{.name = "harmony",
      .bare = true,
      .channels = &harmony,
      .syntax = &harmony_call,
      .forced = {.before = M "<|channel|>commentary to=functions.",
                 .middle = " " M "<|constrain|>json" M "<|message|>"},
      .mark = M "<|channel|>commentary to=functions."},
     {"<|channel|> & <|message|>"},
     {"<|constrain|>", "<|channel|>", "<|message|>"}},
    {{.name = "gemma4",
      .blocks = {{.begin = M "<|tool_call>",
                  .end = M "<tool_call|>",
                  .body = MC_CALLS_BARE,
                  .syntax = &gemma4}},
      .forced = {.before = M "<|tool_call>call:",
                 .middle = "{",
                 .after = M "<tool_call|>",
                 .between = "",
                 .body = MC_CALLS_BARE},
      .mark = M "<|tool_call>"},
     {"<|tool_call>"},
     {"<|tool_call>", "<tool_call|>"}},
    {{.name = "function_gemma",
      .blocks = {{.begin = M "<start_function_call>",
                  .end = M "<end_function_call>",
                  .body = MC_CALLS_BARE,
                  .syntax = &function_gemma}},
      .forced = {.before = M "<start_function_call>call:",
                 .middle = "{",
                 .after = M "<end_function_call>",
                 .between = "",
                 .body = MC_CALLS_BARE},
      .mark = M "<start_function_call>"},
     {"<start_function_call>"},
     {"<start_function_call>", "<end_function_call>"}},
    {{.name = "mistral",
      .blocks = {{.begin = M "[TOOL_CALLS]",
                  .body = MC_CALLS_NAMED,
                  .syntax = &mistral,
                  .or_json = true}},
      .forced = {.before = M "[TOOL_CALLS]", .middle = M "[ARGS]", .between = ""},
      .mark = M "[TOOL_CALLS]"},
     {"[ARGS]"},
     {"[TOOL_CALLS]", "[ARGS]"}},
    {{.name = "mistral_list",
      .blocks = {{.begin = M "[TOOL_CALLS]",
                  .body = MC_CALLS_NAMED,
                  .syntax = &mistral,
                  .or_json = true}},
      .forced = LISTED(M "[TOOL_CALLS]", ""),
      .mark = M "[TOOL_CALLS]"},
     {"[TOOL_CALLS]"},
     {"[TOOL_CALLS]"}},
    {{.name = "kimi",
      .blocks = {{.begin = M "<|tool_calls_section_begin|>",
                  .end = M "<|tool_calls_section_end|>",
                  .body = MC_CALLS_NAMED,
                  .syntax = &kimi}},
      .forced = {.head = M "<|tool_calls_section_begin|>",
                 .before = M "<|tool_call_begin|>functions.",
                 .number = ":",
                 .middle = M "<|tool_call_argument_begin|>",
                 .after = M "<|tool_call_end|>",
                 .between = "",
                 .tail = M "<|tool_calls_section_end|>"},
      .mark = M "<|tool_calls_section_begin|>"},
     {"<|tool_calls_section_begin|>"},
     {"<|tool_calls_section_begin|>"}},
    {{.name = "deepseek_v3_2",
      .bare = true,
      .blocks = {{.begin = "<" M "｜DSML｜function_calls>",
                  .end = "</" M "｜DSML｜function_calls>",
                  .body = MC_CALLS_KEYED,
                  .syntax = &dsml},
                 JSON_FENCE,
                 JSON_BLOCK},
      .forced = {.head = "<" M "｜DSML｜function_calls>\n",
                 .before = "<" M "｜DSML｜invoke name=\"",
                 .middle = "\">\n",
                 .after = "\n",
                 .between = "",
                 .tail = "</" M "｜DSML｜function_calls>",
                 .body = MC_CALLS_KEYED},
      .mark = "<" M "｜DSML｜function_calls>"},
     {"｜DSML｜"},
     {"｜DSML｜"}},
    {{.name = "deepseek_v3",
      .blocks = {DEEPSEEK_BLOCK(deepseek_v3)},
      .forced = {.head = M "<｜tool▁calls▁begin｜>",
                 .before = M "<｜tool▁call▁begin｜>function" M "<｜tool▁sep｜>",
                 .middle = "\n```json\n",
                 .after = "\n```" M "<｜tool▁call▁end｜>",
                 .between = "\n",
                 .tail = M "<｜tool▁calls▁end｜>"},
      .mark = M "<｜tool▁calls▁begin｜>"},
     {"<｜tool▁calls▁begin｜> & ```json"},
     {NULL}},
    {{.name = "deepseek_v3_1", /* its template shows calls, but has no place for tools */
      .blocks = {DEEPSEEK_BLOCK(deepseek_v3_1), JSON_FENCE, JSON_BLOCK},
      .forced = {.head = M "<｜tool▁calls▁begin｜>",
                 .before = M "<｜tool▁call▁begin｜>",
                 .middle = M "<｜tool▁sep｜>",
                 .after = M "<｜tool▁call▁end｜>",
                 .between = "",
                 .tail = M "<｜tool▁calls▁end｜>"},
      .mark = M "<｜tool▁calls▁begin｜>"},
     {"<｜tool▁calls▁begin｜>"},
     {"<｜tool▁calls▁begin｜>"}},
    {{.name = "lfm2",
      .blocks = {{.begin = M "<|tool_call_start|>",
                  .end = M "<|tool_call_end|>",
                  .body = MC_CALLS_PYTHON}},
      .forced = {.head = M "<|tool_call_start|>[",
                 .before = "",
                 .middle = "(",
                 .between = ", ",
                 .tail = "]" M "<|tool_call_end|>",
                 .body = MC_CALLS_PYTHON},
      .mark = M "<|tool_call_start|>"},
     {"<|tool_call_start|>"},
     {"<|tool_call_start|>", "<|tool_call_end|>"}},
    {{.name = "olmo3",
      .blocks =
          {{.begin = M "<function_calls>", .end = M "</function_calls>", .body = MC_CALLS_PYTHON}},
      .forced = {.head = M "<function_calls>",
                 .before = "",
                 .middle = "(",
                 .between = "\n",
                 .tail = M "</function_calls>",
                 .body = MC_CALLS_PYTHON},
      .mark = M "<function_calls>"},
     {"<function_calls>"},
     {"<function_calls>", "</function_calls>"}},
    {{.name = "nemotron",
      .blocks = {{.begin = M "<TOOLCALL>", .end = M "</TOOLCALL>", .body = MC_CALLS_JSON}},
      .forced = LISTED(M "<TOOLCALL>", M "</TOOLCALL>"),
      .mark = M "<TOOLCALL>"},
     {"<TOOLCALL>"},
     {"<TOOLCALL>", "</TOOLCALL>"}},
    {{.name = "phi4",
      .blocks = {{.begin = M "<|tool_call|>", .end = M "<|/tool_call|>", .body = MC_CALLS_JSON}},
      .forced = LISTED(M "<|tool_call|>", M "<|/tool_call|>"),
      .mark = M "<|tool_call|>"},
     {"<|/tool|>", "<|/tool_call|>"},
     {"<|tool_call|>", "<|/tool_call|>"}},
    {{.name = "command",
      .blocks = {{.begin = M "<|START_ACTION|>", .end = M "<|END_ACTION|>", .body = MC_CALLS_JSON},
                 LEFT_OUT(M "<|START_RESPONSE|>"),
                 LEFT_OUT(M "<|END_RESPONSE|>")},
      .forced = {.head = M "<|START_ACTION|>[\n",
                 .before = "    {\"tool_call_id\": \"",
                 .counted = "\", \"tool_name\": \"",
                 .middle = "\", \"parameters\": ",
                 .after = "}",
                 .between = ",\n",
                 .tail = "\n]" M "<|END_ACTION|>"},
      .mark = M "<|START_ACTION|>"},
     {"<|START_ACTION|>"},
     {"<|START_ACTION|>", "<|END_ACTION|>"}},
    {{.name = "command_r",
      .blocks = {{.begin = "Action: ```json", .end = "```", .body = MC_CALLS_JSON},
                 {.begin = "Action:\n```json", .end = "```", .body = MC_CALLS_JSON},
                 JSON_FENCE},
      .forced = {.head = "Action: ```json\n[\n",
                 .before = "    {\"tool_name\": \"",
                 .middle = "\", \"parameters\": ",
                 .after = "}",
                 .between = ",\n",
                 .tail = "\n]```"},
      .mark = "Action: ```json"},
     {"json-formatted list of actions"},
     {NULL}},
    {{.name = "seed",
      .blocks = {{.begin = M "<seed:tool_call>",
                  .end = M "</seed:tool_call>",
                  .body = MC_CALLS_KEYED,
                  .syntax = &seed}},
      .forced = {.before = M "<seed:tool_call>\n<function=",
                 .middle = ">\n",
                 .after = "\n" M "</seed:tool_call>",
                 .between = "\n",
                 .body = MC_CALLS_KEYED},
      .mark = M "<seed:tool_call>"},
     {"<seed:tool_call>"},
     {"<seed:tool_call>", "</seed:tool_call>"}},
    {{.name = "minimax",
      .blocks = {{.begin = M "<minimax:tool_call>",
                  .end = M "</minimax:tool_call>",
                  .body = MC_CALLS_KEYED,
                  .syntax = &minimax}},
      .forced = {.head = M "<minimax:tool_call>\n",
                 .before = "<invoke name=\"",
                 .middle = "\">\n",
                 .after = "\n",
                 .between = "",
                 .tail = M "</minimax:tool_call>",
                 .body = MC_CALLS_KEYED},
      .mark = M "<minimax:tool_call>"},
     {"<minimax:tool_call>"},
     {"<minimax:tool_call>", "</minimax:tool_call>"}},
    {{.name = "qwen_xml",
      .blocks = {{.begin = M "<tool_call>",
                  .end = M "</tool_call>",
                  .body = MC_CALLS_KEYED,
                  .syntax = &xml,
                  .or_json = true}},
      .forced = {.before = M "<tool_call>\n<function=",
                 .middle = ">\n",
                 .after = "\n" M "</tool_call>",
                 .between = "\n",
                 .body = MC_CALLS_KEYED},
      .mark = M "<tool_call>"},
     {"<function="},
     {NULL}},
    {{.name = "glm",
      .blocks = {{.begin = M "<tool_call>",
                  .end = M "</tool_call>",
                  .body = MC_CALLS_KEYED,
                  .syntax = &glm}},
      .forced = {.before = M "<tool_call>",
                 .middle = "\n",
                 .after = M "</tool_call>",
                 .between = "\n",
                 .body = MC_CALLS_KEYED},
      .mark = M "<tool_call>"},
     {"<arg_key>"},
     {"<arg_key>", "</arg_value>"}},
    {{.name = "smollm3",
      .blocks = {HERMES_BLOCK, {.begin = M "<code>", .end = M "</code>", .body = MC_CALLS_PYTHON}},
      .forced = HERMES_FORCED,
      .mark = M "<tool_call>"},
     {"<tool_call> & <code>"},
     {NULL}},
    {{.name = "hermes", .blocks = {HERMES_BLOCK}, .forced = HERMES_FORCED, .mark = M "<tool_call>"},
     {"<tool_call>"},
     {"<tool_call>", "</tool_call>"}},
    {{.name = "minimax_m1",
      .blocks = {{.begin = M "<tool_calls>", .end = M "</tool_calls>", .body = MC_CALLS_JSON}},
      .forced = {.head = M "<tool_calls>\n",
                 .before = "{\"name\": \"",
                 .middle = "\", \"arguments\": ",
                 .after = "}\n",
                 .between = "",
                 .tail = M "</tool_calls>"},
      .mark = M "<tool_calls>"},
     {"<tool_calls>"},
     {"<tool_calls>", "</tool_calls>"}},
    {{.name = "granite",
      .blocks = {{.begin = M "<|tool_call|>", .body = MC_CALLS_JSON}},
      .forced = LISTED(M "<|tool_call|>", ""),
      .mark = M "<|tool_call|>"},
     {"<|tool_call|>", "<|start_of_role|> & available_tools"},
     {"<|tool_call|>"}},
    {{.name = "pythonic", .blocks = {PYTHON_BLOCK, JSON_BLOCK}, .forced = LLAMA_FORCED},
     {"func_name1(", "<|python_start|>"},
     {NULL}},
    {{.name = "llama",
      .blocks = {{.begin = M "<|python_tag|>", .body = MC_CALLS_JSON}, JSON_BLOCK},
      .forced = LLAMA_FORCED},
     {"<|python_tag|>", "Environment: ipython", "\"parameters\": dictionary"},
     {NULL}},
    {{.name = "gemma",
      .blocks = {{.begin = "```tool_code", .end = "```", .body = MC_CALLS_PYTHON},
                 JSON_FENCE,
                 JSON_BLOCK,
                 PYTHON_BLOCK},
      .forced = LLAMA_FORCED},
     {"<start_of_turn>"},
     {NULL}},
    {{.name = "generic",
      .blocks = {{.begin = "<tool_call>", .end = "</tool_call>", .body = MC_CALLS_JSON},
                 JSON_FENCE,
                 JSON_BLOCK,
                 {.begin = "[", .body = MC_CALLS_JSON, .first = true},
                 DEEPSEEK_BLOCK(deepseek_v3)},
      .forced = {.before = "{\"name\": \"", .middle = "\", \"arguments\": ", .after = "}"}},
     {""},
     {NULL}},
};

enum { FORMATS = sizeof formats / sizeof *formats, GENERIC = FORMATS - 1 };

/* Found by the mark that ends a thought; the same in a vocabulary. */
static const struct {
    mc_think_format format;
    const char *mark;
} thoughts[] = {
    {{"<|channel|>analysis", M "<|channel|>analysis" M "<|message|>", M "<|end|>",
      M "<|start|>assistant", M "<|channel|>final" M "<|message|>"},
     "<|channel|> & <|message|>"},
    {{"<|channel>thought", M "<|channel>thought\n", M "<channel|>", NULL, NULL}, "<channel|>"},
    {{"[THINK]", M "[THINK]", M "[/THINK]", NULL, NULL}, "[/THINK]"},
    {{"<|START_THINKING|>", M "<|START_THINKING|>", M "<|END_THINKING|>", NULL, NULL},
     "<|END_THINKING|>"},
    {{"<seed:think>", M "<seed:think>", M "</seed:think>", NULL, NULL}, "</seed:think>"},
    {{"<think>", M "<think>", M "</think>", NULL, NULL}, "</think>"},
};

/* ---- marks in literals and vocabularies ---- */

const char *mc_answer_mark(size_t i) {
    return i < sizeof marks / sizeof *marks ? marks[i] : NULL;
}

int32_t mc_answer_mark_token(const mica_tokenizer *tokenizer, const char *mark) {
    int32_t id = tokenizer ? mica_tokenizer_find(tokenizer, mark, strlen(mark)) : -1;
    const mc_token *token = id >= 0 ? mc_vocab_token(&tokenizer->vocab, id) : NULL;
    return token && (token->flags & (MC_TOKEN_ADDED | MC_TOKEN_SPECIAL)) ? id : -1;
}

/* The mark that a literal has behind MC_MARK, as its number; MC_MARKS: none. */
static size_t mark_at(const char *literal) {
    size_t found = MC_MARKS, longest = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t len = strlen(marks[i]);
        if (len > longest && strncmp(literal, marks[i], len) == 0) {
            found = i;
            longest = len;
        }
    }
    return found;
}

/* Adds the marks of a literal to a set. */
static void collect(const char *literal, uint64_t *set) {
    for (const char *at = literal; at && (at = strchr(at, MC_MARK)); at++) {
        size_t mark = mark_at(at + 1);
        if (mark < MC_MARKS) *set |= UINT64_C(1) << mark;
    }
}

static void collect_syntax(const mc_call_syntax *s, uint64_t *set) {
    const char *const all[] = {s->open,        s->named, s->key,   s->assign,
                               s->assign_text, s->end,   s->quote, s->close};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        collect(all[i], set);
}

/* The marks that a format has. */
static uint64_t marks_of(const mc_answer_format *format) {
    const mc_call_format *calls = format->calls;
    const mc_forced_calls *f = &calls->forced;
    const char *const all[] = {f->head,    f->before,           f->middle,         f->after,
                               f->tail,    format->think_begin, format->think_end, calls->mark,
                               f->between, format->think_next,  format->text_begin};
    uint64_t set = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        collect(all[i], &set);
    for (size_t i = 0; i < MC_CALL_BLOCKS && calls->blocks[i].begin; i++) {
        collect(calls->blocks[i].begin, &set);
        collect(calls->blocks[i].end, &set);
        if (calls->blocks[i].syntax) collect_syntax(calls->blocks[i].syntax, &set);
    }
    for (size_t i = 0; calls->channels && i < MC_CHANNEL_ENDS; i++)
        collect(calls->channels->ends[i], &set);
    return set;
}

void mc_answer_format_take_tokens(mc_answer_format *format, const mica_tokenizer *tokenizer) {
    uint64_t set = marks_of(format);
    format->tokens = format->special = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int32_t id = format->ids[i] = set >> i & 1 ? mc_answer_mark_token(tokenizer, marks[i]) : -1;
        if (id < 0) continue;
        format->tokens |= UINT64_C(1) << i;
        if (mica_tokenizer_is_special(tokenizer, id)) format->special |= UINT64_C(1) << i;
    }
}

mc_str mc_answer_mark_of(const mc_answer_format *format, int32_t id, bool *special) {
    for (size_t i = 0; id >= 0 && format->tokens && i < sizeof marks / sizeof *marks; i++)
        if ((format->tokens >> i & 1) && format->ids[i] == id) {
            *special = format->special >> i & 1;
            return mc_str_of(marks[i]);
        }
    return (mc_str){"", 0};
}

bool mc_format_literal(const mc_answer_format *format, const char *literal, mc_buffer *out) {
    bool done = true;
    for (const char *at = literal; done && *at; at++) {
        bool mark = (unsigned char)*at == MC_MARK;
        size_t i = mark ? mark_at(at + 1) : MC_MARKS;
        if (!mark || (i < MC_MARKS && format->tokens >> i & 1)) done = mc_buffer_add(out, at, 1);
    }
    return done;
}

bool mc_call_text_add(mc_str text, mc_buffer *plain) {
    for (size_t from = 0, to; from < text.len; from = to + 1) {
        const char *mark = memchr(text.ptr + from, MC_MARK, text.len - from);
        to = mark ? (size_t)(mark - text.ptr) : text.len;
        if (!mc_buffer_add(plain, text.ptr + from, to - from)) return false;
    }
    return true;
}

/* ---- finding a format ---- */

static bool has(mc_str text, mc_str word) {
    return !word.len || mc_find(text, word, 0) < text.len;
}

/* Whether a template has all words of a mark. */
static bool has_mark(mc_str text, const char *mark) {
    static const char both[] = " & ";
    const char *second = strstr(mark, both);
    if (!second) return has(text, mc_str_of(mark));
    return has(text, (mc_str){mark, (size_t)(second - mark)}) &&
           has(text, mc_str_of(second + strlen(both)));
}

/* Whether a format has calls as text/chat/chat_tools.h asks for them: a template without a place
 * for tools shows no other. */
static bool reads_lines(const mc_call_format *format) {
    for (size_t i = 0; i < MC_CALL_BLOCKS && format->blocks[i].begin; i++)
        if (format->blocks[i].begin[0] == '{') return true;
    return format->channels != NULL;
}

static bool has_tokens(const mica_tokenizer *tokenizer, const char *const *tokens, size_t count) {
    size_t n = 0;
    while (n < count && tokens[n] && mc_answer_mark_token(tokenizer, tokens[n]) >= 0)
        n++;
    return n && (n == count || !tokens[n]);
}

static const mc_call_format *find_calls(mc_str chat_template, const mica_tokenizer *tokenizer) {
    bool placed = has(chat_template, MC_STR("tools"));
    for (size_t i = 0; i < FORMATS; i++) {
        if (!placed && !reads_lines(&formats[i].format)) continue;
        if (i == GENERIC) break;
        for (const char *const *mark = formats[i].marks; *mark; mark++)
            if (has_mark(chat_template, *mark)) return &formats[i].format;
    }
    for (size_t i = 0; i < FORMATS; i++)
        if ((placed || (formats[i].format.bare && !chat_template.len)) &&
            has_tokens(tokenizer, formats[i].tokens, 3))
            return &formats[i].format;
    return &formats[GENERIC].format;
}

static const mc_think_format *find_thoughts(mc_str chat_template, const mc_call_format *calls,
                                            const mica_tokenizer *tokenizer) {
    enum { COUNT = sizeof thoughts / sizeof *thoughts };
    if (calls->channels) return &thoughts[0].format;
    for (size_t i = 1; i < COUNT; i++)
        if (has_mark(chat_template, thoughts[i].mark)) return &thoughts[i].format;
    for (size_t i = 1; i < COUNT; i++)
        if (mc_answer_mark_token(tokenizer, thoughts[i].mark) >= 0) return &thoughts[i].format;
    return NULL;
}

mc_answer_format mc_answer_format_find(mc_str chat_template, const mica_tokenizer *tokenizer) {
    mc_answer_format found = {.calls = find_calls(chat_template, tokenizer)};
    const mc_think_format *thinks = find_thoughts(chat_template, found.calls, tokenizer);
    if (thinks) {
        found.think_begin = thinks->begin;
        found.think_end = thinks->end;
        found.think_next = thinks->next;
        found.text_begin = thinks->text;
        found.thoughts = thinks->name;
    }
    mc_answer_format_take_tokens(&found, tokenizer);
    return found;
}

/* ---- prompts ---- */

bool mc_answer_format_is_open(const mc_answer_format *format, mc_str prompt) {
    char mark[64];
    size_t n = 0;
    if (!format->think_begin) return false;
    for (const char *at = format->think_begin; *at && n < sizeof mark; at++)
        if ((unsigned char)*at != MC_MARK) mark[n++] = *at;
    n -= mc_space_at_end(mark, n);
    prompt.len -= mc_space_at_end(prompt.ptr, prompt.len);
    return mc_str_ends(prompt, (mc_str){mark, n});
}

mica_status mc_answer_format_find_open(const mc_answer_format *format,
                                       const mica_tokenizer *tokenizer, const int32_t *ids,
                                       size_t n, bool *is_open) {
    enum { TAIL = 16 }; /* tokens; a mark has fewer */
    char *text;
    size_t len, first = n > TAIL ? n - TAIL : 0;
    *is_open = false;
    if (!format->think_begin) return MICA_OK;
    MC_TRY(mica_tokenizer_decode(tokenizer, ids + first, n - first, false, &text, &len));
    *is_open = mc_answer_format_is_open(format, (mc_str){text, len});
    mica_free(text);
    return MICA_OK;
}

const mc_call_format *mc_call_format_at(size_t i) {
    return i < FORMATS ? &formats[i].format : NULL;
}

const mc_call_format *mc_call_format_find(const char *name) {
    for (size_t i = 0; i < FORMATS; i++)
        if (mc_str_is(mc_str_of(name), formats[i].format.name)) return &formats[i].format;
    return NULL;
}
