/* base/filemap: mapped files and paths. */
#define _DEFAULT_SOURCE /* RLIMIT_MEMLOCK */
#define _DARWIN_C_SOURCE

#include "base/filemap.h"

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_map(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/weights", dir);
    char bytes[10000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    test_write_file(path, bytes, sizeof bytes);
    mc_filemap map;
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_OK);
    assert_int_equal(map.size, sizeof bytes);
    assert_memory_equal(map.data, bytes, sizeof bytes);
    mc_filemap_close(&map);
    mc_filemap_close(&map);
    assert_null(map.data);
    test_write_file(path, "", 0);
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_OK);
    assert_int_equal(map.size, 0);
    assert_null(map.data);
    mc_filemap_close(&map);
    mc_alloc_fail_at(1);
    mica_status status = mc_filemap_open(path, MC_FILE_WEIGHTS, &map);
    mc_alloc_fail_at(0);
    assert_int_equal(status, MICA_ENOMEM);
    free(path);
    test_temp_dir_remove(dir);
}

typedef struct ticks {
    size_t count, bytes, max; /* most: ticks until the work is ended, 0: never */
} ticks;

static mica_status count_tick(void *context, size_t bytes) {
    ticks *t = context;
    t->count++;
    t->bytes += bytes;
    return t->max && t->count >= t->max ? mc_fail(MICA_ECANCELLED, "enough") : MICA_OK;
}

enum { LARGE = (20 << 20) + 12345 }; /* bytes: several ticks, and no whole page at the end */

static char *write_large(const char *path) {
    char *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 7 + i / 4096);
    test_write_file(path, bytes, LARGE);
    return bytes;
}

static void test_read(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/weights", dir), *bytes = write_large(path);
    static const char zeros[64];
    mc_filemap file;
    ticks t = {0};
    mc_file_watch watch = {count_tick, &t};
    assert_int_equal(mc_filemap_read(path, MC_FILE_WEIGHTS, 64, &watch, &file), MICA_OK);
    assert_int_equal(file.size, LARGE);
    assert_memory_equal(file.data, bytes, LARGE);
    assert_memory_equal(file.data + LARGE, zeros, 64);
    assert_int_equal(t.bytes, LARGE);
    assert_true(t.count > 1);
    assert_int_equal(mc_filemap_prefetch(&file, &watch), MICA_OK); /* it is there already */
    assert_int_equal(t.bytes, LARGE);
    mc_filemap_close(&file);
    mc_filemap_close(&file);
    assert_null(file.data);

    t = (ticks){.max = 2};
    assert_int_equal(mc_filemap_read(path, MC_FILE_WEIGHTS, 0, &watch, &file), MICA_ECANCELLED);
    assert_int_equal(t.count, 2);
    assert_null(file.data);
    mc_alloc_fail_at(1);
    mica_status status = mc_filemap_read(path, MC_FILE_WEIGHTS, 0, NULL, &file);
    mc_alloc_fail_at(0);
    assert_int_equal(status, MICA_ENOMEM);
    assert_int_equal(mc_filemap_read(path, MC_FILE_WEIGHTS, SIZE_MAX, NULL, &file), MICA_ENOMEM);
    test_write_file(path, "", 0);
    assert_int_equal(mc_filemap_read(path, MC_FILE_WEIGHTS, 8, NULL, &file), MICA_OK);
    assert_int_equal(file.size, 0);
    assert_memory_equal(file.data, zeros, 8);
    mc_filemap_close(&file);
    free(bytes);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_read_head(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/file", dir);
    mc_filemap head;
    size_t size = 0;
    test_write_file(path, "a text", 6);
    for (size_t max = 0; max < 9; max++) {
        assert_int_equal(mc_filemap_read_head(path, max, &head, &size), MICA_OK);
        assert_int_equal(size, 6);
        assert_int_equal(head.size, max < 6 ? max : 6);
        assert_memory_equal(head.data, "a text", head.size);
        mc_filemap_close(&head);
    }
    assert_int_equal(mc_filemap_read_head(dir, 1, &head, &size), MICA_EIO);
    test_write_file(path, "", 0);
    assert_int_equal(mc_filemap_read_head(path, 1, &head, &size), MICA_OK);
    assert_int_equal(head.size, 0);
    assert_int_equal(size, 0);
    mc_filemap_close(&head);
    mc_alloc_fail_at(1);
    mica_status status = mc_filemap_read_head(path, 1, &head, &size);
    mc_alloc_fail_at(0);
    assert_int_equal(status, MICA_ENOMEM);
    mc_filemap_close(&head);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_prefetch(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/weights", dir), *bytes = write_large(path);
    mc_filemap map;
    ticks t = {0};
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_OK);
    assert_int_equal(mc_filemap_prefetch(&map, &(mc_file_watch){count_tick, &t}), MICA_OK);
    assert_int_equal(t.bytes, LARGE);
    assert_true(t.count > 1);
    assert_memory_equal(map.data, bytes, LARGE);
    t = (ticks){.max = 1};
    assert_int_equal(mc_filemap_prefetch(&map, &(mc_file_watch){count_tick, &t}), MICA_ECANCELLED);
    assert_int_equal(t.count, 1);
    assert_int_equal(mc_filemap_prefetch(&map, NULL), MICA_OK);
    assert_true(mc_filemap_is_present(&map));
    mc_filemap_close(&map);
    assert_int_equal(mc_filemap_prefetch(&map, NULL), MICA_OK); /* nothing of nothing */
    assert_true(mc_filemap_is_present(&map));
    free(bytes);
    free(path);
    test_temp_dir_remove(dir);
}

/* In a process of its own, that may lock no more than a page. returns its exit code: 0 */
static int lock_beyond_limit(mc_filemap *map) {
    struct rlimit page = {4096, 4096};
    if (setrlimit(RLIMIT_MEMLOCK, &page) != 0) return 1;
    if (geteuid() == 0 && setuid(65534) != 0) return 2; /* root may lock everything */
    if (mlock(map->data, map->size) == 0) return 0;     /* the sanitizers', which does nothing */
    if (mc_filemap_lock(map, "some.safetensors") != MICA_ENOMEM) return 3;
    if (map->locked) return 4;
    const char *error = mica_last_error();
    return strstr(error, "some.safetensors") && strstr(error, "4096") && strstr(error, "ulimit")
               ? 0
               : 5;
}

/* Bytes of the process that are in memory; 0 where the system does not tell. */
static size_t resident_bytes(void) {
    char text[200];
    unsigned long long kib = 0; /* not pages, which an emulator may give another size */
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(text, sizeof text, file))
        if (sscanf(text, "VmRSS: %llu", &kib) == 1) break;
    if (file) fclose(file);
    return (size_t)kib * 1024;
}

