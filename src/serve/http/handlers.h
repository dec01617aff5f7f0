/* Threads that run what may block: the handlers of requests, and the freeing of what was under way.
 *
 * Adding an item needs no memory, and items run in the order of adding, but no more than MC_HEAVY
 * of the heavy ones at once, which need much memory: others overtake them. Threads: any may add. */
#ifndef SERVE_HTTP_HANDLERS_H
#define SERVE_HTTP_HANDLERS_H

#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>

/* A member of what is to be done. It belongs to the handlers until `run` is called. */
typedef struct mc_handler_item {
    struct mc_handler_item *next;
    void (*run)(struct mc_handler_item *work);
    bool heavy; /* set before it is added */
} mc_handler_item;

enum { MC_HANDLERS = 16, MC_HEAVY = 2 };

typedef struct mc_handlers {
    pthread_mutex_t lock;
    pthread_cond_t added;
    mc_handler_item *first, **last;
    pthread_t threads[MC_HANDLERS];
    int count;
    int heavy; /* items of that kind that run */
    bool ending;
} mc_handlers;

/* errors  MICA_ENOMEM. After an error there is nothing to close. */
mica_status mc_handlers_open(mc_handlers *handlers);
void mc_handlers_add(mc_handlers *handlers, mc_handler_item *work, void (*run)(mc_handler_item *));
/* Runs what was added, and ends the threads. */
void mc_handlers_close(mc_handlers *handlers);

#endif
