#include "serve/worker.h"

#include "base/system.h"

static void *run(void *context) {
    mc_workers *workers = context;
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        while (!workers->first && !workers->ending)
            pthread_cond_wait(&workers->added, &workers->lock);
        mc_work *work = workers->first;
        if (!work) break;
        workers->first = work->next;
        if (!workers->first) workers->last = &workers->first;
        pthread_mutex_unlock(&workers->lock);
        work->run(work);
        pthread_mutex_lock(&workers->lock);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

mica_status mc_workers_open(mc_workers *workers) {
    *workers = (mc_workers){.last = &workers->first};
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->added, NULL);
    while (workers->count < MC_WORKERS &&
           mc_thread_start(&workers->threads[workers->count], run, workers) == 0)
        workers->count++;
    if (workers->count > 0) return MICA_OK; /* fewer than wanted are no error */
    mc_workers_close(workers);
    return mc_fail_nomem("threads of the server");
}

void mc_workers_add(mc_workers *workers, mc_work *work, void (*todo)(mc_work *)) {
    work->next = NULL;
    work->run = todo;
    pthread_mutex_lock(&workers->lock);
    *workers->last = work;
    workers->last = &work->next;
    pthread_cond_signal(&workers->added);
    pthread_mutex_unlock(&workers->lock);
}

void mc_workers_close(mc_workers *workers) {
    pthread_mutex_lock(&workers->lock);
    workers->ending = true;
    pthread_cond_broadcast(&workers->added);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->count; i++)
        pthread_join(workers->threads[i], NULL);
    pthread_cond_destroy(&workers->added);
    pthread_mutex_destroy(&workers->lock);
}
