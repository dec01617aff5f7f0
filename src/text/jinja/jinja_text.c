/* Values as text: str(), repr(), json.dumps(), and numbers from text. */
#include "text/jinja/jinja_str.h"

#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- numbers -- */

/* The shortest digits that read back as v; returns the exponent of the first. The locale's decimal
 * point is removed. */
static int shortest_digits(mc_jrun *r, double v, char digits[32]) {
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        mc_jcharge(r, 64);
        snprintf(text, sizeof text, "%.*e", precision, v);
        if (!(strtod(text, NULL) < v) && !(strtod(text, NULL) > v)) break;
    }
    size_t n = 0;
    char *exponent = strchr(text, 'e');
    for (const char *p = text; p < exponent; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    digits[n] = '\0';
    return atoi(exponent + 1);
}

static void put_digits(mc_jrun *r, const char *digits, int exponent) {
    int count = (int)strlen(digits);
    if (exponent < -4 || exponent >= 16) {
        mc_jputf(r, "%c%s%s", digits[0], count > 1 ? "." : "", digits + 1);
        mc_jputf(r, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        mc_jputf(r, "0.%.*s%s", -exponent - 1, "000", digits);
        return;
    }
    for (int i = 0; i <= exponent || i < count; i++) {
        if (i == exponent + 1) mc_jput(r, MC_STR("."));
        mc_jput(r, i < count ? (mc_str){digits + i, 1} : MC_STR("0"));
    }
    if (count <= exponent + 1) mc_jput(r, MC_STR(".0"));
}

static void put_float(mc_jrun *r, double v) {
    char digits[32];
    if (isnan(v)) {
        mc_jput(r, MC_STR("nan"));
        return;
    }
    if (signbit(v)) mc_jput(r, MC_STR("-"));
    if (isinf(v)) {
        mc_jput(r, MC_STR("inf"));
        return;
    }
    int exponent = shortest_digits(r, fabs(v), digits);
    put_digits(r, digits, exponent);
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    return c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 99;
}

bool mc_jparse_int(mc_str digits, unsigned base, int64_t *out) {
    uint64_t value = 0;
    if (digits.len == 0) return false;
    for (size_t i = 0; i < digits.len; i++) {
        unsigned digit = (unsigned)digit_value(digits.ptr[i]);
        if (digit >= base || value > ((uint64_t)INT64_MAX - digit) / base) return false;
        value = value * base + digit;
    }
    *out = (int64_t)value;
    return true;
}

/* Reads "12.5e3" as "125e2", so that the locale's decimal point does not matter. */
bool mc_jparse_float(mc_str digits, double *out) {
    char text[512];
    size_t n = 0, i = 0, whole = SIZE_MAX;
    long exponent = 0;
    for (; i < digits.len && n < 400; i++) {
        char c = digits.ptr[i];
        if (c == '.' && whole == SIZE_MAX) {
            whole = n;
        } else if (c >= '0' && c <= '9') {
            text[n++] = c;
        } else {
            break;
        }
    }
    if (n == 0) return false;
    if (i < digits.len) {
        mc_str rest = {digits.ptr + i + 1, digits.len - i - 1};
        int64_t value = 0;
        bool sign = rest.len && (rest.ptr[0] == '+' || rest.ptr[0] == '-');
        if (digits.ptr[i] != 'e' && digits.ptr[i] != 'E') return false;
        if (!mc_jparse_int((mc_str){rest.ptr + sign, rest.len - sign}, 10, &value)) return false;
        if (value > 9999) value = 9999;
        exponent = (long)(rest.ptr[0] == '-' ? -value : value);
    }
    if (whole != SIZE_MAX) exponent -= (long)(n - whole);
    snprintf(text + n, sizeof text - n, "e%ld", exponent);
    *out = strtod(text, NULL);
    return true;
}

/* -- repr() and str() -- */

/* False for characters that repr() writes as numbers: controls, unusual spaces, marks of
 * direction ... */
static bool is_printable(uint32_t c) {
    static const uint32_t not_printable[][2] = {
        {0, 0x1F},        {0x7F, 0xA0},     {0xAD, 0xAD},       {0x61C, 0x61C},
        {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200F},   {0x2028, 0x202F},
        {0x205F, 0x206F}, {0x3000, 0x3000}, {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},
        {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0xE00FF}, {0xF0000, 0x10FFFF},
    };
    for (size_t i = 0; i < sizeof not_printable / sizeof *not_printable; i++)
        if (c >= not_printable[i][0] && c <= not_printable[i][1]) return false;
    return true;
}

/* Puts the characters from `at` on that need no escape between quotes; returns where they end. */
static size_t put_plain(mc_jrun *r, mc_str text, size_t at, char quote, bool ascii) {
    size_t end = at;
    for (; end < text.len; end++) {
        unsigned char c = (unsigned char)text.ptr[end];
        if (c < 0x20 || c == '\\' || c == (unsigned char)quote || (ascii && c >= 0x7F)) break;
    }
    mc_jcharge_scan(r, end - at);
    mc_jput(r, (mc_str){text.ptr + at, end - at});
    return end;
}

static void put_repr_char(mc_jrun *r, uint32_t c, char quote) {
    static const char *const named = "\n\r\t", letters[] = "nrt";
    const char *name = c && c < 0x80 ? strchr(named, (int)c) : NULL;
    if (name) {
        mc_jputf(r, "\\%c", letters[name - named]);
    } else if (c == '\\' || c == (uint32_t)quote) {
        mc_jputf(r, "\\%c", (int)c);
    } else if (is_printable(c)) {
        mc_jput_char(r, c);
    } else if (c < 0x100) {
        mc_jputf(r, "\\x%02x", (unsigned)c);
    } else {
        mc_jputf(r, c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    }
}

static void put_repr_str(mc_jrun *r, mc_str text) {
    bool single = text.len && memchr(text.ptr, '\'', text.len);
    bool both = single && memchr(text.ptr, '"', text.len);
    char quote = single && !both ? '"' : '\'';
    mc_jputf(r, "%c", quote);
    for (size_t at = 0; at < text.len && r->status == MICA_OK;) {
        uint32_t c = 0;
        at = put_plain(r, text, at, quote, true);
        if (at == text.len) break;
        mc_utf8_decode(text.ptr + at, text.len - at, &c);
        at += mc_jstr_next(text, at);
        put_repr_char(r, c, quote);
    }
    mc_jputf(r, "%c", quote);
}

static void put_repr_list(mc_jrun *r, mc_jvalue v) {
    bool tuple = mc_jis(v, MC_J_TUPLE);
    mc_jput_text(r, tuple ? "(" : "[");
    for (size_t i = 0; i < v.list->count && r->status == MICA_OK; i++) {
        if (i) mc_jput(r, MC_STR(", "));
        mc_jput_repr(r, v.list->items[i]);
    }
    if (tuple && v.list->count == 1) mc_jput(r, MC_STR(","));
    mc_jput_text(r, tuple ? ")" : "]");
}

static void put_repr_dict(mc_jrun *r, const mc_jdict *dict) {
    mc_jput(r, MC_STR("{"));
    for (size_t i = 0; i < dict->count && r->status == MICA_OK; i++) {
        if (i) mc_jput(r, MC_STR(", "));
        mc_jput_repr(r, dict->pairs[i].key);
        mc_jput(r, MC_STR(": "));
        mc_jput_repr(r, dict->pairs[i].value);
    }
    mc_jput(r, MC_STR("}"));
}

static void put_repr_of(mc_jrun *r, mc_jvalue v) {
    switch ((mc_jkind)v.kind) {
    case MC_J_NONE:
        mc_jput(r, MC_STR("None"));
        break;
    case MC_J_BOOL:
        mc_jput_text(r, v.truth ? "True" : "False");
        break;
    case MC_J_INT:
        mc_jputf(r, "%" PRId64, v.integer);
        break;
    case MC_J_FLOAT:
        put_float(r, v.real);
        break;
    case MC_J_STR:
        put_repr_str(r, v.text);
        break;
    case MC_J_LIST:
    case MC_J_TUPLE:
        put_repr_list(r, v);
        break;
    case MC_J_DICT:
        put_repr_dict(r, v.dict);
        break;
    case MC_J_NAMESPACE:
        mc_jput(r, MC_STR("<Namespace "));
        put_repr_dict(r, v.dict);
        mc_jput(r, MC_STR(">"));
        break;
    case MC_J_UNDEFINED:
        mc_jput(r, MC_STR("Undefined"));
        break;
    default: /* Python prints an address */
        mc_jputf(r, "<%s>", mc_jtype(v.kind));
        break;
    }
}

void mc_jput_repr(mc_jrun *r, mc_jvalue v) {
    if (!mc_jenter(r)) return;
    put_repr_of(r, v);
    mc_jleave(r);
}

void mc_jput_value(mc_jrun *r, mc_jvalue v) {
    if (mc_jis(v, MC_J_STR)) {
        mc_jput(r, v.text);
    } else if (!mc_jis(v, MC_J_UNDEFINED)) {
        mc_jput_repr(r, v);
    }
}

mc_jvalue mc_jto_str(mc_jrun *r, mc_jvalue v) {
    if (mc_jis(v, MC_J_STR)) return v;
    size_t mark = mc_jmark(r);
    mc_jput_value(r, v);
    return mc_jtake(r, mark);
}

/* -- json.dumps() -- */

static void put_json_char(mc_jrun *r, uint32_t c, bool ascii) {
    static const char *const named = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const char *name = c && c < 0x80 ? strchr(named, (int)c) : NULL;
    if (name) {
        mc_jputf(r, "\\%c", letters[name - named]);
    } else if (c >= 0x10000 && ascii) {
        c -= 0x10000;
        mc_jputf(r, "\\u%04x\\u%04x", 0xD800 + (unsigned)(c >> 10), 0xDC00 + (unsigned)(c & 0x3FF));
    } else if (c < 0x20 || (ascii && c >= 0x7F)) {
        mc_jputf(r, "\\u%04x", (unsigned)c);
    } else {
        mc_jput_char(r, c);
    }
}

static void put_json_str(mc_jrun *r, mc_str text, bool ascii) {
    mc_jput(r, MC_STR("\""));
    for (size_t at = 0; at < text.len && r->status == MICA_OK;) {
        uint32_t c = 0;
        at = put_plain(r, text, at, '"', ascii);
        if (at == text.len) break;
        mc_utf8_decode(text.ptr + at, text.len - at, &c);
        at += mc_jstr_next(text, at);
        put_json_char(r, c, ascii);
    }
    mc_jput(r, MC_STR("\""));
}

static void put_json_line(mc_jrun *r, const mc_jjson_format *f, size_t level) {
    if (!f->lines) return;
    mc_jput(r, MC_STR("\n"));
    for (size_t i = 0; i < level && r->status == MICA_OK; i++)
        mc_jput(r, f->indent);
}

static void put_json(mc_jrun *r, mc_jvalue v, const mc_jjson_format *f, size_t level);

static void put_json_list(mc_jrun *r, const mc_jlist *list, const mc_jjson_format *f,
                          size_t level) {
    mc_jput(r, MC_STR("["));
    for (size_t i = 0; i < list->count && r->status == MICA_OK; i++) {
        if (i) mc_jput(r, f->comma);
        put_json_line(r, f, level + 1);
        put_json(r, list->items[i], f, level + 1);
    }
    if (list->count) put_json_line(r, f, level);
    mc_jput(r, MC_STR("]"));
}

/* Puts a key as a string. */
static void put_json_key(mc_jrun *r, mc_jvalue key, const mc_jjson_format *f) {
    if (mc_jis(key, MC_J_STR)) {
        put_json_str(r, key.text, f->ascii);
    } else if (mc_jis_number(key) || mc_jis(key, MC_J_NONE)) {
        mc_jput(r, MC_STR("\""));
        put_json(r, key, f, 0);
        mc_jput(r, MC_STR("\""));
    } else {
        mc_jerror(r, "keys must be str, int, float, bool or None, not %s", mc_jtype(key.kind));
    }
}

/* A dict sorted by key. Insertion sort: dicts are small. */
static mc_jdict sorted(mc_jrun *r, const mc_jdict *dict) {
    mc_jdict copy = {mc_jalloc(r, dict->count * sizeof *dict->pairs), dict->count, dict->count};
    if (!copy.pairs) return (mc_jdict){0};
    for (size_t i = 0; i < dict->count && r->status == MICA_OK; i++) {
        size_t at = i;
        for (; at > 0 && mc_jcompare(r, dict->pairs[i].key, copy.pairs[at - 1].key) < 0; at--)
            copy.pairs[at] = copy.pairs[at - 1];
        copy.pairs[at] = dict->pairs[i];
    }
    return copy;
}

static void put_json_dict(mc_jrun *r, const mc_jdict *given, const mc_jjson_format *f,
                          size_t level) {
    mc_jdict dict = f->sort && given->count ? sorted(r, given) : *given;
    mc_jput(r, MC_STR("{"));
    for (size_t i = 0; i < dict.count && r->status == MICA_OK; i++) {
        if (i) mc_jput(r, f->comma);
        put_json_line(r, f, level + 1);
        put_json_key(r, dict.pairs[i].key, f);
        mc_jput(r, f->colon);
        put_json(r, dict.pairs[i].value, f, level + 1);
    }
    if (dict.count) put_json_line(r, f, level);
    mc_jput(r, MC_STR("}"));
}

static void put_json_float(mc_jrun *r, double v) {
    if (isfinite(v)) {
        put_float(r, v);
    } else {
        mc_jput_text(r, isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity");
    }
}

static void put_json(mc_jrun *r, mc_jvalue v, const mc_jjson_format *f, size_t level) {
    if (!mc_jenter(r)) return;
    switch ((mc_jkind)v.kind) {
    case MC_J_NONE:
        mc_jput(r, MC_STR("null"));
        break;
    case MC_J_BOOL:
        mc_jput_text(r, v.truth ? "true" : "false");
        break;
    case MC_J_FLOAT:
        put_json_float(r, v.real);
        break;
    case MC_J_INT:
        mc_jput_repr(r, v);
        break;
    case MC_J_STR:
        put_json_str(r, v.text, f->ascii);
        break;
    case MC_J_LIST:
    case MC_J_TUPLE:
        put_json_list(r, v.list, f, level);
        break;
    case MC_J_DICT:
        put_json_dict(r, v.dict, f, level);
        break;
    default:
        mc_jerror(r, "Object of type %s is not JSON serializable", mc_jtype(v.kind));
        break;
    }
    mc_jleave(r);
}

void mc_jput_json(mc_jrun *r, mc_jvalue v, const mc_jjson_format *format) {
    put_json(r, v, format, 0);
}
