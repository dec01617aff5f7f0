/* A response of OpenAI's responses API that is being computed: its answer as a stream of events, or
 * as one object.
 *
 * Threads: the scheduler's, after the request was submitted. */
#ifndef SERVE_RESPONSE_H
#define SERVE_RESPONSE_H

#include "serve/chance.h"
#include "serve/completion.h"

typedef struct mc_response {
    mc_completion job;
    bool stream, stores, logprobs;
    int64_t created;
    char id[MC_NAME_BYTES], item[MC_NAME_BYTES]; /* of the response, of its message */
    mc_buffer echo;     /* members of the object that repeat the request, without braces */
    mc_buffer messages; /* the conversation: JSON objects with commas between them */

    /* Private. */
    int64_t sequence;           /* of the next event */
    mc_buffer text;             /* the answer so far */
    mc_buffer logprob_elements; /* JSON with commas between them */
    mc_buffer scratch, token;   /* of the event that is being written */
    mica_finish finish;
} mc_response;

extern const mc_completion_ops mc_response_ops;

/* Writes the events at the beginning of a stream, which waits for it. */
void mc_response_begin(mc_response *response);

#endif
