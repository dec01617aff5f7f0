#include "grammar/schema.h"

#include "base/alloc.h"
#include "grammar/grammar_pattern.h"
#include "grammar/schema_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keywords ---- */

enum {
    ABOUT_ANY = 0,
    ABOUT_OBJECT = MC_TYPE_OBJECT,
    ABOUT_ARRAY = MC_TYPE_ARRAY,
    ABOUT_STRING = MC_TYPE_STRING,
    ABOUT_NUMBER = MC_TYPE_NUMBER
};

static const struct {
    const char *name;
    int about;
} keywords[] = {
#define MC_KEYWORD(upper, name, type) {name, ABOUT_##type},
    MC_KEYWORDS(MC_KEYWORD)
#undef MC_KEYWORD
};

/* Keywords that constrain no document. */
static const char *const annotations[] = {
    "title",         "description",   "default",     "example",         "examples",
    "$comment",      "deprecated",    "readOnly",    "writeOnly",       "$schema",
    "$defs",         "definitions",   "$anchor",     "contentEncoding", "contentMediaType",
    "contentSchema", "discriminator", "$vocabulary", "$dynamicAnchor",  "$recursiveAnchor",
    "externalDocs",  "xml",
};

const char *mc_keyword_name(mc_keyword key) {
    return keywords[key].name;
}

int mc_keyword_about(mc_keyword key) {
    return keywords[key].about;
}

int32_t mc_schema_fail(mc_schema *s, mica_status status, const char *keyword, const char *fmt,
                       ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mc_builder_fail(s->b,
                    mc_fail(status, "%s%s%s: %s", s->pointer, *keyword ? "/" : "", keyword, text));
    return MC_DEAD;
}

int32_t mc_schema_fail_at(mc_schema *s, const char *keyword) {
    char text[sizeof s->b->error];
    mica_status status = s->b->status;
    memcpy(text, s->b->error, sizeof text);
    s->b->status = MICA_OK;
    return mc_schema_fail(s, status, keyword, "%s", text);
}

int32_t mc_schema_nomem(mc_schema *s) {
    mc_builder_fail(s->b, mc_fail_nomem("a schema"));
    return MC_DEAD;
}

bool mc_schema_work(mc_schema *s, size_t steps) {
    enum { MAX_STEPS = 1 << 22 };
    s->b->steps += steps;
    if (s->b->status != MICA_OK) return false;
    if (s->b->steps <= MAX_STEPS) return true;
    mc_builder_fail(s->b, mc_fail(MICA_EUNSUPPORTED, "%s: it has too many combinations", s->name));
    return false;
}

static bool is_annotation(mc_str key) {
    if (mc_str_starts(key, MC_STR("x-"))) return true; /* OpenAPI: of a vendor */
    for (size_t i = 0; i < sizeof annotations / sizeof *annotations; i++)
        if (mc_str_is(key, annotations[i])) return true;
    return false;
}

/* "$id" names the whole schema; within it would change what "$ref" means. */
static bool names_whole(const mc_schema *s, mc_str key, mc_json v) {
    mc_str text;
    return mc_str_is(key, "$id") && mc_json_get_str(v, &text) && strcmp(s->pointer, s->name) == 0;
}

/* In OpenAPI 3.0 and older drafts an exclusive limit is true or false, of the one beside it. */
static void take_exclusive(mc_keywords *k, mc_keyword limit, mc_keyword exclusive) {
    bool truth;
    if (!mc_json_get_bool(k->at[exclusive], &truth)) return;
    k->at[exclusive] = truth ? k->at[limit] : (mc_json){0};
    if (truth) k->at[limit] = (mc_json){0};
}

