#include "text/jinja/jinja_value.h"

#include "base/utf8.h"

#include <string.h>

mc_jvalue mc_jundefined(mc_jwhy why, mc_jkind owner, mc_str text) {
    return (mc_jvalue){MC_J_UNDEFINED, (uint8_t)why, (uint8_t)owner, .text = text};
}

/* -- lists and dicts -- */

mc_jlist *mc_jlist_new(mc_jrun *r) {
    mc_jlist *list = mc_jalloc(r, sizeof *list);
    return list ? list : &r->no_list;
}

/* Makes room for one more item of `bytes`; false: no memory. */
static bool grow(mc_jrun *r, void **items, size_t count, size_t *cap, size_t bytes) {
    if (count < *cap) return true;
    size_t more = *cap ? *cap * 2 : 4;
    void *grown = mc_jalloc(r, more * bytes);
    if (!grown) return false;
    if (count) memcpy(grown, *items, count * bytes);
    *items = grown;
    *cap = more;
    return true;
}

void mc_jlist_push(mc_jrun *r, mc_jlist *list, mc_jvalue v) {
    void *items = list->items;
    mc_jcharge(r, 1);
    if (!grow(r, &items, list->count, &list->cap, sizeof v)) return;
    list->items = items;
    list->items[list->count++] = v;
}

mc_jvalue mc_jpair_value(mc_jrun *r, mc_jvalue a, mc_jvalue b) {
    mc_jlist *pair = mc_jlist_new(r);
    mc_jlist_push(r, pair, a);
    mc_jlist_push(r, pair, b);
    return mc_jlist_value(MC_J_TUPLE, pair);
}

mc_jdict *mc_jdict_new(mc_jrun *r) {
    mc_jdict *dict = mc_jalloc(r, sizeof *dict);
    return dict ? dict : &r->no_dict;
}

/* A linear search, charged in steps: dicts of templates are small. */
mc_jvalue *mc_jdict_find(mc_jrun *r, const mc_jdict *dict, mc_jvalue key) {
    if (mc_jis(key, MC_J_STR)) return mc_jdict_find_str(r, dict, key.text);
    if (mc_jis(key, MC_J_LIST) || mc_jis(key, MC_J_DICT)) {
        mc_jerror(r, "unhashable type: '%s'", mc_jtype(key.kind));
        return NULL;
    }
    for (size_t i = 0; i < dict->count; i++) {
        if (mc_jequal(r, dict->pairs[i].key, key)) return &dict->pairs[i].value;
    }
    return NULL;
}

mc_jvalue *mc_jdict_find_str(mc_jrun *r, const mc_jdict *dict, mc_str key) {
    mc_jcharge(r, (dict->count * (1 + key.len / 64) + 3) / 4);
    for (size_t i = 0; i < dict->count; i++) {
        mc_jpair *pair = &dict->pairs[i];
        if (mc_jis(pair->key, MC_J_STR) && mc_str_eq(pair->key.text, key)) return &pair->value;
    }
    return NULL;
}

void mc_jdict_put(mc_jrun *r, mc_jdict *dict, mc_jvalue key, mc_jvalue v) {
    void *pairs = dict->pairs;
    mc_jvalue *there = mc_jdict_find(r, dict, key);
    if (there) {
        *there = v;
    } else if (grow(r, &pairs, dict->count, &dict->cap, sizeof *dict->pairs)) {
        dict->pairs = pairs;
        dict->pairs[dict->count++] = (mc_jpair){key, v};
    }
}

/* -- from JSON -- */

static mc_jvalue from_container(mc_jrun *r, mc_json v, bool object) {
    mc_jlist *list = object ? NULL : mc_jlist_new(r);
    mc_jdict *dict = object ? mc_jdict_new(r) : NULL;
    for (mc_json_iter it = mc_json_begin(v); r->status == MICA_OK && mc_json_next(&it);) {
        mc_jvalue item = mc_jjson(r, it.value);
        if (object) {
            mc_jdict_put(r, dict, mc_jstr(it.key), item);
        } else {
            mc_jlist_push(r, list, item);
        }
    }
    return object ? mc_jdict_value(MC_J_DICT, dict) : mc_jlist_value(MC_J_LIST, list);
}

