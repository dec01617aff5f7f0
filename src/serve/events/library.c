#include "serve/events/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

mc_zmq_library mc_zmq;

typedef struct symbol {
    const char *name;
    size_t at;
} symbol;

#define SYMBOL(name) {"zmq_" #name, offsetof(mc_zmq_library, name)},
static const symbol symbols[] = {
#include "serve/events/symbol_list.h"
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *missing; /* a file or a symbol; NULL: none */

static void load(void) {
    void *handle = dlopen(MICA_ZMQ_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) missing = MICA_ZMQ_LIBRARY;
    for (size_t i = 0; handle && !missing && i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (!found) missing = symbols[i].name;
        memcpy((char *)&mc_zmq + symbols[i].at, &found, sizeof found);
    }
}

mica_status mc_zmq_load(void) {
    if (pthread_once(&once, load) != 0 || missing)
        return mc_fail(MICA_EUNSUPPORTED,
                       "KV events need libzmq, and this system lacks %s. Install it (Debian: "
                       "libzmq5, Fedora and Homebrew: zeromq)",
                       missing ? missing : "threads");
    return MICA_OK;
}
