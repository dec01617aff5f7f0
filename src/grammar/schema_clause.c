/* Clauses: what must hold, without alternatives. Schemas that hold together become one clause for
 * each choice among their alternatives (disjunctive normal form). The negation of a schema is that
 * one of its keywords does not hold. */
#include "base/alloc.h"
#include "grammar/schema_parts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CLAUSES = 1000 };

/* Literals that hold by another one: each knows by which, so that a schema that is within itself
 * is noticed. */
typedef struct task {
    mc_literal literal;
    const struct task *by; /* NULL: it is one of the item's */
    struct task *next;     /* of a list */
} task;

/* One of several ways to make something hold. */
typedef struct way {
    const task *tasks;
    const mc_fact *facts;
    int types;
    struct way *next;
} way;

typedef struct choice {
    const way *ways;
    struct choice *next;
} choice;

typedef struct clauses {
    mc_schema *s;
    const mc_literal *all;
    size_t count;
    mc_buffer *made;          /* mc_clause */
    const char **left_out_at; /* the schema of a way that was left out; NULL: none was */
    mc_keyword *left_out;     /* its keyword */
} clauses;

/* A clause that is being made. */
typedef struct draft {
    mc_clause clause;
    int about;        /* the types that keywords are about */
    const task *todo; /* literals to look at */
    const task *seen; /* those that were looked at */
    choice *choices;  /* to make */
    bool impossible;
} draft;

/* Memory is work, too: all of a grammar's steps are 32 MB. */
static void *need(mc_schema *s, size_t bytes) {
    void *memory = mc_schema_work(s, 1 + bytes / 8) ? mc_arena_calloc(&s->arena, bytes) : NULL;
    if (!memory && s->b->status == MICA_OK) mc_schema_nomem(s);
    return memory;
}

/* ---- ways ---- */

static way *add_way(mc_schema *s, choice *c, int types) {
    way *w = need(s, sizeof *w);
    if (!w) return NULL;
    w->types = types;
    w->next = (way *)c->ways;
    c->ways = w;
    return w;
}

static bool add_task(mc_schema *s, const task **list, mc_json schema, const char *pointer,
                     bool negated, const task *by) {
    task *t = pointer ? need(s, sizeof *t) : NULL;
    if (!t) return false;
    *t = (task){{schema, pointer, negated}, by, (task *)*list};
    *list = t;
    return true;
}

/* The same of a schema that is at by/where/number; number < 0: at by/where. */
static bool add_part(mc_schema *s, const task **list, mc_json schema, const task *by,
                     const char *where, int number, bool negated) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    const char *pointer = mc_schema_place(s, by->literal.pointer, where,
                                          number < 0 ? (mc_str){NULL, 0} : mc_str_of(text));
    return add_task(s, list, schema, pointer, negated, by);
}

static bool add_fact(mc_schema *s, const mc_fact **list, mc_fact fact) {
    mc_fact *f = need(s, sizeof *f);
    if (!f) return false;
    *f = fact;
    f->before = *list;
    *list = f;
    return true;
}

static bool add_name(mc_schema *s, const mc_fact **list, mc_fact_kind kind, mc_str name) {
    return add_fact(s, list, (mc_fact){.kind = kind, .key = MC_KEY_REQUIRED, .name = name});
}

static choice *add_choice(mc_schema *s, draft *d) {
    choice *c = need(s, sizeof *c);
    if (!c) return NULL;
    c->next = d->choices;
    d->choices = c;
    return c;
}

/* ---- schemas that hold ---- */

static bool check_list(mc_schema *s, const mc_keywords *k, mc_keyword key) {
    if (mc_json_get_type(k->at[key]) == MC_JSON_ARRAY && mc_json_count(k->at[key]) > 0) return true;
    mc_schema_fail(s, MICA_EFORMAT, mc_keyword_name(key), "want an array of schemas");
    return false;
}

