/* Objects of a clause. */
#include "answer/call_python.h"
#include "answer/call_value.h"
#include "base/alloc.h"
#include "base/json_write.h"
#include "grammar/grammar_chars.h"
#include "grammar/grammar_pattern.h"
#include "grammar/schema_parts.h"
#include "grammar/schema_raw.h"

#include <string.h>

enum { MAX_COUNTED = 64, MAX_PATTERNS = 6 };

typedef struct pattern { /* of "patternProperties" */
    mc_str text;
    mc_json schema;
    const mc_group *group;
} pattern;

typedef struct object {
    mc_schema *s;
    const mc_clause *c;
    const mc_group **groups; /* in their order */
    size_t group_count;
    mc_buffer names;            /* mc_str: in the order in which members come */
    mc_map known;               /* a name to its number */
    mc_buffer patterns;         /* pattern */
    int64_t min, max;           /* members; max -1: no limit */
    bool others;                /* there may be members of other names */
    const mc_member_form *form; /* how members are written; NULL: in JSON */
    bool closed;                /* members are only those that some schema is about */
    const mc_group *rest;       /* whose "unevaluatedProperties" hold for the others, or NULL */
    mc_buffer key_rules;        /* mc_literal: what "propertyNames" say */
    int32_t keys[1 << MAX_PATTERNS]; /* the rule of keys of a set of patterns; MC_DEAD: not made */
    mc_distinct distinct;            /* names that count where several others must be there */
} object;

static int32_t byte(const object *o, int c, int32_t next) {
    return mc_build_range(o->s->b, c, c, next);
}

static bool fail(const object *o, const char *keyword, const char *what) {
    mc_schema_fail(o->s, MICA_EUNSUPPORTED, keyword, "%s", what);
    return false;
}

/* ---- names ---- */

static bool add_name(object *o, mc_str name) {
    size_t count = MC_BUFFER_COUNT(&o->names, mc_str);
    uint64_t number;
    if (mc_map_find(&o->known, name, &number)) return true;
    if (count >= MC_SCHEMA_NAMES) {
        mc_schema_fail(o->s, MICA_EUNSUPPORTED, "properties", "more than %d", MC_SCHEMA_NAMES);
        return false;
    }
    return (mc_buffer_add(&o->names, &name, sizeof name) && mc_map_put(&o->known, name, count)) ||
           (mc_schema_nomem(o->s), false);
}

static bool check_type(const object *o, const mc_group *g, mc_keyword key, mc_json_type type,
                       const char *what) {
    o->s->pointer = g->pointer;
    if (!mc_has(&g->k, key) || mc_json_get_type(g->k.at[key]) == type) return true;
    mc_schema_fail(o->s, MICA_EFORMAT, mc_keyword_name(key), "want %s", what);
    return false;
}

static bool take_properties(object *o, const mc_group *g) {
    if (!check_type(o, g, MC_KEY_PROPERTIES, MC_JSON_OBJECT, "an object of schemas")) return false;
    for (mc_json_iter it = mc_json_begin(g->k.at[MC_KEY_PROPERTIES]); mc_json_next(&it);)
        if (!add_name(o, it.key)) return false;
    return true;
}

static bool take_required(object *o, const mc_group *g) {
    mc_str name;
    if (!check_type(o, g, MC_KEY_REQUIRED, MC_JSON_ARRAY, "an array of strings")) return false;
    for (mc_json_iter it = mc_json_begin(g->k.at[MC_KEY_REQUIRED]); mc_json_next(&it);) {
        if (!mc_json_get_str(it.value, &name)) {
            mc_schema_fail(o->s, MICA_EFORMAT, "required", "want an array of strings");
            return false;
        }
        if (!add_name(o, name)) return false;
    }
    return true;
}

static bool take_patterns(object *o, const mc_group *g) {
    if (!check_type(o, g, MC_KEY_PATTERN_PROPERTIES, MC_JSON_OBJECT, "an object of schemas"))
        return false;
    for (mc_json_iter it = mc_json_begin(g->k.at[MC_KEY_PATTERN_PROPERTIES]); mc_json_next(&it);) {
        const pattern new = {it.key, it.value, g};
        if (MC_BUFFER_COUNT(&o->patterns, pattern) >= MAX_PATTERNS)
            return fail(o, "patternProperties", "of so many patterns");
        if (!mc_buffer_add(&o->patterns, &new, sizeof new)) return mc_schema_nomem(o->s), false;
    }
    return true;
}

