/* Finding model folders in made-up trees. */
#define _POSIX_C_SOURCE 200809L

#include "io/model_search.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

/* Makes the folders of root/path, path's last part included. */
static void make_dirs(const char *root, const char *path) {
    char *all = test_format("%s/%s", root, path);
    for (char *at = all + strlen(root) + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        mkdir(all, 0755);
        *at = '/';
    }
    mkdir(all, 0755);
    free(all);
}

static void make_file(const char *root, const char *path, const char *name, size_t size) {
    char *bytes = calloc(1, size + 1), *file = test_format("%s/%s/%s", root, path, name);
    assert_non_null(bytes);
    test_write_file(file, bytes, size);
    free(file);
    free(bytes);
}

static void make_model(const char *root, const char *path, size_t size) {
    make_dirs(root, path);
    make_file(root, path, "config.json", 0);
    make_file(root, path, "model.safetensors", size);
}

static void make_link(const char *root, const char *path, const char *to) {
    char *link = test_format("%s/%s", root, path);
    assert_int_equal(symlink(to, link), 0);
    free(link);
}

static void set_time(const char *root, const char *path, long when) {
    char *file = test_format("%s/%s", root, path);
    struct utimbuf times = {when, when}; /* not const: mingw declares it so */
    assert_int_equal(utime(file, &times), 0);
    free(file);
}

typedef struct result {
    mc_arena arena;
    mc_buffer found;
} result;

