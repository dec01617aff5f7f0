/* Filters of single values, and the table of all. */
#include "text/jinja/jinja_container.h"
#include "text/jinja/jinja_run.h"
#include "text/jinja/jinja_str.h"

#include <math.h>
#include <stdio.h>

/* The filtered value as text, by str(). */
static mc_str self_text(mc_jrun *r, const mc_jcall *c) {
    return mc_jto_str(r, c->self).text;
}

/* -- case, ends, parts -- */

static mc_jvalue filter_upper(mc_jrun *r, const mc_jcall *c) {
    return mc_jstr_case(r, self_text(r, c), MC_J_UPPER);
}

static mc_jvalue filter_lower(mc_jrun *r, const mc_jcall *c) {
    return mc_jstr_case(r, self_text(r, c), MC_J_LOWER);
}

static mc_jvalue filter_capitalize(mc_jrun *r, const mc_jcall *c) {
    return mc_jstr_case(r, self_text(r, c), MC_J_CAPITALIZE);
}

static mc_jvalue filter_title(mc_jrun *r, const mc_jcall *c) {
    return mc_jstr_case(r, self_text(r, c), MC_J_TITLE_FILTER);
}

static mc_jvalue filter_trim(mc_jrun *r, const mc_jcall *c) {
    mc_str chars = mc_jarg_str(r, c, 0, NULL);
    return mc_jstr(mc_jstr_strip(r, self_text(r, c), chars, MC_J_BOTH));
}

static mc_jvalue filter_replace(mc_jrun *r, const mc_jcall *c) {
    mc_str old = mc_jto_str(r, c->args[0]).text, with = mc_jto_str(r, c->args[1]).text;
    return mc_jstr_replace(r, self_text(r, c), old, with, mc_jarg_int(r, c, 2, -1));
}

static mc_jvalue filter_string(mc_jrun *r, const mc_jcall *c) {
    return mc_jto_str(r, c->self);
}

static mc_jvalue filter_safe(mc_jrun *r, const mc_jcall *c) {
    mc_jvalue text = mc_jto_str(r, c->self);
    text.why = 1;
    return text;
}

static mc_jvalue filter_escape(mc_jrun *r, const mc_jcall *c) {
    size_t mark = mc_jmark(r);
    mc_jput_escaped(r, mc_jto_str(r, c->self));
    mc_jvalue text = mc_jtake(r, mark);
    text.why = 1;
    return text;
}

/* An indentation of v spaces, or the text v; None: `otherwise` spaces. */
static mc_str indentation(mc_jrun *r, mc_jvalue v, int64_t otherwise) {
    if (mc_jis(v, MC_J_STR)) return v.text;
    const mc_jcall call = {.args = &v, .count = 1};
    size_t mark = mc_jmark(r);
    for (int64_t i = mc_jarg_int(r, &call, 0, otherwise); i > 0 && r->status == MICA_OK; i--)
        mc_jput(r, MC_STR(" "));
    return mc_jtake(r, mark).text;
}

/* Indents all lines but the first; empty lines only if `blank`. */
static mc_jvalue filter_indent(mc_jrun *r, const mc_jcall *c) {
    bool first = mc_jarg_truth(c, 1), blank = mc_jarg_truth(c, 2);
    mc_str text = self_text(r, c), by = indentation(r, c->args[0], 4);
    size_t mark = mc_jmark(r);
    mc_jput(r, text);
    mc_jput(r, MC_STR("\n")); /* a final newline then ends a line, as in Jinja */
    const mc_jlist *lines = mc_jstr_lines(r, mc_jtake(r, mark).text);
    for (size_t i = 0; i < lines->count && r->status == MICA_OK; i++) {
        mc_str line = lines->items[i].text;
        if (i) mc_jput(r, MC_STR("\n"));
        if (i ? blank || line.len : first) mc_jput(r, by);
        mc_jput(r, line);
    }
    return mc_jtake(r, mark);
}

static mc_jvalue filter_format(mc_jrun *r, const mc_jcall *c) {
    mc_jlist args = {.items = NULL};
    if (c->count && c->named->count) {
        mc_jerror(r, "can't handle positional and keyword arguments at the same time");
    }
    for (size_t i = 0; i < c->count; i++)
        mc_jlist_push(r, &args, c->args[i]);
    mc_jdict named = *c->named;
    mc_jvalue values =
        named.count ? mc_jdict_value(MC_J_DICT, &named) : mc_jlist_value(MC_J_TUPLE, &args);
    return mc_jformat_percent(r, self_text(r, c), values);
}