/* ---- the names that "propertyNames" admit ---- */

static bool take_key_rule(object *o, const mc_group *g) {
    if (!mc_has(&g->k, MC_KEY_PROPERTY_NAMES)) return true;
    return mc_literals_add(o->s, &o->key_rules, g->k.at[MC_KEY_PROPERTY_NAMES], g->pointer,
                           "propertyNames", (mc_str){NULL, 0});
}

static bool key_is_admitted(const object *o, mc_str name, bool *yes) {
    const mc_literal *rules = MC_BUFFER_AT(&o->key_rules, mc_literal);
    *yes = true;
    for (size_t i = 0; *yes && i < MC_BUFFER_COUNT(&o->key_rules, mc_literal); i++)
        if (!mc_key_satisfies(o->s, name, &rules[i], yes)) return false;
    return true;
}

/* The clause of keys. They are strings of one clause. */
static bool key_clause(const object *o, mc_clause *c) {
    mc_buffer made = {0};
    int strings = 0;
    bool done = mc_schema_clauses(o->s, MC_BUFFER_AT(&o->key_rules, mc_literal),
                                  MC_BUFFER_COUNT(&o->key_rules, mc_literal), &made);
    *c = (mc_clause){.all = MC_BUFFER_AT(&o->key_rules, mc_literal),
                     .count = MC_BUFFER_COUNT(&o->key_rules, mc_literal)};
    for (size_t i = 0; done && i < MC_BUFFER_COUNT(&made, mc_clause); i++) {
        const mc_clause *one = &MC_BUFFER_AT(&made, mc_clause)[i];
        if (!(one->types & MC_TYPE_STRING)) continue;
        *c = *one;
        strings++;
    }
    mc_buffer_deinit(&made);
    if (done && strings > 1) return fail(o, "propertyNames", "of more than one alternative");
    return done;
}

/* Where keys are constants these are names as those of "properties". */
static bool take_constant_keys(object *o) {
    mc_clause c;
    mc_buffer values = {0};
    mc_str name;
    if (!o->key_rules.len) return true;
    if (!key_clause(o, &c)) return false;
    if (!(c.types & MC_TYPE_STRING)) return o->others = false, true;
    for (const mc_group *g = c.groups; g; g = g->before) {
        if (!mc_has(&g->k, MC_KEY_ENUM) && !mc_has(&g->k, MC_KEY_CONST)) continue;
        bool done = mc_schema_constants(o->s, &c, g, &values);
        for (size_t i = 0; done && o->others && i < MC_BUFFER_COUNT(&values, mc_json); i++)
            if (mc_json_get_str(MC_BUFFER_AT(&values, mc_json)[i], &name)) done = add_name(o, name);
        mc_buffer_deinit(&values);
        o->others = false;
        return done;
    }
    return true;
}

/* ---- the schemas of members ---- */

/* Adds the schemas that a group has for a member of a name: mc_literal. *about: whether it has
 * one. */
static bool add_named(const object *o, const mc_group *g, mc_str name, mc_buffer *all,
                      bool *about) {
    mc_schema *s = o->s;
    const pattern *patterns = MC_BUFFER_AT(&o->patterns, pattern);
    bool known = false;
    if (!mc_schema_work(s, 1 + mc_json_count(g->k.at[MC_KEY_PROPERTIES]) / 16)) return false;
    for (mc_json_iter it = mc_json_begin(g->k.at[MC_KEY_PROPERTIES]);
         !known && mc_json_next(&it);) {
        if (!mc_str_eq(it.key, name)) continue;
        known = true;
        if (!mc_literals_add(s, all, it.value, g->pointer, "properties", name)) return false;
    }
    for (size_t i = 0; i < MC_BUFFER_COUNT(&o->patterns, pattern); i++) {
        bool yes = false;
        if (patterns[i].group != g) continue;
        s->pointer = g->pointer;
        if (!mc_pattern_matches(s, patterns[i].text, name, &yes)) return false;
        known = known || yes;
        if (yes && !mc_literals_add(s, all, patterns[i].schema, g->pointer, "patternProperties",
                                    patterns[i].text))
            return false;
    }
    *about = *about || (!g->silent && (known || mc_has(&g->k, MC_KEY_ADDITIONAL)));
    if (known || !mc_has(&g->k, MC_KEY_ADDITIONAL)) return true;
    return mc_literals_add(s, all, g->k.at[MC_KEY_ADDITIONAL], g->pointer, "additionalProperties",
                           (mc_str){NULL, 0});
}

