#include "grammar/answer_grammar.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "grammar/gbnf.h"
#include "grammar/grammar_regex.h"
#include "grammar/lark.h"
#include "grammar/schema.h"
#include "grammar/schema_raw.h"

#include <stdio.h>
#include <stdlib.h>

static int32_t text(mc_builder *b, const char *bytes, int32_t next) {
    return mc_build_text(b, bytes, strlen(bytes), next);
}

/* Gives a literal of a format to `build`, as answers have it; NULL is none. */
static int32_t with_literal(mc_builder *b, const mc_answer_format *format, const char *literal,
                            int32_t next,
                            int32_t (*build)(mc_builder *b, const char *bytes, size_t len,
                                             int32_t next)) {
    mc_buffer made = {0};
    if (!literal || !*literal) return next;
    if (!mc_format_literal(format, literal, &made)) mc_builder_fail(b, mc_fail_nomem("a grammar"));
    int32_t start = build(b, made.data, made.len, next);
    mc_buffer_deinit(&made);
    return start;
}

static int32_t literal(mc_builder *b, const mc_answer_format *format, const char *bytes,
                       int32_t next) {
    return with_literal(b, format, bytes, next, mc_build_text);
}

static int32_t up_to(mc_builder *b, const char *bytes, size_t len, int32_t next) {
    return mc_build_until(b, (mc_str){bytes, len}, next, MC_DEAD);
}

static int32_t up_to_or_end(mc_builder *b, const char *bytes, size_t len, int32_t next) {
    return mc_build_until(b, (mc_str){bytes, len}, next, MC_RETURN);
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
    int32_t behind =
        format->think_next ? literal(b, format, format->think_next, next) : gap(b, next);
    int32_t rest = with_literal(b, format, format->think_end, behind, up_to);
    if (thinking == MC_THINKING_IS_OPEN) return rest;
    return mc_build_split(b, next, literal(b, format, format->think_begin, rest));
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
    start = literal(&b, format, format->text_begin, start);
    return mc_grammar_finish(&b, thoughts(&b, format, thinking, start), grammar);
}

/* ---- calls ---- */

/* How arguments are written: as JSON, or one by one. */
static int32_t build_arguments(mc_json_rules *rules, const mc_member_form *form, mc_json schema,
                               const char *name, int32_t next) {
    if (form) return mc_build_members(rules, form, schema, name, next);
    return mc_build_schema(rules, schema, name, next);
}

/* The arguments of a tool; any object, where its schema is not supported and need not be. */
static int32_t arguments(mc_json_rules *rules, const mc_tool *tool, const mc_member_form *form,
                         int32_t next) {
    char name[160];
    mc_grammar *alone;
    bool any = mc_json_get_type(tool->parameters) == MC_JSON_NONE;
    snprintf(name, sizeof name, "tools/%.*s", MC_STR_ARG(tool->name));
    if (!any && !tool->strict) { /* tried apart, for an error would stick */
        mc_builder b;
        mc_json_rules own;
        mc_builder_init(&b);
        mc_json_rules_init(&own, &b);
        int32_t start = build_arguments(&own, form, tool->parameters, name, MC_RETURN);
        mica_status status = mc_grammar_finish(&b, start, &alone);
        mc_grammar_close(&alone);
        any = status == MICA_EUNSUPPORTED || status == MICA_EINVAL;
    }
    if (!any) return build_arguments(rules, form, tool->parameters, name, next);
    return form ? mc_build_any_members(rules, form, next) : mc_build_any_object(rules, next);
}

