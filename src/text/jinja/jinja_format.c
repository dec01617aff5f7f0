/* Python's formatting: `%`, str.format() and strftime(). */
#include "text/jinja/jinja_str.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* -- % -- */

enum { MAX_WIDTH = 400 };

typedef struct spec { /* of %-08.3f or {:>8} */
    bool left, zero, plus, alternate;
    int width, precision; /* precision < 0: not given */
    char conversion;
} spec;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int read_number(mc_jrun *r, mc_str text, size_t *at) {
    int n = 0;
    for (; *at < text.len && is_digit(text.ptr[*at]); (*at)++) {
        if (n <= MAX_WIDTH) n = n * 10 + (text.ptr[*at] - '0');
    }
    if (n > MAX_WIDTH) mc_jerror(r, "a format is wider than %d", MAX_WIDTH);
    return n > MAX_WIDTH ? 0 : n;
}

/* Reads what follows a '%', up to its letter. */
static spec read_spec(mc_jrun *r, mc_str text, size_t *at) {
    spec s = {.precision = -1};
    for (; *at < text.len; (*at)++) {
        char c = text.ptr[*at];
        if (c == '-')
            s.left = true;
        else if (c == '0')
            s.zero = true;
        else if (c == '+')
            s.plus = true;
        else if (c == '#')
            s.alternate = true;
        else
            break;
    }
    s.width = read_number(r, text, at);
    if (*at < text.len && text.ptr[*at] == '.') {
        (*at)++;
        s.precision = read_number(r, text, at);
    }
    if (*at < text.len) s.conversion = text.ptr[(*at)++];
    return s;
}

static void put_number(mc_jrun *r, const spec *s, mc_jvalue v) {
    if (!mc_jis_number(v)) {
        mc_jerror(r, "%%%c format: a real number is required, not %s", s->conversion,
                  mc_jtype(v.kind));
        return;
    }
    double real = mc_jreal(v);
    const char *sign = signbit(real) ? "-" : s->plus ? "+" : "";
    bool fixed = s->conversion == 'f' || s->conversion == 'F';
    if (fixed || s->conversion == 'e' || s->conversion == 'g') {
        int precision = s->precision < 0 ? 6 : s->precision > 60 ? 60 : s->precision;
        const char *format = fixed ? "%s%.*f" : s->conversion == 'e' ? "%s%.*e" : "%s%.*g";
        mc_jcharge(r, 128); /* the exact digits of a double may be a thousand */
        mc_jputf(r, format, sign, precision, fabs(real));
        return;
    }
    if (mc_jis(v, MC_J_FLOAT) && !(fabs(real) < 0x1p63)) {
        mc_jerror(r, "cannot convert a float that is not finite, or too large, to integer");
        return;
    }
    int64_t whole = mc_jis(v, MC_J_FLOAT) ? (int64_t)real : mc_jinteger(v);
    uint64_t size = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
    if (whole == 0) sign = s->plus ? "+" : "";
    if (s->conversion == 'x') {
        mc_jputf(r, s->alternate ? "%s0x%" PRIx64 : "%s%" PRIx64, sign, size);
    } else if (s->conversion == 'X') {
        mc_jputf(r, s->alternate ? "%s0X%" PRIX64 : "%s%" PRIX64, sign, size);
    } else if (s->conversion == 'o') {
        mc_jputf(r, s->alternate ? "%s0o%" PRIo64 : "%s%" PRIo64, sign, size);
    } else {
        mc_jputf(r, "%s%" PRIu64, sign, size);
    }
}

static void put_spaces(mc_jrun *r, size_t n, const char *fill) {
    for (; n > 0; n--)
        mc_jput_text(r, fill);
}

/* Puts a text, padded to s->width. */
static void put_padded(mc_jrun *r, const spec *s, mc_str text, bool number) {
    size_t len = mc_jstr_length(r, text), width = (size_t)s->width;
    size_t missing = len < width ? width - len : 0;
    if (s->left) {
        mc_jput(r, text);
        put_spaces(r, missing, " ");
    } else if (s->zero && number) {
        size_t sign = text.len && (text.ptr[0] == '-' || text.ptr[0] == '+');
        mc_jput(r, (mc_str){text.ptr, sign});
        put_spaces(r, missing, "0");
        mc_jput(r, (mc_str){text.ptr + sign, text.len - sign});
    } else {
        put_spaces(r, missing, " ");
        mc_jput(r, text);
    }
}

