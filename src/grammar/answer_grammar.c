#include "grammar/answer_grammar.h"

#include "base/alloc.h"
#include "grammar/gbnf.h"
#include "grammar/grammar_regex.h"
#include "grammar/lark.h"
#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>

static int32_t text(mc_builder *b, const char *bytes, int32_t next) {
    return mc_build_text(b, bytes, strlen(bytes), next);
}

/* ---- thoughts ---- */

/* White space between a thought and what follows. */
static int32_t gap(mc_builder *b, int32_t next) {
    enum { MAX_BREAKS = 4 };
    for (int i = 0; i < MAX_BREAKS; i++)
        next = mc_build_split(b, next, mc_build_range(b, '\n', '\n', next));
    return next;
}

/* The thoughts before what begins at `next`. */
static int32_t thoughts(mc_builder *b, const mc_answer_format *format, mc_thinking thinking,
                        int32_t next) {
    if (thinking == MC_THINKING_NONE || !format->think_end) return next;
    int32_t rest = mc_build_until(b, mc_str_of(format->think_end), gap(b, next), MC_DEAD);
    if (thinking == MC_THINKING_IS_OPEN) return rest;
    return mc_build_split(b, next, text(b, format->think_begin, rest));
}

/* ---- documents ---- */

static int32_t refuse_choice(mc_builder *b, const char *why) {
    mc_builder_fail(b, mc_fail(MICA_EINVAL, "choice: want %s", why));
    return MC_DEAD;
}

/* One of the texts in an array. */
static int32_t build_choice(mc_builder *b, mc_json array) {
    enum { MAX_CHOICES = 256 };
    mc_str texts[MAX_CHOICES];
    size_t count = 0;
    if (mc_json_get_type(array) != MC_JSON_ARRAY || !mc_json_count(array) ||
        mc_json_count(array) > MAX_CHOICES)
        return refuse_choice(b, "an array of 1 to 256 texts");
    for (mc_json_iter it = mc_json_begin(array); mc_json_next(&it);)
        if (!mc_json_get_str(it.value, &texts[count]) || !texts[count++].len)
            return refuse_choice(b, "texts that are not empty");
    return mc_build_choice(b, texts, count, MC_RETURN);
}

/* What documents of a kind begin with; json: the text, where the kind is JSON. */
static int32_t build_document(mc_json_rules *rules, mica_constraint_kind kind, mc_str text,
                              mc_json json) {
    switch (kind) {
    case MICA_CONSTRAINT_JSON_SCHEMA:
        return mc_build_schema(rules, json, "schema", MC_RETURN);
    case MICA_CONSTRAINT_REGEX:
        return mc_build_regex(rules->b, MC_CHARS_TEXT, text, MC_REGEX_WHOLE, MC_RETURN);
    case MICA_CONSTRAINT_CHOICE:
        return build_choice(rules->b, json);
    case MICA_CONSTRAINT_GRAMMAR:
        return mc_is_gbnf(text) ? mc_build_gbnf(rules, text, MC_RETURN)
                                : mc_build_lark(rules, text, MC_RETURN);
    case MICA_CONSTRAINT_GBNF:
        return mc_build_gbnf(rules, text, MC_RETURN);
    case MICA_CONSTRAINT_LARK:
        return mc_build_lark(rules, text, MC_RETURN);
    default:
        return mc_build_any_object(rules, MC_RETURN);
    }
}

mica_status mc_answer_grammar_document(mica_constraint_kind kind, const char *source, size_t len,
                                       const mc_answer_format *format, mc_thinking thinking,
                                       mc_grammar **grammar) {
    mc_json_doc *doc = NULL;
    mc_json json = {0};
    mc_builder b;
    mc_json_rules rules;
    *grammar = NULL;
    if (kind == MICA_CONSTRAINT_JSON_SCHEMA || kind == MICA_CONSTRAINT_CHOICE) {
        const char *name = kind == MICA_CONSTRAINT_CHOICE ? "choice" : "schema";
        MC_TRY(mc_json_parse(source, len, name, &doc));
        json = mc_json_root(doc);
    }
    mc_builder_init(&b);
    mc_json_rules_init(&rules, &b);
    int32_t start = build_document(&rules, kind, (mc_str){source, len}, json);
    mc_json_close(&doc);
    return mc_grammar_finish(&b, thoughts(&b, format, thinking, start), grammar);
}

/* ---- calls ---- */

