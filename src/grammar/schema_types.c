/* Documents of the types: strings, numbers, arrays, objects. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "grammar/grammar_chars.h"
#include "grammar/grammar_number.h"
#include "grammar/grammar_regex.h"
#include "grammar/schema_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 2000 }; /* of properties, and of prefixItems */

static bool has(const mc_keywords *k, mc_keyword key) {
    return mc_json_get_type(k->at[key]) != MC_JSON_NONE;
}

static int32_t byte(mc_schema *s, int c, int32_t next) {
    return mc_build_range(s->b, c, c, next);
}

/* ---- strings ---- */

#define MONTH_DAY                                                                   \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]" \
    "[0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define DATE "[1-9][0-9]{3}-" MONTH_DAY
#define HOURS "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME HOURS ":[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]" HOURS ")"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define HOST LABEL "(?:\\." LABEL "){0,6}"

/* The usual forms of a format, as patterns of the whole text. */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"ipv4", "(?:" BYTE "\\.){3}" BYTE},
    {"ipv6", "(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"},
    {"hostname", HOST},
    {"email", "[A-Za-z0-9]{1,32}(?:[._+-][A-Za-z0-9]{1,32}){0,4}@" HOST},
    {"uri", "[a-z][a-z0-9+.-]{0,15}://" HOST "(?::[0-9]{1,4})?(?:/[A-Za-z0-9._~-]{0,64}){0,16}"
            "(?:\\?[A-Za-z0-9._~=&-]{0,128})?(?:#[A-Za-z0-9._~-]{0,64})?"},
};

/* A string of a pattern; the builder's error is put at the keyword. */
static int32_t pattern_string(mc_schema *s, const char *keyword, mc_str pattern, bool search) {
    int32_t all =
        byte(s, '"', mc_build_regex(s->b, MC_CHARS_JSON, pattern, search, byte(s, '"', MC_RETURN)));
    if (s->b->status == MICA_OK) return all;
    return mc_schema_fail_at(s, keyword);
}

static int32_t format_string(mc_schema *s, mc_json format) {
    mc_str name;
    if (!mc_json_get_str(format, &name))
        return mc_schema_fail(s, MICA_EFORMAT, "format", "want a string");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (mc_str_is(name, formats[i].name))
            return pattern_string(s, "format", mc_str_of(formats[i].pattern), false);
    return mc_schema_fail(s, MICA_EUNSUPPORTED, "format", "\"%.*s\" is not supported",
                          MC_STR_ARG(name));
}

int32_t mc_build_typed_string(mc_schema *s, const mc_keywords *k) {
    int64_t min, max;
    mc_str pattern;
    if (!mc_schema_count(s, k, MC_KEY_MIN_LENGTH, 0, &min) ||
        !mc_schema_count(s, k, MC_KEY_MAX_LENGTH, -1, &max))
        return MC_DEAD;
    if (max >= 0 && min > max) return MC_DEAD;
    bool lengths = min > 0 || max >= 0;
    if (!has(k, MC_KEY_PATTERN) && !has(k, MC_KEY_FORMAT))
        return mc_build_string(s->rules, min, max, MC_RETURN);
    if (lengths)
        return mc_schema_fail(s, MICA_EUNSUPPORTED, min > 0 ? "minLength" : "maxLength",
                              "not supported beside pattern or format");
    if (!has(k, MC_KEY_PATTERN)) return format_string(s, k->at[MC_KEY_FORMAT]);
    if (has(k, MC_KEY_FORMAT))
        return mc_schema_fail(s, MICA_EUNSUPPORTED, "format", "not supported beside pattern");
    if (!mc_json_get_str(k->at[MC_KEY_PATTERN], &pattern))
        return mc_schema_fail(s, MICA_EFORMAT, "pattern", "want a string");
    return pattern_string(s, "pattern", pattern, true);
}

/* ---- numbers ---- */