static void put_converted(mc_jrun *r, const spec *s, mc_jvalue v) {
    size_t mark = mc_jmark(r);
    bool number = false;
    if (s->conversion == 's') {
        mc_jput_value(r, v);
    } else if (s->conversion == 'r') {
        mc_jput_repr(r, v);
    } else if (s->conversion && strchr("diuxXofFeg", s->conversion)) {
        put_number(r, s, v);
        number = true;
    } else {
        mc_jerror(r, "unsupported format character in '%%...%c'", s->conversion);
    }
    mc_str text = mc_jtake(r, mark).text;
    if (!number && s->precision >= 0) text.len = mc_jstr_offset(r, text, (size_t)s->precision);
    put_padded(r, s, text, number);
}

/* The value of %(name)...; *at is after the '('. */
static mc_jvalue percent_named(mc_jrun *r, mc_str text, size_t *at, mc_jvalue args) {
    const char *end = memchr(text.ptr + *at, ')', text.len - *at);
    if (!end || !mc_jis(args, MC_J_DICT)) {
        mc_jerror(r, "format requires a mapping, and a name in parentheses");
        return mc_jnone();
    }
    mc_str name = {text.ptr + *at, (size_t)(end - text.ptr) - *at};
    const mc_jvalue *v = mc_jdict_find_str(r, args.dict, name);
    if (!v) mc_jerror(r, "format: there is no '%.*s'", MC_STR_ARG(name));
    *at = (size_t)(end - text.ptr) + 1;
    return v ? *v : mc_jnone();
}

mc_jvalue mc_jformat_percent(mc_jrun *r, mc_str text, mc_jvalue args) {
    size_t mark = mc_jmark(r), used = 0, at = 0;
    bool tuple = mc_jis(args, MC_J_TUPLE), dict = mc_jis(args, MC_J_DICT);
    size_t given = tuple ? args.list->count : 1;
    mc_jcharge_scan(r, text.len);
    while (at < text.len && r->status == MICA_OK) {
        const char *next = memchr(text.ptr + at, '%', text.len - at);
        size_t end = next ? (size_t)(next - text.ptr) : text.len;
        mc_jput(r, (mc_str){text.ptr + at, end - at});
        if (!next) break;
        at = end + 1;
        if (at < text.len && text.ptr[at] == '%') {
            mc_jput(r, MC_STR("%"));
            at++;
            continue;
        }
        bool named = at < text.len && text.ptr[at] == '(';
        mc_jvalue v = mc_jnone();
        if (named) {
            at++;
            v = percent_named(r, text, &at, args);
        }
        spec s = read_spec(r, text, &at);
        if (!named && used >= given) {
            mc_jerror(r, "not enough arguments for format string");
        } else if (!named) {
            v = tuple ? args.list->items[used] : args;
            used++;
        }
        put_converted(r, &s, v);
    }
    if (used < given && !dict) mc_jerror(r, "not all arguments converted during string formatting");
    return mc_jtake(r, mark);
}

/* -- str.format() -- */

/* The value of {0}, {name}, or {}, which are counted. */
static mc_jvalue braces_value(mc_jrun *r, mc_str field, size_t *counted, const mc_jlist *args,
                              const mc_jdict *named) {
    int64_t index = 0;
    const mc_jvalue *v = NULL;
    if (field.len == 0) {
        index = (int64_t)(*counted)++;
    } else if (!mc_jparse_int(field, 10, &index)) {
        v = named ? mc_jdict_find_str(r, named, field) : NULL;
        if (!v) mc_jerror(r, "format: there is no '%.*s'", MC_STR_ARG(field));
        return v ? *v : mc_jnone();
    }
    if ((uint64_t)index < args->count) return args->items[index];
    mc_jerror(r, "Replacement index %" PRId64 " out of range for positional args tuple", index);
    return mc_jnone();
}

/* Puts {field:spec}, with the specs that `%` has, too: zero fill, left and right alignment,
 * precision. */
static void put_braces(mc_jrun *r, mc_str inside, size_t *counted, const mc_jlist *args,
                       const mc_jdict *named) {
    const char *colon = inside.len ? memchr(inside.ptr, ':', inside.len) : NULL;
    mc_str field = {inside.ptr, colon ? (size_t)(colon - inside.ptr) : inside.len};
    mc_jcharge_scan(r, inside.len);
    mc_jvalue v = braces_value(r, field, counted, args, named);
    if (!colon) {
        mc_jput_value(r, v);
        return;
    }
    mc_str rest = {colon + 1, inside.len - field.len - 1};
    size_t at = rest.len && (rest.ptr[0] == '<' || rest.ptr[0] == '>');
    bool number = mc_jis_number(v);
    spec s = read_spec(r, rest, &at);
    s.left = at && rest.len ? rest.ptr[0] == '<' || (!number && rest.ptr[0] != '>') : !number;
    if (!s.conversion) s.conversion = number && s.precision >= 0 ? 'g' : 's';
    if (at < rest.len) mc_jerror(r, "format: '%.*s' is not supported", MC_STR_ARG(rest));
    put_converted(r, &s, v);
}

