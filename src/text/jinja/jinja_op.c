/* Operators, attributes, subscripts and slices. */
#include "text/jinja/jinja_container.h"
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"

#include <math.h>
#include <string.h>

/* -- arithmetic -- */

static const char *symbol(mc_jop op) {
    static const char *const symbols[] = {"+", "-", "~", "*", "/", "//", "%", "** or pow()"};
    return symbols[op];
}

static mc_jvalue bad_operands(mc_jrun *r, mc_jop op, mc_jvalue a, mc_jvalue b) {
    if (mc_jis(a, MC_J_UNDEFINED) || mc_jis(b, MC_J_UNDEFINED)) {
        mc_jfail_undefined(r, mc_jis(a, MC_J_UNDEFINED) ? a : b);
    } else if (op == MC_OP_ADD && mc_jis(a, MC_J_STR)) {
        mc_jerror(r, "can only concatenate str (not \"%s\") to str", mc_jtype(b.kind));
    } else {
        mc_jerror(r, "unsupported operand type(s) for %s: '%s' and '%s'", symbol(op),
                  mc_jtype(a.kind), mc_jtype(b.kind));
    }
    return mc_jnone();
}

static mc_jvalue too_large(mc_jrun *r) {
    mc_jerror(r, "an integer beyond 64 bits");
    return mc_jnone();
}

static mc_jvalue multiply(mc_jrun *r, int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (y && x > INT64_MAX / y) return too_large(r);
    return mc_jint((a < 0) != (b < 0) ? -(int64_t)(x * y) : (int64_t)(x * y));
}

static mc_jvalue power(mc_jrun *r, int64_t a, int64_t b) {
    mc_jvalue v = mc_jint(1);
    if (b < 0 && a == 0) {
        mc_jerror(r, "0.0 cannot be raised to a negative power");
        return v;
    }
    if (b < 0) return mc_jfloat(pow((double)a, (double)b));
    if (a == 0 || a == 1) return mc_jint(b == 0 ? 1 : a);
    if (a == -1) return mc_jint(b % 2 ? -1 : 1);
    for (; b > 0 && r->status == MICA_OK; b--) { /* overflows after at most 63 steps */
        mc_jcharge(r, 1);
        v = multiply(r, v.integer, a);
    }
    return v;
}

/* Division rounded towards minus infinity, as in Python; b is not zero. */
static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static mc_jvalue int_arithmetic(mc_jrun *r, mc_jop op, int64_t a, int64_t b) {
    bool minimum = a == INT64_MIN && b == -1;
    switch (op) {
    case MC_OP_ADD:
        if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return too_large(r);
        return mc_jint(a + b);
    case MC_OP_SUB:
        if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) return too_large(r);
        return mc_jint(a - b);
    case MC_OP_MUL:
        return multiply(r, a, b);
    case MC_OP_FLOORDIV:
        return minimum ? too_large(r) : mc_jint(floor_div(a, b));
    case MC_OP_MOD:
        return mc_jint(minimum ? 0 : a - floor_div(a, b) * b);
    case MC_OP_POW:
        return power(r, a, b);
    default:
        return mc_jfloat((double)a / (double)b);
    }
}

static double float_mod(double a, double b) {
    double m = fmod(a, b);
    return (m < 0 && b > 0) || (m > 0 && b < 0) ? m + b : m;
}

static mc_jvalue float_arithmetic(mc_jop op, double a, double b) {
    switch (op) {
    case MC_OP_ADD:
        return mc_jfloat(a + b);
    case MC_OP_SUB:
        return mc_jfloat(a - b);
    case MC_OP_MUL:
        return mc_jfloat(a * b);
    case MC_OP_FLOORDIV:
        return mc_jfloat(floor(a / b));
    case MC_OP_MOD:
        return mc_jfloat(float_mod(a, b));
    case MC_OP_POW:
        return mc_jfloat(pow(a, b));
    default:
        return mc_jfloat(a / b);
    }
}

static mc_jvalue arithmetic(mc_jrun *r, mc_jop op, mc_jvalue a, mc_jvalue b) {
    bool divides = op == MC_OP_DIV || op == MC_OP_FLOORDIV || op == MC_OP_MOD;
    if (divides && !mc_jtruth(b)) {
        mc_jerror(r, "division by zero");
        return mc_jnone();
    }
    bool real = mc_jis(a, MC_J_FLOAT) || mc_jis(b, MC_J_FLOAT);
    if (real && op == MC_OP_MOD) mc_jcharge(r, 128); /* fmod works bit by bit */
    if (real) return float_arithmetic(op, mc_jreal(a), mc_jreal(b));
    return int_arithmetic(r, op, mc_jinteger(a), mc_jinteger(b));
}