static bool read_bound(mc_schema *s, const mc_keywords *k, mc_keyword key, bool exclusive,
                       mc_number_bound *bound) {
    int64_t whole;
    *bound = (mc_number_bound){.exclusive = exclusive};
    if (!has(k, key)) return true;
    if (!mc_json_get_float(k->at[key], &bound->value)) {
        mc_schema_fail(s, MICA_EUNSUPPORTED, mc_keyword_name(key), "want a number");
        return false;
    }
    bound->given = true;
    if (mc_json_get_type(k->at[key]) != MC_JSON_INT || !mc_json_get_int(k->at[key], &whole) ||
        (whole <= INT64_C(1) << 53 && whole >= -(INT64_C(1) << 53)))
        return true;
    mc_schema_fail(s, MICA_EUNSUPPORTED, mc_keyword_name(key), "a number that large");
    return false;
}

/* The tighter of two bounds; sign 1: the greater is. */
static mc_number_bound tighter(mc_number_bound a, mc_number_bound b, double sign) {
    if (!a.given || !b.given) return a.given ? a : b;
    if (a.value == b.value) return a.exclusive ? a : b;
    return sign * a.value > sign * b.value ? a : b;
}

int32_t mc_build_typed_number(mc_schema *s, const mc_keywords *k, bool integer) {
    mc_number_bound low[2], high[2];
    if (!read_bound(s, k, MC_KEY_MINIMUM, false, &low[0]) ||
        !read_bound(s, k, MC_KEY_EXCLUSIVE_MINIMUM, true, &low[1]) ||
        !read_bound(s, k, MC_KEY_MAXIMUM, false, &high[0]) ||
        !read_bound(s, k, MC_KEY_EXCLUSIVE_MAXIMUM, true, &high[1]))
        return MC_DEAD;
    return mc_build_number(s->b, integer, tighter(low[0], low[1], 1), tighter(high[0], high[1], -1),
                           MC_RETURN);
}

/* ---- arrays ---- */

typedef struct array {
    mc_schema *s;
    mc_json items;  /* NONE: any */
    mc_json prefix; /* NONE: none */
    int64_t min, max, prefix_count;
} array;

/* The element at a place, and what follows it. */
static int32_t element(const array *a, int64_t place, int32_t next) {
    char number[24];
    if (place >= a->prefix_count) {
        if (mc_json_get_type(a->items) == MC_JSON_NONE)
            return mc_build_any_value(a->s->rules, next);
        return mc_build_subschema(a->s, a->items, "items", (mc_str){NULL, 0}, next);
    }
    mc_json_iter it = mc_json_begin(a->prefix);
    for (int64_t i = 0; i <= place; i++)
        mc_json_next(&it);
    snprintf(number, sizeof number, "%lld", (long long)place);
    return mc_build_subschema(a->s, it.value, "prefixItems", mc_str_of(number), next);
}

/* Behind the beginning of an array: its elements, then `end`, the bracket. */
static int32_t elements(const array *a, int32_t end) {
    mc_json_rules *rules = a->s->rules;
    mc_builder *b = a->s->b;
    int64_t top = a->max >= 0 ? a->max : a->min > a->prefix_count ? a->min : a->prefix_count;
    int32_t close = mc_build_space(rules, end), later = close, first = MC_DEAD;
    if (a->max < 0) {
        later = mc_build_open(b);
        first = element(a, top, later);
        mc_build_close(b, later, byte(a->s, ',', mc_build_space(rules, first)),
                       top >= a->min ? close : MC_DEAD);
    }
    for (int64_t i = top - 1; i >= 0 && b->status == MICA_OK; i--) { /* i elements are there */
        first = element(a, i, later);
        int32_t more = byte(a->s, ',', mc_build_space(rules, first));
        later = mc_build_split(b, more, i >= a->min ? close : MC_DEAD);
    }
    return mc_build_space(rules, mc_build_split(b, first, a->min > 0 ? MC_DEAD : end));
}

