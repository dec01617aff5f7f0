/* What mica calls of POSIX's threads, on Windows: base/windows/thread.c. */
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/system.h"

enum { THREADS = 8, ROUNDS = 20000 };

typedef struct shared {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_rwlock_t table;
    pthread_t by;
    int count, turn;
} shared;

static void *add_up(void *context) {
    shared *s = context;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&s->lock);
        s->count++;
        pthread_mutex_unlock(&s->lock);
        pthread_rwlock_wrlock(&s->table);
        s->turn++;
        pthread_rwlock_unlock(&s->table);
    }
    return &s->count;
}

static void test_locks(void **state) {
    (void)state;
    shared s = {.lock = PTHREAD_MUTEX_INITIALIZER, .table = PTHREAD_RWLOCK_INITIALIZER};
    pthread_t threads[THREADS];
    void *result;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_up, &s), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &s.count);
    }
    assert_int_equal(s.count, THREADS * ROUNDS);
    assert_int_equal(s.turn, THREADS * ROUNDS);
}

static void *try_lock(void *lock) {
    return pthread_mutex_trylock(lock) == EBUSY ? lock : NULL;
}

static bool is_taken(pthread_mutex_t *lock) {
    pthread_t thread;
    void *taken;
    assert_int_equal(pthread_create(&thread, NULL, try_lock, lock), 0);
    assert_int_equal(pthread_join(thread, &taken), 0);
    return taken != NULL;
}

static void test_recursive(void **state) {
    (void)state;
    pthread_mutex_t lock;
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
    assert_int_equal(pthread_mutex_trylock(&lock), 0);
    for (int i = 0; i < 3; i++) {
        assert_true(is_taken(&lock));
        pthread_mutex_unlock(&lock);
    }
    assert_false(is_taken(&lock));
}

/* Readers do not wait for each other: each waits, while it reads, for the other to read, too. */
static void *read_together(void *context) {
    shared *s = context;
    pthread_rwlock_rdlock(&s->table);
    pthread_mutex_lock(&s->lock);
    s->count++;
    pthread_cond_broadcast(&s->changed);
    while (s->count < 2)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    pthread_rwlock_unlock(&s->table);
    return NULL;
}

static void test_readers(void **state) {
    (void)state;
    shared s = {.count = 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_together, &s), 0);
    read_together(&s);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_rwlock_wrlock(&s.table);
    pthread_rwlock_unlock(&s.table);
}

/* Two threads, one after the other. */
static void *take_turns(void *context) {
    shared *s = context;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < ROUNDS; i++) {
        while (s->turn % 2 == 0)
            pthread_cond_wait(&s->changed, &s->lock);
        s->turn++;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void test_conditions(void **state) {
    (void)state;
    shared s = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    struct timespec until;
    pthread_mutex_lock(&s.lock);
    clock_gettime(CLOCK_REALTIME, &until);
    assert_int_equal(pthread_cond_timedwait(&s.changed, &s.lock, &until), ETIMEDOUT);
    assert_int_equal(pthread_create(&thread, NULL, take_turns, &s), 0);
    until.tv_sec += (time_t)1 << 32; /* more milliseconds than Windows waits */
    for (int i = 0; i < ROUNDS; i++) {
        while (s.turn % 2 == 1)
            assert_int_equal(pthread_cond_timedwait(&s.changed, &s.lock, &until), 0);
        s.turn++;
        pthread_cond_signal(&s.changed);
    }
    pthread_mutex_unlock(&s.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.turn, 2 * ROUNDS);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int runs;

static void run(void) {
    atomic_fetch_add(&runs, 1);
}

static void *run_once(void *unused) {
    pthread_once(&once, run);
    assert_int_equal(runs, 1); /* it is done when the call returns */
    return unused;
}

static void test_once(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_once, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(runs, 1);
}

/* Three of the four MiB that a thread of mica's has. */
static void *use_stack(void *context) {
    shared *s = context;
    volatile char large[3 << 20];
    for (size_t i = 0; i < sizeof large; i += 4096)
        large[i] = 1;
    s->by = pthread_self();
    s->count = large[4096];
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    shared s = {.count = 0};
    pthread_t thread;
    size_t before = 0;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(mc_thread_start(&thread, use_stack, &s), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(s.count, 1);
        if (i == 100) before = test_count_handles();
    }
    assert_true(test_count_handles() <= before + 10); /* a thread leaves none */
    assert_true(pthread_equal(pthread_self(), pthread_self()));
    assert_false(pthread_equal(pthread_self(), s.by));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locks),   cmocka_unit_test(test_recursive),
        cmocka_unit_test(test_readers), cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_once),    cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
