/* Patterns of tokenizer.json files, matched by PCRE2.
 *
 * The files' patterns are written for Oniguruma in its Ruby syntax. Differences from PCRE2's syntax
 * (white space, words, options) are translated; patterns that cannot be translated are refused.
 *
 * The work of all matches in a text together is bounded, so that no pattern hangs. PCRE2 can only
 * bound the steps of one attempt, and a step may read the whole text. Therefore an attempt first
 * sees few bytes and may take few steps; that is enough for almost all matches, and takes at most
 * about 10 us per byte of text. If it is not enough, a copy of the pattern that reports each step
 * (by callouts) is matched against the whole text, and these steps are counted.
 *
 * Threads: any number may use a compiled pattern at once; one at a time uses a room. */
#ifndef TEXT_TOKENIZER_REGEX_H
#define TEXT_TOKENIZER_REGEX_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mc_regex mc_regex;

enum { MC_REGEX_MAX_LEN = 65536 }; /* bytes of a pattern */

/* The state of matching in one text, shared by all patterns of one thread. Zero is empty. */
typedef struct mc_regex_room {
    void *match;        /* pcre2_match_data */
    void *counted;      /* pcre2_match_context of attempts whose steps are counted */
    uint64_t steps;     /* counted so far */
    uint64_t max_steps; /* 0: that of an empty text */
    size_t last;        /* position of the last step */
    size_t reach;       /* of the current pattern: see regex.c */
    bool references;
} mc_regex_room;

/* Begins a text of text_len bytes. */
void mc_regex_begin(mc_regex_room *room, size_t text_len);

typedef struct mc_span {
    size_t start, end;
} mc_span;

/* Compiles a pattern.
 * errors  MICA_EFORMAT a malformed pattern; MICA_EUNSUPPORTED mica does not know a part of it (the
 *         text names it); MICA_ENOMEM */
mica_status mc_regex_compile(mc_str pattern, mc_regex **out);
void mc_regex_free(mc_regex *regex);

/* Finds the first match, which may be empty, in valid UTF-8 text at or after `from`. *found: there
 * is one. errors  MICA_EUNSUPPORTED matching took too many steps; MICA_ENOMEM */
mica_status mc_regex_find(const mc_regex *regex, mc_regex_room *room, mc_str text, size_t from,
                          mc_span *hit, bool *found);
void mc_regex_room_deinit(mc_regex_room *room);

/* Adds the pattern in PCRE2's syntax to out. errors  MICA_EUNSUPPORTED, MICA_ENOMEM */
mica_status mc_regex_translate(mc_str pattern, mc_buffer *out);

#endif
