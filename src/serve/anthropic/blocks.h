/* The content blocks of an answer in Anthropic's form: sent as events while the answer is made, or
 * kept for the whole.
 *
 * Pieces of one kind after another make one block; a piece of another kind ends it and begins the
 * next one. Threads: one at a time. */
#ifndef SERVE_ANTHROPIC_BLOCKS_H
#define SERVE_ANTHROPIC_BLOCKS_H

#include "serve/common/chance.h"
#include "serve/http/exchange.h"

typedef enum mc_block_kind {
    MC_BLOCK_NONE,
    MC_BLOCK_TEXT,
    MC_BLOCK_THINKING,
    MC_BLOCK_TOOL_USE
} mc_block_kind;

typedef struct mc_anthropic_blocks { /* zero is empty */
    mc_exchange *stream;             /* whose stream gets the events; NULL: all is kept */
    mc_buffer whole;                 /* blocks that have ended: elements of JSON, with commas */
    mc_buffer text;                  /* of the block that is open, if it is kept */
    mc_buffer name;                  /* of the tool, if that is a call */
    mc_buffer event;                 /* that is being written */
    mc_block_kind open;
    size_t count;           /* blocks that have ended */
    char id[MC_NAME_BYTES]; /* of a call */
} mc_anthropic_blocks;

/* Adds a piece of text. false: no memory, or the stream was cut off. */
bool mc_anthropic_blocks_add(mc_anthropic_blocks *blocks, mc_block_kind kind, mc_str text);

/* Begins a call of a tool, a block of its own, whose input comes in pieces: by
 * mc_anthropic_blocks_add of MC_BLOCK_TOOL_USE, the text of a JSON object, which may be cut off.
 * The next block ends it. false: as above. */
bool mc_anthropic_blocks_begin_call(mc_anthropic_blocks *blocks, mc_str name);

/* Ends the block that is open. false: as above. */
bool mc_anthropic_blocks_end(mc_anthropic_blocks *blocks);

void mc_anthropic_blocks_deinit(mc_anthropic_blocks *blocks);

/* Begins an event in `event`: an object whose "type" is the event's name. */
mc_put mc_anthropic_event(mc_buffer *event, const char *name);

/* Closes the object and sends it. false: as above. */
bool mc_anthropic_send(mc_exchange *http, const char *name, mc_put *put);

#endif
