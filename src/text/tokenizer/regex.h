/* Patterns of tokenizer.json files, matched by PCRE2.
 *
 * The files' patterns are written for Oniguruma in its Ruby syntax. What the two spell or mean
 * differently (white space, words, options) is translated; what cannot be is refused.
 *
 * How much work the matches in a text may take is bounded, for all of them together, so that no
 * pattern hangs. PCRE2 can only bound the steps of one attempt, and a step may look at the whole
 * text. So an attempt first sees few bytes and may take few steps, which is enough for almost all
 * matches and takes at most some 10 us a byte of text. Where it is not enough, a copy of the
 * pattern that tells each of its steps is matched against the whole text; these steps are counted.
 *
 * Threads: a compiled pattern may be used by any number at once, a room by one. */
#ifndef TEXT_TOKENIZER_REGEX_H
#define TEXT_TOKENIZER_REGEX_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mc_regex mc_regex;

enum { MC_REGEX_MAX_LEN = 65536 }; /* bytes of a pattern */

/* What matching in one text needs besides the pattern; zero is empty; for all patterns of one
 * thread. */
typedef struct mc_regex_room {
    void *match;        /* pcre2_match_data */
    void *counted;      /* pcre2_match_context of attempts whose steps are counted */
    uint64_t steps;     /* that were counted */
    uint64_t max_steps; /* 0: as for a text without length */
    size_t last;        /* where the last step was */
    size_t reach;       /* of the pattern in use: see regex.c */
    bool references;
} mc_regex_room;

/* Begins a text of so many bytes. */
void mc_regex_begin(mc_regex_room *room, size_t text_len);

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