int32_t mc_build_typed_array(mc_schema *s, const mc_keywords *k) {
    array a = {.s = s, .items = k->at[MC_KEY_ITEMS], .prefix = k->at[MC_KEY_PREFIX_ITEMS]};
    bool some = true;
    if (has(k, MC_KEY_PREFIX_ITEMS) && mc_json_get_type(a.prefix) != MC_JSON_ARRAY)
        return mc_schema_fail(s, MICA_EFORMAT, "prefixItems", "want an array of schemas");
    if (mc_json_get_type(a.items) == MC_JSON_ARRAY)
        return mc_schema_fail(s, MICA_EUNSUPPORTED, "items", "an array: write prefixItems");
    if (!mc_schema_count(s, k, MC_KEY_MIN_ITEMS, 0, &a.min) ||
        !mc_schema_count(s, k, MC_KEY_MAX_ITEMS, -1, &a.max))
        return MC_DEAD;
    a.prefix_count = (int64_t)mc_json_count(a.prefix);
    if (a.prefix_count > MAX_NAMES)
        return mc_schema_fail(s, MICA_EUNSUPPORTED, "prefixItems", "more than %d", MAX_NAMES);
    if (mc_json_get_bool(a.items, &some) && !some && (a.max < 0 || a.max > a.prefix_count))
        a.max = a.prefix_count;
    if (a.max >= 0 && a.min > a.max) return MC_DEAD;
    return byte(s, '[', elements(&a, byte(s, ']', MC_RETURN)));
}

/* ---- keys other than some ---- */

static int32_t other_chars(mc_schema *s) {
    static const mc_char_range all = {0, MC_CHAR_MAX};
    if (s->other_chars == MC_DEAD) {
        int32_t loop = mc_build_open(s->b);
        mc_build_plain(s->b, loop);
        mc_build_close(s->b, loop, mc_build_class(s->b, MC_CHARS_JSON, &all, 1, loop),
                       byte(s, '"', MC_RETURN));
        s->other_chars = loop;
    }
    return s->other_chars;
}

static int by_text(const void *a, const void *b) {
    const mc_str *one = a, *other = b;
    size_t n = one->len < other->len ? one->len : other->len;
    int order = n ? memcmp(one->ptr, other->ptr, n) : 0;
    return order ? order : (one->len > other->len) - (one->len < other->len);
}

/* A key of which a beginning was read: characters that lead away from the names, of which the
 * sorted `next` ones do not, or its end. */
static int32_t away(mc_schema *s, mc_char_range *next, size_t count, bool may_end) {
    mc_char_range *others = mc_array_alloc(count + 1, sizeof *others);
    if (!others) {
        mc_builder_fail(s->b, mc_fail_nomem("a schema"));
        return MC_DEAD;
    }
    count = mc_char_ranges_join(next, count);
    count = mc_char_ranges_invert(next, count, MC_CHAR_MAX, others);
    int32_t all = mc_build_class(s->b, MC_CHARS_JSON, others, count, other_chars(s));
    mc_free(others);
    return mc_build_split(s->b, all, may_end ? byte(s, '"', MC_RETURN) : MC_DEAD);
}

static int32_t key_except(mc_schema *s, const mc_str *names, size_t count, size_t at);

/* A key of which the first `at` bytes of all names were read, and the names differ behind them. */
static int32_t key_fork(mc_schema *s, const mc_str *names, size_t count, size_t at) {
    mc_buffer chars = {0};
    int32_t all = MC_DEAD;
    size_t i = 0;
    while (i < count && names[i].len == at) /* the beginning is a name */
        i++;
    bool may_end = i == 0;
    for (size_t end; i < count; i = end) {
        mc_char_range range;
        size_t n = mc_utf8_decode(names[i].ptr + at, names[i].len - at, &range.low);
        range.high = range.low;
        end = i + 1;
        while (end < count && names[end].len >= at + n &&
               memcmp(names[end].ptr + at, names[i].ptr + at, n) == 0)
            end++;
        int32_t on = key_except(s, names + i, end - i, at + n);
        all = mc_build_split(s->b, mc_build_class(s->b, MC_CHARS_JSON, &range, 1, on), all);
        if (!mc_buffer_add(&chars, &range, sizeof range))
            mc_builder_fail(s->b, mc_fail_nomem("a schema"));
    }
    if (s->b->status == MICA_OK)
        all = mc_build_split(s->b,
                             away(s, MC_BUFFER_AT(&chars, mc_char_range),
                                  MC_BUFFER_COUNT(&chars, mc_char_range), may_end),
                             all);
    mc_buffer_deinit(&chars);
    return all;
}

