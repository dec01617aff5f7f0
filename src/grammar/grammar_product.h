/* Products of automata: the texts that several languages have, or have not, in common.
 *
 * Threads: as grammar_build.h. */
#ifndef GRAMMAR_GRAMMAR_PRODUCT_H
#define GRAMMAR_GRAMMAR_PRODUCT_H

#include "grammar/grammar_build.h"

/* A language of bytes: what leads from `start` to MC_RETURN in the builder of the parts. */
typedef struct mc_language {
    int32_t start; /* MC_DEAD: the empty language */
    bool negated;  /* what does not lead there */
} mc_language;

/* Texts that are in each of the languages, as a deterministic automaton.
 *
 *  parts      where the languages are. They call no rules. Its error becomes one of b.
 *  languages  [count], one of them at least not negated
 *  next       what comes behind
 *  errors     of the builder b: MICA_EUNSUPPORTED more than MC_PRODUCT_STATES states */
int32_t mc_build_product(mc_builder *b, const mc_builder *parts, const mc_language *languages,
                         size_t count, int32_t next);

enum { MC_PRODUCT_STATES = 20000 };

#endif
