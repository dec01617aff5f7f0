#include "hub/library.h"

#include "hub/crypto.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

mc_hub_library mc_hub;
mc_crypto_library mc_crypto;

typedef struct symbol {
    const char *name;
    size_t at;
} symbol;

#define CURL_SYMBOL(name) {"curl_" #name, offsetof(mc_hub_library, name)},
#define CRYPTO_SYMBOL(name)
static const symbol curl_symbols[] = {
#include "hub/symbol_list.h"
};

#define CURL_SYMBOL(name)
#define CRYPTO_SYMBOL(name) {"EVP_" #name, offsetof(mc_crypto_library, name)},
static const symbol crypto_symbols[] = {
#include "hub/symbol_list.h"
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[256]; /* it failed; "": it did not */

/* Returns false, and sets `why`, if the file or one of its symbols is missing. */
static bool load(const char *file, const symbol *symbols, size_t count, void *functions) {
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *missing = file;
    for (size_t i = 0; handle && i < count; i++) {
        void *found = dlsym(handle, symbols[i].name);
        missing = symbols[i].name;
        if (!found) handle = NULL;
        memcpy((char *)functions + symbols[i].at, &found, sizeof found);
    }
    if (!handle) snprintf(why, sizeof why, "%s", missing);
    return handle != NULL;
}

static void load_all(void) {
    if (load(MICA_CURL_LIBRARY, curl_symbols, sizeof curl_symbols / sizeof *curl_symbols,
             &mc_hub) &&
        load(MICA_CRYPTO_LIBRARY, crypto_symbols, sizeof crypto_symbols / sizeof *crypto_symbols,
             &mc_crypto) &&
        mc_hub.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(why, sizeof why, "libcurl, which does not start");
}

mica_status mc_hub_load(void) {
    if (pthread_once(&once, load_all) != 0 || why[0])
        return mc_fail(MICA_EUNSUPPORTED,
                       "downloading needs libcurl and OpenSSL, and this system lacks %s", why);
    return MICA_OK;
}
