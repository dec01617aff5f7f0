#include "hub/seal.h"

#include "hub/crypto.h"
#include "hub/library.h"

enum { TAG = 16 };

mica_status mc_seal_load(void) {
    return mc_hub_load();
}

static unsigned char *bytes_at(mc_buffer *b, size_t at) {
    return (unsigned char *)b->data + at;
}

static const unsigned char *bytes_of(mc_str text) {
    return (const unsigned char *)(text.ptr ? text.ptr : "");
}

/* ---- base64 ---- */

static mica_status encode(mc_buffer *from, mc_buffer *out) {
    size_t len = (from->len + 2) / 3 * 4;
    if (!mc_buffer_reserve(out, len + 1)) return mc_fail_nomem("a seal");
    mc_crypto.EncodeBlock(bytes_at(out, out->len), bytes_at(from, 0), (int)from->len);
    out->len += len;
    return MICA_OK;
}

/* *good: it is base64. */
static mica_status decode(mc_str from, mc_buffer *out, bool *good) {
    size_t padding = 0;
    *good = from.len % 4 == 0 && from.len > 0 && from.len <= (size_t)MC_SEAL_TEXT * 2;
    if (!*good) return MICA_OK;
    while (padding < 2 && from.ptr[from.len - 1 - padding] == '=')
        padding++;
    if (!mc_buffer_reserve(out, from.len)) return mc_fail_nomem("a seal");
    int len = mc_crypto.DecodeBlock(bytes_at(out, 0), bytes_of(from), (int)from.len);
    *good = len >= (int)padding;
    if (*good) out->len = (size_t)len - padding;
    return MICA_OK;
}

/* ---- ciphers ---- */

/* Encrypts `text` to `out`, [text.len + TAG]. */
static bool encrypt(EVP_CIPHER_CTX *c, const uint8_t *key, const uint8_t *nonce, mc_str owner,
                    mc_str text, unsigned char *out) {
    int n = 0, more = 0;
    return mc_crypto.EncryptInit_ex(c, mc_crypto.aes_256_gcm(), NULL, key, nonce) == 1 &&
           mc_crypto.EncryptUpdate(c, NULL, &n, bytes_of(owner), (int)owner.len) == 1 &&
           mc_crypto.EncryptUpdate(c, out, &n, bytes_of(text), (int)text.len) == 1 &&
           mc_crypto.EncryptFinal_ex(c, out + n, &more) == 1 && n + more == (int)text.len &&
           mc_crypto.CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, out + text.len) == 1;
}

/* Decrypts what `encrypt` has made, [len + TAG], to `out`, [len]. false: it is not of that key,
 * nonce and owner. */
static bool decrypt(EVP_CIPHER_CTX *c, const uint8_t *key, const uint8_t *nonce, mc_str owner,
                    unsigned char *sealed, size_t len, unsigned char *out) {
    int n = 0, more = 0;
    return mc_crypto.DecryptInit_ex(c, mc_crypto.aes_256_gcm(), NULL, key, nonce) == 1 &&
           mc_crypto.DecryptUpdate(c, NULL, &n, bytes_of(owner), (int)owner.len) == 1 &&
           mc_crypto.DecryptUpdate(c, out, &n, sealed, (int)len) == 1 &&
           mc_crypto.CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, sealed + len) == 1 &&
           mc_crypto.DecryptFinal_ex(c, out + n, &more) == 1;
}

mica_status mc_seal(const uint8_t *key, const uint8_t *nonce, mc_str owner, mc_str text,
                    mc_buffer *out) {
    mc_buffer sealed = {0};
    if (text.len > MC_SEAL_TEXT) return mc_fail(MICA_EINVAL, "the text is too long to be sealed");
    EVP_CIPHER_CTX *c = mc_crypto.CIPHER_CTX_new();
    bool done = c && mc_buffer_add(&sealed, (const char *)nonce, MC_SEAL_NONCE) &&
                mc_buffer_reserve(&sealed, text.len + TAG) &&
                encrypt(c, key, nonce, owner, text, bytes_at(&sealed, MC_SEAL_NONCE));
    if (done) sealed.len += text.len + TAG;
    mica_status status = done ? encode(&sealed, out) : mc_fail_nomem("a seal");
    mc_crypto.CIPHER_CTX_free(c);
    mc_buffer_deinit(&sealed);
    return status;
}

mica_status mc_unseal(const uint8_t *key, mc_str owner, mc_str seal, mc_buffer *out, bool *good) {
    mc_buffer sealed = {0};
    mica_status status = decode(seal, &sealed, good);
    *good = *good && sealed.len >= MC_SEAL_NONCE + TAG;
    if (status == MICA_OK && *good) {
        size_t len = sealed.len - MC_SEAL_NONCE - TAG;
        EVP_CIPHER_CTX *c = mc_crypto.CIPHER_CTX_new();
        if (!c || !mc_buffer_reserve(out, len + TAG))
            status = mc_fail_nomem("a seal");
        else
            *good = decrypt(c, key, bytes_at(&sealed, 0), owner, bytes_at(&sealed, MC_SEAL_NONCE),
                            len, bytes_at(out, out->len));
        if (status == MICA_OK && *good) out->len += len;
        mc_crypto.CIPHER_CTX_free(c);
    }
    mc_buffer_deinit(&sealed);
    return status;
}
