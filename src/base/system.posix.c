#define _POSIX_C_SOURCE 200809L

#include "base/system.h"

#include <signal.h>
#include <time.h>

uint64_t mc_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

bool mc_local_time(struct tm *now) {
    time_t seconds = time(NULL);
    return seconds != (time_t)-1 && localtime_r(&seconds, now);
}

static const size_t least_stack = (size_t)4 << 20;

/* Where the size cannot be set, the system's own has to do. */
static int start(pthread_t *thread, void *(*run)(void *context), void *context) {
    pthread_attr_t attr;
    size_t stack = 0;
    int error = pthread_attr_init(&attr);
    if (error) return error;
    if (pthread_attr_getstacksize(&attr, &stack) == 0 && stack < least_stack)
        (void)pthread_attr_setstacksize(&attr, least_stack);
    error = pthread_create(thread, &attr, run, context);
    pthread_attr_destroy(&attr);
    return error;
}

int mc_thread_start(pthread_t *thread, void *(*run)(void *context), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = start(thread, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