bool mc_schema_keywords(mc_schema *s, mc_json schema, mc_keywords *k) {
    memset(k, 0, sizeof *k);
    if (!mc_schema_work(s, mc_json_count(schema) / 2)) return false;
    for (mc_json_iter it = mc_json_begin(schema); mc_json_next(&it);) {
        size_t i = 0;
        while (i < MC_KEY_COUNT && !mc_str_is(it.key, keywords[i].name))
            i++;
        if (i < MC_KEY_COUNT) {
            k->at[i] = it.value;
        } else if (!is_annotation(it.key) && !names_whole(s, it.key, it.value)) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", MC_STR_ARG(it.key));
            mc_schema_fail(s, MICA_EUNSUPPORTED, name, "not supported");
            return false;
        }
    }
    take_exclusive(k, MC_KEY_MINIMUM, MC_KEY_EXCLUSIVE_MINIMUM);
    take_exclusive(k, MC_KEY_MAXIMUM, MC_KEY_EXCLUSIVE_MAXIMUM);
    return true;
}

bool mc_schema_count(mc_schema *s, const mc_keywords *k, mc_keyword key, int64_t fallback,
                     int64_t *count) {
    *count = fallback;
    if (!mc_has(k, key)) return true;
    if (mc_json_get_int(k->at[key], count) && *count >= 0) return true;
    mc_schema_fail(s, MICA_EFORMAT, keywords[key].name, "want a whole number of 0 or more");
    return false;
}

static int type_of_name(mc_str name) {
    static const struct {
        const char *name;
        int type;
    } types[] = {{"null", MC_TYPE_NULL},       {"boolean", MC_TYPE_BOOLEAN},
                 {"integer", MC_TYPE_INTEGER}, {"number", MC_TYPE_NUMBER},
                 {"string", MC_TYPE_STRING},   {"array", MC_TYPE_ARRAY},
                 {"object", MC_TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (mc_str_is(name, types[i].name)) return types[i].type;
    return 0;
}

int mc_schema_types(mc_schema *s, const mc_keywords *k) {
    mc_json v = k->at[MC_KEY_TYPE];
    mc_str name;
    int all = 0;
    if (!mc_has(k, MC_KEY_TYPE)) return MC_TYPE_ANY;
    if (mc_json_get_str(v, &name)) all = type_of_name(name);
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);) {
        int type = mc_json_get_str(it.value, &name) ? type_of_name(name) : 0;
        if (!type) {
            all = 0;
            break;
        }
        all |= type;
    }
    bool nullable = false;
    if (!all)
        mc_schema_fail(s, MICA_EFORMAT, "type", "want the name of a type, or an array of some");
    else if (mc_has(k, MC_KEY_NULLABLE) && !mc_json_get_bool(k->at[MC_KEY_NULLABLE], &nullable))
        return mc_schema_fail(s, MICA_EFORMAT, "nullable", "want true or false"), 0;
    return nullable ? all | MC_TYPE_NULL : all;
}

int mc_schema_type_of(mc_json v) {
    double number = 0;
    switch (mc_json_get_type(v)) {
    case MC_JSON_NULL:
        return MC_TYPE_NULL;
    case MC_JSON_BOOL:
        return MC_TYPE_BOOLEAN;
    case MC_JSON_INT:
        return MC_TYPE_INTEGER;
    case MC_JSON_FLOAT:
        mc_json_get_float(v, &number);
        return floor(number) == number ? MC_TYPE_INTEGER : MC_TYPE_FRACTION;
    case MC_JSON_STRING:
        return MC_TYPE_STRING;
    case MC_JSON_ARRAY:
        return MC_TYPE_ARRAY;
    case MC_JSON_OBJECT:
        return MC_TYPE_OBJECT;
    case MC_JSON_NONE:
        break;
    }
    return 0;
}

/* ---- schemas as rules ---- */

enum { MAX_SCHEMAS = 10000, MAX_LITERALS = 1000 };

bool mc_literals_add(mc_schema *s, mc_buffer *literals, mc_json schema, const char *pointer,
                     const char *where, mc_str key) {
    bool truth = false;
    if (mc_json_get_bool(schema, &truth) && truth) return true;
    const mc_literal new = {schema, mc_schema_place(s, pointer, where, key), false};
    if (!new.pointer) return false;
    return mc_buffer_add(literals, &new, sizeof new) || (mc_schema_nomem(s), false);
}

