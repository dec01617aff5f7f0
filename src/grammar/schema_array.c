/* Arrays of a clause. */
#include "base/alloc.h"
#include "grammar/grammar_pattern.h"
#include "grammar/grammar_product.h"
#include "grammar/schema_parts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FOUND = 64 }; /* elements that are counted for "contains" */

typedef struct array {
    mc_schema *s;
    const mc_clause *c;
    const mc_group **groups; /* in their order */
    size_t group_count;
    int64_t min, max;             /* elements; max -1: no limit */
    int64_t prefix_count;         /* places that have schemas of their own */
    const mc_group *rest;         /* whose "unevaluatedItems" hold for the others; NULL: none */
    const mc_literal *contains;   /* NULL: none */
    int64_t found_min, found_max; /* elements that it holds for; max -1: no limit */
} array;

static int32_t byte(const array *a, int c, int32_t next) {
    return mc_build_range(a->s->b, c, c, next);
}

/* Older drafts write "items" for "prefixItems", and "additionalItems" for "items". */
static bool is_older(const mc_group *g) {
    return mc_json_get_type(g->k.at[MC_KEY_ITEMS]) == MC_JSON_ARRAY;
}

static mc_keyword prefix_key(const mc_group *g) {
    return is_older(g) ? MC_KEY_ITEMS : MC_KEY_PREFIX_ITEMS;
}

static mc_keyword rest_key(const mc_group *g) {
    return is_older(g) ? MC_KEY_ADDITIONAL_ITEMS : MC_KEY_ITEMS;
}

/* ---- elements ---- */

/* Adds the schemas of the element at a place: mc_literal. */
static bool add_schemas(const array *a, int64_t place, mc_buffer *all) {
    char number[24];
    bool about = false;
    snprintf(number, sizeof number, "%lld", (long long)place);
    for (size_t i = 0; i < a->group_count; i++) {
        const mc_group *g = a->groups[i];
        mc_json list = g->k.at[prefix_key(g)], rest = g->k.at[rest_key(g)];
        mc_keyword key = rest_key(g);
        mc_str segment = {NULL, 0};
        if (place < (int64_t)mc_json_count(list)) {
            mc_json_iter it = mc_json_begin(list);
            for (int64_t n = 0; n <= place; n++)
                mc_json_next(&it);
            rest = it.value;
            key = prefix_key(g);
            segment = mc_str_of(number);
        }
        if (mc_json_get_type(rest) == MC_JSON_NONE) continue;
        if (!mc_literals_add(a->s, all, rest, g->pointer, mc_keyword_name(key), segment))
            return false;
        about = about || !g->silent;
    }
    if (a->rest && !about &&
        !mc_literals_add(a->s, all, a->rest->k.at[MC_KEY_UNEVALUATED_ITEMS], a->rest->pointer,
                         "unevaluatedItems", (mc_str){NULL, 0}))
        return false;
    for (const mc_fact *f = a->c->facts; f; f = f->before) {
        const mc_literal denied = {f->value, f->pointer, true};
        bool here = f->kind == MC_FACT_ELEMENT && f->offset == place;
        if ((here || f->kind == MC_FACT_ELEMENTS) && !mc_buffer_add(all, &denied, sizeof denied))
            return mc_schema_nomem(a->s), false;
    }
    return true;
}

/* The element at a place, and what follows it. contained: whether "contains" holds for it: 1 it
 * does, -1 it does not, 0 either. */
static int32_t element(const array *a, int64_t place, int contained, int32_t next) {
    mc_buffer all = {0};
    int32_t start = MC_DEAD;
    bool done = add_schemas(a, place, &all);
    if (done && contained) {
        mc_literal found = *a->contains;
        found.negated = found.negated != (contained < 0);
        done = mc_buffer_add(&all, &found, sizeof found);
        if (!done) mc_schema_nomem(a->s);
    }
    if (done)
        start = mc_build_all(a->s, MC_BUFFER_AT(&all, mc_literal),
                             MC_BUFFER_COUNT(&all, mc_literal), next);
    mc_buffer_deinit(&all);
    return start;
}

/* An element with `found` before it for which "contains" holds, and what follows: places[found].
 * What has been found often enough is not counted. */