static const mc_member_form python = {.assign = "=", .separator = ",", .end = ")", .spaced = true};

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
    int32_t rest = arguments(rules, tool, NULL, text(b, format->forced.after, next));
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
        bytes += strlen(format->forced.before) + tool[i].name.len + 1;
    if (!mc_buffer_reserve(names, bytes)) return false; /* then the texts stay where they are */
    for (size_t i = 0; i < count; i++) {
        size_t at = names->len;
        if (!mc_buffer_add_text(names, format->forced.before) ||
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
    const mc_call_block *block = format->blocks;
    for (; block < format->blocks + MC_CALL_BLOCKS && block->begin; block++)
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
        mc_build_define(b, rest, arguments(rules, &tool[i], &python, MC_RETURN));
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
                      mc_str mark, int32_t start, mc_buffer *list) {
    static const char space[] = " \n\r\t";
    for (const char *at = space; *at; at++)
        if (!mc_buffer_add(list, &(beginning){{at, 1}, start}, sizeof(beginning))) return false;
    if (thinking != MC_THINKING_MAY || !format->think_end) return true;
    const beginning thought = {mark,
                               with_literal(b, format, format->think_end, start, up_to_or_end)};
    return mc_buffer_add(list, &thought, sizeof thought);
}

/* Any text, or calls, if it begins as the format writes a call of one of the tools. */
static int32_t text_or_calls(mc_json_rules *rules, const mc_answer_format *format,
                             const mc_tools *tools, bool parallel, mc_thinking thinking) {
    mc_builder *b = rules->b;
    mc_buffer names = {0}, lists = {0}, mark = {0}, list = {0};
    int32_t start = mc_build_open(b), rest = mc_build_open(b);
    int32_t next = parallel ? mc_build_open(b) : MC_RETURN;
    mc_build_close(b, rest, MC_RETURN, mc_build_range(b, 0, 255, rest));
    if (!add_tools(rules, format->calls, tools, next, &names, &list))
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
    if (parallel) close_calls(b, &list, next);
    if (has_python_list(format->calls) && !add_python(rules, tools, parallel, &lists, &list))
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
    if (format->think_begin && !mc_format_literal(format, format->think_begin, &mark))
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
    if (!add_space(b, format, thinking, (mc_str){mark.data, mark.len}, start, &list))
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
    beginning *all = MC_BUFFER_AT(&list, beginning);
    size_t count = MC_BUFFER_COUNT(&list, beginning);
    if (count > 1) qsort(all, count, sizeof *all, compare_beginnings);
    mc_build_close(b, start, go_on(b, all, count, 0, rest), MC_DEAD);
    mc_buffer_deinit(&names);
    mc_buffer_deinit(&lists);
    mc_buffer_deinit(&mark);
    mc_buffer_deinit(&list);
    if (thinking != MC_THINKING_IS_OPEN || !format->think_end) return start;
    return with_literal(b, format, format->think_end, start, up_to_or_end);
}

/* ---- calls in a format ---- */

/* How the format writes arguments one by one. false: it has them in JSON. */
static bool find_form(const mc_answer_format *format, mc_member_form *form) {
    const mc_call_syntax *syntax = format->calls->blocks[0].syntax;
    switch (format->calls->forced.body) {
    case MC_CALLS_PYTHON:
        *form = python;
        return true;
    case MC_CALLS_BARE:
        *form =
            (mc_member_form){.assign = ":", .separator = ",", .end = "}", .quote = syntax->quote};
        return true;
    case MC_CALLS_KEYED:
        *form = (mc_member_form){.before = syntax->key,
                                 .assign = syntax->assign,
                                 .assign_text = syntax->assign_text,
                                 .after = syntax->end,
                                 .separator = "\n",
                                 .end = "\n",
                                 .raw = true};
        return true;
    default:
        return false;
    }
}

/* The literals of a form, as answers have them, in the arena. false: no memory. */
static bool make_form(const mc_answer_format *format, mc_arena *arena, mc_member_form *form) {
    const char **const all[] = {&form->before,    &form->assign, &form->assign_text, &form->after,
                                &form->separator, &form->end,    &form->quote};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        mc_buffer made = {0};
        if (!*all[i]) continue;
        bool done = mc_format_literal(format, *all[i], &made);
        *all[i] = done ? mc_arena_strndup(arena, made.data ? made.data : "", made.len) : NULL;
        mc_buffer_deinit(&made);
        if (!*all[i]) return false;
    }
    return true;
}

/* Which calls there are, and how they are written. */
typedef struct caller {
    mc_json_rules *rules;
    const mc_answer_format *format;
    const mc_forced_calls *forced;
    const mc_member_form *form; /* NULL: arguments in JSON */
    const mc_tools *tools;
    const mc_tool *named; /* NULL: any of them */
    bool parallel;
} caller;

