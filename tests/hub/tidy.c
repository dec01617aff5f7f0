/* Removing models from the cache, and what nobody needs. */
#define _DEFAULT_SOURCE

#include "hub/link.h"
#include "hub_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD "89abcdef0123456789abcdef0123456789abcdef"

static hub_test open_pulled(void) {
    char *folder;
    hub_test t = hub_test_open();
    assert_int_equal(hub_test_pull(&t, "org/model", &folder), MICA_OK);
    mica_free(folder);
    return t;
}

static void check_whole(const hub_test *t) {
    char *folder;
    int bodies = mock_hub_bodies(t->hub);
    assert_int_equal(hub_test_pull(t, "org/model", &folder), MICA_OK);
    assert_int_equal(mock_hub_bodies(t->hub), bodies); /* nothing was missing */
    hub_test_check_model(t, folder);
}

static void write_in_cache(const hub_test *t, const char *below, const char *text) {
    char *folder = hub_test_path(t, "");
    test_write_below(folder, below, text);
    free(folder);
}

/* An older revision, whose files are its own, but for the weights. */
static void add_old_revision(const hub_test *t) {
    char *weights = hub_test_blob(t, "model.safetensors");
    char *target = test_format("../../blobs/%s", strrchr(weights, '/') + 1);
    char *folder = hub_test_path(t, "snapshots/" OLD);
    char *config = test_format("%s/config.json", folder);
    char *shared = test_format("%s/model.safetensors", folder);
    char *other = hub_test_path(t, "blobs/other"); /* it takes the link's place */
    write_in_cache(t, "blobs/aaaa", "older");
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(mc_hub_link(config, "../../blobs/aaaa", other), MICA_OK);
    assert_int_equal(mc_hub_link(shared, target, other), MICA_OK);
    free(weights);
    free(target);
    free(other);
    free(folder);
    free(config);
    free(shared);
}

static void test_collect(void **state) {
    (void)state;
    uint64_t bytes;
    hub_test t = open_pulled();
    assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
    assert_int_equal(bytes, 0);
    add_old_revision(&t);
    write_in_cache(&t, "blobs/bbbb", "unlinked");
    write_in_cache(&t, "blobs/cccc.incomplete", "given up");
    write_in_cache(&t, "trees/" MOCK_COMMIT ".json", "another program's");
    for (int dry = 1; dry >= 0; dry--) {
        assert_int_equal(mica_cache_collect(t.cache, dry, &bytes), MICA_OK);
        assert_int_equal(bytes, 5 + 8 + 8);
    }
    assert_int_equal(hub_test_count(&t, "trees", ""), 1);
    assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
    assert_int_equal(bytes, 0);
    check_whole(&t);
    hub_test_close(&t);
}

/* Where links are hard ones, a blob that a snapshot has stays, and counts once when both go. */
static void test_collect_hard(void **state) {
    (void)state;
    uint64_t bytes;
    hub_test t = open_pulled();
    add_old_revision(&t);
    char *config = hub_test_path(&t, "snapshots/" MOCK_COMMIT "/hard.json");
    char *older = hub_test_path(&t, "snapshots/" OLD "/hard.json");
    char *kept = hub_test_path(&t, "blobs/dddd"), *gone = hub_test_path(&t, "blobs/eeee");
    write_in_cache(&t, "blobs/dddd", "kept");
    write_in_cache(&t, "blobs/eeee", "gone");
    assert_int_equal(link(kept, config), 0);
    assert_int_equal(link(gone, older), 0);
    assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
    assert_int_equal(bytes, 5 + 4);
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_equal(access(gone, F_OK), -1);
    assert_int_equal(unlink(kept) | unlink(config), 0);
    check_whole(&t); /* but for those two */
    free(config);
    free(older);
    free(kept);
    free(gone);
    hub_test_close(&t);
}

/* If no ref names a snapshot, all of them stay. */
static void test_collect_unnamed(void **state) {
    (void)state;
    uint64_t bytes;
    hub_test t = open_pulled();
    char *ref = hub_test_path(&t, "refs/main");
    add_old_revision(&t);
    assert_int_equal(unlink(ref), 0);
    assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
    assert_int_equal(bytes, 0);
    free(ref);
    hub_test_close(&t);
}

/* What somebody is downloading is left alone. */
static void test_busy(void **state) {
    (void)state;
    uint64_t bytes;
    hub_test t = open_pulled();
    write_in_cache(&t, "blobs/bbbb.incomplete", "beginning");
    test_write_below(t.cache, ".locks/models--org--model/bbbb.lock", "");
    char *path = test_format("%s/.locks/models--org--model/bbbb.lock", t.cache);
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(mica_cache_remove("org/model", t.cache, &bytes), MICA_EBUSY);
    close(fd);
    assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
    assert_int_equal(bytes, 9);
    free(path);
    check_whole(&t);
    hub_test_close(&t);
}

