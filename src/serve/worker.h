/* Threads that run what may block: the handlers of requests, and the freeing of what was under way.
 *
 * Adding an item needs no memory, and items run in the order of adding. Threads: any may add. */
#ifndef SERVE_WORKER_H
#define SERVE_WORKER_H

#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>

/* A member of what is to be done. It belongs to the workers until `run` is called. */
typedef struct mc_work {
    struct mc_work *next;
    void (*run)(struct mc_work *work);
} mc_work;

enum { MC_WORKERS = 16 };

typedef struct mc_workers {
    pthread_mutex_t lock;
    pthread_cond_t added;
    mc_work *first, **last;
    pthread_t threads[MC_WORKERS];
    int count;
    bool ending;
} mc_workers;

/* errors  MICA_ENOMEM. After an error there is nothing to close. */
mica_status mc_workers_open(mc_workers *workers);
void mc_workers_add(mc_workers *workers, mc_work *work, void (*run)(mc_work *));
/* Runs what was added, and ends the threads. */
void mc_workers_close(mc_workers *workers);

#endif
