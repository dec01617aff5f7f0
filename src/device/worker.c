#include "device/worker.h"

#include <string.h>

#include "base/system.h"

mica_status mc_worker_init(mc_worker *w) {
    memset(w, 0, sizeof *w);
    if (pthread_mutex_init(&w->lock, NULL) != 0)
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for the background thread");
    if (pthread_cond_init(&w->changed, NULL) != 0) {
        pthread_mutex_destroy(&w->lock);
        return mc_fail(MICA_EDEVICE, "cannot make a condition for the background thread");
    }
    return MICA_OK;
}

static void *work(void *context) {
    mc_worker *w = context;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->first && !w->stop)
            pthread_cond_wait(&w->changed, &w->lock);
        mc_job *job = w->first;
        if (!job) break;
        w->first = job->next;
        if (!w->first) w->last = NULL;
        pthread_mutex_unlock(&w->lock);
        job->run(job);
        pthread_mutex_lock(&w->lock);
        job->done = true;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void mc_worker_deinit(mc_worker *w) {
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->started) pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

mica_status mc_worker_submit(mc_worker *w, mc_job *job) {
    mica_status status = MICA_OK;
    pthread_mutex_lock(&w->lock);
    if (!w->started) {
        int error = mc_thread_start(&w->thread, work, w);
        if (error != 0)
            status =
                mc_fail(MICA_EDEVICE, "cannot start the background thread: %s", strerror(error));
        w->started = error == 0;
    }
    if (status == MICA_OK) {
        job->next = NULL;
        job->done = false;
        if (w->last)
            w->last->next = job;
        else
            w->first = job;
        w->last = job;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

void mc_worker_wait(mc_worker *w, mc_job *job) {
    pthread_mutex_lock(&w->lock);
    while (!job->done)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

bool mc_worker_is_done(mc_worker *w, const mc_job *job) {
    pthread_mutex_lock(&w->lock);
    bool done = job->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}