/* -- numbers -- */

static mc_jvalue filter_abs(mc_jrun *r, const mc_jcall *c) {
    mc_jvalue v = c->self;
    if (mc_jis(v, MC_J_FLOAT)) return mc_jfloat(fabs(v.real));
    if (mc_jis_number(v) && mc_jinteger(v) >= 0) return mc_jint(mc_jinteger(v));
    return mc_jnegative(r, v);
}

static mc_str without_sign(mc_str text, bool *negative) {
    *negative = text.len && text.ptr[0] == '-';
    bool sign = text.len && (text.ptr[0] == '-' || text.ptr[0] == '+');
    return (mc_str){text.ptr + sign, text.len - sign};
}

static bool text_to_float(mc_jrun *r, mc_str text, double *out) {
    bool negative;
    text = without_sign(mc_jstr_strip(r, text, (mc_str){0}, MC_J_BOTH), &negative);
    mc_jcharge(r, 128); /* strtod of many digits */
    mc_jcharge_scan(r, text.len);
    if (!mc_jparse_float(text, out)) return false;
    if (negative) *out = -*out;
    return true;
}

static bool float_to_int(double real, int64_t *out) {
    if (!(fabs(real) < 0x1p63)) return false;
    *out = (int64_t)real;
    return true;
}

static mc_jvalue otherwise(const mc_jcall *c, mc_jvalue without) {
    return mc_jis(c->args[0], MC_J_ABSENT) ? without : c->args[0];
}

static mc_jvalue real_to_int(mc_jrun *r, const mc_jcall *c, double real) {
    int64_t n = 0;
    if (isnan(real)) return otherwise(c, mc_jint(0));
    if (!float_to_int(real, &n)) mc_jerror(r, "int: an integer beyond 64 bits");
    return mc_jint(n);
}

static mc_jvalue text_to_int(mc_jrun *r, const mc_jcall *c, mc_str text) {
    bool negative;
    double real;
    int64_t n, base = mc_jarg_int(r, c, 1, 10);
    mc_str digits = without_sign(mc_jstr_strip(r, text, (mc_str){0}, MC_J_BOTH), &negative);
    mc_jcharge_scan(r, digits.len);
    if (base >= 2 && base <= 36 && mc_jparse_int(digits, (unsigned)base, &n))
        return mc_jint(negative ? -n : n);
    return text_to_float(r, text, &real) ? real_to_int(r, c, real) : otherwise(c, mc_jint(0));
}

static mc_jvalue filter_int(mc_jrun *r, const mc_jcall *c) {
    mc_jvalue v = c->self;
    if (mc_jis(v, MC_J_STR)) return text_to_int(r, c, v.text);
    if (mc_jis_number(v)) {
        return mc_jis(v, MC_J_FLOAT) ? real_to_int(r, c, v.real) : mc_jint(mc_jinteger(v));
    }
    if (mc_jis(v, MC_J_UNDEFINED)) mc_jfail_undefined(r, v);
    return otherwise(c, mc_jint(0));
}

static mc_jvalue filter_float(mc_jrun *r, const mc_jcall *c) {
    double real;
    if (mc_jis_number(c->self)) return mc_jfloat(mc_jreal(c->self));
    if (mc_jis(c->self, MC_J_STR) && text_to_float(r, c->self.text, &real)) return mc_jfloat(real);
    if (mc_jis(c->self, MC_J_UNDEFINED)) mc_jfail_undefined(r, c->self);
    return otherwise(c, mc_jfloat(0));
}

/* Rounds exactly, halves to even: prints the digits and reads them back. */
static double round_common(double v, int precision) {
    char text[420];
    double rounded = v;
    if (!isfinite(v) || precision > 300) return v;
    if (precision < 0) {
        double unit = pow(10, -precision);
        return rint(v / unit) * unit;
    }
    int len = snprintf(text, sizeof text, "%.*f", precision, fabs(v));
    if (len < 0 || (size_t)len >= sizeof text) return v;
    if (precision) text[len - precision - 1] = '.'; /* replaces the locale's decimal point */
    if (!mc_jparse_float((mc_str){text, (size_t)len}, &rounded)) return v;
    return v < 0 ? -rounded : rounded;
}

