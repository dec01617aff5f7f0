/* Masks that are computed ahead: who computes them, and that none is lost, or used by two threads
 * at once. */
#include "session/mask_worker.h"

#include "support/support.h"

#include <pthread.h>
#include <string.h>

enum { VOCAB = 70, WORDS = (VOCAB + 31) / 32 };

/* A constraint whose mask says how often it was asked. It may wait at a gate. */
typedef struct counter {
    mc_constraint base;
    uint32_t asked;
    uint32_t fail_at; /* the call that fails; 0: none */
    pthread_t by;     /* who computed the last one */
    struct gate *gate;
} counter;

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered, open;
} gate;

static void gate_wait(gate *g, const bool *what) {
    while (!*what)
        pthread_cond_wait(&g->changed, &g->lock);
}

static void gate_pass(gate *g) {
    pthread_mutex_lock(&g->lock);
    g->entered = true;
    pthread_cond_broadcast(&g->changed);
    gate_wait(g, &g->open);
    pthread_mutex_unlock(&g->lock);
}

static mica_status count_mask(mc_constraint *constraint, mc_token_mask *mask) {
    counter *c = (counter *)constraint;
    if (c->gate) gate_pass(c->gate);
    c->by = pthread_self();
    c->asked++;
    if (c->asked == c->fail_at) return mc_fail(MICA_EFORMAT, "mask %u is broken", c->asked);
    for (size_t i = 0; i < WORDS; i++)
        mask->allowed[i] = c->asked;
    mask->all = false;
    mask->may_end = c->asked % 2;
    return MICA_OK;
}

static const mc_constraint_ops ops = {.mask = count_mask};

typedef struct row {
    counter constraint;
    uint32_t allowed[WORDS];
    mc_mask_job job;
} row;

static void row_init(row *r, gate *g) {
    *r = (row){.constraint = {.base = {&ops}, .gate = g}};
    r->job.constraint = &r->constraint.base;
    r->job.mask = (mc_token_mask){.allowed = r->allowed, .vocab = VOCAB};
}

static void must_finish(mc_mask_worker *worker, row *r, uint32_t asked) {
    assert_int_equal(mc_mask_job_finish(worker, &r->job), MICA_OK);
    assert_int_equal(r->constraint.asked, asked);
    assert_int_equal(r->allowed[0], asked);
    assert_int_equal(r->allowed[WORDS - 1], asked);
    assert_int_equal(r->job.mask.may_end, asked % 2);
}

static mc_mask_worker *open_worker(void) {
    mc_mask_worker *worker;
    assert_int_equal(mc_mask_worker_open(&worker), MICA_OK);
    return worker;
}

/* Many rows, many positions: each mask is computed once, begun or not. */
static void test_rounds(void **state) {
    (void)state;
    enum { ROWS = 16, ROUNDS = 200 };
    static row rows[ROWS];
    mc_mask_worker *worker = open_worker();
    for (size_t i = 0; i < ROWS; i++)
        row_init(&rows[i], NULL);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < ROWS; i++)
            for (size_t times = (i + round) % 3; times > 0; times--)
                mc_mask_job_begin(worker, &rows[i].job); /* the second one does nothing */
        for (size_t i = 0; i < ROWS; i++)
            must_finish(worker, &rows[i * 5 % ROWS], round);
    }
    const mc_mask_times times = mc_mask_worker_times(worker);
    assert_true(times.computed >= 0 && times.waited >= 0);
    mc_mask_worker_close(&worker);
    assert_null(worker);
}

/* The worker's thread computes a mask while others go on; jobs behind it are computed by those who
 * need them, or are dropped. */
static void test_who(void **state) {
    (void)state;
    static gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    row slow, needed, dropped, last;
    mc_mask_worker *worker = open_worker();
    row_init(&slow, &g);
    row_init(&needed, NULL);
    row_init(&dropped, NULL);
    row_init(&last, NULL);
    mc_mask_job_begin(worker, &slow.job);
    pthread_mutex_lock(&g.lock);
    gate_wait(&g, &g.entered);
    pthread_mutex_unlock(&g.lock);
    mc_mask_job_begin(worker, &needed.job);
    mc_mask_job_begin(worker, &dropped.job);
    mc_mask_job_begin(worker, &last.job);
    must_finish(worker, &needed, 1);
    assert_true(pthread_equal(needed.constraint.by, pthread_self()));
    mc_mask_job_drop(worker, &dropped.job);
    must_finish(worker, &last, 1);
    mc_mask_job_begin(worker, &last.job);
    mc_mask_job_drop(worker, &last.job);
    pthread_mutex_lock(&g.lock);
    g.open = true;
    pthread_cond_broadcast(&g.changed);
    pthread_mutex_unlock(&g.lock);
    must_finish(worker, &slow, 1);
    assert_false(pthread_equal(slow.constraint.by, pthread_self()));
    mc_mask_job_begin(worker, &slow.job);
    mc_mask_job_drop(worker, &slow.job); /* waits where it runs */
    assert_true(slow.constraint.asked <= 2);
    assert_int_equal(dropped.constraint.asked, 0);
    assert_int_equal(last.constraint.asked, 1);
    mc_mask_worker_close(&worker);
}

/* The error of a mask is told with its text, whoever computed it; the next mask is another. */
static void test_errors(void **state) {
    (void)state;
    mc_mask_worker *worker = open_worker();
    for (int ahead = 0; ahead < 2; ahead++) {
        row r;
        row_init(&r, NULL);
        r.constraint.fail_at = 2;
        for (uint32_t i = 1; i < 4; i++) {
            if (ahead) mc_mask_job_begin(worker, &r.job);
            if (i != 2) {
                must_finish(worker, &r, i);
                continue;
            }
            mc_fail(MICA_EIO, "another text");
            assert_int_equal(mc_mask_job_finish(worker, &r.job), MICA_EFORMAT);
            assert_string_equal(mica_last_error(), "mask 2 is broken");
        }
    }
    mc_mask_worker_close(&worker);
}

static bool try_open(void *arg) {
    mc_mask_worker *worker;
    (void)arg;
    mica_status status = mc_mask_worker_open(&worker);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    mc_mask_worker_close(&worker);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    assert_true(test_fail_each_allocation(try_open, NULL) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_who),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("session/mask_worker", tests, NULL, NULL);
}
