/* Documents of the types that hold no others: strings and numbers. */
#include "base/alloc.h"
#include "base/json_write.h"
#include "grammar/grammar_number.h"
#include "grammar/grammar_pattern.h"
#include "grammar/schema_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int32_t byte(mc_schema *s, int c, int32_t next) {
    return mc_build_range(s->b, c, c, next);
}

/* Takes an error of a builder of parts over, at a keyword of a schema. false if there is one. */
static bool take_error(mc_schema *s, const mc_builder *parts, const char *pointer,
                       const char *keyword) {
    if (parts->status == MICA_OK) return s->b->status == MICA_OK;
    mc_builder_fail(s->b, mc_fail(parts->status, "%s", parts->error));
    s->pointer = pointer;
    mc_schema_fail_at(s, keyword);
    return false;
}

static bool add_language(mc_schema *s, mc_buffer *languages, int32_t start, bool negated) {
    const mc_language new = {start, negated};
    return mc_buffer_add(languages, &new, sizeof new) || (mc_schema_nomem(s), false);
}

/* What is in all of the languages. Closes both. */
static int32_t build_product(mc_schema *s, mc_builder *parts, mc_buffer *languages, int32_t next) {
    bool good = s->b->status == MICA_OK;
    int32_t all = mc_build_product(s->b, parts, MC_BUFFER_AT(languages, mc_language),
                                   MC_BUFFER_COUNT(languages, mc_language), next);
    if (good && s->b->status == MICA_EUNSUPPORTED) mc_schema_fail_at(s, "");
    mc_buffer_deinit(languages);
    mc_builder_deinit(parts);
    return all;
}

/* ---- formats ---- */

#define MONTH_DAY                                                                   \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]" \
    "[0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define LEAP_YEAR                                     \
    "(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|" \
    "(?:[2468][048]|[13579][26])00)"
#define DATE "(?:[1-9][0-9]{3}-" MONTH_DAY "|" LEAP_YEAR "-02-29)"
#define HOURS "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME HOURS ":[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]" HOURS ")"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define HOST LABEL "(?:\\." LABEL "){0,6}"

#define PATH "(?:/[A-Za-z0-9._~-]{0,64}){0,16}"
#define QUERY "(?:\\?[A-Za-z0-9._~=&-]{0,128})?(?:#[A-Za-z0-9._~-]{0,64})?"
#define EMAIL "[A-Za-z0-9]{1,32}(?:[._+-][A-Za-z0-9]{1,32}){0,4}@" HOST
#define URI "[a-z][a-z0-9+.-]{0,15}://" HOST "(?::[0-9]{1,4})?" PATH QUERY
#define UUID(version) \
    "[0-9a-f]{8}-[0-9a-f]{4}-" version "[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
#define IPV4 "(?:" BYTE "\\.){3}" BYTE
#define IPV6 "(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"
#define DAY_TIME                                                                   \
    "T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|" \
    "[0-9]{1,4}S)"
#define DURATION                                                 \
    "P(?:" DAY_TIME "|[0-9]{1,4}D(?:" DAY_TIME ")?|[0-9]{1,4}W|" \
    "[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?)"
/* RFC 6570: literals, and expressions of variables. */
#define VARCHAR "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
#define VARSPEC VARCHAR "(?:\\.?" VARCHAR ")*(?:\\*|:[1-9][0-9]{0,3})?"
#define URI_TEMPLATE                                             \
    "(?:[A-Za-z0-9\\-._~:/?#\\[\\]@!$&()*+,;=]|%[0-9A-Fa-f]{2}|" \
    "\\{[+#./;?&]?" VARSPEC "(?:," VARSPEC ")*\\})*"
#define BASE64 "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"

