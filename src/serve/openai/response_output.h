/* The items of a response's output, as the parts of an answer come: what was thought, what is said,
 * calls of functions. They are kept, and sent as events meanwhile.
 *
 * Pieces of one kind after another make one item; a piece of another kind ends it and begins the
 * next one. Threads: one at a time. */
#ifndef SERVE_OPENAI_RESPONSE_OUTPUT_H
#define SERVE_OPENAI_RESPONSE_OUTPUT_H

#include "serve/common/chance.h"
#include "serve/http/exchange.h"
#include "serve/openai/response_seal.h"

typedef enum mc_output_kind {
    MC_OUTPUT_NONE,
    MC_OUTPUT_MESSAGE,
    MC_OUTPUT_REASONING, /* thoughts as the content of their item */
    MC_OUTPUT_SUMMARY,   /* as its summary */
    MC_OUTPUT_CALL       /* of a function; its text is the arguments */
} mc_output_kind;

typedef struct mc_response_output { /* zero is empty */
    mc_exchange *stream;            /* whose stream gets the events; NULL: none does */
    mc_buffer items;                /* that have ended: elements of JSON, with commas */
    size_t count;                   /* of these */
    mc_response_seal seal;          /* of thoughts; key NULL: they are not sealed */
    const char *response;           /* whose ids the items' are made of; NULL: they are any */

    /* Private. */
    int64_t sequence;       /* of the next event */
    mc_output_kind open;    /* the item that is being made */
    char id[MC_NAME_BYTES]; /* its */
    char call_id[MC_NAME_BYTES];
    mc_buffer name;     /* of a call's function */
    mc_buffer text;     /* its */
    mc_buffer sealed;   /* of thoughts, if they are sealed */
    mc_buffer logprobs; /* its: elements of JSON, with commas */
    mc_buffer event;    /* that is being written */
} mc_response_output;

/* Adds a piece of text; an empty one begins an item, too. false: no memory, or the stream was cut
 * off.
 *
 *  logprobs  of its tokens: elements of JSON with commas between them. Emptied */
bool mc_response_output_add(mc_response_output *output, mc_output_kind kind, mc_str text,
                            mc_buffer *logprobs);

/* Begins a call whose arguments come in pieces: by mc_response_output_more, up to the end of the
 * item. false: as above. */
bool mc_response_output_begin_call(mc_response_output *output, mc_str name);
bool mc_response_output_more(mc_response_output *output, mc_str arguments);

/* Ends the item that is being made. cut: the answer was cut off in it. false: as above. */
bool mc_response_output_end(mc_response_output *output, bool cut);

void mc_response_output_deinit(mc_response_output *output);

/* Begins an event: an object with its type and number. */
mc_put mc_response_event(mc_response_output *output, const char *type);

/* Closes the object and sends it. false: as above. */
bool mc_response_send(mc_response_output *output, const char *type, mc_put *put);

/* Makes a name as OpenAI's clients know them, such as "resp_...". */
void mc_response_name(const char *kind, char name[MC_NAME_BYTES]);

#endif
