/* Tests, which follow `is`. */
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"

#include "base/utf8.h"

static mc_jvalue test_boolean(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_BOOL));
}

static mc_jvalue test_callable(mc_jrun *r, const mc_jcall *c) {
    (void)r; /* Python's Undefined is callable: it has a __call__, which fails */
    return mc_jbool(mc_jis(c->self, MC_J_FUNCTION) || mc_jis(c->self, MC_J_MACRO) ||
                    mc_jis(c->self, MC_J_UNDEFINED));
}

static mc_jvalue test_defined(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(!mc_jis(c->self, MC_J_UNDEFINED));
}

static mc_jvalue test_undefined(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_UNDEFINED));
}

static bool has_remainder(mc_jrun *r, mc_jvalue v, mc_jvalue divisor, int64_t remainder) {
    return mc_jequal(r, mc_jbinary(r, MC_OP_MOD, v, divisor), mc_jint(remainder));
}

static mc_jvalue test_divisibleby(mc_jrun *r, const mc_jcall *c) {
    return mc_jbool(has_remainder(r, c->self, c->args[0], 0));
}

static mc_jvalue test_even(mc_jrun *r, const mc_jcall *c) {
    return mc_jbool(has_remainder(r, c->self, mc_jint(2), 0));
}

static mc_jvalue test_odd(mc_jrun *r, const mc_jcall *c) {
    return mc_jbool(has_remainder(r, c->self, mc_jint(2), 1));
}

static mc_jvalue test_eq(mc_jrun *r, const mc_jcall *c) {
    return mc_jbinary(r, MC_OP_EQ, c->self, c->args[0]);
}

static mc_jvalue test_ne(mc_jrun *r, const mc_jcall *c) {
    return mc_jbinary(r, MC_OP_NE, c->self, c->args[0]);
}

static mc_jvalue test_lt(mc_jrun *r, const mc_jcall *c) {
    return mc_jbinary(r, MC_OP_LT, c->self, c->args[0]);
}

static mc_jvalue test_le(mc_jrun *r, const mc_jcall *c) {
    return mc_jbinary(r, MC_OP_LE, c->self, c->args[0]);
}

static mc_jvalue test_gt(mc_jrun *r, const mc_jcall *c) {
    return mc_jbinary(r, MC_OP_GT, c->self, c->args[0]);
}

static mc_jvalue test_ge(mc_jrun *r, const mc_jcall *c) {
    return mc_jbinary(r, MC_OP_GE, c->self, c->args[0]);
}

static mc_jvalue test_in(mc_jrun *r, const mc_jcall *c) {
    return mc_jbinary(r, MC_OP_IN, c->self, c->args[0]);
}

static mc_jvalue test_false(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_BOOL) && !c->self.truth);
}

static mc_jvalue test_true(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_BOOL) && c->self.truth);
}

static mc_jvalue test_float(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_FLOAT));
}

static mc_jvalue test_integer(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_INT));
}

static mc_jvalue test_number(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis_number(c->self));
}

static mc_jvalue test_iterable(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis_iterable(c->self));
}

static mc_jvalue test_sequence(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis_iterable(c->self) && !mc_jis(c->self, MC_J_ITERATOR));
}

static mc_jvalue test_mapping(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_DICT));
}

static mc_jvalue test_none(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_NONE));
}

static mc_jvalue test_string(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    return mc_jbool(mc_jis(c->self, MC_J_STR));
}

/* Python's `is`: two containers are the same if they are one object. */
static mc_jvalue test_sameas(mc_jrun *r, const mc_jcall *c) {
    mc_jvalue a = c->self, b = c->args[0];
    if (a.kind != b.kind) return mc_jbool(false);
    if (mc_jis_list(a)) return mc_jbool(a.list == b.list);
    if (mc_jis(a, MC_J_DICT)) return mc_jbool(a.dict == b.dict);
    return mc_jbool(mc_jequal(r, a, b));
}

/* True if v has a cased letter, and `map` (mc_jupper or mc_jlower) changes none. */
static mc_jvalue is_case(mc_jrun *r, mc_jvalue v, uint32_t (*map)(uint32_t)) {
    mc_str text = mc_jto_str(r, v).text;
    bool cased = false;
    for (size_t at = 0, n; at < text.len && r->status == MICA_OK; at += n) {
        uint32_t c = 0;
        mc_jcharge(r, 2);
        n = mc_jstr_next(text, at);
        mc_utf8_decode(text.ptr + at, n, &c);
        if (map(c) != c) return mc_jbool(false);
        cased = cased || mc_jis_cased(c);
    }
    return mc_jbool(cased);
}

static mc_jvalue test_lower(mc_jrun *r, const mc_jcall *c) {
    return is_case(r, c->self, mc_jlower);
}

static mc_jvalue test_upper(mc_jrun *r, const mc_jcall *c) {
    return is_case(r, c->self, mc_jupper);
}

static mc_jvalue test_filter(mc_jrun *r, const mc_jcall *c) {
    mc_jcharge(r, 8);
    return mc_jbool(mc_jis(c->self, MC_J_STR) && mc_jfilter_find(c->self.text));
}

static mc_jvalue test_test(mc_jrun *r, const mc_jcall *c) {
    mc_jcharge(r, 8);
    return mc_jbool(mc_jis(c->self, MC_J_STR) && mc_jtest_find(c->self.text));
}

static const mc_jbuiltin tests[] = {
    {"!=", "other", 1, test_ne},
    {"<", "other", 1, test_lt},
    {"<=", "other", 1, test_le},
    {"==", "other", 1, test_eq},
    {">", "other", 1, test_gt},
    {">=", "other", 1, test_ge},
    {"boolean", "", 0, test_boolean},
    {"callable", "", 0, test_callable},
    {"defined", "", 0, test_defined},
    {"divisibleby", "num", 1, test_divisibleby},
    {"eq", "other", 1, test_eq},
    {"equalto", "other", 1, test_eq},
    {"even", "", 0, test_even},
    {"false", "", 0, test_false},
    {"filter", "", 0, test_filter},
    {"float", "", 0, test_float},
    {"ge", "other", 1, test_ge},
    {"greaterthan", "other", 1, test_gt},
    {"gt", "other", 1, test_gt},
    {"in", "seq", 1, test_in},
    {"integer", "", 0, test_integer},
    {"iterable", "", 0, test_iterable},
    {"le", "other", 1, test_le},
    {"lessthan", "other", 1, test_lt},
    {"lower", "", 0, test_lower},
    {"lt", "other", 1, test_lt},
    {"mapping", "", 0, test_mapping},
    {"ne", "other", 1, test_ne},
    {"none", "", 0, test_none},
    {"number", "", 0, test_number},
    {"odd", "", 0, test_odd},
    {"sameas", "other", 1, test_sameas},
    {"sequence", "", 0, test_sequence},
    {"string", "", 0, test_string},
    {"test", "", 0, test_test},
    {"true", "", 0, test_true},
    {"undefined", "", 0, test_undefined},
    {"upper", "", 0, test_upper},
};

const mc_jbuiltin *mc_jtest_find(mc_str name) {
    return mc_jbuiltin_find(tests, sizeof tests / sizeof *tests, name);
}
