/* Alternatives and constants: enum, const, anyOf, oneOf. */
#include "base/json_write.h"
#include "grammar/schema_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool has(const mc_keywords *k, mc_keyword key) {
    return mc_json_get_type(k->at[key]) != MC_JSON_NONE;
}

/* The type of a value, as a set of one. */
static int type_of(mc_json v) {
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

/* ---- constants ---- */

/* The strings among them share their beginnings; there may be many. */
static int32_t strings(mc_schema *s, mc_json list) {
    mc_buffer texts = {0};
    mc_str text;
    int32_t all = MC_DEAD;
    bool done = true;
    for (mc_json_iter it = mc_json_begin(list); done && mc_json_next(&it);)
        if (mc_json_get_str(it.value, &text)) done = mc_buffer_add(&texts, &text, sizeof text);
    if (done)
        all = mc_build_string_choice(s->rules, MC_BUFFER_AT(&texts, mc_str),
                                     MC_BUFFER_COUNT(&texts, mc_str), MC_RETURN);
    if (!done) mc_builder_fail(s->b, mc_fail_nomem("a schema"));
    mc_buffer_deinit(&texts);
    return all;
}

static int32_t constant(mc_schema *s, const char *keyword, mc_json v) {
    int32_t all = mc_build_constant(s->rules, v, MC_RETURN);
    if (s->b->status != MICA_EUNSUPPORTED) return all;
    return mc_schema_fail_at(s, keyword);
}

int32_t mc_build_constants(mc_schema *s, const mc_keywords *k) {
    mc_json list = k->at[MC_KEY_ENUM];
    int types = mc_schema_types(s, k);
    int32_t all = MC_DEAD;
    if (s->b->status != MICA_OK) return MC_DEAD;
    if (!has(k, MC_KEY_ENUM)) {
        mc_json v = k->at[MC_KEY_CONST];
        return type_of(v) & types ? constant(s, "const", v) : MC_DEAD;
    }
    if (mc_json_get_type(list) != MC_JSON_ARRAY)
        return mc_schema_fail(s, MICA_EFORMAT, "enum", "want an array");
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);)
        if (type_of(it.value) != MC_TYPE_STRING && type_of(it.value) & types)
            all = mc_build_split(s->b, constant(s, "enum", it.value), all);
    return types & MC_TYPE_STRING ? mc_build_split(s->b, strings(s, list), all) : all;
}

/* ---- anyOf ---- */

static bool check_list(mc_schema *s, const mc_keywords *k, mc_keyword key) {
    if (mc_json_get_type(k->at[key]) == MC_JSON_ARRAY && mc_json_count(k->at[key]) > 0) return true;
    mc_schema_fail(s, MICA_EFORMAT, mc_keyword_name(key), "want an array of schemas");
    return false;
}

static int32_t any_of(mc_schema *s, const mc_keywords *k, mc_keyword key) {
    int32_t all = MC_DEAD;
    int i = 0;
    if (!check_list(s, k, key)) return MC_DEAD;
    for (mc_json_iter it = mc_json_begin(k->at[key]); mc_json_next(&it);) {
        char number[16];
        snprintf(number, sizeof number, "%d", i++);
        int32_t way =
            mc_build_subschema(s, it.value, mc_keyword_name(key), mc_str_of(number), MC_RETURN);
        all = mc_build_split(s->b, all, way);
    }
    return all;
}

int32_t mc_build_any_of(mc_schema *s, const mc_keywords *k) {
    return any_of(s, k, MC_KEY_ANY_OF);
}

/* ---- oneOf: whether alternatives exclude each other ---- */

/* Beyond these it counts as unknown: a schema must not take long. */
enum { MAX_COMPARED = 64, MAX_PAIRS = 100000, MAX_ALTERNATIVES = 64 };

/* The keywords of a schema, behind references. false: error of the builder. */
static bool see_through(mc_schema *s, mc_json schema, mc_keywords *k) {
    enum { MAX_HOPS = 32 };
    bool truth;
    memset(k, 0, sizeof *k);
    for (int i = 0; i < MAX_HOPS; i++) {
        if (mc_json_get_bool(schema, &truth)) return true;
        if (!mc_schema_keywords(s, schema, k)) return false;
        if (!has(k, MC_KEY_REF)) return true;
        schema = mc_schema_resolve(s, k->at[MC_KEY_REF]);
        if (s->b->status != MICA_OK) return false;
    }
    memset(k, 0, sizeof *k); /* nothing is known of it */
    return true;
}

/* The types that documents of a schema can have. */
static int possible_types(mc_schema *s, const mc_keywords *k) {
    int types = mc_schema_types(s, k), constants = 0;
    if (has(k, MC_KEY_CONST)) return types & type_of(k->at[MC_KEY_CONST]);
    if (!has(k, MC_KEY_ENUM)) return types;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_ENUM]); mc_json_next(&it);)
        constants |= type_of(it.value);
    return types & constants;
}

