/* The cache of model folders that are made of GGUF files: what counts, what is made anew, what mica
 * gc and mica rm remove, and that folders of the user stay. */
#define _DEFAULT_SOURCE /* flock, utimensat */
#define _DARWIN_C_SOURCE

#include <mica/mica.h>

#include "io/gguf_cache.h"
#include "io/safetensors.h"
#include "support/support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char *dir, *cache, *file;

static char *below(const char *folder, const char *path) {
    return test_format("%s/%s", folder, path);
}

static void put_file(const char *family) {
    char *from = test_format("%s/gguf/%s/model.gguf", test_cases_dir(), family);
    test_copy_file(from, file);
    free(from);
}

static int make_cache(void **state) {
    (void)state;
    char *hub;
    dir = test_temp_dir();
    cache = below(dir, "cache");
    file = below(dir, "tiny.gguf");
    hub = below(dir, "hub");
    assert_int_equal(mkdir(cache, 0777), 0);
    put_file("qwen3");
    setenv("MICA_GGUF_CACHE", cache, 1);
    setenv("HF_HUB_CACHE", hub, 1);
    free(hub);
    return 0;
}

static int remove_cache(void **state) {
    (void)state;
    free(cache);
    free(file);
    test_temp_dir_remove(dir);
    return 0;
}

static mica_status make(const char *as, char **folder) {
    const mica_gguf_options options = {.struct_bytes = sizeof options, .name = as};
    return mica_gguf_folder(file, &options, folder);
}

static char *make_ok(const char *as) {
    char *folder;
    if (make(as, &folder) != MICA_OK) fail_msg("%s", mica_last_error());
    return folder;
}

static void check_made(const char *folder, mc_gguf_made want) {
    mc_gguf_made made;
    assert_int_equal(mc_gguf_origin_find(folder, &made), MICA_OK);
    assert_int_equal(made, want);
}

static bool exists(const char *folder, const char *path) {
    char *whole = below(folder, path);
    bool there = access(whole, F_OK) == 0;
    free(whole);
    return there;
}

/* ---- what counts ---- */

static void test_made_once(void **state) {
    (void)state;
    struct stat first, again;
    char *folder = make_ok(NULL), *same;
    assert_int_equal(stat(folder, &first), 0);
    same = make_ok(NULL);
    assert_string_equal(folder, same);
    assert_int_equal(stat(folder, &again), 0);
    assert_int_equal(first.st_ino, again.st_ino);
    check_made(folder, MC_GGUF_STANDS);
    assert_true(strncmp(folder, cache, strlen(cache)) == 0);
    mica_free(folder);
    mica_free(same);
}

