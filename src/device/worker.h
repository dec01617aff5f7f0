/* The background thread of a device: runs jobs in the order in which they came.
 *
 * The thread starts with the first job and ends with the device. A process that forks has no such
 * thread: what is asked for there is an error. Threads: safe. */
#ifndef DEVICE_WORKER_H
#define DEVICE_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct mc_job mc_job;
struct mc_job {
    void (*run)(mc_job *job); /* on the worker's thread */
    mc_job *next;
    bool done; /* guarded by the worker's lock */
};

typedef struct mc_worker {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job came, or one is done */
    pthread_t thread;
    long
        process; /* that made it: it is set before there is anything that a fork can leave behind */
    bool started, stop;
    mc_job *first, *last;
} mc_worker;

mica_status mc_worker_init(mc_worker *w);
void mc_worker_deinit(mc_worker *w); /* finishes the jobs that wait */

/* job lives until mc_worker_wait. errors  MICA_EDEVICE */
mica_status mc_worker_submit(mc_worker *w, mc_job *job);
/* errors  MICA_EDEVICE this process is a fork of the one that waits for the job: it never runs */
mica_status mc_worker_wait(mc_worker *w, mc_job *job);
bool mc_worker_is_done(mc_worker *w, const mc_job *job);

#endif
