/* Tokenizers: text to token ids and back, as the model's tokenizer.json says.
 *
 * mica reads tokenizer.json files of the Hugging Face `tokenizers` library with a model of BPE,
 * WordPiece or Unigram, and gives the same ids and the same text as that library. A file with a
 * component that mica does not know is refused by its name (MICA_EUNSUPPORTED); no part of a file
 * is ever ignored.
 *
 * Text is UTF-8 with a length and may contain NUL bytes; ids are int32.
 *
 * A tokenizer.json is not trusted. These limits are far above every tokenizer in use:
 *
 *  a file   ids below 4,194,304, and below 1,048,576 + 16 * number of tokens; 256 normaliser, 32
 *           pre-tokeniser and 32 decoder steps; patterns of 65,536 bytes; added tokens, and
 *           tokens of WordPiece and Unigram, of 1,024 bytes; 4,096 special ids around a text;
 *           256 MiB of decoded tokens.
 *  a text   below 2^31 bytes. The steps before the model may add 64 KiB + 32 * its bytes in all.
 *           Pattern matching may take 20 million + 256 * its bytes counted steps.
 *  a token  The decoder's steps may add 64 + 8 * its bytes.
 *
 * Exceeding a limit is MICA_EUNSUPPORTED (MICA_EFORMAT for ids and patterns) before memory is
 * allocated for it.
 *
 * Threads: an open tokenizer never changes and may be used by any number of threads at once. A
 * decoder stream belongs to one thread at a time. */
#ifndef MICA_TOKENIZER_H
#define MICA_TOKENIZER_H

#include <mica/api.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** An open tokenizer. */
typedef struct mica_tokenizer mica_tokenizer;

/** Opens a tokenizer.
 *
 *  path     a tokenizer.json, or a model folder that holds one. In a folder tokenizer_config.json
 *           is read, too, if there is one: it names the tokens that begin and end a text, and its
 *           "add_bos_token" and "add_eos_token" say whether add_special adds them.
 *  tok      receives the tokenizer, owned by the caller; NULL on failure.
 *  errors   MICA_ENOENT, MICA_EIO; MICA_EFORMAT not JSON, no vocabulary, an id that is negative,
 *           taken twice or above 4,194,303, a merge of unknown tokens, a field of the wrong type,
 *           a pattern that cannot be compiled; MICA_EUNSUPPORTED a kind of model, step or pattern
 *           that mica does not know; MICA_ENOMEM */
MICA_API mica_status mica_tokenizer_open(const char *path, mica_tokenizer **tok);

/** Closes *tok and sets it to NULL. Does nothing for NULL. A tokenizer that decoder streams still
 *  use ends with the last of them. */
MICA_API void mica_tokenizer_close(mica_tokenizer **tok);

/** Text to ids.
 *
 *  text, len    UTF-8, len bytes, below 2^31. len 0 is the empty text, not a NUL-terminated one as
 *               in mica_generate; text may be NULL then. Borrowed. Special tokens in the text are
 *               recognised: remove them from text that you do not trust.
 *  add_special  add the special tokens that the tokenizer puts around a text, such as <bos>.
 *  ids, n       receive n ids, freed with mica_free; never NULL on success.
 *  errors       MICA_EFORMAT the text is not UTF-8 (the error's text names the byte);
 *               MICA_EUNSUPPORTED the text exceeds a limit above: it grows too much, or a pattern
 *               takes too many steps;
 *               MICA_EINVAL the text is too long, or an argument is NULL; MICA_ENOMEM
 *  source       Tokenizer.encode of `tokenizers` */
MICA_API mica_status mica_tokenizer_encode(const mica_tokenizer *tok, const char *text, size_t len,
                                           bool add_special, int32_t **ids, size_t *n);

/** A pair of texts to ids, with the special tokens that the tokenizer puts around a pair: what
 *  cross-encoders read.
 *
 *  text, len           the first text, as in mica_tokenizer_encode.
 *  second, second_len  the second one, which may be empty: that is a pair, too.
 *  ids, types, n       receive n ids and the type id of each (0 or 1 in BERT), freed with
 *                      mica_free; never NULL on success.
 *  errors              as mica_tokenizer_encode; MICA_EUNSUPPORTED also: the tokenizer has no form
 *                      for pairs
 *  source              Tokenizer.encode of `tokenizers` with a pair */
