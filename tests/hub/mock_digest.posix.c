#include "mock_digest.h"

#include <openssl/evp.h>

size_t mock_digest(bool sha256, const char *header, size_t header_bytes, const char *data,
                   size_t bytes, unsigned char out[MOCK_DIGEST]) {
    unsigned len = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_DigestInit_ex(context, sha256 ? EVP_sha256() : EVP_sha1(), NULL);
    EVP_DigestUpdate(context, header, header_bytes);
    EVP_DigestUpdate(context, data, bytes);
    EVP_DigestFinal_ex(context, out, &len);
    EVP_MD_CTX_free(context);
    return len;
}