static int by_place(const void *a, const void *b) {
    const mc_literal *one = a, *other = b;
    int order = strcmp(one->pointer, other->pointer);
    return order ? order : one->negated - other->negated;
}

/* Sorts literals and leaves out those that are there twice. Returns how many there are. */
static size_t sort_literals(mc_literal *all, size_t count) {
    size_t n = 0;
    if (count > 1) qsort(all, count, sizeof *all, by_place);
    for (size_t i = 0; i < count; i++)
        if (!n || by_place(&all[n - 1], &all[i]) != 0) all[n++] = all[i];
    return n;
}

/* Text that tells literals, which are sorted, from others. */
static bool put_places(mc_buffer *text, const mc_literal *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!mc_buffer_add_text(text, all[i].negated ? "\n!" : "\n ") ||
            !mc_buffer_add_text(text, all[i].pointer))
            return false;
    return true;
}

/* Makes the rule of literals, which keep their order: members come in that. */
static int32_t make_rule(mc_schema *s, const mc_literal *all, size_t count, mc_str places) {
    size_t number = MC_BUFFER_COUNT(&s->items, mc_schema_item);
    if (number >= MAX_SCHEMAS || count > MAX_LITERALS) {
        mc_builder_fail(s->b, mc_fail(MICA_EUNSUPPORTED, "%s: more than %d schemas", s->name,
                                      count > MAX_LITERALS ? MAX_LITERALS : MAX_SCHEMAS));
        return MC_DEAD;
    }
    mc_literal *kept = mc_arena_alloc(&s->arena, count * sizeof *kept);
    char *text = mc_arena_strndup(&s->arena, places.ptr, places.len);
    if (!kept || !text) return mc_schema_nomem(s);
    memcpy(kept, all, count * sizeof *kept);
    const mc_schema_item item = {kept, count, mc_build_rule(s->b)};
    if (!mc_buffer_add(&s->items, &item, sizeof item) ||
        !mc_map_put(&s->known, (mc_str){text, places.len}, number))
        return mc_schema_nomem(s);
    return item.rule;
}

/* The rule of literals. */
static int32_t need_rule(mc_schema *s, const mc_literal *all, size_t count) {
    mc_buffer places = {0};
    uint64_t number;
    int32_t rule = MC_DEAD;
    mc_literal *sorted = mc_array_alloc(count, sizeof *sorted);
    if (!sorted) return mc_schema_nomem(s);
    memcpy(sorted, all, count * sizeof *sorted);
    size_t n = sort_literals(sorted, count);
    if (!put_places(&places, sorted, n))
        mc_schema_nomem(s);
    else if (!mc_schema_work(s, places.len / 64 + (count > 1 ? places.len / 8 : 0)))
        rule = MC_DEAD;
    else if (mc_map_find(&s->known, (mc_str){places.data, places.len}, &number))
        rule = MC_BUFFER_AT(&s->items, mc_schema_item)[number].rule;
    else
        rule = make_rule(s, all, count, (mc_str){places.data, places.len});
    mc_buffer_deinit(&places);
    mc_free(sorted);
    return rule;
}

int32_t mc_build_all(mc_schema *s, const mc_literal *all, size_t count, int32_t next) {
    if (next == MC_DEAD || s->b->status != MICA_OK) return MC_DEAD;
    if (!count) return mc_build_any_value(s->rules, next);
    return mc_build_call(s->b, need_rule(s, all, count), next);
}

/* ---- documents ---- */

static int32_t build_booleans(mc_schema *s, const mc_clause *c) {
    int32_t all = MC_DEAD;
    bool out[2] = {false, false}, truth;
    for (const mc_fact *f = c->facts; f; f = f->before)
        if (f->kind == MC_FACT_NOT && mc_json_get_bool(f->value, &truth)) out[truth] = true;
    if (!out[true]) all = mc_build_text(s->b, "true", 4, MC_RETURN);
    if (out[false]) return all;
    return mc_build_split(s->b, all, mc_build_text(s->b, "false", 5, MC_RETURN));
}

