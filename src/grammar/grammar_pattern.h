/* Patterns of JSON schemas: regular expressions (grammar/grammar_regex.h) that match somewhere in a
 * text, and may begin with ^ and look-aheads. Threads: as grammar_build.h. */
#ifndef GRAMMAR_GRAMMAR_PATTERN_H
#define GRAMMAR_GRAMMAR_PATTERN_H

#include "grammar/grammar_product.h"
#include "grammar/grammar_regex.h"

/* Adds the languages that a pattern is made of: a text matches that is in all of them.
 *
 *  wide       texts that it matches for some engine (MC_REGEX_WIDE), else for all
 *  languages  mc_language
 *  returns    false: error of the builder. MICA_EUNSUPPORTED, MICA_EFORMAT, as mc_build_regex */
bool mc_pattern_languages(mc_builder *parts, mc_char_form form, mc_str pattern, bool wide,
                          mc_buffer *languages);

/* Texts in which a pattern matches somewhere. errors  of the builder, as above */
int32_t mc_build_pattern(mc_builder *b, mc_char_form form, mc_str pattern, bool wide, int32_t next);

#endif
