/* Threads and what they wait for. */
#include "base/windows/posix.h"

#include <errno.h>
#include <limits.h>
#include <process.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The types of pthread.h are Windows' own, which it does not include. */
_Static_assert(sizeof(SRWLOCK) == sizeof(void *), "a lock is a pointer");
_Static_assert(sizeof(CONDITION_VARIABLE) == sizeof(void *), "a condition variable is one, too");
_Static_assert(sizeof(INIT_ONCE) == sizeof(void *), "and so is what runs once");

#define SRW(mutex) ((SRWLOCK *)(void *)&(mutex)->lock)
#define CONDITION(cond) ((CONDITION_VARIABLE *)(void *)&(cond)->waiters)

/* ---- threads ---- */

struct mc_posix_thread {
    HANDLE handle;
    void *(*run)(void *context);
    void *context, *result;
    atomic_int users; /* the thread, and who joins or detaches it; the last frees this */
};

static _Thread_local pthread_t self;
static _Thread_local struct mc_posix_thread
    other; /* of a thread that pthread_create has not made */

static void let_go(pthread_t thread) {
    if (atomic_fetch_sub(&thread->users, 1) > 1) return;
    CloseHandle(thread->handle);
    free(thread);
}

static unsigned __stdcall run_thread(void *context) {
    self = context;
    self->result = self->run(self->context);
    let_go(self);
    return 0;
}

/* Of the stack all is reserved, and as much committed as is used. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                   void *context) {
    pthread_t made = malloc(sizeof *made);
    if (!made) return EAGAIN;
    *made = (struct mc_posix_thread){.run = run, .context = context, .users = 2};
    unsigned stack = attr && attr->stack_bytes <= UINT_MAX ? (unsigned)attr->stack_bytes : 0;
    /* It starts when its handle is known. */
    made->handle = (HANDLE)_beginthreadex(
        NULL, stack, run_thread, made, CREATE_SUSPENDED | STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    if (!made->handle) {
        free(made);
        return EAGAIN;
    }
    *thread = made;
    ResumeThread(made->handle);
    return 0;
}

int pthread_join(pthread_t thread, void **result) {
    if (WaitForSingleObject(thread->handle, INFINITE) != WAIT_OBJECT_0) return EINVAL;
    if (result) *result = thread->result;
    let_go(thread);
    return 0;
}

int pthread_detach(pthread_t thread) {
    let_go(thread);
    return 0;
}

pthread_t pthread_self(void) {
    if (self) return self;
    other.handle = GetCurrentThread(); /* which means the one that calls */
    return &other;
}

void *pthread_gethandle(pthread_t thread) {
    return thread->handle;
}

/* ---- mutexes ---- */

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (!mutex->recursive) {
        AcquireSRWLockExclusive(SRW(mutex));
        return 0;
    }
    DWORD id = GetCurrentThreadId(); /* nobody else writes it into `owner` */
    if (__atomic_load_n(&mutex->owner, __ATOMIC_RELAXED) != id) {
        AcquireSRWLockExclusive(SRW(mutex));
        __atomic_store_n(&mutex->owner, id, __ATOMIC_RELAXED);
    }
    mutex->depth++;
    return 0;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    DWORD id = GetCurrentThreadId();
    bool ours = mutex->recursive && __atomic_load_n(&mutex->owner, __ATOMIC_RELAXED) == id;
    if (!ours && !TryAcquireSRWLockExclusive(SRW(mutex))) return EBUSY;
    if (!mutex->recursive) return 0;
    __atomic_store_n(&mutex->owner, id, __ATOMIC_RELAXED);
    mutex->depth++;
    return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    if (mutex->recursive) {
        if (--mutex->depth > 0) return 0;
        __atomic_store_n(&mutex->owner, 0, __ATOMIC_RELAXED);
    }
    ReleaseSRWLockExclusive(SRW(mutex));
    return 0;
}

/* ---- condition variables ---- */

/* A recursive mutex is let go whole. */
static int wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, DWORD ms) {
    unsigned depth = mutex->depth;
    unsigned long owner = mutex->owner;
    mutex->depth = 0;
    __atomic_store_n(&mutex->owner, 0, __ATOMIC_RELAXED);
    bool woken = SleepConditionVariableSRW(CONDITION(cond), SRW(mutex), ms, 0);
    __atomic_store_n(&mutex->owner, owner, __ATOMIC_RELAXED);
    mutex->depth = depth;
    return woken ? 0 : ETIMEDOUT;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    return wait_for(cond, mutex, INFINITE);
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ns = (until->tv_sec - now.tv_sec) * INT64_C(1000000000) + until->tv_nsec - now.tv_nsec;
    int64_t ms = ns > 0 ? (ns + 999999) / 1000000 : 0;
    /* Who waits for more than weeks looks again then, as after any wakeup without a cause. */
    if (ms > INT_MAX) return wait_for(cond, mutex, INT_MAX), 0;
    return wait_for(cond, mutex, (DWORD)ms);
}

int pthread_cond_signal(pthread_cond_t *cond) {
    WakeConditionVariable(CONDITION(cond));
    return 0;
}

int pthread_cond_broadcast(pthread_cond_t *cond) {
    WakeAllConditionVariable(CONDITION(cond));
    return 0;
}

/* ---- locks of readers and writers ---- */

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    AcquireSRWLockShared(SRW(lock));
    return 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    AcquireSRWLockExclusive(SRW(lock));
    lock->written = true;
    return 0;
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    if (!lock->written) { /* no reader has it where one writes */
        ReleaseSRWLockShared(SRW(lock));
        return 0;
    }
    lock->written = false;
    ReleaseSRWLockExclusive(SRW(lock));
    return 0;
}

/* ---- once ---- */

static BOOL CALLBACK call(INIT_ONCE *once, void *run, void **unused) {
    (void)once, (void)unused;
    (*(void (**)(void))run)();
    return TRUE;
}

int pthread_once(pthread_once_t *once, void (*run)(void)) {
    InitOnceExecuteOnce((INIT_ONCE *)(void *)&once->state, call, (void *)&run, NULL);
    return 0;
}