static bool check_object(mc_schema *s, const mc_keywords *k, mc_keyword key) {
    if (mc_json_get_type(k->at[key]) == MC_JSON_OBJECT) return true;
    mc_schema_fail(s, MICA_EFORMAT, mc_keyword_name(key), "want an object");
    return false;
}

static bool want_names(mc_schema *s, mc_keyword key) {
    mc_schema_fail(s, MICA_EFORMAT, mc_keyword_name(key), "want an array of strings");
    return false;
}

static bool take_all_of(mc_schema *s, draft *d, const mc_keywords *k, const task *t) {
    const task *list = NULL;
    int number = 0;
    if (!check_list(s, k, MC_KEY_ALL_OF)) return false;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_ALL_OF]); mc_json_next(&it);)
        if (!add_part(s, &list, it.value, t, "allOf", number++, false)) return false;
    for (; list; list = list->next) /* the first one comes to the top */
        if (!add_task(s, &d->todo, list->literal.schema, list->literal.pointer, false, t))
            return false;
    return true;
}

/* One of the list holds, and with `alone` no other one does. */
static bool take_some(mc_schema *s, draft *d, const mc_keywords *k, const task *t, mc_keyword key,
                      bool alone) {
    if (!check_list(s, k, key)) return false;
    choice *c = add_choice(s, d);
    int i = 0, j;
    for (mc_json_iter it = mc_json_begin(k->at[key]); c && mc_json_next(&it); i++) {
        way *w = add_way(s, c, MC_TYPE_ANY);
        if (!w) return false;
        j = 0;
        for (mc_json_iter other = mc_json_begin(k->at[key]); mc_json_next(&other); j++)
            if ((j == i || alone) &&
                !add_part(s, &w->tasks, other.value, t, mc_keyword_name(key), j, j != i))
                return false;
    }
    return c != NULL;
}

/* "if" holds and so does `then`, or it does not and `other` does. A part that is negated does not
 * hold; NONE always does. */
static bool take_branches(mc_schema *s, draft *d, const mc_keywords *k, const task *t,
                          bool negated) {
    static const mc_keyword parts[] = {MC_KEY_THEN, MC_KEY_ELSE};
    choice *c = add_choice(s, d);
    for (int i = 0; c && i < 2; i++) {
        bool given = mc_has(k, parts[i]);
        if (negated && !given) continue;
        way *w = add_way(s, c, MC_TYPE_ANY);
        if (!w || !add_part(s, &w->tasks, k->at[MC_KEY_IF], t, "if", -1, i == 1)) return false;
        if (given &&
            !add_part(s, &w->tasks, k->at[parts[i]], t, mc_keyword_name(parts[i]), -1, negated))
            return false;
    }
    return c != NULL;
}

/* What a member of one name, if it is there, asks for: others, or a schema. */
static bool take_dependency(mc_schema *s, draft *d, const task *t, mc_keyword key, mc_str name,
                            mc_json value) {
    choice *c = add_choice(s, d);
    way *without = c ? add_way(s, c, MC_TYPE_ANY) : NULL;
    way *with = without ? add_way(s, c, MC_TYPE_OBJECT) : NULL;
    mc_str other;
    if (!with || !add_name(s, &without->facts, MC_FACT_ABSENT, name) ||
        !add_name(s, &with->facts, MC_FACT_REQUIRED, name))
        return false;
    if (key != MC_KEY_DEPENDENT_REQUIRED && mc_json_get_type(value) != MC_JSON_ARRAY)
        return add_task(s, &with->tasks, value,
                        mc_schema_place(s, t->literal.pointer, mc_keyword_name(key), name), false,
                        t);
    for (mc_json_iter it = mc_json_begin(value); mc_json_next(&it);) {
        if (!mc_json_get_str(it.value, &other) || key == MC_KEY_DEPENDENT_SCHEMAS)
            return want_names(s, key);
        if (!add_name(s, &with->facts, MC_FACT_REQUIRED, other)) return false;
    }
    return true;
}

