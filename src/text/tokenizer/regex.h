/* Patterns of tokenizer.json files, matched by PCRE2.
 *
 * The files' patterns are written for Oniguruma in its Ruby syntax. What the two spell or mean
 * differently (white space, words, options) is translated; what cannot be is refused. How much work
 * one match may take is bounded, so that no pattern hangs.
 *
 * Threads: a compiled pattern may be used by any number at once, a room by one. */
#ifndef TEXT_TOKENIZER_REGEX_H
#define TEXT_TOKENIZER_REGEX_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>

typedef struct mc_regex mc_regex;

/* What matching needs besides the pattern; zero is empty; for all patterns of one thread. */
typedef struct mc_regex_room {
    void *match; /* pcre2_match_data */
} mc_regex_room;

typedef struct mc_span {
    size_t start, end;
} mc_span;

/* errors  MICA_EFORMAT not a pattern; MICA_EUNSUPPORTED names what mica does not know;
 *         MICA_ENOMEM */
mica_status mc_regex_compile(mc_str pattern, mc_regex **out);
void mc_regex_free(mc_regex *regex);

/* The first match in valid UTF-8 text at or after `from`, which may be empty; *found tells whether
 * there is one. errors  MICA_EUNSUPPORTED matching took too much work; MICA_ENOMEM */
mica_status mc_regex_find(const mc_regex *regex, mc_regex_room *room, mc_str text, size_t from,
                          mc_span *hit, bool *found);
void mc_regex_room_deinit(mc_regex_room *room);

/* Adds the pattern as PCRE2 spells it. errors  MICA_EUNSUPPORTED, MICA_ENOMEM */
mica_status mc_regex_translate(mc_str pattern, mc_buffer *out);

#endif