mc_jvalue mc_jformat_braces(mc_jrun *r, mc_str text, const mc_jlist *args, const mc_jdict *named) {
    size_t mark = mc_jmark(r), counted = 0;
    for (size_t at = 0; at < text.len && r->status == MICA_OK; at++) {
        char c = text.ptr[at];
        bool twice = at + 1 < text.len && text.ptr[at + 1] == c;
        if (c != '{' && c != '}') {
            mc_jput(r, (mc_str){text.ptr + at, 1});
        } else if (twice) {
            mc_jput(r, (mc_str){text.ptr + at++, 1});
        } else {
            const char *end = c == '{' ? memchr(text.ptr + at, '}', text.len - at) : NULL;
            if (!end) {
                mc_jerror(r, "Single '%c' encountered in format string", c);
                break;
            }
            size_t stop = (size_t)(end - text.ptr);
            put_braces(r, (mc_str){text.ptr + at + 1, stop - at - 1}, &counted, args, named);
            at = stop;
        }
    }
    return mc_jtake(r, mark);
}

/* -- strftime() -- */

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* Centuries, weeks and their years, which are the same in all locales. */
static void put_of_year(mc_jrun *r, char letter, const struct tm *t) {
    char text[16] = "", format[] = {'%', letter, '\0'};
    size_t len = strftime(text, sizeof text, format, t);
    mc_jput(r, (mc_str){text, len});
}

static void put_time(mc_jrun *r, char letter, const struct tm *t, bool padded) {
    const char *two = padded ? "%02d" : "%d";
    const char *day = days[(unsigned)t->tm_wday % 7], *month = months[(unsigned)t->tm_mon % 12];
    switch (letter) {
    case 'a':
        mc_jputf(r, "%.3s", day);
        break;
    case 'A':
        mc_jput_text(r, day);
        break;
    case 'b':
        mc_jputf(r, "%.3s", month);
        break;
    case 'B':
        mc_jput_text(r, month);
        break;
    case 'd':
        mc_jputf(r, two, t->tm_mday);
        break;
    case 'e':
        mc_jputf(r, padded ? "%2d" : "%d", t->tm_mday);
        break;
    case 'H':
        mc_jputf(r, two, t->tm_hour);
        break;
    case 'I':
        mc_jputf(r, two, (t->tm_hour + 11) % 12 + 1);
        break;
    case 'j':
        mc_jputf(r, padded ? "%03d" : "%d", t->tm_yday + 1);
        break;
    case 'm':
        mc_jputf(r, two, t->tm_mon + 1);
        break;
    case 'M':
        mc_jputf(r, two, t->tm_min);
        break;
    case 'p':
        mc_jput_text(r, t->tm_hour < 12 ? "AM" : "PM");
        break;
    case 'S':
        mc_jputf(r, two, t->tm_sec);
        break;
    case 'u':
        mc_jputf(r, "%d", (t->tm_wday + 6) % 7 + 1);
        break;
    case 'w':
        mc_jputf(r, "%d", t->tm_wday);
        break;
    case 'y':
        mc_jputf(r, two, t->tm_year % 100);
        break;
    case 'Y':
        mc_jputf(r, "%d", t->tm_year + 1900);
        break;
    case 'C':
    case 'G':
    case 'U':
    case 'V':
    case 'W':
        put_of_year(r, letter, t);
        break;
    case '%':
        mc_jput(r, MC_STR("%"));
        break;
    default:
        mc_jerror(r, "strftime_now: '%%%c' is not known", letter);
        break;
    }
}

/* Letters that stand for a longer format. All names are English, whatever the locale. */
static const char *longer(char letter) {
    switch (letter) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'f': /* microseconds */
        return "000000";
    case 'h':
        return "%b";
    case 'n':
        return "\n";
    case 't':
        return "\t";
    case 'r':
        return "%I:%M:%S %p";
    case 'R':
        return "%H:%M";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    case 'z': /* the clock has no zone */
    case 'Z':
        return "";
    default:
        return NULL;
    }
}

static void put_times(mc_jrun *r, mc_str format, const struct tm *time) {
    for (size_t at = 0; at < format.len && r->status == MICA_OK; at++) {
        if (format.ptr[at] != '%' || at + 1 == format.len) {
            mc_jput(r, (mc_str){format.ptr + at, 1});
            continue;
        }
        bool padded = format.ptr[at + 1] != '-' || at + 2 == format.len;
        at += padded ? 1 : 2;
        const char *several = longer(format.ptr[at]);
        if (several)
            put_times(r, mc_str_of(several), time);
        else
            put_time(r, format.ptr[at], time, padded);
    }
}

mc_jvalue mc_jformat_time(mc_jrun *r, mc_str format, const struct tm *time) {
    size_t mark = mc_jmark(r);
    put_times(r, format, time);
    return mc_jtake(r, mark);
}
