#define _DEFAULT_SOURCE  /* MAP_ANON */
#define _DARWIN_C_SOURCE /* the same there */

#include "base/system.h"
#include "base/alloc.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

uint64_t mc_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t mc_thread_cpu_us(void) {
    struct timespec ran;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran) != 0) return 0;
    return (uint64_t)ran.tv_sec * 1000000 + (uint64_t)ran.tv_nsec / 1000;
}

bool mc_local_time(struct tm *now) {
    time_t seconds = time(NULL);
    return seconds != (time_t)-1 && localtime_r(&seconds, now);
}

void mc_host_name(char *text, size_t bytes) {
    if (gethostname(text, bytes) != 0) snprintf(text, bytes, "?");
    text[bytes - 1] = '\0';
}

bool mc_is_slash(char byte) {
    return byte == '/';
}

size_t mc_root_bytes(const char *path) {
    return mc_is_slash(*path);
}

void *mc_pages_alloc(size_t bytes) {
    if (mc_alloc_should_fail()) return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    mc_prefer_large_pages(memory, bytes);
    return memory;
}

void mc_pages_free(void *memory, size_t bytes) {
    if (memory) munmap(memory, bytes);
}

static const size_t min_stack = (size_t)4 << 20;

/* If the stack size cannot be set, the thread has the system's default. */
static int start(pthread_t *thread, void *(*run)(void *context), void *context) {
    pthread_attr_t attr;
    size_t stack = 0;
    int error = pthread_attr_init(&attr);
    if (error) return error;
    if (pthread_attr_getstacksize(&attr, &stack) == 0 && stack < min_stack)
        (void)pthread_attr_setstacksize(&attr, min_stack);
    mc_thread_hurry(&attr);
    error = pthread_create(thread, &attr, run, context);
    pthread_attr_destroy(&attr);
    return error;
}

int mc_thread_start(pthread_t *thread, void *(*run)(void *context), void *context) {
    /* A fault whose signal is blocked ends the program without its handler. */
    static const int faults[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = start(thread, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
