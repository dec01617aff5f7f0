/* Whether a given value satisfies a schema, as the definition has it: which constants may come, and
 * which names. */
#include "base/utf8.h"
#include "grammar/grammar_number.h"
#include "grammar/matcher.h"
#include "grammar/schema.h"
#include "grammar/schema_parts.h"

#include <string.h>

/* A value of a document, or a key, which is a string. */
typedef struct value {
    mc_json json;
    mc_str key; /* of a key; ptr NULL: of a value */
} value;

static bool fail(mc_schema *s, mc_keyword key, const char *what) {
    mc_schema_fail(s, MICA_EUNSUPPORTED, mc_keyword_name(key), "%s", what);
    return false;
}

/* ---- equality ---- */

/* a - b, as -1, 0 or 1, of numbers. */
static int compare_numbers(mc_json a, mc_json b) {
    mc_decimal x, y;
    (void)mc_decimal_of(a, &x);
    (void)mc_decimal_of(b, &y);
    return mc_decimal_compare(x, y);
}

static mc_json find_member(mc_json object, mc_str key) {
    const mc_json none = {0};
    for (mc_json_iter it = mc_json_begin(object); mc_json_next(&it);)
        if (mc_str_eq(it.key, key)) return it.value;
    return none;
}

bool mc_values_equal(mc_schema *s, mc_json a, mc_json b) {
    mc_str one, other;
    bool yes, no;
    if (mc_json_get_bool(a, &yes)) return mc_json_get_bool(b, &no) && yes == no;
    if (mc_json_get_str(a, &one)) return mc_json_get_str(b, &other) && mc_str_eq(one, other);
    mc_json_type type = mc_json_get_type(a);
    if (type == MC_JSON_INT || type == MC_JSON_FLOAT)
        return (mc_schema_type_of(b) & MC_TYPE_NUMBER) && compare_numbers(a, b) == 0;
    if (type != mc_json_get_type(b) || mc_json_count(a) != mc_json_count(b)) return false;
    mc_json_iter it = mc_json_begin(a), in_order = mc_json_begin(b);
    while (mc_json_next(&it)) {
        mc_json same = it.object ? find_member(b, it.key) : (mc_json){0};
        if (!mc_schema_work(s, 1 + (it.object ? mc_json_count(b) / 8 : 0))) return false;
        if (!it.object && mc_json_next(&in_order)) same = in_order.value;
        if (mc_json_get_type(same) == MC_JSON_NONE || !mc_values_equal(s, it.value, same))
            return false;
    }
    return true;
}

/* ---- numbers ---- */

bool mc_read_multiple(mc_schema *s, mc_json v, uint64_t *modulus, int *places) {
    enum { MAX_DIGITS = 18, MAX_PLACES = 12 };
    uint64_t most = 1;
    mc_decimal d;
    for (int i = 0; i < MAX_DIGITS; i++)
        most *= 10;
    if (!mc_decimal_of(v, &d) || d.negative || !d.digits) {
        mc_schema_fail(s, MICA_EFORMAT, "multipleOf", "want a number above 0");
        return false;
    }
    for (; d.power > 0 && d.digits <= most / 10; d.power--)
        d.digits *= 10;
    if (d.digits > most || d.power > 0 || d.power < -MAX_PLACES)
        return fail(s, MC_KEY_MULTIPLE_OF, "of more than 18 digits, or 12 behind the point");
    *modulus = d.digits;
    *places = -d.power;
    return true;
}

static bool is_multiple(mc_schema *s, mc_json v, mc_json of, bool *yes) {
    uint64_t modulus;
    int places;
    mc_decimal d;
    if (!mc_read_multiple(s, of, &modulus, &places)) return false;
    (void)mc_decimal_of(v, &d);
    if (d.power + places < 0) return *yes = d.digits == 0, true;
    uint64_t rest = d.digits % modulus;
    for (int i = 0; i < d.power + places && i < 400; i++)
        rest = rest * 10 % modulus; /* below 10^19 */
    *yes = rest == 0;
    return true;
}

