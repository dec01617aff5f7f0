/* Numbers of JSON as decimals, and building grammars of such within bounds. Threads: as
 * grammar_build.h. */
#ifndef GRAMMAR_GRAMMAR_NUMBER_H
#define GRAMMAR_GRAMMAR_NUMBER_H

#include "base/json.h"
#include "grammar/grammar_build.h"

/* The most that are written; before the point there may be as many as a bound has. */
enum { MC_INTEGER_DIGITS = 18, MC_FRACTION_DIGITS = 16, MC_BOUND_DIGITS = 20 };

/* +- digits * 10^power; the digits do not end with 0. */
typedef struct mc_decimal {
    bool negative; /* not of 0 */
    uint64_t digits;
    int power;
} mc_decimal;

/* A number: an integer as it is written, others by the fewest digits that mean the same double.
 * false: it is none. */
bool mc_decimal_of(mc_json v, mc_decimal *d);

/* a - b, as -1, 0 or 1. */
int mc_decimal_compare(mc_decimal a, mc_decimal b);

typedef struct mc_number_bound {
    bool given, exclusive;
    mc_decimal value;
} mc_number_bound;

/* Numbers from `low` to `high`. Integers have no fraction and no exponent. Other numbers have an
 * exponent, of up to two digits, only where there are no bounds.
 * errors  of the builder: MICA_EUNSUPPORTED a bound with more digits than these */
int32_t mc_build_number(mc_builder *b, bool integer, mc_number_bound low, mc_number_bound high,
                        int32_t next);

#endif