/* Whether two values are surely different: strings, or of different types. */
static bool differ(mc_json a, mc_json b) {
    mc_str one, other;
    bool yes = false, no = false;
    if (type_of(a) != type_of(b)) return (type_of(a) | type_of(b)) != MC_TYPE_NUMBER;
    if (mc_json_get_str(a, &one) && mc_json_get_str(b, &other)) return !mc_str_eq(one, other);
    if (mc_json_get_bool(a, &yes) && mc_json_get_bool(b, &no)) return yes != no;
    int64_t i, j;
    if (mc_json_get_type(a) == MC_JSON_INT && mc_json_get_type(b) == MC_JSON_INT)
        return mc_json_get_int(a, &i) && mc_json_get_int(b, &j) && i != j;
    return false;
}

/* Whether all of a's constants differ from all of b's; false if one has none. */
static bool constants_differ(const mc_keywords *a, const mc_keywords *b) {
    const mc_keywords *both[] = {a, b};
    mc_json_iter its[2];
    for (int i = 0; i < 2; i++)
        if (!has(both[i], MC_KEY_CONST) && !has(both[i], MC_KEY_ENUM)) return false;
    if (mc_json_count(a->at[MC_KEY_ENUM]) * mc_json_count(b->at[MC_KEY_ENUM]) > MAX_PAIRS)
        return false;
    if (has(a, MC_KEY_CONST) && has(b, MC_KEY_CONST))
        return differ(a->at[MC_KEY_CONST], b->at[MC_KEY_CONST]);
    const mc_keywords *single = has(a, MC_KEY_CONST) ? a : has(b, MC_KEY_CONST) ? b : NULL;
    its[0] = mc_json_begin((single == a ? b : a)->at[MC_KEY_ENUM]);
    while (mc_json_next(&its[0])) {
        if (single) {
            if (!differ(its[0].value, single->at[MC_KEY_CONST])) return false;
            continue;
        }
        its[1] = mc_json_begin(b->at[MC_KEY_ENUM]);
        while (mc_json_next(&its[1]))
            if (!differ(its[0].value, its[1].value)) return false;
    }
    return true;
}

static bool requires(const mc_keywords *k, mc_str name) {
    mc_str text;
    int n = 0;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_REQUIRED]);
         mc_json_next(&it) && n++ < MAX_COMPARED;)
        if (mc_json_get_str(it.value, &text) && mc_str_eq(text, name)) return true;
    return false;
}

static mc_json find_property(const mc_keywords *k, mc_str name) {
    const mc_json none = {0};
    int n = 0;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_PROPERTIES]);
         mc_json_next(&it) && n++ < MAX_COMPARED;)
        if (mc_str_eq(it.key, name)) return it.value;
    return none;
}

/* Whether objects of two schemas are told apart by a property: one requires it, and its constants
 * differ from the other's. */
static bool property_differs(mc_schema *s, const mc_keywords *a, const mc_keywords *b) {
    int n = 0;
    for (mc_json_iter it = mc_json_begin(a->at[MC_KEY_PROPERTIES]);
         mc_json_next(&it) && n++ < MAX_COMPARED;) {
        mc_keywords one, other;
        mc_json same = find_property(b, it.key);
        if (mc_json_get_type(same) == MC_JSON_NONE) continue;
        if (!requires(a, it.key) && !requires(b, it.key)) continue;
        if (!see_through(s, it.value, &one) || !see_through(s, same, &other)) return false;
        if (constants_differ(&one, &other)) return true;
    }
    return false;
}

static bool exclude_each_other(mc_schema *s, mc_json one, mc_json other) {
    mc_keywords a, b;
    if (!see_through(s, one, &a) || !see_through(s, other, &b)) return false;
    int shared = possible_types(s, &a) & possible_types(s, &b);
    if (!shared || constants_differ(&a, &b)) return true;
    return shared == MC_TYPE_OBJECT && property_differs(s, &a, &b);
}

int32_t mc_build_one_of(mc_schema *s, const mc_keywords *k) {
    mc_json list = k->at[MC_KEY_ONE_OF];
    if (!check_list(s, k, MC_KEY_ONE_OF)) return MC_DEAD;
    if (mc_json_count(list) > MAX_ALTERNATIVES)
        return mc_schema_fail(s, MICA_EUNSUPPORTED, "oneOf", "more than %d alternatives",
                              MAX_ALTERNATIVES);
    for (mc_json_iter i = mc_json_begin(list); mc_json_next(&i);) {
        mc_json_iter j = i;
        while (mc_json_next(&j))
            if (!exclude_each_other(s, i.value, j.value))
                return mc_schema_fail(
                    s, MICA_EUNSUPPORTED, "oneOf",
                    "only of alternatives that exclude each other by their types, or by constants "
                    "of a required property; write anyOf if more than one may hold");
    }
    return any_of(s, k, MC_KEY_ONE_OF);
}
