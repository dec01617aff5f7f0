/* What rank 0 tells others: numbers of plans, and a team that breaks. What ranks do with plans
 * tests/serve/ranks.py shows. */
#include "session/lead.h"

#include <string.h>

#include "support/support.h"

static mc_team *open_team(mica_group **group) {
    mc_team *team;
    assert_int_equal(mica_group_open(&(mica_group_options){.backend = "self"}, group), MICA_OK);
    assert_int_equal(mc_team_open(*group, &team), MICA_OK);
    return team;
}

static void numbers(void **state) {
    (void)state;
    const char plan[] = "\x00\x7f\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    mc_plan_reader r = {plan, plan + sizeof plan - 1, false};
    assert_int_equal(mc_plan_number(&r), 0);
    assert_int_equal(mc_plan_number(&r), 127);
    assert_int_equal(mc_plan_number(&r), 128);
    assert_int_equal(mc_plan_number(&r), -1);
    assert_false(r.bad);
    assert_int_equal(mc_plan_number(&r), 0);
    assert_true(r.bad);
    r = (mc_plan_reader){"\x80", NULL, false};
    r.end = r.at + 1;
    (void)mc_plan_number(&r);
    assert_true(r.bad);
}

/* The lowest number that is free is next. */
static void sessions(void **state) {
    (void)state;
    mica_group *group;
    mc_lead *lead;
    mc_team *team = open_team(&group);
    assert_int_equal(mc_lead_open(team, 1, &lead), MICA_OK);
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(mc_lead_take_number(lead), i);
    mc_lead_give_number(lead, 1);
    mc_lead_give_number(lead, 0);
    assert_int_equal(mc_lead_take_number(lead), 0);
    assert_int_equal(mc_lead_take_number(lead), 1);
    assert_int_equal(mc_lead_take_number(lead), 3);
    mc_lead_close(&lead);
    mc_team_close(&team);
    mica_group_close(&group);
}

static void count(void *user) {
    ++*(int *)user;
}

/* The first failure is that of all that comes, and is told once. */
static void broken(void **state) {
    (void)state;
    mica_group *group;
    mc_lead *lead;
    int told = 0;
    mc_team *team = open_team(&group);
    mc_team_watch(team, count, &told);
    assert_int_equal(mc_lead_open(team, 1, &lead), MICA_OK);
    mc_lead_say(lead, MC_LEAD_RESET, (int64_t[]){0, 0}, 2);
    mc_lead_done_with(lead, 0);
    assert_int_equal(mc_lead_send(lead), MICA_OK);
    mc_lead_rest(lead);
    assert_int_equal(mc_team_break(team, mc_fail(MICA_EDEVICE, "rank 1 is gone")), MICA_EDEVICE);
    (void)mc_team_break(team, mc_fail(MICA_ENOMEM, "another"));
    assert_int_equal(mc_lead_send(lead), MICA_EDEVICE);
    assert_string_equal(mica_last_error(), "rank 1 is gone");
    mc_lead_rest(lead);
    assert_int_equal(mc_lead_send(lead), MICA_EDEVICE);
    assert_int_equal(told, 1);
    mc_lead_close(&lead);
    mc_team_close(&team);
    mica_group_close(&group);
}

/* A model that is in this process has no lead. */
static void none(void **state) {
    (void)state;
    mc_lead_say(NULL, MC_LEAD_RESET, NULL, 0);
    mc_lead_say_ids(NULL, NULL, 0);
    mc_lead_say_text(NULL, "");
    assert_int_equal(mc_lead_done(NULL, MICA_ECONTEXT), MICA_ECONTEXT);
    assert_int_equal(mc_lead_take_number(NULL), 0);
    mc_lead_give_number(NULL, 0);
    assert_int_equal(mc_lead_send(NULL), MICA_OK);
    mc_lead_rest(NULL);
    assert_null(mc_lead_team(NULL));
    mc_lead_close(&(mc_lead *){NULL});
    mc_team_close(&(mc_team *){NULL});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(sessions),
                                       cmocka_unit_test(broken), cmocka_unit_test(none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