mc_jvalue mc_jnegative(mc_jrun *r, mc_jvalue v) {
    if (mc_jis(v, MC_J_FLOAT)) return mc_jfloat(-v.real);
    if (mc_jis_number(v)) return int_arithmetic(r, MC_OP_SUB, 0, mc_jinteger(v));
    if (mc_jis(v, MC_J_UNDEFINED)) {
        mc_jfail_undefined(r, v);
    } else {
        mc_jerror(r, "bad operand type for unary -: '%s'", mc_jtype(v.kind));
    }
    return mc_jnone();
}

/* -- sequences -- */

static mc_jvalue concat(mc_jrun *r, mc_jvalue a, mc_jvalue b) {
    size_t mark = mc_jmark(r);
    mc_jput_value(r, a);
    mc_jput_value(r, b);
    return mc_jtake(r, mark);
}

/* Of texts. HTML stays that, and what it is added to is escaped. */
static mc_jvalue add_texts(mc_jrun *r, mc_jvalue a, mc_jvalue b) {
    if (!a.why && !b.why) return concat(r, a, b);
    size_t mark = mc_jmark(r);
    mc_jput_escaped(r, a);
    mc_jput_escaped(r, b);
    mc_jvalue text = mc_jtake(r, mark);
    text.why = 1;
    return text;
}

static mc_jvalue join_lists(mc_jrun *r, mc_jvalue a, mc_jvalue b) {
    mc_jlist *list = mc_jlist_new(r);
    for (size_t i = 0; i < a.list->count + b.list->count && r->status == MICA_OK; i++) {
        bool first = i < a.list->count;
        mc_jlist_push(r, list, first ? a.list->items[i] : b.list->items[i - a.list->count]);
    }
    return mc_jlist_value((mc_jkind)a.kind, list);
}

static mc_jvalue repeat(mc_jrun *r, mc_jvalue v, int64_t times) {
    size_t mark = mc_jmark(r);
    mc_jlist *list = mc_jlist_new(r);
    bool empty = !mc_jtruth(v);
    for (int64_t i = 0; i < times && !empty && r->status == MICA_OK; i++) {
        if (mc_jis(v, MC_J_STR)) mc_jput(r, v.text);
        for (size_t k = 0; mc_jis_list(v) && k < v.list->count; k++)
            mc_jlist_push(r, list, v.list->items[k]);
    }
    if (!mc_jis(v, MC_J_STR)) return mc_jlist_value((mc_jkind)v.kind, list);
    mc_jvalue text = mc_jtake(r, mark);
    text.why = v.why;
    return text;
}

static bool is_sequence(mc_jvalue v) {
    return mc_jis(v, MC_J_STR) || mc_jis_list(v);
}

static bool is_whole(mc_jvalue v) {
    return mc_jis(v, MC_J_INT) || mc_jis(v, MC_J_BOOL);
}

static mc_jvalue compare(mc_jrun *r, mc_jop op, mc_jvalue a, mc_jvalue b) {
    switch (op) {
    case MC_OP_EQ:
        return mc_jbool(mc_jequal(r, a, b));
    case MC_OP_NE:
        return mc_jbool(!mc_jequal(r, a, b));
    case MC_OP_IN:
        return mc_jbool(mc_jcontains(r, b, a));
    case MC_OP_NOT_IN:
        return mc_jbool(!mc_jcontains(r, b, a));
    default:
        break;
    }
    bool nan = mc_jis_number(a) && mc_jis_number(b) && !mc_jequal(r, a, a) + !mc_jequal(r, b, b);
    int order = mc_jcompare(r, a, b);
    bool truth = op == MC_OP_LT   ? order < 0
                 : op == MC_OP_LE ? order <= 0
                 : op == MC_OP_GT ? order > 0
                                  : order >= 0;
    return mc_jbool(truth && !nan);
}

mc_jvalue mc_jbinary(mc_jrun *r, mc_jop op, mc_jvalue a, mc_jvalue b) {
    if (r->status != MICA_OK) return mc_jnone();
    if (op >= MC_OP_EQ) return compare(r, op, a, b);
    if (op == MC_OP_CONCAT) return concat(r, a, b);
    if (mc_jis_number(a) && mc_jis_number(b)) return arithmetic(r, op, a, b);
    if (op == MC_OP_ADD && mc_jis(a, MC_J_STR) && mc_jis(b, MC_J_STR)) return add_texts(r, a, b);
    if (op == MC_OP_ADD && mc_jis_list(a) && a.kind == b.kind) return join_lists(r, a, b);
    if (op == MC_OP_MUL && is_sequence(a) && is_whole(b)) return repeat(r, a, mc_jinteger(b));
    if (op == MC_OP_MUL && is_whole(a) && is_sequence(b)) return repeat(r, b, mc_jinteger(a));
    if (op == MC_OP_MOD && mc_jis(a, MC_J_STR)) return mc_jformat_percent(r, a.text, b);
    return bad_operands(r, op, a, b);
}

