/* Building grammars of JSON numbers within bounds. Threads: as grammar_build.h. */
#ifndef GRAMMAR_GRAMMAR_NUMBER_H
#define GRAMMAR_GRAMMAR_NUMBER_H

#include "grammar/grammar_build.h"

enum { MC_INTEGER_DIGITS = 18, MC_FRACTION_DIGITS = 16 }; /* the most that are written */

typedef struct mc_number_bound {
    bool given, exclusive;
    double value;
} mc_number_bound;

/* Numbers from `low` to `high`. Integers have no fraction and no exponent. Other numbers have an
 * exponent, of up to two digits, only where there are no bounds.
 * errors  of the builder: MICA_EUNSUPPORTED a bound with more digits than these */
int32_t mc_build_number(mc_builder *b, bool integer, mc_number_bound low, mc_number_bound high,
                        int32_t next);

#endif