/* Reads a byte of each page. */
static void touch(const mc_filemap *map) {
    for (size_t at = 0; at < map->size; at += 4096)
        (void)*((const volatile uint8_t *)map->data + at);
}

/* What is let go is out of memory, and nothing else: the same as after the system's own call, which
 * emulators ignore. */
static void test_release_memory(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/weights", dir), *bytes = write_large(path);
    mc_filemap map;
    free(bytes);
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_OK);
    touch(&map);
    size_t all = resident_bytes();
    int called = madvise((void *)(uintptr_t)map.data, map.size, MADV_DONTNEED);
    bool told = called == 0 && resident_bytes() + LARGE / 4 * 3 < all;
    touch(&map);
    all = resident_bytes();
    mc_filemap_release(&map, map.data, map.size / 2);
    size_t half = resident_bytes();
    mc_filemap_release(&map, map.data, map.size);
    size_t none = resident_bytes();
    if (told) {
        assert_true(half < all && none < half);
        assert_in_range(all - half, LARGE / 8 * 3, LARGE / 8 * 5);
        assert_in_range(all - none, LARGE / 4 * 3, LARGE / 4 * 5);
    }
    mc_filemap_close(&map);
    free(path);
    test_temp_dir_remove(dir);
    if (!told) skip();
}

/* Bytes are the same after their pages were let go, those of a part of a page as well. */
static void test_release(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/weights", dir), *bytes = write_large(path);
    mc_filemap map;
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_OK);
    for (size_t at = 0; at < 3; at++) {
        assert_memory_equal(map.data, bytes, map.size);
        mc_filemap_release(&map, map.data + at, map.size - 2 * at);
        mc_filemap_release(&map, map.data + at, at);
    }
    assert_memory_equal(map.data, bytes, map.size);
    mc_filemap_close(&map);
    assert_int_equal(mc_filemap_read(path, MC_FILE_WEIGHTS, 0, NULL, &map), MICA_OK);
    mc_filemap_release(&map, map.data, map.size);
    assert_memory_equal(map.data, bytes, map.size);
    mc_filemap_close(&map);
    free(bytes);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_lock(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/weights", dir), *bytes = write_large(path);
    mc_filemap map, none = {0};
    assert_int_equal(mc_filemap_lock(&none, path), MICA_OK);
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_OK);
    pid_t child = fork();
    if (child == 0) _exit(lock_beyond_limit(&map));
    int code = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    mc_filemap_close(&map);

    test_write_file(path, "0123", 4); /* as little as any limit allows */
    assert_int_equal(mc_filemap_read(path, MC_FILE_WEIGHTS, 0, NULL, &map), MICA_OK);
    if (mc_filemap_lock(&map, path) == MICA_OK) assert_true(map.locked);
    mc_filemap_close(&map);
    assert_false(map.locked);
    free(bytes);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_look(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/x", dir), *link = test_format("%s/y", dir);
    mc_path_info info, linked, folder;
    assert_false(mc_path_stat(path, &info));
    test_write_file(path, "12345", 5);
    assert_int_equal(symlink(path, link), 0);
    assert_true(mc_path_stat(path, &info) && mc_path_stat(link, &linked));
    assert_true(info.is_file && !info.is_dir && info.bytes == 5 && info.modified > 0);
    assert_memory_equal(info.id, linked.id, sizeof info.id);
    assert_true(mc_path_stat(dir, &folder) && folder.is_dir && !folder.is_file);
    assert_memory_not_equal(info.id, folder.id, sizeof info.id);
    assert_int_equal(unlink(path), 0);
    assert_false(mc_path_stat(link, &linked));
    free(link);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_what_cannot_be_mapped(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/x", dir);
    mc_filemap map;
    assert_int_equal(mc_filemap_read(path, MC_FILE_WEIGHTS, 0, NULL, &map), MICA_ENOENT);
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), path));
    assert_int_equal(mc_filemap_open(dir, MC_FILE_WEIGHTS, &map), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), "is a folder"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map),
                     MICA_EIO); /* and does not wait for a writer */
    unlink(path);
    test_write_file(path, "x", 1);
    assert_int_equal(chmod(path, 0), 0);
    if (test_lose_rights()) {
        assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_EIO);
        assert_non_null(strstr(mica_last_error(), "Permission denied"));
    }
    test_regain_rights();
    free(path);
    test_temp_dir_remove(dir);
}

