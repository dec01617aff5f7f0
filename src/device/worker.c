#include "device/worker.h"

#include <string.h>
#include <unistd.h>

#include "base/system.h"

mica_status mc_worker_init(mc_worker *w) {
    memset(w, 0, sizeof *w);
    w->process = getpid();
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

/* Whether the thread, and who holds the lock, may be left behind in another process. */
static bool is_left_behind(const mc_worker *w) {
    return w->process != getpid();
}

static mica_status fail_left_behind(void) {
    return mc_fail(MICA_EDEVICE,
                   "this process is a fork of the one that opened the device: it must "
                   "open a device of its own");
}

void mc_worker_deinit(mc_worker *w) {
    if (is_left_behind(w)) return;
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
    if (is_left_behind(w)) return fail_left_behind();
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

mica_status mc_worker_wait(mc_worker *w, mc_job *job) {
    if (is_left_behind(w)) return job->done ? MICA_OK : fail_left_behind();
    pthread_mutex_lock(&w->lock);
    while (!job->done)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return MICA_OK;
}

bool mc_worker_is_done(mc_worker *w, const mc_job *job) {
    if (is_left_behind(w)) return job->done;
    pthread_mutex_lock(&w->lock);
    bool done = job->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}
