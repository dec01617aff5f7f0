/* Sealing short texts, so that somebody else can keep them and give them back but neither read nor
 * change them: AES-256-GCM by OpenSSL's libcrypto, which the hub loads. Threads: any. */
#ifndef HUB_SEAL_H
#define HUB_SEAL_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

enum { MC_SEAL_KEY = 32, MC_SEAL_NONCE = 12, MC_SEAL_TEXT = 64 << 20 };

/* Whether there is a libcrypto. errors  MICA_EUNSUPPORTED: the text says why not */
mica_status mc_seal_load(void);

/* Adds a text's seal in base64. mc_seal_load has returned MICA_OK.
 *
 *  key    [MC_SEAL_KEY]
 *  nonce  [MC_SEAL_NONCE], of this text alone.
 *  owner  who may open it: only with the same owner it can be.
 *  text   up to MC_SEAL_TEXT bytes.
 *  errors MICA_ENOMEM, also where libcrypto fails; MICA_EINVAL the text is too long */
mica_status mc_seal(const uint8_t *key, const uint8_t *nonce, mc_str owner, mc_str text,
                    mc_buffer *out);

/* Adds the text of a seal; *good: it is one of that key and owner. errors  MICA_ENOMEM */
mica_status mc_unseal(const uint8_t *key, mc_str owner, mc_str seal, mc_buffer *out, bool *good);

#endif
