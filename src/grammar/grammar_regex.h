/* Building grammars of regular expressions: what JSON schemas call a pattern.
 *
 * The syntax is that of ECMAScript without what is no regular language, or means different things
 * to different engines: no backreferences, look-around, \b, \p and flags; ^ only at the beginning
 * of the pattern or of one of its alternatives, $ only at their ends. \d, \w and \s are of ASCII,
 * and so is all that leaves one of them out, so that what matches here matches under Unicode's
 * rules, too. `.` is no line terminator.
 *
 * Threads: as grammar_build.h. */
#ifndef GRAMMAR_GRAMMAR_REGEX_H
#define GRAMMAR_GRAMMAR_REGEX_H

#include "grammar/grammar_chars.h"

/* Where a pattern matches, and flags. Under MC_REGEX_WIDE it has all that some engine might match,
 * for its negation: \d, \w, \s and the others all that is not ASCII, and . all but \n. */
enum {
    MC_REGEX_WHOLE = 0,     /* the whole text: ^ and $ at its ends say nothing */
    MC_REGEX_ANYWHERE = 1,  /* somewhere in the text, unless ^ and $ bind it */
    MC_REGEX_BEGINNING = 2, /* from the text's beginning on, to its end where $ says so */
    MC_REGEX_FOLD = 4,      /* letters of ASCII match in either case */
    MC_REGEX_DOT_ALL = 8,   /* . is any character */
    MC_REGEX_WIDE = 16
};

/* Texts that a pattern matches.
 *
 *  how     one of the above, and flags.
 *  errors  of the builder: MICA_EUNSUPPORTED, MICA_EFORMAT with the place in the pattern */
int32_t mc_build_regex(mc_builder *b, mc_char_form form, mc_str pattern, unsigned how,
                       int32_t next);

/* How many characters texts have at least, and at most (-1: there is no limit), that a pattern
 * matches. false: it is none; the thread's error text does not say why. */
bool mc_regex_lengths(mc_str pattern, unsigned how, int64_t *min, int64_t *max);

#endif