static int32_t counted(const array *a, int64_t place, int64_t found, int64_t levels,
                       const int32_t *places) {
    if (!a->contains) return element(a, place, 0, places[0]);
    int32_t one = found < levels ? element(a, place, 1, places[found + 1]) : MC_DEAD;
    int other = a->found_max >= 0 ? -1 : 0;
    return mc_build_split(a->s->b, one, element(a, place, other, places[found]));
}

/* Behind the beginning of an array: its elements, then `end`, the bracket. later: [levels + 1] what
 * comes behind an element, by how many were found. */
static int32_t elements(const array *a, int64_t levels, int32_t *later, int32_t end) {
    mc_json_rules *rules = a->s->rules;
    mc_builder *b = a->s->b;
    int64_t top = a->max >= 0 ? a->max : a->min > a->prefix_count ? a->min : a->prefix_count;
    int32_t close = mc_build_space(rules, end), first = MC_DEAD;
    int64_t need = a->contains ? a->found_min : 0;
    for (int64_t f = levels; f >= 0; f--) {
        later[f] = f >= need ? close : MC_DEAD;
        if (a->max >= 0) continue;
        int32_t may_end = later[f];
        later[f] = mc_build_open(b);
        first = counted(a, top, f, levels, later);
        mc_build_close(b, later[f], byte(a, ',', mc_build_space(rules, first)), may_end);
    }
    for (int64_t i = top - 1; i >= 0 && b->status == MICA_OK; i--) /* i elements are there */
        for (int64_t f = 0; f <= levels; f++) { /* later[f + 1] is still that behind this one */
            int32_t way = f <= i ? counted(a, i, f, levels, later) : MC_DEAD;
            int32_t more = byte(a, ',', mc_build_space(rules, way));
            if (f == 0) first = way;
            later[f] = mc_build_split(b, more, i >= a->min && f >= need ? close : MC_DEAD);
        }
    return mc_build_space(rules, mc_build_split(b, first, a->min > 0 || need > 0 ? MC_DEAD : end));
}

/* ---- elements that differ ---- */

enum { MAX_VALUES = 100 };

/* The integers that a clause admits at most, from its limits: *count of them from *first on.
 * false: there are many. */
static bool find_integers(const mc_clause *c, int64_t *first, int64_t *count) {
    static const struct {
        mc_keyword key;
        int more; /* from the limit to the first integer within */
        bool least;
    } limits[] = {{MC_KEY_MINIMUM, 0, true},
                  {MC_KEY_EXCLUSIVE_MINIMUM, 1, true},
                  {MC_KEY_MAXIMUM, 0, false},
                  {MC_KEY_EXCLUSIVE_MAXIMUM, -1, false}};
    enum { FAR = 1000000000 }; /* limits beyond are none */
    int64_t low = -FAR, high = FAR, limit;
    for (const mc_group *g = c->groups; g; g = g->before)
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            if (!mc_json_get_int(g->k.at[limits[i].key], &limit)) continue;
            if (limit <= -FAR || limit >= FAR) continue;
            limit += limits[i].more;
            if (limits[i].least && limit > low) low = limit;
            if (!limits[i].least && limit < high) high = limit;
        }
    *first = low;
    *count = high < low ? 0 : high - low + 1;
    return *count <= MAX_VALUES;
}

/* Adds the values of a clause: constants to `values`, and those of a type that has few, of which
 * not all need satisfy, as elements of a JSON array to `text`. *known false: there are many. */
static bool add_values(const array *a, const mc_clause *c, mc_buffer *values, mc_buffer *text,
                       bool *known) {
    int64_t first = 0, count = 0;
    for (const mc_group *g = c->groups; g; g = g->before)
        if (mc_has(&g->k, MC_KEY_ENUM) || mc_has(&g->k, MC_KEY_CONST))
            return mc_schema_constants(a->s, c, g, values);
    *known = !(c->types & ~(MC_TYPE_NULL | MC_TYPE_BOOLEAN | MC_TYPE_INTEGER)) &&
             (!(c->types & MC_TYPE_INTEGER) || find_integers(c, &first, &count));
    if (!*known) return true;
    bool done = (!(c->types & MC_TYPE_NULL) || mc_buffer_add_text(text, ",null")) &&
                (!(c->types & MC_TYPE_BOOLEAN) || mc_buffer_add_text(text, ",false,true"));
    for (int64_t i = 0; done && i < count; i++)
        done = mc_buffer_printf(text, ",%lld", (long long)(first + i));
    return done || (mc_schema_nomem(a->s), false);
}

