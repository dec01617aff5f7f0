#include "grammar/schema_raw.h"

#include "grammar/grammar_chars.h"
#include "grammar/grammar_product.h"
#include "grammar/grammar_regex.h"
#include "grammar/schema_parts.h"
#include "text/find.h"

#include <string.h>

static bool add(mc_schema *s, mc_buffer *languages, int32_t start, bool negated) {
    const mc_language language = {start, negated};
    return mc_buffer_add(languages, &language, sizeof language) || (mc_schema_nomem(s), false);
}

/* Bytes with a text in them. */
static int32_t containing(mc_builder *parts, mc_str text) {
    int32_t rest = mc_build_open(parts);
    mc_build_close(parts, rest, MC_RETURN, mc_build_range(parts, 0, 255, rest));
    return mc_build_until(parts, text, rest, MC_DEAD);
}

/* What no text has in it: values end there with or without the line break before the mark. */
static mc_str without_break(mc_str mark) {
    bool breaks = mark.len && *mark.ptr == '\n';
    return (mc_str){mark.ptr + breaks, mark.len - breaks};
}

/* Texts of a clause without the mark. Where the schema says more of strings than that they are
 * some, texts have no character that JSON escapes: then they are what is between JSON's quotes. */
static bool text_languages(mc_schema *s, const mc_clause *c, bool limited, mc_str mark,
                           mc_builder *parts, mc_buffer *languages) {
    int32_t any =
        mc_build_regex(parts, MC_CHARS_TEXT, MC_STR("[\\s\\S]*"), MC_REGEX_WHOLE, MC_RETURN);
    return add(s, languages, any, false) && add(s, languages, containing(parts, mark), true) &&
           (!limited || (add(s, languages, containing(parts, MC_STR("\\")), true) &&
                         mc_string_languages(s, c, parts, languages)));
}

static int32_t build_text(mc_schema *s, const mc_clause *c, mc_str mark, int32_t next) {
    static const mc_keyword limits[] = {MC_KEY_PATTERN, MC_KEY_FORMAT, MC_KEY_MIN_LENGTH,
                                        MC_KEY_MAX_LENGTH};
    mc_builder parts;
    mc_buffer languages = {0};
    bool limited = c && c->facts;
    int32_t all = MC_DEAD;
    for (size_t i = 0; c && i < sizeof limits / sizeof *limits; i++)
        limited = limited || mc_clause_has(c, limits[i]);
    mc_builder_init(&parts);
    if (text_languages(s, c, limited, mark, &parts, &languages))
        all = mc_build_product(s->b, &parts, MC_BUFFER_AT(&languages, mc_language),
                               MC_BUFFER_COUNT(&languages, mc_language), next);
    mc_buffer_deinit(&languages);
    mc_builder_deinit(&parts);
    return all;
}

static int32_t build_constants(mc_schema *s, const mc_clause *c, const mc_group *group, mc_str mark,
                               int32_t next) {
    mc_buffer values = {0};
    int32_t all = MC_DEAD;
    mc_str text;
    bool done = mc_schema_constants(s, c, group, &values);
    for (size_t i = 0; done && i < MC_BUFFER_COUNT(&values, mc_json); i++)
        if (mc_json_get_str(MC_BUFFER_AT(&values, mc_json)[i], &text) &&
            mc_find(text, mark, 0) == text.len)
            all = mc_build_split(s->b, mc_build_text(s->b, text.ptr, text.len, next), all);
    mc_buffer_deinit(&values);
    return all;
}

int32_t mc_build_raw_string(mc_schema *s, const mc_literal *all, size_t count, mc_str mark,
                            int32_t next) {
    mc_buffer clauses = {0};
    int32_t start = MC_DEAD;
    mark = without_break(mark);
    bool done = mc_schema_clauses(s, all, count, &clauses);
    for (size_t i = 0; done && i < MC_BUFFER_COUNT(&clauses, mc_clause); i++) {
        const mc_clause *c = &MC_BUFFER_AT(&clauses, mc_clause)[i];
        const mc_group *constants = NULL;
        if (!(c->types & MC_TYPE_STRING)) continue;
        for (const mc_group *g = c->groups; g; g = g->before)
            if (mc_has(&g->k, MC_KEY_ENUM) || mc_has(&g->k, MC_KEY_CONST)) constants = g;
        start = mc_build_split(s->b, start,
                               constants ? build_constants(s, c, constants, mark, next)
                                         : build_text(s, c, mark, next));
    }
    mc_buffer_deinit(&clauses);
    return start;
}

/* Any text up to and without a mark. */
static int32_t raw_text(mc_json_rules *rules, mc_str mark, int32_t next) {
    mc_schema s = {.b = rules->b, .rules = rules, .name = "", .pointer = ""};
    return build_text(&s, NULL, without_break(mark), next);
}

static int32_t literal(mc_builder *b, const char *bytes, int32_t next) {
    return bytes ? mc_build_text(b, bytes, strlen(bytes), next) : next;
}

int32_t mc_build_any_members(mc_json_rules *rules, const mc_member_form *form, int32_t next) {
    mc_builder *b = rules->b;
    int32_t name = mc_build_open(b), more = mc_build_open(b), end = literal(b, form->end, next);
    int32_t behind = literal(b, form->after, more), value = MC_DEAD;
    if (form->raw) {
        value = raw_text(rules, mc_str_of(form->after), behind);
        value = literal(b, form->assign_text ? form->assign_text : form->assign, value);
    }
    if (!form->raw || form->assign_text)
        value =
            mc_build_split(b, value, literal(b, form->assign, mc_build_any_value(rules, behind)));
    int32_t letters = mc_build_split(
        b, mc_build_range(b, 'a', 'z', name),
        mc_build_split(b, mc_build_range(b, 'A', 'Z', name), mc_build_range(b, '_', '_', name)));
    mc_build_close(b, name, mc_build_split(b, letters, mc_build_range(b, '0', '9', name)), value);
    int32_t first = literal(b, form->before, letters);
    mc_build_close(
        b, more, end,
        literal(b, form->separator, form->spaced ? mc_build_space(rules, first) : first));
    return mc_build_split(b, first, end);
}
