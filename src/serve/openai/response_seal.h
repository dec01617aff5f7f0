/* Thoughts that clients keep: sealed (hub/seal.h) as the encrypted_content of reasoning items, by a
 * key that the server draws when it is opened. So a seal is opened by that server only, until it
 * ends, and for requests with the same of its keys. Threads: any. */
#ifndef SERVE_OPENAI_RESPONSE_SEAL_H
#define SERVE_OPENAI_RESPONSE_SEAL_H

#include "serve/http/exchange.h"

typedef struct mc_response_seal {
    const uint8_t *key; /* NULL: nothing is sealed, and no seal can be opened */
    mc_str owner;
} mc_response_seal;

/* The seal of a request's owner. key NULL: the system lacks what it takes. */
mc_response_seal mc_response_seal_of(const mc_exchange *http);

/* Sets `sealed` to the seal of thoughts, empty with key NULL. false: no memory, or no chance. */
bool mc_response_seal_make(const mc_response_seal *seal, mc_str text, mc_buffer *sealed);

/* Adds the thoughts of a seal. *good: it is one of these. errors  MICA_ENOMEM */
mica_status mc_response_seal_open(const mc_response_seal *seal, mc_str sealed, mc_buffer *text,
                                  bool *good);

#endif