/* Adds the schema of members that no other is about. */
static bool add_rest(const object *o, bool about, mc_buffer *all) {
    return about || !o->rest ||
           mc_literals_add(o->s, all, o->rest->k.at[MC_KEY_UNEVALUATED], o->rest->pointer,
                           "unevaluatedProperties", (mc_str){NULL, 0});
}

/* All schemas of a member of a name. *absent: there is no such member. */
static bool named_schemas(const object *o, mc_str name, mc_buffer *all, bool *absent) {
    bool about = false, admitted;
    for (size_t i = 0; i < o->group_count; i++)
        if (!add_named(o, o->groups[i], name, all, &about)) return false;
    *absent = o->closed && !about;
    if (!add_rest(o, about, all)) return false;
    for (const mc_fact *f = o->c->facts; f; f = f->before) {
        const mc_literal denied = {f->value, f->pointer, true};
        if (f->kind == MC_FACT_ABSENT && mc_str_eq(f->name, name)) *absent = true;
        if (f->kind == MC_FACT_MEMBER && mc_str_eq(f->name, name) &&
            !mc_buffer_add(all, &denied, sizeof denied))
            return mc_schema_nomem(o->s), false;
    }
    if (!key_is_admitted(o, name, &admitted)) return false;
    *absent = *absent || !admitted;
    return true;
}

/* The schemas of a member whose name is none of the known ones, and which matches the patterns of
 * a set. */
static bool other_schemas(const object *o, unsigned set, mc_buffer *all) {
    const pattern *patterns = MC_BUFFER_AT(&o->patterns, pattern);
    bool about = false;
    for (size_t g = 0; g < o->group_count; g++) {
        const mc_group *group = o->groups[g];
        bool known = false;
        for (size_t i = 0; i < MC_BUFFER_COUNT(&o->patterns, pattern); i++) {
            if (patterns[i].group != group || !(set >> i & 1)) continue;
            known = true;
            if (!mc_literals_add(o->s, all, patterns[i].schema, group->pointer, "patternProperties",
                                 patterns[i].text))
                return false;
        }
        if (!known && mc_has(&group->k, MC_KEY_ADDITIONAL) &&
            !mc_literals_add(o->s, all, group->k.at[MC_KEY_ADDITIONAL], group->pointer,
                             "additionalProperties", (mc_str){NULL, 0}))
            return false;
        about = about || (!group->silent && (known || mc_has(&group->k, MC_KEY_ADDITIONAL)));
    }
    return add_rest(o, about, all);
}

/* ---- keys ---- */

/* Adds the patterns that keys match, and those that they do not. */
static bool add_set(const object *o, unsigned set, mc_builder *parts, mc_buffer *languages) {
    const pattern *patterns = MC_BUFFER_AT(&o->patterns, pattern);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&o->patterns, pattern); i++) {
        bool out = !(set >> i & 1);
        unsigned how = MC_REGEX_ANYWHERE | (out ? MC_REGEX_WIDE : 0u);
        int32_t start = mc_build_regex(parts, MC_CHARS_JSON, patterns[i].text, how, MC_RETURN);
        const mc_language new = {start, out};
        o->s->pointer = patterns[i].group->pointer;
        if (parts->status != MICA_OK) {
            mc_builder_fail(o->s->b, mc_fail(parts->status, "%s", parts->error));
            mc_schema_fail_at(o->s, "patternProperties");
            return false;
        }
        if (!mc_buffer_add(languages, &new, sizeof new)) return mc_schema_nomem(o->s), false;
    }
    return true;
}

/* Adds that keys are none of the names. */
static bool add_other(const object *o, mc_str *names, size_t count, mc_builder *parts,
                      mc_buffer *languages) {
    mc_buffer bytes = {0};
    bool done = true;
    for (size_t i = 0; done && i < count; i++) { /* lengths first: the bytes move as they grow */
        size_t before = bytes.len;
        done = mc_json_escape(&bytes, names[i]);
        names[i].len = bytes.len - before;
    }
    size_t at = 0;
    for (size_t i = 0; done && i < count; at += names[i++].len)
        names[i].ptr = bytes.data ? bytes.data + at : "";
    const mc_language new = {done ? mc_build_choice(parts, names, count, MC_RETURN) : MC_DEAD,
                             true};
    done = done && mc_buffer_add(languages, &new, sizeof new);
    mc_buffer_deinit(&bytes);
    if (!done) mc_schema_nomem(o->s);
    return done;
}

