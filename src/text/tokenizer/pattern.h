/* The pattern of a step: a plain string or a regular expression. */
#ifndef TEXT_TOKENIZER_PATTERN_H
#define TEXT_TOKENIZER_PATTERN_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/work.h"

#include <stdbool.h>

typedef struct mc_pattern {
    mc_str text;           /* not empty if regex is NULL */
    const mc_regex *regex; /* NULL: the text is a plain string */
} mc_pattern;

/* The matches in a text, one after the other, as `tokenizers` finds them: an empty match counts,
 * but not at the end of the last match. Begin with {pattern, room, text}. */
typedef struct mc_matches {
    const mc_pattern *pattern;
    mc_regex_room *room;
    mc_str text; /* valid UTF-8 */
    size_t from; /* start of the next search */
    bool any;    /* there was a match, which ended at last_end */
    size_t last_end;
} mc_matches;

/* errors  those of mc_regex_find */
mica_status mc_matches_next(mc_matches *m, mc_span *hit, bool *found);

/* Adds text to out with each match replaced by content.
 * errors  also MICA_EUNSUPPORTED the text exceeds its limits; MICA_ENOMEM */
mica_status mc_pattern_replace(const mc_pattern *pattern, mc_work *work, mc_str text,
                               mc_str content, mc_buffer *out);

#endif
