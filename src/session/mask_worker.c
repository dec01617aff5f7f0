#include "session/mask_worker.h"

#include "base/alloc.h"
#include "base/system.h"

#include <pthread.h>
#include <stdio.h>

struct mc_mask_worker {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, and of the states of jobs */
    pthread_cond_t work;  /* there are jobs, or the thread is to end */
    pthread_cond_t done;  /* a job is */
    mc_mask_job *first, *last;
    bool started, refused; /* the thread runs; the system has refused one */
    bool stop;
    uint64_t computed_us, waited_us;
};

/* ---- jobs ---- */

/* Computes a mask. Returns how long it took. */
static uint64_t run_job(mc_mask_job *job) {
    uint64_t start = mc_now_us();
    job->status = job->constraint->ops->mask(job->constraint, &job->mask);
    return mc_now_us() - start;
}

/* Takes the first job from the queue; the lock is held. */
static mc_mask_job *take_job(mc_mask_worker *worker) {
    mc_mask_job *job = worker->first;
    worker->first = job->next;
    if (!worker->first) worker->last = NULL;
    job->next = NULL;
    return job;
}

static void *work(void *context) {
    mc_mask_worker *worker = context;
    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (!worker->first && !worker->stop)
            pthread_cond_wait(&worker->work, &worker->lock);
        if (!worker->first) break;
        mc_mask_job *job = take_job(worker);
        job->state = MC_MASK_RUNS;
        pthread_mutex_unlock(&worker->lock);
        uint64_t took = run_job(job);
        if (job->status != MICA_OK) /* the text is this thread's */
            snprintf(job->error, sizeof job->error, "%s", mica_last_error());
        pthread_mutex_lock(&worker->lock);
        worker->computed_us += took;
        job->state = MC_MASK_DONE;
        pthread_cond_broadcast(&worker->done);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

/* Starts the thread, once; the lock is held. */
static bool need_thread(mc_mask_worker *worker) {
    if (!worker->started && !worker->refused) {
        worker->started = mc_thread_start(&worker->thread, work, worker) == 0;
        worker->refused = !worker->started;
    }
    return worker->started;
}

void mc_mask_job_begin(mc_mask_worker *worker, mc_mask_job *job) {
    pthread_mutex_lock(&worker->lock);
    if (job->state == MC_MASK_NONE && need_thread(worker)) {
        job->state = MC_MASK_QUEUED;
        if (worker->last)
            worker->last->next = job;
        else
            worker->first = job;
        worker->last = job;
        pthread_cond_signal(&worker->work);
    }
    pthread_mutex_unlock(&worker->lock);
}

/* Takes a job from the worker: from its queue, or when it is done. Whether it is; the lock is
 * held. */
static bool take_back(mc_mask_worker *worker, mc_mask_job *job) {
    if (job->state == MC_MASK_QUEUED) {
        mc_mask_job *before = NULL;
        for (mc_mask_job *j = worker->first; j != job; j = j->next)
            before = j;
        if (before)
            before->next = job->next;
        else
            worker->first = job->next;
        if (worker->last == job) worker->last = before;
        job->next = NULL;
    }
    while (job->state == MC_MASK_RUNS)
        pthread_cond_wait(&worker->done, &worker->lock);
    bool done = job->state == MC_MASK_DONE;
    job->state = MC_MASK_NONE;
    return done;
}

mica_status mc_mask_job_finish(mc_mask_worker *worker, mc_mask_job *job) {
    uint64_t start = mc_now_us(), took = 0;
    pthread_mutex_lock(&worker->lock);
    bool done = take_back(worker, job);
    pthread_mutex_unlock(&worker->lock);
    if (done && job->status != MICA_OK) mc_fail(job->status, "%s", job->error);
    if (!done) took = run_job(job);
    pthread_mutex_lock(&worker->lock);
    worker->computed_us += took;
    worker->waited_us += mc_now_us() - start;
    pthread_mutex_unlock(&worker->lock);
    return job->status;
}

void mc_mask_job_drop(mc_mask_worker *worker, mc_mask_job *job) {
    pthread_mutex_lock(&worker->lock);
    (void)take_back(worker, job);
    pthread_mutex_unlock(&worker->lock);
}

mc_mask_times mc_mask_worker_times(mc_mask_worker *worker) {
    pthread_mutex_lock(&worker->lock);
    const mc_mask_times times = {(double)worker->computed_us * 1e-6,
                                 (double)worker->waited_us * 1e-6};
    pthread_mutex_unlock(&worker->lock);
    return times;
}

/* ---- opening ---- */

static bool init_locks(mc_mask_worker *worker) {
    if (pthread_mutex_init(&worker->lock, NULL) != 0) return false;
    if (pthread_cond_init(&worker->work, NULL) == 0) {
        if (pthread_cond_init(&worker->done, NULL) == 0) return true;
        pthread_cond_destroy(&worker->work);
    }
    pthread_mutex_destroy(&worker->lock);
    return false;
}

mica_status mc_mask_worker_open(mc_mask_worker **out) {
    *out = NULL;
    mc_mask_worker *worker = mc_calloc(1, sizeof *worker);
    if (!worker || !init_locks(worker)) {
        mc_free(worker);
        return mc_fail_nomem("a worker for masks");
    }
    *out = worker;
    return MICA_OK;
}

void mc_mask_worker_close(mc_mask_worker **out) {
    mc_mask_worker *worker = *out;
    *out = NULL;
    if (!worker) return;
    pthread_mutex_lock(&worker->lock);
    worker->stop = true;
    pthread_cond_signal(&worker->work);
    pthread_mutex_unlock(&worker->lock);
    if (worker->started) pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->done);
    pthread_cond_destroy(&worker->work);
    pthread_mutex_destroy(&worker->lock);
    mc_free(worker);
}
