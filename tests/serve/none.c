/* A build without libmicrohttpd: the functions are there and say so. */
#include "support/support.h"

#include <mica/serve.h>

#include <string.h>

static void test_none(void **state) {
    (void)state;
    mica_server *server = (mica_server *)&server;
    assert_int_equal(mica_server_open(NULL, &server), MICA_EUNSUPPORTED);
    assert_null(server);
    assert_non_null(strstr(mica_last_error(), "libmicrohttpd"));
    assert_int_equal(mica_server_add(NULL, "a", NULL, NULL), MICA_EINVAL);
    assert_int_equal(mica_server_run(NULL), MICA_EINVAL);
    mica_server_stop(NULL);
    mica_server_close(&server);
    assert_string_equal(mica_server_address(NULL), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