enum { ANY_GROUP = -1, FIND_GROUPS = -2 };

/* A key that is none of the names, and that matches the patterns of a set and no others. group: of
 * o->distinct, or ANY_GROUP; FIND_GROUPS adds to what that found, and builds nothing. */
static int32_t key_of_set(object *o, unsigned set, mc_str *names, size_t count, int group) {
    mc_schema *s = o->s;
    mc_builder parts;
    mc_buffer languages = {0};
    mc_clause c;
    int32_t all = MC_DEAD, end = byte(o, '"', MC_RETURN);
    if (!o->patterns.len && !o->key_rules.len && group == ANY_GROUP)
        return mc_build_other_key(s, names, count);
    if (!key_clause(o, &c)) return MC_DEAD;
    mc_builder_init(&parts);
    if (mc_string_languages(s, &c, &parts, &languages) && add_set(o, set, &parts, &languages) &&
        add_other(o, names, count, &parts, &languages)) {
        if (group == FIND_GROUPS)
            mc_distinct_find(s, &parts, &languages, o->distinct.levels, &o->distinct);
        else if (group >= 0)
            all = mc_distinct_text(s, &parts, &languages, &o->distinct, group, end);
        else
            all = mc_build_product(s->b, &parts, MC_BUFFER_AT(&languages, mc_language),
                                   MC_BUFFER_COUNT(&languages, mc_language), end);
        if (s->b->status == MICA_EUNSUPPORTED) mc_schema_fail_at(s, "");
    }
    mc_buffer_deinit(&languages);
    mc_builder_deinit(&parts);
    return all;
}

/* ---- members ---- */

/* The rule of keys of a set and a group. */
static int32_t key_rule(object *o, unsigned set, mc_str *names, size_t count, int group) {
    if (group == ANY_GROUP && o->keys[set] != MC_DEAD) return o->keys[set];
    int32_t rule = mc_build_rule(o->s->b);
    mc_build_define(o->s->b, rule, byte(o, '"', key_of_set(o, set, names, count, group)));
    if (group == ANY_GROUP) o->keys[set] = rule;
    return rule;
}

/* A member of a set of patterns, whose key is of a group, and what follows. */
static int32_t member_of_set(object *o, unsigned set, mc_str *names, size_t count, int group,
                             int32_t next) {
    mc_schema *s = o->s;
    mc_buffer all = {0};
    int32_t value = MC_DEAD;
    if (other_schemas(o, set, &all))
        value = mc_build_all(s, MC_BUFFER_AT(&all, mc_literal), MC_BUFFER_COUNT(&all, mc_literal),
                             next);
    bool truth = true;
    for (size_t i = 0; i < MC_BUFFER_COUNT(&all, mc_literal); i++)
        if (mc_json_get_bool(MC_BUFFER_AT(&all, mc_literal)[i].schema, &truth) && !truth)
            value = MC_DEAD; /* no such member, so no key either */
    mc_buffer_deinit(&all);
    if (value == MC_DEAD) return MC_DEAD;
    if (group == FIND_GROUPS) return key_of_set(o, set, names, count, group);
    return mc_build_call(s->b, key_rule(o, set, names, count, group),
                         byte(o, ':', mc_build_space(s->rules, value)));
}

/* A member whose key is none of the names, and of a group, and what follows. */
static int32_t other_member(object *o, int group, int32_t next) {
    mc_schema *s = o->s;
    size_t count = MC_BUFFER_COUNT(&o->names, mc_str);
    unsigned sets = 1u << MC_BUFFER_COUNT(&o->patterns, pattern);
    mc_str *names = mc_array_alloc(count, sizeof *names);
    int32_t all = MC_DEAD;
    /* Keys that match no pattern only where they are asked for. */
    bool open = !o->patterns.len || o->rest;
    for (size_t i = 0; i < o->group_count; i++)
        open = open || mc_has(&o->groups[i]->k, MC_KEY_ADDITIONAL);
    if (!names) return mc_schema_nomem(s);
    for (unsigned set = open ? 0 : 1; set < sets && s->b->status == MICA_OK; set++) {
        if (count) memcpy(names, o->names.data, count * sizeof *names);
        all = mc_build_split(s->b, member_of_set(o, set, names, count, group, next), all);
    }
    mc_free(names);
    return all;
}