static bool take_dependencies(mc_schema *s, draft *d, const mc_keywords *k, const task *t) {
    static const mc_keyword keys[] = {MC_KEY_DEPENDENT_REQUIRED, MC_KEY_DEPENDENT_SCHEMAS,
                                      MC_KEY_DEPENDENCIES};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!mc_has(k, keys[i])) continue;
        if (!check_object(s, k, keys[i])) return false;
        for (mc_json_iter it = mc_json_begin(k->at[keys[i]]); mc_json_next(&it);)
            if (!take_dependency(s, d, t, keys[i], it.key, it.value)) return false;
    }
    return true;
}

/* "unevaluated..." is about all that the schema says, so it stands in a rule by itself. */
static bool check_unevaluated(mc_schema *s, const clauses *e, const mc_keywords *k, const task *t) {
    static const mc_keyword keys[] = {MC_KEY_UNEVALUATED, MC_KEY_UNEVALUATED_ITEMS};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool truth = true;
        if (!mc_has(k, keys[i])) continue;
        bool one = mc_json_get_type(k->at[keys[i]]) == MC_JSON_OBJECT;
        if (!one && !mc_json_get_bool(k->at[keys[i]], &truth)) {
            mc_schema_fail(s, MICA_EFORMAT, mc_keyword_name(keys[i]), "want a schema");
            return false;
        }
        if ((truth && !one) || (!t->by && e->count == 1)) continue;
        mc_schema_fail(s, MICA_EUNSUPPORTED, mc_keyword_name(keys[i]),
                       "not supported within allOf, anyOf and the like");
        return false;
    }
    return true;
}

static bool add_group(mc_schema *s, draft *d, const mc_keywords *k, const task *t) {
    mc_group *g = need(s, sizeof *g);
    bool silent = false;
    if (!g) return false;
    for (const task *by = t->by; by; by = by->by)
        silent = silent || by->literal.negated;
    *g = (mc_group){*k, t->literal.pointer, silent, d->clause.groups};
    d->clause.groups = g;
    return true;
}

static bool take_schema(const clauses *e, draft *d, const mc_keywords *k, const task *t) {
    mc_schema *s = e->s;
    bool constants = mc_has(k, MC_KEY_ENUM) || mc_has(k, MC_KEY_CONST);
    int about = 0;
    for (int i = 0; i < MC_KEY_COUNT; i++)
        if (mc_has(k, (mc_keyword)i)) about |= mc_keyword_about((mc_keyword)i);
    if (!check_unevaluated(s, e, k, t) || ((constants || about) && !add_group(s, d, k, t)))
        return false;
    d->about |= about;
    d->clause.types &= mc_schema_types(s, k);
    d->clause.typed = d->clause.typed || mc_has(k, MC_KEY_TYPE);
    if (mc_has(k, MC_KEY_REF)) {
        const char *pointer;
        mc_json target = mc_schema_resolve(s, k->at[MC_KEY_REF], &pointer);
        if (!add_task(s, &d->todo, target, pointer, false, t)) return false;
    }
    if (mc_has(k, MC_KEY_NOT) && !add_part(s, &d->todo, k->at[MC_KEY_NOT], t, "not", -1, true))
        return false;
    if (mc_has(k, MC_KEY_ALL_OF) && !take_all_of(s, d, k, t)) return false;
    if (mc_has(k, MC_KEY_ANY_OF) && !take_some(s, d, k, t, MC_KEY_ANY_OF, false)) return false;
    if (mc_has(k, MC_KEY_ONE_OF) &&
        !take_some(s, d, k, t, MC_KEY_ONE_OF, !mc_schema_exclusive(s, k->at[MC_KEY_ONE_OF])))
        return false;
    if (mc_has(k, MC_KEY_IF) && (mc_has(k, MC_KEY_THEN) || mc_has(k, MC_KEY_ELSE)) &&
        !take_branches(s, d, k, t, false))
        return false;
    return take_dependencies(s, d, k, t);
}

/* ---- schemas that do not hold: one of their keywords does not ---- */

