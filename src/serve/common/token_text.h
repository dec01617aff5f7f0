/* The text of single tokens, for log-probabilities. Threads: any. */
#ifndef SERVE_COMMON_TOKEN_TEXT_H
#define SERVE_COMMON_TOKEN_TEXT_H

#include "base/buffer.h"

#include <mica/tokenizer.h>

/* Sets `text` to the bytes of a token, which may be a part of a character; of a special token, to
 * its spelling. false: no memory */
bool mc_token_text(const mica_tokenizer *tok, int32_t id, mc_buffer *text);

#endif