/* A key that is none of the sorted names, of which the first `at` bytes were read, and its quote.
 * Recursion is as deep as names begin with names. */
static int32_t key_except(mc_schema *s, const mc_str *names, size_t count, size_t at) {
    size_t to = at;
    uint32_t c;
    while (to < names[0].len && to < names[count - 1].len) { /* whole characters in common */
        size_t n = mc_utf8_decode(names[0].ptr + to, names[0].len - to, &c);
        if (names[count - 1].len < to + n ||
            memcmp(names[0].ptr + to, names[count - 1].ptr + to, n) != 0)
            break;
        to += n;
    }
    int32_t all = key_fork(s, names, count, to);
    while (to > at && s->b->status == MICA_OK) {
        do
            to--;
        while (((uint8_t)names[0].ptr[to] & 0xc0) == 0x80);
        mc_char_range range;
        mc_utf8_decode(names[0].ptr + to, names[0].len - to, &range.low);
        range.high = range.low;
        all = mc_build_class(s->b, MC_CHARS_JSON, &range, 1, all);
        all = mc_build_split(s->b, away(s, &range, 1, true), all);
    }
    return all;
}

/* ---- objects ---- */

typedef struct object {
    mc_schema *s;
    mc_buffer names;    /* mc_str: in the order in which members come */
    mc_json properties; /* the schemas of the first `listed` of them */
    mc_json required;
    mc_json additional; /* NONE: not given */
    size_t listed;
    bool given; /* there are "properties", though there may be none in it */
} object;

static bool is_in(const mc_json list, mc_str name) {
    mc_str text;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);)
        if (mc_json_get_str(it.value, &text) && mc_str_eq(text, name)) return true;
    return false;
}

static bool has_name(const object *o, mc_str name) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&o->names, mc_str); i++)
        if (mc_str_eq(MC_BUFFER_AT(&o->names, mc_str)[i], name)) return true;
    return false;
}

static bool take_names(object *o) {
    mc_schema *s = o->s;
    if (mc_json_count(o->properties) + mc_json_count(o->required) > MAX_NAMES)
        return mc_schema_fail(s, MICA_EUNSUPPORTED, "properties", "more than %d", MAX_NAMES), false;
    for (mc_json_iter it = mc_json_begin(o->properties); mc_json_next(&it);) {
        if (has_name(o, it.key))
            return mc_schema_fail(s, MICA_EFORMAT, "properties", "a name is there twice"), false;
        if (!mc_buffer_add(&o->names, &it.key, sizeof it.key)) return false;
        o->listed++;
    }
    for (mc_json_iter it = mc_json_begin(o->required); mc_json_next(&it);) {
        mc_str name;
        if (!mc_json_get_str(it.value, &name))
            return mc_schema_fail(s, MICA_EFORMAT, "required", "want an array of strings"), false;
        if (!has_name(o, name) && !mc_buffer_add(&o->names, &name, sizeof name)) return false;
    }
    return true;
}

/* The value of an additional member. */
static int32_t additional_value(const object *o, int32_t next) {
    if (mc_json_get_type(o->additional) == MC_JSON_NONE)
        return mc_build_any_value(o->s->rules, next);
    return mc_build_subschema(o->s, o->additional, "additionalProperties", (mc_str){NULL, 0}, next);
}

/* A member whose key is none of the names, and what follows. */
static int32_t additional_member(const object *o, int32_t next) {
    mc_schema *s = o->s;
    size_t count = MC_BUFFER_COUNT(&o->names, mc_str);
    int32_t chars = MC_DEAD, rule = mc_build_rule(s->b);
    int32_t value = byte(s, ':', mc_build_space(s->rules, additional_value(o, next)));
    if (!count) {
        chars = other_chars(s);
    } else {
        mc_str *names = mc_array_alloc(count, sizeof *names);
        if (!names) {
            mc_builder_fail(s->b, mc_fail_nomem("a schema"));
            return MC_DEAD;
        }
        memcpy(names, o->names.data, count * sizeof *names);
        qsort(names, count, sizeof *names, by_text);
        chars = key_except(s, names, count, 0);
        mc_free(names);
    }
    mc_build_define(s->b, rule, byte(s, '"', chars));
    return mc_build_call(s->b, rule, value);
}