/* Adds those of the values in a JSON array, behind its first, that satisfy all. */
static bool take_values(const array *a, const mc_buffer *all, const mc_buffer *text,
                        mc_json_doc **doc, mc_buffer *values) {
    mc_schema *s = a->s;
    const mc_literal *literals = MC_BUFFER_AT(all, mc_literal);
    if (mc_json_parse(text->data, text->len, "values", doc) != MICA_OK)
        return mc_schema_nomem(s), false;
    mc_json_iter it = mc_json_begin(mc_json_root(*doc));
    mc_json_next(&it);
    while (mc_json_next(&it)) {
        bool yes = true;
        for (size_t i = 0; yes && i < MC_BUFFER_COUNT(all, mc_literal); i++)
            if (!mc_value_satisfies(s, it.value, &literals[i], &yes)) return false;
        if (yes && !mc_buffer_add(values, &it.value, sizeof it.value))
            return mc_schema_nomem(s), false;
    }
    return true;
}

/* Leaves out values that are there twice. */
static bool drop_equal(const array *a, mc_buffer *values) {
    mc_json *at = MC_BUFFER_AT(values, mc_json);
    size_t n = 0;
    for (size_t i = 0; i < MC_BUFFER_COUNT(values, mc_json); i++) {
        bool twice = false;
        for (size_t j = 0; j < n && !twice; j++)
            twice = mc_values_equal(a->s, at[j], at[i]);
        if (!twice) at[n++] = at[i];
        if (!mc_schema_work(a->s, n)) return false;
    }
    values->len = n * sizeof *at;
    return true;
}

/* The values of all elements, if they have one schema of which there are few: mc_json, none twice,
 * some of them of *doc. *known false: there are many. */
static bool find_values(const array *a, mc_buffer *values, mc_json_doc **doc, bool *known) {
    mc_schema *s = a->s;
    mc_buffer all = {0}, clauses = {0}, text = {0};
    bool done = add_schemas(a, a->prefix_count, &all);
    *known = done && all.len;
    if (*known)
        done = mc_schema_clauses(s, MC_BUFFER_AT(&all, mc_literal),
                                 MC_BUFFER_COUNT(&all, mc_literal), &clauses);
    if (done && !mc_buffer_add_text(&text, "[0")) done = (mc_schema_nomem(s), false);
    for (size_t i = MC_BUFFER_COUNT(&clauses, mc_clause); done && *known && i-- > 0;)
        done = add_values(a, &MC_BUFFER_AT(&clauses, mc_clause)[i], values, &text, known);
    if (done && !mc_buffer_add_text(&text, "]")) done = (mc_schema_nomem(s), false);
    if (done && *known) done = take_values(a, &all, &text, doc, values);
    if (done) done = drop_equal(a, values);
    mc_buffer_deinit(&all);
    mc_buffer_deinit(&clauses);
    mc_buffer_deinit(&text);
    return done;
}

/* Arrays of some of the values, in their order. later: [count + 1] what comes behind some. */
static int32_t unique_elements(const array *a, const mc_json *values, int64_t count, int32_t *later,
                               int32_t end) {
    mc_json_rules *rules = a->s->rules;
    mc_builder *b = a->s->b;
    int32_t close = mc_build_space(rules, end);
    for (int64_t n = 0; n <= count; n++)
        later[n] = n >= a->min && (a->max < 0 || n <= a->max) ? (n ? close : end) : MC_DEAD;
    for (int64_t i = count - 1; i >= 0 && b->status == MICA_OK; i--)
        for (int64_t n = 0; n <= i; n++) { /* n values were written before the i-th */
            int32_t way = mc_build_constant(rules, values[i], later[n + 1]);
            if (n) way = byte(a, ',', mc_build_space(rules, way));
            later[n] = mc_build_split(b, way, later[n]);
        }
    return mc_build_space(rules, later[0]);
}

