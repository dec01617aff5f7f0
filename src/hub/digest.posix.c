#include "hub/digest.h"

#include "base/alloc.h"
#include "hub/crypto.h"

#include <inttypes.h>
#include <stdio.h>

struct mc_digest {
    EVP_MD_CTX *context;
};

mica_status mc_digest_open(bool sha256, uint64_t size, mc_digest **out) {
    char header[32];
    int len = snprintf(header, sizeof header, "blob %" PRIu64, size) + 1; /* with its NUL */
    mc_digest *digest = mc_calloc(1, sizeof *digest);
    *out = digest;
    if (digest) digest->context = mc_crypto.MD_CTX_new();
    if (digest && digest->context &&
        mc_crypto.DigestInit_ex(digest->context, sha256 ? mc_crypto.sha256() : mc_crypto.sha1(),
                                NULL) == 1 &&
        (sha256 || mc_digest_add(digest, header, (size_t)len)))
        return MICA_OK;
    mc_digest_close(out);
    return mc_fail_nomem("a checksum");
}

bool mc_digest_add(mc_digest *digest, const void *bytes, size_t count) {
    return mc_crypto.DigestUpdate(digest->context, bytes, count) == 1;
}

bool mc_digest_end(mc_digest *digest, char text[MC_DIGEST_TEXT]) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (mc_crypto.DigestFinal_ex(digest->context, bytes, &len) != 1 || 2 * len >= MC_DIGEST_TEXT)
        return false;
    for (unsigned i = 0; i < len; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

void mc_digest_close(mc_digest **digest) {
    if (!*digest) return;
    mc_crypto.MD_CTX_free((*digest)->context);
    mc_free(*digest);
    *digest = NULL;
}
