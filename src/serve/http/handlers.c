#include "serve/http/handlers.h"

#include "base/system.h"

/* Takes the first item that may run. NULL: there is none. Called with the lock held. */
static mc_handler_item *take_item(mc_handlers *handlers) {
    mc_handler_item **link = &handlers->first;
    while (*link && (*link)->heavy && handlers->heavy >= MC_HEAVY)
        link = &(*link)->next;
    mc_handler_item *work = *link;
    if (!work) return NULL;
    *link = work->next;
    if (!*link) handlers->last = link;
    handlers->heavy += work->heavy;
    return work;
}

static void *run_handlers(void *context) {
    mc_handlers *handlers = context;
    mc_handler_item *work;
    pthread_mutex_lock(&handlers->lock);
    for (;;) {
        while (!(work = take_item(handlers)) && (handlers->first || !handlers->ending))
            pthread_cond_wait(&handlers->added, &handlers->lock);
        if (!work) break;
        bool heavy = work->heavy;
        pthread_mutex_unlock(&handlers->lock);
        work->run(work);
        pthread_mutex_lock(&handlers->lock);
        handlers->heavy -= heavy;
        if (heavy) pthread_cond_broadcast(&handlers->added);
    }
    pthread_mutex_unlock(&handlers->lock);
    return NULL;
}

mica_status mc_handlers_open(mc_handlers *handlers) {
    *handlers = (mc_handlers){.last = &handlers->first};
    pthread_mutex_init(&handlers->lock, NULL);
    pthread_cond_init(&handlers->added, NULL);
    while (handlers->count < MC_HANDLERS &&
           mc_thread_start(&handlers->threads[handlers->count], run_handlers, handlers) == 0)
        handlers->count++;
    if (handlers->count > 0) return MICA_OK; /* fewer than wanted are no error */
    mc_handlers_close(handlers);
    return mc_fail_nomem("threads of the server");
}

void mc_handlers_add(mc_handlers *handlers, mc_handler_item *work,
                     void (*todo)(mc_handler_item *)) {
    work->next = NULL;
    work->run = todo;
    pthread_mutex_lock(&handlers->lock);
    *handlers->last = work;
    handlers->last = &work->next;
    pthread_cond_signal(&handlers->added);
    pthread_mutex_unlock(&handlers->lock);
}

void mc_handlers_close(mc_handlers *handlers) {
    pthread_mutex_lock(&handlers->lock);
    handlers->ending = true;
    pthread_cond_broadcast(&handlers->added);
    pthread_mutex_unlock(&handlers->lock);
    for (int i = 0; i < handlers->count; i++)
        pthread_join(handlers->threads[i], NULL);
    pthread_cond_destroy(&handlers->added);
    pthread_mutex_destroy(&handlers->lock);
}
