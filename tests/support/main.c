/* The tests of a room: the first argument is the name of one, the others are its own.
 *
 * A test that runs away ends by its CPU time, MICA_TEST_CPU_SECONDS, which other programs of a busy
 * machine do not stretch. */
#define _XOPEN_SOURCE 700

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define TEST(function, name) int function(int argc, char **argv);
#include "test_list.h"
#undef TEST

static const struct test {
    const char *name;
    int (*run)(int argc, char **argv);
} tests[] = {
#define TEST(function, name) {name, function},
#include "test_list.h"
#undef TEST
    {NULL, NULL},
};

int main(int argc, char **argv) {
    const struct rlimit cpu = {MICA_TEST_CPU_SECONDS, MICA_TEST_CPU_SECONDS + 10};
    const char *name = argc > 1 ? argv[1] : "";
    for (const struct test *t = tests; t->name; t++) {
        if (strcmp(t->name, name) != 0) continue;
        argv[1] = argv[0];
        if (setrlimit(RLIMIT_CPU, &cpu) != 0) perror("no limit of CPU time");
        return t->run(argc - 1, argv + 1);
    }
    if (*name) fprintf(stderr, "%s: there is no test %s in this build\n", argv[0], name);
    for (const struct test *t = tests; t->name; t++)
        printf("%s\n", t->name);
    return 2;
}
