/* Help for tests: where fixtures are, folders and files, and allocations that fail.
 *
 * Everything here ends the test with a message where it cannot do its work, so that callers check
 * nothing. Threads: call from the test's own thread. */
#ifndef SUPPORT_SUPPORT_H
#define SUPPORT_SUPPORT_H

#include "base/alloc.h"
#include "base/json.h"
#include <mica/device.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* wants the four above */

/* The folder of goldens: $MICA_FIXTURES, or the project's own tests/fixtures. Its cases are found
 * by listing it: which there are, and what they are called, no test may know. */
const char *test_fixtures_dir(void);

/* tests/fixtures itself, whatever MICA_FIXTURES says: for tests that need a certain case by its
 * name.
 */
const char *test_cases_dir(void);

/* The project's models/, which holds `default`. */
const char *test_models_dir(void);

/* The command that was built with the tests. */
const char *test_command(void);

/* printf into a new string, for paths most of all; the caller frees it with free(). */
char *test_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Names, sorted bytewise. */
typedef struct test_list {
    char **names;
    size_t count;
} test_list;

/* The subfolders of a folder, by name; hidden ones are left out. Freed with test_list_free. */
test_list test_list_folders(const char *dir);

/* The files of a folder whose names end in `suffix` ("" for all), by name; hidden ones are left
 * out. Freed with test_list_free. */
test_list test_list_files(const char *dir, const char *suffix);

void test_list_free(test_list *list);

/* Whether a process, not a zombie, has that id. */
bool test_process_lives(int64_t pid);

/* How many entries a folder has, hidden ones too. */
size_t test_count_entries(const char *dir);

/* Descriptors or handles that this process has open; 0: the system does not tell. */
size_t test_count_handles(void);

/* Ends this process at once, as its killing from without does. */
_Noreturn void test_die(void);

/* Gives the signal of a pipe that nobody reads its own effect again, where there is such. */
void test_restore_signals(void);

/* Whether a user may make symbolic links here, as mica's cache has them. */
bool test_has_links(void);

/* Makes a FIFO; false: the system has none in folders. */
bool test_make_fifo(const char *path);

/* Limits the length of files that this process writes, and 0 lifts that again; false: the system
 * does not. */
bool test_limit_file_bytes(uint64_t bytes);

/* The arguments of main in UTF-8, which on Windows they are not. */
char **test_utf8_arguments(char **argv);

/* From here on standard streams take bytes as they are, on Windows, too. */
void test_set_binary(void);

/* A file's bytes and, in *size where size is not NULL, their number; a NUL follows them, so that a
 * text can be used as a string. The caller frees it with free(). */
char *test_read_file(const char *path, size_t *size);

/* A JSON file, closed with mc_json_close. */
mc_json_doc *test_load_json(const char *path);

void test_write_file(const char *path, const void *data, size_t size);

/* Writes a text to root/path, and makes the folders on the way. */
void test_write_below(const char *root, const char *path, const char *text);

void test_copy_file(const char *from, const char *to);

/* Whether posix_spawn tells that there is no such program. QEMU's user mode runs vfork as fork,
 * after which a child cannot tell why exec failed. */
bool test_spawn_tells(void);

/* How a test starts its own program as a child: $MICA_TEST_PROGRAM, which CMake gives because a
 * cross build's programs need the emulator, else the file of argv[0]. To be freed. */
char *test_program(const char *own);

/* A new empty folder; test_temp_dir_remove deletes it with all in it and frees the name. */
char *test_temp_dir(void);
void test_temp_dir_remove(char *dir);

/* For what nobody may read: root may, and goes on as another user until test_regain_rights. False
 * where it cannot, in a sandbox: then there is nothing to be seen. */
bool test_lose_rights(void);
void test_regain_rights(void);

/* Bytes that are allocated on the heap; 0 where that cannot be told. */
size_t test_heap_bytes(void);

/* Does `body` again and again while the 1st, 2nd, 3rd ... allocation fails, until it gets through
 * without a failure. `body` is called with `arg`, returns true where it succeeded, and must leave
 * nothing behind where it did not. At least one round must fail: a body that allocates nothing has
 * no business here. Returns the number of rounds that failed. */
uint64_t test_fail_each_allocation(bool (*body)(void *arg), void *arg);

/* Lets a device that computes nothing, and keeps nothing to be computed again, forget its plans and
 * its free memory: the next evaluation allocates what the first one did. */
void test_forget_plans(mica_device *device);

/* mica_device_open of the device that $MICA_TEST_DEVICE names: "witness" or "witness:fused"
 * (support/witness.h), one of mica's, or, where it is not set, the cpu. Tests of what every device
 * does open theirs by this. */
mica_status test_device_open(const mica_device_options *options, mica_device **device);

/* Whether that is another device than the cpu. */
bool test_device_is_other(void);

/* Whether fewer of the cases that are alike are enough: $MICA_TEST_BRIEF is set. */
bool test_is_brief(void);

/* The step of a loop over cases that are alike: 1, or 3 in brief and on other devices than the cpu,
 * which take their time. */
int test_case_step(void);

/* By how many allocations a test goes on that lets the n-th fail while a model computes: 1, in
 * brief 7, or 401 on other devices, which allocate tens of thousands of times for the launches
 * of an answer. */
uint64_t test_failure_step(void);

/* Bytes that are active on a device once its plans are forgotten, for MLX keeps constants with what
 * it compiled. */
uint64_t test_active_bytes(mica_device *device);

/* Whether its ops add up in the cpu's one order, so that equal rows have equal bits, alone or among
 * others and in any layout: the cpu's, and the witness's, which computes with one. MLX's do not. */
bool test_device_keeps_order(void);

/* Whether passes of more than 64 tokens of a text are rounded to bf16, in fast arithmetic: cuda's.
 */
bool test_device_rounds_prompts(void);

/* Whether it is a GPU, whose kernels also go by the lengths of operands that lie alike. */
bool test_device_is_gpu(void);

#endif