MICA_API mica_status mica_tokenizer_encode_pair(const mica_tokenizer *tok, const char *text,
                                                size_t len, const char *second, size_t second_len,
                                                int32_t **ids, int32_t **types, size_t *n);

/** Ids to text.
 *
 *  ids, n        n ids. An id without a token (a model's head may be wider than its vocabulary)
 *                gives no text. Borrowed.
 *  skip_special  leave out special tokens.
 *  text, len     receive UTF-8 of len bytes and a NUL after it, freed with mica_free. Bytes that
 *                are not valid UTF-8 become U+FFFD.
 *  errors        MICA_EINVAL a negative id, or a NULL argument; MICA_EUNSUPPORTED the first token
 *                grows beyond the limit above; MICA_ENOMEM
 *  source        Tokenizer.decode of `tokenizers` */
MICA_API mica_status mica_tokenizer_decode(const mica_tokenizer *tok, const int32_t *ids, size_t n,
                                           bool skip_special, char **text, size_t *len);

/** The largest id plus one: added tokens and ids without a token are counted. */
MICA_API size_t mica_tokenizer_vocab_size(const mica_tokenizer *tok);

/** The token as the vocabulary spells it, such as "▁the" or "<0x0A>".
 *
 *  len      receives its length in bytes (it may contain NUL bytes); may be NULL.
 *  returns  UTF-8 with a NUL after it, which lives as long as the tokenizer; NULL: id has no
 *           token. */
MICA_API const char *mica_tokenizer_token(const mica_tokenizer *tok, int32_t id, size_t *len);

/** The id of the token with that spelling of len bytes in the vocabulary; -1: there is none. */
MICA_API int32_t mica_tokenizer_find(const mica_tokenizer *tok, const char *token, size_t len);

/** True for ids of special tokens (<bos>, <end_of_turn> ...), which skip_special leaves out. */
MICA_API bool mica_tokenizer_is_special(const mica_tokenizer *tok, int32_t id);

/** The ids of "bos_token" (begins a text), "eos_token" (ends it), "pad_token" and "unk_token" in
 *  the folder's tokenizer_config.json, or where that does not name them in special_tokens_map.json.
 *  -1: it names none, the vocabulary lacks the token, or the
 *  tokenizer was not opened from a folder. A model may stop at more tokens than eos:
 *  generation_config.json lists them. */
MICA_API int32_t mica_tokenizer_bos(const mica_tokenizer *tok);
MICA_API int32_t mica_tokenizer_eos(const mica_tokenizer *tok);
MICA_API int32_t mica_tokenizer_pad(const mica_tokenizer *tok);
MICA_API int32_t mica_tokenizer_unk(const mica_tokenizer *tok);

/** Turns ids to text one by one, as a model generates them. */
typedef struct mica_decoder_stream mica_decoder_stream;

/** Opens a stream.
 *
 *  tok      kept until the stream is closed, also where it is a model's.
 *  stream   receives the stream, owned by the caller; NULL on failure.
 *  errors   MICA_EINVAL, MICA_ENOMEM */
MICA_API mica_status mica_decoder_stream_open(const mica_tokenizer *tok, bool skip_special,
                                              mica_decoder_stream **stream);

/** Takes the next id and gives the text that is complete with it.
 *
 *  Every piece consists of whole characters. Text that ends in an unfinished character or in U+FFFD
 *  is held back, and the piece is empty. If mica_tokenizer_decode of the same ids has no U+FFFD,
 *  the joined pieces equal its text.
 *
 *  id          as in mica_tokenizer_decode.
 *  piece, len  receive UTF-8 of len bytes and a NUL after it, valid until the stream's next call;
 *              len is 0 while text is held back.
 *  errors      as mica_tokenizer_decode; after MICA_ENOMEM, close the stream
 *  source      DecodeStream.step of `tokenizers` */
MICA_API mica_status mica_decoder_stream_push(mica_decoder_stream *stream, int32_t id,
                                              const char **piece, size_t *len);

/** Gives the held-back text, with unfinished bytes as U+FFFD, and resets the stream. */
MICA_API mica_status mica_decoder_stream_flush(mica_decoder_stream *stream, const char **piece,
                                               size_t *len);

/** Closes *stream and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_decoder_stream_close(mica_decoder_stream **stream);

MICA_END

#endif