mc_jvalue mc_jjson(mc_jrun *r, mc_json v) {
    mc_jvalue out = mc_jnone();
    mc_json_type type = mc_json_get_type(v);
    switch (type) {
    case MC_JSON_BOOL:
        out.kind = MC_J_BOOL;
        mc_json_get_bool(v, &out.truth);
        break;
    case MC_JSON_INT:
        out.kind = MC_J_INT;
        mc_json_get_int(v, &out.integer);
        break;
    case MC_JSON_FLOAT:
        out.kind = MC_J_FLOAT;
        mc_json_get_float(v, &out.real);
        break;
    case MC_JSON_STRING:
        out.kind = MC_J_STR;
        mc_json_get_str(v, &out.text);
        r->given += out.text.len;
        break;
    case MC_JSON_ARRAY:
    case MC_JSON_OBJECT:
        if (!mc_jenter(r)) break;
        out = from_container(r, v, type == MC_JSON_OBJECT);
        mc_jleave(r);
        break;
    case MC_JSON_NONE:
    case MC_JSON_NULL:
        break;
    }
    return out;
}

/* -- looking -- */

bool mc_jis_list(mc_jvalue v) {
    return v.kind == MC_J_LIST || v.kind == MC_J_TUPLE;
}

bool mc_jis_number(mc_jvalue v) {
    return v.kind == MC_J_BOOL || v.kind == MC_J_INT || v.kind == MC_J_FLOAT;
}

bool mc_jis_iterable(mc_jvalue v) {
    return mc_jis_list(v) || v.kind == MC_J_STR || v.kind == MC_J_DICT || v.kind == MC_J_ITERATOR ||
           v.kind == MC_J_UNDEFINED;
}

int64_t mc_jinteger(mc_jvalue bool_or_int) {
    return bool_or_int.kind == MC_J_BOOL ? bool_or_int.truth : bool_or_int.integer;
}

double mc_jreal(mc_jvalue number) {
    return number.kind == MC_J_FLOAT ? number.real : (double)mc_jinteger(number);
}

bool mc_jtruth(mc_jvalue v) {
    switch ((mc_jkind)v.kind) {
    case MC_J_ABSENT:
    case MC_J_UNDEFINED:
    case MC_J_NONE:
        return false;
    case MC_J_BOOL:
        return v.truth;
    case MC_J_INT:
        return v.integer != 0;
    case MC_J_FLOAT:
        return v.real < 0 || v.real > 0 || v.real != v.real;
    case MC_J_STR:
        return v.text.len > 0;
    case MC_J_LIST:
    case MC_J_TUPLE:
        return v.list->count > 0;
    case MC_J_DICT:
        return v.dict->count > 0;
    default:
        return true;
    }
}

const char *mc_jtype(mc_jkind kind) {
    static const char *const names[] = {
        [MC_J_ABSENT] = "absent",     [MC_J_UNDEFINED] = "Undefined",
        [MC_J_NONE] = "NoneType",     [MC_J_BOOL] = "bool",
        [MC_J_INT] = "int",           [MC_J_FLOAT] = "float",
        [MC_J_STR] = "str",           [MC_J_LIST] = "list",
        [MC_J_TUPLE] = "tuple",       [MC_J_ITERATOR] = "generator",
        [MC_J_DICT] = "dict",         [MC_J_NAMESPACE] = "Namespace",
        [MC_J_LOOP] = "LoopContext",  [MC_J_MACRO] = "Macro",
        [MC_J_FUNCTION] = "function",
    };
    return names[kind];
}

void mc_jfail_undefined(mc_jrun *r, mc_jvalue v) {
    const char *type = v.owner == MC_J_NONE ? "None" : mc_jtype(v.owner);
    const char *object = v.owner == MC_J_NONE ? "" : " object";
    switch ((mc_jwhy)v.why) {
    case MC_J_NO_VARIABLE:
        mc_jerror(r, "'%.*s' is undefined", MC_STR_ARG(v.text));
        break;
    case MC_J_NO_ATTRIBUTE:
        mc_jerror(r, "'%s%s' has no attribute '%.*s'", type, object, MC_STR_ARG(v.text));
        break;
    case MC_J_NO_ELEMENT:
        mc_jerror(r, "%s%s has no element %.*s", type, object, MC_STR_ARG(v.text));
        break;
    case MC_J_HINT:
        mc_jerror(r, "%.*s", MC_STR_ARG(v.text));
        break;
    }
}