static bool check_number(mc_schema *s, const mc_keywords *k, mc_json v, bool *yes) {
    if (mc_has(k, MC_KEY_MINIMUM)) *yes = *yes && compare_numbers(v, k->at[MC_KEY_MINIMUM]) >= 0;
    if (mc_has(k, MC_KEY_MAXIMUM)) *yes = *yes && compare_numbers(v, k->at[MC_KEY_MAXIMUM]) <= 0;
    if (mc_has(k, MC_KEY_EXCLUSIVE_MINIMUM))
        *yes = *yes && compare_numbers(v, k->at[MC_KEY_EXCLUSIVE_MINIMUM]) > 0;
    if (mc_has(k, MC_KEY_EXCLUSIVE_MAXIMUM))
        *yes = *yes && compare_numbers(v, k->at[MC_KEY_EXCLUSIVE_MAXIMUM]) < 0;
    if (!*yes || !mc_has(k, MC_KEY_MULTIPLE_OF)) return true;
    return is_multiple(s, v, k->at[MC_KEY_MULTIPLE_OF], yes);
}

/* ---- strings ---- */

/* A pattern, compiled once. NULL: error of the builder. */
static const mc_schema_pattern *need_pattern(mc_schema *s, mc_str pattern) {
    mc_schema_pattern *all = MC_BUFFER_AT(&s->patterns, mc_schema_pattern);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&s->patterns, mc_schema_pattern); i++)
        if (mc_str_eq(all[i].text, pattern)) return &all[i];
    mc_schema_pattern new = {pattern, NULL, NULL};
    if (!mc_schema_work(s, 1000 + 20 * pattern.len)) return NULL;
    mica_status status = mc_grammar_pattern(pattern.ptr, pattern.len, true, &new.wide);
    if (status == MICA_OK)
        status = mc_grammar_pattern(pattern.ptr, pattern.len, false, &new.grammar);
    if (status == MICA_OK && mc_buffer_add(&s->patterns, &new, sizeof new))
        return &MC_BUFFER_AT(
            &s->patterns, mc_schema_pattern)[MC_BUFFER_COUNT(&s->patterns, mc_schema_pattern) - 1];
    if (status == MICA_OK) {
        mc_schema_nomem(s);
    } else {
        mc_builder_fail(s->b, status);
        mc_schema_fail_at(s, "pattern");
    }
    mc_grammar_close(&new.grammar);
    mc_grammar_close(&new.wide);
    return NULL;
}

bool mc_pattern_matches(mc_schema *s, mc_str pattern, mc_str text, bool *yes) {
    const mc_schema_pattern *p = need_pattern(s, pattern);
    bool may = false;
    int64_t work = MC_MATCHER_WORK;
    if (!p || !mc_schema_work(s, 100 + 20 * text.len)) return false;
    mica_status status = mc_matcher_accepts(p->grammar, text.ptr, text.len, &work, yes, NULL);
    if (status == MICA_OK && !*yes)
        status = mc_matcher_accepts(p->wide, text.ptr, text.len, &work, &may, NULL);
    if (!mc_schema_work(s, (size_t)(MC_MATCHER_WORK - work) / 64)) return false;
    if (status != MICA_OK)
        mc_builder_fail(s->b, status);
    else if (may)
        mc_schema_fail(s, MICA_EUNSUPPORTED, "pattern",
                       "whether it matches a constant or a name depends on the engine");
    return s->b->status == MICA_OK;
}

static int64_t count_chars(mc_str text) {
    int64_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((uint8_t)text.ptr[i] & 0xc0) != 0x80;
    return count;
}

static bool check_string(mc_schema *s, const mc_keywords *k, mc_str text, bool *yes) {
    int64_t min, max, count = count_chars(text);
    mc_str pattern;
    if (!mc_schema_count(s, k, MC_KEY_MIN_LENGTH, 0, &min) ||
        !mc_schema_count(s, k, MC_KEY_MAX_LENGTH, INT64_MAX, &max))
        return false;
    *yes = count >= min && count <= max;
    if (!*yes || !mc_json_get_str(k->at[MC_KEY_PATTERN], &pattern)) return true;
    return mc_pattern_matches(s, pattern, text, yes); /* "format" is an annotation of constants */
}

