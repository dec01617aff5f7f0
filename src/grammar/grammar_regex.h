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

/* Texts that a pattern matches.
 *
 *  search  whether it may match anywhere in the text, as the patterns of schemas do, unless ^ and $
 *          bind it; else it matches the whole text.
 *  errors  of the builder: MICA_EUNSUPPORTED, MICA_EFORMAT with the place in the pattern */
int32_t mc_build_regex(mc_builder *b, mc_char_form form, mc_str pattern, bool search, int32_t next);

#endif
