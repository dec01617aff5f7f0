#include "grammar/grammar_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- without bounds ---- */

static int32_t digit(mc_builder *b, int32_t next) {
    return mc_build_range(b, '0', '9', next);
}

/* Up to `max` digits. */
static int32_t up_to(mc_builder *b, int max, int32_t next) {
    int32_t all = next;
    for (int i = 0; i < max; i++)
        all = mc_build_split(b, digit(b, all), next);
    return all;
}

static int32_t whole(mc_builder *b, int32_t next) {
    int32_t long_one = mc_build_range(b, '1', '9', up_to(b, MC_INTEGER_DIGITS - 1, next));
    return mc_build_split(b, mc_build_range(b, '0', '0', next), long_one);
}

static int32_t minus_or_not(mc_builder *b, int32_t next) {
    return mc_build_split(b, mc_build_range(b, '-', '-', next), next);
}

static int32_t exponent(mc_builder *b, int32_t next) {
    int32_t digits = digit(b, mc_build_split(b, digit(b, next), next));
    int32_t plus = mc_build_range(b, '+', '+', digits), minus = mc_build_range(b, '-', '-', digits);
    int32_t rest = mc_build_split(b, digits, mc_build_split(b, plus, minus));
    int32_t e =
        mc_build_split(b, mc_build_range(b, 'e', 'e', rest), mc_build_range(b, 'E', 'E', rest));
    return mc_build_split(b, e, next);
}

static int32_t fraction(mc_builder *b, int32_t next) {
    int32_t digits = digit(b, up_to(b, MC_FRACTION_DIGITS - 1, next));
    return mc_build_split(b, mc_build_range(b, '.', '.', digits), next);
}

/* ---- decimals ---- */

static void drop_zeros(mc_decimal *d) {
    for (; d->digits && d->digits % 10 == 0; d->power++)
        d->digits /= 10;
}

bool mc_decimal_of(mc_json v, mc_decimal *d) {
    char text[40];
    double number;
    int64_t whole;
    int precision = 0;
    *d = (mc_decimal){.digits = 0};
    if (mc_json_get_type(v) == MC_JSON_INT && mc_json_get_int(v, &whole)) {
        d->negative = whole < 0;
        d->digits = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
    } else if (!mc_json_get_uint(v, &d->digits)) {
        if (!mc_json_get_float(v, &number)) return false;
        do /* d.ddde+xx */
            snprintf(text, sizeof text, "%.*e", precision, number);
        while (strtod(text, NULL) != number && precision++ < 16);
        const char *e = strchr(text, 'e');
        for (const char *c = text; c < e; c++)
            if (*c >= '0' && *c <= '9') /* no point, in any locale */
                d->digits = d->digits * 10 + (uint64_t)(*c - '0');
        d->negative = number < 0;
        d->power = d->digits ? atoi(e + 1) - precision : 0;
    }
    drop_zeros(d);
    return true;
}

int mc_decimal_compare(mc_decimal a, mc_decimal b) {
    char one[24], other[24];
    if (a.negative != b.negative) return a.negative ? -1 : 1;
    int greater = a.negative ? -1 : 1;
    if (!a.digits || !b.digits) return greater * ((a.digits > 0) - (b.digits > 0));
    int n = snprintf(one, sizeof one, "%" PRIu64, a.digits),
        m = snprintf(other, sizeof other, "%" PRIu64, b.digits);
    if (n + a.power != m + b.power) return n + a.power > m + b.power ? greater : -greater;
    int order = strcmp(one, other); /* of as many places: a beginning of the other is less */
    return order ? (order > 0 ? greater : -greater) : 0;
}

/* ---- bounds as digits ---- */

enum {
    DIGITS = MC_BOUND_DIGITS + MC_FRACTION_DIGITS,
    EXACT_DIGITS = 15 /* so few differ as doubles, too: what is below a bound stays below it */
};

/* A number of 0 or more: digits before and behind the point, from the highest. */
typedef struct decimal {
    char digits[DIGITS + 1]; /* [DIGITS] */
    bool exclusive;          /* as a bound: the number itself is out of it */
} decimal;

/* A bound's magnitude. false: it has too many digits. */
static bool to_decimal(mc_number_bound bound, decimal *d) {
    char text[24];
    memset(d->digits, '0', DIGITS);
    d->digits[DIGITS] = '\0';
    d->exclusive = bound.exclusive;
    if (!bound.value.digits) return true;
    int count = snprintf(text, sizeof text, "%" PRIu64, bound.value.digits),
        first = MC_BOUND_DIGITS - count - bound.value.power;
    if (first < 0 || first + count > DIGITS) return false;
    memcpy(d->digits + first, text, (size_t)count);
    return true;
}

/* The places before the point that a number has none of. */
static int places_free(const decimal *d) {
    int n = (int)strspn(d->digits, "0");
    return n < MC_BOUND_DIGITS - MC_INTEGER_DIGITS ? n : MC_BOUND_DIGITS - MC_INTEGER_DIGITS;
}

/* ---- between bounds ---- */

typedef struct between {
    mc_builder *b;
    const decimal *low, *high; /* high NULL: no bound */
    bool integer;
    int32_t next;
    int end;                  /* no digits from this place on */
    int32_t free[DIGITS + 1]; /* the ways on where neither bound matters, by place; or UNMADE */
} between;

enum { UNMADE = -2 };

static bool rest_is_zero(const decimal *d, int place) {
    return strspn(d->digits + place, "0") == (size_t)(DIGITS - place);
}

