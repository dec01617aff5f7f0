/* OpenSSL's libcrypto, which mc_hub_load loads. */
#ifndef HUB_CRYPTO_H
#define HUB_CRYPTO_H

#include <openssl/evp.h>

typedef struct mc_crypto_library {
#define CURL_SYMBOL(name)
#define CRYPTO_SYMBOL(name) __typeof__(&EVP_##name) name;
#include "hub/symbol_list.h"
} mc_crypto_library;

/* The functions, once mc_hub_load has returned MICA_OK. */
extern mc_crypto_library mc_crypto;

#endif