/* Whether a clause says that null is out. A list that is out has no place here: it is refused. */
static bool excludes(mc_schema *s, const mc_clause *c, int type) {
    for (const mc_fact *f = c->facts; f; f = f->before) {
        if (f->kind != MC_FACT_NOT || mc_schema_type_of(f->value) != type) continue;
        if (f->key != MC_KEY_CONST) continue;
        if (type == MC_TYPE_NULL) return true;
        s->pointer = f->pointer;
        mc_schema_fail(s, MICA_EUNSUPPORTED, "", "not supported under not: arrays and objects");
    }
    return false;
}

static int32_t build_types(mc_schema *s, const mc_clause *c) {
    mc_builder *b = s->b;
    int32_t all = MC_DEAD;
    int types = s->form ? c->types & MC_TYPE_OBJECT : c->types;
    if (b->status != MICA_OK) return MC_DEAD;
    if (types == MC_TYPE_ANY && !c->groups && !c->facts)
        return mc_build_any_value(s->rules, MC_RETURN);
    if (types & MC_TYPE_NULL && !excludes(s, c, MC_TYPE_NULL))
        all = mc_build_text(b, "null", 4, MC_RETURN);
    if (types & MC_TYPE_BOOLEAN) all = mc_build_split(b, build_booleans(s, c), all);
    if (types & MC_TYPE_NUMBER)
        all = mc_build_split(b, mc_build_typed_number(s, c, types & MC_TYPE_NUMBER), all);
    if (types & MC_TYPE_STRING) all = mc_build_split(b, mc_build_typed_string(s, c), all);
    if (types & MC_TYPE_ARRAY && !excludes(s, c, MC_TYPE_ARRAY))
        all = mc_build_split(b, mc_build_typed_array(s, c), all);
    if (types & MC_TYPE_OBJECT && !excludes(s, c, MC_TYPE_OBJECT))
        all = mc_build_split(b, mc_build_typed_object(s, c), all);
    return all;
}

/* The group of a clause that has constants; NULL: none. */
static const mc_group *constant_group(const mc_clause *c) {
    const mc_group *found = NULL;
    for (const mc_group *g = c->groups; g; g = g->before)
        if (mc_has(&g->k, MC_KEY_ENUM) || mc_has(&g->k, MC_KEY_CONST)) found = g;
    return found;
}

static int32_t build_clauses(mc_schema *s, const mc_schema_item *item) {
    mc_buffer clauses = {0};
    const mc_group *last = NULL;
    int32_t all = MC_DEAD;
    bool done = mc_schema_clauses(s, item->all, item->count, &clauses);
    for (size_t i = 0; done && i < MC_BUFFER_COUNT(&clauses, mc_clause); i++) {
        const mc_clause *c = &MC_BUFFER_AT(&clauses, mc_clause)[i];
        const mc_group *constants = constant_group(c);
        int32_t way = MC_DEAD;
        if (!constants)
            way = build_types(s, c);
        else if (s->form)
            way = mc_schema_fail(s, MICA_EUNSUPPORTED, "", "constants as arguments");
        else if (!last || constants->pointer != last->pointer) /* else they are there already */
            way = mc_build_constants(s, c, constants);
        if (constants) last = constants;
        all = mc_build_split(s->b, all, way);
    }
    mc_buffer_deinit(&clauses);
    return all;
}

/* A schema with one keyword, whose alternatives or whose target are rules of their own: they share
 * them with others. false: it is no such schema, or there is an error of the builder. */