/* Whether a clause admits all integers from 0 or 1 on, of up to 9 digits. */
static bool has_integers(const mc_clause *c, bool *zero) {
    const double least = 1, greatest = 999999999;
    double limit;
    *zero = true;
    if (c->types != MC_TYPE_INTEGER || c->facts) return false;
    for (const mc_group *g = c->groups; g; g = g->before) {
        if (mc_has(&g->k, MC_KEY_MULTIPLE_OF)) return false;
        if (mc_json_get_float(g->k.at[MC_KEY_MAXIMUM], &limit) && limit < greatest) return false;
        if (mc_json_get_float(g->k.at[MC_KEY_EXCLUSIVE_MAXIMUM], &limit) && limit <= greatest)
            return false;
        if (mc_json_get_float(g->k.at[MC_KEY_MINIMUM], &limit)) {
            if (limit > least) return false;
            *zero = *zero && limit <= 0;
        }
        if (mc_json_get_float(g->k.at[MC_KEY_EXCLUSIVE_MINIMUM], &limit)) {
            if (limit >= least) return false;
            *zero = *zero && limit < 0;
        }
    }
    return true;
}

/* What elements are that must differ. */
typedef struct set {
    mc_builder parts;
    mc_buffer languages; /* of the elements, without quotes */
    bool strings;        /* they have some */
    bool known;          /* false: they are something else */
} set;

/* The languages of elements that are strings, or integers, by one clause. */
static bool find_languages(const array *a, set *e) {
    mc_schema *s = a->s;
    mc_buffer all = {0}, clauses = {0};
    bool done = add_schemas(a, a->prefix_count, &all) &&
                mc_schema_clauses(s, MC_BUFFER_AT(&all, mc_literal),
                                  MC_BUFFER_COUNT(&all, mc_literal), &clauses);
    const mc_clause *c = MC_BUFFER_AT(&clauses, mc_clause);
    bool one = done && MC_BUFFER_COUNT(&clauses, mc_clause) == 1, zero = false;
    one = one && !mc_clause_has(c, MC_KEY_ENUM) && !mc_clause_has(c, MC_KEY_CONST);
    e->strings = one && c->types == MC_TYPE_STRING;
    e->known = e->strings || (one && has_integers(c, &zero));
    if (e->strings) {
        done = mc_string_languages(s, c, &e->parts, &e->languages);
    } else if (e->known) {
        mc_str digits = zero ? MC_STR("0|[1-9][0-9]{0,8}") : MC_STR("[1-9][0-9]{0,8}");
        const mc_language all_of = {
            mc_build_regex(&e->parts, MC_CHARS_JSON, digits, MC_REGEX_WHOLE, MC_RETURN), false};
        done = mc_buffer_add(&e->languages, &all_of, sizeof all_of) || (mc_schema_nomem(s), false);
    }
    mc_buffer_deinit(&all);
    mc_buffer_deinit(&clauses);
    return done;
}

/* Arrays of elements that differ: up to MC_DISTINCT. */
static int32_t distinct_elements(const array *a, set *e, int32_t end) {
    mc_schema *s = a->s;
    mc_distinct d = {.levels = a->max >= 0 && a->max < MC_DISTINCT ? (int)a->max : MC_DISTINCT};
    int32_t ends[MC_DISTINCT + 1], close = mc_build_space(s->rules, end);
    d.ends = ends;
    d.groups = mc_distinct_groups(d.levels);
    for (int n = 0; n <= d.levels; n++)
        ends[n] = n >= a->min ? (n ? close : end) : MC_DEAD;
    int64_t want = a->min > 2 ? a->min : 2;
    if (!mc_distinct_find(s, &e->parts, &e->languages, want, &d)) return MC_DEAD;
    if (mc_distinct_choose(&d) < want) return mc_distinct_fail(s, want), MC_DEAD;
    int32_t quote = e->strings ? byte(a, '"', MC_RETURN) : MC_RETURN;
    for (int i = 0; i < d.groups; i++) {
        int32_t text = mc_distinct_text(s, &e->parts, &e->languages, &d, i, quote);
        d.rules[i] = mc_build_rule(s->b);
        mc_build_define(s->b, d.rules[i], e->strings ? byte(a, '"', text) : text);
    }
    return mc_build_space(s->rules, mc_build_distinct(s, &d));
}

