#include "serve/token_text.h"

#include "base/str.h"

#include <string.h>

/* A token alone may lose the blank that it begins with, so it is decoded behind another one. */
bool mc_token_text(const mica_tokenizer *tok, int32_t id, mc_buffer *text) {
    char *one = NULL, *both = NULL;
    size_t one_len = 0, both_len = 0;
    const int32_t ids[] = {id, id};
    mc_buffer_clear(text);
    bool done = mica_tokenizer_decode(tok, ids, 1, false, &one, &one_len) == MICA_OK &&
                mica_tokenizer_decode(tok, ids, 2, false, &both, &both_len) == MICA_OK;
    if (done && both_len >= one_len) done = mc_buffer_add(text, both + one_len, both_len - one_len);
    mica_free(one);
    mica_free(both);
    return done;
}