/* The keyword that says the opposite of another one, with the same value and an offset. */
static const struct {
    mc_keyword key, opposite;
    int offset;
} opposites[] = {
    {MC_KEY_MINIMUM, MC_KEY_EXCLUSIVE_MAXIMUM, 0},
    {MC_KEY_MAXIMUM, MC_KEY_EXCLUSIVE_MINIMUM, 0},
    {MC_KEY_EXCLUSIVE_MINIMUM, MC_KEY_MAXIMUM, 0},
    {MC_KEY_EXCLUSIVE_MAXIMUM, MC_KEY_MINIMUM, 0},
    {MC_KEY_MIN_LENGTH, MC_KEY_MAX_LENGTH, -1},
    {MC_KEY_MAX_LENGTH, MC_KEY_MIN_LENGTH, 1},
    {MC_KEY_MIN_ITEMS, MC_KEY_MAX_ITEMS, -1},
    {MC_KEY_MAX_ITEMS, MC_KEY_MIN_ITEMS, 1},
    {MC_KEY_MIN_PROPERTIES, MC_KEY_MAX_PROPERTIES, -1},
    {MC_KEY_MAX_PROPERTIES, MC_KEY_MIN_PROPERTIES, 1},
};

/* A number or a count is beyond a limit. */
static bool deny_limit(mc_schema *s, choice *c, const mc_keywords *k, const task *t, size_t i) {
    mc_keyword key = opposites[i].key;
    int64_t count = 0;
    if (opposites[i].offset && !mc_schema_count(s, k, key, 0, &count)) return false;
    if (opposites[i].offset < 0 && count == 0) return true; /* it always holds */
    if (opposites[i].offset > 0 && count == INT64_MAX) return true;
    way *w = add_way(s, c, mc_keyword_about(key));
    return w && add_fact(s, &w->facts,
                         (mc_fact){.kind = MC_FACT_LIMIT,
                                   .key = opposites[i].opposite,
                                   .value = k->at[key],
                                   .offset = opposites[i].offset,
                                   .pointer = t->literal.pointer});
}

static bool deny_constants(mc_schema *s, choice *c, const mc_keywords *k, const task *t) {
    way *w = add_way(s, c, MC_TYPE_ANY);
    mc_fact fact = {.kind = MC_FACT_NOT, .key = MC_KEY_CONST, .pointer = t->literal.pointer};
    if (!w) return false;
    if (mc_has(k, MC_KEY_CONST)) {
        fact.value = k->at[MC_KEY_CONST];
        return add_fact(s, &w->facts, fact);
    }
    if (mc_json_get_type(k->at[MC_KEY_ENUM]) != MC_JSON_ARRAY) {
        mc_schema_fail(s, MICA_EFORMAT, "enum", "want an array");
        return false;
    }
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_ENUM]); mc_json_next(&it);) {
        fact.value = it.value;
        if (!add_fact(s, &w->facts, fact)) return false;
    }
    return true;
}

/* All, or with `one` one, of a list does not hold. */
static bool deny_list(mc_schema *s, choice *c, const mc_keywords *k, const task *t, mc_keyword key,
                      bool one) {
    way *w = one ? NULL : add_way(s, c, MC_TYPE_ANY);
    int number = 0;
    if (!check_list(s, k, key) || (!one && !w)) return false;
    for (mc_json_iter it = mc_json_begin(k->at[key]); mc_json_next(&it); number++) {
        if (one) w = add_way(s, c, MC_TYPE_ANY);
        if (!w || !add_part(s, &w->tasks, it.value, t, mc_keyword_name(key), number, true))
            return false;
    }
    return true;
}

/* A member is there that does not satisfy. */
static bool deny_properties(mc_schema *s, choice *c, const mc_keywords *k, const task *t) {
    if (!check_object(s, k, MC_KEY_PROPERTIES)) return false;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_PROPERTIES]); mc_json_next(&it);) {
        way *w = add_way(s, c, MC_TYPE_OBJECT);
        const char *pointer = mc_schema_place(s, t->literal.pointer, "properties", it.key);
        if (!w || !pointer || !add_name(s, &w->facts, MC_FACT_REQUIRED, it.key) ||
            !add_fact(
                s, &w->facts,
                (mc_fact){MC_FACT_MEMBER, MC_KEY_PROPERTIES, it.value, 0, it.key, pointer, NULL}))
            return false;
    }
    return true;
}

