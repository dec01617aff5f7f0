/* Constants, and whether the alternatives of oneOf exclude each other. */
#include "grammar/grammar_number.h"
#include "grammar/schema_parts.h"

#include <string.h>

/* ---- constants ---- */

/* The strings among values share their beginnings; there may be many. */
static int32_t strings(mc_schema *s, const mc_json *values, size_t count) {
    mc_buffer texts = {0};
    mc_str text;
    int32_t all = MC_DEAD;
    bool done = true;
    for (size_t i = 0; done && i < count; i++)
        if (mc_json_get_str(values[i], &text)) done = mc_buffer_add(&texts, &text, sizeof text);
    if (done)
        all = mc_build_string_choice(s->rules, MC_BUFFER_AT(&texts, mc_str),
                                     MC_BUFFER_COUNT(&texts, mc_str), MC_RETURN);
    if (!done) mc_schema_nomem(s);
    mc_buffer_deinit(&texts);
    return all;
}

/* Adds a value of enum or const if it satisfies all schemas. */
static bool add_value(mc_schema *s, const mc_clause *c, mc_json value, mc_buffer *values) {
    for (size_t i = 0; i < c->count; i++) {
        bool yes = false;
        if (!mc_value_satisfies(s, value, &c->all[i], &yes)) return false;
        if (!yes) return true;
    }
    return mc_buffer_add(values, &value, sizeof value) || (mc_schema_nomem(s), false);
}

bool mc_schema_constants(mc_schema *s, const mc_clause *c, const mc_group *group,
                         mc_buffer *values) {
    mc_json list = group->k.at[MC_KEY_ENUM];
    s->pointer = group->pointer;
    if (!mc_has(&group->k, MC_KEY_ENUM)) return add_value(s, c, group->k.at[MC_KEY_CONST], values);
    if (mc_json_get_type(list) != MC_JSON_ARRAY) {
        mc_schema_fail(s, MICA_EFORMAT, "enum", "want an array");
        return false;
    }
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);)
        if (!add_value(s, c, it.value, values)) return false;
    return true;
}

int32_t mc_build_constants(mc_schema *s, const mc_clause *c, const mc_group *group) {
    mc_buffer values = {0};
    int32_t all = MC_DEAD;
    bool done = mc_schema_constants(s, c, group, &values);
    const mc_json *at = MC_BUFFER_AT(&values, mc_json);
    size_t count = MC_BUFFER_COUNT(&values, mc_json);
    for (size_t i = 0; done && i < count; i++)
        if (mc_json_get_type(at[i]) != MC_JSON_STRING)
            all = mc_build_split(s->b, mc_build_constant(s->rules, at[i], MC_RETURN), all);
    if (done && s->b->status == MICA_EUNSUPPORTED)
        mc_schema_fail_at(s, mc_has(&group->k, MC_KEY_ENUM) ? "enum" : "const");
    if (done) all = mc_build_split(s->b, strings(s, at, count), all);
    mc_buffer_deinit(&values);
    return all;
}

/* ---- whether alternatives exclude each other ---- */

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
        if (!mc_has(k, MC_KEY_REF)) return true;
        schema = mc_schema_resolve(s, k->at[MC_KEY_REF], NULL);
        if (s->b->status != MICA_OK) return false;
    }
    memset(k, 0, sizeof *k); /* nothing is known of it */
    return true;
}

/* The types that documents of a schema can have. */
static int possible_types(mc_schema *s, const mc_keywords *k) {
    int types = mc_schema_types(s, k), constants = 0;
    if (mc_has(k, MC_KEY_CONST)) return types & mc_schema_type_of(k->at[MC_KEY_CONST]);
    if (!mc_has(k, MC_KEY_ENUM)) return types;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_ENUM]); mc_json_next(&it);)
        constants |= mc_schema_type_of(it.value);
    return types & constants;
}

/* Whether two values are surely different: strings, or of different types. */
static bool differ(mc_json a, mc_json b) {
    mc_str one, other;
    bool yes = false, no = false;
    if (mc_schema_type_of(a) != mc_schema_type_of(b))
        return (mc_schema_type_of(a) | mc_schema_type_of(b)) != MC_TYPE_NUMBER;
    if (mc_json_get_str(a, &one) && mc_json_get_str(b, &other)) return !mc_str_eq(one, other);
    if (mc_json_get_bool(a, &yes) && mc_json_get_bool(b, &no)) return yes != no;
    mc_decimal x, y;
    return mc_decimal_of(a, &x) && mc_decimal_of(b, &y) && mc_decimal_compare(x, y) != 0;
}

/* Whether all of a's constants differ from all of b's; false if one has none. */
static bool constants_differ(const mc_keywords *a, const mc_keywords *b) {
    const mc_keywords *both[] = {a, b};
    mc_json_iter its[2];
    for (int i = 0; i < 2; i++)
        if (!mc_has(both[i], MC_KEY_CONST) && !mc_has(both[i], MC_KEY_ENUM)) return false;
    if (mc_json_count(a->at[MC_KEY_ENUM]) * mc_json_count(b->at[MC_KEY_ENUM]) > MAX_PAIRS)
        return false;
    if (mc_has(a, MC_KEY_CONST) && mc_has(b, MC_KEY_CONST))
        return differ(a->at[MC_KEY_CONST], b->at[MC_KEY_CONST]);
    const mc_keywords *single = mc_has(a, MC_KEY_CONST) ? a : mc_has(b, MC_KEY_CONST) ? b : NULL;
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

bool mc_schema_exclusive(mc_schema *s, mc_json list) {
    if (mc_json_count(list) > MAX_ALTERNATIVES) return false;
    for (mc_json_iter i = mc_json_begin(list); mc_json_next(&i);) {
        mc_json_iter j = i;
        while (mc_json_next(&j))
            if (!mc_schema_work(s, 10) || !exclude_each_other(s, i.value, j.value)) return false;
    }
    return true;
}
