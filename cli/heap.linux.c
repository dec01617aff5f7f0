#define _DEFAULT_SOURCE /* mallinfo2 */
#include "heap.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

/* glibc moves the limit from which a block has pages of its own up to the largest block that was
 * freed, so that large ones lie between small ones later, and it makes arenas for threads, none of
 * which gives room to another. Others (musl) have neither. */
void cli_heap_set_up(void) {
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 4);
#endif
}

#ifdef __GLIBC_PREREQ /* a macro that other libraries do not have cannot be asked beside it */
#define HAS_MALLINFO2 __GLIBC_PREREQ(2, 33)
#else
#define HAS_MALLINFO2 0
#endif

#if HAS_MALLINFO2

enum { CHECK_SECONDS = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static bool watching;

static bool is_idle(const mica_server *server) {
    int requests, batches;
    mica_server_under_way(server, &requests, &batches);
    return requests == 0 && batches == 0;
}

/* Freed pages between blocks that live go back, unless nothing was freed since the last time. */
static void trim(size_t *free_bytes) {
    if (mallinfo2().fordblks == *free_bytes) return;
    malloc_trim(0);
    *free_bytes = mallinfo2().fordblks;
}

static void *watch(void *server) {
    size_t free_bytes = 0;
    bool was_idle = false;
    struct timespec next;
    pthread_mutex_lock(&lock);
    while (watching) {
        clock_gettime(CLOCK_REALTIME, &next);
        next.tv_sec += CHECK_SECONDS;
        pthread_cond_timedwait(&changed, &lock, &next);
        bool idle = is_idle(server);
        if (idle && was_idle) trim(&free_bytes);
        was_idle = idle;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void cli_heap_watch(const mica_server *server) {
    sigset_t asked, before; /* to stop: the main thread's, which holds no lock of the heap */
    sigemptyset(&asked);
    sigaddset(&asked, SIGINT);
    sigaddset(&asked, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &asked, &before);
    pthread_mutex_lock(&lock); /* the thread looks at it */
    watching = pthread_create(&thread, NULL, watch, (void *)server) == 0;
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cli_heap_unwatch(void) {
    pthread_mutex_lock(&lock);
    bool ends = watching;
    watching = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (ends) pthread_join(thread, NULL);
}

#else

void cli_heap_watch(const mica_server *server) {
    (void)server;
}

void cli_heap_unwatch(void) {}

#endif
