/* The group of one rank: its ops are what they are without one; and what is refused. */
#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "op/floats.h"

static void one_rank(void **state) {
    (void)state;
    mica_group *group = NULL, *part = NULL;
    mica_device *device;
    mica_scope *s;
    assert_int_equal(mica_group_open(&(mica_group_options){.backend = "self"}, &group), MICA_OK);
    assert_int_equal(mica_group_size(group), 1);
    assert_string_equal(mica_group_backend(group), "self");
    assert_int_equal(mica_group_split(group, 3, 1, &part), MICA_OK);
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array order = MICA_NONE, x = noise(s, (int64_t[]){3, 4}, 2, 1);
    expect_same(mica_all_reduce(s, part, x, &order), x);
    expect_same(mica_all_gather(s, group, x, 1, &order), x);
    expect_same(mica_reduce_scatter(s, group, x, -1, &order), x);
    expect_same(mica_broadcast(s, group, x, 0, &order), x);
    expect_same(mica_send(s, group, x, 0, &order), x);
    expect_same(mica_recv(s, group, x, 0, &order), x);
    mica_array y = mica_all_reduce(s, group, mica_f32(s, 2), NULL);
    mica_group_close(&group);
    assert_null(group);
    assert_int_equal(mica_eval(s, y), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "no open group"));
    mica_group_close(&part);
    mica_scope_close(&s);
    mica_device_close(&device);
}

static void refused(void **state) {
    (void)state;
    mica_group *group;
    assert_int_equal(mica_group_open(&(mica_group_options){.backend = "pigeon"}, &group),
                     MICA_EINVAL);
    assert_non_null(
        strstr(mica_last_error(), "there is no back end 'pigeon': there are mpi, tcp, self"));
    assert_null(group);
    assert_int_equal(mica_group_open(&(mica_group_options){.patience_s = -1}, &group), MICA_EINVAL);
    assert_int_equal(mica_group_open(NULL, NULL), MICA_EINVAL);
    assert_int_equal(mica_group_agree(NULL, "a", "b"), MICA_EINVAL);
    assert_int_equal(mica_group_size(NULL), 1);
    mica_group_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank), cmocka_unit_test(refused)};
    return cmocka_run_group_tests_name("group/group", tests, NULL, NULL);
}
