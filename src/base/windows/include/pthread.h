/* Windows: see windows/posix.h. Locks are SRW locks, condition variables are Windows' own, threads
 * those of the C library. What is all zero is ready for use, and nothing has to be destroyed. */
#ifndef POSIX_PTHREAD_H
#define POSIX_PTHREAD_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

typedef struct mc_posix_thread *pthread_t;
typedef struct {
    size_t stack_bytes; /* 0: the program's default */
} pthread_attr_t;

typedef struct {
    int type;
} pthread_mutexattr_t;
typedef struct {
    void *lock;
    unsigned long owner; /* of a recursive one that is locked: the thread's number */
    unsigned depth;      /* how often that thread has locked it */
    bool recursive;
} pthread_mutex_t;
typedef struct {
    void *waiters;
} pthread_cond_t;
typedef struct {
    void *lock;
    bool written; /* it is locked by one that writes */
} pthread_rwlock_t;
typedef struct {
    void *state;
} pthread_once_t;

#define PTHREAD_MUTEX_INITIALIZER \
    { 0 }
#define PTHREAD_COND_INITIALIZER \
    { 0 }
#define PTHREAD_RWLOCK_INITIALIZER \
    { 0 }
#define PTHREAD_ONCE_INIT \
    { 0 }
#define PTHREAD_MUTEX_RECURSIVE 1

#ifdef __cplusplus
extern "C" {
#endif

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                   void *context) __asm__("mc_posix_pthread_create");
int pthread_join(pthread_t thread, void **result) __asm__("mc_posix_pthread_join");
int pthread_detach(pthread_t thread) __asm__("mc_posix_pthread_detach");
pthread_t pthread_self(void) __asm__("mc_posix_pthread_self");
void *pthread_gethandle(pthread_t thread) __asm__("mc_posix_pthread_gethandle");

static inline int pthread_equal(pthread_t a, pthread_t b) {
    return a == b;
}

static inline int pthread_attr_init(pthread_attr_t *attr) {
    attr->stack_bytes = 0;
    return 0;
}

static inline int pthread_attr_setstacksize(pthread_attr_t *attr, size_t bytes) {
    attr->stack_bytes = bytes;
    return 0;
}

static inline int pthread_attr_destroy(pthread_attr_t *attr) {
    (void)attr;
    return 0;
}

static inline int pthread_mutexattr_init(pthread_mutexattr_t *attr) {
    attr->type = 0;
    return 0;
}

static inline int pthread_mutexattr_settype(pthread_mutexattr_t *attr, int type) {
    attr->type = type;
    return 0;
}

static inline int pthread_mutexattr_destroy(pthread_mutexattr_t *attr) {
    (void)attr;
    return 0;
}

static inline int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr) {
    mutex->lock = NULL;
    mutex->owner = mutex->depth = 0;
    mutex->recursive = attr && attr->type == PTHREAD_MUTEX_RECURSIVE;
    return 0;
}

static inline int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex) __asm__("mc_posix_pthread_mutex_lock");
int pthread_mutex_trylock(pthread_mutex_t *mutex) __asm__("mc_posix_pthread_mutex_trylock");
int pthread_mutex_unlock(pthread_mutex_t *mutex) __asm__("mc_posix_pthread_mutex_unlock");

static inline int pthread_cond_init(pthread_cond_t *cond, const void *attr) {
    (void)attr;
    cond->waiters = NULL;
    return 0;
}

static inline int pthread_cond_destroy(pthread_cond_t *cond) {
    (void)cond;
    return 0;
}

int pthread_cond_wait(pthread_cond_t *cond,
                      pthread_mutex_t *mutex) __asm__("mc_posix_pthread_cond_wait");
/* until: by CLOCK_REALTIME */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until) //
    __asm__("mc_posix_pthread_cond_timedwait");
int pthread_cond_signal(pthread_cond_t *cond) __asm__("mc_posix_pthread_cond_signal");
int pthread_cond_broadcast(pthread_cond_t *cond) __asm__("mc_posix_pthread_cond_broadcast");

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) __asm__("mc_posix_pthread_rwlock_rdlock");
int pthread_rwlock_wrlock(pthread_rwlock_t *lock) __asm__("mc_posix_pthread_rwlock_wrlock");
int pthread_rwlock_unlock(pthread_rwlock_t *lock) __asm__("mc_posix_pthread_rwlock_unlock");

int pthread_once(pthread_once_t *once, void (*run)(void)) __asm__("mc_posix_pthread_once");

#ifdef __cplusplus
}
#endif

#endif