static bool is_keyword(mc_str name) {
    bool good = name.len > 0;
    for (size_t i = 0; i < name.len; i++)
        good = good && mc_is_python_name(name.ptr[i]);
    return good;
}

/* The mark behind a member's value that is a string as it is; NULL: it is JSON. */
static const char *mark_of_text(const object *o, mc_str name) {
    const mc_member_form *form = o->form;
    const char *mark = !form ? NULL : form->raw ? form->after : form->quote;
    return mark && mc_tool_takes_text(o->s->root, name) ? mark : NULL;
}

/* A value, and what follows: in a form, a string may be as it is. */
static int32_t member_value(const object *o, mc_str name, const mc_buffer *schemas, int32_t next) {
    mc_schema *s = o->s;
    const mc_member_form *form = o->form;
    const mc_literal *all = MC_BUFFER_AT(schemas, mc_literal);
    size_t count = MC_BUFFER_COUNT(schemas, mc_literal);
    const char *mark = mark_of_text(o, name);
    if (mark) {
        if (form->quote) next = mc_build_text(s->b, mark, strlen(mark), next);
        int32_t text = mc_build_raw_string(s, all, count, mc_str_of(mark), next);
        return form->quote ? mc_build_text(s->b, mark, strlen(mark), text) : text;
    }
    return mc_build_all(s, all, count, next);
}

/* The i-th named member, and what follows. */
static int32_t named_member(const object *o, size_t i, const mc_buffer *schemas, int32_t next) {
    mc_schema *s = o->s;
    const mc_member_form *form = o->form;
    mc_str name = MC_BUFFER_AT(&o->names, mc_str)[i];
    mc_buffer key = {0};
    bool done;
    if (form && !is_keyword(name)) return MC_DEAD;
    if (form && form->after) next = mc_build_text(s->b, form->after, strlen(form->after), next);
    int32_t value = member_value(o, name, schemas, next);
    if (form) {
        bool text = form->assign_text && mark_of_text(o, name);
        const char *assign = text ? form->assign_text : form->assign;
        done = mc_buffer_add_text(&key, form->before ? form->before : "") &&
               mc_buffer_add(&key, name.ptr, name.len) && mc_buffer_add_text(&key, assign);
    } else {
        done = mc_buffer_add_byte(&key, '"') && mc_json_escape(&key, name) &&
               mc_buffer_add_text(&key, "\":");
        value = mc_build_space(s->rules, value);
    }
    if (!done) mc_schema_nomem(s);
    int32_t all = done ? mc_build_text(s->b, key.data, key.len, value) : MC_DEAD;
    mc_buffer_deinit(&key);
    return all;
}

static bool is_required(const object *o, mc_str name) {
    mc_str text;
    for (size_t i = 0; i < o->group_count; i++) {
        if (!mc_schema_work(o->s, mc_json_count(o->groups[i]->k.at[MC_KEY_REQUIRED]) / 8))
            return false;
        for (mc_json_iter it = mc_json_begin(o->groups[i]->k.at[MC_KEY_REQUIRED]);
             mc_json_next(&it);)
            if (mc_json_get_str(it.value, &text) && mc_str_eq(text, name)) return true;
    }
    for (const mc_fact *f = o->c->facts; f; f = f->before)
        if (f->kind == MC_FACT_REQUIRED && mc_str_eq(f->name, name)) return true;
    return false;
}

/* How members are counted: from 0 to `cap`, which also is more where there is no maximum. */
static int64_t after_one(const object *o, int64_t count, int64_t cap) {
    return count < cap ? count + 1 : o->max >= 0 ? -1 : cap;
}

/* White space, where the form has any. */
static int32_t space(const object *o, int32_t next) {
    return o->form && !o->form->spaced ? next : mc_build_space(o->s->rules, next);
}

/* Ends behind `count` members. */
static int32_t end_after(const object *o, int64_t count, int32_t end) {
    if (count < o->min) return MC_DEAD;
    return count ? space(o, end) : end;
}

/* `member`, behind a comma unless it is the first. */
static int32_t joined(const object *o, int64_t count, int32_t member) {
    if (o->form && count)
        return mc_build_text(o->s->b, o->form->separator, strlen(o->form->separator),
                             space(o, member));
    return count ? byte(o, ',', mc_build_space(o->s->rules, member)) : member;
}

