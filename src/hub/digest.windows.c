#include "hub/digest.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>

#include <windows.h>

#include <bcrypt.h>

struct mc_digest {
    BCRYPT_HASH_HANDLE hash;
    unsigned bytes; /* of the digest */
};

mica_status mc_digest_open(bool sha256, uint64_t size, mc_digest **out) {
    char header[32];
    int len = snprintf(header, sizeof header, "blob %" PRIu64, size) + 1; /* with its NUL */
    BCRYPT_ALG_HANDLE kind = sha256 ? BCRYPT_SHA256_ALG_HANDLE : BCRYPT_SHA1_ALG_HANDLE;
    mc_digest *digest = mc_calloc(1, sizeof *digest);
    *out = digest;
    if (digest) digest->bytes = sha256 ? 32 : 20;
    if (digest && BCryptCreateHash(kind, &digest->hash, NULL, 0, NULL, 0, 0) == 0 &&
        (sha256 || mc_digest_add(digest, header, (size_t)len)))
        return MICA_OK;
    mc_digest_close(out);
    return mc_fail_nomem("a checksum");
}

bool mc_digest_add(mc_digest *digest, const void *bytes, size_t count) {
    enum { MOST = 1 << 30 };
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;
    while (count > 0) {
        ULONG n = count < MOST ? (ULONG)count : MOST;
        if (BCryptHashData(digest->hash, at, n, 0) != 0) return false;
        at += n;
        count -= n;
    }
    return true;
}

bool mc_digest_end(mc_digest *digest, char text[MC_DIGEST_TEXT]) {
    unsigned char bytes[32];
    if (BCryptFinishHash(digest->hash, bytes, digest->bytes, 0) != 0) return false;
    for (unsigned i = 0; i < digest->bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

void mc_digest_close(mc_digest **digest) {
    if (!*digest) return;
    if ((*digest)->hash) BCryptDestroyHash((*digest)->hash);
    mc_free(*digest);
    *digest = NULL;
}