/* A number of up to four digits. */
static int32_t number(mc_builder *b, int32_t next) {
    enum { MAX_DIGITS = 4 };
    int32_t all = mc_build_range(b, '0', '9', next);
    for (int i = 1; i < MAX_DIGITS; i++)
        all = mc_build_range(b, '0', '9', mc_build_split(b, next, all));
    return all;
}

/* A call of a tool. */
static int32_t call(const caller *c, const mc_tool *tool, int32_t next) {
    mc_builder *b = c->rules->b;
    const mc_call_syntax *syntax = c->format->calls->blocks[0].syntax;
    int32_t rest = literal(b, c->format, c->forced->after, next);
    if (c->forced->body == MC_CALLS_KEYED) rest = literal(b, c->format, syntax->close, rest);
    rest = arguments(c->rules, tool, c->form, rest);
    rest = literal(b, c->format, c->forced->middle, rest);
    if (c->forced->number) rest = text(b, c->forced->number, number(b, rest));
    rest = mc_build_text(b, tool->name.ptr, tool->name.len, rest);
    return c->forced->counted ? number(b, text(b, c->forced->counted, rest)) : rest;
}

/* What follows a call's beginning: of the named tool, or of any. */
static int32_t one_call(const caller *c, int32_t next) {
    int32_t all = MC_DEAD;
    if (c->named) return call(c, c->named, next);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&c->tools->list, mc_tool); i++)
        all = mc_build_split(c->rules->b, all,
                             call(c, &MC_BUFFER_AT(&c->tools->list, mc_tool)[i], next));
    return all;
}

/* All calls, the first of them behind what it begins with. */
static int32_t all_calls(const caller *c, int32_t next) {
    mc_builder *b = c->rules->b;
    int32_t end = literal(b, c->format, c->forced->tail, next);
    if (c->named || !c->parallel || !c->forced->between) return one_call(c, end);
    int32_t more = mc_build_open(b), first = one_call(c, more);
    int32_t again = literal(b, c->format, c->forced->before, first);
    mc_build_close(b, more, end, literal(b, c->format, c->forced->between, again));
    return first;
}

static int32_t required(const caller *c) {
    int32_t first = literal(c->rules->b, c->format, c->forced->before, all_calls(c, MC_RETURN));
    return literal(c->rules->b, c->format, c->forced->head, first);
}

/* Text, and calls behind each mark that begins one. */
static int32_t among_text(const caller *c) {
    mc_builder *b = c->rules->b;
    const char *mark = c->format->calls->mark, *head = c->forced->head ? c->forced->head : "";
    size_t len = strlen(mark), in_head = strlen(head) < len ? strlen(head) : len;
    int32_t loop = mc_build_open(b);
    int32_t after = literal(b, c->format, c->forced->before + (len - in_head), all_calls(c, loop));
    after = literal(b, c->format, head + in_head, after);
    int32_t text_first = with_literal(b, c->format, mark, after, up_to_or_end);
    mc_build_close(b, loop, text_first, MC_RETURN);
    return text_first;
}

static bool some_is_strict(const mc_tools *tools) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&tools->list, mc_tool); i++)
        if (MC_BUFFER_AT(&tools->list, mc_tool)[i].strict) return true;
    return false;
}

/* What begins answers with calls. */
static int32_t build_calls(caller *c, bool automatic, mc_thinking thinking, mc_arena *arena) {
    mc_member_form form;
    mc_builder *b = c->rules->b;
    if (find_form(c->format, &form)) c->form = &form;
    if (c->form && !make_form(c->format, arena, &form)) {
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
        return MC_DEAD;
    }
    if (!automatic) return thoughts(b, c->format, thinking, required(c));
    if (c->format->calls->mark) return among_text(c); /* thoughts are text */
    return text_or_calls(c->rules, c->format, c->tools, c->parallel, thinking);
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
    mc_arena arena = {0};
    mc_builder_init(&b);
    mc_json_rules_init(&rules, &b);
    caller c = {.rules = &rules,
                .format = format,
                .forced = &format->calls->forced,
                .tools = tools,
                .named = named,
                .parallel = parallel};
    int32_t start = build_calls(&c, automatic, thinking, &arena);
    mc_arena_deinit(&arena);
    return mc_grammar_finish(&b, start, grammar);
}
