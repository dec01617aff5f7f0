/* A response of OpenAI's responses API that is being computed: its answer as a stream of events, or
 * as one object.
 *
 * Threads: the scheduler's, after the request was submitted. */
#ifndef SERVE_OPENAI_RESPONSE_H
#define SERVE_OPENAI_RESPONSE_H

#include "serve/jobs/completion.h"
#include "serve/openai/response_output.h"

typedef struct mc_response {
    mc_completion job;
    bool stream, stores, logprobs;
    bool summary; /* thoughts are told as summaries */
    int64_t created;
    char id[MC_NAME_BYTES];
    mc_buffer echo;     /* members of the object that repeat the request, without braces */
    mc_buffer input;    /* of the request, if it is kept: items as response_input.h has them */
    mc_buffer messages; /* the conversation: JSON objects with commas between them */

    /* Private. */
    mc_splitter *splitter;
    mc_response_output output;
    mc_buffer
        pending;     /* log-probabilities of tokens whose text is held back: as elements of JSON */
    mc_buffer token; /* scratch */
    bool gap;        /* behind a thought or a call: white space is dropped */
    mica_finish finish;
} mc_response;

extern const mc_completion_ops mc_response_ops;

/* Makes what splits the answer, whose form is compiled. errors  MICA_ENOMEM */
mica_status mc_response_split(mc_response *response);

/* Writes the events at the beginning of a stream, which waits for it. */
void mc_response_begin(mc_response *response);

#endif
