/* Input: a tokenizer.json, a NUL, and a text. A tokenizer that opens must encode valid text to ids
 * that it knows, and must decode any ids to valid UTF-8, at once and as a stream. */
#include "text/tokenizer/tokenizer.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth) abort();
}

static void decode(const mica_tokenizer *tok, const int32_t *ids, size_t n) {
    char *text = NULL;
    const char *piece;
    size_t len = 0;
    mica_decoder_stream *stream = NULL;
    mica_status status = mica_tokenizer_decode(tok, ids, n, n % 2, &text, &len);
    must(status == MICA_OK || status == MICA_EUNSUPPORTED); /* the first token is too long */
    if (status != MICA_OK) return;
    must(mc_utf8_valid(text, len) && text[len] == '\0');
    mica_free(text);
    must(mica_decoder_stream_open(tok, n % 2, &stream) == MICA_OK);
    for (size_t i = 0; i <= n; i++) {
        must((i < n ? mica_decoder_stream_push(stream, ids[i], &piece, &len)
                    : mica_decoder_stream_flush(stream, &piece, &len)) == MICA_OK);
        must(mc_utf8_valid(piece, len) && piece[len] == '\0');
    }
    mica_decoder_stream_close(&stream);
}

static void encode(const mica_tokenizer *tok, const char *text, size_t len) {
    int32_t *ids = NULL;
    size_t n = 0;
    mica_status status = mica_tokenizer_encode(tok, text, len, len % 2, &ids, &n);
    if (mc_utf8_valid(text, len)) {
        must(status == MICA_OK || status == MICA_EUNSUPPORTED); /* too much work, or too long a
                                                                   text */
    } else {
        must(status == MICA_EFORMAT);
    }
    for (size_t i = 0; i < n; i++)
        must(mica_tokenizer_token(tok, ids[i], NULL) != NULL);
    if (status == MICA_OK) decode(tok, ids, n);
    mica_free(ids);
}

/* The text's bytes as ids. */
static void decode_bytes(const mica_tokenizer *tok, const char *text, size_t len) {
    int32_t ids[64];
    size_t n = len < 64 ? len : 64;
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)((uint8_t)text[i] % (mica_tokenizer_vocab_size(tok) + 1));
    }
    decode(tok, ids, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mica_tokenizer *tok = NULL;
    const char *json = (const char *)data, *end = size ? memchr(json, '\0', size) : NULL;
    size_t json_len = end ? (size_t)(end - json) : size;
    if (mc_tokenizer_parse(json, json_len, "input", &tok) != MICA_OK) return 0;
    const char *text = end ? end + 1 : "";
    size_t len = end ? size - json_len - 1 : 0;
    encode(tok, text, len);
    decode_bytes(tok, text, len);
    mica_tokenizer_close(&tok);
    return 0;
}
