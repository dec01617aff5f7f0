/* The program's hook, and who may call it. */
#define _POSIX_C_SOURCE 200809L

#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_bool wanted; /* there is a hook */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static mica_log_hook current; /* under the lock, with its user */
static void *current_user;
static _Thread_local bool inside; /* a hook is called in this thread */

bool mc_log_set(mica_log_hook hook, void *user) {
    if (inside) return false;
    pthread_rwlock_wrlock(&lock);
    current = hook;
    current_user = user;
    atomic_store(&wanted, hook != NULL);
    pthread_rwlock_unlock(&lock);
    return true;
}

void mc_log_text(mica_log_level level, const char *text) {
    if (!atomic_load_explicit(&wanted, memory_order_relaxed) || inside) return;
    pthread_rwlock_rdlock(&lock);
    inside = true;
    if (current) current(current_user, level, text);
    inside = false;
    pthread_rwlock_unlock(&lock);
}

void mc_log_line(mica_log_level level, const char *fmt, ...) {
    if (!atomic_load_explicit(&wanted, memory_order_relaxed) || inside) return;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mc_log_text(level, text);
}
