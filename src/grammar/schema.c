#include "grammar/schema.h"

#include "base/alloc.h"
#include "grammar/grammar_regex.h"
#include "grammar/schema_parts.h"

#include <stdarg.h>
#include <stdio.h>
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
    "title",         "description",   "default",  "example",         "examples",
    "$comment",      "deprecated",    "readOnly", "writeOnly",       "$schema",
    "$defs",         "definitions",   "$anchor",  "contentEncoding", "contentMediaType",
    "contentSchema", "discriminator",
};

const char *mc_keyword_name(mc_keyword key) {
    return keywords[key].name;
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

static bool is_annotation(mc_str key) {
    for (size_t i = 0; i < sizeof annotations / sizeof *annotations; i++)
        if (mc_str_is(key, annotations[i])) return true;
    return false;
}

/* Whether a keyword that is not supported has a value that constrains nothing. */
static bool says_nothing(const mc_schema *s, mc_str key, mc_json v) {
    bool truth = true;
    int64_t count = 1;
    mc_str text;
    if (mc_str_is(key, "$id") && mc_json_get_str(v, &text))
        return strcmp(s->pointer, s->name) == 0; /* within, it would change what $ref means */
    if (mc_str_is(key, "uniqueItems")) return mc_json_get_bool(v, &truth) && !truth;
    if (mc_str_is(key, "minProperties")) return mc_json_get_int(v, &count) && count == 0;
    return false;
}

bool mc_schema_keywords(mc_schema *s, mc_json schema, mc_keywords *k) {
    memset(k, 0, sizeof *k);
    for (mc_json_iter it = mc_json_begin(schema); mc_json_next(&it);) {
        size_t i = 0;
        while (i < MC_KEY_COUNT && !mc_str_is(it.key, keywords[i].name))
            i++;
        if (i < MC_KEY_COUNT) {
            if (mc_json_get_type(k->at[i]) != MC_JSON_NONE)
                return mc_schema_fail(s, MICA_EFORMAT, keywords[i].name, "is there twice"), false;
            k->at[i] = it.value;
        } else if (!is_annotation(it.key) && !says_nothing(s, it.key, it.value)) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", MC_STR_ARG(it.key));
            mc_schema_fail(s, MICA_EUNSUPPORTED, name, "not supported");
            return false;
        }
    }
    return true;
}

static bool has(const mc_keywords *k, mc_keyword key) {
    return mc_json_get_type(k->at[key]) != MC_JSON_NONE;
}

/* Whether a keyword stands alone, but for `also`. An error of the builder if not. */
static bool stands_alone(mc_schema *s, const mc_keywords *k, mc_keyword key, mc_keyword also) {
    for (int i = 0; i < MC_KEY_COUNT; i++)
        if (i != (int)key && i != (int)also && has(k, (mc_keyword)i)) {
            mc_schema_fail(s, MICA_EUNSUPPORTED, keywords[i].name, "not supported beside %s",
                           keywords[key].name);
            return false;
        }
    return true;
}

bool mc_schema_count(mc_schema *s, const mc_keywords *k, mc_keyword key, int64_t fallback,
                     int64_t *count) {
    *count = fallback;
    if (!has(k, key)) return true;
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
    if (!has(k, MC_KEY_TYPE)) return MC_TYPE_ANY;
    if (mc_json_get_str(v, &name)) all = type_of_name(name);
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);) {
        int type = mc_json_get_str(it.value, &name) ? type_of_name(name) : 0;
        if (!type) {
            all = 0;
            break;
        }
        all |= type;
    }
    if (!all)
        mc_schema_fail(s, MICA_EFORMAT, "type", "want the name of a type, or an array of some");
    return all;
}

/* ---- references ---- */

static mica_status put_segment(mc_buffer *pointer, mc_str segment) {
    bool done = mc_buffer_add_byte(pointer, '/');
    for (size_t i = 0; done && i < segment.len; i++) {
        char c = segment.ptr[i];
        if (c == '~' || c == '/')
            done = mc_buffer_add_text(pointer, c == '~' ? "~0" : "~1");
        else
            done = mc_buffer_add_byte(pointer, c);
    }
    return done ? MICA_OK : mc_fail_nomem("a schema");
}

