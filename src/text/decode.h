/* The decoder: tokens to text.
 *
 * The pipeline of a tokenizer.json comes down to three stages, which run token by token, so that
 * decoding a whole text and decoding while a model writes are the same code:
 *   1. steps that rewrite the text of one token (Replace, Strip, Metaspace);
 *   2. tokens that stand for a byte: a run of them becomes characters (ByteFallback);
 *   3. after Fuse, what is stripped from the beginning of the whole text (Strip).
 * Immutable once loaded. */
#ifndef TEXT_DECODE_H
#define TEXT_DECODE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>

typedef struct mc_decoder {
    mc_buffer steps;        /* of token_step, in order */
    bool joins_with_spaces; /* there is no decoder: tokens are joined by a space */
    bool byte_fallback;
    bool fused;
    mc_str strip; /* the character stripped from the whole text */
    size_t strip_count;
} mc_decoder;

/* Reads "decoder". errors  MICA_EUNSUPPORTED names the type; MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_decoder_parse(mc_decoder *d, mc_json v, mc_arena *arena);
void mc_decoder_deinit(mc_decoder *d);

typedef struct mc_decoding { /* zero is the beginning of a text */
    mc_buffer text;          /* decided, to be handed out */
    mc_buffer bytes;         /* the run of bytes that is not text yet */
    size_t bytes_valid;      /* so many of them are whole characters */
    bool bytes_bad;          /* the run can never become valid */
    bool started;            /* a token went by */
    bool strip_done;         /* nothing more is stripped at the beginning */
    size_t stripped;
    mc_buffer scratch[2];
} mc_decoding;

/* Takes the next token. false: no memory. */
bool mc_decode_token(const mc_decoder *d, mc_decoding *s, mc_str token);

/* Makes text of the run of bytes where that is whole characters. Returns true where none is left. */
bool mc_decode_settle(const mc_decoder *d, mc_decoding *s, bool *no_memory);

/* Makes text of the run of bytes in any case: each byte is U+FFFD where the run is not valid. */
bool mc_decode_end(const mc_decoder *d, mc_decoding *s);

void mc_decoding_reset(mc_decoding *s); /* to the beginning of a text; keeps the memory */
void mc_decoding_deinit(mc_decoding *s);

#endif