/* The usual forms of a format, as patterns of the whole text; NULL: any text. */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"uuid1", UUID("1")},
    {"uuid3", UUID("3")},
    {"uuid4", UUID("4")},
    {"uuid5", UUID("5")},
    {"uuid6", UUID("6")},
    {"uuid7", UUID("7")},
    {"uuid8", UUID("8")},
    {"duration", DURATION},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"ipvanyaddress", IPV4},
    {"ipv4network", IPV4 "/(?:3[0-2]|[12]?[0-9])"},
    {"ipv4interface", IPV4 "/(?:3[0-2]|[12]?[0-9])"},
    {"ipv6interface", IPV6 "/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"},
    {"hostname", HOST},
    {"idn-hostname", HOST},
    {"email", EMAIL},
    {"idn-email", EMAIL},
    {"uri", URI},
    {"iri", URI},
    {"url", URI},
    {"uri-reference", "(?:" URI "|" PATH QUERY ")"},
    {"iri-reference", "(?:" URI "|" PATH QUERY ")"},
    {"json-pointer", "(?:/(?:[^/~]|~[01])*)*"},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)"},
    {"uri-template", URI_TEMPLATE},
    {"byte", BASE64},
    {"base64", BASE64},
    {"base64url", "(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}(?:==)?|[A-Za-z0-9_-]{3}=?)?"},
    /* These say how a text is used. */
    {"password", NULL},
    {"binary", NULL},
    {"path", NULL},
    {"file-path", NULL},
    {"directory-path", NULL},
};

