/* What a step looks for: a plain string, or a regular expression. */
#ifndef TEXT_TOKENIZER_PATTERN_H
#define TEXT_TOKENIZER_PATTERN_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/work.h"

#include <stdbool.h>

typedef struct mc_pattern {
    mc_str text;           /* never empty where regex is NULL */
    const mc_regex *regex; /* NULL: the text is a plain string */
} mc_pattern;

/* The matches in a text, one after the other, as `tokenizers` finds them: an empty match is taken,
 * but not where the last match ended. Begin with {pattern, room, text}. */
typedef struct mc_matches {
    const mc_pattern *pattern;
    mc_regex_room *room;
    mc_str text; /* valid UTF-8 */
    size_t from; /* where to look next */
    bool any;    /* there was a match; it ended in last_end */
    size_t last_end;
} mc_matches;

/* errors  those of mc_regex_find */
mica_status mc_matches_next(mc_matches *m, mc_span *hit, bool *found);

/* Adds text to out with each match replaced by content.
 * errors  also MICA_EUNSUPPORTED more than work has left; MICA_ENOMEM */
mica_status mc_pattern_replace(const mc_pattern *pattern, mc_work *work, mc_str text,
                               mc_str content, mc_buffer *out);

#endif
