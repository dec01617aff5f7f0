/* base/options: callers compiled with older and newer headers. */
#include "base/options.h"

#include "support/support.h"

#include <stdint.h>
#include <string.h>

/* A struct of options in three versions: the first, the library's, and a newer one. */
typedef struct first {
    size_t struct_bytes;
    int32_t a;
    int32_t b;
} first;

typedef struct known {
    size_t struct_bytes;
    int32_t a;
    int32_t b;
    double c;
} known;

typedef struct newer {
    known old;
    int64_t d;
} newer;

static mica_status copy(const void *from, known *into) {
    memset(into, 0x55, sizeof *into);
    return mc_options_copy(into, sizeof *into, MC_FIRST_BYTES(known, b), from, "known");
}

static void expect(const known *got, int32_t a, int32_t b, double c) {
    assert_int_equal(got->struct_bytes, sizeof *got);
    assert_int_equal(got->a, a);
    assert_int_equal(got->b, b);
    assert_true(got->c == c);
}

static void test_options(void **state) {
    (void)state;
    known into;
    assert_int_equal(copy(NULL, &into), MICA_OK);
    expect(&into, 0, 0, 0);
    assert_int_equal(copy(&(first){sizeof(first), 1, 2}, &into), MICA_OK); /* shorter */
    expect(&into, 1, 2, 0);
    assert_int_equal(copy(&(first){0, 1, 2}, &into), MICA_OK); /* 0 is the first version */
    expect(&into, 1, 2, 0);
    assert_int_equal(copy(&(known){0, 1, 2, 3}, &into), MICA_OK); /* and reads no more than that */
    expect(&into, 1, 2, 0);
    assert_int_equal(copy(&(known){sizeof(known), 1, 2, 3}, &into), MICA_OK);
    expect(&into, 1, 2, 3);
    assert_int_equal(copy(&(first){sizeof(size_t), 1, 2}, &into), MICA_OK);
    expect(&into, 0, 0, 0);
    assert_int_equal(copy(&(newer){{sizeof(newer), 1, 2, 3}, 0}, &into), MICA_OK); /* longer */
    expect(&into, 1, 2, 3);
}

static void test_unknown_options(void **state) {
    (void)state;
    known into;
    assert_int_equal(copy(&(newer){{sizeof(newer), 1, 2, 3}, 1}, &into), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "known"));
    static const size_t wrong[] = {1, sizeof(size_t) - 1, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(copy(&(first){wrong[i], 1, 2}, &into), MICA_EINVAL);
        assert_non_null(strstr(mica_last_error(), "struct_bytes"));
    }
}

static void tell(void *into, const known *from) {
    mc_info_copy(into, MC_FIRST_BYTES(known, b), from, sizeof *from);
}

static void test_information(void **state) {
    (void)state;
    const known from = {0, 1, 2, 3};
    /* The first version's members, also for a size that no version has. */
    static const size_t sizes[] = {0, 1, sizeof(size_t), sizeof(first)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        known into = {sizes[i], 9, 9, 9};
        tell(&into, &from);
        assert_int_equal(into.struct_bytes, sizes[i]);
        assert_true(into.a == 1 && into.b == 2 && into.c == 9);
    }
    known into = {sizeof into, 9, 9, 9};
    tell(&into, &from);
    expect(&into, 1, 2, 3);
    newer more = {{SIZE_MAX, 9, 9, 9}, 9}; /* never more than the library knows */
    tell(&more, &from);
    assert_true(more.old.a == 1 && more.old.c == 3 && more.d == 9);
    tell(NULL, &from);
}

/* The macros, of a struct that is the same in all versions. */
static void test_macros(void **state) {
    (void)state;
    first options, info = {0};
    const first given = {0, 1, 2};
    assert_int_equal(MC_OPTIONS_COPY(first, b, &options, &given), MICA_OK);
    assert_true(options.a == 1 && options.b == 2);
    MC_INFO_COPY(first, b, &info, &given);
    assert_true(info.a == 1 && info.b == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_unknown_options),
        cmocka_unit_test(test_information),
        cmocka_unit_test(test_macros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
