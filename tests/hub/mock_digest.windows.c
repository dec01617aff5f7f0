#include "mock_digest.h"

#include <windows.h>

#include <wincrypt.h>

/* By the older of Windows' two libraries: mica calls the other one. */
size_t mock_digest(bool sha256, const char *header, size_t header_bytes, const char *data,
                   size_t bytes, unsigned char out[MOCK_DIGEST]) {
    HCRYPTPROV provider = 0;
    HCRYPTHASH hash = 0;
    DWORD len = MOCK_DIGEST;
    bool made = CryptAcquireContextW(&provider, NULL, NULL, PROV_RSA_AES, CRYPT_VERIFYCONTEXT) &&
                CryptCreateHash(provider, sha256 ? CALG_SHA_256 : CALG_SHA1, 0, 0, &hash) &&
                CryptHashData(hash, (const BYTE *)header, (DWORD)header_bytes, 0) &&
                CryptHashData(hash, (const BYTE *)data, (DWORD)bytes, 0) &&
                CryptGetHashParam(hash, HP_HASHVAL, out, &len, 0);
    if (hash) CryptDestroyHash(hash);
    if (provider) CryptReleaseContext(provider, 0);
    return made ? len : 0;
}