/* The i-th named member, and what follows. */
static int32_t named_member(const object *o, size_t i, mc_json schema, int32_t next) {
    mc_schema *s = o->s;
    mc_str name = MC_BUFFER_AT(&o->names, mc_str)[i];
    mc_buffer key = {0};
    int32_t value = i < o->listed ? mc_build_subschema(s, schema, "properties", name, next)
                                  : additional_value(o, next);
    bool done = mc_buffer_add_byte(&key, '"') && mc_json_escape(&key, name) &&
                mc_buffer_add_text(&key, "\":");
    if (!done) mc_builder_fail(s->b, mc_fail_nomem("a schema"));
    int32_t all =
        done ? mc_build_text(s->b, key.data, key.len, mc_build_space(s->rules, value)) : MC_DEAD;
    mc_buffer_deinit(&key);
    return all;
}

/* Behind the opening brace. `first`: no member is there yet; `later`: some are. */
static int32_t members(const object *o, const mc_json *schemas, bool additional, int32_t end) {
    mc_schema *s = o->s;
    mc_builder *b = s->b;
    int32_t close = mc_build_space(s->rules, end), later = close, first = end;
    if (additional) {
        later = mc_build_open(b);
        int32_t member = additional_member(o, later);
        mc_build_close(b, later, byte(s, ',', mc_build_space(s->rules, member)), close);
        first = mc_build_split(b, member, end);
    }
    for (size_t i = MC_BUFFER_COUNT(&o->names, mc_str); i-- > 0 && b->status == MICA_OK;) {
        bool optional = !is_in(o->required, MC_BUFFER_AT(&o->names, mc_str)[i]);
        int32_t member = named_member(o, i, i < o->listed ? schemas[i] : o->additional, later);
        int32_t more = byte(s, ',', mc_build_space(s->rules, member));
        first = optional ? mc_build_split(b, member, first) : member;
        later = optional ? mc_build_split(b, more, later) : more;
    }
    return mc_build_space(s->rules, first);
}

static int32_t build_object(object *o) {
    mc_schema *s = o->s;
    bool truth = true, given = mc_json_get_type(o->additional) != MC_JSON_NONE;
    if (!take_names(o)) {
        mc_builder_fail(s->b, mc_fail_nomem("a schema")); /* unless there is another error */
        return MC_DEAD;
    }
    mc_json *schemas = mc_array_alloc(o->listed, sizeof *schemas);
    if (!schemas) {
        mc_builder_fail(s->b, mc_fail_nomem("a schema"));
        return MC_DEAD;
    }
    size_t n = 0;
    for (mc_json_iter it = mc_json_begin(o->properties); mc_json_next(&it);)
        schemas[n++] = it.value;
    bool additional = given ? !mc_json_get_bool(o->additional, &truth) || truth : !o->given;
    int32_t all = members(o, schemas, additional, byte(s, '}', MC_RETURN));
    mc_free(schemas);
    return byte(s, '{', all);
}

int32_t mc_build_typed_object(mc_schema *s, const mc_keywords *k) {
    object o = {.s = s,
                .properties = k->at[MC_KEY_PROPERTIES],
                .given = has(k, MC_KEY_PROPERTIES),
                .required = k->at[MC_KEY_REQUIRED],
                .additional = k->at[MC_KEY_ADDITIONAL]};
    if (has(k, MC_KEY_PROPERTIES) && mc_json_get_type(o.properties) != MC_JSON_OBJECT)
        return mc_schema_fail(s, MICA_EFORMAT, "properties", "want an object of schemas");
    if (has(k, MC_KEY_REQUIRED) && mc_json_get_type(o.required) != MC_JSON_ARRAY)
        return mc_schema_fail(s, MICA_EFORMAT, "required", "want an array of strings");
    int32_t all = build_object(&o);
    mc_buffer_deinit(&o.names);
    return all;
}