/* ---- all ---- */

static bool check(mc_schema *s, value v, mc_json schema, int depth, bool *yes);

static value of(mc_json json) {
    return (value){json, {NULL, 0}};
}

/* How many of a list of schemas hold. */
static bool count_holding(mc_schema *s, value v, mc_json list, int depth, size_t *count) {
    *count = 0;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        bool yes = false;
        if (!check(s, v, it.value, depth, &yes)) return false;
        *count += yes;
    }
    return true;
}

static bool check_applied(mc_schema *s, const mc_keywords *k, value v, int depth, bool *yes) {
    size_t count;
    bool truth = true;
    if (mc_has(k, MC_KEY_REF)) {
        mc_json target = mc_schema_resolve(s, k->at[MC_KEY_REF], NULL);
        if (s->b->status != MICA_OK || !check(s, v, target, depth, yes)) return false;
    }
    if (*yes && mc_has(k, MC_KEY_ALL_OF)) {
        if (!count_holding(s, v, k->at[MC_KEY_ALL_OF], depth, &count)) return false;
        *yes = count == mc_json_count(k->at[MC_KEY_ALL_OF]);
    }
    if (*yes && mc_has(k, MC_KEY_ANY_OF)) {
        if (!count_holding(s, v, k->at[MC_KEY_ANY_OF], depth, &count)) return false;
        *yes = count > 0;
    }
    if (*yes && mc_has(k, MC_KEY_ONE_OF)) {
        if (!count_holding(s, v, k->at[MC_KEY_ONE_OF], depth, &count)) return false;
        *yes = count == 1;
    }
    if (*yes && mc_has(k, MC_KEY_NOT)) {
        if (!check(s, v, k->at[MC_KEY_NOT], depth, &truth)) return false;
        *yes = !truth;
    }
    if (!*yes || !mc_has(k, MC_KEY_IF)) return true;
    if (!check(s, v, k->at[MC_KEY_IF], depth, &truth)) return false;
    mc_keyword branch = truth ? MC_KEY_THEN : MC_KEY_ELSE;
    return !mc_has(k, branch) || check(s, v, k->at[branch], depth, yes);
}

static bool check_constants(mc_schema *s, const mc_keywords *k, value v, bool *yes) {
    mc_str text;
    mc_json single = k->at[MC_KEY_CONST];
    bool any = !mc_has(k, MC_KEY_ENUM);
    if (mc_has(k, MC_KEY_CONST))
        *yes = v.key.ptr ? mc_json_get_str(single, &text) && mc_str_eq(text, v.key)
                         : mc_values_equal(s, v.json, single);
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_ENUM]); !any && mc_json_next(&it);)
        any = v.key.ptr ? mc_json_get_str(it.value, &text) && mc_str_eq(text, v.key)
                        : it.value.at == v.json.at || mc_values_equal(s, v.json, it.value);
    *yes = *yes && any;
    return s->b->status == MICA_OK;
}

/* ---- arrays ---- */

static bool check_contains(mc_schema *s, const mc_keywords *k, mc_json v, int depth, bool *yes) {
    int64_t min, max, count = 0;
    if (!mc_has(k, MC_KEY_CONTAINS)) return true;
    if (!mc_schema_count(s, k, MC_KEY_MIN_CONTAINS, 1, &min) ||
        !mc_schema_count(s, k, MC_KEY_MAX_CONTAINS, INT64_MAX, &max))
        return false;
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);) {
        bool holds = false;
        if (!check(s, of(it.value), k->at[MC_KEY_CONTAINS], depth, &holds)) return false;
        count += holds;
    }
    *yes = *yes && count >= min && count <= max;
    return true;
}

