#include "serve/common/token_text.h"

#include "text/tokenizer/tokenizer.h"

bool mc_token_text(const mica_tokenizer *tok, int32_t id, mc_buffer *text) {
    mc_str bytes;
    mc_buffer_clear(text);
    return !mc_decoder_bytes(&tok->decoder, id, &bytes) ||
           mc_buffer_add(text, bytes.ptr, bytes.len);
}