/* -- comparing -- */

static bool equal_lists(mc_jrun *r, const mc_jlist *a, const mc_jlist *b) {
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++)
        equal = mc_jequal(r, a->items[i], b->items[i]);
    return equal;
}

static bool equal_dicts(mc_jrun *r, const mc_jdict *a, const mc_jdict *b) {
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++) {
        const mc_jvalue *other = mc_jdict_find(r, b, a->pairs[i].key);
        equal = other && mc_jequal(r, a->pairs[i].value, *other);
    }
    return equal;
}

static int compare_numbers(mc_jvalue a, mc_jvalue b) {
    if (a.kind != MC_J_FLOAT && b.kind != MC_J_FLOAT) {
        int64_t x = mc_jinteger(a), y = mc_jinteger(b);
        return (x > y) - (x < y);
    }
    double x = mc_jreal(a), y = mc_jreal(b);
    return (x > y) - (x < y);
}

static bool is_nan(mc_jvalue v) {
    return v.kind == MC_J_FLOAT && v.real != v.real;
}

static bool equal_same_kind(mc_jrun *r, mc_jvalue a, mc_jvalue b) {
    switch ((mc_jkind)a.kind) {
    case MC_J_STR:
        mc_jcharge_copy(r, a.text.len);
        return mc_str_eq(a.text, b.text);
    case MC_J_LIST:
    case MC_J_TUPLE:
        return equal_lists(r, a.list, b.list);
    case MC_J_DICT:
        return equal_dicts(r, a.dict, b.dict);
    case MC_J_ITERATOR:
        return a.list == b.list;
    case MC_J_NAMESPACE:
        return a.dict == b.dict;
    case MC_J_LOOP:
        return a.loop == b.loop;
    case MC_J_MACRO:
        return a.macro == b.macro;
    case MC_J_FUNCTION:
        return a.function.builtin == b.function.builtin && a.function.self == b.function.self;
    default: /* None, undefined */
        return true;
    }
}

bool mc_jequal(mc_jrun *r, mc_jvalue a, mc_jvalue b) {
    bool equal = false;
    if (!mc_jenter(r)) return false;
    if (mc_jis_number(a) && mc_jis_number(b)) {
        equal = compare_numbers(a, b) == 0 && !is_nan(a) && !is_nan(b);
    } else if (a.kind == b.kind) {
        equal = equal_same_kind(r, a, b);
    }
    mc_jleave(r);
    return equal;
}

static int compare_lists(mc_jrun *r, const mc_jlist *a, const mc_jlist *b) {
    for (size_t i = 0; i < a->count && i < b->count && r->status == MICA_OK; i++) {
        if (!mc_jequal(r, a->items[i], b->items[i]))
            return mc_jcompare(r, a->items[i], b->items[i]);
    }
    return (a->count > b->count) - (a->count < b->count);
}

int mc_jcompare(mc_jrun *r, mc_jvalue a, mc_jvalue b) {
    int order = 0;
    if (!mc_jenter(r)) return 0;
    if (mc_jis_number(a) && mc_jis_number(b)) {
        order = compare_numbers(a, b);
    } else if (a.kind == MC_J_STR && b.kind == MC_J_STR) {
        size_t min = a.text.len < b.text.len ? a.text.len : b.text.len;
        mc_jcharge_copy(r, min);
        order = min ? memcmp(a.text.ptr, b.text.ptr, min) : 0; /* the order of codepoints, too */
        if (!order) order = (a.text.len > b.text.len) - (a.text.len < b.text.len);
    } else if (a.kind == b.kind && mc_jis_list(a)) {
        order = compare_lists(r, a.list, b.list);
    } else if (a.kind == MC_J_UNDEFINED || b.kind == MC_J_UNDEFINED) {
        mc_jfail_undefined(r, a.kind == MC_J_UNDEFINED ? a : b);
    } else {
        mc_jerror(r, "'<' not supported between instances of '%s' and '%s'", mc_jtype(a.kind),
                  mc_jtype(b.kind));
    }
    mc_jleave(r);
    return order;
}