static bool are_unique(mc_schema *s, mc_json v, bool *yes) {
    for (mc_json_iter a = mc_json_begin(v); *yes && mc_json_next(&a);) {
        mc_json_iter b = a;
        if (!mc_schema_work(s, mc_json_count(v))) return false;
        while (*yes && mc_json_next(&b))
            *yes = !mc_values_equal(s, a.value, b.value);
    }
    return true;
}

static bool check_array(mc_schema *s, const mc_keywords *k, mc_json v, int depth, bool *yes) {
    int64_t min, max, count = (int64_t)mc_json_count(v);
    bool unique = false, list = mc_json_get_type(k->at[MC_KEY_ITEMS]) == MC_JSON_ARRAY;
    mc_json_iter prefix = mc_json_begin(k->at[list ? MC_KEY_ITEMS : MC_KEY_PREFIX_ITEMS]);
    mc_json rest = k->at[list ? MC_KEY_ADDITIONAL_ITEMS : MC_KEY_ITEMS];
    if (!mc_schema_count(s, k, MC_KEY_MIN_ITEMS, 0, &min) ||
        !mc_schema_count(s, k, MC_KEY_MAX_ITEMS, INT64_MAX, &max))
        return false;
    if (mc_has(k, MC_KEY_UNEVALUATED_ITEMS))
        return fail(s, MC_KEY_UNEVALUATED_ITEMS, "not supported for constants");
    *yes = *yes && count >= min && count <= max;
    for (mc_json_iter it = mc_json_begin(v); *yes && mc_json_next(&it);) {
        mc_json schema = mc_json_next(&prefix) ? prefix.value : rest;
        if (mc_json_get_type(schema) == MC_JSON_NONE) continue;
        if (!check(s, of(it.value), schema, depth, yes)) return false;
    }
    if (mc_json_get_bool(k->at[MC_KEY_UNIQUE_ITEMS], &unique) && unique && !are_unique(s, v, yes))
        return false;
    return check_contains(s, k, v, depth, yes);
}

/* ---- objects ---- */

static bool check_member(mc_schema *s, const mc_keywords *k, mc_str key, mc_json v, int depth,
                         bool *yes) {
    mc_json schema = find_member(k->at[MC_KEY_PROPERTIES], key);
    bool known = mc_json_get_type(schema) != MC_JSON_NONE;
    if (!mc_schema_work(s, 1 + mc_json_count(k->at[MC_KEY_PROPERTIES]) / 8)) return false;
    if (known && !check(s, of(v), schema, depth, yes)) return false;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_PATTERN_PROPERTIES]);
         *yes && mc_json_next(&it);) {
        bool matches = false;
        if (!mc_pattern_matches(s, it.key, key, &matches)) return false;
        known = known || matches;
        if (matches && !check(s, of(v), it.value, depth, yes)) return false;
    }
    if (*yes && !known && mc_has(k, MC_KEY_ADDITIONAL))
        return check(s, of(v), k->at[MC_KEY_ADDITIONAL], depth, yes);
    return true;
}

/* What members ask for that are there: others, and schemas of the whole. */
static bool check_dependencies(mc_schema *s, const mc_keywords *k, mc_json v, mc_keyword keyword,
                               int depth, bool *yes) {
    mc_str name;
    for (mc_json_iter it = mc_json_begin(k->at[keyword]); *yes && mc_json_next(&it);) {
        if (mc_json_get_type(find_member(v, it.key)) == MC_JSON_NONE) continue;
        if (mc_json_get_type(it.value) != MC_JSON_ARRAY) {
            if (!check(s, of(v), it.value, depth, yes)) return false;
            continue;
        }
        for (mc_json_iter names = mc_json_begin(it.value); mc_json_next(&names);)
            if (mc_json_get_str(names.value, &name))
                *yes = *yes && mc_json_get_type(find_member(v, name)) != MC_JSON_NONE;
    }
    return true;
}

