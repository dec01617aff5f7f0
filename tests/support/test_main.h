/* Stands before each test of a room's program (cmake/MicaTesting.cmake): its main is one function
 * among others there, called by the first argument (main.c). */
#ifndef MICA_TESTS_SUPPORT_TEST_MAIN_H
#define MICA_TESTS_SUPPORT_TEST_MAIN_H

int MICA_TEST_MAIN(int argc, char **argv);

#define main(...) \
    MICA_TEST_MAIN(__attribute__((unused)) int argc, __attribute__((unused)) char **argv)

#endif
