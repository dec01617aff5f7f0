/* The deltas of OpenAI's streamed chats: what an event adds to a message.
 * Threads: one at a time. */
#ifndef SERVE_OPENAI_DELTA_H
#define SERVE_OPENAI_DELTA_H

#include "answer/splitter.h"
#include "serve/common/put.h"

typedef struct mc_openai_delta { /* zero adds nothing */
    bool role;                   /* the first event */
    bool blank;                  /* it has a content, if only an empty one */
    const mc_piece *piece;       /* of the answer; NULL: none */
} mc_openai_delta;

/* Writes "delta": {...}. calls: those of tools that the choice has begun. */
void mc_openai_put_delta(mc_put *put, const mc_openai_delta *delta, size_t *calls);

/* Writes a call of a tool, with an id of its own. index: that of a delta, else negative. */
void mc_openai_put_call(mc_put *put, int64_t index, mc_str name, mc_str arguments);

#endif