/* Arrays of values that differ, of which there are many. */
static int32_t build_set(const array *a, const char *pointer, int32_t end) {
    mc_schema *s = a->s;
    set e = {.known = false};
    int32_t all = MC_DEAD;
    mc_builder_init(&e.parts);
    bool done = find_languages(a, &e);
    s->pointer = pointer;
    if (done && (!e.known || a->prefix_count || a->contains || a->min > MC_DISTINCT)) {
        mc_schema_fail(s, MICA_EUNSUPPORTED, "uniqueItems",
                       "only of items of up to %d values, or of up to %d strings or integers from "
                       "0 on, and without prefixItems and contains",
                       MAX_VALUES, MC_DISTINCT);
    } else if (done) {
        all = distinct_elements(a, &e, end);
        if (s->b->status == MICA_EUNSUPPORTED) mc_schema_fail_at(s, "items");
    }
    mc_buffer_deinit(&e.languages);
    mc_builder_deinit(&e.parts);
    return all;
}

static int32_t build_unique(const array *a, const char *pointer, int32_t end) {
    mc_schema *s = a->s;
    mc_buffer values = {0};
    mc_json_doc *doc = NULL;
    bool known;
    int32_t all = MC_DEAD, later[MAX_VALUES + 1];
    bool done = find_values(a, &values, &doc, &known);
    int64_t count = (int64_t)MC_BUFFER_COUNT(&values, mc_json);
    s->pointer = pointer;
    if (done && (!known || a->prefix_count || a->contains || count > MAX_VALUES)) {
        all = build_set(a, pointer, end);
    } else if (done) {
        all = unique_elements(a, MC_BUFFER_AT(&values, mc_json), count, later, end);
        if (s->b->status == MICA_EUNSUPPORTED) mc_schema_fail_at(s, "items");
    }
    mc_buffer_deinit(&values);
    mc_json_close(&doc);
    return all;
}

/* ---- what a clause says ---- */

/* Reads the keywords of a group that are about places. */
static bool read_places(array *a, const mc_group *g) {
    mc_schema *s = a->s;
    bool some = true;
    int64_t count = (int64_t)mc_json_count(g->k.at[prefix_key(g)]);
    s->pointer = g->pointer;
    if (mc_has(&g->k, MC_KEY_PREFIX_ITEMS) &&
        (is_older(g) || mc_json_get_type(g->k.at[MC_KEY_PREFIX_ITEMS]) != MC_JSON_ARRAY)) {
        mc_schema_fail(s, MICA_EFORMAT, "prefixItems", "want an array of schemas, beside a schema");
        return false;
    }
    if (count > MC_SCHEMA_NAMES) {
        mc_schema_fail(s, MICA_EUNSUPPORTED, mc_keyword_name(prefix_key(g)), "more than %d",
                       MC_SCHEMA_NAMES);
        return false;
    }
    if (count > a->prefix_count) a->prefix_count = count;
    bool none = mc_json_get_bool(g->k.at[rest_key(g)], &some) && !some;
    if (none && (a->max < 0 || a->max > count)) a->max = count;
    return true;
}

/* "unevaluatedItems": false means that only places may be there which some schema is about; a
 * schema is that of the others. */
static void close_places(array *a) {
    bool closed = false, rest = false;
    int64_t count = 0;
    for (size_t i = 0; i < a->group_count; i++) {
        const mc_group *g = a->groups[i];
        int64_t here = (int64_t)mc_json_count(g->k.at[prefix_key(g)]);
        bool truth = true;
        if (mc_json_get_bool(g->k.at[MC_KEY_UNEVALUATED_ITEMS], &truth) && !truth) closed = true;
        if (mc_json_get_type(g->k.at[MC_KEY_UNEVALUATED_ITEMS]) == MC_JSON_OBJECT) a->rest = g;
        if (g->silent) continue;
        rest = rest || mc_has(&g->k, rest_key(g));
        if (here > count) count = here;
    }
    if (closed && !rest && (a->max < 0 || a->max > count)) a->max = count;
}