static bool deny_required(mc_schema *s, choice *c, mc_json names) {
    mc_str name;
    if (mc_json_get_type(names) != MC_JSON_ARRAY) return want_names(s, MC_KEY_REQUIRED);
    for (mc_json_iter it = mc_json_begin(names); mc_json_next(&it);) {
        if (!mc_json_get_str(it.value, &name)) return want_names(s, MC_KEY_REQUIRED);
        way *w = add_way(s, c, MC_TYPE_OBJECT);
        if (!w || !add_name(s, &w->facts, MC_FACT_ABSENT, name)) return false;
    }
    return true;
}

/* A name is there, and one that it asks for is not. */
static bool deny_dependent(mc_schema *s, choice *c, mc_json dependent) {
    mc_str other;
    for (mc_json_iter it = mc_json_begin(dependent); mc_json_next(&it);)
        for (mc_json_iter names = mc_json_begin(it.value); mc_json_next(&names);) {
            if (!mc_json_get_str(names.value, &other))
                return want_names(s, MC_KEY_DEPENDENT_REQUIRED);
            way *w = add_way(s, c, MC_TYPE_OBJECT);
            if (!w || !add_name(s, &w->facts, MC_FACT_REQUIRED, it.key) ||
                !add_name(s, &w->facts, MC_FACT_ABSENT, other))
                return false;
        }
    return true;
}

/* Something is said of one kind of document by a fact. */
static bool deny_by_fact(mc_schema *s, choice *c, const mc_keywords *k, const task *t,
                         mc_keyword key, mc_fact_kind kind) {
    way *w = add_way(s, c, mc_keyword_about(key));
    mc_fact fact = {.kind = kind, .key = key, .value = k->at[key], .pointer = t->literal.pointer};
    if (kind != MC_FACT_NOT)
        fact.pointer =
            mc_schema_place(s, t->literal.pointer, mc_keyword_name(key), (mc_str){NULL, 0});
    return w && fact.pointer && add_fact(s, &w->facts, fact);
}

/* An element is there that does not satisfy the schema of its place. */
static bool deny_places(mc_schema *s, choice *c, const mc_keywords *k, const task *t) {
    int place = 0;
    for (mc_json_iter it = mc_json_begin(k->at[MC_KEY_PREFIX_ITEMS]); mc_json_next(&it); place++) {
        char number[16];
        snprintf(number, sizeof number, "%d", place);
        way *w = add_way(s, c, MC_TYPE_ARRAY);
        mc_fact fact = {.kind = MC_FACT_ELEMENT, .value = it.value, .offset = place};
        fact.pointer = mc_schema_place(s, t->literal.pointer, "prefixItems", mc_str_of(number));
        if (!w || !fact.pointer || !add_fact(s, &w->facts, fact)) return false;
    }
    return true;
}

static bool deny_ref(mc_schema *s, choice *c, const mc_keywords *k, const task *t) {
    const char *pointer;
    mc_json target = mc_schema_resolve(s, k->at[MC_KEY_REF], &pointer);
    way *w = s->b->status == MICA_OK ? add_way(s, c, MC_TYPE_ANY) : NULL;
    return w && add_task(s, &w->tasks, target, pointer, true, t);
}

static bool deny_not(mc_schema *s, choice *c, const mc_keywords *k, const task *t) {
    way *w = add_way(s, c, MC_TYPE_ANY);
    return w && add_part(s, &w->tasks, k->at[MC_KEY_NOT], t, "not", -1, false);
}