/* -- attributes and elements -- */

static mc_jvalue method_of(mc_jrun *r, mc_jvalue v, mc_str name) {
    const mc_jbuiltin *builtin = mc_jmethod_find((mc_jkind)v.kind, name);
    mc_jcharge(r, 4);
    mc_jvalue *self = builtin ? mc_jalloc(r, sizeof *self) : NULL;
    if (!self) return (mc_jvalue){.kind = MC_J_ABSENT};
    *self = v;
    return (mc_jvalue){.kind = MC_J_FUNCTION, .function = {builtin, self}};
}

static mc_jvalue neighbour(const mc_jloop *loop, size_t index, const char *why) {
    if (index < loop->items->count) return loop->items->items[index];
    return mc_jundefined(MC_J_HINT, MC_J_LOOP, mc_str_of(why));
}

/* loop.index and the like; ABSENT if the loop has no such attribute. */
static mc_jvalue loop_attr(const mc_jloop *loop, mc_str name) {
    int64_t index = (int64_t)loop->index, count = (int64_t)loop->items->count;
    if (mc_str_is(name, "index")) return mc_jint(index + 1);
    if (mc_str_is(name, "index0")) return mc_jint(index);
    if (mc_str_is(name, "revindex")) return mc_jint(count - index);
    if (mc_str_is(name, "revindex0")) return mc_jint(count - index - 1);
    if (mc_str_is(name, "first")) return mc_jbool(index == 0);
    if (mc_str_is(name, "last")) return mc_jbool(index == count - 1);
    if (mc_str_is(name, "length")) return mc_jint(count);
    if (mc_str_is(name, "depth")) return mc_jint(loop->depth + 1);
    if (mc_str_is(name, "depth0")) return mc_jint(loop->depth);
    if (mc_str_is(name, "previtem"))
        return neighbour(loop, loop->index - 1, "there is no previous item");
    if (mc_str_is(name, "nextitem"))
        return neighbour(loop, loop->index + 1, "there is no next item");
    return (mc_jvalue){.kind = MC_J_ABSENT};
}

/* Python's getattr(); ABSENT: there is no such attribute. */
static mc_jvalue python_attr(mc_jrun *r, mc_jvalue v, mc_str name) {
    mc_jvalue found = {.kind = MC_J_ABSENT};
    if (mc_jis(v, MC_J_LOOP)) found = loop_attr(v.loop, name);
    if (mc_jis(v, MC_J_NAMESPACE)) {
        const mc_jvalue *there = mc_jdict_find_str(r, v.dict, name);
        if (there) found = *there;
    }
    if (mc_jis(v, MC_J_MACRO) && mc_str_is(name, "name")) found = mc_jstr(v.macro->node->name);
    return mc_jis(found, MC_J_ABSENT) ? method_of(r, v, name) : found;
}

mc_jvalue mc_jget_attr(mc_jrun *r, mc_jvalue v, mc_str name) {
    if (mc_jis(v, MC_J_UNDEFINED)) {
        mc_jfail_undefined(r, v);
        return v;
    }
    mc_jvalue found = python_attr(r, v, name);
    if (!mc_jis(found, MC_J_ABSENT)) return found;
    const mc_jvalue *item = mc_jis(v, MC_J_DICT) ? mc_jdict_find_str(r, v.dict, name) : NULL;
    return item ? *item : mc_jundefined(MC_J_NO_ATTRIBUTE, (mc_jkind)v.kind, name);
}

/* The position of an index in a sequence of `count` elements; SIZE_MAX: out of range. */
static size_t place(int64_t index, size_t count) {
    if (index < 0) index += (int64_t)count;
    return index >= 0 && (uint64_t)index < count ? (size_t)index : SIZE_MAX;
}

static mc_jvalue no_element(mc_jrun *r, mc_jvalue v, mc_jvalue index) {
    size_t mark = mc_jmark(r);
    mc_jput_repr(r, index);
    return mc_jundefined(MC_J_NO_ELEMENT, (mc_jkind)v.kind, mc_jtake(r, mark).text);
}

mc_jvalue mc_jget_item(mc_jrun *r, mc_jvalue v, mc_jvalue index) {
    if (mc_jis(v, MC_J_UNDEFINED)) {
        mc_jfail_undefined(r, v);
        return v;
    }
    bool hashable = !mc_jis(index, MC_J_LIST) && !mc_jis(index, MC_J_DICT);
    if (mc_jis(v, MC_J_DICT) && hashable) {
        const mc_jvalue *item = mc_jdict_find(r, v.dict, index);
        if (item) return *item;
    } else if (mc_jis_list(v) && is_whole(index)) {
        size_t at = place(mc_jinteger(index), v.list->count);
        if (at != SIZE_MAX) return v.list->items[at];
    } else if (mc_jis(v, MC_J_STR) && is_whole(index)) {
        size_t at = place(mc_jinteger(index), mc_jstr_length(r, v.text));
        if (at != SIZE_MAX) {
            size_t byte = mc_jstr_offset(r, v.text, at);
            return mc_jstr((mc_str){v.text.ptr + byte, mc_jstr_next(v.text, byte)});
        }
    }
    if (!mc_jis(index, MC_J_STR)) return no_element(r, v, index);
    mc_jvalue found = python_attr(r, v, index.text);
    if (!mc_jis(found, MC_J_ABSENT)) return found;
    return mc_jundefined(MC_J_NO_ATTRIBUTE, (mc_jkind)v.kind, index.text);
}