static int hex(char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
}

/* Takes the next segment of a reference, decoded. false: it is ill-formed, or no memory. */
static bool take_segment(mc_str *rest, mc_buffer *segment) {
    mc_buffer_clear(segment);
    while (rest->len && rest->ptr[0] != '/') {
        char c = rest->ptr[0];
        size_t n = 1;
        if (c == '%' && rest->len > 2 && hex(rest->ptr[1]) >= 0 && hex(rest->ptr[2]) >= 0) {
            c = (char)(hex(rest->ptr[1]) * 16 + hex(rest->ptr[2]));
            n = 3;
        }
        rest->ptr += n;
        rest->len -= n;
        if (c == '~') {
            if (!rest->len || (rest->ptr[0] != '0' && rest->ptr[0] != '1')) return false;
            c = rest->ptr[0] == '0' ? '~' : '/';
            rest->ptr++;
            rest->len--;
        }
        if (!mc_buffer_add_byte(segment, c)) return false;
    }
    return mc_buffer_cstr(segment) != NULL;
}

/* The member or element of a value. */
static mc_json child(mc_json v, mc_str segment) {
    const mc_json none = {0};
    if (mc_json_get_type(v) == MC_JSON_OBJECT) {
        for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);)
            if (mc_str_eq(it.key, segment)) return it.value;
        return none;
    }
    size_t index = 0;
    if (mc_json_get_type(v) != MC_JSON_ARRAY || !segment.len || segment.len > 9) return none;
    for (size_t i = 0; i < segment.len; i++) {
        if (segment.ptr[i] < '0' || segment.ptr[i] > '9') return none;
        index = index * 10 + (size_t)(segment.ptr[i] - '0');
    }
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);)
        if (index-- == 0) return it.value;
    return none;
}

/* Follows a reference. *pointer receives where it leads. */
static mc_json follow(mc_schema *s, mc_json ref, mc_buffer *pointer) {
    const mc_json none = {0};
    mc_buffer segment = {0};
    mc_str text;
    mc_json at = s->root;
    bool good = mc_json_get_str(ref, &text) && text.len && text.ptr[0] == '#' &&
                mc_buffer_add_text(pointer, s->name);
    mc_str rest = good ? (mc_str){text.ptr + 1, text.len - 1} : (mc_str){"", 0};
    while (good && rest.len) {
        good = rest.ptr[0] == '/';
        rest.ptr++;
        rest.len--;
        good = good && take_segment(&rest, &segment) &&
               put_segment(pointer, (mc_str){segment.data, segment.len}) == MICA_OK;
        if (good) at = child(at, (mc_str){segment.data, segment.len});
        good = good && mc_json_get_type(at) != MC_JSON_NONE;
    }
    mc_buffer_deinit(&segment);
    if (good && mc_buffer_cstr(pointer)) return at;
    mc_schema_fail(s, MICA_EUNSUPPORTED, "$ref",
                   "want \"#\" or \"#/...\", a place within the schema");
    return none;
}

mc_json mc_schema_resolve(mc_schema *s, mc_json ref) {
    mc_buffer pointer = {0};
    mc_json at = follow(s, ref, &pointer);
    mc_buffer_deinit(&pointer);
    return at;
}

/* ---- schemas as rules ---- */

enum { MAX_SCHEMAS = 10000 };