/* How arguments are written: as JSON, or as those of a function in Python. */
typedef int32_t (*build_arguments)(mc_json_rules *rules, mc_json schema, const char *name,
                                   int32_t next);

/* The arguments of a tool; any object, where its schema is not supported and need not be. */
static int32_t arguments(mc_json_rules *rules, const mc_tool *tool, mc_call_body body,
                         int32_t next) {
    char name[160];
    mc_grammar *alone;
    bool python = body == MC_CALLS_PYTHON;
    build_arguments build = python ? mc_build_keywords : mc_build_schema;
    bool any = mc_json_get_type(tool->parameters) == MC_JSON_NONE;
    snprintf(name, sizeof name, "tools/%.*s", MC_STR_ARG(tool->name));
    if (!any && !tool->strict) { /* tried apart, for an error would stick */
        mc_builder b;
        mc_json_rules own;
        mc_builder_init(&b);
        mc_json_rules_init(&own, &b);
        int32_t start = build(&own, tool->parameters, name, MC_RETURN);
        mica_status status = mc_grammar_finish(&b, start, &alone);
        mc_grammar_close(&alone);
        any = status == MICA_EUNSUPPORTED || status == MICA_EINVAL;
    }
    if (!any) return build(rules, tool->parameters, name, next);
    return python ? mc_build_any_keywords(rules, next) : mc_build_any_object(rules, next);
}

/* ---- calls that are the whole answer ---- */

/* A beginning of answers, and what comes behind it. */
typedef struct beginning {
    mc_str text;
    int32_t next;
} beginning;

static int compare_beginnings(const void *a, const void *b) {
    const mc_str x = ((const beginning *)a)->text, y = ((const beginning *)b)->text;
    int order = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);
    return order ? order : (x.len > y.len) - (x.len < y.len);
}

/* What goes on behind the first `at` bytes of all in the list, which is sorted, none of them the
 * beginning of another: one of these with what comes behind it, or any other text, by `rest`. */
static int32_t go_on(mc_builder *b, const beginning *list, size_t count, size_t at, int32_t rest) {
    int32_t all = MC_RETURN;
    int low = 0;
    for (size_t i = 0, end; i < count; i = end) {
        int byte = (uint8_t)list[i].text.ptr[at];
        for (end = i + 1; end < count && (uint8_t)list[end].text.ptr[at] == byte;)
            end++;
        int32_t way =
            list[i].text.len == at + 1 ? list[i].next : go_on(b, list + i, end - i, at + 1, rest);
        if (low < byte) all = mc_build_split(b, all, mc_build_range(b, low, byte - 1, rest));
        all = mc_build_split(b, all, mc_build_range(b, byte, byte, way));
        low = byte + 1;
    }
    return low > 255 ? all : mc_build_split(b, all, mc_build_range(b, low, 255, rest));
}

/* The call of a tool behind its name: both words for its arguments are read. */
static int32_t behind_name(mc_json_rules *rules, const mc_call_format *format, const mc_tool *tool,
                           int32_t next) {
    mc_builder *b = rules->b;
    int32_t rest = arguments(rules, tool, MC_CALLS_JSON, text(b, format->after, next));
    return mc_build_split(b, text(b, ", \"arguments\": ", rest),
                          text(b, ", \"parameters\": ", rest));
}

/* Adds how the format writes calls up to the tools' names, and what comes behind each. `names`
 * holds the texts. */
static bool add_tools(mc_json_rules *rules, const mc_call_format *format, const mc_tools *tools,
                      int32_t next, mc_buffer *names, mc_buffer *list) {
    const mc_tool *tool = MC_BUFFER_AT(&tools->list, mc_tool);
    size_t count = MC_BUFFER_COUNT(&tools->list, mc_tool), bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(format->before) + tool[i].name.len + 2;
    if (!mc_buffer_reserve(names, bytes)) return false; /* then the texts stay where they are */
    for (size_t i = 0; i < count; i++) {
        size_t at = names->len;
        if (!mc_buffer_add_text(names, format->before) || !mc_buffer_add_byte(names, '"') ||
            !mc_buffer_add(names, tool[i].name.ptr, tool[i].name.len) ||
            !mc_buffer_add_byte(names, '"'))
            return false;
        const beginning b = {{names->data + at, names->len - at},
                             behind_name(rules, format, &tool[i], next)};
        if (!mc_buffer_add(list, &b, sizeof b)) return false;
    }
    return true;
}

