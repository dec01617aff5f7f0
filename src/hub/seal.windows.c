#include "hub/seal.h"

#include "base/base64.h"

#include <windows.h>

#include <bcrypt.h>

enum { TAG = 16 };

mica_status mc_seal_load(void) {
    return MICA_OK; /* it is the system's */
}

static unsigned char *bytes_of(const char *text) {
    return (unsigned char *)(uintptr_t)text;
}

/* Encrypts or decrypts n bytes in place; `tag` is made or compared. */
static bool cipher(bool open, const uint8_t *key, const uint8_t *nonce, mc_str owner, char *bytes,
                   size_t n, char *tag) {
    BCRYPT_ALG_HANDLE algorithm = BCRYPT_AES_GCM_ALG_HANDLE;
    BCRYPT_KEY_HANDLE made = NULL;
    BCRYPT_AUTHENTICATED_CIPHER_MODE_INFO info;
    ULONG done = 0;
    BCRYPT_INIT_AUTH_MODE_INFO(info);
    info.pbNonce = (unsigned char *)(uintptr_t)nonce;
    info.cbNonce = MC_SEAL_NONCE;
    info.pbAuthData = bytes_of(owner.ptr);
    info.cbAuthData = (ULONG)owner.len;
    info.pbTag = bytes_of(tag);
    info.cbTag = TAG;
    if (BCryptGenerateSymmetricKey(algorithm, &made, NULL, 0, (unsigned char *)(uintptr_t)key,
                                   MC_SEAL_KEY, 0) != 0)
        return false;
    unsigned char *at = bytes_of(bytes);
    NTSTATUS status =
        open ? BCryptDecrypt(made, at, (ULONG)n, &info, NULL, 0, at, (ULONG)n, &done, 0)
             : BCryptEncrypt(made, at, (ULONG)n, &info, NULL, 0, at, (ULONG)n, &done, 0);
    BCryptDestroyKey(made);
    return status == 0 && done == n;
}

mica_status mc_seal(const uint8_t *key, const uint8_t *nonce, mc_str owner, mc_str text,
                    mc_buffer *out) {
    mc_buffer sealed = {0};
    if (text.len > MC_SEAL_TEXT) return mc_fail(MICA_EINVAL, "the text is too long to be sealed");
    bool done = mc_buffer_add(&sealed, (const char *)nonce, MC_SEAL_NONCE) &&
                mc_buffer_add(&sealed, text.ptr, text.len) && mc_buffer_reserve(&sealed, TAG) &&
                cipher(false, key, nonce, owner, sealed.data + MC_SEAL_NONCE, text.len,
                       sealed.data + sealed.len);
    if (done) sealed.len += TAG;
    done = done && mc_base64_encode(sealed.data, sealed.len, out);
    mc_buffer_deinit(&sealed);
    return done ? MICA_OK : mc_fail_nomem("a seal");
}

mica_status mc_unseal(const uint8_t *key, mc_str owner, mc_str seal, mc_buffer *out, bool *good) {
    mc_buffer sealed = {0};
    mica_status status = MICA_EFORMAT;
    if (seal.len > 0 && seal.len <= (size_t)MC_SEAL_TEXT * 2)
        status = mc_base64_decode(seal, &sealed);
    *good = status == MICA_OK && sealed.len >= MC_SEAL_NONCE + TAG;
    if (*good) {
        size_t len = sealed.len - MC_SEAL_NONCE - TAG;
        char *text = sealed.data + MC_SEAL_NONCE;
        *good = cipher(true, key, (const uint8_t *)sealed.data, owner, text, len, text + len);
        if (*good && !mc_buffer_add(out, text, len)) status = MICA_ENOMEM;
    }
    mc_buffer_deinit(&sealed);
    return status == MICA_ENOMEM ? mc_fail_nomem("a seal") : MICA_OK;
}