static bool build_single(mc_schema *s, const mc_literal *literal, int32_t *built) {
    mc_keywords k;
    mc_keyword key = MC_KEY_COUNT;
    if (literal->negated || mc_json_get_type(literal->schema) != MC_JSON_OBJECT) return false;
    if (!mc_schema_keywords(s, literal->schema, &k)) return false;
    for (int i = 0; i < MC_KEY_COUNT; i++) {
        if (!mc_has(&k, (mc_keyword)i)) continue;
        if (key != MC_KEY_COUNT) return false;
        key = (mc_keyword)i;
    }
    mc_json list = key == MC_KEY_COUNT ? (mc_json){0} : k.at[key];
    if (key == MC_KEY_REF) {
        const char *pointer = NULL;
        const mc_literal target = {mc_schema_resolve(s, list, &pointer), pointer, false};
        if (s->b->status == MICA_OK) *built = mc_build_all(s, &target, 1, MC_RETURN);
        return s->b->status == MICA_OK;
    }
    bool one = key == MC_KEY_ALL_OF && mc_json_count(list) == 1;
    if (!one && key != MC_KEY_ANY_OF && key != MC_KEY_ONE_OF) return false;
    if (mc_json_get_type(list) != MC_JSON_ARRAY || !mc_json_count(list)) return false;
    if (key == MC_KEY_ONE_OF && !mc_schema_exclusive(s, list)) return false;
    int number = 0;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); number++) {
        char text[16];
        mc_buffer way = {0};
        snprintf(text, sizeof text, "%d", number);
        if (mc_literals_add(s, &way, it.value, literal->pointer, mc_keyword_name(key),
                            mc_str_of(text)))
            *built = mc_build_split(s->b, *built,
                                    mc_build_all(s, MC_BUFFER_AT(&way, mc_literal),
                                                 MC_BUFFER_COUNT(&way, mc_literal), MC_RETURN));
        mc_buffer_deinit(&way);
    }
    return s->b->status == MICA_OK;
}

/* Compiles the rules that are needed, those needed by them, and so on. */
static void build_items(mc_schema *s) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&s->items, mc_schema_item); i++) {
        mc_schema_item item = MC_BUFFER_AT(&s->items, mc_schema_item)[i];
        int32_t start = MC_DEAD;
        if (s->b->status != MICA_OK) return;
        s->pointer = item.all[0].pointer;
        if (item.count > 1 || !build_single(s, &item.all[0], &start))
            start = build_clauses(s, &item);
        mc_build_define(s->b, item.rule, start);
    }
}

/* ---- names that are there twice ---- */

enum { PLACE_BYTES = 256 };

/* Puts a name before a place. */
static void put_before(mc_str name, char *place) {
    char rest[PLACE_BYTES];
    memcpy(rest, place, PLACE_BYTES);
    snprintf(place, PLACE_BYTES, "%.*s%s%.180s", (int)(name.len < 64 ? name.len : 64), name.ptr,
             *rest ? "/" : "", rest);
}

static mica_status check_names(mc_json v, char *place);

static mica_status check_members(mc_json v, mc_map *here, char *place) {
    uint64_t number;
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);) {
        mica_status status =
            mc_map_find(here, it.key, &number) ? MICA_EFORMAT : check_names(it.value, place);
        if (status == MICA_EFORMAT) put_before(it.key, place);
        if (status != MICA_OK) return status;
        if (!mc_map_put(here, it.key, 0)) return mc_fail_nomem("a schema");
    }
    return MICA_OK;
}

/* Looks for an object with a name twice, of which readers take one or the other. *place, empty,
 * receives where it is. errors  MICA_EFORMAT there is one; MICA_ENOMEM */
static mica_status check_names(mc_json v, char *place) {
    mc_map here = {0};
    mica_status status = MICA_OK;
    if (mc_json_get_type(v) == MC_JSON_OBJECT) {
        status = check_members(v, &here, place);
        mc_map_deinit(&here);
        return status;
    }
    size_t i = 0;
    for (mc_json_iter it = mc_json_begin(v); status == MICA_OK && mc_json_next(&it); i++)
        status = check_names(it.value, place);
    if (status == MICA_EFORMAT) {
        char text[24];
        snprintf(text, sizeof text, "%zu", i - 1);
        put_before(mc_str_of(text), place);
    }
    return status;
}

