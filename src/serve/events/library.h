/* libzmq, loaded when a server is first opened that publishes events, and never unloaded: no other
 * process has to wait for it. */
#ifndef SERVE_EVENTS_LIBRARY_H
#define SERVE_EVENTS_LIBRARY_H

#include "base/status.h"

#include <zmq.h>

typedef struct mc_zmq_library {
#define SYMBOL(name) __typeof__(&zmq_##name) name;
#include "serve/events/symbol_list.h"
} mc_zmq_library;

/* The functions, once mc_zmq_load has returned MICA_OK. */
extern mc_zmq_library mc_zmq;

/* Loads the library. Only the first call does anything. Threads: any.
 * errors  MICA_EUNSUPPORTED it is missing: the text says what */
mica_status mc_zmq_load(void);

#endif