/* Adds the ways in which a keyword does not hold. *unsupported: there may be others. */
static bool deny(mc_schema *s, choice *c, const mc_keywords *k, const task *t, mc_keyword key,
                 bool *unsupported) {
    for (size_t i = 0; i < sizeof opposites / sizeof *opposites; i++)
        if (opposites[i].key == key) return deny_limit(s, c, k, t, i);
    switch (key) {
    case MC_KEY_TYPE:
        return mc_schema_types(s, k) && add_way(s, c, MC_TYPE_ANY & ~mc_schema_types(s, k));
    case MC_KEY_CONST:
    case MC_KEY_ENUM:
        return deny_constants(s, c, k, t);
    case MC_KEY_ALL_OF:
        return deny_list(s, c, k, t, key, true);
    case MC_KEY_ANY_OF:
        return deny_list(s, c, k, t, key, false);
    case MC_KEY_ONE_OF:
        *unsupported = !mc_schema_exclusive(s, k->at[key]);
        return *unsupported || deny_list(s, c, k, t, key, false);
    case MC_KEY_NOT:
        return deny_not(s, c, k, t);
    case MC_KEY_IF: /* supported if it stands alone: see take_clause */
        *unsupported = mc_has(k, MC_KEY_THEN) || mc_has(k, MC_KEY_ELSE);
        return true;
    case MC_KEY_REF:
        return deny_ref(s, c, k, t);
    case MC_KEY_PROPERTIES:
        return deny_properties(s, c, k, t);
    case MC_KEY_REQUIRED:
        return deny_required(s, c, k->at[key]);
    case MC_KEY_DEPENDENT_REQUIRED:
        return deny_dependent(s, c, k->at[key]);
    case MC_KEY_PREFIX_ITEMS:
        return deny_places(s, c, k, t);
    case MC_KEY_PATTERN:
    case MC_KEY_MULTIPLE_OF:
        return deny_by_fact(s, c, k, t, key, MC_FACT_NOT);
    case MC_KEY_CONTAINS:
        *unsupported = mc_has(k, MC_KEY_MIN_CONTAINS) || mc_has(k, MC_KEY_MAX_CONTAINS);
        return *unsupported || deny_by_fact(s, c, k, t, key, MC_FACT_ELEMENTS);
    case MC_KEY_ITEMS:
        *unsupported =
            mc_has(k, MC_KEY_PREFIX_ITEMS) || mc_json_get_type(k->at[key]) == MC_JSON_ARRAY;
        return *unsupported || deny_by_fact(s, c, k, t, key, MC_FACT_CONTAINS);
    case MC_KEY_NULLABLE:
    case MC_KEY_THEN:
    case MC_KEY_ELSE:
    case MC_KEY_MIN_CONTAINS:
    case MC_KEY_MAX_CONTAINS:
    case MC_KEY_ADDITIONAL_ITEMS:
        return true; /* they say nothing by themselves */
    default:
        *unsupported = true;
        return true;
    }
}

static bool fail_left_out(mc_schema *s, mc_keyword key) {
    mc_schema_fail(s, MICA_EUNSUPPORTED, mc_keyword_name(key),
                   "not supported where it must not hold (not, if, oneOf)");
    return false;
}

/* A schema does not hold. Ways that are not supported are left out if there are others: fewer
 * documents are written then. */
static bool deny_schema(const clauses *e, draft *d, const mc_keywords *k, const task *t) {
    mc_schema *s = e->s;
    mc_keyword left_out = MC_KEY_COUNT;
    choice *c = add_choice(s, d);
    if (!c) return false;
    for (int i = 0; i < MC_KEY_COUNT; i++) {
        bool unsupported = false;
        if (!mc_has(k, (mc_keyword)i)) continue;
        if (!deny(s, c, k, t, (mc_keyword)i, &unsupported)) return false;
        if (unsupported) left_out = (mc_keyword)i;
    }
    if (left_out == MC_KEY_COUNT) return true;
    *e->left_out_at = t->literal.pointer;
    *e->left_out = left_out;
    return c->ways || fail_left_out(s, left_out);
}

/* ---- clauses ---- */