/* Locks of other users, which may only be read, count, too. */
static void test_busy_of_others(void **state) {
    (void)state;
    uint64_t bytes = 1;
    hub_test t = open_pulled();
    write_in_cache(&t, "blobs/bbbb.incomplete", "beginning");
    test_write_below(t.cache, ".locks/models--org--model/bbbb.lock", "");
    char *path = test_format("%s/.locks/models--org--model/bbbb.lock", t.cache);
    char *blobs = hub_test_path(&t, "blobs");
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(fchmod(fd, 0444), 0);
    assert_int_equal(chmod(t.folder, 0755), 0);
    assert_int_equal(chmod(blobs, 0777), 0);
    if (test_lose_rights()) {
        assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
        test_regain_rights();
        assert_int_equal(bytes, 0);
    }
    assert_int_equal(hub_test_count(&t, "blobs", ".incomplete"), 1);
    close(fd);
    free(path);
    free(blobs);
    hub_test_close(&t);
}

static void test_remove(void **state) {
    (void)state;
    uint64_t bytes;
    hub_test t = open_pulled();
    test_write_below(t.cache, "models--org--other/blobs/x", "stays");
    assert_int_equal(mica_cache_remove("org/model", t.cache, &bytes), MICA_OK);
    assert_true(bytes >= 300000 + 23 + 2); /* and refs */
    assert_int_equal(hub_test_count(&t, "blobs", ""), 0);
    assert_int_equal(test_count_entries(t.cache), 2); /* .locks and the other */
    assert_int_equal(mica_cache_remove("org/model", t.cache, &bytes), MICA_ENOENT);
    assert_int_equal(mica_cache_remove("../x", t.cache, &bytes), MICA_EINVAL);
    assert_int_equal(mica_cache_remove(NULL, t.cache, &bytes), MICA_EINVAL);
    hub_test_close(&t);
}

/* Links that lead out of the cache are removed, and not what they lead to. */
static void test_links_out(void **state) {
    (void)state;
    if (!test_has_links()) skip();
    hub_test t = open_pulled();
    test_write_below(t.folder, "outside/precious", "keep");
    char *outside = test_format("%s/outside", t.folder);
    char *link = hub_test_path(&t, "blobs/dddd"), *folder = hub_test_path(&t, "snapshots/x");
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(symlink(outside, folder), 0);
    assert_int_equal(mica_cache_collect(t.cache, false, NULL), MICA_OK);
    assert_int_equal(mica_cache_remove("org/model", t.cache, NULL), MICA_OK);
    assert_int_equal(test_count_entries(outside), 1);
    free(outside);
    free(link);
    free(folder);
    hub_test_close(&t);
}

/* The blob of a link is kept, however long a way it takes. */
static void test_long_link(void **state) {
    (void)state;
    enum { LENGTH = 1100 };
    if (!test_has_links()) skip();
    hub_test t = open_pulled();
    uint64_t bytes;
    char *link = hub_test_path(&t, "snapshots/" MOCK_COMMIT "/more"),
         target[LENGTH + 32] = "../../";
    while (strlen(target) < LENGTH)
        strcat(target, "./");
    strcat(target, "blobs/eeee");
    write_in_cache(&t, "blobs/eeee", "linked");
    if (symlink(target, link) == 0) {
        assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
        assert_int_equal(bytes, 0);
    } else {
        assert_int_equal(errno, ENAMETOOLONG);
    }
    free(link);
    hub_test_close(&t);
}

static void test_no_cache(void **state) {
    (void)state;
    uint64_t bytes = 1;
    hub_test t = hub_test_open();
    assert_int_equal(mica_cache_collect(t.cache, false, &bytes), MICA_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(mica_cache_remove("org/model", t.cache, &bytes), MICA_ENOENT);
    hub_test_close(&t);
}

static bool collect_once(void *user) {
    const hub_test *t = user;
    mica_status status = mica_cache_collect(t->cache, false, NULL);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    hub_test t = open_pulled();
    test_fail_each_allocation(collect_once, &t);
    check_whole(&t); /* never removes what it could not find out about */
    hub_test_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collect),   cmocka_unit_test(test_collect_unnamed),
        cmocka_unit_test(test_busy),      cmocka_unit_test(test_remove),
        cmocka_unit_test(test_links_out), cmocka_unit_test(test_no_cache),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_busy_of_others),
        cmocka_unit_test(test_long_link), cmocka_unit_test(test_collect_hard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