static result find(const char *path) {
    result r = {0};
    if (mc_model_folders_find(path, &r.arena, &r.found) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return r;
}

static void release(result *r) {
    mc_arena_deinit(&r->arena);
    mc_buffer_deinit(&r->found);
}

static void expect(const result *r, size_t i, const char *root, const char *path, const char *name,
                   uint64_t bytes) {
    assert_true(i < MC_BUFFER_COUNT(&r->found, mc_found_folder));
    const mc_found_folder *found = &MC_BUFFER_AT(&r->found, mc_found_folder)[i];
    char *want = test_format("%s/%s", root, path);
    assert_string_equal(found->path, want);
    assert_string_equal(found->name, name);
    assert_int_equal(found->weight_bytes, bytes);
    free(want);
}

static void expect_files(const result *r, size_t i, uint64_t files) {
    assert_int_equal(MC_BUFFER_AT(&r->found, mc_found_folder)[i].weight_files, files);
}

static void expect_count(const result *r, size_t count) {
    assert_int_equal(MC_BUFFER_COUNT(&r->found, mc_found_folder), count);
}

static void test_folders(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    make_model(dir, "org/small", 10);
    make_model(dir, "org/small/inside", 11); /* of a model: not looked at */
    make_model(dir, "top", 12);
    make_file(dir, "top", "extra.safetensors", 30);
    make_model(dir, ".hidden/x", 13);
    make_dirs(dir, "no-weights");
    make_file(dir, "no-weights", "config.json", 2);
    make_dirs(dir, "no-config");
    make_file(dir, "no-config", "model.safetensors", 2);
    make_dirs(dir, "cut");
    make_file(dir, "cut", "config.json", 2);
    make_link(dir, "cut/model.safetensors", "gone");
    result r = find(dir);
    expect_count(&r, 2);
    expect(&r, 0, dir, "top", "top", 42);
    expect_files(&r, 0, 2);
    expect(&r, 1, dir, "org/small", "org/small", 10);
    expect_files(&r, 1, 1);
    release(&r);

    char *slashes = test_format("%s/top///", dir);
    r = find(slashes);
    expect_count(&r, 1);
    expect(&r, 0, dir, "top", "top", 42);
    release(&r);
    free(slashes);
    test_temp_dir_remove(dir);
}

static void test_depth(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    make_model(dir, "1/2/3/4/5/6/7/8", 1);
    make_model(dir, "a/2/3/4/5/6/7/8/9", 1);
    result r = find(dir);
    expect_count(&r, 1);
    expect(&r, 0, dir, "1/2/3/4/5/6/7/8", "1/2/3/4/5/6/7/8", 1);
    release(&r);
    test_temp_dir_remove(dir);
}

static void test_links(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    make_model(dir, "a/model", 7);
    make_link(dir, "a/again", "model");
    make_link(dir, "a/up", "..");
    make_link(dir, "a/self", ".");
    make_link(dir, "round", "round");
    make_link(dir, "nowhere", "/no/where");
    make_link(dir, "b", "a");
    result r = find(dir);
    expect_count(&r, 1);
    expect(&r, 0, dir, "a/again", "a/again", 7);
    release(&r);
    test_temp_dir_remove(dir);
}

static void test_repositories(void **state) {
    (void)state;
    static const char *const parts[] = {"models--org--some-name", "models--solo",
                                        "models--org--lost-ref", "models--org--empty"};
    char *dir = test_temp_dir();
    for (size_t i = 0; i < 3; i++) {
        char *old = test_format("%s/snapshots/0old", parts[i]);
        char *new = test_format("%s/snapshots/1new", parts[i]);
        char *other = test_format("%s/snapshots/2other", parts[i]);
        char *blobs = test_format("%s/blobs", parts[i]), *refs = test_format("%s/refs", parts[i]);
        make_dirs(dir, blobs);
        make_dirs(dir, refs);
        make_dirs(dir, old);
        make_file(dir, blobs, "f00", 100 + i);
        make_file(dir, old, "config.json", 2);
        char *link = test_format("%s/model.safetensors", old);
        make_link(dir, link, "../../blobs/f00");
        free(link);
        make_model(dir, new, 50 + i);
        make_model(dir, other, 60 + i);
        set_time(dir, old, 1000);
        set_time(dir, new, 3000);
        set_time(dir, other, 2000);
        free(old);
        free(new);
        free(other);
        free(blobs);
        free(refs);
    }
    make_dirs(dir, parts[3]);
    char *main = test_format("%s/%s/refs/main", dir, parts[0]);
    test_write_file(main, "0old\n", 5);
    free(main);
    main = test_format("%s/%s/refs/main", dir, parts[2]);
    test_write_file(main, "../0old", 7);
    result r = find(dir);
    expect_count(&r, 3);
    expect(&r, 0, dir, "models--org--lost-ref/snapshots/1new", "org/lost-ref", 52);
    expect(&r, 1, dir, "models--org--some-name/snapshots/0old", "org/some-name", 100);
    expect(&r, 2, dir, "models--solo/snapshots/1new", "solo", 51);
    release(&r);

    char *one = test_format("%s/%s/", dir, parts[0]);
    r = find(one);
    expect_count(&r, 1);
    expect(&r, 0, dir, "models--org--some-name/snapshots/0old", "org/some-name", 100);
    release(&r);
    free(one);
    free(main);
    test_temp_dir_remove(dir);
}

static void test_unreadable(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *locked = test_format("%s/locked", dir);
    result r = {0};
    make_model(dir, "locked/model", 1);
    make_model(dir, "model", 2);
    assert_int_equal(chmod(locked, 0), 0);
    if (test_lose_rights()) {
        r = find(dir);
        expect_count(&r, 1);
        expect(&r, 0, dir, "model", "model", 2);
        release(&r);
        assert_int_equal(mc_model_folders_find(locked, &r.arena, &r.found), MICA_EIO);
    }
    test_regain_rights();
    assert_int_equal(chmod(locked, 0700), 0);
    free(locked);
    locked = test_format("%s/model/config.json", dir);
    assert_int_equal(mc_model_folders_find(locked, &r.arena, &r.found), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), locked));
    assert_int_equal(mc_model_folders_find("/no/where", &r.arena, &r.found), MICA_ENOENT);
    release(&r);
    free(locked);
    test_temp_dir_remove(dir);
}

static bool find_once(void *arg) {
    result r = {0};
    bool done = mc_model_folders_find(arg, &r.arena, &r.found) == MICA_OK;
    if (done) expect_count(&r, 3);
    release(&r);
    return done;
}

static void test_no_memory(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    make_model(dir, "a/b", 1);
    make_model(dir, "models--x--y/snapshots/1", 1);
    make_model(dir, "models--x--z/snapshots/1", 1);
    make_dirs(dir, "models--x--z/refs");
    char *main = test_format("%s/models--x--z/refs/main", dir);
    test_write_file(main, "1", 1);
    test_fail_each_allocation(find_once, dir);
    free(main);
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders),    cmocka_unit_test(test_depth),
        cmocka_unit_test(test_links),      cmocka_unit_test(test_repositories),
        cmocka_unit_test(test_unreadable), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("io/model_search", tests, NULL, NULL);
}
