#include "serve/http/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

mc_mhd_library mc_mhd;

typedef struct symbol {
    const char *name;
    size_t at;
} symbol;

#define SYMBOL(name) {"MHD_" #name, offsetof(mc_mhd_library, name)},
static const symbol symbols[] = {
#include "serve/http/symbol_list.h"
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *missing; /* a file or a symbol; NULL: none */

static void load(void) {
    void *handle = dlopen(MICA_MICROHTTPD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) missing = MICA_MICROHTTPD_LIBRARY;
    for (size_t i = 0; handle && !missing && i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (!found) missing = symbols[i].name;
        memcpy((char *)&mc_mhd + symbols[i].at, &found, sizeof found);
    }
}

mica_status mc_mhd_load(void) {
    if (pthread_once(&once, load) != 0 || missing)
        return mc_fail(MICA_EUNSUPPORTED,
                       "serving needs libmicrohttpd, and this system lacks %s. Install it "
                       "(Debian: libmicrohttpd12, Fedora and Homebrew: libmicrohttpd)",
                       missing ? missing : "threads");
    return MICA_OK;
}
