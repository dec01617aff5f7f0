/* libmicrohttpd, loaded when a server is first opened, and never unloaded. A dozen libraries come
 * with it for TLS, which every start of the command would have to wait for. */
#ifndef SERVE_HTTP_LIBRARY_H
#define SERVE_HTTP_LIBRARY_H

#include "base/status.h"

#include <microhttpd.h>

typedef struct mc_mhd_library {
#define SYMBOL(name) __typeof__(&MHD_##name) name;
#include "serve/http/symbol_list.h"
} mc_mhd_library;

/* The functions, once mc_mhd_load has returned MICA_OK. */
extern mc_mhd_library mc_mhd;

/* Loads the library. Only the first call does anything. Threads: any.
 * errors  MICA_EUNSUPPORTED it is missing: the text says what */
mica_status mc_mhd_load(void);

#endif
