/* The threads of handlers: of heavy items only some run at once, and the others do not wait for
 * them. */
#include "serve/http/handlers.h"

#include "support/support.h"

enum { HEAVY = 24, LIGHT = 50 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done, running, most, finished; /* light ones; heavy ones */

static void run_light(mc_handler_item *item) {
    (void)item;
    pthread_mutex_lock(&lock);
    done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Waits until all light ones have run: with all threads taken they never would. */
static void run_heavy(mc_handler_item *item) {
    (void)item;
    pthread_mutex_lock(&lock);
    running++;
    if (running > most) most = running;
    while (done < LIGHT)
        pthread_cond_wait(&changed, &lock);
    running--;
    finished++;
    pthread_mutex_unlock(&lock);
}

static void test_heavy(void **state) {
    (void)state;
    mc_handlers handlers;
    mc_handler_item heavy[HEAVY] = {{.heavy = true}}, light[LIGHT] = {{0}};
    assert_int_equal(mc_handlers_open(&handlers), MICA_OK);
    for (int i = 0; i < HEAVY; i++) {
        heavy[i].heavy = true;
        mc_handlers_add(&handlers, &heavy[i], run_heavy);
    }
    for (int i = 0; i < LIGHT; i++)
        mc_handlers_add(&handlers, &light[i], run_light);
    mc_handlers_close(&handlers); /* runs all of them */
    assert_int_equal(done, LIGHT);
    assert_int_equal(finished, HEAVY);
    assert_true(most >= 1 && most <= MC_HEAVY);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heavy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