static bool has_names_once(mc_schema *s) {
    char place[PLACE_BYTES] = "";
    mica_status status = check_names(s->root, place);
    if (status == MICA_EFORMAT) mc_schema_fail(s, status, place, "a name is there twice");
    if (status == MICA_ENOMEM) mc_builder_fail(s->b, status);
    return status == MICA_OK;
}

static void deinit(mc_schema *s) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&s->patterns, mc_schema_pattern); i++) {
        mc_grammar_close(&MC_BUFFER_AT(&s->patterns, mc_schema_pattern)[i].grammar);
        mc_grammar_close(&MC_BUFFER_AT(&s->patterns, mc_schema_pattern)[i].wide);
    }
    mc_buffer_deinit(&s->patterns);
    mc_buffer_deinit(&s->items);
    mc_map_deinit(&s->known);
    mc_arena_deinit(&s->arena);
}

static mc_schema schema_of(mc_json_rules *rules, mc_json schema, const char *name) {
    return (mc_schema){.b = rules->b,
                       .rules = rules,
                       .root = schema,
                       .name = name,
                       .pointer = name,
                       .other_chars = MC_DEAD};
}

int32_t mc_build_schema(mc_json_rules *rules, mc_json schema, const char *name, int32_t next) {
    mc_schema s = schema_of(rules, schema, name);
    const mc_literal root = {schema, name, false};
    if (next == MC_DEAD || rules->b->status != MICA_OK) return MC_DEAD;
    int32_t all = has_names_once(&s) ? mc_build_all(&s, &root, 1, next) : MC_DEAD;
    build_items(&s);
    deinit(&s);
    return all;
}

/* The object itself is no rule that others may share: within it, it is one in JSON. */
int32_t mc_build_members(mc_json_rules *rules, const mc_member_form *form, mc_json schema,
                         const char *name, int32_t next) {
    mc_schema s = schema_of(rules, schema, name);
    const mc_literal root = {schema, name, false};
    if (next == MC_DEAD || rules->b->status != MICA_OK) return MC_DEAD;
    const mc_schema_item item = {&root, 1, mc_build_rule(rules->b)};
    s.form = form;
    int32_t start = build_clauses(&s, &item);
    s.form = NULL;
    mc_build_define(rules->b, item.rule, start);
    build_items(&s);
    deinit(&s);
    return mc_build_call(rules->b, item.rule, next);
}

/* ---- whole grammars ---- */

mica_status mc_schema_compile(const char *text, size_t len, mc_grammar **grammar) {
    mc_json_doc *doc = NULL;
    mc_builder b;
    mc_json_rules rules;
    *grammar = NULL;
    MC_TRY(mc_json_parse(text, len, "schema", &doc));
    mc_builder_init(&b);
    mc_json_rules_init(&rules, &b);
    int32_t start = mc_build_schema(&rules, mc_json_root(doc), "schema", MC_RETURN);
    mc_json_close(&doc);
    return mc_grammar_finish(&b, start, grammar);
}

mica_status mc_grammar_regex(const char *pattern, size_t len, mc_grammar **grammar) {
    mc_builder b;
    mc_builder_init(&b);
    int32_t start =
        mc_build_regex(&b, MC_CHARS_TEXT, (mc_str){pattern, len}, MC_REGEX_WHOLE, MC_RETURN);
    return mc_grammar_finish(&b, start, grammar);
}

mica_status mc_grammar_pattern(const char *pattern, size_t len, bool wide, mc_grammar **grammar) {
    mc_builder b;
    mc_builder_init(&b);
    int32_t start = mc_build_pattern(&b, MC_CHARS_TEXT, (mc_str){pattern, len}, wide, MC_RETURN);
    return mc_grammar_finish(&b, start, grammar);
}