/* Whether a literal holds by itself, which makes it impossible. */
static bool is_within_itself(mc_schema *s, const task *t) {
    size_t step = 1 + strlen(t->literal.pointer) / 256;
    for (const task *by = t->by; by && mc_schema_work(s, step); by = by->by)
        if (strcmp(by->literal.pointer, t->literal.pointer) == 0) return true;
    return false;
}

/* Whether a literal was looked at. *impossible: its opposite was. */
static bool was_seen(mc_schema *s, const draft *d, const task *t, bool *impossible) {
    size_t step = 1 + strlen(t->literal.pointer) / 256;
    for (const task *seen = d->seen; seen; seen = seen->next) {
        if (!mc_schema_work(s, step)) return true;
        if (strcmp(seen->literal.pointer, t->literal.pointer) != 0) continue;
        *impossible = seen->literal.negated != t->literal.negated;
        return true;
    }
    return false;
}

static bool take_clause(const clauses *e, draft *d, const task *t) {
    mc_schema *s = e->s;
    mc_keywords k;
    bool truth;
    if (is_within_itself(s, t)) return d->impossible = true, true;
    if (was_seen(s, d, t, &d->impossible)) return s->b->status == MICA_OK;
    task *seen = need(s, sizeof *seen);
    if (!seen) return false;
    *seen = (task){t->literal, t->by, (task *)d->seen};
    d->seen = seen;
    s->pointer = t->literal.pointer;
    if (mc_json_get_bool(t->literal.schema, &truth)) {
        d->impossible = d->impossible || truth == t->literal.negated;
        return true;
    }
    if (mc_json_get_type(t->literal.schema) != MC_JSON_OBJECT) {
        mc_schema_fail(s, MICA_EFORMAT, "", "want a schema: an object, true or false");
        return false;
    }
    if (!mc_schema_keywords(s, t->literal.schema, &k)) return false;
    if (!t->literal.negated) return take_schema(e, d, &k, t);
    if (mc_has(&k, MC_KEY_IF) && (mc_has(&k, MC_KEY_THEN) || mc_has(&k, MC_KEY_ELSE))) {
        int count = 0;
        for (int i = 0; i < MC_KEY_COUNT; i++)
            count += mc_has(&k, (mc_keyword)i);
        if (count == 1 + mc_has(&k, MC_KEY_THEN) + mc_has(&k, MC_KEY_ELSE))
            return take_branches(s, d, &k, t, true);
    }
    return deny_schema(e, d, &k, t);
}

static bool finish(const clauses *e, draft *d) {
    mc_schema *s = e->s;
    mc_clause c = d->clause;
    if (MC_BUFFER_COUNT(e->made, mc_clause) >= MAX_CLAUSES) {
        mc_schema_fail(s, MICA_EUNSUPPORTED, "", "more than %d combinations of alternatives",
                       MAX_CLAUSES);
        return false;
    }
    if (!c.typed && d->about) c.types &= d->about;
    return mc_buffer_add(e->made, &c, sizeof c) || (mc_schema_nomem(s), false);
}

static bool expand(const clauses *e, draft *d, int depth);

/* Goes one of the ways of a choice. */
static bool go(const clauses *e, const draft *from, const way *w, int depth) {
    draft d = *from;
    d.clause.types &= w->types;
    d.clause.typed = d.clause.typed || w->types != MC_TYPE_ANY;
    for (const mc_fact *f = w->facts; f; f = f->before)
        if (!add_fact(e->s, &d.clause.facts, *f)) return false;
    for (const task *t = w->tasks; t; t = t->next)
        if (!add_task(e->s, &d.todo, t->literal.schema, t->literal.pointer, t->literal.negated,
                      t->by))
            return false;
    return expand(e, &d, depth + 1);
}