static mc_jvalue filter_round(mc_jrun *r, const mc_jcall *c) {
    int64_t precision = mc_jarg_int(r, c, 0, 0);
    mc_str method = mc_jarg_str(r, c, 1, "common");
    bool common = mc_str_is(method, "common"), up = mc_str_is(method, "ceil");
    if (!mc_jis_number(c->self)) return mc_jnegative(r, c->self); /* for its error */
    if (!common && !up && !mc_str_is(method, "floor"))
        mc_jerror(r, "method must be common, ceil or floor");
    if (precision < -300 || precision > 300) mc_jerror(r, "round: a precision beyond 300 digits");
    if (r->status != MICA_OK) return mc_jnone();
    if (common && !mc_jis(c->self, MC_J_FLOAT) && precision >= 0)
        return mc_jint(mc_jinteger(c->self));
    double v = mc_jreal(c->self), unit = pow(10, (double)precision);
    if (!common) return mc_jfloat((up ? ceil(v * unit) : floor(v * unit)) / unit);
    mc_jcharge(r, 512); /* printf and strtod of up to 600 digits */
    double rounded = round_common(v, (int)precision);
    int64_t whole;
    if (!mc_jis(c->self, MC_J_FLOAT) && float_to_int(rounded, &whole)) return mc_jint(whole);
    return mc_jfloat(rounded);
}

/* -- others -- */

static mc_jvalue filter_default(mc_jrun *r, const mc_jcall *c) {
    (void)r;
    bool lacks = mc_jis(c->self, MC_J_UNDEFINED) || (mc_jarg_truth(c, 1) && !mc_jtruth(c->self));
    return lacks ? otherwise(c, mc_jstr(MC_STR(""))) : c->self;
}

static mc_jvalue filter_tojson(mc_jrun *r, const mc_jcall *c) {
    bool lines = c->args[1].kind != MC_J_ABSENT && c->args[1].kind != MC_J_NONE;
    bool separated = c->args[2].kind != MC_J_ABSENT && c->args[2].kind != MC_J_NONE;
    mc_jjson_format format = {.ascii = mc_jarg_truth(c, 0),
                              .sort = mc_jarg_truth(c, 3),
                              .lines = lines,
                              .comma = lines ? MC_STR(",") : MC_STR(", "),
                              .colon = MC_STR(": ")};
    if (lines) format.indent = indentation(r, c->args[1], 0);
    if (separated) {
        const mc_jlist *parts = mc_jelements(r, c->args[2]);
        const mc_jcall both = {.args = parts->items, .count = parts->count};
        if (parts->count != 2) mc_jerror(r, "tojson: separators are two strings");
        format.comma = mc_jarg_str(r, &both, 0, "");
        format.colon = mc_jarg_str(r, &both, 1, "");
    }
    size_t mark = mc_jmark(r);
    mc_jput_json(r, c->self, &format);
    return mc_jtake(r, mark);
}

static const mc_jbuiltin filters[] = {
    {"abs", "", 0, filter_abs},
    {"capitalize", "", 0, filter_capitalize},
    {"d", "default_value boolean", 0, filter_default},
    {"default", "default_value boolean", 0, filter_default},
    {"e", "", 0, filter_escape},
    {"escape", "", 0, filter_escape},
    {"float", "default", 0, filter_float},
    {"format", "*", 0, filter_format},
    {"indent", "width first blank", 0, filter_indent},
    {"int", "default base", 0, filter_int},
    {"lower", "", 0, filter_lower},
    {"replace", "old new count", 2, filter_replace},
    {"round", "precision method", 0, filter_round},
    {"safe", "", 0, filter_safe},
    {"string", "", 0, filter_string},
    {"title", "", 0, filter_title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {"trim", "chars", 0, filter_trim},
    {"upper", "", 0, filter_upper},
#define ROW(name, function, params, required) {name, params, required, mc_jseq_##function},
    MC_J_SEQUENCE_FILTERS(ROW)
#undef ROW
};

const mc_jbuiltin *mc_jfilter_find(mc_str name) {
    return mc_jbuiltin_find(filters, sizeof filters / sizeof *filters, name);
}