/* Makes the rules of members of which up to `levels` are written with names that surely differ:
 * fewer where there are not so many, for members of known names count beside them. */
static void make_distinct(object *o, int levels) {
    int64_t known = (int64_t)MC_BUFFER_COUNT(&o->names, mc_str);
    mc_distinct *d = &o->distinct;
    *d = (mc_distinct){.groups = mc_distinct_groups(levels), .levels = levels};
    other_member(o, FIND_GROUPS, MC_RETURN);
    if (o->s->b->status != MICA_OK) return;
    int64_t found = mc_distinct_choose(d);
    d->levels = found > 1 ? (int)(found < levels ? found : levels) : 1; /* one has no other */
    if (o->min > known + d->levels) {
        mc_distinct_fail(o->s, o->min - known);
        mc_schema_fail_at(o->s, "");
    }
    for (int i = 0; i < d->groups && o->s->b->status == MICA_OK; i++) {
        d->rules[i] = mc_build_rule(o->s->b);
        mc_build_define(o->s->b, d->rules[i], other_member(o, i, MC_RETURN));
    }
}

/* Behind `count` members: as many with names that differ as are needed, then what comes behind the
 * least number of members. */
static int32_t distinct_members(object *o, int64_t count, int32_t behind) {
    int32_t ends[MC_DISTINCT + 1];
    mc_distinct d = o->distinct;
    d.levels = (int)(o->min - count);
    d.behind = count > 0;
    d.ends = ends;
    for (int n = 0; n <= d.levels; n++)
        ends[n] = n < d.levels ? MC_DEAD : behind;
    return mc_build_distinct(o->s, &d);
}

/* Members of other names. Names of those that are not needed may be the same. places: [cap + 1]
 * what comes behind so many members. */
static void add_others(object *o, int32_t *places, int64_t cap, int32_t end) {
    mc_builder *b = o->s->b;
    bool again = o->max < 0;
    int32_t member = MC_DEAD;
    if (o->min > 1) make_distinct(o, (int)(o->min < MC_DISTINCT ? o->min : MC_DISTINCT));
    for (int64_t n = cap, last = -1; n >= 0; n--) { /* places[n + 1] ends, and has others */
        int64_t to = after_one(o, n, cap);
        if (o->min - n > 1) {
            if (o->min - n <= o->distinct.levels)
                places[n] = distinct_members(o, n, places[o->min]);
            continue;
        }
        if (to < 0) continue;
        if (to != last) {
            int32_t loop = again ? mc_build_open(b) : MC_DEAD;
            member = other_member(o, ANY_GROUP, again ? loop : places[to]);
            if (again) mc_build_close(b, loop, joined(o, 1, member), end_after(o, to, end));
        }
        last = to;
        places[n] = mc_build_split(b, joined(o, n, member), places[n]);
    }
}

/* Behind the opening brace: all members, and the closing one. */
static int32_t members(object *o, int32_t *places, int64_t cap, int32_t end) {
    mc_schema *s = o->s;
    mc_builder *b = s->b;
    for (int64_t n = 0; n <= cap; n++)
        places[n] = end_after(o, n, end);
    if (o->others) add_others(o, places, cap, end);
    for (size_t i = MC_BUFFER_COUNT(&o->names, mc_str); i-- > 0 && b->status == MICA_OK;) {
        mc_str name = MC_BUFFER_AT(&o->names, mc_str)[i];
        mc_buffer schemas = {0};
        bool absent = false, required = is_required(o, name);
        if (named_schemas(o, name, &schemas, &absent))
            for (int64_t n = 0; n <= cap; n++) {
                int64_t to = after_one(o, n, cap);
                int32_t without = required ? MC_DEAD : places[n], with = MC_DEAD;
                if (to >= 0 && !absent) with = named_member(o, i, &schemas, places[to]);
                places[n] = mc_build_split(b, joined(o, n, with), without);
            }
        mc_buffer_deinit(&schemas);
    }
    return space(o, places[0]);
}

/* ---- what a clause says ---- */