/* Whether a member must be there and must not. */
static bool contradicts(mc_schema *s, const mc_clause *c) {
    size_t compared = 0;
    for (const mc_fact *f = c->facts; f; f = f->before) {
        if (!mc_schema_work(s, compared / 8)) return true;
        compared = 0;
        for (const mc_fact *g = f->before; g; g = g->before, compared++)
            if (f->kind + g->kind == MC_FACT_REQUIRED + MC_FACT_ABSENT && f->kind != g->kind &&
                (f->kind == MC_FACT_REQUIRED || f->kind == MC_FACT_ABSENT) &&
                mc_str_eq(f->name, g->name))
                return true;
    }
    return false;
}

/* Makes the clauses of a draft. Recursion is as deep as there are choices. */
static bool expand(const clauses *e, draft *d, int depth) {
    enum { MAX_DEPTH = 200 };
    while (d->todo) {
        const task *t = d->todo;
        d->todo = t->next;
        if (!take_clause(e, d, t)) return false;
        if (d->impossible || !d->clause.types) return e->s->b->status == MICA_OK;
    }
    if (contradicts(e->s, &d->clause)) return e->s->b->status == MICA_OK;
    if (!d->choices) return finish(e, d);
    if (depth > MAX_DEPTH) {
        mc_schema_fail(e->s, MICA_EUNSUPPORTED, "", "more than %d alternatives", MAX_DEPTH);
        return false;
    }
    const choice *c = d->choices;
    d->choices = c->next;
    for (const way *w = c->ways; w; w = w->next)
        if (!go(e, d, w, depth)) return false;
    return true;
}

bool mc_schema_clauses(mc_schema *s, const mc_literal *all, size_t count, mc_buffer *made) {
    const char *left_out_at = NULL;
    mc_keyword left_out = MC_KEY_COUNT;
    const clauses e = {s, all, count, made, &left_out_at, &left_out};
    draft d = {.clause = {.all = all, .count = count, .types = MC_TYPE_ANY}};
    for (size_t i = count; i-- > 0;) /* the first one is looked at first */
        if (!add_task(s, &d.todo, all[i].schema, all[i].pointer, all[i].negated, NULL))
            return false;
    if (!expand(&e, &d, 0) || s->b->status != MICA_OK) return false;
    if (made->len || !left_out_at) return true;
    s->pointer = left_out_at; /* what was left out may be all that there is */
    return fail_left_out(s, left_out);
}

/* ---- what clauses say ---- */

const mc_group **mc_clause_groups(mc_schema *s, const mc_clause *c, size_t *count) {
    *count = 0;
    for (const mc_group *g = c->groups; g; g = g->before)
        ++*count;
    const mc_group **groups = mc_arena_alloc(&s->arena, *count * sizeof *groups);
    if (!groups) return mc_schema_nomem(s), NULL;
    size_t i = *count;
    for (const mc_group *g = c->groups; g; g = g->before)
        groups[--i] = g;
    return groups;
}

bool mc_clause_has(const mc_clause *c, mc_keyword key) {
    for (const mc_group *g = c->groups; g; g = g->before)
        if (mc_has(&g->k, key)) return true;
    for (const mc_fact *f = c->facts; f; f = f->before)
        if (f->kind == MC_FACT_LIMIT && f->key == key) return true;
    return false;
}

bool mc_clause_count(mc_schema *s, const mc_clause *c, mc_keyword key, int64_t fallback,
                     int64_t *count) {
    bool max = strncmp(mc_keyword_name(key), "max", 3) == 0, given = false;
    int64_t one;
    *count = fallback;
    for (const mc_group *g = c->groups; g; g = g->before) {
        if (!mc_has(&g->k, key)) continue;
        s->pointer = g->pointer;
        if (!mc_schema_count(s, &g->k, key, 0, &one)) return false;
        if (!given || (max ? one < *count : one > *count)) *count = one;
        given = true;
    }
    for (const mc_fact *f = c->facts; f; f = f->before) {
        if (f->kind != MC_FACT_LIMIT || f->key != key || !mc_json_get_int(f->value, &one)) continue;
        one += f->offset;
        if (!given || (max ? one < *count : one > *count)) *count = one;
        given = true;
    }
    return true;
}
