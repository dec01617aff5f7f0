#include "serve/openai/response_seal.h"

#include "hub/seal.h"
#include "serve/common/chance.h"
#include "serve/jobs/state.h"

mc_response_seal mc_response_seal_of(const mc_exchange *http) {
    mc_response_seal seal = {.owner = MC_STR("")};
    if (!http->server->can_seal || mc_seal_load() != MICA_OK) return seal;
    seal.key = http->server->seal_key;
    if (http->key) seal.owner = mc_str_of(http->server->guard.keys[http->key - 1]);
    return seal;
}

bool mc_response_seal_make(const mc_response_seal *seal, mc_str text, mc_buffer *sealed) {
    uint8_t nonce[MC_SEAL_NONCE];
    mc_buffer_clear(sealed);
    return !seal->key || (mc_chance_bytes(nonce, sizeof nonce) &&
                          mc_seal(seal->key, nonce, seal->owner, text, sealed) == MICA_OK);
}

mica_status mc_response_seal_open(const mc_response_seal *seal, mc_str sealed, mc_buffer *text,
                                  bool *good) {
    *good = false;
    return seal->key ? mc_unseal(seal->key, seal->owner, sealed, text, good) : MICA_OK;
}