/* Takes one thing that arrays contain; there may be one. */
static bool take_contains(array *a, mc_literal literal, int64_t min, int64_t max) {
    mc_schema *s = a->s;
    if (min == 0 && max < 0) return true;
    mc_literal *kept = mc_arena_alloc(&s->arena, sizeof *kept);
    if (!kept) return mc_schema_nomem(s), false;
    *kept = literal;
    if (a->contains || min > MAX_FOUND || max > MAX_FOUND) {
        mc_schema_fail(s, MICA_EUNSUPPORTED, "contains", "more than one, or more than %d elements",
                       MAX_FOUND);
        return false;
    }
    a->contains = kept;
    a->found_min = min;
    a->found_max = max;
    return true;
}

static bool read_contains(array *a) {
    mc_schema *s = a->s;
    int64_t min, max;
    for (size_t i = 0; i < a->group_count; i++) {
        const mc_group *g = a->groups[i];
        if (!mc_has(&g->k, MC_KEY_CONTAINS)) continue;
        s->pointer = g->pointer;
        const char *pointer = mc_schema_place(s, g->pointer, "contains", (mc_str){NULL, 0});
        if (!pointer || !mc_schema_count(s, &g->k, MC_KEY_MIN_CONTAINS, 1, &min) ||
            !mc_schema_count(s, &g->k, MC_KEY_MAX_CONTAINS, -1, &max) ||
            !take_contains(a, (mc_literal){g->k.at[MC_KEY_CONTAINS], pointer, false}, min, max))
            return false;
    }
    for (const mc_fact *f = a->c->facts; f; f = f->before)
        if (f->kind == MC_FACT_CONTAINS &&
            !take_contains(a, (mc_literal){f->value, f->pointer, true}, 1, -1))
            return false;
    return true;
}

static bool read_array(array *a) {
    mc_schema *s = a->s;
    a->groups = mc_clause_groups(s, a->c, &a->group_count);
    if (!a->groups || !mc_clause_count(s, a->c, MC_KEY_MIN_ITEMS, 0, &a->min) ||
        !mc_clause_count(s, a->c, MC_KEY_MAX_ITEMS, -1, &a->max))
        return false;
    for (size_t i = 0; i < a->group_count; i++)
        if (!read_places(a, a->groups[i])) return false;
    close_places(a);
    for (const mc_fact *f = a->c->facts; f; f = f->before) {
        if (f->kind != MC_FACT_ELEMENT) continue;
        if (f->offset >= MC_SCHEMA_NAMES) {
            s->pointer = f->pointer;
            mc_schema_fail(s, MICA_EUNSUPPORTED, "", "more than %d", MC_SCHEMA_NAMES);
            return false;
        }
        if (f->offset >= a->min) a->min = f->offset + 1;
        if (f->offset >= a->prefix_count) a->prefix_count = f->offset + 1;
    }
    return read_contains(a);
}

/* Where it says that elements must differ; NULL: nowhere. */
static bool read_unique(const array *a, const char **unique) {
    mc_schema *s = a->s;
    *unique = NULL;
    for (size_t i = 0; i < a->group_count; i++) {
        mc_json v = a->groups[i]->k.at[MC_KEY_UNIQUE_ITEMS];
        bool truth = false;
        s->pointer = a->groups[i]->pointer;
        if (mc_json_get_type(v) != MC_JSON_NONE && !mc_json_get_bool(v, &truth)) {
            mc_schema_fail(s, MICA_EFORMAT, "uniqueItems", "want true or false");
            return false;
        }
        if (truth) *unique = s->pointer;
    }
    return true;
}

int32_t mc_build_typed_array(mc_schema *s, const mc_clause *c) {
    array a = {.s = s, .c = c, .found_max = -1};
    int32_t later[MAX_FOUND + 1], all = MC_DEAD;
    const char *unique;
    if (!c->groups && !c->facts) return mc_build_any_array(s->rules, MC_RETURN);
    if (!read_array(&a) || !read_unique(&a, &unique)) return MC_DEAD;
    if (a.max >= 0 && a.min > a.max) return MC_DEAD;
    int32_t end = byte(&a, ']', MC_RETURN);
    int64_t levels = !a.contains ? 0 : a.found_max >= 0 ? a.found_max : a.found_min;
    if (a.contains && a.found_max >= 0 && a.found_min > a.found_max) return MC_DEAD;
    if (unique && (a.max < 0 || a.max > 1))
        all = build_unique(&a, unique, end);
    else
        all = elements(&a, levels, later, end);
    return byte(&a, '[', all);
}