/* Further calls, each on a line of its own. `next` is where the calls in the list go on. */
static void close_calls(mc_builder *b, const mc_buffer *list, int32_t next) {
    int32_t more = MC_DEAD;
    const beginning *calls = MC_BUFFER_AT(list, beginning);
    for (size_t i = 0; i < MC_BUFFER_COUNT(list, beginning); i++)
        more = mc_build_split(
            b, more, mc_build_text(b, calls[i].text.ptr, calls[i].text.len, calls[i].next));
    mc_build_close(b, next, MC_RETURN, mc_build_range(b, '\n', '\n', more));
}

/* Whether calls in Python may be the whole answer. */
static bool has_python_list(const mc_call_format *format) {
    for (const mc_call_block *block = format->blocks; block->begin; block++)
        if (block->first && block->body == MC_CALLS_PYTHON) return true;
    return false;
}

/* Adds how calls in a list of Python begin, and what comes behind each name. `names` holds the
 * texts. */
static bool add_python(mc_json_rules *rules, const mc_tools *tools, bool parallel, mc_buffer *names,
                       mc_buffer *list) {
    mc_builder *b = rules->b;
    const mc_tool *tool = MC_BUFFER_AT(&tools->list, mc_tool);
    size_t count = MC_BUFFER_COUNT(&tools->list, mc_tool), bytes = 0;
    int32_t next = mc_build_open(b), more = MC_DEAD;
    for (size_t i = 0; i < count; i++)
        bytes += tool[i].name.len + 2;
    if (!mc_buffer_reserve(names, bytes)) return false; /* then the texts stay where they are */
    for (size_t i = 0; i < count; i++) {
        int32_t rest = mc_build_rule(b), behind;
        size_t at = names->len;
        mc_build_define(b, rest, arguments(rules, &tool[i], MC_CALLS_PYTHON, MC_RETURN));
        behind = mc_build_call(b, rest, next);
        if (!mc_buffer_add_byte(names, '[') ||
            !mc_buffer_add(names, tool[i].name.ptr, tool[i].name.len) ||
            !mc_buffer_add_byte(names, '('))
            return false;
        const beginning one = {{names->data + at, names->len - at}, behind};
        if (!mc_buffer_add(list, &one, sizeof one)) return false;
        more =
            mc_build_split(b, more, mc_build_text(b, one.text.ptr + 1, one.text.len - 1, behind));
    }
    int32_t comma = mc_build_range(b, ',', ',', mc_build_space(rules, more));
    mc_build_close(b, next, mc_build_range(b, ']', ']', MC_RETURN), parallel ? comma : MC_DEAD);
    return true;
}

/* Adds white space, and a thought, behind which the answer begins anew. */
static bool add_space(mc_builder *b, const mc_answer_format *format, mc_thinking thinking,
                      int32_t start, mc_buffer *list) {
    static const char space[] = " \n\r\t";
    for (const char *at = space; *at; at++)
        if (!mc_buffer_add(list, &(beginning){{at, 1}, start}, sizeof(beginning))) return false;
    if (thinking != MC_THINKING_MAY || !format->think_end) return true;
    const beginning thought = {mc_str_of(format->think_begin),
                               mc_build_until(b, mc_str_of(format->think_end), start, MC_RETURN)};
    return mc_buffer_add(list, &thought, sizeof thought);
}

/* Any text, or calls, if it begins as the format writes a call of one of the tools. */
static int32_t text_or_calls(mc_json_rules *rules, const mc_answer_format *format,
                             const mc_tools *tools, bool parallel, mc_thinking thinking) {
    mc_builder *b = rules->b;
    mc_buffer names = {0}, python = {0}, list = {0};
    int32_t start = mc_build_open(b), rest = mc_build_open(b);
    int32_t next = parallel ? mc_build_open(b) : MC_RETURN;
    mc_build_close(b, rest, MC_RETURN, mc_build_range(b, 0, 255, rest));
    if (!add_tools(rules, format->calls, tools, next, &names, &list))
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
    if (parallel) close_calls(b, &list, next);
    if (has_python_list(format->calls) && !add_python(rules, tools, parallel, &python, &list))
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
    if (!add_space(b, format, thinking, start, &list))
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
    beginning *all = MC_BUFFER_AT(&list, beginning);
    size_t count = MC_BUFFER_COUNT(&list, beginning);
    if (count > 1) qsort(all, count, sizeof *all, compare_beginnings);
    mc_build_close(b, start, go_on(b, all, count, 0, rest), MC_DEAD);
    mc_buffer_deinit(&names);
    mc_buffer_deinit(&python);
    mc_buffer_deinit(&list);
    if (thinking != MC_THINKING_IS_OPEN || !format->think_end) return start;
    return mc_build_until(b, mc_str_of(format->think_end), start, MC_RETURN);
}

