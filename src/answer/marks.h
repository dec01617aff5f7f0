/* A format with its literals as an answer has them: MC_MARK stands only before marks that are
 * tokens of the vocabulary. Threads: a made one never changes. */
#ifndef ANSWER_MARKS_H
#define ANSWER_MARKS_H

#include "answer/format.h"
#include "base/arena.h"

typedef struct mc_made_format { /* zero is empty */
    mc_call_block blocks[MC_CALL_BLOCKS];
    mc_call_syntax syntax[MC_CALL_BLOCKS];
    mc_str think_begin, think_end;
    bool has_channels;
    mc_channels channels;
    mc_call_block content; /* of a message that is a call */
    mc_arena arena;
} mc_made_format;

/* errors  MICA_ENOMEM; it must be freed, too */
mica_status mc_made_format_init(mc_made_format *made, const mc_answer_format *format);
void mc_made_format_deinit(mc_made_format *made);

#endif