/* Whether the number may end before the digit at `place`, the digits before being those of the
 * bounds that are still tight. */
static bool may_end(const between *r, int place, bool low, bool high) {
    if (place < MC_BOUND_DIGITS) return false;
    if (low && (!rest_is_zero(r->low, place) || r->low->exclusive)) return false;
    return !(high && r->high->exclusive && rest_is_zero(r->high, place));
}

static int32_t from_place(between *r, int place, bool low, bool high);

/* Digits at a place, and what follows. */
static int32_t digits_at(between *r, int place, bool low, bool high) {
    int least = low ? r->low->digits[place] : '0', greatest = high ? r->high->digits[place] : '9';
    int from = least, to = greatest;
    int32_t all = MC_DEAD;
    if (least > greatest) return MC_DEAD;
    if (least == greatest && low && high)
        return mc_build_range(r->b, least, least, from_place(r, place + 1, true, true));
    if (low) {
        int32_t way = from_place(r, place + 1, true, false);
        all = mc_build_range(r->b, from, from, way);
        from++;
    }
    if (high) {
        int32_t way = from_place(r, place + 1, false, true);
        all = mc_build_split(r->b, mc_build_range(r->b, to, to, way), all);
        to--;
    }
    if (from > to) return all;
    int32_t way = from_place(r, place + 1, false, false);
    return mc_build_split(r->b, mc_build_range(r->b, from, to, way), all);
}

static int32_t make_place(between *r, int place, bool low, bool high) {
    int32_t end = may_end(r, place, low, high) ? r->next : MC_DEAD;
    if (place >= r->end || (place == MC_BOUND_DIGITS && r->integer)) return end;
    int32_t on = digits_at(r, place, low, high);
    if (place == MC_BOUND_DIGITS) on = mc_build_range(r->b, '.', '.', on);
    return mc_build_split(r->b, on, end);
}

static int32_t from_place(between *r, int place, bool low, bool high) {
    if (low || high) return make_place(r, place, low, high);
    if (r->free[place] == UNMADE) r->free[place] = make_place(r, place, low, high);
    return r->free[place];
}

/* Numbers whose first digit, not 0 unless it is the last before the point, is at `first`. */
static int32_t beginning_at(between *r, int first) {
    bool low = true, high = r->high != NULL;
    r->end = first + EXACT_DIGITS < DIGITS ? first + EXACT_DIGITS : DIGITS;
    if (r->integer || r->end < MC_BOUND_DIGITS) r->end = MC_BOUND_DIGITS;
    for (int i = 0; i <= DIGITS; i++)
        r->free[i] = UNMADE;
    for (int i = 0; i < first; i++) { /* leading zeros are not written */
        if (r->low->digits[i] > '0') return MC_DEAD;
        if (high && r->high->digits[i] > '0') high = false;
    }
    int32_t all = MC_DEAD;
    int from = first == MC_BOUND_DIGITS - 1 ? '0' : '1';
    for (int c = from; c <= '9'; c++) {
        int least = r->low->digits[first], greatest = high ? r->high->digits[first] : '9';
        if (c < least || c > greatest) continue;
        int32_t way = from_place(r, first + 1, low && c == least, high && c == greatest);
        all = mc_build_split(r->b, mc_build_range(r->b, c, c, way), all);
    }
    return all;
}

/* Numbers of 0 or more from `low` to `high`; high NULL: no bound. */
static int32_t magnitudes(mc_builder *b, bool integer, const decimal *low, const decimal *high,
                          int32_t next) {
    between r = {.b = b, .low = low, .high = high, .integer = integer, .next = next};
    int32_t all = MC_DEAD;
    int first = places_free(low);
    if (high && places_free(high) < first) first = places_free(high);
    for (; first < MC_BOUND_DIGITS; first++)
        all = mc_build_split(b, beginning_at(&r, first), all);
    return all;
}

/* ---- all numbers ---- */

static int32_t bounded(mc_builder *b, bool integer, mc_number_bound low, mc_number_bound high,
                       int32_t next) {
    decimal least, greatest, zero;
    if (!to_decimal(low, &least) || !to_decimal(high, &greatest)) {
        mc_builder_fail(b, mc_fail(MICA_EUNSUPPORTED,
                                   "a bound needs more than %d digits before or "
                                   "%d behind the point",
                                   MC_BOUND_DIGITS, MC_FRACTION_DIGITS));
        return MC_DEAD;
    }
    bool below = !low.given || low.value.negative, above = !high.given || !high.value.negative;
    (void)to_decimal((mc_number_bound){.given = true}, &zero);
    int32_t positive = MC_DEAD, negative = MC_DEAD;
    if (above) {
        const decimal *from = low.given && !low.value.negative ? &least : &zero;
        positive = magnitudes(b, integer, from, high.given ? &greatest : NULL, next);
    }
    if (below) { /* -0 is written as 0 */
        zero.exclusive = true;
        const decimal *from = high.given && high.value.negative ? &greatest : &zero;
        negative = magnitudes(b, integer, from, low.given ? &least : NULL, next);
        negative = mc_build_range(b, '-', '-', negative);
    }
    return mc_build_split(b, positive, negative);
}

int32_t mc_build_number(mc_builder *b, bool integer, mc_number_bound low, mc_number_bound high,
                        int32_t next) {
    if (low.given || high.given) return bounded(b, integer, low, high, next);
    if (integer) return minus_or_not(b, whole(b, next));
    return minus_or_not(b, whole(b, fraction(b, exponent(b, next))));
}
