/* A schedule over a model that another engine computes: one request after another. */
#include "schedule/client.h"

#include "engine/parrot.h"

#include <string.h>

static const int32_t words[] = {2, 40, 41, 42, 43, 44};
enum { WORDS = sizeof words / sizeof *words };

typedef struct cage {
    parrot p;
    mica_model *model;
    mc_schedule *schedule;
} cage;

static void open_cage(cage *c, const mc_schedule_options *options) {
    const mica_engine engine = parrot_engine("parrot", &c->p);
    if (mica_engine_register(&engine) != MICA_OK) fail_msg("%s", mica_last_error());
    c->model = open_model("default", &(mica_model_options){.engine = "parrot"});
    if (mc_schedule_open(c->model, options, &c->schedule) != MICA_OK)
        fail_msg("%s", mica_last_error());
}

static void close_cage(cage *c) {
    mc_schedule_close(&c->schedule);
    mica_model_close(&c->model);
    assert_int_equal(atomic_load(&c->p.answers), 0);
    assert_int_equal(atomic_load(&c->p.sessions), 0);
    assert_int_equal(mica_engine_unregister("parrot"), MICA_OK);
}

static void test_answers(void **state) {
    (void)state;
    enum { N = 5 };
    cage g = {.p = {.takes = 0}};
    client c[N];
    open_cage(&g, NULL);
    for (int i = 0; i < N; i++) {
        client_init(&c[i]);
        assert_int_equal(
            client_submit(&c[i], g.schedule,
                          (mc_request_options){.ids = words, .n_ids = WORDS, .choices = 2}),
            MICA_OK);
    }
    for (int i = 0; i < N; i++) {
        client_wait_ends(&c[i], 2);
        for (int j = 0; j < 2; j++) {
            assert_int_equal(c[i].choices[j].status, MICA_OK);
            assert_int_equal(c[i].choices[j].finish, MICA_FINISH_STOP);
            assert_int_equal(c[i].choices[j].ids.len, sizeof words);
            assert_memory_equal(c[i].choices[j].ids.data, words, sizeof words);
        }
        client_deinit(&c[i]);
    }
    close_cage(&g);
}

static void test_failures(void **state) {
    (void)state;
    cage g = {.p = {.fails_at = 3}};
    const mica_generate_options hot = {.temperature = 1.0f};
    client a, b;
    open_cage(&g, NULL);
    client_init(&a);
    client_init(&b);
    assert_int_equal(
        client_submit(&a, g.schedule, (mc_request_options){.ids = words, .n_ids = WORDS}), MICA_OK);
    assert_int_equal(
        client_submit(&b, g.schedule,
                      (mc_request_options){.ids = words, .n_ids = WORDS, .generate = &hot}),
        MICA_OK);
    client_wait_ends(&a, 1);
    client_wait_ends(&b, 1);
    assert_int_equal(a.choices[0].status, MICA_EIO);
    assert_string_equal(a.choices[0].error, "engine parrot: lost its voice");
    assert_int_equal(client_tokens(&a, 0), 2);
    assert_int_equal(b.choices[0].status, MICA_EUNSUPPORTED);
    assert_non_null(strstr(b.choices[0].error, "temperature"));
    client_deinit(&a);
    client_deinit(&b);
    close_cage(&g);
}

static void test_cancel(void **state) {
    (void)state;
    cage g = {.p = {.takes = 0}};
    client a, b, c;
    gate shut;
    open_cage(&g, NULL);
    client_init(&a);
    client_init(&b);
    client_init(&c);
    gate_shut(&shut, g.schedule);
    a.stop_at = 2;
    const mc_request_options r = {.ids = words, .n_ids = WORDS};
    assert_int_equal(client_submit(&a, g.schedule, r), MICA_OK);
    assert_int_equal(client_submit(&b, g.schedule, r), MICA_OK);
    assert_int_equal(client_submit(&c, g.schedule, r), MICA_OK);
    mc_request_cancel(b.request);
    gate_open(&shut);
    client_wait_ends(&a, 1);
    client_wait_ends(&b, 1);
    client_wait_ends(&c, 1);
    assert_int_equal(client_tokens(&a, 0), 2);
    assert_int_equal(a.choices[0].status, MICA_ECANCELLED);
    assert_int_equal(client_tokens(&b, 0), 0);
    assert_int_equal(b.choices[0].finish, MICA_FINISH_CANCELLED);
    assert_int_equal(c.choices[0].finish, MICA_FINISH_STOP);
    client_deinit(&a);
    client_deinit(&b);
    client_deinit(&c);
    close_cage(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests_name("schedule/turns", tests, NULL, NULL);
}