static bool check_object(mc_schema *s, const mc_keywords *k, mc_json v, int depth, bool *yes) {
    int64_t min, max, count = (int64_t)mc_json_count(v);
    mc_str name;
    if (!mc_schema_count(s, k, MC_KEY_MIN_PROPERTIES, 0, &min) ||
        !mc_schema_count(s, k, MC_KEY_MAX_PROPERTIES, INT64_MAX, &max))
        return false;
    if (mc_has(k, MC_KEY_UNEVALUATED))
        return fail(s, MC_KEY_UNEVALUATED, "not supported for constants");
    *yes = *yes && count >= min && count <= max;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_REQUIRED]); *yes && mc_json_next(&it);)
        if (mc_json_get_str(it.value, &name))
            *yes = mc_json_get_type(find_member(v, name)) != MC_JSON_NONE;
    for (mc_json_iter it = mc_json_begin(v); *yes && mc_json_next(&it);) {
        if (!check_member(s, k, it.key, it.value, depth, yes)) return false;
        if (*yes && mc_has(k, MC_KEY_PROPERTY_NAMES) &&
            !check(s, (value){.key = {it.key.len ? it.key.ptr : "", it.key.len}},
                   k->at[MC_KEY_PROPERTY_NAMES], depth, yes))
            return false;
    }
    return check_dependencies(s, k, v, MC_KEY_DEPENDENT_REQUIRED, depth, yes) &&
           check_dependencies(s, k, v, MC_KEY_DEPENDENT_SCHEMAS, depth, yes) &&
           check_dependencies(s, k, v, MC_KEY_DEPENDENCIES, depth, yes);
}

static bool check_typed(mc_schema *s, const mc_keywords *k, value v, int depth, bool *yes) {
    int type = v.key.ptr ? MC_TYPE_STRING : mc_schema_type_of(v.json);
    mc_str text = v.key;
    if (!(type & mc_schema_types(s, k))) return *yes = false, s->b->status == MICA_OK;
    if (type & MC_TYPE_NUMBER) return check_number(s, k, v.json, yes);
    if (type == MC_TYPE_ARRAY) return check_array(s, k, v.json, depth, yes);
    if (type == MC_TYPE_OBJECT) return check_object(s, k, v.json, depth, yes);
    if (type != MC_TYPE_STRING) return true;
    if (!text.ptr) mc_json_get_str(v.json, &text);
    return check_string(s, k, text, yes);
}

/* *yes: whether a value satisfies a schema. depth: how many schemas there are around it. */
static bool check(mc_schema *s, value v, mc_json schema, int depth, bool *yes) {
    enum { MAX_DEPTH = 64 };
    mc_keywords k;
    if (!mc_schema_work(s, 1)) return false;
    if (mc_json_get_bool(schema, yes)) return true;
    if (depth > MAX_DEPTH) {
        mc_schema_fail(s, MICA_EUNSUPPORTED, "", "constants within more than %d schemas",
                       MAX_DEPTH);
        return false;
    }
    if (mc_json_get_type(schema) != MC_JSON_OBJECT) {
        mc_schema_fail(s, MICA_EFORMAT, "", "want a schema: an object, true or false");
        return false;
    }
    if (!mc_schema_keywords(s, schema, &k) ||
        !mc_schema_work(s, mc_json_count(k.at[MC_KEY_ENUM]) / 64))
        return false;
    *yes = true;
    return check_constants(s, &k, v, yes) && (!*yes || check_typed(s, &k, v, depth + 1, yes)) &&
           (!*yes || check_applied(s, &k, v, depth + 1, yes));
}

bool mc_value_satisfies(mc_schema *s, mc_json json, const mc_literal *literal, bool *yes) {
    bool done = check(s, of(json), literal->schema, 0, yes);
    *yes = *yes != literal->negated;
    return done;
}

bool mc_key_satisfies(mc_schema *s, mc_str key, const mc_literal *literal, bool *yes) {
    const value v = {.key = {key.len ? key.ptr : "", key.len}};
    bool done = check(s, v, literal->schema, 0, yes);
    *yes = *yes != literal->negated;
    return done;
}
