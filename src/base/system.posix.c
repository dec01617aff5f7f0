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

int mc_thread_start(pthread_t *thread, void *(*run)(void *context), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