/* Sparse files: the size is looked at before memory is taken. */
static void test_too_large(void **state) {
    (void)state;
    static const struct {
        const char *words;
        size_t bytes;
    } kinds[] = {
#define FILE_KIND(name, words, bytes) {words, bytes},
#include "base/file_kind_list.h"
#undef FILE_KIND
    };
    char *dir = test_temp_dir(), *path = test_format("%s/x", dir);
    size_t limited = 0;
    mc_filemap map;
    test_write_file(path, "", 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].bytes == SIZE_MAX) continue;
        mc_file_kind kind = (mc_file_kind)i;
        char *limit = test_format("%s at most %zu", kinds[i].words, kinds[i].bytes);
        assert_int_equal(truncate(path, (off_t)kinds[i].bytes), 0);
        assert_int_equal(mc_filemap_open(path, kind, &map), MICA_OK);
        mc_filemap_close(&map);
        assert_int_equal(truncate(path, (off_t)kinds[i].bytes + 1), 0);
        assert_int_equal(mc_filemap_open(path, kind, &map), MICA_EFORMAT);
        assert_non_null(strstr(mica_last_error(), limit));
        assert_int_equal(mc_filemap_read(path, kind, 0, NULL, &map), MICA_EFORMAT);
        free(limit);
        limited++;
    }
    assert_true(limited > 3);
    assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_OK);
    mc_filemap_close(&map);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_paths(void **state) {
    (void)state;
    static const struct {
        const char *dir, *name, *want;
    } cases[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *joined = mc_path_join(cases[i].dir, cases[i].name);
        assert_string_equal(joined, cases[i].want);
        mc_free(joined);
    }
    static const char *const entries[] = {"a", "a.b", "a..", "..", ".a", "", "a/b", "a\\b", "\\a"};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) /* the first three */
        assert_int_equal(mc_is_entry_name(mc_str_of(entries[i])), i < 3);
    assert_false(mc_is_entry_name(MC_STR("a\0b")));
    assert_string_equal(mc_path_name("a/b/c"), "c");
    assert_string_equal(mc_path_name("c"), "c");
    assert_string_equal(mc_path_name("a/"), "");
    char *dir = test_temp_dir(), *path = test_format("%s/x", dir);
    assert_true(mc_path_is_dir(dir) && !mc_path_is_file(dir));
    assert_true(!mc_path_is_dir(path) && !mc_path_is_file(path));
    test_write_file(path, "x", 1);
    assert_true(!mc_path_is_dir(path) && mc_path_is_file(path));
    free(path);
    test_temp_dir_remove(dir);
}

static bool list(void *arg) {
    mc_arena arena = {0};
    const char **names;
    size_t count = 0;
    mica_status status = mc_dir_list(arg, ".b", &arena, &names, &count);
    if (status == MICA_OK) {
        assert_int_equal(count, 3);
        assert_string_equal(names[0], "B.b");
        assert_string_equal(names[1], "a.b");
        assert_string_equal(names[2], "c.b");
    } else {
        assert_int_equal(status, MICA_ENOMEM);
    }
    mc_arena_deinit(&arena);
    return status == MICA_OK;
}

static void test_folder(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    static const char *const files[] = {"c.b", "a.b", "B.b", ".hidden.b", "other", "a.bc"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *path = test_format("%s/%s", dir, files[i]);
        test_write_file(path, "", 0);
        free(path);
    }
    assert_true(list(dir));
    test_fail_each_allocation(list, dir);
    mc_arena arena = {0};
    const char **names;
    size_t count;
    assert_int_equal(mc_dir_list(dir, ".none", &arena, &names, &count), MICA_OK);
    assert_int_equal(count, 0);
    mc_arena_deinit(&arena);
    test_temp_dir_remove(dir);
    assert_int_equal(mc_dir_list("/no/such/folder", "", &arena, &names, &count), MICA_ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_read_head),
        cmocka_unit_test(test_prefetch),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_release_memory),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_what_cannot_be_mapped),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