/* Finds a format's pattern; NULL: any text. false: error of the builder. */
static bool find_format(mc_schema *s, const mc_group *g, const char **pattern) {
    mc_str name;
    s->pointer = g->pointer;
    if (!mc_json_get_str(g->k.at[MC_KEY_FORMAT], &name)) {
        mc_schema_fail(s, MICA_EFORMAT, "format", "want a string");
        return false;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (mc_str_is(name, formats[i].name)) return *pattern = formats[i].pattern, true;
    mc_schema_fail(s, MICA_EUNSUPPORTED, "format", "\"%.*s\" is not supported", MC_STR_ARG(name));
    return false;
}

/* ---- strings ---- */

/* Characters of a string, escaped in the shortest way; max -1: no limit. */
static int32_t chars(mc_builder *b, int64_t min, int64_t max) {
    static const mc_char_range any = {0, MC_CHAR_MAX};
    int32_t all = MC_RETURN;
    if (max < 0) {
        all = mc_build_open(b);
        mc_build_close(b, all, mc_build_class(b, MC_CHARS_JSON, &any, 1, all), MC_RETURN);
    }
    for (int64_t i = max < 0 ? min : max; i > 0 && b->status == MICA_OK; i--) {
        all = mc_build_class(b, MC_CHARS_JSON, &any, 1, all);
        if (i > min) all = mc_build_split(b, all, MC_RETURN);
    }
    return all;
}

static bool add_pattern(mc_schema *s, const mc_group *g, mc_builder *parts, mc_buffer *languages) {
    mc_str pattern;
    s->pointer = g->pointer;
    if (!mc_json_get_str(g->k.at[MC_KEY_PATTERN], &pattern)) {
        mc_schema_fail(s, MICA_EFORMAT, "pattern", "want a string");
        return false;
    }
    (void)mc_pattern_languages(parts, MC_CHARS_JSON, pattern, false, languages);
    return take_error(s, parts, g->pointer, "pattern");
}

static bool add_format(mc_schema *s, const mc_group *g, mc_builder *parts, mc_buffer *languages) {
    const char *pattern = NULL;
    if (!find_format(s, g, &pattern)) return false;
    if (!pattern) return true;
    int32_t start =
        mc_build_regex(parts, MC_CHARS_JSON, mc_str_of(pattern), MC_REGEX_WHOLE, MC_RETURN);
    return add_language(s, languages, start, false) && take_error(s, parts, g->pointer, "format");
}

/* What a text must not be, or match. */
static bool add_denied(mc_schema *s, const mc_fact *f, mc_builder *parts, mc_buffer *languages) {
    mc_str text;
    int32_t start = MC_DEAD;
    if (f->kind != MC_FACT_NOT || !mc_json_get_str(f->value, &text)) return true;
    if (f->key == MC_KEY_PATTERN) {
        start = mc_build_regex(parts, MC_CHARS_JSON, text, MC_REGEX_ANYWHERE | MC_REGEX_WIDE,
                               MC_RETURN);
    } else {
        mc_buffer escaped = {0};
        if (!mc_json_escape(&escaped, text)) mc_schema_nomem(s);
        start = mc_build_text(parts, escaped.data, escaped.len, MC_RETURN);
        mc_buffer_deinit(&escaped);
    }
    return add_language(s, languages, start, true) && take_error(s, parts, f->pointer, "pattern");
}

/* Leaves out a limit that a pattern keeps to by itself. */
static void relax(mc_str pattern, unsigned match, int64_t *min, int64_t *max) {
    int64_t least, greatest;
    if (!mc_regex_lengths(pattern, match, &least, &greatest)) return;
    if (least >= *min) *min = 0;
    if (greatest >= 0 && greatest <= *max) *max = -1;
}

/* The lengths that a clause asks for, but for those that its patterns and formats keep to. */
static bool read_lengths(mc_schema *s, const mc_clause *c, int64_t *min, int64_t *max) {
    mc_str pattern;
    const char *format = NULL;
    if (!mc_clause_count(s, c, MC_KEY_MIN_LENGTH, 0, min) ||
        !mc_clause_count(s, c, MC_KEY_MAX_LENGTH, -1, max))
        return false;
    if (*max >= 0 && *min > *max) return true;
    for (const mc_group *g = c->groups; g && (*min > 0 || *max >= 0); g = g->before) {
        if (mc_json_get_str(g->k.at[MC_KEY_PATTERN], &pattern))
            relax(pattern, MC_REGEX_ANYWHERE, min, max);
        if (!mc_has(&g->k, MC_KEY_FORMAT)) continue;
        if (!find_format(s, g, &format)) return false;
        if (format) relax(mc_str_of(format), MC_REGEX_WHOLE, min, max);
    }
    return true;
}

bool mc_string_languages(mc_schema *s, const mc_clause *c, mc_builder *parts,
                         mc_buffer *languages) {
    int64_t min, max;
    if (!read_lengths(s, c, &min, &max)) return false;
    if (!add_language(s, languages, max >= 0 && min > max ? MC_DEAD : chars(parts, min, max),
                      false))
        return false;
    for (const mc_group *g = c->groups; g; g = g->before) {
        if (mc_has(&g->k, MC_KEY_PATTERN) && !add_pattern(s, g, parts, languages)) return false;
        if (mc_has(&g->k, MC_KEY_FORMAT) && !add_format(s, g, parts, languages)) return false;
    }
    for (const mc_fact *f = c->facts; f; f = f->before)
        if (!add_denied(s, f, parts, languages)) return false;
    return take_error(s, parts, s->pointer, "");
}

/* A string of a pattern alone: its automaton stays as it is, and states are made as they are met.
 * The builder's error is put at the keyword. */
static int32_t pattern_string(mc_schema *s, const mc_group *g) {
    mc_str pattern;
    const char *format = NULL, *keyword = mc_has(&g->k, MC_KEY_PATTERN) ? "pattern" : "format";
    int32_t all = MC_DEAD, end = byte(s, '"', MC_RETURN);
    s->pointer = g->pointer;
    if (mc_json_get_str(g->k.at[MC_KEY_PATTERN], &pattern))
        all = mc_build_pattern(s->b, MC_CHARS_JSON, pattern, false, end);
    else if (mc_has(&g->k, MC_KEY_PATTERN))
        return mc_schema_fail(s, MICA_EFORMAT, "pattern", "want a string");
    else if (!find_format(s, g, &format))
        return MC_DEAD;
    else if (!format)
        return mc_build_any_string(s->rules, MC_RETURN);
    else
        all = mc_build_regex(s->b, MC_CHARS_JSON, mc_str_of(format), MC_REGEX_WHOLE, end);
    return s->b->status == MICA_OK ? byte(s, '"', all) : mc_schema_fail_at(s, keyword);
}

int32_t mc_build_typed_string(mc_schema *s, const mc_clause *c) {
    int64_t min, max;
    const mc_group *single = NULL;
    int patterns = 0;
    if (!read_lengths(s, c, &min, &max)) return MC_DEAD;
    if (max >= 0 && min > max) return MC_DEAD;
    for (const mc_group *g = c->groups; g; g = g->before) {
        int here = mc_has(&g->k, MC_KEY_PATTERN) + mc_has(&g->k, MC_KEY_FORMAT);
        if (here) single = g;
        patterns += here;
    }
    bool denied = false;
    mc_str text;
    for (const mc_fact *f = c->facts; f; f = f->before)
        denied = denied || (f->kind == MC_FACT_NOT && mc_json_get_str(f->value, &text));
    if (!denied && !patterns) return mc_build_string(s->rules, min, max, MC_RETURN);
    if (!denied && patterns == 1 && min == 0 && max < 0) return pattern_string(s, single);
    mc_builder parts;
    mc_buffer languages = {0};
    mc_builder_init(&parts);
    (void)mc_string_languages(s, c, &parts, &languages); /* or there is an error */
    return byte(s, '"', build_product(s, &parts, &languages, byte(s, '"', MC_RETURN)));
}

/* ---- numbers ---- */

static bool read_bound(mc_schema *s, mc_json v, mc_keyword key, mc_number_bound *bound) {
    *bound = (mc_number_bound){.exclusive = key == MC_KEY_EXCLUSIVE_MINIMUM ||
                                            key == MC_KEY_EXCLUSIVE_MAXIMUM};
    bound->given = mc_decimal_of(v, &bound->value);
    if (!bound->given) mc_schema_fail(s, MICA_EUNSUPPORTED, mc_keyword_name(key), "want a number");
    return bound->given;
}

/* The tighter of two bounds; sign 1: the greater is. */
static mc_number_bound tighter(mc_number_bound a, mc_number_bound b, int sign) {
    if (!a.given || !b.given) return a.given ? a : b;
    int order = mc_decimal_compare(a.value, b.value);
    if (!order) return a.exclusive ? a : b;
    return sign * order > 0 ? a : b;
}

/* The tightest bound that two keywords give; sign 1: from below. */
static bool find_bound(mc_schema *s, const mc_clause *c, const mc_keyword keys[2], int sign,
                       mc_number_bound *bound) {
    mc_number_bound one;
    *bound = (mc_number_bound){0};
    for (int i = 0; i < 2; i++) {
        for (const mc_group *g = c->groups; g; g = g->before) {
            if (!mc_has(&g->k, keys[i])) continue;
            s->pointer = g->pointer;
            if (!read_bound(s, g->k.at[keys[i]], keys[i], &one)) return false;
            *bound = tighter(*bound, one, sign);
        }
        for (const mc_fact *f = c->facts; f; f = f->before) {
            if (f->kind != MC_FACT_LIMIT || f->key != keys[i]) continue;
            s->pointer = f->pointer;
            if (!read_bound(s, f->value, keys[i], &one)) return false;
            *bound = tighter(*bound, one, sign);
        }
    }
    return true;
}

typedef struct multiples {
    mc_builder *b;
    int modulus, places;
    int32_t *states; /* [places after the point, at least 1, + 1][modulus] */
} multiples;

static int32_t state_at(const multiples *m, int place, int remainder) {
    return m->states[place * m->modulus + remainder];
}

/* The ways on with one digit more, which comes to `place` digits behind the point. Behind the last
 * place that counts there are zeros only. */
static int32_t digits_on(const multiples *m, int place, int remainder) {
    int32_t all = MC_DEAD;
    if (place > m->places) return mc_build_range(m->b, '0', '0', state_at(m, place, remainder));
    for (int digit = 0; digit < 10; digit++) {
        int32_t to = state_at(m, place, (remainder * 10 + digit) % m->modulus);
        all = mc_build_split(m->b, mc_build_range(m->b, '0' + digit, '0' + digit, to), all);
    }
    return all;
}

/* Where digits were read that have a remainder, `place` of them behind the point. */
static void build_remainder(const multiples *m, int place, int remainder) {
    mc_builder *b = m->b;
    int64_t whole = remainder;
    int last = m->places > 1 ? m->places : 1;
    for (int i = place; i < m->places; i++)
        whole = whole * 10 % m->modulus;
    int32_t on = place == 0          ? digits_on(m, 0, remainder)
                 : place < m->places ? digits_on(m, place + 1, remainder)
                                     : mc_build_range(b, '0', '0', state_at(m, last, remainder));
    if (place == 0)
        on = mc_build_split(b, mc_build_range(b, '.', '.', digits_on(m, 1, remainder)), on);
    mc_build_close(b, state_at(m, place, remainder), on, whole == 0 ? MC_RETURN : MC_DEAD);
}

/* Decimal numbers that are multiples of modulus / 10^places: an automaton of remainders. */
static int32_t build_multiples(mc_builder *b, int modulus, int places) {
    multiples m = {b, modulus, places, NULL};
    int last = places > 1 ? places : 1;
    size_t count = (size_t)modulus * (size_t)(last + 1);
    m.states = mc_array_alloc(count, sizeof *m.states);
    if (!m.states) {
        mc_builder_fail(b, mc_fail_nomem("a schema"));
        return MC_DEAD;
    }
    for (size_t i = 0; i < count; i++)
        m.states[i] = mc_build_open(b);
    for (int place = 0; place <= last; place++)
        for (int r = 0; r < modulus && b->status == MICA_OK; r++)
            build_remainder(&m, place, r);
    int32_t first = b->status == MICA_OK ? digits_on(&m, 0, 0) : MC_DEAD;
    mc_free(m.states);
    return mc_build_split(b, mc_build_range(b, '-', '-', first), first);
}

/* Adds the multiples of "multipleOf", or what is none. */
static bool add_multiples(mc_schema *s, mc_json v, const char *pointer, bool negated,
                          mc_builder *parts, mc_buffer *languages, int *max_places) {
    enum { MAX_STATES = 20000 };
    uint64_t modulus;
    int places;
    s->pointer = pointer;
    if (!mc_read_multiple(s, v, &modulus, &places)) return false;
    if (modulus > MAX_STATES / (uint64_t)(places + 2)) {
        mc_schema_fail(s, MICA_EUNSUPPORTED, "multipleOf", "of so many digits");
        return false;
    }
    if (places > *max_places) *max_places = places;
    return add_language(s, languages, build_multiples(parts, (int)modulus, places), negated) &&
           take_error(s, parts, pointer, "multipleOf");
}

/* Adds all numbers but one. */
static bool add_other_than(mc_schema *s, const mc_fact *f, mc_builder *parts,
                           mc_buffer *languages) {
    mc_decimal d;
    mc_buffer text = {0};
    if (!mc_decimal_of(f->value, &d) || d.power > 18 || d.power < -18)
        return true; /* it is never written */
    const char *minus = d.negative ? "-" : d.digits ? "" : "-?";
    bool done = mc_buffer_printf(&text, "%s%" PRIu64, minus, d.digits);
    size_t sign = strlen(minus);
    int power = d.power;
    for (; power > 0; power--)
        done = done && mc_buffer_add_byte(&text, '0');
    if (power == 0) {
        done = done && mc_buffer_add_text(&text, "(?:\\.0+)?");
    } else {
        char number[24];
        snprintf(number, sizeof number, "%.*s", (int)(text.len - sign), text.data + sign);
        int whole = (int)strlen(number) + power; /* digits before the point */
        text.len = sign;
        done = done && mc_buffer_printf(&text, "%.*s\\.%.*s%s0*", whole > 0 ? whole : 1,
                                        whole > 0 ? number : "0", whole < 0 ? -whole : 0,
                                        "000000000000000000", number + (whole > 0 ? whole : 0));
    }
    if (!done) mc_schema_nomem(s);
    int32_t start = mc_build_regex(parts, MC_CHARS_TEXT, (mc_str){text.data, text.len},
                                   MC_REGEX_WHOLE, MC_RETURN);
    mc_buffer_deinit(&text);
    return add_language(s, languages, start, true) && take_error(s, parts, f->pointer, "const");
}

/* Adds how numbers are written that are more than integers: with few enough digits that a double
 * has the same value. */
static bool add_form(mc_schema *s, int types, int places, mc_builder *parts, mc_buffer *languages) {
    enum { EXACT_DIGITS = 15 };
    char pattern[80];
    if (places < 6) places = 6;
    snprintf(pattern, sizeof pattern,
             types == MC_TYPE_FRACTION ? "-?[0-9]{1,%d}\\.[0-9]{0,%d}[1-9]"
                                       : "-?(?:[0-9]{1,20}|[0-9]{1,%d}\\.[0-9]{1,%d})",
             EXACT_DIGITS - places, places - (types == MC_TYPE_FRACTION));
    int32_t start =
        mc_build_regex(parts, MC_CHARS_TEXT, mc_str_of(pattern), MC_REGEX_WHOLE, MC_RETURN);
    return add_language(s, languages, start, false);
}

/* Adds what a clause says of numbers but their bounds. */
static bool add_number_rules(mc_schema *s, const mc_clause *c, int types, mc_builder *parts,
                             mc_buffer *languages) {
    int places = 0;
    for (const mc_group *g = c->groups; g; g = g->before)
        if (mc_has(&g->k, MC_KEY_MULTIPLE_OF) &&
            !add_multiples(s, g->k.at[MC_KEY_MULTIPLE_OF], g->pointer, false, parts, languages,
                           &places))
            return false;
    for (const mc_fact *f = c->facts; f; f = f->before) {
        if (f->kind != MC_FACT_NOT || !(mc_schema_type_of(f->value) & MC_TYPE_NUMBER)) continue;
        if (f->key == MC_KEY_MULTIPLE_OF
                ? !add_multiples(s, f->value, f->pointer, true, parts, languages, &places)
                : !add_other_than(s, f, parts, languages))
            return false;
    }
    bool some = MC_BUFFER_COUNT(languages, mc_language) > 0 || types == MC_TYPE_FRACTION;
    return !some || types == MC_TYPE_INTEGER || add_form(s, types, places, parts, languages);
}

int32_t mc_build_typed_number(mc_schema *s, const mc_clause *c, int types) {
    static const mc_keyword lows[] = {MC_KEY_MINIMUM, MC_KEY_EXCLUSIVE_MINIMUM},
                            highs[] = {MC_KEY_MAXIMUM, MC_KEY_EXCLUSIVE_MAXIMUM};
    mc_number_bound low, high;
    mc_builder parts;
    mc_buffer languages = {0};
    bool integer = types == MC_TYPE_INTEGER;
    int32_t all = MC_DEAD;
    if (!find_bound(s, c, lows, 1, &low) || !find_bound(s, c, highs, -1, &high)) return MC_DEAD;
    mc_builder_init(&parts);
    bool done = add_number_rules(s, c, types, &parts, &languages);
    if (done && MC_BUFFER_COUNT(&languages, mc_language) > 0) {
        int32_t bounded = mc_build_number(&parts, integer, low, high, MC_RETURN);
        (void)add_language(s, &languages, bounded, false);
        return build_product(s, &parts, &languages, MC_RETURN);
    }
    if (done) all = mc_build_number(s->b, integer, low, high, MC_RETURN);
    mc_buffer_deinit(&languages);
    mc_builder_deinit(&parts);
    return all;
}