static bool read_groups(object *o) {
    bool given = false, listed = false, silent = false, truth;
    for (size_t i = 0; i < o->group_count; i++)
        if (!take_properties(o, o->groups[i])) return false;
    for (size_t i = 0; i < o->group_count; i++) {
        const mc_group *g = o->groups[i];
        if (!take_required(o, g) || !take_patterns(o, g) || !take_key_rule(o, g)) return false;
        listed = listed || mc_has(&g->k, MC_KEY_PROPERTIES);
        given = given || mc_has(&g->k, MC_KEY_ADDITIONAL) ||
                mc_has(&g->k, MC_KEY_PATTERN_PROPERTIES) || mc_has(&g->k, MC_KEY_PROPERTY_NAMES);
        if (mc_json_get_bool(g->k.at[MC_KEY_UNEVALUATED], &truth) && !truth) o->closed = true;
        if (mc_json_get_type(g->k.at[MC_KEY_UNEVALUATED]) == MC_JSON_OBJECT) o->rest = g;
        silent = silent || (g->silent && mc_has(&g->k, MC_KEY_PATTERN_PROPERTIES));
    }
    if ((o->closed || o->rest) && silent) return fail(o, "unevaluatedProperties", "beside not");
    o->others = given || !listed || o->rest;
    for (size_t i = 0; i < o->group_count; i++) {
        const mc_group *g = o->groups[i];
        bool none = mc_json_get_bool(g->k.at[MC_KEY_ADDITIONAL], &truth) && !truth;
        if (none && !mc_has(&g->k, MC_KEY_PATTERN_PROPERTIES)) o->others = false;
    }
    if (o->closed && !o->patterns.len) { /* others only where a schema is about them */
        bool about = false;
        for (size_t i = 0; i < o->group_count; i++)
            about = about || (!o->groups[i]->silent && mc_has(&o->groups[i]->k, MC_KEY_ADDITIONAL));
        o->others = o->others && about;
    }
    return true;
}

static bool read_object(object *o) {
    mc_schema *s = o->s;
    o->groups = mc_clause_groups(s, o->c, &o->group_count);
    if (!o->groups || !mc_clause_count(s, o->c, MC_KEY_MIN_PROPERTIES, 0, &o->min) ||
        !mc_clause_count(s, o->c, MC_KEY_MAX_PROPERTIES, -1, &o->max) || !read_groups(o))
        return false;
    for (const mc_fact *f = o->c->facts; f; f = f->before)
        if (f->kind >= MC_FACT_REQUIRED && f->kind <= MC_FACT_MEMBER && !add_name(o, f->name))
            return false;
    if (!take_constant_keys(o)) return false;
    if (o->form) o->others = false;
    int64_t count = (int64_t)MC_BUFFER_COUNT(&o->names, mc_str);
    if (o->max >= count && !o->others) o->max = -1; /* there are no more */
    if (o->min > MAX_COUNTED || o->max > MAX_COUNTED)
        return fail(o, o->min > MAX_COUNTED ? "minProperties" : "maxProperties", "of so many");
    if (o->others && o->min > count + MC_DISTINCT) {
        mc_schema_fail(s, MICA_EUNSUPPORTED, "minProperties",
                       "of more than %d members beside those of known names", MC_DISTINCT);
        return false;
    }
    return true;
}

static int32_t build_object(object *o) {
    int32_t places[MAX_COUNTED + 1];
    int64_t cap = o->max >= 0 ? o->max : o->min > 1 ? o->min : 1;
    if (o->max >= 0 && o->min > o->max) return MC_DEAD;
    if (o->form) {
        const char *end = o->form->end;
        return members(o, places, cap, mc_build_text(o->s->b, end, strlen(end), MC_RETURN));
    }
    return byte(o, '{', members(o, places, cap, byte(o, '}', MC_RETURN)));
}

int32_t mc_build_typed_object(mc_schema *s, const mc_clause *c) {
    object o = {.s = s, .c = c, .form = s->form};
    if (!c->groups && !c->facts)
        return o.form ? mc_build_any_members(s->rules, o.form, MC_RETURN)
                      : mc_build_any_object(s->rules, MC_RETURN);
    for (size_t i = 0; i < sizeof o.keys / sizeof *o.keys; i++)
        o.keys[i] = MC_DEAD;
    int32_t all = read_object(&o) ? build_object(&o) : MC_DEAD;
    mc_buffer_deinit(&o.names);
    mc_buffer_deinit(&o.patterns);
    mc_buffer_deinit(&o.key_rules);
    mc_map_deinit(&o.known);
    return all;
}
