/* Building grammars of characters: classes of code points as UTF-8, in plain text or within a JSON
 * string. Threads: as grammar_build.h. */
#ifndef GRAMMAR_GRAMMAR_CHARS_H
#define GRAMMAR_GRAMMAR_CHARS_H

#include "base/utf8.h"
#include "grammar/grammar_build.h"

typedef struct mc_char_range { /* code points, both included */
    uint32_t low, high;
} mc_char_range;

/* How characters are written. */
typedef enum mc_char_form {
    MC_CHARS_TEXT, /* as they are */
    MC_CHARS_JSON  /* as a JSON string has them: what must be escaped is, in its shortest way */
} mc_char_form;

/* One character of a class; surrogates are none. ranges: [count], in any order. */
int32_t mc_build_class(mc_builder *b, mc_char_form form, const mc_char_range *ranges, size_t count,
                       int32_t next);

/* Sorts ranges and joins those that touch. Returns how many are left. */
size_t mc_char_ranges_join(mc_char_range *ranges, size_t count);

/* What sorted, joined ranges leave out, up to `max`: at most count + 1 ranges. */
size_t mc_char_ranges_invert(const mc_char_range *ranges, size_t count, uint32_t max,
                             mc_char_range *inverted);

/* Any one character within a JSON string, escaped in any way. */
int32_t mc_build_json_char(mc_builder *b, int32_t next);

#endif