mc_jvalue mc_jget_path(mc_jrun *r, mc_jvalue v, mc_str path) {
    for (;;) {
        int64_t index;
        const char *dot = path.len ? memchr(path.ptr, '.', path.len) : NULL;
        mc_str part = {path.ptr, dot ? (size_t)(dot - path.ptr) : path.len};
        mc_jcharge_scan(r, part.len);
        bool number = mc_jparse_int(part, 10, &index);
        v = mc_jget_item(r, v, number ? mc_jint(index) : mc_jstr(part));
        if (!dot || r->status != MICA_OK) return v;
        path = (mc_str){dot + 1, path.len - part.len - 1};
    }
}

/* -- slices -- */

/* A slice's bound, clipped to lowest .. highest as in Python; a negative bound counts from the
 * end. */
static int64_t bound(mc_jrun *r, mc_jvalue v, int64_t otherwise, int64_t count, int64_t lowest,
                     int64_t highest) {
    if (mc_jis(v, MC_J_NONE)) return otherwise;
    if (!is_whole(v)) {
        mc_jerror(r, "slice indices must be integers or None, not %s", mc_jtype(v.kind));
        return 0;
    }
    int64_t n = mc_jinteger(v);
    if (n < 0) n += count;
    return n < lowest ? lowest : n > highest ? highest : n;
}

/* Sets range to a slice's start, stop and step; false: the run failed. */
static bool slice_range(mc_jrun *r, const mc_jvalue bounds[3], int64_t count, int64_t range[3]) {
    int64_t by = bound(r, bounds[2], 1, 0, INT64_MIN, INT64_MAX);
    int64_t low = by > 0 ? 0 : -1, high = by > 0 ? count : count - 1;
    if (by == 0) mc_jerror(r, "slice step cannot be zero");
    range[0] = bound(r, bounds[0], by > 0 ? low : high, count, low, high);
    range[1] = bound(r, bounds[1], by > 0 ? high : low, count, low, high);
    range[2] = by;
    return r->status == MICA_OK;
}

static mc_jlist *slice_list(mc_jrun *r, const mc_jlist *all, const int64_t range[3]) {
    int64_t to = range[1], by = range[2];
    mc_jlist *some = mc_jlist_new(r);
    for (int64_t i = range[0]; (by > 0 ? i < to : i > to) && r->status == MICA_OK; i += by) {
        mc_jlist_push(r, some, all->items[i]);
        if (by > 0 ? by >= to - i : by <= to - i) break; /* i + by might overflow */
    }
    return some;
}

static mc_jvalue slice_str(mc_jrun *r, mc_jvalue v, const int64_t range[3]) {
    if (range[2] == 1) { /* the slice is contiguous */
        if (range[0] >= range[1]) return mc_jstr(MC_STR(""));
        size_t from = mc_jstr_offset(r, v.text, (size_t)range[0]);
        mc_str rest = {v.text.ptr + from, v.text.len - from};
        rest.len = mc_jstr_offset(r, rest, (size_t)(range[1] - range[0]));
        return mc_jstr(rest);
    }
    const mc_jlist *some = slice_list(r, mc_jelements(r, v), range);
    size_t mark = mc_jmark(r);
    for (size_t i = 0; i < some->count; i++)
        mc_jput(r, some->items[i].text);
    return mc_jtake(r, mark);
}

mc_jvalue mc_jslice(mc_jrun *r, mc_jvalue v, mc_jvalue start, mc_jvalue stop, mc_jvalue step) {
    const mc_jvalue bounds[] = {start, stop, step};
    int64_t range[3];
    if (mc_jis(v, MC_J_UNDEFINED)) mc_jfail_undefined(r, v);
    if (!is_sequence(v)) return mc_jundefined(MC_J_NO_ELEMENT, (mc_jkind)v.kind, MC_STR("slice"));
    if (!slice_range(r, bounds, (int64_t)mc_jlength(r, v), range)) return mc_jnone();
    if (mc_jis(v, MC_J_STR)) return slice_str(r, v, range);
    return mc_jlist_value((mc_jkind)v.kind, slice_list(r, v.list, range));
}
