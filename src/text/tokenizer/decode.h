/* The decoder: tokens to text.
 *
 * The pipeline of a tokenizer.json comes down to three stages, which run token by token, so that
 * decoding a whole text and decoding while a model writes are the same code:
 *   1. steps that rewrite the text of one token (Replace, Strip, Metaspace), done at load time but
 *      for the first token of a text where that matters;
 *   2. bytes: of tokens that stand for one each (ByteFallback), or of all tokens (ByteLevel);
 *   3. after Fuse or ByteLevel, what is stripped from the beginning of the whole text (Strip).
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

typedef struct mc_decoded { /* what becomes of a token that is not a text's first */
    uint32_t start;         /* in mc_decoder.texts; the byte itself where flags say so */
    uint32_t len_flags;
} mc_decoded;

enum {
    MC_DECODED_NONE = 1u << 29, /* no token has this id */
    MC_DECODED_BYTE = 1u << 30,
    MC_DECODED_LEN = MC_DECODED_NONE - 1
};

typedef struct mc_decoder {
    mc_buffer tokens; /* of mc_decoded, one an id */
    mc_buffer texts;
    bool first_differs;     /* the first token of a text goes through the steps */
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
/* Decodes every one of n tokens, of so many bytes together, once. spelled gives what a token is
 * decoded as, before any step.
 * errors  MICA_EUNSUPPORTED more than the work allows, or 256 MiB; those of mc_regex_find;
 *         MICA_ENOMEM */
mica_status mc_decoder_learn(mc_decoder *d, size_t n, size_t bytes,
                             mc_str (*spelled)(const void *arg, int32_t id), const void *arg);
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
    mc_work work; /* of one token; of all that are learnt where patterns are matched */
} mc_decoding;

/* Takes the next token, an id below n; one that has no token is left out. `token` is its text
 * before any step. errors  MICA_EUNSUPPORTED more than the work allows; MICA_ENOMEM; those of
 * mc_regex_find */
mica_status mc_decode_token(const mc_decoder *d, mc_decoding *s, int32_t id, mc_str token);

/* Makes text of the run of bytes where that is whole characters. Returns true where none is
 * left. */
bool mc_decode_settle(const mc_decoder *d, mc_decoding *s, bool *no_memory);

/* Makes text of the run of bytes in any case. What is not valid is U+FFFD: each byte of the run
 * (ByteFallback), or each longest beginning of a character (ByteLevel). false: no memory. */
bool mc_decode_end(const mc_decoder *d, mc_decoding *s);

void mc_decoding_reset(mc_decoding *s); /* to the beginning of a text; keeps the memory */
void mc_decoding_deinit(mc_decoding *s);

#endif
