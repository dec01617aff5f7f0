/* Tokenizers: text to token ids and back, as the model's tokenizer.json says.
 *
 * Read are tokenizer.json files of the Hugging Face `tokenizers` library with a BPE model; ids, and
 * the text made of them, are the same as that library's. A file that needs something mica does not
 * know is refused with the name of it (MICA_EUNSUPPORTED), never read halfway.
 *
 * Text is UTF-8 with a length and may hold NUL bytes; ids are int32.
 *
 * A tokenizer.json is not trusted. No tokenizer in use comes near these bounds:
 *
 *  a file   ids below 4,194,304, and below the sum of 1,048,576 and 16 times the number of tokens;
 *           256 steps that normalise, 32 that split and 32 that decode; patterns of 65,536 bytes;
 *           added tokens of 1,024 bytes; 4,096 ids around a text; 256 MiB of decoded tokens.
 *  a text   below 2^31 bytes. The steps before the model may add 32 bytes for each of its bytes,
 *           and 64 KiB, all together. Patterns may take 20 million counted steps of matching, and
 *           256 for each byte.
 *  a token  The steps of the decoder may add 8 bytes for each of its bytes, and 64.
 *
 * What goes beyond is MICA_EUNSUPPORTED (MICA_EFORMAT for ids and patterns), before memory is taken
 * for it.
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
 *  path     a tokenizer.json, or a model folder that holds one. Of a folder, tokenizer_config.json
 *           is read too, where there is one: it says which tokens begin and end a text, and by
 *           "add_bos_token" and "add_eos_token" whether add_special puts them there.
 *  tok      receives the tokenizer, owned by the caller; NULL on failure.
 *  errors   MICA_ENOENT, MICA_EIO; MICA_EFORMAT not JSON, no vocabulary, an id that is negative,
 *           taken twice or above 4,194,303, a merge of unknown tokens, a field of the wrong type,
 *           a pattern that cannot be compiled; MICA_EUNSUPPORTED a kind of model, step or pattern
 *           that mica does not know; MICA_ENOMEM */
MICA_API mica_status mica_tokenizer_open(const char *path, mica_tokenizer **tok);

/** Closes *tok and sets it to NULL. Takes NULL and a closed one; streams of it must be closed. */
MICA_API void mica_tokenizer_close(mica_tokenizer **tok);

/** Text to ids.
 *
 *  text, len    UTF-8, len bytes, below 2^31. Borrowed; NULL where len is 0. Special tokens in it
 *               are recognised: keep text that you do not trust from holding them.
 *  add_special  also put what the tokenizer's template adds around a text, such as <bos>.
 *  ids, n       receive n ids, freed with mica_free; never NULL on success.
 *  errors       MICA_EFORMAT the text is not UTF-8 (the text of the error tells the byte);
 *               MICA_EUNSUPPORTED the tokenizer makes too much of this text, or needs too much work
 *               to match a pattern in it;
 *               MICA_EINVAL too long, or a NULL argument; MICA_ENOMEM
 *  source       Tokenizer.encode of `tokenizers` */
MICA_API mica_status mica_tokenizer_encode(const mica_tokenizer *tok, const char *text, size_t len,
                                           bool add_special, int32_t **ids, size_t *n);

/** Ids to text.
 *
 *  ids, n        n ids. One that names no token (a model's head may be wider than its vocabulary)
 *                stands for no text.
 *  skip_special  leave out special tokens.
 *  text, len     receive UTF-8 of len bytes and a NUL after it, freed with mica_free. Bytes that
 *                make no character become U+FFFD.
 *  errors        MICA_EINVAL a negative id, or a NULL argument; MICA_EUNSUPPORTED the decoder makes
 *                too much of the first token; MICA_ENOMEM
 *  source        Tokenizer.decode of `tokenizers` */
MICA_API mica_status mica_tokenizer_decode(const mica_tokenizer *tok, const int32_t *ids, size_t n,
                                           bool skip_special, char **text, size_t *len);

/** The greatest id and one: added tokens are counted, ids that name no token too. */
MICA_API size_t mica_tokenizer_vocab_size(const mica_tokenizer *tok);

/** The token as the vocabulary spells it, such as "▁the" or "<0x0A>".
 *
 *  len      receives its length in bytes (it may hold NUL bytes); may be NULL.
 *  returns  UTF-8 with a NUL after it, living with the tokenizer; NULL where id names no token. */
MICA_API const char *mica_tokenizer_token(const mica_tokenizer *tok, int32_t id, size_t *len);

/** The id of the token that the vocabulary spells so, -1 where there is none. */
MICA_API int32_t mica_tokenizer_find(const mica_tokenizer *tok, const char *token, size_t len);

/** True for ids of special tokens (<bos>, <end_of_turn> ...), which skip_special leaves out. */
MICA_API bool mica_tokenizer_is_special(const mica_tokenizer *tok, int32_t id);

/** The ids that the folder's tokenizer_config.json gives to "bos_token" (what a text begins with),
 *  "eos_token" (what it ends with), "pad_token" and "unk_token". -1 where it names none, or one
 *  that is not in the vocabulary, and where the tokenizer was not opened from a folder. A model may
 *  stop at more tokens than eos: generation_config.json tells which. */
MICA_API int32_t mica_tokenizer_bos(const mica_tokenizer *tok);
MICA_API int32_t mica_tokenizer_eos(const mica_tokenizer *tok);
MICA_API int32_t mica_tokenizer_pad(const mica_tokenizer *tok);
MICA_API int32_t mica_tokenizer_unk(const mica_tokenizer *tok);

/** Ids to text one by one, while a model makes them. */
typedef struct mica_decoder_stream mica_decoder_stream;

/** Opens a stream.
 *
 *  tok      borrowed: it must outlive the stream.
 *  stream   receives the stream, owned by the caller; NULL on failure.
 *  errors   MICA_EINVAL, MICA_ENOMEM */
MICA_API mica_status mica_decoder_stream_open(const mica_tokenizer *tok, bool skip_special,
                                              mica_decoder_stream **stream);

/** Takes the next id and gives the text that is decided by it.
 *
 *  Every piece is whole characters. While the text ends in bytes that more bytes could finish, or
 *  in U+FFFD, it is held back and the piece is empty. Where mica_tokenizer_decode of the same ids
 *  has no U+FFFD, the pieces in a row are that text.
 *
 *  id          as in mica_tokenizer_decode.
 *  piece, len  receive UTF-8 of len bytes and a NUL after it, valid until the stream's next call;
 *              len is 0 where nothing is decided yet.
 *  errors      as mica_tokenizer_decode; after MICA_ENOMEM, close the stream
 *  source      DecodeStream.step of `tokenizers` */
MICA_API mica_status mica_decoder_stream_push(mica_decoder_stream *stream, int32_t id,
                                              const char **piece, size_t *len);

/** Gives what is held back, unfinished bytes as U+FFFD. The stream is as new afterwards. */
MICA_API mica_status mica_decoder_stream_flush(mica_decoder_stream *stream, const char **piece,
                                               size_t *len);

/** Closes *stream and sets it to NULL. Takes NULL and a closed one. */
MICA_API void mica_decoder_stream_close(mica_decoder_stream **stream);

MICA_END

#endif