/* ---- calls in a format ---- */

/* A call of a tool. */
static int32_t call(mc_json_rules *rules, const mc_call_format *format, const mc_tool *tool,
                    int32_t next) {
    mc_builder *b = rules->b;
    int32_t rest = arguments(rules, tool, MC_CALLS_JSON, text(b, format->after, next));
    rest = text(b, "\"", text(b, format->middle, rest));
    rest = mc_build_text(b, tool->name.ptr, tool->name.len, rest);
    return text(b, format->before, text(b, "\"", rest));
}

/* One call, of the named tool or of any. */
static int32_t one_call(mc_json_rules *rules, const mc_call_format *format, const mc_tools *tools,
                        const mc_tool *named, int32_t next) {
    int32_t all = MC_DEAD;
    if (named) return call(rules, format, named, next);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&tools->list, mc_tool); i++)
        all = mc_build_split(rules->b, all,
                             call(rules, format, &MC_BUFFER_AT(&tools->list, mc_tool)[i], next));
    return all;
}

static int32_t required(mc_json_rules *rules, const mc_call_format *format, const mc_tools *tools,
                        const mc_tool *named, bool parallel) {
    mc_builder *b = rules->b;
    if (named || !parallel || !format->between)
        return one_call(rules, format, tools, named, MC_RETURN);
    int32_t more = mc_build_open(b);
    int32_t first = one_call(rules, format, tools, NULL, more);
    mc_build_close(b, more, MC_RETURN, text(b, format->between, first));
    return first;
}

/* Text, and calls behind each mark that begins one. */
static int32_t among_text(mc_json_rules *rules, const mc_call_format *format,
                          const mc_tools *tools) {
    mc_builder *b = rules->b;
    const char *mark = format->blocks[0].begin;
    mc_call_format rest = *format;
    rest.before += strlen(mark);
    int32_t loop = mc_build_open(b);
    int32_t after = one_call(rules, &rest, tools, NULL, loop);
    int32_t text_first = mc_build_until(b, mc_str_of(mark), after, MC_RETURN);
    mc_build_close(b, loop, text_first, MC_RETURN);
    return text_first;
}

static bool some_is_strict(const mc_tools *tools) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&tools->list, mc_tool); i++)
        if (MC_BUFFER_AT(&tools->list, mc_tool)[i].strict) return true;
    return false;
}

/* Whether forced calls begin with the mark that the format's blocks begin with. */
static bool is_marked(const mc_call_format *format) {
    return mc_str_starts(mc_str_of(format->before), mc_str_of(format->blocks[0].begin)) &&
           !format->blocks[0].first;
}

mica_status mc_answer_grammar_tools(const mc_tools *tools, mc_tool_choice choice, const char *name,
                                    bool parallel, const mc_answer_format *format,
                                    mc_thinking thinking, mc_grammar **grammar) {
    const mc_tool *named = name ? mc_tools_find(tools, mc_str_of(name)) : NULL;
    mc_builder b;
    mc_json_rules rules;
    *grammar = NULL;
    if (name && !named) return mc_fail(MICA_EINVAL, "tool_choice: there is no tool \"%s\"", name);
    if (!name && choice == MC_TOOLS_NONE) return MICA_OK;
    if (!MC_BUFFER_COUNT(&tools->list, mc_tool)) {
        if (choice == MC_TOOLS_AUTO) return MICA_OK;
        return mc_fail(MICA_EINVAL, "tool_choice: \"required\", but there are no tools");
    }
    bool automatic = !name && choice == MC_TOOLS_AUTO;
    if (automatic && !some_is_strict(tools)) return MICA_OK;
    mc_builder_init(&b);
    mc_json_rules_init(&rules, &b);
    int32_t start;
    if (!automatic)
        start =
            thoughts(&b, format, thinking, required(&rules, format->calls, tools, named, parallel));
    else if (is_marked(format->calls))
        start = among_text(&rules, format->calls, tools); /* thoughts are text */
    else
        start = text_or_calls(&rules, format, tools, parallel, thinking);
    return mc_grammar_finish(&b, start, grammar);
}
