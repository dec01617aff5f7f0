/* libcurl, and OpenSSL's libcrypto (hub/crypto.h), loaded when something is first downloaded, and
 * never unloaded. Some thirty libraries come with them, which would take every start of the command
 * ten milliseconds. On Windows libcurl is linked, and the system has what checksums take. */
#ifndef HUB_LIBRARY_H
#define HUB_LIBRARY_H

#include "base/status.h"

#include <curl/curl.h>
#undef curl_easy_setopt /* macros that check types */
#undef curl_easy_getinfo

typedef struct mc_hub_library {
#define CURL_SYMBOL(name) __typeof__(&curl_##name) name;
#define CRYPTO_SYMBOL(name)
#include "hub/symbol_list.h"
} mc_hub_library;

/* The functions, once mc_hub_load has returned MICA_OK. */
extern mc_hub_library mc_hub;

/* Loads the libraries. Only the first call does anything. Threads: any.
 * errors  MICA_EUNSUPPORTED one is missing: the text says which */
mica_status mc_hub_load(void);

#endif