static void set_time(const char *path, long nanoseconds) {
    const struct timespec times[2] = {{1700000000, nanoseconds}, {1700000000, nanoseconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Also a file that is changed in the same second and has the same size. */
static void test_changed(void **state) {
    (void)state;
    set_time(file, 100);
    char *folder = make_ok("o/x");
    check_made(folder, MC_GGUF_STANDS);
    set_time(file, 200);
    check_made(folder, MC_GGUF_MADE);
    mica_free(make_ok("o/x"));
    check_made(folder, MC_GGUF_STANDS);
    assert_int_equal(unlink(file), 0);
    check_made(folder, MC_GGUF_MADE);
    mica_free(folder);
}

static void test_replaced(void **state) {
    (void)state;
    char *other = below(dir, "other.gguf");
    set_time(file, 100);
    char *folder = make_ok("o/x");
    test_copy_file(file, other);
    set_time(other, 100);
    assert_int_equal(rename(other, file), 0);
    check_made(folder, MC_GGUF_MADE);
    mica_free(folder);
    free(other);
}

/* Texts that are no origin, or a strange one. */
static void test_origins(void **state) {
    (void)state;
    static const struct {
        const char *text;
        mc_gguf_made made;
    } cases[] = {{"", MC_GGUF_FOREIGN},
                 {"notes", MC_GGUF_FOREIGN},
                 {"mica gguf 1\n5 5 /x\n", MC_GGUF_MADE},
                 {"mica gguf 2\n", MC_GGUF_MADE},
                 {"mica gguf 2\n\n", MC_GGUF_MADE},
                 {"mica gguf 2\n1 2 3 4\n", MC_GGUF_MADE},
                 {"mica gguf 2\n1 2 3 4 ", MC_GGUF_MADE},
                 {"mica gguf 9\n1 2 3 4 /x\n", MC_GGUF_MADE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_write_below(dir, "mica_gguf.txt", cases[i].text);
        check_made(dir, cases[i].made);
    }
}

static void test_bad_names(void **state) {
    (void)state;
    static const char *const names[] = {"", "/x", "x/", "../x", "x/../y", ".x", "x//y", "x\\y"};
    char *folder;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(make(names[i], &folder), MICA_EINVAL);
    char *strange = below(dir, "a\nb.gguf");
    assert_int_equal(rename(file, strange), 0);
    free(file);
    file = strange;
    assert_int_equal(make(NULL, &folder), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "line break"));
}

static void test_empty_cache_is_unset(void **state) {
    (void)state;
    const mica_gguf_options options = {.struct_bytes = sizeof options, .cache = "", .name = "x"};
    char *folder;
    assert_int_equal(mica_gguf_folder(file, &options, &folder), MICA_OK);
    assert_true(strncmp(folder, cache, strlen(cache)) == 0);
    mica_free(folder);
    unsetenv("MICA_GGUF_CACHE");
    unsetenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char *kept = home ? strdup(home) : NULL;
    unsetenv("HOME");
    mica_status status = make(NULL, &folder);
    if (kept) setenv("HOME", kept, 1);
    free(kept);
    assert_int_equal(status, MICA_ENOENT);
}

/* A folder that is called like a file of a model is none. */
static void test_folder_named_gguf(void **state) {
    (void)state;
    mc_arena arena = {0};
    const char **files;
    size_t count;
    test_write_below(dir, "x.gguf/notes.txt", "mine");
    assert_int_equal(mc_gguf_files_find(dir, NULL, &arena, &files, &count), MICA_OK);
    assert_int_equal(count, 1);
    assert_string_equal(files[0], file);
    mc_arena_deinit(&arena);
}

/* ---- folders of the user ---- */

static void test_foreign_target(void **state) {
    (void)state;
    char *folder, *mine = below(cache, "mine");
    test_write_below(cache, "mine/notes.txt", "mine");
    assert_int_equal(make("mine", &folder), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "was not made of a GGUF file"));
    assert_null(folder);
    assert_true(exists(mine, "notes.txt"));
    free(mine);
}

static void put_own_model(void) {
    test_write_below(cache, "mine/model/config.json", "{}");
    test_write_below(cache, "mine/model/model.safetensors", "weights");
    test_write_below(cache, "mine/other/mica_gguf.txt", "a text of mine");
    test_write_below(cache, "mine/other/config.json", "{}");
}

static void check_own_model(void) {
    assert_true(exists(cache, "mine/model/config.json"));
    assert_true(exists(cache, "mine/model/model.safetensors"));
    assert_true(exists(cache, "mine/other/mica_gguf.txt"));
    assert_true(exists(cache, "mine/other/config.json"));
}

static void test_collect(void **state) {
    (void)state;
    uint64_t dry, bytes = 1;
    put_own_model();
    char *folder = make_ok("o/x");
    assert_int_equal(mica_cache_collect(NULL, false, &bytes), MICA_OK);
    assert_int_equal(bytes, 0);
    check_made(folder, MC_GGUF_STANDS);
    assert_int_equal(unlink(file), 0);
    char *lock = below(cache, "o/.x.lock");
    assert_int_equal(unlink(lock), 0);
    free(lock);
    assert_int_equal(mica_cache_collect(NULL, true, &dry), MICA_OK);
    assert_false(exists(cache, "o/.x.lock"));
    check_made(folder, MC_GGUF_MADE);
    assert_int_equal(mica_cache_collect(NULL, false, &bytes), MICA_OK);
    assert_true(bytes > 10000);
    assert_int_equal(dry, bytes);
    assert_false(exists(cache, "o/x"));
    char *parent = below(cache, "o");
    assert_int_equal(test_count_entries(parent), 0);
    check_own_model();
    free(parent);
    mica_free(folder);
}

static void test_remove(void **state) {
    (void)state;
    uint64_t bytes = 1;
    put_own_model();
    mica_free(make_ok("o/x-GGUF:Q4_0"));
    mica_free(make_ok("o/y"));
    assert_int_equal(mica_cache_remove("mine/model", NULL, &bytes), MICA_ENOENT);
    assert_int_equal(mica_cache_remove("mine/other", NULL, &bytes), MICA_ENOENT);
    check_own_model();
    char *lock = below(cache, "o/.x-GGUF:Q4_0.lock");
    int fd = open(lock, O_RDWR);
    free(lock);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(mica_cache_remove("o/x-GGUF:Q4_0", NULL, &bytes), MICA_EBUSY);
    assert_true(exists(cache, "o/x-GGUF:Q4_0"));
    close(fd);
    assert_int_equal(mica_cache_remove("o/x-gguf:q4_0", NULL, &bytes), MICA_OK);
    assert_true(bytes > 10000);
    assert_false(exists(cache, "o/x-GGUF:Q4_0"));
    assert_true(exists(cache, "o/y"));
    check_own_model();
}

/* What a killed conversion left is collected, also where no model is. */
static void test_leftovers(void **state) {
    (void)state;
    uint64_t bytes;
    test_write_below(cache, "o/.mica-folder-0/model.safetensors", "12345");
    test_write_below(cache, "o/.mica-folder-0/config.json", "678");
    for (int dry = 1; dry >= 0; dry--) {
        assert_true(exists(cache, "o/.mica-folder-0/config.json"));
        assert_int_equal(mica_cache_collect(NULL, dry, &bytes), MICA_OK);
        assert_int_equal(bytes, 8);
    }
    assert_false(exists(cache, "o/.mica-folder-0"));
}

/* ---- conversions that do not end ---- */

static void test_cancelled(void **state) {
    (void)state;
    mica_cancel *cancel;
    char *folder, *parent = below(cache, "o");
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    mica_cancel_set(cancel);
    const mica_gguf_options options = {
        .struct_bytes = sizeof options, .name = "o/x", .cancel = cancel};
    assert_int_equal(mica_gguf_folder(file, &options, &folder), MICA_ECANCELLED);
    assert_null(folder);
    assert_int_equal(test_count_entries(parent), 1); /* the lock */
    mica_cancel_close(&cancel);
    free(parent);
}

static bool make_again(void *user) {
    (void)user;
    char *folder;
    mica_status status = make("o/x", &folder);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mica_free(folder);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    char *parent = below(cache, "o"), *folder = below(parent, "x");
    test_fail_each_allocation(make_again, NULL);
    check_made(folder, MC_GGUF_STANDS);
    assert_int_equal(test_count_entries(parent), 2); /* and the lock */
    free(parent);
    free(folder);
}

static bool collect_again(void *user) {
    (void)user;
    mica_status status = mica_cache_collect(NULL, false, NULL);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

/* What stands is not removed where memory is out. */
static void test_collect_no_memory(void **state) {
    (void)state;
    char *folder = make_ok("o/x");
    test_fail_each_allocation(collect_again, NULL);
    check_made(folder, MC_GGUF_STANDS);
    mica_free(folder);
}

/* ---- versions ---- */

static uint32_t digest(uint32_t hash, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 16777619u;
    return hash;
}

/* Of what the weights are: a model made by a version that makes them otherwise must not count. */
static uint32_t digest_weights(const char *folder) {
    char *path = below(folder, "model.safetensors");
    mc_weights *weights;
    uint32_t hash = 2166136261u;
    assert_int_equal(mc_weights_open(path, NULL, &weights), MICA_OK);
    for (size_t i = 0; i < mc_weights_count(weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(weights, i);
        hash = digest(hash, t->name, strlen(t->name));
        hash = digest(hash, t->shape, sizeof *t->shape * (size_t)t->ndim);
        const int32_t dtype = (int32_t)t->dtype;
        hash = digest(hash, &dtype, sizeof dtype);
    }
    mc_weights_close(&weights);
    free(path);
    return hash;
}

static void test_version(void **state) {
    (void)state;
    static const char head[] = "mica gguf 2\n";
    static const struct {
        const char *family;
        uint32_t digest;
    } cases[] = {{"llama", 0x2d1d51c5}, {"qwen3", 0x161d8a3d}, {"gemma3", 0x1cd533f2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(cases[i].family);
        char *folder = make_ok("o/x"), *path = below(folder, "mica_gguf.txt");
        char *text = test_read_file(path, NULL);
        assert_memory_equal(text, head, sizeof head - 1);
        uint32_t got = digest_weights(folder);
        if (got != cases[i].digest)
            fail_msg("%s: the conversion has changed: count up origin_head in "
                     "src/io/gguf_cache.posix.c, and here, and write its new digest 0x%08x",
                     cases[i].family, got);
        free(text);
        free(path);
        mica_free(folder);
    }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_cache, remove_cache)
    const struct CMUnitTest tests[] = {
        TEST(test_made_once),         TEST(test_changed),
        TEST(test_replaced),          TEST(test_origins),
        TEST(test_bad_names),         TEST(test_empty_cache_is_unset),
        TEST(test_folder_named_gguf), TEST(test_foreign_target),
        TEST(test_collect),           TEST(test_remove),
        TEST(test_leftovers),         TEST(test_cancelled),
        TEST(test_no_memory),         TEST(test_collect_no_memory),
        TEST(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