/* The rule of a schema, which is compiled later. Takes the pointer over. */
static int32_t need_rule(mc_schema *s, mc_json schema, mc_buffer *pointer) {
    uint64_t number;
    mc_schema_item item = {schema, MC_DEAD, NULL};
    if (!mc_buffer_cstr(pointer)) {
        mc_builder_fail(s->b, mc_fail_nomem("a schema"));
    } else if (mc_map_find(&s->known, (mc_str){pointer->data, pointer->len}, &number)) {
        mc_buffer_deinit(pointer);
        return MC_BUFFER_AT(&s->items, mc_schema_item)[number].rule;
    }
    number = MC_BUFFER_COUNT(&s->items, mc_schema_item);
    if (number >= MAX_SCHEMAS)
        mc_builder_fail(
            s->b, mc_fail(MICA_EUNSUPPORTED, "%s: more than %d schemas", s->name, MAX_SCHEMAS));
    if (s->b->status == MICA_OK) item.rule = mc_build_rule(s->b);
    if (s->b->status != MICA_OK) {
        mc_buffer_deinit(pointer);
        return MC_DEAD;
    }
    size_t len = pointer->len;
    item.pointer = mc_buffer_take(pointer);
    if (!item.pointer || !mc_buffer_add(&s->items, &item, sizeof item)) {
        mc_free(item.pointer);
        mc_builder_fail(s->b, mc_fail_nomem("a schema"));
        return MC_DEAD;
    }
    if (!mc_map_put(&s->known, (mc_str){item.pointer, len}, number))
        mc_builder_fail(s->b, mc_fail_nomem("a schema"));
    return item.rule;
}

int32_t mc_build_subschema(mc_schema *s, mc_json schema, const char *where, mc_str key,
                           int32_t next) {
    mc_buffer pointer = {0};
    if (next == MC_DEAD || s->b->status != MICA_OK) return MC_DEAD;
    bool done = mc_buffer_add_text(&pointer, s->pointer) &&
                put_segment(&pointer, mc_str_of(where)) == MICA_OK &&
                (!key.ptr || put_segment(&pointer, key) == MICA_OK);
    if (done) return mc_build_call(s->b, need_rule(s, schema, &pointer), next);
    mc_buffer_deinit(&pointer);
    mc_builder_fail(s->b, mc_fail_nomem("a schema"));
    return MC_DEAD;
}

static int32_t build_ref(mc_schema *s, const mc_keywords *k) {
    mc_buffer pointer = {0};
    if (!stands_alone(s, k, MC_KEY_REF, MC_KEY_REF)) return MC_DEAD;
    mc_json at = follow(s, k->at[MC_KEY_REF], &pointer);
    if (s->b->status == MICA_OK) return mc_build_call(s->b, need_rule(s, at, &pointer), MC_RETURN);
    mc_buffer_deinit(&pointer);
    return MC_DEAD;
}

static int32_t build_all_of(mc_schema *s, const mc_keywords *k) {
    mc_json_iter it = mc_json_begin(k->at[MC_KEY_ALL_OF]);
    if (!stands_alone(s, k, MC_KEY_ALL_OF, MC_KEY_ALL_OF)) return MC_DEAD;
    if (mc_json_get_type(k->at[MC_KEY_ALL_OF]) != MC_JSON_ARRAY ||
        mc_json_count(k->at[MC_KEY_ALL_OF]) != 1 || !mc_json_next(&it))
        return mc_schema_fail(s, MICA_EUNSUPPORTED, "allOf", "of more than one is not supported");
    return mc_build_subschema(s, it.value, "allOf", MC_STR("0"), MC_RETURN);
}

/* The types of a schema without "type": those that its keywords are about. */
static int implied_types(const mc_keywords *k) {
    int types = 0;
    for (int i = 0; i < MC_KEY_COUNT; i++)
        if (has(k, (mc_keyword)i)) types |= keywords[i].about;
    return types;
}

static int32_t build_types(mc_schema *s, const mc_keywords *k) {
    mc_builder *b = s->b;
    int types = has(k, MC_KEY_TYPE) ? mc_schema_types(s, k) : implied_types(k);
    int32_t all = MC_DEAD;
    if (b->status != MICA_OK) return MC_DEAD;
    if (!types) return mc_build_any_value(s->rules, MC_RETURN);
    if (types & MC_TYPE_NULL) all = mc_build_text(b, "null", 4, MC_RETURN);
    if (types & MC_TYPE_BOOLEAN)
        all = mc_build_split(b,
                             mc_build_split(b, mc_build_text(b, "true", 4, MC_RETURN),
                                            mc_build_text(b, "false", 5, MC_RETURN)),
                             all);
    if (types & MC_TYPE_INTEGER)
        all = mc_build_split(b, mc_build_typed_number(s, k, !(types & MC_TYPE_FRACTION)), all);
    if (types & MC_TYPE_STRING) all = mc_build_split(b, mc_build_typed_string(s, k), all);
    if (types & MC_TYPE_ARRAY) all = mc_build_split(b, mc_build_typed_array(s, k), all);
    if (types & MC_TYPE_OBJECT) all = mc_build_split(b, mc_build_typed_object(s, k), all);
    return all;
}

