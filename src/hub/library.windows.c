#include "hub/library.h"

#include <pthread.h>

mc_hub_library mc_hub = {
#define CURL_SYMBOL(name) .name = curl_##name,
#define CRYPTO_SYMBOL(name)
#include "hub/symbol_list.h"
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode started;

static void start(void) {
    started = mc_hub.global_init(CURL_GLOBAL_DEFAULT);
}

mica_status mc_hub_load(void) {
    if (pthread_once(&once, start) == 0 && started == CURLE_OK) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "libcurl does not start");
}
