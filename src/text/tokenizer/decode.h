/* The decoder: tokens to text.
 *
 * The pipeline of a tokenizer.json becomes three stages, which run token by token. Decoding a whole
 * text and decoding while a model generates are therefore the same code:
 *   1. steps that rewrite the text of one token (Replace, Strip, Metaspace, WordPiece). They run
 *      when the tokenizer is loaded; for the first token of a text also later, if its result
 *      differs;
 *   2. bytes: of tokens that stand for one byte each (ByteFallback), or of all tokens (ByteLevel);
 *   3. after Fuse or ByteLevel: stripping the beginning of the whole text (Strip).
 * Immutable once loaded. */
#ifndef TEXT_TOKENIZER_DECODE_H
#define TEXT_TOKENIZER_DECODE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/store.h"
#include "text/tokenizer/work.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mc_decoded { /* the decoded text of a token that is not a text's first */
    uint32_t start;         /* position in mc_decoder.texts; or the byte itself, by the flags */
    uint32_t len_flags;
} mc_decoded;

enum {
    MC_DECODED_NONE = 1u << 29, /* no token has this id */
    MC_DECODED_BYTE = 1u << 30,
    MC_DECODED_LEN = MC_DECODED_NONE - 1
};

typedef struct mc_decoder {
    mc_buffer tokens; /* of mc_decoded, one per id */
    mc_buffer texts;
    bool first_differs;     /* the first token of a text runs through the steps */
    mc_buffer steps;        /* of token_step, in order */
    bool joins_with_spaces; /* there is no decoder: tokens are joined by a space */
    bool byte_fallback;
    bool byte_level;
    bool fused;
    mc_str strip; /* the character stripped from the whole text */
    size_t strip_count;
} mc_decoder;

/* Reads "decoder".
 * errors  MICA_EUNSUPPORTED names the type; MICA_EFORMAT; those of mc_regex_compile; MICA_ENOMEM */
mica_status mc_decoder_parse(mc_decoder *d, mc_json v, mc_store *store);
/* Decodes each of n tokens once; `bytes` is the size of all their texts. `spelled` gives a token's
 * text before any step.
 * errors  MICA_EUNSUPPORTED the texts exceed the limits of mc_work or 256 MiB; those of
 *         mc_regex_find; MICA_ENOMEM */
mica_status mc_decoder_learn(mc_decoder *d, size_t n, size_t bytes,
                             mc_str (*spelled)(const void *arg, int32_t id), const void *arg);
void mc_decoder_deinit(mc_decoder *d);

/* The bytes that a token behind the first one adds to a text; alive as long as the decoder. false:
 * no token has this id. */
bool mc_decoder_bytes(const mc_decoder *d, int32_t id, mc_str *bytes);

typedef struct mc_decoding { /* zero is the beginning of a text */
    mc_buffer text;          /* complete text, to be handed out */
    mc_buffer bytes;         /* a run of bytes that is not text yet */
    size_t bytes_valid;      /* length of the whole characters in it */
    bool bytes_bad;          /* the run can never become valid */
    bool started;            /* the first token was decoded */
    bool strip_done;         /* nothing more is stripped at the beginning */
    size_t stripped;
    mc_buffer scratch[2];
    mc_work work; /* limits of one token; while loading, the pattern steps of all tokens */
} mc_decoding;

/* Decodes the next token, an id below n. An id without a token gives nothing. `token` is its text
 * before any step. errors  MICA_EUNSUPPORTED the text exceeds its limits; MICA_ENOMEM; those of
 * mc_regex_find */
mica_status mc_decode_token(const mc_decoder *d, mc_decoding *s, int32_t id, mc_str token);

/* Turns the run of bytes to text if it consists of whole characters. Returns true if no byte is
 * left. */
bool mc_decode_settle(const mc_decoder *d, mc_decoding *s, bool *no_memory);

/* Turns the run of bytes to text in any case. If it is invalid, U+FFFD replaces each byte of the
 * run (ByteFallback), or each longest beginning of a character (ByteLevel). false: no memory. */
bool mc_decode_end(const mc_decoder *d, mc_decoding *s);

void mc_decoding_reset(mc_decoding *s); /* to the beginning of a text; keeps the memory */
void mc_decoding_deinit(mc_decoding *s);

#endif
