/* A build without OpenSSL. */
#include "hub/seal.h"

mica_status mc_seal_load(void) {
    return mc_fail(MICA_EUNSUPPORTED, "mica was built without OpenSSL");
}

mica_status mc_seal(const uint8_t *key, const uint8_t *nonce, mc_str owner, mc_str text,
                    mc_buffer *out) {
    (void)key;
    (void)nonce;
    (void)owner;
    (void)text;
    (void)out;
    return mc_seal_load();
}

mica_status mc_unseal(const uint8_t *key, mc_str owner, mc_str seal, mc_buffer *out, bool *good) {
    (void)key;
    (void)owner;
    (void)seal;
    (void)out;
    *good = false;
    return mc_seal_load();
}
