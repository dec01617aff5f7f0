#include "answer/format.h"

#include "base/status.h"
#include "text/find.h"
#include "text/space.h"

#define HERMES_BLOCK \
    { "<tool_call>", "</tool_call>", MC_CALLS_JSON, false }
#define JSON_BLOCK \
    { "{", NULL, MC_CALLS_JSON, true }
#define JSON_FENCE \
    { "```json", "```", MC_CALLS_JSON, false }
#define PYTHON_BLOCK \
    { "[", NULL, MC_CALLS_PYTHON, true }
#define LLAMA_CALL "{\"name\": ", ", \"parameters\": ", "}", NULL

/* A format is found by the first of its marks that a template has. */
static const struct {
    mc_call_format format;
    const char *marks[4];
} formats[] = {
    {{"hermes",
      {HERMES_BLOCK},
      "<tool_call>\n{\"name\": ",
      ", \"arguments\": ",
      "}\n</tool_call>",
      "\n"},
     {"<tool_call>"}},
    {{"pythonic", {PYTHON_BLOCK, JSON_BLOCK}, LLAMA_CALL}, {"func_name1(", "<|python_start|>"}},
    {{"llama", {{"<|python_tag|>", NULL, MC_CALLS_JSON, false}, JSON_BLOCK}, LLAMA_CALL},
     {"<|python_tag|>", "Environment: ipython", "\"parameters\": dictionary"}},
    {{"gemma",
      {{"```tool_code", "```", MC_CALLS_PYTHON, false}, JSON_FENCE, JSON_BLOCK, PYTHON_BLOCK},
      LLAMA_CALL},
     {"<start_of_turn>"}},
    {{"generic",
      {HERMES_BLOCK, JSON_FENCE, JSON_BLOCK, {"[", NULL, MC_CALLS_JSON, true}},
      "{\"name\": ",
      ", \"arguments\": ",
      "}",
      NULL},
     {""}},
};

enum { FORMATS = sizeof formats / sizeof *formats };

static bool has(mc_str text, const char *word) {
    return !*word || mc_find(text, mc_str_of(word), 0) < text.len;
}

/* Whether a format has calls as text/chat/chat_tools.h asks for them: a template without a place
 * for tools shows no other. */
static bool reads_lines(const mc_call_format *format) {
    for (const mc_call_block *b = format->blocks; b->begin; b++)
        if (b->begin[0] == '{') return true;
    return false;
}

mc_answer_format mc_answer_format_find(mc_str chat_template) {
    static const char *const thoughts[][2] = {{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}};
    bool placed = has(chat_template, "tools");
    mc_answer_format found = {0};
    for (size_t i = 0; i < FORMATS && !found.calls; i++)
        for (const char *const *mark = formats[i].marks; *mark && !found.calls; mark++)
            if (has(chat_template, *mark) && (placed || reads_lines(&formats[i].format)))
                found.calls = &formats[i].format;
    for (size_t i = 0; i < sizeof thoughts / sizeof *thoughts && !found.think_end; i++)
        if (has(chat_template, thoughts[i][1])) {
            found.think_begin = thoughts[i][0];
            found.think_end = thoughts[i][1];
        }
    return found;
}

bool mc_answer_format_is_open(const mc_answer_format *format, mc_str prompt) {
    if (!format->think_begin) return false;
    prompt.len -= mc_space_at_end(prompt.ptr, prompt.len);
    return mc_str_ends(prompt, mc_str_of(format->think_begin));
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

const mc_call_format *mc_call_format_find(const char *name) {
    for (size_t i = 0; i < FORMATS; i++)
        if (mc_str_is(mc_str_of(name), formats[i].format.name)) return &formats[i].format;
    return NULL;
}