static int32_t build_schema(mc_schema *s, mc_json schema) {
    mc_keywords k;
    bool truth;
    if (mc_json_get_bool(schema, &truth))
        return truth ? mc_build_any_value(s->rules, MC_RETURN) : MC_DEAD;
    if (mc_json_get_type(schema) != MC_JSON_OBJECT)
        return mc_schema_fail(s, MICA_EFORMAT, "", "want a schema: an object, true or false");
    if (!mc_schema_keywords(s, schema, &k)) return MC_DEAD;
    if (has(&k, MC_KEY_REF)) return build_ref(s, &k);
    if (has(&k, MC_KEY_ALL_OF)) return build_all_of(s, &k);
    if (has(&k, MC_KEY_ANY_OF))
        return stands_alone(s, &k, MC_KEY_ANY_OF, MC_KEY_ANY_OF) ? mc_build_any_of(s, &k) : MC_DEAD;
    if (has(&k, MC_KEY_ONE_OF))
        return stands_alone(s, &k, MC_KEY_ONE_OF, MC_KEY_ONE_OF) ? mc_build_one_of(s, &k) : MC_DEAD;
    mc_keyword constant = has(&k, MC_KEY_ENUM) ? MC_KEY_ENUM : MC_KEY_CONST;
    if (has(&k, constant))
        return stands_alone(s, &k, constant, MC_KEY_TYPE) ? mc_build_constants(s, &k) : MC_DEAD;
    return build_types(s, &k);
}

/* Compiles the schemas that are needed, those needed by them, and so on. */
static void build_items(mc_schema *s) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&s->items, mc_schema_item); i++) {
        mc_schema_item item = MC_BUFFER_AT(&s->items, mc_schema_item)[i];
        if (s->b->status != MICA_OK) return;
        s->pointer = item.pointer;
        mc_build_define(s->b, item.rule, build_schema(s, item.schema));
    }
}

int32_t mc_build_schema(mc_json_rules *rules, mc_json schema, const char *name, int32_t next) {
    mc_schema s = {.b = rules->b,
                   .rules = rules,
                   .root = schema,
                   .name = name,
                   .pointer = name,
                   .other_chars = MC_DEAD};
    mc_buffer pointer = {0};
    if (rules->b->status != MICA_OK) return MC_DEAD;
    if (!mc_buffer_add_text(&pointer, name)) mc_builder_fail(rules->b, mc_fail_nomem("a schema"));
    int32_t rule = need_rule(&s, schema, &pointer);
    build_items(&s);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&s.items, mc_schema_item); i++)
        mc_free(MC_BUFFER_AT(&s.items, mc_schema_item)[i].pointer);
    mc_buffer_deinit(&s.items);
    mc_map_deinit(&s.known);
    return mc_build_call(rules->b, rule, next);
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

mica_status mc_grammar_json_object(mc_grammar **grammar) {
    mc_builder b;
    mc_json_rules rules;
    mc_builder_init(&b);
    mc_json_rules_init(&rules, &b);
    int32_t start = mc_build_any_object(&rules, MC_RETURN);
    return mc_grammar_finish(&b, start, grammar);
}

mica_status mc_grammar_regex(const char *pattern, size_t len, mc_grammar **grammar) {
    mc_builder b;
    mc_builder_init(&b);
    int32_t start = mc_build_regex(&b, MC_CHARS_TEXT, (mc_str){pattern, len}, false, MC_RETURN);
    return mc_grammar_finish(&b, start, grammar);
}
